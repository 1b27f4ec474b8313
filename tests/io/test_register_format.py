"""A file format in one file of a stranger: read, write, convert, --format, --to and the endings know it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import concordant as cc
from concordant.cli._group import build
from concordant.errors import ContractError, FormatError, ParameterError
from concordant.io.formats import FORMATS, register_format
from concordant.io.read import sniff

CODE = '''
import concordant as cc


def read_arrows(paths, *, separator=">"):
    """Read lines of "expert: best > next > ..."."""
    lines = (line.split(":") for path in paths for line in path.read_text().splitlines())
    return cc.from_lists({expert: [item.strip() for item in order.split(separator)] for expert, order in lines})


def write_arrows(consensus, path, *, separator=" > "):
    """Write a line of items for each instance."""
    with open(path, "w") as file:
        for instance in consensus.instances:
            file.write(f"{instance}: {separator.join(consensus.ranking(instance))}\\n")


def append_arrows(consensus, handle, *, first):
    handle.write("".join(f"{q}: {' > '.join(consensus.ranking(q))}\\n" for q in consensus.instances).encode())


def is_arrows(head):
    return bool(head.lines) and all(":" in line and ">" in line for line in head.lines)


cc.register_format(
    "arrows", "lines of expert: a > b > c", read=read_arrows, write=write_arrows, sniff=is_arrows,
    extensions=(".arrows",), writes=(cc.Consensus,), append=append_arrows,
)
cc.register_format("marked", "files that end in .marked", read=read_arrows, extensions=(".marked",))
'''


@pytest.fixture
def votes(installed: Callable[..., None], tmp_path: Path) -> Path:
    points = {"arrows": "plugin_arrows", "marked": "plugin_arrows"}
    installed("plugin_arrows", CODE, {"concordant.formats": points})
    path = tmp_path / "votes.txt"
    path.write_text("ann: a > b > c\nbob: b > a\n")
    return path


def run(*args: object) -> str:
    done = CliRunner().invoke(build(), [str(a) for a in args])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_format_of_an_installed_package_is_read(votes: Path, tmp_path: Path) -> None:
    expected = cc.from_lists({"ann": ["a", "b", "c"], "bob": ["b", "a"]})
    assert sniff(votes) == "arrows"
    assert cc.read(votes).preferences == expected
    assert cc.read(votes, "arrows", separator=">").preferences == expected
    with pytest.raises(ParameterError, match=r"format 'arrows' does not take \['order'\]\. It takes separator"):
        cc.read(votes, order=1)
    (tmp_path / "votes.marked").write_text("ann: a>b\n")
    with pytest.raises(FormatError, match=r"may be arrows \(lines of expert: a > b > c\) or marked"):
        cc.read(tmp_path / "votes.marked")
    (tmp_path / "votes.marked").write_text("ann: a|b\n")
    assert cc.read(tmp_path / "votes.marked", separator="|").preferences == cc.from_lists({"ann": ["a", "b"]})
    with pytest.raises(FormatError, match=r"cannot be read in blocks of instances\. Formats that can: long, rankings"):
        cc.scan(votes)


def test_a_format_of_an_installed_package_is_written(votes: Path, tmp_path: Path) -> None:
    consensus = cc.Consensus(["q1", "q1", "q2"], ["a", "b", "c"], [1.0, 2.0, 3.0])
    cc.write(consensus, tmp_path / "out.arrows")
    assert (tmp_path / "out.arrows").read_text() == "q1: b > a\nq2: c\n"
    cc.write(consensus, tmp_path / "out", "arrows", separator=">")
    assert (tmp_path / "out").read_text() == "q1: b>a\nq2: c\n"
    with pytest.raises(FormatError, match=r"the format 'arrows' cannot hold Labels\. Formats for Labels: .*csv, "):
        cc.write(cc.Labels(["q"], ["a"], [1]), tmp_path / "labels.arrows")
    with pytest.raises(FormatError, match=r"the ending does not say the format\. Use one of .*\.arrows, "):
        cc.write(consensus, tmp_path / "out.nothing")
    with pytest.raises(ParameterError, match=r"'format' parameter of write must be one of .*'arrows', 'csv'"):
        cc.write(consensus, tmp_path / "out", "marked")


def test_a_format_of_an_installed_package_is_written_block_by_block(votes: Path, tmp_path: Path) -> None:
    runs = tmp_path / "a.trec"
    runs.write_text("1 Q0 d1 1 9 x\n1 Q0 d2 2 8 x\n2 Q0 d3 1 9 x\n")
    with cc.scan(runs, block_rows=1) as blocks:
        cc.aggregate_blocks(blocks, tmp_path / "fused.arrows", "rrf")
    assert (tmp_path / "fused.arrows").read_text() == "1: d1 > d2\n2: d3\n"


def test_a_format_of_an_installed_package_is_known_on_the_command_line(votes: Path, tmp_path: Path) -> None:
    fused = tmp_path / "fused.arrows"
    run("aggregate", votes, "-m", "borda", "-o", fused)
    assert fused.read_text().endswith(": a > b > c\n")
    run("aggregate", votes, "--format", "arrows", "--read", "separator=>", "-o", tmp_path / "other", "--to", "arrows")
    run("convert", votes, "-o", tmp_path / "votes.csv")
    assert cc.read(tmp_path / "votes.csv").preferences == cc.read(votes).preferences
    shown = run("convert", "--help")
    assert " ".join(shown.split()).count("arrows") == 2, "both --format and --to list it"


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORMATS, "entries", FORMATS.own())


@pytest.mark.usefixtures("restored")
def test_a_file_that_one_of_ours_recognises_is_not_offered_to_others(tmp_path: Path) -> None:
    register_format("greedy", "everything", read=lambda _: None, sniff=lambda _: True)
    (tmp_path / "a.txt").write_text("301 Q0 d1 1 2.5 bm25\n")
    assert sniff(tmp_path / "a.txt") == "trec"
    (tmp_path / "b.txt").write_text("anything\n")
    assert sniff(tmp_path / "b.txt") == "greedy"
    with pytest.raises(ContractError, match=r"reader of the format 'greedy' must return a Dataset.* Got NoneType"):
        cc.read(tmp_path / "b.txt")


@pytest.mark.usefixtures("restored")
def test_a_reader_may_take_any_option_and_name_its_paths_as_it_likes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("anything\n")
    register_format("open", "any options", read=lambda _, **options: cc.from_lists({"x": [*options]}))
    assert cc.read(path, "open", a=1, b=2).preferences == cc.from_lists({"x": ["a", "b"]})
    register_format("closed", "no options", read=lambda files: cc.from_lists({"x": [files[0].name]}))
    with pytest.raises(ParameterError, match=r"does not take \['files'\]\. It takes no options"):
        cc.read(path, "closed", files=1)


@pytest.mark.usefixtures("restored")
def test_what_cannot_be_a_format_is_refused() -> None:
    with pytest.raises(ParameterError, match="'none' can neither be read nor written"):
        register_format("none", "nothing")
    with pytest.raises(ParameterError, match="'extensions' parameter of register_format must be a tuple of endings"):
        register_format("bare", "no dot", read=cc.read_runs, extensions=("run",))
    with pytest.raises(ParameterError, match="'extensions' parameter of register_format must be"):
        register_format("text", "one text", read=cc.read_runs, extensions=".run")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"register_format has no parameter 'apend'\. Did you mean 'append'"):
        register_format("slip", "a slip", read=cc.read_runs, apend=print)
    with pytest.raises(ParameterError, match=r"the format 'trec', and concordant\.io\.trec has one of that name"):
        register_format("trec", "mine", read=cc.read_runs)

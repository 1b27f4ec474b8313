"""The campaign of `make attack` in small, and proof that its judges notice what they are there for."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.attack import files, watch

import concordant as cc
from concordant.errors import DataError, FormatError, ParseError

# The watchdog.


def test_a_hang_is_killed_and_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    at = {"1": "hang", "3": "slow once", "4": "abort", "5": "print", "7": "foreign"}
    records = watch.judged("tests.attack.fakes:numbered", {"at": at}, range(9), tmp_path, limit=0.7)
    found = {r["number"]: r["outcome"] for r in records}
    assert found == {n: {1: "hang", 4: "died", 7: "KeyError"}.get(n, "read") for n in range(9)}


def test_a_judge_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no_such_judge"):
        list(watch.judged("tests.attack.fakes:no_such_judge", {}, range(3), tmp_path))


def test_tallies_of_parts_add_up(tmp_path: Path) -> None:
    at = {"2": "foreign", "5": "foreign", "6": "exit"}
    whole = watch.share("tests.attack.fakes:numbered", {"at": at}, 0, 8, tmp_path, 2)
    assert (whole["inputs"], whole["outcomes"]["read"], whole["counts"]) == (8, 5, {"seen": 5})
    assert (whole["findings"]["foreign"], whole["findings"]["died"], whole["findings"]["hang"]) == (2, 1, 0)
    assert [name for name, _ in whole["examples"]["foreign"]] == ["2", "5"]
    both = watch.joined([whole, whole])
    assert (both["inputs"], both["findings"]["foreign"], both["outcomes"]["read"]) == (16, 4, 10)


# The judge of files.

GOOD = files.CASES["ratings"]


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """Return the findings about a reader of a small table of ratings."""
    (tmp_path / "inside" / "packed").mkdir(parents=True)
    audit = watch.Audit(tmp_path / "inside")

    def judge(read: Callable[[Path], Any], data: bytes = GOOD.data, number: int = 0) -> list[tuple[str, str]]:
        case = replace(GOOD, read=read, scan=None)
        found: list[tuple[str, str]] = files.judge_file(case, data, number, tmp_path / "inside", audit)["findings"]
        return found

    return judge


def raising(error: Callable[[Path], BaseException]) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        raise error(path)

    return read


class Panic(BaseException):
    """What comes from below Python is no Exception."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (lambda _: KeyError("x"), "foreign KeyError"),
        (lambda _: MemoryError(), "foreign MemoryError"),
        (lambda _: RecursionError(), "foreign RecursionError"),
        (lambda _: Panic(), "foreign Panic"),
        (lambda _: FormatError("somewhere"), "the file is not named"),
        (lambda p: ParseError(p, None, "somewhere"), "no line is named"),
        (lambda p: FormatError(f"{p}: " + "x" * 2000), "a message of 20"),
    ],
)
def test_errors_that_are_not_as_they_should_be_are_noticed(judged: Any, error: Any, words: str) -> None:
    # Twice, for it is read in two ways; of a packed file no line can be asked for.
    found = [said for sort, said in judged(raising(error)) if sort == "foreign"]
    assert len(found) == (1 if words == "no line is named" else 2)
    assert all(words in said for said in found)


def test_an_error_of_ours_is_no_finding(judged: Any) -> None:
    # The naive parser would read it: that is counted, and is no silent wrong answer.
    assert judged(raising(lambda p: ParseError(p, 3, "of no use"))) == []
    assert judged(raising(lambda p: DataError(f"{p}: of no use")), b"\xff") == []


class Hostile:
    """An object whose pickle asks for a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return len, ("abc",)


PICKLED = pickle.dumps(Hostile())


@pytest.mark.parametrize(
    "does",
    [
        lambda _: os.system("true"),
        lambda _: subprocess.run(["true"], check=True),
        lambda _: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
        lambda _: pickle.loads(PICKLED),
        lambda p: (p.parents[1] / "outside").write_text("x"),
        lambda p: (p.parents[1] / "folder").mkdir(exist_ok=True),
        lambda p: (p.parents[1] / "there").unlink(missing_ok=True),
        lambda p: os.rename(p.parents[1] / "there", p.parents[1] / "gone") if (p.parents[1] / "there").exists() else 0,
    ],
)
def test_whatever_is_executed_or_changed_elsewhere_is_noticed(judged: Any, tmp_path: Path, does: Any) -> None:
    (tmp_path / "there").touch()

    def read(path: Path) -> Any:
        does(path)
        return cc.read_ratings(path)

    assert {sort for sort, _ in judged(read)} == {"executed"}


def test_a_reader_may_write_inside_its_folder_and_read_elsewhere(judged: Any) -> None:
    def read(path: Path) -> Any:
        path.with_name("notes").write_text("x")
        path.with_name("notes").unlink()
        Path(__file__).read_bytes()
        return cc.read_ratings(path)

    assert judged(read) == []


def test_answers_that_are_wrong_are_noticed(judged: Any) -> None:
    def first_row_lost(path: Path) -> Any:
        found = cc.read_ratings(path).to_frame()
        return cc.from_frame(found[1:], value="rating", kind="rating")

    other = cc.Preferences(["q"], ["x"], ["a"], [1.0], kind="rating")

    def another_when_packed(path: Path) -> Any:
        return other if path.parent.name == "packed" else cc.read_ratings(path)

    def refuses_what_is_packed(path: Path) -> Any:
        if path.parent.name == "packed":
            raise FormatError(f"{path}: packed")
        return cc.read_ratings(path)

    assert judged(cc.read_ratings) == []
    assert [said.split(":")[0] for _, said in judged(first_row_lost)] == ["wrong contents"]
    assert [said.split(":")[0] for _, said in judged(another_when_packed)] == ["gz"]
    assert [said.split(":")[0] for _, said in judged(refuses_what_is_packed)] == ["gz"]
    # Small blocks are the last of the ways.
    lossy = files.ways(GOOD, GOOD.data)
    at = list(lossy).index("small blocks")

    def forgets_blocks(path: Path) -> Any:
        blocks = list(files.letor.text_blocks(path))
        return cc.read_ratings(path) if len(blocks) == 1 else other

    assert [said.split(":")[0] for _, said in judged(forgets_blocks, number=at)] == ["small blocks"]


def test_what_should_be_refused_and_is_read_is_noticed(judged: Any, tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_bytes(GOOD.data)

    def read(_: Path) -> Any:
        return cc.read_ratings(good)

    found = judged(read, GOOD.data.replace(b"m3,4", b"m3,many"))
    assert [said.split(":")[:2] for _, said in found] == [["wrong, to refuse", " no number"]]


@pytest.mark.parametrize("name", [name for name, case in files.CASES.items() if case.naive is not None])
def test_the_naive_parsers_read_what_is_valid(name: str, tmp_path: Path) -> None:
    case = files.CASES[name]
    path = tmp_path / case.name
    path.write_bytes(case.data)
    assert case.naive is not None
    assert files.against_naive(case.naive, case.data, path, files.attempt(case.read, path)) == ("both read", "")


def test_damage_is_the_same_on_every_machine() -> None:
    case = files.CASES["ratings"]
    assert files.damaged(case, 3, "ratings") == files.damaged(case, 3, "ratings")
    many = [files.damaged(case, n, "ratings") for n in range(400)]
    assert len({data for _, data in many}) > 350
    done = {kind for kinds, _ in many for kind in kinds}
    assert done == {*files.DAMAGES, "stretched", "packed"} - {"json"}
    assert gzip.decompress(files._PACKERS["gz"](b"x")) == b"x"


# The campaign in small. One process for many cases: starting one costs more than judging a hundred inputs.

FILES = 800


def test_damaged_files_are_read_rightly_or_refused_by_name(tmp_path: Path) -> None:
    found = watch.share("tests.attack.files:judge", {"cases": list(files.CASES)}, 0, FILES, tmp_path, 2)
    assert found["inputs"] == FILES
    assert all(0 < group["answered"] < group["inputs"] for group in found["groups"].values())
    assert {sort: found["examples"][sort] for sort in watch.FAULTS if found["findings"][sort]} == {}

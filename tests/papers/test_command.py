"""`concordant reproduce`: lists, refuses, computes, resumes."""

from __future__ import annotations

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from typer.testing import CliRunner

from concordant.cli._group import build


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(build(), ["reproduce", *words])
    return done.exit_code, done.stdout, done.stderr


def test_without_a_name_it_lists_what_there_is() -> None:
    code, out, _ = run()
    assert code == 0
    assert out.splitlines()[0].split() == ["name", "what", "it", "shows", "data"]
    assert "\nletor-supervised " in out
    listed = json.loads(run("--json")[1])["results"]
    assert {"name", "paper", "title", "needs"} == set(listed[0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["letor-mpm"], "say where the data sets are with --data DIR, or pass --quick"),
        (["letor-mpm", "--data", "nowhere"], "no folder 'nowhere'"),
        (["letor-mpn", "--quick"], "no study 'letor-mpn'. There are: all, "),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_computed(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = run(*words)
    assert code == 1
    assert message in error
    assert not list(tmp_path.iterdir())


def test_a_study_without_its_data_is_listed_with_the_reason(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    code, text, _ = run("letor-mpm", "--data", str(data), "-o", str(out))
    assert code == 0
    assert "letor-mpm: not computable, MQ2008-agg is not in" in text
    assert "letor-mpm: MQ2008-agg is not in" in (out / "index.md").read_text()


def test_quick_makes_the_pages_and_the_second_time_nothing_is_computed(tmp_path: Path) -> None:
    first = run("letor-mpm", "--quick", "-o", str(tmp_path), "-j", "1")
    assert first[0] == 0
    assert first[1].split()[:3] == ["study", "claims", "hold"]
    assert "On synthetic data, in small: the shape of the results, not their numbers." in first[1]
    assert "On synthetic data" in (tmp_path / "letor-mpm.html").read_text()
    pages = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    assert {"index.md", "index.html", "letor-mpm.md", "letor-mpm.html"} <= set(pages)
    again = run("letor-mpm", "--quick", "-o", str(tmp_path), "-j", "1")
    assert "cells were finished before" in again[2]
    assert again[1] == first[1]
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == pages


def test_an_output_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, _, error = run("letor-mpm", "--quick", "-o", str(tmp_path / "file"), "-j", "1")
    assert code == 1
    assert "file" in error
    assert "Traceback" not in error
    assert (tmp_path / "file").read_text() == "not a folder"


def test_pages_are_published_with_the_commit_of_the_code_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(__file__).parents[2] / "scripts" / "published_pages.py"
    spec = spec_from_file_location("published_pages", script)
    assert spec is not None
    assert spec.loader is not None
    pages = module_from_spec(spec)
    spec.loader.exec_module(pages)
    monkeypatch.setattr(pages, "TARGET", tmp_path / "docs" / "reproduced")
    monkeypatch.setattr(pages, "_git", lambda *words: "abc1234" if words[0] == "rev-parse" else "")
    data, made = tmp_path / "data", tmp_path / "made"
    data.mkdir()
    run("letor-mpm", "--data", str(data), "-o", str(made))
    pages.main(made)
    shown = (pages.TARGET / "index.md").read_text()
    assert re.search(r"Made on \d{4}-\d\d-\d\d by source [0-9a-f]{12}, commit abc1234\.", shown)
    other = (made / "index.md").read_text().replace("by source ", "by source 0")
    (made / "index.md").write_text(other)
    with pytest.raises(SystemExit, match="run `make reproduce` again"):
        pages.main(made)
    assert (pages.TARGET / "index.md").read_text() == shown

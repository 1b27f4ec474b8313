"""`--quote-formulas` quotes what a spreadsheet would run, in every table that a command writes."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Invoke = Callable[..., Result]


FORMULAS = ['=HYPERLINK("http://x","y")', "+cmd|'/C_calc'!A0", "-2+3", "@SUM(1)", "\uff1d1+1", "'=said", "plain", "a=b"]


FIT = ("fit", "a.trec", "-l", "q.qrels", "-m", "rank-regress", "-o", "m")


@pytest.fixture
def formulas(tmp_path: Path) -> Path:
    """Return a folder of files in which instances, items, experts and features begin like formulas."""
    lines = [f"{q} Q0 {d} {r + 1} {9 - r} {e}" for q in FORMULAS for e in FORMULAS for r, d in enumerate(FORMULAS)]
    (tmp_path / "a.trec").write_text("\n".join(lines) + "\n")
    (tmp_path / "q.qrels").write_text("".join(f"{q} 0 {d} {n % 2}\n" for q in FORMULAS for n, d in enumerate(FORMULAS)))
    rows = [[q, d, *((n * m) % 3 for m in range(8))] for q in FORMULAS for n, d in enumerate(FORMULAS)]
    with (tmp_path / "features.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["instance", "item", *FORMULAS], *rows])
    return tmp_path


@pytest.mark.parametrize(
    ("args", "out"),
    [
        (("aggregate", "a.trec", "-o", "out.csv"), "out.csv"),
        (("aggregate", "a.trec", "-o", "out.tsv", "--memory", "0"), "out.tsv"),
        (("aggregate", "a.trec", "-o", "out.txt", "--to", "csv"), "out.txt"),
        (("aggregate", "a.trec", "-o", "out.trec", "--experts-out", "experts.csv"), "experts.csv"),
        (("convert", "a.trec", "-o", "all.tsv"), "all.tsv"),
        (("evaluate", "a.trec", "-l", "q.qrels", "--per-instance", "values.csv"), "values.csv"),
        (("fit", "a.trec", "-m", "ulara", "-o", "m", "--experts-out", "learned.csv"), "learned.csv"),
        ((*FIT, "--features", "features.csv", "--features-out", "w.csv"), "w.csv"),
    ],
)
def test_formulas_are_quoted_when_asked_to(
    formulas: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], out: str
) -> None:
    monkeypatch.chdir(formulas)

    def written(*more: str) -> list[list[str]]:
        invoke(*args, "-q", *more)
        with (formulas / out).open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file, delimiter="\t" if out.endswith("tsv") else ","))

    exact, quoted = written(), written("--quote-formulas")
    cells = {cell for row in exact for cell in row}
    # By default ids are as they are; a negative number is no formula.
    assert cells >= set(FORMULAS)
    for before, after in itertools.chain(*(zip(*rows, strict=True) for rows in zip(exact, quoted, strict=True))):
        if before.startswith(("=", "+", "@", "'", "\uff1d", "-2+3")):
            assert after == f"'{before}"
        else:
            assert after == before


def test_quoting_formulas_is_for_spreadsheets(formulas: Path, invoke: Invoke) -> None:
    said = invoke("aggregate", formulas / "a.trec", "-o", formulas / "out.trec", "--quote-formulas", code=2).stderr
    assert "Invalid value for --quote-formulas: is for CSV and TSV files, and none is written." in said

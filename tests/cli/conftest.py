"""Small files to work on, and the command line as a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from concordant.cli._group import build

Invoke = Callable[..., Result]

RUN_A = "q1 Q0 d1 1 9.5 a\nq1 Q0 d2 2 8.5 a\nq1 Q0 d3 3 7.5 a\nq2 Q0 d1 1 5.0 a\nq2 Q0 d5 2 4.0 a\n"
RUN_B = "q1 Q0 d2 1 0.9 b\nq1 Q0 d4 2 0.8 b\nq2 Q0 d5 1 0.7 b\nq2 Q0 d6 2 0.1 b\n"
QRELS = "q1 0 d1 0\nq1 0 d2 2\nq1 0 d4 1\nq2 0 d5 1\nq2 0 d6 0\n"
VOTES = "judge,left,right,winner\nann,x,y,left\nann,y,z,left\nbob,x,z,tie\nbob,x,y,left\ncid,x,y,right\n"
AGG = (
    "2 qid:1 1:1 2:2 #docid = d1\n0 qid:1 1:2 2:NULL #docid = d2\n"
    "1 qid:1 1:3 2:1 #docid = d3\n0 qid:1 1:NULL 2:NULL #docid = d4\n"
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with runs, qrels, votes and a LETOR folder of two folds."""
    for name, text in (("runs/a.trec", RUN_A), ("runs/b.trec", RUN_B), ("qrels.txt", QRELS), ("votes.csv", VOTES)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for fold in (1, 2):
        for part, qid in (("train", 10), ("vali", 20), ("test", fold)):
            path = tmp_path / "letor" / f"Fold{fold}" / f"{part}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(AGG.replace("qid:1", f"qid:{qid}"))
    return tmp_path


@pytest.fixture
def invoke() -> Invoke:
    """Return the command line as a function of its arguments; an unexpected exception is not swallowed."""

    def run(*args: object, code: int = 0) -> Result:
        result = CliRunner().invoke(build(), [str(a) for a in args], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run

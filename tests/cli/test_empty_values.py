"""An empty value of an option or argument is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("args", "option"),
    [
        (("aggregate", "runs", "-m", ""), "'--method' / '-m'"),
        (("fit", "runs", "-m", "", "-o", "x.model"), "'--method' / '-m'"),
        (("compare", "runs", "-l", "qrels.txt", "-m", " "), "'--methods' / '-m'"),
        (("aggregate", ""), "'INPUT'"),
        (("aggregate", "runs", "-o", ""), "'--output' / '-o'"),
        (("aggregate", "runs", "--columns", ""), "'--columns'"),
        (("evaluate", "runs", "-l", ""), "'--labels' / '-l'"),
        (("reproduce", "runtime", "--data", ""), "'--data'"),
    ],
)
def test_an_empty_value_is_refused(
    files: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], option: str
) -> None:
    monkeypatch.chdir(files)
    said = " ".join(invoke(*args, code=2).stderr.split())
    assert f"Invalid value for {option}: the value is empty." in said
    if "method" in option:
        assert "There are: approval, " in said

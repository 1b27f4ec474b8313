"""The published studies as sections: their cells are those of `concordant reproduce`, computed here once more."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import ROOT

from concordant_papers.engine import Setting, compute
from concordant_papers.registry import chosen

DATA = ROOT.parent / "shared" / "data"


def values_of(name: str, seeds: int = 5, *, data: Path = DATA, quick: bool = False) -> dict[str, Any]:
    """Return what the cells of a study came to, by key; none where its data is not there.

    Nothing is taken from an earlier run: evidence is about the code as it is.
    """
    with TemporaryDirectory() as store:
        found = compute(chosen([name]), Setting(data, quick=quick, seeds=seeds), Path(store))
    for key, said in found.failed[name].items():
        raise SystemExit(f"{name}, {key}: {said}")
    return found.values[name]

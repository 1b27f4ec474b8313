"""All studies, in the order of the papers."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from concordant.errors import ParameterError
from concordant_papers.engine import Study

__all__ = ["chosen", "studies"]

# One file for each paper.
_ROOM = "concordant_papers"
_PAPERS = ("crf", "mpm", "svd", "pmop", "mallows")


def studies() -> list[Study]:
    """Return all studies."""
    return [s for paper in _PAPERS if find_spec(f"{_ROOM}.{paper}") for s in import_module(f"{_ROOM}.{paper}").STUDIES]


def chosen(names: list[str]) -> list[Study]:
    """Return the studies of these names, "all" for every one; unknown names are an error."""
    known = {s.name: s for s in studies()}
    if "all" in names:
        return list(known.values())
    unknown = [n for n in names if n not in known]
    if unknown:
        raise ParameterError(f"no study {unknown[0]!r}. There are: all, {', '.join(known)}.")
    return [known[n] for n in dict.fromkeys(names)]

"""A small invented sample that ships with the package, for the demo and for first steps.

- `runs/*.trec`: result lists of six search systems for 40 queries, the 20 to 50 best documents each; one of the systems
  ("legacy") ranks against relevance.
- `qrels.txt`: graded labels, 0 to 3, of the documents that were judged.
- `votes.csv`: 1,500 pairwise votes of 15 judges on 12 models, with ties; three judges flip coins.
- `ballots.soi`: an election of six candidates, voters naming as many as they like (PrefLib).

All of it is generated from fixed seeds by `scripts/make_sample.py`; names are invented.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__all__ = ["path"]


def path(*parts: str) -> Path:
    """Return the folder of the sample, or the path of a file in it.

    Examples
    --------
    >>> path("runs", "bm25.trec").name, path("votes.csv").exists()
    ('bm25.trec', True)
    """
    return Path(str(files(__name__))).joinpath(*parts)

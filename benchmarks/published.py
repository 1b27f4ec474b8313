"""The papers' rows on MQ2008-agg and their films, read where they lie: no figure of theirs is written down here."""

from __future__ import annotations

import csv
from collections.abc import Iterable

from measure import ROOT

FOLDER = ROOT.parent / "shared" / "published"


def letor_row(method: str, metrics: Iterable[str]) -> dict[str, float]:
    """Return the published means of a method without labels on MQ2008-agg, by our names of the metrics."""
    with (FOLDER / "001_table1_unsup_mq_agg.csv").open() as lines:
        row = next(r for r in csv.DictReader(lines) if (r["dataset"], r["method"]) == ("MQ2008-agg", method))
    return {m: float(row[m.replace("ndcg", "N").replace("p@", "P@").replace("map", "MAP")]) for m in metrics}


def supervised_row(method: str, metrics: Iterable[str], file: str = "001_table5_sup_mq_agg.csv") -> dict[str, float]:
    """Return the published means of a method on MQ2008-agg from a table with labels, as far as they were printed."""
    with (FOLDER / file).open() as lines:
        row = next(r for r in csv.DictReader(lines) if (r["dataset"], r["method"]) == ("MQ2008-agg", method))
    names = {m: m.replace("ndcg", "N").replace("p@", "P@").replace("map", "MAP") for m in metrics}
    return {ours: float(row[theirs]) for ours, theirs in names.items() if theirs in row}


def films(model: str) -> dict[str, list[str]]:
    """Return the published films at both ends of a model's ranking, with how many people rated them."""
    with (FOLDER / "001_table3_movielens_top_bottom.csv").open() as lines:
        rows = [r for r in csv.DictReader(lines) if r["model"] == model]
    top, bottom = (
        [f"{r['movie']} ({r['n_users']})" for r in rows if r["list_position"].startswith(end)]
        for end in ("top", "bottom")
    )
    # The papers list the last film last; beside ours the ends are read from the outside in.
    return {"top": top, "bottom": bottom[::-1]}

"""The papers' rows on MQ2008-agg and their films, by our names of the metrics.

The figures lie beside the studies of `concordant reproduce`.
"""

from __future__ import annotations

from collections.abc import Iterable

from concordant_papers.letor import COLUMNS
from concordant_papers.published import cells, rows

SET = "MQ2008-agg"
UNSUPERVISED, SUPERVISED = "001_table1_unsup_mq_agg", "001_table5_sup_mq_agg"


def letor_row(method: str, metrics: Iterable[str] = COLUMNS.values(), table: str = UNSUPERVISED) -> dict[str, float]:
    """Return the published means of a method on MQ2008-agg, those of the metrics that were printed."""
    row = cells(table, dataset=SET, method=method)
    if row is None:
        raise KeyError(f"no row {method!r} on {SET} in {table}")
    printed = {metric: row[column] for column, metric in COLUMNS.items() if column in row}
    return {m: printed[m] for m in metrics if m in printed}


def films(model: str) -> dict[str, list[str]]:
    """Return the published films at both ends of a model's ranking, with how many people rated them."""
    of_model = [r for r in rows("001_table3_movielens_top_bottom") if r["model"] == model]
    top, bottom = (
        [f"{r['movie']} ({r['n_users']})" for r in of_model if r["list_position"].startswith(end)]
        for end in ("top", "bottom")
    )
    # The papers list the last film last; beside ours the ends are read from the outside in.
    return {"top": top, "bottom": bottom[::-1]}

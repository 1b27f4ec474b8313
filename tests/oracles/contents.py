"""Containers as plain Python dictionaries, so that two can be compared whatever order their items and experts have."""

from __future__ import annotations

from collections import Counter
from typing import Any

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences


def _columns_of(votes: Comparisons, n: int) -> dict[str, Any]:
    """Return what is known of a row beside its counts, covariates under their names."""
    columns = votes.columns
    out: dict[str, Any] = {} if columns.time is None else {"time": float(columns.time[n])}
    if columns.category is not None:
        code = int(columns.category[n])
        out["category"] = None if code < 0 else columns.categories[code]
    if columns.n_both_bad is not None:
        out["n_both_bad"] = float(columns.n_both_bad[n])
    return out | {f"covariate {c}": float(votes.covariates[n, j]) for j, c in enumerate(votes.covariate_names)}


def contents(container: Any) -> Any:
    """Return everything a container says, with ids in place of codes."""
    where = [container.slots.where(s) for s in range(container.n_slots)]
    if isinstance(container, Preferences):
        rows = {}
        for n in range(container.n_rows):
            instance, item = where[int(container.slot[n])]
            expert = container.experts[int(container.row_expert[n])]
            weight = float(container.weights[int(container.row_list[n])])
            rows[instance, expert, item] = (float(container.value[n]), weight)
        return container.kind, rows, set(where)
    if isinstance(container, Comparisons):
        votes: Counter[Any] = Counter()
        for n in range(container.n_rows):
            instance, left = where[int(container.left[n])]
            _, right = where[int(container.right[n])]
            expert = None if container.expert is None else container.experts[int(container.expert[n])]
            counts = (float(container.n_left[n]), float(container.n_right[n]), float(container.n_ties[n]))
            more = _columns_of(container, n)
            if not container.sided and left > right:
                left, right, counts = right, left, (counts[1], counts[0], counts[2])
                more = {name: -value if name.startswith("covariate ") else value for name, value in more.items()}
            votes[instance, expert, left, right, counts, *more.items()] += 1
        return container.sided, votes, set(where)
    if isinstance(container, Labels):
        return {w: repr(float(v)) for w, v in zip(where, container.label, strict=True)}
    if isinstance(container, Features):
        return container.names.tolist(), {w: x.tolist() for w, x in zip(where, container.X, strict=True)}
    if isinstance(container, Consensus):
        names = ("score", "rank", "stderr", "lower", "upper", "rank_lower", "rank_upper")
        columns = {n: getattr(container, n) for n in names if getattr(container, n) is not None}
        return {w: {n: repr(float(c[s])) for n, c in columns.items()} for s, w in enumerate(where)}
    raise TypeError(type(container).__name__)

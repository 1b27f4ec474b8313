"""Preferences and comparisons as plain rows, drawn by hypothesis: with ties, gaps, missing items and silent experts."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences

ids = st.text(alphabet="ab 1é\u4e2d", min_size=1, max_size=3)


class Rows(NamedTuple):
    """What a container is made of, in the user's ids."""

    kind: str
    rows: list[tuple[str, str, str, float]]
    items: list[tuple[str, str]]
    experts: list[str]
    weights: dict[tuple[str, str], float] | None

    def build(self) -> Preferences:
        columns = [list(c) for c in zip(*self.rows, strict=True)] if self.rows else [[], [], [], []]
        weight = None if self.weights is None else [self.weights[q, e] for q, e, _, _ in self.rows]
        return Preferences(
            *columns,
            kind=self.kind,  # type: ignore[arg-type]
            weight=weight,
            items=self.items,
            experts=self.experts,
        )


@st.composite
def preference_rows(draw: Any, *, max_instances: int = 3, weighted: bool | None = None) -> Rows:
    """Return rows in any order; each (instance, expert, item) at most once."""
    kind = draw(st.sampled_from(["rank", "score", "rating"]))
    number = {
        "rank": st.integers(1, 6).map(float) | st.floats(1, 40),
        "score": st.integers(-3, 3).map(float) | st.floats(-1e3, 1e3),
        "rating": st.integers(1, 5).map(float),
    }[kind]
    instances = draw(st.lists(ids, unique=True, max_size=max_instances))
    experts = draw(st.lists(ids, unique=True, min_size=1, max_size=4))
    items = [(q, i) for q in instances for i in draw(st.lists(ids, unique=True, min_size=1, max_size=5))]
    items = draw(st.permutations(items)) if items else []
    cells = [(q, e, i) for q, i in items for e in experts]
    chosen = draw(st.lists(st.sampled_from(cells), unique=True, max_size=25)) if cells else []
    rows = [(q, e, i, draw(number)) for q, e, i in chosen]
    with_weights = draw(st.booleans()) if weighted is None else weighted
    weights = {(q, e): draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])) for q in instances for e in experts}
    return Rows(kind, rows, items, experts, weights if with_weights else None)


@st.composite
def comparison_rows(draw: Any) -> dict[str, Any]:
    """Return the arguments of Comparisons."""
    instances = draw(st.lists(ids, unique=True, max_size=3))
    experts = draw(st.none() | st.lists(ids, unique=True, min_size=1, max_size=3))
    items = {q: draw(st.lists(ids, unique=True, min_size=2, max_size=4)) for q in instances}
    count = st.integers(0, 4).map(float)
    rows = []
    for _ in range(draw(st.integers(0, 8)) if instances else 0):
        q = draw(st.sampled_from(instances))
        left, right = draw(st.permutations(items[q]))[:2]
        expert = None if experts is None else draw(st.sampled_from(experts))
        rows.append((q, expert, left, right, draw(count), draw(count), draw(count)))
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in range(7)]
    return {
        "instance": columns[0],
        "expert": None if experts is None else columns[1],
        "left": columns[2],
        "right": columns[3],
        "n_left": columns[4],
        "n_right": columns[5],
        "n_ties": columns[6],
        "items": [(q, i) for q in instances for i in items[q]],
        "experts": experts,
        "sided": draw(st.booleans()),
    }


comparisons = comparison_rows().map(lambda arguments: Comparisons(**arguments))

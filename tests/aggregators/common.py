"""What the tests of several families share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.data.strategies import Rows

import concordant as cc

Lists = list[tuple[float, dict[str, float]]]


def from_matrix(R: Any) -> cc.Preferences:
    """Return the preferences of a table of ranks, items by experts, 0 = missing."""
    R = np.asarray(R)
    cells = [(i, k) for k in range(R.shape[1]) for i in range(R.shape[0]) if R[i, k] > 0]
    return cc.Preferences(
        ["q"] * len(cells),
        [f"e{k}" for _, k in cells],
        [f"i{i}" for i, _ in cells],
        [R[i, k] for i, k in cells],
        items=[("q", f"i{i}") for i in range(R.shape[0])],
        experts=[f"e{k}" for k in range(R.shape[1])],
    )


def instances_of(rows: Rows) -> Iterator[tuple[cc.Preferences, list[str], Lists]]:
    """Yield each instance as a container, its items, and its lists as weights and strengths."""
    everything = rows.build()
    for q in everything.instances:
        items = [i for r, i in rows.items if r == q]
        lists: Lists = []
        for e in rows.experts:
            held = {i: (-v if rows.kind == "rank" else v) for r, x, i, v in rows.rows if r == q and x == e}
            if held:
                lists.append((1.0 if rows.weights is None else rows.weights[q, e], held))
        yield everything[q], items, lists


def assert_scores(got: cc.Consensus, expected: Mapping[str, float]) -> None:
    """Require the scores of one instance, to 1e-9 of the largest."""
    assert got.items.tolist() == list(expected)
    size = max([1.0, *(abs(s) for s in expected.values())])
    np.testing.assert_allclose(got.score, list(expected.values()), rtol=0, atol=1e-9 * size)


def letor21(folder: Path, n_instances: int = 48, *, random_state: int = 0) -> Path:
    """Return a LETOR rank-aggregation folder of the form of the real ones, with other numbers.

    It has four folds, 21 experts of all qualities, labels 0 to 3, queries without a relevant document, and documents
    nobody ranks; each query is in the test part of one fold, the validation part of another and two training parts.
    """
    quality = [2.0, 1.5, 1.5, 1.0, 1.0, 0.5, 0.5, 0.5, *[0.3] * 4, *[0.0] * 5, -0.5, -1.0, -1.5, -2.0]
    p, labels = cc.synthetic.labelled_runs(
        n_instances,
        quality=quality,
        labels=(0, 0, 0, 0, 0, 1, 1, 2, 3),
        n_items=(5, 15),
        missing=0.85,
        random_state=random_state,
    )
    blank = np.isin(labels.slots.instance, [3, n_instances // 2])
    labels = cc.Labels.from_codes(labels.slots, np.where(blank, 0.0, labels.label))
    part = np.arange(n_instances) % 4
    for fold in range(4):
        place = folder / "letor21" / f"Fold{fold + 1}"
        place.mkdir(parents=True, exist_ok=True)
        for name, parts in (("train", (2, 3)), ("vali", (1,)), ("test", (0,))):
            own = p[np.isin((part - fold) % 4, parts)]
            cc.write_letor(own, place / f"{name}.txt", labels)
    return folder / "letor21"

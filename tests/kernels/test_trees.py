"""Trees as arrays: scores and Shapley values against plain Python and against LightGBM; arrays that are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest

from concordant.kernels.lists import offsets_of
from concordant.kernels.tree_arrays import MOST_DEPTH, NAN_IS_ZERO, NAN_LEFT, NAN_RIGHT, TreeArrays
from concordant.kernels.trees import add_shapley_values, leaf_sums

FEATURES = 5


def grown(rng: np.random.Generator, depth: int) -> list[tuple[Any, ...]]:
    """Return the nodes of a random tree, parents before children, whose features repeat on the way to a leaf."""
    nodes: list[list[Any]] = [[-1, 0.0, -1, -1, 0.0, float(rng.integers(20, 60)), NAN_RIGHT]]
    queue = [(0, 0)]
    while queue:
        at, level = queue.pop(0)
        cover = nodes[at][5]
        if level == depth or cover < 2 or (level and rng.random() < 0.2):
            nodes[at][4] = float(rng.normal())
            continue
        part = float(rng.integers(1, cover))
        nan = int(rng.choice([NAN_LEFT, NAN_RIGHT, NAN_IS_ZERO]))
        nodes[at][:5] = [int(rng.integers(FEATURES)), float(rng.normal()), len(nodes), len(nodes) + 1, 0.0]
        nodes[at][6] = nan
        for own in (part, cover - part):
            queue.append((len(nodes), level + 1))
            nodes.append([-1, 0.0, -1, -1, 0.0, own, NAN_RIGHT])
    return [tuple(node) for node in nodes]


def arrays_of(models: list[list[list[tuple[Any, ...]]]]) -> TreeArrays:
    trees = [tree for model in models for tree in model]
    columns = zip(*(node for tree in trees for node in tree), strict=True)
    kinds = [np.int64, np.float64, np.int64, np.int64, np.float64, np.float64, np.int8]
    return TreeArrays(
        offsets_of(np.array([len(model) for model in models])),
        offsets_of(np.array([len(tree) for tree in trees])),
        *(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)),
    )


def random_trees(seed: int = 3, n: int = 6, depth: int = 4) -> TreeArrays:
    rng = np.random.default_rng(seed)
    return arrays_of([[grown(rng, depth) for _ in range(n)]])


def items(seed: int = 5, n: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES))
    X[rng.random(X.shape) < 0.25] = np.nan
    return X


def goes_left(x: float, threshold: float, nan: int) -> bool:
    if np.isnan(x):
        return threshold >= 0 if nan == NAN_IS_ZERO else nan == NAN_LEFT
    return x <= threshold


def expectation(t: TreeArrays, tree: int, x: np.ndarray, known: set[int], node: int = 0) -> float:
    """Return the mean of a tree over the training items, given some of the features: the definition."""
    at = t.trees[tree] + node
    if t.feature[at] < 0:
        return float(t.value[at])
    left, right = int(t.left[at]), int(t.right[at])
    if int(t.feature[at]) in known:
        goes = goes_left(x[t.feature[at]], t.threshold[at], t.nan[at])
        return expectation(t, tree, x, known, left if goes else right)
    share = t.cover[t.trees[tree] + left] / t.cover[at]
    halves = (expectation(t, tree, x, known, child) for child in (left, right))
    return float(share * next(halves) + (1 - share) * next(halves))


def test_scores_are_the_leaves_reached() -> None:
    t, X = random_trees(), items()
    out = np.empty(len(X))
    leaf_sums(X, t.trees, *t[2:7], t.nan, out)
    every = set(range(FEATURES))
    want = [sum(expectation(t, tree, x, every) for tree in range(len(t.trees) - 1)) for x in X]
    assert out == pytest.approx(want, abs=1e-13)


def test_shapley_values_are_those_of_the_definition() -> None:
    t, X = random_trees(), items()
    out = np.zeros((len(X), FEATURES + 1))
    add_shapley_values(X, *t[1:], np.arange(FEATURES), out)
    for x, found in zip(X, out, strict=True):
        want = np.zeros(FEATURES + 1)
        for f in range(FEATURES):
            others = [g for g in range(FEATURES) if g != f]
            for size in range(FEATURES):
                weight = factorial(size) * factorial(FEATURES - 1 - size) / factorial(FEATURES)
                for some in map(set, combinations(others, size)):
                    for tree in range(len(t.trees) - 1):
                        want[f] += weight * (expectation(t, tree, x, some | {f}) - expectation(t, tree, x, some))
        want[-1] = sum(expectation(t, tree, x, set()) for tree in range(len(t.trees) - 1))
        assert found == pytest.approx(want, abs=1e-12)


def test_shapley_values_are_added_up_by_group() -> None:
    t, X = random_trees(), items()
    each, grouped = np.zeros((len(X), FEATURES + 1)), np.zeros((len(X), 3))
    add_shapley_values(X, *t[1:], np.arange(FEATURES), each)
    add_shapley_values(X, *t[1:], np.array([1, 0, 0, 1, 0]), grouped)
    assert grouped[:, 0] == pytest.approx(each[:, [1, 2, 4]].sum(axis=1), abs=1e-12)
    assert grouped[:, 1] == pytest.approx(each[:, [0, 3]].sum(axis=1), abs=1e-12)


def test_arrays_of_trees_are_accepted() -> None:
    rng = np.random.default_rng(1)
    assert arrays_of([[grown(rng, 3), grown(rng, 0)], [grown(rng, 5)]]).fault(FEATURES) == ""


def _set(name: str, at: int, value: float) -> Callable[[TreeArrays], TreeArrays]:
    def change(t: TreeArrays) -> TreeArrays:
        array = getattr(t, name).copy()
        array[at] = value
        return t._replace(**{name: array})

    return change


LEAF = -1
FAULTS = {
    "a child that does not exist": (_set("left", 0, 10**6), "behind its parent"),
    "a child before its parent": (_set("right", 2, 0), "behind its parent"),
    "a circle": (_set("left", 2, 2), "behind its parent"),
    "a child of two": (_set("left", 2, 4), "one parent"),
    "a negative child": (_set("left", 0, -1), "behind its parent"),
    "a leaf with children": (_set("left", LEAF, 0), "leaf has children"),
    "a feature that does not exist": (_set("feature", 0, FEATURES), "does not exist"),
    "a negative feature": (_set("feature", 0, -2), "does not exist"),
    "an inner node called a leaf": (_set("feature", 0, -1), "leaf has children"),
    "no cover": (_set("cover", LEAF, 0.0), "no training item"),
    "a cover that is not a number": (_set("cover", LEAF, np.nan), "no training item"),
    "covers that do not add up": (_set("cover", 0, 1e6), "children are not those"),
    "an unknown side": (_set("nan", 0, 3), "nowhere"),
    "trees beyond the nodes": (_set("trees", LEAF, 10**6), "do not add up"),
    "trees that overlap": (_set("trees", 1, 10**6), "do not add up"),
    "models beyond the trees": (_set("models", LEAF, 99), "do not add up"),
    "a tree without nodes": (_set("trees", 1, 0), "without nodes"),
    "no model": (lambda t: t._replace(models=np.zeros(1, dtype=np.int64), trees=np.zeros(1, np.int64)), "add up"),
    "another type": (lambda t: t._replace(left=t.left.astype(np.int32)), "right types"),
    "two dimensions": (lambda t: t._replace(value=t.value[:, None]), "right types"),
    "fewer values": (lambda t: t._replace(value=t.value[:-1]), "one length"),
}


@pytest.mark.parametrize("change", FAULTS)
def test_arrays_that_are_no_trees_are_refused(change: str) -> None:
    t = random_trees(seed=2, n=3)
    assert t.fault(FEATURES) == ""
    made, message = FAULTS[change]
    assert message in made(t).fault(FEATURES)


@pytest.mark.parametrize(("depth", "fine"), [(MOST_DEPTH, True), (MOST_DEPTH + 1, False)])
def test_deep_trees_are_refused(depth: int, fine: bool) -> None:
    nodes: list[tuple[Any, ...]] = []
    for level in range(depth):
        at = 2 * level
        nodes += [(0, 0.0, at + 1, at + 2, 0.0, float(depth + 1 - level), NAN_LEFT)]
        nodes += [(-1, 0.0, -1, -1, 1.0, 1.0, NAN_LEFT)]
    nodes.append((-1, 0.0, -1, -1, 1.0, 1.0, NAN_LEFT))
    assert (arrays_of([[nodes]]).fault(1) == "") == fine

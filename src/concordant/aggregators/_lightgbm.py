"""Growing a LambdaMART ensemble with LightGBM, one tree at a time, and taking its trees over as arrays.

LightGBM is imported here only, when a fit begins. It uses one thread, so that the trees do not depend on the machine's
number of cores. Several ensembles may grow side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.errors import MissingExtraError
from concordant.kernels.lists import offsets_of, ranges
from concordant.kernels.tree_arrays import NAN_IS_ZERO, NAN_LEFT, NAN_RIGHT, TreeArrays

__all__ = ["GrowingTrees", "GrowthSettings", "TrainingLists", "joined_trees", "require_lightgbm", "split_gains"]

_OBJECTIVES = {"lambdarank": "lambdarank", "xendcg": "rank_xendcg"}
# Trees see at least this many columns, however few there are.
_FEWEST_COLUMNS = 8


def require_lightgbm() -> Any:
    """Return the module lightgbm, or raise MissingExtraError that names the extra."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError.of("LightGBM", "boost", "fitting boosted trees") from None
    return lightgbm


class TrainingLists(NamedTuple):
    """Training lists in canonical order.

    Attributes
    ----------
    X : float64[rows, features]
        The features; NaN for unknown values.
    level : int64[rows]
        The level of the label of every row, from 0.
    gain : float64[levels]
        The gain of every level, ascending.
    offsets : int64[lists + 1]
        Offsets of the rows of every list.
    """

    X: Floats
    level: Ints
    gain: Floats
    offsets: Ints

    def rows_of(self, lists: Ints) -> Ints:
        """Return the rows of some lists."""
        return ranges(self.offsets[lists], self.offsets[lists + 1])


class GrowthSettings(NamedTuple):
    """The settings of an ensemble, as documented at `BoostedTrees`."""

    objective: str
    leaves: int
    learning_rate: float
    min_rows: int
    l2: float
    features: float
    rows: float

    def parameters(self, seed: int, lists: TrainingLists) -> dict[str, Any]:
        """Return LightGBM's parameters."""
        n_features = lists.X.shape[1]
        return {
            "objective": _OBJECTIVES[self.objective],
            "metric": "None",
            "label_gain": lists.gain.tolist(),
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.min_rows,
            "lambda_l2": self.l2,
            "feature_fraction": min(1.0, max(self.features, _FEWEST_COLUMNS / max(n_features, 1))),
            "bagging_fraction": self.rows,
            "bagging_freq": 1,
            "seed": seed,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": False,
            "verbosity": -1,
        }


def _silence_this_thread() -> None:
    """Set LightGBM's verbosity, which is that of a thread: whatever reads parameters sets it, but no update does.

    Its messages would go to standard output, into the results of a command. The number of threads is one of the
    process, and buffers of trees that grow elsewhere are made for one thread: any other number here would overrun them.
    """
    require_lightgbm().Dataset(np.zeros((1, 1)), params={"verbosity": -1, "num_threads": 1}).construct()


class GrowingTrees:
    """An ensemble that grows by one tree at a time, and scores the lists that are held out from it.

    Parameters
    ----------
    lists : TrainingLists
        All training lists.
    own : int64[]
        The lists to learn from.
    held_out : float64[rows, features] or None
        The features of the rows to score after every tree.
    settings : GrowthSettings
        The settings.
    seed : int
        Seed of the draws of rows and features.

    Attributes
    ----------
    counts : list of int
        The number of trees after every call of `grow`.
    scores : float64[rows]
        The scores of the rows held out, after the last call.
    """

    def __init__(
        self, lists: TrainingLists, own: Ints, held_out: Floats | None, settings: GrowthSettings, seed: int
    ) -> None:
        lightgbm = require_lightgbm()
        rows = lists.rows_of(own)
        parameters = settings.parameters(seed, lists)
        data = lightgbm.Dataset(
            lists.X[rows],
            lists.level[rows],
            group=np.diff(lists.offsets)[own],
            params=parameters,
            categorical_feature=[],
        )
        self._booster = lightgbm.Booster(parameters, data)
        self.counts: list[int] = []
        self.scores = np.zeros(0 if held_out is None else len(held_out))
        if held_out is not None:
            # LightGBM scores what it knows as validation data without starting anew after each tree.
            known = lightgbm.Dataset(
                held_out,
                np.zeros(len(held_out)),
                group=[len(held_out)],
                reference=data,
                params=parameters,
                categorical_feature=[],
            )
            self._booster.add_valid(known, "held out")
        self._watches = held_out is not None

    def grow(self) -> None:
        """Add a tree, unless no split of the rows drawn is allowed."""
        _silence_this_thread()
        self._booster.update()
        self.counts.append(self._booster.current_iteration())
        if self._watches:
            self._booster.eval_valid(self._keep_scores)

    def _keep_scores(self, scores: Floats, _: Any) -> tuple[str, float, bool]:
        self.scores = scores.copy()
        return "none", 0.0, True

    def trees(self, n: int) -> list[dict[str, Any]]:
        """Return the first n trees as nested dictionaries."""
        if not n:
            return []
        return [tree["tree_structure"] for tree in self._booster.dump_model(num_iteration=n)["tree_info"]]


def joined_trees(models: Sequence[Sequence[dict[str, Any]]], columns: Ints) -> TreeArrays:
    """Return the trees of several models as arrays; `columns` are the features behind the columns of the models."""
    trees = [_nodes(tree, columns) for model in models for tree in model]
    # A model without a tree is one of a single leaf, which scores 0.
    sizes = [max(len(model), 1) for model in models]
    if not trees or any(not model for model in models):
        flat = iter(trees)
        trees = [nodes for model in models for nodes in ([next(flat) for _ in model] or [[_LEAF]])]
    flat_nodes = [node for nodes in trees for node in nodes]
    feature, threshold, left, right, value, cover, nan = zip(*flat_nodes, strict=True)
    return TreeArrays(
        offsets_of(np.array(sizes)),
        offsets_of(np.array([len(nodes) for nodes in trees])),
        np.array(feature, dtype=np.int64),
        np.array(threshold, dtype=np.float64),
        np.array(left, dtype=np.int64),
        np.array(right, dtype=np.int64),
        np.array(value, dtype=np.float64),
        np.array(cover, dtype=np.float64),
        np.array(nan, dtype=np.int8),
    )


# feature, threshold, left, right, value, cover, nan
_Node = tuple[int, float, int, int, float, float, int]
_LEAF: _Node = (-1, 0.0, -1, -1, 0.0, 1.0, NAN_RIGHT)


def _walk(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a tree level by level."""
    queue = deque([tree])
    while queue:
        node = queue.popleft()
        yield node
        if "split_feature" in node:
            queue += [node["left_child"], node["right_child"]]


def _nodes(tree: dict[str, Any], columns: Ints) -> list[_Node]:
    """Return the nodes of a tree, the root first and parents before children."""
    out: list[_Node] = []
    last = 0
    for node in _walk(tree):
        if "split_feature" not in node:
            out.append((-1, 0.0, -1, -1, float(node["leaf_value"]), float(node.get("leaf_count") or 1), NAN_RIGHT))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise RuntimeError("LightGBM made a split of another kind than the numerical ones that were asked for")
        nan = NAN_IS_ZERO if node["missing_type"] == "None" else NAN_LEFT if node["default_left"] else NAN_RIGHT
        left, last = last + 1, last + 2
        feature = int(columns[node["split_feature"]])
        out.append((feature, float(node["threshold"]), left, left + 1, 0.0, float(node["internal_count"]), nan))
    return out


def split_gains(models: Sequence[Sequence[dict[str, Any]]], columns: Ints) -> Floats:
    """Return the share of every feature in the gain of all splits; zeros if there is no split."""
    out = np.zeros(len(columns))
    for node in (node for model in models for tree in model for node in _walk(tree)):
        if "split_feature" in node:
            out[columns[node["split_feature"]]] += float(node["split_gain"])
    total = float(out.sum())
    return out / total if total > 0 else out

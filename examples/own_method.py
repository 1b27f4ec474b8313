"""Write a method, check it against the contract, and compare it with other methods.

Runs on the bundled sample: python examples/own_method.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

import concordant as cc
from concordant.base.params import Constraint, integer
from concordant.data.sample import path


@cc.register_method
class KApproval(cc.Aggregator):
    """Approval: an item scores the weight of the lists that have it among their k best."""

    name = "k-approval"
    # Not faithful: items above the cut tie, so the order of a single expert is not returned.
    tags = cc.Tags(accepts=frozenset({"rank", "score", "rating"}), faithful=False, cost="O(R log R)")
    constraints: ClassVar[Mapping[str, Constraint]] = {"k": integer(least=1)}

    def __init__(self, *, k: int = 10) -> None:
        self.k = k

    def _scores(self, preferences: cc.Preferences) -> np.ndarray:
        approved = (preferences.positions("min") <= self.k).astype(np.float64)
        if preferences.row_weight is not None:
            approved *= preferences.row_weight
        return np.bincount(preferences.slot, weights=approved, minlength=preferences.n_slots)


def main() -> None:
    results = cc.check_method(KApproval(k=3))
    print(f"{len(results)} checks of the contract passed")

    runs, labels = cc.read_runs(path("runs")), cc.read_labels(path("qrels.txt"))
    found = {name: cc.aggregate(runs, name) for name in ("k-approval", "rrf", "borda")}
    print(cc.compare(found, labels, ["ndcg@10", "map"], baseline="rrf"))


if __name__ == "__main__":
    main()

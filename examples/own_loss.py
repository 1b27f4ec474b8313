"""Learn to rank with a loss of your own: one function from scores to a number and its gradient.

Runs on synthetic data with known grades: python examples/own_loss.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import concordant as cc


@cc.register_method
class Softmax(cc.Ranker):
    """The scores whose softmax comes closest to the gains of the labels."""

    name = "softmax"
    tags = cc.Ranker.tags

    def _loss(self, score: Any, lists: Any, gradient: Any, extra: Any, turn: int) -> tuple[float, Any]:
        starts, sizes = lists.offsets[:-1], np.diff(lists.offsets)
        gain = 2.0**lists.label - 1.0
        # Subtracting the largest score avoids overflow; it cancels.
        highest = np.repeat(np.maximum.reduceat(score, starts), sizes)
        weight = np.exp(score - highest)
        total, whole = np.add.reduceat(weight, starts), np.add.reduceat(gain, starts)
        gradient[:] = np.repeat(whole / total, sizes) * weight - gain
        return float(whole @ np.log(total) + gain @ (highest - score)), np.zeros(0)


def main() -> None:
    features, labels = cc.synthetic.graded_features(150, random_state=1)
    train, test = features[:100], features[100:]
    methods = {"pmop": cc.PMOP(l2="auto"), "ranknet": cc.RankNet(l2="auto"), "softmax": Softmax(l2="auto")}
    rankings = {name: method.fit(train, labels).predict(test) for name, method in methods.items()}
    print(cc.compare(rankings, labels[100:], ["err", "ndcg@1", "ndcg@10"], convention="paper"))

    own = methods["softmax"]
    print(f"softmax chose {own.fit_info_.chosen}")
    # The model is saved like that of any other method. To load it, import this module first.
    own.save("softmax.model")
    print(cc.load("softmax.model").predict(test) == rankings["softmax"])


if __name__ == "__main__":
    main()

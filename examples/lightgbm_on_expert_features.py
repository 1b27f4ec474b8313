"""Train LightGBM on preferences of experts: singular vectors as features, boosted trees as the scorer.

Runs on the bundled sample: python examples/lightgbm_on_expert_features.py
LightGBM comes with the extra: pip install concordant[boost]. Without it the example shows only the features and the
linear scorer.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

import concordant as cc
from concordant.data.sample import path


def boosted(train: cc.Features, test: cc.Features, labels: cc.Labels) -> cc.Consensus:
    """Fit LambdaMART to the training features and return its consensus for the test features."""
    import lightgbm

    label = np.nan_to_num(labels.align(train).label)
    ranker = lightgbm.LGBMRanker(n_estimators=100, num_leaves=7, learning_rate=0.05, random_state=0, verbose=-1)
    # The rows of an instance are together; `group` is the number of rows of each.
    ranker.fit(train.X, label.astype(int), group=train.slots.sizes)
    return cc.Consensus.from_codes(test.slots, ranker.predict(test.X))


def main() -> None:
    runs = cc.read_runs(path("runs"))
    labels = cc.read_labels(path("qrels.txt"))
    train, test = runs[:25], runs[25:]

    # The fit chooses how to measure the strength of preferences; its linear scorer is a baseline.
    model = cc.SVDRank(strength="auto").fit(train, labels)
    print(f"strength of a preference: {model.strength_}")
    features = model.transform(train)
    print(features)
    print("columns of the first expert:", ", ".join(features.names[:4]))

    contenders = {"rrf": cc.RRF().fit_predict(test), "svd-rank": model.predict(test)}
    if find_spec("lightgbm") is None:
        print("LightGBM is not installed (pip install concordant[boost]), so only the linear scorer is shown.")
    else:
        contenders["lightgbm"] = boosted(features, model.transform(test), labels)
    print(cc.compare(contenders, labels.align(test), ["ndcg@10", "map"], baseline="rrf"))


if __name__ == "__main__":
    main()

"""A loss taken stretch by stretch of lists is the loss, and no bit of it depends on the number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import concordant as cc
from concordant.ranking import _fitting

RANKERS = [
    cc.PMOP(max_iter=4),
    cc.PMOP(inference="exact", max_iter=3),
    cc.PMOP(inference="gibbs", max_iter=3),
    cc.RankNet(max_iter=4),
    cc.ListMLE(max_iter=4),
    cc.PairTies(max_iter=4),
]


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_stretches_add_up(ranker: cc.Ranker, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = cc.synthetic.graded_features(60, random_state=2)
    whole = ranker.fit(features, labels).coefficients_.copy()
    monkeypatch.setattr(_fitting, "_STRETCH", 100)
    found = []
    for n in (1, 3):
        with cc.threads(n):
            found.append(ranker.fit(features, labels).coefficients_.copy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], whole, rtol=1e-6, atol=1e-9)

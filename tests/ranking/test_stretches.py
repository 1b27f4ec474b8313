"""A loss taken stretch by stretch of lists is the loss, with its slope, and no bit depends on the number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import concordant as cc
from concordant.execution import force_threads
from concordant.kernels.graded_lists import GradedLists
from concordant.ranking import _objective, design_matrix
from concordant.ranking.design_matrix import DenseDesign

RANKERS = [
    cc.PMOP(max_iter=4),
    cc.PMOP(inference="exact", max_iter=3),
    cc.PMOP(inference="gibbs", max_iter=3),
    cc.RankNet(max_iter=4),
    cc.ListMLE(max_iter=4),
    cc.PairTies(max_iter=4),
    cc.PMOP(max_iter=4, hidden=3),
    cc.PMOP(max_iter=4, second_order=True, min_correlation=0.05, keep_first=True),
    # Parts of the lists, which lie apart in the table.
    cc.PMOP(max_iter=4, l2=(0.01, 1.0), cv=3),
    cc.RankNet(max_iter=3, solver="sgd", batch=20),
]


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_stretches_add_up(ranker: cc.Ranker, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = cc.synthetic.graded_features(60, random_state=2)
    whole = ranker.fit(features, labels).coefficients_.copy()
    monkeypatch.setattr(_objective, "_CHUNK_ROWS", 100)
    found = []
    for n in (1, 3):
        with force_threads(n):
            found.append(ranker.fit(features, labels).coefficients_.copy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], whole, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("share", [1, 3], ids=["all", "a third"])
def test_the_gradient_of_stretches_is_that_of_their_sum(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_objective, "_CHUNK_ROWS", 7)
    rng = np.random.default_rng(3)
    sizes = np.array([4, 2, 5, 3, 6, 2, 4, 8, 3])
    label = np.concatenate([np.sort(rng.integers(0, 3, n))[::-1] for n in sizes]).astype(float)
    lists = GradedLists.of(label, np.concatenate([[0], np.cumsum(sizes)]))
    design = DenseDesign(rng.normal(size=(len(label), 4)))
    # The instances are numbered the other way round than the lists.
    task = _objective.RankerObjective(cc.PairTies(), design, lists, np.arange(len(sizes))[::-1].copy())
    instances = np.arange(0, len(sizes), share)
    at = rng.normal(size=task.size)
    value, slope = task.value(at, instances, 0.3, 0)
    assert task._batch_of(instances).n_chunks > 1
    alone = [task.batch_value(at, np.array([len(sizes) - 1 - n]), 0.3, 0) for n in instances]
    assert value == pytest.approx(np.mean([v for v, _ in alone]), rel=1e-12)
    np.testing.assert_allclose(slope, np.mean([g for _, g in alone], axis=0), rtol=1e-10, atol=1e-12)
    step = 1e-6 * np.eye(task.size)
    want = [(task.value(at + h, instances, 0.3, 0)[0] - task.value(at - h, instances, 0.3, 0)[0]) / 2e-6 for h in step]
    np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-7)


def test_what_is_made_block_by_block_does_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_matrix, "_BLOCK", 300)
    features, labels = cc.synthetic.graded_features(60, random_state=2)
    X = features.X.copy()
    X[::7, 0] = np.nan
    features = cc.Features.from_codes(features.slots, X)
    found = []
    for n in (1, 3):
        with force_threads(n):
            model = cc.PMOP(l2=0.1, nan="mean").fit(features, labels)
            found.append((model.mean_, model.scale_, model.coefficients_, model.predict(features).score))
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("n", [1, 2])
def test_errors_are_treated_in_all_threads_as_the_caller_has_them(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_matrix, "_BLOCK", 2)
    large = np.full(8, 1e300)
    with force_threads(n):
        with np.errstate(over="ignore"):
            assert design_matrix.map_row_blocks(lambda block: float((large[block] * 1e300).max()), 8, 1) == [np.inf] * 4
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            design_matrix.map_row_blocks(lambda block: large[block] * 1e300, 8, 1)

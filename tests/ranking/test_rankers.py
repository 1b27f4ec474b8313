"""Every ranker: its gradients, its lowest point, that no order of the input matters, what it keeps and gives back."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.arrays import Floats
from concordant.base.registry import METHODS
from concordant.errors import ConcordantError, ConcordantWarning, FormatError
from concordant.execution import watch
from concordant.kernels.graded_lists import GradedLists
from concordant.kernels.lists import offsets_of
from concordant.ranking._objective import RankerObjective
from concordant.ranking.base import Ranker
from concordant.ranking.design_matrix import DenseDesign, DesignMatrix
from concordant.ranking.second_order import ProductDesign

FEATURES, LABELS = cc.synthetic.graded_features(24, n_features=6, random_state=5)
ARRAYS = (
    FEATURES.X,
    LABELS.align(FEATURES).label,
    np.array([FEATURES.instances[n] for n in FEATURES.slots.instance]),
)

# Every ranker of the library, also one that was added in a file of its own.
RANKERS = {
    name: cls for name, cls in METHODS.items() if issubclass(cls, Ranker) and cls.__module__.startswith("concordant.")
}
CLASSES = list(RANKERS.values())
# The same with other losses.
VARIANTS: dict[str, Callable[..., Ranker]] = {
    "rao-kupper": lambda **k: cc.PairTies(model="rao-kupper", **k),
    "pmop-exact": lambda **k: cc.PMOP(inference="exact", **k),
}
EVERY: dict[str, Callable[..., Ranker]] = {**RANKERS, **VARIANTS}
# LambdaRank has gradients and no loss that they could be compared with.
SMOOTH = {name: ranker for name, ranker in EVERY.items() if name != "lambdarank"}


# Gradients.


def some_lists(seed: int = 0) -> tuple[Floats, GradedLists]:
    """Return features and lists of one to seven rows, some of them of one label."""
    rng = np.random.default_rng(seed)
    sizes = np.array([4, 1, 7, 3, 5, 2])
    label = np.concatenate([-np.sort(-rng.integers(0, 3, n)) for n in sizes]).astype(float)
    return rng.normal(size=(sizes.sum(), 4)), GradedLists.of(
        label, offsets_of(sizes), np.arange(6, dtype=np.uint64) + 9
    )


def design_of(Z: Floats, second_order: bool) -> DesignMatrix:
    if not second_order:
        return DenseDesign(Z)
    pairs = np.array([[0, 1], [0, 3], [2, 2]])
    return ProductDesign(Z, pairs, np.array([0.1, -0.2, 1.0]), np.array([1.0, 2.0, 0.5]), keep_first=True)


@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("hidden", [0, 3])
@pytest.mark.parametrize("name", list(SMOOTH))
def test_the_gradient_of_the_objective_is_that_of_finite_differences(
    name: str, hidden: int, second_order: bool
) -> None:
    owner = SMOOTH[name](hidden=hidden)
    Z, lists = some_lists()
    task = RankerObjective(owner, design_of(Z, second_order), lists, np.arange(6))
    rng = np.random.default_rng(3)
    at = 0.5 * rng.normal(size=task.size)
    for instances in (np.arange(6), np.array([0, 2, 3])):
        value, slope = task.value(at, instances, 0.3, 0)
        for k in range(task.size):
            step = np.zeros(task.size)
            step[k] = 1e-6
            rise = task.value(at + step, instances, 0.3, 0)[0] - task.value(at - step, instances, 0.3, 0)[0]
            assert slope[k] == pytest.approx(rise / 2e-6, abs=2e-6 * max(1.0, abs(value)))
    # Batches add up to the whole, but for the penalty, which each of them holds.
    parts = [task.batch_value(at, np.array([k]), 0.3, 0) for k in range(6)]
    assert np.mean([v for v, _ in parts]) == pytest.approx(task.value(at, np.arange(6), 0.3, 0)[0])
    both = task.batch_value(at, np.array([2, 0]), 0.3, 0)
    np.testing.assert_allclose(both[1], (parts[2][1] + parts[0][1]) / 2, atol=1e-10)
    np.testing.assert_allclose(
        np.mean([g for _, g in parts], axis=0), task.value(at, np.arange(6), 0.3, 0)[1], atol=1e-10
    )


def test_lambdarank_for_plain_pairs_pulls_like_ranknet() -> None:
    Z, lists = some_lists()
    owner = cc.LambdaRank(metric="pairs", normalise=False, max_items=None)
    w = np.array([0.3, -1.0, 0.2, 0.7])
    got = RankerObjective(owner, DenseDesign(Z), lists, np.arange(6))
    want = RankerObjective(cc.RankNet(), DenseDesign(Z), lists, np.arange(6))
    for k in range(6):
        own = lists.level[lists.offsets[k] : lists.offsets[k + 1]]
        pairs = (own[:, None] < own[None, :]).sum()
        pull = got.batch_value(w, np.array([k]), 0.0, 0)[1]
        # Every pair weighs one over the root of their number.
        np.testing.assert_allclose(pull * np.sqrt(pairs), want.batch_value(w, np.array([k]), 0.0, 0)[1], atol=1e-9)


def test_a_worked_step_of_lambdarank(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("30_single_sgd_steps")
    (case,) = [c for c in content["cases"] if c["name"] == "lambdarank_svd"]
    X, label = np.array(case["expected"]["X"]), np.array(case["input"]["labels"], dtype=float)
    order = np.argsort(-label, kind="stable")
    lists = GradedLists.of(label[order], np.array([0, len(label)]))
    task = RankerObjective(cc.LambdaRank(normalise=False), DenseDesign(X[order]), lists, np.array([0]))
    w = np.array(case["input"]["w0"])
    slope = task.value(w, np.array([0]), 0.0, 0)[1]
    np.testing.assert_allclose(w - case["input"]["eta"] * slope, case["expected"]["w1"], atol=content["abs_tol"])


# The lowest point.


def plainly(name: str) -> Callable[[Floats], float]:
    """Return the objective of a linear scorer, by loops over items and pairs, as a function of its weights."""
    X, y, qid = ARRAYS
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    own = [qid == q for q in dict.fromkeys(qid.tolist())]

    def value(w: Floats) -> float:
        s = Z @ w
        return float(np.mean([oracle_loss(name, s[rows], y[rows]) for rows in own]) + 0.05 * w @ w)

    return value


def oracle_loss(name: str, s: Floats, y: Floats) -> float:
    d = s[:, None] - s[None, :]
    above = y[:, None] > y[None, :]
    if name == "ranknet":
        return float(np.log1p(np.exp(-d))[above].sum())
    if name == "rank-regress":
        return float(((1 - d) ** 2)[above].sum())
    total = 0.0
    left = np.ones(len(s), dtype=bool)
    for grade in sorted(set(y.tolist()), reverse=True):
        block = y == grade
        if left.sum() > block.sum():
            total += float(np.log(np.exp(s[left]).sum()) - np.log(np.exp(s[block]).sum()))
        left &= ~block
    return total


@pytest.mark.parametrize("name", ["ranknet", "rank-regress", "pmop"])
def test_the_lowest_point_is_that_of_another_solver(name: str) -> None:
    minimize = pytest.importorskip("scipy.optimize").minimize
    model = SMOOTH[name](l2=0.1, tol=1e-14, max_iter=5000).fit(FEATURES, LABELS)
    value = plainly(name)
    assert value(model.coefficients_) == pytest.approx(model.fit_info_.objective, rel=1e-10)
    best = minimize(value, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
    assert model.fit_info_.objective <= best.fun * (1 + 1e-8)
    assert model.fit_info_.objective == pytest.approx(best.fun, rel=1e-8)
    np.testing.assert_allclose(model.coefficients_, best.x, atol=1e-4)


@pytest.mark.parametrize("name", list(SMOOTH))
def test_the_default_fit_is_close_to_the_lowest_point(name: str) -> None:
    rough = SMOOTH[name](l2=0.1).fit(FEATURES, LABELS)
    fine = SMOOTH[name](l2=0.1, tol=1e-13, max_iter=5000).fit(FEATURES, LABELS)
    assert rough.fit_info_.converged
    assert rough.fit_info_.objective == pytest.approx(fine.fit_info_.objective, rel=2e-3)
    assert fine.fit_info_.objective <= rough.fit_info_.objective
    if name != "ranksvm":  # whose loss has kinks
        assert fine.fit_info_.gradient_norm < 1e-3 * max(1.0, fine.fit_info_.objective)


@pytest.mark.parametrize("solver", ["sgd", "adam"])
@pytest.mark.parametrize("name", list(SMOOTH))
def test_steps_by_single_instances_come_near_the_lowest_point(name: str, solver: str) -> None:
    best = SMOOTH[name](l2=0.1).fit(FEATURES, LABELS)
    start = RankerObjective(SMOOTH[name](), *started(best)).value(
        np.zeros(len(best.coefficients_) + best._n_extra), np.arange(24), 0.1, 0
    )[0]
    model = SMOOTH[name](l2=0.1, solver=solver).fit(FEATURES, LABELS)
    low, got = best.fit_info_.objective, model.fit_info_.objective
    assert low <= got * (1 + 1e-3)
    assert got - low < 0.35 * (start - low)
    assert np.corrcoef(model.predict(FEATURES).score, best.predict(FEATURES).score)[0, 1] > 0.9


def started(model: Ranker) -> tuple[DesignMatrix, GradedLists, Any]:
    """Return the columns, lists and numbers of lists with which the whole training part is one task."""
    y = ARRAYS[1]
    order = np.lexsort((-y, FEATURES.slots.instance))
    Z = ((FEATURES.X - model.centre_) * model.scale_)[order]
    return DenseDesign(Z), GradedLists.of(y[order], FEATURES.slots.offsets), np.arange(24)


@pytest.mark.parametrize("batch", [1, 5, 24, 100])
def test_batches_of_any_size_are_learned_from(batch: int) -> None:
    model = cc.RankNet(solver="adam", batch=batch, l2=0.1, max_iter=100, learning_rate=0.05).fit(FEATURES, LABELS)
    best = cc.RankNet(l2=0.1).fit(FEATURES, LABELS)
    assert model.fit_info_.objective == pytest.approx(best.fit_info_.objective, rel=0.05)


# Orders.


@pytest.mark.parametrize(
    "params", [{}, {"hidden": 2}, {"solver": "sgd"}, {"second_order": True, "min_correlation": 0.0}]
)
@pytest.mark.parametrize("name", [n for n in EVERY if n != "list-mle"])
def test_no_order_of_the_input_matters(name: str, params: dict[str, Any]) -> None:
    X, y, qid = ARRAYS
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(y)), rng.permutation(6)
    common = {"l2": 0.0, "max_iter": 40} | params
    if name == "lambdarank":
        common |= {"max_iter": 5}
    with warnings_ignored():
        want = EVERY[name](**common).fit(X, y, qid=qid)
        got = EVERY[name](**common).fit(X[rows][:, columns], y[rows], qid=qid[rows])
    # To the last bit: everything is summed in one order.
    np.testing.assert_array_equal(got.predict(X[:, columns]), got.predict(X[rows][:, columns])[np.argsort(rows)])
    np.testing.assert_allclose(got.predict(X[:, columns]), want.predict(X), rtol=1e-11, atol=1e-11)
    assert got.fit_info_.objective == want.fit_info_.objective


def test_list_mle_learns_the_order_of_ties_in_the_input() -> None:
    X, y, qid = ARRAYS
    rng = np.random.default_rng(0)
    rows, columns, places = rng.permutation(len(y)), rng.permutation(6), rng.permutation(24)
    want = cc.ListMLE(l2=0.1).fit(X, y, qid=qid)
    assert cc.ListMLE(l2=0.1).fit(X[rows], y[rows], qid=qid[rows]).fit_info_.objective != want.fit_info_.objective
    # The order of features and of instances is another matter.
    np.testing.assert_array_equal(
        cc.ListMLE(l2=0.1).fit(X[:, columns], y, qid=qid).fit_info_.objective, want.fit_info_.objective
    )
    turned = cc.ListMLE(l2=0.1).fit(FEATURES[places], LABELS)
    np.testing.assert_array_equal(turned.coefficients_, want.coefficients_)


def warnings_ignored() -> Any:
    import warnings

    context = warnings.catch_warnings()

    class Quiet:
        def __enter__(self) -> None:
            context.__enter__()
            warnings.simplefilter("ignore", ConcordantWarning)

        def __exit__(self, *error: Any) -> None:
            context.__exit__(*error)

    return Quiet()


# Parameters.


@pytest.mark.parametrize("cls", CLASSES)
def test_signatures_hold_every_parameter(cls: type[Ranker]) -> None:
    names = list(inspect.signature(cls).parameters)
    assert set(inspect.signature(Ranker).parameters) <= set(names)
    assert "kwargs" not in names
    assert tuple(names) == cls.param_names()
    assert set(names) == set(cls.constraints)
    assert not [n for n in names if f"\n{n} : " not in (cls.__doc__ or "") and f"{n}, " not in (cls.__doc__ or "")]
    assert "{common}" not in (cls.__doc__ or "")
    assert "{learned}" not in (cls.__doc__ or "")
    model = cls()
    assert repr(model) == f"{cls.__name__}()"
    assert repr(cls(hidden=4, l2=(0.1, 1.0))) == f"{cls.__name__}(hidden=4, l2=(0.1, 1.0))"
    with pytest.raises(TypeError):
        cls(nonsense=1)


def test_a_ranker_without_a_section_of_parameters_gets_the_common_ones() -> None:
    class Brief(Ranker):
        """The scores that please.

        References
        ----------
        Nobody, 2024.
        """

    doc = inspect.getdoc(Brief) or ""
    places = [
        doc.index(text) for text in ("The scores", "\nhidden : int\n", "\nfeature_names_ : ", "\nReferences\n---")
    ]
    assert places == sorted(places)


def test_common_parameters_are_told_in_the_docstring_of_the_base() -> None:
    assert "{common}" not in (Ranker.__doc__ or "")
    assert "learning_rate : float or None" in (Ranker.__doc__ or "")


@pytest.mark.parametrize("name", list(EVERY))
def test_copies_are_as_good(name: str) -> None:
    model = EVERY[name](l2=0.1, max_iter=20)
    with warnings_ignored():
        model.fit(FEATURES, LABELS)
    want = model.predict(FEATURES)
    assert copy.deepcopy(model).predict(FEATURES) == want
    assert pickle.loads(pickle.dumps(model)).predict(FEATURES) == want
    model.set_params(hidden=3, second_order=True, standardise=False, keep_first=True)
    assert model.predict(FEATURES) == want, "what was learned does not hang on parameters set later"


# Saving.


FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "linear": ({}, "features"),
    "hidden": ({"hidden": 3}, "features"),
    "products": ({"second_order": True, "min_correlation": 0.0}, "features"),
    "both": ({"second_order": True, "min_correlation": 0.0, "keep_first": True, "hidden": 2}, "features"),
    "raw": ({"standardise": False, "nan": "mean"}, "features"),
    "experts": ({}, "votes"),
    "singular": ({"expert_features": "svd"}, "votes"),
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("name", list(EVERY))
def test_a_saved_ranker_scores_the_same(tmp_path: Path, name: str, form: str) -> None:
    params, kind = FORMS[form]
    data, labels = (FEATURES, LABELS) if kind == "features" else cc.synthetic.labelled_runs(8, random_state=1)
    with warnings_ignored():
        model = EVERY[name](**{"l2": 0.1, "max_iter": 10} | params).fit(data, labels)
    model.save(tmp_path / "m")
    again = cc.load(tmp_path / "m")
    assert again.predict(data) == model.predict(data)
    assert again.fit_info_ == model.fit_info_
    learned = {n for n in vars(model) if n.endswith("_")}
    assert learned == {n for n in vars(again) if n.endswith("_")}
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(content[:-9])
    with pytest.raises(FormatError):
        cc.load(tmp_path / "m")


@pytest.mark.parametrize("form", ["both", "experts"])
def test_state_that_does_not_go_together_is_refused(tmp_path: Path, form: str) -> None:
    params, kind = FORMS[form]
    data, labels = (FEATURES, LABELS) if kind == "features" else cc.synthetic.labelled_runs(8, random_state=1)
    with warnings_ignored():
        model = cc.PairTies(l2=0.1, max_iter=10, **params).fit(data, labels)
    # Records of the training data have tests of their own.
    apart = ("fit_info_", "shared_", "training_")
    learned = {n: v for n, v in vars(model).items() if n.endswith("_") and n not in apart}
    for name, value in learned.items():
        for other in (value[:-1], np.concatenate([value, value]) if isinstance(value, np.ndarray) else value * 2):
            if len(other) == len(value):
                continue
            hostile = cc.PairTies(**model.get_params())
            vars(hostile).update(
                learned | {"shared_": -1, name: other} if form == "experts" else learned | {name: other}
            )
            hostile.save(tmp_path / "h")
            with pytest.raises(ConcordantError):
                cc.load(tmp_path / "h")


# Checkpoints and interrupts.

WAYS: dict[str, dict[str, Any]] = {
    "lbfgs": {},
    "hidden": {"hidden": 3},
    "sgd": {"solver": "sgd"},
    "adam": {"solver": "adam", "batch": 3},
    "penalties": {"l2": (1.0, 0.1, 0.0), "cv": 3, "patience": 3},
}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("name", ["ranknet", "pair-ties", "pmop", "lambdarank"])
def test_what_is_taken_up_again_ends_bit_for_bit_where_it_would_have(tmp_path: Path, name: str, way: str) -> None:
    params = {"tol": 0.0, "max_iter": 9} | WAYS[way]
    if name == "lambdarank":
        params = {"max_iter": 9} | {k: v for k, v in WAYS[way].items() if k != "hidden"}
    with warnings_ignored():
        want = EVERY[name](**params).fit(FEATURES, LABELS)

        def stop(done: int, total: int) -> None:
            if done == 4:
                raise KeyboardInterrupt

        with (
            cc.checkpoint(tmp_path / "c", every=0.0),
            watch(stop),
            pytest.raises(KeyboardInterrupt),
        ):
            EVERY[name](**params).fit(FEATURES, LABELS)
        with cc.checkpoint(tmp_path / "c"):
            got = EVERY[name](**params).fit(FEATURES, LABELS)
        with cc.checkpoint(tmp_path / "c"), pytest.raises(FormatError, match="another fit"):
            EVERY[name](**params | {"tol": 1e-9}).fit(FEATURES, LABELS)
    np.testing.assert_array_equal(got.coefficients_, want.coefficients_)
    np.testing.assert_array_equal(got.extra_, want.extra_)
    assert got.fit_info_.objective == want.fit_info_.objective
    assert got.fit_info_.chosen == want.fit_info_.chosen


@pytest.mark.parametrize("way", list(WAYS))
def test_an_interrupt_keeps_the_best_so_far(way: str) -> None:
    params = {"tol": 0.0, "max_iter": 50} | WAYS[way]
    model = cc.RankNet(**params)

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with watch(stop), pytest.warns(ConcordantWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.fit(FEATURES, LABELS)
    assert np.isfinite(model.predict(FEATURES).score).all()
    assert model.fit_info_.interrupted
    assert not model.fit_info_.converged
    assert model.fit_info_.objective is not None
    assert np.abs(model.coefficients_).max() > 0


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    words: list[str] = []
    with watch(lambda done, total: told.append((done, total)), note=words.append), warnings_ignored():
        cc.RankNet(max_iter=5, tol=0.0).fit(FEATURES[:16], LABELS, validation=(FEATURES[16:], LABELS[16:]))
    assert told == [(k, 5) for k in range(1, 6)]
    assert all("ndcg@10" in text for text in words)

"""ListwiseLinear finds the one optimum of its convex problem, and does what its page says at the edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.oracles import listwise as oracle

import concordant as cc
from concordant.aggregators import listwise
from concordant.errors import ConcordantWarning, DataError, ParameterError

ITEMS = tuple("abcdefgh")
EXPERTS = ("x", "y", "z")


class Case:
    """A few instances as plain tables: ranks by expert, with gaps, ties and items left out, and labels."""

    def __init__(self, n: int = 12, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.lists: dict[str, dict[str, dict[str, float]]] = {}
        self.labels: dict[tuple[str, str], float] = {}
        for q in (f"q{i}" for i in range(n)):
            items = ITEMS[: int(rng.integers(5, 9))]
            truth = rng.choice([0.0, 0.0, 1.0, 2.0], size=len(items))
            truth[0], truth[1] = 2.0, 0.0
            self.labels |= {(q, i): t for i, t in zip(items, truth.tolist(), strict=True)}
            self.lists[q] = {}
            for k, quality in zip(EXPERTS, (1.5, 0.2, -1.0), strict=True):
                kept = rng.random(len(items)) < 0.7
                seen = quality * truth + rng.normal(size=len(items))
                rank = {i: float(1 + 2 * int((seen > s).sum()) // 3 * 2) for i, s in zip(items, seen, strict=True)}
                self.lists[q][k] = {i: rank[i] for i, there in zip(items, kept.tolist(), strict=True) if there}

    def items(self, q: str) -> list[str]:
        return [i for r, i in self.labels if r == q]

    def votes(self, order: Any = None) -> cc.Preferences:
        rows = [(q, k, i, r) for q, by in self.lists.items() for k, ranks in by.items() for i, r in ranks.items()]
        pairs, experts = list(self.labels), list(EXPERTS)
        if order is not None:
            rows = [rows[i] for i in order.permutation(len(rows))]
            pairs = [pairs[i] for i in order.permutation(len(pairs))]
            experts = experts[::-1]
        return cc.Preferences(*zip(*rows, strict=True), items=pairs, experts=experts)

    def truth(self, without: str = "") -> cc.Labels:
        kept = [(q, i, t) for (q, i), t in self.labels.items() if i != without]
        return cc.Labels(*zip(*kept, strict=True))

    def tables(self, transforms: tuple[str, ...], below: bool, gain: str) -> list[oracle.Table]:
        out = []
        for q, lists in self.lists.items():
            items = self.items(q)
            X = oracle.features(items, lists, EXPERTS, transforms, below)
            out.append((X, oracle.shares([self.labels[q, i] for i in items], gain)))
        return out


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def fit(case: Case, **params: Any) -> cc.ListwiseLinear:
    return cc.ListwiseLinear(**{"l2": 0.1} | params).fit(case.votes(), case.truth())


@pytest.mark.parametrize("transform", ["log", "binary", "rankdiff", "log+binary"])
@pytest.mark.parametrize("missing", ["unknown", "below"])
def test_optimum_is_that_of_full_tables(case: Case, transform: str, missing: str) -> None:
    transforms = tuple(transform.split("+"))
    model = fit(case, transform=transform, missing=missing)
    tables = case.tables(transforms, missing == "below", "exponential")
    want, _ = oracle.solve(tables, len(EXPERTS), 0.1)
    assert model.experts_ == list(EXPERTS)
    np.testing.assert_allclose(model.weights_, want, atol=1e-6)
    # The scores of the public API are the sums of the tables.
    score = np.concatenate([X @ model.weights_.ravel() for X, _ in tables])
    np.testing.assert_allclose(model.predict(case.votes()).score, score, atol=1e-9)


@pytest.mark.parametrize("gain", ["exponential", "linear"])
@pytest.mark.parametrize("l2", [0.003, 3.0])
def test_optimum_under_other_gains_and_penalties(case: Case, gain: str, l2: float) -> None:
    want, _ = oracle.solve(case.tables(("log",), False, gain), len(EXPERTS), l2)
    np.testing.assert_allclose(fit(case, gain=gain, l2=l2).weights_, want, atol=1e-5)


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_defaults_end_where_the_slope_is_zero(case: Case, solver: str) -> None:
    model = cc.ListwiseLinear(solver=solver).fit(case.votes(), case.truth())
    l2 = model.fit_info_.chosen["l2"]
    tables = case.tables(("log",), False, "exponential")
    unit = np.tile(oracle.spread(tables, len(EXPERTS)), len(EXPERTS))
    w = model.weights_.ravel()
    assert model.fit_info_.objective == pytest.approx(oracle.objective(w, tables, l2, unit), abs=1e-12)
    assert model.fit_info_.gradient_norm <= 1e-8
    for i in range(len(w)):
        step = np.zeros(len(w))
        step[i] = 1e-5 / unit[i]
        up, down = (oracle.objective(w + sign * step, tables, l2, unit) for sign in (1, -1))
        assert abs(up - down) / 2e-5 < 1e-7


def test_solvers_agree(case: Case) -> None:
    newton, other = (fit(case, solver=s, l2=0.01).weights_ for s in ("newton", "lbfgs"))
    np.testing.assert_allclose(newton, other, atol=1e-5)


def test_too_few_steps_are_said(case: Case) -> None:
    with pytest.warns(ConcordantWarning, match="gradient of"):
        model = fit(case, solver="lbfgs", max_iter=1)
    assert not model.fit_info_.converged


def test_order_of_anything_leaves_no_trace(case: Case) -> None:
    for params in ({"l2": 0.01}, {"weights": "consensus", "l2": 0.01}, {"weights": "mixed", "min_lists": 11}):
        want = cc.ListwiseLinear(**params).fit(case.votes(), case.truth())
        for seed in range(2):
            got = cc.ListwiseLinear(**params).fit(case.votes(np.random.default_rng(seed)), case.truth())
            assert got.experts_ == want.experts_
            np.testing.assert_array_equal(got.weights_, want.weights_)


def test_penalty_and_transform_are_chosen_by_what_is_held_out(case: Case) -> None:
    other = Case(10, seed=9)
    pair = (other.votes(), other.truth())
    model = cc.ListwiseLinear(transform="auto").fit(case.votes(), case.truth(), validation=pair)
    values = {}
    for transform in ("binary", "rankdiff", "log"):
        for l2 in listwise._PATH:
            fixed = fit(case, transform=transform, l2=l2)
            mean = cc.evaluate(fixed.predict(pair[0]), pair[1], "ndcg@10", convention="paper").mean
            values[transform, l2] = mean["ndcg@10"]
    chosen = model.fit_info_.chosen
    assert model.fit_info_.validation == pytest.approx(max(values.values()), abs=1e-9)
    assert values[chosen["transform"], chosen["l2"]] == pytest.approx(max(values.values()), abs=1e-9)
    # A tuple holds the candidates.
    among = cc.ListwiseLinear(transform=("binary", "log+binary")).fit(case.votes(), case.truth(), validation=pair)
    assert among.fit_info_.chosen["transform"] in ("binary", "log+binary")


def test_without_validation_folds_choose(case: Case) -> None:
    model = cc.ListwiseLinear().fit(case.votes(), case.truth())
    assert model.fit_info_.validation is not None
    assert model.fit_info_.chosen["l2"] in listwise._PATH
    assert model.fit_info_.labels == {
        "instances": 12, "labelled": 12, "usable": 12, "items": 81, "judged": 81, "unjudged": 0, "elsewhere": 0,
    }  # fmt: skip


def test_three_instances_are_all_learned_from(case: Case) -> None:
    with pytest.warns(ConcordantWarning, match="too few to hold any out"):
        model = cc.ListwiseLinear().fit(case.votes()[:3], case.truth())
    assert model.fit_info_.chosen["l2"] == listwise._MIDDLE
    with pytest.warns(ConcordantWarning, match="too few to hold any out"):
        same = cc.ListwiseLinear(l2=listwise._MIDDLE).fit(case.votes()[:3], case.truth())
    np.testing.assert_array_equal(model.weights_, same.weights_)


def test_unjudged_items_count_as_zero_or_not_at_all(case: Case) -> None:
    some = case.truth(without="c")
    zero, drop = (cc.ListwiseLinear(l2=0.1, unjudged=u).fit(case.votes(), some) for u in ("zero", "drop"))
    assert zero.fit_info_.labels["unjudged"] == drop.fit_info_.labels["unjudged"] == 12
    full = Case()
    full.labels |= {pair: 0.0 for pair in full.labels if pair[1] == "c"}
    np.testing.assert_allclose(zero.weights_, fit(full).weights_, atol=1e-9)
    assert np.abs(drop.weights_ - zero.weights_).max() > 1e-3


def test_labels_of_any_size_and_sign() -> None:
    small, large, shifted = Case(), Case(), Case()
    # From a thousand on 2^label overflows; the largest gain of an instance then takes everything, as it should.
    large.labels = {pair: 1000.0 * (label == 2) for pair, label in small.labels.items()}
    small.labels = {pair: float(label == 2) for pair, label in small.labels.items()}
    np.testing.assert_allclose(fit(large).weights_, fit(small).weights_, atol=1e-9)
    shifted.labels = {pair: label - 3.0 for pair, label in shifted.labels.items()}
    with pytest.raises(DataError, match="none of them is positive"):
        fit(shifted)


def test_instances_without_gain_are_left_out(case: Case) -> None:
    other = Case()
    other.labels |= {pair: label - 2.0 for pair, label in other.labels.items() if pair[0] == "q0"}
    rest = np.arange(1, 12)
    want = cc.ListwiseLinear(l2=0.1).fit(case.votes()[rest], case.truth())
    np.testing.assert_allclose(fit(other).weights_, want.weights_, atol=1e-9)


def test_shared_weights_serve_strangers(case: Case) -> None:
    votes = case.votes()
    stranger = cc.from_lists({"new": ["a", "b", "c"]})
    with pytest.raises(DataError, match=r"'new'.*Known: \['x', 'y', 'z'\]"):
        fit(case).predict(stranger)
    ignored = fit(case, unknown_experts="ignore").predict(stranger)
    assert ignored.rank.tolist() == [1, 1, 1]
    consensus = fit(case, weights="consensus")
    assert consensus.experts_ == ["*"]
    assert consensus.predict(stranger).rank.tolist() in ([1, 2, 3], [3, 2, 1])
    mixed = fit(case, weights="mixed", min_lists=1)
    assert mixed.experts_ == ["x", "y", "z", "*"]
    np.testing.assert_allclose(mixed.weights_[3], mixed.weights_[:3].mean(axis=0), atol=1e-12)
    few = cc.ListwiseLinear(l2=0.1, weights="mixed", min_lists=12).fit(votes.drop_experts(["z"]), case.truth())
    assert few.experts_ == ["x", "y", "*"]


def test_mixed_weights_are_learned_from_those_who_share_them(case: Case) -> None:
    renamed = {q: {"x": by["x"]} | {f"{k}{q}": by[k] for k in "yz"} for q, by in case.lists.items()}
    rows = [(q, k, i, r) for q, by in renamed.items() for k, ranks in by.items() for i, r in ranks.items()]
    votes = cc.Preferences(*zip(*rows, strict=True), items=list(case.labels))
    model = cc.ListwiseLinear(l2=0.1, weights="mixed", min_lists=2).fit(votes, case.truth())
    assert model.experts_ == ["x", "*"]
    # The same by hand: one block for x, one for all others together.
    tables = []
    for q, lists in case.lists.items():
        X = oracle.features(case.items(q), lists, EXPERTS, ("log",), False).reshape(-1, 3, 3)
        own = np.stack([X[:, 0], X[:, 1] + X[:, 2]], axis=1)
        tables.append(
            (own.reshape(len(X), 6), oracle.shares([case.labels[q, i] for i in case.items(q)], "exponential"))
        )
    want, _ = oracle.solve(tables, 2, 0.1)
    np.testing.assert_allclose(model.weights_, want, atol=1e-5)


def test_explanation_adds_up_to_the_score(case: Case) -> None:
    votes = case.votes()
    for params in ({}, {"weights": "consensus"}, {"weights": "mixed", "min_lists": 13}, {"missing": "below"}):
        model = fit(case, transform="log+binary", **params)
        for q in ("q0", "q5"):
            told = model.explain(votes, q)
            score = dict(zip(votes[q].items, model.predict(votes)[q].score, strict=True))
            np.testing.assert_allclose(told.score, [score[i] for i in told.items], atol=1e-9)
            assert set(told.experts) <= set(EXPERTS)


def test_saved_and_loaded(case: Case, tmp_path: Path) -> None:
    model = fit(case, transform="log+rankdiff")
    model.save(tmp_path / "model")
    loaded = cc.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(case.votes()).score, model.predict(case.votes()).score)
    assert loaded.expert_weights_.equals(model.expert_weights_)
    assert loaded.expert_weights_.columns[:4] == ["expert", "weight", "alpha", "beta_plus_log"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transform", "log+log"),
        ("transform", ()),
        ("transform", "count"),
        ("l2", 0.0),
        ("l2", "none"),
        ("select", "x@"),
    ],
)
def test_nonsense_is_refused(case: Case, name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' parameter of ListwiseLinear"):
        cc.ListwiseLinear(**{name: value}).fit(case.votes(), case.truth())


def test_comparisons_and_scores_are_heard(case: Case) -> None:
    pairs = case.votes().comparisons("binary")
    by_pairs = cc.ListwiseLinear(l2=0.1).fit(pairs, case.truth())
    by_lists = fit(case, transform="binary")
    got, want = by_pairs.predict(pairs).score, by_lists.predict(case.votes()).score
    # An item that is alone in its list was compared with nobody: that is all the two do not share.
    assert np.corrcoef(got, want)[0, 1] > 0.99
    scores = cc.Preferences.from_codes(
        *(getattr(case.votes(), n) for n in ("slots", "experts", "list_expert", "list_offsets", "list_starts", "slot")),
        -case.votes().value,
        kind="score",
    )
    again = cc.ListwiseLinear(l2=0.1, transform="binary").fit(scores, case.truth())
    np.testing.assert_allclose(again.weights_, by_lists.weights_, atol=1e-9)


def test_good_experts_overrule_a_wrong_majority() -> None:
    runs, labels = cc.synthetic.labelled_runs(210, random_state=2)
    model = cc.ListwiseLinear().fit(runs[:60], labels)
    value = cc.evaluate(model.predict(runs[60:]), labels[60:], "ndcg@10", convention="paper").mean["ndcg@10"]
    fused = cc.evaluate(cc.RRF().fit_predict(runs[60:]), labels[60:], "ndcg@10", convention="paper").mean["ndcg@10"]
    assert value > 0.87
    assert fused < 0.6
    trust = dict(zip(model.experts_, model.adherence_, strict=True))
    assert trust["e1"] > 0 > trust["e8"]
    assert model.expert_weights_["meaning"][7].startswith("inverted")


@pytest.mark.data
def test_convex_reference_on_real_data(data_dir: Path) -> None:
    (runs, labels), validation, _ = cc.read_letor_folds(data_dir / "MQ2008-agg")[0]
    model = cc.ListwiseLinear().fit(runs, labels, validation=validation)
    fused = cc.evaluate(cc.RRF().fit_predict(validation[0]), validation[1], "ndcg@10", convention="paper").mean
    assert model.fit_info_.validation > fused["ndcg@10"] + 0.01
    assert model.fit_info_.gradient_norm < 1e-10

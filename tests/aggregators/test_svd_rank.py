"""SVDRank learns whom to believe, scores what `transform` shows, and does what its page says at the edges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.aggregators.common import from_matrix

import concordant as cc
from concordant.aggregators._lambdarank import LambdaRankLearner, Queries, Settings
from concordant.base.checks import CHECKS
from concordant.errors import ConcordantWarning, DataError, FormatError, KindError, NotFittedError, ParameterError
from concordant.execution import watch
from concordant.features.expert_features import weight_blocks
from concordant.features.svd_features import singular_triples, triple_rows
from concordant.ranking.metric_swaps import lambda_metric

PAPER = {"scaling": "paper", "average": 0, "l2": 0, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def runs() -> tuple[cc.Preferences, cc.Labels]:
    return cc.synthetic.labelled_runs(40, random_state=1)


def quality(model: cc.Aggregator, votes: Any, labels: cc.Labels) -> float:
    return cc.evaluate(model.predict(votes), labels.align(votes), "ndcg@10").mean["ndcg@10"]


@pytest.mark.parametrize("how", [{}, PAPER, {"hidden": 4}, {"p": 2}, {"max_items": 8}], ids=str)
def test_it_learns_what_no_vote_can(runs: tuple[cc.Preferences, cc.Labels], how: dict[str, Any]) -> None:
    votes, labels = runs
    fresh = votes[30:]
    model = cc.SVDRank(passes=60, **how).fit(votes[:30], labels)
    assert quality(model, fresh, labels) > quality(cc.RRF(), fresh, labels) + 0.15
    # The last two experts of the generator turn the order around.
    trust = dict(zip(model.experts_, model.adherence_.tolist(), strict=True))
    assert trust["e1"] > 0 > trust["e8"]


def test_one_matrix_for_all_cannot_tell_good_experts_from_bad(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    one, each = (cc.SVDRank(passes=60, weights=w).fit(votes[:30], labels) for w in ("consensus", "individual"))
    assert one.experts_ == ["*"]
    assert quality(one, votes[30:], labels) < quality(each, votes[30:], labels) - 0.1


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@5", "err", "map", "p@5", "mrr", "pairs"])
def test_any_metric_can_be_learned_for(runs: tuple[cc.Preferences, cc.Labels], metric: str) -> None:
    votes, labels = runs
    model = cc.SVDRank(passes=30, metric=metric).fit(votes, labels)
    assert quality(model, votes, labels) > quality(cc.RRF(), votes, labels) + 0.15


def test_a_metric_it_cannot_learn_for_is_refused(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    for metric in ("p", "recall@5", "nonsense", 5):
        with pytest.raises(ParameterError, match="'metric' parameter of SVDRank"):
            cc.SVDRank(metric=metric).fit(*runs)  # type: ignore[arg-type]


# The features.


@pytest.mark.parametrize("case", range(4))
def test_transform_gives_the_worked_features(golden: Callable[[str], dict[str, Any]], case: int) -> None:
    content = golden("02_svd_features")
    chosen = content["cases"][case]
    R, p = np.array(chosen["input"]["R"]), chosen["input"]["p"]
    votes = from_matrix(R)
    labels = cc.Labels(["q"] * len(R), [f"i{i}" for i in range(len(R))], np.arange(len(R)))
    model = cc.SVDRank(strength=chosen["input"]["transform"], p=p, scaling="paper", passes=1)
    with pytest.warns(ConcordantWarning, match="too few to hold any out"):
        X = model.fit_transform(votes, labels)
    table = X.X.reshape(len(R), -1, 3 * p + 1)
    want = np.array(chosen["expected"]["features"])
    np.testing.assert_allclose(table[:, :, : 3 * p].reshape(len(R), -1), want, atol=content["abs_tol"])
    assert table[:, :, 3 * p].tolist() == (R == 0).astype(float).tolist()


def test_a_worked_step_from_lists_to_weights(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("30_single_sgd_steps")
    (case,) = [c for c in content["cases"] if c["name"] == "lambdarank_svd"]
    votes = from_matrix(case["input"]["R"])
    blocks = weight_blocks(votes, "individual", 1, 1)
    rows = triple_rows(singular_triples(votes, blocks, blocks.block_of_expert(votes, "test")), votes.slots)
    label = np.array(case["input"]["labels"], dtype=float)
    queries = Queries.of(rows, label, np.array([0]), votes.instances, lambda_metric("ndcg"))
    chosen = {"strength": "log", "learning_rate": case["input"]["eta"]}
    learner = LambdaRankLearner(chosen, Settings(1, 0, 0.0, 0.0, 0), blocks, [rows], queries)
    # There the features of all experts come first, then whether each does not list the item.
    w0, w1 = (np.array(v) for v in (case["input"]["w0"], case["expected"]["w1"]))
    here = [[3 * k, 3 * k + 2, 9 + k] for k in range(3)]
    got = learner.advance(w0[here].ravel(), np.array([0]), 0)
    np.testing.assert_allclose(got, w1[here].ravel(), atol=content["abs_tol"])
    inert = [1, 4, 7]
    assert w1[inert] == pytest.approx(w0[inert])
    np.testing.assert_allclose(
        learner.scores(w0[here].ravel(), "train", None) + w0[9:].sum(),
        np.array(case["expected"]["s"]) - (np.array(case["expected"]["X"])[:, inert] @ w0[inert]),
        atol=content["abs_tol"],
    )


HOWS = [{}, {"p": 2}, {"weights": "consensus"}, {"weights": "mixed", "min_lists": 30}, {"missing": "below"}, PAPER]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_scores_are_the_features_times_the_weights(runs: tuple[cc.Preferences, cc.Labels], how: dict[str, Any]) -> None:
    votes, labels = runs
    model = cc.SVDRank(passes=5, **how).fit(votes[:30], labels)
    X = model.transform(votes)
    assert X.slots == votes.slots
    assert X.n_features == model.weights_.size
    np.testing.assert_allclose(X.X @ model.weights_.ravel(), model.predict(votes).score, atol=1e-10)
    assert np.all(model.weights_[:, model.p : 2 * model.p] == 0)


@pytest.mark.parametrize("missing", ["unknown", "below"])
def test_a_hidden_layer_scores_the_features_too(runs: tuple[cc.Preferences, cc.Labels], missing: str) -> None:
    votes, labels = runs
    model = cc.SVDRank(passes=5, p=2, hidden=3, weights="mixed", min_lists=30, missing=missing).fit(votes[:30], labels)
    X = model.transform(votes).X.reshape(votes.n_slots, len(model.experts_), 7).copy()
    X[:, :, 6] -= 1.0
    score = np.tanh(np.tensordot(X, model.hidden_, axes=2) + model.bias_) @ model.top_
    np.testing.assert_allclose(score, model.predict(votes).score, atol=1e-10)
    assert np.abs(model.hidden_[:, 2:4]).max() > 0
    # What is reported for each expert is the slope where nobody lists the item.
    step = 1e-6
    slope = [
        (np.tanh(step * model.hidden_[b, c] + model.bias_) - np.tanh(model.bias_)) @ model.top_ / step
        for b in range(len(model.experts_))
        for c in range(7)
    ]
    assert model.weights_.ravel() == pytest.approx(slope, abs=1e-5)


def test_columns_are_called_after_experts(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    model = cc.SVDRank(passes=1, p=2, weights="mixed", min_lists=41).fit(votes, labels)
    assert model.transform(votes).names.tolist() == [
        "*.u1",
        "*.u2",
        "*.sigma1",
        "*.sigma2",
        "*.v1",
        "*.v2",
        "*.missing",
    ]
    with pytest.raises(NotFittedError):
        cc.SVDRank().transform(votes)


# What must not matter.

VARIANTS = [
    cc.SVDRank(passes=15),
    cc.SVDRank(passes=15, weights="consensus"),
    cc.SVDRank(passes=15, weights="mixed", min_lists=5, missing="below"),
    cc.SVDRank(passes=15, hidden=3),
    cc.SVDRank(passes=15, metric="map", strength=("log", "binary"), **PAPER),
    cc.SVDRank(passes=15, max_items=4, metric="pairs"),
]


@pytest.mark.parametrize("check", ["order_of_rows_is_irrelevant", "order_of_experts_is_irrelevant", "equal_items_tie"])
@pytest.mark.parametrize("method", VARIANTS, ids=repr)
def test_order_is_irrelevant_though_chance_enters(method: cc.SVDRank, check: str) -> None:
    CHECKS[check](method)


def test_seeds_differ(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    one, two = (cc.SVDRank(passes=3, random_state=s).fit(*runs).weights_ for s in (0, 1))
    assert not np.array_equal(one, two)


# Experts, instances and items at the edge.


def test_an_unknown_expert_is_named_ignored_or_served(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    known = votes.drop_experts(["e8"])
    model = cc.SVDRank(passes=5).fit(known, labels)
    with pytest.raises(DataError, match=r"'e8'.*unknown_experts"):
        model.predict(votes)
    model.set_params(unknown_experts="ignore")
    np.testing.assert_array_equal(model.predict(votes).score, model.predict(known).score)
    mixed = cc.SVDRank(passes=5, weights="mixed", min_lists=1).fit(known, labels)
    assert mixed.experts_[-1] == "*"
    # Nobody taught the shared weights: a stranger is an average expert.
    np.testing.assert_allclose(mixed.weights_[-1], mixed.weights_[:-1].mean(axis=0))
    assert not np.array_equal(mixed.predict(votes).score, mixed.predict(known).score)


def test_an_absent_expert_changes_no_rank(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    model = cc.SVDRank(passes=5).fit(votes, labels)
    part = votes[:5].drop_experts(["e3", "e4"])
    spoken = part.select_experts([e for e in part.experts if e not in ("e1",)])
    silent = cc.Preferences(
        *(spoken.to_frame().drop_nulls()[c].to_list() for c in ("instance", "expert", "item")),
        spoken.to_frame().drop_nulls()["rank"].to_list(),
        items=list(zip(spoken.slots.instances.take(spoken.slots.instance), spoken.slots.items, strict=True)),
        experts=votes.experts.tolist(),
    )
    np.testing.assert_array_equal(model.predict(spoken).rank, model.predict(silent).rank)
    np.testing.assert_allclose(model.predict(spoken).score, model.predict(silent).score)


def test_instances_without_preferences_and_items_nobody_lists(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    model = cc.SVDRank(passes=5).fit(*runs)
    votes = cc.Preferences(
        ["q", "q", "one"],
        ["e1", "e1", "e2"],
        ["a", "b", "only"],
        [1, 2, 1],
        items=[("q", "a"), ("q", "b"), ("q", "nobody"), ("empty", "x"), ("empty", "y"), ("one", "only")],
    )
    got = model.predict(votes)
    nobody = float(model.weights_[:, -1].sum())
    assert got["empty"].rank.tolist() == [1, 1]
    assert got["empty"].score == pytest.approx([nobody] * 2)
    assert got["q"].score[2] == pytest.approx(nobody)
    assert got["one"].rank.tolist() == [1]
    assert len(model.predict(votes[:0])) == 0


def test_labels_are_used_as_far_as_they_go(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    frame = labels.to_frame()
    some = frame[::2].filter(frame[::2]["instance"] != "q1")
    part = cc.Labels(some["instance"], some["item"], some["label"])
    zero = cc.SVDRank(passes=3).fit(votes, part)
    drop = cc.SVDRank(passes=3, unjudged="drop").fit(votes, part)
    info = zero.fit_info_.labels
    assert info["labelled"] == len(votes) - 1
    assert info["judged"] == len(some)
    assert info["judged"] + info["unjudged"] + int(votes.slots.sizes[votes.instances.codes["q1"]]) == votes.n_slots
    assert not np.array_equal(zero.weights_, drop.weights_)
    # What is dropped is not looked at: other items without labels change nothing but their own scores.
    kept = set(zip(some["instance"], some["item"], strict=True))
    everything = zip(votes.slots.instances.take(votes.slots.instance), votes.slots.items, strict=True)
    assert sum(pair in kept for pair in everything) == info["judged"]


def test_labels_that_say_nothing_are_refused_with_the_reason(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    with pytest.raises(DataError, match="got none"):
        cc.SVDRank().fit(votes)
    half = cc.Labels.from_codes(labels.slots, labels.label / 8)
    below = cc.Labels.from_codes(labels.slots, labels.label - 5)
    for metric, given in (("map", half), ("p@3", half), ("mrr", half), ("err", below), ("ndcg", below)):
        with pytest.raises(DataError, match=f"no usable label for '{metric}'"):
            cc.SVDRank(metric=metric).fit(votes, given)
    # Pairs need no gains: which label is higher is enough.
    whole, part = (cc.SVDRank(metric="pairs", passes=1).fit(votes, given).weights_ for given in (labels, half))
    np.testing.assert_allclose(whole, part, atol=1e-9)
    nobody = cc.Preferences([], [], [], [], items=[("q1", "a"), ("q1", "b")])
    with pytest.raises(DataError, match="no expert ranks anything"):
        cc.SVDRank().fit(nobody, cc.Labels(["q1", "q1"], ["a", "b"], [1, 0]))
    starred = cc.Preferences(["q", "q"], ["*", "*"], ["i0", "i1"], [1, 2])
    with pytest.raises(DataError, match="Rename it"):
        cc.SVDRank(weights="mixed", min_lists=1).fit(starred, cc.Labels(["q", "q"], ["i0", "i1"], [1, 0]))


@pytest.mark.parametrize("kind", ["score", "rating", "comparisons"])
def test_other_forms_of_preferences_are_learned_from(kind: str) -> None:
    votes, labels = cc.synthetic.labelled_runs(24, random_state=2)
    if kind == "comparisons":
        form: Any = votes.comparisons("binary")
    else:
        form = cc.Preferences.from_codes(
            votes.slots, votes.experts, votes.list_expert, votes.list_offsets, votes.list_starts, votes.slot,
            -votes.value, kind=kind,
        )  # fmt: skip
    model = cc.SVDRank(passes=20).fit(form, labels)
    assert quality(model, form, labels) > quality(cc.RRF(), votes, labels) + 0.1
    if kind != "comparisons":
        ranked = cc.SVDRank(passes=20).fit(votes.to_ranks(), labels)
        np.testing.assert_allclose(model.weights_, ranked.weights_, atol=1e-12)


# Choosing, keeping, explaining.


def test_strength_and_rate_are_chosen_on_validation(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    train, held = votes[:25], votes[25:]
    grid = cc.SVDRank(passes=10, strength="auto", learning_rate=(0.01, 0.1)).fit(
        train, labels, validation=(held, labels)
    )
    single = {
        (s, r): cc.SVDRank(passes=10, strength=s, learning_rate=r)
        .fit(train, labels, validation=(held, labels))
        .fit_info_.validation
        for s in ("log", "rankdiff", "binary")
        for r in (0.01, 0.1)
    }
    best = max(single, key=lambda key: single[key] or 0.0)
    chosen = grid.fit_info_.chosen
    assert (chosen["strength"], chosen["learning_rate"]) == best
    assert grid.strength_ == best[0]
    assert grid.fit_info_.validation == single[best]
    got = cc.evaluate(grid.predict(held), labels.align(held), "ndcg@10", convention="paper").mean["ndcg@10"]
    assert got == pytest.approx(grid.fit_info_.validation)


def test_count_and_rankdiff_have_the_same_vectors(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    one, two = (cc.SVDRank(passes=4, strength=s).fit(*runs) for s in ("count", "rankdiff"))
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-9)


def test_a_warm_start_goes_on_where_the_last_fit_ended(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    for how in ({}, {"hidden": 2}, {"average": 0}):
        model = cc.SVDRank(passes=20, **how).fit(votes[:30], labels)
        first = model.weights_.copy()
        model.set_params(warm_start=True, passes=1, learning_rate=1e-9, l2=0.0).fit(votes, labels)
        np.testing.assert_allclose(model.weights_, first, atol=1e-6)
        model.fit(votes.drop_experts(["e3"]), labels)
        np.testing.assert_allclose(model.weights_, np.delete(first, 2, axis=0), atol=1e-6)
    model.set_params(p=2)
    with pytest.warns(ConcordantWarning, match="begins anew"):
        model.fit(votes, labels)


@pytest.mark.parametrize("how", [{}, {"hidden": 3, "weights": "mixed"}, {"strength": "auto", "p": 2}], ids=str)
def test_a_saved_model_predicts_the_same(
    runs: tuple[cc.Preferences, cc.Labels], how: dict[str, Any], tmp_path: Path
) -> None:
    votes, labels = runs
    model = cc.SVDRank(passes=3, **how).fit(votes[:30], labels)
    model.save(tmp_path / "model")
    loaded = cc.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(votes).score, model.predict(votes).score)
    np.testing.assert_array_equal(loaded.transform(votes).X, model.transform(votes).X)
    assert loaded.learned_experts() == model.learned_experts()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights_", np.zeros((8, 5))),
        ("weights_", np.zeros((3, 4))),
        ("weights_", np.zeros((8, 4), dtype=np.float32)),
        ("strength_", "loud"),
        ("shared_", 2),
        ("hidden_", np.zeros((8, 4))),
        ("top_", np.zeros(5)),
        ("bias_", np.zeros(2, dtype=np.int64)),
    ],
)
def test_a_saved_state_that_does_not_fit_together_is_refused(
    runs: tuple[cc.Preferences, cc.Labels], name: str, value: Any, tmp_path: Path
) -> None:
    model = cc.SVDRank(passes=1, hidden=2).fit(*runs)
    setattr(model, name, value)
    model.save(tmp_path / "model")
    with pytest.raises(FormatError, match=r"do not go together|not those of 8 experts|wrong type"):
        cc.load(tmp_path / "model")


def test_every_experts_share_of_a_score_is_told(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    votes, labels = runs
    for how in ({}, {"weights": "mixed", "min_lists": 40, "missing": "below"}):
        model = cc.SVDRank(passes=5, **how).fit(votes, labels)
        told = model.explain(votes, "q3")
        want = model.predict(votes)["q3"]
        place = dict(zip(want.items, want.score.tolist(), strict=True))
        assert told.base + told.contribution.sum(axis=1) == pytest.approx([place[i] for i in told.items])
        assert set(told.experts) <= set(model.experts_)
    part = votes.drop_experts(["e1"])
    told = cc.SVDRank(passes=5).fit(votes, labels).explain(part, "q3")
    assert "e1" not in told.experts
    net = cc.SVDRank(passes=1, hidden=2).fit(votes, labels)
    with pytest.raises(KindError, match="no sum over experts"):
        net.explain(votes, "q3")


def test_what_was_learned_about_experts_is_a_table(runs: tuple[cc.Preferences, cc.Labels]) -> None:
    model = cc.SVDRank(passes=40).fit(*runs)
    table = model.expert_weights_
    assert table.columns == ["expert", "weight", "u1", "sigma1", "v1", "missing", "listed", "meaning"]
    row = dict(zip(table["expert"], table["meaning"], strict=True))
    assert row["e1"].startswith("trusted")
    assert row["e8"].startswith("inverted")
    # The weight is how far lists put their first item above their last, on average over lists.
    found = model._triples(runs[0])
    (own,) = [b for b, e in enumerate(model.experts_) if e == "e1"]
    spans = []
    for s in np.flatnonzero(found.block == own):
        rows = slice(int(found.offsets[s]), int(found.offsets[s + 1]))
        term = found.U[rows, 0] * model.weights_[own, 0] + found.V[rows, 0] * model.weights_[own, 2]
        best = int(np.argmax(found.U[rows, 0] - found.V[rows, 0]))
        worst = int(np.argmin(found.U[rows, 0] - found.V[rows, 0]))
        spans.append(term[best] - term[worst])
    assert table["weight"][own] == pytest.approx(np.mean(spans))


def test_an_interrupted_and_resumed_fit_ends_where_a_whole_one_does(
    runs: tuple[cc.Preferences, cc.Labels], tmp_path: Path
) -> None:
    whole = cc.SVDRank(passes=8).fit(*runs)
    passes = 0

    def press(done: int, total: int) -> None:
        nonlocal passes
        passes = done
        if done == 4:
            raise KeyboardInterrupt

    told = pytest.warns(ConcordantWarning, match="interrupted")
    with cc.checkpoint(tmp_path / "fit", every=0.0), watch(press), told, pytest.raises(KeyboardInterrupt):
        cc.SVDRank(passes=8).fit(*runs)
    assert passes == 4
    with cc.checkpoint(tmp_path / "fit"):
        resumed = cc.SVDRank(passes=8).fit(*runs)
    np.testing.assert_array_equal(resumed.weights_, whole.weights_)


@pytest.mark.data
def test_learned_weights_beat_every_vote_on_the_validation_parts(data_dir: Path) -> None:
    gains = []
    for train, held, _ in cc.read_letor_folds(data_dir / "MQ2008-agg")[:2]:
        model = cc.SVDRank(passes=60).fit(*train, validation=held)
        votes, labels = held
        score = [
            cc.evaluate(m.predict(votes), labels, "ndcg@10", convention="letor").mean["ndcg@10"]
            for m in (model, cc.RRF())
        ]
        gains.append(score[0] - score[1])
    assert min(gains) > 0.01

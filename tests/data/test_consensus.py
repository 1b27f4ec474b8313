"""Consensus: ranks follow scores under the tie tolerance, and every view of it says the same."""

from __future__ import annotations

import copy
import math
import pickle
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.oracles import lists as oracle

from concordant.data.consensus import TIE_TOLERANCE, Consensus, rank_scores
from concordant.data.dataset import concat
from concordant.data.hits import rank_dictionary
from concordant.errors import DataError, ParameterError
from concordant.kernels.lists import offsets_of

# Close neighbours are what the tolerance is about.
base = st.sampled_from([0.0, 1.0, -1.0, 0.3, 1e-9, 5e8])
noise = st.sampled_from([0.0, 1e-16, 1e-13, -1e-13, 4e-13, 1e-11, 1e-6])
score = st.builds(lambda b, e: b * (1 + e) + e * 1e-3, base, noise) | st.floats(-10, 10)
instances = st.lists(st.lists(score, max_size=7), max_size=5)


def consensus_of(parts: list[list[float]], **more: Any) -> Consensus:
    q = [f"q{n}" for n, p in enumerate(parts) for _ in p]
    i = [f"i{k}" for p in parts for k in range(len(p))]
    return Consensus(q, i, [s for p in parts for s in p], **more)


@given(instances)
def test_ranks_follow_scores_within_the_tolerance(parts: list[list[float]]) -> None:
    flat = np.array([s for p in parts for s in p], dtype=np.float64)
    offsets = offsets_of(np.array([len(p) for p in parts], dtype=np.int64))
    rank, order = rank_scores(flat, offsets)
    assert rank.dtype == np.int32
    want_rank, want_order = [], []
    for n, part in enumerate(parts):
        r, o = oracle.rank_scores(part)
        want_rank += r
        want_order += [int(offsets[n]) + k for k in o]
    assert rank.tolist() == want_rank
    assert order.tolist() == want_order
    for n, part in enumerate(parts):
        alone, alone_order = rank_scores(np.array(part, dtype=np.float64), np.array([0, len(part)]))
        assert rank[offsets[n] : offsets[n + 1]].tolist() == alone.tolist()
        assert (order[offsets[n] : offsets[n + 1]] - offsets[n]).tolist() == alone_order.tolist()


def test_ties_of_long_lists_are_in_input_order() -> None:
    rng = np.random.default_rng(5)
    parts = [rng.integers(0, 60, size) + rng.choice([0.0, 1e-12, -1e-11], size) for size in (400, 0, 300, 2, 500)]
    offsets = offsets_of(np.array([len(p) for p in parts]))
    rank, order = rank_scores(np.concatenate(parts), offsets)
    for part, at, end in zip(parts, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        want_rank, want_order = oracle.rank_scores(part.tolist())
        assert rank[at:end].tolist() == want_rank
        assert (order[at:end] - at).tolist() == want_order


def test_the_tolerance_is_relative_to_the_largest_score_of_the_instance() -> None:
    assert TIE_TOLERANCE == 1e-12
    scores = np.array([1.0, 1.0 - 0.9e-12, 1e6, 1.0, 1.0 - 1.1e-12, 0.5, 1e-20, 0.0])
    rank, order = rank_scores(scores, np.array([0, 3, 6, 8]))
    assert rank.tolist() == [2, 2, 1, 1, 2, 3, 1, 2]
    assert order.tolist() == [2, 0, 1, 3, 4, 5, 6, 7]


def test_noise_does_not_order_ties() -> None:
    c = consensus_of([[0.5, 0.5 + 1e-15, 0.5 - 1e-15, 0.9]])
    assert c.ranking() == ["i3", "i0", "i1", "i2"]
    assert c.rank.tolist() == [2, 2, 2, 1]


def test_minus_zero_is_zero() -> None:
    assert consensus_of([[0.0, -0.0, 0.0]]).rank.tolist() == [1, 1, 1]


@given(instances, st.data())
def test_views_agree(parts: list[list[float]], data: Any) -> None:
    parts = [p for p in parts if p]
    c = consensus_of(parts)
    order = c.order()
    assert not order.flags.writeable
    assert not c.score.flags.writeable
    assert not c.rank.flags.writeable
    for n, part in enumerate(parts):
        ranking = c.ranking(f"q{n}")
        assert ranking == [f"i{k}" for k in oracle.rank_scores(part)[1]]
        assert c[n].ranking() == ranking
        k = data.draw(st.integers(1, 8))
        top = c.top(k)
        assert top.items[int(top.slots.offsets[n]) : int(top.slots.offsets[n + 1])] == ranking[:k]
        assert top.ranking(f"q{n}") == ranking[:k]
        ranks = dict(zip(c[n].items, c[n].rank.tolist(), strict=True))
        assert top[n].rank.tolist() == [ranks[i] for i in ranking[:k]], "a rank is kept when the list is cut"
    frame = c.to_frame()
    assert frame.columns == ["instance", "item", "score", "rank"]
    assert frame["item"].to_list() == [c.items[int(s)] for s in order]
    assert frame["instance"].to_list() == [f"q{n}" for n, p in enumerate(parts) for _ in p]
    assert frame["rank"].to_list() == [int(c.rank[s]) for s in order]
    for again in (pickle.loads(pickle.dumps(c)), copy.deepcopy(c), c[:]):
        assert again == c
        assert again.order().tolist() == order.tolist()
        assert not again.score.flags.writeable
    if parts:
        assert concat([c[n] for n in range(len(c))]) == c


def test_given_ranks_are_kept_and_listed() -> None:
    c = Consensus(["q"] * 3, list("abc"), [0.1, 0.2, 0.3], [1, 2, 2])
    assert c.rank.tolist() == [1, 2, 2]
    assert c.ranking() == ["a", "b", "c"]


def test_ranking_names_what_is_missing() -> None:
    c = consensus_of([[1.0], [2.0]])
    with pytest.raises(DataError, match=r"there are 2 instances; name the one to list: ranking\(instance\)"):
        c.ranking()
    with pytest.raises(DataError, match="no instance 'q9' in this consensus"):
        c.ranking("q9")
    for k in (0, 1.5):
        with pytest.raises(ParameterError, match="'k' parameter of top"):
            c.top(k)  # type: ignore[arg-type]


def test_broadcast_repeats_one_ranking() -> None:
    c = Consensus(["all"] * 3, list("abc"), [1, 3, 3], lower=[0, 2, 2], upper=[2, 4, 4], level=0.9, gauge="mean 0")
    many = c.broadcast(["u1", 2, "u3"])
    assert many.instances == ["u1", "2", "u3"]
    assert many.rank.tolist() == [3, 1, 1] * 3
    assert all(many.ranking(u) == ["b", "c", "a"] for u in many.instances)
    assert many.lower is not None
    assert many.lower.tolist() == [0, 2, 2] * 3
    assert (many.level, many.gauge) == (0.9, "mean 0")
    assert len(c.broadcast([])) == 0
    with pytest.raises(DataError, match="only a consensus of one instance can be broadcast; this one has 3"):
        many.broadcast(["u"])
    with pytest.raises(DataError, match="twice"):
        c.broadcast(["u", "u"])


INTERVALS: dict[str, Any] = {
    "stderr": [0.3, 0.4, 0.1],
    "lower": [0, 1, 2],
    "upper": [2, 3, 4],
    "rank_lower": [1, 1, 1],
    "rank_upper": [3, 3, 2],
    "level": 0.95,
    "gauge": "sum 0",
    "interval_method": "wald",
}


def test_intervals_travel_with_their_items() -> None:
    c = Consensus(["q", "p", "q"], ["a", "a", "b"], [1, 2, 3], **INTERVALS)
    assert c.instances == ["q", "p"]
    assert c.stderr is not None
    assert c.stderr.tolist() == [0.3, 0.1, 0.4], "instance-major"
    assert (c.level, c.gauge, c.interval_method) == (0.95, "sum 0", "wald")
    frame = c.to_frame()
    assert frame.columns == [
        "instance",
        "item",
        "score",
        "rank",
        "stderr",
        "lower",
        "upper",
        "rank_lower",
        "rank_upper",
    ]
    assert frame.rows()[0] == ("q", "b", 3.0, 1, 0.1, 2.0, 4.0, 1.0, 2.0)
    part = c["p"]
    assert part.upper is not None
    assert part.upper.tolist() == [3]
    assert part.level == 0.95
    assert "95% intervals" in repr(c)
    assert "intervals" in repr(Consensus(["q"], ["a"], [1], lower=[0]))
    top = c.top(1)
    assert top.stderr is not None
    assert top.stderr.tolist() == [0.1, 0.4]
    joined = concat([c["q"], c["p"]])
    assert joined == c
    assert joined.level == 0.95
    plain = Consensus(["r"], ["a"], [1.0])
    assert concat([c, plain]).stderr is None
    assert pickle.loads(pickle.dumps(c)) == c


def test_probability_better_is_the_normal_law() -> None:
    c = Consensus(["q", "q", "p"], ["a", "b", "a"], [1.0, 0.25, 7], stderr=[0.3, 0.4, 0.0])
    want = NormalDist().cdf(0.75 / math.hypot(0.3, 0.4))
    assert c.probability_better("a", "b", "q") == pytest.approx(want, abs=1e-12)
    assert c.probability_better("b", "a", "q") == pytest.approx(1 - want, abs=1e-12)
    assert c.probability_better("a", "a", "p") == 0.5
    sure = Consensus(["q", "q"], ["a", "b"], [1.0, 0.0], stderr=[0, 0])
    assert (sure.probability_better("a", "b"), sure.probability_better("b", "a")) == (1.0, 0.0)
    for arguments, message in (
        (("a", "b"), "name the one the items belong to"),
        (("a", "z", "q"), "no item 'z' in instance 'q'"),
        (("a", "b", "r"), "no instance 'r'"),
    ):
        with pytest.raises(DataError, match=message):
            c.probability_better(*arguments)
    with pytest.raises(DataError, match="has no standard errors"):
        Consensus(["q"], ["a"], [1.0]).probability_better("a", "a")


def test_repr_shows_the_first_instance() -> None:
    assert repr(consensus_of([[1, 2, 3, 4, 5], [1]])) == (
        "Consensus: 2 instances, 6 items\n  q0: i4 > i3 > i2 > i1 > …"
    )
    assert repr(consensus_of([[1, 2]])) == "Consensus: 1 instance, 2 items\n  q0: i1 > i0"
    assert repr(Consensus([], [], [])) == "Consensus: 0 instances, 0 items"
    tied = Consensus(["q"] * 3, ["c", "a", "b"], [1.0, 2.0, 2.0])
    assert tied.rank.tolist() == [3, 1, 1]
    assert repr(tied).endswith("q: a = b > c")
    assert repr(consensus_of([[1, 1, 1, 1, 1, 0]])).endswith("q0: i0 = i1 = i2 = i3 = …")
    assert repr(consensus_of([[2, 2, 2, 2, 1]])).endswith("q0: i0 = i1 = i2 = i3 > …")


def test_equality_sees_every_difference() -> None:
    c = Consensus(
        ["q", "q"], ["a", "b"], [1, 2], **{k: v[:2] if isinstance(v, list) else v for k, v in INTERVALS.items()}
    )
    assert c != Consensus(["q", "q"], ["a", "b"], [1, 2])
    assert Consensus(["q"], ["a"], [1]) != Consensus(["q"], ["a"], [2])
    assert Consensus(["q"], ["a"], [1]) != Consensus(["q"], ["b"], [1])
    assert Consensus(["q"], ["a"], [1]) != Consensus(["p"], ["a"], [1])
    assert Consensus(["q"], ["a"], [1], [1]) != Consensus(["q"], ["a"], [1], [2])
    assert Consensus(["q"], ["a"], [1]) != "consensus"
    with pytest.raises(AttributeError, match="Consensus is frozen"):
        c.score = np.zeros(2)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["q"], ["a"], [np.nan]), {}, "the score in row 0 must be a finite number"),
        ((["q", "q"], ["a", "a"], [1, 2]), {}, "item 'a' of instance 'q' has two scores"),
        ((["q"], ["a"], [1, 2]), {}, "the score column has shape"),
        ((["q"], ["a"], [1], [0]), {}, r"the rank in row 0 must be a whole number >= 1\. Got 0"),
        ((["q"], ["a"], [1], [1.5]), {}, r"the rank in row 0 must be a whole number >= 1\. Got 1.5"),
        ((["q"], ["a"], [1]), {"stderr": [1, 2]}, "the stderr column has shape"),
        ((["q"], ["a"], [1]), {"lower": [np.inf]}, "the lower in row 0 must be a finite number"),
    ],
)
def test_contradictions_are_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Consensus(*arguments, **options)


def test_a_score_that_is_not_finite_is_named() -> None:
    slots = Consensus(["q", "q"], ["a", "b"], [1, 2]).slots
    with pytest.raises(DataError, match="the score of item 'b' in instance 'q' is not a finite number"):
        Consensus.from_codes(slots, np.array([1.0, np.inf]))


def test_concat_refuses_an_instance_in_two_parts() -> None:
    c = consensus_of([[1.0]])
    with pytest.raises(DataError, match="an instance appears in two parts"):
        concat([c, c])


def test_hits_and_dictionaries_are_the_ranking() -> None:
    c = Consensus(["q", "q", "p", "q"], ["a", "b", "a", "c"], [1.0, 2.0, 5.0, 2.0])
    assert [tuple(hit) for hit in c.hits("q")] == [("b", 2.0, 1, None), ("c", 2.0, 1, None), ("a", 1.0, 3, None)]
    assert c.hits("q", top_k=2) == c.hits("q")[:2]
    assert c.ranking("q", top_k=2) == ["b", "c"]
    assert c[["p"]].hits().to_dicts() == [{"id": "a", "score": 5.0, "rank": 1}]
    assert {type(hit.score) for hit in c.hits("q")} == {float}
    assert {q: list(own.items()) for q, own in c.to_dict().items()} == {
        "q": [("b", 2.0), ("c", 2.0), ("a", 1.0)],
        "p": [("a", 5.0)],
    }
    with pytest.raises(DataError, match=r"name the one to list: hits\(instance\)"):
        c.hits()
    with pytest.raises(ParameterError, match="'top_k' parameter of ranking"):
        c.ranking("q", top_k=0)
    with pytest.raises(DataError, match=r"Use method\.explain"):
        c.hits("q").explain()


def test_the_view_of_a_notebook_is_escaped() -> None:
    c = Consensus(["<q>"] * 30, [f"<i{n}>" for n in range(30)], range(30), lower=range(30), upper=range(30))
    page = c._repr_html_()
    assert "&lt;i29&gt;" in page
    assert "&lt;i5&gt;" not in page
    assert "<i" not in page
    assert "<th>upper</th>" in page
    assert "10 more" in page


@given(st.lists(score, max_size=12))
def test_a_dictionary_is_ranked_as_an_array(scores: list[float]) -> None:
    rank, order = rank_scores(np.array(scores), np.array([0, len(scores)]))
    want = order.tolist(), [scores[i] for i in order.tolist()], rank[order].tolist()
    assert rank_dictionary(dict(enumerate(scores))) == want


def test_probabilities_best_are_those_of_the_normal_law() -> None:
    score, stderr = np.array([0.4, 0.0, 1.0]), np.array([0.6, 0.8, 0.5])
    c = Consensus(["q"] * 3, list("abc"), score, stderr=stderr)
    x = np.linspace(-6, 6, 4001)
    for i in range(3):
        others = [stats.norm.cdf(x, score[j], stderr[j]) for j in range(3) if j != i]
        density = stats.norm.pdf(x, score[i], stderr[i])
        assert c.probabilities_best()[i] == pytest.approx(np.trapezoid(density * np.prod(others, axis=0), x), abs=0.006)
        worst = np.trapezoid(density * np.prod([1 - p for p in others], axis=0), x)
        assert c.probabilities_best(2)[i] == pytest.approx(1 - worst, abs=0.006)
    assert c.probabilities_best(3).tolist() == [1.0] * 3
    assert c.probabilities_best().tolist() == c.probabilities_best().tolist()
    # Scores of mean 0 have a singular covariance, and an item without a standard error is left out.
    table = np.array([[0.5, -0.5, np.nan], [-0.5, 0.5, np.nan], [np.nan] * 3])
    stderr = np.sqrt(np.diagonal(table))
    two = Consensus.from_codes(c.slots, np.array([0.6, -0.6, 0.0]), stderr=stderr, covariance=(table,))
    want = [two.probability_better("a", "b"), two.probability_better("b", "a")]
    assert two.probabilities_best()[:2] == pytest.approx(want, abs=0.006)
    assert np.isnan(two.probabilities_best()[2])
    with pytest.raises(ParameterError, match="'k' parameter"):
        c.probabilities_best(0)

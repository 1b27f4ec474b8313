"""Methods that learn from labels on data that say too little: at the fit and at prediction each keeps to its page.

The tables below are the promise. A row names a poor input and what is due from every kind of method: an error or a
warning with these words in it, or an answer in this order. Whatever is answered has finite scores, and nothing but
errors and warnings of Concordant is ever raised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import concordant as cc
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    DataError,
    KindError,
    NotFittedError,
    ParameterError,
)

# The methods. What is due goes by kind: whose weights are whose decides what a stranger gets.

VARIANTS: dict[str, dict[str, cc.Aggregator]] = {
    "individual": {
        "crf": cc.CRF(passes=3),
        "crf-lbfgs": cc.CRF(solver="lbfgs", l2=0.01, n_samples=2),
        "crf-slice": cc.CRF(passes=3, scaling="paper", sums="slice"),
        "crf-below": cc.CRF(passes=3, missing="below", transform="auto", learning_rate="auto"),
        "crf-kendall": cc.CRF(passes=3, metric="kendall", unjudged="drop"),
        "listwise": cc.ListwiseLinear(),
        "listwise-joined": cc.ListwiseLinear(transform="log+binary", solver="lbfgs", l2=0.1, unjudged="drop"),
        "svd": cc.SVDRank(passes=3),
        "svd-pairs": cc.SVDRank(passes=3, metric="pairs", unjudged="drop", p=2),
        "svd-hidden": cc.SVDRank(passes=30, hidden=3, learning_rate=0.1, average=0),
    },
    "consensus": {
        "crf-consensus": cc.CRF(passes=3, weights="consensus", transform="rankdiff"),
        "listwise-consensus": cc.ListwiseLinear(weights="consensus"),
        "svd-consensus": cc.SVDRank(passes=3, weights="consensus"),
    },
    "mixed": {
        "crf-mixed": cc.CRF(passes=3, weights="mixed", min_lists=3, transform="rankdiff"),
        "listwise-mixed": cc.ListwiseLinear(weights="mixed", min_lists=3),
        "svd-mixed": cc.SVDRank(passes=3, weights="mixed", min_lists=3),
    },
    "fusion": {
        "rrf": cc.RRF(k="learned", weights="learned"),
        "rrf-weights": cc.RRF(weights="learned", unjudged="drop"),
        "sum": cc.WeightedSum(weights="learned"),
        "sum-z": cc.WeightedSum(weights="learned", norm="z-score"),
    },
    "k": {"rrf-k": cc.RRF(k="learned")},
    "mpm": {"mpm": cc.MPM(adherence="supervised")},
    "cps": {
        "cps": cc.CPS(adherence="supervised"),
        "cps-footrule": cc.CPS(adherence="supervised", distance="footrule", unjudged="drop"),
    },
}
KIND = {name: kind for kind, variants in VARIANTS.items() for name in variants}
# Those whose parameters choose something by a metric on instances held out.
CHOOSING = [n for n in KIND if KIND[n] not in ("mpm", "cps") and n not in ("crf-lbfgs", "listwise-joined")]
COMPARING = [n for n in KIND if n.startswith(("crf", "listwise", "svd")) and n != "crf-slice"]


def method(name: str, **params: Any) -> Any:
    """Return a fresh one."""
    made = VARIANTS[KIND[name]][name]
    return type(made)(**(made.get_params() | params))


# The data. Lists are words, best item first; experts are x (right), y (nearly) and z (wrong).

Lists = Mapping[str, Mapping[str, str]]
Values = Mapping[str, Mapping[str, float]]
NAMES = [f"q{n}" for n in range(1, 7)]


def votes_of(lists: Lists, value: Callable[[int], float] = float, kind: str = "rank", **more: Any) -> cc.Preferences:
    """Return lists; `value` turns a place, 1 being the best, into what the expert says."""
    rows = [(q, e, i, value(r)) for q, by in lists.items() for e, word in by.items() for r, i in enumerate(word, 1)]
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return cc.Preferences(*columns, kind=kind, **more)


def constant(value: float) -> Callable[[int], float]:
    return lambda _: value


def labels_of(values: Values) -> cc.Labels:
    rows = [(q, i, v) for q, of in values.items() for i, v in of.items()]
    return cc.Labels(*(list(zip(*rows, strict=True)) or [(), (), ()]))


def everywhere(of: Any) -> dict[str, Any]:
    return dict.fromkeys(NAMES, of)


LISTS = everywhere({"x": "abcd", "y": "abdc", "z": "dcba"})
VOTES = votes_of(LISTS)
LABELS = labels_of(everywhere({"a": 2, "b": 1, "c": 0, "d": 0}))
NOBODY = cc.Preferences([], [], [], [], items=[(q, i) for q in NAMES for i in "abcd"], experts=["x"])


def compared(outcome: Callable[[str, str, str], tuple[int, int, int]], named: bool = True) -> cc.Comparisons:
    """Return comparisons of all pairs of a, b, c and d by every expert in every instance."""
    pairs = list(combinations("abcd", 2))
    rows = [(q, e, *pair, *outcome(e, *pair)) for q in NAMES for e in "xyz" for pair in pairs]
    instance, expert, *rest = zip(*rows, strict=True)
    return cc.Comparisons(instance, expert if named else None, *rest)


def in_favour(expert: str, left: str, right: str) -> tuple[int, int, int]:
    return {"x": (3, 0, 0), "y": (2, 1, 0), "z": (0, 3, 0)}[expert]


COMPARED = compared(in_favour)
COUNTED = compared(lambda *_: (3, 1, 0), named=False)


# What is due.


class Due(NamedTuple):
    """An error of a class or a warning, with these words in it, or neither; and how the order begins."""

    error: type[ConcordantError] | None = None
    words: tuple[str, ...] = ()
    order: str | None = None


def raises(*words: str, error: type[ConcordantError] = DataError) -> Due:
    return Due(error, words)


def warns(order: str, *words: str) -> Due:
    return Due(None, words, order)


def plain(order: str) -> Due:
    """Demand an order (items by rank, ranks parted by |) that begins like this, and no warning."""
    return Due(None, (), order)


def heard(run: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return the answer, or the error of Concordant that was raised, and its warnings; any other warning is raised."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConcordantWarning)
        try:
            answer = run()
        except ConcordantError as error:
            answer = error
    return answer, [str(w.message) for w in said]


def in_order(board: cc.Consensus) -> str:
    ranks = sorted(set(board.rank.tolist()))
    return "|".join(
        "".join(sorted(i for i, r in zip(board.items, board.rank, strict=True) if r == rank)) for rank in ranks
    )


def assert_due(due: Due, answer: Any, said: list[str]) -> None:
    if due.error is not None:
        assert isinstance(answer, due.error), f"{answer!r} instead of {due.error.__name__}"
        assert not [w for w in due.words if w not in str(answer)], str(answer)
        return
    assert isinstance(answer, cc.Consensus), f"{answer!r} instead of an answer"
    if due.words:
        assert any(all(word in text for word in due.words) for text in said), said
    else:
        assert not said
    assert np.isfinite(answer.score).all()
    if due.order is not None:
        assert in_order(answer).startswith(due.order)


@cache
def fitted(name: str) -> Any:
    return method(name).fit(VOTES, LABELS)


# At prediction. Each row: the input, parameters set on the fitted model, and what is due by kind or by name.

Table = dict[str, tuple[Any, dict[str, Any], dict[str, Due]]]
STRANGERS = {"p": {"x": "ab", "w": "ba", "v": "ba"}}
UNKNOWN = raises("['w', 'v']", "Known: ['x', 'y', 'z']", "unknown_experts='ignore'")
ALONE = "fewer than two experts are heard there"
NOT_COMPARED = raises("not on comparisons", error=KindError)


def due_of(dues: dict[str, Due], name: str) -> Due:
    """Return what is due from a method: by its name, by its kind, or as from all others."""
    return dues.get(name) or dues.get(KIND[name]) or dues["all"]


def ranked(word: str, kind: str = "rank", value: Callable[[int], float] = float, **more: Any) -> cc.Preferences:
    return votes_of({"p": {"x": word}}, value, kind, **more)


PREDICTION: Table = {
    # "An expert never seen is an error that names the known ones"; shared weights take strangers as they come: where
    # all experts share, two outvote one; with "mixed" a stranger is an average expert, here one of little weight.
    "strangers": (
        votes_of(STRANGERS),
        {},
        {"all": UNKNOWN, "consensus": plain("b|a"), "mixed": plain("a|b"), "k": plain("b|a")},
    ),
    # "... unless unknown_experts="ignore"".
    "strangers left out": (
        votes_of(STRANGERS),
        {"unknown_experts": "ignore"},
        {
            "all": plain("a|b"),
            "consensus": plain("b|a"),
            "k": plain("b|a"),
            "mpm": warns("a|b", "no finite estimate", "'p'"),
        },
    ),
    "only strangers, left out": (
        votes_of({"p": {"w": "ba"}}),
        {"unknown_experts": "ignore"},
        {
            "all": plain("ab"),
            "consensus": plain("b|a"),
            "mixed": plain("b|a"),
            "k": plain("b|a"),
            "mpm": warns("ab", "nobody prefers any of items ['b', 'a']"),
        },
    ),
    # An expert that is called like the shared weights is a stranger like any other.
    "a stranger called *": (
        votes_of({"p": {"x": "ab", "*": "ba"}}),
        {},
        {
            "all": raises("['*']", "Known: ['x', 'y', 'z']"),
            "consensus": plain("ab"),
            "mixed": plain("a|b"),
            "k": plain("ab"),
        },
    ),
    # What weighs nothing is not there, be it of a stranger.
    "a stranger of no weight": (
        votes_of(STRANGERS).with_weights({"w": 0, "v": 0}),
        {},
        {"all": plain("a|b"), "mpm": warns("a|b", "no finite estimate")},
    ),
    "a stranger in the vocabulary": (
        votes_of({"p": {"x": "ab"}}, experts=["mute", "x"]),
        {},
        {"all": plain("a|b"), "mpm": warns("a|b", "no finite estimate")},
    ),
    # "An expert who is missing from an instance has no effect there."
    "known experts missing": (
        ranked("abc"),
        {},
        {"all": plain("a|b|c"), "mpm": warns("a|b|c", ALONE)},
    ),
    # "An instance without any preferences is one tie."
    "no preferences": (
        cc.Preferences([], [], [], [], items=[("p", "a"), ("p", "b")]),
        {},
        {"all": plain("ab"), "mpm": warns("ab", "nobody prefers any of items ['a', 'b'] of instance 'p'")},
    ),
    # Items nobody ranks tie: below what is listed where a list gives something, with the last where that gets 0, in
    # the middle of net counts. Weighted sums of what experts say give them the sum of alphas, see below.
    "items nobody ranks": (
        ranked("abc", items=[("p", i) for i in "abcde"]),
        {},
        {
            "all": plain(""),
            "fusion": plain("a|b|c|de"),
            "sum": plain("a|b|cde"),
            "sum-z": plain("a|b|cde"),
            "k": plain("a|b|c|de"),
            "mpm": warns("a|bde|c", ALONE),
            "cps": plain("a|b|c|de"),
        },
    ),
    "one item": (
        votes_of({"p": {"x": "a", "y": "a"}}),
        {},
        {"all": plain("a"), "mpm": warns("a", "nobody prefers any of items ['a']")},
    ),
    # "Tied items of a list prefer neither."
    "one tie": (
        votes_of({"p": dict.fromkeys("xyz", "abc")}, constant(1)),
        {},
        {"all": plain("abc"), "mpm": warns("abc", "nobody prefers any of items ['a', 'b', 'c']")},
    ),
    "equal scores": (
        ranked("abc", "score", constant(7.5)),
        {},
        {"all": plain("abc"), "mpm": warns("abc", "nobody prefers")},
    ),
    "ratings with ties": (
        ranked("abcd", "rating", lambda place: 5 if place < 3 else 2),
        {},
        {"all": plain("ab|cd"), "mpm": warns("ab|cd", "no finite estimate")},
    ),
    "huge scores": (
        ranked("abc", "score", lambda place: 1.1e308 * (2 - place)),
        {},
        {"all": plain("a|b|c"), "mpm": warns("a|b|c", ALONE)},
    ),
    "scores all but 0": (
        ranked("abc", "score", lambda place: (5 - place) * 1e-310),
        {},
        {"all": plain("a|b|c"), "mpm": warns("a|b|c", ALONE)},
    ),
    "nothing at all": (cc.Preferences([], [], [], []), {}, {"all": plain("")}),
    # Outcomes of a known expert; counts with nobody's name can only be heard by weights that are shared.
    "comparisons": (
        COMPARED[:1].select_experts(["x"]),
        {},
        {
            "all": plain("a|b"),
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": warns("a|b|c|d", ALONE),
        },
    ),
    "comparisons by nobody": (
        COUNTED[:1],
        {},
        {
            "all": raises("name no experts", "weights for ['x', 'y', 'z'] only", "mixed"),
            "crf-slice": raises("sums='full'", error=KindError),
            "consensus": plain("a|b|c|d"),
            "mixed": plain("a|b|c|d"),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": plain("a|b|c|d"),
        },
    ),
    "comparisons by nobody, left out": (
        COUNTED[:1],
        {"unknown_experts": "ignore"},
        {
            "all": plain("abcd"),
            "crf-slice": raises("sums='full'", error=KindError),
            "consensus": plain("a|b|c|d"),
            "mixed": plain("a|b|c|d"),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": plain("a|b|c|d"),
        },
    ),
    "no comparisons by nobody": (
        cc.Comparisons([], None, [], [], [], [], [], items=[("p", "a"), ("p", "b")]),
        {},
        {
            "all": plain("ab"),
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": warns("ab", "nobody prefers"),
        },
    ),
    "comparisons that are ties": (
        compared(lambda *_: (0, 0, 2))[:1],
        {},
        {
            "all": plain("abcd"),
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": warns("abcd", "nobody prefers"),
        },
    ),
    "another container": (
        LABELS,
        {},
        {"all": raises("Preferences or Comparisons. Got Labels", error=KindError)},
    ),
}


def cases(table: Mapping[str, Any]) -> Iterator[Any]:
    for case in table:
        for name in KIND:
            yield pytest.param(name, case, id=f"{name}-{case}")


def is_of_another_kind(name: str, votes: Any) -> bool:
    """Return whether a model learned from ranks is asked about what it cannot take for ranks."""
    if isinstance(votes, cc.Comparisons):
        return len(votes.left) > 0 and name.startswith(("crf", "listwise", "svd"))
    return votes.kind != "rank" and name.startswith("sum")


@pytest.mark.parametrize(("name", "case"), list(cases(PREDICTION)))
def test_prediction_on_poor_data(name: str, case: str) -> None:
    votes, params, dues = PREDICTION[case]
    own = {p: v for p, v in params.items() if p in fitted(name).param_names()}
    model = fitted(name) if not own else method(name, **own).fit(VOTES, LABELS)
    answer, said = heard(lambda: model.predict(votes))
    shifts = [text for text in said if "was fitted on" in text]
    assert_due(due_of(dues, name), answer, [text for text in said if text not in shifts])
    if isinstance(answer, cc.Consensus):
        assert answer.slots == votes.slots
        assert len(shifts) == is_of_another_kind(name, votes)


@pytest.mark.parametrize("name", [n for n in KIND if n.startswith(("crf", "listwise", "svd")) and n != "svd-hidden"])
def test_an_item_nobody_lists_scores_what_is_given_for_not_being_listed(name: str) -> None:
    # alpha is the first weight of CRF and ListwiseLinear, the last of SVDRank.
    model = fitted(name)
    absent = model.weights_[:, -1 if name.startswith("svd") else 0]
    names = model.experts_
    answer, _ = heard(lambda: model.predict(ranked("abc", items=[("p", i) for i in "abcde"])))
    # Own weights are given whether their expert is there or not; shared ones once for every list, or matrix, there is.
    own = absent[[n != "*" for n in names]].sum()
    once = absent[[n == "*" for n in names]].sum() if KIND[name] == "consensus" or name.startswith("svd") else 0.0
    below = 0.0
    if name == "crf-below":
        # All three items listed are preferred to it, out of five.
        below = -model.weights_[names.index("x"), 2] * 3 / 5
    assert answer.score[3:].tolist() == pytest.approx([own + once + below] * 2, abs=1e-12)


@pytest.mark.parametrize("name", list(KIND))
def test_experts_who_are_absent_or_silent_change_nothing(name: str) -> None:
    alone, named = (votes_of({"p": {"x": "abcd", "y": "bdac"}}, experts=e) for e in (None, ["z", "y", "mute", "x"]))
    (one, _), (other, _) = (heard(lambda v=v: fitted(name).predict(v)) for v in (alone, named))
    np.testing.assert_array_equal(one.score, other.score)


@pytest.mark.parametrize("name", list(KIND))
def test_an_instance_does_not_depend_on_its_company(name: str) -> None:
    items = [*(("p", i) for i in "abcd"), ("r", "a"), ("s", "a")]
    big = votes_of({"p": {"x": "abcd", "z": "bdca"}, "r": {"y": "a"}}, items=items)
    (whole, _), (alone, _) = (heard(lambda v=v: fitted(name).predict(v)) for v in (big, big["p"]))
    np.testing.assert_array_equal(whole["p"].score, alone.score)


@pytest.mark.parametrize("name", list(KIND))
def test_what_is_loaded_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path / "model")
    again = cc.load(tmp_path / "model")
    items = [*(("p", i) for i in "abcde"), ("r", "a"), ("r", "b")]
    fresh = votes_of({"p": {"x": "acbd", "y": "db", "z": "bac"}, "r": {"z": "ab"}}, items=items)
    (one, _), (other, _) = (heard(lambda m=m: m.predict(fresh)) for m in (model, again))
    assert one.score.tobytes() == other.score.tobytes()
    assert again.get_params() == model.get_params()
    # A stranger is refused, or served, as before.
    strange = votes_of(STRANGERS)
    (one, _), (other, _) = (heard(lambda m=m: m.predict(strange)) for m in (model, again))
    assert str(one) == str(other)


@pytest.mark.parametrize("name", list(KIND))
def test_what_is_not_fitted_says_so(name: str) -> None:
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call fit"):
        method(name).predict(VOTES)


# At the fit. Each row: the data, and what is due from a fit and a prediction of the first instance.

CHOSEN_BY_NOTHING = "too few to hold any out: nothing is chosen, and the last pass is kept"
NO_LABEL = "found no usable label"
EQUAL = "all 24 labels are equal, and nothing can be learned from an instance whose items are all alike"
NOTHING_SAID = raises("nothing to learn from: no expert ranks anything in the 6 instances")
ONE_TIE = raises("has nothing to learn from", "tell items of different labels apart", "check the ranks or scores")
SAYS_NOTHING = raises("the labels say nothing about the experts")
LEARNED = plain("a|b")
FITTED: dict[str, tuple[Any, Any, dict[str, Due]]] = {
    "as it should be": (VOTES, LABELS, {"all": LEARNED}),
    # Fewer than four usable instances choose nothing, and say so.
    "one instance": (
        VOTES[:1],
        LABELS[:1],
        {"all": warns("a|b", "learns from 1 instance,", CHOSEN_BY_NOTHING), "mpm": LEARNED, "cps": LEARNED},
    ),
    "two instances": (
        VOTES[:2],
        LABELS[:2],
        {"all": warns("a|b", "learns from 2 instances,", CHOSEN_BY_NOTHING), "mpm": LEARNED, "cps": LEARNED},
    ),
    "four instances": (VOTES[:4], LABELS[:4], {"all": LEARNED}),
    "one expert": (VOTES.select_experts(["x"]), LABELS, {"all": LEARNED, "mpm": warns("a|b", ALONE)}),
    # Read backwards where weights may be negative; fusion and MPM have nobody else to listen to; CPS ties and says so.
    "one expert, inverted": (
        VOTES.select_experts(["z"]),
        LABELS,
        {
            "all": LEARNED,
            "fusion": plain("d|c|b|a"),
            "k": plain("d|c|b|a"),
            "mpm": warns("d|c|b|a", ALONE),
            "cps": warns("abcd", "no expert's order agrees with the labels"),
        },
    ),
    "one tie": (
        votes_of(LISTS, constant(1)),
        LABELS,
        {"all": ONE_TIE, "mpm": SAYS_NOTHING, "cps": SAYS_NOTHING},
    ),
    "equal scores": (
        votes_of(LISTS, constant(7.5), "score"),
        LABELS,
        {"all": ONE_TIE, "mpm": SAYS_NOTHING, "cps": SAYS_NOTHING},
    ),
    "one item": (
        votes_of(everywhere({"x": "a", "y": "a"})),
        LABELS,
        {"all": raises(NO_LABEL, "in each of the 6 labelled instances all 6 labels are equal")},
    ),
    "nobody ranks anything": (
        NOBODY,
        LABELS,
        {"all": NOTHING_SAID, "mpm": SAYS_NOTHING, "cps": SAYS_NOTHING},
    ),
    "no list weighs anything": (
        VOTES.with_weights(dict.fromkeys("xyz", 0)),
        LABELS,
        {"all": NOTHING_SAID, "mpm": SAYS_NOTHING, "cps": SAYS_NOTHING},
    ),
    "no instances": (
        cc.Preferences([], [], [], []),
        LABELS,
        {"all": raises("nothing to learn from: 0 instances")},
    ),
    # What weighs nothing is not there: x is all there is.
    "some lists weigh nothing": (
        VOTES.with_weights({"y": 0, "z": 0}),
        LABELS,
        {
            "all": LEARNED,
            "fusion": warns("a|b", "nothing can be learned about the experts ['y', 'z']"),
            "mpm": warns("a|b", "say nothing about the experts ['y', 'z']"),
            "cps": warns("a|b", "nothing can be learned about the experts ['y', 'z']"),
        },
    ),
    "silent experts in the vocabulary": (
        votes_of(LISTS, experts=["mute", "x", "y", "z"]),
        LABELS,
        {
            "all": LEARNED,
            "fusion": warns("a|b", "nothing can be learned about the experts ['mute']"),
            "mpm": warns("a|b", "say nothing about the experts ['mute']"),
            "cps": warns("a|b", "nothing can be learned about the experts ['mute']"),
        },
    ),
    "an expert called *": (
        votes_of(everywhere({"x": "abcd", "y": "abdc", "*": "dcba"})),
        LABELS,
        {"all": LEARNED, "mixed": raises("an expert is called '*'", "Rename it")},
    ),
    "huge scores": (votes_of(LISTS, lambda place: 1e300 * (3 - place), "score"), LABELS, {"all": LEARNED}),
    "scores all but 0": (votes_of(LISTS, lambda place: (5 - place) * 1e-310, "score"), LABELS, {"all": LEARNED}),
    "ratings with ties": (
        votes_of(LISTS, lambda place: 5 if place < 3 else 1, "rating"),
        LABELS,
        {"all": plain("ab|cd"), "mpm": warns("ab|cd", "no finite estimate")},
    ),
    # Labels.
    "no labels": (VOTES, None, {"all": raises("learns from labels and got none", "fit(preferences, labels)")}),
    "labels of another class": (
        VOTES,
        [2, 1, 0],
        {"all": raises("learns from Labels. Got list", error=KindError)},
    ),
    "labels of nothing": (VOTES, labels_of({}), {"all": raises("6 instances, 0 of them labelled")}),
    "labels of other instances": (
        VOTES,
        labels_of({f"Q{n}": {"a": 1, "b": 0} for n in range(1, 7)}),
        {"all": raises("only 0 of 6 instances have labels", "['q1', 'q2', 'q3']", "['Q1', 'Q2', 'Q3']")},
    ),
    "labels of other items": (
        VOTES,
        labels_of(everywhere({"k": 2, "l": 0})),
        {"all": raises(NO_LABEL, "none of the 12 labels belongs to an item", "['a', 'b', 'c']")},
    ),
    "labels that are all NaN": (
        VOTES,
        labels_of({"other": {"a": 1}}).align(VOTES),
        {"all": raises(NO_LABEL, "no item has one, all are NaN")},
    ),
    "equal labels": (VOTES, labels_of(everywhere(dict.fromkeys("abcd", 1))), {"all": raises(NO_LABEL, EQUAL)}),
    "labels all 0": (VOTES, labels_of(everywhere(dict.fromkeys("abcd", 0))), {"all": raises(NO_LABEL, EQUAL)}),
    # Gains are of positive labels; the share of pairs in the right order needs none, but the metric to choose by does.
    "negative labels": (
        VOTES,
        labels_of(everywhere({"a": -1, "b": -2, "c": -3, "d": -4})),
        {
            "all": raises(NO_LABEL, "hift"),
            "crf-kendall": raises("cannot choose by ndcg@10", "Shift the labels"),
            "svd-pairs": raises("cannot choose by ndcg@10", "Shift the labels"),
            "mpm": LEARNED,
            "cps": LEARNED,
        },
    ),
    "large labels": (
        VOTES,
        labels_of(everywhere({"a": 1000, "b": 500, "c": 1, "d": 0})),
        {"all": plain("a|b")},
    ),
    "fractional labels": (
        VOTES,
        labels_of(everywhere({"a": 0.9, "b": 0.4, "c": 0.0, "d": 0.1})),
        {"all": plain("a|b")},
    ),
    # NaN after align is no label: two instances have none at all, and of the others two items have one.
    "aligned labels": (
        VOTES,
        labels_of({q: {"a": 2, "b": 1} for q in NAMES[:4]}).align(VOTES),
        {"all": plain("a")},
    ),
    # Comparisons.
    "comparisons": (
        COMPARED,
        LABELS,
        {
            "all": plain("a|b"),
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": plain("a|b|c|d"),
        },
    ),
    # Nobody is named, and all that is said is one voice with shared weights.
    "comparisons by nobody": (
        COUNTED,
        LABELS,
        {
            "all": plain("a|b"),
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": raises("learns whom to believe", "name no experts"),
        },
    ),
    "comparisons that are ties": (
        compared(lambda *_: (0, 0, 3)),
        # Nobody is preferred, and all have met the same others.
        LABELS,
        {
            "all": ONE_TIE,
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": SAYS_NOTHING,
        },
    ),
    "comparisons that never took place": (
        compared(lambda *_: (0, 0, 0)),
        LABELS,
        {
            "all": NOTHING_SAID,
            "crf-slice": raises("sums='full'", error=KindError),
            "fusion": NOT_COMPARED,
            "k": NOT_COMPARED,
            "cps": NOT_COMPARED,
            "mpm": SAYS_NOTHING,
        },
    ),
}


@pytest.mark.parametrize(("name", "case"), list(cases(FITTED)))
def test_fits_to_poor_data(name: str, case: str) -> None:
    votes, labels, dues = FITTED[case]
    answer, said = heard(lambda: method(name).fit(votes, labels).predict(votes[:1]))
    assert_due(due_of(dues, name), answer, said)


PARTLY = labels_of(
    {
        "q1": {"a": 2, "b": 0, "nobody": 1},  # two items judged, two not; one label for an item that is not there
        "q2": {"a": 1, "b": 1, "c": 0},  # one not
        "q3": {"c": 1},  # one judged, alike unless the others count 0
        "q4": {"a": 0, "b": 0, "c": 0, "d": 0},  # of no use
        "elsewhere": {"a": 1, "b": 0},  # two labels of no instance
    }
)


@pytest.mark.parametrize("name", list(KIND))
def test_labels_are_used_as_far_as_they_go_and_counted(name: str) -> None:
    dropping = method(name).get_params()["unjudged"] == "drop"
    model = method(name)
    heard(lambda: model.fit(VOTES, PARTLY))
    assert model.fit_info_.labels == {
        "instances": 6,
        "labelled": 4,
        "usable": 2 if dropping else 3,
        "items": 24,
        "judged": 10,
        "unjudged": 6,
        "elsewhere": 3,
    }


@pytest.mark.parametrize("name", [n for n in KIND if KIND[n] not in ("mpm", "cps")])
def test_instances_that_gain_nothing_are_not_counted_as_usable(name: str) -> None:
    # The labels of q6 differ, and none of them is worth anything to a metric of gains.
    labels = labels_of(
        {q: {"a": 2, "b": 1, "c": 0, "d": 0} for q in NAMES[:5]} | {"q6": {"a": 0, "b": -1, "c": 0, "d": 0}}
    )
    model = method(name)
    heard(lambda: model.fit(VOTES, labels))
    assert model.fit_info_.labels["usable"] == (6 if name in ("crf-kendall", "svd-pairs") else 5)


# A validation part.

OTHERS = votes_of({"v1": {"w": "abcd"}, "v2": {"w": "abcd"}})
OTHERS_LABELS = labels_of({"v1": {"a": 1, "b": 0}, "v2": {"a": 1, "b": 0}})
CANNOT = "cannot choose by the validation part"
VALIDATION: dict[str, tuple[Any, dict[str, Any], dict[str, Due]]] = {
    "empty": (
        (VOTES[:0], LABELS[:0]),
        {},
        {"all": raises(CANNOT, "none of its 0 instances has a label")},
    ),
    "without labels": (
        (VOTES[:2], labels_of({"other": {"a": 1}})),
        {},
        {"all": raises(CANNOT, "none of its 2 instances has a label", "leave validation out")},
    ),
    "labels all 0": (
        (VOTES[:2], labels_of(everywhere(dict.fromkeys("abcd", 0)))),
        {},
        {
            "all": raises(CANNOT, "ndcg@10 is the same for every order"),
            "crf-lbfgs": LEARNED,
            "listwise-joined": LEARNED,
        },
    ),
    "one item": (
        (votes_of({"v1": {"x": "a"}}), labels_of({"v1": {"a": 1}})),
        {},
        {
            "all": raises(CANNOT, "ndcg@10 is the same for every order"),
            "crf-lbfgs": LEARNED,
            "listwise-joined": LEARNED,
        },
    ),
    "nobody ranks anything": (
        (cc.Preferences([], [], [], [], items=[("v1", i) for i in "abcd"]), labels_of({"v1": {"a": 1, "b": 0}})),
        {},
        {"all": raises(CANNOT, "all its items score alike"), "crf-lbfgs": LEARNED, "listwise-joined": LEARNED},
    ),
    "other experts": (
        (OTHERS, OTHERS_LABELS),
        {},
        {
            "all": raises("['w'] of the validation part", "Known: ['x', 'y', 'z']"),
            "consensus": LEARNED,
            "mixed": LEARNED,
            "k": LEARNED,
        },
    ),
    "other experts, left out": (
        (OTHERS, OTHERS_LABELS),
        {"unknown_experts": "ignore"},
        {
            "all": raises(CANNOT, "all its items score alike"),
            "crf-lbfgs": LEARNED,
            "listwise-joined": LEARNED,
            "consensus": LEARNED,
            "mixed": LEARNED,
            "k": LEARNED,
        },
    ),
    "in training as well": ((VOTES[:3], LABELS), {}, {"all": LEARNED}),
    "of another kind": (
        (votes_of({"v1": {"x": "abc"}}, lambda place: 9 - place, "score"), labels_of({"v1": {"a": 1, "b": 0}})),
        {},
        {"all": LEARNED},
    ),
    "no pair": (VOTES, {}, {"all": raises("a pair (preferences, labels)", error=ParameterError)}),
}
# MPM and CPS choose nothing: of a validation part they look at what it is alone.
for _, _, dues in VALIDATION.values():
    if "a pair (preferences, labels)" not in dues["all"].words:
        dues |= {"mpm": LEARNED, "cps": LEARNED}


@pytest.mark.parametrize(("name", "case"), list(cases(VALIDATION)))
def test_fits_with_a_poor_validation_part(name: str, case: str) -> None:
    part, params, dues = VALIDATION[case]
    own = {p: v for p, v in params.items() if p in method(name).param_names()}
    answer, said = heard(lambda: method(name, **own).fit(VOTES, LABELS, validation=part).predict(VOTES[:1]))
    assert_due(due_of(dues, name), answer, said)


@pytest.mark.parametrize("name", [n for n in CHOOSING if KIND[n] == "mixed"])
def test_a_stranger_is_judged_in_validation_as_it_is_predicted(name: str) -> None:
    # Nobody taught the shared weights: the mean of the others stands in, in the one as in the other.
    part = (votes_of({"v1": {"w": "abcd"}, "v2": {"w": "dabc"}}), OTHERS_LABELS)
    model = method(name).fit(VOTES, LABELS, validation=part)
    np.testing.assert_allclose(model.weights_[-1], model.weights_[:-1].mean(axis=0))
    value = cc.evaluate(model.predict(part[0]), part[1], "ndcg@10", convention="paper").mean["ndcg@10"]
    assert model.fit_info_.validation == pytest.approx(value, abs=1e-9)


# Parameters at their limits.


def test_one_pass_is_a_fit() -> None:
    for made in (cc.CRF(passes=1), cc.SVDRank(passes=1)):
        info = made.fit(VOTES, LABELS).fit_info_
        assert (info.n_iter, info.chosen["passes"], len(info.trace)) == (1, 1, 1)


@pytest.mark.parametrize("epsilon", [2, 4, 16])
def test_more_items_may_be_drawn_than_there_are(epsilon: int) -> None:
    # From as many items as the instance has on, every draw is the whole of it.
    models = [cc.CRF(passes=2, epsilon=e).fit(VOTES, LABELS) for e in (epsilon, 16)]
    assert all(in_order(m.predict(VOTES[:1])).startswith("a|b") for m in models)
    assert (models[0].weights_.tobytes() == models[1].weights_.tobytes()) == (epsilon >= 4)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (cc.CRF(metric="p@4"), DataError, "p@k needs more than k items"),
        (cc.CRF(metric="p@6"), ParameterError, "Give it a cutoff below epsilon, such as metric='p@3'"),
        (cc.CRF(metric="ap(rel=3)"), DataError, "found no usable label"),
        (cc.SVDRank(metric="p@4"), DataError, "p@k needs more than k items"),
        (cc.SVDRank(metric="map(rel=3)"), DataError, "no order of the items is better than another"),
        (cc.CRF(select="p@4"), DataError, "cannot choose by p@4"),
        (cc.SVDRank(select="p@10"), DataError, "cannot choose by p@10"),
        (cc.ListwiseLinear(select="map(rel=3)"), DataError, "cannot choose by map.*6 usable instances"),
        (cc.RRF(weights="learned", select="p@4"), DataError, "cannot choose by p@4"),
        (cc.WeightedSum(weights="learned", select="p@4"), DataError, "cannot choose by p@4"),
        (cc.SVDRank(learning_rate=1e300), DataError, "diverged in its first pass.*smaller learning_rate"),
        (cc.CRF(metric="ndgc"), ParameterError, "'ndcg', 'err', 'ap', 'rr', 'p@k' or 'kendall'"),
        (cc.CRF(select="ndgc"), ParameterError, "the name of a metric"),
        (cc.CRF(transform=()), ParameterError, "a tuple of such values"),
    ],
    ids=repr,
)
def test_what_cannot_be_learned_for_or_chosen_by_is_said(
    made: cc.Aggregator, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        made.fit(VOTES, LABELS)


@pytest.mark.parametrize("made", [cc.CRF(passes=2, select="p@4"), cc.ListwiseLinear(l2=0.1, select="p@4")], ids=repr)
def test_a_metric_that_sees_nothing_matters_only_where_there_is_a_choice(made: Any) -> None:
    made.set_params(**({"passes": 1} if isinstance(made, cc.CRF) else {}))
    assert in_order(made.fit(VOTES, LABELS).predict(VOTES[:1])).startswith("a|b")


@pytest.mark.parametrize("name", CHOOSING)
def test_more_folds_than_instances_are_as_many_as_there_can_be(name: str) -> None:
    # A fold has at least two instances, so that six instances make three folds.
    many, three = (method(name, cv=cv).fit(VOTES, LABELS) for cv in (100, 3))
    assert many.fit_info_.validation == three.fit_info_.validation
    assert many.fit_info_.chosen == three.fit_info_.chosen


@pytest.mark.parametrize("made", [cc.CRF(passes=50, patience=1, smooth=1), cc.SVDRank(passes=50, patience=1)], ids=repr)
def test_patience_of_one_stops_at_the_first_pass_that_is_no_better(made: Any) -> None:
    info = made.fit(VOTES, LABELS).fit_info_
    assert info.n_iter == info.chosen["passes"] + 1
    assert info.trace[-1] <= info.trace[-2]


@pytest.mark.parametrize("name", [n for n in COMPARING if not n.startswith("listwise")])
def test_a_warm_start_keeps_the_experts_both_fits_know(name: str) -> None:
    others = votes_of(everywhere({"x": "abcd", "w": "badc"}))
    model = method(name, warm_start=True)
    model.fit(VOTES, LABELS)
    answer, said = heard(lambda: model.fit(others, LABELS).predict(others[:1]))
    assert_due(plain("a"), answer, said)
    kind = KIND[name]
    assert model.experts_ == (["*"] if kind == "consensus" else ["w", "x"] + ["*"] * (kind == "mixed"))
    with pytest.raises(DataError):
        model.fit(VOTES, None)
    with pytest.raises(NotFittedError):
        model.predict(VOTES)


@pytest.mark.parametrize("name", [n for n in KIND if KIND[n] == "mixed"])
def test_min_lists_beyond_everybody_is_a_consensus(name: str) -> None:
    model = method(name, min_lists=10**6).fit(VOTES, LABELS)
    same = method(name, weights="consensus").fit(VOTES, LABELS)
    assert model.experts_ == ["*"]
    np.testing.assert_array_equal(model.weights_, same.weights_)


# Sizes.


@pytest.mark.parametrize("name", list(KIND))
def test_a_large_instance_beside_small_ones(name: str) -> None:
    # Two thousand items, ten of them relevant and put first by x, and six instances of two.
    rng = np.random.default_rng(1)
    items = [f"i{n}" for n in range(2000)]
    shuffled = [items[n] for n in rng.permutation(2000).tolist()]
    rows = [("big", e, i, r) for e, order in (("x", items), ("y", shuffled)) for r, i in enumerate(order, 1)]
    rows += [(q, e, i, r) for q in NAMES for e, word in (("x", "ab"), ("y", "ba")) for r, i in enumerate(word, 1)]
    votes = cc.Preferences(*zip(*rows, strict=True))
    labels = labels_of({"big": {i: int(n < 10) for n, i in enumerate(items)}} | everywhere({"a": 1, "b": 0}))
    # Choosing is not the point here, and comes dear where every pass is over two thousand items.
    fewer = {"passes": 1, "learning_rate": 5.0, "transform": "log"} if name.startswith("crf") else {}
    fewer |= {"passes": 2, "learning_rate": 0.1} if name.startswith("svd") else {}
    fewer |= {"k": 60} if name == "rrf" else {}
    model = method(name, **fewer)
    answer, _ = heard(lambda: model.fit(votes, labels).predict(votes))
    assert np.isfinite(answer.score).all()
    assert model.fit_info_.labels["usable"] == 7
    if KIND[name] not in ("consensus", "k"):
        found = cc.evaluate(answer, labels, "ndcg@10").mean["ndcg@10"]
        plain_fusion = cc.evaluate(cc.RRF().fit_predict(votes), labels, "ndcg@10").mean["ndcg@10"]
        assert found >= plain_fusion


@pytest.mark.parametrize("name", [n for n in KIND if KIND[n] == "mixed"])
def test_three_hundred_experts_with_one_list_each_share_their_weights(name: str) -> None:
    rng = np.random.default_rng(0)
    orders = ["abcde" if k % 3 else "".join(rng.permutation(list("abcde"))) for k in range(300)]
    lists: dict[str, dict[str, str]] = {f"q{n}": {} for n in range(20)}
    for k, order in enumerate(orders):
        lists[f"q{k % 20}"][f"w{k}"] = order
    labels = labels_of({q: {"a": 2, "b": 1, "c": 0} for q in lists})
    model = method(name).fit(votes_of(lists), labels)
    assert model.experts_ == ["*"]
    answer, said = heard(lambda: model.predict(votes_of({"p": {"nobody knows": "ba", "w7": "ba"}})))
    assert_due(plain("b|a"), answer, said)

"""Data that say too little: every model names what it cannot place, or answers plainly for a stated reason.

The table below is the promise. For each method, its parameters, kind of votes and poor input it says what is due: an
error, a warning (both must name the ids), or a plain answer and why nothing need be said. Whatever is answered has
finite scores, the order given, and intervals that are absent or of some width.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.errors import ConcordantError, ConcordantWarning, DataError, NoFiniteEstimateError

Votes = cc.Preferences | cc.Comparisons

# The inputs. An item's rank in a list is its place in the word; experts are x, y, ...

LISTS: dict[str, dict[str, str]] = {
    "chain": {"x": "abcd", "y": "abcd", "z": "abd"},
    "apart": {"x": "ab", "y": "ba", "z": "cd", "w": "dc", "v": "cd"},
    "one expert": {"x": "abc"},
    "one item": {"x": "a", "y": "a"},
    "all ties": {"x": "abc", "y": "abc"},
    "mute expert": {"x": "abc", "y": "bca", "z": "cab", "w": "abc"},
    "agreement": {"x": "abc", "y": "abc"},
}
# Expert, left, right, wins of left, wins of right, ties; winners are shown on both sides.
COMPARED: dict[str, list[tuple[str, str, str, int, int, int]]] = {
    "chain": [
        ("x", "a", "b", 3, 0, 0),
        ("y", "c", "b", 0, 3, 0),
        ("x", "d", "c", 0, 2, 0),
        ("y", "a", "c", 2, 0, 0),
    ],
    "apart": [
        ("x", "a", "b", 3, 2, 0),
        ("y", "a", "b", 2, 1, 0),
        ("x", "c", "d", 2, 3, 0),
        ("y", "c", "d", 1, 3, 0),
    ],
    "one expert": [("x", "a", "b", 3, 2, 0), ("x", "b", "c", 3, 2, 0), ("x", "a", "c", 3, 1, 0)],
    "one item": [],
    "all ties": [("x", "a", "b", 0, 0, 3), ("y", "b", "c", 0, 0, 2)],
    "mute expert": [
        ("x", "a", "b", 3, 2, 0),
        ("y", "b", "c", 3, 2, 0),
        ("x", "a", "c", 3, 1, 0),
        ("z", "b", "c", 1, 2, 0),
    ],
    "agreement": [
        ("x", "a", "b", 3, 1, 0),
        ("y", "a", "b", 3, 1, 0),
        ("x", "c", "b", 1, 2, 0),
        ("y", "c", "b", 1, 2, 0),
    ],
}
KINDS = {"lists": ("rank", "score", "rating"), "judged": ("judged",), "counted": ("counted",)}


def votes_of(kind: str, name: str) -> Votes:
    """Return a poor input: lists of a kind, or comparisons with experts ("judged") or without ("counted")."""
    mute = ["mute"] if name == "mute expert" else []
    if kind in ("judged", "counted"):
        columns = [list(column) for column in zip(*COMPARED[name], strict=True)] or [[] for _ in range(6)]
        if kind == "counted":
            return cc.Comparisons("q", None, *columns[1:], items=[("q", "a")] if not COMPARED[name] else None)
        who = list(dict.fromkeys(columns[0])) or ["x"]
        return cc.Comparisons("q", *columns, items=[("q", "a")] if not COMPARED[name] else None, experts=who + mute)
    rows = [(e, i, 1 if name == "all ties" else r) for e, word in LISTS[name].items() for r, i in enumerate(word, 1)]
    value = [r if kind == "rank" else 6 - r for _, _, r in rows]
    who = [*LISTS[name], *mute]
    return cc.Preferences(
        ["q"] * len(rows), [e for e, _, _ in rows], [i for _, i, _ in rows], value, kind=kind, experts=who
    )


# What is due.


@dataclass(frozen=True)
class Due:
    """What must come of an input: an error or a warning with words and ids in it, or a plain answer with a reason."""

    kind: str
    words: str = ""
    ids: tuple[str, ...] = ()
    order: str = ""
    error: type[ConcordantError] = NoFiniteEstimateError


def raises(ids: str, words: str = "", error: type[ConcordantError] = NoFiniteEstimateError) -> Due:
    """Demand an error that names the ids."""
    return Due("error", words, tuple(ids.split()), error=error)


def warns(ids: str, order: str, words: str = "") -> Due:
    """Demand a warning that names the ids, and an order: items by rank, ranks parted by |."""
    return Due("warning", words, tuple(ids.split()), order)


def plain(order: str, why: str) -> Due:
    """Demand an answer in this order and no warning, for the reason given."""
    return Due("plain", why, order=order)


# Groups of expectations that several parameters share. The order of "all": chain, apart, one expert, one item, all
# ties, mute expert, agreement.
NAMES = ("chain", "apart", "one expert", "one item", "all ties", "mute expert", "agreement")
SILENT = "an expert without votes moves nothing"
PULLED = "the prior is the estimator of lists; that nobody beats an item is nothing special"
NO_INTERVALS = "without intervals it does not matter how many experts there are"

BT_LISTS = (
    plain("a|b|c|d", PULLED),
    warns("c d a b", "c|ab|d", "never met any of"),
    warns("a b c q", "a|b|c", "fewer than two experts"),
    warns("a q", "a", "nobody prefers"),
    warns("a b c", "abc", "is a tie"),
    plain("a|b|c", SILENT),
    warns("a b c q", "a|b|c", "all say the same"),
)
BT_JUDGED = (
    warns("a d", "a|b|c|d", "never lost"),
    warns("c d a b", "d|a|b|c", "never met any of"),
    warns("a b c q", "a|b|c", "fewer than two experts"),
    warns("a q", "a", "nobody prefers"),
    warns("a b c", "abc", "is a tie"),
    plain("a|b|c", SILENT),
    warns("a b c q", "a|b|c", "all say the same"),
)
INFORMED = plain("a|b|c", "observed information was asked for, and outcomes are enough for that")
BT_COUNTED = (*BT_JUDGED[:2], INFORMED, *BT_JUDGED[3:5], INFORMED, INFORMED)
BT_BARE_LISTS = (
    raises("a d q", "never lost"),
    raises("c d a b", "never met any of"),
    raises("a c q", "never lost"),
    warns("a q", "a", "nobody prefers"),
    raises("a b c", "no circle of items"),
    plain("a|b|c", SILENT),
    raises("a c q", "never lost"),
)
BT_BARE_JUDGED = (
    raises("a d q", "never lost"),
    raises("c d a b", "never met any of"),
    *BT_JUDGED[2:4],
    raises("a b c", "no circle of items"),
    *BT_JUDGED[5:],
)


def instead(group: tuple[Due, ...], **others: Due) -> tuple[Due, ...]:
    """Return a group with some expectations replaced, by name (spaces written _)."""
    return tuple(others.get(name.replace(" ", "_"), due) for name, due in zip(NAMES, group, strict=True))


UNTIED = warns("a b c q", "abc", "nobody prefers")
STOPPED = instead(BT_LISTS, one_expert=plain("a|b|c", NO_INTERVALS), agreement=plain("a|b|c", NO_INTERVALS))
NO_EXPERTS = tuple(raises("", "name no experts", DataError) for _ in NAMES)
TIES_OUT = instead(BT_JUDGED, all_ties=UNTIED)

PL_ONE = warns("q", "a|b|c", "fewer than two experts")
PL = (
    plain("a|b|c|d", PULLED),
    warns("a b c d", "c|ab|d"),
    PL_ONE,
    warns("a", "a"),
    warns("a b c", "abc"),
    plain("a|b|c", SILENT),
    warns("a b c", "a|b|c"),
)
PL_BARE = (
    raises("a d q", "never ranked"),
    raises("a b c d q", "groups"),
    raises("a c q", "never ranked"),
    warns("a", "a"),
    raises("a b c q", "against no other"),
    plain("a|b|c", SILENT),
    raises("a c q", "never ranked"),
)
PL_BELOW = instead(PL, apart=plain("c|d|ab", "each list ranks what it holds above what it leaves out"))
PL_BARE_BELOW = instead(PL_BARE, chain=raises("a c d q", "never ranked"), apart=PL_BELOW[1])
PL_STOPPED = instead(PL, one_expert=plain("a|b|c", NO_INTERVALS), agreement=plain("a|b|c", NO_INTERVALS))
FEW = "learned from one instance"
PL_LEARNED = instead(PL, chain=warns("", "a|b|c|d", FEW), mute_expert=warns("", "a|b|c", FEW))
PL_INFORMED = instead(PL, one_expert=INFORMED, agreement=INFORMED)

MPM_QUIET = "nobody prefers"
MPM_PLAIN = (
    plain("a|b|c|d", "the estimate exists: some items both win and lose"),
    warns("c d a b q", "c|ab|d", "never met any of"),
    warns("q", "a|b|c", "fewer than two experts"),
    warns("a q", "a", MPM_QUIET),
    warns("a b c q", "abc", MPM_QUIET),
    plain("a|b|c", SILENT),
    warns("a b c", "a|b|c"),
)
MPM_LEARNED = instead(
    MPM_PLAIN,
    chain=warns("q", "a|b|c|d", "one instance alone"),
    apart=warns("c d q", "c|ab|d", "no finite estimate"),
    mute_expert=warns("mute", "a|b|c", "no preferences"),
)
MPM_INFORMED = instead(MPM_PLAIN, one_expert=INFORMED, agreement=INFORMED)
MPM_JUDGED = instead(
    MPM_PLAIN,
    chain=plain("a|b|d|c", "net counts order base MPM, and c lost five times"),
    apart=warns("c d a b q", "d|a|b|c", "never met any of"),
    agreement=warns("a b c", "a|bc"),
)
MPM_COUNTED = instead(
    MPM_JUDGED,
    one_expert=INFORMED,
    agreement=plain("a|bc", "observed information: outcomes are enough for that"),
)

POSITIONS = "positions are averages, and no estimate can fail to exist"
BELOW = "a list places what it leaves out below what it holds, so that all items are compared"
TIED_TRUTH = "that all items are equal is what was said"
ALONE = "an item alone is first"
HEURISTIC = (
    plain("a|b|c|d", POSITIONS),
    plain("c|d|ab", BELOW),
    plain("a|b|c", "the consensus of one expert is its own order"),
    plain("a", ALONE),
    plain("abc", TIED_TRUTH),
    plain("a|b|c", SILENT),
    plain("a|b|c", "experts who agree are followed; no interval claims more"),
)
ULARA = instead(
    HEURISTIC,
    one_expert=warns("x", "a|b|c", "nothing can be learned"),
    mute_expert=warns("mute", "a|b|c", "nothing can be learned"),
)
SVP = instead(HEURISTIC, apart=warns("a b c d q", "c|ab|d", "no chain of comparisons"))
SVP_COMPARED = instead(
    SVP,
    chain=warns("q", "a|b|d|c", "the order means little"),
    apart=warns("a b c d q", "d|a|b|c", "no chain of comparisons"),
    all_ties=warns("q", "abc", "the order means little"),
    agreement=warns("q", "a|b|c", "the order means little"),
)
MALLOWS = instead(HEURISTIC, apart=warns("a b c d q", "c|ab|d", "never met any of"))
EXTENDED_BELOW = instead(
    HEURISTIC,
    chain=warns("x y", "a|b|c|d", "no finite estimate"),
    apart=warns("z v", "c|d|ab", "no finite estimate"),
    one_expert=warns("x", "a|b|c", "only expert"),
    mute_expert=warns("x w", "a|b|c", "no finite estimate"),
)
EXTENDED = instead(EXTENDED_BELOW, apart=MALLOWS[1])

BOOTSTRAP = {"uncertainty": "bootstrap", "n_bootstrap": 20}
Row = tuple[str, dict[str, Any], str, tuple[Due, ...]]
TABLE: list[Row] = [
    ("bradley-terry", {}, "lists", BT_LISTS),
    ("bradley-terry", {}, "judged", BT_JUDGED),
    ("bradley-terry", {}, "counted", BT_COUNTED),
    ("bradley-terry", {"prior": 0}, "lists", BT_BARE_LISTS),
    ("bradley-terry", {"prior": 0}, "judged", BT_BARE_JUDGED),
    (
        "bradley-terry",
        {"prior": 0},
        "counted",
        (*BT_BARE_JUDGED[:2], INFORMED, *BT_BARE_JUDGED[3:5], INFORMED, INFORMED),
    ),
    ("bradley-terry", {"ties": "davidson"}, "lists", BT_LISTS),
    ("bradley-terry", {"ties": "rao-kupper"}, "lists", BT_LISTS),
    ("bradley-terry", {"ties": "rao-kupper"}, "judged", BT_JUDGED),
    ("bradley-terry", {"ties": "rao-kupper", "prior": 0}, "judged", BT_BARE_JUDGED),
    ("bradley-terry", {"ties": "none"}, "judged", TIES_OUT),
    ("bradley-terry", {"reliability": True}, "lists", BT_LISTS),
    ("bradley-terry", {"reliability": True}, "judged", BT_JUDGED),
    ("bradley-terry", {"reliability": True}, "counted", NO_EXPERTS),
    (
        "bradley-terry",
        {"reliability": True, "prior": 0},
        "lists",
        instead(BT_BARE_LISTS, all_ties=warns("a b c", "abc", "is a tie")),
    ),
    (
        "bradley-terry",
        {"uncertainty": "information"},
        "lists",
        instead(BT_LISTS, one_expert=INFORMED, agreement=INFORMED),
    ),
    ("bradley-terry", {"uncertainty": "sandwich"}, "judged", BT_JUDGED),
    ("bradley-terry", {"uncertainty": "sandwich"}, "counted", NO_EXPERTS),
    ("bradley-terry", BOOTSTRAP, "lists", BT_LISTS),
    ("bradley-terry", BOOTSTRAP, "judged", BT_JUDGED),
    ("bradley-terry", {"uncertainty": "none"}, "lists", STOPPED),
    ("bradley-terry", {"transform": "count"}, "lists", instead(BT_LISTS, all_ties=UNTIED)),
    (
        "bradley-terry",
        {"transform": "count", "prior": 0},
        "lists",
        instead(BT_BARE_LISTS, all_ties=raises("a b c q", "never met another")),
    ),
    ("bradley-terry", {"prior": "published", "transform": "count"}, "lists", instead(BT_LISTS, all_ties=UNTIED)),
    ("bradley-terry", {"optimizer": "gd"}, "lists", instead(STOPPED, all_ties=UNTIED)),
    (
        "bradley-terry",
        {"optimizer": "gd"},
        "judged",
        instead(
            TIES_OUT,
            chain=warns("a d", "a|b|d|c", "never lost"),
            one_expert=plain("a|b|c", NO_INTERVALS),
            agreement=plain("a|b|c", NO_INTERVALS),
        ),
    ),
    ("plackett-luce", {}, "lists", PL),
    ("plackett-luce", {"prior": 0}, "lists", PL_BARE),
    ("plackett-luce", {"prior": ("gamma", 2.0, 1.0)}, "lists", PL),
    ("plackett-luce", {"ties": "partition"}, "lists", PL),
    ("plackett-luce", {"ties": "partition", "prior": 0}, "lists", PL_BARE),
    ("plackett-luce", {"missing": "below"}, "lists", PL_BELOW),
    ("plackett-luce", {"missing": "below", "prior": 0}, "lists", PL_BARE_BELOW),
    ("plackett-luce", {"prior": "published"}, "lists", PL),
    ("plackett-luce", {"adherence": True}, "lists", PL_LEARNED),
    ("plackett-luce", BOOTSTRAP, "lists", PL),
    ("plackett-luce", {"uncertainty": "information"}, "lists", PL_INFORMED),
    ("plackett-luce", {"optimizer": "mm", "prior": 0}, "lists", PL_BARE),
    ("plackett-luce", {"optimizer": "gd"}, "lists", PL_STOPPED),
    ("mpm", {}, "lists", MPM_PLAIN),
    ("mpm", {"adherence": "learned"}, "lists", MPM_LEARNED),
    ("mpm", {"adherence": "none"}, "lists", MPM_PLAIN),
    ("mpm", {"adherence": "none"}, "judged", MPM_JUDGED),
    ("mpm", {"adherence": "none"}, "counted", MPM_COUNTED),
    ("mpm", {}, "counted", MPM_COUNTED),
    ("mpm", {"variances": True, "adherence": "none"}, "lists", MPM_PLAIN),
    ("mpm", {"adherence": "none", **BOOTSTRAP}, "lists", MPM_PLAIN),
    ("mpm", {"adherence": "none", "uncertainty": "information"}, "lists", MPM_INFORMED),
    ("mallows", {}, "lists", MALLOWS),
    ("mallows", {"missing": "below"}, "lists", HEURISTIC),
    ("extended-mallows", {}, "lists", EXTENDED),
    ("extended-mallows", {"inference": "borda"}, "lists", EXTENDED),
    ("extended-mallows", {"missing": "below"}, "lists", EXTENDED_BELOW),
    ("ulara", {}, "lists", ULARA),
    ("ulara", {"update": "gd"}, "lists", ULARA),
    ("svp", {}, "lists", SVP),
    ("svp", {"step": "auto", "average": True}, "lists", SVP),
    ("svp", {}, "judged", SVP_COMPARED),
    ("svp", {}, "counted", SVP_COMPARED),
    ("cps", {}, "lists", HEURISTIC),
    ("cps", {"distance": "footrule"}, "lists", HEURISTIC),
    ("cps", {"distance": "spearman"}, "lists", HEURISTIC),
]


# What is promised and not yet kept with some parameters: (method, input), and what is wrong.
PENDING: dict[tuple[str, str], str] = {}


def cases() -> Iterator[Any]:
    """Yield one test per method, parameters, kind of votes and input."""
    for method, params, group, dues in TABLE:
        asked = ",".join(f"{k}={v}" for k, v in params.items()) or "default"
        for name, due in zip(NAMES, dues, strict=True):
            for kind in KINDS[group]:
                # One kind of list tells about the parameters; all of them about the defaults.
                if group != "lists" or kind == "rank" or not params:
                    lacking = PENDING.get((method, name))
                    marks = [pytest.mark.xfail(reason=lacking, strict=False)] if lacking else []
                    label = f"{method}-{asked}-{kind}-{name}"
                    yield pytest.param(method, params, kind, name, due, id=label, marks=marks)


def heard(run: Callable[[], cc.Consensus]) -> tuple[cc.Consensus | ConcordantError, list[str]]:
    """Return the answer, or the error that was raised, and the warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConcordantWarning)
        try:
            answer: cc.Consensus | ConcordantError = run()
        except ConcordantError as error:
            answer = error
    return answer, [str(w.message) for w in said]


def in_order(board: cc.Consensus) -> str:
    """Return the items by rank, ranks parted by |."""
    ranks = sorted(set(board.rank.tolist()))
    return "|".join("".join(i for i, r in zip(board.items, board.rank, strict=True) if r == rank) for rank in ranks)


def assert_sound(board: cc.Consensus) -> None:
    """Require finite scores, and intervals that are absent or hold the score, and are neither a point nor absurd."""
    assert np.isfinite(board.score).all()
    assert np.abs(board.score).max() < 100
    if board.stderr is None:
        return
    told = ~np.isnan(board.stderr)
    assert (np.isnan(board.lower) == ~told).all()
    width = (board.upper - board.lower)[told]
    assert (width > 1e-6).all(), f"intervals of no width: {width}"
    assert (width < 1000).all(), f"absurd intervals: {width}"
    assert (board.lower[told] <= board.score[told]).all()
    assert (board.rank_lower <= board.rank).all()
    assert (board.rank <= board.rank_upper).all()
    assert (board.rank_lower[~told] == 1).all()
    assert (board.rank_upper[~told] == len(board.score)).all()


@pytest.mark.parametrize(("method", "params", "kind", "name", "due"), list(cases()))
def test_what_the_votes_cannot_say_is_said(method: str, params: dict[str, Any], kind: str, name: str, due: Due) -> None:
    answer, said = heard(lambda: cc.METHODS[method](**params).fit_predict(votes_of(kind, name)))
    if due.kind == "error":
        assert isinstance(answer, due.error), f"{answer!r} instead of {due.error.__name__}"
        assert due.words in str(answer)
        assert not [i for i in due.ids if repr(i) not in str(answer)], str(answer)
        return
    assert isinstance(answer, cc.Consensus), f"{answer!r} instead of an answer"
    if due.kind == "plain":
        assert not said
    else:
        assert any(due.words in text and all(repr(i) in text for i in due.ids) for text in said), said
    assert in_order(answer) == due.order
    assert_sound(answer)


@pytest.mark.parametrize("kind", ["one expert", "all ties"])
def test_chance_orders_nothing_where_lists_are_long(kind: str) -> None:
    items = [f"i{n}" for n in range(12)]
    lists = {"x": items} if kind == "one expert" else {e: dict.fromkeys(items, 1.0) for e in "xy"}
    board, _ = heard(lambda: cc.ExtendedMallows().fit_predict(cc.from_lists(lists)))
    assert isinstance(board, cc.Consensus)
    assert board.rank.tolist() == (list(range(1, 13)) if kind == "one expert" else [1] * 12)


@pytest.mark.parametrize(
    "method", ["bradley-terry", "plackett-luce", "mpm", "mallows", "extended-mallows", "ulara", "svp", "cps"]
)
def test_an_expert_who_ranks_nothing_moves_nothing(method: str) -> None:
    with_mute = votes_of("rank", "mute expert")
    without = with_mute.drop_experts(["mute"])
    (one, _), (other, _) = (heard(lambda v=v: cc.METHODS[method]().fit_predict(v)) for v in (with_mute, without))
    assert isinstance(one, cc.Consensus)
    assert isinstance(other, cc.Consensus)
    np.testing.assert_allclose(one.score, other.score, rtol=0, atol=1e-9)

"""Hostile requests to `fuse`: lists of every form, ids and scores of every type, options of every kind.

A request is answered or refused by an error of ours. What is answered holds the caller's own ids, once each, and the
scores and ranks of the same lists read in plain Python and aggregated as a container. Arguments are not changed.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tests.attack.files import LONGEST_MESSAGE
from tests.attack.fits import HOSTILE_IDS, NEAR, SCORES
from tests.attack.watch import InTurn, beat, stopwatch

import concordant as cc
from concordant.errors import ConcordantError

SEED = 17
IDS: tuple[Any, ...] = (
    *HOSTILE_IDS, 0, 1, -1, True, False, 1.0, 0.5, -0.0, math.inf, 2**70, 10**400, b"a", b"\xff", (), ("a", "b"),
    (1, 2), frozenset({1}), Decimal("1.5"), Fraction(1, 3), 1j, "\ud800", "", Path("x"), np.int64(1), np.str_("a"),
    range(3), int,
)  # fmt: skip
# What is no id.
NO_IDS: tuple[Any, ...] = (None, [1], {"id": "a"}, {1, 2}, np.array([1, 2]), math.nan)
NO_SCORES: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, None, "5", "x", b"1", True, 10**400, 1j, [1.0], Decimal("nan"), np.array([1.0, 2.0]),
)  # fmt: skip
OTHER_SCORES: tuple[Callable[[float], Any], ...] = (np.float32, np.float64, Decimal, Fraction, int, np.array)
NAMES: tuple[Any, ...] = (
    "bm25", "dense", "bm-25", "Dense", 1, "1", True, None, "", ("a", 1), "\x1b[2J", "[/b]", "x" * 5000, "\ud800", 2.5,
    b"a", "a\nb",
)  # fmt: skip
LISTS: tuple[Any, ...] = (
    "abc",
    b"abc",
    5,
    None,
    {1, 2},
    frozenset({"a"}),
    object(),
    int,
    {"a": None},
    [[]],
    [()],
    [(1,)],
)
WEIGHTS: tuple[Any, ...] = (
    0, 0.0, 1, 0.5, 2.5, 1e-300, 1e300, 1e308, 5e-324, -1, math.nan, math.inf, "1", None, True, 10**400,
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (1, 2, 3, 10**30, 0, -1, 1.0, 2.5, "2", True, math.nan)


class Hit:
    """An object of a retriever."""

    def __init__(self, identity: Any, score: Any) -> None:
        self.id, self.score = identity, score


@dataclass
class Request:
    """Arguments of `fuse`, and what its lists say: pairs of id and score by name, None where that is not clear."""

    lists: Any
    options: dict[str, Any] = field(default_factory=dict)
    said: dict[Any, list[tuple[Any, Any]]] | None = None
    done: str = ""


def names() -> list[str]:
    """Return the names of all methods that answer a request without a fit."""
    every = {name: cls() for name, cls in cc.METHODS.items()}
    return [n for n, method in every.items() if "rank" in method.tags.accepts and not method.learns()]


def _form(form: str, rows: list[tuple[Any, Any]], scored: bool) -> Any:
    """Return the rows of a list in one of the forms that retrievers use."""
    ids = [value for value, _ in rows]
    match form:
        case "objects":
            return [Hit(*row) for row in rows]
        case "mapping" if scored:
            return dict(rows)
        case "pairs" if scored:
            return [tuple(row) for row in rows]
        case "nested" if scored:
            return [list(row) for row in rows]
        case _ if scored:
            return iter([tuple(row) for row in rows])
        case "mapping":
            return dict.fromkeys(ids).keys()
        case "pairs":
            return tuple(ids)
        case "nested":
            return iter(ids)
        case _:
            return ids


def _rows(chance: random.Random, scored: bool, ids: list[Any]) -> list[tuple[Any, Any]]:
    size = chance.choice([0, 1, 1, 2, 3, 5, 8, 13])
    drawn = (
        [chance.choice(ids) for _ in range(size)] if chance.random() < 0.3 else chance.sample(ids, min(size, len(ids)))
    )
    how = SCORES[chance.choice(list(SCORES))]
    rows = [(value, how(chance, n)) for n, value in enumerate(drawn)]
    if scored and rows and chance.random() < 0.25:
        at, kind = chance.randrange(len(rows)), chance.choice(OTHER_SCORES)
        value = rows[at][1]
        rows[at] = (rows[at][0], kind(value if abs(value) < 1e38 else 1.0))
    return rows


def request(name: str, number: int) -> Request:
    """Return the request of a number for a method."""
    chance = random.Random(f"{SEED}/requests/{name}/{number}")
    scored = chance.random() < 0.5
    plain = chance.random() < 0.4
    ids = [f"d{n}" for n in range(12)] if plain else chance.sample(IDS, 12)
    form = chance.choice(["list", "list", "mapping", "pairs", "nested", "objects"])
    chosen = ["bm25", "dense", "third"] if chance.random() < 0.6 else chance.sample(NAMES, chance.randint(1, 6))
    rows = {one: _rows(chance, scored, ids) for one in chosen}
    said: dict[Any, list[tuple[Any, Any]]] | None = {k: list(v) for k, v in rows.items()}
    done = [form, "scores" if scored else "ids"]
    if chance.random() < 0.15:
        # One entry that cannot be read.
        rows[chosen[0]].insert(
            0, (chance.choice(NO_IDS), 1.0) if chance.random() < 0.5 else ("d0", chance.choice(NO_SCORES))
        )
        said = None
        done.append("an odd entry")
    try:
        lists: Any = {one: _form(form, found, scored) for one, found in rows.items()}
    except TypeError:
        # A mapping has no such key.
        lists = {one: _form("pairs", found, scored) for one, found in rows.items()}
    if form == "mapping" and said is not None:
        # A mapping keeps an id where it stands first, with the last of its scores.
        said = {one: list(dict(found).items()) for one, found in said.items()}
    if chance.random() < 0.1:
        lists[chance.choice([chosen[0], "more"])] = chance.choice(LISTS)
        said = None
        done.append("no list")
    if not plain and form not in ("objects", "mapping"):
        # Whether tuples are ids or pairs depends on the others.
        said = None
    options = _options(chance, chosen, scored)
    if form == "objects":
        options |= {"key": "id"} | ({"score": "score"} if scored else {})
    elif chance.random() < 0.02:
        options["key"] = chance.choice(["id", 0, True, 2.5, [], "no_such"])
        said = None
    if chance.random() < 0.02:
        lists = chance.choice([[["a"]], "ab", None, 5, {}, {1: {}}, [("bm25", ["a"])]])
        said = None
        done.append("no lists")
    return Request(lists, options, said, ", ".join(done))


def _options(chance: random.Random, chosen: list[Any], scored: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    named = [*chosen, *NAMES]
    if chance.random() < 0.3:
        usual = chance.random() < 0.6
        out["weights"] = {
            chance.choice(chosen if usual else named): chance.choice(WEIGHTS[:5] if usual else WEIGHTS)
            for _ in range(2)
        }
    for option in ("top_k", "depth"):
        if chance.random() < 0.15:
            out[option] = chance.choice(NUMBERS[:4] if chance.random() < 0.7 else NUMBERS)
    if chance.random() < 0.1:
        out["threshold"] = chance.choice(
            [0.0, 0.01, -1e300, 5, math.nan, "1", {chance.choice(named): 0.5}, {"bm25": "x"}]
        )
    if chance.random() < 0.15:
        out["duplicates"] = chance.choice(["best", "best", "error", "first", None])
    if scored and chance.random() < 0.15:
        out["smaller_is_better"] = [chance.choice(chosen if chance.random() < 0.8 else named)]
    if chance.random() < 0.03:
        out |= chance.choice(
            [{"weights": []}, {"no_such": 1}, {"k": math.nan}, {"smaller_is_better": 5}, {"weights": 5}]
        )
    return out


# The judge.


def _ordered(
    said: dict[Any, list[tuple[Any, Any]]], scored: bool, options: dict[str, Any]
) -> dict[str, list[tuple[Any, float]]]:
    """Return the lists that count, as a careful reader has them: ids once, best first, as deep as they count."""
    out = {}
    for name, rows in said.items():
        best: dict[Any, tuple[float, int]] = {}
        for place, (value, score) in enumerate(rows):
            worth = (
                (-float(score) if name in options.get("smaller_is_better", ()) else float(score)) if scored else -place
            )
            if value not in best or worth > best[value][0]:
                best[value] = worth, place
        order = sorted(best, key=lambda v: (-best[v][0], best[v][1]))
        rows = [(value, best[value][0]) for value in order[: options.get("depth", len(order))]]
        if rows:
            out[str(name)] = rows
    return out


def _expected(name: str, asked: Request) -> tuple[dict[Any, float], dict[Any, int]] | None:
    """Return score and rank of every id, from the container; None where this does not tell."""
    options, said = asked.options, asked.said
    if said is None or "threshold" in options or len({str(one) for one in said}) < len(said):
        return None
    scored = "scores" in asked.done
    lists = _ordered(said, scored, options)
    texts: dict[Any, str] = {}
    for rows in lists.values():
        for value, _ in rows:
            texts.setdefault(value, f"i{len(texts)}")
    given: Any = {
        one: {texts[v]: s for v, s in rows} if scored else [texts[v] for v, _ in rows] for one, rows in lists.items()
    }
    if not given:
        return {}, {}
    trust = options.get("weights", {})
    weights = {str(one): trust[one] for one in said if one in trust and str(one) in given} or None
    found = cc.aggregate(cc.from_lists(given, weights=weights), cc.METHODS[name]())
    at = {found.slots.where(s)[1]: s for s in range(found.n_slots)}
    score, rank = found.score.tolist(), found.rank.tolist()
    return {v: score[at[t]] for v, t in texts.items()}, {v: rank[at[t]] for v, t in texts.items()}


def _faults(hits: cc.Hits, name: str, asked: Request) -> list[str]:
    """Return what is wrong with an answer."""
    scores, ranks, ids = hits.scores, [hit.rank for hit in hits], hits.ids
    if not all(map(math.isfinite, scores)):
        return [f"scores that are not finite: {scores[:8]}"]
    out = []
    if len(set(ids)) < len(ids):
        out.append("an id is there twice")
    size = NEAR * max(map(abs, scores), default=0.0)
    if any(b > a + size for a, b in pairwise(scores)) or any(b < a for a, b in pairwise(ranks)):
        out.append(f"hits are not best first: {scores[:8]}, {ranks[:8]}")
    if len(hits) > asked.options.get("top_k", math.inf):
        out.append(f"{len(hits)} hits for top_k")
    expected = _expected(name, asked)
    if expected is None:
        return out
    right, place = expected
    if "top_k" not in asked.options and set(ids) != set(right):
        return [*out, f"other ids than were given: {len(ids)} for {len(right)}"]
    size = NEAR * max(map(abs, right.values()), default=0.0)
    wrong = [v for v, s in zip(ids, scores, strict=True) if abs(s - right[v]) > size]
    moved = [v for v, r in zip(ids, ranks, strict=True) if r != place[v]]
    if wrong or moved:
        v = (wrong or moved)[0]
        at = ids.index(v)
        out.append(f"score {scores[at]!r} and rank {ranks[at]}, and {right[v]!r} and {place[v]} of the container")
    return out


def judge_request(name: str, asked: Request) -> dict[str, Any]:
    """Return the record of one request."""
    before = repr((asked.lists, asked.options))
    taken = stopwatch()
    findings: list[tuple[str, str]] = []
    hits: cc.Hits | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hits = cc.fuse(asked.lists, name, **asked.options)
        outcome = "read"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the point of the judge
        outcome, said = type(error).__name__, f"{type(error).__name__}: {str(error)[:300]!r}"
        if not isinstance(error, ConcordantError):
            findings.append(("foreign", said))
        elif len(str(error)) > LONGEST_MESSAGE:
            findings.append(("foreign", f"a message of {len(str(error))} characters: {said}"))
    seconds = taken()
    beat()
    if repr((asked.lists, asked.options)) != before:
        findings.append(("wrong", "the arguments are changed"))
    if hits is not None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                findings += [("wrong", said) for said in _faults(hits, name, asked)]
                repr(hits), hits._repr_html_(), hits.to_dicts()
        except ConcordantError as error:
            findings.append(("wrong", f"answered, and the container is refused: {str(error)[:300]}"))
    if findings:
        findings = [(sort, f"{said} from {str(before)[:300]}") for sort, said in findings]
    return {"outcome": outcome, "findings": findings, "seconds": seconds}


def judge(_: Path, methods: list[str] | None = None) -> InTurn:
    """Return the judge of requests to some methods, all that need no fit by default, taken in turn."""
    chosen = methods or names()
    for name in chosen:
        cc.fuse({"bm25": ["a", "b"], "dense": ["b", "c"]}, name)

    def one(name: str, turn: int) -> dict[str, Any]:
        asked = request(name, turn)
        record = judge_request(name, asked)
        findings = [(sort, f"{asked.done}: {said}") for sort, said in record["findings"]]
        return record | {"findings": findings, "counts": {f"form: {asked.done.partition(',')[0]}": 1}}

    return InTurn(chosen, one)

"""Degenerate votes for every method at its defaults: an error of ours, or finite scores and ranks that go with them.

Ranks of methods that do not draw at random must not depend on the order of rows, on the order of experts, or on what
items are called.
"""

from __future__ import annotations

import math
import os
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.attack.files import LONGEST_MESSAGE
from tests.attack.watch import InTurn, beat, stopwatch

import concordant as cc
from concordant.base.limits import MAX_SECONDS
from concordant.errors import ConcordantError

SEED = 17
LISTED = ("rank", "score", "rating")
# Parameters other than the defaults under which votes take another way through a method.
OTHER: dict[str, dict[str, Any]] = {
    "comb-sum, z-score": {"norm": "z-score"},
    "comb-mnz, z-score": {"norm": "z-score"},
    "comb-anz, z-score": {"norm": "z-score"},
    "comb-med, z-score": {"norm": "z-score"},
    "weighted-sum, z-score": {"norm": "z-score"},
    "bradley-terry, reliability": {"reliability": True},
    "plackett-luce, adherence": {"adherence": True},
    "mpm, adherence": {"adherence": "learned"},
    "mpm, joint": {"adherence": "learned", "variances": "joint"},
    "bradley-terry, sides": {"side_effect": True},
    "plackett-luce, ties": {"ties": "davidson-luce"},
    "kemeny, ties": {"ties": "mean"},
    "robust-rank, exact": {"exact": True, "cutoff": "length"},
    "stv, seats": {"seats": 2},
    "mixture, camps": {"components": 2},
    "mixture, bradley-terry": {"of": "bradley-terry", "components": 2},
    "mixture, mpm": {"of": "mpm", "components": 2},
    "mixture, mallows": {"of": "mallows", "components": 2},
}
# How far apart two scores may be, relative to the largest, and still be a tie.
NEAR = 1e-9
# What weights are multiplied by where only their ratios matter.
UNIT = 2.0**60


@dataclass(frozen=True)
class Votes:
    """Votes in plain Python: rows of instance, expert, item and value, or of a pair of items and three counts."""

    kind: str
    rows: tuple[tuple[Any, ...], ...]
    items: tuple[tuple[str, str], ...]
    experts: tuple[str, ...]
    weight: tuple[float, ...] | None = None
    labels: tuple[float, ...] = ()

    def container(self) -> Any:
        """Return the votes as Concordant has them."""
        if self.kind == "comparisons":
            columns = [list(c) for c in zip(*self.rows, strict=True)] or [[] for _ in range(7)]
            return cc.Comparisons(*columns, items=self.items, experts=self.experts)
        columns = [list(c) for c in zip(*self.rows, strict=True)] or [[] for _ in range(4)]
        weight = None if self.weight is None else dict(zip(self.experts, self.weight, strict=True))
        kind: Any = self.kind
        return cc.Preferences(*columns, kind=kind, items=self.items, experts=self.experts, weight=weight)

    def truth(self) -> cc.Labels:
        """Return the labels of those items that have one."""
        known = [(q, i, y) for (q, i), y in zip(self.items, self.labels, strict=True) if not math.isnan(y)]
        return cc.Labels([q for q, _, _ in known], [i for _, i, _ in known], [y for _, _, y in known])

    def shuffled(self, chance: random.Random) -> Votes:
        """Return the same votes, rows and items in another order."""
        rows, pairs = list(self.rows), list(zip(self.items, self.labels, strict=True))
        chance.shuffle(rows)
        chance.shuffle(pairs)
        items, labels = zip(*pairs, strict=True) if pairs else ((), ())
        return replace(self, rows=tuple(rows), items=tuple(items), labels=tuple(labels))

    def experts_turned(self, _: random.Random) -> Votes:
        """Return the same votes, experts in the opposite order, rows and weights with them."""
        place = {e: n for n, e in enumerate(self.experts)}
        rows = sorted(self.rows, key=lambda row: -place[row[1]])
        weight = None if self.weight is None else self.weight[::-1]
        return replace(self, rows=tuple(rows), experts=self.experts[::-1], weight=weight)

    def in_another_unit(self, _: random.Random) -> Votes:
        """Return the same votes, all weights multiplied by a power of 2, which rounds nothing; extreme ones stay."""
        if self.kind == "comparisons":
            rows = tuple((*row[:4], *(UNIT * n for n in row[4:])) for row in self.rows)
            sizes = [n for row in self.rows for n in row[4:] if n]
            return replace(self, rows=rows) if all(1e-100 < n < 1e100 for n in sizes) else self
        weight = self.weight or (1.0,) * len(self.experts)
        usual = all(1e-100 < w < 1e100 for w in weight if w)
        return replace(self, weight=tuple(UNIT * w for w in weight)) if usual else self

    def renamed(self, _: random.Random) -> Votes:
        """Return the same votes on items whose names sort the other way."""
        at = (2, 3) if self.kind == "comparisons" else (2,)
        rows = (tuple(mirror(v) if n in at else v for n, v in enumerate(row)) for row in self.rows)
        return replace(self, rows=tuple(rows), items=tuple((q, mirror(i)) for q, i in self.items))


def mirror(text: str) -> str:
    """Return another name; names sort in the opposite order, and no two become one."""
    return "".join(chr(0x4E00 - ord(c)) if ord(c) < 0x300 else c for c in text) + "\u9fff"


# Votes that say too little, too much, or the same thing.

HOSTILE_IDS = (
    "0", "00", "1", "1.0", "-1", "nan", "NaN", "None", "NULL", "inf", "true", "\u200b", "\u00a0", "\ufeff", "'", '"',
    ",", "\t", "\r", "[/b]", "\x1b[2J", "=1+1", "<script>", "../x", "é", "e\u0301", "\U0001f600", "\u202e", "A", "a",
    "{}", "%s", "x" * 5000, "__class__", "\x00", " ",
)  # fmt: skip
SCORES: dict[str, Callable[[random.Random, int], float]] = {
    "plain": lambda c, _: c.random(),
    "whole": lambda c, _: float(c.randint(1, 4)),
    "constant": lambda *_: 2.0,
    "tiny": lambda c, _: c.random() * 1e-300,
    "huge": lambda c, _: c.uniform(-1, 1) * 1e300,
    "mixed": lambda c, _: c.choice([1e-300, 1e300, -1e300, 1.0, 0.0, -0.0]),
    "close": lambda c, _: 1.0 + c.randint(0, 3) * 2.0**-52,
    "smallest": lambda c, _: c.choice([5e-324, 0.0, 1e-310]),
    "signed": lambda c, _: c.choice([-1, 1]) * c.choice([0.1, 0.2, 0.3, 0.6, 0.7, 0.8]),
    "falling": lambda _, n: float(-n),
    "steep": lambda _, n: 10.0 ** -min(n, 300),
}
RANKS: dict[str, Callable[[random.Random, int], float]] = {
    "places": lambda _, n: n + 1.0,
    "ties": lambda c, _: float(c.randint(1, 3)),
    "constant": lambda *_: 1.0,
    "far": lambda c, n: c.choice([1.0, 1e6, 1e15, 1e300]) * (n + 1),
    "halves": lambda _, n: 1 + n / 2,
    "all last": lambda *_: 1e9,
}
WEIGHTS: dict[str, Callable[[random.Random], float]] = {
    "equal": lambda _: 1.0,
    "some": lambda c: c.choice([0.5, 1.0, 2.0, 3.0]),
    "tiny": lambda _: 1e-300,
    "huge": lambda _: 1e300,
    "both": lambda c: c.choice([1e-300, 1e300]),
    "large": lambda c: 10.0 ** c.uniform(0, 120),
    "small": lambda c: 10.0 ** -c.uniform(0, 120),
    "zeros": lambda c: c.choice([0.0, 1.0]),
    "none": lambda _: 0.0,
}
SHAPES = (
    "nothing", "no rows", "one item", "one expert", "two items", "copies", "apart", "unanimous", "opposed", "circle",
    "giant", "crowd", "ragged", "ragged", "ragged", "several", "several",
)  # fmt: skip


def _orders(shape: str, chance: random.Random, largest: int) -> list[list[int]]:
    """Return who ranks what in which order: a list of items for each expert."""
    n = chance.randint(3, 7)
    whole = list(range(n))
    match shape:
        case "one item":
            return [[0]] * chance.randint(1, 4)
        case "one expert":
            return [whole]
        case "two items":
            return [chance.sample([0, 1], 2) for _ in range(chance.randint(1, 5))]
        case "copies":
            return [whole] * chance.randint(2, 12)
        case "apart":
            return [chance.sample(whole, n) for _ in range(2)] + [[n + i for i in chance.sample(whole, n)]] * 2
        case "unanimous":
            return [whole[: chance.randint(2, n)] for _ in range(4)]
        case "opposed":
            return [whole, whole[::-1]] * chance.randint(1, 3)
        case "circle":
            return [whole[k:] + whole[:k] for k in range(n)]
        case "giant":
            return [list(range(largest))]
        case "long":
            # Lists that say the opposite of each other: up to 30,000 rows, which fit in a file of 1 MB.
            several, rows = chance.choice([2, 2, 3, 4, 10]), largest * chance.choice([1, 4, 20])
            long = list(range(rows // several))
            return [long if e % 2 else long[::-1] for e in range(several)]
        case "crowd":
            return [chance.sample([0, 1, 2], 2) for _ in range(1000)]
        case _:
            return [chance.sample(whole, chance.randint(1, n)) for _ in range(chance.randint(2, 6))]


def votes(number: int, kinds: Sequence[str], largest: int = 1500) -> tuple[str, Votes]:
    """Return what was drawn, and the votes of a number; a giant list has the largest number of items."""
    chance = random.Random(f"{SEED}/votes/{number}")
    shape, kind = chance.choice(SHAPES), chance.choice(list(kinds))
    # Beside the shapes that are drawn, so that what a number draws stays as it was when it found something.
    shape = "long" if number % 17 == 5 else shape
    hostile = chance.random() < 0.2
    names = list(HOSTILE_IDS)
    chance.shuffle(names)
    instances = ["q", "p", "r"] if shape == "several" else ["q"]
    # Most labels say something, some are all alike, and some are missing.
    label_of: Callable[[], float] = chance.choice(
        [
            *[lambda: float(chance.randint(0, 2))] * 5,
            lambda: 1.0,
            lambda: chance.choice([0.0, 1.0, math.nan]),
            lambda: math.nan,
        ]
    )
    if shape in ("nothing", "no rows"):
        items = [("q", f"i{k}") for k in range(3)] if shape == "no rows" else []
        labels = tuple(label_of() for _ in items)
        return f"{shape}, {kind}", Votes(kind, (), tuple(items), ("x", "y"), None, labels)
    values = RANKS if kind == "rank" else SCORES
    how = chance.choice(list(values))
    weights = chance.choice(["equal", "equal", "equal", *WEIGHTS])
    rows: list[tuple[Any, ...]] = []
    known: dict[tuple[str, str], None] = {}
    most = 0
    for instance in instances:
        orders = _orders("ragged" if shape == "several" else shape, chance, largest)
        most = max(most, len(orders))

        def name(k: int) -> str:
            return names[k] if hostile and k < len(names) else f"i{k}"

        for e, order in enumerate(orders):
            known.update(((instance, name(k)), None) for k in order)
            if kind != "comparisons":
                rows += [(instance, f"e{e}", name(k), values[how](chance, n)) for n, k in enumerate(order)]
                continue
            for a, b in list(pairwise(order))[:200]:
                counts = _outcome(how, chance)
                rows.append((instance, f"e{e}", name(a), name(b), *counts))
        if shape == "several" and instance == "r":
            known[instance, "alone"] = None
    experts = tuple(f"e{e}" for e in range(most))
    weight = None if weights == "equal" or kind == "comparisons" else tuple(WEIGHTS[weights](chance) for _ in experts)
    labels = tuple(label_of() for _ in known)
    done = f"{shape}, {kind}, {how}, weights {weights}{', hostile ids' if hostile else ''}"
    return done, Votes(kind, tuple(rows), tuple(known), experts, weight, labels)


def _outcome(how: str, chance: random.Random) -> tuple[float, float, float]:
    """Return counts of a pair: wins of left, wins of right, ties."""
    match how:
        case "constant":
            return 0.0, 0.0, 1.0
        case "tiny" | "smallest":
            return 1e-300, chance.choice([0.0, 1e-300]), 0.0
        case "huge" | "steep":
            return 1e300, chance.choice([0.0, 1e300]), 0.0
        case "mixed":
            return chance.choice([0.0, 1e-300, 1e300]), chance.choice([1.0, 1e300]), chance.choice([0.0, 1e300])
        case _:
            return float(chance.randint(0, 3)), float(chance.randint(0, 3)), float(chance.randint(0, 1))


# The judge.


def answer(method: cc.Aggregator, given: Votes) -> cc.Consensus | BaseException:
    """Return the consensus of a method, or what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = given.truth() if method.tags.supervised else None
            return method.fit_predict(given.container(), labels)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the point of the judge
        return error


def faults(found: cc.Consensus, given: Votes) -> list[str]:
    """Return what is wrong with a consensus: items left out, scores not finite, ranks that do not go with them."""
    where = [found.slots.where(s) for s in range(found.n_slots)]
    out = [] if sorted(where) == sorted(given.items) else ["other items than were given"]
    score, rank = found.score.tolist(), found.rank.tolist()
    if not all(map(math.isfinite, score)):
        return [*out, f"scores that are not finite: {score[:8]}"]
    for instance in dict.fromkeys(q for q, _ in where):
        own = sorted((rank[s], -score[s]) for s, (q, _) in enumerate(where) if q == instance)
        ranks = [r for r, _ in own]
        if ranks != [ranks.index(r) + 1 for r in ranks]:
            out.append(f"ranks that do not count: {ranks[:8]}")
        size = NEAR * max(abs(s) for _, s in own)
        for (r, s), (r2, s2) in pairwise(own):
            if s2 < s - size or (r == r2 and abs(s2 - s) > size):
                out.append(f"ranks {r} and {r2} for the scores {-s} and {-s2}")
                break
    return out


def ranks_of(found: cc.Consensus, name: Callable[[str], str] = str) -> dict[tuple[str, str], int]:
    """Return the rank of every item."""
    at = (found.slots.where(s) for s in range(found.n_slots))
    return {(q, name(i)): r for (q, i), r in zip(at, found.rank.tolist(), strict=True)}


CHANGES: dict[str, Callable[[Votes, random.Random], Votes]] = {
    "rows in another order": Votes.shuffled,
    "experts in another order": Votes.experts_turned,
    "items renamed": Votes.renamed,
    "weights in another unit": Votes.in_another_unit,
}


# What may move ranks all the same, and why.
EXEMPT = {("list-mle", "rows in another order"): "items of equal label stay in the order of the input, as documented"}
IN_TURN = {"rows in another order", "experts in another order"}


def judge_fit(make: Callable[[], cc.Aggregator], given: Votes, number: int) -> dict[str, Any]:
    """Return the record of one fit."""
    method = make()
    taken = stopwatch()
    found = answer(method, given)
    seconds = taken()
    beat()
    findings: list[tuple[str, str]] = []
    if isinstance(found, BaseException):
        said = f"{type(found).__name__}: {str(found)[:300]}"
        if not isinstance(found, ConcordantError):
            findings.append(("foreign", said))
        elif len(str(found)) > LONGEST_MESSAGE:
            findings.append(("foreign", f"a message of {len(str(found))} characters: {said}"))
        outcome = type(found).__name__
    else:
        findings += [("wrong", said) for said in faults(found, given)]
        outcome = "read"
    name, change = list(CHANGES.items())[number % len(CHANGES)]
    exempt = (method.name, name) in EXEMPT or (method.tags.row_order and name in IN_TURN)
    exempt |= name == "weights in another unit" and not method._relative_weights
    if not method.tags.stochastic and not findings and not exempt:
        changed = change(given, random.Random(f"{SEED}/{number}"))
        taken = stopwatch()
        other = answer(make(), changed)
        seconds = max(seconds, taken())
        if isinstance(found, BaseException) or isinstance(other, BaseException):
            if type(found) is not type(other):
                kinds = [type(x).__name__ for x in (found, other)]
                findings.append(("wrong", f"{name}: {kinds[0]} becomes {kinds[1]}: {str(other)[:200]}"))
        else:
            before, after = ranks_of(found, mirror if name == "items renamed" else str), ranks_of(other)
            if before != after:
                moved = [(at, r, after.get(at)) for at, r in before.items() if r != after.get(at)]
                findings.append(("wrong", f"{name}: other ranks: {str(moved[:4])[:300]}"))
    return {"outcome": outcome, "findings": findings, "seconds": seconds}


def names() -> list[str]:
    """Return the names of all fits: every method at its defaults, and some otherwise."""
    return [*cc.METHODS, *OTHER]


def judge(_: Path, methods: list[str] | None = None) -> InTurn:
    """Return the judge of some methods, all by default, taken in turn, each of them warmed up."""
    # What would take longer than a hang may take is refused by name, where the estimate of the method is right.
    os.environ[MAX_SECONDS] = "4"
    chosen = {name: partial(cc.METHODS[name.partition(",")[0]], **OTHER.get(name, {})) for name in methods or names()}
    for make in chosen.values():
        for kind in sorted(make().tags.accepts):
            number = next(n for n in range(1000) if votes(n, [kind])[0].startswith("ragged") and n % len(CHANGES) == 0)
            judge_fit(make, votes(number, [kind])[1], number)

    def one(name: str, turn: int) -> dict[str, Any]:
        done, given = votes(turn, sorted(chosen[name]().tags.accepts), 300 if name in OTHER else 1500)
        record = judge_fit(chosen[name], given, turn)
        findings = [(sort, f"{done}: {said}") for sort, said in record["findings"]]
        return record | {"findings": findings, "counts": {f"votes: {done.partition(',')[0]}": 1}}

    return InTurn(chosen, one)

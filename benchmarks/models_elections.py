"""Voting rules beside their definitions in exact fractions: random profiles, and all ballots of the real data."""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from math import factorial, lcm, prod
from pathlib import Path
from typing import Any

import polars as pl
from measure import ROOT
from render import table
from studies import DATA

import concordant as cc
from concordant.errors import ConcordantWarning

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.aggregators.ballots import ballots_of, groups_of, preflib_files, random_profiles
from tests.oracles import elections as oracle

PROFILES, SEED = 1000, 7
# Exact counts take too long beyond: orders of the ballots for rules that follow single orders (STV), items that
# majorities do not separate for Kemeny, and steps of a count in rounds or pairs, about ballots × items² (Meek's, with
# its inner rounds, fewer).
MOST_ORDERS, MOST_IN_CIRCLE, MOST_STEPS, MOST_MEEK_STEPS = 300_000, 14, 10_000_000, 1_000_000
# A rating that no ballot of the evidence goes below, and how many groups of tied items are approved.
TOP, APPROVED = 1000, 2

Rule = Callable[[oracle.Ballots, list[str]], oracle.Groups]


def _blocks(votes: oracle.Pairs, items: list[str]) -> list[list[str]]:
    """Return the items in blocks, best first, so that each item of a block beats all items of later ones.

    Every ranking that contradicts the fewest votes keeps to this order (the extended Condorcet criterion).
    """
    after = oracle.reached(items, [(a, b) for (a, b), v in votes.items() if v >= votes[b, a]])
    return oracle.ranked(items, lambda item: len(after[item] | {item}))


def _kemeny(ballots: oracle.Ballots, items: list[str]) -> oracle.Groups:
    """Return the items by their mean places in all rankings that contradict the fewest votes."""
    votes, place, first = oracle.pair_votes(ballots, items), {}, 0
    for block in _blocks(votes, items):
        place |= {item: first + mean for item, mean in _mean_places(votes, block).items()}
        first += len(block)
    return oracle.ranked(items, lambda item: -place[item])


def _mean_places(votes: oracle.Pairs, block: list[str]) -> dict[str, Fraction]:
    """Return the mean place of each item in the best orders of a block, by dynamic programming over sets of items."""
    n, scale = len(block), lcm(*(v.denominator for v in votes.values()))
    cost = [[0 if i == j else int(votes[j, i] * scale) for j in block] for i in block]
    # What it costs to put i after the items of a set: the votes of the others for being above it.
    puts = [[sum(row)] + [0] * (2**n - 1) for row in cost]
    for i, chosen in product(range(n), range(1, 2**n)):
        lowest = chosen & -chosen
        puts[i][chosen] = puts[i][chosen - lowest] - cost[i][lowest.bit_length() - 1]
    # The least cost of ordering a set first, or all but it last, and the number of ways.
    head, tail = [(0, 1)] * 2**n, [(0, 1)] * 2**n
    for chosen in range(1, 2**n):
        ends = [(i, chosen - (1 << i)) for i in range(n) if chosen >> i & 1]
        head[chosen] = _least((head[s][0] + puts[i][s], head[s][1]) for i, s in ends)
    for chosen in range(2**n - 2, -1, -1):
        nexts = [(i, chosen + (1 << i)) for i in range(n) if not chosen >> i & 1]
        tail[chosen] = _least((tail[s][0] + puts[i][chosen], tail[s][1]) for i, s in nexts)
    best, ways = tail[0]
    total = [0] * n
    for i, chosen in product(range(n), range(2**n)):
        larger = chosen + (1 << i)
        if not chosen >> i & 1 and head[chosen][0] + puts[i][chosen] + tail[larger][0] == best:
            total[i] += chosen.bit_count() * head[chosen][1] * tail[larger][1]
    return {item: Fraction(places, ways) for item, places in zip(block, total, strict=True)}


def _least(found: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the least cost and the number of ways to reach it."""
    every = list(found)
    least = min(cost for cost, _ in every)
    return least, sum(ways for cost, ways in every if cost == least)


def _copeland(ballots: oracle.Ballots, items: list[str]) -> oracle.Groups:
    votes = oracle.pair_votes(ballots, items)
    return oracle.by_precedence(items, lambda a, b: votes[a, b] > votes[b, a])


def _borda(ballots: oracle.Ballots, items: list[str]) -> oracle.Groups:
    return oracle.ranked(items, oracle.centred_borda(ballots, items, below=True).__getitem__)


# The method, its definition, and what limits the definition: "" for nothing, steps, orders, or circles of majorities.
RULES: list[tuple[cc.Aggregator, Rule, str]] = [
    (cc.Plurality(), oracle.plurality, ""),
    (cc.Approval(k=2), lambda b, i: oracle.approval(b, i, 2), ""),
    (
        cc.Approval(threshold=TOP - APPROVED + 1),
        lambda b, i: oracle.approval_of_ratings(b, i, APPROVED),
        "",
    ),
    (cc.Bucklin(), oracle.bucklin, "steps"),
    (cc.IRV(), oracle.irv, "steps"),
    (cc.IRV(ties="keep"), lambda b, i: oracle.irv(b, i, "keep"), "steps"),
    (cc.Coombs(), oracle.coombs, "steps"),
    (cc.Coombs(majority=False), lambda b, i: oracle.coombs(b, i, majority=False), "steps"),
    (cc.STV(seats=2), lambda b, i: oracle.stv(b, i, 2), "orders"),
    (cc.STV(seats=3, quota="hare"), lambda b, i: oracle.stv(b, i, 3, quota="hare"), "orders"),
    (cc.STV(seats=2, transfer="meek"), lambda b, i: oracle.meek(b, i, 2), "meek"),
    (cc.Borda(), _borda, "steps"),
    (cc.Copeland(missing="unknown"), _copeland, "steps"),
    (cc.Kemeny(ties="mean", missing="unknown"), _kemeny, "circles"),
    (cc.Baldwin(missing="unknown"), oracle.baldwin, "steps"),
    (cc.Baldwin(missing="below"), lambda b, i: oracle.baldwin(b, i, below=True), "steps"),
    (cc.Nanson(missing="unknown"), oracle.nanson, "steps"),
    (cc.Nanson(missing="below"), lambda b, i: oracle.nanson(b, i, below=True), "steps"),
    (cc.Minimax(missing="unknown"), oracle.minimax, "steps"),
    (
        cc.Minimax(opposition="winning-votes", missing="below"),
        lambda b, i: oracle.minimax(b, i, "winning-votes", below=True),
        "steps",
    ),
    (cc.Minimax(opposition="pairwise", missing="unknown"), lambda b, i: oracle.minimax(b, i, "pairwise"), "steps"),
    (cc.Schulze(missing="unknown"), oracle.schulze, "steps"),
    (
        cc.Schulze(strength="margins", missing="below"),
        lambda b, i: oracle.schulze(b, i, "margins", below=True),
        "steps",
    ),
    (cc.RankedPairs(missing="unknown"), oracle.ranked_pairs, "steps"),
    (
        cc.RankedPairs(strength="winning-votes", missing="below"),
        lambda b, i: oracle.ranked_pairs(b, i, "winning-votes", below=True),
        "steps",
    ),
]


def _within(limit: str, ballots: oracle.Ballots, items: list[str]) -> bool:
    """Return whether the definition of a rule is quick enough on these ballots."""
    if limit == "circles":
        return max(map(len, _blocks(oracle.pair_votes(ballots, items), items))) <= MOST_IN_CIRCLE
    steps = len(items) ** 2 * len(ballots)
    orders = sum(prod(factorial(len(g)) for g in groups) for _, groups in ballots)
    return {
        "": True,
        "steps": steps <= MOST_STEPS,
        "orders": orders <= MOST_ORDERS and steps <= MOST_STEPS,
        "meek": len(items) ** 2 * orders <= MOST_MEEK_STEPS,
    }[limit]


def _rated(votes: cc.Preferences) -> cc.Preferences:
    """Return rankings as ratings: the first group of each list has the rating `TOP`, the next one less."""
    rows = (
        votes.to_frame().drop_nulls("rank").with_columns(place=pl.col("rank").rank("dense").over("instance", "expert"))
    )
    weight = rows["weight"] if "weight" in rows.columns else None
    names = [rows[name] for name in ("instance", "expert", "item")]
    slots = list(zip((votes.instances[n] for n in votes.slots.instance), votes.items, strict=True))
    return cc.Preferences(*names, TOP + 1 - rows["place"], kind="rating", weight=weight, items=slots)


def _equal(consensus: cc.Consensus, expected: dict[str, oracle.Groups]) -> int:
    """Return in how many instances the order is the expected one, ties included."""
    return sum(got == [set(group) for group in expected[q]] for q, got in groups_of(consensus))


def _real() -> list[cc.Preferences]:
    """Return the ballots of PrefLib and of R packages: PrefLib files, orders (nascar), and ranks in columns."""
    folder = DATA / "r-ranking"
    out = [cc.read_preflib(path) for path in preflib_files(DATA)]
    # Some of these files count voters that they do not list.
    kinds = ("soc", "soi", "toc", "toi")
    out += [cc.read_preflib(p, check_counts=False) for kind in kinds for p in sorted(folder.rglob(f"*.{kind}"))]
    for name in ("potato_visual", "potato_weighing", "sushi_rankings"):
        head, rows = _table(folder / "BayesMallows" / "data" / f"{name}.csv")
        cells = [(f"e{e}", item, float(v)) for e, row in enumerate(rows) for item, v in zip(head, row, strict=True)]
        out.append(cc.Preferences([name] * len(cells), *zip(*cells, strict=True), kind="rank"))
    _, rows = _table(folder / "PlackettLuce" / "data" / "nascar.csv")
    races = {f"race{e}": [driver for driver in row if driver not in ("", "0", "0.0")] for e, row in enumerate(rows)}
    return [*out, cc.from_lists(races, instance="nascar")]


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a file without its first column, which numbers or names the rows."""
    with path.open(newline="", encoding="utf-8") as lines:
        head, *rows = csv.reader(lines)
    return head[1:], [row[1:] for row in rows]


def elections() -> dict[str, Any]:
    """Voting rules beside their definitions in exact fractions."""
    preferences, known = random_profiles(PROFILES, SEED)
    real = _real() if (DATA / "preflib").is_dir() else []
    counted = [(votes, *ballots_of(votes)) for votes in real]
    rated = {id(votes): _rated(votes) for votes in [preferences, *real]}
    rules = {}
    for method, rule, limit in RULES:
        given = rated.__getitem__ if getattr(method, "threshold", None) else None
        files = agreed = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            found = method.fit_predict(given(id(preferences)) if given else preferences)
            right = _equal(found, {q: rule(*profile) for q, profile in known.items()})
            for votes, ballots, items in counted:
                if _within(limit, ballots, items):
                    files += 1
                    found = method.fit_predict(given(id(votes)) if given else votes)
                    agreed += _equal(found, {votes.instances[0]: rule(ballots, items)})
        rules[f"{method!r}"] = {"random": right, "files": files, "agreed": agreed}
        print(f"{method!r}: {rules[f'{method!r}']}", flush=True)
    failed = any(r["random"] < PROFILES or r["agreed"] < r["files"] for r in rules.values())
    left_out = (
        f"The threshold of `approval` is on ratings made of the ranks. Files are left out where the exact count takes "
        f"too long: for rules that count rounds or pairs beyond {MOST_STEPS:,} ballots × items² (5,000 ballots on 100 "
        f"kinds of sushi), for STV also beyond {MOST_ORDERS:,} ways to order the ties of all ballots, for Meek's "
        f"transfers beyond {MOST_MEEK_STEPS:,} such ways × items², and for Kemeny with more than {MOST_IN_CIRCLE} "
        "items that majorities do not separate."
    )
    return {"failed": failed, "profiles": PROFILES, "ballot_files": len(real), "left_out": left_out, "rules": rules}


def _elections(r: dict[str, Any]) -> str:
    # Results of earlier runs do not say which files they leave out.
    left_out = f". {r['left_out']}" if "left_out" in r else " on which the exact count is not too slow."
    note = (
        f"How often the whole order, ties included, is that of a count in exact fractions written from the definition: "
        f"on {r['profiles']:,} random profiles of 2 to 5 items with ties, weights and truncated ballots, and on the "
        f"ballots of PrefLib and of R packages ({r['ballot_files']} files)"
    )
    rows = [
        [f"`{name}`", f"{v['random']:,} of {r['profiles']:,}", f"{v['agreed']:,} of {v['files']:,}"]
        for name, v in r["rules"].items()
    ]
    return note + left_out + "\n\n" + table(["rule", "random profiles", "real ballots"], rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"elections": elections}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"elections": _elections}

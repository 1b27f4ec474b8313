"""Voting rules beside their definitions in exact fractions: random profiles, and all ballots of the real data."""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable
from itertools import permutations
from math import factorial, prod
from pathlib import Path
from typing import Any

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
# Exact fractions of rules that replace ties by all their orders, or count round by round, take too long beyond.
MOST_ORDERS, MOST_ITEMS, MOST_IN_ROUNDS, MOST_PERMUTED = 6000, 110, 40, 7
MOST_COUNTED, MOST_BALLOTS = 25, 1000

Rule = Callable[[oracle.Ballots, list[str]], oracle.Groups]


def _kemeny(ballots: oracle.Ballots, items: list[str]) -> oracle.Groups:
    """Return the items by their mean places in all rankings that contradict the fewest votes."""
    votes = oracle.pair_votes(ballots, items)
    best: list[tuple[str, ...]] = []
    least = None
    for order in permutations(items):
        cost = sum(votes[order[j], order[i]] for i in range(len(order)) for j in range(i + 1, len(order)))
        if least is None or cost < least:
            best, least = [order], cost
        elif cost == least:
            best.append(order)
    return oracle.ranked(items, lambda item: -sum(order.index(item) for order in best))


def _copeland(ballots: oracle.Ballots, items: list[str]) -> oracle.Groups:
    votes = oracle.pair_votes(ballots, items)
    return oracle.by_precedence(items, lambda a, b: votes[a, b] > votes[b, a])


def _borda(ballots: oracle.Ballots, items: list[str]) -> oracle.Groups:
    return oracle.ranked(items, oracle.centred_borda(ballots, items, below=True).__getitem__)


# The method, its definition, and what limits the definition: the number of orders, rounds, pairs or permutations.
RULES: list[tuple[cc.Aggregator, Rule, str]] = [
    (cc.Plurality(), oracle.plurality, "orders"),
    (cc.Approval(k=2), lambda b, i: oracle.approval(b, i, 2), "orders"),
    (cc.Bucklin(), oracle.bucklin, "orders"),
    (cc.IRV(), oracle.irv, "rounds"),
    (cc.IRV(ties="keep"), lambda b, i: oracle.irv(b, i, "keep"), "rounds"),
    (cc.Coombs(), oracle.coombs, "rounds"),
    (cc.Coombs(majority=False), lambda b, i: oracle.coombs(b, i, majority=False), "rounds"),
    (cc.STV(seats=2), lambda b, i: oracle.stv(b, i, 2), "rounds"),
    (cc.STV(seats=3, quota="hare"), lambda b, i: oracle.stv(b, i, 3, quota="hare"), "rounds"),
    (cc.STV(seats=2, transfer="meek"), lambda b, i: oracle.meek(b, i, 2), "few"),
    (cc.Borda(), _borda, "pairs"),
    (cc.Copeland(missing="unknown"), _copeland, "pairs"),
    (cc.Kemeny(ties="mean", missing="unknown"), _kemeny, "permutations"),
    (cc.Baldwin(missing="unknown"), oracle.baldwin, "counts"),
    (cc.Baldwin(missing="below"), lambda b, i: oracle.baldwin(b, i, below=True), "counts"),
    (cc.Nanson(missing="unknown"), oracle.nanson, "counts"),
    (cc.Nanson(missing="below"), lambda b, i: oracle.nanson(b, i, below=True), "counts"),
    (cc.Minimax(missing="unknown"), oracle.minimax, "pairs"),
    (
        cc.Minimax(opposition="winning-votes", missing="below"),
        lambda b, i: oracle.minimax(b, i, "winning-votes", below=True),
        "pairs",
    ),
    (cc.Minimax(opposition="pairwise", missing="unknown"), lambda b, i: oracle.minimax(b, i, "pairwise"), "pairs"),
    (cc.Schulze(missing="unknown"), oracle.schulze, "paths"),
    (
        cc.Schulze(strength="margins", missing="below"),
        lambda b, i: oracle.schulze(b, i, "margins", below=True),
        "paths",
    ),
    (cc.RankedPairs(missing="unknown"), oracle.ranked_pairs, "paths"),
    (
        cc.RankedPairs(strength="winning-votes", missing="below"),
        lambda b, i: oracle.ranked_pairs(b, i, "winning-votes", below=True),
        "paths",
    ),
]


def _within(limit: str, ballots: oracle.Ballots, items: list[str]) -> bool:
    """Return whether the definition of a rule is quick enough on these ballots."""
    if limit == "permutations":
        return len(items) <= MOST_PERMUTED
    if limit == "pairs":
        return len(items) <= MOST_ITEMS
    orders = sum(prod(factorial(len(g)) for g in groups) for _, groups in ballots)
    return {
        "orders": orders <= MOST_ORDERS,
        "rounds": orders <= MOST_ORDERS and len(items) <= MOST_IN_ROUNDS,
        "few": orders <= MOST_ORDERS // 10 and len(items) <= MOST_IN_ROUNDS,
        "counts": len(items) <= MOST_COUNTED and len(ballots) <= MOST_BALLOTS,
        "paths": len(items) <= MOST_COUNTED,
    }[limit]


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
    rules = {}
    for method, rule, limit in RULES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            right = _equal(method.fit_predict(preferences), {q: rule(*profile) for q, profile in known.items()})
            files = agreed = 0
            for votes, ballots, items in counted:
                if _within(limit, ballots, items):
                    files += 1
                    agreed += _equal(method.fit_predict(votes), {votes.instances[0]: rule(ballots, items)})
        rules[f"{method!r}"] = {"random": right, "files": files, "agreed": agreed}
        print(f"{method!r}: {rules[f'{method!r}']}", flush=True)
    failed = any(r["random"] < PROFILES or r["agreed"] < r["files"] for r in rules.values())
    return {"failed": failed, "profiles": PROFILES, "ballot_files": len(real), "rules": rules}


def _elections(r: dict[str, Any]) -> str:
    note = (
        f"How often the whole order, ties included, is that of a count in exact fractions written from the definition: "
        f"on {r['profiles']:,} random profiles of 2 to 5 items with ties, weights and truncated ballots, and on the "
        f"ballots of PrefLib and of R packages ({r['ballot_files']} files) on which the exact count is not too slow."
    )
    rows = [
        [f"`{name}`", f"{v['random']:,} of {r['profiles']:,}", f"{v['agreed']:,} of {v['files']:,}"]
        for name, v in r["rules"].items()
    ]
    return note + "\n\n" + table(["rule", "random profiles", "real ballots"], rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"elections": elections}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"elections": _elections}

"""Voting rules in exact fractions, ballot by ballot, written from their definitions.

A ballot is a weight and a list of groups of tied items, best first. Where a rule follows single orders, a ballot with
ties is replaced by all the ways to order them. An answer is a list of groups, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, permutations, product
from math import floor

Groups = list[list[str]]
Ballots = list[tuple[Fraction, Groups]]
Orders = list[tuple[Fraction, tuple[str, ...]]]
Tally = dict[str, Fraction]


def orders(ballots: Ballots) -> Orders:
    """Return every way to order the ties of the ballots, in equal parts."""
    out: Orders = []
    for weight, groups in ballots:
        ways = [tuple(chain(*way)) for way in product(*(permutations(group) for group in groups))]
        out += [(weight / len(ways), way) for way in ways]
    return out


def ranked(items: Iterable[str], key: Callable[[str], object]) -> Groups:
    """Return the items in groups of equal keys, largest first."""
    levels: dict[object, list[str]] = {}
    for item in items:
        levels.setdefault(key(item), []).append(item)
    return [levels[level] for level in sorted(levels, reverse=True)]  # type: ignore[type-var]


def borda(ballots: Ballots, items: Sequence[str]) -> Tally:
    """Return M points for the first place, one less for each below, the mean of the rest for each item left out."""
    out = dict.fromkeys(items, Fraction(0))
    for weight, way in orders(ballots):
        for place, item in enumerate(way):
            out[item] += weight * (len(items) - place)
        for item in set(items) - set(way):
            out[item] += weight * Fraction(len(items) - len(way) + 1, 2)
    return out


def in_first(ballots: Ballots, items: Sequence[str], k: int) -> Tally:
    """Return the weight of the orders with the item among their first k."""
    out = dict.fromkeys(items, Fraction(0))
    for weight, way in orders(ballots):
        for item in way[:k]:
            out[item] += weight
    return out


def plurality(ballots: Ballots, items: Sequence[str]) -> Groups:
    """Return the items by first places."""
    return approval(ballots, items, 1)


def approval(ballots: Ballots, items: Sequence[str], k: int) -> Groups:
    """Return the items by how many ballots have them in the first k places."""
    return ranked(items, in_first(ballots, items, k).__getitem__)


def bucklin(ballots: Ballots, items: Sequence[str]) -> Groups:
    """Return the items by the first depth at which a majority holds them, then by the votes there."""
    total = sum(weight for weight, _ in ballots)
    tables = [in_first(ballots, items, k) for k in range(1, len(items) + 1)]

    def key(item: str) -> tuple[int, bool, Fraction]:
        for k, votes in enumerate(tables):
            if 2 * votes[item] > total:
                return -k, True, votes[item]
        return -len(items) + 1, False, tables[-1][item]

    return ranked(items, key)


def first_places(ballots: Orders, left: Iterable[str]) -> Tally:
    """Return the votes of the items that are left."""
    out = dict.fromkeys(left, Fraction(0))
    for weight, way in ballots:
        for item in way:
            if item in out:
                out[item] += weight
                break
    return out


def worst(left: Iterable[str], rounds: Sequence[Tally], last: Tally | None) -> list[str]:
    """Return the items with the fewest votes, then fewest in earlier rounds (latest first), then in `last`."""
    out = list(left)
    for votes in [rounds[-1]] if last is None else [*reversed(rounds), last]:
        fewest = min(votes[i] for i in out)
        out = [i for i in out if votes[i] == fewest]
    return out


def irv(ballots: Ballots, items: Sequence[str], ties: str = "break") -> Groups:
    """Return the items by instant runoff, eliminated ones last."""
    every, left, rounds, out = orders(ballots), list(items), [], Groups()
    last = borda(ballots, items) if ties == "break" else None
    while left:
        rounds.append(first_places(every, left))
        gone = worst(left, rounds, last)
        out.insert(0, gone)
        left = [i for i in left if i not in gone]
    return out


def last_places(ballots: Ballots, left: Sequence[str], below: bool) -> Tally:
    """Return minus the votes against the items that are left."""
    out = dict.fromkeys(left, Fraction(0))
    for weight, groups in ballots:
        own = [[i for i in group if i in left] for group in groups]
        own += [[i for i in left if i not in chain(*groups)]] if below else []
        own = [group for group in own if group]
        if len(own) > 1:
            for i in own[-1]:
                out[i] -= weight / len(own[-1])
    return out


def coombs(
    ballots: Ballots, items: Sequence[str], *, majority: bool = True, ties: str = "break", below: bool = False
) -> Groups:
    """Return the items by Coombs' rule."""
    every, left, rounds = orders(ballots), list(items), []
    top: Groups = []
    bottom: Groups = []
    last = borda(ballots, items) if ties == "break" else None
    while left:
        votes = first_places(every, left)
        chosen = [i for i in left if majority and 2 * votes[i] > sum(votes.values())]
        if chosen:
            top.append(chosen)
        else:
            rounds.append(last_places(ballots, left, below))
            chosen = worst(left, rounds, last)
            bottom.insert(0, chosen)
        left = [i for i in left if i not in chosen]
    return top + bottom


def by_votes(items: Iterable[str], rounds: Sequence[Tally], last: Tally | None) -> Groups:
    """Return the items by their votes, ties broken as in `worst`."""
    left, out = list(items), Groups()
    while left:
        gone = worst(left, rounds, last)
        out.insert(0, gone)
        left = [i for i in left if i not in gone]
    return out


def stv(ballots: Ballots, items: Sequence[str], seats: int, *, quota: str = "droop", ties: str = "break") -> Groups:
    """Return the elected items in order, then the others, the last eliminated first: weighted inclusive Gregory."""
    total = sum((weight for weight, _ in ballots), Fraction(0))
    whole = quota == "droop" and total.denominator == 1
    need = total / (seats if quota == "hare" else seats + 1)
    need = Fraction(floor(need) + 1) if whole else need
    left, pending, elected, out = list(items), [], Groups(), Groups()
    last = borda(ballots, items) if ties == "break" else None
    rounds: list[Tally] = []
    # The value, the order and the holder of every ballot.
    held = [(weight, way, next(iter(way), None)) for weight, way in orders(ballots)]
    while left and (free := seats - sum(map(len, elected))) > 0:
        votes = {i: sum((v for v, _, h in held if h == i), Fraction(0)) for i in items}
        rounds.append(votes)
        reached = [i for i in left if votes[i] > need or (votes[i] == need and (whole or quota == "hare"))]
        chosen = reached or (left if len(left) <= free else [])
        if chosen:
            elected += by_votes(chosen, rounds, last)
            pending += chosen
            left = [i for i in left if i not in chosen]
            continue
        pending = [i for i in pending if votes[i] > need]
        if pending:
            gone = by_votes(pending, rounds, last)[0]
            pending = [i for i in pending if i not in gone]
            kept = {i: need / votes[i] for i in gone}
        else:
            gone = worst(left, rounds, last)
            if len(left) - len(gone) < free:
                elected += by_votes([i for i in left if i not in gone], rounds, last)
                left = gone
                break
            out.insert(0, gone)
            left = [i for i in left if i not in gone]
            kept = dict.fromkeys(gone, Fraction(0))
        moved = []
        for value, way, holder in held:
            if holder in kept:
                moved.append((value * (1 - kept[holder]), way, next((i for i in way if i in left), None)))
                value *= kept[holder]
            moved.append((value, way, holder))
        held = [row for row in moved if row[0]]
    return elected + by_votes(left, rounds, last) + out


def meek(ballots: Ballots, items: Sequence[str], seats: int, *, quota: str = "droop") -> Groups:
    """Return the elected items in order, then the others, by Meek's method in floating point."""
    every = [(float(weight), way) for weight, way in orders(ballots)]
    total = sum(weight for weight, _ in every)
    last = borda(ballots, items)
    left, elected, out, factor = list(items), Groups(), Groups(), dict.fromkeys(items, 1.0)
    rounds: list[Tally] = []
    while left and (free := seats - sum(map(len, elected))) > 0:
        while True:
            votes = dict.fromkeys(items, 0.0)
            for weight, way in every:
                for i in way:
                    votes[i] += weight * factor[i]
                    weight *= 1 - factor[i]
            need = sum(votes.values()) / (seats if quota == "hare" else seats + 1)
            close = 1e-9 * total
            reached = [i for i in left if votes[i] > need + (-close if quota == "hare" else close)]
            chosen = [i for i in items if factor[i] > 0 and i not in left]
            if reached or sum(abs(votes[i] - need) for i in chosen) <= 1e-12 * total:
                break
            for i in chosen:
                factor[i] *= min(1.0, need / votes[i])
        rounds.append({i: Fraction(round(v / total * 1e8)) for i, v in votes.items()})
        if reached or len(left) <= free:
            elected += by_votes(reached or left, rounds, last)
            left = [i for i in left if i not in (reached or left)]
            continue
        gone = worst(left, rounds, last)
        if len(left) - len(gone) < free:
            elected += by_votes([i for i in left if i not in gone], rounds, last)
            left = gone
            break
        out.insert(0, gone)
        left = [i for i in left if i not in gone]
        factor.update(dict.fromkeys(gone, 0.0))
    return elected + by_votes(left, rounds, last) + out

"""Voting rules in exact fractions, ballot by ballot, written from their definitions.

A ballot is a weight and a list of groups of tied items, best first. Where a rule follows single orders, a ballot with
ties is replaced by all the ways to order them. An answer is a list of groups, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, combinations, permutations, product
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
    for weight, groups in ballots:
        above = 0
        for group in [*groups, set(items).difference(*groups)]:
            for item in group:
                out[item] += weight * (len(items) - above - Fraction(len(group) - 1, 2))
            above += len(group)
    return out


def in_first(ballots: Ballots, items: Sequence[str], k: int) -> Tally:
    """Return the weight of the orders with the item among their first k: of each tied group, the part that fits."""
    out = dict.fromkeys(items, Fraction(0))
    for weight, groups in ballots:
        free = k
        for group in groups:
            for item in group:
                out[item] += weight * Fraction(min(free, len(group)), len(group))
            free -= len(group)
            if free <= 0:
                break
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


def approval_of_ratings(ballots: Ballots, items: Sequence[str], groups: int) -> Groups:
    """Return the items by how many ballots have them in their first groups, those with the best ratings."""
    out = dict.fromkeys(items, Fraction(0))
    for weight, ballot in ballots:
        for item in chain(*ballot[:groups]):
            out[item] += weight
    return ranked(items, out.__getitem__)


def first_places(ballots: Ballots, left: Iterable[str]) -> Tally:
    """Return the votes of the items that are left; over all orders, tied items come first equally often."""
    out = dict.fromkeys(left, Fraction(0))
    for weight, groups in ballots:
        for group in groups:
            first = [item for item in group if item in out]
            for item in first:
                out[item] += weight / len(first)
            if first:
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
    left, rounds, out = list(items), [], Groups()
    last = borda(ballots, items) if ties == "break" else None
    while left:
        rounds.append(first_places(ballots, left))
        gone = worst(left, rounds, last)
        out.insert(0, gone)
        left = [i for i in left if i not in gone]
    return out


def last_places(ballots: Ballots, left: Sequence[str], below: bool) -> Tally:
    """Return minus the votes against the items that are left."""
    out = dict.fromkeys(left, Fraction(0))
    for weight, groups in ballots:
        own = listed(groups, left, below)
        if len(own) > 1:
            for i in own[-1]:
                out[i] -= weight / len(own[-1])
    return out


def coombs(
    ballots: Ballots, items: Sequence[str], *, majority: bool = True, ties: str = "break", below: bool = False
) -> Groups:
    """Return the items by Coombs' rule."""
    left, rounds = list(items), []
    top: Groups = []
    bottom: Groups = []
    last = borda(ballots, items) if ties == "break" else None
    while left:
        votes = first_places(ballots, left)
        total = sum(votes.values())
        chosen = [i for i in left if majority and 2 * votes[i] > total]
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
        votes = dict.fromkeys(items, Fraction(0))
        for value, _, holder in held:
            if holder is not None:
                votes[holder] += value
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


def listed(ballot: Groups, left: Iterable[str], below: bool) -> Groups:
    """Return the groups of a ballot that are left; with `below`, the items that it leaves out are its last group."""
    left = set(left)
    out = [[i for i in group if i in left] for group in ballot]
    out += [sorted(left.difference(*ballot))] if below else []
    return [group for group in out if group]


def centred_borda(ballots: Ballots, left: Sequence[str], below: bool) -> Tally:
    """Return the Borda points of the items that are left, less their average on each ballot; ties share the mean."""
    out = dict.fromkeys(left, Fraction(0))
    for weight, groups in ballots:
        own = listed(groups, left, below)
        m = sum(map(len, own))
        above = 0
        for group in own:
            for i in group:
                out[i] += weight * (Fraction(m + 1, 2) - (above + Fraction(len(group) + 1, 2)))
            above += len(group)
    return out


def baldwin(ballots: Ballots, items: Sequence[str], ties: str = "break", below: bool = False) -> Groups:
    """Return the items by Borda elimination of the last, round by round."""
    left, rounds, out = list(items), [], Groups()
    last = dict.fromkeys(items, Fraction(0)) if ties == "break" else None
    while left:
        rounds.append(centred_borda(ballots, left, below))
        gone = worst(left, rounds, last)
        out.insert(0, gone)
        left = [i for i in left if i not in gone]
    return out


def nanson(
    ballots: Ballots, items: Sequence[str], ties: str = "break", below: bool = False, keep_average: bool = False
) -> Groups:
    """Return the items by Borda elimination of those not above the average, round by round."""
    left, rounds, out = list(items), [], Groups()
    last = dict.fromkeys(items, Fraction(0)) if ties == "break" else None
    while left:
        count = centred_borda(ballots, left, below)
        rounds.append(count)
        gone = [i for i in left if count[i] < 0 or (count[i] == 0 and not keep_average)]
        if not any(count.values()):
            gone = left
        out[:0] = by_votes(gone, rounds, last)
        left = [i for i in left if i not in gone]
    return out


Pairs = dict[tuple[str, str], Fraction]


def pair_votes(ballots: Ballots, items: Sequence[str], below: bool = False) -> Pairs:
    """Return the weight of the ballots with the first item of a pair above the second."""
    out = {(a, b): Fraction(0) for a in items for b in items if a != b}
    for weight, groups in ballots:
        own = listed(groups, items, below)
        for n, group in enumerate(own):
            for a, b in product(group, chain(*own[n + 1 :])):
                out[a, b] += weight
    return out


def strengths(votes: Pairs, kind: str) -> Pairs:
    """Return the strength of every majority."""
    return {(a, b): v - votes[b, a] if kind == "margins" else v for (a, b), v in votes.items() if v > votes[b, a]}


def minimax(
    ballots: Ballots, items: Sequence[str], opposition: str = "margins", ties: str = "break", below: bool = False
) -> Groups:
    """Return the items by their largest opposition, then the next; those that no ballot compares last."""
    votes = pair_votes(ballots, items, below)
    most = max(votes.values(), default=Fraction(0))
    won = strengths(votes, "winning-votes")

    def key(item: str) -> list[Fraction]:
        others = [j for j in items if j != item]
        if not any(votes[item, j] + votes[j, item] for j in others):
            found = [most] * len(others)
        elif opposition == "margins":
            found = [votes[j, item] - votes[item, j] for j in others]
        elif opposition == "winning-votes":
            found = [won.get((j, item), Fraction(0)) for j in others]
        else:
            found = [votes[j, item] for j in others]
        found = sorted(-f for f in found)
        return found[:1] if ties == "keep" else found

    return ranked(items, lambda item: tuple(key(item)))


def reached(items: Sequence[str], arrows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return for every item those that a chain of arrows leads to (Warshall, with a bit for each item)."""
    number = {item: n for n, item in enumerate(items)}
    after = [0] * len(items)
    for a, b in arrows:
        after[number[a]] |= 1 << number[b]
    for k, n in product(range(len(items)), repeat=2):
        if after[n] >> k & 1:
            after[n] |= after[k]
    return {a: {b for m, b in enumerate(items) if after[n] >> m & 1} for a, n in number.items()}


def by_precedence(items: Sequence[str], precedes: Callable[[str, str], bool]) -> Groups:
    """Return the items by how many each precedes less those that precede it."""
    return ranked(
        items, lambda i: sum(precedes(i, j) for j in items if j != i) - sum(precedes(j, i) for j in items if j != i)
    )


def schulze(ballots: Ballots, items: Sequence[str], kind: str = "winning-votes", below: bool = False) -> Groups:
    """Return the items by their strongest paths: the largest strength whose majorities alone still connect two."""
    arrows = strengths(pair_votes(ballots, items, below), kind)
    path = dict.fromkeys(((a, b) for a in items for b in items), Fraction(0))
    for least in sorted(set(arrows.values())):
        after = reached(items, [pair for pair, s in arrows.items() if s >= least])
        path.update(dict.fromkeys(((a, b) for a in items for b in after[a]), least))
    return by_precedence(items, lambda a, b: path[a, b] > path[b, a])


def ranked_pairs(ballots: Ballots, items: Sequence[str], kind: str = "margins", below: bool = False) -> Groups:
    """Return the items by locked majorities; equal ones are locked together, but for those on a cycle."""
    arrows = strengths(pair_votes(ballots, items, below), kind)
    locked: list[tuple[str, str]] = []
    for strength in sorted(set(arrows.values()), reverse=True):
        after = reached(items, locked)
        equal = [(a, b) for (a, b), s in arrows.items() if s == strength and a not in after[b]]
        after = reached(items, locked + equal)
        locked += [(a, b) for a, b in equal if a not in after[b]]
    after = reached(items, locked)
    return by_precedence(items, lambda a, b: b in after[a])


def dominant_sets(votes: Pairs, items: Sequence[str], strictly: bool) -> list[set[str]]:
    """Return the smallest sets whose members beat all others (`strictly`), or that no other item beats a member of."""

    def dominant(chosen: set[str]) -> bool:
        return all(
            votes[a, b] > votes[b, a] or (not strictly and votes[a, b] == votes[b, a])
            for a in chosen
            for b in set(items) - chosen
        )

    sets = [set(s) for k in range(1, len(items) + 1) for s in combinations(items, k) if dominant(set(s))]
    return [s for s in sets if not any(other < s for other in sets)]

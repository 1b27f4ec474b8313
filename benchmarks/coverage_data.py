"""Votes and lists drawn from known scores, and what each model would estimate from endlessly many of them.

Where a model is right for the data, the truth is the scores they were drawn from. Where it is too simple (experts have
tastes of their own, lists are cut, grades are coarse, judges are bad and trusted alike), the truth is what the model
says of infinitely much data of that kind at its own settings without a prior, its pseudo-truth: computed here from the
law of the outcomes where that is an integral, or else from many draws, and apart from one case (ties in Plackett-Luce)
without the library.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import ndtri

import concordant as cc

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEED = 7
# So many sets of true scores take turns.
TRUTHS = 10
# The standard deviation of the true scores, how far a stand-out lies above the mean of the others, the parameters of
# ties, and where grades begin on the scale of scores.
SPREAD, STAND_OUT = 0.8, 2.5
DAVIDSON, RAO_KUPPER = 0.7, 1.7
GRADES = (-0.5, 0.5, 1.5, 2.5)
# How many lists, or experts with tastes, an expectation is taken over.
# From this many instances on, the multinomial preference model learns whom to believe.
ENOUGH_TO_LEARN = 20
MANY_LISTS, MANY_EXPERTS = 100_000, 1_000


def centred(s: Floats) -> Floats:
    """Return scores with mean 0 in every instance (row)."""
    return s - s.mean(axis=-1, keepdims=True)


def drawn_scores(number: int, instances: int, items: int, spread: float, focus: str) -> Floats:
    """Return the true scores of this number, one row per instance.

    A stand-out is the first item. A newcomer is the last, and over all numbers as good and as bad as any other: its
    scores are the quantiles of their law.
    """
    s = centred(np.random.default_rng([SEED, 2**20 + number]).normal(scale=spread, size=(instances, items)))
    if focus == "stand-out":
        s[:, 0] = s[:, 1:].mean(axis=1) + STAND_OUT
    if focus == "newcomer":
        s[:, -1] = s[:, :-1].mean(axis=1) + spread * ndtri((number % TRUTHS + 0.5) / TRUTHS)
    return centred(s)


# The laws of an outcome: chances that left wins, right wins, neither, from the difference of the scores.


def plain(d: Floats) -> Floats:
    """Return the chances of the Bradley-Terry model."""
    p = 1 / (1 + np.exp(-d))
    return np.stack([p, 1 - p, np.zeros_like(p)])


def davidson(d: Floats, nu: float = DAVIDSON) -> Floats:
    """Return the chances of Davidson's model: a tie is nu times the geometric mean."""
    a, b = np.exp(d / 2), np.exp(-d / 2)
    return np.stack([a, b, np.full_like(a, nu)]) / (a + b + nu)


def rao_kupper(d: Floats, theta: float = RAO_KUPPER) -> Floats:
    """Return the chances of the Rao-Kupper model: who wins must be better by a factor theta."""
    left, right = 1 / (1 + theta * np.exp(-d)), 1 / (1 + theta * np.exp(d))
    return np.stack([left, right, 1 - left - right])


LAWS: dict[str, Any] = {"plain": plain, "davidson": davidson, "rao-kupper": rao_kupper}


# What models make of endless data.


def pair_scores(wins: Floats) -> Floats:
    """Return the Bradley-Terry scores of a table of wins of row over column, by Newton's method."""
    met, s = wins + wins.T, np.zeros(len(wins))
    for _ in range(100):
        p = 1 / (1 + np.exp(s[None, :] - s[:, None]))
        weight = met * p * (1 - p)
        step = np.linalg.solve(np.diag(weight.sum(axis=1)) - weight + weight.mean(), (wins - met * p).sum(axis=1))
        s = s + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < 1e-10:
            return centred(s)
    raise SystemExit("the expected wins have no Bradley-Terry scores")


def tied_scores(chances: Floats, weight: Floats, law: str) -> Floats:
    """Return the scores of a model of ties for mean chances of pairs (i, j), i < j, whose parameter is fitted too."""
    n = len(weight)
    i, j = np.triu_indices(n, 1)

    def loss(x: Floats) -> float:
        fitted = LAWS[law](x[i] - x[j], np.exp(x[-1]))
        return -float((weight[i, j] * chances * np.log(np.maximum(fitted, 1e-300))).sum() / weight[i, j].sum())

    found = minimize(loss, np.append(np.zeros(n), 0.5), method="BFGS", options={"gtol": 1e-7})
    return centred(found.x[:n])


def net_scores(net: Floats) -> Floats:
    """Return the scores of the multinomial preference model for mean net counts per preference."""

    def gap(c: float) -> float:
        a = float(np.sqrt(1 + (c * net) ** 2).sum())
        return c - (a * a - len(net)) / (2 * a)

    return centred(np.arcsinh(brentq(gap, 1e-9, 1e3) * net))


def choice_scores(orders: Ints, items: int) -> Floats:
    """Return the Plackett-Luce scores of rankings of equal length, best first."""

    def loss(s: Floats) -> tuple[float, Floats]:
        e = np.exp(s)[orders]
        rest = np.cumsum(e[:, ::-1], axis=1)[:, ::-1]
        rest[:, -1] = np.inf
        spent = np.cumsum(1 / rest, axis=1) * e
        spent[:, :-1] -= 1
        value = np.log(rest[:, :-1]).sum() - s[orders[:, :-1]].sum()
        return value / len(orders), np.bincount(orders.ravel(), spent.ravel(), items) / len(orders)

    found = minimize(loss, np.zeros(items), jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "ftol": 0})
    return centred(found.x)


@cache
def _names(items: int, instances: int = 1) -> tuple[NDArray[np.str_], list[tuple[str, str]]]:
    names = np.array([f"i{n}" for n in range(items)])
    return names, [(f"q{q}", str(name)) for q in range(instances) for name in names]


@cache
def _expert_names(experts: int) -> NDArray[np.str_]:
    return np.array([f"e{n}" for n in range(experts)])


@dataclass(frozen=True)
class Votes:
    """Comparisons of one instance.

    Parameters
    ----------
    per_item : float
        How many comparisons an item (of the established field) takes part in.
    judges : int
        How many experts share them alike; 0 names none.
    taste : float
        The standard deviation of what a judge adds to the score of an item.
    law : {"plain", "davidson", "rao-kupper", "multinomial"}
        Of an outcome; "multinomial" draws who is compared as well.
    bad, habit : float, {"coin", "left"}
        The share of judges who look at nothing, and what they answer.
    newcomer : (votes, judges), optional
        The last item has been compared only so often, by so many of the judges.
    stand_out : bool
        Whether the first item lies far above the others.
    """

    items: int = 20
    per_item: float = 30.0
    judges: int = 0
    taste: float = 0.0
    law: str = "plain"
    bad: float = 0.0
    habit: str = "coin"
    newcomer: tuple[int, int] | None = None
    stand_out: bool = False
    spread: float = SPREAD

    @property
    def names(self) -> list[str]:
        """Items in the order of the truth."""
        return [name for _, name in _names(self.items)[1]]

    @property
    def focus(self) -> str:
        """What kind of item is looked at on its own: "newcomer", the last, "stand-out", the first, or none."""
        return "newcomer" if self.newcomer else "stand-out" if self.stand_out else ""

    @property
    def enough(self) -> bool:
        """Whether there are at least ten observations per item, from at least ten judges where they have tastes."""
        return self.per_item >= 10 and not (self.taste and self.judges < 10)

    @property
    def enough_for_newcomer(self) -> bool:
        """Whether the newcomer has as much."""
        votes, judges = self.newcomer or (0, 0)
        return votes >= 10 and not (self.taste and judges < 10)

    def scores(self, number: int) -> Floats:
        """Return true scores, mean 0, one row."""
        return drawn_scores(number, 1, self.items, self.spread, self.focus)

    def kind(self) -> Votes:
        """Return the kind of comparisons on which the truth depends."""
        return self

    def _pairs(self, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """Return left, right and judge of every comparison."""
        field = self.items - bool(self.newcomer)
        n = round(field * self.per_item / 2)
        if not self.judges:
            # Every item appears once a round.
            order = np.argsort(rng.random((-(-n // (field // 2)), field)), axis=1)
            half = field // 2
            return order[:, :half].ravel()[:n], order[:, half : 2 * half].ravel()[:n], None
        left = rng.integers(0, field, n)
        right = (left + rng.integers(1, field, n)) % field
        judge = np.arange(n) % self.judges
        if self.newcomer:
            votes, judges = self.newcomer
            them = np.resize(rng.permutation(field), votes)
            new = np.full(votes, self.items - 1)
            first = rng.random(votes) < 0.5
            left = np.append(left, np.where(first, new, them))
            right = np.append(right, np.where(first, them, new))
            judge = np.append(judge, rng.choice(self.judges, judges, replace=False)[np.arange(votes) % judges])
        return left, right, judge

    def draw(self, rng: np.random.Generator, s: Floats) -> cc.Comparisons:
        """Draw one data set."""
        n_judges = max(self.judges, 1)
        seen = s + rng.normal(scale=self.taste, size=(n_judges, self.items)) if self.taste else s
        seen = np.broadcast_to(seen, (n_judges, self.items))
        is_bad = np.arange(n_judges) < round(self.bad * n_judges)
        if self.law == "multinomial":
            left, right, judge = self._ordered(rng, np.where(is_bad[:, None], 0.0, seen))
            chances = plain(np.full(len(left), np.inf))
        else:
            left, right, judge = self._pairs(rng)
            whose = np.zeros(len(left), dtype=np.int64) if judge is None else judge
            chances = LAWS[self.law](seen[whose, left] - seen[whose, right])
            habit = np.array([1.0, 0.0, 0.0] if self.habit == "left" else [0.5, 0.5, 0.0])
            chances = np.where(is_bad[whose], habit[:, None], chances)
        u = rng.random(len(left))
        outcome = np.where(u < chances[0], 0, np.where(u < chances[0] + chances[1], 1, 2))
        names, slots = _names(self.items)
        return cc.Comparisons(
            "q0",
            None if judge is None else _expert_names(self.judges)[judge].tolist(),
            names[left].tolist(),
            names[right].tolist(),
            *(np.asarray(outcome == o, dtype=np.float64) for o in range(3)),
            items=slots,
        )

    def _ordered(self, rng: np.random.Generator, seen: Floats) -> tuple[Any, Any, Any]:
        """Draw ordered pairs of different items, each judge with probability proportional to exp(s_i - s_j)."""
        n = round(self.items * self.per_item / 2)
        amounts = np.bincount(np.arange(n) % len(seen), minlength=len(seen))
        drawn = [
            rng.choice(self.items**2, size=k, p=_ordered_law(row).ravel())
            for row, k in zip(seen, amounts.tolist(), strict=True)
        ]
        both = np.concatenate(drawn)
        judge = np.repeat(np.arange(len(seen)), amounts) if self.judges else None
        return both // self.items, both % self.items, judge

    def truth(self, number: int, model: str) -> Floats:
        """Return what a model estimates: "bt", "bt-judges" (slopes learned), "mpm" (trust not learned)."""
        s = self.scores(number)
        learns = model == "bt-judges"
        if self.taste and learns:
            return _over_panels(self, number)
        if self.law == "multinomial":
            return s if not self.taste and (learns or not self.bad) else self._multinomial_truth(s[0])
        if model in ("bt", "bt-judges") and not self.taste and (learns or not self.bad):
            return s
        chances, weight = self._mean_chances(s[0], 0.0 if learns else self.bad), self._met()
        i, j = np.triu_indices(self.items, 1)
        wins = np.zeros((self.items, self.items))
        wins[i, j], wins[j, i] = weight[i, j] * chances[0], weight[i, j] * chances[1]
        if model == "mpm":
            return net_scores((wins.sum(axis=1) - wins.sum(axis=0)) / wins.sum())[None, :]
        return (pair_scores(wins) if self.law == "plain" else tied_scores(chances, weight, self.law))[None, :]

    def _met(self) -> Floats:
        """Return how often pairs meet, on average."""
        weight = np.ones((self.items, self.items)) - np.eye(self.items)
        if self.newcomer:
            field = self.items - 1
            weight *= (field * self.per_item / 2) / (field * (field - 1) / 2)
            weight[-1, :-1] = weight[:-1, -1] = self.newcomer[0] / field
        return weight

    def _mean_chances(self, s: Floats, bad: float) -> Floats:
        """Return the chances of every pair (i, j), i < j, over all judges and sides."""
        i, j = np.triu_indices(self.items, 1)
        nodes, weight = np.polynomial.hermite_e.hermegauss(60 if self.taste else 1)
        weight = weight / weight.sum()
        # Two tastes enter a difference.
        mean = sum(
            w * LAWS[self.law](s[i] - s[j] + np.sqrt(2) * self.taste * z) for z, w in zip(nodes, weight, strict=True)
        )
        habit = np.array([0.5, 0.5, 0.0])[:, None]
        return np.asarray((1 - bad) * mean + bad * habit, dtype=np.float64)

    def _multinomial_truth(self, s: Floats) -> Floats:
        """Return the scores whose net counts are the mean net counts over tastes and bad judges."""
        rng = np.random.default_rng([SEED, 2**22])
        x = s + rng.normal(scale=self.taste, size=(MANY_LISTS if self.taste else 1, self.items))
        up, down = np.exp(x), np.exp(-x)
        a, b = up.sum(axis=1, keepdims=True), down.sum(axis=1, keepdims=True)
        net = ((up * b - down * a) / (a * b - self.items)).mean(axis=0)
        return net_scores((1 - self.bad) * net)[None, :]


def _ordered_law(s: Floats) -> Floats:
    weight = np.exp(s[:, None] - s[None, :])
    np.fill_diagonal(weight, 0.0)
    return weight / weight.sum()


def _over_panels(votes: Votes, number: int) -> Floats:
    """Return the mean, over panels of judges with tastes, of the scores when slopes are learned from endless answers.

    A model that weighs judges has no estimand but that of a panel: whom it believes, and on whose scale the scores are,
    depends on who is there.
    """
    rng = np.random.default_rng([SEED, 2**24, number])
    method = cc.BradleyTerry(reliability=True, uncertainty="none")
    names, slots = _names(votes.items)
    i, j = np.triu_indices(votes.items, 1)
    weight = votes._met()[i, j] / votes._met()[i, j].mean()
    found = []
    for _ in range(max(MANY_EXPERTS // votes.judges, 12)):
        seen = votes.scores(number) + rng.normal(scale=votes.taste, size=(votes.judges, votes.items))
        left, right, _ = LAWS[votes.law](seen[:, i] - seen[:, j]) * weight * 1e3
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            panel = cc.Comparisons(
                "q0",
                np.repeat(_expert_names(votes.judges), len(i)).tolist(),
                np.tile(names[i], votes.judges).tolist(),
                np.tile(names[j], votes.judges).tolist(),
                left.ravel(),
                right.ravel(),
                items=slots,
            )
            found.append(method.fit_predict(panel).score)
    return centred(np.mean(found, axis=0))[None, :]


@dataclass(frozen=True)
class Lists:
    """Rankings by the Plackett-Luce law, one of every expert in every instance.

    Parameters
    ----------
    length : int
        How many items a list is about, drawn at random; `items` for complete ones.
    top : int
        How many of them it names, the first ones; 0 for all.
    grades : bool
        Whether it says grades on a scale of five instead of an order.
    lean : float
        How far experts lean to one kind of items or the other. A taste of its own for every item would only add to the
        chance that is in a ranking anyway; a leaning moves all places of a list together.
    bad : float
        The share of experts whose lists are in random order.
    newcomer : int
        In how many lists the last item is; 0 for one as all the others.
    """

    items: int = 20
    lists: int = 60
    length: int = 10
    top: int = 0
    grades: bool = False
    lean: float = 0.0
    bad: float = 0.0
    newcomer: int = 0
    stand_out: bool = False
    spread: float = SPREAD
    instances: int = 1

    @property
    def names(self) -> list[str]:
        """Items in the order of the truth."""
        return [name for _, name in _names(self.items, self.instances)[1]]

    @property
    def focus(self) -> str:
        """What kind of item is looked at on its own: "newcomer", the last, "stand-out", the first, or none."""
        return "newcomer" if self.newcomer else "stand-out" if self.stand_out else ""

    @property
    def enough(self) -> bool:
        """Whether there are at least ten observations, that is lists, per item."""
        return self.lists * (self.top or self.length) / self.items >= 10

    @property
    def enough_for_newcomer(self) -> bool:
        """Whether the newcomer has as much."""
        return self.newcomer >= 10

    def scores(self, number: int) -> Floats:
        """Return true scores, mean 0, one row per instance."""
        return drawn_scores(number, self.instances, self.items, self.spread, self.focus)

    def _kinds(self) -> Floats:
        return centred(np.random.default_rng([SEED, 2**23]).normal(size=self.items))

    def _seen(self, rng: np.random.Generator, s: Floats, lists: int) -> tuple[Ints, Floats]:
        """Draw the items of lists, and how good each seems; `s` has one row, or one per list."""
        seen = np.broadcast_to(s, (lists, self.items))
        if self.lean:
            seen = seen + rng.normal(scale=self.lean, size=(lists, 1)) * self._kinds()
        draw = rng.random((lists, self.items))
        if self.newcomer:
            # The same share of any number of lists.
            draw[:, -1] = np.where(np.arange(lists) * self.lists < self.newcomer * lists, -1.0, 2.0)
        pool = draw.argsort(axis=1)[:, : self.length]
        return pool, np.take_along_axis(seen, pool, axis=1) + rng.gumbel(size=pool.shape)

    def _ranked(self, pool: Ints, seen: Floats) -> Ints:
        order = np.take_along_axis(pool, np.argsort(-seen, axis=1), axis=1)
        return order[:, : self.top] if self.top else order

    def draw(self, rng: np.random.Generator, s: Floats) -> cc.Preferences:
        """Draw one data set."""
        parts = []
        for row in s:
            own = np.where(np.arange(self.lists)[:, None] < round(self.bad * self.lists), 0.0, row)
            parts.append(self._seen(rng, own, self.lists))
        pool, seen = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        return self._preferences(pool, seen, self.lists)

    def _preferences(self, pool: Ints, seen: Floats, experts: int) -> cc.Preferences:
        if not self.grades:
            pool = self._ranked(pool, seen)
            value = np.tile(np.arange(1.0, pool.shape[1] + 1), len(pool))
        else:
            value = 1.0 + np.digitize(seen, GRADES).ravel()
        names, slots = _names(self.items, self.instances)
        who = np.tile(_expert_names(experts), len(pool) // experts)
        where = np.repeat([f"q{q}" for q in range(self.instances)], len(pool) // self.instances)
        return cc.Preferences(
            np.repeat(where, pool.shape[1]).tolist(),
            np.repeat(who, pool.shape[1]).tolist(),
            names[pool.ravel()].tolist(),
            value,
            kind="rating" if self.grades else "rank",
            items=slots,
            # A cut list ranks what it leaves out below what it names; a partial one is about some items only.
            missing="below" if self.top else "unknown",
        )

    def truth(self, number: int, model: str) -> Floats:
        """Return what a model estimates: "bt", "pl", "pl-unknown" (of cut lists), "pl-adherence" or "mpm"."""
        s = self.scores(number)
        if model == "pl-adherence":
            # The mean square of the factors is 1, those of bad experts are 0.
            return s * np.sqrt(1 - self.bad)
        # Plackett-Luce obeys lists that are declared to be cut; models of pairs take what they leave out as unknown.
        cut = bool(self.top) and model != "pl"
        if model != "mpm" and not (self.lean or self.grades or cut or self.bad):
            return s
        if model in ("bt", "mpm") and not (self.grades or cut):
            return np.stack([self._expected(row, model) for row in s])
        return np.stack([self._from_many(number, row, model) for row in s])

    def _expected(self, s: Floats, model: str) -> Floats:
        """Return what models of pairs make of the expected counts of whole lists."""
        m, length = self.items, self.length
        if self.newcomer:
            share, field = self.newcomer / self.lists, m - 1
            both = (1 - share) * length * (length - 1) + share * (length - 1) * (length - 2)
            met = np.full((m, m), both / (field * (field - 1)))
            met[-1, :] = met[:, -1] = share * (length - 1) / field
        else:
            met = np.full((m, m), length * (length - 1) / (m * (m - 1)))
        np.fill_diagonal(met, 0.0)
        nodes, weight = np.polynomial.hermite_e.hermegauss(60 if self.lean else 1)
        kinds, gap = self._kinds(), s[:, None] - s[None, :]
        lean = self.lean * (kinds[:, None] - kinds[None, :])
        beats = sum(w / (1 + np.exp(-gap - lean * z)) for z, w in zip(nodes, weight / weight.sum(), strict=True))
        if model == "bt":
            return pair_scores(met * ((1 - self.bad) * beats + self.bad / 2))
        # A list of m items in which k are before item i counts (m - 1) m / 2 - m k for it: the sum of the differences
        # of ranks. Where there are enough instances, whom to believe is learned: the good ones, all alike.
        listed = met.sum(axis=1) / (length - 1)
        net = listed * length * (length - 1) / 2 - length * (met * np.asarray(beats).T).sum(axis=1)
        believed = 1.0 if self.instances >= ENOUGH_TO_LEARN else 1.0 - self.bad
        return net_scores(believed * net / ((length**3 - length) / 6))

    def _from_many(self, number: int, s: Floats, model: str) -> Floats:
        """Return what a model makes of a great many lists."""
        efron = self.grades and model.startswith("pl")
        lists = MANY_LISTS // (5 if efron else 1)
        own = np.where(np.arange(lists)[:, None] < round(self.bad * lists), 0.0, s)
        pool, seen = self._seen(np.random.default_rng([SEED, 2**21, number]), own, lists)
        if efron:
            many = self._preferences(pool, seen, lists)
            return centred(cc.PlackettLuce(prior=0, uncertainty="none").fit_predict(many).score)
        orders = pool if self.grades else self._ranked(pool, seen)
        if model.startswith("pl"):
            return choice_scores(orders, self.items)
        length = orders.shape[1]
        # The multinomial model counts differences of ranks or grades, Bradley-Terry who is before whom.
        level = 1.0 + np.digitize(seen, GRADES) if self.grades else np.tile(-np.arange(1.0, length + 1), (lists, 1))
        wins, ties = np.zeros(self.items**2), np.zeros(self.items**2)
        for a, b in np.argwhere(1 - np.eye(length, dtype=np.int64)).tolist():
            gap, cell = level[:, a] - level[:, b], orders[:, a] * self.items + orders[:, b]
            amount = np.maximum(gap if model == "mpm" else np.sign(gap), 0.0)
            wins += np.bincount(cell, amount, len(wins))
            ties += np.bincount(cell, gap == 0, len(wins))
        table, tied = wins.reshape(self.items, self.items), ties.reshape(self.items, self.items)
        if model == "mpm":
            return net_scores((table - table.T).sum(axis=1) / table.sum())
        if not tied.any():
            return pair_scores(table)
        i, j = np.triu_indices(self.items, 1)
        met = table + table.T + tied
        return tied_scores(np.stack([table[i, j], table[j, i], tied[i, j]]) / met[i, j], met, "davidson")

    def kind(self) -> Lists:
        """Return the kind of lists whatever their number, on which the truth depends alone."""
        return self if self.newcomer else replace(self, lists=1)


Data = Votes | Lists

"""Contract checks that run on any aggregation method, of Concordant or of another package.

A check changes something in small preferences that must not matter (or must matter in a known way), and compares the
two answers. Scores must agree to 1e-9 of the instance's largest, ranks exactly.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import Aggregator, FitInfo, Tags, Votes
from concordant.base.registry import METHODS
from concordant.base.saving import load
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import TIE_TOLERANCE, Consensus
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    ContractError,
    KindError,
    NotFittedError,
    ParameterError,
    listing,
)
from concordant.execution import InMemory, force_threads, threads
from concordant.execution.blocks import Blocks

__all__ = ["CHECKS", "Check", "Example", "Result", "check_method", "checks_for", "examples"]

SCORE_TOLERANCE = 1e-9

Method = Aggregator | type[Aggregator]


@dataclass(frozen=True)
class Check:
    """One promise of the contract. Calling it with a method raises ContractError where the promise is broken.

    Attributes
    ----------
    name : str
        The promise in a few words.
    when : str
        The tags under which it is made.
    applies : callable
        Whether these tags make the promise.
    function : callable
        The check itself, on a method that is not fitted.
    """

    name: str
    when: str
    applies: Callable[[Tags], bool]
    function: Callable[[Aggregator], None]

    @property
    def demand(self) -> str:
        """What the check asks for, in a sentence."""
        return (self.function.__doc__ or self.name).strip().split("\n", 1)[0].removeprefix("Require that ")

    def __str__(self) -> str:
        return self.name

    def __call__(self, method: Method, *, kinds: Iterable[str] | None = None) -> None:
        """Run the check on a class with its default parameters, or on a copy of a method.

        `kinds` are the kinds of preferences that these parameters can work on, where the tags promise more.
        """
        fresh = method() if isinstance(method, type) else _copy(method)
        owner = type(fresh).__name__
        if kinds is not None:
            # Only this object is narrowed; the copies that are fitted keep the tags of their class.
            vars(fresh)["tags"] = fresh.tags._replace(accepts=frozenset(kinds) & fresh.tags.accepts)
        with warnings.catch_warnings():
            # Methods may warn about such small data; only their answers are checked.
            warnings.simplefilter("ignore", ConcordantWarning)
            try:
                self.function(fresh)
            except ContractError as error:
                raise ContractError.broken(owner, self.name, self.demand, str(error)) from None
            except Exception as error:  # any error of the method is evidence
                evidence = f"{type(error).__name__}: {error}"
                raise ContractError.broken(owner, self.name, self.demand, evidence) from error


CHECKS: dict[str, Check] = {}


def _check(
    when: str = "always", applies: Callable[[Tags], bool] = lambda _: True
) -> Callable[[Callable[[Aggregator], None]], Callable[[Aggregator], None]]:
    def register(function: Callable[[Aggregator], None]) -> Callable[[Aggregator], None]:
        CHECKS[function.__name__] = Check(function.__name__, when, applies, function)
        return function

    return register


class Result(NamedTuple):
    """The outcome of one check."""

    check: str
    outcome: Literal["passed", "skipped", "failed"]
    reason: str


def checks_for(method: Method) -> list[Check]:
    """Return the checks that the tags of a method ask for.

    Examples
    --------
    In a test suite of your own, one test per check::

        @pytest.mark.parametrize("check", checks_for(MyMethod), ids=str)
        def test_contract(check):
            check(MyMethod)

    >>> import concordant as cc
    >>> [c.name for c in checks_for(cc.RRF)][:2]
    ['parameters_round_trip', 'init_only_assigns']
    """
    return [check for check in CHECKS.values() if check.applies(method.tags)]


def check_method(
    method: Method, *, skip: Mapping[str, str] | None = None, kinds: Iterable[str] | None = None
) -> list[Result]:
    """Run every contract check that applies and return the outcomes; raise ContractError listing those that failed.

    Parameters
    ----------
    method : Aggregator or a class of it
        The method; a class is checked with its default parameters. It must be registered to be saved and loaded.
    skip : mapping from check to reason, optional
        Checks that do not hold for this method, each with the reason why.
    kinds : iterable of {"rank", "score", "rating", "comparisons"}, optional
        The kinds that these parameters can work on, where the tags promise more.

    Examples
    --------
    >>> import concordant as cc
    >>> {result.outcome for result in check_method(cc.RRF(k=10))}
    {'passed'}
    """
    skip = dict(skip or {})
    unknown = [name for name in skip if name not in CHECKS]
    if unknown:
        raise ParameterError(f"no such checks to skip: {listing(unknown)}. There are: {', '.join(CHECKS)}.")
    silent = [name for name, reason in skip.items() if not isinstance(reason, str) or not reason.strip()]
    if silent:
        raise ParameterError(f"checks are skipped without a reason: {listing(silent)}. Say why, in words.")
    results = []
    for check in checks_for(method):
        if check.name in skip:
            results.append(Result(check.name, "skipped", skip[check.name]))
            continue
        try:
            check(method, kinds=kinds)
        except ContractError as error:
            results.append(Result(check.name, "failed", str(error)))
        else:
            results.append(Result(check.name, "passed", ""))
    failures = [result.reason for result in results if result.outcome == "failed"]
    if failures:
        owner = method.__name__ if isinstance(method, type) else type(method).__name__
        raise ContractError.several(owner, failures)
    return results


Pair = tuple[str, str]


@dataclass(frozen=True)
class Example:
    """Small preferences as ids and numbers, so that a check can change one thing and build a container.

    Attributes
    ----------
    kind : str
        "rank", "score", "rating" or "comparisons".
    rows : tuple of tuples
        (instance, expert, item, value), or (instance, expert, left, right, n_left, n_right, n_ties).
    items, experts : tuples
        All (instance, item) pairs and all experts, including items nobody ranks and experts who rank nothing.
    weights : mapping from (instance, expert)
        Weights other than 1.
    truth : mapping from (instance, item)
        A label for every item.
    """

    kind: str
    rows: tuple[tuple[Any, ...], ...]
    items: tuple[Pair, ...]
    experts: tuple[str, ...]
    weights: Mapping[Pair, float]
    truth: Mapping[Pair, float]

    def votes(self) -> Votes:
        """Return the container."""
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * (7 if self.kind == "comparisons" else 4)
        weight = [self.weights.get((row[0], row[1]), 1.0) for row in self.rows] if self.weights else None
        known: dict[str, Any] = {"items": self.items, "experts": self.experts, "weight": weight}
        if self.kind == "comparisons":
            return Comparisons(*columns, **known)
        return Preferences(*columns, kind=self.kind, **known)  # type: ignore[arg-type]

    def labels(self) -> Labels:
        """Return a label for every item."""
        return Labels([q for q, _ in self.truth], [i for _, i in self.truth], list(self.truth.values()))

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances, in first-seen order."""
        return tuple(dict.fromkeys(q for q, _ in self.items))

    def renamed(self, *, item: Callable[[str], str] = str, expert: Callable[[str], str] = str) -> Example:
        """Return the same preferences under other names."""
        last = 4 if self.kind == "comparisons" else 3
        return replace(
            self,
            rows=tuple((r[0], expert(r[1]), *map(item, r[2:last]), *r[last:]) for r in self.rows),
            items=tuple((q, item(i)) for q, i in self.items),
            experts=tuple(map(expert, self.experts)),
            weights={(q, expert(e)): w for (q, e), w in self.weights.items()},
            truth={(q, item(i)): label for (q, i), label in self.truth.items()},
        )

    def with_instance(self, instance: str, items: Sequence[str], rows: Sequence[tuple[Any, ...]] = ()) -> Example:
        """Return the preferences with one more instance, all its items labelled 0."""
        pairs = tuple((instance, i) for i in items)
        return replace(
            self,
            rows=self.rows + tuple((instance, *row) for row in rows),
            items=self.items + pairs,
            truth=dict(self.truth) | dict.fromkeys(pairs, 0.0),
        )


def examples(tags: Tags) -> list[Example]:
    """Return one example of every kind that a method of these tags accepts.

    They are asymmetric and awkward: lists of unequal length, gaps between ranks, majorities in a cycle, an item nobody
    ranks, an expert who ranks nothing and one who is absent from an instance, the same item ids in several instances;
    ties and weights where the tags allow them.
    """
    return [_example(kind, tags) for kind in sorted(tags.accepts)]


_SEED = 2
_KINDS = ("comparisons", "rank", "rating", "score")
_SIZES = {"q1": 7, "q2": 5, "q3": 9, "q4": 3}
_TRUST = {"e1": 1.6, "e2": 1.0, "e3": 0.3, "e4": -0.4, "e5": 0.8}


@cache
def _example(kind: str, tags: Tags) -> Example:
    rng = np.random.default_rng([_SEED, _KINDS.index(kind)])
    rows: list[tuple[Any, ...]] = []
    truth: dict[Pair, float] = {}
    for q, m in _SIZES.items():
        quality = rng.normal(size=m)
        names = list("abcdefghi"[:m])
        truth |= {(q, i): float(np.searchsorted([-0.4, 0.7], z)) for i, z in zip(names, quality, strict=True)}
        ranked = m if m < 7 else m - 1  # the last item of a large instance is known and never ranked
        for e, trust in _TRUST.items():
            if (q, e) == ("q2", "e5"):
                continue
            latent = trust * quality[:ranked] + 0.8 * rng.normal(size=ranked)
            if kind == "comparisons":
                rows += _outcomes(rng, q, e, names[:ranked], latent, tags.ties)
            else:
                kept = np.sort(rng.choice(ranked, size=max(2, ranked - int(rng.integers(0, 3))), replace=False))
                values = _values(rng, kind, latent[kept], tags.ties)
                rows += [(q, e, names[i], v) for i, v in zip(kept.tolist(), values.tolist(), strict=True)]
    # Majority cycles: a > b > d > c > a, and a > b > c > a, in which no item is ahead.
    for q, orders in {"q5": ("abdcef", "bdcafe", "cabdef"), "q6": ("abcd", "bcad", "cabd")}.items():
        cycle = _from_orders(kind, {e: list(order) for e, order in zip(_TRUST, orders, strict=False)}, q)
        rows += cycle.rows
        truth |= cycle.truth
    weights = {("q1", "e2"): 2.0, ("q3", "e1"): 0.5, ("q3", "e4"): 3.0} if tags.weights else {}
    return Example(kind, tuple(rows), tuple(truth), (*_TRUST, "silent"), weights, truth)


def _values(rng: np.random.Generator, kind: str, latent: Floats, ties: bool) -> Floats:
    """Return the values that an expert with these latent scores gives; with `ties`, two middle neighbours tie."""
    m = len(latent)
    order = np.argsort(-latent)
    if kind == "rating" and ties:
        return np.clip(np.rint(3 + latent), 1, 5)
    if kind == "rating":
        values_in_order = np.arange(m, 0, -1, dtype=np.float64)
    elif kind == "score":
        values_in_order = -np.sort(-np.round(rng.uniform(0.5, 9) * latent + rng.normal(), 3))
    else:
        values_in_order = np.sort(rng.choice(np.arange(1, 2 * m + 1), size=m, replace=False)).astype(np.float64)
    if ties:
        values_in_order[m // 2] = values_in_order[m // 2 - 1]
    values = np.empty(m)
    values[order] = values_in_order
    return values


def _outcomes(
    rng: np.random.Generator, instance: str, expert: str, names: list[str], latent: Floats, ties: bool
) -> list[tuple[Any, ...]]:
    """Return the outcomes of about half of the pairs, shown in either order."""
    rows = []
    for a, b in combinations(range(len(names)), 2):
        if rng.random() < 0.5:
            continue
        i, j = (a, b) if rng.random() < 0.5 else (b, a)
        wins = int(rng.binomial(3, 1 / (1 + np.exp(latent[j] - latent[i]))))
        tied = int(rng.integers(0, 2)) if ties else 0
        rows.append((instance, expert, names[i], names[j], float(wins), float(3 - wins), float(tied)))
    return rows


def _from_orders(kind: str, orders: Mapping[str, Sequence[str]], instance: str = "q") -> Example:
    """Return one instance in which every expert orders all items as written: "a bc d" has b and c tied."""
    rows: list[tuple[Any, ...]] = []
    for e, order in orders.items():
        if kind == "comparisons":
            for upper, lower in combinations(range(len(order)), 2):
                rows += [(instance, e, i, j, 1.0, 0.0, 0.0) for i in order[upper] for j in order[lower]]
            rows += [(instance, e, i, j, 0.0, 0.0, 1.0) for group in order for i, j in combinations(group, 2)]
            continue
        place = 0
        for level, group in enumerate(order):
            value = {"rank": place + 1.0, "score": 1.5 * len(order) - 2.0 * level, "rating": float(len(order) - level)}
            rows += [(instance, e, i, value[kind]) for i in group]
            place += len(group)
    items = sorted({i for order in orders.values() for group in order for i in group})
    pairs = tuple((instance, i) for i in items)
    truth = {pair: float(n // 2) for n, pair in enumerate(pairs)}  # a and b have equal labels
    return Example(kind, tuple(rows), pairs, tuple(orders), {}, truth)


def _copy(method: Aggregator) -> Aggregator:
    """Return an unfitted method of the same class and parameters."""
    return type(method)(**method.get_params())


def _alike(one: Any, other: Any) -> bool:
    """Return whether two parameters are equal, where methods are if their classes and parameters are."""
    if isinstance(one, Aggregator):
        return type(one) is type(other) and _alike(one.get_params(), other.get_params())
    if type(one) is type(other) and isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[n], other[n]) for n in one)
    return bool(one == other)


def _fitted(method: Aggregator, example: Example) -> Aggregator:
    """Return a fresh method fitted to the example, with its labels where the method asks for them."""
    return _copy(method).fit(example.votes(), example.labels() if method.tags.supervised else None)


def _answer(method: Aggregator, example: Example) -> Consensus:
    """Return the consensus of a fresh method fitted to the example."""
    return _fitted(method, example).predict(example.votes())


@dataclass(frozen=True)
class _Fit:
    """A fit to an unchanged example; two are the same where `key` is equal."""

    key: tuple[Any, ...]
    method: Aggregator = field(compare=False)
    example: Example = field(compare=False)
    # The key holds ids, which other objects may get once these are gone.
    params: Mapping[str, Any] = field(compare=False)


@lru_cache(maxsize=2 * len(_KINDS))
def _remembered(fit: _Fit) -> tuple[Aggregator, Consensus]:
    fitted = _fitted(fit.method, fit.example)
    return copy.deepcopy(fitted), fitted.predict(fit.example.votes())


def _usual(method: Aggregator, example: Example) -> tuple[Aggregator, Consensus]:
    """Return a method fitted to one of its `examples`, and its answer there.

    Most checks compare with these, so they are kept for the next check of the method.
    """
    params = method.get_params()
    key = (type(method), method.tags, example.kind, *map(id, params.values()))
    fitted, answer = _remembered(_Fit(key, method, example, params))
    return copy.deepcopy(fitted), answer


def _require(condition: object, evidence: str) -> None:
    if not condition:
        raise ContractError(evidence)


def _agree(
    got: Consensus, want: Consensus, where: str, *, item: Callable[[str], str] = str, exact: bool = False
) -> None:
    """Require that two answers agree, items matched by id; `item` maps a name in `got` to that in `want`."""
    _require(set(got.instances) == set(want.instances), f"{where}: instances {listing(got.instances.tolist())}")
    for q in want.instances:
        left, right = got[q], want[q]
        place = dict(zip(right.items, range(right.n_slots), strict=True))
        names = [item(i) for i in left.items]
        _require(sorted(names) == sorted(place), f"{where}: instance {q!r} answers for items {listing(names)}")
        matched = np.array([place[i] for i in names], dtype=np.int64)
        score, rank = right.score[matched], right.rank[matched]
        allowed = 0.0 if exact else SCORE_TOLERANCE * np.abs(score).max(initial=0.0)
        wrong = np.flatnonzero((np.abs(left.score - score) > allowed) | (left.rank != rank))
        if len(wrong):
            w = int(wrong[0])
            raise ContractError(
                f"{where}: instance {q!r}, item {left.items[w]!r}: score {float(left.score[w])!r} and rank "
                f"{int(left.rank[w])}, but {float(score[w])!r} and rank {int(rank[w])} before."
            )


def _raises(error: type[Exception], call: Callable[[], object], what: str) -> str:
    """Require that a call raises this error and return its message."""
    try:
        call()
    except error as raised:
        return str(raised)
    except Exception as raised:
        raise ContractError(f"{what} raises {type(raised).__name__}, not {error.__name__}: {raised}") from raised
    raise ContractError(f"{what} raises nothing; expected {error.__name__}.")


def _writeable(container: Any) -> list[str]:
    """Return the names of the arrays of a container that can be written to."""
    return [n for n, v in vars(container).items() if isinstance(v, np.ndarray) and v.flags.writeable]


def _content(container: Any) -> dict[str, Any]:
    """Return every array and id of a container, copied."""
    parts = {**vars(container.slots), **vars(container)}
    content: dict[str, Any] = {n: v.tobytes() for n, v in parts.items() if isinstance(v, np.ndarray)}
    for name in ("instances", "items", "experts"):
        content[name] = list(getattr(container, name, ()))
    return content


# Parameters.


@_check()
def parameters_round_trip(method: Aggregator) -> None:
    """Require that get_params gives what __init__ takes, and set_params and a second __init__ take it back."""
    names = [p for p in inspect.signature(type(method).__init__).parameters if p != "self"]
    params = method.get_params()
    _require(sorted(params) == sorted(names), f"get_params gives {sorted(params)}, __init__ takes {sorted(names)}.")
    again = type(method)(**params)
    _require(again.set_params(**params) is again, "set_params does not return self.")
    lost = [n for n in names if again.get_params()[n] is not params[n]]
    _require(not lost, f"parameters {listing(lost)} do not come back as they were given.")


@_check()
def init_only_assigns(method: Aggregator) -> None:
    """Require that __init__ takes keyword-only parameters, keeps them as given and does nothing else."""
    signature = inspect.signature(type(method).__init__).parameters
    loose = [n for n, p in signature.items() if n != "self" and p.kind is not p.KEYWORD_ONLY]
    _require(not loose, f"parameters {listing(loose)} are not keyword-only.")
    given = {name: object() for name in method.get_params()}
    made = vars(type(method)(**given))
    _require(set(made) == set(given), f"__init__ sets {sorted(set(made) - set(given))} beside its parameters.")
    changed = [n for n in given if made[n] is not given[n]]
    _require(not changed, f"__init__ changes the parameters {listing(changed)}.")


@_check()
def unknown_parameter_is_refused(method: Aggregator) -> None:
    """Require that set_params raises ParameterError naming a parameter that does not exist."""
    message = _raises(ParameterError, lambda: method.set_params(no_such_parameter=1), "set_params(no_such_parameter=1)")
    _require("no_such_parameter" in message, f"the message does not name it: {message}")


@_check()
def invalid_parameter_is_refused(method: Aggregator) -> None:
    """Require that fit raises ParameterError naming a parameter that holds nonsense."""
    example = examples(method.tags)[0]
    for name in method.get_params():
        nonsense = _copy(method).set_params(**{name: object()})
        call = lambda: nonsense.fit(example.votes(), example.labels())  # noqa: B023, E731 - called before the next turn
        message = _raises(ParameterError, call, f"fit with {name}=object()")
        _require(repr(name) in message, f"the message does not name {name!r}: {message}")


# Fitting and predicting.


@_check()
def fit_returns_self(method: Aggregator) -> None:
    """Require that fit returns the method itself, leaves its parameters alone and sets fit_info_."""
    for example in examples(method.tags):
        fresh = _copy(method)
        params = fresh.get_params()
        _require(fresh.fit(example.votes(), example.labels()) is fresh, "fit returns something else.")
        _require(isinstance(getattr(fresh, "fit_info_", None), FitInfo), "fit does not set fit_info_.")
        changed = [n for n, v in fresh.get_params().items() if v is not params[n]]
        _require(not changed, f"fit changes the parameters {listing(changed)}.")


@_check()
def fit_predict_is_fit_then_predict(method: Aggregator) -> None:
    """Require that fit_predict gives what fit and predict give, and keeps it as consensus_."""
    for example in examples(method.tags):
        fresh = _copy(method)
        labels = example.labels() if method.tags.supervised else None
        got = fresh.fit_predict(example.votes(), labels)
        _require(getattr(fresh, "consensus_", None) is got, f"{example.kind} data: consensus_ is not the answer.")
        _agree(got, _usual(method, example)[1], f"{example.kind} data")


@_check()
def predict_before_fit_is_plain(method: Aggregator) -> None:
    """Require that predict without fit gives the same answer, or raises NotFittedError if something is learned."""
    for example in examples(method.tags):
        try:
            got = method.predict(example.votes())
        except NotFittedError:
            continue
        _agree(got, _usual(method, example)[1], f"{example.kind} data without fit")


@_check()
def refit_forgets(method: Aggregator) -> None:
    """Require that a second fit gives what a first fit on the same preferences would."""
    for example in examples(method.tags):
        first, rest = example.instances[0], set(example.instances[1:])
        other = replace(
            example,
            rows=tuple(r for r in example.rows if r[0] in rest),
            items=tuple(p for p in example.items if p[0] in rest),
            truth={p: label for p, label in example.truth.items() if p[0] in rest},
        ).renamed(item=lambda i: "x" + i)
        labels = (other.labels(), example.labels()) if method.tags.supervised else (None, None)
        twice = _copy(method)
        twice.fit_predict(other.votes(), labels[0])
        twice.fit(example.votes(), labels[1])
        fresh, want = _usual(method, example)
        _require(
            set(vars(twice)) == set(vars(fresh)),
            f"after a second fit {sorted(set(vars(twice)) ^ set(vars(fresh)))} is there or missing (first: {first!r}).",
        )
        _agree(twice.predict(example.votes()), want, f"{example.kind} data, fitted before")


@_check()
def predict_leaves_no_trace(method: Aggregator) -> None:
    """Require that predict changes nothing in the method: the next answer is the same to the bit."""
    for example in examples(method.tags):
        fitted = _fitted(method, example)
        votes = example.votes()
        names = set(vars(fitted))
        first = fitted.predict(votes)
        fitted.predict(votes[1:])
        _agree(fitted.predict(votes), first, f"{example.kind} data, predicted again", exact=True)
        _require(set(vars(fitted)) == names, f"predict sets {sorted(set(vars(fitted)) - names)}.")


@_check()
def input_is_unchanged(method: Aggregator) -> None:
    """Require that neither fit nor predict changes the preferences or the labels, or makes their arrays writeable."""
    for example in examples(method.tags):
        votes, labels = example.votes(), example.labels()
        before = [_content(votes), _content(labels)]
        fitted = _copy(method).fit(votes, labels)
        fitted.predict(votes)
        for old, container in zip(before, (votes, labels), strict=True):
            new = _content(container)
            changed = [n for n in old if new[n] != old[n]]
            _require(not changed, f"{example.kind} data: {listing(changed)} of the input changed.")
            writeable = _writeable(container)
            _require(not writeable, f"{example.kind} data: arrays of the input became writeable: {listing(writeable)}.")


@_check()
def answer_is_frozen(method: Aggregator) -> None:
    """Require that the arrays of the consensus are read-only."""
    for example in examples(method.tags):
        _, answer = _usual(method, example)
        writeable = _writeable(answer)
        _require(not writeable, f"{example.kind} data: writeable arrays {listing(writeable)}.")


@_check()
def global_state_is_unchanged(method: Aggregator) -> None:
    """Require that fit and predict leave Python's and NumPy's random state and NumPy's error handling as they were."""

    def state() -> tuple[Any, ...]:
        return random.getstate(), pickle.dumps(np.random.get_state()), np.geterr()  # noqa: NPY002 - to see it unused

    for example in examples(method.tags):
        before = state()
        _answer(method, example)
        changed = [n for n, a, b in zip(("random", "numpy.random", "geterr"), before, state(), strict=True) if a != b]
        _require(not changed, f"{example.kind} data: changed: {listing(changed)}.")


@_check()
def every_item_is_ranked(method: Aggregator) -> None:
    """Require that the consensus keeps the items in their order and gives finite scores, and ranks that follow them."""
    for example in examples(method.tags):
        votes = example.votes()
        _, answer = _usual(method, example)
        _require(answer.slots == votes.slots, f"{example.kind} data: the items are not those of the preferences.")
        _require(np.isfinite(answer.score).all(), f"{example.kind} data: a score is not finite.")
        for q in answer.instances:
            one = answer[q]
            gap = one.score[:, None] - one.score[None, :]
            better = gap > TIE_TOLERANCE * np.abs(one.score).max()
            crossed = np.argwhere(better & (one.rank[:, None] >= one.rank[None, :]))
            if len(crossed):
                a, b = (one.items[int(i)] for i in crossed[0])
                raise ContractError(
                    f"{example.kind} data: instance {q!r}: {a!r} scores above {b!r} and ranks no better."
                )
            _require(
                one.rank.tolist() == [1 + int((one.rank < r).sum()) for r in one.rank],
                f"{example.kind} data: instance {q!r}: ranks {one.rank.tolist()} do not count the items above.",
            )


# What must not matter.


def _mirror(text: str) -> str:
    """Return another name; names sort in the opposite order."""
    return "".join(chr(0x4E00 - ord(c)) for c in text)


@_check()
def names_of_items_are_irrelevant(method: Aggregator) -> None:
    """Require that renaming the items renames them in the answer and changes nothing else."""
    for example in examples(method.tags):
        renamed = _answer(method, example.renamed(item=_mirror))
        _agree(renamed, _usual(method, example)[1], f"{example.kind} data, items renamed", item=_mirror)


@_check()
def names_of_experts_are_irrelevant(method: Aggregator) -> None:
    """Require that renaming the experts changes nothing."""
    for example in examples(method.tags):
        renamed = _answer(method, example.renamed(expert=_mirror))
        _agree(renamed, _usual(method, example)[1], f"{example.kind} data, experts renamed")


@_check("not stochastic", lambda tags: not tags.stochastic)
def order_of_experts_is_irrelevant(method: Aggregator) -> None:
    """Require that scores and ranks do not depend on the order of the experts."""
    for example in examples(method.tags):
        turned = replace(example, experts=example.experts[::-1])
        _agree(_answer(method, turned), _usual(method, example)[1], f"{example.kind} data, experts in reverse order")


@_check("neither stochastic nor row_order", lambda tags: not tags.stochastic and not tags.row_order)
def order_of_rows_is_irrelevant(method: Aggregator) -> None:
    """Require that scores and ranks do not depend on the order of rows, items and instances."""
    for example in examples(method.tags):
        _, want = _usual(method, example)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            rows = tuple(example.rows[i] for i in rng.permutation(len(example.rows)))
            items = tuple(example.items[i] for i in rng.permutation(len(example.items)))
            shuffled = _answer(method, replace(example, rows=rows, items=items))
            _agree(shuffled, want, f"{example.kind} data, rows shuffled")


@_check("per_instance", lambda tags: tags.per_instance)
def together_as_alone(method: Aggregator) -> None:
    """Require that two instances together give each the answer it gets alone, to the bit."""
    for example in examples(method.tags):
        fitted, _ = _usual(method, example)
        votes = example.votes()
        alone = [fitted.predict(one) for one in votes]
        for pair in [*pairwise(range(len(votes))), (len(votes) - 1, 0)]:
            both = fitted.predict(votes[list(pair)])
            for n in pair:
                where = f"{example.kind} data, instances {listing(both.instances)} together"
                _agree(both[votes.instances[n]], alone[n], where, exact=True)


@_check("per_instance", lambda tags: tags.per_instance)
def shards_as_the_whole(method: Aggregator) -> None:
    """Require that the answer for part of the instances, in any order, is that part of the answer, to the bit."""
    for example in examples(method.tags):
        fitted, whole = _usual(method, example)
        votes = example.votes()
        for key in (slice(0, 2), slice(None, None, -1), np.array([2, 0]), np.arange(len(votes)) % 2 == 1):
            part = fitted.predict(votes[key])
            _require(part.slots == whole[key].slots, f"{example.kind} data, shard {key}: other items.")
            _agree(part, whole[key], f"{example.kind} data, shard {key}", exact=True)


@_check("per_instance", lambda tags: tags.per_instance)
def blocks_are_predicted_as_the_whole(method: Aggregator) -> None:
    """Require that predict gives for blocks of instances what it gives for all of them in memory, to the bit."""
    for example in examples(method.tags):
        votes = example.votes()
        if isinstance(votes, Preferences):
            fitted, want = _usual(method, example)
            found = fitted.predict(_in_blocks(votes))
            _require(found.slots == want.slots, f"{example.kind} data in blocks: other items, or in another order.")
            _agree(found, want, f"{example.kind} data in blocks", exact=True)


@_check("blocks and not supervised", lambda tags: tags.blocks and not tags.supervised)
def blocks_are_learned_from_as_the_whole(method: Aggregator) -> None:
    """Require that fit learns from blocks of instances what it learns from all of them in memory."""
    for example in examples(method.tags):
        votes = example.votes()
        if isinstance(votes, Preferences) and method.learns_from_blocks():
            found = _copy(method).fit(_in_blocks(votes)).predict(votes)
            _agree(found, _usual(method, example)[1], f"{example.kind} data in blocks")


@_check("counts", lambda tags: tags.counts)
def counts_of_pairs_suffice(method: Aggregator) -> None:
    """Require that comparisons give the same answer as their counts of pairs, whichever expert made them."""
    for example in examples(method.tags):
        votes = example.votes()
        if isinstance(votes, Comparisons):
            _require(method.counts_suffice(has_experts=True), "the tags say that counts suffice, the method does not.")
            found, want = (_copy(method).fit_predict(data) for data in (votes.collapse(), votes))
            _agree(found, want, "comparisons collapsed to counts")


def _in_blocks(votes: Preferences) -> Blocks:
    """Return preferences in two blocks."""
    rows = np.diff(votes.list_offsets[votes.list_starts])
    parts = InMemory([votes[:1], votes[1:]])
    return Blocks(parts, votes.instances, votes.experts, rows, votes.kind, below=votes.below())


@_check()
def number_of_threads_is_irrelevant(method: Aggregator) -> None:
    """Require that one thread and four give the same answer to the bit."""
    for example in examples(method.tags):
        with threads(1):
            one = _answer(method, example)
        with force_threads(4):
            _agree(_answer(method, example), one, f"{example.kind} data on 4 threads", exact=True)


# What an answer must be.


@_check("faithful", lambda tags: tags.faithful)
def one_expert_gets_its_own_order(method: Aggregator) -> None:
    """Require that with one expert who ranks everything, the consensus is that expert's order, its ties included."""
    orders = [list("caebdf"), ["a", "b"]] + ([["c", "ae", "b", "dfg"], ["ab"]] if method.tags.ties else [])
    for kind in sorted(method.tags.accepts):
        for order in orders:
            got = _answer(method, _from_orders(kind, {"x": order}))
            want = {i: 1 + sum(map(len, order[:level])) for level, group in enumerate(order) for i in group}
            found = dict(zip(got.items, got.rank.tolist(), strict=True))
            _require(found == want, f"{kind} data: the expert says {order}, the ranks are {found}.")


@_check("faithful", lambda tags: tags.faithful)
def unanimous_order_is_kept(method: Aggregator) -> None:
    """Require that experts who all give one order get it back."""
    order = list("dbaec")
    for kind in sorted(method.tags.accepts):
        got = _answer(method, _from_orders(kind, dict.fromkeys("xyz", order))).ranking()
        _require(got == order, f"{kind} data: all experts say {order}, the consensus is {got}.")


@_check("faithful", lambda tags: tags.faithful)
def unanimous_pairs_are_kept(method: Aggregator) -> None:
    """Require that an item that every expert puts above another (all of them ranking everything) ends above it."""
    profiles = [("abcdef", "cadbfe", "edabcf"), ("abdc", "bdca", "cabd"), ("abcde", "bacde", "ebacd", "badce")]
    for kind in sorted(method.tags.accepts):
        for profile in profiles:
            got = _answer(method, _from_orders(kind, {f"x{n}": list(p) for n, p in enumerate(profile)}))
            rank = dict(zip(got.items, got.rank.tolist(), strict=True))
            for a, b in combinations(profile[0], 2):
                if all(p.index(a) < p.index(b) for p in profile):
                    _require(rank[a] < rank[b], f"{kind} data: all of {profile} put {a!r} above {b!r}, ranks {rank}.")


@_check(
    "weights, and neither supervised nor row_order",
    lambda tags: tags.weights and not tags.supervised and not tags.row_order,
)
def weight_two_is_twice(method: Aggregator) -> None:
    """Require that an expert of weight 2 counts as two experts who agree."""
    for example in examples(method.tags):
        for chosen in ("e1", "e3"):
            plain = replace(example, weights={})
            heavy = replace(plain, weights={(q, chosen): 2.0 for q in plain.instances})
            copies = tuple((r[0], "copy", *r[2:]) for r in plain.rows if r[1] == chosen)
            doubled = replace(plain, rows=plain.rows + copies, experts=(*plain.experts, "copy"))
            where = f"{example.kind} data, expert {chosen!r} with weight 2 instead of twice"
            _agree(_answer(method, heavy), _answer(method, doubled), where)


@_check("weights", lambda tags: tags.weights)
def weight_zero_is_absent(method: Aggregator) -> None:
    """Require that an expert of weight 0 counts as one who says nothing."""
    for example in examples(method.tags):
        for chosen in ("e1", "e3"):
            plain = replace(example, weights={})
            light = replace(plain, weights={(q, chosen): 0.0 for q in plain.instances})
            without = replace(plain, rows=tuple(r for r in plain.rows if r[1] != chosen))
            where = f"{example.kind} data, expert {chosen!r} with weight 0 instead of absent"
            _agree(_answer(method, light), _answer(method, without), where)


@_check("weights", lambda tags: tags.weights)
def extreme_weights_are_scaled_or_refused(method: Aggregator) -> None:
    """Require that weights of any size give the order that weights of usual size give, or are refused by name."""
    for example in examples(method.tags):
        if example.kind == "comparisons":
            continue
        experts = [e for e in example.experts if any(row[1] == e for row in example.rows)]
        own = {(q, e): 1.0 + n for n, e in enumerate(experts) for q in example.instances}
        usual = _answer(method, replace(example, weights=own))
        sizes = [[size] * len(experts) for size in (1e-300, 1e-150, 1e150, 1e300)]
        sizes.append([1e-300 if n % 2 else 1e300 for n in range(len(experts))])
        for size in sizes:
            weights = {pair: size[experts.index(pair[1])] * weight for pair, weight in own.items()}
            try:
                found = _answer(method, replace(example, weights=weights))
            except ConcordantError:
                continue
            where = f"{example.kind} data, weights times {min(size):g} to {max(size):g}"
            _require(min(size) == max(size), f"{where}: not refused, though no number holds their ratio")
            # A supervised fit may stop at another iteration if the weights have another scale.
            same = method.needs_labels() or np.array_equal(found.rank, usual.rank)
            _require(same, f"{where}: another order than with weights of usual size")


@_check(
    "ties, and neither stochastic nor row_order", lambda tags: tags.ties and not tags.stochastic and not tags.row_order
)
def equal_items_tie(method: Aggregator) -> None:
    """Require that two items share a rank if every expert ties them and treats them alike against the other items."""
    for example in examples(method.tags):
        rows: list[tuple[Any, ...]] = []
        for r in example.rows:
            rows.append(r)
            if "b" in r[2:4]:
                rows.append((*r[:2], *("twin" if v == "b" else v for v in r[2:4]), *r[4:]))
        pairs = tuple((q, "twin") for q, i in example.items if i == "b")
        truth = dict(example.truth) | {(q, "twin"): example.truth[q, "b"] for q, _ in pairs}
        answer = _answer(method, replace(example, rows=tuple(rows), items=example.items + pairs, truth=truth))
        for q, _ in pairs:
            rank = dict(zip(answer[q].items, answer[q].rank.tolist(), strict=True))
            _require(rank["b"] == rank["twin"], f"{example.kind} data: instance {q!r}: ranks {rank}.")


@_check(
    "neither stochastic, supervised nor row_order",
    lambda tags: not (tags.stochastic or tags.supervised or tags.row_order),
)
def swapped_items_tie(method: Aggregator) -> None:
    """Require that two items share a rank when the preferences are the same with the two swapped."""
    for kind in sorted(method.tags.accepts):
        for profile in (("abc", "bac"), ("cab", "cba"), ("ab", "ba"), ("acb", "bca"), ("dabc", "cdba", "dbac", "cdab")):
            got = _answer(method, _from_orders(kind, {f"x{n}": list(p) for n, p in enumerate(profile)}))
            rank = dict(zip(got.items, got.rank.tolist(), strict=True))
            _require(rank["a"] == rank["b"], f"{kind} data: experts say {profile}, the ranks are {rank}.")


@_check("not ties", lambda tags: not tags.ties)
def ties_are_refused(method: Aggregator) -> None:
    """Require that a method that cannot use ties raises an error instead of breaking them."""
    for kind in sorted(method.tags.accepts):
        example = _from_orders(kind, {"x": ["a", "bc", "d"], "y": ["b", "a", "cd"]})
        _raises(ConcordantError, lambda: _answer(method, example), f"{kind} data with ties")  # noqa: B023


# Edge cases.


@_check("not supervised", lambda tags: not tags.supervised)
def item_nobody_ranks_is_not_first(method: Aggregator) -> None:
    """Require that an item nobody ranks gets a score, and ranks below an item that every expert puts first."""
    for kind in sorted(method.tags.accepts):
        example = _from_orders(kind, {"x": list("abcd"), "y": list("acbd"), "z": list("abdc")})
        pairs = (("q", "unknown"), *example.items)
        answer = _answer(method, replace(example, items=pairs, truth=dict(example.truth) | {pairs[0]: 0.0}))
        rank = dict(zip(answer.items, answer.rank.tolist(), strict=True))
        _require(rank["a"] < rank["unknown"], f"{kind} data: all put 'a' first, the ranks are {rank}.")


@_check()
def instance_without_rows_is_one_tie(method: Aggregator) -> None:
    """Require that the items of an instance without rows tie, and the other instances keep their answer."""
    for example in examples(method.tags):
        answer = _answer(method, example.with_instance("nothing", ["a", "b", "z"]))
        ranks = answer["nothing"].rank.tolist()
        _require(ranks == [1, 1, 1], f"{example.kind} data: nobody ranks, the ranks are {ranks}.")
        if method.tags.per_instance and not method.tags.supervised:
            _agree(answer[:-1], _usual(method, example)[1], f"{example.kind} data beside an instance without rows")


@_check()
def instance_with_one_item_is_answered(method: Aggregator) -> None:
    """Require that a single item, ranked or not, is first."""
    for example in examples(method.tags):
        row = {"comparisons": [], "rank": [("e1", "a", 3.0)]}.get(example.kind, [("e1", "a", 2.0)])
        answer = _answer(method, example.with_instance("one", ["a"], row).with_instance("silence", ["b"]))
        for q in ("one", "silence"):
            _require(answer[q].rank.tolist() == [1], f"{example.kind} data: instance {q!r}: {answer[q].rank.tolist()}.")


@_check()
def instance_without_items_is_answered(method: Aggregator) -> None:
    """Require that an instance without items stays in the answer, without items."""
    for example in examples(method.tags):
        more = example.with_instance("bare", ["taken"], [("e1", "taken", 1.0)] if example.kind != "comparisons" else [])
        votes = more.votes()
        if isinstance(votes, Preferences):
            answer = _fitted(method, more).predict(votes.select_items(lambda i: i != "taken"))
            _require(len(answer) == len(votes), f"{example.kind} data: {len(answer)} instances of {len(votes)}.")
            _require(
                answer["bare"].n_slots == 0, f"{example.kind} data: an instance without items has items in the answer."
            )


@_check()
def no_instances_give_no_answer(method: Aggregator) -> None:
    """Require that preferences without instances give a consensus without instances."""
    for example in examples(method.tags):
        none = example.votes()[np.zeros(0, dtype=np.int64)]
        _require(
            len(_usual(method, example)[0].predict(none)) == 0,
            f"{example.kind} data: the answer has instances that the preferences lack.",
        )
        if not method.tags.supervised:
            _require(
                len(_copy(method).fit_predict(none)) == 0,
                f"{example.kind} data: the answer has instances that the preferences lack.",
            )


@_check()
def silent_expert_changes_nothing(method: Aggregator) -> None:
    """Require that an expert who ranks nothing has no effect."""
    for example in examples(method.tags):
        more = replace(example, experts=("quiet", *example.experts, "mute"))
        _agree(_answer(method, more), _usual(method, example)[1], f"{example.kind} data with two more silent experts")


# Saving, pickling, labels and explanations.


@_check()
def saved_is_loaded(method: Aggregator) -> None:
    """Require that a method saved and loaded gives the same answer to the bit; `register_method` lets load find it."""
    for example in examples(method.tags):
        fitted, answer = _usual(method, example)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "method"
            fitted.save(path)
            loaded = load(path)
        _require(type(loaded) is type(fitted), f"load gives a {type(loaded).__name__}; is the class registered?")
        _require(_alike(loaded.get_params(), fitted.get_params()), f"load gives parameters {loaded.get_params()}.")
        _agree(loaded.predict(example.votes()), answer, f"{example.kind} data", exact=True)


@_check()
def pickle_keeps_the_answer(method: Aggregator) -> None:
    """Require that a method can be sent to another process: its pickle gives the same answer to the bit."""
    for example in examples(method.tags):
        fitted, answer = _usual(method, example)
        sent = pickle.loads(pickle.dumps(fitted))
        _agree(sent.predict(example.votes()), answer, f"{example.kind} data", exact=True)


@_check("not supervised", lambda tags: not tags.supervised)
def labels_are_not_read(method: Aggregator) -> None:
    """Require that labels given to an unsupervised fit change nothing."""
    for example in examples(method.tags):
        votes = example.votes()
        _, without = _usual(method, example)
        wrong = replace(example, truth={pair: 2.0 - label for pair, label in example.truth.items()})
        for labels in (example.labels(), wrong.labels()):
            fitted = _copy(method).fit(votes, labels, validation=(votes, labels))
            _agree(fitted.predict(votes), without, f"{example.kind} data with labels", exact=True)


@_check("supervised", lambda tags: tags.supervised)
def labels_of_others_are_not_read(method: Aggregator) -> None:
    """Require that labels of instances outside the training data change nothing."""
    for example in examples(method.tags):
        votes = example.votes()
        train = votes[:-1]
        hidden = example.instances[-1]
        wrong = replace(example, truth={p: v + 1.0 if p[0] == hidden else v for p, v in example.truth.items()})
        one, other = (_copy(method).fit(train, labels).predict(votes) for labels in (example.labels(), wrong.labels()))
        _agree(one, other, f"{example.kind} data, other labels for instance {hidden!r}", exact=True)


@_check("supervised", lambda tags: tags.supervised)
def labels_are_matched_by_id(method: Aggregator) -> None:
    """Require that the order of labels, and labels of instances and items that are not there, change nothing."""
    for example in examples(method.tags):
        votes = example.votes()
        _, want = _usual(method, example)
        truth = {("elsewhere", "i"): 1.0, **dict(list(example.truth.items())[::-1])}
        got = _copy(method).fit(votes, replace(example, truth=truth).labels()).predict(votes)
        _agree(got, want, f"{example.kind} data, labels in another order", exact=True)


@_check("supervised", lambda tags: tags.supervised)
def validation_is_a_pair(method: Aggregator) -> None:
    """Require that a validation part may be given as a pair (preferences, labels), and nothing else."""
    for example in examples(method.tags):
        votes, labels = example.votes(), example.labels()
        fitted = _copy(method).fit(votes, labels, validation=(votes, labels))
        _require(len(fitted.predict(votes)) == len(votes), f"{example.kind} data: instances are lost.")
        _raises(ParameterError, lambda: _copy(method).fit(votes, labels, validation=labels), "validation=labels")  # noqa: B023


@_check("supervised", lambda tags: tags.supervised)
def labels_are_counted(method: Aggregator) -> None:
    """Require that fit_info_ counts the labelled instances and items."""
    for example in examples(method.tags):
        counts = _usual(method, example)[0].fit_info_.labels
        _require(counts.get("instances") == len(example.instances), f"{example.kind} data: labels counted as {counts}.")
        known = sum(pair in example.truth for pair in example.items)
        _require(counts.get("judged") == known, f"{example.kind} data: {known} labels counted as {counts}.")


@_check()
def explanations_add_up(method: Aggregator) -> None:
    """Require that the parts of the experts and of the base sum to the score, if the method explains scores."""
    for example in examples(method.tags):
        fitted, answer = _usual(method, example)
        votes = example.votes()
        if fitted._contributions(votes) is None:
            continue
        for instance in example.instances:
            own = answer[instance]
            explained = fitted.explain(votes, instance)
            want = dict(zip(own.items, own.score.tolist(), strict=True))
            slack = SCORE_TOLERANCE * max(1.0, float(np.abs(own.score).max(initial=0.0)))
            total = explained.contribution.sum(axis=1) + explained.base
            shown = dict.fromkeys(explained.items, 0.0)
            for item, _, part in explained.to_frame().iter_rows():
                shown[item] += part
            totals = zip(explained.items, total, strict=True)
            wrong = [i for i, s in totals if max(abs(s - want[i]), abs(shown[i] - want[i])) > slack]
            _require(not wrong, f"{example.kind} data, instance {instance!r}: items {listing(wrong)}.")


@_check()
def wrong_kind_names_methods(method: Aggregator) -> None:
    """Require that a container of another kind raises KindError naming the accepted kinds and methods that take it."""
    owner = type(method).__name__
    message = _raises(KindError, lambda: method.fit([["a", "b"]]), "fit on a plain list")  # type: ignore[arg-type]
    _require(owner in message, f"the message does not name {owner}: {message}")
    for kind in sorted(set(_KINDS) - method.tags.accepts):
        votes = _example(kind, Tags(accepts=frozenset({kind}))).votes()
        for call in (_copy(method).fit_predict, _copy(method).predict):
            message = _raises(KindError, lambda: call(votes), f"{call.__name__} on {kind} data")  # noqa: B023
            _require(owner in message, f"the message does not name {owner}: {message}")
            if kind in type(method).tags.accepts:
                continue  # other parameters would do, and the message says which
            others = [name for name in METHODS if kind in METHODS[name].tags.accepts]
            missing = [n for n in (*method.tags.accepts, *others[:1]) if n not in message]
            _require(not missing, f"the message does not name {listing(missing)}: {message}")


@_check("stochastic", lambda tags: tags.stochastic)
def same_seed_same_answer(method: Aggregator) -> None:
    """Require that randomness depends on random_state alone: the same seed gives the same answer, to the bit."""
    _require("random_state" in method.get_params(), "there is no parameter random_state.")
    for example in examples(method.tags):
        for seed in (0, 1):
            seeded = _copy(method).set_params(random_state=seed)
            _agree(
                _answer(seeded, example),
                _answer(seeded, example),
                f"{example.kind} data, random_state={seed}",
                exact=True,
            )


@_check("uncertainty", lambda tags: tags.uncertainty)
def intervals_hold_the_score(method: Aggregator) -> None:
    """Require that intervals have a stated level and contain the score; they may be NaN for items without rows."""
    for example in examples(method.tags):
        _, answer = _usual(method, example)
        lower, upper = answer.lower, answer.upper
        if lower is None or upper is None or answer.level is None:
            raise ContractError(f"{example.kind} data: no lower, upper or level.")
        with_rows = {
            (row[0], item) for row in example.rows for item in row[2 : 4 if example.kind == "comparisons" else 3]
        }
        has_rows = np.array([pair in with_rows for pair in _pairs(answer)])
        _require(
            (np.isfinite(lower) & np.isfinite(upper))[has_rows].all(),
            f"{example.kind} data: an interval is not finite for an item that experts ranked or compared.",
        )
        _require(not np.isinf(lower).any() and not np.isinf(upper).any(), f"{example.kind} data: an infinite interval.")
        slack = SCORE_TOLERANCE * np.abs(answer.score).max(initial=0.0)
        outside = (lower > answer.score + slack) | (answer.score > upper + slack)
        _require(not outside.any(), f"{example.kind} data: slots {np.flatnonzero(outside)[:5].tolist()} lie outside.")


@_check("uncertainty", lambda tags: tags.uncertainty)
def rank_intervals_hold_the_rank(method: Aggregator) -> None:
    """Require that the interval of a rank, if there is one, contains the rank and stays within 1 to M."""
    for example in examples(method.tags):
        _, answer = _usual(method, example)
        if answer.rank_lower is None or answer.rank_upper is None:
            continue
        held = (answer.rank_lower <= answer.rank) & (answer.rank <= answer.rank_upper)
        bounded = (answer.rank_lower >= 1) & (answer.rank_upper <= answer.slots.sizes[answer.slots.instance])
        wrong = [_pairs(answer)[slot] for slot in np.flatnonzero(~(held & bounded))[:5]]
        _require(not wrong, f"{example.kind} data: (instance, item) {listing(wrong)}.")


def _pairs(answer: Consensus) -> list[Pair]:
    """Return the (instance, item) of every slot."""
    return [(answer.instances[int(n)], i) for n, i in zip(answer.slots.instance, answer.items, strict=True)]

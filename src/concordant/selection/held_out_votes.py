"""Evaluation of pairwise comparison models on held-out votes.

Votes are held out at random, by expert, or forward in time: a model is fitted to earlier votes and predicts later ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator
from concordant.base.registry import METHODS, create
from concordant.data.comparisons import Comparisons
from concordant.data.splits import Split
from concordant.data.streams import id_hash
from concordant.errors import DataError, KindError, ParameterError
from concordant.metrics.vote_losses import VOTE_METRICS, VoteEvaluation, parse_vote_metrics
from concordant.selection.parallel_fits import run_parallel, unfitted_copy

__all__ = ["SPLITS_OF_VOTES", "VoteRun", "cross_validate_votes", "evaluate_votes", "split_votes", "vote_models"]

SPLITS_OF_VOTES = ("random", "expert", "time")


@runtime_checkable
class _PredictsVotes(Protocol):
    def predict_votes(self, votes: Comparisons) -> Floats: ...


class VoteRun(NamedTuple):
    """One fit of a cross-validation of votes: the fitted method, and the rows it was fitted to and tested on."""

    method: Aggregator
    n_train: int
    n_test: int
    seconds: float


def split_votes(votes: Comparisons, folds: Any, split_by: str, random_state: int, owner: str) -> list[Split]:
    """Return the training and test rows of each fold.

    Parameters
    ----------
    votes : Comparisons
        The votes; a row is held out as a whole.
    folds : int or list of (train, test)
        A number of folds, or pairs of row numbers.
    split_by : {"random", "expert", "time"}
        Which rows are held out together. "time": `folds` + 1 consecutive periods with about equally many votes; each
        period but the first is predicted from all votes before it.
    random_state : int
        Seed of the split.
    owner : str
        Name of the caller, for messages.
    """
    if split_by not in SPLITS_OF_VOTES:
        raise ParameterError.invalid("split_by", owner, ", ".join(map(repr, SPLITS_OF_VOTES)), split_by)
    if not isinstance(folds, Integral) or isinstance(folds, bool):
        return _given_splits(votes, folds, owner)
    n = int(folds)
    if n < 2:
        raise ParameterError.invalid("folds", owner, "a whole number >= 2 or a list of (train, test) rows", folds)
    rows = np.flatnonzero(votes.outcomes > 0)
    if split_by == "time":
        return _forward_splits(votes, rows, n, owner)
    if split_by == "expert":
        fold = _folds_of_experts(votes, n, random_state, owner)[rows]
    else:
        if len(rows) < n:
            raise DataError(f"{n} folds need at least {n} votes; there are {len(rows)}.")
        fold = np.empty(len(rows), dtype=np.int64)
        fold[np.random.default_rng(random_state).permutation(len(rows))] = np.arange(len(rows)) % n
    return [Split(rows[fold != f], rows[fold == f]) for f in range(n)]


def _given_splits(votes: Comparisons, folds: Any, owner: str) -> list[Split]:
    allowed = "a whole number >= 2 or a list of (train, test) rows"
    if isinstance(folds, (str, bytes)) or not isinstance(folds, Iterable):
        raise ParameterError.invalid("folds", owner, allowed, folds)
    out = []
    for split in folds:
        if not isinstance(split, tuple) or len(split) != 2:
            raise ParameterError.invalid("folds", owner, allowed, split)
        train, test = (np.sort(np.asarray(part, dtype=np.int64)) for part in split)
        inside = all(len(part) and part[0] >= 0 and part[-1] < votes.n_rows for part in (train, test))
        if not inside or np.intersect1d(train, test).size:
            raise DataError(f"a fold must name rows from 0 to {votes.n_rows - 1}, none of them in both parts.")
        out.append(Split(train, test))
    return out


def _folds_of_experts(votes: Comparisons, n: int, random_state: int, owner: str) -> Ints:
    """Return the fold of each row: all rows of an expert share one, and folds have about equally many experts."""
    if votes.expert is None:
        raise DataError(f"{owner} cannot hold out experts: the votes name none. Use split_by='random' or 'time'.")
    active = np.unique(votes.expert[votes.outcomes > 0]).tolist()
    if len(active) < n:
        raise DataError(f"{n} folds of experts need at least {n} experts with votes; there are {len(active)}.")
    order = sorted(active, key=lambda e: id_hash(f"{random_state}:{votes.experts[e]}"))
    fold = np.full(votes.n_experts, -1, dtype=np.int64)
    fold[order] = np.arange(len(order)) % n
    return fold[votes.expert]


def _forward_splits(votes: Comparisons, rows: Ints, n: int, owner: str) -> list[Split]:
    """Return splits in which the test votes come after the training votes; votes of one time stay together."""
    if votes.time is None:
        raise DataError(f"{owner} cannot split by time: the votes have no times. Read them with time='COLUMN'.")
    times = votes.time[rows]
    ordered = np.sort(times)
    starts = np.unique(ordered[[len(ordered) * (k + 1) // (n + 1) for k in range(n)]]) if len(ordered) else ordered
    starts = starts[starts > ordered[0]] if len(starts) else starts
    if len(starts) < n:
        raise DataError(f"the votes have too few different times for {n} folds. Use fewer folds, or split_by='random'.")
    ends = [*starts[1:].tolist(), np.inf]
    periods = zip(starts.tolist(), ends, strict=True)
    return [Split(rows[times < start], rows[(times >= start) & (times < end)]) for start, end in periods]


def _as_vote_model(method: Aggregator) -> _PredictsVotes:
    if not isinstance(method, _PredictsVotes):
        raise KindError(f"{type(method).__name__} does not predict votes. Methods that do: {', '.join(vote_models())}.")
    return method


def vote_models() -> list[str]:
    """Return the methods that predict votes."""
    return [name for name in METHODS if issubclass(METHODS[name], _PredictsVotes)]


def _metrics_for(metrics: Any, probabilities: Floats, votes: Comparisons) -> tuple[str, ...]:
    """Return the metrics asked for; by default those that the model defines and that differ on these votes."""
    if metrics is not None:
        return parse_vote_metrics(metrics)
    if not votes.n_ties.any():
        return ("log-loss", "accuracy")
    return tuple(m for m in VOTE_METRICS if m != "log-loss" or (probabilities[:, 1] > 0).all())


def evaluate_votes(
    method: Aggregator, votes: Comparisons, metrics: str | Iterable[str] | None = None
) -> VoteEvaluation:
    """Evaluate a fitted model by votes that it was not fitted to.

    Parameters
    ----------
    method : Aggregator
        A pairwise comparison model after `fit_predict`, such as Bradley-Terry or Elo.
    votes : Comparisons
        Votes on items that have scores in the model.
    metrics : str or list of str, optional
        Among "log-loss" (with ties), "decided-log-loss" (given that there is no tie) and "accuracy"; by default
        "log-loss" and "accuracy", and with tied votes all that the model defines.

    Examples
    --------
    >>> import concordant as cc
    >>> past = cc.Comparisons("arena", None, ["a", "b", "a"], ["b", "c", "c"], [6, 5, 7], [3, 3, 2])
    >>> model = cc.BradleyTerry()
    >>> board = model.fit_predict(past)
    >>> cc.evaluate_votes(model, cc.Comparisons("arena", None, ["a", "c"], ["b", "b"])).mean["accuracy"]
    0.5
    """
    probabilities = _as_vote_model(method).predict_votes(votes)
    return VoteEvaluation(
        votes, probabilities, _metrics_for(metrics, probabilities, votes), np.zeros(votes.n_rows, dtype=np.int64)
    )


def cross_validate_votes(
    method: Aggregator | str,
    votes: Comparisons,
    *,
    metrics: Any = None,
    folds: Any = 5,
    split_by: str = "random",
    random_state: int = 0,
    owner: str = "cross_validate",
) -> VoteEvaluation:
    """Fit a model to a part of the votes and predict the others, fold by fold; see `cross_validate`."""
    method = create(method)
    _as_vote_model(method)
    if "uncertainty" in method.get_params():
        # Intervals play no part in predictions.
        method = unfitted_copy(method, uncertainty="none")
    splits = split_votes(votes, folds, split_by, random_state, owner)

    def work(f: int) -> tuple[Floats, VoteRun]:
        copy = unfitted_copy(method)
        train, test = splits[f].train, splits[f].test
        started = perf_counter()
        try:
            copy.fit_predict(votes.select_rows(train))
            probabilities = _as_vote_model(copy).predict_votes(votes.select_rows(test))
        except Exception as error:
            error.add_note(f"in fold {f + 1} of {len(splits)}, fitted to {len(train):,} votes")
            raise
        return probabilities, VoteRun(copy, len(train), len(test), perf_counter() - started)

    found = run_parallel(work, len(splits))
    probabilities, fold = np.full((votes.n_rows, 3), np.nan), np.full(votes.n_rows, -1, dtype=np.int64)
    for f, (own, _) in enumerate(found):
        if (fold[splits[f].test] >= 0).any():
            raise DataError("a vote is in the test part of two folds. Hold out each vote once.")
        probabilities[splits[f].test], fold[splits[f].test] = own, f
    tested = np.flatnonzero(fold >= 0)
    chosen = _metrics_for(metrics, probabilities[tested], votes.select_rows(tested))
    return VoteEvaluation(votes, probabilities, chosen, fold, tuple(run for _, run in found))

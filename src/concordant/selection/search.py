"""Grid search and random search over methods and parameters, by cross-validation or on a validation part.

A search is itself a method: `fit` tries every candidate, and `predict` uses the best one. `nested` cross-validates a
search like any other method.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.params import Constraint, check_params, integer, number, one_of, optional, seed
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    DataError,
    KindError,
    NotFittedError,
    ParameterError,
    listing,
)
from concordant.execution.blocks import Blocks
from concordant.learning.supervision import match_labels
from concordant.metrics.evaluation import evaluate
from concordant.metrics.ranking import CONVENTIONS, Metric, parse_metric
from concordant.metrics.vote_losses import VOTE_METRICS
from concordant.selection.folds import (
    Data,
    FoldData,
    are_given_folds,
    check_data,
    check_validation_part,
    fit_fold,
    make_folds,
    predict_with_features,
    validation_fold,
)
from concordant.selection.held_out_votes import SPLITS_OF_VOTES, cross_validate_votes, split_votes
from concordant.selection.parallel_fits import check_seeds, run_parallel, seeds_of, unfitted_copy

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl

    from concordant.data.explanation import Explanation

__all__ = [
    "ChosenMethod",
    "GridSearch",
    "RandomSearch",
    "Search",
    "Tried",
    "join_features",
    "seeded_copy",
    "validation_parts",
]

# Means that differ by less than this are equal, and the first candidate wins.
_TOLERANCE = 1e-12
_DEFAULT_CONVENTION = "trec"
_KINDS = ("rank", "score", "rating", "comparisons")
_COST = "a fit for every candidate, fold and seed, and one more"


class Candidate(NamedTuple):
    """A method and the parameters that were searched over."""

    name: str
    method: Aggregator
    params: dict[str, Any]


class Tried(NamedTuple):
    """The result of one candidate.

    Attributes
    ----------
    name : str
        Name of the method, with its parameters if another method of the list has the same name.
    method : Aggregator
        The method with its parameters, not fitted.
    params : dict
        The parameters that were searched over.
    mean, std : float
        Mean and standard deviation (n − 1 in the denominator) of the folds' values; NaN where it failed, and the
        deviation also where there is one fold.
    folds : float64[F]
        The metric in every fold, the mean over the seeds.
    seconds : float
        Time of its fits and predictions, all folds and seeds together.
    error : str
        Why it failed, else empty.
    """

    name: str
    method: Aggregator
    params: dict[str, Any]
    mean: float
    std: float
    folds: Floats
    seconds: float
    error: str


class _FitOutcome(NamedTuple):
    """The result of one fit; the fitted method only where it may be kept."""

    value: float
    seconds: float
    error: str
    method: Aggregator | None


def _parses(parse: Callable[[Any], object]) -> Callable[[Any], bool]:
    """Return a test that passes values which parse without an error."""

    def test(value: Any) -> bool:
        try:
            parse(value)
        except ConcordantError:
            return False
        return True

    return test


def _methods_and_spaces(method: Any, given: Any) -> list[tuple[Aggregator, Any]]:
    """Return the methods with their grids or spaces."""
    if not isinstance(method, list):
        return [(_as_method(method), given)]
    out = []
    for entry in method:
        if isinstance(entry, tuple) and len(entry) == 2:
            out.append((_as_method(entry[0]), entry[1]))
        else:
            out.append((_as_method(entry), None))
    if not out:
        raise ParameterError("there is no method to search over.")
    return out


def _as_method(method: Any) -> Aggregator:
    if isinstance(method, (str, Aggregator)) or (isinstance(method, type) and issubclass(method, Aggregator)):
        return create(method)
    raise ParameterError(f"a method or its name was expected. Got {method!r} instead.")


def _is_metric(metric: Any) -> bool:
    return metric in VOTE_METRICS or (isinstance(metric, (str, Metric)) and _parses(parse_metric)(metric))


def _is_folds(folds: Any) -> bool:
    if are_given_folds(folds) or isinstance(folds, (str, bytes, bool, Iterator)):
        return False
    if isinstance(folds, (int, np.integer)):
        return int(folds) >= 2
    return hasattr(folds, "split") or isinstance(folds, Iterable)


_SHARED_CONSTRAINTS: dict[str, Constraint] = {
    "method": Constraint(
        "a method, or a list of methods or of pairs of a method and its own parameters to try",
        _parses(lambda value: _methods_and_spaces(value, None)),
    ),
    "metric": Constraint("the name of a metric, such as 'ndcg@10', or 'log-loss' for votes", _is_metric),
    "split_by": one_of(*SPLITS_OF_VOTES),
    "folds": Constraint(
        "a whole number >= 2, a list of (train, test) indices or a splitter (given folds go to `nested` as outer=)",
        _is_folds,
    ),
    "validation_part": Constraint(
        "a number > 0 and < 1, or None", _parses(lambda value: check_validation_part(value, ""))
    ),
    "convention": optional(one_of(*CONVENTIONS)),
    "rel": optional(number(above=0)),
    "seeds": Constraint(
        "a whole number >= 1, or a list of different whole numbers >= 0", _parses(lambda value: check_seeds(value, ""))
    ),
    "random_state": seed(),
}


class _SearchTags:
    """Tags of a search: the abilities that all its methods share, and the kinds of data that any of them accepts."""

    def __get__(self, search: Search | None, owner: type[Search]) -> Tags:
        if search is None:
            return Tags(frozenset(_KINDS), supervised=True, cost=_COST)
        own = [method.tags for method, _ in _methods_and_spaces(search.method, None)]
        return Tags(
            accepts=frozenset().union(*(t.accepts for t in own)),
            supervised=True,
            per_instance=all(t.per_instance for t in own),
            weights=all(t.weights for t in own),
            ties=all(t.ties for t in own),
            uncertainty=all(t.uncertainty for t in own),
            stochastic=any(t.stochastic for t in own),
            faithful=all(t.faithful for t in own),
            cost=_COST,
        )


class _AnyMethodFlag:
    """A flag that is set if any of the methods sets it."""

    def __set_name__(self, owner: type[Search], name: str) -> None:
        self.name = name

    def __get__(self, search: Search | None, owner: type[Search]) -> bool:
        return search is None or any(
            getattr(method, self.name) for method, _ in _methods_and_spaces(search.method, None)
        )


class ChosenMethod(Aggregator):
    """Base class of methods that choose another method: `fit` chooses it, and everything else is delegated to it."""

    best_method_: Aggregator

    def _checked(self, preferences: Any) -> Any:
        if not isinstance(preferences, Features) or not self.takes_features:
            return super()._checked(preferences)
        check_params(type(self).__name__, self.__dict__, self.constraints)
        return preferences

    def fit(
        self, preferences: Any, labels: Any = None, *, validation: Any = None, features: Features | None = None
    ) -> Self:
        """Try the candidates and return self.

        Parameters
        ----------
        preferences : Preferences, Comparisons or Features
            The data to fit the candidates to.
        labels : Labels
            Labels, matched by id.
        validation : pair (data, labels), optional
            Validation data; with features, (preferences, labels, features). A search chooses on them instead of folds;
            `Auto` passes them to the candidates, for early stopping.
        features : Features, optional
            Features of the items beside preferences, matched by id, for the candidates that use them.
        """
        self._run_fit(self._checked(preferences), labels, validation, features)
        return self

    def predict(self, preferences: Any, *, features: Features | None = None) -> Consensus:
        """Return the consensus of the chosen method; `features` beside preferences are passed on if it uses them."""
        if isinstance(preferences, Blocks) and features is None:
            return self._best().predict(preferences)
        data = self._checked(preferences)
        return predict_with_features(self._best(), data, features)

    def fit_predict(
        self, preferences: Any, labels: Any = None, *, validation: Any = None, features: Features | None = None
    ) -> Consensus:
        """Fit, then return the consensus of the same data (kept as `consensus_`)."""
        self._run_fit(self._checked(preferences), labels, validation, features)
        self.consensus_ = self.predict(preferences, features=features)
        return self.consensus_

    def _best(self) -> Aggregator:
        if "best_method_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        return self.best_method_

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        return self._best().predict(preferences)

    def _contributions(self, preferences: Any) -> tuple[list[str], Floats, Floats] | None:
        return self._best()._contributions(preferences)

    def explain(self, preferences: Votes, instance: str | None = None) -> Explanation:
        """Return the contributions of the experts to the scores of the chosen method, for one instance."""
        return self._best().explain(preferences, instance)

    def learned_experts(self) -> dict[str, list[Any]]:
        """Return the learned table of experts of the chosen method, by column."""
        return self._best().learned_experts()

    def expert_habits(self) -> dict[str, list[Any]]:
        """Return the habits of experts that the chosen method found, by column."""
        return self._best().expert_habits()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the chosen method to a file; `concordant.load` returns that method, not the search."""
        self._best().save(path)


class Search(ChosenMethod):
    """Base class of the searches; subclasses define the candidates."""

    tags: ClassVar[Tags] = _SearchTags()  # type: ignore[assignment] # a search has the tags of its methods
    takes_features: ClassVar[bool] = _AnyMethodFlag()  # type: ignore[assignment]
    uses_features: ClassVar[bool] = _AnyMethodFlag()  # type: ignore[assignment]
    method: Any
    metric: Any
    folds: Any
    split_by: str
    validation_part: float | None
    convention: str | None
    rel: float | None
    seeds: Any
    random_state: int

    best_params_: dict[str, Any]
    best_score_: float
    best_index_: int
    tried_: list[Tried]

    @abstractmethod
    def _space(self) -> Any:
        """Return the grid or space of a single method."""

    @abstractmethod
    def _combinations(self, method: Aggregator, space: Any) -> list[dict[str, Any]]:
        """Return the parameter settings to try for a method."""

    def candidates(self) -> list[Aggregator]:
        """Return the candidates as unfitted methods; of equally good ones the first wins."""
        return [candidate.method for candidate in self._candidates()]

    def _candidates(self) -> list[Candidate]:
        entries = _methods_and_spaces(self.method, self._space())
        names = [method.name for method, _ in entries]
        return [
            Candidate(
                method.name if names.count(method.name) == 1 else repr(method), unfitted_copy(method, **params), params
            )
            for method, space in entries
            for params in ([{}] if space is None else self._combinations(method, space))
        ]

    def with_seed(self, seed: int) -> Search:
        """Return an unfitted copy whose splits, draws and methods use this seed."""

        def with_seed(entry: Any) -> Any:
            if isinstance(entry, tuple):
                return with_seed(entry[0]), entry[1]
            method = _as_method(entry)
            return seeded_copy(method, seed if "random_state" in method.get_params() else None)

        method = [with_seed(m) for m in self.method] if isinstance(self.method, list) else with_seed(self.method)
        return type(self)(**self.get_params() | {"method": method, "random_state": seed})

    def _fit(self, preferences: Data, labels: Labels | None, validation: Any, features: Features | None) -> None:
        owner = type(self).__name__
        if self.metric in VOTE_METRICS:
            self._fit_to_votes(preferences, labels, validation)
            return
        preferences, truth = check_data(preferences, labels, owner)
        counts = match_labels(preferences, truth, owner, require_usable=False).counts
        candidates = self._candidates()
        held, held_features = validation_parts(validation, owner)
        if held_features is not None and features is not None:
            features = join_features(features, held_features)
        if held is None:
            all_folds = make_folds(preferences, truth, self.folds, self.random_state, owner)
        else:
            all_folds = [validation_fold(preferences, truth, held)]
        seeds = [seeds_of(candidate.method, self.seeds, owner) for candidate in candidates]
        trials = [(c, s, fold_data) for c, own in enumerate(seeds) for s in own for fold_data in all_folds]

        def work(t: int) -> _FitOutcome:
            c, own, fold_data = trials[t]
            method = seeded_copy(candidates[c].method, own)
            return self._try(method, fold_data, features if method.uses_features else None, keep=held is not None)

        outcomes = run_parallel(work, len(trials))
        self.tried_, start, first_outcomes = [], 0, []
        for candidate, own in zip(candidates, seeds, strict=True):
            end = start + len(own) * len(all_folds)
            self.tried_.append(_summary(candidate, outcomes[start:end], len(all_folds)))
            first_outcomes.append(outcomes[start])
            start = end
        self._choose(owner)
        name, winner, _ = candidates[self.best_index_]
        kept = first_outcomes[self.best_index_].method
        if kept is not None:
            self.best_method_ = kept
        else:
            # Set it before the fit, so that an interrupted fit keeps the best parameters so far.
            self.best_method_ = seeded_copy(winner, seeds[self.best_index_][0])
            whole = FoldData(preferences, truth, None, preferences, truth)
            own_features = features if winner.uses_features else None
            fit_fold(self.best_method_, whole, self.validation_part, self.random_state, own_features)
        self._record_choice(name, len(candidates))
        self.fit_info_.labels = dict(self.best_method_.fit_info_.labels or counts)

    def _fit_to_votes(self, votes: Data, labels: Labels | None, validation: Any) -> None:
        """Choose by held-out votes, and fit the best candidate to all votes."""
        owner = type(self).__name__
        if not isinstance(votes, Comparisons) or labels is not None or validation is not None:
            raise KindError(
                f"{owner}(metric={self.metric!r}) chooses by held-out votes: it takes Comparisons, no labels and no "
                "validation data."
            )
        candidates = self._candidates()
        n_folds = len(split_votes(votes, self.folds, self.split_by, self.random_state, owner))
        self.tried_ = []
        for candidate in candidates:
            started = perf_counter()
            try:
                found = cross_validate_votes(
                    candidate.method,
                    votes,
                    metrics=[self.metric],
                    folds=self.folds,
                    split_by=self.split_by,
                    random_state=self.random_state,
                    owner=owner,
                )
                values, error = found.per_fold[self.metric].to_list(), ""
            except Exception as failure:  # noqa: BLE001 - the error of one candidate is reported in its result
                values, error = [math.nan] * n_folds, f"{type(failure).__name__}: {failure}"
            seconds = (perf_counter() - started) / n_folds
            outcomes = [_FitOutcome(value, seconds, error, None) for value in values]
            self.tried_.append(_summary(candidate, outcomes, n_folds))
        self._choose(owner)
        name, winner, _ = candidates[self.best_index_]
        self.best_method_ = unfitted_copy(winner)
        self.best_method_.fit_predict(votes)
        self._record_choice(name, len(candidates))

    def _record_choice(self, name: str, n_candidates: int) -> None:
        """Record the choice, and how the last fit went."""
        info, own = self.fit_info_, self.best_method_.fit_info_
        info.n_iter, info.validation, info.objective = n_candidates, self.best_score_, self.best_score_
        info.chosen = ({"method": name} if isinstance(self.method, list) else {}) | self.best_params_
        info.converged = own.converged
        info.warnings += own.warnings

    def _try(self, method: Aggregator, fold_data: FoldData, features: Features | None, *, keep: bool) -> _FitOutcome:
        started = perf_counter()
        try:
            fit_fold(method, fold_data, self.validation_part, self.random_state, features)
            consensus = predict_with_features(method, fold_data.test, features)
            found = evaluate(
                consensus,
                fold_data.truth,
                self.metric,
                convention=self.convention or _DEFAULT_CONVENTION,
                rel=self.rel,
            )
        except Exception as error:  # noqa: BLE001 - the error of one candidate is reported in its result
            text = f"{type(error).__name__}: {error}"
            return _FitOutcome(math.nan, perf_counter() - started, text, None)
        (value,) = found.mean.values()
        return _FitOutcome(value, perf_counter() - started, "", method if keep else None)

    def _choose(self, owner: str) -> None:
        """Set the best candidate and warn about failed ones."""
        failed = [t for t in self.tried_ if t.error]
        if len(failed) == len(self.tried_):
            reasons = "; ".join(dict.fromkeys(f"{t.method!r}: {t.error}" for t in failed[:3]))
            more = f" … and {len(failed) - 3} more." if len(failed) > 3 else ""
            raise DataError(f"all {len(failed)} candidates of {owner} failed. {reasons}{more}")
        best = -1
        for c, tried in enumerate(self.tried_):
            if not tried.error and (best < 0 or self._sign * (tried.mean - self.tried_[best].mean) > _TOLERANCE):
                best = c
        self.best_index_, self.best_score_ = best, self.tried_[best].mean
        self.best_params_ = dict(self.tried_[best].params)
        if failed:
            self._warn(
                f"{len(failed)} of {len(self.tried_)} candidates of {owner} failed and were skipped: "
                f"{listing([t.method for t in failed], 3)}. {failed[0].error} See results_.",
                ConcordantWarning,
            )

    @property
    def _sign(self) -> int:
        """1 where larger values of the metric are better, −1 for losses."""
        return 1 if VOTE_METRICS.get(self.metric, True) else -1

    @property
    def results_(self) -> pl.DataFrame:
        """Results of every candidate, as a Polars frame.

        Columns: method, one for each parameter (as text if its values have different types), rank (1 = best), mean,
        std, one for each fold, seconds, error. Failed candidates have nulls and an error.
        """
        import polars as pl

        if "tried_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        tried = self.tried_
        columns: dict[str, Any] = {"method": [t.name for t in tried]}
        for name in dict.fromkeys(n for t in tried for n in t.params):
            columns[_column_name(name)] = _column(
                [t.params.get(name) for t in tried], [name in t.params for t in tried]
            )
        mean = np.array([-np.inf if t.error else self._sign * t.mean for t in tried])
        columns["rank"] = [None if t.error else 1 + int((mean > self._sign * t.mean + _TOLERANCE).sum()) for t in tried]
        numbers = {"mean": [t.mean for t in tried], "std": [t.std for t in tried]}
        numbers |= {f"fold {f + 1}": [float(t.folds[f]) for t in tried] for f in range(len(tried[0].folds))}
        numbers["seconds"] = [t.seconds for t in tried]
        columns |= {n: pl.Series(n, v, dtype=pl.Float64).fill_nan(None) for n, v in numbers.items()}
        columns["error"] = pl.Series("error", [t.error or None for t in tried], dtype=pl.String)
        return pl.DataFrame(columns)


def validation_parts(validation: Any, owner: str) -> tuple[tuple[Data, Labels] | None, Features | None]:
    """Return the validation data and labels, and their features if given."""
    if validation is None:
        return None, None
    if isinstance(validation, tuple) and len(validation) in (2, 3):
        data, labels, *given_features = validation
        is_data = isinstance(data, (Preferences, Comparisons, Features)) and isinstance(labels, Labels)
        if is_data and all(isinstance(f, Features) for f in given_features):
            return (data, labels), given_features[0] if given_features else None
    allowed = "a pair (preferences or features, labels), or (preferences, labels, features)"
    raise ParameterError.invalid("validation", f"{owner}.fit", allowed, validation)


def join_features(features: Features, more: Features) -> Features:
    """Join the features of the training and the validation part; instances in both count once."""
    known = features.instances.codes
    new = [n for n, instance in enumerate(more.instances) if instance not in known]
    return Features.concat([features, more[new]]) if new else features


def seeded_copy(method: Aggregator, seed: int | None) -> Aggregator:
    """Return an unfitted copy with this seed; None keeps the seed of the method."""
    if seed is None:
        return unfitted_copy(method)
    return method.with_seed(seed) if isinstance(method, Search) else unfitted_copy(method, random_state=seed)


def _summary(candidate: Candidate, outcomes: Sequence[_FitOutcome], n_folds: int) -> Tried:
    """Summarise the fits of one candidate, which are ordered by seed, then by fold."""
    folds = np.array([o.value for o in outcomes]).reshape(-1, n_folds).mean(axis=0)
    std = float(folds.std(ddof=1)) if n_folds > 1 else math.nan
    where = [f"fold {n % n_folds + 1}: " if n_folds > 1 else "" for n in range(len(outcomes))]
    error = next((place + o.error for place, o in zip(where, outcomes, strict=True) if o.error), "")
    seconds = sum(o.seconds for o in outcomes)
    return Tried(*candidate, float(folds.mean()), std, folds, seconds, error)


def _column_name(name: str) -> str:
    """Return a column name for a parameter that does not clash with other columns."""
    taken = name in ("method", "rank", "mean", "std", "seconds", "error") or name.startswith("fold ")
    return f"parameter {name}" if taken else name


def _column(values: list[Any], is_set: list[bool]) -> list[Any]:
    """Return values for one column of a frame: numbers or texts as they are, mixed types as their repr."""
    own = [v for v, known in zip(values, is_set, strict=True) if known]
    for kinds in ((bool,), (str,), (int,), (int, float)):
        if all(type(v) in kinds for v in own):
            return [v if kinds != (int, float) or v is None else float(v) for v in values]
    return [repr(v) if known else None for v, known in zip(values, is_set, strict=True)]


def _values(values: Any, name: str, owner: str) -> list[Any]:
    """Return the values to try for a parameter as a list of Python values."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)) or len(values) == 0:
        raise ParameterError(
            f"the values of {name!r} in {owner} must be a list with at least one entry. Got {values!r} instead."
        )
    return [_python_value(v) for v in values]


def _python_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _grids(grid: Any) -> list[Mapping[str, Any]]:
    grids = [grid] if isinstance(grid, Mapping) else grid
    if not isinstance(grids, Sequence) or isinstance(grids, str) or not grids:
        raise ParameterError(f"a grid is a mapping from parameter to a list of values. Got {grid!r} instead.")
    for one in grids:
        if not isinstance(one, Mapping):
            raise ParameterError(f"a grid is a mapping from parameter to a list of values. Got {one!r} instead.")
        for name, values in one.items():
            _values(values, str(name), "GridSearch")
    return list(grids)


def _spaces(space: Any) -> Mapping[str, Any]:
    if not isinstance(space, Mapping):
        raise ParameterError(
            f"a space is a mapping from parameter to a list, a function or a distribution. Got {space!r} instead."
        )
    for name, values in space.items():
        if not callable(values) and not hasattr(values, "rvs"):
            _values(values, str(name), "RandomSearch")
    return space


class GridSearch(Search):
    """Grid search: the method and parameters with the best mean metric among all combinations of given values.

    Every combination is fitted to the training part of each fold and evaluated on the rest. The one with the best mean
    of fold means is fitted again to everything. Of equally good ones (to 1e-12) the first wins, in the order of the
    methods, then of the values, with the last parameter changing fastest.

    With `validation=` in `fit` there are no folds. Each combination is fitted to all the preferences with this
    validation part and evaluated on it, and the best one is kept without another fit.

    Parameters
    ----------
    method : Aggregator, str, or list
        A method or its name, or a list of them. An entry of the list is a method, tried with its own parameters, or a
        pair of a method and its grid.
    grid : mapping from parameter to list of values, or list of such mappings
        The values to try, in all combinations within a mapping. Not with a list of methods.
    metric : str or Metric
        The metric to maximise, such as "ndcg@10" or "map". Without labels, of votes: "log-loss" or "decided-log-loss",
        which are minimised, or "accuracy".
    folds : int, list of Split, or splitter
        The split by instance, or of votes, as in `cross_validate`.
    split_by : {"random", "expert", "time"}
        Which votes are held out together, as in `cross_validate`.
    validation_part : float, optional
        Share of the labelled instances of every training part to set aside as `validation=` of methods that learn from
        labels; also in the last fit.
    convention : {"trec", "letor", "paper"}, optional
        Convention of the metric; "trec" by default, and in `cross_validate` and `nested` that of the outer evaluation.
    rel : float, optional
        The smallest relevant label; 1 by default.
    seeds : int or list of int
        Number (or list) of values of `random_state` to fit every combination with; their metrics are averaged. Methods
        without that parameter are fitted once. Held-out votes use neither `seeds` nor `validation_part`.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    best_method_ : Aggregator
        The chosen method, fitted.
    best_params_ : dict
        Its values of the parameters searched over.
    best_score_ : float
        Its mean. As the best of many it is optimistic on average; `nested` gives an unbiased number.
    best_index_ : int
        Its index in `tried_`.
    tried_ : list of Tried
        The result of every combination.
    results_ : Polars frame
        The same as a table: parameters, rank, mean, std, every fold, seconds, error.

    Notes
    -----
    A combination that raises an error is skipped with a warning that names it; if all fail, the search raises. Methods
    that read no labels get none. Fits run in parallel threads (see `threads`), and the result does not depend on their
    number. Cost: combinations × folds × seeds fits, and one more. `save` writes the chosen method, and `load` returns
    it.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels, _ = cc.synthetic.meta_search(40, random_state=1)
    >>> search = GridSearch(cc.RRF(), {"k": [1, 10, 60], "ties": ["min", "average"]}, metric="map")
    >>> search.fit(runs, labels).best_params_
    {'k': 10, 'ties': 'min'}
    >>> search.results_.columns[:5], len(search.results_)
    (['method', 'k', 'ties', 'rank', 'mean'], 6)

    The best of several methods, each with its own grid:

    >>> several = [(cc.RRF(), {"k": [10, 60]}), cc.Borda(), cc.CPS(adherence="supervised", unjudged="drop")]
    >>> GridSearch(several, metric="map").fit(runs, labels).best_method_
    CPS(adherence='supervised', unjudged='drop')

    Votes need no labels; here the prior is chosen by the votes of judges that were held out:

    >>> votes = cc.synthetic.bradley_terry(6, 2000, ties=0.5, n_experts=20, random_state=1).comparisons
    >>> search = GridSearch(cc.BradleyTerry(), {"prior": [0.1, 10, 1000]}, metric="log-loss", split_by="expert")
    >>> search.fit(votes).best_params_
    {'prior': 0.1}
    """

    name = "grid-search"
    constraints: ClassVar[Mapping[str, Constraint]] = _SHARED_CONSTRAINTS | {
        "grid": optional(
            Constraint("a mapping from parameter to a list of values, or a list of these", _parses(_grids))
        )
    }

    def __init__(
        self,
        method: Any,
        grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
        *,
        metric: Any = "ndcg@10",
        folds: Any = 5,
        split_by: str = "random",
        validation_part: float | None = None,
        convention: str | None = None,
        rel: float | None = None,
        seeds: Any = 1,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.grid = grid
        self.metric = metric
        self.folds = folds
        self.split_by = split_by
        self.validation_part = validation_part
        self.convention = convention
        self.rel = rel
        self.seeds = seeds
        self.random_state = random_state

    def _space(self) -> Any:
        if self.grid is not None and isinstance(self.method, list):
            raise ParameterError("a list of methods brings its own grids, as pairs (method, grid). Leave grid=None.")
        return self.grid

    def _combinations(self, method: Aggregator, space: Any) -> list[dict[str, Any]]:
        out = []
        for grid in _grids(space):
            lists = [_values(values, name, "GridSearch") for name, values in grid.items()]
            out += [dict(zip(grid, values, strict=True)) for values in product(*lists)]
        return out


class RandomSearch(Search):
    """Random search: the method and parameters with the best mean metric among random combinations.

    Candidates are evaluated, chosen, reported and refitted as in `GridSearch`. If all parameters have lists of values,
    combinations are drawn without repetition, and all are tried if there are at most `n`.

    Parameters
    ----------
    method : Aggregator, str, or list
        A method or its name, or a list of them. An entry of the list is a method, tried with its own parameters, or a
        pair of a method and its space.
    space : mapping from parameter to list, function or distribution
        Where to draw values from: a list (uniformly); a function of a `numpy.random.Generator`; or an object with
        `rvs(random_state=)`, such as SciPy's distributions. Not with a list of methods.
    n : int
        Number of combinations to draw for each method with a space.
    metric, folds, split_by, validation_part, convention, rel, seeds
        As in `GridSearch`.
    random_state : int
        Seed of the draws and of the folds. Methods with equal spaces get equal draws.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels, _ = cc.synthetic.meta_search(40, random_state=1)
    >>> space = {"k": lambda rng: round(10 ** rng.uniform(0, 3), 1), "ties": ["min", "average"]}
    >>> search = RandomSearch(cc.RRF(), space, n=4, metric="map").fit(runs, labels)
    >>> search.best_params_
    {'k': 1.3, 'ties': 'min'}
    """

    name = "random-search"
    constraints: ClassVar[Mapping[str, Constraint]] = _SHARED_CONSTRAINTS | {
        "space": optional(
            Constraint(
                "a mapping from parameter to a list, a function of a generator or a distribution", _parses(_spaces)
            )
        ),
        "n": integer(least=1),
    }

    def __init__(
        self,
        method: Any,
        space: Mapping[str, Any] | None = None,
        *,
        n: int = 20,
        metric: Any = "ndcg@10",
        folds: Any = 5,
        split_by: str = "random",
        validation_part: float | None = None,
        convention: str | None = None,
        rel: float | None = None,
        seeds: Any = 1,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.space = space
        self.n = n
        self.metric = metric
        self.folds = folds
        self.split_by = split_by
        self.validation_part = validation_part
        self.convention = convention
        self.rel = rel
        self.seeds = seeds
        self.random_state = random_state

    def _space(self) -> Any:
        if self.space is not None and isinstance(self.method, list):
            raise ParameterError("a list of methods brings its own spaces, as pairs (method, space). Leave space=None.")
        return self.space

    def _combinations(self, method: Aggregator, space: Any) -> list[dict[str, Any]]:
        space = _spaces(space)
        rng = np.random.default_rng(self.random_state)
        if not any(callable(v) or hasattr(v, "rvs") for v in space.values()):
            lists = [_values(values, name, "RandomSearch") for name, values in space.items()]
            sizes = tuple(len(v) for v in lists)
            total = math.prod(sizes)
            drawn = np.arange(total) if total <= self.n else rng.choice(total, size=self.n, replace=False)
            places = np.stack(np.unravel_index(drawn, sizes), axis=1).tolist() if sizes else [[]]
            return [{name: v[p] for name, v, p in zip(space, lists, place, strict=True)} for place in places]
        return [{name: _draw(values, rng) for name, values in space.items()} for _ in range(self.n)]


def _draw(values: Any, rng: np.random.Generator) -> Any:
    if hasattr(values, "rvs"):
        return _python_value(values.rvs(random_state=rng))
    if callable(values):
        return _python_value(values(rng))
    listed = _values(values, "", "RandomSearch")
    return listed[int(rng.integers(len(listed)))]

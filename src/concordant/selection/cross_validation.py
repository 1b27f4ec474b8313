"""Cross-validation and nested cross-validation of methods, by instance, for several seeds.

The result is an `Evaluation` with the fits behind it, so that it can be printed and compared like any other. Nested
cross-validation evaluates a search on instances that played no part in its choices.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import Aggregator, FitInfo
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.index import Texts, freeze
from concordant.errors import DataError, KindError, ParameterError, listing
from concordant.metrics.evaluation import Evaluation, ExpertEvaluations, combine_folds, evaluate, evaluate_experts
from concordant.metrics.ranking import MetricLike, convention_named, parse_metric, parse_metrics
from concordant.metrics.vote_losses import VoteEvaluation
from concordant.selection.folds import (
    are_given_folds,
    check_data,
    check_validation_part,
    fit_fold,
    make_folds,
    predict_with_features,
)
from concordant.selection.held_out_votes import cross_validate_votes
from concordant.selection.parallel_fits import run_parallel, seeds_of, unfitted_copy
from concordant.selection.search import Search, seeded_copy

if TYPE_CHECKING:
    import polars as pl

    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences

__all__ = ["CrossValidation", "Nested", "Run", "cross_validate", "evaluate_experts_by_fold", "nested"]


class Run(NamedTuple):
    """One fit of a cross-validation.

    Attributes
    ----------
    seed : int or None
        The `random_state` of the method; None where it has none.
    fold : int
        The fold it was tested on, from 0.
    method : Aggregator
        The fitted method.
    consensus : Consensus
        Predictions for the test instances.
    evaluation : Evaluation
        Metrics of the predictions.
    seconds : float
        Time of fit and prediction.
    """

    seed: int | None
    fold: int
    method: Aggregator
    consensus: Consensus
    evaluation: Evaluation
    seconds: float

    @property
    def fit_info(self) -> FitInfo:
        """The `fit_info_` of the method."""
        return self.method.fit_info_

    @property
    def chosen(self) -> dict[str, Any]:
        """Parameters that the fit chose on its training data."""
        return dict(self.method.fit_info_.chosen)


@dataclass(frozen=True, eq=False)
class CrossValidation(Evaluation):
    """Cross-validated evaluation of a method; with several seeds, the mean over the seeds.

    An `Evaluation` of the test instances: each value is the mean over the seeds, and each mean is the mean of the fold
    means. `compare` takes it directly.

    Parameters
    ----------
    runs : tuple of Run
        Every fit: seed after seed, fold after fold.
    order : Texts, optional
        The instances in the order of the preferences.

    Attributes
    ----------
    consensus : Consensus
        Out-of-fold predictions of all test instances, in the order of the preferences.
    seed_means : dict of str to float64[seeds]
        Metric name -> the mean of each seed.
    spread : dict of str to float
        Metric name -> the standard deviation of the seeds' means (n − 1 in the denominator); empty for one seed.
    per_run : Polars frame
        One row per fit: seed, fold, the mean of every metric, seconds, and what was chosen.
    """

    runs: tuple[Run, ...] = ()
    order: Texts | None = None

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """The seeds, (None,) for a method without a `random_state`."""
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @property
    def fit_infos(self) -> tuple[FitInfo, ...]:
        """The `fit_info_` of every fit, in the order of `runs`."""
        return tuple(run.fit_info for run in self.runs)

    @property
    def chosen(self) -> tuple[dict[str, Any], ...]:
        """Parameters that every fit chose, in the order of `runs`."""
        return tuple(run.chosen for run in self.runs)

    @cached_property
    def by_seed(self) -> tuple[Evaluation, ...]:
        """The evaluation of each seed, its folds combined."""
        return _by_seed(self.runs)

    @cached_property
    def seed_means(self) -> dict[str, Floats]:
        """Metric name -> the mean of each seed."""
        return {name: freeze(np.array([e.mean[name] for e in self.by_seed])) for name in self.metrics}

    @property
    def spread(self) -> dict[str, float]:
        """Metric name -> the standard deviation of the seeds' means; empty where there is one seed."""
        return {n: float(m.std(ddof=1)) for n, m in self.seed_means.items() if len(m) > 1}

    @cached_property
    def consensuses(self) -> tuple[Consensus, ...]:
        """Out-of-fold predictions, one consensus for each seed."""
        out = []
        for seed in self.seeds:
            parts = [run.consensus for run in self.runs if run.seed == seed]
            tested = Counter(i for part in parts for i in part.instances)
            twice = [i for i, n in tested.items() if n > 1]
            if twice:
                raise DataError(
                    f"{len(twice)} instances are in several test folds, {listing(twice, 5)}: they have no single "
                    "consensus. See run.consensus for each run of runs."
                )
            joined = Consensus.concat(parts)
            if self.order is not None:
                codes = joined.instances.codes
                joined = joined[np.array([codes[i] for i in self.order if i in codes], dtype=np.int64)]
            out.append(joined)
        return tuple(out)

    @property
    def consensus(self) -> Consensus:
        """Out-of-fold predictions of all test instances; of several seeds, the first."""
        return self.consensuses[0]

    @cached_property
    def per_run(self) -> pl.DataFrame:
        """One row per fit: seed, fold (from 1), the mean of every metric, seconds, and what was chosen."""
        import polars as pl

        columns: dict[str, Any] = {
            "seed": pl.Series([r.seed for r in self.runs], dtype=pl.Int64),
            "fold": [r.fold + 1 for r in self.runs],
        }
        columns |= {name: [r.evaluation.mean[name] for r in self.runs] for name in self.metrics}
        columns["seconds"] = [r.seconds for r in self.runs]
        columns["chosen"] = [_params_text(c) for c in self.chosen]
        return pl.DataFrame(columns)

    def to_text(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a small table, followed by their spread over the seeds where there are several.

        Parameters
        ----------
        digits : int
            Digits after the point.
        percent : bool
            Show values times 100.
        """
        text = super().to_text(digits=digits, percent=percent)
        if len(self.seeds) > 1:
            scale = 100 if percent else 1
            spread = ", ".join(f"{name} {scale * value:.{digits}f}" for name, value in self.spread.items())
            text += f"\nstandard deviation of the means of {len(self.seeds)} seeds: {spread}"
        return text

    # Without this the dataclass decorator would generate another one.
    def __repr__(self) -> str:
        return self.to_text()


@dataclass(frozen=True, eq=False)
class Nested(CrossValidation):
    """Nested cross-validation of a search: test instances played no part in its fits and choices.

    Attributes
    ----------
    metric : str
        The metric of the search.
    inner : float64[runs]
        The best score of the search in each outer training part. As the maximum of many, it is too high on average.
    counts : dict of str to int
        Chosen parameters -> number of runs, most frequent first.
    optimism : float
        Mean inner score minus the outer mean of the same metric; NaN if their conventions differ.
    """

    metric: str = ""
    inner_convention: str = ""

    @cached_property
    def inner(self) -> Floats:
        """The best score of the search in each outer training part."""
        return freeze(np.array([_search(run).best_score_ for run in self.runs]))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Chosen parameters, as text, -> number of runs, most frequent first."""
        texts = [_params_text(run.chosen) for run in self.runs]
        return {t: texts.count(t) for t in sorted(dict.fromkeys(texts), key=lambda t: -texts.count(t))}

    @property
    def optimism(self) -> float:
        """Mean inner score minus the outer mean of the same metric."""
        if self.inner_convention != self.convention:
            return math.nan
        return float(self.inner.mean()) - self.mean[self.metric]

    def to_text(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means, how often each choice was made, and the inner and outer scores.

        Parameters
        ----------
        digits : int
            Digits after the point.
        percent : bool
            Show values times 100.
        """
        scale = 100 if percent else 1
        chosen = "; ".join(f"{text} ({n})" for text, n in self.counts.items())
        lines = [super().to_text(digits=digits, percent=percent), f"chosen in {len(self.runs)} searches: {chosen}"]
        inner = f"inner {self.metric} {scale * float(self.inner.mean()):.{digits}f}"
        if math.isnan(self.optimism):
            lines.append(f"{inner} (convention {self.inner_convention})")
        else:
            outer = f"{scale * self.mean[self.metric]:.{digits}f}"
            lines.append(f"{inner} (chosen by it), outer {outer}, difference {scale * self.optimism:+.{digits}f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()


@overload
def cross_validate(
    method: Aggregator | str,
    preferences: Comparisons,
    labels: None = None,
    *,
    features: Features | None = ...,
    metrics: str | Iterable[str] | None = ...,
    folds: Any = ...,
    split_by: str = ...,
    validation_part: float | None = ...,
    convention: str | None = ...,
    rel: float | None = ...,
    seeds: int | Sequence[int] = ...,
    random_state: int = ...,
) -> VoteEvaluation: ...
@overload
def cross_validate(
    method: Aggregator | str,
    preferences: Any = ...,
    labels: Any = ...,
    *,
    features: Features | None = ...,
    metrics: MetricLike | Iterable[MetricLike] | None = ...,
    folds: Any = ...,
    split_by: str = ...,
    validation_part: float | None = ...,
    convention: str | None = ...,
    rel: float | None = ...,
    seeds: int | Sequence[int] = ...,
    random_state: int = ...,
) -> CrossValidation: ...
def cross_validate(
    method: Aggregator | str,
    preferences: Any = None,
    labels: Any = None,
    *,
    features: Features | None = None,
    metrics: MetricLike | Iterable[MetricLike] | None = None,
    folds: Any = 5,
    split_by: str = "random",
    validation_part: float | None = None,
    convention: str | None = None,
    rel: float | None = None,
    seeds: int | Sequence[int] = 1,
    random_state: int = 0,
) -> CrossValidation | VoteEvaluation:
    """Evaluate a method by cross-validation: on held-out instances with labels, or on held-out votes.

    For each fold and seed a fresh copy of the method is fitted to the training part, predicts the test part and is
    evaluated there. It gets the labels of its training instances only, and none if it does not learn from labels.

    Comparisons without labels are split by vote: a model of pairwise comparisons is fitted to some of the votes and
    predicts the others. `features`, `validation_part`, `convention`, `rel` and `seeds` are then not used.

    Parameters
    ----------
    method : Aggregator or str
        The method, or its name. It is copied and not changed.
    preferences : Preferences, Comparisons or Features
        The rankings, votes or features; not needed for given folds, which bring their own.
    labels : Labels
        Labels, matched by id; not needed for given folds.
    features : Features, optional
        Features of the items beside preferences, matched by id. A method that does not use them raises KindError.
    metrics : str, Metric, or a list of them, optional
        Such as "ndcg@1-5,map"; by default ndcg@10 and map. For votes "log-loss", "decided-log-loss" (given that there
        is no tie, to compare models without ties) and "accuracy" (of votes that are no tie); by default "log-loss" and
        "accuracy", and with tied votes all that the model defines.
    folds : int, list of Split, list of Fold, splitter, or None
        - A number of folds of nearly equal size, split by the ids of the instances, so that their order does not
          matter; each fold has its share of the labelled instances.
        - Pairs of instance indices (train, test), or an object whose ``split(preferences)`` gives them, such as
          scikit-learn's KFold.
        - Given folds (train, vali, test), each with preferences or features and labels, as `read_letor_folds` and
          `read_feature_folds` return them: the vali part goes to `fit` as `validation=`, and `preferences` and
          `labels` are not used.
        - None: no folds. The method is fitted to all instances and evaluated on the same, without labels; a method
          that learns from labels raises ParameterError.
    split_by : {"random", "expert", "time"}
        How votes are held out: "random" votes, all votes of an "expert", or the votes of a period ("time"). By time,
        each of `folds` periods is predicted from all votes before it.
    validation_part : float, optional
        Share of the labelled instances of each training part to hold out as `validation=` of a method that learns from
        labels. By default each method chooses in its own way.
    convention : {"trec", "letor", "paper"}, optional
        Convention of the metrics, as in `evaluate`; by default "letor" for given folds, else "trec".
    rel : float, optional
        The smallest relevant label; 1 by default.
    seeds : int or list of int
        Number of values of `random_state` to fit with, starting with that of the method; or a list of values. Methods
        without that parameter are fitted once. The folds are the same for all seeds.
    random_state : int
        Seed of the folds and of the validation parts.

    Returns
    -------
    CrossValidation
        An `Evaluation` (`.mean`, `.values`, `.per_instance`), with `.spread` over the seeds, `.consensus`, `.runs`.
        For votes a `VoteEvaluation` (`.mean`, `.stderr`, `.per_fold`); `compare` takes both.

    Notes
    -----
    A fold whose test instances are also in its training data raises an error that names them. Errors of a fit get a
    note with their fold. Folds and seeds run in parallel; the result does not depend on the number of threads.
    Instances without labels are predicted and not evaluated; labels of instances that are not among the preferences are
    left out. Cost: folds × seeds fits, and a copy of the preferences for every fold.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels, _ = cc.synthetic.meta_search(40, random_state=1)
    >>> rrf = cross_validate(cc.RRF(), runs, labels)
    >>> cps = cross_validate(cc.CPS(adherence="supervised"), runs, labels)
    >>> print(cps)
    metric   mean
    ndcg@10  0.7204
    map      0.7191
    mean of 5 folds, 40 instances; convention trec: gain label, discount 1/log2(1+i), ties by item id descending,
    relevant from label 1
    >>> cc.compare({"rrf": rrf, "cps": cps}, tests=["t"]).significant().tolist()
    [[0, 0], [1, 1]]
    >>> len(cps.consensus), [round(run.fit_info.objective) for run in cps.runs]
    (40, [-567, -626, -578, -605, -594])

    Votes are predicted by a model that was fitted to other votes:

    >>> votes = cc.synthetic.bradley_terry(6, 2000, ties=0.5, n_experts=20, random_state=1).comparisons
    >>> print(cross_validate(cc.BradleyTerry(), votes, split_by="expert"))
    metric              mean  standard error
    log-loss          0.9956  0.0115
    decided-log-loss  0.6241  0.0093
    accuracy          0.6445  0.0115
    2,000 votes predicted in 5 folds; standard errors clustered by experts
    """
    owner = "cross_validate"
    if labels is None and isinstance(preferences, Comparisons) and folds is not None and not are_given_folds(folds):
        return cross_validate_votes(
            method, preferences, metrics=metrics, folds=folds, split_by=split_by, random_state=random_state
        )
    metrics = ("ndcg@10", "map") if metrics is None else metrics
    method = create(method)
    rule = _convention(convention, folds)
    if isinstance(method, Search) and method.convention is None:
        method = unfitted_copy(method, convention=rule)
    wanted = [str(m) for m in parse_metrics(metrics)]
    check_validation_part(validation_part, owner, folds)
    own = seeds_of(method, seeds, owner)
    if folds is None:
        return _in_sample(method, preferences, labels, features, wanted, rule, rel, own)
    all_folds = make_folds(preferences, labels, folds, random_state, owner)

    def work(t: int) -> Run:
        seed, fold = own[t // len(all_folds)], t % len(all_folds)
        fold_data = all_folds[fold]
        copy = seeded_copy(method, seed)
        started = perf_counter()
        try:
            fit_fold(copy, fold_data, validation_part, random_state, features)
            consensus = predict_with_features(copy, fold_data.test, features)
        except Exception as error:
            with_ = "" if seed is None else f" with random_state={seed}"
            tested = listing(fold_data.test.instances[:5].tolist())
            error.add_note(f"in fold {fold + 1} of {len(all_folds)}{with_}, tested on instances {tested} ...")
            raise
        seconds = perf_counter() - started
        found = evaluate(consensus, fold_data.truth, wanted, convention=rule, rel=rel)
        return Run(seed, fold, copy, consensus, found, seconds)

    runs = tuple(run_parallel(work, len(own) * len(all_folds)))
    first, *others = _by_seed(runs)
    values = first.values
    if others:
        every = (first, *others)
        values = {name: freeze(np.mean([e.values[name] for e in every], axis=0)) for name in first.metrics}
    order = None if are_given_folds(folds) else preferences.instances
    return CrossValidation(values, first.instances, first.convention, first.rel, first.folds, first.notes, runs, order)


def nested(
    search: Search,
    preferences: Any = None,
    labels: Any = None,
    *,
    features: Features | None = None,
    outer: Any = 5,
    metrics: MetricLike | Iterable[MetricLike] | None = None,
    convention: str | None = None,
    rel: float | None = None,
    seeds: int | Sequence[int] = 1,
    random_state: int = 0,
) -> Nested:
    """Evaluate a search by nested cross-validation.

    In each outer fold the whole search runs on the training part alone: with inner folds, or on the vali part of given
    folds. The chosen method is evaluated on the test part, so the reported number is not optimistic.

    Parameters
    ----------
    search : GridSearch or RandomSearch
        The search. It is copied and not changed.
    preferences, labels, features
        As in `cross_validate`.
    outer : int, list of Split, list of Fold, or splitter
        The outer folds, as `folds` of `cross_validate`. The `folds` of the search are the inner ones.
    metrics : str, Metric, or a list of them, optional
        Metrics to report, after that of the search; by default ndcg@10 and map.
    convention : {"trec", "letor", "paper"}, optional
        Convention of the metrics; by default that of the search, else "letor" for given folds, else "trec". A search
        without a convention uses this one.
    rel : float, optional
        The smallest relevant label; by default that of the search.
    seeds : int or list of int
        Number (or list) of values of `random_state` to repeat the search with. Each sets the seed of the inner folds,
        of the draws and of the methods.
    random_state : int
        Seed of the outer folds.

    Returns
    -------
    Nested
        A `CrossValidation` with the choices and their counts (`.counts`), the inner scores (`.inner`) and by how much
        they are too high (`.optimism`).

    Notes
    -----
    Cost: outer folds × seeds searches, run in parallel threads. The result does not depend on the number of threads.

    Examples
    --------
    >>> import concordant as cc
    >>> from concordant.selection import GridSearch
    >>> runs, labels, _ = cc.synthetic.meta_search(30, random_state=2)
    >>> search = GridSearch(cc.RRF(), {"k": [1, 5, 20, 60, 200]}, metric="ndcg@5", folds=3)
    >>> print(nested(search, runs, labels, metrics="ndcg@5"))
    metric  mean
    ndcg@5  0.5835
    mean of 5 folds, 30 instances; convention trec: gain label, discount 1/log2(1+i), ties by item id descending,
    relevant from label 1
    chosen in 5 searches: k=5 (4); k=1 (1)
    inner ndcg@5 0.5962 (chosen by it), outer 0.5835, difference +0.0127
    """
    if not isinstance(search, Search):
        raise KindError(
            f"nested evaluates a GridSearch or RandomSearch. Got {type(search).__name__}; "
            "a method without a search is evaluated by cross_validate."
        )
    metric = str(parse_metric(search.metric))
    reported = [metric] + [str(m) for m in parse_metrics(("ndcg@10", "map") if metrics is None else metrics)]
    rule = _convention(convention or search.convention, outer)
    found = cross_validate(
        search,
        preferences,
        labels,
        features=features,
        metrics=list(dict.fromkeys(reported)),
        folds=outer,
        convention=rule,
        rel=search.rel if rel is None else rel,
        seeds=seeds,
        random_state=random_state,
    )
    return Nested(
        found.values,
        found.instances,
        found.convention,
        found.rel,
        found.folds,
        found.notes,
        found.runs,
        found.order,
        metric,
        search.convention or rule,
    )


def evaluate_experts_by_fold(
    parts: Sequence[tuple[Preferences, Labels]],
    metrics: MetricLike | Iterable[MetricLike],
    *,
    convention: str = "trec",
    rel: float | None = None,
) -> ExpertEvaluations:
    """Evaluate each expert's own lists on the test parts of several folds, as a cross-validation does methods.

    Experts who rank nothing in one of the parts are silent; they have no evaluation.

    Parameters
    ----------
    parts : sequence of (preferences, labels)
        The test part of every fold.
    metrics, convention, rel
        As for `evaluate`.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(4, random_state=1)
    >>> measured = evaluate_experts_by_fold([(runs[:2], labels[:2]), (runs[2:], labels[2:])], "map")
    >>> list(measured.found) == runs.experts.tolist(), {found.n_folds for found in measured.found.values()}
    (True, {2})
    """
    each = [evaluate_experts(votes, labels, metrics, convention=convention, rel=rel) for votes, labels in parts]
    experts = dict.fromkeys(expert for votes, _ in parts for expert in votes.experts)
    silent = [expert for expert in experts if any(expert not in fold.found for fold in each)]
    partial = [expert for expert in experts if any(expert in fold.partial for fold in each)]
    found = {e: combine_folds([fold.found[e] for fold in each]) for e in experts if e not in set(silent)}
    return ExpertEvaluations(found, partial, silent)


def _in_sample(
    method: Aggregator,
    preferences: Any,
    labels: Any,
    features: Features | None,
    metrics: list[str],
    convention: str,
    rel: float | None,
    seeds: Sequence[int | None],
) -> CrossValidation:
    """Return the evaluation of a method on the instances it was fitted to, without labels."""
    if method.needs_labels():
        raise ParameterError(
            f"{type(method).__name__} learns from labels and cannot be evaluated on its own training instances. Pass "
            "folds=, such as folds=5."
        )
    data, truth = check_data(preferences, labels, "cross_validate")
    votes: Any = data
    runs = []
    for seed in seeds:
        copy = seeded_copy(method, seed)
        consensus = copy.fit_predict(votes, features=features)
        found = evaluate(consensus, truth, metrics, convention=convention, rel=rel)
        runs.append(Run(seed, 0, copy, consensus, found, copy.fit_info_.seconds))
    first = runs[0].evaluation
    values = {m: freeze(np.mean([run.evaluation.values[m] for run in runs], axis=0)) for m in first.metrics}
    return CrossValidation(values, first.instances, first.convention, first.rel, None, first.notes, tuple(runs))


def _convention(convention: str | None, folds: Any) -> str:
    """Return the name of the convention; the default for given folds is that of LETOR."""
    if convention is None:
        return "letor" if are_given_folds(folds) else "trec"
    return convention_named(convention).name


def _by_seed(runs: Sequence[Run]) -> tuple[Evaluation, ...]:
    seeds = dict.fromkeys(run.seed for run in runs)
    return tuple(combine_folds([run.evaluation for run in runs if run.seed == seed]) for seed in seeds)


def _search(run: Run) -> Search:
    if not isinstance(run.method, Search):
        raise DataError(f"{type(run.method).__name__} is no search.")
    return run.method


def _params_text(chosen: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in chosen.items())

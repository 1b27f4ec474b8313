"""How good a method is on instances it never saw: fit without them, predict them, evaluate, for every fold and seed.

The result is an evaluation like any other, so that it can be printed, compared and tested, with what came of every fit
behind it. The nested form does the same with a search, so that nothing reported was chosen by what it is reported on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import Aggregator, FitInfo
from concordant.base.registry import create
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.index import Texts, freeze
from concordant.errors import DataError, KindError, ParameterError, listing
from concordant.metrics.evaluation import Evaluation, combine_folds, evaluate
from concordant.metrics.ranking import MetricLike, convention_named, parse_metric, parse_metrics
from concordant.selection.folds import (
    are_given_folds,
    check_data,
    check_validation_part,
    fit_fold,
    make_folds,
    predict_with_features,
)
from concordant.selection.parallel_fits import run_parallel, seeds_of, unfitted_copy
from concordant.selection.search import Search, seeded_copy

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CrossValidation", "Nested", "Run", "cross_validate", "nested"]


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
        What it predicts for the test instances.
    evaluation : Evaluation
        How good that is.
    seconds : float
        How long fitting and predicting took.
    """

    seed: int | None
    fold: int
    method: Aggregator
    consensus: Consensus
    evaluation: Evaluation
    seconds: float

    @property
    def fit_info(self) -> FitInfo:
        """How the fit went."""
        return self.method.fit_info_

    @property
    def chosen(self) -> dict[str, Any]:
        """What the fit chose by data of its own training part."""
        return dict(self.method.fit_info_.chosen)


@dataclass(frozen=True, eq=False)
class CrossValidation(Evaluation):
    """The evaluation of a method on instances it never saw, fold by fold; with several seeds, their mean.

    An `Evaluation` whose values are those of the test instances, each the mean over the seeds, and whose means are
    means of fold means. `compare` takes it as it is.

    Parameters
    ----------
    runs : tuple of Run
        Every fit: seed after seed, fold after fold.
    order : Texts, optional
        The instances in the order of the preferences.

    Attributes
    ----------
    consensus : Consensus
        Every tested instance as predicted by a model that never saw it, in the order of the preferences.
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
        """How every fit went, in the order of `runs`."""
        return tuple(run.fit_info for run in self.runs)

    @property
    def chosen(self) -> tuple[dict[str, Any], ...]:
        """What every fit chose, in the order of `runs`."""
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
        """The consensus of every tested instance, one for each seed."""
        out = []
        for seed in self.seeds:
            parts = [run.consensus for run in self.runs if run.seed == seed]
            tested = Counter(i for part in parts for i in part.instances)
            twice = [i for i, n in tested.items() if n > 1]
            if twice:
                raise DataError(
                    f"{len(twice)} instances were tested in several folds, {listing(twice, 5)}: there is no one "
                    "consensus for them. Look at run.consensus of each of runs."
                )
            joined = Consensus.concat(parts)
            if self.order is not None:
                codes = joined.instances.codes
                joined = joined[np.array([codes[i] for i in self.order if i in codes], dtype=np.int64)]
            out.append(joined)
        return tuple(out)

    @property
    def consensus(self) -> Consensus:
        """Every tested instance as predicted by a model that never saw it; of several seeds, the first."""
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

    # A dataclass would write its own.
    def __repr__(self) -> str:
        return self.to_text()


@dataclass(frozen=True, eq=False)
class Nested(CrossValidation):
    """The evaluation of a search on instances that neither its fits nor its choices ever saw.

    Attributes
    ----------
    metric : str
        What the search chooses by.
    inner : float64[runs]
        The best score of the search within each outer training part: the highest of many, and so too high on average.
    counts : dict of str to int
        What was chosen, and in how many of the runs, the most frequent first.
    optimism : float
        By how much the mean of the inner scores is above the outer mean of the same metric; NaN where the two go by
        different conventions.
    """

    metric: str = ""
    inner_convention: str = ""

    @cached_property
    def inner(self) -> Floats:
        """The best score of the search within each outer training part."""
        return freeze(np.array([_search(run).best_score_ for run in self.runs]))

    @cached_property
    def counts(self) -> dict[str, int]:
        """What was chosen, as text, and in how many of the runs, the most frequent first."""
        texts = [_params_text(run.chosen) for run in self.runs]
        return {t: texts.count(t) for t in sorted(dict.fromkeys(texts), key=lambda t: -texts.count(t))}

    @property
    def optimism(self) -> float:
        """By how much the mean of the inner scores is above the outer mean of the same metric."""
        if self.inner_convention != self.convention:
            return math.nan
        return float(self.inner.mean()) - self.mean[self.metric]

    def to_text(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means, what was chosen how often, and the inner score beside the outer one.

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


def cross_validate(
    method: Aggregator | str,
    preferences: Any = None,
    labels: Any = None,
    *,
    features: Features | None = None,
    metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10", "map"),
    folds: Any = 5,
    validation_part: float | None = None,
    convention: str | None = None,
    rel: float | None = None,
    seeds: int | Sequence[int] = 1,
    random_state: int = 0,
) -> CrossValidation:
    """Return how good a method is on instances it did not learn from.

    For each fold and seed a fresh copy of the method is fitted to the training part, predicts the test part and is
    evaluated there. It is given the labels of its training instances and no others, and none at all where it does not
    learn from labels.

    Parameters
    ----------
    method : Aggregator or str
        The method, or its name. It is copied, and stays as it is.
    preferences : Preferences, Comparisons or Features
        What the experts said, or what is known of the items; may be left out where folds are given with their parts.
    labels : Labels
        The ground truth, matched by id; may be left out likewise.
    features : Features, optional
        Features of the items beside preferences, matched by id, for the methods that use them.
    metrics : str, Metric, or a list of them
        Such as "ndcg@1-5,map".
    folds : int, list of Split, list of Fold, splitter, or None
        - A number: so many folds of (nearly) equal size, by the ids of the instances, so that their order does not
          matter; each has its share of the labelled instances.
        - Pairs of instance indices (train, test), or an object whose ``split(preferences)`` gives them, such as
          scikit-learn's KFold.
        - Given folds (train, vali, test), each with preferences or features and labels, as `read_letor_folds` and
          `read_feature_folds` return them: the vali part goes to `fit` as `validation=`, and `preferences` and
          `labels` are not looked at.
        - None: no folds. The method is fitted to all instances and evaluated on the same, without labels; a method
          that learns from labels raises ParameterError.
    validation_part : float, optional
        Share of the labelled instances of each training part to hold out as `validation=` of a method that learns
        from labels. None leaves it to the method how it chooses.
    convention : {"trec", "letor", "paper"}, optional
        Whose rules hold, as in `evaluate`; "letor" for given folds, else "trec", when absent.
    rel : float, optional
        Labels from here on are relevant; 1 when absent.
    seeds : int or list of int
        With how many values of `random_state` the method is fitted: its own and the numbers after it; or with which
        ones. A method without that parameter is fitted once. The folds are the same for all seeds.
    random_state : int
        The seed of the folds and of the validation parts.

    Returns
    -------
    CrossValidation
        An `Evaluation` (`.mean`, `.values`, `.per_instance`), with `.spread` over the seeds, `.consensus`, `.runs`.

    Notes
    -----
    A fold that would be tested on an instance it learns from is an error that names it. An error in a fit is raised
    with a note that says in which fold. Fits run side by side in threads, one for each fold and seed, and the result
    does not depend on how many there are. Instances without labels are predicted and not evaluated; labels of
    instances that are not among the preferences are left out. Cost: folds × seeds fits, and a copy of the preferences
    for every fold.

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
    """
    owner = "cross_validate"
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
    """Return how good a search is on instances that neither its fits nor its choices saw.

    In each outer fold the whole search runs on the training part alone, by inner folds of it or, with given folds, on
    their vali parts; what it chose is evaluated on the test part. So the number reported was tuned on nothing.

    Parameters
    ----------
    search : GridSearch or RandomSearch
        The search; copied, and left as it is.
    preferences, labels, features
        As in `cross_validate`.
    outer : int, list of Split, list of Fold, or splitter
        The outer folds, as `folds` of `cross_validate`. The `folds` of the search are the inner ones.
    metrics : str, Metric, or a list of them, optional
        What to report; that of the search comes first. Without it also ndcg@10 and map.
    convention : {"trec", "letor", "paper"}, optional
        Whose rules hold; those of the search when absent, or "letor" for given folds, else "trec". A search without a
        convention of its own takes this one.
    rel : float, optional
        Labels from here on are relevant; those of the search when absent.
    seeds : int or list of int
        With how many (or which) values of `random_state` the search is repeated; each sets that of the inner folds and
        draws and of the methods.
    random_state : int
        The seed of the outer folds.

    Returns
    -------
    Nested
        A `CrossValidation`, with what was chosen how often (`.counts`), the inner scores (`.inner`) and by how much
        they are too high (`.optimism`).

    Notes
    -----
    Cost: outer folds × seeds searches. They run side by side in threads, and the result does not depend on how many.

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
            f"{type(method).__name__} learns from labels, so that it cannot be evaluated on what it learned from. "
            "Pass folds=, such as 5."
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
    """Return whose rules hold: LETOR's where its folds are given, unless somebody says otherwise."""
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

"""Choice of a method by cross-validation within a time budget: `auto`, and the method `Auto` behind it.

A simple method is kept unless another one is better by one standard error of the paired differences.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from concordant.aggregators.blend import Blend, standardised
from concordant.arrays import Floats
from concordant.base.contract import Aggregator, Tags
from concordant.base.params import Constraint, either, integer, methods, metric_name, number, one_of, optional, seed
from concordant.base.registry import METHODS, create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.errors import DataError, DataWarning, NotFittedError, without_warnings
from concordant.execution import n_threads, report_progress, report_status, run_parallel, without_progress
from concordant.inference.experts import lists_per_expert
from concordant.learning.checkpoints import warn_of_no_checkpoint, without_checkpoint
from concordant.learning.supervision import match_labels
from concordant.metrics.evaluation import evaluate
from concordant.metrics.ranking import CONVENTIONS
from concordant.selection.folds import (
    Data,
    FoldData,
    check_data,
    fit_fold,
    labelled,
    make_folds,
    predict_with_features,
)
from concordant.selection.parallel_fits import unfitted_copy
from concordant.selection.search import ChosenMethod, join_features, validation_parts

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Auto", "AutoTrial", "auto"]

# With fewer labelled instances than this, a standard error says little.
_MIN_LABELLED = 10
# The fit to all instances takes about this many times as long as the fit of a fold, which sees fewer instances.
_REFIT_FACTOR = 1.25
# By the kind of data: the baselines, one of which is kept unless a candidate beats it; and the candidates, quick ones
# first.
_BASELINES: dict[str, tuple[str, ...]] = {
    "lists": ("rrf", "comb-sum"),
    "comparisons": ("bradley-terry",),
    "features": ("rank-regress",),
}
_CANDIDATES: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "lists": (
        ("comb-mnz", {}),
        ("borda", {}),
        ("rrf", {"weights": "learned"}),
        ("listwise-linear", {}),
        ("svd-rank", {}),
        ("crf", {}),
        ("boosted-trees", {}),
    ),
    "comparisons": (
        ("copeland", {}),
        ("bradley-terry", {"reliability": True}),
        ("listwise-linear", {}),
        ("svd-rank", {}),
        ("crf", {}),
        ("boosted-trees", {}),
    ),
    "features": (("list-mle", {}), ("lambdarank", {}), ("boosted-trees", {})),
}
# The candidates that use features of the items beside lists.
_CANDIDATES_WITH_FEATURES: tuple[tuple[str, dict[str, Any]], ...] = (("lambdarank", {}), ("boosted-trees", {}))
_EXTRAS = {"boosted-trees": ("lightgbm", "boost")}


class AutoTrial(NamedTuple):
    """The result of one method, or the reason why it was not measured.

    Attributes
    ----------
    name : str
        The method with its parameters.
    method : Aggregator
        The method, not fitted.
    mean : float
        The mean of the metric over held-out instances; NaN if it was not measured.
    above : float
        Its mean minus that of the baseline, the best of the methods kept by default; NaN for the baseline itself.
    stderr : float
        The standard error of that difference, paired by instance.
    seconds : float
        Time of its fits and predictions.
    outcome : str
        "chosen" or "kept" for the choice; "compared with" for the baseline if another method was chosen, and "below
        NAME" for the other default; "better" or "not better by one standard error"; or why it was not measured.
    """

    name: str
    method: Aggregator
    mean: float
    above: float
    stderr: float
    seconds: float
    outcome: str


class _Measurement(NamedTuple):
    """The cross-validation of one method: metrics of held-out instances and predictions by fold, or the error."""

    values: Floats | None
    answers: tuple[Consensus, ...]
    seconds: float
    error: str = ""


class Auto(ChosenMethod):
    """Choose a method by cross-validation within a time budget; `auto` fits one.

    Lists keep RRF or CombSUM, whichever is better; comparisons keep Bradley-Terry, and features linear regression.
    Another method is chosen only if its metric on held-out instances is better by more than one standard error of the
    differences, paired by instance. Of several, the one with the best mean is chosen.

    For lists, Borda and CombMNZ are tried, then learned RRF, listwise linear, SVDRank, the CRF and, with the extra
    `boost`, boosted trees. The last candidate is the blend, with equal weights, of the learners that beat the baseline;
    it needs no fits, because their held-out scores are known. Each fold fits a method with the labels of its training
    instances only. If a fold has experts that its training instances lack, the learners leave out experts they do not
    know (``unknown_experts="ignore"``).

    Parameters
    ----------
    budget : float or None
        Seconds for everything, the last fit included. The quick methods come first. A method is left out if its first
        folds, which are not interrupted, show that the others would take too long. None is no limit: then the choice
        does not depend on the speed of the machine.
    methods : "auto" or list of methods or names
        The candidates; the baselines are always tried.
    metric : str
        The metric of the choice.
    folds : int
        Number of folds; they follow from the ids of the instances.
    convention : {"trec", "letor", "paper"} or None
        Convention of the metric; None is "trec".
    rel : float or None
        The smallest relevant label; 1 by default.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    best_method_ : Aggregator
        The chosen method, fitted to all instances.
    tried_ : list of AutoTrial
        The results of all methods, or why a method was not tried.
    why_ : str
        The reason for the choice, in a sentence.

    Notes
    -----
    With fewer than 10 labelled instances, or fewer than `folds`, nothing is compared, and the first baseline is chosen.

    The mean of the chosen method is the largest of several, so it is too high on average. To measure the choice itself,
    cross-validate it: ``cross_validate(Auto(budget=20), ...)``.

    `save` writes the chosen method.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> found = cc.Auto(methods=["borda", cc.ListwiseLinear(l2=0.1)], budget=None).fit(runs, labels)
    >>> found.best_method_
    ListwiseLinear(l2=0.1)
    """

    name = "auto"
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}),
        supervised=True,
        stochastic=True,
        faithful=False,
        cost="what the budget allows",
    )
    takes_features = uses_features = True
    _writes_checkpoints = False
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "budget": optional(number(above=0)),
        "methods": either(one_of("auto"), methods(1)),
        "metric": metric_name(),
        "folds": integer(least=2),
        "convention": optional(one_of(*CONVENTIONS)),
        "rel": optional(number(above=0)),
        "random_state": seed(),
    }

    tried_: list[AutoTrial]
    why_: str

    def __init__(
        self,
        *,
        budget: float | None = 60.0,
        methods: str | Sequence[Aggregator | str] = "auto",
        metric: str = "ndcg@10",
        folds: int = 5,
        convention: str | None = None,
        rel: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.budget = budget
        self.methods = methods
        self.metric = metric
        self.folds = folds
        self.convention = convention
        self.rel = rel
        self.random_state = random_state

    def _fit(self, preferences: Data, labels: Labels | None, validation: Any, features: Features | None) -> None:
        warn_of_no_checkpoint(self, "a choice consists of many short fits")
        with without_checkpoint():
            self._choose_and_fit(preferences, labels, validation, features)

    def _choose_and_fit(
        self, preferences: Data, labels: Labels | None, validation: Any, features: Features | None
    ) -> None:
        """Measure the methods for these data, choose one, and fit it to all instances."""
        started = perf_counter()
        preferences, truth = check_data(preferences, labels, self.name)
        self.fit_info_.labels = match_labels(preferences, truth, self.name, require_usable=False).counts
        held, held_features = validation_parts(validation, self.name)
        all_features = features if features is None or held_features is None else join_features(features, held_features)
        baselines, challengers = self._candidates(preferences, features)
        n_labelled = int(labelled(preferences, truth).sum())
        measured: dict[int, _Measurement] = {}
        if n_labelled >= max(_MIN_LABELLED, self.folds):
            folds = make_folds(preferences, truth, self.folds, self.random_state, self.name)
            folds = [fold._replace(validation=held) for fold in folds]
            if isinstance(self.methods, str) and any(map(_has_unknown_experts, folds)):
                for method in (m for m in (*baselines, *challengers) if "unknown_experts" in m.get_params()):
                    method.set_params(unknown_experts="ignore")

            def seconds_left() -> float:
                return math.inf if self.budget is None else self.budget - (perf_counter() - started)

            measured = self._measure([*baselines, *challengers], len(baselines), folds, all_features, seconds_left)
            blend = self._blend([*baselines, *challengers], len(baselines), measured, folds, features)
            if blend is not None:
                challengers = [*challengers, blend[0]]
                measured[len(baselines) + len(challengers) - 1] = blend[1]
        self._choose([*baselines, *challengers], len(baselines), measured, n_labelled)
        best = self.best_method_
        whole = FoldData(preferences, truth, held, preferences, truth)
        report_status(f"fitting {best.name} to all instances")
        fit_fold(best, whole, None, self.random_state, all_features if best.uses_features else None)
        self.fit_info_.warnings += best.fit_info_.warnings
        self.fit_info_.converged = best.fit_info_.converged

    def _candidates(self, data: Data, features: Features | None) -> tuple[list[Aggregator], list[Aggregator]]:
        """Return the baselines and the candidates for this kind of data."""
        kind = "lists"
        if isinstance(data, (Features, Comparisons)):
            kind = "features" if isinstance(data, Features) else "comparisons"
        baselines = [create(name) for name in _BASELINES[kind]]
        if not isinstance(self.methods, str):
            return baselines, [unfitted_copy(create(method)) for method in self.methods]
        entries = _CANDIDATES[kind]
        if features is not None:
            entries = (*(entry for entry in entries if not METHODS[entry[0]].uses_features), *_CANDIDATES_WITH_FEATURES)
        out = []
        for name, params in entries:
            method = create(name, **params)
            if "select" in method.get_params():
                method.set_params(select=self.metric)
            if isinstance(data, Comparisons) and data.expert is None and params:
                continue  # reliability needs experts
            out.append(method)
        return baselines, out

    def _measure(
        self,
        candidates: Sequence[Aggregator],
        n_baselines: int,
        folds: Sequence[FoldData],
        features: Features | None,
        seconds_left: Callable[[], float],
    ) -> dict[int, _Measurement]:
        """Cross-validate the methods in turn, until the time is used up."""
        out: dict[int, _Measurement] = {}
        # Time for the fit to all instances, of the slowest method so far.
        reserved = fold_seconds = 0.0
        for c, method in enumerate(candidates):
            report_status(f"{method.name}, {c + 1} of {len(candidates)}")
            module, extra = _EXTRAS.get(method.name, ("", ""))
            if module and find_spec(module) is None:
                out[c] = _Measurement(None, (), 0.0, f"not tried: it needs the extra {extra!r}")
            elif c >= n_baselines and seconds_left() - reserved < fold_seconds:
                out[c] = _Measurement(None, (), 0.0, "not tried: the time was used up")
            else:
                own = features if method.uses_features else None
                time_limit = math.inf if c < n_baselines else seconds_left() - reserved
                out[c], fold_seconds = self._cross_validated(method, folds, own, time_limit)
                if out[c].values is not None:
                    reserved = max(reserved, _REFIT_FACTOR * fold_seconds)
            report_progress(c + 1, len(candidates))
        return out

    def _cross_validated(
        self, method: Aggregator, folds: Sequence[FoldData], features: Features | None, time_limit: float
    ) -> tuple[_Measurement, float]:
        """Return the values of the held-out instances, and the seconds of a fold."""

        def work(f: int) -> tuple[Consensus, Floats]:
            copy = unfitted_copy(method)
            with without_warnings():
                fit_fold(copy, folds[f], None, self.random_state, features)
                answer = predict_with_features(copy, folds[f].test, features)
            return answer, self._values(answer, folds[f])

        started = perf_counter()
        found: list[tuple[Consensus, Floats]] = []
        fold_seconds, n = 0.0, len(folds)
        try:
            # The first two folds run alone and are timed. The very first fit also loads and compiles code, so the
            # shorter time counts.
            for batch in (range(1), range(1, min(2, n)), range(2, n)):
                rounds = math.ceil(len(batch) / max(1, min(n_threads(), len(batch))))
                needed = fold_seconds * (rounds if batch.start < 2 else rounds + _REFIT_FACTOR)
                left = time_limit - (perf_counter() - started)
                if needed > left and batch:
                    text = f"it would take about {needed:.0f} s more, and {max(left, 0):.0f} s were left"
                    return _Measurement(None, (), perf_counter() - started, f"not finished: {text}"), fold_seconds
                batch_started = perf_counter()
                with without_progress():
                    found += run_parallel(partial(_at, work, batch), len(batch))
                seconds = (perf_counter() - batch_started) / max(rounds, 1)
                fold_seconds = min(fold_seconds, seconds) if batch.start and batch else fold_seconds or seconds
        except Exception as error:  # noqa: BLE001 - the error of one candidate is reported in its result
            seconds = perf_counter() - started
            return _Measurement(None, (), seconds, f"failed: {type(error).__name__}: {error}"), seconds
        seconds = perf_counter() - started
        return _Measurement(np.concatenate([v for _, v in found]), tuple(a for a, _ in found), seconds), fold_seconds

    def _values(self, answer: Consensus, fold: FoldData) -> Floats:
        found = evaluate(answer, fold.truth, self.metric, convention=self.convention or "trec", rel=self.rel)
        (values,) = found.values.values()
        return values

    def _blend(
        self,
        candidates: Sequence[Aggregator],
        n_baselines: int,
        measured: Mapping[int, _Measurement],
        folds: Sequence[FoldData],
        features: Features | None,
    ) -> tuple[Aggregator, _Measurement] | None:
        """Return the blend of the learners that beat the baseline, measured on their held-out scores."""
        means = {c: float(m.values.mean()) for c, m in measured.items() if m.values is not None}
        floor = max((mean for c, mean in means.items() if c < n_baselines), default=-math.inf)
        chosen = [c for c, mean in means.items() if c >= n_baselines and mean > floor and candidates[c].needs_labels()]
        if len(chosen) < 2 or features is not None or isinstance(folds[0].test, Features):
            return None
        started = perf_counter()
        answers, values = [], []
        for f, fold in enumerate(folds):
            slots = fold.test.slots
            score = np.mean([standardised(measured[c].answers[f]) for c in chosen], axis=0)
            answers.append(Consensus.from_codes(slots, score, *rank_scores(score, slots.offsets)))
            values.append(self._values(answers[-1], fold))
        blend = Blend(members=[candidates[c] for c in chosen], weights="equal")
        return blend, _Measurement(np.concatenate(values), tuple(answers), perf_counter() - started)

    def _choose(
        self, candidates: Sequence[Aggregator], n_baselines: int, measured: Mapping[int, _Measurement], n_labelled: int
    ) -> None:
        """Set the best method, what was tried, and why it was chosen."""
        info, metric = self.fit_info_, self.metric
        known = {c: m.values for c, m in measured.items() if m.values is not None}
        baselines = [c for c in known if c < n_baselines]
        if measured and not baselines:
            reasons = "; ".join(f"{candidates[c].name} {m.error}" for c, m in measured.items() if m.error)
            raise DataError(f"auto has no baseline to compare with: {reasons}.")
        base = max(baselines, key=lambda c: float(known[c].mean())) if baselines else 0
        best = base
        trials = []
        for c, method in enumerate(candidates):
            values = known.get(c)
            if values is None:
                seconds, why = (measured[c].seconds, measured[c].error) if c in measured else (0.0, "not tried")
                trials.append(AutoTrial(_method_text(method), method, math.nan, math.nan, math.nan, seconds, why))
                continue
            gap = values - known[base]
            above, stderr = float(gap.mean()), float(gap.std(ddof=1) / math.sqrt(len(gap)))
            better = above > stderr and above > 0
            if better and (best == base or values.mean() > known[best].mean()):
                best = c
            word = "better" if better else "not better"
            is_base = c == base
            trials.append(
                AutoTrial(
                    _method_text(method),
                    method,
                    float(values.mean()),
                    math.nan if is_base else above,
                    math.nan if is_base else stderr,
                    measured[c].seconds,
                    f"{word} by one standard error",
                )
            )
        trials[best] = trials[best]._replace(outcome="kept" if best < n_baselines else "chosen")
        if best != base:
            trials[base] = trials[base]._replace(outcome="compared with")
        for c in range(n_baselines):
            if c not in (base, best) and c in known:
                trials[c] = trials[c]._replace(outcome=f"below {candidates[base].name}")
        self.tried_ = trials
        self.best_method_ = unfitted_copy(candidates[best])
        chosen, baseline = trials[best], trials[base]
        n_measured = len(known)
        if not measured:
            self.why_ = (
                f"{chosen.name} is chosen without a comparison, which needs {max(_MIN_LABELLED, self.folds)} labelled "
                f"instances; there are {n_labelled}."
            )
            self._warn(self.why_, DataWarning)
        elif best == base:
            self.why_ = (
                f"{chosen.name} is kept ({metric} {chosen.mean:.4f}): none of {n_measured - 1} other methods is better "
                "by one standard error."
            )
        else:
            self.why_ = (
                f"{chosen.name} is chosen: {metric} {chosen.mean:.4f} on held-out instances is {chosen.above:.4f} ± "
                f"{chosen.stderr:.4f} above {baseline.name}, and the best of {n_measured} methods."
            )
        info.n_iter = n_measured
        info.validation = info.objective = None if math.isnan(chosen.mean) else chosen.mean
        info.chosen = {"method": chosen.name}

    @property
    def results_(self) -> pl.DataFrame:
        """What was tried, as a Polars frame: method, mean, above, stderr, seconds, outcome; null if not measured."""
        import polars as pl

        if "tried_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        rows = [(t.name, t.mean, t.above, t.stderr, t.seconds, t.outcome) for t in self.tried_]
        frame = pl.DataFrame(rows, schema=["method", "mean", "above", "stderr", "seconds", "outcome"], orient="row")
        return frame.with_columns(pl.col("mean", "above", "stderr").cast(pl.Float64).fill_nan(None))


def _has_unknown_experts(fold: FoldData) -> bool:
    """Return whether the test instances have experts that no training instance has."""
    if isinstance(fold.test, Features) or isinstance(fold.train, Features):
        return False
    return bool(((lists_per_expert(fold.test) > 0) & (lists_per_expert(fold.train) == 0)).any())


def _at(work: Callable[[int], Any], batch: Sequence[int], n: int) -> Any:
    return work(batch[n])


def _method_text(method: Aggregator) -> str:
    """Return a method as the command line reads it.

    >>> _method_text(Blend(members=[create("rrf", k=10), "borda"], weights="equal"))
    'blend(rrf(k=10), borda, weights=equal)'
    """
    defaults = inspect.signature(type(method).__init__).parameters
    params = {n: v for n, v in method.get_params().items() if v != defaults[n].default}
    members = params.pop(method.made_of, ())
    parts = [_method_text(create(m)) for m in (members if isinstance(members, (list, tuple)) else [members])]
    parts += [f"{name}={value}" for name, value in params.items()]
    return f"{method.name}({', '.join(parts)})" if parts else method.name


def auto(
    preferences: Any,
    labels: Labels,
    *,
    budget: float | None = 60.0,
    validation: Any = None,
    features: Features | None = None,
    **params: Any,
) -> Auto:
    """Try methods within a time budget, choose one by cross-validation, and return it fitted.

    Parameters
    ----------
    preferences : Preferences, Comparisons or Features
        The data.
    labels : Labels
        The ground truth, matched by id.
    budget : float or None
        Seconds; None is no limit.
    validation : pair (data, labels), optional
        Data for the early stopping of the methods, as in `fit`. The choice uses held-out training instances.
    features : Features, optional
        Features of the items beside preferences, for the methods that use them.
    **params
        Other parameters of `Auto`.

    Returns
    -------
    Auto
        With `predict`, `explain` and `save` of the chosen method, `best_method_`, `results_` and `why_`.

    Examples
    --------
    >>> import concordant as cc
    >>> runs, labels = cc.synthetic.labelled_runs(40, random_state=1)
    >>> found = cc.auto(runs[:30], labels, budget=None, methods=["borda", cc.ListwiseLinear(l2=0.1)])
    >>> print(found.why_)
    listwise-linear(l2=0.1) is chosen: ndcg@10 0.9007 on held-out instances is 0.2831 ± 0.0274 above comb-sum, and the
    best of 4 methods.
    >>> found.results_["outcome"].to_list()
    ['below comb-sum', 'compared with', 'not better by one standard error', 'chosen']
    >>> found.predict(runs[30:]).instances[:2].tolist()
    ['q31', 'q32']
    """
    return Auto(budget=budget, **params).fit(preferences, labels, validation=validation, features=features)

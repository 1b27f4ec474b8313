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
_FEWEST = 10
# Of the data kept out of a fold, and of the fit to all of it: what the last fit takes longer than one of a fold.
_LAST_FIT = 1.25
# Kept unless something is better, by the kind of data; and what is tried, the quick ones first.
_KEPT: dict[str, tuple[str, ...]] = {
    "lists": ("rrf", "comb-sum"),
    "comparisons": ("bradley-terry",),
    "features": ("rank-regress",),
}
_TRIED: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
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
# Beside lists, features of the items are used by these.
_WITH_FEATURES: tuple[tuple[str, dict[str, Any]], ...] = (("lambdarank", {}), ("boosted-trees", {}))
_NEEDED = {"boosted-trees": ("lightgbm", "boost")}


class AutoTrial(NamedTuple):
    """A method that was tried, or why it was not.

    Attributes
    ----------
    name : str
        The method with its parameters.
    method : Aggregator
        The same, not fitted.
    mean : float
        The mean of the metric over held-out instances; NaN if it was not measured.
    above : float
        By how much it is above the method that is kept by default; NaN for that.
    stderr : float
        The standard error of that difference, paired by instance.
    seconds : float
        Time of its fits and predictions.
    outcome : str
        "chosen", "kept", "better by one standard error", "not better by one standard error", or why it was not
        measured.
    """

    name: str
    method: Aggregator
    mean: float
    above: float
    stderr: float
    seconds: float
    outcome: str


class _Measured(NamedTuple):
    """The values of every held-out instance, and the consensus of every fold; or why there are none."""

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
    `boost`, boosted trees. At last comes the blend of the learners that are above the method that is kept, with equal
    weights: its held-out scores are there already. A method that learns from labels learns in every fold as it would
    learn in the end, and its metric is that of instances it has not seen. Where experts of some instances are in no
    others, the learners leave out experts they do not know (``unknown_experts="ignore"``).

    Parameters
    ----------
    budget : float or None
        Seconds for everything, the last fit included. The quick methods come first. A method is left out if its first
        folds, which are not interrupted, show that the others would take too long. None is no limit: then the choice
        does not depend on the speed of the machine.
    methods : "auto" or list of methods or names
        What is tried beside the methods that are kept.
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
        What was tried, and what was not and why.
    why_ : str
        The reason for the choice, in a sentence.

    Notes
    -----
    With fewer than 10 labelled instances nothing is compared, and the first of the kept methods is taken.

    The value of the chosen method is the largest of several, and so too high on average. To measure the choice itself,
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
        """Measure what fits the data, choose, and fit the choice to all instances."""
        started = perf_counter()
        preferences, truth = check_data(preferences, labels, self.name)
        self.fit_info_.labels = match_labels(preferences, truth, self.name, require_usable=False).counts
        given, theirs = validation_parts(validation, self.name)
        beside = features if features is None or theirs is None else join_features(features, theirs)
        kept, others = self._candidates(preferences, features)
        n_labelled = int(labelled(preferences, truth).sum())
        measured: dict[int, _Measured] = {}
        if n_labelled >= max(_FEWEST, self.folds):
            folds = make_folds(preferences, truth, self.folds, self.random_state, self.name)
            folds = [fold._replace(validation=given) for fold in folds]
            if isinstance(self.methods, str) and any(map(_has_strangers, folds)):
                for method in (m for m in (*kept, *others) if "unknown_experts" in m.get_params()):
                    method.set_params(unknown_experts="ignore")

            def left() -> float:
                return math.inf if self.budget is None else self.budget - (perf_counter() - started)

            measured = self._measure([*kept, *others], len(kept), folds, beside, left)
            blend = self._blend([*kept, *others], len(kept), measured, folds, features)
            if blend is not None:
                others = [*others, blend[0]]
                measured[len(kept) + len(others) - 1] = blend[1]
        self._choose([*kept, *others], len(kept), measured, n_labelled)
        best = self.best_method_
        whole = FoldData(preferences, truth, given, preferences, truth)
        report_status(f"fitting {best.name} to all instances")
        fit_fold(best, whole, None, self.random_state, beside if best.uses_features else None)
        self.fit_info_.warnings += best.fit_info_.warnings
        self.fit_info_.converged = best.fit_info_.converged

    def _candidates(self, data: Data, features: Features | None) -> tuple[list[Aggregator], list[Aggregator]]:
        """Return what is kept and what is tried, as methods that take these data."""
        kind = "lists"
        if isinstance(data, (Features, Comparisons)):
            kind = "features" if isinstance(data, Features) else "comparisons"
        kept = [create(name) for name in _KEPT[kind]]
        if not isinstance(self.methods, str):
            return kept, [unfitted_copy(create(method)) for method in self.methods]
        some = _TRIED[kind]
        if features is not None:
            some = (*(entry for entry in some if not METHODS[entry[0]].uses_features), *_WITH_FEATURES)
        out = []
        for name, params in some:
            method = create(name, **params)
            if "select" in method.get_params():
                method.set_params(select=self.metric)
            if isinstance(data, Comparisons) and data.expert is None and params:
                continue  # without judges there is no reliability
            out.append(method)
        return kept, out

    def _measure(
        self,
        candidates: Sequence[Aggregator],
        n_kept: int,
        folds: Sequence[FoldData],
        features: Features | None,
        left: Callable[[], float],
    ) -> dict[int, _Measured]:
        """Return what every candidate does on the held-out folds, as far as the time allows."""
        out: dict[int, _Measured] = {}
        # The longest of the last fits so far: one of them will be made.
        reserved = last_fold = 0.0
        for c, method in enumerate(candidates):
            report_status(f"{method.name}, {c + 1} of {len(candidates)}")
            module, extra = _NEEDED.get(method.name, ("", ""))
            if module and find_spec(module) is None:
                out[c] = _Measured(None, (), 0.0, f"not tried: it needs the extra {extra!r}")
            elif c >= n_kept and left() - reserved < last_fold:
                out[c] = _Measured(None, (), 0.0, "not tried: the time was used up")
            else:
                own = features if method.uses_features else None
                room = math.inf if c < n_kept else left() - reserved
                out[c], last_fold = self._cross_validated(method, folds, own, room)
                if out[c].values is not None:
                    reserved = max(reserved, _LAST_FIT * last_fold)
            report_progress(c + 1, len(candidates))
        return out

    def _cross_validated(
        self, method: Aggregator, folds: Sequence[FoldData], features: Features | None, room: float
    ) -> tuple[_Measured, float]:
        """Return the values of the held-out instances, and the seconds of a fold."""

        def work(f: int) -> tuple[Consensus, Floats]:
            copy = unfitted_copy(method)
            with without_warnings():
                fit_fold(copy, folds[f], None, self.random_state, features)
                answer = predict_with_features(copy, folds[f].test, features)
            return answer, self._values(answer, folds[f])

        started = perf_counter()
        found: list[tuple[Consensus, Floats]] = []
        fold, n = 0.0, len(folds)
        try:
            # Two alone at first. The very first fit also loads and compiles code, so that the shorter time counts.
            for step in (range(1), range(1, min(2, n)), range(2, n)):
                turns = math.ceil(len(step) / max(1, min(n_threads(), len(step))))
                needed = fold * (turns if step.start < 2 else turns + _LAST_FIT)
                left = room - (perf_counter() - started)
                if needed > left and step:
                    text = f"it would take about {needed:.0f} s more, and {max(left, 0):.0f} s were left"
                    return _Measured(None, (), perf_counter() - started, f"not finished: {text}"), fold
                begun = perf_counter()
                with without_progress():
                    found += run_parallel(partial(_later, work, step.start), len(step))
                seconds = (perf_counter() - begun) / max(turns, 1)
                fold = min(fold, seconds) if step.start and step else fold or seconds
        except Exception as error:  # noqa: BLE001 - whatever one candidate raises is reported beside the others
            seconds = perf_counter() - started
            return _Measured(None, (), seconds, f"failed: {type(error).__name__}: {error}"), seconds
        seconds = perf_counter() - started
        return _Measured(np.concatenate([v for _, v in found]), tuple(a for a, _ in found), seconds), fold

    def _values(self, answer: Consensus, fold: FoldData) -> Floats:
        found = evaluate(answer, fold.truth, self.metric, convention=self.convention or "trec", rel=self.rel)
        (values,) = found.values.values()
        return values

    def _blend(
        self,
        candidates: Sequence[Aggregator],
        n_kept: int,
        measured: Mapping[int, _Measured],
        folds: Sequence[FoldData],
        features: Features | None,
    ) -> tuple[Aggregator, _Measured] | None:
        """Return the blend of the learners that are above what is kept, measured on their held-out scores."""
        means = {c: float(m.values.mean()) for c, m in measured.items() if m.values is not None}
        floor = max((mean for c, mean in means.items() if c < n_kept), default=-math.inf)
        some = [c for c, mean in means.items() if c >= n_kept and mean > floor and candidates[c].needs_labels()]
        if len(some) < 2 or features is not None or isinstance(folds[0].test, Features):
            return None
        started = perf_counter()
        answers, values = [], []
        for f, fold in enumerate(folds):
            slots = fold.test.slots
            score = np.mean([standardised(measured[c].answers[f]) for c in some], axis=0)
            answers.append(Consensus.from_codes(slots, score, *rank_scores(score, slots.offsets)))
            values.append(self._values(answers[-1], fold))
        blend = Blend(members=[candidates[c] for c in some], weights="equal")
        return blend, _Measured(np.concatenate(values), tuple(answers), perf_counter() - started)

    def _choose(
        self, candidates: Sequence[Aggregator], n_kept: int, measured: Mapping[int, _Measured], n_labelled: int
    ) -> None:
        """Set the best method, what was tried, and why it was chosen."""
        info, metric = self.fit_info_, self.metric
        known = {c: m.values for c, m in measured.items() if m.values is not None}
        kept = [c for c in known if c < n_kept]
        if measured and not kept:
            reasons = "; ".join(f"{candidates[c].name} {m.error}" for c, m in measured.items() if m.error)
            raise DataError(f"auto could measure none of the methods that it keeps by default: {reasons}.")
        base = max(kept, key=lambda c: float(known[c].mean())) if kept else 0
        best = base
        trials = []
        for c, method in enumerate(candidates):
            values = known.get(c)
            if values is None:
                seconds, why = (measured[c].seconds, measured[c].error) if c in measured else (0.0, "not tried")
                trials.append(AutoTrial(_written(method), method, math.nan, math.nan, math.nan, seconds, why))
                continue
            gap = values - known[base]
            above, stderr = float(gap.mean()), float(gap.std(ddof=1) / math.sqrt(len(gap)))
            better = above > stderr and above > 0
            if better and (best == base or values.mean() > known[best].mean()):
                best = c
            word = "better" if better else "not better"
            nothing = c == base
            trials.append(
                AutoTrial(
                    _written(method),
                    method,
                    float(values.mean()),
                    math.nan if nothing else above,
                    math.nan if nothing else stderr,
                    measured[c].seconds,
                    f"{word} by one standard error",
                )
            )
        trials[best] = trials[best]._replace(outcome="kept" if best < n_kept else "chosen")
        if best != base:
            trials[base] = trials[base]._replace(outcome="compared with")
        for c in range(n_kept):
            if c not in (base, best) and c in known:
                trials[c] = trials[c]._replace(outcome=f"below {candidates[base].name}")
        self.tried_ = trials
        self.best_method_ = unfitted_copy(candidates[best])
        chosen, standard = trials[best], trials[base]
        n_measured = len(known)
        if not measured:
            self.why_ = (
                f"{chosen.name} is taken: {n_labelled} labelled instances are too few to compare methods, which takes "
                f"{max(_FEWEST, self.folds)}."
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
                f"{chosen.stderr:.4f} above {standard.name}, and the best of {n_measured} methods."
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


def _has_strangers(fold: FoldData) -> bool:
    """Return whether experts of the instances to predict are not among those of the training instances."""
    if isinstance(fold.test, Features) or isinstance(fold.train, Features):
        return False
    return bool(((lists_per_expert(fold.test) > 0) & (lists_per_expert(fold.train) == 0)).any())


def _later(work: Callable[[int], Any], first: int, f: int) -> Any:
    return work(first + f)


def _written(method: Aggregator) -> str:
    """Return a method as the command line reads it.

    >>> _written(Blend(members=[create("rrf", k=10), "borda"], weights="equal"))
    'blend(rrf(k=10), borda, weights=equal)'
    """
    defaults = inspect.signature(type(method).__init__).parameters
    params = {n: v for n, v in method.get_params().items() if v != defaults[n].default}
    members = params.pop(method.made_of, ())
    parts = [_written(create(m)) for m in (members if isinstance(members, (list, tuple)) else [members])]
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
    """Try what fits the data within a time budget, choose by cross-validation, and return the choice, fitted.

    Parameters
    ----------
    preferences : Preferences, Comparisons or Features
        The data.
    labels : Labels
        The ground truth, matched by id.
    budget : float or None
        Seconds; None is no limit.
    validation : pair (data, labels), optional
        Data by which methods stop early, as they would alone. The choice is made on held-out training instances.
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

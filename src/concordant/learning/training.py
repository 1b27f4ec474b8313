"""The training loop: passes of several learners, model selection on held-out instances, early stopping, checkpoints.

A learner is one way to train, such as one transform with one learning rate; it makes a pass and scores slots. The loop
runs all learners side by side, evaluates them after every pass and keeps the best pass of the best learner. Without a
validation part it cross-validates: it trains one model without each fold beside the one on all instances, and the curve
of held-out values tells when to stop the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.data.container import Container, counted
from concordant.data.streams import id_hash
from concordant.errors import ConvergenceWarning, DataError, DataWarning, FormatError, KindError
from concordant.execution import (
    force_threads,
    map_instances,
    n_threads,
    report_progress,
    report_status,
    without_progress,
)
from concordant.execution.blocks import Blocks
from concordant.kernels.lists import ranges
from concordant.learning.checkpoints import CheckpointFile, checkpoint
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, State
from concordant.learning.supervision import MatchedLabels, ValidationMetric

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.data.labels import Labels

__all__ = [
    "FEWEST_FOR_VALIDATION",
    "StoppingLearner",
    "Learner",
    "ObjectiveLearner",
    "ResumableLearner",
    "TrainingResult",
    "checkpoint",
    "train",
]

# Fewer usable instances than this are all needed for learning.
FEWEST_FOR_VALIDATION = 4
# A model whose value falls to this part of the best one on the way has been thrown off by its steps.
_COLLAPSE = 0.5
# So many slots a pass are gone through in less time than it takes to start a thread.
_LITTLE = 2000


class Learner(Protocol):
    """One way to train.

    Attributes
    ----------
    chosen : dict
        What sets it apart from its rivals, for messages and `fit_info_.chosen`.
    threaded : bool
        Where it has such an attribute: whether a pass spreads over the cores by itself.
    """

    chosen: dict[str, Any]

    def start(self) -> Floats:
        """Return the parameters before the first pass, as one flat array."""
        ...

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        """Return the parameters after pass `number` (from 0) over these training instances."""
        ...

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        """Return a score for every slot of `part` ("train" or "validation"); only those of `instances` need be true."""
        ...


@runtime_checkable
class StoppingLearner(Protocol):
    """A learner that knows when a further pass would change nothing worth while."""

    def finished(self, parameters: Floats) -> bool:
        """Return whether the passes that led to these parameters are enough."""
        ...


@runtime_checkable
class ObjectiveLearner(Protocol):
    """A learner that knows what it minimises, for a trace where nothing is held out to judge by."""

    def objective(self, parameters: Floats) -> float:
        """Return the value of the last pass."""
        ...


@runtime_checkable
class ResumableLearner(Protocol):
    """A learner whose passes take long, and can be put down and taken up again after a step."""

    def advance_in_steps(self, parameters: Floats, instances: Ints, number: int, checkpoint: Checkpointer) -> Floats:
        """Return what `advance` does; `checkpoint` keeps how far the pass is."""
        ...


class TrainingResult(NamedTuple):
    """What a training came to.

    Attributes
    ----------
    learner : int
        The number of the learner that did best.
    parameters : float64[]
        Its parameters after its best pass.
    passes : int
        How many passes that took.
    value : float or None
        The value on the validation part or in cross-validation; None when nothing could be held out.
    """

    learner: int
    parameters: Floats
    passes: int
    value: float | None


@dataclass
class _LearnerState:
    """Where the training of one learner stands: a model for each part it learns from, the last one to be kept."""

    models: list[Floats]
    best: Floats
    value: float = -np.inf
    passes: int = 0
    trace: list[float] = field(default_factory=list)
    stopped: str = ""


class _Fold(NamedTuple):
    """What a model learns from and what it is judged by."""

    learned: Ints
    judged: Ints | None
    # The slots of the instances judged.
    slots: Ints | None = None


def train(
    owner: Aggregator,
    learners: Sequence[Learner],
    *,
    votes: Container | Blocks,
    labels: Labels | None,
    truth: MatchedLabels,
    validation: tuple[Container, Labels] | None,
    passes: int,
    select: str = "ndcg@10",
    cv: int | None = 5,
    patience: int | None = None,
    smooth: int = 1,
    random_state: int = 0,
) -> TrainingResult:
    """Return the best pass of the best learner, and fill in `fit_info_`.

    Parameters
    ----------
    owner : Aggregator
        Whose fit this is.
    learners : sequence of Learner
        The candidates; of equals the first is kept.
    votes, labels, truth
        What is learned from. Blocks of instances need a validation part.
    validation : pair (votes, labels), optional
        What passes and learners are chosen by. Without it they are chosen by cross-validation over `cv` folds of the
        usable instances (fewer where these are few), and the model kept has seen all of them. With cv=None nothing is
        held out, and the last pass is kept.
    passes : int
        How many passes to make at most.
    select : str
        The metric to choose by, in the papers' convention.
    patience : int, optional
        Stop a learner after this many passes without a better value.
    smooth : int
        Value a pass by the mean over itself and the passes before it, so many in all: passes of stochastic ascent
        scatter, and the luckiest one is not the best.

    Notes
    -----
    Ctrl-C ends the training after the pass it falls into: the best so far is returned, `fit_info_.interrupted` says
    where it ended, and the interrupt is raised again once the method holds its state.
    """
    judge, held = _plan(owner, votes, labels, truth, validation, select, cv, random_state)
    if judge is not None and passes * len(learners) > 1:
        _require_sight(owner, judge, truth, validation, select)
    runs = [_start(learner, len(held)) for learner in learners]
    info = owner.fit_info_
    # Some instances whose labels differ say nothing to some metrics.
    info.labels = truth.counts | {"usable": len(truth.instances)}
    mark = _TrainingCheckpoint.of(owner, learners, (votes, labels), truth, held, validation)
    done = mark.restore(runs) if mark else 0
    part = "train" if validation is None else "validation"
    if isinstance(votes, Blocks):
        size = votes.n_rows
    else:
        size = sum(int(votes.slots.sizes[h.learned].sum()) for h in held)

    def work(task: tuple[int, int]) -> tuple[Floats, Floats | None]:
        which, model = task
        learner, own = learners[which], held[model]
        # A learner may change what it is given; a pass that an interrupt breaks off must leave no trace.
        parameters = runs[which].models[model].copy()
        if isinstance(learner, ResumableLearner):
            within = NO_CHECKPOINT if mark is None else mark.within(which, model)
            parameters = learner.advance_in_steps(parameters, own.learned, done, within)
        else:
            parameters = learner.advance(parameters, own.learned, done)
        return parameters, None if own.judged is None else learner.scores(parameters, part, own.judged)

    try:
        while done < passes:
            alive = [(r, m) for r, run in enumerate(runs) if not run.stopped for m in range(len(held))]
            if not alive:
                break
            if mark:
                mark.begin(runs, done)
            # Little work is done before a second thread has begun, and linear algebra has threads of its own.
            alone = size < _LITTLE or any(getattr(learner, "threaded", False) for learner in learners)
            with (
                without_progress(),
                force_threads(1 if alone else n_threads()),
                np.errstate(over="ignore", invalid="ignore"),
            ):
                results = map_instances(lambda t: work(alive[t]), len(alive))  # noqa: B023 - called before the next turn
            after = [replace(run, models=list(run.models), trace=list(run.trace)) for run in runs]
            scored: dict[int, list[Floats | None]] = {}
            for (r, m), (parameters, scores) in zip(alive, results, strict=True):
                after[r].models[m] = parameters
                scored.setdefault(r, []).append(scores)
            if done == 0 and validation is not None and passes * len(learners) > 1:
                _require_difference(owner, validation[0], held[0], scored)
            for r, scores_of in scored.items():
                value = _judged(judge, held, scores_of)
                shown = _objective(learners[r], after[r].models[-1]) if judge is None else value
                _settle(after[r], value, shown, done + 1, patience, smooth)
                if not after[r].stopped and _is_finished(learners[r], after[r].models):
                    after[r].stopped = "finished"
            # At once: an interrupt finds the state before a pass or after it, and nothing between.
            runs, done = after, done + 1
            report_progress(done, passes)
            report_status(_standing(runs, judge, select))
            if mark:
                mark.write(runs, done, last=done == passes or all(run.stopped for run in runs))
    except (KeyboardInterrupt, SystemExit) as stop:
        if mark:
            mark.close(runs, done)
        if done == 0:
            raise
        info.interrupted = f"after pass {done} of {passes}"
        owner._interrupt = stop
    return _finish(owner, learners, runs, done, judge, select)


def _is_finished(learner: Learner, models: Sequence[Floats]) -> bool:
    return isinstance(learner, StoppingLearner) and all(learner.finished(model) for model in models)


def _plan(
    owner: Aggregator,
    votes: Container | Blocks,
    labels: Labels | None,
    truth: MatchedLabels,
    validation: tuple[Container, Labels] | None,
    select: str,
    cv: int | None,
    random_state: int,
) -> tuple[ValidationMetric | None, list[_Fold]]:
    """Return the judge, and for every model what it learns from and is judged by."""
    usable = truth.instances
    name = type(owner).__name__
    # Items that are not learned from do not count in what is chosen by either.
    unjudged = getattr(owner, "unjudged", "zero")
    if validation is not None:
        judge = ValidationMetric(*validation, metric=select, unjudged=unjudged)
        if not len(judge.instances):
            raise DataError(
                f"{name} cannot choose by the validation part: none of its {len(validation[0])} instances has a label. "
                "Instances are matched by id; leave validation out to choose by cross-validation."
            )
        return judge, [_Fold(usable, judge.instances, _slots_of(validation[0], judge.instances))]
    if cv is None:
        return None, [_Fold(usable, None)]
    if isinstance(votes, Blocks):
        raise KindError(f"{name} learns from blocks with a validation part to choose by. Pass validation=.")
    if labels is None or len(usable) < FEWEST_FOR_VALIDATION:
        owner._warn(
            f"{name} learns from {counted(len(usable), 'instance')}, too few to hold any out: "
            "nothing is chosen, and the last pass is kept.",
            DataWarning,
        )
        return None, [_Fold(usable, None)]
    ids = votes.instances
    order = sorted(usable.tolist(), key=lambda n: (id_hash(f"{random_state}:{ids[n]}"), ids[n]))
    folds = min(cv, len(usable) // 2)
    parts = [np.sort(np.array(order[f::folds], dtype=np.int64)) for f in range(folds)]
    held = [_Fold(np.setdiff1d(usable, part), part, _slots_of(votes, part)) for part in parts]
    return ValidationMetric(votes, labels, metric=select, unjudged=unjudged), [*held, _Fold(usable, None)]


def _require_sight(
    owner: Aggregator,
    judge: ValidationMetric,
    truth: MatchedLabels,
    validation: tuple[Container, Labels] | None,
    select: str,
) -> None:
    """Raise when the metric to choose by is the same for every order of the items."""
    name = type(owner).__name__
    if validation is not None:
        if judge.blind():
            raise DataError(
                f"{name} cannot choose by the validation part: {select} is the same for every order of its items. Are "
                "all its labels 0, or all equal? Give other instances, or leave validation out to choose by "
                "cross-validation."
            )
    elif judge.blind(truth.instances):
        raise DataError(
            f"{name} cannot choose by {select}: it is the same for every order of the items in all "
            f"{len(truth.instances)} usable instances. Labels count above 0 in ndcg and err, from 1 on in map, mrr and "
            "p, and p@k asks for more than k items. Shift the labels, or choose by another metric: select='ndcg@10'."
        )


def _require_difference(
    owner: Aggregator, votes: Container, held: _Fold, scored: dict[int, list[Floats | None]]
) -> None:
    """Raise when nothing that is known tells the items of the validation part apart."""
    if held.slots is None:
        return
    first = votes.slots.offsets[votes.slots.instance[held.slots]]
    for scores in scored.values():
        if scores[0] is None or (scores[0][held.slots] != scores[0][first]).any():
            return
    raise DataError(
        f"{type(owner).__name__} cannot choose by the validation part: all its items score alike. Do the experts of "
        "the training part rank anything there? Leave validation out to choose by cross-validation."
    )


def _slots_of(votes: Container, instances: Ints) -> Ints:
    offsets = votes.slots.offsets
    return ranges(offsets[instances], offsets[instances + 1])


def _start(learner: Learner, n_models: int) -> _LearnerState:
    first = learner.start()
    return _LearnerState([first.copy() for _ in range(n_models)], first.copy())


def _judged(judge: ValidationMetric | None, held: Sequence[_Fold], scores: Sequence[Floats | None]) -> float:
    """Return the value of a pass: every instance is judged by the scores of a model that has not learned from it."""
    if judge is None:
        return np.nan
    joined = np.zeros(judge.n_slots)
    which = []
    for part, found in zip(held, scores, strict=True):
        if part.judged is not None and found is not None and part.slots is not None:
            joined[part.slots] = found[part.slots]
            which.append(part.judged)
    if np.isnan(joined).any():
        return -np.inf  # there is no order to judge
    # Equal but for rounding is equal, in whatever order the instances come.
    return round(judge(joined, np.concatenate(which)), 12)


def _objective(learner: Learner, parameters: Floats) -> float:
    return learner.objective(parameters) if isinstance(learner, ObjectiveLearner) else np.nan


def _settle(run: _LearnerState, value: float, shown: float, done: int, patience: int | None, smooth: int) -> None:
    """Note what a pass came to, and what is to be shown of it."""
    last = run.models[-1]
    if not all(np.isfinite(model).all() for model in run.models):
        run.stopped = f"diverged in pass {done}"
        return
    run.trace.append(shown)
    if not np.isnan(value):
        value = round(float(np.mean(run.trace[-smooth:])), 12)
    if np.isnan(value) or value > run.value:
        run.value, run.passes, run.best = value, done, last.copy()
    elif patience is not None and done - run.passes >= patience:
        run.stopped = "patience"


def _best(runs: Sequence[_LearnerState]) -> int:
    value = [run.value if np.isfinite(run.value) or run.passes else -np.inf for run in runs]
    value = [v if not np.isnan(v) else 0.0 for v in value]
    return int(np.argmax(value))


def _standing(runs: Sequence[_LearnerState], judge: ValidationMetric | None, select: str) -> str:
    if judge is None:
        return ""
    best = runs[_best(runs)]
    return f"{select} {best.value:.4f} at pass {best.passes}"


def _finish(
    owner: Aggregator,
    learners: Sequence[Learner],
    runs: Sequence[_LearnerState],
    done: int,
    judge: ValidationMetric | None,
    select: str,
) -> TrainingResult:
    which = _best(runs)
    run, learner = runs[which], learners[which]
    info, name = owner.fit_info_, type(owner).__name__
    calmer = " Choose a smaller learning_rate." if hasattr(owner, "learning_rate") else ""
    if not run.passes:
        raise DataError(
            f"{name} diverged in its first pass with {_words(learner)}: its weights are no longer finite."
            f"{calmer or ' Are the weights of some lists huge?'}"
        )
    value = None if judge is None else run.value
    info.n_iter, info.trace, info.validation = done, list(run.trace), value
    info.chosen = dict(learner.chosen) | ({"passes": run.passes} if judge is not None else {})
    info.objective = value
    info.converged = not info.interrupted
    if run.stopped.startswith("diverged"):
        info.converged = False
        owner._warn(
            f"{name} {run.stopped} with {_words(learner)}: its weights are no longer finite. The best pass before, "
            f"{run.passes}, is kept.{calmer}",
            ConvergenceWarning,
        )
    elif calmer and judge is not None and run.trace[-1] < _COLLAPSE * run.value:
        owner._warn(
            f"{name} was thrown off with {_words(learner)}: {select} fell from {run.value:.4f} in pass {run.passes} to "
            f"{run.trace[-1]:.4f}. The best pass is kept.{calmer}",
            ConvergenceWarning,
        )
    if info.interrupted:
        worth = "" if value is None else f", {select} {value:.4f}"
        owner._warn(
            f"{name} was interrupted {info.interrupted}: the best pass so far, {run.passes}{worth}, is kept.",
            ConvergenceWarning,
        )
    return TrainingResult(which, run.best, run.passes, value)


def _words(learner: Learner) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in learner.chosen.items()) or "these settings"


# Checkpoints.


class _PassCheckpoint:
    """How far one model is within a pass, as `Checkpointer` has it; an interrupt is the training's business."""

    enabled = True

    def __init__(self, mark: _TrainingCheckpoint, name: str) -> None:
        self._mark = mark
        self._name = name

    def restore(self) -> State | None:
        return self._mark.within_pass.get(self._name)

    def steps(self, total: int) -> AbstractContextManager[None]:
        return nullcontext()

    def save(self, done: int, state: Callable[[], State]) -> None:
        self._mark.note_within(self._name, state())


class _TrainingCheckpoint:
    """The file a training writes where it stands to: after passes, and within them where learners tell."""

    def __init__(self, file: CheckpointFile) -> None:
        self._file = file
        self._passes: tuple[list[_LearnerState], int] = ([], 0)
        # How far models are within the pass after those.
        self.within_pass: dict[str, State] = {}
        # Models are trained in threads, and write one file.
        self._lock = Lock()
        self._open = False

    @classmethod
    def of(
        cls,
        owner: Aggregator,
        learners: Sequence[Learner],
        data: tuple[Container | Blocks, Labels | None],
        truth: MatchedLabels,
        held: list[_Fold],
        validation: tuple[Container, Labels] | None,
    ) -> _TrainingCheckpoint | None:
        more = [truth.label, *(part.learned for part in held), *(learner.start() for learner in learners)]
        file = CheckpointFile.of(owner, (*data, *(validation or ())), more)
        return None if file is None else cls(file)

    def begin(self, runs: list[_LearnerState], done: int) -> None:
        """Say which passes are done before the next one, within which models may tell how far they are."""
        with self._lock:
            self._stand(runs, done)
            self._open = True

    def within(self, which: int, model: int) -> Checkpointer:
        """Return who keeps how far a model is within a pass."""
        return _PassCheckpoint(self, f"within.{which}.{model}")

    def note_within(self, name: str, state: State) -> None:
        """Keep how far a model is within a pass."""
        with self._lock:
            # A thread that an interrupt has left behind may still be at work.
            if self._open:
                self.within_pass[name] = state
                if self._file.due:
                    self._write()

    def write(self, runs: list[_LearnerState], done: int, *, last: bool) -> None:
        """Write the state after a pass where it is time to, or after the last one."""
        with self._lock:
            self._stand(runs, done)
            if last or self._file.due:
                self._write()

    def close(self, runs: list[_LearnerState], done: int) -> None:
        """Write the state after an interrupt, and nothing from then on."""
        with self._lock:
            self._stand(runs, done)
            if done or self.within_pass:
                self._write()
            self._open = False

    def _stand(self, runs: list[_LearnerState], done: int) -> None:
        if done != self._passes[1]:
            self.within_pass = {}
        self._passes = runs, done

    def _write(self) -> None:
        runs, done = self._passes
        arrays: dict[str, NDArray[Any]] = {}
        state = []
        for r, run in enumerate(runs):
            arrays[f"models.{r}"] = np.stack(run.models)
            arrays[f"best.{r}"] = run.best
            arrays[f"trace.{r}"] = np.array(run.trace)
            value = run.value if np.isfinite(run.value) else None
            state.append({"value": value, "passes": run.passes, "stopped": run.stopped})
        for name, inner in self.within_pass.items():
            arrays |= {f"{name}.{part}": array for part, array in inner.items()}
        self._file.write({"done": done, "runs": state}, arrays)

    def restore(self, runs: list[_LearnerState]) -> int:
        """Return how many passes the file holds, and take them up."""
        found = self._file.read()
        if found is None:
            return 0
        header, arrays = found
        try:
            for r, (run, state) in enumerate(zip(runs, header["runs"], strict=True)):
                run.models = list(arrays[f"models.{r}"].copy())
                run.best = arrays[f"best.{r}"].copy()
                run.trace = arrays[f"trace.{r}"].tolist()
                # Without anything held out the value of a pass is not a number; before the first it is -inf.
                run.passes, run.stopped = int(state["passes"]), str(state["stopped"])
                absent = np.nan if run.passes else -np.inf
                run.value = absent if state["value"] is None else float(state["value"])
            done = int(header["done"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self._file.path}: the checkpoint lacks a part. Remove it to begin anew.") from error
        self._passes = runs, done
        for name in arrays:
            if name.startswith("within."):
                model, _, part = name.rpartition(".")
                self.within_pass[model] = {**self.within_pass.get(model, {}), part: arrays[name]}
        return done

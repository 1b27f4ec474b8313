"""The training loop: passes of several learners, model selection on held-out instances, early stopping, checkpoints.

A learner is a candidate of model selection, such as one transform with one learning rate; it makes passes and scores
slots. The loop runs all learners side by side, evaluates them after every pass and keeps the best pass of the best
learner. Without validation data it cross-validates: for every learner it trains one model on all instances, and one for
each fold without the instances of that fold. The held-out value of the latter selects the pass of the former.
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
    "require_selective_metric",
    "train",
]

# With fewer usable instances than this, none is held out.
FEWEST_FOR_VALIDATION = 4
# A learner whose last value is below this fraction of its best one took steps that were too long.
_COLLAPSE = 0.5
# A pass over fewer slots than this takes less time than starting a thread.
_FEW_SLOTS = 2000


class Learner(Protocol):
    """A candidate of model selection: one setting with its training algorithm.

    Attributes
    ----------
    chosen : dict
        The settings that distinguish it from the other candidates, for messages and `fit_info_.chosen`.
    threaded : bool
        Optional: whether a pass uses several threads by itself.
    """

    chosen: dict[str, Any]

    def start(self) -> Floats:
        """Return the parameters before the first pass, as one flat array."""
        ...

    def advance(self, parameters: Floats, instances: Ints, number: int) -> Floats:
        """Return the parameters after pass `number` (from 0) over these training instances."""
        ...

    def scores(self, parameters: Floats, part: str, instances: Ints | None) -> Floats:
        """Return a score for every slot of `part` ("train" or "validation"); only those of `instances` are used."""
        ...


@runtime_checkable
class StoppingLearner(Protocol):
    """A learner with a stopping rule of its own."""

    def finished(self, parameters: Floats) -> bool:
        """Return whether it has converged at these parameters."""
        ...


@runtime_checkable
class ObjectiveLearner(Protocol):
    """A learner that reports its objective, which is traced if no instances are held out."""

    def objective(self, parameters: Floats) -> float:
        """Return the objective in the last pass."""
        ...


@runtime_checkable
class ResumableLearner(Protocol):
    """A learner whose passes consist of steps, with a checkpoint after each step."""

    def advance_in_steps(self, parameters: Floats, instances: Ints, number: int, checkpoint: Checkpointer) -> Floats:
        """Return the same as `advance`; `checkpoint` saves and restores the state within the pass."""
        ...


class TrainingResult(NamedTuple):
    """The selected model.

    Attributes
    ----------
    learner : int
        The number of the best learner.
    parameters : float64[]
        Its parameters after its best pass.
    passes : int
        The number of that pass, from 1.
    value : float or None
        The metric on the validation part or in cross-validation; None if nothing was held out.
    """

    learner: int
    parameters: Floats
    passes: int
    value: float | None


@dataclass
class _LearnerState:
    """State of one learner: a model for each fold; the last model is the one to keep.

    Attributes
    ----------
    models : list of float64[]
        The parameters of each model.
    best, value, passes
        The parameters of the last model after the best pass so far, the value and the number of that pass.
    trace : list of float
        The value of every pass.
    stopped : str
        Why the learner makes no more passes; empty while it does.
    """

    models: list[Floats]
    best: Floats
    value: float = -np.inf
    passes: int = 0
    trace: list[float] = field(default_factory=list)
    stopped: str = ""


class _Fold(NamedTuple):
    """The training instances of a model, the instances on which it is evaluated, and the slots of the latter."""

    train: Ints
    test: Ints | None
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
    """Train all learners, select the best pass of the best learner, and fill in `fit_info_`.

    Parameters
    ----------
    owner : Aggregator
        The method that is fitted.
    learners : sequence of Learner
        The candidates. The first of several equally good ones is selected.
    votes, labels, truth
        The training data and their matched labels. Blocks of instances need `validation`.
    validation : pair (votes, labels), optional
        The data by which passes and learners are selected. Without them `train` selects by cross-validation over `cv`
        folds of the usable instances (fewer folds for very few instances), and returns a model trained on all usable
        instances. With cv=None nothing is held out, and the last pass is returned.
    passes : int
        The largest number of passes.
    select : str
        The selection metric, in the papers' convention.
    patience : int, optional
        Stop a learner after this many passes without a better value.
    smooth : int
        The value of a pass is the mean over the last `smooth` passes. Passes of stochastic gradient ascent are noisy,
        and the maximum of noisy values would select a lucky pass.

    Notes
    -----
    Ctrl-C ends the training after the last finished pass: the best model so far is returned, `fit_info_.interrupted`
    names that pass, and the interrupt is raised again at the end of the fit.
    """
    metric, folds = _split(owner, votes, labels, truth, validation, select, cv, random_state)
    if metric is not None and passes * len(learners) > 1:
        require_selective_metric(owner, metric, truth, validation, select)
    states = [_start(learner, len(folds)) for learner in learners]
    info = owner.fit_info_
    # Fewer than `match_labels` counted, if the metric of the method cannot use some instances.
    info.labels = truth.counts | {"usable": len(truth.instances)}
    training_checkpoint = _TrainingCheckpoint.of(owner, learners, (votes, labels), truth, folds, validation)
    done = training_checkpoint.restore(states) if training_checkpoint else 0
    part = "train" if validation is None else "validation"
    if isinstance(votes, Blocks):
        size = votes.n_rows
    else:
        size = sum(int(votes.slots.sizes[fold.train].sum()) for fold in folds)

    def advance(task: tuple[int, int]) -> tuple[Floats, Floats | None]:
        which, model = task
        learner, fold = learners[which], folds[model]
        # A copy, since a learner may write to it, and an interrupted pass must leave the state unchanged.
        parameters = states[which].models[model].copy()
        if isinstance(learner, ResumableLearner):
            pass_checkpoint = NO_CHECKPOINT
            if training_checkpoint is not None:
                pass_checkpoint = training_checkpoint.for_pass(which, model)
            parameters = learner.advance_in_steps(parameters, fold.train, done, pass_checkpoint)
        else:
            parameters = learner.advance(parameters, fold.train, done)
        return parameters, None if fold.test is None else learner.scores(parameters, part, fold.test)

    try:
        while done < passes:
            tasks = [(r, m) for r, state in enumerate(states) if not state.stopped for m in range(len(folds))]
            if not tasks:
                break
            if training_checkpoint:
                training_checkpoint.begin(states, done)
            # A second thread costs more than it saves if there is little work, or if a pass has threads of its own.
            serial = size < _FEW_SLOTS or any(getattr(learner, "threaded", False) for learner in learners)
            with (
                without_progress(),
                force_threads(1 if serial else n_threads()),
                np.errstate(over="ignore", invalid="ignore"),
            ):
                results = map_instances(lambda t: advance(tasks[t]), len(tasks))  # noqa: B023 - called before the next turn
            new_states = [replace(state, models=list(state.models), trace=list(state.trace)) for state in states]
            scored: dict[int, list[Floats | None]] = {}
            for (r, m), (parameters, scores) in zip(tasks, results, strict=True):
                new_states[r].models[m] = parameters
                scored.setdefault(r, []).append(scores)
            if done == 0 and validation is not None and passes * len(learners) > 1:
                _require_distinct_scores(owner, validation[0], folds[0], scored)
            for r, scores_of in scored.items():
                value = _validation_value(metric, folds, scores_of)
                traced = _objective(learners[r], new_states[r].models[-1]) if metric is None else value
                _record_pass(new_states[r], value, traced, done + 1, patience, smooth)
                if not new_states[r].stopped and _is_finished(learners[r], new_states[r].models):
                    new_states[r].stopped = "finished"
            # In one statement, so that an interrupt finds the state either before or after the pass.
            states, done = new_states, done + 1
            report_progress(done, passes)
            report_status(_status(states, metric, select))
            if training_checkpoint:
                is_last = done == passes or all(state.stopped for state in states)
                training_checkpoint.write(states, done, last=is_last)
    except (KeyboardInterrupt, SystemExit) as stop:
        if training_checkpoint:
            training_checkpoint.close(states, done)
        if done == 0:
            raise
        info.interrupted = f"after pass {done} of {passes}"
        owner._interrupt = stop
    return _finish(owner, learners, states, done, metric, select)


def _is_finished(learner: Learner, models: Sequence[Floats]) -> bool:
    return isinstance(learner, StoppingLearner) and all(learner.finished(model) for model in models)


def _split(
    owner: Aggregator,
    votes: Container | Blocks,
    labels: Labels | None,
    truth: MatchedLabels,
    validation: tuple[Container, Labels] | None,
    select: str,
    cv: int | None,
    random_state: int,
) -> tuple[ValidationMetric | None, list[_Fold]]:
    """Return the validation metric (None if nothing is held out) and a fold for every model."""
    usable = truth.instances
    name = type(owner).__name__
    if validation is not None:
        # Items that are left out of the training are left out of the validation too.
        metric = ValidationMetric(*validation, metric=select, unjudged=truth.unjudged)
        if not len(metric.instances):
            raise DataError(
                f"{name} cannot choose by the validation part: none of its {len(validation[0])} instances has a label. "
                "Instances are matched by id; leave validation out to choose by cross-validation."
            )
        return metric, [_Fold(usable, metric.instances, _slots_of(validation[0], metric.instances))]
    if cv is None:
        return None, [_Fold(usable, None)]
    if isinstance(votes, Blocks):
        raise KindError(f"{name} needs validation data to learn from blocks. Pass validation=.")
    if labels is None or len(usable) < FEWEST_FOR_VALIDATION:
        owner._warn(
            f"{name} learns from {counted(len(usable), 'instance')}, too few to hold any out: "
            "nothing is chosen, and the last pass is kept.",
            DataWarning,
        )
        return None, [_Fold(usable, None)]
    ids = votes.instances
    order = sorted(usable.tolist(), key=lambda n: (id_hash(f"{random_state}:{ids[n]}"), ids[n]))
    n_folds = min(cv, len(usable) // 2)
    parts = [np.sort(np.array(order[f::n_folds], dtype=np.int64)) for f in range(n_folds)]
    folds = [_Fold(np.setdiff1d(usable, part), part, _slots_of(votes, part)) for part in parts]
    return ValidationMetric(votes, labels, metric=select, unjudged=truth.unjudged), [*folds, _Fold(usable, None)]


def require_selective_metric(
    owner: Aggregator,
    metric: ValidationMetric,
    truth: MatchedLabels,
    validation: tuple[Container, Labels] | None,
    select: str,
) -> None:
    """Raise DataError if the selection metric is the same for every order of the items."""
    name = type(owner).__name__
    if validation is not None:
        if metric.is_constant():
            raise DataError(
                f"{name} cannot choose by the validation part: {select} is the same for every order of its items. Are "
                "all its labels 0, or all equal? Give other instances, or leave validation out to choose by "
                "cross-validation."
            )
    elif metric.is_constant(truth.instances):
        raise DataError(
            f"{name} cannot choose by {select}: it is the same for every order of the items in all "
            f"{len(truth.instances)} usable instances. ndcg and err need labels above 0; map, mrr and p need labels of "
            "1 or more; p@k needs more than k items. Shift the labels, or choose by another metric: select='ndcg@10'."
        )


def _require_distinct_scores(
    owner: Aggregator, votes: Container, fold: _Fold, scored: dict[int, list[Floats | None]]
) -> None:
    """Raise DataError if every learner gives all items of each validation instance the same score."""
    if fold.slots is None:
        return
    first = votes.slots.offsets[votes.slots.instance[fold.slots]]
    for scores in scored.values():
        if scores[0] is None or (scores[0][fold.slots] != scores[0][first]).any():
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


def _validation_value(
    metric: ValidationMetric | None, folds: Sequence[_Fold], scores: Sequence[Floats | None]
) -> float:
    """Return the metric of a pass; each instance is scored by a model that was not trained on it."""
    if metric is None:
        return np.nan
    joined = np.zeros(metric.n_slots)
    which = []
    for fold, score in zip(folds, scores, strict=True):
        if fold.test is not None and score is not None and fold.slots is not None:
            joined[fold.slots] = score[fold.slots]
            which.append(fold.test)
    if np.isnan(joined).any():
        return -np.inf  # no order to evaluate
    # Rounded, so that ties between passes do not depend on the order of the instances in the mean.
    return round(metric(joined, np.concatenate(which)), 12)


def _objective(learner: Learner, parameters: Floats) -> float:
    return learner.objective(parameters) if isinstance(learner, ObjectiveLearner) else np.nan


def _record_pass(
    state: _LearnerState, value: float, traced: float, done: int, patience: int | None, smooth: int
) -> None:
    """Record the value of a pass in the state; `traced` is the value or the objective, for the trace."""
    last = state.models[-1]
    if not all(np.isfinite(model).all() for model in state.models):
        state.stopped = f"diverged in pass {done}"
        return
    state.trace.append(traced)
    if not np.isnan(value):
        value = round(float(np.mean(state.trace[-smooth:])), 12)
    if np.isnan(value) or value > state.value:
        state.value, state.passes, state.best = value, done, last.copy()
    elif patience is not None and done - state.passes >= patience:
        state.stopped = "patience"


def _best(states: Sequence[_LearnerState]) -> int:
    """Return the number of the learner with the best value; the first one that made a pass, if nothing is held out."""
    value = [state.value if np.isfinite(state.value) or state.passes else -np.inf for state in states]
    value = [v if not np.isnan(v) else 0.0 for v in value]
    return int(np.argmax(value))


def _status(states: Sequence[_LearnerState], metric: ValidationMetric | None, select: str) -> str:
    if metric is None:
        return ""
    best = states[_best(states)]
    return f"{select} {best.value:.4f} at pass {best.passes}"


def _finish(
    owner: Aggregator,
    learners: Sequence[Learner],
    states: Sequence[_LearnerState],
    done: int,
    metric: ValidationMetric | None,
    select: str,
) -> TrainingResult:
    """Return the best pass of the best learner, fill in `fit_info_`, and warn if training diverged or got worse."""
    which = _best(states)
    state, learner = states[which], learners[which]
    info, name = owner.fit_info_, type(owner).__name__
    rate_hint = " Choose a smaller learning_rate." if "learning_rate" in owner.param_names() else ""
    if not state.passes:
        raise DataError(
            f"{name} diverged in its first pass with {_settings(learner)}: its weights are no longer finite."
            f"{rate_hint or ' Are the weights of some lists huge?'}"
        )
    value = None if metric is None else state.value
    info.n_iter, info.trace, info.validation = done, list(state.trace), value
    info.chosen = dict(learner.chosen) | ({"passes": state.passes} if metric is not None else {})
    info.objective = value
    info.converged = not info.interrupted
    if state.stopped.startswith("diverged"):
        info.converged = False
        owner._warn(
            f"{name} {state.stopped} with {_settings(learner)}: its weights are no longer finite. The best pass "
            f"before, {state.passes}, is kept.{rate_hint}",
            ConvergenceWarning,
        )
    elif rate_hint and metric is not None and state.trace[-1] < _COLLAPSE * state.value:
        owner._warn(
            f"{name} got much worse in training with {_settings(learner)}: {select} fell from {state.value:.4f} in "
            f"pass {state.passes} to {state.trace[-1]:.4f}. The best pass is kept.{rate_hint}",
            ConvergenceWarning,
        )
    if info.interrupted:
        with_value = "" if value is None else f", {select} {value:.4f}"
        owner._warn(
            f"{name} was interrupted {info.interrupted}: the best pass so far, {state.passes}{with_value}, is kept.",
            ConvergenceWarning,
        )
    return TrainingResult(which, state.best, state.passes, value)


def _settings(learner: Learner) -> str:
    """Return the settings of a learner as text, for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in learner.chosen.items()) or "these settings"


# Checkpoints.


class _PassCheckpoint:
    """`Checkpointer` of one model within a pass; the training loop handles interrupts."""

    enabled = True

    def __init__(self, training: _TrainingCheckpoint, name: str) -> None:
        self._training = training
        self._name = name

    def restore(self) -> State | None:
        return self._training.within_pass.get(self._name)

    def steps(self, total: int) -> AbstractContextManager[None]:
        return nullcontext()

    def save(self, done: int, state: Callable[[], State]) -> None:
        self._training.save_within_pass(self._name, state())


class _TrainingCheckpoint:
    """Checkpoint of the training loop, written after passes and, for a `ResumableLearner`, within them."""

    def __init__(self, file: CheckpointFile) -> None:
        self._file = file
        self._passes: tuple[list[_LearnerState], int] = ([], 0)
        # States of models within the current pass.
        self.within_pass: dict[str, State] = {}
        # Models are trained in several threads, and there is one file.
        self._lock = Lock()
        self._open = False

    @classmethod
    def of(
        cls,
        owner: Aggregator,
        learners: Sequence[Learner],
        data: tuple[Container | Blocks, Labels | None],
        truth: MatchedLabels,
        folds: list[_Fold],
        validation: tuple[Container, Labels] | None,
    ) -> _TrainingCheckpoint | None:
        arrays = [truth.label, *(fold.train for fold in folds), *(learner.start() for learner in learners)]
        file = CheckpointFile.of(owner, (*data, *(validation or ())), arrays)
        return None if file is None else cls(file)

    def begin(self, states: list[_LearnerState], done: int) -> None:
        """Begin a pass: from now on models may save their states within it."""
        with self._lock:
            self._set_passes(states, done)
            self._open = True

    def for_pass(self, which: int, model: int) -> Checkpointer:
        """Return the checkpointer of a model within a pass."""
        return _PassCheckpoint(self, f"within.{which}.{model}")

    def save_within_pass(self, name: str, state: State) -> None:
        """Keep the state of a model within a pass, and write the file if a write is due."""
        with self._lock:
            # After an interrupt, threads may still be running.
            if self._open:
                self.within_pass[name] = state
                if self._file.due:
                    self._write()

    def write(self, states: list[_LearnerState], done: int, *, last: bool) -> None:
        """Write the state after a pass, if it is the last one or a write is due."""
        with self._lock:
            self._set_passes(states, done)
            if last or self._file.due:
                self._write()

    def close(self, states: list[_LearnerState], done: int) -> None:
        """Write the state after an interrupt, and ignore states that models save later."""
        with self._lock:
            self._set_passes(states, done)
            if done or self.within_pass:
                self._write()
            self._open = False

    def _set_passes(self, states: list[_LearnerState], done: int) -> None:
        if done != self._passes[1]:
            self.within_pass = {}
        self._passes = states, done

    def _write(self) -> None:
        states, done = self._passes
        arrays: dict[str, NDArray[Any]] = {}
        entries = []
        for r, state in enumerate(states):
            arrays[f"models.{r}"] = np.stack(state.models)
            arrays[f"best.{r}"] = state.best
            arrays[f"trace.{r}"] = np.array(state.trace)
            value = state.value if np.isfinite(state.value) else None
            entries.append({"value": value, "passes": state.passes, "stopped": state.stopped})
        for name, inner in self.within_pass.items():
            arrays |= {f"{name}.{part}": array for part, array in inner.items()}
        self._file.write({"done": done, "runs": entries}, arrays)

    def restore(self, states: list[_LearnerState]) -> int:
        """Read the states from the file, if there is one, and return the number of finished passes."""
        found = self._file.read()
        if found is None:
            return 0
        header, arrays = found
        try:
            for r, (state, entry) in enumerate(zip(states, header["runs"], strict=True)):
                state.models = list(arrays[f"models.{r}"].copy())
                state.best = arrays[f"best.{r}"].copy()
                state.trace = arrays[f"trace.{r}"].tolist()
                # The file holds None for -inf, the value before the first pass, and for NaN, if nothing is held out.
                state.passes, state.stopped = int(entry["passes"]), str(entry["stopped"])
                absent = np.nan if state.passes else -np.inf
                state.value = absent if entry["value"] is None else float(entry["value"])
            done = int(header["done"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self._file.path}: the checkpoint lacks a part. Remove it to start afresh.") from error
        self._passes = states, done
        for name in arrays:
            if name.startswith("within."):
                model, _, part = name.rpartition(".")
                self.within_pass[model] = {**self.within_pass.get(model, {}), part: arrays[name]}
        return done

"""Training in passes, chosen on instances that were not learned from: one loop for everything that is trained.

A learner is one way to train (a transform, a learning rate); it knows how to make one pass and how to score. The loop
runs all learners side by side, judges them after every pass and keeps the best pass of the best learner. Without a
validation part it trains a model without each fold beside the one on everything, so that the curve of held-out values
tells when to stop the latter. Where it is after every pass can be written to a file and taken up again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from concordant.base.supervision import Judge, Truth
from concordant.data.comparisons import Comparisons
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.preferences import Preferences
from concordant.data.streams import id_hash
from concordant.errors import DataError, FormatError
from concordant.execution import map_instances, n_threads, note, report, threads, unwatched
from concordant.kernels.lists import Floats, Ints, ranges

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.data.labels import Labels

__all__ = ["FEWEST", "Finishing", "Learner", "Measured", "Trained", "checkpoint", "train"]

# Fewer usable instances than this are all needed for learning.
FEWEST = 4
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
class Finishing(Protocol):
    """A learner that knows when a further pass would change nothing worth while."""

    def finished(self, parameters: Floats) -> bool:
        """Return whether the passes that led to these parameters are enough."""
        ...


@runtime_checkable
class Measured(Protocol):
    """A learner that knows what it minimises, for a trace where nothing is held out to judge by."""

    def objective(self, parameters: Floats) -> float:
        """Return the value of the last pass."""
        ...


class Trained(NamedTuple):
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
class _Run:
    """Where the training of one learner stands: a model for each part it learns from, the last one to be kept."""

    models: list[Floats]
    best: Floats
    value: float = -np.inf
    passes: int = 0
    trace: list[float] = field(default_factory=list)
    stopped: str = ""


class _Held(NamedTuple):
    """What a model learns from and what it is judged by."""

    learned: Ints
    judged: Ints | None
    # The slots of the instances judged.
    slots: Ints | None = None


def train(
    owner: Aggregator,
    learners: Sequence[Learner],
    *,
    votes: Container,
    labels: Labels | None,
    truth: Truth,
    validation: tuple[Container, Labels] | None,
    passes: int,
    select: str = "ndcg@10",
    cv: int | None = 5,
    patience: int | None = None,
    smooth: int = 1,
    random_state: int = 0,
) -> Trained:
    """Return the best pass of the best learner, and fill in `fit_info_`.

    Parameters
    ----------
    owner : Aggregator
        Whose fit this is.
    learners : sequence of Learner
        The candidates; of equals the first is kept.
    votes, labels, truth
        What is learned from.
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
    mark = _Mark.of(owner, learners, (votes, labels), truth, held, validation)
    done = mark.restore(runs) if mark else 0
    part = "train" if validation is None else "validation"
    size = sum(int(votes.slots.sizes[h.learned].sum()) for h in held)

    def work(task: tuple[int, int]) -> tuple[Floats, Floats | None]:
        which, model = task
        learner, own = learners[which], held[model]
        # A learner may change what it is given; a pass that an interrupt breaks off must leave no trace.
        parameters = learner.advance(runs[which].models[model].copy(), own.learned, done)
        return parameters, None if own.judged is None else learner.scores(parameters, part, own.judged)

    try:
        while done < passes:
            alive = [(r, m) for r, run in enumerate(runs) if not run.stopped for m in range(len(held))]
            if not alive:
                break
            # Little work is done before a second thread has begun, and linear algebra has threads of its own.
            alone = size < _LITTLE or any(getattr(learner, "threaded", False) for learner in learners)
            with (
                unwatched(),
                threads(1 if alone else n_threads()),
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
            report(done, passes)
            note(_standing(runs, judge, select))
            if mark:
                mark.write(runs, done, last=done == passes or all(run.stopped for run in runs))
    except (KeyboardInterrupt, SystemExit) as stop:
        if done == 0:
            raise
        if mark:
            mark.write(runs, done, last=True)
        info.interrupted = f"after pass {done} of {passes}"
        owner._stop = stop
    return _finish(owner, learners, runs, done, judge, select)


def _is_finished(learner: Learner, models: Sequence[Floats]) -> bool:
    return isinstance(learner, Finishing) and all(learner.finished(model) for model in models)


def _plan(
    owner: Aggregator,
    votes: Container,
    labels: Labels | None,
    truth: Truth,
    validation: tuple[Container, Labels] | None,
    select: str,
    cv: int | None,
    random_state: int,
) -> tuple[Judge | None, list[_Held]]:
    """Return the judge, and for every model what it learns from and is judged by."""
    usable = truth.instances
    name = type(owner).__name__
    # Items that are not learned from do not count in what is chosen by either.
    unjudged = getattr(owner, "unjudged", "zero")
    if validation is not None:
        judge = Judge(*validation, metric=select, unjudged=unjudged)
        if not len(judge.instances):
            raise DataError(
                f"{name} cannot choose by the validation part: none of its {len(validation[0])} instances has a label. "
                "Instances are matched by id; leave validation out to choose by cross-validation."
            )
        return judge, [_Held(usable, judge.instances, _slots_of(validation[0], judge.instances))]
    if cv is None:
        return None, [_Held(usable, None)]
    if labels is None or len(usable) < FEWEST:
        owner._warn(
            f"{name} learns from {len(usable)} instance{'s' if len(usable) != 1 else ''}, too few to hold any out: "
            "nothing is chosen, and the last pass is kept."
        )
        return None, [_Held(usable, None)]
    ids = votes.instances
    order = sorted(usable.tolist(), key=lambda n: (id_hash(f"{random_state}:{ids[n]}"), ids[n]))
    folds = min(cv, len(usable) // 2)
    parts = [np.sort(np.array(order[f::folds], dtype=np.int64)) for f in range(folds)]
    held = [_Held(np.setdiff1d(usable, part), part, _slots_of(votes, part)) for part in parts]
    return Judge(votes, labels, metric=select, unjudged=unjudged), [*held, _Held(usable, None)]


def _require_sight(
    owner: Aggregator, judge: Judge, truth: Truth, validation: tuple[Container, Labels] | None, select: str
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
    owner: Aggregator, votes: Container, held: _Held, scored: dict[int, list[Floats | None]]
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


def _start(learner: Learner, n_models: int) -> _Run:
    first = learner.start()
    return _Run([first.copy() for _ in range(n_models)], first.copy())


def _judged(judge: Judge | None, held: Sequence[_Held], scores: Sequence[Floats | None]) -> float:
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
    return learner.objective(parameters) if isinstance(learner, Measured) else np.nan


def _settle(run: _Run, value: float, shown: float, done: int, patience: int | None, smooth: int) -> None:
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


def _best(runs: Sequence[_Run]) -> int:
    value = [run.value if np.isfinite(run.value) or run.passes else -np.inf for run in runs]
    value = [v if not np.isnan(v) else 0.0 for v in value]
    return int(np.argmax(value))


def _standing(runs: Sequence[_Run], judge: Judge | None, select: str) -> str:
    if judge is None:
        return ""
    best = runs[_best(runs)]
    return f"{select} {best.value:.4f} at pass {best.passes}"


def _finish(
    owner: Aggregator,
    learners: Sequence[Learner],
    runs: Sequence[_Run],
    done: int,
    judge: Judge | None,
    select: str,
) -> Trained:
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
            f"{run.passes}, is kept.{calmer}"
        )
    elif calmer and judge is not None and run.trace[-1] < _COLLAPSE * run.value:
        owner._warn(
            f"{name} was thrown off with {_words(learner)}: {select} fell from {run.value:.4f} in pass {run.passes} to "
            f"{run.trace[-1]:.4f}. The best pass is kept.{calmer}"
        )
    if info.interrupted:
        worth = "" if value is None else f", {select} {value:.4f}"
        owner._warn(f"{name} was interrupted {info.interrupted}: the best pass so far, {run.passes}{worth}, is kept.")
    return Trained(which, run.best, run.passes, value)


def _words(learner: Learner) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in learner.chosen.items()) or "these settings"


# Checkpoints.

_place: ContextVar[tuple[Path, bool, float] | None] = ContextVar("concordant_checkpoint", default=None)


@contextmanager
def checkpoint(path: str | os.PathLike[str], *, resume: bool = True, every: float = 10.0) -> Iterator[None]:
    """Have the fit inside the block write where it stands to a file, and go on from there when it is run again.

    Parameters
    ----------
    path : path
        The file; written whole or not at all.
    resume : bool
        Go on from the file where it exists; otherwise begin anew and overwrite it.
    every : float
        Seconds between two writings. The state is also written at the end and on Ctrl-C.

    Notes
    -----
    What is resumed ends bit for bit where it would have ended without the break. A file of another fit (other data,
    labels or parameters) is refused. It is for one fit, and stays when that is finished.

    Examples
    --------
    >>> import concordant as cc, tempfile, os
    >>> runs, labels = cc.synthetic.labelled_runs(12, random_state=1)
    >>> file = os.path.join(tempfile.mkdtemp(), "fit.checkpoint")
    >>> with cc.checkpoint(file):
    ...     model = cc.CRF(passes=3).fit(runs, labels)
    >>> os.path.exists(file)
    True
    """
    token = _place.set((Path(path), resume, every))
    try:
        yield
    finally:
        _place.reset(token)


@dataclass
class _Mark:
    """The file a fit writes where it stands to."""

    path: Path
    resume: bool
    every: float
    header: dict[str, Any]
    written: float = field(default_factory=monotonic)

    @classmethod
    def of(
        cls,
        owner: Aggregator,
        learners: Sequence[Learner],
        data: tuple[Container, Labels | None],
        truth: Truth,
        held: list[_Held],
        validation: tuple[Container, Labels] | None,
    ) -> _Mark | None:
        place = _place.get()
        if place is None:
            return None
        mark = _fingerprint(owner, learners, data, truth, held, validation)
        return cls(*place, header={"method": owner.name, "fit": mark})

    def write(self, runs: Sequence[_Run], done: int, *, last: bool) -> None:
        from concordant.base.saving import write_arrays

        if not last and monotonic() - self.written < self.every:
            return
        arrays: dict[str, NDArray[Any]] = {}
        state = []
        for r, run in enumerate(runs):
            arrays[f"models.{r}"] = np.stack(run.models)
            arrays[f"best.{r}"] = run.best
            arrays[f"trace.{r}"] = np.array(run.trace)
            value = run.value if np.isfinite(run.value) else None
            state.append({"value": value, "passes": run.passes, "stopped": run.stopped})
        write_arrays(self.path, "checkpoint", self.header | {"done": done, "runs": state}, arrays)
        self.written = monotonic()

    def restore(self, runs: list[_Run]) -> int:
        """Return how many passes the file holds, and take them up."""
        from concordant.base.saving import read_arrays

        if not self.resume or not self.path.exists():
            return 0
        header, arrays = read_arrays(self.path, "checkpoint")
        if any(header.get(name) != value for name, value in self.header.items()):
            raise FormatError(
                f"{self.path}: the checkpoint of another fit (of {header.get('method')!r}): data, labels or parameters "
                "differ. Go on with what it was begun with, or remove it to begin anew."
            )
        try:
            for r, (run, state) in enumerate(zip(runs, header["runs"], strict=True)):
                run.models = list(arrays[f"models.{r}"].copy())
                run.best = arrays[f"best.{r}"].copy()
                run.trace = arrays[f"trace.{r}"].tolist()
                # Without anything held out the value of a pass is not a number; before the first it is -inf.
                run.passes, run.stopped = int(state["passes"]), str(state["stopped"])
                absent = np.nan if run.passes else -np.inf
                run.value = absent if state["value"] is None else float(state["value"])
            return int(header["done"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self.path}: the checkpoint lacks a part. Remove it to begin anew.") from error


def _fingerprint(
    owner: Aggregator,
    learners: Sequence[Learner],
    data: tuple[Container, Labels | None],
    truth: Truth,
    held: list[_Held],
    validation: tuple[Container, Labels] | None,
) -> str:
    """Return a hash of everything a fit depends on."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(owner.get_params(), sort_keys=True, default=repr).encode())
    columns: list[NDArray[Any]] = [truth.label]
    for votes, labels in (data,) if validation is None else (data, validation):
        texts = [votes.instances, votes.items]
        columns.append(votes.slots.offsets)
        if isinstance(votes, (Preferences, Comparisons)):
            texts.append(votes.experts)
        if isinstance(votes, Features):
            texts.append(votes.names)
            columns.append(votes.X)
        elif isinstance(votes, Preferences):
            columns += [
                votes.slot,
                votes.value,
                votes.list_offsets,
                votes.list_expert,
                votes.list_starts,
                votes.weights,
            ]
        elif isinstance(votes, Comparisons):
            columns += [votes.left, votes.right, votes.n_left, votes.n_right, votes.n_ties]
            columns += [] if votes.expert is None else [votes.expert]
        if labels is not None:
            texts += [labels.instances, labels.items]
            columns += [labels.slots.offsets, labels.label]
        for ids in texts:
            digest.update("\0".join(ids.tolist()).encode("utf-8", "surrogatepass"))
    columns += [*(part.learned for part in held), *(learner.start() for learner in learners)]
    for column in columns:
        digest.update(f"{column.dtype}{column.shape}".encode())
        # As a view: a copy of all features would be a heavy price for a name.
        digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

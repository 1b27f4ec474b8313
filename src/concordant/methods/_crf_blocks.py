"""The CRF learned from blocks of instances, wherever they are: what it climbs, and what sets its scale, are sums.

A block keeps its labelled instances as rows and draws; the weights go out, the value and the slope come back. Terms are
rounded to a grid on which their sums are exact, so that the climb is the same, bit for bit, however the instances are
spread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.base.checkpoints import Mark
from concordant.base.experts import speaking
from concordant.base.shift import Reached, Seen
from concordant.base.supervision import Judge, match_labels, validation_pair
from concordant.data.streams import id_hash
from concordant.errors import DataError, KindError
from concordant.execution import Pieces, note, report, unwatched
from concordant.kernels.keeping import State
from concordant.kernels.lists import Floats, Ints
from concordant.methods._linear import TRANSFORMS, Said, arranged, candidates, ordered
from concordant.ranking.expert_features import Blocks, ExpertRows, anybody, blocks_by_lists

if TYPE_CHECKING:
    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks as BlocksOfInstances
    from concordant.kernels.crf import Aim, Samples
    from concordant.methods.crf import CRF

__all__ = ["fit_blocks"]


class _Judged(NamedTuple):
    """The labelled instances of a block, their labels by slot, and what is told of the block."""

    votes: Preferences | None
    label: Floats
    usable: Ints
    lists: Ints
    speaks: bool
    highest: float
    counts: dict[str, int]


class _Rows(NamedTuple):
    """The rows of those instances by one transform, and the instances in which one order can be better than another."""

    own: ExpertRows
    aim: Aim
    telling: Ints
    instances: list[str]


class _Scale(NamedTuple):
    """What sets the scale of the climb, added up."""

    n_telling: int
    n_slots: int
    variance: Floats


class _Draws(NamedTuple):
    """The draws of a block, in the units of the climb."""

    samples: Samples
    own: ExpertRows
    aim: Aim


def fit_blocks(owner: CRF, blocks: BlocksOfInstances, labels: Labels | None, validation: Any) -> None:
    """Fit by L-BFGS on sums over blocks; transform and penalty are chosen by the validation part."""
    from concordant.methods.crf import climb, path_of, units_of

    name = type(owner).__name__
    pair = validation_pair(validation, name)
    if owner.solver != "lbfgs" or owner.sums != "full" or pair is None:
        raise KindError(
            f"{name} learns from blocks with solver='lbfgs', sums='full' and a validation part in memory to choose by: "
            "CRF(solver='lbfgs').fit(blocks, labels, validation=(preferences, labels))."
        )
    if labels is None:
        raise DataError(f"{name} learns from labels and got none. Call fit(blocks, labels, validation=...).")
    judged = blocks.pieces.keep(_judged, owner, labels)
    told = list(judged.map(_tell))
    counts = {key: sum(t[3][key] for t in told) for key in told[0][3]} | {"instances": len(blocks.instances)}
    if not counts["labelled"]:
        raise DataError(
            f"{name} found no label: none of {len(blocks.instances):,} instances has any. Do the ids match?"
        )
    lists = np.sum([t[0] for t in told], axis=0)
    weights = blocks_by_lists(blocks.experts.tolist(), lists, owner.weights, owner.min_lists)
    weights = owner._checked_blocks(weights, any(t[1] for t in told), len(blocks.instances))
    own_names = set(weights.names[: weights.n_own])
    strangers = any(n and e not in own_names for e, n in zip(blocks.experts, lists.tolist(), strict=True))
    highest = max(t[2] for t in told)
    owner._require_telling(counts["usable"], counts["usable"])
    seen = Seen.over([part for part in judged.map(_reached, owner, weights) if part is not None])
    judge = Judge(*pair, metric=owner.select, unjudged=owner.unjudged)
    if not len(judge.instances):
        raise DataError(f"{name} cannot choose by the validation part: none of its instances has a label.")
    transforms = candidates(owner.transform, TRANSFORMS)
    best: tuple[float, Any] = (-np.inf, None)
    course = _Course(Mark(owner, [blocks, labels, *pair]), 3 * len(weights))
    done, total = 0, len(path_of(owner, 1.0)) * len(transforms)
    with course.mark.steps(total):
        for transform in transforms:
            rows = judged.keep(_rows, owner, weights, transform, highest)
            scale = _added(rows, len(weights))
            owner._require_telling(scale.n_telling, counts["usable"])
            unit, size = units_of(scale.variance / max(scale.n_slots, 1), owner)
            held = owner._rows_of(pair[0], weights, (transform,), " of the validation part", seen)
            w = (owner._first(weights, None) / unit).ravel()
            trace, objective = [], None
            for number, l2 in enumerate(path_of(owner, size)):
                if done < len(course.found):
                    w = course.found[done]
                else:
                    objective = objective or _Total(rows.keep(_drawn, owner, unit), scale.n_telling, len(weights))
                    with unwatched():
                        w = climb(objective, scale.n_telling, l2, size, w, course)
                own = _heard(w.reshape(-1, 3) * unit, weights, strangers)
                value = round(judge(held.scores(own, judge.instances), judge.instances), 12)
                trace.append(value)
                if value > best[0]:
                    chosen = {"transform": transform, "passes": number + 1, "l2": l2}
                    best = (value, (own, transform, chosen, trace, scale.n_telling))
                done += 1
                course.reached(done, w)
                report(done, total)
                note(f"{owner.select} {best[0]:.4f}")
    if best[1] is None:
        raise DataError(f"{name} cannot choose by the validation part: {owner.select} is not defined on it.")
    own, transform, chosen, trace, usable = best[1]
    info = owner.fit_info_
    info.labels, info.chosen, info.trace = counts | {"usable": usable}, chosen, trace
    info.n_iter, info.validation, info.objective = len(trace), best[0], best[0]
    parts = list(blocks.pieces.map(_said, owner, weights, transform))
    said = Said(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))
    owner._take_over(own, (transform,), weights, said, seen)


def _reached(piece: _Judged, owner: CRF, weights: Blocks) -> Reached | None:
    if piece.votes is None or not len(piece.usable):
        return None
    return owner._reached(piece.votes, weights, piece.usable)


def _said(block: Preferences, owner: CRF, weights: Blocks, transform: str) -> Said:
    return Said.of(owner._rows_of(block, weights, (transform,)), len(weights))


def _heard(w: Floats, weights: Blocks, shared_taught: bool) -> Floats:
    """Return the weights to score with: where nobody taught the shared ones, a stranger is an average expert."""
    if weights.shared < 0 or not weights.n_own or shared_taught:
        return w
    w = w.copy()
    w[weights.shared] = w[: weights.n_own].mean(axis=0)
    return w


class _Course:
    """The climbs of a fit, one after another: where those that are done ended, and how far the next one is.

    To a climb it is a `kernels.keeping.Keep`; an interrupt is the business of the whole.
    """

    def __init__(self, mark: Mark, size: int) -> None:
        self.mark = mark
        known = mark.restored()
        self.found: list[Floats] = [] if known is None else list(known["found"].reshape(-1, size))
        self._next = known if known is not None and "points" in known else None
        # What is known has yet to be gone through.
        mark.done = 0

    @property
    def wanted(self) -> bool:
        return self.mark.wanted

    def restored(self) -> State | None:
        known, self._next = self._next, None
        return known

    def steps(self, total: int) -> AbstractContextManager[None]:
        return nullcontext()

    def note(self, done: int, state: Callable[[], State]) -> None:
        self.mark.note(len(self.found), lambda: self._ends() | dict(state()))

    def reached(self, done: int, w: Floats) -> None:
        """Keep where a climb ended, unless that is known."""
        self.mark.done = done
        if done > len(self.found):
            self.found.append(w)
            self.mark.note(done, self._ends)

    def _ends(self) -> dict[str, NDArray[Any]]:
        return {"found": np.concatenate([np.zeros(0), *self.found])}


class _Total:
    """The value and the slope of all instances at some weights."""

    def __init__(self, draws: Pieces[_Draws | None], n: int, n_blocks: int) -> None:
        from concordant.kernels.crf import grids_of

        self._draws = draws
        self._grids = grids_of(n, max(draws.map(_largest), default=0.0))
        self._shape = (n_blocks, 3)

    def __call__(self, w: Floats) -> tuple[float, Floats]:
        value, slope = 0.0, np.zeros(self._shape)
        for part, own in self._draws.map(_objective, w, self._grids):
            value += part
            slope += own
        return value, slope


def _judged(block: Preferences, owner: CRF, labels: Labels) -> _Judged:
    owner._checked(block)
    known = labels.instances.codes
    shared = [q for q in block.instances if q in known]
    lists, speaks = speaking(block), anybody(block)
    none = np.zeros(0, dtype=np.int64)
    if not shared:
        counts = dict.fromkeys(("instances", "labelled", "usable", "items", "judged", "unjudged", "elsewhere"), 0)
        return _Judged(None, np.zeros(0), none, lists, speaks, -np.inf, counts | {"items": block.n_slots})
    votes = block[shared]
    own = labels[np.array([known[q] for q in shared], dtype=np.int64)]
    truth = match_labels(votes, own, type(owner).__name__, unjudged=owner.unjudged, usable=False)
    highest = float(np.nanmax(truth.label)) if not np.isnan(truth.label).all() else -np.inf
    return _Judged(votes, truth.label, truth.instances, lists, speaks, highest, truth.counts)


def _tell(piece: _Judged) -> tuple[Ints, bool, float, dict[str, int]]:
    return piece.lists, piece.speaks, piece.highest, piece.counts


def _rows(piece: _Judged, owner: CRF, weights: Blocks, transform: str, highest: float) -> _Rows | None:
    if piece.votes is None:
        return None
    offsets = piece.votes.slots.offsets
    aim = owner._aim(piece.label, offsets, highest)
    telling = owner._telling(aim, piece.usable, offsets)
    own, slots = arranged(owner._rows_of(piece.votes, weights, (transform,)), aim.label)
    aim = aim._replace(gain=aim.gain[slots], label=aim.label[slots])
    return _Rows(own, aim, ordered(telling, piece.votes.instances), piece.votes.instances.tolist())


def _added(rows: Pieces[_Rows | None], n_blocks: int) -> _Scale:
    """Return what sets the scale, over all blocks."""
    parts = [part for part in rows.map(_scale, n_blocks) if part is not None]
    variance = np.sum([part.variance for part in parts], axis=0)
    return _Scale(sum(part.n_telling for part in parts), sum(part.n_slots for part in parts), variance)


def _scale(piece: _Rows | None, n_blocks: int) -> _Scale | None:
    from concordant.kernels.listwise import spreads

    if piece is None:
        return None
    own = piece.own
    variance = np.zeros((n_blocks, 3))
    spreads(own.offsets, own.starts, own.block, own.X, piece.telling, variance)
    slots = int((own.offsets[piece.telling + 1] - own.offsets[piece.telling]).sum())
    return _Scale(len(piece.telling), slots, variance * slots)


def _drawn(piece: _Rows | None, owner: CRF, unit: Floats) -> _Draws | None:
    from concordant.kernels.crf import draw_samples, pools_of, visit_order
    from concordant.methods.crf import FIXED_DRAWS

    if piece is None or not len(piece.telling):
        return None
    own = piece.own._replace(X=piece.own.X * unit)
    seeds = np.array([id_hash(f"{owner.random_state}:{q}") for q in piece.instances], dtype=np.uint64)
    pools = pools_of(own.offsets, piece.aim.label, own.key)
    samples = draw_samples(
        visit_order(piece.telling, seeds, 0),
        pools,
        seeds,
        epsilon=owner.epsilon,
        n_samples=owner.n_samples or FIXED_DRAWS,
    )
    return _Draws(samples, own, piece.aim)


def _largest(piece: _Draws | None) -> float:
    return 0.0 if piece is None else float(np.abs(piece.own.X).max(initial=0.0))


def _objective(piece: _Draws | None, w: Floats, grids: tuple[float, float]) -> tuple[float, Floats]:
    from concordant.kernels.crf import batch_objective

    if piece is None:
        return 0.0, np.zeros_like(w)
    own = piece.own
    return batch_objective(w, piece.samples, own.starts, own.block, own.X, piece.aim, grids=grids)

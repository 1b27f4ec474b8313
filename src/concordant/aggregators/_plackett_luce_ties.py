"""Davidson-Luce ties in Plackett-Luce: the likelihood of one instance, and tie parameters shared by all instances.

A tie of k items is an outcome of its own with the parameter δ_k (`kernels.davidson_luce`). The log-likelihood is
concave in the scores and τ = log δ jointly. τ maximises the profile likelihood, the sum over instances of the maximum
over their scores, by Newton's method; the instances may be in memory or in blocks on workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from concordant.aggregators._pairwise_votes import LARGE, each_instance
from concordant.aggregators._plackett_luce_fit import (
    Optimum,
    PenalisedLikelihood,
    SandwichParts,
    newton,
    optima_state,
    restored_optima,
)
from concordant.arrays import Floats, Ints
from concordant.errors import DataError, NoFiniteEstimateError, listing
from concordant.execution import Shards, report_progress, threads
from concordant.kernels import davidson_luce
from concordant.kernels.linear_systems import conjugate_gradients
from concordant.kernels.plackett_luce import Rankings
from concordant.learning.newton import NewtonResult, NewtonState, NewtonStep, maximise
from concordant.learning.optimisers import max_norm
from concordant.learning.resumable import Checkpointer, State, join_states, split_states

__all__ = [
    "ChoiceCounts",
    "DavidsonLuceLikelihood",
    "TieBlock",
    "TieFit",
    "TieParameters",
    "choice_counts",
    "learn_ties",
    "profile_meat",
    "start_parameters",
]

# No tie parameter moves further than this in one step, on the scale of logarithms.
_LONGEST_STEP = 4.0
# Where lists are longer than this, on average by rows, no dense Hessian is formed but for intervals.
_LONG_LIST = 20
# Beyond this a logarithm of δ is no estimate.
_BOUND = 300.0
# Information below this part of that without the other parameters leaves an estimate unbounded.
_SINGULAR = 1e-8


class TieParameters(NamedTuple):
    """The sizes of chosen sets, ascending from 1, and log δ of each; 0 for size 1."""

    sizes: Ints
    log_delta: Floats

    @classmethod
    def of(cls, sizes: Ints, delta: Floats) -> TieParameters:
        """Return the parameters from the sizes of ties and their δ."""
        return cls(np.concatenate([[1], sizes]).astype(np.int64), np.concatenate([[0.0], np.log(delta)]))

    @property
    def delta(self) -> Floats:
        """δ of the sizes of ties, those above 1."""
        out: Floats = np.exp(self.log_delta[1:])
        return out

    def moved(self, step: Floats) -> TieParameters:
        """Return the parameters after a step of log δ of the sizes above 1."""
        return self._replace(log_delta=np.concatenate([[0.0], self.log_delta[1:] + step]))


NO_TIES = TieParameters(np.ones(1, dtype=np.int64), np.zeros(1))


class DavidsonLuceLikelihood(PenalisedLikelihood):
    """The penalised log-likelihood of one instance with Davidson-Luce ties, as a function of its scores.

    Parameters
    ----------
    rankings, size, precision, gamma, scale
        As in `PenalisedLikelihood`; rests must be expanded, and a tied block in last place is chosen (mark 1).
    ties : TieParameters
        The tie parameters; they have no prior.
    """

    def __init__(
        self,
        rankings: Rankings,
        size: int,
        precision: float,
        gamma: tuple[float, float] | None,
        scale: float,
        ties: TieParameters = NO_TIES,
    ) -> None:
        super().__init__(rankings, size, precision, gamma, scale)
        self.ties = ties
        # A dense Hessian costs as many passes over a list as it has rows; a step by conjugate gradients some twenty.
        lengths = np.diff(rankings.offsets).astype(np.float64)
        self.dense = self.dense and float((lengths * lengths).sum()) <= _LONG_LIST * len(rankings.item)

    def with_ties(self, ties: TieParameters) -> DavidsonLuceLikelihood:
        """Return the likelihood of the same lists with other tie parameters."""
        return DavidsonLuceLikelihood(self.rankings, self.size, self.precision, self.gamma, self.scale, ties)

    def _replace_rankings(self, rankings: Rankings) -> PenalisedLikelihood:
        return DavidsonLuceLikelihood(rankings, self.size, self.precision, self.gamma, self.scale, self.ties)

    def _log_likelihood(self, x: Floats, gain: Floats, loss: Floats, diagonal: Floats) -> float:
        value, _ = self._evaluate(x, gain, loss)
        # An upper bound of the diagonal: a statistic between 0 and 1 has at most its mean as its variance.
        diagonal[:] = loss
        return value

    def _evaluate(self, x: Floats, gain: Floats, loss: Floats) -> tuple[float, Floats]:
        """Return the log-likelihood and its gradient by log δ of the sizes above 1."""
        seen, drawn = np.empty(len(self.ties.sizes)), np.empty(len(self.ties.sizes))
        value = davidson_luce.log_likelihood(
            x, self.ties.log_delta, self.ties.sizes, *self.rankings[:4], gain, loss, seen, drawn
        )
        return value, (seen - drawn)[1:]

    def _hessian_product(self, x: Floats, vector: Floats, exact: bool, out: Floats) -> None:
        none = np.zeros(len(self.ties.sizes))
        davidson_luce.hessian_product(
            x, self.ties.log_delta, self.ties.sizes, *self.rankings[:4], vector, none, out, np.empty(len(none))
        )

    def tie_gradient(self, score: Floats) -> Floats:
        """Return the gradient by log δ of the sizes above 1: observed less expected choices of each size."""
        return self._evaluate(score, np.empty(self.size), np.empty(self.size))[1]

    def tie_curvature(self, score: Floats) -> tuple[Floats, Floats]:
        """Return −Hessian between scores and log δ, a column for each size above 1, and that of log δ."""
        k = len(self.ties.sizes)
        cross, own = np.empty((self.size, k - 1)), np.empty((k - 1, k - 1))
        out, tie_out, nothing = np.empty(self.size), np.empty(k), np.zeros(self.size)
        for s in range(1, k):
            direction = np.zeros(k)
            direction[s] = 1.0
            davidson_luce.hessian_product(
                score, self.ties.log_delta, self.ties.sizes, *self.rankings[:4], nothing, direction, out, tie_out
            )
            cross[:, s - 1], own[:, s - 1] = out, tie_out[1:]
        return cross, own

    def joint_parts(self, score: Floats, *, outer_products: bool = False) -> SandwichParts:
        """Return the tables of `sandwich_parts` over the scores and log δ of the sizes above 1."""
        m, k = self.size, len(self.ties.sizes)
        p = m + k
        out = SandwichParts(
            np.empty((p, p)), np.empty((p, p) if outer_products else (0, 0)), np.empty(p if outer_products else 0)
        )
        davidson_luce.hessian_table(score, self.ties.log_delta, self.ties.sizes, *self.rankings[:4], *out)
        kept = np.delete(np.arange(p), m)
        hessian = np.ascontiguousarray(out.hessian[np.ix_(kept, kept)])
        hessian[np.arange(m), np.arange(m)] += self.prior_curvature(score)
        if not outer_products:
            return SandwichParts(hessian, out.gradients, out.squares)
        return SandwichParts(hessian, np.ascontiguousarray(out.gradients[np.ix_(kept, kept)]), out.squares[kept])

    def sandwich_parts(self, score: Floats, *, exact: bool = True, outer_products: bool = False) -> SandwichParts:
        m = self.size
        both = self.joint_parts(score, outer_products=outer_products)
        return SandwichParts(
            np.ascontiguousarray(both.hessian[:m, :m]),
            np.ascontiguousarray(both.gradients[:m, :m]),
            both.squares[:m],
        )

    def score_response(self, score: Floats, gradient_change: Floats) -> Floats:
        if self.dense:
            return super().score_response(score, gradient_change)
        x, prior, loss = score - score.max(), self.prior_curvature(score), np.empty(self.size)
        self._evaluate(x, np.empty(self.size), loss)

        def product(vector: Floats) -> Floats:
            out = np.empty(self.size)
            self._hessian_product(x, vector, True, out)
            out += prior * vector
            return out

        found = np.empty(gradient_change.shape)
        for column in range(gradient_change.shape[1]):
            right = np.ascontiguousarray(gradient_change[:, column])
            found[:, column], _ = conjugate_gradients(product, right, loss + prior, rtol=1e-11, max_iter=20 * self.size)
        return found

    def score_change(self, score: Floats) -> Floats:
        """Return −d score / d log δ of the optimal scores, a column for each size above 1."""
        return self.score_response(score, self.tie_curvature(score)[0])

    def is_bounded(self, score: Floats) -> bool:
        """Return whether the scores at given ties have a finite maximum-likelihood estimate near `score`."""
        return _is_regular(self._regular_hessian(score))


def _is_regular(hessian: Floats, reference: Floats | None = None) -> bool:
    """Return whether no combination of parameters has next to no information, compared with each alone."""
    if not len(hessian):
        return True
    alone = np.sqrt(np.diagonal(hessian if reference is None else reference))
    if not (alone > 0).all():
        return False
    return bool(np.linalg.eigvalsh(hessian / (alone[:, None] * alone[None, :]))[0] > _SINGULAR)


class ChoiceCounts(NamedTuple):
    """Choices by the size of the chosen set, from size 0 on.

    Attributes
    ----------
    counts : float64[D + 1]
        The weighted number of choices.
    reached : int64[D + 1]
        The largest number of items that such a choice was made from.
    """

    counts: Floats
    reached: Ints

    @property
    def total(self) -> float:
        """The number of all choices."""
        return float(self.counts.sum())

    @property
    def sizes(self) -> Ints:
        """The sizes of the ties."""
        return np.flatnonzero(self.counts[2:] > 0) + 2

    @staticmethod
    def sum(each: Sequence[ChoiceCounts]) -> ChoiceCounts:
        """Return the counts of all together."""
        width = max((len(c.counts) for c in each), default=2)
        counts, reached = np.zeros(width), np.zeros(width, dtype=np.int64)
        for one in each:
            counts[: len(one.counts)] += one.counts
            np.maximum(reached[: len(one.reached)], one.reached, out=reached[: len(one.reached)])
        return ChoiceCounts(counts, reached)

    @property
    def unbounded(self) -> Ints:
        """The sizes of ties whose parameter grows without bound, because larger sets are never chosen otherwise.

        δ_k is bounded if some choice from k or more items was of another size whose parameter is bounded, beginning
        with single items.
        """
        sizes = self.sizes
        bounded = int(self.reached[1])
        while (further := int(self.reached[sizes[sizes <= bounded]].max(initial=bounded))) > bounded:
            bounded = further
        return sizes[sizes > bounded]

    def check_bounded(self) -> None:
        """Raise where a tie parameter grows without bound."""
        lost = self.unbounded
        if len(lost):
            raise NoFiniteEstimateError(
                f"no finite Davidson-Luce estimate: {_unbounded_words(lost)}. Use ties='average', or leave out lists "
                "that tie everything."
            )

    def with_half_choices(self) -> tuple[ChoiceCounts, str]:
        """Return counts with half a choice of a single item where ties have unbounded parameters, and a warning."""
        lost = self.unbounded
        if not len(lost):
            return self, ""
        counts, reached = self.counts.copy(), self.reached.copy()
        counts[1] += 0.5
        reached[1] = reached.max()
        words = (
            f"{_unbounded_words(lost)}: it is set as if half a choice of a single item had been seen, and not learned."
        )
        return ChoiceCounts(counts, reached), words

    def check_known(self, sizes: Ints) -> None:
        """Raise where there are ties of a size whose parameter was not estimated."""
        strange = np.setdiff1d(self.sizes, sizes)
        if len(strange):
            known = listing([str(s) for s in sizes.tolist()], 5) if len(sizes) else "none"
            raise DataError(
                f"a list ties {int(strange[0])} items, and the fit saw no tie of that size (its sizes: {known}), so "
                "that it has no parameter for it. Fit to preferences with such ties, or use ties='average'."
            )


def _unbounded_words(sizes: Ints) -> str:
    k = int(sizes[0])
    return (
        f"every choice from {k} or more items is a tie of {k} or more, so that nothing bounds the parameter of ties of "
        f"{listing([str(s) for s in sizes.tolist()], 5)} items"
    )


def choice_counts(rankings: Rankings) -> ChoiceCounts:
    """Return the choices of some rankings by size."""
    starts = np.flatnonzero(rankings.mark)
    largest = int(np.diff(np.append(starts, len(rankings.mark))).max(initial=1))
    counts, reached = np.empty(largest + 1), np.empty(largest + 1, dtype=np.int64)
    davidson_luce.choice_counts(rankings.mark, rankings.offsets, rankings.weight, counts, reached)
    # Blocks that are left over may be larger than any tie.
    last = int(np.flatnonzero(counts).max(initial=1))
    return ChoiceCounts(counts[: last + 1], reached[: last + 1])


def start_parameters(found: ChoiceCounts) -> TieParameters:
    """Return tie parameters to start from: those of equal items that all choices are made from at most."""
    from scipy.special import gammaln

    sizes = np.concatenate([[1], found.sizes]).astype(np.int64)
    n = float(found.reached.max(initial=1))
    sets = gammaln(n + 1) - gammaln(sizes + 1.0) - gammaln(np.maximum(n - sizes, 0.0) + 1)
    logs = np.log(np.maximum(found.counts[sizes], 1e-300)) - sets
    return TieParameters(sizes, np.clip(logs - logs[0], -_BOUND, _BOUND) if len(sizes) > 1 else np.zeros(1))


# The tie parameters over blocks of instances.


class TieBlock(NamedTuple):
    """A block of instances and their optimal scores at some tie parameters; no scores before the first step."""

    models: Sequence[DavidsonLuceLikelihood]
    optima: Sequence[Optimum] = ()


class TieFit(NamedTuple):
    """Estimated tie parameters.

    Attributes
    ----------
    ties : TieParameters
        The parameters.
    information : float64[K, K]
        The information about log δ of the sizes that are learned, the scores being estimated with them.
    regular : bool
        Whether the information bounds every parameter, and that of every instance its scores.
    end : NewtonResult
        How the search ended; the gradient norm is the largest of that by log δ, over the number of choices, and those
        of the scores in their units.
    blocks : Shards of TieBlock
        The instances with their scores.
    """

    ties: TieParameters
    information: Floats
    regular: bool
    end: NewtonResult[_TiePoint]
    blocks: Shards[TieBlock]


class _Derivatives(NamedTuple):
    """Derivatives of the profile likelihood of one instance by log δ; `alone` is the information with fixed scores."""

    gradient: Floats
    information: Floats
    alone: Floats
    norm: float


class _TieSearch(NamedTuple):
    """Which parameters are learned, the number of choices, and when to stop, for them and the scores of instances."""

    learned: Ints
    n_choices: float
    max_iter: int
    tol: float

    def start(self, blocks: Shards[TieBlock], ties: TieParameters, known: State | None) -> NewtonState[_TiePoint]:
        """Return the state at some tie parameters, or that of a checkpoint."""
        if known is None:
            at = self.at(ties, blocks)
            return NewtonState(at, 0, not len(self.learned), [at.value])
        ties = ties._replace(log_delta=known["log_delta"])
        at = _TiePoint(self, ties, blocks.persist_each(_restored, split_states(known), ties))
        trace = known["trace"].tolist()
        return NewtonState(at, len(trace) - 1, bool(known["done"]), trace)

    def at(self, ties: TieParameters, blocks: Shards[TieBlock]) -> _TiePoint:
        """Return the point at some tie parameters; the search for its scores starts at those of `blocks`."""
        return _TiePoint(self, ties, blocks.persist(_maximised, ties, self.max_iter, self.tol))

    def newton_step(self, at: _TiePoint) -> NewtonStep[_TiePoint] | None:
        """Return the Newton step along the profile likelihood; None where it leads out of all bounds."""
        gradient, information = at.derivatives.gradient, at.derivatives.information
        step, own = np.zeros(len(gradient)), self.learned
        step[own] = np.linalg.lstsq(information[np.ix_(own, own)], gradient[own], rcond=None)[0]
        length = min(1.0, _LONGEST_STEP / max(max_norm(step), 1e-300))
        if max_norm(at.ties.moved(length * step).log_delta) > _BOUND:
            return None
        return NewtonStep(lambda part: self.at(at.ties.moved(part * step), at.blocks), length, float(gradient @ step))


@dataclass(frozen=True)
class _TiePoint:
    """Tie parameters, and the blocks with the scores that are optimal there."""

    search: _TieSearch
    ties: TieParameters
    blocks: Shards[TieBlock]

    @cached_property
    def value(self) -> float:
        # Instance by instance, so that the sum does not depend on the blocks.
        return float(sum(value for values in self.blocks.map(_values) for value in values))

    @cached_property
    def derivatives(self) -> _Derivatives:
        """The derivatives of the profile likelihood, and the largest gradient of the scores."""
        each = [one for part in self.blocks.map(_block_derivatives) for one in part]
        k = len(self.ties.sizes) - 1
        return _Derivatives(
            sum((d.gradient for d in each), np.zeros(k)),
            sum((d.information for d in each), np.zeros((k, k))),
            sum((d.alone for d in each), np.zeros((k, k))),
            max((d.norm for d in each), default=0.0),
        )

    @property
    def norm(self) -> float:
        return max_norm(self.derivatives.gradient[self.search.learned]) / max(self.search.n_choices, 1e-300)


def learn_ties(
    blocks: Shards[TieBlock],
    start: TieParameters,
    n_choices: float,
    *,
    learned: Ints,
    largest: int,
    max_iter: int,
    tol: float,
    checkpoint: Checkpointer,
    check_scores: bool = False,
) -> TieFit:
    """Maximise the profile likelihood over the tie parameters.

    Parameters
    ----------
    blocks : Shards of TieBlock
        The instances.
    start : TieParameters
        The initial parameters.
    n_choices : float
        The number of choices, the unit of the gradient.
    learned : int64[L]
        Which of the sizes above 1 have a parameter to learn, numbered from 0; the others keep that of `start`.
    largest : int
        The number of items of the largest instance.
    max_iter, tol
        When to stop, for the tie parameters and for the scores of an instance.
    checkpoint : Checkpointer
        Receives the state after every step.
    check_scores : bool
        Whether to find out if the information bounds the scores of every instance.
    """
    # Threads do not speed up small instances.
    context = threads(1) if largest < LARGE else nullcontext()
    search = _TieSearch(learned, n_choices, max_iter, tol)
    with context:
        end = maximise(
            search.start(blocks, start, checkpoint.restore()),
            search.newton_step,
            tol=tol,
            max_iter=max_iter,
            # The scores of every instance are optimal to a tolerance of their own.
            noise=1e-12,
            report=lambda done, _: report_progress(done, max_iter),
            checkpoint=checkpoint,
            save=_state,
        )
        at, seen, among = end.point, end.point.derivatives, np.ix_(learned, learned)
        regular = _is_regular(seen.information[among], seen.alone[among]) and max_norm(at.ties.log_delta) < _BOUND
        if check_scores:
            regular = regular and all(all(part) for part in at.blocks.map(_bounded))
    norm = max(end.gradient_norm, seen.norm)
    end = end._replace(gradient_norm=norm, converged=norm <= tol)
    return TieFit(at.ties, seen.information[among], regular, end, at.blocks)


def profile_meat(block: TieBlock) -> Floats:
    """Return Σ u uᵀ over the lists of a block, u the gradient of a list along the profile likelihood of log δ."""
    k = len(block.models[0].ties.sizes) - 1 if block.models else 0
    out = np.zeros((k, k))
    for model, optimum in zip(block.models, block.optima, strict=True):
        if model.size:
            products = model.joint_parts(optimum.score, outer_products=True).gradients
            along = np.concatenate([-model.score_change(optimum.score), np.eye(k)])
            out += along.T @ products @ along
    return out


def _maximised(block: TieBlock, ties: TieParameters, max_iter: int, tol: float) -> TieBlock:
    """Return the block at other tie parameters; the search for its scores starts at the present ones."""
    models = [m.with_ties(ties) for m in block.models]
    starts = [f.score for f in block.optima] or [np.zeros(m.size) for m in models]
    optima = each_instance(lambda n: newton(models[n], starts[n], max_iter, tol), [m.size for m in models])
    return TieBlock(models, optima)


def _values(block: TieBlock) -> list[float]:
    return [f.value for f in block.optima]


def _block_derivatives(block: TieBlock) -> list[_Derivatives]:
    """Return the derivatives of the profile likelihood of every instance of a block."""

    def work(n: int) -> _Derivatives:
        model, optimum = block.models[n], block.optima[n]
        k = len(model.ties.sizes) - 1
        if model.size == 0 or k == 0:
            return _Derivatives(np.zeros(k), np.zeros((k, k)), np.zeros((k, k)), optimum.norm)
        cross, alone = model.tie_curvature(optimum.score)
        # The optimal scores move with δ: the Schur complement of the scores.
        information = alone - cross.T @ model.score_response(optimum.score, cross)
        return _Derivatives(model.tie_gradient(optimum.score), information, alone, optimum.norm)

    return each_instance(work, [m.size for m in block.models])


def _bounded(block: TieBlock) -> list[bool]:
    return [m.size < 2 or m.is_bounded(f.score) for m, f in zip(block.models, block.optima, strict=True)]


def _state(at: NewtonState[_TiePoint]) -> State:
    """Return the state for a checkpoint."""
    states = join_states(list(at.point.blocks.map(_block_state)))
    return states | {
        "log_delta": at.point.ties.log_delta,
        "trace": np.array(at.trace),
        "done": np.array(at.done),
    }


def _block_state(block: TieBlock) -> State:
    return optima_state(block.optima)


def _restored(block: TieBlock, known: State, ties: TieParameters) -> TieBlock:
    """Return the block in the state of a checkpoint."""
    models = [m.with_ties(ties) for m in block.models]
    return TieBlock(models, restored_optima(models, known))

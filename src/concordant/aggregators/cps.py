"""Coset-permutation distance based stagewise model (CPS): a ranking is built from the top, item by item.

The coset-permutation distance of a partial ranking from a list is the mean distance of all its completions. Each stage
picks the next item by the increase of that distance, weighted over the experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators.fusion import LISTS
from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Tags
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, Within, integer, number, one_of
from concordant.base.registry import register_method
from concordant.data.preferences import Preferences
from concordant.errors import ConvergenceWarning, DataError, IdentifiabilityWarning, listing
from concordant.execution import map_instances, report_progress, without_progress
from concordant.inference.experts import learned_adherence
from concordant.kernels.lists import offsets_of, positions
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.supervision import match_labels, validation_pair

if TYPE_CHECKING:
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["CPS"]

# The least seconds of a stage for each item and list.
_STEP_SECONDS = 2e-9


@register_method
class CPS(Aggregator):
    """M + 1 minus the place of the item in the ranking that the stagewise model builds greedily from the top.

    At stage i the model picks item j with probability proportional to exp(-sum over lists of α_e d(j)), where d(j)
    is the mean distance from the list of all rankings that begin with the items picked so far and j. Greedy inference
    picks the most probable item at every stage. Among equally probable items the smallest weighted sum of positions
    comes first; items equal in that too share the better place.

    Positions are within the list; tied items share the mean of theirs, and each item that a list of m of M items leaves
    out gets the mean (m + 1 + M) / 2 of the remaining places. Where nobody ranks anything all items tie. A list of
    weight 2 counts twice. Empty lists add nothing.

    Estimand: the ranking that stages of this form build with the greatest probability each; with adherence="supervised"
    also α_e, how strongly the order of the labels follows expert e.

    Parameters
    ----------
    distance : {"kendall", "footrule", "spearman"}
        The number of pairs in the other order (ties count half); the sum of differences of positions; or the sum of
        their squares, under which greedy inference orders by the weighted mean position.
    adherence : {"none", "supervised"}
        "none": every expert has α = 1, and `fit` learns nothing. "supervised": α_e >= 0 maximises the
        likelihood of the order of the labels given to `fit`, over all instances. Items with equal labels are treated
        as in random order: a stage that picks one of them has their mean cost.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out of the lists.
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts that a supervised `fit` did not see; ignored experts have weight 0.
    max_iter, tol
        When the search for α stops: `tol` bounds the largest entry of the gradient of the mean log-likelihood per
        stage, projected on α >= 0, in units in which the curvature at α = 0 is 1.

    Attributes
    ----------
    experts_ : list of str
        The experts that a supervised `fit` saw.
    adherence_ : float64[K]
        Their α. An expert of the vocabulary without a list in training has the mean of the others.

    Notes
    -----
    Cost O(K M²) per instance of K lists and M items, to predict and for each step of `fit`. With one list and the
    Kendall distance the model is Mallows'. The objective in `fit_info_` is the log-likelihood.

    References
    ----------
    Qin, Geng and Liu, A new probabilistic model for rank aggregation, NeurIPS 2010.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c", "d"], "y": ["b", "a", "d"], "z": ["a", "c"]})
    >>> cc.CPS().fit_predict(runs).ranking()
    ['a', 'b', 'c', 'd']
    >>> labels = cc.Labels(["q"] * 4, ["a", "b", "c", "d"], [0, 2, 0, 1])
    >>> cc.CPS(adherence="supervised").fit(runs, labels).predict(runs).ranking()
    ['b', 'a', 'd', 'c']
    """

    name = "cps"
    tags = Tags(accepts=LISTS, cost="O(K M²)")
    _relative_weights = True
    learns_labels_by: ClassVar[Mapping[str, str]] = {"adherence": "supervised"}
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "distance": one_of("kendall", "footrule", "spearman"),
        "adherence": one_of("none", "supervised"),
        "unjudged": one_of("zero", "drop"),
        "unknown_experts": one_of("error", "ignore"),
        "max_iter": integer(least=1),
        "tol": number(above=0),
    }

    adherence_: Annotated[Floats, Within(least=0)]

    def __init__(
        self,
        *,
        distance: str = "kendall",
        adherence: str = "none",
        unjudged: str = "zero",
        unknown_experts: str = "error",
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        self.distance = distance
        self.adherence = adherence
        self.unjudged = unjudged
        self.unknown_experts = unknown_experts
        self.max_iter = max_iter
        self.tol = tol

    def _learns(self) -> bool:
        return self.needs_labels()

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> None:
        if self.adherence == "none":
            return
        p: Preferences = preferences
        # Nothing is selected, so validation data are only checked for their type.
        validation_pair(validation, "CPS")
        _check_work(p)
        truth = match_labels(p, labels, "CPS(adherence='supervised')", unjudged=self.unjudged)
        self.fit_info_.labels = truth.counts
        likelihood = _LabelLikelihood(p, truth.label, self.distance)
        self.experts_ = p.experts.tolist()
        self.adherence_ = self._maximise(likelihood, StepCheckpoint(self, [p, labels]))
        seen = likelihood.seen
        if not self.adherence_[seen].any():
            self._warn(
                "no expert's order agrees with the labels: all adherences are 0 and every item ties. Check that larger "
                "labels, and smaller ranks, are better.",
                IdentifiabilityWarning,
            )
        if not seen.all():
            absent = [e for e, known in zip(self.experts_, seen.tolist(), strict=True) if not known]
            self.adherence_[~seen] = self.adherence_[seen].mean()
            self._warn(
                f"nothing can be learned about the experts {listing(absent)}; they get the mean of the others.",
                IdentifiabilityWarning,
            )

    def _maximise(self, likelihood: _LabelLikelihood, checkpoint: StepCheckpoint) -> Floats:
        """Return the adherences of maximum likelihood."""
        from concordant.learning.resumable import minimise

        start = np.zeros(len(likelihood.seen))
        _, _, curvature = likelihood.evaluate(start)
        likelihood.seen = likelihood.seen & (curvature > 0)
        if not likelihood.seen.any():
            raise DataError(
                "the labels say nothing about the experts: no instance has ranked items with different labels. "
                "Give labels that differ within instances, or use adherence='none'."
            )
        scale = np.sqrt(np.where(likelihood.seen, curvature, 1.0) / likelihood.stages)

        def objective(scaled: Floats) -> tuple[float, Floats]:
            value, gradient, _ = likelihood.evaluate(scaled / scale)
            return -value / likelihood.stages, np.where(likelihood.seen, -gradient / scale / likelihood.stages, 0.0)

        found = minimise(
            objective,
            start,
            bounds=(0.0, None),
            callback=lambda step, _: report_progress(step, self.max_iter),
            options={
                "maxiter": self.max_iter,
                "maxfun": 20 * self.max_iter,
                "ftol": 0.0,
                "gtol": self.tol,
                "maxcor": 20,
            },
            checkpoint=checkpoint,
        )
        gradient = found.gradient
        blocked = (found.x <= 0) & (gradient > 0)
        info = self.fit_info_
        info.n_iter = found.n_iter
        info.objective = -found.value * likelihood.stages
        info.gradient_norm = float(np.abs(np.where(blocked, 0.0, gradient)).max())
        info.converged = info.gradient_norm <= self.tol
        if not info.converged and not info.interrupted:
            self._warn(
                f"CPS stopped after {info.n_iter} iterations with a gradient of {info.gradient_norm:.1e}, above "
                f"tol={self.tol:g}. Raise max_iter or tol; the adherences found so far are kept.",
                ConvergenceWarning,
            )
        return found.x / scale

    def _scores(self, preferences: Preferences) -> Floats:
        from concordant.kernels.cps import DISTANCES, greedy

        p = preferences
        _check_work(p)
        theta = p.weights * self._learned(p)[p.list_expert]
        table = _tables(p)
        code = DISTANCES[self.distance]
        sizes: list[int] = p.slots.sizes.tolist()

        def solve(n: int) -> Floats:
            place = greedy(table(n), theta[p.list_starts[n] : p.list_starts[n + 1]], code)
            return (sizes[n] + 1.0 - place).astype(np.float64)

        return np.concatenate([np.zeros(0), *map_instances(solve, len(sizes))])

    def _learned(self, p: Preferences) -> Floats:
        """Return the adherence of every expert of the preferences; 0 for unknown experts, or an error."""
        if self.adherence == "none":
            return np.ones(p.n_experts)
        return learned_adherence(self, p)


def _check_work(p: Preferences) -> None:
    """Raise where an instance exceeds the limits of memory or time."""
    sizes, lists = p.slots.sizes.astype(np.float64), np.diff(p.list_starts)
    cells = sizes * lists
    check_limits("CPS", p, "stages over all positions", n_bytes=8.0 * cells, seconds=_STEP_SECONDS * cells * sizes)


def _tables(p: Preferences, keep: NDArray[np.bool_] | None = None) -> Callable[[int], Floats]:
    """Return a function from an instance to the positions of its items, one row per list.

    With `keep`, unmarked slots are left out, and positions are counted without them.
    """
    kept = np.ones(p.n_slots, dtype=np.bool_) if keep is None else keep
    rows = np.flatnonzero(kept[p.slot])
    which = p.row_list[rows]
    lengths = np.bincount(which, minlength=p.n_lists)
    offsets = offsets_of(lengths)
    place = positions(-p.strengths()[rows], offsets, "average")
    new = np.cumsum(kept) - 1
    sizes = np.bincount(p.slots.instance[kept], minlength=len(p))
    starts = offsets_of(sizes)
    item = new[p.slot[rows]]

    def table(n: int) -> Floats:
        first, last = int(p.list_starts[n]), int(p.list_starts[n + 1])
        own = slice(int(offsets[first]), int(offsets[last]))
        out = np.empty((last - first, int(sizes[n])))
        out[:] = 0.5 * (lengths[first:last, None] + 1.0 + sizes[n])
        out[which[own] - first, item[own] - starts[n]] = place[own]
        return out

    return table


class _LabelLikelihood:
    """The likelihood of the label-sorted orders of labelled instances, as a function of the adherences."""

    def __init__(self, p: Preferences, label: Floats, distance: str) -> None:
        from concordant.kernels.cps import DISTANCES

        self.preferences = p
        self.distance = DISTANCES[distance]
        keep = ~np.isnan(label)
        self.table = _tables(p, keep)
        self.levels: list[Ints] = []
        for n in range(len(p)):
            own = slice(int(p.slots.offsets[n]), int(p.slots.offsets[n + 1]))
            _, level = np.unique(-label[own][keep[own]], return_inverse=True)
            self.levels.append(level.astype(np.int64))
        lists = np.diff(p.list_starts)
        self.informative = [n for n, level in enumerate(self.levels) if lists[n] and level.max(initial=0) > 0]
        self.seen: NDArray[np.bool_] = np.bincount(p.list_expert, weights=p.weights, minlength=p.n_experts) > 0
        self.stages = 0

    def evaluate(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Return the log-likelihood, its gradient, and the diagonal of −Hessian, by expert."""
        from concordant.kernels.cps import tied_likelihood

        p = self.preferences
        weights = p.weights

        def work(t: int) -> tuple[float, int, Floats, Floats]:
            n = self.informative[t]
            own = slice(int(p.list_starts[n]), int(p.list_starts[n + 1]))
            gradient, curvature = np.zeros(own.stop - own.start), np.zeros(own.stop - own.start)
            by_list = theta[p.list_expert[own]] * weights[own]
            value, stages = tied_likelihood(self.table(n), by_list, self.levels[n], self.distance, gradient, curvature)
            return value, stages, gradient * weights[own], curvature * weights[own] ** 2

        with without_progress():
            parts = map_instances(work, len(self.informative))
        total, gradient, curvature = 0.0, np.zeros(p.n_experts), np.zeros(p.n_experts)
        self.stages = sum(stages for _, stages, _, _ in parts)
        for n, (value, _, list_gradient, list_curvature) in zip(self.informative, parts, strict=True):
            experts = p.list_expert[p.list_starts[n] : p.list_starts[n + 1]]
            total += value
            gradient[experts] += list_gradient
            curvature[experts] += list_curvature
        return total, gradient, curvature

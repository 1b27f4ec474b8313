"""Singular value projection (SVP): rank-2 completion of the skew-symmetric matrix of pairwise margins.

If every item has a strength and margins are differences of strengths, the matrix of margins is skew-symmetric and has
rank two. So the observed margins are completed to a matrix of rank two, and the score of an item is its mean margin
over all others, observed or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from concordant.aggregators._pairwise_votes import PAIRED
from concordant.arrays import Codes, Floats, Ints, read_only
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.limits import check_limits
from concordant.base.params import Constraint, boolean, integer, number, one_of
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import ConvergenceWarning, IdentifiabilityWarning, listing
from concordant.execution import map_instances
from concordant.kernels.pairwise_wins import pair_room
from concordant.kernels.splitmix64 import hashed

__all__ = ["SVP"]

# A mean margin below this share of the largest margin is rounding error.
_NOTHING = 1e-10

# Margins count as equal in `_order_by_margins` if they differ by less than one part in this many of the largest.
_EQUAL = 2.0**30

Margins = tuple[Codes, Codes, Floats]


def _order_by_margins(table: Margins, n: int) -> tuple[Codes, Margins]:
    """Return the new number of each item, and the margins by new numbers: an order that the margins alone decide.

    Where the completion is not unique, rounding errors decide, and those depend on the order of sums. Neither the order
    of rows nor the names of items may decide. So items are numbered by colour refinement: the key of an item is a hash
    of its key and of the keys and margins of all it was compared with, until no more items are told apart.
    """
    first, second, value = table
    margin = np.rint(value / np.abs(value).max(initial=1e-300) * _EQUAL).astype(np.int64)
    one, other = (hashed(v.astype(np.uint64)) for v in (margin, -margin))
    key, told = np.zeros(n, dtype=np.uint64), 0
    while (distinct := len(np.unique(key))) > told:
        told, base = distinct, key
        key = hashed(base)
        np.add.at(key, first, hashed(base[second] ^ one))
        np.add.at(key, second, hashed(base[first] ^ other))
    place = np.empty(n, dtype=np.int32)
    place[np.argsort(key, kind="stable")] = np.arange(n, dtype=np.int32)
    a, b = place[first], place[second]
    low, high = np.minimum(a, b), np.maximum(a, b)
    rows = np.lexsort((high, low))
    return place, (low[rows], high[rows], np.where(a < b, value, -value)[rows])


class _Completed(NamedTuple):
    """The scores of one instance, its connected components, whether one has too few pairs, and fit information."""

    score: Floats
    parts: list[Ints]
    sparse: bool
    n_iter: int
    change: float
    residual: float
    gradient: float


@register_method
class SVP(Aggregator):
    """The mean margin by which the item beats the others, in a matrix of margins completed to rank two.

    A(i, j) = mean over lists, weighted by w, of how much the list prefers i to j, for the pairs some list holds; for
    comparisons the wins less the losses over the number of outcomes. From X = 0, X <- P(X - step * (X - A) on the
    observed pairs), P the best approximation of rank `rank`, until the norm of the residual changes by no more than
    `tol` of itself or falls to `tol` of that of A. score(i) = mean of X(i, j) over the items that comparisons connect
    with i.

    A tie is an observation: a margin of 0, and one more comparison of the pair. A pair that nobody compares is unknown,
    also where the preferences declare absent items below the others (a warning says so). An item that nobody compares
    scores 0, the mean. Components that no chain of comparisons connects are completed separately, and a warning names
    them: their scores cannot be compared. A matrix of rank two over M items has 2 M - 3 free parameters; with fewer
    observed pairs the solution is not unique, and a warning says so. Where preferences are purely cyclic all scores
    are 0.

    Estimand: the mean margin of i over the others, if margins are differences of strengths and the pairs that nobody
    compared are missing at random.

    Parameters
    ----------
    transform : {"count", "binary", "rankdiff", "log", "rating"}
        How much a list prefers the better of two items: "count" the difference of ranks; "binary" 1; "rankdiff" the
        difference over the list's largest rank; "log" the difference of log ranks over the largest; "rating" the
        difference of ratings or scores. All but "binary" turn a complete list into a matrix of rank two. Comparisons
        are used as counted.
    rank : int
        The rank of X, an even number; 2 for one strength per item.
    step : float or "auto"
        The step size; up to 1 the residual never grows. "auto" takes the optimal size for fixed singular vectors, at
        least 1: where few pairs are observed it needs a tenth of the steps or less.
    min_comparisons : int
        Pairs that fewer lists (by weight) or outcomes compare count as unknown. 1 takes all.
    average : bool
        Divide every margin by the weight of its lists, or by its number of outcomes: a margin is then a mean, as in the
        paper. A pair that one list compares then counts as much as a pair that all compare; where many pairs are such,
        set `min_comparisons=2` or `average=False`. With False it is a sum, so that pairs that many experts compare
        count more.
    max_iter, tol
        When to stop. An estimate that has not converged is kept, with a warning.

    Notes
    -----
    Cost O(P + M) for each of some ten vectors per step, for P observed pairs of M items, and O(sum of squared lengths)
    to find the pairs of lists; X is stored as vectors and the residual on the observed pairs only. Where P is large and
    the rank two, Newton's method takes over after 5,000,000 / P steps: it ends at the minimum that further steps would
    approach, and a step of it counts as one of `max_iter`. It needs P >= 2 M - 3. If all pairs are
    observed one step is exact; for complete lists with "count" the scores are then Borda's, over the number of lists.
    `fit_info_` holds the most steps of an instance, the sum of squared residuals, and as gradient norm the largest of
    all instances: the residual along the tables of this rank over the norm of A.

    References
    ----------
    Gleich and Lim, Rank aggregation via nuclear norm minimization, KDD 2011. Jain, Meka and Dhillon, Guaranteed rank
    minimization via singular value projection, NeurIPS 2010.

    Examples
    --------
    >>> import concordant as cc
    >>> stars = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "d"], "z": ["a", "d"]})
    >>> cc.SVP().fit_predict(stars).ranking()
    ['a', 'b', 'c', 'd']
    """

    name = "svp"
    tags = Tags(accepts=PAIRED, counts=True, cost="O(P + M) a step")
    _relative_weights = True
    _missing_is_unknown = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "transform": one_of("count", "binary", "rankdiff", "log", "rating"),
        "rank": Constraint("an even number >= 2", lambda r: integer(least=2).test(r) and r % 2 == 0),
        "step": Constraint("'auto' or a number > 0", lambda s: s == "auto" or number(above=0).test(s)),
        "min_comparisons": integer(least=1),
        "average": boolean(),
        "max_iter": integer(least=1),
        "tol": number(least=0),
    }

    def __init__(
        self,
        *,
        transform: str = "count",
        rank: int = 2,
        step: float | str = 1.0,
        min_comparisons: int = 1,
        average: bool = True,
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        self.transform = transform
        self.rank = rank
        self.step = step
        self.min_comparisons = min_comparisons
        self.average = average
        self.max_iter = max_iter
        self.tol = tol

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        votes = preferences
        if isinstance(votes, Preferences):
            pairs = pair_room(votes.list_offsets, votes.list_starts, votes.slots.offsets)
            # Of every pair two items, the mean margin, and residuals of two steps and of the known ones.
            check_limits("SVP", votes, "all pairs in lists", n_bytes=40.0 * pairs, seconds=3e-8 * pairs)
        tables = self._of_lists(votes) if isinstance(votes, Preferences) else self._of_outcomes(votes)
        sizes: list[int] = votes.slots.sizes.tolist()
        done = map_instances(lambda n: self._complete(tables(n), sizes[n]), len(sizes))
        self._report(votes, done)
        return Consensus.from_codes(votes.slots, np.concatenate([np.zeros(0), *(d.score for d in done)]))

    def _of_lists(self, p: Preferences) -> Any:
        """Return a function from an instance to its margins."""
        from concordant.kernels.svp import margin_table

        x = p.transformed(self.transform, "SVP")
        x, weights = read_only(x, p.weights)

        def table(n: int) -> Margins:
            first, last = int(p.list_starts[n]), int(p.list_starts[n + 1])
            offsets = p.list_offsets[first : last + 1]
            rows = slice(int(offsets[0]), int(offsets[-1]))
            return margin_table(
                offsets - offsets[0],
                p.slot[rows] - np.int32(p.slots.offsets[n]),
                x[rows],
                weights[first:last],
                int(p.slots.sizes[n]),
                self.transform == "binary",
                self.average,
                self._least(),
            )

        return table

    def _of_outcomes(self, comparisons: Comparisons) -> Any:
        """Return a function from an instance to its wins minus losses."""
        c = comparisons.collapse()
        met = c.outcomes
        margin = c.n_left - c.n_right
        if self.average:
            margin = margin / np.where(met > 0, met, 1.0)
        enough = (met > 0) & (met >= self._least() - 1e-9)

        def table(n: int) -> Margins:
            rows = np.flatnonzero(enough[c.row_starts[n] : c.row_starts[n + 1]]) + c.row_starts[n]
            base = np.int32(c.slots.offsets[n])
            return c.left[rows] - base, c.right[rows] - base, margin[rows]

        return table

    def _least(self) -> float:
        """Return the least weight of a pair; with min_comparisons=1 any weight above 0 is enough."""
        return 0.0 if self.min_comparisons == 1 else float(self.min_comparisons)

    def _complete(self, table: Margins, n: int) -> _Completed:
        """Return the completed instance of n items; every connected component is completed separately."""
        from concordant.kernels import svp
        from concordant.kernels.graph import weak_components

        first, second, value = table
        score = np.zeros(n)
        group = weak_components(first, second, n)
        sizes = np.bincount(group)
        parts, runs, sparse = [], [], False
        for g in np.flatnonzero(sizes > 1).tolist():
            items = np.flatnonzero(group == g)
            margins = table
            if len(items) < n:
                rows = np.flatnonzero(group[first] == g)
                local = np.empty(n, dtype=np.int32)
                local[items] = np.arange(len(items), dtype=np.int32)
                margins = local[first[rows]], local[second[rows]], value[rows]
            # A skew-symmetric table of M items has a rank of at most M.
            half = min(self.rank, len(items)) // 2
            free = half * (2 * len(items) - 2 * half - 1)
            if len(margins[2]) < free:
                sparse = True
                place, margins = _order_by_margins(margins, len(items))
                items = items[np.argsort(place)]
            left, right, *run = svp.complete(
                *margins,
                len(items),
                half,
                0.0 if self.step == "auto" else float(self.step),
                self.max_iter,
                float(self.tol),
            )
            mean = (left.T @ right.sum(axis=1) - right.T @ left.sum(axis=1)) / len(items)
            largest = (np.abs(left).max(axis=1, initial=0.0) * np.abs(right).max(axis=1, initial=0.0)).max(initial=0.0)
            if np.abs(mean).max() > _NOTHING * largest:
                score[items] = mean
            parts.append(items)
            runs.append(run)
        if not runs:
            return _Completed(score, parts, False, 0, 0.0, 0.0, 0.0)
        n_iter, change, residual, gradient = (list(column) for column in zip(*runs, strict=True))
        squares = sum(r * r for r in residual)
        return _Completed(score, parts, sparse, max(n_iter), max(change), squares, max(gradient))

    def _report(self, votes: Votes, done: list[_Completed]) -> None:
        """Store the fit information and warn of problems."""
        info = self.__dict__.get("fit_info_")
        if info is not None:
            info.n_iter = max((d.n_iter for d in done), default=0)
            info.objective = sum(d.residual for d in done)
            info.gradient_norm = max((d.gradient for d in done), default=0.0)
            info.converged = all(d.change <= self.tol for d in done)
        names = votes.instances
        late = [names[n] for n, d in enumerate(done) if d.change > self.tol]
        if late:
            most = max(d.change for d in done)
            self._warn(
                f"SVP stopped after {self.max_iter} steps in {len(late)} of {len(done)} instances, {listing(late)}, "
                f"where the residual still changed by up to {most:.1e} of itself. Raise max_iter or tol, "
                "or take step='auto'.",
                ConvergenceWarning,
            )
        disconnected = [n for n, d in enumerate(done) if len(d.parts) > 1]
        if disconnected:
            n = disconnected[0]
            base = int(votes.slots.offsets[n])
            one, other = (votes.items.take(items + base).tolist() for items in done[n].parts[:2])
            self._warn(
                f"no chain of comparisons connects all items of {len(disconnected)} of {len(done)} instances, "
                f"{listing([names[a] for a in disconnected])}: in {names[n]!r} none leads from {listing(one, 3)} to "
                f"{listing(other, 3)}. Scores of different parts cannot be compared.",
                IdentifiabilityWarning,
            )
        sparse = [names[n] for n, d in enumerate(done) if d.sparse]
        if sparse:
            self._warn(
                f"{len(sparse)} of {len(done)} instances, {listing(sparse)}, have fewer pairs than a table of rank "
                f"{self.rank} has free numbers: it fits them in many ways, and the order means little. "
                "BradleyTerry, which has a prior, suits such data better.",
                IdentifiabilityWarning,
            )

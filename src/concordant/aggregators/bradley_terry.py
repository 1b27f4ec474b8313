"""Bradley-Terry: items have strengths, and how often one beats another follows from the difference of the two.

Whatever the votes are, they come down to how often each pair came out which way (`kernels.paircounts`); the strengths
that explain this best are found once, with a prior that says where they stay when the votes alone do not place them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from concordant import execution
from concordant.aggregators._mle_existence import (
    disconnected_instances,
    explain_disconnected,
    explain_no_mle,
    instances_without_mle,
)
from concordant.aggregators._pairwise_outcomes import (
    ComparisonOutcomes,
    ListOutcomes,
    PairwiseOutcomes,
    pairs_per_choice,
)
from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Aggregator, Tags, Votes
from concordant.base.limits import check_limits
from concordant.base.params import IN_DATA_UNITS, INTERVALS, Constraint, Within, boolean, integer, number, one_of
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import Slots, Texts
from concordant.data.preferences import Preferences
from concordant.data.streams import instance_stream
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    DataWarning,
    IdentifiabilityWarning,
    KindError,
    NoFiniteEstimateError,
    NotFittedError,
    ParameterError,
    UncertaintyWarning,
    listing,
    setting,
)
from concordant.execution.blocks import Blocks
from concordant.inference import uncertainty as intervals
from concordant.inference.experts import check_known
from concordant.inference.uncertainty import ScoreCovariance
from concordant.kernels.lists import offsets_of
from concordant.kernels.pairwise_wins import pair_room, pairs_held
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer, join_states, split_states

if TYPE_CHECKING:
    from concordant.aggregators._bradley_terry_fit import Profile, Solution
    from concordant.aggregators._expert_reliability import JudgeFit
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.kernels.bradley_terry import Shared
    from concordant.kernels.pair_counts import Pairs

__all__ = ["BradleyTerry"]

# Precision of the prior behind published rows, for counts from lists, in units of T / M.
_PUBLISHED_PRIOR = 2.0
# Up to this many items the covariance of all scores is made without being asked for.
_MANY_ITEMS = 5000
# So many bytes of covariances are made without being asked for.
_MUCH_MEMORY = 2e9
# Beyond a difference of this size nothing was observed: the estimate is on its way to infinity.
_FARTHEST = 30.0
# Curvature below this part of the largest, or of the outcomes, says that nothing bounds some weights of features.
_FLAT = 1e-12
# Rounding errors of a covariance are smaller.
_CLOSE = 1e-6


class _Found(NamedTuple):
    """What a fit knows about its own instances: the votes in parts, and the scores in all of them."""

    parts: list[PairwiseOutcomes]
    score: Floats
    jointly: bool


@register_method
class BradleyTerry(Aggregator):
    """Strengths of items from how often each beats each other, with ties, a prior, sides, covariates and judges.

    P(i beats j) = 1 / (1 + exp(s_j - s_i)), and the scores maximise log-likelihood - ½ prior ‖s‖². With ties, Davidson:
    P(i), P(j), P(tie) in proportion e^{d/2} : e^{-d/2} : ν, d = s_i - s_j; Rao and Kupper: P(i) = 1 / (1 + θ e^{-d}). A
    tie is a tie, never half a win. Items that an expert leaves out have met nobody in that list, also where the
    preferences declare them below what it holds, of which a warning tells; an item that met nobody has the score 0, the
    mean. Empty lists add nothing. A list of weight 2 counts as two experts; the weight of a row of comparisons
    multiplies its counts.

    A list of m items becomes its m (m − 1) / 2 pairs, each an outcome of the two items (`transform` counts otherwise).
    The pairs of a list are one opinion: the prior weighs as much as it would against the m − 1 choices of the list, and
    intervals are clustered by list.

    Parameters
    ----------
    ties : {"auto", "davidson", "rao-kupper", "none"}
        The model of ties; "auto" is Davidson's where there are ties. "none" leaves ties out and says how many. Lists
        count tied pairs only with transform="binary" (a difference of 0 counts nothing).
    reliability : bool
        Whether to learn how far each expert can be trusted, together with the scores: a slope on the difference of
        scores (0 = a coin, below 0 = inverted), a leaning to one side, a tendency to tie.
    prior : "auto", "published" or float >= 0
        Precision λ of the normal prior of the scores. "auto" is weak and the same for all data: 0.1, for lists times
        the pairs counted per choice. 0 is the bare maximum-likelihood estimate, which raises NoFiniteEstimateError
        naming the items where it does not exist. "published" is the heavy shrinkage behind the published rows on
        MQ2008-agg, with transform="count": 2T/M for lists, T the instance's total count and M its items. It is good
        for the top of partial lists by few experts, and its scores and intervals are pulled in (docs/uncertainty.md).
    side_effect : bool
        Whether to learn what being shown on the left is worth (`side_`); for comparisons with known sides.
    anchor : id or None
        The item whose score is 0; None puts the mean of an instance's scores there.
    optimizer : {"newton", "gd"}
        "gd" takes `max_iter` gradient steps from 0, without a prior unless one is given: the early stop that published
        results owe their shrinkage to. It has no ties and no intervals.
    learning_rate : float
        Of optimizer="gd": a step is learning_rate · M² / T times the gradient (T outcomes of the instance's M items),
        as if every ordered pair had met once on average. The default gives the published rows of MQ2008-agg (where it
        is about 0.01 · M / T) and the published films of MovieLens alike.
    transform : {"binary", "count", "rankdiff", "log", "rating"}
        What a preference of a list counts: 1; the difference of ranks; that difference over the list's largest rank;
        the difference of log ranks over the largest; the difference of ratings. All but "binary" change what is
        estimated: the scores then are no log odds. Scores are ranked first. Comparisons are counts already.
    uncertainty : {"auto", "information", "sandwich", "bootstrap", "none"}
        How intervals are made. "auto": from the observed information for comparisons without experts; else from a
        sandwich clustered by expert within the instance, because what one expert says hangs together, moderated where
        few experts speak of an item. "bootstrap" weighs experts (or outcomes, without experts) anew. With a prior they
        are intervals of the posterior.
    level : float
        Of the intervals.
    rank_ranges : {"marginal", "simultaneous"}
        Whether the range of a rank holds that rank with probability `level`, or counts who is surely better and worse,
        all verdicts about the item being right together with that probability.
    n_bootstrap : int
        How often to weigh anew.
    max_iter : int
        Newton steps at most; gradient steps for optimizer="gd"; five times as many sweeps where reliability is learned.
    tol : float
        Where to stop, on `fit_info_.gradient_norm`: the largest component of the gradient over max(1, the most outcomes
        an item has) (for shared parameters, over all outcomes).
    unknown_experts : {"error", "ignore"}
        What `predict` does with experts that `fit` did not see, where reliability is learned.
    random_state : int
        Of the bootstrap.

    Attributes
    ----------
    ties_, tie_ : str, float
        The model of ties that was used, and its ν or θ (0 for "none"), shared by all instances.
    side_ : float
        What the left side is worth on the scale of scores; 0 unless learned.
    coefficients_ : dict
        Weights of the features, by name, where `fit` was given any.
    adherence_, experts_, expert_details_
        The reliability of every expert (1 = as the scores say, 0 = noise), their ids, and slope, side and tie
        tendency, where reliability is learned.
    scale_ : float
        Scores are on the scale of the experts who are believed, the prior's times this, where reliability is learned.

    Notes
    -----
    `fit(..., features=)` ties the scores to covariates of the items: s_i = x_i · b, the prior still being on s. Every
    item needs a row. A constant added to a feature within an instance changes nothing; of collinear columns the weights
    of smallest norm (in standardised columns) are kept, with a warning. A value that is not known (NaN) is an error.
    `predict` then needs items that the features of `fit` described.

    `fit` learns what instances share (ν or θ, the side, weights of features, judges); `predict` infers the scores of
    its own instances with these fixed. Cost O(R + P) to count R rows (Σ m² / 2 for lists of m items) over P pairs that
    met, then O(P) for each of some six Newton steps; comparisons that are collapsed already are not copied, and a fit
    holds some 30 bytes a pair beside them. Intervals cost O(M³) and are left out above 5,000 items unless
    asked for. With reliability=True lists are written out pair by pair, expert by expert; intervals of `fit_predict`
    include what is not known about the judges, those of `predict` take the judges as known and are narrower.

    References
    ----------
    Bradley and Terry, Rank analysis of incomplete block designs, Biometrika 1952. Davidson, On extending the
    Bradley-Terry model to accommodate ties, JASA 1970. Rao and Kupper, Ties in paired-comparison experiments, JASA
    1967. Existence: Ford, Solution of a ranking problem from binary comparisons, 1957.

    Examples
    --------
    >>> import concordant as cc
    >>> votes = cc.Comparisons("arena", None, ["a", "a", "b"], ["b", "c", "c"], [7, 8, 6], [2, 1, 3], [1, 1, 1])
    >>> board = cc.BradleyTerry().fit_predict(votes)
    >>> board.ranking(), board.score.round(2).tolist(), board.stderr.round(2).tolist()
    (['a', 'b', 'c'], [1.06, -0.18, -0.88], [0.41, 0.35, 0.38])
    """

    name = "bradley-terry"
    uses_features = True
    tags = Tags(
        accepts=frozenset({"rank", "score", "rating", "comparisons"}),
        uncertainty=True,
        blocks=True,
        cost="O(R + P) and O(P) per Newton step, P pairs that met",
    )
    _missing_is_unknown = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "ties": one_of("auto", "davidson", "rao-kupper", "none"),
        "reliability": boolean(),
        "prior": Constraint(
            "'auto', 'published' or a number >= 0",
            lambda v: v in ("auto", "published") if isinstance(v, str) else number(least=0).test(v),
        ),
        "side_effect": boolean(),
        "anchor": Constraint(
            "an item's id, or None",
            lambda v: v is None or isinstance(v, str) or integer().test(v),
        ),
        "optimizer": one_of("newton", "gd"),
        "learning_rate": number(above=0),
        "transform": one_of("binary", "count", "rankdiff", "log", "rating"),
        "max_iter": integer(least=1),
        "tol": number(above=0),
        "unknown_experts": one_of("error", "ignore"),
        **INTERVALS,
    }

    ties_: str
    tie_: Annotated[float, Within(least=0)]
    side_: Annotated[float, Within(-1e3, 1e3)]
    coefficients_: Annotated[dict[str, float], IN_DATA_UNITS]
    shared_covariance_: Annotated[Floats, IN_DATA_UNITS._replace(missing=True)]
    adherence_: Annotated[Floats, Within(-1e3, 1e3)]
    expert_details_: Annotated[dict[str, list[float]], Within()]
    scale_: Annotated[float, Within(1e-12)]
    feature_slots_: Annotated[dict[str, list[Any]], Within(least=0)]
    feature_basis_: Annotated[Floats, IN_DATA_UNITS]
    feature_scores_: Annotated[Floats, IN_DATA_UNITS]

    def __init__(
        self,
        *,
        ties: str = "auto",
        reliability: bool = False,
        prior: str | float = "auto",
        side_effect: bool = False,
        anchor: str | None = None,
        optimizer: str = "newton",
        learning_rate: float = 3.5e-4,
        transform: str = "binary",
        uncertainty: str = "auto",
        level: float = 0.95,
        rank_ranges: str = "marginal",
        n_bootstrap: int = 200,
        max_iter: int = 100,
        tol: float = 1e-9,
        unknown_experts: str = "error",
        random_state: int = 0,
    ) -> None:
        self.ties = ties
        self.reliability = reliability
        self.prior = prior
        self.side_effect = side_effect
        self.anchor = anchor
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.transform = transform
        self.uncertainty = uncertainty
        self.level = level
        self.rank_ranges = rank_ranges
        self.n_bootstrap = n_bootstrap
        self.max_iter = max_iter
        self.tol = tol
        self.unknown_experts = unknown_experts
        self.random_state = random_state

    # What was asked, and whether it can be had.

    def _check_asked(self, preferences: Votes, features: Features | None) -> None:
        """Raise for parameters that do not go together, or not with these votes."""
        if self.optimizer == "gd":
            asked = {
                f"ties={self.ties!r}": self.ties in ("davidson", "rao-kupper"),
                "reliability=True": self.reliability,
                "side_effect=True": self.side_effect,
                "features": features is not None,
                f"uncertainty={self.uncertainty!r}": self.uncertainty not in ("auto", "none"),
            }
            wrong = [name for name, given in asked.items() if given]
            if wrong:
                raise ParameterError(
                    f"BradleyTerry(optimizer='gd') takes the plain steps of the papers and has no {', '.join(wrong)}. "
                    "Use optimizer='newton'."
                )
        if self.reliability and (self.ties == "rao-kupper" or self.side_effect or features is not None):
            raise ParameterError(
                "BradleyTerry(reliability=True) learns a side effect and a tendency to tie (in Davidson's form) for "
                "every expert. It goes without side_effect=True, ties='rao-kupper' and features."
            )
        if self.uncertainty == "bootstrap" and (self.reliability or features is not None):
            raise ParameterError(
                f"BradleyTerry has no bootstrap with {'reliability=True' if self.reliability else 'features'}. Use "
                "uncertainty='sandwich' or 'information'."
            )
        experts = isinstance(preferences, Preferences) or preferences.expert is not None
        if self.reliability and not experts:
            raise DataError(
                "reliability=True learns how far each expert can be trusted, but these comparisons name no experts. "
                "Name the column that holds them, or leave reliability=False."
            )
        if self.uncertainty == "sandwich" and not experts:
            raise DataError(
                "uncertainty='sandwich' is clustered by expert, but these comparisons name no experts. "
                "Name the column that holds them, or use 'information' or 'bootstrap'."
            )
        if self.side_effect and not (isinstance(preferences, Comparisons) and preferences.sided):
            lists = isinstance(preferences, Preferences)
            found = "lists" if lists else "comparisons with sided=False"
            raise (KindError if lists else DataError)(
                "BradleyTerry(side_effect=True) learns what being shown on the left is worth, but these are "
                f"{found}: nobody knows which item was shown where. Give Comparisons with sided=True, or leave "
                "side_effect=False."
            )
        if not isinstance(preferences, Preferences):
            return
        preferences.check_transform(self.transform, "BradleyTerry")
        if self.ties in ("davidson", "rao-kupper") and self.transform != "binary":
            raise ParameterError(
                f"BradleyTerry(ties={self.ties!r}) counts tied pairs of a list, and transform={self.transform!r} "
                "counts differences, of which a tie has none. Use transform='binary', or ties='auto'."
            )

    def _meetings(self, preferences: Votes, ties: bool) -> PairwiseOutcomes:
        """Return the votes as meetings; where `ties` are not to be counted, say how many observed ones are left out."""
        if isinstance(preferences, Preferences):
            p = preferences
            pairs = pair_room(p.list_offsets, p.list_starts, p.slots.offsets)
            check_limits("BradleyTerry", p, "all pairs in lists", n_bytes=32.0 * pairs)
            return ListOutcomes.of(p, self.transform, ties)
        n_ties = float(preferences.n_ties.sum())
        if n_ties and not ties:
            self._warn(
                f"{n_ties:,.10g} ties are left out: there is no model of ties"
                + (". Use ties='davidson'." if self.ties == "none" or self.optimizer == "gd" else " in this fit."),
                DataWarning,
            )
        return ComparisonOutcomes(preferences, ties, self.side_effect)

    def _priors(self, votes: PairwiseOutcomes) -> Floats:
        """Return the precision of the prior in every instance."""
        sizes = votes.slots.sizes
        if not isinstance(self.prior, str):
            return np.full(len(sizes), float(self.prior))
        if self.optimizer == "gd":
            return np.zeros(len(sizes))
        if self.prior == "published" and votes.derived:
            return np.asarray(_PUBLISHED_PRIOR * votes.totals / np.maximum(sizes, 1), dtype=np.float64)
        return intervals.WEAK_PRIOR * votes.calibration

    @property
    def _shrinks(self) -> bool:
        return isinstance(self.prior, str) or self.prior > 0

    def _how(self, has_experts: bool) -> str:
        """Return the way intervals are made for these votes."""
        if self.uncertainty != "auto":
            return self.uncertainty
        if self.optimizer == "gd":
            return "none"
        return "sandwich" if has_experts else "information"

    def counts_suffice(self, has_experts: bool) -> bool:
        """Return whether comparisons may be collapsed to counts of pairs first, the answer staying the same.

        Who compared matters where it is known and experts are judged, clustered or drawn; the side where it is learned.
        """
        by_expert = self.reliability or (has_experts and self._how(has_experts) in ("sandwich", "bootstrap"))
        return not by_expert and not self.side_effect

    def _in_words(self, how: str, has_experts: bool) -> str | None:
        words = {
            "information": "observed information",
            "sandwich": "sandwich, clustered by expert",
            "bootstrap": f"bootstrap over {'experts' if has_experts else 'outcomes'}, {self.n_bootstrap} draws",
        }
        return None if how == "none" else words[how] + (", posterior" if self._shrinks else "")

    def _check_placed(self, votes: PairwiseOutcomes, ties: bool) -> None:
        """Raise (without a prior) or warn where the votes alone do not place every item; `ties` count as meetings."""
        bare = not self._shrinks and self.optimizer == "newton"
        slots = votes.slots
        one, other = votes.comparison_graph
        silent = (np.bincount(slots.instance[one], minlength=len(slots)) == 0) & (slots.sizes > 0)
        rest = "where the steps end" if self.optimizer == "gd" else "the prior"
        if votes.derived and not bare:
            # The prior (or the early stop) is the estimator there, and who never lost rests on it like all the others;
            # but of two groups that never met nothing says which is better.
            loose = disconnected_instances(one, other, slots)
            why = explain_disconnected(one, other, slots, int(loose[0])) if len(loose) else ""
        else:
            tail, head = _arrows(votes.pairs, ties)
            loose = instances_without_mle(tail, head, slots)
            loose = loose if bare else loose[~silent[loose]]
            why = explain_no_mle(tail, head, slots, int(loose[0])) if len(loose) else ""
        more = f" (and {len(loose) - 1} more instances are like that)" if len(loose) > 1 else ""
        if bare and len(loose):
            raise NoFiniteEstimateError(
                f"no finite Bradley-Terry estimate: {why}{more}. Set prior=0.1, or drop what cannot be placed."
            )
        if len(loose):
            self._warn(f"{why}{more}: what places them is {rest}.", IdentifiabilityWarning)
        quiet = np.flatnonzero(silent)
        if len(quiet):
            self._warn(
                f"nobody prefers any of {intervals.some_items(slots, quiet)} to another: they score 0 and get no "
                "interval.",
                IdentifiabilityWarning,
            )

    def _anchors(self, slots: Slots) -> Ints | None:
        """Return the anchor's slot in every instance, or raise where it is missing; None without an anchor."""
        if self.anchor is None:
            return None
        named = str(self.anchor)
        at = np.flatnonzero(np.array([item == named for item in slots.items.tolist()], dtype=np.bool_))
        out = np.full(len(slots), -1, dtype=np.int64)
        out[slots.instance[at]] = at
        lost = np.flatnonzero((out < 0) & (slots.sizes > 0))
        if len(lost):
            n = int(lost[0])
            items = slots.items[int(slots.offsets[n]) : int(slots.offsets[n + 1])].tolist()
            more = f" (nor in {len(lost) - 1} more)" if len(lost) > 1 else ""
            raise DataError(
                f"there is no item {named!r} to anchor in instance {slots.instances[n]!r}{more}. "
                f"It has: {listing(items)}."
            )
        return out

    def _check_state(self) -> None:
        """Raise where a part of what is learned is missing, or out of bounds."""
        state = self.__dict__
        if "ties_" not in state:
            return
        needed = {"tie_", "side_", "shared_covariance_"} | ({"adherence_", "scale_"} if self.reliability else set())
        needed |= {n for n in ("feature_slots_", "feature_basis_", "feature_scores_") if "coefficients_" in state}
        missing = sorted(needed - state.keys())
        if self.reliability:
            details = getattr(self, "expert_details_", {})
            missing += [n for n in ("slope", "slope_stderr", "side", "tie_tendency") if n not in details]
        if missing:
            raise DataError(f"parts of what BradleyTerry learns are missing: {listing(missing)}.")
        if self.reliability and min(self.expert_details_["slope_stderr"], default=0.0) < 0:
            raise DataError("a standard error is below 0.")
        if self.ties_ not in ("none", "davidson", "rao-kupper"):
            raise DataError(f"BradleyTerry has no ties {self.ties_!r}.")
        table = self.shared_covariance_
        if table.ndim != 2 or len(set(table.shape)) != 1:
            raise DataError("the covariance of what is shared is no square table.")
        # Without experts to tell how far they differ, weights of features have no covariance at all.
        if not (np.isnan(table).all() and "coefficients_" in state) and not _is_covariance(table):
            raise DataError("the covariance of what is shared is none.")
        if "coefficients_" in state:
            rows = sum(self.feature_slots_["sizes"])
            if not len(self.feature_basis_) == len(self.feature_scores_) == len(self.feature_slots_["items"]) == rows:
                raise DataError("the scores of features are not one for each item.")

    # Fitting.

    def _learns(self) -> bool:
        return self.reliability or self.side_effect or (self.ties != "none" and self.optimizer == "newton")

    def _fit(self, preferences: Votes, labels: Labels | None, validation: Any, features: Features | None) -> Any:
        if isinstance(preferences, Blocks):
            return self._learn_ties_from_blocks(preferences)
        self._check_asked(preferences, features)
        self._anchors(preferences.slots)
        votes = self._meetings(preferences, ties=self.ties != "none" and self.optimizer == "newton")
        self.ties_, self.tie_, self.side_ = "none", 0.0, 0.0
        self.shared_covariance_ = np.zeros((0, 0))
        self.fit_info_.uncertainty = self._in_words(self._how(votes.has_experts), votes.has_experts)
        checkpoint = StepCheckpoint(self, [preferences, features])
        if self.reliability:
            return self._fit_judges(preferences, checkpoint)
        if self.optimizer == "newton" and (self.side_effect or features is not None or _has_ties(votes)):
            return self._fit_shared(votes, features, checkpoint)
        return self._found(votes, checkpoint)

    def _shared(self) -> Shared:
        """Return what instances share, as the kernels want it."""
        from concordant.kernels.bradley_terry import MODELS, Shared

        tie = float(np.log(self.tie_)) if self.ties_ != "none" else 0.0
        return Shared(MODELS[self.ties_], tie, self.side_)

    def _learned(self) -> Ints:
        """Return which shared parameters were learned: 0 for the tie parameter, 1 for the side."""
        return np.flatnonzero([self.ties_ != "none", self.side_effect])

    def _found(self, votes: PairwiseOutcomes, checkpoint: Checkpointer = NO_CHECKPOINT) -> _Found:
        """Return the scores of every instance, found by itself; what is shared is known."""
        from concordant.aggregators import _bradley_terry_fit
        from concordant.kernels import bradley_terry

        parts = votes.windows()
        shared = self._shared()
        at_once = not votes.derived or self._shrinks or self.optimizer == "gd"
        if at_once:
            self._check_placed(votes, ties=shared.model != bradley_terry.PLAIN)

        def work(k: int) -> Solution:
            part = parts[k]
            prior = self._priors(part)
            if self.optimizer == "gd":
                found = _bradley_terry_fit.gradient_ascent(
                    part.pairs, prior, steps=self.max_iter, rate=float(self.learning_rate)
                )
            else:
                if not at_once:
                    # This looks at every pair, of which there may be too many to look at all at once.
                    self._check_placed(part, ties=shared.model != bradley_terry.PLAIN)
                how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "report": execution.report_progress}
                # Several parts are solved side by side, each by itself; what lasts is one large instance.
                found = _bradley_terry_fit.solve(
                    part.pairs, prior, shared, **how, checkpoint=checkpoint if len(parts) == 1 else NO_CHECKPOINT
                )
            if len(parts) > 1:
                # What is counted is counted again when it is needed: memory is what there are parts for.
                vars(part).pop("pairs")
            return found

        solved = execution.map_instances(work, len(parts)) if len(parts) > 1 else [work(0)]
        self._note(solved)
        return _Found(parts, np.concatenate([s.score for s in solved]), jointly=False)

    def _note(self, solved: list[Solution]) -> None:
        """Write down how the search went, and warn where it did not end."""
        info = self.fit_info_
        info.n_iter = max(s.n_iter for s in solved)
        info.objective = float(sum(s.objective for s in solved))
        info.gradient_norm = max(s.gradient_norm for s in solved)
        info.converged = all(s.converged for s in solved)
        info.trace = solved[0].trace if len(solved) == 1 else []
        if self.optimizer == "gd":
            # To stop early is the method; whether it could have gone on is told by the gradient.
            info.converged = info.gradient_norm <= self.tol
        elif not info.converged and not info.interrupted:
            self._warn(
                f"Bradley-Terry did not converge in {info.n_iter} steps (gradient norm {info.gradient_norm:.2g}, asked "
                f"for {self.tol:g}). Raise max_iter or prior.",
                ConvergenceWarning,
            )

    def _fit_shared(self, votes: PairwiseOutcomes, features: Features | None, checkpoint: Checkpointer) -> Any:
        """Learn what instances share together with all scores."""
        from concordant.aggregators import _bradley_terry_fit
        from concordant.kernels import bradley_terry

        pairs, prior = votes.pairs, self._priors(votes)
        tied = bool(pairs.n_ties.sum())
        if tied:
            self.ties_ = "davidson" if self.ties == "auto" else self.ties
        model = bradley_terry.MODELS[self.ties_]
        self._check_shared(votes, features is not None)
        if features is None:
            self._check_placed(votes, tied)
        all_ties = self._only_ties(votes)
        start = bradley_terry.Shared(model, bradley_terry.initial_tie(pairs, model) if tied else 0.0, 0.0)
        which: dict[str, Any] = {"tie": tied and not all_ties, "side": self.side_effect}
        how: dict[str, Any] = {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "report": execution.report_progress,
            "checkpoint": checkpoint,
        }
        if features is not None:
            return self._fit_features(votes, features, prior, start, which, how)
        if any(which.values()):
            solved = _bradley_terry_fit.solve_jointly(pairs, prior, start, **which, **how)
        else:
            solved = _bradley_terry_fit.solve(pairs, prior, start, **how)
        self._keep_shared(solved, votes, linear=False)
        self._note([solved])
        if any(which.values()):
            self.shared_covariance_ = self._shared_spread(votes, solved)
        return _Found([votes], solved.score, jointly=len(votes.slots) == 1 and any(which.values()))

    def _blocks_obstacle(self) -> str:
        if not self.reliability:
            return ""
        return "BradleyTerry(reliability=True) learns whom to believe from all instances at once, not from blocks."

    def _learn_ties_from_blocks(self, blocks: Blocks) -> None:
        """Learn the tie parameter by sums over blocks of what the likelihood is where their scores are best."""
        from concordant.aggregators import _bradley_terry_blocks as parted
        from concordant.aggregators import _bradley_terry_fit
        from concordant.kernels import bradley_terry

        self.ties_, self.tie_, self.side_ = "none", 0.0, 0.0
        self.shared_covariance_ = np.zeros((0, 0))
        self.fit_info_.uncertainty = self._in_words(self._how(has_experts=True), has_experts=True)
        if not self.learns() or not any(blocks.shards.map(parted.is_tied, self)):
            return
        parts = blocks.shards.persist(parted.part_of, self)
        told = parted.Told.of_all(parts.map(parted.tell, self))
        self.ties_ = "davidson" if self.ties == "auto" else self.ties
        if not self._shrinks and not told.bounded:
            raise self._unbounded_ties(f"the items of {len(blocks.instances):,} instances")
        model = bradley_terry.MODELS[self.ties_]
        start = bradley_terry.Shared(model, bradley_terry.tie_of_equal_items(told.ties, told.decided, model))
        learned = np.array([0])
        if not told.decided:
            self._warn_of_ties(told.ties, f"the items of {len(blocks.instances):,} instances")
            self.tie_ = float(np.exp(start.tie))
            return
        how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        checkpoint = StepCheckpoint(self, [blocks])
        known = checkpoint.restore()
        if known is not None:
            parts = parts.persist_each(parted.taken_up, split_states(known))

        def evaluate(shared: Shared) -> Profile:
            nonlocal parts
            parts = parts.persist(parted.moved, self, shared, learned, how)
            return parted.added(parts.map(parted.profile_of))

        found = _bradley_terry_fit.maximise_profile(
            evaluate,
            start,
            learned,
            told.ties + told.decided,
            **how,
            report=execution.report_progress,
            checkpoint=checkpoint,
            solver_state=lambda: join_states(list(parts.map(parted.kept))),
        )
        self.tie_ = float(np.exp(found.shared.tie))
        self._note([found])
        inverse = np.asarray(np.linalg.pinv(found.information, hermitian=True), dtype=np.float64)
        if self._how(has_experts=True) not in ("none", "information") and not (
            self.uncertainty == "auto" and told.largest > _MANY_ITEMS
        ):
            inverse = inverse @ sum(parts.map(parted.spread_of, self), np.zeros(inverse.shape)) @ inverse
        self.shared_covariance_ = inverse

    def _only_ties(self, votes: PairwiseOutcomes) -> bool:
        """Return whether all outcomes are ties, and warn if so."""
        p = votes.pairs
        found = bool(p.n_ties.any()) and not (p.n_left.any() or p.n_right.any())
        if found:
            self._warn_of_ties(float(p.n_ties.sum()), f"items {listing(votes.slots.items.tolist(), 5)}")
        return found

    def _warn_of_ties(self, count: float, among: str) -> None:
        self._warn(
            f"every one of the {count:,.10g} outcomes is a tie, so that nothing tells {among} apart: all scores are 0.",
            IdentifiabilityWarning,
        )

    def _keep_shared(self, solved: Solution, votes: PairwiseOutcomes, *, linear: bool) -> None:
        """Keep the shared parameters, or raise where they and the scores ran off to infinity.

        Scores that are `linear` in features may be any distance apart: two items that differ much in a feature are,
        although others bound its weight. They ran off where the likelihood is flat along some weights.
        """
        from concordant.kernels import bradley_terry

        shared, p = solved.shared, votes.pairs
        if not self._shrinks and len(p.left):
            gap = np.abs(solved.score[p.left] - solved.score[p.right] + shared.side).max()
            curves = np.linalg.eigvalsh(solved.information) if len(solved.information) else np.ones(1)
            if linear:
                held = self.ties_ != "none" and abs(shared.tie) >= bradley_terry.TIE_BOUND
                lost = held or curves[0] <= _FLAT * max(curves[-1], p.outcomes.sum())
            else:
                lost = gap > _FARTHEST or (self.side_effect and curves[0] <= 1e-9 * p.outcomes.sum())
            open_end = not solved.converged and not self.fit_info_.interrupted
            if lost or open_end:
                items = listing(votes.slots.items.tolist(), 5)
                raise NoFiniteEstimateError(
                    f"no finite Bradley-Terry estimate: the scores of items {items} and what is learned with them "
                    "(side effect, weights of features, tie parameter) cannot be told apart or grow without bound. Set "
                    "prior=0.1, or leave the side effect or some features out."
                )
        self.tie_ = float(np.exp(shared.tie)) if self.ties_ != "none" else 0.0
        self.side_ = float(shared.side)

    def _check_shared(self, votes: PairwiseOutcomes, linear: bool) -> None:
        """Raise where the votes do not bound the side effect, or (without a prior) the tie parameter.

        Scores that are `linear` in features have fewer ways to grow with the tie parameter than free ones; whether
        they did is seen when they are found.
        """
        pairs = votes.pairs
        won = {"left": float(pairs.n_left.sum()), "right": float(pairs.n_right.sum())}
        lost = [side for side, count in won.items() if not count]
        if self.side_effect and len(pairs.left) and lost:
            raise NoFiniteEstimateError(
                f"no finite side effect: the {lost[0]} item never won, in {pairs.outcomes.sum():,.10g} outcomes. "
                "Leave side_effect=False, or check which column is which."
            )
        if self.ties_ != "none" and not self._shrinks and not linear and not _bounded_ties(pairs):
            raise self._unbounded_ties(f"items {listing(votes.slots.items.tolist(), 5)}")

    def _unbounded_ties(self, among: str) -> NoFiniteEstimateError:
        return NoFiniteEstimateError(
            f"no finite Bradley-Terry estimate with ties={self.ties_!r}: there is no circle of items with more wins "
            f"than ties along it among {among}, so that scores and the tie parameter grow together without bound. Set "
            "prior=0.1, or ties='none'."
        )

    def _shared_spread(self, votes: PairwiseOutcomes, solved: Solution) -> Floats:
        """Return the covariance of the shared parameters, the scores being estimated with them."""
        inverse = np.asarray(np.linalg.pinv(solved.information, hermitian=True), dtype=np.float64)
        large = self.uncertainty == "auto" and bool((votes.slots.sizes > _MANY_ITEMS).any())
        if self._how(votes.has_experts) in ("none", "information") or not votes.has_experts or large:
            return inverse
        return inverse @ self._pulled_apart(votes, solved.score, solved.response) @ inverse

    def _pulled_apart(self, votes: PairwiseOutcomes, score: Floats, response: Floats) -> Floats:
        """Return the spread of what experts pull the shared parameters for, after the scores have given way."""
        shared, learned = self._shared(), self._learned()
        out = np.zeros((len(learned), len(learned)))
        for n, own in _instances(votes):
            pulls, _, weight = votes.expert_gradients(n, score, shared, learned)
            if weight.sum() >= 2:
                m = own.stop - own.start
                out += _scatter(pulls[:, m:] - pulls[:, :m] @ response[:, own].T, weight)
        return out

    # Predicting.

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        self._check_asked(preferences, None)
        if "ties_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        if "feature_scores_" in self.__dict__:
            return self._described(preferences)
        anchors = self._anchors(preferences.slots)
        if self.reliability:
            return self._judged(preferences, known, anchors)
        found = known
        if found is None:
            # The record stays that of the fit; only warnings about these votes are added to it.
            kept = self.fit_info_
            self.fit_info_ = replace(kept)
            try:
                found = self._found(self._meetings(preferences, ties=self.ties_ != "none"))
            finally:
                self.fit_info_ = kept
        has_experts = found.parts[0].has_experts
        how = self._affordable(preferences.slots, self._how(has_experts), largest=None)
        if how == "none":
            return self._answer(preferences.slots, found.score, anchors)
        made: list[ScoreCovariance | str] = []
        where = []
        for part, score in _with_scores(found):
            made += self._part_spreads(part, score, how, found.jointly)
            where.append(part.compared)
            if len(found.parts) > 1:
                vars(part).pop("pairs", None)
        words = self._in_words(how, has_experts)
        return self._answer(preferences.slots, found.score, anchors, made, words, np.concatenate(where))

    def _affordable(self, slots: Slots, how: str, largest: int | None) -> str:
        """Return the way intervals are made, "none" (and a warning) where they take too much memory unasked.

        `largest` is the most items an instance may have, where they are made for all instances or for none.
        """
        size = float((slots.sizes.astype(np.float64) ** 2).sum()) * 8
        many = largest is not None and int(slots.sizes.max(initial=0)) > largest
        if self.uncertainty != "auto" or how == "none" or not (size > _MUCH_MEMORY or many):
            return how
        self._warn(
            f"no intervals: the covariances of the scores of {len(slots)} instances take {size / 1e9:.1f} GB. Ask for "
            f"them with uncertainty={how!r}.",
            UncertaintyWarning,
        )
        return "none"

    def _answer(
        self,
        slots: Slots,
        score: Floats,
        anchors: Ints | None,
        made: Sequence[ScoreCovariance | str] | None = None,
        method: str | None = None,
        known: Any = None,
    ) -> Consensus:
        """Return the consensus in its gauge, with intervals where they are given, saying why where they are not."""
        gauge = "the scores of an instance have mean 0"
        if made is not None:
            self._mention_missing(made, slots)
        spreads = [None if isinstance(s, str) else s for s in made or ()]
        if anchors is not None:
            gauge = f"item {str(self.anchor)!r} has the score 0"
            full = slots.sizes > 0
            score = score - np.repeat(score[anchors[full]], slots.sizes[full])
            inside = anchors - slots.offsets[:-1]
            spreads = [None if s is None else s.anchored(int(inside[n])) for n, s in enumerate(spreads)]
        if made is None or method is None:
            return Consensus.from_codes(slots, score, gauge=gauge)
        return intervals.with_intervals(
            slots,
            score,
            spreads,
            level=self.level,
            rank_ranges=self.rank_ranges,
            gauge=gauge,
            method=method,
            known=known,
            warn=self._warn,
        )

    def _mention_missing(self, made: Sequence[ScoreCovariance | str], slots: Slots) -> None:
        """Warn, once for each reason, of instances that get no intervals."""
        few = [n for n, reason in enumerate(made) if reason == "experts"]
        if few:
            self._warn(
                f"no intervals for {intervals.some_items(slots, few)}: fewer than two experts compare items there, and "
                "one alone does not show how far experts differ.",
                UncertaintyWarning,
            )
        large = [n for n, reason in enumerate(made) if reason == "memory"]
        if large:
            m = int(slots.sizes[large[0]])
            self._warn(
                f"no intervals for instance {slots.instances[large[0]]!r}: the covariance of {m:,} scores takes "
                f"{m * m * 8 / 1e9:.1f} GB several times over. Ask for it with uncertainty='information', 'sandwich' "
                "or 'bootstrap'.",
                UncertaintyWarning,
            )

    def _part_spreads(
        self, votes: PairwiseOutcomes, score: Floats, how: str, jointly: bool
    ) -> list[ScoreCovariance | str]:
        """Return how far the scores of every instance may be off, or why there is no telling."""
        shared, learned = self._shared(), self._learned()
        prior, calibration = self._priors(votes), votes.calibration
        out: list[ScoreCovariance | str] = ["nothing was compared"] * len(votes.slots)
        done: set[int] = set()
        if how == "sandwich" and not len(learned):
            for stack in votes.clusters(score, prior):
                which = stack.instances
                places = votes.slots.offsets[which][:, None] + np.arange(stack.hessian.shape[-1])
                sums = stack.meat, stack.information, stack.squares, stack.counts
                found = intervals.score_covariance(
                    stack.hessian,
                    scores=stack.hessian.shape[-1],
                    prior=prior[which][:, None],
                    calibration=calibration[which],
                    clusters=intervals.Clusters(*sums, total=prior[which][:, None] * score[places]),
                )
                for k, n in enumerate(which.tolist()):
                    out[n] = found.one(k) if stack.counts[k] >= 2 else "experts"
                done.update(which.tolist())
        draws = self._draws(votes, score, prior, jointly) if how == "bootstrap" else None
        given: list[dict[str, Any] | None] = [None] * len(out)
        added: dict[int, Floats] = {}
        for n, own in _instances(votes):
            m = own.stop - own.start
            if n in done:
                continue
            if m > _MANY_ITEMS and self.uncertainty == "auto":
                out[n] = "memory"
                continue
            # In a fit of one instance the shared parameters are as uncertain as the scores and hang together with
            # them; else they come from elsewhere, and what is uncertain about them is added.
            whole, bend, couplings = _curvature(votes, n, score, float(prior[n]), shared, learned)
            told: dict[str, Any] = {
                "hessian": whole if jointly else whole[:m, :m],
                "scores": m,
                "prior": np.full(m, prior[n]),
                "calibration": np.array(calibration[n]),
            }
            if draws is not None:
                told["repeated"] = intervals.sample_covariance(draws[:, own])
            if votes.has_experts and how != "information":
                pulls = votes.expert_gradients(n, score, shared, learned if jointly else learned[:0])
                told["clusters"] = clusters = intervals.Clusters.of(*pulls)
                if clusters.count < 2:
                    out[n] = "experts"
                    continue
            given[n] = told
            if len(learned) and not jointly and self.shared_covariance_.size:
                give = np.linalg.solve(bend, couplings)
                added[n] = intervals.regauge(give @ self.shared_covariance_ @ give.T, None)
        for n, made in enumerate(intervals.batched(intervals.score_covariance, given)):
            if made is not None:
                out[n] = made._replace(table=made.table + added[n]) if n in added else made
        return out

    def _draws(self, votes: PairwiseOutcomes, score: Floats, prior: Floats, jointly: bool) -> Floats:
        """Return the scores when experts, or outcomes, are weighted anew `n_bootstrap` times."""
        from concordant.aggregators import _bradley_terry_fit

        shared, learned = self._shared(), self._learned()
        streams = [instance_stream(self.random_state, name) for name in votes.slots.instances]
        out = np.empty((self.n_bootstrap, len(score)))
        how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        which: dict[str, Any] = {"tie": 0 in learned, "side": 1 in learned}
        for b in range(self.n_bootstrap):
            execution.report_progress(b, self.n_bootstrap)
            pairs = votes.resampled(streams)
            if jointly:
                out[b] = _bradley_terry_fit.solve_jointly(pairs, prior, shared, start=score, **which, **how).score
            else:
                out[b] = _bradley_terry_fit.solve(pairs, prior, shared, start=score, **how).score
        return out

    # Covariates.

    def _fit_features(
        self,
        votes: PairwiseOutcomes,
        features: Features,
        prior: Floats,
        start: Shared,
        which: dict[str, Any],
        how: dict[str, Any],
    ) -> None:
        """Learn the weights of features, and keep the scores of every item the features describe."""
        from concordant.aggregators import _bradley_terry_fit

        at = _described_by(votes.slots, features.slots)
        _check_known(features)
        basis, weights_of = _basis(features)
        if weights_of.shape[1] < features.n_features:
            loose = features.names[_dependent(features)].tolist()
            self._warn(
                f"features {listing(loose)} depend on each other within instances: of all weights that give the same "
                "scores the smallest (in standardised features) are kept.",
                IdentifiabilityWarning,
            )
        b, solved = _bradley_terry_fit.solve_linear(votes.pairs, basis[at], prior, start, **which, **how)
        self._keep_shared(solved, votes, linear=True)
        self._note([solved])
        self.coefficients_ = dict(zip(features.names.tolist(), (weights_of @ b).tolist(), strict=True))
        self.feature_slots_ = {
            "instances": features.instances.tolist(),
            "items": features.items.tolist(),
            "sizes": features.slots.sizes.tolist(),
        }
        self.feature_basis_ = basis
        self.feature_scores_ = basis @ b
        self.shared_covariance_ = self._feature_spread(votes, basis[at], solved)

    def _feature_spread(self, votes: PairwiseOutcomes, basis: Floats, solved: Solution) -> Floats:
        """Return the covariance of the weights of the basis, shared parameters being estimated with them."""
        inverse = np.asarray(np.linalg.pinv(solved.information, hermitian=True), dtype=np.float64)
        f = basis.shape[1]
        how = self._how(votes.has_experts)
        if how != "sandwich":
            return inverse[:f, :f]
        shared, learned = self._shared(), self._learned()
        spread = np.zeros(inverse.shape)
        for n, own in _instances(votes):
            m = own.stop - own.start
            pulls, _, weight = votes.expert_gradients(n, solved.score, shared, learned)
            if weight.sum() >= 2:
                spread += _scatter(np.concatenate([pulls[:, :m] @ basis[own], pulls[:, m:]], axis=1), weight)
        if not spread.any():
            self._warn("no intervals: fewer than two experts compare items in any instance.", UncertaintyWarning)
            return np.full((f, f), np.nan)
        # The prior is on the scores: its share of the variance goes through the features.
        prior = np.repeat(self._priors(votes) * votes.calibration, votes.slots.sizes)
        spread[:f, :f] += basis.T @ (prior[:, None] * basis)
        return (inverse @ spread @ inverse)[:f, :f]

    def _described(self, preferences: Votes) -> Consensus:
        """Return the scores that the features of `fit` give the items."""
        slots = preferences.slots
        kept = self.feature_slots_
        at = _described_by(
            slots,
            Slots(Texts(kept["instances"]), Texts(kept["items"]), offsets_of(np.array(kept["sizes"], dtype=np.int64))),
        )
        score = self.feature_scores_[at]
        full = np.flatnonzero(slots.sizes > 0)
        if len(full):
            means = np.add.reduceat(score, slots.offsets[full]) / slots.sizes[full]
            score = score - np.repeat(means, slots.sizes[full])
        anchors = self._anchors(slots)
        has_experts = isinstance(preferences, Preferences) or preferences.expert is not None
        how = self._affordable(slots, self._how(has_experts), _MANY_ITEMS)
        if how == "none" or np.isnan(self.shared_covariance_).any():
            return self._answer(slots, score, anchors)
        made: list[ScoreCovariance | str] = []
        for first, last in zip(slots.offsets[:-1].tolist(), slots.offsets[1:].tolist(), strict=True):
            rows = self.feature_basis_[at[first:last]]
            made.append(ScoreCovariance.of(intervals.regauge(rows @ self.shared_covariance_ @ rows.T, None)))
        return self._answer(slots, score, anchors, made, self._in_words(how, has_experts))

    # Judges.

    def _judge_rows(self, preferences: Votes, ties: bool) -> Comparisons:
        """Return the votes as comparisons by experts."""
        if isinstance(preferences, Comparisons):
            return preferences
        pairs = pairs_held(preferences.list_offsets, preferences.list_starts)
        # One row for each pair of each expert.
        check_limits("BradleyTerry", preferences, "the pairs of every list", n_bytes=64.0 * pairs)
        return preferences.comparisons(self.transform, ties=ties and self.transform == "binary", missing="unknown")

    def _judged_meetings(self, preferences: Votes, rows: Comparisons, ties: bool) -> ComparisonOutcomes:
        """Return the rows as meetings that know whether they come from lists."""
        votes = ComparisonOutcomes(rows, ties, sided=False)
        if isinstance(preferences, Preferences):
            votes.derived = True
            votes.calibration = pairs_per_choice(preferences, votes.totals)
        return votes

    def _fit_judges(self, preferences: Votes, checkpoint: Checkpointer) -> Any:
        """Learn scores and the reliability of every expert together."""
        from concordant.aggregators import _expert_reliability

        ties = self.ties != "none"
        rows = self._judge_rows(preferences, ties)
        votes = self._judged_meetings(preferences, rows, ties)
        self._check_placed(votes, ties)
        if not self._only_ties(votes):
            self._check_sides(rows)
        prior = np.repeat(self._priors(votes), votes.slots.sizes)
        fitted = _expert_reliability.fit_judges(
            *_judge_columns(rows, votes),
            rows.n_experts,
            prior=prior,
            sided=rows.sided,
            ties=None if ties else False,
            tol=self.tol,
            # A sweep over judges and scores in turn goes less far than a Newton step over all.
            max_iter=5 * self.max_iter,
            report=execution.report_progress,
            checkpoint=checkpoint,
        )
        self.ties_ = "davidson" if np.isfinite(fitted.tie) else "none"
        self.tie_ = float(np.exp(fitted.tie))
        self.experts_ = rows.experts.tolist()
        self.adherence_ = np.array(fitted.reliability)
        self.scale_ = float(fitted.scale)
        self.expert_details_ = {
            "stderr": fitted.reliability_stderr.tolist(),
            "slope": fitted.slope.tolist(),
            "slope_stderr": fitted.slope_stderr.tolist(),
            "side": fitted.side.tolist(),
            "tie_tendency": fitted.tie_tendency.tolist(),
            "comparisons": fitted.n_comparisons.tolist(),
        }
        info = self.fit_info_
        info.n_iter, info.converged, info.trace = fitted.n_iter, fitted.converged, list(fitted.trace)
        info.objective, info.gradient_norm = fitted.objective, fitted.gradient_norm
        if not fitted.converged and not info.interrupted:
            self._warn(
                f"scores and reliabilities did not converge in {fitted.n_iter} rounds (gradient norm "
                f"{fitted.gradient_norm:.2g}, asked for {self.tol:g}). Raise max_iter or prior.",
                ConvergenceWarning,
            )
        return fitted

    def _check_sides(self, rows: Comparisons) -> None:
        """Warn where one side never wins, which the experts' leaning to a side explains as well as scores do."""
        won = {"left": float(rows.n_left.sum()), "right": float(rows.n_right.sum())}
        lost = [side for side, count in won.items() if not count]
        if rows.sided and len(lost) == 1:
            self._warn(
                f"the {lost[0]} item never won, in {sum(won.values()):,.10g} outcomes that were decided: the experts "
                f"may as well lean to the other side, and scores of items {listing(rows.items.tolist(), 5)} mean "
                f"little. If the columns are winner and loser, pass {setting('sided', False)}.",
                IdentifiabilityWarning,
            )

    def _known_experts(self, rows: Comparisons) -> Comparisons:
        """Return the rows of experts that `fit` saw, under the numbers they have there."""
        codes = {name: k for k, name in enumerate(self.experts_)}
        expert = np.zeros(0, dtype=np.int32) if rows.expert is None else rows.expert
        check_known(rows, codes, type(self).__name__, self.unknown_experts)
        new = np.array([codes.get(e, -1) for e in rows.experts], dtype=np.int32)
        kept = np.flatnonzero(new[expert] >= 0) if len(expert) else np.zeros(0, np.int64)
        columns = (rows.left[kept], rows.right[kept], rows.n_left[kept], rows.n_right[kept], rows.n_ties[kept])
        return Comparisons.from_codes(
            rows.slots, Texts(self.experts_), new[expert[kept]] if len(expert) else expert, *columns, sided=rows.sided
        )

    def _judged(self, preferences: Votes, known: JudgeFit | None, anchors: Ints | None) -> Consensus:
        """Return the scores given the judges, with intervals."""
        from concordant.aggregators import _expert_reliability

        ties = self.ties_ != "none" and self.tie_ > 0
        rows = self._judge_rows(preferences, ties)
        if known is None:
            rows = self._known_experts(rows)
        votes = self._judged_meetings(preferences, rows, ties)
        # The scores are on the scale of the experts who are believed; the prior is not.
        prior = np.repeat(self._priors(votes), votes.slots.sizes) / self.scale_**2
        columns = _judge_columns(rows, votes)
        details = self.expert_details_
        taken: dict[str, Any] = {
            **{name: np.array(details[name]) for name in ("slope", "slope_stderr", "side", "tie_tendency")},
            "tie": float(np.log(self.tie_)) if ties else -np.inf,
            "prior": prior,
            "sided": rows.sided,
        }
        if known is None:
            self._check_placed(votes, ties)
            score = _expert_reliability.scores_given_judges(*columns, **taken).score
            variance = _expert_reliability.Variance(1.0, 1.0, 1.0)
        else:
            score, variance = known.score, known.variance
        how = self._affordable(preferences.slots, self._how(has_experts=True), _MANY_ITEMS)
        if how == "none":
            return self._answer(preferences.slots, score, anchors)
        found = _expert_reliability.judge_information(
            *columns, score=score, variance=variance, profile=known is not None, **taken
        )
        made: list[ScoreCovariance | str] = []
        ends = votes.slots.offsets.tolist()
        for n, one in enumerate(found):
            n_judges = len(one.expert)
            if not len(one.hessian) or (how == "sandwich" and n_judges < 2):
                made.append("experts" if n_judges == 1 else "nothing was compared")
                continue
            made.append(
                intervals.score_covariance(
                    one.hessian,
                    scores=len(one.hessian),
                    prior=prior[ends[n] : ends[n + 1]],
                    calibration=votes.calibration[n],
                    clusters=intervals.Clusters.of(one.gradients, one.information) if how == "sandwich" else None,
                )
            )
        words = self._in_words(how, has_experts=True)
        return self._answer(preferences.slots, score, anchors, made, words, votes.compared)


def _is_covariance(table: Floats) -> bool:
    """Return whether a square table has two sides alike, and no variance below 0 or correlation beyond 1."""
    variance = np.diagonal(table)
    limit = np.sqrt(np.maximum(variance[:, None] * variance[None, :], 0.0)) * (1.0 + _CLOSE)
    alike = np.abs(table - table.T) <= _CLOSE * limit
    return bool((variance >= 0).all() and alike.all() and (np.abs(table) <= limit).all())


def _instances(votes: PairwiseOutcomes) -> Iterator[tuple[int, slice]]:
    """Yield the instances in which something happened, and their slots."""
    edges = votes.slots.offsets.tolist()
    for n in np.flatnonzero(votes.totals > 0).tolist():
        yield n, slice(edges[n], edges[n + 1])


def _with_scores(found: _Found) -> Iterator[tuple[PairwiseOutcomes, Floats]]:
    """Yield the parts of the votes with their scores."""
    first = 0
    for part in found.parts:
        last = first + part.slots.n_slots
        yield part, found.score[first:last]
        first = last


def _arrows(pairs: Pairs, ties: bool) -> tuple[Codes, Codes]:
    """Return arrows from those who won at least once to those they beat; ties are arrows both ways."""
    forward = (pairs.n_left > 0) | ((pairs.n_ties > 0) if ties else False)
    back = (pairs.n_right > 0) | ((pairs.n_ties > 0) if ties else False)
    return (
        np.concatenate([pairs.left[forward], pairs.right[back]]),
        np.concatenate([pairs.right[forward], pairs.left[back]]),
    )


def _bounded_ties(pairs: Pairs) -> bool:
    """Return whether some circle has more wins than ties along it, so that the tie parameter cannot grow for ever.

    With scores u that part every winner from its loser by 1 and no tied pair by more, u and the logarithm of the tie
    parameter can grow together and explain the outcomes ever better. Such u exist unless some circle along the wins,
    ties being walked either way, has more wins than ties. One circle in one instance will do.
    """
    from concordant.kernels.graph import has_positive_cycle, strong_components

    if ((pairs.n_left > 0) & (pairs.n_right > 0)).any():
        return True
    tail, head = _arrows(pairs, ties=False)
    n = pairs.n_slots
    if int(strong_components(tail, head, n).max(initial=-1)) + 1 < n:
        return True
    tied = pairs.n_ties > 0
    left, right = pairs.left[tied], pairs.right[tied]
    gain = np.repeat(np.array([1, -1], dtype=np.int64), [len(tail), 2 * len(left)])
    return has_positive_cycle(np.concatenate([tail, left, right]), np.concatenate([head, right, left]), gain, n)


def _has_ties(votes: PairwiseOutcomes) -> bool:
    """Return whether any tie is to be counted."""
    if isinstance(votes, ComparisonOutcomes):
        return bool(votes.n_ties.any())
    return isinstance(votes, ListOutcomes) and votes.ties and votes.tied


def _curvature(
    votes: PairwiseOutcomes, n: int, score: Floats, prior: float, shared: Shared, learned: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return the information of an instance's scores and shared parameters; of the scores, firm; and between the two.

    Firm: without a prior a stiffness along the free direction is added, which solutions of mean 0 do not notice.
    """
    from concordant.aggregators import _bradley_terry_fit

    one = votes.pairs.window(n)
    own = score[int(votes.slots.offsets[n]) : int(votes.slots.offsets[n + 1])]
    whole = _bradley_terry_fit.information(one, own, prior, shared, learned)
    m = len(own)
    bend = whole[:m, :m]
    if prior == 0 and len(learned):
        bend = bend + max(float(np.trace(bend)) / m, 1.0) / m
    return whole, bend, whole[:m, m:]


def _scatter(pulls: Floats, weight: Floats) -> Floats:
    """Return G / (G - 1) Σ (u - mean)(u - mean)ᵀ over experts."""
    total = float(weight.sum())
    apart = (pulls - (weight @ pulls) / total) * np.sqrt(weight * total / (total - 1))[:, None]
    out: Floats = apart.T @ apart
    return out


def _described_by(slots: Slots, features: Slots) -> Ints:
    """Return the row of the features for every slot, or raise naming the items that have none."""
    at = slots.locate(features)
    missing = np.flatnonzero(at < 0)
    if len(missing):
        instance, _ = slots.where(int(missing[0]))
        names = [slots.items[int(s)] for s in missing[:100] if slots.where(int(s))[0] == instance]
        raise DataError(
            f"{len(missing)} items have no features, among them {listing(names, 5)} of instance {instance!r}. With "
            "features= every item needs a row; leave the others out, or give them one."
        )
    return at


def _check_known(features: Features) -> None:
    """Raise naming an item and a feature where a value is not known."""
    missing = np.isnan(features.X)
    if missing.any():
        row, column = (int(v[0]) for v in np.nonzero(missing))
        instance, item = features.slots.where(row)
        raise DataError(
            f"{int(missing.sum()):,} values of features are not known (NaN), first {features.names[column]!r} "
            f"of item {item!r} of instance {instance!r}. BradleyTerry needs every value: fill them in, or leave these "
            f"features out: {listing(features.names[np.flatnonzero(missing.any(axis=0))].tolist(), 5)}."
        )


def _basis(features: Features) -> tuple[Floats, Floats]:
    """Return independent columns that span the features within instances, and the weights of features they stand for.

    Only differences within an instance count, so every column is taken relative to its mean there, and by its spread.
    """
    apart, spread = _standardised(features)
    left, size, right = np.linalg.svd(apart, full_matrices=False)
    kept = size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)
    # In these columns weights of smallest norm give the standardised ones of smallest norm.
    scale = np.sqrt(max(len(apart), 1))
    return left[:, kept] * scale, (right[kept].T / size[kept] * scale) / spread[:, None]


def _standardised(features: Features) -> tuple[Floats, Floats]:
    slots = features.slots
    sizes = slots.sizes
    full = np.flatnonzero(sizes > 0)
    x = np.array(features.X)
    if len(full):
        means = np.add.reduceat(x, slots.offsets[full], axis=0) / sizes[full][:, None]
        x -= np.repeat(means, sizes[full], axis=0)
    spread = np.sqrt((x * x).mean(axis=0)) if len(x) else np.ones(x.shape[1])
    spread[spread <= 1e-12 * np.abs(features.X).max(axis=0, initial=0.0)] = 1.0
    return x / spread, spread


def _dependent(features: Features) -> Ints:
    """Return the features that take part in some dependence."""
    # The triangular factor has the same dependences and as many rows as there are features at most.
    triangle = np.linalg.qr(_standardised(features)[0], mode="r")
    _, size, right = np.linalg.svd(triangle, full_matrices=True)
    rank = int((size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)).sum())
    return np.flatnonzero(np.abs(right[rank:]).max(axis=0, initial=0.0) > 1e-8)


def _judge_columns(
    rows: Comparisons, votes: ComparisonOutcomes
) -> tuple[Codes, Codes, Codes, Floats, Floats, Floats, Ints]:
    """Return the columns the kernel of judges takes."""
    expert = np.zeros(0, dtype=np.int32) if rows.expert is None else rows.expert
    return rows.left, rows.right, expert, rows.n_left, rows.n_right, votes.n_ties, rows.slots.offsets

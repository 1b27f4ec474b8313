"""Bradley-Terry: the probability that one item beats another is a logistic function of the difference of their scores.

Votes of every kind are reduced to pair counts, and the scores are the posterior mode under a weak normal prior, or the
maximum-likelihood estimate (prior=0), found by Newton's method.
"""
# `_pairwise_outcomes` counts the pairs, and `_bradley_terry_fit` has Newton's method. The modules beside them hold
# identifiability, covariates of items and of votes, the reliability of experts, and intervals.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from concordant import execution
from concordant.aggregators import _bradley_terry_checks as checks
from concordant.aggregators import _bradley_terry_identifiability as identifiability
from concordant.aggregators import _bradley_terry_intervals as intervals
from concordant.aggregators import _bradley_terry_judges as judges
from concordant.aggregators import _bradley_terry_predictions as predictions
from concordant.aggregators import _bradley_terry_shared as shared
from concordant.aggregators import _bradley_terry_style as style
from concordant.aggregators import _bradley_terry_summary as summaries
from concordant.aggregators import _item_covariates as covariates
from concordant.aggregators._anchors import ANCHOR, anchor_slots
from concordant.aggregators._choice_models import ChoiceModel, LikelihoodPart, SharedEstimate
from concordant.aggregators._explanations import WorkingResponses
from concordant.aggregators._judge_habits import (
    HabitDesign,
    HabitTable,
    fit_habits,
    habit_frame,
    habit_rows,
    habits_of,
    profiled,
)
from concordant.aggregators._mle_existence import items_in_words
from concordant.aggregators._pairwise_outcomes import ComparisonOutcomes, ListOutcomes, PairwiseOutcomes, has_ties
from concordant.aggregators._vote_outcomes import VoteOutcomes
from concordant.arrays import Floats, Ints
from concordant.base.contract import Tags, Votes
from concordant.base.limits import check_limits
from concordant.base.params import (
    IN_DATA_UNITS,
    INTERVALS,
    Constraint,
    Within,
    boolean,
    duration,
    integer,
    length_of_time,
    number,
    one_of,
    optional,
)
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import Slots
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    DataWarning,
    KindError,
    NotFittedError,
    UncertaintyWarning,
    listing,
)
from concordant.execution import Shards
from concordant.execution.blocks import Blocks, shards_of
from concordant.inference.likelihood import free_scores
from concordant.inference.uncertainty import ScoreCovariance
from concordant.kernels.pairwise_wins import pair_room
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer

if TYPE_CHECKING:
    import polars as pl

    from concordant.aggregators._bradley_terry_fit import Solution
    from concordant.aggregators._mixture_likelihoods import BradleyTerryLists
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.inference.summary import ModelReport
    from concordant.kernels.bradley_terry import Shared

__all__ = ["BradleyTerry"]


FAMILIES = Constraint(
    "a mapping from items to families",
    lambda v: isinstance(v, Mapping) and all(isinstance(text, str) and text for pair in v.items() for text in pair),
)


class _WindowedScores(NamedTuple):
    """The scores of all instances, with their outcomes in windows.

    `jointly` says that shared parameters were estimated with the scores of a single instance.
    """

    windows: list[PairwiseOutcomes]
    score: Floats
    jointly: bool

    def by_window(self) -> Iterator[tuple[PairwiseOutcomes, Floats]]:
        """Yield each window with its scores."""
        first = 0
        for own in self.windows:
            last = first + own.slots.n_slots
            yield own, self.score[first:last]
            first = last


@register_method
class BradleyTerry(ChoiceModel):
    """Bradley-Terry scores from pairwise outcomes, with ties, a prior, side effects, covariates and expert reliability.

    P(i beats j) = 1 / (1 + exp(s_j − s_i)), and the scores maximise log-likelihood − ½ λ ‖s‖². With ties, Davidson:
    P(i), P(j), P(tie) in proportion exp((s_i − s_j)/2) : exp((s_j − s_i)/2) : ν; Rao and Kupper, ξ ≥ 1:
    P(i) = 1 / (1 + ξ exp(s_j − s_i)), P(j) likewise, and the rest is P(tie). A tie is a tie, never half a win.

    Estimand: s_i − s_j, the log odds that i beats j in a comparison by a random expert, given that it is no tie (in
    Davidson's model).

    Items missing from a list are not compared in it; where the preferences declare them below the others, a warning
    says so. An item without an outcome has the score 0, the mean. Empty lists add nothing. A list of weight 2 counts as
    two experts; the weight of a row of comparisons multiplies its counts.

    A list of m items becomes m (m − 1) / 2 pairs, each an outcome of two items (`transform` counts differently). The
    pairs of a list are one opinion: the prior weighs as much as it would against the m − 1 choices of the list, and
    intervals are clustered by list.

    Parameters
    ----------
    ties : {"auto", "davidson", "rao-kupper", "none"}
        The model of ties; "auto" is Davidson's where there are ties. "none" leaves ties out and warns how many. Lists
        count tied pairs only with transform="binary" (a difference of 0 counts nothing).
    reliability : bool
        Whether to learn the reliability of each expert jointly with the scores: a slope on the difference of scores
        (0 = a coin, below 0 = inverted), a side bias and a tendency to tie. With side_effect=True the side effect is
        the mean of the side biases.
    prior : "auto", "published" or float >= 0
        Precision λ of the normal prior of the scores. "auto" is weak and the same for all data: 0.1, for lists times
        the pairs counted per choice. 0 is the maximum-likelihood estimate; where it does not exist, an error
        (NoFiniteEstimateError) names the items. "published" is the heavy shrinkage behind the published rows on
        MQ2008-agg, with transform="count": 2T/M for lists, T the instance's total count and M its items. It is good
        for the top of partial lists by few experts; its scores and intervals are shrunk (docs/uncertainty.md).
    side_effect : bool
        Whether to learn the advantage of the left side (`side_`), for comparisons with known sides.
    covariates : list of str, "all" or None
        Columns of the comparisons that may sway a vote, such as the lengths of two answers, each as left minus right:
        the log odds become s_left − s_right + Σ x β, and scores are those at equal covariates. None and [] use none;
        with None a warning says so where the votes carry some.
    families : mapping from item to family, or None
        Families of items, such as the makers of models, to learn how far each expert favours each of them (`habits_`).
    varying : list of str or None
        Covariates among `covariates` whose effect differs between experts, such as a liking for long answers; what
        each expert adds to β is in `habits_`.
    half_life : float, text or None
        The age at which a vote counts half: a vote of age t counts 2^(−t / half_life). Ages are measured from the
        latest vote of the instance, in the unit of the times (seconds where dates were read); a text such as "30d" has
        its unit. None counts all votes alike. Intervals that are not clustered by expert are then a little too wide.
    anchor : id or None
        The item whose score is 0; None puts the mean of an instance's scores there.
    optimizer : {"newton", "gd"}
        "gd" takes `max_iter` gradient steps from 0, without a prior unless one is given: early stopping shrinks the
        scores of published results. It has no ties and no intervals.
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
        sandwich clustered by expert within the instance, because the outcomes of one expert are correlated, moderated
        where few experts compare an item. "bootstrap" reweights experts (or outcomes, without experts). With a prior
        the intervals are those of the posterior.
    level : float
        Level of the intervals.
    rank_ranges : {"marginal", "simultaneous"}
        "marginal": the range of a rank holds the rank with probability `level`. "simultaneous": it counts the items
        that are surely better and surely worse, with probability `level` that all these comparisons are right.
    n_bootstrap : int
        Number of bootstrap draws.
    max_iter : int
        Maximum number of Newton steps; number of gradient steps for optimizer="gd". Where reliability is learned, the
        maximum number of sweeps is five times this.
    tol : float
        Tolerance of `fit_info_.gradient_norm`: the largest component of the gradient over max(1, the most outcomes of
        an item) (for shared parameters, over all outcomes).
    unknown_experts : {"error", "ignore"}
        What `predict` does with experts that `fit` did not see, where reliability is learned.
    random_state : int
        Seed of the bootstrap.

    Attributes
    ----------
    ties_, tie_ : str, float
        The model of ties that was used, and its ν or ξ (0 for "none"), shared by all instances.
    side_ : float
        The side effect: what is added to the score on the left; 0 unless learned.
    coefficients_ : dict
        Coefficients of the features by name, where `fit` was given features.
    covariate_effects_ : dict
        β, the coefficients of the covariates of the vote by name, per unit of the covariate, where `covariates` are
        used. `coefficient_table_` has their standard errors and tests, with those of the side effect and of ties.
    habits_ : frame
        The habits of every expert with intervals, where `families` or `varying` are given.
    habit_spread_ : dict
        The standard deviation of habits over experts: of "families", and of each varying covariate.
    adherence_, experts_, expert_details_
        The reliability of every expert (1 = as the scores say, 0 = noise), their ids, and slope, side bias and tie
        tendency, where reliability is learned.
    scale_ : float
        Factor from the scale of the prior to that of the scores, which is that of the reliable experts, where
        reliability is learned.

    Notes
    -----
    After `fit_predict`, `outcome_probabilities(a, b)` gives the probabilities of win, tie and loss, `residuals`,
    `goodness_of_fit` and `calibration` hold votes against them, and `explain` splits every score by expert or opponent
    (docs/uncertainty.md).

    `fit(..., features=)` makes the scores linear in covariates of the items: s_i = x_i · ψ, with the prior still on s.
    Every item needs a row. A constant added to a feature within an instance changes nothing; of collinear columns the
    coefficients of least norm (in standardised columns) are taken, with a warning. A missing value (NaN) is an error.
    `predict` then needs items that the features of `fit` described.

    With `covariates` the logit of a vote is s_left − s_right + x β (+ the side effect), x left minus right: scores are
    those of items whose answers are alike in x, and β is shared by all instances. Standard errors are clustered by
    expert where the intervals are; under uncertainty="bootstrap" too. What both sides share, such as the language of a
    question, has no effect on who wins: it is a category (`category_boards`) or an instance. A covariate that is
    constant, that others determine, or that the items compared determine is refused or, with a prior of the scores,
    named in a warning; so is one whose β has no finite estimate (NoFiniteEstimateError): the prior is on the scores and
    does not hold it. Votes of a pair with equal covariates are one row; a step takes O(Q C²) for Q rows and C
    covariates, and memory grows with Q C. `fit` needs all votes in memory.

    With `families` and `varying` expert e adds Σ f u_e to the logit: f is 1 where only the left item is of a family and
    −1 where only the right one is, and left minus right of a varying covariate. The habits u_e are normal with mean 0;
    families share one standard deviation, each covariate has its own, and they are estimated by empirical Bayes
    (`habit_spread_`). Scores and β are those of an expert without habits, and their intervals include the uncertainty
    of the habits. `predict` and predictions of votes use the habits of experts that `fit` saw.

    `fit` learns what instances share (ν or ξ, the side effect, coefficients of features, the reliability of experts);
    `predict` estimates the scores of its own instances with these fixed. Cost: O(R + P) to count R rows (Σ m² / 2 for
    lists of m items) over P pairs that met, then O(P) for each of some six Newton steps. Millions of pairs in long
    lists are not counted: with transform="binary", a prior, and no ties or Davidson's, a step takes O(R) time and
    memory. Comparisons that are collapsed already are not copied, and a fit holds some 30 bytes a pair beside them.
    Intervals cost O(M³) and are left out above 5,000 items unless asked for. With reliability=True lists are written
    out pair by pair, expert by expert; intervals of `fit_predict` include the uncertainty of the experts' reliability,
    those of `predict` take it as known and are narrower.

    With reliability=True expert e compares i, on the left, with j, and answers left, right or tie with odds

        exp(z/2) : exp(−z/2) : exp(t_e),   z = α_e (s_i − s_j) + b_e + x β

    (without ties the first two). The adherence α_e is a slope: 0 is a coin, below 0 an inverted expert. b_e is the
    expert's side bias and t_e the tendency to tie. The prior: s_i is normal with mean 0 and precision λ; α_e, b_e and
    t_e are normal with means μ and variances v, the same for all experts and estimated with the rest (empirical
    Bayes), so experts with few comparisons shrink to the mean. Slopes have normal posteriors with standard deviation
    h_e, because scores and uncertain slopes would otherwise inflate each other. The objective, a lower bound of the log
    marginal likelihood, is

        Σ_rows ½ [log P(row | α_e + h_e) + log P(row | α_e − h_e)] − ½ λ Σ_i s_i²
            − ½ Σ_e [(α_e − μ_α)² + h_e²] / v_α − ½ Σ_e (b_e − μ_b)² / v_b − ½ Σ_e (t_e − μ_t)² / v_t + Σ_e log h_e.

    (s, α) and (c s, α / c) have the same likelihood: the scale is that of the reliable experts, Σ_e n_e E[α_e²] =
    Σ_e n_e E|α_e| for n_e comparisons by e, and the majority decides the sign. `adherence_` is the expert's
    reliability: the slope of the mean answer along s_i − s_j over that of an expert with slope 1 and neither side bias
    nor ties, in units in which that of the reliable experts is their α_e.

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
        likelihood=True,
        cost="O(R + P) and O(P) per Newton step, P pairs that met",
    )
    _missing_is_unknown = True
    _splits_lists = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "ties": one_of("auto", "davidson", "rao-kupper", "none"),
        "reliability": boolean(),
        "prior": Constraint(
            "'auto', 'published' or a number >= 0",
            lambda v: v in ("auto", "published") if isinstance(v, str) else number(least=0).test(v),
        ),
        "side_effect": boolean(),
        "covariates": style.COVARIATES,
        "families": optional(FAMILIES),
        "varying": style.COVARIATES,
        "half_life": optional(length_of_time()),
        "anchor": ANCHOR,
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
    covariate_effects_: Annotated[dict[str, float], IN_DATA_UNITS]
    covariate_units_: Annotated[Floats, Within(1e-100, 1e100)]
    habit_details_: Annotated[dict[str, list[Any]], IN_DATA_UNITS._replace(missing=True)]
    habit_spread_: Annotated[dict[str, float], Within(0, 1e50)]
    shared_covariance_: Annotated[Floats, IN_DATA_UNITS._replace(missing=True)]
    adherence_: Annotated[Floats, Within(-1e3, 1e3)]
    expert_details_: Annotated[dict[str, list[float]], Within()]
    scale_: Annotated[float, Within(1e-12)]

    def __init__(
        self,
        *,
        ties: str = "auto",
        reliability: bool = False,
        prior: str | float = "auto",
        side_effect: bool = False,
        covariates: Sequence[str] | str | None = None,
        families: Mapping[str, str] | None = None,
        varying: Sequence[str] | str | None = None,
        half_life: float | str | None = None,
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
        self.covariates = covariates
        self.families = families
        self.varying = varying
        self.half_life = half_life
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

    # Parameters.

    def _check_state(self) -> None:
        checks.check_saved(self)

    @property
    def _has_habits(self) -> bool:
        """Whether habits of experts are asked for."""
        return bool(self.families) or bool(self.varying)

    @property
    def _prior_setting(self) -> str | float:
        """The prior as `PairwiseOutcomes.prior_precision` takes it; gradient ascent has none unless one is given."""
        return 0.0 if self.optimizer == "gd" and isinstance(self.prior, str) else self.prior

    def _interval_kind(self, has_experts: bool) -> str:
        """Return how intervals are made for these votes: a value of `uncertainty` other than "auto"."""
        if self.uncertainty != "auto":
            return self.uncertainty
        if self.optimizer == "gd":
            return "none"
        return "sandwich" if has_experts else "information"

    def _interval_method(self, kind: str, has_experts: bool) -> str | None:
        """Return the words of `fit_info_.uncertainty` for how intervals are made."""
        return None if kind == "none" else self._interval_words(kind, "experts" if has_experts else "outcomes")

    def counts_suffice(self, has_experts: bool) -> bool:
        """Return whether comparisons may be collapsed to counts of pairs first, the answer staying the same.

        The expert matters where experts are judged, clustered or resampled; the side where its effect is learned.
        """
        by_expert = self.reliability or (has_experts and self._interval_kind(has_experts) in ("sandwich", "bootstrap"))
        by_expert |= self._has_habits
        return not by_expert and not self.side_effect and not self.covariates and self.half_life is None

    def _weighed(self, votes: Votes) -> Votes:
        if self.half_life is None:
            return votes
        if isinstance(votes, Preferences):
            raise KindError(
                "BradleyTerry(half_life=...) weighs comparisons by their times, and lists have none. Leave half_life "
                "out."
            )
        return votes.discount(duration(self.half_life))

    def _shared_parameters(self) -> Shared:
        """Return the shared parameters, as the kernels take them."""
        from concordant.kernels.bradley_terry import MODELS, Shared

        tie = float(np.log(self.tie_)) if self.ties_ != "none" else 0.0
        beta = [b * unit for b, unit in zip(self._style.values(), self._style_units.tolist(), strict=True)]
        return Shared(MODELS[self.ties_], tie, self.side_, tuple(beta))

    def _learned_shared(self) -> Ints:
        """Return which shared parameters were learned: 0 the tie parameter, 1 the side effect, from 2 coefficients."""
        return np.flatnonzero([self.ties_ != "none", self.side_effect, *[True] * len(self._style)])

    @property
    def _style(self) -> dict[str, float]:
        """The coefficients of the covariates of the vote; empty where none are used."""
        return dict(self.__dict__.get("covariate_effects_", {}))

    @property
    def _style_units(self) -> Floats:
        """The units of the covariates in the fit, whose coefficients are in these units."""
        return np.asarray(self.__dict__.get("covariate_units_", np.zeros(0)), dtype=np.float64)

    # Fit.

    def _learns(self) -> bool:
        shared_by_all = self.reliability or self.side_effect or bool(self.covariates) or self._has_habits
        return shared_by_all or (self.ties != "none" and self.optimizer == "newton")

    def _fit(
        self, preferences: Votes | Blocks, labels: Labels | None, validation: Any, features: Features | None
    ) -> Any:
        self.ties_, self.tie_, self.side_ = "none", 0.0, 0.0
        self.shared_covariance_ = np.zeros((0, 0))
        has_experts = not isinstance(preferences, Comparisons) or preferences.expert is not None
        if not isinstance(preferences, Blocks):
            checks.check_request(self, preferences, features)
            anchor_slots(preferences.slots, self.anchor)
            self._choose_covariates(preferences)
        self.fit_info_.uncertainty = self._interval_method(self._interval_kind(has_experts), has_experts)
        if features is not None or self._has_shared_parameters(preferences):
            return self._fit_shared(preferences, features)
        if isinstance(preferences, Blocks):
            # Without shared parameters an instance is estimated alone, by `predict`.
            return None
        checkpoint = StepCheckpoint(self, [preferences])
        if self.reliability:
            return judges.fit(self, preferences, checkpoint)
        return self._solve(self._outcomes(preferences, ties=self._counts_ties), checkpoint)

    def _choose_covariates(self, votes: Votes) -> None:
        """Keep the names and units of the covariates that are used, with coefficients 0."""
        style.warn_unused(self.covariates, votes, self._warn)
        names = style.chosen(self.covariates, votes)
        if names and isinstance(votes, Comparisons):
            self.covariate_units_ = style.units(votes, names, self._counts_ties)
            self.covariate_effects_ = dict.fromkeys(names, 0.0)

    @property
    def _counts_ties(self) -> bool:
        return self.ties != "none" and self.optimizer == "newton"

    def _has_shared_parameters(self, preferences: Votes | Blocks) -> bool:
        """Return whether there is a side effect or a tie parameter to learn."""
        if self.reliability or not self._learns():
            return False
        shared_by_all = self.side_effect or bool(self._style) or self._has_habits
        return shared_by_all or any(shards_of(preferences).map(_has_ties, self, isinstance(preferences, Blocks)))

    def _outcomes(self, votes: Votes, ties: bool) -> PairwiseOutcomes:
        """Return the pairwise outcomes of votes; warn of ties that are not to be counted."""
        if isinstance(votes, Preferences):
            uncounted = self._shrinks and self.optimizer == "newton" and self.ties != "rao-kupper"
            outcomes = ListOutcomes.of(votes, self.transform, ties, uncounted)
            n_pairs = pair_room(votes.list_offsets, votes.list_starts, votes.slots.offsets)
            n_bytes = np.where(outcomes.long_instances, 0.0, 32.0 * n_pairs)
            check_limits("BradleyTerry", votes, "all pairs in lists", n_bytes=n_bytes)
            return outcomes
        if not ties:
            self._warn_dropped_ties(votes)
        if not self._style and not self._has_habits:
            return ComparisonOutcomes(votes, ties, self.side_effect)
        x, unit = style.columns(votes, list(self._style)), self._style_units
        if not self._has_habits:
            return VoteOutcomes(votes, ties, self.side_effect, x, unit=unit)
        by_expert = VoteOutcomes(votes, ties, self.side_effect, x, unit=unit, habits=self._habit_design)
        if "habit_details_" in self.__dict__:
            by_expert.set_habits(self._known_habits(votes))
        return by_expert

    @property
    def _habit_design(self) -> HabitDesign:
        names = list(self._style)
        varying = names if self.varying == "all" else style.names_of(self.varying or [])
        return HabitDesign.of(self.families, varying, names)

    def _known_habits(self, votes: Comparisons) -> Floats:
        """Return the habits of the experts of votes, in the units of the fit; experts that are not known have none."""
        return habits_of(self._habit_design, self.habit_details_, self._style_units, votes.experts.tolist())

    def _warn_dropped_ties(self, comparisons: Comparisons) -> None:
        n_ties = float(comparisons.n_ties.sum())
        if n_ties:
            self._warn(
                f"{n_ties:,.10g} ties are left out: there is no model of ties"
                + (". Use ties='davidson'." if self.ties == "none" or self.optimizer == "gd" else " in this fit."),
                DataWarning,
            )

    def _warn_unplaced(self, outcomes: PairwiseOutcomes, ties: bool) -> None:
        """Warn of items that the outcomes alone do not place; raise where there is no prior either."""
        identifiability.warn_unplaced(
            outcomes,
            ties,
            maximum_likelihood=not self._shrinks and self.optimizer == "newton",
            placed_by="where the steps end" if self.optimizer == "gd" else "the prior",
            warn=self._warn,
        )

    def _solve(self, outcomes: PairwiseOutcomes, checkpoint: Checkpointer = NO_CHECKPOINT) -> _WindowedScores:
        """Return the scores of every instance, each estimated alone with the shared parameters fixed."""
        from concordant.aggregators import _bradley_terry_fit
        from concordant.kernels.bradley_terry import PLAIN

        windows = outcomes.windows()
        fixed = self._shared_parameters()
        ties = fixed.model != PLAIN
        likelihood: dict[int, LikelihoodPart] = {}
        # Without a prior, lists are checked window by window: the check needs all pair counts.
        check_all = not outcomes.derived or self._shrinks or self.optimizer == "gd"
        if check_all:
            self._warn_unplaced(outcomes, ties)

        def work(k: int) -> Solution:
            own = windows[k]
            prior = own.prior_precision(self._prior_setting)
            if self.optimizer == "gd":
                rate = float(self.learning_rate)
                solution = _bradley_terry_fit.gradient_ascent(own.pairs, prior, steps=self.max_iter, rate=rate)
            else:
                if not check_all:
                    self._warn_unplaced(own, ties)
                how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "report": execution.report_progress}
                # Windows are solved side by side; a checkpoint is for one large instance.
                how["checkpoint"] = checkpoint if len(windows) == 1 else NO_CHECKPOINT
                solution = _bradley_terry_fit.solve(own.statistics, prior, fixed, **how)
            likelihood[k] = self._likelihood_part(own, solution, prior)
            if len(windows) > 1:
                # There are windows because not all pair counts fit in memory; they are counted again when needed.
                vars(own).pop("pairs", None)
            return solution

        solved = execution.map_instances(work, len(windows)) if len(windows) > 1 else [work(0)]
        self._record(solved)
        self._record_likelihood([likelihood[k] for k in range(len(windows))], free_scores(outcomes.slots))
        return _WindowedScores(windows, np.concatenate([s.score for s in solved]), jointly=False)

    def _likelihood_part(self, outcomes: PairwiseOutcomes, solution: Solution, prior: Floats) -> LikelihoodPart:
        maximum = not self._shrinks and self.optimizer == "newton"
        return summaries.likelihood_part(outcomes, solution.score, solution.objective, prior, maximum=maximum)

    def _record(self, solved: list[Solution]) -> None:
        """Write how the fit of all windows went to `fit_info_`, and warn where it did not converge."""
        norm = max(s.gradient_norm for s in solved)
        end = solved[0]._replace(
            n_iter=max(s.n_iter for s in solved),
            objective=float(sum(s.objective for s in solved)),
            gradient_norm=norm,
            converged=norm <= self.tol if self.optimizer == "gd" else all(s.converged for s in solved),
            trace=solved[0].trace if len(solved) == 1 else [],
        )
        self._record_search("Bradley-Terry", end)

    # Fit of shared parameters.

    def _blocks_obstacle(self) -> str:
        if self.half_life is not None:
            return "BradleyTerry(half_life=...) weighs votes by their age and needs all votes in memory."
        if self.covariates:
            return "BradleyTerry(covariates=...) learns their effects from all votes in memory, not from blocks."
        if self._has_habits:
            return "BradleyTerry(families=...) learns habits of experts from all votes in memory, not from blocks."
        if not self.reliability:
            return ""
        return "BradleyTerry(reliability=True) learns whom to believe from all instances at once, not from blocks."

    def _fit_shared(self, preferences: Votes | Blocks, features: Features | None) -> _WindowedScores | None:
        """Estimate the shared parameters with all scores, or with the coefficients of features.

        Returns the scores of preferences in memory, for `fit_predict`.
        """
        from concordant.kernels.bradley_terry import MODELS, Shared, tie_of_equal_items

        shards, unchecked = shards_of(preferences), isinstance(preferences, Blocks)
        blocks: Shards[shared.Block] = shards.persist(_block_of, self, unchecked, shared.is_alone(shards))
        outcomes, among = None, f"the items of {len(preferences.instances):,} instances"
        if not isinstance(preferences, Blocks):
            (outcomes,) = blocks.map(attrgetter("outcomes"))
            among = items_in_words(preferences.slots)
        # Scores that are linear in features have fewer ways to grow with the tie parameter; that is seen afterwards.
        check_ties = not self._shrinks and features is None
        counts = shared.BlockCounts.total(blocks.map(shared.count_block_outcomes, check_ties))
        if counts.ties:
            self.ties_ = "davidson" if self.ties == "auto" else self.ties
        if self.side_effect:
            identifiability.check_side_effect(counts.left_wins, counts.right_wins, counts.outcomes)
        if counts.ties and not counts.ties_bounded:
            raise identifiability.unbounded_tie_parameter(self.ties_, among)
        if outcomes is not None and features is None:
            self._warn_unplaced(outcomes, counts.ties > 0)
        if counts.all_ties and self._style:
            raise self._only_ties()
        if counts.all_ties:
            identifiability.warn_all_ties(counts.ties, among, self._warn)
        model, decided = MODELS[self.ties_], counts.left_wins + counts.right_wins
        tie = tie_of_equal_items(counts.ties, decided, model) if counts.ties else 0.0
        start = Shared(model, tie, 0.0, (0.0,) * len(self._style))
        which = [counts.ties > 0 and not counts.all_ties, self.side_effect, *[True] * len(self._style)]
        learned = np.flatnonzero(which)
        if isinstance(outcomes, VoteOutcomes) and self._style:
            self._check_covariates(outcomes, start)
        checkpoint = StepCheckpoint(self, [preferences, features])
        if features is not None and outcomes is not None:
            self._fit_covariates(outcomes, features, start, learned, checkpoint)
            return None
        how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "checkpoint": checkpoint}
        if isinstance(outcomes, VoteOutcomes) and self._has_habits:
            start = self._fit_habits(outcomes, start, learned)
        solved, blocks = shared.maximise(blocks, start, learned, counts.outcomes, **how)
        if isinstance(outcomes, VoteOutcomes) and outcomes.habit_fit is not None:
            prior = outcomes.prior_precision(self._prior_setting)
            found = profiled(outcomes, solved.score, prior, solved.shared, learned, outcomes.habit_fit)
            solved = solved._replace(information=found[0], response=found[1])
            blocks = blocks.persist(shared.with_scores, solved)
        gap = 0.0 if self._shrinks else max(blocks.map(shared.largest_gap, solved.shared.side))
        joint = self.side_effect or bool(self._style)
        diverged = identifiability.diverged(gap, solved.information, counts.outcomes, side_effect=joint)
        diverged = self._check_divergence(outcomes, solved, learned, diverged, among)
        self._keep_shared(solved, diverged and counts.outcomes > 0, among)
        self._record([solved])
        if len(learned):
            large = self.uncertainty == "auto" and intervals.too_large(counts.largest)
            has_experts = not isinstance(preferences, Comparisons) or preferences.expert is not None
            clustered = has_experts and not large and self._interval_kind(has_experts) in ("sandwich", "bootstrap")
            self.shared_covariance_ = shared.covariance(
                solved, blocks, self._shared_parameters(), learned, clustered=clustered
            )
        if outcomes is None:
            return None
        part = self._likelihood_part(outcomes, solved, outcomes.prior_precision(self._prior_setting))
        self._record_likelihood([part], free_scores(outcomes.slots) + len(learned))
        # Pairs that were not counted for the fit are counted window by window for intervals.
        windows = [outcomes] if "pairs" in vars(outcomes) else outcomes.windows()
        return _WindowedScores(windows, solved.score, jointly=len(preferences.instances) == 1 and len(learned) > 0)

    def _keep_shared(self, solved: Solution, diverged: bool, among: str) -> None:
        """Checkpointer the shared parameters, or raise where maximum-likelihood estimates diverged."""
        open_end = not solved.converged and not self.fit_info_.interrupted
        if not self._shrinks and (diverged or open_end):
            raise identifiability.no_finite_estimate(among)
        self.tie_ = float(np.exp(solved.shared.tie)) if self.ties_ != "none" else 0.0
        self.side_ = float(solved.shared.side)
        if self._style:
            self._keep_effects(np.array(solved.shared.beta))

    def _keep_effects(self, beta: Floats) -> None:
        """Keep the effects of covariates, given those in the units of the fit."""
        self.covariate_effects_ = dict(zip(self._style, (beta / self._style_units).tolist(), strict=True))

    def _only_ties(self) -> DataError:
        return DataError(
            f"every outcome is a tie, so that nothing tells what covariates {listing(list(self._style))} do. "
            "Leave them out."
        )

    def _check_covariates(self, outcomes: VoteOutcomes, start: Shared) -> None:
        """Raise for covariates whose coefficients cannot be estimated; warn of those that only the prior tells."""
        from concordant.aggregators._bradley_terry_fit import information_at_start, sample_of

        names = list(self._style)
        style.check_sides(outcomes, names, self._warn)
        if outcomes.pairs.outcomes.any():
            learned = np.flatnonzero([False, self.side_effect, *[True] * len(names)])
            sample = sample_of(outcomes.statistics)
            # All votes hold at least the information of some: what these tell apart needs no other look.
            if sample is None or not style.all_identified(*information_at_start(sample, start, learned)):
                found = information_at_start(outcomes.statistics, start, learned)
                asked = ["side_effect"] * self.side_effect + names
                style.check_identified(*found, asked, shrinks=self._shrinks, warn=self._warn)
            style.check_separation(outcomes, names)

    def _fit_habits(self, outcomes: VoteOutcomes, start: Shared, learned: Ints) -> Shared:
        """Estimate the habits of experts with all else, and return the shared parameters that go with them."""
        from concordant.aggregators import _bradley_terry_fit

        prior = outcomes.prior_precision(self._prior_setting)
        which: dict[str, Any] = {"tie": 0 in learned, "side": 1 in learned, "covariates": True}
        found = start

        def refit(score: Floats | None) -> tuple[Floats, Shared]:
            nonlocal found
            how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "start": score}
            solved = _bradley_terry_fit.solve_jointly(outcomes.statistics, prior, found, **which, **how)
            found = solved.shared
            return solved.score, found

        design = self._habit_design
        n_others = design.n_others(outcomes.slots)
        fit, n_rounds, converged = fit_habits(outcomes, refit, 5 * self.max_iter)
        outcomes.habit_fit = fit
        if not converged:
            self._warn(f"habits of experts did not converge in {n_rounds} rounds. Raise max_iter.", ConvergenceWarning)
        unit = design.scale(self._style_units)
        table = HabitTable.of(design, fit, n_others)
        self.habit_details_ = {
            "expert": outcomes.votes.experts.tolist(),
            "kind": design.kinds,
            "term": design.terms,
            "effect": (fit.u / unit).ravel().tolist(),
        }
        self.habit_details_ |= {name: (part / unit).ravel().tolist() for name, part in table._asdict().items()}
        names = ["families"] * bool(design.families) + design.covariates
        units = np.concatenate([np.ones(int(bool(design.families))), self._style_units[design.columns_of]])
        self.habit_spread_ = dict(zip(names, (np.sqrt(fit.variance) / units).tolist(), strict=True))
        return found

    def _check_divergence(
        self, outcomes: PairwiseOutcomes | None, solved: Solution, learned: Ints, diverged: bool, among: str
    ) -> bool:
        """Raise if the coefficient of a covariate diverges; otherwise return whether scores diverged.

        A prior of the scores does not hold the coefficients.
        """
        if not isinstance(outcomes, VoteOutcomes):
            return diverged
        values, n_outcomes = solved.shared.values[learned], float(outcomes.pairs.outcomes.sum())
        doubt = diverged or not solved.converged or style.suspicious(solved.information, values, n_outcomes)
        if not doubt or self.fit_info_.interrupted:
            return diverged
        grow = style.separation(outcomes.statistics, learned, shrinks=self._shrinks)
        if grow is None:
            return False
        names = ["tie parameter", "side_effect", *self._style]
        raise style.no_finite_coefficients([names[k] for k in grow], among)

    # Fit of covariates.

    def _fit_covariates(
        self, outcomes: PairwiseOutcomes, features: Features, start: Shared, learned: Ints, checkpoint: Checkpointer
    ) -> None:
        """Estimate the coefficients of features, and keep the scores of every item the features describe."""
        prior = outcomes.prior_precision(self._prior_setting)
        how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "report": execution.report_progress}
        which: dict[str, Any] = {"tie": 0 in learned, "side": 1 in learned, "covariates": True}
        fitted = covariates.fit(
            outcomes, features, prior, start, warn=self._warn, **which, **how, checkpoint=checkpoint
        )
        n_outcomes = float(outcomes.pairs.outcomes.sum())
        diverged = identifiability.diverged_linear(fitted.solution, n_outcomes, ties=self.ties_ != "none")
        self._keep_shared(fitted.solution, diverged and n_outcomes > 0, items_in_words(outcomes.slots))
        self._record([fitted.solution])
        part = self._likelihood_part(outcomes, fitted.solution, prior)
        self._record_likelihood([part], fitted.basis.shape[1] + len(learned))
        self._keep_covariates(features, fitted.coefficients, fitted.basis, fitted.scores, fitted.to_features)
        self.shared_covariance_ = covariates.coefficient_covariance(
            outcomes,
            fitted,
            prior,
            self._shared_parameters(),
            self._learned_shared(),
            clustered=self._interval_kind(outcomes.has_experts) == "sandwich",
            warn=self._warn,
        )

    # Summary.

    def _model_report(self) -> ModelReport:
        return summaries.report(self)

    def _shared_estimates(self) -> list[SharedEstimate]:
        return summaries.shared_estimates(self)

    def learned_effects(self) -> dict[str, Any]:
        """Return the coefficients with their tests, and the spread of the habits of experts."""
        found = {
            "coefficients": self.coefficient_table_.to_dicts(),
            "habit_spread": self.__dict__.get("habit_spread_", {}),
        }
        return {name: learned for name, learned in found.items() if learned}

    @property
    def coefficient_table_(self) -> pl.DataFrame:
        """What was learned beside the scores, as a Polars frame, with standard errors, tests and intervals.

        The columns are kind ("feature", "tie", "side" or "covariate"), term, estimate, stderr, z, p_value, lower and
        upper; unknown is null.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.synthetic.arena(5, 2000, covariates={"length": 0.6}, random_state=1).comparisons
        >>> board = cc.BradleyTerry(covariates=["length"]).fit(votes)
        >>> board.coefficient_table_.select("kind", "term").rows()
        [('tie', 'log ν'), ('covariate', 'length')]
        """
        from concordant.inference.summary import estimate_frame

        if "ties_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        return estimate_frame(self._coefficient_estimates(), self.level).drop("instance")

    @property
    def habits_(self) -> pl.DataFrame:
        """The habits of every expert, as a Polars frame: whom they favour, and how far a covariate sways them.

        The columns are expert, kind ("family" or "covariate"), term, estimate, stderr (its posterior standard
        deviation), z, p_value, lower, upper, alone and alone_stderr. The estimate is by how much the expert favours a
        family over the mean of the others, in log odds, or what the expert adds to the effect of a covariate. It
        shrinks to 0 as far as experts are alike and an expert's votes are few; `alone` is what the expert's own votes
        say, with a larger error, null where they say nothing. Where few experts have a habit and most have none, z
        tells who has it, and `alone` how large it is.

        Examples
        --------
        >>> import concordant as cc
        >>> sample = cc.synthetic.arena(
        ...     6, 5000, covariates=[], n_experts=20, n_families=3, favouring=0.2, favour=2, random_state=1
        ... )
        >>> model = cc.BradleyTerry(families=sample.families).fit(sample.comparisons)
        >>> found = model.habits_.sort("z", descending=True).head(4).select("expert", "term").rows()
        >>> sorted(found) == sorted(sample.favours.items())
        True
        """
        if "habit_details_" not in self.__dict__:
            raise NotFittedError(
                "this BradleyTerry has learned no habits of experts. Fit it with families= or varying=."
            )
        return habit_frame(self.habit_details_, self.level)

    def expert_habits(self) -> dict[str, list[Any]]:
        """Return the habits of every expert in one row each, column by column; empty where none were looked for.

        `favours` is the family with the largest z, `favour` by how much the expert favours it over the mean of the
        others, with an interval and z; `NAME_habit` is what the expert adds to the effect of a covariate.
        """
        if "habit_details_" not in self.__dict__:
            return {}
        return habit_rows(self.habit_details_, self.level)

    @property
    def _basis_covariance(self) -> Floats:
        return self.shared_covariance_

    # Predict.

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        checks.check_request(self, preferences, None)
        if "ties_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        if "feature_scores_" in self.__dict__:
            return self._consensus_from_covariates(preferences.slots, self._covariate_interval_method(preferences))
        anchors = anchor_slots(preferences.slots, self.anchor)
        if self.reliability:
            return judges.consensus(self, preferences, known, anchors)
        estimate = known or self._predicted(preferences)
        slots, score = preferences.slots, estimate.score
        has_experts = estimate.windows[0].has_experts
        kind = self._feasible_interval_kind(slots, self._interval_kind(has_experts), all_or_none=False)
        if kind == "none":
            return self._gauged(slots, score, anchors)
        covariances: list[ScoreCovariance | str] = []
        compared = []
        for own, own_score in estimate.by_window():
            covariances += self._score_covariances(own, own_score, kind, estimate.jointly)
            compared.append(own.compared)
            if len(estimate.windows) > 1:
                vars(own).pop("pairs", None)
        words = self._interval_method(kind, has_experts)
        return self._gauged(slots, score, anchors, covariances, words, np.concatenate(compared))

    def _predicted(self, preferences: Votes) -> _WindowedScores:
        """Return the scores of new votes; `fit_info_` keeps the record of the fit and gains only warnings."""
        kept = self.fit_info_
        self.fit_info_ = copy(kept)
        try:
            return self._solve(self._outcomes(preferences, ties=self.ties_ != "none"))
        finally:
            self.fit_info_ = kept

    def _score_covariances(
        self, outcomes: PairwiseOutcomes, score: Floats, kind: str, jointly: bool
    ) -> list[ScoreCovariance | str]:
        """Return the covariance of the scores of every instance, or the reason why there is none."""
        model = intervals.ScoreModel(
            outcomes.prior_precision(self._prior_setting),
            self._shared_parameters(),
            self._learned_shared(),
            self.shared_covariance_,
            jointly,
        )
        draws = None
        if kind == "bootstrap":
            draws = intervals.bootstrap_scores(
                outcomes,
                score,
                model,
                n_bootstrap=self.n_bootstrap,
                random_state=self.random_state,
                tol=self.tol,
                max_iter=self.max_iter,
            )
        limited = self.uncertainty == "auto"
        return intervals.score_covariances(outcomes, score, model, kind, draws=draws, limited=limited)

    def _covariate_interval_method(self, preferences: Votes) -> str | None:
        """Return in words how intervals of scores from features are made."""
        has_experts = isinstance(preferences, Preferences) or preferences.expert is not None
        kind = self._feasible_interval_kind(preferences.slots, self._interval_kind(has_experts), all_or_none=True)
        return self._interval_method(kind, has_experts)

    # What the model predicts, and why.

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> predictions.PairLaw:
        return self._styled_law(board, a, b, side, expert, 0.0)

    def _styled_law(
        self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any, effect: Any
    ) -> predictions.PairLaw:
        return predictions.pair_law(self, board.score[a] - board.score[b], side, expert, effect)

    def _effect_of(self, covariates: Mapping[str, Any] | None) -> float:
        return float(style.difference(list(self._style), covariates) @ np.array(list(self._style.values())))

    def _effects(self, votes: Comparisons) -> Any:
        if not self._style and not self._has_habits:
            return None
        x = style.design(votes, list(self._style), np.ones(len(self._style)))
        effect = x @ np.array(list(self._style.values()))
        if self._has_habits and votes.expert is not None:
            effect += self._habit_design.effects(votes, x / self._style_units, self._known_habits(votes))
        return effect

    def _pairwise(self, votes: Votes) -> Comparisons:
        return predictions.pairwise(self, votes)

    def _n_shared(self) -> int:
        return len(self._learned_shared())

    def _list_likelihood(self, votes: Any) -> BradleyTerryLists:
        from concordant.aggregators._mixture_likelihoods import BradleyTerryLists

        return BradleyTerryLists(self, votes)

    def _working_responses(self, votes: Votes, by: str) -> WorkingResponses | None:
        checks.check_request(self, votes, None)
        if "ties_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        if self.optimizer == "gd" or "feature_scores_" in self.__dict__:
            return None
        return predictions.working_responses(self, votes, by)

    def _feasible_interval_kind(self, slots: Slots, kind: str, *, all_or_none: bool) -> str:
        """Return the interval method; "none", with a warning, if the default needs too much memory.

        `all_or_none` says that one instance of very many items leaves all without intervals.
        """
        n_bytes, much = intervals.memory_of_covariances(slots)
        many = all_or_none and intervals.too_large(int(slots.sizes.max(initial=0)))
        if self.uncertainty != "auto" or kind == "none" or not (much or many):
            return kind
        self._warn(
            f"no intervals: the covariances of the scores of {len(slots)} instances take {n_bytes / 1e9:.1f} GB. Ask "
            f"for them with uncertainty={kind!r}.",
            UncertaintyWarning,
        )
        return "none"

    @property
    def _scale(self) -> str | None:
        # Other transforms count no outcomes.
        return "log-odds" if self.transform == "binary" else None


# What is done to votes in memory, all of them or a block. Blocks are checked here, when they are read (`unchecked`).


def _has_ties(votes: Votes, method: BradleyTerry, unchecked: bool) -> bool:
    """Return whether votes hold ties that are counted."""
    if unchecked:
        checks.check_request(method, method._checked(votes), None)
    return has_ties(votes, method.transform)


def _block_of(votes: Votes, method: BradleyTerry, unchecked: bool, alone: bool) -> shared.Block:
    """Return votes as instances to estimate shared parameters from."""
    if unchecked:
        checks.check_request(method, method._checked(votes), None)
    return shared.Block.of(method._outcomes(votes, ties=method._counts_ties), method._prior_setting, alone)

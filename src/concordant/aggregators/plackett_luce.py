"""Plackett-Luce: a ranking is a sequence of choices, each made from the items that remain.

Newton's method maximises the penalised log-likelihood of an instance, which is concave except for ties read as
partitions. The adherence of each expert to the scores can be learned over all instances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators import _item_covariates as covariates
from concordant.aggregators import _plackett_luce_predictions as predictions
from concordant.aggregators import _plackett_luce_summary as summaries
from concordant.aggregators._anchors import ANCHOR, anchor_slots
from concordant.aggregators._bradley_terry_intervals import FEW_EXPERTS, NOT_COMPARED
from concordant.aggregators._choice_models import ChoiceModel, SharedEstimate
from concordant.aggregators._explanations import WorkingResponses
from concordant.aggregators._mle_existence import items_in_words, others_alike
from concordant.aggregators._pairwise_votes import each_instance
from concordant.aggregators._plackett_luce_adherence import AdherenceLearner, PlackettLuceBlock
from concordant.aggregators._plackett_luce_identifiability import Identifiability, check_existence, unbounded_ties
from concordant.aggregators._plackett_luce_rankings import RankingData
from concordant.aggregators._predictions import ExpertFit
from concordant.aggregators.fusion import LISTS
from concordant.arrays import Floats, Ints
from concordant.base.contract import Tags
from concordant.base.params import (
    IN_DATA_UNITS,
    INTERVALS,
    Constraint,
    Within,
    boolean,
    integer,
    number,
    one_of,
    optional,
)
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import MOST_WITH_ALL_PAIRS, Slots, Texts
from concordant.data.preferences import Preferences
from concordant.data.streams import bayesian_bootstrap_weights, instance_stream
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    NotFittedError,
    ParameterError,
    Setting,
    UncertaintyWarning,
    listing,
)
from concordant.execution import InMemory, Shards, report_progress, without_progress
from concordant.execution.blocks import Blocks, shards_of
from concordant.inference.experts import learned_adherence, warn_counted_ballots
from concordant.inference.likelihood import free_scores
from concordant.inference.uncertainty import (
    WEAK_PRIOR,
    Clusters,
    ScoreCovariance,
    batched,
    is_covariance,
    regauge,
    sample_covariance,
    score_covariance,
    warn_few_instances,
)
from concordant.kernels import lists
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.resumable import NO_CHECKPOINT, Checkpointer

if TYPE_CHECKING:
    from concordant.aggregators._mixture_likelihoods import PlackettLuceLists
    from concordant.aggregators._plackett_luce_fit import Optimum, PenalisedLikelihood
    from concordant.aggregators._plackett_luce_ties import ChoiceCounts, TieBlock, TieFit, TieParameters
    from concordant.data.features import Features
    from concordant.inference.summary import ModelReport

__all__ = ["PlackettLuce"]

# The prior of the published row becomes weak when items take part in more choices than this, on average.
_FADE = 10.0
# The most steps of each optimiser; the papers take 100 gradient steps.
_STEPS = {"newton": 100, "mm": 10_000, "gd": 100}


def _is_prior(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("auto", "published")
    # The command line gives lists, not tuples.
    if isinstance(value, (tuple, list)):
        plain = number(above=0).test
        return len(value) == 3 and value[0] == "gamma" and plain(value[1]) and plain(value[2]) and value[1] > 1
    return number(least=0).test(value)


@register_method
class PlackettLuce(ChoiceModel):
    """The score s of each item in the model that picks the next item i with probability exp(s_i) / Σ exp(s_left).

    Scores maximise Σ_lists w Σ_k [s_{i_k} − log Σ_{u ≥ k} exp(s_{i_u})] less the prior's ½ λ ‖s‖²; they have mean 0,
    and exp(s_i − s_j) are the odds of i against j. With two items in every list it is Bradley-Terry.

    Estimand: s_i − s_j, the log odds that a random expert chooses i before j, whatever else there is to choose from.

    Lists may be full or partial rankings, top-k lists, or scores and ratings, which count by their order. A list of
    weight 3 counts as three. Lists of one item and empty lists add nothing. An item that no list compares with another
    gets the neutral score 0 and no interval.

    Parameters
    ----------
    prior : "auto", "published", float or ("gamma", a, b)
        λ, the precision of a normal prior on every score. "auto" is weak and the same for all data, 0.1. 0 gives the
        maximum-likelihood estimate, which raises NoFiniteEstimateError where it does not exist. ("gamma", a, b) puts
        Gamma(a, b) on exp(s), a > 1, and gives the mode. "published" is the heavy shrinkage behind the published row
        on MQ2008-agg: 2 n / (1 + (n/10)²), n = T / M for T choices among the M items of an instance. It helps at the
        top of partial lists by few experts; its scores and intervals are too small.
    ties : {"average", "partition", "davidson-luce", "input", "random"}
        How ties within a list are read. "average": any order of the tied items is possible (Efron's likelihood, close
        to the mean over orders). "partition": the ordered-partition likelihood, in which one item of the block is
        chosen and the others come along. "davidson-luce": a tie is an outcome of its own, with a parameter δ for each
        size of tie, learned in `fit`; the model of R's PlackettLuce. "input": the order of the input. "random": an
        order drawn for every list from `random_state` and the ids. The first two do not order items tied in last
        place; for "davidson-luce" a tie in last place is a tie like any other.
    missing : {"auto", "unknown", "below"}
        "unknown": a list says nothing about items it leaves out. "below": they are one block below its items, as in
        top-k lists. "auto": what the preferences declare, instance by instance.
    adherence : bool
        Learn for every expert e a factor α_e ≥ 0 of the scores over all instances: e picks i with probability
        proportional to exp(α_e s_i); an expert with 0 picks at random. The mean of α² over all choices is 1. Stored as
        `adherence_`, and fixed in `predict`. Needs a prior, and some fifty instances: with few, the scores come out too
        far apart, and a warning says that the intervals are too short.
    anchor : id or None
        The item whose score is 0; None puts the mean of an instance's scores there.
    optimizer : {"newton", "mm", "gd"}
        "newton" converges in a few steps. "mm" is Hunter's minorisation: slow, but the likelihood never falls. "gd"
        takes 100 gradient steps of 0.01 M / T from 0, as the papers do; stopping early acts as its prior (an explicit
        prior is added), and it gives intervals by bootstrap only.
    uncertainty : {"auto", "information", "sandwich", "bootstrap", "none"}
        "auto" is the sandwich, with lists (experts) as clusters, moderated for items that few lists hold; none beyond
        5,000 items in an instance, or as many pairs of items in several. An instance with fewer than two lists gets no
        intervals. "information" assumes that all choices are independent. "bootstrap" reweights the experts. With a
        prior they are posterior intervals.
    level : float
        The level of the intervals.
    rank_ranges : {"marginal", "simultaneous"}
        Whether the range of a rank holds that rank with probability `level`, or counts who is surely better and worse,
        all verdicts about the item being right together with that probability.
    n_bootstrap : int
        The number of bootstrap samples.
    max_iter : int, optional
        The most steps: 100 for "newton" and "gd", 10,000 for "mm".
    tol : float
        Converged when the largest derivative of the objective, over the mean number of choices per item T / M, is
        below this (`fit_info_.gradient_norm`).
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts whose adherence was not learned; ignored experts have no effect.
    random_state : int
        The seed of random ties and of the bootstrap.

    Attributes
    ----------
    adherence_, experts_
        The adherence of every expert and their ids, where adherence is learned.
    tie_sizes_, tie_ : int64[K], float64[K]
        The sizes of ties that `fit` saw, and δ of each, shared by all instances, with ties="davidson-luce". A size that
        it did not see has δ = 0.
    tie_covariance_ : float64[K, K]
        Covariance of log δ, the scores being estimated with it; clustered as the intervals are.
    coefficients_ : dict
        Coefficients of the features by name, where `fit` was given features.

    Notes
    -----
    The likelihoods of a list with blocks X_1, X_2, ... (tied items share a block), A_k the items of block k and below
    it, φ = exp(s):

    - "average" (Efron): Π_k Π_{X_k} φ / Π_{j<|X_k|} (Σ_{A_k} φ − (j/|X_k|) Σ_{X_k} φ), over all blocks but the last. A
      tie is missing knowledge about an order that exists; there is no tie parameter.
    - "partition": Π_k Σ_{X_k} φ / Σ_{A_k} φ, over all blocks but the last.
    - "davidson-luce": Π_k δ_{|X_k|} (Π_{X_k} φ)^{1/|X_k|} / Σ_n δ_n Σ_{C ⊆ A_k, |C| = n} (Π_C φ)^{1/n}, δ_1 = 1, over
      all blocks but a single last item. A tie says that its items are equally good. The probabilities of all ordered
      partitions with ties of the sizes seen sum to 1, and the log-likelihood is concave in the scores and log δ. For
      two items it is Davidson's model of Bradley-Terry, ν = δ_2. exp(s_i − s_j) are the odds of i against j given that
      neither is tied. The cost is O(Σ n) for a row, Σ over the sizes; items that a list leaves out are written out
      (missing="below"). It needs optimizer="newton" and no adherence. The scores have the prior; δ has none.

    The three are different models, and their estimates differ. R's PlackettLuce fits the third: its tie2, tie3, ... are
    log δ_2, log δ_3, ..., which have no counterpart in the others. R's survival::coxph with a stratum for each list and
    ties="efron" fits the first. The results page has both beside R.

    After `fit_predict`, `ranking_probability`, `first_place_probabilities`, `top_k_probabilities` and
    `outcome_probabilities` predict new lists, `residuals` and `calibration` hold lists against them, and `explain`
    splits every score by expert or opponent (docs/uncertainty.md).

    `fit(..., features=)` makes the scores linear in covariates of the items: s_i = x_i · ψ, with the prior still on s.
    Every item needs a row. A constant added to a feature within an instance changes nothing; of collinear columns the
    coefficients of least norm (in standardised columns) are taken, with a warning. A missing value (NaN) is an error.
    `predict` then needs items that the features of `fit` described. It needs optimizer="newton", no adherence and no
    bootstrap.

    Cost O(R) for the objective, its gradient and its product with a vector, R rows; about ten steps. Intervals cost
    O(Σ m² + M³) for lists of length m. Equal lists are merged where there are many.

    On partial rankings by few experts, an item that one list puts first and the others leave out may lead: its score is
    high and its interval wide. prior="published" shrinks such items to the middle, which explains most of the quality
    at the top of MQ2008-agg (see the results page).

    "partition" is the likelihood under which ordered partitions sum to one (probabilistic models over ordered
    partitions, full decomposition). A tied block shares one choice, so a strong prior can put a large block below the
    single item after it. It is not concave: with a weak prior, two items that are always tied may have several best
    answers. The answer is the stationary point reached from equal scores, and a warning says when it is not a maximum.
    Where ties come from coarse scales (ratings), "average" is closer to the truth.

    With prior=0 a finite estimate exists if and only if, for every split of the items in two, some list ranks an item
    of each side above one of the other (or, with "average", ties them above a last place). With "partition" a block
    counts when all of it lies on one side; then the estimate surely exists, and otherwise it need not. With
    "davidson-luce" ties connect items as with "average", in last place too; the condition is necessary, and scores that
    grow with δ all the same are found after the fit. Where every choice from n or more items is a tie of n or more,
    nothing bounds δ_n: an error without a prior; with one, δ_n is set as if half a choice of a single item had been
    seen, with a warning.

    References
    ----------
    Luce, Individual choice behavior, 1959. Plackett, The analysis of permutations, 1975. Hunter, MM algorithms for
    generalized Bradley-Terry models, Annals of Statistics 2004. Efron, The efficiency of Cox's likelihood function,
    JASA 1977. Guiver and Snelson, Bayesian inference for Plackett-Luce ranking models, ICML 2009. Davidson, On
    extending the Bradley-Terry model to accommodate ties, JASA 1970. Firth, Kosmidis and Turner, Davidson-Luce model
    for multi-item choice with ties, 2019. Turner, van Etten, Firth and Kosmidis, Modelling rankings in R: the
    PlackettLuce package, Computational Statistics 2020.

    Examples
    --------
    >>> import concordant as cc
    >>> runs = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]})
    >>> found = cc.PlackettLuce(prior=1.0).fit_predict(runs)
    >>> found.ranking(), found.score.round(3).tolist()
    (['a', 'b', 'c'], [0.485, 0.385, -0.87])
    >>> tied = cc.from_lists({"x": {"a": 2, "b": 2, "c": 1}, "y": {"a": 3, "b": 2, "c": 1}, "z": {"b": 2, "a": 1}})
    >>> model = cc.PlackettLuce(ties="davidson-luce").fit(tied)
    >>> model.tie_sizes_.tolist(), model.tie_.round(3).tolist()
    ([2], [0.673])
    """

    name = "plackett-luce"
    uses_features = True
    tags = Tags(
        accepts=LISTS, uncertainty=True, blocks=True, likelihood=True, cost="O(R) a step, O(Σ m² + M³) for intervals"
    )
    _reads_lists_by = ("ties", "missing")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "prior": Constraint('"auto", "published", a number >= 0, or ("gamma", a, b) with a > 1 and b > 0', _is_prior),
        "ties": one_of("average", "partition", "davidson-luce", "input", "random"),
        "missing": one_of("auto", "unknown", "below"),
        "adherence": boolean(),
        "anchor": ANCHOR,
        "optimizer": one_of("newton", "mm", "gd"),
        **INTERVALS,
        "max_iter": optional(integer(least=1)),
        "tol": number(above=0),
        "unknown_experts": one_of("error", "ignore"),
    }

    # On the ellipsoid no expert follows the scores more closely than the root of all choices over its own.
    adherence_: Annotated[Floats, Within(0, 1e12)]
    training_instances_: Annotated[int, Within(least=0)]
    tie_sizes_: Annotated[Ints, Within(least=2)]
    tie_: Annotated[Floats, Within(least=0)]
    tie_covariance_: Annotated[Floats, Within()]
    coefficient_covariance_: Annotated[Floats, IN_DATA_UNITS._replace(missing=True)]

    def _check_state(self) -> None:
        """Raise where only a part of the learned state is there, or one does not fit another."""
        state = self.__dict__
        for parts in _LEARNED_TOGETHER:
            if 0 < sum(name in state for name in parts) < len(parts):
                raise DataError("a part of what PlackettLuce learns is missing.")
        if "tie_" in state:
            k = len(self.tie_)
            if self.tie_.shape != (k,) or self.tie_sizes_.shape != (k,) or self.tie_covariance_.shape != (k, k):
                raise DataError("the tie parameters are not one for each size of tie.")
            if (np.diff(self.tie_sizes_) <= 0).any() or (self.tie_ <= 0).any():
                raise DataError("the sizes of ties do not ascend, or a tie parameter is not above 0.")
            if not is_covariance(self.tie_covariance_):
                raise DataError("the covariance of the tie parameters is none.")
        if "coefficients_" in state:
            n_learned = self.feature_basis_.shape[1] + len(state.get("tie_", ()))
            if self.coefficient_covariance_.shape != (n_learned, n_learned):
                raise DataError("the covariance of the coefficients is not one row for each.")
            self._check_saved_covariates()

    def __init__(
        self,
        *,
        prior: str | float | tuple[str, float, float] | list[Any] = "auto",
        ties: str = "average",
        missing: str = "auto",
        adherence: bool = False,
        anchor: str | None = None,
        optimizer: str = "newton",
        uncertainty: str = "auto",
        level: float = 0.95,
        rank_ranges: str = "marginal",
        n_bootstrap: int = 200,
        max_iter: int | None = None,
        tol: float = 1e-10,
        unknown_experts: str = "error",
        random_state: int = 0,
    ) -> None:
        self.prior = prior
        self.ties = ties
        self.missing = missing
        self.adherence = adherence
        self.anchor = anchor
        self.optimizer = optimizer
        self.uncertainty = uncertainty
        self.level = level
        self.rank_ranges = rank_ranges
        self.n_bootstrap = n_bootstrap
        self.max_iter = max_iter
        self.tol = tol
        self.unknown_experts = unknown_experts
        self.random_state = random_state

    def _check_kind(self, kind: str) -> None:
        super()._check_kind(kind)
        if self.adherence and self.optimizer != "newton":
            raise ParameterError.invalid("optimizer", "PlackettLuce", "'newton' where adherence=True", self.optimizer)
        if self.adherence and self.prior == 0:
            raise ParameterError.invalid("prior", "PlackettLuce", "more than 0 where adherence=True", self.prior)
        if self._has_tie_parameters and (self.adherence or self.optimizer != "newton"):
            raise ParameterError(
                "PlackettLuce(ties='davidson-luce') goes with optimizer='newton' and adherence=False: its tie "
                "parameters are learned by Newton's method with the scores of all experts alike."
            )

    @property
    def _has_tie_parameters(self) -> bool:
        return self.ties == "davidson-luce"

    def _learns(self) -> bool:
        return self.adherence or self._has_tie_parameters

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Features | None) -> _FittedModels | None:
        checkpoint = StepCheckpoint(self, [preferences] if features is None else [preferences, features])
        estimate = None
        if not isinstance(preferences, Blocks):
            anchor_slots(preferences.slots, self.anchor)
        if features is not None:
            self._fit_covariates(preferences, features, checkpoint)
            return None
        if self._has_tie_parameters:
            estimate = self._learn_ties(preferences, checkpoint)
        elif self.adherence:
            plain = Setting("adherence", False)
            warn_counted_ballots(preferences, "adherence", f"Pass {plain}.", self._warn, plain)
            estimate = self._learn_adherence(preferences, checkpoint)
        elif not isinstance(preferences, Blocks):
            estimate = self._estimate(RankingData.of(preferences, self), checkpoint)
        if estimate is None:
            return None
        scores = [f.score for f in estimate.optima]
        part = summaries.likelihood_part(estimate.models, scores, estimate.value)
        self._record_likelihood([part], free_scores(estimate.data.slots) + self._n_shared())
        how = self._interval_kind(estimate.data.slots)
        if how is not None:
            self._interval_method(how)
        return estimate

    def _model_report(self) -> ModelReport:
        return summaries.report(self)

    @property
    def _basis_covariance(self) -> Floats:
        known = vars(self)
        return np.asarray(known.get("coefficient_covariance_", known.get("tie_covariance_", np.zeros((0, 0)))))

    def _shared_estimates(self) -> list[SharedEstimate]:
        return summaries.shared_estimates(self)

    def _consensus(self, preferences: Any, known: _FittedModels | None = None) -> Consensus:
        if "feature_scores_" in self.__dict__:
            how = self._interval_kind(preferences.slots)
            return self._consensus_from_covariates(
                preferences.slots, None if how is None else self._interval_method(how)
            )
        anchors = anchor_slots(preferences.slots, self.anchor)
        estimate = known or self._estimate(RankingData.of(preferences, self, self._list_adherence(preferences)))
        slots, score = preferences.slots, self._slot_scores(estimate)
        how = self._interval_kind(slots)
        if how is None:
            return self._gauged(slots, score, anchors)
        if self.adherence:
            warn_few_instances(self.training_instances_, self._warn)
        covariances = self._covariances(estimate, how)
        return self._gauged(slots, score, anchors, covariances, self._interval_method(how), estimate.is_informed)

    def _estimate(self, data: RankingData, checkpoint: Checkpointer = NO_CHECKPOINT) -> _FittedModels:
        """Maximise the likelihood of every instance; store the fit information and warn of problems."""
        ties = self._known_ties(data) if self._has_tie_parameters else None
        models = [self._likelihood(data, n, ties) for n in range(len(data.counts))]
        if self.prior == 0 and self.optimizer != "gd":
            check_existence(data, models)
        starts = [np.zeros(model.size) for model in models]
        if len(models) == 1:
            # Progress over instances says nothing for a single one: report the digits of its gradient instead.
            optima = [self._maximise(models[0], starts[0], _progress_by_digits(self.tol), checkpoint)]
        else:
            optima = each_instance(lambda n: self._maximise(models[n], starts[n]), [model.size for model in models])
        estimate = _FittedModels(data, models, optima)
        if hasattr(self, "fit_info_") and not self._learns():
            info = self.fit_info_
            info.n_iter = max((f.n_iter for f in optima), default=0)
            info.converged = all(f.converged for f in optima)
            info.objective = estimate.value
            info.gradient_norm = max((f.norm for f in optima), default=0.0)
        self._warn_doubts(estimate)
        return estimate

    def _warn_doubts(self, estimate: _FittedModels) -> None:
        """Warn of instances whose scores have not converged or are not identified by the lists."""
        self._warn_unidentified([Identifiability.of(estimate.data)])
        if self.optimizer != "gd":
            self._warn_convergence([_Convergence.of(estimate.models, estimate.optima)], estimate.data.slots.instances)

    def _warn_convergence(self, parts: Sequence[_Convergence], names: Texts) -> None:
        """Warn where scores have not converged, or are stationary but no maximum; `names` are all instances."""
        first = np.cumsum([0, *(p.n_instances for p in parts)]).tolist()
        open_ = [names[first[k] + n] for k, p in enumerate(parts) for n in p.unconverged]
        if open_ and not self._interrupt:
            self._warn(
                f"Plackett-Luce did not converge in {max(p.n_iter for p in parts)} steps in instances "
                f"{listing(open_)}. The largest gradient is {max(p.norm for p in parts):.1e}, asked for "
                f"{self.tol:.1e}. The last estimate "
                "is kept. Raise max_iter, or set a larger prior.",
                ConvergenceWarning,
            )
        not_maximal = [names[first[k] + n] for k, p in enumerate(parts) for n in p.not_maximal]
        if not_maximal:
            self._warn(
                f"ties leave more than one best answer in instances {listing(not_maximal)}: the scores are stationary, "
                'reached from equal ones, but no maximum. Set a larger prior, or ties="average".',
                ConvergenceWarning,
            )

    def _warn_unidentified(self, parts: Sequence[Identifiability]) -> None:
        """Warn of groups of items that no list connects, and of items that no list compares."""
        parted, uncompared = sum(p.n_disconnected for p in parts), sum(p.n_uncompared for p in parts)
        if parted:
            why = next(p.why for p in parts if p.n_disconnected)
            rest = "where the steps end" if self.optimizer == "gd" else "the prior"
            self._warn(f"{why}{others_alike(parted)}: what places them is {rest}.", IdentifiabilityWarning)
        if uncompared:
            items = next(p.uncompared for p in parts if p.n_uncompared)
            more = f" and {uncompared - 1} more" if uncompared > 1 else ""
            self._warn(
                f"nobody prefers any of {items}{more} to another: they score 0 and get no interval.",
                IdentifiabilityWarning,
            )

    def _likelihood(
        self, data: RankingData, n: int, ties: TieParameters | None = None, *, merge: bool = True
    ) -> PenalisedLikelihood:
        """Return the penalised likelihood of one instance; `ties` are those of Davidson-Luce.

        With `merge` equal lists may be merged.
        """
        rankings, size, choices = data.instance_rankings(n, merge), int(data.counts[n]), float(data.choices[n])
        gamma, precision = None, 0.0
        if isinstance(self.prior, (tuple, list)):
            gamma = (float(self.prior[1]) - 1.0, float(self.prior[2]))
        elif not isinstance(self.prior, str):
            precision = float(self.prior)
        elif self.prior == "auto" and self.optimizer != "gd":
            precision = WEAK_PRIOR
        elif self.optimizer != "gd":
            each = choices / max(data.n_items(n), 1)
            precision = 2.0 * each / (1.0 + (each / _FADE) ** 2)
        from concordant.aggregators._plackett_luce_fit import PenalisedLikelihood

        scale = choices / max(size, 1)
        if ties is None:
            return PenalisedLikelihood(rankings, size, precision, gamma, scale)
        from concordant.aggregators._plackett_luce_ties import DavidsonLuceLikelihood

        return DavidsonLuceLikelihood(rankings, size, precision, gamma, scale, ties)

    def _maximise(
        self,
        model: PenalisedLikelihood,
        start: Floats,
        report: Callable[[int, float], None] | None = None,
        checkpoint: Checkpointer = NO_CHECKPOINT,
    ) -> Optimum:
        from concordant.aggregators import _plackett_luce_fit

        steps = self.max_iter or _STEPS[self.optimizer]
        if self.optimizer == "gd":
            return _plackett_luce_fit.gradient_ascent(model, start, steps, checkpoint)
        if self.optimizer == "mm":
            return _plackett_luce_fit.minorise(model, start, steps, self.tol, checkpoint)
        return _plackett_luce_fit.newton(model, start, steps, self.tol, report, checkpoint)

    def _slot_scores(self, estimate: _FittedModels) -> Floats:
        """Return a score for every slot: mean 0 over the items compared, the prior's mode for the others."""
        data = estimate.data
        out = np.zeros(int(data.slots.offsets[-1]))
        out[data.compared] = np.concatenate([np.zeros(0), *(f.score - _mean(f.score) for f in estimate.optima)])
        if isinstance(self.prior, (tuple, list)) and not data.compared.all():
            mode = np.log((self.prior[1] - 1.0) / self.prior[2])
            shift = np.array([_mean(f.score) if len(f.score) else mode for f in estimate.optima])
            silent = ~data.compared
            out[silent] = mode - np.repeat(shift, np.diff(data.slots.offsets))[silent]
        return out

    # Davidson-Luce ties.

    def _known_ties(self, data: RankingData) -> TieParameters:
        """Return the tie parameters that `fit` learned; raise where the lists have ties of other sizes."""
        from concordant.aggregators._plackett_luce_ties import TieParameters, choice_counts

        if "tie_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        choice_counts(data.rankings).check_known(self.tie_sizes_)
        return TieParameters.of(self.tie_sizes_, self.tie_)

    def _learn_ties(self, votes: Preferences | Blocks, checkpoint: Checkpointer) -> _FittedModels | None:
        """Learn the tie parameters over blocks; where `votes` are in memory, return the estimate that goes with it."""
        from concordant.aggregators._plackett_luce_ties import ChoiceCounts, learn_ties, profile_meat, start_parameters

        with without_progress():
            made: Shards[_TieBlockParts] = shards_of(votes).persist(_tie_block_of, self, isinstance(votes, Blocks))
            summaries = list(made.map(itemgetter(1)))
            data = next(iter(made.map(itemgetter(2)))) if isinstance(votes, Preferences) else None
            blocks: Shards[TieBlock] = made.persist(itemgetter(0))
        del made
        found = ChoiceCounts.sum([s.choices for s in summaries])
        if self.prior == 0:
            found.check_bounded()
        learned = np.flatnonzero(~np.isin(found.sizes, found.unbounded))
        found, words = found.with_half_choices()
        if words:
            self._warn(words, IdentifiabilityWarning)
        self._warn_unidentified([s.identifiability for s in summaries])
        fitted = learn_ties(
            blocks,
            start_parameters(found),
            found.total,
            learned=learned,
            largest=max(s.largest for s in summaries),
            max_iter=self.max_iter or _STEPS["newton"],
            tol=self.tol,
            checkpoint=checkpoint,
            check_scores=self.prior == 0,
        )
        del blocks
        n_informed = sum(s.instances for s in summaries)
        if self.prior == 0 and not fitted.regular and found.total and not self.fit_info_.interrupted:
            raise unbounded_ties(votes)
        self._store_ties(fitted)
        inverse, k = np.linalg.pinv(fitted.information, hermitian=True), len(self.tie_)
        if self.uncertainty not in ("information", "none"):
            meat = sum(fitted.blocks.map(profile_meat), np.zeros((k, k)))
            inverse = inverse @ meat[np.ix_(learned, learned)] @ inverse
        # A parameter that is not learned is taken as known.
        self.tie_covariance_ = np.zeros((k, k))
        self.tie_covariance_[np.ix_(learned, learned)] = (inverse + inverse.T) / 2
        self._warn_convergence(list(fitted.blocks.map(_tie_convergence_of)), votes.instances)
        if data is None:
            return None
        (block,) = fitted.blocks
        jointly = n_informed == 1 and 0 < len(learned) == k
        return _FittedModels(data, block.models, block.optima, jointly=jointly)

    def _store_ties(self, fitted: TieFit) -> None:
        """Store the tie parameters and how their fit went."""
        self.tie_sizes_ = fitted.ties.sizes[1:]
        self.tie_ = fitted.ties.delta
        self._record_search("the tie parameters", fitted.end)

    # Covariates of items.

    def _fit_covariates(self, votes: Preferences, features: Features, checkpoint: Checkpointer) -> None:
        """Estimate the coefficients of features, and keep the scores of every item the features describe."""
        from concordant.aggregators import _plackett_luce_covariates as linear

        asked = {
            "adherence=True": self.adherence,
            f"optimizer={self.optimizer!r}": self.optimizer != "newton",
            "uncertainty='bootstrap'": self.uncertainty == "bootstrap",
        }
        wrong = [name for name, given in asked.items() if given]
        if wrong:
            raise ParameterError(f"PlackettLuce with features has no {', '.join(wrong)}. Use the default.")
        data = RankingData.of(votes, self)
        ties = None
        if self._has_tie_parameters:
            from concordant.aggregators._plackett_luce_ties import choice_counts, start_parameters

            found = choice_counts(data.rankings)
            found.check_bounded()
            ties = start_parameters(found)
        models = [self._likelihood(data, n, ties) for n in range(len(data.counts))]
        known = covariates.basis_of(features, votes.slots, "PlackettLuce", self._warn)
        places = [data.places(n) + int(data.slots.offsets[n]) for n in range(len(models))]
        fitted = linear.fit(
            models,
            [known.basis[known.rows[own]] for own in places],
            max_iter=self.max_iter or _STEPS["newton"],
            tol=self.tol,
            checkpoint=checkpoint,
        )
        if not self._shrinks and not fitted.is_bounded and not self.fit_info_.interrupted:
            raise linear.no_finite_estimate(items_in_words(votes.slots))
        self._record_search("the coefficients", fitted.end)
        b = fitted.coefficients
        self._keep_covariates(
            features, known.coefficients(features, b), known.basis, known.basis @ b, known.to_features
        )
        part = summaries.likelihood_part(fitted.models, [d @ b for d in fitted.designs], fitted.end.objective)
        self._record_likelihood([part], len(fitted.information))
        how = "information" if self.uncertainty == "information" else "sandwich"
        table = linear.covariance(fitted, clustered=how == "sandwich" and self.uncertainty != "none")
        r = known.basis.shape[1]
        if np.isnan(table).any():
            self._warn("no intervals: fewer than two experts compare items in any instance.", UncertaintyWarning)
        self.coefficient_covariance_ = table
        if ties is not None:
            self.tie_sizes_, self.tie_ = fitted.ties.sizes[1:], fitted.ties.delta
            self.tie_covariance_ = linear.covariance(fitted, clustered=False)[r:, r:]
            if not np.isnan(table).any():
                self.tie_covariance_ = table[r:, r:]
        if self.uncertainty != "none":
            self._interval_method(how)

    # What the model predicts, and why.

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> predictions.PairLaw:
        return predictions.pair_law(self, board.score[a] - board.score[b], expert)

    def _ranking_law(self, board: Consensus, slots: Ints, expert: int | None) -> predictions.RankingLaw:
        return predictions.ranking_law(self, board.score[slots], expert)

    def _pairwise(self, votes: Any) -> Comparisons:
        return predictions.pairwise(self, votes)

    def _list_likelihood(self, votes: Any) -> PlackettLuceLists:
        from concordant.aggregators._mixture_likelihoods import PlackettLuceLists

        return PlackettLuceLists(self, votes)

    def _expert_fit(self, votes: Any, board: Consensus) -> ExpertFit:
        data = RankingData.of(votes, self, self._list_adherence(votes))
        return predictions.expert_fit(data, votes, board)

    def _n_shared(self) -> int:
        # The mean of α² is 1, so one adherence follows from the others.
        return len(self.__dict__.get("tie_", ())) + max(len(self.__dict__.get("adherence_", ())) - 1, 0)

    def _working_responses(self, votes: Any, by: str) -> WorkingResponses | None:
        if self.optimizer == "gd" or self.ties == "partition" or "feature_scores_" in self.__dict__:
            return None
        estimate = self._estimate(RankingData.of(votes, self, self._list_adherence(votes)))
        return predictions.working_responses(estimate, votes, by, self._slot_scores(estimate))

    # Adherence.

    def _list_adherence(self, votes: Preferences) -> Floats | None:
        """Return the learned adherence of every list's expert, NaN for experts to be left out."""
        if not self.adherence:
            return None
        return learned_adherence(self, votes, absent=np.nan)[votes.list_expert]

    def _learn_adherence(self, votes: Preferences | Blocks, checkpoint: Checkpointer) -> _FittedModels | None:
        """Learn the adherence over blocks; where `votes` are in memory, return the estimate that goes with it."""
        data: RankingData | None = None
        blocks: Shards[PlackettLuceBlock]
        if isinstance(votes, Blocks):
            with without_progress():
                made = votes.shards.persist(_block_of, self)
                summaries, identifiability = zip(*made.map(itemgetter(1)), strict=True)
                blocks = made.persist(itemgetter(0))
            del made
        else:
            data = RankingData.of(votes, self, np.ones(votes.n_lists))
            block, summary = self._block(data, votes)
            blocks, summaries, identifiability = InMemory([block]), (summary,), (Identifiability.of(data),)
            del block
        learner = self._learner(blocks, summaries)
        # Free the blocks before the first step.
        del blocks
        self._store_adherence(learner, summaries, votes.experts, checkpoint)
        self._warn_unidentified(identifiability)
        self._warn_convergence(learner.gather(_convergence_of), votes.instances)
        if data is None:
            return None
        (learned,) = learner.blocks
        return _FittedModels(data, learned.models, learned.optima)

    def _block(self, data: RankingData, votes: Preferences) -> tuple[PlackettLuceBlock, _ChoiceSummary]:
        """Return the block to learn adherence from, and its summary."""
        models = [self._likelihood(data, n) for n in range(len(data.counts))]
        expert = votes.list_expert[data.source].astype(np.int64)
        choices = data.rankings.weight * data.list_choices
        summary = _ChoiceSummary(
            np.bincount(votes.list_expert, minlength=votes.n_experts) > 0,
            np.bincount(expert, weights=choices, minlength=votes.n_experts).astype(np.float64),
            int(data.counts.max(initial=0)),
            int((data.counts > 0).sum()),
        )
        return PlackettLuceBlock(data.list_starts, expert, models), summary

    def _learner(self, blocks: Shards[PlackettLuceBlock], summaries: Sequence[_ChoiceSummary]) -> AdherenceLearner:
        """Return the learner of the adherence over all blocks."""
        return AdherenceLearner(
            blocks,
            sum((s.choices for s in summaries[1:]), summaries[0].choices),
            max(s.largest for s in summaries),
            self.max_iter or _STEPS["newton"],
            self.tol,
        )

    def _store_adherence(
        self, learner: AdherenceLearner, summaries: Sequence[_ChoiceSummary], experts: Texts, checkpoint: Checkpointer
    ) -> None:
        """Learn the adherence, and store that of the experts with a list."""
        end = learner.learn(checkpoint)
        ranking = np.flatnonzero(np.any([s.has_list for s in summaries], axis=0))
        self.experts_ = [experts[code] for code in ranking.tolist()]
        self.adherence_ = learner.theta[ranking]
        self.training_instances_ = sum(s.instances for s in summaries)
        self._record_search("the adherence", end)

    # Uncertainty.

    def _interval_kind(self, slots: Slots) -> str | None:
        """Return the kind of intervals, None for none."""
        if self.uncertainty == "none" or (self.optimizer == "gd" and self.uncertainty != "bootstrap"):
            return None
        if self.uncertainty != "auto":
            return self.uncertainty
        sizes = slots.sizes.astype(np.float64)
        cells = float((sizes * sizes).sum())
        if cells <= MOST_WITH_ALL_PAIRS**2:
            return "sandwich"
        sandwich = Setting("uncertainty", "sandwich")
        note = (
            f"no intervals: tables of all pairs of items, up to {int(sizes.max()):,} in an instance, would take "
            f"{3 * 8 * cells / 2**20:,.0f} MB. Pass {sandwich} to compute them anyway."
        )
        if hasattr(self, "fit_info_") and note not in self.fit_info_.warnings:
            self._warn(note, UncertaintyWarning, sandwich)
        return None

    def _interval_method(self, how: str) -> str:
        """Return the description of the intervals, and store it in `fit_info_`."""
        words = self._interval_words(how) + (", adherence taken as known" if self.adherence else "")
        if hasattr(self, "fit_info_"):
            self.fit_info_.uncertainty = words
        return words

    def _covariances(self, estimate: _FittedModels, how: str) -> list[ScoreCovariance | str]:
        """Return the covariance of the scores of each instance, or the reason why there is none."""
        data = estimate.data
        clusters = [float(model.rankings.weight.sum()) for model in estimate.models]

        def work(n: int) -> dict[str, Any] | None:
            model, optimum = estimate.models[n], estimate.optima[n]
            if model.size == 0 or (clusters[n] < 2 and how != "information"):
                return None
            m = model.size
            parts = model.joint_parts if estimate.jointly else model.sandwich_parts  # type: ignore[attr-defined]
            tables = parts(optimum.score, outer_products=how != "information")
            prior = model.prior_curvature(optimum.score)
            made: dict[str, Any] = {"hessian": tables.hessian, "scores": m, "prior": prior}
            if how != "information":
                own = np.diag(tables.hessian)[:m] - prior
                total = model.likelihood_gradient(optimum.score)
                made["clusters"] = Clusters(tables.gradients, own, tables.squares[:m], clusters[n], total)
            if how == "bootstrap":
                rng = instance_stream(self.random_state, data.slots.instances[n])
                made["repeated"] = self._bootstrap_covariance(model, optimum, rng, estimate.jointly)
            return made

        out = batched(score_covariance, each_instance(work, [model.size for model in estimate.models]))
        if self._has_tie_parameters and not estimate.jointly:
            out = [
                self._with_tie_covariance(c, m, f)
                for c, m, f in zip(out, estimate.models, estimate.optima, strict=True)
            ]
        for n, covariance in enumerate(out):
            places, every = data.places(n), data.n_items(n)
            if covariance is not None and len(places) < every:
                out[n] = covariance.placed(places, every)
        missing = [FEW_EXPERTS if model.size else NOT_COMPARED for model in estimate.models]
        return [why if c is None else c for c, why in zip(out, missing, strict=True)]

    def _with_tie_covariance(
        self, covariance: ScoreCovariance | None, model: PenalisedLikelihood, optimum: Optimum
    ) -> ScoreCovariance | None:
        """Return the covariance of scores plus what comes from that of the tie parameters (the delta method)."""
        if covariance is None or not len(self.tie_):
            return covariance
        change = model.score_change(optimum.score)  # type: ignore[attr-defined]
        return covariance._replace(table=covariance.table + regauge(change @ self.tie_covariance_ @ change.T, None))

    def _bootstrap_covariance(
        self, model: PenalisedLikelihood, optimum: Optimum, rng: np.random.Generator, jointly: bool
    ) -> Floats:
        """Return the covariance of the scores over `n_bootstrap` reweightings of the experts."""
        # The result of a fixed number of gradient steps depends on the start.
        start = np.zeros(model.size) if self.optimizer == "gd" else optimum.score
        again = (
            model.reweighted(bayesian_bootstrap_weights(model.rankings.weight, rng)) for _ in range(self.n_bootstrap)
        )
        if jointly:
            return sample_covariance(np.array([self._scores_with_ties(one, optimum) for one in again]))
        return sample_covariance(np.array([self._maximise(one, start).score for one in again]))

    def _scores_with_ties(self, model: Any, optimum: Optimum) -> Floats:
        """Return the optimal scores of one instance, its tie parameters being estimated again with them."""
        from concordant.aggregators._plackett_luce_ties import TieBlock, learn_ties

        fitted = learn_ties(
            InMemory([TieBlock([model], [optimum])]),
            model.ties,
            float(model.rankings.weight.sum()),
            learned=np.arange(len(model.ties.sizes) - 1),
            largest=model.size,
            max_iter=self.max_iter or _STEPS["newton"],
            tol=self.tol,
            checkpoint=NO_CHECKPOINT,
        )
        (block,) = fitted.blocks
        return block.optima[0].score


# Attributes that are learned together, or none of them.
_LEARNED_TOGETHER = (
    ("adherence_", "training_instances_"),
    ("tie_sizes_", "tie_", "tie_covariance_"),
    (
        *("coefficients_", "coefficient_covariance_"),
        *("feature_slots_", "feature_basis_", "feature_scores_", "feature_map_"),
    ),
)


def _mean(score: Floats) -> float:
    return float(score.mean()) if len(score) else 0.0


def _progress_by_digits(tol: float) -> Callable[[int, float], None]:
    """Return a callback that reports progress as the share of the digits asked for that the gradient norm has."""
    asked = max(-np.log10(tol), 1.0)

    def report(_: int, norm: float) -> None:
        gained = min(max(-np.log10(max(norm, tol)), 0.0), asked)
        report_progress(round(100 * gained / asked), 100)

    return report


@dataclass(frozen=True)
class _FittedModels:
    """The Plackett-Luce models of all instances and their optimal scores.

    `jointly` says that tie parameters were estimated from the lists of a single instance, with its scores.
    """

    data: RankingData
    models: Sequence[PenalisedLikelihood]
    optima: Sequence[Optimum]
    jointly: bool = False

    @property
    def is_informed(self) -> NDArray[np.bool_]:
        """Whether some list of an expert with adherence above 0 compares the item of a slot."""
        if not len(self.data.rankings.theta):
            return self.data.compared
        out = self.data.compared.copy()
        parts = [np.zeros(0, dtype=np.bool_)]
        for model in self.models:
            trusted = model.rankings.theta[lists.list_ids(model.rankings.offsets)] > 0
            parts.append(np.bincount(model.rankings.item[trusted], minlength=model.size) > 0)
        out[out] = np.concatenate(parts)
        return out

    @property
    def value(self) -> float:
        return float(sum(f.value for f in self.optima))


class _Convergence(NamedTuple):
    """The convergence of the scores of some instances, numbered from 0."""

    n_instances: int
    n_iter: int
    norm: float
    unconverged: list[int]
    # Instances with a stationary point that is no maximum.
    not_maximal: list[int]

    @classmethod
    def of(cls, models: Sequence[PenalisedLikelihood], optima: Sequence[Optimum]) -> _Convergence:
        """Return the convergence of some optima."""
        return cls(
            len(optima),
            max((f.n_iter for f in optima), default=0),
            max((f.norm for f in optima), default=0.0),
            [n for n, f in enumerate(optima) if not f.converged],
            [n for n, (m, f) in enumerate(zip(models, optima, strict=True)) if not m.is_maximum(f.score)],
        )


class _ChoiceSummary(NamedTuple):
    """Summary of a block for learning adherence, computed before the first step.

    Attributes
    ----------
    has_list : bool[K]
        Which experts have a list in the block.
    choices : float64[K]
        The number of choices of each expert.
    largest : int
        The number of compared items of the largest instance.
    instances : int
        The number of instances with compared items.
    """

    has_list: NDArray[np.bool_]
    choices: Floats
    largest: int
    instances: int


def _block_of(
    block: Preferences, method: PlackettLuce
) -> tuple[PlackettLuceBlock, tuple[_ChoiceSummary, Identifiability]]:
    """Return the block to learn adherence from, without its ids, and its summaries."""
    method._checked(block)
    data = RankingData.of(block, method, np.ones(block.n_lists))
    prepared, summary = method._block(data, block)
    return prepared, (summary, Identifiability.of(data))


class _TieSummary(NamedTuple):
    """What has to be known of a block before its tie parameters are learned.

    Attributes
    ----------
    choices : ChoiceCounts
        The choices by the size of the chosen set.
    largest, instances : int
        The number of compared items of the largest instance, and of instances with compared items.
    identifiability : Identifiability
        Items that the lists do not place.
    """

    choices: ChoiceCounts
    largest: int
    instances: int
    identifiability: Identifiability


_TieBlockParts = tuple["TieBlock", _TieSummary, RankingData | None]


def _tie_block_of(votes: Preferences, method: PlackettLuce, unchecked: bool) -> _TieBlockParts:
    """Return votes as instances to estimate tie parameters from; blocks (`unchecked`) leave their rows behind."""
    from concordant.aggregators._plackett_luce_ties import NO_TIES, TieBlock, choice_counts

    if unchecked:
        method._checked(votes)
    data = RankingData.of(votes, method)
    models: Any = [method._likelihood(data, n, NO_TIES) for n in range(len(data.counts))]
    if method.prior == 0:
        check_existence(data, models)
    summary = _TieSummary(
        choice_counts(data.rankings),
        int(data.counts.max(initial=0)),
        int((data.counts > 0).sum()),
        Identifiability.of(data),
    )
    return TieBlock(models), summary, None if unchecked else data


def _tie_convergence_of(block: TieBlock) -> _Convergence:
    return _Convergence.of(block.models, block.optima)


def _convergence_of(block: PlackettLuceBlock) -> _Convergence:
    return _Convergence.of(block.models, block.optima)

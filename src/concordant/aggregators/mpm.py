"""Multinomial preference model (MPM): preferences are draws from one distribution over all ordered pairs of items.

Unlike in Bradley-Terry, the number of comparisons of a pair is evidence too: an item that wins many preferences stands
out, and one with few stays in the middle. With equal variances net counts are sufficient, and the fit is one scalar
root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.aggregators._mle_existence import disconnected_instances, explain_disconnected, others_alike
from concordant.aggregators._net_counts import NetCounts, net_counts
from concordant.aggregators._pairwise_votes import PAIRED, each_instance
from concordant.aggregators._predictions import ModelPredictions, PairLaw
from concordant.arrays import Floats, Ints, read_only
from concordant.base.contract import FitInfo, Tags, Votes
from concordant.base.params import INTERVALS, Constraint, Within, integer, number, one_of
from concordant.base.registry import register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import MOST_WITH_ALL_PAIRS
from concordant.data.preferences import Preferences
from concordant.data.streams import bayesian_bootstrap_weights, instance_stream
from concordant.errors import (
    ConvergenceWarning,
    DataError,
    IdentifiabilityWarning,
    KindError,
    NotFittedError,
    ParameterError,
    Setting,
    UncertaintyWarning,
    listing,
)
from concordant.execution import InMemory, Shards, map_instances, report_progress
from concordant.execution.blocks import Blocks
from concordant.inference.experts import learned_adherence
from concordant.inference.likelihood import free_scores
from concordant.inference.predictions import davidson_law
from concordant.inference.summary import Estimates, ModelReport, score_estimates
from concordant.inference.uncertainty import (
    Clusters,
    ScoreCovariance,
    batched,
    moderated,
    regauge,
    sample_covariance,
    some_items,
    warn_few_instances,
    with_intervals,
)
from concordant.kernels.inversions import order_agreement
from concordant.kernels.lists import exact_sums, offsets_of, ranges
from concordant.kernels.ratios import ratio
from concordant.learning.checkpoints import StepCheckpoint
from concordant.learning.supervision import match_labels, validation_pair

if TYPE_CHECKING:
    from concordant.aggregators._mixture_likelihoods import MPMLists
    from concordant.aggregators._mpm_fit import AdherenceBlock, AdherenceFit, PreferenceSummary
    from concordant.aggregators._mpm_variances import Variances
    from concordant.data.explanation import Contributions
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.kernels.mpm import PackedCounts

__all__ = ["MPM"]

Bools = NDArray[np.bool_]

# By default the adherence is learned from this many instances on.
_LEAST_INSTANCES = 20
# Net counts below this share of all preferences have the slope of 0: scores are known to `tol` only.
_CLEAR_EVIDENCE = 1e-6


class _AdherenceGroups(NamedTuple):
    """The lists of every instance in groups of equal adherence α, on which alone the scores depend."""

    # The adherence of each list; 0 where it has no preferences.
    theta: Floats
    # The number of preferences of each instance in lists with α > 0, and Σ α c for every slot.
    total: Floats
    net: Floats
    # Where the groups of each instance begin, their share of its preferences, and their adherence.
    starts: Ints
    share: Floats
    level: Floats

    @staticmethod
    def of(counts: NetCounts, theta: Floats) -> _AdherenceGroups:
        theta = np.where(counts.total > 0, theta, 0.0)
        total = counts.per_instance(np.where(theta > 0, counts.total, 0.0))
        lists = np.lexsort((theta, counts.list_instance))
        lists = lists[theta[lists] > 0]
        owner, level = counts.list_instance[lists], theta[lists]
        new = np.ones(len(lists), dtype=np.bool_)
        new[1:] = (owner[1:] != owner[:-1]) | (level[1:] != level[:-1])
        share = np.bincount(np.cumsum(new) - 1, weights=counts.total[lists], minlength=int(new.sum()))
        starts = np.searchsorted(owner[new], np.arange(len(total) + 1)).astype(np.int64)
        return _AdherenceGroups(theta, total, counts.sums(theta), starts, share / total[owner[new]], level[new])


class _ScoreEstimate(NamedTuple):
    """Scores given the adherence of every list, and how they were found."""

    score: Floats
    # Instances with a finite estimate, without preferences, and with separated data: every item only wins or loses.
    finite: Bools
    empty: Bools
    separated: Bools
    # The largest entry of the gradient and the objective of each instance.
    norms: Floats
    values: Floats
    steps: int
    # Log variances, NaN where nothing is estimated.
    beta: Floats | None = None


@register_method
class MPM(ModelPredictions):
    """Scores of the multinomial preference model: preferences are draws from one distribution over all ordered pairs.

    A preference of expert e is the pair (i, j) with probability exp(α_e (s_i − s_j)/(γ_i + γ_j)) / Z_e, Z_e the sum
    over all ordered pairs of the instance. The scores s are the maximum-likelihood estimate, with mean 0. The adherence
    α_e is between 0 (random preferences) and 1 and is shared over instances; the variances γ are ½ unless they are
    estimated. With equal variances the order of the scores is the order of Σ_e α_e c_ei, c the net counts: preferences
    for the item minus those against it.

    Estimand: (s_i − s_j)/(γ_i + γ_j), half the log of how much more often "i before j" is seen than "j before i" among
    all preferences, of experts with α = 1.

    The score ranks net evidence, not mean quality: which pairs are seen is part of the model, so an item gains by every
    preference for it, and rarely compared items are near 0. A film that 485 people half like stands below one that a
    single person dislikes (see the example). Bradley-Terry and Plackett-Luce estimate quality.

    Counts are differences of ranks (of ratings, for ratings; of positions, for scores), or observed comparisons. Ties
    add nothing; neither do items that an expert leaves out (a warning says where the preferences declare them below),
    nor lists of one item. An item without preferences has net count 0, which is in the middle, and no interval. A list
    of weight 2 counts twice.

    Parameters
    ----------
    variances : {False, True, "joint", "force"}
        Whether the variances γ are estimated with the scores; they are stored as `variance_`. True: α is learned with
        equal variances first. "joint": α is learned together with scores and variances. Both need a table of all pairs:
        above 5,000 items in an instance only "force", which is True without that limit.
    adherence : {"auto", "learned", "supervised", "none"}
        "learned": `fit` learns α over all instances from the agreement of experts. "supervised": α is the agreement of
        an expert with the labels given to `fit`: the share of pairs that it orders as their labels do, averaged over
        instances. "none": α = 1 for all experts, and nothing to fit. "auto": "learned" from 20 instances on, otherwise
        "none"; `adherence_used_` says which.
    instance_weights : {"equal", "counts"}
        The weight of an instance when α is learned from agreement: "equal", the same for all; "counts", its number of
        preferences, which is the likelihood of the whole corpus.
    normalize : {"minmax", "none"}
        Whether supervised α is rescaled to 0 for the worst expert and 1 for the best, as in the paper's tables, or used
        as it is. Where all experts are equally good, rescaling gives all of them 1.
    unjudged : {"zero", "drop"}
        Whether training items without a label count as labelled 0, or are left out, in supervised learning.
    transform : {"count", "binary", "rankdiff", "log", "rating"}
        How lists become counts, as in `Preferences.comparisons`; "count" takes differences of ratings where the values
        are ratings. Comparisons are counted as they are.
    optimizer : {"auto", "gd"}
        "auto" finds the maximum: one scalar root for equal adherence, Newton's method for the adherence and for scores
        with unequal adherence, L-BFGS for variances. "gd" takes `max_iter` steps of plain gradient ascent from scores 0
        and adherence 1, as published; it does not wait for convergence.
    max_iter : int
        The most steps of the adherence, of L-BFGS, or of gradient ascent.
    tol : float
        Converged when the largest entry of the gradient is below this: the gradient of the mean log-likelihood per
        preference, for the adherence averaged over instances by their weight and projected on the bounds of α.
    uncertainty : {"auto", "information", "sandwich", "bootstrap", "none"}
        "auto": observed information for comparisons without experts, else a sandwich clustered by expert, moderated
        for items that few experts rank; none above 5,000 items. The adherence is taken as known.
    level : float
        The level of the intervals.
    rank_ranges : {"marginal", "simultaneous"}
        Whether the range of a rank holds that rank with probability `level`, or counts who is surely better and worse,
        all verdicts about the item being right together with that probability.
    n_bootstrap : int
        The number of bootstrap samples, over experts (over outcomes, where experts are not named).
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts whose adherence was not learned.
    random_state : int
        Seed of the bootstrap.

    Attributes
    ----------
    adherence_, experts_
        α of every expert of the training data. Learned: the largest is 1, and experts without preferences keep 1.
        Supervised: experts whose pairs have no labels get ½ before rescaling.
    expert_details_ : dict
        After supervised learning, by expert: `agreement`, α before rescaling (NaN where it is unknown), and
        `instances`, the number of instances it is averaged over.
    adherence_used_, training_instances_
        The adherence that "auto" chose, and the number of instances with preferences.
    variance_ : float64
        γ of every item of `consensus_` after `fit_predict` with variances, in its order; NaN where nothing is
        estimated. The logarithms of each instance have mean 0, so the common value is 1 instead of ½, and scores are
        twice those without variances.

    Notes
    -----
    Cost O(R log M) to count R rows without forming a table, then O(M) per step of the root. The adherence
    costs O(K M² + K² M) for each instance and step up to 1,000 experts and items, O(K M) beyond; scores of unequal
    trust O(K M) per step; variances O(M²) per step for equal trust, O(K M²) otherwise. The objective is the mean
    log-likelihood per preference, so that each instance counts alike in α by default. While α is learned, the scores
    have a prior of precision 0.001 per preference, without which they may be infinite; variances have one of precision
    1 / M per preference on log γ, which also fixes their scale. With variances="joint" both priors hold while α is
    learned, and α, scores and γ are a stationary point of one objective, at O(K M²) for each evaluation of an instance;
    then, as always, scores and variances are estimated with α fixed and without a prior on the scores. Where every item
    only wins or only loses there is no finite estimate: a warning names the instance, and the scores are Σ α c, which
    has the same order.

    After `fit_predict`, `outcome_probabilities(a, b)` is the probability that a preference about these two items is for
    a, P(a over b) / (P(a over b) + P(b over a)); `residuals`, `goodness_of_fit` and `calibration` take comparisons
    (docs/uncertainty.md).

    With equal variances `explain` splits scores by expert. All items have one increasing function f with
    Σ_e α_e c_ei = f(s_i), so that s_i − z, f(z) = 0, is split in proportion to α_e c_ei; z is the base.

    Supervised α counts the pairs of items with different labels that the expert orders; an instance without such a pair
    is skipped, and a list of weight 2 counts twice in the mean over instances. In comparisons, every win of the item
    with the larger label is a pair in the right order, every loss one in the wrong order. Cost O(R log M).

    Learned adherence is agreement over instances. In a single instance, experts who agree confirm each other and may
    suppress others who contradict nobody, so that scores come out too far apart (the results page has the figures). So
    "auto" weighs all experts equally where instances are few, and "learned" warns.

    References
    ----------
    Volkovs and Zemel, New learning methods for supervised and unsupervised preference aggregation, JMLR 15, 2014. The
    closed form of the base model and Newton's method for α are ours.

    Examples
    --------
    >>> import concordant as cc
    >>> first = {"x": list("abcd"), "y": list("bacd"), "z": list("acbd"), "w": list("cbda")}
    >>> second = {"x": list("efg"), "y": list("egf"), "z": list("feg"), "w": list("efg")}
    >>> votes = cc.concat([cc.from_lists(first, "one"), cc.from_lists(second, "two")])
    >>> mpm = cc.MPM(adherence="learned", uncertainty="none")
    >>> mpm.fit_predict(votes).ranking("one")
    ['a', 'b', 'c', 'd']
    >>> dict(zip(mpm.experts_, mpm.adherence_.round(2).tolist()))
    {'x': 1.0, 'y': 0.59, 'z': 0.51, 'w': 0.37}

    Of 485 people 200 prefer the half-liked film to a good one; a single critic saw the bad one. The net counts are −85
    and −1, so MPM puts the half-liked film last, and Bradley-Terry the bad one.

    >>> people = {n: ["half-liked", "good"] if n < 200 else ["good", "half-liked"] for n in range(485)}
    >>> films = cc.from_lists({**people, "critic": ["good", "bad"]})
    >>> cc.MPM(adherence="none", uncertainty="none").fit_predict(films).ranking()
    ['good', 'bad', 'half-liked']
    >>> cc.BradleyTerry(uncertainty="none").fit_predict(films).ranking()
    ['good', 'half-liked', 'bad']

    With labels for some items, the experts who agree with the labels count most.

    >>> labels = cc.Labels(["one"] * 4, list("abcd"), [0, 1, 2, 0])
    >>> mpm = cc.MPM(adherence="supervised")
    >>> mpm.fit_predict(votes, labels).ranking("one")
    ['c', 'b', 'a', 'd']
    >>> dict(zip(mpm.experts_, mpm.adherence_.round(2).tolist()))
    {'x': 0.0, 'y': 0.33, 'z': 0.33, 'w': 1.0}
    """

    name = "mpm"
    tags = Tags(
        accepts=PAIRED, uncertainty=True, blocks=True, cost="O(R log M); O(K M²) a step for adherence or variances"
    )
    _missing_is_unknown = True
    learns_labels_by: ClassVar[Mapping[str, str]] = {"adherence": "supervised"}
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "variances": one_of(False, True, "joint", "force"),
        "adherence": one_of("auto", "learned", "supervised", "none"),
        "instance_weights": one_of("equal", "counts"),
        "normalize": one_of("minmax", "none"),
        "unjudged": one_of("zero", "drop"),
        "transform": one_of("count", "binary", "rankdiff", "log", "rating"),
        "optimizer": one_of("auto", "gd"),
        "max_iter": integer(least=1),
        "tol": number(above=0),
        "unknown_experts": one_of("error", "ignore"),
        **INTERVALS,
    }

    adherence_used_: str
    training_instances_: Annotated[int, Within(least=0)]
    adherence_: Annotated[Floats, Within(0, 1)]
    variance_: Annotated[Floats, Within(least=0, missing=True)]
    expert_details_: Annotated[dict[str, Any], Within(least=0, missing=True)]

    def _check_state(self) -> None:
        """Raise where a part of the learned state is missing, or where all adherences are practically 0."""
        state = self.__dict__
        if "adherence_" in state:
            if not {"adherence_used_", "training_instances_"} <= state.keys():
                raise DataError("a part of what MPM learns is missing.")
            if 0.0 < self.adherence_.max(initial=0.0) < 1e-100:
                raise DataError("no expert has an adherence above 1e-100.")

    def __init__(
        self,
        *,
        variances: bool | str = False,
        adherence: str = "auto",
        instance_weights: str = "equal",
        normalize: str = "minmax",
        unjudged: str = "zero",
        transform: str = "count",
        optimizer: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-7,
        uncertainty: str = "auto",
        level: float = 0.95,
        rank_ranges: str = "marginal",
        n_bootstrap: int = 200,
        unknown_experts: str = "error",
        random_state: int = 0,
    ) -> None:
        self.variances = variances
        self.adherence = adherence
        self.instance_weights = instance_weights
        self.normalize = normalize
        self.unjudged = unjudged
        self.transform = transform
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.uncertainty = uncertainty
        self.level = level
        self.rank_ranges = rank_ranges
        self.n_bootstrap = n_bootstrap
        self.unknown_experts = unknown_experts
        self.random_state = random_state

    def _check_kind(self, kind: str) -> None:
        super()._check_kind(kind)
        if self.variances == "joint" and self.adherence not in ("auto", "learned"):
            allowed = "'auto' or 'learned' where variances='joint'"
            raise ParameterError.invalid("adherence", "MPM", allowed, self.adherence)
        if self.variances == "joint" and self.optimizer != "auto":
            raise ParameterError.invalid("optimizer", "MPM", "'auto' where variances='joint'", self.optimizer)

    def _learns(self) -> bool:
        return self.adherence != "none"

    def _decide_learning(self, n_informative: int) -> bool:
        """Decide whether the adherence is learned from this many informative instances; store and return it."""
        learned = self.adherence == "learned" or (self.adherence == "auto" and n_informative >= _LEAST_INSTANCES)
        self.adherence_used_ = "learned" if learned else "none" if self.adherence == "auto" else self.adherence
        self.training_instances_ = n_informative
        return learned

    def _fit(
        self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None
    ) -> NetCounts | None:
        from concordant.aggregators._mpm_fit import AdherenceBlock, PreferenceSummary, block_of

        if isinstance(preferences, Blocks):
            if self.learns():
                blocks = preferences.shards.persist(block_of, self)
                self._learn_adherence(preferences, list(blocks.map(attrgetter("summary"))), lambda: blocks)
            return None
        counts = net_counts(preferences, self.transform, bool(self.variances))
        kind = self._interval_kind(counts.named)
        self._learn_adherence(
            preferences,
            [PreferenceSummary.of(counts)],
            lambda: InMemory([AdherenceBlock.of(counts, self.instance_weights, self.variances == "joint")]),
        )
        if self.adherence == "supervised":
            self._learn_from_labels(preferences, labels, validation)
        self.fit_info_.uncertainty = None if kind is None else self._interval_method(kind, counts.named)
        return counts

    def _learn_adherence(
        self,
        votes: Votes | Blocks,
        summaries: Sequence[PreferenceSummary],
        blocks: Callable[[], Shards[AdherenceBlock]],
    ) -> None:
        """Learn the adherence of the experts over blocks, if there are enough instances and the experts are named.

        `blocks` is called only where the adherence is learned.
        """
        from concordant.aggregators import _mpm_fit

        n_informative = sum(s.instances for s in summaries)
        if not self._decide_learning(n_informative):
            return
        unnamed = isinstance(votes, Comparisons) and votes.expert is None
        self.experts_ = [] if unnamed else votes.experts.tolist()
        self.adherence_ = np.ones(len(self.experts_))
        if not self.experts_:
            return
        largest = max(s.largest for s in summaries)
        if self.variances == "joint" and largest > MOST_WITH_ALL_PAIRS:
            after, without = Setting("variances", "force"), Setting("variances", False)
            raise DataError(
                f"variances='joint' needs a table of all pairs for each step: an instance of {largest:,} items takes "
                f"{8e-9 * largest**2:,.1f} GB. Pass {after} to estimate variances after the adherence, or {without}."
            ).advising(after, without)
        n_preferences = sum((s.n_preferences for s in summaries), np.zeros(len(self.experts_)))
        how: dict[str, Any] = {"report": report_progress, "checkpoint": StepCheckpoint(self, [votes])}
        if self.optimizer == "gd":
            (packed,) = blocks().map(attrgetter("profile.packed"))
            found = _mpm_fit.gradient_ascent(packed, self.adherence_, self.max_iter, learning=True, **how)[0]
        else:
            weight = n_informative if self.instance_weights == "equal" else float(n_preferences.sum())
            profile = _mpm_fit.ProfileLikelihood(blocks(), weight, len(self.experts_))
            found = _mpm_fit.maximise_adherence(
                profile, n_preferences > 0, largest, tol=self.tol, max_iter=self.max_iter, **how
            )
        self._store_adherence(found, n_preferences)
        if n_informative == 1 and (self.adherence_[n_preferences > 0] < 1.0).any():
            only = next(s.first for s in summaries if s.instances)
            equal = Setting("adherence", "none")
            self._warn(
                f"the adherence is learned from one instance alone, {only!r}, where experts who agree confirm each "
                f"other. Pass {equal} to weigh all experts equally.",
                IdentifiabilityWarning,
                equal,
            )

    def _store_adherence(self, found: AdherenceFit, n_preferences: Floats) -> None:
        """Store the learned adherence and warn of problems; `n_preferences` are those of each expert."""
        self.adherence_ = found.theta
        info = self.fit_info_
        info.n_iter, info.objective, info.gradient_norm = found.n_iter, found.objective, found.norm
        info.converged, info.trace = found.norm <= self.tol, found.trace
        if not info.converged and self.optimizer == "auto" and not info.interrupted:
            equal = Setting("adherence", "none")
            what = "the adherence has" if self.variances != "joint" else "adherence and variances have"
            self._warn(
                f"{what} not converged after {found.n_iter} steps (gradient {found.norm:.2g}, tol "
                f"{self.tol:g}). Raise max_iter, or pass {equal}.",
                ConvergenceWarning,
                equal,
            )
        silent = [e for e, count in zip(self.experts_, n_preferences.tolist(), strict=True) if not count]
        if silent:
            self._warn(
                f"experts {listing(silent)} have no preferences; their adherence stays 1.",
                IdentifiabilityWarning,
            )
        ignored = np.flatnonzero((n_preferences > 0) & (self.adherence_ == 0.0))
        if len(ignored):
            names = listing([self.experts_[k] for k in ignored.tolist()])
            self._warn(
                f"experts {names} have adherence 0: their preferences are left out.",
                IdentifiabilityWarning,
            )

    def _blocks_obstacle(self) -> str:
        if self.adherence in ("auto", "learned") and self.optimizer == "auto":
            return ""
        return "MPM learns from blocks with adherence='auto' or 'learned' and optimizer='auto'."

    def _learn_from_labels(self, votes: Votes, labels: Labels | None, validation: Any) -> None:
        """Learn the adherence of the experts from their agreement with labels."""
        owner = "MPM(adherence='supervised')"
        if isinstance(votes, Comparisons) and votes.expert is None:
            raise DataError(
                f"{owner} learns whom to believe, and these comparisons name no experts. Use adherence='none', or give "
                "comparisons with experts."
            )
        # Nothing is selected, so validation data are only checked for their type.
        validation_pair(validation, "MPM")
        truth = match_labels(votes, labels, owner, unjudged=self.unjudged)
        self.fit_info_.labels = truth.counts
        self.experts_ = votes.experts.tolist()
        agreement, n_instances = label_agreement(votes, truth.label)
        if not n_instances.any():
            raise DataError(
                "the labels say nothing about the experts: nobody ranks two items of different labels differently. "
                "Give labels of items that experts rank, or use adherence='learned'."
            )
        theta = np.where(n_instances > 0, agreement, 0.5)
        if self.normalize == "minmax":
            low, high = float(agreement[n_instances > 0].min()), float(agreement[n_instances > 0].max())
            # Experts without agreement get ½ on the same scale, which they do not change.
            theta = np.clip((theta - low) / (high - low), 0.0, 1.0) if high > low else np.ones(len(theta))
        self.adherence_ = theta
        self.expert_details_ = {"agreement": agreement, "instances": n_instances}
        unknown = [e for e, n in zip(self.experts_, n_instances.tolist(), strict=True) if not n]
        if unknown:
            self._warn(
                f"the labels say nothing about the experts {listing(unknown)}, who never order two items of different "
                "labels: they get the adherence of one who is right half of the time.",
                IdentifiabilityWarning,
            )
        if not theta.any():
            self._warn(
                "no expert ever orders two items as their labels do: all adherences are 0 and every item ties. Check "
                "that larger labels, and smaller ranks, are better.",
                IdentifiabilityWarning,
            )

    def _consensus(self, preferences: Votes, known: NetCounts | None = None) -> Consensus:
        counts = net_counts(preferences, self.transform, bool(self.variances)) if known is None else known
        groups = _AdherenceGroups.of(counts, self._theta(counts))
        solution = self._solve(counts, groups)
        self._warn_undetermined(counts, groups, solution)
        answer = self._with_intervals(counts, groups, solution)
        if known is not None:
            self._record(self.fit_info_, solution)
            if not self.variances and not solution.separated.any():
                # Values are means over the preferences of an instance.
                self.fit_info_.log_likelihood = float(solution.values[solution.finite] @ groups.total[solution.finite])
                self.fit_info_.n_parameters = free_scores(counts.votes.slots)
                self.fit_info_.n_observations = float(groups.total.sum())
            self.fit_info_.uncertainty = answer.interval_method
            if solution.beta is not None:
                self.variance_ = np.exp(solution.beta)
        return answer

    def _record(self, info: FitInfo, solution: _ScoreEstimate) -> None:
        """Store the fit information of the scores, combined with that of the adherence."""
        found, norm = solution.finite, float(solution.norms.max(initial=0.0))
        if self.adherence_used_ != "learned" or not self.experts_:
            info.n_iter, info.gradient_norm = solution.steps, norm
            info.objective = float(solution.values[found].mean()) if found.any() else 0.0
        else:
            info.gradient_norm = max(info.gradient_norm or 0.0, norm)
        info.converged = info.converged and norm <= self.tol

    def _theta(self, counts: NetCounts) -> Floats:
        """Return the adherence of every list."""
        used = "none" if self.adherence == "none" else self.__dict__.get("adherence_used_", self.adherence)
        if used != "none" and "adherence_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        if used == "none" or not counts.named:
            return np.ones(len(counts.expert))
        return learned_adherence(self, counts.votes)[counts.expert]

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> PairLaw:
        """Return the law of a preference about these two items: P(i over j) / (P(i over j) + P(j over i))."""
        spread: Any = 1.0
        if self.variances:
            variance = self.__dict__.get("variance_", np.zeros(0))
            if board is not self.__dict__.get("consensus_") or len(variance) != board.n_slots:
                raise KindError(
                    "MPM(variances=True) predicts only for the items of its last fit_predict, whose variances it has."
                )
            # Where nothing was estimated, the mean of the logarithms.
            variance = np.where(np.isnan(variance), 1.0, variance)
            spread = variance[a] + variance[b]
        theta = 1.0 if expert is None else self.adherence_[expert]
        return davidson_law(2.0 * theta * (board.score[a] - board.score[b]) / spread)

    def _pairwise(self, votes: Votes) -> Comparisons:
        if isinstance(votes, Preferences):
            raise KindError(
                "MPM counts differences of ranks, not outcomes, in lists: there are no residuals. Give comparisons."
            )
        return votes.with_counts(votes.n_left, votes.n_right, np.zeros(votes.n_rows))

    def _list_likelihood(self, votes: Any) -> MPMLists:
        from concordant.aggregators._mixture_likelihoods import MPMLists

        return MPMLists(self, votes)

    def _solve(self, counts: NetCounts, groups: _AdherenceGroups) -> _ScoreEstimate:
        """Return the scores of every instance."""
        from concordant.aggregators import _mpm_fit

        amount = groups.share * np.repeat(groups.total, np.diff(groups.starts))
        solution = _scores(counts.offsets, groups.starts, amount, groups.level, groups.net)
        if self.optimizer == "gd":
            packed, level = _packed_by_adherence(counts, groups)
            _, ascent, norms, values = _mpm_fit.gradient_ascent(
                packed, level, self.max_iter, learning=False, report=_no_report
            )
            norms = np.where(solution.finite, norms, 0.0)
            score = np.where(np.repeat(solution.separated, np.diff(counts.offsets)), solution.score, ascent)
            solution = solution._replace(score=score, norms=norms, values=values, steps=self.max_iter)
        return self._solve_variances(counts, groups, solution) if self.variances else solution

    def _solve_variances(self, counts: NetCounts, groups: _AdherenceGroups, equal: _ScoreEstimate) -> _ScoreEstimate:
        """Estimate scores and variances, starting from the scores with equal variances."""
        from concordant.aggregators import _mpm_variances

        edges, sizes = counts.offsets.tolist(), np.diff(counts.offsets).tolist()
        largest = max((m for m, found in zip(sizes, equal.finite.tolist(), strict=True) if found), default=0)
        if largest > MOST_WITH_ALL_PAIRS and self.variances != "force":
            n = sizes.index(largest)
            force, without = Setting("variances", "force"), Setting("variances", False)
            raise DataError(
                f"variances need a table of all pairs: {largest:,} items of instance {counts.votes.instances[n]!r} "
                f"take {8e-9 * largest**2:,.1f} GB. Pass {force} to compute it anyway, or {without}."
            ).advising(force, without)

        def work(n: int) -> Variances | None:
            if not equal.finite[n]:
                return None
            own_groups = slice(groups.starts[n], groups.starts[n + 1])
            share, level = groups.share[own_groups], groups.level[own_groups]
            table = counts.table(n, groups.theta / groups.total[n])
            if self.optimizer == "gd":
                return _mpm_variances.gradient_ascent(table, share, level, self.max_iter)
            # With variances 1 instead of ½, scores are twice as large.
            start = 2.0 * equal.score[edges[n] : edges[n + 1]]
            return _mpm_variances.solve_variances(
                table,
                share,
                level,
                start,
                np.zeros(len(start)),
                prior=_mpm_variances.Prior(_mpm_variances.VARIANCE_RIDGE),
                tol=self.tol,
                max_iter=self.max_iter,
            )

        results = map_instances(work, len(sizes))
        score, beta = equal.score.copy(), np.full(len(equal.score), np.nan)
        norms, values, steps = np.zeros(len(sizes)), np.zeros(len(sizes)), equal.steps
        for n, result in enumerate(results):
            if result is not None:
                own = slice(edges[n], edges[n + 1])
                score[own], beta[own] = result.score, result.beta
                norms[n], values[n], steps = result.norm, result.objective, max(steps, result.n_iter)
        return equal._replace(score=score, beta=beta, norms=norms, values=values, steps=steps)

    def _warn_undetermined(self, counts: NetCounts, groups: _AdherenceGroups, solution: _ScoreEstimate) -> None:
        """Warn of instances without preferences, with separated or disconnected data, or without convergence."""
        votes, total = counts.votes, len(solution.finite)
        empty = np.flatnonzero(solution.empty & (np.diff(counts.offsets) > 0))
        if len(empty):
            self._warn(
                f"nobody prefers any of {some_items(votes.slots, empty)} to another: they score 0 and get no interval.",
                IdentifiabilityWarning,
            )
        separated = np.flatnonzero(solution.separated)
        if len(separated):
            n = int(separated[0])
            name, items = _items(votes, n)
            sign = np.sign(groups.net[counts.offsets[n] : counts.offsets[n + 1]])
            won = [i for i, s in zip(items, sign, strict=True) if s > 0]
            lost = [i for i, s in zip(items, sign, strict=True) if s < 0]
            self._warn(
                f"no finite estimate in {len(separated)} of {total} instances: every item only wins or only loses. "
                f"Their scores are net counts, which have the same order, without intervals. First: instance {name!r}, "
                f"{listing(won)} over {listing(lost)}. Add preferences, or use a model with a prior, such as "
                "BradleyTerry.",
                IdentifiabilityWarning,
            )
        self._warn_disconnected(counts)
        slow = np.flatnonzero(solution.norms > self.tol)
        if len(slow) and self.optimizer == "auto":
            worst = int(slow[np.argmax(solution.norms[slow])])
            self._warn(
                f"the scores of {len(slow)} of {total} instances have not converged after {solution.steps} steps; the "
                f"gradient of instance {votes.instances[worst]!r} is {solution.norms[worst]:.2g}, tol {self.tol:g}. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _warn_disconnected(self, counts: NetCounts) -> None:
        """Warn of groups of items that no preference connects."""
        one, other = counts.linked_slots()
        slots = counts.votes.slots
        parted = disconnected_instances(one, other, slots)
        if len(parted):
            why = explain_disconnected(one, other, slots, int(parted[0]))
            self._warn(
                f"{why}{others_alike(len(parted))}: what places them is the number of preferences each item wins.",
                IdentifiabilityWarning,
            )

    def _with_intervals(self, counts: NetCounts, groups: _AdherenceGroups, solution: _ScoreEstimate) -> Consensus:
        """Return the consensus, with intervals where they are requested and possible."""
        votes, sizes = counts.votes, np.diff(counts.offsets)
        gauge = "the scores of an instance have mean 0"
        if self.variances:
            gauge += ", its log variances too"
        kind = self._interval_kind(counts.named)
        if kind is None:
            return Consensus.from_codes(votes.slots, solution.score, gauge=gauge)
        if self.__dict__.get("adherence_used_") == "learned":
            warn_few_instances(self.training_instances_, self._warn)
        clustered = counts.named and kind != "information"
        clusters = counts.per_instance(np.where(groups.theta > 0, counts.weight, 0.0))
        few = solution.finite & (clusters < 2) if clustered else np.zeros(len(sizes), dtype=np.bool_)
        many = solution.finite & (sizes > MOST_WITH_ALL_PAIRS) & (self.uncertainty == "auto")
        self._warn_missing_intervals(votes, few, many)
        errors = _ScoreErrors(counts, groups, solution, kind, self.n_bootstrap, self.random_state)
        wanted = (solution.finite & ~few & ~many).tolist()
        arguments = each_instance(lambda n: errors(n) if wanted[n] else None, sizes.tolist())
        covariances = batched(moderated if clustered else ScoreCovariance.of, arguments)
        n_informative = np.zeros(len(solution.score), dtype=np.bool_)
        for side in counts.linked_slots():
            n_informative[side] = True
        return with_intervals(
            votes.slots,
            solution.score,
            covariances,
            level=self.level,
            rank_ranges=self.rank_ranges,
            gauge=gauge,
            method=self._interval_method(kind, counts.named),
            known=n_informative,
            warn=self._warn,
        )

    def _contributions(self, preferences: Votes) -> Contributions | None:
        nameless = isinstance(preferences, Comparisons) and preferences.expert is None
        if self.variances or self.optimizer == "gd" or nameless:
            return None
        counts = net_counts(preferences, self.transform, False)
        groups = _AdherenceGroups.of(counts, self._theta(counts))
        solution = self._solve(counts, groups)
        slope = _evidence_slopes(counts, groups, solution)
        lists = np.repeat(np.arange(len(counts.expert)), np.diff(counts.list_offsets))
        parts = np.zeros((len(solution.score), preferences.n_experts))
        np.add.at(parts, (counts.slot, counts.expert[lists]), slope[counts.slot] * groups.theta[lists] * counts.net)
        return preferences.experts.tolist(), parts, solution.score - parts.sum(axis=1)

    def _model_report(self) -> ModelReport:
        blocks, info = [score_estimates(self.consensus_)], self.fit_info_
        notes = ["Observations are draws from all ordered pairs of an instance: not comparable with Bradley-Terry"]
        learned = self.adherence_used_ != "none"
        if "adherence_" in self.__dict__:
            unknown = np.full(len(self.adherence_), np.nan)
            blocks.append(Estimates("adherence", self.experts_, self.adherence_, unknown))
            notes.append("The adherence of experts has no standard errors; those of the scores take it as known")
            notes.append("Degrees of freedom: those of the scores; adherence not counted")
        why = ""
        if self.variances:
            why = "The variances have a prior, and no standard errors: see variance_."
        elif learned:
            why = "The adherence is not estimated by the likelihood of all preferences. Fit with adherence='none'."
        elif self.optimizer == "gd":
            why = "optimizer='gd' stops before the maximum."
        elif info.log_likelihood is None:
            why = "Some instances have no finite estimate, or the data are in blocks."
        elif info.n_lists is not None:
            why = "The preferences of a list are not independent."
        return ModelReport(blocks, why, "preference", notes)

    def _interval_kind(self, named: bool) -> str | None:
        """Return the kind of intervals, None for none."""
        if self.uncertainty == "none":
            return None
        if self.uncertainty == "sandwich" and not named:
            raise DataError(
                "a sandwich needs experts to cluster by, and these comparisons name none. Use uncertainty="
                "'information' or 'bootstrap'."
            )
        return self.uncertainty if self.uncertainty != "auto" else "sandwich" if named else "information"

    def _interval_method(self, kind: str, named: bool) -> str:
        names = {
            "information": "observed information",
            "sandwich": "sandwich, clustered by expert",
            "bootstrap": "bootstrap over experts" if named else "bootstrap over outcomes",
        }
        fixed = named and self.__dict__.get("adherence_used_", self.adherence) != "none"
        return names[kind] + (", adherence held fixed" if fixed else "")

    def _warn_missing_intervals(self, votes: Votes, few: Bools, many: Bools) -> None:
        if few.any():
            self._warn(
                f"no intervals for {some_items(votes.slots, np.flatnonzero(few))}: fewer than two experts are heard "
                "there, and one alone does not show how far experts differ.",
                UncertaintyWarning,
            )
        if many.any():
            m = int(np.diff(votes.slots.offsets)[many].max())
            sandwich = Setting("uncertainty", "sandwich")
            self._warn(
                f"no intervals for instances of more than {MOST_WITH_ALL_PAIRS:,} items: {m:,} need "
                f"{8e-9 * m**2:,.1f} GB for each of several tables. Pass {sandwich}, 'information' or 'bootstrap' to "
                "get them.",
                UncertaintyWarning,
                sandwich,
            )


def label_agreement(votes: Votes, label: Floats) -> tuple[Floats, Ints]:
    """Return the agreement of every expert with the labels of the slots, and the number of instances it comes from.

    In an instance, it is the share of the pairs ordered as their labels, among all pairs with different labels that the
    expert orders; over instances, the mean weighted by lists. NaN labels are not used; an expert without such pairs has
    NaN.
    """
    if isinstance(votes, Preferences):
        expert, weight = votes.list_expert.astype(np.int64), votes.weights
        rows = np.flatnonzero(~np.isnan(label[votes.slot]))
        offsets = offsets_of(np.bincount(votes.row_list[rows], minlength=votes.n_lists))
        alike, against = order_agreement(-votes.strengths()[rows], label[votes.slot[rows]], offsets)
    else:
        codes = votes.row_expert
        key = votes.slots.instance[votes.left].astype(np.int64) * votes.n_experts + codes
        lists, which = np.unique(key, return_inverse=True)
        expert, weight = lists % max(votes.n_experts, 1), np.ones(len(lists))
        gap = label[votes.left] - label[votes.right]
        right = np.where(gap > 0, votes.n_left, np.where(gap < 0, votes.n_right, 0.0))
        wrong = np.where(gap < 0, votes.n_left, np.where(gap > 0, votes.n_right, 0.0))
        alike, against = (np.bincount(which, weights=w, minlength=len(lists)) for w in (right, wrong))
    decided = (alike + against > 0) & (weight > 0)
    share = alike[decided] / (alike[decided] + against[decided])
    n, k = len(share), votes.n_experts
    edges, most = np.array([0, n], dtype=np.int64), np.array([n])
    total, amount = (exact_sums(x, expert[decided], k, edges, most) for x in (weight[decided] * share, weight[decided]))
    n_instances = np.bincount(expert[decided], minlength=k).astype(np.int64)
    return np.divide(total, amount, out=np.full(k, np.nan), where=n_instances > 0), n_instances


def _items(votes: Votes, n: int) -> tuple[str, list[str]]:
    """Return the name and the items of an instance."""
    first, last = int(votes.slots.offsets[n]), int(votes.slots.offsets[n + 1])
    return votes.instances[n], votes.items[first:last].tolist()


def _no_report(done: int, total: int) -> None:
    """Report no progress: the instance is one of many."""


def _packed_by_adherence(counts: NetCounts, groups: _AdherenceGroups) -> tuple[PackedCounts, Floats]:
    """Return the packed counts and the adherence of each list; one list per instance where all adherences are 1."""
    from concordant.kernels.mpm import PackedCounts

    if (groups.level == 1.0).all():
        sizes = np.diff(counts.offsets)
        scale = ratio(1.0, groups.total, 0.0)
        one = np.arange(len(sizes) + 1, dtype=np.int64)
        slot = np.arange(len(groups.net), dtype=np.int32)
        net = groups.net * np.repeat(scale, sizes)
        share = (groups.total > 0).astype(np.float64)
        expert = np.zeros(len(sizes), np.int64)
        offsets, one, slot = read_only(counts.offsets, one, slot)
        packed = PackedCounts(offsets, one, offsets, expert, share, slot, net, np.ones(len(sizes)))
        return packed, np.ones(1)
    trusted = counts._replace(total=np.where(groups.theta > 0, counts.total, 0.0))
    return trusted.packed()._replace(expert=np.arange(len(groups.theta), dtype=np.int64)), groups.theta


def _scores(offsets: Ints, starts: Ints, amount: Floats, level: Floats, net: Floats) -> _ScoreEstimate:
    """Return the scores given net counts Σ α c and the preferences in groups of equal adherence α = `level`."""
    from concordant.kernels import mpm

    offsets, starts = read_only(offsets, starts)
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), np.diff(starts))
    total, weight, square = (
        np.bincount(owner, weights=amount * level**power, minlength=len(sizes)).astype(np.float64)
        for power in (0, 1, 2)
    )
    score, root = np.zeros(len(net)), np.zeros(len(sizes))
    # With one α the base model gives α s; with several, its answer for their mean is the start.
    mpm.net_scores(net, weight, offsets, score, root)
    empty, separated = (weight <= 0) | (sizes < 2), np.isinf(root)
    finite = ~empty & ~separated
    score /= np.repeat(np.divide(square, weight, out=np.ones(len(sizes)), where=finite), sizes)
    scale = ratio(1.0, total, 0.0)
    norms, values = np.zeros(len(sizes)), np.zeros(len(sizes))
    steps = mpm.solve_scores(
        offsets,
        starts,
        amount * scale[owner],
        level,
        net * np.repeat(scale, sizes),
        0.0,
        finite,
        score,
        norms,
        values,
    )
    return _ScoreEstimate(score, finite, empty, separated, norms, values, 1 + steps)


class _ScoreErrors:
    """Covariance of the scores of an instance: information, sandwich over experts, or bootstrap."""

    def __init__(
        self,
        counts: NetCounts,
        groups: _AdherenceGroups,
        solution: _ScoreEstimate,
        kind: str,
        repeats: int,
        random_state: int,
    ) -> None:
        self.counts = counts
        self.groups = groups
        self.solution = solution
        self.kind = kind
        self.repeats = repeats
        self.random_state = random_state

    def __call__(self, n: int) -> dict[str, Any] | None:
        """Return the arguments of `moderated` for an instance; None where there is no covariance."""
        c = self.counts
        own = slice(int(c.offsets[n]), int(c.offsets[n + 1]))
        lists = np.arange(c.list_starts[n], c.list_starts[n + 1])
        lists = lists[self.groups.theta[lists] > 0]
        m, parts = (
            own.stop - own.start,
            self._with_equal_variances if self.solution.beta is None else self._with_variances,
        )
        repeated = self._bootstrap_covariance(n, own, lists) if self.kind == "bootstrap" else None
        if self.kind == "bootstrap" and repeated is None:
            return None
        if self.kind == "information" or not c.named:
            if repeated is None:
                repeated = regauge(parts(n, own, lists[:0])[0][:m, :m], None)
            return {"known": repeated}
        inverse, diagonal, gradients = parts(n, own, lists)
        weight = c.weight[lists]
        # The information of an expert grows with its preferences and its adherence.
        amount = self.groups.theta[lists] ** 2 * c.total[lists] / weight
        whole = float(weight @ amount)
        clusters = Clusters(
            (gradients * weight[:, None]).T @ gradients,
            diagonal,
            diagonal**2 * float(weight @ amount**2) / whole**2,
            float(weight.sum()),
            weight @ gradients[:, :m],
        )
        if repeated is None:
            half = inverse @ clusters.meat
            repeated = regauge((half @ inverse.T)[:m, :m], None)
        n_informative = np.zeros((2, m))
        starts, ends = c.list_offsets[lists], c.list_offsets[lists + 1]
        at = c.slot[ranges(starts, ends)] - own.start
        for power, row in enumerate(n_informative, start=1):
            row += np.bincount(at, np.repeat(weight * amount**power, ends - starts), m)
        effective = n_informative[0] ** 2 / np.maximum(n_informative[1], 1e-300)
        known = regauge(inverse[:m, :m], None)
        return {"known": known, "sandwich": repeated, "clusters": clusters, "effective": effective}

    def _with_equal_variances(self, n: int, own: slice, lists: Ints) -> tuple[Floats, Floats, Floats]:
        """Return the inverse information, the information of each score, and the gradients of the lists."""
        from concordant.kernels.mpm import pair_distributions

        c, groups = self.counts, self.groups
        own_groups = slice(int(groups.starts[n]), int(groups.starts[n + 1]))
        level = groups.level[own_groups]
        expected = pair_distributions(self.solution.score[own], level)
        curvature = groups.total[n] * groups.share[own_groups] * level**2
        inverse = expected.solve(curvature, np.eye(own.stop - own.start))
        theta, weight = groups.theta[lists], c.weight[lists]
        gradients = c.dense(lists, own) * theta[:, None]
        gradients -= expected.rho[np.searchsorted(level, theta)] * (theta * c.total[lists] / weight)[:, None]
        return inverse, curvature @ (expected.both - 2 * expected.up * expected.down - expected.rho**2), gradients

    def _with_variances(self, n: int, own: slice, lists: Ints) -> tuple[Floats, Floats, Floats]:
        """Return the same where variances are estimated; the parameters are scores, then log variances."""
        from concordant.aggregators._mpm_variances import VARIANCE_RIDGE, Prior
        from concordant.kernels.mpm import solve_semidefinite
        from concordant.kernels.mpm_variance import pair_hessian

        c, groups = self.counts, self.groups
        own_groups = slice(int(groups.starts[n]), int(groups.starts[n + 1]))
        level, total, m = groups.level[own_groups], groups.total[n], own.stop - own.start
        score, beta = self.solution.score[own], self.solution.beta[own]  # type: ignore[index]
        table = c.table(n, groups.theta / total)
        mean, hessian = np.empty((len(level), 2 * m)), np.empty((2 * m, 2 * m))
        pair_hessian(table, groups.share[own_groups], level, score, beta, mean, hessian)
        diagonal = np.maximum(np.diag(hessian)[:m], 0.0) * total
        Prior(VARIANCE_RIDGE).add_curvature(np.concatenate([score, beta]), hessian)
        hessian *= total
        theta, weight = groups.theta[lists], c.weight[lists]
        gradients = c.list_gradients(n, lists, score, np.exp(beta)) * theta[:, None]
        gradients -= mean[np.searchsorted(level, theta)] * (theta * c.total[lists] / weight)[:, None]
        return solve_semidefinite(hessian, np.eye(2 * m)), diagonal, gradients

    def _bootstrap_covariance(self, n: int, own: slice, lists: Ints) -> Floats | None:
        """Return the covariance of the scores over bootstrap samples of experts, or of outcomes."""
        c, groups, b = self.counts, self.groups, self.repeats
        m = own.stop - own.start
        rng = instance_stream(self.random_state, c.votes.instances[n])
        level = groups.level[groups.starts[n] : groups.starts[n + 1]]
        if c.named:
            weight, theta = c.weight[lists], groups.theta[lists]
            times = np.array([bayesian_bootstrap_weights(weight, rng) for _ in range(b)])
            net = times @ (c.dense(lists, own) * theta[:, None])
            # Preferences by group of equal adherence.
            group = np.zeros((len(lists), len(level)))
            group[np.arange(len(lists)), np.searchsorted(level, theta)] = c.total[lists] / weight
            amount = times @ group
            tables = (self._table(n, lists, row / weight) for row in times)
        else:
            table = c.table(n, groups.theta)
            drawn = [bayesian_bootstrap_weights(table, rng) for _ in range(b)]
            net = np.array([one.sum(axis=1) - one.sum(axis=0) for one in drawn], dtype=np.float64)
            amount = np.array([[one.sum()] for one in drawn])
            tables = (one for one in drawn)
        offsets, starts = np.arange(b + 1) * m, np.arange(b + 1) * len(level)
        again = _scores(offsets, starts, amount.ravel(), np.tile(level, b), net.ravel())
        score = again.score.reshape(b, m)
        if self.solution.beta is not None:
            score = self._bootstrap_with_variances(own, level, amount, tables, again.finite)
        # Samples with separated data have no estimate.
        kept = score[again.finite]
        return None if len(kept) <= b // 2 else sample_covariance(kept)

    def _table(self, n: int, lists: Ints, times: Floats) -> Floats:
        """Return the preference table of the lists, weighted by `times` and their adherence."""
        of_list = np.zeros(len(self.counts.total))
        of_list[lists] = times * self.groups.theta[lists]
        return self.counts.table(n, of_list)

    def _bootstrap_with_variances(
        self, own: slice, level: Floats, amount: Floats, tables: Iterator[Floats], found: Bools
    ) -> Floats:
        """Return the scores, one row for each table, estimated together with variances."""
        from concordant.aggregators._mpm_variances import VARIANCE_RIDGE, Prior, solve_variances

        score, beta = self.solution.score[own], self.solution.beta[own]  # type: ignore[index]
        out = np.tile(score, (len(found), 1))
        for row, table in enumerate(tables):
            if found[row]:
                total = float(amount[row].sum())
                out[row] = solve_variances(
                    table / total,
                    amount[row] / total,
                    level,
                    score,
                    beta,
                    prior=Prior(VARIANCE_RIDGE),
                    tol=1e-6,
                    max_iter=100,
                ).score
        return out


def _evidence_slopes(counts: NetCounts, groups: _AdherenceGroups, solution: _ScoreEstimate) -> Floats:
    """Return (s_i − z) / d_i of every slot, d_i = Σ_e α_e c_ei, where an item with d = 0 would have the score z.

    The estimate with equal variances has d_i = T Σ_g w_g α_g [exp(α_g s_i) B_g − exp(−α_g s_i) A_g] / Z_g for groups g
    of lists with share w_g of all T preferences, A_g = Σ exp(α_g s), B_g = Σ exp(−α_g s) and Z_g = A_g B_g − M. The
    right side is one increasing function of s_i for all items of an instance.
    """
    from scipy.optimize import brentq
    from scipy.special import logsumexp

    slope = np.where(np.repeat(solution.separated, np.diff(counts.offsets)), 1.0, 0.0)
    for n in np.flatnonzero(solution.finite & (groups.total > 0)).tolist():
        own, group = slice(*counts.offsets[n : n + 2]), slice(*groups.starts[n : n + 2])
        s, net, weight, alpha = solution.score[own], groups.net[own], groups.share[group], groups.level[group]
        log_a, log_b = logsumexp(np.outer(alpha, s), axis=1), logsumexp(np.outer(-alpha, s), axis=1)
        fewer = np.log1p(-len(s) * np.exp(-log_a - log_b))

        def winning(x: float, a: Floats = alpha, shift: Floats = log_a + fewer, w: Floats = weight) -> Any:
            return w * a * np.exp(a * x - shift)

        def losing(x: float, a: Floats = alpha, shift: Floats = log_b + fewer, w: Floats = weight) -> Any:
            return w * a * np.exp(-a * x - shift)

        zero = brentq(lambda x, f=winning, g=losing: float((f(x) - g(x)).sum()), s.min() - 1.0, s.max() + 1.0)
        flat = float(groups.total[n] * (alpha * (winning(zero) + losing(zero))).sum())
        clear = np.abs(net) > _CLEAR_EVIDENCE * groups.total[n]
        slope[own] = np.divide(s - zero, net, out=np.full(len(s), 1.0 / flat), where=clear)
    return slope

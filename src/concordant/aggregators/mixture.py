"""Finite mixture of ranking models, fitted by EM: camps (clusters) of experts, each with its own consensus.

Each expert belongs to one camp. Within a camp the experts follow one ranking model, such as Plackett-Luce or Mallows.
The number of camps is chosen by the likelihood of held-out experts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from concordant.aggregators.fusion import LISTS
from concordant.arrays import Floats
from concordant.base.contract import Aggregator, FitInfo, Tags, Votes
from concordant.base.params import Constraint, Within, check_params, integer, method, number, one_of, seed
from concordant.base.registry import METHODS, create, register_method
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.errors import (
    ConcordantWarning,
    ConvergenceWarning,
    DataError,
    DataWarning,
    IdentifiabilityWarning,
    KindError,
    NotFittedError,
    ParameterError,
    listing,
)
from concordant.execution import report_progress
from concordant.inference.experts import check_known
from concordant.kernels.lists import exact_sums
from concordant.learning.checkpoints import warn_of_no_checkpoint, without_checkpoint

if TYPE_CHECKING:
    import polars as pl

    from concordant.data.explanation import Contributions
    from concordant.data.features import Features
    from concordant.data.labels import Labels

__all__ = ["Mixture"]

# Memberships below this count as 0.
_LEAST_MEMBERSHIP = 1e-6
_TAGS = Tags(accepts=LISTS, stochastic=True, cost="that of the model for each component, start and step of EM")


class _TagsOfModel:
    """The tags of a mixture: it accepts the data of its model; of the class, those of the default model."""

    def __get__(self, mixture: Mixture | None, _: type[Mixture]) -> Tags:
        of: Any = None if mixture is None else mixture.__dict__.get("of")
        if isinstance(of, str) and of in METHODS:
            of = METHODS[of]
        return _TAGS._replace(accepts=of.tags.accepts) if hasattr(of, "tags") else _TAGS


@register_method
class Mixture(Aggregator):
    """Finite mixture: the mean over the experts of the scores of their camps, with camps and scores fitted by EM.

    The model is a finite mixture: expert e belongs to camp c with probability ω_c, and all lists of e come from the
    model of that camp: a Plackett-Luce, Bradley-Terry, multinomial preference or Mallows model with its own scores in
    every instance. EM maximises Σ_e log Σ_c ω_c exp(ℓ_ec), ℓ_ec the log-likelihood of the lists of e in camp c.

    Estimand: the shares of the camps, the probabilities that an expert belongs to each, and the scores that `of`
    estimates from the members of each camp.

    The score of an item is the mean, over the experts who ranked anything in the instance, of its scores in their camps
    (weighted by memberships). With one camp it is the consensus of `of` itself, with its intervals. If camps
    contradict each other, no single ranking represents both: read `camps_`.

    Parameters
    ----------
    of : method or name
        The model of a camp: PlackettLuce, BradleyTerry, MPM or Mallows, or a name. Settings such as `prior=0`,
        reliability, adherence, side effects or covariates do not work in a mixture; an error names them.
    components : "auto" or int
        The number of camps. "auto": the smallest number whose held-out log-likelihood is at most two standard errors
        below that of the best number, or at most 1 below it over all experts. Then every camp has at least five
        experts, and fewer than ten experts form one camp.
    max_components : int
        The largest number of camps that "auto" tries.
    folds : int
        The number of folds of experts in "auto".
    n_starts : int
        The number of clusterings of the experts from which EM starts; it continues from the best. A fold of "auto" uses
        a third of them.
    max_iter : int
        The largest number of EM steps.
    tol : float
        Converged when a step gains less than this in log-likelihood per expert.
    unknown_experts : {"error", "ignore"}
        What `predict` does about experts whose camp was not learned.
    random_state : int
        The seed of the starts and of the folds.

    Attributes
    ----------
    n_components_, shares_ : int, float64[C]
        The number of camps, and the share of the experts in each, largest first.
    memberships_ : frame
        The most probable camp of each expert (numbered from 1), its probability, and the probabilities of all camps.
    camps_ : list of Consensus
        The consensus of each camp of the training data. `camps(preferences)` gives those of other preferences.
    models_ : list of methods
        The fitted model of each camp, with `fit_info_`, predictions and summaries.
    experts_, responsibilities_ : list of str, float64[K, C]
        The experts, and the probabilities of `memberships_` as a table.
    selection_ : dict
        Lists with one entry for each number of camps tried: "components", "held_out" (the mean held-out log-likelihood
        of an expert), "lead" (that of the best number minus this one) and "stderr" (its standard error). Empty if the
        number was given or there are too few experts.

    Notes
    -----
    A list of weight 3 stands for three equal experts. If the lists of an expert have different weights, their mean is
    the number of equal experts, and each list counts in proportion to its weight.

    It accepts the data that `of` accepts; with Bradley-Terry and MPM also comparisons, if these name experts.

    Bradley-Terry and the multinomial preference model treat the pairs of a list as independent. In fact the m (m − 1) /
    2 pairs of a list of m items carry the information of some 3 m / 2 independent ones, so memberships and held-out
    likelihoods would be overconfident and split a homogeneous crowd into camps. Therefore ℓ_ec is divided by the design
    effect of the lists, Σ_L Σ_i c_Li² / Σ_L 2 T_L for net counts c and T preferences, which is (m + 1) / 3 for complete
    lists as pairs and m² / 4 as differences of ranks. Observed comparisons count in full.

    With "auto", a ballot of weight w is spread over the folds like w experts. The numbers 1, 2, ... are tried until two
    in a row do not improve on the best so far. A number is rejected if one of its camps has fewer than five experts in
    the fit to all, because a few odd experts may raise the likelihood but are no camp. Mallows has one dispersion for
    all items: it may split a crowd that agrees on some items and not on others into two camps, where Plackett-Luce
    finds one.

    EM uses the priors of the model. For MPM one preference in a thousand is spread over all pairs; for Mallows every
    camp has one additional list at the mean distance from the centre. Without a prior the likelihood of a camp of one
    expert could be unbounded. During EM the tie parameter is fixed at its estimate from all experts, and a centre of
    Mallows is improved by moving single items. At the end `of` is fitted to every camp, with the memberships as
    weights. Its intervals take the memberships as known.

    `fit` writes no checkpoints and needs preferences in memory. If `of` explains its scores, the mixture does too.
    Cost: that of a few Newton steps of the model for each component and step of EM, and with "auto" for all starts,
    folds and numbers tried.

    References
    ----------
    McLachlan and Peel, Finite mixture models, 2000. Murphy and Martin, Mixtures of distance-based models for ranking
    data, Computational Statistics and Data Analysis 2003. Gormley and Murphy, Exploring voting blocs within the Irish
    electorate: a mixture modeling approach, JASA 2008. Volkovs and Zemel, New learning methods for supervised and
    unsupervised preference aggregation, JMLR 2014, which names mixtures of MPM as the next step. Varin, Reid and Firth,
    An overview of composite likelihood methods, Statistica Sinica 2011.

    Examples
    --------
    >>> import concordant as cc
    >>> sweet, salty = ["cake", "ice", "jam", "nuts", "crisps"], ["crisps", "nuts", "jam", "cake", "ice"]
    >>> votes = cc.from_lists({f"s{n}": sweet for n in range(8)} | {f"t{n}": salty for n in range(6)})
    >>> mixture = cc.Mixture(of=cc.PlackettLuce(uncertainty="none"))
    >>> consensus = mixture.fit_predict(votes)
    >>> mixture.n_components_, mixture.shares_.round(2).tolist()
    (2, [0.57, 0.43])
    >>> [camp.ranking()[0] for camp in mixture.camps_]
    ['cake', 'crisps']
    >>> mixture.memberships_.filter(expert="t3").rows()
    [('t3', 2, 1.0, 0.0, 1.0)]
    """

    name = "mixture"
    made_of = "of"
    tags: ClassVar[Tags] = _TagsOfModel()  # type: ignore[assignment]
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "of": method("a method with a likelihood or its name, such as PlackettLuce() or 'mallows'"),
        "components": Constraint(
            '"auto" or a whole number >= 1', lambda v: v == "auto" if isinstance(v, str) else integer(least=1).test(v)
        ),
        "max_components": integer(least=1),
        "folds": integer(least=2),
        "n_starts": integer(least=1),
        "max_iter": integer(least=1),
        "tol": number(above=0),
        "unknown_experts": one_of("error", "ignore"),
        "random_state": seed(),
    }
    _writes_checkpoints = False

    n_components_: Annotated[int, Within(least=1)]
    shares_: Annotated[Floats, Within(0, 1)]
    responsibilities_: Annotated[Floats, Within(0, 1)]
    models_: list[Any]
    selection_: Annotated[dict[str, list[float]], Within()]

    _camp_boards: list[Consensus] | None = None

    def __init__(
        self,
        *,
        of: str | Aggregator = "plackett-luce",
        components: str | int = "auto",
        max_components: int = 6,
        folds: int = 5,
        n_starts: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-6,
        unknown_experts: str = "error",
        random_state: int = 0,
    ) -> None:
        self.of = of
        self.components = components
        self.max_components = max_components
        self.folds = folds
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.unknown_experts = unknown_experts
        self.random_state = random_state

    def _check_state(self) -> None:
        """Raise if the attributes of a saved mixture are inconsistent."""
        state = self.__dict__
        parts = [n for n in ("n_components_", "shares_", "responsibilities_", "models_", "selection_") if n in state]
        if not parts:
            return
        if len(parts) < 5 or "experts_" not in state:
            raise DataError("a part of what Mixture learns is missing.")
        c, k = self.n_components_, len(self.experts_)
        if self.shares_.shape != (c,) or self.responsibilities_.shape != (k, c) or len(self.models_) != c:
            raise DataError("the shapes of shares, memberships and models do not match the camps and experts.")
        if not np.allclose(self.responsibilities_.sum(axis=1), 1.0) or not np.isclose(self.shares_.sum(), 1.0):
            raise DataError("shares or memberships do not sum to 1.")
        model = self._model()
        if any(type(m) is not type(model) or m.get_params() != model.get_params() for m in self.models_):
            raise DataError("a camp has another model than the mixture.")
        if any("fit_info_" not in m.__dict__ for m in self.models_):
            raise DataError("the model of a camp is not fitted.")
        if c > (self.components if isinstance(self.components, int) else self.max_components):
            raise DataError("there are more camps than components.")
        tried = self.selection_
        columns = list(tried.values())
        numbers = all(isinstance(column, list) and all(type(v) is float for v in column) for column in columns)
        if tried and not (
            self.components == "auto"
            and numbers
            and len({len(column) for column in columns}) == 1
            and c in tried.get("components", ())
        ):
            raise DataError("selection_ does not match the number of camps.")

    def _check_kind(self, kind: str) -> None:
        owner = type(self).__name__
        check_params(owner, self.__dict__, self.constraints)
        model = self._model()
        if type(model)._list_likelihood is Aggregator._list_likelihood:
            usable = [n for n in METHODS if METHODS[n]._list_likelihood is not Aggregator._list_likelihood]
            raise ParameterError(
                f"{owner} needs a model with a likelihood for every expert, and {type(model).__name__} has none. Use "
                f"of= one of {', '.join(usable)}."
            )
        if kind not in model.tags.accepts:
            others = [n for n in METHODS if kind in METHODS[n].tags.accepts]
            raise KindError.unaccepted(f"{owner}(of={model!r})", kind, model.tags.accepts, others)
        model._check_kind(kind)

    def _model(self) -> Aggregator:
        """Return a new model of a camp."""
        chosen = create(self.of)
        return type(chosen)(**chosen.get_params())

    def _blocks_obstacle(self) -> str:
        return "Mixture learns from preferences in memory, because a camp is a group of experts over all instances."

    def check_summary(self) -> None:
        """Raise KindError: summaries are those of the camps."""
        raise KindError("a mixture has no summary. Call that of the model of each camp: mixture.models_[0].summary().")

    # Fit.

    def _fit(
        self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None
    ) -> list[Consensus]:
        votes: Votes = preferences
        if isinstance(votes, Comparisons) and votes.expert is None:
            raise DataError(
                "a mixture needs experts, and these comparisons name no experts. Read them with the column of experts."
            )
        warn_of_no_checkpoint(self, "memberships and the models of all camps are fitted together")
        self._camp_boards = None
        with without_checkpoint():
            return self._fit_camps(votes)

    def _fit_camps(self, votes: Votes) -> list[Consensus]:
        """Choose the number of camps where it is not given, and estimate them; return the consensus of each."""
        from concordant.aggregators import _mixture_fit

        self.experts_ = votes.experts.tolist()
        self.selection_ = {}
        info = self.fit_info_
        model = self._model()
        n = self.components
        if n != 1:
            with warnings.catch_warnings():
                # The final fits of the camps give the warnings.
                warnings.simplefilter("ignore", ConcordantWarning)
                lists = _mixture_fit.ExpertLikelihoods(model._list_likelihood(votes), votes.n_experts)
            x = _mixture_fit.positions(votes)
            options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "random_state": self.random_state}
            options["n_starts"] = self.n_starts
        solution: _mixture_fit.MixtureEstimate | None = None
        if n == "auto":
            choice, solution = _mixture_fit.choose_components(
                lists, x, max_components=self.max_components, folds=self.folds, report=report_progress, **options
            )
            if choice.score:
                columns = (list(map(float, choice.components)), choice.score, choice.lead, choice.stderr)
                self.selection_ = dict(zip(("components", "held_out", "lead", "stderr"), columns, strict=True))
            n = choice.chosen
        elif n != 1:
            n = self._limited_to_experts(int(n), int((lists.multiplicity > 0).sum()))
        info.chosen = {"components": n}
        if n == 1:
            return self._fit_one(model, votes)
        if solution is None:
            solution = _mixture_fit.estimate(lists, x, lists.multiplicity, int(n), **options)
        info.n_iter, info.converged, info.trace = len(solution.trace), solution.converged, solution.trace
        info.objective, info.log_likelihood = solution.objective, solution.log_likelihood
        if not solution.converged:
            self._warn(
                f"EM did not converge in {self.max_iter} steps: the last one gained "
                f"{solution.trace[-1] - solution.trace[-2]:.2g}. The last estimate is kept. Raise max_iter, or tol.",
                ConvergenceWarning,
            )
        memberships = np.where(solution.responsibilities < _LEAST_MEMBERSHIP, 0.0, solution.responsibilities)
        memberships /= memberships.sum(axis=1, keepdims=True)
        # The largest camp comes first; of equal camps the one that fits its members best.
        fits = lists.multiplicity @ (memberships * lists.table(solution.parameters))
        order = np.lexsort((-np.round(fits, 6), -np.round(solution.shares, 9)))
        memberships = memberships[:, order]
        self.n_components_, self.shares_, self.responsibilities_ = len(order), solution.shares[order], memberships
        empty = np.flatnonzero((memberships[lists.multiplicity > 0] > 0.5).sum(axis=0) == 0) + 1
        if len(empty):
            self._warn(
                f"camps {listing(empty.tolist())} have no expert with a membership above one half, so fewer camps "
                "suffice. Use components='auto', or a smaller number.",
                IdentifiabilityWarning,
            )
        self.models_ = [self._model() for _ in order]
        self._camp_boards = self._each_camp(lambda c, member_votes: self.models_[c].fit_predict(member_votes), votes)
        return self._camp_boards

    def _limited_to_experts(self, n: int, n_experts: int) -> int:
        """Return the number of camps, limited to the number of experts with a list, with a warning."""
        if n <= n_experts:
            return n
        least = max(n_experts, 1)
        self._warn(
            f"{n_experts} experts cannot form {n} camps; {least} are fitted. Ask for fewer components.", DataWarning
        )
        return least

    def _fit_one(self, model: Aggregator, votes: Votes) -> list[Consensus]:
        """Fit the model to all experts, who are one camp."""
        self.n_components_, self.shares_ = 1, np.ones(1)
        self.responsibilities_ = np.ones((votes.n_experts, 1))
        self.models_ = [model]
        self._camp_boards = [model.fit_predict(votes)]
        kept = {n: getattr(self.fit_info_, n) for n in ("chosen", "missing")}
        kept["warnings"] = self.fit_info_.warnings + [
            w for w in model.fit_info_.warnings if w not in self.fit_info_.warnings
        ]
        self.fit_info_ = FitInfo(**model.fit_info_.to_dict() | kept)
        return self._camp_boards

    # Predict.

    def n_camps(self) -> int:
        """Return the number of camps that were found; 1 before the fit."""
        found: int = self.__dict__.get("n_components_", 1)
        return found

    def camps(self, preferences: Votes) -> list[Consensus]:
        """Return the consensus of each camp of preferences by experts whose camps are known.

        Examples
        --------
        >>> import concordant as cc
        >>> lists = {"x": list("abc"), "y": list("abc"), "z": list("cba"), "w": list("cba")}
        >>> mixture = cc.Mixture(of="mallows", components=2).fit(cc.from_lists(lists))
        >>> sorted(camp.ranking() for camp in mixture.camps(cc.from_lists({"x": list("pq"), "z": list("qp")})))
        [['p', 'q'], ['q', 'p']]
        """
        return self._predicted_camps(self._checked(preferences))

    @property
    def camps_(self) -> list[Consensus]:
        """The consensus of each camp of the training data."""
        if self._camp_boards is None or "models_" not in self.__dict__:
            raise NotFittedError(
                "this Mixture has no camps of training data: it is not fitted, or was loaded from a file, which does "
                "not hold them. Call camps(preferences)."
            )
        return self._camp_boards

    def _predicted_camps(self, votes: Votes) -> list[Consensus]:
        if "models_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        if self.n_components_ == 1:
            return [self.models_[0].predict(votes)]
        return self._each_camp(lambda c, own: self.models_[c].predict(own), votes)

    def _consensus(self, preferences: Any, known: list[Consensus] | None = None) -> Consensus:
        votes: Votes = preferences
        if "models_" in self.__dict__:
            check_known(votes, self.experts_, type(self).__name__, self.unknown_experts)
        boards = self._predicted_camps(votes) if known is None else known
        if len(boards) == 1:
            return boards[0]
        shares = self._instance_shares(votes)[:, votes.slots.instance]
        score = np.zeros(votes.n_slots)
        for share, board in zip(shares, boards, strict=True):
            score += share * board.score
        return Consensus.from_codes(votes.slots, score, gauge=boards[0].gauge, scale=boards[0].scale)

    def _memberships_of(self, votes: Votes) -> Floats:
        """Return the probabilities of the camps of the experts of some votes [K, C]; 0 for experts to be ignored."""
        row = {e: n for n, e in enumerate(self.experts_)}
        known = np.array([row.get(e, -1) for e in votes.experts], dtype=np.int64)
        padded = np.vstack([self.responsibilities_, np.zeros((1, self.n_components_))])
        out: Floats = padded[known]
        return out

    def _each_camp(self, work: Callable[[int, Any], Consensus], votes: Votes) -> list[Consensus]:
        """Return the consensus of every camp, of the votes of its members; warnings name the camp."""
        members, out = self._memberships_of(votes), []
        for c in range(self.n_components_):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConcordantWarning)
                out.append(work(c, _weight_by_membership(votes, members[:, c])))
            for one in caught:
                category = one.category if issubclass(one.category, ConcordantWarning) else ConcordantWarning
                self._warn(f"camp {c + 1}: {one.message}", category)
        return out

    def _instance_shares(self, votes: Votes) -> Floats:
        """Return the share of each camp in the lists of each instance [C, N]."""
        members, n = self._memberships_of(votes), len(votes)
        if isinstance(votes, Comparisons):
            weight, expert = votes.outcomes, votes.row_expert
            instance, starts = votes.slots.instance[votes.left], votes.row_starts
        else:
            weight, expert, instance, starts = votes.weights, votes.list_expert, votes.list_instance, votes.list_starts
        parts = weight[:, None] * members[expert]
        sums = np.stack([exact_sums(part, instance, n, starts, np.diff(starts)) for part in parts.T])
        total = sums.sum(axis=0)
        # In an instance without votes, camps count by their shares of the experts.
        return np.where(total > 0, sums / np.where(total > 0, total, 1.0), self.shares_[:, None])

    def _contributions(self, preferences: Any) -> Contributions | None:
        votes: Votes = preferences
        if self.n_components_ == 1:
            known: Contributions | None = self.models_[0]._contributions(votes)
            return known
        members = self._memberships_of(votes)
        shares = self._instance_shares(votes)[:, votes.slots.instance]
        names = list(dict.fromkeys(votes.experts.tolist()))
        parts, rest = np.zeros((votes.n_slots, len(names))), np.zeros(votes.n_slots)
        for c, model in enumerate(self.models_):
            found = model._contributions(_weight_by_membership(votes, members[:, c]))
            if found is None:
                return None
            own, part, base = found
            parts[:, [names.index(name) for name in own]] += shares[c][:, None] * part
            rest += shares[c] * base
        return names, parts, rest

    # Experts.

    def learned_experts(self) -> dict[str, list[Any]]:
        """Return the camp of each expert and its probability; empty with a single camp."""
        if self.__dict__.get("n_components_", 1) == 1:
            return {}
        camp = self.responsibilities_.argmax(axis=1)
        probability = self.responsibilities_.max(axis=1)
        return {"expert": list(self.experts_), "camp": (camp + 1).tolist(), "membership": probability.tolist()}

    @property
    def memberships_(self) -> pl.DataFrame:
        """The camp of every expert, the probability of it, and the probabilities of all camps, as a Polars frame."""
        if "responsibilities_" not in self.__dict__:
            raise NotFittedError.of(type(self).__name__)
        import polars as pl

        r = self.responsibilities_
        columns = {"expert": self.experts_, "camp": r.argmax(axis=1) + 1, "probability": r.max(axis=1)}
        return pl.DataFrame(columns | {f"camp {c + 1}": r[:, c] for c in range(r.shape[1])})


def _weight_by_membership(votes: Votes, members: Floats) -> Votes:
    """Return the votes weighted by membership; comparisons of experts with membership 0 are dropped."""
    if isinstance(votes, Comparisons):
        factor = members[votes.row_expert]
        return votes.multiply_counts(factor).select_rows(np.flatnonzero(factor > 0))
    return votes.with_list_weights(votes.weights * members[votes.list_expert])

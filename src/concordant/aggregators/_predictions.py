"""What fitted models predict: outcomes of pairs, rankings, first places, and how observed votes differ from that.

`ModelPredictions` is the base of the methods with a probability model of votes. A model writes two hooks: the law of a
pair, and the law of a ranking where it has one. Votes are matched to the estimated scores by instance and item, so that
votes that were not used for the fit can be compared with its predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Aggregator, Votes
from concordant.base.limits import check_limits
from concordant.base.params import INTERVALS, check_params, integer
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, NotFittedError, ParameterError, listing, quote
from concordant.inference.predictions import (
    OutcomeProbabilities,
    RankingLaw,
    deviance_residuals,
    wilson_interval,
)
from concordant.kernels.pairwise_wins import pairs_held

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ExpertFit", "ModelPredictions", "OutcomeRows", "PairLaw"]

PairLaw = tuple[Floats, Floats, Floats]

# Expected counts below this make the chi-squared distribution a poor approximation.
_SPARSE = 5.0


class OutcomeRows(NamedTuple):
    """Outcomes of pairs, matched to the slots of a consensus.

    Attributes
    ----------
    left, right : int64[R]
        Slots of the consensus.
    n_left, n_right, n_ties : float64[R]
        Wins of each side, and ties.
    expert : int32[R] or None
        The code of the expert in the votes.
    sided : bool
        Whether the left item was shown on the left.
    effect : float64[R] or None
        What the covariates of the votes add to the logit, in models that know them.
    """

    left: Ints
    right: Ints
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    expert: Codes | None
    sided: bool
    effect: Floats | None = None

    @property
    def n(self) -> Floats:
        """The number of outcomes of each row."""
        return self.n_left + self.n_right + self.n_ties


class ExpertFit(NamedTuple):
    """How well the votes of each expert (row) agree with the model.

    Attributes
    ----------
    n, log_likelihood : float64[K]
        The number of comparisons or choices, and their log-likelihood.
    gradient, variance : float64[K]
        The derivative of the log-likelihood in a factor of all scores, at 1, and its variance; NaN if it is not known.
    """

    n: Floats
    log_likelihood: Floats
    gradient: Floats
    variance: Floats


class ModelPredictions(Aggregator):
    """Base of methods with a probability model of votes.

    The predictions are those of the last `fit_predict` (`consensus_`), or of the consensus given as `consensus=`, such
    as that of `predict`. They take the estimates as known: how sure the order of two items is, is
    `Consensus.probability_better`.
    """

    # What a model writes.

    def _pair_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any) -> PairLaw:
        """Return the probabilities of win, tie and loss of slots `a` against `b`.

        `side` is 1 where a stands on the left, −1 on the right and 0 on neither; `expert` are numbers in `experts_`, or
        None for an expert of adherence 1.
        """
        raise TypeError(f"{type(self).__name__} must define _pair_law")

    def _effect_of(self, covariates: Mapping[str, Any] | None) -> float:
        """Return what covariates, a minus b, add to the logit; a model without covariates has none."""
        if covariates:
            raise ParameterError(f"this {type(self).__name__} has learned no effects of covariates. Leave them out.")
        return 0.0

    def _effects(self, votes: Comparisons) -> Floats | None:
        """Return what the covariates of each row add to the logit; None in a model without covariates."""
        return None

    def _ranking_law(self, board: Consensus, slots: Ints, expert: int | None) -> RankingLaw:
        """Return the law of a ranking of these slots of one instance."""
        can = "PlackettLuce, Mallows and ExtendedMallows"
        raise KindError(
            f"{type(self).__name__} is a model of pairs and gives rankings no probability. Models that do: {can}."
        )

    def _pairwise(self, votes: Votes) -> Comparisons:
        """Return votes as the outcomes of pairs that `_pair_law` describes, ties only where it has them."""
        raise TypeError(f"{type(self).__name__} must define _pairwise")

    def _expert_fit(self, votes: Votes, board: Consensus) -> ExpertFit:
        """Return how well the votes of each expert agree with the model: by default the outcomes of pairs."""
        rows = self._outcome_rows(votes, board)
        if rows.expert is None:
            raise DataError("by='expert' needs votes that name experts. Use by='pair'.")
        win, tie, loss = law = self._row_law(rows, board, votes)
        counts = (rows.n_left, rows.n_ties, rows.n_right)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.sum([np.where(n > 0, n * np.log(p), 0.0) for n, p in zip(counts, law, strict=True)], axis=0)
            logit = np.log(win) - np.log(loss)
        # The derivative of the log-likelihood in a factor of all logits of the expert, at 1. An outcome that is certain
        # tells nothing of the factor where it happens.
        certain = np.isinf(logit)
        points = np.where(certain, logit > 0, win + tie / 2)
        surplus = rows.n_left + rows.n_ties / 2 - rows.n * points
        slope = np.multiply(logit, surplus, out=np.zeros(len(logit)), where=surplus != 0)
        spread = np.multiply(rows.n * logit**2, win + tie / 4 - points**2, out=np.zeros(len(logit)), where=~certain)
        n, log_likelihood, gradient, variance = (
            _counts(rows.expert, each, votes.n_experts) for each in (rows.n, logs, slope, spread)
        )
        if isinstance(votes, Preferences):
            # The pairs of one list are not independent.
            variance = np.full(votes.n_experts, np.nan)
        return ExpertFit(n, log_likelihood, gradient, variance)

    def _n_shared(self) -> int:
        """Return the number of parameters that were estimated beside the scores."""
        return 0

    # Outcomes of pairs.

    def outcome_probabilities(
        self,
        a: Any,
        b: Any,
        instance: Any = None,
        *,
        side: str | None = None,
        expert: Any = None,
        covariates: Mapping[str, float] | None = None,
        consensus: Consensus | None = None,
    ) -> OutcomeProbabilities:
        """Return the probabilities that item `a` wins, ties or loses its next comparison with item `b`.

        Parameters
        ----------
        a, b : id
            The items.
        instance : id, optional
            Their instance; optional if there is only one.
        side : {"left", "right"}, optional
            Where `a` is shown, for models with a side effect; None is neither side.
        expert : id, optional
            Who compares, for models that learn about experts; None is an expert of adherence (reliability) 1.
        covariates : mapping, optional
            The covariates of the comparison, `a` minus `b`, for models with covariates; those not named are 0: equal.
        consensus : Consensus, optional
            The scores, if they are not those of the last `fit_predict`.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("pudding", None, ["a"], ["b"], [6], [1])
        >>> model = cc.BradleyTerry(prior=0)
        >>> board = model.fit_predict(votes)
        >>> [round(p, 3) for p in model.outcome_probabilities("a", "b")]
        [0.857, 0.0, 0.143]
        """
        board = self._board(consensus)
        one, other = board._slot(a, instance), board._slot(b, instance)
        if one == other:
            raise DataError(f"item {quote(a)} is compared with itself. Name two items.")
        win, tie, loss = self._law_between(board, np.array([one]), np.array([other]), side, expert, covariates)
        return OutcomeProbabilities(float(win[0]), float(tie[0]), float(loss[0]))

    def outcome_matrix(
        self,
        instance: Any = None,
        outcome: str = "win",
        *,
        side: str | None = None,
        expert: Any = None,
        consensus: Consensus | None = None,
    ) -> pl.DataFrame:
        """Return a Polars frame of one outcome for all pairs: the item of the row against that of the column.

        The first column is `item`; the others are named by items, best first; an item against itself is null.

        Parameters
        ----------
        instance : id, optional
            The instance; optional if there is only one.
        outcome : {"win", "tie", "loss"}
            Which probability.
        side, expert, consensus
            As in `outcome_probabilities`.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("q", None, ["a", "b"], ["b", "c"], [3, 3], [1, 1])
        >>> model = cc.BradleyTerry(prior=0)
        >>> board = model.fit_predict(votes)
        >>> [(item, chance and round(chance, 2)) for item, chance in model.outcome_matrix().select("item", "c").rows()]
        [('a', 0.9), ('b', 0.75), ('c', None)]
        """
        import polars as pl

        if outcome not in OutcomeProbabilities._fields:
            raise ParameterError.invalid("outcome", "outcome_matrix", "'win', 'tie' or 'loss'", outcome)
        board = self._board(consensus)
        own = self._best_first(board, instance)
        m = len(own)
        law = self._law_between(board, np.repeat(own, m), np.tile(own, m), side, expert)
        table = law[OutcomeProbabilities._fields.index(outcome)].reshape(m, m)
        items = board.items.take(own).tolist()
        columns = {
            item: [None if i == j else p for i, p in enumerate(table[:, j].tolist())] for j, item in enumerate(items)
        }
        if "item" in columns:
            raise DataError("an item is called 'item', as the column of names. Rename it.")
        return pl.DataFrame({"item": items} | columns, schema_overrides=dict.fromkeys(items, pl.Float64))

    def predict_votes(self, votes: Comparisons, *, consensus: Consensus | None = None) -> Floats:
        """Return, for each row of comparisons, the probabilities that left wins, that nobody wins, and that right wins.

        The side that the row shows, its covariates and its expert count as far as the model knows them; an expert that
        it does not know is one of adherence (reliability) 1.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("pudding", None, ["a"], ["b"], [6], [1])
        >>> model = cc.BradleyTerry(prior=0)
        >>> board = model.fit_predict(votes)
        >>> model.predict_votes(cc.Comparisons("pudding", None, ["b"], ["a"])).round(3).tolist()
        [[0.143, 0.0, 0.857]]
        """
        if not isinstance(votes, Comparisons):
            raise KindError(f"predict_votes takes Comparisons. Got {type(votes).__name__}.")
        board = self._board(consensus)
        # Rows without an outcome are predicted too.
        once = votes.with_counts(np.ones(votes.n_rows), np.zeros(votes.n_rows), np.zeros(votes.n_rows))
        rows = self._outcome_rows(once, board)
        return np.stack(self._row_law(rows, board, once, unknown_experts="ignore"), axis=1)

    # Rankings.

    def ranking_probability(
        self,
        order: Sequence[Any],
        instance: Any = None,
        *,
        items: Iterable[Any] | None = None,
        expert: Any = None,
        consensus: Consensus | None = None,
    ) -> float:
        """Return the probability that a new list begins with `order`, best first.

        Parameters
        ----------
        order : sequence of ids
            All items of the list, or its top. With Davidson-Luce ties an element may be a list of tied items.
        instance : id, optional
            The instance; optional if there is only one.
        items : ids, optional
            What the list ranks; None is all items of the instance. `items=order` gives the probability of an order in a
            list of these items alone.
        expert, consensus
            As in `outcome_probabilities`.

        Examples
        --------
        >>> import concordant as cc
        >>> model = cc.PlackettLuce(prior=1.0)
        >>> board = model.fit_predict(cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]}))
        >>> round(model.ranking_probability(["a", "b", "c"]), 3), round(model.ranking_probability(["a"]), 3)
        (0.36, 0.462)
        """
        board = self._board(consensus)
        blocks = [list(e) if isinstance(e, (list, tuple, set, frozenset)) else [e] for e in order]
        flat = [str(item) for block in blocks for item in block]
        n = board._instance(instance)
        own = self._slots_of(board, n) if items is None else self._named_slots(board, n, items)
        names = dict(zip(board.items.take(own).tolist(), range(len(own)), strict=True))
        unknown = [item for item in flat if item not in names]
        if unknown or len(set(flat)) < len(flat):
            why = f"holds {listing(unknown, 5)}, which the list does not rank" if unknown else "names an item twice"
            raise DataError(f"the order {why}. The list ranks {listing(list(names), 5)}.")
        law = self._ranking_law(board, own, self._expert_number(expert))
        return float(np.exp(law.log_probability([[names[str(item)] for item in block] for block in blocks])))

    def first_place_probabilities(
        self, instance: Any = None, *, expert: Any = None, consensus: Consensus | None = None
    ) -> pl.DataFrame:
        """Return the probability of every item to be first in a new list of all items: item, probability.

        This is a prediction. The posterior probability that an item is truly the best is
        `Consensus.probabilities_best`. With Davidson-Luce ties an item that shares the first place counts as first.

        Examples
        --------
        >>> import concordant as cc
        >>> model = cc.PlackettLuce(prior=1.0)
        >>> board = model.fit_predict(cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]}))
        >>> [(item, round(p, 3)) for item, p in model.first_place_probabilities().rows()]
        [('a', 0.462), ('b', 0.418), ('c', 0.119)]
        """
        return self.top_k_probabilities(1, instance, expert=expert, consensus=consensus)

    def top_k_probabilities(
        self, k: int, instance: Any = None, *, expert: Any = None, consensus: Consensus | None = None
    ) -> pl.DataFrame:
        """Return the probability of every item to be among the first k of a new list of all items: item, probability.

        They sum to k. Under Plackett-Luce they are an integral over exponential times of arrival, computed to 1e-12;
        O(n k) for each of some hundred nodes (more for many items: seconds at n = 1000 and k = 100). Under Mallows the
        law of each rank is exact, O(n³). With Davidson-Luce ties only k = 1 has a formula.

        Examples
        --------
        >>> import concordant as cc
        >>> model = cc.PlackettLuce(prior=1.0)
        >>> board = model.fit_predict(cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c"]}))
        >>> [(item, round(p, 3)) for item, p in model.top_k_probabilities(2).rows()]
        [('a', 0.858), ('b', 0.835), ('c', 0.308)]
        """
        import polars as pl

        board = self._board(consensus)
        own = self._best_first(board, instance)
        check_params("top_k_probabilities", {"k": k}, {"k": integer(least=1)})
        law = self._ranking_law(board, own, self._expert_number(expert))
        chance = law.top(int(k)) if k < len(own) else np.ones(len(own))
        return pl.DataFrame({"item": board.items.take(own).tolist(), "probability": chance})

    # Observed votes against the model.

    def residuals(self, votes: Votes, by: str = "pair", *, consensus: Consensus | None = None) -> pl.DataFrame:
        """Return observed and expected counts with residuals, for every pair that met or for every expert.

        Parameters
        ----------
        votes : Preferences or Comparisons
            The votes of the fit, or others about the same items.
        by : {"pair", "expert"}
            "pair": instance, item, other (the item with the higher score first), n, then wins, losses and ties of
            `item` and what the model expects of each. `pearson` is (O − E) / √V for wins plus half the ties; `deviance`
            has its sign and the square 2 Σ O log(O / E) over the three outcomes. A list counts as its pairs.
            "expert": expert, n (comparisons, or choices of lists), log_likelihood, and z, the score test of a factor 1
            on the scores of this expert (the adherence): Σ logit · (observed − expected) over its standard deviation.
            z far below 0: votes at random or against the others; far above 0: agrees more than the noise of the model
            allows. z is null where lists count as their pairs, which depend on each other. In Plackett-Luce, choices
            of tied blocks are left out.
        consensus : Consensus, optional
            The scores, if they are not those of the last `fit_predict`.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("q", None, ["a", "b", "a"], ["b", "c", "c"], [6, 5, 7], [3, 3, 3])
        >>> model = cc.BradleyTerry(prior=0)
        >>> board = model.fit_predict(votes)
        >>> found = model.residuals(votes)
        >>> found.row(0)[:5], found["pearson"].round(2).to_list()
        (('q', 'a', 'b', 9.0, 6.0), [0.16, -0.17, 0.17])
        """
        if by not in ("pair", "expert"):
            raise ParameterError.invalid("by", "residuals", "'pair' or 'expert'", by)
        board = self._board(consensus)
        votes = self._checked(votes)
        if by == "pair":
            return self._pair_residuals(votes, board)
        import polars as pl

        fit = self._expert_fit(votes, board)
        held = np.flatnonzero(fit.n > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = fit.gradient / np.sqrt(fit.variance)
        columns = {"n": fit.n, "log_likelihood": fit.log_likelihood, "z": z}
        frame = pl.DataFrame(
            {"expert": [votes.experts[e] for e in held.tolist()]} | {name: c[held] for name, c in columns.items()}
        )
        return frame.with_columns(pl.when(pl.col("z").is_finite()).then("z").alias("z"))

    def goodness_of_fit(self, votes: Votes, *, consensus: Consensus | None = None) -> pl.DataFrame:
        """Return Pearson's and the deviance statistic of all pairs that met, with degrees of freedom and p-values.

        The columns are statistic, value, df, p_value, cells (pairs times outcomes), smallest_expected and sparse (the
        share of cells with an expected count below 5). The degrees of freedom are the free cells less the parameters.

        The p-value is that of a chi-squared distribution, for the votes of a fit with prior=0. Do not trust it where
        counts are sparse (most cells should expect 5 or more) or where the votes of one expert are correlated; a prior
        makes both statistics larger. It is null for lists, because the pairs of a list depend on each other, where each
        expert has a reliability, and without degrees of freedom.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("q", None, ["a", "b", "a"], ["b", "c", "c"], [60, 50, 70], [30, 30, 30])
        >>> model = cc.BradleyTerry(prior=0)
        >>> board = model.fit_predict(votes)
        >>> [(row[0], row[2], round(row[3], 2)) for row in model.goodness_of_fit(votes).rows()]
        [('pearson', 1, 0.36), ('deviance', 1, 0.36)]
        """
        import polars as pl
        from scipy.special import chdtrc

        board = self._board(consensus)
        votes = self._checked(votes)
        rows = self._outcome_rows(votes, board)
        by_side = rows.sided and getattr(self, "side_", 0.0) != 0.0
        pairs = self._counted(rows, board, self._row_law(rows, board, votes), by_side=by_side)
        used = pairs.expected.sum(axis=0) > 0
        observed, expected = pairs.observed[:, used], pairs.expected[:, used]
        pearson = float(((observed - expected) ** 2 / expected).sum()) if observed.size else 0.0
        deviance = float((deviance_residuals(observed, expected, np.ones(len(observed))) ** 2).sum())
        df = len(observed) * max(int(used.sum()) - 1, 0) - self._n_scores(pairs.one, pairs.other, board)
        df -= self._n_shared()
        known = df > 0 and isinstance(votes, Comparisons) and not getattr(self, "reliability", False)
        low = float(expected.min()) if expected.size else None
        return pl.DataFrame(
            {
                "statistic": ["pearson", "deviance"],
                "value": [pearson, deviance],
                "df": [df, df],
                "p_value": [float(chdtrc(df, v)) if known else None for v in (pearson, deviance)],
                "cells": [observed.size] * 2,
                "smallest_expected": [low, low],
                "sparse": [float((expected < _SPARSE).mean()) if expected.size else None] * 2,
            },
            schema_overrides={"p_value": pl.Float64, "smallest_expected": pl.Float64, "sparse": pl.Float64},
        )

    def calibration(
        self, votes: Votes, bins: int = 10, *, level: float = 0.95, consensus: Consensus | None = None
    ) -> pl.DataFrame:
        """Return the calibration curve: predicted and observed win rates of the favourite, by bin of predictions.

        The favourite of a pair is the item that the model expects to win more often; ties are left out, and the
        prediction is given that there is none. Bins hold about as many outcomes each. The columns are least and most
        (the predictions in the bin), n, predicted and observed (means), lower and upper (Wilson's interval of the
        observed share, as if outcomes were independent). Votes of the fit look too well calibrated; give others to
        test the model. A list counts as its pairs.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("q", None, ["a", "b", "a"], ["b", "c", "c"], [6, 5, 7], [3, 3, 3])
        >>> model = cc.BradleyTerry(prior=0)
        >>> board = model.fit_predict(votes)
        >>> model.calibration(votes, bins=2).select("n", "observed").rows()
        [(17.0, 0.6470588235294118), (10.0, 0.7)]
        """
        import polars as pl

        asked = {"bins": integer(least=1), "level": INTERVALS["level"]}
        check_params("calibration", {"bins": bins, "level": level}, asked)
        board = self._board(consensus)
        votes = self._checked(votes)
        rows = self._outcome_rows(votes, board)
        win, _, loss = self._row_law(rows, board, votes)
        share = win / (win + loss)
        n = rows.n_left + rows.n_right
        flipped = share < 0.5
        # Equal predictions, up to rounding, share a bin.
        share, which = np.unique(np.round(np.where(flipped, 1.0 - share, share), 12), return_inverse=True)
        won = np.bincount(which, np.where(flipped, rows.n_right, rows.n_left), len(share))
        count = np.bincount(which, n, len(share))
        share, won, count = share[count > 0], won[count > 0], count[count > 0]
        middle = (np.cumsum(count) - count / 2) / max(float(count.sum()), 1e-300)
        _, bin_of = np.unique(np.minimum((middle * bins).astype(np.int64), bins - 1), return_inverse=True)
        size = np.bincount(bin_of, count)
        observed = np.bincount(bin_of, won) / size
        lower, upper = wilson_interval(observed, size, level)
        first = np.flatnonzero(np.diff(bin_of, prepend=-1))
        last = np.flatnonzero(np.diff(bin_of, append=-1)) if len(bin_of) else first
        predicted = np.bincount(bin_of, share * count) / size
        return pl.DataFrame(
            {
                "least": share[first],
                "most": share[last],
                "n": size,
                "predicted": predicted,
                "observed": observed,
                "lower": lower,
                "upper": upper,
            }
        )

    # Helpers.

    def _board(self, consensus: Consensus | None) -> Consensus:
        """Return the consensus to predict from."""
        found = self.__dict__.get("consensus_") if consensus is None else consensus
        if found is None:
            raise NotFittedError(
                f"this {type(self).__name__} has no scores to predict from. Call fit_predict(votes), or pass "
                "consensus=model.predict(votes)."
            )
        if not isinstance(found, Consensus):
            raise KindError(f"consensus= takes a Consensus. Got {type(found).__name__}.")
        return found

    @staticmethod
    def _slots_of(board: Consensus, n: int) -> Ints:
        return np.arange(int(board.slots.offsets[n]), int(board.slots.offsets[n + 1]))

    def _best_first(self, board: Consensus, instance: Any) -> Ints:
        """Return the slots of an instance, best first."""
        own = self._slots_of(board, board._instance(instance))
        return own[np.argsort(board.rank[own], kind="stable")]

    @staticmethod
    def _named_slots(board: Consensus, n: int, items: Iterable[Any]) -> Ints:
        """Return the slots of some items of an instance, in its order."""
        return np.unique([board._slot(item, board.instances[n]) for item in items]).astype(np.int64)

    def _expert_number(self, expert: Any) -> int | None:
        """Return the number of an expert in `experts_`; None stays None."""
        if expert is None:
            return None
        if "adherence_" not in self.__dict__:
            raise ParameterError(
                f"this {type(self).__name__} has learned nothing about experts: all of them vote alike. Leave expert= "
                "out."
            )
        if str(expert) not in self.experts_:
            raise DataError(f"no expert {quote(expert)}. Known experts: {listing(self.experts_, 10)}.")
        return self.experts_.index(str(expert))

    def _law_between(
        self,
        board: Consensus,
        a: Ints,
        b: Ints,
        side: str | None,
        expert: Any,
        covariates: Mapping[str, float] | None = None,
    ) -> PairLaw:
        """Return the law of slots a against b for a side, an expert given by name, and covariates a minus b."""
        known = {None: 0.0, "left": 1.0, "right": -1.0}
        if side not in known:
            raise ParameterError.invalid("side", "outcome_probabilities", "'left', 'right' or None", side)
        number = self._expert_number(expert)
        experts = None if number is None else np.full(len(a), number)
        return self._styled_law(board, a, b, np.full(len(a), known[side]), experts, self._effect_of(covariates))

    def _styled_law(self, board: Consensus, a: Ints, b: Ints, side: Floats, expert: Any, effect: Any) -> PairLaw:
        """Return the law of slots a against b where covariates add `effect` to the logit; models with covariates do."""
        return self._pair_law(board, a, b, side, expert)

    def _outcome_rows(self, votes: Votes, board: Consensus) -> OutcomeRows:
        """Return votes as outcomes of pairs of the consensus, without rows that have none."""
        if isinstance(votes, Preferences):
            n_pairs = pairs_held(votes.list_offsets, votes.list_starts)
            check_limits(type(self).__name__, votes, "the pairs of every list", n_bytes=64.0 * n_pairs)
        found = self._pairwise(votes)
        place = found.slots.locate(board.slots)
        held = np.flatnonzero(found.n_left + found.n_right + found.n_ties > 0)
        left, right = place[found.left[held]], place[found.right[held]]
        lost = held[(left < 0) | (right < 0)]
        if len(lost):
            ends = np.concatenate([found.left[lost], found.right[lost]])
            slot = int(ends[place[ends] < 0][0])
            instance, item = found.slots.where(slot)
            raise DataError(
                f"the model has no score of item {quote(item)} in instance {quote(instance)}. Fit to votes that hold "
                "it, or leave it out."
            )
        expert = None if found.expert is None else found.expert[held]
        effect = self._effects(found)
        counts = found.n_left[held], found.n_right[held], found.n_ties[held]
        return OutcomeRows(left, right, *counts, expert, found.sided, None if effect is None else effect[held])

    def _row_law(self, rows: OutcomeRows, board: Consensus, votes: Votes, unknown_experts: str = "error") -> PairLaw:
        """Return the law of every row, for the expert and the side of the row.

        With `unknown_experts="ignore"` experts that the model does not know have adherence 1.
        """
        experts = None
        effect = 0.0 if rows.effect is None else rows.effect
        side = np.full(len(rows.left), 1.0 if rows.sided else 0.0)
        if rows.expert is not None and "adherence_" in self.__dict__:
            code = {name: k for k, name in enumerate(self.experts_)}
            number = np.array([code.get(name, -1) for name in votes.experts], dtype=np.int64)
            unknown = [votes.experts[e] for e in np.unique(rows.expert).tolist() if number[e] < 0]
            if unknown and unknown_experts == "ignore":
                new = number[rows.expert] < 0
                known = self._styled_law(board, rows.left, rows.right, side, np.maximum(number[rows.expert], 0), effect)
                usual = self._styled_law(board, rows.left, rows.right, side, None, effect)
                win, tie, loss = (np.where(new, u, k) for u, k in zip(usual, known, strict=True))
                return win, tie, loss
            if unknown:
                raise DataError(
                    f"experts {listing(unknown, 5)} were not there in fit. Leave them out: votes.drop_experts([...])."
                )
            experts = number[rows.expert]
        return self._styled_law(board, rows.left, rows.right, side, experts, effect)

    def _counted(self, rows: OutcomeRows, board: Consensus, law: PairLaw, *, by_side: bool = False) -> _PairTable:
        """Return observed and expected outcomes for every pair that met, the item with the higher score first."""
        swap = (board.rank[rows.left] > board.rank[rows.right]) | (
            (board.rank[rows.left] == board.rank[rows.right]) & (rows.left > rows.right)
        )
        one, other = np.where(swap, rows.right, rows.left), np.where(swap, rows.left, rows.right)
        pairs, which = np.unique((one * board.n_slots + other) * 2 + (swap & by_side), return_inverse=True)
        counts = (rows.n_left, rows.n_ties, rows.n_right)
        flip = [np.where(swap, last, first) for first, last in zip(counts, counts[::-1], strict=True)]
        chance = [np.where(swap, last, first) for first, last in zip(law, law[::-1], strict=True)]
        points, drawn = chance[0] + chance[1] / 2, chance[1]
        spread = rows.n * (chance[0] + drawn / 4 - points**2)
        size = len(pairs)
        return _PairTable(
            pairs // 2 // board.n_slots,
            pairs // 2 % board.n_slots,
            np.stack([np.bincount(which, c, size) for c in flip], axis=1),
            np.stack([np.bincount(which, rows.n * p, size) for p in chance], axis=1),
            _counts(which, spread, size),
        )

    def _pair_residuals(self, votes: Votes, board: Consensus) -> pl.DataFrame:
        import polars as pl

        rows = self._outcome_rows(votes, board)
        t = self._counted(rows, board, self._row_law(rows, board, votes))
        gap = (t.observed - t.expected) @ np.array([1.0, 0.5, 0.0])
        with np.errstate(divide="ignore", invalid="ignore"):
            pearson = np.where(gap == 0, 0.0, gap / np.sqrt(t.variance))
        frame: dict[str, Any] = {
            "instance": [board.instances[n] for n in board.slots.instance[t.one].tolist()],
            "item": board.items.take(t.one).tolist(),
            "other": board.items.take(t.other).tolist(),
            "n": t.observed.sum(axis=1),
        }
        for name, column in (("wins", 0), ("losses", 2), ("ties", 1)):
            frame[name], frame[f"expected_{name}"] = t.observed[:, column], t.expected[:, column]
        frame["pearson"] = pearson
        frame["deviance"] = deviance_residuals(t.observed, t.expected, gap)
        return pl.DataFrame(frame, schema_overrides=dict.fromkeys(("instance", "item", "other"), pl.String))

    def _n_scores(self, one: Ints, other: Ints, board: Consensus) -> int:
        """Return the number of free scores: items that met others, less one for each group that met."""
        if "coefficients_" in self.__dict__:
            return len(self.__dict__["coefficients_"])
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        n = board.n_slots
        groups, _ = connected_components(coo_array((np.ones(len(one)), (one, other)), shape=(n, n)), directed=False)
        return n - int(groups)


def _counts(code: Any, weight: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(code, weight, size), dtype=np.float64)


class _PairTable(NamedTuple):
    """Pairs that met: two slots, observed and expected wins, ties and losses of the first, and V of its points."""

    one: Ints
    other: Ints
    observed: Floats
    expected: Floats
    variance: Floats

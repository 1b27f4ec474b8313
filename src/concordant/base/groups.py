"""`compare_groups`: separate fits for groups of experts, and a likelihood-ratio test that the groups differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Bools, Ints
from concordant.base.contract import Aggregator
from concordant.base.model_comparison import check_maximum_likelihood
from concordant.base.params import check_params, integer, seed
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.container import counted
from concordant.data.preferences import Preferences
from concordant.errors import (
    DataError,
    NoFiniteEstimateError,
    ParameterError,
    UncertaintyWarning,
    listing,
    quote,
    warn,
)
from concordant.execution import report_progress
from concordant.inference.likelihood import chi_squared_tail

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GroupComparison", "compare_groups"]

# With more comparisons or lists per expert than this, those of one expert are not taken as independent in silence.
_INDEPENDENT = 2.0


class GroupComparison(NamedTuple):
    """Fits of groups of experts, and a test that the groups differ.

    Attributes
    ----------
    statistic : float
        2 (Σ_g ℓ_g − ℓ), ℓ_g the maximum of the objective of group g alone and ℓ that of all experts together. With a
        prior, which every group pays for, it may be below 0.
    df : int
        Degrees of freedom: the parameters of the separate fits less those of the pooled one.
    p_value : float
        The probability of a statistic at least as large if the groups do not differ.
    test : str
        "chi-squared", or "permutation" with the number of permutations.
    pooled : Consensus
        The scores of all experts together.
    groups : dict of str to Consensus
        The scores of each group.
    log_likelihood : dict of str to float
        ℓ_g of each group; with a prior, the penalised log-likelihood.
    pooled_log_likelihood : float
        ℓ.
    """

    statistic: float
    df: int
    p_value: float
    test: str
    pooled: Consensus
    groups: dict[str, Consensus]
    log_likelihood: dict[str, float]
    pooled_log_likelihood: float

    def __repr__(self) -> str:
        df = f" on {counted(self.df, 'degree')} of freedom" if self.test == "chi-squared" else ""
        lines = [f"{listing(list(self.groups))}: likelihood ratio {self.statistic:.2f}{df}, p = {self.p_value:.3g}"]
        lines[0] += f" ({self.test})"
        ranked = (f"{name}: {str(board).partition(chr(10))[2].strip()}" for name, board in self.groups.items())
        return "\n".join([*lines, *(f"  {line}" for line in ranked)])

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: instance, item, the pooled score, and the score in each group."""
        import polars as pl

        slots = self.pooled.slots
        columns: dict[str, Any] = {
            "instance": slots.instances.take(slots.instance).tolist(),
            "item": slots.items.tolist(),
            "pooled": self.pooled.score,
        }
        # All consensuses are of the same slots. A group may have the name of another column.
        return pl.DataFrame(columns | {f"score {name}": c.score for name, c in self.groups.items()})


def compare_groups(
    preferences: Preferences | Comparisons,
    groups: Mapping[Any, Any],
    method: str | Aggregator = "plackett-luce",
    *,
    permutations: int = 0,
    random_state: int = 0,
    **params: Any,
) -> GroupComparison:
    """Fit a model to each group of experts and to all together, and test whether the groups have different scores.

    The likelihood ratio 2 (Σ_g ℓ_g − ℓ) of separate fits against one fit has, if the groups do not differ and the model
    holds, nearly a chi-squared distribution with (G − 1) p degrees of freedom, p the parameters of one fit: items less
    one in each instance, and tie parameters or a side effect. With `permutations` the experts are instead dealt to
    groups of the same sizes at random, which needs no model to hold: only that experts of different groups are
    exchangeable.

    Parameters
    ----------
    preferences : Preferences or Comparisons
        What the experts said. Comparisons must name their experts.
    groups : mapping
        From expert to group; every expert needs one, and there are two groups or more.
    method : str or Aggregator
        "plackett-luce" or "bradley-terry". A name is fitted by maximum likelihood (prior=0); then every group must
        compare all items, and an error names those that it cannot place.
    permutations : int
        How many random groupings; 0 takes the chi-squared distribution. It must be above 0 for a model with a prior,
        and for Bradley-Terry on lists, whose pairs are not independent.
    random_state : int
        The seed of the permutations.
    **params
        Parameters of the method.

    Notes
    -----
    The chi-squared test takes every choice (every outcome of comparisons) as independent, and a list of weight 2 as two
    lists. It holds for groups of some thirty lists; for few lists, or experts who give many comparisons or lists each,
    use permutations (a warning says so if it is more than two on average). The smallest p-value of a permutation test
    is 1 / (permutations + 1). Cost: G + 1 fits, and G for each permutation.

    References
    ----------
    Wilks, The large-sample distribution of the likelihood ratio, Annals of Mathematical Statistics 1938. Critchlow and
    Fligner, Paired comparison, triple comparison, and ranking experiments as generalized linear models, Psychometrika
    1991.

    Examples
    --------
    >>> import concordant as cc
    >>> one = cc.synthetic.plackett_luce({"a": 1.0, "b": 0.0, "c": -1.0}, 40, random_state=1).preferences
    >>> other = cc.synthetic.plackett_luce({"a": 0.0, "b": 1.0, "c": -1.0}, 40, random_state=2).preferences
    >>> lists = {
    ...     f"{side}{n}": p.select_experts([e]).to_frame().drop_nulls().sort("rank")["item"].to_list()
    ...     for side, p in (("x", one), ("y", other))
    ...     for n, e in enumerate(p.experts)
    ... }
    >>> found = cc.compare_groups(cc.from_lists(lists), {e: e[0] for e in lists})
    >>> found.df, found.p_value < 0.01, {g: c.ranking() for g, c in found.groups.items()}
    (2, True, {'x': ['a', 'b', 'c'], 'y': ['b', 'a', 'c']})
    """
    owner = "compare_groups"
    check_params(
        owner,
        {"permutations": permutations, "random_state": random_state},
        {"permutations": integer(least=0), "random_state": seed()},
    )
    model = create(method, **params)
    if isinstance(method, str) and model.tags.likelihood and "prior" not in params:
        model.set_params(prior=0.0)
    _check_method(model, preferences, permutations)
    # Intervals of random groupings are not looked at.
    plain = type(model)(**(model.get_params() | {"uncertainty": "none"}))
    code, names = _group_codes(preferences, groups)
    experts = preferences.experts.tolist()

    def objective(which: Bools, name: str, model: Aggregator) -> tuple[float, Aggregator]:
        part = preferences.select_experts([experts[e] for e in np.flatnonzero(which).tolist()])
        fresh = type(model)(**model.get_params())
        try:
            fresh.fit_predict(part)
        except NoFiniteEstimateError as error:
            raise NoFiniteEstimateError(f"in {name}: {error}") from error
        return float(fresh.fit_info_.objective or 0.0), fresh

    whole, pooled = objective(np.ones(len(experts), dtype=np.bool_), "all groups together", model)
    each = {name: objective(code == g, f"group {quote(name)}", model) for g, name in enumerate(names)}
    statistic = 2.0 * (sum(value for value, _ in each.values()) - whole)
    if getattr(model, "prior", 0) == 0:
        # Separate maxima are never below the pooled one, except by rounding.
        statistic = max(statistic, 0.0)
    df = sum(m.fit_info_.n_parameters or 0 for _, m in each.values()) - (pooled.fit_info_.n_parameters or 0)
    if permutations:
        rng, larger = np.random.default_rng(random_state), 0
        for k in range(permutations):
            dealt = rng.permutation(code)
            separate = sum(objective(dealt == g, "a random group", plain)[0] for g in range(len(names)))
            larger += 2.0 * (separate - whole) >= statistic - 1e-9 * abs(statistic)
            report_progress(k + 1, permutations)
        p_value, test = (1 + larger) / (permutations + 1), f"permutation, {permutations} groupings"
    else:
        _warn_of_dependence(preferences)
        p_value, test = chi_squared_tail(statistic, df), "chi-squared"
    return GroupComparison(
        statistic,
        df,
        p_value,
        test,
        pooled.consensus_,
        {name: m.consensus_ for name, (_, m) in each.items()},
        {name: value for name, (value, _) in each.items()},
        whole,
    )


def _warn_of_dependence(preferences: Preferences | Comparisons) -> None:
    """Warn where experts give so much that the chi-squared test, for independent choices, rejects too often."""
    compared = isinstance(preferences, Comparisons)
    number = preferences.outcomes.sum() if isinstance(preferences, Comparisons) else preferences.n_lists
    each = float(number) / max(preferences.n_experts, 1)
    if each > _INDEPENDENT:
        what = "comparisons" if compared else "lists"
        warn(
            f"the chi-squared test takes {what} as independent, and an expert gives {each:.3g} of them on average: "
            "where experts differ, it finds differences between groups too often. Pass permutations=999, which deals "
            "whole experts to groups.",
            UncertaintyWarning,
        )


def _check_method(model: Aggregator, preferences: Preferences | Comparisons, permutations: int) -> None:
    """Raise where the test would not hold for this method."""
    owner = type(model).__name__
    check_maximum_likelihood(model, "compare_groups")
    if permutations:
        return
    if getattr(model, "prior", 0) != 0:
        raise ParameterError(
            f"the chi-squared test of compare_groups needs maximum likelihood: {owner}(prior=0). With a prior, pass "
            "permutations=999."
        )
    if isinstance(preferences, Preferences) and model._splits_lists:
        raise ParameterError(
            "the pairs of a list are not independent, as the chi-squared test of compare_groups with BradleyTerry "
            "takes them. Use method='plackett-luce', or pass permutations=999."
        )


def _group_codes(preferences: Preferences | Comparisons, groups: Mapping[Any, Any]) -> tuple[Ints, list[str]]:
    """Return the group of every expert as a number, and the groups' names in order of first appearance."""
    if isinstance(preferences, Comparisons) and preferences.expert is None:
        raise DataError("compare_groups compares groups of experts, but these comparisons name no experts.")
    if not isinstance(groups, Mapping):
        raise ParameterError.invalid("groups", "compare_groups", "a mapping from expert to group", groups)
    named = {str(expert): str(group) for expert, group in groups.items()}
    experts = preferences.experts.tolist()
    lost = [e for e in experts if e not in named]
    if lost:
        raise DataError(
            f"{len(lost)} experts have no group: {listing(lost, 5)}. Name one for every expert, or leave these experts "
            "out with preferences.drop_experts."
        )
    names = list(dict.fromkeys(named[e] for e in experts))
    if len(names) < 2:
        raise DataError(f"there is one group, {listing(names)}; a comparison needs two or more.")
    at = {name: g for g, name in enumerate(names)}
    return np.array([at[named[e]] for e in experts], dtype=np.int64), names

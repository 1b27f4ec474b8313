"""Every registered method keeps the contract, and every exemption says why."""

from __future__ import annotations

import pytest

import concordant as cc
from concordant.base.checks import CHECKS, Check, checks_for
from concordant.base.contract import Aggregator
from concordant.errors import ContractError

RANKED = ("rank", "score", "rating")
VALUED = ("score", "rating")

# Other parameters than the defaults that take another path through a method, and the kinds they can work on.
VARIANTS: list[tuple[Aggregator, tuple[str, ...] | None]] = [
    (cc.Borda(missing="zero"), None),
    (cc.MeanRank(missing="ignore"), None),
    (cc.RobustRank(missing="ignore"), None),
    (cc.RobustRank(total=40), None),
    (cc.RobustRank(correction="bonferroni"), None),
    (cc.Condorcet(fusion=True), None),
    (cc.Condorcet(missing="below"), None),
    (cc.Copeland(missing="below"), None),
    (cc.Kemeny(solver="milp"), None),
    (cc.Kemeny(solver="local"), None),
    (cc.Kemeny(missing="below"), None),
    (cc.MarkovChain(chain=1), RANKED),
    (cc.MarkovChain(chain=2), RANKED),
    (cc.MarkovChain(chain=3), RANKED),
    (cc.MarkovChain(teleport=0.3), None),
    (cc.MarkovChain(missing="below"), None),
    (cc.MarkovChain(chain=2, missing="below"), RANKED),
    (cc.CombSUM(norm="max"), VALUED),
    (cc.CombSUM(norm="sum"), None),
    (cc.CombSUM(norm="z-score"), None),
    (cc.CombMNZ(norm="rank"), None),
    (cc.CombMNZ(norm="borda"), None),
    (cc.CombMNZ(norm="none"), VALUED),
    (cc.CombMED(norm="z-score"), None),
    (cc.CombANZ(norm="sum"), None),
    (cc.WeightedSum(weights={"e1": 2.0, "e3": 0.25}, unknown_experts="ignore"), None),
    (cc.RRF(k=0.5, ties="min"), None),
    (cc.RRF(ties="ordinal"), None),
    (cc.RRF(weights={"e1": 2.0, "e3": 0.25}, unknown_experts="ignore", ties="dense"), None),
    (cc.ISR(ties="max"), None),
    (cc.LogISR(sigma=0.0), None),
    (cc.CombMNZRank(k=3), None),
    (cc.BradleyTerry(ties="rao-kupper"), None),
    (cc.BradleyTerry(ties="none"), None),
    (cc.BradleyTerry(transform="count", prior="published"), None),
    (cc.BradleyTerry(prior=1.0, rank_ranges="simultaneous"), None),
    (cc.BradleyTerry(transform="log"), None),
    (cc.BradleyTerry(transform="rating"), ("score", "rating", "comparisons")),
    (cc.BradleyTerry(uncertainty="bootstrap", n_bootstrap=8), None),
    (cc.BradleyTerry(optimizer="gd"), None),
    (cc.BradleyTerry(reliability=True), None),
    (cc.BradleyTerry(side_effect=True), ("comparisons",)),
    (cc.PlackettLuce(missing="below"), None),
    (cc.PlackettLuce(prior=("gamma", 2.0, 1.0)), None),
    (cc.PlackettLuce(optimizer="mm", tol=1e-13), None),
    (cc.PlackettLuce(optimizer="gd"), None),
    (cc.PlackettLuce(adherence=True), None),
    (cc.PlackettLuce(ties="partition", prior="published"), None),
    (cc.PlackettLuce(ties="partition"), None),
    (cc.PlackettLuce(prior="published"), None),
    (cc.PlackettLuce(ties="input"), None),
    (cc.PlackettLuce(ties="random"), None),
    (cc.PlackettLuce(uncertainty="bootstrap", n_bootstrap=5), None),
    (cc.ULARA(update="gd"), None),
    (cc.ULARA(update="printed"), None),
    (cc.ULARA(kappa=3), None),
    (cc.SVP(transform="binary"), None),
    (cc.SVP(transform="log", average=True), None),
    (cc.SVP(transform="rating"), ("score", "rating", "comparisons")),
    (cc.SVP(rank=4), None),
    (cc.SVP(step="auto"), None),
    (cc.CPS(distance="footrule"), None),
    (cc.CPS(distance="spearman"), None),
    (cc.MPM(adherence="learned"), None),
    (cc.MPM(adherence="learned", variances=True), None),
    (cc.MPM(adherence="learned", variances="joint"), None),
    (cc.MPM(variances=True, adherence="none"), None),
    (cc.MPM(adherence="learned", optimizer="gd"), None),
    (cc.MPM(adherence="learned", optimizer="gd", variances=True), None),
    (cc.MPM(adherence="learned", instance_weights="counts"), None),
    (cc.MPM(adherence="learned", transform="binary"), None),
    (cc.MPM(transform="log"), None),
    (cc.MPM(uncertainty="bootstrap", n_bootstrap=20), None),
    (cc.Mallows(missing="below"), None),
    (cc.Mallows(dispersion=-0.5), None),
    (cc.ExtendedMallows(e_step="sampling", max_iter=5), None),
    (cc.ExtendedMallows(k=3, missing="below", max_iter=5), None),
    (cc.ExtendedMallows(missing="below", max_iter=5), None),
    (cc.ExtendedMallows(ranking_prior={"e1": -0.5}, max_iter=5), None),
    (cc.ExtendedMallows(e_step="borda", inference="borda"), None),
    (cc.ExtendedMallows(inference="best", max_iter=5), None),
    (cc.CRF(passes=5, transform="auto", learning_rate="auto", metric="map"), None),
    (cc.CRF(passes=5, weights="consensus", balance=False, metric="err"), None),
    (cc.CRF(passes=5, weights="mixed", min_lists=2, missing="below", metric="kendall"), None),
    (cc.CRF(passes=5, scaling="paper", sums="slice", metric="ndcg@2"), RANKED),
    (cc.CRF(solver="lbfgs", l2=0.01, n_samples=2), None),
    (cc.SVDRank(passes=15, weights="consensus"), None),
    (cc.SVDRank(passes=15, weights="mixed", min_lists=5), None),
    (cc.SVDRank(passes=15, hidden=3, metric="map"), None),
    (cc.SVDRank(passes=15, p=2, strength="auto"), None),
    (cc.SVDRank(passes=15, missing="below", max_items=4), None),
    (cc.SVDRank(passes=15, scaling="paper", average=0, l2=0, learning_rate=0.01), None),
    (cc.ListwiseLinear(transform="log+binary", l2=0.01), None),
    (cc.ListwiseLinear(weights="mixed", min_lists=2, missing="below", unjudged="drop"), None),
    (cc.RankNet(hidden=3, max_iter=30), None),
    (cc.RankNet(expert_features="svd", l2="auto", max_iter=8), None),
    (cc.RankNet(solver="sgd", batch=2, max_iter=5, cv=2, patience=2), None),
    (cc.RankSVM(second_order=True, min_correlation=0.0, max_products=20, keep_first=True, max_iter=30), None),
    (cc.RankSVM(second_order=True, min_correlation=0.0, standardise=False, l2=0.1), None),
    (cc.RankRegress(solver="adam", max_iter=5, missing="below", unjudged="drop"), None),
    (cc.PairTies(model="rao-kupper", l2=(1.0, 0.1), max_iter=20), None),
    (cc.PairTies(hidden=2, solver="adam", max_iter=5), None),
    (cc.LambdaRank(metric="err", max_items=4, solver="sgd", max_iter=5), None),
]

METHODS: dict[str, tuple[type[Aggregator] | Aggregator, tuple[str, ...] | None]] = {
    **{name: (cc.METHODS[name], None) for name in cc.METHODS},
    **{repr(method): (method, kinds) for method, kinds in VARIANTS},
}

# (method, check): why the promise cannot hold for it.
EXEMPT: dict[tuple[str, str], str] = {
    (
        "Condorcet(fusion=True)",
        "order_of_rows_is_irrelevant",
    ): "majorities in a circle are sorted from where one begins",
    ("Kemeny(solver='milp')", "order_of_rows_is_irrelevant"): "of several cheapest rankings the first one met is kept",
    ("Kemeny(solver='local')", "order_of_rows_is_irrelevant"): "of several cheapest rankings the first one met is kept",
    ("RRF(ties='ordinal')", "order_of_rows_is_irrelevant"): "ordinal ranks follow the order of rows, as asked",
    ("RRF(ties='ordinal')", "one_expert_gets_its_own_order"): "ordinal ranks have no ties",
    ("RRF(ties='ordinal')", "equal_items_tie"): "ordinal ranks have no ties",
    ("CombMNZRank(k=3)", "one_expert_gets_its_own_order"): "what lies below the third place scores nothing",
    ("CombMNZRank(k=3)", "unanimous_order_is_kept"): "what lies below the third place scores nothing",
    ("LogISR(sigma=0.0)", "one_expert_gets_its_own_order"): "the logarithm of one list is 0, so nothing is scored",
}
EXEMPT |= {
    ("RobustRank(correction='bonferroni')", check): "items whose rho is 1 or more tie, as in R"
    for check in ("unanimous_order_is_kept", "unanimous_pairs_are_kept")
}
_SIDED = "the winner is always shown left there, so that no side effect can be told"
EXEMPT |= {
    (
        "BradleyTerry(optimizer='gd')",
        "intervals_hold_the_score",
    ): "where an early stop ends up says nothing about how sure it is",
    (
        "BradleyTerry(reliability=True)",
        "one_expert_gets_its_own_order",
    ): "an expert who always names the item shown left may lean instead of judge",
    ("BradleyTerry(reliability=True)", "weight_two_is_twice"): "a judge of weight 2 is one judge known better, not two",
    **{
        ("BradleyTerry(side_effect=True)", check): _SIDED
        for check in (
            "one_expert_gets_its_own_order",
            "unanimous_order_is_kept",
            "unanimous_pairs_are_kept",
            "swapped_items_tie",
            "item_nobody_ranks_is_not_first",
        )
    },
}
EXEMPT |= {
    (
        "PlackettLuce(prior='published', ties='partition')",
        "one_expert_gets_its_own_order",
    ): "a tied block shares one choice, so that a strong prior can put it below the single item after it",
    (
        "PlackettLuce(optimizer='gd')",
        "intervals_hold_the_score",
    ): "where the steps stop is no maximum; intervals come by bootstrap only",
    **{
        ("PlackettLuce(ties='input')", check): "ties follow the order of the input, as asked"
        for check in ("order_of_rows_is_irrelevant", "one_expert_gets_its_own_order", "equal_items_tie")
    },
    **{
        ("PlackettLuce(ties='random')", check): "ties are broken by chance drawn from the ids, as asked"
        for check in (
            "names_of_items_are_irrelevant",
            "names_of_experts_are_irrelevant",
            "one_expert_gets_its_own_order",
            "weight_two_is_twice",
            "equal_items_tie",
        )
    },
}
EXEMPT |= {
    ("ULARA(kappa=3)", check): "what lies below the third place scores alike"
    for check in ("one_expert_gets_its_own_order", "unanimous_order_is_kept")
}
for name in METHODS:
    if name.lower().startswith("mpm") and "adherence='learned'" in name:
        EXEMPT[name, "intervals_hold_the_score"] = (
            "without an expert who is not trusted, items may only win or only lose: no finite estimate, so no interval"
        )
    if "weights={" in name or "ranking_prior={" in name:
        EXEMPT[name, "names_of_experts_are_irrelevant"] = "the weights are given to experts by name"
        EXEMPT[name, "weight_two_is_twice"] = "the weights are given by name, and a copy has another name"

_SEEDED = "the first weights of an expert, and the order in which alike items are drawn, are seeded by its name"
EXEMPT |= {
    (name, "names_of_experts_are_irrelevant"): _SEEDED
    for name in METHODS
    if name == "crf" or (name.startswith("CRF(") and "consensus" not in name)
}

EXEMPT["list-mle", "order_of_rows_is_irrelevant"] = (
    "items of equal label stay in the order of the input, by definition, and that order is learned"
)

# What these ask depends on the class alone.
OF_THE_CLASS = {"parameters_round_trip", "init_only_assigns", "unknown_parameter_is_refused", "fit_returns_self"}
CASES = [
    (name, check)
    for name, (method, _) in METHODS.items()
    for check in checks_for(method)
    if isinstance(method, type) or check.name not in OF_THE_CLASS
]


@pytest.mark.parametrize(("name", "check"), CASES, ids=str)
def test_contract(name: str, check: Check) -> None:
    if (name, check.name) in EXEMPT:
        pytest.skip(EXEMPT[name, check.name])
    method, kinds = METHODS[name]
    check(method, kinds=kinds)


@pytest.mark.parametrize(("name", "check"), sorted(EXEMPT), ids=str)
def test_exemptions_are_needed_and_explained(name: str, check: str) -> None:
    assert EXEMPT[name, check].strip()
    method, kinds = METHODS[name]
    with pytest.raises(ContractError):
        CHECKS[check](method, kinds=kinds)

"""Every registered method keeps the contract, and every exemption says why."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import concordant as cc
from concordant.base.checks import CHECKS, Check, checks_for
from concordant.base.contract import Aggregator
from concordant.errors import ContractError

RANKED = ("rank", "score", "rating")
VALUED = ("score", "rating")
# To methods that read the order alone, scores are ranks with another sign. The defaults are checked on both.
ORDERED = ("rank", "rating", "comparisons")

# Other parameters than the defaults that take another path through a method, and the kinds they can work on.
VARIANTS: list[tuple[Aggregator, tuple[str, ...] | None]] = [
    (cc.Borda(missing="zero"), ORDERED),
    (cc.MeanRank(missing="ignore"), ORDERED),
    (cc.RobustRank(missing="ignore"), ORDERED),
    (cc.RobustRank(total=40), ORDERED),
    (cc.RobustRank(correction="bonferroni"), ORDERED),
    (cc.Stuart(missing="ignore"), ORDERED),
    (cc.Condorcet(fusion=True), ORDERED),
    (cc.Condorcet(missing="below"), ORDERED),
    (cc.Copeland(missing="below"), ORDERED),
    (cc.Kemeny(solver="milp"), ORDERED),
    (cc.Kemeny(solver="local"), ORDERED),
    (cc.Kemeny(missing="below"), ORDERED),
    (cc.Kemeny(ties="mean"), ORDERED),
    (cc.Approval(k=2), ORDERED),
    (cc.Approval(threshold=3), VALUED),
    (cc.IRV(ties="keep"), ORDERED),
    (cc.Coombs(majority=False), ORDERED),
    (cc.Coombs(missing="below"), ORDERED),
    (cc.STV(seats=3, quota="hare"), ORDERED),
    (cc.STV(seats=2, transfer="meek"), ORDERED),
    (cc.Baldwin(missing="below"), ORDERED),
    (cc.Nanson(keep_average=True), ORDERED),
    (cc.Minimax(opposition="winning-votes"), ORDERED),
    (cc.Minimax(opposition="pairwise"), ORDERED),
    (cc.Schulze(strength="margins"), ORDERED),
    (cc.RankedPairs(strength="winning-votes", missing="below"), ORDERED),
    (cc.MarkovChain(chain=1), RANKED),
    (cc.MarkovChain(chain=2), RANKED),
    (cc.MarkovChain(chain=3), RANKED),
    (cc.MarkovChain(teleport=0.3), ORDERED),
    (cc.MarkovChain(missing="below"), ORDERED),
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
    (cc.RRF(k=0.5, ties="min"), ORDERED),
    (cc.RRF(ties="ordinal"), ORDERED),
    (cc.RRF(weights={"e1": 2.0, "e3": 0.25}, unknown_experts="ignore", ties="dense"), ORDERED),
    (cc.ISR(ties="max"), ORDERED),
    (cc.LogISR(sigma=0.0), ORDERED),
    (cc.CombMNZRank(k=3), ORDERED),
    (cc.BradleyTerry(ties="rao-kupper"), ORDERED),
    (cc.BradleyTerry(ties="none"), ORDERED),
    (cc.BradleyTerry(transform="count", prior="published"), ORDERED),
    (cc.BradleyTerry(prior=1.0, rank_ranges="simultaneous"), ORDERED),
    (cc.BradleyTerry(transform="log"), ORDERED),
    (cc.BradleyTerry(transform="rating"), ("score", "rating", "comparisons")),
    (cc.BradleyTerry(uncertainty="bootstrap", n_bootstrap=8), ORDERED),
    (cc.BradleyTerry(optimizer="gd"), ORDERED),
    (cc.BradleyTerry(reliability=True), ORDERED),
    (cc.BradleyTerry(side_effect=True), ("comparisons",)),
    (cc.PlackettLuce(missing="below"), ORDERED),
    (cc.PlackettLuce(prior=("gamma", 2.0, 1.0)), ORDERED),
    (cc.PlackettLuce(optimizer="mm", tol=1e-13), ORDERED),
    (cc.PlackettLuce(optimizer="gd"), ORDERED),
    (cc.PlackettLuce(adherence=True), ORDERED),
    (cc.PlackettLuce(ties="partition", prior="published"), ORDERED),
    (cc.PlackettLuce(ties="partition"), ORDERED),
    (cc.PlackettLuce(prior="published"), ORDERED),
    (cc.PlackettLuce(ties="davidson-luce"), ORDERED),
    (cc.PlackettLuce(ties="davidson-luce", missing="below", uncertainty="information"), ORDERED),
    (cc.PlackettLuce(ties="input"), ORDERED),
    (cc.PlackettLuce(ties="random"), ORDERED),
    (cc.PlackettLuce(uncertainty="bootstrap", n_bootstrap=5), ORDERED),
    (cc.ULARA(update="gd"), ORDERED),
    (cc.ULARA(update="printed"), ORDERED),
    (cc.ULARA(kappa=3), ORDERED),
    (cc.SVP(transform="binary"), ORDERED),
    (cc.SVP(transform="log", average=False), ORDERED),
    (cc.SVP(min_comparisons=2), ORDERED),
    (cc.SVP(transform="rating"), ("score", "rating", "comparisons")),
    (cc.SVP(rank=4), ORDERED),
    (cc.SVP(step="auto"), ORDERED),
    (cc.CPS(distance="footrule"), ORDERED),
    (cc.CPS(distance="spearman"), ORDERED),
    (cc.MPM(adherence="learned"), ORDERED),
    (cc.MPM(adherence="learned", variances=True), ORDERED),
    (cc.MPM(adherence="learned", variances="joint"), ORDERED),
    (cc.MPM(variances=True, adherence="none"), ORDERED),
    (cc.MPM(adherence="learned", optimizer="gd"), ORDERED),
    (cc.MPM(adherence="learned", optimizer="gd", variances=True), ORDERED),
    (cc.MPM(adherence="learned", instance_weights="counts"), None),
    (cc.MPM(adherence="learned", transform="binary"), ORDERED),
    (cc.MPM(transform="log"), ORDERED),
    (cc.MPM(uncertainty="bootstrap", n_bootstrap=20), ORDERED),
    (cc.Mallows(missing="below"), ORDERED),
    (cc.Mallows(dispersion=-0.5), ORDERED),
    (cc.Mixture(of=cc.PlackettLuce(uncertainty="none"), components=2, n_starts=2), ORDERED),
    (cc.Mixture(of=cc.BradleyTerry(uncertainty="none"), components=2, n_starts=2), ORDERED),
    (cc.Mixture(of=cc.MPM(uncertainty="none"), components=2, n_starts=2), ORDERED),
    (cc.Mixture(of=cc.Mallows(missing="below"), components=2, n_starts=2), ORDERED),
    (cc.ExtendedMallows(e_step="sampling", max_iter=5), ORDERED),
    (cc.ExtendedMallows(k=3, missing="below", max_iter=5), ORDERED),
    (cc.ExtendedMallows(missing="below", max_iter=5), ORDERED),
    (cc.ExtendedMallows(ranking_prior={"e1": -0.5}, max_iter=5), ORDERED),
    (cc.ExtendedMallows(e_step="borda", inference="borda"), ORDERED),
    (cc.ExtendedMallows(inference="best", max_iter=5), ORDERED),
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
    (cc.BoostedTrees(objective="xendcg", trees=3, models=1, max_items=4, unjudged="drop", min_items=1), None),
    (cc.Blend(members=[cc.SVDRank(passes=5), "copeland"], weights="equal"), ORDERED),
]

# Defaults that train long; more steps of the same kind break no promise.
SHORT: dict[str, Aggregator] = {
    "blend": cc.Blend(members=["rrf", cc.ListwiseLinear(l2=0.1)], cv=2, l2=0.1),
    "boosted-trees": cc.BoostedTrees(trees=4, models=2, min_items=2),
    "crf": cc.CRF(passes=15),
    "lambdarank": cc.LambdaRank(max_iter=15),
    "svd-rank": cc.SVDRank(passes=15),
}

METHODS: dict[str, tuple[type[Aggregator] | Aggregator, tuple[str, ...] | None]] = {
    **{name: (SHORT.get(name, cc.METHODS[name]), None) for name in cc.METHODS},
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
    ("IRV(ties='keep')", check): "items that nobody puts first are eliminated together, as asked"
    for check in ("one_expert_gets_its_own_order", "unanimous_order_is_kept", "unanimous_pairs_are_kept")
}
EXEMPT |= {
    ("RobustRank(correction='bonferroni')", check): "items whose rho is 1 or more tie, as in R"
    for check in ("unanimous_order_is_kept", "unanimous_pairs_are_kept")
}
EXEMPT |= {
    ("SVP(min_comparisons=2)", check): "a pair counts from a total weight of 2 on, as asked"
    for check in ("one_expert_gets_its_own_order", "extreme_weights_are_scaled_or_refused")
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

EXEMPT |= {
    (name, "names_of_items_are_irrelevant"): "from larger instances items are drawn by their ids"
    for name in METHODS
    if name.startswith("BoostedTrees(") and "max_items=4" in name
}
EXEMPT["list-mle", "order_of_rows_is_irrelevant"] = (
    "items of equal label stay in the order of the input, by definition, and that order is learned"
)

# What these ask depends on the class alone.
OF_THE_CLASS = {"parameters_round_trip", "init_only_assigns", "unknown_parameter_is_refused", "fit_returns_self"}
CASES = [
    (name, check)
    for name, (method, kinds) in METHODS.items()
    for check in checks_for(method)
    if name in cc.METHODS or check.name not in OF_THE_CLASS
    # These would take scores too: what they refuse is checked on the class.
    if kinds is not ORDERED or check.name != "wrong_kind_names_methods"
]


# Methods that learn by a package of an extra.
NEEDED = {"boosted-trees": "lightgbm", "BoostedTrees": "lightgbm"}


@pytest.mark.parametrize(("name", "check"), CASES, ids=str)
def test_contract(name: str, check: Check) -> None:
    needed = NEEDED.get(name.partition("(")[0])
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
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

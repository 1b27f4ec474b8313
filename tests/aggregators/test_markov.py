"""Markov chains against their transition matrices written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregators.common import assert_scores, from_matrix, instances_of
from tests.data.strategies import Rows, comparison_rows, preference_rows
from tests.oracles import methods as oracle

import concordant as cc
from concordant.errors import KindError, ParameterError


def test_worked_cases(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("18_markov_chains")
    for case in content["cases"]:
        chain = int(case["name"].removeprefix("MC"))
        R, teleport = case["input"]["R"], case["input"]["eps"]
        got = cc.MarkovChain(chain=chain, teleport=teleport).fit_predict(from_matrix(R)).score
        np.testing.assert_allclose(got, case["expected"]["stationary"], rtol=0, atol=content["abs_tol"])
        items = [f"i{i}" for i in range(len(R))]
        lists = [(1.0, {i: -row[k] for i, row in zip(items, R, strict=True) if row[k]}) for k in range(len(R[0]))]
        P = (1 - teleport) * oracle.transitions(items, lists, chain) + teleport / len(R)
        np.testing.assert_allclose(P, case["expected"]["P"], rtol=0, atol=content["abs_tol"])


@given(preference_rows(), st.sampled_from([1, 2, 3, 4]), st.sampled_from([0.01, 0.05, 0.5, 1.0]))
def test_scores_are_the_stationary_law(rows: Rows, chain: int, teleport: float) -> None:
    for p, items, lists in instances_of(rows):
        law = oracle.stationary(oracle.transitions(items, lists, chain), teleport)
        got = cc.MarkovChain(chain=chain, teleport=teleport).fit_predict(p)
        assert_scores(got, dict(zip(items, law.tolist(), strict=True)))
        np.testing.assert_allclose(got.score, law, rtol=0, atol=1e-12)


@given(comparison_rows())
def test_chain_four_takes_a_strict_majority_of_comparisons(arguments: dict[str, Any]) -> None:
    c = cc.Comparisons(**arguments)
    for q in c.instances:
        items = [i for r, i in arguments["items"] if r == q]
        lists = []
        columns = ("instance", "left", "right", "n_left", "n_right", "n_ties")
        for r, left, right, n_left, n_right, n_ties in zip(*(arguments[x] for x in columns), strict=True):
            if r == q:
                lists += [(n_left, {left: 1.0, right: 0.0}), (n_right, {left: 0.0, right: 1.0})]
                lists += [(n_ties, {left: 0.0, right: 0.0})]
        law = oracle.stationary(oracle.transitions(items, lists, 4), 0.05)
        np.testing.assert_allclose(cc.MarkovChain().fit_predict(c[q]).score, law, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chain", [1, 2, 3, 4])
@pytest.mark.parametrize("teleport", [0.001, 0.05])
def test_many_items_are_solved_to_the_last_digits(chain: int, teleport: float) -> None:
    rng = np.random.default_rng(chain)
    quality = rng.standard_normal(140)
    lists = {}
    for k in range(8):
        order = np.argsort(quality + rng.standard_normal(140))[: 30 + 15 * k]
        lists[f"e{k}"] = {f"i{i}": float(round(-n / 3)) for n, i in enumerate(order.tolist())}
    p = cc.from_lists(lists, weights={"e0": 2.5, "e3": 0.0})
    items = p.items.tolist()
    weighted = [(2.5 if e == "e0" else 0.0 if e == "e3" else 1.0, held) for e, held in lists.items()]
    law = oracle.stationary(oracle.transitions(items, weighted, chain), teleport)
    got = cc.MarkovChain(chain=chain, teleport=teleport).fit_predict(p).score
    np.testing.assert_allclose(got, law, rtol=1e-9, atol=1e-13)


def test_chains_along_lists_refuse_comparisons() -> None:
    c = cc.Comparisons("q", None, ["a"], ["b"])
    with pytest.raises(KindError, match=r"chain=2\) walks along lists .* Use chain=4"):
        cc.MarkovChain(chain=2).fit_predict(c)


@pytest.mark.parametrize("params", [{"chain": 5}, {"chain": True}, {"teleport": 0.0}, {"teleport": 1.5}])
def test_parameters_outside_their_range_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="parameter of MarkovChain"):
        cc.MarkovChain(**params).fit_predict(cc.from_lists({"x": ["a"]}))

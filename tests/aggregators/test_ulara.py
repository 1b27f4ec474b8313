"""ULARA against the worked case, its sums written out, and experts whose worth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import Rows, preference_rows
from tests.oracles import ulara as oracle

import concordant as cc
from concordant.errors import ConcordantWarning, DataError, NotFittedError, ParameterError


@contextmanager
def quiet() -> Iterator[None]:
    """Let pass what is said about experts nothing can be learned of."""
    with catch_warnings():
        simplefilter("ignore", ConcordantWarning)
        yield


def instances_of(rows: Rows) -> list[tuple[str, list[str], list[tuple[str, float, dict[str, float]]]]]:
    out = []
    for q in dict.fromkeys(q for q, _ in rows.items):
        lists = []
        for e in rows.experts:
            held = {i: (-v if rows.kind == "rank" else v) for r, x, i, v in rows.rows if r == q and x == e}
            if held:
                lists.append((e, 1.0 if rows.weights is None else rows.weights[q, e], held))
        out.append((q, [i for r, i in rows.items if r == q], lists))
    return out


def from_sigma(sigma: list[list[list[int]]]) -> cc.Preferences:
    """Return preferences from ranks by instance, expert and item, 0 = not ranked."""
    rows = [
        (f"q{q}", f"e{k}", f"i{i}", rank)
        for q, table in enumerate(sigma)
        for k, ranks in enumerate(table)
        for i, rank in enumerate(ranks)
        if rank
    ]
    items = [(f"q{q}", f"i{i}") for q, table in enumerate(sigma) for i in range(len(table[0]))]
    return cc.Preferences(*zip(*rows, strict=True), items=items)


def test_worked_cases(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("16_ulara")
    tol = content["abs_tol"]
    for case in content["cases"]:
        given, want = case["input"], case["expected"]
        p = from_sigma(given["sigma_q_k_item"])
        total = np.array(want["total_disagreement"])
        # The cases give the steps as such; eta is the step over the mean disagreement (and per expert for "gd").
        etas = {"eg": given["lam"] * total.mean(), "gd": given["lam_gd"] * total.mean() * len(total), "printed": 1.0}
        weights = {"eg": "w_eg", "gd": "w_gd_projected", "printed": "w_printed_WRONG"}
        for update, eta in etas.items():
            ulara = cc.ULARA(update=update, eta=eta, nu=given["nu"], kappa=given["kappa"][0]).fit(p)
            np.testing.assert_allclose(ulara.adherence_, want[weights[update]], rtol=0, atol=tol)
            ratio = np.array(ulara.expert_details_["disagreement"])
            np.testing.assert_allclose(ratio * total.mean(), total, rtol=0, atol=tol)
        answer = cc.ULARA(eta=etas["eg"], nu=given["nu"]).fit_predict(p)["q0"]
        np.testing.assert_allclose(-answer.score, want["weighted_borda_query0"], rtol=0, atol=tol)
        assert answer.ranking() == [f"i{i}" for i in want["ranking_query0"]]


@given(
    preference_rows(max_instances=4),
    st.sampled_from(["eg", "gd", "printed"]),
    st.sampled_from([0.0, 0.7, 3.0]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1, 3]),
)
def test_weights_and_scores_are_their_sums(
    rows: Rows, update: str, eta: float, nu: int | None, kappa: int | None
) -> None:
    method = cc.ULARA(update=update, eta=eta, nu=nu, kappa=kappa)
    with quiet():
        answer = method.fit_predict(rows.build())
    instances = instances_of(rows)
    ratio = oracle.ratios([(items, lists) for _, items, lists in instances], nu, kappa)
    learned = dict(zip(method.experts_, method.expert_details_["disagreement"], strict=True))
    assert learned == pytest.approx({e: ratio.get(e, 1.0) for e in rows.experts}, abs=1e-9)
    trust = dict(zip(method.experts_, method.adherence_.tolist(), strict=True))
    if update == "eg" and ratio:
        first = next(iter(ratio))
        for e in ratio:
            assert trust[e] / trust[first] == pytest.approx(math.exp(-eta * (ratio[e] - ratio[first])), rel=1e-9)
    for q, items, lists in instances:
        want = oracle.scores(items, lists, trust, kappa)
        np.testing.assert_allclose(answer[q].score, [want[i] for i in items], rtol=0, atol=1e-9)


@given(preference_rows(max_instances=4, weighted=False), st.floats(0, 8))
def test_projected_weights_are_the_nearest_on_the_simplex(rows: Rows, eta: float) -> None:
    with quiet():
        method = cc.ULARA(update="gd", eta=eta).fit(rows.build())
    speaks = np.array([any(e == x for _, x, _, _ in rows.rows) for e in rows.experts])
    if not speaks.any():
        return
    w = method.adherence_[speaks]
    ratio = np.array(method.expert_details_["disagreement"])[speaks]
    goal = (1 - eta * (ratio - 1)) / len(w)
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    assert w.min() >= 0
    # No vertex lies in a direction in which the distance falls: the optimality of a projection.
    slope = w - goal
    assert (slope - slope @ w >= -1e-9).all()


def random_and_good(n_good: int, n_random: int, seed: int) -> tuple[cc.Preferences, cc.Labels]:
    """Return top 20 of 200 items for 12 instances: experts who see relevance through noise, and others who do not."""
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for q in range(12):
        label = (np.arange(200) < 15).astype(float)
        truth += [(f"q{q}", f"i{i}", label[i]) for i in range(200)]
        for e in range(n_good + n_random):
            latent = rng.normal(size=200) + (2.0 * label if e < n_good else 0.0)
            rows += [(f"q{q}", f"e{e}", f"i{i}", r + 1) for r, i in enumerate(np.argsort(-latent)[:20].tolist())]
    return cc.Preferences(*zip(*rows, strict=True)), cc.Labels(*zip(*truth, strict=True))


def test_random_experts_lose_their_weight_and_the_answer_gains() -> None:
    p, labels = random_and_good(5, 25, seed=3)
    ulara = cc.ULARA()
    answer = ulara.fit_predict(p)
    weight = dict(zip(ulara.experts_, ulara.adherence_.tolist(), strict=True))
    assert min(weight[f"e{e}"] for e in range(5)) > 1.5 * max(weight[f"e{e}"] for e in range(5, 30))
    precision = {
        name: cc.evaluate(c, labels, ["p@10"]).mean["p@10"]
        for name, c in {"ulara": answer, "mnz": cc.CombMNZRank(k=20).fit_predict(p)}.items()
    }
    assert precision["ulara"] > precision["mnz"] + 0.05
    printed = cc.ULARA(update="printed").fit(p)
    assert printed.adherence_[:5].max() < printed.adherence_[5:].min()
    table = ulara.expert_weights_
    assert table.columns == ["expert", "weight", "disagreement"]


def test_instances_without_a_list_say_nothing_about_an_expert() -> None:
    p, _ = random_and_good(4, 3, seed=1)
    rows = p.to_frame()
    first = rows.filter(rows["instance"].is_in([f"q{q}" for q in range(5)]))
    rest = rows.filter(~rows["instance"].is_in([f"q{q}" for q in range(5)]) & (rows["expert"] != "e5"))
    ratio = {}
    for name, frame in {"five": first, "all": first.vstack(rest)}.items():
        ulara = cc.ULARA().fit(cc.from_frame(frame))
        ratio[name] = dict(zip(ulara.experts_, ulara.expert_details_["disagreement"], strict=True))["e5"]
    assert ratio["all"] == pytest.approx(ratio["five"], rel=1e-12)


def test_equal_weights_are_mean_positions() -> None:
    p = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "d", "a"], "z": ["c", "a", "b"]})
    answer = cc.ULARA(eta=0).fit_predict(p)
    np.testing.assert_allclose(answer.score, [-2.0, -2.0, -8 / 3, -10 / 3])


def test_experts_that_fit_did_not_see() -> None:
    train = cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "b", "c"], "z": ["c", "b", "a"]})
    test = cc.from_lists({"x": ["a", "b"], "new": ["b", "a"]})
    with pytest.raises(DataError, match=r"nothing about the experts \['new'\]. Known: \['x', 'y', 'z'\]"):
        cc.ULARA().fit(train).predict(test)
    assert cc.ULARA(unknown_experts="ignore").fit(train).predict(test).ranking() == ["a", "b"]
    # A known expert who is absent has no effect, and one who is not trusted at all is better than nobody.
    assert cc.ULARA().fit(train).predict(cc.from_lists({"y": ["b", "a"]})).ranking() == ["b", "a"]
    stern = cc.ULARA(update="gd", eta=5).fit(train)
    assert stern.adherence_[2] == 0
    assert stern.predict(cc.from_lists({"z": ["b", "a"]})).ranking() == ["b", "a"]


def test_nothing_to_learn_is_said() -> None:
    with pytest.warns(ConcordantWarning, match=r"nothing can be learned about the experts \['x'\]"):
        answer = cc.ULARA().fit_predict(cc.from_lists({"x": ["a", "b"]}))
    assert answer.ranking() == ["a", "b"]
    agreed = cc.ULARA().fit(cc.from_lists({"x": ["a", "b", "c"], "y": ["a", "b", "c"]}))
    assert agreed.adherence_.tolist() == [0.5, 0.5]
    assert agreed.fit_info_.objective == pytest.approx(1.0)
    assert agreed.fit_info_.gradient_norm == pytest.approx(0.0, abs=1e-12)


def test_not_fitted_and_bad_parameters() -> None:
    p = cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]})
    with pytest.raises(NotFittedError, match="ULARA is not fitted"):
        cc.ULARA().predict(p)
    for params in ({"update": "ascent"}, {"eta": -1}, {"nu": 0}, {"kappa": 1.5}, {"unknown_experts": "drop"}):
        with pytest.raises(ParameterError, match=f"'{next(iter(params))}' parameter of ULARA"):
            cc.ULARA(**params).fit(p)  # type: ignore[arg-type]

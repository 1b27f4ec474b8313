"""`summary()` against R's printed figures, brute-force likelihoods and numeric Hessians."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

import concordant as cc
from concordant.errors import DataError, FormatError, KindError, NotFittedError, ParameterError

Floats = NDArray[np.float64]
QUIET = pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")

# Citations of statistical journals (Agresti, Categorical Data Analysis; data of R's BradleyTerry2).
JOURNALS = ["Biometrika", "Comm Statist", "JASA", "JRSS-B"]
CITED = [[714, 730, 498, 221], [33, 425, 68, 17], [320, 813, 1072, 142], [284, 276, 325, 188]]
# Paired comparisons of chocolate puddings (Davidson 1970; data of R's PlackettLuce): i, j, i wins, j wins, ties.
PUDDING = """1 2 19 22 16; 1 3 16 19 12; 2 3 19 19 10; 1 4 18 23 13; 2 4 23 19 9;
3 4 19 20 15; 1 5 13 19 18; 2 5 16 20 12; 3 5 16 15 17; 4 5 17 14 16;
1 6 18 21 12; 2 6 22 20 12; 3 6 13 18 10; 4 6 14 19 18; 5 6 11 21 12"""


def hessian(f: Callable[[Floats], float], x: Floats, h: float = 1e-4) -> Floats:
    """Return the second derivatives of a function by central differences."""
    n = len(x)
    out = np.empty((n, n))
    step = h * np.eye(n)
    for i in range(n):
        for j in range(n):
            terms = [s * t * f(x + s * step[i] + t * step[j]) for s in (1, -1) for t in (1, -1)]
            out[i, j] = sum(terms) / (4 * h * h)
    return out


def row(summary: Any, term: str) -> Any:
    (found,) = [r for r in summary.rows if r.term == term]
    return found


def citations() -> cc.Comparisons:
    pairs = list(itertools.combinations(range(4), 2))
    left, right = ([JOURNALS[p[k]] for p in pairs] for k in (0, 1))
    wins = [[CITED[i][j] for i, j in pairs], [CITED[j][i] for i, j in pairs]]
    return cc.Comparisons("journals", None, left, right, *wins)


# Against R.


def test_bradley_terry_equals_r_on_citations() -> None:
    """BradleyTerry2 prints these estimates, errors, the residual deviance 4.2934 on 3 df, and the AIC 46.39."""
    model = cc.BradleyTerry(prior=0, anchor="Biometrika")
    model.fit_predict(citations())
    found = model.summary()
    printed = {"Comm Statist": (-2.94907, 0.10255), "JASA": (-0.47957, 0.06059), "JRSS-B": (0.26895, 0.07083)}
    for journal, (estimate, error) in printed.items():
        assert row(found, journal).estimate == pytest.approx(estimate, abs=5e-6)
        assert row(found, journal).stderr == pytest.approx(error, abs=5e-6)
    assert (row(found, "JASA").z, row(found, "JRSS-B").z) == pytest.approx((-7.915, 3.797), abs=1e-3)
    assert math.isnan(row(found, "Biometrika").stderr)
    whole = found.log_likelihood + found.log_multinomials
    assert -2 * whole + 2 * found.n_parameters == pytest.approx(46.39, abs=0.005)
    c = citations()
    saturated = stats.binom.logpmf(c.n_left, c.n_left + c.n_right, c.n_left / (c.n_left + c.n_right)).sum()
    assert 2 * (saturated - whole) == pytest.approx(4.2934, abs=5e-5)
    assert found.n_parameters == 3


def pudding() -> list[list[int]]:
    return np.array(PUDDING.replace(";", "").split(), dtype=int).reshape(-1, 5).tolist()


def test_davidson_luce_equals_r_on_pudding() -> None:
    """R's PlackettLuce prints tie2 −0.2919 (0.0825), z −3.539, p 0.000402, and the residual deviance 1619.4."""
    lists, weights = {}, {}
    for n, (i, j, *counts) in enumerate(pudding()):
        for k, (ranks, times) in enumerate(zip(((1, 2), (2, 1), (1, 1)), counts, strict=True)):
            lists[f"{n}.{k}"] = {str(i): -float(ranks[0]), str(j): -float(ranks[1])}
            weights[f"{n}.{k}"] = float(times)
    votes = cc.from_lists(lists).scale_weights(weights)
    model = cc.PlackettLuce(prior=0, ties="davidson-luce", uncertainty="information")
    model.fit_predict(votes)
    found = model.summary()
    tie = row(found, "log δ2")
    assert (tie.estimate, tie.stderr, tie.z) == pytest.approx((-0.2919, 0.0825, -3.539), abs=5.1e-4)
    assert tie.p_value == pytest.approx(0.000402, abs=5e-7)
    assert -2 * found.log_likelihood == pytest.approx(1619.4, abs=0.05)
    assert found.n_observations == 745
    # For pairs it is Davidson's model of Bradley-Terry.
    i, j, won, lost, tied = zip(*pudding(), strict=True)
    other = cc.BradleyTerry(prior=0)
    other.fit_predict(cc.Comparisons("q", None, map(str, i), map(str, j), won, lost, tied))
    twin = other.summary()
    assert (twin.log_likelihood, twin.aic) == pytest.approx((found.log_likelihood, found.aic), abs=1e-8)
    assert row(twin, "log ν").stderr == pytest.approx(tie.stderr, rel=1e-6)


# Against the likelihood written out.


def davidson(left: str, right: str, s: dict[str, float], tie: float, side: float) -> Floats:
    gap = s[left] - s[right] + side
    weight = np.array([math.exp(gap / 2), math.exp(-gap / 2), math.exp(tie)])
    return weight / weight.sum()


def rao_kupper(left: str, right: str, s: dict[str, float], tie: float, side: float) -> Floats:
    gap = s[left] - s[right] + side
    won, lost = (1 / (1 + math.exp(tie - g)) for g in (gap, -gap))
    return np.array([won, lost, 1 - won - lost])


GAMES = [("a", "b", 7, 3, 2), ("b", "c", 5, 4, 1), ("c", "a", 3, 6, 2), ("b", "a", 4, 4, 1), ("d", "c", 6, 2, 1)]
GAMES += [("d", "a", 3, 4, 3), ("d", "b", 1, 5, 0)]


def games() -> cc.Comparisons:
    left, right, *counts = zip(*GAMES, strict=True)
    return cc.Comparisons("q", None, left, right, *counts)


@pytest.mark.parametrize(("ties", "outcome"), [("davidson", davidson), ("rao-kupper", rao_kupper)])
def test_scores_tie_and_side_have_the_errors_of_a_numeric_hessian(ties: str, outcome: Callable[..., Floats]) -> None:
    model = cc.BradleyTerry(prior=0, ties=ties, side_effect=True)
    board = model.fit_predict(games())
    found = model.summary()

    def loss(x: Floats) -> float:
        s = dict(zip("abcd", (*x[:3], -x[:3].sum()), strict=True))
        return -sum(float(np.array(n) @ np.log(outcome(i, j, s, x[3], x[4]))) for i, j, *n in GAMES)

    best = optimize.minimize(loss, np.array([0, 0, 0, 0.2, 0]), options={"gtol": 1e-9})
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-8)
    assert found.log_multinomials == pytest.approx(
        sum(math.lgamma(sum(n) + 1) - sum(math.lgamma(k + 1) for k in n) for *_, n in [(i, j, n) for i, j, *n in GAMES])
    )
    table = np.linalg.inv(hessian(loss, best.x))
    terms = ["a", "b", "c", "log ν" if ties == "davidson" else "log ξ", "side"]
    for k, term in enumerate(terms):
        assert row(found, term).estimate == pytest.approx(best.x[k], abs=1e-5)
        assert row(found, term).stderr == pytest.approx(math.sqrt(table[k, k]), rel=1e-4)
    assert found.aic == pytest.approx(2 * best.fun + 10)
    assert found.bic == pytest.approx(
        2 * best.fun + 5 * math.log(sum(sum(n) for *_, n in [(0, n) for _, _, *n in GAMES]))
    )
    # The public frames hold the same covariances, by name.
    shared = model.covariance("parameters")
    assert shared.columns == ["term", *terms[3:]]
    np.testing.assert_allclose(shared.drop("term").to_numpy(), table[3:, 3:], rtol=1e-3)
    scores = model.covariance()
    assert scores["term"].to_list() == list("abcd")
    np.testing.assert_allclose(scores.drop("term").to_numpy()[:3, :3], table[:3, :3], rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(board.covariance_frame("q").drop("term").to_numpy(), scores.drop("term").to_numpy())


X = np.array([[10.0, 1.0], [30.0, 0.0], [25.0, 4.0], [60.0, 2.0]])


def features() -> cc.Features:
    return cc.Features(["q"] * 4, list("abcd"), X, names=["price", "stars"])


def test_coefficients_are_in_the_units_of_the_user() -> None:
    model = cc.BradleyTerry(prior=0, side_effect=True)
    model.fit_predict(games(), features=features())
    found = model.summary()

    def loss(x: Floats) -> float:
        s = dict(zip("abcd", X @ x[:2], strict=True))
        return -sum(float(np.array(n) @ np.log(davidson(i, j, s, x[2], x[3]))) for i, j, *n in GAMES)

    values = [row(found, term).estimate for term in ("price", "stars", "log ν", "side")]
    assert found.log_likelihood == pytest.approx(-loss(np.array(values)), abs=1e-9)
    table = np.linalg.inv(hessian(loss, np.array(values)))
    frame = model.covariance("parameters")
    assert frame.columns == ["term", "price", "stars", "log ν", "side"]
    np.testing.assert_allclose(frame.drop("term").to_numpy(), table, rtol=2e-3, atol=1e-7)
    assert [r.kind for r in found.rows] == ["feature", "feature", "tie", "side"]
    assert found.n_parameters == 4


def choices(order: list[list[str]], s: dict[str, float], ties: dict[int, float]) -> float:
    """Return the Davidson-Luce log-likelihood of blocks, over all sets of the sizes in `ties` and of size 1."""
    left, value = [i for block in order for i in block], 0.0
    for block in order:
        if len(left) == 1:
            break
        sizes = {1: 0.0} | ties
        sets = [(q, c) for q in sizes if q <= len(left) for c in itertools.combinations(left, q)]
        terms = [sizes[q] + sum(s[i] for i in c) / q for q, c in sets]
        value += sizes[len(block)] + sum(s[i] for i in block) / len(block) - float(np.logaddexp.reduce(terms))
        left = [i for i in left if i not in block]
    return value


BLOCKS = ["a/b/c/d", "b/a/cd", "a/cd/b", "ab/d/c", "c/a/b/d", "d/b/ac", "a/d/b/c", "b/c/ad", "c/bd/a", "d/c/b/a"]


def tied_lists() -> cc.Preferences:
    return cc.from_lists(
        {f"e{n}": {i: -float(k) for k, b in enumerate(t.split("/")) for i in b} for n, t in enumerate(BLOCKS)}
    )


@QUIET
@pytest.mark.parametrize("linear", [False, True])
def test_plackett_luce_has_the_errors_of_a_numeric_hessian(linear: bool) -> None:
    model = cc.PlackettLuce(prior=0, ties="davidson-luce", uncertainty="information")
    model.fit_predict(tied_lists(), features=features() if linear else None)
    found = model.summary()
    basis = X if linear else np.eye(4)[:, :3] - np.eye(4)[3][:, None]

    def loss(x: Floats) -> float:
        s = dict(zip("abcd", basis @ x[:-1], strict=True))
        return -sum(choices([list(b) for b in text.split("/")], s, {2: x[-1]}) for text in BLOCKS)

    terms = [*(["price", "stars"] if linear else "abc"), "log δ2"]
    values = np.array([row(found, term).estimate for term in terms])
    assert found.log_likelihood == pytest.approx(-loss(values), abs=1e-9)
    table = np.linalg.inv(hessian(loss, values))
    errors = [row(found, term).stderr for term in terms]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(table)), rtol=2e-3)
    assert found.n_parameters == len(terms)
    assert found.n_observations == sum(len(t.split("/")) - (len(t.split("/")[-1]) == 1) for t in BLOCKS)
    assert model.covariance("parameters").columns == ["term", *(terms if linear else terms[-1:])]


@QUIET
def test_a_prior_leaves_the_log_likelihood_and_takes_aic_away() -> None:
    votes = tied_lists()
    for model in (cc.PlackettLuce(prior=0.7), cc.PlackettLuce(prior=("gamma", 2.0, 1.5))):
        model.fit_predict(votes)
        found = model.summary()
        at_mode = cc.PlackettLuce(prior=0)
        at_mode.fit_predict(votes)
        below = at_mode.summary().log_likelihood - found.log_likelihood
        assert 0 < below < 2
        assert (found.aic, found.bic) == (None, None)
        assert "Fit with prior=0" in found.no_criteria
        assert "AIC and BIC: none. The estimates have a prior" in repr(found)
    model = cc.BradleyTerry(prior=0.5)
    board = model.fit_predict(games())
    s = dict(zip("abcd", board.score.tolist(), strict=True))
    value = sum(float(np.array(n) @ np.log(davidson(i, j, s, math.log(model.tie_), 0.0))) for i, j, *n in GAMES)
    assert model.summary().log_likelihood == pytest.approx(value, abs=1e-9)
    assert model.summary().aic is None


# The other likelihoods.


def kendall(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    at = {i: k for k, i in enumerate(other)}
    return sum(at[i] > at[j] for i, j in itertools.combinations(one, 2))


@QUIET
def test_mallows_against_the_sum_over_all_rankings() -> None:
    lists = {"x": "abcd", "y": "abdc", "z": "bacd", "w": "adbc", "v": "abcd"}
    model = cc.Mallows()
    centre = tuple(model.fit_predict(cc.from_lists({k: list(v) for k, v in lists.items()})).ranking())
    found = model.summary()
    distances = [kendall(tuple(v), centre) for v in lists.values()]
    every = [kendall(p, centre) for p in itertools.permutations("abcd")]

    def loss(x: Floats) -> float:
        return -sum(x[0] * d - math.log(sum(math.exp(x[0] * e) for e in every)) for d in distances)

    (theta,) = found.rows
    assert found.log_likelihood == pytest.approx(-loss(np.array([theta.estimate])))
    assert theta.stderr == pytest.approx(hessian(loss, np.array([theta.estimate]))[0, 0] ** -0.5, rel=1e-5)
    assert (found.n_parameters, found.n_observations, found.aic) == (1, 5, None)
    assert "The centre is a ranking" in found.no_criteria


@QUIET
def test_extended_mallows_against_the_sum_over_all_rankings() -> None:
    sample = cc.synthetic.mallows(4, theta={"a": -1.2, "b": -0.6, "c": -0.3}, n_instances=30, random_state=3)
    model = cc.ExtendedMallows(tol=1e-9, max_iter=1000)
    model.fit_predict(sample.preferences)
    found = model.summary()
    theta = dict(zip(model.experts_, model.theta_.tolist(), strict=True))
    frame, value = sample.preferences.to_frame().drop_nulls(), 0.0
    for (_,), part in frame.group_by(["instance"]):
        lists = {e: tuple(p.sort("rank")["item"].to_list()) for (e,), p in part.group_by(["expert"])}
        every = list(itertools.permutations(lists["a"]))
        sums = {e: math.log(sum(math.exp(theta[e] * kendall(p, every[0])) for p in every)) for e in theta}
        terms = [sum(theta[e] * kendall(lists[e], p) - sums[e] for e in theta) for p in every]
        value += float(np.logaddexp.reduce(terms)) - math.lgamma(5)
    assert found.log_likelihood == pytest.approx(value, abs=1e-6)
    assert (found.n_parameters, found.n_observations) == (3, 90)
    assert found.aic == pytest.approx(6 - 2 * value, abs=1e-5)
    assert all(math.isnan(r.stderr) for r in found.rows)


@QUIET
def test_learned_adherence_counts_as_parameters() -> None:
    """A change of the scale of α undoes one of the scores: the rank of the Jacobian is that of α and s less 1."""
    model = cc.PlackettLuce(adherence=True)
    model.fit_predict(tied_lists())
    scores, alpha = model.consensus_.score[:-1], model.adherence_

    def utilities(x: Floats) -> Floats:
        s = np.append(x[:3], -x[:3].sum())
        return np.outer(x[3:], s).ravel()

    at = np.concatenate([scores, alpha])
    jacobian = [(utilities(at + h) - utilities(at - h)) / 2e-6 for h in 1e-6 * np.eye(len(at))]
    found = model.summary()
    assert found.n_parameters == np.linalg.matrix_rank(np.array(jacobian), tol=1e-6) == 3 + 10 - 1
    plain = cc.PlackettLuce()
    plain.fit_predict(tied_lists())
    ours, theirs = (m.goodness_of_fit(tied_lists())["df"][0] for m in (model, plain))
    assert theirs - ours == 10 - 1
    unnamed = cc.MPM(adherence="learned")
    unnamed.fit_predict(tied_lists())
    assert "adherence not counted" in repr(unnamed.summary())


@QUIET
def test_summary_of_one_instance_says_whose_log_likelihood_it_prints() -> None:
    sample = cc.synthetic.mallows(4, theta={"a": -1.2, "b": -0.6, "c": -0.3}, n_instances=5, random_state=3)
    model = cc.PlackettLuce()
    model.fit_predict(sample.preferences)
    note = "The log-likelihood and its degrees of freedom are those of all 5 instances"
    assert note in model.summary(sample.preferences.instances[1]).notes
    assert note not in model.summary().notes


@QUIET
def test_mpm_against_the_multinomial_over_ordered_pairs() -> None:
    votes = cc.Comparisons("q", None, ["a", "a", "b"], ["b", "c", "c"], [7, 8, 6], [3, 2, 4])
    model = cc.MPM(adherence="none")
    s = dict(zip("abc", model.fit_predict(votes).score.tolist(), strict=True))
    found = model.summary()
    norm = math.log(sum(math.exp(s[i] - s[j]) for i, j in itertools.permutations("abc", 2)))
    counts = {"ab": 7, "ba": 3, "ac": 8, "ca": 2, "bc": 6, "cb": 4}
    value = sum(n * (s[p[0]] - s[p[1]] - norm) for p, n in counts.items())
    assert found.log_likelihood == pytest.approx(value, abs=1e-9)
    assert (found.n_parameters, found.n_observations) == (2, 30)
    assert found.aic == pytest.approx(4 - 2 * value)
    lists = cc.MPM(adherence="learned")
    lists.fit_predict(tied_lists())
    assert [r.kind for r in lists.summary().rows].count("adherence") == 10
    assert "not estimated by the likelihood" in lists.summary().no_criteria
    wide = cc.MPM(variances=True, adherence="none")
    wide.fit_predict(votes)
    assert wide.summary().log_likelihood is None
    assert "Log-likelihood: not known. The variances have a prior" in repr(wide.summary())


# What it prints and refuses.


@QUIET
def test_p_values_agree_with_the_intervals() -> None:
    """p is below 1 − level where the interval does not hold 0, also with Student's t for few experts."""
    votes = cc.synthetic.plackett_luce({"a": 0.8, "b": 0.3, "c": 0.1, "d": -0.2, "e": -1.0}, 14, random_state=2)
    for level in (0.95, 0.8):
        model = cc.PlackettLuce(level=level)
        model.fit_predict(votes.preferences)
        for r in model.summary().rows:
            assert (r.p_value < 1 - level) == (r.lower > 0 or r.upper < 0)
            assert r.z == pytest.approx(r.estimate / r.stderr)
            # Wider than the normal distribution's: the Student's t of the interval.
            assert r.p_value > 2 * stats.norm.sf(abs(r.z))
            half = (r.upper - r.lower) / (2 * r.stderr)
            freedom = optimize.brentq(
                lambda df, half=half, level=level: stats.t.ppf((1 + level) / 2, df) - half, 1, 1e6
            )
            assert r.p_value == pytest.approx(2 * stats.t.sf(abs(r.z), freedom), rel=1e-6)
        assert "p and intervals of items: Student's t with" in repr(model.summary())


@QUIET
def test_what_the_notes_say_of_errors_prior_and_weights() -> None:
    lists = {"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["c", "b", "a"], "w": ["a", "c", "b"]}
    votes = cc.from_lists(lists, weights={"x": 3, "y": 2, "z": 2, "w": 1})

    def notes(model: Any) -> str:
        model.fit_predict(votes)
        return "\n".join(model.summary().notes)

    assert "4 experts, 4 lists of total weight 8" in notes(cc.PlackettLuce())
    assert "Student's t" not in notes(cc.PlackettLuce(uncertainty="information"))
    assert "Prior: normal, precision 0.1 (auto)" in notes(cc.PlackettLuce())
    assert "Prior: normal, precision 2" in notes(cc.PlackettLuce(prior=2.0))
    assert "Prior: Gamma(2, 1) on exp(score)" in notes(cc.PlackettLuce(prior=("gamma", 2, 1)))
    assert "precision 0.1 times the pairs per choice (auto)" in notes(cc.BradleyTerry())
    assert "Standard errors: observed information of θ; 4 experts" in notes(cc.Mallows())
    assert "Standard errors: none, θ is given" in notes(cc.Mallows(dispersion=-0.5))

    games_model = cc.BradleyTerry(uncertainty="none")
    games_model.fit_predict(games())
    assert "Standard errors: none for scores, observed information for the others" in games_model.summary().notes
    gd = cc.BradleyTerry(optimizer="gd", ties="none")
    gd.fit_predict(games())
    assert gd.summary().no_criteria == "optimizer='gd' stops before the maximum."
    assert "Prior: none" in gd.summary().notes


def test_an_anchor_has_no_variance_at_all() -> None:
    model = cc.BradleyTerry(prior=0, anchor="a")
    model.fit_predict(games())
    table = model.covariance().drop("term").to_numpy()
    n = model.consensus_.items.tolist().index("a")
    assert not table[n].any()
    assert not table[:, n].any()


@QUIET
def test_frame_dictionary_and_notebook() -> None:
    two = cc.concat([games(), cc.Comparisons("<r>", None, ["k", "l"], ["l", "k"], [5, 2], [3, 4], [1, 0])])
    model = cc.BradleyTerry(prior=0, side_effect=True)
    model.fit_predict(two)
    found = model.summary()
    frame = found.to_frame()
    assert frame.columns == ["instance", "kind", "term", "estimate", "stderr", "z", "p_value", "lower", "upper"]
    assert frame["instance"].to_list() == ["q"] * 4 + ["<r>"] * 2 + [None] * 2
    assert model.summary("<r>").to_frame()["term"].to_list() == ["k", "l", "log ν", "side"]
    assert found.to_dict()["rows"][0]["term"] == "a"
    html = found._repr_html_()
    assert "&lt;r&gt;" in html
    assert "<r>" not in html
    assert "items of instance 'q'" in repr(found)
    with pytest.raises(DataError, match="there are 2 instances"):
        model.covariance()
    with pytest.raises(DataError, match="no instance 'z'"):
        model.summary("z")
    many = cc.BradleyTerry()
    many.fit_predict(cc.Comparisons("q", None, [f"i{n}" for n in range(80)], [f"i{n + 1}" for n in range(80)]))
    assert "… 21 more rows: to_frame() has all" in repr(many.summary())


def test_decimals_follow_the_standard_errors() -> None:
    """Coefficients of one covariate in grams and in tonnes have the same digits."""
    grams = 1000.0 * np.array([[3.1], [0.4], [2.2], [1.6]])
    printed = {}
    for unit in (1.0, 1e6):
        weight = cc.Features(["q"] * 4, list("abcd"), grams / unit, names=["weight"])
        model = cc.BradleyTerry(prior=0)
        model.fit_predict(games(), features=weight)
        found = row(model.summary(), "weight")
        (line,) = [text for text in repr(model.summary()).splitlines() if text.startswith("  weight")]
        _, *numbers = re.findall(r"[-+.\dE]+|weight", line)
        shown = [float(text) for text in numbers]
        exact = [found.estimate, found.stderr, found.z, found.p_value, found.lower, found.upper]
        np.testing.assert_allclose(shown, exact, rtol=5e-3)
        assert abs(shown[1] / found.stderr - 1) < 5e-4
        assert numbers[1] in model.summary()._repr_html_()
        printed[unit] = [text.replace(".", "").lstrip("-0") for text in numbers[:2]]
    assert printed[1.0] == printed[1e6]


@QUIET
def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(
        KindError, match=r"RRF has no likelihood.*These have: bradley-terry, extended-mallows, mallows, mpm"
    ):
        cc.RRF().summary()
    with pytest.raises(NotFittedError, match="call fit_predict first"):
        cc.BradleyTerry().fit(games()).summary()
    with pytest.raises(ParameterError, match="'scores' or 'parameters'"):
        cc.BradleyTerry().covariance("items")
    with pytest.raises(NotFittedError, match="no covariance of scores"):
        cc.BradleyTerry().covariance()
    plain = cc.BradleyTerry(ties="none", uncertainty="none")
    plain.fit_predict(games())
    with pytest.raises(NotFittedError, match="or has none"):
        plain.covariance("parameters")
    with pytest.raises(DataError, match="covariance of the scores of instance 'q' is not known"):
        plain.covariance()
    assert [r.p_value for r in plain.summary().rows] == pytest.approx([math.nan] * 4, nan_ok=True)
    reasons: list[tuple[cc.Aggregator, Any, str]] = [
        (cc.BradleyTerry(prior=0), tied_lists(), "pairs of a list are not independent"),
        (cc.BradleyTerry(prior=0, transform="count"), tied_lists(), "transform='count'"),
        (cc.BradleyTerry(optimizer="gd", prior=0), games(), "stops before the maximum"),
        (cc.PlackettLuce(optimizer="gd"), tied_lists(), "stops before the maximum"),
        (cc.BradleyTerry(reliability=True), tied_lists(), "under prior distributions"),
        (cc.PlackettLuce(adherence=True), tied_lists(), "have a prior"),
    ]
    for model, votes, why in reasons:
        model.fit_predict(votes)
        assert why in model.summary().no_criteria
        assert model.summary().aic is None


@QUIET
def test_saved_models_keep_the_covariance_of_parameters(tmp_path: Path) -> None:
    for make, votes in ((cc.BradleyTerry, games()), (cc.PlackettLuce, tied_lists())):
        model = make(prior=0)
        model.fit_predict(votes, features=features())
        model.save(tmp_path / "model")
        again = cc.load(tmp_path / "model")
        assert again.covariance("parameters").equals(model.covariance("parameters"))
        assert again.fit_info_ == model.fit_info_
        with pytest.raises(NotFittedError, match="call fit_predict first"):
            again.summary()
        for wrong, message in (
            (model.feature_map_[:1], "not one for each feature"),
            (model.feature_map_ * 1e60, "range"),
        ):  # type: ignore[attr-defined]
            broken = make(prior=0).fit(votes, features=features())
            broken.__dict__["feature_map_"] = wrong
            broken.save(tmp_path / "wrong")
            with pytest.raises(FormatError, match=message):
                cc.load(tmp_path / "wrong")

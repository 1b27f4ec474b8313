"""The report of an arena: the board on an Elo scale, win rates, effects, habits, votes over time."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import concordant as cc
from concordant.report import content
from concordant.report.arena import Arena, Effect, build_arena
from concordant.report.content import Report, build_report
from concordant.report.data_summary import summarise_data
from concordant.report.method_results import NamedMethod, default_methods, left_out_methods, run_method
from concordant.report.page import _head_to_head, _per_unit, _rate, _sections, render

START = datetime(2024, 5, 30, 13, tzinfo=UTC)


@pytest.fixture(scope="module")
def sample() -> cc.synthetic.ArenaSample:
    return cc.synthetic.arena(
        8,
        6000,
        covariates={"length": 0.6},
        side=0.3,
        ties=0.5,
        n_experts=70,
        n_families=4,
        favouring=0.1,
        favour=3.0,
        random_state=2,
    )


@pytest.fixture(scope="module")
def votes(sample: cc.synthetic.ArenaSample) -> cc.Comparisons:
    """The sample with times: ten votes an hour."""
    c = sample.comparisons
    length = 100 * c.covariates[:, 0]
    seconds = START.timestamp() + 360.0 * np.arange(c.n_rows)
    items, experts = c.items.tolist(), c.experts.tolist()
    return cc.Comparisons(
        "all",
        [experts[e] for e in c.row_expert],
        [items[i] for i in c.left],
        [items[i] for i in c.right],
        c.n_left,
        c.n_right,
        c.n_ties,
        covariates={"length": length},
        time=seconds,
    )


@pytest.fixture(scope="module")
def report(votes: cc.Comparisons) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        # Simulated crowds cost more than all the rest.
        patch.setattr(content, "_CLUSTERED_VOTES", 1000)
        return build_report(votes, title="Eight models")


def arena_of(votes: cc.Comparisons, method: cc.BradleyTerry) -> Arena:
    result = run_method(NamedMethod("it", method), votes)
    assert result.consensus is not None
    return build_arena(votes, result.consensus, [result])


def test_win_rates_are_those_of_the_scores_and_counts_those_of_the_votes(report: Report, votes: cc.Comparisons) -> None:
    arena = report.arena
    assert arena is not None
    assert arena.predicted
    elo = {p.item: p.score for p in report.leaderboard}
    assert arena.top == list(elo)
    won: Counter[tuple[str, str]] = Counter()
    tied: Counter[tuple[str, str]] = Counter()
    for _, _, left, right, n_left, n_right, n_ties, *_ in votes.to_frame().rows():
        won[left, right] += n_left
        won[right, left] += n_right
        tied[left, right] += n_ties
        tied[right, left] += n_ties
    for a, row in zip(arena.top, arena.head_to_head, strict=True):
        for b, met in zip(arena.top, row, strict=True):
            if a == b:
                assert met is None
                continue
            assert met is not None
            assert met.rate == pytest.approx(1 / (1 + 10 ** ((elo[b] - elo[a]) / 400)))
            assert (met.won, met.lost, met.ties) == (won[a, b], won[b, a], tied[a, b])


def test_win_rates_of_a_method_without_predictions_are_the_shares_observed() -> None:
    votes = cc.Comparisons("all", None, ["a", "a", "b"], ["b", "c", "c"], [3, 0, 2], [1, 0, 2], [5, 4, 0])
    result = run_method(NamedMethod("copeland", cc.METHODS["copeland"]()), votes)
    assert result.consensus is not None
    arena = build_arena(votes, result.consensus, [result])
    at = {item: k for k, item in enumerate(arena.top)}
    assert not arena.predicted
    met = arena.head_to_head[at["b"]][at["a"]]
    assert met == (0.25, 1.0, 3.0, 5.0)
    only_ties = arena.head_to_head[at["a"]][at["c"]]
    assert only_ties is not None
    assert only_ties.rate is None
    assert arena.effects == []
    assert arena.equal_ties is None


def test_the_board_is_on_an_elo_scale_around_the_mean_of_the_items(report: Report, votes: cc.Comparisons) -> None:
    assert report.main == "bradley-terry(covariates=all)"
    assert report.scale == "elo"
    assert np.mean([p.score for p in report.leaderboard]) == pytest.approx(1000)
    assert "8 items is at 1000" in (report.gauge or "")
    direct = cc.BradleyTerry(covariates="all").fit_predict(votes)
    assert [p.item for p in report.leaderboard] == direct.ranking()
    scaled = direct.scaled("elo", anchor=direct.items.tolist()).with_tiers()
    first = int(scaled.order()[0])
    assert scaled.lower is not None
    assert scaled.tier is not None
    assert report.leaderboard[0].lower == pytest.approx(scaled.lower[first])
    assert report.leaderboard[0].tier == scaled.tier[first] == 1


def test_an_anchor_of_the_method_is_the_origin_and_other_scores_stay() -> None:
    votes = cc.Comparisons("all", None, ["a", "a", "b"], ["b", "c", "c"], [30, 40, 25], [10, 5, 10], [5, 4, 0])
    anchored = build_report(votes, methods=[("bradley-terry", cc.BradleyTerry(anchor="b"))])
    assert {p.item: p.score for p in anchored.leaderboard}["b"] == pytest.approx(1000)
    counted = build_report(votes, methods=[("copeland", cc.METHODS["copeland"]())])
    assert counted.scale is None


def test_effects_are_found_with_their_size(report: Report, votes: cc.Comparisons) -> None:
    arena = report.arena
    assert arena is not None
    effects = {e.kind: e for e in arena.effects}
    length, side = effects["covariate"], effects["side"]
    assert length.typical == pytest.approx(math.sqrt(np.mean(votes.covariates[:, 0] ** 2)))
    assert length.lower is not None
    assert length.upper is not None
    assert side.lower is not None
    assert side.upper is not None
    assert length.lower < 0.006 < length.upper
    assert side.lower < 0.3 < side.upper
    assert length.points == pytest.approx(length.estimate * length.typical * 400 / math.log(10))
    assert arena.equal_ties == pytest.approx(0.5 / 2.5, abs=0.03)


@pytest.fixture(scope="module")
def by_language() -> cc.Comparisons:
    sizes = {"English": 0.6, "German": 0.3, "Dutch": 0.1}
    return cc.synthetic.arena(6, 4000, covariates=[], categories=sizes, category_spread=0.8, random_state=4).comparisons


def test_boards_by_category_are_those_of_the_method(by_language: cc.Comparisons) -> None:
    report = build_report(by_language, methods=[("bradley-terry", cc.BradleyTerry())])
    assert report.arena is not None
    found = report.arena.categories
    assert found is not None
    assert found.names == ["English", "German", "Dutch"]
    assert sum(found.votes) == by_language.n_rows
    boards = cc.category_boards(by_language, cc.BradleyTerry())
    assert boards.spread is not None
    for column, name in enumerate(found.names):
        logit = dict(zip(boards[name].items, boards[name].score, strict=True))
        mean = np.mean(list(logit.values()))
        for item, row in found.scores.items():
            cell = row[column]
            assert cell is not None
            assert cell.score == pytest.approx(1000 + (logit[item] - mean) * 400 / math.log(10))
    assert found.spread is not None
    assert found.spread[0] == pytest.approx(boards.spread.value * 400 / math.log(10))
    rows = boards.differences().rows(named=True)
    clear = {(r["item"], r["category"]): np.sign(r["difference"]) for r in rows if r["p_value"] < 0.05}
    assert len(clear) == found.n_clear > 0
    signs = {(i, n): c.sign for i, row in found.scores.items() for n, c in zip(found.names, row, strict=True) if c}
    assert {key: sign for key, sign in signs.items() if sign} == clear
    page = render(report)
    assert '<h2 id="categories">Boards by category</h2>' in page
    assert page.count('title="clearly better than in the other categories"') == sum(s > 0 for s in signs.values())


def test_small_categories_are_put_together_and_ids_are_no_categories() -> None:
    ids = (["a", "b", "a"] * 40, ["b", "c", "c"] * 40)
    won = np.tile([1.0, 0.0, 1.0, 0.0, 1.0], 24)
    few = [f"c{min(n % 40, 11)}" for n in range(120)]
    votes = cc.Comparisons("all", None, *ids, won, 1 - won, category=few)
    found = arena_of(votes, cc.BradleyTerry()).categories
    assert found is not None
    assert len(found.names) == 11
    assert found.votes[found.names.index("(other)")] == 6
    apart = cc.Comparisons("all", None, *ids, won, 1 - won, category=[f"id-{n}" for n in range(120)])
    arena = arena_of(apart, cc.BradleyTerry())
    assert arena.categories is None
    assert "has 120 values" in arena.left_out[0]
    one = cc.Comparisons("all", None, *ids, won, 1 - won, category=["en"] * 120)
    assert arena_of(one, cc.BradleyTerry()).categories is None


def test_habits_are_those_of_the_experts_who_have_them(sample: cc.synthetic.ArenaSample) -> None:
    model = cc.BradleyTerry(covariates=["length"], families=sample.families, side_effect=True)
    arena = arena_of(sample.comparisons, model)
    habits = arena.habits
    assert habits is not None
    assert habits.n_tested == 70 * 4
    clear = [(h.expert, h.term) for h in habits.rows]
    # Seven favour a family, and chance may put one other before the last of them.
    assert len(set(clear[:7]) & set(sample.favours.items())) >= 6
    assert (
        habits.n_clear == (np.abs(model.habits_["z"].to_numpy()) >= 2).sum() == sum(abs(h.z) >= 2 for h in habits.rows)
    )
    assert habits.spread == model.habit_spread_


def test_habits_that_were_asked_for_are_shown_where_none_is_clear() -> None:
    fair = cc.synthetic.arena(6, 900, covariates=[], n_experts=10, n_families=2, random_state=4)
    model = cc.BradleyTerry(families=fair.families, prior=1.0)
    report = build_report(fair.comparisons, methods=[("bradley-terry", model)])
    assert report.arena is not None
    habits = report.arena.habits
    assert habits is not None
    assert (habits.n_tested, len(habits.rows)) == (20, 5)
    assert habits.n_clear == (np.abs(model.habits_["z"].to_numpy()) >= 2).sum() == 0
    page = render(report)
    assert "20 habits were tested, and none are clear" in page
    assert "Standard deviation over experts: " in page


def test_a_fitted_side_effect_and_ignored_style_are_said() -> None:
    sample = cc.synthetic.arena(6, 3000, covariates={"length": 0.5}, side=0.4, ties=0.4, random_state=2)
    votes = sample.comparisons
    model = cc.BradleyTerry(covariates="all", side_effect=True)
    adjusted = build_report(votes, methods=[("bradley-terry", model), ("copeland", cc.Copeland())])
    bias = [w for w in adjusted.data.warnings if "position bias" in w]
    assert [w.endswith("the judges have a position bias, and the scores are adjusted for it.") for w in bias] == [True]
    assert [any("Ignores style" in w for w in row.warnings) for row in adjusted.methods] == [False, True]
    plain = build_report(votes)
    assert any(w.endswith("the judges may have a position bias.") for w in plain.data.warnings)
    assert not {"mpm", "copeland", "markov-chain"} & set(plain.method_labels)
    assert "they ignore style" in plain.method_note


def test_reliable_experts_come_first_and_answers_to_equals_follow_the_model(
    report: Report, votes: cc.Comparisons
) -> None:
    experts = report.experts
    assert experts is not None
    name = "bradley-terry(covariates=all, reliability=true)"
    assert experts.by_weight == name
    weights = [row.weights[name] for row in experts.rows]
    assert weights == sorted(weights, key=lambda w: -(w or 0.0))
    model = cc.BradleyTerry(covariates="all", reliability=True)
    model.fit(votes)
    learned = model.learned_experts()
    at = learned["expert"].index(experts.rows[3].name)
    assert weights[3] == pytest.approx(learned["slope"][at])
    odds = np.exp([learned["side"][at] / 2, -learned["side"][at] / 2, learned["tie_tendency"][at]])
    assert experts.rows[3].left_share == pytest.approx(odds[0] / odds[:2].sum())
    assert experts.rows[3].tie_share == pytest.approx(odds[2] / odds.sum())


@pytest.mark.parametrize(("days", "unit"), [(20, "day"), (200, "week"), (900, "month")])
def test_votes_over_time_are_counted_by_calendar(days: int, unit: str) -> None:
    rng = np.random.default_rng(days)
    when = [START + timedelta(days=float(d)) for d in rng.uniform(0, days, 300)]
    count = rng.integers(1, 4, 300).astype(float)
    ids = ["a", "b"] * 150, ["b", "a"] * 150
    votes = cc.Comparisons("all", None, *ids, count, time=[w.timestamp() for w in when])
    timeline = arena_of(votes, cc.BradleyTerry()).timeline
    assert timeline is not None
    assert timeline.unit == unit
    want: Counter[str] = Counter()
    for at, n in zip(when, count.tolist(), strict=True):
        name = at.date().isoformat()
        if unit == "week":
            name = (at.date() - timedelta(days=at.weekday())).isoformat()
        want[name[:7] if unit == "month" else name] += n
    assert {p.name: p.votes for p in timeline.periods if p.votes} == dict(want)
    assert [p.name for p in timeline.periods] == sorted(p.name for p in timeline.periods)


def test_times_without_a_date_fall_into_equal_parts_and_votes_without_time_are_counted() -> None:
    ids = ["a"] * 5, ["b"] * 5
    timeline = arena_of(cc.Comparisons("all", None, *ids, time=[0, 1, 2, 3, 40]), cc.BradleyTerry()).timeline
    assert timeline is not None
    assert timeline.unit == ""
    assert [p.votes for p in timeline.periods if p.votes] == [2, 2, 1]
    assert arena_of(cc.Comparisons("all", None, *ids, time=[7] * 5), cc.BradleyTerry()).timeline is None
    assert arena_of(cc.Comparisons("all", None, *ids), cc.BradleyTerry()).timeline is None


def test_methods_that_follow_exposure_run_only_where_it_is_even() -> None:
    even = cc.Comparisons("all", None, ["a", "a", "b"], ["b", "c", "c"], [7, 8, 6], [2, 1, 3])
    assert [m.label for m in default_methods(even)] == ["bradley-terry", "mpm", "copeland", "markov-chain"]
    assert left_out_methods(even).counting == ""
    uneven = cc.Comparisons("all", None, ["a", "a", "b"], ["b", "c", "c"], [70, 8, 6], [20, 1, 3])
    assert [m.label for m in default_methods(uneven)] == ["bradley-terry"]
    assert "5.5 times as many comparisons" in left_out_methods(uneven).counting
    apart = cc.Comparisons("all", None, ["a", "c", "d"], ["b", "b", "c"], [7, 8, 6], [2, 1, 3])
    assert "only 3 of 6 pairs were compared" in left_out_methods(apart).counting
    page = render(build_report(uneven))
    assert "mpm, copeland and markov-chain are left out" in page


def test_an_arena_shows_its_board_first_and_only_what_its_votes_have(report: Report) -> None:
    names = [name for name, _ in _sections(report)]
    assert names == [
        "summary", "consensus", "win-rates", "style", "experts", "time", "methods", "data", "about",
    ]  # fmt: skip
    page = render(report)
    at = [page.index(f'<h2 id="{name}"') for name in names]
    assert at == sorted(at)
    bare = build_report(cc.Comparisons("all", None, ["a", "b"], ["b", "a"], [3, 1], sided=False))
    assert [name for name, _ in _sections(bare)] == ["summary", "consensus", "win-rates", "methods", "data", "about"]
    assert 'id="time"' not in render(bare)


def test_numbers_are_written_as_people_write_them() -> None:
    votes = cc.Comparisons("all", None, ["a"], ["b"], [1_000_000], [500_001], [0.0])
    facts = {f.name: f.value for f in summarise_data(votes).facts}
    assert facts["Comparisons"] == "1,500,001"
    assert [_rate(r) for r in (0.501, 0.9999, 0.0001, 1.0, None)] == ["50", "99", "1", "100", "–"]
    arena = arena_of(votes, cc.BradleyTerry())
    assert arena.head_to_head[0][1] is not None
    assert _head_to_head(arena.head_to_head[0][1]) == "won 1,000,000, lost 500,001, tied 0"


def test_effects_have_the_digits_that_their_intervals_leave() -> None:
    assert (
        _per_unit(Effect("covariate", "x", 0.0026991, 0.002639, 0.00276, 1, 1)) == "+0.002699 (+0.002639 to +0.002760)"
    )
    assert _per_unit(Effect("side", "side", -0.07, None, None, 1, 1)) == "−0.0700"


def test_clusters_are_not_looked_for_in_huge_crowds(report: Report) -> None:
    assert report.experts is not None
    assert report.experts.p_clusters is None
    assert any("Clusters of experts were not looked for" in line for line in report.left_out)

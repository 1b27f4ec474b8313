"""Studies of aggregation without labels: from plan to page, draws against all rankings, the numbers of TREC-3."""

from __future__ import annotations

from itertools import permutations
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.papers.common import Ran, check_pages, rows_of, run_small

import concordant as cc
from concordant_papers import mallows, trec3
from concordant_papers.engine import Setting
from concordant_papers.pages import Page, Row

QUICK = Setting(None, quick=True, seeds=2)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_small(mallows.STUDIES, QUICK, tmp_path_factory.mktemp("cells"))


def holds(page: Page) -> dict[str, bool | None]:
    return {c.text: c.holds for c in page.claims}


def test_small_studies_run_and_write_their_pages(ran: Ran, tmp_path: Path) -> None:
    check_pages(mallows.STUDIES, ran, tmp_path)
    pages = ran[1]
    assert all(page.tables and page.claims for page in pages.values())
    assert {name: len(page.pictures) for name, page in pages.items()} == {
        "mallows-synthetic": 1,
        "mallows-random-experts": 2,
        "ulara-recall": 1,
        "ulara-random-experts": 1,
        "meta-search": 0,
        "expert-dispersion": 1,
    }


def expected_distance(lists: list[list[int]], theta: list[float]) -> float:
    """Return the mean distance to 0, 1, 2, ... over all rankings, each with its odds."""

    def apart(a: tuple[int, ...] | list[int], b: tuple[int, ...] | list[int]) -> int:
        n = len(a)
        return sum((a.index(x) < a.index(y)) != (b.index(x) < b.index(y)) for x in range(n) for y in range(x + 1, n))

    total = weighted = 0.0
    for order in permutations(range(len(lists[0]))):
        odds = exp(sum(t * apart(order, one) for t, one in zip(theta, lists, strict=True)))
        total += odds
        weighted += odds * apart(order, list(range(len(order))))
    return weighted / total


def test_drawn_rankings_are_as_far_from_the_truth_as_all_of_them_on_average() -> None:
    lists, theta = [[0, 2, 1, 3, 4], [4, 3, 0, 1, 2], [1, 0, 2, 4, 3]], [-0.8, -0.3, -0.5]
    rows = [("q", f"e{e}", f"i{i}", r + 1.0) for e, one in enumerate(lists) for r, i in enumerate(one)]
    votes = cc.Preferences(*zip(*rows, strict=True))
    items = [f"i{i}" for i in range(5)]
    # Items of the votes stand in the order of their first list; the truth is given in that order too.
    truth = cc.Consensus(["q"] * 5, votes.items.tolist(), [-items.index(i) for i in votes.items])
    found = mallows.draws_from_truth(votes, truth, np.array(theta), sweeps=6000)
    assert found == pytest.approx(expected_distance(lists, theta), abs=0.12)


def test_experts_with_no_say_leave_rankings_to_chance() -> None:
    sample = cc.synthetic.mallows(12, theta=[-1.0, -1.0], n_instances=4)
    found = mallows.draws_from_truth(sample.preferences, sample.truth, np.zeros(2), sweeps=2000)
    assert found == pytest.approx(12 * 11 / 4, abs=1.5)


def test_the_known_truth_is_found_by_sampling_and_not_by_weighing(ran: Ran) -> None:
    rows = rows_of(ran[1]["mallows-synthetic"], "mallows-synthetic")
    assert rows["Sampling"].ours["θ good"] == pytest.approx(-1.0, abs=0.3)
    assert rows["Weighted"].ours["θ good"] > -0.6
    assert rows["Sampling"].ours["after 8"] < rows["Weighted"].ours["after 8"]
    assert rows["True"].ours["after 1"] == rows["True"].ours["after 8"]
    assert holds(ran[1]["mallows-synthetic"])["Sampling ends nearer to the truth than Weighted, in every run"]


def test_a_curve_arrives_where_it_stays_near_its_end() -> None:
    assert mallows._arrival(np.array([9.0, 5.0, 4.1, 4.0])) == 3
    assert mallows._arrival(np.array([4.0, 4.0])) == 1
    assert mallows._arrival(np.array([4.0, 9.0, 4.0])) == 3


def test_distances_count_pairs_out_of_order_and_halves_for_ties() -> None:
    truth = cc.Consensus(["q"] * 3, ["a", "b", "c"], [3, 2, 1])
    assert mallows._apart(cc.Consensus(["q"] * 3, ["a", "b", "c"], [1, 2, 3]), truth) == 3
    assert mallows._apart(cc.Consensus(["q"] * 3, ["a", "b", "c"], [2, 2, 1]), truth) == 0.5


def test_levels_are_nested_and_lists_that_stay_are_untouched() -> None:
    votes = trec3.complete(trec3.SYNTHETIC, 20)
    some, more = (trec3.replaced(votes, n, draw=1) for n in (3, 6))
    gone = [set(trec3.chosen(votes, n, 1).tolist()) for n in (3, 6)]
    assert gone[0] < gone[1]
    changed = [
        {
            int(e)
            for e, a, b in zip(votes.list_expert, votes.list_offsets[:-1], votes.list_offsets[1:], strict=True)
            if not np.array_equal(votes.slot[a:b], new.slot[a:b])
        }
        for new in (some, more)
    ]
    assert changed == gone
    same = np.isin(votes.row_expert, list(gone[0]))
    np.testing.assert_array_equal(some.slot[same], more.slot[same])
    assert not np.array_equal(trec3.replaced(votes, 3, draw=2).slot, some.slot)
    # A random list is one of its own instance, without repetition, with ranks 1, 2, ...
    for q, a, b in zip(some.list_instance, some.list_offsets[:-1], some.list_offsets[1:], strict=True):
        own = some.slot[a:b]
        assert len(set(own.tolist())) == 20
        assert set(some.slots.instance[own].tolist()) == {int(q)}
        assert sorted(some.value[a:b].tolist()) == list(range(1, 21))


def test_the_pool_holds_what_some_list_holds() -> None:
    votes = trec3.complete(trec3.SYNTHETIC, 10)
    assert set(votes.slot.tolist()) == set(range(votes.n_slots))
    assert set(votes.list_lengths.tolist()) == {10}


def test_one_expert_alone_is_judged_by_its_own_list() -> None:
    votes = cc.from_lists({"x": ["a", "b"], "y": ["c", "d", "a"]}, instance="q")
    labels = cc.Labels(["q", "q"], ["a", "d"], [1, 1])
    assert trec3.values_of(trec3.alone(votes, "y"), labels, ["map", "p@2"]) == {
        "map": [pytest.approx((1 / 2 + 2 / 3) / 2, abs=1e-6)],
        "p@2": [0.5],
    }


def test_random_experts_hurt_adding_up_more_than_the_model(ran: Ran) -> None:
    page = ran[1]["mallows-random-experts"]
    rows = rows_of(page, "mallows-random-experts-p10")
    assert rows[mallows.MODEL].ours["9"] > rows[mallows.BASELINE].ours["9"] + 5
    assert rows[mallows.MODEL].marks["9"] == "*"
    assert all(holds(page).values())
    weights = rows_of(page, "mallows-random-experts-weights")["9 random"].ours
    assert weights["|θ| real, median"] > 5 * weights["|θ| random, median"]


def test_what_the_cells_say_of_a_level_is_what_stands_in_the_table(ran: Ran) -> None:
    cells = [ran[0].values["mallows-random-experts"][f"6 random/run {d}"] for d in range(2)]
    mean = 100 * np.mean([c["values"]["RRF"]["p@10"] for c in cells])
    assert rows_of(ran[1]["mallows-random-experts"], "mallows-random-experts-p10")["RRF"].ours["6"] == pytest.approx(
        mean
    )
    votes = trec3.replaced(trec3.complete(trec3.SYNTHETIC, 20), 6, draw=0)
    labels = trec3.read(trec3.SYNTHETIC).labels
    direct = cc.evaluate(cc.RRF().fit_predict(votes), labels, ["p@10"]).mean["p@10"]
    assert np.mean(cells[0]["values"]["RRF"]["p@10"]) == pytest.approx(direct, abs=1e-6)


def test_claims_about_noise_follow_the_numbers() -> None:
    rng = np.random.default_rng(0)

    def level(model: float, base: float) -> dict[str, Any]:
        noise = 0.01 * rng.standard_normal(30)
        return {mallows.MODEL: {"map": model + noise}, mallows.BASELINE: {"map": base - noise}}

    good = {0: level(0.4, 0.42), 30: level(0.38, 0.3), 36: level(0.35, 0.2)}
    assert [c.holds for c in mallows._noisy_claims(good, mallows.MODEL, ["map"], 40)] == [True, True]
    bad = {0: level(0.4, 0.42), 30: level(0.38, 0.38), 36: level(0.2, 0.2)}
    assert [c.holds for c in mallows._noisy_claims(bad, mallows.MODEL, ["map"], 40)] == [False, False]


def test_gains_are_relative_to_combmnz(ran: Ran) -> None:
    cell = ran[0].values["ulara-recall"]["all"]["values"]
    ulara, base = (np.mean(cell[row]["iprec(recall=0.2)"]) for row in ("ULARA", mallows.BASELINE))
    row = rows_of(ran[1]["ulara-recall"], "ulara-gain")["ULARA"]
    assert row.ours["recall 0.2"] == pytest.approx(100 * (ulara / base - 1))
    # Published gains are of TREC-3, and stand beside nothing else.
    assert not row.theirs


def test_a_gain_that_is_missed_is_explained_by_the_rows() -> None:
    ways = mallows._ulara_ways(QUICK)
    gains = [Row(name, dict.fromkeys([*mallows.STATED, "MAP"], 1.0), mallows.STATED, 0.7) for name in ways]
    each = {mallows.BASELINE: {"iprec(recall=0)": np.array([0.9, 0.8])}}
    assert "no row" in mallows._why_no_gain(gains, each)
    assert "85.0 %" in mallows._why_no_gain(gains, each)
    reached = [Row(g.name, dict.fromkeys(g.ours, 7.0), g.theirs, 0.7) for g in gains]
    assert mallows._why_no_gain(reached, each) == ""
    assert "only ULARA, η = 0 reaches" in mallows._why_no_gain(
        [r if r.name == "ULARA, η = 0" else g for g, r in zip(gains, reached, strict=True)], each
    )


def test_engines_are_ordered_by_what_they_are_worth(ran: Ran) -> None:
    page = ran[1]["meta-search"]
    rows = rows_of(page, "meta-search")
    size = rows["|θ|"].ours
    assert sorted(size, key=lambda e: -size[e]) == ["S1", "S3", "S4", "S2"]
    assert not any(row.theirs for t in page.tables for row in t.rows)
    full = mallows._page_search(Setting(None), ran[0].values["meta-search"])
    assert "none is counted as compared" in full.tables[0].note
    rows = rows_of(full, "meta-search")
    assert rows["MRPR"].theirs == {"S1": 0.86, "S2": 0.43, "S3": 0.82, "S4": 0.78}
    assert rows["|θ|"].theirs == {"S1": 0.065, "S2": 0.0, "S3": 0.066, "S4": 0.049}
    together = rows_of(full, "meta-search-together")[mallows.MODEL]
    assert together.theirs == {"MRPR": 0.92}
    assert together.verdict("MRPR") is rows["MRPR"].verdict("S1") is None
    assert holds(page)["|θ| orders the engines by quality"]
    votes, labels = mallows.engines(20, 0)
    assert set(votes.list_lengths.tolist()) == {100}
    # MRPR by a plain loop: the page of the first right result.
    total = 0.0
    right = {(q, d) for q, d, v in labels.to_frame().rows() if v >= mallows.RIGHT}
    for q in votes.instances:
        mine = sorted((r, d) for i, e, d, r, *_ in votes.to_frame().rows() if i == q and e == "S1")
        places = [n for n, (_, d) in enumerate(mine) if (q, d) in right]
        total += 1 / (places[0] // 10 + 1) if places else 0.0
    cell = ran[0].values["meta-search"]["engines/run 0"]
    assert cell["mrpr"]["S1"] == pytest.approx(total / 20, abs=1e-6)


def test_claims_about_engines_can_fail() -> None:
    theta = {"S1": -0.01, "S2": -0.06, "S3": -0.05, "S4": -0.04}
    mrpr = {"S1": 0.9, "S2": 0.4, "S3": 0.8, "S4": 0.7, mallows.MODEL: 0.85}
    assert [c.holds for c in mallows._search_claims(theta, mrpr, [theta])] == [False, False, False]


def test_trust_follows_quality(ran: Ran) -> None:
    page = ran[1]["expert-dispersion"]
    rows = rows_of(page, "expert-dispersion-correlation")
    assert rows["|θ|"].ours["MAP"] > 0.8
    skill = cc.synthetic.runs(20, skill=12, top=40, pool=120, relevant=0.1, random_state=3).skill
    shown = rows_of(page, "expert-dispersion")
    assert max(shown, key=lambda e: shown[e].ours["|θ|"]) in sorted(skill, key=lambda e: -skill[e])[:3]


def test_without_data_only_the_synthetic_studies_have_cells(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    planned = {s.name: len(s.plan(setting)) for s in mallows.STUDIES}
    assert {name for name, n in planned.items() if n} == {"mallows-synthetic", "meta-search"}
    assert planned["mallows-synthetic"] == 25


@pytest.mark.data
def test_trec3_has_the_numbers_of_its_readme(data_dir: Path) -> None:
    folder = str(data_dir / trec3.FOLDER)
    runs, labels = trec3.read(folder)
    assert runs.n_experts == 40
    assert len(runs) == 50
    for expert, expected in (("INQ102", 0.4226), ("citya1", 0.4012), ("Brkly7", 0.3714)):
        found = np.mean(trec3.values_of(trec3.alone(runs, expert), labels, ["map"])["map"])
        assert found == pytest.approx(expected, abs=5e-5)
    votes = trec3.complete(folder, 100)
    assert votes.n_experts == 38
    assert set(votes.list_lengths.tolist()) == {100}
    base = trec3.values_of(cc.CombMNZRank(k=100).fit_predict(votes), labels, ["p@10"])
    assert np.mean(base["p@10"]) == pytest.approx(0.744, abs=0.004)

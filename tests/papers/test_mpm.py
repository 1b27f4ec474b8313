"""Studies of the multinomial preference model: small ones from plan to page, plain loops, and published numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.papers.common import Ran, check_pages, rows_of, run_small

import concordant as cc
from concordant_papers import imputation, letor, movielens, mpm, published
from concordant_papers.engine import Setting
from concordant_papers.pages import Page

STUDIES = {study.name: study for study in mpm.STUDIES}
QUICK = Setting(None, quick=True, seeds=2)
NAME = letor.SYNTHETIC


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_small(mpm.STUDIES, QUICK, tmp_path_factory.mktemp("cells"))


def claims_of(page: Page) -> dict[str, bool | None]:
    return {c.text: c.holds for c in page.claims}


def test_small_studies_run_and_write_their_pages(ran: Ran, tmp_path: Path) -> None:
    check_pages(mpm.STUDIES, ran, tmp_path)
    pages = ran[1]
    drawn = {study: len(page.pictures) for study, page in pages.items()}
    assert drawn == {"letor-unsupervised": 0, "letor-mpm": 1, "movielens": 3, "movielens-films": 2}


@pytest.mark.parametrize("study", STUDIES)
def test_pages_are_made_of_whatever_cells_there_are(study: str, ran: Ran) -> None:
    values = ran[0].values[study]
    ours = [row.ours for t in STUDIES[study].page(QUICK, {}).tables for row in t.rows]
    assert not any(ours), "numbers without a cell they could come from"
    whole = sum(len(row.ours) for t in ran[1][study].tables for row in t.rows)
    for key in values:
        page = STUDIES[study].page(QUICK, {k: v for k, v in values.items() if k != key})
        assert sum(len(row.ours) for t in page.tables for row in t.rows) <= whole


# LETOR.


def test_rows_are_the_means_of_the_test_folds(ran: Ran) -> None:
    rows = rows_of(ran[1]["letor-mpm"], f"{NAME}-mpm")
    means = []
    for fold in letor.folds(NAME):
        model = cc.MPM(adherence="supervised", uncertainty="none").fit(*fold.train)
        found = cc.evaluate(model.predict(fold.test.preferences), fold.test.labels, ["map", "p@2"], convention="letor")
        means.append(found.mean)
    assert rows["θ_sup-MPM"].ours["MAP"] == pytest.approx(100 * np.mean([m["map"] for m in means]), abs=1e-9)
    assert rows["θ_sup-MPM"].ours["P@2"] == pytest.approx(100 * np.mean([m["p@2"] for m in means]), abs=1e-9)


def test_adherence_is_worth_something_where_experts_are_inverted(ran: Ran) -> None:
    rows = rows_of(ran[1]["letor-unsupervised"], f"{NAME}-unsupervised")
    assert rows["θ-MPM"].ours["N@5"] > rows["MPM, all θ = 1"].ours["N@5"] + 5
    assert "N@5" in rows["MPM, all θ = 1"].marks
    assert rows["θ-MPM"].marks == {}


def test_theta_is_that_of_the_first_training_part(ran: Ran) -> None:
    rows = rows_of(ran[1]["letor-mpm"], f"{NAME}-theta")
    theta = {name.removeprefix("expert "): row.ours for name, row in rows.items()}
    train = letor.folds(NAME)[0].train
    model = cc.MPM(adherence="supervised", uncertainty="none").fit(*train)
    direct = dict(zip(model.experts_, model.adherence_.tolist(), strict=True))
    assert {e: t["supervised"] for e, t in theta.items()} == pytest.approx(direct)
    # The two inverted experts of this set come last, whoever is asked.
    for column in ("supervised", "learned"):
        assert set(sorted(theta, key=lambda e: theta[e][column])[:2]) == {"e8", "e9"}


def test_best_rows_are_claimed_among_all() -> None:
    def result(mean: float) -> letor.Result:
        return letor.Result({c: [np.array([mean, mean])] for c in letor.COLUMNS}, {}, [])

    level = dict.fromkeys(mpm._PRINTED, 0.1) | {"BordaCount": 0.9, "theta-MPM": 0.5}
    found = {row: result(mean) for row, mean in level.items()}
    fair = {"SVP, at its defaults": result(0.7), "BordaCount, ranks read as ranks": result(0.3)}
    (claim,) = mpm._best_claims("any", found, fair)
    assert (claim.text, claim.holds) == ("any: θ-MPM is best in every column", False)
    assert "N@1 is BordaCount's (-40.00)" in claim.detail
    assert claim.detail.endswith("; SVP, at its defaults is above it in 11 of 11")
    assert [c.holds for c in mpm._best_claims("any", found | {"theta-MPM": result(0.95)}, fair)] == [True]
    assert [c.holds for c in mpm._best_claims("MQ2008-agg", found, fair)] == [False, False]
    assert mpm._best_claims("any", found | {"SVP": None}, fair)[0].holds is None


def test_sets_that_are_not_there_stand_with_their_published_rows(tmp_path: Path) -> None:
    for study, table, n in (("letor-unsupervised", mpm.TABLE_1, 7), ("letor-mpm", mpm.TABLE_4, 2)):
        page = STUDIES[study].page(Setting(tmp_path), {})
        assert len(page.tables) == 2
        for shown in page.tables:
            assert [row.ours for row in shown.rows] == [{}] * n
            assert all(row.theirs and row.why.endswith("is not in the data folder") for row in shown.rows)
        assert all(c.holds is None for c in page.claims)
        assert published.rows(table)
    assert [s.plan(Setting(tmp_path)) for s in mpm.STUDIES] == [[], [], [], []]


# Films.


def test_films_are_counted_user_by_user() -> None:
    data = movielens.films(movielens.SYNTHETIC)
    known = imputation.table(data.votes)
    for film in (0, 7, 60):
        raters = np.flatnonzero(~np.isnan(known[:, film]))
        assert data.users[film] == len(raters)
        assert data.won[film] == sum(int((known[u] < known[u, film]).sum()) for u in raters)
        assert data.lost[film] == sum(int((known[u] > known[u, film]).sum()) for u in raters)
        assert data.called(*data.counts(film).values()) == film
    assert data.called(-1, 0, 0) is None


def plain_ndcg(ratings: list[float], order: list[int], k: int) -> float:
    def dcg(values: list[float]) -> float:
        return sum((2**r - 1) / math.log2(2 + i) for i, r in enumerate(values[:k]))

    return dcg([ratings[i] for i in order]) / dcg(sorted(ratings, reverse=True))


def test_rankings_are_judged_by_every_user_with_real_gains(ran: Ran) -> None:
    votes = movielens.films(movielens.SYNTHETIC).votes
    completed = imputation.neighbours(votes)
    order = movielens.ranked(movielens.SYNTHETIC, "MPM").order().tolist()
    wanted = {k: [100 * plain_ndcg(user, order, k) for user in completed.tolist()] for k in (1, 4, 10)}
    values = ran[0].values["movielens"]["seed 0"]["neighbor"]["MPM"]
    for k, of in wanted.items():
        assert values[f"N@{k}"] == pytest.approx(of, abs=1e-4)
    row = rows_of(ran[1]["movielens"], "movielens-neighbours")["MPM"]
    assert row.ours["N@4"] == pytest.approx(np.mean(wanted[4]), abs=1e-3)


def test_guessers_aggregate_by_the_mean_place_in_what_they_complete(ran: Ran) -> None:
    from scipy.stats import rankdata

    votes = movielens.films(movielens.SYNTHETIC).votes
    neighbours, pmf = imputation.neighbours(votes), imputation.pmf(votes, passes=10)
    order = np.argsort(sum(rankdata(-user) for user in neighbours), kind="stable").tolist()
    wanted = [100 * plain_ndcg(user, order, 3) for user in pmf.tolist()]
    values = ran[0].values["movielens"]["seed 0"]["PMF"]["Neighbor-based"]
    assert values["N@3"] == pytest.approx(wanted, abs=1e-4)


def test_marks_and_errors_are_over_users_and_seeds(ran: Ran) -> None:
    from scipy.stats import ttest_rel

    runs = [ran[0].values["movielens"][f"seed {s}"]["PMF"] for s in range(2)]
    row = rows_of(ran[1]["movielens"], "movielens-pmf")["Bradley-Terry"]
    for column in movielens.COLUMNS:
        mine, other = (np.mean([run[m][column] for run in runs], axis=0) for m in ("Bradley-Terry", "MPM"))
        assert (column in row.marks) == (ttest_rel(mine, other).pvalue < 0.05)
        means = [np.mean(run["Bradley-Terry"][column]) for run in runs]
        assert row.errors[column] == pytest.approx(abs(means[0] - means[1]) / 2)
    shown = [r.marks for t in ran[1]["movielens"].tables for r in t.rows]
    assert any(shown)
    assert not all(shown)


def test_low_constants_punish_films_few_have_seen(ran: Ran) -> None:
    found = ran[0].values["movielens"]["constants"]
    votes = movielens.films(movielens.SYNTHETIC).votes
    order = movielens.ranked(movielens.SYNTHETIC, "Plackett-Luce").order().tolist()
    wanted = [100 * plain_ndcg(user, order, 5) for user in imputation.constant(votes, 0.5).tolist()]
    assert found["0.5"]["Plackett-Luce"]["mean"]["N@5"] == pytest.approx(np.mean(wanted))
    assert found["0"]["MPM"]["mean"]["N@10"] > found["0"]["Bradley-Terry"]["mean"]["N@10"]
    assert found["0"]["MPM"]["p"]["N@1"] == 1.0


def test_printed_values_are_taken_apart_film_by_film() -> None:
    gains = [70.0, 35.0, 50.0]
    weight = 1 / np.log2([2, 3, 4])
    printed = (np.cumsum(gains * weight) / np.cumsum(weight)).tolist()
    assert list(movielens._needed(dict(zip("abc", printed, strict=True))).values()) == pytest.approx(gains)
    said = movielens._halves()
    assert "Star Wars (neighbor) 34.9 as 4 of Plackett-Luce, 71.9 as 1 of MPM" in said


def test_halved_weights_count_half_from_the_second_place_on() -> None:
    completed = np.array([[5.0, 5.0, 1.0]])
    found = movielens._printed([0, 1], completed)
    second = 1 / math.log2(3)
    assert found["ndcg"] == pytest.approx([100, 100])
    assert found["halved"] == pytest.approx([100, 100 * (1 + second / 2) / (1 + second)])
    assert movielens._printed([2], completed)["gain"] == pytest.approx([100 / 31])


def test_rankings_are_judged_with_half_weights_by_both_neighbours(ran: Ran) -> None:
    votes = movielens.films(movielens.SYNTHETIC).votes
    order = movielens.ranked(movielens.SYNTHETIC, movielens.EQUAL).order().tolist()
    for half, completed in (
        ("neighbor", imputation.neighbours(votes)),
        ("cosine", imputation.neighbours(votes, **movielens.COSINE)),
    ):
        values = ran[0].values["movielens"]["seed 0"][f"{half}, half weight"]
        assert set(values) == {*movielens.MODELS, "PMF", movielens.EQUAL}
        for k in (1, 3):
            wanted = []
            for user in completed.tolist():
                best = sum((2**r - 1) / math.log2(2 + i) for i, r in enumerate(sorted(user, reverse=True)[:k]))
                gains = [(2 ** user[i] - 1) / math.log2(2 + n) for n, i in enumerate(order[:k])]
                wanted.append(100 * (gains[0] + sum(gains[1:]) / 2) / best)
            assert values[movielens.EQUAL][f"N@{k}"] == pytest.approx(wanted, abs=1e-4)
        row = rows_of(ran[1]["movielens"], movielens.HALVED[half][0])[movielens.EQUAL]
        assert row.ours["N@3"] == pytest.approx(np.mean(wanted), abs=1e-3)
        assert row.tolerance is None


def test_ends_hold_the_films_of_the_ranking(ran: Ran) -> None:
    found = ran[0].values["movielens-films"]["MPM/seed 0"]["films"]
    data = movielens.films(movielens.SYNTHETIC)
    order = movielens.ranked(movielens.SYNTHETIC, "MPM").order().tolist()
    # The published numbers of the last films count from the end they are told from.
    assert [found[f"top{n}"]["title"] for n in range(1, 6)] == [data.title[s] for s in order[:5]]
    assert [found[f"bottom{n}"]["title"] for n in range(1, 6)] == [data.title[s] for s in order[-5:]]
    good = {f"film {n}" for n in range(1, 151, 10)}
    assert {found[f"top{n}"]["title"] for n in range(1, 6)} <= good
    assert claims_of(ran[1]["movielens-films"])["γ falls with the number of ratings"] is True


def test_where_a_printed_film_stands_is_said() -> None:
    assert movielens._elsewhere("Kazaam", [None], "top1") == "no film has the counts printed for Kazaam"
    said = movielens._elsewhere("Kazaam", [[7, 2], None, [5, 2]], "bottom3")
    assert said == "Kazaam is at place 5 to 7 in ours; 2 films with as many raters or more have won a smaller share"
    data = movielens.films(movielens.SYNTHETIC)
    share = data.won / np.maximum(data.won + data.lost, 1)
    best = int(np.argmax(share))
    assert movielens._more_extreme(data, best, "top1") == 0
    assert movielens._more_extreme(data, best, "bottom1") == int((data.users >= data.users[best]).sum()) - int(
        ((share == share[best]) & (data.users >= data.users[best])).sum()
    )


# Published numbers.


@pytest.mark.data
@pytest.mark.parametrize(("row", "table"), [("Condorcet", mpm.TABLE_1), ("RRF", mpm.TABLE_5)])
def test_rows_that_agree_to_the_digit(data_dir: Path, row: str, table: str) -> None:
    name, folder = "MQ2008-agg", str(data_dir / "MQ2008-agg")
    way = (mpm._PRINTED | mpm._MORE)[row]
    values: dict[str, Any] = {c.key: c.run(**c.arguments) for c in letor.cells(name, folder, row, way)}
    found = letor.gathered(values, name, folder, row)
    assert found is not None
    printed = published.cells(table, dataset=name, method=row)
    assert printed is not None
    shown = letor.row(row, found, theirs=printed, tolerance=0.005, exact=True)
    assert all(shown.verdict(c) for c in letor.COLUMNS)


@pytest.mark.data
def test_bradley_terry_has_the_printed_films_place_by_place(data_dir: Path) -> None:
    folder = str(data_dir / movielens.FOLDER)
    found = movielens.ends(folder=folder, model="Bradley-Terry", seed=0)
    for row in movielens._printed_rows("Bradley-Terry"):
        film = found["films"][row["list_position"]]
        assert (film["users"], film["won"], film["lost"]) == movielens._counts(row)
    data = movielens.films(folder)
    assert {m: data.title[data.called(*counts) or 0] for m, counts in movielens.NAMED.items()} == {
        "Sabrina": "Sabrina (1995)",
        "Mrs. Doubtfire": "Mrs. Doubtfire (1993)",
        "Ghost": "Ghost (1990)",
    }
    # Equal variances have the printed top five of MPM.
    equal = movielens.ends(folder=folder, model="MPM, equal variances", seed=0)["films"]
    for row in movielens._printed_rows("MPM", "top"):
        assert equal[row["list_position"]]["won"] == float(row["n_won"])


def test_counts_that_say_which_film_is_meant_are_shown_and_not_compared() -> None:
    counts = dict(zip(("users", "won", "lost"), movielens.NAMED["Ghost"], strict=True))
    found = {
        "gamma": [0.1, 0.4, 0.2, 0.5, 0.1],
        "users": [50, 20, 170, 10, 40],
        "named": {"Ghost": counts | {"place": 3, "title": "Ghost (1990)"}},
    }
    ((table,), _, _) = movielens._variances_shown(found)
    (row,) = table.rows
    assert row.theirs == counts
    assert [row.close(c) for c in table.columns] == [None] * 6

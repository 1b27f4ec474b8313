"""Studies of the CRF papers: small ones from plan to page, their numbers against direct ones, and published rows."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from tests.papers.common import Ran, check_pages, rows_of, run_small

import concordant as cc
from concordant.errors import DataError
from concordant_papers import crf, expansion, letor, published
from concordant_papers.engine import Cell, Setting, Study, compute
from concordant_papers.pages import Page

STUDIES = {study.name: study for study in crf.STUDIES}
QUICK = Setting(None, quick=True, seeds=1)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_small(crf.STUDIES, QUICK, tmp_path_factory.mktemp("cells"))


def test_small_studies_run_and_write_their_pages(ran: Ran, tmp_path: Path) -> None:
    check_pages(crf.STUDIES, ran, tmp_path)


def test_learned_rows_beat_equal_votes_where_a_few_experts_are_good(ran: Ran) -> None:
    page = ran[1]["letor-supervised"]
    rows = rows_of(page, "synthetic-agg-supervised")
    assert (
        min(rows[n].ours["N@5"] for n in ("SVDsup", "CRF, transform and rate chosen by NDCG@10"))
        > rows["RRF"].ours["N@5"] + 10
    )
    assert "CRF, transform and rate chosen by MAP" in rows_of(page, "synthetic-agg-crf")
    assert [c.holds for c in page.claims] == [True, True]


def test_the_row_of_rrf_is_the_mean_of_the_folds(ran: Ran) -> None:
    row = rows_of(ran[1]["letor-supervised"], "synthetic-agg-supervised")["RRF"]
    direct = [
        cc.evaluate(cc.RRF().fit_predict(f.test.preferences), f.test.labels, ["map", "p@3"], convention="letor").mean
        for f in letor.folds(letor.SYNTHETIC)
    ]
    assert row.ours["MAP"] == pytest.approx(100 * np.mean([m["map"] for m in direct]), abs=0.006)
    assert row.ours["P@3"] == pytest.approx(100 * np.mean([m["p@3"] for m in direct]), abs=0.006)


def test_marks_are_those_of_a_paired_test_over_all_queries(ran: Ran) -> None:
    from scipy.stats import ttest_rel

    values = ran[0].values["letor-supervised"]
    name = letor.SYNTHETIC
    crf_row, rrf_row = (letor.gathered(values, name, name, row) for row in ("CRF", "RRF"))
    borda = letor.gathered(values, name, name, "BordaCount")
    assert crf_row is not None
    assert rrf_row is not None
    assert borda is not None
    for one in (crf_row, borda):
        sure = {c for c in letor.COLUMNS if ttest_rel(one.of_query(c), rrf_row.of_query(c)).pvalue < 0.05}
        assert set(letor.marked(one, rrf_row)) == sure
    assert letor.marked(crf_row, rrf_row)


def test_pruning_keeps_those_who_know_or_invert(ran: Ran) -> None:
    for value in ran[0].values["crf-pruned"].values():
        assert not {"e1", "e2", "e8", "e9"} & set(value["prune"]["removed"])
        assert value["prune"]["validation"] >= value["CRF"]["validation"]
    rows = rows_of(ran[1]["crf-pruned"], "synthetic-agg-crf-star")
    assert list(rows) == ["CRF", "CRF*, experts removed by prune", "CRF* without e6, e7"]


def test_weights_tell_the_planted_experts_apart(ran: Ran) -> None:
    page = ran[1]["crf-weights"]
    assert [c.holds for c in page.claims] == [True, True]
    rows = rows_of(page, "synthetic-agg-weights")
    assert rows["expert e1"].ours["weight"] > rows["expert e6"].ours["weight"] > rows["expert e9"].ours["weight"]


def test_cost_grows_with_copies_and_stands_beside_plain_forms(ran: Ran) -> None:
    rows = rows_of(ran[1]["runtime"], "synthetic-agg-runtime-items")
    assert set(rows) == {"CRF", "SVDRank", "plain CRF", "plain SVD"}
    assert list(rows["CRF"].ours) == ["x 1", "x 2", "x 4"]
    # Four times the items are sixteen times the pairs: no noise hides that.
    assert rows["plain SVD"].ours["x 4"] > 2 * rows["plain SVD"].ours["x 1"]
    assert all(cell.alone for cell in STUDIES["runtime"].plan(QUICK))


def test_nothing_is_timed_where_fast_and_plain_forms_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, labels = cc.synthetic.labelled_runs(6, random_state=3)
    right = expansion.naive_crf
    monkeypatch.setattr(expansion, "naive_crf", lambda rank, weights: right(rank, 1.01 * weights + 0.1))
    with pytest.raises(DataError, match="fast and plain scores differ"):
        expansion.cost((votes, labels), votes, "items", 2, 1)


@pytest.mark.parametrize("what", ["experts", "items"])
def test_copies_say_what_their_originals_say(what: str) -> None:
    votes, _ = cc.synthetic.labelled_runs(3, random_state=3)
    grown = expansion.expanded(votes, what, 3)
    for one, many in zip(expansion.rank_matrices(votes), expansion.rank_matrices(grown), strict=True):
        want = np.tile(one, (1, 3)) if what == "experts" else np.tile(one, (3, 1))
        # Columns in the order of the names.
        order = np.argsort(grown.experts.tolist(), kind="stable")
        names = [f"{e}/{c}" for c in (1, 2, 3) for e in votes.experts] if what == "experts" else votes.experts.tolist()
        np.testing.assert_array_equal(many[:, order], want[:, np.argsort(names, kind="stable")])


def test_timed_cells_run_last_and_in_a_process_of_their_own(tmp_path: Path) -> None:
    def plan(_: Setting) -> list[Cell]:
        return [
            Cell("own", os.getpid, {}, seconds=9, alone=True),
            Cell("late", time.time, {}, seconds=9, alone=True),
            Cell("shared", os.getpid, {}),
            Cell("early", time.time, {}),
        ]

    study = Study("s", "p", "t", (), plan, lambda *_: Page())
    found = compute([study], QUICK, tmp_path, jobs=1).values["s"]
    assert found["shared"] == os.getpid() != found["own"]
    assert found["early"] < found["late"]


def test_claims_about_the_published_experts_follow_the_weights() -> None:
    zero = {"alpha": 0.5, "beta_plus": 0.1, "beta_minus": 0.1, "weight": 0.0}
    mean = {str(n): dict(zero) for n in range(1, 26)}
    for e in crf.RELIED_ON:
        mean[e] = {"alpha": -1.0, "beta_plus": 20.0, "beta_minus": 5.0, "weight": 4.0}
    for e in crf.TURNED_AROUND:
        mean[e] = {"alpha": 0.0, "beta_plus": -3.0, "beta_minus": -3.0, "weight": -2.0}
    assert [c.holds for c in crf._weight_claims("MQ2008-agg", mean)] == [True] * 9
    mean["13"]["beta_plus"] = 1.5
    mean["18"]["beta_minus"] = -1.0
    holds = [c.holds for c in crf._weight_claims("MQ2008-agg", mean)]
    assert holds == [True, True, False, True, True, True, True, True, False]
    assert crf._weight_claims("OTHER-agg", mean) == []


def at(level: float) -> letor.Result:
    """Return a result with this mean in every column, more or less for single queries."""
    noise = 0.01 * np.random.default_rng(1).standard_normal(50)
    values = {c: [level + level * (noise - noise.mean())] for c in letor.COLUMNS}
    return letor.Result(values, {c: [100 * level] for c in letor.COLUMNS}, [])


def test_claims_about_the_published_order_follow_the_means() -> None:
    order = {
        "CRF": 0.423, "SVDsup": 0.428, "RRF": 0.388, "theta_sup-MPM": 0.382, "Bradley-Terry": 0.381,
        "Condorcet": 0.357, "Plackett-Luce": 0.352, "SVP": 0.325, "CPS-best": 0.265, "BordaCount": 0.237,
    }  # fmt: skip
    found: dict[str, letor.Result | None] = {row: at(level) for row, level in order.items()}
    # Read as ranks, CPS is level with the CRF.
    found |= {row: at(0.423 if row.startswith("CPS") else 0.3) for row in letor.AT_DEFAULTS}

    def checked() -> tuple[list[bool | None], dict[str, bool | None]]:
        claims = crf._supervised_claims("MQ2008-agg", found)
        added = {c.text.split()[5].rstrip(","): c.holds for c in claims if c.ours}
        assert added.pop("CPS-best") is False
        claims = [c for c in claims if not c.ours]
        sure = {c.text.split()[5]: c.holds for c in claims if "is significantly above" in c.text}
        return [c.holds for c in claims if "is significantly above" not in c.text], sure

    orders, sure = checked()
    assert orders == [True] * 10
    assert sure == dict.fromkeys(order.keys() - {"CRF", "RRF", "SVDsup"}, True) | {"SVDsup": False}
    found |= {"SVP": None, "CRF": at(0.38)}
    orders, sure = checked()
    assert orders == [True, False, False, True, True, True, True, None, None, True]
    assert sure["SVP"] is None
    assert not sure["Bradley-Terry"]


def test_what_falls_short_is_said_with_its_standard_error() -> None:
    text = crf._shortfall(at(0.4), {"N@1": 41.0, "MAP": 40.2}, 0.5)
    of = at(0.4).of_query("N@1")
    assert f"N@1 -1.00 (standard error {100 * of.std(ddof=1) / 50**0.5:.2f})" in text
    assert "no other column is below by more than 0.20" in text
    assert crf._shortfall(at(0.4), {"N@1": 40.4}, 0.5) == ""


@pytest.fixture
def agg_folder(tmp_path: Path) -> Path:
    """Return a data folder with one set of another name, three folds and 21 experts."""
    votes, labels = cc.synthetic.labelled_runs(30, quality=[1.0] * 21, labels=(0, 0, 1, 2, 3), random_state=2)
    part = np.arange(30) % 3
    for fold in range(3):
        place = tmp_path / "OTHER-agg" / f"Fold{fold + 1}"
        place.mkdir(parents=True)
        for n, name in enumerate(("train", "vali", "test")):
            cc.write_letor(votes[(part - fold) % 3 == n], place / f"{name}.txt", labels)
    return tmp_path


def test_any_folder_is_taken_and_absent_sets_are_listed_with_the_reason(agg_folder: Path) -> None:
    setting = Setting(agg_folder, seeds=2)
    assert list(letor.sets(setting)) == ["OTHER-agg"]
    assert letor.absent(setting) == ["MQ2008-agg", "MQ2007-agg"]
    assert setting.folder("*-agg") == agg_folder / "OTHER-agg"
    assert setting.folder("*-crowd") is None
    name, folder = next(iter(letor.sets(setting).items()))
    cells = letor.cells(name, folder, "RRF", letor.Way("rrf"), 2)
    assert [c.key for c in cells] == [f"OTHER-agg/RRF/fold {f}/seed 0" for f in (1, 2, 3)]
    values = {c.key: json.loads(json.dumps(c.run(**c.arguments))) for c in cells}
    page = STUDIES["letor-supervised"].page(setting, values)
    rows = rows_of(page, "OTHER-agg-supervised")
    direct = cc.cross_validate(cc.RRF(), folds=cc.read_letor_folds(folder), metrics=["map"], convention="letor")
    assert rows["RRF"].ours["MAP"] == pytest.approx(100 * direct.mean["map"], abs=0.006)
    assert rows["SVP"].ours == {}
    assert "failed" in rows["SVP"].why
    theirs = rows_of(page, "MQ2007-agg-supervised")["CRF"]
    assert theirs.ours == {}
    assert theirs.theirs["N@1"] == 46.93
    assert theirs.why == "MQ2007-agg is not in the data folder"
    assert [c.holds for c in page.claims if "MQ2007" in c.text] == [None]


def test_a_row_is_only_shown_when_all_its_folds_are_there(agg_folder: Path) -> None:
    name, folder = next(iter(letor.sets(Setting(agg_folder)).items()))
    values = {c.key: c.run(**c.arguments) for c in letor.cells(name, folder, "RRF", letor.Way("rrf"))}
    assert letor.gathered(values, name, folder, "RRF") is not None
    values.popitem()
    assert letor.gathered(values, name, folder, "RRF") is None


def test_experts_left_out_are_gone_from_all_parts() -> None:
    fold = letor.experts_left(letor.folds(letor.SYNTHETIC)[0], ["e1", "nobody"])
    assert all("e1" not in part.preferences.experts.tolist() for part in fold)
    assert fold.test.preferences.n_experts == 8


@pytest.mark.data
def test_rrf_and_condorcet_are_the_published_rows_to_the_digit(data_dir: Path) -> None:
    folder = data_dir / "MQ2008-agg"
    if not folder.is_dir():
        pytest.skip("MQ2008-agg is not in the data folder")
    for method in ("RRF", "Condorcet"):
        cells = letor.cells("MQ2008-agg", str(folder), method, letor.BASELINES[method])
        values = {c.key: c.run(**c.arguments) for c in cells}
        result = letor.gathered(values, "MQ2008-agg", str(folder), method)
        assert result is not None
        theirs = published.cells("001_table5_sup_mq_agg", dataset="MQ2008-agg", method=method)
        assert theirs is not None
        assert set(theirs) == set(letor.COLUMNS)
        row = letor.row(method, result, theirs=theirs, tolerance=0.005, exact=True)
        assert all(row.verdict(column) for column in theirs), {c: row.ours[c] - theirs[c] for c in theirs}

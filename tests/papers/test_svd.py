"""Studies of the SVD features paper: small ones from plan to page, the rules they go by, and the crowd's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.papers.common import Ran, check_pages, rows_of, run_small

import concordant as cc
from concordant_papers import crowd, letor, svd
from concordant_papers.engine import Setting

QUICK = Setting(None, quick=True, seeds=1)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_small(svd.STUDIES, QUICK, tmp_path_factory.mktemp("cells"))


def test_small_studies_run_and_write_their_pages(ran: Ran, tmp_path: Path) -> None:
    check_pages(svd.STUDIES, ran, tmp_path)
    pages = ran[1]
    assert len(pages["svd-combined"].pictures) == 2
    assert len(pages["difficult-query"].pictures) == 1


def test_three_transforms_are_three_methods_and_all_beat_rrf(ran: Ran) -> None:
    page = ran[1]["svd-transforms"]
    rows = rows_of(page, "synthetic-agg-transforms")
    assert len({row.ours["MAP"] for row in rows.values()}) == 4
    assert min(row.ours["N@5"] for name, row in rows.items() if name != "RRF") > rows["RRF"].ours["N@5"] + 10
    assert [c.holds for c in page.claims] == [True]


def test_experts_one_by_one_are_worth_more_than_their_sum(ran: Ran) -> None:
    assert [c.holds for c in ran[1]["svd-combined"].claims] == [True, True]


def test_the_difficult_query_is_one(ran: Ran) -> None:
    found = [v["query"] for v in ran[0].values["difficult-query"].values() if "query" in v]
    query = min(found, key=lambda q: len(q["documents"]))
    relevant = [n for n, label in enumerate(query["labels"]) if label > 0]
    assert len(relevant) == 1
    score = np.zeros(len(query["documents"]))
    for _, n, rank in query["ranks"]:
        score[n] += 1 / (60 + rank)
    np.testing.assert_allclose(score, query["scores"]["RRF"], rtol=1e-9)
    assert (score > score[relevant[0]]).sum() >= 4
    assert int(np.argmax(query["scores"]["SVDsup"])) == relevant[0]
    table = rows_of(ran[1]["difficult-query"], "synthetic-agg-difficult-query")
    assert sorted(row.ours["place by RRF"] for row in table.values()) == list(range(1, len(score) + 1))


def test_places_are_one_to_n_with_ties_in_file_order() -> None:
    assert svd._places(np.array([1.0, 3.0, 1.0, 2.0])).tolist() == [3, 1, 4, 2]


def test_claims_about_transforms_follow_the_numbers() -> None:
    def result(level: float) -> letor.Result:
        rng = np.random.default_rng(1)
        noise = 0.01 * rng.standard_normal(50)
        return letor.Result(
            {c: [level + (level - 0.3) * noise] for c in letor.COLUMNS}, {c: [100 * level] for c in letor.COLUMNS}, []
        )

    found = {"RRF": result(0.4), "LR-I": result(0.45), "LR-R": result(0.42), "LR-logR": result(0.47)}
    assert [c.holds for c in svd._transform_claims("MQ2008-agg", found)] == [True, True, True, True]
    found["LR-I"] = result(0.48)
    assert [c.holds for c in svd._transform_claims("MQ2008-agg", found)] == [False, False, True, True]


def test_a_crowd_with_good_and_inverted_workers_is_learned(ran: Ran) -> None:
    rows = rows_of(ran[1]["crowd"], "crowd")
    assert rows["LR-labeled"].ours["mean"] > rows["majority vote"].ours["mean"]
    assert len(ran[1]["crowd"].claims) == 6
    known = [v for key, v in ran[0].values["crowd"].items() if key.startswith("LR-unlabeled")]
    # The five with much to say, and hardly anybody else.
    assert {v["known_workers"] for v in known} <= {5, 6}


def test_an_order_of_the_crowd_holds_where_it_holds_at_every_truncation() -> None:
    low = {"N@1": 50.0, "N@2": 50.0}
    high = {"N@1": 60.0, "N@2": 51.0}
    mixed = {"N@1": 49.0, "N@2": 70.0}
    splits = {"high": [high] * 2, "low": [low] * 2, "mixed": [mixed] * 2}
    assert svd._crowd_claim("high", "low", splits, list(low)).holds is True
    claim = svd._crowd_claim("mixed", "low", splits, list(low))
    assert claim.holds is False
    assert claim.detail.startswith("not at N@1; mean +9.5, ")
    assert svd._crowd_claim("high", "gone", splits, list(low)).holds is None


@pytest.mark.parametrize(
    ("study", "table"),
    [("svd-transforms", "transforms"), ("svd-rank", "svd-rank"), ("svd-combined", "combined")],
)
def test_rrf_stands_as_letor_prints_it_in_every_table(ran: Ran, study: str, table: str) -> None:
    ours = rows_of(ran[1][study], f"synthetic-agg-{table}")["RRF"].ours
    # Half the sum of two folds with four decimals, in percent.
    halves = [value / 0.005 for value in ours.values()]
    np.testing.assert_allclose(halves, np.round(halves), atol=1e-6)


def test_splits_share_no_topic_and_leave_none_out() -> None:
    topics = set(crowd.read(crowd.SYNTHETIC).gold.instances.tolist())
    seen = []
    for number in range(2):
        train, vali, test = crowd.parts(crowd.SYNTHETIC, number)
        parts = [set(p.gold.instances.tolist()) for p in (train, vali, test)]
        assert set.union(*parts) == topics
        assert sum(map(len, parts)) == len(topics)
        assert [len(p) for p in parts] == [15, 5, 5]
        seen.append(parts[2])
    assert seen[0] != seen[1]


def test_votes_on_gold_documents_are_those_and_no_others() -> None:
    train, _, _ = crowd.parts(crowd.SYNTHETIC, 0)
    known = set(zip(train.gold.instances[train.gold.slots.instance].tolist(), train.gold.items.tolist(), strict=True))
    frame = train.votes.to_frame()
    want = sorted(r for r in frame.select("instance", "expert", "item", "rank").rows() if (r[0], r[2]) in known)
    got = sorted(train.gold_votes.to_frame().select("instance", "expert", "item", "rank").rows())
    assert got == want
    assert len(got) < frame.height


def test_the_majority_is_the_mean_judgement() -> None:
    votes = cc.Preferences(["t"] * 4, ["w", "x", "y", "w"], ["a", "a", "a", "b"], [1, 1, 2, 2], kind="rank")
    consensus = crowd._majority(votes)
    assert dict(zip(consensus.items.tolist(), consensus.score.tolist(), strict=True)) == pytest.approx(
        {"a": 1 / 3, "b": -1.0}
    )


def test_workers_are_known_from_the_papers_share_on() -> None:
    assert crowd.known_from(round(0.6 * 89_624)) == 500
    assert crowd.known_from(10) == 2


@pytest.mark.data
def test_the_crowd_of_trec_is_read_as_its_page_says(data_dir: Path) -> None:
    folder = data_dir / "trec2011-crowd"
    if not folder.is_dir():
        pytest.skip("trec2011-crowd is not in the data folder")
    found = crowd.counts(str(folder))
    assert found["judgements"] + found["asked again"] == 58_476
    assert (found["topics"], found["gold"]) == (30, 395)
    assert found["by label"] == {"0": 128, "1": 135, "2": 132}
    assert 0.5 < found["agreement"] < 0.9

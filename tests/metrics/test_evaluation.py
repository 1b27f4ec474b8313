"""evaluate: what trec_eval and gdeval answer, a plain-Python twin on random runs, published numbers, and the rules."""

from __future__ import annotations

import math
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import metrics as oracle

from concordant.data.consensus import Consensus
from concordant.data.labels import Labels
from concordant.errors import ConcordantWarning, DataError, KindError, ParameterError
from concordant.metrics import AP, NDCG, Evaluation, combine_folds, evaluate

Table = dict[str, dict[str, float]]


def rows(table: Table) -> tuple[list[str], list[str], list[float]]:
    flat = [(q, i, x) for q, items in table.items() for i, x in items.items()]
    return [r[0] for r in flat], [r[1] for r in flat], [r[2] for r in flat]


def consensus_of(table: Table) -> Consensus:
    return Consensus(*rows(table))


def labels_of(table: Table) -> Labels:
    return Labels(*rows(table))


def test_equals_trec_eval(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("trec_eval")
    for case in content["cases"]:
        given_, expected = case["input"], case["expected"]
        result = evaluate(
            consensus_of(given_["scores"]),
            labels_of(given_["labels"]),
            list(expected),
            convention="trec",
            rel=given_["rel"],
        )
        for name, by_instance in expected.items():
            wanted = [by_instance[q] for q in result.instances]
            assert result.values[name].tolist() == pytest.approx(wanted, abs=content["abs_tol"]), (case["name"], name)


def test_equals_gdeval(golden: Callable[[str], dict[str, Any]]) -> None:
    content = golden("gdeval")
    for case in content["cases"]:
        given_, expected = case["input"], case["expected"]
        result = evaluate(
            consensus_of(given_["scores"]), labels_of(given_["labels"]), ",".join(expected), convention="paper"
        )
        for name, by_instance in expected.items():
            wanted = [by_instance[q] for q in result.instances]
            assert result.values[name].tolist() == pytest.approx(wanted, abs=content["abs_tol"]), (case["name"], name)


ids = st.sampled_from(["a", "b", "B", "é", "d10", "d9", "d1", "Ω", "z"])
score = st.sampled_from([0.0, -0.0, 0.1, 0.1 + 1e-10, 0.1 + 1e-15, 1.0, 1.0 + 1e-8, -2.5, 1e30])
tables = st.dictionaries(st.sampled_from(["q1", "q2", "q3", "q4"]), st.dictionaries(ids, score, min_size=1), min_size=1)
truths = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.dictionaries(ids, st.sampled_from([-2.0, 0.0, 0.0, 1.0, 1.0, 2.0, 3.0]), min_size=1),
    min_size=1,
)


@given(tables, truths, st.sampled_from(["trec", "letor", "paper"]), st.sampled_from([1.0, 2.0]))
def test_equals_the_plain_twin_on_ties_missing_and_unlabelled_items(
    scores: Table, truth: Table, convention: str, rel: float
) -> None:
    if not scores.keys() & truth.keys():
        return
    names = list(oracle.values({}, {}, "trec", depth=3))
    lmax = max(0.0, *(x for labels in truth.values() for x in labels.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        result = evaluate(consensus_of(scores), labels_of(truth), names, convention=convention, rel=rel)
    assert result.instances == list(truth)
    for n, q in enumerate(truth):
        expected = oracle.values(scores.get(q, {}), truth[q], convention, rel=rel, lmax=lmax, depth=3)
        for name in names:
            assert result.values[name][n] == pytest.approx(expected[name], abs=1e-12), (q, name)


def test_float32_decides_only_under_trec() -> None:
    scores = {"q": {"a": 0.1 + 1e-10, "b": 0.1}}
    labels = labels_of({"q": {"a": 1}})
    # As float32 the scores are equal, and 'b' comes before 'a'.
    assert evaluate(consensus_of(scores), labels, "mrr", convention="trec").mean["mrr"] == 0.5
    assert evaluate(consensus_of(scores), labels, "mrr", convention="letor").mean["mrr"] == 1.0


def test_scores_beyond_float32_are_infinite_and_tied() -> None:
    consensus = consensus_of({"q": {"a": 1e300, "b": 1e200, "c": 0.0}})
    labels = labels_of({"q": {"a": 1}})
    assert evaluate(consensus, labels, "mrr").mean["mrr"] == 0.5
    assert evaluate(consensus, labels, "mrr", convention="paper").mean["mrr"] == 1.0


def test_negative_scores_and_zeros_of_both_signs() -> None:
    consensus = consensus_of({"q": {"a": -0.0, "b": 0.0, "c": -1.0}})
    assert evaluate(consensus, labels_of({"q": {"a": 1}}), "mrr").mean["mrr"] == 0.5


def test_the_order_of_labels_and_rows_does_not_matter_under_trec() -> None:
    rng = np.random.default_rng(0)
    scores = {f"q{n}": {f"d{i}": float(rng.integers(0, 4)) for i in range(9)} for n in range(5)}
    truth = {q: {i: float(rng.integers(0, 3)) for i in items} for q, items in scores.items()}
    back = [dict(reversed([(q, dict(reversed(t[q].items()))) for q in t])) for t in (scores, truth)]
    one = evaluate(consensus_of(scores), labels_of(truth), "ndcg@5,map,err")
    two = evaluate(consensus_of(back[0]), labels_of(back[1]), "ndcg@5,map,err")
    for name in one.metrics:
        assert one.values[name].tolist() == two.values[name][::-1].tolist()


def test_together_as_alone_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    scores = {f"q{n}": {f"d{i}": float(rng.normal()) for i in range(rng.integers(1, 30))} for n in range(20)}
    truth = {q: {i: float(rng.integers(0, 3)) for i in items} | {"extra": 2.0} for q, items in scores.items()}
    metrics = "ndcg@1-10,ndcg,map,mrr,rbp,p@5,recall@5,rprec,meanndcg,err(lmax=2)"
    for convention in ("trec", "letor", "paper"):
        whole = evaluate(consensus_of(scores), labels_of(truth), metrics, convention=convention)
        for n, q in enumerate(scores):
            alone = evaluate(consensus_of({q: scores[q]}), labels_of({q: truth[q]}), metrics, convention=convention)
            for name in whole.metrics:
                assert alone.values[name][0] == whole.values[name][n], (convention, q, name)


def test_labelled_instances_without_a_result_count_zero_and_are_said() -> None:
    labels = labels_of({"1": {"a": 1}, "2": {"a": 1}, "3": {"b": 1}})
    with pytest.warns(ConcordantWarning, match=r"2 of 3 labelled instances have no result and count 0: \['2', '3'\]"):
        result = evaluate(consensus_of({"1": {"a": 1.0}}), labels, "map")
    assert result.mean["map"] == pytest.approx(1 / 3)
    assert result.values["map"].tolist() == [1.0, 0.0, 0.0]
    assert "note: 2 of 3 labelled instances have no result and count 0" in str(result)


def test_instances_without_labels_are_left_out_and_noted() -> None:
    result = evaluate(consensus_of({"1": {"a": 1.0}, "2": {"a": 1.0}}), labels_of({"1": {"a": 1}}), "map")
    assert result.instances == ["1"]
    assert result.notes == ("1 of 2 instances without labels are left out",)


def test_unlabelled_marks_of_aligned_labels_are_not_labels() -> None:
    consensus = consensus_of({"1": {"a": 2.0, "b": 1.0}, "2": {"a": 1.0}})
    labels = labels_of({"1": {"b": 1}, "9": {"z": 1}})
    aligned = labels.align(consensus)
    assert math.isnan(aligned.label[0])
    result = evaluate(consensus, aligned, "mrr,ndcg")
    assert result.instances == ["1"]
    assert result.mean["mrr"] == 0.5
    assert result.mean["ndcg"] == pytest.approx(1 / math.log2(3))


def test_no_common_instance_is_an_error_that_shows_both_sides() -> None:
    with pytest.raises(
        DataError, match=r"share no instance: the consensus has \['q1', 'q2'\], the labels have \['1'\]"
    ):
        evaluate(consensus_of({"q1": {"a": 1.0}, "q2": {"a": 1.0}}), labels_of({"1": {"a": 1}}), "map")
    with pytest.raises(DataError, match=r"consensus\.broadcast\(labels\.instances\)"):
        evaluate(consensus_of({"all": {"a": 1.0}}), labels_of({"1": {"a": 1}}), "map")


def test_one_consensus_against_many_instances() -> None:
    labels = labels_of({"u1": {"a": 1}, "u2": {"b": 1}})
    consensus = consensus_of({"all": {"a": 2.0, "b": 1.0}}).broadcast(labels.instances)
    assert evaluate(consensus, labels, "mrr").values["mrr"].tolist() == [1.0, 0.5]


def test_skip_empty_leaves_out_instances_with_nothing_to_find() -> None:
    consensus = consensus_of({"1": {"a": 1.0}, "2": {"a": 1.0}})
    labels = labels_of({"1": {"a": 1}, "2": {"a": 0}})
    assert evaluate(consensus, labels, "ndcg@5", convention="paper").mean["ndcg@5"] == 0.5
    kept = evaluate(consensus, labels, "ndcg@5", convention="paper", skip_empty=True)
    assert kept.mean["ndcg@5"] == 1.0
    assert kept.instances == ["1"]
    with pytest.raises(DataError, match="skip_empty=True leaves no instance: none of 2 has a label of 3 or more"):
        evaluate(consensus, labels, "p@1", skip_empty=True, rel=3)


def test_only_the_instances_asked_for() -> None:
    consensus = consensus_of({"1": {"a": 1.0}, "2": {"a": 1.0}, "3": {"a": 1.0}})
    labels = labels_of({"1": {"a": 1}, "2": {"a": 0}, "3": {"a": 1}})
    result = evaluate(consensus, labels, "map", instances=["3", "2"])
    assert result.instances == ["2", "3"]
    assert result.values["map"].tolist() == [0.0, 1.0]
    assert result.notes == ()
    with pytest.raises(DataError, match=r"1 instances asked for have no labels: \['4'\]"):
        evaluate(consensus, labels, "map", instances=["1", "4"])


def test_labels_of_instances_not_asked_for_change_nothing() -> None:
    consensus = consensus_of({"1": {"a": 1.0, "b": 0.5}, "2": {"a": 1.0}})
    labels = labels_of({"1": {"a": 0, "b": 1}, "2": {"a": 1, "unranked": 1, "another": 0}})
    result = evaluate(consensus, labels, "ndcg@2,ndcg@3,meanndcg,recall", convention="letor", instances=["1"])
    alone = evaluate(consensus["1"], labels["1"], "ndcg@2,ndcg@3,meanndcg,recall", convention="letor")
    assert result.mean == alone.mean
    assert result.mean["ndcg@2"] == 1.0


def test_wrong_arguments() -> None:
    consensus, labels = consensus_of({"1": {"a": 1.0}}), labels_of({"1": {"a": 1}})
    with pytest.raises(ParameterError, match="'convention' parameter of evaluate must be one of trec, letor, paper"):
        evaluate(consensus, labels, "map", convention="trec_eval")
    with pytest.raises(ParameterError, match=r"'rel' parameter of evaluate must be a number > 0. Got 0 instead"):
        evaluate(consensus, labels, "map", rel=0)
    with pytest.raises(KindError, match=r"evaluate compares a consensus or runs with Labels. Got Labels and Consensus"):
        evaluate(labels, consensus, "map")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="unknown metric 'no-such-metric'"):
        evaluate(consensus, labels, "no-such-metric")


def test_means_are_found_under_any_spelling() -> None:
    result = evaluate(consensus_of({"1": {"a": 1.0}}), labels_of({"1": {"a": 1}}), [NDCG @ 10, AP, "rr", "rbp"])
    assert list(result.mean) == ["ndcg@10", "map", "mrr", "rbp(p=0.8)"]
    assert result.mean["nDCG@10"] == result.mean["ap"] == result.mean["recip_rank"] == 1.0
    assert result.mean["rbp"] == pytest.approx(0.2)
    with pytest.raises(KeyError, match=r"ndcg@5 was not evaluated; there are ndcg@10, map, mrr, rbp\(p=0\.8\)"):
        result.mean["ndcg@5"]


def test_the_frame_and_the_printed_table() -> None:
    result = evaluate(
        consensus_of({"1": {"a": 1.0, "b": 2.0}}), labels_of({"1": {"a": 1}}), "mrr,p@2", convention="letor", rel=1
    )
    assert result.per_instance.to_dicts() == [{"instance": "1", "mrr": 0.5, "p@2": 0.5}]
    assert result.to_frame() is result.per_instance
    assert str(result).splitlines() == [
        "metric  mean",
        "mrr     0.5000",
        "p@2     0.5000",
        "1 instance; convention letor: gain 2^label − 1, discount 1, 1, 1/log2(i), ties in input order, "
        "relevant from label 1",
    ]
    assert "mrr     50.00" in result.to_text(percent=True, digits=2)
    with pytest.raises(ValueError, match="read-only"):
        result.values["mrr"][0] = 1.0


def fold(values: list[float], first: int = 0, convention: str = "letor") -> Evaluation:
    items = {str(first + n): {"a": 2.0 if v else 0.0, "b": 1.0} for n, v in enumerate(values)}
    return evaluate(consensus_of(items), labels_of({q: {"a": 1} for q in items}), "p@1,mrr", convention=convention)


def test_folds_average_their_means_and_pool_their_instances() -> None:
    both = combine_folds([fold([1, 0, 0]), fold([1], first=3)])
    assert both.mean["p@1"] == pytest.approx((1 / 3 + 1) / 2)
    assert both.values["p@1"].tolist() == [1, 0, 0, 1]
    assert both.fold_means["p@1"].tolist() == pytest.approx([1 / 3, 1.0])
    assert both.per_instance["fold"].to_list() == [1, 1, 1, 2]
    assert "mean of 2 folds, 4 instances; convention letor" in str(both)


def test_folds_that_do_not_fit_together() -> None:
    with pytest.raises(ParameterError, match="no folds to combine"):
        combine_folds([])
    with pytest.raises(DataError, match=r"their convention is the same. Got letor and trec"):
        combine_folds([fold([1]), fold([1], convention="trec")])
    with pytest.raises(DataError, match="itself combined"):
        combine_folds([fold([1]), combine_folds([fold([1])])])


def read_agg(path: Path) -> tuple[Table, Table]:
    """Return RRF scores (k = 60) and labels of a LETOR -agg file, read line by line."""
    scores: Table = {}
    labels: Table = {}
    for line in path.read_text().splitlines():
        body, _, comment = line.partition("#")
        label, qid, *fields = body.split()
        q, item = qid.removeprefix("qid:"), comment.split()[2]
        ranks = [f.partition(":")[2] for f in fields]
        scores.setdefault(q, {})[item] = math.fsum(1 / (60 + float(r)) for r in ranks if r not in ("NULL", "0"))
        labels.setdefault(q, {})[item] = float(label)
    return scores, labels


@pytest.mark.data
def test_published_rrf_rows_of_mq2008_to_the_digit(data_dir: Path) -> None:
    folder = data_dir / "MQ2008-agg"
    folds = []
    for k in range(1, 6):
        scores, labels = read_agg(folder / f"Fold{k}" / "test.txt")
        folds.append(evaluate(consensus_of(scores), labels_of(labels), "ndcg@1-5,p@1,p@5,map", convention="letor"))
    mean = combine_folds(folds).mean
    got = [round(100 * v, 2) for v in mean.values()]
    assert got == [38.77, 40.73, 43.48, 45.70, 47.18, 44.89, 34.13, 47.71]


@pytest.mark.data
def test_map_of_trec3_runs(data_dir: Path) -> None:
    folder = data_dir / "trec3-adhoc"
    truth: Table = {}
    for line in (folder / "T3-j.txt").read_text().splitlines():
        q, _, item, label = line.split()
        truth.setdefault(q, {})[item] = float(label)
    labels = labels_of(truth)
    with tarfile.open(folder / "TREC-3-runs.tar.xz") as archive:
        for name, expected in (("inq102", 0.4226), ("citya1", 0.4012), ("brkly7", 0.3714)):
            member = archive.extractfile(f"TREC-3/input.{name}")
            assert member is not None
            scores: Table = {}
            for line in member.read().decode().splitlines():
                q, _, item, _, value, _ = line.split()
                scores.setdefault(q, {})[item] = float(value)
            assert round(evaluate(consensus_of(scores), labels, "map").mean["map"], 4) == expected

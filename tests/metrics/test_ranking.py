"""Metric objects and their arrays: golden 25, the plain-Python twin, names, and what the arrays promise."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import metrics as oracle

from concordant.errors import DataError, ParameterError
from concordant.metrics import (
    AP,
    CONVENTIONS,
    ERR,
    MRPR,
    NDCG,
    RBP,
    RR,
    HitRate,
    MeanNDCG,
    Metric,
    P,
    RankedLabels,
    Recall,
    RPrecision,
    known_metrics,
    parse_metric,
    parse_metrics,
)
from concordant.metrics.ranking import place_items

EVERY = "ndcg,err,map,p,recall,hit,mrr,mrpr,rprec,rbp(p=0.8),meanndcg," + ",".join(
    f"{m}@1-6" for m in ("ndcg", "err", "map", "p", "recall", "hit", "mrr", "rbp(p=0.8)")
)
EVERY += "," + ",".join(f"iprec(recall={tenths / 10:g})" for tenths in range(11))


def one(metric: str, labels: list[float], convention: str = "paper", rel: float = 1.0, **kw: float) -> float:
    return float(parse_metric(metric).compute(RankedLabels.from_order(labels, **kw), CONVENTIONS[convention], rel)[0])


def test_golden_metrics(golden) -> None:
    content = golden("25_metrics")
    near = {"abs": content["abs_tol"], "rel": 0}
    checked = 0
    for case in content["cases"]:
        labels = case["input"].get("labels_in_ranked_order")
        if labels is None:
            continue
        expected = case["expected"]
        for convention in ("paper", "letor"):
            series = expected[f"ndcg_{convention}_1to10"]
            if series is not None:
                got = [one(f"ndcg@{k}", labels, convention) for k in range(1, 11)]
                assert got == pytest.approx(series, **near)
        for convention in ("paper", "letor", "trec"):
            assert one("err", labels, convention, largest=expected["err_gmax"]) == pytest.approx(
                expected["err"], **near
            )
            for kind, rel in (("lenient", 1), ("strict", 2)):
                got = [one(f"p@{k}", labels, convention, rel) for k in range(1, 11)]
                assert got == pytest.approx(expected[f"p_{kind}_1to10"], **near)
                assert one("map", labels, convention, rel) == pytest.approx(expected[f"ap_{kind}"], **near)
        checked += 1
    assert checked == 4


def test_golden_ties_keep_input_order(golden) -> None:
    (case,) = [c for c in golden("25_metrics")["cases"] if c["name"] == "tie_break"]
    scores = case["input"]["scores"]
    order = np.argsort(-np.array(scores), kind="stable")
    place = place_items(order, np.array([0, 4]), np.arange(4))
    assert np.argsort(place).tolist() == case["expected"]["order"]


labels_lists = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 0.5]), max_size=12), min_size=1, max_size=5
)


@given(labels_lists, st.sampled_from(list(CONVENTIONS)), st.sampled_from([1.0, 2.0, 0.5]))
def test_every_metric_equals_its_twin(lists: list[list[float]], convention: str, rel: float) -> None:
    flat = [x for labels in lists for x in labels]
    offsets = np.cumsum([0] + [len(x) for x in lists])
    ranked = RankedLabels.from_order(flat, offsets, largest=3.0)
    got = {str(m): m.compute(ranked, CONVENTIONS[convention], rel) for m in parse_metrics(EVERY)}
    for n, labels in enumerate(lists):
        items = {f"d{i:02d}": float(x) for i, x in enumerate(labels)}
        scores = {item: -float(i) for i, item in enumerate(items)}
        expected = oracle.values(scores, items, convention, rel=rel, lmax=3.0)
        assert set(expected) == set(got)
        for name, value in expected.items():
            assert got[name][n] == pytest.approx(value, abs=1e-12), name


@given(labels_lists, st.sampled_from(list(CONVENTIONS)))
def test_instances_together_give_the_bits_of_each_alone(lists: list[list[float]], convention: str) -> None:
    rule = CONVENTIONS[convention]
    offsets = np.cumsum([0] + [len(x) for x in lists])
    together = RankedLabels.from_order([x for labels in lists for x in labels], offsets, largest=3.0)
    for metric in parse_metrics(EVERY):
        alone = [float(metric.compute(RankedLabels.from_order(x, largest=3.0), rule)[0]) for x in lists]
        assert metric.compute(together, rule).tolist() == alone


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_the_ideal_order_has_ndcg_exactly_one(labels: list[int]) -> None:
    best = sorted(labels, reverse=True)
    for convention in CONVENTIONS:
        assert one("ndcg", best, convention) == (1.0 if best[0] > 0 else 0.0)


def test_letor_ndcg_is_zero_beyond_the_list_and_precision_is_not() -> None:
    assert one("ndcg@3", [2, 1, 0], "letor") == 1.0
    assert one("ndcg@4", [2, 1, 0], "letor") == 0.0
    assert one("ndcg@4", [2, 1, 0], "paper") == 1.0
    assert one("p@4", [2, 1, 0], "letor") == 0.5


def test_letor_discount_is_one_for_the_first_two_positions() -> None:
    # 3 + 1 against 1 + 3: swapping the first two changes nothing.
    assert one("ndcg@2", [1, 2], "letor") == one("ndcg@2", [2, 1], "letor") == 1.0
    assert CONVENTIONS["letor"].discount(np.array([1, 2, 4, 8])).tolist() == [1.0, 1.0, 0.5, 1 / 3]


def test_page_rank_counts_pages_of_ten() -> None:
    for position, page in ((1, 1), (10, 1), (11, 2), (20, 2), (21, 3)):
        assert one("mrpr", [0] * (position - 1) + [1]) == 1 / page
    assert one("mrpr(page=5)", [0] * 5 + [1]) == 0.5


def test_err_of_labels_too_large_for_two_to_the_label() -> None:
    # V(5000) with lmax 5000 is 1 to rounding; 2^5000 would overflow.
    assert one("err", [0, 5000]) == 0.5
    with pytest.raises(ParameterError, match="at least the largest label, 3"):
        one("err(lmax=2)", [3])


def test_exponential_gain_of_a_huge_label_is_an_error_that_says_what_to_do() -> None:
    assert one("ndcg", [5000, 0], "trec") == 1.0
    with pytest.raises(DataError, match=r'label 5000 is too large .* convention="trec"'):
        one("ndcg", [5000, 0], "paper")


def test_labels_between_zero_and_the_threshold_gain_without_being_relevant() -> None:
    assert one("ndcg", [0.5, 0], "trec") == 1.0
    assert one("p@1", [0.5, 0], "trec") == 0.0


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("ndcg@10", NDCG(10)),
        ("nDCG@10", NDCG @ 10),
        ("p@5", P(5)),
        ("P(rel=2)@5", P(5, rel=2)),
        ("map", AP()),
        ("ap", AP()),
        ("map@100", AP(100)),
        ("mrr", RR()),
        ("rr@10", RR(10)),
        ("recip_rank", RR()),
        ("err@20", ERR(20)),
        ("err(lmax=4)@20", ERR(20, lmax=4)),
        ("rprec", RPrecision()),
        ("rbp", RBP(p=0.8)),
        ("rbp(p=0.95)", RBP(p=0.95)),
        ("rbp(p=0.95, rel=2)@50", RBP(50, p=0.95, rel=2)),
        ("hit@1", HitRate(1)),
        ("success@1", HitRate(1)),
        ("recall@1000", Recall(1000)),
        ("mrpr", MRPR()),
        ("meanndcg", MeanNDCG()),
        (" p ( rel = 2 ) @ 5 ", P(5, rel=2.0)),
    ],
)
def test_names_parse(text: str, metric: Metric) -> None:
    assert parse_metric(text) == metric


def test_metrics_print_as_the_names_they_parse_from() -> None:
    written = "ndcg@10 p@5 map err@20 p(rel=2)@5 rbp(p=0.8) rbp(p=0.95, rel=2)@50 mrr hit@1 err(lmax=4) mrpr(page=5)"
    names = written.replace(", ", ";").split()
    for name in (n.replace(";", ", ") for n in names):
        assert str(parse_metric(name)) == repr(parse_metric(name)) == name


@given(
    st.sampled_from([NDCG, AP, P, Recall, RR, ERR, RBP, HitRate]),
    st.none() | st.integers(1, 10**6),
    st.none() | st.sampled_from([1, 2.0, 0.5]),
)
def test_every_metric_parses_back_from_its_name(cls: type[Metric], cutoff: int | None, rel: float | None) -> None:
    fields = {"cutoff": cutoff} | ({} if cls in (NDCG, ERR) else {"rel": rel})
    metric = cls(**fields)
    assert parse_metric(str(metric)) == metric
    assert hash(parse_metric(str(metric))) == hash(metric)
    assert pickle.loads(pickle.dumps(metric)) == metric


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.floats(0, 1e6, exclude_min=True))
def test_parameters_survive_the_name_to_the_last_bit(p: float, rel: float) -> None:
    assert parse_metric(str(RBP(p=p, rel=rel))) == RBP(p=p, rel=rel)


def test_ranges_lists_and_objects_are_taken_once_each_in_order() -> None:
    assert [str(m) for m in parse_metrics("ndcg@1-3,p@1-2,map,ndcg@2")] == [
        "ndcg@1",
        "ndcg@2",
        "ndcg@3",
        "p@1",
        "p@2",
        "map",
    ]
    assert parse_metrics([NDCG @ 5, "p@5,map", AP]) == (NDCG(5), P(5), AP())
    assert parse_metrics(NDCG) == (NDCG(),)
    assert RBP(p=0.5) @ 10 == RBP(10, p=0.5)


def test_equal_metrics_are_equal_whatever_number_class_came_in() -> None:
    assert P(5, rel=2) == P(np.int64(5), rel=np.float32(2))
    assert len({P(5, rel=2), P(5, rel=2.0), P @ 5}) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rprek", r"unknown metric 'rprek'\. Did you mean .*'rprec'.*\? Known metrics: .*err@k, .*ndcg@k, "),
        ("ndgc@10", r"unknown metric 'ndgc@10'\. Did you mean 'ndcg'"),
        ("ndcg@", "cutoff must be a whole number or a range such as 1-5"),
        ("ndcg@ten", "cutoff must be a whole number"),
        ("ndcg@5-1", "cutoff must be a whole number or a range"),
        ("ndcg@0", "'cutoff' parameter of NDCG must be a whole number >= 1"),
        ("rprec@5", "rprec takes no cutoff"),
        ("p(level=2)@5", "p has no parameter 'level'; it takes rel"),
        ("meanndcg(rel=1)", "meanndcg has no parameter 'rel'; it takes none"),
        ("p(rel=two)@5", "'rel' parameter of P must be a number > 0. Got 'two'"),
        ("p(rel=0)@5", "'rel' parameter of P must be a number > 0. Got 0"),
        ("rbp(p=1)", "'p' parameter of RBP must be a number between 0 and 1"),
        ("", "no metric given"),
    ],
)
def test_wrong_names_say_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_metrics(text)


@pytest.mark.parametrize("wrong", [7, None, int, Metric])
def test_wrong_objects_are_not_metrics(wrong: object) -> None:
    with pytest.raises(ParameterError, match="unknown metric"):
        parse_metrics([wrong])  # type: ignore[list-item]


@pytest.mark.parametrize("cutoff", [0, -1, 2.5, float("inf"), float("nan"), True, "5"])
def test_cutoffs_must_be_whole_and_positive(cutoff: object) -> None:
    with pytest.raises(ParameterError, match="'cutoff' parameter of NDCG must be a whole number >= 1"):
        NDCG(cutoff)  # type: ignore[arg-type]


def test_interpolated_precision_looks_ahead_and_rounds_as_trec_eval() -> None:
    # Precision at the relevant positions is 1/2, 2/3 and 3/5: the later 2/3 counts for the first item too.
    points = [one(f"iprec(recall={r})", [0, 1, 1, 0, 1]) for r in (0, 0.3, 0.6, 0.8, 1)]
    assert points == [2 / 3, 2 / 3, 2 / 3, 3 / 5, 3 / 5]
    # 0.7 * 3 + 0.9 is a last bit below 3 in double precision, and so trec_eval is content with 2 of 3.
    assert one("iprec(recall=0.7)", [0, 1, 1, 0, 1]) == 2 / 3
    assert one("iprec(recall=1)", [0, 0]) == 0.0


@pytest.mark.parametrize("recall", [-0.1, 1.5, "x"])
def test_a_recall_lies_between_0_and_1(recall: object) -> None:
    with pytest.raises(ParameterError, match="'recall' parameter of InterpolatedPrecision must be a number from"):
        parse_metric(f"iprec(recall={recall})")


def test_one_name_was_expected() -> None:
    with pytest.raises(ParameterError, match="'ndcg@1-3' stands for 3 metrics"):
        parse_metric("ndcg@1-3")


def test_every_known_metric_parses() -> None:
    for name in known_metrics():
        assert str(parse_metric(name.replace("@k", "@3"))).startswith(name.split("@")[0])


tied_lists = st.lists(st.lists(st.integers(0, 3), max_size=8), min_size=1, max_size=5)


@given(tied_lists, st.data())
def test_places_break_ties_by_id_descending_and_only_where_asked(lists: list[list[int]], data: st.DataObject) -> None:
    key = np.array([k for ks in lists for k in ks], dtype=np.float32)
    offsets = np.cumsum([0] + [len(ks) for ks in lists])
    n = len(key)
    ids = data.draw(st.permutations([f"{i:02d}é" for i in range(n)]))
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)) if n else st.just(set()))), dtype=np.int64)
    order = np.array(
        [r for a, b in itertools.pairwise(offsets) for r in sorted(range(a, b), key=lambda r: key[r])],
        dtype=np.int64,
    )
    asked: list[int] = []

    def items(rows: np.ndarray) -> list[str]:
        asked.extend(rows.tolist())
        return [ids[r] for r in rows]

    got = place_items(order, offsets, chosen, key[order], items)
    by_id = sorted(range(n), key=lambda r: ids[r], reverse=True)
    expected = [
        r
        for a, b in itertools.pairwise(offsets)
        for r in sorted([r for r in by_id if a <= r < b], key=lambda r: key[r])
    ]
    assert got.tolist() == [expected.index(r) for r in chosen]
    group = {r: (int(np.searchsorted(offsets, r, side="right")), key[r]) for r in range(n)}
    assert {group[r] for r in asked} <= {group[r] for r in chosen.tolist()}
    assert place_items(order, offsets, chosen).tolist() == [order.tolist().index(r) for r in chosen]

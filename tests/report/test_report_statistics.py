"""What a report states, counted again by other means: SciPy, sets and sums over the raw lists."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

import concordant as cc
from concordant.data.sample import path
from concordant.report import data_summary
from concordant.report.content import Report, build_report
from concordant.report.data_summary import summarise_data
from concordant.report.wording import percent

Runs = dict[str, dict[str, list[tuple[str, float]]]]


@pytest.fixture(scope="module")
def report() -> Report:
    return build_report(cc.read_runs(path("runs")), cc.read_labels(path("qrels.txt")))


@pytest.fixture(scope="module")
def runs() -> Runs:
    """Return expert -> instance -> (item, score), read without the library."""
    out: Runs = defaultdict(lambda: defaultdict(list))
    for file in sorted(path("runs").iterdir()):
        for line in file.read_text().splitlines():
            instance, _, item, _, score, tag = line.split()
            out[tag][instance].append((item, float(score)))
    return out


@pytest.fixture(scope="module")
def qrels() -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = defaultdict(dict)
    for line in path("qrels.txt").read_text().splitlines():
        instance, _, item, label = line.split()
        out[instance][item] = float(label)
    return out


def ranks_of(one: list[tuple[str, float]]) -> dict[str, float]:
    return dict(zip([i for i, _ in one], stats.rankdata([-s for _, s in one]).tolist(), strict=True))


def reciprocal(runs: Runs, instance: str) -> dict[str, float]:
    out: dict[str, float] = defaultdict(float)
    for lists in runs.values():
        for item, rank in ranks_of(lists[instance]).items():
            out[item] += 1 / (60 + rank)
    return out


def ndcg(order: list[str], labels: dict[str, float]) -> float:
    def gains(values: list[float]) -> float:
        return sum(v / math.log2(i + 2) for i, v in enumerate(values[:10]))

    return gains([labels.get(i, 0.0) for i in order]) / gains(sorted(labels.values(), reverse=True))


def best_first(scores: dict[str, float]) -> list[str]:
    """Return the items by score; trec_eval puts the larger id first where scores are equal as single precision."""
    return [i for i, _ in sorted(scores.items(), key=lambda x: (np.float32(x[1]), x[0]), reverse=True)]


def test_counts_of_the_data(report: Report, runs: Runs) -> None:
    held = [(t, {i for i, _ in one}) for lists in runs.values() for t, one in lists.items()]
    items: dict[str, set[str]] = defaultdict(set)
    for t, some in held:
        items[t] |= some
    data = report.data
    assert data.items == sum(map(len, items.values()))
    assert data.coverage == pytest.approx(np.mean([len(some) / len(items[t]) for t, some in held]))
    overlap = []
    for t in items:
        of = [some for u, some in held if u == t]
        overlap.append(np.mean([len(a & b) / len(a | b) for a, b in itertools.combinations(of, 2)]))
    assert data.overlap == pytest.approx(np.mean(overlap))
    scores = [[s for _, s in one] for lists in runs.values() for one in lists.values()]
    assert data.ties == pytest.approx(sum(s.count(v) > 1 for s in scores for v in s) / sum(map(len, scores)))


def test_consensus_and_its_quality_by_hand(report: Report, runs: Runs, qrels: dict[str, dict[str, float]]) -> None:
    assert report.evaluation is not None
    for instance in report.instances:
        scores = reciprocal(runs, instance.id)
        assert [p.score for p in instance.places] == pytest.approx(sorted(scores.values(), reverse=True)[:10])
        assert all(p.score == pytest.approx(scores[p.item]) for p in instance.places)
        assert instance.value == pytest.approx(ndcg(best_first(scores), qrels[instance.id]))


def test_agreement_is_that_of_scipy(report: Report, runs: Runs) -> None:
    assert report.experts is not None
    rows = {row.name: row for row in report.experts.rows}
    every: dict[str, list[float]] = defaultdict(list)
    for instance in report.instances:
        scores = reciprocal(runs, instance.id)
        items = list(scores)
        consensus = stats.rankdata([-round(scores[i], 12) for i in items], method="min")
        for name, lists in runs.items():
            rank = ranks_of(lists[instance.id])
            own = [rank.get(i, len(items) + 1.0) for i in items]
            every[name].append(float(stats.kendalltau(own, consensus).statistic))
    for name, values in every.items():
        assert rows[name].agreement == pytest.approx(np.mean(values))
        assert rows[name].error == pytest.approx(np.std(values, ddof=1) / math.sqrt(len(values)))
    assert report.experts.mean == pytest.approx(np.mean([np.mean(v) for v in every.values()]))


def test_tests_are_scipys_with_holms_correction(report: Report, runs: Runs, qrels: dict[str, dict[str, float]]) -> None:
    evaluation = report.evaluation
    assert evaluation is not None
    assert evaluation.main == "ndcg@10"
    base = np.array([evaluation.values["rrf"][t] for t in qrels])
    p = {}
    for row in evaluation.rows:
        if row.kind == "expert":
            lists = runs[row.name.split(" ")[0]]
            values = np.array([ndcg(best_first(dict(lists[t])), qrels[t]) for t in qrels])
        elif row.name != "rrf":
            values = np.array([evaluation.values[row.name][t] for t in qrels])
        else:
            continue
        p[row.name] = float(stats.ttest_rel(values, base).pvalue)
        assert row.cells["ndcg@10"].difference == pytest.approx(values.mean() - base.mean(), abs=1e-9)
    largest = 0.0
    corrected = {}
    for n, name in enumerate(sorted(p, key=lambda x: p[x])):
        largest = max(largest, min(1.0, (len(p) - n) * p[name]))
        corrected[name] = largest
    for row in evaluation.rows:
        if row.name != "rrf":
            assert row.cells["ndcg@10"].p == pytest.approx(corrected[row.name], rel=1e-6)
            sign = row.cells["ndcg@10"].sign
            assert (sign != 0) == (corrected[row.name] < 0.05)


def test_where_learning_helped_is_counted_both_ways(report: Report, qrels: dict[str, dict[str, float]]) -> None:
    evaluation = report.evaluation
    assert evaluation is not None
    assert evaluation.learned is not None
    mine, theirs = evaluation.values[evaluation.learned], evaluation.values["rrf"]
    assert evaluation.better == sum(mine[t] > theirs[t] + 1e-9 for t in qrels)
    assert evaluation.worse == sum(mine[t] < theirs[t] - 1e-9 for t in qrels)
    first = {i.id: i.places[0].item for i in report.instances}
    learned = evaluation.consensus[evaluation.learned]
    gaps = [qrels[t].get(learned.ranking(t)[0], 0.0) - qrels[t].get(first[t], 0.0) for t in qrels]
    assert evaluation.first_better == sum(g > 0 for g in gaps)
    assert evaluation.first_worse == sum(g < 0 for g in gaps)
    # Stories are told of the instances with the largest gain among those with a better first item.
    told = [mine[c.instance] - theirs[c.instance] for c in evaluation.cases]
    could = sorted((mine[t] - theirs[t] for t, g in zip(qrels, gaps, strict=True) if g > 0), reverse=True)
    assert told == pytest.approx([g for g in could if g > 1e-9][: len(told)])


def test_lists_that_say_what_the_consensus_says_reach_the_most_there_is() -> None:
    items = [f"i{n:02}" for n in range(20)]
    votes = cc.from_lists({f"e{n}": items[: 5 + 3 * n] for n in range(6)})
    report = build_report(votes, methods=[("borda", cc.Borda())])
    assert report.experts is not None
    assert report.experts.max_agreement < 0.9
    assert report.experts.mean == pytest.approx(report.experts.max_agreement)
    sentence = next(s for s in report.summary if s.startswith("Experts agree"))
    assert sentence.startswith("Experts agree closely")
    assert f"at most {report.experts.max_agreement:.2f} for lists this short" in sentence
    pytest.importorskip("jinja2")
    from concordant.report.page import render

    assert f"for lists this short the maximum is {report.experts.max_agreement:.2f}." in render(report)


def test_whole_lists_can_reach_1() -> None:
    report = build_report(cc.from_lists({"x": list("abc"), "y": list("acb"), "z": list("bac")}))
    assert report.experts is not None
    assert report.experts.max_agreement == 1.0
    assert "1 is the same order" in " ".join(report.summary)


def test_judges_who_tie_cannot_agree_with_anything() -> None:
    rows = [(f"j{j}", a, b) for j in range(4) for a, b in itertools.combinations("abcd", 2)]
    ties = [float(j != "j3" and a == "c") for j, a, _ in rows]
    votes = cc.Comparisons(
        ["q"] * len(rows), [j for j, _, _ in rows], [a for _, a, _ in rows], [b for _, _, b in rows],
        [1 - t for t in ties], [0.0] * len(rows), ties,
    )  # fmt: skip
    report = build_report(votes)
    assert report.experts is not None
    # Three judges tie one of their six.
    assert report.experts.max_agreement == pytest.approx((3 * 5 / 6 + 1) / 4)
    assert report.experts.mean == pytest.approx(report.experts.max_agreement)
    assert "at most 0.88 with this many ties" in " ".join(report.summary)


def test_what_ties_is_not_said_to_lead() -> None:
    report = build_report(cc.from_lists({"w": list("abc"), "x": list("bac"), "y": list("abc"), "z": list("bac")}))
    assert "2 items share the first place: a and b" in " ".join(report.summary)


def test_intervals_of_a_model_are_not_called_draws_of_experts() -> None:
    rows = [(f"q{q}", f"j{j}", a, b) for q in range(3) for j in range(4) for a, b in itertools.combinations("abcd", 2)]
    votes = cc.Comparisons(*(list(c) for c in zip(*rows, strict=True)), *([v] * len(rows) for v in (1.0, 0.0, 0.0)))
    said = " ".join(build_report(votes).summary)
    assert "resampl" not in said
    assert "by the 95% intervals of bradley-terry" in said


def test_labels_that_tell_nothing_are_a_warning_and_positive_ones_alone_are_not() -> None:
    votes = cc.from_lists({"x": list("abc"), "y": list("bca")})
    assert any("No label is above 0" in w for w in summarise_data(votes, cc.Labels(["q"], ["a"], [0.0])).warnings)
    assert not any("No label" in w for w in summarise_data(votes, cc.Labels(["q"], ["a"], [1.0])).warnings)


@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_blank_ids_are_seen(name: str) -> None:
    pytest.importorskip("jinja2")
    from concordant.report.page import _short

    report = build_report(cc.from_lists({"x": [name, "b"], "y": [name, "b"], "z": [name, "b"]}))
    assert len(_short(name).strip()) > 1
    assert f'By plackett-luce, "{name}" comes first' in " ".join(report.summary)


def test_agreement_over_a_handful_of_pairs_is_left_open() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for q in range(30):
        for e in range(5):
            rows += [(f"q{q}", f"e{e}", f"i{i}", float(r)) for r, i in enumerate(rng.permutation(8), 1)]
    # One who ranks two items once, and happens to order them as e0 does.
    first = next(r for r in rows if r[0] == "q0" and r[1] == "e0")
    second = next(r for r in rows if r[0] == "q0" and r[1] == "e0" and r[3] == 8)
    rows += [("q0", "stranger", first[2], 1.0), ("q0", "stranger", second[2], 2.0)]
    report = build_report(cc.Preferences(*(list(column) for column in zip(*rows, strict=True))))
    experts = report.experts
    assert experts is not None
    at = experts.order.index("stranger")
    assert [v for j, v in enumerate(experts.tau[at]) if j != at] == [None] * 5
    assert experts.tau[at][at] == 1.0
    assert all(row.nearest != "stranger" for row in experts.rows)
    assert next(row.nearest for row in experts.rows if row.name == "stranger") is None
    others = [v for i, row in enumerate(experts.tau) for j, v in enumerate(row) if at not in (i, j)]
    assert None not in others


def test_who_orders_alike_all_they_share_is_named() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for q in range(20):
        order = rng.permutation(12).tolist()
        # The copy cuts the list elsewhere, so that no two lists are equal.
        for name, some in (("4", order[:9]), ("7", order[2:]), ("twin", order[:9])):
            rows += [(f"q{q}", name, f"i{i}", float(r)) for r, i in enumerate(some, 1)]
        for e in range(3):
            rows += [(f"q{q}", f"e{e}", f"i{i}", float(r)) for r, i in enumerate(rng.permutation(12), 1)]
    report = build_report(cc.Preferences(*(list(column) for column in zip(*rows, strict=True))))
    assert report.experts is not None
    assert report.experts.same_order == [("4", "7", 20 * 21), ("7", "twin", 20 * 21)]
    said = " ".join(report.data.warnings)
    assert "Experts 4 and 7 order all 420 shared pairs of items alike" in said
    # Those who say the same in every instance are named once.
    assert "4 and twin have identical lists in every instance" in said
    assert said.count("twin") == 2


def test_a_heat_map_of_some_instances_says_of_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from concordant.report import content

    rng = np.random.default_rng(2)
    rows = [
        (f"q{q}", f"e{e}", f"i{i}", float(r))
        for q in range(50)
        for e in range(4)
        for r, i in enumerate(np.arange(8) if e < 2 else rng.permutation(8), 1)
        if e != 1 or i > 1
    ]
    votes = cc.Preferences(*(list(column) for column in zip(*rows, strict=True)))
    whole = build_report(votes)
    assert whole.experts is not None
    assert whole.experts.n_sampled is None
    assert whole.left_out == []
    monkeypatch.setattr(content, "_PAIRS", 1.0)
    some = build_report(votes)
    assert some.experts is not None
    assert some.experts.n_sampled == 30
    assert any("30 evenly spaced instances of 50" in line for line in some.left_out)
    assert any("450 shared pairs of items alike (in 30 sampled instances)" in w for w in some.data.warnings)


@pytest.mark.parametrize(("side", "text"), [(52, "−0.12"), (34, "−0.12"), (33, "−.12"), (23, "−.12"), (22, "")])
def test_numbers_of_the_heat_map_have_room_or_are_left_out(side: int, text: str) -> None:
    pytest.importorskip("jinja2")
    from concordant.report.page import _in_cell

    assert _in_cell(-0.1234, side) == text
    whole = {"−0.12": "1.00", "−.12": "1", "": ""}[text]
    assert _in_cell(1.0, side) == whole
    assert _in_cell(-1.0, side) == ("−" + whole if text else "")
    assert _in_cell(None, side) == ""


def test_ranks_followed_among_the_best_are_said_to_be() -> None:
    items = [f"i{n}" for n in range(80)]
    rng = np.random.default_rng(0)
    many = {f"e{e}": [items[i] for i in rng.permutation(80)] for e in range(5)}
    few = {name: [i for i in one if int(i[1:]) < 40] for name, one in many.items()}
    said = [build_report(cc.from_lists(some), methods=[("borda", cc.Borda())]).ranges or "" for some in (many, few)]
    assert "among the top 50 items" in said[0]
    assert "resamples of the experts" in said[1]
    assert "among the" not in said[1]


def test_few_items_are_all_there_is_and_nothing_is_left_open() -> None:
    experts = build_report(cc.from_lists({"x": list("ab"), "y": list("ba"), "z": list("ab"), "w": list("ab")})).experts
    assert experts is not None
    assert all(v is not None for row in experts.tau for v in row)


def test_overlap_of_a_crowd_does_not_rest_on_those_who_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = {f"e{n:03}": (["a", "b"] if n < 50 else [f"x{n}", f"y{n}"]) for n in range(100)}
    whole = summarise_data(cc.from_lists(lists)).overlap
    assert whole == pytest.approx(50 * 49 / (100 * 99))
    monkeypatch.setattr(data_summary, "_LISTS", 4)
    assert summarise_data(cc.from_lists(lists)).overlap == pytest.approx(10 * 9 / (20 * 19))


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0%"),
        (0.00001, "0.1%"),
        (0.05, "5.0%"),
        (0.41, "41%"),
        (0.9972, "99.7%"),
        (0.99999, "99.9%"),
        (1.0, "100%"),
    ],
)
def test_neither_a_little_is_nothing_nor_almost_all_is_all(share: float, text: str) -> None:
    assert percent(share) == text


def test_one_is_not_many() -> None:
    rows = [
        ("p", "x", "a", 1.0),
        ("p", "x", "b", 2.0),
        ("p", "y", "a", 1.0),
        ("q", "x", "a", 1.0),
        ("q", "x", "b", 2.0),
    ]
    items = [("p", "a"), ("p", "b"), ("p", "c"), ("q", "a"), ("q", "b")]
    votes = cc.Preferences(*(list(c) for c in zip(*rows, strict=True)), items=items)
    labels = cc.Labels(["p", "z"], ["a", "a"], [1.0, 1.0])
    said = " ".join(summarise_data(votes, labels).warnings)
    for words in (
        "1 instance has a single list",
        "1 item (20%) was ranked by nobody",
        "1 labelled instance is not in the data and is not evaluated",
        "1 of 2 instances has no labels",
    ):
        assert words in said


def test_intervals_and_tests_are_told_apart(report: Report) -> None:
    assert report.evaluation is not None
    said = " ".join(report.evaluation.how)
    assert "Holm's correction" in said
    assert "95% intervals: bootstrap over instances (2,000 resamples), not corrected for several tests" in said

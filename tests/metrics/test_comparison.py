"""compare: means and paired tests of several methods, and the tables it prints."""

from __future__ import annotations

import itertools
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import concordant as cc
from concordant.data.consensus import Consensus
from concordant.data.index import Texts
from concordant.data.labels import Labels
from concordant.errors import ConcordantWarning, DataError, DataWarning, KindError, ParameterError
from concordant.metrics import Comparison, Evaluation, combine_folds, compare, evaluate
from concordant.metrics.evaluation import expert_consensus
from concordant.metrics.significance import adjust, bootstrap_interval, fisher_randomization, wilcoxon_signed_rank

N, M = 40, 12
QUERIES = [f"q{n}" for n in range(N) for _ in range(M)]
ITEMS = [f"d{i}" for _ in range(N) for i in range(M)]
LABEL = np.random.default_rng(0).integers(0, 3, size=N * M)
LABELS = Labels(QUERIES, ITEMS, LABEL)


def method(noise: float, seed: int) -> Consensus:
    return Consensus(QUERIES, ITEMS, LABEL + noise * np.random.default_rng(seed).normal(size=N * M))


@pytest.fixture(scope="module")
def table() -> Comparison:
    methods = {"base": method(3, 1), "good": method(1, 2), "same": method(3, 3), "bad": method(30, 4)}
    return compare(methods, LABELS, "ndcg@5,map", n_resamples=2000)


def test_means_differences_and_p_values_are_those_of_the_evaluations(table: Comparison) -> None:
    assert table.baseline == "base"
    assert table.metrics == ("ndcg@5", "map")
    base = table.evaluations["base"]
    for m, name in enumerate(table.methods):
        e = table.evaluations[name]
        for q, metric in enumerate(table.metrics):
            d = e.values[metric] - base.values[metric]
            assert table.mean[m, q] == e.mean[metric]
            assert table.difference[m, q] == pytest.approx(d.mean(), abs=1e-12)
            if name == "base":
                continue
            assert table.p_values["t"][m, q] == pytest.approx(
                stats.ttest_rel(e.values[metric], base.values[metric]).pvalue
            )
            assert table.p_values["wilcoxon"][m, q] == pytest.approx(wilcoxon_signed_rank(d).p_value)
            assert table.lower[m, q] < table.difference[m, q] < table.upper[m, q]


def test_holm_over_the_methods_of_each_metric(table: Comparison) -> None:
    for test, p in table.p_values.items():
        for q in range(2):
            raw = p[1:, q]
            order = np.argsort(raw)
            expected = np.empty(3)
            expected[order] = np.minimum(1, np.maximum.accumulate(raw[order] * [3, 2, 1]))
            assert table.adjusted[test][1:, q].tolist() == pytest.approx(expected.tolist())
            assert table.adjusted[test][0, q] == 1.0


def test_marks_say_which_way_a_difference_goes(table: Comparison) -> None:
    assert table.significant().tolist() == [[0, 0], [1, 1], [0, 0], [-1, -1]]
    assert (
        table.significant("wilcoxon").tolist() == table.significant("fisher").tolist() == table.significant().tolist()
    )
    assert table.best.tolist() == [[False] * 2, [True] * 2, [False] * 2, [False] * 2]
    with pytest.raises(ParameterError, match="one of t, fisher, wilcoxon"):
        table.significant("sign")


def test_text_marks_and_explains(table: Comparison) -> None:
    lines = str(table).splitlines()
    assert lines[0].split() == ["method", "ndcg@5", "map"]
    assert lines[2].split() == ["good", f"{table.mean[1, 0]:.4f}*†", f"{table.mean[1, 1]:.4f}*†"]
    assert lines[4].split() == ["bad", f"{table.mean[3, 0]:.4f}‡", f"{table.mean[3, 1]:.4f}‡"]
    # Numbers stand under each other whatever marks follow them.
    assert len({line.index(".") for line in lines[1:5]}) == 1
    assert lines[5].startswith("40 instances; convention trec: gain label, discount 1/log2(1+i)")
    assert lines[6] == "* best of its column"
    assert lines[7] == (
        "† significantly better, ‡ significantly worse than base: paired t-test, two-sided, p < 0.05, "
        "Holm's correction over 3 methods per metric"
    )
    assert repr(table) == str(table)
    percent = table.to_text(percent=True, digits=2).splitlines()
    assert percent[1].split()[1] == f"{100 * table.mean[0, 0]:.2f}"
    assert percent[5].startswith("percent; 40 instances")


def test_details_list_every_difference(table: Comparison) -> None:
    text = table.to_text(details=True)
    assert "difference to base, its 95% bootstrap interval, and p-values after Holm's correction:" in text
    last = text.splitlines()[-1].split()
    assert last[:2] == ["bad", "map"]
    assert last[2] == f"{table.difference[3, 1]:+.4f}"
    assert last[3:5] == [f"[{table.lower[3, 1]:+.4f},", f"{table.upper[3, 1]:+.4f}]"]
    assert last[5:] == [f"{table.adjusted[t][3, 1]:.4f}" for t in ("t", "fisher", "wilcoxon")]


def test_markdown(table: Comparison) -> None:
    lines = table.to_markdown().splitlines()
    assert lines[0] == "| method | ndcg@5 | map |"
    assert lines[1] == "| --- | ---: | ---: |"
    assert lines[3] == f"| good | **{table.mean[1, 0]:.4f}**† | **{table.mean[1, 1]:.4f}**† |"
    assert lines[6] == ""
    assert lines[8].strip() == "**bold** best of its column"


def test_latex_escapes_names() -> None:
    e = evaluate(method(1, 1), LABELS, "p@5")
    text = compare({"a_b & 50%": e, "{x}": e}).to_latex()
    lines = text.splitlines()
    assert lines[1:5] == [r"\begin{tabular}{lr}", r"\toprule", r"method & p@5 \\", r"\midrule"]
    assert lines[5].startswith(r"a\_b \& 50\% & \textbf{")
    assert lines[6].startswith(r"\{x\} & \textbf{")
    assert lines[7:9] == [r"\bottomrule", r"\end{tabular}"]
    assert all(line.startswith("%") for line in lines[9:])


def test_latex_marks(table: Comparison) -> None:
    text = table.to_latex(digits=3)
    assert rf"\textbf{{{table.mean[1, 0]:.3f}}}$^{{\dagger}}$" in text
    assert rf"{table.mean[3, 0]:.3f}$^{{\ddagger}}$" in text


def test_frame_has_nulls_for_the_baseline(table: Comparison) -> None:
    frame = table.to_frame()
    assert frame.shape == (8, 12)
    assert frame.columns[:6] == ["metric", "method", "mean", "difference", "lower", "upper"]
    assert frame.columns[6:8] == ["p_t", "p_t_holm"]
    first = frame.row(0, named=True)
    assert (first["method"], first["difference"], first["p_t"]) == ("base", None, None)
    row = frame.row(5, named=True)
    assert (row["metric"], row["method"]) == ("map", "good")
    assert row["p_fisher_holm"] == table.adjusted["fisher"][1, 1]


def test_identical_methods_have_p_one_and_both_are_best() -> None:
    same = compare({"a": method(1, 1), "b": method(1, 1)}, LABELS, "ndcg@5", n_resamples=50)
    for p in (*same.p_values.values(), *same.adjusted.values()):
        assert p.tolist() == [[1.0], [1.0]]
    assert same.difference.tolist() == same.lower.tolist() == same.upper.tolist() == [[0.0], [0.0]]
    assert same.best.all()
    assert not same.significant().any()
    assert "†" not in str(same).splitlines()[2]
    assert str(same).splitlines()[1].endswith("*")


def test_a_single_method_prints_just_means() -> None:
    alone = compare({"only": method(1, 1)}, LABELS, "ndcg@5,p@5")
    assert alone.baseline is None
    text = str(alone).splitlines()
    assert len(text) == 3
    assert text[1].split() == ["only", f"{alone.mean[0, 0]:.4f}", f"{alone.mean[0, 1]:.4f}"]
    assert alone.to_frame()["difference"].to_list() == [None, None]
    assert "**" not in alone.to_markdown()
    assert not alone.significant().any()


def test_the_baseline_can_be_named(table: Comparison) -> None:
    other = compare(dict(table.evaluations), baseline="good", n_resamples=100)
    assert other.baseline == "good"
    assert other.difference[1].tolist() == [0.0, 0.0]
    assert other.difference[0, 0] == pytest.approx(-table.difference[1, 0])
    assert other.p_values["t"][0, 0] == pytest.approx(table.p_values["t"][1, 0])


def test_evaluations_are_taken_as_they_are_and_cut_to_the_metrics_asked_for(table: Comparison) -> None:
    cut = compare({"base": table.evaluations["base"], "new": method(1, 9)}, LABELS, "map", n_resamples=100)
    assert cut.metrics == ("map",)
    assert cut.mean[0, 0] == table.mean[0, 1]
    with pytest.raises(DataError, match=r"evaluation of 'base' lacks \['p@5'\]; it has \['ndcg@5', 'map'\]"):
        compare({"base": table.evaluations["base"]}, LABELS, "p@5")


def test_what_is_drawn_does_not_depend_on_the_order_of_instances_or_methods(table: Comparison) -> None:
    back = Labels(QUERIES[::-1], ITEMS[::-1], LABEL[::-1])
    names = ("base", "bad", "same", "good")
    consensus = {"base": method(3, 1), "good": method(1, 2), "same": method(3, 3), "bad": method(30, 4)}
    other = compare({n: consensus[n] for n in names}, back, "ndcg@5,map", n_resamples=2000)
    for n in names:
        i, j = table.methods.index(n), names.index(n)
        for test in table.p_values:
            assert table.p_values[test][i].tolist() == pytest.approx(other.p_values[test][j].tolist(), rel=1e-9)
        assert table.lower[i].tolist() == pytest.approx(other.lower[j].tolist(), rel=1e-9)
    again = compare(consensus, LABELS, "ndcg@5,map", n_resamples=2000, random_state=7)
    assert again.lower[1, 0] != table.lower[1, 0]


def test_evaluations_in_another_order_are_paired_by_id() -> None:
    one = Evaluation({"map": np.array([0.1, 0.2, 0.9])}, Texts(["a", "b", "c"]), "trec")
    two = Evaluation({"map": np.array([0.9, 0.1, 0.2])}, Texts(["c", "a", "b"]), "trec")
    pair = compare({"one": one, "two": two})
    assert pair.lower[1, 0] == pair.upper[1, 0] == 0.0
    assert pair.p_values["t"][1, 0] == 1.0


def folded(values: list[list[float]]) -> Evaluation:
    parts = []
    for k, v in enumerate(values):
        names = Texts([f"{k}.{i}" for i in range(len(v))])
        parts.append(Evaluation({"map": np.array(v)}, names, "letor"))
    return combine_folds(parts)


def test_folds_are_weighed_as_their_mean_is() -> None:
    rng = np.random.default_rng(3)
    a, b = ([rng.random(n).tolist() for n in (5, 9, 4)] for _ in range(2))
    pair = compare({"a": folded(a), "b": folded(b)}, n_resamples=500)
    d = [np.array(y) - np.array(x) for x, y in zip(a, b, strict=True)]
    assert pair.difference[1, 0] == pytest.approx(np.mean([x.mean() for x in d]))
    flat, fold = np.concatenate(d), np.repeat([0, 1, 2], [5, 9, 4])
    weights = 1 / (3 * np.array([5, 9, 4])[fold])
    assert pair.p_values["fisher"][1, 0] == fisher_randomization(flat, weights=weights, n_resamples=500)[0]
    low, high = bootstrap_interval(flat, folds=fold, n_resamples=500)
    assert (pair.lower[1, 0], pair.upper[1, 0]) == pytest.approx((low[0], high[0]))
    assert pair.p_values["t"][1, 0] == pytest.approx(stats.ttest_1samp(flat, 0).pvalue)
    assert "mean of 3 folds, 18 instances; convention letor" in str(pair)


def test_notes_of_the_evaluations_are_printed_with_the_method() -> None:
    part = Consensus(QUERIES[: 39 * M], ITEMS[: 39 * M], LABEL[: 39 * M].astype(float))
    with pytest.warns(ConcordantWarning, match="1 of 40 labelled instances have no result"):
        result = compare({"all": method(1, 1), "part": part}, LABELS, "map", n_resamples=50)
    assert str(result).splitlines()[-1] == "note: part: 1 of 40 labelled instances have no result and count 0"


def test_no_tests_at_all() -> None:
    plain = compare({"a": method(1, 1), "b": method(30, 2)}, LABELS, "map", tests=(), n_resamples=50)
    assert plain.p_values == {}
    assert not plain.significant().any()
    assert len(str(plain).splitlines()) == 5


def test_what_cannot_be_compared() -> None:
    a = Evaluation({"map": np.array([0.1, 0.2])}, Texts(["a", "b"]), "trec")
    with pytest.raises(ParameterError, match="no method to compare"):
        compare({})
    with pytest.raises(ParameterError, match=r"'baseline' parameter of compare must be one of a. Got 'b' instead"):
        compare({"a": a}, baseline="b")
    with pytest.raises(ParameterError, match="'tests' parameter of compare must be a list of t, fisher, wilcoxon"):
        compare({"a": a}, tests=["sign"])
    with pytest.raises(ParameterError, match="'tests' parameter"):
        compare({"a": a}, tests="t")
    with pytest.raises(ParameterError, match="'correction' parameter of compare must be one of holm"):
        compare({"a": a}, correction="fdr")
    with pytest.raises(ParameterError, match="'alpha' parameter"):
        compare({"a": a}, alpha=5)
    with pytest.raises(ParameterError, match="'x' is a consensus: pass labels and metrics"):
        compare({"x": method(1, 1)}, LABELS)
    other = Evaluation({"map": np.array([0.1, 0.2])}, Texts(["a", "b"]), "letor")
    with pytest.raises(DataError, match=r"their convention is the same. 'a' has trec, 'b' has letor"):
        compare({"a": a, "b": other})
    fewer = Evaluation({"map": np.array([0.1])}, Texts(["a"]), "trec")
    with pytest.raises(DataError, match=r"the same instances. 'a' has 2, 'b' has 1, 1 of them in common"):
        compare({"a": a, "b": fewer})


def test_differences_in_the_last_bit_are_no_differences() -> None:
    values = np.linspace(0.1, 0.9, 30)
    nudged = np.nextafter(values, 1.0)
    names = Texts([str(i) for i in range(30)])
    pair = compare(
        {n: Evaluation({"map": v}, names, "trec") for n, v in (("a", values), ("b", nudged))}, n_resamples=50
    )
    assert {test: p[1, 0] for test, p in pair.p_values.items()} == {"t": 1.0, "fisher": 1.0, "wilcoxon": 1.0}


def test_a_spread_over_seeds_stands_beside_its_mean() -> None:
    class Seeded(Evaluation):
        """An evaluation that knows how far its means move."""

        @property
        def spread(self) -> dict[str, float]:
            return {"map": 0.0123, "p@1": float("nan")}

    instances = Texts(["q1", "q2", "q3"])
    values = {"map": np.array([0.5, 0.25, 0.75]), "p@1": np.array([1.0, 0.0, 1.0])}
    plain = Evaluation({"map": np.array([0.2, 0.1, 0.3]), "p@1": np.array([0.0, 0.0, 1.0])}, instances, "trec")
    # The other order of instances: what is paired anew keeps its spread.
    turned = Seeded({n: v[::-1] for n, v in values.items()}, Texts(["q3", "q2", "q1"]), "trec")
    table = compare({"plain": plain, "seeded": turned}, tests=["t"])
    assert table.spread is not None
    assert np.array_equal(table.spread, [[np.nan, np.nan], [0.0123, np.nan]], equal_nan=True)
    lines = table.to_text(percent=True, digits=1).splitlines()
    assert lines[:3] == ["method   map         p@1", "plain   20.0        33.3", "seeded  50.0 ±1.2*  66.7*"]
    assert "± standard deviation over the means of the seeds" in lines
    assert "| seeded | **0.50 ± 0.01** | **0.67** |" in table.to_markdown(digits=2)
    assert r"seeded & \textbf{0.50 $\pm$ 0.01} & \textbf{0.67} \\" in table.to_latex(digits=2)
    assert "±" not in compare({"plain": plain, "same": plain}, tests=["t"]).to_text()


def test_preferences_are_compared_expert_by_expert() -> None:
    runs, labels, _ = cc.synthetic.meta_search(10, random_state=2)
    found = cc.compare(runs, labels, ["map"], tests=["t"], baseline="e2")
    assert found.methods == tuple(runs.experts)
    for expert in found.methods:
        own = cc.evaluate(expert_consensus(runs, expert), labels, "map")
        assert found.evaluations[expert].mean["map"] == own.mean["map"]
    assert found.baseline == "e2"
    with pytest.raises(ParameterError, match="these are preferences: pass labels and metrics"):
        cc.compare(runs)
    with pytest.raises(KindError, match=r"compare takes a consensus, the preferences of experts, or a mapping"):
        cc.compare(labels, labels, ["map"])  # type: ignore[arg-type]
    each = cc.evaluate(runs, labels, ["map"])
    assert {e: found.mean for e, found in each.items()} == {e: x.mean for e, x in found.evaluations.items()}


def test_runs_and_consensus_stand_side_by_side() -> None:
    runs, labels, _ = cc.synthetic.meta_search(10, random_state=2)
    fused = cc.aggregate(runs, "rrf")
    one = runs.select_experts(["e3"])
    mixed = cc.evaluate({"rrf": fused, "runs": runs, "the third": one}, labels, "map, p@5")
    assert list(mixed) == ["rrf", *runs.experts, "the third"]
    assert mixed["rrf"].mean == cc.evaluate(fused, labels, "map, p@5").mean
    assert mixed["the third"].values["map"].tolist() == mixed["e3"].values["map"].tolist()
    assert str(mixed).splitlines()[0].split() == ["run", "map", "p@5"]
    frame = mixed.to_frame()
    assert frame.columns == ["run", "instance", "map", "p@5"]
    assert len(frame) == len(mixed) * len(labels)
    table = cc.compare({"rrf": fused, "runs": runs, "again": mixed["e1"]}, labels, ["map"], tests=["t"])
    assert table.methods == ("rrf", *runs.experts, "again")
    with pytest.raises(ParameterError, match=r"\['e1'\] would name two rows"):
        cc.compare({"e1": fused, "runs": runs}, labels, ["map"])
    with pytest.raises(KindError, match="'x' is a dict; pass a consensus or preferences"):
        cc.evaluate({"x": {}}, labels, "map")  # type: ignore[dict-item]


def test_all_pairs_are_the_tests_against_every_baseline() -> None:
    runs, labels, _ = cc.synthetic.meta_search(12, random_state=3)
    runs = runs.select_experts(list(runs.experts)[:4])
    plain: dict[str, Any] = {"metrics": ["map", "p@5"], "correction": "none", "n_resamples": 2000}
    every = cc.compare(runs, labels, all_pairs=True, **plain)
    assert every.baseline is None
    for n, name in enumerate(every.methods):
        alone = cc.compare(runs, labels, baseline=name, **plain)
        np.testing.assert_allclose(every.difference[:, n], alone.difference, atol=1e-15)
        for test in ("t", "wilcoxon"):
            np.testing.assert_allclose(every.p_values[test][:, n], alone.p_values[test], atol=1e-15)
        np.testing.assert_allclose(every.p_values["fisher"][:, n], alone.p_values["fisher"], atol=0.05)
        np.testing.assert_allclose(every.lower[:, n], alone.lower, atol=0.03)
    for m, n in itertools.permutations(range(4), 2):
        assert every.lower[m, n].tolist() == (-every.upper[n, m]).tolist()
    holm = cc.compare(runs, labels, ["map"], all_pairs=True, tests=["t"])
    upper = np.triu_indices(4, 1)
    expected = adjust(holm.p_values["t"][..., 0][upper], "holm")
    assert holm.adjusted["t"][..., 0][upper].tolist() == expected.tolist()
    assert len(holm.to_frame()) == 6
    with pytest.raises(ParameterError, match="all pairs or against a baseline"):
        cc.compare(runs, labels, ["map"], all_pairs=True, baseline="e1")


def test_letters_name_the_methods_that_are_exceeded() -> None:
    names = Texts([str(i) for i in range(30)])
    noise = np.random.default_rng(0).normal(0, 0.01, (3, 30))
    found = {
        n: Evaluation({"map": level + e}, names, "trec")
        for n, level, e in zip("xyz", (0.5, 0.3, 0.3), noise, strict=True)
    }
    table = compare(found, all_pairs=True, tests=["t"])
    assert table.letters == ("a", "b", "c")
    lines = table.to_text(digits=2).splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["a x", "b y", "c z"]
    assert lines[1].endswith("0.50*^bc")
    assert "^" not in lines[2] + lines[3]
    assert "Holm's correction over 3 pairs per metric" in lines[-1]
    assert "**0.50**<sup>bc</sup>" in table.to_markdown(digits=2)
    assert r"\textbf{0.50}$^{bc}$" in table.to_latex(digits=2)
    assert "+0.1970" in table.to_text(details=True)
    many = compare({f"m{i}": found["xyz"[i > 0]] for i in range(60)}, all_pairs=True, tests=["t"], n_resamples=10)
    assert "^2,3,4," in many.to_text()


def test_experts_who_answer_little_are_named_once() -> None:
    runs = cc.Preferences(
        ["q1", "q1", "q2", "q2", "q1"],
        ["x", "x", "x", "x", "y"],
        ["a", "b", "a", "b", "a"],
        [1, 2, 1, 2, 1],
        experts=["x", "y", "z"],
    )
    labels = Labels(["q1", "q2"], ["a", "b"], [1, 1])
    with pytest.warns(DataWarning) as told:
        found = cc.compare(runs, labels, "map", tests=["t"])
    assert found.methods == ("x", "y")
    assert [str(w.message) for w in told] == [
        "1 of 3 experts answer only some of the labelled instances, the others count 0: ['y'].",
        "1 of 3 experts answer no labelled instance and are left out: ['z'].",
    ]


def test_instances_may_be_named_by_anything_that_is_gone_through_once() -> None:
    runs, labels, _ = cc.synthetic.meta_search(6, random_state=2)
    some = runs.instances.tolist()[:3]
    lists = {name: cc.aggregate(runs, name) for name in ("rrf", "borda")}
    found = cc.compare(lists, labels, "map", tests=["t"], instances=iter(some))
    assert [len(e) for e in found.evaluations.values()] == [3, 3]


def cells_of(page: str) -> list[list[str]]:
    """Return the cells of an HTML table, unescaped, row by row."""
    table = ElementTree.fromstring(f"<div>{page}</div>").find("table")
    assert table is not None
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_the_views_of_a_notebook_hold_what_is_printed() -> None:
    rows = [(q, e, i, s) for q in "pqr" for e, i, s in (("<x>", "a&b", 2.0), ("<x>", "c", 1.0), ("y", "c", 3.0))]
    runs = cc.Preferences(*map(list, zip(*rows, strict=True)), kind="score")
    labels = cc.Labels(list("pqr"), ["a&b", "c", "c"], [1, 1, 2])
    fused = cc.aggregate(runs, "comb-sum")
    each = cc.evaluate(runs, labels, ["map", "p@1"])
    assert cells_of(each._repr_html_()) == [line.split() for line in str(each).splitlines()[:3]]
    assert "<p>3 instances; convention trec" in each._repr_html_()
    one = cc.evaluate(fused, labels, "map")
    assert cells_of(one._repr_html_()) == [line.split() for line in str(one).splitlines()[:2]]
    for all_pairs in (False, True):
        found = compare({"fused": fused, "runs": runs}, labels, "map,p@1", all_pairs=all_pairs, n_resamples=50)
        text = str(found).splitlines()
        want = [line.rsplit(maxsplit=2) for line in text[:4]]
        assert cells_of(found._repr_html_()) == want
        below = ElementTree.fromstring(f"<div>{found._repr_html_()}</div>").findall("p")
        assert [p.text for p in below] == text[4:]


def test_containers_show_their_first_rows() -> None:
    runs = cc.from_lists({"<x>": [f"d{n}" for n in range(12)], "y": ["d1"]}, weights={"y": 0.5})
    table = cells_of(runs._repr_html_())
    frame = runs.to_frame()
    assert table[0] == frame.columns
    assert [row[:3] for row in table[1:]] == [list(row[:3]) for row in frame.head(10).rows()]
    assert "to_frame() has all" in runs._repr_html_()
    votes = cc.Comparisons(["q"], ["e"], ["a"], ["b"], [1], [0], [2])
    assert cells_of(votes._repr_html_())[1] == ["q", "e", "a", "b", "1", "0", "2"]
    assert "to_frame() has all" not in votes._repr_html_()
    labels = cc.Labels(["q", "q"], ["a", "b"], [1, 0])[:0]
    assert len(cells_of(labels._repr_html_())) == 1

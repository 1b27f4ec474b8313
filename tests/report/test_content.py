"""What a report says: every number against a direct count, a planted truth, or another way to the same thing."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import strategies as st

import concordant as cc
from concordant.data.preferences import Preferences
from concordant.errors import DataError
from concordant.inference.experts import expert_records, list_agreement
from concordant.metrics.distances import kendall_tau_b
from concordant.report import content, method_results
from concordant.report.clusters import cluster_experts, cluster_p_value
from concordant.report.consensus_agreement import consensus_agreement, leave_one_out_agreement, outlying_experts
from concordant.report.content import build_report
from concordant.report.data_summary import summarise_data
from concordant.report.label_evaluation import evaluate_methods
from concordant.report.method_results import (
    NamedMethod,
    default_methods,
    find_rank_intervals,
    method_agreement,
    rank_differences,
    run_method,
    same_first_share,
)
from concordant.report.wording import listed

ITEMS = "abcdef"
lists = st.dictionaries(
    st.sampled_from("wxyz"), st.dictionaries(st.sampled_from(ITEMS), st.integers(1, 4), min_size=1), min_size=1
)


def preferences_of(instances: list[dict[str, dict[str, int]]], kind: str = "rank") -> Preferences:
    rows = [(f"q{n}", e, i, r) for n, by in enumerate(instances) for e, own in by.items() for i, r in own.items()]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return Preferences(*columns, kind=kind, items=[(f"q{n}", i) for n in range(len(instances)) for i in ITEMS])


def crowd(n: int, orders: dict[str, list[str]], swaps: int = 3, seed: int = 0) -> Preferences:
    """Return n lists for each named order, each with a few neighbours exchanged."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, order in orders.items():
        for e in range(n):
            own = list(order)
            for _ in range(swaps):
                i = int(rng.integers(len(own) - 1))
                own[i], own[i + 1] = own[i + 1], own[i]
            out[f"{name}-{e}"] = own
    return cc.from_lists(out)


# Agreement with the consensus.


@pytest.mark.parametrize("kind", ["rank", "rating"])
def test_standing_is_that_of_the_table_of_experts(kind: str) -> None:
    votes, _, _ = cc.synthetic.meta_search(20, random_state=3)
    if kind == "rating":
        votes = Preferences.from_codes(
            votes.slots, votes.experts, votes.list_expert, votes.list_offsets, votes.list_starts, votes.slot,
            -votes.value, kind="rating",
        )  # fmt: skip
    consensus = cc.aggregate(votes, "borda")
    found, records = consensus_agreement(votes, consensus), expert_records(votes, consensus)
    np.testing.assert_allclose(found.mean, [r["agreement"] for r in records], rtol=1e-12)
    np.testing.assert_allclose(found.coverage, [r["coverage"] for r in records])
    assert found.lists.tolist() == [r["lists"] for r in records]
    assert (found.stderr > 0).all()


def test_standing_of_judges() -> None:
    votes = cc.Comparisons("all", ["j", "j", "k"], ["a", "a", "a"], ["b", "c", "b"], [1, 1, 0], [0, 0, 1], [0, 0, 0])
    found = consensus_agreement(votes, cc.aggregate(votes, "copeland"))
    assert found.rows.tolist() == [2, 1]
    assert found.stderr == pytest.approx([1 / math.sqrt(2), 1.0])


def test_odd_experts_are_found_and_only_they() -> None:
    votes, _, _ = cc.synthetic.meta_search(80, quality=(2, 2, 1.5, 1.8, 2, 0, -2), random_state=1)
    names = votes.experts.tolist()
    found = outlying_experts(leave_one_out_agreement(votes))
    assert {names[e]: word for e, word in found.items()} == {
        names[6]: "inverted",
        names[5]: "no better than chance",
    }


def test_among_others_nobody_faces_itself() -> None:
    """Against the consensus of the others reached by Borda, item by item, for lists of all items."""
    votes, _, _ = cc.synthetic.meta_search(5, missing=0.0, random_state=2)
    votes = votes.to_ranks()
    found = leave_one_out_agreement(votes)
    for e, name in enumerate(votes.experts):
        rest = cc.aggregate(votes.drop_experts([name]), "borda")
        own = list_agreement(votes, rest.rank, behind=False)[votes.list_expert == e]
        assert found.mean[e] == pytest.approx(own.mean())


def test_judges_among_others() -> None:
    rows = [(j, a, b) for j in "ijk" for a, b in ("ab", "bc", "ac")] + [("odd", b, a) for a, b in ("ab", "bc", "ac")]
    votes = cc.Comparisons("all", *(list(c) for c in zip(*rows, strict=True)))
    assert dict(zip(votes.experts, leave_one_out_agreement(votes).mean, strict=True)) == {
        "i": 1.0,
        "j": 1.0,
        "k": 1.0,
        "odd": -1.0,
    }


def test_among_many_who_draw_by_chance_none_is_called_turned_around() -> None:
    rng = np.random.default_rng(0)
    order = [f"i{i}" for i in range(12)]
    lists = {f"e{e}": [str(i) for i in rng.permutation(order)] for e in range(300)}
    lists |= {f"good{e}": order for e in range(500)}
    votes = cc.from_lists(lists)
    found = outlying_experts(consensus_agreement(votes, cc.aggregate(votes, "borda")))
    assert sum(word == "inverted" for word in found.values()) <= 1


def test_with_three_experts_nobody_stands_apart() -> None:
    votes = cc.from_lists({"x": list("abcdef"), "y": list("abcdef"), "z": list("fedcba")})
    assert outlying_experts(consensus_agreement(votes, cc.aggregate(votes, "borda"))) == {}


# Groups.


def test_groups_recover_planted_camps_and_their_ends() -> None:
    up = [f"i{i:02}" for i in range(15)]
    votes = crowd(50, {"up": up, "down": up[::-1], "turn": up[7:] + up[:7]}, swaps=8)
    groups = cluster_experts(votes)
    camps = [{votes.experts[int(e)].split("-")[0] for e in g.members} for g in groups]
    assert sorted(len(g.members) for g in groups) == [50, 50, 50]
    assert all(len(camp) == 1 for camp in camps)
    for g in groups:
        own = g.agreement.mean[g.members]
        assert g.agreement.mean[g.typical] == own.max()
        assert g.agreement.mean[g.deviant] == own.min()
        assert g.cohesion == pytest.approx(own.mean())


def test_groups_of_judges() -> None:
    rng = np.random.default_rng(2)
    rows = []
    for j in range(40):
        for _ in range(30):
            a, b = rng.choice(8, 2, replace=False)
            better = (a < b) == (j < 25)
            rows.append((f"j{j}", f"m{a}", f"m{b}", int(better), int(not better)))
    expert, left, right, won, lost = zip(*rows, strict=True)
    votes = cc.Comparisons("all", expert, left, right, won, lost, [0] * len(rows))
    sizes = [len(g.members) for g in cluster_experts(votes)]
    assert sizes == [25, 15]


def one_opinion(experts: int, seed: int, *, judges: bool = False) -> cc.Preferences | cc.Comparisons:
    """Return lists or comparisons of experts who all draw from the same model."""
    rng = np.random.default_rng(seed)
    score = np.linspace(1.5, -1.5, 8)
    if not judges:
        order = np.argsort(-(score + rng.gumbel(size=(experts, 8))), axis=1)
        return cc.from_lists({f"e{k}": [f"i{i}" for i in row[:6]] for k, row in enumerate(order.tolist())})
    rows = []
    for j in range(experts):
        for _ in range(15):
            a, b = rng.choice(8, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(score[b] - score[a]))
            rows.append((f"j{j}", f"m{a}", f"m{b}", int(won), int(not won)))
    expert, left, right, won_, lost = zip(*rows, strict=True)
    return cc.Comparisons("all", expert, left, right, won_, lost, [0] * len(rows))


@pytest.mark.parametrize("judges", [False, True])
def test_a_crowd_of_one_opinion_has_no_clusters(judges: bool) -> None:
    # At the level 0.05 one of twenty such crowds may be split; that three of four are has probability 0.0005.
    p = [cluster_p_value(one_opinion(70, seed, judges=judges)) for seed in range(4)]
    assert sum(value <= 0.05 for value in p) < 3
    assert np.median(p) > 0.1


def test_two_opinions_are_found_among_ballots_that_were_cast_several_times() -> None:
    up = [f"i{i}" for i in range(7)]
    votes = crowd(35, {"up": up, "down": up[::-1]}, swaps=4)
    assert cluster_p_value(votes) == 0.025
    weighted = votes.with_weights({name: 1 + k % 3 for k, name in enumerate(votes.experts)})
    assert cluster_p_value(weighted) == 0.025


def test_clusters_are_claimed_only_where_the_test_finds_some() -> None:
    report = build_report(one_opinion(70, 1))
    assert report.experts is not None
    assert report.experts.groups == []
    assert any("A test finds no clusters among them (p = 0." in sentence for sentence in report.summary)


def test_no_groups_where_nobody_is_named() -> None:
    assert cluster_experts(cc.Comparisons("all", None, ["a"], ["b"])) == []


# Stock.


def test_stock_counts_what_is_there() -> None:
    votes = preferences_of([{"x": {"a": 1, "b": 2}, "y": {"b": 1, "c": 1, "d": 2}}, {"x": {"a": 1}}])
    data = summarise_data(votes)
    assert (data.instances, data.experts, data.items, data.rows) == (2, 2, 12, 6)
    assert data.coverage == pytest.approx((2 / 6 + 3 / 6 + 1 / 6) / 3)
    assert data.overlap == pytest.approx(1 / 4)
    assert data.ties == pytest.approx(2 / 6)
    assert {bar.name: bar.items for bar in data.support} == {"0": 7, "1": 4, "2": 1}
    assert any("1 instance has a single list" in w for w in data.warnings)
    assert any("ranked by nobody" in w for w in data.warnings)


def test_stock_names_twins_and_silent_experts() -> None:
    order = [f"i{i}" for i in range(12)]
    rows = [("q", e, i, r) for e in ("x", "y") for r, i in enumerate(order, 1)]
    rows += [("q", "z", i, r) for r, i in enumerate(reversed(order), 1)]
    columns = [list(c) for c in zip(*rows, strict=True)]
    data = summarise_data(Preferences(*columns, experts=["x", "y", "z", "mute"]))
    assert any(w.startswith("x and y have identical lists") for w in data.warnings)
    assert any("ranked nothing: mute" in w for w in data.warnings)


def test_stock_of_comparisons_sees_ties_pairs_and_sides() -> None:
    n = 400
    votes = cc.Comparisons("all", ["j"] * n, ["a", "b"] * (n // 2), ["b", "a"] * (n // 2), [1] * n, [0] * n, [1] * n)
    data = summarise_data(votes)
    assert data.ties == 0.5
    assert any("shown on the left won 100.0%" in w for w in data.warnings)
    assert next(f for f in data.facts if f.name == "Pairs compared").value == "1"


def test_stock_of_labels() -> None:
    votes = cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]})
    facts = {f.name: f for f in summarise_data(votes, cc.Labels(["q", "q"], ["a", "z"], [1, 0])).facts}
    assert facts["Judged"].value == "33%"
    assert facts["Labelled instances"].value == "1"


@pytest.mark.parametrize(("support", "bars"), [([5, 5], [("5", 2)]), ([1, 3], [("1", 1), ("2", 0), ("3", 1)])])
def test_histogram_of_few(support: list[int], bars: list[tuple[str, int]]) -> None:
    from concordant.report.data_summary import _histogram

    assert [tuple(bar) for bar in _histogram(np.array(support))] == bars


def test_histogram_of_many_loses_nobody() -> None:
    from concordant.report.data_summary import _histogram

    support = np.random.default_rng(0).integers(3, 5000, 400)
    assert sum(bar.items for bar in _histogram(support)) == 400


# Methods.


def test_default_methods_suit_the_data() -> None:
    whole = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"]})
    cut = cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]})
    many = preferences_of([{"x": {"a": 1}}, {"x": {"b": 1}}])
    rated = preferences_of([{"x": {"a": 5, "b": 2}}], kind="rating")
    votes = cc.Comparisons("all", ["i", "j", "k"], ["a"] * 3, ["b"] * 3)
    assert default_methods(whole)[0].label == "plackett-luce"
    assert default_methods(cut)[0].label == "plackett-luce"
    assert default_methods(many)[0].label == "rrf"
    assert default_methods(rated)[0].label == "mpm"
    assert [a.label for a in default_methods(votes)][:2] == ["bradley-terry", "bradley-terry(reliability=true)"]
    for votes in (whole, cut, many, rated):
        for named in default_methods(votes):
            assert run_method(named, votes).consensus is not None, named.label


def test_a_method_that_cannot_answer_says_why() -> None:
    result = run_method(NamedMethod("rrf", cc.RRF()), cc.Comparisons("all", None, ["a"], ["b"]))
    assert result.consensus is None
    assert "RRF" in result.reason


def test_ranges_from_contributions_are_those_of_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method_results, "_DEPTH", 10_000)
    votes, _, _ = cc.synthetic.meta_search(6, random_state=5)
    result = run_method(NamedMethod("rrf", cc.RRF()), votes)
    assert result.consensus is not None
    drawn = np.random.default_rng(0).multinomial(8, np.full(8, 1 / 8), size=40).astype(float)
    quick = method_results._from_contributions(cc.RRF().fit(votes), votes, result.consensus, drawn)
    slow = method_results._from_refits(cc.RRF(), votes, result.consensus, drawn)
    assert quick is not None
    np.testing.assert_array_equal(quick, slow)


def test_ranges_hold_the_rank_and_are_wide_where_experts_differ() -> None:
    same = cc.from_lists({f"e{i}": list("abcdef") for i in range(6)})
    result = run_method(NamedMethod("borda", cc.Borda()), same)
    found = find_rank_intervals(result, same)
    assert found is not None
    assert found.lower.tolist() == found.upper.tolist() == [1, 2, 3, 4, 5, 6]
    split = cc.from_lists({f"e{i}": list("abcdef" if i % 2 else "fedcba") for i in range(6)})
    wide = find_rank_intervals(run_method(NamedMethod("borda", cc.Borda()), split), split)
    assert wide is not None
    assert wide.lower[0] == 1
    assert wide.upper[0] == 6


def test_resamples_hold_the_number_of_camps(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = {f"e{e}": list("abcde" if e % 2 else "edcba") for e in range(12)}
    votes = cc.from_lists(lists)
    result = run_method(NamedMethod("mixture", cc.Mixture(of="mallows")), votes)
    fitted = []
    fit = cc.Mixture.fit_predict
    monkeypatch.setattr(cc.Mixture, "fit_predict", lambda self, *a: (fitted.append(self.components), fit(self, *a))[1])
    monkeypatch.setattr(method_results, "_RESAMPLES", 3)
    assert find_rank_intervals(result, votes) is not None
    assert fitted == [2, 2, 2]


def test_no_ranges_of_two_experts() -> None:
    votes = cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]})
    assert find_rank_intervals(run_method(NamedMethod("borda", cc.Borda()), votes), votes) is None


def test_likeness_is_tau_of_every_two_methods() -> None:
    votes, _, _ = cc.synthetic.meta_search(7, random_state=2)
    results = [run_method(NamedMethod(name, cc.METHODS[name]()), votes) for name in ("rrf", "borda", "copeland")]
    tau = method_agreement(results, votes)
    for a, b in combinations(range(3), 2):
        one, other = results[a].consensus, results[b].consensus
        assert one is not None
        assert other is not None
        each = []
        for n in range(len(votes)):
            own = slice(*votes.slots.offsets[n : n + 2])
            each.append(kendall_tau_b(one.rank[own].astype(float), other.rank[own].astype(float)))
        assert tau[a, b] == pytest.approx(np.mean(each))


def test_same_first_counts_instances_and_shared_places() -> None:
    one = cc.Consensus(["p", "p", "q", "q"], ["a", "b", "a", "b"], [2, 1, 1, 1])
    other = cc.Consensus(["p", "p", "q", "q"], ["a", "b", "a", "b"], [1, 2, 1, 0])
    assert same_first_share(one, other) == 0.5


def test_differences_are_near_the_top() -> None:
    votes = cc.from_lists({"x": [f"i{n}" for n in range(40)], "y": [f"i{n}" for n in range(40)]})
    results = [run_method(NamedMethod("borda", cc.Borda()), votes) for _ in range(2)]
    ranks = np.arange(40, 0, -1).astype(float)
    moved = ranks.copy()
    # One item falls from the first place to the fifth, another from the 30th to the 39th.
    moved[0], moved[29] = ranks[4] - 0.5, ranks[38] - 0.5
    assert results[1].consensus is not None
    results[1].consensus = cc.Consensus.from_codes(votes.slots, moved)
    found = rank_differences(results, votes, 3)
    assert found[0].item == "i0"
    assert found[0].ranks == [1, 5]
    assert all(min(d.ranks) <= 10 for d in found)


# Labels.


@pytest.fixture(scope="module")
def searched() -> tuple[Preferences, cc.Labels]:
    votes, labels, _ = cc.synthetic.meta_search(60, quality=(2, 1, 0, 0, -1, -1, -1), random_state=4)
    return votes, labels


def test_truth_evaluates_and_learns_whom_to_believe(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    results = [run_method(NamedMethod("rrf", cc.RRF()), votes), run_method(NamedMethod("borda", cc.Borda()), votes)]
    evaluation = evaluate_methods(votes, labels, results, [NamedMethod("listwise-linear", cc.ListwiseLinear())])
    rows = {row.name: row for row in evaluation.rows}
    assert results[0].consensus is not None
    direct = cc.cross_validate(cc.RRF(), votes, labels, metrics="ndcg@10,map")
    assert rows["rrf"].cells["ndcg@10"].mean == pytest.approx(direct.mean["ndcg@10"])
    assert rows["rrf"].cells["map"].mean == pytest.approx(direct.mean["map"])
    assert rows["listwise-linear"].kind == "learned"
    assert rows["listwise-linear"].cells["ndcg@10"].sign == 1
    assert evaluation.rows[0].name == "listwise-linear"
    assert evaluation.learned == "listwise-linear"
    assert evaluation.better + evaluation.equal + evaluation.worse == evaluation.instances == 60
    assert any(row.kind == "expert" for row in evaluation.rows)
    line = next(line for line in evaluation.curves if line.name == "rrf")
    assert line.y[-1] == pytest.approx(rows["rrf"].cells["ndcg@10"].mean)
    assert line.low is not None
    assert line.low[0] < line.y[0]


def test_cases_are_told_by_the_numbers_of_the_explanation(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    results = [run_method(NamedMethod("rrf", cc.RRF()), votes)]
    evaluation = evaluate_methods(votes, labels, results, [NamedMethod("listwise-linear", cc.ListwiseLinear())])
    assert evaluation.cases
    learned = evaluation.consensus["listwise-linear"]
    assert results[0].consensus is not None
    for case in evaluation.cases:
        assert case.chosen_label > case.replaced_label
        assert case.learned_value > case.baseline_value
        assert learned.ranking(case.instance)[0] == case.chosen
        assert results[0].consensus.ranking(case.instance)[0] == case.replaced
        # Experts add up to the difference of the two scores.
        n = learned.instances.codes[case.instance]
        own = slice(*learned.slots.offsets[n : n + 2])
        score = dict(zip(learned.items[own].tolist(), learned.score[own], strict=True))
        total = sum(v.amount for v in case.contributions) + case.others
        assert total == pytest.approx(score[case.chosen] - score[case.replaced], abs=1e-9)
        for contribution in case.contributions:
            ranking = [i for i in case.items if i in (case.chosen, case.replaced)]
            column = [case.ranks[case.items.index(i)][case.experts.index(contribution.expert)] for i in ranking]
            assert set(column) == {contribution.chosen_rank, contribution.replaced_rank}


def test_what_is_tested_was_not_learned_from(searched: tuple[Preferences, cc.Labels]) -> None:
    """Labels drawn by chance teach nothing: a model that saw them would be far above the equal vote."""
    votes, labels = searched
    rng = np.random.default_rng(0)
    chance = cc.Labels.from_codes(labels.slots, rng.permutation(labels.label))
    results = [run_method(NamedMethod("rrf", cc.RRF()), votes)]
    evaluation = evaluate_methods(votes, chance, results, [NamedMethod("listwise-linear", cc.ListwiseLinear(l2=1e-4))])
    rows = {row.name: row.cells["ndcg@10"].mean for row in evaluation.rows}
    assert rows["listwise-linear"] < rows["rrf"] + 0.06


def test_too_few_labels_to_learn_from_are_said(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    report = build_report(votes[:5], labels[:5])
    assert report.evaluation is not None
    assert "only 5 instances" in report.evaluation.left_out["listwise-linear"]
    assert report.evaluation.learned is None
    assert next(m for m in report.methods if m.label == "listwise-linear").reason


def test_labels_of_other_instances_are_left_out_or_refused(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    alone = build_report(votes[:20], labels[:20], methods=[("rrf", cc.RRF())])
    beside = build_report(votes[:20], labels, methods=[("rrf", cc.RRF())])
    assert alone.evaluation is not None
    assert beside.evaluation is not None
    assert beside.evaluation.rows == alone.evaluation.rows
    assert any("40 labelled instances are not in the data" in w for w in beside.data.warnings)
    with pytest.raises(DataError, match="other instances"):
        build_report(votes[:20], labels[20:])


def test_given_folds_are_used(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    parts = [(votes[a:b], labels[a:b]) for a, b in ((0, 20), (20, 40), (40, 60))]
    folds = [tuple(parts[(f + i) % 3] for i in range(3)) for f in range(3)]
    results = [run_method(NamedMethod("rrf", cc.RRF()), votes)]
    evaluation = evaluate_methods(
        votes, labels, results, [NamedMethod("listwise-linear", cc.ListwiseLinear())], folds=folds
    )
    assert any("3 given folds" in line for line in evaluation.how)
    direct = cc.cross_validate(cc.ListwiseLinear(), folds=folds, metrics="ndcg@10", convention="trec")
    found = next(row for row in evaluation.rows if row.name == "listwise-linear")
    assert found.cells["ndcg@10"].mean == pytest.approx(direct.mean["ndcg@10"])


def test_letor_is_measured_where_lists_are_long_enough(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    results = [run_method(NamedMethod("rrf", cc.RRF()), votes)]
    evaluation = evaluate_methods(votes, labels, results, [], convention="letor")
    assert evaluation.main == "ndcg@5"
    direct = cc.evaluate(cc.aggregate(votes, "rrf"), labels, "ndcg@5", convention="letor")
    assert evaluation.rows[0].cells["ndcg@5"].mean >= direct.mean["ndcg@5"] - 1e-12


# The whole.


def test_report_of_many_instances(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    report = build_report(votes, labels, title="t", sources=["runs"])
    assert report.main == "rrf"
    assert not report.leaderboard
    assert len(report.instances) == 60
    first = report.instances[0]
    consensus = cc.aggregate(votes, "rrf")
    assert [p.item for p in first.places] == consensus.ranking(first.id)[: len(first.places)]
    assert report.evaluation is not None
    assert first.value == report.evaluation.values["rrf"][first.id]
    # Ranks by expert, as their lists have them.
    place, codes = votes.positions("min"), votes.experts.codes
    of = {
        (votes.experts[int(e)], votes.items[int(s)]): int(p)
        for e, s, p in zip(votes.row_expert, votes.slot, place, strict=True)
        if votes.slots.instance[s] == 0
    }
    for p, row in zip(first.places, first.ranks, strict=True):
        assert row == [of.get((e, p.item)) for e in codes]
    assert 3 <= len(report.summary) <= 6
    assert report.experts is not None
    assert len(report.experts.tau) == 7


def test_report_of_a_leaderboard() -> None:
    from concordant.data.sample import path

    votes = cc.read_comparisons(path("votes.csv"))
    report = build_report(votes)
    leaderboard = cc.aggregate(votes, "bradley-terry")
    assert [p.item for p in report.leaderboard] == leaderboard.ranking()
    assert leaderboard.rank_upper is not None
    assert report.leaderboard[0].rank_upper == leaderboard.rank_upper[leaderboard.order()[0]]
    assert report.experts is not None
    assert "bradley-terry(reliability=true)" in report.experts.columns
    assert 3 <= len(report.summary) <= 6
    assert report.evaluation is None


def test_a_ballot_cast_three_times_agrees_three_times() -> None:
    """Weighted ballots have the mean agreement of the same ballots written out."""
    cast = {"e0": (list("abcd"), 3), "e1": (list("dc"), 1), "e2": (list("ab"), 2)}
    short = cc.from_lists({e: b for e, (b, _) in cast.items()}, weights={e: n for e, (_, n) in cast.items()})
    long = cc.from_lists({f"{e}-{i}": b for e, (b, n) in cast.items() for i in range(n)})
    a, b = (build_report(votes, methods=[("borda", cc.Borda())]).experts for votes in (short, long))
    assert a is not None
    assert b is not None
    assert a.mean == pytest.approx(b.mean, abs=1e-12)
    assert a.max_agreement == pytest.approx(b.max_agreement, abs=1e-12)
    assert a.max_agreement < 1


def test_report_of_a_crowd_shows_groups_in_place_of_pairs() -> None:
    up = [f"i{i:02}" for i in range(9)]
    report = build_report(crowd(40, {"up": up, "down": up[::-1]}))
    assert report.experts is not None
    assert report.experts.tau == []
    assert [g.size for g in report.experts.groups] == [40, 40]
    assert {g.best[0] for g in report.experts.groups} <= {"i00", "i01", "i02", "i08", "i07", "i06"}
    assert all(g.others[g.number - 1] > 0 > min(g.others) for g in report.experts.groups)


def test_report_without_experts() -> None:
    report = build_report(cc.Comparisons("all", None, ["a", "b", "a"], ["b", "c", "c"]))
    assert report.experts is None
    assert 3 <= len(report.summary) <= 6 or len(report.summary) == 3


def test_what_long_lists_leave_out_is_said(
    monkeypatch: pytest.MonkeyPatch, searched: tuple[Preferences, cc.Labels]
) -> None:
    monkeypatch.setattr(content, "_INSTANCES", 10)
    monkeypatch.setattr(content, "_ITEMS", 3)
    many = build_report(searched[0])
    assert len(many.instances) == 10
    assert any("50 of 60 instances" in line for line in many.left_out)
    one = build_report(cc.from_lists({"x": list("abcdef"), "y": list("abcdef"), "z": list("abcfed")}))
    assert len(one.leaderboard) == 3
    assert any("3 of 6 items" in line for line in one.left_out)


def test_methods_of_the_users_choice(searched: tuple[Preferences, cc.Labels]) -> None:
    votes, labels = searched
    report = build_report(votes, labels, methods=[("crf", cc.CRF()), ("borda", cc.Borda())])
    assert report.main == "borda"
    assert [m.label for m in report.methods] == ["borda", "crf"]
    assert report.evaluation is not None
    assert report.evaluation.learned == "crf"


def test_nothing_to_report() -> None:
    empty = Preferences([], [], [], [])
    with pytest.raises(DataError, match="no ranking and no comparison"):
        build_report(empty)
    votes = cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]})
    with pytest.raises(DataError, match="without labels"):
        build_report(votes, methods=[("crf", cc.CRF())])


def test_numbers_that_stand_for_experts_are_called_experts() -> None:
    assert listed(["12", "13"], word="expert") == "experts 12 and 13"
    assert listed(["bm25"], word="expert") == "bm25"
    lists = {str(i): list("abcdef") for i in range(8)} | {"99": list("fedcba")}
    summary = build_report(cc.from_lists(lists)).summary
    assert any("Expert 99 is inverted" in sentence for sentence in summary)


# Names of items.


def test_sentences_call_items_by_name_with_the_id() -> None:
    votes = cc.from_lists({e: ["1", "2", "3"] for e in "xyz"})
    report = build_report(votes, names={"1": "Alien", "3": "3", "9": "nobody's"})
    assert report.names == {"1": "Alien"}
    assert "Alien [1] comes first, then items 2 and 3" in " ".join(report.summary)
    # What is counted and compared are ids.
    assert [place.item for place in report.leaderboard] == ["1", "2", "3"]


def test_names_of_other_items_are_an_error() -> None:
    votes = cc.from_lists({e: ["a", "b"] for e in "xyz"})
    with pytest.raises(
        DataError, match=r"names are of other items. The data has \['a', 'b'\], the names are of \['1'\]"
    ):
        build_report(votes, names={"1": "Alien"})

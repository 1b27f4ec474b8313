"""What lists say about items they leave out: declared by the data, obeyed by the methods, instance by instance."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import concordant as cc
from concordant.errors import DataError, DataWarning

# Every method that obeys, so set up that it is quick.
OBEYING: dict[str, Callable[..., cc.Aggregator]] = {
    "condorcet": cc.Condorcet,
    "condorcet fusion": lambda **p: cc.Condorcet(fusion=True, **p),
    "copeland": cc.Copeland,
    "coombs": cc.Coombs,
    "baldwin": cc.Baldwin,
    "nanson": cc.Nanson,
    "minimax": cc.Minimax,
    "schulze": cc.Schulze,
    "ranked-pairs": cc.RankedPairs,
    "kemeny": lambda **p: cc.Kemeny(solver="local", **p),
    **{f"MC{c}": partial(cc.MarkovChain, chain=c) for c in (1, 2, 3, 4)},
    "plackett-luce": lambda **p: cc.PlackettLuce(uncertainty="none", **p),
    "mallows": lambda **p: cc.Mallows(solver="local", **p),
    "extended-mallows": lambda **p: cc.ExtendedMallows(e_step="borda", inference="borda", **p),
}
# Those that judge each instance from that instance alone, without anything learned.
ALONE = [name for name in OBEYING if name != "extended-mallows"]


def scores(method: cc.Aggregator, votes: cc.Preferences) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cc.errors.ConcordantWarning)
        return method.fit_predict(votes).score.tolist()


@pytest.fixture(scope="module")
def cut() -> cc.Preferences:
    """Return the first 8 of some 40 documents by six systems, for four queries, as runs declare them."""
    return cc.synthetic.runs(4, skill=[1.2, 1.0, 0.8, 0.6, 0.3, 0.0], top=8, pool=40, random_state=4).preferences


def write_runs(votes: cc.Preferences, folder: Path) -> Path:
    for expert, own in votes.to_frame().group_by("expert"):
        rows = own.select("instance", "item", "score").rows()
        lines = [f"{q} Q0 {i} 1 {s} {expert[0]}\n" for q, i, s in rows]
        (folder / f"{expert[0]}.trec").write_text("".join(lines))
    return folder


def test_every_method_with_the_choice_is_tested_here() -> None:
    able = {n for n in cc.METHODS if "missing" in (c := cc.METHODS[n].constraints) and c["missing"].test("auto")}
    assert able - {n for n in cc.METHODS if cc.METHODS[n].tags.supervised} == {m().name for m in OBEYING.values()}


@pytest.mark.parametrize("name", OBEYING)
def test_runs_are_cut_off_and_free_lists_say_nothing(cut: cc.Preferences, tmp_path: Path, name: str) -> None:
    make = OBEYING[name]
    read = cc.read_runs(write_runs(cut, tmp_path))
    assert scores(make(), read) == scores(make(missing="below"), read)
    assert scores(make(), read) != scores(make(missing="unknown"), read)
    assert scores(make(missing="unknown"), read) == scores(make(), read.with_missing("unknown"))
    lists = {e: cut["q1"].select_experts([e]).to_frame().drop_nulls()["item"].to_list() for e in cut.experts}
    free = cc.from_lists(lists)
    assert scores(make(), free) == scores(make(missing="unknown"), free)
    assert scores(make(missing="below"), free) == scores(make(), cc.from_lists(lists, missing="below"))


@pytest.mark.parametrize("name", ALONE)
def test_mixed_declarations_give_what_each_instance_gives_alone(cut: cc.Preferences, name: str) -> None:
    mixed = cut.with_missing({"q2": "unknown", "q4": "unknown"})
    together = scores(OBEYING[name](), mixed)
    assert together == [s for one in mixed for s in scores(OBEYING[name](), one)]
    each = [
        scores(OBEYING[name](missing=m), cut[q]) for q, m in zip(cut.instances, ["below", "unknown"] * 2, strict=True)
    ]
    assert together == [s for own in each for s in own]


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_trust_learned_from_mixed_declarations_takes_each_as_declared(cut: cc.Preferences) -> None:
    mixed = cut.with_missing({"q2": "unknown", "q4": "unknown"})
    model, below, unknown = (
        cc.ExtendedMallows(e_step="borda", inference="borda", max_iter=5, missing=m).fit(mixed)
        for m in ("auto", "below", "unknown")
    )
    assert model.fit_info_.missing == "below in 2 of 4 instances"
    for other in (below, unknown):
        assert model.theta_.tolist() != other.theta_.tolist()
        other.theta_ = model.theta_
    got = model.predict(mixed)
    assert got["q1"].score.tolist() == below.predict(mixed)["q1"].score.tolist()
    assert got["q2"].score.tolist() == unknown.predict(mixed)["q2"].score.tolist()


@pytest.mark.parametrize("chain", [1, 2, 3])
def test_a_walk_along_cut_lists_is_that_along_lists_with_the_rest_tied_below(cut: cc.Preferences, chain: int) -> None:
    one = cut["q1"].to_ranks("min")
    rows = [(e, i) for e in one.experts for i in one.items]
    known = {(e, i): r for _, e, i, r, _ in one.to_frame().rows()}
    whole = cc.Preferences(
        ["q1"] * len(rows), [e for e, _ in rows], [i for _, i in rows], [known.get(row, 99.0) for row in rows]
    )
    want = dict(zip(whole.items, scores(cc.MarkovChain(chain=chain), whole), strict=True))
    got = dict(zip(one.items, scores(cc.MarkovChain(chain=chain), one), strict=True))
    assert got == pytest.approx(want, abs=1e-12)


def test_lists_that_hold_neither_item_do_not_outvote_one_that_does() -> None:
    # Only x knows a and b; majorities of all lists would leave both where they are.
    lists = {"x": ["a", "b"], "y": ["c", "d"], "z": ["d", "c"], "w": ["c", "d"]}
    got = cc.MarkovChain().fit_predict(cc.from_lists(lists, missing="below"))
    assert got.ranking() == ["c", "d", "a", "b"]
    assert len(set(got.rank.tolist())) == 4


def test_kemeny_is_not_led_by_what_one_system_returns_and_no_other(cut: cc.Preferences) -> None:
    sample = cc.synthetic.runs(30, skill=[1.3] * 3 + [0.1] * 7, top=20, pool=300, relevant=0.05, random_state=1)
    labels = sample.labels
    values = {}
    for name in ("kemeny", "copeland", "MC4", "plackett-luce"):
        answer = OBEYING[name]().fit_predict(sample.preferences)
        free = OBEYING[name](missing="unknown").fit_predict(sample.preferences)
        values[name] = [cc.evaluate(c, labels, ["ndcg@10"]).mean["ndcg@10"] for c in (free, answer)]
    assert values["kemeny"][1] > 3 * values["kemeny"][0]
    assert all(now > before + 0.05 for before, now in values.values())


def test_free_partial_rankings_keep_their_plackett_luce_scores() -> None:
    sample = cc.synthetic.plackett_luce(10, 60, choice=4, random_state=3)
    lists = {e: own["item"].to_list() for (e,), own in sample.preferences.to_frame().group_by("expert")}
    free = cc.from_lists(lists)
    model = cc.PlackettLuce(prior=0.5)
    assert sample.preferences.missing == free.missing == "unknown"
    assert (
        model.fit_predict(free).score.tolist()
        == cc.PlackettLuce(prior=0.5, missing="unknown").fit_predict(free).score.tolist()
    )
    assert model.fit_info_.missing == "unknown"
    truth = np.array([sample.scores[i] for i in free.items])
    assert np.corrcoef(model.consensus_.score, truth)[0, 1] > 0.9


def test_the_best_few_of_all_items_are_declared_so() -> None:
    told = cc.synthetic.plackett_luce({"a": 2.0, "b": 1.0, "c": 0.0, "d": -1.0}, 4000, length=2, random_state=1)
    assert told.preferences.missing == "below"
    got = cc.PlackettLuce(prior=0).fit_predict(told.preferences)
    assert got.score.tolist() == pytest.approx([1.5, 0.5, -0.5, -1.5], abs=0.15)


# What is said about it.


def test_fit_info_says_as_what_items_left_out_counted(cut: cc.Preferences) -> None:
    for votes, said in (
        (cut, "below"),
        (cut.with_missing("unknown"), "unknown"),
        (cut.with_missing({"q2": "unknown"}), "below in 3 of 4 instances"),
        (cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]}), None),
        (cut.comparisons(), None),
    ):
        method = cc.Copeland()
        assert method.fit(votes).fit_info_.missing == method.missing_as(votes) == said
    assert cc.Copeland(missing="below").fit(cut.with_missing("unknown")).fit_info_.missing == "below"
    assert cc.RRF().fit(cut).fit_info_.missing is None


@pytest.mark.parametrize("name", ["bradley-terry", "mpm", "svp"])
def test_methods_that_cannot_obey_say_so_once(cut: cc.Preferences, name: str) -> None:
    method = cc.METHODS[name]()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        method.fit(cut).predict(cut)
        method.predict(cut)
    [warning] = [w for w in said if issubclass(w.category, DataWarning)]
    text = str(warning.message)
    assert f"{type(method).__name__} takes them as unknown" in text
    assert all(able in text for able in ("copeland", "kemeny", "plackett-luce", "markov-chain"))
    assert text in method.fit_info_.warnings
    assert method.fit_info_.missing == "unknown"
    whole = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["c", "a", "b"]}, missing="below")
    for silent in (cut.with_missing("unknown"), whole):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            cc.METHODS[name]().fit_predict(silent)
        assert not [w for w in said if issubclass(w.category, DataWarning)]


def test_first_places_of_lists_that_say_nothing_of_the_rest_are_refused() -> None:
    lists = {"x": ["a", "b", "c"], "y": ["b", "d", "a"], "z": ["a", "d", "c"]}
    model = cc.ExtendedMallows(k=2)
    with pytest.raises(
        DataError, match=r"k=2.*lists of instance 'q' say nothing about absent items. Pass missing='below'"
    ):
        model.fit(cc.from_lists(lists))
    told = scores(cc.ExtendedMallows(k=2), cc.from_lists(lists, missing="below"))
    assert told == scores(cc.ExtendedMallows(k=2, missing="below"), cc.from_lists(lists))
    # Of lists that hold everything the rest is known.
    whole = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c", "b"]})
    assert scores(cc.ExtendedMallows(k=2), whole) == scores(cc.ExtendedMallows(k=2, missing="below"), whole)


# Real runs.


@pytest.mark.data
@pytest.mark.slow
def test_runs_of_trec_3_cut_at_20_are_fused_about_as_well_as_by_rrf_at_the_defaults(data_dir: Path) -> None:
    from concordant_papers import trec3

    folder = data_dir / "trec3-adhoc"
    if not (folder / "TREC-3-runs.tar.xz").exists():
        pytest.skip("no TREC-3 runs")
    runs = trec3.read(str(folder))
    # Through a frame, which knows the items that some list holds and no others.
    p = cc.from_frame(runs.preferences[:15].top(20).to_frame().drop_nulls())
    assert p.missing == "below"
    labels = runs.labels.align(p)

    def ndcg(method: cc.Aggregator) -> float:
        return float(cc.evaluate(method.fit_predict(p), labels, ["ndcg@10"]).mean["ndcg@10"])

    rrf = ndcg(cc.RRF())
    for name in ("condorcet", "copeland", "kemeny", "MC1", "MC4", "plackett-luce"):
        make = OBEYING[name]
        assert scores(make(), p) == scores(make(missing="below"), p)
        assert ndcg(make()) > rrf - 0.05
        assert ndcg(make()) > ndcg(make(missing="unknown")) + 0.01
    assert ndcg(cc.Kemeny(solver="local", missing="unknown")) < rrf / 2

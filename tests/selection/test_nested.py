"""A nested evaluation reports what a search is worth on instances that neither its fits nor its choices saw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.selection.common import LABELS, Guess, P, Seen, Spy, given_folds, ids

import concordant as cc
from concordant.data import synthetic
from concordant.data.splits import k_folds
from concordant.errors import KindError
from concordant.execution import force_threads
from concordant.selection import GridSearch, Nested, RandomSearch, cross_validate, nested

KS = [0.5, 2, 8, 30, 120]


def test_it_is_a_plain_loop_over_searches() -> None:
    search = GridSearch(cc.RRF(), {"k": KS}, metric="ndcg@3", folds=3, random_state=7)
    found = nested(search, P, LABELS, outer=4, random_state=2, metrics="map,ndcg@3")
    assert found.metrics == ("ndcg@3", "map")
    chosen, inner = [], []
    for run, (train, test) in zip(found.runs, k_folds(P, 4, 2), strict=True):
        own = GridSearch(cc.RRF(), {"k": KS}, metric="ndcg@3", folds=3, random_state=7).fit(P[train], LABELS[train])
        want = cc.evaluate(own.predict(P[test]), LABELS[test], "ndcg@3,map")
        assert run.evaluation.mean == want.mean
        chosen.append(own.best_params_)
        inner.append(own.best_score_)
    assert list(found.chosen) == chosen
    assert found.inner.tolist() == inner
    assert found.optimism == pytest.approx(np.mean(inner) - found.mean["ndcg@3"])
    assert sum(found.counts.values()) == 4
    assert found.counts == {f"k={k!r}": n for k, n in _count(c["k"] for c in chosen).items()}
    assert "best_method_" not in vars(search)


def _count(values: Any) -> dict[Any, int]:
    values = list(values)
    return dict(sorted({v: values.count(v) for v in dict.fromkeys(values)}.items(), key=lambda kv: -kv[1]))


def test_outer_test_instances_never_reach_a_fit_or_an_inner_choice() -> None:
    log: list[Seen] = []
    search = GridSearch(Spy(log=log), {"k": [1, 10, 60]}, folds=2)
    with force_threads(1):
        nested(search, P, LABELS, outer=4)
    per_fold = 3 * 2 * 2 + 2  # a fit and a prediction for every candidate and inner fold, the last fit, the test
    assert len(log) == 4 * per_fold
    for f, split in enumerate(k_folds(P, 4, 0)):
        own = log[f * per_fold : (f + 1) * per_fold]
        test = ids(P[split.test])
        assert own[-1] == Seen("predict", test, params=own[-1].params)
        for seen in own[:-1]:
            assert not (seen.instances | seen.labelled | seen.validation) & test
        assert own[-2].instances == own[-2].labelled == ids(P[split.train])


def test_given_folds_choose_on_their_vali_parts() -> None:
    log: list[Seen] = []
    folds = given_folds()
    with force_threads(1):
        found = nested(GridSearch(Spy(log=log), {"k": KS}, metric="ndcg@5"), outer=folds, metrics="map")
    assert found.convention == "letor"
    assert len(log) == 3 * (2 * len(KS) + 1)
    for f, fold in enumerate(folds):
        own = log[f * (2 * len(KS) + 1) : (f + 1) * (2 * len(KS) + 1)]
        for seen in own[:-1]:
            assert seen.instances == ids(fold.train.preferences if seen.call == "fit" else fold.vali.preferences)
        values = [
            cc.evaluate(
                cc.RRF(k=k).fit_predict(fold.vali.preferences), fold.vali.labels, "ndcg@5", convention="letor"
            ).mean["ndcg@5"]
            for k in KS
        ]
        assert found.inner[f] == max(values)
        assert found.chosen[f] == {"k": KS[int(np.argmax(values))]}


def test_on_noise_the_inner_score_is_luck_and_the_outer_one_is_not() -> None:
    # Labels that nobody knows anything about: whatever is chosen is chosen by chance.
    noise = synthetic.meta_search(60, quality=(0, 0, 0), n_items=(8, 12), random_state=1)
    search = RandomSearch(Guess(), {"guess": list(range(40))}, n=40, metric="ndcg@5", folds=3)
    found = nested(search, noise.preferences, noise.labels, outer=5)
    every = [
        cross_validate(Guess(guess=g), noise.preferences, noise.labels, metrics="ndcg@5").mean["ndcg@5"]
        for g in range(40)
    ]
    typical, spread = float(np.mean(every)), float(np.std(every))
    assert found.optimism > 2 * spread
    assert abs(found.mean["ndcg@5"] - typical) < 2 * spread
    assert float(found.inner.mean()) > typical + 1.5 * spread
    whole = search.fit(noise.preferences, noise.labels)
    assert whole.best_score_ > found.mean["ndcg@5"] + spread


def test_what_is_good_is_found_and_not_too_dear() -> None:
    learns = cc.CPS(adherence="supervised", unjudged="drop")
    found = nested(GridSearch([cc.RRF(), cc.Borda(), learns], metric="map", folds=3), P, LABELS, outer=4)
    assert found.counts == {"method='cps'": 4}
    assert found.mean["map"] == cross_validate(learns, P, LABELS, folds=4).mean["map"]
    assert abs(found.optimism) < 0.05


def test_threads_do_not_matter() -> None:
    results = []
    for n in (1, 3):
        with force_threads(n):
            results.append(nested(RandomSearch(Guess(), {"guess": list(range(9))}, n=3, folds=2), P, LABELS, outer=3))
    one, other = results
    assert one.values["map"].tobytes() == other.values["map"].tobytes()
    assert one.chosen == other.chosen
    assert one.inner.tobytes() == other.inner.tobytes()


def test_seeds_repeat_the_whole_search() -> None:
    search = RandomSearch(Guess(), {"guess": list(range(50))}, n=3, folds=2)
    found = nested(search, P, LABELS, outer=3, seeds=3)
    assert found.seeds == (0, 1, 2)
    assert len(found.runs) == 9
    for seed in (1, 2):
        alone = nested(search.with_seed(seed), P, LABELS, outer=3)
        assert alone.chosen == found.chosen[3 * seed : 3 * seed + 3]
        assert found.seed_means["map"][seed] == alone.mean["map"]
    assert found.spread["map"] > 0


def test_conventions_of_inside_and_outside() -> None:
    plain = GridSearch(cc.RRF(), {"k": KS}, metric="ndcg@5", folds=2)
    paper = GridSearch(cc.RRF(), {"k": KS}, metric="ndcg@5", folds=2, convention="paper")
    assert nested(plain, P, LABELS, outer=2).convention == "trec"
    both = nested(paper, P, LABELS, outer=2)
    assert (both.convention, both.inner_convention) == ("paper", "paper")
    taken = nested(plain, P, LABELS, outer=2, convention="paper")
    assert taken.inner.tolist() == both.inner.tolist()
    mixed = nested(paper, P, LABELS, outer=2, convention="trec")
    assert mixed.inner.tolist() == both.inner.tolist()
    assert mixed.mean["ndcg@5"] != both.mean["ndcg@5"]
    assert math.isnan(mixed.optimism)
    assert f"inner ndcg@5 {float(mixed.inner.mean()):.4f} (convention paper)" in str(mixed)
    assert plain.convention is None


def test_it_prints_what_was_chosen_and_both_scores() -> None:
    found = nested(GridSearch(cc.RRF(), {"k": [60]}, metric="map", folds=2), P, LABELS, outer=3)
    assert isinstance(found, Nested)
    assert found.metrics == ("map", "ndcg@10")
    lines = str(found).splitlines()
    assert lines[-2] == "chosen in 3 searches: k=60 (3)"
    inner, outer = float(found.inner.mean()), found.mean["map"]
    assert lines[-1] == f"inner map {inner:.4f} (chosen by it), outer {outer:.4f}, difference {inner - outer:+.4f}"
    percent = found.to_text(digits=2, percent=True).splitlines()[-1]
    assert percent.startswith(f"inner map {100 * inner:.2f} (chosen by it), outer {100 * outer:.2f}, ")
    assert repr(found) == str(found)
    assert found.per_run["chosen"].to_list() == ["k=60"] * 3
    assert cc.compare({"search": found, "rrf": cross_validate(cc.RRF(), P, LABELS, metrics="map,ndcg@10", folds=3)})


def test_a_method_is_no_search() -> None:
    with pytest.raises(KindError, match=r"nested evaluates a GridSearch or RandomSearch. Got RRF"):
        nested(cc.RRF(), P, LABELS)  # type: ignore[arg-type]

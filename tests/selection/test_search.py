"""Searches choose what a plain loop would choose, from training instances alone, and report what they tried."""

from __future__ import annotations

import math
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.selection.common import LABELS, Guess, P, QuietSpy, Seen, Spy, by_hand, given_folds, ids

import concordant as cc
from concordant.base.checks import CHECKS, Check, checks_for
from concordant.data.splits import k_folds, train_validation_split
from concordant.errors import ConcordantWarning, ContractError, DataError, KindError, NotFittedError, ParameterError
from concordant.execution import force_threads, watch
from concordant.selection import GridSearch, RandomSearch, cross_validate

LEARNS = cc.CPS(adherence="supervised", unjudged="drop")
KS = [0.5, 2, 8, 30, 120]


def test_a_grid_is_a_plain_loop() -> None:
    search = GridSearch(cc.RRF(), {"k": KS, "ties": ["min", "max"]}, metric="ndcg@5", folds=4, random_state=3)
    search.fit(P, LABELS)
    values = [by_hand(cc.RRF(k=k), k_folds(P, 4, 3), "ndcg@5") for k in KS]
    means = [float(np.mean(v)) for v in values]
    best = int(np.argmax(means))
    assert [t.params for t in search.tried_] == [{"k": k, "ties": t} for k in KS for t in ("min", "max")]
    assert [t.folds.tolist() for t in search.tried_] == [v for v in values for _ in range(2)]
    assert search.best_params_ == {"k": KS[best], "ties": "min"}
    assert search.best_score_ == means[best] == max(means)
    assert search.best_index_ == 2 * best
    assert search.tried_[0].std == pytest.approx(np.std(values[0], ddof=1))
    alone = cross_validate(cc.RRF(k=KS[best]), P, LABELS, metrics="ndcg@5", folds=4, random_state=3)
    assert search.best_score_ == alone.mean["ndcg@5"]


def test_the_best_is_fitted_again_to_everything() -> None:
    search = GridSearch(LEARNS, {"distance": ["kendall", "footrule", "spearman"]}, metric="map", folds=3)
    consensus = search.fit_predict(P, LABELS)
    again = type(LEARNS)(**LEARNS.get_params() | search.best_params_).fit(P, LABELS)
    assert consensus == search.consensus_ == again.predict(P)
    assert np.array_equal(search.best_method_.adherence_, again.adherence_)
    assert search.learned_experts() == again.learned_experts()
    assert search.expert_weights_.equals(again.expert_weights_)
    info = search.fit_info_
    assert (info.n_iter, info.validation, info.chosen) == (3, search.best_score_, search.best_params_)
    assert info.labels["labelled"] == 24
    assert info.seconds > 0


def test_what_is_tested_is_not_learned_from_but_by_the_last_fit() -> None:
    log: list[Seen] = []
    GridSearch(Spy(log=log), {"k": [1, 60]}, folds=3, random_state=1).fit(P, LABELS)
    fits = [seen for seen in log if seen.call == "fit"]
    parts = [ids(P[s.train]) for s in k_folds(P, 3, 1)]
    assert [seen.labelled == seen.instances for seen in fits] == [True] * 7
    assert fits[-1].instances == ids(P)
    assert sorted((seen.params[0], sorted(seen.instances)) for seen in fits[:-1]) == sorted(
        (k, sorted(part)) for k in (1, 60) for part in parts
    )
    assert len([seen for seen in log if seen.call == "predict"]) == 6


def test_with_a_validation_part_there_are_no_folds_and_no_second_fit() -> None:
    log: list[Seen] = []
    train, vali = train_validation_split(P, 0.4, 2)
    search = GridSearch(Spy(log=log), {"k": KS}, metric="ndcg@5").fit(
        P[train], LABELS[train], validation=(P[vali], LABELS[vali])
    )
    fits = [seen for seen in log if seen.call == "fit"]
    assert len(fits) == len(KS)
    for seen in fits:
        assert seen.instances == seen.labelled == ids(P[train])
        assert seen.validation == seen.validation_labelled == ids(P[vali])
    want = [cc.evaluate(cc.RRF(k=k).fit_predict(P[vali]), LABELS[vali], "ndcg@5").mean["ndcg@5"] for k in KS]
    assert [t.mean for t in search.tried_] == want
    assert search.best_params_ == {"k": KS[int(np.argmax(want))]}
    assert all(math.isnan(t.std) for t in search.tried_)
    assert "fold 1" in search.results_.columns
    assert "fold 2" not in search.results_.columns


def test_a_validation_part_that_is_learned_from_is_refused() -> None:
    search = GridSearch(cc.RRF(), {"k": KS})
    with pytest.raises(DataError, match=r"1 of 2 test instances of the validation part are also in its training data"):
        search.fit(P[:10], LABELS, validation=(P[9:11], LABELS[9:11]))
    with pytest.raises(ParameterError, match=r"'validation' parameter of GridSearch.fit must be a pair"):
        search.fit(P[:10], LABELS, validation=0.2)


def test_a_share_is_held_out_in_every_fit_and_in_the_last() -> None:
    log: list[Seen] = []
    GridSearch(Spy(log=log), {"k": [1, 60]}, folds=3, validation_part=0.25, random_state=5).fit(P, LABELS)
    fits = [seen for seen in log if seen.call == "fit"]
    assert [len(seen.validation) for seen in fits] == [4] * 6 + [6]
    assert not any(seen.validation & seen.instances for seen in fits)
    assert fits[-1].validation == ids(P[train_validation_split(P, 0.25, 5).test])


def test_methods_without_supervision_get_no_labels() -> None:
    log: list[Seen] = []
    GridSearch(QuietSpy(log=log), {"k": [1, 60]}, folds=3).fit(P, LABELS)
    assert not any(seen.labelled for seen in log)


def test_ties_go_to_the_first() -> None:
    for ks in ([60, 60.0, 60], [7, 7.0]):
        search = GridSearch(cc.RRF(), {"k": ks}, folds=3).fit(P, LABELS)
        assert search.best_index_ == 0
        assert search.results_["rank"].to_list() == [1] * len(ks)


def test_the_best_of_several_methods() -> None:
    several: list[Any] = [(cc.RRF(), {"k": KS}), cc.Borda(), "copeland", (LEARNS, [{"distance": ["footrule"]}, {}])]
    search = GridSearch(several, metric="map", folds=3).fit(P, LABELS)
    alone = [cc.RRF(k=k) for k in KS]
    methods = [*alone, cc.Borda(), cc.Copeland(), cc.CPS(**LEARNS.get_params() | {"distance": "footrule"}), LEARNS]
    assert [repr(m) for m in search.candidates()] == [repr(m) for m in methods]
    means = [cross_validate(m, P, LABELS, metrics="map", folds=3).mean["map"] for m in methods]
    assert [t.mean for t in search.tried_] == means
    assert search.best_index_ == int(np.argmax(means))
    assert search.fit_info_.chosen["method"] == "cps"
    frame = search.results_
    assert frame["method"].to_list() == ["rrf"] * 5 + ["borda", "copeland", "cps", "cps"]
    assert frame["k"].to_list() == [*map(float, KS), None, None, None, None]
    assert frame["distance"].to_list() == [None] * 7 + ["footrule", None]


def test_results_name_every_value_and_failure() -> None:
    guess: list[Any] = [(Guess(), {"guess": [1, 2, 3], "fails": ["never", "late"]}), (cc.RRF(), {"k": [-1.0, 60.0]})]
    with pytest.warns(ConcordantWarning, match=r"4 of 8 candidates of GridSearch failed and were skipped"):
        search = GridSearch(guess, metric="map", folds=3).fit(P, LABELS)
    frame = search.results_
    assert frame.columns == [
        *("method", "guess", "fails", "k", "rank", "mean", "std", "fold 1", "fold 2", "fold 3", "seconds", "error")
    ]
    failed = frame["error"].is_not_null().to_list()
    assert failed == [False, True] * 3 + [True, False]
    assert frame["mean"].is_null().to_list() == failed
    assert frame["rank"].is_null().to_list() == failed
    assert sorted(frame["rank"].drop_nulls().to_list()) == [1, 2, 3, 4]
    where = next(f for f, s in enumerate(k_folds(P, 3, 0), start=1) if "q7" in P[s.test].instances)
    assert frame["error"][1] == f"fold {where}: DataError: guess 1 knows nothing of 'q7'"
    assert frame["error"][6].startswith("fold 1: ParameterError: the 'k' parameter of RRF must be a number > 0")
    assert not search.tried_[search.best_index_].error
    assert search.best_score_ == frame["mean"].max()
    assert len(search.fit_info_.warnings) == 1


def test_when_all_fail_it_is_an_error() -> None:
    search = GridSearch(Guess(fails="fit"), {"guess": [1, 2, 3, 4]}, folds=3)
    message = (
        r"all 4 candidates of GridSearch failed. Guess\(guess=1, fails='fit'\): fold 1: RuntimeError: "
        r"guess 1 cannot be made; .* … and 1 more"
    )
    with pytest.raises(DataError, match=message):
        search.fit(P, LABELS)
    assert "best_method_" not in vars(search)
    with pytest.raises(NotFittedError):
        search.predict(P)


def test_odd_values_are_shown_as_text_and_odd_names_kept_apart() -> None:
    search = GridSearch(cc.RRF(), {"weights": [None, {"e1": 2.0}], "k": [1, 2.5]}, folds=2).fit(P, LABELS)
    assert search.results_["weights"].to_list() == ["None", "None", "{'e1': 2.0}", "{'e1': 2.0}"]
    assert search.results_["k"].to_list() == [1.0, 2.5, 1.0, 2.5]

    class Odd(Guess):
        def __init__(self, *, mean: int = 0, fails: str = "never", random_state: int = 0) -> None:
            self.mean, self.guess, self.fails, self.random_state = mean, mean, fails, random_state

    frame = GridSearch(Odd(), {"mean": np.array([3, 4])}, folds=2).fit(P, LABELS).results_
    assert frame["parameter mean"].to_list() == [3, 4]


def test_seeds_are_averaged() -> None:
    search = GridSearch(Guess(), {"guess": [1, 2]}, metric="map", folds=3, seeds=[4, 9]).fit(P, LABELS)
    for tried in search.tried_:
        many = cross_validate(tried.method, P, LABELS, metrics="map", folds=3, seeds=[4, 9])
        np.testing.assert_allclose(tried.folds, many.fold_means["map"], rtol=1e-14)
    assert search.best_method_.get_params()["random_state"] == 4


def test_a_seed_reaches_everything_by_chance() -> None:
    search = GridSearch([(Guess(), {"guess": [1, 2]}), cc.RRF(), "borda"], random_state=3)
    copy = search.with_seed(11)
    assert copy.random_state == 11
    assert [m.get_params().get("random_state") for m in copy.candidates()] == [11, 11, None, None]
    assert search.random_state == 3
    assert search.candidates()[0].get_params()["random_state"] == 0
    inner = GridSearch(GridSearch(Guess(), {"guess": [1, 2]}), {"folds": [2, 3]}).with_seed(6)
    assert inner.method.random_state == 6
    assert inner.method.method.random_state == 6


@pytest.mark.parametrize("validation", [False, True])
def test_threads_do_not_matter(validation: bool) -> None:
    found = []
    for n in (1, 2, 5):
        search = GridSearch([(LEARNS, {"distance": ["kendall", "spearman"]}), (Guess(), {"guess": [1, 2, 3]})], folds=3)
        with force_threads(n):
            if validation:
                search.fit(P[:16], LABELS[:16], validation=(P[16:], LABELS[16:]))
            else:
                search.fit(P, LABELS)
        found.append(search)
    for other in found[1:]:
        assert [t.folds.tobytes() for t in other.tried_] == [t.folds.tobytes() for t in found[0].tried_]
        assert other.best_index_ == found[0].best_index_
        assert other.predict(P) == found[0].predict(P)


@pytest.mark.parametrize("n", [1, 3])
def test_progress_counts_fits(n: int) -> None:
    told: list[tuple[int, int]] = []
    lock = threading.Lock()

    def report(done: int, total: int) -> None:
        with lock:
            told.append((done, total))

    with force_threads(n), watch(report):
        GridSearch(cc.RRF(), {"k": [1, 2]}, folds=3).fit(P, LABELS)
    assert sorted(told) == [(i, 6) for i in range(1, 7)]


def test_the_last_fit_tells_of_its_own_steps() -> None:
    told: list[tuple[int, int]] = []
    with force_threads(1), watch(lambda done, total: told.append((done, total))):
        GridSearch(LEARNS, {"max_iter": [77]}, folds=2).fit(P, LABELS)
    assert told[:2] == [(1, 2), (2, 2)]
    assert {total for _, total in told[2:]} == {77}


def test_saved_is_the_chosen_method(tmp_path: Path) -> None:
    search = GridSearch(LEARNS, {"distance": ["kendall", "footrule"]}, folds=2)
    with pytest.raises(NotFittedError, match="this GridSearch is not fitted yet"):
        search.save(tmp_path / "model")
    search.fit(P, LABELS).save(tmp_path / "model")
    loaded = cc.load(tmp_path / "model")
    assert repr(loaded) == repr(search.best_method_)
    assert loaded.predict(P) == search.predict(P)
    assert pickle.loads(pickle.dumps(search)).predict(P) == search.predict(P)


def test_unfitted_searches_say_so() -> None:
    search = GridSearch(cc.RRF(), {"k": [1]})
    for call in (lambda: search.predict(P), lambda: search.results_, search.learned_experts):
        with pytest.raises(NotFittedError, match="this GridSearch is not fitted yet"):
            call()


def test_a_second_fit_forgets_the_first() -> None:
    search = GridSearch(cc.RRF(), {"k": KS}, folds=3)
    search.fit(P[:12], LABELS)
    search.fit(P, LABELS)
    fresh = GridSearch(cc.RRF(), {"k": KS}, folds=3).fit(P, LABELS)
    assert set(vars(search)) == set(vars(fresh))
    assert [t.mean for t in search.tried_] == [t.mean for t in fresh.tried_]


def test_explanations_are_those_of_the_chosen_method() -> None:
    search = GridSearch(cc.RRF(), {"k": [5]}, folds=2).fit(P, LABELS)
    theirs = cc.RRF(k=5).explain(P, "q1")
    ours = search.explain(P, "q1")
    assert (ours.items, ours.experts, ours.score.tolist()) == (theirs.items, theirs.experts, theirs.score.tolist())
    with pytest.raises(KindError, match="the scores of Copeland"):
        GridSearch([cc.Copeland()], folds=2).fit(P, LABELS).explain(P, "q1")


def test_methods_of_one_name_are_told_apart() -> None:
    several: list[Any] = [(cc.RRF(ties="min"), {"k": [1, 9]}), cc.RRF(k=3), cc.Borda()]
    search = GridSearch(several, folds=2).fit(P, LABELS)
    assert search.results_["method"].to_list() == ["RRF(ties='min')", "RRF(ties='min')", "RRF(k=3)", "borda"]
    assert search.fit_info_.chosen["method"] == search.tried_[search.best_index_].name


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (GridSearch(cc.RRF(), {"kk": [1]}), "RRF has no parameter 'kk'. It has: k, weights"),
        (GridSearch(cc.RRF(), {"k": 60}), "'grid' parameter of GridSearch must be a mapping from parameter to a list"),
        (GridSearch(cc.RRF(), {"k": []}), "'grid' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"ties": "min"}), "'grid' parameter of GridSearch"),
        (GridSearch(cc.RRF(), []), "'grid' parameter of GridSearch"),
        (GridSearch([cc.RRF(), cc.Borda()], {"k": [1]}), r"as pairs \(method, grid\). Leave grid=None"),
        (GridSearch([(cc.RRF(), {"k": 3})]), "the values of 'k' in GridSearch must be a list"),
        (GridSearch([(cc.RRF(), 3)]), "a grid is a mapping from parameter to a list of values. Got 3"),
        (GridSearch([]), "'method' parameter of GridSearch must be a method, or a list of methods"),
        (GridSearch("no-such-method"), "'method' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, metric="nonsense"), "'metric' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, metric="ndcg@1-5"), "'metric' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, folds=1), "'folds' parameter of GridSearch must be a whole number >= 2"),
        (GridSearch(cc.RRF(), {"k": [1]}, folds=given_folds()), "given folds go to `nested` as outer="),
        (GridSearch(cc.RRF(), {"k": [1]}, folds=iter([])), "'folds' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, seeds=0), "'seeds' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, validation_part=1.0), "'validation_part' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, convention="mine"), "'convention' parameter of GridSearch"),
        (GridSearch(cc.RRF(), {"k": [1]}, rel=0), "'rel' parameter of GridSearch"),
        (RandomSearch(cc.RRF(), {"k": [1]}, n=0), "'n' parameter of RandomSearch"),
        (RandomSearch(cc.RRF(), {"k": 3}), "'space' parameter of RandomSearch"),
        (RandomSearch(cc.RRF(), [{"k": [1]}]), "'space' parameter of RandomSearch"),  # type: ignore[arg-type]
        (RandomSearch([cc.RRF()], {"k": [1]}), r"as pairs \(method, space\). Leave space=None"),
    ],
    ids=lambda v: None if isinstance(v, str) else repr(v)[:60],
)
def test_impossible_searches_are_refused_before_anything_is_fitted(search: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        search.fit(P, LABELS)


def test_a_search_without_labels_says_so() -> None:
    with pytest.raises(DataError, match="GridSearch needs labels and got none"):
        GridSearch(cc.RRF(), {"k": [1]}).fit(P)


# Drawing.


def test_draws_follow_the_seed_and_their_bounds() -> None:
    from scipy import stats

    space = {"k": stats.loguniform(1, 100), "ties": ["min", "max"], "weights": lambda rng: {"e1": rng.uniform(1, 2)}}
    one = RandomSearch(cc.RRF(), space, n=30, random_state=5)
    again = RandomSearch(cc.RRF(), space, n=30, random_state=5)
    other = RandomSearch(cc.RRF(), space, n=30, random_state=6)
    params = [m.get_params() for m in one.candidates()]
    assert params == [m.get_params() for m in again.candidates()] == [m.get_params() for m in one.candidates()]
    assert params != [m.get_params() for m in other.candidates()]
    assert len(params) == 30
    assert all(type(p["k"]) is float and 1 <= p["k"] <= 100 for p in params)
    assert {p["ties"] for p in params} == {"min", "max"}
    assert all(1 <= p["weights"]["e1"] <= 2 for p in params)
    below = sum(p["k"] < 10 for p in params)  # Binomial(30, 1/2): mean 15, standard deviation 2.7
    assert abs(below - 15) < 4 * 2.7
    assert RandomSearch(Guess(), {"guess": stats.randint(0, 9)}, n=3).candidates()[0].get_params()["guess"] in range(9)


def test_lists_are_drawn_without_repetition() -> None:
    space = {"k": list(range(1, 41)), "ties": ["min", "max", "average"]}
    found = [tuple(m.get_params()[n] for n in space) for m in RandomSearch(cc.RRF(), space, n=100).candidates()]
    assert len(set(found)) == 100
    few = [m.get_params()["k"] for m in RandomSearch(cc.RRF(), {"k": [5, 3, 4]}, n=20).candidates()]
    assert few == [5, 3, 4]
    assert len(RandomSearch(cc.RRF(), {}, n=20).candidates()) == 1
    assert len(RandomSearch(cc.RRF(), n=20).candidates()) == 1


def test_every_entry_is_drawn_about_as_often() -> None:
    counts = np.zeros(5)
    for seed in range(300):
        (method,) = RandomSearch(cc.RRF(), {"k": [1, 2, 3, 4, 5]}, n=1, random_state=seed).candidates()
        counts[method.get_params()["k"] - 1] += 1
    # Binomial(300, 1/5): mean 60, standard deviation 6.9.
    assert np.abs(counts - 60).max() < 5 * 6.9


def test_random_search_is_a_grid_over_its_draws() -> None:
    search = RandomSearch([(cc.RRF(), {"k": lambda rng: rng.uniform(1, 90)}), cc.Borda()], n=4, metric="map", folds=3)
    search.fit(P, LABELS)
    ks = [t.params["k"] for t in search.tried_[:4]]
    grid = GridSearch([(cc.RRF(), {"k": ks}), cc.Borda()], metric="map", folds=3).fit(P, LABELS)
    assert [t.mean for t in grid.tried_] == [t.mean for t in search.tried_]
    assert grid.best_params_ == search.best_params_


# The contract.

SEARCHES = {
    "supervised": GridSearch(
        cc.CPS(adherence="supervised", max_iter=3), {"distance": ["kendall", "footrule"]}, folds=2, convention="paper"
    ),
    "unsupervised": RandomSearch([(cc.RRF(), {"k": [1.0, 60.0]})], folds=2, n=2),
}
_ALONE = "one instance cannot be split into folds"
EXEMPT = {
    "init_only_assigns": "the method and its grid are given by position",
    "saved_is_loaded": "what is saved is the chosen method",
    "validation_is_a_pair": "what is learned from cannot be chosen by",
    "one_expert_gets_its_own_order": _ALONE,
    "unanimous_order_is_kept": _ALONE,
    "unanimous_pairs_are_kept": _ALONE,
    "swapped_items_tie": _ALONE,
    "item_nobody_ranks_is_not_first": _ALONE,
}


CASES = [(n, c) for n, s in SEARCHES.items() for c in checks_for(s) if c.name not in EXEMPT]


@pytest.mark.parametrize(("which", "check"), CASES, ids=str)
def test_a_search_keeps_the_contract(which: str, check: Check) -> None:
    # One kind will do for what a search adds, but for the check that tries all others.
    check(SEARCHES[which], kinds=None if check.name == "wrong_kind_names_methods" else ("rank",))


@pytest.mark.parametrize("name", EXEMPT)
def test_no_exemption_is_idle(name: str) -> None:
    broken = 0
    for search in SEARCHES.values():
        try:
            CHECKS[name](search)
        except ContractError:
            broken += 1
    assert broken


def test_tags_are_those_of_the_methods() -> None:
    search = GridSearch([cc.RRF(), cc.BradleyTerry()])
    assert search.tags.accepts == {"rank", "score", "rating", "comparisons"}
    assert search.tags.supervised
    assert not search.tags.uncertainty
    assert GridSearch(cc.BradleyTerry()).tags.uncertainty
    assert not GridSearch(cc.RRF()).tags.stochastic
    assert GridSearch([cc.RRF(), Guess()]).tags.stochastic
    assert GridSearch.tags.supervised
    assert "comparisons" in GridSearch.tags.accepts
    with pytest.raises(KindError, match="GridSearch works on rank or rating or score, not on comparisons"):
        GridSearch(cc.RRF()).fit(P.comparisons(), LABELS)


def test_one_set_of_labels_serves_training_and_validation() -> None:
    search = GridSearch(cc.RRF(), {"k": [1, 60]}, metric="map")
    own = search.fit(P[:12], LABELS[:12], validation=(P[12:], LABELS[12:])).best_score_
    assert search.fit(P[:12], LABELS, validation=(P[12:], LABELS)).best_score_ == own
    with pytest.raises(DataError, match="validation part"):
        search.fit(P[:12], LABELS, validation=(P[12:], LABELS[:12]))

"""One request: `fuse` gives what `aggregate` gives, with the caller's ids, and says what is wrong with the lists."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import concordant as cc
from concordant.errors import (
    ConcordantError,
    ConcordantWarning,
    DataError,
    DuplicateError,
    KindError,
    NotFittedError,
    ParameterError,
)

NAMES = ("bm25", "dense", "reranker")
# Those that score lists without labels; the slow ones are asked less often.
PER_INSTANCE = sorted(
    name
    for name, cls in cc.METHODS.items()
    if cls.tags.per_instance
    and not cls.tags.supervised
    and not cls.takes_features
    and "rank" in cls.tags.accepts
    and not cls().needs_labels()
)

ids = st.lists(st.integers(0, 9).map("d{}".format), unique=True, max_size=8)
ranked = st.dictionaries(st.sampled_from(NAMES), ids, min_size=1)
scored = st.dictionaries(
    st.sampled_from(NAMES),
    st.dictionaries(st.integers(0, 9).map("d{}".format), st.integers(-3, 9), max_size=8),
    min_size=1,
)
trust = st.none() | st.dictionaries(st.sampled_from((*NAMES, "splade")), st.sampled_from([0.25, 1.0, 3.0]), max_size=3)


def answer(lists: dict[str, Any], weights: dict[str, float] | None, method: str, **params: Any) -> list[Any]:
    """Return what `aggregate` gives for the lists that hold something."""
    said = {name: one for name, one in lists.items() if one}
    own = None if weights is None else {name: w for name, w in weights.items() if name in said}
    consensus = cc.aggregate(cc.from_lists(said, weights=own), method, **params)
    order = consensus.order()
    columns = (consensus.items.take(order), consensus.score[order].tolist(), consensus.rank[order].tolist())
    return list(zip(*columns, strict=True))


def caught(call: Any) -> Any:
    """Return the answer of a call, or the class of the error."""
    try:
        return call()
    except ConcordantError as error:
        return type(error)


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("method", PER_INSTANCE)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lists=ranked | scored, weights=trust)
def test_fuse_is_aggregate(method: str, lists: dict[str, Any], weights: dict[str, float] | None) -> None:
    if not cc.METHODS[method].tags.weights:
        weights = None
    if not any(lists.values()):
        assert list(cc.fuse(lists, method, weights=weights)) == []
        return
    got = caught(lambda: [tuple(hit[:3]) for hit in cc.fuse(lists, method, weights=weights)])
    assert got == caught(lambda: answer(lists, weights, method))


@settings(max_examples=200, deadline=None)
@given(lists=ranked | scored, weights=trust, k=st.sampled_from([1, 60, 0.3]), ties=st.sampled_from(["average", "min"]))
def test_rrf_is_aggregate_and_near_the_exact_sum(
    lists: dict[str, Any], weights: dict[str, float] | None, k: float, ties: str
) -> None:
    hits = cc.fuse(lists, weights=weights, k=k, ties=ties)
    if not any(lists.values()):
        assert not hits
        return
    assert [tuple(hit[:3]) for hit in hits] == answer(lists, weights, "rrf", k=k, ties=ties)
    if all(isinstance(one, list) for one in lists.values()):
        exact: dict[str, Fraction] = {}
        for name, one in lists.items():
            for rank, item in enumerate(one, 1):
                term = Fraction((weights or {}).get(name, 1.0)) / (Fraction(k) + rank)
                exact[item] = exact.get(item, Fraction(0)) + term
        assert {hit.id: hit.score for hit in hits} == pytest.approx({i: float(v) for i, v in exact.items()}, rel=1e-14)


@settings(max_examples=100, deadline=None)
@given(lists=ranked, weights=trust, top_k=st.none() | st.integers(1, 5))
@pytest.mark.parametrize("method", ["rrf", "weighted-sum"])
def test_parts_add_up_to_the_score(
    method: str, lists: dict[str, Any], weights: dict[str, float] | None, top_k: int | None
) -> None:
    hits = cc.fuse(lists, method, weights=weights, top_k=top_k)
    if not hits:
        return
    explained = hits.explain()
    assert explained.items == hits.ids
    assert explained.score.tolist() == hits.scores
    for hit in hits:
        assert sum(explained.parts(hit.id).values()) == pytest.approx(hit.score, abs=1e-12 * max(hits.scores))


@pytest.mark.parametrize(
    "make", [int, "d{}".format, lambda n: UUID(int=n), lambda n: ("doc", n), lambda n: frozenset([n]), float]
)
def test_ids_come_back_as_they_are(make: Any) -> None:
    own = {n: make(n) for n in range(5)}
    lists = {"bm25": [own[0], own[1], own[2]], "dense": [own[3], own[1]]}
    key = tuple if isinstance(own[0], tuple) else None
    for method in ("rrf", "comb-sum", "copeland", "plackett-luce"):
        hits = cc.fuse(lists, method, key=key)
        assert hits[0].id is own[1] or method != "rrf"
        assert {type(hit.id) for hit in hits} == {type(own[0])}
        assert sorted(map(id, hits.ids)) == sorted(id(own[n]) for n in range(4))
        assert {type(hit.score) for hit in hits} == {float}
        assert {type(hit.rank) for hit in hits} == {int}


def test_ids_that_look_alike_stay_apart() -> None:
    hits = cc.fuse({"bm25": [1, "1"], "dense": ["1"]}, "comb-sum")
    assert sorted(hits.ids, key=str) in ([1, "1"], ["1", 1])
    assert len(hits) == 2


@pytest.mark.parametrize("silent", [None, [], {}, ()])
@pytest.mark.parametrize("method", ["rrf", "comb-sum", "borda", "bradley-terry"])
@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
def test_a_silent_retriever_is_an_absent_one(silent: Any, method: str) -> None:
    lists = {"bm25": ["a", "b"], "dense": ["b", "c", "a"]}
    want = cc.fuse(lists, method, weights={"bm25": 2})
    assert cc.fuse({**lists, "reranker": silent}, method, weights={"bm25": 2, "reranker": 3}) == want
    nothing = cc.fuse({"bm25": silent}, method)
    assert len(nothing) == 0
    assert nothing.explain().items == []
    assert len(cc.fuse({}, method)) == 0


def test_of_equal_scores_that_row_counts_first_that_is_kept_of_an_id() -> None:
    twice = [("a", 1.0), ("b", 3.0), ("c", 3.0), ("a", 3.0)]
    assert set(cc.fuse({"x": twice}, "comb-sum", depth=2).ids) == {"b", "c"}


def test_weights_of_absent_lists_are_fine_and_misspelt_ones_are_not() -> None:
    lists = {"bm25": ["a"], "dense": ["b"]}
    assert cc.fuse(lists, weights={"dense": 2, "colbert": 5}).ids == ["b", "a"]
    for wrong, right in (("BM25", "bm25"), ("bm-25", "bm25"), ("dens", "dense"), ("desne", "dense")):
        with pytest.raises(ParameterError, match=f"'{wrong}'.*Did you mean '{right}'"):
            cc.fuse(lists, weights={wrong: 2})
    # A list that has a weight has no misspelling.
    assert cc.fuse(lists, weights={"bm25": 2, "bm25f": 1}).ids == ["a", "b"]


def test_duplicates_keep_the_best_place_and_close_up() -> None:
    chunks = {"bm25": ["a", "b", "a", "c", "b"], "dense": ["c", "c", "a"]}
    assert cc.fuse(chunks) == cc.fuse({"bm25": ["a", "b", "c"], "dense": ["c", "a"]})
    pairs = {"bm25": [("a", 1.0), ("b", 3.0), ("a", 5.0)]}
    assert cc.fuse(pairs, "comb-sum") == cc.fuse({"bm25": {"a": 5.0, "b": 3.0}}, "comb-sum")
    far = {"bm25": [("a", 1.0), ("b", 3.0), ("a", 5.0)]}
    assert cc.fuse(far, smaller_is_better=["bm25"]).ids == ["a", "b"]
    with pytest.raises(DuplicateError, match="list 'bm25' holds 'a' twice \\(rows 0 and 2\\)"):
        cc.fuse(chunks, duplicates="error")


@dataclass
class Chunk:
    """A part of a document, as a framework holds it."""

    doc: int
    distance: float
    text: str


@pytest.mark.parametrize("method", ["rrf", "comb-sum"])
def test_objects_keep_the_payload_of_the_best_place(method: str) -> None:
    bm25 = [Chunk(1, 0.1, "first"), Chunk(2, 0.3, "second"), Chunk(1, 0.4, "worse")]
    dense = [Chunk(3, 0.9, "far"), Chunk(2, 0.2, "near"), Chunk(1, 0.5, "middle")]
    hits = cc.fuse(
        {"bm25": bm25, "dense": dense}, method, key="doc", score="distance", smaller_is_better=["bm25", "dense"]
    )
    assert {hit.id: hit.item.text for hit in hits} == {1: "first", 2: "near", 3: "far"}
    same = cc.fuse(
        {"bm25": [vars(c) for c in bm25], "dense": [vars(c) for c in dense]},
        method,
        key=lambda one: one["doc"],
        score="distance",
        smaller_is_better=["bm25", "dense"],
    )
    assert [hit[:3] for hit in same] == [hit[:3] for hit in hits]
    assert same[0].item["text"] == hits[0].item.text


def test_depth_threshold_and_top_k() -> None:
    lists = {"bm25": [("a", 9.0), ("b", 8.0), ("c", 1.0)], "dense": [("c", 0.9), ("d", 0.4)]}
    assert cc.fuse(lists, depth=1) == cc.fuse({"bm25": {"a": 9.0}, "dense": {"c": 0.9}})
    assert cc.fuse({"x": {"a": 1.0, "b": 5.0, "c": 3.0}}, depth=2).ids == ["b", "c"]
    want = cc.fuse({"bm25": lists["bm25"], "dense": {"c": 0.9}}, "comb-sum")
    assert cc.fuse(lists, "comb-sum", threshold={"dense": 0.5, "colbert": 3.0}) == want
    far = cc.fuse(lists, "comb-sum", threshold={"dense": 0.5}, smaller_is_better="dense")
    assert far == cc.fuse({"bm25": lists["bm25"], "dense": {"d": -0.4}}, "comb-sum")
    everything = cc.fuse(lists, "comb-sum")
    assert cc.fuse(lists, "comb-sum", threshold=0.5) == everything[: sum(h.score >= 0.5 for h in everything)]
    assert cc.fuse(lists, "comb-sum", top_k=2) == everything[:2]
    assert cc.fuse(lists, top_k=99) == cc.fuse(lists)


def test_other_columns_are_read() -> None:
    want = cc.fuse({"x": [4, 2], "y": [2, 3]})
    assert cc.fuse({"x": np.array([4, 2]), "y": iter([2, 3])}) == want
    assert {type(i) for i in cc.fuse({"x": np.array([4, 2])}).ids} == {int}
    assert cc.fuse({"x": [["a", 2], ["b", 1]]}, "comb-sum").ids == ["a", "b"]
    assert cc.fuse({"x": [("a", 2), ("b", 1)]}, "comb-sum", key=0, score=1).ids == ["a", "b"]
    again = cc.fuse({"x": cc.fuse({"x": {"a": 2.0, "b": 1.0}}, "comb-sum")}, "comb-sum", norm="none")
    assert [hit[:3] for hit in again] == [("a", 1.0, 1), ("b", 0.0, 2)]


class Dull:
    """An object without an order, a hash or a name."""

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("lists", "options", "error", "words"),
    [
        ([["a"], ["b"]], {}, DataError, "a mapping from name to list.*Got list"),
        ({"x": "abc"}, {}, DataError, "list 'x' is one text"),
        ({"x": {"a", "b"}}, {}, DataError, "has no order"),
        ({"x": 7}, {}, DataError, "list 'x' is a int"),
        ({"x": [Dull()]}, {}, DataError, "row 0 of list 'x'.*Dull is not hashable.*key="),
        ({"x": [{"id": 1}]}, {}, DataError, "row 0 of list 'x'.*dict is not hashable.*key="),
        ({"x": ["a", None]}, {}, DataError, "row 1 of list 'x' is None"),
        # The same NaN equals itself in a set: two documents without a key would become one.
        ({"x": [float("nan")]}, {}, DataError, "row 0 of list 'x' is nan"),
        ({"x": {"a": 2.0, np.float64("nan"): 1.0}}, {}, DataError, "row 1 of list 'x' is nan"),
        ({"x": [{"k": float("nan")}]}, {"key": "k"}, DataError, "row 0 of list 'x' is nan"),
        ({"x": [("a", float("nan"))]}, {}, DataError, "score of 'a' in list 'x' must be a finite number. Got nan"),
        ({"x": {"a": "high"}}, {}, DataError, "score of 'a' in list 'x'.*'high'"),
        ({"x": {"a": True}}, {}, DataError, "score of 'a' in list 'x'.*True"),
        ({"x": [("a", 0.5), "b"]}, {}, DataError, "mixes pairs of id and score"),
        ({"x": [("a", 3), ("b", 1)]}, {}, DataError, "key=tuple if they are ids, or key=0, score=1"),
        ({"x": ["a"], "y": {"b": 1.0}}, {}, DataError, "list 'y' has scores and list 'x' has none"),
        ({"x": [{"id": 1}]}, {"key": "name"}, DataError, "key='name' finds nothing.*KeyError"),
        ({"x": [Chunk(1, 0.1, "t")]}, {"key": "name"}, DataError, "key='name' finds nothing.*no attribute 'name'"),
        ({"x": ["a"]}, {"key": 1.5}, ParameterError, "'key' parameter of fuse"),
        ({"x": ["a"]}, {"score": "s"}, ParameterError, "needs key="),
        ({"x": ["a"]}, {"method": "rff"}, ParameterError, "Did you mean 'rrf'"),
        ({"x": ["a"]}, {"kk": 3}, ParameterError, "RRF has no parameter 'kk'"),
        ({"x": ["a"]}, {"k": -3}, ParameterError, "'k' parameter of RRF"),
        ({"x": ["a"]}, {"weights": {"x": -1}}, ParameterError, "weight of list 'x'.*>= 0. Got -1"),
        ({"x": ["a"]}, {"weights": {"z9": float("nan")}}, ParameterError, "weight of list 'z9'"),
        ({"x": ["a"]}, {"weights": "learned"}, ParameterError, "'weights' parameter of fuse"),
        ({"x": ["a"]}, {"top_k": 0}, ParameterError, "'top_k' parameter of fuse"),
        ({"x": ["a"]}, {"depth": 1.5}, ParameterError, "'depth' parameter of fuse"),
        ({"x": ["a"]}, {"threshold": "low"}, ParameterError, "'threshold' parameter of fuse"),
        ({"x": ["a"]}, {"threshold": {"x": None}}, ParameterError, "threshold of list 'x'"),
        ({"x": ["a"]}, {"threshold": {"x": 1}}, DataError, "list 'x' has no scores"),
        ({"x": ["a"]}, {"smaller_is_better": ["x"]}, DataError, "list 'x' has no scores"),
        ({"dense": ["a"]}, {"smaller_is_better": ["dens"]}, ParameterError, "Did you mean 'dense'"),
        ({"x": ["a"]}, {"duplicates": "first"}, ParameterError, "'duplicates' parameter of fuse"),
        ({"x": ["a"]}, {"method": "crf"}, ParameterError, "crf learns from labels.*model="),
        ({"x": ["a"]}, {"k": "learned"}, ParameterError, "rrf learns from labels.*model="),
        ({"x": ["a"]}, {"method": "pmop"}, ParameterError, "pmop learns from labels.*model="),
        ({"x": ["a"]}, {"method": "comb-sum", "model": "m"}, ParameterError, "Leave out method= or model="),
        ({"x": ["a"]}, {"k": 3, "model": "m"}, ParameterError, "Leave out k or model="),
        ({"x": ["a"]}, {"model": 7}, ParameterError, "'model' parameter of fuse"),
        ({"x": ["a"]}, {"model": "no such file"}, DataError, "no such file"),
        ({"x": ["a"]}, {"model": cc.CRF()}, NotFittedError, "CRF"),
        ({1.5: ["a"]}, {}, DataError, "list id in row 0 must be text or a whole number. Got 1.5"),
        ({1: ["a"], "1": ["a"]}, {}, DataError, "two lists have the same name"),
        ({"x": ["a"]}, {"smaller_is_better": 5}, ParameterError, "'smaller_is_better' parameter of fuse"),
        ({"\ud800": ["a"]}, {}, DataError, "list id.*half of a character"),
    ],
)
def test_errors_say_what_to_do(lists: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cc.fuse(lists, **options)


@pytest.fixture(scope="module")
def models() -> dict[str, cc.Aggregator]:
    data = cc.synthetic.runs(30, skill={"bm25": 1.0, "dense": 1.3, "reranker": 0.7}, top=20, random_state=5)
    made = (cc.ListwiseLinear(), cc.CRF(passes=5), cc.RRF(k="learned", weights="learned"))
    return {type(m).__name__: m.fit(data.preferences, data.labels) for m in made}


@pytest.mark.parametrize("name", ["ListwiseLinear", "CRF", "RRF"])
def test_models_predict(name: str, models: dict[str, cc.Aggregator], tmp_path: Path) -> None:
    model = models[name]
    lists = {"bm25": list("abcdef"), "dense": list("dxbay"), "reranker": list("ba")}
    hits = cc.fuse(lists, model=model)
    consensus = model.predict(cc.from_lists(lists))
    order = consensus.order()
    assert hits.ids == consensus.ranking()
    assert hits.scores == consensus.score[order].tolist()
    for hit in hits:
        parts = hits.explain().parts(hit.id)
        assert sum(parts.values()) == pytest.approx(hit.score, abs=1e-12 * max(map(abs, hits.scores)))
    path = tmp_path / "fusion.model"
    model.save(path)
    assert cc.fuse(lists, model=path) == cc.fuse(lists, model=str(path)) == hits
    # A file that was written again is read again.
    cc.RRF(k=1).save(path)
    assert cc.fuse(lists, model=path) == cc.fuse(lists, k=1)


LINEAR = {
    "own": cc.ListwiseLinear(transform="log", l2=0.1),
    "two transforms": cc.ListwiseLinear(transform="binary+rankdiff", l2=0.1),
    "below": cc.ListwiseLinear(transform="log", missing="below", l2=0.1),
    "mixed": cc.ListwiseLinear(transform="rankdiff", weights="mixed", min_lists=20, l2=0.1),
    "consensus": cc.ListwiseLinear(transform="log", weights="consensus", l2=0.1, unknown_experts="ignore"),
    "crf": cc.CRF(passes=2, transform="log"),
    "crf of the paper": cc.CRF(passes=2, scaling="paper"),
}


@pytest.fixture(scope="module")
def linear() -> dict[str, cc.Aggregator]:
    data = cc.synthetic.runs(20, skill={"bm25": 1.0, "dense": 1.3, "reranker": 0.7}, top=6, random_state=5)
    return {name: model.fit(data.preferences, data.labels) for name, model in LINEAR.items()}


long_ids = st.lists(st.integers(0, 15).map("d{}".format), unique=True, max_size=14)


@pytest.mark.filterwarnings("ignore::concordant.errors.DataShiftWarning")
@pytest.mark.parametrize("name", LINEAR)
@settings(max_examples=60, deadline=None)
@given(
    lists=st.dictionaries(st.sampled_from((*NAMES, "splade")), long_ids, min_size=1) | scored,
    weights=st.none() | st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.0, 0.5, 3.0]), max_size=3),
)
def test_linear_models_give_the_bits_of_predict(
    name: str, linear: dict[str, cc.Aggregator], lists: dict[str, Any], weights: dict[str, float] | None
) -> None:
    said = {expert: one for expert, one in lists.items() if one}
    if not said:
        return
    own = None if weights is None else {expert: w for expert, w in weights.items() if expert in said}

    def predicted() -> list[Any]:
        consensus = linear[name].predict(cc.from_lists(said, weights=own or None))
        order = consensus.order()
        columns = (consensus.items.take(order), consensus.score[order].tolist(), consensus.rank[order].tolist())
        return list(zip(*columns, strict=True))

    got = caught(lambda: [tuple(hit[:3]) for hit in cc.fuse(lists, model=linear[name], weights=weights)])
    assert got == caught(predicted)


@pytest.mark.filterwarnings("ignore::concordant.errors.DataShiftWarning")
@pytest.mark.parametrize("name", [*LINEAR, "rrf"])
def test_sums_over_positions_need_no_container(
    name: str, linear: dict[str, cc.Aggregator], monkeypatch: pytest.MonkeyPatch
) -> None:
    # CRF had lost its quick way without any answer changing.
    def refused(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("concordant.base.fuse._preferences", refused)
    lists = {"bm25": ["a", "b", "c"], "dense": ["b", "d", "a"]}
    assert len(cc.fuse(lists, model=linear.get(name))) == 4


@pytest.mark.parametrize("name", ["rrf", "CRF"])
def test_eight_threads_answer_as_one(name: str, models: dict[str, cc.Aggregator]) -> None:
    chance = np.random.default_rng(7)
    requests = [
        {expert: [f"d{n}" for n in chance.permutation(30)[: chance.integers(0, 20)]] for expert in NAMES}
        for _ in range(50)
    ]

    def ask(lists: dict[str, list[str]]) -> list[cc.Hit]:
        return list(cc.fuse(lists, weights={"dense": 2}, model=models.get(name)))

    want = [ask(lists) for lists in requests]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, requests * 20)) == want * 20


def test_a_model_that_changes_answers_anew() -> None:
    lists = {"bm25": list("abc"), "dense": list("cab")}
    model = cc.RRF(k=5)
    assert cc.fuse(lists, model=model) == cc.fuse(lists, k=5)
    model.set_params(k=1)
    assert cc.fuse(lists, model=model) == cc.fuse(lists, k=1)
    with pytest.raises(ParameterError, match="'k' parameter of RRF"):
        cc.fuse(lists, model=model.set_params(k=-1))


@pytest.mark.parametrize("length", [127, 128, 129, 1025, 5000])
def test_long_lists_are_summed_alike(length: int) -> None:
    lists = {"bm25": [f"d{n}" for n in range(length)], "dense": [f"d{n}" for n in range(length, 5, -1)]}
    weights = {"dense": 0.3}
    assert [tuple(hit[:3]) for hit in cc.fuse(lists, weights=weights)] == answer(lists, weights, "rrf")


@pytest.mark.parametrize("weight", [1e-200, 1e200, 5e-101, 0.0])
def test_weights_of_any_size(weight: float) -> None:
    lists = {"bm25": list("abc"), "dense": list("cadb")}
    weights = {"bm25": weight, "dense": weight * 3}
    assert [tuple(hit[:3]) for hit in cc.fuse(lists, weights=weights)] == answer(lists, weights, "rrf")


def test_a_subclass_may_score_otherwise() -> None:
    class Upside(cc.RRF):
        def _scores(self, preferences: Any) -> Any:
            return -super()._scores(preferences)

    assert cc.fuse({"x": ["a", "b"]}, Upside).ids == ["b", "a"]


def test_a_ready_made_method_is_not_changed() -> None:
    method = cc.RRF(k=5)
    assert (
        cc.fuse({"x": ["a", "b"]}, method) == cc.fuse({"x": ["a", "b"]}, k=5) == cc.fuse({"x": ["a", "b"]}, cc.RRF, k=5)
    )
    assert vars(method) == vars(cc.RRF(k=5))


CODE = """
import sys, json
import concordant as cc
lists = {"bm25": [("a", 3.0), ("b", 2.0)], "dense": [("b", 9.0), ("c", 8.0)]}
for method in ("rrf", "isr", "comb-sum", "comb-mnz", "comb-med", "weighted-sum", "borda"):
    cc.fuse(lists, method, weights={"dense": 2})
cc.fuse({name: [i for i, _ in one] for name, one in lists.items()}).explain()
print(json.dumps(sorted({m.split(".")[0] for m in sys.modules})))
"""


def test_the_request_path_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not set(json.loads(done.stdout)) & {"numba", "llvmlite", "scipy", "polars", "narwhals", "safetensors"}


def test_hits_are_a_sequence() -> None:
    hits = cc.fuse({"x": ["a", "b", "c"], "y": ["b"]})
    assert len(hits) == 3
    assert hits[0] == hits[-3] == next(iter(hits))
    assert [*hits[1:]] == [*hits][1:]
    assert hits[1:].explain().items == hits.ids[1:]
    assert hits == pickle.loads(pickle.dumps(hits))
    assert pickle.loads(pickle.dumps(hits)).explain().items == hits.ids
    assert hits != [*hits]
    assert json.loads(json.dumps(hits.to_dicts())) == [{"id": h.id, "score": h.score, "rank": h.rank} for h in hits]
    with pytest.raises(IndexError):
        hits[3]
    with pytest.raises(AttributeError):
        hits.ids = []  # type: ignore[misc]
    hits.ids.append("d")
    assert len(hits.ids) == 3
    assert repr(cc.fuse({"x": range(12)})).endswith("… 2 more])")


def test_the_page_of_a_notebook_is_escaped() -> None:
    page = cc.fuse({"x": ["<script>", "b"] + [f"d{n}" for n in range(20)]})._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "12 more" in page


def test_an_id_with_half_of_a_character_comes_back_as_it_is() -> None:
    """Ids are the caller's own objects. A container, whose ids are text, refuses it."""
    halves = ["\ud800", "\udc00", "\ud800"]
    hits = cc.fuse({"x": halves[:2], "y": halves[2:]})
    assert hits.ids == ["\ud800", "\udc00"]
    assert [hit["id"] for hit in json.loads(json.dumps(hits.to_dicts()))] == hits.ids
    assert sum(hits.explain().parts("\ud800").values()) == pytest.approx(hits.scores[0])
    for text in (hits._repr_html_(), repr(hits), str(hits.explain())):
        assert text.encode("utf-8").count(b"\\ud800") == 1
    with pytest.raises(DataError, match="half of a character"):
        cc.from_lists({"x": halves[:2]})


def test_combmnz_is_explained_by_the_score_of_each_list_times_the_number_of_lists() -> None:
    lists = {"x": {"a": 3.0, "b": 1.0}, "y": {"b": 8.0, "c": 4.0, "d": 0.0}}
    hits = cc.fuse(lists, "comb-mnz", weights={"y": 2.0})
    parts = {hit.id: hits.explain().parts(hit.id) for hit in hits}
    # b is in lists of weight 1 and 2; its normalised scores are 0 in x and 1 in y.
    assert parts["b"]["y"] == pytest.approx(3.0 * 2.0 * 1.0)
    assert parts["b"].get("x", 0.0) == 0.0
    assert parts["c"]["y"] == pytest.approx(2.0 * 2.0 * 0.5)
    assert parts["a"]["x"] == pytest.approx(1.0 * 1.0 * 1.0)


@pytest.mark.parametrize("name", sorted(cc.METHODS))
def test_every_method_explains_its_scores_or_says_that_it_cannot(name: str) -> None:
    lists = {"x": {"a": 3.0, "b": 2.0, "c": 1.0}, "y": {"b": 8.0, "a": 4.0, "d": 0.5}, "z": {"b": 3.0, "c": 1.0}}
    if "score" not in cc.METHODS[name].tags.accepts:
        lists = {expert: list(scores) for expert, scores in lists.items()}  # type: ignore[misc]
    try:
        with catch_warnings():
            simplefilter("ignore", ConcordantWarning)
            hits = cc.fuse(lists, name)
            explained = hits.explain()
    except KindError:
        return
    except (DataError, ParameterError) as error:
        assert re.search("learns from labels|features", str(error))  # noqa: PT017 - such methods take model=
        return
    for hit in hits:
        assert sum(explained.parts(hit.id).values()) == pytest.approx(hit.score, abs=1e-9)


def test_objects_that_equal_only_themselves_are_no_ids() -> None:
    class Document:
        pass

    with pytest.raises(DataError, match=r"row 1 of list 'x' is an object of Document.*key='id'"):
        cc.fuse({"x": ["a", Document()], "y": [Document()]})
    with pytest.raises(DataError, match="is an object of Document"):
        cc.fuse({"x": [(Document(), 0.5)]}, "comb-sum")


@pytest.mark.parametrize("method", ["comb-sum", "weighted-sum"])
def test_scores_of_one_list_stay_as_they_are(method: str) -> None:
    lists = {"x": {"a": 0.9, "b": 0.7, "c": 0.33, "d": -1e-9}}
    assert cc.fuse(lists, method, norm="none").scores == list(lists["x"].values())
    assert cc.aggregate(cc.from_lists(lists), method, norm="none").score.tolist() == list(lists["x"].values())


def test_scores_that_are_no_sum_cannot_be_explained() -> None:
    with pytest.raises(KindError, match="no sum over experts"):
        cc.fuse({"x": ["a"]}, "copeland").explain()

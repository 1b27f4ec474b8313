"""What the base does for every method: checking, blocks, errors, forgetting, warnings."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import concordant as cc
from concordant import errors
from concordant.base import contract
from concordant.base.checks import examples
from concordant.base.contract import Aggregator, FitInfo, Tags
from concordant.base.params import number, one_of
from concordant.base.weights import list_weights, usable_weights
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantWarning, DataError, KindError, ParameterError
from concordant.execution import force_threads
from concordant.metrics.ranking import METRICS, NDCG

P = Preferences(["q", "q", "q"], ["x", "x", "y"], ["a", "b", "b"], [1, 2, 1])


class Toy(Aggregator):
    """Counts the lists that hold an item."""

    name = "toy"
    tags = Tags(accepts=frozenset({"rank", "score"}))
    constraints: ClassVar[Any] = {"k": number(above=0), "mode": one_of("a", "b")}

    def __init__(self, *, k: float = 1.0, mode: str = "a") -> None:
        self.k = k
        self.mode = mode

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self.n_seen_ = preferences.n_rows
        if self.mode == "b":
            self._warn("mode b is slow.")

    def _scores(self, preferences: Preferences) -> Any:
        return np.bincount(preferences.slot, minlength=preferences.n_slots) * float(self.k)


def test_parameters_by_name() -> None:
    toy = Toy(k=2)
    assert Toy.param_names() == ("k", "mode")
    assert toy.get_params() == {"k": 2, "mode": "a"}
    assert toy.get_params(deep=True) == toy.get_params(deep=False)
    assert toy.set_params(mode="b") is toy
    assert repr(toy) == "Toy(k=2, mode='b')"
    assert repr(Toy()) == "Toy()"
    with pytest.raises(ParameterError, match=r"Toy has no parameter 'z'\. It has: k, mode\."):
        toy.set_params(z=1)
    with pytest.raises(TypeError):
        Toy(2)  # type: ignore[misc]


@pytest.mark.parametrize("call", ["fit", "predict", "fit_predict"])
def test_parameters_are_checked_where_they_are_used(call: str) -> None:
    with pytest.raises(ParameterError, match=r"the 'k' parameter of Toy must be a number > 0\. Got -1 instead\."):
        getattr(Toy(k=-1), call)(P)
    with pytest.raises(
        ParameterError, match=r"the 'mode' parameter of Toy must be one of 'a', 'b'\. Got 'c' instead\."
    ):
        getattr(Toy(mode="c"), call)(P)


@pytest.mark.parametrize("call", ["fit", "predict", "fit_predict"])
def test_other_kinds_are_refused_with_names(call: str) -> None:
    with pytest.raises(
        KindError, match=r"Toy works on rank or score, not on comparisons\. Methods that take comparisons: .*kemeny"
    ):
        getattr(Toy(), call)(P.comparisons())
    with pytest.raises(
        KindError, match=r"Toy works on Preferences or Comparisons\. Got dict\. Use concordant\.from_lists"
    ):
        getattr(Toy(), call)({"x": ["a"]})


def test_fit_info_and_forgetting() -> None:
    toy = Toy()
    assert not hasattr(toy, "fit_info_")
    toy.stale_ = 1  # type: ignore[attr-defined]
    toy.fit_predict(P)
    assert toy.n_seen_ == 3
    assert not hasattr(toy, "stale_")
    assert isinstance(toy.fit_info_, FitInfo)
    assert toy.fit_info_.seconds >= 0
    assert (toy.fit_info_.converged, toy.fit_info_.n_iter, toy.fit_info_.warnings) == (True, 0, [])
    assert toy.consensus_.score.tolist() == [1, 2]
    toy.fit(P[[]])
    assert toy.n_seen_ == 0
    assert not hasattr(toy, "consensus_")


def test_warnings_are_given_and_kept() -> None:
    with pytest.warns(ConcordantWarning, match="mode b is slow") as caught:
        toy = Toy(mode="b").fit(P)
    assert toy.fit_info_.warnings == ["mode b is slow."]
    assert caught[0].filename == __file__, "the user's own line"


def test_a_failed_fit_leaves_nothing_half_learned() -> None:
    toy = Toy().fit(P)
    with pytest.raises(KindError):
        toy.fit(P.comparisons())
    assert toy.n_seen_ == 3


# Blocks of instances.


def many(empty: tuple[int, ...] = ()) -> Preferences:
    rng = np.random.default_rng(0)
    rows = [
        (f"q{n}", f"x{e}", f"i{i}", float(r + 1))
        for n in range(40)
        if n not in empty
        for e in range(3)
        for r, i in enumerate(rng.permutation(6)[: rng.integers(1, 6)])
    ]
    items = [(f"q{n}", f"i{i}") for n in range(40) for i in range(6)]
    return Preferences(*[[r[k] for r in rows] for k in range(4)], items=items)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("block", [1, 7, 50])
@pytest.mark.parametrize("empty", [(), (0,), (0, 1, 2), (5, 6), (39,), (38, 39), (0, 20, 39), tuple(range(37))])
def test_blocks_change_nothing(
    empty: tuple[int, ...], block: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = many(empty)
    whole = cc.RRF().fit_predict(p)
    monkeypatch.setattr(contract, "_BLOCK_ROWS", block)
    with force_threads(workers):
        got = cc.RRF().fit_predict(p)
    assert got == whole
    assert got.order().tolist() == whole.order().tolist()
    assert not got.order().flags.writeable


@pytest.mark.parametrize("name", sorted(cc.METHODS))
def test_every_method_gives_the_same_bits_in_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for example in examples(cc.METHODS[name].tags):
            votes = example.votes()
            whole = cc.METHODS[name]().fit_predict(votes, example.labels())
            with monkeypatch.context() as patch, force_threads(2):
                patch.setattr(contract, "_BLOCK_ROWS", 1)
                assert cc.METHODS[name]().fit_predict(votes, example.labels()) == whole


def test_a_method_that_is_not_per_instance_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(Toy):
        tags = Tags(accepts=frozenset({"rank"}), per_instance=False)

        def _scores(self, preferences: Preferences) -> Any:
            return np.full(preferences.n_slots, float(len(preferences)))

    monkeypatch.setattr(contract, "_BLOCK_ROWS", 1)
    assert set(Shared().fit_predict(many()).score.tolist()) == {40.0}


def test_methods_can_be_used_from_several_threads() -> None:
    p = many()
    method = cc.RRF().fit(p)
    want = method.predict(p)
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(20) if method.predict(p) != want)

    users = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


# Weights of experts.


def test_expert_weights_multiply_those_of_the_lists() -> None:
    assert list_weights(P, None, "Toy") is None
    assert list_weights(P, {}, "Toy") is None
    assert list_weights(P, {"y": 3.0}, "Toy").tolist() == [1, 3]  # type: ignore[union-attr]
    weighted = P.with_weights({"x": 2, "y": 5})
    assert list_weights(weighted, {"y": 3.0}, "Toy").tolist() == [2, 15]  # type: ignore[union-attr]
    assert list_weights(weighted, None, "Toy").tolist() == [2, 5]  # type: ignore[union-attr]
    with pytest.raises(
        DataError, match=r"Toy has weights for experts \['z'\] who are not in the preferences\. Known: \['x', 'y'\]"
    ):
        list_weights(P, {"z": 1.0}, "Toy")
    assert list_weights(P, {"z": 9.0, "x": 2.0}, "Toy", "ignore").tolist() == [2, 1]  # type: ignore[union-attr]


FEATURES = cc.Features(["q", "q"], ["a", "b"], [[0.0], [1.0]])
BLIND = sorted(name for name in cc.METHODS if not cc.METHODS[name].uses_features)


def weighted(sizes: dict[str, float]) -> Preferences:
    """Return two instances that three experts rank, the weights of the second by name."""
    rows = [(q, e, i, r) for q in ("q1", "q2") for e in "xyz" for r, i in enumerate("abc" if e == "x" else "cba", 1)]
    instance, expert, item, rank = zip(*rows, strict=True)
    return Preferences(instance, expert, item, rank, weight={("q2", e): w for e, w in sizes.items()})


def test_extreme_weights_are_divided_instance_by_instance_where_ratios_count() -> None:
    got = usable_weights(weighted({"x": 3e200, "y": 1e200, "z": 0.0}), "Toy", relative=True)
    assert got.weights[:3].tolist() == [1.0, 1.0, 1.0]
    assert got.weights[3] / got.weights[4] == 3e200 / 1e200
    assert 0.5 <= got.weights[3] < 1
    assert got.weights[5] == 0
    usual = weighted({"x": 1e-99, "y": 1e99})
    assert usable_weights(usual, "Toy", relative=True) is usual
    with pytest.raises(DataError, match=r"the weights of instance 'q2' go from 1e-300 to 1e\+300, .*Leave out experts"):
        usable_weights(weighted({"x": 1e-300, "y": 1e300}), "Toy", relative=True)


def test_weights_that_count_votes_are_refused_by_name_outside_their_range() -> None:
    for size in (1e13, 1e-10):
        with pytest.raises(DataError, match=r"PlackettLuce counts weights .* from 1e-09 to 1e\+12") as caught:
            cc.aggregate(weighted({"y": size}), "plackett-luce")
        assert f"Got {size:g} for expert 'y' in instance 'q2'. Divide" in str(caught.value)
        assert all(f" {n}" in str(caught.value).partition("ratios")[2] for n in ("borda", "rrf", "svp"))
    pairs = cc.Comparisons("q", ["x", "x"], ["a", "b"], ["b", "c"], [1, 1], [0, 0], [0, 1e300])
    with pytest.raises(DataError, match=r"BradleyTerry counts .* Got 1e\+300 for 'b' against 'c' in instance 'q'"):
        cc.aggregate(pairs, "bradley-terry")
    long = cc.Comparisons("q" * 5000, ["x" * 5000], ["a" * 5000], ["b" * 5000], [1e300])
    with pytest.raises(DataError, match=r"for 'aaa.* against 'bbb.* in instance 'qqq") as caught:
        cc.aggregate(long, "bradley-terry")
    assert len(str(caught.value)) < 1200


@pytest.mark.parametrize("name", ["condorcet", "copeland", "kemeny", "markov-chain", "svp"])
@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_counts_of_any_size_give_the_same_order_where_ratios_count(name: str, size: float) -> None:
    left, right, won, lost = list("abcaab"), list("bcddcd"), [3, 2, 5, 4, 6, 2], [1, 1, 0, 1, 2, 0]

    def pairs(unit: float) -> cc.Comparisons:
        return cc.Comparisons("q", None, left, right, np.multiply(won, unit), np.multiply(lost, unit))

    assert cc.aggregate(pairs(size), name).rank.tolist() == cc.aggregate(pairs(1.0), name).rank.tolist() == [1, 2, 3, 4]


UNSUPERVISED = sorted(n for n, m in cc.METHODS.items() if "rank" in m.tags.accepts and not m.tags.supervised)


@pytest.mark.filterwarnings("ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("name", UNSUPERVISED)
def test_list_weights_of_any_size_give_the_same_order_or_are_refused_by_name(name: str) -> None:
    """Large ones made sums overflow, small ones tied everything, and both together took minutes."""
    lists = {"x": "abcde", "y": "badce", "z": "acdeb", "w": "eabdc"}
    rows = [("q", expert, item, rank) for expert, items in lists.items() for rank, item in enumerate(items, 1)]

    def ranks(*weights: float) -> list[int]:
        p = Preferences(*zip(*rows, strict=True), weight=dict(zip(lists, weights, strict=True)))
        return cc.aggregate(p, name).rank.tolist()

    want = ranks(3, 1, 2, 1)
    refusal = rf"(the weights of instance 'q' go from|{cc.METHODS[name].__name__} counts weights)"
    for unit in (1e-300, 1e300):
        try:
            found = ranks(3 * unit, unit, 2 * unit, unit)
        except DataError as error:
            found = want if re.match(refusal, str(error)) else []
        assert found == want
    with pytest.raises(DataError, match=refusal):
        ranks(1e300, 1e-300, 1, 1)


@pytest.mark.parametrize("name", ["rrf", "weighted-sum"])
def test_expert_weights_of_any_size_count_by_their_ratios(name: str) -> None:
    p = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "c", "a"]})
    for size in (1e-300, 5e307):
        assert cc.aggregate(p, name, weights={"x": 3 * size, "y": size}).ranking() == ["a", "b", "c"]
    with pytest.raises(DataError, match=r"the weights given to \w+ go from 1 to 1e\+300"):
        cc.aggregate(p, name, weights={"x": 1e300})
    with pytest.raises(ParameterError, match="a number >= 0"):
        cc.aggregate(p, name, weights={"x": 10**400})


def test_counts_that_a_weight_makes_infinite_are_refused() -> None:
    with pytest.raises(DataError, match="weight times the count in row 0 must be a finite number"):
        cc.Comparisons("q", None, ["a"], ["b"], [1e300], weight=[1e300])
    with pytest.raises(DataError, match="a weight must be a finite number >= 0"):
        P.with_weights({"x": 10**400})


@pytest.mark.parametrize("name", BLIND)
@pytest.mark.parametrize("call", ["fit", "fit_predict"])
def test_features_given_to_a_method_that_cannot_use_them_are_an_error(name: str, call: str) -> None:
    owner = cc.METHODS[name].__name__
    kind = next(k for k in ("rank", "score", "comparisons") if k in cc.METHODS[name].tags.accepts)
    votes: Any = cc.from_lists({"x": ["a", "b"]}) if kind == "rank" else cc.from_lists({"x": {"a": 2.0, "b": 1.0}})
    if kind == "comparisons":
        votes = cc.Comparisons("q", None, ["a"], ["b"])
    names = "boosted-trees, bradley-terry, lambdarank,.*ranknet"
    with pytest.raises(KindError, match=rf"^{owner} does not use features\..*: {names}"):
        getattr(cc.METHODS[name](), call)(votes, features=FEATURES)


def test_features_reach_those_that_use_them_or_are_an_error_in_aggregate_and_blocks() -> None:
    assert {"mallows", "mpm", "borda"} <= set(BLIND)
    lists = cc.from_lists({"x": ["a", "b"], "y": ["a", "b"]})
    with pytest.raises(KindError, match="Borda does not use features"):
        cc.aggregate(lists, "borda", features=FEATURES)
    params: dict[str, Any] = {"prior": 1, "uncertainty": "information"}
    want = cc.BradleyTerry(**params).fit_predict(lists, features=FEATURES)
    assert cc.aggregate(lists, "bradley-terry", features=FEATURES, **params).score.tolist() == want.score.tolist()
    toy = Toy()
    with pytest.raises(KindError, match="Toy does not use features"):
        toy.fit(P, features=FEATURES)
    assert not hasattr(toy, "n_seen_")


SOURCE = Path(contract.__file__).parents[1]

# What is no matter of data or of a fit: a checkpoint that cannot be written, candidates of a search that failed,
# compiled code that cannot be kept.
OF_THE_BASE = {"learning/checkpoints.py": 2, "selection/search.py": 1, "kernels/jit.py": 1, "_registry.py": 1}


def warnings_of(path: Path) -> list[tuple[int, str]]:
    """Return line and category ("" without one) of every warning that a file gives."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if name == "_warn" or (name == "warn" and (isinstance(node.func, ast.Name) or owner == "warnings")):
            given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "category")]
            found.append((node.lineno, ast.unparse(given[0]) if given else ""))
    return found


def test_every_warning_names_the_category_it_can_be_filtered_by() -> None:
    categories = {name for name in errors.__all__ if name.endswith("Warning")}
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        found = warnings_of(path)
        # The two functions through which warnings are given pass on what they are given; mixtures those of their camps.
        passed_on = {"category"} if name in ("errors.py", "base/contract.py", "aggregators/mixture.py") else set()
        wrong += [f"{name}:{line}: {category!r}" for line, category in found if category not in categories | passed_on]
        bare = sum(category == "ConcordantWarning" for _, category in found)
        assert bare == OF_THE_BASE.get(name, 0), name
    assert not wrong


class Twice(Toy):
    """Warns of two things."""

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self._warn("it did not converge.", errors.ConvergenceWarning)
        self._warn("an item is loose.", errors.IdentifiabilityWarning)


def test_a_category_of_warnings_can_be_left_out_and_the_others_stay() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=cc.errors.ConvergenceWarning)
        toy = Twice().fit(P)
    assert [(w.category, str(w.message)) for w in told] == [(errors.IdentifiabilityWarning, "an item is loose.")]
    assert toy.fit_info_.warnings == ["it did not converge.", "an item is loose."]


def strings_in(node: ast.AST, constants: dict[str, ast.AST]) -> set[str]:
    """Return the strings of an expression, also of a constant of the file that it names."""
    found = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    named = [constants[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in constants]
    return found.union(*(strings_in(n, {}) for n in named))


def name_checks(tree: ast.Module, known: set[str]) -> list[int]:
    """Return the lines that compare a `name` or a `__module__` with known names."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asks = any(isinstance(side, ast.Attribute) and side.attr in ("name", "__module__") for side in sides)
            if asks and known & set().union(*(strings_in(side, constants) for side in sides)):
                lines.append(node.lineno)
    return lines


def test_name_checks_are_found() -> None:
    code = """
RULES = ("rrf", "borda")
a = model.name == "rrf"
b = type(model).name in RULES
c = f.name == "cutoff"
d = other == "rrf"
"""
    assert name_checks(ast.parse(code), {"rrf", "borda"}) == [3, 4]


def test_facts_about_methods_and_metrics_are_not_looked_up_by_name() -> None:
    known = {*cc.METHODS, *METRICS}
    paths = [p for p in sorted(SOURCE.rglob("*.py")) if p.relative_to(SOURCE).parts[0] != "metrics"]
    found = {
        p.relative_to(SOURCE).as_posix(): name_checks(ast.parse(p.read_text(encoding="utf-8")), known) for p in paths
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(("method", "name"), [(m, name) for m in cc.METHODS for name in cc.METHODS[m].learns_labels_by])
def test_a_method_needs_labels_under_the_settings_that_say_so(method: str, name: str) -> None:
    cls = cc.METHODS[method]
    model = cls(**{name: cls.learns_labels_by[name]})
    assert model.needs_labels()
    with pytest.raises(DataError, match="label"):
        model.fit(P)


def test_a_metric_that_derives_from_another_is_not_trained_as_that_one() -> None:
    class Other(NDCG):
        name: ClassVar[str] = "other"

    assert (NDCG.objective, Other.objective) == ("ndcg", "")

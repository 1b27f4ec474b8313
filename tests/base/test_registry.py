"""Methods by name: what is there, what is close, and what a third party adds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import concordant as cc
from concordant.base import registry
from concordant.base.registry import METHODS, aggregate, create, methods, register
from concordant.errors import ParameterError

P = cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]})


def test_every_method_of_the_package_is_there_under_its_own_name() -> None:
    package = Path(str(cc.__file__)).parent
    written = {
        line.split('"')[1]
        for room in ("methods", "ranking")
        for file in (package / room).glob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith('    name = "')
    }
    assert written == set(METHODS)
    assert list(METHODS) == sorted(METHODS)
    assert len(METHODS) == len(list(METHODS))
    for name, cls in METHODS.items():
        assert cls.name == name
        assert name == name.lower()
        assert " " not in name
        assert "_" not in name
        assert getattr(cc, cls.__name__) is cls, "public under the name of its class"


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(ParameterError, match=r"no method 'coplend'\. Did you mean 'copeland'\? There are: borda, "):
        METHODS["coplend"]
    with pytest.raises(ParameterError, match=r"no method 'zzzz'\. There are:"):
        aggregate(P, "zzzz")
    assert "rrf" in METHODS
    assert "RRF" not in METHODS
    assert 3 not in METHODS
    assert "rrf" in repr(METHODS)


@pytest.fixture
def mine() -> Iterator[type[cc.Aggregator]]:
    @register
    class Mine(cc.Aggregator):
        """Every item scores its own number; nobody should use it.

        More words.
        """

        name = "mine"
        tags = cc.Tags(accepts=frozenset({"rank"}), cost="O(1)")

        def __init__(self, *, k: int = 1) -> None:
            self.k = k

        def _scores(self, preferences: cc.Preferences) -> object:
            return preferences.slot[: preferences.n_slots] * 0.0

    yield Mine
    registry._classes.pop("mine")


def test_a_third_party_enters_by_register(mine: type[cc.Aggregator]) -> None:
    assert METHODS["mine"] is mine
    assert aggregate(P, "mine").rank.tolist() == [1, 1, 1]
    row = methods().filter(pl.col("name") == "mine").to_dicts()[0]
    assert row["class"] == "Mine"
    assert row["accepts"] == "rank"
    assert row["summary"] == "Every item scores its own number; nobody should use it."
    assert row["cost"] == "O(1)"


def test_create_takes_a_name_a_class_or_a_method() -> None:
    assert repr(create("rrf", k=5)) == "RRF(k=5)"
    assert repr(create(cc.RRF, k=5)) == "RRF(k=5)"
    ready = cc.RRF(k=7)
    assert create(ready) is ready
    assert repr(create(ready, k=8)) == "RRF(k=8)"
    for method in ("rrf", cc.RRF, cc.RRF()):
        with pytest.raises(ParameterError, match=r"RRF has no parameter 'kk'\. It has: k, weights"):
            create(method, kk=5)


def test_create_leaves_a_ready_method_alone() -> None:
    ready = cc.RRF(k=7)
    create(ready, k=8)
    assert ready.k == 7


def test_aggregate_is_fit_predict() -> None:
    want = cc.RRF(k=3).fit_predict(P)
    assert aggregate(P, "rrf", k=3) == want
    assert aggregate(P, cc.RRF(k=3)) == want
    assert aggregate(P) == cc.RRF().fit_predict(P)


def test_the_table_of_methods_has_every_tag() -> None:
    frame = methods()
    assert frame["name"].to_list() == list(METHODS)
    for column in ("supervised", "per_instance", "weights", "ties", "uncertainty", "stochastic", "faithful"):
        assert frame.schema[column] == pl.Boolean
    assert all(text and not text.startswith("\n") for text in frame["summary"])


def test_the_modules_are_imported_when_somebody_looks() -> None:
    code = (
        "import sys\n"
        "from concordant.base.registry import METHODS\n"
        "assert not any(m.startswith('concordant.methods.') for m in sys.modules)\n"
        "assert 'borda' in METHODS\n"
        "assert 'concordant.methods.majority' in sys.modules\n"
        "assert 'numba' not in sys.modules and 'scipy' not in sys.modules, 'looking at the methods needs no compiler'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_slip_names_the_nearest_parameter() -> None:
    hint = r"CRF has no parameter 'lerning_rate'\. Did you mean 'learning_rate'\? It has: metric, "
    with pytest.raises(ParameterError, match=hint):
        cc.aggregate(cc.from_lists({"x": ["a", "b"]}), "crf", lerning_rate=1)
    with pytest.raises(ParameterError, match=hint):
        cc.CRF().set_params(lerning_rate=1)


def test_the_table_of_methods_is_there_after_a_method_was_used() -> None:
    import concordant as cc

    # Python has put the package of that name in the function's place by now.
    assert cc.RRF().fit_predict(cc.from_lists({"a": ["x", "y"]})).ranking() == ["x", "y"]
    assert "rrf" in cc.methods()["name"]

"""Methods by name: what is there, what is close, and what a third party adds."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from scripts import public_names

import concordant as cc
import concordant.aggregators
from concordant.base.registry import METHODS, aggregate, create, methods, register_method
from concordant.errors import ConcordantWarning, ParameterError

Install = Callable[[str, str, dict[str, dict[str, str]]], None]

P = cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]})


def test_every_method_of_the_package_is_there_under_its_own_name() -> None:
    package = Path(str(cc.__file__)).parent
    written = {
        line.split('"')[1]
        for room in ("aggregators", "ranking")
        for file in (package / room).glob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.match(r'    name(: ClassVar\[str\])? = "', line)
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
    with pytest.raises(
        ParameterError,
        match=r"no method 'coplend'\. Did you mean 'copeland' or 'blend'\? There are: .*\bborda, bradley-terry\b",
    ):
        METHODS["coplend"]
    with pytest.raises(ParameterError, match=r"no method 'zzzz'\. There are:"):
        aggregate(P, "zzzz")
    assert "rrf" in METHODS
    assert "RRF" not in METHODS
    assert 3 not in METHODS
    assert "rrf" in repr(METHODS)


@pytest.fixture
def mine() -> Iterator[type[cc.Aggregator]]:
    @register_method
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
    METHODS.entries.pop("mine")


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


def loaded_after(code: str, *arguments: str) -> set[str]:
    """Return which of the methods' modules a fresh interpreter has loaded after running the code."""
    rooms = ("concordant.aggregators.", "concordant.ranking.", "numba")
    code += f"\nprint(*(m for m in sys.modules if m.startswith({rooms})))"
    call = [sys.executable, "-c", f"import sys\n{code}", *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()) if done.stdout.strip() else set()


def test_a_name_imports_the_module_of_its_family_and_no_other() -> None:
    assert loaded_after("import concordant as cc\nassert 'borda' in cc.METHODS") == set()
    assert loaded_after("import concordant as cc\ncc.METHODS['rrf']") == {"concordant.aggregators.fusion"}
    every = loaded_after("import concordant as cc\nassert len(cc.METHODS) > 30")
    assert {"concordant.aggregators.majority", "concordant.ranking.rankers"} < every
    assert "numba" not in every, "looking at the methods needs no compiler"


def test_the_command_line_imports_the_family_of_the_method_and_no_other(tmp_path: Path) -> None:
    runs = str(Path(str(cc.__file__)).parent / "data" / "sample" / "runs")
    call = (
        "from concordant.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
    )
    arguments = ("aggregate", runs, "--method", "rrf", "-o", str(tmp_path / "fused.trec"))
    assert loaded_after(call, *arguments) == {"concordant.aggregators.fusion"}


def test_the_tables_of_names_are_up_to_date() -> None:
    stale = [path.name for path, text in public_names.files().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "Run: python scripts/public_names.py"


OWN_FILE = """
import numpy as np
import concordant as cc

@cc.register_method
class Count(cc.Aggregator):
    \"\"\"Every item scores how many lists hold it.\"\"\"

    name = "count"
    tags = cc.Tags(accepts=frozenset({"rank"}), faithful=False)

    def _scores(self, preferences):
        return np.bincount(preferences.slot, minlength=preferences.n_slots).astype(float)
"""


def test_a_method_that_is_not_in_the_table_yet_is_found_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "newcomer.py").write_text(OWN_FILE)
    monkeypatch.setattr(concordant.aggregators, "__path__", [*concordant.aggregators.__path__, str(tmp_path)])
    monkeypatch.setattr(METHODS, "_complete", False)
    monkeypatch.setattr(METHODS, "entries", METHODS.own())
    assert aggregate(P, "count").ranking() == ["b", "a", "c"]
    del sys.modules["concordant.aggregators.newcomer"]


def test_an_installed_package_adds_a_method(installed: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    installed("plugin_count", OWN_FILE, {"concordant.methods": {"count": "plugin_count:Count"}})
    assert aggregate(P, "count").ranking() == ["b", "a", "c"]
    assert "count" in METHODS
    assert "count" in list(METHODS)


def test_a_package_that_cannot_be_loaded_is_named(installed: Install) -> None:
    points = {"broken": "plugin_broken", "absent": "plugin_broken.absent"}
    installed("plugin_broken", "raise OSError('no licence')", {"concordant.methods": points})
    message = "the method 'broken' of the installed package plugin-broken cannot be loaded: OSError: no licence"
    with pytest.raises(ParameterError, match=message):
        METHODS["broken"]
    with pytest.warns(ConcordantWarning, match=r"no licence It is left out\."):
        assert "rrf" in list(METHODS)


def test_a_package_that_registers_another_name_is_named(installed: Install) -> None:
    installed("plugin_other", OWN_FILE, {"concordant.methods": {"counts": "plugin_other:Count"}})
    with pytest.raises(ParameterError, match="plugin_other:Count registers no method of that name"):
        METHODS["counts"]


def test_a_name_belongs_to_whom_it_was_first() -> None:
    with pytest.raises(ParameterError, match=r"registers the method 'rrf', and concordant\.aggregators\.fusion has"):
        register_method(type("Mine", (cc.Aggregator,), {"name": "rrf"}))
    with pytest.raises(ParameterError, match=r"the name of a method must be text in lower case.* Got 'Mine'"):
        register_method(type("Mine", (cc.Aggregator,), {"name": "Mine"}))


def test_a_slip_names_the_nearest_parameter() -> None:
    hint = r"CRF has no parameter 'lerning_rate'\. Did you mean 'learning_rate'\? It has: metric, "
    with pytest.raises(ParameterError, match=hint):
        cc.aggregate(cc.from_lists({"x": ["a", "b"]}), "crf", lerning_rate=1)
    with pytest.raises(ParameterError, match=hint):
        cc.CRF().set_params(lerning_rate=1)

"""A saved method comes back whole, a damaged one is refused, and nothing in a file is ever executed."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from tests.attack.models import mutated, signed

import concordant as cc
from concordant.base import registry
from concordant.base.saving import load, read_arrays, write_arrays
from concordant.errors import ConcordantError, ConcordantWarning, DataError, FormatError, ParameterError

P = cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]})
SOURCE = Path(__file__).resolve().parents[2] / "src"


class Learner(cc.Aggregator):
    """Keeps all sorts of state."""

    name = "toy-learner"
    tags = cc.Tags(accepts=frozenset({"rank"}))

    def __init__(self, *, option: Any = None, later: Any = "new") -> None:
        self.option = option
        self.later = later

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self.array_ = np.arange(6, dtype=np.int32).reshape(2, 3)
        self.turned_ = np.arange(6.0).reshape(2, 3).T
        self.nothing_ = np.zeros((0, 4))
        self.single_ = np.array(7.5)
        self.flags_ = np.array([True, False])
        self.plain_ = {"text": "é", "list": [1, 2.5, None, True], "pair": (1, ("x",)), "number": np.float64(0.1)}
        self.mixed_ = {"deep": [{"inner": np.arange(3.0)}], "inf": -np.inf, "__tuple__": [1], "a.b": np.arange(2)}
        self.experts_ = ["x", "\ud800", "é"]
        self.adherence_ = np.array([0.5, 1.0, np.nan])
        self.expert_details_ = {"alpha": np.arange(3.0), "beta": [1.0, 2.0, 3.0]}
        self.fit_info_.trace.extend([3.0, np.inf])
        self.fit_info_.objective = float(np.float64(2.0))

    def _scores(self, preferences: Any) -> Any:
        return np.arange(preferences.n_slots, dtype=np.float64)

    def method_(self) -> None:
        """Be a method with the name of a state."""


class NoMethod:
    """Is not registered, and would notice being made."""

    made = False

    def __init__(self, **_: Any) -> None:
        NoMethod.made = True


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "rrf" in registry.METHODS
    monkeypatch.setitem(registry.METHODS.entries, Learner.name, Learner)


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are the same, types and arrays included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        same = left.dtype == right.dtype and left.shape == right.shape
        return same and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[k], right[k]) for k in left)
    return bool(left == right)


@pytest.mark.parametrize(
    "option",
    [None, 1, 0.1, "é", True, (1, "x"), [1, [2]], {"a": {"b": 1}}, float("inf"), {"__tuple__": {"__number__": "nan"}}],
)
def test_parameters_state_and_fit_info_come_back(tmp_path: Path, option: Any) -> None:
    method = Learner(option=option).fit(P)
    method.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is Learner
    assert equal(again.option, option)
    assert again.fit_info_ == method.fit_info_
    assert not hasattr(again, "consensus_")
    method.plain_["number"] = 0.1  # NumPy's numbers come back as Python's
    left, right = ({n: v for n, v in m.__dict__.items() if n != "fit_info_"} for m in (method, again))
    assert left.keys() == right.keys()
    assert [n for n in left if not equal(left[n], right[n])] == []
    assert all(a.flags.writeable for a in right.values() if isinstance(a, np.ndarray))


def test_an_unfitted_method_is_saved_too(tmp_path: Path) -> None:
    cc.RRF(k=20, weights={"x": 2.0}).save(tmp_path / "m")
    again = cc.load(tmp_path / "m")
    assert repr(again) == "RRF(k=20, weights={'x': 2.0})"
    assert not hasattr(again, "fit_info_")


def test_methods_among_parameters_and_state_come_back_and_those_to_be_fitted_unfitted(tmp_path: Path) -> None:
    inner = Learner(option=Learner(option=[cc.RRF(k=3)]))
    inner.fit(P)
    outer = Learner(option=[inner, "rrf"])
    outer.fit(P)
    outer.fitted_ = [inner]
    outer.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert repr(again) == repr(outer)
    assert not hasattr(again.option[0], "array_")
    (kept,) = again.fitted_  # type: ignore[attr-defined]
    assert kept.fit_info_ == inner.fit_info_
    assert np.array_equal(kept.array_, inner.array_)
    assert np.array_equal(kept.mixed_["deep"][0]["inner"], [0, 1, 2])
    again.save(tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_the_header_says_what_it_is_and_anybody_can_read_it(tmp_path: Path) -> None:
    from safetensors import safe_open

    Learner(option=3).fit(P).save(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="np") as file:
        header = json.loads(file.metadata()["concordant"])
        assert np.array_equal(file.get_tensor("array_"), [[0, 1, 2], [3, 4, 5]])
    assert [header[n] for n in ("format", "version", "kind", "method", "class", "params", "experts")] == [
        "1.0",
        cc.__version__,
        "model",
        "toy-learner",
        "Learner",
        {"option": 3, "later": "new"},
        ["x", "\ud800", "é"],
    ]
    assert header["fit_info"]["objective"] == 2.0


def test_the_same_method_gives_the_same_file(tmp_path: Path) -> None:
    method = Learner(option={"b": 1, "a": 2}).fit(P)
    method.save(tmp_path / "m")
    load(tmp_path / "m").save(tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


@pytest.mark.parametrize(
    ("option", "found"),
    [
        (object(), "object is neither"),
        ({1: 2}, "dict is neither"),
        (10**301, "int is neither"),
        (np.arange(2), "ndarr"),
    ],
)
def test_what_cannot_be_saved_is_named_and_leaves_no_file(tmp_path: Path, option: Any, found: str) -> None:
    with pytest.raises(ParameterError, match=f"parameter 'option' cannot be saved: {found}"):
        Learner(option=option).fit(P).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_state_that_cannot_be_saved_is_named(tmp_path: Path) -> None:
    method = Learner().fit(P)
    endless: list[Any] = []
    endless.append(endless)
    for value in (np.array(["text"]), np.array([None]), endless, {"x": {1, 2}}):
        method.odd_ = value  # type: ignore[attr-defined]
        with pytest.raises(ParameterError, match=r"Learner\.odd_\S* cannot be saved"):
            method.save(tmp_path / "m")
    del method.odd_  # type: ignore[attr-defined]
    method.__dict__["method_"] = 3
    with pytest.raises(ParameterError, match=r"\['method_'\] are no names of learned attributes"):
        method.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_compressed_ending_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"m\.gz': models are not compressed"):
        cc.RRF().save(tmp_path / "m.gz")
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failed_save(tmp_path: Path) -> None:
    Learner(option=3).fit(P).save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(ParameterError):
        Learner(option=object()).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_what_is_no_file_of_ours_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save as to_bytes

    Learner(option=3).fit(P).save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    huge = struct.pack("<Q", 2**63) + data[8:]
    strangers = [b"", b"\0", data[:7], b"PK\3\4", pickle.dumps(cc.RRF()), b"\xff" * 100, huge, bytes(1000)]
    strangers += [to_bytes({"a": np.arange(3)}), to_bytes({}, metadata={"concordant": "{}"}), b"q1 Q0 d1 1 2.0 a\n" * 9]
    for content in strangers:
        (tmp_path / "d").write_bytes(content)
        with pytest.raises(FormatError, match="not a file that Concordant wrote") as caught:
            load(tmp_path / "d")
        assert str(caught.value).startswith(f"{tmp_path / 'd'}: ")
    for content in (data[:40], data[: len(data) // 2], data[:-1], data + b"x"):
        (tmp_path / "d").write_bytes(content)
        with pytest.raises(FormatError, match=r"d: .*cut short"):
            load(tmp_path / "d")


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read '.*absent': No such file or directory\."):
        load(tmp_path / "absent")
    with pytest.raises(DataError, match=r"cannot read '.*': Is a directory\."):
        load(tmp_path)
    with pytest.raises(DataError, match="there is no folder"):
        cc.RRF().save(tmp_path / "no" / "m")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="devices of POSIX")
def test_what_never_ends_is_refused_at_once() -> None:
    for device in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(FormatError, match="not a file that Concordant wrote"):
            load(device)


# Mutations.

LISTS = cc.synthetic.meta_search(8, n_items=(5, 8), random_state=3)
VOTES = cc.synthetic.bradley_terry(5, 60, n_experts=4, ties=0.2, random_state=1).comparisons
MODELS = {
    "bradley-terry": {"reliability": True},
    "mpm": {"adherence": "learned", "uncertainty": "none"},
    "cps": {"adherence": "supervised"},
}


def models() -> list[str]:
    """Return the names of methods that keep different sorts of state: those above, and all that learn from labels."""
    return [*MODELS, *(n for n in registry.METHODS if registry.METHODS[n].tags.supervised and n not in MODELS)]


def how_many(name: str) -> int:
    """Return how many mutations a model goes through: one of them all that are asked for, the others a tenth."""
    return 5000 if name == ("crf" if "crf" in models() else models()[0]) else 500


def fitted(name: str) -> tuple[cc.Aggregator, Any]:
    """Return a fitted method, and what it can predict."""
    cls = registry.METHODS[name]
    few = {"passes": 3} if "passes" in cls.param_names() else {}
    data = VOTES if name == "bradley-terry" else LISTS.preferences
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        return registry.create(name, **few, **MODELS.get(name, {})).fit(data, LISTS.labels), data


def outcome(place: Path, content: bytes) -> Any:
    """Return what comes of loading these bytes: the method, or the error, which must name the file."""
    # File systems write the content of a file to the disk at once if it replaces another content.
    place.unlink(missing_ok=True)
    place.write_bytes(content)
    try:
        return load(place)
    except ConcordantError as error:
        return error if str(error).startswith(f"{place}: ") else str(error)


@pytest.mark.parametrize("name", models())
def test_of_thousands_of_mutations_each_predicts_the_same_or_is_refused(tmp_path: Path, name: str) -> None:
    method, votes = fitted(name)
    method.save(tmp_path / "m")
    data, want = (tmp_path / "m").read_bytes(), method.predict(votes)
    assert load(tmp_path / "m").predict(votes) == want
    chance = random.Random(0)
    for _ in range(how_many(name)):
        assert isinstance(outcome(tmp_path / "d", mutated(data, chance)[1]), FormatError)


@pytest.mark.parametrize("name", models())
def test_mutations_with_a_right_checksum_are_loaded_or_refused_by_name(tmp_path: Path, name: str) -> None:
    method, _ = fitted(name)
    method.save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    chance = random.Random(1)
    found = [type(outcome(tmp_path / "d", signed(mutated(data, chance)[1]))) for _ in range(500)]
    assert set(found) == {FormatError, type(method)}
    assert found.count(FormatError) > 100


def wrong_values(value: Any) -> list[Any]:
    """Return what a state might be replaced by to make a method stumble."""
    others: list[Any] = [0, -1, 1e300, "text", [], {}, None, np.zeros(0), np.zeros(3), np.zeros((2, 2))]
    if isinstance(value, np.ndarray) and value.ndim:
        others += [value[:-1], np.concatenate([value, value]), value[None], value.astype(np.int64)]
    if isinstance(value, list):
        others += [value[:-1], value + value, [*value, "new"]]
    if isinstance(value, dict):
        others += [{k: v for k, v in value.items() if k != key} for key in value]
        others += [value | {key: None} for key in value]
    return others


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize("name", [*models(), "ulara", "extended-mallows", "rrf"])
def test_state_that_does_not_fit_together_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(MODELS, "rrf", {"k": "learned", "weights": "learned"})
    method, votes = fitted(name)
    learned = {n: v for n, v in method.__dict__.items() if n.endswith("_") and n != "fit_info_"}
    refused = 0
    for attribute, value in learned.items():
        for other in [None, *wrong_values(value)]:
            changed = learned | {attribute: other}
            if other is None:
                del changed[attribute]
            hostile = type(method)(**method.get_params())
            hostile.__dict__.update(changed, fit_info_=method.fit_info_)
            try:
                hostile.save(tmp_path / "h")
                load(tmp_path / "h").predict(votes)
            except ConcordantError:
                refused += 1
    assert refused > 5 * len(learned)


# Learned numbers that no fit gives, one by one.

FEATURES, GRADES = cc.synthetic.graded_features(8, random_state=1)
OBSERVED = cc.Features(["q"] * 5, [str(i) for i in VOTES.items.tolist()], np.arange(10.0).reshape(5, 2) ** 2)
# Other parameters than the defaults that learn something else, and what is learned from where that is not lists.
LEARNERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in registry.METHODS),
    ("bradley-terry", {"reliability": True}),
    ("bradley-terry", {"side_effect": True, "uncertainty": "information"}),
    ("bradley-terry", {"features": True}),
    ("mpm", {"adherence": "learned", "uncertainty": "none"}),
    ("mpm", {"adherence": "supervised", "uncertainty": "none"}),
    ("mpm", {"variances": True, "uncertainty": "none"}),
    ("cps", {"adherence": "supervised"}),
    ("plackett-luce", {"adherence": True, "uncertainty": "none"}),
    ("plackett-luce", {"ties": "davidson-luce"}),
    ("plackett-luce", {"features": True, "ties": "davidson-luce"}),
    ("rrf", {"k": "learned", "weights": "learned"}),
    ("weighted-sum", {"weights": "learned"}),
    ("svd-rank", {"hidden": 2}),
    ("crf", {"weights": "mixed"}),
    ("ranknet", {"hidden": 2}),
    ("ranknet", {"expert_features": "svd"}),
    ("lambdarank", {"features": True}),
    ("pair-ties", {"features": True, "second_order": True, "max_products": 3}),
]
HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1e308, 10**300, -1, 0, 10**18, 2**63]
# What is not known is NaN, and two chains may be infinitely far apart; neither is read by `predict`.
FOR_THE_READER = ("chain_", "dispersion_stderr_", "variance_", "expert_details_.agreement")
# A threshold is compared with values of features, which may be any finite number, and never computed with.
COMPARED_ONLY = ("threshold_",)


def learned(name: str, params: dict[str, Any]) -> tuple[cc.Aggregator, Any]:
    """Return a fitted method that has predicted what it was fitted on, and that."""
    cls = registry.METHODS[name]
    few = {"passes": 3} if "passes" in cls.param_names() else {}
    given = {n: v for n, v in params.items() if n != "features"}
    method = registry.create(name, **few, **given)
    data: Any = VOTES if name in ("bradley-terry", "elo") else LISTS.preferences
    if params.get("ties") == "davidson-luce":
        rows = data.to_frame().drop_nulls()
        value = rows.columns[3]
        ranks = [1 + int(v) - int(v) % (2 + k % 2) for k, v in enumerate(rows[value].to_list())]
        data = cc.Preferences(rows["instance"], rows["expert"], rows["item"], ranks, kind=data.kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        if "features" not in params:
            method.fit_predict(data, LISTS.labels)
        elif name == "bradley-terry":
            method.fit_predict(data, features=OBSERVED)
        elif name == "plackett-luce":
            slots, x = data.slots, np.random.default_rng(0).normal(size=(data.n_slots, 2))
            instances = slots.instances.take(slots.instance).tolist()
            method.fit_predict(data, features=cc.Features(instances, slots.items.tolist(), x))
        else:
            data = FEATURES
            method.fit_predict(data, GRADES)
    return method, data


def parts_of(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a saved method."""
    from safetensors.numpy import load as from_bytes

    head = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    return json.loads(head["__metadata__"]["concordant"]), from_bytes(data)


def numbers_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to the numbers of nested mappings, and of lists the first and the last."""
    if isinstance(value, dict):
        return [at for key, inner in value.items() for at in numbers_in(inner, (*path, key))]
    if isinstance(value, list):
        ends = sorted({0, len(value) - 1}) if value else []
        return [at for key in ends for at in numbers_in(value[key], (*path, key))]
    return [path] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return nested mappings and lists with one number replaced."""
    if not path:
        wild = isinstance(new, float) and not np.isfinite(new)
        return {"__number__": str(new)} if wild else new
    out = value.copy()
    out[path[0]] = replaced(value[path[0]], path[1:], new)
    return out


def hostile_models(data: bytes) -> Iterator[tuple[str, Any, bytes]]:
    """Yield the name of a learned number, what it is replaced by, and the file with a checksum that is right."""
    from safetensors.numpy import save as to_bytes

    header, arrays = parts_of(data)

    def file(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
        return signed(to_bytes(arrays, metadata={"concordant": json.dumps(header)}))

    for path in numbers_in(header["state"]):
        for new in HOSTILE:
            yield ".".join(map(str, path)), new, file(header | {"state": replaced(header["state"], path, new)}, arrays)
    for name, array in arrays.items():
        # The first, the last and one between; all numbers of an array go through one check.
        for at in sorted({0, array.size // 2, array.size - 1} if array.size else ()):
            for new in HOSTILE:
                other = array.copy()
                try:
                    other.flat[at] = new
                except (OverflowError, ValueError):
                    continue
                yield name, new, file(header, arrays | {name: other})


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::concordant.errors.ConcordantWarning")
@pytest.mark.parametrize(("name", "params"), LEARNERS, ids=str)
def test_a_learned_number_that_no_fit_gives_is_refused_or_does_no_harm(
    tmp_path: Path, name: str, params: dict[str, Any]
) -> None:
    method, votes = learned(name, params)
    method.save(tmp_path / "m")
    data, want = (tmp_path / "m").read_bytes(), method.predict(votes)
    assert load(tmp_path / "m").predict(votes) == want
    for where, value, content in hostile_models(data):
        try:
            found = load(content)
        except FormatError:
            continue
        known = where.startswith(FOR_THE_READER) or "__method__.fit_info" in where
        inside = np.isfinite(float(value)) and (abs(value) < 1e308 or where in COMPARED_ONLY)
        assert known or inside, f"{where} may be {value}"
        assert np.isfinite(found.predict(votes).score).all(), f"{where} = {value}"
        assert not found.learned_experts() or len(found.expert_weights_) == len(found.experts_)


@pytest.mark.parametrize(
    ("name", "params", "attribute", "value"),
    [
        ("plackett-luce", {"adherence": True, "uncertainty": "none"}, "adherence_", -1.0),
        ("ulara", {}, "adherence_", -1.0),
        ("mpm", {"adherence": "learned", "uncertainty": "none"}, "adherence_", 1.5),
        ("cps", {"adherence": "supervised"}, "adherence_", -1.0),
        ("rrf", {"k": "learned", "weights": "learned"}, "adherence_", -1.0),
        ("rrf", {"k": "learned", "weights": "learned"}, "k_", 0.0),
        ("extended-mallows", {}, "theta_", 1.0),
        ("bradley-terry", {"reliability": True}, "scale_", -1.0),
        ("bradley-terry", {}, "tie_", -1.0),
    ],
)
def test_what_is_out_of_the_range_of_a_model_is_refused_by_name(
    tmp_path: Path, name: str, params: dict[str, Any], attribute: str, value: float
) -> None:
    method, _ = learned(name, params)
    if isinstance(method.__dict__[attribute], np.ndarray):
        method.__dict__[attribute][0] = value
    else:
        method.__dict__[attribute] = value
    method.save(tmp_path / "m")
    with pytest.raises(FormatError, match=f"m: what it learned is out of range: '{attribute}' holds a number that"):
        load(tmp_path / "m")


@pytest.mark.parametrize(("name", "params"), LEARNERS, ids=str)
def test_every_method_declares_the_bounds_of_the_numbers_it_learns(name: str, params: dict[str, Any]) -> None:
    method, _ = learned(name, params)
    hints = get_type_hints(type(method), include_extras=True)
    apart = ("fit_info_", "consensus_", "experts_")

    def has_numbers(value: Any) -> bool:
        return (
            isinstance(value, np.ndarray)
            or bool(numbers_in(value))
            or (isinstance(value, dict) and any(map(has_numbers, value.values())))
        )

    bare = [
        n
        for n, v in method.__dict__.items()
        if n.endswith("_") and n not in apart and has_numbers(v) and not getattr(hints.get(n), "__metadata__", ())
    ]
    assert bare == []


# Hostile files, their checksum being right.


def file_of(tmp_path: Path, header: str | dict[str, Any], arrays: dict[str, Any] | None = None) -> Path:
    """Write a container with this header, whatever it says."""
    from safetensors.numpy import save as to_bytes

    text = header if isinstance(header, str) else json.dumps(header)
    text = text.replace("{", '{"checksum": "' + "0" * 64 + ('", ' if text != "{}" else '"'), 1)
    (tmp_path / "h").write_bytes(signed(to_bytes(arrays or {}, metadata={"concordant": text})))
    return tmp_path / "h"


def good(**changes: Any) -> dict[str, Any]:
    """Return the header of a saved method, with changes."""
    header: dict[str, Any] = {
        "format": "1.0",
        "version": "0.1.0",
        "kind": "model",
        "method": "toy-learner",
        "class": "Learner",
        "params": {"option": 1},
        "experts": None,
        "state": {},
        "fit_info": None,
    }
    return header | changes


def nested(**changes: Any) -> dict[str, Any]:
    """Return a method inside a header, with changes."""
    method = {"method": "rrf", "class": "RRF", "params": {"k": 60}, "state": {}, "experts": None, "fit_info": None}
    return {"__method__": method | changes}


def without(name: str) -> dict[str, Any]:
    return {n: v for n, v in good().items() if n != name}


def test_what_a_newer_minor_format_adds_is_left_aside_and_what_an_older_one_lacks_takes_its_default(
    tmp_path: Path,
) -> None:
    info = {"n_iter": 3, "something_new": [1]}
    method = load(file_of(tmp_path, good(format="1.7", news={"x": 1}, fit_info=info)))
    assert repr(method) == "Learner(option=1)"
    assert method.later == "new"  # type: ignore[attr-defined]
    assert method.fit_info_.n_iter == 3
    assert method.fit_info_.warnings == []


def test_a_newer_major_format_is_refused_by_name(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"format": "2.0", "version": "9.1", "kind": "model", "all": "different"})
    with pytest.raises(FormatError, match=r"h: written by Concordant 9\.1 in format 2; .* reads format 1\. Upgrade"):
        load(path)


def test_models_and_checkpoints_are_told_apart(tmp_path: Path) -> None:
    write_arrays(tmp_path / "c", "checkpoint", {"number": 3, "best": (1, np.inf)}, {"w": np.arange(3)})
    header, arrays = read_arrays(tmp_path / "c", "checkpoint")
    assert (header["number"], header["best"], arrays["w"].tolist()) == (3, (1, np.inf), [0, 1, 2])
    with pytest.raises(FormatError, match=r"c: holds a checkpoint of an unfinished fit, not a saved method\."):
        load(tmp_path / "c")
    cc.RRF().save(tmp_path / "m")
    with pytest.raises(FormatError, match=r"m: holds a saved method, .* not a checkpoint of an unfinished fit\."):
        read_arrays(tmp_path / "m", "checkpoint")
    with pytest.raises(FormatError, match="holds something else, not a saved method"):
        load(file_of(tmp_path, good(kind=["model"])))


DEEP = json.dumps(good()).replace("null", "[" * 50_000 + "]" * 50_000, 1)
NESTED: Any = 1
for _ in range(200):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (DEEP, "nested too deeply"),
        (good(params={"option": NESTED}), "nested too deeply"),
        (good(state={"x_": NESTED}), "nested too deeply"),
        (json.dumps(good(params={"option": float("nan")})), "NaN is no number"),
        (json.dumps(good(params={"option": float("-inf")})), "-Infinity is no number"),
        (json.dumps(good(params={"option": 7777})).replace("7777", "1e999"), "1e999 is no number"),
        (json.dumps(good(params={"option": 7777})).replace("7777", "9" * 5000), "9999… is no number"),
        (json.dumps(good()).replace('"params"', '"kind": "model", "params"'), "'kind' is there twice"),
        (json.dumps(good()).replace('"option": 1', '"option": 1, "option": 2'), "'option' is there twice"),
        (json.dumps(good())[:-1], "header is not JSON"),
        ("{}", "version of its format is None"),
        (good(format=1), "version of its format is 1"),
        (good(format="one"), "version of its format is 'one'"),
        (good(format="9" * 5000 + ".0"), "in format 99999999…"),
        (good(method="gone"), "its method 'gone' is not known"),
        (good(method="NoMethod"), "its method 'NoMethod' is not known"),
        (good(method="__class__"), "is not known"),
        (good(method=7), "lacks 'method'"),
        (good(**{"class": "NoMethod"}), "written by a class 'NoMethod'"),
        (good(**{"class": {"a": 1}}), "written by a class"),
        (without("params"), "lacks 'params'"),
        (without("state"), "lacks 'state'"),
        (good(params=[1]), "lacks 'params'"),
        (good(state=3), "lacks 'state'"),
        (good(params={"surprise": 1}), r"Learner has no parameter \['surprise'\]\. It has: option, later"),
        (good(params={"self": 1}), "no parameter"),
        (good(method="rrf", **{"class": "RRF"}, params={"k": "many"}), "'k' parameter of RRF must be a number > 0"),
        (good(method="rrf", **{"class": "RRF"}, params={"k": 10**299}), None),
        (good(method="rrf", **{"class": "RRF"}, params={"weights": {"x": "y"}}), "'weights' parameter of RRF"),
        (good(state={"method_": 1}), r"Learner learns no \['method_'\]"),
        (good(state={"fit": 1}), "learns no"),
        (good(state={"predict": 1, "option": 2}), "learns no"),
        (good(state={"__class__": "x"}), "learns no"),
        (good(state={"__dict__": {}}), "learns no"),
        (good(state={"_private_": 1}), "learns no"),
        (good(state={"__reduce__": 1}), "learns no"),
        (good(state={"expert_weights_": 1}), "learns no"),
        (good(state={"fit_info_": 1}), "learns no"),
        (good(state={"consensus_": 1}), "learns no"),
        (good(state={"no name_": 1}), "learns no"),
        (good(state={"x_": {"__tuple__": 3}}), "stands for nothing"),
        (good(state={"x_": {"__tuple__": [1], "more": 1}}), "stands for nothing"),
        (good(state={"x_": {"__number__": "1"}}), "stands for nothing"),
        (good(state={"x_": {"__number__": [1]}}), "stands for nothing"),
        (good(state={"x_": {"__array__": "absent"}}), "stands for nothing"),
        (good(state={"x_": {"__array__": ["w"]}}), "stands for nothing"),
        (good(state={"x_": {"__mapping__": [["a"]]}}), "stands for nothing"),
        (good(state={"x_": {"__mapping__": [[["a"], 1]]}}), "stands for nothing"),
        (good(state={"x_": {"__mapping__": [["a", 1], ["a", 2]]}}), "'a' is there twice"),
        (good(params={"option": {"__array__": "w"}}), "stands for nothing"),
        (good(experts="xyz"), "experts are not a list of different ids"),
        (good(experts=["x", 3]), "experts are not a list of different ids"),
        (good(experts=["x", "x"]), "experts are not a list of different ids"),
        (good(experts=["x"], state={"adherence_": 1}), r"is of the wrong type: \['adherence_'\]"),
        (good(experts=["x"], state={"expert_details_": {"a": 1}}), "not one entry for each of 1"),
        (good(experts=["x"], state={"expert_details_": {"a": [1, 2]}}), "not one entry for each of 1"),
        (good(experts=["x"], state={"expert_details_": 7}), "not one entry for each of 1"),
        (good(experts=["x", "y"], state={"expert_details_": {"a": [[1], [1, 2]]}}), "not one entry for each of 2"),
        (good(experts=["x", "y"], state={"expert_details_": {"a": [1, "two"]}}), "not one entry for each of 2"),
        (good(experts=["x"], state={"expert_details_": {"expert": ["y"]}}), "not one entry for each of 1"),
        (good(params={"option": nested(method="no-such")}), "not known to this Concordant"),
        (good(state={"x_": nested(params={"k": -1})}), "the 'k' parameter of RRF must be"),
        (good(state={"x_": [nested(state={"fit": 1})]}), "learns no"),
        (good(params={"option": nested(**{"class": "Borda"})}), "written by a class"),
        (good(params={"option": nested(), "later": nested(state={"w_": {"__array__": "w"}})}), "stands for nothing"),
        (good(fit_info=3), "fit_info is no mapping"),
        (good(fit_info={"n_iter": "three"}), r"fit_info has values of the wrong type: \['n_iter'\]"),
        (good(fit_info={"n_iter": True}), "wrong type"),
        (good(fit_info={"converged": 1}), "wrong type"),
        (good(fit_info={"trace": [1, "x"]}), "wrong type"),
        (good(fit_info={"warnings": [["x"]]}), "wrong type"),
        (good(fit_info={"uncertainty": {}}), "wrong type"),
        (good(fit_info={"objective": {"__tuple__": []}}), "wrong type"),
    ],
)
def test_a_hostile_header_is_refused_by_name(tmp_path: Path, header: Any, says: str | None) -> None:
    path = file_of(tmp_path, header)
    if says is None:
        assert load(path).get_params()["k"] == 10**299
        return
    with pytest.raises(FormatError, match=says) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 600
    assert not NoMethod.made


def test_what_was_learned_comes_with_the_record_of_its_fit(tmp_path: Path) -> None:
    method, _ = fitted("ulara")
    del method.fit_info_
    method.save(tmp_path / "h")
    with pytest.raises(FormatError, match=r"h: it has learned something, and its header lacks 'fit_info'"):
        load(tmp_path / "h")


def test_a_header_of_many_names_is_refused_in_one_pass(tmp_path: Path) -> None:
    """One name of 100,000 is there twice; comparing each with each would take minutes."""
    names = ", ".join(f'"k{i}": 1' for i in range(100_000))
    path = file_of(tmp_path, json.dumps(good()).replace('"option": 1', f'{names}, "k99999": 2'))
    code = f"import concordant as cc\ntry: cc.load({str(path)!r})\nexcept cc.errors.FormatError as e: print(e)"
    call = [sys.executable, "-c", code]
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=env, timeout=30)
    assert "'k99999' is there twice" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arrays", "state", "says"),
    [
        ({"w": np.arange(3.0)}, {}, r"arrays that belong to nothing: \['w'\]"),
        ({"w": np.arange(3.0)}, {"x_": {"__array__": "w"}, "y_": {"__array__": "w"}}, "stands for nothing"),
        ({"w": np.arange(3.0)}, {"adherence_": {"__array__": "w"}}, "not one number for each of 2 experts"),
        ({"w": np.zeros((2, 2))}, {"adherence_": {"__array__": "w"}}, "not one number for each of 2 experts"),
        ({"w": np.zeros(2, dtype=bool)}, {"adherence_": {"__array__": "w"}}, r"wrong type: \['adherence_'\]"),
        ({"w": np.zeros((3, 2))}, {"weights_": {"__array__": "w"}}, "its weights are not those of 2 experts"),
        ({"w": np.array(3.0)}, {"expert_details_": {"a": {"__array__": "w"}}}, "not one entry for each of 2"),
        ({"w": np.zeros(2, dtype=np.complex64)}, {"x_": {"__array__": "w"}}, "an array of C64"),
    ],
)
def test_hostile_arrays_are_refused_by_name(tmp_path: Path, arrays: Any, state: Any, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load(file_of(tmp_path, good(experts=["x", "y"], state=state), arrays))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"shape":[3]', '"shape":[9223372036854775807]', "not a file that Concordant wrote"),
        ('"shape":[3]', '"shape":[4611686018427387904,4]', "not a file that Concordant wrote"),
        ('"shape":[3]', '"shape":[-3]', "not a file that Concordant wrote"),
        ('"shape":[3]', '"shape":[2]', "not a file that Concordant wrote"),
        ('"dtype":"F64"', '"dtype":"F32"', "not a file that Concordant wrote"),
        ('"dtype":"F64"', '"dtype":"O"', "not a file that Concordant wrote"),
        ('"data_offsets":[0,24]', '"data_offsets":[0,99999999999999]', "not a file that Concordant wrote"),
        ('"data_offsets":[0,24]', '"data_offsets":[8,24]', "not a file that Concordant wrote"),
        ('"dtype":"F64","shape":[3]', '"dtype":"BF16","shape":[12]', "an array of BF16"),
        ('"e":{"dtype":"F64","shape":[0]', '"e":{"dtype":"F64","shape":[0,4611686018427387904]', "no memory holds"),
        ('"e":{"dtype":"F64","shape":[0]', '"e":{"dtype":"F64","shape":[18446744073709551615,0]', "no memory holds"),
    ],
)
def test_hostile_tensors_are_refused_by_name(tmp_path: Path, old: str, new: str, says: str) -> None:
    state = {"x_": {"__array__": "w"}, "y_": {"__array__": "e"}}
    path = file_of(tmp_path, good(state=state), {"w": np.arange(3.0), "e": np.zeros(0)})
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = data[8 : 8 + size].decode().rstrip()
    assert old in head
    head = head.replace(old, new)
    path.write_bytes(signed(struct.pack("<Q", len(head)) + head.encode() + data[8 + size :]))
    with pytest.raises(FormatError, match=says):
        load(path)


@pytest.mark.parametrize("name", ["rrf", *(n for n in ("listwise-linear", "crf") if n in models())])
def test_loading_and_predicting_import_nothing_heavy(tmp_path: Path, name: str) -> None:
    """Three lists through from_lists and a loaded method: no Polars, no compiler, no SciPy on that path."""
    method = cc.RRF() if name == "rrf" else fitted(name)[0]
    method.save(tmp_path / "m")
    code = (
        "import sys, json, concordant as cc\n"
        f"model = cc.load({str(tmp_path / 'm')!r})\n"
        "model.predict(cc.from_lists({e: [f'd{i}' for i in range(100)] for e in ('e1', 'e2', 'e3')}))\n"
        "heavy = ('polars', 'numba', 'scipy', 'pandas', 'rich', 'typer', 'sklearn')\n"
        "print(json.dumps([n for n in heavy if n in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_no_file_of_the_package_unpickles() -> None:
    """The checks look whether a method can be sent to another process; nothing else knows of pickles."""
    words = ("import pickle", "allow_pickle=True", "marshal", "joblib")
    texts = {path.name: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert [name for name, text in texts.items() if any(word in text for word in words)] == ["checks.py"]


def test_bytes_and_open_files_are_loaded_like_paths(tmp_path: Path) -> None:
    path = tmp_path / "rrf.model"
    cc.RRF(k=7).save(path)
    content = path.read_bytes()
    with path.open("rb") as file:
        sources: list[Any] = [content, bytearray(content), memoryview(content), io.BytesIO(content), file]
        assert [cc.load(source).get_params()["k"] for source in sources] == [7] * 5
        assert not file.closed


def test_what_is_neither_path_nor_content_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rrf.model"
    cc.RRF().save(path)
    with path.open(encoding="latin-1") as file, pytest.raises(FormatError, match=r"rrf\.model: it is open as text"):
        cc.load(file)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=r"rrf\.model: it cannot be read: .*closed file"):
        cc.load(file)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="the bytes given: not a file that Concordant wrote"):
        cc.load(b"rrf.model")
    with pytest.raises(FormatError, match="the BytesIO given: not a file that Concordant wrote"):
        cc.load(io.BytesIO(b""))
    with pytest.raises(FormatError, match="the bytes given: the checksum does not match"):
        cc.load(path.read_bytes()[:-1])
    for wrong in (3, None, ["rrf.model"]):
        with pytest.raises(ParameterError, match="must be a path, bytes, or a file open for reading in binary"):
            cc.load(wrong)  # type: ignore[arg-type]

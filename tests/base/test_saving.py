"""A saved method comes back whole, a damaged one is refused, and nothing in a file is ever executed."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.base import registry
from concordant.base.saving import FORMAT_VERSION, load
from concordant.errors import FormatError, ParameterError

P = cc.from_lists({"x": ["a", "b"], "y": ["b", "c"]})


class Learner(cc.Aggregator):
    """Keeps all sorts of state."""

    name = "toy-learner"
    tags = cc.Tags(accepts=frozenset({"rank"}))

    def __init__(self, *, option: Any = None) -> None:
        self.option = option

    def _fit(self, preferences: Any, labels: Any, validation: Any, features: Any) -> None:
        self.array_ = np.arange(6, dtype=np.int32).reshape(2, 3)
        self.turned_ = np.arange(6.0).reshape(2, 3).T
        self.nothing_ = np.zeros((0, 4))
        self.plain_ = {"text": "é", "list": [1, 2.5, None, True], "pair": (1, ("x",)), "number": np.float64(0.1)}
        self.fit_info_.trace.extend([3.0, 1.0])

    def _scores(self, preferences: Any) -> Any:
        return np.arange(preferences.n_slots, dtype=np.float64)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "rrf" in registry.METHODS
    monkeypatch.setitem(registry._classes, Learner.name, Learner)


def test_parameters_state_and_fit_info_come_back(tmp_path: Path) -> None:
    for option in (None, 1, 0.1, "é", True, (1, "x"), [1, [2]], {"a": {"b": 1}}, float("inf")):
        method = Learner(option=option).fit(P)
        method.save(tmp_path / "m")
        again = load(tmp_path / "m")
        assert type(again) is Learner
        assert again.option == option
        assert type(again.option) is type(option)
        for name in ("array_", "turned_", "nothing_"):
            left, right = getattr(method, name), getattr(again, name)
            assert np.array_equal(left, right)
            assert left.dtype == right.dtype
            assert left.shape == right.shape
        assert again.plain_ == method.plain_
        assert again.fit_info_ == method.fit_info_
        assert not hasattr(again, "consensus_")


def test_an_unfitted_method_is_saved_too(tmp_path: Path) -> None:
    cc.RRF(k=20, weights={"x": 2.0}).save(tmp_path / "m")
    again = cc.load(tmp_path / "m")
    assert repr(again) == "RRF(k=20, weights={'x': 2.0})"
    assert not hasattr(again, "fit_info_")


def test_what_cannot_be_saved_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="parameter 'option' cannot be saved: object is neither"):
        Learner(option=object()).fit(P).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def saved(tmp_path: Path) -> bytes:
    Learner(option=3).fit(P).save(tmp_path / "m")
    return (tmp_path / "m").read_bytes()


def test_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    data = saved(tmp_path)
    rng = np.random.default_rng(0)
    want = load(tmp_path / "m")
    refused: list[bool] = []
    for at in rng.choice(len(data), size=300, replace=False).tolist():
        damaged = bytearray(data)
        damaged[at] ^= int(rng.integers(1, 256))
        (tmp_path / "d").write_bytes(bytes(damaged))
        try:
            got = load(tmp_path / "d")
        except FormatError as error:
            refused.append(str(error).startswith(str(tmp_path / "d")))
        else:
            # White space in a header may change without changing what it says.
            assert got.get_params() == want.get_params()
            assert np.array_equal(got.array_, want.array_)  # type: ignore[attr-defined]
            assert got.plain_ == want.plain_  # type: ignore[attr-defined]
    assert len(refused) > 250
    assert all(refused)


def test_a_file_that_ends_early_or_is_something_else_is_refused(tmp_path: Path) -> None:
    data = saved(tmp_path)
    others = [b"", b"\0", data[:7], data[:40], data[:-1], data + b"x", b"PK\3\4", pickle.dumps(cc.RRF()), b"\xff" * 100]
    for content in others:
        (tmp_path / "d").write_bytes(content)
        with pytest.raises(FormatError, match=r"not a method saved by Concordant|the checksum does not match"):
            load(tmp_path / "d")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent")


def rewrite(tmp_path: Path, change: Any) -> Path:
    """Write the saved method again with a changed header whose checksum is right."""
    from safetensors.numpy import load as arrays_of
    from safetensors.numpy import save as to_bytes

    from concordant.base import saving

    data = saved(tmp_path)
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["concordant"])
    arrays = arrays_of(data)
    del header["checksum"]
    change(header)
    text = json.dumps(header | {"checksum": saving._digest(header, arrays)})
    (tmp_path / "r").write_bytes(to_bytes(arrays, metadata={"concordant": text}))
    return tmp_path / "r"


def test_a_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = rewrite(tmp_path, lambda header: header.update(format_version=FORMAT_VERSION + 1))
    with pytest.raises(FormatError, match=r"written by a newer Concordant \(format 2\)\. Upgrade to read it"):
        load(path)


def test_a_method_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no method 'gone'"):
        load(rewrite(tmp_path, lambda header: header.update(method="gone")))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["params"].update(surprise=1),
        lambda header: header.update(params=[1]),
        lambda header: header["state"].update(fit=1),
        lambda header: header["state"].update(__class__="x"),
        lambda header: header.update(state=3),
        lambda header: header.update(fit_info={"nonsense": 1}),
        lambda header: header.update(format_version="one"),
        lambda header: header.update(method=7),
        lambda header: header.pop("params"),
    ],
)
def test_a_header_with_other_contents_is_refused(tmp_path: Path, change: Any) -> None:
    with pytest.raises((FormatError, ParameterError)):
        load(rewrite(tmp_path, change))


def test_an_old_file_survives_a_failed_save(tmp_path: Path) -> None:
    before = saved(tmp_path)
    with pytest.raises(ParameterError):
        Learner(option=object()).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]

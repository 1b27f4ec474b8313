"""Methods on disk: one safetensors file with a JSON header. Data only; loading executes nothing from the file.

The header names the format's version, the class, its parameters and plain state, and carries a checksum over all of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from concordant.base.contract import FitInfo
from concordant.base.registry import METHODS
from concordant.errors import FormatError, ParameterError, listing
from concordant.io._files import atomic_write

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator

__all__ = ["load", "save"]

FORMAT_VERSION = 1
_HEADER = "concordant"


def _plain(value: Any, where: str) -> Any:
    """Return a JSON value for a parameter or a piece of state, or raise naming it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return (
            {"__tuple__": [_plain(v, where) for v in value]}
            if isinstance(value, tuple)
            else [_plain(v, where) for v in value]
        )
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {k: _plain(v, where) for k, v in value.items()}
    raise ParameterError(
        f"{where} cannot be saved: {type(value).__name__} is neither a number, text, list nor mapping of these."
    )


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(v) for v in value]
    if isinstance(value, dict):
        if set(value) == {"__tuple__"}:
            return tuple(_restore(v) for v in value["__tuple__"])
        return {k: _restore(v) for k, v in value.items()}
    return value


def _digest(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    h = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        h.update(name.encode() + str(arrays[name].dtype).encode() + str(arrays[name].shape).encode())
        h.update(np.ascontiguousarray(arrays[name]).tobytes())
    return h.hexdigest()


def save(method: Aggregator, path: str | os.PathLike[str]) -> None:
    """Write a method to `path`, whole or not at all."""
    from safetensors.numpy import save as to_bytes

    arrays: dict[str, NDArray[Any]] = {}
    state: dict[str, Any] = {}
    for name, value in method.__dict__.items():
        if not name.endswith("_") or name in ("consensus_", "fit_info_"):
            continue
        if isinstance(value, np.ndarray):
            arrays[name] = np.ascontiguousarray(value)
        else:
            state[name] = _plain(value, f"{type(method).__name__}.{name}")
    info = getattr(method, "fit_info_", None)
    header = {
        "format_version": FORMAT_VERSION,
        "method": method.name,
        "params": {n: _plain(v, f"parameter {n!r}") for n, v in method.get_params().items()},
        "state": state,
        "fit_info": None if info is None else asdict(info),
    }
    text = json.dumps(header | {"checksum": _digest(header, arrays)})
    data = to_bytes(arrays, metadata={_HEADER: text})
    with atomic_write(path) as file:
        file.write(data)


def load(path: str | os.PathLike[str]) -> Aggregator:
    """Return the method saved at `path`; a damaged or foreign file is a FormatError and executes nothing.

    Examples
    --------
    >>> import concordant as cc, tempfile, os
    >>> file = os.path.join(tempfile.mkdtemp(), "rrf.safetensors")
    >>> cc.RRF(k=20).save(file)
    >>> cc.load(file)
    RRF(k=20)
    """
    data = Path(path).read_bytes()
    header, arrays = _parse(data, path)
    checksum = header.pop("checksum", None)
    if checksum != _digest(header, arrays):
        raise FormatError(f"{path}: the checksum does not match; the file is damaged. Save the method again.")
    if header["format_version"] > FORMAT_VERSION:
        raise FormatError(
            f"{path}: written by a newer Concordant (format {header['format_version']}). Upgrade to read it."
        )
    cls = METHODS[header["method"]]
    params, state, info = header["params"], header["state"], header["fit_info"]
    # The checksum keeps out accidents, not somebody who computes it anew: names outside these are nobody's state.
    strange = [n for n in params if n not in cls.param_names()]
    strange += [n for n in (*state, *arrays) if not n.endswith("_") or n.startswith("_")]
    strange += [n for n in info or () if n not in FitInfo.__dataclass_fields__]
    if strange:
        raise FormatError(f"{path}: {cls.__name__} knows nothing of {listing(strange)}. Save the method again.")
    method = cls(**_restore(params))
    for name, value in state.items():
        setattr(method, name, _restore(value))
    for name, array in arrays.items():
        setattr(method, name, array)
    if info is not None:
        method.fit_info_ = FitInfo(**info)
    return method


def _parse(data: bytes, path: object) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    foreign = FormatError(f"{path}: not a method saved by Concordant.")
    try:
        arrays = from_bytes(data)
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_HEADER])
    except (SafetensorError, KeyError, ValueError, struct.error, TypeError) as error:
        raise foreign from error
    kinds = {"format_version": int, "method": str, "params": dict, "state": dict, "fit_info": dict | None}
    if not isinstance(header, dict) or not all(n in header and isinstance(header[n], k) for n, k in kinds.items()):
        raise foreign
    return header, arrays

"""Saves and loads methods: one safetensors file with a JSON header. Loading executes nothing from the file.

Models and checkpoints share one file format: arrays as tensors, everything else as JSON, and a checksum over every
byte. The checksum detects damage. Against manipulated files every name and value of a model is checked before it is
used. A checkpoint is used only by the fit that wrote it.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import UnionType
from typing import IO, TYPE_CHECKING, Any, NoReturn, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from concordant._version import __version__
from concordant.base.contract import Aggregator, FitInfo
from concordant.base.params import Within, check_params
from concordant.base.registry import METHODS
from concordant.errors import ConcordantError, DataError, FormatError, ParameterError, listing, shorten
from concordant.io._files import atomic_write

if TYPE_CHECKING:
    from concordant.io._files import PathLike

__all__ = ["FORMAT", "check_path", "load", "read_arrays", "save", "write_arrays"]

# Older readers may ignore what a newer minor format adds, and must not read a newer major format.
FORMAT = (1, 0)
_KEY = "concordant"
_BLANK_CHECKSUM = "0" * hashlib.sha256().digest_size * 2
# The header is JSON text inside the JSON of safetensors, so its quotes are escaped; the checksum comes first.
_CHECKSUM_MARK = b'{\\"checksum\\": \\"'
# Safetensors reads no longer headers.
_MAX_HEADER_BYTES = 100_000_000
_MAX_DEPTH = 32
_MAX_INTEGER = 10**300
_DTYPES = frozenset(
    {
        "bool",
        *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
        "float16",
        "float32",
        "float64",
    }
)
_TUPLE, _NOT_FINITE_TAG, _MAPPING, _ARRAY = "__tuple__", "__number__", "__mapping__", "__array__"
_METHOD = "__method__"
_TAGS = frozenset({_TUPLE, _NOT_FINITE_TAG, _MAPPING, _ARRAY, _METHOD})
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_PACKED = (".gz", ".xz", ".bz2", ".zst")
_HOLDS = {
    "model": "a saved method, to be read by concordant.load",
    "checkpoint": "a checkpoint of an unfinished fit",
    "leaderboard": "a leaderboard, to be read by Leaderboard.load",
}
# Stored under their own names in the header, or not at all.
_NOT_LEARNED = ("consensus_", "experts_", "fit_info_")

Arrays = dict[str, NDArray[Any]]
# A saved file: its path, its content, or an open file.
Source = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]


class _InvalidFileError(ValueError):
    """What is wrong with a file; `_named` adds the name of the file."""


@contextmanager
def _named(source: Source) -> Iterator[None]:
    name = _name_of(source)
    try:
        yield
    except _InvalidFileError as error:
        raise FormatError(f"{name}: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {name!r}: {error.strerror or error}.") from error


def _name_of(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "the bytes given"
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else f"the {type(source).__name__} given"
    raise ParameterError.invalid("path", "load", "a path, bytes, or a file open for reading in binary", source)


@contextmanager
def _opened(source: Source) -> Iterator[IO[bytes]]:
    """Open a source for reading; a file that was open before stays open."""
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            yield file
    elif isinstance(source, (bytes, bytearray, memoryview)):
        yield io.BytesIO(source)
    else:
        try:
            empty = source.read(0)
        except ValueError as error:
            raise _InvalidFileError(f"it cannot be read: {error}.") from error
        if not isinstance(empty, bytes):
            raise _InvalidFileError("it is open as text. Open it in binary: open(path, 'rb').")
        yield source


def check_path(path: PathLike) -> None:
    """Raise ParameterError for a file name that asks for compression; to be called before a long fit."""
    if os.fspath(path).lower().endswith(_PACKED):
        raise ParameterError(f"cannot write {os.fspath(path)!r}: models are not compressed. Choose another ending.")


def write_arrays(path: PathLike, kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a header of plain values to one checked file, whole or not at all.

    Parameters
    ----------
    path : str or path
        The file. An ending of a compressed format, such as .gz, is an error.
    kind : str
        What the file holds, "model" or "checkpoint"; `read_arrays` checks it.
    header : mapping
        Other values: None, numbers, texts, lists, tuples, and mappings from text to these. The kind and the versions
        of the format and of Concordant are added.
    arrays : mapping from str to array
        Arrays of numbers or booleans, of any shape.

    Raises
    ------
    ParameterError
        If a value cannot be stored, by name. Nothing is written then.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "state")
    >>> write_arrays(file, "checkpoint", {"number": 3}, {"w": np.arange(2.0)})
    >>> header, arrays = read_arrays(file, "checkpoint")
    >>> header["number"], arrays["w"].tolist()
    (3, [0.0, 1.0])
    """
    ready = {name: _dense(array, name) for name, array in arrays.items()}
    _write(path, kind, {n: _plain(v, repr(n), None) for n, v in header.items()}, ready)


def read_arrays(path: PathLike, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file written by `write_arrays`, after checking every byte.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        What it must hold: "model" or "checkpoint".

    Raises
    ------
    FormatError
        If the file is damaged, not written by Concordant, of another kind or of a newer major format.
    DataError
        When it cannot be read at all.
    """
    with _named(path):
        header, arrays = _read(path, kind)
        return {name: _restore(value, {}) for name, value in header.items()}, arrays


def save(method: Aggregator, path: PathLike) -> None:
    """Write a method, its parameters and what it learned to `path`, whole or not at all."""
    arrays = Arrays()
    _write(path, "model", _header(method, type(method).__name__, arrays), arrays)


def _header(method: Aggregator, where: str, arrays: Arrays, depth: int = 0) -> dict[str, Any]:
    """Return a method in JSON's own terms; its arrays go to `arrays`, under names that follow `where`."""
    owner = type(method).__name__
    learned = {n: v for n, v in method.__dict__.items() if n.endswith("_") and n not in _NOT_LEARNED}
    strange = [n for n in learned if not _may_be_learned(type(method), n)]
    if strange:
        raise ParameterError(f"{owner} cannot be saved: {listing(strange)} are no names of learned attributes.")
    info = getattr(method, "fit_info_", None)
    return {
        "method": method.name,
        "class": owner,
        "params": {n: _plain(v, f"parameter {n!r}", None, depth) for n, v in method.get_params().items()},
        "experts": _plain(getattr(method, "experts_", None), f"{owner}.experts_", None, depth),
        "state": {n: _plain(v, f"{where}.{n}", arrays, depth) for n, v in learned.items()},
        "fit_info": None
        if info is None
        else {n: _plain(v, f"fit_info_.{n}", None, depth) for n, v in info.to_dict().items()},
    }


def load(path: Source) -> Aggregator:
    """Return the method saved at `path`. A damaged, foreign or manipulated file raises FormatError; no code is run.

    Parameters that an older file does not have take their defaults. Additions of a newer minor format are ignored.

    Parameters
    ----------
    path : str, path, bytes, or file
        A file that `save` wrote: its path, its content, or a file open for reading in binary.

    Raises
    ------
    FormatError
        Names the file and what is wrong with it.
    DataError
        When the file cannot be read at all.

    Examples
    --------
    >>> import concordant as cc, tempfile, os
    >>> file = os.path.join(tempfile.mkdtemp(), "rrf.model")
    >>> cc.RRF(k=20).save(file)
    >>> cc.load(file)
    RRF(k=20)
    """
    with _named(path):
        header, arrays = _read(path, "model")
        method = _method(header, arrays)
        if arrays:
            raise _InvalidFileError(f"arrays that belong to nothing: {listing([shorten(n, 40) for n in arrays])}.")
        return method


def _plain(value: Any, where: str, arrays: Arrays | None, depth: int = 0) -> Any:
    """Return a value in JSON's own terms; arrays go to `arrays` and leave their name behind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and abs(value) < _MAX_INTEGER:
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_NOT_FINITE_TAG: str(float(value))}
    if isinstance(value, np.ndarray) and arrays is not None:
        name = where.partition(".")[2]
        arrays[name] = _dense(value, where)
        return {_ARRAY: name}
    if depth < _MAX_DEPTH:
        if isinstance(value, Aggregator):
            # A method among the parameters is one to be fitted: what it may have learned before is no parameter.
            kept = type(value)(**value.get_params()) if arrays is None else value
            return {_METHOD: _header(kept, where, Arrays() if arrays is None else arrays, depth + 1)}
        if isinstance(value, list):
            return [_plain(v, f"{where}.{n}", arrays, depth + 1) for n, v in enumerate(value)]
        if isinstance(value, tuple):
            return {_TUPLE: [_plain(v, f"{where}.{n}", arrays, depth + 1) for n, v in enumerate(value)]}
        if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
            out = {k: _plain(v, f"{where}.{k}", arrays, depth + 1) for k, v in value.items()}
            return out if _TAGS.isdisjoint(out) else {_MAPPING: list(map(list, out.items()))}
    raise ParameterError(
        f"{where} cannot be saved: {type(value).__name__} is neither a number, text, method, list nor mapping of these."
    )


def _restore(value: Any, arrays: Arrays, depth: int = 0) -> Any:
    """Return what `_plain` was given. `arrays` loses those that are used, so that none is used twice or left over."""
    # Marks and lists of pairs take up to two levels of JSON for one of Python.
    if depth > 3 * _MAX_DEPTH:
        raise _InvalidFileError("values are nested too deeply for a file that Concordant wrote.")
    if isinstance(value, list):
        return [_restore(v, arrays, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    if _TAGS.isdisjoint(value):
        return {k: _restore(v, arrays, depth + 1) for k, v in value.items()}
    if len(value) == 1:
        ((mark, inner),) = value.items()
        if mark == _TUPLE and isinstance(inner, list):
            return tuple(_restore(v, arrays, depth + 1) for v in inner)
        if mark == _NOT_FINITE_TAG and isinstance(inner, str) and inner in _NOT_FINITE:
            return _NOT_FINITE[inner]
        if mark == _ARRAY and isinstance(inner, str) and inner in arrays:
            return arrays.pop(inner)
        if mark == _METHOD and isinstance(inner, dict):
            return _method(inner, arrays, depth + 1)
        if mark == _MAPPING and isinstance(inner, list) and all(_is_entry(pair) for pair in inner):
            return _object([(k, _restore(v, arrays, depth + 1)) for k, v in inner])
    raise _InvalidFileError(f"{shorten(repr(value), 60)} stands for nothing that Concordant writes.")


def _is_entry(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)


def _dense(array: NDArray[Any], where: str) -> NDArray[Any]:
    out = np.asarray(array)
    if out.dtype.name not in _DTYPES:
        raise ParameterError(f"{where} cannot be saved: an array of {out.dtype.name}, not of numbers or truth values.")
    # np.ascontiguousarray would turn a single number into an array of one.
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)


def _write(path: PathLike, kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    from safetensors.numpy import save as to_bytes

    check_path(path)
    first = {"checksum": _BLANK_CHECKSUM, "format": ".".join(map(str, FORMAT)), "version": __version__, "kind": kind}
    data = bytearray(to_bytes(arrays, metadata={_KEY: json.dumps(first | header | first, allow_nan=False)}))
    if int.from_bytes(data[:8], "little") > _MAX_HEADER_BYTES:
        raise ParameterError(f"cannot write {os.fspath(path)!r}: what is not in arrays takes over 100 MB.")
    at = data.index(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
    data[at : at + len(_BLANK_CHECKSUM)] = hashlib.sha256(data).hexdigest().encode()
    with atomic_write(path) as file:
        file.write(data)


def _read(path: Source, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header as JSON values and the arrays, after the checks that all kinds of file share."""
    data = _checked_bytes(path)
    header, arrays = _parse(data)
    major, _, minor = str(header.get("format")).partition(".")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        raise _InvalidFileError(
            f"the version of its format is {shorten(repr(header.get('format')), 40)}, not such as '1.0'."
        )
    if int(major[:9]) != FORMAT[0]:
        raise _InvalidFileError(
            f"written by Concordant {shorten(str(header.get('version')), 40)} in format {shorten(major, 9)}; "
            f"this is Concordant {__version__}, which reads format {FORMAT[0]}. Upgrade Concordant to read it."
        )
    found = header.get("kind")
    if found != kind:
        held = _HOLDS.get(found, "something else") if isinstance(found, str) else "something else"
        raise _InvalidFileError(f"holds {held}, not {_HOLDS[kind].partition(',')[0]}.")
    return header, arrays


def _checked_bytes(path: Source) -> bytes:
    """Return the bytes of a file with the checksum blanked; a foreign file is refused before all of it is read."""
    foreign = _InvalidFileError("not a file that Concordant wrote.")
    with _opened(path) as file:
        status = os.fstat(file.fileno()) if isinstance(path, (str, os.PathLike)) else None
        lead = file.read(8)
        size = int.from_bytes(lead, "little")
        if len(lead) < 8 or not 2 <= size <= _MAX_HEADER_BYTES:
            raise foreign
        if status is not None and stat.S_ISREG(status.st_mode) and size > status.st_size - 8:
            raise _InvalidFileError("cut short, or not a file that Concordant wrote.")
        head = file.read(size)
        at = head.find(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
        if not head.startswith(b"{") or at < len(_CHECKSUM_MARK):
            raise foreign
        given = head[at : at + len(_BLANK_CHECKSUM)]
        data = b"".join([lead, head[:at], _BLANK_CHECKSUM.encode(), head[at + len(_BLANK_CHECKSUM) :], file.read()])
    if hashlib.sha256(data).hexdigest().encode() != given:
        raise _InvalidFileError(
            "the checksum does not match: the file is damaged or cut short. Copy it again, or save again."
        )
    return data


def _parse(data: bytes) -> tuple[dict[str, Any], Arrays]:
    from safetensors import SafetensorError, deserialize

    try:
        views = deserialize(data)  # type: ignore[no-untyped-call]
        size = int.from_bytes(data[:8], "little")
        outer = _json(data[8 : 8 + size].decode())
        arrays = {name: _array(view) for name, view in views}
        if len(arrays) != len(views):
            raise _InvalidFileError("two arrays have one name.")
        header = _json(outer["__metadata__"][_KEY])
    except (SafetensorError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise _InvalidFileError(f"not a file that Concordant wrote ({shorten(str(error))}).") from error
    if not isinstance(header, dict):
        raise _InvalidFileError("its header is no JSON object.")
    return header, arrays


def _array(view: Mapping[str, Any]) -> NDArray[Any]:
    name = {"F": "float", "I": "int", "U": "uint", "B": "bool"}.get(view["dtype"][0], "")
    dtype = "bool" if view["dtype"] == "BOOL" else name + view["dtype"][1:]
    if dtype not in _DTYPES:
        raise _InvalidFileError(f"an array of {view['dtype']}, which Concordant never writes.")
    if math.prod(n or 1 for n in view["shape"]) > np.iinfo(np.intp).max // 16:
        raise _InvalidFileError(f"an array of shape {view['shape']}, which no memory holds.")
    # Each array has a buffer of its own and is writable; kernels are compiled for writable arrays.
    found = np.frombuffer(view["data"], dtype=np.dtype(dtype).newbyteorder("<"))
    return found.astype(dtype, copy=False).reshape(view["shape"])


def _json(text: str) -> Any:
    """Return the value of strict JSON: no NaN, no number out of range, no name twice."""
    try:
        return json.loads(
            text, parse_constant=_no_number, parse_float=_float, parse_int=_integer, object_pairs_hook=_object
        )
    except RecursionError:
        raise _InvalidFileError("values are nested too deeply for a file that Concordant wrote.") from None
    except json.JSONDecodeError as error:
        raise _InvalidFileError(f"its header is not JSON ({error}).") from error


def _no_number(text: str) -> NoReturn:
    raise _InvalidFileError(f"{text} is no number in JSON.")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(shorten(text, 40))


def _integer(text: str) -> int:
    return int(text) if len(text) <= 301 else _no_number(shorten(text, 40))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _InvalidFileError(f"{shorten(repr(twice), 60)} is there twice.")
    return out


def _method(header: dict[str, Any], arrays: Arrays, depth: int = 0) -> Aggregator:
    """Return the method that a header describes, after checking every name and value; it takes its arrays out."""
    name, params, state = (_part(header, n, k) for n, k in (("method", str), ("params", dict), ("state", dict)))
    if name not in METHODS:
        raise _InvalidFileError(
            f"its method {shorten(repr(name), 60)} is not known to this Concordant ({__version__}). "
            "A method of your own must be registered before it is loaded."
        )
    cls = METHODS[name]
    if header.get("class", cls.__name__) != cls.__name__:
        raise _InvalidFileError(f"written by a class {shorten(repr(header['class']), 60)}; {name!r} is {cls.__name__}.")
    method = cls(**_parameters(cls, {n: _restore(v, {}, depth) for n, v in params.items()}))
    try:
        check_params(cls.__name__, method.__dict__, cls.constraints)
    except ConcordantError as error:
        raise _InvalidFileError(str(error)) from error
    strange = [n for n in state if not _may_be_learned(cls, n)]
    if strange:
        raise _InvalidFileError(f"{cls.__name__} learns no {listing([shorten(n, 40) for n in strange])}.")
    for attribute, value in state.items():
        setattr(method, attribute, _restore(value, arrays, depth))
    experts = header.get("experts")
    if experts is not None:
        if not _has_type(experts, list[str]) or len(set(experts)) < len(experts):
            raise _InvalidFileError("its experts are not a list of different ids.")
        method.experts_ = experts
    _check_types(method)
    _check_experts(method)
    try:
        method._check_state()
    except ConcordantError as error:
        raise _InvalidFileError(str(error)) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _InvalidFileError(f"what it learned does not fit together ({type(error).__name__}: {error}).") from error
    info = header.get("fit_info")
    if info is not None:
        method.fit_info_ = _fit_info(info)
    elif state:
        raise _InvalidFileError("it has learned something, and its header lacks 'fit_info'.")
    return method


def _part(header: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(header.get(name), kind):
        raise _InvalidFileError(f"its header lacks {name!r}, or it is of the wrong type.")
    return header[name]


def _parameters(cls: type[Aggregator], params: dict[str, Any]) -> dict[str, Any]:
    unknown = [n for n in params if n not in cls.param_names()]
    if unknown:
        raise _InvalidFileError(
            f"{cls.__name__} has no parameter {listing([shorten(n, 40) for n in unknown])}. "
            f"It has: {', '.join(cls.param_names()) or 'none'}. A newer Concordant may know it."
        )
    signature = inspect.signature(cls.__init__).parameters
    missing = [n for n in cls.param_names() if n not in params and signature[n].default is inspect.Parameter.empty]
    if missing:
        raise _InvalidFileError(f"the parameters {listing(missing)} of {cls.__name__} are missing.")
    return params


def _may_be_learned(cls: type[Aggregator], name: str) -> bool:
    """Return whether a name is one of a learned attribute: no method, property, dunder or private name."""
    mine = name.isidentifier() and name.endswith("_") and not name.startswith("_") and name not in _NOT_LEARNED
    return mine and not hasattr(cls, name)


def _check_types(method: Aggregator) -> None:
    """Raise if a learned attribute has not the type, or is not within the bounds, that the class declares."""
    try:
        hints = get_type_hints(type(method), include_extras=True)
    except NameError:
        # The class of another package names types that are only imported for type checking.
        return
    declared = {n: h for n, h in hints.items() if n.endswith("_")}
    state = method.__dict__
    wrong = [n for n, v in state.items() if n in declared and not _has_outer_type(v, _bare_type(declared[n]))]
    if wrong:
        raise _InvalidFileError(f"what it learned is of the wrong type: {listing(wrong)}.")
    for name, hint in declared.items():
        for bounds in getattr(hint, "__metadata__", ()):
            if name in state and isinstance(bounds, Within) and not bounds.holds(state[name]):
                raise _InvalidFileError(
                    f"what it learned is out of range: {name!r} holds a number that is not finite, or not between "
                    f"{bounds.least:g} and {bounds.most:g}."
                )
        if name in state and _bare_type(hint) is float:
            state[name] = float(state[name])


def _bare_type(hint: Any) -> Any:
    """Return a declared type without its `Annotated` metadata."""
    return hint.__origin__ if hasattr(hint, "__metadata__") else hint


def _has_outer_type(value: Any, hint: Any) -> bool:
    """Return whether a value has the outer type that is declared; the contents are not checked."""
    outer = get_origin(hint) or hint
    if outer is np.ndarray:
        kind = get_args(get_args(hint)[1])[0]
        return isinstance(value, np.ndarray) and np.issubdtype(value.dtype, kind)
    if isinstance(hint, UnionType):
        return any(_has_outer_type(value, h) for h in get_args(hint))
    return isinstance(value, outer) if outer in (list, dict) else _has_type(value, outer)


def _check_experts(method: Aggregator) -> None:
    """Raise if what was learned about experts does not match the number of experts."""
    n = len(method.__dict__.get("experts_", ()))
    trust, weights = method.__dict__.get("adherence_"), method.__dict__.get("weights_")
    if trust is not None and trust.shape != (n,):
        raise _InvalidFileError(f"its adherence is not one number for each of {n} experts.")
    if isinstance(weights, np.ndarray) and weights.shape[:1] != (n,):
        raise _InvalidFileError(f"its weights are not those of {n} experts.")
    details = method.__dict__.get("expert_details_", {})
    # Methods without details do not declare their type, so it is checked here.
    columns = list(details.values()) if isinstance(details, dict) else [None]
    if not all(_is_detail(c, n) for c in columns) or not {"expert", "weight"}.isdisjoint(details):
        raise _InvalidFileError(f"its details of experts are not one entry for each of {n}.")


def _is_detail(column: Any, n: int) -> bool:
    """Return whether a column is an array or a list of n numbers, or a list of n texts."""
    if isinstance(column, np.ndarray):
        return bool(column.shape[:1] == (n,))
    if not isinstance(column, list) or len(column) != n:
        return False
    return all(isinstance(c, str) for c in column) or all(isinstance(c, (int, float)) for c in column)


def _fit_info(found: Any) -> FitInfo:
    hints = get_type_hints(FitInfo)
    if not isinstance(found, dict):
        raise _InvalidFileError("its fit_info is no mapping.")
    known = {n: _restore(v, {}) for n, v in found.items() if n in hints}
    wrong = [n for n, v in known.items() if not _has_type(v, hints[n])]
    if wrong:
        raise _InvalidFileError(f"its fit_info has values of the wrong type: {listing(wrong)}.")
    return FitInfo(**known)


def _has_type(value: Any, hint: Any) -> bool:
    """Return whether a value has a type, which must be as simple as those of `FitInfo`."""
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(_has_type(value, h) for h in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_has_type(v, get_args(hint)[0]) for v in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_has_type(v, get_args(hint)[1]) for v in value.values())
    if hint is None or hint is type(None):
        return value is None
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)

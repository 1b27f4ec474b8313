"""Hostile models: saved methods and boards with damaged bytes, or with one value replaced and the checksum made right.

A file whose checksum is wrong must be refused, or be the same model. One whose checksum is right must be refused at
`load`, by an error that names the file, or predict finite scores in time.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.attack.files import LONGEST_MESSAGE
from tests.attack.watch import Audit, InTurn

import concordant as cc
from concordant.base import saving
from concordant.errors import ConcordantError, DataError, FormatError

SEED = 17
# Parameters under which a method keeps more than by default.
LEARNING: dict[str, dict[str, Any]] = {
    "rrf, learned": {"k": "learned", "weights": "learned"},
    "weighted-sum, learned": {"weights": "learned"},
    "bradley-terry, reliability": {"reliability": True},
    "plackett-luce, adherence": {"adherence": True},
    "mpm, adherence": {"adherence": "learned"},
    "mpm, joint": {"adherence": "learned", "variances": "joint"},
    "cps, supervised": {"adherence": "supervised"},
    "bradley-terry, sides": {"side_effect": True, "ties": "davidson"},
    "plackett-luce, ties": {"ties": "davidson-luce"},
    "mixture, camps": {"components": 2},
    "mixture, mallows": {"of": "mallows", "components": 2},
    "blend, learned fusion": {"members": [cc.RRF(weights="learned"), cc.WeightedSum(weights="learned")]},
    "extended-mallows, prior": {"k": 2, "missing": "below", "ranking_prior": {"e1": -0.5}},
}
# Boards that are kept in files of their own, and their settings.
BOARDS: dict[str, dict[str, Any]] = {
    "leaderboard": {},
    "leaderboard, reliability": {"reliability": True},
    "leaderboard, half-life": {"half_life": 40.0, "side_effect": True, "anchor": "i1"},
}
# What a learned number may be replaced by.
NUMBERS = (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e300, -1.0, 0.0, 1e-300, 2.0**53, 1e9, -0.5)
DTYPES = {"F64": 8, "F32": 4, "F16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1, "U64": 8}


def names() -> list[str]:
    """Return the names of all models: every method at its defaults, some that learn more, and boards."""
    return [*cc.METHODS, *LEARNING, *BOARDS]


def votes_of(name: str) -> Any:
    """Return the votes that a model is fitted to and that it is to predict."""
    if name in BOARDS:
        return _votes_in_time()
    alone = cc.METHODS[name.partition(",")[0]]().tags.accepts == {"comparisons"}
    if alone or name in ("bradley-terry, reliability", "bradley-terry, sides"):
        return cc.synthetic.bradley_terry(5, 60, n_experts=4, ties=0.2, random_state=1).comparisons
    votes = cc.synthetic.meta_search(6, n_items=(4, 6), random_state=3).preferences
    if name == "plackett-luce, ties":
        frame = votes.to_frame()
        ids = (frame[column] for column in ("instance", "expert", "item"))
        return cc.Preferences(*ids, [float(row % 3 + 1) for row in range(len(frame))], kind="rank")
    return votes


def _votes_in_time() -> cc.Comparisons:
    """Return votes of two instances with every column that comparisons may have."""
    frame = cc.synthetic.bradley_terry(5, 60, n_experts=4, ties=0.2, random_state=1).comparisons.to_frame()
    n = len(frame)
    return cc.Comparisons(
        ["qp"[row % 5 == 0] for row in range(n)],
        *(frame[name] for name in ("expert", "left", "right", "n_left", "n_right", "n_ties")),
        time=range(n),
        category=[("code", "chat", None)[row % 3] for row in range(n)],
        covariates={"length": [row % 4 - 1.5 for row in range(n)]},
        n_both_bad=[float(row % 7 == 0) for row in range(n)],
    )


class Board:
    """A board from its file, which is to take more votes."""

    def __init__(self, source: Path) -> None:
        self._board = cc.Leaderboard.load(source)

    def predict(self, votes: cc.Comparisons) -> cc.Consensus:
        """Return the board after these votes, with intervals."""
        self._board.update(votes)
        return self._board.board()


def loader(name: str) -> Callable[[Path], Any]:
    """Return what loads the files of a model or board."""
    return Board if name in BOARDS else cc.load


def fitted(name: str, *, learning: bool = True) -> Any:
    """Return a fitted method, at its defaults or so that it learns more, or a board."""
    if name in BOARDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cc.Leaderboard(cc.BradleyTerry(**BOARDS[name]), votes_of(name))
    method = name.partition(",")[0]
    few: dict[str, Any] = {n: 3 for n in ("passes", "trees") if n in cc.METHODS[method].param_names()}
    if method == "blend":
        few = {"members": ["listwise-linear", "borda"]}
    labels = cc.synthetic.meta_search(6, n_items=(4, 6), random_state=3).labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = LEARNING.get(name, {}) if learning else {}
        return cc.METHODS[method](**few | more).fit(votes_of(name), labels)


# Files as parts.


def signed(data: bytes) -> bytes:
    """Return the bytes with the checksum that they should have, where there is still a place for it."""
    mark, blank = saving._CHECKSUM_MARK, saving._BLANK_CHECKSUM.encode()
    at = data.find(mark) + len(mark)
    if at < len(mark) or at + len(blank) > len(data):
        return data
    plain = data[:at] + blank + data[at + len(blank) :]
    return data[:at] + hashlib.sha256(plain).hexdigest().encode() + data[at + len(blank) :]


Tensor = tuple[str, list[int], bytes]


def taken_apart(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the header of a model and its arrays, each as dtype, shape and bytes."""
    size = struct.unpack("<Q", data[:8])[0]
    outer, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    header = json.loads(outer.pop("__metadata__")["concordant"])
    arrays = {n: (a["dtype"], a["shape"], body[slice(*a["data_offsets"])]) for n, a in outer.items()}
    return header, arrays


def put_together(header: dict[str, Any], arrays: dict[str, Tensor]) -> bytes:
    """Return a file with this header and these arrays, whatever they are, and the right checksum."""
    text = json.dumps({"checksum": saving._BLANK_CHECKSUM} | header)
    outer: dict[str, Any] = {"__metadata__": {"concordant": text}}
    body = b""
    for name, (dtype, shape, data) in arrays.items():
        outer[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(outer).encode()
    head += b" " * (-len(head) % 8)
    return signed(struct.pack("<Q", len(head)) + head + body)


# Damage.


def mutated(data: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return what was done to the bytes, and the bytes; they always differ from the original."""
    while True:
        kind = chance.choice(["bit", "byte", "bytes", "cut", "inserted", "removed", "repeated", "zeroed", "swapped"])
        # Half of the accidents happen to the header, which is what a reader has to understand.
        end = len(data) if chance.random() < 0.5 else 8 + struct.unpack("<Q", data[:8])[0]
        at, to = sorted(chance.randrange(end) for _ in range(2))
        short = min(to, at + 64)
        body = bytearray(data)
        match kind:
            case "bit":
                body[at] ^= 1 << chance.randrange(8)
            case "byte":
                body[at] = chance.randrange(256)
            case "bytes":
                for _ in range(chance.randint(2, 8)):
                    body[chance.randrange(end)] = chance.randrange(256)
            case "cut":
                del body[at:]
            case "inserted":
                body[at:at] = chance.randbytes(chance.randint(1, 32))
            case "removed":
                del body[at:short]
            case "repeated":
                body[short:short] = body[at:short]
            case "zeroed":
                body[at:short] = bytes(short - at)
            case _:
                body[at], body[to] = body[to], body[at]
        if bytes(body) != data:
            return kind, bytes(body)


def _deep(depth: int) -> Any:
    out: Any = 1
    for _ in range(depth):
        out = [out]
    return out


def _values(chance: random.Random) -> list[Callable[[Any], Any]]:
    """Return what a value of the header may be replaced by."""
    plain: list[Any] = [None, True, 0, 1, -1, 7, 2**31, 2**63, 10**18, 10**299, 1e308, -1e308, 1e-308, -0.5, 0.0]
    plain += ["", "text", "nan", "\ud800", "\x1b[2J", "../../x", "__class__", "learned", "error"]
    plain += [{"__number__": word} for word in ("nan", "inf", "-inf", "other")]
    plain += [math.nan, math.inf, [], {}, [[]], [1, [2]], [[1.0, 2.0], [3.0]], {"a": {"b": []}}, ["x"] * 3]
    plain += [{"__tuple__": []}, {"__tuple__": [1, 2]}, {"__mapping__": [["a", 1]]}, {"__array__": "weights_"}]
    plain += [{"__array__": "adherence_"}, {"__unknown__": 1}, _deep(40), _deep(90), _deep(300)]
    plain += [{f"k{n}": n for n in range(16_000)}, [0] * 16_000, "x" * 100_000, {"x": math.inf}, [math.nan] * 3]
    changes: list[Callable[[Any], Any]] = [lambda _, v=value: v for value in plain]
    if chance.random() < 0.5:
        # What keeps the form: shorter, longer, turned, a number of another size.
        changes = [
            lambda v: v[:-1] if isinstance(v, (list, str)) else v,
            lambda v: v + v if isinstance(v, (list, str)) else v,
            lambda v: v[::-1] if isinstance(v, (list, str)) else v,
            lambda v: [*v, *v[:1]] if isinstance(v, list) else v,
            lambda v: dict(list(v.items())[:-1]) if isinstance(v, dict) else v,
            lambda v: v | {"new": 1} if isinstance(v, dict) else v,
            lambda v: -v if isinstance(v, (int, float)) else v,
            lambda v: v * 1e300 if isinstance(v, float) else v,
            lambda v: v * 10**9 if isinstance(v, int) else v,
            str,
            lambda v: [v],
        ]
    return changes


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value of a header."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(inner)[:50]:
        yield from _places(part, (*path, key))


def replaced(data: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return what was replaced, and a file with the right checksum in which one value is another one."""
    header, arrays = taken_apart(data)
    header.pop("checksum")
    if arrays and chance.random() < 0.5:
        return _array_replaced(header, arrays, chance)
    places = list(_places(header))
    inside = [p for p in places if p[0] not in ("class", "fit_info", "format", "kind", "method", "version")] or places
    path = chance.choice(inside if chance.random() < 0.8 else places)
    if chance.random() < 0.1:
        path = (chance.choice(list(header)),)
    holder = header
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    match chance.randrange(12):
        case 0:
            del holder[path[-1]]
            said = "gone"
        case 1 if isinstance(holder, dict):
            holder[chance.choice(["new_", "__init__", "_private", "predict", "x" * 5000])] = old
            said = "twice"
        case _:
            holder[path[-1]] = chance.choice(_values(chance))(old)
            said = json.dumps(holder[path[-1]])[:60]
    return f"{'.'.join(map(str, path))[:60]} = {said}", put_together(header, arrays)


def _array_replaced(header: dict[str, Any], arrays: dict[str, Tensor], chance: random.Random) -> tuple[str, bytes]:
    name = chance.choice(list(arrays))
    dtype, shape, data = arrays[name]
    kind = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}.get(dtype)
    how = chance.choice(["one", "one", "one", "some", "all", "dtype", "shape", "gone", "added", "renamed"])
    said = how
    if how in ("one", "some", "all") and kind is not None and data:
        values = np.frombuffer(data, kind).copy()
        number = chance.choice(NUMBERS)
        if not np.issubdtype(kind, np.floating):
            number = chance.choice([0, 1, -1, 2**31 - 1, -(2**31), 7])
        at = {"one": [chance.randrange(len(values))], "all": slice(None)}.get(how, slice(None, None, 2))
        with np.errstate(all="ignore"):
            values[at] = np.array(number).astype(kind)
        arrays[name], said = (dtype, shape, values.tobytes()), f"{how} {number}"
    elif how == "dtype":
        other = chance.choice(list(DTYPES))
        arrays[name], said = (
            (other, [len(data) // DTYPES[other]], data[: len(data) // DTYPES[other] * DTYPES[other]]),
            other,
        )
    elif how == "shape":
        size = math.prod(shape)
        new = chance.choice([[size], [1, *shape], [*shape, 1], shape[::-1], [size, 1], [0], [2, size]])
        width = len(data) // max(size, 1)
        arrays[name] = (dtype, new, (data * 2)[: math.prod(new) * width])
        said = str(new)
    elif how == "gone":
        del arrays[name]
    elif how == "added":
        arrays["more_"] = arrays[name]
    elif how == "renamed":
        arrays[chance.choice(["other_", "__dict__", "../x", ""])] = arrays.pop(name)
    return f"array {name}: {said}", put_together(header, arrays)


# The judge.


def judge_model(
    data: bytes, votes: Any, right: Any, path: Path, audit: Audit, *, same: bool, load: Any = cc.load
) -> dict[str, Any]:
    """Return the record of one file: refused by name, or a model that predicts; `same` asks for the same scores."""
    # File systems write the content of a file to the disk at once if it replaces another content.
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    outcome, findings = "read", []
    score = None
    try:
        with audit, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = "load"
            model = load(path)
            outcome = "predict"
            score = model.predict(votes).score
            outcome = "read"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the point of the judge
        said = f"{type(error).__name__} at {outcome}: {str(error)[:300]}"
        if not isinstance(error, ConcordantError):
            findings.append(("foreign", said))
        elif outcome == "load" and not isinstance(error, (FormatError, DataError)):
            findings.append(("foreign", f"another error of ours: {said}"))
        elif outcome == "load" and path.name not in str(error):
            findings.append(("foreign", f"the file is not named: {said}"))
        elif len(str(error)) > LONGEST_MESSAGE:
            findings.append(("foreign", f"a message of {len(str(error))} characters: {said}"))
        outcome = f"{type(error).__name__} at {outcome}"
    findings += [("executed", seen) for seen in audit.seen]
    if score is not None and not np.isfinite(score).all():
        findings.append(("wrong", f"scores that are not finite: {score[:8].tolist()}"))
    elif score is not None and same and not np.array_equal(score, right):
        findings.append(("wrong", "other scores from a damaged file"))
    return {"outcome": outcome, "findings": findings}


def judge(folder: Path, models: list[str] | None = None) -> InTurn:
    """Return the judge of the hostile files of some models, all by default, taken in turn."""
    kept = folder / "models"
    kept.mkdir(parents=True, exist_ok=True)
    chosen: dict[str, Any] = {}
    for name in models or names():
        # A child that goes on behind a hang need not fit everything again.
        place = kept / name
        if not place.exists():
            fitted(name).save(place)
        votes = votes_of(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen[name] = place.read_bytes(), votes, loader(name)(place).predict(votes).score
        if name in LEARNING:
            # A hostile file may take the parameters away: what is compiled for that is no time of the file.
            fitted(name, learning=False).predict(votes)
    audit = Audit(folder)
    for name, (data, votes, right) in chosen.items():
        found = judge_model(data, votes, right, folder / "hostile.model", audit, same=True, load=loader(name))
        if found["outcome"] != "read" or found["findings"]:
            raise RuntimeError(f"{name}: the model as it was saved is not read: {found}")

    def one(name: str, turn: int) -> dict[str, Any]:
        data, votes, right = chosen[name]
        sort, done, hostile = input_of(name, turn, data)
        same = sort == "bytes"
        record = judge_model(hostile, votes, right, folder / "hostile.model", audit, same=same, load=loader(name))
        findings = [(what, f"{sort}, {done}: {said}") for what, said in record["findings"]]
        return record | {"findings": findings, "counts": {f"{sort}: {record['outcome']}": 1}}

    return InTurn(chosen, one)


def input_of(name: str, turn: int, data: bytes) -> tuple[str, str, bytes]:
    """Return the sort of damage, what it was, and the hostile file made of a saved one."""
    chance = random.Random(f"{SEED}/{name}/{turn}")
    if turn % 4 < 2:
        done, hostile = mutated(data, chance)
        return ("bytes", done, hostile) if turn % 4 == 0 else ("bytes, signed", done, signed(hostile))
    return "a value", *replaced(data, chance)

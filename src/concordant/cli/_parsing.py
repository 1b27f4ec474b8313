"""Texts of options become values: numbers, parameters, weights, columns, sizes. A mistake is a usage error (exit 2)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.base.params import Constraint

__all__ = [
    "check_choice",
    "check_share",
    "make_method",
    "parse_cap",
    "parse_columns",
    "parse_method",
    "parse_params",
    "parse_size",
    "parse_value",
    "parse_weights",
    "split_names",
]

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_value(text: str) -> Any:
    """Return the value a text stands for: a number, true, false, none, JSON, or the text itself.

    Lists become tuples, which is what parameters with several values are.

    >>> parse_value("60"), parse_value("0.5"), parse_value("True"), parse_value("min"), parse_value('{"a": 2}')
    (60, 0.5, True, 'min', {'a': 2})
    >>> parse_value("[1, 5]")
    (1, 5)
    """
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        value = json.loads(word)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def parse_params(pairs: Iterable[str] | None, option: str = "-p") -> dict[str, Any]:
    """Return name -> value for texts such as "k=60"; @FILE takes the value from a JSON or CSV file."""
    out: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise typer.BadParameter(f"expected NAME=VALUE, such as k=60. Got {pair!r} instead.", param_hint=option)
        if name in out:
            raise typer.BadParameter(f"{name!r} is given twice.", param_hint=option)
        out[name] = _value_in_file(value[1:], option) if value[:1] == "@" else parse_value(value)
    return out


# The choice by cross-validation is no method of the registry: what it writes is the method that it chose.
_AUTO = "auto"


def _value_in_file(path: str, option: str) -> Any:
    """Return what a JSON file holds, or the mapping of a CSV file of two columns, whose first row is a header."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            if not path.lower().endswith(".csv"):
                return parse_value(json.dumps(json.load(file)))
            rows = [row for row in csv.reader(file) if row][1:]
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"@{path}: {error}", param_hint=option) from None
    if any(len(row) != 2 for row in rows) or len({row[0] for row in rows}) < len(rows):
        raise typer.BadParameter(
            f"@{path}: expected two columns, such as item,family, with every item once.", param_hint=option
        )
    return {row[0]: row[1] for row in rows}


def make_method(text: str, params: Mapping[str, Any]) -> Aggregator:
    """Return a method from its name, or from a text as in `parse_method`, with parameters as they were written.

    "none" is the word where a parameter knows that word. Methods that others are made of are made too.

    >>> make_method("bradley-terry", {"ties": None}).ties, make_method("crf", {"n_samples": None}).n_samples
    ('none', None)
    """
    from concordant.base.registry import METHODS, create

    name, own = parse_method(text, "--method")
    twice = sorted(own.keys() & params.keys())
    if twice:
        raise typer.BadParameter(f"{twice[0]!r} is given twice: in {text!r} and with -p.", param_hint="--method")
    allowed = METHODS[name].constraints if name in METHODS else {}
    meant = {
        key: "none" if value is None and key in allowed and allowed[key].test("none") else value
        for key, value in (own | dict(params)).items()
    }
    if name == _AUTO and name not in METHODS:
        from concordant.selection import Auto

        return create(Auto, **own | dict(params))
    nested = METHODS[name].made_of if name in METHODS else ""
    if isinstance(meant.get(nested), str):
        meant[nested] = _made(split_names(meant[nested]), allowed[nested])
    return create(name, **meant)


def _made(texts: Sequence[str], constraint: Constraint) -> Any:
    """Return the methods of several texts; the method itself where a parameter holds one."""
    made = tuple(make_method(text, {}) for text in texts)
    return made[0] if len(made) == 1 and constraint.test(made[0]) else made


def parse_method(text: str, option: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a text such as "crf(metric=map)" or "mixture(mpm, components=2)".

    >>> parse_method("rrf(k=10)", "--method"), parse_method("borda", "--method")
    (('rrf', {'k': 10}), ('borda', {}))
    """
    from concordant.base.registry import METHODS

    match = re.fullmatch(r"([^()\s]+)\s*(?:\((.*)\))?", text.strip(), re.DOTALL)
    if match is None:
        raise typer.BadParameter(f"expected a name or name(param=value). Got {text!r} instead.", param_hint=option)
    name, parts = match[1], split_names(match[2] or "")
    methods = [part for part in parts if not re.match(r"[\w-]+\s*=", part)]
    params = parse_params([part for part in parts if part not in methods], option)
    if not methods:
        return name, params
    nested = METHODS[name].made_of if name in METHODS else ""
    if not nested:
        raise typer.BadParameter(
            f"{name} takes NAME=VALUE in brackets, such as rrf(k=60). Got {methods[0]!r} instead.", param_hint=option
        )
    if nested in params:
        raise typer.BadParameter(f"{nested!r} is given twice in {text!r}.", param_hint=option)
    return name, {nested: _made(methods, METHODS[name].constraints[nested])} | params


def split_names(text: str) -> list[str]:
    """Return the parts between commas that stand outside brackets of any kind.

    >>> split_names("rrf(k=10,ties=min), borda")
    ['rrf(k=10,ties=min)', 'borda']
    """
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _pairs(texts: Iterable[str] | None, option: str, example: str) -> dict[str, str]:
    """Return the pairs of one or several texts "a=1,b=2"; the last = of a part separates, for ids may hold others."""
    out: dict[str, str] = {}
    for part in (part for text in texts or () for part in text.split(",")):
        name, sign, value = part.strip().rpartition("=")
        if not sign or not name or not value:
            raise typer.BadParameter(f"expected {example}. Got {part!r} instead.", param_hint=option)
        if name in out:
            raise typer.BadParameter(f"{name!r} is given twice.", param_hint=option)
        out[name] = value
    return out


def parse_weights(texts: Iterable[str] | None) -> dict[str, float]:
    """Return expert -> weight for texts such as "bm25=2,dense=0.5"."""
    out = {}
    for expert, text in _pairs(texts, "--weights", "EXPERT=WEIGHT, such as bm25=2,dense=0.5").items():
        try:
            out[expert] = float(text)
        except ValueError:
            raise typer.BadParameter(
                f"the weight of {expert!r} must be a number. Got {text!r} instead.", param_hint="--weights"
            ) from None
    return out


def parse_columns(texts: Iterable[str] | None) -> dict[str, str | int] | None:
    """Return role -> column name or 1-based number for texts such as "left=model_a,right=3"."""
    columns = _pairs(texts, "--columns", "ROLE=COLUMN, such as left=model_a,right=model_b")
    return {role: int(c) if c.isdecimal() and len(c) < 10 else c for role, c in columns.items()} or None


def check_choice(value: str | None, allowed: Sequence[str], option: str) -> str | None:
    """Return the value when it is one of a few words, else raise a usage error."""
    if value is not None and value not in allowed:
        raise typer.BadParameter(f"must be one of {', '.join(allowed)}. Got {value!r} instead.", param_hint=option)
    return value


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_size(text: str, option: str) -> int:
    """Return how many bytes a text such as "4GB" or "500M" says.

    >>> parse_size("4GB", "--memory"), parse_size("0", "--memory"), parse_size("1.5 m", "--memory")
    (4000000000, 0, 1500000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise typer.BadParameter(f"must be a size such as 4GB or 500M. Got {text!r} instead.", param_hint=option)
    return int(float(found[1]) * _UNITS[found[2]])


def parse_cap(text: str) -> tuple[int, str]:
    """Return how many votes of each expert to keep, and which.

    >>> parse_cap("50"), parse_cap("50:first")
    ((50, 'random'), (50, 'first'))
    """
    number, _, which = text.partition(":")
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 1 << 62) or which not in ("", "first", "last"):
        raise typer.BadParameter(
            f"must be a whole number >= 1, such as 50, 50:first or 50:last. Got {text!r} instead.",
            param_hint="--max-per-expert",
        )
    return int(number), which or "random"


def check_share(share: float | None) -> None:
    """Raise a usage error unless a share can be held out."""
    if share is not None and not 0 < share < 1:
        raise typer.BadParameter(
            f"must be a number between 0 and 1. Got {share:g} instead.", param_hint="--validation-part"
        )

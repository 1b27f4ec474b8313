"""Constraints of parameters: each tests a value and words the error; and bounds of learned attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from concordant.errors import ParameterError

__all__ = [
    "IN_DATA_UNITS",
    "Constraint",
    "Within",
    "boolean",
    "check_params",
    "either",
    "integer",
    "mapping",
    "method",
    "methods",
    "metric_name",
    "number",
    "one_of",
    "optional",
    "seed",
]


# Names of metrics that are accepted without importing the metrics, so that fusion starts fast.
_COMMON_METRICS = ("ndcg@10", "map")


class Constraint(NamedTuple):
    """A test of a value, and the words for the allowed values."""

    allowed: str
    test: Callable[[Any], bool]


class Within(NamedTuple):
    """Bounds of all numbers of a learned attribute, written into its annotation.

    `load` refuses a model with a number out of bounds. No fit gives numbers beyond the default bounds: the others would
    be lost in rounding errors.

    Attributes
    ----------
    least, most : float
        The bounds.
    missing : bool
        Whether NaN is allowed, for unknown values.

    Examples
    --------
    >>> Within(least=0).holds({"alpha": [0.5, 2], "name": "x"}), Within(least=0).holds([-1.0])
    (True, False)
    """

    least: float = -1e12
    most: float = 1e12
    missing: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether all numbers of a value (number, array, list or mapping of these) are within the bounds."""
        if isinstance(value, Mapping):
            return all(self.holds(v) for v in value.values())
        if isinstance(value, (list, tuple)):
            return all(self.holds(v) for v in value)
        if value is None or isinstance(value, (bool, str)):
            return True
        if isinstance(value, int):
            return self.least <= value <= self.most
        # In double precision: the bounds may be too large for the type of the array.
        number = np.asarray(value, dtype=np.float64)
        inside = (number >= self.least) & (number <= self.most)
        return bool(np.all(inside | np.isnan(number) if self.missing else inside))


# Bounds of numbers in the units of the user's data; products of three of them are finite.
IN_DATA_UNITS = Within(-1e50, 1e50)


def _is_real(value: Any) -> bool:
    try:
        if type(value) is float or type(value) is int:  # the usual case; a test of an abstract class is slow
            return math.isfinite(value)
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:  # a whole number that is too large for a float
        return False


def number(
    *, above: float | None = None, least: float | None = None, most: float | None = None, below: float | None = None
) -> Constraint:
    """Return the constraint for a finite number within bounds (`above` and `below` exclude their bound)."""
    bounds = ((">", above), (">=", least), ("<=", most), ("<", below))
    words = [f"{sign} {bound:g}" for sign, bound in bounds if bound is not None]

    def test(value: Any) -> bool:
        return (
            _is_real(value)
            and (above is None or value > above)
            and (least is None or value >= least)
            and (most is None or value <= most)
            and (below is None or value < below)
        )

    return Constraint(" ".join(["a number", " and ".join(words)]).strip(), test)


def integer(*, least: int | None = None, most: int | None = None) -> Constraint:
    """Return the constraint for a whole number within bounds."""
    words = [f"{sign} {bound}" for sign, bound in ((">=", least), ("<=", most)) if bound is not None]

    def test(value: Any) -> bool:
        whole = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
        return whole and (least is None or value >= least) and (most is None or value <= most)

    return Constraint(" ".join(["a whole number", " and ".join(words)]).strip(), test)


def one_of(*values: Any) -> Constraint:
    """Return the constraint for one of a few values."""
    allowed = {(type(v), v) for v in values}

    def test(value: Any) -> bool:
        try:
            return (type(value), value) in allowed
        except TypeError:  # a value that cannot be hashed is none of them
            return False

    return Constraint("one of " + ", ".join(map(repr, values)), test)


def boolean() -> Constraint:
    """Return the constraint for True or False."""
    return Constraint("True or False", lambda value: isinstance(value, bool))


def mapping(what: str) -> Constraint:
    """Return the constraint for a mapping from expert to a number >= 0."""
    return Constraint(
        what,
        lambda value: isinstance(value, Mapping) and all(_is_real(v) and v >= 0 for v in value.values()),
    )


def method(what: str = "a method or its name, such as ListwiseLinear() or 'crf'") -> Constraint:
    """Return the constraint for a method, ready made or by name."""
    return Constraint(what, _is_method)


def methods(least: int = 2) -> Constraint:
    """Return the constraint for a list of at least so many methods, ready made or by name."""
    return Constraint(
        f"a list of at least {least} methods or their names, such as [ListwiseLinear(), 'crf']",
        lambda value: isinstance(value, (list, tuple)) and len(value) >= least and all(map(_is_method, value)),
    )


def _is_method(value: Any) -> bool:
    from concordant.base.contract import Aggregator
    from concordant.base.registry import METHODS

    return isinstance(value, Aggregator) or (isinstance(value, str) and value in METHODS)


_UNITS_OF_TIME = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def duration(value: Any) -> float:
    """Return a length of time as a number: as given, or in seconds for a text such as "90s", "12h", "30d" or "2w".

    >>> duration(5), duration("12h")
    (5.0, 43200.0)
    """
    if isinstance(value, str):
        return float(value[:-1]) * _UNITS_OF_TIME[value[-1]]
    return float(value)


def _is_duration(value: Any) -> bool:
    if not isinstance(value, str):
        return number(above=0).test(value)
    try:
        return 0 < duration(value) < np.inf
    except (ValueError, KeyError, IndexError):
        return False


def length_of_time() -> Constraint:
    """Return the constraint of a length of time: a number in the unit of the times, or a text with its unit."""
    return Constraint("a number > 0 or a text such as '90s', '45m', '12h', '30d' or '2w'", _is_duration)


def metric_name() -> Constraint:
    """Return the constraint for the name of a metric."""
    return Constraint(
        "the name of a metric, such as 'ndcg@10' or 'map'",
        lambda value: isinstance(value, str) and (value in _COMMON_METRICS or _is_metric_name(value)),
    )


def _is_metric_name(text: str) -> bool:
    from concordant.metrics.ranking import parse_metric

    try:
        parse_metric(text)
    except ParameterError:
        return False
    return True


def seed() -> Constraint:
    """Return the constraint for random_state."""
    return integer(least=0)


def either(first: Constraint, second: Constraint) -> Constraint:
    """Return the constraint that allows what one of two allows."""
    return Constraint(f"{first.allowed}, or {second.allowed}", lambda value: first.test(value) or second.test(value))


def optional(constraint: Constraint) -> Constraint:
    """Return the constraint that also allows None."""
    return Constraint(f"{constraint.allowed}, or None", lambda value: value is None or constraint.test(value))


# Parameters of all models with intervals.
INTERVALS: dict[str, Constraint] = {
    "uncertainty": one_of("auto", "information", "sandwich", "bootstrap", "none"),
    "level": number(above=0, below=1),
    "rank_ranges": one_of("marginal", "simultaneous"),
    "n_bootstrap": integer(least=2),
    "random_state": seed(),
}


def check_params(owner: str, values: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Raise ParameterError for the first parameter outside its constraint."""
    for name, constraint in constraints.items():
        if not constraint.test(values[name]):
            raise ParameterError.invalid(name, owner, constraint.allowed, values[name])

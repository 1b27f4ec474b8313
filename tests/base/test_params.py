"""A constraint lets through what it says it lets through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from concordant.base.params import boolean, check_params, integer, mapping, number, one_of, optional, seed
from concordant.errors import ParameterError

NONSENSE: list[Any] = [None, "1", object(), [1], float("nan"), float("inf"), 1j]


@pytest.mark.parametrize(
    ("constraint", "good", "bad", "words"),
    [
        (number(), [0, -1.5, np.float32(2), np.int64(3)], [*NONSENSE, True], "a number"),
        (number(above=0), [1e-300, 5], [0, -1, *NONSENSE], "a number > 0"),
        (number(least=0, most=1), [0, 1, 0.5], [-1e-9, 1.1, *NONSENSE], "a number >= 0 and <= 1"),
        (integer(), [0, -3, np.int8(2)], [1.0, True, *NONSENSE], "a whole number"),
        (integer(least=1, most=4), [1, 4], [0, 5, 2.0], "a whole number >= 1 and <= 4"),
        (one_of("a", 1), ["a", 1], ["b", 1.0, True, None], "one of 'a', 1"),
        (boolean(), [True, False], [0, 1, None, "True"], "True or False"),
        (mapping("a mapping"), [{}, {"x": 0}, {"x": 2.5}], [{"x": -1}, {"x": "1"}, [("x", 1)], None], "a mapping"),
        (seed(), [0, 7], [-1, 0.5, None, True], "a whole number >= 0"),
        (optional(number(above=0)), [None, 1], [0, "1"], "a number > 0, or None"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_constraints(constraint: Any, good: list[Any], bad: list[Any], words: str) -> None:
    assert constraint.allowed == words
    for value in good:
        assert constraint.test(value), value
    for value in bad:
        assert not constraint.test(value), value


def test_the_first_bad_parameter_is_reported_in_one_sentence() -> None:
    constraints = {"k": number(above=0), "mode": one_of("a", "b")}
    check_params("RRF", {"k": 1, "mode": "a", "free": object()}, constraints)
    with pytest.raises(ParameterError, match=r"^the 'k' parameter of RRF must be a number > 0\. Got -1 instead\.$"):
        check_params("RRF", {"k": -1, "mode": "z"}, constraints)
    assert issubclass(ParameterError, ValueError)

"""The exact sum over all subsets against enumeration, many digits, closed forms and differences."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracles import partitions as oracle

from concordant.arrays import read_only
from concordant.kernels import elementary_symmetric

Golden = Callable[[str], dict[str, Any]]
Floats = NDArray[np.float64]
ROOT = Path(__file__).resolve().parent.parent.parent


class Stage(NamedTuple):
    value: float
    law: Floats
    share: Floats
    inside: Floats


def stage(f: Any) -> Stage:
    f = np.asarray(f, dtype=np.float64)
    law, share, inside = np.empty(len(f) + 1), np.empty(len(f)), np.empty(len(f))
    return Stage(elementary_symmetric.exact_stage(f, True, law, share, inside), law, share, inside)


def value_of(f: Floats) -> float:
    none = np.empty(0)
    return elementary_symmetric.exact_stage(f, False, np.empty(len(f) + 1), none, none)


def close(a: float, b: float, tol: float) -> bool:
    return abs(a - b) <= tol * max(1.0, abs(b))


def test_worked_case(golden: Golden) -> None:
    content = golden("22_pmop_general")
    for case in content["cases"]:
        f = np.array(case["input"]["X"]) @ np.array(case["input"]["w"])
        for expected in case["expected"]["stages"]:
            found = stage(f[expected["remaining"]])
            assert found.value == pytest.approx(expected["log_Z"], abs=content["abs_tol"])
            np.testing.assert_allclose(found.share, expected["dlogZ_df"], rtol=0, atol=content["abs_tol"])
            np.testing.assert_allclose(found.inside, expected["inclusion_prob"], rtol=0, atol=content["abs_tol"])


@given(
    st.lists(st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1.0, 1.0)), min_size=1, max_size=8),
    st.sampled_from([1e-6, 1.0, 8.0, 60.0, 1e3]),
    st.sampled_from([0.0, -1e3]),
)
def test_a_stage_is_the_sum_over_its_subsets(base: list[float], scale: float, shift: float) -> None:
    f = np.array(base) * scale + shift
    value, share, inside, size = oracle.stage(f.tolist())
    found = stage(f)
    assert close(found.value, value, 1e-12)
    np.testing.assert_allclose(found.share, share, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.inside, inside, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.exp(found.law - found.value), size, rtol=0, atol=1e-12)
    assert close(value_of(f), value, 1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("n", [9, 25, 40])
def test_a_stage_is_what_symmetric_polynomials_in_sixty_digits_give(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    f = rng.normal(size=n) * scale
    f[: n // 3] = f[0]
    value, share = oracle.decimal_stage(f.tolist())
    found = stage(f)
    assert close(found.value, value, 1e-13)
    np.testing.assert_allclose(found.share, share, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 64, 1000, 2000])
def test_equal_scores_have_closed_forms(n: int) -> None:
    found = stage(np.full(n, 0.7))
    assert close(found.value, 0.7 + n * math.log(2) + math.log1p(-(2.0**-n)), 1e-13)
    np.testing.assert_allclose(found.share, 1 / n, rtol=1e-12)
    np.testing.assert_allclose(found.inside, 0.5 / (1 - 2.0**-n), rtol=1e-12)
    for m in range(1, n + 1):
        ways = 0.7 + math.log(math.comb(n, m))
        assert found.law[m] == pytest.approx(ways, rel=1e-12) or (found.law[m] == -np.inf and ways < found.value - 40)


@pytest.mark.parametrize(("n", "scale"), [(1000, 1.0), (1000, 300.0), (2000, 1.0), (2000, 1e3)])
def test_sizes_of_long_stages_are_those_of_the_recurrence_on_logarithms(n: int, scale: float) -> None:
    f = np.random.default_rng(n).normal(size=n) * scale
    found = stage(f)
    kept = np.flatnonzero(found.law > -np.inf)
    for m in {int(kept[0]), int(kept[len(kept) // 2]), int(np.argmax(found.law)), int(kept[-1])}:
        assert found.law[m] == pytest.approx(oracle.log_symmetric(f, m), rel=1e-12)
    for m in {1, 2, n // 3, n} - set(kept.tolist()):
        assert oracle.log_symmetric(f, m) < found.value - 35
    assert found.value == pytest.approx(float(np.logaddexp.reduce(found.law)), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 300.0, 1e3])
@pytest.mark.parametrize("n", [1000, 2000])
def test_slopes_of_long_stages_are_differences_of_the_value(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    f = rng.normal(size=n) * scale
    found = stage(f)
    assert found.share.sum() == pytest.approx(1.0, abs=1e-12)
    assert ((found.inside >= 0) & (found.inside <= 1 + 1e-12)).all()
    # Along random directions: differences of single scores would drown in the rounding of the value.
    for _ in range(3):
        v = rng.normal(size=n)
        v /= np.abs(v).max()
        # The value is of the order of n: a step of 1 loses few digits, and it curves on the scale of n.
        h = 0.05 if scale > 100 else 1.0
        values = [value_of(f + t * h * v) for t in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        assert float(found.share @ v) == pytest.approx(slope, rel=1e-6, abs=2e-10)


@pytest.mark.parametrize("top", [50.0, 690.0, 1000.0, 1387.0, 3000.0])
def test_one_item_far_above_a_thousand_others(top: float) -> None:
    """Then two sizes far apart may both count: one item alone, and half of all."""
    n = 2001
    f = np.zeros(n)
    f[7] = top
    found = stage(f)
    without = [math.log(math.comb(n - 1, m)) if m < n else -math.inf for m in range(1, n + 1)]
    held = [math.log(math.comb(n - 1, m - 1)) + top / m for m in range(1, n + 1)]
    whole = float(np.logaddexp.reduce([*without, *held]))
    assert close(found.value, whole, 1e-13)
    assert found.inside[7] == pytest.approx(math.exp(float(np.logaddexp.reduce(held)) - whole), abs=1e-10)
    share = np.exp(np.array(held) - whole) / np.arange(1, n + 1)
    assert found.share[7] == pytest.approx(float(share.sum()), abs=1e-10)


def test_two_groups_far_apart_and_hardly_apart() -> None:
    for gap in (1e-9, 1.0, 40.0, 400.0, 1e4):
        f = np.repeat([0.0, gap], [4, 3])
        value, share, inside, _ = oracle.stage(f.tolist())
        found = stage(f)
        assert close(found.value, value, 1e-13)
        np.testing.assert_allclose(found.share, share, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.inside, inside, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [65, 200, 1000])
def test_the_approximation_of_long_stages(n: int) -> None:
    rng = np.random.default_rng(n)
    for scale, tol in [(0.5, 1e-3), (2.0, 1e-2), (5.0, 2e-2), (20.0, 1.0), (100.0, 1.0), (1000.0, 1.0)]:
        for _ in range(5):
            f = rng.normal(size=n) * scale + 3.0
            assert elementary_symmetric.approximate_stage(f) == pytest.approx(value_of(f), abs=tol)


def test_lists_are_their_stages() -> None:
    f = np.array([0.3, -1.0, 2.0, 0.0, 0.5, 4.0, -4.0])
    mark = np.array([1, 0, 1, 1, 0, 1, 1], dtype=np.uint8)
    offsets = np.array([0, 5, 5, 7])
    slope, value = np.empty(7), np.empty(3)
    elementary_symmetric.general_lists(f, mark, *read_only(offsets), slope, value)
    blocks: list[oracle.Blocks] = [[[0, 1], [2], [3, 4]], [], [[0], [1]]]

    def by_hand(n: int, at: Floats) -> float:
        return oracle.log_probability(at.tolist(), blocks[n], "general")

    for n, (a, b) in enumerate(pairwise(offsets.tolist())):
        assert value[n] == pytest.approx(by_hand(n, f[a:b]), abs=1e-12)
        for i in range(b - a):
            step = np.zeros(b - a)
            step[i] = 1e-4
            slopes = (by_hand(n, f[a:b] + step) - by_hand(n, f[a:b] - step)) / 2e-4
            assert slope[a + i] == pytest.approx(slopes, abs=1e-7)


_PLAIN = """
import numpy as np
from concordant.kernels.graded_lists import GradedLists
from concordant.ranking import partitions
rng = np.random.default_rng(0)
lists = GradedLists.of(np.array([2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]), np.array([0, 6, 8]))
score = rng.normal(size=8) * 500
out = []
for scale in (1.0, 1e-3):
    slope = np.empty(8)
    out.append(partitions.general_partitions(score * scale, lists, slope))
    out += slope.tolist()
    for kind in ("gibbs", "mh"):
        out.append(partitions.sampled_partitions(score * scale, lists, slope, kind=kind, n_samples=5, seed=3, turn=2))
        out += slope.tolist()
    for potential in ("full", "general"):
        out += partitions.sample(score * scale, 3, potential=potential).ravel().tolist()
print(repr(out))
"""


def test_compiled_and_plain_loops_agree() -> None:
    found = []
    for plain in ("0", "1"):
        env = {**os.environ, "CONCORDANT_NO_JIT": plain, "PYTHONWARNINGS": "error"}
        run = subprocess.run(
            [sys.executable, "-c", _PLAIN], capture_output=True, text=True, env=env, cwd=ROOT, check=False
        )
        assert run.returncode == 0, run.stderr
        found.append([float(x) for x in run.stdout.strip().strip("[]").split(",")])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-13)

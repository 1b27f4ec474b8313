"""Chains over subsets against the laws they are meant to keep, and draws of ordered partitions against enumeration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracles import partitions as oracle
from tests.oracles import staged

from concordant.kernels import partition_sampler as chain
from concordant.kernels.splitmix64 import hashed

Golden = Callable[[str], dict[str, Any]]
Floats = NDArray[np.float64]
KINDS = {"gibbs": (chain.GIBBS, False), "mh": (chain.METROPOLIS, False), "mh printed": (chain.METROPOLIS, True)}


def visits(f: Floats, kind: str, n: int, start: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the subset a chain is at after each of n samples, as a number whose bits are its items."""
    held = start.copy()
    order = np.arange(len(f))
    share = np.zeros(len(f))
    weight = 1 << np.arange(len(f))
    out = np.empty(n, dtype=np.int64)
    state = np.uint64(17)
    for t in range(n):
        # Compiled code hands numbers back as Python's.
        state = np.uint64(chain.run_chain(f, held, *KINDS[kind], 1, state, order, share))
        out[t] = int(held @ weight)
    return out


def assert_law(found: NDArray[np.int64], law: dict[int, float], batches: int = 50) -> None:
    """Compare how often each state was visited with its probability, the error taken from means of batches."""
    assert set(np.unique(found).tolist()) <= set(law)
    parts = found.reshape(batches, -1)
    for state, p in law.items():
        by_batch = (parts == state).mean(axis=1)
        error = by_batch.std(ddof=1) / np.sqrt(batches)
        assert abs(by_batch.mean() - p) < 4.5 * error + 1e-4, (state, by_batch.mean(), p)


@pytest.mark.parametrize("kind", KINDS)
def test_long_chains_keep_the_laws_of_the_worked_case(golden: Golden, kind: str) -> None:
    (case,) = golden("28_pmop_mcmc_stationary")["cases"]
    expected = case["expected"]
    f = np.array(case["input"]["f"])
    law = expected["printed_mh_limit" if kind == "mh printed" else "target"]
    by_state = {sum(1 << i for i in s): p for s, p in zip(expected["subsets"], law, strict=True)}
    start = np.array([0, 0, 0, 1], dtype=np.uint8)
    assert_law(visits(f, kind, 200_000, start), by_state)


def test_mean_memberships_of_the_worked_case(golden: Golden) -> None:
    (case,) = golden("28_pmop_mcmc_stationary")["cases"]
    f = np.array(case["input"]["f"])
    for kind in ("gibbs", "mh"):
        share = np.zeros(4)
        held = np.array([1, 0, 0, 0], dtype=np.uint8)
        chain.run_chain(f, held, *KINDS[kind], 400_000, np.uint64(5), np.arange(4), share)
        np.testing.assert_allclose(share / 400_000, case["expected"]["mean_membership_E_1_over_size"], atol=4e-3)


def test_what_the_printed_acceptance_converges_to_is_far_from_the_model(golden: Golden) -> None:
    (case,) = golden("28_pmop_mcmc_stationary")["cases"]
    expected = case["expected"]
    f = case["input"]["f"]
    _, share, _, size = oracle.stage(f)
    np.testing.assert_allclose(share, expected["mean_membership_E_1_over_size"], atol=1e-9)
    by_subset = np.array([np.exp(np.mean([f[i] for i in s])) for s in expected["subsets"]])
    np.testing.assert_allclose(by_subset / by_subset.sum(), expected["target"], atol=1e-9)
    assert abs(expected["printed_mh_limit"][-1] - size[4]) > 0.15


@pytest.mark.parametrize("kind", ["gibbs", "mh"])
@pytest.mark.parametrize(("n", "scale"), [(12, 1.0), (12, 6.0), (30, 3.0)])
def test_long_chains_agree_with_the_exact_stage(kind: str, n: int, scale: float) -> None:
    from concordant.kernels.elementary_symmetric import exact_stage

    f = np.random.default_rng(n).normal(size=n) * scale
    law, share, inside = np.empty(n + 1), np.empty(n), np.empty(n)
    exact_stage(f, True, law, share, inside)
    batches, length = 40, 20_000
    found = np.zeros((batches, n))
    held = np.zeros(n, dtype=np.uint8)
    held[0] = 1
    order, state = np.arange(n), np.uint64(n)
    state = np.uint64(chain.run_chain(f, held, *KINDS[kind], 500, state, order, np.zeros(n)))
    for b in range(batches):
        state = np.uint64(chain.run_chain(f, held, *KINDS[kind], length, state, order, found[b]))
    found /= length
    error = found.std(axis=0, ddof=1) / np.sqrt(batches)
    assert (np.abs(found.mean(axis=0) - share) < 4.5 * error + 1e-9).all()
    assert error.max() < 0.02


@settings(max_examples=40)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6),
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 2**32),
)
def test_no_chain_ever_leaves_the_non_empty_subsets(f: list[float], kind: str, seed: int) -> None:
    n = len(f)
    held = np.zeros(n, dtype=np.uint8)
    held[seed % n] = 1
    share = np.zeros(n)
    state = np.uint64(seed)
    for _ in range(20):
        state = np.uint64(chain.run_chain(np.array(f), held, *KINDS[kind], 3, state, np.arange(n), share))
        assert held.any()
    # Every sample adds 1 in all.
    assert share.sum() == pytest.approx(60.0)


@pytest.mark.parametrize("general", [False, True], ids=["full", "general"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
def test_draws_are_as_frequent_as_they_are_probable(general: bool, scale: float) -> None:
    from scipy.stats import chisquare

    f = np.array([0.8, -0.5, 0.1, -1.0]) * scale
    draws = 60_000
    rank = np.empty((draws, 4), dtype=np.int64)
    chain.draw_partitions(f, general, hashed(np.arange(draws, dtype=np.uint64)), rank)
    code = rank @ (10 ** np.arange(4))
    seen = []
    chance = []
    for blocks in staged.partitions(range(4)):
        chance.append(np.exp(oracle.log_probability(f.tolist(), blocks, "general" if general else "full")))
        seen.append(int((code == oracle.ranks_of(blocks) @ (10 ** np.arange(4))).sum()))
    assert sum(seen) == draws
    expected = np.array(chance) * draws
    # Rare ones together.
    rare = expected < 8
    observed = np.append(np.array(seen)[~rare], np.array(seen)[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    assert chisquare(observed[keep], expected[keep] * (draws / expected[keep].sum())).pvalue > 1e-3


def test_long_draws_have_the_exact_first_block() -> None:
    """First blocks hold every item as often as the exact stage says."""
    from concordant.kernels.elementary_symmetric import exact_stage

    n, draws = 200, 200
    f = np.random.default_rng(3).normal(size=n) * 60
    law, share, inside = np.empty(n + 1), np.empty(n), np.empty(n)
    z = exact_stage(f, True, law, share, inside)
    rank = np.empty((draws, n), dtype=np.int64)
    chain.draw_partitions(f, True, hashed(np.arange(draws, dtype=np.uint64)), rank)
    first = rank == 1
    error = np.sqrt(inside * (1 - inside) / draws)
    assert (np.abs(first.mean(axis=0) - inside) < 4.5 * error + 1e-9).all()
    size = np.arange(n + 1)
    p = np.exp(law - z)
    mean = float(size @ p)
    spread = np.sqrt(float((size - mean) ** 2 @ p))
    assert abs(first.sum(axis=1).mean() - mean) < 4.5 * spread / np.sqrt(draws)
    # Ranks are 1, 2, ... without a gap.
    assert all(np.array_equal(np.unique(row), np.arange(1, row.max() + 1)) for row in rank)

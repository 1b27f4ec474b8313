"""What would take more memory than is free, or minutes of time, is refused before it begins, with a way out."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import concordant as cc
from concordant.base import limits
from concordant.errors import DataError, ParameterError


def lists(n_items: int, n_lists: int = 1) -> cc.Preferences:
    """Return lists of all items, each in another order."""
    items = np.tile(np.arange(n_items), n_lists)
    ranks = np.concatenate([np.roll(np.arange(1.0, n_items + 1), 7 * k) for k in range(n_lists)])
    return cc.Preferences(["q"] * len(items), np.repeat(np.arange(n_lists), n_items), items, ranks)


@pytest.mark.parametrize(
    ("name", "params", "what"),
    [
        ("bradley-terry", {"transform": "count"}, "all pairs in lists"),
        ("kemeny", {}, "tables of all pairs"),
        ("mallows", {}, "tables of all pairs"),
        ("markov-chain", {}, "a table of all pairs"),
        ("svp", {}, "all pairs in lists"),
        ("extended-mallows", {}, "chains over all pairs"),
    ],
)
def test_tables_larger_than_memory_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, params: dict[str, Any], what: str
) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 6 * 10**9)
    two = lists(200_000, 2)
    with pytest.raises(DataError) as caught:
        cc.aggregate(two, name, **params)
    owner, needed = re.match(r"(\w+) needs about ([\d,.]+) GB of memory for ", str(caught.value)).groups()  # type: ignore[union-attr]
    assert owner == cc.METHODS[name].__name__
    # A table of all pairs has 4e10 cells, of a byte at least.
    assert float(needed.replace(",", "")) >= 40
    assert f"{what} of instance 'q' (200,000 items in 2 lists), and 6.0 GB are free. Use borda," in str(caught.value)


@pytest.mark.parametrize(("name", "needed"), [("svp", "4.5"), ("markov-chain", "7.2")])
def test_what_two_long_opposed_orders_need_is_counted(monkeypatch: pytest.MonkeyPatch, name: str, needed: str) -> None:
    """15,000 items: SVP keeps 40 bytes of each pair, majorities of comparisons four tables of numbers."""
    monkeypatch.setattr(limits, "free_memory", lambda: 3 * 10**9)
    m = 15_000
    if name == "svp":
        order = np.arange(m)
        votes: Any = cc.Preferences(
            ["q"] * 2 * m, np.repeat(["x", "y"], m), np.concatenate([order, order[::-1]]), np.tile(order + 1.0, 2)
        )
    else:
        votes = cc.Comparisons("q", None, np.arange(m - 1), np.arange(1, m), np.ones(m - 1), np.zeros(m - 1))
    with pytest.raises(DataError, match=f"needs about {re.escape(needed)} GB of memory for .*15,000 items"):
        cc.aggregate(votes, name)


def test_rows_of_pairs_of_every_expert_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 10**9)
    with pytest.raises(DataError, match=r"about 3\.2 GB .* the pairs of every list .* \(1,000 items in 100 lists\)"):
        cc.aggregate(lists(1000, 100), "bradley-terry", reliability=True)


def test_work_of_minutes_is_refused_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    many = 300_000
    pairs = cc.Preferences(["q"] * many, np.arange(many), np.arange(many) % 5, np.ones(many))
    for votes, name in ((lists(200_000), "cps"), (pairs, "extended-mallows")):
        with pytest.raises(DataError, match=r"would take about \d+ (seconds|minutes) .* CONCORDANT_MAX_SECONDS=1000?"):
            cc.aggregate(votes, name)
    small = lists(40, 3)
    assert cc.aggregate(small, "cps").n_slots == 40
    monkeypatch.setenv(limits.MAX_SECONDS, "1e-6")
    with pytest.raises(DataError, match=r"CPS would take about 0 seconds .* \(40 items in 3 lists\)"):
        cc.aggregate(small, "cps")
    monkeypatch.setenv(limits.MAX_SECONDS, "inf")
    assert cc.aggregate(small, "cps").n_slots == 40


def test_voting_rules_are_refused_where_they_take_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 120_000
    strict, items = lists(n, 2), np.tile(np.arange(n), 2)
    tied = cc.Preferences(["q"] * 2 * n, np.repeat([0, 1], n), items, np.r_[np.ones(n), np.arange(1.0, n + 1)])
    for votes, name in ((strict, "coombs"), (tied, "irv"), (tied, "stv")):
        said = rf"{name} would take about \d+ (seconds|minutes) for rounds of ballots .* \(120,000 items in 2 lists\)"
        with pytest.raises(DataError, match=f"(?i){said}"):
            cc.aggregate(votes, name)
    monkeypatch.setattr(limits, "free_memory", lambda: 10**13)
    for name in ("minimax", "ranked-pairs", "svp"):
        with pytest.raises(DataError, match=r"would take about \d+ (seconds|minutes) for (tables of )?all pairs"):
            cc.aggregate(strict, name)
    with pytest.raises(DataError, match=r"Schulze would take about \d+ .* for paths of majorities"):
        cc.aggregate(lists(6000, 3), "schulze")
    # Nobody is first in these but two items: the others leave together.
    for name in ("plurality", "approval", "bucklin", "irv", "stv"):
        assert cc.aggregate(strict, name).n_slots == n


@pytest.mark.parametrize("value", ["ten", "-1", "nan"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(limits.MAX_SECONDS, value)
    with pytest.raises(ParameterError, match=f"CONCORDANT_MAX_SECONDS must be a number of seconds, not '{value}'"):
        cc.aggregate(lists(40, 3), "cps")


def test_short_lists_over_many_items_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 items whose lists hold ten each have few pairs, and are counted one by one."""
    monkeypatch.setattr(limits, "free_memory", lambda: 10**9)
    n = 100_000
    p = cc.Preferences(["q"] * n, np.arange(n) // 10, np.arange(n), np.arange(n) % 10 + 1.0)
    assert cc.aggregate(p, "copeland").score.max() == 9


def test_a_limit_of_the_address_space_is_no_free_memory() -> None:
    code = (
        "import resource, concordant.execution as e\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))\n"
        "import mmap\n"
        "before = e.free_memory()\n"
        "taken = mmap.mmap(-1, 1 << 30)\n"
        "print(before <= 3 << 30, e.free_memory() <= before - (1 << 30))"
    )
    if resource.getrlimit(resource.RLIMIT_AS)[1] not in (resource.RLIM_INFINITY, -1):
        pytest.skip("the address space is limited already")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True True", done.stderr

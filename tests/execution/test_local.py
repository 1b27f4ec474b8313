"""A map over instances gives the same list on any number of threads."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from concordant import execution
from concordant.errors import ParameterError
from concordant.execution import cores, force_threads, free_memory, local, map_instances, n_threads, threads


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_results_come_in_order(workers: int, n: int) -> None:
    with force_threads(workers):
        assert map_instances(lambda i: i * i, n) == [i * i for i in range(n)]


def test_work_is_spread_over_threads() -> None:
    # Each of four pieces waits for the other three: it ends only when all run at the same time.
    meeting = threading.Barrier(4, timeout=20)
    with force_threads(4):
        assert sorted(map_instances(lambda _: meeting.wait(), 4)) == [0, 1, 2, 3]


def test_one_thread_is_this_thread() -> None:
    with threads(1):
        assert set(map_instances(lambda _: threading.get_ident(), 5)) == {threading.get_ident()}


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_error_is_raised(workers: int) -> None:
    def fail(i: int) -> int:
        if i >= 10:
            raise KeyError(i)
        return i

    with force_threads(workers), pytest.raises(KeyError, match=r"^10$"):
        map_instances(fail, 40)


def test_the_number_of_threads_is_local_and_restored() -> None:
    before = n_threads()
    assert before >= 1
    seen: list[int] = []
    with force_threads(3):
        assert n_threads() == 3
        with force_threads(5):
            assert n_threads() == 5
        assert n_threads() == 3
        other = threading.Thread(target=lambda: seen.append(n_threads()))
        other.start()
        other.join()
        assert seen == [before], "another thread of the user's is not touched"
    assert n_threads() == before
    with pytest.raises(ZeroDivisionError), threads(2):
        raise ZeroDivisionError
    assert n_threads() == before


def test_a_container_has_less_memory_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = free_memory()
    assert machine > 10**7
    for text, expected in (("3000000\n", 1_500_000), ("max\n", None), ("9" * 18, None)):
        (tmp_path / "max").write_text(text)
        monkeypatch.setattr(local, "_CONTAINER", (str(tmp_path / "nowhere"), str(tmp_path / "max")))
        found = free_memory()
        assert found == expected if expected else found > 10**7


@pytest.mark.parametrize("n", [0, -1, 10**6 + 1, 10**9, 1.5, True, "2", None])
def test_threads_takes_a_whole_number(n: Any) -> None:
    wanted = "'n' parameter of threads must be a whole number from 1 to 1,000,000"
    with pytest.raises(ParameterError, match=wanted), threads(n):
        pass


def test_there_are_no_more_threads_than_cores() -> None:
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert cores() == mine
    with threads(99_999):
        assert n_threads() == mine
        assert len(set(map_instances(lambda _: time.sleep(0.001) or threading.get_ident(), 100))) <= cores()


@pytest.mark.skipif(not hasattr(execution, "watch"), reason="progress is not reported")
@pytest.mark.parametrize("workers", [1, 4])
def test_every_piece_is_reported_once(workers: int) -> None:
    seen: list[tuple[int, int]] = []

    def slow(i: int) -> int:
        time.sleep(0.001 * (i % 3))
        return i

    with force_threads(workers), execution.watch(lambda done, total: seen.append((done, total))):
        assert map_instances(slow, 30) == list(range(30))
    assert sorted(seen) == [(k, 30) for k in range(1, 31)]
    map_instances(slow, 3)
    assert len(seen) == 30, "nothing is reported outside the block"

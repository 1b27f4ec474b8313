"""Who interrupts a map over instances does not wait for the instances that nobody wants any more."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from concordant.execution import force_threads, map_instances


def test_an_error_waits_for_no_other_thread_and_stops_what_has_not_begun() -> None:
    begun, release, ended, seen = threading.Event(), threading.Event(), threading.Event(), []

    def work(i: int) -> int:
        seen.append(i)
        if i == 0:
            # Fails only when the other thread is in the middle of its piece.
            assert begun.wait(20)
            raise KeyError(i)
        begun.set()
        assert release.wait(20)
        ended.set()
        return i

    with force_threads(2), pytest.raises(KeyError):
        map_instances(work, 64)
    # The second piece is still held; had the map waited for it, we would not be here.
    assert not release.is_set()
    release.set()
    assert ended.wait(20)
    # Whoever goes on would begin with the next piece now.
    time.sleep(0.05)
    # Blocks of one: the first fails, and everybody stops after the piece in hand.
    assert set(seen) == {0, 1}


def test_a_forked_process_has_threads_of_its_own() -> None:
    with force_threads(2):
        map_instances(str, 8)
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            assert pool.submit(_mapped).result(timeout=20) == ["0", "1", "2", "3"]


def _mapped() -> list[str]:
    with force_threads(2):
        return map_instances(str, 4)


def test_a_map_goes_on_while_what_is_left_of_an_interrupted_one_is_still_busy() -> None:
    release = threading.Event()

    def fail(i: int) -> int:
        if i:
            release.wait(20)
            return i
        raise KeyError(i)

    with force_threads(2):
        with pytest.raises(KeyError):
            map_instances(fail, 64)
        meeting = threading.Barrier(2, timeout=20)
        assert sorted(map_instances(lambda _: meeting.wait(), 2)) == [0, 1]
    release.set()


def test_what_holds_for_the_caller_holds_for_the_threads() -> None:
    with force_threads(2), np.errstate(over="raise"):
        assert {e["over"] for e in map_instances(lambda _: np.geterr(), 40)} == {"raise"}


def test_the_error_of_the_first_piece_is_raised_whichever_fails_first() -> None:
    late = threading.Event()

    def fail(i: int) -> int:
        if i == 0:
            assert late.wait(20)
            raise KeyError(i)
        late.set()
        raise ValueError(i)

    with force_threads(2), pytest.raises(KeyError):
        map_instances(fail, 64)

"""Who interrupts a map over instances does not wait for the instances that nobody wants any more."""

from __future__ import annotations

import threading

import pytest

from concordant.execution import map_instances, threads


def test_an_error_waits_for_no_other_thread_and_stops_what_has_not_begun() -> None:
    begun, release, seen = threading.Event(), threading.Event(), []

    def work(i: int) -> int:
        seen.append(i)
        if i == 0:
            # Fails only when the other thread is in the middle of its piece.
            assert begun.wait(20)
            raise KeyError(i)
        begun.set()
        assert release.wait(20)
        return i

    with threads(2), pytest.raises(KeyError):
        map_instances(work, 64)
    # The second piece is still held; had the map waited for it, we would not be here.
    assert not release.is_set()
    release.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "ThreadPoolExecutor" in thread.name:
            thread.join(20)
    # Sixteen blocks of four: the first fails, whose thread may take up a third before the caller hears of it; all
    # others stop after the piece in hand.
    assert {0, 4} <= set(seen) <= {0, 4, 8}

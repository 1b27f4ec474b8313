"""Places of labelled slots: those of a plain sort, in which higher labels come last among ties."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from concordant.kernels.expert_rows import worst_places


@pytest.mark.parametrize("seed", range(20))
def test_hits_stand_where_a_sort_puts_them(seed: int) -> None:
    draw = np.random.default_rng(seed)
    offsets = np.array([0, 7, 7, 8, 30])
    score = draw.integers(0, 6, 30).astype(np.float64)
    score[draw.random(30) < 0.1] = -np.inf
    label = draw.integers(0, 4, 30)
    hits, starts, want = [], [0], []
    for first, last in pairwise(offsets.tolist()):
        slots = range(first, last)
        hits += sorted((s for s in slots if label[s]), key=lambda s: -label[s])
        starts.append(len(hits))
        ranked = sorted(slots, key=lambda s: (-score[s], label[s]))
        want += [(place, label[s]) for place, s in enumerate(ranked, 1) if label[s]]
    hit = np.array(hits, dtype=np.int64)
    order, place = np.zeros_like(hit), np.zeros_like(hit)
    worst_places(score, offsets, hit, np.array(starts), order, place)
    assert list(zip(place.tolist(), label[hit[order]].tolist(), strict=True)) == want

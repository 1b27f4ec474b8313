"""Numbers as first met against a dictionary, also where hashes fall into the same cells and tables grow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from concordant.kernels.numbering import number_pairs

# Few bits and equal low bits: strangers meet in every cell.
hash_pair = st.tuples(st.sampled_from([0, 1, 1 << 20, 2**64 - 1, (1 << 32) + 1]), st.integers(0, 3))


def by_dictionary(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    seen: dict[tuple[int, int], int] = {}
    first = []
    for k, pair in enumerate(zip(left, right, strict=True)):
        for side, key in enumerate(pair):
            if key not in seen:
                seen[key] = len(seen)
                first.append(k + side * len(left))
    return [seen[key] for key in left + right], first


def check(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    table = np.array(left + right, dtype=np.uint64).reshape(-1, 2)
    codes, first = number_pairs(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1]))
    assert (codes.tolist(), first.tolist()) == by_dictionary(left, right)


@given(st.lists(st.tuples(hash_pair, hash_pair), max_size=40))
def test_texts_are_numbered_as_met_pair_by_pair(pairs: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    check([a for a, _ in pairs], [b for _, b in pairs])


def test_tables_grow() -> None:
    rng = np.random.default_rng(0)
    # Multiples of a large power of two share their low bits.
    drawn = (rng.integers(0, 3000, (4000, 2)) * (1 << 40)).tolist()
    check([(a, 7) for a, _ in drawn], [(b, 7) for _, b in drawn])

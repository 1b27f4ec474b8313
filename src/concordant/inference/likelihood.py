"""Likelihood of a fit: number of parameters, chi-squared tail, coefficients of counts, and a digest of the data."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats
from concordant.data.comparisons import Comparisons
from concordant.data.index import Slots
from concordant.data.preferences import Preferences

__all__ = ["chi_squared_tail", "data_digest", "free_scores", "log_multinomials"]


def free_scores(slots: Slots) -> int:
    """Return the number of free scores: items less one in each instance."""
    return int(np.maximum(slots.sizes - 1, 0).sum())


def chi_squared_tail(statistic: float, df: int) -> float:
    """Return the probability of a chi-squared variable of at least this size; 1 without degrees of freedom.

    >>> round(chi_squared_tail(3.841459, 1), 6)
    0.05
    """
    if df <= 0:
        return 1.0
    from scipy.special import chdtrc

    return float(chdtrc(df, statistic))


def log_multinomials(*counts: Floats) -> float | None:
    """Return Σ log n! / (n_1! n_2! ...) over rows of counts, n their sum; None where counts are not whole numbers.

    >>> round(log_multinomials(np.array([2.0, 3.0]), np.array([1.0, 0.0])), 6)  # log 3
    1.098612
    """
    if any((c != np.floor(c)).any() for c in counts):
        return None
    from scipy.special import gammaln

    whole = np.sum(counts, axis=0)
    return float(gammaln(whole + 1.0).sum() - sum(gammaln(c + 1.0).sum() for c in counts))


def data_digest(votes: Preferences | Comparisons) -> str:
    """Return a digest of a container: ids and rows in their order, and what lists say about items they leave out.

    Columns are told apart by their checksums (CRC-32), at 8 GB/s: it tells data from other data by accident, not by
    intent.
    """
    out = blake2b(digest_size=16)
    texts = [votes.instances, votes.items, votes.experts]
    arrays: list[NDArray[Any]] = [votes.slots.offsets]
    if isinstance(votes, Preferences):
        arrays += [votes.slot, votes.value, votes.list_offsets, votes.list_starts, votes.list_expert, votes.weights]
        arrays += [np.asarray(votes.below())]
    else:
        arrays += [votes.left, votes.right, votes.n_left, votes.n_right, votes.n_ties, votes.row_expert]
        arrays += votes.columns.arrays().values()
        texts += [votes.categories, votes.covariate_names]
    for text in texts:
        out.update("\0".join(text.tolist()).encode("utf-8", "surrogatepass"))
        out.update(b"\1")
    for array in arrays:
        checksum = crc32(np.ascontiguousarray(array).data)
        out.update(str((array.dtype, array.shape, checksum)).encode())
    return out.hexdigest()

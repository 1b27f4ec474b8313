"""Compilation of kernels with Numba: `jit` compiles a function on first call and caches it on disk.

Where no cache folder is writable, the function is compiled without a cache, and one warning says so.

With CONCORDANT_NO_JIT=1 in the environment the same code runs as plain Python, for tests and debuggers. Modules that
import this one are imported inside functions, never at the top of a method's module, so that methods that only sum and
sort do not load Numba.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

from concordant.errors import ConcordantWarning, warn

__all__ = ["jit", "jit_fused"]

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = os.environ.get("CONCORDANT_NO_JIT", "") not in ("", "0")


def jit(function: F) -> F:
    """Return the function compiled on first call, cached on disk, and run without the interpreter lock.

    Kernels take and give flat arrays of fixed types (int32 codes, int64 offsets, float64 values) and numbers. Division
    by zero follows IEEE 754 as in NumPy.

    See Also
    --------
    jit_fused : for loops dominated by multiplications and additions.

    Examples
    --------
    >>> import numpy as np
    >>> @jit
    ... def total(x):
    ...     out = 0.0
    ...     for value in x:
    ...         out += value
    ...     return out
    >>> total(np.array([1.0, 2.0]))
    3.0
    """
    return _compiled(function)


def jit_fused(function: F) -> F:
    """Return the function compiled as by `jit`, with fused multiply-add allowed: one rounding instead of two.

    Nothing else of IEEE 754 changes: the order of operations, infinities and NaN stay.
    """
    return _compiled(function, fastmath={"contract"})


def _compiled(function: F, **options: Any) -> F:
    if _PLAIN:
        return function
    import numba

    def compiled(cache: bool) -> F:
        return cast(F, numba.njit(nogil=True, cache=cache, error_model="numpy", **options)(function))

    # A function defined at a prompt has no file to cache beside.
    if function.__code__.co_filename.startswith("<"):
        return compiled(cache=False)
    try:
        return compiled(cache=True)
    except RuntimeError:
        # Numba found no writable folder: a read-only installation without a home folder.
        _warn_uncached()
        return compiled(cache=False)


@lru_cache
def _warn_uncached() -> None:
    """Warn once per process that compiled code is not cached."""
    warn(
        "compiled code cannot be kept: neither the folder of Concordant nor the user's cache folder can be written to, "
        "so that every process compiles anew, which takes seconds. Set the environment variable NUMBA_CACHE_DIR to a "
        "folder that can be written to.",
        ConcordantWarning,
    )

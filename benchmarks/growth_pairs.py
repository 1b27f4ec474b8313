"""Comparisons from a million to a hundred million, collapsed while they are read and fitted by Bradley-Terry with ties.

Nearly all pairs differ, so that collapsing saves as little as it ever does: what is measured is the memory of a pair
and the time of a row. `python benchmarks/growth_pairs.py` makes the files and prints one line for each size.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import CACHE, run, slope

ITEMS = 100_000
TIE = 0.6
WINDOW = 4_000_000
SIZES = (1_000_000, 10_000_000, 25_000_000, 100_000_000)


def strengths(items: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the true scores, with mean 0."""
    s = np.random.default_rng([seed, 0]).normal(size=items)
    return s - s.mean()


def votes(rows: int, items: int, seed: int) -> Iterator[Any]:
    """Yield frames of left, right and winner: pairs drawn at random, outcomes by Davidson's model."""
    import polars as pl

    s = strengths(items, seed)
    names = pl.Series([f"model-{k:06d}" for k in range(items)])
    words = pl.Series(["left", "right", "tie"])
    for window, start in enumerate(range(0, rows, WINDOW)):
        rng = np.random.default_rng([seed, 1, window])
        n = min(WINDOW, rows - start)
        left = rng.integers(0, items, n, dtype=np.int32)
        right = (left + rng.integers(1, items, n, dtype=np.int32)) % np.int32(items)
        half = 0.5 * (s[left] - s[right])
        win, lose = np.exp(half), np.exp(-half)
        drawn = rng.random(n) * (win + lose + TIE)
        outcome = (drawn >= win).astype(np.int8) + (drawn >= win + lose)
        yield pl.DataFrame({"left": names.gather(left), "right": names.gather(right), "winner": words.gather(outcome)})


def make(path: Path, rows: int, items: int = ITEMS, seed: int = 0) -> None:
    """Write a file of votes window by window; the ending says how (.parquet or .csv)."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def source(*_: Any) -> Iterator[Any]:
        yield from votes(rows, items, seed)

    schema = dict.fromkeys(("left", "right", "winner"), pl.String)
    lazy = register_io_source(source, schema=schema)
    part = path.with_name(path.name + ".part")
    if path.suffix == ".parquet":
        lazy.sink_parquet(part, row_group_size=1 << 20, maintain_order=True)
    else:
        lazy.sink_csv(part, maintain_order=True)
    part.rename(path)


def peak() -> float:
    """Return the most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fit(path: Path, items: int = ITEMS, seed: int = 0) -> dict[str, Any]:
    """Return what it took to read and fit a file in this process, and how far the scores are from the truth."""
    import warnings

    import concordant as cc

    started = time.perf_counter()
    pairs = cc.read_comparisons(path, collapse=True)
    read_seconds, read_peak = time.perf_counter() - started, peak()
    started = time.perf_counter()
    model = cc.BradleyTerry()
    with warnings.catch_warnings():
        # Intervals of so many items are left out, and a few of those who met seldom never lost.
        warnings.simplefilter("ignore")
        board = model.fit_predict(pairs)
    found = dict(zip(board.items.tolist(), board.score.tolist(), strict=True))
    truth = strengths(items, seed)
    told = np.array([found.get(f"model-{k:06d}", 0.0) for k in range(items)])
    return {
        "pairs": pairs.n_rows,
        "read_seconds": read_seconds,
        "fit_seconds": time.perf_counter() - started,
        "read_peak_mb": read_peak,
        "peak_mb": peak(),
        "bytes_per_pair": peak() * 2**20 / pairs.n_rows,
        "steps": model.fit_info_.n_iter,
        "converged": model.fit_info_.converged,
        "tie": model.tie_,
        "correlation": float(np.corrcoef(truth, told)[0, 1]),
    }


def measure(rows: int, ending: str) -> dict[str, Any]:
    """Return what a process of its own takes for a file of so many rows, made once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"pairs-{rows}.{ending}"
    if not path.exists():
        run([sys.executable, __file__, "make", str(path), str(rows)])
    cost = run([sys.executable, __file__, "fit", str(path)])
    found: dict[str, Any] = json.loads(cost.output.strip().splitlines()[-1])
    found |= {"rows": rows, "format": ending, "file_mb": path.stat().st_size / 1e6, "seconds": cost.seconds}
    return found | {"process_peak_mb": cost.peak_mb, "microseconds_per_row": 1e6 * cost.seconds / rows}


def main() -> None:
    """Make a file, fit one, or measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", choices=("make", "fit", "all"), default="all")
    parser.add_argument("path", nargs="?")
    parser.add_argument("rows", nargs="?", type=int)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--formats", nargs="+", default=["parquet", "csv"])
    given = parser.parse_args()
    if given.task == "make":
        make(Path(given.path), given.rows)
    elif given.task == "fit":
        print(json.dumps(fit(Path(given.path))))
    else:
        for ending in given.formats:
            lines = []
            for rows in given.sizes:
                lines.append(measure(rows, ending))
                print(json.dumps(lines[-1]), flush=True)
            if len(lines) > 1:
                print(
                    f"{ending}: time grows as rows to the power {slope(given.sizes, [x['seconds'] for x in lines]):.2f}"
                )


if __name__ == "__main__":
    main()

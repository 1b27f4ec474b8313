"""No heuristic waits for a compiler, and only what needs SciPy imports it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"

CODE = """
import json, sys
import concordant as cc
scores = {"x": {"a": 3.0, "b": 2.0, "c": 1.0}, "y": {"b": 9.0, "c": 8.0, "a": 7.0}, "z": {"c": 5.0, "a": 4.0}}
lists = cc.from_lists(scores)
pairs = cc.Comparisons("q", None, ["a", "b", "c"], ["b", "c", "a"])
for name in sys.argv[1:]:
    cc.aggregate(lists, name)
    if "comparisons" in cc.METHODS[name].tags.accepts:
        cc.aggregate(pairs, name)
early = sorted({m.split(".")[0] for m in sys.modules})
cc.aggregate(lists, "robust-rank")
print(json.dumps([early, sorted({m.split(".")[0] for m in sys.modules})]))
"""

NAMES = (
    *("borda", "mean-rank", "median-rank", "rrf", "isr", "log-isr", "weighted-sum", "comb-mnz-rank"),
    *("comb-sum", "comb-min", "comb-max", "comb-med", "comb-anz", "comb-mnz"),
    *("condorcet", "copeland", "kemeny", "markov-chain"),
)


def test_heuristics_need_no_compiler_and_hardly_scipy() -> None:
    call = [sys.executable, "-c", CODE, *NAMES]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    early, late = json.loads(done.stdout)
    assert not set(early) & {"numba", "llvmlite", "scipy", "polars"}
    assert not set(late) & {"numba", "llvmlite", "polars"}

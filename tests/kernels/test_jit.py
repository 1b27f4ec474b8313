"""Kernels are compiled everywhere, and kept on disk where something can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"

CODE = """
import warnings
import numpy as np
import concordant as cc
votes = cc.from_lists({"x": ["a", "b", "c"], "y": ["b", "a", "c"], "z": ["a", "c", "b"]})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print("cps", *cc.aggregate(votes, "cps").ranking())
    from concordant.kernels.graph import weak_components
    print("components", *weak_components(np.array([0, 2]), np.array([1, 0]), 4))
print(*[str(w.message) for w in caught if "compiled" in str(w.message)], sep="\\n")
"""


def test_a_read_only_installation_without_a_home_compiles_and_says_once_how_to_keep_the_code(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    # A file in its place keeps the folder from being made, whoever runs the test.
    for folder in (tmp_path / "src").rglob("*/"):
        (folder / "__pycache__").write_bytes(b"")
    env = {n: v for n, v in os.environ.items() if not n.startswith(("NUMBA_", "CONCORDANT_NO_JIT"))}
    env |= {"PYTHONPATH": str(tmp_path / "src"), "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}

    def run() -> str:
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    cps, components, said, *more = run().splitlines()
    assert (cps, components) == ("cps a b c", "components 0 0 0 1")
    assert "NUMBA_CACHE_DIR" in said
    assert more == []
    # What it says to do ends the warning, and the code is kept there.
    env["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    assert run().splitlines() == [cps, components, ""]
    assert list((tmp_path / "cache").rglob("*.nbi"))

"""mypy finds in the public functions the types that surface.py and refused.py promise to users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# mypy must say so: otherwise a broken promise would pass as well.
BROKEN = """
from typing import assert_type
import concordant as cc
assert_type(cc.aggregate(cc.from_lists({"bm25": ["a"]})), cc.Labels)
"""


def test_the_types_keep_their_promises(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(BROKEN, encoding="utf-8")
    # The cache is that of `make types`, after which this takes a second or two.
    call = [sys.executable, "-m", "mypy", "--no-error-summary", HERE / "surface.py", HERE / "refused.py", broken]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)
    said = 'broken.py:4: error: Expression is of type "Consensus", not "Labels"  [assert-type]'
    assert [line.rpartition("/")[2] for line in done.stdout.splitlines()] == [said], done.stdout + done.stderr

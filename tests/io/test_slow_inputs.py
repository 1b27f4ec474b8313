"""Small inputs on which quadratic work would take minutes end in a moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# The inputs, and what they must end in.
SLOW = {
    "digits of a label": ("a.txt", "1" * 60_000 + "A qid:1 1:2\n" + "0 qid:1 1:3\n" * 3, "a.txt"),
    "digits of a score": (
        "a.trec",
        "q Q0 d 1 " + "1" * 60_000 + "A t\n" + "q Q0 e 2 1.0 t\n" * 3,
        "a.trec:1: the score",
    ),
    "a time of many digits": ("a.dat", f"1 2 3 {'9' * 5000}\n4 5 6 {'8' * 5000}\n", "a.dat"),
    "an unclosed quote": ("a.csv", 'user,item,rating\na,"b,1\n' + 'x,""y,2\n' * 30_000, "a.csv:2: a quoted field"),
    "a quote that closes late": (
        "a.csv",
        'user,item,rating\na,"' + 'x,""y,2\n' * 30_000 + '",1\nb,c\n',
        "a.csv:30003: ",
    ),
    # The name of a column, as far as anybody can tell.
    "a line of 40 MB": ("a.csv", "left,right,winner" + "x" * 40_000_000, "a.csv"),
}


@pytest.mark.parametrize("case", SLOW)
def test_small_hostile_files_end_soon(case: str, tmp_path: Path) -> None:
    name, text, said = SLOW[case]
    (tmp_path / name).write_text(text)
    program = f"import concordant as cc\ntry:\n    cc.read({str(tmp_path / name)!r})\n"
    program += "except cc.errors.ConcordantError as error:\n    print(str(error)[:2000])\n"
    # Reading takes a moment; the rest is for the imports on a slow machine.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert said in done.stdout


def test_a_long_list_that_names_its_last_item_twice_ends_soon() -> None:
    program = "import concordant as cc\ntry:\n    cc.from_lists({'x': [*map(str, range(100_000)), '99999']})\n"
    program += "except cc.errors.DuplicateError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert "item '99999' twice in instance 'q' (rows 99999 and 100000)" in done.stdout

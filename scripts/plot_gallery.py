"""Draw the plots of docs/plots.md: run the Python blocks of the page, and save the axes of each.

The page is the only source: a plot shows the `ax` of the block above it. `--only NAME` draws a single plot.
`--png FOLDER` writes bitmaps instead of the files of the page.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

PAGE = ROOT / "docs" / "plots.md"
PART = re.compile(
    r"^```python\n(?P<code>.*?)^```\s*$|^!\[(?P<caption>[^\]]*)\]\((?P<file>[^)]+)\)", re.MULTILINE | re.DOTALL
)


def pictures(text: str) -> list[str]:
    """Return the files of the pictures of a page, in order of appearance."""
    return [found["file"] for found in PART.finditer(text) if found["file"]]


def draw(only: str | None = None, folder: Path | None = None) -> list[Path]:
    """Write the pictures and return their files."""
    import matplotlib as mpl

    names: dict[str, Any] = {}
    written = []
    text = PAGE.read_text(encoding="utf-8")
    for found in PART.finditer(text):
        if found["code"]:
            line = text.count("\n", 0, found.start("code"))
            # Files that a block writes itself are not needed.
            with tempfile.TemporaryDirectory() as elsewhere, chdir(elsewhere):
                exec(compile("\n" * line + found["code"], str(PAGE), "exec"), names)
            continue
        out = PAGE.parent / found["file"]
        if only and out.stem != only:
            continue
        if folder is not None:
            out = folder / f"{out.stem}.png"
        out.parent.mkdir(parents=True, exist_ok=True)
        # Equal data give equal files: no date, and fixed ids.
        with mpl.rc_context({"svg.hashsalt": "concordant"}):
            dated = {"metadata": {"Date": None}} if out.suffix == ".svg" else {}
            names["ax"].figure.savefig(out, dpi=110, **dated)
        written.append(out)
    return written


def main() -> int:
    """Draw the requested plots; return 1 if there is no such plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", help="draw only this plot, such as scores")
    parser.add_argument("--png", metavar="FOLDER", type=Path, help="write bitmaps to this folder instead")
    asked = parser.parse_args()
    files = draw(asked.only, asked.png)
    for file in files:
        print(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}: {file.stat().st_size / 1024:.0f} KB")
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main())

"""Copy the pages, tables and figures that `concordant reproduce` wrote to docs/reproduced, and name the commit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from concordant_papers.engine import source

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reproduced"
KEPT = {".md", ".csv", ".svg"}


def stamped(index: str) -> str:
    """Return the index with the commit beside the source; pages made by other code are refused."""
    made = f"by source {source()}"
    if made not in index:
        raise SystemExit(f"index.md was not made {made}, which is the code here; run `make reproduce` again")
    changes = "+changes" if _git("status", "--porcelain", "--", "src", "papers") else ""
    return index.replace(made, f"{made}, commit {_git('rev-parse', '--short', 'HEAD')}{changes}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(folder: Path) -> None:
    """Copy the pages; pages of studies that no longer exist are removed."""
    found = sorted(path for path in folder.iterdir() if path.suffix in KEPT)
    if not any(path.name == "index.md" for path in found):
        raise SystemExit(f"{folder}: no pages of concordant reproduce in this folder")
    index = stamped((folder / "index.md").read_text(encoding="utf-8"))
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for path in found:
        shutil.copyfile(path, TARGET / path.name)
    (TARGET / "index.md").write_text(index, encoding="utf-8")
    print(f"{len(found)} files in {TARGET.relative_to(TARGET.parent.parent)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

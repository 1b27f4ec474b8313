"""Copy the pages, tables and figures that `concordant reproduce` wrote to docs/reproduced."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reproduced"
KEPT = {".md", ".csv", ".svg"}


def main(source: Path) -> None:
    """Copy the pages; pages of studies that no longer exist are removed."""
    found = sorted(path for path in source.iterdir() if path.suffix in KEPT)
    if not any(path.name == "index.md" for path in found):
        raise SystemExit(f"{source}: no pages of concordant reproduce in this folder")
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for path in found:
        shutil.copyfile(path, TARGET / path.name)
    print(f"{len(found)} files in {TARGET.relative_to(TARGET.parent.parent)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Resolve the dependencies of pyproject.toml into requirements/*.txt: plain, complete `name==version` pins.

`python scripts/lock.py` keeps the versions that are already pinned and adds missing packages. `--upgrade` takes the
newest version of everything, `--upgrade NAME...` only of those packages. Only wheels are considered (except for one
peer), so the pins install without a compiler. `dev` is resolved first, and `run` and `build` take their versions from
it, so one environment can hold them all. `lowest` has each dependency and extra at its lower bound. Run this script
with the oldest supported Python, because later ones have no wheels of these versions.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
# PyFLAGR is published as source only, its libraries already compiled inside; the Makefile allows the same.
SOURCE_ONLY = "pyflagr"


def normalise(name: str) -> str:
    """Return the normalised spelling of a package name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path) -> dict[str, str]:
    """Return name -> version of a lock file, or an empty mapping if there is no file."""
    if not path.exists():
        return {}
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return dict(line.split("==") for line in lines if line)


def group(groups: dict[str, list[str | dict[str, str]]], name: str) -> list[str]:
    """Return the requirements of a dependency group, including those of the groups it includes."""
    out: list[str] = []
    for entry in groups[name]:
        out.extend([entry] if isinstance(entry, str) else group(groups, entry["include-group"]))
    return out


def at_lower_bound(requirement: str) -> str:
    """Return `name[extra]>=1.2,<3` as `name[extra]==1.2`."""
    found = re.match(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\d.]+)", requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: the dependency {requirement!r} needs a lower bound: name>=version")
    return f"{found[1]}=={found[2]}"


def resolve(requirements: list[str], constraints: dict[str, str]) -> dict[str, str]:
    """Return the complete set of packages pip would install in an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        limits, report = Path(folder, "limits.txt"), Path(folder, "report.json")
        limits.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:", "--no-binary", SOURCE_ONLY]
        command += ["--report", str(report), "--constraint", str(limits), *requirements]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {normalise(entry["metadata"]["name"]): entry["metadata"]["version"] for entry in found}


def main() -> None:
    """Write the lock files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upgrade", nargs="*", metavar="NAME", help="take newer versions (of NAMEs only)")
    asked = parser.parse_args().upgrade

    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    run, groups = project["project"]["dependencies"], project["dependency-groups"]
    extras = [entry for extra in project["project"]["optional-dependencies"].values() for entry in extra]

    def keep(name: str) -> dict[str, str]:
        if asked == []:
            return {}
        free = {normalise(entry) for entry in asked or []}
        return {k: v for k, v in read_pins(FOLDER / f"{name}.txt").items() if normalise(k) not in free}

    dev = resolve([*run, *group(groups, "dev")], keep("dev"))
    peers = resolve(group(groups, "peers"), keep("peers"))
    # No constraints besides the bounds: the newest tools may need later versions.
    lowest = resolve([*sorted({at_lower_bound(entry) for entry in [*run, *extras]}), *group(groups, "dev")], {})
    locks = {
        "dev": ("Everything `make test` and `make lint` need.", dev),
        "run": ("What Concordant itself needs.", resolve(run, dev)),
        "build": ("What installing from this source needs.", resolve(group(groups, "build"), dev)),
        "lowest": ("What `make lowest` runs on: the dependencies and extras at their lower bounds.", lowest),
        "peers": ("The libraries `make bench` measures against.", peers),
    }
    for name, (title, pins) in locks.items():
        head = f"# {title} Written by `make lock` from pyproject.toml.\n"
        body = "".join(f"{package}=={version}\n" for package, version in sorted(pins.items()))
        (FOLDER / f"{name}.txt").write_text(head + body, encoding="utf-8")
        print(f"requirements/{name}.txt: {len(pins)} packages")


if __name__ == "__main__":
    main()

"""What a user gets by installing: a light import, complete types, the bundled sample, and locks that hold."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "concordant"
HEAVY = {"numpy", "scipy", "numba", "llvmlite", "polars", "pandas", "pyarrow", "narwhals", "typer", "rich"}


def modules_after(code: str) -> set[str]:
    """Return the top-level modules a fresh interpreter has loaded after running the code."""
    code += "\nimport sys, json; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT / "src")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing_heavy() -> None:
    loaded = modules_after("import concordant; concordant.__version__; dir(concordant)")
    assert "concordant" in loaded
    assert not loaded & HEAVY


def test_rrf_over_lists_needs_neither_compiler_nor_dataframes() -> None:
    loaded = modules_after(
        "import concordant as cc\n"
        "lists = cc.from_lists({'bm25': ['a', 'b', 'c'], 'dense': ['b', 'a'], 'rerank': ['b', 'c']})\n"
        "scores = cc.from_lists({'bm25': {'a': 7.0, 'b': 6.5}, 'dense': {'b': 0.9, 'c': 0.2}})\n"
        "for votes in (lists, scores):\n"
        "    assert cc.aggregate(votes, 'rrf').ranking(None)[0] == 'b'\n"
        "    assert cc.RRF(k=60).fit_predict(votes).ranking(None)[0] == 'b'"
    )
    assert "numpy" in loaded
    assert not loaded & {"numba", "llvmlite", "polars", "scipy", "pandas", "pyarrow", "typer", "rich"}


def test_every_public_name_resolves() -> None:
    concordant = importlib.import_module("concordant")
    assert concordant.__all__
    assert len(set(concordant.__all__)) == len(concordant.__all__)
    assert set(concordant.__all__) <= set(dir(concordant))
    for name in concordant.__all__:
        assert getattr(concordant, name) is not None


@pytest.mark.parametrize(
    "room", ["base", "data", "errors", "execution", "io", "metrics", "ranking", "report", "selection"]
)
def test_a_room_is_there_whatever_was_imported_before(room: str) -> None:
    code = f"import concordant as cc; print(cc.{room}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT / "src")
    assert (done.stdout.strip(), done.stderr) == (f"concordant.{room}", "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    concordant = importlib.import_module("concordant")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = concordant.no_such_name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    for needed in ("pip", "hatchling"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed, so that no wheel can be built without the network")
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("concordant-*.whl")
    return zipfile.ZipFile(built)


def test_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    ours = {name for name in wheel.namelist() if ".dist-info/" not in name}
    # A cache folder, or a kernel numba compiled beside its source, is not part of the package.
    left = {".pyc", ".nbi", ".nbc"}
    source = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in left
    }
    assert ours == source
    assert {"concordant/py.typed", "concordant/__init__.pyi", "concordant/cli/app.py"} <= ours
    assert any(name.startswith("concordant/data/sample/") for name in ours)


def test_wheel_carries_licence_command_and_version(wheel: zipfile.ZipFile) -> None:
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    version = importlib.import_module("concordant").__version__
    assert info == f"concordant-{version}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {version}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert "concordant = concordant.cli.app:main" in wheel.read(f"{info}/entry_points.txt").decode()


def read_lock(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for line in pins:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.+]*", line), f"not a plain pin: {line!r}"
    assert len({line.split("==")[0] for line in pins}) == len(pins)
    return dict(line.split("==") for line in pins)


def test_locks_are_plain_pins_that_satisfy_the_project() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    groups = project["dependency-groups"]
    run, build, dev, peers = (read_lock(name) for name in ("run", "build", "dev", "peers"))
    wanted = [
        (run, project["project"]["dependencies"]),
        (build, groups["build"]),
        (dev, [entry for entry in groups["dev"] if isinstance(entry, str)]),
        (peers, groups["peers"]),
    ]
    for lock, requirements in wanted:
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(lock[canonicalize_name(requirement.name)]), str(requirement)
    # One environment holds all three: `make demo` fills it with run and build, `make test` adds dev.
    assert run.items() <= dev.items()
    assert build.items() <= dev.items()


def test_the_lowest_versions_are_the_lower_bounds() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lowest = read_lock("lowest")
    extras = [entry for extra in project["optional-dependencies"].values() for entry in extra]
    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        (bound,) = (part.version for part in requirement.specifier if part.operator == ">=")
        assert Version(lowest[canonicalize_name(requirement.name)]) == Version(bound), f"{requirement}: run make lock"


def test_the_citation_is_of_this_version() -> None:
    version = importlib.import_module("concordant").__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_what_people_and_forges_are_told_to_make_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", ".github/workflows/ci.yml", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        told = [
            word
            for line in re.findall(r"(?:\$ |`|run: |^)make ([a-z ]+)", text, re.MULTILINE)
            for word in re.split(" {2}", line)[0].split()
        ]
        assert set(told) <= targets, name

"""What every test may ask for: the real data, the golden cases, and hypothesis with a fixed seed.

Environment variables the suite listens to:

- `CONCORDANT_DATA`: the folder of real data sets. Without it `../shared/data` beside the repository is used,
  and where that is absent too, the tests marked `data` are skipped.
- `CONCORDANT_FUZZ=full`: many more hypothesis examples than `make test` can afford.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.report import browser

# Haystack counts its users over the network unless told not to, and reads this when it is imported.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"

# derandomize: a failure on one machine is a failure on all of them. No deadline: the first call of a kernel
# compiles it, and a timing is never a test.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("full", parent=settings.get_profile("fixed"), max_examples=2000)
settings.load_profile("full" if os.environ.get("CONCORDANT_FUZZ") == "full" else "fixed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that load a golden case, so that they can be run by themselves."""
    for item in items:
        if "golden" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.golden)


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """Let finished files reach the disk when the system likes: what a power failure leaves is nothing a test can see.

    The tests finish thousands of small files. Processes that they start still wait for each, as users' do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real data sets, or skip: they may not be redistributed with the project."""
    given = os.environ.get("CONCORDANT_DATA")
    folder = Path(given) if given else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder (set CONCORDANT_DATA to where it is)")
    return folder


@pytest.fixture(scope="session")
def golden() -> Callable[[str], dict[str, Any]]:
    """Return a loader: `golden("17_simple_baselines")` is the content of that file of tests/golden."""

    def load(name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
        return content

    return load


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    """Return a running browser, where one is installed."""
    program = browser.find()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(browser.NAMES)} is installed")
    with browser.started(program) as running:
        yield running


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that installs a package for one test: its name, its code and its groups of entry points."""
    from concordant._registry import Registry
    from concordant.base.registry import METHODS
    from concordant.io.formats import FORMATS
    from concordant.metrics.ranking import METRICS

    registries: tuple[Registry[Any], ...] = (METHODS, METRICS, FORMATS)
    for registry in registries:
        # Modules that a test imports must not register in what it leaves behind.
        registry.own()
        monkeypatch.setattr(registry, "_complete", False)
        monkeypatch.setattr(registry, "entries", dict(registry.entries))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    def install(name: str, code: str, groups: dict[str, dict[str, str]]) -> None:
        # The module is taken out of sys.modules again when the test ends.
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.delitem(sys.modules, name)
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        sections = ("\n".join([f"[{g}]", *(f"{n} = {v}" for n, v in points.items())]) for g, points in groups.items())
        (about / "entry_points.txt").write_text("\n\n".join(sections) + "\n")

    return install

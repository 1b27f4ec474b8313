"""The command as a process: what it imports, how it ends, what it says when it is used wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from concordant import __version__
from concordant.cli._group import COMMANDS, build

SOURCE = Path(__file__).resolve().parents[2] / "src"
RUN = "from concordant.cli.app import main; import sys; sys.argv = ['concordant', *{args!r}]; main()"
# Run the command line, then print what was imported for it.
TELL = """
import sys, json, contextlib, io
from concordant.cli.app import main
sys.argv = ['concordant', *{args!r}]
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}} | set(sys.modules))))
"""


def modules_after(*args: str) -> set[str]:
    """Return the modules a fresh interpreter has imported after this command."""
    done = subprocess.run(
        [sys.executable, "-c", TELL.format(args=args)], capture_output=True, text=True, check=False, cwd=SOURCE
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_version_imports_nothing() -> None:
    heavy = {"numpy", "polars", "numba", "scipy", "typer", "rich", "click", "typing", "threading"}
    assert not modules_after("--version") & heavy


def test_help_imports_nothing_heavy() -> None:
    loaded = modules_after("--help")
    assert "typer" in loaded
    assert not loaded & {"numpy", "polars", "numba", "scipy"}
    assert not modules_after("compare", "--help") & {"numpy", "polars", "numba", "scipy"}


def test_only_the_module_of_the_command_is_imported() -> None:
    loaded = {name for name in modules_after("methods") if name.startswith("concordant.cli.")}
    assert "concordant.cli.methods" in loaded
    assert not loaded & {f"concordant.cli.{name}" for name in COMMANDS if name != "methods"}


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "concordant", flag], capture_output=True, text=True, check=True, cwd=SOURCE
    )
    assert done.stdout == f"concordant {__version__}\n"
    assert CliRunner().invoke(build(), [flag]).stdout == done.stdout


def test_alone_it_shows_the_help() -> None:
    alone, asked = CliRunner().invoke(build(), []), CliRunner().invoke(build(), ["--help"])
    assert alone.exit_code == asked.exit_code == 0
    assert alone.stdout == asked.stdout
    for command in COMMANDS:
        assert f"\n  {command} " in alone.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_fits(command: str) -> None:
    result = CliRunner().invoke(build(), [command, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: root {command} [OPTIONS]")
    assert "--debug" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["agregate"], "Did you mean 'aggregate'"),
        (["aggregate"], "Missing argument 'INPUT'"),
        (["aggregate", "x", "--no-such"], "No such option"),
        (["aggregate", "x", "-p", "k"], "expected NAME=VALUE"),
        (["aggregate", "x", "--model", "m", "--method", "rrf"], "so --method cannot be given with it"),
        (["aggregate", "x", "--model", "m", "-p", "k=3"], "-p k cannot be given with it. Only unknown_experts, level"),
        (["fit", "x", "-m", "mpm"], "Missing option '--output'"),
        (["fit", "x", "-o", "m"], "Missing option '--method'"),
        (["fit", "x", "-m", "m", "-o", "o", "--fold", "1", "--validation-part", "0.2"], "use one of them"),
        (["fit", "x", "-m", "m", "-o", "o", "--fold", "0"], "--fold"),
        (["fit", "x", "-m", "m", "-o", "o", "--validation-labels", "q"], "goes with --validation INPUT"),
        (["fit", "x", "-m", "m", "-o", "o", "--validation-part", "1.5"], "must be a number between 0 and 1"),
        (["aggregate", "x", "--weights", "a"], "expected EXPERT=WEIGHT"),
        (["aggregate", "x", "--expert-from", "name"], "must be one of tag, file"),
        (["aggregate", "x", "--columns", "left"], "expected ROLE=COLUMN"),
        (["aggregate", "x", "--top", "0"], "--top"),
        (["aggregate", "x", "--threads", "0"], "--threads"),
        (["evaluate", "x", "--convention", "mine"], "must be one of trec, letor, paper"),
        (["compare", "x", "--folds", "1"], "must be a whole number from 2 on, given or none"),
        (["compare", "x", "--folds", "few"], "must be a whole number from 2 on, given or none"),
        (["compare", "x", "--seeds", "0"], "--seeds"),
        (["compare", "x", "--validation-part", "0"], "must be a number between 0 and 1"),
        (["compare", "x", "--methods", "rrf(k=1"], "expected a name or name(param=value)"),
        (["compare", "x", "--tests", "z"], "must be one of t, fisher, wilcoxon"),
        (["compare", "x", "--markdown", "--latex"], "choose one"),
        (["convert", "x"], "Missing option '--output'"),
        (["convert", "x", "-o", "y", "--part", "z"], "must be one of"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(args: list[str], says: str) -> None:
    result = CliRunner().invoke(build(), args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in " ".join(result.stderr.split())


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes one module the only one to add commands."""

    def only(source: str, *names: str) -> None:
        module = ModuleType("shop_commands")
        exec(source, module.__dict__)
        monkeypatch.setitem(sys.modules, "shop_commands", module)
        found = [EntryPoint(name, f"shop_commands:{name}", "concordant.commands") for name in names]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: found)

    return only


PLUGIN = """
from concordant.cli import Quiet, Session, Table
def shop(city: str, quiet: Quiet = False) -> None:
    "Show what a city ranks first."
    with Session("shop", {"city": city}, quiet=quiet) as session:
        session.show(Table(["city"], [[city]]))
def aggregate() -> None:
    raise SystemExit(9)
"""


def test_other_packages_add_commands_and_replace_none(plugins: Callable[..., None]) -> None:
    plugins(PLUGIN, "shop", "aggregate")
    done = CliRunner().invoke(build(), ["shop", "Graz"])
    assert (done.exit_code, done.stdout.split()) == (0, ["city", "Graz"])
    shown = CliRunner().invoke(build(), ["--help"]).stdout
    assert "Show what a city ranks first." in shown
    assert CliRunner().invoke(build(), ["aggregate", "--help"]).exit_code == 0


def test_a_command_of_a_package_that_is_not_installed_says_where_it_is(plugins: Callable[..., None]) -> None:
    plugins("")
    done = CliRunner().invoke(build(), ["reproduce", "all"])
    assert done.exit_code == 2
    assert "concordant-papers" in done.stderr
    assert "pip install ./papers" in done.stderr

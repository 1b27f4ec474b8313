"""Cells are computed once, in any number of processes, and a page does not tell how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from concordant.errors import DataError
from concordant_papers.engine import Cell, Setting, Study, compute
from concordant_papers.pages import Page

SETTING = Setting(None, quick=True)


def squared(x: int, log: str) -> dict[str, float]:
    with open(log, "a") as file:
        file.write(f"{x}\n")
    return {"value": x * x / 3}


def failing(x: int) -> None:
    raise DataError(f"no item {x}")


def dying() -> None:
    os._exit(3)


def slow(x: int, log: str) -> int:
    with open(log, "a") as file:
        file.write(f"{x}\n")
    time.sleep(0.3)
    return x


def endless(log: str) -> None:
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(600)


def study(cells: list[Cell]) -> Study:
    return Study("squares", "nobody", "Squares", (), lambda _: cells, lambda *_: Page())


def squares(log: Path, n: int = 5) -> list[Cell]:
    return [Cell(f"x = {x}", squared, {"x": x, "log": str(log)}) for x in range(n)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_finished_cells_are_not_computed_again(tmp_path: Path, jobs: int) -> None:
    log = tmp_path / "log"
    first = compute([study(squares(log))], SETTING, tmp_path, jobs=jobs)
    assert first.values["squares"]["x = 4"] == {"value": 16 / 3}
    assert sorted(log.read_text().split()) == list("01234")
    again = compute([study(squares(log, 7))], SETTING, tmp_path, jobs=jobs)
    assert sorted(log.read_text().split()) == list("0123456")
    assert again.resumed == 5
    assert {k: v for k, v in again.values["squares"].items() if k in first.values["squares"]} == first.values["squares"]
    compute([study(squares(log, 1))], SETTING, tmp_path, jobs=jobs, fresh=True)
    assert log.read_text().split().count("0") == 2


@pytest.mark.parametrize("resumed", [False, True])
def test_cells_come_in_the_order_of_the_plan_whichever_is_finished_first(tmp_path: Path, resumed: bool) -> None:
    log = tmp_path / "log"
    # Cells that take longer start first.
    cells = [cell._replace(seconds=float(n)) for n, cell in enumerate(squares(log))]
    bad = [Cell(f"bad {x}", failing, {"x": x}, seconds=float(x)) for x in range(3)]
    if resumed:
        compute([study(cells[2:4])], SETTING, tmp_path, jobs=1)
    found = compute([study([*cells, *bad])], SETTING, tmp_path, jobs=1)
    assert log.read_text().split() != list("01234")
    assert list(found.values["squares"]) == list(found.seconds["squares"]) == [cell.key for cell in cells]
    assert list(found.failed["squares"]) == [cell.key for cell in bad]
    assert found.resumed == 2 * resumed


def test_other_arguments_and_changed_files_are_computed_anew(tmp_path: Path) -> None:
    log, data = tmp_path / "log", tmp_path / "data"
    data.mkdir()
    (data / "a").write_text("1")

    def cells(x: int) -> list[Cell]:
        return [Cell("only", squared, {"x": x, "log": str(log)}, reads=(data,))]

    compute([study(cells(2))], SETTING, tmp_path, jobs=1)
    assert compute([study(cells(3))], SETTING, tmp_path, jobs=1).values["squares"]["only"] == {"value": 3.0}
    assert compute([study(cells(2))], SETTING, tmp_path, jobs=1).resumed == 1
    (data / "a").write_text("22")
    assert compute([study(cells(2))], SETTING, tmp_path, jobs=1).resumed == 0


def test_cells_are_computed_anew_where_code_changed_that_they_had_loaded(tmp_path: Path) -> None:
    """A package with a model, which the study uses, and a report, which it does not."""
    package = tmp_path / "toy_study"
    package.mkdir()
    code = {
        "__init__": "",
        "model": "rate = 1",
        "report": "title = 1",
        "cells": "def run():\n    from toy_study.model import rate\n    return rate",
    }
    program = (
        "from toy_study.cells import run\n"
        "from tests.papers.test_engine import *\n"
        f"found = compute([study([Cell('rate', run, {{}})])], SETTING, Path({str(tmp_path / 'cells')!r}), jobs=1)\n"
        "print(found.resumed, found.values['squares']['rate'])\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    def outcome(**changes: str) -> str:
        for name, text in (code | changes).items():
            (package / f"{name}.py").write_text(text + "\n")
        command = [sys.executable, "-B", "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert outcome() == "0 1\n"
    assert outcome(report="title = 2") == "1 1\n"
    assert outcome(model="rate = 20") == "0 20\n"
    assert outcome(model="rate = 20") == "1 20\n"
    (package / "report.py").unlink()
    assert outcome(model="rate = 20", cells=code["cells"] + " + 1") == "0 21\n"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"value": 1}', "\x00\x01"])
def test_a_damaged_file_is_computed_again(tmp_path: Path, content: str) -> None:
    log = tmp_path / "log"
    compute([study(squares(log, 1))], SETTING, tmp_path, jobs=1)
    (file,) = tmp_path.glob("squares/*.json")
    file.write_text(content)
    assert compute([study(squares(log, 1))], SETTING, tmp_path, jobs=1).resumed == 0
    assert json.loads(file.read_text())["value"] == {"value": 0.0}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_fails_leaves_the_others_alone(tmp_path: Path, jobs: int) -> None:
    log = tmp_path / "log"
    cells = [*squares(log), Cell("bad", failing, {"x": 7})]
    found = compute([study(cells)], SETTING, tmp_path, jobs=jobs)
    assert len(found.values["squares"]) == 5
    assert "DataError: no item 7" in found.failed["squares"]["bad"]
    assert not list(tmp_path.glob("squares/bad*"))


def test_a_value_that_json_cannot_hold_is_a_failure(tmp_path: Path) -> None:
    found = compute([study([Cell("set", set, {})])], SETTING, tmp_path, jobs=1)
    assert "TypeError" in found.failed["squares"]["set"]


def test_a_process_that_dies_is_named(tmp_path: Path) -> None:
    found = compute([study([Cell("dead", dying, {}), *squares(tmp_path / "log", 1)])], SETTING, tmp_path, jobs=2)
    assert "dead" in found.failed["squares"]


def test_killed_at_any_time_the_rest_is_all_that_is_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "from tests.papers.test_engine import *\n"
        f"cells = [Cell(f'x = {{x}}', slow, {{'x': x, 'log': {str(log)!r}}}) for x in range(6)]\n"
        f"print(compute([study(cells)], SETTING, Path({str(tmp_path)!r}), jobs=1).values)\n"
    )
    root = Path(__file__).parents[2]
    command: list[Any] = [sys.executable, "-c", program]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL)
    while not list(tmp_path.glob("squares/*.json")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(list(tmp_path.glob("squares/*.json")))
    assert 0 < done < 6
    log.unlink()
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert all(f"'x = {x}': {x}" in answer for x in range(6))
    assert len(log.read_text().split()) == 6 - done


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
        # One that has ended and that nobody has asked about is still listed.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_processes_end_with_the_one_that_was_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "from tests.papers.test_engine import *\n"
        "if __name__ == '__main__':\n"
        f"    cells = [Cell(f'x = {{x}}', endless, {{'log': {str(log)!r}}}) for x in range(2)]\n"
        f"    compute([study(cells)], SETTING, Path({str(tmp_path)!r}), jobs=2)\n"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, script], cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    while not log.exists() or len(log.read_text().split()) < 2:
        time.sleep(0.05)
        assert process.poll() is None
    workers = [int(number) for number in log.read_text().split()]
    assert all(map(is_running, workers))
    process.kill()
    process.wait()
    ends = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not any(map(is_running, workers))

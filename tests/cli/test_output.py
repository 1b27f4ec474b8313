from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from pathlib import Path

import pytest
import typer

from concordant.base.contract import FitInfo
from concordant.cli._output import Progress, Session, Table, format_number
from concordant.errors import ConcordantWarning, DataError, ParseError, Setting, visible, warn


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0163934, "0.01639"), (12.0, "12"), (-0.0, "0"), (1234.5678, "1235"), (2.5, "2.500"), (float("nan"), "")],
)
def test_numbers_have_four_figures(value: float, text: str) -> None:
    assert format_number(value) == text


def test_tables_align_wide_letters_and_escape_control_characters() -> None:
    table = Table(["item", "score"], [["寿司", "1"], ["a\tb\n", "10"]], title="above", caption="below")
    assert table.to_text().splitlines() == [
        "above",
        "item    score",
        "寿司        1",
        "a\\tb\\n     10",
        "below",
    ]
    assert visible("plain é") == "plain é"


def test_a_warning_is_one_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Session("x", {}) as session:
        for _ in range(2):
            warnings.warn("two\n  lines", ConcordantWarning, stacklevel=1)
    assert session.warnings == ["two lines"]
    assert capsys.readouterr().err == "warning: two lines\n"


def test_quiet_keeps_warnings_for_json_only(capsys: pytest.CaptureFixture[str]) -> None:
    with Session("x", {"a": 1}, quiet=True, as_json=True) as session:
        session.warn("careful")
        session.note("a note")
        session.say("text")
        session.show(Table(["a"], [["b"]]))
        session.results = {"score": float("nan"), "rows": [1, 2.5]}
        session.fit_info = FitInfo(n_iter=3)
    captured = capsys.readouterr()
    assert captured.err == ""
    content = json.loads(captured.out)
    assert list(content) == ["version", "command", "params", "warnings", "results", "fit_info"]
    assert content["command"] == "x"
    assert content["params"] == {"a": 1}
    assert content["warnings"] == ["careful"]
    assert content["results"] == {"score": None, "rows": [1, 2.5]}
    assert content["fit_info"]["n_iter"] == 3


def test_an_error_of_ours_is_a_message_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, Session("x", {}, as_json=True):
        raise ParseError("runs/a.trec", 7, "expected 6 fields, found 5.")
    captured = capsys.readouterr()
    assert caught.value.exit_code == 1
    assert captured.err == "ParseError: runs/a.trec:7: expected 6 fields, found 5.\n"
    assert captured.out == ""


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), Session("x", {}, debug=True):
        raise DataError("no data")
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith("DataError: no data\n")


def test_an_error_of_the_system_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), Session("x", {}):
        Path("/no/such/file").read_bytes()
    assert capsys.readouterr().err == "FileNotFoundError: /no/such/file: No such file or directory\n"


def test_an_unexpected_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), Session("x", {}):
        _ = 1 / 0


def test_an_interrupt_exits_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, Session("x", {}):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130


def test_the_warning_filters_and_threads_are_as_before_afterwards() -> None:
    from concordant.execution import n_threads

    before, shown = n_threads(), warnings.showwarning
    with Session("x", {}, threads=1):
        assert n_threads() == 1
    assert n_threads() == before
    assert warnings.showwarning is shown


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Session("x", {}) as session, session.progress("work", 3) as bar:
        assert type(bar) is Progress
        bar.update("more", advance=1)
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal_shows_when_work_lasts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import time

    from concordant.cli import _output

    monkeypatch.setattr(_output, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with Session("x", {}) as session:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        with session.progress("counting sheep", 2) as bar:
            bar.update(advance=1)
            time.sleep(0.5)
    assert "counting sheep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "settings", "said", "heard"),
    [
        (
            "-p {name}={value}",
            [Setting("unknown_experts", "ignore")],
            "or pass unknown_experts='ignore'.",
            "or pass -p unknown_experts=ignore.",
        ),
        ("m({name}={value})", [Setting("k", 6), Setting("k", 60)], "k=60 or k=6", "m(k=60) or m(k=6)"),
        ("--read {name}={value}", [Setting("self_pairs", "drop")], "self_pairs='drop' to", "--read self_pairs=drop to"),
        ("--read {name}={value}", [], "Pass layout='ranks' (--format ranks)", "Pass layout='ranks' (--format ranks)"),
        ("--read {name}={value}", [], "Pass missing=('',) for", "Pass missing=('',) for"),
    ],
)
def test_advice_about_parameters_is_given_in_options(
    capsys: pytest.CaptureFixture[str], form: str, settings: list[Setting], said: str, heard: str
) -> None:
    session = Session("x", {})
    session.setting = form
    with session:
        warn(said, ConcordantWarning, *settings)
    with pytest.raises(typer.Exit), session:
        raise DataError(said).advising(*settings)
    assert capsys.readouterr().err == f"warning: {heard}\nDataError: {heard}\n"


def test_errors_keep_the_settings_they_advise_between_processes() -> None:
    advised = Setting("duplicates", "best")
    for error in (DataError(f"Pass {advised}.").advising(advised), ParseError("a", 1, "no").advising(advised)):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.settings) == (str(error), (advised,))


def test_a_command_may_end_with_a_code_after_all_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session("x", {}, as_json=True, quiet=True)
    session.results, session.code = 1, 130
    with pytest.raises(typer.Exit) as ended, session:
        session.complain("interrupted")
    assert ended.value.exit_code == 130
    captured = capsys.readouterr()
    assert json.loads(captured.out)["results"] == 1
    assert captured.err == "interrupted\n"


def test_a_bar_tells_how_a_training_stands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from concordant.cli import _output
    from concordant.execution import report_progress, report_status

    monkeypatch.setattr(_output, "PATIENCE", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Session("x", {}) as session, session.progress("fitting crf", 1) as bar:
        report_progress(30, 100)
        report_status("ndcg@10 0.5123 at pass 20")
        deadline = time.monotonic() + 10
        while "0.5123" not in (seen := capsys.readouterr().err) and time.monotonic() < deadline:
            time.sleep(0.05)
        bar.update(advance=1)
    assert "fitting crf: ndcg@10 0.5123 at pass 20" in seen


def test_the_traceback_of_an_unexpected_error_does_not_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from concordant.cli.app import _show_unexpected

    _show_unexpected(KeyError, KeyError(), None)
    _show_unexpected(ValueError, ValueError("q\x1b[2J\x9b"), None)
    assert capsys.readouterr().err == "KeyError\nValueError: q\\x1b[2J\\x9b\n"

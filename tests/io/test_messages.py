"""However long what a message quotes is, the message stays short."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.attack.files import CASES

import concordant as cc
from concordant.errors import ConcordantError

# Longer than what is looked at first of a file (64 KiB).
LONG = "Z" * 70_000


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case.text and not case.beside])
def test_a_long_field_gives_a_short_message(case: str, tmp_path: Path) -> None:
    text, read = CASES[case].data.decode(), CASES[case].read
    path = tmp_path / CASES[case].name
    said: list[str] = []
    for n, field in enumerate(list(re.finditer(r'[^\s,:{}"#=]+', text))[:8]):
        everything = (
            LONG,
            field[0] + LONG,
            "-" + "1" * len(LONG),
            f"{LONG} {LONG}",
            f"{LONG},{LONG}",
            f"{LONG}\n{LONG}",
        )
        # Half of it at one field, the other half at the next.
        for put in everything[n % 2 :: 2]:
            # File systems write the content of a file to the disk at once if it replaces another content.
            path.unlink(missing_ok=True)
            path.write_text(text[: field.start()] + put + text[field.end() :])
            for reader in (read, cc.read):
                with warnings.catch_warnings(record=True) as given:
                    warnings.simplefilter("always")
                    try:
                        reader(path)
                    except ConcordantError as error:
                        said.append(str(error))
                said += [str(warning.message) for warning in given]
    assert said
    assert max(map(len, said)) < 3000


def test_containers_give_short_messages() -> None:
    q, e, i = f"q{LONG}", f"e{LONG}", f"i{LONG}"
    both = cc.Preferences([q, q], [e, e], [i, "b"], [1, 2])
    c = cc.aggregate(both)
    attempts: list[Callable[[], Any]] = [
        lambda: cc.from_lists({e: [i, i]}, q),
        lambda: cc.from_lists({e: i}, q),
        lambda: cc.from_lists({e: {i: LONG}}, q),
        lambda: cc.from_lists({e: {i: float("inf")}}, q),
        lambda: cc.from_lists({e: [i, object()]}, q),
        lambda: cc.Preferences([q], [e], [i], [0]),
        lambda: cc.Preferences([q], [e], [i], [LONG]),
        lambda: cc.Preferences([q, q], [e, e], [i, i], [1, 2]),
        lambda: cc.Preferences([q], [e], [i], [1], items=[(q, i), (q, i)]),
        lambda: cc.Preferences([q], [e], [i], [1], items=[(q, "b")]),
        lambda: cc.Preferences([q], [e], [i], [1], experts=["a"]),
        lambda: cc.Preferences([q], [e], [i], [1], experts=[e, e]),
        lambda: cc.Preferences([q], [e], [i], [1], weight={e: -1}),
        lambda: cc.Preferences(q, e, i, [1]),
        lambda: cc.Preferences([q], [e], [i], [1], kind=LONG),  # type: ignore[arg-type]
        lambda: both[LONG],
        lambda: both[[LONG]],
        lambda: both.select_experts([LONG]),
        lambda: both.drop_experts([LONG]),
        lambda: both.with_weights({LONG: 1}),
        lambda: both.with_missing({LONG: "below"}),
        lambda: cc.Labels([q, q], [i, i], [1, 2]),
        lambda: cc.concat([cc.Labels([q], [i], [1]), cc.Labels([q], [i], [2])]),
        lambda: cc.Features([q], [i], [[LONG]]),
        lambda: cc.Consensus([q], [i], [float("nan")]),
        lambda: c.ranking(LONG),
        lambda: c.probability_better(i, LONG),
        lambda: cc.Comparisons([q], [e], [i], [i]),
        lambda: cc.from_frame(pl.DataFrame({LONG: [1], "winner" + "_" * 90_000: [1], "loser": [2]})),
        lambda: cc.from_frame(pl.DataFrame({"instance": [q], "expert": [e], "item": [i], "rank": [0]})),
        lambda: cc.from_frame(pl.DataFrame({"instance": [q], "expert": [e], "item": [i], "rank": [LONG]})),
        lambda: cc.from_frame(pl.DataFrame({"expert": [e, e], "item": [i, i], "rank": [1, 2]})),
        lambda: cc.read(LONG),
        lambda: cc.read([f"{LONG}*"]),
        lambda: cc.read(__file__, LONG),
        lambda: cc.read(__file__, columns={LONG: 1}),
        lambda: cc.write(c, LONG),
        lambda: cc.write(c, "x.csv", LONG),
        lambda: cc.write(cc.Labels([q + " "], [i], [1]), "x.qrels"),
        lambda: cc.write(cc.Labels([q + " "], [i], [1]), "x.csv"),
        lambda: cc.write(cc.Features([q + " "], [i], [[1]]), "x.svm"),
    ]
    for attempt in attempts:
        with pytest.raises(ConcordantError) as caught:
            attempt()
        assert len(str(caught.value)) < 3000, inspect.getsource(attempt)
    assert len(repr(both.items)) < 3000

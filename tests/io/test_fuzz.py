"""Readers under fuzzing: whatever bytes come, a reader returns a container or raises one of Concordant's own errors.

Every error must name the file, and a ParseError the line. The corpus is small valid files of every format plus the
heads of real files where they are there; inputs are bounded in size and number. CONCORDANT_FUZZ=full runs over 20,000.
"""

from __future__ import annotations

import gzip
import inspect
import os
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import concordant as cc
from concordant.errors import ConcordantError, ParseError

FULL = os.environ.get("CONCORDANT_FUZZ") == "full"
PER_CASE = 1600 if FULL else 60
LARGEST = 20_000

_AGG = "".join(
    f"{i % 3} qid:{q} 1:{i + 1} 2:{'NULL' if i % 2 else 7 - i} 3:NULL #docid = G{q}-{i} inc = 1 prob = 0.5\n"
    for q in (10, 11)
    for i in range(5)
)
_SOC = """# FILE NAME: a.toc
# TITLE: Small
# DATA TYPE: toc
# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 6
# NUMBER UNIQUE ORDERS: 2
# ALTERNATIVE NAME 1: a
# ALTERNATIVE NAME 2: b
# ALTERNATIVE NAME 3: c
4: 1,2,3
2: 3,{1,2}
"""


def _reader(name: str, path: Path, **options: Any) -> Any:
    return getattr(cc, name)(path, **options)


SEEDS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "run": (
        "bm25.trec",
        "".join(f"{q} Q0 doc-{i} {i} {9 - i}.5 bm25\n" for q in (301, 302) for i in range(1, 6)),
        partial(_reader, "read_runs"),
    ),
    "tabs": (
        "t.trec",
        "".join(f"1\tQ0\td{i}\t{i}\t{1 / i:.3f}\tx\n" for i in range(1, 9)),
        partial(_reader, "read_runs"),
    ),
    "qrels": ("qrels.txt", "".join(f"301 0 doc-{i} {i % 3}\n" for i in range(8)), partial(_reader, "read_labels")),
    "agg": ("agg.txt", _AGG, partial(_reader, "read_letor")),
    "features": (
        "f.txt",
        "".join(f"{i % 3} qid:1 1:0.{i} 2:1e-3 # docid = d{i}\n" for i in range(7)),
        partial(_reader, "read_features"),
    ),
    "preflib": ("a.toc", _SOC, partial(_reader, "read_preflib")),
    "ratings": (
        "r.csv",
        "user,item,rating\n" + "".join(f"u{i % 3},m{i},{i % 5 + 1}\n" for i in range(9)),
        partial(_reader, "read_ratings"),
    ),
    "movielens": (
        "u.data",
        "".join(f"{i % 3 + 1}\t{i + 1}\t{i % 5 + 1}\t88\n" for i in range(9)),
        partial(_reader, "read_ratings"),
    ),
    "ranks": ("k.csv", ",P1,P2,P3\nA1,1,2,3\nA2,3,1,2\nA3,2,3,1\n", partial(_reader, "read_rankings", layout="ranks")),
    "orders": ("o.csv", "rank1,rank2,rank3\nx,y,z\ny,z,\nz,x,y\n", partial(_reader, "read_rankings", layout="orders")),
    "votes": (
        "v.csv",
        "left,right,winner,judge\na,b,left,j1\nb,c,tie,j2\na,c,right,j1\nc,a,tie (bothbad),j3\n",
        partial(_reader, "read_comparisons"),
    ),
    "jsonl": (
        "v.jsonl",
        "".join(f'{{"winner": "m{i % 3}", "loser": "m{(i + 1) % 3}"}}\n' for i in range(6)),
        partial(_reader, "read_comparisons"),
    ),
    "anything": ("x.txt", "301 Q0 d1 1 2.5 x\n301 Q0 d2 2 1.5 x\n", partial(_reader, "read")),
}

REAL: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "agg": ("MQ2008-agg/Fold1/test.txt", partial(_reader, "read_letor")),
    "features": ("lightgbm-lambdarank/rank.test", partial(_reader, "read")),
    "ltr46": ("MQ2008-ltr46-fold1/Fold1-test.txt", partial(_reader, "read_features")),
    "qrels": ("trec3-adhoc/T3-j.txt", partial(_reader, "read_labels")),
    "sushi": ("preflib/14-sushi/00014-00000001.soc", partial(_reader, "read_preflib")),
    "skate": ("preflib/06-skate/00006-00000001.toc", partial(_reader, "read_preflib")),
    "movielens": ("movielens-100k/u.data", partial(_reader, "read_ratings")),
    "votes": ("llmfao-pairwise/llmfao.csv", partial(_reader, "read_comparisons")),
}

TOKENS = [
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"NULL",
    b"",
    b"\x00",
    b"\xff\xfe",
    b"999999999999999999999",
    b"0",
    b"qid:",
    b"{",
    b"}",
]
TOKENS += [
    b'"',
    b"#",
    b"\r\n",
    b"\n\n",
    b"  ",
    b"\t",
    b",",
    b":",
    "é".encode(),
    b"1.5.2",
    b"tie",
    b"\xef\xbb\xbf",
    b"null",
    b"[1",
]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with one to four small damages."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if not out:
            return bytes(out)
        at = chance.randrange(len(out))
        kind = chance.randrange(8)
        if kind == 0:
            out[at] = chance.randrange(256)
        elif kind == 1:
            del out[at : at + chance.randint(1, 12)]
        elif kind == 2:
            out[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            out = out[:at]
        elif kind == 4:
            lines = out.split(b"\n")
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
            out = bytearray(b"\n".join(lines))
        elif kind == 5:
            lines = out.split(b"\n")
            chance.shuffle(lines)
            out = bytearray(b"\n".join(lines))
        elif kind == 6:
            words = out.split(b" ")
            words[chance.randrange(len(words))] = chance.choice(TOKENS)
            out = bytearray(b" ".join(words))
        else:
            fields = out.split(b",")
            fields[chance.randrange(len(fields))] = chance.choice(TOKENS)
            out = bytearray(b",".join(fields))
    return bytes(out[:LARGEST])


def attack(name: str, data: bytes, read: Callable[[Path], Any], folder: Path, n: int, seed: str) -> Counter[str]:
    """Read n damaged copies and count what happened; anything but a container or an error of ours fails."""
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    for i in range(n):
        damaged = mutate(data, chance)
        if i % 25 == 24:
            damaged = mutate(gzip.compress(damaged), chance)
        path = folder / name
        path.write_bytes(damaged)
        error = _error_of(read, path)
        seen[type(error).__name__ if error else "read"] += 1
        if error is None:
            continue
        evidence = f"{type(error).__name__}: {error}\nfrom {damaged[:2000]!r}"
        assert isinstance(error, ConcordantError), evidence
        assert name in str(error), f"the file is not named: {evidence}"
        if isinstance(error, ParseError) and damaged.strip() and damaged[:2] != b"\x1f\x8b":
            assert error.line is not None, f"no line is named: {evidence}"
    return seen


def _error_of(read: Callable[[Path], Any], path: Path) -> BaseException | None:
    """Return what reading the file raises; a panic below Python is no Exception and must be caught as well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the point of the test
        return error
    return None


@pytest.mark.parametrize("case", SEEDS)
def test_damaged_small_files_are_read_or_refused_by_name(case: str, tmp_path: Path) -> None:
    name, text, read = SEEDS[case]
    clean = tmp_path / name
    clean.write_text(text)
    read(clean)
    seen = attack(name, text.encode(), read, tmp_path, PER_CASE, case)
    sys.stdout.write(f"{case}: {sum(seen.values())} inputs, {dict(seen)}" + "\n")
    assert seen["read"] > 0
    assert len(seen) > 1, "no damage was ever noticed"


@pytest.mark.data
@pytest.mark.parametrize("case", REAL)
def test_damaged_real_files_are_read_or_refused_by_name(case: str, tmp_path: Path, data_dir: Path) -> None:
    relative, read = REAL[case]
    source = data_dir / relative
    head = source.read_bytes()[:LARGEST].rsplit(b"\n", 1)[0] + b"\n"
    seen = attack(source.name, head, read, tmp_path, PER_CASE // 2, case)
    sys.stdout.write(f"{case}: {sum(seen.values())} inputs, {dict(seen)}" + "\n")
    assert sum(seen.values()) == PER_CASE // 2


# Small inputs on which quadratic work takes minutes, and what they must end in.
SLOW = {
    "digits of a label": ("a.txt", "1" * 60_000 + "A qid:1 1:2\n" + "0 qid:1 1:3\n" * 3, "a.txt"),
    "digits of a score": (
        "a.trec",
        "q Q0 d 1 " + "1" * 60_000 + "A t\n" + "q Q0 e 2 1.0 t\n" * 3,
        "a.trec:1: the score",
    ),
    "a time of many digits": ("a.dat", f"1 2 3 {'9' * 5000}\n4 5 6 {'8' * 5000}\n", "a.dat"),
    "an unclosed quote": ("a.csv", 'user,item,rating\na,"b,1\n' + 'x,""y,2\n' * 30_000, "a.csv:2: a quoted field"),
    "a quote that closes late": (
        "a.csv",
        'user,item,rating\na,"' + 'x,""y,2\n' * 30_000 + '",1\nb,c\n',
        "a.csv:30003: ",
    ),
}


@pytest.mark.parametrize("case", SLOW)
def test_small_hostile_files_end_soon(case: str, tmp_path: Path) -> None:
    name, text, said = SLOW[case]
    (tmp_path / name).write_text(text)
    program = f"import concordant as cc\ntry:\n    cc.read({str(tmp_path / name)!r})\n"
    program += "except cc.errors.ConcordantError as error:\n    print(str(error)[:2000])\n"
    # Reading takes a moment; the rest is for the imports on a slow machine.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert said in done.stdout


def test_a_long_list_that_names_its_last_item_twice_ends_soon() -> None:
    program = "import concordant as cc\ntry:\n    cc.from_lists({'x': [*map(str, range(100_000)), '99999']})\n"
    program += "except cc.errors.DuplicateError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert "item '99999' twice in instance 'q' (rows 99999 and 100000)" in done.stdout


LONG = "Z" * 100_000


@pytest.mark.parametrize("case", SEEDS)
def test_a_long_field_gives_a_short_message(case: str, tmp_path: Path) -> None:
    name, text, read = SEEDS[case]
    path = tmp_path / name
    said: list[str] = []
    for field in list(re.finditer(r'[^\s,:{}"#=]+', text))[:14]:
        for put in (
            LONG,
            field[0] + LONG,
            "-" + "1" * len(LONG),
            f"{LONG} {LONG}",
            f"{LONG},{LONG}",
            f"{LONG}\n{LONG}",
        ):
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
        lambda: c.win_probability(i, LONG),
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

"""Damaged files of every format, and the judge of what a reader makes of them.

An input is known by its case and its number: the same pair is the same bytes on every machine. The judge asks for
three things. A reader returns a container or raises one of Concordant's own errors, which names the file and the line;
it executes nothing; and what it returns is right, as told by a naive parser (tests/oracles/readers.py) and by reading
the same bytes in other ways: packed, in very small blocks, through `scan`, through `read`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import zstandard
from tests.attack.watch import ROOT, Audit, InTurn, beat, stopwatch
from tests.oracles import readers
from tests.oracles.contents import contents

import concordant as cc
from concordant.errors import ConcordantError, ParseError
from concordant.io import _files, _tables, letor, tabular, trec

SEED = 17
# Bytes of a damaged file, and of one whose lines were multiplied or stretched.
LARGEST, STRETCHED = 20_000, 400_000
LONGEST_MESSAGE = 2_000
DATA = ROOT.parent / "shared" / "data"


@dataclass(frozen=True)
class Case:
    """A valid file, how it is read, and by which other ways."""

    name: str
    data: bytes
    read: Callable[[Path], Any]
    naive: readers.Reader | None = None
    separator: bytes = b","
    # How `scan` reads it, None where it cannot.
    scan: dict[str, Any] | None = None
    text: bool = True
    # Whether `read`, which finds the format by itself, is to find the same.
    found: bool = True
    # Ending and content of a side file.
    beside: tuple[str, bytes] | None = None


def _reader(name: str, path: Path, **options: Any) -> Any:
    return getattr(cc, name)(path, **options)


def _by(name: str, **options: Any) -> Callable[[Path], Any]:
    return partial(_reader, name, **options)


_AGG = "".join(
    f"{i % 3} qid:{q} 1:{i + 1} 2:{'NULL' if i % 2 else 7 - i} 3:NULL #docid = G{q}-{i} inc = 1 prob = 0.5\n"
    for q in (10, 11)
    for i in range(5)
)
_TOC = """# FILE NAME: a.toc
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
_CAT = b"""# FILE NAME: a.cat
# DATA TYPE: cat
# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 6
# NUMBER UNIQUE PREFERENCES: 3
# NUMBER CATEGORIES: 3
# CATEGORY NAME 1: Yes
# CATEGORY NAME 2: Maybe
# CATEGORY NAME 3: No
# ALTERNATIVE NAME 1: a
# ALTERNATIVE NAME 2: b
# ALTERNATIVE NAME 3: c
3: {1,2},3,{}
2: {},2,{3,1}
1: 2,{},{}
"""
_OLD = "3\n1,a\n2,b\n3,c\n6,6,2\n4,1,2,3\n2,{3,1},2\n"


def _typed(kind: str, *ballots: str) -> bytes:
    head = _TOC.partition("4: ")[0].replace("toc", kind).replace("ORDERS: 2", f"ORDERS: {len(ballots)}")
    return (head + "".join(f"{ballot}\n" for ballot in ballots)).encode()


def _array() -> bytes:
    out = io.BytesIO()
    chance = np.random.default_rng(5)
    np.save(out, np.column_stack([chance.integers(0, 3, (20, 2)), chance.random((20, 4))]))
    return out.getvalue()


def _parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


def _lines(line: Callable[[int], str], n: int) -> bytes:
    return "".join(map(line, range(n))).encode()


_VOTES = b"left,right,winner,judge\na,b,left,j1\nb,c,tie,j2\na,c,right,j1\nc,a,tie (bothbad),j3\n"
_RATINGS = b"user,item,rating\n" + _lines(lambda i: f"u{i % 3},m{i},{i % 5 + 1}\n", 9)

CASES: dict[str, Case] = {
    "run": Case(
        "bm25.trec",
        _lines(lambda i: f"{301 + i // 5} Q0 doc-{i % 5 + 1} {i % 5 + 1} {9 - i % 5}.5 bm25\n", 10),
        _by("read_runs"),
        readers.run,
        b" ",
        {"format": "trec"},
    ),
    "run, tabs": Case(
        "t.trec",
        _lines(lambda i: f"1\tQ0\td{i}\t{i}\t{1 / (i + 1):.3f}\tx\n", 8),
        _by("read_runs"),
        readers.run,
        b"\t",
        {"format": "trec"},
    ),
    "run, two tags": Case(
        "two.trec",
        _lines(lambda i: f"q{i % 2}  Q0 d{i} {i} {8 - i} {'ab'[i % 2]}\r\n", 8),
        _by("read_runs"),
        readers.run,
        b" ",
        {"format": "trec"},
    ),
    "qrels": Case(
        "qrels.txt", _lines(lambda i: f"301 0 doc-{i} {i % 3}\n", 8), _by("read", format="qrels"), readers.qrels, b" "
    ),
    "qrels, found": Case("qrels.txt", _lines(lambda i: f"301 0 doc-{i} {i % 3}\n", 8), _by("read_labels"), None, b" "),
    "letor": Case("agg.txt", _AGG.encode(), _by("read_letor"), readers.letor, b" "),
    "letor, last": Case("agg.txt", (_AGG * 2).encode(), _by("read_letor", duplicates="last"), None, b" ", found=False),
    "features": Case(
        "f.txt",
        _lines(lambda i: f"{i % 3} qid:1 1:0.{i} 2:1e-3 # docid = d{i}\n", 7),
        _by("read_features"),
        readers.features,
        b" ",
    ),
    "sparse": Case(
        "s.txt",
        _lines(lambda i: f"{i % 3} qid:{i // 3} {i + 1}:0.{i} 12:-1e-3\n", 9),
        _by("read_features"),
        readers.features,
        b" ",
    ),
    "side file": Case(
        "f.dat",
        _lines(lambda i: f"{i % 3} {i + 1}:0.{i} 12:1\n", 9),
        _by("read_features"),
        separator=b" ",
        beside=(".query", b"5\n4\n"),
    ),
    "array": Case("f.npy", _array(), _by("read_features"), readers.array, b" ", text=False),
    "soc": Case("a.soc", _typed("soc", "4: 1,2,3", "2: 3,1,2"), _by("read_preflib"), readers.preflib),
    "soi": Case("a.soi", _typed("soi", "3: 1,2", "3: 3"), _by("read_preflib"), readers.preflib),
    "toc": Case("a.toc", _TOC.encode(), _by("read_preflib"), readers.preflib),
    "toi": Case("a.toi", _typed("toi", "3: {1,2}", "2: 3,{1,2}", "1: 3"), _by("read_preflib"), readers.preflib),
    "cat": Case("a.cat", _CAT, _by("read_preflib"), readers.preflib),
    "older preflib": Case("a.toc", _OLD.encode(), _by("read_preflib", check_counts=False), found=False),
    "ratings": Case("r.csv", _RATINGS, _by("read_ratings"), readers.ratings, b",", {"format": "ratings"}),
    "ratings, tabs": Case(
        "r.tsv",
        _RATINGS.replace(b",", b"\t"),
        _by("read_ratings"),
        partial(readers.ratings, separator="\t"),
        b"\t",
        {"format": "ratings"},
    ),
    "ratings, blanks": Case(
        "r.txt",
        _RATINGS.replace(b",", b" "),
        _by("read_ratings"),
        partial(readers.ratings, separator=" "),
        b" ",
        {"format": "ratings"},
    ),
    "ratings, instances": Case(
        "i.csv",
        b"instance,user,item,rating,weight,missing\n"
        + _lines(lambda i: f"q{i % 2},u{i // 4},m{i // 2 % 2},{i},{i // 4 + 1},{['below', 'unknown'][i % 2]}\n", 8),
        _by("read_ratings"),
        None,
        b",",
        {"format": "ratings"},
    ),
    "ratings, numbers": Case(
        "n.csv",
        b"user,item,rating\n" + _lines(lambda i: f"{i % 3}.0,{i + 10},{i % 5 + 1}\n", 9),
        _by("read_ratings"),
        readers.ratings,
        b",",
        {"format": "ratings"},
    ),
    "ratings, quoted": Case(
        "q.csv",
        b'user,item,rating\n"u, 1","a ""b""",5\n"u, 1","two\nlines",4\nu2,"a ""b""",3\nu2,c d,1\n',
        _by("read_ratings"),
        readers.ratings,
        b",",
        {"format": "ratings"},
    ),
    "movielens": Case(
        "u.data",
        _lines(lambda i: f"{i % 3 + 1}\t{i + 1}\t{i % 5 + 1}\t88\n", 9),
        _by("read_ratings"),
        readers.movielens,
        b"\t",
        {"format": "ratings"},
    ),
    "long": Case(
        "k.tsv",
        b"judge\titem\trank\nann\ta\t1\nann\tb\t2.5\nann\tc\t2.5\nbob\tb\t1\nbob\ta\t2\n",
        _by("read_rankings", layout="long"),
        readers.long,
        b"\t",
        {"format": "long"},
    ),
    "ranks": Case(
        "k.csv",
        b",P1,P2,P3\nA1,1,2,3\nA2,3,1,2\nA3,2,3,1\nA4,1,NA,2\n",
        _by("read_rankings", layout="ranks"),
        readers.ranks,
    ),
    "ranks in columns": Case(
        "m.csv",
        b',"P1","P2",P3\nA1,1,2,3\nA2,3,1,2\n',
        _by("read_rankings", layout="ranks", experts="columns"),
        found=False,
    ),
    "ranks, found": Case("m.csv", b',"P1","P2",P3\nA1,1,2,3\nA2,3,1,2\n', _by("read_rankings")),
    "orders": Case(
        "o.csv", b"rank1,rank2,rank3\nx,y,z\ny,z,\nz,x,y\n", _by("read_rankings", layout="orders"), readers.orders
    ),
    "winners": Case(
        "w.csv",
        b"winner,loser\n" + _lines(lambda i: f"m{i % 3},m{(i + 1) % 3}\n", 6),
        _by("read_comparisons"),
        readers.winners,
    ),
    "winners, numbers": Case(
        "w.csv",
        b"winner,loser\n1.0,2.0\n2.0,10\n1.0,10\n3.0,2.0\n2.0,3.0\n1.0,3.0\n",
        _by("read_comparisons"),
        readers.winners,
    ),
    "sides": Case("v.csv", _VOTES, _by("read_comparisons"), readers.sides),
    "sides, items": Case(
        "v.csv",
        b"left,right,winner,judge\nm2,m1,m2,j1\nm3,m1,tie,j2\nm2,m3,m3,j1\nm1,m4,M1,j3\n",
        _by("read_comparisons"),
        readers.sides,
    ),
    "counts": Case(
        "c.csv",
        b",i,j,w_ij,w_ji,t_ij\n0,1,2,19,22,16\n1,1,3,16,19,12\n2,2,3,19,19,10\n",
        _by("read_comparisons"),
        readers.counts,
    ),
    "one column for each outcome": Case(
        "train.csv",
        b"id,model_a,model_b,winner_model_a,winner_model_b,winner_tie\n"
        b"7,x,y,1,0,0\n8,y,z,0,1,0\n9,x,z,0,0,1\n12,z,y,True,False,false\n",
        _by("read_comparisons"),
        readers.one_hot,
    ),
    "arena": Case(
        "arena.csv",
        ",".join(readers.ARENA).encode()
        + b"\nx,y,model_a,u1,English,2024-06-25,30,10\ny,z,tie,u2,German,2024-06-25 14:03,0,0\n"
        b"z,x,tie (bothbad),u1,,2024-06-25T14:03:07Z,7,21\nx,y,model_b,u3,English,2024-06-25T14:03:07.25+05:30,1.5,0\n",
        _by(
            "read_comparisons",
            time="when",
            category="language",
            covariates={"length": "(length_a - length_b) / (length_a + length_b)"},
            both_bad="apart",
            where="language!=German",
        ),
        readers.arena,
        found=False,
    ),
    "json array": Case(
        "v.json",
        b"[\n" + b",\n".join(b'{"winner": "m%d", "loser": "m%d"}' % (i % 3, (i + 1) % 3) for i in range(6)) + b"\n]\n",
        _by("read_comparisons"),
        readers.json_array,
    ),
    "collapsed": Case("v.csv", _VOTES, _by("read_comparisons", collapse=True), found=False),
    "columns": Case(
        "x.txt",
        b"1  11.0 10.0\n1 11.0\t14.0\n2 5.0 14.0\n",
        _by("read_comparisons", columns="winner=2,loser=3"),
        None,
        b" ",
        found=False,
    ),
    "labels": Case("l.csv", b"query,docno,relevance\n1,d1,2\n1,d2,0\n2,d1,1\n", _by("read_labels"), readers.labels),
    "json": Case(
        "v.jsonl",
        _lines(lambda i: f'{{"winner": "m{i % 3}", "loser": "m{(i + 1) % 3}"}}\n', 6),
        _by("read_comparisons"),
        readers.json_winners,
    ),
    "json ratings": Case(
        "r.jsonl",
        _lines(lambda i: f'{{"user": "u{i % 2}", "item": {i // 2}, "rating": {i % 5}}}\n', 8),
        _by("read_ratings"),
        readers.json_ratings,
        b",",
        {"format": "ratings"},
    ),
    "table of features": Case("f.csv", b'instance,item,x,"y z"\nq,a,1,2\nq,"b\nb",3,4\n', _by("read")),
    "table of scores": Case(
        "s.csv", b"instance,item,score\nq,a,1\nq,b,0.5\np,a,2\n", tabular.read_scores, None, b",", {"format": "scores"}
    ),
    "consensus": Case(
        "s.jsonl", b'{"item":"a","score":1}\n{"item":"b","score":0.5}\n', tabular.read_consensus, found=False
    ),
    "parquet": Case(
        "r.parquet",
        _parquet(user=list("abc"), item=list("xyz"), rating=[1, 2, 3]),
        _by("read_ratings"),
        scan={"format": "ratings"},
        text=False,
    ),
    "parquet votes": Case(
        "v.parquet",
        _parquet(left=["a", "b", "a"], right=["b", "c", "c"], winner=["left", "tie", "right"]),
        _by("read_comparisons"),
        text=False,
    ),
    "anything": Case("x.txt", b"301 Q0 d1 1 2.5 x\n301 Q0 d2 2 1.5 x\n", _by("read"), None, b" ", {}),
    "any table": Case("t", b"user,item,rating\nann,a,5\nbob,b,4\n", _by("read"), None, b",", {}),
}

_REAL: dict[str, tuple[str, Callable[[Path], Any], bytes]] = {
    "agg": ("MQ2008-agg/Fold1/test.txt", _by("read_letor"), b" "),
    "features": ("lightgbm-lambdarank/rank.test", _by("read"), b" "),
    "ltr46": ("MQ2008-ltr46-fold1/Fold1-test.txt", _by("read_features"), b" "),
    "qrels": ("trec3-adhoc/T3-j.txt", _by("read_labels"), b" "),
    "sushi": ("preflib/14-sushi/00014-00000001.soc", _by("read_preflib"), b","),
    "skate": ("preflib/06-skate/00006-00000001.toc", _by("read_preflib"), b","),
    "movielens": ("movielens-100k/u.data", _by("read_ratings"), b"\t"),
    "votes": ("llmfao-pairwise/llmfao.csv", _by("read_comparisons"), b","),
}


def real_cases(folder: Path = DATA) -> dict[str, Case]:
    """Return the heads of real files, of those that are there."""
    out = {}
    for name, (relative, read, separator) in _REAL.items():
        path = folder / relative
        if path.exists():
            with path.open("rb") as file:
                head = file.read(LARGEST // 2).rsplit(b"\n", 1)[0] + b"\n"
            out[f"real {name}"] = Case(path.name, head, read, None, separator)
    return out


# Damage.

_ODD = [
    "nan",
    "inf",
    "-inf",
    "nan(ind)",
    "1e999",
    "-1e999",
    "1e-999",
    "0x10",
    "1_000",
    "١",
    "1,5",
    "1.5.2",
    "-1",
    "-0",
    "+1",
    "0",
    "0.0",
    "1.0",
    "1",
    "2.0",
    "00",
    "1e5",
    "1e308",
    ".5",
    "5.",
    "999999999999999999999",
    "9223372036854775808",
    "2147483648",
    "NULL",
    "null",
    "NA",
    "N/A",
    "None",
    "true",
    "tie",
    "left",
    "",
    "é",
    "e\u0301",
    "\ufeff",
    "\u200b",
    "\u202e",
    "\u2028",
    "\x85",
    "\xa0",
    "\x00",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1f",
    "\x7f",
    "\x1b[2J",
    "=HYPERLINK(1)",
    "../../x",
    "qid:",
    "qid:1",
    "#",
    "# docid = d0",
    "{",
    "}",
    "[1",
    '"',
    '""',
    "'",
    "\\",
    "\\n",
    "\r",
    "\r\n",
    "\n\n",
    "\n \n",
    "  ",
    " ",
    "\t",
    ",",
    ";",
    "|",
    "::",
    ":",
    "1:1",
    "[/b]",
    "\U0001f600",
    "user,item,rating",
]
TOKENS = [token.encode() for token in _ODD] + [b"\xff\xfe", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
_ESCAPES = [b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\u0000", b"\\u0041", b"\\x", b"\\u12", b"\\ud800\\u0041"]
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def _bytes(data: bytes, chance: random.Random, case: Case) -> bytes:
    out = bytearray(data)
    at, length = chance.randrange(len(out)), chance.randint(1, 12)
    match chance.randrange(5):
        case 0:
            out[at] = chance.randrange(256)
        case 1:
            del out[at : at + length]
        case 2:
            out[at:at] = chance.randbytes(length)
        case 3:
            del out[at:]
        case _:
            other = chance.randrange(len(out))
            out[at], out[other] = out[other], out[at]
    return bytes(out)


def _tokens(data: bytes, chance: random.Random, case: Case) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(TOKENS) + data[at:]


def _edit_lines(data: bytes, chance: random.Random, case: Case) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            lines.insert(at, chance.choice(lines))
        case 1:
            chance.shuffle(lines)
        case 2:
            del lines[at]
        case 3:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case 4:
            lines.insert(at, chance.choice([b"", b" ", b"\t", b"\r", b"#", case.separator, case.separator * 2]))
        case 5:
            lines = [line + b"\r" if chance.random() < 0.5 else line for line in lines]
        case 6:
            return b"\n".join(lines).rstrip(b"\n") + chance.choice([b"", b" ", b"\t", b"\v", b"\f", b"\r", b"\x1c"])
        case _:
            return b"\r".join(lines) if chance.random() < 0.3 else b"\n" * chance.randint(1, 3) + data
    return b"\n".join(lines)


def _fields(data: bytes, chance: random.Random, case: Case) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    fields = lines[at].split(case.separator)
    k = chance.randrange(len(fields))
    match chance.randrange(8):
        case 0:
            del fields[k]
        case 1:
            fields.insert(k, chance.choice(fields))
        case 2:
            fields.append(chance.choice([b"", b"", b" ", b"x"]))
        case 3:
            fields[k] = b""
        case 4:
            fields[k] = chance.choice([b" ", b"\t", "\u00a0".encode(), b"\f"]) + fields[k] + b" "
        case 5:
            chance.shuffle(fields)
        case 6:
            # An id of another line, so that something is said twice.
            other = chance.choice(lines).split(case.separator)
            fields[k] = other[k % len(other)]
        case _:
            fields[k] = chance.choice(TOKENS)
    lines[at] = case.separator.join(fields)
    return b"\n".join(lines)


def _quotes(data: bytes, chance: random.Random, case: Case) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    fields = lines[at].split(case.separator)
    k = chance.randrange(len(fields))
    f = fields[k]
    inner = f.replace(b'"', b'""')
    fields[k] = chance.choice(
        [
            b'"' + inner + b'"',
            b'"' + inner,
            f + b'"',
            b'""' + f,
            b'"' + inner + b'" ',
            b' "' + inner + b'"',
            b'"' + inner + b'\n"',
            b'"' + inner + b'\r\n"',
            b'"' + inner + case.separator + b'"',
            b'"' + inner + b'""',
            b'"a""b"',
            b"'" + f + b"'",
            b'""',
            b'"""',
        ]
    )
    lines[at] = case.separator.join(fields)
    return b"\n".join(lines)


def _numbers(data: bytes, chance: random.Random, case: Case) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    one = chance.choice(found)
    if chance.random() < 0.3:
        # The same id written as a whole number and as a fraction.
        other = one[0] + b".0" if b"." not in one[0] else one[0].partition(b".")[0]
        if chance.random() < 0.5:
            return data.replace(one[0], other)
        return data[: one.start()] + other + data[one.end() :]
    return data[: one.start()] + chance.choice(_ODD).encode() + data[one.end() :]


def _encoding(data: bytes, chance: random.Random, case: Case) -> bytes:
    match chance.randrange(5):
        case 0:
            return b"\xef\xbb\xbf" * chance.choice([1, 1, 2]) + data
        case 1:
            text = data.decode(errors="replace")
            return text.encode(chance.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7"]), "replace")
        case 2:
            return data.replace(b"\n", chance.choice([b"\r\n", b"\r", "\u2028".encode(), "\x85".encode(), b"\n\n"]))
        case 3:
            at = chance.randrange(len(data) + 1)
            odd = chance.choice(["é".encode("latin-1"), b"\xc0\x80", b"\xed\xa0\x80", "\ufeff".encode(), b"\xe2\x82"])
            return data[:at] + odd + data[at:]
        case _:
            blank = chance.choice([b"\t", b"\v", b"\f", "\u00a0".encode(), "\u3000".encode(), b"\x1c", b"\0"])
            at = [n for n, c in enumerate(data) if c in b" \t,"]
            if not at:
                return data
            k = chance.choice(at)
            return data[:k] + blank + data[k + 1 :]


def _json(data: bytes, chance: random.Random, case: Case) -> bytes:
    """Damage an object where there is one: keys twice, escapes, nesting, numbers and types that JSON has."""
    lines = data.split(b"\n")
    objects = [n for n, line in enumerate(lines) if line.startswith(b"{") and b'":' in line]
    if not objects:
        return _tokens(data, chance, case)
    at = chance.choice(objects)
    line = lines[at]
    pairs = re.findall(rb'"\w*": ?(?:"[^"]*"|[^,}]*)', line) or [b'"a": 1']
    one = chance.choice(pairs)
    key, _, value = one.partition(b":")
    new = chance.choice(
        [
            one + b", " + one,
            one + b", " + key + b": " + chance.choice([b'"other"', b"7", b"null"]),
            key + b": " + value.strip()[:1] + chance.choice(_ESCAPES) + value.strip()[1:],
            key + b": " + b"[" * 3000 + b"]" * 3000,
            key + b": " + chance.choice([b"null", b"true", b"1.0", b"1e400", b"-0", b"NaN", b"1E2", b"01", b"1."]),
            key + b": " + chance.choice([b"123456789012345678901234567890", b"1e22", b"0.1", b"[1]", b"{}", b'""']),
            key + b" :" + value,
            key + b": " + b'"' + chance.choice(["\u2028", "\t", "\x7f", "\ufeff", "é"]).encode() + b'x"',
            b'"\\u0077inner": "m9"',
            one + b', "extra": 1',
        ]
    )
    lines[at] = line.replace(one, new, 1) + chance.choice([b"", b"", b"", b" ", b",", b"{}", b"\r"])
    return b"\n".join(lines)


def _stretch(data: bytes, chance: random.Random, case: Case) -> bytes:
    """Return a long field, a long line or very many lines: what takes more than linear time shows here."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    size = int(10 ** chance.uniform(2.5, 5.3))
    match chance.randrange(6):
        case 0:
            fields = lines[at].split(case.separator)
            k = chance.randrange(len(fields))
            fields[k] = chance.choice([b"1", b"a", b" ", b'"', b"{", b"0.", "é".encode(), b"\x1f", fields[k]]) * size
            fields[k] += chance.choice([b"", b"A", b".", b"e"])
            lines[at] = case.separator.join(fields)
        case 1:
            lines[at] = case.separator.join(lines[at].split(case.separator) * (size // 20))
        case 2:
            lines[at:at] = [lines[at]] * (size // (len(lines[at]) + 1))
        case 3:
            lines[at:at] = [b"", b" ", b'"', case.separator][chance.randrange(4) :][:1] * size
        case 4:
            # An unclosed quote above many lines with quotes.
            lines[at:at] = [b'"x' + case.separator + b"y"] + [b'x,""y,2'] * min(size // 9, 20_000)
        case _:
            # The same rows under other ids: valid, and more than one block.
            rows = lines[1:] if len(lines) > 2 else lines
            found = [b"\n".join(rows).replace(b"1", str(n).encode()) for n in range(11, 11 + size // (len(data) + 1))]
            return data + b"\n".join(found)
    return b"\n".join(lines)


Damage = Callable[[bytes, random.Random, Case], bytes]
# What is done to a file, and how often of twenty times.
DAMAGES: dict[str, tuple[Damage, int]] = {
    "bytes": (_bytes, 3),
    "tokens": (_tokens, 3),
    "lines": (_edit_lines, 3),
    "fields": (_fields, 4),
    "quotes": (_quotes, 2),
    "numbers": (_numbers, 3),
    "encoding": (_encoding, 2),
    "json": (_json, 2),
}
_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": partial(gzip.compress, compresslevel=1, mtime=0),
    "xz": partial(lzma.compress, preset=0),
    "bz2": partial(bz2.compress, compresslevel=1),
    "zst": zstandard.ZstdCompressor(level=1).compress,
}


def damaged(case: Case, number: int, seed: str) -> tuple[list[str], bytes]:
    """Return what was done to a file, and its bytes."""
    chance = random.Random(f"{SEED}/{seed}/{number}")
    data, done = case.data, []
    for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 4])):
        if not data:
            break
        kind = chance.choices(list(DAMAGES), [often for _, often in DAMAGES.values()])[0]
        if kind == "json" and b'{"' not in data:
            kind = "fields"
        data = DAMAGES[kind][0](data, chance, case)[:LARGEST]
        done.append(kind)
    if number % 40 == 6 and data:
        data = _stretch(data, chance, case)[:STRETCHED]
        done.append("stretched")
    if number % 500 == 100:
        # A short file that unpacks to one line without an end.
        how = chance.choice([name for name in _PACKERS if name != "bz2"])
        unit = chance.choice([b"1", b"a", b"1:1 ", b"x,", b'"', b"[", b"1\t"])
        return [*done, "endless line"], _PACKERS[how](data + unit * (chance.randint(40, 160) * 1_000_000 // len(unit)))
    if number % 12 == 11:
        how = chance.choice(list(_PACKERS))
        data = _PACKERS[how](data)
        if chance.random() < 0.8:
            data = _bytes(data, chance, case)
        done.append("packed")
    return done, data


# The judge.


class Answer(NamedTuple):
    """What came of reading: contents in plain Python, or an error."""

    told: Any = None
    error: BaseException | None = None

    @property
    def kind(self) -> str:
        """The sort of error, or that there was none."""
        return "read" if self.error is None else type(self.error).__name__


@dataclass(frozen=True)
class Told:
    """Contents that a way of reading tells by itself."""

    value: Any


def told(found: Any) -> Any:
    """Return what a reader returned as plain Python; preferences with their experts, of whom some may rank nothing."""
    if isinstance(found, Told):
        return found.value
    if isinstance(found, tuple):
        parts = [part for part in found if part is not None]
        return told(parts[0]) if len(parts) == 1 else tuple(told(part) for part in parts)
    if isinstance(found, cc.Preferences):
        return contents(found), sorted(found.experts)
    return contents(found)


def plain(value: Any) -> Any:
    """Return contents in an order of their own, every number as text, so that equal contents compare equal."""
    if isinstance(value, dict):
        return sorted(((plain(k), plain(v)) for k, v in value.items()), key=lambda pair: repr(pair[0]))
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (str, bool)) else repr(float(value))


def attempt(read: Callable[[Path], Any], path: Path, done: Callable[[], None] = lambda: None) -> Answer:
    """Read a file and say when it is done; a panic below Python is no Exception and is caught as well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read(path)
            for part in found if isinstance(found, tuple) else [found]:
                if hasattr(part, "to_frame"):
                    part.to_frame()
            done()
            return Answer(plain(told(found)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the point of the judge
        return Answer(error=error)


def complaint(error: BaseException, name: str, data: bytes, text: bool) -> str | None:
    """Return what is wrong with an error: not ours, the file or the line not named, or too long."""
    said = f"{type(error).__name__}: {str(error)[:300]}"
    if not isinstance(error, ConcordantError):
        return f"foreign {said}"
    if name not in str(error):
        return f"the file is not named: {said}"
    if len(str(error)) > LONGEST_MESSAGE:
        return f"a message of {len(str(error))} characters: {said}"
    lined = text and data.strip() and not data.startswith(readers.PACKED)
    if isinstance(error, ParseError) and error.line is None and lined:
        return f"no line is named: {said}"
    return None


@contextmanager
def small_blocks(size: int = 48) -> Iterator[None]:
    """Have every reader work on blocks of a few lines, and tables read in windows of a few rows."""
    whole = _files.text_blocks

    def blocks(path: Any, _: int = 0) -> Any:
        return whole(path, size)

    patched: list[tuple[Any, str, Any]] = [(m, "text_blocks", blocks) for m in (_files, _tables, letor, trec)]
    patched += [(trec, "_WHOLE_BYTES", 0), (trec, "_LARGE_BYTES", 0), (tabular, "_LARGE_BYTES", 0)]
    patched += [(tabular, "_WINDOW", 2), (_files, "BLOCK_BYTES", size)]
    before = [(m, name, getattr(m, name)) for m, name, _ in patched]
    for m, name, value in patched:
        setattr(m, name, value)
    try:
        yield
    finally:
        for m, name, value in before:
            setattr(m, name, value)


def _in_small_blocks(read: Callable[[Path], Any], path: Path) -> Any:
    with small_blocks():
        return read(path)


def _scanned(options: dict[str, Any], path: Path) -> Any:
    """Return what the blocks of `scan` hold together, as `told` gives it for the whole."""
    with cc.scan(path, block_rows=2, **options) as blocks:
        rows, where = {}, set()
        for block in blocks:
            _, own, known = contents(block)
            rows.update(own)
            where |= known
        return Told(((blocks.kind, rows, where), sorted(blocks.experts)))


def _written(read: Callable[[Path], Any], ending: str, path: Path) -> Any:
    """Return what is left after writing and reading back; what cannot be written is refused, and no concern here."""
    found = read(path)
    parts = [part for part in found if part is not None] if isinstance(found, tuple) else [found]
    out = []
    for part in parts:
        if not part.n_slots:
            return found
        ids = [*part.instances, *part.items, *getattr(part, "experts", ())]
        if ending != "parquet" and any(re.fullmatch(r"-?\d+\.0+", i) for i in ids):
            # Tables of text take 1.0 for 1, as documented.
            return found
        target = path.with_name(f"written.{ending}")
        try:
            cc.write(part, target)
        except ConcordantError:
            return found
        if isinstance(part, cc.Consensus):
            out.append(told(tabular.read_consensus(target)))
            continue
        if isinstance(part, cc.Comparisons) and part.columns.names:
            named: dict[str, Any] = {name: name for name in ("time", "category") if name in part.columns.names}
            if part.time is not None and (abs(part.time) >= 1e11).any():
                # As numbers, times after the year 5000 are milliseconds.
                return found
            names = part.covariate_names.tolist()
            out.append(told(cc.read_comparisons(target, **named, covariates=names or None)))
            continue
        back = told(cc.read(target))
        # A table knows of no expert who ranks nothing.
        out.append((back[0], sorted(part.experts)) if isinstance(part, cc.Preferences) else back)
    return Told(out[0] if len(out) == 1 else tuple(out))


def ways(case: Case, data: bytes) -> dict[str, Callable[[Path], Any]]:
    """Return the other ways to read a case, by name; packed ones are packed before."""
    out: dict[str, Callable[[Path], Any]] = {}
    if not data.startswith(readers.PACKED):
        out |= {how: case.read for how in _PACKERS if how != "zst" or case.text}
        # Not where a few bytes unpack to a line of megabytes: nobody reads those in blocks of a few bytes.
        out["small blocks"] = partial(_in_small_blocks, case.read)
    if case.found:
        out["found"] = cc.read
    if case.scan is not None:
        out["scan"] = partial(_scanned, case.scan)
    out |= {f"as {ending}": partial(_written, case.read, ending) for ending in ("parquet", "csv", "jsonl.zst")}
    return out


def judge_file(case: Case, data: bytes, number: int, folder: Path, audit: Audit) -> dict[str, Any]:
    """Return the record of one input: how it was answered, and what is wrong with that."""
    path = folder / case.name
    # File systems write the content of a file to the disk at once if it replaces another content.
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    places = [path, folder / "packed" / case.name]
    if case.beside is not None:
        for place in places:
            place.with_name(case.name + case.beside[0]).write_bytes(case.beside[1])
    findings: list[tuple[str, str]] = []
    counts: Counter[str] = Counter()
    seconds: list[float] = []
    shown = f" from {data[:200]!r}"

    def read(way: Callable[[Path], Any], place: Path, name: str) -> Answer:
        # Every reading has the whole time, and so has what is done with it here.
        beat()
        taken = stopwatch()

        def done() -> None:
            seconds.append(taken())
            beat()

        with audit:
            answer = attempt(way, place, done)
        seconds.append(0.0 if answer.error is None else taken())
        beat()
        findings.extend(("executed", f"{name}: {seen}{shown}") for seen in audit.seen)
        # What is written and read back has a name of its own.
        named = "written." if name.startswith("as ") and "written." in str(answer.error) else case.name
        wrong = None if answer.error is None else complaint(answer.error, named, place.read_bytes(), case.text)
        if wrong is not None:
            findings.append(("foreign", f"{name}: {wrong}{shown}"))
        return answer

    answer = read(case.read, path, "read")
    if case.naive is not None:
        sort, detail = against_naive(case.naive, data, path, answer)
        counts[sort] += 1
        if sort.startswith("wrong"):
            findings.append(("wrong", f"{sort}: {detail}{shown}"))
    other = ways(case, data)
    name = list(other)[number % len(other)]
    place = path
    if name in _PACKERS:
        place = places[1]
        place.write_bytes(_PACKERS[name](data))
    again = read(other[name], place, name)
    # A damaged file may be refused by a reader that has to find out what it is.
    refused = answer.error is not None or again.error is not None
    if answer.told != again.told and not (name == "found" and refused):
        findings.append(("wrong", f"{name}: {_shown(again)}, and at once {_shown(answer)}{shown}"))
    elif answer.kind != again.kind:
        counts[f"{name}: another error"] += 1
    return {"outcome": answer.kind, "findings": findings, "counts": dict(counts), "seconds": max(seconds)}


def _shown(answer: Answer) -> str:
    return f"{answer.kind} {str(answer.told if answer.error is None else answer.error)[:200]}"


def against_naive(naive: readers.Reader, data: bytes, path: Path, answer: Answer) -> tuple[str, str]:
    """Compare with a naive parser; return how the two stand to each other."""
    try:
        want = naive(data, path)
    except readers.UnsureError as error:
        return f"naive unsure: {error}", ""
    except readers.RefusedError as error:
        return ("both refuse", "") if answer.error is not None else (f"wrong, to refuse: {error}", _shown(answer))
    if answer.error is not None:
        return f"refused alone: {answer.kind}", str(answer.error)
    right = plain(want)
    if isinstance(want, tuple) and want[-1] is None:
        right = [right[0], answer.told[1]]
    return (
        ("both read", "") if right == answer.told else ("wrong contents", f"{str(answer.told)[:300]} != {right!s:.300}")
    )


def judge(folder: Path, cases: list[str] | None = None) -> InTurn:
    """Return the judge of the damaged files of some cases, all by default, taken in turn.

    Every reader is warmed up with the file as it should be, on which it must do nothing unexpected.
    """
    known = CASES | real_cases()
    chosen = {name: known[name] for name in cases or known}
    audit = Audit(folder)
    for name, case in chosen.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name / "packed").mkdir(parents=True)
        for number in range(len(ways(case, case.data))):
            found = judge_file(case, case.data, number, folder / name, audit)
            # The head of a real file may lack what its end or a side file says.
            if found["findings"] or (name in CASES and found["outcome"] != "read"):
                raise RuntimeError(f"{name}: the file as it should be is not read: {found}")

    def one(name: str, turn: int) -> dict[str, Any]:
        done, data = damaged(chosen[name], turn, name)
        record = judge_file(chosen[name], data, turn, folder / name, audit)
        return record | {"counts": record["counts"] | {f"damage: {kind}": 1 for kind in set(done)}}

    return InTurn(chosen, one)

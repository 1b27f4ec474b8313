from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.contents import contents

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.index import Slots, Texts
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, FormatError, ParameterError
from concordant.io.block_writer import BlockWriter
from concordant.io.formats import FORMATS
from concordant.io.letor import read_features
from concordant.io.preflib import read_preflib
from concordant.io.read import read
from concordant.io.tabular import read_consensus, read_labels
from concordant.io.trec import read_runs
from concordant.io.write import write

TABLES = ("csv", "tsv", "jsonl", "parquet", "csv.gz", "tsv.zst", "jsonl.xz")
item_names = st.sampled_from(["a", "b", "GPT 4", "x,y", 'q"r"', "é\tz", "two\nlines", "7", "null", "0", "left"])
queries = st.sampled_from(["q1", "q 2", "3"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.mark.filterwarnings("ignore:.*is taken for a name:concordant.errors.DataWarning")
@given(data=st.data(), ending=st.sampled_from(TABLES))
def test_preferences_come_back_with_their_items_in_order(data: st.DataObject, ending: str, folder: Path) -> None:
    kind = data.draw(st.sampled_from(["rank", "score", "rating"]))
    value = st.integers(1, 9) if kind == "rank" else st.floats(-1e9, 1e9)
    cells = data.draw(st.dictionaries(st.tuples(queries, item_names, item_names), value, min_size=1, max_size=25))
    keys = list(cells)
    pairs = list(dict.fromkeys((q, i) for q, _, i in keys))
    if data.draw(st.booleans()):
        pairs += [(q, "silent") for q in dict.fromkeys(q for q, _, _ in keys)]
        pairs = data.draw(st.permutations(pairs))
    weight = {k: data.draw(st.sampled_from([0.0, 0.5, 2.0])) for k in dict.fromkeys((q, e) for q, e, _ in keys)}
    p = Preferences(
        [k[0] for k in keys],
        [k[1] for k in keys],
        [k[2] for k in keys],
        list(cells.values()),
        kind=kind,
        items=pairs,
        weight=weight if data.draw(st.booleans()) else None,
    )
    path = folder / f"p.{ending}"
    write(p, path)
    back = read(path).preferences
    assert back is not None
    assert contents(back) == contents(p)
    first_seen = [pairs.index((q, i)) for q, i in _pairs_met(keys, pairs)] == sorted(range(len(pairs)))
    if first_seen:
        assert back.slots == p.slots
        for n in range(p.n_lists):
            lists = [_list(x, *p._list_name(n)) for x in (p, back)]
            assert lists[0] == lists[1]


def _pairs_met(keys: list[tuple[str, str, str]], pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs in the order in which rows that name them, or nobody's rows, can show them."""
    met = dict.fromkeys((q, i) for q, _, i in keys)
    return list(met) + [pair for pair in pairs if pair not in met]


def _list(p: Preferences, expert: str, instance: str) -> list[tuple[str, float]]:
    return [(i, v) for q, e, i, v, *_ in p.to_frame().rows() if (q, e) == (instance, expert)]


@pytest.mark.filterwarnings("ignore:.*is taken for a name:concordant.errors.DataWarning")
@given(data=st.data(), ending=st.sampled_from(TABLES))
def test_comparisons_come_back(data: st.DataObject, ending: str, folder: Path) -> None:
    pair = st.tuples(queries, item_names, item_names).filter(lambda t: t[1] != t[2])
    pairs = data.draw(st.lists(pair, min_size=1, max_size=12))
    counts = np.array([data.draw(st.tuples(*[st.floats(0, 1e6)] * 3)) for _ in pairs])
    experts = [data.draw(item_names) for _ in pairs] if data.draw(st.booleans()) else None
    items = list(dict.fromkeys([(q, i) for q, a, b in pairs for i in (a, b)]))
    if data.draw(st.booleans()):
        items += [(items[0][0], "silent")]
    q, a, b = (list(c) for c in zip(*pairs, strict=True))
    c = Comparisons(q, experts, a, b, *counts.T, items=items, sided=data.draw(st.booleans()))
    path = folder / f"c.{ending}"
    write(c, path)
    back = read(path).comparisons
    assert back is not None
    assert contents(back) == contents(c)
    assert len(c) > 1 or back == c


hostile_ids = st.text(st.sampled_from("ab\"',\t\r\n\x00\x0b\x1f \ufeff\u00a0\u2028é\U0001f600#:{}\\"), max_size=6)
PACKED = ("", ".gz", ".xz", ".bz2", ".zst")


def _pairs(container: Any) -> list[tuple[str, str]]:
    return [container.slots.where(slot) for slot in range(container.n_slots)]


# How pairs of ids are written, by the ending, and what a reader gives back.
WAYS: dict[str, tuple[Callable[[list[str], list[str]], Any], Callable[[Path], Any]]] = {
    **dict.fromkeys(
        ("csv", "tsv", "jsonl", "parquet", "qrels"), (lambda q, i: Labels(q, i, range(len(q))), read_labels)
    ),
    "trec": (lambda q, i: Consensus(q, i, range(len(q))), read_runs),
    "svm": (lambda q, i: Features(q, i, [[k] for k in range(len(q))]), lambda path: read_features(path)[0]),
    "toc": (lambda q, i: Preferences([q[0]] * len(i), ["x"] * len(i), i, [1] * len(i)), read_preflib),
}


@given(ids=st.lists(hostile_ids, min_size=1, max_size=6, unique=True), data=st.data())
def test_every_id_comes_back_or_is_refused(ids: list[str], data: st.DataObject, folder: Path) -> None:
    kind = data.draw(st.sampled_from(sorted(WAYS)))
    make, reader = WAYS[kind]
    path = folder / f"h.{kind}{data.draw(st.sampled_from(PACKED)) if kind != 'parquet' else ''}"
    written = make(ids, data.draw(st.permutations(ids)))
    try:
        write(written, path)
    except DataError:
        if kind == "parquet":
            raise
    else:
        found, wanted = _pairs(reader(path)), _pairs(written)
        # A PrefLib file is an instance called by its own name.
        assert found == ([("h", item) for _, item in wanted] if kind == "toc" else wanted)


@pytest.mark.parametrize("ending", PACKED)
def test_line_ends_inside_ids_are_kept(ending: str, folder: Path) -> None:
    for ids in (["a\r\nb", "c"], ["plain", 'q"', "a\r\n,b\r\n\r\nc", "d\re", "f\ng"]):
        path = folder / f"e.csv{ending}"
        write(Labels(["q"] * len(ids), ids, range(len(ids))), path)
        assert read_labels(path).items.tolist() == ids


def test_parquet_keeps_ids_as_they_are(folder: Path) -> None:
    ids = [" a", "a", "a ", "", "\t", "1.0", "1"]
    labels = Labels(["q"] * len(ids), ids, range(len(ids)))
    with pytest.raises(DataError, match="or write Parquet"):
        write(labels, folder / "b.csv")
    write(labels, folder / "b.parquet")
    assert read_labels(folder / "b.parquet") == labels
    pl.DataFrame({"item": [" a"], "label": [" 2.5 "]}).write_parquet(folder / "b.parquet")
    assert read_labels(folder / "b.parquet").to_frame().rows() == [("all", " a", 2.5)]


def test_a_byte_order_mark_is_of_the_file_or_of_the_id(folder: Path) -> None:
    for mark in ("", "\ufeff"):
        for pack in (bytes, gzip.compress, zstandard.compress):
            path = folder / "m.trec"
            path.write_bytes(pack(f"{mark}\ufeffq Q0 a 1 2.0 t\nq Q0 a 1 1.0 t\n".encode()))
            assert read_runs(path).instances.tolist() == [mark + "q", "q"] if mark else ["q"]
    for target, obj in (("m.trec", Consensus(["\ufeffq"], ["a"], [1.0])), ("m.qrels", Labels(["\ufeffq"], ["a"], [1]))):
        with pytest.raises(DataError, match="begin with a byte-order mark"):
            write(obj, folder / target)


def test_zst_is_for_text(folder: Path) -> None:
    with pytest.raises(FormatError, match=r"l\.parquet\.zst.*holds text only"):
        write(Labels(["q"], ["a"], [1]), folder / "l.parquet.zst")
    assert not list(folder.glob("*l.parquet.zst*"))


@pytest.mark.filterwarnings("ignore:.*is taken for a name:concordant.errors.DataWarning")
@given(data=st.data(), ending=st.sampled_from(TABLES))
def test_labels_features_and_consensus_come_back(data: st.DataObject, ending: str, folder: Path) -> None:
    pairs = data.draw(st.lists(st.tuples(queries, item_names), min_size=1, max_size=12, unique=True))
    q, i = [q for q, _ in pairs], [i for _, i in pairs]
    x = np.array([[data.draw(st.floats(-1e12, 1e12)) for _ in range(2)] for _ in pairs])
    labels = Labels(q, i, x[:, 0])
    write(labels, folder / f"l.{ending}")
    assert read(folder / f"l.{ending}").labels == labels
    unknown = np.array([[data.draw(st.booleans()) for _ in range(2)] for _ in pairs])
    features = Features(q, i, np.where(unknown, np.nan, x), ["bm25", "len"])
    write(features, folder / f"f.{ending}")
    assert read(folder / f"f.{ending}").features == features
    consensus = Consensus(q, i, x[:, 0], stderr=np.abs(x[:, 1]), lower=x[:, 0] - 1, upper=x[:, 0] + 1)
    write(consensus, folder / f"s.{ending}")
    back = read_consensus(folder / f"s.{ending}")
    assert contents(back) == contents(consensus)
    assert all(back.ranking(n) == consensus.ranking(n) for n in consensus.instances)
    as_expert = read(folder / f"s.{ending}").preferences
    assert as_expert is not None
    assert as_expert.experts.tolist() == ["s"]


def test_unlabelled_items_and_undefined_intervals_come_back(tmp_path: Path) -> None:
    slots = Slots(Texts(["q"]), Texts(["a", "b"]), np.array([0, 2]))
    labels = Labels.from_codes(slots, np.array([1.0, np.nan]))
    consensus = Consensus.from_codes(slots, np.array([2.0, 1.0]), stderr=np.array([np.nan, np.inf]))
    for ending in TABLES:
        write(labels, tmp_path / f"l.{ending}")
        assert read(tmp_path / f"l.{ending}").labels == labels
    for ending in ("csv", "parquet"):
        write(consensus, tmp_path / f"c.{ending}")
        assert contents(read_consensus(tmp_path / f"c.{ending}")) == contents(consensus)


CONSENSUS = Consensus(["q", "q", "p"], ["a", "b", "a"], [0.25, 0.5, 1.0])


def test_runs_score_files_qrels_and_ballots(tmp_path: Path) -> None:
    write(CONSENSUS, tmp_path / "fused.trec", tag="me")
    p = read_runs(tmp_path / "fused.trec")
    rows = p.to_frame().drop("missing").rows()
    assert rows == [("q", "me", "b", 0.5), ("q", "me", "a", 0.25), ("p", "me", "a", 1.0)]
    write(CONSENSUS, tmp_path / "scores.txt", format="letor-scores")
    assert (tmp_path / "scores.txt").read_text().split() == ["0.25", "0.5", "1.0"]
    labels = Labels(["q", "q"], ["b", "a"], [2, -1])
    write(labels, tmp_path / "gold.qrels")
    assert (tmp_path / "gold.qrels").read_text() == "q 0 b 2\nq 0 a -1\n"
    assert read_labels(tmp_path / "gold.qrels") == labels
    write(Labels(["q"], ["b"], [0.5]), tmp_path / "half.qrels")
    assert read_labels(tmp_path / "half.qrels").label.tolist() == [0.5]
    ballots = Preferences(["q"] * 4, list("xxyy"), list("abba"), [1, 2, 1, 2])
    write(ballots, tmp_path / "votes.soc")
    back = read(tmp_path / "votes.soc").preferences
    assert back is not None
    assert back.value.tolist() == ballots.value.tolist()


def test_features_as_svmlight_with_and_without_labels(tmp_path: Path) -> None:
    features = Features(["q", "q", "p"], ["a", "b", "a"], [[0.1, 2], [1e-300, -3], [0, 0]])
    labels = Labels(["p", "q", "q"], ["a", "b", "a"], [2, 0.5, 1])
    write(features, tmp_path / "f.svm", labels=labels)
    back, gold = read_features(tmp_path / "f.svm")
    assert back == features
    assert gold == labels.align(features)
    write(features, tmp_path / "g.svm.gz")
    assert read_features(tmp_path / "g.svm.gz")[1].label.tolist() == [0, 0, 0]
    with pytest.raises(DataError, match="item 'b' of instance 'q' has features and no label"):
        write(features, tmp_path / "h.svm", labels=Labels(["p", "q"], ["a", "a"], [1, 1]))
    assert not (tmp_path / "h.svm").exists()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "fragment"),
    [
        (("x.xyz",), {}, FormatError, "the ending does not say the format"),
        (("x.csv", "xml"), {}, ParameterError, "'format' parameter of write"),
        (("x.qrels",), {}, FormatError, "the format 'qrels' cannot hold Consensus. Formats for Consensus: csv, jsonl"),
        (("x.csv",), {"top": 3}, ParameterError, "writing 'csv' does not take top. It takes quote_formulas"),
        (("x.trec",), {"like": 3}, ParameterError, "It takes top, tag, break_ties"),
        (("nowhere/x.csv",), {}, DataError, "there is no folder"),
    ],
)
def test_what_cannot_be_written_is_said(
    tmp_path: Path, arguments: tuple[str, ...], options: dict[str, Any], error: type[Exception], fragment: str
) -> None:
    with pytest.raises(error) as caught:
        write(CONSENSUS, tmp_path / arguments[0], *arguments[1:], **options)
    assert fragment in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_only_containers_are_written(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="Got 'DataFrame' instead"):
        write(pl.DataFrame(), tmp_path / "x.csv")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["", " a", "a\n", "a\0b"])
def test_ids_that_would_not_come_back_are_refused_in_text_only(tmp_path: Path, bad: str) -> None:
    labels = Labels(["q"], [bad], [1])
    for ending in ("csv", "tsv", "jsonl"):
        with pytest.raises(DataError, match="cannot be written to a text table"):
            write(labels, tmp_path / f"l.{ending}")
    write(labels, tmp_path / "l.parquet")
    assert pl.read_parquet(tmp_path / "l.parquet")["item"].to_list() == [bad]


@pytest.mark.parametrize("bad", ["", "a b", "a\n"])
def test_ids_with_blanks_are_refused_in_qrels(tmp_path: Path, bad: str) -> None:
    with pytest.raises(DataError, match="cannot be written to qrels"):
        write(Labels(["q"], [bad], [1]), tmp_path / "l.qrels")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "qrels", "csv.gz"])
def test_a_failure_while_writing_leaves_what_was_there(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"l.{ending}"
    path.write_bytes(b"what was there")

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for name in ("write_csv", "write_ndjson", "write_parquet"):
        monkeypatch.setattr(pl.DataFrame, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(Labels(["q"], ["a"], [1]), path)
    assert path.read_bytes() == b"what was there"
    assert os.listdir(tmp_path) == [path.name]


def test_no_writer_is_lost() -> None:
    writable = {name for name in FORMATS if FORMATS[name].write is not None}
    assert writable >= {"csv", "tsv", "jsonl", "parquet", "trec", "letor-scores", "qrels", "preflib", "svmlight"}


@given(st.lists(st.text("=+-@'ab＝,\"é", min_size=1, max_size=4), unique=True))
def test_quoted_formulas_come_back_without_one_character(folder: Path, ids: list[str]) -> None:
    write(Labels(["q"] * len(ids), ids, [-1.0] * len(ids)), folder / "quoted.csv", quote_formulas=True)
    with (folder / "quoted.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert not [item for _, item, _ in rows if item[0] in "=+-@＝"]
    assert [item.removeprefix("'") for _, item, _ in rows] == ids
    assert {label for _, _, label in rows} <= {"-1.0"}


def test_names_of_columns_are_quoted_too(tmp_path: Path) -> None:
    write(Features(["q"], ["-d"], [[-1.0, 2.0]], names=["=f", "g"]), tmp_path / "f.tsv", quote_formulas=True)
    assert (tmp_path / "f.tsv").read_text() == "instance\titem\t'=f\tg\nq\t'-d\t-1.0\t2.0\n"


def test_only_spreadsheets_quote_formulas(tmp_path: Path) -> None:
    labels = Labels(["q"], ["=1"], [1])
    with pytest.raises(ParameterError, match="writing 'jsonl' does not take quote_formulas"):
        write(labels, tmp_path / "x.jsonl", quote_formulas=True)
    with pytest.raises(ParameterError, match="writing 'jsonl' does not take quote_formulas"):
        BlockWriter(tmp_path / "x.jsonl", quote_formulas=True)

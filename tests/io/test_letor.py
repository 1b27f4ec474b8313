from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, DuplicateError, FormatError, ParameterError, ParseError
from concordant.io import letor
from concordant.io.letor import (
    read_feature_folds,
    read_features,
    read_letor,
    read_letor_folds,
    write_letor,
    write_letor_scores,
)
from concordant.io.read import read, sniff

AGG = """\
0 qid:10 1:75 2:NULL 3:7 #docid = GX0 inc = 0.04 prob = 0.86
2 qid:10 1:77 2:NULL 3:NULL #docid = GX1 inc = 0.001 prob = 0.09
1 qid:9 1:NULL 2:NULL 3:NULL #docid = GX0 inc = 1 prob = 0.5
0 qid:9 1:1 2:NULL 3:2 #docid = GX7 inc = 1 prob = 0.5
"""

ids = st.text("abcdefXYZ0189-_.é", min_size=1, max_size=14)
ranks = st.one_of(st.integers(1, 600).map(float), st.floats(1, 1e300))
finite = st.floats(allow_nan=False, allow_infinity=False)


def save(folder: Path, text: str, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@st.composite
def lines_of(draw: st.DrawFn, values: st.SearchStrategy[float]) -> list[tuple[str, str, float, dict[int, float]]]:
    """Draw lines (instance, item, label, index -> value) in any order, no (instance, item) twice."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(["1", "22", "x-9"]), ids), min_size=1, max_size=12, unique=True))
    cells = st.dictionaries(st.integers(1, 6), values, max_size=6)
    return [(q, d, draw(st.one_of(st.integers(0, 4).map(float), finite)), draw(cells)) for q, d in pairs]


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Draw how a file may be written without changing what it says."""
    return {
        "gap": draw(st.sampled_from([" ", "\t", "  ", " \t "])),
        "end": draw(st.sampled_from(["\n", "\r\n", " \n"])),
        "between": draw(st.sampled_from(["", "\n", "# a remark\n", "  \t\r\n"])),
        "last": draw(st.booleans()),
        "comment": draw(st.sampled_from(["#docid = {} inc = 1 prob = 0.5", "# docid={}", "#docid = {} # more"])),
    }


def render(lines: list[tuple[str, str, float, list[str]]], layout: dict[str, Any]) -> str:
    out = layout["between"]
    for q, d, label, cells in lines:
        words = [f"{label:g}" if label == int(label) and abs(label) < 1000 else repr(label), f"qid:{q}", *cells]
        out += layout["gap"].join([*words, layout["comment"].format(d)]) + layout["end"] + layout["between"]
    return out if layout["last"] else out.rstrip("\r\n")


class TestReadLetor:
    def test_values_nulls_labels_and_order(self, tmp_path: Path) -> None:
        preferences, labels = read_letor(save(tmp_path, AGG))
        expected = Preferences(
            ["10", "10", "10", "9", "9"],
            ["1", "1", "3", "1", "3"],
            ["GX0", "GX1", "GX0", "GX7", "GX7"],
            [75, 77, 7, 1, 2],
            items=[("10", "GX0"), ("10", "GX1"), ("9", "GX0"), ("9", "GX7")],
            experts=["1", "2", "3"],
        )
        assert preferences == expected
        assert labels == Labels(["10", "10", "9", "9"], ["GX0", "GX1", "GX0", "GX7"], [0, 2, 1, 0])
        assert labels.slots is preferences.slots

    @given(lines=lines_of(ranks), layout=layouts(), fill=st.booleans(), interleave=st.randoms(use_true_random=False))
    def test_any_layout_gives_the_container_of_its_rows(
        self, lines: Any, layout: dict[str, Any], fill: bool, interleave: Any, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        interleave.shuffle(lines)
        n_experts = 6 if fill else max((k for *_, cells in lines for k in cells), default=0)
        written = []
        for q, d, label, cells in lines:
            shown = {k: cells.get(k) for k in range(1, 7)} if fill else cells
            words = [f"{k}:{'NULL' if v is None else repr(v)}" for k, v in shown.items()]
            interleave.shuffle(words)
            written.append((q, d, label, words))
        path = save(tmp_path_factory.mktemp("agg"), render(written, layout))
        preferences, labels = read_letor(path)
        rows = [(q, str(k), d, v) for q, d, _, cells in lines for k, v in cells.items()]
        columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], [], []]
        experts = [str(k + 1) for k in range(n_experts)]
        assert preferences == Preferences(*columns, items=[(q, d) for q, d, *_ in lines], experts=experts)
        assert labels == Labels([r[0] for r in lines], [r[1] for r in lines], [r[2] for r in lines])

    @given(lines=lines_of(ranks), size=st.integers(1, 120))
    def test_small_blocks_give_the_same(self, lines: Any, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
        layout = {"gap": " ", "end": "\n", "between": "", "last": True, "comment": "#docid = {}"}
        text = render([(q, d, x, [f"{k}:{v!r}" for k, v in c.items()]) for q, d, x, c in lines], layout)
        path = save(tmp_path_factory.mktemp("agg"), text)
        whole = read_letor(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor, "_BLOCK_BYTES", size)
            assert read_letor(path) == whole

    def test_scores_when_higher_is_better(self, tmp_path: Path) -> None:
        preferences, _ = read_letor(save(tmp_path, "1 qid:1 1:-0.5 2:0 #docid = a\n"), higher_is_better=True)
        assert preferences.kind == "score"
        assert preferences.value.tolist() == [-0.5, 0.0]

    def test_several_and_compressed_files_are_read_as_one(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(AGG.encode()))
        save(tmp_path, AGG.replace("qid:9", "qid:8").replace("GX1", "GX2").replace("GX0", "GX5"), "b.txt")
        preferences, labels = read_letor(f"{tmp_path}/*.txt*")
        assert preferences.instances == ["10", "9", "8"]
        assert preferences["10"].items == ["GX0", "GX1", "GX5", "GX2"]
        assert labels["10"].label.tolist() == [0, 2, 0, 2]

    def test_byte_order_mark_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + AGG.encode())
        assert read_letor(tmp_path / "a.txt") == read_letor(save(tmp_path, AGG))

    def test_a_repeated_item_names_both_lines(self, tmp_path: Path) -> None:
        path = save(tmp_path, "\n" + AGG + "1 qid:10 1:3 #docid = GX1\n")
        with pytest.raises(DuplicateError) as caught:
            read_letor(path)
        assert str(caught.value) == (
            f"{path}:6: item 'GX1' of instance '10' has a line already, {path}:3. "
            "Pass duplicates='last' to keep the later one, as LETOR's script does."
        )

    def test_the_last_of_repeated_lines_can_be_kept(self, tmp_path: Path) -> None:
        path = save(tmp_path, AGG + "1 qid:10 2:3 #docid = GX0\n0 qid:10 2:4 #docid = GX0\n")
        preferences, labels = read_letor(path, duplicates="last")
        without = [*AGG.splitlines(keepends=True)[1:], "0 qid:10 2:4 #docid = GX0\n"]
        assert (preferences, labels) == read_letor(save(tmp_path, "".join(without), "without.txt"))
        assert preferences["10"].items == ["GX1", "GX0"]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("x qid:1 1:3 #docid = a", "the label must be a finite number, found 'x'."),
            ("inf qid:1 1:3 #docid = a", "the label must be a finite number, found 'inf'."),
            ("0 1:3 #docid = a", "expected 'label qid:Q index:value ...', found no qid after the label."),
            ("0 qid: 1:3 #docid = a", "the qid is empty."),
            ("0 qid:1 1:3", "expected '#docid = D', found none."),
            ("0 qid:1 1:3 # docid", "expected '#docid = D', found none."),
            ("0 qid:1 1;3 #docid = a", "expected expert:value, found '1;3'."),
            ("0 qid:1 one:3 #docid = a", "experts are numbered from 1 to 1000000, found 'one:3'."),
            ("0 qid:1 0:3 #docid = a", "experts are numbered from 1 to 1000000, found '0:3'."),
            ("0 qid:1 -1:3 #docid = a", "experts are numbered from 1 to 1000000, found '-1:3'."),
            ("0 qid:1 1.0:3 #docid = a", "experts are numbered from 1 to 1000000, found '1.0:3'."),
            (
                "0 qid:1 99999999999999999999:3 #docid = a",
                "experts are numbered from 1 to 1000000, found '99999999999999999999:3'.",
            ),
            ("0 qid:1 7777777:3 #docid = a", "experts are numbered from 1 to 1000000, found '7777777:3'."),
            ("0 qid:1 1:3x #docid = a", "the rank by expert 1 must be a finite number or NULL, found '3x'."),
            ("0 qid:1 1: #docid = a", "the rank by expert 1 must be a finite number or NULL, found ''."),
            ("0 qid:1 1:nan #docid = a", "the rank by expert 1 must be a finite number or NULL, found 'nan'."),
            ("0 qid:1 1:1e999 #docid = a", "the rank by expert 1 must be a finite number or NULL, found '1e999'."),
            ("0 qid:1 1:1_0 #docid = a", "the rank by expert 1 must be a finite number or NULL, found '1_0'."),
            ("0 qid:1 1:null #docid = a", "the rank by expert 1 must be a finite number or NULL, found 'null'."),
            (
                "0 qid:1 2:0 #docid = a",
                "the rank by expert 2 is 0, but ranks begin at 1 (best); NULL marks an item not ranked. "
                "Scores take higher_is_better=True, feature files read_features.",
            ),
            ("0 qid:1 2:5 1:3 2:NULL #docid = a", "expert 2 is given twice."),
        ],
    )
    def test_errors_name_the_line_and_what_was_found(self, line: str, message: str, tmp_path: Path) -> None:
        path = save(tmp_path, f"# remark\n\n{AGG}{line}\r\n0 qid: 1;5\n")
        with pytest.raises(ParseError) as caught:
            read_letor(path)
        assert str(caught.value) == f"{path}:7: {message}"

    def test_the_first_line_at_fault_is_named_whatever_the_fault(self, tmp_path: Path) -> None:
        path = save(tmp_path, "0 qid:1 1:1 #docid = a\n0 qid:1 1:x #docid = b\nx qid:1 1:1 #docid = c\n")
        with pytest.raises(ParseError, match=r":2: the rank by expert 1"):
            read_letor(path)

    def test_bytes_that_are_no_text_name_their_line(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(AGG.encode() + b"0 qid:1 1:1 #docid = \xff\n")
        with pytest.raises(ParseError, match=r"a.txt:5: expected UTF-8 text, found byte 0xff"):
            read_letor(path)

    @pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
    def test_a_file_without_lines_is_an_error(self, text: str, tmp_path: Path) -> None:
        with pytest.raises(ParseError, match="found none"):
            read_letor(save(tmp_path, text))

    def test_unknown_rule_for_duplicates(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="'error' or 'last'"):
            read_letor(save(tmp_path, AGG), duplicates="best")


class TestFolds:
    def make(self, folder: Path, numbers: list[int]) -> None:
        for number in numbers:
            (folder / f"Fold{number}").mkdir()
            for part in ("train", "vali", "test"):
                text = f"1 qid:{part}{number} 1:1 #docid = a\n"
                save(folder / f"Fold{number}", text, f"{part}.txt")

    def test_folds_come_in_the_order_of_their_numbers(self, tmp_path: Path) -> None:
        self.make(tmp_path, [10, 2, 1])
        folds = read_letor_folds(tmp_path)
        assert [f.test.preferences.instances[0] for f in folds] == ["test1", "test2", "test10"]
        train, vali, _ = folds[1]
        assert (train.labels.instances[0], vali[1].instances[0]) == ("train2", "vali2")

    def test_a_missing_part_is_named_with_what_is_there(self, tmp_path: Path) -> None:
        self.make(tmp_path, [1, 2])
        (tmp_path / "Fold2" / "vali.txt").unlink()
        with pytest.raises(DataError) as caught:
            read_letor_folds(tmp_path)
        assert str(caught.value) == (
            f"{str(tmp_path / 'Fold2')!r} has no vali.txt. A fold needs train.txt, vali.txt and test.txt; "
            "it holds test.txt, train.txt."
        )

    def test_a_folder_without_folds(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="holds no folds"):
            read_letor_folds(tmp_path)
        with pytest.raises(DataError, match="is not a folder"):
            read_letor_folds(save(tmp_path, AGG))

    def test_read_letor_points_to_the_folds(self, tmp_path: Path) -> None:
        self.make(tmp_path, [1])
        with pytest.raises(DataError, match="read_letor_folds"):
            read_letor(tmp_path)


class TestReadFeatures:
    @given(lines=lines_of(finite), layout=layouts(), chance=st.randoms(use_true_random=False), zero=st.booleans())
    def test_sparse_lines_in_any_layout_fill_a_dense_table(
        self, lines: Any, layout: dict[str, Any], chance: Any, zero: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        written = []
        shift = 1 if zero else 0
        for q, d, label, cells in lines:
            words = [f"{k - shift}:{v!r}" for k, v in cells.items()]
            chance.shuffle(words)
            written.append((q, d, label, words))
        path = save(tmp_path_factory.mktemp("features"), render(written, layout))
        features, labels = read_features(path)
        used = {k - shift for *_, cells in lines for k in cells}
        names = [str(k) for k in range(0 if 0 in used else 1, max(used, default=0) + 1)]
        X = [[cells.get(int(name) + shift, 0.0) for name in names] for *_, cells in lines]
        table = np.array(X, dtype=np.float64).reshape(len(lines), len(names))
        assert features == Features([r[0] for r in lines], [r[1] for r in lines], table, names)
        assert labels == Labels([r[0] for r in lines], [r[1] for r in lines], [r[2] for r in lines])

    @given(lines=lines_of(finite), size=st.integers(1, 120))
    def test_small_blocks_give_the_same(self, lines: Any, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
        layout = {"gap": " ", "end": "\n", "between": "", "last": True, "comment": "#docid = {}"}
        text = render([(q, d, x, [f"{k - 1}:{v!r}" for k, v in c.items()]) for q, d, x, c in lines], layout)
        path = save(tmp_path_factory.mktemp("features"), text)
        whole = read_features(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor, "_BLOCK_BYTES", size)
            assert read_features(path) == whole

    def test_items_are_numbered_where_no_comment_names_them(self, tmp_path: Path) -> None:
        features, labels = read_features(save(tmp_path, "1 qid:a 1:1 # x\n2 qid:b 1:2\n3 qid:a 1:3\n0 qid:a\n"))
        assert features.items == ["1", "2", "3", "1"]
        assert features.X[:, 0].tolist() == [1, 3, 0, 2]
        assert labels.label.tolist() == [1, 3, 0, 2]

    def test_some_lines_without_an_item_are_an_error(self, tmp_path: Path) -> None:
        path = save(tmp_path, "1 qid:a 1:1 #docid = x\n1 qid:a 1:1\n")
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == f"{path}:2: expected 'docid = D' in a comment, as other lines have one; found none."

    @pytest.mark.parametrize("side", ["rank.train.query", "rank.train.group"])
    @pytest.mark.parametrize("packed", [False, True])
    def test_side_files_give_the_instances(self, side: str, packed: bool, tmp_path: Path) -> None:
        text = "2 1:0.5 3:1\n0 2:7\n\n1 1:1\n"
        path = tmp_path / ("rank.train.gz" if packed else "rank.train")
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        save(tmp_path, "2\n1\n", side)
        features, labels = read_features(path)
        assert features == Features(["1", "1", "2"], ["1", "2", "1"], [[0.5, 0, 1], [0, 7, 0], [1, 0, 0]])
        assert labels.label.tolist() == [2, 0, 1]
        assert read_features(tmp_path)[0] == features

    def test_instances_of_side_files_are_numbered_on(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            save(tmp_path, "1 1:1\n0 1:2\n1 1:3\n", name)
            save(tmp_path, "2\n1\n", f"{name}.query")
        features, _ = read_features([tmp_path / "a", tmp_path / "b"])
        assert features.instances == ["1", "2", "3", "4"]
        assert features.slots.sizes.tolist() == [2, 1, 2, 1]

    @pytest.mark.parametrize(
        ("sizes", "line", "message"),
        [
            ("2\n", 1, "the sizes add up to 2, but rank has 3 lines."),
            ("2\n1\n4\n", 3, "the sizes add up to 7, but rank has 3 lines."),
            ("", 1, "the sizes add up to 0, but rank has 3 lines."),
            ("2\nx\n", 2, "expected the number of items of an instance, found 'x'."),
            ("2\n0\n1\n", 2, "expected the number of items of an instance, found '0'."),
            ("3 4\n", 1, "expected the number of items of an instance, found '3 4'."),
        ],
    )
    def test_side_files_are_checked(self, sizes: str, line: int, message: str, tmp_path: Path) -> None:
        path = save(tmp_path, "1 1:1\n0 1:2\n1 1:3\n", "rank")
        side = save(tmp_path, sizes, "rank.query")
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == f"{side}:{line}: {message}"

    def test_neither_qid_nor_side_file(self, tmp_path: Path) -> None:
        path = save(tmp_path, "\n1 1:1\n")
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == (
            f"{path}:2: expected 'label qid:Q 1:value ...', found no qid, and there is no side file data.txt.query "
            "(or .group) with the number of items of each instance."
        )

    def test_a_qid_stands_in_every_line_or_in_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = save(tmp_path, "1 1:1\n0 qid:4 1:2\n", "rank")
        save(tmp_path, "2\n", "rank.query")
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == f"{path}:1: expected 'label qid:Q index:value ...', found no qid after the label."
        monkeypatch.setattr(letor, "_BLOCK_BYTES", 1)
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == f"{path}:2: found a qid, which earlier lines do not have."

    def test_n_features_widens_and_limits(self, tmp_path: Path) -> None:
        path = save(tmp_path, "1 qid:a 1:1 4:2\n")
        assert read_features(path, n_features=6)[0].X.tolist() == [[1, 0, 0, 2, 0, 0]]
        with pytest.raises(ParseError, match=r":1: feature index 4 is above n_features = 3"):
            read_features(path, n_features=3)
        with pytest.raises(ParseError, match="counted from 0"):
            read_features(save(tmp_path, "1 qid:a 0:1 4:2\n"), n_features=4)
        with pytest.raises(ParameterError, match="n_features"):
            read_features(path, n_features=0)

    def test_a_mistyped_index_is_not_a_giant_table(self, tmp_path: Path) -> None:
        path = save(tmp_path, "1 qid:a 1:1\n1 qid:a 1:1 9000000:1\n1 qid:a 1:1\n")
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == (
            f"{path}:2: feature index 9000000 asks for a table of 3 × 9,000,000 numbers, of which 4 are given. "
            "Features are kept dense; is the index right? If so, renumber the features."
        )

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("1 qid:a 1:x", "feature 1 must be a finite number or nan, found 'x'."),
            ("1 qid:a 1:inf", "feature 1 must be a finite number or nan, found 'inf'."),
            (
                "1 qid:a 2:NULL",
                "feature 2 must be a finite number or nan, found 'NULL'. NULL stands in rank-aggregation files, which "
                "read_letor reads.",
            ),
            ("1 qid:a 1:1 1:2", "feature 1 is given twice."),
            ("1 qid:a -1:2", "features are numbered from 0 to 1000000000, found '-1:2'."),
            ("1 qid:a 3", "expected feature:value, found '3'."),
            ("1 1:2", "expected 'label qid:Q index:value ...', found no qid after the label."),
            ("good qid:a 1:2", "the label must be a finite number, found 'good'."),
        ],
    )
    def test_errors_name_the_line_and_what_was_found(self, line: str, message: str, tmp_path: Path) -> None:
        path = save(tmp_path, f"1 qid:a 1:1 # remark\n\n{line}\n")
        with pytest.raises(ParseError) as caught:
            read_features(path)
        assert str(caught.value) == f"{path}:3: {message}"

    def test_repeated_items(self, tmp_path: Path) -> None:
        path = save(tmp_path, "1 qid:a 1:1 #docid = x\n2 qid:a 1:2 #docid = y\n3 qid:a 2:3 #docid = x\n")
        with pytest.raises(DuplicateError, match=rf"{path}:3: item 'x' of instance 'a' has a line already, {path}:1"):
            read_features(path)
        features, labels = read_features(path, duplicates="last")
        assert features == Features(["a", "a"], ["y", "x"], [[2, 0], [0, 3]])
        assert labels.label.tolist() == [2, 3]

    def test_features_that_are_not_known(self, tmp_path: Path) -> None:
        path = save(tmp_path, "1 qid:a 1:nan 2:3\n2 qid:a 1:0.5 2:NA\n0 qid:a 2:1\n")
        assert sniff(path) == "letor"
        X = read_features(path)[0].X
        np.testing.assert_array_equal(X, [[np.nan, 3], [0.5, np.nan], [0, 1]])
        table = np.array([[1, 7, np.nan, 3], [0, 7, 1, 2]])
        np.save(tmp_path / "t.npy", table)
        np.testing.assert_array_equal(read_features(tmp_path / "t.npy")[0].X, table[:, 2:])

    def test_folds_have_the_columns_of_the_widest_part(self, tmp_path: Path) -> None:
        for fold in (1, 2):
            for part, line in (("train", "2 qid:1 1:5 2:1"), ("vali", "1 qid:2 4:7"), ("test", "0 qid:3 3:0.5")):
                path = tmp_path / f"Fold{fold}" / f"{part}.txt"
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"{line}{fold}\n")
        folds = read_feature_folds(tmp_path)
        assert [part.features.names.tolist() for fold in folds for part in fold] == [["1", "2", "3", "4"]] * 6
        assert [fold.train.features.X.tolist() for fold in folds] == [[[5, 11, 0, 0]], [[5, 12, 0, 0]]]
        assert [fold.vali.features.X.tolist() for fold in folds] == [[[0, 0, 0, 71]], [[0, 0, 0, 72]]]
        found = read(tmp_path)
        assert found.preferences is None
        assert found.folds == folds
        assert found.features is not None
        assert found.labels is not None
        assert found.features.instances.tolist() == found.labels.instances.tolist() == ["3", "2", "1"]
        with pytest.raises(ParameterError, match=r"'letor-folds' does not take .'higher_is_better'"):
            read(tmp_path, higher_is_better=True)

    def test_arrays(self, tmp_path: Path) -> None:
        table = np.array([[2, 10002, 0.5, 1], [0, 7, 3, 4], [1, 10002, 5, 6]])
        for dtype in (np.float64, np.float32, np.int64):
            np.save(tmp_path / "t.npy", table.astype(dtype))
            features, labels = read_features(tmp_path / "t.npy")
            expected = table.astype(dtype).astype(np.float64)
            assert features == Features(["10002", "7", "10002"], ["1", "1", "2"], expected[:, 2:])
            assert labels.label.tolist() == [2, 1, 0]
        np.save(tmp_path / "f.npy", np.asfortranarray(table))
        assert read_features(tmp_path / "f.npy")[0].X.tolist() == [[0.5, 1], [5, 6], [3, 4]]
        (tmp_path / "t.npy.gz").write_bytes(gzip.compress((tmp_path / "f.npy").read_bytes()))
        assert read_features(tmp_path / "t.npy.gz") == read_features(tmp_path / "f.npy")

    @pytest.mark.parametrize(
        ("table", "error", "message"),
        [
            (
                np.array([[1, 2.5, 3]]),
                ParseError,
                r":1: row 1: the query in column 2 must be a whole number, found 2.5",
            ),
            (
                np.array([[1, 2, 3], [1, 2, np.inf]]),
                ParseError,
                r":2: row 2, column 3 must be a finite number or NaN, found inf",
            ),
            (
                np.array([[1, 2, 3], [np.nan, 2, 3]]),
                ParseError,
                r":2: row 2, column 1 must be a finite number, found nan",
            ),
            (np.zeros((3, 2)), FormatError, r"expected a table .* found an array of shape \(3, 2\)"),
            (np.zeros(3), FormatError, "expected a table"),
            (np.array([["a", "b", "c"]]), FormatError, "elements of type <U1"),
            (np.array([[1, 2, None]]), FormatError, r"elements of type \|O"),
            (np.zeros((0, 5)), ParseError, "found none"),
        ],
    )
    def test_arrays_are_checked(self, table: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
        np.save(tmp_path / "t.npy", table)
        with pytest.raises(error, match=message):
            read_features(tmp_path / "t.npy")


class TestWriting:
    @given(
        lines=lines_of(ranks),
        silent=st.integers(0, 2),
        kind=st.sampled_from(["rank", "score"]),
        name=st.sampled_from(["o.txt", "o.txt.gz"]),
    )
    def test_preferences_and_labels_come_back(
        self, lines: Any, silent: int, kind: Any, name: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        rows = [(q, str(k), d, v if kind == "rank" else 1 - v) for q, d, _, cells in lines for k, v in cells.items()]
        columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], [], []]
        pairs = [(q, d) for q, d, *_ in lines]
        experts = [str(k) for k in range(1, 7 + silent)]
        preferences = Preferences(*columns, kind=kind, items=pairs, experts=experts)
        labels = Labels([q for q, _ in pairs], [d for _, d in pairs], [r[2] for r in lines])
        path = tmp_path_factory.mktemp("written") / name
        write_letor(preferences, path, labels)
        again, labels_again = read_letor(path, higher_is_better=kind == "score")
        assert again == preferences
        assert labels_again == labels

    def test_the_line_is_what_the_evaluation_script_matches(self, tmp_path: Path) -> None:
        preferences, labels = read_letor(save(tmp_path, AGG))
        path = tmp_path / "out.txt"
        write_letor(preferences, path, labels)
        expected = [line[: line.index(" inc")] + " inc = 1 prob = 1" for line in AGG.splitlines()]
        assert path.read_text().splitlines() == expected

    def test_without_labels_all_are_zero(self, tmp_path: Path) -> None:
        write_letor(Preferences(["q"], ["x"], ["a"], [2.5]), tmp_path / "o")
        assert (tmp_path / "o").read_text() == "0 qid:q 1:2.5 #docid = a inc = 1 prob = 1\n"

    @pytest.mark.parametrize(
        ("instance", "item", "message"),
        [
            ("a b", "x", "instance 'a b' cannot be written"),
            ("a#b", "x", "instance 'a#b' cannot be written"),
            ("", "x", "instance '' cannot be written"),
            ("a", "x\ny", r"item 'x\\ny' cannot be written"),
            ("a", "", "item '' cannot be written"),
        ],
    )
    def test_ids_that_would_not_come_back_are_refused(
        self, instance: str, item: str, message: str, tmp_path: Path
    ) -> None:
        path = save(tmp_path, "before", "o")
        with pytest.raises(DataError, match=message):
            write_letor(Preferences([instance], ["e"], [item], [1]), path)
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]

    def test_weights_and_nobody_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no place for weights"):
            write_letor(Preferences(["q"], ["e"], ["a"], [1], weight=[2]), tmp_path / "o")
        with pytest.raises(DataError, match="at least one expert"):
            write_letor(Preferences([], [], [], [], items=[("q", "a")]), tmp_path / "o")

    @given(scores=st.lists(finite, min_size=1, max_size=20))
    def test_scores_come_back_to_the_bit(self, scores: list[float], tmp_path_factory: pytest.TempPathFactory) -> None:
        items = [str(i) for i in range(len(scores))]
        path = tmp_path_factory.mktemp("scores") / "s.txt"
        write_letor_scores(Consensus(["q"] * len(items), items, scores), path)
        assert [float(text) for text in path.read_text().split("\n")[:-1]] == scores

    def test_scores_follow_the_lines_of_the_data_file(self, tmp_path: Path) -> None:
        _, labels = read_letor(save(tmp_path, AGG))
        consensus = Consensus(
            ["9", "9", "10", "10", "10"], ["GX7", "GX0", "GX1", "GX0", "extra"], [0.7, 0.0, 0.1, 0.5, 9]
        )
        write_letor_scores(consensus, tmp_path / "s", like=labels)
        assert (tmp_path / "s").read_text() == "0.5\n0.1\n0.0\n0.7\n"
        with pytest.raises(DataError) as caught:
            write_letor_scores(consensus[["10"]], tmp_path / "s", like=labels)
        assert str(caught.value) == (
            "the consensus has no score for item 'GX0' of instance '9', and a score file needs one for each line. "
            "Was it made from the same file?"
        )
        assert (tmp_path / "s").read_text() == "0.5\n0.1\n0.0\n0.7\n"


@pytest.mark.data
class TestRealData:
    def test_mq2008_agg_is_what_its_readme_says(self, data_dir: Path) -> None:
        folds = read_letor_folds(data_dir / "MQ2008-agg")
        sizes = [tuple(len(part.preferences) for part in fold) for fold in folds]
        assert sizes == [(471, 157, 156), (471, 156, 157), (470, 157, 157), (470, 157, 157), (470, 157, 157)]
        tests = Preferences.concat([fold.test.preferences for fold in folds])
        labels = Labels.concat([fold.test.labels for fold in folds])
        assert (len(tests), tests.n_slots, tests.n_experts) == (784, 15_211, 25)
        assert np.bincount(labels.label.astype(int)).tolist() == [12_279, 2_001, 931]
        assert round(100 * (1 - tests.n_rows / (15_211 * 25)), 2) == 65.04
        assert tests.n_lists == 17_512
        assert tests.value.max() == 530
        ranked = np.zeros(tests.n_slots, dtype=bool)
        ranked[tests.slot] = True
        assert ranked.all()
        assert (tests.positions("min") == tests.positions("max")).all()
        size = tests.slots.sizes
        assert (size.min(), round(size.mean(), 1), size.max()) == (5, 19.4, 121)
        relevant = np.bincount(labels.slots.instance, weights=labels.label > 0)
        assert (relevant == 0).sum() == 220
        share = np.bincount(tests.row_expert, minlength=25) / tests.n_slots
        assert [round(100 * share[k - 1], 1) for k in (7, 20, 13, 25, 24)] == [1.7, 6.7, 9.1, 9.3, 10.1]
        for fold in folds:
            assert all(part.preferences.experts == [str(k) for k in range(1, 26)] for part in fold)

    def test_first_line_of_mq2008_agg(self, data_dir: Path) -> None:
        preferences, labels = read_letor(data_dir / "MQ2008-agg" / "Fold1" / "test.txt")
        path = data_dir / "MQ2008-agg" / "Fold1" / "test.txt"
        words = path.read_text().split("\n", 1)[0].split()
        frame = preferences["18219"].select_items(["GX004-93-7097963"]).to_frame()
        assert {str(e): v for e, v in zip(frame["expert"], frame["rank"], strict=True)} == {
            w.split(":")[0]: float(w.split(":")[1]) for w in words[2:27] if not w.endswith("NULL")
        }
        assert (preferences.items[0], labels.label[0]) == ("GX004-93-7097963", 0)

    def test_writing_mq2008_agg_gives_the_file_back(self, data_dir: Path, tmp_path: Path) -> None:
        source = data_dir / "MQ2008-agg" / "Fold1" / "vali.txt"
        preferences, labels = read_letor(source)
        write_letor(preferences, tmp_path / "out.txt", labels)
        cut = [line[: line.index(" inc = ")] for line in source.read_text().splitlines()]
        assert [line[: line.index(" inc = ")] for line in (tmp_path / "out.txt").read_text().splitlines()] == cut

    def test_lightgbm_lambdarank_is_what_its_readme_says(self, data_dir: Path) -> None:
        for name, n_items, n_instances, counts in (
            ("rank.train", 3_005, 201, [645, 1_211, 858, 222, 69]),
            ("rank.test", 768, 50, [206, 256, 252, 44, 10]),
        ):
            path = data_dir / "lightgbm-lambdarank" / name
            features, labels = read_features(path)
            assert (features.n_slots, len(features), features.n_features) == (n_items, n_instances, 300)
            assert features.names == [str(j) for j in range(1, 301)]
            assert np.bincount(labels.label.astype(int)).tolist() == counts
            assert features.slots.sizes.tolist() == [int(w) for w in Path(f"{path}.query").read_text().split()]
            for row, line in enumerate(path.read_text().splitlines()):
                pairs = dict(word.split(":") for word in line.split()[1:])
                expected = np.zeros(300)
                expected[[int(k) - 1 for k in pairs]] = [float(v) for v in pairs.values()]
                assert (features.X[row] == expected).all()

    def test_mq2008_ltr46_is_what_its_readme_says(self, data_dir: Path) -> None:
        folder = data_dir / "MQ2008-ltr46-fold1"
        train, train_labels = read_features(folder / "train.npy")
        test, test_labels = read_features(folder / "test.npy")
        text, text_labels = read_features(folder / "Fold1-test.txt")
        assert (train.X.shape, test.X.shape, text.X.shape) == ((9_630, 46), (2_874, 46), (2_874, 46))
        assert (len(train), len(test), len(text)) == (471, 156, 156)
        assert np.bincount(train_labels.label.astype(int)).tolist() == [7_820, 1_223, 587]
        assert np.bincount(test_labels.label.astype(int)).tolist() == [2_319, 378, 177]
        assert (test.X == text.X).all()
        assert (test_labels.label == text_labels.label).all()
        assert test.instances == text.instances.tolist()
        preferences, agg_labels = read_letor(data_dir / "MQ2008-agg" / "Fold1" / "test.txt")
        assert text.slots == preferences.slots
        assert text_labels == agg_labels
        train_agg, _ = read_letor(data_dir / "MQ2008-agg" / "Fold1" / "train.txt")
        assert train.slots.sizes.tolist() == train_agg.slots.sizes.tolist()
        assert train.instances == train_agg.instances.tolist()

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, DataError, FormatError, ParameterError, ParseError
from concordant.io.preflib import read_preflib, write_preflib
from concordant.io.read import read

TOC = """\
# FILE NAME: 00002-00000001.toc
# TITLE: Small: a title
# DATA TYPE: toc
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: 112
# NUMBER UNIQUE ORDERS: 3
# ALTERNATIVE NAME 1: Branden
# ALTERNATIVE NAME 2: Mission: Impossible
# ALTERNATIVE NAME 3: Bdale
# ALTERNATIVE NAME 4: None Of The Above
100: 3,1,2,4
9: 3,{1,2,4}
3: {4, 1},{2,3}
"""
OLD = """\
4
1,Branden
2,Mission: Impossible
3,Bdale
4,None Of The Above
112,112,3
100,3,1,2,4
9,3,{1,2,4}
3,{4,1},{2,3}
"""

names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


def save(folder: Path, text: str, name: str = "small.toc") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


CAT = """\
# FILE NAME: 00026-00000001.cat
# TITLE: A village
# DATA TYPE: cat
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: 40
# NUMBER UNIQUE PREFERENCES: 4
# NUMBER CATEGORIES: 3
# CATEGORY NAME 1: Yes
# CATEGORY NAME 2: Maybe
# CATEGORY NAME 3: No
# ALTERNATIVE NAME 1: Ada
# ALTERNATIVE NAME 2: Ben: the elder
# ALTERNATIVE NAME 3: Cleo
# ALTERNATIVE NAME 4: Dan
20: 1,{ 2 , 3 },4
13: {},{},{1,2,3,4}
6: {4,1},{},{ }
1: {},{},{}
"""


def head(n: int, voters: int, unique: int) -> str:
    return f"# NUMBER ALTERNATIVES: {n}\n# NUMBER VOTERS: {voters}\n# NUMBER UNIQUE ORDERS: {unique}\n"


@st.composite
def elections(draw: st.DrawFn, ordered: bool = False) -> tuple[list[str], list[tuple[int, list[list[int]]]]]:
    """Draw names of alternatives and ballots (count, groups of tied alternatives, best first), no order twice.

    Inside a tie the order means nothing; `ordered` draws the one that is written.
    """
    alternatives = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    ballots: dict[tuple[frozenset[int], ...], tuple[int, list[list[int]]]] = {}
    for _ in range(draw(st.integers(0, 6))):
        chosen = draw(st.permutations(range(1, len(alternatives) + 1)))
        chosen = chosen[: draw(st.integers(1, len(chosen)))]
        groups: list[list[int]] = []
        for code in chosen:
            if groups and draw(st.integers(0, 2)) == 0:
                groups[-1].append(code)
            else:
                groups.append([code])
        if ordered:
            groups = [sorted(group) for group in groups]
        ballots.setdefault(tuple(map(frozenset, groups)), (draw(st.integers(1, 500)), groups))
    return alternatives, list(ballots.values())


def expected(instance: str, alternatives: list[str], ballots: list[tuple[int, list[list[int]]]]) -> Preferences:
    """Return the container from the definition: a rank is one more than the number of alternatives ahead."""
    rows = []
    for number, (count, groups) in enumerate(ballots, 1):
        for g, group in enumerate(groups):
            ahead = sum(len(better) for better in groups[:g])
            rows += [(instance, str(number), alternatives[code - 1], ahead + 1, count) for code in group]
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], [], [], []]
    return Preferences(
        *columns[:4],
        weight=columns[4],
        items=[(instance, name) for name in alternatives],
        experts=[str(k) for k in range(1, len(ballots) + 1)],
    )


class TestReading:
    def test_ranks_ties_weights_and_names(self, tmp_path: Path) -> None:
        read = read_preflib(save(tmp_path, TOC))
        items = ["Branden", "Mission: Impossible", "Bdale", "None Of The Above"]
        ballots = [(100, [[3], [1], [2], [4]]), (9, [[3], [1, 2, 4]]), (3, [[4, 1], [2, 3]])]
        assert read == expected("small", items, ballots)
        assert read.value.tolist() == [1, 2, 3, 4, 1, 2, 2, 2, 1, 1, 3, 3]
        assert read.weights.tolist() == [100, 9, 3]

    @pytest.mark.parametrize("change", [str, lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t + "\n\n"])
    def test_the_older_format_says_the_same(self, change: Any, tmp_path: Path) -> None:
        assert read_preflib(save(tmp_path, change(OLD))) == read_preflib(save(tmp_path, TOC, "small.toi"))

    @pytest.mark.filterwarnings("ignore:.*the input holds no:concordant.errors.DataWarning")
    @given(election=elections(), spaced=st.booleans(), old=st.booleans())
    def test_any_ballots_give_the_container_of_their_rows(
        self, election: Any, spaced: bool, old: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        alternatives, ballots = election
        comma = " , " if spaced else ","
        orders = [
            comma.join(str(g[0]) if len(g) == 1 else "{" + comma.join(map(str, g)) + "}" for g in groups)
            for _, groups in ballots
        ]
        voters = sum(count for count, _ in ballots)
        if old:
            text = f"{len(alternatives)}\n" + "".join(f"{k},{name}\n" for k, name in enumerate(alternatives, 1))
            text += f"{voters},{voters},{len(ballots)}\n"
        else:
            text = head(len(alternatives), voters, len(ballots))
            text += "".join(f"# ALTERNATIVE NAME {k}: {name}\n" for k, name in enumerate(alternatives, 1))
        separator = "," if old else ": "
        text += "".join(f"{count}{separator}{order}\n" for (count, _), order in zip(ballots, orders, strict=True))
        path = save(tmp_path_factory.mktemp("preflib"), text, "e.toi")
        assert read_preflib(path) == expected("e", alternatives, ballots)

    def test_names_that_tell_nothing_apart_give_way_to_numbers(self, tmp_path: Path) -> None:
        text = head(5, 1, 1) + "".join(
            f"# ALTERNATIVE NAME {k}: {name}\n" for k, name in ((4, "twin"), (2, ""), (1, "own"), (3, "twin"))
        )
        assert read_preflib(save(tmp_path, text + "1: 5\n", "a.soi")).items == ["own", "2", "3", "4", "5"]
        assert read_preflib(save(tmp_path, text.replace("own", "4") + "1: 5\n", "a.soi")).items == list("12345")

    def test_remarks_in_the_header_are_no_names(self, tmp_path: Path) -> None:
        text = "# edited: no ALTERNATIVE NAME 9: x\n# - drop\n#\n# PUBLICATION DATE: 2013-08-17\n" + TOC
        assert read_preflib(save(tmp_path, text)) == read_preflib(save(tmp_path, TOC))

    def test_nobody_cast_it_or_nothing_is_on_it(self, tmp_path: Path) -> None:
        read = read_preflib(save(tmp_path, head(2, 3, 3) + "0: 2,1\n1:\n2: 1,2\n", "a.soi"))
        assert (read.n_experts, read.n_lists, read.list_expert.tolist()) == (3, 1, [2])
        assert read.weights.tolist() == [2]

    def test_several_files_are_several_instances(self, tmp_path: Path) -> None:
        save(tmp_path, TOC, "x.toc")
        save(tmp_path, TOC, "x.toi")
        (tmp_path / "y.toc.gz").write_bytes(gzip.compress(TOC.replace("Bdale", "Zoe").encode()))
        save(tmp_path, "no ballots", "info.txt")
        read = read_preflib(tmp_path)
        assert read.instances == ["x.toc", "x.toi", "y"]
        assert (read.n_experts, read.n_lists, read.n_slots) == (3, 9, 12)
        assert read["y"].items[2] == "Zoe"
        alone = read_preflib(tmp_path / "y.toc.gz")
        assert read["y"] == alone
        assert read_preflib([tmp_path / "y.toc.gz", f"{tmp_path}/*.toi"]).instances == ["y", "x"]

    def test_equal_names_in_several_folders(self, tmp_path: Path) -> None:
        for folder in ("p", "q"):
            (tmp_path / folder).mkdir()
            save(tmp_path / folder, TOC)
        assert read_preflib(f"{tmp_path}/*/*.toc").instances == ["p/small.toc", "q/small.toc"]

    def test_a_folder_without_ballots(self, tmp_path: Path) -> None:
        save(tmp_path, "x", "info.txt")
        with pytest.raises(DataError, match=r"holds no PrefLib files ending in \.soc, \.soi, \.toc, \.toi"):
            read_preflib(tmp_path)

    @pytest.mark.parametrize(
        ("ending", "holds"),
        [
            ("wmd", "a weighted matching graph"),
            ("dat", "extra data without a format"),
        ],
    )
    def test_other_types_say_what_they_are(self, ending: str, holds: str, tmp_path: Path) -> None:
        said = f"a PrefLib {ending} file holds {holds}, not ballots. "
        said += "read_preflib reads soc, soi, toc, toi, cat."
        path = save(tmp_path, TOC, f"a.{ending}")
        with pytest.raises(FormatError) as caught:
            read_preflib(path)
        assert str(caught.value) == f"{path}: {said}"
        path = save(tmp_path, TOC.replace("TYPE: toc", f"TYPE: {ending}"), "a.txt")
        with pytest.raises(FormatError) as caught:
            read_preflib(path)
        assert str(caught.value) == f"{path}:3: {said}"

    def test_the_header_decides_over_the_ending(self, tmp_path: Path) -> None:
        assert read_preflib(save(tmp_path, TOC, "ballots.txt")).n_lists == 3
        with pytest.raises(ParseError, match=r":12: a soi file holds no ties, found '3,\{1,2,4\}'"):
            read_preflib(save(tmp_path, TOC.replace("TYPE: toc", "TYPE: soi")))
        with pytest.raises(FormatError, match=r":3: DATA TYPE must be one of soc, soi, toc, toi, cat, found 'xyz'"):
            read_preflib(save(tmp_path, TOC.replace("TYPE: toc", "TYPE: xyz")))

    @pytest.mark.parametrize(
        ("ending", "ballot", "message"),
        [
            ("toi", "3 1,2", "expected 'count: 1,{4,3},2', found '3 1,2'."),
            ("toi", "x: 1,2", "expected 'count: 1,{4,3},2', found 'x: 1,2'."),
            ("toi", "-1: 1,2", "expected 'count: 1,{4,3},2', found '-1: 1,2'."),
            ("toi", "1.5: 1,2", "expected 'count: 1,{4,3},2', found '1.5: 1,2'."),
            *(
                (
                    "toi",
                    f"1:{order}",
                    f"expected alternatives' numbers separated by commas, tied ones in braces, found {order!r}.",
                )
                for order in ("1 2", "1,,2", "a", "{1,2", "1,2}", "{1,{2}}", "{}", "1,{},2", "{1 2}", "1,2,", "+1")
            ),
            ("toi", "1: 1,5", "the alternatives are numbered 1 to 4, found 5."),
            ("toi", "1: 0,1", "the alternatives are numbered 1 to 4, found 0."),
            ("toi", "1: 1,2,1", "alternative 1 stands twice in one ballot."),
            ("toi", "1: {1,2},{3,2}", "alternative 2 stands twice in one ballot."),
            ("soi", "1: {1,2}", "a soi file holds no ties, found '{1,2}'."),
            (
                "soc",
                "1: 3,1,2",
                "a soc file holds complete orders; this ballot ranks 3 of 4 alternatives. "
                "Incomplete ones belong in a soi file.",
            ),
            (
                "toc",
                "1: {3,1}",
                "a toc file holds complete orders; this ballot ranks 2 of 4 alternatives. "
                "Incomplete ones belong in a toi file.",
            ),
            ("toi", "# NUMBER VOTERS: 7", "'# NUMBER VOTERS' must come before the first ballot."),
        ],
    )
    def test_ballots_at_fault_name_their_line(self, ending: str, ballot: str, message: str, tmp_path: Path) -> None:
        path = save(tmp_path, f"{head(4, 2, 2)}\n1: 4,3,2,1\n{ballot}\n", f"a.{ending}")
        with pytest.raises(ParseError) as caught:
            read_preflib(path)
        assert str(caught.value) == f"{path}:6: {message}"

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("# NUMBER VOTERS: many\n", 1, "NUMBER VOTERS must be a whole number, found 'many'."),
            ("# NUMBER VOTERS: 1\n# NUMBER VOTERS: 1\n", 2, "NUMBER VOTERS is given twice, on lines 1 and 2."),
            (
                "# ALTERNATIVE NAME 2: a\n\n# ALTERNATIVE NAME 2: b\n",
                3,
                "alternative 2 is named twice, on lines 1 and 3.",
            ),
            ("# ALTERNATIVE NAME 0: a\n", 1, "alternatives are numbered from 1 to 1000000, found 0."),
            ("# NUMBER ALTERNATIVES: 0\n1: 1\n", 1, "NUMBER ALTERNATIVES must lie between 1 and 1000000, found 0."),
            (
                "# NUMBER ALTERNATIVES: 2000000\n1: 1\n",
                1,
                "NUMBER ALTERNATIVES must lie between 1 and 1000000, found 2000000.",
            ),
            (
                "# NUMBER ALTERNATIVES: 2\n# ALTERNATIVE NAME 3: c\n1: 1\n",
                2,
                "NUMBER ALTERNATIVES says 2, but alternative 3 has a name.",
            ),
            ("3\n1,a\n2,b\n1,c\n3,3,1\n", 4, "alternative 1 is named twice, on lines 2 and 4."),
            ("2\n1,a\nb\n", 3, "expected 'number,name' for 2 alternatives, found 'b'."),
            ("2\n1,a\n", 2, "expected 'number,name' for 2 alternatives, found ''."),
            ("1\n1,a\n4,4\n", 3, "expected 'voters,sum of counts,unique orders', found '4,4'."),
            *(
                (
                    text,
                    line,
                    "expected '# NUMBER ALTERNATIVES: m' and '# ALTERNATIVE NAME i: name' headers before the ballots, "
                    "or the older format that begins with the number of alternatives.",
                )
                for text, line in (("1: 1,2\n", 1), ("", 1), ("\n# a remark\n", 2), ("# TITLE: x\nhello\n", 2))
            ),
        ],
    )
    def test_headers_at_fault_name_their_line(self, text: str, line: int, message: str, tmp_path: Path) -> None:
        path = save(tmp_path, text, "a.toi")
        with pytest.raises(ParseError) as caught:
            read_preflib(path)
        assert str(caught.value) == f"{path}:{line}: {message}"

    @pytest.mark.parametrize(
        ("old", "new", "line", "message"),
        [
            ("VOTERS: 112", "VOTERS: 113", 5, "NUMBER VOTERS says 113, but the ballots add up to 112."),
            ("ORDERS: 3", "ORDERS: 4", 6, "NUMBER UNIQUE ORDERS says 4, but the number of ballot lines is 3."),
        ],
    )
    def test_counts_must_be_those_of_the_header(
        self, old: str, new: str, line: int, message: str, tmp_path: Path
    ) -> None:
        path = save(tmp_path, TOC.replace(old, new))
        with pytest.raises(ParseError) as caught:
            read_preflib(path)
        tail = "Is the file cut short or edited? Pass check_counts=False to read the ballots that are there."
        assert str(caught.value) == f"{path}:{line}: {message} {tail}"
        assert read_preflib(path, check_counts=False) == read_preflib(save(tmp_path, TOC))

    def test_counts_of_the_older_format(self, tmp_path: Path) -> None:
        with pytest.raises(ParseError, match=r":6: NUMBER VOTERS says 111, but the ballots add up to 112"):
            read_preflib(save(tmp_path, OLD.replace("112,112,3", "112,111,3")))
        with pytest.raises(ParseError, match=r":6: NUMBER UNIQUE ORDERS says 2, but the number of ballot lines is 3"):
            read_preflib(save(tmp_path, OLD.replace("112,112,3", "112,112,2")))


class TestWriting:
    @pytest.mark.filterwarnings("ignore:.*the input holds no:concordant.errors.DataWarning")
    @given(election=elections(ordered=True), ending=st.sampled_from(["", ".gz"]))
    def test_ballots_come_back(self, election: Any, ending: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        alternatives, ballots = election
        preferences = expected("votes", alternatives, ballots)
        path = write_preflib(preferences, tmp_path_factory.mktemp("written") / f"votes{ending}")
        assert read_preflib(path) == preferences
        tied = any(len(g) > 1 for _, groups in ballots for g in groups)
        complete = all(sum(map(len, groups)) == len(alternatives) for _, groups in ballots)
        assert path.name == f"votes.{'t' if tied else 's'}o{'c' if complete else 'i'}{ending}"

    @given(election=elections(ordered=True), kind=st.sampled_from(["score", "rating"]))
    def test_scores_are_written_as_the_order_they_give(
        self, election: Any, kind: Any, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        alternatives, ballots = election
        assume(ballots)
        ranks = expected("votes", alternatives, ballots)
        frame = ranks.to_frame().drop_nulls("expert")
        scores = Preferences(
            frame["instance"],
            frame["expert"],
            frame["item"],
            10 - 2.5 * frame["rank"],
            kind=kind,
            weight=frame["weight"],
            items=[("votes", name) for name in alternatives],
            experts=ranks.experts,
        )
        path = write_preflib(scores, tmp_path_factory.mktemp("written") / "votes")
        assert read_preflib(path) == ranks
        assert "# MODIFICATION TYPE: induced\n" in path.read_text()

    def test_the_whole_file(self, tmp_path: Path) -> None:
        preferences = Preferences(
            ["my vote"] * 7,
            ["x", "x", "y", "y", "z", "z", "w"],
            ["b", "a", "a", "b", "b", "c", "a"],
            [2, 9, 4, 4, 1, 1, 1],
            items=[("my vote", name) for name in "abcd"],
            weight=[3, 3, 1, 1, 2, 2, 0],
        )
        path = write_preflib(preferences, tmp_path / "out")
        assert path == tmp_path / "out.toi"
        assert path.read_text() == (
            "# FILE NAME: out.toi\n# TITLE: my vote\n# DESCRIPTION: \n# DATA TYPE: toi\n"
            "# MODIFICATION TYPE: original\n# RELATES TO: \n# RELATED FILES: \n# PUBLICATION DATE: \n"
            "# MODIFICATION DATE: \n# NUMBER ALTERNATIVES: 4\n# NUMBER VOTERS: 6\n# NUMBER UNIQUE ORDERS: 3\n"
            "# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n# ALTERNATIVE NAME 3: c\n# ALTERNATIVE NAME 4: d\n"
            "3: 2,1\n1: {1,2}\n2: {2,3}\n"
        )

    def test_equal_orders_become_one_ballot(self, tmp_path: Path) -> None:
        preferences = Preferences(
            ["q"] * 6, ["x", "x", "y", "y", "z", "z"], ["a", "b", "b", "a", "a", "b"], [1, 1, 7, 7, 1, 2]
        )
        path = write_preflib(preferences, tmp_path / "out")
        assert path.read_text().splitlines()[-2:] == ["2: {1,2}", "1: 1,2"]

    def test_an_ending_given_must_allow_the_ballots(self, tmp_path: Path) -> None:
        strict = Preferences(["q"] * 3, ["x", "x", "y"], ["a", "b", "a"], [1, 2, 1])
        for ending in ("soi", "toi"):
            path = write_preflib(strict, tmp_path / f"o.{ending}")
            assert f"# DATA TYPE: {ending}\n" in path.read_text()
            assert read_preflib(path).n_lists == 2
        for ending in ("soc", "toc"):
            with pytest.raises(DataError) as caught:
                write_preflib(strict, tmp_path / f"n.{ending}")
            assert str(caught.value) == (
                f"cannot write {str(tmp_path / f'n.{ending}')!r}: these ballots are strict, incomplete, which a "
                f"{ending} file may not hold. Name it .soi, or leave the ending out."
            )
            assert not (tmp_path / f"n.{ending}").exists()

    def test_weights_must_count_voters(self, tmp_path: Path) -> None:
        path = save(tmp_path, "before", "o.soi")
        with pytest.raises(DataError) as caught:
            write_preflib(Preferences(["q", "q"], ["x", "y"], ["a", "a"], [1, 1], weight=[1, 0.5]), path)
        assert str(caught.value) == (
            "PrefLib counts voters, so weights must be whole numbers. Expert 'y' weighs 0.5. "
            "Scale the weights, or clear them with preferences.with_weights(None)."
        )
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]

    def test_one_instance_at_a_time(self, tmp_path: Path) -> None:
        two = Preferences(["p", "q"], ["x", "x"], ["a", "a"], [1, 1])
        with pytest.raises(DataError, match="holds one instance; these preferences have 2"):
            write_preflib(two, tmp_path / "o")
        for one in two:
            assert write_preflib(one, tmp_path / one.instances[0]).name == f"{one.instances[0]}.soc"

    @pytest.mark.parametrize("name", ["", " a", "a\t", "a\nb"])
    def test_names_that_would_not_come_back_are_refused(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="cannot be a name in a PrefLib file"):
            write_preflib(Preferences(["q"], ["x"], [name], [1]), tmp_path / "o")

    def test_other_things_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="at least one item"):
            write_preflib(Preferences(["q"], ["x"], ["a"], [1]).select_items([]), tmp_path / "o")
        with pytest.raises(ParameterError, match="must be Preferences"):
            write_preflib([1, 2], tmp_path / "o")  # type: ignore[arg-type]


@pytest.mark.data
class TestRealData:
    def test_every_file_has_the_counts_of_its_metadata(self, data_dir: Path) -> None:
        n_files = 0
        for listing in sorted((data_dir / "preflib").glob("*/metadata.csv")):
            with listing.open() as handle:
                rows = list(csv.DictReader(handle, delimiter=";"))
            for row in rows:
                path = listing.parent / row["file"]
                read = read_preflib(path)
                found = (read.n_slots, read.weights.sum(), read.n_experts)
                assert found == (int(row["numAlt"]), int(row["numVot"]), int(row["numUniq"])), path
                strict = bool((read.positions("min") == read.positions("max")).all())
                complete = bool((read.list_lengths == read.n_slots).all())
                assert (str(strict), str(complete)) == (row["isStrict"], row["isComplete"]), path
                n_files += 1
        assert n_files == 435
        assert n_files == sum(len(list((data_dir / "preflib").glob(f"*/*.{t}"))) for t in ("soc", "soi", "toc", "toi"))

    def test_numbers_of_the_readme(self, data_dir: Path) -> None:
        folder = data_dir / "preflib"
        assert [len(read_preflib(folder / name)) for name in ("04-netflix", "06-skate", "15-cleanweb")] == [200, 48, 79]
        assert len(read_preflib(folder / "64-eurovision")) == 73
        agh = read_preflib(folder / "09-agh")
        assert sorted(zip(agh.slots.sizes.tolist(), [p.weights.sum() for p in agh], strict=True)) == [
            (7, 153),
            (9, 146),
        ]
        sushi = read_preflib(folder / "14-sushi" / "00014-00000001.soc")
        assert (sushi.n_slots, sushi.weights.sum(), set(sushi.list_lengths.tolist())) == (10, 5000, {10})
        top = read_preflib(folder / "14-sushi" / "00014-00000002.soi")
        assert (top.n_slots, top.weights.sum(), set(top.list_lengths.tolist())) == (100, 5000, {10})

    def test_every_file_comes_back_from_being_written(self, data_dir: Path, tmp_path: Path) -> None:
        for path in sorted((data_dir / "preflib").glob("*/*.[st]o[ci]")):
            if path.stat().st_size > 200_000:
                continue
            read = read_preflib(path)
            written = write_preflib(read, tmp_path / path.stem)
            again = read_preflib(written)
            assert (again.items.tolist(), again.instances.tolist()) == (read.items.tolist(), read.instances.tolist())
            assert np.array_equal(again.weights, read.weights), path
            for column in ("row_list", "value", "slot"):
                # Tied alternatives are written in the order of their numbers.
                rows = [np.lexsort((p.slot, p.value, p.row_list)) for p in (again, read)]
                assert np.array_equal(getattr(again, column)[rows[0]], getattr(read, column)[rows[1]]), path
            if read.n_lists == read.n_experts:
                assert write_preflib(again, tmp_path / path.name).read_bytes() == written.read_bytes(), path
            written.unlink()

    def test_files_of_the_plackett_luce_package(self, data_dir: Path) -> None:
        folder = data_dir / "r-ranking" / "PlackettLuce" / "inst" / "extdata"
        counts = {}
        refused = {}
        for path in sorted(folder.glob("*.[st]o[ci]")):
            try:
                read = read_preflib(path)
            except ConcordantError as error:
                refused[path.name] = str(error).removeprefix(str(path))
                read = read_preflib(path, check_counts=False)
            counts[path.name] = (read.n_slots, int(read.weights.sum()), read.n_lists)
        # Two were edited by the package's authors: a choice was taken out, and the header still counts it.
        tail = "NUMBER VOTERS says 14, but the ballots add up to 12. Is the file cut short or edited? "
        tail += "Pass check_counts=False to read the ballots that are there."
        assert refused == {"education_courses.soi": f":12: {tail}", "education_courses2.soi": f":15: {tail}"}
        assert counts == {
            "cities.soi": (36, 392, 372),
            "education_courses.soi": (13, 12, 11),
            "education_courses.toi": (12, 15, 15),
            "education_courses2.soi": (13, 12, 11),
            "education_qualities.toi": (20, 15, 15),
            "netflix.soc": (4, 588, 24),
            "skaters.toc": (30, 9, 9),
        }
        unnamed = read_preflib(folder / "education_courses.toi")
        assert unnamed.items[10:].tolist() == ["Artificial Intelligence", "12"]

    def test_other_files_are_refused_by_name(self, data_dir: Path) -> None:
        others = sorted((data_dir / "preflib").glob("*/*.dat"))
        assert others
        for path in others:
            with pytest.raises(FormatError, match=f"{path.name}: a PrefLib dat file holds extra data"):
                read_preflib(path)


class TestCategories:
    def test_categories_are_ratings_and_what_is_left_out_is_missing(self, tmp_path: Path) -> None:
        read = read_preflib(save(tmp_path, CAT, "v.cat"))
        assert read.kind == "rating"
        assert read.items == ["Ada", "Ben: the elder", "Cleo", "Dan"]
        assert read.weights.tolist() == [20, 13, 6]
        assert read.n_experts == 4  # the last ballot sorts nothing: an expert without a list
        rows = read.to_frame().select("expert", "item", "rating").rows()
        assert rows[:4] == [("1", "Ada", 3.0), ("1", "Ben: the elder", 2.0), ("1", "Cleo", 2.0), ("1", "Dan", 1.0)]
        assert {value for expert, _, value in rows if expert == "2"} == {1.0}
        assert sorted(rows[8:]) == [("3", "Ada", 3.0), ("3", "Dan", 3.0)]
        assert read_preflib(tmp_path / "v.cat", missing="below").missing == "below"

    @pytest.mark.parametrize("name", ["v.cat", "v.txt", "v.cat.gz"])
    def test_it_is_recognised_by_name_and_by_content(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / name
        path.write_bytes(gzip.compress(CAT.encode()) if name.endswith("gz") else CAT.encode())
        found = read(path).preferences
        assert found is not None
        assert (found.kind, found.n_lists) == ("rating", 3)

    def test_a_folder_stands_for_its_orders_or_else_for_its_categories(self, tmp_path: Path) -> None:
        save(tmp_path, "Name: x", "info.txt")
        save(tmp_path, CAT, "v.cat")
        for found in (read_preflib(tmp_path), read(tmp_path).preferences, read(tmp_path, "preflib").preferences):
            assert found is not None
            assert (found.kind, found.instances) == ("rating", ["v"])
        save(tmp_path, TOC, "v.toc")
        for found in (read_preflib(tmp_path), read(tmp_path).preferences):
            assert found is not None
            assert (found.kind, found.instances) == ("rank", ["v"])
        with pytest.raises(DataError, match=r"v\.cat' holds categories and .*v\.toc' orders: they make ratings and"):
            read_preflib([tmp_path / "v.cat", tmp_path / "v.toc"])

    @pytest.mark.parametrize(
        ("change", "line", "message"),
        [
            (("6: {4,1},{},{ }", "6: {4,1},{}"), 17, "a ballot of this file has 3 categories, found 2: '{4,1},{}'."),
            (("6: {4,1},{},{ }", "6: 4,{1,2},3,{}"), 17, "a ballot of this file has 3 categories, found 4:"),
            (("6: {4,1},{},{ }", "6: {4,1},{},{4}"), 17, "alternative 4 stands twice in one ballot."),
            (("6: {4,1},{},{ }", "6: {4,5},{},{}"), 17, "the alternatives are numbered 1 to 4, found 5."),
            (("6: {4,1},{},{ }", "6: {4,,1},{},{}"), 17, "expected categories separated by commas, each an"),
            (("6: {4,1},{},{ }", "6: {4,1},,{}"), 17, "expected categories separated by commas, each an"),
            (("6: {4,1},{},{ }", "6:"), 17, "expected categories separated by commas, each an"),
            (("6: {4,1},{},{ }", "6 {4,1},{},{}"), 17, "expected 'count: 1,{4,3},2'"),
            (("CATEGORIES: 3", "CATEGORIES: 2"), 10, "NUMBER CATEGORIES says 2, but category 3 has a name."),
            (("CATEGORIES: 3", "CATEGORIES: 0"), 7, "NUMBER CATEGORIES must lie between 1 and 1000, found 0."),
            (("CATEGORIES: 3", "CATEGORIES: many"), 7, "NUMBER CATEGORIES must be a whole number, found 'many'."),
            (("NAME 3: No\n", "NAME 2: No\n"), 10, "category 2 is named twice, on lines 9 and 10."),
            (("CATEGORY NAME 3", "CATEGORY NAME 0"), 10, "categories are numbered from 1 to 1000, found 0."),
            (("PREFERENCES: 4", "PREFERENCES: 5"), 6, "NUMBER UNIQUE PREFERENCES says 5, but the number of ballot"),
            (("VOTERS: 40", "VOTERS: 41"), 5, "NUMBER VOTERS says 41, but the ballots add up to 40."),
        ],
    )
    def test_faults_name_file_and_line(self, change: tuple[str, str], line: int, message: str, tmp_path: Path) -> None:
        path = save(tmp_path, CAT.replace(*change), "v.cat")
        with pytest.raises(ParseError) as caught:
            read_preflib(path)
        assert str(caught.value).startswith(f"{path}:{line}: {message}")

    def test_without_a_number_of_categories_names_or_the_first_ballot_decide(self, tmp_path: Path) -> None:
        bare = "".join(line for line in CAT.splitlines(True) if "CATEGOR" not in line)
        assert read_preflib(save(tmp_path, bare, "v.cat")) == read_preflib(save(tmp_path, CAT, "v.cat"))
        named = CAT.replace("# NUMBER CATEGORIES: 3\n", "")
        assert read_preflib(save(tmp_path, named, "v.cat")) == read_preflib(save(tmp_path, CAT, "v.cat"))
        with pytest.raises(ParseError, match=":1: expected '# NUMBER ALTERNATIVES: m'"):
            read_preflib(save(tmp_path, OLD, "v.cat"))

    def test_written_text(self, tmp_path: Path) -> None:
        votes = read_preflib(save(tmp_path, CAT, "v.cat"))
        path = write_preflib(votes, tmp_path / "out.cat", categories=["Yes", "Maybe", "No"])
        lines = path.read_text().splitlines()
        assert lines[3:5] == ["# DATA TYPE: cat", "# MODIFICATION TYPE: original"]
        assert lines[10:16] == [
            "# NUMBER VOTERS: 39",
            "# NUMBER UNIQUE PREFERENCES: 3",
            "# NUMBER CATEGORIES: 3",
            "# CATEGORY NAME 1: Yes",
            "# CATEGORY NAME 2: Maybe",
            "# CATEGORY NAME 3: No",
        ]
        assert lines[-3:] == ["20: 1,{2,3},4", "13: {},{},{1,2,3,4}", "6: {1,4},{},{}"]
        assert write_preflib(votes, tmp_path / "w", categories=["Yes", "Maybe", "No"]).name == "w.cat"

    @given(
        ballots=st.lists(
            st.tuples(st.integers(1, 9), st.lists(st.integers(0, 4), min_size=4, max_size=4)),
            min_size=1,
            max_size=6,
            unique_by=lambda ballot: tuple(ballot[1]),
        )
    )
    def test_ratings_come_back(self, ballots: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
        # 0 is an alternative that the ballot leaves out.
        rows = [
            ("v", str(k), f"i{i}", value, count)
            for k, (count, values) in enumerate(ballots)
            for i, value in enumerate(values)
            if value
        ]
        assume(rows)
        columns = [list(c) for c in zip(*rows, strict=True)]
        votes = Preferences(*columns[:4], weight=columns[4], kind="rating", items=[("v", f"i{i}") for i in range(4)])
        folder = tmp_path_factory.mktemp("cat")
        for categories in (None, ["a", "b", "c", "d"]):
            back = read_preflib(write_preflib(votes, folder / "v.cat", categories=categories))
            assert back.kind == "rating"
            want, got = (zip(v.items.take(v.slot), v.value, v.weights[v.row_list], strict=True) for v in (votes, back))
            assert sorted(got) == sorted(want)

    def test_ratings_that_are_no_counts_keep_their_order(self, tmp_path: Path) -> None:
        votes = Preferences(["q"] * 3, ["x"] * 3, list("abc"), [0.5, 4.5, -1], kind="rating")
        path = write_preflib(votes, tmp_path / "stars.cat")
        assert "# CATEGORY NAME 1: 4.5" in path.read_text()
        assert read_preflib(path).value.tolist() == [3.0, 2.0, 1.0]  # b, a, c, in the order of the file

    def test_what_cannot_be_written(self, tmp_path: Path) -> None:
        ranks = Preferences(["q"], ["x"], ["a"], [1])
        with pytest.raises(DataError, match="a cat file holds ratings; these preferences are ranks"):
            write_preflib(ranks, tmp_path / "o.cat")
        stars = Preferences(["q"] * 2, ["x"] * 2, list("ab"), [4, 2], kind="rating")
        with pytest.raises(DataError, match="3 categories stand for the ratings 3 down to 1, found 4"):
            write_preflib(stars, tmp_path / "o.cat", categories=["Yes", "Maybe", "No"])
        with pytest.raises(DataError, match="categories belong in a cat file"):
            write_preflib(stars, tmp_path / "o.toc", categories=list("abcd"))
        with pytest.raises(ParameterError, match="categories"):
            write_preflib(stars, tmp_path / "o.cat", categories="abcd")
        with pytest.raises(DataError, match="category ' b' cannot be a name in a PrefLib file"):
            write_preflib(stars, tmp_path / "o.cat", categories=["a", " b", "c", "d"])
        assert list(tmp_path.iterdir()) == []
        assert write_preflib(stars, tmp_path / "o").name == "o.soc"  # orders, as before

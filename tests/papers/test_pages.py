"""What stands on a page: every number beside the printed one, and a verdict that can be wrong."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from concordant.errors import DataError, ParameterError
from concordant_papers import published
from concordant_papers.endings import ENDINGS
from concordant_papers.pages import Claim, Page, Picture, Row, Summary, Table, write_index, write_page
from concordant_papers.registry import chosen, studies

THEIRS = {"N@1": 40.0, "MAP": 50.0}


@pytest.mark.parametrize(
    ("ours", "exact", "verdict"),
    [(40.0, False, True), (39.5, False, True), (39.49, False, False), (45.0, False, True), (45.0, True, False)],
)
def test_a_cell_may_be_so_far_below_and_above_unless_it_must_be_exact(ours: float, exact: bool, verdict: bool) -> None:
    assert Row("a", {"N@1": ours}, THEIRS, 0.5, exact).verdict("N@1") is verdict


def test_nothing_is_said_where_there_is_nothing_to_compare() -> None:
    assert Row("a", {"N@1": 1.0}, THEIRS, None).verdict("N@1") is None
    assert Row("a", {}, THEIRS, 0.5).verdict("N@1") is None
    assert Row("a", {"N@1": 1.0}, {}, 0.5).verdict("N@1") is None


def page(tmp_path: Path) -> Summary:
    rows = [
        Row("CRF | ours", {"N@1": 39.0, "MAP": 50.25}, THEIRS, 0.5, errors={"MAP": 0.1}, marks={"MAP": "*"}, why="x"),
        Row("gone", {}, THEIRS, 0.5, why="not there"),
    ]
    claims = [Claim("a > b", True, "1 > 0"), Claim("b > a", False), Claim("c", None)]
    table = Table("table", "A table", ["N@1", "MAP"], rows)
    return write_page(
        tmp_path, "study", "A study", "Somebody", Page([table], claims, [], ["The end."]), seconds=3.0, failed={}
    )


def test_a_page_counts_what_it_shows(tmp_path: Path) -> None:
    found = page(tmp_path)
    assert (found.compared, found.within, found.close, found.unseen, found.absent) == (2, 1, 1, 1, 2)
    assert (found.claims, found.holding) == (2, 1)
    text = (tmp_path / "study.md").read_text()
    assert "39.00 ✗" in text
    assert "50.25 ± 0.10*" in text
    assert "50.00 (+0.25)" in text
    assert "CRF \\| ours" in text
    assert "| b > a | does not hold |" in text
    assert text.count("| gone | – | – |") == 1
    with (tmp_path / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(r["row"], r["column"], r["difference"], r["not below"]) for r in lines] == [
        ("CRF | ours", "N@1", "-1", "False"),
        ("CRF | ours", "MAP", "0.25", "True"),
        ("gone", "N@1", "", ""),
        ("gone", "MAP", "", ""),
    ]
    html = (tmp_path / "study.html").read_text()
    assert "<table>" in html
    assert '<td style="text-align:right">39.00 ✗</td>' in html


def test_a_row_that_is_one_thing_counts_once_and_is_met_only_as_a_whole(tmp_path: Path) -> None:
    printed = {"users": 10.0, "won": 5.0}
    rows = [Row("a", printed, printed, 0.0, exact=True), Row("b", printed | {"won": 6.0}, printed, 0.0, exact=True)]
    rows += [Row("c", {}, printed, why="not there")]
    tables = [Table("films", "Films", ["users", "won"], rows, whole=True)]
    found = write_page(tmp_path, "s", "S", "p", Page(tables), seconds=0, failed={})
    assert (found.compared, found.within, found.close, found.unseen, found.absent) == (2, 1, 1, 1, 1)


def test_a_printed_row_in_two_tables_is_one_in_the_number_of_different_cells(tmp_path: Path) -> None:
    both, less = {"N@1": 40.0, "MAP": 50.0}, {"N@1": 40.0}
    rows = [Row("a", both, both, 0.5), Row("a, again", both, both, 0.5, seen="the rate"), Row("less", less, less, 0.5)]
    rows += [Row("other", {"N@1": 40.0, "MAP": 49.0}, {"N@1": 40.0, "MAP": 49.0}, 0.5, seen="the rate")]
    page = Page([Table("t", "T", ["N@1", "MAP"], rows)])
    found = write_page(tmp_path, "s", "S", "p", page, seconds=0, failed={})
    text = write_index(tmp_path, [found], {}, "About.")
    assert "The 7 comparisons are with 4 different cells; those with no own setting seen are with 2." in text


def test_the_index_adds_up(tmp_path: Path) -> None:
    text = write_index(tmp_path, [page(tmp_path), page(tmp_path)], {"other": "no data"}, "About.")
    assert "| all | 4 | 2 | 2 | 2 | 4 | 2 of 4 | 6 s |" in text
    assert "- other: no data" in text
    assert 'href="study.html"' in (tmp_path / "index.html").read_text()


def test_a_title_with_bars_keeps_its_row_and_its_link(tmp_path: Path) -> None:
    found = page(tmp_path)._replace(title="MRPR and |θ| side by side")
    write_index(tmp_path, [found], {}, "About.")
    html = (tmp_path / "index.html").read_text()
    assert '<a href="study.html">MRPR and |θ| side by side</a>' in html
    assert html.partition("</table>")[0].count("<td") == 2 * 8


def test_without_published_cells_there_are_no_columns_for_them(tmp_path: Path) -> None:
    found = page(tmp_path)._replace(compared=0, within=0, close=0, unseen=0, absent=0)
    text = write_index(tmp_path, [found], {}, "About.")
    assert "| study | claims that hold | computing |" in text
    assert "| all | 1 of 2 | 3 s |" in text
    assert write_index(tmp_path, [], {"other": "no data"}, "About.").count("| all |") == 0


def test_a_quick_page_says_so_and_every_page_leads_back(tmp_path: Path) -> None:
    claims = [Claim("a > b", False)]
    write_page(tmp_path, "s", "S", "p", Page(claims=claims), seconds=0, failed={}, quick=True)
    text, html = (tmp_path / "s.md").read_text(), (tmp_path / "s.html").read_text()
    assert "`concordant reproduce s --quick`" in text
    assert text.index("On synthetic data") < text.index("does not hold")
    assert '<a href="index.html">All studies</a>' in html
    page(tmp_path)
    assert "On synthetic data" not in (tmp_path / "study.md").read_text()


def test_what_rounds_to_nothing_is_not_below_it(tmp_path: Path) -> None:
    table = Table("t", "T", ["x"], [Row("a", {"x": -0.001}, {"x": 0.0})])
    write_page(tmp_path, "s", "S", "p", Page([table]), seconds=0, failed={})
    text = (tmp_path / "s.md").read_text()
    assert "| a | 0.00 |" in text
    assert "0.00 (+0.00)" in text
    assert "-0.00" not in text


def test_columns_of_counts_have_no_decimals(tmp_path: Path) -> None:
    rows = [Row("a", {"steps": 98.0, "s": 1.0}, {"steps": 100.0}), Row("b", {"steps": 7.0, "s": 0.5})]
    write_page(
        tmp_path, "s", "S", "p", Page([Table("t", "T", ["steps", "s"], rows, counts=["steps"])]), seconds=0, failed={}
    )
    text = (tmp_path / "s.md").read_text()
    assert "| a | 98 | 1.00 |\n| published (ours less theirs) | 100 (-2) |  |\n| b | 7 | 0.50 |" in text


def test_what_is_written_by_users_is_not_run(tmp_path: Path) -> None:
    table = Table("t", "<script>alert(1)</script>", ["x"], [Row("<img src=x onerror=alert(1)>", {"x": 1.0})])
    write_page(tmp_path, "s", "<b>", "p", Page([table]), seconds=0, failed={"<i>": "<u>"})
    html = (tmp_path / "s.html").read_text()
    assert not any(tag in html for tag in ("<script>", "<img src=x", "<b>", "<i>", "<u>"))


def test_pictures_are_drawn_the_same_every_time_or_say_why_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")

    def refuse(ax: object) -> None:
        raise DataError("nothing to draw")

    pictures = [Picture("line", "A line", lambda ax: ax.plot([1, 2])), Picture("none", "None", refuse)]
    write_page(tmp_path, "s", "S", "p", Page(pictures=pictures), seconds=0, failed={})
    first = (tmp_path / "line.svg").read_bytes()
    write_page(tmp_path, "s", "S", "p", Page(pictures=pictures), seconds=0, failed={})
    assert (tmp_path / "line.svg").read_bytes() == first
    text = (tmp_path / "s.md").read_text()
    assert "![A line](line.svg)" in text
    assert "Not drawn: nothing to draw" in text


def test_published_figures_are_what_the_papers_printed() -> None:
    assert published.cells("001_table5_sup_mq_agg", dataset="MQ2008-agg", method="RRF") is not None
    crf = published.cells("000_table2_mq_agg", dataset="MQ2008-agg", method="CRF")
    assert crf is not None
    assert (crf["N@1"], crf["N@5"], crf["MAP"]) == (42.29, 51.03, 50.41)
    assert published.cells("000_table2_mq_agg", dataset="MQ2008-agg", method="nobody") is None


def test_studies_have_names_of_their_own_and_unknown_ones_are_refused() -> None:
    names = [s.name for s in studies()]
    assert len(set(names)) == len(names)
    assert [s.name for s in chosen(["all"])] == names
    with pytest.raises(ParameterError, match="no study 'nonsense'"):
        chosen(["nonsense"])


def test_the_index_says_what_is_below_and_what_does_not_hold(tmp_path: Path) -> None:
    text = write_index(tmp_path, [page(tmp_path)], {}, "About.")
    assert "- [study](study.md), A table, **CRF | ours** (N@1 -1.00). X." in text
    assert "| [study](study.md) | b > a |  |" in text
    assert "a > b" not in text
    assert "MAP" not in text


def test_every_study_says_why_it_differs() -> None:
    assert set(ENDINGS) == {study.name for study in studies()}
    for ending in ENDINGS.values():
        assert all(text.endswith(".") for text in ending)
        assert ending.text().startswith("## Why it is so")


@pytest.mark.parametrize("name", ENDINGS)
def test_the_page_of_a_study_ends_as_the_next_one_will(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reproduced" / f"{name}.md").read_text()
    assert page.endswith(f"{ENDINGS[name].text()}\n")


def test_totals_in_the_texts_are_those_of_the_pages() -> None:
    root = Path(__file__).parents[2]
    lines = (root / "docs" / "reproduced" / "index.md").read_text().splitlines()
    (total,) = [line for line in lines if line.startswith("| all |")]
    compared, within, close, unseen, _, holding, stated, *_ = re.findall(r"\d+", total)

    def numbers_after(name: str) -> list[str]:
        text = " ".join((root / name).read_text().split())
        return re.findall(r"\d+", text.partition(f"Of {compared} comparisons with published cells")[2])

    cells = re.search(
        r"The (\d+) comparisons are with (\d+) different cells; .* seen are with (\d+)\.", "\n".join(lines)
    )
    assert cells is not None
    assert cells[1] == compared
    assert numbers_after("README.md")[:5] == [cells[2], within, close, unseen, cells[3]]
    assert numbers_after("docs/reproduce.md")[:7] == [cells[2], within, close, unseen, cells[3], stated, holding]
    every = [_compared(path) for path in sorted((root / "docs" / "reproduced").glob("*.csv"))]
    assert int(cells[2]) == _different([line for of in every for line in of])
    unseen_cells = [line for of in every for line in of if line["both sides"] == "True" and not line["seen"]]
    assert int(cells[3]) == _different(unseen_cells)


def _compared(path: Path) -> list[dict[str, str]]:
    """Return a line for each cell that a file compares: films have three counts, which are one cell."""
    with path.open() as file:
        lines = [line | {"file": path.name} for line in csv.DictReader(file) if line["both sides"]]
    if not path.name.startswith("movielens-ends-"):
        return lines
    films: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        films.setdefault(line["row"], []).append(line)
    met = {row: str(all(line["both sides"] == "True" for line in of)) for row, of in films.items()}
    return [of[0] | {"column": "film", "both sides": met[row], "not below": met[row]} for row, of in films.items()]


def _different(lines: list[dict[str, str]]) -> int:
    """Return the number of published cells: a row printed in several tables is one, also where one shows less of it."""
    films = [line for line in lines if line["column"] == "film"]
    printed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for line in lines:
        if line["column"] != "film":
            printed.setdefault((line["file"], line["row"]), set()).add((line["column"], line["published"]))
    rows = {frozenset(row) for row in printed.values()}
    return len(films) + sum(len(row) for row in rows if not any(row < other for other in rows))


def test_counts_of_every_study_are_those_of_its_csv_files() -> None:
    folder = Path(__file__).parents[2] / "docs" / "reproduced"
    rows = re.findall(r"^\| \[.*\]\((.*)\.md\) \|(.*)", (folder / "index.md").read_text(), re.M)
    counted = [(name, cells.split("|")) for name, cells in rows if len(cells.split("|")) == 8]
    assert [name for name, _ in counted] == [study.name for study in studies()]
    for name, cells in counted:
        text = (folder / f"{name}.md").read_text()
        files = [folder / file for file in re.findall(r"\]\((.*\.csv)\)", text)]
        lines = [line for file in files for line in csv.DictReader(file.read_text().splitlines())]
        compared = [line for file in files for line in _compared(file)]
        close = [line for line in compared if line["both sides"] == "True"]
        for line in (line for line in lines if line["both sides"]):
            gap, tolerance = float(line["difference"]), float(line["tolerance"]) + 1e-6
            assert line["both sides"] == str(abs(gap) <= tolerance)
            # Above the tolerance only rows that must agree to the digit count as below.
            assert line["not below"] == str(gap >= -tolerance) or (gap > 0 and tolerance < 0.01)
        counts = [len(compared), sum(line["not below"] == "True" for line in compared), len(close)]
        counts += [sum(not line["seen"] for line in close), sum(bool(r["published"]) and not r["ours"] for r in lines)]
        assert [cell.strip() for cell in cells[:5]] == ([str(n) for n in counts] if any(counts) else ["–"] * 5)
        holding = [len(re.findall(rf"^\| .* \| {word} \|", _stated(text), re.M)) for word in ("holds", "does not hold")]
        assert cells[5].strip() == (f"{holding[0]} of {sum(holding)}" if sum(holding) else "–")


@pytest.mark.parametrize("name", ENDINGS)
def test_tables_of_a_page_show_its_csv_files(name: str) -> None:
    folder = Path(__file__).parents[2] / "docs" / "reproduced"
    for lines, file in _tables((folder / f"{name}.md").read_text()):
        records = list(csv.DictReader((folder / file).read_text().splitlines()))
        found = {(r["row"], r["column"]): r for r in records}
        columns, *rows = ([c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", x)[1:-1]] for x in lines)
        shown, key = set(), ""
        for first, *cells in rows[1:]:
            ours = first != "published (ours less theirs)"
            key = first if ours else key
            for column, cell in zip(columns[1:], cells, strict=True):
                record = found.get((key, column), {"ours": "", "published": "", "difference": "", "stderr": ""})
                of = ("ours", "stderr") if ours else ("published", "difference")
                wanted = [float(record[field]) for field in of if record[field]]
                numbers = re.findall(r"[-+]?\d+(?:\.\d+)?", cell)
                assert len(numbers) == len(wanted), (file, key, column)
                for text, value in zip(numbers, wanted, strict=True):
                    # The files have six digits, so that a second rounding may differ by one in the last place.
                    unit = 10.0 ** -len(text.partition(".")[2])
                    assert float(text) == pytest.approx(value, abs=0.5 * unit + 1e-5 * abs(value)), (file, key, column)
                shown.add((key, column))
        assert set(found) <= shown


def _tables(text: str) -> list[tuple[list[str], str]]:
    """Return the lines of each table of a page that has a CSV file, and the name of the file."""
    found, lines = [], list[str]()
    for line in text.splitlines():
        if line.startswith("| | "):
            lines = []
        if line.startswith(("| ", "|:")):
            lines.append(line)
        elif link := re.fullmatch(r"\[(\S+\.csv)\]\(\S+\)", line):
            found.append((lines, link[1]))
            lines = []
    return found


def _stated(text: str) -> str:
    """Return what a page says that the paper states."""
    return text.partition("## What the paper states")[2].partition("\n## ")[0]

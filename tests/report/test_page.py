"""A report as HTML: well formed, closed to the outside, readable without a mouse, and deaf to ids that are not ids."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from tests.report import hostile

import concordant as cc
from concordant.data.sample import path
from concordant.errors import MissingExtraError
from concordant.report.content import Report, build_report
from concordant.report.page import (
    _agreement_shade,
    _fixed,
    _leaderboard_axis,
    _number,
    _short,
    _signed,
    displayable,
    render,
)

pytest.importorskip("jinja2")

VOID = {"meta", "link", "input", "br", "wbr", "rect", "line", "circle", "path", "img"}


class Tree(HTMLParser):
    """Elements of a page as (tag, attributes, text), and whether every one of them is closed in turn."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(page)
        self.close()
        assert not self._open, f"never closed: {self._open[-1][0]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len({name for name, _ in attrs}), (tag, attrs)
        text: list[str] = []
        self.elements.append((tag, dict(attrs), text))
        if tag not in VOID:
            self._open.append((tag, text))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self._open, tag
        assert self._open[-1][0] == tag, f"<{self._open[-1][0]}> ends with </{tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for _, text in self._open:
            text.append(data)

    def all(self, *tags: str) -> list[tuple[str, dict[str, str | None], str]]:
        return [(tag, attrs, "".join(text)) for tag, attrs, text in self.elements if tag in tags]


@pytest.fixture(scope="module")
def searched() -> Report:
    return build_report(cc.read_runs(path("runs")), cc.read_labels(path("qrels.txt")), title="Six systems")


@pytest.fixture(scope="module")
def judged() -> Report:
    return build_report(cc.read_comparisons(path("votes.csv")), title="Twelve models")


@pytest.fixture(scope="module")
def wicked() -> Report:
    votes, labels = hostile.votes()
    return build_report(votes, labels, title=hostile.IDS[0], sources=hostile.IDS)


@pytest.fixture(scope="module", params=["searched", "judged", "arena", "wicked", "ballots", "crowd"])
def page(request: pytest.FixtureRequest) -> str:
    if request.param == "arena":
        return render(build_report(hostile.arena()))
    if request.param == "ballots":
        return render(build_report(cc.read_preflib(path("ballots.soi"))))
    if request.param == "crowd":
        lists = {f"e{e}": list("abcdefgh"[:: 1 if e % 3 else -1]) for e in range(90)}
        return render(build_report(cc.from_lists(lists)))
    return render(request.getfixturevalue(request.param))


def test_nothing_comes_from_outside_and_nothing_foreign_can_run(page: str) -> None:
    tree = Tree(page)
    allowed = {"href": ("#", "data:,")}
    for tag, attrs, _ in tree.elements:
        assert tag not in ("img", "iframe", "object", "embed", "form", "base", "audio", "video", "image", "use")
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            assert name not in ("src", "action", "formaction", "srcset", "data", "xlink:href", "ping")
            if name in allowed:
                assert (value or "").startswith(allowed[name]), value
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    scripts = tree.all("script")
    assert [attrs.get("type") for _, attrs, _ in scripts][:-1] in ([], ["application/json"])
    assert scripts[-1][1] == {}


def test_policy_names_our_own_style_and_script_by_their_hashes(page: str) -> None:
    tree = Tree(page)
    policy = next(a["content"] for _, a, _ in tree.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(content) == 1
        digest = base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_structure_serves_those_who_do_not_see_it(page: str) -> None:
    tree = Tree(page)
    levels = [int(tag[1]) for tag, _, _ in tree.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    ids = [attrs["id"] for _, attrs, _ in tree.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs, _ in tree.elements:
        for name in ("aria-labelledby", "for"):
            assert set((attrs.get(name) or "").split()) <= set(ids), (tag, attrs)
        if tag == "th":
            assert attrs.get("scope") in ("col", "row")
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or attrs.get("role") == "img", attrs
        if tag == "a":
            assert (attrs["href"] or "")[1:] in ids
        if tag == "div" and "box" in (attrs.get("class") or "").split():
            assert attrs.get("tabindex") == "0"
            assert attrs.get("aria-label")
    named = {attrs.get("for") for _, attrs, _ in tree.all("label")}
    assert all(attrs.get("id") in named for _, attrs, _ in tree.all("input"))
    assert next(a for t, a, _ in tree.elements if t == "html")["lang"] == "en"
    first = next((t, a) for t, a, _ in tree.elements if t in ("a", "button", "input"))
    assert first == ("a", {"class": "skip", "href": "#main"})


def test_everything_said_is_on_the_page(searched: Report) -> None:
    page = render(searched)
    tree = Tree(page)
    text = " ".join("".join(t) for tag, _, t in tree.elements if tag == "main")
    for sentence in searched.summary:
        assert sentence in text
    for instance in searched.instances:
        assert instance.id in text
        assert instance.places[0].item in text
    assert searched.evaluation is not None
    for row in searched.evaluation.rows:
        assert f"{row.cells['map'].mean:.4f}" in text
    assert searched.experts is not None
    heat = next(t for tag, a, t in tree.elements if tag == "svg" and "heat-title" in (a.get("aria-labelledby") or ""))
    assert "Pairwise agreement of the experts" in "".join(heat)
    cells = [a for tag, a, _ in tree.all("rect") if "hp" in (a.get("class") or "") or "hn" in (a.get("class") or "")]
    assert len(cells) >= 30


def test_the_closer_look_has_the_ranks_of_the_lists(searched: Report) -> None:
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', render(searched), re.DOTALL)
    content = json.loads(data)
    assert content["experts"] == searched.expert_names
    first = searched.instances[0]
    assert content["instances"][0]["id"] == first.id
    assert [p[0] for p in content["instances"][0]["places"]] == [p.item for p in first.places]
    assert content["instances"][0]["ranks"] == [[r or 0 for r in row] for row in first.ranks]


def test_hostile_ids_are_text(wicked: Report) -> None:
    page = render(wicked)
    tree = Tree(page)
    assert len(tree.all("script")) == 2
    assert len(tree.all("style")) == 1
    assert next(text for _, _, text in tree.all("title")) == hostile.IDS[0]
    shown = "".join("".join(t) for tag, _, t in tree.elements if tag == "main")
    for name in hostile.IDS[:5]:
        assert name in shown
    assert "{{ 7 * 7 }}" in shown
    assert "49" not in "".join("".join(t) for tag, _, t in tree.all("h3"))
    assert "\x00" not in page
    assert "\u202e" not in page
    assert len(page) < 2_000_000
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert "<" not in data
    assert json.loads(data)["instances"][0]["id"] == hostile.IDS[0]


def test_items_are_shown_by_name_with_their_id(searched: Report) -> None:
    first = searched.instances[0].places[0].item
    page = render(replace(searched, names={first: "Alien <1979>"}))
    tree = Tree(page)
    cells = [text for tag, _, text in tree.all("td", "th") if re.search(rf"\b{first}\b", text)]
    assert cells
    assert all("Alien <1979>" in text for text in cells)
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert json.loads(data)["instances"][0]["places"][0][0] == f"Alien <1979> [{first}]"
    assert "<1979>" not in page


def test_cases_show_names_too(searched: Report) -> None:
    assert searched.evaluation is not None
    case = searched.evaluation.cases[0]
    tree = Tree(render(replace(searched, names={case.chosen: "a rather long name of a film"})))
    short = [(a["title"], text) for tag, a, text in tree.all("bdi") if (a.get("title") or "").endswith("]")]
    assert short == [(f"a rather long name of a film [{case.chosen}]", _short("a rather long name of a film", 16))]
    bold = [text for _, _, text in tree.all("strong")]
    assert f"a rather long name of a film {case.chosen}" in bold


def test_hostile_names_are_text() -> None:
    votes, labels = hostile.votes()
    page = render(build_report(votes, labels, names=hostile.NAMES))
    tree = Tree(page)
    assert len(tree.all("script")) == 2
    assert len(tree.all("style")) == 1
    shown = "".join("".join(t) for tag, _, t in tree.elements if tag == "main")
    # The name and the id of the same item, both as they are.
    assert f"{hostile.IDS[4]} {_short(hostile.IDS[3], 24)}" in shown
    assert "\x00" not in page
    assert "\u202e" not in page
    assert len(page) < 2_000_000
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert "<" not in data


def test_a_page_is_the_same_for_the_same_report(searched: Report) -> None:
    assert render(searched) == render(searched)


def test_lone_surrogates_do_not_stop_the_page() -> None:
    report = build_report(cc.from_lists({"x": ["a", "b"], "y": ["b", "a"], "z": ["a", "b"]}), title="odd \udcff")
    assert "odd \\udcff" in render(report)


def test_without_jinja_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, judged: Report) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"concordant\[report\]"):
        render(judged)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain", "plain"),
        ("a\x00b", "a\\x00b"),
        ("a\u202eb", "a\\u202eb"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 9, "e" + "\u0301" * 3),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\ud800", "\\ud800"),
    ],
)
def test_visible(given: str, shown: str) -> None:
    assert displayable(given) == shown


def test_long_ids_keep_both_ends() -> None:
    short = _short("start" + "x" * 10_000 + "end", 30)
    assert len(short) == 30
    assert short.startswith("start")
    assert short.endswith("end")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (3.0, "3"), (-1234567.0, "−1,234,567"), (0.12345, "0.123"), (float("nan"), "–")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert _number(value) == text


def test_small_differences_have_no_sign() -> None:
    assert _signed(-0.00001, 3) == "0.000"
    assert _signed(-0.25, 2) == "−0.25"
    assert _fixed(-0.001, 2) == "0.00"
    assert _fixed(None, 2) == "–"


def test_heat_runs_from_one_colour_to_the_other() -> None:
    assert [_agreement_shade(v) for v in (-1.0, 0.0, 1.0, None)] == ["hn n10", "hp", "hp p10", "hu"]


@pytest.fixture(scope="module")
def in_log_odds() -> Report:
    """A board as the method gives it, with its zero in the middle."""
    votes = cc.read_comparisons(path("votes.csv"))
    return build_report(votes, methods=[("bradley-terry", cc.BradleyTerry())], rescale=lambda c: c)


def test_numbers_of_a_column_have_the_same_decimals(in_log_odds: Report) -> None:
    page = render(in_log_odds)
    cells = re.findall(r'<td class="num" data-v="[^"]+">([−\d,]+\.\d+)</td><td class="num">([^<]+)</td>', page)
    assert len(cells) == len(in_log_odds.leaderboard)
    numbers = [n for score, interval in cells for n in (score, *interval.split(" to "))]
    assert len({len(n.partition(".")[2]) for n in numbers}) == 1


def test_intervals_stand_over_an_axis_with_a_line_at_zero(in_log_odds: Report) -> None:
    page = render(in_log_odds)
    axis = re.search(r'<tfoot aria-hidden="true">.*?</tfoot>', page, re.DOTALL)
    assert axis is not None
    ticks = {text: at for at, text in re.findall(r'x="([\d.]+)" y="19" text-anchor="middle">([^<]+)<', axis[0])}
    zero = ticks[next(text for text in ticks if float(text.replace("−", "-")) == 0)]
    assert page.count(f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="14"/>') == len(in_log_odds.leaderboard)


def test_the_row_of_the_axis_spans_all_columns(judged: Report) -> None:
    table = re.search(r'<table class="sortable" id="board">.*?</table>', render(judged), re.DOTALL)
    assert table is not None
    head, foot = table[0].split("</thead>")[0], table[0].partition("<tfoot")[2]
    spans = [int(n or 1) for n in re.findall(r'<td(?: class="t")?(?: colspan="(\d+)")?>', foot)]
    assert sum(spans) == head.count("<th ")


@pytest.mark.parametrize(
    ("low", "high"), [(-0.415, 0.448), (-0.999, 0.999), (0.0, 1.0), (-4.9, 4.9), (2.1, 2.4), (-3e-5, 6e-5), (-7e4, 1e5)]
)
def test_axes_have_two_to_five_ticks(judged: Report, low: float, high: float) -> None:
    first, second, *_ = judged.leaderboard
    board = [p._replace(score=v, lower=v, upper=v) for p, v in ((first, low), (second, high))]
    axis = _leaderboard_axis(replace(judged, leaderboard=board))
    assert axis is not None
    texts = [tick["text"] for tick in axis["ticks"]]
    assert 2 <= len(set(texts)) == len(texts) <= 5


def test_tables_that_are_cut_say_so_where_they_are_searched() -> None:
    lists = {f"e{k}": [f"i{(k * 7 + j) % 320}" for j in range(320)] for k in range(4)}
    page = render(build_report(cc.from_lists(lists), methods=[("borda", cc.Borda())]))
    assert 'data-told="told-board" data-all="320"' in page
    short = {f"e{k}": [f"i{(k * 7 + j) % 20}" for j in range(20)] for k in range(4)}
    page = render(build_report(cc.from_lists(short), methods=[("borda", cc.Borda())]))
    assert 'data-told="told-board"' in page
    assert "data-all" not in page.partition("<script>")[0]


def test_short_tables_do_not_scroll_and_the_heat_map_has_its_words_beside_it() -> None:
    """A table one row too long hid its last row behind the axis, and half the page beside a heat map was empty."""

    def parts(n_items: int, n_experts: int) -> list[tuple[str | None, str | None]]:
        lists = {f"e{k}": [f"i{(k * 7 + j) % n_items}" for j in range(n_items)] for k in range(n_experts)}
        tree = Tree(render(build_report(cc.from_lists(lists), methods=[("borda", cc.Borda())])))
        said = [attrs for _, attrs, _ in tree.all("div") if attrs.get("aria-label") in ("Leaderboard", "Experts")]
        (beside,) = [text for _, attrs, text in tree.all("div") if attrs.get("class") == "beside"]
        assert f"{n_experts} experts. Highest agreement: " in beside
        assert "Items per list" in (tiles := " ".join(text for _, _, text in tree.all("dl")))
        assert "all the same" in tiles
        return [(attrs["aria-label"], attrs["class"]) for attrs in said]

    assert parts(20, 5) == [("Leaderboard", "box"), ("Experts", "box")]
    assert parts(21, 21) == [("Leaderboard", "box tall"), ("Experts", "box tall")]


def test_items_that_few_saw_are_flagged() -> None:
    lists = {f"e{k}": ["a", "b", "c"] for k in range(8)}
    lists["e0"] = ["rare", "a", "b", "c"]
    page = render(build_report(cc.from_lists(lists)))
    assert page.count('<span class="tag bad">few experts</span>') == 2  # the item, and the note that explains it
    assert "few experts" not in render(build_report(cc.from_lists({f"e{k}": ["a", "b", "c"] for k in range(8)})))


def test_what_missing_items_mean_is_said() -> None:
    lists = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "a"], "z": ["b", "a"]})
    assert "Items that a list leaves out are unknown to it: most methods" in render(build_report(lists))
    assert "Items that a list leaves out count as below" in render(build_report(lists.with_missing("below")))
    complete = cc.from_lists({"x": ["a", "b", "c"], "y": ["c", "a", "b"]})
    assert "leaves out" not in render(build_report(complete)).partition("<h3>Terms</h3>")[0]
    rated = cc.Preferences(["q"] * 3, ["x", "x", "y"], ["a", "b", "a"], [3, 1, 2], kind="rating")
    assert "Items that an expert did not rate are unknown" in render(build_report(rated))

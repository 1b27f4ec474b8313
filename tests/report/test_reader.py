"""A reader at work: by keyboard alone, on a phone, without scripts, on paper, and with names that need much room."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.report import browser, hostile
from tests.report.test_browser import CONTRAST, FAULTS
from typer.testing import CliRunner

import concordant as cc
from concordant.cli._group import build
from concordant.data.sample import path
from concordant.report.content import Report, build_report
from concordant.report.page import render

pytest.importorskip("jinja2")

WIDE = [
    "WWWWWWWWWWWWWWWWWWWW",
    "国際的な専門家の長い名前です",
    "mmmmmmmmmmmmmmmm",
    "<<<<<======>>>>>>",
    "short",
    "ＡＢＣＤＥＦＧＨ",
]

# Words of drawings that start or end outside of them: they are cut off there.
CUT = """[...document.querySelectorAll("svg[role=img] text")].filter((text) => {
  const inside = text.getBoundingClientRect(), box = text.closest("svg").getBoundingClientRect();
  return inside.left < box.left - .5 || inside.right > box.right + .5 || inside.top < box.top - .5
    || inside.bottom > box.bottom + .5;
}).map((text) => text.textContent)"""

# The least contrast of a number with the cell of the heat map it stands on, by the formula of WCAG 2.
IN_CELLS = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (c) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = (c) => .2126 * linear(c[0] / 255) + .7152 * linear(c[1] / 255) + .0722 * linear(c[2] / 255);
  const ratios = [...document.querySelectorAll("svg .cell text")].map((text) => {
    const a = light(parse(getComputedStyle(text).fill));
    const b = light(parse(getComputedStyle(text.previousElementSibling).fill));
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  });
  return [ratios.length, Math.min(...ratios)];
})()"""


@pytest.fixture(scope="module")
def report() -> Report:
    return build_report(cc.read_runs(path("runs")), cc.read_labels(path("qrels.txt")), title="Six systems")


@pytest.fixture(scope="module")
def runs(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("reader") / "runs.html"
    file.write_text(render(report), encoding="utf-8")
    return file


def arrow(page: browser.Page, key: str) -> None:
    code = {"ArrowDown": 40, "ArrowUp": 38, "Home": 36, "End": 35}[key]
    for kind in ("rawKeyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)


def sort_of(page: browser.Page, table: str) -> dict[str, str]:
    heads = f"[...document.querySelectorAll('#{table} thead th')]"
    return dict(page.run(f"{heads}.map(h => [h.textContent.trim(), h.getAttribute('aria-sort')])"))


def test_tables_are_sorted_with_enter_and_space(chromium: browser.Browser, runs: Path) -> None:
    page = chromium.page()
    page.open(runs)
    page.run("document.querySelectorAll('#instances thead button')[1].focus()")
    values = "[...document.querySelectorAll('#instances tbody tr')].map(r => Number(r.cells[2].dataset.v))"
    page.press("Enter")
    up = page.run(values)
    assert up == sorted(up)
    assert sort_of(page, "instances")["agreement"] == "ascending"
    page.press(" ")
    assert page.run(values) == sorted(up, reverse=True)
    assert sort_of(page, "instances")["agreement"] == "descending"
    assert page.run("document.activeElement.textContent") == "agreement"


def test_a_table_says_from_the_start_what_it_is_sorted_by(chromium: browser.Browser, runs: Path) -> None:
    page = chromium.page()
    page.open(runs)
    states = sort_of(page, "expert-table")
    assert [head for head, state in states.items() if state not in (None, "none")] == ["agreement with the consensus"]
    values = page.run("[...document.querySelectorAll('#expert-table tbody tr')].map(r => Number(r.cells[1].dataset.v))")
    assert values == sorted(values, reverse=True)
    # The first press turns it around: it was already the other way.
    page.run("document.querySelectorAll('#expert-table thead button')[1].click()")
    assert sort_of(page, "expert-table")["agreement with the consensus"] == "ascending"


def stop(page: browser.Page) -> list[str]:
    return list(
        page.run("[...document.querySelectorAll('#instances button[data-instance]')].filter(b => b.tabIndex === 0)"
                 ".map(b => b.textContent)")
    )  # fmt: skip


def test_all_instances_are_one_stop_and_arrows_lead_through_them(chromium: browser.Browser, runs: Path) -> None:
    page = chromium.page()
    page.open(runs)
    focus = "document.activeElement.textContent"
    assert stop(page) == ["q1"]
    page.run("[...document.querySelectorAll('#instances thead button')].at(-1).focus()")
    page.press("Tab")
    assert page.run(focus) == "q1"
    for key, name in (("ArrowDown", "q2"), ("ArrowDown", "q3"), ("ArrowUp", "q2"), ("End", "q40"), ("Home", "q1")):
        arrow(page, key)
        assert page.run(focus) == name
    assert stop(page) == ["q1"]
    page.press("Tab")
    assert not page.run("document.activeElement.closest('#instances')")
    page.run("document.getElementById('find-instances').value = 'q17'")
    page.run("document.getElementById('find-instances').dispatchEvent(new Event('input'))")
    assert stop(page) == ["q17"]


def test_search_knows_the_items_of_the_closer_look(chromium: browser.Browser, runs: Path, report: Report) -> None:
    page = chromium.page()
    page.open(runs)
    wanted = report.instances[4]
    deep = wanted.places[7].item
    assert deep not in [p.item for p in wanted.places[:3]]
    page.run(f"document.getElementById('find-instances').value = '{deep}'")
    page.run("document.getElementById('find-instances').dispatchEvent(new Event('input'))")
    left = "[...document.querySelectorAll('#instances tbody tr')].filter(r => !r.hidden)"
    assert wanted.id in page.run(f"{left}.map(r => r.querySelector('button').textContent)")
    assert page.run(f"{left}.length") < len(report.instances)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_closer_look_stays_on_the_screen(chromium: browser.Browser, runs: Path, width: int) -> None:
    page = chromium.page()
    page.open(runs, width=width, height=700)
    page.run("document.querySelector('button[data-instance=\"5\"]').click()")
    box = page.run("(b => [b.left, b.top, b.right, b.bottom])(document.getElementById('look').getBoundingClientRect())")
    assert box[0] >= 0
    assert box[1] >= 0
    assert box[2] <= width
    assert box[3] <= 700
    outside = """[...document.querySelectorAll("#look td, #look th, #look p, #look h2")].filter((cell) => {
      const range = document.createRange(); range.selectNodeContents(cell);
      const text = range.getBoundingClientRect(), box = cell.getBoundingClientRect();
      return text.right > box.right + 1.5 || text.left < box.left - 1.5;
    }).length"""
    assert page.run(outside) == 0
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    table = "document.getElementById('look-table')"
    if page.run(f"{table}.scrollWidth > {table}.clientWidth + 2"):
        assert page.run(f"{table}.classList.contains('more')")
        page.run(f"{table}.scrollTo({table}.scrollWidth, 0)")
        page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert not page.run(f"{table}.classList.contains('more')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_names_that_need_much_room_are_whole_and_numbers_are_read_on_every_colour(
    chromium: browser.Browser, tmp_path: Path, dark: bool
) -> None:
    lists = {name: list("abcdefgh"[:: -1 if n % 2 else 1]) for n, name in enumerate(WIDE)}
    lists["short"] = list("badcfehg")
    file = tmp_path / "wide.html"
    file.write_text(render(build_report(cc.from_lists(lists))), encoding="utf-8")
    page = chromium.page()
    page.open(file, dark=dark)
    assert page.run(CUT) == []
    cells, least = page.run(IN_CELLS)
    assert cells == 30
    assert least >= 4.5


def test_hostile_names_are_whole_in_drawings(chromium: browser.Browser, tmp_path: Path) -> None:
    votes, labels = hostile.votes()
    file = tmp_path / "hostile.html"
    file.write_text(render(build_report(votes, labels)), encoding="utf-8")
    page = chromium.page()
    page.open(file)
    assert page.run(CUT) == []


def test_without_scripts_everything_is_there_and_nothing_promises_more(
    chromium: browser.Browser, runs: Path, report: Report
) -> None:
    page = chromium.page()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(runs)
    assert not page.run("document.documentElement.classList.contains('js')")
    shown = "(e => e.getClientRects().length > 0)"
    assert page.run(f"[...document.querySelectorAll('button, input, .scripted, dialog')].filter({shown}).length") == 0
    assert page.run(f"[...document.querySelectorAll('.plain-id')].filter({shown}).length") == len(report.instances)
    assert page.run(f"[...document.querySelectorAll('main tr, main li, main dd')].filter(e => !{shown}(e)).length") == 0
    assert page.complaints == []


def test_on_paper_heads_are_words_that_can_be_repeated(chromium: browser.Browser, runs: Path) -> None:
    page = chromium.page()
    page.open(runs, width=1046)
    page.call("Emulation.setEmulatedMedia", media="print")
    # Chromium leaves buttons out where it repeats the head of a table on the next page.
    assert page.run("[...new Set([...document.querySelectorAll('thead button')]"
                    ".map(b => getComputedStyle(b).display))]") == ["contents"]  # fmt: skip
    heads = "[...document.querySelectorAll('main thead th')].filter(h => h.textContent.trim())"
    blank = f"""{heads}.filter((head) => {{
      const range = document.createRange(); range.selectNodeContents(head);
      return !range.getBoundingClientRect().width;
    }}).length"""
    assert page.run(blank) == 0
    assert page.run("getComputedStyle(document.querySelector('thead')).display") == "table-header-group"
    assert page.run("[...document.querySelectorAll('main .more')].every(b => getComputedStyle(b).maskImage === 'none')")
    # A chart does not take the whole page, and no sentence asks to press anything.
    assert page.run("document.querySelector('.chart').getBoundingClientRect().height") < 400
    assert page.run("[...document.querySelectorAll('.scripted')].every(e => !e.getClientRects().length)")


def test_boxes_that_go_on_show_it_until_their_end(chromium: browser.Browser, runs: Path) -> None:
    page = chromium.page()
    page.open(runs, width=390)
    boxes = "[...document.querySelectorAll('.box')]"
    found: list[Any] = page.run(f"{boxes}.map(b => [b.scrollWidth - b.clientWidth > 2, b.classList.contains('more')])")
    assert any(longer for longer, _ in found)
    assert all(longer == faded for longer, faded in found)


def test_hostile_files_and_titles_from_the_command_line(chromium: browser.Browser, tmp_path: Path) -> None:
    name = "<img src=x onerror=window.hacked=1>\"'\u202e👩\u200d👧.csv"
    rows = ["instance,expert,item,rank"]
    for instance in ("<script>window.hacked=1</script>", "q2"):
        for expert in ("=1+1", "'\"><svg onload=window.hacked=1>", "עברית"):
            rows += [f'"{instance}","{expert.replace(chr(34), 2 * chr(34))}",{i}{"x" * 10_000},{i}' for i in (1, 2, 3)]
    (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    out, title = tmp_path / "report.html", "</title><script>window.hacked=1</script>" + "long " * 2_000
    done = CliRunner().invoke(build(), ["report", str(tmp_path / name), "--title", title, "-o", str(out), "--quiet"])
    assert done.exit_code == 0, done.output
    page = chromium.page()
    page.open(out, width=390)
    assert page.run("window.hacked === undefined")
    assert page.complaints == []
    assert page.requests == [out.resolve().as_uri()]
    assert page.run("document.querySelectorAll('main img, main script, main svg[onload]').length") == 0
    assert page.run("document.querySelector('h1').textContent").startswith("</title><script>window.hacked=1</script>")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert "<img src=x onerror=window.hacked=1>" in page.run("document.querySelector('header').textContent")
    page.run("document.querySelector('button[data-instance]').click()")
    assert page.run("window.hacked === undefined")


@pytest.mark.data
def test_forty_systems_of_trec3_in_all_lights(chromium: browser.Browser, data_dir: Path, tmp_path: Path) -> None:
    with tarfile.open(data_dir / "trec3-adhoc" / "TREC-3-runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    votes = cc.read_runs(tmp_path / "TREC-3")[:12]
    labels = cc.read_labels(data_dir / "trec3-adhoc" / "T3-j.txt")
    some = build_report(votes, labels[:12], title="TREC-3, twelve topics")
    assert some.experts is not None
    assert (some.data.experts, len(some.experts.order), len(some.instances)) == (40, 40, 12)
    file = tmp_path / "trec3.html"
    file.write_text(render(some), encoding="utf-8")
    assert file.stat().st_size < 5_000_000
    for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
        page = chromium.page()
        page.open(file, width=width, dark=dark)
        assert page.complaints == []
        assert page.requests == [file.resolve().as_uri()]
        assert page.run(FAULTS) == []
        assert page.run(CUT) == []
        assert page.run(CONTRAST)[0] >= 4.5

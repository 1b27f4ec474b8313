"""Reports in a real browser: what a reader sees and does, in both themes, on a screen and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report import browser, hostile

import concordant as cc
from concordant.data.sample import path
from concordant.report import clusters
from concordant.report.content import Report, build_report
from concordant.report.page import render

pytest.importorskip("jinja2")

# Text that leaves its cell or tile, elements that leave the page, and texts that lie on each other.
FAULTS = """(() => {
  const out = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) out.push(`page is ${document.documentElement.scrollWidth} wide`);
  const inBox = (e) => e.closest(".box, nav");
  for (const e of document.querySelectorAll("main *, footer")) {
    if (e.closest("svg") && e.tagName !== "svg") continue;
    const r = e.getBoundingClientRect();
    if (r.width && !inBox(e) && (r.right > wide + 1 || r.left < -1)) out.push(`outside: ${e.tagName}.${e.className}`);
    const style = getComputedStyle(e);
    if (style.overflowX === "hidden" && e.scrollWidth > e.clientWidth + 1) out.push(`cut: ${e.tagName}.${e.className}`);
  }
  for (const cell of document.querySelectorAll("td, th, dt, dd, li, .bars span, h1, h2, h3, h4, p")) {
    if (!cell.textContent.trim() || cell.closest("[hidden], dialog:not([open]), .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(cell);
    const text = range.getBoundingClientRect(), box = cell.getBoundingClientRect();
    if (!box.width) continue;
    if (text.right > box.right + 1.5 || text.left < box.left - 1.5) {
      out.push(`text leaves ${cell.tagName}.${cell.className}: ${cell.textContent.trim().slice(0, 40)}`);
    }
  }
  const blocks = [...document.querySelectorAll("main > *, section > *, article > *, .tile, .bar")];
  for (const a of blocks) for (const b of blocks) {
    if (a === b || a.contains(b) || b.contains(a) || a.matches(".bar") || b.matches(".bar")) continue;
    if (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_PRECEDING) continue;
    const p = a.getBoundingClientRect(), q = b.getBoundingClientRect();
    if (!p.width || !q.width) continue;
    const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (x > 1 && y > 1) out.push(`${a.tagName}.${a.className} lies on ${b.tagName}.${b.className}`);
  }
  return out.slice(0, 10);
})()"""

# The contrast of texts with what is behind them, by the formula of WCAG 2; the worst and where it is.
CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (c) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = (c) => .2126 * linear(c[0] / 255) + .7152 * linear(c[1] / 255) + .0722 * linear(c[2] / 255);
  let worst = [99, ""];
  const seen = new Set();
  for (const e of document.querySelectorAll("main *, .bar *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg, script, style, dialog:not([open])") || !e.getBoundingClientRect().width) continue;
    let back = e, colour = parse(getComputedStyle(back).backgroundColor);
    while (colour[3] === 0 && back.parentElement) {
      back = back.parentElement;
      colour = parse(getComputedStyle(back).backgroundColor);
    }
    const ink = getComputedStyle(e).color, key = `${ink}${colour}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const a = light(parse(ink)), b = light(colour);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < worst[0]) worst = [ratio, `${e.tagName}.${e.className} ${ink} on ${colour}`];
  }
  return worst;
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    wicked, labels = hostile.votes()
    crowd = {f"e{e}": list("abcdefgh"[:: 1 if e % 3 else -1]) for e in range(90)}
    made = {
        "runs": build_report(cc.read_runs(path("runs")), cc.read_labels(path("qrels.txt")), title="Six systems"),
        "votes": build_report(cc.read_comparisons(path("votes.csv")), title="Twelve models"),
        "arena": build_report(hostile.arena(), title="An arena"),
        "crowd": build_report(cc.from_lists(crowd)),
        "hostile": build_report(wicked, labels, title=hostile.IDS[0], sources=hostile.IDS),
        "named": build_report(wicked, labels, names=hostile.NAMES),
    }
    out = {}
    for name, report in made.items():
        out[name] = folder / f"{name}.html"
        out[name].write_text(render(report), encoding="utf-8")
    return out


NAMES = ["runs", "votes", "arena", "crowd", "hostile", "named"]


def look(page: browser.Page, file: Path, width: int, dark: bool) -> None:
    """Open a report and check what must hold for every one."""
    page.open(file, width=width, dark=dark)
    assert page.complaints == []
    assert page.requests == [file.resolve().as_uri()]
    assert page.run(FAULTS) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", NAMES)
def test_quiet_closed_and_in_shape(
    chromium: browser.Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    page = chromium.page()
    look(page, pages[name], width, dark)
    assert page.run("window.hacked === undefined")
    shown = page.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, shown[4:-1].split(","))) < 200) == dark
    ratio, where = page.run(CONTRAST)
    assert ratio >= 4.5, where


def column(page: browser.Page, table: str, number: int) -> list[str]:
    rows = f"[...document.querySelectorAll('#{table} tbody tr')]"
    return list(page.run(f"{rows}.filter(r => !r.hidden).map(r => r.cells[{number}].textContent.trim())"))


def test_tables_sort_by_value_and_say_so(chromium: browser.Browser, pages: dict[str, Path]) -> None:
    page = chromium.page()
    page.open(pages["runs"])
    heads = list(page.run("[...document.querySelectorAll('#instances thead th')].map(h => h.textContent.trim())"))
    agreement = heads.index("agreement")
    press = f"document.querySelectorAll('#instances thead th')[{agreement}].querySelector('button').click()"
    state = f"document.querySelectorAll('#instances thead th')[{agreement}].getAttribute('aria-sort')"
    assert page.run(state) == "none"
    page.run(press)
    exact = f"[...document.querySelectorAll('#instances tbody tr')].map(r => Number(r.cells[{agreement}].dataset.v))"
    up = page.run(exact)
    assert up == sorted(up)
    assert page.run(state) == "ascending"
    page.run(press)
    assert page.run(exact) == sorted(up, reverse=True)
    assert page.run(state) == "descending"
    # Names as people order them: q2 before q10.
    page.run("document.querySelectorAll('#instances thead th')[0].querySelector('button').click()")
    names = column(page, "instances", 0)
    assert names.index(next(n for n in names if n.startswith("q2"))) < names.index(
        next(n for n in names if n.startswith("q10"))
    )
    assert page.run(state) == "none"


def type_in(page: browser.Page, text: str) -> None:
    """Type into the search for instances."""
    page.run(f"document.getElementById('find-instances').value = {text!r}")
    page.run("document.getElementById('find-instances').dispatchEvent(new Event('input'))")


def test_search_finds_an_instance_and_an_item(chromium: browser.Browser, pages: dict[str, Path]) -> None:
    page = chromium.page()
    page.open(pages["runs"])
    everything = column(page, "instances", 0)
    type_in(page, "Q17")
    assert len(column(page, "instances", 0)) == 1
    assert page.run("document.getElementById('told-instances').textContent") == f"1 of {len(everything)} rows"
    type_in(page, "there is no such thing")
    assert column(page, "instances", 0) == []
    type_in(page, "")
    assert column(page, "instances", 0) == everything


def test_closer_look_by_keyboard(chromium: browser.Browser, pages: dict[str, Path]) -> None:
    page = chromium.page()
    page.open(pages["runs"])
    page.run("document.querySelector('button[data-instance=\"2\"]').focus()")
    page.press("Enter")
    assert page.run("document.getElementById('look').open")
    assert page.run("document.getElementById('look').contains(document.activeElement)")
    heads = page.run("[...document.querySelectorAll('#look-table thead th')].map(h => h.textContent)")
    assert {"item", "rank", "rrf", "bm25", "legacy"} <= set(heads)
    assert page.run("document.querySelectorAll('#look-table tbody tr').length") == 10
    page.press("Escape")
    assert not page.run("document.getElementById('look').open")
    assert page.run("document.activeElement.dataset.instance") == "2"


def test_first_stop_of_the_keyboard_leads_past_the_bar_and_focus_is_seen(
    chromium: browser.Browser, pages: dict[str, Path]
) -> None:
    page = chromium.page()
    page.open(pages["votes"])
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    assert page.run("document.activeElement.getBoundingClientRect().left") >= 0
    page.press("Enter")
    assert page.run("document.activeElement.id") == "main"
    for _ in range(12):
        page.press("Tab")
        width = page.run("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert width > 0, page.run("document.activeElement.outerHTML.slice(0, 80)")


def test_theme_follows_the_system_and_the_switch(chromium: browser.Browser, pages: dict[str, Path]) -> None:
    page = chromium.page()
    page.open(pages["votes"], dark=True)
    back = "getComputedStyle(document.body).backgroundColor"
    dark = page.run(back)
    assert page.run("document.getElementById('theme').textContent") == "Light"
    page.run("document.getElementById('theme').click()")
    light = page.run(back)
    assert light != dark
    assert page.run("document.getElementById('theme').getAttribute('aria-label')") == "Switch to the dark theme"
    assert page.run(FAULTS) == []
    assert page.run(CONTRAST)[0] >= 4.5
    page.run("document.getElementById('theme').click()")
    assert page.run(back) == dark


@pytest.mark.parametrize("name", NAMES)
def test_print_loses_no_text(chromium: browser.Browser, pages: dict[str, Path], name: str) -> None:
    page = chromium.page()
    # As wide as a landscape page of A4 less its margins.
    page.open(pages[name], width=1046, dark=True)
    if name == "runs":
        type_in(page, "q17")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run(FAULTS) == []
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    texts = "[...document.querySelectorAll('main tr, main td, main p, main li')]"
    assert page.run(f"{texts}.filter(e => !e.getClientRects().length).length") == 0
    boxes = "[...document.querySelectorAll('main .box')]"
    assert page.run(f"{boxes}.filter(b => b.scrollHeight > b.clientHeight + 1).length") == 0
    assert page.printed().startswith(b"%PDF")


def test_hostile_ids_stay_text_in_the_closer_look(chromium: browser.Browser, pages: dict[str, Path]) -> None:
    page = chromium.page()
    page.open(pages["hostile"])
    for number in range(len(hostile.IDS)):
        page.run(f"document.querySelector('button[data-instance=\"{number}\"]').click()")
        assert page.run("document.getElementById('look').open")
        assert page.run("document.querySelectorAll('#look img, #look script, #look svg').length") == 0
        page.run("document.getElementById('look-close').click()")
    assert page.run("window.hacked === undefined")
    assert page.complaints == []
    assert len(page.requests) == 1


@pytest.fixture(scope="module")
def real(data_dir: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a report on real data, made once for both screens."""
    with pytest.MonkeyPatch.context() as patch:
        # Half as many simulated crowds still show the clusters they show, and are most of the seconds.
        patch.setattr(clusters, "_DRAWS", 19)
        report = report_on(request.param, data_dir)
    file = tmp_path_factory.mktemp("real") / "report.html"
    file.write_text(render(report), encoding="utf-8")
    return file


def report_on(name: str, data_dir: Path) -> Report:
    if name == "letor":
        votes, labels = cc.read_letor(data_dir / "MQ2008-agg" / "Fold1" / "test.txt")
        return build_report(votes, labels, convention="letor", title="MQ2008-agg")
    if name == "judges":
        return build_report(cc.read_comparisons(data_dir / "llmfao-pairwise" / "llmfao.csv"), title="Judges")
    if name == "sushi":
        return build_report(cc.read_preflib(data_dir / "preflib" / "14-sushi" / "00014-00000001.soc"))
    films = cc.read(str(data_dir / "movielens-100k" / "u.data")).preferences
    assert films is not None
    return build_report(films.select_experts(films.experts[:200].tolist()), title="Films")


@pytest.mark.data
@pytest.mark.parametrize("real", ["letor", "judges", "sushi", "films"], indirect=True)
@pytest.mark.parametrize("width", [1280, 390])
def test_real_data(chromium: browser.Browser, real: Path, width: int) -> None:
    assert real.stat().st_size < 5_000_000
    look(chromium.page(), real, width, dark=width == 390)

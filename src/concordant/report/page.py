"""Renders a report as one self-contained HTML file: no network access, no script but its own.

Ids reach the page as text only. The template escapes everything, and the JSON that scripts read contains no `<`. A
content security policy allows the page's own style and script by their hashes, so that injected code cannot run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from concordant.data.container import counted
from concordant.errors import MissingExtraError
from concordant.report.arena import Effect, HeadToHead, Timeline
from concordant.report.content import Experts, Place, Report
from concordant.report.label_evaluation import ExpertContribution, LabelEvaluation, MetricCurve
from concordant.report.wording import percent

__all__ = ["render", "displayable"]

_LONGEST = 72
_TITLE = 400
_WORD = 22
_KEY = 24
# The most combining marks on one letter; more would cover the lines above.
_STACK = 3
# Smallest side of a cell, in pixels, that holds "0.12" and a small ".12".
_ROOMY, _NARROW = 34, 23
# Width of a drawing on a wide screen, in pixels.
_PAGE = 1100
_MOST_TICKS = 5
# Names under the bars of votes over time.
_MOST_NAMES = 8
_HIDDEN = frozenset("\u202a\u202b\u202c\u202d\u202e\u2028\u2029\ufeff")
_ISOLATES = frozenset("\u2066\u2067\u2068\u2069")
_OUTLIER_WORDS = {
    "inverted": "agreement significantly below 0. The scale may be upside down.",
    "no better than chance": "agreement near 0 with the other experts.",
    "outlier": "agreement far below that of the other experts.",
    "other items": "ranks items that the others leave out or rank low.",
}
_KINDS = {"method": "unsupervised", "learned": "supervised", "expert": "single expert"}


def displayable(text: str, *, isolates: bool = False) -> str:
    r"""Return a text that is safe to display: control characters escaped, stacked combining marks cut.

    >>> displayable("a\x00b"), displayable("caf\u00e9"), len(displayable("x" + 9 * "\u0301"))
    ('a\\x00b', 'café', 4)
    """
    if text.isascii() and text.isprintable():
        return text
    out, stacked = [], 0
    for c in text:
        kind = unicodedata.category(c)
        stacked = stacked + 1 if kind in ("Mn", "Me") else 0
        if stacked > _STACK:
            continue
        if kind in ("Cc", "Cs", "Cn", "Co") or c in _HIDDEN or (c in _ISOLATES and not isolates):
            out.append(c.encode("unicode_escape").decode("ascii"))
        else:
            out.append(c)
    return "".join(out)


def _short(text: str, width: int = _LONGEST) -> str:
    """Return a text that fits a cell. Long texts keep both ends, where ids usually differ."""
    shown = displayable(text if len(text) <= 4 * _TITLE else text[: 2 * _TITLE] + text[-_TITLE:])
    if not shown.strip():
        # A blank text would leave a cell empty and a button without a name.
        return f'"{shown}"'
    if len(shown) <= width:
        return shown
    tail = width // 3
    return f"{shown[: width - tail - 1]}…{shown[-tail:]}"


def _number(value: Any, digits: int = 3) -> str:
    """Return a number with this many significant digits, without an exponent unless it is tiny."""
    if value is None:
        return "–"
    value = float(value)
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places > 9:
        text = f"{value:.{digits - 1}e}"
    else:
        # More decimals than this would not help next to larger numbers.
        text = f"{value:,.{min(max(places, 0), digits + 2)}f}"
    return text.replace("-", "−")


def _fixed(value: Any, digits: int) -> str:
    if value is None:
        return "–"
    text = f"{float(value):.{digits}f}"
    return (text[1:] if float(text) == 0 and text.startswith("-") else text).replace("-", "−")


def _grouped(value: Any, digits: int) -> str:
    """Return a number with fixed decimals and commas between thousands."""
    if value is None or not math.isfinite(float(value)):
        return "–"
    text = f"{float(value):,.{digits}f}"
    return (text[1:] if text.startswith("-") and not text.strip("-0.,") else text).replace("-", "−")


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return f"{abs(float(text)):.{digits}f}" if float(text) == 0 else text.replace("-", "−")


def _agreement_shade(value: float | None) -> str:
    """Return the CSS classes of an agreement from -1 to 1. The square root spreads small values."""
    if value is None or math.isnan(value):
        return "hu"
    step = min(10, round(10 * math.sqrt(abs(value))))
    return "hp" if step == 0 else f"h{'p p' if value > 0 else 'n n'}{step}"


def _rank_shade(rank: int | None) -> str:
    """Return the CSS classes of a rank: the smaller, the darker."""
    if rank is None:
        return "hu"
    return f"hp p{max(1, 10 - math.floor(2.2 * math.log2(max(rank, 1))))}"


def _text_width(text: str) -> float:
    """Return an upper estimate of the width of a text at 12 pixels. Text that starts left of a drawing is cut off."""
    out = 0.0
    for c in text:
        if unicodedata.east_asian_width(c) in "WF" or c in "mwMW@%":
            out += 12.5
        elif c.isupper() or c in "<>=+~#&":
            out += 10.0
        else:
            out += 0.0 if unicodedata.combining(c) else 7.4
    return out


def _coord(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") or "0"


def _exact(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else f"{value:.9g}"


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def render(report: Report) -> str:
    """Return a report as self-contained HTML.

    Needs Jinja (`pip install 'concordant[report]'`).
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError:
        raise MissingExtraError.of("jinja2", "report", "a report") from None

    def identity(text: Any, width: int = _LONGEST) -> Markup:
        full = str(text)
        short = _short(full, width)
        # Long words may break anywhere; short ids stay in one piece.
        fit = "short" if len(short) <= _WORD else "long" if any(len(w) > _WORD for w in short.split()) else "some"
        if short == full:
            return Markup('<bdi class="{}">{}</bdi>').format(fit, full)
        return Markup('<bdi class="{}" title="{}">{}</bdi>').format(fit, _short(full, _TITLE), short)

    def item(text: Any, width: int = _LONGEST, *, alone: bool = False) -> Markup:
        """Return the name of an item followed by its id; `alone` puts the id into the tooltip."""
        name = report.names.get(str(text))
        if name is None:
            return identity(text, width)
        if alone:
            title = f"{_short(name, _TITLE)} [{_short(str(text), _TITLE)}]"
            return Markup('<bdi class="short" title="{}">{}</bdi>').format(title, _short(name, width))
        return Markup('{} <span class="soft key">{}</span>').format(identity(name, width), identity(text, _KEY))

    def breakable(label: Any) -> Markup:
        parts = re.split(r"(?<=[(=,])|(?=\()", str(label))
        return Markup("<wbr>").join(escape(part) for part in parts if part)

    folder = files("concordant.report").joinpath("template")
    style, script = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.filters |= {
        "id": identity,
        "item": item,
        "breakable": breakable,
        "clean": _short,
        "sentence": lambda text: displayable(str(text), isolates=True),
        "number": _number,
        "signed": _signed,
        "fixed": _fixed,
        "places": _grouped,
        "shade": _agreement_shade,
        "rank_shade": _rank_shade,
        "coord": _coord,
        "exact": _exact,
        "clamp": lambda value, low, high: min(max(value, low), high),
        "percent": lambda share: "–" if share is None else percent(share),
        "rate": _rate,
        "rate_shade": lambda rate: _agreement_shade(None if rate is None else 2.0 * rate - 1.0),
        "head_to_head": _head_to_head,
        "per_unit": _per_unit,
        "typical": lambda effect: "" if effect.kind == "side" else _number(effect.typical, 2),
        "odds": lambda effect: f"{math.exp(min(effect.estimate * effect.typical, 50.0)):.2f}",
        "largest_amount": _largest_amount,
        "rank_range": _rank_range,
    }
    template = page.from_string(folder.joinpath("report.html").read_text(encoding="utf-8"))
    text = template.render(
        r=report,
        policy=policy,
        # Style and script hold no user data; the JSON holds nothing that could end its element.
        style=Markup(style),
        script=Markup(script),
        data=Markup(_data(report)),
        **_template_context(report),
    )
    # A lone surrogate cannot be encoded; one that did not pass `displayable` is shown as "?".
    return text.encode("utf-8", "replace").decode("utf-8")


def _rank_range(place: Place) -> str:
    if place.rank_lower is None or place.rank_upper is None:
        return ""
    return f"{place.rank_lower}–{place.rank_upper}" if place.rank_lower < place.rank_upper else f"{place.rank_lower}"


def _largest_amount(contributions: list[ExpertContribution]) -> float:
    return max((abs(v.amount) for v in contributions), default=0.0) or 1.0


def _template_context(report: Report) -> dict[str, Any]:
    """Return the variables of the template besides the report: layouts, CSS classes and flags."""
    experts, evaluation = report.experts, report.evaluation
    places = report.leaderboard or [p for i in report.instances for p in i.places[:1]]
    method = next(m for m in report.methods if m.label == report.main)
    outliers: dict[str, list[str]] = {}
    for name, word in ({} if experts is None else experts.outliers).items():
        outliers.setdefault(word, []).append(name)
    return {
        "sections": _sections(report),
        "main_summary": method.summary,
        "method_warnings": [(m.label, w) for m in report.methods if m.label == report.main for w in m.warnings]
        + [("labels", w) for w in (evaluation.warnings if evaluation is not None else [])],
        "most_support": max((b.items for b in report.data.support), default=1) or 1,
        "leaderboard_scale": _leaderboard_scale(report),
        "axis": _leaderboard_axis(report),
        "score_places": 0 if report.scale == "elo" else _decimals(_score_ends(report)),
        "score_name": "Elo" if report.scale == "elo" else "score",
        "has_tiers": any(p.tier is not None for p in report.leaderboard),
        "support_places": _decimals([p.n for p in report.leaderboard]),
        "label_places": _decimals([p.label for p in report.leaderboard]),
        "weight_places": {}
        if experts is None
        else {c: _decimals([e.weights.get(c) for e in experts.rows]) for c in experts.columns},
        "few_below": _few_below(report),
        "has_interval": any(p.lower is not None for p in report.leaderboard),
        "level": f"{report.level:.0%}" if report.level is not None else "",
        "has_labels": any(p.label is not None for p in places),
        "has_agreement": any(i.agreement is not None for i in report.instances),
        "has_expert_values": experts is not None and any(e.value is not None for e in experts.rows),
        "outliers": list(outliers.items()),
        "outlier_words": _OUTLIER_WORDS,
        "kinds": _KINDS,
        "heat": None if experts is None or not experts.tau else _heat_map(experts),
        "timeline": None if report.arena is None or report.arena.timeline is None else _bars(report.arena.timeline),
        "has_answers": experts is not None and any(e.tie_share is not None for e in experts.rows),
        "scale_cells": [{"cls": _agreement_shade(v / 10)} for v in range(-10, 11)],
        "chart": None if evaluation is None else _chart(evaluation),
    }


def _sections(report: Report) -> list[tuple[str, str]]:
    """Return the sections of the page in their order, as id and name. An arena shows its board first."""
    data = [("data", "Data")]
    experts = [("experts", "Experts")] if report.experts is not None else []
    methods = [("methods", "Methods")] + ([("labels", "Labels")] if report.evaluation is not None else [])
    if report.arena is None:
        inside = [*data, ("consensus", "Consensus"), *experts, *methods]
    else:
        inside = [("consensus", "Leaderboard"), ("win-rates", "Win rates")]
        inside += [("categories", "Categories")] if report.arena.categories is not None else []
        inside += [("style", "Style")] if report.arena.effects else []
        inside += experts + ([("time", "Time")] if report.arena.timeline is not None else []) + methods + data
    return [("summary", "Summary"), *inside, ("about", "About")]


def _rate(rate: float | None) -> str:
    """Return a chance in whole per cent, 0 and 100 only for certainty."""
    if rate is None:
        return "–"
    return f"{100 * rate:.0f}" if rate in (0, 1) else f"{min(max(100 * rate, 1), 99):.0f}"


def _head_to_head(pair: HeadToHead) -> str:
    """Return how often two items won, lost and tied, as text."""
    if not pair.won + pair.lost + pair.ties:
        return "never compared"
    won, lost, ties = (_number(count) for count in (pair.won, pair.lost, pair.ties))
    return f"won {won}, lost {lost}, tied {ties}"


def _per_unit(effect: Effect) -> str:
    """Return the estimate of an effect and its interval, with the digits that the interval leaves."""
    if effect.lower is None or effect.upper is None or effect.upper <= effect.lower:
        return _number(effect.estimate)
    places = min(max(1 - math.floor(math.log10((effect.upper - effect.lower) / 2)), 0), 12)
    shown = [_signed(value, places) for value in (effect.estimate, effect.lower, effect.upper)]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def _bars(timeline: Timeline) -> dict[str, Any]:
    """Return the layout of votes over time in 900 by 220 pixels."""
    periods = timeline.periods
    most = max([1e-9, *(p.votes for p in periods)])
    unit = 10.0 ** math.floor(math.log10(most))
    step = next(s for s in (0.2 * unit, 0.5 * unit, unit, 2 * unit, 5 * unit) if most / s <= _MOST_TICKS)
    left, width, bottom, height = 70.0, 820.0, 180.0, 160.0
    slot = width / len(periods)
    every = math.ceil(len(periods) / _MOST_NAMES)
    places = 0 if step >= 1 else 2
    last = periods[-1].name
    total = sum(p.votes for p in periods)
    top = max(periods, key=lambda p: p.votes)
    return {
        "bars": [
            {
                "x": _coord(left + k * slot + 0.08 * slot),
                "width": _coord(0.84 * slot),
                "y": _coord(bottom - height * p.votes / most),
                "height": _coord(height * p.votes / most),
                "title": f"{p.name}: {_number(p.votes)}",
            }
            for k, p in enumerate(periods)
        ],
        "x": [{"at": _coord(left + (k + 0.5) * slot), "text": p.name} for k, p in enumerate(periods) if k % every == 0],
        "y": [
            {"at": _coord(bottom - height * i * step / most), "text": _grouped(i * step, places)}
            for i in range(math.floor(most / step + 1e-9) + 1)
        ],
        "words": f"{_number(total)} votes from {periods[0].name} to {last}; most in {top.name}: {_number(top.votes)}.",
    }


def _decimals(values: Sequence[float | None]) -> int:
    """Return how many decimals a column of numbers needs: 0 for whole numbers, else four digits of the largest."""
    known = [abs(v) for v in values if v is not None and math.isfinite(v)]
    if not known or all(float(v).is_integer() for v in known):
        return 0
    return min(max(3 - math.floor(math.log10(max(known))), 1), 9)


def _few_below(report: Report) -> float:
    """Return a quarter of the median number of experts or comparisons of an item; items below it are flagged."""
    n = sorted(p.n for p in report.leaderboard)
    return n[len(n) // 2] / 4 if n else 0.0


def _leaderboard_axis(report: Report) -> dict[str, Any] | None:
    """Return the ticks of the axis under the intervals, and the place of 0 where it lies between its ends."""
    scale = _leaderboard_scale(report)
    if scale is None:
        return None
    ends = _score_ends(report)
    low, high = min(ends), max(ends)
    unit = 10.0 ** math.floor(math.log10(high - low))
    # The smallest step with at most five ticks: there are always two.
    for step in (f * unit for f in (0.2, 0.5, 1.0, 2.0, 5.0)):
        ticks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(ticks) <= _MOST_TICKS:
            break
    places = min(max(-math.floor(math.log10(step)), 0), 9)
    return {
        "ticks": [{"at": scale(v), "text": _fixed(v, places)} for v in ticks],
        "zero": scale(0.0) if low <= 0 <= high else None,
    }


def _score_ends(report: Report) -> list[float]:
    return [v for p in report.leaderboard for v in (p.score, p.lower, p.upper) if v is not None]


def _leaderboard_scale(report: Report) -> Any:
    """Return the function from a score to its x coordinate, or None where all scores are equal."""
    ends = _score_ends(report)
    if not ends or max(ends) == min(ends):
        return None
    low, high = min(ends), max(ends)
    return lambda value: _coord(6 + 168 * (value - low) / (high - low))


def _in_cell(value: float | None, side: int) -> str:
    """Return a number that fits a cell: two decimals, where it is small such as .12 and 1, or nothing."""
    if value is None or side < _NARROW:
        return ""
    text = _fixed(value, 2)
    return text if side >= _ROOMY else text.replace("0.", ".").replace("1.00", "1")


def _heat_map(experts: Experts) -> dict[str, Any]:
    """Return the layout of the heat map of experts."""
    n = len(experts.order)
    names = [_short(name, 18) for name in experts.order]
    longest = max(_text_width(name) for name in names)
    # The map fills the width of the page, unless its cells would be larger than their numbers need.
    side = int(min(max((_PAGE - 20 - 1.57 * longest) / n, 15), 64))
    # Column names are drawn at 55 degrees: sin 55° = 0.82 of the length goes up, cos 55° = 0.57 to the right.
    left, top = 12 + math.ceil(longest), 16 + math.ceil(0.82 * longest)
    cells = []
    for i, row in enumerate(experts.tau):
        for j, value in enumerate(row):
            if i == j:
                continue
            x, y = left + j * side, top + i * side
            told = "too few shared items" if value is None else _fixed(value, 2)
            cells.append(
                {
                    "cls": _agreement_shade(value),
                    "x": x,
                    "y": y,
                    "tx": _coord(x + side / 2),
                    "ty": _coord(y + side / 2),
                    "title": f"{names[i]}, {names[j]}: {told}",
                    "text": _in_cell(value, side),
                }
            )
    labels = [
        {"text": name, "at": _coord(top + (i + 0.5) * side), "x": _coord(left + (i + 0.5) * side)}
        for i, name in enumerate(names)
    ]
    known = [
        (v, experts.order[i], experts.order[j])
        for i, row in enumerate(experts.tau)
        for j, v in enumerate(row)
        if j > i and v is not None
    ]
    words = f"{n} experts."
    if known:
        most, least = max(known), min(known)
        words += (
            f" Highest agreement: {_short(most[1], 40)} and {_short(most[2], 40)} ({most[0]:.2f}). Lowest: "
            f"{_short(least[1], 40)} and {_short(least[2], 40)} ({least[0]:.2f})."
        )
    return {
        "width": left + n * side + 8 + math.ceil(0.57 * longest),
        "height": top + n * side + 8,
        "left": left,
        "top": top,
        "side": side - 1,
        "small": side < _ROOMY,
        "cells": cells,
        "labels": labels,
        "words": words,
    }


def _chart(evaluation: LabelEvaluation) -> dict[str, Any]:
    """Return the layout of the NDCG curves in 640 by 340 pixels."""
    lines = evaluation.curves
    banded = [evaluation.learned or evaluation.rows[0].name, evaluation.baseline]
    banded = [line.name for line in lines if line.name in banded and line.low is not None]
    values = [v for line in lines for v in line.y]
    values += [v for line in lines if line.name in banded for end in (line.low, line.high) if end for v in end]
    low, high = min(values), max(values)
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / s <= 6)
    low, high = math.floor(low / step) * step, max(math.ceil(high / step) * step, math.floor(low / step) * step + step)
    x_of = {x: 60 + 556 * i / max(len(lines[0].x) - 1, 1) for i, x in enumerate(lines[0].x)}

    def y_of(value: float) -> float:
        return 300 - 284 * (value - low) / (high - low)

    def path(line: MetricCurve, y: list[float]) -> str:
        return " L".join(f"{_coord(x_of[x])} {_coord(y_of(v))}" for x, v in zip(line.x, y, strict=True))

    series = []
    order = {row.name: i for i, row in enumerate(evaluation.rows)}
    for i, line in enumerate(sorted(lines, key=lambda one: order[one.name])):
        band = ""
        if line.name in banded and line.low is not None and line.high is not None:
            back = " L".join(
                f"{_coord(x_of[x])} {_coord(y_of(v))}"
                for x, v in zip(reversed(line.x), reversed(line.low), strict=True)
            )
            band = f"M{path(line, line.high)} L{back} Z"
        series.append(
            {
                "name": line.name,
                "path": f"M{path(line, line.y)}",
                "band": band,
                "colour": f"k{i % 8 + 1}",
                "dash": f"d{i % 4 + 1}",
            }
        )
    ticks = [low + i * step for i in range(round((high - low) / step) + 1)]
    places = 2 if step >= 0.01 else 3
    best = evaluation.rows[0]
    return {
        "series": series,
        "banded": banded,
        "y": [{"at": _coord(y_of(v)), "text": f"{v:.{places}f}"} for v in ticks],
        "x": [{"at": _coord(at), "text": str(x)} for x, at in x_of.items()],
        "words": f"{len(lines)} curves, one for each method. Best row of the table above by {evaluation.main.upper()}: "
        f"{_short(best.name, 60)}.",
    }


def _item_text(report: Report, item: str) -> str:
    """Return an item as plain text for the detail view: name and id, or the id alone."""
    name = report.names.get(item)
    return _short(item) if name is None else f"{_short(name)} [{_short(item, _KEY)}]"


def _data(report: Report) -> str:
    """Return the data of the detail view as JSON that is safe inside a script element."""
    content = {
        "methods": report.method_labels,
        "experts": [_short(name, 40) for name in report.expert_names],
        "labels": report.evaluation is not None,
        "instances": [
            {
                "id": _short(i.id),
                "about": _instance_note(i.items, len(i.places), i.experts, bool(i.ranks)),
                "places": [
                    [_item_text(report, p.item), p.rank, p.rank_lower, p.rank_upper, p.label, p.methods]
                    for p in i.places
                ],
                "ranks": [[0 if r is None else r for r in row] for row in i.ranks],
            }
            for i in report.instances
        ],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Escape characters that could end the element, open a comment or break a line.
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    return text


def _instance_note(items: int, shown: int, experts: int, ranks: bool) -> str:
    what = f"Top {shown} of {items:,} items" if shown < items else f"All {items:,} items"
    said = "rank by method, then by expert (· = not ranked)" if ranks else "rank by method"
    return f"{what}, ranked by {counted(experts, 'expert')}. Columns: {said}."

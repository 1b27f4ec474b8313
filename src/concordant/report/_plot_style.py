"""What all pictures share: one small style inside a context, axes without pyplot, and ids that are safe to draw.

Nothing here outlives the call: Matplotlib's settings are restored, no figure is registered anywhere, and colours of
text are those of the axes drawn on, so that a dark figure stays readable.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Floats, Ints
from concordant.errors import MissingExtraError
from concordant.report._plot_data import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Colormap

__all__ = [
    "LARGE",
    "NEGATIVE",
    "POSITIVE",
    "SMALL",
    "Ink",
    "column_names",
    "rank_ticks",
    "draw_curves",
    "draw_intervals",
    "plot_style",
    "figure_height",
    "ink_of",
    "draw_legend",
    "line_styles",
    "heat_map",
    "new_axes",
    "row_names",
    "set_caption",
    "colorbar",
    "colormap",
    "text_width",
    "style_axes",
    "annotate_cells",
    "label_text",
]

P = ParamSpec("P")

# The colours of Okabe and Ito, told apart by every kind of colour vision; black and yellow are left to the text.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":")
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"

SMALL, NORMAL, LARGE = 8.0, 9.0, 10.0
_STYLE: Any = {
    "font.size": NORMAL,
    "axes.titlesize": LARGE,
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "axes.grid": False,
    "axes.titlelocation": "left",
    # An id is not a formula.
    "text.usetex": False,
}
# What a line of small text takes, in inches.
LINE = SMALL * 1.3 / 72
# Above this many cells a vector graphic would be slower to open than a picture of them.
_MANY_CELLS = 4000
_WIDEST = 28


def plot_style(function: Callable[P, Axes]) -> Callable[P, Axes]:
    """Return the function inside the style, which ends with it; without Matplotlib it says what to install."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Axes:
        try:
            import matplotlib as mpl
        except ImportError as error:
            raise MissingExtraError.of("matplotlib", "plot", f"plots.{function.__name__}") from error
        with mpl.rc_context(_STYLE):
            return function(*args, **kwargs)

    return inside


def new_axes(width: float, height: float) -> Axes:
    """Return axes on a figure of their own that pyplot does not know of, and which therefore need not be closed."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def figure_height(
    rows: int, *, least: float = 2.2, most: float = 14.0, each: float = 0.21, beside: float = 0.9
) -> float:
    """Return how high a figure must be for this many rows of text."""
    return min(max(least, beside + each * rows), most)


# Ids as text.


@lru_cache(maxsize=8)
def _glyphs(fonts: tuple[str, ...]) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    return frozenset(code for font in fonts for code in get_font(font).get_charmap())


def _drawable() -> frozenset[int]:
    """Return the code points that the fonts of the moment can draw."""
    from matplotlib.font_manager import FontProperties, findfont

    return _glyphs(tuple(str(findfont(FontProperties(family=[name]))) for name in FontProperties().get_family()))


def _character(c: str, known: frozenset[int]) -> str:
    kind = unicodedata.category(c)
    if kind == "Cf" or "\ufe00" <= c <= "\ufe0f":
        return ""  # directs the drawing of its neighbours, and would do so beyond the id
    if c.isspace() or kind == "Cc":
        return " "
    return c if ord(c) in known else "□"


def label_text(text: Any, width: int = _WIDEST) -> str:
    """Return an id as a label: long ones lose their middle, and nothing in it is taken for a formula.

    What the font cannot draw is shown as an empty box, which is how it would look, but without a warning.
    """
    text = str(text)
    if len(text) > width:
        head = math.ceil((width - 1) * 2 / 3)
        text = text[:head] + "…" + text[len(text) - (width - 1 - head) :]
    known = _drawable()
    text = "".join(_character(c, known) for c in text)
    return text.replace("$", r"\$") if text.strip() else "(empty)"


# Axes.


@dataclass(frozen=True)
class Ink:
    """The colours of text and lines on given axes, from strong to barely there."""

    strong: str
    quiet: str
    faint: str
    paper: str


def ink_of(ax: Axes) -> Ink:
    """Return the colours to write with on these axes: the text colour of the moment, thinned with the background."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex, to_rgb, to_rgba

    def paper() -> tuple[float, float, float]:
        for colour in (ax.get_facecolor(), ax.figure.get_facecolor()):
            if to_rgba(colour)[3] > 0:
                return to_rgb(colour)
        return 1.0, 1.0, 1.0

    below = np.array(paper())
    text = np.array(to_rgb(mpl.rcParams["text.color"]))
    strong, quiet, faint = (to_hex(tuple(share * text + (1 - share) * below)) for share in (0.88, 0.6, 0.16))
    return Ink(strong, quiet, faint, to_hex(tuple(below)))


def style_axes(ax: Axes, *, grid: str = "", frame: str = "left bottom") -> Ink:
    """Give axes the common look (spines, ticks, a faint grid behind) and return the colours to write with."""
    ink = ink_of(ax)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in frame.split())
        spine.set_color(ink.quiet)
        spine.set_linewidth(0.8)
    # Ticks are made when first drawn, outside the style: what they look like must be told now.
    ax.tick_params(which="both", color=ink.quiet, labelcolor=ink.strong, labelsize=SMALL, length=3, width=0.8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(ink.strong)
        axis.label.set_fontsize(NORMAL)
    if grid:
        ax.grid(visible=True, axis=grid, color=ink.faint, linewidth=0.8, linestyle="-")  # type: ignore[arg-type]
    return ink


def _inches(ax: Axes) -> tuple[float, float]:
    """Return how wide and high the axes are, or will be once they have shrunk to cells as high as they are wide."""
    box, dpi = ax.get_window_extent(), float(ax.figure.dpi)
    width, height = max(box.width / dpi, 0.1), max(box.height / dpi, 0.1)
    if ax.get_aspect() == "auto":
        return width, height
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    across, down = abs(right - left), abs(top - bottom)
    unit = min(width / across, height / down)
    return unit * across, unit * down


def _thinned(n: int, inches: float) -> tuple[Ints, str]:
    """Return which of n labels there is room for, and a note when not all of them have any."""
    room = max(1, int(inches / LINE))
    step = -(-n // room)
    nth = {2: "2nd", 3: "3rd"}.get(step, f"{step}st" if step % 10 == 1 and step % 100 != 11 else f"{step}th")
    return np.arange(0, n, step), "" if step == 1 else f"every {nth} name is shown"


def row_names(ax: Axes, names: Sequence[str]) -> str:
    """Name the rows of a chart, first on top, as far as there is room; return a note when there is not enough."""
    n = len(names)
    ax.set_ylim(n - 0.5, -0.5)
    shown, note = _thinned(n, _inches(ax)[1])
    ax.set_yticks(shown, [names[i] for i in shown])
    ax.tick_params(axis="y", length=0)
    return note


def column_names(ax: Axes, names: Sequence[str], places: Sequence[float] | NDArray[Any] | None = None) -> str:
    """Name the columns of a table below it, upright where there is no room to write across; return a note if any."""
    at = np.arange(len(names), dtype=np.float64) if places is None else np.asarray(places, dtype=np.float64)
    width = _inches(ax)[0]
    shown, note = _thinned(len(names), width)
    left, right = ax.get_xlim()
    apart = float(np.diff(at).min(initial=right - left)) / (right - left) * width
    across = max(map(text_width, names), default=0.0) < 0.92 * apart and not note
    ax.set_xticks(at[shown], [names[i] for i in shown], rotation=0 if across else 90)
    ax.tick_params(axis="x", length=0)
    return note


def set_caption(ax: Axes, *parts: str) -> None:
    """Write below the x-axis what it shows and what was left out, each on lines of its own that fit the picture."""
    # Names of rows and the scale of colours take room beside the axes, which a centred text may use.
    room = max(int((_inches(ax)[0] + 0.7) / (NORMAL * 0.58 / 72)), 16)
    ax.set_xlabel("\n".join(line for part in parts for line in wrap(part, room)))


def text_width(text: str) -> float:
    """Return about how many inches a small text takes."""
    return len(text) * SMALL * 0.62 / 72


def rank_ticks(ax: Axes, last: float) -> None:
    """Put ticks on the x-axis for counting from 1: all of them while they are few, else 1 and round numbers."""
    if last <= 12:
        ax.set_xticks(np.arange(1, int(last) + 1))
        return
    step = next(size for k in range(12) for size in (10**k, 2 * 10**k, 5 * 10**k) if last / size <= 10)
    ax.set_xticks(np.concatenate([[1], np.arange(step, last + 1, step)]))


def draw_legend(ax: Axes, handles: Iterable[Any], names: Sequence[str], **where: Any) -> None:
    """Write the legend: inside for a few entries, to the right of the axes for many."""
    handles = list(handles)
    if not handles:
        return
    if len(handles) > 6 and not where:
        where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    # A name that begins with an underscore is left out by Matplotlib unless something stands before it.
    shown = [f" {name}" if name.startswith("_") else name for name in names]
    legend = ax.legend(handles, shown, fontsize=SMALL, frameon=False, **where)
    for text in legend.get_texts():
        text.set_color(ink_of(ax).strong)


# Lines and tables.


def line_styles(n: int) -> list[dict[str, Any]]:
    """Return how to draw n lines so that they are told apart by colour, and without it by marker and dashes."""
    c = len(SERIES)
    return [
        {
            "color": SERIES[i % c],
            "marker": MARKERS[i % c] if i < 2 * c else None,
            "linestyle": DASHES[(i + i // c) % len(DASHES)] if i >= c else DASHES[0],
            "markersize": 4.5,
            # Another round of the same colours is told apart by hollow markers too.
            "markerfacecolor": SERIES[i % c] if i < c else "none",
        }
        for i in range(n)
    ]


def colormap(name: str, nothing: str) -> Colormap:
    """Return a colour map in which what is not a number has the colour `nothing`."""
    import matplotlib as mpl

    return mpl.colormaps[name].with_extremes(bad=nothing)


def heat_map(
    ax: Axes, values: NDArray[Any], cmap: Colormap, low: float, high: float, edges: Floats | None = None
) -> QuadMesh:
    """Draw a table as coloured cells, first row on top; `edges` are the ends of the columns where they are uneven."""
    rows, columns = values.shape
    x = np.arange(columns + 1) - 0.5 if edges is None else edges
    few = values.size <= _MANY_CELLS
    return ax.pcolormesh(
        x,
        np.arange(rows + 1) - 0.5,
        np.ma.masked_invalid(values),
        cmap=cmap,
        vmin=low,
        vmax=high,
        edgecolors=ink_of(ax).paper if few else "none",
        linewidth=0.6 if few else 0.0,
        rasterized=not few,
    )


def annotate_cells(ax: Axes, cells: QuadMesh, texts: NDArray[Any], places: NDArray[Any], longest: int) -> bool:
    """Write into the cells of a table if the text fits; return whether it did.

    Letters are dark on light cells and light on dark ones.
    """
    rows, columns = texts.shape
    width, height = _inches(ax)
    left, right = ax.get_xlim()
    size = min(SMALL, 72 * height / rows / 1.25, 72 * width / abs(right - left) / (0.64 * longest + 0.5))
    if size < 5:
        return False
    values: Any = cells.get_array()
    colours: Any = cells.to_rgba(values)
    for r in range(rows):
        for c in range(columns):
            if texts[r, c]:
                ax.text(
                    places[c],
                    r,
                    texts[r, c],
                    ha="center",
                    va="center",
                    fontsize=size,
                    color=_text_colour(colours[r, c]),
                )
    return True


def _text_colour(colour: NDArray[Any]) -> str:
    """Return black or white, whichever is better read on this colour."""
    linear = np.where(colour[:3] <= 0.04045, colour[:3] / 12.92, ((colour[:3] + 0.055) / 1.055) ** 2.4)
    return "#1a1a1a" if float(linear @ np.array([0.2126, 0.7152, 0.0722])) > 0.28 else "#ffffff"


def colorbar(ax: Axes, cells: QuadMesh, what: str, *, percent: bool = False) -> None:
    """Draw the scale of colours to the right of a table."""
    from matplotlib.ticker import PercentFormatter

    ink = ink_of(ax)
    bar = ax.figure.colorbar(cells, ax=ax, shrink=0.7, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, color=ink.quiet, labelcolor=ink.strong, length=3, width=0.8)
    bar.set_label(what, fontsize=SMALL, color=ink.strong)
    if percent:
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0))


def draw_intervals(ax: Axes, value: Floats, low: Floats, high: Floats) -> bool:
    """Draw a row for each value, a point on its interval, hollow without one; return whether any has one."""
    style_axes(ax, grid="x", frame="bottom")
    place = np.arange(len(value))
    sure = ~np.isnan(low) & ~np.isnan(high)
    ax.hlines(place[sure], low[sure], high[sure], color=POSITIVE, linewidth=2.2, alpha=0.55, capstyle="round")
    ax.plot(value[sure], place[sure], "o", color=POSITIVE, markersize=5)
    hollow = "none" if sure.any() else POSITIVE
    ax.plot(value[~sure], place[~sure], "o", color=POSITIVE, markersize=5, markerfacecolor=hollow)
    return bool(sure.any())


def draw_curves(ax: Axes, curves: Mapping[str, Curve], *, mark: bool = True) -> None:
    """Draw lines with their bands, and their names where there are any."""
    handles = []
    for curve, look in zip(curves.values(), line_styles(len(curves)), strict=True):
        if not mark:
            look = {**look, "marker": None}
        handles += ax.plot(curve.x, curve.y, **look)
        if curve.low is not None and curve.high is not None:
            ax.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=0.14, linewidth=0)
    if any(curves):
        draw_legend(ax, handles, [label_text(name) for name in curves])

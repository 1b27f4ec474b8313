"""Style of all plots: colours, axes without pyplot, legends, captions, and labels that are safe to draw.

Matplotlib's settings are restored after each call, and no figure is registered with pyplot. Text takes its colour from
the axes, so that dark figures stay readable.
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

# The colour-blind safe palette of Okabe and Ito, without black and yellow.
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
# Height of a line of small text, in inches.
LINE = SMALL * 1.3 / 72
# Heat maps with more cells are drawn as an image, which opens faster than as many vector shapes.
_MANY_CELLS = 4000
_WIDEST = 28


def plot_style(function: Callable[P, Axes]) -> Callable[P, Axes]:
    """Decorate a plot function: apply the style during the call, and name the extra where Matplotlib is missing."""

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
    """Return axes on a new figure that pyplot does not track, so that nothing has to be closed."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def figure_height(rows: int, *, each: float = 0.21, beside: float = 0.9) -> float:
    """Return the height of a figure with this many rows of text."""
    return min(max(2.2, beside + each * rows), 14.0)


# Labels.


@lru_cache(maxsize=8)
def _glyphs(fonts: tuple[str, ...]) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    return frozenset(code for font in fonts for code in get_font(font).get_charmap())


def _drawable() -> frozenset[int]:
    """Return the code points that the current fonts can draw."""
    from matplotlib.font_manager import FontProperties, findfont

    return _glyphs(tuple(str(findfont(FontProperties(family=[name]))) for name in FontProperties().get_family()))


def _character(c: str, known: frozenset[int]) -> str:
    kind = unicodedata.category(c)
    if kind == "Cf" or "\ufe00" <= c <= "\ufe0f":
        return ""  # format characters would also change the text around the id
    if c.isspace() or kind == "Cc":
        return " "
    return c if ord(c) in known else "□"


def label_text(text: Any, width: int = _WIDEST) -> str:
    """Return an id as a plot label: long ids lose their middle, and `$` does not start a formula.

    Characters that the font cannot draw become an empty box, without a warning.
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
    """Colours of text and lines on given axes, from strong to faint, and of the background."""

    strong: str
    quiet: str
    faint: str
    paper: str


def ink_of(ax: Axes) -> Ink:
    """Return the colours for these axes: the current text colour, mixed with the background."""
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
    """Style axes (spines, ticks, a faint grid) and return the colours for text and lines."""
    ink = ink_of(ax)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in frame.split())
        spine.set_color(ink.quiet)
        spine.set_linewidth(0.8)
    # Matplotlib makes ticks when it first draws them, after the style has ended: set their look now.
    ax.tick_params(which="both", color=ink.quiet, labelcolor=ink.strong, labelsize=SMALL, length=3, width=0.8)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(ink.strong)
        axis.label.set_fontsize(NORMAL)
    if grid:
        ax.grid(visible=True, axis=grid, color=ink.faint, linewidth=0.8, linestyle="-")  # type: ignore[arg-type]
    return ink


def _inches(ax: Axes) -> tuple[float, float]:
    """Return width and height of the axes in inches, after they shrink to an equal aspect ratio."""
    box, dpi = ax.get_window_extent(), float(ax.figure.dpi)
    width, height = max(box.width / dpi, 0.1), max(box.height / dpi, 0.1)
    if ax.get_aspect() == "auto":
        return width, height
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    across, down = abs(right - left), abs(top - bottom)
    unit = min(width / across, height / down)
    return unit * across, unit * down


def _thinned(n: int, inches: float) -> tuple[Ints, str]:
    """Return the labels that fit, and a note where some do not."""
    room = max(1, int(inches / LINE))
    step = -(-n // room)
    nth = {2: "2nd", 3: "3rd"}.get(step, f"{step}st" if step % 10 == 1 and step % 100 != 11 else f"{step}th")
    return np.arange(0, n, step), "" if step == 1 else f"every {nth} name is shown"


def row_names(ax: Axes, names: Sequence[str]) -> str:
    """Label the rows of a plot, first on top; return a note where not all labels fit."""
    n = len(names)
    ax.set_ylim(n - 0.5, -0.5)
    shown, note = _thinned(n, _inches(ax)[1])
    ax.set_yticks(shown, [names[i] for i in shown])
    ax.tick_params(axis="y", length=0)
    return note


def column_names(ax: Axes, names: Sequence[str], places: Sequence[float] | NDArray[Any] | None = None) -> str:
    """Label the columns of a table, rotated where they are too wide; return a note where not all labels fit."""
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
    """Write the parts of a caption below the x-axis, each on its own wrapped lines."""
    # A centred text may also use the room below row labels and colour bar.
    room = max(int((_inches(ax)[0] + 0.7) / (NORMAL * 0.58 / 72)), 16)
    ax.set_xlabel("\n".join(line for part in parts for line in wrap(part, room)))


def text_width(text: str) -> float:
    """Estimate the width of a small text in inches."""
    return len(text) * SMALL * 0.62 / 72


def rank_ticks(ax: Axes, last: float) -> None:
    """Set x ticks for ranks: all of them if they are few, else 1 and round numbers."""
    if last <= 12:
        ax.set_xticks(np.arange(1, int(last) + 1))
        return
    step = next(size for k in range(12) for size in (10**k, 2 * 10**k, 5 * 10**k) if last / size <= 10)
    ax.set_xticks(np.concatenate([[1], np.arange(step, last + 1, step)]))


def draw_legend(ax: Axes, handles: Iterable[Any], names: Sequence[str], **where: Any) -> None:
    """Draw the legend: inside the axes for few entries, to their right for many."""
    handles = list(handles)
    if not handles:
        return
    if len(handles) > 6 and not where:
        where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    # Matplotlib hides legend entries that begin with an underscore.
    shown = [f" {name}" if name.startswith("_") else name for name in names]
    legend = ax.legend(handles, shown, fontsize=SMALL, frameon=False, **where)
    for text in legend.get_texts():
        text.set_color(ink_of(ax).strong)


# Curves and heat maps.


def line_styles(n: int) -> list[dict[str, Any]]:
    """Return styles for n lines that differ in colour, and without colour in marker and dashes."""
    c = len(SERIES)
    return [
        {
            "color": SERIES[i % c],
            "marker": MARKERS[i % c] if i < 2 * c else None,
            "linestyle": DASHES[(i + i // c) % len(DASHES)] if i >= c else DASHES[0],
            "markersize": 4.5,
            # The second round of colours has hollow markers.
            "markerfacecolor": SERIES[i % c] if i < c else "none",
        }
        for i in range(n)
    ]


def colormap(name: str, nothing: str) -> Colormap:
    """Return a colour map that draws NaN in the colour `nothing`."""
    import matplotlib as mpl

    return mpl.colormaps[name].with_extremes(bad=nothing)


def heat_map(
    ax: Axes, values: NDArray[Any], cmap: Colormap, low: float, high: float, edges: Floats | None = None
) -> QuadMesh:
    """Draw a table as coloured cells, first row on top; `edges` are the column edges where they are uneven."""
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
    """Write texts into the cells of a heat map; return whether they fit.

    Text is dark on light cells and light on dark cells.
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
    """Return black or white, whichever has more contrast on this colour."""
    linear = np.where(colour[:3] <= 0.04045, colour[:3] / 12.92, ((colour[:3] + 0.055) / 1.055) ** 2.4)
    return "#1a1a1a" if float(linear @ np.array([0.2126, 0.7152, 0.0722])) > 0.28 else "#ffffff"


def colorbar(ax: Axes, cells: QuadMesh, what: str, *, percent: bool = False) -> None:
    """Draw the colour bar to the right of a heat map."""
    from matplotlib.ticker import PercentFormatter

    ink = ink_of(ax)
    bar = ax.figure.colorbar(cells, ax=ax, shrink=0.7, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, color=ink.quiet, labelcolor=ink.strong, length=3, width=0.8)
    bar.set_label(what, fontsize=SMALL, color=ink.strong)
    if percent:
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0))


def draw_intervals(ax: Axes, value: Floats, low: Floats, high: Floats) -> bool:
    """Draw one row for each value with its interval, hollow without one; return whether any value has an interval."""
    style_axes(ax, grid="x", frame="bottom")
    place = np.arange(len(value))
    sure = ~np.isnan(low) & ~np.isnan(high)
    ax.hlines(place[sure], low[sure], high[sure], color=POSITIVE, linewidth=2.2, alpha=0.55, capstyle="round")
    ax.plot(value[sure], place[sure], "o", color=POSITIVE, markersize=5)
    hollow = "none" if sure.any() else POSITIVE
    ax.plot(value[~sure], place[~sure], "o", color=POSITIVE, markersize=5, markerfacecolor=hollow)
    return bool(sure.any())


def draw_curves(ax: Axes, curves: Mapping[str, Curve], *, mark: bool = True) -> None:
    """Draw curves with their bands and a legend."""
    handles = []
    for curve, look in zip(curves.values(), line_styles(len(curves)), strict=True):
        if not mark:
            look = {**look, "marker": None}
        handles += ax.plot(curve.x, curve.y, **look)
        if curve.low is not None and curve.high is not None:
            ax.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=0.14, linewidth=0)
    if any(curves):
        draw_legend(ax, handles, [label_text(name) for name in curves])

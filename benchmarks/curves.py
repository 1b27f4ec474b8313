"""A line chart as an SVG file, written by hand: the results page needs a picture, not a plotting library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 30, 50
# Told apart in grey as well: colour, dash and mark go together.
STYLES = (
    ("#1b6ca8", ""),
    ("#b8432f", "7 4"),
    ("#3a7d44", "2 3"),
    ("#6b4c9a", "9 3 2 3"),
    ("#b07c10", "12 3"),
    ("#c2559b", "4 2"),
    ("#2b8c8c", "1 4"),
    ("#5a5a5a", "6 2 1 2"),
    ("#7a3b12", "3 6"),
    ("#0d3b66", "10 6"),
)


def line_chart(
    path: Path, title: str, x_label: str, y_label: str, x: Sequence[float], lines: Mapping[str, Sequence[float]]
) -> None:
    """Write the chart of several lines over common x; a line may end before the last of them."""
    low = min(min(y) for y in lines.values())
    high = max(max(y) for y in lines.values())
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s <= 7)
    floor, ceiling = step * int(low / step), step * (int(high / step) + 1)

    def across(value: float) -> float:
        return LEFT + (value - x[0]) / (x[-1] - x[0]) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (value - floor) / (ceiling - floor) * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for n in range(round((ceiling - floor) / step) + 1):
        y = up(floor + n * step)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{floor + n * step:.2f}</text>')
    below = HEIGHT - BOTTOM + 18
    out += [f'<text x="{across(value):.1f}" y="{below}" text-anchor="middle">{value:g}</text>' for value in x]
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})">{escape(y_label)}</text>')
    # Names stand beside the ends of their lines, pushed apart where they would meet.
    ends = sorted(lines, key=lambda name: -lines[name][-1])
    place, last = {}, -100.0
    for name in ends:
        last = max(up(lines[name][-1]) + 4, last + 15)
        place[name] = last
    for (name, y), (colour, dash) in zip(lines.items(), STYLES, strict=False):
        own = list(zip(x, y, strict=False))
        points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in own)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        out += [f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="3" fill="{colour}"/>' for a, b in own]
        label = f'<text x="{WIDTH - RIGHT + 10}" y="{place[name]:.1f}" fill="{colour}">{escape(name)}</text>'
        out.append(label)
    path.write_text("\n".join([*out, "</svg>"]) + "\n")

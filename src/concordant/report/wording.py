"""Names and numbers as the sentences of a report write them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from concordant.errors import shorten

__all__ = ["isolated", "listed", "percent", "two_decimals"]


def two_decimals(value: float) -> str:
    """Return a number with two decimals and a true minus sign; 0 has no sign.

    >>> two_decimals(-0.256), two_decimals(-0.001)
    ('−0.26', '0.00')
    """
    text = f"{value:.2f}"
    return (text if float(text) else "0.00").replace("-", "−")


def percent(share: float) -> str:
    """Return a share in per cent, with one decimal where rounding would show 0% or 100%.

    >>> percent(0.25), percent(0.996), percent(0.004), percent(1.0), percent(0.0)
    ('25%', '99.6%', '0.4%', '100%', '0%')
    """
    if 0 < share < 0.1 or 0.995 <= share < 1:
        # Shares that still round to 0.0% or 100.0% are shown as 0.1% or 99.9%.
        return f"{min(max(share, 0.001), 0.999):.1%}"
    return f"{share:.0%}"


def isolated(name: str) -> str:
    """Return a name for use in a sentence: blank names in quotes, right-to-left names in isolation marks."""
    if not name.strip():
        return f'"{name}"'
    return f"\u2068{name}\u2069" if any(unicodedata.bidirectional(c) in ("R", "AL") for c in name) else name


def listed(names: Sequence[str], limit: int = 3, word: str = "") -> str:
    """Return names as a sentence lists them, with the number of those left out.

    Parameters
    ----------
    names : list of str
        The names, at least one.
    limit : int
        The most names to write.
    word : str
        What the names stand for. It is written before names that are bare numbers.

    Examples
    --------
    >>> listed(["a", "b"]), listed(["7"], word="expert"), listed(list("abcde"))
    ('a and b', 'expert 7', 'a, b, c and 2 more')
    """
    shown = [isolated(shorten(name, 60)) for name in names[:limit]]
    if word and any(name.replace(" ", "").isdigit() for name in names[:limit]):
        shown[0] = f"{word if len(names) == 1 else word + 's'} {shown[0]}"
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"

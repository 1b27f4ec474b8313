"""`Container`: the base class of all containers, frozen sequences of instances.

`len`, `shape` and square brackets work on instances, so that scikit-learn's splitters split by query.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Codes, Ints
from concordant.data.index import Slots, Texts, as_ids, freeze, instance_index, set_frozen_state
from concordant.errors import DataError, listing, quote

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Container",
    "ExpertContainer",
    "as_values",
    "checked_weight",
    "counted",
    "describe",
    "frame_of",
    "html_table",
    "same",
]


# Rows in the HTML form for notebooks.
_SHOWN = 10


class Container:
    """A frozen sequence of instances; subclasses add columns over its slots."""

    slots: Slots
    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {quote(name)} cannot be set. Build a new one instead.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {quote(name)} cannot be deleted.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_frozen_state(self, state)

    @property
    def instances(self) -> Texts:
        """The ids of the instances, in first-seen order."""
        return self.slots.instances

    @property
    def items(self) -> Texts:
        """The item id of every slot."""
        return self.slots.items

    @property
    def n_instances(self) -> int:
        """The number of instances."""
        return len(self.slots.instances)

    @property
    def n_slots(self) -> int:
        """The number of (instance, item) pairs."""
        return len(self.slots.items)

    def __len__(self) -> int:
        return len(self.slots.instances)

    @property
    def shape(self) -> tuple[int]:
        """(n_instances,), the shape that scikit-learn's splitters read."""
        return (len(self.slots.instances),)

    def __getitem__(self, key: Any) -> Self:
        return self._take(instance_index(key, self.slots))

    def __iter__(self) -> Iterator[Self]:
        for n in range(len(self)):
            yield self._take(np.array([n], dtype=np.int64))

    def _take(self, index: Ints) -> Self:
        raise TypeError(f"{type(self).__name__} cannot be indexed")

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as a Polars frame."""
        raise TypeError(f"{type(self).__name__} has no frame")

    def _repr_html_(self) -> str:
        # Only the rows of one instance, because a frame of all ids may be large.
        frame = (self[:1] if len(self) > 1 else self).to_frame()
        rows = [[_cell_text(value) for value in row] for row in frame.head(_SHOWN).rows()]
        rest = len(self) > 1 or len(frame) > len(rows)
        below = ["the first rows; to_frame() has all"] if rest else []
        return html_table(frame.columns, rows, caption=repr(self).partition("\n")[0], below=below)


def _cell_text(value: object) -> str:
    """Return a cell of a table for notebooks."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


class ExpertContainer(Container):
    """A container of the preferences of experts, with the vocabulary of experts."""

    experts: Texts

    @property
    def n_experts(self) -> int:
        """The number of experts in the vocabulary, including silent ones; 0 if experts are not known."""
        return len(self.experts)

    def select_experts(self, experts: Sequence[Any]) -> Self:
        """Return the container with these experts only, in this order; all items remain."""
        raise TypeError(f"{type(self).__name__} has no experts to select")

    def drop_experts(self, experts: Sequence[Any]) -> Self:
        """Return the container without these experts."""
        unwanted = self._known_experts(experts)
        return self.select_experts([e for e in self.experts if e not in unwanted])

    def _known_experts(self, experts: Sequence[Any]) -> list[str]:
        """Return the ids of experts, or raise for those that are not in the vocabulary."""
        ids, codes = as_ids(experts, "expert"), self.experts.codes
        unknown = [e for e in ids if e not in codes]
        if unknown:
            raise DataError(f"no such experts: {listing(unknown)}. Known: {listing(self.experts.tolist(), 20)}.")
        return ids

    def _selected(self, experts: Sequence[Any]) -> tuple[Texts, Codes]:
        """Return the vocabulary of the selected experts, and the new code of every expert, -1 if not selected."""
        wanted, codes = self._known_experts(experts), self.experts.codes
        if len(set(wanted)) < len(wanted):
            raise DataError(f"an expert is named twice: {listing(wanted)}.")
        new = np.full(self.n_experts, -1, dtype=np.int32)
        new[[codes[e] for e in wanted]] = np.arange(len(wanted))
        return Texts(wanted), new


def checked_weight(weight: float, whose: object) -> float:
    """Return a weight that a user gave, or raise if it is not a finite number >= 0."""
    if not isinstance(weight, Real) or not 0 <= weight <= sys.float_info.max:
        raise DataError(f"a weight must be a finite number >= 0. Got {quote(weight)} for {quote(whose)}.")
    return float(weight)


def as_values(values: Any, what: str, n: int, *, missing: bool = False) -> NDArray[np.float64]:
    """Return n finite float64 values, or raise an error that names the first bad row; NaN may mark missing values."""
    try:
        out = np.array(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        for row, value in enumerate(values):
            try:
                float(value)
            except (OverflowError, TypeError, ValueError):
                raise DataError(f"the {what} in row {row} must be a number. Got {quote(value)} instead.") from None
        raise
    if out.shape != (n,):
        raise DataError(f"the {what} column has shape {out.shape}, the ids have {n} rows.")
    bad = np.isinf(out) if missing else ~np.isfinite(out)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"the {what} in row {row} must be a finite number. Got {float(out[row])!r} instead. "
            "To mark a missing value leave the row out, and name the item in items=."
        )
    return out


def same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    """Return whether two optional columns are equal (NaN equals NaN)."""
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def describe(name: str, lines: list[str]) -> str:
    """Return the repr of a container: its name and indented lines."""
    return f"{name}: " + "\n  ".join(lines)


def column(texts: Texts, codes: NDArray[Any] | None = None) -> Any:
    """Return texts (at these codes) as a Polars series; code -1 gives null."""
    import polars as pl

    store = texts.native
    series = store if isinstance(store, pl.Series) else pl.Series(store, dtype=pl.String)
    if codes is None:
        return series
    index = pl.Series(codes)
    return series.gather(index.replace(-1, None)) if (codes < 0).any() else series.gather(index)


def frame_of(columns: dict[str, Any]) -> pl.DataFrame:
    """Return a Polars frame of texts given as (Texts, codes) pairs and of arrays."""
    import polars as pl

    series = []
    for name, value in columns.items():
        if isinstance(value, tuple):
            series.append(column(*value).alias(name))
        else:
            series.append(pl.Series(name, value))
    return pl.DataFrame(series)


def labelled_table(names: Sequence[str], table: NDArray[np.float64]) -> pl.DataFrame:
    """Return a square table as a Polars frame: `term`, then one column for each name; NaN becomes null."""
    import polars as pl

    terms = pl.Series("term", list(names), dtype=pl.String)
    # An item may have the name of the first column.
    columns = [
        pl.Series("term " if n == "term" else n, v, dtype=pl.Float64) for n, v in zip(names, table.T, strict=True)
    ]
    return pl.DataFrame([terms, *columns]).with_columns(pl.col(pl.Float64).fill_nan(None))


def readonly(array: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the optional column, read-only."""
    return None if array is None else freeze(array)


def counted(n: int, word: str) -> str:
    """Return a number and a noun, in the singular or plural.

    >>> counted(1, "item"), counted(1200, "item")
    ('1 item', '1,200 items')
    """
    return f"{n:,} {word}" + ("" if n == 1 else "s")


def html_table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    more: int = 0,
    caption: str = "",
    below: Iterable[str] = (),
) -> str:
    """Return an HTML table for notebooks, with lines of text below. All text is escaped, including lone surrogates.

    `more` is the number of rows that are not shown.

    >>> html_table(["id"], [["<b>"]], 2)
    '<table><tr><th>id</th></tr><tr><td>&lt;b&gt;</td></tr></table><p>… 2 more</p>'
    """
    from html import escape

    def line(cells: Sequence[object], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    lines = [*([f"… {more:,} more"] if more > 0 else []), *below]
    page = f"<table>{title}{line(head, 'th')}{body}</table>" + "".join(f"<p>{escape(text)}</p>" for text in lines)
    return page.encode("utf-8", "backslashreplace").decode("utf-8")

"""Boards by category on the command line: options, the table of categories, and where categories differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concordant.cli._output import Session, Table, write_table
from concordant.cli._parsing import check_choice

if TYPE_CHECKING:
    from concordant.aggregators.category_boards import CategoryBoards

__all__ = ["CategoryOptions", "show_categories", "write_boards"]

# Categories that the table shows, and differences that are named below it.
_SHOWN, _NAMED = 8, 3
# A difference is clear where its corrected p value is below this.
_CLEAR = 0.05


@dataclass(frozen=True)
class CategoryOptions:
    """Options of boards by category."""

    by_category: Annotated[
        str | None,
        typer.Option(
            "--by-category",
            metavar="COLUMN",
            help="Votes: show a board for every value of this column, such as language, beside the overall one.",
        ),
    ] = None
    pooling: Annotated[
        str | None,
        typer.Option(
            "--pooling",
            metavar="partial|none",
            help="Boards by category: draw small categories to what the others say, as far as these agree, or fit "
            "each alone. Default: partial.",
        ),
    ] = None
    differences_out: Annotated[
        str | None,
        typer.Option(
            "--differences-out",
            metavar="FILE",
            help="Boards by category: write how far each item's score differs from that in the other categories, with "
            "corrected intervals.",
        ),
    ] = None

    @property
    def asked(self) -> bool:
        """Whether boards by category are asked for."""
        return self.by_category is not None

    def check(self, others: Mapping[str, Any]) -> None:
        """Raise for options that do not go together, before anything is read; `others` are those it goes without."""
        check_choice(self.pooling, ("partial", "none"), "--pooling")
        own = {"--pooling": self.pooling, "--differences-out": self.differences_out}
        if not self.asked:
            named = next((option for option, value in own.items() if value is not None), None)
            if named is not None:
                raise typer.BadParameter("goes with --by-category COLUMN.", param_hint=named)
            return
        odd = next((option for option, value in others.items() if value), None)
        if odd is not None:
            raise typer.BadParameter(f"cannot be given with {odd}.", param_hint="--by-category")


def write_boards(session: Session, boards: CategoryBoards, output: str, top: int | None, quote_formulas: bool) -> None:
    """Write all boards as one table with the column category, which is empty for the overall board."""
    frame = _best(boards, top)
    write_table(frame.to_dict(as_series=False), output, quote_formulas)
    session.results = {"output": output, "categories": len(boards), "items": boards.overall.n_slots}
    session.note(f"wrote {output}: the overall board and those of {len(boards):,} categories")


def _best(boards: CategoryBoards, top: int | None) -> Any:
    import polars as pl

    frame = boards.to_frame()
    return frame if top is None else frame.filter(pl.int_range(pl.len()).over("category") < top)


def show_categories(session: Session, boards: CategoryBoards, rows: int | None) -> None:
    """Print the score and rank of every item in every category, the learned spread, and the clearest differences."""
    known = boards.overall.stderr is not None and boards.by_category.stderr is not None
    found = boards.differences() if known else None
    if session.json:
        spread = None if boards.spread is None else boards.spread._asdict()
        session.results = {"boards": _best(boards, rows or None).to_dicts(), "spread": spread}
        session.results |= {"n_votes": boards.n_votes, "differences": None if found is None else found.to_dicts()}
        return
    elo = boards.overall.scale == "elo"
    names = boards.categories if rows == 0 else boards.categories[:_SHOWN]
    places = 0 if elo else 2
    parts = [boards.overall, *(boards[name] for name in names)]
    order = boards.overall.order()
    depth = len(order) if rows == 0 else min(len(order), 50 if rows is None else rows)
    lines = []
    for slot in order[:depth].tolist():
        cells = [f"{b.score[slot]:.{places}f} ({int(b.rank[slot])})" for b in parts]
        lines.append([boards.overall.items[slot], *cells])
    hidden = len(boards) - len(names)
    session.say()
    session.show(Table(["item", "overall", *names], lines, title=f"{'Elo' if elo else 'score'} (rank) by category"))
    if depth < len(order):
        session.say(f"… {len(order) - depth:,} more")
    if hidden:
        session.note(f"{hidden:,} more categories: --rows 0 shows all, -o FILE writes all.")
    votes = ", ".join(f"{name} {n:,.10g}" for name, n in list(boards.n_votes.items())[: len(names)])
    session.note(f"Votes: {votes}.")
    unit = "points" if elo else "log odds"
    if boards.spread is not None:
        value, lower, upper = (f"{v:.{places}f}" for v in boards.spread)
        session.note(
            f"Partially pooled: scores differ between categories by {value} {unit} (standard deviation; {lower} to "
            f"{upper})."
        )
    if found is not None:
        clear = [row for row in found.iter_rows(named=True) if row["p_value"] < _CLEAR]
        said = f"{len(clear):,} of {len(found):,} differences from the other categories are clear, corrected for all"
        each = [
            f"{row['item']} in {row['category']} {row['difference']:+.{places}f} [{row['lower']:+.{places}f}, "
            f"{row['upper']:+.{places}f}]"
            for row in clear[:_NAMED]
        ]
        session.note(f"{said}{': ' if each else ''}{'; '.join(each)}{'; …' * (len(clear) > _NAMED)}.")

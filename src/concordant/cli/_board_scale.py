"""Options that say on which scale a leaderboard is shown, and whether with tiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concordant.cli._parsing import check_choice

if TYPE_CHECKING:
    from concordant.aggregators.category_boards import CategoryBoards
    from concordant.data.consensus import Consensus

__all__ = ["BoardScale"]


@dataclass(frozen=True)
class BoardScale:
    """Options of a leaderboard: its scale with what fixes its origin, and tiers."""

    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            metavar="elo|log-odds",
            help="The scale of the scores: Elo (400 points are odds of 10 to 1) or log odds, relative to --anchor or "
            "--reference.",
        ),
    ] = None
    anchor: Annotated[
        list[str] | None,
        typer.Option(
            "--anchor",
            metavar="ITEM",
            help="The item that is at 1000 on the Elo scale (0 for log odds); repeated, the mean of the items is.",
        ),
    ] = None
    anchor_at: Annotated[
        float | None, typer.Option("--anchor-at", metavar="POINTS", help="Where the anchor is instead.")
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            help="An earlier board, instead of --anchor: the mean over its items stays in place.",
        ),
    ] = None
    tiers: Annotated[
        bool, typer.Option("--tiers", help="Show tiers: items that the data cannot tell apart are in one tier.")
    ] = False

    @property
    def asked(self) -> bool:
        """Whether any of the options is given."""
        return self.scale is not None or self.tiers

    @property
    def has_origin(self) -> bool:
        """Whether an option fixes the origin of the scale."""
        return self.anchor is not None or self.reference is not None

    def check(self, *, own_origin: bool = False) -> None:
        """Raise for options that do not go together, before anything is read.

        Parameters
        ----------
        own_origin : bool
            Whether there is a scale and an origin without these options, so that either can be given alone.
        """
        given = {"--anchor": self.anchor, "--anchor-at": self.anchor_at, "--reference": self.reference}
        named = [option for option, value in given.items() if value is not None]
        if self.scale is None:
            if named and not own_origin:
                raise typer.BadParameter("goes with --scale elo.", param_hint=named[0])
            return
        check_choice(self.scale, ("elo", "log-odds"), "--scale")
        if self.anchor is not None and self.reference is not None:
            raise typer.BadParameter("goes without --anchor: both fix the origin.", param_hint="--reference")
        if not self.has_origin and not own_origin:
            raise self.without_origin()

    def without_origin(self) -> typer.BadParameter:
        """Return the error that a scale lacks an origin."""
        return typer.BadParameter(
            "needs an origin that stays when items join: --anchor ITEM (repeat it for the mean of several), or "
            "--reference FILE, an earlier board.",
            param_hint="--scale",
        )

    def applied(self, board: Consensus) -> Consensus:
        """Return the board as the options ask."""
        if self.scale is not None:
            board = board.scaled(self.scale, anchor=self._origin(), anchor_at=self.anchor_at)
        return board.with_tiers() if self.tiers else board

    def applied_by_category(self, boards: CategoryBoards) -> CategoryBoards:
        """Return boards by category as the options ask."""
        if self.scale is not None:
            boards = boards.scaled(self.scale, anchor=self._origin(), anchor_at=self.anchor_at)
        return boards.with_tiers() if self.tiers else boards

    def _origin(self) -> Any:
        """Return what fixes the origin: items, or an earlier board."""
        if self.reference is None:
            return self.anchor
        from concordant.io.tabular import read_consensus

        return read_consensus(self.reference)

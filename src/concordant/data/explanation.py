"""Why an item stands where it stands: a score taken apart into what each expert, or each opponent, adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.arrays import Floats
from concordant.data.consensus import rank_scores
from concordant.errors import DataError, listing

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Contributions", "Explanation", "explain"]

Contributions = tuple[list[str], Floats, Floats]

# How many experts the printed table has room for.
_COLUMNS = 6


@dataclass(frozen=True, eq=False)
class Explanation:
    """The scores of one instance, taken apart.

    Attributes
    ----------
    instance : str
        What was ranked.
    items : list
        Its items, best first: texts, or the caller's own ids of `fuse`.
    experts : list of str
        Those who add something, the most influential first.
    contribution : float64[items, experts]
        What each expert adds to each score.
    base : float64[items]
        What is added besides: by known experts who are not there, or to items that no list holds.
    score : float64[items]
        The scores: the sum of the two.
    by : {"expert", "opponent"}
        Whose parts they are. Opponents are items: their names are in `experts`.
    """

    instance: str
    items: list[Any]
    experts: list[str]
    contribution: Floats
    base: Floats
    score: Floats
    by: str = "expert"

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: item, expert (or opponent), contribution, one row for each pair, best item first.

        The contributions of an item add up to its score. Where something is added besides, it has a row of its own, in
        which the expert is null.
        """
        import polars as pl

        named, parts = self._parts()
        return pl.DataFrame(
            {
                "item": [i for i in self.items for _ in named],
                self.by: pl.Series(named * len(self.items), dtype=pl.String),
                "contribution": parts.ravel(),
            }
        )

    def _parts(self) -> tuple[list[str | None], Floats]:
        """Return what the scores are the sum of, and whose it is: None for the base, where there is one."""
        if not self.base.any():
            return list(self.experts), self.contribution
        return [*self.experts, None], np.column_stack([self.contribution, self.base])

    def parts(self, item: Any) -> dict[str | None, float]:
        """Return what each expert adds to the score of an item; None stands for the base, where there is one.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.fuse({"bm25": {7: 12.5, 3: 4.5}, "dense": {3: 0.5}}, "weighted-sum").explain().parts(7)
        {'bm25': 1.0, 'dense': 0.0}
        """
        named, parts = self._parts()
        return dict(zip(named, parts[self._row(item)].tolist(), strict=True))

    def between(self, first: Any, second: Any) -> dict[str, float]:
        """Return by how much each expert puts the first item above the second, the strongest voice first.

        The base is nobody's and left out; it differs between items only where no list holds one of them.
        """
        gap = self.contribution[self._row(first)] - self.contribution[self._row(second)]
        order = np.argsort(-np.abs(gap), kind="stable")
        return {self.experts[k]: float(gap[k]) for k in order.tolist() if gap[k] != 0}

    def renamed(self, items: Sequence[Any], names: Sequence[Any], score: Sequence[float]) -> Explanation:
        """Return the explanation of some items, in this order, under other names and with scores that are known."""
        row_of = {item: row for row, item in enumerate(self.items)}
        rows = [row_of[item] for item in items]
        return Explanation(
            self.instance,
            list(names),
            self.experts,
            self.contribution[rows],
            self.base[rows],
            np.array(score, dtype=np.float64),
            self.by,
        )

    def _row(self, item: Any) -> int:
        if item not in self.items:
            raise DataError(f"no item {item!r} in instance {self.instance!r}. Items: {listing(self.items)}.")
        return self.items.index(item)

    def to_text(self, rows: int = 20, columns: int = _COLUMNS) -> str:
        """Return a table of the best items and the most influential experts; what has no room is summed up.

        The numbers to the right of a score add up to it: those of the experts, of the others, and what is added
        besides, the base.
        """
        shown = min(columns, len(self.experts))
        rest, based = len(self.experts) > shown, bool(self.base.any())
        table = [["item", "score", *self.experts[:shown], *["others"] * rest, *["(base)"] * based]]
        for i, item in enumerate(self.items[:rows]):
            values = [self.score[i], *self.contribution[i, :shown]]
            values += [self.contribution[i, shown:].sum()] * rest + [self.base[i]] * based
            table.append([str(item), f"{values[0]:.4f}", *(f"{v:+.4f}" for v in values[1:])])
        widths = [max(len(line[c]) for line in table) for c in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if c == 0 else cell.rjust(width)
                for c, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        ]
        left = len(self.items) - rows
        return "\n".join(lines + ([f"… {left} more items"] if left > 0 else []))

    def __str__(self) -> str:
        # Ids of `fuse` may hold what cannot be printed: half of a character.
        return self.to_text().encode("utf-8", "backslashreplace").decode("utf-8")

    def __repr__(self) -> str:
        return f"Explanation of {self.instance!r}: {len(self.items)} items, {len(self.experts)} {self.by}s"


def explain(
    votes: Any, instance: str | None, contributions: Callable[[Any], Contributions], *, by: str = "expert"
) -> Explanation:
    """Return what every expert adds to the score of every item of one instance.

    `contributions` gives, for the votes of that instance, the experts, what each adds to each item, and the base score.
    """
    if instance is None:
        if len(votes) != 1:
            raise DataError(
                f"the preferences hold {len(votes)} instances. Name the one to explain: {listing(votes.instances, 5)}."
            )
        instance = votes.instances[0]
    if str(instance) not in votes.instances.codes:
        raise DataError(f"no instance {instance!r} to explain. There are {listing(votes.instances, 5)}.")
    own = votes[np.array([votes.instances.codes[str(instance)]])]
    experts, contribution, base = contributions(own)
    score = base + contribution.sum(axis=1)
    _, order = rank_scores(score, own.slots.offsets)
    spread = np.abs(contribution - contribution.mean(axis=0)).sum(axis=0) if len(contribution) else np.zeros(0)
    loud = [k for k in np.argsort(-spread, kind="stable").tolist() if contribution[:, k].any()]
    items = own.slots.items.tolist()
    return Explanation(
        str(instance),
        [items[i] for i in order.tolist()],
        [experts[k] for k in loud],
        contribution[order][:, loud],
        base[order],
        score[order],
        by,
    )

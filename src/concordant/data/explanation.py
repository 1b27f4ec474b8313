"""Explanations: a score as a sum of contributions of the experts, or of the opponents of an item."""

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

# Experts in the printed table.
_COLUMNS = 6


@dataclass(frozen=True, eq=False)
class Explanation:
    """The scores of one instance as sums of contributions.

    Attributes
    ----------
    instance : str
        Id of the instance.
    items : list
        Its items, best first: texts, or the caller's own ids of `fuse`.
    experts : list of str
        The experts with a contribution, the most influential first.
    contribution : float64[items, experts]
        The contribution of each expert to each score.
    base : float64[items]
        The rest of each score, which belongs to no expert of the instance: for example the score of items that no list
        holds.
    score : float64[items]
        The scores: the contributions plus the base.
    by : {"expert", "opponent"}
        Whose contributions they are. With "opponent", `experts` holds the names of the opposing items.
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

        The contributions of an item add up to its score. A base other than 0 has a row of its own, in which the expert
        is null.
        """
        import polars as pl

        names, parts = self._parts()
        return pl.DataFrame(
            {
                "item": [i for i in self.items for _ in names],
                self.by: pl.Series(names * len(self.items), dtype=pl.String),
                "contribution": parts.ravel(),
            }
        )

    def _parts(self) -> tuple[list[str | None], Floats]:
        """Return the names and the terms of the sums; None names the base, if there is one."""
        if not self.base.any():
            return list(self.experts), self.contribution
        return [*self.experts, None], np.column_stack([self.contribution, self.base])

    def parts(self, item: Any) -> dict[str | None, float]:
        """Return the contribution of each expert to the score of an item; None names the base, if there is one.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.fuse({"bm25": {7: 12.5, 3: 4.5}, "dense": {3: 0.5}}, "weighted-sum").explain().parts(7)
        {'bm25': 1.0, 'dense': 0.0}
        """
        named, parts = self._parts()
        return dict(zip(named, parts[self._row(item)].tolist(), strict=True))

    def between(self, first: Any, second: Any) -> dict[str, float]:
        """Return how much each expert contributes to the lead of the first item over the second, by absolute size.

        The base is left out.
        """
        gap = self.contribution[self._row(first)] - self.contribution[self._row(second)]
        order = np.argsort(-np.abs(gap), kind="stable")
        return {self.experts[k]: float(gap[k]) for k in order.tolist() if gap[k] != 0}

    def renamed(self, items: Sequence[Any], names: Sequence[Any], score: Sequence[float]) -> Explanation:
        """Return the explanation of some items, in this order, with other names and given scores."""
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
        """Return a table of the best items and the most influential experts.

        The numbers to the right of a score add up to it: those of the experts shown, the sum of the others, and the
        base.
        """
        shown = min(columns, len(self.experts))
        rest, has_base = len(self.experts) > shown, bool(self.base.any())
        table = [["item", "score", *self.experts[:shown], *["others"] * rest, *["(base)"] * has_base]]
        for i, item in enumerate(self.items[:rows]):
            values = [self.score[i], *self.contribution[i, :shown]]
            values += [self.contribution[i, shown:].sum()] * rest + [self.base[i]] * has_base
            table.append([str(item), f"{values[0]:.4f}", *(f"{v:+.4f}" for v in values[1:])])
        widths = [max(len(line[c]) for line in table) for c in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if c == 0 else cell.rjust(width)
                for c, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        ]
        n_hidden = len(self.items) - rows
        return "\n".join(lines + ([f"… {n_hidden} more items"] if n_hidden > 0 else []))

    def __str__(self) -> str:
        # Ids of `fuse` may hold lone surrogates, which cannot be printed.
        return self.to_text().encode("utf-8", "backslashreplace").decode("utf-8")

    def __repr__(self) -> str:
        return f"Explanation of {self.instance!r}: {len(self.items)} items, {len(self.experts)} {self.by}s"


def explain(
    votes: Any, instance: str | None, contributions: Callable[[Any], Contributions], *, by: str = "expert"
) -> Explanation:
    """Return the explanation of one instance.

    `contributions` returns, for the votes of that instance, the experts, their contributions to each item, and the
    base.
    """
    if instance is None:
        if len(votes) != 1:
            raise DataError(
                f"the preferences hold {len(votes)} instances. Name the one to explain: {listing(votes.instances, 5)}."
            )
        instance = votes.instances[0]
    if str(instance) not in votes.instances.codes:
        raise DataError(f"unknown instance {instance!r}. Instances: {listing(votes.instances, 5)}.")
    own = votes[np.array([votes.instances.codes[str(instance)]])]
    experts, contribution, base = contributions(own)
    score = base + contribution.sum(axis=1)
    _, order = rank_scores(score, own.slots.offsets)
    influence = np.abs(contribution - contribution.mean(axis=0)).sum(axis=0) if len(contribution) else np.zeros(0)
    active = [k for k in np.argsort(-influence, kind="stable").tolist() if contribution[:, k].any()]
    items = own.slots.items.tolist()
    return Explanation(
        str(instance),
        [items[i] for i in order.tolist()],
        [experts[k] for k in active],
        contribution[order][:, active],
        base[order],
        score[order],
        by,
    )

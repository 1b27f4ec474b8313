"""Why an item stands where it stands: a score taken apart into what each expert adds to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.data.consensus import rank_scores
from concordant.errors import DataError, KindError, listing
from concordant.kernels.lists import Floats

if TYPE_CHECKING:
    import polars as pl

    from concordant.base.contract import Aggregator

__all__ = ["Explanation", "explain"]

Contributions = tuple[list[str], Floats, Floats] | None

# How many experts the printed table has room for.
_COLUMNS = 6


@dataclass(frozen=True, eq=False)
class Explanation:
    """The scores of one instance, taken apart.

    Attributes
    ----------
    instance : str
        What was ranked.
    items : list of str
        Its items, best first.
    experts : list of str
        Those who add something, the most influential first.
    contribution : float64[items, experts]
        What each expert adds to each score.
    base : float64[items]
        What is added besides.
    score : float64[items]
        The scores: the sum of the two.
    """

    instance: str
    items: list[str]
    experts: list[str]
    contribution: Floats
    base: Floats
    score: Floats

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: item, expert, contribution, one row for each pair, best item first."""
        import polars as pl

        return pl.DataFrame(
            {
                "item": [i for i in self.items for _ in self.experts],
                "expert": self.experts * len(self.items),
                "contribution": self.contribution.ravel(),
            }
        )

    def between(self, first: str, second: str) -> dict[str, float]:
        """Return by how much each expert puts the first item above the second, the strongest voice first."""
        rows = []
        for item in (first, second):
            if item not in self.items:
                raise DataError(f"no item {item!r} in instance {self.instance!r}. Items: {listing(self.items)}.")
            rows.append(self.items.index(item))
        gap = self.contribution[rows[0]] - self.contribution[rows[1]]
        order = np.argsort(-np.abs(gap), kind="stable")
        return {self.experts[k]: float(gap[k]) for k in order.tolist() if gap[k] != 0}

    def to_text(self, rows: int = 20, columns: int = _COLUMNS) -> str:
        """Return a table of the best items and the most influential experts; what has no room is summed up."""
        shown = min(columns, len(self.experts))
        head = ["item", "score", *self.experts[:shown]]
        rest = len(self.experts) > shown
        table = [head + (["others"] if rest else [])]
        for i, item in enumerate(self.items[:rows]):
            values = [self.score[i], *self.contribution[i, :shown]]
            if rest:
                values.append(self.contribution[i, shown:].sum())
            table.append([item, f"{values[0]:.4f}", *(f"{v:+.4f}" for v in values[1:])])
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
        return self.to_text()

    def __repr__(self) -> str:
        return f"Explanation of {self.instance!r}: {len(self.items)} items, {len(self.experts)} experts"


def explain(
    method: Aggregator, votes: Any, instance: str | None, contributions: Callable[[Any], Contributions] | None = None
) -> Explanation:
    """Return what every expert adds to the score of every item of one instance, by the method's own account."""
    if instance is None:
        if len(votes) != 1:
            raise DataError(
                f"the preferences hold {len(votes)} instances. Name the one to explain: {listing(votes.instances, 5)}."
            )
        instance = votes.instances[0]
    if str(instance) not in votes.instances.codes:
        raise DataError(f"no instance {instance!r} to explain. There are {listing(votes.instances, 5)}.")
    own = votes[np.array([votes.instances.codes[str(instance)]])]
    found = (contributions or method._contributions)(own)
    if found is None:
        name = type(method).__name__
        raise KindError(
            f"the scores of {name} with these parameters are no sum over experts, so there is nothing to take apart. "
            "Methods that can be explained: crf, listwise-linear, svd-rank and rankers without hidden layer or "
            "products, rrf, weighted-sum."
        )
    experts, contribution, base = found
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
    )

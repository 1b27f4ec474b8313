"""`Hits`: the ranking of one request, best first, with the caller's own ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from concordant.data.consensus import TIE_TOLERANCE, rank_scores
from concordant.data.container import html_table
from concordant.errors import DataError, quote

if TYPE_CHECKING:
    from concordant.data.explanation import Explanation

__all__ = ["Hit", "Hits", "rank_dictionary"]

# Hits in the printed forms.
_SHOWN = 10


class Hit(NamedTuple):
    """One item of a fused ranking.

    Attributes
    ----------
    id : hashable
        The caller's own id.
    score : float
        Larger is better.
    rank : int
        1 = best; hits with equal scores share the smallest rank.
    item : object
        The caller's object with this id, None if the lists hold ids only.
    """

    id: Any
    score: float
    rank: int
    item: Any = None

    def __repr__(self) -> str:
        item = "" if self.item is None else f", item={quote(self.item)}"
        return f"Hit(id={self.id!r}, score={self.score!r}, rank={self.rank}{item})"


# `_new_hit(Hit, fields)` builds a hit as `Hit._make` does, without a Python call for each hit.
_new_hit: Callable[[type[Hit], Iterable[Any]], Hit] = tuple.__new__


class Hits(Sequence[Hit]):
    """An immutable sequence of hits, best first; hits with equal scores are in input order.

    `fuse` and `Consensus.hits` return it.

    Parameters
    ----------
    ids, scores, ranks : list
        One entry per hit.
    items : list, optional
        The objects behind the ids.
    explain : callable, optional
        Returns the explanation of these hits.

    Examples
    --------
    >>> hits = Hits([7, 3], [0.9, 0.4], [1, 2])
    >>> hits[0].id, hits.ids, [hit.score for hit in hits]
    (7, [7, 3], [0.9, 0.4])
    >>> hits[1:]
    Hits([Hit(id=3, score=0.4, rank=2)])
    """

    __slots__ = ("_explain", "_ids", "_items", "_ranks", "_scores")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        ids: list[Any],
        scores: list[float],
        ranks: list[int],
        items: list[Any] | None = None,
        explain: Callable[[Sequence[Any], Sequence[float]], Explanation] | None = None,
    ) -> None:
        self._ids, self._scores, self._ranks, self._items, self._explain = ids, scores, ranks, items, explain

    @property
    def ids(self) -> list[Any]:
        """The ids, best first."""
        return self._ids.copy()

    @property
    def scores(self) -> list[float]:
        """The scores, best first."""
        return self._scores.copy()

    def explain(self) -> Explanation:
        """Return the contribution of each list to the score of each hit.

        The contributions to a hit add up to its score, up to rounding errors below 1e-12 of the largest score. Methods
        whose scores are no sum over lists raise KindError.

        Examples
        --------
        >>> import concordant as cc
        >>> hits = cc.fuse({"bm25": [7, 3], "dense": [3]}, weights={"dense": 2})
        >>> print(hits.explain())
        item   score    dense     bm25
        3     0.0489  +0.0328  +0.0161
        7     0.0164  +0.0000  +0.0164
        """
        if self._explain is None:
            raise DataError(
                "these hits cannot be explained, because they were not made by `fuse`. Use method.explain(preferences, "
                "instance)."
            )
        return self._explain(self._ids, self._scores)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary per hit: id, score and rank. It is JSON if the ids are.

        Examples
        --------
        >>> Hits([7], [0.9], [1]).to_dicts()
        [{'id': 7, 'score': 0.9, 'rank': 1}]
        """
        return [{"id": i, "score": s, "rank": r} for i, s, r in zip(self._ids, self._scores, self._ranks, strict=True)]

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, key: int) -> Hit: ...
    @overload
    def __getitem__(self, key: slice) -> Hits: ...
    def __getitem__(self, key: int | slice) -> Hit | Hits:
        items = self._items
        if isinstance(key, slice):
            part = None if items is None else items[key]
            return Hits(self._ids[key], self._scores[key], self._ranks[key], part, self._explain)
        return Hit(self._ids[key], self._scores[key], self._ranks[key], None if items is None else items[key])

    def __iter__(self) -> Iterator[Hit]:
        items = repeat(None) if self._items is None else self._items
        return map(_new_hit, repeat(Hit), zip(self._ids, self._scores, self._ranks, items, strict=False))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hits):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in ("_ids", "_scores", "_ranks", "_items"))

    def __repr__(self) -> str:
        rest = len(self) - _SHOWN
        return f"Hits([{', '.join(map(repr, self[:_SHOWN]))}{f', … {rest} more' if rest > 0 else ''}])"

    def _repr_html_(self) -> str:
        rows = [(hit.rank, hit.id, f"{hit.score:.6g}") for hit in self[:_SHOWN]]
        return html_table(("rank", "id", "score"), rows, len(self) - len(rows))


def rank_dictionary(score_of: dict[Any, float]) -> tuple[list[Any], list[float], list[int]]:
    """Return the ids, best first, their scores and their ranks, as `rank_scores` does but without arrays.

    Examples
    --------
    >>> rank_dictionary({"a": 0.5, "b": 0.75, "c": 0.5})
    (['b', 'a', 'c'], [0.75, 0.5, 0.5], [1, 2, 2])
    """
    ids = sorted(score_of, key=score_of.__getitem__, reverse=True)
    scores = list(map(score_of.__getitem__, ids))
    if not ids:
        return [], [], []
    allowed = TIE_TOLERANCE * max(abs(scores[0]), abs(scores[-1]))
    ranks, rank, place, above = [1], 1, 1, scores[0]
    for score in scores[1:]:
        place += 1
        if above - score > allowed:
            rank = place
        elif above != score:
            # Scores that tie only within the tolerance were sorted by rounding errors.
            given, every = list(score_of), np.array(list(score_of.values()))
            number, order = rank_scores(every, np.array([0, len(every)]))
            return [given[slot] for slot in order.tolist()], every[order].tolist(), number[order].tolist()
        above = score
        ranks.append(rank)
    return ids, scores, ranks

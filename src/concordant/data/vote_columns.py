"""`VoteColumns`: the optional columns of comparisons: time, category, covariates, and counts of "both bad".

A covariate is a difference between the two sides of a vote (length, markdown), left minus right. It changes its sign
when the sides are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from concordant.arrays import Bools, Codes, Floats
from concordant.data.index import Texts, as_ids, freeze, group_ids, join_vocabularies
from concordant.errors import DataError, listing

__all__ = ["NO_COLUMNS", "VoteColumns"]


class VoteColumns(NamedTuple):
    """Optional columns of comparisons, one value for each row; None is a column that is absent.

    Attributes
    ----------
    time : float64[R] or None
        When the votes were given; readers of dates give seconds since 1970.
    category : int32[R] or None
        The code of each row in `categories`, -1 for a row without a category.
    categories : Texts
        The categories, as first seen.
    covariates : float64[R, k] or None
        Left minus right of each covariate.
    covariate_names : Texts
        The names of the covariates.
    n_both_bad : float64[R] or None
        Outcomes in which both sides were bad, where they are kept apart from ties. They are no ties, and no method
        counts them.
    """

    time: Floats | None = None
    category: Codes | None = None
    categories: Texts = Texts()
    covariates: Floats | None = None
    covariate_names: Texts = Texts()
    n_both_bad: Floats | None = None

    @classmethod
    def of(
        cls,
        n: int,
        number: Callable[[Any, str, int], Floats],
        count: Callable[[Any, str, int], Floats],
        *,
        time: Any = None,
        category: Iterable[Any] | None = None,
        covariates: Mapping[str, Any] | None = None,
        n_both_bad: Any = None,
    ) -> Self:
        """Return checked columns of `n` rows; `number` and `count` check a column of numbers and one of counts."""
        codes, categories = None, Texts()
        if category is not None:
            given = list(category)
            if len(given) != n:
                raise DataError(f"the category column has {len(given)} rows, the ids have {n}.")
            with_category = [row for row, name in enumerate(given) if name is not None]
            known_codes, categories = group_ids(as_ids([given[row] for row in with_category], "category"))
            codes = np.full(n, -1, dtype=np.int32)
            codes[with_category] = known_codes
        names = as_ids(list(covariates or {}), "covariate")
        matrix = None
        if covariates:
            matrix = np.column_stack([number(v, f"covariate {k}", n) for k, v in covariates.items()])
        return cls(
            None if time is None else number(time, "time", n),
            codes,
            categories,
            matrix,
            Texts(names),
            None if n_both_bad is None else count(n_both_bad, "n_both_bad", n),
        )

    @property
    def names(self) -> list[str]:
        """The names of the columns, with the names of the covariates."""
        single = [name for name in ("time", "category", "n_both_bad") if getattr(self, name) is not None]
        return single + self.covariate_names.tolist()

    def arrays(self) -> dict[str, Any]:
        """Return the columns as arrays by name, without absent ones."""
        each: dict[str, Any] = {name: getattr(self, name) for name in ("time", "category", "covariates", "n_both_bad")}
        return {name: array for name, array in each.items() if array is not None}

    def frozen(self) -> Self:
        """Return the columns as read-only arrays."""
        arrays: dict[str, Any] = {name: freeze(array) for name, array in self.arrays().items()}
        return self._replace(**arrays)

    def only(self, kept: Collection[str]) -> Self:
        """Return the columns with these names; "covariates" names all of them."""
        return type(self)(
            self.time if "time" in kept else None,
            *((self.category, self.categories) if "category" in kept else (None, Texts())),
            *((self.covariates, self.covariate_names) if "covariates" in kept else (None, Texts())),
            self.n_both_bad if "n_both_bad" in kept else None,
        )

    def take(self, rows: Any) -> Self:
        """Return the columns of these rows."""
        return self._replace(**{name: array[rows] for name, array in self.arrays().items()})

    def flipped(self, flip: Bools) -> Self:
        """Return the columns after the sides of some rows were exchanged."""
        if self.covariates is None or not flip.any():
            return self
        return self._replace(covariates=np.where(flip[:, None], -self.covariates, self.covariates))

    def scaled(self, factor: Floats) -> Self:
        """Return the columns with the counts of each row multiplied."""
        return self if self.n_both_bad is None else self._replace(n_both_bad=self.n_both_bad * factor)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the columns of several parts as one; all parts have the same columns."""
        first = parts[0]
        for part in parts[1:]:
            different = sorted(set(first.names) ^ set(part.names))
            if different:
                raise DataError(
                    f"cannot join comparisons: some parts have {listing(different)} and some do not. Drop the "
                    "optional columns of all parts with without_columns()."
                )
            if part.covariate_names != first.covariate_names:
                raise DataError(
                    f"cannot join comparisons with covariates in different orders: "
                    f"{listing(first.covariate_names.tolist())} and {listing(part.covariate_names.tolist())}."
                )
        joined: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in parts]) for name in first.arrays()}
        categories = first.categories
        if first.category is not None:
            categories, new_codes = join_vocabularies(p.categories for p in parts)
            # Code -1, no category, selects the appended -1.
            codes = [np.append(m, -1)[p.category] for m, p in zip(new_codes, parts, strict=True)]
            joined["category"] = np.concatenate(codes).astype(np.int32)
        return first._replace(**joined, categories=categories)


NO_COLUMNS = VoteColumns()

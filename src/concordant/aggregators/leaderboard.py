"""`Leaderboard`: Bradley-Terry scores that are updated as votes arrive, from stored counts.

Pair counts are sufficient statistics of the scores, so an update adds the new counts and fits the model again. The
result equals a fit to all votes. Counts by expert are stored too, for intervals and estimates of experts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from os import PathLike
from typing import Any, Self

import numpy as np

from concordant.aggregators.bradley_terry import BradleyTerry
from concordant.base.params import check_params, duration, length_of_time, number, optional
from concordant.base.registry import create
from concordant.base.saving import read_arrays, write_arrays
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.index import Slots, Texts
from concordant.data.vote_columns import VoteColumns
from concordant.errors import (
    DataError,
    DataWarning,
    FormatError,
    KindError,
    NotFittedError,
    ParameterError,
    listing,
    warn,
)
from concordant.inference.likelihood import data_digest

__all__ = ["Leaderboard"]

# Discounted counts below this become 0; models refuse smaller weights.
_LEAST_COUNT = 1e-9
_ROWS = ("sides", "experts", "category", "covariates", "n_both_bad")
_ARRAYS = {"left": np.int32, "right": np.int32, "n_left": np.float64, "n_right": np.float64, "n_ties": np.float64}


class Leaderboard:
    """A Bradley-Terry leaderboard that is updated as votes arrive.

    Votes are stored as counts by pair, side, expert, category and covariates. `update` adds votes and returns the
    scores of all votes so far, equal to those of one fit to all of them. `board` adds intervals and estimates of
    experts, which takes as long as a fit to the counts.

    With `half_life` each update discounts the earlier counts to the time of the latest vote; a late vote is discounted
    by its age. With `period` as well, counts are stored by period and discounted only in the fit. Then the half-life
    can be changed later (`with_half_life`), and old votes can be dropped (`drop_before`).

    Parameters
    ----------
    method : BradleyTerry
        The model, with its settings. It is copied and not changed.
    votes : Comparisons, optional
        The first votes.
    period : float or text, optional
        A length of time, such as "1d": votes of the same period are counted together, with the beginning of the period
        as their time. Without it counts have no times.

    Attributes
    ----------
    n_votes : float
        Votes so far, each counted once, however old.
    latest : dict
        The time of the latest vote of each instance, with `half_life` and without `period`.

    Notes
    -----
    Cost of an update: O(V log V) for V new votes, and a fit to the pair counts, or to all counts with
    ``reliability=True``. Memory grows with the number of different combinations of pair, side, expert, category,
    covariates and period, not with the number of votes. With a covariate that differs in every vote, every vote is
    stored.

    Examples
    --------
    >>> import concordant as cc
    >>> arena = Leaderboard(cc.BradleyTerry())
    >>> scores = arena.update(cc.Comparisons("arena", ["x", "y"], ["a", "b"], ["b", "c"], [3, 2], [1, 1]))
    >>> scores = arena.update(cc.Comparisons("arena", ["x", "z"], ["a", "c"], ["c", "a"], [2, 1], [1, 1]))
    >>> scores.ranking(), arena.n_votes
    (['a', 'b', 'c'], 12.0)
    >>> board = arena.board()
    >>> bool((board.lower < board.score).all())
    True
    """

    def __init__(
        self,
        method: BradleyTerry | str = "bradley-terry",
        votes: Comparisons | None = None,
        *,
        period: float | str | None = None,
    ) -> None:
        model = create(method)
        if not isinstance(model, BradleyTerry):
            raise KindError(f"Leaderboard updates BradleyTerry. Got {type(model).__name__}.")
        check_params("BradleyTerry", model.__dict__, model.constraints)
        check_params("Leaderboard", {"period": period}, {"period": optional(length_of_time())})
        self.period = period
        self._params = model.get_params()
        # Counts without times are discounted when they are added.
        self._half_life = None if model.half_life is None else duration(model.half_life)
        self._keep = _ROWS if period is None else (*_ROWS, "time")
        self._fitted: BradleyTerry | None = None
        self._rows: list[Comparisons] = []
        self._pairs: Comparisons | None = None
        self.n_votes = 0.0
        self.latest: dict[str, float] = {}
        # Digests of the votes of each update, to detect votes that are added twice.
        self._batches: list[str] = []
        if votes is not None:
            self.update(votes)

    def __repr__(self) -> str:
        items = 0 if self._pairs is None else self._pairs.n_slots
        return f"Leaderboard: {items:,} items, {self.n_votes:,.10g} votes, {self.method!r}"

    @property
    def method(self) -> BradleyTerry:
        """The model with its settings, not fitted."""
        return BradleyTerry(**self._params)

    @property
    def fitted(self) -> BradleyTerry:
        """The model as the last `update` or `board` fitted it."""
        if self._fitted is None:
            raise NotFittedError("the leaderboard has no votes yet. Call update(votes).")
        return self._fitted

    @property
    def votes(self) -> Comparisons:
        """All votes so far as counts; with `half_life` and without `period`, discounted by their age."""
        if not self._rows:
            raise NotFittedError("the leaderboard has no votes yet. Call update(votes).")
        if len(self._rows) > 1:
            self._rows = [reduce(self._merged, self._rows)]
        return self._rows[0]

    def update(self, votes: Comparisons) -> Consensus:
        """Add votes and return the scores of all votes so far, without intervals.

        The votes must have the same columns as the earlier ones, and like them name experts and sides or not; otherwise
        nothing is added. Votes identical to those of an earlier update count again, with a DataWarning.
        """
        if not isinstance(votes, Comparisons):
            raise KindError(f"Leaderboard takes Comparisons. Got {type(votes).__name__}.")
        n_new = float(votes.outcomes.sum())
        batch = data_digest(votes)
        latest = dict(self.latest)
        rows, pairs = list(self._rows), self._pairs
        if self.period is not None:
            votes = self._by_period(votes)
        elif self._half_life is not None:
            votes, shrink, latest = self._discounted(votes, self._half_life)
            rows = [_scaled(part, shrink) for part in rows]
            pairs = None if pairs is None else _scaled(pairs, shrink)
        new = votes.collapse(keep=self._keep)
        if rows:
            # Join empty selections first, to raise before anything changes.
            Comparisons.concat([rows[0].select_rows([]), new.select_rows([])])
        rows.append(new)
        # The sizes of the parts double, so each row is merged only a few times.
        while len(rows) > 1 and rows[-2].n_rows <= 2 * rows[-1].n_rows:
            rows[-2:] = [self._merged(rows[-2], rows[-1])]
        new_pairs = new.collapse(keep=self._score_properties())
        pairs = new_pairs if pairs is None else self._merged(pairs, new_pairs)
        fitted, scores = self._fit(reduce(self._merged, rows) if self.method.reliability else pairs, uncertainty="none")
        self._rows, self._pairs, self._fitted = rows, pairs, fitted
        self.n_votes += n_new
        self.latest = latest
        if batch in self._batches and n_new:
            warn(
                f"an earlier update added exactly the same {n_new:,.10g} votes; they are counted again. If this is a "
                "mistake, load the leaderboard that you saved before.",
                DataWarning,
            )
        else:
            self._batches.append(batch)
        return scores

    def board(self) -> Consensus:
        """Return the board of all votes so far, with intervals as the model's settings say."""
        self._fitted, found = self._fit(self.votes)
        return found

    def with_half_life(self, half_life: float | str | None) -> Leaderboard:
        """Return a leaderboard of the same votes with another half-life; the leaderboard must have a `period`."""
        self._check_period("change the half-life")
        model = BradleyTerry(**self._params | {"half_life": half_life})
        out = Leaderboard(model, period=self.period)
        out._replace_votes(self.votes, self.n_votes, self._batches)
        return out

    def drop_before(self, time: float) -> Consensus:
        """Drop the votes of all periods that end at or before `time`, and return the scores of the rest.

        The leaderboard must have a `period`. `time` is in the unit of the times: seconds since 1970 if they were read
        from dates.
        """
        self._check_period("drop votes by their times")
        check_params("drop_before", {"time": time}, {"time": number()})
        votes = self.votes
        kept = votes.select_rows(np.asarray(votes.time) + duration(self.period) > time)
        if not kept.n_rows:
            raise DataError(
                f"all votes are from periods that end by {time:,.10g}; none would be left. Pass an earlier time."
            )
        return self._replace_votes(
            kept, self.n_votes - float(votes.outcomes.sum() - kept.outcomes.sum()), self._batches
        )

    def _check_period(self, what: str) -> None:
        if self.period is None:
            raise ParameterError(
                f"cannot {what}: the counts have no times. Build the leaderboard again from all votes with a period, "
                "such as period='1d'."
            )

    def _replace_votes(self, votes: Comparisons, n_votes: float, batches: Sequence[str]) -> Consensus:
        """Replace all votes by these collapsed ones, and return their scores."""
        pairs = votes.collapse(keep=self._score_properties())
        fitted, found = self._fit(votes if self.method.reliability else pairs, uncertainty="none")
        self._rows, self._pairs, self._fitted = [votes], pairs, fitted
        self.n_votes, self._batches = n_votes, list(batches)
        return found

    def _merged(self, one: Comparisons, other: Comparisons) -> Comparisons:
        """Return the sum of two collapsed containers."""
        return Comparisons.concat([one, other]).collapse(keep=self._keep)

    def _by_period(self, votes: Comparisons) -> Comparisons:
        """Return the votes with the beginning of their period as time."""
        if votes.time is None:
            raise DataError("period= counts votes by their times, and these have none. Read them with time='COLUMN'.")
        length = duration(self.period)
        return votes.with_columns(votes.columns._replace(time=np.floor(votes.time / length) * length))

    def _score_properties(self) -> tuple[str, ...]:
        """Return the properties that the scores depend on, by which pair counts are kept apart."""
        model = self.method
        judged = bool(model.families or model.varying)
        kept = ("sides",) * bool(model.side_effect) + ("covariates",) * bool(model.covariates)
        dated = self.period is not None and model.half_life is not None
        return kept + ("experts",) * judged + ("time",) * dated

    def _fit(self, votes: Comparisons, **changed: Any) -> tuple[BradleyTerry, Consensus]:
        # Counts without times are discounted already.
        discounted = {} if self.period is not None else {"half_life": None}
        model = BradleyTerry(**self._params | changed | discounted)
        return model, model.fit_predict(votes)

    def _discounted(
        self, votes: Comparisons, half_life: float
    ) -> tuple[Comparisons, dict[str, float], dict[str, float]]:
        """Return the discounted new votes, the factor of the earlier counts of each instance, and the latest times."""
        if votes.time is None:
            raise DataError(
                "half_life= weighs votes by their times, and these have none. Read them with time='COLUMN'."
            )
        newest = np.full(len(votes), -np.inf)
        np.maximum.at(newest, votes.slots.instance[votes.left], votes.time)
        newest_time = dict(zip(votes.instances.tolist(), newest.tolist(), strict=True))
        latest = self.latest | {
            q: max(t, self.latest.get(q, -np.inf)) for q, t in newest_time.items() if np.isfinite(t)
        }
        shrink = {q: float(np.exp2((before - latest[q]) / half_life)) for q, before in self.latest.items()}
        age_factor = {q: float(np.exp2((t - latest[q]) / half_life)) for q, t in newest_time.items() if np.isfinite(t)}
        return _scaled(votes.discount(half_life), age_factor), shrink, latest

    def save(self, path: str | PathLike[str]) -> None:
        """Write the settings and the counts to one file, whole or not at all; `Leaderboard.load` reads it."""
        votes = self.votes
        columns = votes.columns
        header = {
            "params": self._params,
            "period": self.period,
            "n_votes": self.n_votes,
            "latest": self.latest,
            "batches": self._batches,
            "sided": votes.sided,
            "instances": votes.instances.tolist(),
            "items": votes.items.tolist(),
            "sizes": votes.slots.sizes.tolist(),
            "experts": votes.experts.tolist(),
            "categories": columns.categories.tolist(),
            "covariates": columns.covariate_names.tolist(),
        }
        arrays = {name: getattr(votes, name) for name in _ARRAYS}
        arrays |= {} if votes.expert is None else {"expert": votes.expert}
        arrays |= {f"column {name}": array for name, array in columns.arrays().items()}
        write_arrays(path, "leaderboard", header, arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the leaderboard saved at `path`. A damaged or manipulated file raises FormatError; no code is run."""
        header, arrays = read_arrays(path, "leaderboard")
        try:
            votes = _restored(header, arrays)
            out = cls(BradleyTerry(**_mapping(header, "params")), period=header.get("period"))
            batches = _texts(header, "batches")
            latest, n_votes = _mapping(header, "latest"), float(header["n_votes"])
            if not all(isinstance(t, float) and np.isfinite(t) for t in latest.values()) or not 0 <= n_votes < np.inf:
                raise ValueError("times and the number of votes must be finite numbers")
            if (out.period is None) != (votes.time is None):
                raise TypeError("a leaderboard with a period has times, and one without has none")
            out._replace_votes(votes, n_votes, batches)
        except (DataError, KeyError, ParameterError, TypeError, ValueError) as error:
            raise FormatError(f"{path}: not a leaderboard that Concordant wrote: {error}") from error
        out.latest = latest
        return out


def _scaled(votes: Comparisons, factors: Mapping[str, float]) -> Comparisons:
    """Return votes with the counts of each instance multiplied by its factor, 1 by default."""
    by_instance = np.array([factors.get(q, 1.0) for q in votes.instances])
    if (by_instance == 1.0).all():
        return votes
    scaled = votes.multiply_counts(by_instance[votes.slots.instance[votes.left]])
    counts = (scaled.n_left, scaled.n_right, scaled.n_ties)
    return scaled.with_counts(*(np.where(c < _LEAST_COUNT, 0.0, c) for c in counts))


def _mapping(header: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(header[name], dict):
        raise TypeError(f"{name} is no mapping")
    return dict(header[name])


def _texts(header: Mapping[str, Any], name: str) -> list[str]:
    found = header[name]
    if not isinstance(found, list) or not all(isinstance(t, str) for t in found) or len(set(found)) < len(found):
        raise TypeError(f"{name} must be different texts")
    return found


def _restored(header: Mapping[str, Any], arrays: dict[str, Any]) -> Comparisons:
    """Return the votes of a saved leaderboard after checking every code and count."""
    instances, experts, categories = (_texts(header, name) for name in ("instances", "experts", "categories"))
    names, items, sizes = _texts(header, "covariates"), header["items"], header["sizes"]
    if not isinstance(items, list) or not all(isinstance(t, str) for t in items):
        raise TypeError("items must be texts")
    if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes) or sum(sizes) != len(items):
        raise TypeError("the sizes of the instances do not fit the items")
    slots = Slots(Texts(instances), Texts(items), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    if len(sizes) != len(instances) or any(
        len(set(items[a:b])) < b - a
        for a, b in zip(slots.offsets[:-1].tolist(), slots.offsets[1:].tolist(), strict=True)
    ):
        raise TypeError("an item is there twice")
    required = {name: _checked(arrays.pop(name, None), name, dtype) for name, dtype in _ARRAYS.items()}
    n = len(required["left"])
    extra = {
        "expert": np.int32,
        "column category": np.int32,
        "column n_both_bad": np.float64,
        "column time": np.float64,
    }
    optional = {name: _checked(arrays.pop(name), name, dtype) for name, dtype in extra.items() if name in arrays}
    covariates = arrays.pop("column covariates", None)
    if arrays:
        raise TypeError(f"there are arrays that belong to nothing: {listing(list(arrays))}")
    if covariates is not None and (covariates.dtype != np.float64 or covariates.shape != (n, len(names))):
        raise TypeError("the covariates do not fit the rows")
    if any(len(column) != n for column in (*required.values(), *optional.values())):
        raise TypeError("the columns have different lengths")
    codes = {"left": len(items), "right": len(items)}
    in_range = all(_within(required[name], 0, top) for name, top in codes.items())
    in_range &= "expert" not in optional or _within(optional["expert"], 0, len(experts))
    in_range &= "column category" not in optional or _within(optional["column category"], -1, len(categories))
    counts = [required[name] for name in ("n_left", "n_right", "n_ties")] + [
        optional[name] for name in optional if name == "column n_both_bad"
    ]
    valid = all(bool((np.isfinite(c) & (c >= 0)).all()) for c in counts)
    valid &= "column time" not in optional or bool(np.isfinite(optional["column time"]).all())
    valid &= covariates is None or bool(np.isfinite(covariates).all())
    if not (in_range and valid):
        raise TypeError("a code or a count is out of range")
    instance = slots.instance[required["left"]]
    is_pair = (required["left"] != required["right"]) & (instance == slots.instance[required["right"]])
    if not is_pair.all() or (np.diff(instance) < 0).any() or not isinstance(header["sided"], bool):
        raise TypeError("the rows are not pairs of an instance, in its order")
    columns = VoteColumns(
        optional.get("column time"),
        optional.get("column category"),
        Texts(categories),
        covariates,
        Texts(names),
        optional.get("column n_both_bad"),
    )
    experts_of = optional.get("expert")
    return Comparisons.from_codes(
        slots, Texts(experts), experts_of, *required.values(), sided=header["sided"], columns=columns
    )


def _checked(array: Any, name: str, dtype: Any) -> Any:
    if array is None or array.dtype != dtype or array.ndim != 1:
        raise TypeError(f"the column {name} is missing or of another type")
    return array


def _within(codes: Any, least: int, below: int) -> bool:
    return bool(((codes >= least) & (codes < below)).all())

"""Training-data summaries of fitted methods, and the dataset-shift checks made when a method predicts.

A method that learns from labelled lists keeps a few numbers about them: their kind, their lengths and ranks, and the
number of items of an instance. Prediction uses them to correct for longer lists, and to warn of differences that it
cannot correct.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.params import Within
from concordant.data.comparisons import Comparisons
from concordant.data.preferences import Preferences
from concordant.errors import DataError

__all__ = [
    "COVERAGE_FACTOR",
    "LENGTH_FACTOR",
    "PartialSummary",
    "TrainingSummary",
    "RECORDED_RANGE",
    "check_record",
    "list_coverages",
    "list_depths",
    "depth_shift",
    "kind_shift",
    "value_ranges",
    "value_shift",
]

# Lists and instances up to this many times as large as the largest in training need no correction: the maximum of a
# sample underestimates that of its population.
LENGTH_FACTOR = 1.5
# Coverages up to this many times the largest one in training need no correction: lists of small instances naturally
# hold larger shares of the items.
COVERAGE_FACTOR = 4.0

_KINDS = ("rank", "score", "rating", "comparisons")
_COLUMNS = ("length", "rank", "coverage")
# Coverages are rounded to multiples of 1 / _GRID before they are added, so that sums are exact in any order.
_GRID = 2.0**24
# A message names at most this many experts.
_NAMED = 3
# Warn of lists that are more than this many times as deep as those in training.
_DEEPER = 2.0


class TrainingSummary(NamedTuple):
    """Lengths, ranks and coverages of the training lists, by block of weights (an expert, or several that share).

    The coverage of a list is the fraction of the items of its instance that it holds.

    Attributes
    ----------
    kind : str
        The kind of the preferences, or "comparisons".
    items : tuple of two int
        The smallest and the largest number of items of an instance.
    widest : float
        The largest coverage of a list.
    length, rank, coverage : float64[blocks]
        The length of the longest list, the largest rank (at least the length), and the mean coverage.

    For comparisons, everything but `items` is 0.
    """

    kind: str
    items: tuple[int, int]
    widest: float
    length: Floats
    rank: Floats
    coverage: Floats

    @classmethod
    def of(
        cls, votes: Preferences | Comparisons, block_of_expert: Ints, n_blocks: int, instances: Ints | None = None
    ) -> TrainingSummary:
        """Summarise the lists of some instances (all by default).

        Parameters
        ----------
        votes : Preferences or Comparisons
            The training data.
        block_of_expert : int64[K]
            The block of every expert, -1 for experts without one.
        n_blocks : int
            The number of blocks. A block without a list gets the largest values of all blocks.
        instances : int64, optional
            The training instances.

        Examples
        --------
        >>> p = Preferences(["q"] * 3, ["x", "x", "y"], ["a", "b", "a"], [1, 7, 1])
        >>> trained_on = TrainingSummary.of(p, np.array([0, 1]), 2)
        >>> trained_on.items, trained_on.length.tolist(), trained_on.rank.tolist(), trained_on.coverage.tolist()
        ((2, 2), [2.0, 1.0], [7.0, 1.0], [1.0, 0.5])
        """
        return cls.merged([PartialSummary.of(votes, block_of_expert, n_blocks, instances)])

    @classmethod
    def merged(cls, parts: Sequence[PartialSummary]) -> TrainingSummary:
        """Return the summary of several parts of the training data together."""
        totals = [part.totals for part in parts]
        length, rank = (np.max([getattr(part, name) for part in totals], axis=0) for name in ("length", "rank"))
        lists = np.sum([part.lists for part in parts], axis=0)
        coverage = np.sum([part.coverage for part in totals], axis=0) / np.maximum(lists, 1.0)
        return cls(
            totals[0].kind,
            (min(part.items[0] for part in totals), max(part.items[1] for part in totals)),
            max(part.widest for part in totals),
            *(np.where(lists > 0, column, column.max(initial=0.0)) for column in (length, rank, coverage)),
        )

    def covers(self, votes: Preferences) -> bool:
        """Return whether the lists are certainly similar enough to those in training to need no correction.

        This is a cheap sufficient test: False means that the lists have to be compared one by one.
        """
        if not votes.n_rows or not len(self.length):
            return True
        smallest = largest = votes.slots.n_slots
        if len(votes) > 1:
            sizes = votes.slots.sizes
            smallest, largest = sizes.min(), sizes.max()
        longest = votes.list_lengths.max()
        # The largest rank of a list is at least its length.
        depth = longest if votes.kind != "rank" else max(longest, votes.value.max())
        return self.covers_sizes(longest, depth, smallest, largest)

    def covers_sizes(self, longest: int, depth: float, smallest: int, largest: int) -> bool:
        """Return what `covers` does, from the longest list, the largest rank and the sizes of the instances."""
        return bool(
            depth <= LENGTH_FACTOR * self.length.min()
            and largest <= LENGTH_FACTOR * self.items[1]
            and longest <= COVERAGE_FACTOR * self.widest * smallest
        )

    @property
    def depth(self) -> Floats:
        """The training depth D of every block: the rank beyond which an item counted as not listed.

        D = rank / (1 - coverage). An expert who lists nearly all items says little about the few others, so that D is
        larger than the largest rank, and infinite for experts who list everything.
        """
        with np.errstate(divide="ignore"):
            out: Floats = self.rank / (1.0 - self.coverage)
        return out

    def take(self, blocks: Ints) -> TrainingSummary:
        """Return the summary of some of the blocks, which may repeat."""
        return self._replace(**{name: getattr(self, name)[blocks] for name in _COLUMNS})

    def record(self) -> dict[str, Any]:
        """Return the dictionary that a method keeps as `training_`."""
        return self._asdict() | {"items": list(self.items)}

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> TrainingSummary | None:
        """Return the summary in a record; None without a record (old files), and for comparisons."""
        if record is None or record["kind"] == "comparisons":
            return None
        lowest, highest = record["items"]
        return cls(record["kind"], (lowest, highest), record["widest"], *(record[name] for name in _COLUMNS))


class PartialSummary(NamedTuple):
    """Summary of one part of the training data.

    Attributes
    ----------
    totals : TrainingSummary
        As for the whole data, but `coverage` is a sum over lists, and 0 stands for blocks without a list.
    lists : float64[blocks]
        The number of lists of every block.
    """

    totals: TrainingSummary
    lists: Floats

    @classmethod
    def of(
        cls, votes: Preferences | Comparisons, block_of_expert: Ints, n_blocks: int, instances: Ints | None = None
    ) -> PartialSummary:
        """Summarise the lists of some instances (all by default); parameters as in `TrainingSummary.of`."""
        sizes = votes.slots.sizes if instances is None else votes.slots.sizes[instances]
        items = (int(sizes.min(initial=votes.slots.n_slots)), int(sizes.max(initial=0)))
        out, lists = TrainingSummary("comparisons", items, 0.0, *np.zeros((3, n_blocks))), np.zeros(n_blocks)
        if isinstance(votes, Comparisons):
            return cls(out, lists)
        lengths = votes.list_lengths
        block = block_of_expert[votes.list_expert]
        used = (block >= 0) & (votes.weights > 0) & (lengths > 0)
        if instances is not None:
            used &= np.isin(votes.list_instance, instances)
        block, covered = block[used], list_coverages(votes)[used]
        np.maximum.at(out.length, block, lengths[used])
        np.maximum.at(out.rank, block, list_depths(votes)[used])
        np.add.at(out.coverage, block, np.round(covered * _GRID) / _GRID)
        np.add.at(lists, block, 1.0)
        return cls(out._replace(kind=votes.kind, widest=float(covered.max(initial=0.0))), lists)


def list_depths(votes: Preferences) -> Floats:
    """Return the largest rank of every list, at least its length; for scores and ratings, its length."""
    out = votes.list_lengths.astype(np.float64)
    if votes.kind == "rank" and votes.n_rows:
        full = out > 0
        out[full] = np.maximum(out[full], np.maximum.reduceat(votes.value, votes.list_offsets[:-1][full]))
    return out


def list_coverages(votes: Preferences) -> Floats:
    """Return the coverage of every list: the fraction of the items of its instance that it holds."""
    out: Floats = votes.list_lengths / np.maximum(votes.slots.sizes[votes.list_instance], 1)
    return out


# Item codes are int32.
_MOST_ITEMS = 2**31
# Scores of experts are recorded unchanged, so that any finite number is valid.
RECORDED_RANGE = Within(-sys.float_info.max, sys.float_info.max)


def check_record(method: Any) -> None:
    """Raise DataError if the `training_` of a loaded method cannot come from a fit with its experts."""
    record = method.__dict__.get("training_")
    if record is None:
        return
    n = len(method.__dict__.get("experts_", [""]))
    items = record.get("items")
    least = 0.0 if record.get("kind") == "comparisons" else 1.0
    valid = (
        record.get("kind") in _KINDS
        and isinstance(items, list)
        and len(items) == 2
        and all(isinstance(number, int) and not isinstance(number, bool) for number in items)
        and 0 <= items[0] <= items[1] <= _MOST_ITEMS
        and all(_is_column(record.get(name), n, least=least, most=1e50) for name in ("length", "rank"))
        and _is_column(record.get("coverage"), n, least=0.0, most=1.0)
        and isinstance(record.get("widest"), float)
        and 0.0 <= record["widest"] <= 1.0
    )
    if valid and ("low" in record or "high" in record):
        low, high = record.get("low"), record.get("high")
        valid = _is_column(low, n) and _is_column(high, n) and bool((low <= high).all())
    if not valid:
        raise DataError("its summary of the training data (training_) is not valid.")


def _is_column(value: Any, n: int, least: float = -np.inf, most: float = np.inf) -> bool:
    """Return whether a value is an array of n finite numbers between `least` and `most`."""
    is_array = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == (n,)
    return is_array and bool((np.isfinite(value) & (value >= least) & (value <= most)).all())


def kind_shift(method: Any, votes: Preferences | Comparisons) -> str:
    """Return a message if a method was fitted on lists and predicts comparisons, or the reverse; otherwise "".

    Ranks, scores and ratings are not told apart: the potentials use only the order within a list.
    """
    learned = method.__dict__.get("training_", {}).get("kind")
    asked: str = votes.kind if isinstance(votes, Preferences) else "comparisons"
    n_rows = votes.n_rows if isinstance(votes, Preferences) else len(votes.left)
    if learned is None or not n_rows or (learned == "comparisons") == (asked == "comparisons"):
        return ""
    words = {"comparisons": "pairwise comparisons"}
    learned, asked = (words.get(kind, f"lists of {kind}s") for kind in (learned, asked))
    return (
        f"{type(method).__name__} was fitted on {learned} and is asked about {asked}. Wins are counted in comparisons "
        "and weighed by rank in lists, so that the weights learned from one do not hold for the other. Fit it on "
        f"{asked}, or ask it about {learned}."
    )


def depth_shift(method: Any, votes: Preferences | Comparisons, block_of_expert: Callable[[], Ints]) -> str:
    """Return a message if lists are more than twice as deep as those in training; otherwise "".

    `block_of_expert` is called only if needed. It returns the block of every expert, -1 for experts without one.
    """
    trained_on = TrainingSummary.from_record(method.__dict__.get("training_"))
    if trained_on is None or not isinstance(votes, Preferences) or trained_on.covers(votes):
        return ""
    reached, depth = list_depths(votes), trained_on.depth
    block = block_of_expert()[votes.list_expert]
    ratio = np.where(block >= 0, reached / depth[block], 0.0)
    deep = np.unique(votes.list_expert[ratio > _DEEPER])
    if not len(deep):
        return ""
    at = int(np.argmax(ratio))
    expert = votes.experts[int(votes.list_expert[at])]
    more = f", and {len(deep) - 1} more experts" if len(deep) > 1 else ""
    learned = int(trained_on.rank[block[at]])
    return (
        f"{type(method).__name__} was fitted on lists of up to {learned:,} places and is asked about lists of up to "
        f"{int(reached[at]):,} ({expert!r}{more}). The model learned nothing about deeper places: they count less the "
        "deeper they are, and the model may do worse than one fitted at this depth, or than plain fusion. Fit it on "
        f"lists as deep, or cut these with top({learned})."
    )


def value_shift(method: Any, votes: Preferences) -> str:
    """Return a message if values are of another kind than in training, or far outside their range; otherwise "".

    Only methods that use values without normalisation record a range.
    """
    record = method.__dict__.get("training_")
    if record is None:
        return ""
    if record["kind"] != votes.kind:
        return (
            f"{method!r} was fitted on {record['kind']}s and is asked about {votes.kind}s, whose values are spread "
            f"differently over a list. Fit it on {votes.kind}s, or with norm='rank', which looks at the order alone."
        )
    if "low" not in record:
        return ""
    low, high = (dict(zip(method.experts_, record[end].tolist(), strict=True)) for end in ("low", "high"))
    far = []
    for expert, least, most in zip(votes.experts, *value_ranges(votes), strict=True):
        if expert not in low or least > most:
            continue
        margin = high[expert] - low[expert] or max(abs(high[expert]), 1.0)
        if least < low[expert] - margin or most > high[expert] + margin:
            far.append(f"{expert!r} from {low[expert]:.4g} to {high[expert]:.4g}, now from {least:.4g} to {most:.4g}")
    if not far:
        return ""
    rest = f" and {len(far) - _NAMED} more experts" if len(far) > _NAMED else ""
    return (
        f"{method!r} is asked about scores far outside those it was fitted on: {'; '.join(far[:_NAMED])}{rest}. A "
        "weight holds for the scale it was learned on. Bring the scores to that scale, fit again, or use "
        "norm='min-max'."
    )


def value_ranges(votes: Preferences) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of every expert; inf and -inf for those without any."""
    low, high = np.full(votes.n_experts, np.inf), np.full(votes.n_experts, -np.inf)
    np.minimum.at(low, votes.row_expert, votes.value)
    np.maximum.at(high, votes.row_expert, votes.value)
    return low, high

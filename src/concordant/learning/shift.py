"""Training-data summaries of fitted methods, and the dataset-shift checks made when a method predicts.

A method that learns from labelled lists keeps a few numbers about them: their kind, how long and deep they were, how
many items an instance had. At prediction they say which part of longer lists the weights were learned for, and whether
the data differ in a way that the method cannot make up for.
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
    "CROWDED",
    "SLACK",
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

# Up to so many times what was seen is the same to a model: the largest of a sample is no limit of what it comes from.
SLACK = 1.5
# Lists of small instances hold larger shares of them, which is no sign of other lists; so many times as large it is.
CROWDED = 4.0

_KINDS = ("rank", "score", "rating", "comparisons")
_COLUMNS = ("length", "rank", "coverage")
_GRID = 2.0**24
_SHOWN = 3
# Lists that go deeper than this many times those learned from are worth a warning.
_DEEPER = 2.0


class TrainingSummary(NamedTuple):
    """How far the training lists went, for every expert or group of experts that has weights.

    Attributes
    ----------
    kind : str
        The kind of the preferences, or "comparisons".
    items : tuple of two int
        The fewest and the most items of an instance.
    widest : float
        The largest share of the items of its instance that a list held.
    length, rank, coverage : float64[blocks]
        The number of items of the longest list; the largest rank, never below the length; the share of the items of
        its instance that a list held on average.

    All but the items are 0 for comparisons.
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
        """Return how far the lists of some instances (all by default) went.

        Parameters
        ----------
        votes : Preferences or Comparisons
            What is learned from.
        block_of_expert : int64[K]
            The block of every expert, -1 for those left out. A block without a list gets the largest of all blocks.
        n_blocks : int
            How many blocks there are.
        instances : int64, optional
            Those learned from.

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
        """Return how far the lists of several parts went together."""
        sums = [part.sums for part in parts]
        length, rank = (np.max([getattr(part, name) for part in sums], axis=0) for name in ("length", "rank"))
        lists = np.sum([part.lists for part in parts], axis=0)
        coverage = np.sum([part.coverage for part in sums], axis=0) / np.maximum(lists, 1.0)
        return cls(
            sums[0].kind,
            (min(part.items[0] for part in sums), max(part.items[1] for part in sums)),
            max(part.widest for part in sums),
            *(np.where(lists > 0, column, column.max(initial=0.0)) for column in (length, rank, coverage)),
        )

    def covers(self, votes: Preferences) -> bool:
        """Return whether no list and no instance can be so much larger than those learned from that it matters.

        True where none is, by a few comparisons; False leaves the question open.
        """
        if not votes.n_rows or not len(self.length):
            return True
        least = most = votes.slots.n_slots
        if len(votes) > 1:
            sizes = votes.slots.sizes
            least, most = sizes.min(), sizes.max()
        longest = votes.list_lengths.max()
        # Ranks go down at least as far as lists are long.
        near = longest if votes.kind != "rank" else max(longest, votes.value.max())
        return bool(
            near <= SLACK * self.length.min()
            and most <= SLACK * self.items[1]
            and longest <= CROWDED * self.widest * least
        )

    @property
    def depth(self) -> Floats:
        """The rank below which an item was as good as not listed, for every block.

        By leaving an item out, experts who list nearly everything say little: it is the largest rank over the share of
        the items left out on average, and without limit where nothing was left out.
        """
        with np.errstate(divide="ignore"):
            out: Floats = self.rank / (1.0 - self.coverage)
        return out

    def take(self, blocks: Ints) -> TrainingSummary:
        """Return the same for some of the blocks, which may repeat."""
        return self._replace(**{name: getattr(self, name)[blocks] for name in _COLUMNS})

    def record(self) -> dict[str, Any]:
        """Return what a method keeps of it as `training_`."""
        return self._asdict() | {"items": list(self.items)}

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> TrainingSummary | None:
        """Return what a record tells of lists; None without a record, as in old files, or lists."""
        if record is None or record["kind"] == "comparisons":
            return None
        lowest, highest = record["items"]
        return cls(record["kind"], (lowest, highest), record["widest"], *(record[name] for name in _COLUMNS))


class PartialSummary(NamedTuple):
    """How far the lists of one part of the training data go, coverages added up, and how many lists each block has."""

    sums: TrainingSummary
    lists: Floats

    @classmethod
    def of(
        cls, votes: Preferences | Comparisons, block_of_expert: Ints, n_blocks: int, instances: Ints | None = None
    ) -> PartialSummary:
        """Return how far the lists of some instances (all by default) go; 0 for blocks without a list."""
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
        # On a grid on which sums are exact, so that it makes no difference how instances are spread over parts.
        np.add.at(out.coverage, block, np.round(covered * _GRID) / _GRID)
        np.add.at(lists, block, 1.0)
        return cls(out._replace(kind=votes.kind, widest=float(covered.max(initial=0.0))), lists)


def list_depths(votes: Preferences) -> Floats:
    """Return the largest rank of every list: as given for ranks, but never below its length."""
    out = votes.list_lengths.astype(np.float64)
    if votes.kind == "rank" and votes.n_rows:
        full = out > 0
        out[full] = np.maximum(out[full], np.maximum.reduceat(votes.value, votes.list_offsets[:-1][full]))
    return out


def list_coverages(votes: Preferences) -> Floats:
    """Return the share of the items of its instance that every list holds."""
    out: Floats = votes.list_lengths / np.maximum(votes.slots.sizes[votes.list_instance], 1)
    return out


# More items than codes can number.
_MOST_ITEMS = 2**31
# Scores that experts gave are recorded as they were, however large.
RECORDED_RANGE = Within(-sys.float_info.max, sys.float_info.max)


def check_record(method: Any) -> None:
    """Raise DataError where a loaded record cannot be that of a fit with these experts."""
    record = method.__dict__.get("training_")
    if record is None:
        return
    n = len(method.__dict__.get("experts_", [""]))
    items = record.get("items")
    least = 0.0 if record.get("kind") == "comparisons" else 1.0
    fits = (
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
    if fits and ("low" in record or "high" in record):
        low, high = record.get("low"), record.get("high")
        fits = _is_column(low, n) and _is_column(high, n) and bool((low <= high).all())
    if not fits:
        raise DataError("what it says of its training data is not what a fit writes down.")


def _is_column(value: Any, n: int, least: float = -np.inf, most: float = np.inf) -> bool:
    """Return whether a value is a finite number for each of n experts, none of them out of range."""
    right = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == (n,)
    return right and bool((np.isfinite(value) & (value >= least) & (value <= most)).all())


def kind_shift(method: Any, votes: Preferences | Comparisons) -> str:
    """Return a message where potentials were learned from lists and are asked of comparisons, or the other way round.

    Ranks, scores and ratings are alike to them: only the order within a list counts.
    """
    learned = method.__dict__.get("training_", {}).get("kind")
    asked: str = votes.kind if isinstance(votes, Preferences) else "comparisons"
    said = votes.n_rows if isinstance(votes, Preferences) else len(votes.left)
    if learned is None or not said or (learned == "comparisons") == (asked == "comparisons"):
        return ""
    words = {"comparisons": "pairwise comparisons"}
    learned, asked = (words.get(kind, f"lists of {kind}s") for kind in (learned, asked))
    return (
        f"{type(method).__name__} was fitted on {learned} and is asked about {asked}. Wins are counted in comparisons "
        "and weighed by rank in lists, so that the weights learned from one do not hold for the other. Fit it on "
        f"{asked}, or ask it about {learned}."
    )


def depth_shift(method: Any, votes: Preferences | Comparisons, block_of_expert: Callable[[], Ints]) -> str:
    """Return a message where lists go more than twice as deep as those learned from.

    `block_of_expert` is asked for the block of every expert, -1 for those left out, where it may matter.
    """
    trained_on = TrainingSummary.from_record(method.__dict__.get("training_"))
    if trained_on is None or not isinstance(votes, Preferences) or trained_on.covers(votes):
        return ""
    reached, depth = list_depths(votes), trained_on.depth
    block = block_of_expert()[votes.list_expert]
    merged = np.where(block >= 0, reached / depth[block], 0.0)
    deep = np.unique(votes.list_expert[merged > _DEEPER])
    if not len(deep):
        return ""
    at = int(np.argmax(merged))
    expert = votes.experts[int(votes.list_expert[at])]
    more = f", and {len(deep) - 1} more experts" if len(deep) > 1 else ""
    learned = int(trained_on.rank[block[at]])
    return (
        f"{type(method).__name__} was fitted on lists of up to {learned:,} places and is asked about lists of up to "
        f"{int(reached[at]):,} ({expert!r}{more}). What lies deeper was not learned: it counts less the deeper it is, "
        f"and the model may do worse than one fitted at this depth, or than plain fusion. Fit it on lists as deep, or "
        f"cut these with top({learned})."
    )


def value_shift(method: Any, votes: Preferences) -> str:
    """Return a message where values are of another kind than those learned from, or far outside their range.

    The range counts where the record holds one, which it does where values are used as they are.
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
        room = high[expert] - low[expert] or max(abs(high[expert]), 1.0)
        if least < low[expert] - room or most > high[expert] + room:
            far.append(f"{expert!r} from {low[expert]:.4g} to {high[expert]:.4g}, now from {least:.4g} to {most:.4g}")
    if not far:
        return ""
    rest = f" and {len(far) - _SHOWN} more experts" if len(far) > _SHOWN else ""
    return (
        f"{method!r} is asked about scores far outside those it was fitted on: {'; '.join(far[:_SHOWN])}{rest}. A "
        "weight holds for the scale it was learned on. Bring the scores to that scale, fit again, or use "
        "norm='min-max'."
    )


def value_ranges(votes: Preferences) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of every expert; inf and -inf for those without any."""
    low, high = np.full(votes.n_experts, np.inf), np.full(votes.n_experts, -np.inf)
    np.minimum.at(low, votes.row_expert, votes.value)
    np.maximum.at(high, votes.row_expert, votes.value)
    return low, high

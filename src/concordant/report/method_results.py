"""What each method makes of the same data: which ones to ask, how sure the first is, where they differ.

A method may give intervals itself. Where its scores are sums over experts, drawing experts anew is drawing columns of
its contributions anew, which costs a product of two small tables; other methods are fitted again to every draw.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, ConcordantWarning, KindError
from concordant.inference.experts import support
from concordant.report.agreement import expert_agreement

__all__ = [
    "MethodResult",
    "NamedMethod",
    "RankDifference",
    "RankIntervals",
    "default_learners",
    "default_methods",
    "find_rank_intervals",
    "method_agreement",
    "rank_differences",
    "run_method",
    "same_first_share",
]

Votes = Preferences | Comparisons

# What a step of learning adherence may cost, experts times items squared, before the report goes without it.
_ADHERENCE = 3e8
_TABLE_OF_PAIRS = 4e9
_KEMENY_ITEMS = 40
_MANY_ITEMS = 2000
_DRAWS = 200
_DEPTH = 50
_REFIT_ROWS = 20_000_000
_LEVEL = 0.95
# An item is worth showing where some method puts it among its best.
_NEAR_TOP = 10
_CRF_ROWS = 400_000


class NamedMethod(NamedTuple):
    """A method to ask, and what it is called in the report."""

    label: str
    method: Aggregator


@dataclass
class MethodResult:
    """What a method says.

    Attributes
    ----------
    label : str
        What it is called in the report.
    method : Aggregator
        The method, fitted.
    consensus : Consensus or None
        What it says; None where it could not be asked.
    seconds : float
        How long that took.
    warnings : list of str
        What it said on the way.
    reason : str
        Why it could not be asked.
    """

    label: str
    method: Aggregator
    consensus: Consensus | None = None
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def summary(self) -> str:
        """The first line of the method's page."""
        return (type(self.method).__doc__ or "").strip().split("\n", 1)[0]


def _make(name: str, **params: object) -> NamedMethod:
    inside = ", ".join(f"{p}={str(v).lower() if isinstance(v, bool) else v}" for p, v in params.items())
    return NamedMethod(f"{name}({inside})" if inside else name, create(name, **params))


def default_methods(votes: Votes) -> list[NamedMethod]:
    """Return the methods a report asks when nobody names any: the first is the consensus it shows.

    They depend on what the experts gave and on what can be afforded. What a list says about items it leaves out is what
    the preferences declare.

    Examples
    --------
    >>> import concordant as cc
    >>> [method.label for method in default_methods(cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]}))]
    ['plackett-luce', 'borda', 'median-rank', 'copeland', 'kemeny']
    """
    m = votes.slots.sizes.astype(np.float64)
    if isinstance(votes, Comparisons):
        out = [_make("bradley-terry")]
        if votes.expert is not None and votes.n_experts > 2:
            out.append(_make("bradley-terry", reliability=True))
        out += [_make("mpm"), _make("copeland"), _make("markov-chain")]
        return out
    lists = np.bincount(votes.list_instance, minlength=len(votes))
    pairs = float((lists * m * m).sum())
    if votes.kind == "rating":
        first = _make("mpm") if pairs <= _ADHERENCE else _make("mpm", adherence="none")
        # Who did not rate an item did not dislike it: Borda only where most items are rated.
        known = votes.n_rows / max(float((lists * m).sum()), 1.0)
        out = [first, _make("plackett-luce"), _make("comb-anz", norm="none")]
        out += [_make("borda")] if known > 0.5 else []
        return out + ([_make("copeland")] if pairs <= _TABLE_OF_PAIRS else [])
    if len(votes) == 1 and m.max(initial=0) <= _MANY_ITEMS:
        out = [_make("plackett-luce"), _make("borda"), _make("median-rank"), _make("copeland")]
        return out + ([_make("kemeny")] if m.max(initial=0) <= _KEMENY_ITEMS else [])
    out = [_make("rrf")] + ([_make("comb-mnz")] if votes.kind == "score" else [])
    out += [_make("borda"), _make("median-rank"), _make("ulara")]
    return out + ([_make("copeland")] if pairs <= _TABLE_OF_PAIRS else [])


def default_learners(votes: Votes) -> list[NamedMethod]:
    """Return the methods that learn from labels, for a report that has some."""
    out = [_make("listwise-linear")]
    return out + ([_make("crf")] if votes.n_rows <= _CRF_ROWS else [])


@contextmanager
def collect_warnings(said: list[str]) -> Iterator[None]:
    """Collect the warnings inside the block, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConcordantWarning)
        yield
    for warning in caught:
        text = " ".join(str(warning.message).split())
        if issubclass(warning.category, ConcordantWarning) and text not in said:
            said.append(text)


def run_method(named: NamedMethod, votes: Votes) -> MethodResult:
    """Return what a method says about the data, or why it cannot."""
    out = MethodResult(named.label, named.method)
    started = perf_counter()
    try:
        with collect_warnings(out.warnings):
            out.consensus = named.method.fit_predict(votes)
    except ConcordantError as error:
        out.reason = " ".join(str(error).split())
    out.seconds = perf_counter() - started
    return out


class RankIntervals(NamedTuple):
    """Between which ranks every slot lies, NaN where that is not known, and where the ranges come from.

    `drawn` says that they come from experts drawn anew, and not from the method.
    """

    lower: Floats
    upper: Floats
    how: str
    bootstrapped: bool = False


def find_rank_intervals(
    result: MethodResult, votes: Votes, *, draws: int = _DRAWS, depth: int = _DEPTH, random_state: int = 0
) -> RankIntervals | None:
    """Return between which ranks the items lie: as the method says, or as ranks move when experts are drawn anew.

    Parameters
    ----------
    opinion : Opinion
        A method that was asked.
    votes : Preferences or Comparisons
        What it was asked about.
    draws : int
        How many times the experts are drawn, with replacement.
    depth : int
        Ranks are followed among the best `depth` items of each instance.
    random_state : int
        Seed of the draws.

    Notes
    -----
    None where there are fewer than three experts, or where drawing anew would cost too much.
    """
    consensus, method = result.consensus, result.method
    if consensus is None:
        return None
    if consensus.rank_lower is not None and consensus.rank_upper is not None:
        level = "" if consensus.level is None else f"{consensus.level:.0%} "
        return RankIntervals(
            np.asarray(consensus.rank_lower),
            np.asarray(consensus.rank_upper),
            f"{level}intervals of {result.label}: {consensus.interval_method or 'its own'}",
        )
    if not isinstance(votes, Preferences) or votes.n_experts < 3 or not method.tags.weights:
        return None
    rng = np.random.default_rng(random_state)
    drawn = rng.multinomial(votes.n_experts, np.full(votes.n_experts, 1 / votes.n_experts), size=draws).astype(float)
    how = (
        f"where an item stands in {_LEVEL:.0%} of {draws} draws: experts drawn anew with replacement, {result.label} "
        "reached from each draw"
    )
    if votes.slots.sizes.max(initial=0) > depth:
        how += f"; ranks are those among the {depth} best items"
    found = _from_contributions(method, votes, consensus, drawn, depth)
    if found is None and votes.n_rows * draws <= _REFIT_ROWS:
        found = _from_refits(method, votes, consensus, drawn, depth)
    return None if found is None else RankIntervals(*found, how, bootstrapped=True)


def _best(consensus: Consensus, n: int, depth: int) -> Ints:
    a, b = int(consensus.slots.offsets[n]), int(consensus.slots.offsets[n + 1])
    return consensus.order()[a : min(b, a + depth)]


def _percentile_interval(ranks: Floats) -> tuple[Floats, Floats]:
    """Return the range that holds the wanted share of ranks, draws in rows."""
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(ranks, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return low, high


def _ranks(scores: Floats) -> Floats:
    """Return the ranks of scores, one draw in each row; ties share the smallest."""
    rows, m = scores.shape
    rank, _ = rank_scores(np.ascontiguousarray(scores).ravel(), np.arange(rows + 1, dtype=np.int64) * m)
    return rank.reshape(rows, m).astype(np.float64)


def _from_contributions(
    method: Aggregator, votes: Preferences, consensus: Consensus, drawn: Floats, depth: int
) -> tuple[Floats, Floats] | None:
    low, high = np.full(votes.n_slots, np.nan), np.full(votes.n_slots, np.nan)
    code = votes.experts.codes
    for n, instance in enumerate(votes.instances):
        slots = _best(consensus, n, depth)
        if len(slots) == 0 or votes.list_starts[n + 1] - votes.list_starts[n] < 2:
            continue
        try:
            found = method.explain(votes, instance)
        except KindError:
            return None
        row = {item: i for i, item in enumerate(found.items)}
        kept = [row[item] for item in votes.items.take(slots).tolist()]
        weight = drawn[:, [code[e] for e in found.experts]]
        scores = found.base[kept] + weight @ found.contribution[kept].T
        low[slots], high[slots] = _percentile_interval(_ranks(scores))
    return low, high


def _from_refits(
    method: Aggregator, votes: Preferences, consensus: Consensus, drawn: Floats, depth: int
) -> tuple[Floats, Floats]:
    own = votes.weights
    kept = np.concatenate([_best(consensus, n, depth) for n in range(len(votes))]) if len(votes) else np.zeros(0, int)
    ranks = np.empty((len(drawn), len(kept)))
    copy = type(method)(**method.get_params())
    for d, weight in enumerate(drawn):
        again = votes.with_list_weights(weight[votes.list_expert] * own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            ranks[d] = copy.fit_predict(again).rank[kept]
    low, high = np.full(votes.n_slots, np.nan), np.full(votes.n_slots, np.nan)
    low[kept], high[kept] = _percentile_interval(ranks)
    return low, high


def method_agreement(results: Sequence[MethodResult], votes: Votes) -> Floats:
    """Return Kendall's tau-b between every two methods, averaged over the instances."""
    each = [o.consensus for o in results if o.consensus is not None]
    k, m = len(each), votes.n_slots
    if not m or not k:
        return np.full((k, k), np.nan)
    sizes = votes.slots.sizes.astype(np.int64)
    # Every method as an expert who ranks all items: instance by instance, method by method.
    starts = votes.slots.offsets[:-1]
    lengths = np.repeat(sizes, k)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    slot = np.concatenate([np.tile(np.arange(a, a + s), k) for a, s in zip(starts, sizes, strict=True)])
    method = np.repeat(np.tile(np.arange(k), len(sizes)), lengths)
    ranks = np.column_stack([c.rank for c in each]).astype(np.float64)
    from concordant.data.index import Texts

    as_experts = Preferences.from_codes(
        votes.slots,
        Texts([f"{i}" for i in range(k)]),
        np.tile(np.arange(k, dtype=np.int32), len(sizes)),
        offsets,
        np.arange(len(sizes) + 1, dtype=np.int64) * k,
        slot.astype(np.int32),
        ranks[slot, method],
        kind="rank",
    )
    return expert_agreement(as_experts).tau


def same_first_share(one: Consensus, other: Consensus) -> float:
    """Return in which share of the instances two methods put the same item first; a tie for it counts."""
    offsets = one.slots.offsets
    held = np.flatnonzero(np.diff(offsets) > 0)
    if not len(held):
        return math.nan
    both = ((one.rank == 1) & (other.rank == 1)).astype(np.int64)
    return float((np.add.reduceat(both, offsets[:-1][held]) > 0).mean())


class RankDifference(NamedTuple):
    """An item that methods place far apart: its rank by each of them."""

    instance: str
    item: str
    ranks: list[int]


def rank_differences(results: Sequence[MethodResult], votes: Votes, limit: int) -> list[RankDifference]:
    """Return the items whose ranks differ most from method to method, near the top more than further down.

    The measure is the ratio of the largest and the smallest rank, over items that some method puts among its ten best
    and of which as much is said as of the middle one; of several instances each gives one.
    """
    ranks = np.column_stack([o.consensus.rank for o in results if o.consensus is not None]).astype(np.float64)
    if ranks.shape[1] < 2:
        return []
    said = support(votes)
    near = (ranks.min(axis=1) <= _NEAR_TOP) & (said >= np.median(said))
    ratio = np.where(near, ranks.max(axis=1) / ranks.min(axis=1), 0.0)
    out: list[RankDifference] = []
    seen: set[int] = set()
    for slot in np.argsort(-ratio, kind="stable").tolist():
        n = int(votes.slots.instance[slot])
        if ratio[slot] <= 1 or len(out) == limit:
            break
        if len(votes) > 1 and n in seen:
            continue
        seen.add(n)
        out.append(RankDifference(*votes.slots.where(slot), [int(r) for r in ranks[slot]]))
    return out

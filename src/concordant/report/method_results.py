"""Runs the methods of a report on the same data: defaults, rank intervals, agreement and rank differences.

Rank intervals are those of the method, or a bootstrap over the experts. Where scores are sums over experts, a resample
of the experts is a weighted sum of their contributions, which takes one small matrix product; other methods are fitted
again to each resample.
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

from concordant.aggregators._explanations import ExplainedLikelihood
from concordant.arrays import Floats
from concordant.base.contract import Aggregator
from concordant.base.registry import create
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.preferences import Preferences
from concordant.errors import ConcordantError, ConcordantWarning, KindError
from concordant.inference.experts import support
from concordant.report._instances import best_slots
from concordant.report.agreement import expert_agreement

__all__ = [
    "MethodResult",
    "NamedMethod",
    "RankDifference",
    "RankIntervals",
    "default_learners",
    "default_methods",
    "find_rank_intervals",
    "left_out_methods",
    "method_agreement",
    "rank_differences",
    "run_method",
    "same_first_share",
]

Votes = Preferences | Comparisons

# Lists times items squared above which the report does without learned adherence, and without Copeland.
_ADHERENCE_COST = 3e8
_COPELAND_COST = 4e9
_KEMENY_ITEMS = 40
_MANY_ITEMS = 2000
_RESAMPLES = 200
_DEPTH = 50
_REFIT_ROWS = 20_000_000
_LEVEL = 0.95
# Rank differences are shown for items in the top 10 of some method.
_TOP = 10
_CRF_ROWS = 400_000
# Votes above which a report does without the reliability of experts: without and with covariates.
_RELIABILITY_VOTES, _RELIABILITY_STYLED = 3_000_000, 400_000
# Tolerance of a fit of which three or four digits are shown; slopes are within 1e-5 of those of a full fit.
_SHOWN_DIGITS = 1e-6
# Items are compared about equally often if none takes part in more than this many times the votes of another.
_EVEN = 2.0


class NamedMethod(NamedTuple):
    """A method and its name in the report."""

    label: str
    method: Aggregator


@dataclass
class MethodResult:
    """A method that was run, and its consensus or the reason why there is none.

    Attributes
    ----------
    label : str
        Name in the report.
    method : Aggregator
        The method, fitted.
    consensus : Consensus or None
        The result; None where the method failed.
    seconds : float
        Run time.
    warnings : list of str
        Warnings of the method.
    reason : str
        Why the method failed.
    """

    label: str
    method: Aggregator
    consensus: Consensus | None = None
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def summary(self) -> str:
        """The first line of the docstring of the method."""
        return (type(self.method).__doc__ or "").strip().split("\n", 1)[0]


def _make(name: str, **params: object) -> NamedMethod:
    inside = ", ".join(f"{p}={str(v).lower() if isinstance(v, bool) else v}" for p, v in params.items())
    return NamedMethod(f"{name}({inside})" if inside else name, create(name, **params))


def default_methods(votes: Votes) -> list[NamedMethod]:
    """Return the methods that a report runs by default; the first gives the consensus.

    They depend on the kind of data and on its size.

    Examples
    --------
    >>> import concordant as cc
    >>> [method.label for method in default_methods(cc.from_lists({"x": ["a", "b"], "y": ["b", "a"]}))]
    ['plackett-luce', 'borda', 'median-rank', 'copeland', 'kemeny']
    """
    m = votes.slots.sizes.astype(np.float64)
    if isinstance(votes, Comparisons):
        absent = left_out_methods(votes)
        style = {"covariates": "all"} if len(votes.covariate_names) else {}
        out = [_make("bradley-terry", **style)]
        if votes.expert is not None and votes.n_experts > 2 and not absent.reliability:
            label = _make("bradley-terry", **style, reliability=True).label
            # Only ranks and the reliability of experts are shown of it: no intervals, and fewer sweeps.
            out.append(
                NamedMethod(
                    label, create("bradley-terry", **style, reliability=True, uncertainty="none", tol=_SHOWN_DIGITS)
                )
            )
        if style:
            out.append(NamedMethod("bradley-terry(covariates=[])", create("bradley-terry", covariates=[])))
        if not absent.counting:
            out += [_make("mpm"), _make("copeland"), _make("markov-chain")]
        return out
    lists = np.bincount(votes.list_instance, minlength=len(votes))
    pairs = float((lists * m * m).sum())
    if votes.kind == "rating":
        first = _make("mpm") if pairs <= _ADHERENCE_COST else _make("mpm", adherence="none")
        # A missing rating is no dislike, but Borda counts it as one: use it only where most items are rated.
        known = votes.n_rows / max(float((lists * m).sum()), 1.0)
        out = [first, _make("plackett-luce"), _make("comb-anz", norm="none")]
        out += [_make("borda")] if known > 0.5 else []
        return out + ([_make("copeland")] if pairs <= _COPELAND_COST else [])
    if len(votes) == 1 and m.max(initial=0) <= _MANY_ITEMS:
        out = [_make("plackett-luce"), _make("borda"), _make("median-rank"), _make("copeland")]
        return out + ([_make("kemeny")] if m.max(initial=0) <= _KEMENY_ITEMS else [])
    out = [_make("rrf")] + ([_make("comb-mnz")] if votes.kind == "score" else [])
    out += [_make("borda"), _make("median-rank"), _make("ulara")]
    return out + ([_make("copeland")] if pairs <= _COPELAND_COST else [])


class LeftOut(NamedTuple):
    """Why a report on comparisons leaves out methods by default; empty where it does not.

    `counting` is about MPM, Copeland and Markov chains.
    """

    reliability: str = ""
    counting: str = ""


def left_out_methods(votes: Votes) -> LeftOut:
    """Return why methods are left out by default.

    MPM, Copeland and Markov chains sum or count over opponents. Where some items meet many and others few, their scores
    follow the exposure of an item and not its strength alone. They ignore covariates, so that they are no equals of a
    board at equal style.

    Examples
    --------
    >>> import concordant as cc
    >>> left_out_methods(cc.Comparisons("arena", None, ["a", "a", "b"], ["b", "c", "c"], [7, 1, 2])).counting[:44]
    'mpm, copeland and markov-chain are left out:'
    """
    if not isinstance(votes, Comparisons):
        return LeftOut()
    most = _RELIABILITY_STYLED if len(votes.covariate_names) else _RELIABILITY_VOTES
    slow = ""
    if votes.expert is not None and votes.n_rows > most:
        slow = (
            f"The reliability of experts was not learned: with {votes.n_rows:,} rows of votes it takes long. "
            "--methods bradley-terry,'bradley-terry(reliability=true)' learns it."
        )
    if len(votes.covariate_names):
        return LeftOut(
            slow,
            "mpm, copeland and markov-chain are left out: they ignore style, and their scores hold what the "
            "covariates add.",
        )
    said, sizes = support(votes), votes.slots.sizes.astype(np.int64)
    known = said > 0
    instance = votes.slots.instance[known]
    most_said, least_said = np.zeros(len(votes)), np.full(len(votes), np.inf)
    np.maximum.at(most_said, instance, said[known])
    np.minimum.at(least_said, instance, said[known])
    held = np.flatnonzero(most_said > 0)
    times = float((most_said[held] / least_said[held]).max(initial=1.0))
    low, high = np.minimum(votes.left, votes.right), np.maximum(votes.left, votes.right)
    met = len(np.unique(low.astype(np.int64) * max(votes.n_slots, 1) + high))
    possible = int((sizes * (sizes - 1) // 2).sum())
    if met == possible and times <= _EVEN:
        return LeftOut(slow)
    why = f"only {met:,} of {possible:,} pairs were compared"
    if times > _EVEN:
        much = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
        why = f"the most compared item took part in {much} times as many comparisons as the least compared one"
    return LeftOut(
        slow,
        f"mpm, copeland and markov-chain are left out: {why}, and their scores follow how often and with whom an item "
        "is compared, not its strength alone.",
    )


def default_learners(votes: Votes) -> list[NamedMethod]:
    """Return the supervised methods that a report with labels runs by default."""
    out = [_make("listwise-linear")]
    return out + ([_make("crf")] if votes.n_rows <= _CRF_ROWS else [])


@contextmanager
def collect_warnings(out: list[str]) -> Iterator[None]:
    """Collect the text of Concordant's warnings inside the block, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConcordantWarning)
        yield
    for warning in caught:
        text = " ".join(str(warning.message).split())
        if issubclass(warning.category, ConcordantWarning) and text not in out:
            out.append(text)


def run_method(named: NamedMethod, votes: Votes) -> MethodResult:
    """Fit a method to the data and return its result; an error becomes its reason."""
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
    """Rank intervals of all slots, NaN where unknown, and how they were computed.

    `bootstrapped` is true for resampled experts and false for intervals of the method itself.
    """

    lower: Floats
    upper: Floats
    how: str
    bootstrapped: bool = False


def find_rank_intervals(result: MethodResult, votes: Votes) -> RankIntervals | None:
    """Return the rank intervals of a result: those of the method, or a bootstrap over the experts.

    None where there are fewer than three experts, or where resampling would take too long.
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
    k = votes.n_experts
    drawn = np.random.default_rng(0).multinomial(k, np.full(k, 1 / k), size=_RESAMPLES).astype(float)
    how = f"{_LEVEL:.0%} bootstrap intervals of {result.label} over {_RESAMPLES} resamples of the experts"
    if votes.slots.sizes.max(initial=0) > _DEPTH:
        how += f", ranks among the top {_DEPTH} items"
    found = _from_contributions(method, votes, consensus, drawn)
    if found is None and votes.n_rows * _RESAMPLES <= _REFIT_ROWS:
        found = _from_refits(method, votes, consensus, drawn)
    return None if found is None else RankIntervals(*found, how, bootstrapped=True)


def _percentile_interval(ranks: Floats) -> tuple[Floats, Floats]:
    """Return the percentile interval of each column; resamples are in rows."""
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(ranks, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return low, high


def _ranks(scores: Floats) -> Floats:
    """Return the ranks of scores, one resample in each row; ties share the smallest rank."""
    rows, m = scores.shape
    rank, _ = rank_scores(np.ascontiguousarray(scores).ravel(), np.arange(rows + 1, dtype=np.int64) * m)
    return rank.reshape(rows, m).astype(np.float64)


def _from_contributions(
    method: Aggregator, votes: Preferences, consensus: Consensus, drawn: Floats
) -> tuple[Floats, Floats] | None:
    if isinstance(method, ExplainedLikelihood):
        # The parts of an expert change with the weights of the others.
        return None
    low, high = np.full(votes.n_slots, np.nan), np.full(votes.n_slots, np.nan)
    code = votes.experts.codes
    for n, instance in enumerate(votes.instances):
        slots = best_slots(consensus, n, _DEPTH)
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


def _from_refits(method: Aggregator, votes: Preferences, consensus: Consensus, drawn: Floats) -> tuple[Floats, Floats]:
    own = votes.weights
    each = [best_slots(consensus, n, _DEPTH) for n in range(len(votes))]
    kept = np.concatenate(each) if each else np.zeros(0, int)
    ranks = np.empty((len(drawn), len(kept)))
    # What the method chose is held: a choice takes many fits.
    chosen = method.fit_info_.chosen if "fit_info_" in method.__dict__ else {}
    params = method.get_params()
    copy = type(method)(**params | {name: value for name, value in chosen.items() if name in params})
    for d, weight in enumerate(drawn):
        again = votes.with_list_weights(weight[votes.list_expert] * own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            ranks[d] = copy.fit_predict(again).rank[kept]
    low, high = np.full(votes.n_slots, np.nan), np.full(votes.n_slots, np.nan)
    low[kept], high[kept] = _percentile_interval(ranks)
    return low, high


def method_agreement(results: Sequence[MethodResult], votes: Votes) -> Floats:
    """Return Kendall's tau-b between every two methods, averaged over instances."""
    each = [o.consensus for o in results if o.consensus is not None]
    k, m = len(each), votes.n_slots
    if not m or not k:
        return np.full((k, k), np.nan)
    sizes = votes.slots.sizes.astype(np.int64)
    # Treat each method as an expert who ranks all items.
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
    """Return the share of instances where two methods put the same item first; ties for first place count."""
    offsets = one.slots.offsets
    held = np.flatnonzero(np.diff(offsets) > 0)
    if not len(held):
        return math.nan
    both = ((one.rank == 1) & (other.rank == 1)).astype(np.int64)
    return float((np.add.reduceat(both, offsets[:-1][held]) > 0).mean())


class RankDifference(NamedTuple):
    """An item that methods rank very differently, and its rank by each method."""

    instance: str
    item: str
    ranks: list[int]


def rank_differences(results: Sequence[MethodResult], votes: Votes, limit: int) -> list[RankDifference]:
    """Return the items with the largest ratio of largest to smallest rank over the methods.

    Only items in the top 10 of some method count, and only those with at least the median support. Several instances
    give one item each.
    """
    ranks = np.column_stack([o.consensus.rank for o in results if o.consensus is not None]).astype(np.float64)
    if ranks.shape[1] < 2:
        return []
    said = support(votes)
    near = (ranks.min(axis=1) <= _TOP) & (said >= np.median(said))
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

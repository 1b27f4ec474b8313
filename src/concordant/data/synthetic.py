"""Generators of synthetic rankings, votes, runs and features from models with known parameters.

Every generator returns containers and the parameters behind them. The random numbers of an instance depend only on
`random_state` and on the id of the instance, so a sample of more instances contains those of a smaller sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.index import Slots, Texts, as_ids
from concordant.data.labels import Labels
from concordant.data.preferences import Kind, Preferences
from concordant.data.streams import instance_stream
from concordant.data.vote_columns import NO_COLUMNS, VoteColumns
from concordant.errors import ParameterError
from concordant.kernels.lists import offsets_of
from concordant.kernels.mallows import sample_order

__all__ = [
    "ArenaSample",
    "BradleyTerrySample",
    "MallowsSample",
    "MetaSearchSample",
    "PlackettLuceSample",
    "RunsSample",
    "arena",
    "bradley_terry",
    "graded_features",
    "labelled_runs",
    "mallows",
    "meta_search",
    "plackett_luce",
    "runs",
]


def _whole(value: Any, name: str, owner: str, least: int = 1) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ParameterError.invalid(name, owner, f"a whole number >= {least}", value)
    return int(value)


def _share(value: Any, name: str, owner: str) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ParameterError.invalid(name, owner, "a number >= 0 and <= 1", value)
    return float(value)


def _nonnegative(value: Any, name: str, owner: str) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < np.inf:
        raise ParameterError.invalid(name, owner, "a number >= 0", value)
    return float(value)


def _numbers(values: Any, name: str, owner: str) -> Floats:
    try:
        out = np.array(list(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError.invalid(name, owner, "finite numbers", values) from None
    if out.ndim != 1 or not len(out) or not np.isfinite(out).all():
        raise ParameterError.invalid(name, owner, "finite numbers", values)
    return out


def _named(values: Any, prefix: str, name: str, owner: str) -> tuple[list[str], Floats]:
    """Return names and numbers, from a mapping or from a sequence that is then numbered."""
    if isinstance(values, Mapping):
        return as_ids(values, name), _numbers(values.values(), name, owner)
    numbers = _numbers(values, name, owner)
    return _names(prefix, len(numbers)), numbers


def _names(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{k + 1}" for k in range(n)]


class _ListBuilder:
    """Collects lists of item numbers, instance by instance and expert by expert, and builds preferences."""

    def __init__(self) -> None:
        self.instances: list[str] = []
        self.items: list[str] = []
        self.sizes: list[int] = []
        self.experts: list[int] = []
        self.lists_of: list[int] = []
        self.slots: list[NDArray[Any]] = []
        self.values: list[NDArray[Any]] = []

    def add_instance(self, name: str, items: list[str]) -> None:
        self.instances.append(name)
        self.first = len(self.items)
        self.items += items
        self.sizes.append(len(items))
        self.lists_of.append(0)

    def add_list(self, expert: int, local: NDArray[Any], values: NDArray[Any]) -> None:
        if len(local):
            self.experts.append(expert)
            self.lists_of[-1] += 1
            self.slots.append(local + self.first)
            self.values.append(values)

    def build(self, experts: list[str], kind: Kind, *, below: bool = False) -> Preferences:
        lengths = np.array([len(s) for s in self.slots], dtype=np.int64)
        none = [np.zeros(0)]
        return Preferences.from_codes(
            self.all_slots(),
            Texts(experts),
            np.array(self.experts, dtype=np.int32),
            offsets_of(lengths),
            offsets_of(np.array(self.lists_of, dtype=np.int64)),
            np.concatenate(self.slots or none).astype(np.int32),
            np.concatenate(self.values or none).astype(np.float64),
            kind=kind,
            below=below,
        )

    def all_slots(self) -> Slots:
        return Slots(Texts(self.instances), Texts(self.items), offsets_of(np.array(self.sizes, dtype=np.int64)))


class MetaSearchSample(NamedTuple):
    """Ranks given by good, useless and inverted experts, and the labels that they rank by.

    `quality` is how strongly each expert follows the labels; with a negative one it ranks against them.
    """

    preferences: Preferences
    labels: Labels
    quality: dict[str, float]


def meta_search(
    n_instances: int = 150,
    *,
    quality: Sequence[float] | Mapping[str, float] = (2, 2, 1.5, 0.5, 0.5, 0, -1.5, -2),
    labels: Sequence[float] = (0, 0, 0, 0, 1, 1, 2),
    n_items: tuple[int, int] = (10, 29),
    noise: float = 1.5,
    largest_rank: int = 59,
    missing: float = 0.4,
    random_state: int = 0,
) -> MetaSearchSample:
    """Return queries whose documents are ranked by experts of known quality, with gaps, missing items and labels.

    An instance has M items, M uniform on `n_items` (both ends included), each with a label drawn from `labels`. Expert
    k sees a_k · label + noise · N(0, 1), orders the items by it, and gives them in this order the ranks of a sorted
    random subset of 1, ..., `largest_rank`. Each rank is then missing with probability `missing`. Items that nobody
    ranks remain part of the instance.

    Parameters
    ----------
    n_instances : int
        How many queries; "q1", "q2", ...
    quality : sequence of float or mapping from expert to float
        a_k; a sequence names the experts "e1", "e2", ...
    labels : sequence of float
        The labels to draw from; every entry has the same probability.
    n_items : (int, int)
        The smallest and largest number of items.
    noise : float
        Standard deviation of the noise that an expert adds to the label.
    largest_rank : int
        The largest rank that may be written.
    missing : float
        The probability that an expert leaves an item out.
    random_state : int
        The seed.

    Examples
    --------
    >>> sample = meta_search(3)
    >>> len(sample.preferences), sample.preferences.n_experts, sample.quality["e8"]
    (3, 8, -2.0)
    """
    owner = "meta_search"
    n_instances = _whole(n_instances, "n_instances", owner, 0)
    seed = _whole(random_state, "random_state", owner, 0)
    low, high = (_whole(v, "n_items", owner) for v in n_items)
    if low > high or _whole(largest_rank, "largest_rank", owner) < high:
        raise ParameterError.invalid(
            "n_items", owner, "a smallest and a largest number of items, at most largest_rank", n_items
        )
    missing_share = _share(missing, "missing", owner)
    experts, strength = _named(quality, "e", "quality", owner)
    pool = _numbers(labels, "labels", owner)
    out, drawn = _ListBuilder(), []
    for q in _names("q", n_instances):
        rng = instance_stream(seed, q)
        m = int(rng.integers(low, high + 1))
        label = rng.choice(pool, size=m)
        out.add_instance(q, _names("d", m))
        drawn.append(label)
        for k, a in enumerate(strength):
            order = np.argsort(-(a * label + noise * rng.standard_normal(m)))
            rank = np.empty(m)
            rank[order] = np.sort(rng.choice(largest_rank, size=m, replace=False)) + 1
            kept = np.flatnonzero(rng.random(m) >= missing_share)
            out.add_list(k, kept, rank[kept])
    preferences = out.build(experts, "rank")
    truth = np.concatenate([*drawn, np.zeros(0)])
    return MetaSearchSample(
        preferences,
        Labels.from_codes(preferences.slots, truth),
        dict(zip(preferences.experts, strength.tolist(), strict=True)),
    )


def labelled_runs(n_instances: int = 150, **settings: Any) -> tuple[Preferences, Labels]:
    """Return queries ranked by good, useless and inverted experts, and their labels: a pair to fit a method on.

    Parameters
    ----------
    n_instances, settings
        Parameters of `meta_search`, which also returns the quality of the experts.

    Examples
    --------
    >>> preferences, labels = labelled_runs(3)
    >>> preferences.slots == labels.slots
    True
    """
    sample = meta_search(n_instances, **settings)
    return sample.preferences, sample.labels


def graded_features(
    n_instances: int = 100,
    *,
    n_features: int = 20,
    n_items: tuple[int, int] | Sequence[int] = (10, 29),
    n_informative: int | None = None,
    n_grades: int = 5,
    noise: float = 1.0,
    random_state: int = 0,
) -> tuple[Features, Labels]:
    """Return features and grades of items: a hidden linear score with noise, cut into grades.

    Features are standard normal. The score of an item is a weighted sum of the informative ones with standard deviation
    1, plus noise; grades are cut at quantiles of its distribution so that half of the items have grade 0, and each
    higher grade is half as common as the one below.

    Parameters
    ----------
    n_instances : int
        How many instances.
    n_features, n_informative : int
        The number of features, and of those that the score depends on; half of them by default.
    n_items : pair of int, or a sequence of int for every instance
        The smallest and largest number of items, drawn uniformly; or one number for each instance.
    n_grades : int
        Grades go from 0 to n_grades - 1.
    noise : float
        Standard deviation of the noise in the score.
    random_state : int
        Seed.

    Examples
    --------
    >>> features, labels = graded_features(30, random_state=1)
    >>> features
    Features: 30 instances, 557 items, 20 features
    >>> labels
    Labels: 30 instances, 557 items, labels 0 to 4
    """
    owner = "graded_features"
    n, F = _whole(n_instances, "n_instances", owner), _whole(n_features, "n_features", owner)
    informative = max(F // 2, 1) if n_informative is None else _whole(n_informative, "n_informative", owner)
    grades = _whole(n_grades, "n_grades", owner, 2)
    if informative > F:
        raise ParameterError.invalid("n_informative", owner, f"at most n_features={F}", n_informative)
    if not isinstance(noise, Real) or not 0 <= float(noise) < np.inf:
        raise ParameterError.invalid("noise", owner, "a number >= 0", noise)
    given = [_whole(m, "n_items", owner, 0) for m in n_items]
    if len(given) != n and (len(given) != 2 or given[0] > given[1]):
        raise ParameterError.invalid("n_items", owner, "a pair (least, most), or a number for every instance", n_items)
    weights = np.zeros(F)
    weights[:informative] = np.random.default_rng([random_state, F]).normal(size=informative)
    weights /= np.sqrt(weights @ weights)
    # The share of items below each grade: 1/2, 3/4, 7/8, ...
    below = 1.0 - 0.5 ** np.arange(1, grades)
    cuts = np.sqrt(1.0 + float(noise) ** 2) * np.array([NormalDist().inv_cdf(b) for b in below.tolist()])
    names = _names("q", n)
    streams = [instance_stream(random_state, name) for name in names]
    sizes = np.array(given if len(given) == n else [int(s.integers(given[0], given[1] + 1)) for s in streams])
    offsets = offsets_of(sizes)
    X = np.empty((int(sizes.sum()), F))
    score = np.empty(len(X))
    for stream, a, b in zip(streams, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        stream.standard_normal(out=X[a:b])
        score[a:b] = X[a:b] @ weights + float(noise) * stream.standard_normal(b - a)
    slots = Slots(Texts(names), Texts([f"d{k + 1}" for m in sizes.tolist() for k in range(m)]), offsets)
    label = np.searchsorted(cuts, score).astype(np.float64)
    return Features.from_codes(slots, X), Labels.from_codes(slots, label)


class MallowsSample(NamedTuple):
    """Rankings from a Mallows model: `truth` is the centre of each instance, `theta` the dispersion of each expert."""

    preferences: Preferences
    truth: Consensus
    theta: dict[str, float]


def mallows(
    n_items: int = 30,
    theta: float | Sequence[float] | Mapping[str, float] = -0.3,
    n_experts: int | None = None,
    n_instances: int = 1,
    *,
    center: str = "random",
    random_state: int = 0,
) -> MallowsSample:
    """Return complete rankings with probability proportional to exp(θ · d), d the Kendall distance to the centre.

    Sampling is exact: step j = 1, ..., n draws V_j from {0, ..., n − j} with weights exp(θ v) and takes the item that
    has V_j items before it among those that remain of the centre.

    Parameters
    ----------
    n_items : int
        n.
    theta : float, sequence of float, or mapping from expert to float
        θ <= 0. With 0 all rankings are equally likely; the more negative θ is, the closer they are to the centre. One
        number holds for all experts.
    n_experts : int, optional
        How many experts; 10 when `theta` is one number, else as many as `theta` has.
    n_instances : int
        How many instances; "q1", "q2", ...
    center : {"random", "identity"}
        A random order for every instance, or the order of the item numbers.
    random_state : int
        The seed.

    Examples
    --------
    >>> sample = mallows(5, theta=[-8.0, 0.0], n_instances=2)
    >>> sample.preferences
    Preferences: 2 instances, 2 experts, 10 items, 20 ranks in 4 lists
    >>> sample.theta
    {'e1': -8.0, 'e2': 0.0}
    """
    owner = "mallows"
    n = _whole(n_items, "n_items", owner)
    seed = _whole(random_state, "random_state", owner, 0)
    if isinstance(theta, Real):
        theta = [float(theta)] * _whole(10 if n_experts is None else n_experts, "n_experts", owner)
    names, dispersion = _named(theta, "e", "theta", owner)
    if (dispersion > 0).any():
        raise ParameterError.invalid("theta", owner, "<= 0 (0 = uniform, more negative = closer)", theta)
    if n_experts not in (None, len(names)):
        raise ParameterError.invalid("n_experts", owner, f"the number of thetas, {len(names)}", n_experts)
    if center not in ("random", "identity"):
        raise ParameterError.invalid("center", owner, "'random' or 'identity'", center)
    out, scores = _ListBuilder(), []
    for q in _names("q", _whole(n_instances, "n_instances", owner, 0)):
        rng = instance_stream(seed, q)
        centre = rng.permutation(n) if center == "random" else np.arange(n)
        out.add_instance(q, _names("i", n))
        scores.append(-1.0 - np.argsort(centre))
        for k, t in enumerate(dispersion.tolist()):
            out.add_list(k, centre[sample_order(n, t, rng)], np.arange(1, n + 1))
    preferences = out.build(names, "rank")
    truth = Consensus.from_codes(preferences.slots, np.concatenate([*scores, np.zeros(0)]))
    return MallowsSample(preferences, truth, dict(zip(names, dispersion.tolist(), strict=True)))


def _item_scores(scores: Any, owner: str, rng: np.random.Generator) -> tuple[list[str], Floats]:
    """Return item names and scores from a number of items, a sequence or a mapping."""
    if isinstance(scores, Integral):
        scores = rng.standard_normal(_whole(scores, "scores", owner, 2))
        scores -= scores.mean()
    return _named(scores, "i", "scores", owner)


class PlackettLuceSample(NamedTuple):
    """Rankings drawn item by item: `scores` holds the log-worth of every item."""

    preferences: Preferences
    scores: dict[str, float]


def plackett_luce(
    scores: int | Sequence[float] | Mapping[str, float],
    n_rankings: int = 100,
    length: int | None = None,
    *,
    choice: int | None = None,
    random_state: int = 0,
) -> PlackettLuceSample:
    """Return rankings from Plackett-Luce: the next item is i with probability exp(s_i) / Σ exp(s_j) over those left.

    Parameters
    ----------
    scores : int, sequence of float, or mapping from item to float
        s; a whole number draws that many from N(0, 1) and centres them.
    n_rankings : int
        How many rankings, each by an expert of its own ("r1", "r2", ...), all in the instance "q".
    length : int, optional
        Keep only the `length` best of each ranking; all by default. If each ranking chooses from all items, the items
        cut off are declared below.
    choice : int, optional
        Number of items that each ranking chooses from, drawn at random; all items by default.
    random_state : int
        The seed.

    Notes
    -----
    Scores with independent Gumbel noise, sorted, have this distribution. Cost O(n log n) for a ranking of n items.

    Examples
    --------
    >>> sample = plackett_luce({"a": 3.0, "b": 0.0, "c": 0.0}, 50, length=2)
    >>> sample.preferences
    Preferences: 1 instance, 50 experts, 3 items, 100 ranks in 50 lists
    """
    owner = "plackett_luce"
    rng = instance_stream(_whole(random_state, "random_state", owner, 0), "q")
    items, worth = _item_scores(scores, owner, rng)
    n = _whole(n_rankings, "n_rankings", owner, 0)
    m = len(items)
    n_choices = m if choice is None else _whole(choice, "choice", owner)
    if n_choices > m:
        raise ParameterError.invalid("choice", owner, f"at most the number of items, {m}", choice)
    top = n_choices if length is None else _whole(length, "length", owner)
    if top > n_choices:
        raise ParameterError.invalid(
            "length", owner, f"at most the number of items to choose from, {n_choices}", length
        )
    block = max(1, 4_000_000 // m)
    parts: list[Ints] = [np.zeros((0, top), dtype=np.int64)]
    for start in range(0, n, block):
        size = min(block, n - start)
        offered = np.tile(np.arange(m), (size, 1))
        if n_choices < m:
            offered = np.argpartition(rng.random((size, m)), n_choices - 1, axis=1)[:, :n_choices]
        noisy = worth[offered] + rng.gumbel(size=offered.shape)
        parts.append(np.take_along_axis(offered, np.argsort(-noisy, axis=1)[:, :top], axis=1))
    slot = np.concatenate(parts)
    preferences = Preferences.from_codes(
        Slots(Texts(["q"]), Texts(items), np.array([0, m], dtype=np.int64)),
        Texts(_names("r", n)),
        np.arange(n, dtype=np.int32),
        np.arange(n + 1, dtype=np.int64) * top,
        np.array([0, n], dtype=np.int64),
        slot.ravel().astype(np.int32),
        np.tile(np.arange(1, top + 1, dtype=np.float64), n),
        kind="rank",
        below=top < n_choices == m,
    )
    return PlackettLuceSample(preferences, dict(zip(items, worth.tolist(), strict=True)))


class BradleyTerrySample(NamedTuple):
    """Votes on pairs, and the parameters that they were drawn with.

    `scores` holds the log-worth of every item, `ties` Davidson's ν, `reliability` 1 for an expert who follows the model
    and 0 for one who flips a coin.
    """

    comparisons: Comparisons
    scores: dict[str, float]
    ties: float
    reliability: dict[str, float]


def bradley_terry(
    scores: int | Sequence[float] | Mapping[str, float],
    n: int = 1000,
    *,
    ties: float = 0.0,
    n_experts: int | None = None,
    unreliable: float = 0.0,
    random_state: int = 0,
) -> BradleyTerrySample:
    """Return n votes on random pairs from the Bradley-Terry model with Davidson's ties.

    With s = s_left − s_right, left wins : right wins : a tie = exp(s/2) : exp(−s/2) : ν. Pairs and sides are uniform.
    An unreliable expert lets either side win with probability 1/2 and never ties.

    Parameters
    ----------
    scores : int, sequence of float, or mapping from item to float
        s; a whole number draws that many from N(0, 1) and centres them.
    n : int
        How many votes, one row each, all in the instance "q".
    ties : float
        ν >= 0; two equal items tie with probability ν / (2 + ν).
    n_experts : int, optional
        Number of experts ("e1", "e2", ...), each vote by a random one; by default votes have no expert.
    unreliable : float
        The share of the experts (rounded) who flip a coin.
    random_state : int
        The seed.

    Examples
    --------
    >>> sample = bradley_terry(5, 100, ties=0.5, n_experts=4, unreliable=0.25)
    >>> sample.comparisons.n_rows, sorted(sample.reliability.values())
    (100, [0.0, 1.0, 1.0, 1.0])
    """
    owner = "bradley_terry"
    rng = instance_stream(_whole(random_state, "random_state", owner, 0), "q")
    items, worth = _item_scores(scores, owner, rng)
    votes = _whole(n, "n", owner, 0)
    m = len(items)
    if m < 2:
        raise ParameterError.invalid("scores", owner, "two items or more", scores)
    tie = _nonnegative(ties, "ties", owner)
    share = _share(unreliable, "unreliable", owner)
    experts: list[str] = [] if n_experts is None else _names("e", _whole(n_experts, "n_experts", owner))
    if share and not experts:
        raise ParameterError.invalid("unreliable", owner, "0 when n_experts is not given", unreliable)
    reliable = np.ones(max(len(experts), 1), dtype=np.bool_)
    reliable[rng.permutation(len(reliable))[: round(share * len(experts))]] = False
    left = rng.integers(0, m, votes)
    right = (left + rng.integers(1, m, votes)) % m
    judge = rng.integers(0, len(reliable), votes)
    left_won, right_won = _outcomes(rng, worth[left] - worth[right], tie)
    coin = rng.random(votes) < 0.5
    by_model = reliable[judge]
    n_left = np.where(by_model, left_won, coin)
    n_right = np.where(by_model, right_won, ~coin)
    comparisons = _sided_votes(items, experts, judge, left, right, n_left, n_right)
    reliability = dict(zip(experts, reliable.astype(np.float64).tolist(), strict=False))
    return BradleyTerrySample(comparisons, dict(zip(items, worth.tolist(), strict=True)), float(ties), reliability)


def _sided_votes(
    items: list[str],
    experts: list[str],
    judge: Ints,
    left: Ints,
    right: Ints,
    left_won: Bools,
    right_won: Bools,
    columns: VoteColumns = NO_COLUMNS,
) -> Comparisons:
    """Return one vote per row, in the order shown; a vote that neither side won is a tie."""
    return Comparisons.from_codes(
        Slots(Texts(["q"]), Texts(items), np.array([0, len(items)], dtype=np.int64)),
        Texts(experts),
        judge.astype(np.int32) if experts else None,
        left.astype(np.int32),
        right.astype(np.int32),
        left_won.astype(np.float64),
        right_won.astype(np.float64),
        (~(left_won | right_won)).astype(np.float64),
        sided=True,
        columns=columns,
    )


def _outcomes(rng: np.random.Generator, logit: Floats, ties: float) -> tuple[Bools, Bools]:
    """Return whether left won and whether right won, drawn from Davidson's model."""
    half = logit / 2
    # Divided by the larger exponential, so that distant scores do not overflow.
    win, lose = np.exp(half - np.abs(half)), np.exp(-half - np.abs(half))
    u = rng.random(len(half)) * (win + lose + ties * np.exp(-np.abs(half)))
    return u < win, (u >= win) & (u < win + lose)


class ArenaSample(NamedTuple):
    """Votes of an arena with covariates, a side effect and biased experts, and the parameters they were drawn with.

    `scores` holds the strength of every item at equal covariates, `ties` Davidson's ν, `side` the advantage of the left
    side, `effects` β of every covariate, `families` the family of every item, `favours` the family that an expert
    favours (for those who favour one), `own_effects` what each expert adds to β of every covariate, and `by_category`
    the strength of every item in every category.
    """

    comparisons: Comparisons
    scores: dict[str, float]
    ties: float
    side: float
    effects: dict[str, float]
    families: dict[str, str]
    favours: dict[str, str]
    own_effects: dict[str, dict[str, float]]
    by_category: dict[str, dict[str, float]]


def arena(
    scores: int | Sequence[float] | Mapping[str, float],
    n: int = 1000,
    *,
    covariates: Sequence[float] | Mapping[str, float] = (0.6,),
    style_spread: float = 1.0,
    side: float = 0.0,
    ties: float = 0.5,
    n_experts: int | None = None,
    n_families: int = 1,
    favouring: float = 0.0,
    favour: float = 1.0,
    own_spread: float = 0.0,
    categories: Sequence[float] | Mapping[str, float] = (),
    category_spread: float = 0.0,
    random_state: int = 0,
) -> ArenaSample:
    """Return n votes of an arena that depend on style, on the side, and on experts who favour a family.

    An item has a mean style for each covariate, normal with standard deviation `style_spread`. The style of each of its
    answers is that mean plus N(0, 1). With x the style of the left answer minus that of the right one, the outcome
    follows Bradley-Terry with Davidson's ties at the logit s_left − s_right + side + x (β + β_e) + favour · (left is of
    the family that the expert favours − right is). A fit without covariates mistakes style for strength.

    Parameters
    ----------
    scores : int, sequence of float, or mapping from item to float
        s; a whole number draws that many from N(0, 1) and centres them.
    n : int
        How many votes, one row each, all in the instance "q".
    covariates : sequence of float, or mapping from name to float
        β; a sequence names the covariates "x1", "x2", ...
    style_spread : float
        Standard deviation of the styles of items, for answers with standard deviation 1.
    side : float
        The advantage of the left side.
    ties : float
        ν >= 0.
    n_experts : int, optional
        Number of experts ("e1", "e2", ...), each vote by a random one; by default votes have no expert.
    n_families : int
        Number of families ("f1", "f2", ...); items belong to them in turn.
    favouring : float
        The share of the experts (rounded) who favour a family, each a random one.
    favour : float
        The logit that they add for the favoured family.
    own_spread : float
        Standard deviation of β_e, the deviations of the experts from β.
    categories : sequence of float, or mapping from name to float
        The relative size of each category of votes, which are assigned to them at random; a sequence names them "c1",
        "c2", ... By default votes have no category.
    category_spread : float
        Standard deviation of the change of an item's strength in a category; the mean over items stays the same.
    random_state : int
        The seed.

    Examples
    --------
    >>> sample = arena(6, 500, covariates={"length": 0.6}, n_experts=10, n_families=3, favouring=0.2)
    >>> sample.comparisons
    Comparisons: 1 instance, 10 experts, 6 items, 500 rows with 500 outcomes (92 ties)
      columns: length
    >>> len(sample.favours), sample.families["i4"]
    (2, 'f1')
    """
    owner = "arena"
    rng = instance_stream(_whole(random_state, "random_state", owner, 0), "q")
    items, worth = _item_scores(scores, owner, rng)
    m, votes = len(items), _whole(n, "n", owner, 0)
    if m < 2:
        raise ParameterError.invalid("scores", owner, "two items or more", scores)
    names, beta = _named(covariates, "x", "covariates", owner) if len(covariates) else ([], np.zeros(0))
    spread, beta_spread, tie = (
        _nonnegative(v, name, owner)
        for name, v in (("style_spread", style_spread), ("own_spread", own_spread), ("ties", ties))
    )
    side_effect, favour_logit = (
        float(_numbers([v], name, owner)[0]) for name, v in (("side", side), ("favour", favour))
    )
    share = _share(favouring, "favouring", owner)
    experts: list[str] = [] if n_experts is None else _names("e", _whole(n_experts, "n_experts", owner))
    if (share or beta_spread) and not experts:
        raise ParameterError.invalid("n_experts", owner, "given where experts have habits", n_experts)
    n_groups = _whole(n_families, "n_families", owner)
    groups = _names("f", n_groups)
    style = spread * rng.standard_normal((m, len(names)))
    own_beta = beta_spread * rng.standard_normal((max(len(experts), 1), len(names)))
    favourite = np.full(max(len(experts), 1), -1)
    chosen = rng.permutation(len(favourite))[: round(share * len(experts))]
    favourite[chosen] = rng.integers(0, n_groups, len(chosen))
    left = rng.integers(0, m, votes)
    right = (left + rng.integers(1, m, votes)) % m
    judge = rng.integers(0, len(favourite), votes)
    noise = rng.standard_normal((votes, len(names))) - rng.standard_normal((votes, len(names)))
    x = style[left] - style[right] + noise
    family = np.arange(m) % n_groups
    leaning = (family[left] == favourite[judge]) * 1.0 - (family[right] == favourite[judge])
    category_names, category, worths = _categories(categories, category_spread, worth, votes, owner, random_state)
    logit = worths[category, left] - worths[category, right] + side_effect
    logit = logit + (x * (beta + own_beta[judge])).sum(axis=1) + favour_logit * leaning
    n_left, n_right = _outcomes(rng, logit, tie)
    comparisons = _sided_votes(
        items,
        experts,
        judge,
        left,
        right,
        n_left,
        n_right,
        columns=VoteColumns(
            category=category if category_names else None,
            categories=Texts(category_names),
            covariates=x if names else None,
            covariate_names=Texts(names),
        ),
    )
    return ArenaSample(
        comparisons,
        dict(zip(items, worth.tolist(), strict=True)),
        tie,
        side_effect,
        dict(zip(names, beta.tolist(), strict=True)),
        {item: groups[g] for item, g in zip(items, family.tolist(), strict=True)},
        {experts[e]: groups[favourite[e]] for e in sorted(chosen.tolist())},
        {e: dict(zip(names, row, strict=True)) for e, row in zip(experts, own_beta.tolist(), strict=False)},
        {c: dict(zip(items, row, strict=True)) for c, row in zip(category_names, worths.tolist(), strict=False)},
    )


def _categories(
    categories: Any, spread: Any, worth: Floats, votes: int, owner: str, random_state: int
) -> tuple[list[str], Codes, Floats]:
    """Return the names of the categories, that of every vote, and the scores of the items in each."""
    deviation_spread = _nonnegative(spread, "category_spread", owner)
    if not len(categories):
        if deviation_spread:
            raise ParameterError.invalid("categories", owner, "given where they differ", categories)
        return [], np.zeros(votes, dtype=np.int32), worth[None, :]
    names, sizes = _named(categories, "c", "categories", owner)
    if (sizes < 0).any() or not sizes.any():
        raise ParameterError.invalid("categories", owner, "numbers >= 0, one of them above 0", categories)
    rng = instance_stream(random_state, "categories")
    deviation = deviation_spread * rng.standard_normal((len(names), len(worth)))
    worths = worth + deviation - deviation.mean(axis=1, keepdims=True)
    category = rng.choice(len(names), votes, p=sizes / sizes.sum()).astype(np.int32)
    return names, category, worths


class RunsSample(NamedTuple):
    """Scored lists of search systems, the labels of judged documents, and the skill of each system."""

    preferences: Preferences
    labels: Labels
    skill: dict[str, float]


def runs(
    n_instances: int = 50,
    *,
    skill: int | Sequence[float] | Mapping[str, float] = 10,
    top: int | Sequence[int] = 100,
    pool: int = 300,
    relevant: float = 0.01,
    decimals: int = 4,
    random_state: int = 0,
) -> RunsSample:
    """Return the result lists of search systems of known skill, each with its own scale of scores, and graded labels.

    A document of a query's pool has a quality z ~ N(0, 1). A system scores it as (skill · z + N(0, 1)) · scale + shift,
    rounded, and lists the best; documents that it leaves out are declared below. The best of the pool (a share
    `relevant`, at least 3) are relevant: half of them have grade 1, a third grade 2 and a sixth grade 3, rounded in
    favour of the lower grades. Twice as many of the next best have grade 0; the others have no label. A judged document
    that no system lists is only in the labels.

    Parameters
    ----------
    n_instances : int
        How many queries; "q1", "q2", ...
    skill : int, sequence of float, or mapping from system to float
        0 ranks at random, a negative skill ranks the worst first. A whole number makes that many systems with skills
        from 0.4 to 1.3.
    top : int or sequence of int
        The length of the lists, one for all or one for each system.
    pool : int
        How many documents a query has, 9 or more.
    relevant : float
        The share of the pool that is relevant, at most a third.
    decimals : int
        Decimals of the scores; few decimals make ties.
    random_state : int
        The seed.

    Examples
    --------
    >>> sample = runs(2, skill={"good": 2.0, "bad": 0.0}, top=20, pool=50)
    >>> sample.preferences.n_rows, sample.preferences.kind
    (80, 'score')
    """
    owner = "runs"
    n_instances = _whole(n_instances, "n_instances", owner, 0)
    seed = _whole(random_state, "random_state", owner, 0)
    size = _whole(pool, "pool", owner, 9)
    if isinstance(skill, Integral):
        skill = np.linspace(0.4, 1.3, _whole(skill, "skill", owner)).tolist()
    systems, ability = _named(skill, "sys", "skill", owner)
    lengths = [_whole(k, "top", owner) for k in (top if isinstance(top, Sequence) else [top] * len(systems))]
    if len(lengths) != len(systems) or max(lengths) > size:
        raise ParameterError.invalid("top", owner, f"one length, or one per system, at most pool = {size}", top)
    scales = [instance_stream(seed, f"system {s}") for s in systems]
    scale = [float(g.uniform(0.5, 30)) for g in scales]
    shift = [float(g.uniform(-5, 20)) for g in scales]
    n_good = max(3, int(_share(relevant, "relevant", owner) * size))
    if 3 * n_good > size:
        raise ParameterError.invalid("relevant", owner, "at most a third of the pool", relevant)
    grade = np.array([3.0 if j < n_good // 6 else 2.0 if j < n_good // 2 else 1.0 for j in range(n_good)])
    grade = np.append(grade, np.zeros(2 * n_good))
    out, judged = _ListBuilder(), _ListBuilder()
    for q in _names("q", n_instances):
        rng = instance_stream(seed, q)
        base = int(rng.integers(0, 5_000_000))
        z = rng.standard_normal(size)
        found, values = [], []
        for k, a in enumerate(ability.tolist()):
            score = np.round((a * z + rng.standard_normal(size)) * scale[k] + shift[k], decimals)
            best = np.argsort(-score, kind="stable")[: lengths[k]]
            found.append(best)
            values.append(score[best])
        documents, first, code = np.unique(np.concatenate(found), return_index=True, return_inverse=True)
        by_first = np.argsort(first)
        place = np.empty(len(documents), dtype=np.int64)
        place[by_first] = np.arange(len(documents))
        out.add_instance(q, [f"D{base + d:07d}" for d in documents[by_first].tolist()])
        slot = np.split(place[code], np.cumsum(lengths)[:-1])
        for k, value in enumerate(values):
            out.add_list(k, slot[k], value)
        best = np.argsort(-z)[: 3 * n_good]
        judged.add_instance(q, [f"D{base + d:07d}" for d in best.tolist()])
    labels = Labels.from_codes(judged.all_slots(), np.tile(grade, n_instances))
    return RunsSample(
        out.build(systems, "score", below=True), labels, dict(zip(systems, ability.tolist(), strict=True))
    )

"""Imputation of missing ratings: probabilistic matrix factorisation, user neighbours, or a constant.

Evaluating a ranking of all films for a user needs ratings of all films. Each function takes ratings and returns a
complete table, one row for each user and one column for each film. Observed ratings stay.
"""

from __future__ import annotations

import numpy as np

import concordant as cc
from concordant.errors import DataError, KindError, ParameterError
from concordant_papers._arrays import Floats

__all__ = ["constant", "fill_in", "neighbours", "pmf", "similarity", "table"]

# Range of the ratings.
LOWEST, HIGHEST = 1.0, 5.0
# Standard deviation of the initial factors.
_START = 0.1
# Smaller correlations, and smaller differences of them, are rounding errors.
_NOTHING = 1e-12


def table(preferences: cc.Preferences) -> Floats:
    """Return the ratings as a table of users and films, NaN where there is none.

    Parameters
    ----------
    preferences : Preferences
        Ratings of one instance; rows follow `experts`, columns `items`.

    Examples
    --------
    >>> table(cc.Preferences(["all"] * 3, list("xxy"), list("aba"), [5, 3, 4], kind="rating")).tolist()
    [[5.0, 3.0], [4.0, nan]]
    """
    if preferences.kind != "rating":
        raise KindError(f"only ratings can be completed, not values of kind {preferences.kind!r}.")
    if len(preferences) != 1:
        raise DataError(f"ratings of one instance can be completed; there are {len(preferences)} instances.")
    out = np.full((preferences.n_experts, preferences.n_slots), np.nan)
    out[preferences.row_expert, preferences.slot] = preferences.value
    return out


def constant(preferences: cc.Preferences, value: float) -> Floats:
    """Return the ratings with all missing ones replaced by a constant, which may lie outside the range.

    Examples
    --------
    >>> constant(cc.Preferences(["all"] * 3, list("xxy"), list("aba"), [5, 3, 4], kind="rating"), 0.5).tolist()
    [[5.0, 3.0], [4.0, 0.5]]
    """
    known = table(preferences)
    return np.where(np.isnan(known), float(value), known)


def pmf(
    preferences: cc.Preferences,
    *,
    factors: int = 30,
    l2: float = 0.05,
    learning_rate: float = 0.005,
    momentum: float = 0.8,
    passes: int = 50,
    batch: int = 1000,
    random_state: int = 0,
) -> Floats:
    """Return the ratings completed by probabilistic matrix factorisation, between 1 and 5.

    r̂ = μ + u · v, μ the mean rating; u and v descend the squared error with the penalty l2 (‖u‖² + ‖v‖²) for each
    rating, in shuffled batches, with momentum.

    Parameters
    ----------
    preferences : Preferences
        Ratings of one instance.
    factors : int
        The length of u and v.
    l2, learning_rate, momentum, passes, batch
        Of the descent. In a batch gradients are added up, so that its size matters little.
    random_state : int
        The seed of the start and of the batches.

    Notes
    -----
    Cost O(passes · ratings · factors). The penalty works through every rating, so that those who rate much are not
    left without any.

    References
    ----------
    Salakhutdinov and Mnih, Probabilistic matrix factorization, NIPS 2007.

    Examples
    --------
    >>> users, films = ["u", "u", "v", "v", "w"], ["a", "b", "a", "b", "a"]
    >>> votes = cc.Preferences(["all"] * 5, users, films, [5, 1, 5, 1, 5], kind="rating")
    >>> completed = pmf(votes, factors=2, passes=500, batch=5, learning_rate=0.02)
    >>> bool(completed[2, 1] < 2)
    True
    """
    if not (factors >= 1 and passes >= 0 and batch >= 1):
        raise ParameterError("factors and batch must be at least 1, passes at least 0.")
    known = table(preferences)
    user, film = np.nonzero(~np.isnan(known))
    if len(user) == 0:
        raise DataError("there is no rating to learn from.")
    rating = known[user, film]
    mean = float(rating.mean())
    rng = np.random.default_rng(random_state)
    u, v = (rng.normal(0.0, _START, (n, factors)) for n in known.shape)
    du, dv = np.zeros_like(u), np.zeros_like(v)
    for _ in range(passes):
        order = rng.permutation(len(rating))
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            i, j = user[rows], film[rows]
            ui, vj = u[i], v[j]
            error = np.einsum("nd,nd->n", ui, vj)[:, None] - (rating[rows] - mean)[:, None]
            du *= momentum
            dv *= momentum
            np.add.at(du, i, -learning_rate * (error * vj + l2 * ui))
            np.add.at(dv, j, -learning_rate * (error * ui + l2 * vj))
            u += du
            v += dv
    return np.where(np.isnan(known), np.clip(mean + u @ v.T, LOWEST, HIGHEST), known)


def similarity(preferences: cc.Preferences, *, least: int = 2) -> tuple[Floats, Floats]:
    """Return Pearson's correlation of every two users over the films both rated, and how many those are.

    Means are over these films. Users with fewer than `least` of them in common, or one of whom rates them all alike,
    have correlation 0, as everybody has with themselves.

    Notes
    -----
    Four matrix products, O(users² · films).

    Examples
    --------
    >>> users, films = ["u"] * 3 + ["v"] * 3, list("abcabc")
    >>> votes = cc.Preferences(["all"] * 6, users, films, [5, 3, 1, 4, 3, 2], kind="rating")
    >>> [found[0, 1].item() for found in similarity(votes)]
    [1.0, 3.0]
    """
    known = table(preferences)
    rated = (~np.isnan(known)).astype(np.float64)
    # Centre the ratings of each user, so that sums of squares lose no digits.
    x = np.where(rated > 0, known - _user_means(known)[:, None], 0.0)
    common = rated @ rated.T
    n = np.maximum(common, 1.0)
    total = x @ rated.T
    covariance = x @ x.T - total * total.T / n
    variance = np.maximum((x * x) @ rated.T - total * total / n, 0.0)
    scale = np.sqrt(variance * variance.T)
    sure = (common >= least) & (np.minimum(variance, variance.T) > 1e-9)
    np.fill_diagonal(sure, False)
    out = np.zeros_like(scale)
    np.divide(covariance, scale, out=out, where=sure)
    # Set rounding errors to 0: otherwise a tiny correlation would count in full as a film's only neighbour.
    out[np.abs(out) < _NOTHING] = 0.0
    return np.clip(out, -1.0, 1.0), common


def neighbours(
    preferences: cc.Preferences,
    *,
    nearest: int | None = 50,
    among: str = "raters",
    significance: int | None = 50,
    least: int = 2,
    measure: str = "pearson",
    centred: bool = True,
    fewest: int = 1,
) -> Floats:
    """Return the ratings completed from users who rate alike, between 1 and 5.

    r̂_ui = mean_u + Σ_v w_uv (r_vi − mean_v) / Σ_v w_uv, over the users v who rated film i and agree with u (positive
    similarity w). A user without any such neighbour is expected to give their own mean.

    Parameters
    ----------
    preferences : Preferences
        Ratings of one instance.
    nearest : int or None
        How many neighbours count, the most similar ones; None for all. Those who are as similar as the last one count
        too.
    among : {"raters", "all"}
        Whether the nearest are looked for anew for every film, among those who rated it, or once and for all: then
        films that none of them rated get the user's mean.
    significance : int or None
        Correlations over fewer common films than this are multiplied by their share of it; None leaves them alone.
    least : int
        The fewest films two users must have in common.
    measure : {"pearson", "cosine"}
        The similarity: Pearson's correlation over common films, or the cosine of the ratings of all films, a missing
        one being 0.
    centred : bool
        Whether the distances of ratings to the users' means are averaged, or the ratings themselves.
    fewest : int
        A film that fewer neighbours rated gets the mean of all ratings.

    Notes
    -----
    Cost O(users² · films) for the similarities, and O(users · ratings) for the films.

    References
    ----------
    Herlocker, Konstan, Borchers and Riedl, An algorithmic framework for performing collaborative filtering, SIGIR 1999.

    Examples
    --------
    Both agree; the second likes the third film two points more than films on average, and so will the first.

    >>> users, films = ["u"] * 2 + ["v"] * 3, list("ababc")
    >>> votes = cc.Preferences(["all"] * 5, users, films, [4, 2, 3, 1, 5], kind="rating")
    >>> neighbours(votes).tolist()
    [[4.0, 2.0, 5.0], [3.0, 1.0, 5.0]]
    """
    if among not in ("raters", "all"):
        raise ParameterError.invalid("among", "neighbours", "'raters' or 'all'", among)
    if measure not in ("pearson", "cosine"):
        raise ParameterError.invalid("measure", "neighbours", "'pearson' or 'cosine'", measure)
    known = table(preferences)
    weight, common = similarity(preferences, least=least)
    if measure == "cosine":
        weight = np.where(common >= least, _cosine(np.nan_to_num(known)), 0.0)
    weight = np.maximum(weight, 0.0)
    if significance is not None:
        weight *= np.minimum(common / significance, 1.0)
    mean = _user_means(known)
    there = ~np.isnan(known)
    off = np.where(there, known - mean[:, None] if centred else known, 0.0)
    if nearest is None or among == "all":
        weight = weight if nearest is None else _nearest(weight, nearest)
        move, norm, number = weight @ off, weight @ there, (weight > 0).astype(np.float64) @ there
    else:
        move, norm, number = np.zeros_like(off), np.zeros_like(off), np.zeros_like(off)
        for film in range(known.shape[1]):
            raters = np.flatnonzero(there[:, film])
            w = _nearest(weight[:, raters], nearest)
            move[:, film], norm[:, film], number[:, film] = w @ off[raters, film], w.sum(axis=1), (w > 0).sum(axis=1)
    own, base = np.broadcast_to(mean[:, None], known.shape), mean[:, None] if centred else 0.0
    guess = np.where(norm > 0, base + np.divide(move, norm, out=np.zeros_like(move), where=norm > 0), own)
    if fewest > 1 and there.any():
        guess = np.where(number < fewest, float(known[there].mean()), guess)
    return np.where(there, known, np.clip(guess, LOWEST, HIGHEST))


def fill_in(preferences: cc.Preferences, completed: Floats) -> cc.Preferences:
    """Return the completed ratings as preferences: every user rates every film.

    Examples
    --------
    >>> few = cc.Preferences(["all"] * 3, list("xxy"), list("aba"), [5, 3, 4], kind="rating")
    >>> fill_in(few, constant(few, 1.0))
    Preferences: 1 instance, 2 experts, 2 items, 4 ratings in 2 lists
    """
    n, m = preferences.n_experts, preferences.n_slots
    if completed.shape != (n, m):
        raise DataError(f"completed ratings of {n} users and {m} films are needed. Got the shape {completed.shape}.")
    return cc.Preferences.from_codes(
        preferences.slots,
        preferences.experts,
        np.arange(n, dtype=np.int32),
        np.arange(n + 1, dtype=np.int64) * m,
        np.array([0, n], dtype=np.int64),
        np.tile(np.arange(m, dtype=np.int32), n),
        np.ascontiguousarray(completed, dtype=np.float64).reshape(-1).copy(),
        kind="rating",
    )


def _cosine(rows: Floats) -> Floats:
    """Return the cosine of the angle between every two rows; 0 for a row with itself, and for rows of zeros."""
    norm = np.linalg.norm(rows, axis=1)
    norm[norm == 0] = 1.0
    out: Floats = rows @ rows.T / np.outer(norm, norm)
    np.fill_diagonal(out, 0.0)
    return out


def _nearest(weight: Floats, nearest: int) -> Floats:
    """Return the weights with all but the largest of each row set to 0."""
    n = weight.shape[1]
    if n <= nearest:
        return weight
    last = np.partition(weight, n - nearest, axis=1)[:, n - nearest]
    return np.where(weight >= last[:, None] - _NOTHING, weight, 0.0)


def _user_means(known: Floats) -> Floats:
    """Return the mean rating of every user; users without ratings get the overall mean."""
    there = ~np.isnan(known)
    number = there.sum(axis=1)
    overall = float(known[there].mean()) if there.any() else (LOWEST + HIGHEST) / 2
    total = np.where(there, known, 0.0).sum(axis=1)
    return np.where(number > 0, total / np.maximum(number, 1), overall)

"""Fits the pairwise workloads through the peers, in their own environment: one JSON request a line, one answer a line.

The process stays alive between requests, so that runs of several tools can take turns while each keeps warm. Every
task starts from the integer arrays of the workload; what a peer wants in another shape (lists, an index) is made before
the clock starts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from functools import cache, partial

import numpy as np

warnings.filterwarnings("ignore")


@cache
def load(file):
    """Return the arrays of a workload."""
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def timed(job):
    """Return what the job gives and how long it took."""
    started = time.perf_counter()
    out = job()
    return out, time.perf_counter() - started


@cache
def evalica_input(file, indexed):
    """Return left, right, winners as evalica codes them, and the index that spares it the search for the items."""
    import pandas as pd

    data = load(file)
    winners = np.where(data["y"] == 1, 1, np.where(data["y"] == 0, 2, 0)).astype(np.uint8)
    return data["i"], data["j"], winners, pd.RangeIndex(len(data["theta"])) if indexed else None


def by_item(series):
    """Return the logarithms of evalica's scores in the order of the items, mean 0."""
    scores = np.log(series.sort_index().to_numpy())
    return scores - scores.mean()


def evalica_bradley_terry(file, tolerance, indexed=True):
    """Bradley-Terry by evalica; a tie counts as half a win."""
    import evalica

    left, right, winners, index = evalica_input(file, indexed)
    fit, seconds = timed(
        lambda: evalica.bradley_terry(left, right, winners, index=index, tolerance=tolerance, limit=1000)
    )
    return {"seconds": seconds, "scores": by_item(fit.scores).tolist(), "iterations": fit.iterations}


def evalica_newman(file, tolerance, indexed=True):
    """Davidson's model of ties by evalica's newman; its v is half of Davidson's nu."""
    import evalica

    left, right, winners, index = evalica_input(file, indexed)
    fit, seconds = timed(lambda: evalica.newman(left, right, winners, index=index, tolerance=tolerance, limit=1000))
    return {
        "seconds": seconds,
        "scores": by_item(fit.scores).tolist(),
        "tie": 2 * float(fit.v),
        "iterations": fit.iterations,
    }


def evalica_intervals(file, model, resamples):
    """Percentile bootstrap by evalica (its default, BCa, leaves out every row once and is not waited for)."""
    import evalica

    left, right, winners, index = evalica_input(file, True)
    fit, seconds = timed(
        lambda: evalica.bootstrap(
            getattr(evalica, model),
            left,
            right,
            winners,
            index=index,
            tie_weight=1.0 if model == "newman" else 0.5,
            n_resamples=resamples,
            bootstrap_method="percentile",
            random_state=0,
        )
    )
    draws = np.log(fit.distribution.sort_index(axis=1).to_numpy())
    out = {"seconds": seconds, **bounds(draws), "scores": by_item(fit.result.scores).tolist()}
    return out | ({"tie": 2 * float(fit.result.v)} if model == "newman" else {})


def bounds(draws):
    """Return the 95 % percentile bounds of the scores minus their mean."""
    low, high = np.quantile(draws - draws.mean(axis=1, keepdims=True), [0.025, 0.975], axis=0)
    return {"lower": low.tolist(), "upper": high.tolist()}


def collapsed(data):
    """Return the pairs that met, the outcome for the left (1, 0 or 1/2) and how often it happened."""
    rows, counts = np.unique(np.stack([data["i"], data["j"], data["y"]]), axis=1, return_counts=True)
    return rows[0], rows[1], np.array([0.0, 1.0, 0.5])[rows[2]], counts


def half_win_fit(weight, left, right, outcome, n):
    """Return the Bradley-Terry scores of weighted outcomes by L-BFGS."""
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(s):
        d = s[left] - s[right]
        miss = weight * (expit(d) - outcome)
        # A sum, not a product: BLAS would start threads in every process of the pool.
        value = (weight * (np.logaddexp(0.0, d) - outcome * d)).sum()
        return value, np.bincount(left, miss, n) - np.bincount(right, miss, n)

    return minimize(loss, np.zeros(n), jac=True, method="L-BFGS-B", options={"maxiter": 100, "gtol": 1e-6}).x


def half_win_bootstrap(file, resamples, processes):
    """Bootstrap of a half-win Bradley-Terry fit, as FastChat's ratings describe theirs.

    Outcomes are collapsed with their counts, resamples are multinomial draws of the counts, each is fitted by L-BFGS
    from zero, and a pool of processes shares them.
    """
    import multiprocessing

    data = load(file)
    n = len(data["theta"])

    def job():
        left, right, outcome, counts = collapsed(data)
        total = int(counts.sum())
        draws = np.random.default_rng(0).multinomial(total, counts / total, size=resamples) / total
        fit = partial(half_win_fit, left=left, right=right, outcome=outcome, n=n)
        with multiprocessing.Pool(processes) as pool:
            return fit(counts / total), np.array(pool.map(fit, draws))

    (scores, draws), seconds = timed(job)
    return {"seconds": seconds, **bounds(draws), "scores": (scores - scores.mean()).tolist()}


def logistic_bootstrap(file, resamples):
    """Bootstrap of scikit-learn's logistic regression on +1/-1 columns, outcomes collapsed, a tie half a win each."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    data = load(file)
    n = len(data["theta"])

    def job():
        left, right, outcome, counts = collapsed(data)
        total, rows = int(counts.sum()), np.arange(len(left))
        x = sparse.csr_array((np.ones(len(left)), (rows, left)), (len(left), n))
        x = sparse.vstack([x - sparse.csr_array((np.ones(len(left)), (rows, right)), (len(left), n))] * 2).tocsr()
        y = np.repeat([1, 0], len(left))
        share = np.concatenate([outcome, 1 - outcome])

        def fit(weight):
            w = np.tile(weight, 2) * share
            used = w > 0
            model = LogisticRegression(fit_intercept=False, C=np.inf, tol=1e-6, max_iter=1000)
            return model.fit(x[used], y[used], sample_weight=w[used]).coef_[0]

        draws = np.random.default_rng(0).multinomial(total, counts / total, size=resamples)
        return fit(counts.astype(float)), np.array([fit(w.astype(float)) for w in draws])

    (scores, draws), seconds = timed(job)
    return {"seconds": seconds, **bounds(draws), "scores": (scores - scores.mean()).tolist()}


def arena_rank(file):
    """Sandwich intervals by arena-rank; a tie counts as half a win."""
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    data = load(file)
    n = len(data["theta"])

    def job():
        names = np.array(["model_b", "model_a", "tie"])[data["y"]]
        frame = pd.DataFrame({"model_a": data["i"], "model_b": data["j"], "winner": names})
        found = BradleyTerry(n).compute_ratings_and_cis(PairDataset.from_pandas(frame))
        return {k: np.asarray(found[k]) for k in ("ratings", "rating_lower", "rating_upper")} | {
            "order": np.asarray(found["competitors"])
        }

    out, seconds = timed(job)
    order = np.argsort(out["order"])
    natural = {k: (out[k][order] - 1000.0) * np.log(10) / 400 for k in ("ratings", "rating_lower", "rating_upper")}
    middle = natural["ratings"].mean()
    return {
        "seconds": seconds,
        "scores": (natural["ratings"] - middle).tolist(),
        "lower": (natural["rating_lower"] - middle).tolist(),
        "upper": (natural["rating_upper"] - middle).tolist(),
    }


@cache
def ranked_lists(file):
    """Return the rankings as the lists of tuples choix is quickest with."""
    return [tuple(row) for row in load(file)["R"].tolist()]


def choix_ilsr(file, tolerance):
    """Plackett-Luce by choix's ilsr_rankings."""
    import choix

    n, lists = len(load(file)["theta"]), ranked_lists(file)
    scores, seconds = timed(lambda: choix.ilsr_rankings(n, lists, tol=tolerance))
    return {"seconds": seconds, "scores": (scores - scores.mean()).tolist()}


def numpy_plackett_luce(file, tolerance):
    """Plackett-Luce as one writes it by hand: vectorised NumPy and SciPy's L-BFGS; only for lists of one length."""
    from scipy.optimize import minimize

    data = load(file)
    n, lists = len(data["theta"]), data["R"]
    flat, stages = lists.ravel(), lists.shape[1] - 1

    def loss(s):
        e = np.exp(s)[lists]
        rest = np.cumsum(e[:, ::-1], axis=1)[:, ::-1]
        spent = np.cumsum(1 / rest[:, :stages], axis=1)
        spent = np.concatenate([spent, spent[:, -1:]], axis=1) * e
        spent[:, :stages] -= 1
        value = np.log(rest[:, :stages]).sum() - s[lists[:, :stages]].sum()
        return value / len(lists), np.bincount(flat, spent.ravel(), n) / len(lists)

    fit, seconds = timed(
        lambda: minimize(loss, np.zeros(n), jac=True, method="L-BFGS-B", options={"gtol": tolerance, "ftol": 0})
    )
    return {"seconds": seconds, "scores": (fit.x - fit.x.mean()).tolist(), "iterations": int(fit.nit)}


def crowdkit_judges(file):
    """Scores and a skill for every judge by crowd-kit's NoisyBradleyTerry; ties, which it cannot take, are dropped."""
    import pandas as pd
    from crowdkit.aggregation import NoisyBradleyTerry

    data = load(file)
    i, j, y, w = (data[k][data["y"] < 2] for k in "ijyw")
    frame = pd.DataFrame({"worker": w, "left": i, "right": j, "label": np.where(y == 1, i, j)})
    model = NoisyBradleyTerry()
    _, seconds = timed(lambda: model.fit(frame))
    n, judges = len(data["theta"]), len(data["bad"])
    return {
        "seconds": seconds,
        "scores": model.scores_.reindex(range(n)).tolist(),
        "trust": model.skills_.reindex(range(judges)).tolist(),
    }


def serve():
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = globals()[request["task"]](**request["options"])
        answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()

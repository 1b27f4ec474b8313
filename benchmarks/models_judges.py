"""Unreliable judges: are they found, is the consensus as good as without them, and is the model the right one."""

from __future__ import annotations

import csv
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from measure import ROOT
from numpy.typing import NDArray
from render import table
from scipy.optimize import minimize
from scipy.special import digamma
from scipy.stats import kendalltau, spearmanr

import concordant as cc
from concordant.aggregators import _expert_reliability
from concordant.data.index import Slots, Texts

Floats = NDArray[np.float64]

SHARED = ROOT.parent / "shared"
SEEDS = range(10)
ITEMS, ROWS, JUDGES, BAD = 100, 20_000, 50, 0.4
# What the bad judges do, and the share of ties among the answers of the good ones.
CASES = {
    "coin (B1w)": ("coin", 0.0),
    "coin, ties (B1wt)": ("coin", 0.10),
    "always left": ("left", 0.0),
    "always left, ties": ("left", 0.10),
    "always tie": ("tie", 0.10),
    "inverted": ("inverted", 0.0),
    "inverted, ties": ("inverted", 0.10),
}
PRIOR = 0.1


class Votes(NamedTuple):
    """Comparisons as flat columns."""

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    expert: NDArray[np.int32]
    n_left: Floats
    n_right: Floats
    n_ties: Floats
    n_items: int
    n_judges: int
    sided: bool = True

    @property
    def ties(self) -> bool:
        return bool(self.n_ties.sum() > 0)

    def take(self, rows: NDArray[np.bool_]) -> Votes:
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[:6]})

    def comparisons(self) -> cc.Comparisons:
        """Return the same as a container, every item and judge known, whoever takes part."""
        slots = Slots(Texts(["q"]), Texts([f"i{i}" for i in range(self.n_items)]), np.array([0, self.n_items]))
        experts = Texts([f"j{k}" for k in range(self.n_judges)])
        return cc.Comparisons.from_codes(
            slots, experts, self.expert, self.left, self.right, *self[3:6], sided=self.sided
        )


@cache
def _generator() -> Any:
    """Return the module of seeded workloads, or None where it is not there."""
    path = SHARED / "workloads" / "pairs.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("workload_pairs", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def _workload(
    kind: str,
    tie_rate: float,
    seed: int,
    n_items: int = ITEMS,
    rows: int = ROWS,
    n_judges: int = JUDGES,
    bad: float = BAD,
) -> tuple[Votes, Floats, NDArray[np.bool_]]:
    """Return comparisons in which bad judges do what `kind` says, the true scores, and who is good."""
    z = _generator().pairs(n_items, rows, seed, tie_rate=tie_rate, n_judges=n_judges, bad_frac=bad)
    y, spoiled = z["y"], z["bad"][z["w"]]
    if kind != "coin":
        # The same draws without judges are what everybody would have said in earnest.
        earnest = _generator().pairs(n_items, rows, seed, tie_rate=tie_rate)["y"]
        wrong = {"left": np.ones_like(y), "tie": np.full_like(y, 2), "inverted": np.where(earnest < 2, 1 - earnest, 2)}
        y = np.where(spoiled, wrong[kind], earnest)
    counts = ((y == c).astype(np.float64) for c in (1, 0, 2))
    return Votes(z["i"], z["j"], z["w"], *counts, n_items, n_judges), z["theta"], ~z["bad"]


def _auc(value: Floats, good: NDArray[np.bool_]) -> float:
    x, y = value[good][:, None], value[~good][None, :]
    return float((x > y).mean() + 0.5 * (x == y).mean())


def _rank_agreement(score: Floats, truth: Floats) -> float:
    return float(spearmanr(score, truth).statistic)


def _trusting(votes: Votes) -> Floats:
    """Return the scores when everybody is believed."""
    return _fitted(cc.BradleyTerry(prior=PRIOR, uncertainty="none"), votes)


def _weighing(votes: Votes) -> tuple[Floats, cc.BradleyTerry]:
    """Return the scores with learned reliabilities, and the method that learned them."""
    method = cc.BradleyTerry(prior=PRIOR, reliability=True, uncertainty="none", max_iter=500)
    return _fitted(method, votes), method


def _fitted(method: cc.BradleyTerry, votes: Votes) -> Floats:
    with warnings.catch_warnings():
        # That some items never lost is known, and what the prior is for.
        warnings.filterwarnings("ignore", message=".*what places them is the prior")
        return method.fit_predict(votes.comparisons()).score


def found() -> dict[str, Any]:
    """40 % bad judges among 50, 10 seeds: how many are found, and scores compared with the good judges alone."""
    if _generator() is None:
        return {"missing": "workloads"}
    out = {}
    for name, (kind, tie_rate) in CASES.items():
        rows = []
        for seed in SEEDS:
            votes, theta, good = _workload(kind, tie_rate, seed)
            start = time.perf_counter()
            score, method = _weighing(votes)
            seconds = time.perf_counter() - start
            rows.append(
                {
                    "auc": _auc(method.adherence_, good),
                    "ours": _rank_agreement(score, theta),
                    "good_alone": _rank_agreement(_trusting(votes.take(good[votes.expert])), theta),
                    "all_believed": _rank_agreement(_trusting(votes), theta),
                    "scale": float(np.polyfit(theta, score, 1)[0]),
                    "reliability_good": float(method.adherence_[good].mean()),
                    "reliability_bad": float(method.adherence_[~good].mean()),
                    "n_iter": method.fit_info_.n_iter,
                    "seconds": seconds,
                }
            )
        out[name] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        out[name]["least_auc"] = min(row["auc"] for row in rows)
        out[name]["largest_gap"] = max(row["good_alone"] - row["ours"] for row in rows)
    return out


def few() -> dict[str, Any]:
    """Few comparisons per judge, or no bad judges: what the reliability model gains and costs."""
    if _generator() is None:
        return {"missing": "workloads"}
    cases = {
        "1,000 judges of 10, 40 % coins": ("coin", 0.1, 50, 10_000, 1000, 0.4),
        "1,000 judges of 10, 40 % inverted": ("inverted", 0.1, 50, 10_000, 1000, 0.4),
        "2,000 judges of 2, 40 % coins": ("coin", 0.1, 50, 4_000, 2000, 0.4),
        "20 judges of 50, 20 % coins": ("coin", 0.1, 20, 1_000, 20, 0.2),
        "1,000 judges of 10, all good": ("coin", 0.1, 50, 10_000, 1000, 0.0),
        "20 judges of 50, all good": ("coin", 0.1, 20, 1_000, 20, 0.0),
    }
    out = {}
    for name, (kind, tie_rate, *sizes) in cases.items():
        rows = []
        for seed in SEEDS:
            votes, theta, good = _workload(kind, tie_rate, seed, *sizes)
            score, method = _weighing(votes)
            rows.append(
                {
                    "ours": _rank_agreement(score, theta),
                    "all_believed": _rank_agreement(_trusting(votes), theta),
                    "good_alone": _rank_agreement(_trusting(votes.take(good[votes.expert])), theta),
                }
                | ({} if good.all() else {"auc": _auc(method.adherence_, good)})
            )
        out[name] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    return out


def _answers(delta: Floats, slope: Floats | float, side: Floats | float, tie: Floats | float, ties: bool) -> Floats:
    """Return the probabilities of left, right and tie, one column per row."""
    z = slope * delta + side
    logits = np.stack([z / 2, -z / 2, np.broadcast_to(tie if ties else -np.inf, z.shape)])
    return np.exp(logits - np.logaddexp.reduce(logits, axis=0))


def _plain_fit(votes: Votes, start: Floats | None = None, max_iter: int = 1000) -> Floats:
    """Return scores and tie parameter of Bradley-Terry or Davidson."""
    count = votes.outcomes
    n = votes.n_items

    def loss(x: Floats) -> tuple[float, Floats]:
        score, tie = x[:n], x[n]
        delta = score[votes.left] - score[votes.right]
        p = _answers(delta, 1.0, 0.0, tie, votes.ties)
        net = votes.n_left - votes.n_right
        value = sum(float(c @ np.log(np.maximum(q, 1e-300))) for c, q in zip(votes[3:6], p, strict=True))
        pull = 0.5 * (net - count * (p[0] - p[1]))
        slope = np.bincount(votes.left, pull, n) - np.bincount(votes.right, pull, n) - PRIOR * score
        return -(value - 0.5 * PRIOR * score @ score), -np.append(slope, (votes.n_ties - count * p[2]).sum())

    found_at = minimize(
        loss, np.zeros(n + 1) if start is None else start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
    )
    out: Floats = found_at.x
    return out


class _Mixture(NamedTuple):
    score: Floats
    tie: float
    share: Floats
    habit: Floats


def _mixture(votes: Votes, max_iter: int = 300) -> _Mixture:
    """Return the rival model: an answer is meant, turned round, or the judge's habit, with the judge's own odds.

    By expectation-maximisation from the plain fit; the odds of a judge have a Dirichlet prior that is learned too.
    """
    n, k = votes.n_items, votes.n_judges
    x = _plain_fit(votes)
    counts = np.stack(votes[3:6])
    prior = np.array([2.1, 0.3, 0.6])
    share = np.tile(prior / prior.sum(), (k, 1))
    habit = np.tile(counts.sum(axis=1) / counts.sum(), (k, 1))
    loose = np.where([True, True, votes.ties], 2.0 / (2 + votes.ties), 1e-12)
    per_judge = np.bincount(votes.expert, counts.sum(axis=0), k)
    for step in range(max_iter):
        before = x[:n]
        p = _answers(before[votes.left] - before[votes.right], 1.0, 0.0, x[n], votes.ties)
        w = share[votes.expert].T
        parts = np.stack([w[0] * p, w[1] * p[[1, 0, 2]], w[2] * habit[votes.expert].T])
        parts *= counts / np.maximum(parts.sum(axis=0), 1e-300)
        told = np.stack([np.bincount(votes.expert, part.sum(axis=0), k) for part in parts], axis=1)
        share = told + prior
        share /= share.sum(axis=1, keepdims=True)
        habit = np.stack([np.bincount(votes.expert, c, k) for c in parts[2]], axis=1) + loose
        habit /= habit.sum(axis=1, keepdims=True)
        for _ in range(3 if step >= 3 else 0):
            gain = (digamma(told + prior) - digamma(prior)).sum(axis=0)
            prior = np.clip(prior * gain / (digamma(per_judge + prior.sum()) - digamma(prior.sum())).sum(), 0.02, 50)
        meant = parts[0] + parts[1][[1, 0, 2]]
        x = _plain_fit(votes._replace(n_left=meant[0], n_right=meant[1], n_ties=meant[2]), x, 8)
        if step > 10 and np.abs(x[:n] - before).max() < 1e-5 * max(1.0, np.abs(before).max()):
            break
    return _Mixture(x[:n], float(x[n]), share, habit)


def _kernel_fit(votes: Votes) -> _expert_reliability.JudgeFit:
    return _expert_reliability.fit_judges(
        _expert_reliability.Outcomes(*votes[:6], np.array([0, votes.n_items])),
        votes.n_judges,
        prior=PRIOR,
        sided=votes.sided,
    )


def _held_out(votes: Votes, folds: int = 5) -> dict[str, float]:
    """Return the mean log-probability of answers left out, under the three models."""
    fold = np.random.default_rng(0).integers(folds, size=len(votes.left))
    total = {"all believed": 0.0, "slopes": 0.0, "mixture": 0.0}
    for f in range(folds):
        learn, test = votes.take(fold != f), votes.take(fold == f)
        who = test.expert

        def difference(score: Floats, test: Votes = test) -> Floats:
            return score[test.left] - score[test.right]

        x = _plain_fit(learn)
        p = {"all believed": _answers(difference(x[:-1]), 1.0, 0.0, x[-1], votes.ties)}
        fit = _kernel_fit(learn)
        tie = (fit.tie if votes.ties else 0.0) + fit.tie_tendency[who]
        both = [fit.slope + sign * fit.slope_stderr for sign in (-1, 1)]
        delta = difference(fit.score)
        p["slopes"] = sum(_answers(delta, a[who], fit.side[who], tie, votes.ties) for a in both) / 2
        mixture = _mixture(learn)
        q = _answers(difference(mixture.score), 1.0, 0.0, mixture.tie, votes.ties)
        w = mixture.share[who].T
        p["mixture"] = w[0] * q + w[1] * q[[1, 0, 2]] + w[2] * mixture.habit[who].T
        for name, chances in p.items():
            logs = np.log(np.maximum(chances, 1e-300))
            total[name] += sum(float(c @ line) for c, line in zip(test[3:6], logs, strict=True) if c.any())
    return {name: value / len(votes.left) for name, value in total.items()}


def rival() -> dict[str, Any]:
    """Comparison with a mixture of intended, inverted and habitual answers: judges found, order, held-out answers."""
    out: dict[str, Any] = {}
    if _generator() is not None:
        synthetic = {}
        for name, (kind, tie_rate) in CASES.items():
            rows = []
            for seed in range(3):
                votes, theta, good = _workload(kind, tie_rate, seed)
                start = time.perf_counter()
                slopes = _kernel_fit(votes)
                middle = time.perf_counter()
                mixture = _mixture(votes)
                end = time.perf_counter()
                rows.append(
                    {
                        "auc_slopes": _auc(slopes.reliability, good),
                        "auc_mixture": _auc(mixture.share[:, 0] - mixture.share[:, 1], good),
                        "slopes": _rank_agreement(slopes.score, theta),
                        "mixture": _rank_agreement(mixture.score, theta),
                        "scale_slopes": float(np.polyfit(theta, slopes.score, 1)[0]),
                        "scale_mixture": float(np.polyfit(theta, mixture.score, 1)[0]),
                        "times_faster": (end - middle) / (middle - start),
                    }
                )
            synthetic[name] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        out["synthetic"] = synthetic
    out["held_out"] = {name: _held_out(votes) for name, (votes, _) in _real().items()}
    return out


def _real() -> dict[str, tuple[Votes, Floats | None]]:
    """Return the crowds whose answers are at hand, with the truth where it is known (larger is better)."""
    out: dict[str, tuple[Votes, Floats | None]] = {}
    folder = SHARED / "data" / "crowdbt-pairwise"
    for name in ("readinglevel", "countrypopulation"):
        if (folder / name).is_dir():
            answers = np.loadtxt(folder / name / "all_pair.txt")
            answers = answers[answers[:, 1] != answers[:, 2]]
            items, pair = np.unique(answers[:, 1:], return_inverse=True)
            who, expert = np.unique(answers[:, 0], return_inverse=True)
            pair = pair.reshape(-1, 2).astype(np.int32)
            # The winner is written first, which is no side: pairs in code order.
            low, high, won = pair.min(axis=1), pair.max(axis=1), (pair[:, 0] < pair[:, 1]).astype(np.float64)
            sizes = (len(items), len(who), False)
            votes = Votes(low, high, expert.astype(np.int32), won, 1 - won, np.zeros(len(won)), *sizes)
            if name == "readinglevel":
                level = dict(np.loadtxt(folder / name / "doc_info.txt").tolist())
                out[name] = votes, np.array([level[i] for i in items.tolist()])
            else:
                # The first country of a pair was called the more populous, and the truth numbers them from the largest.
                out[name] = votes, -items
    path = SHARED / "data" / "llmfao-pairwise" / "llmfao.csv"
    if path.exists():
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        items, pair = np.unique([[r["left"], r["right"]] for r in rows], return_inverse=True)
        who, expert = np.unique([r["worker"] for r in rows], return_inverse=True)
        pair = pair.reshape(-1, 2).astype(np.int32)
        said = np.array([r["winner"] for r in rows])
        counts = ((said == c).astype(np.float64) for c in ("left", "right", "tie"))
        out["llmfao"] = Votes(pair[:, 0], pair[:, 1], expert.astype(np.int32), *counts, len(items), len(who)), None
    return out


def real() -> dict[str, Any]:
    """Real crowds: agreement with the truth, with reliability and with equal trust, and the judges of llmfao."""
    out: dict[str, Any] = {}
    for name, (votes, truth) in _real().items():
        score, method = _weighing(votes)
        row: dict[str, Any] = {
            "judges": votes.n_judges,
            "per_judge": len(votes.left) / votes.n_judges,
            "n_iter": method.fit_info_.n_iter,
            "gradient_norm": method.fit_info_.gradient_norm,
            "below_0.2": int((method.adherence_ < 0.2).sum()),
            "below_0": int((method.adherence_ < 0).sum()),
        }
        if truth is not None:
            row["tau"] = float(kendalltau(score, truth).statistic)
            row["tau_all_believed"] = float(kendalltau(_trusting(votes), truth).statistic)
        if name == "llmfao":
            fit = _kernel_fit(votes)
            order = np.argsort(fit.reliability)
            columns = ("reliability", "reliability_stderr", "side", "tie_tendency", "n_comparisons")
            row["judges_table"] = [
                {c: float(getattr(fit, c)[k]) for c in columns}
                | {"tie_share": float(votes.n_ties[votes.expert == k].mean())}
                | {"left_share": float(votes.n_left[votes.expert == k].mean())}
                for k in [*order[:6], *order[len(order) // 2 - 2 : len(order) // 2 + 2], *order[-4:]]
            ]
        out[name] = row
    return out or {"missing": "data"}


def speed() -> dict[str, Any]:
    """Time of the fit, warm, from 20,000 to a million comparisons."""
    if _generator() is None:
        return {"missing": "workloads"}
    out = {}
    for name, sizes in {
        "20,000 rows, 100 items, 50 judges": (100, 20_000, 50),
        "100,000 rows, 300 items, 200 judges": (300, 100_000, 200),
        "1,000,000 rows, 1,000 items, 1,000 judges": (1000, 1_000_000, 1000),
    }.items():
        for tie_rate in (0.0, 0.1):
            votes, _, good = _workload("coin", tie_rate, 1, *sizes)
            _kernel_fit(votes.take(np.arange(len(votes.left)) < 1000))
            costs = []
            for _ in range(3 if sizes[1] < 10**6 else 1):
                start = time.perf_counter()
                fit = _kernel_fit(votes)
                costs.append(time.perf_counter() - start)
            out[name + (", ties" if tie_rate else "")] = {
                "seconds": float(np.median(costs)),
                "sweeps": fit.n_iter,
                "microseconds_per_row": 1e6 * float(np.median(costs)) / sizes[1],
                "auc": _auc(fit.reliability, good),
            }
    return out


def _render_found(r: dict[str, Any]) -> str:
    if "missing" in r:
        return "Not available: the workloads are not there."
    head = [
        "bad judges",
        "AUC",
        "least",
        "Spearman ours",
        "good alone",
        "all believed",
        "largest gap",
        "scale",
        "rounds",
    ]
    keys = ("auc", "least_auc", "ours", "good_alone", "all_believed", "largest_gap", "scale", "n_iter")
    note = (
        "Means over 10 seeds of 50 judges, 40 % of them bad, 20,000 comparisons of 100 items. The gap is the Spearman "
        "correlation with the truth of Bradley-Terry on the good judges alone minus ours, the largest of the seeds; "
        "the scale is the slope of our scores on the true ones. Inverted judges are information: with them the scores "
        "are better than without."
    )
    return table(head, [[name, *(row[k] for k in keys)] for name, row in r.items()]) + "\n\n" + note


def _render_few(r: dict[str, Any]) -> str:
    if "missing" in r:
        return "Not available: the workloads are not there."
    rows = [[name, row["ours"], row["all_believed"], row["good_alone"], row.get("auc", "")] for name, row in r.items()]
    return table(["judges", "Spearman ours", "all believed", "good alone", "AUC"], rows)


def _render_rival(r: dict[str, Any]) -> str:
    parts = []
    if "synthetic" in r:
        keys = ("auc_slopes", "auc_mixture", "slopes", "mixture", "scale_slopes", "scale_mixture", "times_faster")
        head = ["bad judges", "AUC", "mixture", "Spearman", "mixture", "scale", "mixture", "times faster"]
        parts.append(table(head, [[name, *(row[k] for k in keys)] for name, row in r["synthetic"].items()]))
    if r["held_out"]:
        names = ["all believed", "slopes", "mixture"]
        parts.append("Mean log-probability of held-out answers (five folds), larger is better:")
        parts.append(table(["data", *names], [[n, *(f"{v[m]:.4f}" for m in names)] for n, v in r["held_out"].items()]))
    return "\n\n".join(parts) or "Not available: the workloads and the data are absent."


def _render_real(r: dict[str, Any]) -> str:
    if "missing" in r:
        return "Not available: the real data are absent."
    keys = ("judges", "per_judge", "below_0.2", "below_0", "tau", "tau_all_believed", "n_iter")
    head = ["data", "judges", "answers each", "below 0.2", "below 0", "tau ours", "tau all believed", "rounds"]
    parts = [table(head, [[name, *(row.get(k, "") for k in keys)] for name, row in r.items()])]
    if "judges_table" in r.get("llmfao", {}):
        lines = r["llmfao"]["judges_table"]
        parts.append("Judges of llmfao: the least reliable, the median and the most reliable:")
        parts.append(table([k.replace("_", " ") for k in lines[0]], [list(line.values()) for line in lines]))
    return "\n\n".join(parts)


def _render_speed(r: dict[str, Any]) -> str:
    if "missing" in r:
        return "Not available: the workloads are not there."
    keys = ("seconds", "sweeps", "microseconds_per_row", "auc")
    return table(["data", *(k.replace("_", " ") for k in keys)], [[n, *(v[k] for k in keys)] for n, v in r.items()])


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "judges_found": found,
    "judges_few": few,
    "judges_rival": rival,
    "judges_real": real,
    "judges_speed": speed,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "judges_found": _render_found,
    "judges_few": _render_few,
    "judges_rival": _render_rival,
    "judges_real": _render_real,
    "judges_speed": _render_speed,
}

"""The paper on unsupervised aggregation: an extended Mallows model with a dispersion for each expert, and ULARA.

These methods weight experts by their agreement, without labels. The studies replace experts by random lists and measure
what remains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

import concordant as cc
from concordant.metrics import paired_t_test
from concordant_papers import published, trec3
from concordant_papers._arrays import Floats
from concordant_papers.engine import Cell, Setting, Study
from concordant_papers.pages import Claim, Page, Picture, Row, Table

__all__ = ["STUDIES", "draws_from_truth", "engines"]

PAPER = "Klementiev, Roth and Small, A framework for unsupervised rank aggregation (LR4IR 2008)"
MODEL, BASELINE = "extended Mallows", "CombMNZ_rank"


# A known truth.

THETA = (-1.0, -1.0, *(-0.05,) * 7, 0.0)
ITERATIONS = 15
SHOWN = (1, 2, 4, 8, 15)
# Source of the rankings in the fit: Markov chains, weighted mean ranks, or the true rankings.
VIEWS: dict[str, dict[str, Any]] = {
    "Sampling": {},
    "Sampling, 10 n swaps": {"chain_steps": 10.0, "moves": "swap"},
    "Sampling, 10 n swaps from mean ranks": {"chain_steps": 10.0, "moves": "swap", "persistent": False},
    "Weighted": {"e_step": "borda"},
    "True": {"e_step": "oracle"},
}
# A curve has converged once it stays within this share of its last value.
_ARRIVED = 0.05
_SWEEPS, _CHAINS, _LOOK = 400, 4, 5


def draws_from_truth(
    preferences: cc.Preferences, truth: cc.Consensus, theta: Floats, *, sweeps: int = _SWEEPS, seed: int = 0
) -> float:
    """Return the mean Kendall distance to the truth of rankings drawn from the model, over all instances.

    A ranking has odds exp(sum over experts of θ_e times its distance to the list of e). Chains swap neighbours, every
    other pair of all chains at once; half of them begin at the order by mean rank, half at its reverse. As many sweeps
    as are looked at are passed over first.

    Parameters
    ----------
    preferences : Preferences
        Lists of all items by all experts.
    truth : Consensus
        The true order of the same instances and items.
    theta : float64[experts]
        How far each is believed, 0 or less.
    sweeps : int
        How many sweeps are looked at.
    seed : int
        Seed.

    Examples
    --------
    >>> sample = cc.synthetic.mallows(8, theta=[-6.0, -6.0])
    >>> draws_from_truth(sample.preferences, sample.truth, np.array([-6.0, -6.0])) < 0.1
    True
    """
    p = preferences
    n, offsets = int(p.slots.sizes[0]), p.slots.offsets
    rank = np.zeros((len(p), p.n_experts, n))
    home = p.slots.instance[p.slot]
    rank[home, p.row_expert, p.slot - offsets[home]] = p.value
    # Log-odds of x above y, summed over the experts; θ is negative.
    worth = np.einsum("e,qexy->qxy", -theta, rank[:, :, :, None] < rank[:, :, None, :])
    gain = worth - worth.transpose(0, 2, 1)
    true = np.stack([truth.score[a:b] for a, b in pairwise(offsets.tolist())])
    start = np.argsort(rank.mean(axis=1), axis=1, kind="stable")
    order = np.concatenate([start, start[:, ::-1]] * (_CHAINS // 2))
    which = np.tile(np.arange(len(p)), _CHAINS)[:, None]
    rng = np.random.default_rng([seed, n, p.n_experts])
    upper = np.triu_indices(n, 1)
    seen = []
    for sweep in range(2 * sweeps):
        for first in (0, 1):
            above, below = order[:, first : n - 1 : 2], order[:, first + 1 :: 2]
            # Copy: both sides are overwritten below.
            swap = np.log(rng.random(above.shape)) < gain[which, below, above]
            left, right = np.where(swap, below, above), np.where(swap, above, below)
            order[:, first : n - 1 : 2], order[:, first + 1 :: 2] = left, right
        if sweep >= sweeps and sweep % _LOOK == 0:
            by_place = true[which, order]
            seen.append((by_place[:, upper[0]] < by_place[:, upper[1]]).sum(axis=1).mean())
    return float(np.mean(seen))


@cache
def _known(n_items: int, n_instances: int, seed: int) -> Any:
    return cc.synthetic.mallows(n_items, theta=THETA, n_instances=n_instances, center="identity", random_state=seed)


def learned(*, view: str, seed: int, n_items: int, n_instances: int, iterations: int, sweeps: int) -> dict[str, Any]:
    """Return θ and the mean distance of sampled rankings to the truth after every iteration, and of the full fit."""
    sample = _known(n_items, n_instances, seed)
    labels = cc.Labels.from_codes(sample.truth.slots, sample.truth.score)

    def fitted(**more: Any) -> Any:
        return cc.ExtendedMallows(missing="below", random_state=seed, **VIEWS[view], **more).fit(
            sample.preferences, labels
        )

    # A fit with fewer iterations is a prefix of a longer one. Fits with given rankings do not iterate.
    steps = [fitted(max_iter=t, tol=1e-12) for t in range(1, 2 if view == "True" else iterations + 1)]
    told = sample.preferences, sample.truth
    distance = [draws_from_truth(*told, m.theta_, sweeps=sweeps, seed=seed) for m in steps]
    model = fitted()
    found = model.predict(sample.preferences)
    return {
        "distance": distance + distance[-1:] * (iterations - len(distance)),
        "theta": model.theta_.tolist(),
        "iterations": model.fit_info_.n_iter,
        "consensus": _apart(found, sample.truth),
        "borda": _apart(cc.Borda().fit_predict(sample.preferences), sample.truth),
    }


def _apart(found: cc.Consensus, truth: cc.Consensus) -> float:
    """Return the mean Kendall distance; tied pairs count one half."""
    total = 0.0
    for a, b in pairwise(truth.slots.offsets.tolist()):
        x, y = found.score[a:b], truth.score[a:b]
        pairs = np.triu_indices(b - a, 1)
        agree = np.sign(x[pairs[0]] - x[pairs[1]]) * np.sign(y[pairs[0]] - y[pairs[1]])
        total += float((agree < 0).sum() + 0.5 * (agree == 0).sum())
    return total / len(truth)


def _views(setting: Setting) -> list[str]:
    return ["Sampling", "Weighted", "True"] if setting.quick else list(VIEWS)


def _plan_synthetic(setting: Setting) -> list[Cell]:
    size = {"n_items": 30, "n_instances": 10, "iterations": ITERATIONS, "sweeps": _SWEEPS}
    if setting.quick:
        size = {"n_items": 12, "n_instances": 8, "iterations": 8, "sweeps": 60}
    return [
        Cell(f"{view}/run {seed}", learned, {"view": view, "seed": seed} | size, seconds=1.0 if view == "True" else 8.0)
        for view in _views(setting)
        for seed in range(setting.seeds)
    ]


def _runs(values: Mapping[str, Any], row: str) -> list[Any]:
    """Return the cells of a row, in the order of their seeds."""
    start = f"{row}/run "
    seeds = sorted(int(key[len(start) :]) for key in values if key.startswith(start))
    return [values[f"{start}{seed}"] for seed in seeds]


def _page_synthetic(setting: Setting, values: Mapping[str, Any]) -> Page:
    found = {view: _runs(values, view) for view in _views(setting)}
    curves = {view: np.array([r["distance"] for r in runs]) for view, runs in found.items() if runs}
    if not curves:
        return Page()
    shown = [t for t in SHOWN if t <= next(iter(curves.values())).shape[1]]
    rows = [Row("the truth itself", _named_theta(THETA))]
    for view, runs in found.items():
        if not runs:
            rows.append(Row(view, {}, why="not computed: a part of it failed"))
            continue
        each = [
            _named_theta(r["theta"])
            | {f"after {t}": r["distance"][t - 1] for t in shown}
            | {"consensus": r["consensus"], "iterations": float(r["iterations"])}
            for r in runs
        ]
        rows.append(Row(view, _means(each), errors=_errors(each)))
    some = next(iter(found.values()))
    columns = [*_named_theta(THETA), *(f"after {t}" for t in shown), "consensus", "iterations"]
    n = 12 if setting.quick else 30
    note = (
        f"Means of {len(some)} runs, ± their standard error; 10 experts: two good, seven poor, one at random. After t: "
        "the Kendall distance to the truth of rankings drawn from the model after t iterations; consensus: that of the "
        f"model's own ranking at the end. A ranking at random is {n * (n - 1) / 4:.1f} away, Borda's "
        f"{np.mean([r['borda'] for r in some]):.1f}. Swaps are the paper's moves; chains that begin anew at the order "
        "by mean rank in every iteration are too short to leave it, and make good experts look worse than they are. "
        "The figure is printed without numbers."
    )
    title = "A known truth: θ learned, and how far drawn rankings are from the truth"
    table = Table("mallows-synthetic", title, columns, rows, 2, note)
    return Page([table], _synthetic_claims(found, curves), [_synthetic_picture(curves)])


def _named_theta(theta: Sequence[float]) -> dict[str, float]:
    return {
        "θ good": float(np.mean(theta[:2])),
        "θ poor": float(np.mean(theta[2:9])),
        "θ random": float(theta[9]),
    }


def _means(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {c: float(np.mean([r[c] for r in each])) for c in each[0]}


def _errors(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    if len(each) < 2:
        return {}
    return {c: float(np.std([r[c] for r in each], ddof=1) / len(each) ** 0.5) for c in each[0]}


def _arrival(curve: Floats) -> int:
    """Return the iteration from which a curve stays close to its last value."""
    near = np.abs(curve - curve[-1]) <= _ARRIVED * abs(curve[-1])
    return int(np.flatnonzero(~near)[-1]) + 2 if not near.all() else 1


def _synthetic_claims(found: Mapping[str, Sequence[Any]], curves: Mapping[str, Floats]) -> list[Claim]:
    texts = (
        "Weighted converges in fewer iterations than Sampling",
        "Sampling ends nearer to the truth than Weighted, in every run",
        "Sampling ends close to True (within a tenth of its distance)",
        "learned θ: the good experts far below the poor ones, those below the random one, which is next to 0",
    )
    if not {"Sampling", "Weighted", "True"} <= set(curves):
        return [Claim(text, None, "not computed") for text in texts]
    sampling, weighted, true = (curves[view] for view in ("Sampling", "Weighted", "True"))
    arrived = [_arrival(c.mean(axis=0)) for c in (weighted, sampling)]
    ends = [float(c[:, -1].mean()) for c in (sampling, weighted, true)]
    n = min(len(sampling), len(weighted))
    ahead = int((sampling[:n, -1] < weighted[:n, -1]).sum())
    theta = np.array([r["theta"] for r in found["Sampling"]])
    groups = [float(np.abs(theta[:, of]).mean()) for of in (slice(0, 2), slice(2, 9), slice(9, 10))]
    best = {view: float(c[:, -1].mean()) for view, c in curves.items() if view.startswith("Sampling, ")}
    others = "".join(f"; {view.partition(', ')[2]}: {end:.1f}" for view, end in best.items())
    return [
        Claim(texts[0], arrived[0] < arrived[1], f"within 5 % of their ends after {arrived[0]} and {arrived[1]}"),
        Claim(texts[1], ahead == n, f"in {ahead} of {n} runs; means {ends[0]:.1f} and {ends[1]:.1f}{others}"),
        Claim(texts[2], ends[0] <= 1.1 * ends[2], f"{ends[0]:.1f} and {ends[2]:.1f}"),
        Claim(
            texts[3],
            groups[0] > 5 * groups[1] and groups[1] > 2 * groups[2] and groups[2] < 0.03,
            "|θ| " + ", ".join(f"{g:.3f}" for g in groups),
            ours=True,
        ),
    ]


def _synthetic_picture(curves: Mapping[str, Floats]) -> Picture:
    def draw(ax: Any) -> None:
        cc.plots.learning_curve(dict(curves), ylabel="Kendall distance to the truth", ax=ax)
        ax.set_xlabel(ax.get_xlabel().replace("pass", "iteration of EM", 1))

    return Picture("mallows-synthetic", "Distance to the truth of rankings drawn from the model, by iteration", draw)


# Random experts on TREC-3.

DEPTH = 100
METRICS = ("p@10", "p@30")
LEVELS = (0, 5, 10, 15, 20, 25, 30, 34, 36, 38)
ULARA_LEVELS = (0, 8, 16, 20, 24, 28, 32, 36)
NUS = (1, 2, 4, 8, 16)


def noisy(*, folder: str, k: int, level: int, draw: int) -> dict[str, Any]:
    """Evaluate the model and others with some runs replaced by random ones, and return θ of real and random runs."""
    votes = trec3.replaced(trec3.complete(folder, k), level, draw)
    model = cc.ExtendedMallows(k=k, missing="below", random_state=draw)
    rows = {
        MODEL: model.fit_predict(votes),
        BASELINE: cc.CombMNZRank(k=k).fit_predict(votes),
        "RRF": cc.RRF().fit_predict(votes),
        "ULARA": cc.ULARA(kappa=k).fit_predict(votes),
    }
    labels = trec3.read(folder).labels
    gone = np.isin(np.arange(votes.n_experts), trec3.chosen(votes, level, draw))
    weight = np.asarray(model.adherence_)
    r_hat = list(model.chain_.get("r_hat", {}).values())
    return {
        "values": {row: trec3.values_of(c, labels, list(METRICS)) for row, c in rows.items()},
        "real": weight[~gone].tolist(),
        "random": weight[gone].tolist(),
        "iterations": model.fit_info_.n_iter,
        "r_hat": float(max(r_hat)) if r_hat else None,
    }


def _levels(setting: Setting) -> tuple[int, ...]:
    return (0, 6, 9) if setting.quick else LEVELS


def _depth(setting: Setting) -> int:
    return 20 if setting.quick else DEPTH


def _plan_noisy(setting: Setting) -> list[Cell]:
    folder = trec3.folder_of(setting)
    if folder is None:
        return []
    return [
        Cell(
            f"{level} random/run {draw}",
            noisy,
            {"folder": folder, "k": _depth(setting), "level": level, "draw": draw},
            trec3.reads_of(folder),
            1.0 if setting.quick else 6.0,
        )
        for level in _levels(setting)
        for draw in range(setting.seeds)
    ]


# level -> row -> metric -> topics, draws averaged.
Curves = Mapping[int, Mapping[str, Mapping[str, Floats]]]


def _curves(values: Mapping[str, Any], levels: Sequence[int], suffix: str = " random") -> dict[int, Any]:
    out = {}
    for level in levels:
        runs = _runs(values, f"{level}{suffix}")
        if runs:
            out[level] = {
                row: {m: np.mean([r["values"][row][m] for r in runs], axis=0) for m in of}
                for row, of in runs[0]["values"].items()
            }
    return out


def _level_tables(
    curves: Curves, metrics: Sequence[str], rows: Sequence[str], name: str, title: str, note: str
) -> list[Table]:
    columns = [str(level) for level in curves]
    tables = []
    for metric in metrics:
        lines = []
        for row in rows:
            mean = {str(level): 100 * float(of[row][metric].mean()) for level, of in curves.items()}
            marks = {
                str(level): "*" if _p_value(of[row][metric], of[BASELINE][metric]) < 0.05 else ""
                for level, of in curves.items()
                if row != BASELINE
            }
            lines.append(Row(row, mean, marks=marks))
        file = f"{name}-{metric.replace('@', '')}" if len(metrics) > 1 else name
        tables.append(Table(file, title.format(metric=metric.upper()), columns, lines, 1, note))
    return tables


def _p_value(a: Floats, b: Floats) -> float:
    return paired_t_test(a - b).p_value


def _level_picture(
    curves: Curves, metric: str, rows: Sequence[str], name: str, title: str, x: str, level: float | None
) -> Picture:
    lines = {row: {n: 100 * of[row][metric] for n, of in curves.items()} for row in rows}

    def draw(ax: Any) -> None:
        cc.plots.metric_by_cutoff(lines, level=level, ax=ax)
        ax.set_xlabel(ax.get_xlabel().replace("cutoff k", x, 1))
        ax.set_ylabel(f"{metric.upper()}, percent")

    return Picture(name, title, draw)


def _page_noisy(setting: Setting, values: Mapping[str, Any]) -> Page:
    levels = _levels(setting)
    curves = _curves(values, levels)
    if not curves:
        return Page()
    rows = [MODEL, BASELINE, "RRF", "ULARA"]
    some = next(iter(values.values()))
    total = len(some["real"]) + len(some["random"])
    draws = len(_runs(values, f"{next(iter(curves))} random"))
    note = (
        f"Percent, by the number of {total} systems that are replaced by random lists of the pooled documents; lists "
        f"of {_depth(setting)}; means of {draws} draws. * differs from {BASELINE} by a paired t-test over the topics "
        "(5 %, draws of a topic averaged). The figure is printed without numbers."
    )
    tables = _level_tables(
        curves, METRICS, rows, "mallows-random-experts", "{metric} as experts are replaced by chance", note
    )
    tables.append(_weights_table(values, levels))
    pictures = [
        _level_picture(
            curves,
            m,
            [MODEL, BASELINE],
            f"mallows-random-experts-{m.replace('@', '')}",
            f"{m.upper()} as experts are replaced by chance",
            f"random experts of {total}",
            0.95,
        )
        for m in METRICS
    ]
    return Page(tables, _noisy_claims(curves, MODEL, METRICS, total), pictures, _noisy_notes(curves, METRICS))


def _weights_table(values: Mapping[str, Any], levels: Sequence[int]) -> Table:
    """Return the table of θ of real and random experts at every level."""
    rows = []
    for level in levels:
        runs = _runs(values, f"{level} random")
        if not runs:
            continue
        kinds = {"real": [r["real"] for r in runs], "random": [r["random"] for r in runs]}
        ours = {f"|θ| {kind}, median": float(np.median(w)) for kind, w in kinds.items() if w[0]}
        if runs[0]["random"]:
            ours["|θ| random, largest"] = float(np.max(kinds["random"]))
        ours["iterations"] = float(np.mean([r["iterations"] for r in runs]))
        known = [r["r_hat"] for r in runs if r["r_hat"] is not None]
        if known:
            ours["worst R̂"] = max(known)
        rows.append(Row(f"{level} random", ours))
    columns = ["|θ| real, median", "|θ| random, median", "|θ| random, largest", "iterations", "worst R̂"]
    note = "R̂ says how much wider two chains from opposite ends are together than one alone; 1 is agreement."
    return Table("mallows-random-experts-weights", "What is learned of real and random experts", columns, rows, 4, note)


def _noisy_claims(curves: Curves, row: str, metrics: Sequence[str], total: int) -> list[Claim]:
    """Check the paper's claims about a row as experts become random, for every metric."""
    claims = []
    levels = sorted(curves)
    real = [level for level in levels if level < total]
    # Levels where most experts are random, but at least two are not, so that there is agreement to find.
    most = [level for level in real if 0.75 * total <= level <= total - 2]
    for m in metrics:
        mean = {level: {r: 100 * float(curves[level][r][m].mean()) for r in (row, BASELINE)} for level in levels}
        above = [
            level
            for level in most
            if mean[level][row] > mean[level][BASELINE]
            and _p_value(curves[level][row][m], curves[level][BASELINE][m]) < 0.05
        ]
        claims.append(
            Claim(
                f"{m.upper()}: {row} is significantly above {BASELINE} where three quarters or more are random",
                bool(most) and above == most,
                "; ".join(f"{n} random: {mean[n][row]:.1f} and {mean[n][BASELINE]:.1f}" for n in most),
            )
        )
        if most and 0 in mean:
            last = most[-1]
            lost = {r: mean[0][r] - mean[last][r] for r in (row, BASELINE)}
            claims.append(
                Claim(
                    f"{m.upper()}: {row} degrades far more slowly than {BASELINE} (loses less than half as much)",
                    lost[row] < 0.5 * lost[BASELINE],
                    f"from 0 to {last} random it loses {lost[row]:.1f} points, {BASELINE} {lost[BASELINE]:.1f}",
                )
            )
    return claims


def _noisy_notes(curves: Curves, metrics: Sequence[str]) -> list[str]:
    """Describe the level from which the model is better, and its loss below that level."""
    out = []
    for m in metrics:
        gaps = {n: 100 * float((of[MODEL][m] - of[BASELINE][m]).mean()) for n, of in curves.items()}
        sure = {n for n, of in curves.items() if _p_value(of[MODEL][m], of[BASELINE][m]) < 0.05}
        behind = [n for n in gaps if gaps[n] < 0]
        words = ", ".join(f"{gaps[n]:+.1f}{'*' if n in sure else ''} at {n}" for n in gaps)
        if behind:
            out.append(
                f"{m.upper()}, {MODEL} less {BASELINE}: {words} (* significant). Where hardly anybody is random, "
                "adding everybody up is hard to beat: all systems are then of use, and their errors differ."
            )
    return out


# ULARA.

RECALLS = (0.0, 0.1, 0.2)
STATED = {"recall 0": 4.0, "recall 0.1": 6.4, "recall 0.2": 6.0}
_ELEVEN = tuple(f"iprec(recall={r / 10:g})" for r in range(11))
_ULARA = "ULARA"


def _ulara_ways(setting: Setting) -> dict[str, dict[str, Any]]:
    """Return the variants of ULARA whose precision is shown beside the published gain; the first is the default."""
    kappa = {"kappa": 40 if setting.quick else trec3.LONGEST}
    more: dict[str, dict[str, Any]] = {f"{_ULARA}, ν = {nu}": {"nu": nu} for nu in NUS}
    more |= {f"{_ULARA}, η = {eta:g}": {"eta": eta} for eta in (0.0, 1.0, 10.0)}
    more |= {f"{_ULARA}, projected gradient": {"update": "gd"}, f"{_ULARA}, update as printed": {"update": "printed"}}
    return {_ULARA: kappa} | {row: kappa | params for row, params in more.items()}


def recalled(*, folder: str, ways: Mapping[str, Mapping[str, Any]], kappa: int, systems: int) -> dict[str, Any]:
    """Return precision at eleven recalls and MAP of variants of ULARA, of CombMNZ_rank and of the best systems."""
    runs, labels = trec3.read(folder)
    votes = trec3.whole(folder)
    metrics = ["map", *_ELEVEN]
    quality = {e: trec3.values_of(trec3.alone(runs, e), labels, metrics) for e in runs.experts}
    best = sorted(quality, key=lambda e: -float(np.mean(quality[e]["map"])))[:systems]
    values = {BASELINE: trec3.values_of(cc.CombMNZRank(k=kappa).fit_predict(votes), labels, metrics)}
    for row, params in ways.items():
        values[row] = trec3.values_of(cc.ULARA(**params).fit_predict(votes), labels, metrics)
    return {"values": values | {e: quality[e] for e in best}, "systems": best, "experts": runs.n_experts}


def _plan_recall(setting: Setting) -> list[Cell]:
    folder = trec3.folder_of(setting)
    if folder is None:
        return []
    ways = _ulara_ways(setting)
    arguments = {"folder": folder, "ways": ways, "kappa": ways[_ULARA]["kappa"], "systems": 5}
    return [Cell("all", recalled, arguments, trec3.reads_of(folder), 2.0 if setting.quick else 30.0)]


def _page_recall(setting: Setting, values: Mapping[str, Any]) -> Page:
    found = values.get("all")
    if found is None:
        return Page()
    each = {row: {m: np.array(v) for m, v in of.items()} for row, of in found["values"].items()}
    base = each[BASELINE]
    at = {f"recall {r:g}": f"iprec(recall={r:g})" for r in RECALLS}
    gains, lines = [], []
    for row, of in each.items():
        mean = {c: 100 * float(of[m].mean()) for c, m in _columns().items()}
        marks = {c: "*" for c, m in _columns().items() if row != BASELINE and _p_value(of[m], base[m]) < 0.05}
        lines.append(Row(row, mean, marks=marks))
        if row in found["systems"] or row == BASELINE:
            continue
        gain = {c: 100 * float(of[m].mean() / base[m].mean() - 1) for c, m in at.items()}
        judged = row == _ULARA and not setting.quick
        gains.append(
            Row(
                row,
                gain | {"MAP": 100 * float(of["map"].mean() / base["map"].mean() - 1)},
                STATED if judged else {},
                0.7 if judged else None,
                marks={c: "*" for c, m in at.items() if _p_value(of[m], base[m]) < 0.05},
            )
        )
    seen = "" if setting.quick else "the default ν, which was set with results on these topics in view"
    gains[0] = gains[0]._replace(why=_why_no_gain(gains, each), seen=seen)
    note = (
        f"Relative, percent; * significant by a paired t-test over the topics. {found['experts']} systems, all they "
        "list. ν is the number of lists that must hold a document before it says something about the systems, η how "
        "much disagreement costs (0 believes all alike). The first row is the library's default; the others show what "
        "any choice would give."
    )
    systems = ", ".join(found["systems"])
    tables = [
        Table("ulara-gain", f"Gain of ULARA over {BASELINE} in precision", [*at, "MAP"], gains, 1, note),
        Table(
            "ulara-recall",
            "Interpolated precision at recall 0 to 1, and MAP",
            list(_columns()),
            lines,
            1,
            f"Percent; * differs from {BASELINE}. The best systems by MAP: {systems}.",
        ),
    ]
    claims = [
        Claim(
            f"ULARA is above {BASELINE} at {c} (the paper: {STATED[c]:+.1f} %)",
            gains[0].ours[c] > 0,
            f"{gains[0].ours[c]:+.1f} %; best of the rows {max(g.ours[c] for g in gains):+.1f} %",
        )
        for c in at
    ]
    shown = [_ULARA, BASELINE, *found["systems"][:3]]
    return Page(tables, claims, [_recall_picture({row: each[row] for row in shown})])


def _columns() -> dict[str, str]:
    return {f"{r / 10:g}": m for r, m in enumerate(_ELEVEN)} | {"MAP": "map"}


def _why_no_gain(gains: Sequence[Row], each: Mapping[str, Mapping[str, Floats]]) -> str:
    """Explain a missing gain from the rows; empty if there is a gain."""
    if all(gains[0].verdict(c) is not False for c in STATED):
        return ""
    reached = [g.name for g in gains if all(g.ours[c] >= STATED[c] for c in STATED)]
    by_eta = {0.0: f"{_ULARA}, η = 0", 1.0: f"{_ULARA}, η = 1", 3.0: _ULARA, 10.0: f"{_ULARA}, η = 10"}
    known = {g.name: g for g in gains}
    costs = ", ".join(f"{known[name].ours['MAP']:+.1f} % at η = {eta:g}" for eta, name in by_eta.items())
    turned = known[f"{_ULARA}, update as printed"].ours["MAP"]
    return (
        f"{'only ' + ', '.join(reached) if reached else 'no row, whatever its ν, η or update,'} reaches the published "
        f"gain. Distrust by itself gains nothing here: in MAP it is {costs}, where η = 0 believes all systems alike. "
        f"The update as printed rewards disagreement instead of punishing it, and has {turned:+.1f} %. All systems are "
        "of use, and those that differ bring what the others miss; a gain comes with useless experts (see "
        f"ulara-random-experts). The paper prints neither its λ nor the level of its {BASELINE}, which has "
        f"{100 * float(each[BASELINE]['iprec(recall=0)'].mean()):.1f} % at recall 0 here"
    )


def _recall_picture(each: Mapping[str, Mapping[str, Floats]]) -> Picture:
    points = {row: {r / 10: of[m] for r, m in enumerate(_ELEVEN)} for row, of in each.items()}

    def draw(ax: Any) -> None:
        cc.plots.precision_recall(points, ax=ax)

    return Picture("ulara-recall", f"Precision and recall: ULARA, {BASELINE}, and the best systems", draw, (5.6, 4.4))


def noisy_ulara(*, folder: str, nus: Sequence[int], kappa: int, level: int, draw: int) -> dict[str, Any]:
    """Return MAP of ULARA for several ν with some systems replaced by chance, and of CombMNZ_rank."""
    votes = trec3.replaced(trec3.whole(folder), level, draw)
    labels = trec3.read(folder).labels
    rows = {BASELINE: cc.CombMNZRank(k=kappa).fit_predict(votes), _ULARA: cc.ULARA(kappa=kappa).fit_predict(votes)}
    rows |= {f"ν = {nu}": cc.ULARA(kappa=kappa, nu=nu).fit_predict(votes) for nu in nus}
    return {
        "values": {row: trec3.values_of(c, labels, ["map"]) for row, c in rows.items()},
        "experts": votes.n_experts,
        "documents": float(votes.slots.sizes.mean()),
        "listed": float(votes.list_lengths.mean()),
    }


def _ulara_setting(setting: Setting) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return ((0, 6, 9), (1, 2, 4), 40) if setting.quick else (ULARA_LEVELS, NUS, trec3.LONGEST)


def _plan_noisy_ulara(setting: Setting) -> list[Cell]:
    folder = trec3.folder_of(setting)
    if folder is None:
        return []
    levels, nus, kappa = _ulara_setting(setting)
    return [
        Cell(
            f"{level} random/run {draw}",
            noisy_ulara,
            {"folder": folder, "nus": list(nus), "kappa": kappa, "level": level, "draw": draw},
            trec3.reads_of(folder),
            1.0 if setting.quick else 5.0,
        )
        for level in levels
        # Level 0 replaces nobody and needs no draw.
        for draw in range(setting.seeds if level else 1)
    ]


def _page_noisy_ulara(setting: Setting, values: Mapping[str, Any]) -> Page:
    levels, nus, _ = _ulara_setting(setting)
    curves = _curves(values, levels)
    if not curves:
        return Page()
    some = next(iter(values.values()))
    total = some["experts"]
    rows = [BASELINE, _ULARA, *(f"ν = {nu}" for nu in nus)]
    note = (
        f"MAP in percent, by the number of {total} systems replaced by random lists of the pooled documents; means of "
        f"up to {setting.seeds} draws. ULARA takes a fifth of the lists for ν, {max(2, -(-total // 5))}: a default "
        f"that was set with results on these topics in view. * differs from {BASELINE} by a paired t-test over the "
        "topics (5 %). The figure is printed without numbers."
    )
    tables = _level_tables(curves, ["map"], rows, "ulara-random-experts", "{metric} as systems are replaced", note)
    mean = {n: {row: float(of[row]["map"].mean()) for row in rows} for n, of in curves.items()}
    some_real = [n for n in sorted(mean) if n < total]
    claims = [
        Claim(
            f"ULARA is consistently superior to {BASELINE} (above it at every number of random systems)",
            all(mean[n][_ULARA] > mean[n][BASELINE] for n in some_real),
            "MAP less that of the other: "
            + ", ".join(f"{100 * (mean[n][_ULARA] - mean[n][BASELINE]):+.1f} at {n}" for n in some_real),
        ),
        *_noisy_claims(curves, _ULARA, ["map"], total),
    ]
    half = [n for n in curves if total / 2 < n <= 0.75 * total]
    claims += [
        Claim(
            f"ULARA still works with more than half of the systems replaced ({n} of {total}: above nine tenths of its "
            f"MAP without any, and above {BASELINE})",
            mean[n][_ULARA] > 0.9 * mean[0][_ULARA] and mean[n][_ULARA] > mean[n][BASELINE],
            f"MAP {mean[n][_ULARA]:.3f} ({BASELINE} {mean[n][BASELINE]:.3f}), {mean[0][_ULARA]:.3f} without",
        )
        for n in half
        if 0 in mean
    ]
    best = {n: max(nus, key=lambda nu: mean[n][f"ν = {nu}"]) for n in mean}
    noise = sorted(best)
    claims.append(
        Claim(
            "ν must be lowered as noise grows (the best ν never rises with the number of random systems, and falls)",
            all(best[a] >= best[b] for a, b in pairwise(noise)) and best[noise[0]] > best[noise[-1]],
            "best ν: " + ", ".join(f"{nu} at {n}" for n, nu in best.items()),
        )
    )
    picture = _level_picture(
        curves,
        "map",
        [row for row in rows if row != _ULARA],
        "ulara-random-experts",
        "MAP as systems are replaced by chance",
        f"random systems of {total}",
        None,
    )
    notes = []
    if claims[-1].holds is False:
        chance = some["listed"] / some["documents"]
        notes.append(
            f"The pool has {some['documents']:,.0f} documents on average. A random list holds each of them with "
            f"probability {chance:.2f}: "
            f"{noise[-1]} of them bring {noise[-1] * chance:.1f} lists to every document by chance alone. A low ν then "
            "lets documents speak that only chance has listed, and the more random lists there are the higher it has "
            "to be."
        )
    return Page(tables, claims, [picture], notes)


# Four engines.

TABLE_1 = "004_table1_mrpr"
# Quality of the engines, in the order that the paper measured; one is nearly useless.
ENGINES = {"S1": 0.6, "S2": 0.1, "S3": 0.55, "S4": 0.5}
# The smallest relevant label. With exponential labels one page in a hundred is relevant.
RIGHT = 4.6
_MRPR = f"mrpr(rel={RIGHT})"
_TOP = 100


@cache
def engines(queries: int, seed: int) -> trec3.Runs:
    """Return the top hundred pages of four engines of known quality, and the labels of the pages."""
    spread = [float(np.round(-np.log1p(-(n + 0.5) / 200), 6)) for n in range(200)]
    sample = cc.synthetic.meta_search(
        queries,
        quality=ENGINES,
        labels=spread,
        n_items=(250, 350),
        noise=1.0,
        largest_rank=1000,
        missing=0.1,
        random_state=seed,
    )
    return trec3.Runs(trec3.pooled(sample.preferences.top(_TOP).to_ranks("ordinal")), sample.labels)


def searched(*, queries: int, seed: int) -> dict[str, Any]:
    """Return θ and MRPR of every engine, and MRPR of their consensus."""
    votes, labels = engines(queries, seed)
    model = cc.ExtendedMallows(k=_TOP, missing="below", random_state=seed)
    rows: dict[str, Callable[[], cc.Consensus]] = {e: lambda e=e: trec3.alone(votes, e) for e in votes.experts}  # type: ignore[misc]
    rows |= {
        MODEL: lambda: model.fit_predict(votes),
        BASELINE: lambda: cc.CombMNZRank(k=_TOP).fit_predict(votes),
        "RRF": lambda: cc.RRF().fit_predict(votes),
        _ULARA: lambda: cc.ULARA(kappa=_TOP).fit_predict(votes),
    }
    return {
        "mrpr": {row: float(np.mean(trec3.values_of(make(), labels, [_MRPR])[_MRPR])) for row, make in rows.items()},
        "theta": dict(zip(model.experts_, model.theta_.tolist(), strict=True)),
    }


def _queries(setting: Setting) -> int:
    return 20 if setting.quick else 50


def _plan_search(setting: Setting) -> list[Cell]:
    queries = _queries(setting)
    return [
        Cell(f"engines/run {seed}", searched, {"queries": queries, "seed": seed}, seconds=3.0)
        for seed in range(setting.seeds)
    ]


def _page_search(setting: Setting, values: Mapping[str, Any]) -> Page:
    runs = _runs(values, "engines")
    if not runs:
        return Page()
    names = list(ENGINES)
    theta, mrpr = [r["theta"] for r in runs], [r["mrpr"] for r in runs]
    # A quick run is smaller than the stand-in whose values resemble the printed ones.
    printed = () if setting.quick else published.rows(TABLE_1)
    theirs = {r["quantity"]: {e: float(r[e]) for e in names if r[e]} for r in printed}
    together = theirs.get("aggregate MRPR (all four)", {})
    rows = [
        Row("known quality", {e: float(q) for e, q in ENGINES.items()}),
        Row("MRPR", {e: _means(mrpr)[e] for e in names}, theirs.get("MRPR", {}), errors=_errors(mrpr)),
        Row(
            "|θ|",
            {e: abs(_means(theta)[e]) for e in names},
            {e: abs(t) for e, t in theirs.get("theta", {}).items()},
            errors=_errors(theta),
        ),
    ]
    note = (
        f"A stand-in: four engines that follow the worth of a page as closely as the first row says, "
        f"{_queries(setting)} queries, lists of {_TOP}; means of {len(runs)} samples, ± their standard error. MRPR: "
        "the mean of 1 / the page of ten on which the first right result stands. The published engines and queries are "
        "not to be had; what can be judged is the order. The qualities of the four engines and the share of pages they "
        "miss were set so that their MRPRs resemble the printed ones; that |θ| orders them alike is then a finding, "
        "that their MRPRs are close is not."
    )
    if printed:
        note += " The printed values, here and in the table below, are shown; none is counted as compared."
    table = Table("meta-search", "Four engines: quality, MRPR, and |θ| learned without labels", names, rows, 3, note)
    all_rows = [MODEL, BASELINE, "RRF", _ULARA]
    sums = Table(
        "meta-search-together",
        "MRPR of all four together",
        ["MRPR"],
        [
            Row(
                row,
                {"MRPR": _means(mrpr)[row]},
                {"MRPR": next(iter(together.values()))} if row == MODEL and together else {},
                errors={"MRPR": _errors(mrpr)[row]} if _errors(mrpr) else {},
            )
            for row in all_rows
        ],
        3,
    )
    return Page([table, sums], _search_claims(_means(theta), _means(mrpr), theta))


def _search_claims(
    theta: Mapping[str, float], mrpr: Mapping[str, float], each: Sequence[Mapping[str, float]]
) -> list[Claim]:
    names = list(ENGINES)
    by = {
        "θ": sorted(names, key=lambda e: theta[e]),
        "MRPR": sorted(names, key=lambda e: -mrpr[e]),
        "quality": sorted(names, key=lambda e: -ENGINES[e]),
    }
    alike = sum(sorted(names, key=lambda e: t[e]) == by["quality"] for t in each)
    worst, best = by["quality"][-1], max(mrpr[e] for e in names)
    return [
        Claim(
            "|θ| orders the engines by quality",
            by["θ"] == by["quality"],
            f"{' > '.join(by['θ'])}, MRPR {' > '.join(by['MRPR'])}; so in {alike} of {len(each)} samples",
        ),
        Claim(
            "the poor engine's θ is next to 0 (below a tenth of the best)",
            abs(theta[worst]) < 0.1 * max(abs(t) for t in theta.values()),
            f"{theta[worst]:.4f}, the best {min(theta.values()):.4f}",
        ),
        Claim(
            "all four together are better than the best of them",
            mrpr[MODEL] > best,
            f"MRPR {mrpr[MODEL]:.3f} and {best:.3f}",
        ),
    ]


# Dispersion against quality.

_QUALITY = {"MAP": "map", "P@10": "p@10", "MRPR": "mrpr"}


def qualities(*, folder: str, k: int) -> dict[str, Any]:
    """Return the quality of every system by labels, and its weight by ULARA, which reads no labels."""
    votes = trec3.complete(folder, k)
    runs, labels = trec3.read(folder)
    ulara = cc.ULARA(kappa=k).fit(votes)
    weight = dict(zip(ulara.experts_, np.asarray(ulara.adherence_).tolist(), strict=True))
    found = {e: trec3.values_of(trec3.alone(runs, e), labels, list(_QUALITY.values())) for e in votes.experts}
    return {
        e: {name: float(np.mean(of[m])) for name, m in _QUALITY.items()} | {_ULARA: weight[e]}
        for e, of in found.items()
    }


def dispersions(*, folder: str, k: int, seed: int) -> dict[str, float]:
    """Return θ of every system."""
    model = cc.ExtendedMallows(k=k, missing="below", random_state=seed).fit(trec3.complete(folder, k))
    return dict(zip(model.experts_, model.theta_.tolist(), strict=True))


def _plan_dispersion(setting: Setting) -> list[Cell]:
    folder = trec3.folder_of(setting)
    if folder is None:
        return []
    given = {"folder": folder, "k": _depth(setting)}
    reads = trec3.reads_of(folder)
    seconds = 1.0 if setting.quick else 5.0
    return [Cell("quality", qualities, given, reads, 2 * seconds)] + [
        Cell(f"theta/run {seed}", dispersions, given | {"seed": seed}, reads, seconds) for seed in range(setting.seeds)
    ]


def _page_dispersion(setting: Setting, values: Mapping[str, Any]) -> Page:
    runs, quality = _runs(values, "theta"), values.get("quality")
    if not runs or quality is None:
        return Page()
    size = {e: abs(t) for e, t in _means(runs).items()}
    errors = _errors(runs)
    names = sorted(size, key=lambda e: -size[e])
    columns = ["|θ|", *_QUALITY, "ULARA's weight"]
    rows = [
        Row(
            e,
            {"|θ|": size[e], "ULARA's weight": quality[e][_ULARA]} | {c: quality[e][c] for c in _QUALITY},
            errors={"|θ|": errors[e]} if errors else {},
        )
        for e in names
    ]
    tied = {
        (what, c): spearman([of[e] for e in names], [quality[e][c] for e in names])
        for what, of in (("|θ|", size), ("ULARA's weight", {e: quality[e][_ULARA] for e in names}))
        for c in _QUALITY
    }
    related = [
        Row(what, {c: tied[what, c][0] for c in _QUALITY}, marks={c: "*" for c in _QUALITY if tied[what, c][1] < 0.05})
        for what in ("|θ|", "ULARA's weight")
    ]
    note = f"Spearman's rank correlation over {len(names)} systems; * differs from 0 (5 %)."
    tables = [
        Table("expert-dispersion-correlation", "How far trust follows quality", list(_QUALITY), related, 3, note),
        Table(
            "expert-dispersion",
            "Every system: |θ| learned without labels, quality by the labels",
            columns,
            rows,
            4,
            f"|θ| from the first {_depth(setting)} documents, mean of {len(runs)} seeds ± standard error; MAP, P@10 "
            "and MRPR from all that a system lists.",
        ),
    ]
    claims = [
        Claim(
            f"|θ| follows the quality of systems: its rank correlation with {c} is above 0 and significant",
            tied["|θ|", c][0] > 0 and tied["|θ|", c][1] < 0.05,
            f"{tied['|θ|', c][0]:.2f}, p = {tied['|θ|', c][1]:.1g}",
            ours=True,
        )
        for c in _QUALITY
    ]
    return Page(tables, claims, [_dispersion_picture(size, {e: quality[e]["MAP"] for e in names})])


def spearman(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's rank correlation and its two-sided p-value.

    Equal means that differ by rounding are ties.

    >>> spearman([1, 2, 3], [0.3, 0.1 + 0.2, 0.4]) == spearman([1, 2, 3], [0.3, 0.3, 0.4])
    True
    """
    from scipy.stats import spearmanr

    found = spearmanr(np.round(a, 12), np.round(b, 12))
    return float(found.statistic), float(found.pvalue)


def _dispersion_picture(size: Mapping[str, float], quality: Mapping[str, float]) -> Picture:
    def draw(ax: Any) -> None:
        x, y = [quality[e] for e in size], list(size.values())
        ax.scatter(x, y, s=18)
        for e in (*list(size)[:3], *list(size)[-3:]):
            ax.annotate(e, (quality[e], size[e]), xytext=(4, 3), textcoords="offset points", fontsize=8)
        # Room for the names at the edges.
        ax.margins(0.12)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("MAP of the system")
        ax.set_ylabel("|θ| learned without labels")

    return Picture("expert-dispersion", "Trust learned without labels, against quality by the labels", draw, (5.6, 4.2))


STUDIES = [
    Study(
        "mallows-synthetic",
        f"{PAPER}, figure 4",
        "Extended Mallows on a known truth: distance by iteration",
        (),
        _plan_synthetic,
        _page_synthetic,
    ),
    Study(
        "mallows-random-experts",
        f"{PAPER}, figure 5",
        "Extended Mallows as systems are replaced by chance: P@10 and P@30",
        (trec3.FOLDER,),
        _plan_noisy,
        _page_noisy,
    ),
    Study(
        "ulara-recall",
        f"{PAPER}, figure 6",
        "ULARA: precision and recall beside the best systems",
        (trec3.FOLDER,),
        _plan_recall,
        _page_recall,
    ),
    Study(
        "ulara-random-experts",
        f"{PAPER}, figure 7",
        "ULARA as systems are replaced by chance: MAP for several ν",
        (trec3.FOLDER,),
        _plan_noisy_ulara,
        _page_noisy_ulara,
    ),
    Study(
        "meta-search",
        f"{PAPER}, table 1",
        "Four engines of known quality: MRPR and |θ| side by side",
        (),
        _plan_search,
        _page_search,
    ),
    Study(
        "expert-dispersion",
        PAPER,
        "Dispersion learned without labels against the quality of experts",
        (trec3.FOLDER,),
        _plan_dispersion,
        _page_dispersion,
    ),
]

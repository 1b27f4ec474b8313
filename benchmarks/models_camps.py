"""Camps among experts at full size: planted camps, homogeneous crowds, and camps of real ballots."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, product
from typing import Any

import numpy as np
from measure import ROOT
from numpy.typing import NDArray
from render import table
from studies import DATA

import concordant as cc
from concordant.errors import ConcordantWarning
from concordant.kernels.mallows import sample_order

Array = NDArray[Any]

EXPERTS, ITEMS, CAMPS, SETS = 60, 15, (2, 3, 4), 10
# How far experts follow the centre of their camp: the spacing of scores, and −θ.
LEVELS = {"close": 0.5, "loose": 0.35, "hardly": 0.2}
KINDS = ("Plackett-Luce", "Mallows")
# The distribution, the spacing of scores or −θ, and the number of sets.
HOMOGENEOUS = [
    *((kind, noise, 100) for kind in KINDS for noise in (0.5, 1.0, 1.5)),
    ("Thurstone", 0.4, 40),
]
UNEVEN, WORKERS = 40, 4
MODELS: dict[str, Callable[[], cc.Aggregator]] = {
    "Plackett-Luce": lambda: cc.PlackettLuce(uncertainty="none"),
    "Bradley-Terry": lambda: cc.BradleyTerry(uncertainty="none"),
    "MPM": lambda: cc.MPM(uncertainty="none"),
    "Mallows": cc.Mallows,
}
ELECTIONS = {
    "02-debian/00002-00000008.toc": "Debian logo",
    "02-debian/00002-00000004.toc": "Debian leader 2006",
    "02-debian/00002-00000006.toc": "Debian leader 2010",
    "16-aspen/00016-00000002.toc": "Aspen mayor 2009",
}
SUSHI = "r-ranking/BayesMallows/data/sushi_rankings.csv"
# Names of the camps by their two best kinds of sushi.
NAMES = {
    ("fatty tuna", "sea urchin"): "delicacies",
    ("shrimp", "squid"): "plain and mild",
    ("fatty tuna", "tuna"): "tuna",
    ("sea eel", "fatty tuna"): "sea eel",
    ("sea urchin", "salmon roe"): "sea urchin",
    ("salmon roe", "fatty tuna"): "salmon roe",
}
PICTURE = ROOT / "docs" / "results" / "camps_sushi.svg"


def tau(a: Array, b: Array) -> float:
    """Return Kendall's tau of two orders."""
    x, y = np.argsort(a), np.argsort(b)
    i, j = np.triu_indices(len(x), 1)
    return float((np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])).mean())


def adjusted_rand(one: Array, other: Array) -> float:
    """Return the adjusted Rand index of two partitions."""
    counts = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(counts, (one, other), 1)

    def pairs(n: Any) -> float:
        return float((n * (n - 1) / 2).sum())

    both, a, b = pairs(counts), pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0))
    expected = a * b / pairs(np.array([len(one)]))
    return 1.0 if a == b == expected else (both - expected) / ((a + b) / 2 - expected)


def orders(kind: str, centre: Array, noise: float, n: int, rng: np.random.Generator) -> list[Array]:
    """Return n rankings around a centre, best first: equally spaced Plackett-Luce scores, Mallows, or Thurstone.

    "uneven" are Plackett-Luce scores from a normal distribution, around no given centre.
    """
    if kind == "Mallows":
        return [centre[sample_order(len(centre), -noise, rng)] for _ in range(n)]
    score = np.empty(len(centre))
    score[centre] = -noise * np.arange(len(centre))
    if kind == "uneven":
        score = noise * rng.normal(size=len(centre))
        return [np.argsort(-(score + rng.gumbel(size=len(score)))) for _ in range(n)]
    drawn = rng.gumbel if kind == "Plackett-Luce" else rng.normal
    return [np.argsort(-(score + drawn(size=len(score)))) for _ in range(n)]


def planted(kind: str, noise: float, camps: int, seed: int) -> tuple[cc.Preferences, Array, float]:
    """Return complete lists of experts in equal camps, the camp of each, and their mean tau with the centre."""
    rng = np.random.default_rng([seed, camps, ITEMS])
    centres: list[Array] = []
    while len(centres) < camps:
        centre = rng.permutation(ITEMS)
        if all(tau(centre, other) <= 0.2 for other in centres):
            centres.append(centre)
    truth = rng.permutation(np.arange(EXPERTS) % camps)
    if camps == 1:
        drawn = orders(kind, centres[0], noise, EXPERTS, rng)
    else:
        drawn = [orders(kind, centres[c], noise, 1, rng)[0] for c in truth.tolist()]
    lists = {f"e{e:02d}": [f"i{i:02d}" for i in order] for e, order in enumerate(drawn)}
    agreement = np.mean([tau(order, centres[c]) for order, c in zip(drawn, truth.tolist(), strict=True)])
    return cc.from_lists(lists), truth, float(agreement)


def _fitted(votes: cc.Preferences, model: cc.Aggregator) -> tuple[cc.Mixture, float]:
    mixture = cc.Mixture(of=model)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        mixture.fit_predict(votes)
    return mixture, time.process_time() - started


def _found(task: tuple[str, float, int, int, str]) -> tuple[int, float, float, float]:
    """Return the number of camps found in planted data, the adjusted Rand index, mean tau with the centre, seconds."""
    kind, noise, camps, seed, name = task
    votes, truth, agreement = planted(kind, noise, camps, seed)
    mixture, seconds = _fitted(votes, MODELS[name]())
    return mixture.n_components_, _rand(mixture, truth), agreement, seconds


def _each(tasks: list[tuple[str, float, int, int, str]]) -> list[tuple[int, float, float, float]]:
    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(_found, tasks, chunksize=10))


def recovery() -> dict[str, Any]:
    """Camps planted among 60 experts, found with their number: 15 items, centres with a tau of at most 0.2."""
    cells = list(product(KINDS, LEVELS, CAMPS, MODELS))
    tasks = [(kind, LEVELS[level], camps, seed, name) for kind, level, camps, name in cells for seed in range(SETS)]
    found = np.array(_each(tasks)).reshape(len(cells), SETS, 4)
    out: dict[str, Any] = {"sets": SETS, "experts": EXPERTS, "items": ITEMS, "cells": []}
    for (kind, level, camps, name), own in zip(cells, found, strict=True):
        out["cells"].append(
            {
                "data": kind,
                "noise": level,
                "tau_with_centre": float(own[:, 2].mean()),
                "camps": camps,
                "model": name,
                "right_number": int((own[:, 0] == camps).sum()),
                "rand": own[:, 1].tolist(),
                "seconds": float(own[:, 3].mean()),
            }
        )
    asked = [c for c in out["cells"] if c["noise"] == "close"]
    out["met"] = all(float(np.mean(c["rand"])) >= 0.95 for c in asked)
    return out


def _rand(mixture: cc.Mixture, truth: Array) -> float:
    order = [int(e[1:]) for e in mixture.experts_]
    return adjusted_rand(mixture.responsibilities_.argmax(axis=1), truth[order])


def homogeneous() -> dict[str, Any]:
    """One opinion among 60 experts on 15 items, held loosely or closely: how often it is found to be one camp."""
    out: dict[str, Any] = {"one_camp": {}, "sets": {}}
    own, shares = {"Mallows": "Mallows"}, []
    for kind, noise, sets in HOMOGENEOUS:
        found = np.array(_each([(kind, noise, 1, seed, name) for name in MODELS for seed in range(sets)]))
        alone = dict(zip(MODELS, (found[:, 0] == 1).reshape(len(MODELS), sets).sum(axis=1).tolist(), strict=True))
        data = f"{kind}, {noise:g} (tau {found[:, 2].mean():.2f})"
        out["one_camp"][data], out["sets"][data] = alone, sets
        shares += [alone[m] / sets for m in MODELS if kind == own.get(m, "Plackett-Luce")]
    out["met"] = min(shares) >= 0.95
    return out


def uneven() -> dict[str, Any]:
    """One opinion, sure of some items and unsure of others: Plackett-Luce with normal scores of deviation 1.5."""
    found = _each([("uneven", 1.5, 1, seed, name) for name in MODELS for seed in range(UNEVEN)])
    alone = (np.array(found)[:, 0] == 1).reshape(len(MODELS), UNEVEN).sum(axis=1)
    return {"sets": UNEVEN, "one_camp": dict(zip(MODELS, alone.tolist(), strict=True))}


def sushi() -> cc.Preferences:
    """Return the rankings of ten kinds of sushi by 5,000 people."""
    with open(DATA / SUSHI, encoding="utf-8", newline="") as handle:
        head, *rows = list(csv.reader(handle))
    person = [row[0] for row in rows for _ in head[1:]]
    return cc.Preferences(
        ["sushi"] * len(person), person, head[1:] * len(rows), [float(v) for r in rows for v in r[1:]]
    )


def real() -> dict[str, Any]:
    """Camps of real ballots: how many, how large, and what each likes."""
    if not (DATA / SUSHI).is_file():
        return {"not_available": SUSHI}
    out: dict[str, Any] = {"sushi": {}, "elections": {}}
    votes = sushi()
    for name, make in MODELS.items():
        mixture, seconds = _fitted(votes, make())
        out["sushi"][name] = {
            "seconds": seconds,
            "shares": mixture.shares_.tolist(),
            "held_out": mixture.selection_,
            "sure": float((mixture.responsibilities_.max(axis=1) > 0.8).mean()),
        }
        if name == "Plackett-Luce":
            whole = mixture.consensus_
            out["camps"] = [
                {"ranking": camp.ranking(), "above": _above(camp, whole), "below": _above(whole, camp)}
                for camp in mixture.camps_
            ]
            out["all"] = whole.ranking()
    for path, title in ELECTIONS.items():
        votes = cc.read_preflib(DATA / "preflib" / path)
        mixture, seconds = _fitted(votes, MODELS["Plackett-Luce"]())
        taus = [tau(a, b) for a, b in combinations([np.argsort(-c.score) for c in mixture.camps_], 2)]
        out["elections"][title] = {
            "voters": float(votes.weights.sum()),
            "options": votes.n_slots,
            "shares": mixture.shares_.tolist() if mixture.n_components_ > 1 else [1.0],
            "tau_between": taus,
            "seconds": seconds,
        }
    return out


def _above(camp: cc.Consensus, other: cc.Consensus) -> list[str]:
    """Return the items that one board ranks at least two places above the other, those of the largest gap first."""
    gap = other.rank - camp.rank
    return [camp.items[int(s)] for s in np.argsort(-gap, kind="stable") if gap[s] >= 2]


def _render_recovery(r: dict[str, Any]) -> str:
    rows: dict[tuple[str, str, int], list[str]] = {}
    for cell in r["cells"]:
        key = (cell["data"], cell["noise"], cell["camps"])
        row = rows.setdefault(key, [cell["data"], f"{cell['tau_with_centre']:.2f}", str(cell["camps"])])
        found = np.array(cell["rand"])
        row.append(f"{cell['right_number']}, {found.mean():.3f} ({found.min():.2f})")
    text: str = table(["data", "tau", "camps", *(f"mixture of {m}" for m in MODELS)], list(rows.values()))
    seconds = float(np.mean([c["seconds"] for c in r["cells"]]))
    return text + (
        f"\n\n{r['experts']} experts rank {r['items']} items completely; tau is that of an expert with the centre of "
        f"the camp. In each cell of {r['sets']} sets: how often the number is right, and the mean and the least "
        "adjusted Rand index, the number being chosen. Target, where experts follow their "
        f"centre closely (tau of about 0.7): a mean of at least 0.95, {'met' if r['met'] else 'not met'}. Where they "
        f"hardly follow it, camps overlap. A fit with the choice of the number takes {seconds:.1f} s of processor time."
    )


def _render_homogeneous(r: dict[str, Any]) -> str:
    rows = [[data, *(f"{row[m]} of {r['sets'][data]}" for m in MODELS)] for data, row in r["one_camp"].items()]
    text: str = table(["data from", *(f"mixture of {m}" for m in MODELS)], rows)
    return text + (
        "\n\nThe number is the spacing of scores, or −θ of Mallows; tau is that of an expert with the true order. "
        "Target: one camp in 95 of 100 sets of data like the model (Plackett-Luce for Bradley-Terry and MPM): "
        f"{'met' if r['met'] else 'not met'}."
    )


def _render_uneven(r: dict[str, Any]) -> str:
    text: str = table([f"mixture of {m}" for m in MODELS], [[f"{r['one_camp'][m]} of {r['sets']}" for m in MODELS]])
    return text + (
        "\n\nHow often the crowd is one camp. Mallows has one dispersion for all items: where a crowd is sure of some "
        "items and unsure of others, its mixture may take the difference for camps."
    )


def _draw(r: dict[str, Any], names: list[str]) -> str:
    """Draw the camps of sushi and return the link to the picture."""
    import matplotlib as mpl

    def board(ranking: list[str]) -> cc.Consensus:
        rank = {item: n for n, item in enumerate(ranking)}
        return cc.Consensus(["sushi"] * len(r["all"]), r["all"], [-float(rank[i]) for i in r["all"]])

    boards = {"all": board(r["all"])}
    boards |= {name: board(camp["ranking"]) for name, camp in zip(names, r["camps"], strict=True)}
    with mpl.rc_context({"svg.hashsalt": "concordant"}):
        figure: Any = cc.plots.camps(boards).figure
        figure.savefig(PICTURE, metadata={"Date": None})
    return f"![Ten kinds of sushi as ranked by all people and by each camp](results/{PICTURE.name})"


def _render_real(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = []
    for name, v in r["sushi"].items():
        held = v["held_out"]
        gains = [f"{(held['held_out'][0] - s) * -1:+.3f}" for s in held["held_out"][1:]]
        shares = ", ".join(f"{s:.0%}" for s in v["shares"])
        rows.append(
            [name, shares, ", ".join(gains), f"{held['stderr'][0]:.3f}", f"{v['sure']:.0%}", f"{v['seconds']:.0f} s"]
        )
    head = ["mixture of", "camps", "held-out log-likelihood of 2, 3, ... less one camp", "standard error of the most"]
    parts = [table([*head, "experts with a probability above 0.8", "processor time"], rows)]
    parts.append(
        "Six camps are the most that are tried, and held-out people still gain a little from the sixth: tastes are "
        "more of a continuum than in planted data, and many people are between camps."
    )
    rows = [["all", "", ", ".join(r["all"]), "", ""]]
    shares = r["sushi"]["Plackett-Luce"]["shares"]
    names = [NAMES.get(tuple(camp["ranking"][:2]), f"camp {c}") for c, camp in enumerate(r["camps"], start=1)]
    for name, camp, share in zip(names, r["camps"], shares, strict=True):
        rows.append(
            [name, f"{share:.0%}", ", ".join(camp["ranking"]), ", ".join(camp["above"]), ", ".join(camp["below"])]
        )
    parts.append("Camps of 5,000 people by ten kinds of sushi, mixture of Plackett-Luce:")
    parts.append(table(["camp", "share", "ranking", "two places or more above all", "below"], rows))
    parts.append(_draw(r, [f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True)]))
    rows = [
        [
            title,
            f"{v['voters']:.0f}",
            str(v["options"]),
            ", ".join(f"{s:.0%}" for s in v["shares"]),
            f"{min(v['tau_between']):.2f} to {max(v['tau_between']):.2f}" if v["tau_between"] else "–",
        ]
        for title, v in r["elections"].items()
    ]
    parts.append("Ballots of elections, mixture of Plackett-Luce:")
    parts.append(table(["ballots", "voters", "options", "camps", "tau between camps"], rows))
    return "\n\n".join(parts)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "camps_recovery": recovery,
    "camps_homogeneous": homogeneous,
    "camps_uneven": uneven,
    "camps_real": real,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "camps_recovery": _render_recovery,
    "camps_homogeneous": _render_homogeneous,
    "camps_uneven": _render_uneven,
    "camps_real": _render_real,
}

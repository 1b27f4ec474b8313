"""Frozen answers: every method at its defaults and at two other settings, on golden cases, the sample and real data.

`python -m tests.answers.cases METHOD...` freezes the answers of these methods. Do that for a new method, or where an
answer is meant to change, and say then in the CHANGELOG which and why. Without a name it lists the methods that have no
settings here.

Frozen on 2026-11-16, before the source was rearranged: all but those that follow. Frozen on 2026-11-19, from the first
source that had them all: approval, baldwin, blend, boosted-trees, bucklin, coombs, dbsf, elo, irv, minimax, mixture,
nanson, plurality, ranked-pairs, rbc, schulze, stuart and stv.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import concordant as cc
from concordant.data import sample
from concordant.errors import ConcordantError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = Path(os.environ.get("CONCORDANT_DATA") or ROOT.parent / "shared" / "data")

Settings = dict[str, Any]
_RANKER: tuple[Settings, Settings] = ({"hidden": 4, "max_iter": 10}, {"l2": 0.01, "expert_features": "svd"})
_NORM: tuple[Settings, Settings] = ({"norm": "z-score"}, {"norm": "sum"})

# Defaults that changed after the answers were frozen (docs/what-changed.md): what they were.
FROZEN_DEFAULTS: dict[str, Settings] = {"svp": {"average": False}}
# Two settings beside the defaults, where a method has that many. Iterations are cut where the default takes long; so
# are the defaults of CUT.
SETTINGS: dict[str, tuple[Settings, ...]] = {
    "approval": ({"k": 2}, {"k": 5}),
    "baldwin": ({"ties": "keep"}, {"missing": "below"}),
    "blend": (
        {"members": ["rrf", "comb-sum"], "l2": 0.1, "gain": "linear"},
        {"members": ["borda", "rrf", "isr"], "weights": "equal"},
    ),
    "boosted-trees": ({"objective": "xendcg", "trees": 10}, {"leaves": 8, "trees": 20, "models": 2}),
    "borda": ({"missing": "zero"}, {"missing": "mean"}),
    "bradley-terry": ({"reliability": True}, {"ties": "davidson", "prior": 0.5}),
    "bucklin": (),
    "comb-anz": _NORM,
    "comb-max": _NORM,
    "comb-med": _NORM,
    "comb-min": _NORM,
    "comb-mnz": _NORM,
    "comb-mnz-rank": ({"k": 5}, {"ties": "min"}),
    "comb-sum": _NORM,
    "condorcet": ({"fusion": True}, {"missing": "unknown"}),
    "coombs": ({"majority": False}, {"ties": "keep", "missing": "below"}),
    "copeland": ({"missing": "below"}, {"missing": "unknown"}),
    "cps": ({"distance": "footrule"}, {"adherence": "supervised"}),
    "crf": ({"weights": "mixed", "passes": 10}, {"solver": "lbfgs", "passes": 20, "l2": 0.01, "transform": "rankdiff"}),
    "dbsf": ({"clip": False}, {"ddof": 1}),
    "elo": ({"k": 4}, {"scale": 100, "initial": 0}),
    "extended-mallows": ({"k": 5, "missing": "below"}, {"inference": "borda", "max_iter": 5}),
    "irv": ({"ties": "keep"},),
    "isr": ({"ties": "min"}, {"ties": "average"}),
    "kemeny": ({"missing": "unknown", "solver": "local"}, {"solver": "local"}),
    "lambdarank": _RANKER,
    "list-mle": _RANKER,
    "listwise-linear": ({"weights": "consensus"}, {"transform": "binary", "l2": 0.1, "gain": "linear"}),
    "log-isr": ({"sigma": 0.5}, {"ties": "min"}),
    "mallows": ({"missing": "below", "time_limit": 3600}, {"dispersion": -0.5, "time_limit": 3600}),
    "markov-chain": ({"chain": 1}, {"chain": 2, "missing": "below"}),
    "mean-rank": ({"missing": "ignore"}, {"missing": "last"}),
    "median-rank": ({}, {}),
    "minimax": ({"opposition": "winning-votes"}, {"opposition": "pairwise", "missing": "below"}),
    "mixture": ({"components": 2, "n_starts": 2}, {"of": "mallows", "components": 2, "n_starts": 2}),
    "mpm": ({"adherence": "learned", "variances": True}, {"adherence": "supervised", "transform": "log"}),
    "nanson": ({"keep_average": True}, {"missing": "below"}),
    "pair-ties": ({"model": "rao-kupper"}, {"second_order": True, "max_iter": 10}),
    "plackett-luce": (
        {"adherence": True, "missing": "below"},
        {"prior": 0.5, "ties": "partition", "uncertainty": "bootstrap", "n_bootstrap": 20},
    ),
    "plurality": (),
    "pmop": ({"inference": "gibbs", "max_iter": 5}, {"second_order": True, "max_iter": 10}),
    "rank-regress": _RANKER,
    "ranknet": _RANKER,
    "ranksvm": _RANKER,
    "ranked-pairs": ({"strength": "winning-votes"}, {"missing": "below"}),
    "rbc": ({"phi": 0.8}, {"ties": "min"}),
    "robust-rank": ({"missing": "ignore"}, {"correction": "bonferroni"}),
    "rrf": ({"k": 10}, {"ties": "min"}),
    "schulze": ({"strength": "margins"}, {"missing": "below"}),
    "stuart": ({"missing": "ignore"}, {"total": 1000}),
    "stv": ({"seats": 2}, {"quota": "hare", "transfer": "meek", "seats": 2}),
    "svd-rank": ({"strength": "binary", "passes": 10}, {"weights": "consensus", "p": 2, "passes": 10}),
    "svp": ({"transform": "binary"}, {"average": True, "rank": 4}),
    "ulara": ({"update": "gd", "eta": 0.01}, {"nu": 2, "kappa": 10}),
    "weighted-sum": _NORM,
}
# Kemeny, and the centre of Mallows, have time for their proofs on a busy machine too.
CUT: dict[str, Settings] = {
    "blend": {"members": ["listwise-linear", "rrf"]},
    "boosted-trees": {"trees": 30},
    "crf": {"passes": 20},
    "mixture": {"max_components": 2, "n_starts": 2},
    "svd-rank": {"passes": 20},
    "kemeny": {"time_limit": 3600},
    "mallows": {"time_limit": 3600},
}


def _ranked(table: list[list[int]]) -> cc.Preferences:
    """Return the votes of a golden table: a row for each item, a column for each expert, 0 where there is no rank."""
    rows = [("q", f"e{k}", f"i{i}", rank) for i, ranks in enumerate(table) for k, rank in enumerate(ranks) if rank]
    return cc.Preferences(*zip(*rows, strict=True))


@dataclass(frozen=True)
class Case:
    """Votes to aggregate and, for methods that learn from labels, those to learn from."""

    votes: cc.Preferences | cc.Comparisons
    training: cc.Preferences | None = None
    labels: cc.Labels | None = None


def _golden_small() -> Case:
    return Case(_ranked([[1, 3, 0], [2, 1, 5], [4, 0, 1], [0, 10, 2]]))


def _golden_missing() -> Case:
    return Case(_ranked([[1, 2, 1, 0], [2, 1, 0, 3], [3, 0, 2, 1], [0, 3, 3, 2], [9, 0, 0, 0]]))


def _sample_runs() -> Case:
    runs, labels = cc.read_runs(sample.path("runs")), cc.read_labels(sample.path("qrels.txt"))
    return Case(runs[34:], runs[:34], labels)


def _sample_votes() -> Case:
    return Case(cc.read_comparisons(sample.path("votes.csv")))


def _sample_ballots() -> Case:
    return Case(cc.read_preflib(sample.path("ballots.soi")))


def _mq2008_agg() -> Case:
    train, _, test = cc.read_letor_folds(DATA / "MQ2008-agg")[0]
    return Case(test.preferences[:20], train.preferences[:60], train.labels)


def _llmfao() -> Case:
    columns = "left=left,right=right,winner=winner,expert=worker"
    return Case(cc.read_comparisons(DATA / "llmfao-pairwise" / "llmfao.csv", columns=columns))


CASES: dict[str, Callable[[], Case]] = {
    "golden-small": _golden_small,
    "golden-missing": _golden_missing,
    "sample-runs": _sample_runs,
    "sample-votes": _sample_votes,
    "sample-ballots": _sample_ballots,
    "real-mq2008-agg": _mq2008_agg,
    "real-llmfao": _llmfao,
}
case = cache(lambda name: CASES[name]())


def settings(method: str) -> list[Settings]:
    """Return the parameters to try: the defaults and two other settings."""
    return [FROZEN_DEFAULTS.get(method, {}) | given for given in (CUT.get(method, {}), *SETTINGS[method])]


def questions(name: str) -> Iterator[tuple[str, int]]:
    """Yield the methods, and the numbers of their settings, that a case can be asked."""
    accepts = "comparisons" if "votes" in name or "llmfao" in name else "rank"
    for method in SETTINGS:
        cls = cc.METHODS[method]
        if accepts in cls.tags.accepts:
            for k, params in enumerate(settings(method)):
                if CASES[name] in (_sample_runs, _mq2008_agg) or not cls(**params).needs_labels():
                    yield method, k


def answer(name: str, method: str, k: int) -> dict[str, NDArray[Any]]:
    """Return what a method answers to a case: scores, ranks and standard errors, or the error it raises."""
    asked, aggregator = case(name), cc.METHODS[method](**settings(method)[k])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if aggregator.needs_labels():
                aggregator.fit(asked.training, asked.labels)
            elif not aggregator.tags.per_instance and asked.training is not None:
                aggregator.fit(asked.training)
            else:
                aggregator.fit(asked.votes)
            found = aggregator.predict(asked.votes)
        except ConcordantError as error:
            return {"error": np.array(type(error).__name__)}
    out = {"score": found.score, "rank": found.rank, "stderr": found.stderr}
    return {what: np.asarray(values) for what, values in out.items() if values is not None}


def arithmetic() -> str:
    """Return what tells processors and versions apart whose sums differ in the last bit, which long fits multiply."""
    from importlib.metadata import version

    table = np.random.default_rng(1).random((96, 96))
    results = (table @ table, np.linalg.eigh(table + table.T)[0], np.exp(table), np.log(table), table.sum(axis=0))
    digest = sha256(b"".join(r.tobytes() for r in results)).hexdigest()[:12]
    return " ".join([digest, *(f"{name}-{version(name)}" for name in ("numpy", "scipy", "numba"))])


def main() -> None:
    """Freeze the answers of the methods that are named to every case, and the arithmetic they were computed with."""
    if not sys.argv[1:]:
        sys.exit("without settings: " + (", ".join(sorted(set(cc.METHODS) - set(SETTINGS))) or "no method"))
    for name in CASES:
        path = HERE / f"{name}.npz"
        with np.load(path) as file:
            kept = {key: values for key, values in file.items() if not set(key.split("/")) & set(sys.argv[1:])}
        for method, k in questions(name):
            if method in sys.argv[1:]:
                kept |= {f"{method}/{k}/{what}": values for what, values in answer(name, method, k).items()}
                kept[f"arithmetic/{method}"] = np.array(arithmetic())
        np.savez_compressed(path, **kept)


if __name__ == "__main__":
    main()

"""Crowd judgements with few gold labels, in five random splits of the topics.

A topic is an instance and a worker is an expert: documents judged relevant have rank 1, the others rank 2. Workers with
many judgements have their own weights; the others share one matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import concordant as cc
from concordant.data.streams import id_hash

__all__ = ["SYNTHETIC", "Crowd", "Part", "counts", "judged", "parts", "read"]

SYNTHETIC = "synthetic-crowd"
CUTOFFS = {f"N@{k}": f"ndcg@{k}" for k in range(1, 11)}
# In the papers' data: the smallest number of judgements of a worker with its own weights, and of all judgements.
_KNOWN_FROM, _JUDGEMENTS = 500, 89_624
PASSES, RATE = 200, 0.01


class Crowd(NamedTuple):
    """Judgements of workers, gold labels of some documents, and notes from reading them."""

    votes: cc.Preferences
    gold: cc.Labels
    met: dict[str, int]


class Part(NamedTuple):
    """One part of a split: all votes, those about gold documents, and the gold labels."""

    votes: cc.Preferences
    gold_votes: cc.Preferences
    gold: cc.Labels


@cache
def read(folder: str) -> Crowd:
    """Return the judgements of the topics that have gold labels, as ranks 1 and 2, and these labels."""
    if folder == SYNTHETIC:
        return _synthetic()
    said, met = _judgements(Path(folder))
    gold: dict[str, dict[str, int]] = {}
    for line in (Path(folder) / "task1_unlabeled_g_truth_cons_public.txt").read_text().splitlines()[1:]:
        fields = line.split("\t")
        if fields[3] != "-1":
            gold.setdefault(fields[1], {})[fields[2]] = int(fields[3])
    kept = sorted((t, w, d, v) for (t, d, w), v in said.items() if t in gold and v != 0)
    return _crowd(kept, gold, met | {"judgements": len(said)})


def _judgements(folder: Path) -> tuple[dict[tuple[str, str, str], int], dict[str, int]]:
    """Return the judgements of documents by topic, and the numbers of repeated and of contradictory ones."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for name, columns in (("votes", (1, 2, 3)), ("otherparticipantsvotes", (0, 1, 2))):
        for line in (folder / name).read_text().splitlines():
            fields = line.split()
            question, worker, said = (fields[c] for c in columns)
            topic, _, document = question.partition("_")
            # The two files number their workers independently.
            who = worker if worker.startswith("worker_") else f"own_{worker}"
            sums.setdefault((topic, document, who), []).append(1 if said == "1" else -1)
    met = {
        "asked again": sum(len(s) - 1 for s in sums.values()),
        "undecided": sum(len(s) > 1 and sum(s) == 0 for s in sums.values()),
    }
    return {key: int(np.sign(sum(s))) for key, s in sums.items()}, met


def _crowd(
    kept: Sequence[tuple[str, str, str, int]], gold: Mapping[str, Mapping[str, int]], met: dict[str, int]
) -> Crowd:
    topics, workers, documents, values = zip(*kept, strict=True)
    votes = cc.Preferences(topics, workers, documents, [1 if v > 0 else 2 for v in values], kind="rank")
    rows = [(t, d, label) for t, of_topic in sorted(gold.items()) for d, label in sorted(of_topic.items())]
    labels = cc.Labels(*(list(column) for column in zip(*rows, strict=True)))
    return Crowd(votes, labels, met)


def _synthetic() -> Crowd:
    """Return 25 topics judged by a few active workers, careful or inverted, and many others with few judgements."""
    rng = np.random.default_rng(5)
    right = [0.9, 0.9, 0.85, 0.25, 0.2] + [0.65] * 80
    share = [0.5] * 5 + [0.02] * 80
    kept, gold = [], {}
    for topic in (f"t{n:02}" for n in range(25)):
        truth = {f"d{n:02}": int(rng.random() < 0.4) for n in range(30)}
        gold[topic] = {d: truth[d] for d in list(truth)[:12]}
        for worker, (chance, part) in enumerate(zip(right, share, strict=True)):
            for document, label in truth.items():
                if rng.random() < part:
                    agrees = rng.random() < chance
                    kept.append((topic, f"w{worker:02}", document, 1 if agrees == (label > 0) else -1))
    return _crowd(sorted(kept), gold, {"judgements": len(kept), "asked again": 0, "undecided": 0})


@cache
def parts(folder: str, number: int) -> tuple[Part, Part, Part]:
    """Return the train, validation and test part (60, 20, 20 percent of the topics) of the number-th random split.

    The split depends on the ids of the topics, not on their order.
    """
    crowd = read(folder)
    gold_votes = _only_gold(crowd.votes, crowd.gold)
    order = sorted(crowd.votes.instances.tolist(), key=lambda t: (id_hash(f"split {number}:{t}"), t))
    a, b = round(0.6 * len(order)), round(0.8 * len(order))
    train, vali, test = (
        Part(_of(crowd.votes, some), _of(gold_votes, some), _of(crowd.gold, some))
        for some in (order[:a], order[a:b], order[b:])
    )
    return train, vali, test


def _of(container: Any, topics: list[str]) -> Any:
    codes = container.instances.codes
    return container[np.array([codes[t] for t in topics if t in codes], dtype=np.int64)]


def _only_gold(votes: cc.Preferences, gold: cc.Labels) -> cc.Preferences:
    """Return the judgements of gold documents only."""
    row = np.flatnonzero(~np.isnan(gold.align(votes).label[votes.slot]))
    slot = votes.slot[row]
    return cc.Preferences(
        votes.instances[votes.slots.instance[slot]].tolist(),
        votes.experts[votes.row_expert[row]].tolist(),
        votes.items[slot].tolist(),
        votes.value[row],
        kind="rank",
    )


def known_from(n_judgements: int) -> int:
    """Return the smallest number of judgements of a worker with its own weights, scaled to the training part."""
    return max(2, round(_KNOWN_FROM * n_judgements / (0.6 * _JUDGEMENTS)))


def judged(
    *, folder: str, split: int, way: str, only_gold: bool, weights: str, rates: Sequence[float], passes: int, seeds: int
) -> dict[str, Any]:
    """Evaluate a method on the gold documents of the test topics of a split, for each seed.

    Parameters
    ----------
    folder, split
        Which data, and which random split.
    way : {"learned", "crf", "majority", "condorcet"}
        SVD features with LambdaRank; the CRF; the mean judgement; by majorities over pairs.
    only_gold : bool
        Whether the features see judgements of gold documents only.
    weights : {"mixed", "consensus"}
        Whether workers with many judgements have weights of their own.
    rates : list of float
        Learning rates; the validation part chooses where there are several.
    passes, seeds : int
        As they say.
    """
    train, vali, test = parts(folder, split)
    votes = [part.gold_votes if only_gold else part.votes for part in (train, vali, test)]
    values, details = [], {}
    for seed in range(seeds if way in ("learned", "crf") else 1):
        if way == "majority":
            consensus = _majority(test.votes)
        elif way == "condorcet":
            consensus = cc.Condorcet().fit_predict(test.votes)
        elif way == "crf":
            crf = cc.CRF(
                transform="binary",
                weights=weights,
                passes=passes,
                unjudged="drop",
                unknown_experts="ignore",
                random_state=seed,
            )
            consensus = crf.fit(votes[0], train.gold, validation=(votes[1], vali.gold)).predict(votes[2])
            details = _known(crf, train, test)
        else:
            least = known_from(votes[0].n_rows)
            own: dict[str, Any] = {"min_lists": 1, "min_rows": least} if weights == "mixed" else {}
            model = cc.SVDRank(
                strength="binary",
                scaling="paper",
                average=0.0,
                l2=0.0,
                weights=weights,
                learning_rate=tuple(rates) if len(rates) > 1 else rates[0],
                passes=passes,
                unjudged="drop",
                unknown_experts="ignore",
                random_state=seed,
                **own,
            )
            model.fit(votes[0], train.gold, validation=(votes[1], vali.gold))
            consensus = model.predict(votes[2])
            details = _known(model, train, test) | {"known_from": least}
        found = cc.evaluate(_on_gold(consensus, test.gold), test.gold, list(CUTOFFS.values()), convention="paper")
        values.append({column: float(found.mean[metric]) for column, metric in CUTOFFS.items()})
    return {"values": values} | details


def _majority(votes: cc.Preferences) -> cc.Consensus:
    """Return the mean judgement of every document."""
    said = np.where(votes.value == 1, 1.0, -1.0)
    total = np.bincount(votes.slot, weights=said, minlength=votes.n_slots)
    n = np.bincount(votes.slot, minlength=votes.n_slots)
    return cc.Consensus.from_codes(votes.slots, total / np.maximum(n, 1))


def _on_gold(consensus: cc.Consensus, gold: cc.Labels) -> cc.Consensus:
    """Return the consensus of the gold documents, with documents without judgements last."""
    found = gold.slots.locate(consensus.slots)
    low = float(consensus.score.min()) - 1.0
    score = np.where(found >= 0, consensus.score[np.maximum(found, 0)], low)
    return cc.Consensus.from_codes(gold.slots, score)


def _known(model: Any, train: Part, test: Part) -> dict[str, Any]:
    """Return the number of workers with their own weights, and their share of the judgements."""
    names = [e for e in model.experts_ if e != "*"]

    def rows(votes: cc.Preferences) -> int:
        code = votes.experts.codes
        return int(np.isin(votes.row_expert, [code[e] for e in names if e in code]).sum())

    n = max(len(names), 1)
    return {
        "known_workers": len(names),
        "gold_judgements_each": rows(train.gold_votes) / n,
        "share_of_tested_judgements": rows(test.gold_votes) / max(test.gold_votes.n_rows, 1),
    }


def counts(folder: str) -> dict[str, Any]:
    """Return the size of the data and the accuracy of single judgements."""
    crowd = read(folder)
    label = crowd.gold.align(crowd.votes).label[crowd.votes.slot]
    known = ~np.isnan(label)
    right = (crowd.votes.value[known] == 1) == (label[known] > 0)
    sizes = [[len(part.gold), part.gold.n_slots] for number in range(5) for part in parts(folder, number)]
    return crowd.met | {
        "on gold topics": crowd.votes.n_rows,
        "workers": crowd.votes.n_experts,
        "topics": len(crowd.gold),
        "documents": crowd.votes.n_slots,
        "gold": crowd.gold.n_slots,
        "by label": {f"{k:g}": n for k, n in sorted(Counter(crowd.gold.label.tolist()).items())},
        "agreement": float(right.mean()),
        "train gold": float(np.mean([n for _, n in sizes[::3]])),
        "test topics": sizes[2][0],
        "test gold": [min(n for _, n in sizes[2::3]), max(n for _, n in sizes[2::3])],
    }

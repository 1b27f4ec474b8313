"""Crowd judgements with few gold labels: the protocol of SPEC 12.3 on the task of TREC 2011 that is available.

A topic is an instance, a worker an expert: what it judged relevant ranks first, what it judged not relevant second.
Workers with many judgements have weights of their own, the others share one block: how many are many is scaled to the
size of the data.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from measure import ROOT
from render import table

import concordant as cc
from concordant.data.streams import id_hash
from concordant.errors import ConcordantWarning

FOLDER = ROOT.parent / "shared" / "data" / "trec2011-crowd"
SPLITS = 5
SEEDS = 5
METRICS = [f"ndcg@{k}" for k in range(1, 11)]
PUBLISHED_ORDER = ("LR-unlabeled", "LR-labeled", "LR-consensus", "majority vote")
# The set of the papers: its size, from how many judgements on a worker had weights of its own, and its gold labels.
THEIRS = {"judgements": 89_624, "known_from": 500, "workers": 762, "topics": 100, "gold": 2_275}
PASSES, RATE = 200, 0.01
# Beside the rate of the papers, what validation may choose among: here u and v are larger or smaller than there.
RATES = (0.01, 0.1, 1.0)

Judgements = dict[tuple[str, str, str], int]


class Crowd(NamedTuple):
    """What workers say about documents, and the gold labels of some of them."""

    votes: cc.Preferences
    gold: cc.Labels
    counts: dict[str, Any]


def available() -> bool:
    """Return whether the data is here."""
    return FOLDER.is_dir()


def _judgements() -> tuple[Judgements, Counter[str]]:
    """Return (topic, document, worker) -> sum of +1 and -1, and how often a worker judged a document again."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for name, columns in (("votes", (1, 2, 3)), ("otherparticipantsvotes", (0, 1, 2))):
        with (FOLDER / name).open() as lines:
            for line in lines:
                fields = line.split()
                question, worker, said = (fields[c] for c in columns)
                topic, _, document = question.partition("_")
                # The two files number their workers apart.
                who = worker if worker.startswith("worker_") else f"own_{worker}"
                sums.setdefault((topic, document, who), []).append(1 if said == "1" else -1)
    again: Counter[str] = Counter()
    for said_all in sums.values():
        if len(said_all) > 1:
            again["repeated"] += len(said_all) - 1
            again["undecided"] += sum(said_all) == 0
    return {key: int(np.sign(sum(said_all))) for key, said_all in sums.items()}, again


def _gold() -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    with (FOLDER / "task1_unlabeled_g_truth_cons_public.txt").open() as lines:
        next(lines)
        for line in lines:
            fields = line.split("\t")
            if fields[3] != "-1":
                out.setdefault(fields[1], {})[fields[2]] = int(fields[3])
    return out


def read() -> Crowd:
    """Return the judgements of the topics that have gold labels, as ranks 1 and 2, and these labels."""
    said, again = _judgements()
    gold = _gold()
    kept = sorted((t, w, d, v) for (t, d, w), v in said.items() if t in gold and v != 0)
    topics, workers, documents, values = zip(*kept, strict=True)
    votes = cc.Preferences(topics, workers, documents, [1 if v > 0 else 2 for v in values], kind="rank")
    rows = [(t, d, label) for t, of_topic in sorted(gold.items()) for d, label in sorted(of_topic.items())]
    labels = cc.Labels(*(list(column) for column in zip(*rows, strict=True)))
    right = [(v > 0) == (gold[t][d] > 0) for t, _, d, v in kept if d in gold[t]]
    counts = {
        "judgements": len(said),
        "judgements_of_gold_topics": len(kept),
        "judgements_of_gold_documents": len(right),
        "workers": len(set(workers)),
        "topics": len(gold),
        "documents": votes.n_slots,
        "gold": len(rows),
        "gold_by_label": {str(k): n for k, n in sorted(Counter(r[2] for r in rows).items())},
        "judged_again": again["repeated"],
        "undecided": again["undecided"],
        "agreement_with_gold": mean(right),
    }
    return Crowd(votes, labels, counts)


class Split(NamedTuple):
    """The topics of a random split, 60, 20 and 20 percent."""

    train: list[str]
    vali: list[str]
    test: list[str]


def split(topics: list[str], number: int) -> Split:
    """Return the number-th random split of the topics; it follows the ids, not their order."""
    order = sorted(topics, key=lambda t: (id_hash(f"split {number}:{t}"), t))
    a, b = round(0.6 * len(order)), round(0.8 * len(order))
    return Split(order[:a], order[a:b], order[b:])


def _of(container: Any, topics: list[str]) -> Any:
    codes = container.instances.codes
    return container[np.array([codes[t] for t in topics if t in codes], dtype=np.int64)]


def _only_gold(votes: cc.Preferences, gold: cc.Labels) -> cc.Preferences:
    """Return the votes about gold documents, and about no others."""
    known = set(zip(gold.slots.instances[gold.slots.instance].tolist(), gold.items.tolist(), strict=True))
    frame = votes.to_frame()
    kept = [row for row in frame.select("instance", "expert", "item", "rank").rows() if (row[0], row[2]) in known]
    columns = zip(*kept, strict=True)
    return cc.Preferences(*(list(c) for c in columns), kind="rank")


def _on_gold(consensus: cc.Consensus, gold: cc.Labels) -> cc.Consensus:
    """Return the consensus about gold documents, those nobody judged at the end."""
    found = gold.slots.locate(consensus.slots)
    low = float(consensus.score.min()) - 1.0
    score = np.where(found >= 0, consensus.score[np.maximum(found, 0)], low)
    return cc.Consensus.from_codes(gold.slots, score)


def known_from(n_judgements: int) -> int:
    """Return from how many judgements on a worker is known by name: as large a share of the training part as theirs."""
    return max(2, round(THEIRS["known_from"] * n_judgements / (0.6 * THEIRS["judgements"])))


def _majority(votes: cc.Preferences) -> cc.Consensus:
    """Return the mean judgement of every document."""
    said = np.where(votes.value == 1, 1.0, -1.0)
    total = np.bincount(votes.slot, weights=said, minlength=votes.n_slots)
    n = np.bincount(votes.slot, minlength=votes.n_slots)
    return cc.Consensus.from_codes(votes.slots, total / np.maximum(n, 1))


class Data(NamedTuple):
    """One part of a split: all votes, votes about gold documents, and the gold labels."""

    votes: cc.Preferences
    gold_votes: cc.Preferences
    gold: cc.Labels


Answer = Callable[[Data, Data, Data, int], tuple[cc.Consensus, dict[str, Any]]]


def _learned(**params: Any) -> Answer:
    """Return the answer of SVDRank with LambdaRank; `only_gold` decides which documents the features see."""
    only_gold = params.pop("only_gold", False)

    def answer(train: Data, vali: Data, test: Data, seed: int) -> tuple[cc.Consensus, dict[str, Any]]:
        votes = [part.gold_votes if only_gold else part.votes for part in (train, vali, test)]
        threshold = known_from(votes[0].n_rows)
        own: dict[str, Any] = {"min_lists": 1, "min_rows": threshold} if params["weights"] == "mixed" else {}
        method = cc.SVDRank(
            strength="binary",
            scaling="paper",
            average=0.0,
            l2=0.0,
            passes=PASSES,
            unjudged="drop",
            unknown_experts="ignore",
            random_state=seed,
            **own,
            **({"learning_rate": RATE} | params),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            method.fit(votes[0], train.gold, validation=(votes[1], vali.gold))
        return method.predict(votes[2]), _known(method, threshold, train, test)

    return answer


def _known(method: Any, threshold: int, train: Data, test: Data) -> dict[str, Any]:
    """Return how many workers are known by name, and how much of what counts comes from them."""
    names = [e for e in method.experts_ if e != "*"]
    if not names:
        return {"chosen": dict(method.fit_info_.chosen)}
    heard = [len(part.gold_votes.select_experts(_there(part.gold_votes, names)).slot) for part in (train, test)]
    whole = train.votes.select_experts(_there(train.votes, names))
    return {
        "known_workers": len(names),
        "known_from": threshold,
        "gold_judgements_each": heard[0] / len(names),
        "topics_each": whole.n_lists / len(names),
        "share_of_tested_judgements": heard[1] / test.gold_votes.n_rows,
        "chosen": dict(method.fit_info_.chosen),
    }


def _there(votes: cc.Preferences, names: list[str]) -> list[str]:
    codes = votes.experts.codes
    return [name for name in names if name in codes]


def _fixed(way: Callable[[cc.Preferences], cc.Consensus]) -> Answer:
    return lambda _train, _vali, test, _seed: (way(test.votes), {})


WAYS: dict[str, tuple[Answer, int]] = {
    "LR-unlabeled": (_learned(weights="mixed"), SEEDS),
    "LR-labeled": (_learned(weights="mixed", only_gold=True), SEEDS),
    "LR-consensus": (_learned(weights="consensus"), SEEDS),
    "LR-unlabeled, rate chosen": (_learned(weights="mixed", learning_rate=RATES), SEEDS),
    "LR-labeled, rate chosen": (_learned(weights="mixed", only_gold=True, learning_rate=RATES), SEEDS),
    "LR-consensus, rate chosen": (_learned(weights="consensus", learning_rate=RATES), SEEDS),
    "majority vote": (_fixed(_majority), 1),
    "Condorcet": (_fixed(lambda votes: cc.Condorcet().fit_predict(votes)), 1),
}


def crowd() -> dict[str, Any]:
    """TREC 2011 crowd judgements (task 1): five random splits of the topics, NDCG on gold documents only."""
    if not available():
        return {"not_available": "trec2011-crowd"}
    return study(read(), "test")


def study(data: Crowd, tested: str) -> dict[str, Any]:
    """Return the values of every way in every split; `tested` is the part they are tested on."""
    topics = data.votes.instances.tolist()
    gold_votes = _only_gold(data.votes, data.gold)
    rows: dict[str, dict[str, Any]] = {name: {"splits": [], "details": []} for name in WAYS}
    sizes = []
    for number in range(SPLITS):
        parts = {}
        for name, some in split(topics, number)._asdict().items():
            parts[name] = Data(_of(data.votes, some), _of(gold_votes, some), _of(data.gold, some))
        sizes.append({name: {"topics": len(p.gold), "gold": p.gold.n_slots} for name, p in parts.items()})
        for name, (answer, seeds) in WAYS.items():
            values = []
            details: dict[str, Any] = {}
            for seed in range(seeds):
                consensus, details = answer(parts["train"], parts["vali"], parts[tested], seed)
                truth = parts[tested].gold
                values.append(cc.evaluate(_on_gold(consensus, truth), truth, METRICS, convention="paper").mean)
            rows[name]["splits"].append({m: mean(v[m] for v in values) for m in METRICS})
            rows[name]["details"].append(details)
    for row in rows.values():
        row["mean"] = {m: mean(s[m] for s in row["splits"]) for m in METRICS}
        row["sd"] = {m: stdev(s[m] for s in row["splits"]) for m in METRICS}
    order = sorted(rows, key=lambda n: -mean(rows[n]["mean"].values()))
    published = [(a, b) for i, a in enumerate(PUBLISHED_ORDER) for b in PUBLISHED_ORDER[i + 1 :]]
    pairs = {}
    for a, b in published:
        gaps = [mean(x.values()) - mean(y.values()) for x, y in zip(rows[a]["splits"], rows[b]["splits"], strict=True)]
        pairs[f"{a} > {b}"] = {"mean": mean(gaps), "sd": stdev(gaps), "splits_in_favour": sum(g > 0 for g in gaps)}
    return {"data": data.counts, "splits": sizes, "rows": rows, "order": order, "pairs": pairs}


def _render(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    d, shown = r["data"], [m for m in METRICS if m in ("ndcg@1", "ndcg@2", "ndcg@3", "ndcg@5", "ndcg@10")]
    rows = []
    for name in r["order"]:
        row = r["rows"][name]
        every = mean(row["mean"].values())
        cells = [f"{100 * row['mean'][m]:.1f} ± {100 * row['sd'][m]:.1f}" for m in shown]
        rows.append([name, *cells, f"{100 * every:.1f}"])
    full = [[name, *(f"{100 * r['rows'][name]['mean'][m]:.1f}" for m in METRICS)] for name in r["order"]]
    pairs = [
        [name, f"{100 * p['mean']:+.1f} ± {100 * p['sd']:.1f}", f"{p['splits_in_favour']} of {SPLITS}"]
        for name, p in r["pairs"].items()
    ]
    details = r["rows"]["LR-unlabeled"]["details"]
    known = [x["known_workers"] for x in details]
    each, topics, share = (
        mean(x[c] for x in details) for c in ("gold_judgements_each", "topics_each", "share_of_tested_judgements")
    )
    tested = [s["test"] for s in r["splits"]]
    held = [name for name, p in r["pairs"].items() if p["mean"] > 0]
    sure = [name for name, p in r["pairs"].items() if abs(p["mean"]) > 2 * p["sd"] / SPLITS**0.5]
    learned = round(mean(s["train"]["gold"] for s in r["splits"]))
    return "\n\n".join(
        [
            f"{d['judgements']:,} judgements, of which {d['judgements_of_gold_topics']:,} on the {d['topics']} topics "
            f"with gold labels: {d['workers']} workers, {d['documents']:,} documents, {d['gold']} gold labels "
            f"({', '.join(f'{n} of {label}' for label, n in d['gold_by_label'].items())}). Workers repeated themselves "
            f"{d['judged_again']} times; where they contradict themselves ({d['undecided']} documents) they count as "
            f"silent. On gold documents a judgement agrees with the label in {100 * d['agreement_with_gold']:.0f} of "
            "100 cases.",
            "Mean over five random splits of the topics (60/20/20) and the standard deviation between splits, in "
            f"percent; learned rows are means of {SEEDS} seeds, with the papers' learning rate of {RATE} or one chosen "
            f"on the validation part among {', '.join(map(str, RATES))}:",
            table(["", *shown, "mean of 1 to 10"], rows),
            "All cut-offs:",
            table(["", *METRICS], full),
            f"Published order: {' > '.join(PUBLISHED_ORDER)}. Ours by the mean over the cut-offs: "
            f"{' > '.join(n for n in r['order'] if 'chosen' not in n)}.",
            table(["published claim", "difference here", "splits in favour"], pairs),
            f"{len(held)} of {len(pairs)} published relations hold in the mean; larger than twice the standard error "
            f"over the splits: {', '.join(sure) or 'none'}. This is the sister task: {d['gold']} gold labels instead "
            f"of {THEIRS['gold']:,}, {d['topics']} topics instead of {THEIRS['topics']}. A training part has about "
            f"{learned} gold labels, a test part {tested[0]['topics']} topics and {min(t['gold'] for t in tested)} to "
            f"{max(t['gold'] for t in tested)} gold documents. The {min(known)} to {max(known)} workers known by name "
            f"(from {details[0]['known_from']} judgements on, as large a share of the training part as theirs) judged "
            f"{each:.0f} gold documents each, in {topics:.1f} training topics, and make {100 * share:.0f} percent of "
            "the judgements that are tested; weights of their own take them out of the common matrix, which is what "
            "so few labels can be spent on best.",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"crowd": crowd}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"crowd": _render}

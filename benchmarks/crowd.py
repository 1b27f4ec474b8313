"""Crowd judgements with few gold labels: the protocol of SPEC 12.3 on the task of TREC 2011 that is available.

The study is that of `concordant reproduce crowd`; what is added here is what its parts and its known workers look like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean, stdev
from typing import Any

import numpy as np
from render import table
from studies import DATA, values_of

from concordant_papers import crowd as study

FOLDER = DATA / "trec2011-crowd"
SPLITS = 5
SEEDS = 5
METRICS = list(study.CUTOFFS.values())
PUBLISHED_ORDER = ("LR-unlabeled", "LR-labeled", "LR-consensus", "majority vote")
# The set of the papers: its topics and its gold labels.
THEIRS = {"topics": 100, "gold": 2_275}
RATES = (0.01, 0.1, 1.0)
# Our names of what the study counts.
COUNTS = {
    "judgements": "judgements",
    "judgements_of_gold_topics": "on gold topics",
    "workers": "workers",
    "topics": "topics",
    "documents": "documents",
    "gold": "gold",
    "gold_by_label": "by label",
    "judged_again": "asked again",
    "undecided": "undecided",
    "agreement_with_gold": "agreement",
}


def crowd() -> dict[str, Any]:
    """TREC 2011 crowd judgements (task 1): five random splits of the topics, NDCG on gold documents only."""
    if not FOLDER.is_dir():
        return {"not_available": "trec2011-crowd"}
    return gathered(values_of("crowd", SEEDS), str(FOLDER))


def gathered(values: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the values of every way in every split from the cells of the study."""
    parts = [dict(zip(("train", "vali", "test"), study.parts(folder, n), strict=True)) for n in range(SPLITS)]
    rows: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(key.partition("/")[0] for key in values if "/" in key):
        cells = [values[f"{name}/split {n + 1}"] for n in range(SPLITS)]
        splits = [{m: mean(v[c] for v in cell["values"]) for c, m in study.CUTOFFS.items()} for cell in cells]
        rows[name] = {
            "splits": splits,
            "details": [
                {k: v for k, v in cell.items() if k != "values"}
                | (
                    {"topics_each": _topics_each(of["train"], name, cell)}
                    if cell.get("known_from") and cell["known_workers"]
                    else {}
                )
                for cell, of in zip(cells, parts, strict=True)
            ],
            "mean": {m: mean(s[m] for s in splits) for m in METRICS},
            "sd": {m: stdev(s[m] for s in splits) for m in METRICS},
        }
    pairs = {}
    for a, b in ((a, b) for i, a in enumerate(PUBLISHED_ORDER) for b in PUBLISHED_ORDER[i + 1 :]):
        gaps = [mean(x.values()) - mean(y.values()) for x, y in zip(rows[a]["splits"], rows[b]["splits"], strict=True)]
        pairs[f"{a} > {b}"] = {"mean": mean(gaps), "sd": stdev(gaps), "splits_in_favour": sum(g > 0 for g in gaps)}
    return {
        "data": {ours: values["data"][theirs] for ours, theirs in COUNTS.items()},
        "splits": [{n: {"topics": len(p.gold), "gold": p.gold.n_slots} for n, p in of.items()} for of in parts],
        "rows": rows,
        "order": sorted(rows, key=lambda n: -mean(rows[n]["mean"].values())),
        "pairs": pairs,
    }


def _topics_each(train: study.Part, way: str, cell: Mapping[str, Any]) -> float:
    """Return in how many training topics a worker judged who has weights of its own."""
    counted = train.gold_votes if way.startswith("LR-labeled") else train.votes
    rows = np.bincount(counted.row_expert, minlength=counted.n_experts)
    known = counted.experts[np.flatnonzero(rows >= cell["known_from"])].tolist()
    return train.votes.select_experts(known).n_lists / len(known)


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
    cells = {name: row["mean"] for name, row in r["rows"].items()}
    always = [
        n for n in r["pairs"] if (ab := n.split(" > ")) and all(cells[ab[0]][m] > cells[ab[1]][m] for m in METRICS)
    ]
    sure = [name for name, p in r["pairs"].items() if abs(p["mean"]) > 2 * p["sd"] / SPLITS**0.5]
    learned = round(mean(s["train"]["gold"] for s in r["splits"]))
    return "\n\n".join(
        [
            f"{d['judgements']:,} judgements, of which {d['judgements_of_gold_topics']:,} on the {d['topics']} topics "
            f"with gold labels: {d['workers']} workers, {d['documents']:,} documents, {d['gold']} gold labels "
            f"({', '.join(f'{n} of {label}' for label, n in d['gold_by_label'].items())}). Workers judged a document "
            f"again {d['judged_again']} times; if they contradict themselves ({d['undecided']} documents), the "
            f"judgement is dropped. On gold documents a judgement agrees with the label in "
            f"{100 * d['agreement_with_gold']:.0f} of 100 cases.",
            "Mean over five random splits of the topics (60/20/20) and the standard deviation between splits, in "
            f"percent; learned rows are means of {SEEDS} seeds, with the papers' learning rate of {study.RATE} or one "
            f"chosen on the validation part among {', '.join(map(str, RATES))}:",
            table(["", *shown, "mean of 1 to 10"], rows),
            "All cut-offs:",
            table(["", *METRICS], full),
            f"Published order: {' > '.join(PUBLISHED_ORDER)}. Ours by the mean over the cut-offs: "
            f"{' > '.join(n for n in r['order'] if 'chosen' not in n)}.",
            table(["published claim", "difference here", "splits in favour"], pairs),
            f"{len(always)} of {len(pairs)} published relations hold at every cut-off, as the paper states them, and "
            f"{len(held)} in the mean; larger than twice the standard error "
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

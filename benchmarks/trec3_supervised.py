"""TREC-3 with labels: models learned from runs and qrels of half the topics fuse the runs of the other half.

Everything is chosen by cross-validation within the training topics, the method too; the two commands a user would type
do the rest, and the fused runs are evaluated as files.
"""

from __future__ import annotations

import json
import sys
import tarfile
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from measure import CACHE, ROOT, run
from render import table

import concordant as cc
from concordant.errors import DataShiftWarning

SOURCE = ROOT.parent / "shared" / "data" / "trec3-adhoc"
TRAIN, TEST = range(151, 176), range(176, 201)
CUT = 1000
CONTENDERS = ("crf", "svd-rank", "listwise-linear")
BASELINES = ("rrf", "comb-sum", "comb-mnz")
# How much the best should gain over the baselines.
TARGET = 0.03
# What is tried on the training topics, by the cross-validation that each fit makes within them; what else a method
# chooses (transform, learning rate, penalty, pass) it chooses by the same.
LEARNED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "crf": ("crf", [{"missing": m} for m in ("unknown", "below")]),
    "svd-rank": ("svd-rank", [{"missing": m} for m in ("unknown", "below")]),
    "listwise-linear": ("listwise-linear", [{"missing": m} for m in ("unknown", "below")]),
    "rrf, weights learned": ("rrf", [{"weights": "learned"}]),
}


DEPTHS = (20, 100, 1000)
# Few passes, so that the section takes minutes.
AT_DEPTH: dict[str, Callable[[], Any]] = {
    "listwise-linear": cc.ListwiseLinear,
    "crf": lambda: cc.CRF(passes=100),
    "svd-rank": lambda: cc.SVDRank(passes=40),
    "rrf, weights learned": lambda: cc.RRF(weights="learned"),
    "weighted-sum, weights learned": lambda: cc.WeightedSum(weights="learned"),
}


# When learning pays: how many groups of systems are drawn of each kind.
GROUPS = 8
LEARNERS: dict[str, Callable[[], Any]] = {
    "rrf, weights learned": lambda: cc.RRF(weights="learned", select="map"),
    "listwise-linear": lambda: cc.ListwiseLinear(select="map"),
}


class Files(NamedTuple):
    """The runs and labels of some topics."""

    runs: Path
    qrels: Path


def available() -> bool:
    """Return whether the data is here."""
    return (SOURCE / "TREC-3-runs.tar.xz").exists()


def files_of(topics: Sequence[int], name: str) -> Files:
    """Return the lines of all forty runs and of the qrels that belong to some topics, as files."""
    whole = CACHE / "trec3"
    if not (whole / ".done").exists():
        whole.mkdir(parents=True, exist_ok=True)
        with tarfile.open(SOURCE / "TREC-3-runs.tar.xz") as archive:
            archive.extractall(whole, filter="data")
        (whole / ".done").touch()
    folder = CACHE / "trec3-supervised" / name
    out = Files(folder / "runs", folder / "qrels.txt")
    if not (folder / ".done").exists():
        out.runs.mkdir(parents=True, exist_ok=True)
        wanted = {str(t) for t in topics}
        pairs = [(p, out.runs / p.name) for p in sorted((whole / "TREC-3").glob("input.*"))]
        for source, target in [*pairs, (SOURCE / "T3-j.txt", out.qrels)]:
            with source.open() as lines, target.open("w") as kept:
                kept.writelines(line for line in lines if line.split(maxsplit=1)[0] in wanted)
        (folder / ".done").touch()
    return out


def _paths(files: Files) -> list[str]:
    return [str(p) for p in sorted(files.runs.glob("input.*"))]


def pool(files: Files, depth: int) -> cc.Preferences:
    """Return the first documents of every run, over these documents only: most others are in no list."""
    rows = cc.read_runs(_paths(files)).top(depth).to_frame().filter(pl.col("expert").is_not_null())
    return cc.from_frame(rows.drop("missing"), value="score", kind="score").with_missing("below")


def _concordant(*arguments: str) -> Any:
    return run([sys.executable, "-m", "concordant", *arguments])


def _fitted(name: str, train: Files, work: Path) -> tuple[Path, list[dict[str, Any]]]:
    """Return the model whose options did best in cross-validation on the training topics, and what came of each."""
    tried = []
    method, options = LEARNED[name]
    for number, option in enumerate(options):
        model = work / f"{method}.{number}.model"
        given = option | {"select": "map"}
        params = [part for key, value in given.items() for part in ("-p", f"{key}={value}")]
        labels = ["--labels", str(train.qrels)]
        cost = _concordant(
            "fit", *_paths(train), *labels, "--method", method, *params, "-o", str(model), "--quiet", "--json"
        )
        said = json.loads(cost.output)["results"]
        row = {"options": given, "map": said["validation"], "chosen": said["chosen"], "labels": said["labels"]}
        tried.append(row | {"seconds": cost.seconds, "mb": cost.peak_mb, "model": model.name})
        print(f"  {name} {option}: {said['validation']:.4f} in {cost.seconds:.0f} s", file=sys.stderr, flush=True)
    best = max(tried, key=lambda one: one["map"])
    return work / best["model"], tried


def study(train: Files, test: Files, work: Path) -> dict[str, Any]:
    """Return what the two commands make of the runs, beside RRF, CombSUM and CombMNZ, with paired tests."""
    work.mkdir(parents=True, exist_ok=True)
    fused: dict[str, str] = {}
    rows: dict[str, dict[str, Any]] = {}
    for number, name in enumerate((*LEARNED, *BASELINES)):
        row: dict[str, Any] = {}
        how = ["--method", name]
        if name in LEARNED:
            model, row["tried"] = _fitted(name, train, work)
            how = ["--model", str(model)]
        fused[name] = str(work / f"fused{number}.trec")
        cost = _concordant("aggregate", *_paths(test), *how, "--top", str(CUT), "-o", fused[name], "--quiet")
        rows[name] = row | {"aggregate_seconds": cost.seconds}
    for name, path in fused.items():
        shown = ["--labels", str(test.qrels), "--metrics", "map,p@10,ndcg@10", "--json"]
        rows[name]["means"] = json.loads(_concordant("evaluate", path, *shown).output)["results"][0]["metrics"]
    held = {name: max(one["map"] for one in rows[name]["tried"]) for name in CONTENDERS}
    return {"rows": rows, "best": max(held, key=lambda name: held[name])} | _tested(fused, test)


def _tested(fused: dict[str, str], test: Files) -> dict[str, Any]:
    """Return paired tests over the topics against the baselines, from the fused files."""
    labels = cc.read_labels(test.qrels)
    answers = {name: cc.CombSUM(norm="none").fit_predict(cc.read_runs([path])) for name, path in fused.items()}
    out: dict[str, Any] = {}
    for baseline in BASELINES:
        some = {name: answers[name] for name in (*LEARNED, baseline)}
        found = cc.compare(some, labels, ["map"], baseline=baseline, convention="trec")
        for n, name in enumerate(found.methods):
            if name == baseline:
                continue
            out.setdefault(baseline, {})[name] = {
                "difference": float(found.difference[n, 0]),
                "interval": [float(found.lower[n, 0]), float(found.upper[n, 0])],
                **{f"p_{test_}": float(p[n, 0]) for test_, p in found.p_values.items()},
                **{f"p_{test_}_holm": float(p[n, 0]) for test_, p in found.adjusted.items()},
            }
    per_topic = {
        name: cc.evaluate(answer, labels, ["map"], convention="trec").values["map"] for name, answer in answers.items()
    }
    return {"tests": out, "per_topic": {name: v.tolist() for name, v in per_topic.items()}}


def trec3() -> dict[str, Any]:
    """TREC-3 ad hoc, all 40 runs: trained on topics 151-175, tested on 176-200, with two commands (trec convention)."""
    if not available():
        return {"not_available": "trec3-adhoc"}
    return study(files_of(TRAIN, "train"), files_of(TEST, "test"), CACHE / "trec3-supervised" / "out")


def depth() -> dict[str, Any]:
    """TREC-3 at other depths than in training: fitted on the first 20, 100 or 1,000 of each list, tested on each."""
    if not available():
        return {"not_available": "trec3-adhoc"}
    halves = [files_of(TRAIN, "train"), files_of(TEST, "test")]
    data = [(cc.read_runs(_paths(half)), cc.read_labels(half.qrels)) for half in halves]
    rows: dict[str, dict[str, list[dict[str, float]]]] = {}
    warned: dict[str, set[tuple[int, int]]] = {}

    def note(name: str, asked: int, answer: cc.Consensus, labels: cc.Labels) -> None:
        found = cc.evaluate(answer, labels, ["map", "ndcg@10"], convention="trec").mean
        rows.setdefault(name, {}).setdefault(str(asked), []).append(found)

    for (learned, truth), (asked, labels) in (data, data[::-1]):
        for k in DEPTHS:
            note("rrf", k, cc.RRF().fit_predict(asked.top(k)), labels)
            note("comb-sum", k, cc.CombSUM().fit_predict(asked.top(k)), labels)
        for name, make in AT_DEPTH.items():
            for fitted in DEPTHS:
                model = make().fit(learned.top(fitted), truth)
                for k in DEPTHS:
                    part = asked.top(k)
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always", DataShiftWarning)
                        note(f"{name}, {fitted}", k, model.predict(part), labels)
                    warned.setdefault(name, set()).update({(fitted, k)} if said else ())
                    if k > fitted:
                        note(f"{name}, {fitted}, unadjusted", k, _unadjusted(model).predict(part), labels)
                print(f"  {name} fitted at {fitted}", file=sys.stderr, flush=True)
    means = {
        name: {k: {m: sum(v[m] for v in each) / len(each) for m in each[0]} for k, each in by.items()}
        for name, by in rows.items()
    }
    return {"means": means, "warned": {name: sorted(map(list, pairs)) for name, pairs in warned.items()}}


def _groups(ordered: list[str]) -> dict[str, list[list[str]]]:
    """Return groups of systems by kind, from all systems ordered by their quality on the training topics."""
    rng, n = np.random.default_rng(7), len(ordered)
    thirds = np.array_split(np.arange(n), 3)
    starts = np.linspace(0, n - 3, GROUPS).astype(int)
    kinds = {
        f"all {n}": [range(n)],
        "10 drawn from all": [rng.choice(n, 10, replace=False) for _ in range(GROUPS)],
        "3 of different quality": [[rng.choice(third) for third in thirds] for _ in range(GROUPS)],
        "3 comparable": [range(start, start + 3) for start in starts],
        "the best 3": [range(3)],
    }
    return {kind: [[ordered[at] for at in group] for group in groups] for kind, groups in kinds.items()}


def quality() -> dict[str, Any]:
    """TREC-3, when learning pays: groups of runs of equal and of different quality, fitted on 25 topics, tested on 25.

    Both halves serve as training part, so that every topic is tested once. Systems are ordered by MAP on the training
    topics: one of each third is a group of different quality, three neighbours are comparable.
    """
    if not available():
        return {"not_available": "trec3-adhoc"}
    halves = [files_of(TRAIN, "train"), files_of(TEST, "test")]
    data = [(cc.read_runs(_paths(half)), cc.read_labels(half.qrels)) for half in halves]
    # For each kind and method the average precision of every topic, the mean over the groups.
    values: dict[str, dict[str, list[Any]]] = {}
    for (learned, truth), (asked, labels) in (data, data[::-1]):
        means = cc.evaluate(learned, truth, "map")
        for kind, groups in _groups(sorted(means, key=lambda e: -means[e].mean["map"])).items():
            found: dict[str, list[Any]] = {}
            for group in groups:
                some, test = learned.select_experts(group), asked.select_experts(group)
                answers = {"rrf": cc.RRF().fit_predict(test), "comb-sum": cc.CombSUM().fit_predict(test)}
                answers |= {name: make().fit(some, truth).predict(test) for name, make in LEARNERS.items()}
                scores = cc.evaluate(answers, labels, "map")
                for name, one in scores.items():
                    found.setdefault(name, []).append(one.values["map"])
            for name, each in found.items():
                values.setdefault(kind, {}).setdefault(name, []).append(np.mean(each, axis=0))
            print(f"  {kind}", file=sys.stderr, flush=True)
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for kind, by in values.items():
        base = np.concatenate(by["rrf"])
        for name, halves_of in by.items():
            d = np.concatenate(halves_of) - base
            error = float(d.std(ddof=1) / np.sqrt(len(d)))
            rows.setdefault(kind, {})[name] = {
                "map": float((base + d).mean()),
                "gain": float(d.mean() / base.mean()),
                "gain_error": error / float(base.mean()),
            }
    return {"rows": rows, "groups": GROUPS}


def _render_quality(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    names = ["comb-sum", *LEARNERS]
    body = [
        [kind, f"{by['rrf']['map']:.4f}", *(f"{by[n]['gain']:+.1%} ± {by[n]['gain_error']:.1%}" for n in names)]
        for kind, by in r["rows"].items()
    ]
    return "\n\n".join(
        [
            "Gain in MAP over RRF, with its standard error over the 50 topics; groups that are drawn, or that start at "
            f"several places of the order, are means over {r['groups']} groups:",
            table(["systems", "MAP of rrf", *names], body),
        ]
    )


def _unadjusted(model: Any) -> Any:
    """Return the model without its memory of the training lists, which reads lists of any depth alike."""
    out = copy(model)
    del out.training_
    return out


def _render_depth(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    means = r["means"]

    def cell(name: str, k: int) -> str:
        own, base = means[name][str(k)], means["rrf"][str(k)]
        before = means.get(f"{name}, unadjusted", {}).get(str(k))
        mark = "" if own["map"] >= base["map"] else " ↓"
        told = f" (unadjusted {before['map']:.3f})" if before and before != own else ""
        return f"{own['map']:.3f}{mark}{told}"

    baselines = [name for name in ("rrf", "comb-sum") if name in means]
    body = [[name, "", *(f"{means[name][str(k)]['map']:.3f}" for k in DEPTHS)] for name in baselines]
    body += [
        [name, f"{fitted:,}", *(cell(f"{name}, {fitted}", k) for k in DEPTHS)] for name in AT_DEPTH for fitted in DEPTHS
    ]
    below = [
        f"{name}, fitted at {fitted:,} and asked at {k:,} ({own:.4f}; rrf {base:.4f})"
        for name in AT_DEPTH
        for fitted in DEPTHS
        for k in DEPTHS
        if (own := means[f"{name}, {fitted}"][str(k)]["ndcg@10"]) < (base := means["rrf"][str(k)]["ndcg@10"])
    ]
    warned = {name: ", ".join(f"{a:,} → {b:,}" for a, b in pairs) or "never" for name, pairs in r["warned"].items()}
    return "\n\n".join(
        [
            "MAP on the test topics, mean over both halves as training part; ↓ marks values below RRF. "
            '"unadjusted" is what the same weights give when deeper lists are read like those learned from.',
            table(["", "fitted at", *(f"asked at {k:,}" for k in DEPTHS)], body),
            f"In NDCG@10 these are below RRF: {'; '.join(below) or 'none'}.",
            f"A DataShiftWarning was given by {'; '.join(f'{name}: {pairs}' for name, pairs in warned.items())}.",
        ]
    )


def _render(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows, tried = [], []
    for name, row in r["rows"].items():
        tests = [
            f"{t['difference']:+.4f} (p {t['p_t_holm']:.2g})" if (t := r["tests"][b].get(name)) else "–"
            for b in r["tests"]
        ]
        means = [f"{row['means'][m]:.4f}" for m in ("map", "p@10", "ndcg@10")]
        rows.append([name, *means, *tests, f"{row['aggregate_seconds']:.1f} s"])
        for one in row.get("tried", []):
            options, chosen = (", ".join(f"{k}={v}" for k, v in one[c].items()) for c in ("options", "chosen"))
            tried.append([name, options, f"{one['map']:.4f}", chosen, f"{one['seconds']:.0f} s", f"{one['mb']:.0f} MB"])
    best = r["best"]
    least = min(r["tests"][b][best]["difference"] for b in r["tests"])
    learned = sorted(LEARNED, key=lambda n: -r["rows"][n]["means"]["map"])
    above = [n for n in learned if all(r["tests"][b][n]["difference"] > 0 for b in r["tests"])]
    sure = [n for n in above if all(r["tests"][b][n]["p_t_holm"] < 0.05 for b in r["tests"])]
    return "\n\n".join(
        [
            "```\nconcordant fit TRAIN/input.* --labels qrels --method crf -o model\n"
            f"concordant aggregate TEST/input.* --model model --top {CUT} -o fused.trec\n```",
            table(
                ["", "MAP", "P@10", "NDCG@10", *(f"MAP less that of {b}" for b in r["tests"]), "aggregate"],
                rows,
            ),
            "p: paired t-test over the 25 topics, Holm's correction over the learned methods. "
            f"Above all baselines in MAP, the highest first: {'; '.join(above) or 'none'}. "
            f"Significantly so: {'; '.join(sure) or 'none'}.",
            "Fits on the training topics, with the held-out MAP of the cross-validation within them. The best options "
            "of a method are used; the time is that of the whole command:",
            table(["", "options", "MAP held out", "chosen", "fit", "memory"], tried),
            f"The best of CRF, SVDRank and listwise linear by that is {best}; on topics 176-200 it is {least:+.4f} "
            f"from the best of {', '.join(r['tests'])} (target: {TARGET:+.2f}).",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "trec3_supervised": trec3,
    "trec3_depth": depth,
    "trec3_quality": quality,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "trec3_supervised": _render,
    "trec3_depth": _render_depth,
    "trec3_quality": _render_quality,
}

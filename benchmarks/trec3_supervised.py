"""TREC-3 with labels: models learned from runs and qrels of half the topics fuse the runs of the other half.

Everything is chosen by cross-validation within the training topics, the method too; the two commands a user would type
do the rest, and the fused runs are evaluated as files.
"""

from __future__ import annotations

import json
import sys
import tarfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import CACHE, ROOT, run
from render import table

import concordant as cc
from concordant.errors import ConcordantWarning
from concordant.selection import cross_validate

SOURCE = ROOT.parent / "shared" / "data" / "trec3-adhoc"
TRAIN, TEST = range(151, 176), range(176, 201)
CUT = 1000
LEARNED = ("crf", "svd-rank", "listwise-linear")
BASELINES = ("rrf", "comb-mnz")
# How much the best should gain over both baselines.
TARGET = 0.03
# What is tried by cross-validation on the training topics; what a method chooses itself (transform, learning rate,
# penalty, pass) it chooses within each of their parts.
CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "crf": [{"transform": "auto", "learning_rate": "auto", "missing": m} for m in ("unknown", "below")],
    "svd-rank": [{"strength": "auto", "missing": m} for m in ("unknown", "below")],
    "listwise-linear": [{"transform": "auto", "missing": m} for m in ("unknown", "below")],
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


def chosen_by_cross_validation(train: Files) -> dict[str, Any]:
    """Return the options of every method with the best held-out MAP within the training topics, and the best method."""
    votes, labels = cc.read_runs(_paths(train)), cc.read_labels(train.qrels)
    tried: dict[str, list[dict[str, Any]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for name, candidates in CANDIDATES.items():
            for option in candidates:
                method = cc.METHODS[name]().set_params(select="map", **option)
                started = time.perf_counter()
                found = cross_validate(method, votes, labels, metrics="map", folds=5, convention="trec")
                seconds = time.perf_counter() - started
                tried.setdefault(name, []).append({"options": option, "map": found.mean["map"], "seconds": seconds})
                print(f"  {name} {option}: {found.mean['map']:.4f} in {seconds:.0f} s", file=sys.stderr, flush=True)
    options = {name: max(found, key=lambda one: one["map"]) for name, found in tried.items()}
    best = max(options, key=lambda name: options[name]["map"])
    return {"tried": tried, "options": {n: o["options"] for n, o in options.items()}, "best": best}


def _paths(files: Files) -> list[str]:
    return [str(p) for p in sorted(files.runs.glob("input.*"))]


def _concordant(*arguments: str) -> Any:
    return run([sys.executable, "-m", "concordant", *arguments])


def study(train: Files, test: Files, work: Path) -> dict[str, Any]:
    """Return what the two commands make of the runs, beside RRF and CombMNZ, with paired tests."""
    picked = chosen_by_cross_validation(train)
    work.mkdir(parents=True, exist_ok=True)
    fused, rows = {}, {}
    for name in (*LEARNED, *BASELINES):
        target = str(work / f"{name}.trec")
        model = str(work / f"{name}.model")
        given = picked["options"].get(name, {}) | {"select": "map"}
        params = [part for key, value in given.items() for part in ("-p", f"{key}={value}")]
        row: dict[str, Any] = {"options": given if name in LEARNED else {}}
        how = ["--method", name]
        if name in LEARNED:
            cost = _concordant(
                "fit", *_paths(train), "--labels", str(train.qrels), *how, *params, "-o", model, "--quiet", "--json"
            )
            info = json.loads(cost.output)
            row |= {"fit_seconds": cost.seconds, "fit_mb": cost.peak_mb, "fit_info": _plain(info.get("fit_info", {}))}
            how = ["--model", model]
        cost = _concordant("aggregate", *_paths(test), *how, "--top", str(CUT), "-o", target, "--quiet")
        rows[name] = row | {"aggregate_seconds": cost.seconds}
        fused[name] = target
    said = json.loads(
        _concordant(
            "evaluate", *fused.values(), "--labels", str(test.qrels), "--metrics", "map,p@10,ndcg@10", "--json"
        ).output
    )["results"]
    for name, row in zip(fused, said, strict=True):
        rows[name]["means"] = row["metrics"]
    return {"rows": rows, "cross_validation": picked} | _tested(fused, test)


def _plain(info: Any) -> dict[str, Any]:
    """Return what a reader wants to know of a fit."""
    kept = ("n_iter", "validation", "chosen", "labels", "seconds")
    return {k: info[k] for k in kept if k in info}


def _tested(fused: dict[str, str], test: Files) -> dict[str, Any]:
    """Return paired tests over the topics against both baselines, from the fused files."""
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
    return {"tests": out, "map_from_files": {name: float(np.mean(v)) for name, v in per_topic.items()}}


def trec3() -> dict[str, Any]:
    """TREC-3 ad hoc, all 40 runs: learned on topics 151-175, fused on 176-200 with two commands (trec convention)."""
    if not available():
        return {"not_available": "trec3-adhoc"}
    return study(files_of(TRAIN, "train"), files_of(TEST, "test"), CACHE / "trec3-supervised" / "out")


def _render(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = []
    for name, row in r["rows"].items():
        tests = [
            f"{t['difference']:+.4f} (p {t['p_t_holm']:.2g})" if (t := r["tests"][b].get(name)) else "–"
            for b in BASELINES
        ]
        fit = f"{row['fit_seconds']:.0f} s" if "fit_seconds" in row else "–"
        means = [f"{row['means'][m]:.4f}" for m in ("map", "p@10", "ndcg@10")]
        rows.append([name, *means, *tests, fit, f"{row['aggregate_seconds']:.1f} s"])
    tried = [
        [name, ", ".join(f"{k}={v}" for k, v in one["options"].items()), f"{one['map']:.4f}", f"{one['seconds']:.0f} s"]
        for name, found in r["cross_validation"]["tried"].items()
        for one in found
    ]
    best = r["cross_validation"]["best"]
    gains = {b: r["tests"][b][best]["difference"] for b in BASELINES}
    least = min(gains.values())
    chosen = "; ".join(
        f"{name}: {', '.join(f'{k}={v}' for k, v in row['fit_info'].get('chosen', {}).items())}"
        for name, row in r["rows"].items()
        if "fit_info" in row
    )
    return "\n\n".join(
        [
            "```\nconcordant fit TRAIN/input.* --labels qrels --method crf -o model\n"
            f"concordant aggregate TEST/input.* --model model --top {CUT} -o fused.trec\n```",
            table(["", "MAP", "P@10", "NDCG@10", "MAP less RRF's", "MAP less CombMNZ's", "fit", "aggregate"], rows),
            "Times are those of whole commands. p: paired t-test over the 25 topics, Holm's correction over the three "
            "methods. Chosen by cross-validation on the training topics (five folds, everything a method chooses being "
            "chosen anew within each part):",
            table(["", "options", "MAP held out", "time"], tried),
            f"The best of them by that is {best}; on topics 176-200 it is {least:+.4f} from the better of RRF and "
            f"CombMNZ (set out to reach: {TARGET:+.2f}). What the fits chose: {chosen}.",
        ]
    )


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"trec3_supervised": trec3}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"trec3_supervised": _render}

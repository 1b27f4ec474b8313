"""How the sections on growth are shown, and what they say together: what one machine does, where a cluster pays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from render import table

FORMS = {"trec": "TREC runs", "parquet": "Parquet"}
WAYS = {"memory": "in memory", "blocks": "in blocks"}
NAMES = {"rrf": "RRF", "comb-mnz": "CombMNZ", "borda": "Borda", "crf": "CRF, fitted"}
MANY = 1_000_000_000


def count(n: float) -> str:
    """Return a number of rows as people say it."""
    for size, word in ((1_000_000_000, "billion"), (1_000_000, "million")):
        if n >= size:
            return f"{n / size:.3g} {word}"
    return f"{n:,.0f}"


def span(seconds: float) -> str:
    """Return a time with the digits that matter."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} µs"
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return (
        f"{seconds:.1f} s"
        if seconds < 300
        else f"{seconds / 60:.0f} min"
        if seconds < 9000
        else f"{seconds / 3600:.1f} h"
    )


def _met(holds: bool) -> str:
    return "met" if holds else "not met"


def _cost(cost: Mapping[str, float]) -> list[str]:
    return [span(cost["seconds"]), f"{cost['peak_mb']:,.0f} MB"]


def _runs(r: dict[str, Any]) -> str:
    asked, parts = r["asked"], []
    worst_memory, worst_per_row, worst_scan = 0.0, 0.0, 0.0
    for form, name in FORMS.items():
        sizes = r[form]["sizes"]
        head = [f"{name}, whole process"]
        for s in sizes:
            head += [f"{count(s['rows'])} rows", "peak memory", "times the scan"]
        rows = []
        for way, kind in (("held", "bare scan, all held"), ("let go", "bare scan, file by file")):
            own = [[*_cost(s["scan"][way]), "1" if way == "held" else ""] for s in sizes]
            rows.append([kind, *(cell for cells in own for cell in cells), "", ""])
        for way, words in WAYS.items():
            for method in sizes[0][way]:
                own = [[*_cost(s[way][method]), f"{s[way][method]['times_scan']:.2f}"] for s in sizes]
                ratio = r[form]["per_row_ratio"][way][method]
                last = sizes[-1][way][method]
                shown = [cell for cells in own for cell in cells]
                rows.append([f"{NAMES[method]}, {words}", *shown, f"{last['bytes_per_row']:.0f}", f"{ratio:.2f}"])
                worst_memory = max(worst_memory, last["peak_mb"] / 1024)
                worst_per_row = max(worst_per_row, ratio)
            worst_scan = max(worst_scan, sizes[-1][way]["rrf"]["times_scan"])
        parts.append(table([*head, "bytes a row", "time per row, last over first"], rows))
    last = r["trec"]["sizes"][-1]
    lean = {f: max(r[f]["sizes"][-1][way]["rrf"]["times_lean_scan"] for way in WAYS) for f in ("trec", "parquet")}
    rounds = " and ".join(str(s["rounds"]) for s in r["trec"]["sizes"])
    parts.append(
        f"Best of {rounds} interleaved rounds; {count(last['rows'])} rows are "
        f"{last['file_mb'] / 1000:.1f} GB as TREC runs and {r['parquet']['sizes'][-1]['file_mb'] / 1000:.1f} GB as "
        "Parquet. Every round compares the output of blocks with the output from memory: equal byte for byte as TREC "
        f"runs, row for row as Parquet. Limits for the largest size: at most {asked['gb']} GB "
        f"({worst_memory:.1f} GB, {_met(worst_memory <= asked['gb'])}), time per row at most {asked['per_row']:g} "
        f"times that of the smallest ({worst_per_row:.2f}, {_met(worst_per_row <= asked['per_row'])}), RRF at most "
        f"{asked['times_scan']:g} times the bare scan that keeps the files ({worst_scan:.2f}, "
        f"{_met(worst_scan <= asked['times_scan'])}). The worst row counts. Compared with a scan that releases "
        f"each file, RRF takes up to {lean['trec']:.1f} times as long from TREC runs and {lean['parquet']:.1f} "
        "times from Parquet."
    )
    return "\n\n".join(parts)


def _pairs(r: dict[str, Any]) -> str:
    rows = [
        [
            f"{count(x['rows'])}, {form}",
            f"{x['pairs']:,}",
            span(x["read_seconds"]),
            span(x["fit_seconds"]),
            f"{x['process_peak_mb']:,.0f} MB",
            f"{x['bytes_per_pair']:.0f}",
            f"{x['microseconds_per_row']:.2f} µs",
            f"{x['correlation']:.3f}",
        ]
        for form, found in r["formats"].items()
        for x in found["sizes"]
    ]
    head = ["comparisons", "pairs", "read and collapse", "fit", "peak memory", "bytes a pair", "time per row"]
    most = max(x["process_peak_mb"] for found in r["formats"].values() for x in found["sizes"]) / 1024
    slopes = ", ".join(f"{f['slope']:.2f} from {form}" for form, f in r["formats"].items() if f["slope"] is not None)
    said = f"{r['items']:,} items. Limit: {r['asked_gb']} GB ({most:.1f} GB, {_met(most <= r['asked_gb'])})."
    said += f" Slope of log time against log comparisons: {slopes}." if slopes else ""
    return table([*head, "correlation with the truth"], rows) + "\n\n" + said


def _grown(what: str, r: dict[str, Any]) -> str:
    sizes = r["sizes"]
    rows = []
    for method, found in r["methods"].items():
        cells = [f"{span(c['per_instance'])}, {max(c['peak_mb'] - c['held_mb'], 0):,.0f} MB" for c in found["costs"]]
        cells += ["–"] * (len(sizes) - len(cells))
        rows.append([method, *cells, f"{found['slope']:.2f}", f"{found['slope_of_large']:.2f}"])
    return table([what, *(f"{s:,}" for s in sizes), "slope", "of the last three"], rows)


def _growth(r: dict[str, Any]) -> str:
    lines = [
        [
            f"{x['rows']:,}",
            *_cost(x["rrf"]),
            *_cost(x["scan"]),
            f"{x['rrf']['seconds'] / x['scan']['seconds']:.2f}",
            span(x["copy_seconds"]),
        ]
        for x in r["rows"]
    ]
    head = ["rows, RRF from TREC runs", "process", "peak memory", "bare scan", "peak memory", "RRF over scan"]
    slopes = r["rows_slopes"]
    n, copy = r["in_memory_rows"], r["copy_seconds"]
    rrf = min(c["seconds"] for c in r["items"]["methods"]["rrf"]["costs"])
    return "\n\n".join(
        [
            table([*head, "copy of the codes"], lines),
            f"Slope of log time against log rows: {slopes['rrf']['all']:.2f} for RRF and {slopes['scan']['all']:.2f} "
            f"for the scan over all sizes, {slopes['rrf']['last']:.2f} and {slopes['scan']['last']:.2f} between the "
            "last two, where the start of the process no longer matters. The lower bounds are the scan of the text and "
            "one copy of the codes in memory (last column).",
            f"In memory, up to {count(n)} rows in all: time of one instance, and memory in addition to the data; "
            f"items with {r['items']['fixed']} experts, experts with {r['experts']['fixed']} items, complete lists:",
            _grown("items of an instance", r["items"]),
            _grown("experts", r["experts"]),
            f"A copy of the codes of these rows takes {span(copy)}, the quickest RRF of all of them {span(rrf)}, "
            f"{rrf / copy:.0f} times as long. Not measured, because it would take too long: "
            + ", ".join(f"{name} on more than {most:,} items" for name, most in r["most_items"].items())
            + ".",
        ]
    )


def _threads(r: dict[str, Any]) -> str:
    asked = r["asked"]
    rows = [
        [
            name,
            *(span(c["seconds"][n]) for n in ("1", "2")),
            f"{c['ratio']:.2f}",
            f"{c['spin']:.2f}",
            f"{c['shared']:.0%}",
            f"{c['most']:.2f}",
            _met(c["met"]) if c["judged"] else "not judged",
        ]
        for name, c in r["jobs"].items()
    ]
    head = ["", "one thread", "two threads", "ratio", "bare loop", "shared", "at most", f"{asked['ratio']:g} times"]
    return "\n\n".join(
        [
            table(head, rows),
            f"Best of {r['repeats']}, interleaved; the answers are equal to the last bit. The bare loop is compiled, "
            "touches no memory and is split in two. If even the loop gains less than "
            f"{asked['spin']:g} times, the cores were not free, and the ratio is only reported. Shared is the part of "
            "the processor time of one thread that threads can share, and at most is the ratio which "
            "that allows.",
        ]
    )


def _dask(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    fused = [
        [f"{NAMES.get(m, m)}, {count(c['rows'])} rows to a written table"]
        + [span(c["seconds"][way]) for way in ("memory", "blocks", "workers", "killed")]
        + ["same bytes" if all(c["same"].values()) else "differs"]
        for m, c in r["fused"].items()
    ]
    fitted, without = [], []
    for m, c in r["fitted"].items():
        if "not_from_blocks" in c:
            without.append(m)
            continue
        gap = max(c["differences"].values())
        fitted.append(
            [f"{m}, fit to {count(c['rows'])} rows"]
            + [span(c["seconds"][way]) for way in ("memory", "blocks", "workers", "killed")]
            + [f"{gap:.0e}" if gap else "same numbers"]
        )
    gone = r["missing_scheduler"]
    tried = [c for c in (*r["fused"].values(), *r["fitted"].values()) if "killed" in c["seconds"]]
    struck = sum(c["killed_on_the_way"] for c in tried)
    said = (
        "Two workers of one thread each on the same machine. Times of a fit exclude reading. Its last column is the "
        "largest difference to one process, relative to the largest number of its kind, also with a killed worker "
        f"({struck} of {len(tried)} were killed during work). Limit: {r['most_difference']:.0e}. "
        f"Without a scheduler the command line ends with code {gone['exit_code']}: “{gone['said']}”"
    )
    said += f" Not fitted from blocks: {', '.join(without)}." if without else ""
    head = ["", "one process", "in blocks", "two workers", "one of them killed", "result"]
    return table(head, [*fused, *fitted]) + "\n\n" + said


def _kills(r: dict[str, Any]) -> str:
    rows = [
        [
            job,
            span(c["seconds"]),
            str(c["kills"]),
            str(c["from_checkpoint"]),
            f"{c['same']} of {c['kills']}",
            str(c["half_written"]),
            span(max(sum(c["seconds_lost"]), 0.0)),
            span(max([0.0, *c["seconds_lost"]])),
        ]
        for job, c in r.items()
    ]
    head = ["", "undisturbed", "kills", "found a checkpoint", "same bytes in the end", "half-written outputs"]
    late = sum(c["complete_before"] for c in r.values())
    return "\n\n".join(
        [
            table([*head, "lost in all", "lost at most"], rows),
            "Signal 9 at moments drawn uniformly over the time of a full run, then the same command again. Lost is the "
            "time of both beyond a full run: starting and reading again, and the work since the last checkpoint. "
            "Models are compared completely, except for the seconds of the fit. At the kill the output file did not "
            f"exist, or, {late} times, was complete.",
        ]
    )


RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "scale_runs": _runs,
    "scale_pairs": _pairs,
    "scale_growth": _growth,
    "scale_threads": _threads,
    "scale_dask": _dask,
    "scale_kills": _kills,
}


def _known(results: Path, names: Iterable[str]) -> dict[str, Any]:
    files = {name: results / f"{name}.json" for name in names}
    return {name: json.loads(file.read_text())["results"] for name, file in files.items() if file.exists()}


def together(results: Path) -> list[str]:
    """Return what the sections say about one machine and a cluster, in words made of their figures."""
    known = _known(results, RENDER)
    said = []
    if "scale_runs" in known:
        said += _one_machine(known["scale_runs"])
    if "scale_pairs" in known:
        largest = [max(f["sizes"], key=lambda x: x["rows"]) for f in known["scale_pairs"]["formats"].values()]
        best = min(largest, key=lambda x: x["seconds"])
        said.append(
            f"{count(best['rows'])} comparisons over {known['scale_pairs']['items']:,} items are collapsed and fitted "
            f"by Bradley-Terry with ties in {span(best['seconds'])} and {best['process_peak_mb'] / 1024:.1f} GB."
        )
    dask = known.get("scale_dask", {})
    if "fused" in dask:
        said += _cluster(dask)
    return ["### What one machine can do, and when a cluster pays", "\n".join(f"- {x}" for x in said)] if said else []


def _one_machine(r: dict[str, Any]) -> list[str]:
    said = []
    for form, name in FORMS.items():
        s = r[form]["sizes"][-1]
        memory, blocks = s["memory"]["rrf"], s["blocks"]["rrf"]
        said.append(
            f"From {name}, {count(s['rows'])} rows are fused by RRF in {span(memory['seconds'])} with "
            f"{memory['peak_mb'] / 1024:.1f} GB in memory, or in {span(blocks['seconds'])} with "
            f"{blocks['peak_mb'] / 1024:.1f} GB in blocks: {count(s['rows'] / memory['seconds'])} and "
            f"{count(s['rows'] / blocks['seconds'])} rows a second. At that pace {count(MANY)} rows take "
            f"{span(MANY * memory['seconds'] / s['rows'])} and {span(MANY * blocks['seconds'] / s['rows'])}."
        )
    first, last = r["trec"]["sizes"][0], r["trec"]["sizes"][-1]
    gained = last["rows"] - first["rows"]
    if gained:
        more = (last["memory"]["rrf"]["peak_mb"] - first["memory"]["rrf"]["peak_mb"]) * 2**20 / gained
        limit = r["asked"]["gb"]
        fit = (limit * 1024 - first["memory"]["rrf"]["peak_mb"]) * 2**20 / more + first["rows"]
        said.append(
            f"Each further row of a TREC run takes {more:.0f} bytes in memory. So {limit} GB hold about {count(fit)} "
            "rows. Beyond that they are read in blocks, within the free memory or `--memory`, and what "
            "limits them is the disk."
        )
    return said


def _cluster(r: dict[str, Any]) -> list[str]:
    c = r["fused"].get("rrf") or next(iter(r["fused"].values()))
    alone = min(c["seconds"]["memory"], c["seconds"]["blocks"])
    speed, each = c["rows"] / alone, c["rows"] / c["seconds"]["workers"] / 2
    workers = max(math.floor(speed / each) + 1, 1)
    times = c["seconds"]["workers"] / alone
    slower = f"{times:.1f} times as long" if times >= 1 else f"{times:.2f} of the time"
    return [
        f"Two workers on the same two cores take {slower} as one process ({span(c['seconds']['workers'])} against "
        f"{span(alone)} for {count(c['rows'])} rows): {count(each)} rows a second and worker. If files are read as "
        f"fast wherever workers run, a cluster overtakes one machine from {workers} workers on other cores; below that "
        "it pays only where codes or files do not fit on one machine.",
    ]

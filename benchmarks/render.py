"""Write docs/results.md from docs/results/*.json, so that every figure in the docs comes from a measurement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from curves import line_chart


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)


def _letor(r: dict[str, Any]) -> str:
    published, ours, every = r["published_rrf"], r["rrf"], r["all"]
    rows = [["published RRF", *published.values()], ["ours", *(f"{100 * ours[m]:.2f}" for m in published)]]
    best = sorted(every, key=lambda m: -every[m]["map"])
    board = [[m, *(f"{100 * every[m][c]:.2f}" for c in published)] for m in best]
    head = list(published)
    return "\n\n".join([table(["", *head], rows), "Every method, best MAP first:", table(["method", *head], board)])


def _trec3(r: dict[str, Any]) -> str:
    singles = r["single_runs"]
    rows = [[name, f"{want:.4f}", f"{singles[name]['map']:.4f}"] for name, want in r["expected_map"].items()]
    board = [[name, f"{v['map']:.4f}", f"{v['p@10']:.4f}"] for name, v in r["fused"].items()]
    both = [table(["run", "MAP expected", "MAP ours"], rows), table(["method", "MAP", "P@10"], board)]
    note = (
        "The expected values are those of the README of the data. trec_eval orders by score, and also gives assctv2 "
        "0.3539; 0.3540 is its MAP in the order of the rank column (`--read order_by=rank`)."
    )
    return "\n\nAll forty runs fused:\n\n".join(both) + "\n\n" + note


def _startup(r: dict[str, Any]) -> str:
    ms = r["milliseconds"]
    rows = [[name.replace("_", " "), f"{value:.0f} ms"] for name, value in ms.items()]
    cpu = r["cpu_milliseconds"]
    rows += [
        [f"{name.replace('_', ' ')}, processor", f"{cpu[name]:.0f} ms"]
        for name in cpu
        if "polars" in name or "rrf" in name
    ]
    rows += [
        ["import concordant alone", f"{r['import_alone_ms']:.1f} ms"],
        ["--version over NumPy + Typer", f"{r['version_over_numpy_typer']:.2f} times"],
        ["aggregate --method rrf over NumPy + Polars + Typer", f"{r['rrf_over_numpy_polars_typer']:.2f} times"],
        ["the same in processor time", f"{r['rrf_cpu_over_numpy_polars_typer']:.2f} times"],
        ["heavy modules after import", r["heavy_after_import"]],
        ["heavy modules after RRF and Comb*", r["heavy_after_rrf_and_comb"]],
    ]
    return table(["", ""], rows)


_RATIOS = ("ratio", "ten_hits", "every_hit")


def _request(r: dict[str, Any]) -> str:
    rows = [
        [name, f"{v['ours_us']:.0f} µs", f"{v['plain_us']:.0f} µs", *(f"{v[k]:.2f}" for k in _RATIOS)]
        for name, v in r["warm"].items()
    ]
    loud, first = r["threads"], r["first_ms"]
    return "\n\n".join(
        [
            table(["request", "`cc.fuse`", "plain RRF", "pairs", "ten hits", "every hit"], rows),
            "Times of the sorted pairs of id and score, and ratios to an RRF in a plain dictionary that returns such "
            "pairs: for pairs, for `top_k=10` as `Hit` objects, and for all `Hit` objects.",
            f"The first request of a fresh process, with all imports: {first['first_fuse']:.0f} ms, "
            f"{r['first_over_numpy']:.2f} times `import numpy` ({first['import_numpy']:.0f} ms). "
            f"{loud['requests']:,} requests of eight threads to one loaded CRF: {loud['different_answers']} answers "
            f"differ from those of one thread, and memory grows by {max(loud['growth_mb'], 0):.1f} MB after as many "
            f"before; {loud['requests_per_second']:,.0f} requests a second.",
        ]
    )


def _sizes(r: dict[str, Any]) -> str:
    return table(
        ["Concordant", "ranx", "ratio"], [[f"{r['concordant_mb']:.0f} MB", f"{r['ranx_mb']:.0f} MB", r["ratio"]]]
    )


def _workload_a(r: dict[str, Any]) -> str:
    rows = [
        [ids, name, f"{c['seconds']:.2f} s", f"{c['peak_mb']:,.0f} MB", f"{c['times_bare_scan']:.2f}"]
        for ids in ("11-byte ids", "30-byte ids")
        for name, c in r[ids].items()
    ]
    ranx = [
        [
            m,
            f"{c['read']:.1f} + {c['fuse']:.1f} + {c['save']:.1f} s",
            f"{c['peak_mb']:,.0f} MB",
            f"{c['times_slower_than_concordant']:.1f}",
            f"{c['concordant_share_of_its_memory']:.2f}",
        ]
        for m, c in (("rrf", r["ranx_rrf"]), ("comb-mnz", r["ranx_comb-mnz"]))
    ]
    same = ", ".join(
        f"{m} {e['largest_difference']:.1e} over {e['items']:,} items" for m, e in r["equal_answers"].items()
    )
    return "\n\n".join(
        [
            f"Largest difference to ranx's scores, checked first: {same}.",
            table(["", "whole process", "time", "peak memory", "times the bare scan"], rows),
            table(
                [
                    "ranx, warm",
                    "read + fuse + save",
                    "peak memory",
                    "times slower than ours",
                    "our share of its memory",
                ],
                ranx,
            ),
        ]
    )


def _evaluation(r: dict[str, Any]) -> str:
    # Each library calls and sorts the metrics in its own way.
    ours, theirs = ("ndcg@10", "map"), ("nDCG@10", "AP")
    columns = (("Concordant", r, ours), ("ranx, warm", r["ranx"], ours), ("ir_measures", r["ir_measures"], theirs))
    rows = [
        [
            name,
            f"{one['seconds']:.3f} s",
            f"{one['times_slower']:.2f}" if "times_slower" in one else "",
            *(f"{one['values'][metric]:.6f}" for metric in metrics),
        ]
        for name, one, metrics in columns
    ]
    return table(["", "time", "times slower", "NDCG@10", "MAP"], rows)


def _workload_b(r: dict[str, Any]) -> str:
    rows = [
        [
            m,
            f"{c['seconds']:.3f} s",
            f"{c['first_call_seconds']:.2f} s",
            f"{c['pyflagr_seconds']:.2f} s",
            f"{c['times_faster_than_pyflagr']:.1f}",
            f"{c['ranx_seconds']:.2f} s" if "ranx_seconds" in c else "–",
            f"{c['times_faster_than_ranx']:.0f}" if "ranx_seconds" in c else "–",
        ]
        for m, c in r["methods"].items()
    ]
    same = ", ".join(f"{m} {gap:.0e}" for m, gap in r["equal_answers"].items())
    note = (
        f"Largest difference to PyFLAGR's scores (six decimals), checked first: {same}; its MC4 has another definition."
    )
    return note + "\n\n" + table(["", "ours", "first call", "PyFLAGR", "times faster", "ranx", "times faster"], rows)


def _linear(r: dict[str, Any]) -> str:
    rows = [[f"{n:,}", f"{t:.3f} s"] for n, t in zip(r["rows"], r["seconds"], strict=True)]
    return table(["rows", "read + fuse + write"], rows) + f"\n\nSlope of log time against log rows: {r['slope']:.2f}."


def _tests(r: dict[str, Any]) -> str:
    return f"`{r['command']}`: {r['closing_line'].strip('= ')}"


PAGES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "letor": ("MQ2008-agg, mean of the five test folds (letor convention, percent)", _letor),
    "trec3": ("TREC-3 ad hoc (trec convention)", _trec3),
    "reading": ("Tests that read every file of the real data", _tests),
    "golden": ("Tests of the golden cases", _tests),
    "workload_a": ("Workload A: fuse ten run files, 10 M rows, and write the fused run", _workload_a),
    "evaluation": ("NDCG@10 and MAP of the fused run, in memory", _evaluation),
    "workload_b": ("Workload B: 100 instances × 10 lists × top 100, read + aggregate + write", _workload_b),
    "linear": ("Time against the number of rows", _linear),
    "startup": ("Start-up time", _startup),
    "request": ("One search request beside a plain dictionary", _request),
    "sizes": ("Size of the installed environment", _sizes),
}


# The chapters of the page: the file of their sections, and their headings.
FAMILIES = {
    "models_supervised": "Supervised aggregation",
    "trec3_speed": "Speed on TREC-3",
    "models_ltr": "Learning to rank",
    "models_peers": "Models compared with other libraries",
    "models_coverage": "Coverage of intervals",
    "models_r": "Models beside R",
    "models_prior": "Strength of the default prior",
    "models_tests": "Tests of nested models",
    "models_bradley_terry": "Bradley-Terry",
    "models_votes": "Votes over time and at equal style",
    "models_judges": "Unreliable judges",
    "models_plackett_luce": "Plackett-Luce",
    "models_mpm": "Multinomial preference model",
    "models_mallows": "Mallows and extended Mallows",
    "models_camps": "Camps among experts",
    "models_ulara": "ULARA",
    "models_svp_cps": "SVP, CPS and Condorcet",
    "models_elections": "Voting rules",
    "models_missing": "Items that lists leave out",
    "growth": "Scale",
    "attack": "Hostile input",
    "versus": "Time beside an earlier source",
}


def _of_a_family(file: str) -> dict[str, tuple[str, Callable[[dict[str, Any]], str]]]:
    """Return title and renderer of each section of a family; the title is the first line of its docstring."""
    module = import_module(file)
    return {
        name: ((module.SECTIONS[name].__doc__ or name).strip().splitlines()[0].rstrip("."), show)
        for name, show in module.RENDER.items()
    }


def _random_experts(results: Path) -> list[str]:
    """Draw precision against the number of random experts, for the methods that learn weights."""
    known = [results / f"{name}.json" for name in ("ulara_trec3", "mallows_trec3")]
    if not all(file.exists() for file in known):
        return []
    ulara, mallows = (json.loads(file.read_text())["results"] for file in known)
    if "curve" not in ulara or "levels" not in mallows:
        return []
    shown = []
    for metric in ("p@10", "p@30"):
        lines = {
            "extended Mallows": [level["mean"]["extended-mallows"][metric] for level in mallows["levels"].values()],
            **{name: ulara["curve"][name][metric] for name in ("ULARA", "CombMNZ", "RRF")},
        }
        picture = results / f"random_experts_{metric.replace('@', '')}.svg"
        title = f"{metric.upper()} on TREC-3 when runs are replaced by random lists"
        line_chart(picture, title, "random experts among 38", metric.upper(), ulara["levels"], lines)
        shown.append(f"![{title}](results/{picture.name})")
    return shown


def render(results: Path, page: Path) -> None:
    """Write the page from the results that exist."""
    parts = [
        "# Results",
        "This page has every measured figure: quality on real data, coverage of intervals, comparisons with other "
        "libraries, time and memory. `make evidence` measures them and writes the page from `docs/results/*.json`. "
        "Each ratio to another library was measured in one run on one machine. Trust factors of three, not of one and "
        "a half.",
    ]
    chapters = {"Rank fusion, files and metrics": PAGES}
    chapters |= {heading: _of_a_family(file) for file, heading in FAMILIES.items()}
    for heading, sections in chapters.items():
        there = {name: shown for name, shown in sections.items() if (results / f"{name}.json").exists()}
        parts += [f"## {heading}"] if there else []
        for name, (title, show) in there.items():
            record = json.loads((results / f"{name}.json").read_text())
            where = f"Python {record['python']}, {record['cores']} cores"
            note = f"Commit {record['commit']}, seed {record['seed']}, {where}."
            # What is to be said of a measurement until the next one, which writes the record anew.
            remark = [record["remark"]] if "remark" in record else []
            parts += [f"### {title}", *remark, show(record["results"]), note]
            if name == "mallows_trec3":
                parts += _random_experts(results)
        if heading == FAMILIES["growth"] and there:
            parts += import_module("growth_pages").together(results)
    page.write_text("\n\n".join(parts) + "\n")

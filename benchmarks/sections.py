"""The measurements, one function each: every figure the issues ask for at full size, as a plain dictionary."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import published
from measure import CACHE, ROOT, folder_mb, interleaved, long_ids, peer, run, slope, workload
from render import FAMILIES
from studies import DATA

import concordant as cc

CONCORDANT = [sys.executable, "-m", "concordant"]
SEED = 7

_SCAN = """
import sys, polars as pl
schema = {"q": pl.String, "z": pl.String, "d": pl.String, "r": pl.String, "s": pl.Float64, "t": pl.String}
frames = [
    pl.scan_csv(f, separator=" ", has_header=False, schema=schema, quote_char=None).select("q", "d", "s").collect()
    for f in sys.argv[1:]
]
print(sum(len(f) for f in frames))
"""


def _ours(task: str, **options: Any) -> dict[str, Any]:
    worker = str(Path(__file__).parent / "ours_worker.py")
    answer: dict[str, Any] = json.loads(
        run([sys.executable, worker, task, json.dumps(options)]).output.splitlines()[-1]
    )
    return answer


def _files(folder: Path) -> list[str]:
    return [str(p) for p in sorted(folder.glob("run_*.trec"))]


def _scores(path: str) -> dict[tuple[str, str], float]:
    with open(path) as lines:
        return {(f[0], f[2]): float(f[4]) for f in map(str.split, lines)}


def _small_runs() -> Path:
    """Write three runs of ten documents for five queries, and return their folder."""
    folder = CACHE / "small_runs"
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(3):
        rows = (f"q{q} Q0 d{(7 * k + n * q) % 15} {k} {11 - k} s{n}\n" for q in range(5) for k in range(1, 11))
        (folder / f"run_{n}.trec").write_text("".join(rows))
    return folder


def startup() -> dict[str, Any]:
    """Import and first answers of the command line, beside a bare Python that imports what they need."""
    program = shutil.which("concordant", path=str(Path(sys.executable).parent)) or "concordant"
    costs = interleaved(
        {
            "python": [sys.executable, "-c", "pass"],
            "import_concordant": [sys.executable, "-c", "import concordant"],
            "import_numpy_typer": [sys.executable, "-c", "import numpy, typer"],
            "version": [program, "--version"],
            "import_numpy_polars_typer": [sys.executable, "-c", "import numpy, polars, typer"],
            "aggregate_rrf": [program, "aggregate", *_files(_small_runs()), "--method", "rrf"],
        },
        repeats=20,
    )
    code = (
        "import sys, concordant; print([m for m in ('numpy', 'polars', 'numba', 'scipy', 'typer') if m in sys.modules])"
    )
    fused = (
        "import sys, concordant as cc; p = cc.from_lists({'a': {'x': 1.0, 'y': 2.0}, 'b': {'y': 1.0, 'z': 0.5}});"
        "[cc.METHODS[m]().fit_predict(p) for m in "
        "('rrf', 'comb-sum', 'comb-min', 'comb-max', 'comb-med', 'comb-anz', 'comb-mnz')];"
        "print([m for m in ('numba', 'polars', 'scipy') if m in sys.modules])"
    )
    seconds = {name: cost.seconds for name, cost in costs.items()}
    return {
        "milliseconds": {name: 1000 * s for name, s in seconds.items()},
        "import_alone_ms": 1000 * (seconds["import_concordant"] - seconds["python"]),
        "version_over_numpy_typer": seconds["version"] / seconds["import_numpy_typer"],
        "cpu_milliseconds": {name: 1000 * cost.cpu for name, cost in costs.items()},
        "rrf_over_numpy_polars_typer": seconds["aggregate_rrf"] / seconds["import_numpy_polars_typer"],
        "rrf_cpu_over_numpy_polars_typer": costs["aggregate_rrf"].cpu / costs["import_numpy_polars_typer"].cpu,
        "heavy_after_import": run([sys.executable, "-c", code]).output.strip(),
        "heavy_after_rrf_and_comb": run([sys.executable, "-c", fused]).output.strip(),
    }


def request() -> dict[str, Any]:
    """Time search requests of three lists beside a plain dictionary, and the first one of a process."""
    shape = {"n_lists": 3, "length": 100, "pool": 200, "repeats": 400}
    data = cc.synthetic.runs(30, skill={"bm25": 1.0, "dense": 1.3, "rerank": 0.7}, top=100, random_state=SEED)
    CACHE.mkdir(parents=True, exist_ok=True)
    warm = {"RRF, 3 × 100": _ours("request", **shape)}
    warm["RRF, 3 × 1000"] = _ours("request", **shape | {"length": 1000, "pool": 2000})
    for method in (cc.ListwiseLinear(), cc.CRF(passes=20)):
        path = str(CACHE / f"request.{method.name}")
        method.fit(data.preferences, data.labels).save(path)
        warm[f"loaded {method.name}, 3 × 100"] = _ours("request", **shape, model=path)
    first = "import concordant as cc; cc.fuse({'a': ['x', 'y'], 'b': ['y']}, weights={'a': 2})"
    commands = {"import_numpy": [sys.executable, "-c", "import numpy"], "first_fuse": [sys.executable, "-c", first]}
    costs = interleaved(commands, repeats=30)
    return {
        "warm": warm,
        "first_ms": {name: 1000 * cost.seconds for name, cost in costs.items()},
        "first_over_numpy": costs["first_fuse"].seconds / costs["import_numpy"].seconds,
        "threads": _ours("threads", model=path, n_threads=8, n_requests=10_000),
    }


def sizes() -> dict[str, Any]:
    """Weigh the installed environment and one that holds ranx and nothing else."""
    out = {}
    for name, requirement in (("concordant", ["-r", str(ROOT / "requirements" / "run.txt")]), ("ranx", _pins("ranx"))):
        folder = CACHE / f"venv-{name}"
        # An environment made for other pins says nothing about these.
        pins = Path(requirement[1]).read_text() if requirement[0] == "-r" else "\n".join(requirement)
        if not (folder / ".done").exists() or (folder / ".done").read_text() != pins:
            shutil.rmtree(folder, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(folder)])
            run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *requirement])
            if name == "concordant":
                target = next(folder.glob("lib/python*/site-packages"))
                shutil.copytree(
                    ROOT / "src" / "concordant", target / "concordant", ignore=shutil.ignore_patterns("__pycache__")
                )
            (folder / ".done").write_text(pins)
        packages = next(folder.glob("lib/python*/site-packages"))
        tools = [packages / t for t in ("pip", "setuptools")]
        out[f"{name}_mb"] = folder_mb(packages) - sum(folder_mb(t) for t in tools if t.exists())
    return out | {"ratio": out["concordant_mb"] / out["ranx_mb"]}


def _pins(name: str) -> list[str]:
    lines = (ROOT / "requirements" / "peers.txt").read_text().splitlines()
    pin = next(line for line in lines if line.startswith(f"{name}=="))
    return [pin, "-c", str(ROOT / "requirements" / "peers.txt")]


def _equal_answers() -> dict[str, Any]:
    """Check that the scores equal those of ranx on a small workload without ties, before anything is timed."""
    small = workload("equal", "--nq", "10", "--topk", "100", "--pool", "300", "--round", "9", "--no-flagr")
    out = {}
    for label, params, ranx in (
        ("rrf", {"method": "rrf"}, ("rrf", None)),
        ("comb-mnz", {"method": "comb-mnz"}, ("mnz", "min-max")),
    ):
        ours_path, ranx_path = CACHE / "equal.ours", str(CACHE / f"equal.ranx.{label}")
        _ours("fuse", files=_files(small), methods={label: params}, out=str(ours_path), repeats=1)
        peer("ranx_fuse", files=_files(small), method=ranx[0], norm=ranx[1], out=ranx_path, sample=_files(small)[:2])
        ours, theirs = _scores(f"{ours_path}.{label}"), _scores(ranx_path)
        gap = max(abs(ours[key] - theirs[key]) for key in ours) if set(ours) == set(theirs) else float("inf")
        if not gap < 1e-9:
            raise SystemExit(f"{label}: Concordant and ranx disagree by {gap}; nothing is timed")
        out[label] = {"items": len(ours), "largest_difference": gap}
    return out


def workload_a() -> dict[str, Any]:
    """Ten files, 10 M rows, to a written fused run: Concordant, a bare Polars scan, and ranx warm."""
    equal = _equal_answers()
    folder = workload("A", "--no-flagr")
    sample = workload("A100", "--nq", "10", "--no-flagr")
    out: dict[str, Any] = {"rows": 10_000_000, "equal_answers": equal}
    for ids, files in (("30-byte ids", _files(long_ids(folder, "A30"))), ("11-byte ids", _files(folder))):
        costs = interleaved(
            {
                "bare_scan": [sys.executable, "-c", _SCAN, *files],
                "rrf": [
                    *CONCORDANT,
                    "aggregate",
                    *files,
                    "--method",
                    "rrf",
                    "-o",
                    str(CACHE / "A.rrf.trec"),
                    "--quiet",
                ],
                "comb-mnz": [
                    *CONCORDANT,
                    "aggregate",
                    *files,
                    "--method",
                    "comb-mnz",
                    "-o",
                    str(CACHE / "A.mnz.trec"),
                    "--quiet",
                ],
            },
            repeats=6,
        )
        out[ids] = {
            name: {
                "seconds": c.seconds,
                "peak_mb": c.peak_mb,
                "times_bare_scan": c.seconds / costs["bare_scan"].seconds,
            }
            for name, c in costs.items()
        }
    for label, method, norm in (("rrf", "rrf", None), ("comb-mnz", "mnz", "min-max")):
        answer, peak = peer(
            "ranx_fuse",
            files=_files(folder),
            method=method,
            norm=norm,
            out=str(CACHE / "A.ranx.trec"),
            sample=_files(sample),
        )
        ours = out["11-byte ids"][label]
        out[f"ranx_{label}"] = answer | {
            "peak_mb": peak,
            "times_slower_than_concordant": answer["total"] / ours["seconds"],
            "concordant_share_of_its_memory": ours["peak_mb"] / peak,
        }
    return out


def evaluation() -> dict[str, Any]:
    """NDCG@10 and MAP of the fused run of workload A, in memory: Concordant, ranx warm, ir_measures."""
    folder = workload("A", "--no-flagr")
    fused, qrels = str(CACHE / "A.fused.trec"), str(folder / "qrels.trec")
    run([*CONCORDANT, "aggregate", *_files(folder), "--method", "rrf", "-o", fused, "--quiet"])
    ours = _ours("evaluate", run=fused, qrels=qrels, repeats=5)
    ranx, _ = peer("ranx_evaluate", run=fused, qrels=qrels, repeats=5)
    measures, _ = peer("ir_measures_evaluate", run=fused, qrels=qrels, repeats=2)
    again = _ours("evaluate", run=fused, qrels=qrels, repeats=5)
    seconds = min(ours["seconds"], again["seconds"])
    return {
        "seconds": seconds,
        "values": ours["values"],
        "ranx": ranx | {"times_slower": ranx["seconds"] / seconds},
        "ir_measures": measures | {"times_slower": measures["seconds"] / seconds},
    }


def _equal_to_flagr() -> dict[str, float]:
    """Check the scores against PyFLAGR's on a small workload without ties, before anything is timed.

    PyFLAGR divides Borda's points by the number of items, puts unlisted items last in majorities, counts half a win for
    a tie in Copeland, and prints six decimals. Its MC4 follows another definition and is only timed.
    """
    small = workload("equal-flagr", "--nq", "10", "--topk", "100", "--pool", "300", "--round", "9")
    folder = CACHE / "flagr-equal"
    folder.mkdir(exist_ok=True)
    same: dict[str, tuple[cc.Aggregator, Callable[[float, int], float]]] = {
        "borda": (cc.Borda(), lambda score, n: score / n),
        "condorcet": (cc.Condorcet(missing="below"), lambda score, _: float(int(score))),
        "copeland": (cc.Copeland(missing="below"), lambda score, n: (n - 1 + score) / 2),
        "rra": (cc.RobustRank(correction="bonferroni"), lambda score, _: 10**-score),
    }
    peer("flagr", csv=str(small / "flagr_input.csv"), methods=list(same), folder=str(folder))
    preferences = cc.read_runs(_files(small))
    gaps = {}
    for name, (method, convert) in same.items():
        with (folder / f"{name}.csv").open() as table:
            theirs = {(row["Query"], row["ItemID"]): float(row["Score"]) for row in csv.DictReader(table)}
        frame = method.fit_predict(preferences).to_frame()
        sizes = dict(zip(preferences.instances, preferences.slots.sizes.tolist(), strict=True))
        ours = {(q, i): convert(score, sizes[q]) for q, i, score in frame.select("instance", "item", "score").rows()}
        gaps[name] = max(abs(ours[k] - theirs[k]) for k in ours) if set(ours) == set(theirs) else float("inf")
        if not gaps[name] < 1e-6:
            raise SystemExit(f"{name}: Concordant and PyFLAGR disagree by {gaps[name]}; nothing is timed")
    return gaps


def workload_b() -> dict[str, Any]:
    """100 instances x 10 lists x top 100: the pairwise methods beside PyFLAGR and ranx."""
    equal = _equal_to_flagr()
    folder = workload("B", "--nq", "100", "--topk", "100", "--pool", "300")
    sample = workload("B10", "--nq", "10", "--topk", "100", "--pool", "300")
    methods = {
        "borda": {"method": "borda"},
        "condorcet": {"method": "condorcet", "missing": "unknown"},
        "copeland": {"method": "copeland", "missing": "unknown"},
        "mc4": {"method": "markov-chain", "chain": 4, "missing": "unknown"},
        "comb-mnz": {"method": "comb-mnz"},
        "rra": {"method": "robust-rank"},
    }
    ours = _ours("fuse", files=_files(folder), methods=methods, out=str(CACHE / "B.out"), repeats=4)
    flagr_out = CACHE / "flagr"
    flagr_out.mkdir(exist_ok=True)
    flagr, _ = peer("flagr", csv=str(folder / "flagr_input.csv"), methods=list(methods), folder=str(flagr_out))
    ranx, _ = peer("ranx_methods", files=_files(folder), methods=["bordafuse", "condorcet"], sample=_files(sample))
    again = _ours("fuse", files=_files(folder), methods=methods, out=str(CACHE / "B.out"), repeats=4)
    out: dict[str, Any] = {}
    for name in methods:
        warm = min(ours[name]["warm"], again[name]["warm"])
        out[name] = {
            "seconds": warm,
            "first_call_seconds": ours[name]["first"],
            "pyflagr_seconds": flagr[name],
            "pyflagr_rows": flagr[f"{name}_rows"],
            "times_faster_than_pyflagr": flagr[name] / warm,
        }
    for name, theirs in (("borda", "bordafuse"), ("condorcet", "condorcet")):
        total = ranx["read"] + ranx[theirs] + ranx["save"]
        out[name] |= {
            "ranx_seconds": total,
            "times_faster_than_ranx": total / out[name]["seconds"],
            "ranx_fusion_alone_seconds": ranx[theirs],
        }
    return {"equal_answers": equal, "methods": out}


def linear() -> dict[str, Any]:
    """How the cost of reading, fusing and writing grows from A/100 to A."""
    sizes, times = [], []
    for nq in (10, 30, 100, 300, 1000):
        folder = workload("A" if nq == 1000 else f"A-{nq}", "--nq", str(nq), "--no-flagr")
        times.append(
            _ours(
                "fuse", files=_files(folder), methods={"rrf": {"method": "rrf"}}, out=str(CACHE / "linear"), repeats=3
            )["rrf"]["warm"]
        )
        sizes.append(nq * 10_000)
    return {"rows": sizes, "seconds": times, "slope": slope(sizes, times)}


def _means(arguments: list[str]) -> dict[str, dict[str, float]]:
    """Return row -> metric -> mean of a command that prints a table of either."""
    results = json.loads(run([*CONCORDANT, *arguments, "--json"]).output)["results"]
    rows = results["methods"] if isinstance(results, dict) else results
    return {row.get("method") or row["run"].lower(): row["metrics"] for row in rows}


def letor() -> dict[str, Any]:
    """MQ2008-agg, mean of the five test folds: RRF beside the published row, and every heuristic."""
    folder = str(DATA / "MQ2008-agg")
    return {
        "published_rrf": published.letor_row("RRF", table="000_table2_mq_agg"),
        "rrf": _means(["compare", folder, "--methods", "rrf", "--convention", "letor"])["rrf"],
        "all": _means(["compare", folder, "--methods", "all", "--convention", "letor"]),
    }


def trec3() -> dict[str, Any]:
    """TREC-3 ad hoc: MAP of single runs and of the fusion of all forty, straight from the unpacked folder."""
    folder = CACHE / "trec3"
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(DATA / "trec3-adhoc" / "TREC-3-runs.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        (folder / ".done").touch()
    given = [str(folder / "TREC-3"), "--labels", str(DATA / "trec3-adhoc" / "T3-j.txt")]
    shown = ["--metrics", "map,p@10", "--convention", "trec"]
    return {
        "expected_map": {"inq102": 0.4226, "citya1": 0.4012, "brkly7": 0.3714, "inq101": 0.3659, "assctv2": 0.3540},
        "single_runs": _means(["evaluate", *given, *shown]),
        "fused": _means(["compare", *given, *shown, "--methods", "rrf,comb-sum,comb-mnz,borda,condorcet"]),
    }


def tests(arguments: list[str], name: str) -> Callable[[], dict[str, Any]]:
    """Return a section that runs part of the test suite at full size and keeps its closing line."""

    def section() -> dict[str, Any]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        full = {**os.environ, "CONCORDANT_FUZZ": "full"}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=full, check=False)
        closing = [line for line in done.stdout.splitlines() if line.strip()][-1]
        if done.returncode != 0:
            raise SystemExit(f"{name}: {closing}\n{done.stdout[-3000:]}")
        return {"command": "pytest " + " ".join(arguments), "closing_line": closing}

    section.__doc__ = f"The tests of {name}."
    return section


BENCHMARKS: dict[str, Callable[[], dict[str, Any]]] = {
    "startup": startup,
    "request": request,
    "sizes": sizes,
    "workload_a": workload_a,
    "evaluation": evaluation,
    "workload_b": workload_b,
    "linear": linear,
}


def _of_the_models() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the sections of the models, one file per family beside this one."""
    return {name: section for file in FAMILIES for name, section in import_module(file).SECTIONS.items()}


EVIDENCE: dict[str, Callable[[], dict[str, Any]]] = {
    "letor": letor,
    "trec3": trec3,
    "reading": tests(["-m", "data", "tests/io"], "the readers on every file of the real data"),
    "golden": tests(["-m", "golden", "-v"], "the golden cases"),
    **BENCHMARKS,
    **_of_the_models(),
}

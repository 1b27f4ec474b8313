"""Runs one task through a peer library, in the peers' own environment, and prints one JSON object.

Times are taken inside the process after imports and after a warm-up on a small sample, so that no peer is charged for
its compiler.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

warnings.filterwarnings("ignore")


def ranx_fuse(files, method, norm, out, sample):
    """Read, fuse and save with ranx."""
    from ranx import Run, fuse

    def job(paths, target):
        marks = [time.perf_counter()]
        runs = [Run.from_file(p, kind="trec") for p in paths]
        marks.append(time.perf_counter())
        fused = fuse(runs=runs, norm=norm, method=method)
        marks.append(time.perf_counter())
        fused.save(target, kind="trec")
        marks.append(time.perf_counter())
        return [b - a for a, b in pairwise(marks)]

    job(sample, out + ".warm")
    read, fused, saved = job(files, out)
    return {"read": read, "fuse": fused, "save": saved, "total": read + fused + saved}


def ranx_methods(files, methods, sample):
    """Fuse with several methods of ranx; reading and saving are timed once."""
    from ranx import Run, fuse

    warm = [Run.from_file(p, kind="trec") for p in sample]
    started = time.perf_counter()
    runs = [Run.from_file(p, kind="trec") for p in files]
    out = {"read": time.perf_counter() - started}
    for method in methods:
        fuse(runs=warm, norm=None, method=method)
        started = time.perf_counter()
        fused = fuse(runs=runs, norm=None, method=method)
        out[method] = time.perf_counter() - started
    started = time.perf_counter()
    fused.save("/dev/null", kind="trec")
    out["save"] = time.perf_counter() - started
    return out


def ranx_evaluate(run, qrels, repeats):
    """Evaluate a run in memory with ranx."""
    from ranx import Qrels, Run, evaluate

    q, r = Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec")
    values = evaluate(q, r, ["ndcg@10", "map"], make_comparable=True)
    best = 1e9
    for _ in range(repeats):
        started = time.perf_counter()
        evaluate(q, r, ["ndcg@10", "map"], make_comparable=True)
        best = min(best, time.perf_counter() - started)
    return {"seconds": best, "values": {k: float(v) for k, v in values.items()}}


def ir_measures_evaluate(run, qrels, repeats):
    """Evaluate a run with ir_measures, reading included and alone."""
    import ir_measures
    from ir_measures import AP, nDCG

    started = time.perf_counter()
    q = list(ir_measures.read_trec_qrels(qrels))
    r = list(ir_measures.read_trec_run(run))
    read = time.perf_counter() - started
    best = 1e9
    for _ in range(repeats):
        started = time.perf_counter()
        values = ir_measures.calc_aggregate([nDCG @ 10, AP], q, r)
        best = min(best, time.perf_counter() - started)
    return {"read": read, "seconds": best, "values": {str(k): float(v) for k, v in values.items()}}


def ir_measures_files(runs, qrels, metrics):
    """Read and evaluate run after run with ir_measures; return the means of each."""
    import ir_measures

    q = list(ir_measures.read_trec_qrels(qrels))
    measure = ir_measures.evaluator([ir_measures.parse_measure(m) for m in metrics], q)
    return [{str(k): float(v) for k, v in measure.calc_aggregate(ir_measures.read_trec_run(r)).items()} for r in runs]


def flagr(csv, methods, folder):
    """Aggregate with PyFLAGR, CSV in and out as it works."""
    from pyflagr.Linear import BordaCount, CombMNZ
    from pyflagr.Majoritarian import CondorcetWinners, CopelandWinners
    from pyflagr.MarkovChains import MC4
    from pyflagr.RRA import RRA

    makers = {
        "borda": lambda: BordaCount(eval_pts=10),
        "comb-mnz": lambda: CombMNZ(norm="score", eval_pts=10),
        "condorcet": lambda: CondorcetWinners(eval_pts=10),
        "copeland": lambda: CopelandWinners(eval_pts=10),
        "mc4": lambda: MC4(eval_pts=10),
        "rra": lambda: RRA(eval_pts=10),
    }
    out = {}
    for name in methods:
        method = makers[name]()
        started = time.perf_counter()
        frame, _ = method.aggregate(input_file=csv, out_dir=folder)
        out[name] = time.perf_counter() - started
        frame.to_csv(Path(folder) / f"{name}.csv", index=False)
        out[f"{name}_rows"] = len(frame)
    return out


def lightgbm_held_out(data, candidates, trees, out):
    """Write what LightGBM says about rows it has not learned from, for every candidate and number of trees."""
    import lightgbm as lgb
    import numpy as np

    with np.load(data) as table:
        X, y, sizes, fold = table["X"], table["y"], table["sizes"], table["fold"]
    of_row = np.repeat(fold, sizes)
    found = np.empty((len(candidates), len(trees), len(y)))
    started = time.perf_counter()
    for f in np.unique(fold):
        learned, held = of_row != f, of_row == f
        for c, params in enumerate(candidates):
            part = lgb.Dataset(X[learned], y[learned], group=sizes[fold != f], params=params)
            model = lgb.train(params, part, num_boost_round=max(trees))
            for t, n in enumerate(trees):
                found[c, t, held] = model.predict(X[held], num_iteration=n)
    seconds = time.perf_counter() - started
    np.save(out, found)
    return {"seconds": seconds, "fits": len(candidates) * len(np.unique(fold))}


def lightgbm_rank(data, params, trees, out):
    """Train LightGBM on the whole training part and write its scores of the test part."""
    import lightgbm as lgb
    import numpy as np

    with np.load(data) as table:
        X, y, sizes, other = table["X"], table["y"], table["sizes"], table["X_test"]
    started = time.perf_counter()
    model = lgb.train(params, lgb.Dataset(X, y, group=sizes, params=params), num_boost_round=trees)
    seconds = time.perf_counter() - started
    np.save(out, model.predict(other))
    return {"seconds": seconds, "version": lgb.__version__}


def lightgbm_large(X, y, sizes, params, trees, n_train, out):
    """Train LightGBM on the first rows of a table that stays on disk, and write its scores of the others."""
    import lightgbm as lgb
    import numpy as np

    table, label, group = np.load(X, mmap_mode="r"), np.load(y), np.load(sizes)
    rows = int(group[:n_train].sum())
    marks = [time.perf_counter()]
    part = lgb.Dataset(table[:rows], label[:rows], group=group[:n_train], params=params, free_raw_data=True)
    part.construct()
    marks.append(time.perf_counter())

    def tell(env):
        if (env.iteration + 1) % 10 == 0:
            print(f"  LightGBM: {env.iteration + 1} of {trees} trees", file=sys.stderr, flush=True)

    model = lgb.train(params, part, num_boost_round=trees, callbacks=[tell])
    marks.append(time.perf_counter())
    np.save(out, model.predict(table[rows:]))
    return {"binning": marks[1] - marks[0], "training": marks[2] - marks[1], "version": lgb.__version__}


if __name__ == "__main__":
    task, options = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(globals()[task](**options)))

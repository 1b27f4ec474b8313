"""Supervised aggregation at full size: five folds beside the papers, other numbers of experts, and what was learned.

Every number of a table is a mean over test folds that nothing was chosen by: transforms, learning rates, penalties and
passes are chosen on the validation part of a fold, and what was chosen is printed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

import auto_choice
import blends
import crowd
import numpy as np
import published
import runtime_study
import trec3_supervised
from measure import CACHE, run
from render import table
from studies import DATA

import concordant as cc
from concordant.data.dataset import Fold
from concordant.errors import ConcordantWarning
from concordant.selection import GridSearch, cross_validate
from concordant_papers import crf as crf_study

METRICS = [*(f"ndcg@{k}" for k in range(1, 6)), "p@1", "p@5", "map"]
SEEDS = 5
BASELINE = "RRF"
DISTANCES = ["kendall", "footrule", "spearman"]
CRF_PLAIN_SGD: dict[str, Any] = crf_study.CRF_PLAIN_SGD
SVD_AS_PUBLISHED: dict[str, Any] = crf_study.SVD_AS_PRINTED
# What is to be said of a published row beside ours.
REMARKS = {
    "CPS, supervised": "the published row takes the largest rank for the best, ours the smallest, so that the "
    "difference is one of reading the ranks, not of the method. [Aggregation without labels on "
    "LETOR](reproduced/letor-unsupervised.md) has CPS with both readings."
}
# What the project set out to reach on MQ2008-agg.
FLOORS = {
    "CRF": {"ndcg@5": 50.7, "map": 50.1},
    "SVDRank": {"ndcg@5": 50.3, "map": 50.0},
    "ListwiseLinear": {"ndcg@5": 50.9, "map": 50.3},
    "θ_sup-MPM": {"ndcg@5": 43.79, "map": 44.51},
}
PUBLISHED_STORY = {
    "relied on (large positive weights, negative bias)": crf_study.RELIED_ON,
    "hardly used (weights near zero, positive bias)": crf_study.HARDLY_USED,
    "turned around (negative weights)": crf_study.TURNED_AROUND,
    "removed for CRF*": crf_study.REMOVED,
}


class Way(NamedTuple):
    """A row of the table: a method, and the row of the papers beside it."""

    method: Any
    theirs: tuple[str, str] | None = None
    command: str = ""


TABLE_1, TABLE_5, TABLE_6 = published.UNSUPERVISED, published.SUPERVISED, crf_study.TABLE_6


class PrunedCRF(cc.CRF):
    """The papers' CRF*: fitted, then fitted again without the experts that add nothing."""

    def fit(self, preferences: Any, labels: Any = None, *, validation: Any = None, features: Any = None) -> Self:
        """Fit, prune and return self; the second fit keeps the transform and the learning rate of the first."""
        whole = cc.CRF(**self.get_params()).fit(preferences, labels, validation=validation)
        found = whole.fit_info_.chosen
        whole.set_params(transform=found["transform"], learning_rate=found["learning_rate"])
        star = whole.prune(preferences, labels, validation=validation)
        self.__dict__.update(star.__dict__ | self.get_params())
        self.fit_info_.chosen = found | self.fit_info_.chosen | {"without": list(star.pruned_)}
        return self


def ways() -> dict[str, Way]:
    """Return the rows of the table; every choice among candidates is made on the validation part of a fold."""
    return {
        "RRF": Way(cc.RRF(), ("RRF", TABLE_5), "rrf"),
        "CombSUM": Way(cc.CombSUM(), None, "comb-sum"),
        "CombMNZ": Way(cc.CombMNZ(), None, "comb-mnz"),
        "θ-MPM": Way(cc.MPM(adherence="learned", uncertainty="none"), ("theta-MPM", TABLE_1), "mpm"),
        "θ_sup-MPM": Way(
            cc.MPM(adherence="supervised", uncertainty="none"),
            ("theta_sup-MPM", TABLE_5),
            "mpm(adherence=supervised)",
        ),
        "RRF, k and weights learned": Way(
            cc.RRF(k="learned", weights="learned"), None, "rrf(k=learned,weights=learned)"
        ),
        "CPS, supervised": Way(
            GridSearch(cc.CPS(adherence="supervised"), {"distance": DISTANCES}, convention="paper"),
            ("CPS-best", TABLE_5),
        ),
        "ListwiseLinear": Way(cc.ListwiseLinear(), None, "listwise-linear"),
        "ListwiseLinear, transform chosen": Way(cc.ListwiseLinear(transform="auto")),
        "ListwiseLinear, log and binary joined": Way(cc.ListwiseLinear(transform="log+binary")),
        "SVDRank": Way(cc.SVDRank(strength="auto"), ("SVDsup", TABLE_5), "svd-rank(strength=auto)"),
        "SVDRank, combined": Way(cc.SVDRank(strength="auto", weights="consensus")),
        "SVDRank as published": Way(cc.SVDRank(strength="auto", **SVD_AS_PUBLISHED), ("SVDsup", TABLE_5)),
        "LR-I (published, binary)": Way(cc.SVDRank(strength="binary", **SVD_AS_PUBLISHED)),
        "LR-R (published, rankdiff)": Way(cc.SVDRank(strength="rankdiff", **SVD_AS_PUBLISHED)),
        "LR-logR (published, log)": Way(cc.SVDRank(strength="log", **SVD_AS_PUBLISHED)),
        "CRF": Way(
            cc.CRF(transform="auto", learning_rate="auto"), ("CRF", TABLE_5), "crf(transform=auto,learning_rate=auto)"
        ),
        # One draw for each visit and the best pass; not the model of the papers, so that no row of theirs is beside it.
        "CRF, plain SGD": Way(cc.CRF(transform="auto", learning_rate="auto", **CRF_PLAIN_SGD)),
        "CRF, consensus": Way(cc.CRF(weights="consensus")),
        "CRF, log and 5": Way(cc.CRF(), ("CRF", TABLE_5)),
        "CRF*, log and 5": Way(PrunedCRF(), ("CRF*", TABLE_6)),
    }


def table_of(folds: Sequence[Fold], rows: dict[str, Way], seeds: int = SEEDS) -> dict[str, Any]:
    """Return the mean of the test folds of every row, its standard error over seeds, and paired tests against RRF."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for name, way in rows.items():
            started = time.perf_counter()
            n = seeds if way.method.tags.stochastic else 1
            validated = cross_validate(way.method, folds=list(folds), metrics=METRICS, convention="letor", seeds=n)
            found[name] = (validated, time.perf_counter() - started)
            print(f"  {name}: {_brief(validated)} in {found[name][1]:.0f} s", file=sys.stderr, flush=True)
    comparison = cc.compare({name: v for name, (v, _) in found.items()}, baseline=BASELINE, tests=["t", "fisher"])
    out = {}
    for n, (name, (validated, seconds)) in enumerate(found.items()):
        theirs = rows[name].theirs
        mean = {m: 100 * validated.mean[m] for m in METRICS}
        wanted = {} if theirs is None else published.letor_row(theirs[0], METRICS, theirs[1])
        several = len(validated.seeds) > 1
        out[name] = {
            "mean": mean,
            "seeds": len(validated.seeds),
            "standard_error": {m: 100 * validated.spread[m] / len(validated.seeds) ** 0.5 for m in METRICS}
            if several
            else {},
            "seed_means": {m: (100 * validated.seed_means[m]).tolist() for m in METRICS} if several else {},
            "published": wanted,
            "difference": {m: mean[m] - v for m, v in wanted.items()},
            "p_t": dict(zip(METRICS, comparison.p_values["t"][n].tolist(), strict=True)),
            "p_t_holm": dict(zip(METRICS, comparison.adjusted["t"][n].tolist(), strict=True)),
            "p_fisher_holm": dict(zip(METRICS, comparison.adjusted["fisher"][n].tolist(), strict=True)),
            "chosen": _chosen(validated),
            "folds": [_of_fold(validated, f) for f in range(len(folds))],
            "validation": [
                float(np.mean([r.fit_info.validation for r in validated.runs if r.fold == f]))
                for f in range(len(folds))
            ]
            if all(r.fit_info.validation is not None for r in validated.runs)
            else [],
            "seconds": seconds,
        }
    return out


def _of_fold(validated: Any, fold: int) -> dict[str, float]:
    runs = [r for r in validated.runs if r.fold == fold]
    return {m: 100 * float(np.mean([r.evaluation.mean[m] for r in runs])) for m in METRICS}


def _brief(validated: Any) -> str:
    return ", ".join(f"{m} {100 * validated.mean[m]:.2f}" for m in ("ndcg@1", "ndcg@5", "map"))


def _chosen(validated: Any) -> list[dict[str, dict[str, int]]]:
    """Return for every fold what was chosen, and by how many of the seeds."""
    out = []
    for fold in sorted({r.fold for r in validated.runs}):
        names: dict[str, Counter[str]] = {}
        for one in (r for r in validated.runs if r.fold == fold):
            for name, value in one.chosen.items():
                names.setdefault(name, Counter())[_short(value)] += 1
        out.append({name: dict(counts.most_common()) for name, counts in names.items()})
    return out


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def mq2008() -> dict[str, Any]:
    """MQ2008-agg with labels: mean of five test folds (letor convention, percent), settings chosen on validation."""
    folder = DATA / "MQ2008-agg"
    if not folder.is_dir():
        return {"not_available": "MQ2008-agg"}
    rows = ways()
    found = table_of(cc.read_letor_folds(folder), rows)
    return {"rows": found, "floors": _floors(found), "command": _command(folder, rows, found)}


def _floors(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for name, wanted in FLOORS.items():
        for metric, floor in wanted.items():
            value = found[name]["mean"][metric]
            out.setdefault(name, {})[metric] = {"floor": floor, "value": value, "reached": value >= floor}
    return out


def _command(folder: Path, rows: dict[str, Way], found: dict[str, Any], seeds: int = 2) -> dict[str, Any]:
    """Return the one command a user types for the same rows, what it took, and how far it is from their first seeds."""
    named = {name: way.command for name, way in rows.items() if way.command}
    arguments = ["compare", str(folder), "--methods", ",".join(named.values()), "--seeds", str(seeds)]
    cost = run([sys.executable, "-m", "concordant", *arguments, "--json", "--quiet"])
    means = {row["method"]: row["metrics"] for row in json.loads(cost.output)["results"]["methods"]}

    def ours(name: str, metric: str) -> float:
        by_seed = found[name]["seed_means"]
        return float(np.mean(by_seed[metric][:seeds])) if by_seed else float(found[name]["mean"][metric])

    gap = max(abs(100 * means[said][m] - ours(name, m)) for name, said in named.items() for m in METRICS)
    shown = ["concordant", *(a if a != str(folder) else folder.name for a in arguments)]
    return {
        "command": " ".join(f'"{a}"' if "(" in a else a for a in shown),
        "seconds": cost.seconds,
        "largest_difference": gap,
    }


def other_numbers(folder: Path, n_instances: int = 240) -> Path:
    """Return a LETOR rank-aggregation folder with 21 experts, labels 0 to 3 and four folds, written once."""
    quality = [2.0, 1.5, 1.5, 1.0, 1.0, 0.5, 0.5, 0.5, *[0.3] * 4, *[0.0] * 5, -0.5, -1.0, -1.5, -2.0]
    votes, labels = cc.synthetic.labelled_runs(
        n_instances,
        quality=quality,
        labels=(0, 0, 0, 0, 0, 1, 1, 2, 3),
        n_items=(5, 40),
        missing=0.7,
        random_state=21,
    )
    shutil.rmtree(folder, ignore_errors=True)
    part = np.arange(n_instances) % 4
    for fold in range(4):
        place = folder / f"Fold{fold + 1}"
        place.mkdir(parents=True)
        for name, parts in (("train", (2, 3)), ("vali", (1,)), ("test", (0,))):
            cc.write_letor(votes[np.isin((part - fold) % 4, parts)], place / f"{name}.txt", labels)
    return folder


def other() -> dict[str, Any]:
    """Synthetic LETOR folder of another shape (21 experts, labels 0 to 3, four folds): the same commands."""
    folder = other_numbers(CACHE / "letor21")
    rows = {name: way._replace(theirs=None) for name, way in ways().items()}
    folds = cc.read_letor_folds(folder)
    found = table_of(folds, rows, seeds=2)
    experts = folds[0].train.preferences.n_experts
    return {
        "experts": experts,
        "folds": len(folds),
        "labels": sorted({float(v) for f in folds for v in np.unique(f.train.labels.label)}),
        "rows": found,
        "command": _command(folder, rows, found, seeds=2),
    }


def experts_story() -> dict[str, Any]:
    """Experts of MQ2008-agg, fold 1: which the CRF trusts, ignores and inverts, and which are left after pruning."""
    folder = DATA / "MQ2008-agg"
    if not folder.is_dir():
        return {"not_available": "MQ2008-agg"}
    train, vali, _ = cc.read_letor_folds(folder)[0]
    models, pruned = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcordantWarning)
        for seed in range(SEEDS):
            given: dict[str, Any] = {"transform": "auto", "learning_rate": "auto", "random_state": seed}
            models.append(cc.CRF(**given).fit(*train, validation=vali))
            pruned.append(PrunedCRF(**given).fit(*train, validation=vali))
    learned = [m.learned_experts() for m in models]
    names = sorted(learned[0]["expert"], key=int)
    place = [[columns["expert"].index(e) for e in names] for columns in learned]
    listed = np.bincount(train.preferences.row_expert, minlength=train.preferences.n_experts)
    share = dict(zip(train.preferences.experts, (listed / train.preferences.n_slots).tolist(), strict=True))
    experts = {}
    for n, name in enumerate(names):
        row: dict[str, Any] = {"listed": share[name]}
        for column in ("alpha", "beta_plus", "beta_minus", "weight"):
            values = [columns[column][where[n]] for columns, where in zip(learned, place, strict=True)]
            row[column] = float(np.mean(values))
            row[f"{column}_sd"] = float(np.std(values, ddof=1))
        words = (columns["meaning"][where[n]] for columns, where in zip(learned, place, strict=True))
        said = Counter(re.match(r"\w+", word).group() for word in words)  # type: ignore[union-attr] # never empty
        row["meaning"], row["seeds_agreeing"] = said.most_common(1)[0]
        experts[name] = row
    removed = [sorted(m.pruned_, key=int) for m in pruned]
    # The papers' rule: next to no weight on what an expert prefers, and a positive one on not being listed by it.
    most = max(abs(e[c]) for e in experts.values() for c in ("beta_plus", "beta_minus"))
    unused = [
        name
        for name, e in experts.items()
        if max(abs(e["beta_plus"]), abs(e["beta_minus"])) < crf_study.SMALL * most and e["alpha"] > 0
    ]
    without = {}
    for who, some in (("ours", unused), ("theirs", list(crf_study.REMOVED))):
        parts = [(part.preferences.drop_experts(some), part.labels) for part in (train, vali)]
        fitted = [cc.CRF(**m.get_params()).fit(*parts[0], validation=parts[1]) for m in models]
        without[who] = [m.fit_info_.validation for m in fitted]
    return {
        "unused": unused,
        "validation_without": without,
        "experts": experts,
        "chosen": [dict(m.fit_info_.chosen) for m in models],
        "validation": [m.fit_info_.validation for m in models],
        "validation_pruned": [m.fit_info_.validation for m in pruned],
        "removed": removed,
        "removed_by_most": [e for e in names if 2 * sum(e in r for r in removed) > len(removed)],
    }


def exact_gradients() -> dict[str, Any]:
    """Exact gradients of the expected metric: dynamic programming against vectorised enumeration of all orders."""
    crf_gradients = import_module("crf_gradients")
    found: dict[str, Any] = crf_gradients.study()
    return found


def _render_table(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows: list[list[object]] = []
    for name, row in r["rows"].items():
        marks = {m: "*" if name != BASELINE and row["p_t_holm"][m] < 0.05 else "" for m in METRICS}
        error = row["standard_error"]
        cells = [f"{row['mean'][m]:.2f}{marks[m]}" + (f" ± {error[m]:.2f}" if error else "") for m in METRICS]
        rows.append([name, *cells])
        if row["published"]:
            known, gap = row["published"], row["difference"]
            theirs = [f"{known[m]:.2f} ({gap[m]:+.2f})" if m in known else "–" for m in METRICS]
            rows.append(["published (ours less theirs)", *theirs])
    parts = []
    if "experts" in r:
        labels = ", ".join(f"{v:g}" for v in r["labels"])
        parts.append(
            f"{r['experts']} experts, labels {labels}, {r['folds']} folds; the code and the command are the same."
        )
    parts += [
        table(["", *METRICS], rows),
        f"± is the standard error over {max(row['seeds'] for row in r['rows'].values())} seeds (rows without it are "
        "deterministic); * differs from RRF by a paired t-test over all test queries, per-query means over the "
        "seeds, Holm's correction over the rows, 5 percent.",
        *(f"{name}: {REMARKS[name]}" for name, row in r["rows"].items() if row["published"] and name in REMARKS),
        table(["", "p of N@5", "p of MAP", "chosen, fold by fold", "seconds"], _details(r["rows"])),
    ]
    if "floors" in r:
        floors = [
            [name, metric, f"{v['floor']:.2f}", f"{v['value']:.2f}", "yes" if v["reached"] else "no"]
            for name, of_row in r["floors"].items()
            for metric, v in of_row.items()
        ]
        parts.append(table(["set out to reach", "", "at least", "ours", "reached"], floors))
    c = r["command"]
    parts.append(
        f"In one command ({c['seconds']:.0f} s), whose means differ from the rows above by at most "
        f"{c['largest_difference']:.1e}:\n\n```\n{c['command']}\n```"
    )
    return "\n\n".join(parts)


def _details(rows: dict[str, Any]) -> list[list[object]]:
    out: list[list[object]] = []
    for name, row in rows.items():
        folds = []
        for chosen in row["chosen"]:
            words = [f"{n} {'/'.join(counts)}" for n, counts in chosen.items()]
            folds.append(", ".join(words))
        said = "; ".join(f"{n}: {text}" for n, text in enumerate(folds, 1)) if any(folds) else "–"
        tests = ["–", "–"] if name == BASELINE else [f"{row['p_t'][m]:.2g}" for m in ("ndcg@5", "map")]
        out.append([name, *tests, said, f"{row['seconds']:.0f}"])
    return out


def _render_story(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"Not available: {r['not_available']}."
    rows = []
    sorts: dict[str, list[str]] = {"trusted": [], "discounted": [], "inverted": [], "ignored": []}
    for name, e in r["experts"].items():
        numbers = [f"{e[c]:+.2f} ± {e[f'{c}_sd']:.2f}" for c in ("alpha", "beta_plus", "beta_minus", "weight")]
        said = e["meaning"] + ("" if e["seeds_agreeing"] == SEEDS else f" ({e['seeds_agreeing']} of {SEEDS} seeds)")
        rows.append([name, f"{100 * e['listed']:.0f} %", *numbers, said])
        sorts[e["meaning"]].append(name)
    ours = "; ".join(f"{sort}: {', '.join(who) or 'none'}" for sort, who in sorts.items())
    theirs = "; ".join(f"{what}: {', '.join(who)}" for what, who in PUBLISHED_STORY.items())
    values = {
        "CRF": r["validation"],
        "CRF*: `prune`": r["validation_pruned"],
        f"without {', '.join(r['unused']) or 'none'} (their rule on our weights)": r["validation_without"]["ours"],
        f"without {', '.join(crf_study.REMOVED)} (as published)": r["validation_without"]["theirs"],
    }
    mean = {name: 100 * float(np.mean(found)) for name, found in values.items()}
    seeds = [
        [name, *(f"{100 * v:.2f}" for v in found), f"{mean[name]:.2f}", f"{mean[name] - mean['CRF']:+.2f}"]
        for name, found in values.items()
    ]
    removed = "; ".join(", ".join(gone) or "none" for gone in r["removed"])
    return "\n\n".join(
        [
            f"Means and standard deviations over {SEEDS} seeds. alpha: the item is not listed by the expert; beta+: "
            "it is preferred to others; beta-: others are preferred; weight: how far an average list of the expert "
            "puts its first item above its last, in units of the score.",
            table(["expert", "lists", "alpha", "beta+", "beta-", "weight", "in a word"], rows),
            f"Ours: {ours}. Nearly unused by the papers' rule (both beta below {100 * crf_study.SMALL:.0f} percent of "
            f"the largest, alpha positive): {', '.join(r['unused']) or 'none'}.",
            f"The papers: {theirs}.",
            "Fitted again without some experts: NDCG@10 on the validation part, percent, by seed:",
            table(["", *(str(n) for n in range(SEEDS)), "mean", "less CRF"], seeds),
            "`prune` drops the experts that change the scores least, as long as the held-out metric does not fall: "
            f"{removed}.",
        ]
    )


def _render_gradients(r: dict[str, Any]) -> str:
    crf_gradients = import_module("crf_gradients")
    text: str = crf_gradients.render(r)
    return text


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "supervised_mq2008": mq2008,
    "supervised_21": other,
    "experts_story": experts_story,
    **trec3_supervised.SECTIONS,
    **crowd.SECTIONS,
    **blends.SECTIONS,
    **auto_choice.SECTIONS,
    "exact_gradients": exact_gradients,
    **runtime_study.SECTIONS,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "supervised_mq2008": _render_table,
    "supervised_21": _render_table,
    "experts_story": _render_story,
    **trec3_supervised.RENDER,
    **crowd.RENDER,
    **blends.RENDER,
    **auto_choice.RENDER,
    "exact_gradients": _render_gradients,
    **runtime_study.RENDER,
}

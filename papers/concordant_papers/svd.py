"""The SVD features paper: three transforms, features by expert or summed, a difficult query, and a crowd.

Features are singular vectors of the preference matrix of every expert, with weights learned by LambdaRank. The studies
measure their gain over the sum of all experts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import concordant as cc
from concordant_papers import crowd, letor
from concordant_papers._arrays import Floats
from concordant_papers.engine import Cell, Setting, Study
from concordant_papers.letor import COLUMNS, MARKS, Result, Way
from concordant_papers.pages import Claim, Page, Picture, Row, Table

__all__ = ["STUDIES"]

AS_PRINTED = {"scaling": "paper", "average": 0.0, "l2": 0.0, "learning_rate": 0.01}
NDCG = [column for column in COLUMNS if column.startswith("N@")]
PRECISION = [column for column in COLUMNS if column.startswith("P@")]


def _plan(ways: Mapping[str, Way], setting: Setting) -> list[Cell]:
    return [
        cell
        for name, folder in letor.sets(setting).items()
        for row, way in ways.items()
        for cell in letor.cells(name, folder, row, way, setting.seeds)
    ]


# Three transforms.


def _transforms(quick: bool) -> dict[str, Way]:
    less: dict[str, Any] = {"passes": 30} if quick else {}
    return {"RRF": Way("rrf")} | {
        row: Way("svd-rank", {"strength": strength} | AS_PRINTED | less, seconds=1.5)
        for row, strength in (("LR-I", "binary"), ("LR-R", "rankdiff"), ("LR-logR", "log"))
    }


def _plan_transforms(setting: Setting) -> list[Cell]:
    return _plan(_transforms(setting.quick), setting)


def _page_transforms(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables, claims = [], []
    ways = _transforms(setting.quick)
    said = {"LR-I": "1 for every pair", "LR-R": "difference of ranks", "LR-logR": "difference of their logarithms"}
    for name, folder in letor.sets(setting).items():
        found = {row: letor.gathered(values, name, folder, row) for row in ways}
        rows = [
            letor.row(
                f"{row} ({said[row]})" if row in said else row,
                found[row],
                exact=row == "RRF",
                baseline=None if row == "RRF" else found["RRF"],
            )
            for row in ways
        ]
        note = MARKS.format(baseline="RRF") + " The paper's own numbers are lost; what it says about them is below."
        tables.append(Table(f"{name}-transforms", f"{name}: three transforms", list(COLUMNS), rows, note=note))
        claims += _transform_claims(name, found)
    for name in letor.absent(setting):
        claims.append(Claim(f"{name}: LR-logR and LR-I are level", None, f"{name} is not in the data folder"))
    return Page(tables, claims)


def _transform_claims(name: str, found: Mapping[str, Result | None]) -> list[Claim]:
    binary, ranks, logs, rrf = (found[row] for row in ("LR-I", "LR-R", "LR-logR", "RRF"))
    if binary is None or ranks is None or logs is None or rrf is None:
        return [Claim(f"{name}: LR-logR is the best of the three", None, "not computed")]
    claims = []
    if name in letor.PUBLISHED_SETS:
        best = [c for c in NDCG if logs.mean[c] > max(binary.mean[c], ranks.mean[c])]
        claims.append(
            Claim(
                f"{name}: LR-logR is the best of the three in N@1-5",
                len(best) == len(NDCG),
                f"in {len(best)} of {len(NDCG)}; N@5 {logs.mean['N@5']:.2f}, {binary.mean['N@5']:.2f} (LR-I), "
                f"{ranks.mean['N@5']:.2f} (LR-R)",
            )
        )
        for other, result in (("LR-I", binary), ("LR-R", ranks)):
            sure = [c for c in letor.marked(logs, result) if logs.mean[c] > result.mean[c]]
            claims.append(
                Claim(
                    f"{name}: LR-logR is significantly above {other} in N@1-5",
                    set(NDCG) <= set(sure),
                    f"significant: {', '.join(sure) or 'none'}",
                )
            )
    gains = {
        row: {c: r.mean[c] - rrf.mean[c] for c in NDCG} for row, r in found.items() if r is not None and row != "RRF"
    }
    least, most = min(min(of.values()) for of in gains.values()), max(max(of.values()) for of in gains.values())
    claims.append(
        Claim(
            f"{name}: all three are above RRF in N@1-5 (the paper: by up to about 5 points, over its two sets)",
            least > 0,
            f"from {least:+.2f} to {most:+.2f}",
        )
    )
    return claims


# The number of singular triples.

_RANKS = (1, 2, 3, 5)


def _ranks(quick: bool) -> dict[str, Way]:
    less: dict[str, Any] = {"passes": 30} if quick else {}
    return {"RRF": Way("rrf")} | {
        f"p = {p}": Way("svd-rank", {"strength": "log", "p": p} | AS_PRINTED | less, seconds=1.5 * p) for p in _RANKS
    }


def _plan_ranks(setting: Setting) -> list[Cell]:
    return _plan(_ranks(setting.quick), setting)


def _page_ranks(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables, claims = [], []
    for name, folder in letor.sets(setting).items():
        found = {row: letor.gathered(values, name, folder, row) for row in _ranks(setting.quick)}
        one = found["p = 1"]
        held_out = {row: _validated(result) for row, result in found.items() if row != "RRF" and result is not None}
        rows = [
            letor.row(row, result, exact=row == "RRF", baseline=None if row == "p = 1" else one)._replace(
                why=f"held out {held_out[row]:.3f}" if row in held_out else ""
            )
            for row, result in found.items()
        ]
        note = (
            MARKS.format(baseline="p = 1") + " p singular triples of every expert, log transform, training as printed. "
            "Held out: NDCG@10 of the validation parts. The paper chose p by cross-validation."
        )
        tables.append(
            Table(f"{name}-svd-rank", f"{name}: singular triples of every expert", list(COLUMNS), rows, note=note)
        )
        text = f"{name}: p = 1 is the best on the validation parts"
        if len(held_out) < len(_RANKS):
            claims.append(Claim(text, None, "not computed"))
        else:
            best = max(held_out, key=lambda row: held_out[row])
            detail = ", ".join(f"{row} {value:.3f}" for row, value in held_out.items())
            claims.append(Claim(text, best == "p = 1", f"NDCG@10 held out: {detail}"))
    return Page(tables, claims)


def _validated(result: Result) -> float:
    """Return the mean validation metric over folds and seeds, in percent."""
    return 100 * float(np.mean([d["validation"] for d in result.details if d["validation"] is not None]))


# One by one, or added up.


def _combined(quick: bool) -> dict[str, Way]:
    less: dict[str, Any] = {"passes": 30} if quick else {}
    return {
        "RRF": Way("rrf"),
        "SVDsup, individual": Way("svd-rank", {"strength": "auto"} | less, seconds=3),
        "SVDsup, combined": Way("svd-rank", {"strength": "auto", "weights": "consensus"} | less, seconds=2),
        "CRF, individual": Way("crf", less, seconds=2),
        "CRF, consensus": Way("crf", {"weights": "consensus"} | less, seconds=2),
    }


def _plan_combined(setting: Setting) -> list[Cell]:
    return _plan(_combined(setting.quick), setting)


def _page_combined(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables: list[Table] = []
    claims: list[Claim] = []
    pictures: list[Picture] = []
    for name, folder in letor.sets(setting).items():
        found = {row: letor.gathered(values, name, folder, row) for row in _combined(setting.quick)}
        rows = [
            letor.row(row, r, exact=row == "RRF", baseline=None if row == "RRF" else found["RRF"])
            for row, r in found.items()
        ]
        note = (
            "Combined: features of the sum of all experts' matrices; consensus: one set of weights for all experts. "
            + MARKS.format(baseline="RRF")
        )
        title = f"{name}: experts one by one, or added up"
        tables.append(Table(f"{name}-combined", title, list(COLUMNS), rows, note=note))
        for kind, one, sum_ in (
            ("SVDsup", "SVDsup, individual", "SVDsup, combined"),
            ("CRF", "CRF, individual", "CRF, consensus"),
        ):
            claims += _combined_claims(name, kind, found[one], found[sum_], found["RRF"])
        shown = {row: found[row] for row in ("SVDsup, individual", "SVDsup, combined", "RRF")}
        for what, columns in (("NDCG", NDCG), ("precision", PRECISION)):
            curves = {
                row: {k: 100 * r.of_query(c) for k, c in enumerate(columns, 1)}
                for row, r in shown.items()
                if r is not None
            }
            if curves:
                pictures.append(_curve_picture(name, what, curves))
    return Page(tables, claims, pictures)


def _curve_picture(name: str, what: str, curves: Mapping[str, Mapping[int, Floats]]) -> Picture:
    def draw(ax: Any) -> None:
        cc.plots.metric_by_cutoff(curves, level=None, ax=ax)
        ax.set_ylabel(f"{what}@k, percent")

    return Picture(
        f"{name}-combined-{what.lower()}", f"{name}: {what}, experts one by one or added up", draw, (5.6, 3.8)
    )


def _combined_claims(
    name: str, kind: str, one: Result | None, together: Result | None, rrf: Result | None
) -> list[Claim]:
    if one is None or together is None or rrf is None:
        return [Claim(f"{name}: {kind} with weights for every expert is clearly above", None, "not computed")]
    gaps = {c: one.mean[c] - together.mean[c] for c in COLUMNS}
    sure = [c for c in letor.marked(one, together) if gaps[c] > 0]
    level = {c: together.mean[c] - rrf.mean[c] for c in COLUMNS}
    far = max(level, key=lambda c: abs(level[c]))
    above = Claim(
        f"{name}: {kind} with experts one by one is above {kind} with experts added up in every column",
        min(gaps.values()) > 0,
        f"{min(gaps.values()):+.2f} to {max(gaps.values()):+.2f}, significant in {len(sure)} of {len(COLUMNS)}",
    )
    like_rrf = Claim(
        f"{name}: {kind} with experts added up is about as good as RRF (within 1 point in every column)",
        abs(level[far]) <= 1,
        f"at most {level[far]:+.2f} ({far})",
    )
    return [above, like_rrf] if name in letor.PUBLISHED_SETS else [above]


# A difficult query.


def difficult(*, folder: str, fold: int, passes: int) -> dict[str, Any]:
    """Return the clearest test query of a fold that RRF gets wrong and SVDsup right, and how many there are.

    Among queries with one relevant document, which RRF ranks fifth or lower and SVDsup first, the one with the fewest
    documents is taken, then the one with the lowest rank by RRF, then the first.
    """
    train, vali, test = letor.folds(folder)[fold]
    votes, labels = test.preferences, test.labels.align(test.preferences)
    svd = cc.SVDRank(strength="auto", passes=passes).fit(*train, validation=vali).predict(votes)
    rrf = cc.RRF().fit_predict(votes)
    found, reverse, one_relevant, printed = [], 0, 0, []
    for q, (a, b) in enumerate(zip(votes.slots.offsets[:-1].tolist(), votes.slots.offsets[1:].tolist(), strict=True)):
        relevant = np.flatnonzero(labels.label[a:b] > 0)
        if len(relevant) != 1:
            continue
        one_relevant += 1
        i = int(relevant[0])
        places = {"RRF": _places(rrf.score[a:b]), "SVDsup": _places(svd.score[a:b])}
        if b - a == 8 and places["RRF"][i] == 5:
            printed.append({"query": votes.instances[q], "SVDsup": int(places["SVDsup"][i])})
        if places["RRF"][i] >= 5 and places["SVDsup"][i] == 1:
            found.append((b - a, -int(places["RRF"][i]), q))
        reverse += int(places["SVDsup"][i] >= 5 and places["RRF"][i] == 1)
    out: dict[str, Any] = {"candidates": len(found), "reverse": reverse, "queries": one_relevant, "printed": printed}
    if found:
        q = min(found)[2]
        out["query"] = _query(votes, labels, q, {"SVDsup": svd, "RRF": rrf})
    return out


def _places(score: Floats) -> Floats:
    """Return the rank of every item, ties in file order."""
    place = np.empty(len(score))
    place[np.argsort(-score, kind="stable")] = np.arange(1, len(score) + 1)
    return place


def _query(votes: cc.Preferences, labels: cc.Labels, q: int, by: Mapping[str, cc.Consensus]) -> dict[str, Any]:
    a, b = int(votes.slots.offsets[q]), int(votes.slots.offsets[q + 1])
    rows = np.flatnonzero((votes.slot >= a) & (votes.slot < b))
    return {
        "id": votes.instances[q],
        "documents": votes.items[a:b].tolist(),
        "labels": labels.label[a:b].tolist(),
        "ranks": [[votes.experts[votes.row_expert[r]], int(votes.slot[r]) - a, float(votes.value[r])] for r in rows],
        "scores": {row: consensus.score[a:b].tolist() for row, consensus in by.items()},
    }


def _plan_difficult(setting: Setting) -> list[Cell]:
    passes = 30 if setting.quick else 200
    return [
        Cell(
            f"{name}/fold {fold + 1}",
            difficult,
            {"folder": folder, "fold": fold, "passes": passes},
            letor.reads_of(folder),
            3.0,
        )
        for name, folder in letor.sets(setting).items()
        for fold in range(letor.n_folds(folder))
    ]


def _page_difficult(setting: Setting, values: Mapping[str, Any]) -> Page:
    tables, claims, pictures = [], [], []
    for name in letor.sets(setting):
        start = f"{name}/fold "
        folds = {int(key[len(start) :]): value for key, value in values.items() if key.startswith(start)}
        if not folds:
            continue
        count = {n: sum(value[n] for value in folds.values()) for n in ("queries", "candidates", "reverse")}
        by_fold = ", ".join(f"{folds[fold]['candidates']} in fold {fold}" for fold in sorted(folds))
        claims += [
            Claim(
                f"{name}: there is a test query whose only relevant document RRF ranks below 4 and SVDsup first",
                count["candidates"] > 0,
                f"{count['candidates']} of {count['queries']} queries with one relevant document: {by_fold}",
            ),
            Claim(
                f"{name}: that happens more often than the other way round",
                count["candidates"] > count["reverse"],
                f"{count['candidates']} against {count['reverse']}",
                ours=True,
            ),
        ]
        if name == "MQ2008-agg":
            printed = [p for value in folds.values() for p in value["printed"]]
            places = ", ".join(f"{p['SVDsup']} (query {p['query']})" for p in printed)
            claims.append(
                Claim(
                    f"{name}: a query of 8 documents, one of them relevant, which RRF has behind four others and "
                    "SVDsup first",
                    any(p["SVDsup"] == 1 for p in printed),
                    f"{len(printed)} queries are like that by RRF; places by SVDsup: {places or 'none'}",
                )
            )
        clearest = [
            (len(value["query"]["documents"]), fold) for fold, value in sorted(folds.items()) if "query" in value
        ]
        if clearest:
            fold = min(clearest)[1]
            tables.append(_query_table(name, fold, folds[fold]["query"]))
            pictures.append(_query_picture(name, fold, folds[fold]["query"]))
    return Page(tables, claims, pictures)


def _short(query: Mapping[str, Any]) -> list[str]:
    """Name the documents as the paper does, by their position in the file."""
    return [f"d{n}" for n in range(1, len(query["documents"]) + 1)]


def _query_table(name: str, fold: int, query: Mapping[str, Any]) -> Table:
    places = {row: _places(np.array(score)) for row, score in query["scores"].items()}
    rows = [
        Row(
            f"{d} ({document})",
            {"label": query["labels"][n]}
            | {f"place by {row}": float(place[n]) for row, place in places.items()}
            | {"experts who list it": float(sum(slot == n for _, slot, _ in query["ranks"]))},
        )
        for n, (d, document) in enumerate(zip(_short(query), query["documents"], strict=True))
    ]
    columns = ["label", *(f"place by {row}" for row in places), "experts who list it"]
    note = (
        "The test query with the fewest documents among those with one relevant document, which RRF ranks fifth or "
        "lower and SVDsup first."
    )
    return Table(f"{name}-difficult-query", f"{name}, fold {fold}: query {query['id']}", columns, rows, 0, note)


def _query_picture(name: str, fold: int, query: Mapping[str, Any]) -> Picture:
    def draw(ax: Any) -> None:
        documents = _short(query)
        pairs = [("query", d) for d in documents]
        expert, slot, value = zip(*query["ranks"], strict=True)
        items = [documents[s] for s in slot]
        votes = cc.Preferences(["query"] * len(items), expert, items, value, kind="rank", items=pairs)
        beside = {
            row: cc.Consensus(["query"] * len(documents), documents, score) for row, score in query["scores"].items()
        }
        labels = cc.Labels(["query"] * len(documents), documents, query["labels"])
        cc.plots.rank_matrix(votes, "query", consensus=beside, labels=labels, ax=ax)

    experts = len({e for e, _, _ in query["ranks"]})
    size = (2.2 + 0.36 * (experts + 4), 1.8 + 0.26 * len(query["documents"]))
    return Picture(
        f"{name}-difficult-query", f"{name}, fold {fold}: query {query['id']}, ranks by every expert", draw, size
    )


# The crowd.

_ORDER = ("LR-unlabeled", "LR-labeled", "LR-consensus", "majority vote")
_CHOSEN = ", rate chosen"
_SPLITS = 5


def _crowd_ways(quick: bool) -> dict[str, dict[str, Any]]:
    learned = {
        "LR-unlabeled": {"only_gold": False, "weights": "mixed"},
        "LR-labeled": {"only_gold": True, "weights": "mixed"},
        "LR-consensus": {"only_gold": False, "weights": "consensus"},
    }
    out: dict[str, dict[str, Any]] = {}
    for row, how in learned.items():
        out[row] = {"way": "learned", "rates": [crowd.RATE], **how}
    for row, how in learned.items():
        if not quick:
            out[row + _CHOSEN] = {"way": "learned", "rates": [0.01, 0.1, 1.0], **how}
    nothing = {"only_gold": False, "weights": "consensus", "rates": [crowd.RATE]}
    crf = {"only_gold": False, "rates": [crowd.RATE], "way": "crf"}
    return out | {
        "CRF, mixed": crf | {"weights": "mixed"},
        "CRF, consensus": crf | {"weights": "consensus"},
        "majority vote": {"way": "majority"} | nothing,
        "Condorcet": {"way": "condorcet"} | nothing,
    }


def _crowd_folder(setting: Setting) -> str | None:
    if setting.quick:
        return crowd.SYNTHETIC
    folder = setting.folder("trec2011-crowd")
    return None if folder is None else str(folder)


def _plan_crowd(setting: Setting) -> list[Cell]:
    folder = _crowd_folder(setting)
    if folder is None:
        return []
    reads = () if setting.quick else (setting.folder("trec2011-crowd"),)
    known = tuple(path for path in reads if path is not None)
    passes = 40 if setting.quick else crowd.PASSES
    out = [Cell("data", crowd.counts, {"folder": folder}, known)]
    for row, how in _crowd_ways(setting.quick).items():
        for split in range(_SPLITS):
            arguments = {"folder": folder, "split": split, "passes": passes, "seeds": setting.seeds} | how
            out.append(Cell(f"{row}/split {split + 1}", crowd.judged, arguments, known, 5.0 * len(how["rates"])))
    return out


def _page_crowd(setting: Setting, values: Mapping[str, Any]) -> Page:
    columns = list(crowd.CUTOFFS)
    splits: dict[str, list[dict[str, float]]] = {}
    for row in _crowd_ways(setting.quick):
        some = [values.get(f"{row}/split {n + 1}") for n in range(_SPLITS)]
        known = [value["values"] for value in some if value is not None]
        if len(known) == _SPLITS:
            splits[row] = [{c: 100 * float(np.mean([v[c] for v in of])) for c in columns} for of in known]
    mean = {row: {c: float(np.mean([s[c] for s in of])) for c in columns} for row, of in splits.items()}
    spread = {row: {c: float(np.std([s[c] for s in of], ddof=1)) for c in columns} for row, of in splits.items()}
    overall = {row: float(np.mean(list(of.values()))) for row, of in mean.items()}
    rows = [
        Row(row, mean[row] | {"mean": overall[row]}, errors=spread[row])
        for row in sorted(splits, key=lambda r: -overall[r])
    ]
    rows += [Row(row, {}, why="not computed") for row in _crowd_ways(setting.quick) if row not in splits]
    note = (
        "NDCG on gold documents of the test topics, percent; ± is the standard deviation between five random splits of "
        f"the topics; learned rows are means of {setting.seeds} seeds. The learning rate is the papers' {crowd.RATE}, "
        "or one of 0.01, 0.1 and 1 by the validation part; the CRF is not in the paper and has its default. "
        "The published table is lost; its order is below."
    )
    table = Table("crowd", "Crowd judgements with few gold labels", [*columns, "mean"], rows, 1, note)
    claims = [_crowd_claim(a, b, splits, columns) for n, a in enumerate(_ORDER) for b in _ORDER[n + 1 :]]
    return Page([table], claims, [_crowd_picture(mean)] if mean else [], _crowd_notes(setting, values, claims, splits))


def _crowd_claim(a: str, b: str, splits: Mapping[str, Sequence[Mapping[str, float]]], columns: Sequence[str]) -> Claim:
    text = f"{a} above {b} at every truncation (N@1-10)"
    if a not in splits or b not in splits:
        return Claim(text, None, "not computed")
    gaps = _gaps(splits[a], splits[b], columns)
    short = [c for c in columns if _gaps(splits[a], splits[b], [c]).mean() <= 0]
    detail = f"not at {', '.join(short)}; " if short else ""
    detail += (
        f"mean {gaps.mean():+.1f}, standard error over the splits "
        f"{gaps.std(ddof=1) / len(gaps) ** 0.5:.1f}; in {int((gaps > 0).sum())} of {len(gaps)} splits"
    )
    if a + _CHOSEN in splits:
        chosen = _gaps(splits[a + _CHOSEN], splits.get(b + _CHOSEN, splits[b]), columns)
        detail += f"; with rates chosen {chosen.mean():+.1f}"
    return Claim(text, not short, detail)


def _gaps(a: Sequence[Mapping[str, float]], b: Sequence[Mapping[str, float]], columns: Sequence[str]) -> Floats:
    return np.array([np.mean([x[c] - y[c] for c in columns]) for x, y in zip(a, b, strict=True)])


def _crowd_picture(mean: Mapping[str, Mapping[str, float]]) -> Picture:
    curves = {row: {k: of[f"N@{k}"] for k in range(1, 11)} for row, of in mean.items() if not row.endswith(_CHOSEN)}

    def draw(ax: Any) -> None:
        cc.plots.metric_by_cutoff(curves, level=None, ax=ax)
        ax.set_ylabel("NDCG@k, percent")

    return Picture("crowd", "Crowd judgements: NDCG on gold documents", draw)


def _crowd_notes(
    setting: Setting,
    values: Mapping[str, Any],
    claims: Sequence[Claim],
    splits: Mapping[str, Sequence[Mapping[str, float]]],
) -> list[str]:
    """Describe the data and explain the order of the rows."""
    data = values.get("data")
    if data is None:
        return []
    labels = ", ".join(f"{n} of {label}" for label, n in data["by label"].items())
    notes = [
        f"{data['judgements']:,} judgements, {data['on gold topics']:,} of them on the {data['topics']} topics with "
        f"gold labels: {data['workers']:,} workers, {data['documents']:,} documents, {data['gold']} gold labels "
        f"({labels}). Workers were asked again {data['asked again']} times; where they contradict "
        f"themselves ({data['undecided']} documents) they count as silent. On gold documents a judgement agrees with "
        f"the label in {100 * data['agreement']:.0f} of 100 cases."
    ]
    known = [v for key, v in values.items() if key.startswith("LR-unlabeled/") and "known_workers" in v]
    if setting.quick or not known:
        return notes
    workers = [v["known_workers"] for v in known]
    each, share = (
        float(np.mean([v[n] for v in known])) for n in ("gold_judgements_each", "share_of_tested_judgements")
    )
    pairs = [(a, b) for n, a in enumerate(_ORDER) for b in _ORDER[n + 1 :] if a in splits and b in splits]
    gaps = {(a, b): _gaps(splits[a], splits[b], list(crowd.CUTOFFS)) for a, b in pairs}
    in_mean = [" above ".join(pair) for pair, g in gaps.items() if g.mean() > 0]
    sure = [" and ".join(pair) for pair, g in gaps.items() if abs(g.mean()) > 2 * g.std(ddof=1) / len(g) ** 0.5]
    return [
        *notes,
        f"Of the published order {sum(c.holds is True for c in claims)} of {len(claims)} relations hold at every "
        f"truncation, and in the mean over the truncations: {', '.join(in_mean) or 'none'}. Different by more than "
        f"twice the standard error over the splits: {', '.join(sure) or 'no two of them'}. "
        f"This is the sister task: {data['gold']} gold labels instead of 2,275, {data['topics']} topics instead of "
        f"100. A training part has about {data['train gold']:.0f} gold labels, a test part {data['test topics']} "
        f"topics with {data['test gold'][0]} to {data['test gold'][1]} gold documents. The {min(workers)} to "
        f"{max(workers)} workers with weights of their own (from {known[0]['known_from']} judgements on, as large a "
        f"share of the training part as theirs) judged {each:.0f} gold documents each and make "
        f"{100 * share:.0f} percent of the judgements that are tested: their own weights take them out of the common "
        "matrix, and LR-consensus, where they stay in it, is what so few labels suffice for.",
    ]


_P2 = "Volkovs, Larochelle and Zemel, Learning to rank by aggregating expert preferences (CIKM 2012)"
_P1 = "Volkovs and Zemel, New learning methods for supervised and unsupervised preference aggregation (JMLR 2014)"
_NEEDS = ("*-agg",)

STUDIES: list[Study] = [
    Study(
        "svd-transforms",
        f"{_P2}, table 3",
        "SVD features of three transforms: LR-I, LR-R, LR-logR",
        _NEEDS,
        _plan_transforms,
        _page_transforms,
    ),
    Study(
        "svd-rank",
        f"{_P2}; {_P1}: the choice of p",
        "SVD features: one singular triple of every expert, or several",
        _NEEDS,
        _plan_ranks,
        _page_ranks,
    ),
    Study(
        "svd-combined",
        f"{_P2}, figure 3; {_P1}, figure 8",
        "SVD features of every expert against those of their sum",
        _NEEDS,
        _plan_combined,
        _page_combined,
    ),
    Study(
        "difficult-query",
        f"{_P2}, figure 4; {_P1}, figure 9",
        "A query that RRF gets wrong and SVD features get right",
        _NEEDS,
        _plan_difficult,
        _page_difficult,
    ),
    Study(
        "crowd",
        f"{_P2}, table 2",
        "Crowd judgements: a few workers by name, the others together",
        ("trec2011-crowd",),
        _plan_crowd,
        _page_crowd,
    ),
]

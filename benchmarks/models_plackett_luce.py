"""Plackett-Luce measured: the published row of MQ2008-agg, answers that are known, ways to read ties, and growth."""

from __future__ import annotations

import csv
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import ROOT, run, slope
from numpy.typing import NDArray
from render import table

import concordant as cc
from concordant.data.index import Slots, Texts
from concordant.errors import ConcordantWarning, NoFiniteEstimateError

Floats = NDArray[np.float64]
DATA = ROOT.parent / "shared" / "data"
SEED = 7
METRICS = ["ndcg@1", "ndcg@2", "ndcg@3", "ndcg@4", "ndcg@5", "p@1", "map"]
PUBLISHED = dict(zip(METRICS, [35.20, 38.49, 39.70, 40.49, 41.55, 41.32, 42.20], strict=True))
# Hunter (2004), table 2, log-worth relative to the driver numbered 1.
HUNTER = {"58": 4.15, "68": 3.62, "51": 2.08, "82": 1.83, "66": 2.06, "15": 0.03, "17": -0.31, "40": -0.15}


def _missing(name: str) -> dict[str, Any]:
    return {"available": False, "data": name}


def plackett_luce_letor() -> dict[str, Any]:
    """MQ2008-agg, mean of five test folds, letor convention: the defaults, the papers' steps, no prior."""
    if not (DATA / "MQ2008-agg").is_dir():
        return _missing("MQ2008-agg")
    folds = cc.read_letor_folds(DATA / "MQ2008-agg")
    models = {
        "at its defaults": cc.PlackettLuce(uncertainty="none"),
        'prior="published"': cc.PlackettLuce(prior="published", uncertainty="none"),
        "gradient steps of the papers": cc.PlackettLuce(optimizer="gd"),
        "bare (prior=1e-6)": cc.PlackettLuce(prior=1e-6, uncertainty="none"),
        'prior=("gamma", 2, 1)': cc.PlackettLuce(prior=("gamma", 2.0, 1.0), uncertainty="none"),
        'prior="published", adherence, learned on the training folds': cc.PlackettLuce(
            prior="published", adherence=True, uncertainty="none", unknown_experts="ignore"
        ),
        'prior="published", missing="below"': cc.PlackettLuce(prior="published", missing="below", uncertainty="none"),
        "at its defaults, with intervals": cc.PlackettLuce(),
    }
    rows: dict[str, dict[str, float]] = {}
    for name, model in models.items():
        found, seconds = [], 0.0
        for train, _, (test, labels) in folds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConcordantWarning)
                started = time.perf_counter()
                answer = model.fit(train[0]).predict(test) if model.adherence else model.fit_predict(test)
                seconds += time.perf_counter() - started
            found.append(cc.evaluate(answer, labels, METRICS, convention="letor").mean)
        rows[name] = {m: 100 * float(np.mean([f[m] for f in found])) for m in METRICS} | {"seconds": seconds}
    instances = sum(len(test[0]) for _, _, test in folds)
    return {"available": True, "published": PUBLISHED, "rows": rows, "instances": instances}


def _races() -> list[list[str]]:
    with open(DATA / "r-ranking" / "PlackettLuce" / "data" / "nascar.csv", newline="") as file:
        return [[str(int(float(c))) for c in row[1:] if c and float(c)] for row in list(csv.reader(file))[1:]]


def _ranked(lists: list[list[str]]) -> cc.Preferences:
    return cc.from_lists({f"e{n}": items for n, items in enumerate(lists)})


def plackett_luce_known() -> dict[str, Any]:
    """Known answers: Hunter's NASCAR table, two optimisers on PrefLib, first and last films of MovieLens."""
    out: dict[str, Any] = {}
    if (DATA / "r-ranking").is_dir():
        races = _races()
        try:
            cc.PlackettLuce(prior=0).fit(_ranked(races))
            refused = ""
        except NoFiniteEstimateError as error:
            refused = str(error)
        kept = cc.PlackettLuce(prior=0).fit_predict(_ranked([[d for d in race if int(d) <= 83] for race in races]))
        s = dict(zip(kept.items, kept.score.tolist(), strict=True))
        out["nascar"] = {
            "refused": refused,
            "drivers": {d: {"published": want, "ours": s[d] - s["1"]} for d, want in HUNTER.items()},
        }
    if (DATA / "preflib").is_dir():
        files = ["14-sushi/00014-00000001.soc", "14-sushi/00014-00000002.soi", "04-netflix/00004-00000001.soc"]
        out["preflib"] = {}
        for name in files:
            votes = cc.read_preflib(DATA / "preflib" / name)
            newton = cc.PlackettLuce(prior=0)
            fast = newton.fit_predict(votes)
            slow = cc.PlackettLuce(prior=0, optimizer="mm", uncertainty="none", max_iter=100_000).fit_predict(votes)
            out["preflib"][name] = {
                "ballots": float(votes.weights.sum()),
                "items": votes.n_slots,
                "steps": newton.fit_info_.n_iter,
                "seconds": newton.fit_info_.seconds,
                "largest_difference_to_mm": float(np.abs(fast.score - slow.score).max()),
                "likelihood": float(newton.fit_info_.objective or 0.0) / float(votes.weights.sum()),
            }
    if (DATA / "movielens-100k").is_dir():
        out["movielens"] = _movielens()
    return out | {"available": bool(out)}


def _movielens() -> dict[str, Any]:
    ratings = cc.read_ratings(DATA / "movielens-100k" / "u.data")
    with open(DATA / "movielens-100k" / "u.item", encoding="latin-1") as lines:
        names = {line.split("|")[0]: line.split("|")[1] for line in lines}
    raters = dict(zip(ratings.items, np.bincount(ratings.slot, minlength=ratings.n_slots).tolist(), strict=True))
    out: dict[str, Any] = {}
    for label, model in {
        "at its defaults": cc.PlackettLuce(uncertainty="none"),
        'prior="published"': cc.PlackettLuce(prior="published", uncertainty="none"),
        'the papers\' (optimizer="gd", ties="random")': cc.PlackettLuce(optimizer="gd", ties="random"),
        'ties="partition"': cc.PlackettLuce(ties="partition", uncertainty="none"),
    }.items():
        started = time.perf_counter()
        order = model.fit_predict(ratings).ranking()
        out[label] = {
            "seconds": time.perf_counter() - started,
            "top": [[names[i], raters[i]] for i in order[:5]],
            "bottom": [[names[i], raters[i]] for i in order[-5:]],
        }
    try:
        cc.PlackettLuce(prior=0).fit(ratings)
        out["bare"] = ""
    except NoFiniteEstimateError as error:
        out["bare"] = str(error)
    return out


def _spearman(a: Floats, b: Floats) -> float:
    ranks = [np.argsort(np.argsort(x)).astype(np.float64) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def plackett_luce_ties() -> dict[str, Any]:
    """Treatments of ties: coarse scales with known truth, and 5,000 people who scored and ranked the same sushi."""
    rng = np.random.default_rng(SEED)
    ways = ("average", "partition", "random", "input")
    drawn: dict[str, dict[str, list[float]]] = {}
    for levels, cuts in {"2": [0.5], "5": [-1.0, 0.0, 1.0, 2.0], "9": np.linspace(-2, 4, 8).tolist()}.items():
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(20):
            s = rng.normal(size=50)
            rows = []
            for e in range(200):
                seen = rng.permutation(50)[:10]
                values = np.digitize(s[seen] + rng.gumbel(size=10), cuts)
                rows += [(f"e{e}", f"i{i}", float(v)) for i, v in zip(seen.tolist(), values.tolist(), strict=True)]
            columns = list(zip(*rows, strict=True))
            votes = cc.Preferences(
                ["q"] * len(rows), *map(list, columns), kind="rating", items=[("q", f"i{i}") for i in range(50)]
            )
            for way in ways:
                got = cc.PlackettLuce(ties=way, uncertainty="none").fit_predict(votes).score
                found[way].append((_spearman(got, s), float(np.polyfit(s, got, 1)[0])))
        drawn[levels] = {way: np.mean(found[way], axis=0).tolist() for way in ways}
    return {"drawn": drawn, "sushi": _sushi(ways)}


def _sushi(ways: tuple[str, ...]) -> dict[str, Any] | None:
    folder = DATA / "preflib" / "14-sushi"
    if not folder.is_dir():
        return None
    ranked = cc.read_preflib(folder / "00014-00000002.soi")
    scored = cc.read_preflib(folder / "00014-00000003.toi")
    told = cc.PlackettLuce(prior=0, uncertainty="none").fit_predict(ranked)

    def named(c: cc.Consensus) -> dict[str, float]:
        plain = (i.replace("{", "(").replace("}", ")") for i in c.items)
        return dict(zip(plain, c.score.tolist(), strict=True))

    rows = np.lexsort((ranked.value, ranked.row_list))
    items = ranked.slot[rows].reshape(-1, 10)

    def likelihood(scores: dict[str, float]) -> float:
        x = np.array([scores[i] for i in ranked.items])[items]
        left = np.log(np.cumsum(np.exp(x)[:, ::-1], axis=1)[:, ::-1])
        return float((x - left)[:, :-1].sum() / len(x))

    out = {"their own rankings": {"spearman": 1.0, "likelihood": likelihood(named(told))}}
    for way in ways:
        scores = named(cc.PlackettLuce(ties=way, uncertainty="none").fit_predict(scored))
        out[f'scores, ties="{way}"'] = {
            "spearman": _spearman(np.array([scores[i] for i in told.items]), told.score),
            "likelihood": likelihood(scores),
        }
    cut = cc.PlackettLuce(missing="below", uncertainty="none").fit_predict(ranked)
    whole = cc.PlackettLuce(uncertainty="none").fit_predict(cc.read_preflib(folder / "00014-00000002.toc"))
    gap = max(abs(named(cut)[i] - v) for i, v in named(whole).items())
    return {"rows": out, "below_is_the_tied_file": gap}


def rankings(n_lists: int, length: int, n_items: int) -> cc.Preferences:
    """Draw rankings of some of the items each by the Plackett-Luce law, from integer arrays."""
    rng = np.random.default_rng([SEED, n_lists, length, n_items])
    s = rng.normal(size=n_items)
    slot = np.empty((n_lists, length), dtype=np.int32)
    for start in range(0, n_lists, 10_000):
        part = min(10_000, n_lists - start)
        # Distinct items without a permutation of all: one out of each of `length` strides, in random order.
        stride = n_items // length
        seen = rng.integers(0, stride, (part, length)) + stride * np.arange(length)
        seen = (seen + rng.integers(0, n_items, (part, 1))) % n_items
        noisy = s[seen] + rng.gumbel(size=seen.shape)
        slot[start : start + part] = np.take_along_axis(seen, np.argsort(-noisy, axis=1), axis=1)
    return cc.Preferences.from_codes(
        Slots(Texts(["q"]), Texts([str(i) for i in range(n_items)]), np.array([0, n_items], dtype=np.int64)),
        Texts([str(e) for e in range(n_lists)]),
        np.arange(n_lists, dtype=np.int32),
        np.arange(n_lists + 1, dtype=np.int64) * length,
        np.array([0, n_lists], dtype=np.int64),
        slot.ravel(),
        np.tile(np.arange(1.0, length + 1), n_lists),
        kind="rank",
    )


def _fit(n_lists: int, length: int, n_items: int, repeats: int = 3, **params: Any) -> dict[str, Any]:
    """Time one size in a process of its own; memory is what the fit adds to what the preferences take."""
    answer = run([sys.executable, __file__, "fit", json.dumps([n_lists, length, n_items, repeats, params])])
    out: dict[str, Any] = json.loads(answer.output.splitlines()[-1])
    return out


def _fit_here(n_lists: int, length: int, n_items: int, repeats: int, params: dict[str, Any]) -> dict[str, Any]:
    cc.PlackettLuce(**params).fit_predict(rankings(30, 5, 20))
    votes = rankings(n_lists, length, n_items)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        model = cc.PlackettLuce(**params)
        model.fit_predict(votes)
        times.append(time.perf_counter() - started)
    return {
        "lists": n_lists,
        "length": length,
        "items": n_items,
        "seconds": min(times),
        "steps": model.fit_info_.n_iter,
        "gradient": model.fit_info_.gradient_norm,
        "added_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before,
    }


def plackett_luce_growth() -> dict[str, Any]:
    """Growth of the time with rows, length of lists, items and intervals, prior 0; slopes of log time."""
    bare = {"prior": 0, "uncertainty": "none"}
    series = {
        "rows (lists of 10 out of 1,000)": [
            _fit(n, 10, 1000, **bare) for n in (20_000, 50_000, 100_000, 200_000, 500_000)
        ],
        "length (10,000 lists, 2,000 items)": [_fit(10_000, m, 2000, **bare) for m in (10, 20, 50, 100, 200)],
        "items (100,000 lists of 10)": [_fit(100_000, 10, n, **bare) for n in (500, 1000, 2000, 5000, 10_000)],
        "items with intervals (20,000 lists of 10)": [
            _fit(20_000, 10, n, prior=0) for n in (100, 200, 500, 1000, 2000)
        ],
    }
    by = {"rows": "lists", "length": "length", "items": "items"}
    slopes = {
        name: slope([r[by[name.split()[0]]] for r in rows], [r["seconds"] for r in rows])
        for name, rows in series.items()
    }
    large = _fit(1_000_000, 10, 10_000, 1, **bare)
    return {"series": series, "slopes": slopes, "ten_million_rows": large}


def _letor(r: dict[str, Any]) -> str:
    if not r["available"]:
        return f"{r['data']} is not available."
    rows = [["published", *(f"{v:.2f}" for v in r["published"].values()), ""]]
    rows += [[name, *(f"{v[m]:.2f}" for m in METRICS), f"{v['seconds']:.1f} s"] for name, v in r["rows"].items()]
    note = (
        f'{r["instances"]} instances. prior="published" is 2 n / (1 + (n/10)²), n choices per item, made for this row; '
        "the row hardly moves for any constant from 8 to 20 in the place of 10. The default prior is weak, so that "
        "intervals hold (see above), and an item that few lists hold may come first. The time is of fitting all "
        "test folds (with adherence, of learning it on the training folds too)."
    )
    return "\n\n".join([table(["", *METRICS, "time"], rows), note])


def _known(r: dict[str, Any]) -> str:
    if not r["available"]:
        return "None of the data are available."
    parts = []
    if "nascar" in r:
        rows = [[d, f"{v['published']:.2f}", f"{v['ours']:.4f}"] for d, v in r["nascar"]["drivers"].items()]
        parts.append("Log-worth of NASCAR drivers relative to driver 1, Hunter (2004), table 2:")
        parts.append(table(["driver", "published", "ours"], rows))
        parts.append(f"All 87 drivers are refused: `{r['nascar']['refused']}`")
    if "preflib" in r:
        rows = [
            [
                name,
                f"{v['ballots']:,.0f}",
                v["items"],
                v["steps"],
                f"{v['seconds']:.2f} s",
                f"{v['largest_difference_to_mm']:.0e}",
                f"{v['likelihood']:.4f}",
            ]
            for name, v in r["preflib"].items()
        ]
        head = ["PrefLib", "ballots", "items", "Newton steps", "fit", "largest difference to MM", "log-likelihood each"]
        parts.append(table(head, rows))
    if "movielens" in r:
        shown = {k: v for k, v in r["movielens"].items() if k != "bare"}
        cells = {
            end: {k: "; ".join(f"{n} ({c})" for n, c in v[end]) for k, v in shown.items()} for end in ("top", "bottom")
        }
        rows = [[k, cells["top"][k], cells["bottom"][k], f"{shown[k]['seconds']:.2f} s"] for k in shown]
        parts.append("MovieLens-100k, films by all users, number of ratings in brackets:")
        parts.append(table(["", "top five", "bottom five", "time"], rows))
        parts.append(f"prior=0: `{r['movielens']['bare']}`")
    return "\n\n".join(parts)


def _ties(r: dict[str, Any]) -> str:
    ways = list(next(iter(r["drawn"].values())))
    rows = [
        [f"{levels} levels", *(f"{found[w][0]:.3f} / {found[w][1]:.2f}" for w in ways)]
        for levels, found in r["drawn"].items()
    ]
    parts = [
        "Spearman correlation with the true scores / slope on them; 200 lists of 10 out of 50 items, the experts' "
        "values told on a coarse scale, 20 draws, at the defaults:",
        table(["", *ways], rows),
    ]
    if r["sushi"]:
        rows = [[name, f"{v['spearman']:.3f}", f"{v['likelihood']:.3f}"] for name, v in r["sushi"]["rows"].items()]
        parts += [
            "5,000 people scored ten kinds of sushi each from 0 to 4, and ranked the same ten strictly. Scores of the "
            "100 kinds fitted to what they scored, beside those fitted to what they ranked, and the mean "
            "log-likelihood of the rankings:",
            table(["fitted to", "Spearman", "log-likelihood"], rows),
            '`missing="below"` on the lists of ten and the file in which the other ninety are tied below them differ '
            f"by {r['sushi']['below_is_the_tied_file']:.0e} at most.",
        ]
    return "\n\n".join(parts)


def _growth(r: dict[str, Any]) -> str:
    parts = []
    for name, series in r["series"].items():
        rows = [
            [
                f"{v['lists']:,}",
                f"{v['length']:,}",
                f"{v['items']:,}",
                f"{v['seconds']:.3f} s",
                v["steps"],
                f"{v['gradient']:.0e}",
                f"{v['added_mb']:.0f} MB",
            ]
            for v in series
        ]
        parts.append(f"Growth with {name}: slope {r['slopes'][name]:.2f}.")
        parts.append(table(["lists", "length", "items", "time", "Newton steps", "gradient", "memory added"], rows))
    large = r["ten_million_rows"]
    parts.append(
        f"{large['lists']:,} lists of {large['length']} out of {large['items']:,} items: {large['seconds']:.1f} s, "
        f"{large['added_mb']:,.0f} MB added."
    )
    return "\n\n".join(parts)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "plackett_luce_letor": plackett_luce_letor,
    "plackett_luce_known": plackett_luce_known,
    "plackett_luce_ties": plackett_luce_ties,
    "plackett_luce_growth": plackett_luce_growth,
}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {
    "plackett_luce_letor": _letor,
    "plackett_luce_known": _known,
    "plackett_luce_ties": _ties,
    "plackett_luce_growth": _growth,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["fit"]:
        print(json.dumps(_fit_here(*json.loads(sys.argv[2]))))
    else:
        for section in sys.argv[1:] or SECTIONS:
            print(RENDER[section](SECTIONS[section]()), flush=True)

"""What items that a list leaves out mean: methods of pairs on cut runs, with what is left out unknown and below."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from render import table
from studies import DATA

import concordant as cc
from concordant.errors import ConcordantWarning
from concordant_papers import trec3

DEPTHS = (20, 100)
METHODS: dict[str, tuple[type[cc.Aggregator], dict[str, Any]]] = {
    "condorcet": (cc.Condorcet, {}),
    "condorcet, fusion=True": (cc.Condorcet, {"fusion": True}),
    "copeland": (cc.Copeland, {}),
    "kemeny, solver='local'": (cc.Kemeny, {"solver": "local"}),
    **{f"markov-chain, chain={n}": (cc.MarkovChain, {"chain": n}) for n in (1, 2, 3, 4)},
    "plackett-luce": (cc.PlackettLuce, {"uncertainty": "none"}),
}


def missing_trec3() -> dict[str, Any]:
    """TREC-3, 40 runs cut to the first 20 or 100: left-out documents as unknown, or as below as runs declare."""
    folder = DATA / "trec3-adhoc"
    if not folder.is_dir():
        return {"not_available": "trec3-adhoc"}
    whole, labels = trec3.read(str(folder))
    rows: dict[str, dict[str, list[float]]] = {}
    for depth in DEPTHS:
        # Over the documents that some run then holds.
        runs = trec3.pooled(whole.top(depth))
        for name, (method, params) in METHODS.items():
            for missing in ("unknown", "below"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConcordantWarning)
                    found = method(**params, missing=missing).fit_predict(runs)
                mean = cc.evaluate(found, labels, ["ndcg@10", "map"]).mean
                rows.setdefault(name, {})[f"{depth} {missing}"] = [mean["ndcg@10"], mean["map"]]
        mean = cc.evaluate(cc.RRF().fit_predict(runs), labels, ["ndcg@10", "map"]).mean
        for missing in ("unknown", "below"):
            rows.setdefault("rrf, which does not ask", {})[f"{depth} {missing}"] = [mean["ndcg@10"], mean["map"]]
    return {"instances": len(whole), "runs": whole.n_experts, "rows": rows}


def _missing_trec3(r: dict[str, Any]) -> str:
    if "not_available" in r:
        return f"{r['not_available']} is not available."
    columns = [f"{depth} {missing}" for depth in DEPTHS for missing in ("unknown", "below")]
    rows = [[name, *(f"{v[c][0]:.3f} / {v[c][1]:.3f}" for c in columns)] for name, v in r["rows"].items()]
    note = (
        f"NDCG@10 / MAP over {r['instances']} topics and {r['runs']} runs. Methods are at their defaults except for "
        "what "
        'their names say; on runs the default is "below", because the reader declares it.'
    )
    return note + "\n\n" + table(["", *(c.replace(" ", ", ") for c in columns)], rows)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {"missing_trec3": missing_trec3}
RENDER: dict[str, Callable[[dict[str, Any]], str]] = {"missing_trec3": _missing_trec3}

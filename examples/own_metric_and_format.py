"""Register a metric and a file format in a few lines each, and use them by name.

Runs on the bundled sample: python examples/own_metric_and_format.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import concordant as cc
from concordant.data.sample import path
from concordant.io.formats import atomic_write
from concordant.metrics import Metric


@cc.register_metric
class LastRelevant(Metric):
    """R / position of the last relevant item, for R relevant items; 0 if one of them was not found."""

    name = "last"
    summary = "number of relevant items / position of the last one"

    def compute(self, ranked: Any, convention: Any, rel: float = 1.0) -> np.ndarray:
        found = ranked.relevant(rel)
        out = np.zeros(len(ranked))
        last = found.nth == found.total[found.instance]
        out[found.instance[last]] = found.nth[last] / found.position[last]
        return out


def write_top(consensus: cc.Consensus, target: str | Path, *, n: int = 3) -> None:
    """Write the n best items of each instance, one line for each instance."""
    with atomic_write(target) as file:
        for instance in consensus.instances:
            file.write(f"{instance}: {', '.join(consensus.ranking(instance)[:n])}\n".encode())


cc.register_format(
    "top", "the best items of each instance", write=write_top, extensions=(".top",), writes=(cc.Consensus,)
)


def main() -> None:
    runs, labels = cc.read_runs(path("runs")), cc.read_labels(path("qrels.txt"))
    found = {name: cc.aggregate(runs, name) for name in ("rrf", "comb-mnz", "borda")}
    print(cc.compare(found, labels, ["last", "map"], baseline="rrf"))

    cc.write(found["rrf"], "fused.top", n=2)
    print(*Path("fused.top").read_text(encoding="utf-8").splitlines()[:3], sep="\n")


if __name__ == "__main__":
    main()

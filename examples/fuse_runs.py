"""Fuse the runs of six search systems, give one of them more weight, and test the gain over the best system.

Runs on the bundled sample: python examples/fuse_runs.py
"""

from __future__ import annotations

import concordant as cc
from concordant.data.sample import path


def main() -> None:
    runs = cc.read_runs(path("runs"))
    labels = cc.read_labels(path("qrels.txt"))
    print(runs)

    # Read each system alone. In the joined runs, documents that only others found would follow its list as one tie.
    systems = {file.stem: cc.aggregate(cc.read_runs(file), "rrf") for file in sorted(path("runs").glob("*.trec"))}
    alone = {name: cc.evaluate(consensus, labels, "ndcg@10").mean["ndcg@10"] for name, consensus in systems.items()}
    best = max(alone, key=lambda name: alone[name])

    fused = {
        best: systems[best],
        "rrf": cc.RRF().fit_predict(runs),
        "rrf, rerank twice": cc.RRF(weights={"rerank": 2}).fit_predict(runs),
        "rrf without legacy": cc.RRF().fit_predict(runs.drop_experts(["legacy"])),
        "comb-mnz": cc.CombMNZ().fit_predict(runs),
        "borda": cc.Borda().fit_predict(runs),
    }
    # The best single system is the baseline.
    print(cc.compare(fused, labels, ["ndcg@10", "map"], baseline=best))

    cc.write_run(fused["rrf"], "fused.trec")
    print("wrote fused.trec")


if __name__ == "__main__":
    main()

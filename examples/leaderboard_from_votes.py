"""Make a leaderboard from pairwise votes with ties, and show how much it depends on each judge.

Runs on the bundled sample: python examples/leaderboard_from_votes.py
"""

from __future__ import annotations

import concordant as cc
from concordant.data.sample import path
from concordant.metrics import kendall_tau_b


def main() -> None:
    votes = cc.read_comparisons(path("votes.csv"))
    print(votes)

    board = cc.aggregate(votes, "copeland")
    for instance, item, score, rank in board.to_frame().select("instance", "item", "score", "rank").rows():
        print(f"{rank:3d}  {item:12s} {score:+4.0f}  ({instance})")

    # How much does the order depend on single judges? Leave out one at a time.
    everyone = dict(zip(board.items, board.rank.tolist(), strict=True))
    print("\nagreement with the full board (tau-b) when a judge is left out:")
    for judge in sorted(votes.experts):
        others = votes.select_experts([j for j in votes.experts if j != judge])
        without = cc.aggregate(others, "copeland")
        ranks = dict(zip(without.items, without.rank.tolist(), strict=True))
        print(f"  {judge}: {kendall_tau_b(everyone, ranks):.3f}")


if __name__ == "__main__":
    main()

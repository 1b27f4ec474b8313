"""From pairwise votes to a board people can publish: which votes count, Elo, tiers, judges, updates, and the page.

Runs on the bundled sample: python examples/leaderboard_from_votes.py
Or on your own votes, in LMArena's columns: python examples/leaderboard_from_votes.py arena.csv gpt-4-0314
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import gettempdir

import concordant as cc
from concordant.data.sample import path
from concordant.report.content import build_report
from concordant.report.page import render


def main() -> None:
    file, anchor = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else (path("votes.csv"), "ember-m")

    # Conditions on columns of the file would stand here: where=["language=English"], distinct="judge,question_id".
    votes = cc.read_comparisons(file)
    print(votes)

    # No judge counts more than 95 times.
    votes = votes.cap_experts(95)
    print(f"{votes.n_rows:,} votes are left\n")

    # Judges who guess, or who read the scale upside down, lose their weight.
    model = cc.BradleyTerry(reliability=True)
    board = model.fit_predict(votes)
    shown = board.scaled("elo", anchor=anchor).with_tiers()
    print("rank  item          Elo  95% interval  tier")
    for row in shown.to_frame().sort("rank").iter_rows(named=True):
        interval = f"{row['lower']:.0f} to {row['upper']:.0f}"
        print(f"{row['rank']:4d}  {row['item']:12s} {row['score']:4.0f}  {interval:>12s}  {row['tier']:4.0f}")

    print("\nthe least reliable judges:")
    print(
        cc.describe_experts(votes, board, model).sort("weight").select("expert", "rows", "weight", "agreement").head(4)
    )

    print("\nwhich model predicts the votes of judges it has not seen?")
    models = {"bradley-terry": cc.BradleyTerry(), "elo": cc.Elo()}
    found = {name: cc.cross_validate(one, votes, split_by="expert") for name, one in models.items()}
    print(cc.compare(found))

    # Next week's votes: an update gives the board of all votes so far.
    arena = cc.Leaderboard(cc.BradleyTerry(), votes.select_rows(range(1000)))
    arena.update(votes.select_rows(range(1000, votes.n_rows)))
    print(f"\nafter the update: {', '.join(arena.board().ranking()[:3])} lead, from {arena.n_votes:,.0f} votes")

    # The page: as `concordant report arena.csv --anchor MODEL -o arena.html`.
    report = build_report(votes, title="The board", rescale=lambda b: b.scaled("elo", anchor=anchor).with_tiers())
    page = Path(gettempdir(), "arena.html")
    page.write_text(render(report), encoding="utf-8")
    print(f"\n{report.summary[1]}\nwrote {page}")


if __name__ == "__main__":
    main()

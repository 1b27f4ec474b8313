"""From pairwise votes to a board people can publish: style, half-life, habits, categories, updates, and the page.

Runs on votes that it draws: python examples/leaderboard_from_votes.py
Or on your own, with columns as in `draw`: python examples/leaderboard_from_votes.py arena.csv gpt-4-0314
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import polars as pl

import concordant as cc
from concordant.report.content import build_report
from concordant.report.page import render


def draw(path: Path) -> Path:
    """Write three weeks of votes in LMArena's columns, by judges who like long answers; some favour a family."""
    votes = cc.synthetic.arena(
        9,
        6000,
        covariates={"length": 0.6},
        side=0.1,
        n_experts=40,
        n_families=3,
        favouring=0.2,
        categories={"English": 3, "German": 1},
        category_spread=0.3,
        random_state=1,
    ).comparisons
    table = votes.to_frame().rename({"left": "model_a", "right": "model_b", "expert": "judge", "category": "language"})
    winner = pl.when(pl.col("n_left") > 0).then(pl.lit("model_a"))
    winner = winner.when(pl.col("n_right") > 0).then(pl.lit("model_b")).otherwise(pl.lit("tie"))
    table = table.with_columns(winner=winner, tstamp=1_700_000_000 + 300 * np.arange(len(table)))
    table.select("model_a", "model_b", "winner", "judge", "tstamp", "language", "length").write_csv(path)
    return path


def main() -> None:
    given = len(sys.argv) > 2
    file, anchor = sys.argv[1:3] if given else (draw(Path(gettempdir(), "arena.csv")), "i1")

    # Conditions on columns of the file would stand here: where=["language=English"], distinct="judge,question_id".
    votes = cc.read_comparisons(file, time="tstamp", category="language", covariates=["length"])
    votes = votes.cap_experts(1000)
    print(votes)

    print("\nwhat predicts the votes that come later?")
    style = {"covariates": ["length"], "side_effect": True}
    models = {
        "plain": cc.BradleyTerry(covariates=[]),
        "equal style": cc.BradleyTerry(**style),
        "equal style, half-life": cc.BradleyTerry(**style, half_life="14d"),
        "elo": cc.Elo(),
    }
    print(cc.compare({name: cc.cross_validate(one, votes, split_by="time") for name, one in models.items()}))

    # Scores at equal style and sides, and judges who favour a family: yours are {"gpt-4": "openai", ...}.
    families = {item: f"maker {1 + n % 3}" for n, item in enumerate(sorted(votes.items.tolist()))}
    model = cc.BradleyTerry(**style, half_life="14d", families=families)
    board = model.fit_predict(votes).scaled("elo", anchor=anchor).with_tiers()
    print(board.to_frame().sort("rank").select("rank", "item", "score", "lower", "upper", "tier"))
    print(model.coefficient_table_.select("term", "estimate", "lower", "upper"))
    print(model.habits_.sort("p_value").select("expert", "term", "estimate", "z").head(4))

    # Boards by category, small ones helped by the others, and where an item clearly differs.
    plain = cc.BradleyTerry(**style, half_life="14d")
    print(cc.category_boards(votes, plain).differences().sort("p_value").head(3))

    # Next week's votes: an update gives the board of all votes so far. Counts by day let the half-life change later.
    late = votes.time >= np.quantile(votes.time, 0.9)
    arena = cc.Leaderboard(plain, votes.select_rows(~late), period="1d")
    arena.update(votes.select_rows(late))
    print(f"\nafter the update: {', '.join(arena.board().ranking()[:3])} lead, from {arena.n_votes:,.0f} votes")
    print(f"with a half-life of a week: {', '.join(arena.with_half_life('7d').board().ranking()[:3])}")

    # The page: as `concordant report arena.csv --read covariates=length --anchor MODEL -o arena.html`.
    report = build_report(
        votes,
        methods=[("bradley-terry", model), ("elo", cc.Elo())],
        rescale=lambda b: b.scaled("elo", anchor=anchor).with_tiers(),
    )
    page = Path(gettempdir(), "arena.html")
    page.write_text(render(report), encoding="utf-8")
    print(f"\n{report.summary[1]}\nwrote {page}")


if __name__ == "__main__":
    main()

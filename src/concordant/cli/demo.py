"""`concordant demo`: the whole story on the bundled sample, every step beside the command that does it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from concordant.cli._options import Common, bundled
from concordant.cli._output import Session, Table

if TYPE_CHECKING:
    from concordant.data.comparisons import Comparisons
    from concordant.data.consensus import Consensus
    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences
    from concordant.metrics.evaluation import Evaluation

__all__ = ["command"]

_METRICS = ["ndcg@10", "map"]
_LEARNER = "listwise-linear"
_FUSIONS = ("rrf", "comb-mnz", "borda", "median-rank")


@bundled()
def command(*, common: Common) -> None:
    """Tell the whole story on bundled data, in seconds."""
    with common.session("demo", {}) as session:
        from concordant.data.sample import path
        from concordant.io.tabular import read_comparisons, read_labels
        from concordant.io.trec import read_runs

        session.results = {}
        runs, labels = read_runs(path("runs")), read_labels(path("qrels.txt"))
        _look(session, path("runs", "bm25.trec").read_text(encoding="utf-8").splitlines()[:3], runs, labels)
        best = _evaluate(session, runs, labels)
        _compare(session, runs, labels, best)
        trust = _find_bad_expert(session, runs)
        _weigh(session, runs, labels, trust)
        _learn(session, runs, labels)
        _vote(session, read_comparisons(path("votes.csv")))
        _next(session, str(path()))


def _step(session: Session, title: str, command: str) -> None:
    """Print the head of a step: what it shows, and the command that shows it."""
    if session.json:
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        console.print()
        console.print(Text(title, "bold"))
        console.print(Text(f"$ {command}", "cyan"), soft_wrap=True)
    else:
        session.say(f"\n{title}\n$ {command}", lines=True)


def _look(session: Session, lines: list[str], runs: Preferences, labels: Labels) -> None:
    session.say(
        "Concordant in a minute. The sample is invented: search systems rank documents for queries, one gone bad."
    )
    _step(session, "1. What goes in: lists of items by experts, here TREC runs", "head -3 runs/bm25.trec")
    for line in lines:
        session.say(line)
    session.say(f"{len(runs.experts)} such runs together: {runs!r}")
    session.say(f"{labels!r}")


def _means(found: dict[str, Evaluation]) -> dict[str, dict[str, float]]:
    return {name: dict(e.mean) for name, e in found.items()}


def _evaluate(session: Session, runs: Preferences, labels: Labels) -> str:
    """Show every expert on its own and return the best."""
    from concordant.metrics.evaluation import evaluate_experts

    found = evaluate_experts(runs, labels, _METRICS).found
    order = sorted(found, key=lambda name: -found[name].mean["map"])
    session.results["experts"] = _means(found)
    _step(session, "2. Each expert alone", "concordant evaluate runs --labels qrels.txt --metrics ndcg@10,map")
    rows = [[name, *(f"{found[name].mean[m]:.4f}" for m in _METRICS)] for name in order]
    session.show(Table(["run", *_METRICS], rows))
    return order[0]


def _compare(session: Session, runs: Preferences, labels: Labels, best: str) -> None:
    from concordant.base.registry import aggregate
    from concordant.metrics.comparison import compare
    from concordant.metrics.evaluation import expert_consensus

    lists: dict[str, Consensus] = {f"expert {best}": expert_consensus(runs, best)}
    lists |= {name: aggregate(runs, name) for name in _FUSIONS}
    table = compare(lists, labels, _METRICS, tests=["t"])
    session.results["fusions"] = _means(dict(table.evaluations))
    _step(
        session,
        "3. Fused they beat the best of them",
        f"concordant compare runs --labels qrels.txt --methods {','.join(_FUSIONS)} --experts --baseline {best}",
    )
    session.say(table.to_text(), lines=True)


def _find_bad_expert(session: Session, runs: Preferences) -> dict[str, float]:
    """Show who agrees with the consensus and return whom to trust more and whom not at all."""
    from concordant.base.registry import aggregate
    from concordant.inference.experts import expert_records

    records = sorted(expert_records(runs, aggregate(runs)), key=lambda r: -r["agreement"])
    session.results["agreement"] = {r["expert"]: r["agreement"] for r in records}
    _step(
        session,
        "4. Who does not belong? Agreement with the consensus tells, without any label",
        "concordant aggregate runs -o fused.trec --experts-out experts.csv",
    )
    rows = [[r["expert"], f"{r['coverage']:.0%}", f"{r['agreement']:.3f}"] for r in records]
    session.show(
        Table(
            ["expert", "coverage", "agreement"],
            rows,
            caption=f"agreement: Kendall's tau-b with the consensus, 1 to -1. {records[-1]['expert']} stands alone.",
            bold=frozenset({(len(rows) - 1, c) for c in range(3)}),
        )
    )
    return {records[0]["expert"]: 2.0, records[-1]["expert"]: 0.0}


def _weigh(session: Session, runs: Preferences, labels: Labels, trust: dict[str, float]) -> None:
    from concordant.base.registry import aggregate
    from concordant.metrics.comparison import compare

    table = compare(
        {"rrf": aggregate(runs), "weighted": aggregate(runs.scale_weights(trust))}, labels, _METRICS, tests=["t"]
    )
    session.results["weighted"] = _means(dict(table.evaluations))
    weights = ",".join(f"{expert}={weight:g}" for expert, weight in trust.items())
    _step(
        session,
        "5. So trust the one who agrees most twice, and the odd one not at all",
        f"concordant aggregate runs --method rrf --weights {weights} -o fused.trec",
    )
    rows = [
        [
            metric,
            *(f"{table.mean[m, q]:.4f}" for m in (0, 1)),
            f"{table.difference[1, q]:+.4f}",
            f"[{table.lower[1, q]:+.4f}, {table.upper[1, q]:+.4f}]",
            f"{table.p_values['t'][1, q]:.3f}",
        ]
        for q, metric in enumerate(table.metrics)
    ]
    session.show(Table(["metric", "rrf", "weighted", "difference", "95% interval", "p (t-test)"], rows))


def _learn(session: Session, runs: Preferences, labels: Labels) -> None:
    from concordant.metrics.comparison import compare
    from concordant.selection.cross_validation import cross_validate

    with session.progress("learning"):
        found = {name: cross_validate(name, runs, labels, metrics=_METRICS) for name in (_LEARNER, "rrf")}
        table = compare(dict(found), baseline="rrf", tests=["t"])
    session.results["learned"] = _means(dict(table.evaluations))
    _step(
        session,
        "6. Or learn whom to believe from labels, measured on queries it has not seen",
        f"concordant compare runs --labels qrels.txt --methods rrf,{_LEARNER} --metrics {','.join(_METRICS)}",
    )
    session.say(table.to_text(), lines=True)
    session.say(f"To keep it: concordant fit runs --labels qrels.txt --method {_LEARNER} -o believe.model")


def _vote(session: Session, votes: Comparisons) -> None:
    from concordant.base.registry import create
    from concordant.cli.aggregate import leaderboard_rows
    from concordant.inference.experts import support

    model = create("bradley-terry", reliability=True)
    with session.progress("fitting; the first fit of a model compiles its kernels, once"):
        consensus = model.fit_predict(votes)
    learned = model.learned_experts()
    judges = sorted(zip(learned["expert"], learned["weight"], strict=True), key=lambda judge: judge[1])
    session.results["leaderboard"] = consensus.ranking()
    session.results["judges"] = dict(judges)
    _step(
        session,
        "7. Votes work the same: a leaderboard with intervals, ties and all, and the judges who guess found on the way",
        "concordant aggregate votes.csv --method bradley-terry -p reliability=true --rows 5 --experts-out judges.csv",
    )
    odd = ", ".join(f"{expert} ({weight:.2f})" for expert, weight in judges[:4])
    caption = f"of {votes.n_slots} models. Judges by reliability, 1 for one who follows the scores: {odd} ..."
    session.show(leaderboard_rows(consensus, support(votes), 0, depth=5, caption=caption))


def _next(session: Session, folder: str) -> None:
    _step(session, "Next, on your own files or on this sample", f"cd {folder}")
    for line in (
        "concordant methods                    what there is; concordant methods kemeny for one page",
        "concordant aggregate ballots.soi --method borda",
        "concordant compare runs --labels qrels.txt --methods all --markdown",
        "concordant convert votes.csv -o votes.parquet",
    ):
        session.say(line)

"""Models of votes compared on the command line by votes that were held out: log loss and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from concordant.cli._inputs import Reading, votes_of
from concordant.cli._output import Session, Table, format_number
from concordant.errors import DataError, KindError, ParameterError

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator

__all__ = ["VoteTask", "compare_models_of_votes"]

_DEFAULT_MODELS = ("bradley-terry", "elo")
# Seed of the folds.
_SEED = 0


class VoteTask(NamedTuple):
    """How models of votes are compared."""

    metrics: str | None
    folds: str | None
    split_by: str
    baseline: str | None
    sort: str | None
    weights: dict[str, float]


def compare_models_of_votes(
    session: Session,
    reading: Reading,
    inputs: list[str],
    group: str | None,
    wanted: Sequence[tuple[str, Aggregator]] | None,
    task: VoteTask,
) -> None:
    """Fit models to some of the votes, and compare them by how well they predict the others.

    Parameters
    ----------
    session : Session
        Where results go.
    reading, inputs
        The votes, and how they are read.
    group : str or None
        The group of methods that was asked for: all, or heuristics; None for single methods.
    wanted : sequence of (label, method), optional
        The methods; a group, or those by default, without it.
    task : VoteTask
        How they are compared.
    """
    from concordant.base.registry import create
    from concordant.metrics.comparison import compare
    from concordant.metrics.vote_losses import VOTE_METRICS, parse_vote_metrics
    from concordant.selection.cross_validation import cross_validate
    from concordant.selection.held_out_votes import vote_models

    names = None if task.metrics is None else list(parse_vote_metrics(task.metrics))
    if task.folds in ("given", "none"):
        raise ParameterError(f"--folds {task.folds} is about labels; votes are held out in a number of folds.")
    able = vote_models()
    if group == "heuristics":
        raise ParameterError(f"heuristics do not predict votes. Methods that do: {', '.join(able)}.")
    chosen = wanted or [(name, create(name)) for name in (_DEFAULT_MODELS if group is None else able)]
    session.params["methods"] = ",".join(label for label, _ in chosen)
    needed = reading.needed_by(method for _, method in chosen)
    if task.split_by == "time" and "time" not in {**reading.reader_options(), **(reading.columns_by_role() or {})}:
        needed["time"] = True
    votes: Any = votes_of(reading.read(session, inputs, **needed)).scale_weights(task.weights)
    folds = 5 if task.folds is None else int(task.folds)
    evaluations, left_out = {}, {}
    with session.progress("comparing", len(chosen)) as bar:
        for label, method in chosen:
            bar.update(label)
            session.setting = f"{method.name}({{name}}={{value}})"
            try:
                with session.about(label):
                    evaluations[label] = cross_validate(
                        method,
                        votes,
                        metrics=names,
                        folds=folds,
                        split_by=task.split_by,
                        random_state=_SEED,
                    )
            except KindError as error:
                left_out[label] = str(error)
            bar.update(advance=1)
    if not evaluations:
        raise DataError("; ".join(f"{label}: {reason}" for label, reason in left_out.items()))
    base = task.baseline or next(iter(evaluations))
    if base not in evaluations:
        raise ParameterError.invalid("--baseline", "compare", f"one of {', '.join(evaluations)}", base)
    table = compare(evaluations, baseline=base)
    shared = table.evaluations[base].metrics
    session.params |= {"metrics": list(shared), "folds": folds, "split_by": task.split_by}
    key = None if task.sort == "none" else (task.sort or shared[0])
    if key is not None and key not in shared:
        raise ParameterError.invalid("--sort", "compare", f"none or one of {', '.join(shared)}", key)
    order = list(evaluations)
    if key is not None:
        order.sort(key=lambda name: table.evaluations[name].mean[key] * (-1 if VOTE_METRICS[key] else 1))
    frame = table.to_frame()
    rows = [row for name in order for row in frame.filter(frame["method"] == name).to_dicts()]
    held = float(evaluations[base].votes.outcomes[evaluations[base].tested].sum())
    about = [_how_votes_were_split(folds, task.split_by, held, named=votes.expert is not None)]
    dropped = [
        m for m in (names or VOTE_METRICS) if m not in shared and any(m in e.metrics for e in evaluations.values())
    ]
    if dropped:
        about.append(f"not all of these models define {', '.join(dropped)} here; it is left out")
    session.results = {"baseline": base, "votes": held, "methods": rows, "left_out": left_out, "about": about}
    session.fit_info = {label: [run.method.fit_info_ for run in e.runs] for label, e in evaluations.items()}
    for metric in shared:
        session.show(_vote_table(metric, [row for row in rows if row["metric"] == metric]))
        session.say()
    for line in [*about, *(f"left out: {label}: {reason}" for label, reason in left_out.items())]:
        session.say(line)


def _how_votes_were_split(folds: int, split_by: str, held: float, *, named: bool) -> str:
    """Return in words which votes were predicted from which."""
    how = {
        "random": f"{folds} folds drawn at random, seed {_SEED}",
        "expert": f"{folds} folds of experts, seed {_SEED}: the votes of an expert are held out together",
        "time": f"{folds} stretches of time, each predicted from all votes before it",
    }[split_by]
    clusters = "experts" if named else "rows"
    return (
        f"{held:,.10g} votes held out: {how}; differences are paired, ± their standard errors clustered by {clusters}"
    )


def _vote_table(metric: str, rows: list[dict[str, Any]]) -> Table:
    """Return the models as a table: mean, and difference to the baseline."""
    from concordant.metrics.vote_losses import VOTE_METRICS

    body = []
    for row in rows:
        cells = [row["method"], f"{row['mean']:.4f}", f"± {row['stderr']:.4f}"]
        if row["difference"] is None:
            body.append([*cells, "baseline", ""])
        else:
            body.append(
                [*cells, f"{row['difference']:+.4f} ± {row['difference_stderr']:.4f}", format_number(row["p_value"], 3)]
            )
    better = "larger" if VOTE_METRICS[metric] else "smaller"
    return Table(["method", metric, "", "difference", "p"], body, title=f"{metric}, {better} is better")

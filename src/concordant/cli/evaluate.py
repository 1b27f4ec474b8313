"""`concordant evaluate`: every run of the input on its own against the labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from concordant.cli._inputs import is_letor, one_of, read_input, read_truth
from concordant.cli._options import (
    Columns,
    Convention,
    Debug,
    ExpertFrom,
    Format,
    Inputs,
    Json,
    Labels,
    Percent,
    Quiet,
    ReadOptions,
    Relevant,
    Sort,
    Threads,
)
from concordant.cli._output import Session, Table
from concordant.errors import ConcordantWarning, DataError, ParameterError, listing

if TYPE_CHECKING:
    from concordant.data.consensus import Consensus
    from concordant.data.preferences import Preferences
    from concordant.metrics.evaluation import Evaluation

__all__ = ["CONVENTIONS", "command", "evaluate_experts", "sorting_metric"]

CONVENTIONS = ("trec", "letor", "paper")


def command(
    inputs: Inputs,
    labels: Labels = None,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="M,...", help="Such as ndcg@10,map or ndcg@1-5,p@1-5,err@20.")
    ] = "ndcg@10,map",
    convention: Convention = None,
    rel: Relevant = None,
    per_instance: Annotated[
        str | None, typer.Option("--per-instance", metavar="FILE", help="Write the value of every run and instance.")
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", metavar="K", min=1, help="Look at the K best of each instance only.")
    ] = None,
    sort: Sort = None,
    percent: Percent = None,
    input_format: Format = None,
    columns: Columns = None,
    expert_from: ExpertFrom = None,
    read_options: ReadOptions = None,
    quiet: Quiet = False,
    as_json: Json = False,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Measure every run against labels, each expert in its own order."""
    one_of(convention, CONVENTIONS, "--convention")
    asked = {"inputs": inputs, "labels": labels, "metrics": metrics, "rel": rel, "top": top}
    with Session("evaluate", asked, quiet=quiet, as_json=as_json, threads=threads, debug=debug) as session:
        from concordant.metrics.ranking import parse_metrics

        names = [str(m) for m in parse_metrics(metrics)]
        key = sorting_metric(sort, names)
        source = read_input(session, inputs, input_format, columns, expert_from, read_options)
        truth = read_truth(session, source, labels)
        # Those of LETOR also where only the labels are in its form.
        rules = convention or ("letor" if labels is not None and is_letor(labels) else source.convention)
        session.params["convention"] = rules
        preferences = source.dataset.preferences
        if preferences is None:
            hint = (
                f" {source.name} holds features of items: fit a ranker, have aggregate --model write OUT, then: "
                f"concordant evaluate OUT --labels {source.name}."
                if source.is_features
                else ""
            )
            raise DataError(f"evaluate measures runs: lists of items by experts. The input holds none.{hint}")

        def measure(consensus: Consensus) -> Evaluation:
            from concordant.metrics.evaluation import evaluate

            return evaluate(consensus if top is None else consensus.top(top), truth, metrics, convention=rules, rel=rel)

        with session.progress("evaluating", preferences.n_experts) as bar:
            measured = evaluate_experts(preferences, measure, lambda: bar.update(advance=1))
        measured.warn(preferences.n_experts)
        found = measured.found
        if not found:
            raise DataError("the input ranks nothing, so that there is nothing to evaluate.")
        if per_instance is not None:
            _write_values(session, found, per_instance)
        _show(session, found, key, rules == "letor" if percent is None else percent)


def sorting_metric(sort: str | None, names: list[str]) -> str | None:
    """Return the metric that orders the rows: the one asked for, the last one otherwise, None for the order given."""
    from concordant.metrics.ranking import parse_metric

    if sort == "none":
        return None
    name = names[-1] if sort is None else str(parse_metric(sort))
    if name not in names:
        raise ParameterError.invalid("--sort", "this table", f"none or one of {', '.join(names)}", sort)
    return name


class Measured(NamedTuple):
    """The evaluation of each expert, and those who answer only some, or none, of the labelled instances."""

    found: dict[str, Evaluation]
    partial: list[str]
    silent: list[str]

    def warn(self, n_experts: int) -> None:
        """Say in one line each what is missing: with many runs a line per run would bury the table."""
        if self.partial:
            _warn(self.partial, n_experts, "answer only some of the labelled instances, the others count 0")
        if self.silent:
            _warn(self.silent, n_experts, "answer no labelled instance and are left out")


def _warn(experts: list[str], n_experts: int, what: str) -> None:
    text = f"{len(experts)} of {n_experts} experts {what}: {listing(experts, 5)}."
    warnings.warn(text, ConcordantWarning, stacklevel=3)


def evaluate_experts(
    preferences: Preferences, measure: Callable[[Consensus], Evaluation], done: Callable[[], None] = lambda: None
) -> Measured:
    """Return the evaluation of each expert's own order. What an expert leaves unanswered counts 0."""
    from concordant.base.experts import own_order

    out = Measured({}, [], [])
    for expert in preferences.experts:
        done()
        own = own_order(preferences, expert)
        if len(own) == 0:
            out.silent.append(expert)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConcordantWarning)
            found = measure(own)
        if any("have no result" in note for note in found.notes):
            out.partial.append(expert)
        out.found[expert] = replace(found, notes=())
    return out


def _show(session: Session, found: dict[str, Evaluation], key: str | None, percent: bool) -> None:
    order = list(found)
    if key is not None:
        order.sort(key=lambda run: -found[run].mean[key])
    session.results = [{"run": run, "instances": len(found[run]), "metrics": dict(found[run].mean)} for run in order]
    names = found[order[0]].metrics
    best = {m: max(e.mean[m] for e in found.values()) for m in names}
    rows, bold = [], set()
    for r, run in enumerate(order):
        mean = found[run].mean
        rows.append([run, *(f"{100 * mean[m]:.2f}" if percent else f"{mean[m]:.4f}" for m in names)])
        bold |= {(r, c) for c, m in enumerate(names, start=1) if mean[m] >= best[m] - 1e-12 and len(order) > 1}
    caption = f"{'percent; ' if percent else ''}{found[order[0]].legend}"
    if key is not None and len(order) > 1:
        caption += f"; sorted by {key}"
    session.show(Table(["run", *names], rows, caption=caption, bold=frozenset(bold)))


def _write_values(session: Session, found: dict[str, Evaluation], path: str) -> None:
    from concordant.cli._inputs import write_table

    columns: dict[str, list[Any]] = {"run": [], "instance": []}
    names = next(iter(found.values())).metrics
    columns |= {m: [] for m in names}
    for run, evaluation in found.items():
        columns["run"] += [run] * len(evaluation)
        columns["instance"] += evaluation.instances.tolist()
        for m in names:
            columns[m] += evaluation.values[m].tolist()
    write_table(columns, path)
    session.note(f"wrote {path}: {len(columns['run']):,} rows")

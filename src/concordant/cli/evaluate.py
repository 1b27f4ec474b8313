"""`concordant evaluate`: measures each run of the input against labels."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concordant.cli._inputs import Reading, given, is_letor, read_label_file, read_labels_of
from concordant.cli._options import (
    CONVENTIONS,
    Common,
    Convention,
    Inputs,
    Labels,
    Percent,
    QuoteFormulas,
    Relevant,
    Sort,
    bundled,
)
from concordant.cli._output import Session, Table, check_quoting, write_table
from concordant.cli._parsing import check_choice
from concordant.errors import DataError, ParameterError

if TYPE_CHECKING:
    from concordant.cli._inputs import Source
    from concordant.data.preferences import Preferences
    from concordant.metrics.evaluation import Evaluation

__all__ = ["command", "sorting_metric"]


@bundled("missing", "where", "distinct", "max_per_expert", "equal_weight")
def command(
    inputs: Inputs,
    labels: Labels = None,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="M,...", help="Metrics, such as ndcg@10,map or ndcg@1-5,p@1-5,err@20.")
    ] = "ndcg@10,map",
    convention: Convention = None,
    rel: Relevant = None,
    per_instance: Annotated[
        str | None,
        typer.Option("--per-instance", metavar="FILE", help="Write a table with the values of every run and instance."),
    ] = None,
    quote_formulas: QuoteFormulas = False,
    top: Annotated[
        int | None, typer.Option("--top", metavar="K", min=1, help="Evaluate only the K best items of each instance.")
    ] = None,
    sort: Sort = None,
    percent: Percent = None,
    *,
    reading: Reading,
    common: Common,
) -> None:
    """Evaluate each run against labels, in its own order."""
    check_choice(convention, CONVENTIONS, "--convention")
    asked = {"inputs": inputs, "labels": labels, "metrics": metrics, "rel": rel, "top": top}
    with common.session("evaluate", asked) as session:
        from concordant.execution.blocks import Blocks
        from concordant.metrics.evaluation import evaluate_experts
        from concordant.metrics.ranking import parse_metrics

        check_quoting(quote_formulas, per_instance)
        names = [str(m) for m in parse_metrics(metrics)]
        key = sorting_metric(sort, names)
        if per_instance is not None:
            per_instance = session.destination(per_instance, "--per-instance")
        if labels is None and reading.memory is not None:
            raise ParameterError("--memory needs --labels: input that is read in blocks holds no labels.")
        found = reading.read(session, inputs) if labels is None else reading.read_or_scan(session, inputs)
        with ExitStack() as stack:
            votes: Preferences | Blocks
            if isinstance(found, Blocks):
                votes, usual = stack.enter_context(found), "trec"
                truth = read_label_file(session, str(labels))
            else:
                truth = read_labels_of(session, found, labels)
                votes, usual = _preferences(found), found.convention
            rules = _rules(session, convention, labels, usual)
            with session.progress("evaluating", 1):
                measured = evaluate_experts(votes, truth, metrics, convention=rules, rel=rel, top=top)
        measured.warn(len(votes.experts))
        if not measured.found:
            raise DataError("the input ranks nothing, so that there is nothing to evaluate.")
        if per_instance is not None:
            _write_values(session, measured.found, per_instance, quote_formulas)
        _show(session, measured.found, key, rules == "letor" if percent is None else percent)


def _rules(session: Session, convention: str | None, labels: str | None, usual: str) -> str:
    """Return the convention of the metrics: LETOR's also where only the labels are in its form."""
    rules = convention or ("letor" if labels is not None and is_letor(given(session, labels)) else usual)
    session.params["convention"] = rules
    return rules


def _preferences(source: Source) -> Preferences:
    preferences = source.dataset.preferences
    if preferences is None:
        hint = (
            f" {source.name} holds features of items: fit a ranker, have aggregate --model write OUT, then: "
            f"concordant evaluate OUT --labels {source.name}."
            if source.is_features
            else ""
        )
        raise DataError(f"evaluate measures runs: lists of items by experts. The input holds none.{hint}")
    return preferences


def sorting_metric(sort: str | None, names: list[str]) -> str | None:
    """Return the metric that orders the rows: the one asked for, the last one otherwise, None for the order given."""
    from concordant.metrics.ranking import parse_metric

    if sort == "none":
        return None
    name = names[-1] if sort is None else str(parse_metric(sort))
    if name not in names:
        raise ParameterError.invalid("--sort", "this table", f"none or one of {', '.join(names)}", sort)
    return name


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


def _write_values(session: Session, found: dict[str, Evaluation], path: str, quote_formulas: bool) -> None:
    columns: dict[str, list[Any]] = {"run": [], "instance": []}
    names = next(iter(found.values())).metrics
    columns |= {m: [] for m in names}
    for run, evaluation in found.items():
        columns["run"] += [run] * len(evaluation)
        columns["instance"] += evaluation.instances.tolist()
        for m in names:
            columns[m] += evaluation.values[m].tolist()
    write_table(columns, path, quote_formulas)
    session.note(f"wrote {path}: {len(columns['run']):,} rows")

"""`concordant evaluate`: every run of the input on its own against the labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concordant.cli._inputs import (
    check_quoting,
    given,
    is_letor,
    one_of,
    own_labels,
    read_input,
    read_truth,
    scan_input,
    write_table,
)
from concordant.cli._options import (
    Columns,
    Convention,
    Debug,
    ExpertFrom,
    Format,
    Inputs,
    Json,
    Labels,
    Memory,
    Percent,
    Quiet,
    QuoteFormulas,
    ReadOptions,
    Relevant,
    Sort,
    Threads,
)
from concordant.cli._output import Session, Table
from concordant.errors import DataError, ParameterError, listing

if TYPE_CHECKING:
    from concordant.data.consensus import Consensus
    from concordant.data.labels import Labels as LabelsOf
    from concordant.execution.blocks import Blocks
    from concordant.metrics.evaluation import Evaluation, ExpertEvaluations

__all__ = ["CONVENTIONS", "command", "sorting_metric"]

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
    quote_formulas: QuoteFormulas = False,
    top: Annotated[
        int | None, typer.Option("--top", metavar="K", min=1, help="Look at the K best of each instance only.")
    ] = None,
    sort: Sort = None,
    percent: Percent = None,
    input_format: Format = None,
    columns: Columns = None,
    expert_from: ExpertFrom = None,
    read_options: ReadOptions = None,
    memory: Memory = None,
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

        check_quoting(quote_formulas, per_instance)
        names = [str(m) for m in parse_metrics(metrics)]
        key = sorting_metric(sort, names)
        if per_instance is not None:
            per_instance = session.destination(per_instance, "--per-instance")
        blocks = None
        if labels is not None:
            blocks = scan_input(session, inputs, input_format, columns, expert_from, read_options, memory)
        elif memory is not None:
            raise ParameterError("--memory needs --labels: what is read in blocks brings no labels of its own.")
        if blocks is not None and labels is not None:
            rules = convention or ("letor" if is_letor(given(session, labels)) else "trec")
            session.params["convention"] = rules
            truth = own_labels(session, labels)
            with blocks:
                measured = _measure_blocks(session, blocks, truth, metrics, rules, rel, top)
            _conclude(session, measured, len(blocks.experts), per_instance, quote_formulas, key, percent, rules)
            return
        source = read_input(session, inputs, input_format, columns, expert_from, read_options)
        truth = read_truth(session, source, labels)
        # Those of LETOR also where only the labels are in its form.
        rules = convention or (
            "letor" if labels is not None and is_letor(given(session, labels)) else source.convention
        )
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

        from concordant.metrics.evaluation import evaluate, evaluate_experts

        def measure(consensus: Consensus) -> Evaluation:
            return evaluate(consensus if top is None else consensus.top(top), truth, metrics, convention=rules, rel=rel)

        with session.progress("evaluating", preferences.n_experts) as bar:
            measured = evaluate_experts(preferences, measure, lambda: bar.update(advance=1))
        _conclude(session, measured, preferences.n_experts, per_instance, quote_formulas, key, percent, rules)


def _conclude(
    session: Session,
    measured: ExpertEvaluations,
    n_experts: int,
    per_instance: str | None,
    quote_formulas: bool,
    key: str | None,
    percent: bool | None,
    rules: str,
) -> None:
    """Show, and write where asked to, what every run came to."""
    measured.warn(n_experts)
    if not measured.found:
        raise DataError("the input ranks nothing, so that there is nothing to evaluate.")
    if per_instance is not None:
        _write_values(session, measured.found, per_instance, quote_formulas)
    _show(session, measured.found, key, rules == "letor" if percent is None else percent)


def _measure_blocks(
    session: Session, blocks: Blocks, truth: LabelsOf, metrics: str, rules: str, rel: float | None, top: int | None
) -> ExpertEvaluations:
    """Return the evaluation of each expert's own order, block by block of instances."""
    import numpy as np

    from concordant.execution import prefetch
    from concordant.metrics.evaluation import ExpertEvaluations, evaluate, expert_consensus

    known = np.bincount(truth.slots.instance[~np.isnan(truth.label)], minlength=len(truth)) > 0
    labelled = truth.instances.take(np.flatnonzero(known))
    place = labelled.codes
    found: dict[str, Evaluation] = {}
    values: dict[str, dict[str, Any]] = {}
    answered = {expert: np.zeros(len(labelled), dtype=np.bool_) for expert in blocks.experts}
    heard: set[str] = set()
    with session.progress(f"evaluating {len(blocks)} blocks", len(blocks)) as bar:
        for block in prefetch(iter(blocks)):
            for expert in block.experts:
                own = expert_consensus(block, expert)
                heard |= {expert} if len(own) else set()
                shared = [q for q in own.instances if q in place]
                if not shared:
                    continue
                own = own[shared]
                one = evaluate(
                    own if top is None else own.top(top), truth, metrics, convention=rules, rel=rel, instances=shared
                )
                at = np.array([place[q] for q in one.instances])
                answered[expert][at] = True
                found.setdefault(expert, one)
                for name, value in one.values.items():
                    # A labelled instance that is not answered counts 0.
                    values.setdefault(expert, {}).setdefault(name, np.zeros(len(labelled)))[at] = value
            bar.update(advance=1)
    silent = [e for e in blocks.experts if e not in heard]
    strangers = [e for e in blocks.experts if e in heard and e not in found]
    if strangers:
        raise DataError(
            f"expert {strangers[0]!r} and the labels share no instance: the labels have "
            f"{listing(labelled[:5].tolist())}."
        )
    return ExpertEvaluations(
        {e: replace(found[e], values=values[e], instances=labelled, notes=()) for e in blocks.experts if e in found},
        [e for e in blocks.experts if e in found and not answered[e].all()],
        silent,
    )


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

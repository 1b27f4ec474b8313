"""`concordant compare`: several methods on one input, evaluated side by side and tested against a baseline."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from concordant.cli._inputs import (
    one_of,
    parse_params,
    parse_weights,
    read_input,
    read_truth,
    split_names,
    votes_of,
    weigh,
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
    Percent,
    Quiet,
    ReadOptions,
    Relevant,
    Sort,
    Threads,
    Weights,
)
from concordant.cli._output import Session
from concordant.cli.evaluate import CONVENTIONS, sorting_metric
from concordant.errors import ConcordantError, DataError, KindError, ParameterError

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.cli._inputs import Source
    from concordant.cli._output import Progress
    from concordant.data.comparisons import Comparisons
    from concordant.data.consensus import Consensus
    from concordant.data.dataset import Fold
    from concordant.data.labels import Labels as LabelsOf
    from concordant.data.preferences import Preferences
    from concordant.metrics.comparison import Comparison
    from concordant.metrics.evaluation import Evaluation

__all__ = ["command"]

_DEFAULT_METHODS = "rrf,comb-mnz,borda,condorcet,copeland"
_GROUPS = ("all", "heuristics")
_TESTS = ("t", "fisher", "wilcoxon")
_DEFAULT_METRICS = {"letor": "ndcg@1-5,p@1-5,map"}
_OTHER_METRICS = "ndcg@10,p@10,map"


def command(
    inputs: Inputs,
    labels: Labels = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            "-m",
            metavar="M,...",
            help="Methods, such as rrf,borda,'rrf(k=10)'; heuristics or all that apply.",
        ),
    ] = _DEFAULT_METHODS,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="M,...",
            help=f"Such as ndcg@10,map. Without it {_OTHER_METRICS}; for letor {_DEFAULT_METRICS['letor']}.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="NAME",
            help="What the others are tested against. Without it the first, of a group rrf.",
        ),
    ] = None,
    folds: Annotated[
        str | None,
        typer.Option(
            "--folds",
            metavar="given|none",
            help="Mean over the folds of the input, or over all instances. Without it given.",
        ),
    ] = None,
    experts: Annotated[bool, typer.Option("--experts", help="Add every expert's own order as a row.")] = False,
    convention: Convention = None,
    rel: Relevant = None,
    weights: Weights = None,
    tests: Annotated[
        str,
        typer.Option("--tests", metavar="T,...", help="Paired tests: t, fisher, wilcoxon. The first sets the marks."),
    ] = "t",
    details: Annotated[
        bool, typer.Option("--details", help="List every difference with its interval and p-values.")
    ] = False,
    sort: Sort = None,
    percent: Percent = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the table as LaTeX.")] = False,
    input_format: Format = None,
    columns: Columns = None,
    expert_from: ExpertFrom = None,
    read_options: ReadOptions = None,
    quiet: Quiet = False,
    as_json: Json = False,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Compare methods on labelled data, with significance. A LETOR folder brings its own labels and folds."""
    one_of(convention, CONVENTIONS, "--convention")
    one_of(folds, ("given", "none"), "--folds")
    if markdown and latex:
        raise typer.BadParameter("choose one of the two.", param_hint="--markdown / --latex")
    wanted_tests = split_names(tests)
    for test in wanted_tests:
        one_of(test, _TESTS, "--tests")
    specs = _parse_methods(methods)
    trust = parse_weights(weights)
    asked = {
        "inputs": inputs,
        "labels": labels,
        "methods": methods,
        "rel": rel,
        "weights": trust,
        "tests": wanted_tests,
    }
    with Session("compare", asked, quiet=quiet, as_json=as_json, threads=threads, debug=debug) as session:
        from concordant.metrics.comparison import compare
        from concordant.metrics.ranking import parse_metrics

        chosen = [] if methods in _GROUPS else [_create(spec) for spec in specs]
        names = None if metrics is None else [str(m) for m in parse_metrics(metrics)]
        source = read_input(session, inputs, input_format, columns, expert_from, read_options)
        rules = convention or source.convention
        names = names or [str(m) for m in parse_metrics(_DEFAULT_METRICS.get(rules, _OTHER_METRICS))]
        key = sorting_metric(sort, names)
        task = _Task(_parts(session, source, labels, folds), names, rules, rel, trust)
        session.params |= {"metrics": names, "convention": rules, "folds": len(task.parts) if task.folded else None}
        if methods in _GROUPS:
            chosen = _everything()
        evaluations, left_out = _run(session, task, chosen, experts, strict=methods not in _GROUPS)
        base = _baseline(baseline, evaluations, group=methods in _GROUPS)
        order = list(evaluations)
        if key is not None:
            order.sort(key=lambda name: -evaluations[name].mean[key])
        with session.progress("testing differences"):
            table = compare({name: evaluations[name] for name in order}, baseline=base, tests=wanted_tests)
        _show(session, table, key, left_out, rules == "letor" if percent is None else percent, details, markdown, latex)


class _Spec(NamedTuple):
    """A method as the user named it."""

    text: str
    name: str
    params: dict[str, Any]


class _Chosen(NamedTuple):
    """A method ready to run, and what its row is called."""

    label: str
    method: Aggregator


class _Part(NamedTuple):
    """What is evaluated together: a test fold with what comes before it, or everything."""

    votes: Preferences | Comparisons
    labels: LabelsOf
    fold: Fold | None


@dataclass
class _Task:
    """What every method of a comparison goes through."""

    parts: list[_Part]
    metrics: list[str]
    convention: str
    rel: float | None
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def folded(self) -> bool:
        return self.parts[0].fold is not None

    @property
    def kind(self) -> str:
        return str(getattr(self.parts[0].votes, "kind", "comparisons"))


def _parse_methods(text: str) -> list[_Spec]:
    specs = []
    for part in split_names(text):
        match = re.fullmatch(r"([^()\s]+)(?:\((.*)\))?", part)
        if match is None:
            raise typer.BadParameter(
                f"expected a name or name(param=value). Got {part!r} instead.", param_hint="--methods"
            )
        specs.append(_Spec(part, match[1], parse_params(split_names(match[2] or ""), "--methods")))
    if not specs:
        raise typer.BadParameter("name at least one method.", param_hint="--methods")
    return specs


def _create(spec: _Spec) -> _Chosen:
    from concordant.base.registry import create

    return _Chosen(spec.text, create(spec.name, **spec.params))


def _everything() -> list[_Chosen]:
    """Return every registered method; those that cannot take the input are left out with their reason later."""
    from concordant.base.registry import METHODS, create

    return [_Chosen(name, create(name)) for name in METHODS]


def _parts(session: Session, source: Source, labels: str | None, folds: str | None) -> list[_Part]:
    given = source.dataset.folds
    if folds == "given" and not given:
        raise ParameterError("--folds given: the input brings no folds. A LETOR folder with Fold1, Fold2, ... does.")
    if given and folds != "none":
        own = None if labels is None else read_truth(session, source, labels)
        return [_Part(f.test.preferences, f.test.labels if own is None else own, f) for f in given]
    return [_Part(votes_of(source), read_truth(session, source, labels), None)]


def _run(
    session: Session, task: _Task, chosen: list[_Chosen], experts: bool, *, strict: bool
) -> tuple[dict[str, Evaluation], dict[str, str]]:
    """Return the evaluation of every method and expert that can be had, and why the others cannot."""
    evaluations: dict[str, Evaluation] = {}
    left_out: dict[str, str] = {}
    session.fit_info = {}
    with session.progress("comparing", len(chosen) * len(task.parts)) as bar:
        for label, method in chosen:
            reason = _unfit(method, task)
            if reason is not None:
                left_out[label] = reason
                bar.update(advance=len(task.parts))
                continue
            try:
                with session.about(label):
                    evaluations[label] = _evaluate(method, label, task, bar)
            except ConcordantError as error:
                if strict and not isinstance(error, KindError):
                    raise
                left_out[label] = str(error)
            else:
                session.fit_info[label] = getattr(method, "fit_info_", None)
    if experts:
        evaluations |= _evaluate_experts(task)
    if not evaluations:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in left_out.items())
        raise DataError(f"none of the methods can take the input. {reasons}")
    return evaluations, left_out


def _unfit(method: Aggregator, task: _Task) -> str | None:
    """Return why a method cannot take part, or None when it can."""
    if task.kind not in method.tags.accepts:
        return f"works on {' or '.join(sorted(method.tags.accepts))}, the input holds {task.kind}"
    if task.weights and not method.tags.weights:
        return "does not weigh experts"
    if method.tags.supervised and not task.folded:
        return "learns from labels, and there is no fold to learn from"
    return None


def _evaluate(method: Aggregator, label: str, task: _Task, bar: Progress) -> Evaluation:
    from concordant.metrics.evaluation import combine_folds, evaluate

    found = []
    for number, part in enumerate(task.parts, start=1):
        bar.update(f"{label}, fold {number}" if task.folded else label)
        votes = weigh(part.votes, task.weights)
        if part.fold is None:
            consensus = method.fit_predict(votes)
        else:
            train = weigh(part.fold.train.preferences, task.weights)
            known = part.fold.train.labels if method.tags.supervised else None
            consensus = method.fit(train, known, validation=part.fold.vali).predict(votes)
        found.append(evaluate(consensus, part.labels, task.metrics, convention=task.convention, rel=task.rel))
        bar.update(advance=1)
    return combine_folds(found) if task.folded else found[0]


def _evaluate_experts(task: _Task) -> dict[str, Evaluation]:
    from concordant.cli.evaluate import Measured, evaluate_experts
    from concordant.data.preferences import Preferences
    from concordant.metrics.evaluation import combine_folds, evaluate

    measured: list[Measured] = []
    for part in task.parts:
        if not isinstance(part.votes, Preferences):
            raise DataError("--experts evaluates the lists of experts; comparisons hold none.")

        def measure(own: Consensus, truth: LabelsOf = part.labels) -> Evaluation:
            return evaluate(own, truth, task.metrics, convention=task.convention, rel=task.rel)

        measured.append(evaluate_experts(part.votes, measure))
    experts = dict.fromkeys(name for part in task.parts for name in part.votes.experts)
    silent = [name for name in experts if any(name not in m.found for m in measured)]
    partial = [name for name in experts if any(name in m.partial for m in measured)]
    Measured({}, partial, silent).warn(len(experts))
    found = {}
    for name in experts:
        if name not in silent:
            values = [m.found[name] for m in measured]
            found[f"expert {name}"] = combine_folds(values) if task.folded else values[0]
    return found


def _baseline(name: str | None, evaluations: dict[str, Evaluation], *, group: bool) -> str:
    if name is None:
        # Of a whole group none comes first; the method most people would have used is the one to beat.
        return "rrf" if group and "rrf" in evaluations else next(iter(evaluations))
    for known in (name, f"expert {name}"):
        if known in evaluations:
            return known
    raise ParameterError.invalid("--baseline", "compare", f"one of {', '.join(evaluations)}", name)


def _show(
    session: Session,
    table: Comparison,
    key: str | None,
    left_out: dict[str, str],
    percent: bool,
    details: bool,
    markdown: bool,
    latex: bool,
) -> None:
    digits = 2 if percent else 4
    session.results = {
        "baseline": table.baseline,
        "instances": len(table.evaluations[table.methods[0]]),
        "methods": [{"method": name, "metrics": dict(table.evaluations[name].mean)} for name in table.methods],
        "tests": table.to_frame().to_dicts() if table.baseline is not None else [],
        "left_out": left_out,
    }
    if markdown:
        session.say(table.to_markdown(digits=digits, percent=percent))
    elif latex:
        session.say(table.to_latex(digits=digits, percent=percent))
    else:
        session.say(table.to_text(digits=digits, percent=percent, details=details))
        if key is not None and len(table.methods) > 1:
            session.say(f"sorted by {key}")
    for label, reason in left_out.items():
        session.say(f"{'% ' if latex else ''}left out: {label}: {reason}")

"""`concordant compare`: evaluates several methods or runs, and tests them against a baseline or in all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from concordant.cli._inputs import (
    Reading,
    check_features,
    note_missing,
    read_features_beside,
    read_labels_of,
    using_features,
    votes_of,
)
from concordant.cli._options import (
    CONVENTIONS,
    Common,
    Convention,
    Features,
    Inputs,
    Labels,
    Percent,
    Relevant,
    Sort,
    ValidationPart,
    Weights,
    bundled,
)
from concordant.cli._output import Session
from concordant.cli._parsing import check_choice, check_share, make_method, parse_method, parse_weights, split_names
from concordant.cli.evaluate import sorting_metric
from concordant.errors import ConcordantError, DataError, KindError, ParameterError

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator
    from concordant.cli._inputs import Source
    from concordant.data.comparisons import Comparisons
    from concordant.data.dataset import FeatureFold, Fold
    from concordant.data.features import Features as FeaturesOf
    from concordant.data.labels import Labels as LabelsOf
    from concordant.data.preferences import Preferences
    from concordant.metrics.comparison import Comparison
    from concordant.metrics.evaluation import Evaluation
    from concordant.selection.cross_validation import CrossValidation

__all__ = ["command", "parse_methods"]

_DEFAULT_METHODS = "rrf,comb-mnz,borda,condorcet,copeland"
_DEFAULT_RANKERS = "pmop,list-mle,ranknet,lambdarank"
_GROUPS = ("all", "heuristics")
_DEFAULT_METRICS = {"letor": "ndcg@1-5,p@1-5,map"}
_OTHER_METRICS = "ndcg@10,p@10,map"
# Seed of the folds if the input has none.
_SPLIT_SEED = 0


@bundled("memory")
def command(
    inputs: Inputs,
    labels: Labels = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            metavar="M,...",
            help="Methods, such as rrf,crf,'rrf(k=10)'; or a group: heuristics, all. Default: TREC runs are compared "
            f"themselves; for other input {_DEFAULT_METHODS}; for features {_DEFAULT_RANKERS}; for votes without "
            "labels bradley-terry,elo.",
        ),
    ] = None,
    features: Features = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="M,...",
            help=f"Metrics, such as ndcg@10,map. Default: {_OTHER_METRICS}; for letor {_DEFAULT_METRICS['letor']}; for "
            "votes without labels log-loss, decided-log-loss and accuracy.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="NAME",
            help="The method that the others are tested against. Default: the first, for a group rrf; none for runs.",
        ),
    ] = None,
    all_pairs: Annotated[
        bool,
        typer.Option("--all-pairs", help="Test every row against every other. Default for runs without --methods."),
    ] = False,
    folds: Annotated[
        str | None,
        typer.Option(
            "--folds",
            metavar="N|given|none",
            help="Cross-validation with N folds, the folds of the input, or no folds. Default: the folds of the input, "
            "else 5 if a method learns from labels.",
        ),
    ] = None,
    split_by: Annotated[
        str | None,
        typer.Option(
            "--split-by",
            metavar="random|expert|time",
            help="Votes without labels: which are held out together and predicted; time predicts each stretch from all "
            "votes before it. Default: random.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option("--seeds", metavar="N", min=1, help="Fit methods that draw random numbers with N seeds."),
    ] = 1,
    validation_part: ValidationPart = None,
    experts: Annotated[bool, typer.Option("--experts", help="Add a row for each expert's own order.")] = False,
    convention: Convention = None,
    rel: Relevant = None,
    weights: Weights = None,
    tests: Annotated[
        str,
        typer.Option(
            "--tests", metavar="T,...", help="Paired tests: t, fisher, wilcoxon. The first decides the marks."
        ),
    ] = "t",
    details: Annotated[
        bool, typer.Option("--details", help="List every difference with its interval and p-values.")
    ] = False,
    sort: Sort = None,
    percent: Percent = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the table as LaTeX.")] = False,
    *,
    reading: Reading,
    common: Common,
) -> None:
    """Compare runs, or methods that fuse them, on labelled data, with significance tests.

    A LETOR folder has its own labels and folds. Models of votes are compared by votes that were held out.
    """
    check_choice(convention, CONVENTIONS, "--convention")
    _check_folds(folds)
    check_share(validation_part)
    if markdown and latex:
        raise typer.BadParameter("choose one of the two.", param_hint="--markdown / --latex")
    if all_pairs and baseline is not None:
        raise typer.BadParameter("choose one of the two.", param_hint="--all-pairs / --baseline")
    from concordant.metrics.comparison import TESTS, compare

    wanted_tests = split_names(tests)
    for test in wanted_tests:
        check_choice(test, list(TESTS), "--tests")
    specs = None if methods is None else parse_methods(methods)
    trust = parse_weights(weights)
    asked = {
        "inputs": inputs,
        "labels": labels,
        "methods": methods,
        "rel": rel,
        "weights": trust,
        "tests": wanted_tests,
        "seeds": seeds,
        "validation_part": validation_part,
    }
    asked |= {"features": features} if features else {}
    check_choice(split_by, ("random", "expert", "time"), "--split-by")
    with common.session("compare", asked) as session:
        from concordant.metrics.ranking import parse_metrics

        if labels is None and reading.format_of(session, inputs) == "comparisons":
            refused = {"--features": features, "--experts": experts, "--convention": convention, "--rel": rel}
            refused |= {"--validation-part": validation_part, "--all-pairs": all_pairs, "--details": details}
            refused |= {"--seeds": seeds != 1, "--percent": percent, "--latex": latex, "--markdown": markdown}
            odd = next((option for option, value in refused.items() if value), None)
            if odd is not None:
                raise ParameterError(
                    f"{odd} is about labels, and votes without labels are compared by the votes that a model predicts. "
                    "Leave it out, or name labels of the items: --labels."
                )
            from concordant.cli._held_out_votes import VoteTask, compare_models_of_votes

            wanted = None if specs is None or methods in _GROUPS else [_create(spec) for spec in specs]
            vote_task = VoteTask(metrics, folds, split_by or "random", baseline, sort, trust)
            whole = methods if methods in _GROUPS else None
            compare_models_of_votes(session, reading, inputs, whole, wanted, vote_task)
            return
        if split_by is not None:
            raise ParameterError("--split-by is about votes of pairs without labels; leave it out.")
        group = methods in _GROUPS
        chosen = _group(str(methods)) if group else [_create(spec) for spec in specs or ()]
        names = None if metrics is None else [str(m) for m in parse_metrics(metrics)]
        source = reading.read(session, inputs)
        rules = convention or source.convention
        names = names or [str(m) for m in parse_metrics(_DEFAULT_METRICS.get(rules, _OTHER_METRICS))]
        key = sorting_metric(sort, names)
        runs_alone = specs is None and not experts and features is None and source.is_runs
        if runs_alone and trust:
            raise ParameterError("--weights changes how lists are fused; name --methods, or leave it out.")
        if specs is None and not runs_alone:
            session.params["methods"] = _DEFAULT_RANKERS if source.is_features else _DEFAULT_METHODS
            chosen = [_create(spec) for spec in parse_methods(session.params["methods"])]
        learns = any(c.method.needs_labels() for c in chosen)
        check_features(source, features)
        plan = _plan(session, source, labels, folds, trust, learns=learns)
        if features is not None:
            if not any(c.method.uses_features for c in chosen):
                raise ParameterError(f"none of the methods uses features; leave --features out. {using_features()}")
            plan = plan._replace(features=read_features_beside(session, features, [votes_of(source)])[0])
        task = _Task(plan, names, rules, rel, trust, seeds, validation_part)
        session.params |= {"metrics": names, "convention": rules, "folds": len(plan.parts) if plan.folded else None}
        evaluations, left_out = _run(session, task, chosen, experts or runs_alone, strict=not group)
        pairs = all_pairs or (runs_alone and baseline is None)
        base = None if pairs else _baseline(baseline, evaluations, group=group)
        order = list(evaluations)
        if key is not None:
            order.sort(key=lambda name: -evaluations[name].mean[key])
        with session.progress("testing differences"):
            ordered = {name: evaluations[name] for name in order}
            table = compare(ordered, baseline=base, all_pairs=pairs, tests=wanted_tests)
        form = "markdown" if markdown else "latex" if latex else "text"
        about = task.words(evaluations)
        if features is not None:
            about.append(_who_uses([c for c in chosen if c.label in evaluations]))
        if form == "text" and key is not None and len(order) > 1:
            about.append(f"sorted by {key}")
        note_missing(session, (c for c in chosen if c.label in evaluations), plan.parts[0].votes)
        _show(session, table, about, left_out, rules == "letor" if percent is None else percent, details, form)


def _who_uses(chosen: list[_Chosen]) -> str:
    """Return in words which methods use the features."""
    groups = [", ".join(c.label for c in chosen if c.method.uses_features is given) for given in (True, False)]
    return f"--features: used by {groups[0] or 'none'}" + (f"; not used by {groups[1]}" if groups[1] else "")


def _check_folds(folds: str | None) -> None:
    if folds is None or folds in ("given", "none"):
        return
    if not (folds.isascii() and folds.isdigit() and int(folds) >= 2):
        raise typer.BadParameter(
            f"must be a whole number from 2 on, given or none. Got {folds!r} instead.", param_hint="--folds"
        )


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
    """The test part of a fold, or all data without folds."""

    votes: Preferences | Comparisons | FeaturesOf
    labels: LabelsOf


class _Plan(NamedTuple):
    """The data to compare on, and how it is split into folds."""

    votes: Preferences | Comparisons | FeaturesOf | None
    labels: LabelsOf | None
    # The number of folds, the folds of the input, or None for no folds.
    folds: int | list[Fold] | list[FeatureFold] | None
    parts: list[_Part]
    # Why there are no folds, for messages about methods that need them.
    unfolded: str = ""
    # Features of all items beside preferences.
    features: FeaturesOf | None = None

    @property
    def folded(self) -> bool:
        return self.folds is not None


@dataclass(frozen=True)
class _Task:
    """The plan and the settings of a comparison, the same for every method."""

    plan: _Plan
    metrics: list[str]
    convention: str
    rel: float | None
    weights: dict[str, float]
    seeds: int
    validation_part: float | None

    @property
    def kind(self) -> str:
        from concordant.data.features import Features

        votes = self.plan.parts[0].votes
        return "features" if isinstance(votes, Features) else str(getattr(votes, "kind", "comparisons"))

    def words(self, evaluations: dict[str, Evaluation]) -> list[str]:
        """Return in words how folds and seeds were used."""
        folds, out = self.plan.folds, []
        if isinstance(folds, int):
            n = len(next(iter(evaluations.values())))
            held = (
                ""
                if self.validation_part is None
                else f", {self.validation_part:.0%} of the others held out to choose by"
            )
            out.append(
                f"{folds}-fold cross-validation over {n:,} instances, seed {_SPLIT_SEED}: methods are fitted without "
                f"the instances they are tested on{held}"
            )
        elif folds is not None:
            out.append(f"means of the {len(folds)} given folds: fitted to train, chosen on vali, tested on test")
        if self.seeds > 1:
            by_chance = [name for name, e in evaluations.items() if len(getattr(e, "seeds", ())) > 1]
            if by_chance:
                out.append(f"means over {self.seeds} seeds of {', '.join(by_chance)}")
        return out


def parse_methods(text: str) -> list[_Spec]:
    """Return the methods of a text such as "rrf,crf(metric=map)", or raise a usage error."""
    specs = [_Spec(part, *parse_method(part, "--methods")) for part in split_names(text)]
    if not specs:
        raise typer.BadParameter("name at least one method.", param_hint="--methods")
    return specs


def _create(spec: _Spec) -> _Chosen:
    return _Chosen(spec.text, make_method(spec.name, spec.params))


def _group(name: str) -> list[_Chosen]:
    """Return the methods of a group. Those that cannot take the input are left out later, with the reason."""
    from concordant.base.registry import METHODS, create

    return [_Chosen(n, create(n)) for n in METHODS if name == "all" or METHODS[n].tags.heuristic]


def _plan(
    session: Session, source: Source, labels: str | None, folds: str | None, trust: dict[str, float], *, learns: bool
) -> _Plan:
    """Return the plan of the comparison; `learns` says whether a method learns from labels."""
    from concordant.selection.folds import labelled, make_folds, relabel_fold, shared_labels, usual_folds

    given = source.dataset.folds
    if folds == "given" and not given:
        raise ParameterError("--folds given: the input brings no folds. A LETOR folder with Fold1, Fold2, ... does.")
    if given and folds in (None, "given"):
        own = None if labels is None else read_labels_of(session, source, labels)
        ready: Any = [relabel_fold(fold, own, trust) for fold in given]
        return _Plan(None, None, ready, [_Part(*fold.test) for fold in ready])
    votes: Any = source.dataset.features if source.is_features else votes_of(source).scale_weights(trust)
    truth = shared_labels(read_labels_of(session, source, labels), votes)
    if folds is None:
        n = usual_folds(votes, truth) if learns else None
    else:
        n = None if folds == "none" else int(folds)
    if n is None:
        why = "--folds none leaves no instances to learn from"
        if folds is None:
            known = int(labelled(votes, truth).sum())
            why = f"of {len(votes):,} instances {known:,} {'has' if known == 1 else 'have'} labels; folds need two"
        return _Plan(votes, truth, None, [_Part(votes, truth)], why)
    all_folds = make_folds(votes, truth, n, _SPLIT_SEED, "compare")
    return _Plan(votes, truth, n, [_Part(f.test, f.truth) for f in all_folds])


def _run(
    session: Session, task: _Task, chosen: list[_Chosen], experts: bool, *, strict: bool
) -> tuple[dict[str, Evaluation], dict[str, str]]:
    """Return the evaluation of each method and expert, and why methods are left out."""
    evaluations: dict[str, Evaluation] = {}
    left_out: dict[str, str] = {}
    session.fit_info = {}
    with session.progress("comparing", max(len(chosen), 1)) as bar:
        for label, method in chosen:
            bar.update(label)
            session.setting = f"{method.name}({{name}}={{value}})"
            reason = _unfit(method, task)
            if reason is None:
                try:
                    with session.about(label):
                        found = _evaluate(method, task)
                except ConcordantError as error:
                    if strict and not isinstance(error, KindError):
                        raise
                    reason = str(error)
                else:
                    evaluations[label] = found
                    session.fit_info[label] = list(found.fit_infos)
            if reason is not None:
                left_out[label] = reason
            bar.update(advance=1)
    if experts:
        found_experts = _evaluate_experts(task)
        # Beside methods, experts say what they are; runs alone have their own names.
        evaluations |= {f"expert {e}" if chosen else e: value for e, value in found_experts.items()}
    if not evaluations and not chosen:
        raise DataError("the input ranks nothing, so that there is nothing to compare.")
    if not evaluations:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in left_out.items())
        able = ""
        if task.kind == "features":
            from concordant.base.registry import METHODS

            able = f". Methods that learn from features: {', '.join(n for n in METHODS if METHODS[n].takes_features)}"
        raise DataError(f"none of the methods can take the input. {reasons}{able}.")
    return evaluations, left_out


def _unfit(method: Aggregator, task: _Task) -> str | None:
    """Return why a method cannot be compared on the input, or None if it can."""
    if task.kind == "features":
        if not method.takes_features:
            return f"works on {' or '.join(sorted(method.tags.accepts))}, the input holds features of items"
        if task.weights:
            return "there are no experts to weigh"
    elif task.kind not in method.tags.accepts:
        return f"works on {' or '.join(sorted(method.tags.accepts))}, the input holds {task.kind}"
    if task.weights and not method.tags.weights:
        return "does not weigh experts"
    if method.needs_labels() and not task.plan.folded:
        return f"learns from labels, and {task.plan.unfolded}"
    return None


def _evaluate(method: Aggregator, task: _Task) -> CrossValidation:
    from concordant.selection.cross_validation import cross_validate

    plan = task.plan
    return cross_validate(
        method,
        plan.votes,
        plan.labels,
        features=plan.features if method.uses_features else None,
        metrics=task.metrics,
        folds=plan.folds,
        validation_part=task.validation_part if plan.folded else None,
        convention=task.convention,
        rel=task.rel,
        # Without random numbers every seed gives the same result.
        seeds=task.seeds if method.tags.stochastic or method.needs_labels() else 1,
        random_state=_SPLIT_SEED,
    )


def _evaluate_experts(task: _Task) -> dict[str, Evaluation]:
    """Return the evaluation of each expert's own order, over the parts that are evaluated together."""
    from concordant.data.preferences import Preferences
    from concordant.metrics.evaluation import evaluate_experts
    from concordant.selection.cross_validation import evaluate_experts_by_fold

    parts = [(p.votes, p.labels) for p in task.plan.parts if isinstance(p.votes, Preferences)]
    if len(parts) < len(task.plan.parts):
        raise DataError(f"--experts evaluates the lists of experts; {task.kind} hold none.")
    settings: dict[str, Any] = {"metrics": task.metrics, "convention": task.convention, "rel": task.rel}
    measured = (
        evaluate_experts_by_fold(parts, **settings) if task.plan.folded else evaluate_experts(*parts[0], **settings)
    )
    measured.warn(len(measured.found) + len(measured.silent))
    return measured.found


def _baseline(name: str | None, evaluations: dict[str, Evaluation], *, group: bool) -> str:
    if name is None:
        # A group has no order, so the baseline is the method that most people use.
        return "rrf" if group and "rrf" in evaluations else next(iter(evaluations))
    for known in (name, f"expert {name}"):
        if known in evaluations:
            return known
    raise ParameterError.invalid("--baseline", "compare", f"one of {', '.join(evaluations)}", name)


def _show(
    session: Session,
    table: Comparison,
    about: list[str],
    left_out: dict[str, str],
    percent: bool,
    details: bool,
    form: str,
) -> None:
    digits = 2 if percent else 4
    session.results = {
        "baseline": table.baseline,
        "instances": len(table.evaluations[table.methods[0]]),
        "methods": [_record(name, table.evaluations[name]) for name in table.methods],
        "tests": table.to_frame().to_dicts() if table.adjusted else [],
        "left_out": left_out,
        "about": about,
    }
    if form == "markdown":
        session.say(table.to_markdown(digits=digits, percent=percent), lines=True)
    elif form == "latex":
        session.say(table.to_latex(digits=digits, percent=percent), lines=True)
    else:
        session.say(table.to_text(digits=digits, percent=percent, details=details), lines=True)
    before, after = {"markdown": ("", "  "), "latex": ("% ", "")}.get(form, ("", ""))
    for line in [*about, *(f"left out: {label}: {reason}" for label, reason in left_out.items())]:
        session.say(f"{before}{line}{after}")


def _record(name: str, evaluation: Evaluation) -> dict[str, Any]:
    spread = {m: v for m, v in evaluation.spread.items() if v == v}
    return {"method": name, "metrics": dict(evaluation.mean)} | ({"spread": spread} if spread else {})

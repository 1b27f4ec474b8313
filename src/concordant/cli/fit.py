"""`concordant fit`: learns weights of experts or features from data, and writes the model for `aggregate`."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeGuard, cast

import typer

from concordant.cli._inputs import (
    Reading,
    Source,
    check_features,
    data_of,
    features_of_model,
    note_missing,
    read_features_beside,
    read_label_file,
    read_labels_of,
    votes_of,
)
from concordant.cli._options import (
    Common,
    Features,
    Inputs,
    Labels,
    Params,
    QuoteFormulas,
    ValidationPart,
    Workers,
    bundled,
)
from concordant.cli._output import Session, Table, check_quoting, format_number, table_type, write_table
from concordant.cli._parsing import check_share, make_method, parse_params
from concordant.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from concordant.base.contract import Aggregator
    from concordant.data.comparisons import Comparisons
    from concordant.data.features import Features as FeaturesOf
    from concordant.data.labels import Labels as LabelsOf
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks
    from concordant.selection import AutoTrial

__all__ = ["command"]

# Experts of each group that are shown, and the share of the largest weight below which an expert is ignored.
_SHOWN = 5
_HEARD = 0.05
# Details with more columns than this are left to --experts-out.
_MOST_DETAILS = 6
# Half the width of a 95 % interval in standard errors.
_SURELY = 1.96
_SORTS = ("trusted", "ignored", "discounted", "inverted")
_INTERRUPTED = 130
# Features with the largest weights that are shown.
_STRONGEST = 10


@bundled()
def command(
    inputs: Inputs,
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", metavar="M", help="The method; concordant methods lists them.", show_default=False
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="MODEL", help="The file to write the model to.", show_default=False),
    ],
    labels: Labels = None,
    params: Params = None,
    features: Features = None,
    validation: Annotated[
        list[str] | None,
        typer.Option(
            "--validation",
            metavar="INPUT",
            help="Validation data, preferences or features: a file, folder or pattern; may be repeated.",
        ),
    ] = None,
    validation_labels: Annotated[
        str | None,
        typer.Option(
            "--validation-labels",
            metavar="QRELS",
            help="Labels of --validation, if neither it nor --labels holds them.",
        ),
    ] = None,
    validation_part: ValidationPart = None,
    fold: Annotated[
        int | None,
        typer.Option(
            "--fold",
            metavar="N",
            min=1,
            help="Fold of a LETOR folder: fit on its train part, validate on its vali part.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="File for the checkpoint of the fit. Default: MODEL.checkpoint, removed after the fit.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted fit from its checkpoint.")] = False,
    experts_out: Annotated[
        str | None,
        typer.Option("--experts-out", metavar="FILE", help="Write a table of what was learned about every expert."),
    ] = None,
    features_out: Annotated[
        str | None,
        typer.Option("--features-out", metavar="FILE", help="Write a table of the weights of features or columns."),
    ] = None,
    quote_formulas: QuoteFormulas = False,
    *,
    reading: Reading,
    workers: Workers,
    common: Common,
) -> None:
    """Fit a method to preferences or features with labels, and write the model. Ctrl-C keeps the best so far."""
    _check_usage(validation, validation_labels, validation_part, fold)
    settings = parse_params(params)
    asked: dict[str, Any] = {"inputs": inputs, "labels": labels, "method": method, "output": output, "fold": fold}
    asked |= {"validation": validation, "validation_labels": validation_labels, "validation_part": validation_part}
    asked |= {"features": features} if features else {}
    with common.session("fit", asked) as session:
        check_quoting(quote_formulas, experts_out, features_out)
        chosen = make_method(method, settings)
        session.params["params"] = chosen.get_params()
        saved = checkpoint or f"{output}.checkpoint"
        _check_output(output, saved)
        experts_table = _table_destination(session, experts_out, "--experts-out")
        features_table = _table_destination(session, features_out, "--features-out")
        with ExitStack() as stack:
            remote = stack.enter_context(workers.connected())
            plain = features is None and fold is None and validation_part is None
            if reading.memory is not None or remote:
                _check_blocks(chosen, plain, "--engine" if remote else "--memory")
                found = reading.read_or_scan(session, inputs, always_scan=remote)
            else:
                found = reading.read(session, inputs, **reading.needed_by([chosen]))
            if isinstance(found, Source):
                check_features(found, features, chosen)
                data = _data(session, chosen, found, labels, fold)
            else:
                data = _data_in_blocks(session, chosen, stack.enter_context(found), labels)
            if validation is not None:
                data = _validated(session, chosen, data, reading.read(session, validation), validation_labels)
            elif validation_part is not None and data.labels is not None:
                data = _hold_out(data, validation_part)
            if features is not None:
                data = _with_features(session, data, features)
            # A method that writes no checkpoint says so only to those who ask for one.
            wanted = checkpoint is not None or resume or chosen._writes_checkpoints
            interrupted = _fit(session, chosen, data, saved if wanted else None, resume)
        # What `auto` chose; any other method is itself.
        tried, chosen = chosen, getattr(chosen, "best_method_", chosen)
        chosen.save(output)
        if not interrupted and checkpoint is None and os.path.exists(saved):
            os.unlink(saved)
        if experts_table is not None:
            _write_experts(session, chosen, experts_table, quote_formulas)
        if features_table is not None:
            _write_features(session, chosen, features_table, quote_formulas)
        _report(session, chosen, data, output, tried)
        note_missing(session, [(chosen.name, chosen)], data.votes)
        if interrupted:
            kept = f"; the same command with --resume goes on from {saved}" if os.path.exists(saved) else ""
            when = chosen.fit_info_.interrupted
            session.complain(f"interrupted {when}: {output} holds the best model so far{kept}")
            session.code = interrupted
            return
        session.note(f"wrote {output}: {chosen.name}, {os.path.getsize(output):,} bytes")
        same = "features" if _is_features(data.votes) else "experts"
        beside_it = " --features FILE" if features is not None and chosen.takes_features else ""
        session.note(f"Next, on any input of the same {same}:")
        session.note(f"  concordant aggregate INPUT... --model {output}{beside_it}")


def _check_output(output: str, checkpoint: str) -> None:
    """Raise before a long fit where its model or its checkpoint cannot be written."""
    from concordant.base.saving import check_path
    from concordant.io._files import check_writable, is_stream

    if output == "-" or is_stream(output):
        raise ParameterError(f"-o {output}: a model is written to a file, not to standard output or a pipe.")
    for path in (output, checkpoint):
        check_path(path)
        check_writable(path)


def _table_destination(session: Session, path: str | None, option: str) -> str | None:
    """Return where a table is written, after a check that it can be."""
    if path is None:
        return None
    from concordant.io._files import check_writable

    path = session.destination(path, option)
    table_type(path)
    check_writable(path)
    return path


def _check_blocks(method: Aggregator, plain: bool, option: str) -> None:
    if plain and method.tags.blocks:
        return
    from concordant.base.registry import METHODS

    able = [name for name in METHODS if METHODS[name].tags.blocks]
    raise ParameterError(
        f"{option} is for methods that add up over blocks of instances, without --features, --fold and "
        f"--validation-part: {', '.join(able)}."
    )


class _Data(NamedTuple):
    """Training data, and validation data that passes and candidates are chosen by."""

    votes: Preferences | Comparisons | FeaturesOf | Blocks
    labels: LabelsOf | None
    # Data, labels and, where there are some, the features beside the data.
    validation: tuple[Any, ...] | None = None
    # Where the validation value comes from, in words.
    chosen_by: str = "held out in cross-validation"
    features: FeaturesOf | None = None

    @property
    def n_instances(self) -> int:
        """The number of training instances."""
        return len(self.votes.instances)


def _data_in_blocks(session: Session, method: Aggregator, blocks: Blocks, labels: str | None) -> _Data:
    """Return data that is read in blocks, with its labels where the method learns from them."""
    if not method.needs_labels():
        return _Data(blocks, None)
    if labels is None:
        raise DataError(f"{method.name} learns from labels, and input read in blocks has none. Add --labels QRELS.")
    return _Data(blocks, read_label_file(session, labels))


def _check_usage(
    validation: list[str] | None, validation_labels: str | None, validation_part: float | None, fold: int | None
) -> None:
    ways = {"--validation": validation, "--validation-part": validation_part, "--fold": fold}
    used = [option for option, value in ways.items() if value is not None]
    if len(used) > 1:
        raise typer.BadParameter("each gives validation data; use one of them.", param_hint=" / ".join(used))
    if validation_labels is not None and validation is None:
        raise typer.BadParameter("goes with --validation INPUT.", param_hint="--validation-labels")
    check_share(validation_part)


def _data(session: Session, method: Aggregator, source: Source, labels: str | None, fold: int | None) -> _Data:
    supervised = method.needs_labels()
    if labels is not None and not supervised:
        ways = _ways_to_learn(method)
        hint = f" It learns from them with {' or '.join(ways)}." if ways else ""
        session.warn(f"{method.name} learns without labels; --labels is ignored.{hint}")
    if fold is None:
        return _Data(data_of(source, method), read_labels_of(session, source, labels) if supervised else None)
    folds = source.dataset.folds or []
    if fold > len(folds):
        there = f"folds 1 to {len(folds)}" if folds else "no folds; a LETOR folder with Fold1, Fold2, ... does"
        raise ParameterError(f"--fold {fold}: the input brings {there}.")
    train, vali, _ = folds[fold - 1]
    # Refuses what the method cannot take.
    data_of(source, method)
    if not supervised:
        return _Data(train[0], None)
    if labels is None:
        return _Data(train[0], train[1], (vali[0], vali[1]), f"on the vali part of fold {fold}")
    truth = read_labels_of(session, source, labels)
    return _Data(train[0], truth, (vali[0], truth), f"on the vali part of fold {fold}")


def _ways_to_learn(method: Aggregator) -> list[str]:
    """Return the settings with which a method would learn from labels."""
    return [f"-p {name}={word}" for name, word in method.learns_labels_by.items()]


def _validated(session: Session, method: Aggregator, data: _Data, source: Source, labels: str | None) -> _Data:
    """Return the data with a validation part and its labels, which may be among the training labels."""
    if data.labels is None:
        session.warn(f"{method.name} learns without labels; --validation is ignored.")
        return data
    borrowed = labels is None and source.dataset.labels is None
    truth = data.labels if borrowed else read_labels_of(session, source, labels)
    if source.is_features != _is_features(data.votes):
        held = ["preferences", "features of items"]
        mine, theirs = held if source.is_features else held[::-1]
        raise DataError(f"the input holds {mine}, {source.name} {theirs}; --validation must hold the same.")
    part = (
        features_of_model(session, source, data.votes.names.tolist()) if _is_features(data.votes) else votes_of(source)
    )
    return data._replace(validation=(part, truth), chosen_by="on the validation part")


def _is_features(data: Preferences | Comparisons | FeaturesOf | Blocks) -> TypeGuard[FeaturesOf]:
    from concordant.data.features import Features

    return isinstance(data, Features)


def _with_features(session: Session, data: _Data, paths: list[str]) -> _Data:
    """Return the data with features of the items beside preferences, also for the validation part."""
    votes: list[Any] = [data.votes] if data.validation is None else [data.votes, data.validation[0]]
    own, *held = read_features_beside(session, paths, votes)
    validation = None if data.validation is None else (*data.validation, *held)
    return data._replace(features=own, validation=validation)


def _hold_out(data: _Data, share: float) -> _Data:
    """Return the data with a share of its labelled instances held out for validation."""
    from concordant.selection.folds import hold_out

    votes: Any = data.votes
    train, held = hold_out(votes, cast("LabelsOf", data.labels), share, 0)
    return _Data(*train, held, f"on {len(held[0]):,} instances held out")


def _fit(session: Session, method: Aggregator, data: _Data, place: str | None, resume: bool) -> int:
    """Fit; return 0, or the exit code of an interrupt after which the method holds its best state so far."""
    from concordant.execution.blocks import Blocks
    from concordant.selection.folds import shared_labels

    try:
        with (
            session.progress(f"fitting {method.name} to {data.n_instances:,} instances", 1),
            nullcontext() if place is None else _noted(session, place, resume),
        ):
            votes: Any = data.votes
            labels = data.labels
            if labels is not None and not isinstance(votes, Blocks):
                labels = shared_labels(labels, votes)
            method.fit(votes, labels, validation=data.validation, features=data.features)
    except (KeyboardInterrupt, SystemExit) as stop:
        info = getattr(method, "fit_info_", None)
        if info is None or not info.interrupted:
            if place is not None and os.path.exists(place):
                session.complain(f"nothing is learned yet; the same command with --resume goes on from {place}")
            raise
        return int(stop.code) if isinstance(stop, SystemExit) and isinstance(stop.code, int) else _INTERRUPTED
    finally:
        session.fit_info = getattr(method, "fit_info_", None)
    return 0


def _noted(session: Session, place: str, resume: bool) -> AbstractContextManager[Any]:
    """Return a context in which a fit writes its checkpoint and resumes from it."""
    if resume and not os.path.exists(place):
        session.warn(f"there is no checkpoint {place!r} to resume from; the fit starts from the beginning.")
    from concordant.learning.checkpoints import checkpoint

    return checkpoint(place, resume=resume)


def _write_experts(session: Session, method: Aggregator, path: str, quote_formulas: bool) -> None:
    learned = method.learned_experts()
    if not learned:
        # No error: a model that took hours must not be lost over a table.
        session.warn(f"{method.name} has learned nothing about experts; {path} is not written.")
        return
    write_table(learned, path, quote_formulas)
    session.note(f"wrote {path}: {len(learned['expert']):,} experts")


def _write_features(session: Session, method: Aggregator, path: str, quote_formulas: bool) -> None:
    learned = _weights(method)
    if not learned:
        session.warn(f"{method.name} has learned no weights of features; {path} is not written.")
        return
    columns: dict[str, list[Any]] = {
        "feature": [name for name, _ in learned],
        "weight": [weight for _, weight in learned],
    }
    write_table(columns, path, quote_formulas)
    session.note(f"wrote {path}: {len(learned):,} weights")


def _weights(method: Aggregator) -> list[tuple[str, float]]:
    """Return the weight of each column of a linear model, the largest first.

    Weights of rankers are per standard deviation of the column, others per unit of the column.
    """
    learned = vars(method)
    if isinstance(learned.get("coefficients_"), dict):
        return sorted(learned["coefficients_"].items(), key=lambda pair: -abs(pair[1]))
    if "coefficients_" not in learned or learned["top_"].size:
        return []
    names = list(learned["feature_names_"])
    if learned["second_order"]:
        products = [f"{names[i]} × {names[j]}" for i, j in learned["products_"].tolist()]
        names = names * learned["keep_first"] + products
    weights = zip(names, learned["coefficients_"].tolist(), strict=True)
    return sorted(weights, key=lambda pair: -abs(pair[1]))


def _report(session: Session, method: Aggregator, data: _Data, output: str, tried: Aggregator) -> None:
    info = method.fit_info_
    trials = getattr(tried, "tried_", [])
    learned = method.learned_experts()
    experts = [dict(zip(learned, row, strict=True)) for row in zip(*learned.values(), strict=True)]
    session.results = {
        "output": output,
        "method": method.name,
        "instances": data.n_instances,
        "labels": info.labels,
        "chosen": info.chosen,
        "metric": method.get_params().get("select"),
        "validation": info.validation,
        "experts": experts,
        "features": [{"feature": name, "weight": weight} for name, weight in _weights(method)],
        "interrupted": info.interrupted or None,
    }
    if trials:
        session.results |= {"why": getattr(tried, "why_", ""), "tried": [t._asdict() for t in trials]}
        session.show(_trials_table(trials, tried.get_params()["metric"]))
        session.say(getattr(tried, "why_", ""))
    if not any(name.endswith("_") and name != "fit_info_" for name in method.__dict__):
        session.say(f"{method.name} has nothing to learn: the model holds its parameters.")
        return
    session.say(f"{method.name} learned from {_amount(data, info.labels)} in {_seconds(info.seconds)}")
    if info.chosen:
        session.say(f"chosen: {', '.join(f'{name}={_word(value)}' for name, value in info.chosen.items())}")
    if info.validation is not None:
        metric = method.get_params().get("select", "value")
        session.say(f"{metric} {info.validation:.4f} {data.chosen_by}")
    if experts and "camp" in experts[0]:
        camps = [sum(e["camp"] == c for e in experts) for c in sorted({e["camp"] for e in experts})]
        sizes = ", ".join(f"{n:,}" for n in camps)
        session.say(f"{len(experts):,} experts in camps of {sizes}; --experts-out FILE writes who is in which")
    elif experts:
        session.show(_experts_table(experts, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    weights = _weights(method)
    if weights:
        itself = isinstance(vars(method)["coefficients_"], dict)
        session.show(_features_table(weights, "the feature itself" if itself else "the feature's standard deviation"))


def _trials_table(trials: Sequence[AutoTrial], metric: str) -> Table:
    """Return a table of what `auto` tried."""
    rows = []
    for trial in trials:
        measured = not math.isnan(trial.mean)
        gap = "" if math.isnan(trial.above) else f"{trial.above:+.4f} ± {trial.stderr:.4f}"
        rows.append([trial.name, f"{trial.mean:.4f}" if measured else "", gap, _seconds(trial.seconds), trial.outcome])
    return Table(["method", metric, "above", "time", "outcome"], rows, left=frozenset({0, 4}))


def _features_table(weights: list[tuple[str, float]], units: str) -> Table:
    """Return a table of the features with the largest weights."""
    shown = weights[:_STRONGEST]
    hidden = "; --features-out FILE writes all" if len(shown) < len(weights) else ""
    what = f"the {len(shown)} strongest of {len(weights):,} weights" if hidden else f"{len(weights):,} weights"
    return Table(
        ["feature", "weight"],
        [[name, format_number(weight)] for name, weight in shown],
        caption=f"{what}, in units of {units}{hidden}",
    )


def _amount(data: _Data, counts: dict[str, int]) -> str:
    """Return in words the amount of training data, and how many labels could be used."""
    from concordant.data.container import counted

    votes: Any = data.votes
    n = data.n_instances
    words = counted(n, "instance")
    if counts and counts["usable"] == n:
        words = counted(n, "labelled instance")
    elif counts:
        words += f" ({counts['labelled']:,} labelled, {counts['usable']:,} of them with labels that differ)"
    others = []
    if not _is_features(votes):
        others.append((len(votes.experts), "expert"))
    own = votes if _is_features(votes) else data.features
    if own is not None:
        others.append((own.n_features, "feature"))
    named = [counted(count, what) for count, what in others if count]
    return " and ".join([words, *named]) if len(named) < 2 else f"{words}, {named[0]} and {named[1]}"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2f} s"


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _sort_of(expert: dict[str, Any], strongest: float) -> str:
    """Return the group of an expert: what the method itself says, or else what its weight says."""
    said = re.match(r"\w+", str(expert.get("meaning", "")))
    if said is not None and said[0] in _SORTS:
        return said[0]
    if not abs(expert["weight"]) > _HEARD * strongest:
        return "ignored"
    if expert["weight"] > 0:
        return "trusted"
    # Only an interval can tell an inverted expert from one whose weight is below 0 by chance.
    return "inverted" if expert["weight"] + _SURELY * expert.get("stderr", math.inf) < 0 else "discounted"


def _experts_table(experts: list[dict[str, Any]], room: int | None = None) -> Table:
    """Return a table of a few experts of each group: trusted, ignored, discounted and inverted.

    If there is not enough room, the meaning is shortened to its first word, and details are left out.
    """
    from concordant.data.container import counted

    # An unknown weight comes last.
    order = sorted(experts, key=lambda e: -e["weight"] if e["weight"] == e["weight"] else math.inf)
    strongest = max((abs(e["weight"]) for e in experts if e["weight"] == e["weight"]), default=0.0)
    found: dict[str, list[dict[str, Any]]] = {sort: [] for sort in _SORTS}
    for expert in order:
        sort = _sort_of(expert, strongest)
        found[sort].append({"meaning": sort} | expert | {"": sort})
    for sort in ("discounted", "inverted"):
        found[sort].reverse()
    details = [name for name in experts[0] if name not in ("expert", "weight", "meaning")]
    shown = [e for of_sort in found.values() for e in of_sort[:_SHOWN]]
    own_words = "meaning" in experts[0]
    rule = {} if own_words else {"ignored": f" (at most {_HEARD:.0%} of the strongest weight)"}
    counts = ", ".join(f"{len(of_sort):,} {sort}{rule.get(sort, '')}" for sort, of_sort in found.items() if of_sort)

    def table(names: list[str], word: str) -> Table:
        columns = ["expert", "weight", *names, "meaning"]
        keys = ["expert", "weight", *names, word]
        # Everything there is: all experts, all columns, in all words.
        whole = len(shown) == len(experts) and names == details and (word == "meaning" or not own_words)
        hidden = "" if whole else "; --experts-out FILE writes all"
        left = frozenset(c for c, key in enumerate(keys) if isinstance(shown[0][key], str))
        rows = [[_cell(e[key]) for key in keys] for e in shown]
        return Table(columns, rows, left=left, caption=f"{counted(len(experts), 'expert')}: {counts}{hidden}")

    some = details if len(details) <= _MOST_DETAILS else []
    forms = [table(some, "meaning"), table(some, ""), table([], "")]
    return next((form for form in forms if room is None or form.width <= room), forms[-1])


def _cell(value: Any) -> str:
    return format_number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)

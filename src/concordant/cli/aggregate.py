"""`concordant aggregate`: reads preferences or features, prints the consensus as a leaderboard or writes it."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from concordant.cli._board_scale import BoardScale
from concordant.cli._category_boards import CategoryOptions, show_categories, write_boards
from concordant.cli._inputs import (
    Reading,
    Source,
    all_given,
    check_features,
    features_of_model,
    no_experts,
    note_missing,
    read_features_beside,
    votes_of,
)
from concordant.cli._options import Common, Features, Inputs, Params, QuoteFormulas, To, Weights, Workers, bundled
from concordant.cli._output import Session, Table, check_quoting, format_number, table_type, write_table
from concordant.cli._parsing import make_method, parse_params, parse_weights
from concordant.errors import DataError, FormatError, KindError, ParameterError

if TYPE_CHECKING:
    from concordant.aggregators.category_boards import CategoryBoards
    from concordant.aggregators.leaderboard import Leaderboard
    from concordant.aggregators.mixture import Mixture
    from concordant.arrays import Floats
    from concordant.base.contract import Aggregator
    from concordant.data.comparisons import Comparisons
    from concordant.data.consensus import Consensus
    from concordant.data.features import Features as FeaturesOf
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks

__all__ = ["command", "leaderboard", "leaderboard_rows"]

# Rows and instances that a leaderboard shows by default.
_ROWS_OF_ONE, _ROWS_OF_MANY, _SHOWN_OF_MANY = 50, 5, 3
_RUN_DEPTH = 1000
# Parameters that can be set on a fitted method: what it learned does not depend on them.
_AT_PREDICTION = ("unknown_experts", "level", "n_bootstrap", "nan")


@bundled()
def command(
    inputs: Inputs,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            metavar="M",
            help="The method; concordant methods lists them.  [default: bradley-terry for votes of pairs, else rrf]",
        ),
    ] = None,
    params: Params = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="FILE", help="A model written by fit, instead of --method.")
    ] = None,
    features: Features = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write the consensus to a file; its ending gives the format (.trec, .csv, ...). - is standard output.",
        ),
    ] = None,
    to: To = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="K", min=1, help="Keep the K best of each instance. A TREC run keeps 1000."),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="NAME", help="The tag of a TREC run, its name. Default: the method."),
    ] = None,
    break_ties: Annotated[
        bool,
        typer.Option(
            "--break-ties", help="Write strictly decreasing scores to a TREC run, for tools that reorder ties."
        ),
    ] = False,
    experts_out: Annotated[
        str | None,
        typer.Option("--experts-out", metavar="FILE", help="Write a table of experts: coverage, weight, agreement."),
    ] = None,
    quote_formulas: QuoteFormulas = False,
    weights: Weights = None,
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", "-i", metavar="ID", help="Print or write this instance; may be repeated."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            "-n",
            metavar="N",
            min=0,
            help="Print N rows of each instance; 0 prints all rows of all instances.",
        ),
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(
            "--update",
            metavar="STATE",
            help="Add the votes to a leaderboard kept in this file, which is made if it is not there, and print the "
            "board of all votes so far.",
        ),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            metavar="LENGTH",
            help="With --update, for a new file: keep the counts by periods of this length, such as 1d, so that -p "
            "half_life=... can be changed later.",
        ),
    ] = None,
    summary: Annotated[
        bool,
        typer.Option(
            "--summary",
            help="Print estimates with standard errors and tests, log-likelihood and AIC, not a leaderboard.",
        ),
    ] = False,
    *,
    scaling: BoardScale,
    categories: CategoryOptions,
    reading: Reading,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Folder for finished parts of the work; an interrupted command that is repeated resumes from there.",
        ),
    ] = None,
    workers: Workers,
    common: Common,
) -> None:
    """Compute a consensus: print it as a leaderboard, or write it with -o."""
    settings, trust = parse_params(params), parse_weights(weights)
    scaling.check()
    if model is not None:
        _check_model_usage(method, settings)
    if summary and (output is not None or model is not None):
        other = (
            "--model, whose summary is of the data it was fitted to" if model is not None else "-o; print both in turn"
        )
        raise typer.BadParameter(f"cannot be given with {other}.", param_hint="--summary")
    asked = {"inputs": inputs, "method": method, "model": model, "output": output}
    asked |= {"features": features} if features else {}
    asked |= {n: v for n, v in asdict(scaling).items() if v}
    asked |= {n: v for n, v in asdict(categories).items() if v is not None}
    without: dict[str, Any] = {"--model": model, "--features": features, "--update": update, "--summary": summary}
    without |= {"--checkpoint": checkpoint, "--memory": reading.memory, "--scheduler": workers.scheduler}
    without |= {"--instance": instance, "--experts-out": experts_out, "--tag": tag, "--to": to}
    without["--break-ties"] = break_ties
    categories.check(without)
    if period is not None and update is None:
        raise typer.BadParameter("needs --update STATE, the file that keeps the counts.", param_hint="--period")
    if update is not None:
        asked |= {"update": update, "period": period}
        refused: dict[str, Any] = {"--model": model, "--features": features, "--weights": weights}
        refused |= {"--checkpoint": checkpoint, "--memory": reading.memory, "--scheduler": workers.scheduler}
        refused |= {"--summary": summary or None, "--equal-weight": reading.equal_weight}
        odd = next((option for option, value in refused.items() if value is not None), None)
        if odd is not None:
            raise typer.BadParameter(f"cannot be given with {odd}.", param_hint="--update")
    with common.session("aggregate", asked) as session:
        from concordant.execution.blocks import Blocks

        check_quoting(quote_formulas, output if to is None else to, experts_out)
        if method is None and model is None:
            method = "bradley-terry" if categories.asked else _default_method(session, inputs, reading, update)
        chosen = _method(method or "rrf", settings, model)
        written = _destination(session, output, "--output")
        experts_table = _destination(session, experts_out, "--experts-out")
        _check_method(chosen, params, trust, model)
        if summary:
            chosen.check_summary()
        session.params |= {"method": chosen.name, "params": chosen.get_params(), "weights": trust}
        needs_experts = bool(trust) or experts_table is not None or features is not None
        needs_all = written is None or experts_table is not None or features is not None or instance is not None
        needs_all = needs_all or scaling.asked
        in_blocks = not needs_all and chosen.goes_block_by_block(fitted=model is not None, weighted=bool(trust))
        _check_block_options(in_blocks, reading, checkpoint, workers)
        form = _Form(to, top, tag, break_ties, quote_formulas)
        if update is not None:

            def displayed(board: Consensus) -> Consensus:
                scaled = scaling.applied(board)
                # Raises for an instance that is not there.
                part = scaled if instance is None else scaled[instance]
                return scaled if written is None else part

            arena, board, scaled = _updated(session, update, chosen, settings, period, inputs, reading, displayed)
            if experts_table is not None:
                _write_experts(session, arena.votes, board, {}, arena.fitted, experts_table, quote_formulas)
            if written is not None:
                _write(session, scaled, written, form.named(written), chosen.name)
            else:
                shown = rows if top is None else top
                discounted = arena.method.half_life is not None
                leaderboard(session, scaled, arena.votes, chosen=instance, rows=shown, discounted=discounted)
            _note_effects(session, arena.fitted, shown=written is None)
            return
        if categories.asked:
            out = _destination(session, categories.differences_out, "--differences-out")
            for path in (written, out):
                if path is not None:
                    table_type(path)
            boards, all_votes = _boards_by_category(session, chosen, inputs, reading, categories, scaling, trust)
            if out is not None:
                write_table(boards.differences().to_dict(as_series=False), out, quote_formulas)
                session.note(f"wrote {out}: differences between categories")
            if written is not None:
                write_boards(session, boards, written, top, quote_formulas)
                return
            depth = rows if top is None else top
            if not session.json:
                leaderboard(session, boards.overall, all_votes, rows=depth)
            show_categories(session, boards, depth)
            return
        with workers.connected() as remote:
            found: Source | Blocks
            collapse = not (needs_experts or remote or checkpoint) and _can_collapse(session, chosen, inputs, reading)
            if in_blocks and not collapse:
                found = reading.read_or_scan(session, inputs, checkpoint=checkpoint, always_scan=remote)
            else:
                needed: dict[str, Any] = {"collapse": True} if collapse else reading.needed_by([chosen])
                found = reading.read(session, inputs, **needed)
            if isinstance(found, Blocks):
                with found:
                    _write_blocks(session, found, chosen, str(written), form, trust, model is not None, checkpoint)
                return
        votes, weighed = _votes(session, chosen, found, features, trust, experts_out, model)
        own = _features_beside(session, chosen, weighed, features, model)
        with session.progress(f"{chosen.name} over {len(votes):,} instances", 1):
            predicted = chosen.predict if model is not None else chosen.fit_predict
            consensus = predicted(weighed, **own)
        session.fit_info = getattr(chosen, "fit_info_", None)
        session.params |= {"missing": note_missing(session, [(chosen.name, chosen)], weighed).get(chosen.name)}
        if experts_table is not None:
            _write_experts(session, weighed, consensus, trust, chosen, experts_table, quote_formulas)
        consensus = scaling.applied(consensus)
        if written is not None:
            consensus = consensus if instance is None else consensus[instance]
            _write(session, consensus, written, form.named(written, found), chosen.name)
        elif summary:
            _summarise(session, chosen, instance)
        else:
            leaderboard(session, consensus, votes, chosen=instance, rows=rows if top is None else top)
            if chosen.n_camps() > 1:
                _show_camps(
                    session, cast("Mixture", chosen), consensus, weighed, instance, rows if top is None else top
                )
        if not summary and model is None:
            _note_effects(session, chosen, shown=written is None)


def _default_method(session: Session, inputs: list[str], reading: Reading, update: str | None) -> str:
    """Return the method for input of this kind, and say so where people might expect another."""
    from concordant.io.formats import FORMATS

    if update is not None:
        return "bradley-terry"
    held = reading.format_of(session, inputs)
    if held == "comparisons":
        session.note("method: bradley-terry, because the input is votes of pairs; --method names another.")
        return "bradley-terry"
    usual = None if held is None else FORMATS[held].usual
    if usual is not None:
        session.note(f"method: rrf, the default; for {usual[0]}, such as --method {usual[1]}.")
    return "rrf"


def _updated(
    session: Session,
    state: str,
    method: Aggregator,
    settings: dict[str, Any],
    period: str | None,
    inputs: list[str],
    reading: Reading,
    displayed: Callable[[Consensus], Consensus],
) -> tuple[Leaderboard, Consensus, Consensus]:
    """Add the votes of the input to the leaderboard in a file; return it with its board, also as `displayed` gives it.

    The file is written once the board is known and can be displayed, whole or not at all.
    """
    from concordant.aggregators.bradley_terry import BradleyTerry
    from concordant.aggregators.leaderboard import Leaderboard
    from concordant.data.comparisons import Comparisons
    from concordant.io._files import check_unchanged, check_writable, is_stream
    from concordant.io._tables import is_number

    if not isinstance(method, BradleyTerry):
        raise KindError(f"--update keeps the counts of a bradley-terry board. Got --method {method.name}.")
    if state == "-" or is_stream(state):
        raise ParameterError(f"--update {state}: a leaderboard is kept in a file, not in a pipe.")
    check_writable(state)
    known = os.path.exists(state)
    with check_unchanged(state) if known else nullcontext():
        length = float(period) if period is not None and is_number(period) else period
        arena = Leaderboard.load(state) if known else Leaderboard(method, period=length)
        if period is not None and length != arena.period:
            kept = "no times" if arena.period is None else f"periods of {arena.period}"
            raise ParameterError(
                f"{state} keeps {kept}, and --period says {period}. Leave --period out, or name another file and read "
                "all votes again."
            )
        own = arena.method.get_params()
        odd = [name for name in settings if method.get_params()[name] != own[name]] if known else []
        if odd == ["half_life"] and arena.period is not None:
            arena = arena.with_half_life(method.half_life)
            own, odd = arena.method.get_params(), []
        if odd:
            raise ParameterError(
                f"{state} was made with {odd[0]}={own[odd[0]]!r}, and keeps its settings. Leave -p {odd[0]} out, or "
                "name another file and read all votes again."
            )
        session.params |= {"method": method.name, "params": own}
        before = arena.n_votes
        votes = votes_of(reading.read(session, inputs, **_needed_by_state(arena, reading, known=known)))
        if not isinstance(votes, Comparisons):
            raise KindError(f"--update takes votes of pairs. The input holds {type(votes).__name__}.")
        with session.progress(f"updating {state}", 1):
            arena.update(votes)
            board = arena.board()
            shown = displayed(board)
    if not known and os.path.exists(state):
        raise DataError(f"{state}: another process wrote this file meanwhile. Nothing was written; repeat the command.")
    arena.save(state)
    session.params |= {"votes_added": arena.n_votes - before, "votes": arena.n_votes}
    added, total = (format_number(n, 15) for n in (arena.n_votes - before, arena.n_votes))
    session.note(f"{'updated' if known else 'wrote'} {state}: {added} votes added, {total} in all.")
    return arena, board, shown


def _boards_by_category(
    session: Session,
    method: Aggregator,
    inputs: list[str],
    reading: Reading,
    categories: CategoryOptions,
    scaling: BoardScale,
    trust: dict[str, float],
) -> tuple[CategoryBoards, Comparisons]:
    """Return the boards by category of the input, on the scale asked for, and its votes."""
    from concordant.aggregators.bradley_terry import BradleyTerry
    from concordant.aggregators.category_boards import category_boards
    from concordant.data.comparisons import Comparisons

    if not isinstance(method, BradleyTerry):
        raise KindError(f"--by-category makes boards of bradley-terry. Got --method {method.name}.")
    if "category" in {**reading.reader_options(), **(reading.columns_by_role() or {})}:
        raise ParameterError("--by-category names the column of categories. Leave category out of the other options.")
    held = reading.format_of(session, inputs)
    if held not in (None, "comparisons"):
        raise KindError(f"--by-category takes votes of pairs. The format of the input is {held}.")
    needed = reading.needed_by([method]) | {"category": categories.by_category}
    source = reading.read(session, inputs, **needed)
    votes = source.dataset.comparisons
    if not isinstance(votes, Comparisons):
        raise KindError(f"--by-category takes votes of pairs, and {source.name} holds none.")
    votes = votes.scale_weights(trust)
    with session.progress(f"{method.name} by category", 1):
        boards = category_boards(votes, method, pooling=categories.pooling or "partial")
    session.fit_info = boards.method.fit_info_
    return scaling.applied_by_category(boards), votes


def _needed_by_state(arena: Leaderboard, reading: Reading, *, known: bool) -> dict[str, Any]:
    """Return options of the reader for the columns that a leaderboard keeps, where the user names none."""
    needed = reading.needed_by([arena.method])
    given = {**reading.reader_options(), **(reading.columns_by_role() or {})}
    if arena.period is not None and "time" not in given:
        needed["time"] = True
    columns = arena.votes.columns if known else None
    if columns is None:
        return needed
    if columns.category is not None and "category" not in given:
        needed["category"] = True
    if len(columns.covariate_names) and "covariates" not in given:
        needed["covariates"] = columns.covariate_names.tolist()
    if columns.n_both_bad is not None and "both_bad" not in given:
        needed["both_bad"] = "apart"
    return needed


def _summarise(session: Session, method: Aggregator, instances: list[str] | None) -> None:
    """Print the summary of a fit, of all instances or of those that were asked for."""
    found = [method.summary()] if instances is None else [method.summary(name) for name in instances]
    each = [one.to_dict() for one in found]
    session.results = each[0] if len(each) == 1 else each
    session.say("\n\n".join(map(repr, found)), lines=True)


def _note_effects(session: Session, method: Aggregator, *, shown: bool) -> None:
    """Keep for JSON what was learned beside the scores, and print it where the board is `shown`."""
    learned = method.learned_effects()
    session.besides |= learned
    told = [row for row in learned.get("coefficients", []) if row["kind"] != "tie"]
    spreads = learned.get("habit_spread")
    if told and shown:
        numbers = ("estimate", "stderr", "lower", "upper", "p_value")
        body = [[row["kind"], row["term"], *(_known(row[name], name == "p_value") for name in numbers)] for row in told]
        session.say()
        session.show(Table(["effect", "", "log odds", "std. error", "lower", "upper", "p"], body, frozenset({0, 1})))
    if spreads:
        each = ", ".join(f"{name} {format_number(spread, 2)}" for name, spread in spreads.items())
        session.note(
            f"Standard deviations of habits over experts: {each}. --experts-out FILE has the habits of each expert."
        )


def _known(value: float | None, is_p: bool = False) -> str:
    return "unknown" if value is None else "<2e-16" if is_p and value < 2e-16 else f"{value:.3g}"


@dataclass(frozen=True)
class _Form:
    """How to write a consensus: format, cut, ties and quoting."""

    to: str | None
    top: int | None
    tag: str | None
    break_ties: bool
    quote_formulas: bool

    def named(self, output: str, source: Source | None = None) -> _Form:
        """Return the form with the format of a file; without an ending it is a run, if the source holds runs."""
        from concordant.io.write import format_of

        try:
            to = self.to or format_of(output)
        except FormatError:
            if source is not None and not source.is_runs:
                raise
            to = "trec"
        for option, given in (("--break-ties", self.break_ties), ("--tag", self.tag is not None)):
            if given and to != "trec":
                raise ParameterError(f"{option} is for TREC runs; {output} is written as {to}.")
        return replace(self, to=to)

    def options(self, method: str) -> dict[str, Any]:
        """Return the options of the writer; a run is named after its method unless it has a tag."""
        from concordant.io.table_writers import SPREADSHEETS

        if self.to == "trec":
            return {"tag": self.tag or method, "break_ties": self.break_ties}
        return {"quote_formulas": self.quote_formulas} if self.to in SPREADSHEETS else {}

    def told(self, output: str, method: str, n_instances: int) -> str:
        """Return what was written, in words."""
        cut = f", the {self.top or _RUN_DEPTH:,} best of each" if self.to == "trec" else ""
        return f"wrote {output}: {method} over {n_instances:,} instances{cut}"


def _destination(session: Session, path: str | None, option: str) -> str | None:
    """Return the path of an output file, after a check that it can be written."""
    if path is None:
        return None
    from concordant.io._files import check_writable

    path = session.destination(path, option)
    check_writable(path)
    return path


def _check_method(method: Aggregator, params: list[str] | None, trust: dict[str, float], model: str | None) -> None:
    """Raise if the method does not take weights of experts that are given, or must be fitted with labels first."""
    if trust and not method.tags.weights:
        raise ParameterError(f"{type(method).__name__} does not weigh experts; leave --weights out.")
    if model is None and method.needs_labels():
        again = "".join(f" -p {shlex.quote(setting)}" for setting in params or ())
        truth = "[--labels QRELS]" if method.takes_features else "--labels QRELS"
        raise ParameterError(
            f"{method.name} learns from labels. Fit it first: concordant fit INPUT... {truth} --method "
            f"{method.name}{again} -o MODEL; then: concordant aggregate INPUT... --model MODEL."
        )


def _check_block_options(in_blocks: bool, reading: Reading, checkpoint: str | None, workers: Workers) -> None:
    asked = {"--engine": workers.engine != "local", "--memory": reading.memory is not None}
    asked |= {"--checkpoint": checkpoint is not None}
    named = next((option for option, is_asked in asked.items() if is_asked), None)
    if named is not None and not in_blocks:
        raise ParameterError(
            f"{named} needs -o and a method that works instance by instance, learns by sums over instances, or is a "
            "fitted model. Other methods need all instances in memory."
        )


def _can_collapse(session: Session, method: Aggregator, inputs: list[str], reading: Reading) -> bool:
    """Return whether to collapse many comparisons to counts while they are read: the answer stays the same."""
    if not method.counts_suffice(has_experts=False) or reading.keeps_rows_apart() or reading.needed_by([method]):
        return False
    from concordant.learning.streaming import can_collapse

    paths = all_given(session, inputs)
    return can_collapse(method, paths, reading.input_format, reading.columns_by_role(), session.note)


def _votes(
    session: Session,
    method: Aggregator,
    source: Source,
    features: list[str] | None,
    trust: dict[str, float],
    experts_out: str | None,
    model: str | None,
) -> tuple[Any, Any]:
    """Return what the method works on, as read and with the weights of the user."""
    check_features(source, features, method)
    if source.is_features:
        if trust or experts_out is not None:
            what = "--weights" if trust else "--experts-out"
            raise ParameterError(f"{what} is about experts; the input holds features of items, and no experts.")
        own = _features(session, method, source, model)
        return own, own
    votes = votes_of(source)
    if "feature_names_" in vars(method) and "experts_" not in vars(method):
        raise KindError(
            f"the {method.name} in {model} was fitted on features of items alone. {source.name} holds "
            "preferences or comparisons."
        )
    return votes, votes.scale_weights(trust)


def _features(session: Session, method: Aggregator, source: Source, model: str | None) -> FeaturesOf:
    """Return the features of the input that the model was fitted on."""
    if model is None:
        raise KindError(f"{method.name} takes preferences or comparisons, not features. {no_experts(source)}")
    if not method.takes_features:
        raise KindError(
            f"the {method.name} in {model} takes preferences or comparisons, not features. {no_experts(source)}"
        )
    if "experts_" in method.__dict__:
        raise KindError(
            f"the {method.name} in {model} was fitted on preferences. {source.name} holds features of items; "
            "where it was fitted with both, they go to --features."
        )
    return features_of_model(session, source, vars(method)["feature_names_"])


def _features_beside(
    session: Session, method: Aggregator, votes: Any, features: list[str] | None, model: str | None
) -> dict[str, Any]:
    """Return the features that the method, or the model, uses beside preferences."""
    if model is None and features is not None:
        return {"features": read_features_beside(session, features, [votes])[0]}
    wanted = list(getattr(method, "item_features_", ())) if "experts_" in method.__dict__ else []
    if features is None:
        if wanted:
            raise DataError(
                f"this {method.name} was fitted with {len(wanted):,} features of items beside the experts. Name those "
                "of the input: --features FILE."
            )
        return {}
    if not wanted:
        kept = "has kept the features it was fitted with" if "feature_scores_" in vars(method) else ""
        raise ParameterError(
            f"this {method.name} {kept or 'was fitted without features of items'}; leave --features out."
        )
    return {"features": read_features_beside(session, features, [votes], wanted)[0]}


def _check_model_usage(method: str | None, params: dict[str, Any]) -> None:
    fixed = [name for name in params if name not in _AT_PREDICTION]
    if method is not None or fixed:
        what = "--method" if method is not None else f"-p {fixed[0]}"
        raise typer.BadParameter(
            f"a model has its own method and parameters, so {what} cannot be given with it. "
            f"Only {', '.join(_AT_PREDICTION)} can still be set.",
            param_hint="--model",
        )


def _method(name: str, params: dict[str, Any], model: str | None) -> Aggregator:
    if model is not None:
        from concordant.base.saving import load

        return load(sys.stdin.buffer if model == "-" else model).set_params(**params)
    return make_method(name, params)


def _write(session: Session, consensus: Consensus, output: str, form: _Form, method: str) -> None:
    from concordant.io.write import write

    options = form.options(f"{method}-elo" if consensus.scale == "elo" else method)
    if form.to == "trec":
        options["top"] = form.top or _RUN_DEPTH
    elif form.top is not None:
        consensus = consensus.top(form.top)
    with session.progress(f"writing {output}"):
        write(consensus, output, form.to, **options)
    session.results = {"output": output, "format": form.to, "instances": len(consensus), "items": consensus.n_slots}
    session.note(form.told(output, method, len(consensus)))


def _write_blocks(
    session: Session,
    blocks: Blocks,
    method: Aggregator,
    output: str,
    form: _Form,
    trust: dict[str, float],
    fitted: bool,
    checkpoint: str | None,
) -> None:
    """Write the consensus of data that is read in blocks of instances."""
    from concordant.io.blocks import discard
    from concordant.learning.streaming import aggregate_blocks

    form = form.named(output)
    with session.progress(f"{method.name} over {len(blocks.instances):,} instances in {len(blocks)} blocks", 1):
        items = aggregate_blocks(
            blocks,
            output,
            method,
            format=form.to,
            fitted=fitted,
            adjust=(lambda block: block.scale_weights(trust)) if trust else None,
            top=form.top,
            checkpoint=None if checkpoint is None else os.path.join(checkpoint, "parts"),
            **form.options(method.name),
        )
    if checkpoint is not None:
        discard(checkpoint)
    session.fit_info = getattr(method, "fit_info_", None)
    session.params |= {"missing": note_missing(session, [(method.name, method)], blocks).get(method.name)}
    session.results = {"output": output, "format": form.to, "instances": len(blocks.instances), "items": items}
    session.results |= {"rows": blocks.n_rows, "blocks": len(blocks)}
    session.note(form.told(output, method.name, len(blocks.instances)))


def _write_experts(
    session: Session,
    votes: Preferences | Comparisons,
    consensus: Consensus,
    trust: dict[str, float],
    method: Aggregator,
    path: str,
    quote_formulas: bool,
) -> None:
    from concordant.inference.experts import expert_records

    with session.progress("looking at the experts"):
        records = expert_records(votes, consensus, trust, method)
    columns = {name: [r[name] for r in records] for name in records[0]} if records else {"expert": []}
    write_table(columns, path, quote_formulas)
    session.note(f"wrote {path}: {len(records):,} experts")


def leaderboard(
    session: Session,
    consensus: Consensus,
    votes: Preferences | Comparisons | FeaturesOf,
    *,
    chosen: list[str] | None = None,
    rows: int | None = None,
    discounted: bool = False,
) -> None:
    """Print the consensus: rank, item, score, interval if there is one, and n, the number of experts of the item.

    Parameters
    ----------
    session : Session
        Where to.
    consensus : Consensus
        What to print.
    votes : Preferences, Comparisons or Features
        The data it was computed from, to count n; features have no n.
    chosen : list of str, optional
        The instances to print; without it all, or the first few when printed for people.
    rows : int, optional
        How many rows of each; 0 for all.
    discounted : bool
        Whether comparisons count by their age in `votes`.
    """
    from concordant.data.features import Features
    from concordant.data.index import instance_index
    from concordant.inference.experts import support

    n_of = None if isinstance(votes, Features) else support(votes)
    codes = list(range(len(consensus)))
    if chosen is not None:
        codes = [int(instance_index(name, consensus.slots)[0]) for name in chosen]
    if session.json:
        depth = rows or None
        session.results = [r for code in codes for r in _records(consensus, n_of, code)[:depth]]
        return
    shown = codes if chosen is not None or rows == 0 else codes[:_SHOWN_OF_MANY]
    depth = rows if rows is not None else _ROWS_OF_ONE if len(shown) == 1 else _ROWS_OF_MANY
    left_out = len(codes) - len(shown)
    for code in shown:
        records = _records(consensus, n_of, code)
        title = f"{consensus.instances[code]}: {len(records):,} items" if len(consensus) > 1 else ""
        session.show(_table(records[: depth or None], title, consensus.level))
        if 0 < depth < len(records):
            session.say(f"… {len(records) - depth:,} more")
        if code != shown[-1]:
            session.say()
    taken = "comparisons the item took part in" + ", by what they weigh today" * discounted
    counted = f"n: {'experts who ranked the item' if hasattr(votes, 'list_expert') else taken}."
    hidden = (
        f" {left_out:,} more instances: --instance ID shows one, --rows 0 all, -o FILE writes all." if left_out else ""
    )
    made = f" Intervals: {consensus.interval_method}." if consensus.interval_method else ""
    made += f" Elo scale: {consensus.gauge}." if consensus.scale == "elo" and consensus.gauge else ""
    said = f"{'' if n_of is None else counted}{made}{hidden}".strip()
    if said:
        session.note(said)


def _show_camps(
    session: Session, mixture: Mixture, consensus: Consensus, votes: Any, chosen: list[str] | None, rows: int | None
) -> None:
    """Print the ranks of the items in every camp of experts, with the sizes of the camps."""
    from concordant.data.index import instance_index

    camps = mixture.camps(votes)
    sizes = mixture.shares_.tolist()
    session.params |= {"camps": sizes}
    codes = list(range(len(consensus)))
    if chosen is not None:
        codes = [int(instance_index(name, consensus.slots)[0]) for name in chosen]
    if session.json:
        place = {(r["instance"], r["item"]): r for r in session.results}
        for slot in range(consensus.n_slots):
            row = place.get(consensus.slots.where(slot))
            if row is not None:
                row["camp_ranks"] = [int(camp.rank[slot]) for camp in camps]
        return
    shown = codes if chosen is not None or rows == 0 else codes[:_SHOWN_OF_MANY]
    depth = rows if rows is not None else _ROWS_OF_ONE if len(shown) == 1 else _ROWS_OF_MANY
    columns = ["item", *(f"camp {c} ({size:.0%})" for c, size in enumerate(sizes, start=1))]
    for code in shown:
        first, end = (int(e) for e in consensus.slots.offsets[code : code + 2])
        slots = [int(s) for s in consensus.order()[first:end]][: depth or None]
        table = [[str(consensus.items[s]), *(format_number(int(camp.rank[s])) for camp in camps)] for s in slots]
        session.say()
        more = f" in {consensus.instances[code]}" if len(consensus) > 1 else ""
        session.show(Table(columns, table, title=f"ranks by camp of experts{more}"))
    session.note("camps: --experts-out FILE writes the camp of every expert and the probability of it.")


def _records(consensus: Consensus, n_of: Floats | None, code: int) -> list[dict[str, Any]]:
    """Return the rows of one instance, best first."""
    from concordant.data.consensus import OPTIONAL_COLUMNS

    a, b = int(consensus.slots.offsets[code]), int(consensus.slots.offsets[code + 1])
    order = consensus.order()[a:b]
    optional = {name: column for name in OPTIONAL_COLUMNS if (column := getattr(consensus, name)) is not None}
    instance, items = consensus.instances[code], consensus.items.take(order).tolist()
    scale = {"scale": "elo", "gauge": consensus.gauge} if consensus.scale == "elo" else {}
    return [
        {"instance": instance, "rank": int(consensus.rank[slot]), "item": item, "score": float(consensus.score[slot])}
        # Where nothing is known, null says so in JSON, which has no word for NaN.
        | {name: None if math.isnan(column[slot]) else float(column[slot]) for name, column in optional.items()}
        | ({} if n_of is None else {"n": float(n_of[slot])})
        | scale
        for slot, item in zip(order.tolist(), items, strict=True)
    ]


def leaderboard_rows(consensus: Consensus, n_of: Floats, code: int, *, depth: int, caption: str) -> Table:
    """Return the best rows of one instance as a table."""
    return replace(_table(_records(consensus, n_of, code)[:depth], "", consensus.level), caption=caption)


def _table(records: list[dict[str, Any]], title: str, level: float | None) -> Table:
    bounds = [r[name] for r in records for name in ("score", "lower", "upper") if r.get(name) is not None]
    elo = bool(records) and records[0].get("scale") == "elo"
    places = 0 if elo else _places(bounds)
    columns = ["rank", "item", "Elo" if elo else "score"]
    names = ("lower", "rank_lower", "tier", "n")
    intervals, ranks, tiers, counts = (bool(records) and name in records[0] for name in names)
    if intervals:
        columns.append(f"{level:.0%} interval" if level is not None else "interval")
    columns += ["ranks"] * ranks + ["tier"] * tiers
    tests = [name for name in ("p_value", "q_value") if records and name in records[0]]
    columns += [name.replace("_", "-") for name in tests] + ["n"] * counts
    rows = []
    for r in records:
        row = [str(r["rank"]), r["item"], f"{r['score']:.{places}f}"]
        if intervals:
            told = r["lower"] is not None and r["upper"] is not None
            bounds_of = f"±{(r['upper'] - r['lower']) / 2:.0f}" if elo and told else ""
            row.append(bounds_of or (f"[{r['lower']:.{places}f}, {r['upper']:.{places}f}]" if told else "unknown"))
        if ranks:
            first, last = format_number(r["rank_lower"]), format_number(r["rank_upper"])
            row.append(first if first == last else f"{first} to {last}")
        if tiers:
            row.append("unknown" if r["tier"] is None else format_number(r["tier"]))
        row += ["unknown" if r[name] is None else f"{r[name]:.2g}" for name in tests]
        if counts:
            row.append(format_number(r["n"]))
        rows.append(row)
    return Table(columns, rows, left=frozenset({1}), title=title)


def _places(values: list[float]) -> int:
    """Return the number of decimals of scores and bounds: 0 for whole numbers, else five digits of the largest."""
    if all(value.is_integer() for value in values):
        return 0
    largest = max(abs(value) for value in values)
    return min(max(4 - math.floor(math.log10(largest)), 1), 12)

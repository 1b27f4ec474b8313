"""Options that several commands share, declared once, and the bundles in which they travel.

A command asks for a bundle by a keyword parameter, such as `reading: Reading`; `bundled` gives Typer the options of
the bundle in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from concordant.cli._output import Session

__all__ = [
    "CONVENTIONS",
    "Columns",
    "Common",
    "Convention",
    "Debug",
    "Distinct",
    "Engine",
    "EqualWeight",
    "ExpertFrom",
    "Features",
    "Format",
    "Inputs",
    "Json",
    "Labels",
    "MaxPerExpert",
    "Memory",
    "Missing",
    "Params",
    "Percent",
    "Quiet",
    "QuoteFormulas",
    "ReadOptions",
    "Relevant",
    "Scheduler",
    "SchedulerTimeout",
    "Sort",
    "Threads",
    "To",
    "ValidationPart",
    "Weights",
    "Where",
    "Workers",
    "bundled",
]

CONVENTIONS = ("trec", "letor", "paper")

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Files, folders or patterns, plain or compressed: TREC runs, LETOR, SVMlight, PrefLib, CSV, Parquet, "
        "JSON lines. - is standard input.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="F",
        help="Format of the input, if content and name do not tell; csv, tsv, parquet or jsonl give only the file type "
        "of a table.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="ROLE=COLUMN,...",
        help="Roles of the columns of a table, by name or number from 1: left=model_a,right=model_b,expert=judge.",
    ),
]
ExpertFrom = Annotated[
    str | None,
    typer.Option(
        "--expert-from",
        metavar="tag|file",
        help="Take the expert of a TREC run from its tag or its file name. Default: the tag, unless files share it.",
    ),
]
ReadOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="NAME=VALUE", help="An option of the reader, such as duplicates=best; may be repeated."
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="unknown|below",
        help="How to read items that a list leaves out: unknown, or below all items it holds. Default: below for TREC "
        "runs, else unknown.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Votes: keep rows that meet a condition on a column, such as language=English, 'turn>=2' or "
        "'tstamp>=2024-06-01'; may be repeated, and a row must meet all.",
    ),
]
Distinct = Annotated[
    str | None,
    typer.Option(
        "--distinct",
        metavar="COLUMN,...",
        help="Votes: of rows that are equal in these columns keep the first, such as judge,question_id or expert,pair.",
    ),
]
MaxPerExpert = Annotated[
    str | None,
    typer.Option(
        "--max-per-expert",
        metavar="N[:first|last]",
        help="Votes: keep at most N of each expert, drawn with a fixed seed, or the first or last by time.",
    ),
]
EqualWeight = Annotated[
    str | None,
    typer.Option(
        "--equal-weight", metavar="experts|pairs", help="Votes: give each expert, or each pair of items, equal weight."
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        "-l",
        metavar="QRELS",
        help="Ground truth: TREC qrels, a table with instance, item and label, or a LETOR file that holds them.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="FILE",
        help="Features of the items, for methods that use them beside preferences (LETOR, SVMlight, .npy or a table); "
        "may be repeated.",
    ),
]
Convention = Annotated[
    str | None,
    typer.Option(
        "--convention",
        metavar="trec|letor|paper",
        help="Convention of the metrics: trec_eval, the LETOR script or the papers. Default: letor for LETOR input, "
        "else trec.",
    ),
]
Relevant = Annotated[
    float | None, typer.Option("--rel", metavar="N", help="Smallest label that counts as relevant. Default: 1.")
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort", metavar="METRIC", help="Sort the rows by this metric; none for no sorting. Default: the last metric."
    ),
]
Percent = Annotated[
    bool | None,
    typer.Option("--percent/--no-percent", help="Show values in percent, with two decimals. Default: for letor only."),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="A parameter of the method, such as -p k=20; may be repeated. NAME=@FILE takes the value from JSON, or a "
        "mapping from the two columns of a CSV file.",
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weights", metavar="EXPERT=W,...", help="Weights of experts, such as bm25=2,dense=1; others have weight 1."
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="F", help="Format of the output, if the ending of its name does not tell."),
]
ValidationPart = Annotated[
    float | None,
    typer.Option(
        "--validation-part",
        metavar="SHARE",
        help="Share of the labelled instances to hold out for validation, such as 0.2, instead of cross-validation.",
    ),
]
QuoteFormulas = Annotated[
    bool,
    typer.Option(
        "--quote-formulas",
        help="In CSV and TSV, put a ' before ids that a spreadsheet would run as a formula, such as =HYPERLINK(...). "
        "Default: ids are written as they are.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors: no notes, warnings or progress.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output instead of tables.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", help="Number of threads, at most one per core. [default: all cores]"),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Read input that would take more memory than this, such as 4GB, in blocks of instances; 0: always. "
        "[default: half of the free memory]",
    ),
]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="E", help="Where to compute: local, or dask for the cluster of --scheduler."),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="The Dask scheduler, such as tcp://10.0.0.1:8786."),
]
SchedulerTimeout = Annotated[
    float | None,
    typer.Option(
        "--scheduler-timeout",
        metavar="SECONDS",
        help="How long to wait for the Dask scheduler to answer, or for its first workers. [default: 15]",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def bundled(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces each bundle in a command's signature by the options it holds.

    Parameters
    ----------
    *without : str
        Fields of bundles that are no options of this command.
    """

    def spread(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        bundles: dict[str, Any] = {}
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            if not is_dataclass(parameter.annotation):
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            bundles[name] = parameter.annotation
            types = get_type_hints(parameter.annotation, include_extras=True)
            parameters += [
                inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
                for f in fields(parameter.annotation)
                if f.name not in without
            ]

        def run(**given: Any) -> None:
            made = {
                name: bundle(**{f.name: given.pop(f.name) for f in fields(bundle) if f.name in given})
                for name, bundle in bundles.items()
            }
            command(**given, **made)

        run.__doc__, run.__module__ = command.__doc__, command.__module__
        run.__annotations__ = {}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return spread


@dataclass(frozen=True)
class Common:
    """Options of every command: what is printed, and on how many threads the work is done."""

    quiet: Quiet = False
    as_json: Json = False
    threads: Threads = None
    debug: Debug = False

    def session(self, command: str, params: Mapping[str, Any]) -> Session:
        """Return a session of the command with these options."""
        from concordant.cli._output import Session

        return Session(command, params, quiet=self.quiet, as_json=self.as_json, threads=self.threads, debug=self.debug)


@dataclass(frozen=True)
class Workers:
    """Options that say where the work is done: on this machine or on a Dask cluster."""

    engine: Engine = "local"
    scheduler: Scheduler = None
    scheduler_timeout: SchedulerTimeout = None

    @contextmanager
    def connected(self) -> Iterator[bool]:
        """Run the block where the options say; yield whether that is a cluster."""
        from concordant.cli._parsing import check_choice

        timeout = self.scheduler_timeout
        check_choice(self.engine, ("local", "dask"), "--engine")
        if (self.engine == "dask") != (self.scheduler is not None):
            raise typer.BadParameter(
                "--engine dask and --scheduler ADDRESS go together.",
                param_hint="--engine" if self.scheduler else "--scheduler",
            )
        if timeout is not None and self.scheduler is None:
            raise typer.BadParameter("goes with --scheduler ADDRESS.", param_hint="--scheduler-timeout")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise typer.BadParameter(
                f"must be a number of seconds > 0. Got {timeout:g} instead.", param_hint="--scheduler-timeout"
            )
        if self.scheduler is None:
            yield False
            return
        from concordant.execution import connected

        with connected(self.scheduler) if timeout is None else connected(self.scheduler, timeout=timeout):
            yield True

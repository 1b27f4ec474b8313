"""The options that mean the same in every command, worded once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Columns",
    "Convention",
    "Debug",
    "Engine",
    "ExpertFrom",
    "Features",
    "Format",
    "Inputs",
    "Json",
    "Labels",
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
]

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
        help="The format of the input, when its content and name do not tell it; csv, tsv, parquet or jsonl say only "
        "how a table is written.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="ROLE=COLUMN,...",
        help="Which column of a table is what, by name or number from 1: left=model_a,right=model_b,expert=judge.",
    ),
]
ExpertFrom = Annotated[
    str | None,
    typer.Option(
        "--expert-from",
        metavar="tag|file",
        help="What names the expert of a TREC run: the tag or the file. Without it the tag, unless files share it.",
    ),
]
ReadOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="NAME=VALUE", help="An option of the reader, such as duplicates=best; once for each option."
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="unknown|below",
        help="What a list says about items it leaves out: nothing, or that they are below all it holds. Without it "
        "below for TREC runs, else unknown.",
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
        help="Features of the items beside the preferences, for methods that learn from them (LETOR, SVMlight, .npy or "
        "a table); may be repeated.",
    ),
]
Convention = Annotated[
    str | None,
    typer.Option(
        "--convention",
        metavar="trec|letor|paper",
        help="Whose rules the metrics follow. Without it letor for LETOR input, else trec.",
    ),
]
Relevant = Annotated[
    float | None, typer.Option("--rel", metavar="N", help="Labels from N on are relevant. Without it from 1.")
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort", metavar="METRIC", help="Order the rows by this metric, or none. Without it by the last one."
    ),
]
Percent = Annotated[
    bool | None,
    typer.Option("--percent/--no-percent", help="Show values times 100, to two decimals. Without it for letor only."),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="A parameter of the method, such as -p k=20; once for each parameter.",
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weights", metavar="EXPERT=W,...", help="Trust in experts, such as bm25=2,dense=1; those not named weigh 1."
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="F", help="The format of the output, when the ending of its name does not tell it."),
]
ValidationPart = Annotated[
    float | None,
    typer.Option(
        "--validation-part",
        metavar="SHARE",
        help="Hold out this share of the labelled instances to choose by, such as 0.2, in place of cross-validation.",
    ),
]
QuoteFormulas = Annotated[
    bool,
    typer.Option(
        "--quote-formulas",
        help="In CSV and TSV, put a ' before ids that a spreadsheet would run as a formula, such as =HYPERLINK(...). "
        "Without it ids are written exactly.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors: no notes, warnings or progress.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output instead of tables.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", help="How many threads may work, at most one per core. [default: all]"),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Read in blocks of instances what would take more memory than this, such as 4GB; 0 always does. "
        "[default: half of what is free]",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine", metavar="E", help="Where the work is done: local, or dask, on the cluster of --scheduler."
    ),
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
        help="How long to wait for a Dask scheduler that does not answer, or for workers when there are none. "
        "[default: 15]",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

"""What the user names becomes containers, parameters and weights; a slip in an option is a usage error (exit 2)."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from concordant.errors import DataError, FormatError, listing

if TYPE_CHECKING:
    from concordant.cli._output import Session
    from concordant.data.comparisons import Comparisons
    from concordant.data.dataset import Dataset
    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences
    from concordant.kernels.lists import Floats

__all__ = [
    "Source",
    "check_share",
    "matched",
    "one_of",
    "parse_columns",
    "parse_params",
    "parse_value",
    "parse_weights",
    "read_input",
    "read_truth",
    "split_names",
    "table_type",
    "votes_of",
    "weigh",
    "write_table",
]

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_value(text: str) -> Any:
    """Return the value a text stands for: a number, true, false, none, JSON, or the text itself.

    Lists become tuples, which is what parameters with several values are.

    >>> parse_value("60"), parse_value("0.5"), parse_value("True"), parse_value("min"), parse_value('{"a": 2}')
    (60, 0.5, True, 'min', {'a': 2})
    >>> parse_value("[1, 5]")
    (1, 5)
    """
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        value = json.loads(word)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def parse_params(pairs: Iterable[str] | None, option: str = "-p") -> dict[str, Any]:
    """Return name -> value for texts such as "k=60"."""
    out: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise typer.BadParameter(f"expected NAME=VALUE, such as k=60. Got {pair!r} instead.", param_hint=option)
        if name in out:
            raise typer.BadParameter(f"{name!r} is given twice.", param_hint=option)
        out[name] = parse_value(value)
    return out


def split_names(text: str) -> list[str]:
    """Return the parts between commas that stand outside brackets of any kind.

    >>> split_names("rrf(k=10,ties=min), borda")
    ['rrf(k=10,ties=min)', 'borda']
    """
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _pairs(texts: Iterable[str] | None, option: str, example: str) -> dict[str, str]:
    """Return the pairs of one or several texts "a=1,b=2"; the last = of a part separates, for ids may hold others."""
    out: dict[str, str] = {}
    for part in (part for text in texts or () for part in text.split(",")):
        name, sign, value = part.strip().rpartition("=")
        if not sign or not name or not value:
            raise typer.BadParameter(f"expected {example}. Got {part!r} instead.", param_hint=option)
        if name in out:
            raise typer.BadParameter(f"{name!r} is given twice.", param_hint=option)
        out[name] = value
    return out


def parse_weights(texts: Iterable[str] | None) -> dict[str, float]:
    """Return expert -> weight for texts such as "bm25=2,dense=0.5"."""
    out = {}
    for expert, text in _pairs(texts, "--weights", "EXPERT=WEIGHT, such as bm25=2,dense=0.5").items():
        try:
            out[expert] = float(text)
        except ValueError:
            raise typer.BadParameter(
                f"the weight of {expert!r} must be a number. Got {text!r} instead.", param_hint="--weights"
            ) from None
    return out


def parse_columns(texts: Iterable[str] | None) -> dict[str, str | int] | None:
    """Return role -> column name or 1-based number for texts such as "left=model_a,right=3"."""
    columns = _pairs(texts, "--columns", "ROLE=COLUMN, such as left=model_a,right=model_b")
    return {role: int(c) if c.isdecimal() else c for role, c in columns.items()} or None


def one_of(value: str | None, allowed: Sequence[str], option: str) -> str | None:
    """Return the value when it is one of a few words, else raise a usage error."""
    if value is not None and value not in allowed:
        raise typer.BadParameter(f"must be one of {', '.join(allowed)}. Got {value!r} instead.", param_hint=option)
    return value


@dataclass(frozen=True)
class Source:
    """What was read, and where it came from."""

    paths: str | list[str]
    dataset: Dataset
    given_format: str | None = None

    @cached_property
    def format(self) -> str:
        """The name of the input's format; looked for only where it matters."""
        from concordant.io.read import FORMATS, sniff

        return self.given_format if self.given_format in FORMATS else sniff(self.paths)

    @property
    def is_runs(self) -> bool:
        """Whether the input was TREC runs, so that a fused run is one too."""
        return self.format == "trec"

    @property
    def convention(self) -> str:
        """The metric convention that goes with the input."""
        return "letor" if self.format.startswith("letor") else "trec"


def read_input(
    session: Session,
    inputs: list[str],
    input_format: str | None,
    columns: Iterable[str] | None,
    expert_from: str | None,
    read_options: Iterable[str] | None = None,
) -> Source:
    """Return what the named files hold."""
    named = parse_columns(columns)
    options = parse_params(read_options, "--read")
    if expert_from is not None:
        options["expert_from"] = one_of(expert_from, ("tag", "file"), "--expert-from")
    import polars as pl  # noqa: F401 - so that its handler is there to be mended

    from concordant.io.read import read

    # Polars' handler lets a read that waits, for a pipe or a slow disk, go on after Ctrl-C.
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)
    paths = inputs[0] if len(inputs) == 1 else inputs
    with (
        session.progress(f"reading {inputs[0]}" + (f" and {len(inputs) - 1} more" if len(inputs) > 1 else "")),
        session.reading(),
    ):
        dataset = read(paths, input_format, columns=named, **options)
    return Source(paths, dataset, input_format)


def read_truth(session: Session, source: Source, labels: str | None) -> Labels:
    """Return the labels named, or those the input brings."""
    if labels is None:
        if source.dataset.labels is None:
            raise DataError("the input brings no labels. Name them: --labels QRELS.")
        return source.dataset.labels
    from concordant.io.tabular import read_labels

    with session.progress(f"reading {labels}"):
        return read_labels(labels)


def matched(labels: Labels, votes: Preferences | Comparisons) -> Labels:
    """Return the labels to learn from.

    Files are matched by id and never by position, so that it is no slip where both hold equally many instances but not
    quite the same ones; the library would suspect two sequences split by one index.
    """
    from concordant.selection.portions import labels_of

    known = labels.instances.codes
    shared = sum(instance in known for instance in votes.instances)
    return labels_of(labels, votes.instances) if 0 < shared < len(votes) == len(labels) else labels


def check_share(share: float | None, option: str = "--validation-part") -> None:
    """Raise a usage error unless a share can be held out."""
    if share is not None and not 0 < share < 1:
        raise typer.BadParameter(f"must be a number between 0 and 1. Got {share:g} instead.", param_hint=option)


def votes_of(source: Source) -> Preferences | Comparisons:
    """Return the preferences or comparisons of the input."""
    dataset = source.dataset
    votes = dataset.preferences if dataset.preferences is not None else dataset.comparisons
    if votes is None:
        held = [name for name, part in dataset._asdict().items() if part is not None]
        raise DataError(f"the input holds {' and '.join(held)}, neither preferences nor comparisons of experts.")
    return votes


def weigh(votes: Preferences | Comparisons, weights: dict[str, float]) -> Preferences | Comparisons:
    """Return the votes with the user's trust in experts, on top of weights that came with the input."""
    if not weights:
        return votes
    from concordant.data.comparisons import Comparisons
    from concordant.data.preferences import Preferences

    if isinstance(votes, Preferences):
        trusted = votes.with_weights(weights)
        return Preferences.from_codes(
            votes.slots,
            votes.experts,
            votes.list_expert,
            votes.list_offsets,
            votes.list_starts,
            votes.slot,
            votes.value,
            kind=votes.kind,
            list_weight=trusted.weights * votes.weights,
        )
    factor = _row_factors(votes, weights)
    return Comparisons.from_codes(
        votes.slots,
        votes.experts,
        votes.expert,
        votes.left,
        votes.right,
        votes.n_left * factor,
        votes.n_right * factor,
        votes.n_ties * factor,
        sided=votes.sided,
    )


def _row_factors(votes: Comparisons, weights: dict[str, float]) -> Floats:
    import numpy as np

    unknown = [expert for expert in weights if expert not in votes.experts]
    if unknown or votes.expert is None:
        known = listing(votes.experts.tolist(), 20) if len(votes.experts) else "none, the comparisons name no experts"
        raise DataError(f"no expert {unknown[0]!r} to weigh. Experts: {known}.")
    wrong = [expert for expert, weight in weights.items() if not 0 <= weight < np.inf]
    if wrong:
        raise DataError(f"a weight must be a finite number >= 0. Got {weights[wrong[0]]:g} for {wrong[0]!r}.")
    by_expert = np.array([weights.get(expert, 1.0) for expert in votes.experts])
    out: Floats = by_expert[votes.expert]
    return out


def table_type(path: str) -> str:
    """Return how a plain table is written to a file of this name, or raise when the ending does not tell."""
    from concordant.io._tables import file_type

    kind = file_type(path)
    if kind not in ("csv", "tsv", "jsonl", "parquet"):
        raise FormatError(f"{path}: the ending does not say how to write a table. Use .csv, .tsv, .jsonl or .parquet.")
    return kind


def write_table(columns: dict[str, list[Any]], path: str) -> None:
    """Write a plain table, whole or not at all; the ending says how (.csv, .tsv, .jsonl, .parquet)."""
    import polars as pl

    from concordant.io._files import atomic_write

    frame = pl.DataFrame(columns)
    kind = table_type(path)
    writers: dict[str, Callable[[BinaryIO], None]] = {
        "csv": frame.write_csv,
        "tsv": lambda handle: frame.write_csv(handle, separator="\t"),
        "jsonl": frame.write_ndjson,
        "parquet": frame.write_parquet,
    }
    with atomic_write(path) as handle:
        writers[kind](handle)

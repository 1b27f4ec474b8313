"""What the user names becomes containers, parameters and weights; a slip in an option is a usage error (exit 2)."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import typer

from concordant.errors import DataError, FormatError, KindError, ParameterError, listing

if TYPE_CHECKING:
    from concordant.arrays import Floats, Ints
    from concordant.base.contract import Aggregator
    from concordant.cli._output import Session
    from concordant.data.comparisons import Comparisons
    from concordant.data.dataset import Dataset
    from concordant.data.features import Features
    from concordant.data.labels import Labels
    from concordant.data.preferences import Preferences
    from concordant.execution.blocks import Blocks
    from concordant.io._files import PathLike

__all__ = [
    "Source",
    "all_given",
    "as_learned",
    "beside",
    "check_features",
    "check_quoting",
    "check_share",
    "data_of",
    "declaring",
    "engine",
    "given",
    "is_letor",
    "make_method",
    "matched",
    "no_experts",
    "note_missing",
    "one_of",
    "own_labels",
    "parse_columns",
    "parse_params",
    "parse_size",
    "parse_value",
    "parse_weights",
    "read_beside",
    "read_input",
    "read_truth",
    "scan_input",
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


def make_method(name: str, params: Mapping[str, Any]) -> Aggregator:
    """Return a method with parameters as they were written; "none" is the word where a parameter knows that word.

    >>> make_method("bradley-terry", {"ties": None}).ties, make_method("crf", {"n_samples": None}).n_samples
    ('none', None)
    """
    from concordant.base.registry import METHODS, create

    allowed = METHODS[name].constraints if name in METHODS else {}
    meant = {
        key: "none" if value is None and key in allowed and allowed[key].test("none") else value
        for key, value in params.items()
    }
    return create(name, **meant)


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
    return {role: int(c) if c.isdecimal() and len(c) < 10 else c for role, c in columns.items()} or None


def one_of(value: str | None, allowed: Sequence[str], option: str) -> str | None:
    """Return the value when it is one of a few words, else raise a usage error."""
    if value is not None and value not in allowed:
        raise typer.BadParameter(f"must be one of {', '.join(allowed)}. Got {value!r} instead.", param_hint=option)
    return value


def given(session: Session, name: PathLike) -> PathLike:
    """Return the file that a name means: - is standard input, and what comes through a pipe is read here, once."""
    try:
        status = os.fstat(sys.stdin.fileno()) if name == "-" else os.stat(os.path.expanduser(name))
        key: Any = status.st_dev, status.st_ino
    except (OSError, ValueError, AttributeError):
        if name != "-":
            return name
        # Something else stands in for standard input, or nothing.
        key = name
    else:
        if name != "-" and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return name
    if key not in session.held:
        from concordant.io._files import expand, standard_input

        _let_interrupt()
        session.held[key] = standard_input() if name == "-" else expand(name)[0]
    return cast("PathLike", session.held[key])


def all_given(session: Session, inputs: Sequence[PathLike]) -> PathLike | list[PathLike]:
    """Return the files that some names mean, one of them as itself."""
    files = [given(session, name) for name in inputs]
    return files[0] if len(files) == 1 else files


def _let_interrupt() -> None:
    """Have Ctrl-C end a read that waits for a pipe or a slow disk; Polars' handler lets it go on."""
    import polars as pl  # noqa: F401 - so that its handler is there to be mended

    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)


@dataclass(frozen=True)
class Source:
    """What was read, and where it came from."""

    paths: PathLike | list[PathLike]
    dataset: Dataset
    given_format: str | None = None

    @cached_property
    def format(self) -> str:
        """The name of the input's format; looked for only where it matters."""
        from concordant.io._tables import FILE_TYPES
        from concordant.io.read import sniff

        # A file type says how a table is written, and not what it holds.
        return sniff(self.paths) if self.given_format in (None, *FILE_TYPES) else self.given_format

    @property
    def is_runs(self) -> bool:
        """Whether the input was TREC runs, so that a fused run is one too."""
        return self.format == "trec"

    @property
    def is_features(self) -> bool:
        """Whether the input is features of items, and nothing that experts said."""
        held = self.dataset
        return held.features is not None and held.preferences is None and held.comparisons is None

    @property
    def name(self) -> str:
        """What the input is called in messages."""
        if not isinstance(self.paths, list):
            return str(self.paths)
        return ", ".join(map(str, self.paths[:2])) + ", ..." * (len(self.paths) > 2)

    @cached_property
    def leaves_out_zeros(self) -> bool:
        """Whether a feature that is nowhere in the input is 0, as in SVMlight text, or absent, as in a table."""
        from concordant.io._files import expand, read_head

        return self.format == "letor" and all(read_head(file, 6) != b"\x93NUMPY" for file in expand(self.paths))

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
    from concordant.io.read import read

    _let_interrupt()
    with (
        session.progress(f"reading {inputs[0]}" + (f" and {len(inputs) - 1} more" if len(inputs) > 1 else ""), 1),
        session.reading(),
    ):
        paths = all_given(session, inputs)
        dataset = read(paths, input_format, columns=named, **options)
    return Source(paths, dataset, input_format)


def declaring(read_options: list[str] | None, missing: str | None) -> list[str] | None:
    """Return the options of the reader with what --missing declares."""
    if one_of(missing, ("unknown", "below"), "--missing") is None:
        return read_options
    return [*(read_options or ()), f"missing={missing}"]


def note_missing(session: Session, asked: Iterable[tuple[str, Aggregator]], votes: Any) -> dict[str, str]:
    """Say in one line as what items count that lists leave out, and return it by the name of the method.

    Nothing is said where no list leaves any out, or where a method has no choice.
    """
    able = {name: method for name, method in asked if "missing" in method.param_names()}
    told = {name: said for name, method in able.items() if (said := method.missing_as(votes)) is not None}
    words = {said: [name for name in told if told[name] == said] for said in told.values()}
    free = any(able[name].get_params()["missing"] == "auto" for name in told)
    if len(words) > 1:
        each = "; ".join(f"{said}: {', '.join(names)}" for said, names in words.items())
        session.note(f"items that a list leaves out count as {each}.")
    for said in words if len(words) == 1 else ():
        if said == "unknown":
            hint = "; --missing below if they are cut off" if free else ""
            session.note(f"lists say nothing about items they leave out{hint}.")
        else:
            hint = "; --missing unknown if it says nothing about them" if free else ""
            session.note(f"items that a list leaves out count as below all it holds{said.removeprefix('below')}{hint}.")
    return told


@contextmanager
def engine(name: str, scheduler: str | None, timeout: float | None = None) -> Iterator[bool]:
    """Have the work inside the block done where the options say, and tell whether that is a cluster."""
    one_of(name, ("local", "dask"), "--engine")
    if (name == "dask") != (scheduler is not None):
        raise typer.BadParameter(
            "--engine dask and --scheduler ADDRESS go together.", param_hint="--engine" if scheduler else "--scheduler"
        )
    if timeout is not None and scheduler is None:
        raise typer.BadParameter("goes with --scheduler ADDRESS.", param_hint="--scheduler-timeout")
    if timeout is not None and not 0 < timeout < float("inf"):
        raise typer.BadParameter(
            f"must be a number of seconds > 0. Got {timeout:g} instead.", param_hint="--scheduler-timeout"
        )
    if scheduler is None:
        yield False
        return
    from concordant.execution import connected

    with connected(scheduler) if timeout is None else connected(scheduler, timeout=timeout):
        yield True


def scan_input(
    session: Session,
    inputs: list[str],
    input_format: str | None,
    columns: Iterable[str] | None,
    expert_from: str | None,
    read_options: Iterable[str] | None,
    memory: str | None,
    checkpoint: str | None = None,
    *,
    always: bool = False,
) -> Blocks | None:
    """Return what the named files hold in blocks of instances where all of it would take too much memory, else None.

    Too much is more than `memory` says, such as "4GB", or more than half of what is free; with a checkpoint or `always`
    anything.
    """
    from concordant.execution import free_memory
    from concordant.io.read import block_format, memory_needed, scan

    paths = all_given(session, inputs)
    limit = parse_size(memory, "--memory") if memory is not None else None
    needed = memory_needed(paths)
    always = always or checkpoint is not None
    if not always and needed <= (free_memory() // 2 if limit is None else limit):
        return None
    named = parse_columns(columns)
    if not always and block_format(paths, input_format, named) is None:
        return None
    options = parse_params(read_options, "--read")
    if expert_from is not None:
        options["expert_from"] = one_of(expert_from, ("tag", "file"), "--expert-from")
    if not always:
        session.note(
            f"all of the input would take about {needed / 1e9:,.1f} GB of memory; it is read in blocks of instances, "
            "kept on disk meanwhile."
        )
    what = f"reading {inputs[0]}" + (f" and {len(inputs) - 1} more" if len(inputs) > 1 else "")
    with session.progress(what, 1), session.reading():
        return scan(paths, input_format, columns=named, checkpoint=checkpoint, memory=limit, **options)


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_size(text: str, option: str) -> int:
    """Return how many bytes a text such as "4GB" or "500M" says.

    >>> parse_size("4GB", "--memory"), parse_size("0", "--memory"), parse_size("1.5 m", "--memory")
    (4000000000, 0, 1500000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise typer.BadParameter(f"must be a size such as 4GB or 500M. Got {text!r} instead.", param_hint=option)
    return int(float(found[1]) * _UNITS[found[2]])


def read_truth(session: Session, source: Source, labels: str | None) -> Labels:
    """Return the labels named, or those the input brings."""
    if labels is None:
        if source.dataset.labels is None:
            raise DataError("the input brings no labels. Name them: --labels QRELS.")
        return source.dataset.labels
    return own_labels(session, labels)


def own_labels(session: Session, labels: str) -> Labels:
    """Return the labels in a file."""
    from concordant.io.read import read
    from concordant.io.tabular import read_labels

    with session.progress(f"reading {labels}"):
        file = given(session, labels)
        # The labels of a LETOR or SVMlight file stand before its features or ranks.
        own = read(file).labels if is_letor(file) else None
        return read_labels(file) if own is None else own


def is_letor(path: PathLike) -> bool:
    """Return whether there are LETOR or SVMlight files at a path."""
    from concordant.io.read import sniff

    try:
        return sniff(path).startswith("letor")
    except FormatError:
        return False


def matched(labels: Labels, votes: Preferences | Comparisons | Features) -> Labels:
    """Return the labels to learn from.

    Files are matched by id and never by position, so that it is no slip where both hold equally many instances but not
    quite the same ones; the library would suspect two sequences split by one index.
    """
    from concordant.selection.folds import labels_of

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


def data_of(source: Source, method: Aggregator) -> Preferences | Comparisons | Features:
    """Return what a method learns from or works on: what experts said, or features of items."""
    features = source.dataset.features
    if not source.is_features or features is None:
        return votes_of(source)
    if not method.takes_features:
        raise KindError(f"{method.name} works on what experts said. {no_experts(source)}")
    return features


def no_experts(source: Source) -> str:
    """Return what can be done with features of items, in words."""
    from concordant.base.registry import METHODS

    able = ", ".join(name for name in METHODS if METHODS[name].takes_features)
    ranks = (
        " If its numbers are ranks that experts give, say so: --format letor-agg." if source.format == "letor" else ""
    )
    return (
        f"{source.name} holds features of items, from which these methods learn what they are worth: {able}. Fit one: "
        "concordant fit TRAIN --method pmop -o MODEL; then: concordant aggregate INPUT... --model MODEL."
        f"{ranks}"
    )


def as_learned(session: Session, source: Source, names: list[str]) -> Features:
    """Return the features of the input in the columns of the part that was learned from.

    What SVMlight text leaves out is 0, also where no line holds a feature; a table must have all of them.
    """
    import numpy as np

    from concordant.data.features import Features
    from concordant.data.index import Texts

    features = cast(Features, source.dataset.features)
    have = features.names.codes
    if features.names.tolist() == names:
        return features
    absent = [name for name in names if name not in have]
    known = set(names)
    # The columns between those that lines hold are there as well, all of them 0.
    new = [name for name, j in have.items() if name not in known and features.X[:, j].any()]
    if absent and not source.leaves_out_zeros:
        raise DataError(
            f"{source.name} has no {_called(absent)}, which the model has learned from. It has "
            f"{listing(features.names.tolist(), 5)}."
        )
    if absent:
        session.note(f"{source.name}: no line holds {_called(absent)}; what is left out is 0.")
    if new:
        session.warn(
            f"{source.name}: {_called(new)} {'was' if len(new) == 1 else 'were'} not there to be learned from, and "
            "nothing is made of it."
        )
    X = np.zeros((features.n_slots, len(names)))
    there = [j for j, name in enumerate(names) if name in have]
    X[:, there] = features.X[:, [have[names[j]] for j in there]]
    return Features.from_codes(features.slots, X, Texts(names))


def _called(names: list[str]) -> str:
    return f"feature {names[0]!r}" if len(names) == 1 else f"{len(names):,} features such as {listing(names[:3])}"


def check_features(source: Source, given: list[str] | None, method: Aggregator | None = None) -> None:
    """Raise where features cannot stand beside the input."""
    if given is None:
        return
    if source.is_features:
        raise ParameterError("--features stands beside what experts said; the input holds features already.")
    if method is not None and not method.uses_features:
        raise ParameterError(f"{method.name} does not use features; leave --features out. {using_features()}")


def using_features() -> str:
    """Return which methods use features beside what experts said, in words."""
    from concordant.base.registry import METHODS

    return f"Methods that do: {', '.join(name for name in METHODS if METHODS[name].uses_features)}."


def read_beside(session: Session, paths: list[str]) -> list[Source]:
    """Return the files of features that stand beside preferences."""
    out = []
    for path in paths:
        source = read_input(session, [path], None, None, None)
        if source.dataset.features is None:
            held = [name for name, part in source.dataset._asdict().items() if part is not None]
            raise DataError(f"--features {path}: there are no features, but {' and '.join(held)}.")
        out.append(source)
    return out


def beside(
    session: Session, sources: list[Source], votes: Preferences | Comparisons, names: list[str] | None = None
) -> Features:
    """Return the features of every item that experts speak of, from whichever file holds it.

    Items are matched by id. A file that names no items (a .npy table, lines without a docid) is matched by the order of
    its rows within each instance, where both hold equally many.

    Parameters
    ----------
    session : Session
        Where notes go.
    sources : list of Source
        The files.
    votes : Preferences or Comparisons
        Whose items are looked for.
    names : list of str, optional
        The features that were learned from; without it those of the widest file.
    """
    import numpy as np

    from concordant.data.features import Features
    from concordant.data.index import Texts

    if names is None:
        widest = max(sources, key=lambda s: cast(Features, s.dataset.features).n_features)
        names = cast(Features, widest.dataset.features).names.tolist()
    X = np.zeros((votes.n_slots, len(names)))
    missing = np.ones(votes.n_slots, dtype=np.bool_)
    for source in sources:
        features = as_learned(session, source, names)
        at = votes.slots.locate(features.slots)
        if (at < 0).all() and _numbered(features):
            at = _in_order(source, features, votes)
            if (at >= 0).any():
                session.warn(
                    f"{source.name} names no items: its rows are taken for the items of each instance in their order."
                )
        found = missing & (at >= 0)
        X[found] = features.X[at[found]]
        missing &= ~found
    if missing.any():
        absent = np.flatnonzero(missing)
        some = [f"{item!r} of {instance!r}" for instance, item in map(votes.slots.where, absent[:3].tolist())]
        raise DataError(
            f"--features has none for {len(absent):,} of {votes.n_slots:,} items, such as {', '.join(some)}. Items are "
            "matched by the ids of instance and item."
        )
    return Features.from_codes(votes.slots, X, Texts(names))


def _numbered(features: Features) -> bool:
    """Return whether items have no names of their own: "1", "2", ... within each instance."""
    import numpy as np

    offsets = features.slots.offsets
    place = np.arange(1, features.n_slots + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    return features.items.tolist() == [str(p) for p in place.tolist()]


def _in_order(source: Source, features: Features, votes: Preferences | Comparisons) -> Ints:
    """Return the row of every slot of the votes, -1 where there is no such instance."""
    import numpy as np

    at = np.full(votes.n_slots, -1, dtype=np.int64)
    codes = features.instances.codes
    for n, instance in enumerate(votes.instances):
        if instance not in codes:
            continue
        a, b = (int(v) for v in votes.slots.offsets[n : n + 2])
        first, last = (int(v) for v in features.slots.offsets[codes[instance] : codes[instance] + 2])
        if b - a != last - first:
            raise DataError(
                f"{source.name} names no items, and its rows cannot be told apart by their order: instance "
                f"{instance!r} has {b - a} items and {last - first} rows of features."
            )
        at[a:b] = np.arange(first, last)
    return at


def weigh(votes: Preferences | Comparisons, weights: dict[str, float]) -> Preferences | Comparisons:
    """Return the votes with the user's trust in experts, on top of weights that came with the input."""
    if not weights:
        return votes
    from concordant.data.comparisons import Comparisons
    from concordant.data.preferences import Preferences

    if isinstance(votes, Preferences):
        return votes.with_list_weights(votes.with_weights(weights).weights * votes.weights)
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
    """Return how a plain table is written to a file of this name, or raise when the ending does not tell.

    Standard output and pipes have no ending and get CSV.
    """
    from concordant.io._files import is_stream
    from concordant.io._tables import file_type

    kind = file_type(path) or ("csv" if is_stream(path) else None)
    if kind not in ("csv", "tsv", "jsonl", "parquet"):
        raise FormatError(f"{path}: the ending does not say how to write a table. Use .csv, .tsv, .jsonl or .parquet.")
    return kind


def check_quoting(quote_formulas: bool, *outputs: str | None) -> None:
    """Raise a usage error where --quote-formulas is given and none of the outputs, files or formats, is CSV or TSV."""
    if not quote_formulas:
        return
    from concordant.io._tables import file_type
    from concordant.io.table_writers import SPREADSHEETS

    if not any(out in SPREADSHEETS or file_type(out) in SPREADSHEETS for out in outputs if out is not None):
        raise typer.BadParameter("is for CSV and TSV files, and none is written.", param_hint="--quote-formulas")


def write_table(columns: dict[str, list[Any]], path: str, quote_formulas: bool = False) -> None:
    """Write a plain table, whole or not at all; the ending says how (.csv, .tsv, .jsonl, .parquet)."""
    import polars as pl

    from concordant.io._files import atomic_write
    from concordant.io.table_writers import write_separated

    frame = pl.DataFrame(columns)
    kind = table_type(path)
    with atomic_write(path) as handle:
        if kind == "jsonl":
            frame.write_ndjson(handle)
        elif kind == "parquet":
            frame.write_parquet(handle)
        else:
            write_separated(frame, handle, kind, quote_formulas=quote_formulas)

"""Input named on the command line becomes containers: reading options, files, labels, features."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from concordant.cli._options import (
    Columns,
    Distinct,
    EqualWeight,
    ExpertFrom,
    Format,
    MaxPerExpert,
    Memory,
    Missing,
    ReadOptions,
    Where,
)
from concordant.cli._parsing import check_choice, parse_cap, parse_columns, parse_params, parse_size, split_names
from concordant.errors import ConcordantError, DataError, FormatError, KindError, ParameterError, first_of, listing

if TYPE_CHECKING:
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
    "Reading",
    "Source",
    "all_given",
    "check_features",
    "data_of",
    "features_of_model",
    "given",
    "is_letor",
    "no_experts",
    "note_missing",
    "read_features_beside",
    "read_label_file",
    "read_labels_of",
    "using_features",
    "votes_of",
]


# The format of more files than this is that of the first.
_FEW_FILES = 20


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


@dataclass(frozen=True)
class Reading:
    """Options that say how input is read."""

    input_format: Format = None
    columns: Columns = None
    expert_from: ExpertFrom = None
    missing: Missing = None
    read_options: ReadOptions = None
    where: Where = None
    distinct: Distinct = None
    max_per_expert: MaxPerExpert = None
    equal_weight: EqualWeight = None
    memory: Memory = None

    def __post_init__(self) -> None:
        check_choice(self.missing, ("unknown", "below"), "--missing")
        check_choice(self.equal_weight, ("experts", "pairs"), "--equal-weight")
        if self.max_per_expert is not None:
            parse_cap(self.max_per_expert)

    def columns_by_role(self) -> dict[str, str | int] | None:
        """Return which column of a table is what, None without --columns."""
        return parse_columns(self.columns)

    def reader_options(self) -> dict[str, Any]:
        """Return the options of the reader: those of --read, and --missing and --expert-from."""
        declared = [] if self.missing is None else [f"missing={self.missing}"]
        options = parse_params([*(self.read_options or ()), *declared], "--read")
        if self.expert_from is not None:
            options["expert_from"] = check_choice(self.expert_from, ("tag", "file"), "--expert-from")
        options |= {name: value for name, value in self._row_options().items() if value is not None}
        return options

    def _row_options(self) -> dict[str, Any]:
        return {"where": self.where or None, "distinct": self.distinct}

    def keeps_rows_apart(self) -> bool:
        """Return whether an option of votes needs each vote, so that they cannot be added up while they are read."""
        asked = {"time", "category", "covariates", "distinct", "both_bad", "collapse"}
        own = bool(asked & set(self.reader_options())) or bool({"time", "category"} & set(self.columns_by_role() or ()))
        return own or self.max_per_expert is not None or self.equal_weight is not None

    def format_of(self, session: Session, inputs: list[str]) -> str | None:
        """Return the format of the input, by the options or the beginning of its files; None if they do not tell."""
        from concordant.io._files import expand
        from concordant.io._tables import FILE_TYPES
        from concordant.io.read import sniff
        from concordant.io.table_formats import format_of_columns

        columns = self.columns_by_role()
        known = self.input_format if self.input_format not in (None, *FILE_TYPES) else None
        known = known or (format_of_columns(columns) if columns else None)
        if known is not None:
            return known
        try:
            paths = all_given(session, inputs)
            files = expand(paths)
            # The first of many files tells.
            return sniff(paths if len(files) <= _FEW_FILES else files[0])
        except (ConcordantError, OSError):
            # Reading says what is wrong.
            return None

    def needed_by(self, methods: Iterable[Aggregator]) -> dict[str, Any]:
        """Return options of the reader for the columns of votes that the settings of some methods need."""
        given, columns = self.reader_options(), self.columns_by_role() or {}
        needed: dict[str, Any] = {}
        for method in methods:
            settings = method.get_params()
            if settings.get("half_life") is not None and "time" not in given and "time" not in columns:
                needed["time"] = True
            names = settings.get("covariates")
            if isinstance(names, str) and names != "all":
                names = split_names(names)
            if (
                isinstance(names, (list, tuple))
                and all(isinstance(n, str) for n in names)
                and "covariates" not in given
            ):
                needed["covariates"] = [*needed.get("covariates", ()), *names]
        if "covariates" in needed:
            needed["covariates"] = list(dict.fromkeys(needed["covariates"]))
        return needed

    def read(self, session: Session, inputs: list[str], **options: Any) -> Source:
        """Return what the named files hold, in memory."""
        from concordant.io.read import read

        named, options = self.columns_by_role(), self.reader_options() | options
        _let_interrupt()
        with _reading(session, inputs):
            paths = all_given(session, inputs)
            found = Source(paths, read(paths, self.input_format, columns=named, **options), self.input_format)
        return self._weighed(session, found)

    def _weighed(self, session: Session, source: Source) -> Source:
        """Return the input with votes of experts capped and weights made equal, as the options say."""
        asked = {"--max-per-expert": self.max_per_expert, "--equal-weight": self.equal_weight}
        named = [option for option, value in asked.items() if value is not None]
        votes = source.dataset.comparisons
        if not named:
            return source
        if votes is None:
            raise ParameterError(f"{named[0]} is about votes of pairs, and {source.name} holds none.")
        if self.max_per_expert is not None:
            most, which = parse_cap(self.max_per_expert)
            before = votes.n_rows
            votes = votes.cap_experts(most, keep=cast("Any", which))
            by_time = "by time" if votes.time is not None else "in the order of the rows"
            how = "drawn with seed 0" if which == "random" else f"the {which} {by_time}"
            session.told(f"--max-per-expert: left out {before - votes.n_rows:,} of {before:,} votes; kept are {how}.")
        if self.equal_weight is not None:
            votes = votes.equal_weights(cast("Any", self.equal_weight))
        return replace(source, dataset=source.dataset._replace(comparisons=votes))

    def read_or_scan(
        self, session: Session, inputs: list[str], *, checkpoint: str | None = None, always_scan: bool = False
    ) -> Source | Blocks:
        """Return what the named files hold: in memory, or in blocks of instances where that would take too much."""
        from concordant.execution.blocks import Blocks
        from concordant.io.read_or_scan import read_or_scan

        limit = parse_size(self.memory, "--memory") if self.memory is not None else None
        named, options = self.columns_by_role(), self.reader_options()
        _let_interrupt()
        with _reading(session, inputs):
            paths = all_given(session, inputs)
            found = read_or_scan(
                paths,
                self.input_format,
                columns=named,
                memory=limit,
                checkpoint=checkpoint,
                always_scan=always_scan,
                say=session.note,
                **options,
            )
        return found if isinstance(found, Blocks) else self._weighed(session, Source(paths, found, self.input_format))


@contextmanager
def _reading(session: Session, inputs: list[str]) -> Iterator[None]:
    """Show progress, and word advice about parameters as options of the reader."""
    from concordant.execution import telling

    with session.progress(f"reading {first_of(inputs)}", 1), session.reading(), telling(session.told):
        yield


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


def read_labels_of(session: Session, source: Source, labels: str | None) -> Labels:
    """Return the labels named, or those the input brings."""
    if labels is None:
        if source.dataset.labels is None:
            raise DataError("the input brings no labels. Name them: --labels QRELS.")
        return source.dataset.labels
    return read_label_file(session, labels)


def read_label_file(session: Session, labels: str) -> Labels:
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


def votes_of(source: Source) -> Preferences | Comparisons:
    """Return the preferences or comparisons of the input."""
    dataset = source.dataset
    votes = dataset.preferences if dataset.preferences is not None else dataset.comparisons
    if votes is None:
        held = [name for name, part in dataset._asdict().items() if part is not None]
        raise DataError(f"the input holds {' and '.join(held)}, neither preferences nor comparisons of experts.")
    return votes


def data_of(source: Source, method: Aggregator) -> Preferences | Comparisons | Features:
    """Return the input of a method: preferences or comparisons, or features of items."""
    features = source.dataset.features
    if not source.is_features or features is None:
        return votes_of(source)
    if not method.takes_features:
        raise KindError(f"{method.name} takes preferences or comparisons, not features. {no_experts(source)}")
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


def features_of_model(session: Session, source: Source, names: list[str]) -> Features:
    """Return the features of the input with these names: those that a model was fitted on.

    SVMlight text leaves out zeros, so that a feature which no line holds is 0; a table must have all of them.
    """
    features = cast("Features", source.dataset.features)
    have, known = features.names.codes, set(names)
    absent = [name for name in names if name not in have]
    # A column between those that lines hold is there as well, and is 0 throughout.
    new = [name for name, j in have.items() if name not in known and features.X[:, j].any()]
    if absent and not source.leaves_out_zeros:
        raise DataError(
            f"{source.name} has no {_called(absent)}, which the model was fitted on. It has "
            f"{listing(features.names.tolist(), 5)}."
        )
    if absent:
        session.note(f"{source.name}: no line holds {_called(absent)}; what is left out is 0.")
    if new:
        session.warn(f"{source.name}: the model was fitted without {_called(new)}, and does not use it.")
    return features.select(names, fill=0.0 if source.leaves_out_zeros else None)


def _called(names: list[str]) -> str:
    return f"feature {names[0]!r}" if len(names) == 1 else f"{len(names):,} features such as {listing(names[:3])}"


def check_features(source: Source, given: list[str] | None, method: Aggregator | None = None) -> None:
    """Raise where features cannot stand beside the input."""
    if given is None:
        return
    if source.is_features:
        raise ParameterError("--features adds to preferences or comparisons; the input holds features already.")
    if method is not None and not method.uses_features:
        raise ParameterError(f"{method.name} does not use features; leave --features out. {using_features()}")


def using_features() -> str:
    """Return which methods use features beside preferences or comparisons, in words."""
    from concordant.base.registry import METHODS

    return f"Methods that do: {', '.join(name for name in METHODS if METHODS[name].uses_features)}."


def read_features_beside(
    session: Session,
    paths: list[str],
    votes: Sequence[Preferences | Comparisons],
    names: list[str] | None = None,
) -> list[Features]:
    """Return the features of every item of the votes, from the files of --features.

    Parameters
    ----------
    session : Session
        Where notes go.
    paths : list of str
        The files.
    votes : sequence of Preferences or Comparisons
        Whose items are looked for, such as a training and a validation part.
    names : list of str, optional
        The features that a model was fitted on; without it those of the widest file.
    """
    from concordant.features.item_features import item_features

    sources = []
    for path in paths:
        source = Reading().read(session, [path])
        if source.dataset.features is None:
            held = [name for name, part in source.dataset._asdict().items() if part is not None]
            raise DataError(f"--features {path}: there are no features, but {' and '.join(held)}.")
        sources.append(source)
    if names is None:
        widest = max(sources, key=lambda s: cast("Features", s.dataset.features).n_features)
        names = cast("Features", widest.dataset.features).names.tolist()
    parts = {source.name: features_of_model(session, source, names) for source in sources}
    return [item_features(each, parts, names) for each in votes]

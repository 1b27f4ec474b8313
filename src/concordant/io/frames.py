"""Converts dataframes (Polars, pandas, PyArrow, ...) to containers.

narwhals gives access to any dataframe; the few columns needed become Polars columns, which are encoded without a
Python object per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, overload

import polars as pl

from concordant.data.comparisons import Comparisons
from concordant.data.consensus import OPTIONAL_COLUMNS, TEXT_COLUMNS, Consensus
from concordant.data.container import Container
from concordant.data.features import Features
from concordant.data.index import check_text
from concordant.data.labels import Labels
from concordant.data.preferences import KINDS, Kind, Missing, Preferences, is_below
from concordant.errors import ColumnError, DataError, KindError, ParameterError, listing, shorten
from concordant.io._builders import (
    ONE_EXPERT,
    ONE_INSTANCE,
    build_comparisons,
    build_consensus,
    build_features,
    build_labels,
    build_preferences,
    column_texts,
    parse_numbers,
)
from concordant.io._column_names import ALIASES, from_frame_call, normalise_name
from concordant.io._column_roles import BOTH_BAD, COUNTS
from concordant.io._row_sources import RowSource
from concordant.io._vote_columns import (
    BothBad,
    Covariates,
    VoteFilter,
    VoteQuantities,
    filtered,
    raw_roles,
    typed_vote_columns,
)
from concordant.io.outcomes import OutcomeColumn, OutcomeReader, OutcomeWords

__all__ = ["from_frame"]

Duplicates = Literal["error", "best", "first"]
_INTERVALS = ("rank", *OPTIONAL_COLUMNS, *TEXT_COLUMNS)
# What libraries raise that cannot make a column of Polars.
_NO_COLUMNS = (
    ImportError,
    NotImplementedError,
    OverflowError,
    TypeError,
    ValueError,
    pl.exceptions.PanicException,
    pl.exceptions.PolarsError,
)


class _DefaultName(str):
    """A default column name, which the dataframe need not have."""

    __slots__ = ()


_INSTANCE, _EXPERT, _ITEM, _RANK, _WEIGHT = map(_DefaultName, ("instance", "expert", "item", "rank", "weight"))


@overload
def from_frame(
    df: Any,
    *,
    instance: str | None = ...,
    expert: str | None = ...,
    item: str = ...,
    value: str = ...,
    kind: Kind = ...,
    weight: str | None = ...,
    duplicates: Duplicates = ...,
    missing: Missing | None = ...,
) -> Preferences: ...
@overload
def from_frame(
    df: Any,
    *,
    left: str,
    right: str,
    winner: str | None = ...,
    n_left: str | None = ...,
    n_right: str | None = ...,
    n_ties: str | None = ...,
    instance: str | None = ...,
    expert: str | None = ...,
    weight: str | None = ...,
    time: str | None = ...,
    category: str | None = ...,
    covariates: Covariates | None = ...,
    where: str | Sequence[str] | None = ...,
    distinct: str | Sequence[str] | None = ...,
    outcomes: OutcomeWords | None = ...,
    both_bad: BothBad | None = ...,
    sided: bool | None = ...,
    self_pairs: str = ...,
) -> Comparisons: ...
@overload
def from_frame(
    df: Any,
    *,
    winner: str,
    loser: str,
    instance: str | None = ...,
    expert: str | None = ...,
    weight: str | None = ...,
    time: str | None = ...,
    category: str | None = ...,
    covariates: Covariates | None = ...,
    where: str | Sequence[str] | None = ...,
    distinct: str | Sequence[str] | None = ...,
    sided: bool | None = ...,
    self_pairs: str = ...,
) -> Comparisons: ...
@overload
def from_frame(
    df: Any, *, label: str, instance: str | None = ..., item: str = ..., duplicates: Duplicates = ...
) -> Labels: ...
@overload
def from_frame(
    df: Any, *, features: Sequence[str] | Literal[True], instance: str | None = ..., item: str = ...
) -> Features: ...
@overload
def from_frame(df: Any, *, kind: Literal["consensus"], instance: str | None = ..., item: str = ...) -> Consensus: ...


def from_frame(
    df: Any,
    *,
    instance: str | None = _INSTANCE,
    expert: str | None = _EXPERT,
    item: str = _ITEM,
    value: str = _RANK,
    kind: str = _RANK,
    left: str | None = None,
    right: str | None = None,
    winner: str | None = None,
    loser: str | None = None,
    n_left: str | None = None,
    n_right: str | None = None,
    n_ties: str | None = None,
    n_both_bad: str | None = None,
    time: str | None = None,
    category: str | None = None,
    covariates: Covariates | None = None,
    where: str | Sequence[str] | None = None,
    distinct: str | Sequence[str] | None = None,
    label: str | None = None,
    features: Sequence[str] | bool | None = None,
    weight: str | None = _WEIGHT,
    duplicates: str = "error",
    missing: Missing | None = None,
    outcomes: OutcomeWords | None = None,
    both_bad: BothBad | None = None,
    sided: bool | None = None,
    self_pairs: str = "error",
) -> Container:
    """Return the preferences in a dataframe; with the columns named, its comparisons, labels or features.

    Parameters
    ----------
    df : dataframe
        Polars, pandas, PyArrow, or any other that narwhals knows, eager or lazy.
    instance, expert, item : str or None
        The columns of ids: text or whole numbers. A frame without a column "instance" is one instance, "all", unless
        the name was given; ``instance=None`` and ``expert=None`` say that all rows belong to one.
    value, kind : str
        The column of values, and what they are: "rank" (1 = best), "score" or "rating" (larger is better). When neither
        is given, a column called rank, score or rating is used, with its name as the kind. ``kind="consensus"`` returns
        a Consensus from the column score and those of ranks and intervals that are there.
    left, right, winner : str
        Comparisons: the two items and who won, in the words of `read_comparisons`.
    winner, loser : str
        Comparisons: who won and who lost.
    left, right, n_left, n_right, n_ties, n_both_bad : str
        Comparisons as counts.
    time, category : str
        Comparisons: the columns that say when a vote was given (dates, datetimes, ISO 8601 text, or Unix times; kept in
        seconds since 1970) and what it was about. Of a frame with counts, as `to_frame` gives it, columns called time
        and category are kept unless they are named otherwise.
    covariates : str, sequence or mapping
        Comparisons: what differs between the sides, left minus right, as for `read_comparisons`: the names of columns,
        or formulas such as ``"length = length_a - length_b"``.
    where, distinct : str or sequence of str
        Comparisons: conditions on columns of the frame, such as ``"language=English"``, and columns in which rows must
        differ, such as ``"judge,question_id"``; both as for `read_comparisons`.
    label : str
        Labels.
    features : list of str, or True
        Features: these columns, or all but the ids.
    weight : str or None
        The weight of a list (equal in all rows of an instance and expert), or of a comparison. A column "weight" is
        used when there is one; None ignores it.
    duplicates : {"error", "best", "first"}
        What to do when an expert ranks an item twice in an instance, or an item has two labels.
    missing : {"unknown", "below"}, optional
        Whether items that a list leaves out are unknown to it or below the items it holds; some methods use this. By
        default a column "missing", as `to_frame` writes it, says so for each instance; without one, "unknown".
    outcomes : {"sides", "items"} or mapping, optional
        Whether `winner` holds words for sides or names of items; recognised by default. A mapping gives further words.
    both_bad : {"tie", "apart"}, optional
        Whether votes that both sides were bad are ties (the default), or are kept apart as `n_both_bad`.
    sided : bool, optional
        Whether left and right are the order shown; by default they are, but winner and loser are not.
    self_pairs : {"error", "drop"}
        What to do with an item compared with itself.

    Returns
    -------
    Preferences, Comparisons, Labels, Features or Consensus
        Without any of `left`, `winner`, `label`, `features` and `kind`, a frame with Concordant's own columns (as
        `to_frame` gives them) returns what those say.

    Notes
    -----
    A null value means: the item is known, and this expert did not rank it; the expert may be null as well. A null label
    likewise; in comparisons a row with a left item alone makes it known. Any other null id is an error naming the row
    (counted from 0). ``from_frame(p.to_frame())`` equals ``p`` up to experts who rank nothing, and up to the order of
    items and experts where the rows of ``p`` do not show it. Cost O(R log b) for R rows (b a constant), in native code.

    Raises
    ------
    ColumnError
        When a column is not there; the message lists those that are.

    Examples
    --------
    >>> import polars as pl
    >>> df = pl.DataFrame({"query": ["q", "q"], "system": ["x", "x"], "doc": ["a", "b"], "score": [0.3, 0.9]})
    >>> from_frame(df, instance="query", expert="system", item="doc", value="score", kind="score")
    Preferences: 1 instance, 1 expert, 2 items, 2 scores in 1 list
    >>> votes = pl.DataFrame({"model_a": ["m1", "m2"], "model_b": ["m2", "m3"], "winner": ["model_a", "tie"]})
    >>> from_frame(votes, left="model_a", right="model_b", winner="winner")
    Comparisons: 1 instance, 3 items, 2 rows with 2 outcomes (1 ties)
    """
    frame = _Frame(df)
    source = RowSource()
    there = set(frame.names)
    asked_pairs = any(n is not None for n in (left, right, winner, loser, n_left, n_right, n_ties, n_both_bad))
    asked_values = any(not isinstance(n, _DefaultName) for n in (expert, item, value, kind))
    roles: dict[str, str | None] = {"instance": instance}
    if features is not None and features is not False:
        chosen = [n for n in frame.names if n not in (instance, item)] if features is True else features
        if not isinstance(chosen, Sequence) or isinstance(chosen, str) or not all(isinstance(n, str) for n in chosen):
            raise ParameterError.invalid("features", "from_frame", "names of columns, or True", features)
        feature_roles = {f"feature {n}": n for n in chosen}
        return build_features(frame.columns({**roles, "item": item, **feature_roles}), feature_roles, source)
    if kind == "consensus":
        roles |= {"item": item, "score": "score" if isinstance(value, _DefaultName) else value}
        return build_consensus(frame.columns(roles | {n: n for n in _INTERVALS if n in there}), source)
    if label is not None or (
        not asked_pairs and not asked_values and {"item", "label"} <= there and not there & {"expert", *KINDS}
    ):
        return build_labels(
            frame.columns({**roles, "item": item, "label": label or "label"}), source, duplicates=duplicates
        )
    own_pairs = (
        not asked_values and "item" not in there and ({"left", "right"} <= there or {"winner", "loser"} <= there)
    )
    if asked_pairs or own_pairs:
        if loser is None and left is None and right is None and {"winner", "loser"} <= there and winner is None:
            winner, loser = "winner", "loser"
        roles |= {"expert": expert, "weight": weight}
        names = {"left": left, "right": right, "winner": winner, "loser": loser}
        counts = dict(zip((*COUNTS, BOTH_BAD), (n_left, n_right, n_ties, n_both_bad), strict=True))
        quantities = VoteQuantities("from_frame", covariates)
        rows = VoteFilter("from_frame", where, distinct)
        more = {"time": time, "category": category}
        return _comparisons(frame, roles, names, counts, more, quantities, rows, outcomes, both_bad, sided, self_pairs)
    votes_only = {"time": time, "category": category, "covariates": covariates, "where": where, "distinct": distinct}
    given = [word for word, value in votes_only.items() if value is not None]
    if given:
        raise ParameterError(f"{given[0]}= is about comparisons. Name their columns: left=, right= and winner=.")
    chosen_value, chosen_kind = _value_and_kind(value, kind, there)
    roles |= {"expert": expert, "item": item, "value": chosen_value, "weight": weight}
    roles |= {"missing": "missing"} if missing is None and "missing" in there else {}
    below = missing is not None and is_below(missing, "from_frame")
    return build_preferences(frame.columns(roles), chosen_kind, source, duplicates=duplicates, below=below)


def _value_and_kind(value: str, kind: str, there: set[str]) -> tuple[str, Kind]:
    if isinstance(value, _DefaultName) and isinstance(kind, _DefaultName):
        found: str = next((k for k in KINDS if k in there), "rank")
        return found, cast(Kind, found)
    if isinstance(kind, _DefaultName):
        kind = value if value in KINDS else "rank"
    if kind not in KINDS:
        allowed = ", ".join(map(repr, (*KINDS, "consensus")))
        raise ParameterError.invalid("kind", "from_frame", f"one of {allowed}", kind)
    return (kind if isinstance(value, _DefaultName) else value), cast(Kind, kind)


def _comparisons(
    frame: _Frame,
    roles: Mapping[str, str | None],
    names: dict[str, str | None],
    counts: dict[str, str | None],
    more: Mapping[str, str | None],
    quantities: VoteQuantities,
    rows: VoteFilter,
    outcomes: OutcomeWords | None,
    both_bad: BothBad | None,
    sided: bool | None,
    self_pairs: str,
) -> Comparisons:
    if both_bad not in (None, "tie", "apart"):
        raise ParameterError.invalid("both_bad", "from_frame", "'tie', 'apart' or None", both_bad)
    if sided not in (None, True, False):
        raise ParameterError.invalid("sided", "from_frame", "True, False or None", sided)
    winners = names["loser"] is not None
    # Comparisons need no experts, so the default column may be absent.
    if isinstance(roles["expert"], _DefaultName) and "expert" not in frame.names:
        roles = {k: v for k, v in roles.items() if k != "expert"}
    roles = {k: v for k, v in roles.items() if not (k == "expert" and v is None)}
    resolved = quantities.resolve(frame.names, "", winners=winners)
    roles = roles | {k: v for k, v in more.items() if v is not None}
    conditions, keys = rows.conditions(frame.names, ""), rows.keys(frame.names, "")
    roles |= {role: frame.names[column] for role, column in raw_roles(resolved, conditions, keys).items()}

    def chosen(columns: Mapping[str, str | None]) -> tuple[pl.DataFrame, RowSource]:
        table, source = frame.columns({**roles, **columns}), RowSource()
        table, source = filtered(table, source, rows.kept(table, conditions, source))
        return filtered(table, source, rows.first_of_each(table, keys))

    known: dict[str, Any] = {"covariates": [q.name for q in resolved], "self_pairs": self_pairs}
    if winners:
        table, source = chosen({"left": names["winner"] or "winner", "right": names["loser"]})
        table = table.with_columns(n_left=pl.when(pl.col("right").is_not_null()).then(1.0))
        table = table.with_columns(n_right=pl.col("n_left") * 0, n_ties=pl.col("n_left") * 0)
        table = typed_vote_columns(table, quantities, resolved, source)
        rows.tell()
        return build_comparisons(table, source, sided=bool(sided), **known)
    pair = {"left": names["left"] or "left", "right": names["right"] or "right"}
    given = {k: v for k, v in counts.items() if v is not None}
    if names["winner"] is None and not given:
        given = {k: k for k in (*COUNTS, BOTH_BAD) if k in frame.names}
        # These are the columns of `to_frame`.
        roles |= {k: k for k in ("time", "category") if given and more[k] is None and k in frame.names}
    if given:
        table, source = chosen({**pair, **given})
        if both_bad == "tie" and BOTH_BAD in given:
            bad = parse_numbers(table[BOTH_BAD], BOTH_BAD, source).fill_null(0.0)
            ties = parse_numbers(table["n_ties"], "n_ties", source) if "n_ties" in given else 0.0 * bad
            table = table.drop(BOTH_BAD).with_columns((ties + bad).alias("n_ties"))
    else:
        table, source = chosen({**pair, "winner": names["winner"] or "winner"})
        left, right, winner = (column_texts(table[c]) for c in ("left", "right", "winner"))
        found = OutcomeReader((pair["left"], pair["right"]), outcomes).count(OutcomeColumn(winner, left, right), source)
        if both_bad != "apart":
            found = found._replace(n_ties=found.n_ties + found.n_both_bad)
        columns = dict(zip((*COUNTS, BOTH_BAD), found, strict=True))
        if both_bad != "apart":
            del columns[BOTH_BAD]
        table = table.with_columns(pl.Series(k, c) for k, c in columns.items())
    table = typed_vote_columns(table, quantities, resolved, source)
    rows.tell()
    return build_comparisons(table, source, sided=sided is None or sided, **known)


class _Frame:
    """A dataframe of any library; only the requested columns become Polars columns."""

    def __init__(self, df: Any) -> None:
        import narwhals as nw

        try:
            self._frame = nw.from_native(df)
            found = self._frame.collect_schema().names()
            self.names = [str(n) for n in found]
            self._no_texts = {str(n) for n in found if not isinstance(n, str)}
        except TypeError:
            if isinstance(df, Container):
                found = type(df).__name__
                raise KindError(
                    f"from_frame turns a dataframe into a container. Got {found}: use it as it is."
                ) from None
            more = (
                "a mapping of columns goes into a dataframe first"
                if isinstance(df, Mapping)
                else "from_lists takes lists"
            )
            raise ParameterError.invalid(
                "df", "from_frame", f"a dataframe (Polars, pandas, PyArrow, ...); {more}", type(df).__name__
            ) from None
        except nw.exceptions.NarwhalsError as error:
            raise DataError(f"the dataframe cannot be read: {shorten(str(error))}") from None

    def columns(self, roles: Mapping[str, str | None]) -> pl.DataFrame:
        """Return the columns under the names of their roles; a role without a column gets one id for all rows."""
        wanted: dict[str, str] = {}
        shared: dict[str, str] = {}
        for role, name in roles.items():
            if name is not None and not isinstance(name, str):
                raise ParameterError.invalid(role, "from_frame", "the name of a column", name)
            if name is None or (
                isinstance(name, _DefaultName) and name not in self.names and role in ("instance", "weight")
            ):
                if role != "weight":
                    shared[role] = ONE_INSTANCE if role == "instance" else ONE_EXPERT
            else:
                wanted[role] = name
        missing = [name for name in wanted.values() if name not in self.names]
        if missing:
            raise ColumnError.missing(list(map(str, missing)), self.names, self._hint(wanted))
        if odd := self._no_texts.intersection(wanted.values()):
            raise ColumnError(f"names of columns must be text, unlike {listing(sorted(odd))}. Rename these columns.")
        out = self._polars(list(dict.fromkeys(wanted.values())))
        out = out.select(pl.col(name).alias(role) for role, name in wanted.items())
        return out.with_columns(pl.lit(v).alias(k) for k, v in shared.items())

    def _polars(self, names: list[str]) -> pl.DataFrame:
        import narwhals as nw

        frame = self._frame.select(*names)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        try:
            return cast(pl.DataFrame, frame.to_polars())
        except (*_NO_COLUMNS, nw.exceptions.NarwhalsError):
            # pandas without PyArrow, a column of mixed Python objects, or a type that Polars does not know.
            columns = {name: frame[name].to_list() for name in names}
        for name, values in columns.items():
            check_text([value for value in values if isinstance(value, str)], shorten(name))
        return pl.DataFrame([_series(name, values) for name, values in columns.items()])

    def _hint(self, wanted: Mapping[str, str]) -> str:
        """Return the call that names the columns which look like those missing."""
        other = from_frame_call(self.names)
        absent = {role: name for role, name in wanted.items() if name not in self.names}
        if other and all(isinstance(n, _DefaultName) or (role == "value" and n in KINDS) for role, n in absent.items()):
            return f"{other}."
        found: list[str] = []
        for role, name in wanted.items():
            if name in self.names:
                if name != role and not (role == "value" and name in KINDS):
                    found.append(f'{role}="{shorten(name)}"')
                continue
            known = ALIASES.get(role, ()) if role != "value" else (*ALIASES["rank"], *ALIASES["rating"])
            like = next((n for n in self.names if normalise_name(n) in known and n not in wanted.values()), None)
            found.append(f'{role}="{shorten(like)}"' if like is not None else f"{role}=...")
        if not {"instance", "left", "winner"} & set(wanted):
            like = next((n for n in self.names if normalise_name(n) in ALIASES["instance"]), None)
            found[:0] = [] if like is None else [f'instance="{shorten(like)}"']
        return f"from_frame(df, {', '.join(found)})."


def _series(name: str, values: list[Any]) -> pl.Series:
    """Return Python values as a column: of numbers if all are numbers, else of text; missing values are null."""
    # NaN, and NA and NaT of pandas, whose comparisons do not return a bool.
    values = [
        None if (isinstance(v, float) and v != v) or type(v).__name__ in ("NAType", "NaTType") else v for v in values
    ]
    kinds = {type(v) for v in values if v is not None}
    # Numbers that are longer than those of a column stay text.
    if kinds <= {int, float, bool} and all(abs(v) < 2**64 for v in values if type(v) is int):
        return pl.Series(name, values, strict=False)
    return pl.Series(name, [v if v is None or isinstance(v, str) else str(v) for v in values], dtype=pl.String)

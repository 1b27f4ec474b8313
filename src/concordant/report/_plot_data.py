"""Data of the plots as plain arrays: read from methods, tables, containers and evaluations, and checked.

Nothing is drawn here, so that the data of a plot can be tested without Matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Codes, Floats, Ints
from concordant.data.consensus import Consensus
from concordant.data.container import Container
from concordant.data.labels import Labels
from concordant.errors import ColumnError, DataError, KindError, NotFittedError, ParameterError, listing, shorten
from concordant.metrics.evaluation import Evaluation, fold_means
from concordant.metrics.ranking import InterpolatedPrecision, parse_metric
from concordant.metrics.significance import bootstrap_interval
from concordant.report._instances import values_by_item

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "CalibrationBars",
    "Curve",
    "calibration_bars",
    "expert_order",
    "finite_numbers",
    "values_at_items",
    "values_by_cutoff",
    "values_by_recall",
    "check_level",
    "check_limit",
    "expert_columns",
    "mean_curve",
    "expert_table",
    "expert_intervals",
    "by_name",
    "parse_points",
    "fit_trace",
    "instance_code",
]

_RESAMPLES = 2000


def check_limit(limit: Any, owner: str, name: str = "limit") -> int:
    """Return a limit as an int, or raise if it is not a whole number >= 1."""
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise ParameterError.invalid(name, f"plots.{owner}", "a whole number >= 1", limit)
    return int(limit)


def check_level(level: Any, owner: str, *, optional: bool = False) -> None:
    """Raise if the level of an interval is not between 0 and 1."""
    if optional and level is None:
        return
    if not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        allowed = "a number between 0 and 1" + (", or None" if optional else "")
        raise ParameterError.invalid("level", f"plots.{owner}", allowed, level)


def finite_numbers(values: Any, what: str, owner: str) -> Floats:
    """Return a flat array of finite numbers, or raise an error that names the first bad value."""
    try:
        out = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise DataError(f"plots.{owner}: {what} must be numbers. Got {shorten(repr(values), 60)} instead.") from None
    if not len(out):
        raise DataError(f"plots.{owner}: there are no {what} to draw.")
    if not np.isfinite(out).all():
        at = int(np.flatnonzero(~np.isfinite(out))[0])
        raise DataError(f"plots.{owner}: {what} must be finite numbers. Got {out[at]} at position {at}.")
    return out


# Experts.


def expert_columns(table: Any, owner: str) -> dict[str, list[Any]]:
    """Return the columns of a table of experts, given as a fitted method, a frame or a mapping."""
    if callable(learned := getattr(table, "learned_experts", None)):
        columns: dict[str, list[Any]] = learned()
        if not columns:
            raise NotFittedError(
                f"plots.{owner}: this {type(table).__name__} has no learned weights of experts: it is not fitted, or "
                "it does not learn any."
            )
        return columns
    if isinstance(table, Mapping):
        if all(isinstance(value, (int, float, np.number)) for value in table.values()):
            return {"expert": [str(name) for name in table], "weight": [float(value) for value in table.values()]}
        return {str(name): list(column) for name, column in table.items()}
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return {str(name): list(table[name]) for name in table.columns}
    raise KindError(
        f"plots.{owner} draws a fitted method, a table with a column 'expert', or a mapping from experts to numbers, "
        f"not {type(table).__name__}."
    )


def expert_table(given: Any, wanted: Sequence[str] | None, owner: str) -> tuple[list[str], dict[str, Floats]]:
    """Return the experts and the numeric columns to draw; missing numbers are NaN."""
    columns = expert_columns(given, owner)
    if "expert" not in columns:
        raise ColumnError.missing(["expert"], list(columns), "one column must name the experts.")
    experts = [str(name) for name in columns.pop("expert")]
    if not experts:
        raise DataError(f"plots.{owner}: there is no expert to draw.")
    if wanted is None:
        numbers = [name for name, column in columns.items() if _is_numeric(column)]
        wanted = _score_weights(given, numbers) or (["weight"] if hasattr(given, "learned_experts") else numbers)
        if not wanted:
            raise DataError(f"plots.{owner}: the table has no column of numbers, only {listing(columns)}.")
    missing = [name for name in wanted if name not in columns]
    if missing or isinstance(wanted, str) or not wanted:
        raise ColumnError.missing([wanted] if isinstance(wanted, str) else missing, list(columns))
    out = {}
    for name in wanted:
        if not _is_numeric(columns[name]):
            raise DataError(f"plots.{owner}: the column {name!r} holds no numbers.")
        out[name] = np.array([np.nan if v is None else float(v) for v in columns[name]])
        if len(out[name]) != len(experts):
            raise DataError(
                f"plots.{owner}: the column {name!r} has {len(out[name])} entries for {len(experts)} experts."
            )
    return experts, out


def _is_numeric(column: Sequence[Any]) -> bool:
    return all(v is None or (isinstance(v, (int, float, np.number)) and not isinstance(v, bool)) for v in column)


def _score_weights(given: Any, columns: Sequence[str]) -> list[str]:
    """Return the columns that are weights in the score of the method, not quantities derived from them."""
    weights = getattr(given, "weights_", None)
    if weights is None:
        return []
    learned = given.learned_experts()
    own = np.atleast_2d(np.asarray(weights, dtype=np.float64))

    def enters(column: Sequence[Any]) -> bool:
        values = np.asarray(column, dtype=np.float64)
        return len(values) == len(own) and bool((own == values[:, None]).all(axis=0).any())

    return [name for name in columns if enters(learned[name])]


def expert_intervals(
    columns: Mapping[str, list[Any]], column: str, value: Floats, level: float
) -> tuple[Floats, Floats]:
    """Return the interval ends of a column of a table of experts, NaN where there are none."""

    def numbers(name: str) -> Floats | None:
        found = columns.get(name)
        if found is None or not _is_numeric(found) or len(found) != len(value):
            return None
        return np.array([np.nan if v is None else float(v) for v in found])

    prefix = "" if column == "weight" else f"{column}_"
    low, high, spread = (numbers(f"{prefix}{name}") for name in ("lower", "upper", "stderr"))
    if low is not None and high is not None:
        return low, high
    if spread is None:
        return np.full(len(value), np.nan), np.full(len(value), np.nan)
    reach = NormalDist().inv_cdf(0.5 + level / 2) * spread
    return value - reach, value + reach


# Instances.


def instance_code(container: Container, instance: Any, owner: str) -> int:
    """Return the code of an instance, which must have items; None stands for the only instance."""
    if not len(container):
        raise DataError(f"plots.{owner}: there is no instance to draw.")
    if instance is None:
        if len(container) != 1:
            some = listing(container.instances[:5].tolist(), 5)
            raise DataError(
                f"plots.{owner}: there are {len(container):,} instances; name the one to draw. The first are {some}."
            )
        n = 0
    else:
        n = container.instances.codes.get(str(instance), -1)
        if n < 0:
            raise DataError(f"plots.{owner}: no instance {shorten(str(instance), 60)!r}.")
    if container.slots.sizes[n] == 0:
        raise DataError(f"plots.{owner}: instance {shorten(container.instances[n], 60)!r} has no items.")
    return n


def values_at_items(
    container: Consensus | Labels, instance: str, items: Sequence[str], values: NDArray[Any], what: str
) -> Floats:
    """Return the values of some items of an instance, NaN for items that the container lacks."""
    if instance not in container.instances.codes:
        if isinstance(container, Labels):
            return np.full(len(items), np.nan)
        raise DataError(
            f"plots.rank_matrix: the consensus {shorten(what, 40)!r} has no instance {shorten(instance, 60)!r}."
        )
    known = values_by_item(container, instance, values)
    return np.array([known.get(item, np.nan) for item in items], dtype=np.float64)


# Curves.


class Curve(NamedTuple):
    """A line, and the band around it where there is one."""

    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None


def by_name(methods: Any, owner: str) -> dict[str, Any]:
    """Return name -> object to draw; a single object gets an empty name."""
    if isinstance(methods, (Evaluation, Consensus)):
        return {"": methods}
    if not isinstance(methods, Mapping):
        raise KindError(f"plots.{owner} draws a mapping from names to what to draw, not {type(methods).__name__}.")
    if not methods:
        raise DataError(f"plots.{owner}: there is nothing to draw.")
    return {str(name): one for name, one in methods.items()}


def parse_points(values: Any, owner: str, name: str) -> dict[float, Floats]:
    """Return x -> values of a mapping, sorted by x."""
    if not isinstance(values, Mapping):
        raise KindError(
            f"plots.{owner}: {shorten(name, 40)!r} must be an Evaluation, or a mapping to the values of the instances. "
            f"Got {type(values).__name__} instead."
        )
    if not values:
        raise DataError(f"plots.{owner}: {shorten(name, 40)!r} has no values.")
    points = {float(x): finite_numbers(v, "values", owner) for x, v in values.items()}
    return dict(sorted(points.items()))


def values_by_cutoff(one: Any, metric: str | None, name: str) -> tuple[dict[float, Floats], Codes | None, str]:
    """Return cutoff -> values of the instances, their folds, and the name of the metric if known."""
    if not isinstance(one, Evaluation):
        return parse_points(one, "metric_by_cutoff", name), None, "" if metric is None else str(metric)
    families: dict[str, dict[float, Floats]] = {}
    for text, values in one.values.items():
        found = parse_metric(text)
        cutoff = getattr(found, "cutoff", None)
        if cutoff is not None:
            families.setdefault(str(replace(found, cutoff=None)), {})[float(cutoff)] = values  # type: ignore[call-arg]
    wanted = None if metric is None else str(parse_metric(metric))
    if wanted is None and len(families) == 1:
        wanted = next(iter(families))
    if wanted is None or wanted not in families:
        have = f"It has {listing(families)}." if families else "It has no metric with a cutoff, such as ndcg@1-10."
        ask = "name one metric without its cutoff" if wanted is None else f"there is no {wanted} at any cutoff"
        raise DataError(f"plots.metric_by_cutoff: the evaluation {shorten(name, 40)!r}: {ask}. {have}")
    return dict(sorted(families[wanted].items())), one.folds, wanted


def values_by_recall(one: Evaluation, name: str) -> dict[float, Floats]:
    """Return recall -> values of the instances."""
    found = {text: parse_metric(text) for text in one.values}
    points = {m.recall: one.values[text] for text, m in found.items() if isinstance(m, InterpolatedPrecision)}
    if not points:
        raise DataError(
            f"plots.precision_recall: the evaluation {shorten(name, 40)!r} has no interpolated precision, only "
            f"{listing(one.metrics)}. Pass the consensus and labels, or the result of precision_at_recall."
        )
    return dict(sorted(points.items()))


def mean_curve(points: Mapping[float, Floats], folds: Codes | None, level: float | None) -> Curve:
    """Return the means over instances with bootstrap intervals; no intervals for fewer than two instances."""
    x, values = np.array(list(points)), list(points.values())
    y = np.array([fold_means(v, folds).mean() for v in values])
    if level is None or len({len(v) for v in values}) != 1 or len(values[0]) < 2:
        return Curve(x, y)
    low, high = bootstrap_interval(np.column_stack(values), level=level, folds=folds, n_resamples=_RESAMPLES)
    return Curve(x, y, low, high)


def fit_trace(fit: Any, name: str) -> tuple[Floats, int | None, bool]:
    """Return the values of the passes (one row per run), the pass that was kept, and whether they were validated."""
    info = getattr(fit, "fit_info_", fit)
    # ndarray.trace is the sum of a diagonal, not the trace of a fit.
    values = info if isinstance(info, np.ndarray) else getattr(info, "trace", info)
    who = f"{name!r}" if name else "the fit"
    try:
        table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise DataError(
            f"plots.learning_curve: {who} must be a fitted method, its fit_info_, or numbers, runs of equal length. "
            f"Got {type(fit).__name__} instead."
        ) from None
    if table.size == 0 or np.isnan(table).all():
        raise DataError(f"plots.learning_curve: {who} has no values of passes; not every method records them.")
    if table.ndim != 2:
        raise DataError(f"plots.learning_curve: {who} must be one run, or one run per row.")
    chosen = getattr(info, "chosen", {}) or {}
    return table, chosen.get("passes"), getattr(info, "validation", None) is not None


class CalibrationBars(NamedTuple):
    """Bars of a calibration curve: where they stand and their width, means, intervals, and numbers of predictions."""

    at: Floats
    width: float
    predicted: Floats
    observed: Floats
    lower: Floats
    upper: Floats
    count: Any


def calibration_bars(table: Any) -> CalibrationBars:
    """Return the bars of the table that `calibration` of a model gives."""
    wanted = ("predicted", "observed", "lower", "upper", "n")
    if not set(wanted) <= set(getattr(table, "columns", ())) or not len(table):
        raise DataError(
            "plots.calibration: pass predictions and outcomes, or the table that model.calibration(votes) returns."
        )
    predicted, *others = (np.asarray(table[name], dtype=np.float64) for name in wanted)
    return CalibrationBars(predicted, 0.02, predicted, *others)


def expert_order(experts: Sequence[str], order: Any, clusters: Callable[[], Ints]) -> Ints:
    """Return the order of the experts: clustered, as given, or as listed by the caller."""
    if isinstance(order, str):
        if order not in ("clusters", "given"):
            raise ParameterError.invalid("order", "plots.agreement", "'clusters', 'given' or a list of experts", order)
        return clusters() if order == "clusters" else np.arange(len(experts))
    codes = {name: e for e, name in enumerate(experts)}
    asked = [str(name) for name in order]
    unknown = [name for name in asked if name not in codes]
    if unknown or not asked:
        raise DataError(f"plots.agreement: no experts {listing(unknown)}. Experts: {listing(experts, 20)}.")
    return np.array([codes[name] for name in asked], dtype=np.int64)

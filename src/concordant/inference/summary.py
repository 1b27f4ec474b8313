"""Summary of a fitted likelihood model: coefficients with standard errors and tests, log-likelihood, AIC and BIC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats
from concordant.data.consensus import Consensus
from concordant.data.container import counted, html_table
from concordant.inference.uncertainty import WEAK_PRIOR

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Estimates",
    "ModelReport",
    "Summary",
    "estimate_frame",
    "feature_estimates",
    "information_criteria",
    "parameter_estimates",
    "prior_in_words",
    "score_estimates",
]

# How many rows the printed table and the view in a notebook show.
_SHOWN = 60
_HEAD = ("estimate", "std. error", "z", "p")
# Half-widths this close to the normal distribution's are the normal's: about 100 million degrees of freedom.
_NORMAL = 1e-8


class Estimates(NamedTuple):
    """Estimates of one kind, with their standard errors.

    Attributes
    ----------
    kind : str
        "item", "feature", "side", "covariate", "tie", "dispersion" or "adherence".
    terms : sequence of str
        Their names.
    estimate, stderr : float64[n]
        The estimates and their standard errors, NaN where unknown.
    instances : sequence of str, optional
        The instance of each; None for what instances share.
    half_width : float64[n], optional
        Half the width of each interval in standard errors; None for that of the normal distribution.
    """

    kind: str
    terms: Sequence[str]
    estimate: Floats
    stderr: Floats
    instances: Sequence[str] | None = None
    half_width: Floats | None = None


class ModelReport(NamedTuple):
    """What a method says of its fit for `Summary`.

    Attributes
    ----------
    estimates : list of Estimates
        The rows of the table.
    no_criteria : str
        Why there is no AIC and no BIC, "" if there is.
    unit : str
        What an observation is, in the singular.
    notes : list of str
        Sentences below the table.
    stderr : str
        How the standard errors were made, "" for those of the scores of the consensus.
    prior : str
        The prior in words, "" for the parameter as it is.
    """

    estimates: list[Estimates]
    no_criteria: str
    unit: str
    notes: list[str]
    stderr: str = ""
    prior: str = ""


class Row(NamedTuple):
    """One estimate, as in `Summary.to_frame`."""

    instance: str | None
    kind: str
    term: str
    estimate: float
    stderr: float
    z: float
    p_value: float
    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class Summary:
    """Estimates of a fitted model with standard errors and tests, and its log-likelihood.

    Attributes
    ----------
    model : str
        The method and its parameters.
    data : str
        The data, in words.
    level : float
        The level of the intervals.
    rows : tuple of Row
        The estimates: instance (None for what instances share), kind, term, estimate, stderr, z, p_value, lower, upper.
    log_likelihood : float or None
        The log-likelihood at the estimates, without constants; None where it is not known.
    log_multinomials : float or None
        What the coefficients of the counts of pairs (binomial; multinomial with ties) add to it, as in a binomial model
        with one row per pair. None where that has no meaning.
    n_parameters : int or None
        The degrees of freedom: free parameters.
    n_observations : float or None
        The number of observations.
    aic, bic : float or None
        −2 ℓ + 2 p and −2 ℓ + p log n; None where `no_criteria` says why.
    no_criteria : str
        Why there are no AIC and BIC; empty where there are.
    unit : str
        What an observation is.
    notes : tuple of str
        How standard errors were made, the prior, the reference, and what does not exist for this model.
    """

    model: str
    data: str
    level: float
    rows: tuple[Row, ...]
    log_likelihood: float | None
    log_multinomials: float | None
    n_parameters: int | None
    n_observations: float | None
    aic: float | None
    bic: float | None
    no_criteria: str
    unit: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, report: ModelReport, method: Any, instance: str | None = None) -> Summary:
        """Return the summary of a fitted method from its report; `instance` cuts the table to one instance."""
        consensus: Consensus = method.consensus_
        info, level = method.fit_info_, float(getattr(method, "level", 0.95))
        name = None if instance is None else consensus.instances[consensus._instance(instance)]
        rows = tuple(
            row
            for block in report.estimates
            for row in _rows(block, level)
            if name is None or row.instance in (None, name)
        )
        criteria: tuple[float | None, float | None] = (None, None)
        if not report.no_criteria:
            criteria = information_criteria(info.log_likelihood, info.n_parameters, info.n_observations)
        return cls(
            repr(method),
            f"{counted(len(consensus), 'instance')}, {counted(consensus.n_slots, 'item')}",
            level,
            rows,
            info.log_likelihood,
            info.log_multinomials,
            info.n_parameters,
            info.n_observations,
            *criteria,
            report.no_criteria,
            report.unit,
            (*_scope_notes(consensus, name, info.log_likelihood), *_common_notes(method, report), *report.notes),
        )

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: instance, kind, term, estimate, stderr, z, p_value, lower, upper; unknown is null."""
        return _frame(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values: the estimates row by row, and everything below the table."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {"rows": [row._asdict() for row in self.rows], "notes": list(self.notes)}

    def __repr__(self) -> str:
        head = ("", *_HEAD, f"{self.level:.0%} interval")
        shown = self.rows[:_SHOWN]
        lines = _lines(shown)
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        out = [f"{self.model}: {self.data}", "", _aligned(head, widths)]
        title = ""
        for row, line in zip(shown, lines, strict=True):
            heading = _heading(row)
            if heading != title:
                out.append(heading)
                title = heading
            out.append(_aligned(line, widths))
        if len(self.rows) > len(shown):
            out.append(f"… {len(self.rows) - len(shown):,} more rows: to_frame() has all")
        return "\n".join([*out, "", *self._footer()])

    def _repr_html_(self) -> str:
        head = ["instance", "kind", "term", *_HEAD, f"{self.level:.0%} interval"]
        shown = self.rows[:_SHOWN]
        body = [(row.instance or "", row.kind, *line) for row, line in zip(shown, _lines(shown), strict=True)]
        return html_table(head, body, len(self.rows) - len(body), f"{self.model}: {self.data}", self._footer())

    def _footer(self) -> list[str]:
        """Return the lines below the table."""
        out = []
        n = "" if self.n_observations is None else f"; {_number(self.n_observations, self.unit)}"
        if self.log_likelihood is None:
            out.append(f"Log-likelihood: not known. {self.no_criteria}".strip())
        else:
            df = "" if self.n_parameters is None else f" on {counted(self.n_parameters, 'degree')} of freedom"
            out.append(f"Log-likelihood: {self.log_likelihood:.3f}{df}{n}")
            if self.aic is not None and self.bic is not None:
                out.append(f"AIC: {self.aic:.2f}   BIC: {self.bic:.2f}")
            else:
                out.append(f"AIC and BIC: none. {self.no_criteria}")
            if self.log_multinomials is not None:
                out.append(
                    f"With the coefficients of the counts of each pair (+{self.log_multinomials:.3f}): "
                    f"{self.log_likelihood + self.log_multinomials:.3f}"
                )
        return out + list(self.notes)


def _frame(rows: Sequence[Row]) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, list[Any]] = {name: [row[n] for row in rows] for n, name in enumerate(Row._fields)}
    texts = dict.fromkeys(("instance", "kind", "term"), pl.String)
    schema = {name: texts.get(name, pl.Float64) for name in columns}
    return pl.DataFrame(columns, schema=schema).with_columns(pl.col(pl.Float64).fill_nan(None))


def estimate_frame(estimates: Sequence[Estimates], level: float) -> pl.DataFrame:
    """Return estimates as a Polars frame with the columns of `Row`; unknown is null."""
    return _frame([row for block in estimates for row in _rows(block, level)])


def _scope_notes(consensus: Consensus, instance: str | None, log_likelihood: float | None) -> list[str]:
    """Return a sentence if the table is of one instance and the log-likelihood of several."""
    if instance is None or len(consensus) == 1 or log_likelihood is None:
        return []
    return [f"The log-likelihood and its degrees of freedom are those of all {counted(len(consensus), 'instance')}"]


def _common_notes(method: Any, report: ModelReport) -> list[str]:
    """Return how standard errors were made, the clusters, the prior and the reference."""
    info, consensus = method.fit_info_, method.consensus_
    kinds = {block.kind for block in report.estimates}
    made = report.stderr or consensus.interval_method or info.uncertainty or "none"
    if made == "none" and any((block.stderr > 0).any() for block in report.estimates):
        known = getattr(method, "uncertainty", "") == "none"
        made = "none for scores" + (", observed information for the others" if known else "")
    experts = "" if info.n_experts is None else f"; {counted(info.n_experts, 'expert')}"
    experts += "" if info.n_lists is None else f", {counted(info.n_lists, 'list')}"
    experts += "" if info.list_weight is None else f" of total weight {info.list_weight:,.6g}"
    out = [f"Standard errors: {made}{experts}", *_student_note(report.estimates, float(getattr(method, "level", 0.95)))]
    if "sandwich" in made and not report.no_criteria:
        out.append(
            f"The log-likelihood, AIC and BIC take every {report.unit} as independent; the standard errors do not"
        )
    if hasattr(method, "prior"):
        # The gradient steps of the papers have no prior unless it is a number.
        gd = getattr(method, "optimizer", "") == "gd" and isinstance(method.prior, str)
        prior = report.prior or method.prior
        out.append(f"Prior: {'none' if gd else 'none (maximum likelihood)' if method.prior == 0 else prior}")
    if info.missing is not None:
        out.append(f"Items that a list leaves out: {info.missing}")
    if "item" in kinds:
        out.append(f"Reference: {consensus.gauge or 'none'}")
    elif "feature" in kinds:
        out.append("Coefficients are per unit of the feature, as given")
    return out


def _student_note(estimates: Sequence[Estimates], level: float) -> list[str]:
    """Return a sentence on the degrees of freedom of tests and intervals, if they are not the normal distribution's."""
    known = [(block.half_width, block.stderr > 0) for block in estimates if block.half_width is not None]
    found = [_freedom(half, level) for width, tested in known for half in width[tested].tolist()]
    some = [df for df in found if df is not None]
    if not some:
        return []
    least, most = f"{min(some):.3g}", f"{max(some):,.0f}" if max(some) >= 1000 else f"{max(some):.3g}"
    freedom = least if least == most else f"{least} to {most}"
    return [f"p and intervals of items: Student's t with {freedom} degrees of freedom"]


def _rows(block: Estimates, level: float) -> Iterator[Row]:
    normal = NormalDist().inv_cdf(0.5 + level / 2)
    n = len(block.terms)
    reach = np.full(n, normal) if block.half_width is None else block.half_width
    instances: Sequence[str | None] = [None] * n if block.instances is None else block.instances
    columns = (block.estimate.tolist(), block.stderr.tolist(), reach.tolist())
    for instance, term, estimate, stderr, half in zip(instances, block.terms, *columns, strict=True):
        # An anchor has no error, and so no test.
        known = stderr > 0
        z = estimate / stderr if known else math.nan
        p = _two_sided(abs(z), half, level) if known else math.nan
        ends = (estimate - half * stderr, estimate + half * stderr) if known else (math.nan, math.nan)
        yield Row(instance, block.kind, term, estimate, stderr if known else math.nan, z, p, *ends)


def _two_sided(z: float, half_width: float, level: float) -> float:
    """Return the p-value of |z| under the Student's t whose interval has this half-width, the normal if it is no wider.

    So p < 1 − level where the interval does not hold 0.

    >>> (
    ...     round(_two_sided(3.182446, 3.182446, 0.95), 6),
    ...     round(_two_sided(6.0, 3.182446, 0.95), 4),
    ... )  # 3 degrees of freedom
    (0.05, 0.0093)
    >>> round(_two_sided(1.959964, 1.959964, 0.95), 6)
    0.05
    """
    freedom = _freedom(half_width, level)
    if freedom is None:
        return math.erfc(z / math.sqrt(2.0))
    from scipy.special import stdtr

    return float(2.0 * stdtr(freedom, -z))


def _freedom(half_width: float, level: float) -> float | None:
    """Return the degrees of freedom of a half-width; None for that of the normal distribution.

    >>> round(_freedom(3.182446, 0.95), 4), _freedom(1.959964, 0.95)
    (3.0, None)
    """
    upper = 0.5 + level / 2
    if half_width <= NormalDist().inv_cdf(upper) * (1.0 + _NORMAL):
        return None
    from scipy.special import stdtridf

    return float(stdtridf(upper, half_width))


def prior_in_words(prior: Any, auto: str = "") -> str:
    """Return the prior of scores in words; `auto` is what is said of the precision that "auto" takes.

    >>> prior_in_words("auto"), prior_in_words(2), prior_in_words(("gamma", 2, 1))
    ('normal, precision 0.1 (auto)', 'normal, precision 2', 'Gamma(2, 1) on exp(score)')
    """
    if prior == "auto":
        return f"normal, precision {WEAK_PRIOR:g}{auto} (auto)"
    if isinstance(prior, str):
        return prior
    if isinstance(prior, tuple | list):
        return f"Gamma({prior[1]:g}, {prior[2]:g}) on exp(score)"
    return f"normal, precision {prior:g}"


def score_estimates(consensus: Consensus) -> Estimates:
    """Return the scores of all items with their standard errors."""
    slots, n = consensus.slots, consensus.n_slots
    stderr = np.full(n, np.nan) if consensus.stderr is None else consensus.stderr
    instances = slots.instances.take(slots.instance).tolist()
    half_width = consensus.half_widths(np.arange(n))
    return Estimates("item", slots.items.tolist(), consensus.score, stderr, instances, half_width)


def feature_estimates(coefficients: Mapping[str, float], stderr: Floats) -> Estimates:
    """Return the coefficients of features; `stderr` begins with theirs."""
    values = np.array(list(coefficients.values()))
    return Estimates("feature", list(coefficients), values, stderr[: len(values)])


def parameter_estimates(
    kinds: Sequence[str], names: Sequence[str], values: Sequence[float], stderr: Floats
) -> list[Estimates]:
    """Return parameters that instances share, a block for each kind."""
    return [
        Estimates(kind, [name], np.array([value]), np.array([error]))
        for kind, name, value, error in zip(kinds, names, values, stderr.tolist(), strict=True)
    ]


def information_criteria(
    log_likelihood: float | None, n_parameters: int | None, n_observations: float | None
) -> tuple[float | None, float | None]:
    """Return AIC and BIC, None where something is unknown.

    >>> information_criteria(-10.0, 2, 1.0)
    (24.0, 20.0)
    """
    if log_likelihood is None or n_parameters is None:
        return None, None
    bic = None if not n_observations else n_parameters * math.log(n_observations) - 2.0 * log_likelihood
    return 2.0 * n_parameters - 2.0 * log_likelihood, bic


def _heading(row: Row) -> str:
    return f"{row.kind}s of instance {row.instance!r}" if row.instance is not None else f"{row.kind}"


def _lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the terms and numbers of rows as text, each block with decimals of its own."""
    return [(row.term, *_cells(row, decimals)) for decimals, block in _blocks(rows) for row in block]


def _blocks(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    """Return the rows under one heading with their decimals: four significant digits of the least standard error."""
    for _, under in groupby(rows, _heading):
        block = list(under)
        # Estimates without an error are given a digit more.
        scale = min((row.stderr for row in block if row.stderr > 0), default=0.0)
        scale = scale or max(abs(row.estimate) for row in block) / 10
        yield max(3 - math.floor(math.log10(scale)), 0) if 0 < scale < math.inf else 4, block


def _cells(row: Row, decimals: int) -> tuple[str, ...]:
    """Return the numbers of a row as text."""
    if math.isnan(row.stderr):
        return f"{row.estimate:.{decimals}f}", "", "", "", ""
    p = "<2e-16" if row.p_value < 2e-16 else f"{row.p_value:.3g}"
    ends = max(decimals - 1, 0)
    return (
        f"{row.estimate:.{decimals}f}",
        f"{row.stderr:.{decimals}f}",
        f"{row.z:.3f}",
        p,
        f"[{row.lower:.{ends}f}, {row.upper:.{ends}f}]",
    )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    (first, width), *rest = zip(cells, widths, strict=True)
    return "  ".join(["  " + first.ljust(width), *(cell.rjust(w) for cell, w in rest)]).rstrip()


def _number(n: float, unit: str) -> str:
    return counted(int(n), unit) if float(n).is_integer() else f"{n:,.6g} {unit}s"

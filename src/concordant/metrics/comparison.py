"""Compares methods: means, differences to a baseline, paired significance tests, and tables as text, Markdown or LaTeX.

All methods are evaluated on the same instances, so every test is paired. Methods are tested against one baseline, and
p-values are corrected over the methods of each metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from concordant.arrays import Floats
from concordant.data.consensus import Consensus
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError, listing, visible
from concordant.execution.blocks import Blocks
from concordant.metrics.evaluation import Evaluation, evaluate, evaluate_experts
from concordant.metrics.ranking import MetricLike, parse_metrics
from concordant.metrics.significance import (
    adjust,
    bootstrap_interval,
    fisher_randomization,
    paired_t_test,
    wilcoxon_signed_rank,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Comparison", "compare"]

TESTS = {
    "t": "paired t-test",
    "fisher": "Fisher's randomisation test",
    "wilcoxon": "Wilcoxon's signed-rank test",
}
_CORRECTIONS = {"holm": "Holm's correction", "bonferroni": "Bonferroni's correction", "none": "no correction"}
# Means closer than this are the same number.
_SAME = 1e-12
# Start of what follows the number in a cell: its standard deviation or a mark.
_SUFFIX = re.compile(r" ±|[*†‡]")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Means of several methods, and their differences to a baseline with intervals and p-values.

    Arrays have one row per method and one column per metric. In the baseline's own row the differences are
    0 and the p-values 1.

    Parameters
    ----------
    methods, metrics : tuples of str
        The rows and columns.
    mean : float64[M, Q]
        Means over the instances, or means of fold means.
    baseline : str or None
        The method the others are tested against; None when there is only one.
    difference, lower, upper : float64[M, Q]
        Mean minus the baseline's mean, and its bootstrap interval of level 1 − alpha.
    p_values, adjusted : dicts of test name to float64[M, Q]
        Two-sided p-values of the paired tests, uncorrected and corrected over the methods of each metric.
    evaluations : dict of str to Evaluation
        The evaluation of each method.
    alpha : float
        The significance level of the marks in the tables.
    correction : str
        "holm", "bonferroni" or "none".
    notes : tuple of str
        Notes to print below the table.
    spread : float64[M, Q], optional
        Standard deviation of the means over the seeds, NaN where there is one seed.
    """

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    mean: Floats
    baseline: str | None
    difference: Floats
    lower: Floats
    upper: Floats
    p_values: Mapping[str, Floats]
    adjusted: Mapping[str, Floats]
    evaluations: Mapping[str, Evaluation]
    alpha: float
    correction: str
    notes: tuple[str, ...]
    spread: Floats | None = None

    @property
    def convention(self) -> str:
        """The convention of every number here."""
        return self.evaluations[self.methods[0]].convention

    @property
    def best(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which methods have the highest mean of each metric; several where they are equal."""
        out: np.ndarray[Any, np.dtype[np.bool_]] = self.mean >= self.mean.max(axis=0) - _SAME
        return out

    def significant(self, test: str | None = None) -> np.ndarray[Any, np.dtype[np.int8]]:
        """Return 1 where a method is significantly better than the baseline, −1 where worse, else 0.

        Parameters
        ----------
        test : {"t", "fisher", "wilcoxon"}, optional
            One of the tests of this comparison; the first by default.
        """
        if not self.adjusted:
            return np.zeros(self.mean.shape, dtype=np.int8)
        name = next(iter(self.adjusted)) if test is None else test
        if name not in self.adjusted:
            raise ParameterError.invalid("test", "significant", f"one of {', '.join(self.adjusted)}", test)
        return np.where(self.adjusted[name] < self.alpha, np.sign(self.difference), 0).astype(np.int8)

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame, one row per metric and method: mean, difference, interval, p-values.

        The baseline's differences and p-values are null.
        """
        import polars as pl

        rows = []
        for q, metric in enumerate(self.metrics):
            for m, method in enumerate(self.methods):
                row: dict[str, Any] = {"metric": metric, "method": method, "mean": float(self.mean[m, q])}
                tested = self.baseline is not None and method != self.baseline
                for name in ("difference", "lower", "upper"):
                    row[name] = float(getattr(self, name)[m, q]) if tested else None
                for test, p in self.p_values.items():
                    row[f"p_{test}"] = float(p[m, q]) if tested else None
                    row[f"p_{test}_{self.correction}"] = float(self.adjusted[test][m, q]) if tested else None
                rows.append(row)
        schema: dict[str, Any] = dict.fromkeys(rows[0], pl.Float64)
        return pl.DataFrame(rows, schema=schema | {"metric": pl.String, "method": pl.String})

    def to_text(self, *, digits: int = 4, percent: bool = False, details: bool = False) -> str:
        """Return the means as plain text, the best and the significantly different ones marked.

        Parameters
        ----------
        digits : int
            Digits after the point.
        percent : bool
            Show values times 100.
        details : bool
            Also list every difference to the baseline with its interval and p-values.
        """
        rows = [["method", *self.metrics]]
        marks = self._marks("*", "†", "‡")
        for m, method in enumerate(self.methods):
            cells = [self._cell(m, q, digits, percent, " ±") + marks[m][q] for q in range(len(self.metrics))]
            rows.append([visible(method), *cells])
        lines = _aligned(rows)
        lines += self._legend("* best", "†", "‡", percent)
        if details and self.baseline is not None:
            lines += ["", *self._details(digits, percent)]
        return "\n".join(lines)

    def to_markdown(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a Markdown table, the best in bold, the significantly different ones marked."""
        best, signs = self._shown_best(), self._marks("", "†", "‡")
        lines = [
            _markdown_row(["method", *self.metrics]),
            _markdown_row(["---", *["---:"] * len(self.metrics)]),
        ]
        for m, method in enumerate(self.methods):
            row = [visible(method)]
            for q in range(len(self.metrics)):
                cell = self._cell(m, q, digits, percent, " ± ")
                row.append((f"**{cell}**" if best[m, q] else cell) + signs[m][q])
            lines.append(_markdown_row(row))
        return "\n".join([*lines, "", *(f"{line}  " for line in self._legend("**bold** best", "†", "‡", percent))])

    def to_latex(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a LaTeX tabular (booktabs), the best in bold, the significant ones marked."""
        best, signs = self._shown_best(), self._marks("", r"$^{\dagger}$", r"$^{\ddagger}$")
        head = " & ".join(["method", *(_latex(name) for name in self.metrics)])
        lines = [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{tabular}}{{l{'r' * len(self.metrics)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
        ]
        for m, method in enumerate(self.methods):
            row = [_latex(visible(method))]
            for q in range(len(self.metrics)):
                cell = self._cell(m, q, digits, percent, r" $\pm$ ")
                row.append((rf"\textbf{{{cell}}}" if best[m, q] else cell) + signs[m][q])
            lines.append(rf"{' & '.join(row)} \\")
        legend = self._legend("bold: best", "dagger:", "double dagger:", percent)
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *(f"% {line}" for line in legend)])

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _cell(self, m: int, q: int, digits: int, percent: bool, between: str) -> str:
        """Return a mean, with its standard deviation over the seeds if known."""
        text = _number(self.mean[m, q], digits, percent)
        if self.spread is None or math.isnan(self.spread[m, q]):
            return text
        return f"{text}{between}{_number(self.spread[m, q], digits, percent)}"

    def _shown_best(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return self.best if len(self.methods) > 1 else np.zeros(self.mean.shape, dtype=np.bool_)

    def _marks(self, best: str, better: str, worse: str) -> list[list[str]]:
        """Return the marks after each mean: best of its column, then significantly different."""
        sign = {1: better, -1: worse, 0: ""}
        shown, significant = self._shown_best(), self.significant()
        return [
            [(best if shown[m, q] else "") + sign[int(significant[m, q])] for q in range(len(self.metrics))]
            for m in range(len(self.methods))
        ]

    def _legend(self, best: str, better: str, worse: str, percent: bool) -> list[str]:
        first = self.evaluations[self.methods[0]]
        lines = [f"{'percent; ' if percent else ''}{first.legend}"]
        if len(self.methods) > 1:
            lines.append(f"{best} of its column")
        if self.spread is not None and not np.isnan(self.spread).all():
            lines.append("± standard deviation over the means of the seeds")
        if self.baseline is not None and self.adjusted:
            test = next(iter(self.adjusted))
            others = len(self.methods) - 1
            lines.append(
                f"{better} significantly better, {worse} significantly worse than {visible(self.baseline)}: "
                f"{TESTS[test]}, two-sided, p < {self.alpha:g}, {_CORRECTIONS[self.correction]} over {others} "
                f"method{'s' if others != 1 else ''} per metric"
            )
        return lines + [f"note: {visible(note)}" for note in self.notes]

    def _details(self, digits: int, percent: bool) -> list[str]:
        corrected = "" if self.correction == "none" else f" after {_CORRECTIONS[self.correction]}"
        against = visible(str(self.baseline))
        title = f"difference to {against}, its {1 - self.alpha:.0%} bootstrap interval, and p-values{corrected}:"
        rows = [["method", "metric", "difference", "interval", *self.adjusted]]
        for m, method in enumerate(self.methods):
            if method == self.baseline:
                continue
            for q, metric in enumerate(self.metrics):
                low, high = (_number(v[m, q], digits, percent, sign=True) for v in (self.lower, self.upper))
                rows.append(
                    [
                        visible(method),
                        metric,
                        _number(self.difference[m, q], digits, percent, sign=True),
                        f"[{low}, {high}]",
                        *(f"{p[m, q]:.4f}" for p in self.adjusted.values()),
                    ]
                )
        return [title, *_aligned(rows)]


def compare(
    methods: Mapping[str, Consensus | Evaluation] | Preferences | Blocks,
    labels: Labels | None = None,
    metrics: MetricLike | Iterable[MetricLike] | None = None,
    *,
    baseline: str | None = None,
    convention: str = "trec",
    rel: float | None = None,
    skip_empty: bool = False,
    instances: Iterable[Any] | None = None,
    tests: Sequence[str] = ("t", "fisher", "wilcoxon"),
    correction: str = "holm",
    alpha: float = 0.05,
    n_resamples: int = 10_000,
    random_state: int | None = 0,
) -> Comparison:
    """Compare methods by their mean metrics, with paired tests of the differences to a baseline.

    Parameters
    ----------
    methods : mapping from name to Consensus or Evaluation, Preferences, or Blocks
        The methods to compare. Preferences, in memory or in blocks, compare the lists of every expert, such as the runs
        of several systems; experts without a list are left out with a warning.
    labels : Labels, optional
        The ground truth; not needed when all are evaluations.
    metrics : str, Metric, or a list of them, optional
        Needed when a consensus is to be evaluated; evaluations bring their own.
    baseline : str, optional
        The method that the others are tested against; the first by default.
    convention, rel, skip_empty, instances
        As in `evaluate`.
    tests : list of {"t", "fisher", "wilcoxon"}
        Paired two-sided tests. The first sets the marks in the tables.
    correction : {"holm", "bonferroni", "none"}
        Over the methods of each metric, test by test.
    alpha : float
        Significance level; the bootstrap intervals have level 1 − alpha.
    n_resamples : int
        Sign patterns of Fisher's test and resamples of the bootstrap.
    random_state : int or None
        Seed of both.

    Returns
    -------
    Comparison
        Prints as a table; `.to_markdown()`, `.to_latex()`, `.to_frame()`.

    Notes
    -----
    For evaluations combined from folds, the means are means of fold means. Fisher's test weights the instances
    accordingly and the bootstrap resamples within folds; the other two tests use the pooled instances. Cost: the
    evaluations, and n_resamples × instances × (methods − 1) × metrics multiplications.

    Examples
    --------
    >>> from concordant.data.consensus import Consensus
    >>> from concordant.data.labels import Labels
    >>> labels = Labels(["q1", "q2", "q3"], ["a", "a", "b"], [1, 1, 1])
    >>> queries, items = ["q1", "q1", "q2", "q2", "q3", "q3"], ["a", "b"] * 3
    >>> one = Consensus(queries, items, [1, 2, 1, 2, 2, 1])
    >>> two = Consensus(queries, items, [2, 1, 2, 1, 1, 2])
    >>> print(compare({"one": one, "two": two}, labels, "mrr,p@1", tests=["fisher"]))
    method     mrr      p@1
    one     0.5000   0.0000
    two     1.0000*  1.0000*
    3 instances; convention trec: gain label, discount 1/log2(1+i), ties by item id descending, relevant
    from label 1 * best of its column † significantly better, ‡ significantly worse than one: Fisher's
    randomisation test, two-sided, p < 0.05, Holm's correction over 1 method per metric
    """
    how: dict[str, Any] = {"convention": convention, "rel": rel, "skip_empty": skip_empty}
    how["instances"] = None if instances is None else list(instances)
    if isinstance(methods, (Preferences, Blocks)):
        if labels is None or metrics is None:
            raise ParameterError("evaluating the lists of experts needs labels and metrics: pass both.")
        measured = evaluate_experts(methods, labels, metrics, **how)
        measured.warn(len(methods.experts))
        methods = measured.found
    if not isinstance(methods, Mapping):
        raise KindError(
            "compare takes a mapping, {name: consensus}, or the preferences of several experts. "
            f"Got {type(methods).__name__} instead."
        )
    names = tuple(methods)
    if not names:
        raise ParameterError("there is no method to compare.")
    unknown = [t for t in tests if t not in TESTS]
    if unknown or isinstance(tests, str):
        raise ParameterError.invalid("tests", "compare", f"a list of {', '.join(TESTS)}", tests)
    if correction not in _CORRECTIONS:
        raise ParameterError.invalid("correction", "compare", f"one of {', '.join(_CORRECTIONS)}", correction)
    if not 0 < alpha < 1:
        raise ParameterError.invalid("alpha", "compare", "a number between 0 and 1", alpha)
    if baseline is not None and baseline not in methods:
        raise ParameterError.invalid("baseline", "compare", f"one of {', '.join(names)}", baseline)
    evaluations: dict[str, Evaluation] = {}
    for name, given in methods.items():
        if isinstance(given, Evaluation):
            evaluations[name] = given
            continue
        if labels is None or metrics is None:
            raise ParameterError(f"method {name!r} is a consensus: pass labels and metrics to evaluate it.")
        evaluations[name] = evaluate(given, labels, metrics, **how)
    spreads = [e.spread for e in evaluations.values()]
    if metrics is not None:
        evaluations = {name: _restrict(e, metrics, name) for name, e in evaluations.items()}
    evaluations = _paired(evaluations)
    first = evaluations[names[0]]
    spread = np.array([[s.get(m, math.nan) for m in first.metrics] for s in spreads]) if any(spreads) else None
    mean = np.array([[e.mean[m] for m in first.metrics] for e in evaluations.values()])
    notes = tuple(dict.fromkeys(f"{n}: {note}" for n, e in evaluations.items() for note in e.notes))
    if len(names) == 1:
        zero = np.zeros(mean.shape)
        return Comparison(
            names, first.metrics, mean, None, zero, zero, zero, {}, {}, evaluations, alpha, correction, notes, spread
        )
    base = names[0] if baseline is None else baseline
    lower, upper, p_values = _test(evaluations, base, tests, alpha, n_resamples, random_state)
    tested = np.array([name != base for name in names])
    adjusted = {}
    for test, p in p_values.items():
        adjusted[test] = np.ones(mean.shape)
        for q in range(mean.shape[1]):
            adjusted[test][tested, q] = adjust(p[tested, q], correction)
    return Comparison(
        names,
        first.metrics,
        mean,
        base,
        mean - mean[names.index(base)],
        lower,
        upper,
        p_values,
        adjusted,
        evaluations,
        alpha,
        correction,
        notes,
        spread,
    )


def _test(
    evaluations: Mapping[str, Evaluation],
    base: str,
    tests: Sequence[str],
    alpha: float,
    n_resamples: int,
    random_state: int | None,
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return the bootstrap interval and the p-values of every method and metric against the baseline."""
    against = evaluations[base]
    # Sort instances by id, so that the resamples do not depend on the order of the labels.
    ids, folds = against.instances.tolist(), against.folds
    fold_of = [0] * len(ids) if folds is None else folds.tolist()
    order = np.array(sorted(range(len(ids)), key=lambda i: (fold_of[i], ids[i])), dtype=np.int64)
    values = {name: np.column_stack([e.values[m] for m in e.metrics])[order] for name, e in evaluations.items()}
    others = [name for name in evaluations if name != base]
    # Differences within rounding error are 0, so that they do not count as a sign.
    d = np.hstack([values[name] - values[base] for name in others])
    d[np.abs(d) < _SAME] = 0.0
    weights = None
    if folds is not None:
        folds = folds[order]
        weights = 1.0 / (against.n_folds * np.bincount(folds)[folds])

    shape = (len(evaluations), len(against.metrics))
    rows = [i for i, name in enumerate(evaluations) if name != base]

    def by_method(columns: Floats, fill: float) -> Floats:
        out = np.full(shape, fill)
        out[rows] = np.asarray(columns).reshape(len(others), shape[1])
        return out

    low, high = bootstrap_interval(d, level=1 - alpha, folds=folds, n_resamples=n_resamples, random_state=random_state)
    p_values = {}
    for test in tests:
        if test == "fisher":
            p = fisher_randomization(d, weights=weights, n_resamples=n_resamples, random_state=random_state)
        else:
            function = paired_t_test if test == "t" else wilcoxon_signed_rank
            p = np.array([function(column).p_value for column in d.T])
        p_values[test] = by_method(p, 1.0)
    return by_method(low, 0.0), by_method(high, 0.0), p_values


def _restrict(evaluation: Evaluation, metrics: MetricLike | Iterable[MetricLike], method: str) -> Evaluation:
    """Return the evaluation with just these metrics, in this order."""
    names = [str(m) for m in parse_metrics(metrics)]
    missing = [n for n in names if n not in evaluation.values]
    if missing:
        raise DataError(f"the evaluation of {method!r} lacks {listing(missing)}; it has {listing(evaluation.metrics)}.")
    if names == list(evaluation.metrics):
        return evaluation
    return _with_values(evaluation, {n: evaluation.values[n] for n in names})


def _with_values(e: Evaluation, values: Mapping[str, Floats]) -> Evaluation:
    return Evaluation(values, e.instances, e.convention, e.rel, e.folds, e.notes)


def _paired(evaluations: dict[str, Evaluation]) -> dict[str, Evaluation]:
    """Return the evaluations with the instances of the first, in its order; raise when they cannot be paired."""
    (name, first), *rest = evaluations.items()
    out = {name: first}
    keys = _keys(first)
    for other, e in rest:
        for what in ("metrics", "convention", "rel"):
            if getattr(e, what) != getattr(first, what):
                raise DataError(
                    f"methods can only be compared when their {what} is the same. "
                    f"{name!r} has {getattr(first, what)}, {other!r} has {getattr(e, what)}."
                )
        theirs = _keys(e)
        if theirs != keys:
            at = {key: i for i, key in enumerate(theirs)}
            if len(theirs) != len(keys) or at.keys() != set(keys):
                raise DataError(
                    f"methods can only be compared over the same instances. {name!r} has {len(keys)}, "
                    f"{other!r} has {len(theirs)}, {len(at.keys() & set(keys))} of them in common."
                )
            index = np.array([at[key] for key in keys], dtype=np.int64)
            values = {n: v[index] for n, v in e.values.items()}
            e = Evaluation(values, first.instances, e.convention, e.rel, first.folds, e.notes)
        out[other] = e
    return out


def _keys(e: Evaluation) -> list[tuple[int, str]]:
    folds = [0] * len(e) if e.folds is None else e.folds.tolist()
    return list(zip(folds, e.instances.tolist(), strict=True))


def _number(value: float, digits: int, percent: bool, *, sign: bool = False) -> str:
    shown = float(value) * (100 if percent else 1)
    if round(shown, digits) == 0:
        shown = math.copysign(0.0, 1.0)  # never "-0.00"
    return f"{shown:{'+' if sign and shown else ''}.{digits}f}"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return rows as lines: first column left-aligned, numbers right-aligned with their suffixes in a column."""
    split = [[_SUFFIX.split(cell, maxsplit=1) for cell in row[1:]] for row in rows]
    first = max(len(row[0]) for row in rows)
    columns = range(len(rows[0]) - 1)
    width = [max(len(row[j][0]) for row in split) for j in columns]
    suffix = [max(len(rows[i][j + 1]) - len(row[j][0]) for i, row in enumerate(split)) for j in columns]
    lines = []
    for row, cells in zip(rows, split, strict=True):
        parts = [f"{row[0]:<{first}}"]
        for j, (bare, *_) in enumerate(cells):
            parts.append(f"{bare:>{width[j]}}{row[j + 1][len(bare) :]:<{suffix[j]}}")
        lines.append("  ".join(parts).rstrip())
    return lines


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {c: "\\" + c for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text)

"""Compares methods: means, differences, paired significance tests, and tables as text, Markdown or LaTeX.

All methods are evaluated on the same instances, so every test is paired. Methods are tested against one baseline or in
all pairs, and p-values are corrected over the tests of each metric.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from concordant.arrays import Floats
from concordant.data.container import html_table
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, ParameterError, listing, visible
from concordant.execution.blocks import Blocks
from concordant.metrics.evaluation import Evaluable, Evaluation, evaluate_each
from concordant.metrics.ranking import MetricLike, parse_metrics
from concordant.metrics.significance import (
    adjust,
    bootstrap_interval,
    fisher_randomization,
    paired_t_test,
    wilcoxon_signed_rank,
)
from concordant.metrics.vote_losses import VoteComparison, VoteEvaluation, compare_votes

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
_SUFFIX = re.compile(r" ±|[*†‡^]")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Means of several methods, and their differences to a baseline or to each other, with intervals and p-values.

    Arrays have one row per method and one column per metric. In the baseline's own row the differences are
    0 and the p-values 1. Where all pairs are tested, the arrays of differences and p-values are [M, M, Q]: method m
    against method n.

    Parameters
    ----------
    methods, metrics : tuples of str
        The rows and columns.
    mean : float64[M, Q]
        Means over the instances, or means of fold means.
    baseline : str or None
        The method the others are tested against; None when there is only one, and when all pairs are tested.
    difference, lower, upper : float64[M, Q] or float64[M, M, Q]
        Mean minus the baseline's or the other method's mean, and its bootstrap interval of level 1 − alpha.
    p_values, adjusted : dicts of test name to float64[M, Q] or float64[M, M, Q]
        Two-sided p-values of the paired tests, uncorrected and corrected over the methods or pairs of each metric.
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

    @property
    def all_pairs(self) -> bool:
        """Whether the methods are tested against each other instead of a baseline."""
        return self.difference.ndim == 3

    @property
    def letters(self) -> tuple[str, ...]:
        """The letter of each method in a table of all pairs: a to z, A to Z; numbers where there are more."""
        if len(self.methods) <= len(string.ascii_letters):
            return tuple(string.ascii_letters[: len(self.methods)])
        return tuple(str(n + 1) for n in range(len(self.methods)))

    def significant(self, test: str | None = None) -> np.ndarray[Any, np.dtype[np.int8]]:
        """Return 1 where a method is significantly better than the baseline, or the other method, −1 where worse.

        0 elsewhere; [M, Q], or [M, M, Q] for all pairs.

        Parameters
        ----------
        test : {"t", "fisher", "wilcoxon"}, optional
            One of the tests of this comparison; the first by default.
        """
        if not self.adjusted:
            return np.zeros(self.difference.shape, dtype=np.int8)
        name = next(iter(self.adjusted)) if test is None else test
        if name not in self.adjusted:
            raise ParameterError.invalid("test", "significant", f"one of {', '.join(self.adjusted)}", test)
        return np.where(self.adjusted[name] < self.alpha, np.sign(self.difference), 0).astype(np.int8)

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame, one row per metric and method: mean, difference, interval, p-values.

        The baseline's differences and p-values are null. For all pairs: one row per metric and pair, the method and the
        one it is tested `against`.
        """
        import polars as pl

        rows = []
        for q, metric in enumerate(self.metrics):
            for m, n in self._tested(every=True):
                row: dict[str, Any] = {"metric": metric, "method": self.methods[m]}
                if self.all_pairs:
                    row["against"] = self.methods[n]
                row["mean"] = float(self.mean[m, q])
                at = (m, n, q) if self.all_pairs else (m, q)
                tested = m != n and bool(self.adjusted)
                for name in ("difference", "lower", "upper"):
                    row[name] = float(getattr(self, name)[at]) if tested else None
                for test, p in self.p_values.items():
                    row[f"p_{test}"] = float(p[at]) if tested else None
                    row[f"p_{test}_{self.correction}"] = float(self.adjusted[test][at]) if tested else None
                rows.append(row)
        schema: dict[str, Any] = dict.fromkeys(rows[0], pl.Float64)
        return pl.DataFrame(
            rows, schema=schema | dict.fromkeys({"metric", "method", "against"} & set(schema), pl.String)
        )

    def _tested(self, *, every: bool = False) -> list[tuple[int, int]]:
        """Return each tested method and the one it is tested against; with `every` the baseline itself too."""
        n = len(self.methods)
        if self.all_pairs:
            return [(a, b) for a in range(n) for b in range(a + 1, n)]
        base = 0 if self.baseline is None else self.methods.index(self.baseline)
        return [(m, base) for m in range(n) if every or m != base]

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
        lines = _aligned([["method", *self.metrics], *self._rows(digits, percent)])
        lines += self._legend("* best", "†", "‡", percent)
        if details and self.adjusted:
            lines += ["", *self._details(digits, percent)]
        return "\n".join(lines)

    def to_markdown(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a Markdown table, the best in bold, the significantly different ones marked."""
        best, signs = self._shown_best(), self._marks("", "†", "‡", "<sup>{}</sup>")
        lines = [
            _markdown_row(["method", *self.metrics]),
            _markdown_row(["---", *["---:"] * len(self.metrics)]),
        ]
        for m in range(len(self.methods)):
            row = [self._name(m)]
            for q in range(len(self.metrics)):
                cell = self._cell(m, q, digits, percent, " ± ")
                row.append((f"**{cell}**" if best[m, q] else cell) + signs[m][q])
            lines.append(_markdown_row(row))
        return "\n".join([*lines, "", *(f"{line}  " for line in self._legend("**bold** best", "†", "‡", percent))])

    def to_latex(self, *, digits: int = 4, percent: bool = False) -> str:
        """Return the means as a LaTeX tabular (booktabs), the best in bold, the significant ones marked."""
        best, signs = self._shown_best(), self._marks("", r"$^{\dagger}$", r"$^{\ddagger}$", "$^{{{}}}$")
        head = " & ".join(["method", *(_latex(name) for name in self.metrics)])
        lines = [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{tabular}}{{l{'r' * len(self.metrics)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
        ]
        for m in range(len(self.methods)):
            row = [_latex(self._name(m))]
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

    def _repr_html_(self) -> str:
        below = self._legend("* best", "†", "‡", percent=False)
        return html_table(["method", *self.metrics], self._rows(4, percent=False), below=below)

    def _rows(self, digits: int, percent: bool) -> list[list[str]]:
        """Return the rows of a plain table: the name of each method, and its means with their marks."""
        marks = self._marks("*", "†", "‡", "^{}")
        return [
            [self._name(m), *(self._cell(m, q, digits, percent, " ±") + marks[m][q] for q in range(len(self.metrics)))]
            for m in range(len(self.methods))
        ]

    def _name(self, m: int) -> str:
        """Return what the row of a method is called: its name, after its letter where all pairs are tested."""
        name = visible(self.methods[m])
        return f"{self.letters[m]} {name}" if self.all_pairs else name

    def _cell(self, m: int, q: int, digits: int, percent: bool, between: str) -> str:
        """Return a mean, with its standard deviation over the seeds if known."""
        text = _number(self.mean[m, q], digits, percent)
        if self.spread is None or math.isnan(self.spread[m, q]):
            return text
        return f"{text}{between}{_number(self.spread[m, q], digits, percent)}"

    def _shown_best(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return self.best if len(self.methods) > 1 else np.zeros(self.mean.shape, dtype=np.bool_)

    def _marks(self, best: str, better: str, worse: str, letters: str) -> list[list[str]]:
        """Return the marks after each mean: best of its column, then significantly different."""
        shown, significant = self._shown_best(), self.significant()

        def mark(m: int, q: int) -> str:
            if not self.all_pairs:
                return {1: better, -1: worse, 0: ""}[int(significant[m, q])]
            beaten = [letter for n, letter in enumerate(self.letters) if significant[m, n, q] > 0]
            return letters.format(("," if len(self.letters[-1]) > 1 else "").join(beaten)) if beaten else ""

        return [
            [(best if shown[m, q] else "") + mark(m, q) for q in range(len(self.metrics))]
            for m in range(len(self.methods))
        ]

    def _legend(self, best: str, better: str, worse: str, percent: bool) -> list[str]:
        first = self.evaluations[self.methods[0]]
        lines = [f"{'percent; ' if percent else ''}{first.legend}"]
        if len(self.methods) > 1:
            lines.append(f"{best} of its column")
        if self.spread is not None and not np.isnan(self.spread).all():
            lines.append("± standard deviation over the means of the seeds")
        if self.adjusted:
            test, n = next(iter(self.adjusted)), len(self._tested())
            meaning = f"{better} significantly better, {worse} significantly worse than {visible(str(self.baseline))}"
            if self.all_pairs:
                what = "letters" if len(self.letters[-1]) == 1 else "numbers"
                meaning = f"raised {what}: significantly better than the methods of these {what}"
            lines.append(
                f"{meaning}: {TESTS[test]}, two-sided, p < {self.alpha:g}, {_CORRECTIONS[self.correction]} over {n} "
                f"{'pair' if self.all_pairs else 'method'}{'s' if n != 1 else ''} per metric"
            )
        return lines + [f"note: {visible(note)}" for note in self.notes]

    def _details(self, digits: int, percent: bool) -> list[str]:
        corrected = "" if self.correction == "none" else f" after {_CORRECTIONS[self.correction]}"
        against = "another method" if self.all_pairs else visible(str(self.baseline))
        title = f"difference to {against}, its {1 - self.alpha:.0%} bootstrap interval, and p-values{corrected}:"
        rows = [
            ["method", *(["against"] if self.all_pairs else []), "metric", "difference", "interval", *self.adjusted]
        ]
        for m, n in self._tested():
            for q, metric in enumerate(self.metrics):
                at = (m, n, q) if self.all_pairs else (m, q)
                low, high = (_number(v[at], digits, percent, sign=True) for v in (self.lower, self.upper))
                rows.append(
                    [
                        visible(self.methods[m]),
                        *([visible(self.methods[n])] if self.all_pairs else []),
                        metric,
                        _number(self.difference[at], digits, percent, sign=True),
                        f"[{low}, {high}]",
                        *(f"{p[at]:.4f}" for p in self.adjusted.values()),
                    ]
                )
        return [title, *_aligned(rows)]


@overload
def compare(
    methods: Mapping[str, VoteEvaluation],
    labels: Labels | None = ...,
    metrics: MetricLike | Iterable[MetricLike] | None = ...,
    *,
    baseline: str | None = ...,
    all_pairs: bool = ...,
    convention: str = ...,
    rel: float | None = ...,
    skip_empty: bool = ...,
    instances: Iterable[Any] | None = ...,
    tests: Sequence[str] = ...,
    correction: str = ...,
    alpha: float = ...,
    n_resamples: int = ...,
    random_state: int | None = ...,
) -> VoteComparison: ...
@overload
def compare(
    methods: Mapping[str, Evaluable] | Preferences | Blocks,
    labels: Labels | None = ...,
    metrics: MetricLike | Iterable[MetricLike] | None = ...,
    *,
    baseline: str | None = ...,
    all_pairs: bool = ...,
    convention: str = ...,
    rel: float | None = ...,
    skip_empty: bool = ...,
    instances: Iterable[Any] | None = ...,
    tests: Sequence[str] = ...,
    correction: str = ...,
    alpha: float = ...,
    n_resamples: int = ...,
    random_state: int | None = ...,
) -> Comparison: ...
def compare(
    methods: Mapping[str, Evaluable] | Mapping[str, VoteEvaluation] | Preferences | Blocks,
    labels: Labels | None = None,
    metrics: MetricLike | Iterable[MetricLike] | None = None,
    *,
    baseline: str | None = None,
    all_pairs: bool = False,
    convention: str = "trec",
    rel: float | None = None,
    skip_empty: bool = False,
    instances: Iterable[Any] | None = None,
    tests: Sequence[str] = ("t", "fisher", "wilcoxon"),
    correction: str = "holm",
    alpha: float = 0.05,
    n_resamples: int = 10_000,
    random_state: int | None = 0,
) -> Comparison | VoteComparison:
    """Compare methods by their mean metrics, with paired tests against a baseline or of all pairs.

    Parameters
    ----------
    methods : mapping from name to Consensus, Preferences, Blocks or Evaluation; or Preferences, or Blocks
        The methods to compare. Preferences, in memory or in blocks, compare the lists of every expert, such as the runs
        of several systems; experts without a list are left out with a warning. In a mapping, preferences of one expert
        have the name given there, those of several experts the names of the experts. Or a mapping from name to the
        `VoteEvaluation` that `cross_validate` returns for votes: models are compared by the votes they predict.
    labels : Labels, optional
        The ground truth; not needed when all are evaluations.
    metrics : str, Metric, or a list of them, optional
        Needed when a consensus is to be evaluated; evaluations bring their own.
    baseline : str, optional
        The method that the others are tested against; the first by default.
    all_pairs : bool
        Whether every method is tested against every other instead of a baseline. Tables give each method a letter, and
        list after each mean the letters of the methods that it significantly exceeds.
    convention, rel, skip_empty, instances
        As in `evaluate`.
    tests : list of {"t", "fisher", "wilcoxon"}
        Paired two-sided tests. The first sets the marks in the tables.
    correction : {"holm", "bonferroni", "none"}
        Over the methods of each metric, or over the pairs, test by test.
    alpha : float
        Significance level; the bootstrap intervals have level 1 − alpha.
    n_resamples : int
        Sign patterns of Fisher's test and resamples of the bootstrap.
    random_state : int or None
        Seed of both.

    Returns
    -------
    Comparison
        Prints as a table; `.to_markdown()`, `.to_latex()`, `.to_frame()`. Of votes a `VoteComparison`: means and
        paired differences to the baseline, with standard errors clustered by expert.

    Notes
    -----
    For evaluations combined from folds, the means are means of fold means. Fisher's test weights the instances
    accordingly and the bootstrap resamples within folds; the other two tests use the pooled instances. Cost: the
    evaluations, and n_resamples × instances × (methods − 1, or pairs) × metrics multiplications.

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
    if isinstance(methods, Mapping) and not methods:
        raise ParameterError("there is no method to compare.")
    if isinstance(methods, Mapping) and any(isinstance(one, VoteEvaluation) for one in methods.values()):
        return compare_votes(methods, baseline)
    how: dict[str, Any] = {"convention": convention, "rel": rel, "skip_empty": skip_empty, "instances": instances}
    evaluations: dict[str, Evaluation] = evaluate_each(cast("Any", methods), labels, metrics, "compare", **how)
    names = tuple(evaluations)
    unknown = [t for t in tests if t not in TESTS]
    if unknown or isinstance(tests, str):
        raise ParameterError.invalid("tests", "compare", f"a list of {', '.join(TESTS)}", tests)
    if correction not in _CORRECTIONS:
        raise ParameterError.invalid("correction", "compare", f"one of {', '.join(_CORRECTIONS)}", correction)
    if not 0 < alpha < 1:
        raise ParameterError.invalid("alpha", "compare", "a number between 0 and 1", alpha)
    if all_pairs and baseline is not None:
        raise ParameterError("compare tests all pairs or against a baseline: leave out all_pairs or baseline.")
    if baseline is not None and baseline not in names:
        raise ParameterError.invalid("baseline", "compare", f"one of {', '.join(names)}", baseline)
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
    n = len(names)
    base = 0 if baseline is None else names.index(baseline)
    pairs = (
        [(a, b) for a in range(n) for b in range(a + 1, n)] if all_pairs else [(m, base) for m in range(n) if m != base]
    )
    low, high, p_columns = _test(evaluations, pairs, tests, alpha, n_resamples, random_state)
    first_of, second_of = np.array(pairs).T

    def table(columns: Floats, fill: float, *, mirrored: Floats | None = None) -> Floats:
        """Return the results of the pairs by method, and by the method they are tested against for all pairs."""
        if not all_pairs:
            out = np.full(mean.shape, fill)
            out[first_of] = columns
            return out
        out = np.full((n, n, mean.shape[1]), fill)
        out[first_of, second_of] = columns
        out[second_of, first_of] = columns if mirrored is None else mirrored
        return out

    corrected = {t: np.column_stack([adjust(p, correction) for p in columns.T]) for t, columns in p_columns.items()}
    return Comparison(
        names,
        first.metrics,
        mean,
        None if all_pairs else names[base],
        mean[:, np.newaxis] - mean if all_pairs else mean - mean[base],
        table(low, 0.0, mirrored=-high),
        table(high, 0.0, mirrored=-low),
        {t: table(columns, 1.0) for t, columns in p_columns.items()},
        {t: table(columns, 1.0) for t, columns in corrected.items()},
        evaluations,
        alpha,
        correction,
        notes,
        spread,
    )


def _test(
    evaluations: Mapping[str, Evaluation],
    pairs: Sequence[tuple[int, int]],
    tests: Sequence[str],
    alpha: float,
    n_resamples: int,
    random_state: int | None,
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return the bootstrap interval and the p-values of every pair of methods (row) and metric (column)."""
    first = next(iter(evaluations.values()))
    # Sort instances by id, so that the resamples do not depend on the order of the labels.
    ids, folds = first.instances.tolist(), first.folds
    fold_of = [0] * len(ids) if folds is None else folds.tolist()
    order = np.array(sorted(range(len(ids)), key=lambda i: (fold_of[i], ids[i])), dtype=np.int64)
    values = [np.column_stack([e.values[m] for m in e.metrics])[order] for e in evaluations.values()]
    # Differences within rounding error are 0, so that they do not count as a sign.
    d = np.hstack([values[a] - values[b] for a, b in pairs])
    d[np.abs(d) < _SAME] = 0.0
    weights = None
    if folds is not None:
        folds = folds[order]
        weights = 1.0 / (first.n_folds * np.bincount(folds)[folds])

    def by_pair(columns: Any) -> Floats:
        return np.asarray(columns).reshape(len(pairs), len(first.metrics))

    low, high = bootstrap_interval(d, level=1 - alpha, folds=folds, n_resamples=n_resamples, random_state=random_state)
    p_values = {}
    for test in tests:
        if test == "fisher":
            p = fisher_randomization(d, weights=weights, n_resamples=n_resamples, random_state=random_state)
        else:
            function = paired_t_test if test == "t" else wilcoxon_signed_rank
            p = np.array([function(column).p_value for column in d.T])
        p_values[test] = by_pair(p)
    return by_pair(low), by_pair(high), p_values


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

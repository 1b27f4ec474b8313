"""Log loss and accuracy of predicted votes, with standard errors clustered by expert and paired comparisons.

A vote is predicted by three probabilities: left wins, tie, right wins. Log loss needs all three; given that there is no
tie, models with and without ties can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.data.comparisons import Comparisons
from concordant.data.container import html_table
from concordant.errors import DataError, KindError, ParameterError, listing

if TYPE_CHECKING:
    import polars as pl

__all__ = ["VOTE_METRICS", "VoteComparison", "VoteEvaluation", "compare_votes", "losses", "parse_vote_metrics"]

# From the metric to whether larger is better.
VOTE_METRICS = {"log-loss": False, "decided-log-loss": False, "accuracy": True}


def parse_vote_metrics(metrics: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of metrics of votes, or raise for others.

    >>> parse_vote_metrics("log-loss, accuracy")
    ('log-loss', 'accuracy')
    """
    names = metrics.split(",") if isinstance(metrics, str) else list(metrics)
    out = tuple(str(name).strip() for name in names)
    unknown = [name for name in out if name not in VOTE_METRICS]
    if unknown or not out:
        known = ", ".join(map(repr, VOTE_METRICS))
        raise ParameterError(f"no metric of votes {listing(unknown)}. Without labels the metrics are {known}.")
    return out


def losses(metric: str, law: Floats, votes: Comparisons) -> tuple[Floats, Floats]:
    """Return, for each row, the sum of a metric over its outcomes, and how many outcomes it counts.

    Parameters
    ----------
    metric : str
        "log-loss": minus the log probability of what happened. "decided-log-loss": the same of outcomes that are no
        tie, given that they are none. "accuracy": 1 where the likelier side won, ½ where both were equally likely, of
        outcomes that are no tie.
    law : float64[R, 3]
        The probabilities that left wins, that nobody wins, and that right wins.
    votes : Comparisons
        The outcomes.

    >>> votes = Comparisons("q", None, ["a", "a"], ["b", "b"], [3, 0], [1, 0], [0, 2])
    >>> law = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    >>> [(total.round(3).tolist(), n.tolist()) for total, n in (losses(m, law, votes) for m in VOTE_METRICS)]
    [([3.466, 1.386], [4.0, 2.0]), ([2.315, 0.0], [4.0, 0.0]), ([3.0, 0.0], [4.0, 0.0])]
    """
    win, tie, loss = law.T
    decided = votes.n_left + votes.n_right
    if metric == "accuracy":
        left = np.where(win == loss, 0.5, win > loss)
        return votes.n_left * left + votes.n_right * (1.0 - left), decided
    if metric == "decided-log-loss":
        win, tie, loss = win / (win + loss), np.ones(len(tie)), loss / (win + loss)
        return _minus_logs((votes.n_left, win), (votes.n_right, loss)), decided
    if (votes.n_ties[tie == 0] > 0).any():
        raise DataError(
            "there are ties, and the model gives ties no probability. Use the metric 'decided-log-loss', which leaves "
            "ties out, or a model of ties."
        )
    return _minus_logs((votes.n_left, win), (votes.n_ties, tie), (votes.n_right, loss)), votes.outcomes


def _minus_logs(*parts: tuple[Floats, Floats]) -> Floats:
    """Return −Σ n log p over pairs (n, p); nothing where n is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(n > 0, -n * np.log(p), 0.0) for n, p in parts]
    return np.asarray(np.sum(terms, axis=0), dtype=np.float64)


class _Mean(NamedTuple):
    """A mean of outcomes, its standard error clustered by expert (or row), and how many outcomes it counts."""

    value: float
    stderr: float
    n: float

    @classmethod
    def of(cls, total: Floats, n: Floats, cluster: Ints) -> _Mean:
        count = float(n.sum())
        if count == 0:
            raise DataError("no vote is left to evaluate: all of them are ties, or there are none.")
        value = float(total.sum()) / count
        informative = np.bincount(cluster, n) > 0
        gaps = np.bincount(cluster, total - value * n)[informative]
        c = len(gaps)
        stderr = float(np.sqrt(c / (c - 1) * (gaps**2).sum())) / count if c > 1 else float("nan")
        return cls(value, stderr, count)


@dataclass(frozen=True, eq=False)
class VoteEvaluation:
    """How well predicted probabilities fit votes, as means over outcomes.

    Attributes
    ----------
    votes : Comparisons
        The votes that were predicted.
    law : float64[R, 3]
        The probabilities of left winning, a tie, and right winning, for each row.
    metrics : tuple of str
        Among "log-loss", "decided-log-loss" and "accuracy".
    fold : int64[R]
        The fold that each row was held out in; −1 for rows that were not predicted.
    runs : tuple
        One `VoteRun` for each fit of a cross-validation.
    """

    votes: Comparisons
    law: Floats
    metrics: tuple[str, ...]
    fold: Ints
    runs: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        # A metric that the model does not define raises here, not where the means are printed.
        self.mean  # noqa: B018 - computed once and kept

    @cached_property
    def tested(self) -> Ints:
        """The rows that were predicted."""
        return np.flatnonzero(self.fold >= 0)

    @cached_property
    def _cluster(self) -> Ints:
        """The expert of each tested row; where nobody is named, each row is a cluster."""
        expert = self.votes.expert
        if expert is None:
            return np.arange(len(self.tested))
        return expert[self.tested].astype(np.int64)

    def _losses(self, metric: str) -> tuple[Floats, Floats]:
        return losses(metric, self.law[self.tested], self.votes.select_rows(self.tested))

    @cached_property
    def _means(self) -> dict[str, _Mean]:
        return {m: _Mean.of(*self._losses(m), self._cluster) for m in self.metrics}

    @property
    def mean(self) -> dict[str, float]:
        """Metric name -> the mean over the outcomes."""
        return {m: found.value for m, found in self._means.items()}

    @property
    def stderr(self) -> dict[str, float]:
        """Metric name -> the standard error of the mean, clustered by expert where experts are named."""
        return {m: found.stderr for m, found in self._means.items()}

    @cached_property
    def per_fold(self) -> pl.DataFrame:
        """One row for each fold: its number from 1, the outcomes tested, and the mean of each metric."""
        import polars as pl

        rows = []
        for f in np.unique(self.fold[self.tested]).tolist():
            own = replace(self, fold=np.where(self.fold == f, f, -1), runs=())
            row: dict[str, Any] = {"fold": f + 1, "votes": float(self.votes.outcomes[own.tested].sum())}
            rows.append(row | own.mean)
        return pl.DataFrame(rows)

    def __repr__(self) -> str:
        width = max(len(m) for m in self.metrics)
        lines = [f"{'metric':{width}}    mean  standard error"]
        lines += [f"{m:{width}}  {found.value:.4f}  {found.stderr:.4f}" for m, found in self._means.items()]
        return "\n".join([*lines, self._legend()])

    def _repr_html_(self) -> str:
        rows = [(m, f"{found.value:.4f}", f"{found.stderr:.4f}") for m, found in self._means.items()]
        return html_table(["metric", "mean", "standard error"], rows, below=[self._legend()])

    def _legend(self) -> str:
        n = float(self.votes.outcomes[self.tested].sum())
        by = "rows" if self.votes.expert is None else "experts"
        folds = len(np.unique(self.fold[self.tested]))
        where = f" in {folds} folds" if folds > 1 else ""
        return f"{n:,.10g} votes predicted{where}; standard errors clustered by {by}"


@dataclass(frozen=True, eq=False)
class VoteComparison:
    """Models compared by the votes that each predicted: means, and paired differences to a baseline.

    Attributes
    ----------
    evaluations : dict of str to VoteEvaluation
        The models by name.
    baseline : str
        The model that the others are compared with.
    """

    evaluations: dict[str, VoteEvaluation]
    baseline: str

    def to_frame(self) -> pl.DataFrame:
        """Return a Polars frame: one row for each model and metric.

        The columns are method, metric, mean, stderr, difference (to the baseline), difference_stderr, p_value (paired,
        clustered by expert; two-sided, by the t distribution) and better (true where the difference is in favour of the
        method).
        """
        import polars as pl
        from scipy.special import stdtr

        base = self.evaluations[self.baseline]
        rows = []
        for name, one in self.evaluations.items():
            for metric in base.metrics:
                found = one._means[metric]
                row: dict[str, Any] = {"method": name, "metric": metric, "mean": found.value, "stderr": found.stderr}
                total, n = one._losses(metric)
                gap = _Mean.of(total - base._losses(metric)[0], n, one._cluster)
                if name != self.baseline:
                    clusters = len(np.unique(one._cluster))
                    t = gap.value / gap.stderr if gap.stderr > 0 else np.nan
                    row |= {"difference": gap.value, "difference_stderr": gap.stderr}
                    row["p_value"] = float(2.0 * stdtr(max(clusters - 1, 1), -abs(t)))
                    row["better"] = bool(gap.value > 0 if VOTE_METRICS[metric] else gap.value < 0)
                rows.append(row)
        empty = dict.fromkeys(("difference", "difference_stderr", "p_value"), pl.Float64)
        schema = {"method": pl.String, "metric": pl.String, "mean": pl.Float64, "stderr": pl.Float64}
        return pl.DataFrame(rows, schema=schema | empty | {"better": pl.Boolean})

    def __repr__(self) -> str:
        frame = self.to_frame()
        width = max(len("method"), *(len(name) for name in self.evaluations))
        lines = []
        for metric in self.evaluations[self.baseline].metrics:
            lines.append(f"{'method':{width}}  {metric:>16}  difference  standard error  p")
            for row in frame.filter(frame["metric"] == metric).iter_rows(named=True):
                line = f"{row['method']:{width}}  {row['mean']:16.4f}"
                if row["difference"] is not None:
                    line += f"  {row['difference']:+10.4f}  {row['difference_stderr']:14.4f}  {row['p_value']:.3g}"
                lines.append(line)
        return "\n".join([*lines, self._legend()])

    def _repr_html_(self) -> str:
        columns = ("metric", "method", "mean", "difference", "difference_stderr", "p_value")
        shown = self.to_frame().select(columns).rows()
        order = {metric: n for n, metric in enumerate(self.evaluations[self.baseline].metrics)}
        rows = [
            (metric, method, *("" if x is None else format(x, form) for x, form in zip(numbers, _FORMS, strict=True)))
            for metric, method, *numbers in sorted(shown, key=lambda row: order[row[0]])
        ]
        head = ["metric", "method", "mean", "difference", "standard error", "p"]
        return html_table(head, rows, below=[self._legend()])

    def _legend(self) -> str:
        best = "smaller losses and larger accuracies are better"
        return f"differences to {self.baseline}, paired vote by vote; {best}"


# How a mean, a difference, its standard error and its p-value are written.
_FORMS = (".4f", "+.4f", ".4f", ".3g")


def compare_votes(evaluations: Mapping[str, Any], baseline: str | None = None) -> VoteComparison:
    """Compare models by the same held-out votes and the metrics that all have; differences are clustered by expert."""
    odd = [name for name, one in evaluations.items() if not isinstance(one, VoteEvaluation)]
    if odd:
        raise KindError(f"{listing(odd)} predicts no votes, others do. Compare what cross_validate returns for votes.")
    first, *others = evaluations.values()
    for name, one in zip(list(evaluations)[1:], others, strict=True):
        if one.votes is not first.votes and one.votes != first.votes:
            raise DataError(f"{name!r} was evaluated on other votes. Evaluate all models on the same.")
        if not np.array_equal(one.fold, first.fold):
            raise DataError(f"{name!r} was evaluated in other folds. Use the same folds, split_by and random_state.")
    shared = tuple(m for m in first.metrics if all(m in one.metrics for one in others))
    if not shared:
        raise DataError("the models were evaluated by different metrics. Evaluate all of them by the same: metrics=.")
    chosen = next(iter(evaluations)) if baseline is None else baseline
    if chosen not in evaluations:
        raise ParameterError.invalid("baseline", "compare", f"one of {', '.join(evaluations)}", baseline)
    return VoteComparison({name: replace(one, metrics=shared) for name, one in evaluations.items()}, chosen)

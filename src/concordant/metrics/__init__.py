"""Metrics of a ranking against labels, distances between rankings, and significance tests between methods.

`ranking` has the metrics, `distances` Kendall's tau and related measures, `evaluation` the function `evaluate`,
`comparison` the function `compare`, and `significance` the tests behind it.
"""

from concordant.metrics.comparison import Comparison, compare
from concordant.metrics.distances import (
    KendallCounts,
    TopKCounts,
    footrule,
    kendall_counts,
    kendall_distance,
    kendall_tau_b,
    rank_biased_overlap,
    spearman,
    top_k_counts,
    top_k_distance,
)
from concordant.metrics.evaluation import (
    Evaluation,
    Evaluations,
    combine_folds,
    evaluate,
    precision_at_recall,
    rank_labels,
)
from concordant.metrics.ranking import (
    AP,
    CONVENTIONS,
    ERR,
    MRPR,
    NDCG,
    RBP,
    RR,
    Convention,
    HitRate,
    InterpolatedPrecision,
    MeanNDCG,
    Metric,
    P,
    RankedLabels,
    Recall,
    RPrecision,
    known_metrics,
    parameter,
    parse_metric,
    parse_metrics,
    register_metric,
)
from concordant.metrics.significance import (
    PairedTest,
    adjust,
    bootstrap_interval,
    fisher_randomization,
    paired_t_test,
    wilcoxon_signed_rank,
)
from concordant.metrics.vote_losses import VoteComparison, VoteEvaluation

__all__ = [
    # metrics of a ranking
    "AP",
    "CONVENTIONS",
    "ERR",
    "MRPR",
    "NDCG",
    "P",
    "RBP",
    "RR",
    "Convention",
    "HitRate",
    "InterpolatedPrecision",
    "MeanNDCG",
    "Metric",
    "RPrecision",
    "RankedLabels",
    "Recall",
    "known_metrics",
    "parameter",
    "parse_metric",
    "parse_metrics",
    "register_metric",
    # rankings against each other
    "KendallCounts",
    "TopKCounts",
    "footrule",
    "kendall_counts",
    "kendall_distance",
    "kendall_tau_b",
    "rank_biased_overlap",
    "spearman",
    "top_k_counts",
    "top_k_distance",
    # a consensus against labels
    "Evaluation",
    "Evaluations",
    "combine_folds",
    "evaluate",
    "precision_at_recall",
    "rank_labels",
    # methods against each other
    "Comparison",
    "PairedTest",
    "adjust",
    "bootstrap_interval",
    "compare",
    "fisher_randomization",
    "paired_t_test",
    "wilcoxon_signed_rank",
    # predicted votes
    "VoteComparison",
    "VoteEvaluation",
]

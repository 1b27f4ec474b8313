"""Concordant turns the preferences of many experts into one ranking you can trust.

The public names are resolved when first used (PEP 562), so that importing the package costs nothing.
"""

from importlib import import_module as _import_module

from concordant._names import METHODS as _METHODS
from concordant._version import __version__

_WHERE = {
    "errors": ("errors",),
    "metrics": ("metrics",),
    "data.preferences": ("Preferences",),
    "data.comparisons": ("Comparisons",),
    "data.labels": ("Labels",),
    "data.features": ("Features",),
    "data.consensus": ("Consensus",),
    "data.hits": ("Hit", "Hits"),
    "data.dataset": ("Dataset", "FeatureFold", "FeaturePart", "Fold", "Part", "concat"),
    "data.synthetic": ("synthetic",),
    "io.lists": ("from_lists", "from_runs"),
    "io.frames": ("from_frame",),
    "io.formats": ("register_format",),
    "execution.blocks": ("Blocks",),
    "io.read": ("read", "scan"),
    "io.trec": ("read_runs", "write_run"),
    "io.letor": (
        "read_feature_folds",
        "read_letor",
        "read_letor_folds",
        "read_features",
        "write_letor",
        "write_letor_scores",
    ),
    "io.preflib": ("read_preflib", "write_preflib"),
    "io.tabular": ("read_ratings", "read_rankings", "read_comparisons", "read_labels"),
    "io.write": ("write",),
    "metrics.evaluation": ("Evaluation", "combine_folds", "evaluate"),
    "metrics.ranking": ("register_metric",),
    "metrics.comparison": ("Comparison", "compare"),
    "base.contract": ("Aggregator", "Tags"),
    "base.registry": ("METHODS", "aggregate", "methods", "register_method"),
    "base.fuse": ("fuse",),
    "base.checks": ("check_method",),
    "base.groups": ("GroupComparison", "compare_groups"),
    "base.model_comparison": ("ModelComparison", "compare_models"),
    "aggregators.majority_graph": (
        "condorcet_loser",
        "condorcet_winner",
        "majority_graph",
        "schwartz_set",
        "smith_set",
    ),
    "inference.experts": ("describe_experts",),
    "inference.quasi_variances": ("QuasiVariances", "quasi_variances"),
    "base.saving": ("load",),
    "aggregators.category_boards": ("CategoryBoards", "category_boards"),
    "aggregators.leaderboard": ("Leaderboard",),
    "learning.streaming": ("aggregate_blocks",),
    "learning.checkpoints": ("checkpoint",),
    "execution": ("threads",),
    "selection": (
        "Auto",
        "GridSearch",
        "RandomSearch",
        "auto",
        "cross_validate",
        "evaluate_votes",
        "nested",
        "scorer",
        "selection",
    ),
    "features.expert_features": ("expert_features",),
    "ranking.partitions": ("partitions",),
    "ranking.base": ("Ranker",),
    "report.plots": ("plots",),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}
# The class of every method is public.
_MODULE_OF |= {where.partition(":")[2]: where.partition(":")[0].partition(".")[2] for where in _METHODS.values()}
# Packages that the documentation names are there whatever was imported before. They are not in `__all__`: `import *`
# should not import them, nor hide Python's own `io`.
_PACKAGES = frozenset({"base", "cli", "data", "execution", "io", "ranking", "report"})

__all__ = ["__version__", *sorted(_MODULE_OF)]  # noqa: PLE0604 - derived from the table above


def __getattr__(name: str) -> object:
    module = name if name in _PACKAGES else _MODULE_OF.get(name)
    if module is not None:
        if name == module.rpartition(".")[2]:
            value = _import_module(f"{__name__}.{module}")
            value = getattr(value, name, value)
        else:
            value = getattr(_import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

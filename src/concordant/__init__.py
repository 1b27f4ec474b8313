"""Concordant turns the preferences of many experts into one ranking you can trust.

The public names are resolved when first used (PEP 562), so that importing the package costs nothing.
"""

from importlib import import_module as _import_module

from concordant._version import __version__

_WHERE = {
    "errors": ("errors",),
    "metrics": ("metrics",),
    "data.preferences": ("Preferences",),
    "data.comparisons": ("Comparisons",),
    "data.labels": ("Labels",),
    "data.features": ("Features",),
    "data.consensus": ("Consensus",),
    "data.dataset": ("Dataset", "FeatureFold", "FeaturePart", "Fold", "Part", "concat"),
    "data.synthetic": ("synthetic",),
    "io.lists": ("from_lists",),
    "io.frames": ("from_frame",),
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
    "metrics.comparison": ("Comparison", "compare"),
    "base.contract": ("Aggregator", "Tags"),
    "base.registry": ("METHODS", "aggregate", "methods", "register"),
    "base.checks": ("check_method",),
    "base.experts": ("describe_experts",),
    "base.saving": ("load",),
    "base.streaming": ("aggregate_blocks",),
    "base.checkpoints": ("checkpoint",),
    "execution": ("threads",),
    "selection": ("GridSearch", "RandomSearch", "cross_validate", "nested", "scorer", "selection"),
    "methods.positional": ("Borda", "MeanRank", "MedianRank"),
    "methods.fusion": (
        "RRF",
        "ISR",
        "LogISR",
        "CombSUM",
        "CombMIN",
        "CombMAX",
        "CombMED",
        "CombANZ",
        "CombMNZ",
        "CombMNZRank",
        "WeightedSum",
    ),
    "methods.majority": ("Condorcet", "Copeland", "Kemeny"),
    "methods.markov": ("MarkovChain",),
    "methods.robust": ("RobustRank",),
    "methods.bradley_terry": ("BradleyTerry",),
    "methods.plackett_luce": ("PlackettLuce",),
    "methods.mpm": ("MPM",),
    "methods.mallows": ("ExtendedMallows", "Mallows"),
    "methods.ulara": ("ULARA",),
    "methods.svp": ("SVP",),
    "methods.cps": ("CPS",),
    "methods.svd_rank": ("SVDRank",),
    "methods.crf": ("CRF",),
    "methods.listwise": ("ListwiseLinear",),
    "ranking.expert_features": ("expert_features",),
    "ranking.partitions": ("partitions",),
    "ranking.pmop": ("PMOP",),
    "ranking.ranker": ("Ranker",),
    "ranking.rankers": ("LambdaRank", "ListMLE", "PairTies", "RankNet", "RankRegress", "RankSVM"),
    "report.plots": ("plots",),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}
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

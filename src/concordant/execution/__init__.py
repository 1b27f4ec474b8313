"""Parallel execution: maps over independent instances, in threads (the default) or on a Dask cluster.

Kernels release the interpreter lock. Results do not depend on the number of threads or on the machine that computes an
instance.
"""

from concordant.execution._dask import connected, dask
from concordant.execution.local import (
    RowRate,
    cores,
    force_threads,
    free_memory,
    map_instances,
    n_threads,
    prefetch,
    report_note,
    report_progress,
    report_status,
    run_parallel,
    telling,
    threads,
    watch,
    without_progress,
)
from concordant.execution.shards import Cluster, InMemory, OnCluster, OnDemand, Shards, cluster

__all__ = [
    "Cluster",
    "InMemory",
    "OnCluster",
    "RowRate",
    "Shards",
    "OnDemand",
    "prefetch",
    "cluster",
    "connected",
    "cores",
    "dask",
    "force_threads",
    "free_memory",
    "map_instances",
    "n_threads",
    "report_note",
    "report_status",
    "telling",
    "report_progress",
    "run_parallel",
    "threads",
    "without_progress",
    "watch",
]

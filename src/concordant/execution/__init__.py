"""Where work runs. Instances are independent, so work is a map over instances; threads are the default.

Kernels release the interpreter lock; the answer never depends on how many threads there are, nor on which machine an
instance is worked on.
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
    report_progress,
    report_status,
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
    "report_status",
    "report_progress",
    "threads",
    "without_progress",
    "watch",
]

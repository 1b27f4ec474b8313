"""Where work runs. Instances are independent, so work is a map over instances; threads are the default.

Kernels release the interpreter lock; the answer never depends on how many threads there are, nor on which machine an
instance is worked on.
"""

from concordant.execution._dask import connected, dask
from concordant.execution.local import (
    Pace,
    ahead,
    cores,
    force_threads,
    free_memory,
    map_instances,
    n_threads,
    note,
    report,
    threads,
    unwatched,
    watch,
)
from concordant.execution.pieces import Cluster, Held, OnCluster, Pieces, Read, cluster

__all__ = [
    "Cluster",
    "Held",
    "OnCluster",
    "Pace",
    "Pieces",
    "Read",
    "ahead",
    "cluster",
    "connected",
    "cores",
    "dask",
    "force_threads",
    "free_memory",
    "map_instances",
    "n_threads",
    "note",
    "report",
    "threads",
    "unwatched",
    "watch",
]

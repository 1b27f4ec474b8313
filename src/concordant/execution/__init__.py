"""Where work runs. Instances are independent, so work is a map over instances; threads are the default.

Kernels release the interpreter lock; the answer never depends on how many threads there are.
"""

from concordant.execution.local import ahead, map_instances, n_threads, note, report, threads, unwatched, watch

__all__ = ["ahead", "map_instances", "n_threads", "note", "report", "threads", "unwatched", "watch"]

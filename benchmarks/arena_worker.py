"""Fit our Bradley-Terry model, arena-rank's contextual one, or evalica's plain one, to votes in a file.

It is run by the interpreter that has the library: arena-rank pins a NumPy of its own, so that it lives apart from the
other peers. Every library fits twice in a process of its own, with its votes in memory: the first call and a warm one.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main(file: str, out: str, what: str) -> None:
    """Write scores and coefficients of the votes in `file` to `out`, and print the times.

    `what` names a fit of a peer, or holds the settings of ours as JSON.
    """
    import numpy as np

    if what.startswith("{"):
        concordant(file, out, json.loads(what))
        return
    votes = np.load(file)
    if what == "evalica":
        evalica(votes, out)
    else:
        arena_rank(votes, out, intervals=what == "intervals")


def concordant(file: str, out: str, params: dict[str, Any]) -> None:
    """Fit by Concordant, given pickled comparisons."""
    import pickle
    import resource

    import numpy as np

    import concordant as cc

    with open(file, "rb") as pickled:
        votes = pickle.load(pickled)
    found: dict[str, Any] = {}
    for call in ("first call", "warm"):
        started, busy = time.perf_counter(), time.process_time()
        model = cc.BradleyTerry(**params)
        board = model.fit_predict(votes)
        found[call] = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - busy}
        found[call]["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    order = np.argsort([int(str(item)[1:]) for item in board.items])
    coeffs = list(getattr(model, "covariate_effects_", {}).values())
    np.savez(out, ratings=board.score[order], coeffs=np.array(coeffs))
    print(json.dumps(found))


def evalica(votes: Any, out: str) -> None:
    """Fit by evalica, given the votes as integer codes and an index, which is its fastest way."""
    import numpy as np
    import pandas as pd
    from evalica import bradley_terry

    m = int(votes["n_items"])
    left, right = votes["pairs"].T
    winners = np.where(votes["won"] > 0, 1, 2).astype(np.uint8)
    found = {}
    for call in ("first call", "warm"):
        started, busy = time.perf_counter(), time.process_time()
        fit = bradley_terry(left, right, winners, index=pd.RangeIndex(m), tolerance=1e-9, limit=1000)
        found[call] = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - busy}
    ratings = np.log(fit.scores.sort_index().to_numpy())
    np.savez(out, ratings=ratings - ratings.mean())
    print(json.dumps(found))


def arena_rank(votes: Any, out: str, *, intervals: bool) -> None:
    """Fit by arena-rank with covariates."""
    import jax.numpy as jnp
    import numpy as np
    from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
    from arena_rank.utils.data_utils import ContextualPairDataset

    m, k = int(votes["n_items"]), votes["x"].shape[1]
    data = ContextualPairDataset(
        competitors=[str(i) for i in range(m)],
        pairs=jnp.array(votes["pairs"]),
        outcomes=jnp.array(votes["won"]),
        features=jnp.array(votes["x"]),
        weights=jnp.ones(len(votes["won"])),
    )
    found = {}
    for call in ("first call", "warm"):
        # Without its penalty of the coefficients, on the scale of log odds, with its own tolerances.
        model = ContextualBradleyTerry(m, k, reg=0.0, scale=float(np.log(10.0)))
        started, busy = time.perf_counter(), time.process_time()
        model.fit(data)
        if intervals:
            model.compute_ratings_and_cis(data)
        found[call] = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - busy}
    ratings = np.asarray(model.params["ratings"])
    np.savez(out, ratings=ratings - ratings.mean(), coeffs=np.asarray(model.params["coeffs"]))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])

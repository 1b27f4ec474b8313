"""Random number streams per instance: a generator seeded by the random state and the id of the instance.

The numbers do not depend on the position of the instance, the number of instances, the thread or the block.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["bayesian_bootstrap_weights", "id_hash", "instance_stream"]


def id_hash(text: str) -> int:
    """Return a 64-bit hash of an id that is the same in every process and on every machine.

    >>> id_hash("q1") == id_hash("q1"), id_hash("q1") == id_hash("q2")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def instance_stream(random_state: int, instance: str) -> np.random.Generator:
    """Return the random numbers of one instance: a generator seeded by (random_state, hash of the id).

    >>> a, b = instance_stream(0, "q1"), instance_stream(0, "q1")
    >>> bool(a.random() == b.random())
    True
    """
    return np.random.default_rng([random_state, id_hash(instance)])


def bayesian_bootstrap_weights(weight: NDArray[np.float64], stream: np.random.Generator) -> NDArray[np.float64]:
    """Return other weights for a Bayesian bootstrap: gamma variates with mean and variance `weight`.

    They are positive wherever `weight` is, unlike counts of draws with replacement. So no replicate loses an expert,
    and with it an item.

    >>> bool((bayesian_bootstrap_weights(np.ones(50), np.random.default_rng(0)) > 0).all())
    True
    """
    return stream.standard_gamma(weight)

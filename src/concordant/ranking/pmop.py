"""PMOP: items of one label are a block, and blocks are chosen from the top; ties are data, not noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from concordant.arrays import Floats
from concordant.base.contract import Tags
from concordant.base.params import Constraint, integer, one_of
from concordant.base.registry import register_method
from concordant.errors import ParameterError
from concordant.kernels.graded_lists import GradedLists
from concordant.ranking import losses, partitions
from concordant.ranking.base import Ranker

__all__ = ["PMOP"]

_NOTHING: Floats = np.zeros(0)
_SAMPLED = ("gibbs", "mh")


@register_method
class PMOP(Ranker):
    """The scores under which the ordered partition of the items by label is most likely.

    Blocks of equal labels are chosen one after another, the highest first: from the items R that are left, block X with
    probability Φ(X) / Σ Φ(S) over all non-empty subsets S of R. The loss is minus the logarithm of the product.

    inference="full" has Φ(S) = mean of exp(s) over S, under which the sum over all subsets is a sum over the items: the
    cost is that of a sum. The other three have Φ(S) = exp(mean of s over S). "exact" adds up all subsets, though there
    are 2^N of them, by symmetric polynomials; "gibbs" and "mh" estimate the gradient from a few samples of a Markov
    chain that starts at the observed block. Without ties "full" is Plackett-Luce, and so `ListMLE`.

    Instances of one item are not learned from, nor with "full" those of one label. With the other three an instance of
    one label pulls its scores together; some instance must have two labels. Labels need not be whole numbers, nor
    positive: only which are equal and which are higher counts.

    Parameters
    ----------
    inference : {"full", "exact", "gibbs", "mh"}
        The potential, and how the sum over the subsets is dealt with. "gibbs" asks every item in turn whether it is in,
        given the others; "mh" (Metropolis and Hastings) offers a subset evenly drawn among those of an evenly drawn
        size.
    acceptance : {"corrected", "printed"}
        When "mh" accepts its proposals. As printed in the paper, by the ratio of the potentials, it samples from the
        potential divided by the number of subsets of that size, which is not the model.
    n_samples : int
        How many samples of a stage "gibbs" and "mh" take: sweeps over the items, or proposals.
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    For an instance of N items and F features an evaluation costs O(N F) and, besides, O(N) with "full", "gibbs" and
    "mh", and about O(N^1.5) for every label with "exact": 0.03 ms for 25 items, 7 ms for 1,000. "full" and "exact" go
    by L-BFGS, 100 steps at most; "gibbs" and "mh" by "sgd", a step of 0.1 after every instance, 1,000 passes at most.
    A sampled gradient has no line to search along: solver="lbfgs" is refused there.

    "exact" is convex in the weights without a hidden layer, "full" is not where there are ties. The mean over a block
    tells large blocks apart by little, so that scores under "exact" lie far further apart than under "full", the more
    the longer the lists: an l2 that suits one is too strong or too weak for the other.

    What `fit_info_` calls the objective, and what the passes stop by, takes no chance with "gibbs" and "mh" either: it
    is exact for what is left of up to 64 items (and then most of their cost), and nearly so beyond. Their
    `gradient_norm` is sampled.

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with applications in document ranking and
    collaborative filtering, SDM 2011.

    Examples
    --------
    >>> import concordant as cc
    >>> features, labels = cc.synthetic.graded_features(60, random_state=1)
    >>> model = cc.PMOP(l2=0.01).fit(features[:40], labels)
    >>> cc.evaluate(model.predict(features[40:]), labels[40:], "ndcg@10", convention="paper").mean["ndcg@10"] > 0.65
    True
    """

    name = "pmop"
    tags = Tags(accepts=Ranker.tags.accepts, supervised=True, stochastic=True, faithful=False, cost="O(M F)")
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "inference": one_of("full", "exact", "gibbs", "mh"),
        "acceptance": one_of("corrected", "printed"),
        "n_samples": integer(least=1),
        **Ranker.constraints,
    }

    def __init__(
        self, *, inference: str = "full", acceptance: str = "corrected", n_samples: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inference = inference
        self.acceptance = acceptance
        self.n_samples = n_samples

    @property
    def _ties_tell(self) -> bool:  # type: ignore[override]
        # Under the full decomposition all items in one block have a probability that no score changes.
        return self.inference != "full"

    def _chosen_solver(self) -> str:
        if self.solver != "auto":
            return self.solver
        return "sgd" if self.inference in _SAMPLED else "lbfgs"

    def _passes(self) -> int:
        return 1000 if self.max_iter is None and self.inference in _SAMPLED else super()._passes()

    def _checked(self, data: Any) -> Any:
        out = super()._checked(data)
        if self.inference in _SAMPLED and self.solver == "lbfgs":
            raise ParameterError.invalid(
                "solver", f"PMOP with inference={self.inference!r}", "one of 'auto', 'sgd', 'adam'", self.solver
            )
        return out

    def _loss(
        self, score: Floats, lists: GradedLists, gradient: Floats, extra: Floats, turn: int
    ) -> tuple[float, Floats]:
        if self.inference == "full":
            return losses.full_partitions(score, lists, gradient), _NOTHING
        if self.inference == "exact":
            return partitions.general_partitions(score, lists, gradient), _NOTHING
        value = partitions.sampled_partitions(
            score,
            lists,
            gradient,
            kind=self.inference,
            n_samples=self.n_samples,
            acceptance=self.acceptance,
            seed=self.random_state,
            turn=turn,
        )
        return value, _NOTHING

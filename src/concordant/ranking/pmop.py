"""PMOP, the probabilistic model over ordered partitions: a ranker whose likelihood includes ties between labels."""

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

_NO_EXTRA: Floats = np.zeros(0)
_SAMPLED = ("gibbs", "mh")


@register_method
class PMOP(Ranker):
    """Probabilistic model over ordered partitions: maximum-likelihood scores of rankings with ties.

    Items of equal label form a block. The model chooses the blocks in sequence, the highest label first: from the
    remaining items R, block X with probability Φ(X) / Σ Φ(S) over all non-empty subsets S of R. The loss is minus the
    log-likelihood.

    inference="full" has Φ(S) = mean of exp(s) over S, for which the sum over subsets is a simple sum over items. The
    other three have Φ(S) = exp(mean of s over S). "exact" computes the sum over all 2^N subsets by symmetric
    polynomials; "gibbs" and "mh" estimate the gradient from a few samples of a Markov chain that starts at the observed
    block. Without ties "full" is the Plackett-Luce model, as in `ListMLE`.

    Instances with one item are ignored, and with "full" those whose labels are all equal. With the other three such an
    instance makes its scores more equal; at least one instance must have two different labels. Labels are any numbers;
    only their order matters.

    Estimand: scores under which the blocks of equal labels are chosen with the greatest likelihood; without ties s_i −
    s_j is the log odds that i comes before j.

    Parameters
    ----------
    inference : {"full", "exact", "gibbs", "mh"}
        The potential, and how the sum over the subsets is computed. "gibbs" resamples the membership of one item after
        another; "mh" (Metropolis-Hastings) proposes a uniform subset of a uniform size.
    acceptance : {"corrected", "printed"}
        The acceptance ratio of "mh". "printed" is the ratio of the potentials, as in the paper; it samples from the
        potential divided by the number of subsets of that size, which is not the model.
    n_samples : int
        The number of samples of a stage for "gibbs" (sweeps over the items) and "mh" (proposals).
    {common}

    Attributes
    ----------
    {learned}

    Notes
    -----
    An evaluation costs O(N F) for an instance of N items and F features. In addition it costs O(N) with "full", "gibbs"
    and "mh", and about O(N^1.5) for every label with "exact": 0.03 ms for 25 items, 7 ms for 1,000. By default "full"
    and "exact" use L-BFGS with at most 2,000 steps; "gibbs" and "mh" use "sgd" with first steps of about 0.1, one for
    every instance, and at most 1,000 passes. They refuse solver="lbfgs", because a line search needs exact gradients.

    Without a hidden layer "exact" is convex in the weights; "full" is not, if there are ties. Means over large blocks
    differ little, so that scores under "exact" are spread much more widely than under "full", the more so the longer
    the lists. An l2 that suits one is too strong or too weak for the other.

    With "gibbs" and "mh", the objective in `fit_info_` and the stopping rule are not random. The objective is exact for
    stages of up to 64 items (and takes most of the time there), and a close approximation beyond. `gradient_norm` is
    sampled.

    References
    ----------
    Truyen, Phung and Venkatesh, Probabilistic models over ordered partitions with application in learning to rank,
    arXiv:1009.1690, 2010; with applications in document ranking and collaborative filtering, SDM 2011.

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
        # Under the full decomposition, the probability of a single block does not depend on the scores.
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
            return losses.full_partitions(score, lists, gradient), _NO_EXTRA
        if self.inference == "exact":
            return partitions.general_partitions(score, lists, gradient), _NO_EXTRA
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
        return value, _NO_EXTRA

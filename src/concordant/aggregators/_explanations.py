"""Why an item stands where it stands in Bradley-Terry and Plackett-Luce: the parts of experts or opponents in a score.

The scores ŝ maximise a log-likelihood less a prior. With g_e and H_e the gradient and −Hessian of the votes of expert e
at ŝ, and Λ that of the prior, the gradients balance, Σ_e g_e = Λ ŝ, so that

    ŝ = Σ_e A⁻¹ (H_e ŝ + g_e),    A = Σ_e H_e + Λ.

It is the form of weighted least squares in which a generalised linear model is solved: H_e ŝ + g_e is the information
of expert e times what one Newton step from ŝ would estimate from this expert alone, so ŝ is the mean of these
estimates and of the prior's 0, weighted by information. The identity is exact. H and g are sums over pairs of items,
too: H is the Laplacian of a graph and g a flow on it, which gives the parts of the opponents.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from concordant.aggregators._anchors import anchor_slots, relative_to_anchor
from concordant.aggregators._predictions import ModelPredictions
from concordant.arrays import Codes, Floats, Ints
from concordant.base.contract import Votes
from concordant.data.comparisons import Comparisons
from concordant.data.explanation import Contributions, Explanation, explain
from concordant.errors import DataError, KindError, ParameterError

__all__ = ["ExplainedLikelihood", "WorkingResponses", "pair_responses"]

# What the prior and the end of an iteration leave is shown as the base only if it is larger than this part of a score.
_ROUNDING = 1e-10


class WorkingResponses(NamedTuple):
    """Working responses and −Hessian of one instance at its estimated scores.

    Attributes
    ----------
    names : list of str
        The experts, or the items as opponents.
    response : float64[m, E]
        H_e ŝ + g_e of every expert (columns); for opponents h_ij (ŝ_i − ŝ_j) + g_ij of every pair, antisymmetric.
    hessian : float64[m, m]
        A, the −Hessian with the prior.
    shift_free : bool
        Whether nothing fixes the mean of the scores.
    places : int64[m]
        The slots of the items that were compared.
    score : float64[S]
        The scores of all slots.
    anchor : int or None
        The slot whose score is 0.
    """

    names: list[str]
    response: Floats
    hessian: Floats
    shift_free: bool
    places: Ints
    score: Floats
    anchor: int | None = None

    def contributions(self, by: str) -> Contributions:
        """Return names, parts (slots × names) and the base."""
        m = len(self.places)
        inverse = np.linalg.pinv(self.hessian, hermitian=True) if self.shift_free else np.linalg.inv(self.hessian)
        # The rows of the gauge: scores less their mean, or less that of the anchor.
        at = None if self.anchor is None else np.flatnonzero(self.places == self.anchor)
        gauged = inverse
        if m:
            gauged = inverse - (inverse[at] if at is not None and len(at) else inverse.mean(axis=0, keepdims=True))
        if by == "expert":
            own = gauged @ self.response
        else:
            own = (np.diagonal(gauged)[:, None] - gauged) * self.response
        parts = np.zeros((len(self.score), len(self.names)))
        parts[self.places] = own if by == "expert" else _columns(own, self.places, len(self.names))
        base = self.score - parts.sum(axis=1)
        if np.abs(base).max(initial=0.0) <= _ROUNDING * max(1.0, float(np.abs(self.score).max(initial=0.0))):
            base = np.zeros(len(base))
        return self.names, parts, base


def _columns(table: Floats, places: Ints, size: int) -> Floats:
    out = np.zeros((len(table), size))
    out[:, places] = table
    return out


def pair_responses(left: Codes, right: Codes, response: Floats, m: int, cluster: Any = None, n: int = 0) -> Floats:
    """Return rows of pairs as responses: a column for each of n clusters or, without clusters, a table of pairs."""
    if cluster is None:
        key = left.astype(np.int64) * m + right
        table = np.bincount(key, response, m * m).reshape(m, m)
        return np.asarray(table - table.T, dtype=np.float64)
    one, other = (end.astype(np.int64) * n + cluster for end in (left, right))
    out = np.bincount(one, response, m * n) - np.bincount(other, response, m * n)
    return np.asarray(out, dtype=np.float64).reshape(m, n)


class ExplainedLikelihood(ModelPredictions):
    """Base of the likelihood models whose scores are taken apart; a model writes `_working_responses`."""

    anchor: str | None

    def _working_responses(self, votes: Any, by: str) -> WorkingResponses | None:
        """Return the working responses of one instance by "expert" or "opponent"; None where there are none.

        The scores are not relative to an anchor.
        """
        raise TypeError(f"{type(self).__name__} must define _working_responses")

    def _anchored_responses(self, votes: Any, by: str) -> WorkingResponses | None:
        """Return the working responses with scores relative to the anchor, as `predict` gives them."""
        found, anchors = self._working_responses(votes, by), anchor_slots(votes.slots, self.anchor)
        if found is None or anchors is None:
            return found
        score, _ = relative_to_anchor(votes.slots, found.score, (), anchors)
        return found._replace(score=score, anchor=int(anchors[0]))

    def _contributions(self, preferences: Any) -> Contributions | None:
        if isinstance(preferences, Comparisons) and preferences.expert is None:
            return None
        found = [self._anchored_responses(preferences[np.array([n])], "expert") for n in range(len(preferences))]
        known = [f.contributions("expert") for f in found if f is not None]
        if len(known) < len(found) or not known:
            return None
        names = list(dict.fromkeys(name for own, _, _ in known for name in own))
        parts = np.zeros((preferences.slots.n_slots, len(names)))
        for (own, part, _), first in zip(known, preferences.slots.offsets.tolist(), strict=False):
            parts[first : first + len(part), [names.index(name) for name in own]] = part
        return names, parts, np.concatenate([base for _, _, base in known])

    def explain(self, preferences: Votes, instance: str | None = None, *, by: str | None = None) -> Explanation:
        """Split the score of every item of one instance into parts: contributions of experts or of opponents.

        At the estimate ŝ the votes balance the prior, so that ŝ = Σ_e A⁻¹ (H_e ŝ + g_e) exactly: g_e and H_e are the
        gradient and −Hessian of the votes of expert e at ŝ, and A is Σ H_e plus the precision of the prior. An expert's
        part is the information of the expert times the estimate that one Newton step gives for that expert alone: ŝ
        is the mean of these estimates and of the prior's 0, weighted by information. The parts add up to the score.
        A vote as expected still holds its item where it is; leaving an expert out is another question, because
        the other votes would weigh more. Tie parameters, side effects and the reliability of experts count as known.

        Parameters
        ----------
        preferences : Preferences or Comparisons
            What is predicted.
        instance : str, optional
            Which instance; needed where there are several.
        by : {"expert", "opponent"}, optional
            Whose parts. "opponent": the part of opponent j in the score of item i comes from the votes that compare i
            with j, and the base is what the votes about other items add, through the opponents. None: experts, or
            opponents where comparisons name no experts.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("q", None, ["a", "b", "a"], ["b", "c", "c"], [6, 5, 7], [3, 3, 3])
        >>> print(cc.BradleyTerry().fit(votes).explain(votes))
        item    score        b        a        c   (base)
        a      0.5050  +0.2289  +0.0000  +0.2743  +0.0017
        b     -0.0627  +0.0000  -0.2322  +0.1627  +0.0067
        c     -0.4423  -0.1644  -0.2811  +0.0000  +0.0032
        """
        if by not in (None, "expert", "opponent"):
            raise ParameterError.invalid("by", "explain", "'expert', 'opponent' or None", by)
        votes = self._weighed(self._checked(preferences))
        nameless = isinstance(votes, Comparisons) and votes.expert is None
        if by == "expert" and nameless:
            raise DataError("explain(by='expert') needs comparisons that name experts. Use by='opponent'.")
        how = by or ("opponent" if nameless else "expert")

        def contributions(own: Any) -> Contributions:
            found = self._anchored_responses(own, how)
            if found is None:
                raise KindError(
                    f"{self!r} cannot be explained: its scores are no maximum of a likelihood in the items' own "
                    "scores. Use optimizer='newton', no features, and ties other than 'partition'."
                )
            return found.contributions(how)

        return explain(votes, instance, contributions, by=how)

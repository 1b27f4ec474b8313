"""`compare_models`: likelihood-ratio and Wald tests of nested models, and a table of AIC and BIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator
from concordant.base.registry import METHODS
from concordant.data.container import counted, html_table
from concordant.data.index import Slots, Texts
from concordant.errors import DataError, KindError, NotFittedError, ParameterError, listing, quote
from concordant.inference.likelihood import chi_squared_tail
from concordant.inference.summary import information_criteria
from concordant.kernels.lists import offsets_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ModelComparison", "NestedTest", "check_maximum_likelihood", "compare_models"]

# Parameters whose number of estimates is not known, or under which there is no maximum likelihood.
_NO_LIKELIHOOD = {"adherence": False, "reliability": False, "optimizer": "newton"}
# Beyond this many scores no Wald test of all of them is made.
_MOST_SCORES = 2000
# Directions below this part of the largest singular value are rounding errors.
_ROUNDING = 1e-8
# With fewer experts a clustered Wald test rejects too often: with 12 to 15 who differ, in 7 to 10 % of data sets
# at 5 %, for 6 parameters.
_MANY_EXPERTS = 30


class NestedTest(NamedTuple):
    """Tests of a model against a larger one that contains it.

    Attributes
    ----------
    smaller, larger : str
        The names of the models.
    statistic, df, p_value : float, int, float or None
        The likelihood ratio 2 (ℓ_larger − ℓ_smaller), its degrees of freedom and the upper tail of chi-squared; None
        where the models are not nested.
    wald, wald_p_value : float or None
        The Wald statistic of the restrictions at the larger fit, with the covariance of that fit (clustered where it
        is), and its upper tail; None where the covariance of all that is restricted is not kept.
    why_not : str
        Why there is no test, or no Wald test; empty otherwise.
    n_experts : int or None
        The number of experts by whom the Wald test is clustered; None where it is not.
    """

    smaller: str
    larger: str
    statistic: float | None
    df: int | None
    p_value: float | None
    wald: float | None
    wald_p_value: float | None
    why_not: str
    n_experts: int | None = None


class _Line(NamedTuple):
    """One model of the table."""

    model: str
    log_likelihood: float
    n_parameters: int
    aic: float
    bic: float | None
    delta_aic: float
    weight: float


@dataclass(frozen=True, repr=False)
class ModelComparison:
    """Models fitted to the same data, from the fewest parameters to the most, and tests of those that are nested.

    Attributes
    ----------
    models : tuple
        For each model: its name, log_likelihood, n_parameters, aic, bic, delta_aic (above the smallest) and weight
        (Akaike's: exp(−delta_aic / 2) over their sum).
    tests : tuple of NestedTest
        Each model but the last, against the next larger one that contains it; against its neighbour, with `why_not`,
        where none does.
    """

    models: tuple[_Line, ...]
    tests: tuple[NestedTest, ...]

    def to_frame(self) -> pl.DataFrame:
        """Return the table of models as a Polars frame."""
        import polars as pl

        return pl.DataFrame([line._asdict() for line in self.models])

    def __repr__(self) -> str:
        head = ("", *_HEAD)
        rows = [(line.model, *_cells(line)) for line in self.models]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        out = [
            "  ".join(
                cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in (head, *rows)
        ]
        return "\n".join([line.rstrip() for line in out] + [_told(test) for test in self.tests])

    def _repr_html_(self) -> str:
        rows = [(line.model, *_cells(line)) for line in self.models]
        return html_table(["model", *_HEAD], rows, below=map(_told, self.tests))


_HEAD = ("log-likelihood", "df", "AIC", "BIC", "ΔAIC", "weight")


def _cells(line: _Line) -> tuple[str, ...]:
    bic = "" if line.bic is None else f"{line.bic:.2f}"
    return (
        f"{line.log_likelihood:.3f}",
        str(line.n_parameters),
        f"{line.aic:.2f}",
        bic,
        f"{line.delta_aic:.2f}",
        f"{line.weight:.3f}",
    )


def _told(test: NestedTest) -> str:
    """Return a test in words."""
    out = f"{test.smaller} in {test.larger}: "
    if test.statistic is None:
        return out + test.why_not
    out += f"likelihood ratio {test.statistic:.3f} on {test.df} df, p = {test.p_value:.3g}"
    if test.wald is None:
        return f"{out}; no Wald test: {test.why_not}"
    out += f"; Wald {test.wald:.3f}, p = {test.wald_p_value:.3g}"
    if test.n_experts is not None and test.n_experts < _MANY_EXPERTS:
        out += f" ({counted(test.n_experts, 'expert')}, which is few: p may be too small)"
    return out


def compare_models(*models: Aggregator, names: list[str] | None = None) -> ModelComparison:
    """Compare maximum-likelihood fits to the same data: an AIC table, and tests of nested models.

    Models are sorted by their number of parameters, and each is tested against the next larger one that contains it:
    without and with a side effect, with fewer and more covariates of the vote, with fewer and more features, scores
    from features and free scores. Models that are not nested are compared by AIC only.

    Parameters
    ----------
    *models : Aggregator
        Two or more fits of BradleyTerry to comparisons, or of PlackettLuce, with prior=0.
    names : list of str, optional
        Their names in the tables; by default "model 1" and so on.

    Notes
    -----
    The likelihood ratio takes every outcome (every choice of a list) as independent. The Wald test uses the covariance
    of the larger fit: with named experts it is clustered by expert, and allows for outcomes of one expert that are
    correlated. Where the two disagree, trust the Wald test if there are some thirty experts; with fewer it rejects too
    often, and a note says so. AIC = −2 ℓ + 2 p, BIC =
    −2 ℓ + p log n, n the number of outcomes or choices. Differences do not depend on the constants of ℓ.

    References
    ----------
    Wilks, The large-sample distribution of the likelihood ratio, Annals of Mathematical Statistics 1938. Wald, Tests of
    statistical hypotheses concerning several parameters, Transactions of the AMS 1943. Akaike, A new look at the
    statistical model identification, IEEE Transactions on Automatic Control 1974.

    Examples
    --------
    >>> import concordant as cc
    >>> games = cc.Comparisons("all", None, list("abcabc"), list("bcacab"), [7, 6, 3, 8, 6, 4], [3, 5, 8, 2, 2, 6])
    >>> plain, home = cc.BradleyTerry(prior=0), cc.BradleyTerry(prior=0, side_effect=True)
    >>> for model in (plain, home):
    ...     _ = model.fit_predict(games)
    >>> cc.compare_models(plain, home, names=["plain", "home"]).tests[0].df
    1
    """
    called = [f"model {n}" for n in range(1, len(models) + 1)] if names is None else list(map(str, names))
    if len(models) < 2:
        raise ParameterError(f"compare_models compares two models or more. Got {len(models)}.")
    if len(called) != len(models) or len(set(called)) < len(called):
        raise ParameterError.invalid("names", "compare_models", f"{len(models)} different names", names)
    for name, model in zip(called, models, strict=True):
        _check_model(name, model)
    first = models[0]
    for name, model in zip(called[1:], models[1:], strict=True):
        why = _differs(first, model)
        if why:
            raise DataError(f"{quote(called[0])} and {quote(name)} cannot be compared: {why}")
    order = sorted(range(len(models)), key=lambda k: models[k].fit_info_.n_parameters or 0)
    lines = _lines([(called[k], models[k]) for k in order])
    named = [(called[k], models[k]) for k in order]
    tests = []
    for k, one in enumerate(named[:-1]):
        larger = [_test(one, other) for other in named[k + 1 :]]
        tests.append(next((test for test in larger if test.statistic is not None), larger[0]))
    return ModelComparison(tuple(lines), tuple(tests))


def _lines(models: list[tuple[str, Aggregator]]) -> list[_Line]:
    each = []
    for name, model in models:
        info = model.fit_info_
        value, p = float(info.log_likelihood or 0.0), int(info.n_parameters or 0)
        aic, bic = information_criteria(value, p, info.n_observations)
        each.append((name, value, p, float(aic or 0.0), bic))
    delta = np.array([aic for *_, aic, _ in each])
    delta -= delta.min()
    weight = np.exp(-delta / 2) / np.exp(-delta / 2).sum()
    return [_Line(*line, d, w) for line, d, w in zip(each, delta.tolist(), weight.tolist(), strict=True)]


def check_maximum_likelihood(model: Aggregator, owner: str) -> None:
    """Raise where a method has no likelihood that can be maximised, or parameters that hinder it; not for a prior."""
    if not model.tags.likelihood:
        able = [name for name in METHODS if METHODS[name].tags.likelihood]
        raise KindError(f"{owner} needs a likelihood: {' or '.join(able)}. Got {model.name!r}.")
    for name, allowed in _NO_LIKELIHOOD.items():
        if getattr(model, name, allowed) != allowed:
            raise ParameterError.invalid(
                name, f"{type(model).__name__} in {owner}", repr(allowed), getattr(model, name)
            )


def _check_model(name: str, model: Any) -> None:
    """Raise where a model is no maximum-likelihood fit."""
    if not isinstance(model, Aggregator):
        raise ParameterError.invalid("models", "compare_models", "fitted methods", model)
    check_maximum_likelihood(model, "compare_models")
    if getattr(model, "prior", 0) != 0:
        raise ParameterError(
            f"{quote(name)} has a prior, and its log-likelihood is not a maximum: fit it with prior=0 to compare it."
        )
    info = getattr(model, "fit_info_", None)
    if info is None:
        raise NotFittedError.of(type(model).__name__)
    if info.log_likelihood is None or info.n_parameters is None or not info.data_digest:
        raise NotFittedError(
            f"{quote(name)} has no log-likelihood: fit it with fit_predict to preferences or comparisons in memory."
        )
    if model._splits_lists and info.n_lists is not None:
        raise ParameterError(
            f"{quote(name)} is {type(model).__name__} on lists, and the pairs of a list are not independent, as tests "
            "and AIC take them. Use PlackettLuce."
        )
    if not info.converged:
        raise ParameterError(f"{quote(name)} did not converge, and its log-likelihood is no maximum. Raise max_iter.")


def _differs(a: Aggregator, b: Aggregator) -> str:
    """Return why the log-likelihoods of two fits are not of the same observations, "" if they are."""
    one, other = a.fit_info_, b.fit_info_
    if one.data_digest != other.data_digest:
        return "they are not fitted to the same data (the same rows in the same order)."
    if type(a) is not type(b):
        return f"{a.name} and {b.name} are likelihoods of different observations."
    for name in a._reads_lists_by:
        ours, theirs = getattr(a, name), getattr(b, name)
        if ours != theirs and (name == "ties" or one.missing != other.missing):
            return f"they read the lists differently ({name}={ours!r} and {theirs!r})."
    if one.n_observations != other.n_observations:
        return (
            f"they use {one.n_observations:,.6g} and {other.n_observations:,.6g} observations of the data, as one of "
            "them leaves ties out."
        )
    return ""


def _test(smaller: tuple[str, Aggregator], larger: tuple[str, Aggregator]) -> NestedTest:
    """Return the tests of a model against one with at least as many parameters."""
    (name_a, a), (name_b, b) = smaller, larger
    none = (None, None, None, None, None)
    why = _not_nested(a, b)
    df = int(b.fit_info_.n_parameters or 0) - int(a.fit_info_.n_parameters or 0)
    if not why and df == 0:
        why = "they have the same parameters; nothing to test"
    if why:
        return NestedTest(name_a, name_b, *none, f"{why}. Compare by AIC" if df else why)
    ratio = max(2.0 * (float(b.fit_info_.log_likelihood or 0.0) - float(a.fit_info_.log_likelihood or 0.0)), 0.0)
    wald, why = _wald(a, b, df)
    tail = None if wald is None else chi_squared_tail(wald, df)
    by_expert = wald is not None and "expert" in (b.fit_info_.uncertainty or "")
    n_experts = b.fit_info_.n_experts if by_expert else None
    return NestedTest(name_a, name_b, ratio, df, chi_squared_tail(ratio, df), wald, tail, why, n_experts)


def _not_nested(a: Aggregator, b: Aggregator) -> str:
    """Return why a model does not contain another one as a special case, "" if it does."""
    of_a, of_b = vars(a), vars(b)
    if of_a.get("ties_", "") != of_b.get("ties_", ""):
        return f"they are not nested: {of_a['ties_']} and {of_b['ties_']} are different models of ties"
    if getattr(a, "side_effect", False) and not getattr(b, "side_effect", False):
        return "they are not nested: only the one with fewer parameters has a side effect"
    odd = [name for name in of_a.get("covariate_effects_", {}) if name not in of_b.get("covariate_effects_", {})]
    if odd:
        return f"they are not nested: only the one with fewer parameters has covariates {listing(odd)}"
    if "coefficients_" not in of_b:
        return ""
    free = "they are not nested: scores are free in one, and linear in features in the other"
    if "coefficients_" not in of_a:
        return free
    slots = _slots(b)
    design, larger = _design(a, slots), _design(b, slots)
    if design is None or larger is None:
        return "whether they are nested is not known: their features are of different items"
    left = design - larger @ np.linalg.lstsq(larger, design, rcond=None)[0]
    if np.abs(left).max(initial=0.0) > _ROUNDING * max(1.0, np.abs(design).max(initial=0.0)):
        return "they are not nested: the features of one do not span those of the other"
    return ""


def _saved_slots(model: Any) -> Slots:
    saved = model.feature_slots_
    return Slots(Texts(saved["instances"]), Texts(saved["items"]), offsets_of(np.array(saved["sizes"], dtype=np.int64)))


def _slots(model: Any) -> Slots:
    return model.consensus_.slots if "consensus_" in vars(model) else _saved_slots(model)


def _centred(design: Floats, slots: Slots) -> Floats:
    """Return columns over slots less their mean in the instance."""
    full = np.flatnonzero(slots.sizes > 0)
    if not len(full):
        return design
    means = np.add.reduceat(design, slots.offsets[full], axis=0) / slots.sizes[full][:, None]
    out: Floats = design - np.repeat(means, slots.sizes[full], axis=0)
    return out


def _design(model: Any, slots: Slots) -> Floats | None:
    """Return the columns whose combinations are the scores of a model with features; None where an item has no row."""
    rows: Ints = slots.locate(_saved_slots(model))
    return None if (rows < 0).any() else _centred(model.feature_basis_[rows], slots)


def _complement(columns: Floats) -> Floats:
    """Return orthonormal rows that span what is orthogonal to the columns."""
    left, size, _ = np.linalg.svd(columns, full_matrices=True)
    rank = int((size > _ROUNDING * max(float(size.max(initial=0.0)), 1e-300)).sum())
    return np.ascontiguousarray(left[:, rank:].T)


def _wald(a: Any, b: Any, df: int) -> tuple[float | None, str]:
    """Return the Wald statistic of the restrictions of `a` at the fit `b`, or None and why there is none."""
    extra = _extra_shared(a, b)
    if "coefficients_" not in vars(b):
        # Scores are free in the larger model.
        if "coefficients_" not in vars(a):
            return _wald_of_shared(b, extra) if extra else (None, "the models are equal")
        if extra:
            return None, f"the covariance of scores with {listing(extra)} is not kept"
        return _wald_of_scores(a, b, df)
    slots = _slots(b)
    design, larger = _design(a, slots), _design(b, slots)
    table = b._basis_covariance
    if design is None or larger is None or np.isnan(table).any():
        return None, "the covariance of the larger fit is not known"
    r = b.feature_basis_.shape[1]
    inside = np.linalg.lstsq(larger, design, rcond=None)[0]
    restrict = _complement(np.asarray(inside, dtype=np.float64))
    places, found = _shared_places(b, extra)
    whole = np.zeros((len(restrict) + len(extra), len(table)))
    whole[: len(restrict), :r] = restrict
    whole[np.arange(len(restrict), len(whole)), places] = 1.0
    values = np.zeros(len(table))
    values[:r] = np.linalg.lstsq(b.feature_basis_, b.feature_scores_, rcond=None)[0]
    values[places] = found
    return _statistic(whole @ values, whole @ table @ whole.T)


def _extra_shared(a: Any, b: Any) -> list[str]:
    """Return the shared parameters of `b` that `a` does not have: the side effect, and covariates by their names."""
    side = bool(getattr(b, "side_effect", False)) and not getattr(a, "side_effect", False)
    fewer = vars(a).get("covariate_effects_", {})
    return ["side"] * side + [name for name in vars(b).get("covariate_effects_", {}) if name not in fewer]


def _shared_places(b: Any, names: list[str]) -> tuple[Ints, Floats]:
    """Return where shared parameters are in the covariance, counted from its end, and their values in its units."""
    effects = vars(b).get("covariate_effects_", {})
    values = [b.side_] if getattr(b, "side_effect", False) else []
    known = ["side"] * len(values) + list(effects)
    values += [v * unit for v, unit in zip(effects.values(), vars(b).get("covariate_units_", ()), strict=True)]
    # A covariate may be called "side": the side effect comes first.
    first = {name: n for n, name in reversed(list(enumerate(known)))}
    where = np.array([first[name] for name in names], dtype=np.int64)
    return where - len(known), np.array(values)[where]


def _wald_of_shared(b: Any, names: list[str]) -> tuple[float | None, str]:
    """Return the Wald statistic of shared parameters, the last of which are the side effect and covariates."""
    table = b.shared_covariance_
    if not table.size or np.isnan(table).any():
        return None, "the covariance of the larger fit is not known"
    places, values = _shared_places(b, names)
    return _statistic(values, table[np.ix_(places, places)])


def _wald_of_scores(a: Any, b: Any, df: int) -> tuple[float | None, str]:
    """Return the Wald statistic of free scores being linear in the features of `a`."""
    consensus = vars(b).get("consensus_")
    if consensus is None or consensus.covariance is None or any(c is None for c in consensus.covariance):
        return None, "the covariance of the larger fit is not known. Fit it with fit_predict and intervals"
    shared = (
        getattr(b, "ties_", "none") != "none"
        or getattr(b, "side_effect", False)
        or len(vars(b).get("tie_sizes_", ()))
        or len(vars(b).get("covariate_effects_", ()))
    )
    if len(consensus) > 1 and shared:
        return None, "the covariance of scores of different instances is not kept"
    slots = consensus.slots
    design = _design(a, slots)
    if design is None or slots.n_slots > _MOST_SCORES:
        return None, f"it is made for up to {_MOST_SCORES:,} items that all have features"
    instances = (slots.instance[:, None] == np.arange(len(slots))).astype(np.float64)
    table = np.zeros((slots.n_slots, slots.n_slots))
    for n, own in enumerate(consensus.covariance):
        at = slice(int(slots.offsets[n]), int(slots.offsets[n + 1]))
        table[at, at] = own
    restrict = _complement(np.concatenate([instances, design], axis=1))
    if len(restrict) != df:
        return None, "some items have no covariance"
    return _statistic(restrict @ consensus.score, restrict @ table @ restrict.T)


def _statistic(values: Floats, covariance: Floats) -> tuple[float | None, str]:
    """Return the quadratic form of some values with the inverse of their covariance."""
    if np.isnan(covariance).any() or np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance):
        return None, "the covariance of what is restricted has no full rank: there are too few experts"
    return float(values @ np.linalg.solve(covariance, values)), ""

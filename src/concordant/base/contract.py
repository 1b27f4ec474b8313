"""The contract of a method: `Aggregator`, the base class of all methods, with its tags and `FitInfo`.

A method declares what it accepts in its tags and what its parameters may be in `constraints`, and turns preferences
into scores in one hook, `_scores`. Checks, names, times and saving are done here for all methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.base.block_consensus import consensus_of_blocks
from concordant.base.params import Constraint, check_params
from concordant.base.registry import METHODS
from concordant.base.weights import usable_weights
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
from concordant.data.container import labelled_table
from concordant.data.features import Features
from concordant.data.index import Slots
from concordant.data.preferences import Preferences
from concordant.errors import (
    ConcordantWarning,
    DataShiftWarning,
    DataWarning,
    KindError,
    NotFittedError,
    ParameterError,
    Setting,
    warn,
)
from concordant.execution import map_instances
from concordant.execution.blocks import Blocks

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl

    from concordant.data.explanation import Explanation
    from concordant.data.labels import Labels
    from concordant.inference.summary import ModelReport, Summary

__all__ = ["Aggregator", "FitInfo", "Tags"]

Votes = Preferences | Comparisons


def _declared_below(data: Votes | Blocks) -> Bools:
    """Return for each instance with incomplete lists whether the items they leave out are declared below.

    Comparisons have no incomplete lists. Blocks are not read for this: all of their instances are returned.
    """
    if isinstance(data, Preferences):
        return data.below()[data.leaves_out()]
    if isinstance(data, Blocks):
        return np.broadcast_to(np.asarray(data.below), len(data.instances))
    return np.zeros(0, dtype=np.bool_)


def _some_left_out(blocks: Blocks) -> bool:
    """Return whether a list in some block leaves out items that are declared below; stop at the first such block."""
    each = (next(iter(blocks.shards.select([b]).map(_leaves_out_below))) for b in range(len(blocks)))
    return any(each)


def _leaves_out_below(block: Preferences) -> bool:
    return bool(_declared_below(block).any())


# Rows scored at one time: few enough for the cache of a core, many enough that threads seldom wait for the interpreter.
_BLOCK_ROWS = 1 << 18


class Tags(NamedTuple):
    """What a method can do. The contract checks test each of these promises.

    Attributes
    ----------
    accepts : frozenset of {"rank", "score", "rating", "comparisons"}
        The containers it works on.
    supervised : bool
        Whether `fit` needs labels.
    per_instance : bool
        Whether an instance's scores depend on that instance alone (given what `fit` learned).
    weights, ties : bool
        Whether lists may have any weights, and whether ties inside a list are allowed.
    uncertainty, stochastic : bool
        Whether it gives intervals, and whether it draws random numbers (seeded by `random_state`).
    faithful : bool
        Whether one expert gets its own order back and unanimous preferences are kept, as far as scores differ by more
        than the tie rule allows (1e-12 of the largest).
    counts : bool
        Whether only the counts of pairs matter in comparisons, not who compared (see `counts_suffice`).
    blocks : bool
        Whether `fit` also learns from blocks of instances that do not fit in memory (see `learns_from_blocks`).
    row_order : bool
        Whether scores depend on the order of the rows, as those of online methods do.
    heuristic : bool
        Whether it fuses lists by a rule, in the group "heuristics" of ``concordant compare``.
    likelihood : bool
        Whether its maximum-likelihood fits count their parameters: `compare_models` and `compare_groups` take it.
    cost : str
        The cost for an instance of M items, K experts and R rows.
    """

    accepts: frozenset[str]
    supervised: bool = False
    per_instance: bool = True
    weights: bool = True
    ties: bool = True
    uncertainty: bool = False
    stochastic: bool = False
    faithful: bool = True
    counts: bool = False
    blocks: bool = False
    row_order: bool = False
    heuristic: bool = False
    likelihood: bool = False
    cost: str = "O(R)"


class FitInfo:
    """How a fit went; always set after `fit`.

    Attributes
    ----------
    n_iter : int
        Steps of the iteration.
    converged : bool
        Whether it converged to the tolerance; true without an iteration.
    objective : float or None
        What was maximised, at the end: for a model with a prior the penalised log-likelihood. The method's page says
        which; None where nothing is maximised.
    gradient_norm : float or None
        The largest component of its gradient, in the unit that the method's page states.
    trace : list of float
        The objective, or the largest change, after every step, where steps are counted over all instances.
    log_likelihood : float or None
        The log-likelihood at the estimates, without the prior and without constants (see `summary`); None for methods
        without one, and where it is not computed.
    log_multinomials : float or None
        What the binomial (with ties, multinomial) coefficients of the counts of pairs add to it; None where there are
        none.
    n_parameters : int or None
        The number of free parameters of the likelihood.
    n_observations : float or None
        The number of observations: outcomes of pairs, or choices of lists, with weights.
    n_experts, n_lists : int or None
        The numbers of experts and of lists that a likelihood is of; None where experts are not named, or for
        comparisons, which are no lists.
    list_weight : float or None
        The total weight of the lists, such as the number of ballots; None where every list weighs 1.
    data_digest : str
        Identifies the data of a likelihood, for `compare_models`; empty for blocks and without a likelihood.
    seconds : float
        How long `fit` took.
    warnings : list of str
        The warnings given about the data and the fit.
    uncertainty : str or None
        How the intervals were made, None without intervals.
    labels : dict of str to int
        Counts of a supervised fit: instances, labelled and usable instances, items, judged and unjudged items, and
        labels of items that are not in the preferences.
    validation : float or None
        The value of the metric that the fit was chosen by, on validation instances.
    chosen : dict
        What the metric chose, such as the transform, the learning rate and the number of passes.
    interrupted : str
        Where an interrupt ended the fit; empty without an interrupt.
    missing : str or None
        How items that a list leaves out were treated: "unknown", "below", or "below in 12 of 50 instances"; None where
        all lists are complete, and for methods to which it makes no difference.
    """

    __slots__ = (  # noqa: RUF023 - the order in which fields are shown
        "n_iter",
        "converged",
        "objective",
        "gradient_norm",
        "trace",
        "log_likelihood",
        "log_multinomials",
        "n_parameters",
        "n_observations",
        "n_experts",
        "n_lists",
        "list_weight",
        "data_digest",
        "seconds",
        "warnings",
        "uncertainty",
        "labels",
        "validation",
        "chosen",
        "interrupted",
        "missing",
    )

    n_iter: int
    converged: bool
    objective: float | None
    gradient_norm: float | None
    trace: list[float]
    log_likelihood: float | None
    log_multinomials: float | None
    n_parameters: int | None
    n_observations: float | None
    n_experts: int | None
    n_lists: int | None
    list_weight: float | None
    data_digest: str
    seconds: float
    warnings: list[str]
    uncertainty: str | None
    labels: dict[str, int]
    validation: float | None
    chosen: dict[str, Any]
    interrupted: str
    missing: str | None

    def __init__(self, **known: Any) -> None:
        # Written out: a dataclass would cost the first request of a process a millisecond, a loop over a table every
        # request some microseconds.
        self.n_iter = 0
        self.converged = True
        self.objective = None
        self.gradient_norm = None
        self.trace = []
        self.log_likelihood = None
        self.log_multinomials = None
        self.n_parameters = None
        self.n_observations = None
        self.n_experts = None
        self.n_lists = None
        self.list_weight = None
        self.data_digest = ""
        self.seconds = 0.0
        self.warnings = []
        self.uncertainty = None
        self.labels = {}
        self.validation = None
        self.chosen = {}
        self.interrupted = ""
        self.missing = None
        for name, value in known.items():
            setattr(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        return f"FitInfo({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FitInfo):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


class Aggregator:
    """Base of every method. Subclasses set `name`, `tags`, `constraints` and write `_scores`.

    Parameters are keyword-only, assigned and nothing else, so that `get_params`, `set_params` and scikit-learn's
    `clone` work. Learned state ends in an underscore.
    """

    name: ClassVar[str]
    tags: ClassVar[Tags]
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    # Whether it takes features of items in place of preferences.
    takes_features: ClassVar[bool] = False
    # Whether `fit` uses `features=` beside preferences; given to any other method they are an error.
    uses_features: ClassVar[bool] = False
    # The parameter that holds the methods it is made of; on the command line they are written in brackets.
    made_of: ClassVar[str] = ""
    # The parameters with a value by which it learns from labels, and this value.
    learns_labels_by: ClassVar[Mapping[str, str]] = {}
    # Whether its likelihood takes the pairs of a list as independent, which tests of nested models do not allow.
    _splits_lists: ClassVar[bool] = False
    # The parameters that decide which observations its likelihood is of.
    _reads_lists_by: ClassVar[tuple[str, ...]] = ()
    # Whether it takes items that a list leaves out as unknown even where they are declared below.
    _missing_is_unknown: ClassVar[bool] = False
    # Whether its parameter `missing` can follow what the preferences declare about items that a list leaves out.
    _honours_missing: ClassVar[bool] = False
    # Whether only the ratios of the weights within an instance matter, so that they may have any size.
    _relative_weights: ClassVar[bool] = False
    # Whether scores tie when they agree relative to themselves, instead of relative to the largest of the instance.
    _relative_tolerance: ClassVar[bool] = False
    # Whether a long fit writes checkpoints inside `checkpoint`; a method where it does not warns there.
    _writes_checkpoints: ClassVar[bool] = True
    _param_names: ClassVar[tuple[str, ...]] = ()
    # The interrupt that ended a fit early; raised again after the fit has stored what it learned.
    _interrupt: BaseException | None = None

    fit_info_: FitInfo
    consensus_: Consensus
    experts_: list[str]
    adherence_: Floats

    # For methods without parameters: the signature of object.__init__ has *args and **kwargs.
    def __init__(self) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = [p for p in inspect.signature(cls.__init__).parameters if p != "self"]
        cls._param_names = tuple(n for n in names if n not in ("args", "kwargs"))
        asked = cls.constraints.get("missing")
        cls._honours_missing = asked is not None and asked.test("auto") and asked.test("below")

    @classmethod
    def param_names(cls) -> tuple[str, ...]:
        """Return the names of the parameters, in the order of the signature."""
        return cls._param_names

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._param_names}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name and return self; an unknown name is an error."""
        for name, value in params.items():
            if name not in self._param_names:
                raise ParameterError.unknown(name, type(self).__name__, self._param_names)
            setattr(self, name, value)
        return self

    def needs_labels(self) -> bool:
        """Return whether a fit with these parameters learns from labels.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.RRF().needs_labels(), cc.CPS(adherence="supervised").needs_labels()
        (False, True)
        """
        settings = ((getattr(self, name), word) for name, word in self.learns_labels_by.items())
        return self.tags.supervised or any(isinstance(value, str) and value == word for value, word in settings)

    def learns(self) -> bool:
        """Return whether a fit with these parameters learns something that instances share.

        If it does not, the scores of an instance do not depend on the other instances.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.RRF().learns(), cc.RRF(weights="learned").learns(), cc.ULARA().learns()
        (False, True, True)
        """
        return self._learns()

    def _learns(self) -> bool:
        return type(self)._fit is not Aggregator._fit

    def missing_as(self, preferences: Votes | Blocks) -> str | None:
        """Return how items that a list leaves out are treated; None if all lists are complete or it does not matter.

        Blocks are not read for this, and count as incomplete.

        Examples
        --------
        >>> import concordant as cc
        >>> lists = {"x": ["a", "b"], "y": ["c"]}
        >>> cc.Copeland().missing_as(cc.from_lists(lists)), cc.RRF().missing_as(cc.from_lists(lists))
        ('unknown', None)
        >>> cc.Copeland().missing_as(cc.from_lists(lists, missing="below"))
        'below'
        """
        if not (self._honours_missing or self._missing_is_unknown):
            return None
        below = _declared_below(preferences)
        if not len(below):
            return None
        word: str = getattr(self, "missing", "") if self._honours_missing else "unknown"
        if word != "auto":
            return word
        n = int(below.sum())
        return "unknown" if n == 0 else "below" if n == len(below) else f"below in {n} of {len(below)} instances"

    def _note_missing(self, preferences: Votes | Blocks) -> None:
        """Record how items that lists leave out are treated, and warn if a declaration cannot be followed."""
        if not (self._honours_missing or self._missing_is_unknown):
            return
        if hasattr(self, "fit_info_"):
            self.fit_info_.missing = self.missing_as(preferences)
        if not self._missing_is_unknown or not _declared_below(preferences).any():
            return
        if isinstance(preferences, Blocks) and not _some_left_out(preferences):
            return
        able = [n for n in METHODS if METHODS[n]._honours_missing]
        message = (
            f"the preferences declare that items a list leaves out are below what it holds; {type(self).__name__} "
            "takes them as unknown, and judges an item only by the lists that hold it. Methods that follow the "
            f"declaration: {', '.join(able)}. Declare missing='unknown' to take them as unknown in any method."
        )
        if message not in getattr(self, "fit_info_", FitInfo()).warnings:
            self._warn(message, DataWarning)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{n}={getattr(self, n)!r}" for n in self._param_names if getattr(self, n) != defaults[n].default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def fit(
        self,
        preferences: Votes | Blocks,
        labels: Labels | None = None,
        *,
        validation: Any = None,
        features: Features | None = None,
    ) -> Self:
        """Learn what instances share and return self; a method that learns nothing only checks its input.

        Methods whose statistics add up over instances also learn from blocks (see `scan`), on disk or on the workers
        of a cluster.
        """
        self._run_fit(self._accepted(preferences), labels, validation, features)
        return self

    def predict(self, preferences: Votes | Blocks) -> Consensus:
        """Return the consensus of each instance of `preferences` with what `fit` learned.

        Blocks are read one by one; the consensus of all of them is held in memory. `aggregate_blocks` writes it to a
        file instead.
        """
        if isinstance(preferences, Blocks):
            self._accepted(preferences)
            return Consensus.concat(list(consensus_of_blocks(preferences.shards, self)))
        votes = self._weighed(self._checked(preferences))
        if self._missing_is_unknown:
            self._note_missing(votes)
        self._warn_of_shift(votes)
        return self._consensus(votes)

    def fit_predict(
        self,
        preferences: Votes | Blocks,
        labels: Labels | None = None,
        *,
        validation: Any = None,
        features: Features | None = None,
    ) -> Consensus:
        """Fit, then return the consensus of the same preferences (kept as `consensus_`)."""
        votes = self._accepted(preferences)
        known = self._run_fit(votes, labels, validation, features)
        if isinstance(votes, Blocks):
            self.consensus_ = self.predict(votes)
        else:
            self.consensus_ = self._consensus(votes) if known is None else self._consensus(votes, known)
        return self.consensus_

    def learned_experts(self) -> dict[str, list[Any]]:
        """Return what was learned about the experts, column by column; empty if nothing was.

        The columns are `expert`, `weight` (the adherence), and those of `expert_details_`.
        """
        if "adherence_" not in self.__dict__:
            return {}
        details = {n: np.asarray(c).tolist() for n, c in self.__dict__.get("expert_details_", {}).items()}
        return {"expert": list(self.experts_), "weight": np.asarray(self.adherence_).tolist()} | details

    def expert_habits(self) -> dict[str, list[Any]]:
        """Return the habits of the experts for a table of experts, column by column; empty if none were learned."""
        return {}

    def learned_effects(self) -> dict[str, Any]:
        """Return what was learned beside scores and experts, for a summary; empty if nothing was.

        "coefficients" are the rows of a table of coefficients, "habit_spread" standard deviations over experts.
        """
        return {}

    def n_camps(self) -> int:
        """Return the number of camps of experts with rankings of their own that were found; 1 without a search."""
        return 1

    @property
    def expert_weights_(self) -> pl.DataFrame:
        """What was learned about every expert, as a Polars frame: expert, weight, and details where there are any."""
        learned = self.learned_experts()
        if not learned:
            owner = type(self).__name__
            raise NotFittedError(f"this {owner} has learned nothing about experts: it is not fitted, or learns none.")
        import polars as pl

        return pl.DataFrame(learned)

    def explain(self, preferences: Votes, instance: str | None = None) -> Explanation:
        """Return what every expert adds to the score of every item of one instance.

        Parameters
        ----------
        preferences : Preferences or Comparisons
            What is predicted.
        instance : str, optional
            Which instance; needed where there are several.
        """
        from concordant.data.explanation import explain

        votes = self._checked(preferences)
        self._warn_of_shift(votes)
        return explain(votes, instance, lambda own: self._require_additive(self._contributions(own)))

    def summary(self, instance: str | None = None) -> Summary:
        """Return the estimates of `fit_predict` with standard errors, z, p and intervals, and the log-likelihood.

        It prints as a table. z and p test an estimate against 0: for an item, against the reference of the scores. AIC
        and BIC are there for maximum likelihood only (prior=0); otherwise `no_criteria` says why not.

        Parameters
        ----------
        instance : str, optional
            List the items of this instance only.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("all", None, ["a", "a", "b"], ["b", "c", "c"], [7, 8, 6], [3, 2, 4])
        >>> model = cc.BradleyTerry(prior=0)
        >>> _ = model.fit_predict(votes)
        >>> model.summary()
        BradleyTerry(prior=0): 1 instance, 3 items
        <BLANKLINE>
            estimate  std. error       z       p     95% interval
        items of instance 'all'
          a    0.7406      0.3464   2.138  0.0325   [0.062, 1.420]
          b   -0.1491      0.3165  -0.471   0.638  [-0.769, 0.471]
          c   -0.5915      0.3337  -1.772  0.0763  [-1.246, 0.063]
        <BLANKLINE>
        Log-likelihood: -17.849 on 2 degrees of freedom; 30 outcomes
        AIC: 39.70   BIC: 42.50
        With the coefficients of the counts of each pair (+13.941): -3.907
        Standard errors: observed information
        Prior: none (maximum likelihood)
        Reference: the scores of an instance have mean 0
        """
        self.check_summary()
        report = self._model_report() if "consensus_" in self.__dict__ else None
        if report is None:
            raise NotFittedError(
                f"the summary of {type(self).__name__} is of the data it was fitted to: call fit_predict first."
            )
        from concordant.inference.summary import Summary

        return Summary.of(report, self, instance)

    def check_summary(self) -> None:
        """Raise KindError where the method has no likelihood, and so no summary."""
        if type(self)._model_report is Aggregator._model_report:
            able = [name for name in METHODS if METHODS[name]._model_report is not Aggregator._model_report]
            raise KindError(
                f"{type(self).__name__} has no likelihood, and so no summary. These have: {', '.join(able)}."
            )

    def covariance(self, of: str = "scores", instance: str | None = None) -> pl.DataFrame:
        """Return the covariance of estimates of `fit_predict` as a labelled frame.

        Parameters
        ----------
        of : {"scores", "parameters"}
            The scores of one instance, or what instances share: coefficients of features, side effect, and logarithms
            of tie parameters.
        instance : str, optional
            Which instance, for scores; it may be left out when there is only one.

        Examples
        --------
        >>> import concordant as cc
        >>> votes = cc.Comparisons("all", None, ["a", "b"], ["b", "a"], [5, 2], [1, 2], [2, 1])
        >>> model = cc.BradleyTerry(prior=0)
        >>> _ = model.fit_predict(votes)
        >>> model.covariance().columns, model.covariance("parameters").columns
        (['term', 'a', 'b'], ['term', 'log ν'])
        """
        if of not in ("scores", "parameters"):
            raise ParameterError.invalid("of", "covariance", "'scores' or 'parameters'", of)
        if of == "scores" and "consensus_" in self.__dict__:
            return self.consensus_.covariance_frame(instance)
        known = self._parameter_covariance() if "fit_info_" in self.__dict__ else None
        if of == "parameters" and known is not None:
            return labelled_table(*known)
        what = "scores" if of == "scores" else "parameters that instances share"
        raise NotFittedError(
            f"this {type(self).__name__} has no covariance of {what}: it is not fitted"
            + (" by fit_predict." if of == "scores" else ", or has none.")
        )

    def _model_report(self) -> ModelReport | None:
        """Return the estimates of a fit with a likelihood, None where a fit cannot be summarised."""
        return None

    def _list_likelihood(self, votes: Any) -> Any:
        """Return the likelihood of every list given scores, for mixtures (`ListLikelihood`); None without one."""
        return None

    def _parameter_covariance(self) -> tuple[list[str], Floats] | None:
        """Return the names and the covariance of the parameters that instances share, None without any."""
        return None

    def _identify_data(self, votes: Votes | Blocks) -> None:
        """Record which data a likelihood is of."""
        if type(self)._model_report is Aggregator._model_report or isinstance(votes, Blocks):
            return
        from concordant.inference.likelihood import data_digest

        self.fit_info_.data_digest = data_digest(votes)
        named = isinstance(votes, Preferences) or votes.expert is not None
        self.fit_info_.n_experts = votes.n_experts if named else None
        if isinstance(votes, Preferences):
            self.fit_info_.n_lists = votes.n_lists
            weighted = bool((votes.weights != 1.0).any())
            self.fit_info_.list_weight = float(votes.weights.sum()) if weighted else None

    def _require_additive(
        self, contributions: tuple[list[str], Floats, Floats] | None
    ) -> tuple[list[str], Floats, Floats]:
        """Return the contributions, or raise if the scores are not a sum over experts."""
        if contributions is None:
            can = [
                name
                for name in METHODS
                if METHODS[name]._contributions is not Aggregator._contributions and name != self.name
            ]
            raise KindError(
                f"the scores of {type(self).__name__} with these parameters are no sum over experts, so there is "
                "nothing to explain. Other methods that can be explained, some of them with certain parameters only: "
                f"{', '.join(can)}."
            )
        return contributions

    def _contributions(self, preferences: Any) -> tuple[list[str], Floats, Floats] | None:
        """Return experts, what each adds to the score of every slot (slots × experts), and the rest (one per slot).

        Return None if the scores are not a sum over experts.
        """
        return None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the method, its parameters and what it learned to one file; `concordant.load` reads it back."""
        from concordant.base.saving import save

        save(self, path)

    def _run_fit(self, votes: Votes | Blocks, labels: Labels | None, validation: Any, features: Features | None) -> Any:
        """Reset, fit to checked votes, and return what `_fit` found about these instances for `_consensus`."""
        self._check_features(features)
        if isinstance(votes, Blocks):
            self._check_blocks(features)
        self._reset()
        started = perf_counter()
        self.fit_info_ = FitInfo()
        self._note_missing(votes)
        self._identify_data(votes)
        with self._reraise_interrupt():
            known = None
            if self.tags.blocks or not isinstance(votes, Blocks):
                known = self._fit(votes, labels, validation, features)
            if not isinstance(votes, Blocks):
                self._mark_inverted_experts(votes, labels)
            self.fit_info_.seconds = perf_counter() - started
        return known

    def _mark_inverted_experts(self, votes: Votes, labels: Labels | None) -> None:
        """Call experts with negative weights inverted where the labels confirm it."""
        said = self.__dict__.get("expert_details_", {}).get("meaning")
        if said is None or labels is None:
            return
        from concordant.inference.experts import DISCOUNTED, INVERTED, surely_inverted

        if any(DISCOUNTED in text for text in said):
            sure = surely_inverted(votes, labels, self.experts_)
            self.__dict__["expert_details_"]["meaning"] = [
                text.replace(DISCOUNTED, INVERTED) if known else text for text, known in zip(said, sure, strict=True)
            ]

    @contextmanager
    def _reraise_interrupt(self) -> Iterator[None]:
        """Raise the interrupt that ended a fit, after the method has stored what it learned."""
        try:
            yield
        except BaseException:
            # A second interrupt, or an error, before anything was stored.
            if self._interrupt is not None:
                info = self.fit_info_
                self._reset()
                self.fit_info_, info.interrupted = info, ""
                del self._interrupt
            raise
        if self._interrupt is not None:
            stop = self._interrupt
            del self._interrupt
            raise stop

    def learns_from_blocks(self) -> bool:
        """Return whether a fit with these parameters learns from blocks of instances as from preferences in memory.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.ULARA().learns_from_blocks(), cc.SVDRank().learns_from_blocks()
        (True, False)
        """
        return not self._blocks_obstacle()

    def goes_block_by_block(self, *, fitted: bool = False, weighted: bool = False) -> bool:
        """Return whether blocks can be aggregated with one block in memory at a time, without labels.

        A method that is `fitted`, or learns nothing, needs one block at a time. A method that learns must be able to
        learn from blocks. It cannot where blocks are `weighted` after they are read, because the fit does not see that.

        Examples
        --------
        >>> import concordant as cc
        >>> [m.goes_block_by_block() for m in (cc.RRF(), cc.ULARA(), cc.SVDRank())]
        [True, True, False]
        >>> cc.SVDRank().goes_block_by_block(fitted=True), cc.ULARA().goes_block_by_block(weighted=True)
        (True, False)
        """
        can_learn = self.learns_from_blocks() and not self.needs_labels() and not weighted
        learned = fitted or not self.learns() or can_learn
        return self.tags.per_instance and learned

    def counts_suffice(self, has_experts: bool) -> bool:
        """Return whether comparisons may be collapsed to counts of pairs first, the answer staying the same.

        Parameters
        ----------
        has_experts : bool
            Whether the comparisons say who compared.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.Copeland().counts_suffice(True), cc.BradleyTerry().counts_suffice(True), cc.MPM().counts_suffice(True)
        (True, False, False)
        """
        return self.tags.counts

    def _blocks_obstacle(self) -> str:
        """Return why a fit with these parameters cannot learn from blocks, "" if it can."""
        return "" if self.tags.blocks else f"{type(self).__name__} learns from preferences in memory, not from blocks."

    def _check_blocks(self, features: Features | None) -> None:
        """Raise KindError if a fit with these parameters, or with features, cannot learn from blocks."""
        if features is not None:
            raise KindError(f"{type(self).__name__} takes no features beside blocks. Leave features= out.")
        obstacle = self._blocks_obstacle() if self.learns() else ""
        if obstacle:
            able = [n for n in METHODS if METHODS[n].tags.blocks]
            raise KindError(
                f"{obstacle} Read a part of the preferences, such as concat(blocks[:2]), or use one of "
                f"{', '.join(able)}."
            )

    def _fit(self, preferences: Any, labels: Labels | None, validation: Any, features: Features | None) -> Any:
        """Learn what instances share; the default learns nothing.

        `preferences` are Preferences or Comparisons, and also Blocks if `tags.blocks` is set: `shards_of` makes one
        block of data in memory, so that a method needs a single code path.

        A fit may return what it found about the training instances: `fit_predict` hands it to `_consensus`, which
        then need not infer it again.
        """
        return None

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        """Return the consensus of checked preferences; override to add intervals.

        Large preferences are scored in blocks of whole instances, which fit in the cache of a core and run on several
        cores. The scores are the same, because those of an instance do not depend on the other instances.
        """
        slots = preferences.slots
        if isinstance(preferences, Comparisons) or len(edges := self._block_edges(preferences)) == 2:
            whole = self._scores(preferences)
            return Consensus.from_codes(slots, whole, *self._ranks(whole, slots))

        def block(b: int) -> tuple[Floats, Codes, Ints]:
            part = preferences.window(edges[b], edges[b + 1])
            score = self._scores(part)
            rank, order = self._ranks(score, part.slots)
            return score, rank, order + slots.offsets[edges[b]]

        score, rank, order = zip(*map_instances(block, len(edges) - 1), strict=True)
        return Consensus.from_codes(slots, np.concatenate(score), np.concatenate(rank), np.concatenate(order))

    def _ranks(self, score: Floats, slots: Slots) -> tuple[Codes, Ints]:
        return rank_scores(score, slots.offsets, relative_tolerance=self._relative_tolerance)

    def _block_edges(self, preferences: Preferences) -> list[int]:
        """Return the first instance of each block of about `_BLOCK_ROWS` rows, and the number of instances."""
        n = len(preferences)
        if not self.tags.per_instance or preferences.n_rows < 2 * _BLOCK_ROWS:
            return [0, n]
        ends = preferences.list_offsets[preferences.list_starts]
        marks = np.arange(0, preferences.n_rows, _BLOCK_ROWS)
        # The first block begins at the first instance, even if that one has no rows.
        starts = np.unique(np.searchsorted(ends, marks, side="right") - 1)
        return [0, *starts[1:].tolist(), n]

    def _scores(self, preferences: Any) -> Floats:
        """Return one score per slot, larger is better."""
        raise TypeError(f"{type(self).__name__} must define _scores")

    def _position_tables(
        self,
        names: Sequence[str],
        lengths: Sequence[int],
        weights: Sequence[float] | None,
        n_items: Callable[[], int],
    ) -> tuple[Sequence[Sequence[float]], float] | None:
        """Return what every list of one instance adds to its items by their positions, and a constant to add.

        A table may be longer than its list. Terms are on a grid on which sums are exact, so that sums in any order have
        the bits of `_scores`. Return None if the scores are no such sums, or anything about the lists asks for a check
        or a warning: the ordinary path then scores them.

        Parameters
        ----------
        names, lengths
            The experts, each with one list without ties, and the lengths of the lists.
        weights
            The weights of the lists, None if all are 1.
        n_items
            Returns the number of different items.
        """
        return None

    def _reset(self) -> None:
        """Delete everything that an earlier fit learned."""
        for name in [n for n in self.__dict__ if n.endswith("_") and not n.startswith("_")]:
            del self.__dict__[name]

    def _check_state(self) -> None:
        """Raise DataError if loaded attributes do not fit together: shapes that compiled loops rely on."""

    def _accepted(self, preferences: Votes | Blocks) -> Votes | Blocks:
        """Return the container after the checks of `_checked`; blocks are checked one by one when they are read."""
        if isinstance(preferences, Blocks):
            self._check_kind(preferences.kind)
            return preferences
        return self._weighed(self._checked(preferences))

    def _weighed(self, votes: Votes) -> Votes:
        """Return checked votes with the weights that the method gives them itself, as by their age; by default none."""
        return votes

    def _checked(self, preferences: Votes) -> Votes:
        """Return the container after checking the parameters and that the method works on it.

        Weights of extreme size are scaled if only their ratios matter, and refused otherwise.
        """
        if isinstance(preferences, Preferences):
            kind: str = preferences.kind
        elif isinstance(preferences, Comparisons):
            kind = "comparisons"
        elif isinstance(preferences, Features):
            others = [n for n in METHODS if METHODS[n].takes_features]
            raise KindError.unaccepted(type(self).__name__, "features", self.tags.accepts, others)
        elif isinstance(preferences, Blocks):
            raise KindError(
                f"{type(self).__name__} needs preferences in memory here, not blocks. Pass one block, such as "
                "blocks[0], or several: concat(blocks[:2])."
            )
        else:
            raise KindError(
                f"{type(self).__name__} works on Preferences or Comparisons. Got {type(preferences).__name__}. "
                "Use concordant.from_lists, from_frame or one of the readers."
            )
        self._check_kind(kind)
        return usable_weights(preferences, type(self).__name__, relative=self._relative_weights)

    def _check_features(self, features: object) -> None:
        """Raise KindError if features are given to a method that does not use them."""
        if features is not None and not self.uses_features:
            able = ", ".join(n for n in METHODS if METHODS[n].uses_features)
            raise KindError(
                f"{type(self).__name__} does not use features. Leave features= out, or use one that does: {able}."
            )

    def _check_kind(self, kind: str) -> None:
        """Check the parameters, and that the method works on preferences of this kind."""
        check_params(type(self).__name__, self.__dict__, self.constraints)
        if kind not in self.tags.accepts:
            others = [n for n in METHODS if kind in METHODS[n].tags.accepts]
            raise KindError.unaccepted(type(self).__name__, kind, self.tags.accepts, others)

    def _data_shift(self, preferences: Any) -> str:
        """Return in words how the data differ from the training data so that predictions suffer; "" if they do not."""
        return ""

    def _warn_of_shift(self, preferences: Any) -> None:
        if message := self._data_shift(preferences):
            warn(message, DataShiftWarning)

    def _warn(self, message: str, category: type[ConcordantWarning] = ConcordantWarning, *settings: Setting) -> None:
        """Give a warning that advises some settings, and record it in `fit_info_`."""
        if hasattr(self, "fit_info_"):
            self.fit_info_.warnings.append(message)
        warn(message, category, *settings)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=self.tags.supervised),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

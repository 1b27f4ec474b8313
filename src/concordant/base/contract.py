"""The contract: what every method takes, gives and promises, and the few lines that keep the promise for all of them.

A method says what it accepts in its tags, what its parameters may be in `constraints`, and turns preferences into
scores in one hook. Checking, naming, timing and saving are done here, once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from concordant.arrays import Bools, Codes, Floats, Ints
from concordant.base.block_consensus import consensus_of_blocks
from concordant.base.params import Constraint, check_params
from concordant.base.registry import METHODS
from concordant.base.weights import usable_weights
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus, rank_scores
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
    warn,
)
from concordant.execution import map_instances
from concordant.execution.blocks import Blocks

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl

    from concordant.data.labels import Labels
    from concordant.inference.explanation import Explanation

__all__ = ["Aggregator", "FitInfo", "Tags"]

Votes = Preferences | Comparisons


def _declared_below(data: Votes | Blocks) -> Bools:
    """Return, for the instances in which some list leaves items out, whether those are declared below; of blocks all.

    Comparisons leave nothing out. Blocks are not read for it.
    """
    if isinstance(data, Preferences):
        return data.below()[data.leaves_out()]
    if isinstance(data, Blocks):
        return np.broadcast_to(np.asarray(data.below), len(data.instances))
    return np.zeros(0, dtype=np.bool_)


def _some_left_out(blocks: Blocks) -> bool:
    """Return whether some list of blocks leaves out items that are declared below; read up to the first such block."""
    each = (next(iter(blocks.shards.select([b]).map(_leaves_out_below))) for b in range(len(blocks)))
    return any(each)


def _leaves_out_below(block: Preferences) -> bool:
    return bool(_declared_below(block).any())


# Rows scored at one time: few enough to stay near a core, many enough that threads seldom wait for the interpreter.
_BLOCK_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Tags:
    """What a method can do; the contract checks hold it to its word.

    Attributes
    ----------
    accepts : frozenset of {"rank", "score", "rating", "comparisons"}
        The containers it works on.
    supervised : bool
        Whether `fit` needs labels.
    per_instance : bool
        Whether an instance's scores depend on that instance alone (given what `fit` learned).
    weights, ties : bool
        Whether weights of lists count, and whether ties inside a list are allowed.
    uncertainty, stochastic : bool
        Whether it gives intervals, and whether chance enters (seeded by `random_state`).
    faithful : bool
        Whether one expert gets its own order back and unanimous preferences are kept, as far as scores differ by more
        than the tie rule allows (1e-12 of the largest).
    counts : bool
        Whether of comparisons only the counts of pairs matter, and not who compared (see `counts_suffice`).
    blocks : bool
        Whether `fit` also learns from blocks of instances that do not fit in memory (see `learns_from_blocks`).
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
    cost: str = "O(R)"


@dataclass(slots=True)
class FitInfo:
    """How a fit went; always set after `fit`.

    Attributes
    ----------
    n_iter, converged, objective, gradient_norm, trace
        Of the iteration, where there is one; the gradient is that of the objective, in the scale the method's page
        states.
    seconds : float
        How long `fit` took.
    warnings : list of str
        What was said about the data and the fit.
    uncertainty : str or None
        How the intervals were made, None without intervals.
    labels : dict of str to int
        How far the labels went in a supervised fit: instances, those labelled and usable, items, those judged and
        unjudged, and labels of items that are elsewhere.
    validation : float or None
        The value of the metric chosen by, on instances not learned from.
    chosen : dict
        What was chosen by it, such as the transform, the learning rate and the number of passes.
    interrupted : str
        Where an interrupt ended the fit, empty without one.
    missing : str or None
        As what items counted that a list leaves out: "unknown", "below", or "below in 12 of 50 instances"; None where
        no list leaves any out, and in methods to which it makes no difference.
    """

    n_iter: int = 0
    converged: bool = True
    objective: float | None = None
    gradient_norm: float | None = None
    trace: list[float] = field(default_factory=list)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    uncertainty: str | None = None
    labels: dict[str, int] = field(default_factory=dict)
    validation: float | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    interrupted: str = ""
    missing: str | None = None


class Aggregator:
    """Base of every method. Subclasses set `name`, `tags`, `constraints` and write `_scores`.

    Parameters are keyword-only, assigned and nothing else, so that `get_params`, `set_params` and scikit-learn's
    `clone` work. Learned state ends in an underscore.
    """

    name: ClassVar[str]
    tags: ClassVar[Tags]
    constraints: ClassVar[Mapping[str, Constraint]] = {}
    # Whether features of items alone are an input, in the place of preferences.
    takes_features: ClassVar[bool] = False
    # Whether `fit` uses `features=` beside preferences; given to any other method they are an error.
    uses_features: ClassVar[bool] = False
    # Whether it has no way to obey lists that put what they leave out below, and takes it as unknown.
    _missing_is_unknown: ClassVar[bool] = False
    # Whether it can do either, and does as the preferences declare where nobody says otherwise.
    _honours_missing: ClassVar[bool] = False
    # Whether only the ratios of an instance's weights count, so that they may have any size.
    _relative_weights: ClassVar[bool] = False
    # Whether the rounding error of a score is a part of the score itself, not of the largest one: it decides on ties.
    _relative_tolerance: ClassVar[bool] = False
    _param_names: ClassVar[tuple[str, ...]] = ()
    # The interrupt that ended a fit early, raised again once the method holds what it learned.
    _interrupt: BaseException | None = None

    fit_info_: FitInfo
    consensus_: Consensus
    experts_: list[str]
    adherence_: Floats

    # A method without parameters needs no __init__ of its own; that of `object` would look as if it took any.
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

        A method whose parameters decide it overrides this.

        Examples
        --------
        >>> import concordant as cc
        >>> cc.RRF().needs_labels(), cc.CPS(adherence="supervised").needs_labels()
        (False, True)
        """
        return self.tags.supervised

    def learns(self) -> bool:
        """Return whether a fit with these parameters learns something that instances share.

        Where it does not, an instance gets the same scores whichever others are there.

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
        """Return as what items count that a list leaves out; None where no list does, or it makes no difference.

        Of blocks, which are not looked through for it, it is told in any case.

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
        """Note as what items count that a list leaves out, and warn where a declaration cannot be obeyed."""
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
            f"the preferences declare items that a list leaves out below what it holds; {type(self).__name__} takes "
            "them as unknown, so that an item is judged by the lists that hold it alone. Methods that obey: "
            f"{', '.join(able)}. Declare missing='unknown' if that is meant."
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
        """Learn what is shared over instances and return self; a method that shares nothing only checks its input.

        Blocks, from `scan`, are gone through where they lie, on disk or on the workers of a cluster, by methods whose
        statistics add up over instances.
        """
        self._run_fit(self._accepted(preferences), labels, validation, features)
        return self

    def predict(self, preferences: Votes | Blocks) -> Consensus:
        """Return the consensus of each instance of `preferences`, what `fit` learned being held fixed.

        Blocks are read one by one; the consensus of all of them is held in memory. `aggregate_blocks` writes it to a
        file instead.
        """
        if isinstance(preferences, Blocks):
            self._accepted(preferences)
            return Consensus.concat(list(consensus_of_blocks(preferences.shards, self)))
        votes = self._checked(preferences)
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
        """Return what was learned about the experts, column by column; empty where nothing is.

        The columns are `expert`, `weight` (the adherence), and whatever else the method keeps in `expert_details_`.
        """
        if "adherence_" not in self.__dict__:
            return {}
        details = {n: np.asarray(c).tolist() for n, c in self.__dict__.get("expert_details_", {}).items()}
        return {"expert": list(self.experts_), "weight": np.asarray(self.adherence_).tolist()} | details

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
        from concordant.inference.explanation import explain

        votes = self._checked(preferences)
        self._warn_of_shift(votes)
        return explain(votes, instance, lambda own: self._require_additive(self._contributions(own)))

    def _require_additive(
        self, contributions: tuple[list[str], Floats, Floats] | None
    ) -> tuple[list[str], Floats, Floats]:
        """Return the contributions, or raise where the scores are no sum over experts."""
        if contributions is None:
            can = [name for name in METHODS if METHODS[name]._contributions is not Aggregator._contributions]
            raise KindError(
                f"the scores of {type(self).__name__} with these parameters are no sum over experts, so there is "
                "nothing to take apart. Methods that can be explained, some of them with certain parameters only: "
                f"{', '.join(can)}."
            )
        return contributions

    def _contributions(self, preferences: Any) -> tuple[list[str], Floats, Floats] | None:
        """Return experts, what each adds to every slot (slots × experts) and what is added besides (one per slot).

        None says that the scores are no sum over experts.
        """
        return None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the method, its parameters and what it learned to one file; `concordant.load` reads it back."""
        from concordant.base.saving import save

        save(self, path)

    def _run_fit(self, votes: Votes | Blocks, labels: Labels | None, validation: Any, features: Features | None) -> Any:
        """Fit afresh on checked votes and return what `_fit` found out about these very instances."""
        self._check_features(features)
        if isinstance(votes, Blocks):
            self._check_blocks(features)
        self._reset()
        started = perf_counter()
        self.fit_info_ = FitInfo()
        self._note_missing(votes)
        with self._reraise_interrupt():
            known = None
            if self.tags.blocks or not isinstance(votes, Blocks):
                known = self._fit(votes, labels, validation, features)
            if not isinstance(votes, Blocks):
                self._mark_inverted_experts(votes, labels)
            self.fit_info_.seconds = perf_counter() - started
        return known

    def _mark_inverted_experts(self, votes: Votes, labels: Labels | None) -> None:
        """Call those experts inverted whose order labels show to be so, among those with weights below 0."""
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
        """Give a block for a fit; an interrupt that ended it is raised when the method holds what it has learned."""
        try:
            yield
        except BaseException:
            # A second interrupt, or an error, before it held anything.
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

    def goes_block_by_block(self, *, fitted: bool = False) -> bool:
        """Return whether the consensus of blocks can be reached block by block, without labels.

        A method that is `fitted`, or learns nothing, needs no more than the instances of one block. One that learns
        goes over the blocks first.

        Examples
        --------
        >>> import concordant as cc
        >>> [m.goes_block_by_block() for m in (cc.RRF(), cc.ULARA(), cc.SVDRank())]
        [True, True, False]
        >>> cc.SVDRank().goes_block_by_block(fitted=True)
        True
        """
        learned = fitted or not self.learns() or (self.learns_from_blocks() and not self.needs_labels())
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
        """Return why a fit with these parameters cannot learn from blocks, "" where it can."""
        return "" if self.tags.blocks else f"{type(self).__name__} learns from preferences in memory, not from blocks."

    def _check_blocks(self, features: Features | None) -> None:
        """Raise where a fit with these parameters, or with features, cannot learn from blocks."""
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
        """Learn what is shared over instances; the default shares nothing and so learns nothing.

        `preferences` are Preferences or Comparisons, and also Blocks where `tags.blocks` is set: `shards_of` makes
        one block of what is in memory, so that a method has one way to learn from all of them.

        What a fit finds out about the training instances on the way may be returned: `fit_predict` hands it to
        `_consensus`, so that nothing is inferred twice.
        """
        return None

    def _consensus(self, preferences: Votes, known: Any = None) -> Consensus:
        """Return the consensus of checked preferences; override to add intervals.

        Large preferences are scored block by block of whole instances: what a block needs stays in the cache of a
        core, and cores share the blocks. An instance's scores do not depend on its company, so nothing else changes.
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
        """Return the instances at which blocks of about `_BLOCK_ROWS` rows begin, and the end."""
        n = len(preferences)
        if not self.tags.per_instance or preferences.n_rows < 2 * _BLOCK_ROWS:
            return [0, n]
        ends = preferences.list_offsets[preferences.list_starts]
        marks = np.arange(0, preferences.n_rows, _BLOCK_ROWS)
        # The first block begins at the first instance, even where that one has no rows.
        starts = np.unique(np.searchsorted(ends, marks, side="right") - 1)
        return [0, *starts[1:].tolist(), n]

    def _scores(self, preferences: Any) -> Floats:
        """Return one score per slot, larger is better."""
        raise TypeError(f"{type(self).__name__} does not say how to score")

    def _reset(self) -> None:
        """Drop everything an earlier fit learned, so that a refit starts afresh."""
        for name in [n for n in self.__dict__ if n.endswith("_") and not n.startswith("_")]:
            del self.__dict__[name]

    def _check_state(self) -> None:
        """Raise DataError where what was loaded does not fit together; for shapes that compiled loops rely on."""

    def _accepted(self, preferences: Votes | Blocks) -> Votes | Blocks:
        """Return the container after the checks of `_checked`; blocks are checked one by one when they are read."""
        if isinstance(preferences, Blocks):
            self._check_kind(preferences.kind)
            return preferences
        return self._checked(preferences)

    def _checked(self, preferences: Votes) -> Votes:
        """Return the container after checking the parameters and that the method works on it.

        Weights of extreme size are scaled where only their ratios count, and refused elsewhere.
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
                f"{type(self).__name__} does this with preferences in memory, not with blocks. Pass one block, such as "
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
        """Raise where features are given beside preferences to a method that would not look at them."""
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
        """Return how the data differ from those learned from, in a way that the method cannot make up for, or ""."""
        return ""

    def _warn_of_shift(self, preferences: Any) -> None:
        if message := self._data_shift(preferences):
            warn(message, DataShiftWarning)

    def _warn(self, message: str, category: type[ConcordantWarning] = ConcordantWarning) -> None:
        """Give a warning and keep it in `fit_info_`."""
        if hasattr(self, "fit_info_"):
            self.fit_info_.warnings.append(message)
        warn(message, category)

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

"""Base class of the methods that learn from features of items, from preferences turned into features, or from both.

Features are matched by name and item. Preferences become columns of each expert, in a way that the method chooses, and
features of the items may stand beside them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Aggregator, Votes
from concordant.base.params import Within, check_params
from concordant.data.comparisons import Comparisons
from concordant.data.consensus import Consensus
from concordant.data.features import Features
from concordant.data.index import Slots, Texts
from concordant.data.labels import Labels
from concordant.data.preferences import Preferences
from concordant.errors import DataError, KindError, ParameterError, Setting, listing
from concordant.execution.blocks import Blocks
from concordant.features.expert_features import WeightBlocks, weight_blocks
from concordant.kernels.lists import offsets_of
from concordant.learning.shift import RECORDED_RANGE, depth_shift, kind_shift
from concordant.ranking._array_input import array_validation, as_containers, as_matrix, match_features, select_columns
from concordant.ranking.design_matrix import row_blocks

if TYPE_CHECKING:
    from concordant.data.explanation import Explanation

__all__ = ["FeatureMethod"]


class FeatureMethod(Aggregator):
    """Base class of methods that score items by their features; a subclass learns, and scores a matrix.

    There are three forms of input. `Features` with `Labels` give a `Consensus`. Arrays and data frames, with
    `fit(X, y, qid=...)` or `group=[sizes]`, give an array with a score for every row. Preferences are converted to
    features of their experts; `features=` adds features of the items.
    """

    takes_features = uses_features = True
    # Whether features may be NaN; infinite ones never may.
    _takes_nan: ClassVar[bool] = False

    unknown_experts: str

    feature_names_: list[str]
    item_features_: list[str]
    experts_: list[str]
    shared_: Annotated[int, Within(least=-1)]
    training_: Annotated[dict[str, Any], RECORDED_RANGE]

    def _require_fitted(self) -> None:
        """Raise NotFittedError if nothing was learned."""
        raise TypeError(f"{type(self).__name__} must define _require_fitted")

    def _score_matrix(self, X: Floats, slots: Slots | None) -> Floats:
        """Return the score of every row; `slots` are None for the rows of an array."""
        raise TypeError(f"{type(self).__name__} must define _score_matrix")

    def _expert_columns(self, votes: Votes, blocks: WeightBlocks, rows: Ints | None = None) -> tuple[Floats, list[str]]:
        """Return the features made from the preferences (of some slots), and the names of the columns."""
        raise TypeError(f"{type(self).__name__} must define _expert_columns")

    def _contributions(
        self, preferences: Any, features: Features | None = None
    ) -> tuple[list[str], Floats, Floats] | None:
        """Return what each expert and each feature of the items adds to every score; None if it is no sum."""
        return None

    # The methods of every aggregator, which also take features and arrays.

    def fit(
        self,
        data: Any,
        labels: Any = None,
        *,
        qid: Any = None,
        group: Any = None,
        validation: Any = None,
        features: Features | None = None,
    ) -> Self:
        """Learn from features or preferences with labels and return self.

        Parameters
        ----------
        data : Features, Preferences, Comparisons, or array (rows, features)
            The features of the items, or the preferences to make them from.
        labels : Labels, or array of rows
            The ground truth; larger is better. Only the order of the labels matters, except to LambdaRank.
        qid : sequence, optional
            For arrays, the instance of every row.
        group : sequence of int, optional
            For arrays, the number of rows of each instance, in order.
        validation : pair (data, labels), optional
            The data that select passes and penalties; for arrays (X, y, qid), or (X, y, group) with `group`.
        features : Features, optional
            Features of the items, used beside the preferences of experts. `validation` then is (preferences, labels,
            features).
        """
        if not isinstance(data, (Features, Preferences, Comparisons, Blocks)):
            data, labels = as_containers(type(self).__name__, data, labels, qid, group)
            if validation is not None:
                validation = array_validation(type(self).__name__, validation, group is not None)
        elif qid is not None or group is not None:
            raise ParameterError("qid and group are for arrays; containers know their instances.")
        self._run_fit(self._checked(data), labels, validation, features)
        return self

    def predict(self, data: Any, *, features: Features | None = None) -> Any:
        """Return the consensus of features or preferences, or an array of scores for the rows of an array."""
        if isinstance(data, Blocks):
            if features is not None:
                raise KindError(f"{type(self).__name__} takes no features beside blocks. Leave features= out.")
            return super().predict(data)
        if isinstance(data, (Features, Preferences, Comparisons)):
            votes = self._checked(data)
            self._require_fitted()
            self._warn_of_shift(votes)
            return Consensus.from_codes(
                votes.slots, self._score_matrix(self._feature_matrix(votes, features), votes.slots)
            )
        check_params(type(self).__name__, self.__dict__, self.constraints)
        self._require_fitted()
        X, names = as_matrix(data, type(self).__name__)
        return self._score_matrix(self._fitted_columns(X, names, None), None)

    def fit_predict(
        self,
        data: Any,
        labels: Any = None,
        *,
        qid: Any = None,
        group: Any = None,
        validation: Any = None,
        features: Features | None = None,
    ) -> Any:
        """Fit, then return the consensus (or the scores) of the same data."""
        self.fit(data, labels, qid=qid, group=group, validation=validation, features=features)
        found = self.predict(data, features=features)
        if isinstance(found, Consensus):
            self.consensus_ = found
        return found

    def _checked(self, data: Any) -> Any:
        if isinstance(data, Features):
            check_params(type(self).__name__, self.__dict__, self.constraints)
            return data
        return super()._checked(data)

    def _scores(self, preferences: Any) -> Floats:
        self._require_fitted()
        return self._score_matrix(self._feature_matrix(preferences, None), preferences.slots)

    def _feature_matrix(self, data: Any, features: Features | None) -> Floats:
        """Return the features of the slots with the columns of the training data; unknown values are NaN."""
        name = type(self).__name__
        if isinstance(data, Features):
            if "experts_" in self.__dict__:
                raise KindError(f"this {name} was fitted on preferences. Got Features; fit it on Features first.")
            if features is not None:
                raise ParameterError("features= goes with preferences; the data are features already.")
            return self._fitted_columns(data.X, data.names, data.slots)
        if "experts_" not in self.__dict__:
            raise KindError(
                f"this {name} was fitted on features. Got {type(data).__name__}. Give it Features, or fit it on "
                "preferences."
            )
        X = self._expert_columns(data, WeightBlocks(self.experts_, self.shared_))[0]
        if not self.item_features_:
            if features is not None:
                raise ParameterError(f"this {name} was fitted without features of items; leave features= out.")
            return X
        if features is None:
            raise DataError(f"this {name} was fitted with features of items beside the experts. Pass features=.")
        own = select_columns(match_features(features, data, name), features.names, self.item_features_, name)
        self._require_finite(own, Texts(self.item_features_), data.slots)
        return np.concatenate([X, own], axis=1)

    def _fitted_columns(self, X: Floats, names: Texts | None, slots: Slots | None) -> Floats:
        """Return the columns of a matrix of features in the order of the training data."""
        if "experts_" in self.__dict__:
            raise KindError(f"this {type(self).__name__} was fitted on preferences. Got an array.")
        if names is None:
            if X.shape[1] != len(self.feature_names_):
                raise DataError(
                    f"this {type(self).__name__} was fitted on {len(self.feature_names_)} features. Got {X.shape[1]}."
                )
        else:
            X = select_columns(X, names, self.feature_names_, type(self).__name__)
        self._require_finite(X, Texts(self.feature_names_), slots)
        return X

    def _require_finite(self, X: Floats, names: Texts, slots: Slots | None) -> None:
        """Raise DataError if a feature is infinite, or NaN with nan="error"."""
        is_invalid = np.isinf if self._takes_nan else lambda part: ~np.isfinite(part)
        for block in row_blocks(len(X), X.shape[1]):
            found = is_invalid(X[block])
            if not found.any():
                continue
            row, column = (int(v[0]) for v in np.nonzero(found))
            row += block.start
            value = float(X[row, column])
            where = f"row {row}"
            if slots is not None:
                instance, item = slots.where(row)
                where = f"item {item!r} of instance {instance!r}"
            mean = Setting("nan", "mean")
            hint = (
                f" Pass {mean} to replace it by the training mean."
                if np.isnan(value)
                else " Features must be finite, or NaN for unknown values."
            )
            raise DataError(
                f"{type(self).__name__} cannot use feature {names[column]!r} of {where}: it is {value!r}.{hint}"
            ).advising(mean)

    def explain(self, data: Any, instance: str | None = None, *, features: Features | None = None) -> Explanation:
        """Return the contribution of every expert and every feature to the score of every item of one instance.

        Parameters
        ----------
        data : Features, Preferences or Comparisons
            The data, as for `predict`.
        instance : str, optional
            The instance; required if there are several.
        features : Features, optional
            Features of the items, if the ranker was fitted with preferences and features.
        """
        from concordant.data.explanation import explain

        votes = self._checked(data)
        self._warn_of_shift(votes)
        return explain(votes, instance, lambda own: self._require_additive(self._contributions(own, features)))

    def _data_shift(self, preferences: Any) -> str:
        if isinstance(preferences, Features) or "experts_" not in self.__dict__:
            return ""
        blocks = WeightBlocks(self.experts_, self.shared_)
        return kind_shift(self, preferences) or depth_shift(
            self, preferences, lambda: blocks.block_of_expert(preferences, type(self).__name__, self.unknown_experts)
        )

    def _training_features(self, data: Any, features: Features | None, rows: Ints | None = None) -> Features:
        """Return the training data as features (of some slots), and set the names of columns and experts."""
        slots = _slots_at(data.slots, rows)
        if isinstance(data, Features):
            if features is not None:
                raise ParameterError("features= goes with preferences; the data are features already.")
            self.feature_names_ = self.item_features_ = _distinct(data.names.tolist())
            self._require_finite(data.X, data.names, data.slots)
            return data if rows is None else Features.from_codes(slots, data.X[rows], data.names)
        blocks = weight_blocks(data)
        self.experts_, self.shared_ = blocks.names, blocks.shared
        own = None if features is None else match_features(features, data, type(self).__name__, rows)
        self.item_features_ = [] if features is None else _distinct(features.names.tolist())
        self.feature_names_ = list(self.item_features_)
        X, names = self._expert_columns(data, blocks, rows)
        if own is not None:
            self._require_finite(own, Texts(self.item_features_), slots)
            X = np.concatenate([X, own], axis=1)
        self.feature_names_ = names + self.item_features_
        return Features.from_codes(slots, X, Texts(self.feature_names_))

    def _validation_features(self, validation: Any) -> tuple[Features, Labels] | None:
        """Return the features and labels of the validation data, with the columns of the training data."""
        if validation is None:
            return None
        allowed = "a pair (data, labels), or (preferences, labels, features)"
        if not isinstance(validation, tuple) or len(validation) not in (2, 3) or not isinstance(validation[1], Labels):
            raise ParameterError.invalid("validation", f"{type(self).__name__}.fit", allowed, validation)
        data, labels = validation[0], validation[1]
        if not isinstance(data, (Features, Preferences, Comparisons)):
            raise ParameterError.invalid("validation", f"{type(self).__name__}.fit", allowed, validation)
        X = self._feature_matrix(data, validation[2] if len(validation) == 3 else None)
        return Features.from_codes(data.slots, X, Texts(self.feature_names_)), labels


def _distinct(names: list[str]) -> list[str]:
    """Return the names of features; raise DataError if two are equal."""
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise DataError(f"several features are called {listing(repeated, 5)}. Give each a name of its own.")
    return names


def _slots_at(slots: Slots, rows: Ints | None) -> Slots:
    """Return some of the slots, which are in ascending order; all of them without `rows`."""
    if rows is None:
        return slots
    sizes = np.bincount(slots.instance[rows], minlength=len(slots))
    return Slots(slots.instances, slots.items.take(rows), offsets_of(sizes))

"""Convert arrays with query ids or group sizes to containers, and match feature columns by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from concordant.arrays import Floats, Ints
from concordant.base.contract import Votes
from concordant.data.features import Features, check_all_found
from concordant.data.index import Slots, Texts, as_ids
from concordant.data.labels import Labels
from concordant.errors import DataError, KindError, ParameterError, listing
from concordant.kernels.lists import offsets_of

__all__ = ["array_validation", "as_containers", "as_matrix", "select_columns", "match_features"]


def match_features(features: Features, votes: Votes, owner: str, slots: Ints | None = None) -> Floats:
    """Return the features of every slot of the votes (or of some of them), matched by id."""
    if not isinstance(features, Features):
        raise KindError(f"features= takes Features. Got {type(features).__name__}.")
    rows = votes.slots.locate(features.slots)
    check_all_found(rows, votes, owner)
    return features.X[rows if slots is None else rows[slots]]


def select_columns(X: Floats, names: Texts, wanted: list[str], owner: str) -> Floats:
    """Return the wanted columns, matched by name; raise DataError if one is absent."""
    if names.tolist() == wanted:
        return X
    codes = names.codes
    absent = [n for n in wanted if n not in codes]
    if absent:
        hint = ""
        if len(names) < len(wanted) and names.tolist() == wanted[: len(names)]:
            hint = f" Was the file read with too few columns? Pass n_features={len(wanted)} to read_features."
        elif len(names) == len(wanted) and wanted == [str(n + 1) for n in range(len(wanted))]:
            hint = " It was fitted on columns without names: pass the numbers without names too."
        raise DataError(
            f"{owner} was fitted on {len(wanted)} features; {len(absent)} of them are absent: {listing(absent, 5)}. "
            f"There are {listing(names.tolist(), 5)}.{hint}"
        )
    return X[:, [codes[n] for n in wanted]]


def as_matrix(X: Any, owner: str) -> tuple[Floats, Texts | None]:
    """Return an array or data frame as a matrix, and the names of its columns, None without names."""
    names = getattr(X, "columns", None)
    if hasattr(X, "toarray"):
        raise KindError(f"{owner} works on dense numbers. Got {type(X).__name__}: pass X.toarray().")
    try:
        out = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KindError(
            f"{owner} works on Features, Preferences or Comparisons, or on an array or data frame of numbers, rows by "
            f"features. Got {type(X).__name__}: {error}."
        ) from None
    if out.ndim != 2:
        raise DataError(f"X must have two dimensions, rows and features. Got {type(X).__name__} of shape {out.shape}.")
    # A view, because containers make their arrays read-only, and this one belongs to the caller.
    return out.view(), None if names is None else Texts(as_ids(names, "feature"))


def as_containers(owner: str, X: Any, y: Any, qid: Any, group: Any) -> tuple[Features, Labels]:
    """Return arrays as features and labels; the row numbers become the ids of the items."""
    matrix, names = as_matrix(X, owner)
    n = len(matrix)
    if y is None:
        raise DataError(f"{owner} learns from labels and got none. Call fit(X, y, qid=...).")
    if isinstance(y, Labels):
        raise KindError(f"{owner} takes Labels with Features or preferences, and an array of labels with an array.")
    try:
        label = np.array(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y must hold numbers, one for each row: {error}.") from None
    if label.size != n or label.shape[:1] != (n,):
        raise DataError(f"y must hold one label for each of the {n} rows of X. Got shape {label.shape}.")
    label = label.ravel()
    if np.isinf(label).any():
        raise DataError(f"y of row {int(np.flatnonzero(np.isinf(label))[0])} is infinite.")
    if (qid is None) == (group is None):
        raise ParameterError(f"{owner}.fit needs to know which rows belong together: pass either qid= or group=.")
    if group is not None:
        sizes = np.asarray(group)
        if sizes.size == 0:
            sizes = np.zeros(0, dtype=np.int64)
        if sizes.ndim != 1 or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 0).any() or sizes.sum() != n:
            found = f"add up to {sizes.sum()}" if np.issubdtype(sizes.dtype, np.number) else f"are of {sizes.dtype}"
            raise DataError(
                f"group must hold the sizes of the instances, whole numbers that add up to the {n} rows of X. Those "
                f"given {found}. Pass qid= where there is an id for each row."
            )
        instances = [str(k) for k in range(len(sizes))]
        instance = np.repeat(np.arange(len(sizes)), sizes)
    else:
        ids = _row_ids(qid)
        if len(ids) != n:
            raise DataError(f"X has {n} rows, qid has {len(ids)} entries: it takes the instance of every row.")
        first = dict.fromkeys(ids)
        codes = {q: k for k, q in enumerate(first)}
        instances, instance = list(first), np.array([codes[q] for q in ids], dtype=np.int64)
    order = np.argsort(instance, kind="stable")
    in_order = bool((order == np.arange(n)).all())
    slots = Slots(
        Texts(instances),
        Texts([str(r) for r in order.tolist()]),
        offsets_of(np.bincount(instance, minlength=len(instances))),
    )
    return (
        Features.from_codes(slots, matrix if in_order else matrix[order], names),
        Labels.from_codes(slots, label if in_order else label[order]),
    )


def _row_ids(qid: Any) -> list[str]:
    """Return the instance of every row as text."""
    values = np.asarray(qid) if isinstance(qid, np.ndarray) else qid
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise DataError(f"qid must have one dimension, an instance for each row. Got shape {values.shape}.")
    try:
        return as_ids(values, "instance")
    except TypeError:
        raise DataError(f"qid must hold the instance of every row. Got {qid!r}.") from None


def array_validation(owner: str, validation: Any, by_group: bool) -> tuple[Features, Labels]:
    """Return validation arrays as features and labels."""
    if not isinstance(validation, tuple) or len(validation) != 3:
        kind = "group" if by_group else "qid"
        raise ParameterError.invalid("validation", f"{owner}.fit", f"three arrays (X, y, {kind})", validation)
    X, y, where = validation
    return as_containers(owner, X, y, None if by_group else where, where if by_group else None)

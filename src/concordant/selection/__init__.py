"""Choosing methods and parameters, and numbers that were not tuned on: everything is split by instance.

`cross_validate` says how good a method is on instances it never saw, `GridSearch` and `RandomSearch` choose by that,
and `nested` says how good the choosing is. `scorer` does the evaluation where scikit-learn does the searching.
"""

from concordant.selection.cross_validation import CrossValidation, Nested, Run, cross_validate, nested
from concordant.selection.scoring import Scorer, scorer
from concordant.selection.search import GridSearch, RandomSearch, Tried

__all__ = [
    "CrossValidation",
    "GridSearch",
    "Nested",
    "RandomSearch",
    "Run",
    "Scorer",
    "Tried",
    "cross_validate",
    "nested",
    "scorer",
]

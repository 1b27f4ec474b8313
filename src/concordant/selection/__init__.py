"""Cross-validation and parameter search; all splits are by instance.

`cross_validate` evaluates a method on instances it was not fitted to. `GridSearch` and `RandomSearch` choose methods
and parameters, and `nested` evaluates the choice by nested cross-validation. `scorer` evaluates inside scikit-learn's
own searches.
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

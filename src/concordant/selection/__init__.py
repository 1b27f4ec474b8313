"""Cross-validation and parameter search: by instance with labels, or by votes that a model predicts.

`cross_validate` evaluates a method on instances it was not fitted to. `GridSearch` and `RandomSearch` choose methods
and parameters, and `nested` evaluates the choice by nested cross-validation. `scorer` evaluates inside scikit-learn's
own searches. `auto` chooses among methods within a time budget.
"""

from concordant.selection.automatic import Auto, AutoTrial, auto
from concordant.selection.cross_validation import CrossValidation, Nested, Run, cross_validate, nested
from concordant.selection.held_out_votes import VoteRun, evaluate_votes
from concordant.selection.scoring import Scorer, scorer
from concordant.selection.search import GridSearch, RandomSearch, Tried

__all__ = [
    "Auto",
    "AutoTrial",
    "CrossValidation",
    "GridSearch",
    "Nested",
    "RandomSearch",
    "Run",
    "Scorer",
    "Tried",
    "VoteRun",
    "auto",
    "cross_validate",
    "evaluate_votes",
    "nested",
    "scorer",
]

"""How a consensus is reached: one file per family, found by the registry.

Python puts a package that is imported under its name into the one above it, and so this one takes the place of the
function `concordant.methods` as soon as a method is used. Called, it does what the function does.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


class _Callable(ModuleType):
    def __call__(self) -> "pl.DataFrame":
        from concordant.base.registry import methods

        return methods()


sys.modules[__name__].__class__ = _Callable

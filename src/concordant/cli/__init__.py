"""The command line, one file per command. Every module is light to import; what does the work is imported late.

A package adds a command of its own by an entry point of the group `concordant.commands`: the name of the command, and a
function whose parameters Typer turns into arguments and options. What such a function needs is here: `Session`, which
shows tables, notes, progress and errors as the other commands do, `Table`, and the options all commands share.
"""

from importlib import import_module as _import_module

# As type checkers know it, without importing `typing`, which takes a fifth of `concordant --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from concordant.cli._options import Debug, Json, Quiet
    from concordant.cli._output import Session, Table

__all__ = ["Debug", "Json", "Quiet", "Session", "Table"]


def __getattr__(name: str) -> object:
    # Typer is loaded only when a command is: `concordant --version` answers without it.
    if name in __all__:
        return getattr(_import_module(f"{__name__}.{'_output' if name in ('Session', 'Table') else '_options'}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

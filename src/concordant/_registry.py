"""Registry of methods, metrics or file formats by name, from this package and from installed plug-ins.

A module is imported when one of its names is asked for. Plug-ins are looked up only when a name is unknown or all names
are listed: `concordant.methods`, `concordant.metrics` and `concordant.formats` are the groups of their entry points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from concordant.errors import ConcordantError, ConcordantWarning, ParameterError, quote, shorten, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Entries by name.

    Parameters
    ----------
    what : str
        What an entry is: "method", "metric" or "format".
    builtin : mapping
        From the name of each entry of this package to ``module:...``.
    packages : sequence of str
        The packages whose modules register the entries of this package.

    Attributes
    ----------
    entries : dict
        What is registered so far.
    owners : dict
        The module that registered each of them.

    Examples
    --------
    >>> from concordant.base.registry import METHODS
    >>> METHODS["borda"].__name__, "coplend" in METHODS
    ('Borda', False)
    """

    def __init__(self, what: str, builtin: Mapping[str, str], packages: Sequence[str]) -> None:
        self.what = what
        self.group = f"concordant.{what}s"
        self.builtin = builtin
        self.entries: dict[str, T] = {}
        self._packages = packages
        self.owners: dict[str, str] = {}
        self._complete = False

    def add(self, name: str, entry: T, module: str) -> None:
        """Register an entry under a name, which belongs to the module that registers it first."""
        if not isinstance(name, str) or not name or name != name.strip().lower() or "," in name:
            raise ParameterError(
                f"the name of a {self.what} must be text in lower case, without commas or blanks around it. "
                f"Got {quote(name)} in {module}."
            )
        taken = self.owners.get(name) if name in self.entries else self._module(name)
        if taken is not None and taken != module:
            raise ParameterError(
                f"{module} registers the {self.what} {quote(name)}, and {taken} has one of that name. "
                "Choose another name."
            )
        self.entries[name] = entry
        self.owners[name] = module

    def find(self, name: object) -> T | None:
        """Return the entry of this name, None where there is none; only its own module is imported."""
        if not isinstance(name, str):
            return None
        found = self.entries.get(name)
        if found is not None:
            return found
        if (module := self._module(name)) is not None:
            import_module(module)
        if name not in self.entries and not self._complete:
            from importlib.metadata import entry_points

            for point in entry_points(group=self.group, name=name):
                self._load(point)
        if name not in self.entries:
            self.load()
        return self.entries.get(name)

    def load(self) -> None:
        """Import every public module of this package, which may register an entry, then every plug-in."""
        if self._complete:
            return
        import pkgutil
        from importlib.metadata import entry_points

        self._complete = True
        for package in self._packages:
            for module in pkgutil.iter_modules(import_module(package).__path__):
                if not module.name.startswith("_"):
                    import_module(f"{package}.{module.name}")
        for point in entry_points(group=self.group):
            try:
                self._load(point)
            except ConcordantError as error:
                warn(f"{error} It is left out.", ConcordantWarning)

    def own(self) -> dict[str, T]:
        """Return the entries of this package, without a look at plug-ins."""
        for name in self.builtin:
            if name not in self.entries:
                import_module(str(self._module(name)))
        return {name: self.entries[name] for name in self.builtin}

    def near(self, name: object) -> str:
        """Return a sentence that suggests similar names, to append to a message; empty where none is similar."""
        from difflib import get_close_matches

        close = get_close_matches(shorten(str(name)), list(self), n=3)
        return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""

    def _module(self, name: str) -> str | None:
        found = self.builtin.get(name)
        return None if found is None else found.partition(":")[0]

    def _load(self, point: EntryPoint) -> None:
        """Import what an entry point names; its module registers the entry."""
        whose = f"the {self.what} {quote(point.name)} of the installed package {point.dist.name if point.dist else '?'}"
        try:
            point.load()
        except Exception as error:  # a plug-in may fail in any way
            raise ParameterError(f"{whose} cannot be loaded: {type(error).__name__}: {error}") from error
        if point.name not in self.entries:
            raise ParameterError(f"{whose} is not there: {point.value} registers no {self.what} of that name.")

    def __getitem__(self, name: str) -> T:
        found = self.find(name)
        if found is None:
            raise ParameterError(f"no {self.what} {quote(name)}.{self.near(name)} There are: {', '.join(self)}.")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or self.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self.entries))

    def __len__(self) -> int:
        self.load()
        return len(self.entries)

    def __repr__(self) -> str:
        return f"{self.what.upper()}S({', '.join(self)})"

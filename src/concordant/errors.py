"""Exceptions and warnings of Concordant, and functions that build their messages.

A message says what is wrong, where (in the user's own ids, file and line), what was found, what is allowed and what
to do.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

__all__ = [
    "ColumnError",
    "ConcordantError",
    "ConcordantWarning",
    "ContractError",
    "ConvergenceWarning",
    "DataError",
    "DataShiftWarning",
    "DataWarning",
    "DuplicateError",
    "FormatError",
    "IdentifiabilityWarning",
    "KindError",
    "MissingExtraError",
    "NoFiniteEstimateError",
    "NotFittedError",
    "ParameterError",
    "ParseError",
    "UncertaintyWarning",
    "warn",
    "without_warnings",
]


def shorten(text: str, width: int = 120) -> str:
    """Return `text` cut to `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def quote(value: object, width: int = 120) -> str:
    """Return the repr of a value, which makes control characters visible, cut to `width`."""
    return repr(shorten(value, width)) if isinstance(value, str) else shorten(repr(value), width)


# Follows a text that files and tables cannot hold.
NOT_TEXT = "is not text: it holds half of a character (a lone surrogate)."


def is_text(text: str) -> bool:
    """Return whether a text can be written: Python's str may hold half of a character."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def visible(text: str) -> str:
    r"""Return `text` safe for one line of a terminal: characters that do not print are escaped.

    These are line breaks, control characters, which could rewrite the screen, and marks that change text direction.

    >>> print(visible("d1\x1b[2J\n寿司"))
    d1\x1b[2J\n寿司
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class Setting(NamedTuple):
    """A parameter and the value that a message advises; its text is what Python code would say.

    >>> f"Pass {Setting('unknown_experts', 'ignore')} to leave them out."
    "Pass unknown_experts='ignore' to leave them out."
    """

    name: str
    value: object

    def __str__(self) -> str:
        return f"{self.name}={self.value!r}"


def reword_settings(message: str, settings: Iterable[Setting], word: Callable[[str, object], str]) -> str:
    """Return a message with the settings that it advises in other words, such as options of a command line.

    >>> advised = Setting("k", 60)
    >>> reword_settings(f"Pass {advised}.", [advised], lambda name, value: f"-p {name}={value}")
    'Pass -p k=60.'
    """
    by_text = {str(advised): advised for advised in settings}
    if not by_text:
        return message
    # The longest first: one setting may begin with another, as k=60 with k=6.
    texts = "|".join(map(re.escape, sorted(by_text, key=len, reverse=True)))
    return re.sub(texts, lambda found: word(*by_text[found[0]]), message)


def first_of(names: Sequence[object]) -> str:
    """Return the first of several names and the number of the others.

    >>> first_of(["a.csv"]), first_of(["a.csv", "b.csv", "c.csv"])
    ('a.csv', 'a.csv and 2 more')
    """
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else str(names[0])


def listing(values: Iterable[Any], limit: int = 10) -> str:
    """Return the first `limit` values as a Python list display, with a count of the rest."""
    values = list(values)
    shown = ", ".join(quote(v) for v in values[:limit])
    rest = len(values) - limit
    return f"[{shown}, … {rest} more]" if rest > 0 else f"[{shown}]"


class _Advising:
    """What errors and warnings share: the settings that their message advises."""

    settings: tuple[Setting, ...] = ()

    def advising(self, *settings: Setting) -> Self:
        """Store the settings that the message advises, so that others can word them in their own way."""
        self.settings = settings
        return self


class ConcordantError(_Advising, Exception):
    """Base of every error Concordant raises on purpose."""


class ConcordantWarning(_Advising, UserWarning):
    """Base of every warning Concordant gives."""


class DataWarning(ConcordantWarning):
    """Something in the input was left out, repaired or read in one of several possible ways."""


class IdentifiabilityWarning(ConcordantWarning):
    """The data alone do not place some items or experts: undefeated, never compared, or all tied."""


class UncertaintyWarning(ConcordantWarning):
    """Intervals are missing, or rest on too few experts."""


class ConvergenceWarning(ConcordantWarning):
    """An iterative fit stopped before it converged, or diverged; the estimate is kept."""


class DataShiftWarning(ConcordantWarning):
    """The data asked about differ from those the model was fitted on."""


_silent: ContextVar[bool] = ContextVar("concordant_silent", default=False)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Give no warning inside the block, in this thread alone: `warnings.catch_warnings` changes all threads.

    >>> with without_warnings():
    ...     warn("nobody hears this")
    """
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def warn(message: str, category: type[ConcordantWarning] = ConcordantWarning, *settings: Setting) -> None:
    """Give a warning that points at the first line outside Concordant: the user's own.

    `settings` are those that the message advises.
    """
    depth = 2  # 1 would be the line below that gives the warning
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "concordant":
        frame = frame.f_back
        depth += 1
    if _silent.get():
        return
    warnings.warn(category(message).advising(*settings), category, stacklevel=depth)


class DataError(ConcordantError, ValueError):
    """The preferences, labels or features contradict themselves or what was asked of them."""


class ParseError(ConcordantError, ValueError):
    """A line of a file is not what its format asks for.

    Parameters
    ----------
    path : str or path
        The file as the user named it.
    line : int or None
        1-based line number, or None when the whole file is meant.
    message : str
        What was expected and what was found.
    """

    def __init__(self, path: object, line: int | None, message: str) -> None:
        self.path = str(path)
        self.line = line
        self.message = message
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.line, self.message), {"settings": self.settings}

    @classmethod
    def fields(cls, path: object, line: int, expected: int | str, found: int, text: str) -> ParseError:
        """Return the error for a line with the wrong number of fields."""
        return cls(path, line, f"expected {expected} fields, found {found}: {quote(text)}.")

    @classmethod
    def number(cls, path: object, line: int, what: str, text: str) -> ParseError:
        """Return the error for a field that should be a finite number."""
        return cls(path, line, f"{what} must be a finite number, found {quote(text)}.")


class FormatError(ConcordantError, ValueError):
    """A file's format cannot be told, or is not the one asked for."""

    @classmethod
    def unknown(cls, path: object, known: Sequence[str], found: str = "") -> FormatError:
        """Return the error for a file whose format was not recognised."""
        seen = f" It begins {quote(found, 60)}." if found else ""
        return cls(f"{path}: the format was not recognised.{seen} Pass format= (--format), one of {', '.join(known)}.")


class ColumnError(ConcordantError, KeyError):
    """A column that was named is not in the table."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""

    @classmethod
    def missing(cls, missing: Sequence[str], present: Sequence[str], hint: str = "") -> ColumnError:
        """Return the error that lists the missing and the present columns."""
        tail = f" Hint: {hint}" if hint else ""
        return cls(f"columns not found: {listing(missing)}. The table has: {listing(present, 30)}.{tail}")


class DuplicateError(DataError):
    """One expert ranks one item twice in one instance, or one item has two labels."""

    @classmethod
    def twice(cls, expert: str, item: str, instance: str, first: object, second: object) -> DuplicateError:
        """Return the error naming the two places, as row numbers or as file:line."""
        best = Setting("duplicates", "best")
        return cls(
            f"expert {quote(expert)} ranks item {quote(item)} twice in instance {quote(instance)} "
            f"({cls.places(first, second)}). Pass {best} to keep the better."
        ).advising(best)

    @classmethod
    def two(
        cls, what: str, item: str, instance: str, first: object, second: object, *, hint: str = ""
    ) -> DuplicateError:
        """Return the error for an item with two labels, scores or feature rows."""
        return cls(
            f"item {quote(item)} of instance {quote(instance)} has two {what} ({cls.places(first, second)}). "
            f"Keep one{hint}."
        )

    @staticmethod
    def places(first: object, second: object) -> str:
        """Return two places in words: numbers of rows, or file:line each."""
        return f"rows {first} and {second}" if isinstance(first, int) else f"{first} and {second}"


class KindError(ConcordantError, TypeError):
    """A method was given a container it cannot use."""

    @classmethod
    def unaccepted(cls, method: str, found: str, accepts: Iterable[str], others: Iterable[str]) -> KindError:
        """Return the error naming what the method takes and which methods would do."""
        would = ", ".join(sorted(others))
        return cls(
            f"{method} works on {' or '.join(sorted(accepts))}, not on {found}. "
            + (f"Methods that take {found}: {would}." if would else f"No method takes {found}.")
        )


class ParameterError(ConcordantError, ValueError):
    """A parameter is outside what is allowed."""

    @classmethod
    def invalid(cls, name: str, owner: str, allowed: str, got: object) -> ParameterError:
        """Return the one sentence in which every bad parameter is reported."""
        return cls(f"the {quote(name)} parameter of {owner} must be {allowed}. Got {quote(got)} instead.")

    @classmethod
    def unknown(cls, name: str, owner: str, known: Sequence[str]) -> ParameterError:
        """Return the error for a parameter that is not there, naming the nearest that is."""
        from difflib import get_close_matches

        near = get_close_matches(shorten(name), known, n=1, cutoff=0.7)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return cls(f"{owner} has no parameter {quote(name)}.{hint} It has: {', '.join(known) or 'none'}.")


class ContractError(ConcordantError, AssertionError):
    """A method breaks a promise of the contract."""

    @classmethod
    def broken(cls, owner: str, check: str, demand: str, evidence: str) -> ContractError:
        """Return the error naming the check, what it asks for and what was seen instead."""
        return cls(f"{owner} fails the check {check!r} ({demand.rstrip('.')}): {evidence}")

    @classmethod
    def several(cls, owner: str, failures: Sequence[str]) -> ContractError:
        """Return the error for a method that fails one check or more, one line each."""
        if len(failures) == 1:
            return cls(failures[0])
        return cls(f"{owner} fails {len(failures)} checks of the contract:\n" + "\n".join(failures))


class NoFiniteEstimateError(ConcordantError, ArithmeticError):
    """The maximum-likelihood estimate does not exist for these data."""


class NotFittedError(ConcordantError, ValueError, AttributeError):
    """`predict` was called on a method that learns before `fit`."""

    @classmethod
    def of(cls, owner: str) -> NotFittedError:
        """Return the error for a method of class `owner`."""
        return cls(f"this {owner} is not fitted yet. Call fit(preferences, labels) first, or load a fitted one.")


class MissingExtraError(ConcordantError, ImportError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingExtraError:
        """Return the error with the pip line that mends it."""
        return cls(f"{purpose} needs {package}, which is not installed. Run: pip install 'concordant[{extra}]'")

"""`concordant methods`: lists the methods with their tags, or shows the page of one method."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concordant.cli._options import Common, bundled
from concordant.cli._output import Session, Table

if TYPE_CHECKING:
    from concordant.base.contract import Aggregator

__all__ = ["command"]


@bundled("threads")
def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show the page of this method.", show_default=False)
    ] = None,
    *,
    common: Common,
) -> None:
    """List the methods, or show the page of one with its parameters."""
    with common.session("methods", {"name": name}) as session:
        from concordant.base.registry import METHODS, describe_method

        if name is not None:
            _show_page(session, METHODS[name])
            return
        session.results = [describe_method(METHODS[n]) for n in METHODS]
        tagged = any(_extras(d) for d in session.results)
        columns = ["method", "takes", *(["tags"] if tagged else []), "what it does"]
        rows = [[d["name"], _takes(d), *([_extras(d)] if tagged else []), d["summary"]] for d in session.results]
        caption = "lists: ranks, scores or ratings. Parameters, cost, ties and missing items: concordant methods NAME"
        session.show(Table(columns, rows, left=frozenset(range(4)), caption=caption))


_LISTS = {"rank": "ranks", "score": "scores", "rating": "ratings"}


def _takes(described: dict[str, Any]) -> str:
    kinds = [plural for kind, plural in _LISTS.items() if kind in described["accepts"]]
    words = ["lists"] if len(kinds) == len(_LISTS) else kinds
    words += ["comparisons"] * ("comparisons" in described["accepts"])
    return ", ".join(["features"] * described["features"] + words)


def _extras(described: dict[str, Any]) -> str:
    """Return the tags in which a method differs from most others."""
    words = [tag for tag in ("supervised", "uncertainty", "stochastic") if described[tag]]
    words += [f"no {tag}" for tag in ("weights", "ties") if not described[tag]]
    return ", ".join(words)


def _parameters(cls: type[Aggregator]) -> list[dict[str, Any]]:
    signature = inspect.signature(cls.__init__).parameters
    return [
        {
            "name": name,
            "default": signature[name].default,
            "allowed": cls.constraints[name].allowed if name in cls.constraints else "",
        }
        for name in cls.param_names()
    ]


def _show_page(session: Session, cls: type[Aggregator]) -> None:
    from concordant.base.registry import describe_method

    described = describe_method(cls)
    page = inspect.cleandoc(cls.__doc__ or "")
    parameters = _parameters(cls)
    session.results = described | {"page": page, "parameters": parameters}
    session.say(f"{cls.name}: {cls.__name__}\n\n{page}\n", lines=True)
    session.say(f"Takes {_takes(described)}. Tags: {_all_tags(described)}. Cost {described['cost']}.")
    session.say()
    if parameters:
        rows = [[p["name"], repr(p["default"]), p["allowed"]] for p in parameters]
        session.show(Table(["parameter", "default", "allowed"], rows, left=frozenset({0, 1, 2})))
    session.say()
    if cls.takes_features:
        session.say(
            f"Use: concordant fit TRAIN.txt --method {cls.name} -o MODEL    (LETOR or SVMlight: features, labels)"
        )
        session.say(f"     concordant fit INPUT... --labels QRELS --method {cls.name} -o MODEL    (preferences)")
        session.say("     concordant aggregate INPUT... --model MODEL")
    elif cls.tags.supervised:
        session.say(f"Use: concordant fit INPUT... --labels QRELS --method {cls.name} -o MODEL")
        session.say("     concordant aggregate INPUT... --model MODEL")
    else:
        session.say(f"Use: concordant aggregate INPUT... --method {cls.name}" + _example(parameters))


def _all_tags(described: dict[str, Any]) -> str:
    names = ("supervised", "per_instance", "weights", "ties", "uncertainty", "stochastic", "faithful")
    return ", ".join(f"{tag.replace('_', ' ')} {'yes' if described[tag] else 'no'}" for tag in names)


def _example(parameters: list[dict[str, Any]]) -> str:
    for p in parameters:
        if isinstance(p["default"], (bool, int, float, str)):
            value = str(p["default"]).lower() if isinstance(p["default"], bool) else p["default"]
            return f" -p {p['name']}={value}"
    return ""

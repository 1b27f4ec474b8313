"""The group of commands. A command's module is imported when the command is named, or listed in the help."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from concordant._version import __version__

__all__ = ["COMMANDS", "build"]

COMMANDS = ("aggregate", "fit", "evaluate", "compare", "report", "convert", "reproduce", "methods", "demo")

_HELP = """Turn the preferences of many experts into one ranking you can trust.

Result lists of search engines, votes of judges, ratings, ballots: files go in, a consensus comes out.

Start with: concordant demo
"""


class Command(TyperCommand):
    """A command that takes no empty text for a value: an empty variable of a script must not mean a default."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, or raise a usage error that names the option or argument without a value."""
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            given = ctx.params.get(parameter.name)
            texts = given if isinstance(given, (list, tuple)) else [given]
            if any(isinstance(text, str) and not text.strip(" \t") for text in texts):
                hint = ""
                if parameter.name in ("method", "methods"):
                    from concordant.base.registry import METHODS

                    hint = f" There are: {', '.join(METHODS)}."
                raise typer.BadParameter(f"the value is empty.{hint}", ctx=ctx, param=parameter)
        return super().invoke(ctx)


class LazyGroup(TyperGroup):
    """Commands, each built from the function `command` of the module of its name when somebody asks for it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, the most used first."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"concordant.cli.{cmd_name}")
        single = typer.Typer(add_completion=False, rich_markup_mode=getattr(self, "rich_markup_mode", None))
        single.command(cmd_name, cls=Command)(module.command)
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; a name that is none of them suggests the nearest."""
        # The suggestions look into the table of commands that are already built.
        self.commands = {name: self.get_command(ctx, name) for name in COMMANDS} if args[0] not in COMMANDS else {}
        return super().resolve_command(ctx, args)


def _show_version(value: bool) -> None:
    if value:
        print(f"concordant {__version__}")
        raise typer.Exit


def build(*, rich: bool = False) -> typer.Typer:
    """Return the application; `rich` draws its help in boxes, for terminals."""
    app = typer.Typer(
        cls=LazyGroup,
        help=_HELP,
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if rich else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        context: typer.Context,
        version: Annotated[  # noqa: ARG001 - its callback has answered before this runs
            bool,
            typer.Option("--version", "-V", help="Print the version and stop.", callback=_show_version, is_eager=True),
        ] = False,
    ) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return app

"""The group of commands. A command's module is imported when the command is named, or listed in the help."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from concordant._version import __version__

__all__ = ["COMMANDS", "build"]

COMMANDS = ("aggregate", "fit", "evaluate", "compare", "report", "convert", "methods", "demo")

_HELP = """Turn the preferences of many experts into one ranking you can trust.

Result lists of search engines, votes of judges, ratings, ballots: files go in, a consensus comes out.

Start with: concordant demo
"""


# Packages add commands under this group of entry points.
PLUGINS = "concordant.commands"
# What the formats of an option can do.
_FORMAT_OPTIONS = {"input_format": "read", "to": "write"}
# A command that a package of this repository adds, and what to say where it is not installed.
_ELSEWHERE = {
    "reproduce": "the command 'reproduce' comes with the package concordant-papers, which is in the folder papers of "
    "Concordant's repository: pip install ./papers"
}


def _plugins() -> dict[str, Any]:
    """Return the entry points of commands that other packages add, by name; none of them replaces one of ours."""
    from importlib.metadata import entry_points

    return {e.name: e for e in entry_points(group=PLUGINS) if e.name not in COMMANDS}


class _AsGiven:
    """The conversion of one parameter: a value that has the right type already stays, any other is left to Typer.

    Typer converts every parameter through pydantic, also those that are not given; to import it takes longer than many
    commands run.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        annotation, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if getattr(info, "parser", None) is None:
            if annotation is type(value):
                return value
            if annotation == list[str] and several and isinstance(value, (list, tuple)):
                return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _convert_lightly(parameters: list[Any]) -> None:
    """Give parameters the conversion above; a Typer that converts by other means is left alone."""
    for parameter in parameters:
        if hasattr(parameter, "_runtime_param") and hasattr(parameter, "type_descriptor"):
            parameter._runtime_param = _AsGiven()


class Command(TyperCommand):
    """A command that takes no empty text for a value: an empty variable of a script must not mean a default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        _convert_lightly(list(self.get_params(ctx)))
        return super().parse_args(ctx, args)

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

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; an option for a format lists those there are."""
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            if parameter.name in _FORMAT_OPTIONS:
                before = parameter.help.partition(" One of ")[0]
                parameter.help = f"{before} One of {', '.join(_formats(_FORMAT_OPTIONS[parameter.name]))}."
        super().format_help(ctx, formatter)


def _formats(can: str) -> list[str]:
    """Return the formats that can be read or written, and those of other packages, without an import of any."""
    from importlib.metadata import entry_points

    from concordant._names import FORMATS

    own = [name for name, where in FORMATS.items() if can in where.partition(":")[2].split(",")]
    return [*own, *sorted(point.name for point in entry_points(group="concordant.formats"))]


class LazyGroup(TyperGroup):
    """Commands, each built when somebody asks for it: those of this package, then those of plug-ins."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before the name of a command."""
        _convert_lightly(list(self.get_params(ctx)))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, the most used first."""
        return [*COMMANDS, *_plugins()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None."""
        if cmd_name in COMMANDS:
            run = import_module(f"concordant.cli.{cmd_name}").command
        elif (plugin := _plugins().get(cmd_name)) is not None:
            run = plugin.load()
        else:
            return None
        single = typer.Typer(add_completion=False, rich_markup_mode=getattr(self, "rich_markup_mode", None))
        single.command(cmd_name, cls=Command)(run)
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; a name that is none of them suggests the nearest."""
        # The suggestions look into the table of commands that are already built.
        self.commands = {}
        if args[0] not in COMMANDS:
            self.commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
            if args[0] in _ELSEWHERE and args[0] not in self.commands:
                ctx.fail(_ELSEWHERE[args[0]])
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

"""`concordant convert`: reads one format and writes another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from concordant.cli._inputs import Reading
from concordant.cli._options import Common, Inputs, QuoteFormulas, To, bundled
from concordant.cli._output import check_quoting
from concordant.cli._parsing import check_choice
from concordant.errors import DataError

if TYPE_CHECKING:
    from concordant.data.container import Container
    from concordant.data.dataset import Dataset

__all__ = ["command"]

_PARTS = ("preferences", "comparisons", "features", "labels")


@bundled("memory")
def command(
    inputs: Inputs,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="The file to write; its ending gives the format (.csv, .soi, ...). - is standard output, with --to.",
        ),
    ],
    to: To = None,
    part: Annotated[
        str | None,
        typer.Option(
            "--part", metavar="P", help=f"Which part to write, if the input holds several: {', '.join(_PARTS)}."
        ),
    ] = None,
    quote_formulas: QuoteFormulas = False,
    *,
    reading: Reading,
    common: Common,
) -> None:
    """Read one format, write another."""
    check_choice(part, _PARTS, "--part")
    asked = {"inputs": inputs, "output": output, "to": to, "part": part}
    with common.session("convert", asked) as session:
        from concordant.io._files import check_writable
        from concordant.io.write import write

        check_quoting(quote_formulas, output if to is None else to)
        output = session.destination(output, "--output")
        check_writable(output)
        source = reading.read(session, inputs)
        name, container = _choose(source.dataset, part)
        with session.progress(f"writing {output}"):
            write(container, output, format=to, **({"quote_formulas": True} if quote_formulas else {}))
        others = [p for p in _PARTS if p != name and getattr(source.dataset, p) is not None]
        session.results = {"output": output, "part": name, "content": repr(container), "left_behind": others}
        session.note(f"wrote {output}: {container!r}")
        if others and part is None:
            session.note(f"The input also holds {' and '.join(others)}; --part {others[0]} writes that.")


def _choose(dataset: Dataset, part: str | None) -> tuple[str, Container]:
    held = {p: getattr(dataset, p) for p in _PARTS if getattr(dataset, p) is not None}
    if part is None:
        return next(iter(held.items()))
    if part not in held:
        raise DataError(f"the input holds no {part}. It holds {' and '.join(held)}.")
    return part, held[part]

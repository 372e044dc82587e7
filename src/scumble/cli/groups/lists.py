"""The commands for releases of lists and keys: top, rules, next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli import console, options, printing, writing

if TYPE_CHECKING:
    from scumble.public.estimate import Estimates
    from scumble.public.estimate_table import EstimateTable

Number = Annotated[
    int, typer.Option("--number", "-n", metavar="NUMBER", help="How many, the largest first.")
]
Length = Annotated[
    int | None,
    typer.Option("--length", metavar="NUMBER", help="Only sets or strings of so many values."),
]
Support = Annotated[
    float,
    typer.Option(
        "--support", metavar="NUMBER", help="Least baskets with both sides; below 1 a share of all."
    ),
]
Confidence = Annotated[
    float,
    typer.Option("--confidence", metavar="SHARE", help="Least share of the baskets with 'if'."),
]
Context = Annotated[
    list[str] | None,
    typer.Argument(metavar="[VALUES]...", help="What came before, the last value last."),
]


def top(
    folder: options.ReleaseFolder,
    number: Number = 10,
    length: Length = None,
    level: options.Level = 0.95,
    output: writing.Output = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Show the most frequent sets, strings or keys of a release, with intervals."""
    from scumble.model.laws.base import check_level
    from scumble.public.archive.load import load
    from scumble.public.views import list_view

    level = check_level(level)
    writing.check_output(output, force=force)
    _say(list_view(load(folder)).top(number, length=length), level, output, force, as_json)


def rules(
    folder: options.ReleaseFolder,
    support: Support,
    confidence: Confidence,
    level: options.Level = 0.95,
    output: writing.Output = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Show association rules of a release of baskets: with these items come those."""
    from scumble.model.laws.base import check_level
    from scumble.public.archive.load import load

    level = check_level(level)
    writing.check_output(output, force=force)
    _say(
        load(folder).baskets.rules(support=support, confidence=confidence),
        level,
        output,
        force,
        as_json,
    )


def next_(
    folder: options.ReleaseFolder,
    context: Context = None,
    number: Number = 10,
    as_json: options.Json = False,
) -> None:
    """Show what comes next in the sequences of a release, after some values.

    Probabilities are a model of the noisy counts; no error is stated.
    """
    from scumble.model.parameters import whole
    from scumble.public.archive.load import load

    whole("next", "number", number, least=1)
    found = load(folder).sequences.next(context or [])
    rows = found.slice(0, number).to_pylist()
    used = (found.schema.metadata or {}).get(b"context", b"[]").decode()
    if as_json:
        console.print_json({"context": used, "next": rows})
        return
    cells = [
        ["(end)" if row["next"] is None else str(row["next"]), f"{row['probability']:.3f}"]
        for row in rows
    ]
    printing.table(["next", "probability"], cells, text_columns=1)
    console.say(f"After the longest context that was counted: {used}")


def _say(
    answer: Estimates | EstimateTable,
    level: float,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    if output is not None:
        writing.write_answer(answer, level, output, force=force)
    if as_json:
        printing.print_answer(answer, level)
    elif output is None:
        printing.show_answer(answer, level)

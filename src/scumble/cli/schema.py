"""The commands `scumble schema ...`: the public description of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options
from scumble.model.errors import OutputExistsError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scumble.model.schema.schema import Schema

_SHOWN_VALUES = 40  # of a list in a schema that is printed on a terminal
_UNPROTECTED = (
    "No column is sensitive. Methods that publish counts need none; most that publish rows protect "
    "sensitive columns only, and publish the others as they are. Name one with --sensitive COLUMN, "
    'or write role = "sensitive" there.'
)
_TYPE_WORDS = {
    "category": "codes, each with a meaning",
    "integer": "amounts: they count or measure something",
    "binned": "amounts: they count or measure something, published in bins",
    "decimal_comma": "numbers with a decimal comma: 1,234 is less than 2",
    "decimal_point": "numbers with commas for thousands: 1,234 is more than a thousand",
    "%d/%m/%Y": "dates with the day first: 31/12/2024",
    "%m/%d/%Y": "dates with the month first: 12/31/2024",
    "%d-%m-%Y": "dates with the day first: 31-12-2024",
    "%m-%d-%Y": "dates with the month first: 12-31-2024",
}
app = console.group("Describe a table: propose, check or close its schema.")

SchemaArgument = Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema (TOML).")]
MaybeSource = Annotated[
    str | None,
    typer.Argument(metavar="[SOURCE]", help="The table, to see whether it fits."),
]
Other = Annotated[
    str, typer.Option("--other", metavar="TEXT", help="The value of all that was not named.")
]


@app.command("infer")
def infer(
    source: options.Source,
    sensitive: options.Sensitive = None,
    identifier: options.Identifier = None,
    insensitive: options.Insensitive = None,
    types: options.Types = None,
    hierarchies: options.Hierarchies = False,
    table: options.Table = None,
    basket: options.Basket = None,
    order: options.Order = None,
    output: options.SchemaOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Propose a schema for a table, and say what to check in it."""
    from scumble.model.schema.schema import Schema

    def propose(known: dict[str, str]) -> Schema:
        with bars.progress("Reading", options.rows_of(source, table)) as progress:
            return Schema.infer(
                source,
                sensitive=options.columns(sensitive),
                identifier=options.columns(identifier),
                insensitive=options.columns(insensitive),
                types=known,
                hierarchies=hierarchies,
                table=table,
                basket=basket,
                order=order,
                progress=progress,
            )

    known = options.types(types)
    schema = propose(known)
    if sys.stdin.isatty() and sys.stderr.isatty() and not as_json:
        answers = ask_for_types(schema, lambda default: typer.prompt("Number", default, err=True))
        schema = propose({**known, **answers}) if answers else schema
    if output is not None:
        schema.save(output, force=force)
        console.say(f"Wrote {output}.")
    if as_json:
        console.print_json({**schema.to_dict(), "checks": _to_check(schema)})
    elif output is None:
        console.echo(schema.dumps(most=_SHOWN_VALUES if console.on_terminal() else None), nl=False)
    for sentence in _to_check(schema):
        console.say(_advice(sentence))
    if schema.to_fill_in:
        where = "above" if output is None else f"in {output}"
        console.say(
            f"No domain could be proposed for {', '.join(schema.to_fill_in)}: write it {where}, at "
            "the places marked FILL IN. Until then no command reads the schema."
        )


def ask_for_types(
    schema: Schema, ask: Callable[[str], str], before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Ask for the types between which only the owner can choose; `ask` takes a proposal. Types that
    were chosen `before` are proposed.
    """
    answers = {}
    for attribute in schema:
        if not attribute.either:
            continue
        console.say(f"What are the values of '{attribute.name}'?")
        for number, kind in enumerate(attribute.either, start=1):
            console.say(f"  {number}  {_TYPE_WORDS[kind]}")
        numbers = [str(number) for number, _ in enumerate(attribute.either, start=1)]
        if attribute.domain is None:
            console.say("  -  leave the column out")
            numbers.append("-")
        default = "1" if attribute.domain is not None else "-"
        chosen = (before or {}).get(attribute.name)
        if chosen in attribute.either:
            default = numbers[attribute.either.index(chosen)]
        answer = ""
        while answer not in numbers:
            answer = str(ask(default)).strip()
        if answer != "-":
            answers[attribute.name] = attribute.either[int(answer) - 1]
    return answers


@app.command()
def check(
    schema: SchemaArgument,
    source: MaybeSource = None,
    table: options.Table = None,
    basket: options.Basket = None,
    order: options.Order = None,
    as_json: options.Json = False,
) -> None:
    """Say what to check or correct in a schema, for a table too.

    With a table, it says which columns have values outside their domain, as publish would refuse
    them, and whether an identifier repeats where every row is another person. The exit code is 3
    if the schema is wrong, and 4 if the table does not fit it.
    """
    from scumble.model.schema.schema import Schema

    found = Schema.load(schema)
    found.check_unit()
    to_check, wrong = _to_check(found), []
    if source is not None:
        from scumble.private.tables.check import check_table, remarks_on_unit
        from scumble.private.tables.open import open_source

        with bars.progress("Reading", options.rows_of(source, table)) as progress:
            wrong = check_table(
                source, found, table=table, basket=basket, order=order, progress=progress
            )
        if basket is None:
            remarks = remarks_on_unit(open_source(source, table=table), found)
            to_check += [f"unit: {remark}" for remark in remarks]
    if as_json:
        console.print_json({"wrong": wrong, "checks": to_check})
    else:
        for sentence in (*wrong, *map(_advice, to_check)):
            console.echo(sentence)
    if not wrong:
        what = f"{schema} is well formed" + (", and the table fits it." if source else ".")
        console.say(what)
    else:
        raise typer.Exit(SourceError.exit_code)


def _to_check(schema: Schema) -> list[str]:
    """Return what the owner should check before publishing."""
    protected = any("sensitive" in (each.role, each.to_fill_in) for each in schema)
    return [*schema.checks(), *([] if protected else [_UNPROTECTED])]


def _advice(sentence: str) -> str:
    return sentence if sentence == _UNPROTECTED else f"Check {sentence}"


@app.command()
def limits(
    source: options.Source,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A column of type number.")],
    schema: options.SchemaFile,
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss.")
    ],
    neighbours: options.Neighbours = "replace",
    share: Annotated[
        float | None,
        typer.Option("--share", metavar="SHARE", help="Limits that hold this share of the rows."),
    ] = None,
    sum_epsilon: Annotated[
        float | None,
        typer.Option(
            "--sum-epsilon", metavar="NUMBER", help="With which sums are measured.  [--epsilon]"
        ),
    ] = None,
    ledger: options.Ledger = None,
    table: options.Table = None,
    outside: options.Outside = "error",
    output: options.SchemaOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Choose limits for the amounts of a column, for a part of the budget.

    They make the error of sums small: noise grows with them, and amounts beyond them are clamped.
    """
    from scumble.private.limits import private_limits
    from scumble.private.publish_options import PublishOptions, Table

    if output is not None and output.exists() and not force:
        raise OutputExistsError.of(output)  # before the budget is spent
    with bars.progress("Reading", options.rows_of(source, table)) as progress:
        how: Any = PublishOptions(outside=outside, progress=progress)  # type: ignore[arg-type]
        found = private_limits(
            Table(source, table=table),
            schema,
            column,
            epsilon=epsilon,
            neighbours=neighbours,  # type: ignore[arg-type]  # it is checked there
            share=share,
            sum_epsilon=sum_epsilon,
            ledger=ledger,
            options=how,
        )
    if output is not None:
        found.schema.save(output, force=force)
    if as_json:
        bias = None if found.bias is None else list(found.bias)
        limits = {"limits": [found.low, found.high], "clamped": list(found.clamped), "bias": bias}
        console.print_json({"column": column, **limits, "promise": str(found.guarantee)})
    else:
        console.echo(str(found))
    if output is not None:
        console.say(f"Wrote {output}.")


@app.command()
def close(
    folder: options.ReleaseFolder,
    schema: SchemaArgument,
    output: options.SchemaOutput = None,
    other: Other = "other",
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Close the open categories of a schema by the keys that a release names."""
    from scumble.model.schema.schema import Schema
    from scumble.private.owner import open_release

    found = open_release(folder).close_categories(Schema.load(schema), other=other)
    if output is not None:
        found.save(output, force=force)
        console.say(f"Wrote {output}.")
    if as_json:
        console.print_json(found.to_dict())
    elif output is None:
        console.echo(found.dumps(), nl=False)

"""The command rows: synthetic rows of a release, and how near they are to what was measured; or
generalised rows, and what was changed in them.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scumble.cli import bars, console, options
from scumble.cli.writing import Output, check_output, write_table
from scumble.model.errors import OutputExistsError, ParameterError
from scumble.model.long_work import aside, portion
from scumble.model.relational import is_address

if TYPE_CHECKING:
    from scumble.public.release import Release
    from scumble.public.synthesis.linked import LinkedRelease
    from scumble.public.synthesis.quality import Quality

_MOST_FAR = 5

Number = Annotated[
    int | None,
    typer.Option(
        "--number",
        "-n",
        metavar="ROWS",
        min=0,
        help="How many rows.  [default: about as many as the private table has]",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="NUMBER", help="Draw the same rows again; costs no privacy."),
]

Page = Annotated[
    str | None,
    typer.Option(
        "--quality",
        metavar="FILE.html",
        help="Write a page: for each column and pair, how near the rows are to what was measured.",
    ),
]


def rows(
    folder: options.ReleaseFolder,
    number: Number = None,
    output: Output = None,
    seed: Seed = None,
    force: options.Force = False,
    as_json: options.Json = False,
    page: Page = None,
) -> None:
    """Write rows of a release: synthetic or generalised ones.

    Synthetic rows are drawn from noisy counts. They cost no privacy, however many are drawn.
    Nobody's row is among them but by chance, and no interval holds for what is computed from them.
    Of several tables each is a file: -o rows.csv writes rows-people.csv and rows-visits.csv, and a
    table name in a database name_people and name_visits.
    """
    from scumble.public.archive.load import load_any
    from scumble.public.release import Release

    release = load_any(folder)
    synthetic = isinstance(release, Release) and release.evidence.unchanged is None
    if page is not None and not synthetic:
        raise ParameterError("A page about quality is for synthetic rows of one table.")
    if not isinstance(release, Release):
        _linked_rows(release, number, output, seed, force, as_json)
    elif synthetic:
        check_output(output, force=force)
        if page is not None and Path(page).exists() and not force:
            raise OutputExistsError.of(page)
        _synthetic_rows(release, number, output, seed, force, as_json, page)
    elif number is not None or seed is not None:
        raise ParameterError(
            "This release has rows of its own, and none are drawn: leave --number and --seed out."
        )
    else:
        _generalised_rows(release, output, force, as_json)


def _synthetic_rows(
    release: Release,
    number: int | None,
    output: str | None,
    seed: int | None,
    force: bool,
    as_json: bool,
    page: str | None,
) -> None:
    """Draw synthetic rows, write them, and say how near they are to what was measured."""
    with bars.working("Drawing rows"):
        table = aside(lambda: release.synthetic.rows(number, seed=seed))
    with bars.working("Comparing rows with the noisy counts"):
        report = aside(lambda: release.synthetic.quality(table))
    if as_json:
        shown = table.to_pylist() if output is None else table.num_rows
        console.print_json({"rows": shown, "quality": report.to_pylist()})
    if output is not None or not as_json:
        write_table(table, output, force=force)
    if output is not None:
        console.say(f"Wrote {table.num_rows:,} rows to {output}.")
    if page is not None:
        report.save(page)
        console.say(f"Wrote {page}.")
    for sentence in _quality(report):
        console.say(sentence)


def _linked_rows(
    release: LinkedRelease,
    number: int | None,
    output: str | None,
    seed: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Draw synthetic rows of several tables, and write each to a file."""
    if output is None and not as_json:
        raise ParameterError(
            "The release has several tables: say with --output FILE where they go, or --json."
        )
    files = {} if output is None else {n: _file_of(output, n) for n in release.tables}
    for file in files.values():
        check_output(file, force=force)
    with bars.working("Drawing rows"):
        tables = aside(lambda: release.rows(number, seed=seed))
    with bars.working("Comparing rows with the noisy counts"):
        report = aside(lambda: release.quality(tables))
    if as_json:
        fields = {
            name: {
                "rows": table.num_rows if files else table.to_pylist(),
                "quality": report[name].to_pylist(),
            }
            for name, table in tables.items()
        }
        console.print_json(fields)
    for name, file in files.items():
        write_table(tables[name], file, force=force)
        console.say(f"Wrote {tables[name].num_rows:,} rows to {file}.")
    for name in tables:
        for sentence in _quality(report[name]):
            console.say(f"{name}: {sentence}")


def _file_of(output: str, name: str) -> str:
    if is_address(output):
        from scumble.public.archive.relations import address_of_table

        return address_of_table(output, name)
    path = Path(output)
    return str(path.with_name(f"{path.stem}-{name}{path.suffix}"))


def _generalised_rows(release: Release, output: str | None, force: bool, as_json: bool) -> None:
    """Write the rows of a release by generalise, and say what was changed in each column."""
    check_output(output, force=force)
    with bars.working("Reading rows"):
        with portion(0, 0.5):
            found = release.generalised
        changes = found.changes()
        with portion(0.5, 1):
            table = found.labelled() if output is not None or not as_json else None
    if as_json:
        console.print_json(asdict(changes))
    if table is not None:
        write_table(table, output, force=force)
    if output is not None:
        console.say(f"Wrote {changes.rows:,} rows to {output}.")
    for sentence in changes.sentences():
        console.say(sentence)


def _quality(report: Quality) -> list[str]:
    """Say how near the rows are to the noisy tables, by the number of attributes of a table."""
    found = []
    for ways in sorted(set(report["ways"].to_pylist())):
        some = [each for each in report.to_pylist() if each["ways"] == ways]
        far, noise = (sum(each[key] for each in some) / len(some) for key in ("distance", "noise"))
        tables = "table" if len(some) == 1 else "tables"
        attributes = "attribute" if ways == 1 else "attributes"
        found.append(
            f"{len(some)} noisy {tables} of {ways} {attributes}: the shares of the rows differ by "
            f"{far:.3f} on average (0: equal, 2 or more: nothing in common); noise alone gives "
            f"about {noise:.3f}."
        )
    if far := report.far():
        listed = "; ".join(far[:_MOST_FAR]) + ("; ..." if len(far) > _MOST_FAR else "")
        found.append(
            f"For {len(far)} of {len(report)} tables the rows do not show what was measured: "
            f"{listed}. Ask the release about them."
        )
    return found

"""The command audit: try to refute what a release, a database, a method or a table promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.audit.report import page, write_owner_only
from scumble.cli import bars, console, options
from scumble.model.errors import ParameterError, PromiseError, ReleaseError
from scumble.model.relational import is_address

if TYPE_CHECKING:
    from scumble.audit.report import Report


def audit(
    subject: Subject = None,
    schema: SchemaFile = None,
    k: K = None,
    l: L = None,  # noqa: E741  # the letter that everybody uses for it
    t: T = None,
    n: N = None,
    known: KnownOption = None,
    worst: Worst = 10,
    against: Against = None,
    joined: Joined = None,
    method: Method = None,
    values: Values = 15,
    claim_epsilon: Claim = None,
    epsilon: Epsilon = None,
    parameter: Parameter = None,
    runs: Runs = 200_000,
    everything: Everything = False,
    output: Page = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Try to break the promise of a release, database or method.

    A table as it is can be audited, too. An audit can refute, never prove. The exit code is 7 if
    something is refuted.
    """
    options.refuse_existing(output, force=force)
    chosen = [subject is not None, method is not None, everything]
    if sum(chosen) != 1:
        raise ParameterError(
            "Name one thing to audit: a folder or table, a method with --method, or --all."
        )
    if everything:
        reports = _audit_catalogue(runs)
    elif method is not None:
        given = [*(parameter or []), *([] if epsilon is None else [f"epsilon={epsilon}"])]
        if (k, l) != (None, None):
            raise ParameterError(
                "--k and --l are what is claimed of a table. Give a method its own as "
                "--parameter k=49."
            )
        reports = [_audit_method(method, values, claim_epsilon, given, runs)]
    else:
        people = (options.columns(known), worst)
        owner = (against, joined)
        reports = [_audit_subject(str(subject), schema, (k, l, t, n), people, owner)]
    _show(reports, output, as_json)


def _audit_subject(
    name: str,
    schema: Path | None,
    claimed: tuple[float | None, int | None, float | None, int | None],
    people: tuple[list[str], int],
    owner: tuple[Path | None, Path | None],
) -> Report:
    """Audit a database, a release or a table; `claimed` are the k, l, t and n of a table, `people`
    the known columns and how many of the worst-off are listed, `owner` the private table of a
    release and a second release of it.
    """
    from scumble.audit import subjects
    from scumble.model.schema.schema import Schema

    path = Path(name)
    if is_address(name):
        return _audit_address(name, *people)
    if not path.exists():
        raise ReleaseError(f"There is no folder or table {path}. Check its name.")
    if (path / "ledger.sqlite").exists():
        with bars.working("Attacking a twin of the database", subjects.attacks()) as done:
            return subjects.of_database(path, progress=done)
    if path.is_dir():
        with bars.working("Checking the release"):
            return subjects.of_release(path, *people, against=owner[0], joined=owner[1])
    if schema is None:
        raise ParameterError("A table is audited with --schema: it says what attackers know.")
    k, l, t, n = claimed  # noqa: E741
    whole = None if k is None else int(k)
    known_schema = Schema.load(schema)
    passes = 1 + len(known_schema.sensitive)

    def total() -> int | None:
        rows = options.rows_of(path)()
        return None if rows is None else passes * rows

    with bars.working("Comparing rows", total) as done:
        return subjects.of_table(path, known_schema, k=whole, l=l, t=t, n=n, progress=done)


def _audit_address(address: str, known: list[str], worst: int) -> Report:
    """Audit a release in PostgreSQL or SQLite, or else a database that is kept in PostgreSQL."""
    from scumble.audit import subjects
    from scumble.public.archive.relations import is_release

    if is_release(address) or address.lower().startswith("sqlite:"):
        return subjects.of_release(address, known, worst)
    return subjects.of_database(address)


def _audit_method(
    method: str,
    values: int,
    claimed: float | None,
    parameters: list[str],
    runs: int,
) -> Report:
    """Audit a method with these parameters, in `runs` games."""
    from scumble.audit import subjects
    from scumble.private.mechanism import create

    named: dict[str, Any] = dict(map(_parameter, parameters))
    mechanism = create(method, **named)
    if claimed is None and "epsilon" not in named:
        raise ParameterError("Say what is claimed with --claim-epsilon, such as 0.5.")
    loss = float(named["epsilon"] if claimed is None else claimed)
    with bars.working(f"Playing {runs:,} games", runs) as done:
        return subjects.of_method(mechanism, values, loss, games=runs, progress=done)


def _parameter(text: str) -> tuple[str, Any]:
    """Return name and value of a parameter that is written as NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError.of("audit", "parameter", "name=value, such as epsilon=1", text)
    try:
        return name.strip(), _whole(float(value))
    except ValueError:
        return name.strip(), value.strip()


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _audit_catalogue(runs: int) -> list[Report]:
    """Audit every method with `runs` runs for each test."""
    from scumble.audit.catalogue import catalogue, everything

    with bars.steps(len(list(everything())) + 1) as step:  # the last is the database
        return list(catalogue(runs, step))


def _show(reports: list[Report], output: Path | None, as_json: bool) -> None:
    if output is not None:
        write_owner_only(output, page(reports[0]))
    if as_json:
        fields = [report.to_dict() for report in reports]
        console.print_json(fields[0] if len(fields) == 1 else fields)
    else:
        console.echo("\n\n".join(map(str, reports)))
    if output is not None:
        console.say(f"The certificate is in {output}.")
    if any(report.refuted for report in reports):
        raise typer.Exit(PromiseError.exit_code)


# --- options -------------------------------------------------------------------------------------

Subject = Annotated[
    str | None,
    typer.Argument(metavar="[SUBJECT]", help="Folder of a release or a database, or a table."),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", "-s", metavar="FILE", help="Schema of the table (TOML).")
]
K = Annotated[
    float | None,
    typer.Option("--k", metavar="NUMBER", help="Table: k-anonymity claimed."),
]
L = Annotated[
    int | None,
    typer.Option("--l", metavar="NUMBER", help="Table: l-diversity claimed."),
]
T = Annotated[
    float | None, typer.Option("--t", metavar="NUMBER", help="Table: t-closeness claimed.")
]
N = Annotated[
    int | None,
    typer.Option("--n", metavar="NUMBER", help="Table: --t is that of (n, t)-closeness."),
]
KnownOption = Annotated[
    list[str] | None,
    typer.Option(
        "--known",
        metavar="COLUMNS",
        help="Release: what an attacker knows of people: age,sex.",
    ),
]
Worst = Annotated[
    int,
    typer.Option(
        "--worst", metavar="NUMBER", help="Release: how many of the worst-off people to list."
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="TABLE",
        help="Release by generalise: its private table, for the risk before and after.",
    ),
]
Joined = Annotated[
    Path | None,
    typer.Option(
        "--joined", metavar="RELEASE", help="With --against: another release to join with it."
    ),
]
Method = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", help="A method that publishes rows."),
]
Values = Annotated[
    int, typer.Option("--values", metavar="NUMBER", help="Method: sensitive values to hide among.")
]
Claim = Annotated[
    float | None,
    typer.Option("--claim-epsilon", metavar="NUMBER", help="Method: the epsilon claimed for it."),
]
Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", metavar="NUMBER", help="Method: its epsilon, as of publish."),
]
Parameter = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter", "-p", metavar="NAME=VALUE", help="Method: a parameter of it, as k=49."
    ),
]
Runs = Annotated[
    int, typer.Option("--runs", metavar="NUMBER", help="Runs, or games, for each test.")
]
Everything = Annotated[bool, typer.Option("--all", help="The whole catalogue of methods.")]
Page = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Certificate as one HTML page."),
]

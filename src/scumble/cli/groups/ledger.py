"""The commands `scumble ledger ...`: what several releases of one table cost together."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import console, options, printing
from scumble.model.errors import LedgerError
from scumble.model.privacy.guarantee import large_epsilon_warning

if TYPE_CHECKING:
    from scumble.private.ledger.ledger import Charge, Ledger

app = console.group("Add up what several releases of one table cost.")


@app.command()
def create(
    folder: Folder,
    neighbours: Neighbours,
    epsilon: Epsilon = None,
    delta: Delta = None,
    pure: Pure = None,
    contribution: Contribution = 1,
    sensitive: Sensitive = None,
    parts: Parts = None,
    name: Name = "one table",
    as_json: options.Json = False,
) -> None:
    """Make a ledger for the people of one table.

    Then charge every release about them to it: scumble publish ... --ledger LEDGER.
    """
    from scumble.private.ledger.ledger import Ledger

    columns = options.columns(sensitive)
    ledger = Ledger.create(
        folder,
        neighbours=neighbours,
        epsilon=epsilon,
        delta=delta,
        pure=pure,
        contribution=contribution,
        sensitive=columns or None,
        parts=parts,
        name=name,
    )
    if ledger.terms.limit and (remark := large_epsilon_warning(ledger.terms.limit.epsilon)):
        console.say(f"Note: {remark}")
    if as_json:
        console.print_json(fields(ledger))
    else:
        show_created(ledger, folder)


@app.command()
def show(
    folder: Folder,
    delta: AnyDelta = None,
    as_json: options.Json = False,
) -> None:
    """Show what all releases cost together, and each of them."""
    from scumble.private.ledger.ledger import Ledger

    ledger = Ledger.open(folder)
    if as_json:
        console.print_json(fields(ledger, delta))
    else:
        print_ledger(ledger, delta)


@app.command()
def verify(folder: Folder, seal: options.Seal = None, as_json: options.Json = False) -> None:
    """Find entries of the ledger that were changed or cut off."""
    from scumble.private.ledger.ledger import Ledger

    ledger = Ledger.open(folder)
    findings = ledger.verify(seal)
    now = None if findings else ledger.seal
    show_verified(findings, now, f"ledger verify {shlex.quote(folder)}", as_json)


# --- options -------------------------------------------------------------------------------------

Folder = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER",
        help="Folder of a ledger, or postgresql://user@host/database/schema.name.",
    ),
]

Neighbours = Annotated[
    str,
    typer.Option(
        "--neighbours",
        metavar="RELATION",
        help="What is protected of a person: values (of --sensitive columns), replace (what all "
        "columns say), or add_remove (also that they are there).",
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon",
        "-e",
        metavar="NUMBER",
        help="What one person may lose in all.  [default: no limit]",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", metavar="SHARE", help="Allows Gaussian noise; goes with --epsilon."),
]
Pure = Annotated[
    float | None,
    typer.Option(
        "--pure",
        metavar="NUMBER",
        help="Part of --epsilon to keep for releases without delta, if there will be both.",
    ),
]
Contribution = Annotated[
    int, typer.Option("--contribution", metavar="ROWS", help="Most rows of one person.")
]
Sensitive = Annotated[
    list[str] | None,
    typer.Option(
        "--sensitive",
        metavar="COLUMNS",
        help="With --neighbours values: the columns, as income,condition; may be repeated.",
    ),
]
Parts = Annotated[
    str | None,
    typer.Option(
        "--parts",
        metavar="COLUMN",
        help="Column that divides the people, and never changes for one: see publish --part.",
    ),
]
Name = Annotated[
    str, typer.Option("--name", metavar="TEXT", help="Whose ledger it is, for people.")
]

AnyDelta = Annotated[
    float | None,
    typer.Option("--delta", metavar="SHARE", help="State the total for this.  [default: its own]"),
]


# --- printing ------------------------------------------------------------------------------------

_STATES = {
    "begun": "begun: charged, and no release is known. It is in the making, or whoever made it "
    "failed or was stopped; what was drawn may have been seen.",
    "returned": "returned: the table could not be read; nothing was published and nothing is "
    "charged.",
}


def fields(ledger: Ledger, delta: float | None = None) -> dict[str, Any]:
    """Return a ledger for JSON: terms and charges exactly, as text, and the total as numbers."""
    return {
        "ledger": str(ledger.folder),
        "terms": ledger.terms.to_dict(),
        "total": ledger.statement(delta).to_dict(),
        "releases": [each.to_dict() for each in ledger.charges],
    }


def show_created(ledger: Ledger, folder: str) -> None:
    """Print a new ledger, and how to charge it."""
    limit = ledger.terms.limit
    most = f"at most {limit}" if limit else "no limit"
    console.echo(
        f"Created {folder}. Protected is {ledger.terms.protects()}; {most} for all releases."
    )
    console.echo(f"Charge it: scumble publish ... --ledger {shlex.quote(folder)}")


def print_ledger(ledger: Ledger, delta: float | None) -> None:
    """Print the total, what is left of the limit, and a line for every release."""
    statement, charges = ledger.statement(delta), ledger.charges
    console.echo(f"Ledger of {ledger.terms.name}")
    lines = {
        "protects": ledger.terms.protects(),
        "limit": str(ledger.terms.limit or "none"),
        "total": str(statement),
        "left": statement.left(),
    }
    if len(statement.totals) > 1:
        lines["by part"] = statement.by_part()
    if why := statement.why():
        lines["why"] = why
    for name, value in lines.items():
        printing.hanging(f"{name:<9}", value)
    if charges:
        console.echo()
        by_part = any(each.bill.part for each in charges)
        head = ["entry", "time (UTC)", "method", "promise", "charged", "state"]
        head += ["part"] if by_part else []
        body = [_line(each) + [each.bill.part or "all"] * by_part for each in charges]
        printing.table(head, body, text_columns=len(head))
    _explain(charges)


def show_verified(findings: Sequence[str], seal: str | None, verify: str, as_json: bool) -> None:
    """Print whether a ledger is intact, and its seal; exit with an error code if it is not.

    `verify` is the command that compares the ledger with the seal later.
    """
    if as_json:
        console.print_json({"whole": not findings, "findings": list(findings), "seal": seal})
    elif seal is None:
        console.echo("\n".join(findings))
    else:
        what = "journal" if verify.startswith("db ") else "ledger"
        number = seal.partition(" ")[0]
        entries = "1 entry" if number == "1" else f"{number} entries"
        console.say(f"The {what} is whole, with {entries}. Its seal:")
        console.echo(seal)
        command = f"scumble {verify} --seal '...'"
        console.say(f"Keep it elsewhere: {command} compares the {what} with it.")
    if findings:
        raise typer.Exit(LedgerError.exit_code)


def _line(charge: Charge) -> list[str]:
    bill = charge.bill
    cost = "not counted" if bill.loss is None else str(bill.loss)
    time = charge.time[:16].replace("T", " ")
    return [str(charge.number), time, bill.method, bill.promise, cost, charge.state]


def _explain(charges: list[Charge]) -> None:
    """Print why a release costs more than it promises or is not counted, and what states mean."""
    entries: dict[str, list[str]] = {}
    for each in charges:
        if each.bill.remark:
            entries.setdefault(each.bill.remark, []).append(str(each.number))
    remarks = [f"{', '.join(numbers)}: {remark}" for remark, numbers in entries.items()]
    states = [_STATES[state] for state in _STATES if any(each.state == state for each in charges)]
    if remarks or states:
        console.echo()
        printing.bullets([*remarks, *states])

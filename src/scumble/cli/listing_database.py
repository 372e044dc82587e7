"""What the command line prints of a database: answers and what became of the questions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scumble.cli import printing

if TYPE_CHECKING:
    from scumble.private.database.database import Database
    from scumble.private.database.inspect import Reading
    from scumble.private.database.live import LiveEstimate
    from scumble.public.estimate import Estimates

_SHOWN_GROUPS = 20
_SHOWN_BATCHES = 20


def show_created(database: Database, folder: Path) -> None:
    """What was made, and how to go on."""
    terms = database.terms
    place = shlex.quote(str(folder))
    typer.echo(f"Created {folder}: {_promise(database)}")
    printing.bullets([str(database.guarantee)])
    for name, part in terms.quotas.items():
        printing.bullets([f"{name}: at most {terms.limit_of(part)} of the answers for a point."])
    typer.echo(f'Ask: scumble db ask {place} --source SOURCE "SELECT COUNT(*) FROM t"')


def show_appended(folder: Path, number: int) -> None:
    """What the rows are now, and how to go on."""
    ask = f"scumble db ask {shlex.quote(str(folder))} --source SOURCE --batch ROWS"
    typer.echo(f"Added as batch {number} of {folder}, with the whole promise.")
    if number > 2:
        typer.echo(f"Give --batch {number - 1} times, in the order in which rows were added.")
    typer.echo(f'Ask: {ask} "SELECT COUNT(*) FROM t"')


def show_answer(answer: LiveEstimate | Estimates, level: float) -> None:
    """An answer as a table, and below it what was really answered."""
    from scumble.public.estimate import Estimates

    printing.show_answer(answer, level)
    rows: Sequence[Any] = list(answer) if isinstance(answer, Estimates) else [((), answer)]
    moved = [(key, each) for key, each in rows if each.status == "relaxed"]
    for fate in ("answered", "repeated"):
        count = sum(each.status == fate for _, each in rows)
        if count:
            groups = "" if count == len(rows) else f" for {count} of {len(rows)} groups"
            typer.echo(_FATES[fate] + groups + ".")
    for key, each in moved[:_SHOWN_GROUPS]:
        group = f"{', '.join(map(str, key))}: " if key else ""
        typer.echo(group + _relaxed(each))
    if len(moved) > _SHOWN_GROUPS:
        typer.echo(f"... and {len(moved) - _SHOWN_GROUPS} more groups were relaxed.")


_FATES = {
    "answered": "Answered as asked",
    "repeated": "The same answer as before, free of charge",
}


def _relaxed(answer: LiveEstimate) -> str:
    """In place of which condition another one was answered."""
    if not answer.numbers:
        return "Not answered: the promise is used up here, and no earlier count helps."
    made = f"made of {answer.numbers} answers" if answer.numbers > 1 else "an answer from before"
    if not answer.distance:
        return f"Exactly what was asked, {made}."
    where = f"WHERE {answer.answered}" if answer.answered else "many boxes"
    return f"Relaxed: this counts {where} (relaxation error {answer.distance:.3g}; {made})."


def show_cost(found: Mapping[str, Any]) -> None:
    """The forecast in one or two sentences."""
    from scumble.public.estimate import digits

    if found["status"] == "refused":
        typer.echo(f"It would be refused. {found['reason']}")
        return
    error = digits(found["stderr"], found["stderr"])
    spent = found["new numbers"]
    price = {0: "nothing to pay", 1: "1 new number"}.get(spent, f"{spent} new numbers")
    typer.echo(f"It would be {found['status']}: standard error {error}, {price}.")
    if found["status"] == "relaxed":
        what = f"What is counted instead: {found['answered']}. " if found["answered"] else ""
        typer.echo(f"{what}The relaxation error is {found['distance']:.3g}.")


def show_status(reading: Database | Reading) -> None:
    """The promise and how much of it is used."""
    facts = reading.status()
    typer.echo(_promise(reading))
    printing.bullets([str(reading.guarantee)])
    limit, share = facts["most answers for one point"], facts["share used"]
    lines = {
        "used": f"{facts['used']} of {limit} at the most asked-about point ({share:.0%})",
        **{name: f"{facts[name]:,}" for name in ("answered", "relaxed")},
        "numbers given out": f"{facts['numbers given out']:,}",
        **_batches(facts),
        "tracker": f"{facts['tracker']}, over {_points(facts['points'])} points",
    }
    for name, used in facts["analysts"].items():
        lines[name] = f"{used} of {reading.terms.limit_of(reading.terms.quotas[name])}"
    width = max(map(len, lines))
    for name, value in lines.items():
        typer.echo(f"{name:<{width}}  {value}")


def _batches(facts: Mapping[str, Any]) -> dict[str, str]:
    """How much of the promise is used in each batch, where there are several."""
    used = facts["used in each batch"]
    few = [str(number) for number in used[:_SHOWN_BATCHES]]
    more = ["..."] if len(used) > _SHOWN_BATCHES else []
    told = f"{len(used)}, each with the promise; used in them: {', '.join(few + more)}"
    return {"batches": told} if len(used) > 1 else {}


def show_history(entries: Sequence[Mapping[str, Any]]) -> None:
    """A line for every question."""
    analysts = any(entry["analyst"] for entry in entries)
    head = ["entry", "time (UTC)", *(["analyst"] if analysts else []), "status", "question"]
    body = [
        [
            str(entry["number"]),
            entry["time"][:19].replace("T", " "),
            *([entry["analyst"] or ""] if analysts else []),
            entry["status"],
            " ".join(entry["sql"].split()) or f"(rows of batch {entry['batch']})",
        ]
        for entry in entries
    ]
    if body:
        printing.table(head, body, text_columns=len(head))
    else:
        typer.echo("Nothing was answered yet.")


def show_columns(database: Database) -> None:
    """What can be asked about."""
    rows = [[each.name, each.describe()] for each in database.space.attributes]
    printing.table(["column", "domain"], rows, text_columns=2)


def _promise(known: Database | Reading) -> str:
    terms = known.terms
    return (
        f"ε = {float(terms.epsilon):g} for all answers together, noise {float(terms.noise):g} in a "
        f"count; at most {terms.limit} answer{'s' if terms.limit > 1 else ''} for a point of "
        f"{', '.join(known.space.names)}."
    )


def _points(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"{number:.3g}"

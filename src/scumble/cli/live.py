"""What the commands `db` and `ask` do with a live database, and how they show it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scumble.cli import bars, console, options, printing
from scumble.model.errors import ParameterError
from scumble.model.privacy.guarantee import large_epsilon_warning

if TYPE_CHECKING:
    from scumble.cli.ask import Asking
    from scumble.private.database.database import Database
    from scumble.private.database.live.database import LiveDatabase
    from scumble.private.database.live.inspect import LiveInspection
    from scumble.private.database.live.results import LiveAnswer, LiveCost


def create(folder: str, source: str, schema: Any, as_json: bool, **parameters: Any) -> None:
    """Make a live database, and say what it promises."""
    from scumble.cli.publish import say_remark
    from scumble.private.database.live.database import LiveDatabase

    table, ledger = parameters["table"], parameters["ledger"]
    with bars.progress("Reading", options.rows_of(source, table)) as progress:
        made = LiveDatabase.create(folder, source, schema, progress=progress, **parameters)
    with made as database:
        if remark := large_epsilon_warning(database.terms.epsilon):
            console.say(f"Note: {remark}")
        if names := ", ".join(database.schema.from_data):
            console.say(f"Note: the domain of {names} was read from the private data: a leak.")
        for remark in database.remarks:
            say_remark(remark)
        if ledger is not None:
            console.say(f"Note: {describe_charge(database, ledger)}")
        if as_json:
            console.print_json({"database": folder, **asdict(database.status())})
            return
        console.echo(f"Created {folder}: every question has an answer; a better one is paid for.")
        printing.bullets([str(database.guarantee)])
        ask = f"scumble ask {shlex.quote(folder)} --source SOURCE"
        console.echo(f'Ask: {ask} "SELECT COUNT(*) FROM t WHERE ..." --within 50')


def describe_charge(database: Database | LiveDatabase, ledger: str) -> str:
    """Return what a new database has cost its owner, in a sentence."""
    from scumble.private.ledger.cost import bill_of_database
    from scumble.private.ledger.ledger import open_ledger

    terms = database.terms
    limit = open_ledger(ledger).terms
    return str(bill_of_database(terms.claim(), database.schema, limit, seeded=terms.seeded))


@contextmanager
def opened(target: str, asking: Asking) -> Iterator[LiveDatabase]:
    """Open the database in a folder over its private table."""
    from scumble.private.database.live.database import LiveDatabase

    if asking.source is None:
        raise ParameterError(
            "A database is asked over its private table: name it with --source, or in the "
            "environment variable SCUMBLE_SOURCE."
        )
    with bars.progress("Reading", options.rows_of(asking.source, asking.table)) as progress:
        database = LiveDatabase.open(target, asking.source, table=asking.table, progress=progress)
    with database:
        yield database


def arguments(asking: Asking) -> dict[str, Any]:
    """Return arguments of `LiveDatabase.ask` and `preview`, besides the accuracy."""
    return {"tables": options.side_tables(asking.side), "analyst": asking.analyst}


def show_answer(answer: LiveAnswer, level: float, *, as_json: bool) -> None:
    """Print an answer, and what became of the question."""
    if as_json:
        found: Mapping[str, Any] = {
            "answer": printing.answer_fields(answer.estimate, level),
            "status": answer.status,
            "half_width": answer.half_width,
            "charged": answer.charged,
            "needed": answer.needed,
            "fresh": [
                {"group": list(key), "answer": printing.answer_fields(each, level)}
                for key, each in answer.fresh.items()
            ],
        }
        console.print_json(found)
        return
    from scumble.public.estimate_table import EstimateTable

    printing.show_answer(answer.estimate, level)
    what = {"known": "Known", "answered": "Answered", "limited": "Limited"}[answer.status]
    several = "all numbers " if isinstance(answer.estimate, EstimateTable) else ""
    width = f"{what}: {several}within ±{_number(answer.half_width)} at {100 * level:g} %"
    paid = f"charged {_percent(answer.charged)}" if answer.charged else "nothing was charged"
    console.echo(f"{width}; {paid}.{_missing(answer)}")


def _missing(found: LiveAnswer | LiveCost) -> str:
    """Return what an accuracy that was not reached would have cost."""
    if found.status != "limited":
        return ""
    if found.needed > 1:
        return " The accuracy asked for costs more than the whole promise."
    return f" The accuracy asked for would cost {_percent(found.needed)} at once."


def show_cost(found: LiveCost, level: float) -> None:
    """Print what would become of a question."""
    at = f"at {100 * level:g} %"
    console.echo(f"Known now: within ±{_number(found.half_width)} {at}, free.")
    if found.status == "known":
        return
    console.echo(
        f"It would be {found.status}: within ±{_number(found.affordable)} {at}, for "
        f"{_percent(found.charged)}.{_missing(found)}"
    )


def show_status(reading: LiveInspection) -> None:
    """Print the promise of a live database, and how much of it is used."""
    facts = reading.status()
    printing.bullets([str(reading.guarantee)])
    lines = {
        "used": f"{_percent(facts.used)} at the most asked-about point",
        "answered": f"{facts.answered:,}",
        "limited": f"{facts.limited:,}",
        "counts bought": f"{facts.purchases:,}",
        "points": f"{facts.points:,}",
        **{name: f"{_percent(used)} of the quota" for name, used in facts.quotas.items()},
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        console.echo(f"{name:<{width}}  {value}")


def _percent(share: float) -> str:
    return f"{100 * share:.3g} % of what is for purchases"


def _number(half_width: float) -> str:
    from scumble.public.estimate import format_number

    return format_number(half_width, half_width)

"""The work of a process that a job starts: JSON on its input, lines of JSON on its output.

Nothing private is written: a result has what the owner may see, and an unexpected error only the
name of its class.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from scumble.compare.comparison import Comparison
from scumble.compare.measures import MEASURES
from scumble.compare.page import OWNER, PREVIEW
from scumble.compare.points import points, sentence
from scumble.compare.questions import questions
from scumble.compare.settings import Settings, schema_to_compare, warn_of_rows
from scumble.compare.truth import TrueTable, stand_in
from scumble.model.errors import ParameterError, ScumbleError, SourceError, set_dialect
from scumble.model.schema.schema import Schema
from scumble.private.database.database import Database
from scumble.private.database.tables import CodedRows, SourceTable, queryable_schema
from scumble.private.ledger.ledger import Ledger
from scumble.private.mechanism import create
from scumble.private.publish import publish as make
from scumble.private.publish_options import PublishOptions, Table
from scumble.private.tables.open import expected_rows, open_source
from scumble.private.tables.persons.limit import shares_kept
from scumble.server.problems import ServerDialect
from scumble.server.publishing.jobs import TOO_LARGE

if TYPE_CHECKING:
    from scumble.private.tables.rows import Outside

Report = Callable[[int, int | None], None]
BOUNDS = (1, 2, 5, 10)  # on the rows of a person
_STAND_IN = 10_000  # rows of a preview, as of `scumble compare --private-preview`
_REPEATS = 3
_EVERY = 0.2  # seconds between two lines of progress
_NICE = 5  # questions are answered first


def propose(report: Report, source: str, table: str | None, columns: int) -> dict[str, Any]:
    """Propose a schema by reading the private table, which has at most `columns` columns."""
    found = len(open_source(source, table=table).columns)
    if found > columns:
        raise SourceError(
            f"The table has {found:,} columns, of at most {columns:,} (limits.columns). Leave out "
            "those that nobody will ask about."
        )
    total = expected_rows(source, table)
    schema = Schema.infer(source, table=table, progress=lambda rows: report(rows, total))
    return {"schema": schema.dumps(), "checks": schema.checks(), "rows": total or 0}


def shares(report: Report, source: str, table: str | None, person: str) -> dict[str, Any]:
    """Return which share of the rows some bounds on the rows of a person keep."""
    report(0, None)
    found = shares_kept(open_source(source, table=table), person, BOUNDS)
    return {"person": person, "shares": [[most, share] for most, share in found.items()]}


def compare(
    report: Report,
    source: str,
    table: str | None,
    schema: str,
    methods: Sequence[str],
    epsilons: Sequence[float],
    preview: bool,
) -> dict[str, Any]:
    """Compare methods, on a stand-in made of the schema alone or on the private table."""
    given = Schema.loads(schema)
    known = schema_to_compare(given)
    found = stand_in(known, _STAND_IN) if preview else TrueTable.read(source, known, table=table)
    asked = questions("breakdowns", found, None, 0)
    choices = Settings(found, asked, "replace").choices(methods, epsilons, {})
    comparison = Comparison(found, asked, choices, _REPEATS)
    results = comparison.blank(preview=preview)
    total = len(choices) * _REPEATS
    with closing(comparison.runs(results)) as runs:
        for done in runs:
            report(done, total)
    values = int(results.about["values"])
    return {
        "preview": preview,
        "notice": f"{PREVIEW if preview else OWNER} {warn_of_rows(given)}".strip(),
        "measure": MEASURES["relative"].words,
        "blind": 1 / max(values, 1),
        "left out": results.refusals(),
        "points": [
            {
                "method": each.method,
                "words": each.words,
                "success": each.success,
                "error": each.error.mean if math.isfinite(each.error.mean) else None,
                "private": each.private,
                "whole": each.whole,
                "limit": each.basis == "limit",
                "beaten by": each.beaten_by,
                "worst": each.worst,
                "sentence": sentence(each),
                "parameters": dict(each.parameters),
            }
            for each in points(results, "relative")
        ],
    }


def publish(
    report: Report,
    source: str,
    table: str | None,
    schema: str,
    method: str,
    parameters: dict[str, Any],
    folder: str,
    lock: str,
    ledger: str | None,
) -> dict[str, Any]:
    """Publish a release into a new folder. `lock` is held as long as this process runs."""
    _hold(lock)
    mechanism = create(method, **parameters)
    if mechanism.private_record:
        raise ParameterError(
            "The server makes no release that takes a private record to be continued: leave "
            "identifier (aroma) and views (alphabeta) out, or publish it in Python or the shell."
        )
    charged = None if ledger is None else Ledger.open(ledger)
    total = expected_rows(source, table)
    release = make(
        Table(source, table),
        Schema.loads(schema),
        mechanism,
        options=PublishOptions(progress=lambda rows: report(rows, total)),
        ledger=charged,
    )
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is charged: too late to cancel
    release.save(folder)
    return {
        "remarks": list(release.remarks),
        "promise": [str(each) for each in release.guarantees],
        "charge": charged and charged.last_charge,
    }


def create_database(
    report: Report,
    source: str,
    table: str | None,
    schema: str,
    epsilon: float,
    noise: float,
    attributes: list[str] | None,
    kept: str,
    room: int,
    folder: str,
    lock: str,
    ledger: str | None,
) -> dict[str, Any]:
    """Create a database in a new folder, and keep its rows as codes in a file.

    `room` is the bytes that it may take. `lock` is held as long as this process runs.
    """
    _hold(lock)
    known = Schema.loads(schema)
    asked = queryable_schema(known, attributes).to_dict()
    remarks = SourceTable(source, table).remarks(known)
    encode(report, source, table, asked, "error", kept, room)
    charged = None if ledger is None else Ledger.open(ledger)
    with Database.create(
        folder,
        CodedRows(Path(kept)),
        known,
        epsilon=epsilon,
        noise=noise,
        attributes=attributes,
        ledger=charged,
    ) as made:
        charge = charged and charged.last_charge
        return {"remarks": list(remarks), "promise": [str(made.guarantee)], "charge": charge}


def encode(
    report: Report,
    source: str,
    table: str | None,
    schema: dict[str, Any],
    outside: Outside,
    kept: str,
    room: int,
) -> dict[str, Any]:
    """Read the rows of a table, and keep them as codes in a new file of at most `room` bytes.

    The server maps that file, and reads no table in its own process.
    """
    total, known = expected_rows(source, table), Schema.from_dict(schema)
    read = SourceTable(source, table, lambda rows: report(rows, total))
    read.read(known, outside).save(Path(kept), known, room)
    return {}


_HELD: list[FileLock] = []


def _hold(lock: str) -> None:
    """Take a lock until the process ends, by which a server that starts sees that it runs."""
    Path(lock).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _HELD.append(FileLock(lock, timeout=0))
    _HELD[-1].acquire()


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each for each in (propose, shares, compare, publish, create_database, encode)
}


def main() -> None:
    """Do the task on the input, and write its progress and its result."""
    os.nice(_NICE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which cancels jobs
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    _limit_memory(given["memory"])
    set_dialect(ServerDialect())
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # what a library prints is no line
    last = 0.0

    def write(**fields: Any) -> None:
        out.write(json.dumps(fields) + "\n")
        out.flush()

    def report(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            write(done=int(done), total=total)

    try:
        write(result=TASKS[given["task"]](report, **given["arguments"]))
    except ScumbleError as error:
        source = str(given["arguments"]["source"])
        write(error=str(error).replace(source, Path(source).name))
    except Exception as error:  # its message may quote a private value
        name = type(error).__name__
        if "memory" in name.lower():  # of Python, of Arrow or of DuckDB
            write(error=TOO_LARGE.format(given["memory"] or 0))
        else:
            write(bug=name)


def _end_with_input() -> None:
    """End this process, and those that it started, when the server has ended."""
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)


def _limit_memory(memory: float | None) -> None:
    """Let this process use so many MB, where the system can limit it."""
    if memory is not None and sys.platform == "linux":
        import resource

        size = int(memory * (1 << 20))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        size = size if most == resource.RLIM_INFINITY else min(size, most)
        resource.setrlimit(resource.RLIMIT_DATA, (size, most))

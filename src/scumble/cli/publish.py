"""What `scumble publish` does once it knows the method."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options, printing, publish_options
from scumble.cli.method_options import check_needed
from scumble.cli.publish_options import PublishOptions
from scumble.model.errors import ParameterError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scumble.cli.method_options import MethodOption
    from scumble.model.schema.schema import Schema
    from scumble.private.mechanism import Mechanism
    from scumble.private.owner import OwnedRelease


Levels = Annotated[
    str | None,
    typer.Option(
        "--levels", metavar="NUMBERS", help="One nested view for each k, --k the largest: 5,20,49."
    ),
]
UpdateRecordOption = Annotated[
    Path | None,
    typer.Option(
        "--update-record", metavar="FILE", help="Where to keep the private record of a release."
    ),
]


def publish_by(
    method: str,
    own: Mapping[str, MethodOption],
    parameters: dict[str, Any],
    common: PublishOptions,
    levels: str | None = None,
    update_record: Path | None = None,
) -> None:
    """Publish by a method that has its `own` options for these parameters."""
    from scumble.private.mechanism import create

    steps = None if levels is None else _numbers(levels)
    if steps and parameters.get("k") is None:
        parameters["k"] = max(steps)
    check_needed(method, own, parameters)
    publish_table(create(method, **parameters), common, steps, update_record)


Epsilon = Annotated[
    float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss of one person.")
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", metavar="SHARE", help="Probability beyond epsilon that is allowed."),
]


def publish_auto(common: PublishOptions, epsilon: Epsilon, delta: Delta = None) -> None:
    """Publishes by the method that `scumble recommend` names for questions about the table.

    It is chosen from the schema, the number of rows where the release tells it, and epsilon; the
    release says which method it is, and why.
    """
    from scumble.model.schema.schema import Schema
    from scumble.private.publish import publish
    from scumble.private.tables.open import open_source

    place = _check_place(common.output, common.to, None, common.force)
    known = Schema.load(common.schema)
    rows = open_source(common.source, table=common.table, query=common.query)
    with (
        bars.progress("Publishing", options.rows_of(rows)) as progress,
        publish_options.opened_engine(
            common.engine, common.master, common.staging, common.insecure_cluster
        ) as engine,
        _mention_charge(common.ledger),
    ):
        release = publish(
            common.read(rows),
            known,
            epsilon=epsilon,
            delta=delta,
            options=common.how(engine, progress),
            ledger=common.ledger,
        )
        rows.close()
        release.save(place, force=common.force, insecure=common.insecure_seed is not None)
    show_made(release, place, common.as_json)


def publish_table(
    mechanism: Any,
    common: PublishOptions,
    levels: list[int] | None = None,
    update_record: Path | None = None,
) -> None:
    """Publish the table of the options, save the release, and print what it promises."""
    from scumble.model.schema.schema import Schema
    from scumble.private.mechanism import protect_unit
    from scumble.private.publish import publish
    from scumble.private.tables.open import open_source

    seeded = common.insecure_seed is not None
    place = _check_place(common.output, common.to, levels, common.force)
    _check_record(update_record, mechanism, place, common.force)
    known = mechanism.read_schema(Schema.load(common.schema))
    mechanism = protect_unit(mechanism, known)
    _check_mechanism(mechanism, known, common.to, common.force)
    whole = common.part is None and common.sample is None
    _check_reading(mechanism, known, common.outside, common.ledger, whole=whole, seeded=seeded)
    rows = open_source(common.source, table=common.table, query=common.query)
    # What to expect is computed for whole tables, not for a sample.
    quiet = common.as_json or common.sample is not None
    said = () if quiet else _show_outlook(mechanism, known)
    warning = _noise_warning(mechanism, known, rows.rows)
    if not common.as_json:  # a program that fails wants one object on stderr
        _warn(warning)
    saving: dict[str, Any] = {"force": common.force, "insecure": seeded}
    saving |= {} if update_record is None else {"update_record": update_record}
    with (
        bars.progress("Publishing", options.rows_of(rows)) as progress,
        publish_options.opened_engine(
            common.engine, common.master, common.staging, common.insecure_cluster
        ) as engine,
        _mention_charge(common.ledger),
    ):
        read = common.read(rows)
        given: dict[str, Any] = {"options": common.how(engine, progress), "ledger": common.ledger}
        if levels is None:
            folders = {place: publish(read, known, mechanism, **given)}
        else:
            found = mechanism.publish_levels(read, known, levels=levels, **given)
            folders = {Path(place) / f"k{each.manifest.parameters['k']}": each for each in found}
        rows.close()  # a file of SQLite cannot be written while it is read
        for folder, release in folders.items():
            release.save(folder, **saving)
    if common.as_json:
        _warn(warning)
    for folder, release in folders.items():
        show_made(release, folder, common.as_json, said=(*said, warning))


@contextmanager
def _mention_charge(ledger: str | None) -> Iterator[None]:
    """Say after Ctrl-C that the ledger may stay charged: what was drawn may have been seen."""
    try:
        yield
    except KeyboardInterrupt:
        if ledger is not None:
            where = shlex.quote(str(ledger))
            console.say(f"The ledger may stay charged for it: scumble ledger show {where}")
        raise


def show_made(
    release: OwnedRelease,
    folder: Path | str,
    as_json: bool,
    done: str = "Published",
    said: Sequence[str] = (),
) -> None:
    """Print a new release, after the remarks for its owner that are not in `said`."""
    tell_remarks(release, said)
    if as_json:
        console.print_json({"release": str(folder), **printing.manifest(release)})
    else:
        printing.show_published(release, folder, done)


def tell_remarks(release: OwnedRelease, said: Sequence[str] = ()) -> None:
    """Print the remarks of a new release for its owner that are not in `said`."""
    from scumble.private.expectation import LOUD

    warned = any(each.startswith(LOUD) for each in said)
    for remark in (*release.remarks, *printing.warnings(release)):
        if remark not in said and not (warned and remark.startswith(LOUD)):
            say_remark(remark)


def say_remark(remark: str) -> None:
    """Print a remark for the owner as a warning or a note."""
    from scumble.private.expectation import LOUD
    from scumble.private.manifest import NO_ROWS
    from scumble.private.mechanism import MANY_LEFT_OUT, RISES
    from scumble.private.tables.check import REPEATED

    warning = remark.startswith((LOUD, NO_ROWS, MANY_LEFT_OUT, RISES)) or REPEATED in remark
    console.say(f"{'WARNING' if warning else 'Note'}: {remark}")


def _show_outlook(mechanism: Mechanism, schema: Schema) -> tuple[str, ...]:
    """Print cautions and the errors to expect, before any row is read. Return the cautions.

    The cautions are remarks of the release as well, and are not printed twice.
    """
    from scumble.private.expectation import expectation
    from scumble.private.mechanism import cautions_of

    cautions = cautions_of(mechanism, schema)
    for sentence in cautions:
        console.say(f"Note: {sentence}")
    for sentence in expectation(mechanism, schema):
        console.say(sentence)
    return cautions


def _noise_warning(mechanism: Mechanism, schema: Schema, rows: int | None) -> str:
    """Return a warning if answers about a tenth of the rows will say nothing, or an empty text.
    `rows` is the number of rows of the source, if it is known.
    """
    from scumble.private.expectation import hopeless, public_rows

    return hopeless(mechanism, schema, public_rows(mechanism, rows))


def _warn(warning: str) -> None:
    if warning:
        console.say(f"WARNING: {warning}")


def _check_place(
    output: Path | None, to: str | None, levels: list[int] | None, force: bool
) -> Path | str:
    """Return where the release goes. A folder is refused before any work is done."""
    publish_options.check_one_place("release goes", output, to)
    if output is not None:
        _check_output(output, levels, force)
        return output
    if levels is not None:
        raise ParameterError("Several --levels go to a folder: give --output instead of --to.")
    return str(to)


def _check_mechanism(mechanism: Mechanism, schema: Schema, to: str | None, force: bool) -> None:
    """Refuse a schema that it cannot serve, and a database that cannot hold what it publishes."""
    from scumble.private.owner import check_address

    mechanism.check(schema)
    if to is not None:
        check_address(to, mechanism, schema, force=force)


def _check_reading(
    mechanism: Mechanism,
    schema: Schema,
    outside: str,
    ledger: str | None,
    *,
    whole: bool,
    seeded: bool,
) -> None:
    """Refuse a wrong `outside`, a ledger that is not there, and for a `whole` table one that does
    not allow the release, before anything is said about it.
    """
    from scumble.private.ledger.cost import bill_of
    from scumble.private.ledger.ledger import open_ledger
    from scumble.private.tables.rows import check_outside

    check_outside(outside)
    found = None if ledger is None else open_ledger(ledger)
    if found is not None and whole:
        found.check(bill_of(mechanism, schema, found.terms, outside=outside, seeded=seeded))


def _check_output(output: Path, levels: list[int] | None, force: bool) -> None:
    """Refuse an output folder before any work is done and any ledger is charged.

    Saving would refuse it as well, but later. Saving also does not know that levels of an earlier
    draw must not stay beside new ones.
    """
    from scumble.public.archive.archive import check_folder, check_new_place, is_free

    if levels is None:
        check_folder(output, force=force)
        return
    check_new_place(output)
    if is_free(output):
        return
    new = {f"k{level}" for level in levels}
    if not output.is_dir() or {path.name for path in output.iterdir()} - new:
        raise ReleaseError(f"{output} holds more than these levels: remove it, or choose another.")
    for name in sorted(new):
        check_folder(output / name, force=force)


def _check_record(
    update_record: Path | None, mechanism: Mechanism, output: Path | str, force: bool
) -> None:
    """Refuse a place for the private record before any work is done."""
    from scumble.private.owner import refuse_record_place

    if mechanism.private_record and isinstance(output, str):
        raise ParameterError("A release that can be continued goes to a folder: give --output.")
    if mechanism.private_record and update_record is None:
        raise ParameterError(
            "With --identifier, or with --views above 1, the release can be continued, which takes "
            "a private record: say with --update-record FILE where to keep it, outside the release "
            "folder."
        )
    if update_record is not None and not mechanism.private_record:
        raise ParameterError(
            "A private record (--update-record) belongs to a release that can be continued: by "
            "aroma with --identifier COLUMN, or by alphabeta with --views 2 or more. "
            "Leave --update-record out."
        )
    if update_record is not None:
        refuse_record_place(update_record, Path(output), force=force)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError.of("publish", "levels", "numbers such as 5,20,49", text) from None

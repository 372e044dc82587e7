"""The commands publish, republish, insert, delete and marginal.

The owner of a table publishes it, adds views or records to a release, takes records out, and writes
the cells of a marginal.
"""

from __future__ import annotations

import inspect
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options, printing, publish_options
from scumble.model.errors import ParameterError, ReleaseError
from scumble.model.query import query_command

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from scumble.model.schema.schema import Schema
    from scumble.private.mechanism import Mechanism
    from scumble.private.owner import OwnedRelease


@publish_options.take_mechanism_options
def publish(
    source: options.Source,
    schema: options.SchemaFile,
    method: publish_options.Method,
    output: publish_options.ReleaseOutput = None,
    to: publish_options.ReleaseAddress = None,
    ledger: options.Ledger = None,
    part: publish_options.Part = None,
    sample: publish_options.Sample = None,
    basket: options.Basket = None,
    order: options.Order = None,
    levels: publish_options.Levels = None,
    book: publish_options.Book = None,
    outside: options.Outside = "error",
    reveal: publish_options.Reveal = False,
    table: options.Table = None,
    query: publish_options.SourceQuery = None,
    force: options.Force = False,
    jobs: publish_options.PublishJobs = 1,
    engine: publish_options.Engine = "local",
    master: publish_options.Master = None,
    staging: publish_options.Staging = None,
    insecure_cluster: publish_options.InsecureCluster = False,
    insecure_seed: publish_options.InsecureSeed = None,
    as_json: options.Json = False,
    **parameters: Any,
) -> None:
    """Publish a table under a stated privacy promise."""
    from scumble.model.schema.schema import Schema
    from scumble.private.mechanism import protect_unit
    from scumble.private.publish import publish
    from scumble.private.tables.open import open_source

    steps = None if levels is None else _numbers(levels)
    if steps and method == "aroma" and parameters.get("k") is None:
        parameters["k"] = float(max(steps))
    mechanism = _create(method, publish_options.mechanism_parameters(parameters))
    if steps is not None:
        _with_levels(mechanism)
    place = _check_place(output, to, steps, force)
    _check_record(book, mechanism, place, force)
    known = Schema.load(schema).with_derived(getattr(mechanism, "names", ()))
    mechanism = protect_unit(mechanism, known)
    _check_mechanism(mechanism, known, to, force)
    whole = part is None and sample is None
    _check_reading(mechanism, known, outside, ledger, whole=whole, seeded=insecure_seed is not None)
    rows = open_source(source, table=table, query=query)
    # What to expect is computed for whole tables, not for a sample.
    said = () if as_json or sample is not None else _show_outlook(mechanism, known)
    warning = _noise_warning(mechanism, known, rows.rows)
    if not as_json:  # a program that fails wants one object on stderr
        _warn(warning)
    named: dict[str, Any] = {"outside": outside, "reveal": reveal, "seed": insecure_seed}
    named |= {"ledger": ledger, "part": part, "sample": sample}
    named |= {"basket": basket, "order": order, "jobs": jobs}
    saving: dict[str, Any] = {"force": force, "insecure": insecure_seed is not None}
    saving |= {} if book is None else {"book": book}
    with (
        bars.progress("Publishing", options.rows_of(rows)) as progress,
        publish_options.opened_engine(engine, master, staging, insecure_cluster) as named["engine"],
        _mention_charge(ledger),
    ):
        named["progress"] = progress
        if steps is None:
            folders = {place: publish(rows, known, mechanism, **named)}
        else:
            found = _with_levels(mechanism).publish_levels(rows, known, levels=steps, **named)
            folders = {Path(place) / f"k{each.manifest.parameters['k']}": each for each in found}
        rows.close()  # a file of SQLite cannot be written while it is read
        for folder, release in folders.items():
            release.save(folder, **saving)
    if as_json:
        _warn(warning)
    for folder, release in folders.items():
        show_made(release, folder, as_json, said=(*said, warning))


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
    from scumble.private.expectation import LOUD
    from scumble.private.manifest import NO_ROWS
    from scumble.private.mechanism import MANY_LEFT_OUT, RISES

    warned = any(each.startswith(LOUD) for each in said)
    for remark in (*release.remarks, *printing.warnings(release)):
        loud = remark.startswith(LOUD)
        if remark not in said and not (loud and warned):
            warning = loud or remark.startswith((NO_ROWS, MANY_LEFT_OUT, RISES))
            console.say(f"{'WARNING' if warning else 'Note'}: {remark}")
    if as_json:
        console.print_json({"release": str(folder), **printing.manifest(release)})
    else:
        printing.show_published(release, folder, done)


def _show_outlook(mechanism: Mechanism, schema: Schema) -> tuple[str, ...]:
    """Print cautions and the errors to expect, before any row is read. Return the cautions.

    The cautions are remarks of the release as well, and are not printed twice.
    """
    from scumble.private.expectation import expectation

    cautions = mechanism.cautions(schema)
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


def _check_record(book: Path | None, mechanism: Mechanism, output: Path | str, force: bool) -> None:
    """Refuse a place for the private record before any work is done."""
    from scumble.private.owner import refuse_record_place

    if mechanism.private_record and isinstance(output, str):
        raise ParameterError("A release that can be continued goes to a folder: give --output.")
    if mechanism.private_record and book is None:
        raise ParameterError(
            "With --identifier, or with --views above 1, the release can be continued, which takes "
            "a private record: say with --book FILE where to keep it, outside the release folder."
        )
    if book is not None and not mechanism.private_record:
        raise ParameterError(
            "A private record (--book) belongs to a release that can be continued: by aroma with "
            "--identifier COLUMN, or by alphabeta with --views 2 or more. Leave --book out."
        )
    if book is not None:
        refuse_record_place(book, Path(output), force=force)


def _with_levels(mechanism: Mechanism) -> Any:
    """Return the mechanism if it publishes levels; refuse any other."""
    if not hasattr(mechanism, "publish_levels"):
        raise ParameterError(f"Only aroma publishes --levels; {mechanism.name} does not.")
    return mechanism


def _create(method: str, given: dict[str, Any]) -> Mechanism:
    """Return the mechanism, or raise an error that names options it needs or does not have."""
    from scumble.private.mechanism import create, mechanism_class

    kind = mechanism_class(method)
    known = inspect.signature(kind).parameters if kind else {}
    given = _either_attribute(given, known)
    unknown = [_option(method, name) for name in given if kind and name not in known]
    if unknown:
        listed = ", ".join(_option(method, name) for name in known)
        raise ParameterError(
            f"The method '{method}' has no option {' or '.join(unknown)}. It has {listed}."
        )
    needed = [n for n, p in known.items() if p.default is p.empty and n not in given]
    if needed:
        *others, last = (_option(method, name) for name in needed)
        listed = f"{', '.join(others)} and {last}" if others else last
        raise ParameterError(
            f"The method '{method}' needs {listed}. Its options: scumble methods {method}."
        )
    return create(method, **given)


def _either_attribute(given: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the parameters; one column may be named by --attribute or --attributes alike."""
    found = dict(given)
    if "attribute" in known and "attribute" not in found and len(found.get("attributes", ())) == 1:
        [found["attribute"]] = found.pop("attributes")
    elif "attributes" in known and "attribute" in found and "attributes" not in found:
        found["attributes"] = [found.pop("attribute")]
    return found


def _option(method: str, parameter: str) -> str:
    """Return the option that gives a parameter of a mechanism."""
    option = publish_options.option_of(method, parameter)
    return publish_options.MECHANISM_OPTIONS[option].name


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError.of("publish", "levels", "numbers such as 5,20,49", text) from None


# --- marginal --------------------------------------------------------------------------------

Names = Annotated[
    str, typer.Argument(metavar="COLUMNS", help="Attributes of the marginal, as age,sex.")
]
Nonnegative = Annotated[
    bool, typer.Option("--nonnegative", help="Fit tables without negative cells (biased).")
]
Integers = Annotated[
    bool, typer.Option("--integers", help="Round to whole numbers; the total stays.")
]
TableOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="CSV or Parquet.  [default: stdout]"),
]


def marginal(
    folder: options.ReleaseFolder,
    names: Names,
    nonnegative: Nonnegative = False,
    integers: Integers = False,
    output: TableOutput = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write all cells of one marginal of a release by marginals, fourier or datacube."""
    from scumble.cli.groups.rows import refuse_existing, write_table
    from scumble.private.owner import open_release

    refuse_existing(output, force=force)
    columns = options.columns([names])
    release = open_release(folder)
    with bars.working("Fitting tables" if nonnegative else "Reading the marginal"):
        table = release.marginal(columns, nonnegative=nonnegative, integers=integers)
    if as_json:
        console.print_json(table.to_pylist())
    else:
        write_table(table, output)
    if output is not None:
        console.say(f"Wrote {output}.")
    quoted = ", ".join(name if name.isidentifier() else f'"{name}"' for name in columns)
    sql = f"SELECT {quoted}, COUNT(*) FROM t GROUP BY {quoted}"
    console.say(f"With the error of each cell: {query_command(folder, sql)}")

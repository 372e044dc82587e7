"""Publish, republish, insert, delete, marginal.

Commands of the owner of a table: publish it, and go on with what was published.
"""

from __future__ import annotations

import inspect
import json
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import console, options, printing, publish_options
from scumble.model.errors import ParameterError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scumble.model.schema.schema import Schema
    from scumble.private.mechanism import Mechanism
    from scumble.private.owner import OwnedRelease
    from scumble.private.perturbation.aroma import Aroma


def publish(
    source: options.Source,
    schema: options.SchemaFile,
    method: publish_options.Method,
    output: publish_options.ReleaseOutput,
    ledger: publish_options.Ledger = None,
    part: publish_options.Part = None,
    levels: publish_options.Levels = None,
    book: publish_options.Book = None,
    outside: publish_options.Outside = "error",
    reveal: publish_options.Reveal = False,
    table: options.Table = None,
    force: options.Force = False,
    insecure_seed: publish_options.InsecureSeed = None,
    as_json: options.Json = False,
    **parameters: Any,
) -> None:
    """Publish a table under a stated privacy promise."""
    from scumble.model.schema.schema import Schema
    from scumble.private.publish import publish
    from scumble.private.tables.open import open_source

    steps = None if levels is None else _numbers(levels)
    if steps and method == "aroma" and parameters.get("k") is None:
        parameters["k"] = float(max(steps))
    mechanism = _make(method, _written(parameters))
    if steps is not None:
        _leveled(mechanism)
    _refuse_place(output, steps, force)
    _refuse_book(book, parameters["identifier"], output, force)
    known = Schema.load(schema)
    mechanism.check(known)
    said = () if as_json else _foretell(mechanism, known)
    rows = open_source(source, table=table)
    how: dict[str, Any] = {"outside": outside, "reveal": reveal, "seed": insecure_seed}
    how |= {"ledger": ledger, "part": part}
    with console.progress("Publishing", rows.rows) as progress, _charge_told(ledger):
        how["progress"] = progress
        found = (
            publish(rows, known, mechanism, **how)
            if steps is None
            else _leveled(mechanism).publish_levels(rows, known, levels=steps, **how)
        )
        places = _places(found, output)
        for folder, release in places.items():
            release.save(folder, force=force, insecure=insecure_seed is not None, **_kept(book))
    for folder, release in places.items():
        _told(release, folder, as_json, said=said)


publish_options.take_options(publish)


def republish(
    folder: options.ReleaseFolder,
    source: options.Source,
    table: options.Table = None,
    reveal: publish_options.Reveal = False,
    insecure_seed: publish_options.InsecureSeed = None,
    as_json: options.Json = False,
) -> None:
    """Add the next view of the same table to a release by alphabeta with --views."""
    from scumble.private.owner import open_release

    release = open_release(folder)
    with console.progress("Publishing") as progress:
        found = release.republish(
            source, table=table, reveal=reveal, seed=insecure_seed, progress=progress
        )
        found.save(folder, force=True, insecure=found.manifest.seeded)
    _told(found, folder, as_json, "Added a view to")


def insert(
    folder: options.ReleaseFolder,
    source: options.Source,
    book: publish_options.KnownBook,
    table: options.Table = None,
    reveal: publish_options.Reveal = False,
    insecure_seed: publish_options.InsecureSeed = None,
    as_json: options.Json = False,
) -> None:
    """Add records to a release by aroma with --identifier."""
    from scumble.private.owner import open_release

    release = open_release(folder, book=book)
    with console.progress("Publishing") as progress:
        found = release.insert(
            source, table=table, reveal=reveal, seed=insecure_seed, progress=progress
        )
        found.save(folder, force=True, insecure=found.manifest.seeded, book=book)
    _told(found, folder, as_json, "Added records to")


def delete(
    folder: options.ReleaseFolder,
    identifiers: publish_options.Identifiers,
    book: publish_options.KnownBook,
    as_json: options.Json = False,
) -> None:
    """Take records out of a release by aroma with --identifier."""
    from scumble.private.owner import open_release

    release = open_release(folder, book=book)
    try:
        ids = identifiers.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"The file '{identifiers}' cannot be read as UTF-8 text.") from None
    found = release.delete([line.strip() for line in ids if line.strip()])
    found.save(folder, force=True, insecure=found.manifest.seeded, book=book)
    _told(found, folder, as_json, "Took records out of")


@contextmanager
def _charge_told(ledger: Path | None) -> Iterator[None]:
    """A release that is stopped stays charged, since what was drawn may have been seen."""
    try:
        yield
    except KeyboardInterrupt:
        if ledger is not None:
            where = shlex.quote(str(ledger))
            console.say(f"The ledger may stay charged for it: scumble ledger show {where}")
        raise


def _told(
    release: OwnedRelease,
    folder: Path,
    as_json: bool,
    done: str = "Published",
    said: Sequence[str] = (),
) -> None:
    """Say what was made, and what the owner should know about it and was not told before."""
    for remark in (*release.remarks, *printing.warnings(release)):
        if remark not in said:
            console.say(f"Note: {remark}")
    if as_json:
        console.print_json({"release": str(folder), **printing.manifest(folder)})
    else:
        printing.show_published(release, folder, done)


def _foretell(mechanism: Mechanism, schema: Schema) -> tuple[str, ...]:
    """Say before anything is read what to think over, and how large errors will be, where that is
    known; give back the former, which belong to the release as well.
    """
    cautions = mechanism.cautions(schema)
    for sentence in cautions:
        console.say(f"Note: {sentence}")
    for sentence in mechanism.outlook(schema):
        console.say(sentence)
    return cautions


def _refuse_place(output: Path, levels: list[int] | None, force: bool) -> None:
    """Saving would refuse a place as well, but only after the work, and a charge of a ledger; and
    it does not know that levels of an earlier draw must not stay beside new ones.
    """
    from scumble.public.release import check_replaceable

    if output.exists() and not force:
        raise ReleaseError(f"{output} exists already. Choose another folder, or add --force.")
    new = {f"k{level}" for level in levels or ()}
    for place in [output] if levels is None else [output / name for name in new]:
        if place.exists():
            check_replaceable(place)
    if levels is not None and output.exists() and {p.name for p in output.iterdir()} - new:
        raise ReleaseError(f"{output} holds more than these levels: remove it, or choose another.")


def _refuse_book(book: Path | None, identifier: str | None, output: Path, force: bool) -> None:
    """Saving would refuse this as well, but only after the work."""
    from scumble.private.owner import refuse_place_of_book

    if book is None and identifier is not None:
        raise ParameterError(
            "With --identifier the release can be updated, which takes a private book: say with "
            "--book FILE where to keep it, outside the release folder."
        )
    if book is not None and identifier is None:
        raise ParameterError(
            "A --book is kept of a release that can be updated: name the column that tells records "
            "apart with --identifier COLUMN, or leave --book out."
        )
    if book is not None:
        refuse_place_of_book(book, output, force=force)


def _places(found: OwnedRelease | Sequence[OwnedRelease], output: Path) -> dict[Path, OwnedRelease]:
    """One folder, or one inside it for every level."""
    from scumble.public.release import Release

    if isinstance(found, Release):
        return {output: found}
    return {output / f"k{release.manifest.parameters['k']}": release for release in found}


def _kept(book: Path | None) -> dict[str, Path]:
    return {} if book is None else {"book": book}


def _make(method: str, given: dict[str, Any]) -> Mechanism:
    """The mechanism, or a sentence about the options that it needs or does not know."""
    from scumble.private.mechanism import create, mechanisms

    kind = mechanisms().get(method)
    known = inspect.signature(kind).parameters if kind else {}
    strange = [_option(name) for name in given if kind and name not in known]
    if strange:
        listed = ", ".join(map(_option, known))
        raise ParameterError(
            f"The method '{method}' has no option {' or '.join(strange)}. It has {listed}."
        )
    needed = [n for n, p in known.items() if p.default is p.empty and n not in given]
    if needed:
        listed = " and ".join(map(_option, needed))
        raise ParameterError(f"The method '{method}' needs {listed}.")
    return create(method, **given)


def _option(parameter: str) -> str:
    """The option that gives a parameter of a mechanism."""
    return "--compound" if parameter == "several" else f"--{parameter.replace('_', '-')}"


def _written(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a mechanism out of options: those that were given, as Python writes them."""
    found = {name: value for name, value in parameters.items() if value is not None}
    if "compound" in found:
        found["several"] = "compound" if found.pop("compound") else "each"
    if "attributes" in found:
        found["attributes"] = [n.strip() for part in found["attributes"] for n in part.split(",")]
    if "sets" in found:
        found["sets"] = [[n.strip() for n in part.split(",")] for part in found["sets"]]
    if found.get("weights", "cells") not in ("cells", "tables"):
        found["weights"] = found["weights"].split(",")
    if "k" in found and found["k"].is_integer():
        found["k"] = int(found["k"])
    for name in ("sources", "pool", "taxonomy"):
        if found.get(name, "uniform") != "uniform":
            found[name] = _json_file(name, Path(found[name]))
    return found


def _json_file(option: str, path: Path) -> Any:
    """Public weights, which are too many for the command line."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError):
        raise ParameterError.of("publish", option, "a readable file of JSON", str(path)) from None


def _leveled(mechanism: Any) -> Aroma:
    if not hasattr(mechanism, "publish_levels"):
        raise ParameterError(f"Only aroma publishes --levels; {mechanism.name} does not.")
    found: Aroma = mechanism
    return found


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError.of("publish", "levels", "numbers such as 5,20,49", text) from None


# The command that writes one whole marginal of a release.

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
    import pyarrow.csv as csv
    import pyarrow.parquet as parquet

    from scumble.private.owner import open_release

    if output is not None and output.exists() and not force:
        raise ParameterError(f"'{output}' exists already. Choose another file, or use --force.")
    columns = [name.strip() for name in names.split(",")]
    release = open_release(folder)
    table = release.marginal(columns, nonnegative=nonnegative, integers=integers)
    if as_json:
        console.print_json(table.to_pylist())
    elif output is None:
        sink = typer.get_binary_stream("stdout")
        csv.write_csv(table, sink)
    elif output.suffix == ".parquet":
        parquet.write_table(table, output)
    else:
        csv.write_csv(table, output)
    if output is not None:
        console.say(f"Wrote {output}.")
    quoted = ", ".join(name if name.isidentifier() else f'"{name}"' for name in columns)
    sql = f"SELECT {quoted}, COUNT(*) FROM t GROUP BY {quoted}"
    from scumble.public.estimate import query_command

    console.say(f"With the error of each cell: {query_command(folder, sql)}")

"""The commands of `scumble release`: what releases by some methods can do.

The owner of a table adds a view or records to a release, and takes records out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import bars, console, options, publish_options
from scumble.cli.groups import lists
from scumble.cli.groups.marginal import marginal
from scumble.cli.signals import ignore_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

    from scumble.private.owner import OwnedRelease

app = console.group("Work with one release: what releases by some methods can do.")
app.command("marginal")(marginal)
app.command("top")(lists.top)
app.command("rules")(lists.rules)
app.command("next")(lists.next_)

RecordOption = Annotated[
    Path, typer.Option("--update-record", metavar="FILE", help="The private record of the release.")
]
ViewRecordOption = Annotated[
    Path | None,
    typer.Option("--update-record", metavar="FILE", help="The private record of the release."),
]
Identifiers = Annotated[
    Path,
    typer.Option("--identifiers", metavar="FILE", help="Text file with one identifier a line."),
]


@dataclass(frozen=True)
class AddedRows:
    """Rows that are added to a release, and how they are read."""

    source: options.Source
    table: options.Table = None
    reveal: publish_options.Reveal = False
    insecure_seed: publish_options.InsecureSeed = None

    def arguments(self, progress: Callable[[int], None] | None) -> dict[str, Any]:
        """Return the arguments of `republish` and `insert` after the source."""
        named = {"table": self.table, "reveal": self.reveal, "seed": self.insecure_seed}
        return {**named, "progress": progress}


@app.command("republish")
@options.expand_groups
def republish(
    folder: options.ReleaseFolder,
    rows: AddedRows,
    update_record: ViewRecordOption = None,
    jobs: publish_options.PublishJobs = 1,
    as_json: options.Json = False,
) -> None:
    """Add the next view of the same table to a release by alphabeta with --views."""
    from scumble.private.owner import open_release

    release = open_release(folder, update_record=update_record)
    with bars.progress("Publishing", options.rows_of(rows.source, rows.table)) as progress:
        found = release.republish(rows.source, jobs=jobs, **rows.arguments(progress))
    _replace(found, folder, update_record, as_json, "Added a view to")


@app.command("insert")
@options.expand_groups
def insert(
    folder: options.ReleaseFolder,
    rows: AddedRows,
    update_record: RecordOption,
    as_json: options.Json = False,
) -> None:
    """Add records to a release by aroma with --identifier."""
    from scumble.private.owner import open_release

    release = open_release(folder, update_record=update_record)
    with bars.progress("Publishing", options.rows_of(rows.source, rows.table)) as progress:
        found = release.insert(rows.source, **rows.arguments(progress))
    _replace(found, folder, update_record, as_json, "Added records to")


@app.command("delete")
def delete(
    folder: options.ReleaseFolder,
    identifiers: Identifiers,
    update_record: RecordOption,
    as_json: options.Json = False,
) -> None:
    """Take records out of a release by aroma with --identifier."""
    from scumble.private.owner import open_release

    release = open_release(folder, update_record=update_record)
    ids = options.read_text(identifiers).split("\n")
    with bars.working("Taking records out"):
        found = release.delete([line.strip() for line in ids if line.strip()])
    _replace(found, folder, update_record, as_json, "Took records out of")


def _replace(
    release: OwnedRelease, folder: Path | str, update_record: Path | None, as_json: bool, done: str
) -> None:
    """Save a changed release in place of the old one, and print it. Ctrl-C comes too late."""
    from scumble.cli.publish import show_made

    with ignore_interrupts():
        release.save(
            folder, force=True, insecure=release.manifest.seeded, update_record=update_record
        )
        show_made(release, folder, as_json, done)

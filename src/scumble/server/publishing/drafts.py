"""Drafts: tables that something may be made of, as they lie in a private folder of the server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scumble.model.schema.schema import Schema
from scumble.server.problems import Problem

KINDS = (".csv", ".parquet")
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04", b"\xfd7zXZ", b"PAR1")


@dataclass(frozen=True)
class Draft:
    """A table that something may be made of. `file` is that of an upload, in the draft's folder."""

    number: str
    title: str
    folder: Path
    source: str = ""
    file: str = ""
    made: tuple[str, ...] = ()
    created: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M}")

    @property
    def schema_file(self) -> Path:
        return self.folder / "schema.toml"

    @property
    def schema(self) -> Schema | None:
        """The proposed or declared schema; None as long as there is none."""
        return Schema.load(self.schema_file) if self.schema_file.exists() else None

    @property
    def checks_file(self) -> Path:
        return self.folder / "checks.json"

    @property
    def checks(self) -> list[str]:
        """What to check in the schema that was proposed, and why columns are left out."""
        file = self.checks_file
        found: list[str] = json.loads(file.read_text("utf-8")) if file.exists() else []
        return found

    def comparison(self, *, preview: bool) -> dict[str, Any] | None:
        """Return a comparison that was made with the present schema, if there is one."""
        file = self.folder / ("preview.json" if preview else "comparison.json")
        return json.loads(file.read_text("utf-8")) if file.exists() else None


def kept_bytes(files: Iterable[Path]) -> int:
    """Return the size of files together; two names of one file count once."""
    found: dict[tuple[int, int], int] = {}
    for each in files:
        try:
            known = each.stat()
        except OSError:
            continue  # it was deleted meanwhile
        found[known.st_ino, known.st_dev] = known.st_size
    return sum(found.values())


def check_content(file: Path, kind: str) -> None:
    """Raise `Problem` 415 for a file that is not of the kind that its name says.

    A compressed CSV file could be unpacked to any size.
    """
    with file.open("rb") as content:
        start = content.read(12)
    if start[8:] == b"DUCK":  # it would be opened as a database, whatever its name
        raise Problem(415, "The file is a DuckDB database. Send a table as CSV or Parquet.")
    if kind == ".parquet" and not start.startswith(b"PAR1"):
        raise Problem(415, "The file ends with .parquet, and is no Parquet file.")
    if kind == ".csv" and start.startswith(_PACKED):
        raise Problem(415, "The file ends with .csv, and is packed. Send it unpacked.")

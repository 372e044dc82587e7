"""Drafts: tables that something may be made of, as they lie in a private folder of the server."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scumble.model import stored
from scumble.model.errors import ScumbleError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.recommend import Use
from scumble.server.problems import Problem

_FILE = "draft.json"
KINDS = (".csv", ".parquet")
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04", b"\xfd7zXZ", b"PAR1")


@dataclass(frozen=True)
class OwnerAnswers:
    """What an owner answered on the page besides the schema: what for (`use`), how careful, about
    how many rows the table has (0 where that was not said), and how the data set is called.
    """

    use: Use
    epsilon: float
    rows: int = 0
    name: str = ""
    title: str = ""
    description: str = ""


@dataclass(frozen=True)
class Draft:
    """A table that something may be made of. `file` is that of an upload, in the draft's folder.

    `rows` is about how many rows the table has, where reading it told. `answers` are None until the
    owner gave them.
    """

    number: str
    title: str
    folder: Path
    source: str = ""
    file: str = ""
    made: tuple[str, ...] = ()
    rows: int = 0
    answers: OwnerAnswers | None = None
    created: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M}")

    @property
    def schema_file(self) -> Path:
        return self.folder / "schema.toml"

    @property
    def schema(self) -> Schema | None:
        """The proposed or declared schema; None as long as there is none."""
        return Schema.load(self.schema_file) if self.schema_file.exists() else None

    @classmethod
    def read(cls, folder: Path) -> Draft:
        """Read the draft in a folder; raises `FileNotFoundError` if there is none."""
        content = stored.parse_json(stored.read_regular(folder / _FILE))
        given = content.get("answers")
        content["answers"] = None if given is None else OwnerAnswers(**given)
        return cls(**{**content, "folder": folder, "made": tuple(content["made"])})

    def save(self) -> None:
        """Write the draft into its folder."""
        write_private(self.folder / _FILE, json.dumps({**asdict(self), "folder": None}))

    @property
    def proposal_file(self) -> Path:
        return self.folder / "proposal.toml"

    @property
    def withheld(self) -> dict[str, Attribute]:
        """Columns that the owner left out, by name, as they were proposed."""
        schema = self.schema
        if schema is None or not self.proposal_file.exists():
            return {}
        proposal = Schema.load(self.proposal_file)
        names = [each.name for each in schema.identifiers if each.name in proposal]
        return {name: proposal[name] for name in names if proposal[name].domain is not None}

    @property
    def text(self) -> str:
        """The schema to publish with. Columns that the owner left out are not in it: as identifiers
        they would be looked at for repeats.
        """
        schema = self.schema
        if schema is None:
            raise ScumbleError("There is no schema yet.")
        left_out = self.withheld.keys() - {schema.person}
        return schema.select(name for name in schema.names if name not in left_out).dumps()

    @property
    def shares_file(self) -> Path:
        return self.folder / "shares.json"

    @property
    def shares(self) -> dict[str, Any] | None:
        """Which share of the rows some bounds on the rows of a person keep, if the owner asked."""
        return (
            json.loads(self.shares_file.read_text("utf-8")) if self.shares_file.exists() else None
        )

    @property
    def form_file(self) -> Path:
        return self.folder / "form.json"

    @property
    def form(self) -> dict[str, str]:
        """What the owner filled in and has not saved; kept while the page is loaded again."""
        found: dict[str, str] = {}
        return json.loads(self.form_file.read_text("utf-8")) if self.form_file.exists() else found

    def keep_form(self, form: Mapping[str, Any]) -> None:
        """Keep what the owner filled in, until the answers or the schema are saved."""
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        fields.pop("csrf", None)
        write_private(self.form_file, json.dumps(fields))

    @property
    def checks_file(self) -> Path:
        return self.folder / "checks.json"

    @property
    def proposed(self) -> bool:
        """Whether the schema was proposed by reading the table."""
        return self.checks_file.exists()

    @property
    def checks(self) -> list[str]:
        """What to check in the schema that was proposed, and why columns are left out."""
        found: list[str] = json.loads(self.checks_file.read_text("utf-8")) if self.proposed else []
        return found

    def comparison(self, *, preview: bool) -> dict[str, Any] | None:
        """Return a comparison that was made with the present schema, if there is one."""
        file = self.folder / ("preview.json" if preview else "comparison.json")
        return json.loads(file.read_text("utf-8")) if file.exists() else None


def write_private(file: Path, text: str) -> None:
    """Write a file whole or not at all, readable by the server's user only."""
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


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

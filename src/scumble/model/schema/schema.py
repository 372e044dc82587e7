"""Schema: the ordered attributes of a table, read and written as TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from scumble.model.errors import SchemaError, setting
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.toml import FORMAT, ROLES, Role, toml_of


@dataclass(frozen=True)
class Schema:
    """What everyone may know about a table: its columns, their roles, and the possible values."""

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not self.attributes:
            raise SchemaError("A schema needs at least one attribute.")
        seen: dict[str, str] = {}
        for name in self.names:
            other = seen.get(name.lower())
            if other is not None:
                same = "the same" if other == name else "the same but for case, as to SQL"
                raise SchemaError(f"Names must differ. Got {other!r} and {name!r}: {same}.")
            seen[name.lower()] = name

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        known = ", ".join(repr(known) for known in self.names)
        raise SchemaError(f"The schema has no attribute {name!r}. It has {known}.")

    def __repr__(self) -> str:
        lines = [
            f"  {a.name!r}: {a.describe() if a.domain is None else f'{a.role}, {a.describe()}'}"
            for a in self.attributes
        ]
        return "\n".join(["Schema(", *lines, ")"])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    def role(self, *roles: Role) -> tuple[Attribute, ...]:
        """The attributes in any of these roles, in order."""
        return tuple(attribute for attribute in self.attributes if attribute.role in roles)

    @property
    def identifiers(self) -> tuple[Attribute, ...]:
        """Attributes that are never published."""
        return self.role("identifier")

    @property
    def quasi(self) -> tuple[Attribute, ...]:
        """Attributes that are published as they are and that others may know."""
        return self.role("quasi")

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """Attributes that are protected."""
        return self.role("sensitive")

    @property
    def insensitive(self) -> tuple[Attribute, ...]:
        """Attributes that are published as they are."""
        return self.role("insensitive")

    @property
    def published(self) -> tuple[Attribute, ...]:
        """All attributes but the identifiers."""
        return self.role("quasi", "sensitive", "insensitive")

    def size(self, names: Iterable[str] | None = None) -> int:
        """How many tuples are possible over these attributes (all published ones by default)."""
        chosen = self.published if names is None else [self[name] for name in names]
        return prod(attribute.size for attribute in chosen)

    def cell_keys(self, names: Sequence[str]) -> CellKeys:
        """The numbering of tuples over these attributes."""
        return CellKeys([self[name].size for name in names])

    def select(self, names: Iterable[str]) -> Schema:
        """Only these attributes, in this order."""
        return Schema(tuple(self[name] for name in names))

    def replace(self, attribute: Attribute) -> Schema:
        """With another attribute in the place of the one of the same name."""
        old = self[attribute.name]
        return Schema(tuple(attribute if each is old else each for each in self.attributes))

    def with_roles(self, **roles: str | Iterable[str]) -> Schema:
        """With other roles: `schema.with_roles(sensitive=["illness"], identifier=["name"])`.

        An attribute that becomes an identifier loses its domain.
        """
        schema = self
        for role, names in roles.items():
            if role not in ROLES:
                raise SchemaError(
                    f"A role must be one of {', '.join(ROLES)}. Got {role!r} instead."
                )
            for name in [names] if isinstance(names, str) else names:
                schema = schema.replace(_in_role(schema[name], role))
        return schema

    def declare_public(self, *names: str) -> Schema:
        """Say that these domains (all if none is named) hold what is possible, not what occurs.

        A release then no longer warns of them.
        """
        for name in names:
            self[name]  # complains about a name that is not there
        chosen = names or self.names
        return Schema(
            tuple(
                replace(each, from_data=False, note="") if each.name in chosen else each
                for each in self.attributes
            )
        )

    @property
    def from_data(self) -> tuple[str, ...]:
        """Names of the published attributes whose domain was read from private data."""
        return tuple(attribute.name for attribute in self.published if attribute.from_data)

    def checks(self) -> list[str]:
        """What the owner should check before anything is published, one sentence each."""
        return [
            f"'{attribute.name}' ({attribute.describe()}): {note}"
            for attribute in self.attributes
            if (note := attribute.note or (_UNCHECKED if attribute.from_data else ""))
        ]

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """The schema in a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")  # Windows begins with a mark
        except FileNotFoundError:
            raise SchemaError(f"There is no schema file '{path}'.") from None
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not UTF-8 text" if isinstance(error, ValueError) else error.strerror
            raise SchemaError(f"The schema file '{path}' cannot be read: {reason}.") from None
        return cls.loads(text)

    @classmethod
    def loads(cls, text: str) -> Schema:
        """The schema in TOML text."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"The schema is not valid TOML: {_located(str(error))}.") from None
        tables = document.get("attributes")
        for key in document:
            if key not in ("format", "attributes"):
                near = isinstance(document[key], dict) and key.lower().startswith("attribute")
                instead = "[attributes.NAME]" if near else f"[attributes.{key}]"
                raise SchemaError(f"Unknown key '{key}' at the top of the schema; write {instead}.")
        _check_format(document.get("format", FORMAT))
        if not isinstance(tables, dict) or not tables:
            raise SchemaError(
                "A schema needs at least one attribute: write a table [attributes.NAME]."
            )
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise SchemaError(
                    f"Attribute '{name}': write its role and type in a table [attributes.{name}]."
                )
        return cls(
            tuple(Attribute.from_dict({**table, "name": name}) for name, table in tables.items())
        )

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the schema to a TOML file; an existing one only with `force`."""
        try:
            with Path(path).open("w" if force else "x", encoding="utf-8", newline="\n") as file:
                file.write(self.dumps())
        except FileExistsError:
            raise SchemaError(
                f"The file '{path}' exists already; say {setting('force', True)} to replace it."
            ) from None
        except OSError as error:
            raise SchemaError(
                f"The schema cannot be written to '{path}': {error.strerror}."
            ) from None

    def dumps(self, most: int | None = None) -> str:
        """The schema as TOML, with what should be checked as comments.

        For a look only, lists of more than `most` items can be cut.
        """
        tables = [(attribute.to_dict(), attribute.note) for attribute in self.attributes]
        return toml_of(tables, most)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; `from_dict` reads it back."""
        return {"format": FORMAT, "attributes": [each.to_dict() for each in self.attributes]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` wrote."""
        _check_format(document.get("format", FORMAT))
        tables = document.get("attributes")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise SchemaError("A schema needs a list of attributes.")
        return cls(tuple(Attribute.from_dict(table) for table in tables))

    @classmethod
    def infer(
        cls,
        source: object,
        *,
        sensitive: str | Iterable[str] = (),
        identifier: str | Iterable[str] = (),
        insensitive: str | Iterable[str] = (),
        limit: int = 1000,
        table: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Schema:
        """Propose a schema by READING PRIVATE DATA; `checks()` says what the owner should look at.

        Every domain but a boolean one is marked `from_data`, and a release made with it says so
        until the owner declares it public. A column with more than `limit` distinct values of text
        is proposed as an identifier. `progress` is called with the number of rows read.
        """
        from scumble.private.tables.infer import infer_schema

        roles = {"sensitive": _names(sensitive), "insensitive": _names(insensitive)}
        named = (*roles["sensitive"], *roles["insensitive"])
        known = _names(identifier)
        schema = infer_schema(
            source, identifiers=known, named=named, limit=limit, table=table, progress=progress
        )
        return schema.with_roles(**roles)


_UNCHECKED = "read from the data; list what is possible, then delete the from_data line."


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _in_role(attribute: Attribute, role: Role) -> Attribute:
    if role == "identifier":
        return Attribute(
            attribute.name, role, note=attribute.note if attribute.domain is None else ""
        )
    return replace(attribute, role=role)


def _check_format(given: object) -> None:
    if given != FORMAT:
        raise SchemaError(
            f"The schema has format {given!r}, and this version of scumble reads format {FORMAT}."
        )


def _located(message: str) -> str:
    """The parser's words, its place first."""
    match = re.fullmatch(
        r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", message, re.DOTALL
    )
    if match is None:
        return message
    words, line, column, _ = match.groups()
    place = f"line {line}, column {column}" if line else "at its end"
    return f"{place}: {words[0].lower()}{words[1:]}"

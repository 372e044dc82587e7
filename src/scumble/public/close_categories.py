"""Open categories closed by published keys: for questions about a release, and for its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from scumble.model.errors import ParameterError, SchemaError
from scumble.model.evidence.evidence import Evidence
from scumble.model.parameters import free_name
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema

OTHER = "other"
_NOTHING = "(no key was published)"


def published_values(evidence: Evidence, folder: Path, name: str) -> list[str]:
    """Return the published values of an open category, in order."""
    with pq.ParquetFile(folder / evidence.files[0]) as file:
        column = file.read([name])[name]
    return sorted({value for value in column.to_pylist() if value is not None})


def queryable(schema: Schema, evidence: Evidence, folder: Path) -> Schema:
    """Return the schema with the published values in place of open categories."""
    for attribute in schema.open:
        values = published_values(evidence, folder, attribute.name) or [_NOTHING]
        # With a role in which one value is enough; questions do not ask for it.
        schema = schema.replace(Attribute(attribute.name, "insensitive", Category(tuple(values))))
    return schema


def close_categories(
    schema: Schema, released: Schema, evidence: Evidence, folder: Path, other: str = OTHER
) -> Schema:
    """Return `schema` with the open categories closed that the release has published.

    Their values are the published ones and `other`, which takes every value that was not published,
    so that no row is left out.
    """
    names = [each.name for each in released.open if each.name in evidence.columns]
    _check(schema, names, other)
    for name in names:
        if not (values := published_values(evidence, folder, name)):
            raise SchemaError(f"The release names no value of '{name}', so it closes nothing.")
        rest = free_name(other, values)
        domain = Category((*values, rest), other=rest)
        schema = schema.replace(replace(schema[name], domain=domain))
    return schema


def _check(schema: Schema, names: Sequence[str], other: str) -> None:
    if not isinstance(schema, Schema):
        raise ParameterError.of("close_categories", "schema", "a Schema", schema)
    if not isinstance(other, str) or not other.strip():
        raise ParameterError.of("close_categories", "other", "a text", other)
    if not any(name in schema and schema[name].open for name in names):
        known = f"The release names values of {', '.join(names)}" if names else "It names none"
        raise SchemaError(
            f"The schema has no open category whose values this release names. {known}: give the "
            "schema that it was published with."
        )

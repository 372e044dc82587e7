"""Whether a table fits its schema: what `publish` would refuse, and repeated identifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scumble.model.errors import setting
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import open_source
from scumble.private.tables.profiles import Repeats
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import Source


def check_table(
    source: Any,
    schema: Schema,
    *,
    table: str | None = None,
    basket: str | None = None,
    order: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """Return in sentences what of a table does not fit its schema.

    They name columns; no value, row or number of rows is in them. A column that is missing raises
    `SourceError`.
    """
    lists = [each.name for each in schema.lists]
    opened = open_source(source, table=table)
    opened = open_source(opened, basket=basket, order=order, lists=lists)
    opened.require([each.name for each in schema.identifiers])
    rows = Rows(opened, schema, outside="drop", progress=progress)
    plain = [
        each.name
        for each in schema.published
        if each.name not in lists and not each.open and not schema.derivation(each.name)
    ]
    outside: set[str] = set()
    if plain:
        for _ in rows.batches(plain):
            pass
        outside |= rows.outside_columns
    for name in lists:
        for _ in rows.lists(name):
            pass
        outside |= rows.outside_columns
    drop, blank = (setting("outside", choice) for choice in ("drop", "missing"))
    combinations = [
        f"The table has rows with the impossible combination {text}. Correct the schema or the "
        f"table, or publish with {drop}."
        for text in schema.impossible
        if text in outside
    ]
    return [*combinations, *_columns(schema, outside, drop, blank)]


def _columns(schema: Schema, outside: set[str], drop: str, blank: str) -> list[str]:
    return [
        f"'{each.name}' has values outside its domain ({each.describe()}). Correct the schema or "
        f"the table, or publish with {f'{drop} or {blank}' if each.missing else drop}."
        for each in schema
        if each.name in outside
    ]


REPEATED = "has the same value in several rows"
_REPEATED = (
    f"'{{}}' {REPEATED}, and the schema says unit = \"row\": every row is another person. If it "
    'tells people apart, the promise is about one row only: write unit = "person", person = "{}" '
    "and most_rows, and start again. If it does not, leave it out of the schema. This was read "
    "from the table for you alone, and is not published."
)


def remarks_on_unit(source: Source, schema: Schema, person: str | None = None) -> tuple[str, ...]:
    """Return remarks for the owner on identifiers that repeat where every row is another person.

    Whether rows are people is for the owner to say, so nothing is refused for it: a refusal would
    be seen by others. The first million rows are looked at, of a source that can be read again.
    `person` names the people already.
    """
    if schema.unit is None or schema.person is not None or getattr(source, "once", False):
        return ()
    names = [each.name for each in schema.identifiers if each.name in source.columns]
    repeats = {name: Repeats() for name in names if name != person}
    for batch in source.batches([*repeats]) if repeats else ():
        for name, each in repeats.items():
            each.update(batch.column(name))
        if all(each.decided for each in repeats.values()):
            break
    return tuple(_REPEATED.format(name, name) for name in repeats if repeats[name].repeated)

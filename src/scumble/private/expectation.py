"""The error to expect of an answer about a tenth of the rows, before anything is published.

`Mechanism.expected_error` has a formula where parameters and schema determine the error. The other
mechanisms are tried on made-up rows that are spread evenly over the domains; no private row is read
in either case.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from scumble.model.errors import ScumbleError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, Publisher, create
from scumble.private.perturbation.guarantees import LOUD as LOUD
from scumble.private.perturbation.guarantees import NINETEEN, noise_warning, plus_minus
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.private.recommend import TYPICAL_ROWS as TYPICAL
from scumble.public.estimate import Estimate

_MOST_CELLS = 10**6  # on which a mechanism is tried
_MOST_ROWS = 10**5
_LEVEL = 0.95
_SEED = 1  # of the noise on made-up rows
# Irrational steps: multiples of them are spread evenly over the unit interval, and independently.
_STEPS = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0])
# Of Anatomy: a condition on half of the other columns and on a fifth of the sensitive values.
_PARTS, _MOST_VALUES = 5, 100


def public_rows(mechanism: Mechanism, rows: int | None) -> int:
    """Return the number of rows to speak of: the true one if the release tells it, or 10,000."""
    unit = getattr(mechanism, "unit", None)
    told = isinstance(mechanism, Publisher) or (unit is not None and unit.keeps_rows)
    return rows if told and rows is not None else TYPICAL


class Expected(NamedTuple):
    """How far a count of a tenth of the rows may be off, nineteen times in twenty."""

    reach: float
    tried: bool  # on made-up rows; else by a formula


def expected(mechanism: Mechanism, schema: Schema, rows: int = TYPICAL) -> Expected | None:
    """Return the error to expect of a count of a tenth of `rows` rows.

    None if no formula gives it and the mechanism would measure more than `_MOST_CELLS` cells, or if
    it refuses such a table. A mechanism is tried on at most `_MOST_ROWS` rows: the noise of those
    that need it hardly depends on their number.
    """
    try:
        error = mechanism.expected_error(schema, rows)
        if error is not None:
            return Expected(NINETEEN * error, tried=False)
        reach = _tried(mechanism, schema, rows)
    except ScumbleError:
        return None
    return None if reach is None else Expected(reach, tried=True)


def expectation(mechanism: Mechanism, schema: Schema, rows: int = TYPICAL) -> tuple[str, ...]:
    """Return sentences about the errors to expect, at least one: those of `Mechanism.outlook`, and
    where they give no error, one about a tenth of the rows.
    """
    own, sums = mechanism.outlook(schema), mechanism.sum_outlook(schema, rows)
    if any("within ±" in sentence or "error" in sentence for sentence in own):
        return (*own, *sums)
    found = expected(mechanism, schema, rows)
    while found is None and rows >= 100:  # a domain that is small, or a promise for few rows
        rows //= 10
        found = expected(mechanism, schema, rows)
    if found is None:
        said = "the error of a count is not known beforehand; every answer states its own"
    else:
        said = (
            f"in a table of {rows:,} rows{', spread evenly,' if found.tried else ''} a count of a "
            f"tenth of them ({rows / 10:,.0f}) will be within {plus_minus(found.reach)} nineteen "
            "times in twenty"
        )
    return (*own, f"To expect: {said}.", *sums)


def hopeless(mechanism: Mechanism, schema: Schema, rows: int) -> str:
    """Return a warning if a count of a tenth of the rows may be off by more than itself, or an
    empty text.
    """
    found = expected(mechanism, schema, rows) if rows >= 10 else None
    return "" if found is None else noise_warning(found.reach, rows)


def _tried(mechanism: Mechanism, schema: Schema, rows: int) -> float | None:
    """Return half the width of the 95 % interval of a count of a tenth of made-up rows."""
    made = _stand_in_of_groups(schema) if isinstance(mechanism, Publisher) else None
    plain = mechanism
    if made is None:
        sizes = dict.fromkeys(mechanism.named_columns, 2)  # of what is added up alone
        sizes |= {name: schema[name].size for name in mechanism.names}
        made = Schema(tuple(_numbered(name, "quasi", size) for name, size in sizes.items()))
        if mechanism.counts_every_cell and _measured(mechanism, made) > _MOST_CELLS:
            return None
        plain = create(mechanism.name, **{**mechanism.parameters, "person": None})
    asked = max(made.names, key=lambda name: made[name].size)
    codes = -(-made[asked].size // (_PARTS if isinstance(mechanism, Publisher) else 10))
    first = (made[asked].size - codes) // 2
    made_up = _rows(made, asked, first, codes, min(rows, _MOST_ROWS))
    release = publish(made_up, made, plain, options=PublishOptions(seed=_SEED))
    where = f'"{asked}" BETWEEN {first} AND {first + codes - 1}'
    if isinstance(mechanism, Publisher):
        where += " AND half = 0"
    answer = release.answer(f"SELECT COUNT(*) FROM t WHERE {where}")
    if not isinstance(answer, Estimate):
        raise TypeError("a count without groups has one answer")
    low, high = answer.interval(_LEVEL)
    return (high - low) / 2


def _numbered(name: str, role: Any, size: int) -> Attribute:
    return Attribute(name, role, IntegerRange(0, size - 1))


def _stand_in_of_groups(schema: Schema) -> Schema:
    """Return a schema of one other column and one sensitive one with as many values as there are,
    but no more than are needed.
    """
    values = schema.size(attribute.name for attribute in schema.sensitive)
    held = _numbered("value", "sensitive", min(values, _MOST_VALUES))
    return Schema((_numbered("half", "quasi", 2), held))


def _measured(mechanism: Mechanism, schema: Schema) -> int:
    """Return how many cells a summary counts."""
    tables = getattr(mechanism, "tables", None)
    if tables is None:
        return schema.size(schema.names)
    sizes = [attribute.size for attribute in schema]
    return sum(prod(sizes[place] for place in table.places) for table in tables(schema))


def _rows(schema: Schema, asked: str, first: int, codes: int, rows: int) -> pa.Table:
    """Return made-up rows, spread evenly: a tenth of them (with several parts: of all, a share of
    `codes`) has one of `codes` codes of the attribute `asked`, from `first` on.
    """
    columns = {}
    number = np.arange(1, rows + 1)
    for place, attribute in enumerate(schema):
        step = _STEPS[place % len(_STEPS)] * (1 + place // len(_STEPS))
        part = number * step % 1.0
        size = attribute.size
        found = (part * size).astype(np.int64)
        if attribute.name == asked and size < 10 and codes == 1 and attribute.role == "quasi":
            others = (found * 7 + number) % max(size - 1, 1)
            others += others >= first
            found = np.where(part < 0.1, first, others if size > 1 else 0)
        columns[attribute.name] = found
    return pa.table(columns)

"""The columns of a file that bags take: a count for each value, or a code for each member."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from scumble.attribute import Attribute
from scumble.channels import BagChannel
from scumble.errors import SchemaError
from scumble.kinds import IntegerRange
from scumble.pool_law import PoolLaw
from scumble.schema import Schema


def bag_channel(schema: Schema, law: PoolLaw) -> BagChannel:
    """How the bags of the sensitive attributes are published; the layout that takes less room."""
    sensitive = schema.sensitive
    names = tuple(attribute.name for attribute in sensitive)
    layout: Literal["counts", "codes"] = "counts" if law.size > law.values else "codes"
    whole = " and ".join(names)
    if layout == "codes":
        columns = [f"{whole} {place}" for place in range(1, law.size + 1)]
    else:
        columns = [f"{whole}={label}" for label in _labels(sensitive)]
        if len({name.lower() for name in columns}) < len(columns):  # the same to SQL
            columns = [f"{whole} #{code}" for code in range(law.values)]
    others = {attribute.name.lower() for attribute in schema if attribute not in sensitive}
    taken = [name for name in columns if name.lower() in others]
    if taken:
        raise SchemaError(
            f"Aroma publishes a column {taken[0]!r}, and the schema has one of that name already. "
            "Rename it."
        )
    return BagChannel(names, layout, tuple(columns), law)


def bag_attributes(channel: BagChannel) -> tuple[Attribute, ...]:
    """The columns of a bag as attributes of the published table."""
    law = channel.law
    highest = law.size if channel.layout == "counts" else law.values - 1
    return tuple(
        Attribute(name, "insensitive", IntegerRange(0, highest)) for name in channel.columns
    )


def packed_bits(channel: BagChannel) -> int:
    """The bits of a bag whose numbers stand side by side."""
    law = channel.law
    highest = law.size if channel.layout == "counts" else law.values - 1
    return len(channel.columns) * highest.bit_length()


def _labels(attributes: Sequence[Attribute]) -> list[str]:
    labels = [
        ["missing" if label is None else str(label) for label in attribute.labels().to_pylist()]
        for attribute in attributes
    ]
    return [", ".join(cell) for cell in product(*labels)]

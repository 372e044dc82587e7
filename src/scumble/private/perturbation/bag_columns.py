"""The columns that stand in the published file for bags of sensitive values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from scumble.model.evidence.bag_laws import BagLaw
from scumble.model.evidence.channels import BagChannel
from scumble.model.parameters import free_name
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema


def counted(size: int, values: int) -> bool:
    """Whether bags take less room as counts than as codes of their members.

    Codes have to take less than a bit for each value to be smaller: a Parquet file packs the counts
    of one value by a dictionary of the few that occur, and compresses them.
    """
    return size * (values - 1).bit_length() >= values


def bag_channel(schema: Schema, law: BagLaw) -> BagChannel:
    """Bags of all sensitive attributes as one value."""
    names = tuple(attribute.name for attribute in schema.sensitive)
    layout: Literal["counts", "codes"] = "counts" if counted(law.size, law.values) else "codes"
    columns = _columns(schema.sensitive, law, layout)
    taken = {name.lower() for name in schema.names}
    for place, name in enumerate(columns):
        if name.lower() in taken:
            columns[place] = free_name(name, [*schema.names, *columns])
    return BagChannel(names, layout, tuple(columns), law)


def bag_attributes(channel: BagChannel, most: int) -> tuple[Attribute, ...]:
    """The columns of bags, in which a value is at most so often, as attributes of the published
    table.
    """
    highest = most if channel.layout == "counts" else channel.law.values - 1
    return tuple(
        Attribute(name, "insensitive", IntegerRange(0, highest)) for name in channel.columns
    )


def _columns(sensitive: Sequence[Attribute], law: BagLaw, layout: str) -> list[str]:
    whole = " and ".join(attribute.name for attribute in sensitive)
    if layout == "codes":
        return [f"{whole} {place}" for place in range(1, law.size + 1)]
    columns = [f"{whole}={label}" for label in _labels(sensitive)]
    if len({name.lower() for name in columns}) < len(columns):  # the same to SQL
        return [f"{whole} #{code}" for code in range(law.values)]
    return columns


def _labels(attributes: Sequence[Attribute]) -> list[str]:
    labels = [
        ["missing" if label is None else str(label) for label in attribute.labels().to_pylist()]
        for attribute in attributes
    ]
    return [", ".join(cell) for cell in product(*labels)]

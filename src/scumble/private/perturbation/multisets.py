"""The published columns of sets and multisets of values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from scumble.model.evidence.channels import MultisetChannel, MultisetLaw
from scumble.model.parameters import free_name
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema


def counted(size: int, values: int) -> bool:
    """Return whether multisets take less space as counts than as codes of their members.

    Codes are smaller only if they take less than one bit per value: a Parquet file packs the counts
    of one value by a dictionary of the few that occur, and compresses them.
    """
    return size * (values - 1).bit_length() >= values


def multiset_channels(schema: Schema, *laws: MultisetLaw) -> tuple[MultisetChannel, ...]:
    """Return the channels of multisets: one of the combinations of all sensitive attributes, or one
    of each of them if there are several laws.
    """
    sensitive = schema.sensitive
    parts = [sensitive] if len(laws) == 1 else [(attribute,) for attribute in sensitive]
    taken, channels = list(schema.names), []
    for attributes, law in zip(parts, laws, strict=True):
        layout: Literal["counts", "codes"] = "counts" if counted(law.size, law.values) else "codes"
        columns = _columns(attributes, law, layout)
        for place, name in enumerate(columns):
            if name.lower() in {other.lower() for other in taken}:
                columns[place] = free_name(name, [*taken, *columns])
        taken += columns
        names = tuple(attribute.name for attribute in attributes)
        channels.append(MultisetChannel(names, layout, tuple(columns), law))
    return tuple(channels)


def multiset_attributes(channel: MultisetChannel, most: int) -> tuple[Attribute, ...]:
    """Return the columns of multisets in which a value occurs at most `most` times, as attributes
    of the published table.
    """
    highest = most if channel.layout == "counts" else channel.law.values - 1
    return tuple(
        Attribute(name, "insensitive", IntegerRange(0, highest)) for name in channel.columns
    )


def _columns(sensitive: Sequence[Attribute], law: MultisetLaw, layout: str) -> list[str]:
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

"""The layout of Aroma's bags in a file: a count for each value, or a code for each member."""

from __future__ import annotations

from typing import Literal

from scumble.attribute import Attribute
from scumble.channels import BagChannel
from scumble.pool_law import PoolLaw
from scumble.publishers import bag_columns
from scumble.schema import Schema


def bag_channel(schema: Schema, law: PoolLaw) -> BagChannel:
    """How the bags of the sensitive attributes are published; the layout that takes less room."""
    layout: Literal["counts", "codes"] = "counts" if law.size > law.values else "codes"
    return bag_columns.bag_channel("Aroma", schema, law, layout)


def bag_attributes(channel: BagChannel) -> tuple[Attribute, ...]:
    """The columns of a bag as attributes of the published table."""
    return bag_columns.bag_attributes(channel, channel.law.size)


def packed_bits(channel: BagChannel) -> int:
    """The bits of a bag whose numbers stand side by side."""
    law = channel.law
    highest = law.size if channel.layout == "counts" else law.values - 1
    return len(channel.columns) * highest.bit_length()

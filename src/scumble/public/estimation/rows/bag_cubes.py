"""Contingency tables of published bags: how often the rows of a cell show each value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.channels import BagChannel
from scumble.model.schema.schema import Schema
from scumble.public.estimation.rows.row_cubes import Layout, RowGroups, batches, codes_of, in_parts
from scumble.public.estimation.tables import Cube, Names


class BagCubes:
    """Counts members of bags, so that a row counts as often as its bag has members. Every table
    must have the attributes of the bags.
    """

    def __init__(self, path: Path, schema: Schema, channel: BagChannel) -> None:
        self._path, self._schema, self._channel = path, schema, channel

    def count(self, sets: Sequence[Names]) -> list[Cube]:
        """The number of members in every cell of the tables of these attributes."""
        hidden = self._channel.attributes
        true = [tuple(name for name in names if name not in hidden) for names in sets]
        layout = Layout(self._schema, true, self._channel.law.values)
        counts = in_parts(self._path, layout.size, lambda groups: self._part(layout, groups))
        tables = []
        for names, some, table in zip(sets, true, layout.split(counts), strict=True):
            order = [*some, *hidden]
            shaped = table.reshape([self._schema[name].size for name in order])
            tables.append(shaped.transpose([order.index(name) for name in names]))
        return tables

    def _part(self, layout: Layout, groups: RowGroups) -> npt.NDArray[np.uint64]:
        from scumble.public.estimation.kernels import count_members

        columns, listed = self._channel.columns, self._channel.layout == "codes"
        counts = np.zeros(layout.size, np.uint64)
        for batch in batches(self._path, self._schema, layout.columns, groups, columns):
            codes = codes_of(batch, self._schema, layout.columns)
            bags = np.stack([batch.column(name).to_numpy() for name in columns], axis=1)
            layouts = (layout.places, layout.strides, layout.starts)
            count_members(codes, bags, listed, *layouts, counts)
        return counts

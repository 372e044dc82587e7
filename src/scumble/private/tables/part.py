"""A part of a private table: the rows with one value of one attribute, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute
from scumble.private.tables.source import Source, attempt


class PartOfSource(Source):
    """Whether a row belongs to the part depends on that row alone. A row without a value, or with
    one outside the domain, belongs to none.
    """

    def __init__(self, source: Source, attribute: Attribute, value: object) -> None:
        self.source = source
        self.attribute = attribute
        self.code, self.label = _found(attribute, value)
        self.description = source.description
        self.columns = source.columns
        self.hint = source.hint
        self.require([attribute.name])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of the rows that belong to the part."""
        name = self.attribute.name
        for batch in self.source.batches(list(dict.fromkeys([*columns, name]))):
            encode = partial(self.attribute.encode, batch.column(name))
            codes, strays = attempt(f"Column '{name}'", encode)
            kept = (codes == self.code) & ~strays
            yield batch.select(list(columns)).filter(pa.array(kept))


def _found(attribute: Attribute, value: object) -> tuple[int, str]:
    """The code of a value, and how the domain spells it."""
    if attribute.domain is None:
        raise ParameterError.of("publish", "part", "of a column with a domain", attribute.name)
    try:
        codes, strays = attribute.encode(pa.array([value]))
    except (pa.ArrowException, ValueError, TypeError):
        codes, strays = np.zeros(1, np.int64), np.ones(1, bool)
    label = attribute.decode(codes)[0].as_py()
    if strays[0] or label is None:
        allowed = f"a value of '{attribute.name}' ({attribute.describe()})"
        raise ParameterError.of("publish", "part", allowed, value)
    return int(codes[0]), str(label)

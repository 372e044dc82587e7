"""A synthetic stand-in for a private table: rows drawn from its public schema alone."""

from __future__ import annotations

import numpy as np

from scumble.compare.truth import Codes, TrueTable
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Boolean, Category
from scumble.model.schema.schema import Schema


def stand_in(schema: Schema, rows: int, seed: int = 0) -> TrueTable:
    """Columns that have nothing to do with each other: of a list the first values are the more
    frequent ones (the n-th has a share in 1/n), of a scale those in the middle. One value in fifty
    is missing where it may be.
    """
    generator = np.random.default_rng(seed)
    codes = {each.name: _column(each, rows, generator) for each in schema.published}
    return TrueTable(schema, codes, rows)


def _column(attribute: Attribute, rows: int, generator: np.random.Generator) -> Codes:
    known = attribute.size - attribute.missing
    if isinstance(attribute.domain, (Boolean, Category)):
        shares = 1 / np.arange(1, known + 1)
        drawn = generator.choice(known, rows, p=shares / shares.sum())
    else:
        middle = generator.random(rows) + generator.random(rows)
        drawn = np.minimum((middle * known / 2).astype(np.int64), known - 1)
    if attribute.missing:
        drawn = np.where(generator.random(rows) < 0.02, known, drawn)
    return drawn.astype(attribute.code_type)

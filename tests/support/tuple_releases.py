"""Releases of tuples made by hand, and all possible outcomes of tiny domains."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.families.alphabeta.design import (
    InclusionProbabilities,
    Presence,
    ReplacedTuples,
    Tuples,
)
from scumble.model.privacy.guarantee import Guarantees
from scumble.public.manifest import Manifest
from scumble.public.release import Release

Row = tuple
DOMAIN = sc.Schema(
    [
        sc.Attribute("x", "quasi", sc.IntegerRange(1, 3)),
        sc.Attribute("y", "sensitive", sc.Category(("a", "b"))),
    ]
)
CELLS = [(x, y) for x in (1, 2, 3) for y in ("a", "b")]


def tuples_release(
    domain: sc.Schema, rows: Sequence[Row], presence: Presence, extra: Sequence[str] = ()
) -> Release:
    """A release of these rows: values of the attributes, then of the extra columns."""
    kinds = [(name, domain[name].arrow_type) for name in domain.names]
    kinds += [(name, pa.int64()) for name in extra]
    names = [name for name, _ in kinds]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    folder = Path(tempfile.mkdtemp())
    table = pa.Table.from_pylist(records, schema=pa.schema(kinds))
    pq.write_table(table, folder / "tuples.parquet")
    evidence = Tuples("tuples.parquet", tuple(domain.names), presence)
    return Release(Manifest("none", {}, domain, Guarantees(), evidence), folder, temporary=True)


def all_multisets(
    cells: Sequence[Row], true: Sequence[Row], presence: ReplacedTuples
) -> Iterator[tuple[Fraction, list[Row]]]:
    """Return every possible multiset with replaced tuples, with its exact probability."""
    other = (1 - presence.keep) / len(cells)
    for drawn in itertools.product(cells, repeat=len(true)):
        probability = Fraction(1)
        for x, y in zip(true, drawn, strict=True):
            probability *= other + (presence.keep if x == y else 0)
        yield probability, list(drawn)


def chance(presence: InclusionProbabilities, domain: sc.Schema, cell: Row, true: bool) -> Fraction:
    """The probability of one tuple in the first view."""
    noise = presence.noise
    for name, value in zip(domain.names, cell, strict=False):
        if presence.sources and name in presence.sources:
            shares = presence.sources[name]
            code = domain[name].labels().to_pylist().index(value)
            noise *= len(shares) * shares[code]
    return noise + (presence.keep - presence.noise if true else 0)


def all_sets(
    domain: sc.Schema, cells: Sequence[Row], true: Sequence[Row], presence: InclusionProbabilities
) -> Iterator[tuple[Fraction, list[Row]]]:
    """Return every possible view of a set, with its exact probability."""
    chances = [chance(presence, domain, cell, cell in true) for cell in cells]
    for there in itertools.product((False, True), repeat=len(cells)):
        probability = Fraction(1)
        for yes, each in zip(there, chances, strict=True):
            probability *= each if yes else 1 - each
        yield probability, list(itertools.compress(cells, there))


def all_views(
    cells: Sequence[Row], true: Sequence[Row], presence: InclusionProbabilities
) -> Iterator[tuple[Fraction, list[Row]]]:
    """Return every possible set of views: rows with the column `views` at their end."""
    per_cell = [_histories(presence, cell in true) for cell in cells]
    for histories in itertools.product(*per_cell):
        probability = Fraction(1)
        for _, each in histories:
            probability *= each
        rows = [(*c, bits) for c, (bits, _) in zip(cells, histories, strict=True) if bits]
        yield probability, rows


def _histories(presence: InclusionProbabilities, true: bool) -> list[tuple[int, Fraction]]:
    found = []
    for bits in range(1 << presence.views):
        probability = Fraction(1)
        for view in range(1, presence.views + 1):
            known = bits % (1 << (view - 1)) > 0
            false = presence.keep * presence.fade if known else presence.noise_of(view)
            each = presence.keep if true else false
            probability *= each if bits >> (view - 1) & 1 else 1 - each
        found.append((bits, probability))
    return found

"""Pictures of a database out of its ledger: where it was asked, and how much it has answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from scumble.model.errors import ParameterError, ScumbleError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Dates
from scumble.private.database.batch_plan import Piece
from scumble.private.database.given import COUNT, batch_of
from scumble.private.database.space import Space
from scumble.private.database.state import Memory
from scumble.private.database.terms import Terms
from scumble.private.journal.entries import ANSWER, Entry
from scumble.public.plot import capacity, curves
from scumble.public.plot.database import Axis, popularity

if TYPE_CHECKING:
    from scumble.public.plot.curves import Figure

_TICKS, _NAMES = 8, 40  # of numbers a few, of categories all that have room
_LETTERS = {"year": 4, "month": 7}  # of a date that is published as the first day of these


def picture(memory: Memory, entries: Iterable[Entry], one: str | None, other: str | None) -> Figure:
    """The heat map over two attributes, or the capacity curve if none is named."""
    if not curves.available():
        raise ScumbleError(curves.MISSING)
    if one is None and other is None:
        return _curve(memory, entries)
    across, up = (_place(memory.space, name) for name in (one, other))
    # Nobody is in two batches: what a person has lost shows in the batch that lost most.
    each = (batch.tracker.popularity(across, up) for batch in memory.batches)
    counts = reduce(np.maximum, each)
    attributes = memory.space.attributes
    return popularity(counts, _side(attributes[across]), _side(attributes[up]), memory.terms.limit)


def _place(space: Space, name: str | None) -> int:
    if name not in space.names:
        allowed = f"two of {', '.join(space.names)}, or nothing"
        raise ParameterError.of("plot", "attributes", allowed, name)
    return space.names.index(name)


def _side(attribute: Attribute) -> Axis:
    """Ticks at some codes, with the values that they stand for."""
    few = attribute.kind not in ("category", "boolean") or attribute.size > _NAMES
    last = attribute.size - 1
    step = max(1, attribute.size // _TICKS) if few else 1
    codes = list(range(0, attribute.size, step))
    if attribute.missing and codes[-1] != last:
        # what is missing stands apart from the values: it has a tick, with room for its name
        codes = [code for code in codes if last - code >= step] + [last]
    values = attribute.decode(np.array(codes, attribute.code_type)).to_pylist()
    return Axis(attribute.name, codes, [_label(attribute, value) for value in values])


def _label(attribute: Attribute, value: Any) -> str:
    """A value in a few letters: a month without its first day."""
    if value is None:
        return "(missing)"
    period = attribute.domain.by if isinstance(attribute.domain, Dates) else "day"
    return str(value)[: _LETTERS[period]] if period in _LETTERS else str(value)


def _curve(memory: Memory, entries: Iterable[Entry]) -> Figure:
    """Counts only, box by box; what was repeated was neither asked anew nor paid for. Each batch
    has a curve: the bound holds for one table.
    """
    answered: list[list[int]] = [[0] for _ in memory.batches]
    volumes: set[Fraction] = set()
    for piece in _counts(entries):
        as_asked = piece["status"] == "answered"
        curve = answered[batch_of(piece) - 1]
        curve.append(curve[-1] + as_asked)
        volumes |= {_volume(memory.space, piece["asked"])} if as_asked else set()
    curves = [
        capacity.Answered(_named(place, len(answered)), range(len(each)), each)
        for place, each in enumerate(answered)
    ]
    return capacity.capacity(curves, _bounds(memory.terms, volumes))


def _counts(entries: Iterable[Entry]) -> Iterator[Piece]:
    """The counts that were asked for and are no repeats."""
    for entry in (each for each in entries if each.kind == ANSWER):
        for piece in (piece for group in entry.payload["groups"] for piece in group["pieces"]):
            if piece["kind"] == COUNT and piece["status"] != "repeated" and "rows" not in piece:
                yield piece


def _named(place: int, batches: int) -> str:
    return "answered as asked" + (f", batch {place + 1}" if batches > 1 else "")


def _volume(space: Space, box: Sequence[Sequence[int]]) -> Fraction:
    """The share of the points that a box holds."""
    return Fraction(prod(high - low + 1 for low, high in box), space.points)


def _bounds(terms: Terms, volumes: Collection[Fraction]) -> list[capacity.Bound]:
    """Lemma 3 for boxes of these volumes: it holds for a part of the answers as for all."""
    loss = float(terms.epsilon * terms.noise)
    if not volumes or max(volumes) == 1:
        return []  # to count everything tells nothing about one row, so that nothing limits it
    if len(volumes) == 1:
        return [capacity.fixed_volume(loss, float(max(volumes)))]
    return [capacity.least_volume(loss, float(min(*volumes, 1 - max(volumes))))]

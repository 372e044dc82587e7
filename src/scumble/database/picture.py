"""Pictures of a database out of its ledger: where it was asked, and how much it has answered."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from scumble.attribute import Attribute
from scumble.database.entry import Entry
from scumble.database.memory import COUNT, Memory
from scumble.database.space import Space
from scumble.errors import ParameterError, ScumbleError
from scumble.plot import capacity, figure
from scumble.plot.popularity import Axis, popularity

if TYPE_CHECKING:
    from scumble.plot.figure import Figure

_TICKS, _NAMES = 8, 40  # of numbers a few, of categories all that have room


def picture(memory: Memory, entries: Iterable[Entry], one: str | None, other: str | None) -> Figure:
    """The heat map over two attributes, or the capacity curve if none is named."""
    if not figure.available():
        raise ScumbleError(figure.MISSING)
    if one is None and other is None:
        return _curve(memory, entries)
    across, up = (_place(memory.space, name) for name in (one, other))
    counts = memory.tracker.popularity(across, up)
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
    step = max(1, attribute.size // _TICKS) if few else 1
    codes = np.arange(0, attribute.size, step)
    values = attribute.decode(codes.astype(attribute.code_type)).to_pylist()
    labels = ["(missing)" if value is None else str(value) for value in values]
    return Axis(attribute.name, codes.tolist(), labels)


def _curve(memory: Memory, entries: Iterable[Entry]) -> Figure:
    """Counts only, box by box; what was repeated was neither asked anew nor paid for."""
    answered, given = [0], [0]
    for entry in entries:
        pieces = [piece for group in entry.payload["groups"] for piece in group["pieces"]]
        new = sum(number["kind"] == COUNT for number in entry.payload["new"])
        fates = [p["status"] for p in pieces if p["kind"] == COUNT and p["status"] != "repeated"]
        for fate in fates:
            answered.append(answered[-1] + (fate == "answered"))
        given += [given[-1] + new] * len(fates)
    submitted = range(len(answered))
    curves = [capacity.Answered("answered as asked", submitted, answered)]
    if given[-1] > answered[-1]:
        patched = "given out, with patches for relaxed ones"
        curves.append(capacity.Answered(patched, submitted, given))
    return capacity.capacity(curves, _bounds(memory))


def _bounds(memory: Memory) -> list[capacity.Bound]:
    """Lemma 3, for the shares of the points that the counted boxes hold."""
    loss = float(memory.terms.epsilon * memory.terms.noise)
    sides = memory.boxes[:, :, 1] - memory.boxes[:, :, 0] + 1
    volumes = {prod(map(int, box)) / memory.space.points for box in sides}
    if not volumes or max(volumes) == 1:
        return []  # to count everything tells nothing about one row, so that nothing limits it
    if len(volumes) == 1:
        return [capacity.fixed_volume(loss, *volumes)]
    return [capacity.least_volume(loss, min(*volumes, 1 - max(volumes)))]

"""Reading a database without its table: status, history, verification and plots of its journal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scumble.model.errors import ParameterError, ScumbleError
from scumble.model.long_work import portion, told
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Dates
from scumble.model.schema.schema import Schema
from scumble.private.database.plan import Piece
from scumble.private.database.recorded import Recorded
from scumble.private.database.results import Event, Quota, Status, Usage
from scumble.private.database.space import Space
from scumble.private.database.state import (
    COUNT,
    STATUSES,
    DatabaseState,
    batch_of,
    write_quota,
)
from scumble.private.database.tables import refuse_live
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import ANSWER, APPEND, REPEAT, Entry
from scumble.private.journal.journal import Journal, Turn
from scumble.public.plot import figures
from scumble.public.plot.database import (
    Answered,
    Axis,
    capacity,
    fixed_volume,
    least_volume,
    popularity,
)

if TYPE_CHECKING:
    from scumble.public.plot.database import Axis, Bound
    from scumble.public.plot.figures import Figure

_READING = 1 / 8  # of the time for the history; the rest is for hashes and contents of entries


class DatabaseInspection(Recorded):
    """`DatabaseInspection(folder)`: what a database has promised and answered.

    It does not need the table. Only `set_quota` adds to the journal.
    """

    def __init__(self, folder: str | Path) -> None:
        self._journal = Journal.open(folder)
        try:
            refuse_live(self._journal)
            self.terms = DatabaseTerms.from_dict(self._journal.promised("terms"))
            self.schema = Schema.from_dict(self._journal.promised("schema"))
            self.space = Space(self.schema, self._journal.promised("attributes"))
        except BaseException:
            self.close()
            raise

    @property
    def guarantee(self) -> Guarantee:
        found = self.terms.guarantee()
        return replace(found, limits=(*found.limits, *self.schema.impossible_limits()))

    def status(self) -> Status:
        return summary(self._caught_up())

    def history(self) -> list[Event]:
        return history(self._journal)

    def usage(self) -> list[Usage]:
        """Return what each analyst asked, was charged and may use, by name."""
        return usage(self._caught_up())

    def set_quota(self, analyst: str, epsilon: float | None) -> None:
        """As `Database.set_quota`."""
        with self._journal.turn() as turn:
            write_quota(turn, self._learned(turn), analyst, epsilon)

    def plot(self, one: str | None = None, other: str | None = None) -> Figure:
        """As `Database.plot`."""
        return plot_state(self._caught_up(), self._journal.entries(after=1), one, other)

    def _caught_up(self) -> DatabaseState:
        """Return the present state. A broken chain of entries is refused."""
        with self._journal.turn() as turn:
            return self._learned(turn)

    def _learned(self, turn: Turn) -> DatabaseState:
        if turn.fresh:
            self._state = DatabaseState(self.terms, self.space)
        for entry in told(turn.new_entries()):
            self._state.learn(entry)
        return self._state


def summary(state: DatabaseState) -> Status:
    """Return ε and the noise, the answers that cover the most popular point, and counts."""
    used, batches, limit = state.used(), state.batches, state.terms.limit
    quotas = {
        name: Quota(float(part), state.terms.limit_of(part))
        for name, part in state.quotas.items()
        if part is not None
    }
    return Status(
        epsilon=float(state.terms.epsilon),
        noise=float(state.terms.noise),
        limit=limit,
        used=used,
        share_used=used / limit,
        **{status: state.count(status) for status in STATUSES},
        numbers=len(state.past_answers),
        points=state.space.points,
        tracker=type(batches[0].tracker).__name__.removesuffix("Tracker").lower(),
        batches=len(batches),
        used_in_batches=tuple(batch.tracker.largest() for batch in batches),
        analysts={name: state.used_by(name) for name in quotas},
        quotas=quotas,
    )


def usage(state: DatabaseState) -> list[Usage]:
    """Return what each analyst asked and was charged, with the quota, by name."""
    names = {*state.usage, *(name for name, part in state.quotas.items() if part is not None)}
    found = []
    for name in sorted(names, key=lambda each: each or ""):
        part = None if name is None else state.quotas.get(name)
        asked = Usage(name, **state.usage.get(name, dict.fromkeys((*STATUSES, "numbers"), 0)))
        if name is not None and part is not None:
            used, limit = state.used_by(name), state.terms.limit_of(part)
            asked = replace(asked, epsilon=float(part), used=used, limit=limit)
        found.append(asked)
    return found


_MOST_POINTS = 4_000_000  # of a space whose points are all looked at


def used_shares(state: DatabaseState) -> list[tuple[Attribute, list[float]]]:
    """Return, for each attribute, the used share of the promise at each value; see `Database`."""
    if state.space.points > _MOST_POINTS:
        return []
    found = []
    for place, attribute in enumerate(state.space.attributes):
        each = [batch.tracker.mean_popularity(place) for batch in state.batches]
        used = reduce(np.maximum, each) / state.terms.limit
        found.append((attribute, np.clip(used, 0.0, 1.0).tolist()))
    return found


def history(journal: Journal) -> list[Event]:
    """Return each question and each appended batch, in order."""
    with portion(0, _READING):
        entries = journal.entries(after=1)
    with portion(_READING, 1):
        events: dict[int, Event] = {}
        for entry in told(entries):
            if entry.kind in (ANSWER, APPEND, REPEAT):
                events[entry.number] = _event(entry.unchanged(), events)
        return list(events.values())


def own_summary(state: DatabaseState, analyst: str) -> Status:
    """Return the summary that an analyst may see: of questions and quotas, only the own."""
    found = summary(state)
    own = state.usage.get(analyst, dict.fromkeys((*STATUSES, "numbers"), 0))
    return replace(
        found,
        answered=own["answered"],
        repeated=own["repeated"],
        relaxed=own["relaxed"],
        numbers=own["numbers"],
        used_in_batches=(),
        analysts={name: used for name, used in found.analysts.items() if name == analyst},
        quotas={name: quota for name, quota in found.quotas.items() if name == analyst},
    )


def _event(entry: Entry, earlier: Mapping[int, Event]) -> Event:
    payload, batch = entry.payload, None
    if entry.kind == APPEND:
        status, sql, charged, batch = "added", "", 0, payload["batch"]
    elif entry.kind == REPEAT:
        status, sql, charged = payload["status"], earlier[payload["entry"]].sql, 0
    else:
        status, sql, charged = payload["status"], payload["sql"], len(payload["new"])
    return Event(entry.number, entry.time, entry.analyst, entry.key, status, sql, charged, batch)


# --- plots ----------------------------------------------------------------------------------------

_TICKS, _NAMES = 8, 40  # ticks of a number, and the most categories that all have one
_LETTERS = {"year": 4, "month": 7}  # shown of a date that is published by year or month


def plot_state(
    state: DatabaseState, entries: Iterable[Entry], one: str | None, other: str | None
) -> Figure:
    """Return the heat map over two attributes, or the capacity curve if none is named."""
    if not figures.available():
        raise ScumbleError(figures.MISSING)
    if one is None and other is None:
        return _curve(state, entries)
    across, up = (_place(state.space, name) for name in (one, other))
    # A person is in one batch: the largest loss is that of the batch with the largest popularity.
    each = (batch.tracker.popularity(across, up) for batch in state.batches)
    counts = reduce(np.maximum, each)
    attributes = state.space.attributes
    return popularity(counts, _side(attributes[across]), _side(attributes[up]), state.terms.limit)


def _place(space: Space, name: str | None) -> int:
    if name not in space.names:
        allowed = f"two of {', '.join(space.names)}, or nothing"
        raise ParameterError.of("plot", "attributes", allowed, name)
    return space.names.index(name)


def _side(attribute: Attribute) -> Axis:
    """An axis of the plot: ticks at some codes, labelled with their values."""
    few = attribute.kind not in ("category", "boolean") or attribute.size > _NAMES
    last = attribute.size - 1
    step = max(1, attribute.size // _TICKS) if few else 1
    codes = list(range(0, attribute.size, step))
    if attribute.missing and codes[-1] != last:
        # The code of missing values gets a tick; values too near to it get none.
        codes = [code for code in codes if last - code >= step] + [last]
    values = attribute.decode(np.array(codes, attribute.code_type)).to_pylist()
    return Axis(attribute.name, codes, [_label(attribute, value) for value in values])


def _label(attribute: Attribute, value: Any) -> str:
    """The label of a value. A month is shown without its first day."""
    if value is None:
        return "(missing)"
    period = attribute.domain.by if isinstance(attribute.domain, Dates) else "day"
    return str(value)[: _LETTERS[period]] if period in _LETTERS else str(value)


def _curve(state: DatabaseState, entries: Iterable[Entry]) -> Figure:
    """The curve of answered counts, box by box. Repeated counts are left out: they cost nothing.

    Each batch has a curve of its own, because the bound holds for one table.
    """
    answered: list[list[int]] = [[0] for _ in state.batches]
    volumes: set[Fraction] = set()
    for piece in _counts(entries):
        as_asked = piece["status"] == "answered"
        curve = answered[batch_of(piece) - 1]
        curve.append(curve[-1] + as_asked)
        volumes |= {_volume(state.space, piece["asked"])} if as_asked else set()
    curves = [
        Answered(_named(place, len(answered)), range(len(each)), each)
        for place, each in enumerate(answered)
    ]
    return capacity(curves, _bounds(state.terms, volumes))


def _counts(entries: Iterable[Entry]) -> Iterator[Piece]:
    """Yield the pieces that are counts and were not repeated."""
    for entry in (each for each in entries if each.kind == ANSWER):
        for piece in (piece for group in entry.payload["groups"] for piece in group["pieces"]):
            if piece["kind"] == COUNT and piece["status"] != "repeated" and "rows" not in piece:
                yield piece


def _named(place: int, batches: int) -> str:
    return "answered as asked" + (f", batch {place + 1}" if batches > 1 else "")


def _volume(space: Space, box: Sequence[Sequence[int]]) -> Fraction:
    """The share of all points that is in a box."""
    return Fraction(prod(high - low + 1 for low, high in box), space.points)


def _bounds(terms: DatabaseTerms, volumes: Collection[Fraction]) -> list[Bound]:
    """The bounds of lemma 3 for boxes of these volumes. It holds for any part of the answers."""
    loss = float(terms.epsilon * terms.noise)
    if not volumes or max(volumes) == 1:
        return []  # counting everything costs nothing, so that there is no bound
    if len(volumes) == 1:
        return [fixed_volume(loss, float(max(volumes)))]
    return [least_volume(loss, float(min(*volumes, 1 - max(volumes))))]

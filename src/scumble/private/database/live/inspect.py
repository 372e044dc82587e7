"""Reading a live database without its table: status, history and verification of its journal."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import cast

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import NUMBER, Product
from scumble.model.errors import LedgerError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.query import quoted
from scumble.model.schema.attribute import Attribute
from scumble.private.database.live.lines import Line
from scumble.private.database.live.results import LiveStatus, LiveUsage
from scumble.private.database.live.state import STATUSES, LiveState
from scumble.private.database.live.terms import EDITION, UNITS, LiveTerms
from scumble.private.database.recorded import Recorded
from scumble.private.database.results import Event
from scumble.private.database.space import Space
from scumble.private.journal.entries import ANSWER
from scumble.private.journal.journal import Journal
from scumble.public.archive import archive
from scumble.public.archive.load import load
from scumble.public.combined import CombinedReleases
from scumble.public.estimation.measurements.appended import AppendedReader
from scumble.public.estimation.measurements.scales import Scales
from scumble.public.manifest import Manifest
from scumble.public.release import Release
from scumble.public.sandbox import Sandbox

BASE = "base"  # the folder of the base, beside the journal


class LiveInspection(Recorded):
    """`LiveInspection(folder)`: what a live database promised and answered, without its table."""

    def __init__(self, folder: str | Path) -> None:
        self._journal = open_journal(folder)
        try:
            self._base = open_base(self._journal)
            self.terms = LiveTerms.from_dict(self._journal.promise["terms"])
        except BaseException:
            self.close()
            raise

    @property
    def guarantee(self) -> Guarantee:
        return self.terms.guarantee(self._journal.promise["attributes"], self._base.schema)

    def status(self) -> LiveStatus:
        """Return how much of the promise is used."""
        state = new_state(self._journal, self._base)
        with self._journal.turn() as turn:
            for entry in turn.new_entries() if turn.fresh else self._journal.entries(after=1):
                state.learn(entry)
        return summary(state)

    def history(self) -> list[Event]:
        """Return each question that was charged, or asked with a key, in order."""
        return history(self._journal)


def summary(state: LiveState, analyst: str | None = None) -> LiveStatus:
    """Return the promise, what is used of it, and counts of questions; of questions and quotas all,
    or those of one analyst.
    """
    asked = {**state.asked, "purchases": state.purchases}
    quotas = dict(state.quotas)
    if analyst is not None:
        asked = state.usage.get(analyst, dict.fromkeys(asked, 0))
        quotas = {name: each for name, each in quotas.items() if name == analyst}
    return LiveStatus(
        epsilon=state.terms.epsilon,
        delta=state.terms.delta,
        mu=sqrt(state.terms.mu2),
        used=state.tracker.largest() / UNITS,
        **asked,
        points=state.space.points,
        quotas={name: each.largest() / each.limit for name, each in quotas.items()},
    )


def usage(state: LiveState) -> list[LiveUsage]:
    """Return what each analyst asked and bought, with the quota, by name."""
    found = []
    for name in sorted({*state.usage, *state.quotas}, key=lambda each: each or ""):
        own = LiveUsage(name, **state.usage.get(name, dict.fromkeys((*STATUSES, "purchases"), 0)))
        if name is not None and (quota := state.quotas.get(name)) is not None:
            used = quota.largest() / quota.limit
            own = replace(own, quota=float(state.terms.quotas[name]), used=used)
        found.append(own)
    return found


def used_shares(state: LiveState) -> list[tuple[Attribute, list[float]]]:
    """Return, for each attribute, the used share of what is for purchases at each value."""
    return [
        (attribute, (state.tracker.mean_popularity(place) / UNITS).tolist())
        for place, attribute in enumerate(state.space.attributes)
    ]


def history(journal: Journal) -> list[Event]:
    """Return each question of the journal, in order."""
    return [
        Event(
            entry.number,
            entry.time,
            entry.analyst,
            entry.key,
            entry.payload["status"],
            entry.payload["sql"],
            len(entry.payload["new"]),
        )
        for entry in (each.unchanged() for each in journal.entries(after=1, kind=ANSWER))
    ]


class Bases(CombinedReleases):
    """The tables of a base that has several."""

    @property
    def manifest(self) -> Manifest:
        return replace(self.releases[0].manifest, evidence=self._evidence)

    @property
    def evidence(self) -> Measurements:
        found: Measurements = self._evidence
        return found


Base = Release | Bases


def new_state(journal: Journal, base: Base) -> LiveState:
    """Return the state at creation: what the base says."""
    promise, rows = journal.promise, base.evidence.rows
    terms = LiveTerms.from_dict(promise["terms"])
    space = Space(base.schema, promise["attributes"])
    if isinstance(base, Bases):
        tables = [_table(each.evidence, each._answers().sandbox) for each in base.releases]
        scales = Scales.of(space.names, tables)
        return LiveState(terms, space, scales, base.schema, np.empty(0), rows)
    answers, evidence = base._answers(), cast(Measurements, base.evidence)
    schema, sandbox = answers.schema, answers.sandbox

    def reader(part: Measurements) -> AppendedReader:
        design, numbers = _table(part, sandbox.of_file(schema, part.file))
        return AppendedReader(design, schema, numbers)

    sums = {}
    for each in evidence.sums:
        sums[Line(each.amounts.column).reader] = reader(each.total)
        if each.present is not None:
            sums[Line(each.amounts.column, present=True).reader] = reader(each.present)
    design, numbers = _table(evidence, sandbox)
    return LiveState(terms, space, design, schema, numbers, rows, sums)


def _table(part: Evidence, sandbox: Sandbox) -> tuple[Product, Floats]:
    """Return the design of a table, and its noisy numbers."""
    column = sandbox.rows(f"SELECT {quoted(NUMBER)} FROM view").column(0)
    return cast(Product, cast(Measurements, part).design), column.to_numpy()


def open_journal(place: str | Path) -> Journal:
    """Open the journal of a live database; that of something else is refused."""
    journal = Journal.open(place)
    try:
        journal.promised("attributes")  # no owner's ledger has them
        if journal.promise.get("edition") != EDITION:
            raise LedgerError(
                f"{journal} is not a live database with a delta: open it by Database.open."
            )
    except BaseException:
        journal.close()
        raise
    return journal


def packed(releases: Sequence[Release]) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of the tables of a base by name, and the digests of their manifests."""
    every = [archive.pack(each) for each in releases]
    files = {
        f"{folder}/{name}": content
        for folder, own in zip(_folders(len(every)), every, strict=True)
        for name, content in own.items()
    }
    return files, [digest(own[archive.MANIFEST]) for own in every]


def open_base(journal: Journal) -> Base:
    """Open the base beside a journal; another one than was promised is refused."""
    wanted = journal.promise["base"]["sha256"]
    digests = [wanted] if isinstance(wanted, str) else wanted
    every = zip(_folders(len(digests)), digests, strict=True)
    return as_base([_open_table(journal, folder, promised) for folder, promised in every])


def _open_table(journal: Journal, folder: str, promised: str) -> Release:
    """Open a table of a base; one of a database server is copied to a temporary folder."""
    files, name = journal.files(folder), archive.MANIFEST
    if digest(files.get(name, b"")) != promised:
        raise LedgerError(
            f"The base beside the journal in {journal} is not the one that was promised, or it is "
            "damaged. Restore it from a copy."
        )
    if isinstance(journal.place, Path):
        return load(journal.place / folder)
    return Release(*archive.unpack(files), temporary=True)


def as_base(releases: Sequence[Release]) -> Base:
    """Return the base of these tables."""
    return releases[0] if len(releases) == 1 else Bases(tuple(releases))


def _folders(tables: int) -> list[str]:
    return [BASE, *(f"{BASE}-{number}" for number in range(2, tables + 1))]


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file, as the promise has it."""
    return hashlib.sha256(content).hexdigest()

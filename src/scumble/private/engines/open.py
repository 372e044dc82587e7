"""Which engine works on the rows of a release, with which noise, and how the meter counts by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.lists import EncodedLists
from scumble.model.schema.schema import Schema
from scumble.private.engines import workers
from scumble.private.engines.engine import Engine
from scumble.private.engines.local import LocalEngine
from scumble.private.engines.pool import PoolEngine
from scumble.private.engines.workers import Executor
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import CellSet, Counts, Occupied, RowCounter
from scumble.private.tables.rows import Rows

if TYPE_CHECKING:
    from scumble.private.tables.key_pairs import KeyCounter


@contextmanager
def release_noise(
    rows: Rows, seed: int | None, jobs: int, cluster: Executor | None = None
) -> Iterator[Keystream]:
    """Give the keystream of a new release, while `jobs` processes or a cluster may work on the
    rows.

    The operating system chooses its key. It is destroyed at the end of the block, when the files of
    the release are complete or have failed: nobody can draw the same noise again.
    """
    noise = Keystream(seed)
    try:
        if jobs == 1:
            rows.workers = cluster
            yield noise
            return
        with workers.Workers(jobs) as rows.workers:
            yield noise
    finally:
        rows.workers = None
        noise.destroy()


def open_engine(rows: Rows, noise: Keystream) -> Engine:
    """Return the engine for these rows: that of several processes if they have workers, else this
    process.
    """
    if rows.workers is None:
        return LocalEngine(rows, noise)
    return PoolEngine(rows, noise, rows.workers)


class EngineCounter:
    """The counts of an engine, as the meter reads them (`CellCounter`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.counted = 0

    @property
    def schema(self) -> Schema:
        return self._engine.rows.schema

    @property
    def selects(self) -> bool:
        return RowCounter(self._engine.rows).selects

    def counts(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        found = self._engine.count([*sets, ()], unit)
        self.counted = int(found.pop()[0])  # the cell of no attributes has all rows
        return found

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        found = self._engine.occupied(names, unit)
        self.counted = int(found.counts.sum())
        return found

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        return (lists for [lists] in self._engine.lists([name], unit))

    def paired_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        return self._engine.lists(names, unit)

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        return self._engine.keys(names, unit)

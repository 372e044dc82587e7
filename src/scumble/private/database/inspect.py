"""Reading a database without its table: what the ledger alone tells."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.schema import Schema
from scumble.private.database.space import Space
from scumble.private.database.state import Memory
from scumble.private.database.terms import Terms
from scumble.private.journal.chain import out_of_order
from scumble.private.journal.entries import ANSWER, APPEND, Entry
from scumble.private.journal.journal import Journal

if TYPE_CHECKING:
    from scumble.public.plot.curves import Figure


class Reading:
    """`Reading(folder)`: what a database has promised and answered; it asks nothing of the table,
    and adds nothing to the ledger.
    """

    def __init__(self, folder: str | Path) -> None:
        self._journal = Journal.open(folder)
        try:
            self.terms = Terms.from_dict(self._journal.promised("terms"))
            self.schema = Schema.from_dict(self._journal.promised("schema"))
            self.space = Space(self.schema, self._journal.promised("attributes"))
        except BaseException:
            self.close()
            raise

    @property
    def guarantee(self) -> Guarantee:
        return self.terms.guarantee()

    @property
    def seal(self) -> str:
        """Number and hash of the last entry: kept elsewhere, `verify` can be held against it."""
        return str(self._journal.head)

    def status(self) -> dict[str, Any]:
        return facts(self._caught_up())

    def history(self) -> list[dict[str, Any]]:
        return told(self._journal.entries(after=1))

    def verify(self, seal: str | None = None) -> list[str]:
        """What is wrong with the ledger, in sentences; none if it is whole."""
        return verified(self._journal, seal)

    def plot(self, one: str | None = None, other: str | None = None) -> Figure:
        """As `Database.plot`."""
        from scumble.private.database.picture import picture

        return picture(self._caught_up(), self._journal.entries(after=1), one, other)

    def close(self) -> None:
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _caught_up(self) -> Memory:
        """With entries that follow each other link by link; a broken chain is refused."""
        with self._journal.turn() as turn:
            if turn.fresh:
                self._memory = Memory(self.terms, self.space)
            for entry in turn.news():
                self._memory.learn(entry)
        return self._memory


def verified(journal: Journal, seal: str | None) -> list[str]:
    """What is wrong with a chain, or if nothing is, with the batches that it tells of."""
    added = journal.entries(kind=APPEND)  # before the chain: others may add some meanwhile
    found = journal.verify(seal) or tuple(
        wrong
        for place, entry in enumerate(added)
        if (wrong := out_of_order(entry, place + 2)) is not None
    )
    return [finding.sentence for finding in found]


def facts(memory: Memory) -> dict[str, Any]:
    """The promise, how much of it is used at the most asked-about point, and what was done."""
    used, batches = memory.used(), memory.batches
    return {
        "epsilon": float(memory.terms.epsilon),
        "noise": float(memory.terms.noise),
        "most answers for one point": memory.terms.limit,
        "used": used,
        "share used": used / memory.terms.limit,
        **memory.answers,
        "numbers given out": len(memory.given),
        "points": memory.space.points,
        "tracker": type(batches[0].tracker).__name__.lower(),
        "batches": len(batches),
        "used in each batch": [batch.tracker.largest() for batch in batches],
        "analysts": {
            name: max(batch.of_analysts[name].largest() for batch in batches)
            for name in memory.terms.quotas
        },
    }


def told(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """What the ledger says about questions, and about rows that were added, in their order."""
    return [
        {
            "number": entry.number,
            "time": entry.time,
            "analyst": entry.analyst,
            "key": entry.key,
            **_event(entry.unchanged()),
        }
        for entry in entries
        if entry.kind in (ANSWER, APPEND)
    ]


def _event(entry: Entry) -> dict[str, Any]:
    payload = entry.payload
    if entry.kind == APPEND:
        return {"status": "added", "batch": payload["batch"], "sql": "", "new numbers": 0}
    return {
        "status": payload["status"],
        "sql": payload["sql"],
        "new numbers": len(payload["new"]),
    }

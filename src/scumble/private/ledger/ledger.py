"""The owner's ledger: the losses of all releases of a table, charged before each is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from scumble.model.errors import (
    ChangedError,
    LedgerError,
    ParameterError,
    PromiseError,
    SourceError,
)
from scumble.model.privacy.guarantee import read_delta
from scumble.private.journal.entries import Entry
from scumble.private.journal.journal import Journal, is_free
from scumble.private.journal.store import Place
from scumble.private.ledger.cost import Bill, ReleaseClaim, bill_of_database
from scumble.private.ledger.statement import LedgerStatement, refuse
from scumble.private.ledger.terms import LedgerTerms, Total

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema


class Ledger:
    """`Ledger.create(folder, epsilon=..., neighbours=...)`, then `publish(..., ledger=folder)`.

    A ledger belongs to the people of one table, whichever export of it is published. Every release
    about them has to be charged here. The ledger has what was promised and when, and nothing of any
    table. A release is charged, on the disk, before a row is read. A release beyond the limit is
    refused, also if several processes publish at once. Publishing again draws new noise and is
    charged again.
    """

    def __init__(self, folder: Place, terms: LedgerTerms) -> None:
        """Call `Ledger.create` or `Ledger.open`."""
        self.folder = folder
        self.terms = terms
        self.last_charge: int | None = None  # the number of the one that was made by this object

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        neighbours: str,
        epsilon: float | None = None,
        delta: float | None = None,
        pure: float | None = None,
        contribution: int = 1,
        sensitive: Sequence[str] | None = None,
        parts: str | None = None,
        name: str = "one table",
    ) -> Self:
        """Create a ledger in a new folder, or in PostgreSQL (`postgresql://.../schema.name`).

        `epsilon`, or `epsilon` with `delta`, is the limit of the loss of one person in all; without
        it the ledger adds up and refuses nothing. `pure` is the part of `epsilon` that is kept for
        releases without a `delta`, if there will be both kinds. `neighbours` says what is
        protected: "values" (the columns in `sensitive`), "replace" (the content of a person's rows)
        or "add_remove" (also their presence). `contribution` is the largest number of rows of a
        person. `parts` is a column that never changes for a person: `Table(..., part=VALUE)` then
        reads only the rows with that value, and is charged to these people only. `name` is shown to
        people.
        """
        terms = LedgerTerms.read(
            name=name,
            neighbours=neighbours,
            contribution=contribution,
            sensitive=sensitive,
            epsilon=epsilon,
            delta=delta,
            pure=pure,
            parts=parts,
        )
        with Journal.create(folder, terms.to_dict()) as journal:
            return cls(journal.place, terms)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a ledger that was created before."""
        with Journal.open(folder) as journal:
            return cls(journal.place, LedgerTerms.from_dict(journal.promise, folder))

    @contextmanager
    def paid(
        self,
        bill: Bill,
        harmless: type[Exception] | tuple[type[Exception], ...] = SourceError,
        nothing_made: Callable[[], bool] = lambda: True,
    ) -> Iterator[None]:
        """Charge a bill, or refuse it; the release is made within the context.

        After a `harmless` failure the charge is returned, if `nothing_made` then says so: that a
        table cannot be read does not depend on any noise. After any other failure it stays, since
        drawn noise may have been seen, and also if the table changed after it was read once.
        """
        number = self.last_charge = self._charge(bill)
        try:
            yield
        except harmless as error:
            if not isinstance(error, ChangedError) and nothing_made():
                self._note(RETURNED, number)
            raise
        self._note(MADE, number)

    def check(self, bill: Bill) -> None:
        """Refuse a bill that `paid` would refuse now. Nothing is charged."""
        self._refuse(bill, self.charges)

    @property
    def charges(self) -> list[Charge]:
        """What each release promises, costs here, and its state; also of those not counted."""
        with Journal.open(self.folder) as journal, journal.turn() as turn:
            return charges_of(turn.new_entries())  # their chain is checked

    @property
    def totals(self) -> dict[str | None, Total]:
        """The exact losses of a person of each part that was published, and of others (None)."""
        return totals_of(self.charges)

    def statement(self, delta: float | None = None) -> LedgerStatement:
        """Return the total in words and numbers, for the δ of the ledger or another one."""
        found = self.charges
        return LedgerStatement(
            self.terms,
            totals_of(found),
            self.terms.delta if delta is None else read_delta("Ledger", delta),
            sum(each.counted for each in found),
            sum(each.uncounted for each in found),
        )

    def verify(self, seal: str | None = None) -> list[str]:
        """Return what is wrong with the ledger, in sentences; none if it is intact."""
        with Journal.open(self.folder) as journal:
            return [finding.sentence for finding in journal.verify(seal)]

    @property
    def seal(self) -> str:
        """Number and hash of the last entry. `verify` compares the ledger with a copy of it."""
        with Journal.open(self.folder) as journal:
            return str(journal.head)

    def __repr__(self) -> str:
        limit = self.terms.limit or "none"
        return (
            f"Ledger of {self.terms.name}, protecting {self.terms.protects()}; limit: {limit}\n"
            f"  {self.statement()}"
        )

    def _charge(self, bill: Bill) -> int:
        with (
            Journal.open(self.folder, self.terms.to_dict()) as journal,
            journal.turn() as turn,  # the first turn has all entries as new ones
        ):
            self._refuse(bill, charges_of(turn.new_entries()))
            return turn.append(CHARGED, bill.to_dict()).number

    def _refuse(self, bill: Bill, charges: list[Charge]) -> None:
        refuse_regrouped(bill, charges)
        if self.terms.limit is not None:
            refuse(bill, totals_of(charges), self.terms.limit)

    def _note(self, kind: str, number: int) -> None:
        with Journal.open(self.folder) as journal, journal.turn() as turn:
            turn.append(kind, {"charge": number})


@contextmanager
def charged_for_database(
    ledger: Ledger | str | Path | None,
    claim: ReleaseClaim,
    schema: Schema,
    place: Place,
    *,
    seeded: bool,
) -> Iterator[None]:
    """Charge a statistical database, if there is a ledger, before it is made at a free place.

    A database answers nothing before it is there. So the charge is returned after a failure, if a
    new look shows that the place is still free; it stays if nobody can tell.
    """
    if ledger is None:
        yield
        return
    found = open_ledger(ledger)
    bill = bill_of_database(claim, schema, found.terms, seeded=seeded)
    with found.paid(bill, harmless=Exception, nothing_made=lambda: _is_surely_free(place)):
        yield


def _is_surely_free(place: Place) -> bool:
    try:
        return is_free(place)
    except LedgerError:
        return False


def open_ledger(ledger: Ledger | str | Path) -> Ledger:
    """Return a ledger, or the one in a folder."""
    if isinstance(ledger, Ledger):
        return ledger
    if not isinstance(ledger, (str, Path)):
        raise ParameterError.of("publish", "ledger", "a Ledger or the folder of one", ledger)
    return Ledger.open(ledger)


# --- charges --------------------------------------------------------------------------------------

CHARGED, MADE, RETURNED = "charged", "made", "returned"  # kinds of entries
State = Literal["begun", "made", "returned"]


@dataclass(frozen=True)
class Charge:
    """A bill in the ledger, and the state of its release.

    "begun" is charged: the release is being made, or making it failed or was stopped, and noise
    that was drawn by then may have been seen. "returned" is not charged: the table could not be
    read, or the database was surely not made.
    """

    number: int
    time: str
    bill: Bill
    state: State = "begun"

    @property
    def counted(self) -> bool:
        """Whether it is part of the total."""
        return self.bill.loss is not None and self.state != "returned"

    @property
    def uncounted(self) -> bool:
        """Whether it is a release whose loss is unknown."""
        return self.bill.loss is None and self.state != "returned"

    def to_dict(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "time": self.time,
            "state": self.state,
            "counted": self.counted,
            **self.bill.to_dict(),
        }


def charges_of(entries: Iterable[Entry]) -> list[Charge]:
    """Return the charges that the entries after the first one record."""
    found: dict[int, Charge] = {}
    for entry in entries:
        if entry.kind == CHARGED:
            found[entry.number] = Charge(entry.number, entry.time, Bill.from_dict(entry.payload))
        else:
            number = entry.payload["charge"]
            state: State = "made" if entry.kind == MADE else "returned"
            found[number] = replace(found[number], state=state)
    return list(found.values())


def refuse_regrouped(bill: Bill, charges: Iterable[Charge]) -> None:
    """Refuse a part whose column is read in another way than for earlier parts.

    With coarser bins, or months in place of days, a part would share people with several others.
    """
    earlier = [each.bill for each in charges if each.bill.part and each.state != "returned"]
    if bill.part and any(each.column != bill.column for each in earlier):
        raise PromiseError(
            "The schema reads the column of the parts in another way than that of an earlier part, "
            "so that a person could be in both. Publish with the domain, and the words for missing "
            "values, that this column had, or the whole table. Nothing was charged."
        )


def totals_of(charges: Iterable[Charge]) -> dict[str | None, Total]:
    """Return the total for a person of each part that was published, and of all others (None)."""
    counted = [each for each in charges if each.counted]
    parts = [None, *dict.fromkeys(each.bill.part for each in counted if each.bill.part)]
    return {part: _total([e for e in counted if e.bill.part in (None, part)]) for part in parts}


def _total(charges: Iterable[Charge]) -> Total:
    losses = (each.bill.loss for each in charges)
    return Total(tuple(loss for loss in losses if loss is not None))

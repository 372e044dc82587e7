"""Charge: a bill in the ledger, and what became of the release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from scumble.model.errors import PromiseError
from scumble.private.journal.entries import Entry
from scumble.private.ledger.cost import Bill
from scumble.private.ledger.total import Total

CHARGED, MADE, RETURNED = "charged", "made", "returned"  # kinds of entries
State = Literal["begun", "made", "returned"]


@dataclass(frozen=True)
class Charge:
    """A bill that was paid, or only listed since nobody can say what it costs.

    "begun" is charged: the release may be in the making, or whoever made it failed or was stopped,
    and what was drawn by then may have been seen. "returned" is not: its table could not be read.
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
    def listed(self) -> bool:
        """Whether it is a release that nobody can count."""
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
    """What the entries after the first one say."""
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
    """Refuse a part that was told from the others in another way than the parts before: coarser
    bins, or months in place of days, would make up a part that shares people with several.
    """
    earlier = [each.bill for each in charges if each.bill.part and each.state != "returned"]
    if bill.part and any(each.column != bill.column for each in earlier):
        raise PromiseError(
            "The schema reads the column of the parts in another way than that of an earlier part, "
            "so that a person could be in both. Publish with the domain, and the words for missing "
            "values, that this column had, or the whole table. Nothing was charged."
        )


def totals_of(charges: Iterable[Charge]) -> dict[str | None, Total]:
    """What all that is counted comes to for a person of each part that was published, and for one
    of any other (None).
    """
    counted = [each for each in charges if each.counted]
    parts = [None, *dict.fromkeys(each.bill.part for each in counted if each.bill.part)]
    return {part: _total([e for e in counted if e.bill.part in (None, part)]) for part in parts}


def _total(charges: Iterable[Charge]) -> Total:
    losses = (each.bill.loss for each in charges)
    return Total(tuple(loss for loss in losses if loss is not None))

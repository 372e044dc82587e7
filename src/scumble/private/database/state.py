"""Memory: all that follows from the ledger, built by reading its entries in their order.

What a process remembers is thus what is on the disk: after a crash, after another process wrote,
after a turn that came to nothing. One thing is besides: a histogram may cut buckets finer when it
is asked for room, which changes how closely it bounds popularity, never whether the bound holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scumble.model.errors import LedgerError
from scumble.private.database.batch import Batch
from scumble.private.database.given import Given, batch_of
from scumble.private.database.space import Space
from scumble.private.database.terms import Terms
from scumble.private.journal.chain import out_of_order
from scumble.private.journal.entries import ANSWER, APPEND, Entry


class Memory:
    """The numbers that were given out, and what they mean for every batch of rows."""

    def __init__(self, terms: Terms, space: Space) -> None:
        self.terms = terms
        self.space = space
        self.given: list[Given] = []
        self.answers = {"answered": 0, "repeated": 0, "relaxed": 0}
        self.batches = [Batch(terms, space)]
        self.added: list[str] = []  # fingerprints of the batches after the first

    def learn(self, entry: Entry) -> None:
        """Take in one entry."""
        if entry.kind == ANSWER:
            self._answered(entry.payload, entry.analyst)
        elif entry.kind == APPEND:
            if wrong := out_of_order(entry, len(self.batches) + 1):
                raise LedgerError(f"The ledger is not used: it was tampered with. {wrong.sentence}")
            self.batches.append(Batch(self.terms, self.space))
            self.added.append(entry.payload["data"])
        else:
            raise LedgerError(
                f"Entry {entry.number} of the ledger is of a kind that this version of scumble "
                f"does not know, {entry.kind!r}. Upgrade scumble."
            )

    def used(self) -> int:
        """The largest popularity of any point in any batch: nobody is in two of them."""
        return max(batch.tracker.largest() for batch in self.batches)

    def _answered(self, payload: Mapping[str, Any], analyst: str | None) -> None:
        for item in payload["new"]:
            given = Given.from_dict(item)
            self.batches[given.batch - 1].add(given, len(self.given), analyst)
            self.given.append(given)
        for group in payload["groups"]:
            for piece in group["pieces"]:
                if piece["status"] == "relaxed" and piece["terms"]:
                    asked = np.array(piece["asked"], np.int64)
                    batch = self.batches[batch_of(piece) - 1]
                    batch.relaxed[piece["manner"], asked.tobytes()] = piece
        self.answers[payload["status"]] += 1

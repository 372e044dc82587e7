"""Growth: rows that come later, which the ledger knows by a fingerprint as a batch of their own."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from scumble.model import dialect
from scumble.model.errors import LedgerError, ParameterError, PromiseError
from scumble.private.database.counting import Counter
from scumble.private.journal.entries import APPEND, Entry
from scumble.private.journal.turn import Turn


@dataclass(frozen=True)
class Addition:
    """Rows that are to be added, read and encoded.

    Who could make up a batch would learn from a refusal whether it is one that is there. So they
    are compared only with what they retry, and by who has the key of the folder and could do the
    same alone.
    """

    counter: Counter
    secret: bytes  # the key of the folder
    salt: str
    data: str  # their fingerprint with this salt

    @classmethod
    def of(cls, counter: Counter, secret: bytes) -> Addition:
        salt = secrets.token_hex(16)
        return cls(counter, secret, salt, fingerprint(counter, secret, salt))

    def refuse_twice(self, table: str, batches: Sequence[Entry]) -> None:
        """Complain about rows that are there already, in the table or in a batch: as a rule they
        are the same people, added by mistake.
        """
        same = [1] if self.counter.fingerprint(self.secret) == table else []
        same += [
            each.payload["batch"] for each in batches if is_of(each, self.counter, self.secret)
        ]
        if same:
            raise PromiseError(
                f"These rows are in the database already, as batch {same[0]}, and nobody may be in "
                "two batches. Nothing was added. If they are other people who happen to have the "
                f"same values, say {dialect.setting('again', True)}."
            )

    def enter(self, turn: Turn, key: str | None, number: int) -> Entry:
        """The entry of the batch: a new one with this number, or the one that has the key."""
        stored = None if key is None else turn.find(key)
        if stored is None:
            payload = {"batch": number, "salt": self.salt, "data": self.data}
            return turn.append(APPEND, payload, key)
        if stored.kind != APPEND or not is_of(stored, self.counter, self.secret):
            raise ParameterError.of("append", "key", "a new one for other rows", key)
        return stored


def named(entries: Sequence[Entry], tables: Sequence[Counter], secret: bytes) -> dict[str, Counter]:
    """The rows of all batches by their fingerprints; what the ledger does not know is refused."""
    for entry, table in zip(entries, tables, strict=True):
        if not is_of(entry, table, secret):
            raise LedgerError(
                f"Batch {entry.payload['batch']} was made of other rows than those that are given. "
                "Give the batches as they were added, in their order."
            )
    return {entry.payload["data"]: table for entry, table in zip(entries, tables, strict=True)}


def is_of(entry: Entry, table: Counter, secret: bytes) -> bool:
    """Whether an entry is about these rows."""
    payload = entry.payload
    return bool(fingerprint(table, secret, payload["salt"]) == payload["data"])


def fingerprint(table: Counter, secret: bytes, salt: str) -> str:
    """A digest of the rows of a batch. Each batch has a salt, so that nobody who reads the ledger
    can see whether two batches are alike.
    """
    key = hashlib.blake2b(bytes.fromhex(salt), key=secret, digest_size=32).digest()
    return table.fingerprint(key)


def missing(number: int) -> LedgerError:
    """The error of a program that does not have the rows of a batch."""
    return LedgerError(
        f"Rows were added to this database as batch {number}, which this program was not given. "
        f"Open it again with all {dialect.named('batches')}."
    )

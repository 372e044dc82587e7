"""Entries of a journal: a payload as canonical JSON, chained by hashes."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from scumble.model.errors import LedgerError, ParameterError

PROMISE = "promise"
ANSWER = "answer"
REPEAT = "repeat"  # an answer with a new idempotency key, as in an earlier entry
APPEND = "append"  # a batch of rows
QUOTA = "quota"  # an analyst's part of ε: given, changed or ended
NO_HASH = "0" * 64  # `previous` of the first entry
_SALT = "_salt"  # in the text of an entry, not in its payload
_FIELDS = 300  # bytes of an entry beside its text: time, names, hashes
_LONGEST = 200  # characters of a key, a kind or a name
_JSON = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `text` is its payload and a salt as JSON, `hash` the SHA-256 of all other fields.

    Without the salt nobody who has the hash can try out what the entry says. Entries of earlier
    versions have none.
    """

    number: int
    kind: str
    key: str | None
    analyst: str | None
    time: str
    text: str
    previous: str
    hash: str

    @property
    def payload(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.text)
        content.pop(_SALT, None)
        return content

    @property
    def size(self) -> int:
        """About how many bytes of the journal it takes."""
        return len(self.text) + _FIELDS

    def unchanged(self) -> Self:
        """Return the entry itself; raises `LedgerError` if its content was changed."""
        if not self.intact:
            raise LedgerError(
                f"Entry {self.number} of the journal was changed: its content does not fit its "
                "hash. It is not used."
            )
        return self

    @property
    def intact(self) -> bool:
        """Whether the content has the stored hash."""
        return self._fits(self.number)

    def written_as(self, last: int) -> int | None:
        """Return the number from 1 to `last` with which the content has the stored hash, if any."""
        return next((number for number in range(1, last + 1) if self._fits(number)), None)

    def _fits(self, number: int) -> bool:
        content = (number, self.kind, self.key, self.analyst, self.time, self.text, self.previous)
        try:
            return digest(*content) == self.hash
        except (TypeError, ValueError):  # somebody may have stored what is not text
            return False


def digest(
    number: int,
    kind: str,
    key: str | None,
    analyst: str | None,
    time: str,
    text: str,
    previous: str,
) -> str:
    """Return the SHA-256 of the fields, as seven lines.

    Different fields give different lines. No field has a line end when it is written, so a field
    that has one makes more lines. A key or analyst begins with = unless there is none.
    """
    owner = ("" if word is None else "=" + word for word in (key, analyst))
    lines = (str(number), kind, *owner, time, text, previous)
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def new_entry(
    number: int,
    previous: str,
    kind: str,
    payload: Mapping[str, Any] | str,
    key: str | None = None,
    analyst: str | None = None,
) -> Entry:
    """Return a new entry, to follow the one with the hash `previous`, with the present time.

    Instead of a payload it takes its `salted_text`.
    """
    for name, word in (("kind", kind), ("key", key), ("analyst", analyst)):
        check_word(name, word)
    text = payload if isinstance(payload, str) else salted_text(payload)
    time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    content = (number, kind, key, analyst, time, text, previous)
    return Entry(*content, hash=digest(*content))


def salted_text(payload: Mapping[str, Any]) -> str:
    """Return the text of an entry, with a new salt. That of a long payload takes a while."""
    return canonical({**payload, _SALT: secrets.token_hex(16)})


def canonical(payload: Mapping[str, Any]) -> str:
    """Return a payload as JSON with sorted keys and exact integers: equal content, equal bytes."""
    try:
        return _JSON.encode(dict(payload))
    except (TypeError, ValueError):
        raise ParameterError.of(
            "Journal", "payload", "what JSON can say, without NaN and infinity", payload
        ) from None


def check_word(name: str, word: str | None) -> None:
    """Refuse a key, kind or name that is long or not printable. These occur in messages."""
    if word is None and name != "kind":
        return
    if not isinstance(word, str) or not word.isprintable() or not 0 < len(word) <= _LONGEST:
        raise ParameterError.of(
            "Journal", name, f"printable text of 1 to {_LONGEST} characters", word
        )

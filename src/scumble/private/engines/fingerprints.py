"""Fingerprints of units of work: whether a unit is still what it was when it was read before.

A fingerprint is an HMAC of a GMAC over the codes of one column of a unit, exactly what its noise is
drawn for, under secret keys of this column, unit and release. A plain hash would let somebody
confirm a guess about the rows. So might GMACs alone: those of several readings have one key and
nonce, and tell how the readings differ to whoever sees them. Tasks of Spark write fingerprints into
the staging folder; otherwise they stay in memory. Different codes have the same fingerprint with a
probability of at most (their bytes + 31) / 2^132. GMAC takes a twentieth of the time of
HMAC-SHA256, which is computed of 16 bytes here.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import AEADEncryptionContext, Cipher, algorithms, modes

from scumble.model.errors import ChangedError
from scumble.private.engines.engine import CHANGED

Codes = npt.NDArray[Any]
Fingerprint = Mapping[str, bytes]  # by column


class Fingerprinter:
    """Computes the fingerprint of a unit while its pieces pass through `watch`."""

    def __init__(self, key: bytes, names: Sequence[str]) -> None:
        self._key, self._names = key, list(names)
        self._macs = [_gmac(key, name) for name in names]
        self._rows = 0

    def watch(self, pieces: Iterator[list[Codes]]) -> Iterator[list[Codes]]:
        """Yield the same pieces."""
        for columns in pieces:
            for mac, column in zip(self._macs, columns, strict=True):
                mac.authenticate_additional_data(np.ascontiguousarray(column).view(np.uint8).data)
            self._rows += len(columns[0])
            yield columns

    def result(self) -> dict[str, bytes] | None:
        """Return the fingerprint of all pieces, which have passed; None if they have no rows."""
        if not self._rows:
            return None
        for mac in self._macs:
            mac.finalize()
        pairs = zip(self._names, self._macs, strict=True)
        return {name: _mac(self._key, b"tag", name, mac.tag) for name, mac in pairs}


def _gmac(key: bytes, name: str) -> AEADEncryptionContext:
    """Return a GMAC whose key and nonce are derived from the key of a unit and a name."""
    own = _mac(key, b"key", name)
    return Cipher(algorithms.AES(own[:16]), modes.GCM(own[16:28])).encryptor()


def _mac(key: bytes, purpose: bytes, name: str, tag: bytes = b"") -> bytes:
    # No message is one of `PeopleFingerprint`, which has the same key; a tag has 16 bytes or none.
    return hmac.digest(key, b"column " + purpose + tag + name.encode(), "sha256")


class Fingerprints:
    """The fingerprints of the units that were read so far in one release."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, bytes]] = {}

    def knows(self, unit: int) -> bool:
        return unit in self._known

    def check(self, unit: int, found: Fingerprint | None) -> None:
        """Remember a fingerprint. Raise ChangedError if a column had another one before.

        A unit without rows has none. `check_units` notices one that had rows before.
        """
        if not found:
            return
        known = self._known.setdefault(unit, {})
        if any(known.setdefault(name, code) != code for name, code in found.items()):
            raise ChangedError(CHANGED)

    def check_units(self, units: set[int]) -> None:
        """Raise ChangedError if other units had rows before."""
        if self._known and set(self._known) != units:
            raise ChangedError(CHANGED)

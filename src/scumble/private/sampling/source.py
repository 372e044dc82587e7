"""The source of all randomness: AES-CTR keystreams, and the key of a release.

A keystream is the AES-128 encryption of the counters 0, 1, 2, ..., so that no block ever repeats
under one key; 128 bits of key rather than 256 because that is a sixth faster and still out of reach
of any search.
The operating system chooses the key. The stream of a unit of work (a stable piece of the table) is
derived from the key of the release: a unit that has to be read again draws the same bits.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import weakref
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from scumble.model.errors import ParameterError

KEY_BYTES = 16
# A usual second-level cache: most of the keystream is still there when the sampler reads it.
_ZEROS = memoryview(bytes(1 << 19))


class Keystream:
    """A stream of independent uniform bits, and the key from which further streams are derived.

    Without `seed` the keys come from the operating system. With `seed` the stream is the same every
    time, which is for tests only; `seeded` is then True. Threads may share a keystream. A forked
    child continues with new keys (a seeded one repeats its stream; a derived one refuses to go on).
    `drawn` says whether bits were drawn from it, or a stream derived.
    A keystream cannot be copied or pickled, because the copy would repeat it.
    """

    _cipher: Any  # None when its key was destroyed
    drawn = False

    def __init__(self, seed: int | None = None) -> None:
        check_seed(seed)
        self.seeded = seed is not None
        self._lock = threading.Lock()
        self.release: ReleaseKey | None = ReleaseKey(seed)
        self._start(os.urandom(KEY_BYTES) if seed is None else _key_of_seed(seed))
        _living.add(self)

    @classmethod
    def derived(cls, key: bytes, label: str) -> Keystream:
        """Return the stream of HMAC-SHA256(key, label): the same for the same key and label.

        The caller must see to it that no two streams of one label are used on different data.
        """
        stream = cls.__new__(cls)
        stream.seeded = False
        stream.release = None
        stream._lock = threading.Lock()
        stream._start(_mac(key, label.encode())[:KEY_BYTES])
        _living.add(stream)
        return stream

    def of_unit(self, unit: str, purpose: str) -> Keystream:
        """Return the stream of one unit of work of this release, such as ("3", "rows")."""
        return type(self).derived(self.unit_key(unit, purpose), STREAM)

    def unit_key(self, unit: str, purpose: str) -> bytes:
        """Return the key of a unit of work: see `ReleaseKey.of_unit`."""
        if self.release is None:
            raise TypeError("a derived keystream has no release key")
        self.drawn = True
        return self.release.of_unit(unit, purpose)

    def destroy(self) -> None:
        """Forget all keys: nothing can be drawn or derived any more."""
        with self._lock:
            self._cipher = None
        if self.release is not None:
            self.release.destroy()

    def _start(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def _after_fork(self) -> None:
        """Replace, in the child, the lock (another thread of the parent may hold it) and
        the keys.
        """
        self._lock = threading.Lock()
        if self.release is None:
            self._cipher = None
        elif not self.seeded:
            self.release = ReleaseKey()
            self._start(os.urandom(KEY_BYTES))

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite the contiguous array `out` with the next bytes of the stream."""
        with self._lock:
            if self._cipher is None:
                raise TypeError("the key of this keystream was destroyed")
            self.drawn = True
            view = out.data.cast("B") if out.size else memoryview(b"")
            for begin in range(0, len(view), len(_ZEROS)):
                part = view[begin : begin + len(_ZEROS)]
                # The cipher itself counts: bytes that it gave before Ctrl-C never come again.
                self._cipher.update_into(_ZEROS[: len(part)], part)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of 64 bits in a new array."""
        out = np.empty(count, np.uint64)
        self.fill(out)
        return out

    def halves(self, count: int) -> NDArray[np.uint16]:
        """Return the next `count` numbers of 16 bits in a new array."""
        out = np.empty(count, np.uint16)
        self.fill(out)
        return out

    def bits(self, count: int) -> int:
        """Return the next integer of `count` bits."""
        size = -(-count // 8)
        out = np.empty(size, np.uint8)
        self.fill(out)
        return int.from_bytes(out.tobytes(), "little") >> (8 * size - count)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Keystream cannot be copied or pickled: the copy would repeat it.")


class ReleaseKey:
    """The secret key of one release, from which the keys of its units of work are derived.

    It exists in the memory of the process that publishes, from the charge of the ledger to the
    commit of the release, and is never written anywhere. `seed` is that of `Keystream`.
    """

    def __init__(self, seed: int | None = None) -> None:
        fixed = None if seed is None else hashlib.sha256(b"scumble release key %d" % seed).digest()
        self._key: bytearray | None = bytearray(os.urandom(32) if fixed is None else fixed)
        self._id = secrets.token_hex(16) if seed is None else f"seed {seed}"

    def of_unit(self, unit: str, purpose: str) -> bytes:
        """Return HMAC-SHA256(release key, release id | unit id | purpose), 32 bytes."""
        if self._key is None:
            raise TypeError("the release key was destroyed")
        parts = [part.encode() for part in (self._id, unit, purpose)]
        # With their lengths, so that no two lists of parts are the same message.
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return _mac(bytes(self._key), message)

    def destroy(self) -> None:
        """Overwrite the key."""
        if self._key is not None:
            self._key[:] = bytes(len(self._key))
            self._key = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("A release key cannot be copied or pickled.")


STREAM = "stream"  # the label of the keystream of a unit key
FINGERPRINT = "fingerprint"  # ... of the key under which the codes of a unit are fingerprinted


def check_seed(seed: object) -> None:
    """Raise ParameterError if `seed` is not a whole number of at least 0, or None."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        allowed = "a whole number of at least 0, or None"
        raise ParameterError.of("Keystream", "seed", allowed, seed)


def _key_of_seed(seed: int) -> bytes:
    return hashlib.sha256(b"scumble seed %d" % seed).digest()[:KEY_BYTES]


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


_living: weakref.WeakSet[Keystream] = weakref.WeakSet()


def _rekey_after_fork() -> None:
    for keystream in list(_living):
        keystream._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_after_fork)

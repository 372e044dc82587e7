"""The source of all randomness: an AES-CTR keystream whose key the operating system chooses.

The keystream is the AES-128 encryption of a counter, so that no block ever repeats under one key;
128 bits of key rather than 256 because that is a sixth faster and still out of reach of any search.
"""

from __future__ import annotations

import hashlib
import os
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
    """A stream of independent uniform bits.

    Without `seed` the key comes from the operating system. With `seed` the stream is the same every
    time, which is for tests only; `seeded` is then True. Threads may share a keystream. A forked
    child continues with a new key (a seeded one repeats its stream). A keystream cannot be copied
    or pickled, because the copy would repeat it.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            allowed = "a whole number of at least 0, or None"
            raise ParameterError.of("Keystream", "seed", allowed, seed)
        self.seeded = seed is not None
        self._lock = threading.Lock()
        self._start(os.urandom(KEY_BYTES) if seed is None else _key_of_seed(seed))
        _living.add(self)

    def _start(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def _after_fork(self) -> None:
        """Replace, in the child, the lock (another thread of the parent may hold it) and
        the key.
        """
        self._lock = threading.Lock()
        if not self.seeded:
            self._start(os.urandom(KEY_BYTES))

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite the contiguous array `out` with the next bytes of the stream."""
        view = out.reshape(-1).view(np.uint8).data
        with self._lock:
            for begin in range(0, len(view), len(_ZEROS)):
                part = view[begin : begin + len(_ZEROS)]
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


def _key_of_seed(seed: int) -> bytes:
    return hashlib.sha256(b"scumble seed %d" % seed).digest()[:KEY_BYTES]


_living: weakref.WeakSet[Keystream] = weakref.WeakSet()


def _rekey_after_fork() -> None:
    for keystream in list(_living):
        keystream._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_after_fork)

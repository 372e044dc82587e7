"""The source: repeats only when told to, whatever forks, threads or copies do."""

from __future__ import annotations

import copy
import hashlib
import hmac
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from scumble.model.errors import ParameterError
from scumble.private.sampling import source
from scumble.private.sampling.source import Keystream, _key_of_seed
from tests.support.goodness import rejects


def test_a_seed_repeats_and_says_so() -> None:
    assert (Keystream(7).words(100) == Keystream(7).words(100)).all()
    assert (Keystream(7).words(100) != Keystream(8).words(100)).any()
    assert Keystream(7).seeded
    assert not Keystream().seeded


def test_without_a_seed_two_sources_differ() -> None:
    assert (Keystream().words(4) != Keystream().words(4)).all()


def test_the_stream_is_aes_in_counter_mode_however_it_is_cut() -> None:
    cipher = Cipher(algorithms.AES(_key_of_seed(1)), modes.CTR(bytes(16))).encryptor()
    expected = cipher.update(bytes(3_000_000))
    source = Keystream(1)
    sizes = [1, 7, 16, 100_000, 300_001, 3_000_000]
    drawn = b""
    for size in sizes:
        part = np.empty(min(size, 3_000_000 - len(drawn)), np.uint8)
        source.fill(part)
        drawn += part.tobytes()
    assert drawn == expected


def test_the_stream_is_aes_of_the_counters_from_0_on() -> None:
    """Counters are encrypted one by one here, also around the end of a call to the cipher."""
    aes = Cipher(algorithms.AES(_key_of_seed(1)), modes.ECB()).encryptor()
    stream = Keystream(1).words(300_000).tobytes()
    edge = len(source._ZEROS) // 16
    for counter in (0, 1, 2, 3, 255, 256, edge - 1, edge, edge + 1, 65535, 65536, 149_999):
        block = aes.update(counter.to_bytes(16, "big"))
        assert stream[16 * counter : 16 * counter + 16] == block


@pytest.mark.parametrize("drawn", [0, 3, 5, 40])
def test_no_bytes_come_twice_after_an_interruption(drawn: int) -> None:
    """Python hears Ctrl-C when a call returns: here, when bytes were just drawn."""

    class Interrupted:
        def __init__(self, cipher: Any) -> None:
            self._cipher = cipher

        def update_into(self, data: Any, out: Any) -> None:
            self._cipher.update_into(data, out)
            raise KeyboardInterrupt

    stream, whole = Keystream(1), Keystream(1).words(200)
    stream.words(drawn)
    cipher = stream._cipher
    stream._cipher = Interrupted(cipher)
    with pytest.raises(KeyboardInterrupt):
        stream.words(1)
    stream._cipher = cipher
    later = stream.words(100)
    assert len(np.unique(later)) == len(later)
    assert np.isin(later, whole).all()


def test_bits_are_whole_numbers_of_that_many_bits() -> None:
    source = Keystream(2)
    assert all(source.bits(3) < 8 for _ in range(100))
    assert {source.bits(1) for _ in range(100)} == {0, 1}
    assert source.bits(200).bit_length() > 150


def test_bytes_are_uniform() -> None:
    """False alarm 1e-6; sees every other byte 3 % too frequent."""
    part = np.empty(1 << 22, np.uint8)
    Keystream(3).fill(part)
    counts = np.bincount(part, minlength=256)
    assert not rejects(counts, [1 / 256] * 256)
    biased = counts.copy()
    biased[::2] = (biased[::2] * 1.03).astype(int)
    assert rejects(biased, [1 / 256] * 256)


FORK = """
import os
from scumble.private.sampling.source import Keystream
source, seeded = Keystream(), Keystream(1)
source.words(1), seeded.words(1)
read, write = os.pipe()
child = os.fork()
mine = source.words(4).tobytes() + seeded.words(4).tobytes()
if child == 0:
    os.write(write, mine)
    os._exit(0)
theirs = os.read(read, 64)
os.waitpid(child, 0)
print(mine[:32] == theirs[:32], mine[32:] == theirs[32:])
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system cannot fork")
def test_a_forked_child_does_not_repeat_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]  # only the seeded one repeats


def test_threads_share_one_stream_without_repeats() -> None:
    source = Keystream(5)
    parts: list[list[int]] = []

    def work() -> None:
        parts.append([word for _ in range(50) for word in source.words(64).tolist()])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = sorted(word for part in parts for word in part)
    assert together == sorted(Keystream(5).words(4 * 50 * 64).tolist())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_source_cannot_be_duplicated(duplicate: object) -> None:
    with pytest.raises(TypeError, match="would repeat"):
        duplicate(Keystream())  # type: ignore[operator]


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_seeds_are_whole_numbers(seed: object) -> None:
    with pytest.raises(ParameterError, match="The 'seed' parameter of Keystream must be"):
        Keystream(seed)  # type: ignore[arg-type]


def test_laws_need_neither_numba_nor_the_cipher() -> None:
    code = (
        "import sys, scumble.model.laws;"
        "assert not {'numba', 'scipy', 'cryptography'} & set(sys.modules);"
        "from scumble.private.sampling import counts, noise, randomized_response;"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_derived_streams_are_functions_of_key_and_label() -> None:
    """Against HMAC and AES written out here."""
    key = b"k" * 32
    mac = hmac.new(key, b"rows", "sha256").digest()[:16]
    expected = Cipher(algorithms.AES(mac), modes.CTR(bytes(16))).encryptor().update(bytes(800))
    assert Keystream.derived(key, "rows").words(100).tobytes() == expected
    assert Keystream.derived(key, "other").words(1) != Keystream.derived(key, "rows").words(1)
    assert Keystream.derived(bytes(32), "rows").words(1) != Keystream.derived(key, "rows").words(1)


def test_keys_of_units() -> None:
    def message(*parts: bytes) -> bytes:
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    release = hashlib.sha256(b"scumble release key 7").digest()
    expected = hmac.new(release, message(b"seed 7", b"3", b"rows"), "sha256").digest()
    assert Keystream(7).unit_key("3", "rows") == expected
    keys = {
        Keystream(7).unit_key(*names) for names in (("3", "rows"), ("3r", "ows"), ("", "3rows"))
    }
    assert len(keys | {Keystream(8).unit_key("3", "rows")}) == 4
    assert Keystream().unit_key("3", "rows") != Keystream().unit_key("3", "rows")
    source = Keystream()
    same = source.of_unit("3", "rows").words(4) == source.of_unit("3", "rows").words(4)
    assert same.all()


def test_a_destroyed_key_draws_nothing() -> None:
    source = Keystream(7)
    source.destroy()
    for use in (lambda: source.words(1), lambda: source.unit_key("0", "rows")):
        with pytest.raises(TypeError, match="destroyed"):
            use()
    with pytest.raises(TypeError, match="copied or pickled"):
        pickle.dumps(Keystream(7).release)

"""The noise room against numpy's generator, a plain copy, and the samplers of other libraries.

The peers live in an environment of their own (SCUMBLE_PEERS names its Python); a program there
times itself on request, so that both sides take turns. All figures are processor time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.measure import at_least, at_most, take_turns
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.randomized_response import keep_or_replace
from scumble.private.sampling.source import Keystream

ROWS = 10_000_000
PEER_ROWS = 100_000  # the peers take a microsecond or more a row; rows/s hardly depend on how many
DRAWS = 1_000_000
VALUES = 50
KEEP = Fraction(1, 2)
SCALE = Fraction(10)

# One line in, the processor seconds of one run out.
PEER = """
import json, sys, time
import numpy as np
try:
    exec(sys.argv[1])
except ImportError as error:
    print(json.dumps({"missing": str(error)}), flush=True)
    sys.exit()
work()
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    begin = time.process_time()
    work()
    print(json.dumps({"seconds": time.process_time() - begin}), flush=True)
"""
PURE_LDP = f"""
from pure_ldp.frequency_oracles.direct_encoding import DEClient
client = DEClient(1.0, {VALUES})
values = np.random.default_rng(0).integers(1, {VALUES + 1}, {PEER_ROWS}).tolist()
work = lambda: [client.privatise(value) for value in values]
"""
MULTI_FREQ_LDPY = f"""
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
values = np.random.default_rng(0).integers(0, {VALUES}, {PEER_ROWS}).tolist()
work = lambda: [GRR_Client(value, {VALUES}, 1.0) for value in values]
"""
OPENDP = f"""
import opendp.prelude as dp
dp.enable_features("contrib")
space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
laplace = dp.m.make_laplace(*space, scale={float(SCALE)})
values = [0] * {PEER_ROWS}
work = lambda: laplace(values)
"""


def run() -> list[dict[str, Any]]:
    codes = np.random.default_rng(0).integers(0, VALUES, ROWS).astype(np.uint8)
    source = Keystream()
    channel = "keep or replace, 50 values"
    return [
        keystream(source),
        copying(source, codes),
        against(f"{channel} / pure-ldp", PURE_LDP, ROWS, lambda: _channel(source, codes)),
        against(
            f"{channel} / multi-freq-ldpy", MULTI_FREQ_LDPY, ROWS, lambda: _channel(source, codes)
        ),
        against(
            "discrete Laplace / opendp vector Laplace",
            OPENDP,
            DRAWS,
            lambda: discrete_laplace(source, SCALE, DRAWS),
        ),
    ]


def keystream(source: Keystream) -> dict[str, Any]:
    """Bytes a second against the fastest way to fill an array that PCG64 offers: raw words."""
    words, times = 1 << 17, 64
    buffer = np.empty(words, np.uint64)
    generator = np.random.PCG64()
    timings = take_turns(
        {
            "PCG64": lambda _: _repeat(times, lambda: generator.random_raw(words)),
            "keystream": lambda _: _repeat(times, lambda: source.fill(buffer)),
        },
        repeats=11,
    )
    speed = {name: 8 * words * times / timing.cpu / 1e9 for name, timing in timings.items()}
    detail = f"{speed['keystream']:.2f} GB/s, PCG64.random_raw {speed['PCG64']:.2f} GB/s"
    ratio = speed["keystream"] / speed["PCG64"]
    return at_least("AES-CTR keystream / numpy PCG64", 2.5, ratio, detail)


def copying(source: Keystream, codes: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The channel on a column against a plain copy of it."""
    times = 10  # one copy takes less than a millisecond
    timings = take_turns(
        {
            "copy": lambda _: _repeat(times, codes.copy),
            "channel": lambda _: _repeat(times, lambda: _channel(source, codes)),
        },
        repeats=11,
    )
    ratio = timings["channel"].cpu / timings["copy"].cpu
    nanoseconds = timings["channel"].cpu / times / ROWS * 1e9
    detail = f"10 million uint8: {nanoseconds:.2f} ns a row, copy {nanoseconds / ratio:.3f} ns"
    return at_most("keep or replace, 50 values / plain copy", 15, ratio, detail)


def against(name: str, program: str, rows: int, ours: Callable[[], object]) -> dict[str, Any]:
    """Rows a second against a peer; a peer that is not there is a missed target that says so."""
    python = os.environ.get("SCUMBLE_PEERS", ".peers/bin/python")
    try:
        peer = subprocess.Popen(
            [python, "-c", PEER, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        return at_least(name, 100, float("nan"), "not measured: there is no environment of peers")
    with peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        first = json.loads(peer.stdout.readline() or '{"missing": "the peer failed"}')
        if "missing" in first:
            return at_least(name, 100, float("nan"), f"not measured: {first['missing']}")
        ours()
        mine, theirs = [], []
        for _ in range(7):
            begin = time.process_time()
            ours()
            mine.append((time.process_time() - begin) / rows)
            peer.stdin.write("again\n")
            peer.stdin.flush()
            theirs.append(json.loads(peer.stdout.readline())["seconds"] / PEER_ROWS)
        peer.stdin.close()
    us, them = statistics.median(mine), statistics.median(theirs)
    return at_least(name, 100, them / us, f"{us * 1e9:.2f} ns against {them * 1e9:.0f} ns each")


def _repeat(times: int, work: Callable[[], object]) -> None:
    """Each result is dropped at once, so that its memory serves the next one."""
    for _ in range(times):
        work()


def _channel(source: Keystream, codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return keep_or_replace(source, codes, VALUES, KEEP)

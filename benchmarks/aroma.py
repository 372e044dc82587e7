"""Aroma's bags against numpy's multinomial draws, the room that they take in the file, and the
standard error of counts against the least that the same bags allow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_least, at_most, take_turns
from benchmarks.people import folder
from scumble.families.aroma.publish.views import Pool, bytes_per_row
from scumble.model.evidence.channels import PoolLaw
from scumble.private.sampling.source import Keystream
from scumble.public.estimation.rows.posterior_law import PosteriorLaw, StagedInverse

ROWS = 10_000_000
STORED_ROWS = 1_000_000
BLOCK = 1_000_000  # rows that numpy draws at a time: all at once would take more than a gigabyte
K = 49
VALUES = 15
REPEATS = 3
READ_ROWS = 20_000
SKEWED = (0.82, 0.09, *(0.01,) * 9)


def run() -> list[dict[str, Any]]:
    return [drawing(), storing(), *(reading(k) for k in (5, 10, 20))]


def drawing() -> dict[str, Any]:
    """How often each of 15 values comes in 48 draws, for ten million rows, on one core."""
    source, pool = Keystream(), Pool((1,) * VALUES)
    generator, shares = np.random.default_rng(0), np.full(VALUES, 1 / VALUES)

    def numpy(_: int) -> None:
        for _ in range(ROWS // BLOCK):
            generator.multinomial(K - 1, shares, size=BLOCK)

    rivals = {"numpy": numpy, "pool": lambda _: pool.counts(source, K - 1, ROWS)}
    times = take_turns(rivals, repeats=REPEATS)
    ours, theirs = times["pool"], times["numpy"]
    return at_least(
        "bags of 49 from 15 values, 10M rows / numpy multinomial",
        20,
        theirs.cpu / ours.cpu,
        f"scumble {ours} ({ours.cpu / ROWS * 1e9:.0f} ns a row); numpy {theirs}; "
        f"wall ratio {theirs.wall / ours.wall:.1f}",
    )


def storing() -> dict[str, Any]:
    """Bytes a row that bags take, beside a column in which hardly two rows agree."""
    jobs = [f"job {number:02}" for number in range(VALUES)]
    schema = sc.Schema(
        [
            sc.Attribute("place", "quasi", sc.IntegerRange(0, 10 * STORED_ROWS)),
            sc.Attribute("job", "sensitive", sc.Category(tuple(jobs))),
        ]
    )
    generator = np.random.default_rng(1)
    places = generator.integers(0, 10 * STORED_ROWS, STORED_ROWS)
    codes = generator.integers(0, VALUES, STORED_ROWS).astype(np.int8)
    column = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(jobs))
    source = folder() / "jobs.parquet"
    pq.write_table(pa.table({"place": places, "job": column}), source)
    release = sc.publish(source, schema, sc.Aroma(k=K))
    [channel] = release.evidence.channels
    taken = bytes_per_row(release.folder / release.evidence.file, channel)
    packed = release.manifest.report["bits per row, packed"] / 8
    return at_most(
        "bags of 49 from 15 values: bytes a row / 8 bytes",
        1,
        taken / 8,
        f"{taken:.2f} bytes a row of 1M rows; side by side in bits they would take {packed:.2f}",
    )


def reading(k: int) -> dict[str, Any]:
    """The standard error of the count of each value against the information bound: the worst."""
    ratios = {name: _to_bound(k, np.array(shares)) for name, shares in _SHARES.items()}
    return at_most(
        f"aroma, k = {k}, {READ_ROWS:,} rows: standard error of a count / information bound",
        1.05,
        max(ratios.values()),
        "; ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()),
    )


_SHARES = {"82 % one value": SKEWED, "equal shares": (1 / 11,) * 11}


def _to_bound(k: int, shares: Any) -> float:
    jobs = [f"job {number:02}" for number in range(len(shares))]
    schema = sc.Schema([sc.Attribute("job", "sensitive", sc.Category(tuple(jobs)))])
    shares = shares / shares.sum()
    counts = np.round(shares * READ_ROWS).astype(int)
    people = pa.table({"job": np.repeat(jobs, counts)})
    answers = sc.publish(people, schema, sc.Aroma(k=k)).answer(
        "SELECT job, COUNT(*) FROM t GROUP BY job"
    )
    best = PosteriorLaw(PoolLaw((1,) * len(shares), k), shares)
    every = np.eye(len(shares))
    inverse = StagedInverse([best], np.zeros(len(shares), np.intp))
    bounds = np.sqrt(inverse.covariance(every, every) @ counts)
    return max(
        estimate.stderr / bound for (_, estimate), bound in zip(answers, bounds, strict=True)
    )

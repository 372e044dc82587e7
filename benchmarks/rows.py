"""Synthetic rows against peers at equal promises: distances from the truth, and CPU seconds.

Every peer lives in an environment of its own, `.peers-NAME` (`make rows-peers`). All get Adult and
NLTCS as whole numbers (the folder of SCUMBLE_DATA), their domains, δ = 10⁻⁹ and add/remove
neighbours, and draw as many rows as there are. A distance is the L1 distance of the shares of two
tables, from 0 to 2, in the mean over all pairs and over 400 triples of attributes. The k-marginal
score of the NIST contest is 1000 · (1 - distance / 2) over the triples.

A peer takes minutes to an hour. Its rows are kept in build/rows and read from there the next time.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most
from research.synthetic import DELTA, distances, real_table

TABLES = ("adult", "nltcs")
EPSILONS = (1.0, 0.1, 10.0)
PEERS = (
    ("mbi", "MST"),
    ("dpmm", "MST"),
    ("dpmm", "PrivBayes"),
    ("dpmm", "AIM"),
    ("dpmm", "AIM-small"),
    ("smartnoise", "mst"),
    ("smartnoise", "mst-sampled"),
    ("smartnoise", "aim"),
    ("smartnoise", "aim-small"),
)
SEEDS = 3  # of scumble; peers have one
LONGEST = 3600.0  # seconds that a peer may take
KEPT = Path("build/rows")
PROGRAM = Path(__file__).with_name("rows_peer.py")


@dataclass(frozen=True)
class Score:
    """How far rows are from the truth, and what they took; the mean over seeds."""

    two_way: float
    three_way: float
    seconds: float

    @property
    def nist(self) -> float:
        """The k-marginal score of the NIST contest, from 0 to 1000."""
        return 1000 * (1 - self.three_way / 2)

    def __str__(self) -> str:
        return (
            f"{self.two_way:.4f} and {self.three_way:.4f}, NIST {self.nist:.0f}, "
            f"{self.seconds:.3g} s CPU"
        )


def run() -> list[dict[str, Any]]:
    folder = Path(os.environ.get("SCUMBLE_DATA", "../shared/data"))
    results = []
    for name in TABLES:
        try:
            table, schema = real_table(name, folder)
        except FileNotFoundError:
            results.append(at_most(f"rows, {name}", 1, float("nan"), "not measured: no data"))
            continue
        for epsilon in EPSILONS:
            ours = _ours(table, schema, epsilon)
            for peer in PEERS:
                results.append(_against(name, table, schema, epsilon, ours, peer))
    return results


def _against(
    name: str,
    table: pa.Table,
    schema: sc.Schema,
    epsilon: float,
    ours: Score,
    peer: tuple[str, str],
) -> dict[str, Any]:
    """The three-way distance of our rows over that of a peer's."""
    title = f"three-way distance of rows, {name}, ε = {epsilon:g} / {' '.join(peer)}"
    theirs = _theirs(name, table, schema, epsilon, peer)
    if isinstance(theirs, str):
        return at_most(title, 1, float("nan"), f"{ours}; not measured: {theirs}")
    return at_most(title, 1, ours.three_way / theirs.three_way, f"{ours} / {theirs}")


def _ours(table: pa.Table, schema: sc.Schema, epsilon: float) -> Score:
    names = list(schema.names)
    mechanism = sc.Synthesis(names, epsilon=epsilon, delta=DELTA, neighbours="add_remove")
    found, seconds = [], []
    for seed in range(SEEDS):
        start = time.process_time()
        rows = sc.publish(
            table, schema, mechanism, options=sc.PublishOptions(seed=seed)
        ).synthetic.rows(seed=seed)
        seconds.append(time.process_time() - start)
        found.append(distances(table, rows, schema))
    two, three = (float(np.mean([each[ways] for each in found])) for ways in (2, 3))
    return Score(two, three, float(np.mean(seconds)))


def _theirs(
    name: str, table: pa.Table, schema: sc.Schema, epsilon: float, peer: tuple[str, str]
) -> Score | str:
    """The score of a peer, or why there is none."""
    library, method = peer
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"{name}-{epsilon:g}-{library}-{method}.npz"
    if not kept.exists():
        python = Path(f".peers-{library}/bin/python")
        if not python.exists():
            return "there is no environment of this peer"
        given = _given(table, schema, epsilon)
        if problem := _drawn(python, peer, given, kept):
            return problem
    with np.load(kept) as file:
        rows, seconds = _rows(file["rows"], schema), float(file["seconds"])
    found = distances(table, rows, schema)
    return Score(found[2], found[3], seconds)


def _drawn(python: Path, peer: Sequence[str], given: dict[str, Any], kept: Path) -> str:
    """Run a peer, which writes its rows; return what went wrong."""
    task, partial = kept.with_suffix(".in.npz"), kept.with_suffix(".partial.npz")
    np.savez(task, **given)
    words = [str(python), str(PROGRAM), *peer, str(task), str(partial)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f"it took more than {LONGEST:g} s"
    finally:
        task.unlink()
    if done.returncode:
        return f"it failed ({done.stderr.strip().splitlines()[-1:] or ['no message']})"
    partial.replace(kept)
    return ""


def _given(table: pa.Table, schema: sc.Schema, epsilon: float) -> dict[str, Any]:
    """What a peer is told."""
    names = list(schema.names)
    mechanism = sc.Synthesis(names, epsilon=epsilon, delta=DELTA, neighbours="add_remove")
    return {
        "codes": np.column_stack([table[name].to_numpy() for name in names]),
        "sizes": [schema[name].size for name in names],
        "epsilon": epsilon,
        "delta": DELTA,
        "rho": float(mechanism.promise.rho),
        "seed": 0,
    }


def _rows(codes: npt.NDArray[np.int64], schema: sc.Schema) -> pa.Table:
    return pa.table({name: codes[:, place] for place, name in enumerate(schema.names)})

"""Synthetic rows on public tables: how far their two-way and three-way tables are from the truth.

    python -m research synthetic --data FOLDER

The distance of two tables is the L1 distance of their shares, from 0 to 2, in the mean over all
sets of two or three attributes (of more than 400 sets, over 400 that a fixed seed draws). The score
of the NIST contest is 1000 · (1 - distance / 2) over sets of three.
"""

from __future__ import annotations

import csv
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.public.synthesis.row_fitting import keys_of

if TYPE_CHECKING:
    from rich.table import Table

Row = dict[str, Any]
Codes = list[npt.NDArray[np.int64]]

FILES = {
    "adult": "adult_coded_48842x14.csv.gz",
    "nltcs": "nltcs_21574x16.csv.gz",
    "census": "census_like_kdd_employed.csv.gz",
}
MOST_SETS = 400
DELTA = 1e-9
# Mean L1 of two-way and three-way tables at ε = 1: prototypes of the issue, and the published MST.
REFERENCE = {
    "adult": {"independent": (0.161, 0.351), "tree": (0.105, 0.227), "MST": (0.104, 0.227)},
    "nltcs": {"independent": (0.322, 0.506), "tree": (0.171, 0.272)},
}
SETTINGS: tuple[tuple[str, Row], ...] = (
    ("tree", {"extra": 0}),
    ("12 extra", {"extra": 12}),
    ("default", {}),
)


def real_table(name: str, folder: Path) -> tuple[pa.Table, sc.Schema]:
    """Return a table of whole numbers from 0 on, and its schema; texts are coded in order."""
    with gzip.open(folder / FILES[name], "rt", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    columns = [np.array(column) for column in zip(*lines, strict=True)]
    if name == "census":
        codes = [np.unique(column, return_inverse=True)[1] for column in columns]
    else:
        codes = [column.astype(np.int64) for column in columns]
    sizes = [int(column.max()) + 1 for column in codes]
    if name == "adult":
        domain = json.loads((folder / "adult_coded_domain.json").read_text("utf-8"))
        sizes = [domain[column] for column in header]
    attributes = (
        Attribute(column, "quasi", IntegerRange(0, size - 1))
        for column, size in zip(header, sizes, strict=True)
    )
    return pa.table(dict(zip(header, codes, strict=True))), sc.Schema(tuple(attributes))


def distances(
    truth: pa.Table, rows: pa.Table, schema: sc.Schema, ways: Sequence[int] = (2, 3)
) -> dict[int, float]:
    """Return the mean L1 distance of the tables of each number of attributes."""
    one, other = (_codes(table, schema) for table in (truth, rows))
    sizes = [each.size for each in schema]
    found = {}
    for number in ways:
        sets = list(combinations(range(len(sizes)), number))
        if len(sets) > MOST_SETS:
            chosen = np.random.default_rng(0).choice(len(sets), MOST_SETS, replace=False)
            sets = [sets[place] for place in chosen]
        found[number] = float(np.mean([_distance(one, other, each, sizes) for each in sets]))
    return found


def _distance(one: Codes, other: Codes, places: tuple[int, ...], sizes: Sequence[int]) -> float:
    shape = [sizes[place] for place in places]
    shares = []
    for columns in (one, other):
        keys = keys_of(columns, places, shape)
        shares.append(np.bincount(keys, minlength=int(np.prod(shape))) / max(len(keys), 1))
    return float(np.abs(shares[0] - shares[1]).sum())


def _codes(table: pa.Table, schema: sc.Schema) -> Codes:
    return [schema[name].encode(table[name])[0].astype(np.int64) for name in schema.names]


def study(
    folder: Path,
    step: Callable[[str], None],
    seeds: int,
    names: Sequence[str] = ("adult", "nltcs", "census"),
    epsilons: Sequence[float] = (0.1, 1, 3, 10),
) -> Iterator[Row]:
    """Yield the mean distances of each table, ε and setting, and the CPU seconds of a release with
    its rows.
    """
    for name in names:
        if not (folder / FILES[name]).exists():
            continue
        table, schema = real_table(name, folder)
        for epsilon in epsilons:
            for setting, given in SETTINGS:
                if setting != "default" and epsilon != 1:
                    continue
                step(f"{name}, ε = {epsilon:g}, {setting}")
                yield _measured(name, table, schema, epsilon, setting, given, seeds)


def _measured(
    name: str,
    table: pa.Table,
    schema: sc.Schema,
    epsilon: float,
    setting: str,
    given: Row,
    seeds: int,
) -> Row:
    method = sc.Synthesis(
        list(schema.names), epsilon=epsilon, delta=DELTA, neighbours="add_remove", **given
    )
    found, seconds = [], []
    for seed in range(seeds):
        start = time.process_time()
        rows = sc.publish(
            table, schema, method, options=sc.PublishOptions(seed=seed)
        ).synthetic.rows(seed=seed)
        seconds.append(time.process_time() - start)
        found.append(distances(table, rows, schema))
    two, three = (np.array([each[ways] for each in found]) for ways in (2, 3))
    return {
        "table": name,
        "epsilon": epsilon,
        "setting": setting,
        "two-way": float(two.mean()),
        "three-way": float(three.mean()),
        "spread": float(two.std(ddof=1)) if seeds > 1 else 0.0,
        "nist score": float(1000 * (1 - three.mean() / 2)),
        "cpu seconds": float(np.mean(seconds)),
        "seeds": seeds,
    }


def as_table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    table = Table(title=f"Synthetic rows: mean L1 distances, δ = {DELTA:g}")
    for name in ("table", "ε", "setting", "two-way", "three-way", "NIST", "CPU s"):
        table.add_column(name, justify="left" if name in ("table", "setting") else "right")
    for row in rows:
        table.add_row(
            row["table"],
            f"{row['epsilon']:g}",
            row["setting"],
            f"{row['two-way']:.4f} ± {row['spread']:.4f}",
            f"{row['three-way']:.4f}",
            f"{row['nist score']:.0f}",
            f"{row['cpu seconds']:.2f}",
        )
    return table

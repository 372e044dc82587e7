"""Generalisation of Adult: quality, time, and the error of counts, for k, l and t.

    python -m research generalise --data FOLDER

FOLDER holds `adult_train_complete_30162.csv`. Eight quasi-identifiers, the sensitive occupation,
and hierarchies of the shape of those that come with ARX (`adult.toml`). The questions are 500
counts by two quasi-identifiers and one occupation that at least 0.5 % of the rows satisfy. Seconds
are CPU seconds of `publish` on a table in memory, files written. A table of 10^6 rows is drawn from
the 30,162 with replacement, so that its rows repeat and k = 5 alone is easy.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

import scumble as sc
from scumble.model.errors import SourceError
from scumble.public.estimate import Estimate

FILE = "adult_train_complete_30162.csv"
SCHEMA = Path(__file__).with_name("adult.toml")
QUESTIONS = 500
LEAST = 0.005
SEED = 20
SETTINGS: dict[str, dict[str, Any]] = {
    "k = 5, global": {"k": 5, "recoding": "global", "suppress": 0.02},
    "k = 5, l = 3, global": {"k": 5, "l": 3, "recoding": "global", "suppress": 0.02},
    "k = 5, t = 0.5, global": {"k": 5, "t": 0.5, "recoding": "global", "suppress": 0.02},
    "k = 5, t = 0.2, global": {"k": 5, "t": 0.2, "recoding": "global", "suppress": 0.02},
    "k = 5, local": {"k": 5},
    "k = 5, l = 3, local": {"k": 5, "l": 3},
    "k = 5, t = 0.5, local": {"k": 5, "t": 0.5},
    "k = 5, t = 0.2, local": {"k": 5, "t": 0.2},
    "k = 20, local": {"k": 20},
}
PEER = """
import json, sys
import pandas as pd
from pycanon import anonymity
table = pd.read_csv(sys.argv[1], dtype=str, keep_default_na=False)
quasi, secret = json.loads(sys.argv[2]), [sys.argv[3]]
print(json.dumps({
    "k": int(anonymity.k_anonymity(table, quasi)),
    "l": int(anonymity.l_diversity(table, quasi, secret)),
    "t": float(anonymity.t_closeness(table, quasi, secret)),
}))
"""


def study(folder: Path, *, large: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a line for each setting; `large` also publishes 10^6 rows."""
    schema, table = sc.Schema.load(SCHEMA), adult(folder)
    asked, truth = questions(schema, table)
    many = (
        table.take(np.random.default_rng(0).integers(0, table.num_rows, 10**6)) if large else None
    )
    for name, given in SETTINGS.items():
        mechanism = sc.Generalise(**given)
        seconds, release = timed(table, schema, mechanism)
        line: dict[str, Any] = {"setting": name, "seconds": seconds}
        if many is not None:
            line["seconds, 10^6 rows"], _ = timed(many, schema, mechanism)
        rows = release.generalised
        line |= {"quality": rows.quality, "groups": len(rows.sizes)}
        line |= {"left out": rows.evidence.left_out, **errors(release, asked, truth)}
        yield line | checked(release)


def adult(folder: Path) -> pa.Table:
    """Return the table of Adult."""
    if not (folder / FILE).exists():
        raise SourceError(f"There is no file {FILE} in {folder}.")
    return csv.read_csv(folder / FILE)


def timed(table: pa.Table, schema: sc.Schema, mechanism: sc.Generalise) -> tuple[float, sc.Release]:
    """Publish a table; return CPU seconds, reading and writing included."""
    begin = time.process_time()
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    return time.process_time() - begin, release


def questions(schema: sc.Schema, table: pa.Table) -> tuple[list[str], np.ndarray]:
    """Return counts by two quasi-identifiers and an occupation, and their true answers."""
    rng = np.random.default_rng(SEED)
    names = [attribute.name for attribute in schema.quasi]
    columns = {name: table[name].to_numpy() for name in [*names, "occupation"]}
    values = {name: np.unique(column.astype(str)) for name, column in columns.items()}
    found: dict[str, int] = {}
    while len(found) < QUESTIONS:
        chosen = [str(name) for name in rng.choice(names, 2, replace=False)]
        met = np.ones(table.num_rows, bool)
        conditions = []
        for name in (*chosen, "occupation"):
            condition, mask = _condition(name, columns[name], values[name], rng)
            conditions.append(condition)
            met &= mask
        if met.sum() >= LEAST * table.num_rows:
            found[f"SELECT COUNT(*) FROM t WHERE {' AND '.join(conditions)}"] = int(met.sum())
    return list(found), np.array(list(found.values()))


def _condition(
    name: str, column: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> tuple[str, np.ndarray]:
    if name == "age":
        width = int(rng.integers(5, 31))
        low = int(rng.integers(17, 90 - width))
        return f"age BETWEEN {low} AND {low + width}", (column >= low) & (column <= low + width)
    value = str(rng.choice(values))
    return f"\"{name}\" = '{value}'", column == value


def errors(release: sc.Release, asked: list[str], truth: np.ndarray) -> dict[str, float]:
    """Return the median relative error, the share of bounds that hold, and their median width."""
    answers = [each for each in release.answer_many(asked) if isinstance(each, Estimate)]
    values = np.array([each.value for each in answers])
    limits = np.array([each.interval() for each in answers])
    holds = (limits[:, 0] <= truth) & (truth <= limits[:, 1])
    return {
        "median error": float(np.median(np.abs(values - truth) / truth)),
        "bounds hold": float(holds.mean()),
        "median half-width": float(np.median((limits[:, 1] - limits[:, 0]) / 2 / truth)),
    }


def checked(release: sc.Release) -> dict[str, Any]:
    """Return k, l and t as pycanon finds them in the exported table; empty without pycanon."""
    python = os.environ.get("SCUMBLE_PEERS", ".peers/bin/python")
    quasi = json.dumps([attribute.name for attribute in release.schema.quasi])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "view.csv"
        csv.write_csv(release.generalised.labelled(), path)
        try:
            done = subprocess.run(
                [python, "-c", PEER, str(path), quasi, "occupation"],
                capture_output=True,
                text=True,
                check=True,
            )
        except (FileNotFoundError, subprocess.CalledProcessError):
            return {}
    return {f"pycanon {name}": value for name, value in json.loads(done.stdout).items()}

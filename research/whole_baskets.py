"""Whole baskets of few items: DiffPart and Sparse on the pages of one public file.

    python -m research.whole_baskets FOLDER [SEEDS]

FOLDER holds `msnbc_spmf_31790.csv.gz`: 31,790 visits, as sets of 17 pages. A question is the number
of visits with all of 1 to 5 pages, drawn at random; the error is the mean of
|estimate - truth| / max(truth, 0.1 % of the visits) over 317 of them. Prints its mean over
releases, its standard error, how many baskets were published, and CPU seconds. Then it says
what DiffPart publishes of `fimi_retail.csv.gz` and `fimi_mushroom.csv`, if they are there.
"""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from research.baskets import read
from scumble.model.schema.lists import DerivedName, ListDomain

PAGES, QUESTIONS, BOUND = 17, 317, 0.001
METHODS: dict[str, dict[str, Any] | None] = {
    "diffpart": {},
    "diffpart, false_parts=2": {"false_parts": 2},
    "diffpart, fanout=5, false_parts=2": {"fanout": 5, "false_parts": 2},
    "sparse": None,
}


def visits(folder: Path) -> list[list[int]]:
    """The pages of every visit, as a set."""
    with gzip.open(folder / "msnbc_spmf_31790.csv.gz", "rt") as file:
        next(file)
        return [sorted({int(page) for page in line.split(",")[1].split()}) for line in file]


def schema_of(items: range) -> sc.Schema:
    domain = ListDomain("set", sc.IntegerRange(items.start, items.stop - 1))
    return sc.Schema((sc.Attribute("items", "sensitive", domain),))


def published(release: sc.Release) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Which pages each published basket has, and the number that it stands for."""
    file = pq.read_table(release.folder / release.evidence.files[0])
    columns: list[str] = list(release.evidence.columns)
    has = np.zeros((file.num_rows, PAGES + 1), bool)
    read_names: list[Any] = [DerivedName.read(name) for name in columns]
    places = [int(each.argument) for each in read_names]
    if "items" in file.column_names:
        for row, items in enumerate(file["items"].to_pylist()):
            has[row, [places[item] for item in items]] = True
        return has, file["count"].to_numpy()
    for name, place in zip(columns, places, strict=True):
        has[:, place] = file[name].to_numpy(zero_copy_only=False) > 0
    return has, file["weight"].to_numpy()


def main(folder: Path, seeds: int) -> None:
    """Print a line for each method and ε."""
    baskets = visits(folder)
    has = np.zeros((len(baskets), PAGES + 1), bool)
    for row, items in enumerate(baskets):
        has[row, items] = True
    draw = np.random.default_rng(0)
    sets = [1 + draw.choice(PAGES, draw.integers(1, 6), replace=False) for _ in range(QUESTIONS)]
    truth = np.array([has[:, each].all(axis=1).sum() for each in sets])
    schema, table = schema_of(range(1, PAGES + 1)), pa.table({"items": baskets})
    every = [str(DerivedName("contains", "items", page)) for page in range(1, PAGES + 1)]
    for name, given in METHODS.items():
        for epsilon in (0.5, 1):
            promise: dict[str, Any] = {"epsilon": epsilon, "neighbours": "add_remove"}
            mechanism: Any = (
                sc.Sparse(every, **promise)
                if given is None
                else sc.DiffPart("items", **promise, **given)
            )
            begun, errors, sizes = time.process_time(), [], []
            for seed in range(seeds):
                there, counts = published(
                    sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed))
                )
                found = np.array([counts[there[:, each].all(axis=1)].sum() for each in sets])
                off = np.abs(found - truth) / np.maximum(truth, BOUND * len(baskets))
                errors.append(off.mean())
                sizes.append(len(counts))
            cpu = (time.process_time() - begun) / seeds
            spread = np.std(errors, ddof=1) / seeds**0.5
            line = f"{name:34} ε = {epsilon:<4} {np.mean(errors):.3f} ± {spread:.3f}"
            sys.stdout.write(f"{line}  {np.mean(sizes):6.0f} baskets  {cpu:.2f} s\n")
            sys.stdout.flush()
    _large(folder)


def _large(folder: Path) -> None:
    """Print how many baskets are published of files with many items, or no equal baskets."""
    for name in ("fimi_retail.csv.gz", "fimi_mushroom.csv"):
        if (folder / name).exists():
            baskets = [[int(item) for item in each.split()] for each in read(folder / name)]
            codes = [item for each in baskets for item in each]
            schema = schema_of(range(min(codes), max(codes) + 1))
            mechanism = sc.DiffPart("items", epsilon=1, neighbours="add_remove")
            release = sc.publish(
                pa.table({"items": baskets}), schema, mechanism, options=sc.PublishOptions(seed=0)
            )
            rows = pq.read_metadata(release.folder / release.evidence.files[0]).num_rows
            sys.stdout.write(f"{name:34} ε = 1    {rows - 1} baskets with items\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)

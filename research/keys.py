"""Keys named in a file of baskets: rules side by side, at equal promises.

    python -m research.keys FOLDER [SEEDS]

FOLDER holds `fimi_retail.csv.gz` (88,162 baskets of 16,470 items; a basket is a person, an item a
key). Prints, for κ keys of a person at ε = 1 and δ = 10⁻⁶, the mean number of keys named, its
standard error and CPU seconds. "laplace" is `zealous` where a person is added or removed.
"""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc

KEYS = (1, 3, 10, 30)
METHODS: dict[str, dict[str, object]] = {
    "auto, names": {"counts": False},
    "auto, counts": {},
    "optimal": {"rule": "optimal"},
    "gaussian, names": {"rule": "gaussian", "counts": False},
    "laplace": {"rule": "zealous"},
    "zealous": {"rule": "zealous", "neighbours": "replace"},
}
SCHEMA = sc.Schema.loads(
    """
[attributes.basket]
role = "identifier"
[attributes.item]
role = "sensitive"
type = "category"
open = true
"""
)


def baskets(folder: Path) -> pa.Table:
    """One row for each item of each basket."""
    with gzip.open(folder / "fimi_retail.csv.gz", "rt") as file:
        next(file)
        rows = [line.strip().split(",") for line in file]
    items = [text.split() for _, text in rows]
    owners = np.repeat(np.arange(len(items)), [len(each) for each in items])
    return pa.table({"basket": owners, "item": [item for each in items for item in each]})


def named(table: pa.Table, keys: int, seed: int, **given: object) -> int:
    """Return how many keys a release names."""
    promise = {"epsilon": 1, "delta": 1e-6, "neighbours": "add_remove", "person": "basket"}
    mechanism = sc.Keys("item", keys=keys, **{**promise, **given})  # type: ignore[arg-type]
    release = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=seed))
    return int(pq.read_metadata(release.folder / "keys.parquet").num_rows)


def main(folder: Path, seeds: int) -> None:
    """Print a line for each number of keys and each method."""
    table = baskets(folder)
    for keys in KEYS:
        for method, given in METHODS.items():
            begun = time.process_time()
            found = [named(table, keys, seed, **given) for seed in range(seeds)]
            cpu = (time.process_time() - begun) / seeds
            error = np.std(found) / max(seeds - 1, 1) ** 0.5
            line = f"{keys:3} {method:16} {np.mean(found):8.1f} ± {error:.1f}  {cpu:.2f} s"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)

"""All two-way and three-way marginals of two real tables, beside what is known of other systems."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from research.marginals import trial
from scumble.model.errors import SourceError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import create

Row = dict[str, Any]
Step = Callable[[str], None]

ADULT, DOMAIN, NLTCS = (
    "adult_coded_48842x14.csv.gz", "adult_coded_domain.json", "nltcs_21574x16.csv.gz",
)  # fmt: skip
REFERENCE = {  # on Adult with ε = 1, δ = 1e-9; by ways
    "all cells alike": {2: 1.534, 3: 1.765},
    "independent attributes": {2: 0.160, 3: 0.350},
    "MST, as published, 197 s": {2: 0.104, 3: 0.227},
    "MST on a tree, in numpy, 0.17 s": {2: 0.108, 3: 0.235},
}


def tables(folder: Path) -> dict[str, tuple[pa.Table, Schema]]:
    """Adult and NLTCS as codes."""
    from pyarrow import csv

    for file in (ADULT, DOMAIN, NLTCS):
        if not (folder / file).is_file():
            raise SourceError(f"There is no file {file} in {folder}: say --data FOLDER.")
    sizes = json.loads((folder / DOMAIN).read_text("utf-8"))
    adult, nltcs = csv.read_csv(folder / ADULT), csv.read_csv(folder / NLTCS)
    return {
        "adult": (adult, _schema(sizes)),
        "nltcs": (nltcs, _schema(dict.fromkeys(nltcs.column_names, 2))),
    }


def _schema(sizes: dict[str, int]) -> Schema:
    kinds = {name: IntegerRange(0, size - 1) for name, size in sizes.items()}
    return Schema(tuple(Attribute(name, "quasi", kind) for name, kind in kinds.items()))


def marginal_benchmark(folder: Path, step: Step, seed: int = 1) -> Iterator[Row]:
    """One row for each table, method and size of marginals: the error of the unbiased estimates, of
    the non-negative tables fitted to them, and the seconds to publish and to fit.
    """
    for dataset, (table, schema) in tables(folder).items():
        for ways in (2, 3):
            step(f"{dataset}, all {ways}-way marginals")
            given: dict[str, Any] = {"attributes": list(schema.names), "ways": ways, "epsilon": 1}
            given["neighbours"] = "add_remove"
            methods = {"marginals": create("marginals", delta=1e-9, **given)}
            if dataset == "nltcs":
                methods["fourier"] = create("fourier", **given)
            for name, mechanism in methods.items():
                found = trial(table, schema, mechanism, ways=[ways], seed=seed)
                [errors] = found.errors
                yield {
                    "dataset": dataset,
                    "method": name,
                    "ways": ways,
                    "least squares": errors.plain,
                    "non-negative": errors.fitted,
                    "seconds": found.seconds + errors.seconds,
                }

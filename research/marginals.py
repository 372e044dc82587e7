"""The marginals benchmark: mean L1 distances between released and true marginals, as shares, on all
two-way and three-way marginals of two real tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from research.study import Row, Step
from scumble.model.errors import QueryError, SourceError
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, create
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows
from scumble.public.release import Release

if TYPE_CHECKING:
    from rich.table import Table

Tables = dict[tuple[str, ...], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class MarginalErrors:
    """Means of Σ |estimated share - true share| over all sets of `ways` attributes, from 0 to 2.

    `plain` is the error of the unbiased estimates (None if the release does not have them for every
    set), `fitted` that of the non-negative tables; `seconds` is the time to fit them.
    """

    ways: int
    sets: int
    plain: float | None
    fitted: float
    seconds: float


@dataclass(frozen=True)
class Trial:
    """A release, the seconds that it took to publish, and its errors for each number of ways."""

    release: Release
    seconds: float
    errors: tuple[MarginalErrors, ...]


def trial(
    source: Any,
    schema: Schema,
    mechanism: Mechanism,
    *,
    ways: Iterable[int] = (2, 3),
    seed: int | None = None,
) -> Trial:
    """Publish `source` and compare the released marginals with the exact ones."""
    begin = time.perf_counter()
    release = publish(source, schema, mechanism, options=PublishOptions(seed=seed))
    seconds = time.perf_counter() - begin
    errors = tuple(_errors(release, true_marginals(source, schema, each)) for each in ways)
    return Trial(release, seconds, errors)


def true_marginals(source: Any, schema: Schema, ways: int) -> Tables:
    """Return the exact counts of the marginals over all sets of `ways` attributes."""
    sets = list(combinations(schema.names, ways))
    counts = RowCounter(Rows(source, schema)).counts(sets, PrivacyUnit("replace"))
    return dict(zip(sets, counts, strict=True))


def _errors(release: Release, truths: Tables) -> MarginalErrors:
    begin = time.perf_counter()
    fitted = [_distance(release, names, truths[names], nonnegative=True) for names in truths]
    seconds = time.perf_counter() - begin
    ways = len(next(iter(truths)))
    return MarginalErrors(
        ways, len(truths), _plain(release, truths), float(np.mean(fitted)), seconds
    )


def _plain(release: Release, truths: Tables) -> float | None:
    try:
        found = [_distance(release, names, truths[names], nonnegative=False) for names in truths]
    except QueryError:  # a set was not measured
        return None
    return float(np.mean(found))


def _distance(
    release: Release, names: tuple[str, ...], truth: npt.NDArray[np.int64], *, nonnegative: bool
) -> float:
    estimated = release.marginals.marginal(names, nonnegative=nonnegative).columns[-1].to_numpy()
    shares = estimated / max(float(estimated.sum()), 1.0)
    return float(np.abs(shares - truth / max(int(truth.sum()), 1)).sum())


ADULT, DOMAIN, NLTCS = (
    "adult_coded_48842x14.csv.gz", "adult_coded_domain.json", "nltcs_21574x16.csv.gz",
)  # fmt: skip
REFERENCE = {  # errors of other systems on Adult with ε = 1, δ = 1e-9; by ways
    "all cells alike": {2: 1.534, 3: 1.765},
    "independent attributes": {2: 0.160, 3: 0.350},
    "MST, as published, 197 s": {2: 0.104, 3: 0.227},
    "MST on a tree, in numpy, 0.17 s": {2: 0.108, 3: 0.235},
}


def tables(folder: Path) -> dict[str, tuple[pa.Table, Schema]]:
    """Return Adult and NLTCS as codes, with their schemas."""
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
    return Schema(
        tuple(Attribute(n, "quasi", IntegerRange(0, size - 1)) for n, size in sizes.items())
    )


def marginal_benchmark(folder: Path, step: Step, seed: int = 1) -> Iterator[Row]:
    """Yield a row for each table, method and number of ways: the error of the unbiased estimates
    and of the non-negative tables, and the seconds to publish and to fit.
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


def as_table(rows: Iterable[Row]) -> Table:
    """Return the rows and the references as a table for the terminal."""
    from rich.table import Table

    table = Table(
        title="Mean L1 error of marginals, ε = 1 (δ = 1e-9; fourier 0)", title_justify="left"
    )
    for name in ("dataset", "method", "ways", "least squares", "non-negative", "seconds"):
        table.add_column(name, justify="left" if name in ("dataset", "method") else "right")
    for row in rows:
        plain = "" if row["least squares"] is None else f"{row['least squares']:.3g}"
        fitted, seconds = f"{row['non-negative']:.3g}", f"{row['seconds']:.2f}"
        table.add_row(row["dataset"], row["method"], str(row["ways"]), plain, fitted, seconds)
    for name, known in REFERENCE.items():
        for ways, error in known.items():
            table.add_row("adult", f"reference: {name}", str(ways), "", f"{error:.3g}", "")
    return table

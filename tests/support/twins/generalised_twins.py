"""Generalised rows that are broken on purpose: a group of k - 1, t violated, rows left out without
being stated; each beside the honest release of the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.audit.release_claims import claims
from scumble.audit.report import Finding
from scumble.families.generalise.check import owner_findings, risk_findings
from tests.support.twins.twins import Check, Twin

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 7)),
        sc.Attribute("sex", "quasi", sc.Category(["f", "m"])),
        sc.Attribute("ill", "sensitive", sc.Category(["x", "y", "z"])),
    ]
)
K = 3


def people(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    drawn = {a.name: np.minimum(rng.geometric(0.5, 60) - 1, a.size - 1) for a in SCHEMA}
    codes = {name: code.astype(SCHEMA[name].code_type) for name, code in drawn.items()}
    return pa.table({name: SCHEMA[name].decode(code) for name, code in codes.items()})


def _smaller_group(release: sc.Release) -> None:
    """Publish one row of the smallest group less."""
    rows = release.generalised
    gone = int(np.argmax(rows.group == int(np.argmin(rows.sizes))))
    table = pq.read_table(release.folder / "rows.parquet")
    pq.write_table(table.filter(pa.array(np.arange(table.num_rows) != gone)), _path(release))
    _stated(release, rows=release.evidence.rows - 1)


def _one_value(release: sc.Release) -> None:
    """Publish the same sensitive value for a whole group."""
    rows = release.generalised
    table = pq.read_table(_path(release))
    values = table["ill"].to_pylist()
    values = ["z" if g == rows.group[0] else v for g, v in zip(rows.group, values, strict=True)]
    place = table.column_names.index("ill")
    pq.write_table(table.set_column(place, "ill", pa.array(values)), _path(release))


def _silent(release: sc.Release) -> None:
    """Say that no row was left out."""
    _stated(release, left_out=0)


def _path(release: sc.Release) -> object:
    return release.folder / "rows.parquet"


def _stated(release: sc.Release, **changed: int) -> None:
    evidence = replace(release.evidence, **changed)
    release.manifest = replace(release.manifest, evidence=evidence)


def _check(mechanism: sc.Generalise, wrong: Callable[[sc.Release], None] | None) -> Check:
    def found(runs: int, seed: int) -> Iterable[Finding]:
        table = people(seed)
        release = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
        if wrong is not None:
            wrong(release)
        yield from claims(release)
        yield from risk_findings(release)
        yield from owner_findings(release, table)

    return found


def _twin(name: str, mechanism: sc.Generalise, wrong: Callable[[sc.Release], None]) -> Twin:
    return Twin(name, _check(mechanism, wrong), _check(mechanism, None), 1)


TWINS = [
    _twin("generalised rows with a group of k - 1", sc.Generalise(k=K), _smaller_group),
    _twin("generalised rows that violate t", sc.Generalise(k=K, t=0.5), _one_value),
    _twin("generalised rows that violate l", sc.Generalise(k=K, l=2), _one_value),
    _twin(
        "rows that are left out and not stated",
        sc.Generalise(k=K, recoding="global", suppress=0.2),
        _silent,
    ),
]

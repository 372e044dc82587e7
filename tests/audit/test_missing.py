"""Audits of releases whose columns, of every kind, have missing values."""

from datetime import date
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.linkage import rows_are_sorted
from scumble.audit.report import page
from scumble.audit.subjects import of_release, of_table

DOMAINS = {
    "text": sc.Category(("m", "f", "d")),
    "number": sc.IntegerRange(-2, 4),
    "day": sc.Dates(date(2024, 1, 30), date(2024, 2, 3)),
    "flag": sc.Boolean(),
    "bin": sc.Bins((0.0, 1.5, 10.0)),
}
VALUES = {
    "text": ["m", "f", None, "d"],
    "number": [-2, None, 0, 4],
    "day": [date(2024, 2, 3), date(2024, 1, 30), None, date(2024, 2, 1)],
    "flag": [True, None, False],
    "bin": [None, 0.2, 7.0],
}
PUBLISHERS = {
    "uniform": sc.Uniform(epsilon=1),
    "subset": sc.Subset(epsilon=1),
    "aroma": sc.Aroma(k=4),
    "anatomy": sc.Anatomy(l=2),
    "frapp": sc.Frapp(epsilon=3),
    "alphabeta": sc.AlphaBeta(d=0.2, gamma=0.5, duplicates="collapse"),
    "partition": sc.Partition(rho1=0.6, rho2=0.9),
}


def _made(sensitive: str, rows: int = 240) -> tuple[pa.Table, sc.Schema]:
    schema = sc.Schema(
        [
            sc.Attribute(
                name, "sensitive" if name == sensitive else "quasi", DOMAINS[name], missing=True
            )
            for name in ("text", "number", "day", "flag", "bin")
        ]
    )
    rng = np.random.default_rng(5)
    columns = {
        name: [values[place] for place in rng.integers(0, len(values), rows)]
        for name, values in VALUES.items()
    }
    return pa.table(columns), schema


def _pairs():
    """Every mechanism with every kind of column; a third of them, in which all occur, is quick."""
    for place, (name, sensitive) in enumerate(product(PUBLISHERS, DOMAINS)):
        marks = [pytest.mark.slow] if place % 3 else []
        yield pytest.param(name, sensitive, marks=marks, id=f"{name} {sensitive}")


@pytest.mark.parametrize(("name", "sensitive"), list(_pairs()))
def test_missing_values_of_every_kind(name, sensitive, tmp_path):
    table, schema = _made(sensitive)
    release = sc.publish(table, schema, PUBLISHERS[name], options=sc.PublishOptions(seed=3))
    assert rows_are_sorted(release)
    folder = release.save(tmp_path / "release", insecure=True)
    unchanged = getattr(release.evidence, "unchanged", None) or ()
    report = of_release(folder, [each for each in DOMAINS if each in unchanged], worst=200)
    assert [each.check for each in report.refuted] == ["randomness"]
    assert "None" not in page(report)
    assert "None" not in str(report).replace("None of", "")


def test_tables_with_missing_values(subtests):
    for sensitive in DOMAINS:
        with subtests.test(sensitive=sensitive):
            table, schema = _made(sensitive)
            assert len(of_table(table, schema, k=1, l=1).findings) == 3


def test_rows_in_another_order_are_found(tmp_path):
    """The order of the schema counts, in which m stands before f, and a missing value is last."""
    import pyarrow.parquet as pq

    table, schema = _made("number")
    release = sc.publish(table, schema, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=3))
    file = release.folder / release.evidence.file
    rows = pq.read_table(file)
    pq.write_table(rows.take(pa.array([*range(1, rows.num_rows), 0])), file)
    assert not rows_are_sorted(release)

"""Errors of live databases on public tables, as they were foreseen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

from research.live import TABLES, measure, read_schema
from scumble.families.axes.publish import Dyadic
from scumble.private.database.live.terms import base_of
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import Weights, WeightTensor

# Root mean square and median half-width of a release and of a live database; free answers.
FORESEEN = {
    ("kdd", 100): (61, 102, 46, 87, 12),
    ("census", 100): (37, 57, 33, 59, 2),
    ("adult", 100): (79, 138, 52, 97, 4),
    ("kdd", 500): (60, 101, 53, 95, 190),
    ("census", 500): (39, 67, 38, 67, 197),
    ("adult", 500): (80, 132, 65, 115, 141),
}


@pytest.mark.parametrize("table", ["kdd", "census", "adult"])
def test_errors_are_those_that_were_foreseen(shared_data: Path, table: str) -> None:
    """Within 3 %, half a unit of the last digit of the smallest figure included."""
    for found in measure(shared_data, table, (100, 500)):
        *errors, free = FORESEEN[table, found.questions]
        assert [*found.release, *found.live] == pytest.approx(errors, rel=0.03)
        assert found.free == pytest.approx(free, abs=4)


def test_average_ages_are_those_that_were_foreseen(shared_data: Path) -> None:
    """The average age by sex from the base alone: 0.020 and 0.021 years, to the last digit."""
    schema, rows = read_schema(shared_data, "kdd")
    whole = Dyadic(schema.names, epsilon=1, delta=1e-9, neighbours="replace")
    design = base_of(whole, 0.75, ()).design(schema)
    reader = ProductReader.of_numbers(design, schema, np.zeros(design.size), rows)
    table = pyarrow.csv.read_csv(shared_data / TABLES["kdd"][0])
    ages, sexes = np.array(table.column("age")), np.array(table.column("sex").to_pylist())
    for place, (sex, foreseen) in enumerate({"Female": 0.020, "Male": 0.021}.items()):
        own = ages[sexes == sex]
        away = np.array(schema["age"].domain.labels()) - own.mean()
        parts = (WeightTensor(("age",), away), WeightTensor(("sex",), np.eye(2)[place]))
        error = np.sqrt(reader.read(Weights(parts)).variance) / len(own)
        assert error == pytest.approx(foreseen, abs=0.0005)

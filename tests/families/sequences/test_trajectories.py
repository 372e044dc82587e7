"""Trajectories: trips against their definition, and parts against the mechanisms that they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.sequences.publish.trajectories import TripCounter, trip_schema
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows

SCHEMA = sc.Schema.loads(
    """
    unit = "row"
    [attributes.who]
    role = "identifier"
    [attributes.lon]
    role = "sensitive"
    type = "sequence"
    range = [0, 3]
    bins = 3
    [attributes.lat]
    role = "sensitive"
    type = "sequence"
    edges = [0, 1, 5]
    """
)
UNIT = PrivacyUnit("add_remove", 1, None)


def _walks(people: int, seed: int = 1) -> pa.Table:
    draw = np.random.default_rng(seed)
    sizes = draw.integers(0, 7, people)
    return pa.table(
        {
            "who": np.arange(people),
            "lon": [draw.uniform(0, 3, size).round(2).tolist() for size in sizes],
            "lat": [draw.uniform(0, 5, size).round(2).tolist() for size in sizes],
        }
    )


def _cells(lon: list[float], lat: list[float]) -> list[str]:
    """The cells of a trip by their definition."""
    names = [f"x{min(int(x), 2)}y{int(y >= 1)}" for x, y in zip(lon, lat, strict=True)]
    return [name for place, name in enumerate(names) if place == 0 or name != names[place - 1]]


def _trips(table: pa.Table) -> list[list[str]]:
    return [_cells(row["lon"], row["lat"]) for row in table.to_pylist()]


def _counter(table: object, outside: str = "error", unit: PrivacyUnit = UNIT) -> TripCounter:
    schema = trip_schema(SCHEMA, "lon", "lat", 8)
    return TripCounter(RowCounter(Rows(table, SCHEMA, outside=outside)), "lon", "lat", schema)


def _read(counter: TripCounter) -> list[list[str]]:
    labels = counter.schema["trip"].lists.members.labels().to_pylist()
    return [
        [labels[code] for code in lists.codes[begin:end]]
        for lists in counter.lists("trip", UNIT)
        for begin, end in zip(lists.offsets, lists.offsets[1:], strict=False)
    ]


def test_trips_are_those_of_the_definition() -> None:
    table = _walks(200)
    assert _read(_counter(table)) == _trips(table)


def test_long_rows_make_the_same_trips() -> None:
    table = _walks(60)
    rows = [
        {"trip id": row["who"], "time": time, "lon": x, "lat": y}
        for row in table.to_pylist()
        for time, (x, y) in enumerate(zip(row["lon"], row["lat"], strict=True))
    ]
    long = pa.Table.from_pylist(rows[::-1])
    mechanism = sc.Trajectories("lon", "lat", length=8, epsilon=100, neighbours="add_remove")
    points = SCHEMA.select(["lon", "lat"])
    release = sc.publish(
        sc.Table(long, basket="trip id", order="time"),
        points,
        mechanism,
        options=sc.PublishOptions(seed=1),
    )
    trips = [trip for trip in _trips(table) if trip]
    for length in range(1, 6):
        found = release.answer(f"SELECT COUNT(*) FROM t WHERE length(trip) = {length}")
        assert found.value == sum(len(trip) == length for trip in trips)
    pairs = sum(
        trip[place : place + 2] == ["x0y1", "x1y1"] and 1 / (len(trip) + 1)
        for trip in trips
        for place in range(len(trip))
    )
    found = release.answer("SELECT SUM(occurrences(trip, ['x0y1', 'x1y1'])) FROM t")
    assert found.value == pytest.approx(pairs, abs=0.15)


def test_every_part_is_the_mechanism_that_it_is_called(tmp_path) -> None:
    """Number by number with the same keystream: published from sequences of cells one after the
    other, from one account.
    """
    from scumble.model.privacy.accounting import BudgetAccount
    from scumble.private.meter.table import PrivateTable
    from scumble.private.sampling.source import Keystream

    table = _walks(500)
    mechanism = sc.Trajectories("lon", "lat", length=8, epsilon=1, neighbours="add_remove")
    release = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=5))
    cells = pa.table({"trip": _trips(table)}, pa.schema({"trip": pa.list_(pa.string())}))
    schema = trip_schema(SCHEMA, "lon", "lat", 8)
    given = {"neighbours": "add_remove"}
    parts = (
        sc.Sparse(["first(trip)", "last(trip)"], epsilon=0.5, **given),
        sc.Sequences("trip", length=8, epsilon=0.4, **given),
        sc.Histogram(["length(trip)"], epsilon=0.1, **given),
    )
    schema = schema.with_derived([name for part in parts for name in part.names])
    noise = Keystream(5)
    for part, file in zip(parts, release.evidence.files, strict=True):
        counter = RowCounter(Rows(cells, schema))
        evidence = part.measure(PrivateTable(counter, BudgetAccount(part.promise), noise), tmp_path)
        assert pq.read_table(tmp_path / evidence.file).equals(pq.read_table(release.folder / file))


WRONG = {
    "a point without y": ([0.5, 1.5], [0.5]),
    "missing values": ([0.5, None, 1.5], [0.5, 0.5, None]),
}


@pytest.mark.parametrize(("lon", "lat"), WRONG.values(), ids=WRONG)
def test_points_that_do_not_fit_together(lon: list, lat: list) -> None:
    good = _walks(3)
    bad = pa.table({"who": [9], "lon": [lon], "lat": [lat]})
    table = pa.concat_tables([good, bad.cast(good.schema)])
    with pytest.raises(sc.DomainError, match="not as many values of each of lon, lat") as error:
        _read(_counter(table))
    assert "1.5" not in str(error.value)
    assert _read(_counter(table, "drop")) == _trips(good)
    assert _read(_counter(table, "missing")) == [*_trips(good), []]


def test_points_outside_of_the_grid_are_never_a_reason_to_move_it() -> None:
    good = _walks(3)
    far = pa.table({"who": [9], "lon": [[0.5, 99.0]], "lat": [[0.5, 0.5]]})
    table = pa.concat_tables([good, far.cast(good.schema)])
    with pytest.raises(sc.DomainError, match="row 4"):
        _read(_counter(table))
    assert _read(_counter(table, "drop")) == _trips(good)
    assert _read(_counter(table, "missing")) == [*_trips(good), []]


def test_questions_go_to_the_part_that_knows() -> None:
    table = _walks(4000)
    mechanism = sc.Trajectories("lon", "lat", length=8, epsilon=50, neighbours="add_remove")
    release = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=2))
    trips = _trips(table)
    pair = sum(1 for trip in trips if trip and (trip[0], trip[-1]) == ("x0y1", "x1y1"))
    asked = {
        "SELECT COUNT(*) FROM t WHERE first(trip) = 'x0y1' AND last(trip) = 'x1y1'": pair,
        "SELECT AVG(length(trip)) FROM t": np.mean([len(trip) for trip in trips]),
        "SELECT SUM(occurrences(trip, ['x0y1', 'x1y1'])) FROM t": sum(
            trip[i : i + 2] == ["x0y1", "x1y1"] and 1 / (len(trip) + 1)
            for trip in trips
            for i in range(len(trip))
        ),
    }
    for question, truth in asked.items():
        assert release.answer(question).value == pytest.approx(truth, rel=0.02), question
    together = release.answer_many(list(asked))
    assert [each.value for each in together] == [release.answer(q).value for q in asked]
    assert release.sequences.next(["x0y1"]).num_rows == 7
    assert len(list(release.sequences.top(3))) == 3
    with pytest.raises(sc.QueryError, match=r"No part of this release has first\(trip\), length"):
        release.answer("SELECT COUNT(*) FROM t WHERE first(trip) = 'x0y1' AND length(trip) = 2")


def test_other_columns_are_refused(subtests: pytest.Subtests) -> None:
    for text, sentence in [
        ('type = "sequence"\nvalues = ["a"]', "sequences of numbers in bins"),
        ('type = "set"\nrange = [0, 3]', "sequences of numbers in bins"),
        ('type = "integer"\nrange = [0, 3]', "of the type set or sequence"),
        ('type = "sequence"\nrange = [0, 30000]', "cells; 2 to 5000 are possible"),
    ]:
        with subtests.test(text=text, sentence=sentence):
            schema = sc.Schema.loads(
                f'[attributes.lon]\nrole = "sensitive"\n{text}\n' + SCHEMA.dumps()[-1:]
            )
            schema = sc.Schema((*schema, SCHEMA["lat"]))
            mechanism = sc.Trajectories("lon", "lat", length=8, epsilon=1, neighbours="add_remove")
            with pytest.raises(sc.SchemaError, match=sentence):
                mechanism.check(schema)


def test_bins_of_lists_in_a_schema() -> None:
    assert SCHEMA["lon"].lists.members == sc.Bins((0, 1, 2, 3))
    assert sc.Schema.loads(SCHEMA.dumps()) == SCHEMA
    for more, sentence in {
        "bins = 3": "give 'range' with 'bins'",
        "range = [0, 1]\nbins = 0": "'bins' must be a whole number from 1 to 10000",
        "range = [1, 0]\nbins = 2": "edges must increase",
        "edges = [0, 1]\nrange = [0, 1]": "give either 'edges' or 'range'",
        "edges = [0, 1]\nbins = 2": "give either 'edges' or 'bins'",
    }.items():
        with pytest.raises(sc.SchemaError, match=sentence):
            sc.Schema.loads(f'[attributes.x]\nrole = "sensitive"\ntype = "sequence"\n{more}\n')

"""The sums that DuckDB adds up over rows read by stages, against numpy on the whole file.

The oracle deals the stages, reads every row of the file, and divides by Σ q_v c_v in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.evidence.channels import PoolLaw
from scumble.model.evidence.evidence import Records
from scumble.public.estimation.rows.staged_reading import (
    StagedReading,
    deal,
    multiplicities,
    posterior_laws,
    sql_sum,
    staged,
    staged_counts,
)
from scumble.public.sandbox import Sandbox
from tests.support.outcomes import multiset_channel

STAGE = "scumble stage"
ROWS, VALUES, SIZE = 1500, 3, 4
POOL = PoolLaw((1, 2, 1), SIZE)


class Published:
    """A file of multisets in many row groups, and the numpy reading of all its rows."""

    def __init__(self, file: Path, layout: str, pay: str = "pay", rows: int = ROWS) -> None:
        generator = np.random.default_rng(rows)
        domain = sc.Schema(
            [
                sc.Attribute("town", "quasi", sc.Category(("x", "y", "z"))),
                sc.Attribute(pay, "quasi", sc.IntegerRange(-3, 9)),
                sc.Attribute("job", "sensitive", sc.Category(("a", "b", "c"))),
            ]
        )
        self.channel = multiset_channel(domain, POOL, layout)
        job = generator.choice(VALUES, rows, p=[0.8, 0.15, 0.05])
        others = generator.choice(VALUES, (rows, SIZE - 1), p=[0.25, 0.5, 0.25])
        drawn = np.sort(np.c_[job, others], axis=1)
        if layout == "counts":
            drawn = np.stack([(drawn == value).sum(axis=1) for value in range(VALUES)], axis=1)
        shown = {name: drawn[:, place] for place, name in enumerate(self.channel.columns)}
        columns = {
            "town": np.array(["x", "y", "z"])[generator.integers(0, 3, rows)],
            pay: generator.integers(-3, 10, rows),
        }
        table = pa.table({**columns, **shown})
        self.table = table.sort_by([(name, "ascending") for name in table.column_names])
        pq.write_table(self.table, file, row_group_size=rows // 7)
        self.file, self.schema = file, domain
        names = tuple(domain.names)
        self.evidence = Records(file.name, names, (self.channel,), rows)

    def reading(self, engine: Sandbox) -> StagedReading:
        found = staged(self.evidence, self.schema, engine)
        assert found is not None
        return found

    def engine(self) -> Sandbox:
        return Sandbox(self.schema, view=self.file)

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """The stage of every row, and its posterior probabilities."""
        stages, last = deal(self.file, self.table.num_rows, VALUES)
        counts = multiplicities(self.channel, self.table)
        pilot = stages < last
        laws = posterior_laws(POOL, counts[pilot], stages[pilot], last)
        products = counts * np.stack([law.factors for law in laws])[stages]
        return stages, products / products.sum(axis=1, keepdims=True)


def _expected(
    published: Published, names: Sequence[str], chosen: np.ndarray, amounts: np.ndarray | None
) -> dict[tuple[Any, ...], list[float]]:
    """By stage, `names` and value: sums of probabilities, with the powers 0 to 2 of amounts."""
    stages, shown = published.posterior()
    keys = [stages.tolist(), *(published.table[name].to_pylist() for name in names)]
    factor = np.ones(len(stages)) if amounts is None else amounts.astype(float)
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in np.flatnonzero(chosen):
        for value in range(VALUES):
            sums = found.setdefault((*(key[row] for key in keys), value), [0.0, 0.0, 0.0])
            for power in range(3):
                sums[power] += shown[row, value] * factor[row] ** power
    return {key: sums for key, sums in found.items() if sums[0]}


def _found(
    published: Published, engine: Sandbox, names: Sequence[str], filters: Sequence[str], summed: Any
) -> dict[tuple[Any, ...], list[float]]:
    reading = published.reading(engine)
    counted = staged_counts(engine, reading, [STAGE, *names], summed, filters)
    keys = counted.combinations.select([STAGE, *names]).to_pylist()
    found = {}
    lines = zip(counted.count, counted.total, counted.squares, strict=True)
    for combination, cell, sums in zip(counted.combination, counted.cell, lines, strict=True):
        if sums[0]:
            found[(*keys[combination].values(), int(cell))] = [float(each) for each in sums]
    return found


def _same(found: dict[Any, list[float]], expected: dict[Any, list[float]]) -> None:
    assert set(found) == set(expected)
    for key, sums in expected.items():
        assert found[key] == pytest.approx(sums, rel=1e-9), key


@pytest.mark.parametrize("layout", ["counts", "codes"])
def test_sums_are_those_of_numpy(tmp_path: Path, layout: str, subtests: pytest.Subtests) -> None:
    published = Published(tmp_path / "records.parquet", layout)
    pay = published.table["pay"].to_numpy()
    for names, filtered, summed in product([(), ("town",)], [False, True], [False, True]):
        with subtests.test(names=names, filtered=filtered, summed=summed):
            chosen = pay > 2 if filtered else np.ones(ROWS, bool)
            amounts = pay + 4 if summed else None
            expected = _expected(published, names, chosen, amounts)
            if amounts is None:
                expected = {key: [sums[0]] * 3 for key, sums in expected.items()}
            engine = published.engine()
            filters, amount = ["pay > 2"] if filtered else [], "pay + 4" if summed else None
            _same(_found(published, engine, names, filters, amount), expected)


@pytest.mark.parametrize("name", ["file_row_number", "File_Row_Number"])
def test_a_column_with_the_name_of_places(tmp_path: Path, name: str) -> None:
    published = Published(tmp_path / "records.parquet", "counts", name)
    expected = _expected(published, (name,), np.ones(ROWS, bool), None)
    found = _found(published, published.engine(), (name,), (), None)
    _same(found, {key: [sums[0]] * 3 for key, sums in expected.items()})


def test_a_path_with_signs_of_patterns_and_of_texts(tmp_path: Path) -> None:
    folder = tmp_path / "it's [1] *"
    folder.mkdir()
    published = Published(folder / "records.parquet", "counts")
    (tmp_path / "it's 1 *").mkdir()
    expected = _expected(published, (), np.ones(ROWS, bool), None)
    found = _found(published, published.engine(), (), (), None)
    _same(found, {key: [sums[0]] * 3 for key, sums in expected.items()})


def test_least_and_largest_amounts_are_those_of_each_stage(tmp_path: Path) -> None:
    published = Published(tmp_path / "records.parquet", "counts")
    engine = published.engine()
    counted = staged_counts(engine, published.reading(engine), [STAGE], "pay * pay", ["pay > -3"])
    stages, _ = published.posterior()
    pay = published.table["pay"].to_numpy()
    shown = counted.combinations[STAGE].to_numpy()[counted.combination]
    for stage, least, most in zip(shown, counted.least, counted.most, strict=True):
        squares = pay[(stages == stage) & (pay > -3)] ** 2
        assert (least, most) == (squares.min(), squares.max())


@pytest.mark.parametrize("layout", ["counts", "codes"])
def test_threads_add_up_to_the_same_bits(tmp_path: Path, layout: str) -> None:
    """Sums of unrounded doubles differ in nearly every run over so many row groups."""
    published = Published(tmp_path / "records.parquet", layout, rows=140_000)
    found = []
    for _ in range(4):
        engine = published.engine()
        found.append(_found(published, engine, (), (), None))
        engine.close()
    assert all(each == found[0] for each in found)


def test_an_interrupted_first_question_leaves_the_engine_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = Published(tmp_path / "records.parquet", "counts")
    engine = published.engine()
    engine.rows("SELECT 1")  # a small file is read without DuckDB, unless it runs

    def interrupted(_: str) -> pa.Table:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            staged(published.evidence, published.schema, engine)
    expected = _expected(published, (), np.ones(ROWS, bool), None)
    found = _found(published, engine, (), (), None)
    _same(found, {key: [sums[0]] * 3 for key, sums in expected.items()})


def test_a_table_that_was_kept_before_an_interruption_is_made_again() -> None:
    schema = sc.Schema([sc.Attribute("job", "sensitive", sc.Category(("a", "b")))])
    engine = Sandbox(schema)
    engine.keep_table("kept", pa.table({"n": [1]}))
    engine.keep_table("kept", pa.table({"n": [2]}))
    assert engine.rows("SELECT n FROM kept").column(0).to_pylist() == [2]


@pytest.mark.parametrize("terms", [1, 64, 65, 5000])
def test_sums_of_many_terms(terms: int) -> None:
    schema = sc.Schema([sc.Attribute("job", "sensitive", sc.Category(("a", "b")))])
    found = Sandbox(schema).rows(f"SELECT {sql_sum([f'{each}e0' for each in range(terms)])}")
    assert found.column(0)[0].as_py() == terms * (terms - 1) / 2

"""`release.rows` and `release.quality` for releases of noisy counts, and the command."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from tests.support.terminal import run

NAMES = ["age", "sex", "job"]
SCHEMA = sc.Schema(
    (
        Attribute("age", "quasi", IntegerRange(20, 29)),
        Attribute("sex", "quasi", Category(("f", "m"))),
        Attribute("job", "sensitive", Category(("cook", "smith")), missing=True),
    )
)


def people(number=3000, seed=0):
    generator = np.random.default_rng(seed)
    age = generator.integers(20, 30, number)
    sex = np.where(generator.random(number) < (age - 19) / 12, "f", "m")
    job = np.array(["cook", "smith", None], object)[
        (age // 4 + generator.integers(0, 2, number)) % 3
    ]
    return pa.table({"age": age, "sex": sex, "job": pa.array(job, pa.string())})


def _given(**more):
    return {"epsilon": 2, "neighbours": "replace", **more}


METHODS = [
    sc.Histogram(NAMES, **_given()),
    sc.Hierarchy(NAMES, **_given()),
    sc.Wavelet(NAMES, **_given()),
    sc.Marginals(NAMES, ways=2, **_given()),
    sc.Marginals(NAMES, ways=2, **_given(delta=1e-6)),
    sc.Datacube(NAMES, **_given()),
    sc.Sparse(NAMES, **_given()),
    sc.Mosaic(NAMES, **_given()),
    sc.Marginals(NAMES, ways=1, **_given(neighbours="add_remove")),
]


def test_rows_have_the_types_of_the_schema_and_missing_values(subtests: pytest.Subtests) -> None:
    for method in METHODS:
        with subtests.test(method.name):
            release = sc.publish(people(), SCHEMA, method, options=sc.PublishOptions(seed=1))
            rows = release.synthetic.rows(1000, seed=5)
            assert rows.num_rows == 1000
            assert rows.column_names == NAMES
            assert rows["age"].type == pa.int64()
            assert rows["job"].type.value_type == pa.string()
            assert 200 < rows["job"].null_count < 500
            assert rows.equals(release.synthetic.rows(1000, seed=5))
            if method.neighbours == "replace":
                assert release.synthetic.rows(seed=1).num_rows == 3000
            report = release.synthetic.quality(rows)
            names = {"attributes", "ways", "cells", "distance", "noise", "verdict"}
            assert set(report.column_names) == names
            assert max(report["distance"].to_pylist()) < 0.4


def test_rows_of_a_workload_of_single_attributes():
    """Its sums tell no pair, so that rows are drawn from the counts of each attribute."""
    queries = [f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}" for name in NAMES]
    release = sc.publish(
        people(),
        SCHEMA,
        sc.Workload(NAMES, queries=queries, **_given()),
        options=sc.PublishOptions(seed=1),
    )
    assert release.manifest.report["strategy"] == "low-rank sums"
    report = release.synthetic.quality(release.synthetic.rows(3000, seed=1))
    assert report["ways"].to_pylist() == [1, 1, 1]
    assert max(report["distance"].to_pylist()) < 0.05


def test_quality_looks_at_the_noisy_tables_alone():
    release = sc.publish(
        people(), SCHEMA, sc.Marginals(NAMES, ways=1, **_given()), options=sc.PublishOptions(seed=1)
    )
    rows = release.synthetic.rows(3000, seed=1)
    near = max(release.synthetic.quality(rows)["distance"].to_pylist())
    shifted = rows.set_column(0, "age", pa.array(np.full(3000, 20)))
    assert max(release.synthetic.quality(shifted)["distance"].to_pylist()) > near + 1


def test_refusals():
    rows = sc.publish(people(), SCHEMA, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1))
    with pytest.raises(ParameterError, match="publishes rows itself, perturbed"):
        rows.synthetic.rows(10)
    drawn = sc.publish(
        people(),
        SCHEMA,
        sc.Dirichlet("job", synthetic=100, epsilon=1),
        options=sc.PublishOptions(seed=1),
    )
    with pytest.raises(ParameterError, match="publishes rows itself, synthetic"):
        drawn.synthetic.rows(10)
    release = sc.publish(
        people(), SCHEMA, sc.Marginals(NAMES, ways=1, **_given()), options=sc.PublishOptions(seed=1)
    )
    for wrong in (-1, 1.5, "many", 10**12):
        with pytest.raises(ParameterError, match="'n' parameter of rows"):
            release.synthetic.rows(wrong)
    with pytest.raises(ParameterError, match="'seed' parameter of rows"):
        release.synthetic.rows(1, seed=-1)
    with pytest.raises(ParameterError, match="all columns"):
        release.synthetic.quality(release.synthetic.rows(5).drop_columns(["sex"]))
    with pytest.raises(ParameterError, match="outside its domain"):
        release.synthetic.quality(
            release.synthetic.rows(5).set_column(0, "age", pa.array([99] * 5))
        )


def test_the_command_writes_rows_whole_or_not_at_all(tmp_path):
    release = sc.publish(
        people(), SCHEMA, sc.Marginals(NAMES, ways=2, **_given()), options=sc.PublishOptions(seed=1)
    )
    release.save(tmp_path / "view", insecure=True)
    out = tmp_path / "rows.parquet"
    done = run("rows", tmp_path / "view", "-n", 500, "-o", out, "--seed", 3)
    assert done.code == 0
    assert "Wrote 500 rows" in done.err
    assert "3 noisy tables of 2 attributes" in done.err
    assert pq.read_table(out).num_rows == 500
    assert "already exists" in run("rows", tmp_path / "view", "-o", out).err
    text = run("rows", tmp_path / "view", "-n", 3).out
    assert text.splitlines()[0] == '"age","sex","job"'
    assert len(text.splitlines()) == 4
    shown = run("rows", tmp_path / "view", "-n", 3, "--json").json
    assert len(shown["rows"]) == 3
    assert len(shown["quality"]) == 3
    page = tmp_path / "quality.html"
    done = run("rows", tmp_path / "view", "-n", 500, "--json", "--quality", page)
    assert done.code == 0
    assert "Pairs of columns" in page.read_text("utf-8")
    assert {each["verdict"] for each in done.json["quality"]} <= {"as measured", "near"}
    assert "already exists" in run("rows", tmp_path / "view", "--json", "--quality", page).err
    csv = tmp_path / "no folder" / "rows.csv"
    assert "cannot be written" in run("rows", tmp_path / "view", "-o", csv).err

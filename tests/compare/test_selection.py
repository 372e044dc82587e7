"""The selector: which release for which questions, and that its command runs."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import scumble as sc
from scumble.cli.app import app
from scumble.compare.selection import _Case
from scumble.model.laws.distributions import DiscreteLaplace

LINE = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 4095))])
GRID = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 127)) for name in "xy"])
MANY = sc.Schema([sc.Attribute(f"a{i}", "quasi", sc.IntegerRange(0, 9)) for i in range(12)])
LONG = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 2**20))])
SINGLE = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(5, 5))])
JOBS = sc.Schema([sc.Attribute("job", "quasi", sc.Category(["cook", "nurse", "smith"]))])


def _select(schema: sc.Schema, **changed):
    given = {"rows": 10**6, "epsilon": 0.1, "neighbours": "add_remove"} | changed
    return sc.select(schema, schema.names, **given)


FITS = [
    (LINE, {"rows": 10**7}, "hierarchy"),
    (LINE, {"rows": 1000, "delta": 1e-6}, "hierarchy"),
    (LINE, {"rows": 1000}, "mosaic"),
    (LINE, {"rows": 10**4}, "mosaic"),
    (LINE, {"rows": 10**6}, "hierarchy"),
    (LINE, {"rows": 10**6, "occupied": 0.03}, "mosaic"),
    (LINE, {"rows": 10**4, "occupied": 0.03}, "privtree"),
    (LINE, {"rows": 10**5, "occupied": 1}, "hierarchy"),
    (GRID, {"rows": 1000}, "mosaic"),
    (GRID, {"rows": 10**7}, "mosaic"),
    (GRID, {"rows": 10**5, "occupied": 0.5}, "hierarchy"),
    (GRID, {"rows": 10**7, "occupied": 0.5}, "hierarchy"),
    (GRID, {"rows": 10**7, "occupied": 0.02}, "mosaic"),
    (GRID, {"rows": 10**9}, "hierarchy"),
    (JOBS, {}, "histogram"),
    (JOBS, {"workload": "cells"}, "histogram"),
    (MANY, {}, "marginals"),
    (MANY, {"workload": "marginals"}, "marginals"),
    (MANY, {"workload": "cells"}, "sparse"),
    (MANY, {"workload": "cells", "delta": 1e-6}, "marginals"),
    (LONG, {"workload": "cells", "delta": 1e-6}, "hierarchy"),
    (SINGLE, {"workload": "cells", "delta": 1e-6}, "hierarchy"),
    (LINE, {"workload": ["SELECT COUNT(*) FROM t WHERE x < 9"], "rows": 10**7}, "workload"),
    (MANY, {"workload": ["SELECT COUNT(*) FROM t WHERE a0 < 9 AND a7 = 3"]}, "workload"),
]


def test_which_release_fits(subtests: pytest.Subtests) -> None:
    for schema, changed, method in FITS:
        with subtests.test(method=method, changed=changed):
            found = _select(schema, **changed)
            assert found.method == method
            assert all(reason.endswith(".") for reason in found.reasons)
            found.mechanism().check(schema)


def test_questions_that_no_workload_can_serve() -> None:
    queries = ["SELECT COUNT(*) FROM t WHERE x = y", "SELECT x, y, COUNT(*) FROM t GROUP BY x, y"]
    found = _select(GRID, rows=10**9, workload=queries)
    assert found.method == "hierarchy"
    assert "do not fit the method workload" in found.reasons[0]


def test_replacing_takes_more_noise_than_adding() -> None:
    share = [
        _select(GRID, rows=1000, neighbours=each).reasons[0] for each in ("add_remove", "replace")
    ]
    assert share[0] != share[1]


REFUSALS = [
    ({"rows": 0}, "'rows' parameter of select"),
    ({"epsilon": 0}, "'epsilon' parameter of select"),
    ({"delta": 1}, "'delta' parameter of select"),
    ({"occupied": 0}, "'occupied' parameter of select"),
    ({"neighbours": "all"}, "'replace' or 'add_remove'"),
    ({"workload": "everything"}, "ranges, marginals, cells, or a file or list of SQL"),
]


def test_refusals(subtests: pytest.Subtests) -> None:
    for changed, sentence in REFUSALS:
        with subtests.test(changed=changed), pytest.raises(sc.ParameterError, match=sentence):
            _select(LINE, **changed)


@pytest.mark.parametrize("workload", ["ranges", "marginals", "cells"])
def test_too_many_cells_for_a_delta(workload: str) -> None:
    huge = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 2**40))])
    assert _select(huge, workload=workload).method == "sparse"
    with pytest.raises(sc.ParameterError, match="too many for any method with a delta"):
        _select(huge, workload=workload, delta=1e-6)


def test_no_attributes() -> None:
    with pytest.raises(sc.ParameterError, match="'attributes' parameter of select"):
        sc.select(LINE, [], rows=9, epsilon=1, neighbours="replace")
    with pytest.raises(sc.SchemaError, match="no attribute 'z'"):
        sc.select(LINE, ["z"], rows=9, epsilon=1, neighbours="replace")


def test_the_command_runs(tmp_path: Path) -> None:
    """What the selector prints is a command that publishes."""
    schema, table = tmp_path / "schema.toml", tmp_path / "table.csv"
    GRID.save(schema)
    table.write_text("x,y\n" + "".join(f"{i % 128},{i % 7}\n" for i in range(500)))
    arguments = ["select", str(schema), "-a", "x,y", "--rows", "500", "-e", "1"]
    result = CliRunner().invoke(app, [*arguments, "--neighbours", "replace"])
    assert result.exit_code == 0, result.output
    method, *_, command = result.output.strip().splitlines()
    assert method == "mosaic"
    words = command.replace("FILE", str(table)).replace("FOLDER", str(tmp_path / "out")).split()
    assert words[:2] == ["scumble", "publish"]
    published = CliRunner().invoke(app, words[1:])
    assert published.exit_code == 0, published.output
    assert sc.open(tmp_path / "out").manifest.mechanism == "mosaic"


def test_questions_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text("SELECT COUNT(*) FROM t WHERE x < 9\n")
    found = _select(LINE, rows=10**7, workload=str(file))
    assert found.method == "workload"
    assert "--queries" in found.command()


def test_the_reason_for_mosaic_says_interval_and_error_of_both():
    schema = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 99)) for name in "xy"])
    found = sc.select(schema, ["x", "y"], rows=20_000, epsilon=1.0, neighbours="replace")
    [reason] = found.reasons
    assert found.method == "mosaic"
    said = [
        (float(half), float(error))
        for half, error in re.findall(r"± ([\d.]+) rows \(error ([\d.]+)\)", reason)
    ]
    assert len(said) == 2
    assert said[1][0] < said[0][0]
    assert said[0][0] == pytest.approx(1.96 * said[0][1], rel=0.01)
    assert "--epsilon 1 " in found.command()


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("sizes", [(16,), (4, 8)])
@pytest.mark.parametrize("method", ["Histogram", "Hierarchy"])
def test_expected_errors_are_those_of_releases(
    method: str, sizes: tuple[int, ...], neighbours: str
) -> None:
    """The mean variance over all ranges, from the answers: under "replace" the number of rows is
    published, and readers use it.
    """
    names = [f"x{place}" for place in range(len(sizes))]
    schema = sc.Schema(
        [
            sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
            for name, size in zip(names, sizes, strict=True)
        ]
    )
    people = {name: list(range(4)) * 5 for name in names}
    kind = getattr(sc, method)(names, epsilon=1, neighbours=neighbours)
    release = sc.publish(pa.table(people), schema, kind, seed=1)
    ranges = [
        [f"{name} BETWEEN {low} AND {high}" for low in range(size) for high in range(low, size)]
        for name, size in zip(names, sizes, strict=True)
    ]
    wheres = [" AND ".join(each) for each in itertools.product(*ranges)]
    found = release.answer_many([f"SELECT COUNT(*) FROM t WHERE {where}" for where in wheres])
    case = _Case(schema, names, 20, 1, None, neighbours)
    expected = case._plain_error() if method == "Histogram" else case._tree_error()
    variances = [each.stderr**2 for each in found]
    noise = float(DiscreteLaplace(Fraction(2 if neighbours == "replace" else 1)).variance)
    continuous = case.noise**2  # discrete noise varies slightly less
    assert sum(variances) / len(found) * continuous / noise == pytest.approx(expected**2, rel=0.02)

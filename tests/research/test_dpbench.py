"""DPBench's protocol: its errors, its verdicts, and a small run from the files to the figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import scumble as sc
from research import dpbench, marginals
from research.commands import app
from research.dpbench import (
    Scale,
    Shape,
    Workload,
    benchmark,
    fitting,
    released,
    shapes,
)
from research.dpbench_report import (
    as_csv,
    as_markdown,
    comparisons,
    panels,
    records,
    reference,
    selector_sentence,
)
from scumble.private.sampling.source import Keystream


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small histograms and one grid in the layout of the benchmark's files."""
    cells = range(64)
    lines = [f"{i},{(i * 7) % 5},{100 if i == 9 else 0}" for i in cells]
    (tmp_path / dpbench.ONE).write_text("bin,FLAT,PEAK\n" + "\n".join(lines) + "\n")
    rows = "".join(f"SPOT,{x},{y},{x + y}\n" for x in range(40, 60) for y in range(7))
    with gzip.open(tmp_path / dpbench.TWO, "wt") as file:
        file.write("dataset,x,y,count\n" + rows)
    return tmp_path


def test_shapes(folder: Path) -> None:
    flat, peak, spot = shapes(folder)
    assert [flat.name, peak.name, spot.name] == ["FLAT", "PEAK", "SPOT"]
    assert peak.shares[9] == 1
    assert spot.shares.shape == (128, 128)
    assert spot.shares.sum() == pytest.approx(1)
    assert spot.shares[20, 0] == (40 + 41 + 41 + 42) / sum(
        x + y for x in range(40, 60) for y in range(7)
    )
    assert spot.draw(1000, (1, 2)).sum() == 1000
    assert [shape.name for shape in shapes(folder, ["PEAK"])] == ["PEAK"]
    with pytest.raises(sc.SourceError, match="say --data FOLDER"):
        shapes(folder / "elsewhere")


def test_questions_by_brute_force() -> None:
    grid = np.arange(128.0 * 128).reshape(128, 128) % 11
    questions = Workload((128, 128))
    left, right, low, high = questions._ends
    found = questions.answers(grid)
    for i in range(0, 2000, 97):
        assert found[i] == pytest.approx(grid[left[i] : right[i], low[i] : high[i]].sum())
    line = np.arange(5)
    assert Workload((5,)).answers(line.astype(float)).tolist() == [0, 1, 3, 6, 10]
    assert Workload((5,)).error(line, line + np.array([1.0, 0, 0, 0, -1])) == pytest.approx(
        2 / (10 * 5)
    )


def test_the_error_of_a_histogram_is_the_known_one() -> None:
    """Prefix sums of n noisy cells: Σ k · variance squared in the mean, 200 times.

    False alarms: the mean of 200 squared errors, of relative spread below 1.2, at 6 standard
    errors: below 10^-8. Noise of half the scale, a quarter of the square, is 9 of them away.
    """
    shape = Shape("FLAT", np.full(64, 1 / 64))
    mechanism = fitting(shape, ["histogram"])["histogram"]
    table, questions, noise = shape.draw(1000, (1,)), Workload((64,)), Keystream(3)
    errors = [
        questions.error(table, released(mechanism, shape.schema, table, noise)) for _ in range(200)
    ]
    variance = 2 / 0.1**2 - 1 / 6
    known = variance * 64 * 65 / 2 / (1000 * 64) ** 2
    assert np.mean(np.square(errors)) / known == pytest.approx(1, abs=6 * 1.2 / 200**0.5)


@pytest.mark.parametrize("size", [(64,), (16, 16)])
def test_every_method_gives_back_the_table_without_noise(size: tuple[int, ...]) -> None:
    """At ε = 90 the noise of a cell is 0 nearly always; a median of a kd-tree may be elsewhere, but
    its cells are as fine.
    """
    shape = Shape("any", np.full(size, 1 / np.prod(size)))
    table = shape.draw(5000, (4,))
    for name, mechanism in fitting(shape, dpbench.METHODS, epsilon=90).items():
        found = released(mechanism, shape.schema, table, Keystream(1))
        assert found.shape == size
        if name not in ("privtree", "grid", "dawa"):  # these take alike cells together
            assert np.abs(found - table).max() < 2, name
        assert found.sum() == pytest.approx(5000, abs=10)


def test_a_run(folder: Path) -> None:
    scale = Scale(2, 2, (100, 1000), methods=("histogram", "quadtree", "no such method"))
    steps: list[str] = []
    rows = list(benchmark(folder, scale, steps.append))
    assert len(rows) == 2 * 3 * 2
    assert "SPOT, 1,000 rows" in steps
    by_key = {(row["method"], row["dataset"], row["rows"]): row["error"] for row in rows}
    for method in ("histogram", "quadtree"):
        gain = by_key[method, "FLAT", 100] - by_key[method, "FLAT", 1000]
        assert gain == pytest.approx(1, abs=0.5)
    again = list(benchmark(folder, scale, steps.append))
    assert [row["error"] for row in again] == [row["error"] for row in rows]
    assert as_csv(rows).count("\n") == 13
    assert "| FLAT |" in as_markdown(rows, ["done."])
    assert [panel.title for panel in panels(rows)] == ["FLAT", "PEAK", "SPOT"]


def test_verdicts() -> None:
    row = {"method": "hierarchy", "dataset": "HEPTH", "dimensions": 1, "rows": 10**5}
    row |= {"stderr": 0.01, "trials": 50}
    assert reference(row) == -4.63
    assert reference(row | {"rows": 10**7}) is None
    words = [next(comparisons([row | {"error": e}])).word for e in (-4.80, -4.64, -4.61, -4.55)]
    assert words == ["better", "as good", "as good", "worse"]
    privtree = row | {"method": "privtree", "dataset": "STROKE", "rows": 10**4, "dimensions": 2}
    assert reference(privtree) == -3.31


def test_the_command(folder: Path, tmp_path: Path) -> None:
    arguments = ["dpbench", "--data", str(folder), "--methods", "histogram,privtree"]
    arguments += ["--draws", "1", "--runs", "2", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "privtree" in result.output
    assert (tmp_path / "out" / "dpbench.csv").read_text().startswith("method,dataset")
    assert (tmp_path / "out" / "dpbench.md").exists()
    none = CliRunner().invoke(app, [*arguments[:3], "--methods", "nonsense"])
    assert none.exit_code != 0


def test_an_interrupted_run_keeps_what_is_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dpbench.released
    calls = []

    def once(*given):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(dpbench, "released", once)
    arguments = ["dpbench", "--data", str(folder), "--methods", "histogram"]
    result = CliRunner().invoke(app, [*arguments, "--draws", "1", "--runs", "2"])
    assert result.exit_code == 0
    assert "FLAT" in result.output
    assert "PEAK" not in result.output


def test_marginals_of_small_tables(tmp_path: Path) -> None:
    """Files of the real layout, three and four attributes: errors between 0 and 2."""
    sizes = {"a": 3, "b": 2, "c": 4}
    (tmp_path / marginals.DOMAIN).write_text(json.dumps(sizes))
    rows = "".join(f"{i % 3},{i % 2},{i % 4}\n" for i in range(600))
    with gzip.open(tmp_path / marginals.ADULT, "wt") as file:
        file.write("a,b,c\n" + rows)
    with gzip.open(tmp_path / marginals.NLTCS, "wt") as file:
        file.write("p,q,r,s\n" + "0,1,1,0\n1,1,0,0\n" * 300)
    result = CliRunner().invoke(app, ["marginals", "--data", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["rows"]
    assert [(row["dataset"], row["method"], row["ways"]) for row in found] == [
        ("adult", "marginals", 2),
        ("adult", "marginals", 3),
        ("nltcs", "marginals", 2),
        ("nltcs", "fourier", 2),
        ("nltcs", "marginals", 3),
        ("nltcs", "fourier", 3),
    ]
    assert all(0 < row["non-negative"] < 2 for row in found)
    with pytest.raises(sc.SourceError, match="say --data FOLDER"):
        marginals.tables(tmp_path / "elsewhere")


def test_how_often_the_selector_is_right() -> None:
    rows = [
        {"dataset": "A", "dimensions": 2, "rows": 1000, "method": method, "error": error}
        for method, error in (("mosaic", -3.0), ("hierarchy", -2.0), ("privtree", -3.04))
    ]
    rows += [
        {"dataset": "A", "dimensions": 2, "rows": 10**9, "method": method, "error": error}
        for method, error in (("privtree", -9.0), ("hierarchy", -8.2))
    ]
    first, second = records(rows)
    assert (first.chosen, first.best, first.near) == ("mosaic", "privtree", True)
    assert (second.chosen, second.best, second.near) == ("hierarchy", "privtree", False)
    assert second.behind == pytest.approx(0.9)  # that of the hierarchy is pooled
    assert "in 1 of 2 cases (50%)" in selector_sentence([first, second])
    assert "not measured" in selector_sentence([])

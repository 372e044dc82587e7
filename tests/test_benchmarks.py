"""What `python -m benchmarks` prints and writes of its results; their figures are not tested."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks import __main__ as benchmarks
from benchmarks.measure import at_least, at_most

RESULTS = [
    at_most("fast", 2, np.float64(1.5), "numbers of numpy"),
    at_least("slow", 2, 1.5, "numbers of Python"),
    at_most("peer", 2, float("nan"), "not measured: no peer"),
]


def test_results_as_json():
    found = json.loads(benchmarks.as_json(RESULTS))["results"]
    assert [(each["ratio"], each["met"]) for each in found] == [
        (1.5, True),
        (1.5, False),
        (None, None),
    ]


def test_results_as_a_table():
    console = Console(width=100)
    with console.capture() as printed:
        console.print(benchmarks.as_table(RESULTS))
    lines = printed.get().splitlines()
    verdicts = {name: next(line for line in lines if name in line) for name in ("fast", "slow")}
    assert "│ met " in verdicts["fast"]
    assert "│ missed " in verdicts["slow"]
    [peer] = [line for line in lines if "│ peer" in line]
    assert "nan" not in peer
    assert "not measured" in peer


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_every_benchmark_can_be_run_by_name(name: str):
    assert callable(importlib.import_module(f"benchmarks.{name}").run)

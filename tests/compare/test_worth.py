"""What a comparison does not try: plans that no owner would choose."""

from __future__ import annotations

import scumble as sc
from scumble.compare.comparison import Comparison, worthless
from scumble.compare.questions import questions
from scumble.compare.settings import Choice, Settings
from scumble.compare.truth import stand_in

WIDE = sc.Schema(
    (
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 999)),
        sc.Attribute("b", "quasi", sc.IntegerRange(0, 999)),
        sc.Attribute("c", "sensitive", sc.IntegerRange(0, 9)),
    )
)


def _choice(method: str, epsilon: float, names: str = "abc", **more: object) -> Choice:
    given = {"attributes": list(names), "epsilon": epsilon, "neighbours": "replace", **more}
    return Choice(method, f"ε = {epsilon:g}", given)


def test_a_histogram_of_ten_million_cells_for_few_rows():
    reason = worthless(_choice("histogram", 1), WIDE, 1_304)
    assert reason.startswith("It would measure 10,000,000 cells for 1,304 rows: ")
    assert worthless(_choice("hierarchy", 0.1), WIDE, 1_304)
    # More rows, more ε or fewer cells make it worth the while.
    assert not worthless(_choice("histogram", 1), WIDE, 1_000_000)
    assert not worthless(_choice("histogram", 100), WIDE, 1_304)
    assert not worthless(_choice("histogram", 1, "ac"), WIDE, 1_304)


def test_what_follows_the_rows_is_tried():
    for method, more in {"marginals": {"ways": 1}, "sparse": {}, "privtree": {}}.items():
        assert not worthless(_choice(method, 1, **more), WIDE, 1_304)
    assert not worthless(Choice("uniform", "ε = 1", {"epsilon": 0.01}), WIDE, 1_304)


def test_what_is_impossible_is_left_to_the_run():
    assert not worthless(_choice("histogram", -1), WIDE, 1_304)
    assert not worthless(_choice("histogram", 1, "abx"), WIDE, 1_304)


def test_it_is_left_out_of_the_comparison_with_the_reason():
    table = stand_in(WIDE, 400, seed=1)
    workload = questions("conjunctions:ways=3", table, 20, 0)
    choices = Settings(table, workload, "replace").choices(["histogram", "sparse"], [1.0], {})
    comparison = Comparison(table, workload, choices, 1)
    results = comparison.blank(subject="people", preview=False, sensitive=["c"])
    list(comparison.runs(results))
    assert {run.method for run in results.runs} == {"sparse"}
    assert results.refusals()["histogram"].startswith("It would measure 10,000,000 cells")

"""Limits for budget: the choice by brute force, what it costs, and what is said of clamping."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.schema.numbers import Number, UnlimitedNumber
from scumble.private.limits import choose_limits, grid_of
from tests.support.terminal import run


def schema(lines: str = "limits_needed = true", unit: str = 'unit = "row"') -> sc.Schema:
    pay = f'[attributes.pay]\nrole = "quasi"\ntype = "number"\n{lines}\n'
    return sc.Schema.loads(f'{unit}\n{pay}[attributes.who]\nrole = "identifier"\n')


def seeded(seed: int) -> sc.PublishOptions:
    return sc.PublishOptions(seed=seed)


def limits(amounts, known=None, **given):
    who = np.arange(len(amounts)) % 50
    table = pa.table({"pay": pa.array(amounts), "who": who})
    return sc.private_limits(table, known or schema(), "pay", **given)


def test_the_grid_has_round_amounts_at_the_ends_of_its_bins():
    grid = grid_of(schema("limits = [-20, 60]")["pay"])
    first, last = (each.tolist() for each in grid.ends())
    assert last == [-11, -6, -3, -2, -1, 0, 1, 2, 5, 10, 20, 50, 60]
    assert first == [-20, -10, -5, -2, -1, 0, 1, 2, 3, 6, 11, 21, 51]
    wide = grid_of(schema("limits_needed = true\nstep = 0.01")["pay"])
    assert wide.number.low == -wide.number.high < -(10**13)
    assert {0.01, 0.02, 0.05, 0.1, 1, 2, 5, 50_000} <= set(wide.ends()[1].tolist())
    assert 60 < wide.size < 110
    with pytest.raises(SchemaError, match="whole number of steps of 3"):
        grid_of(schema("limits_needed = true\nstep = 3")["pay"])


GRID = grid_of(sc.Attribute("pay", "quasi", Number(-100, 200)))
COUNTS = st.lists(st.sampled_from([0, 0, 0, 1, 3, 40]), min_size=GRID.size, max_size=GRID.size)


@settings(max_examples=200)
@given(COUNTS.filter(any), st.sampled_from([0.01, 0.3, 1, 4, 30]))
def test_without_noise_the_choice_is_the_best_by_enumeration(counts, noise):
    """Every row is clamped to every pair of limits; the error is that of the sum."""
    rows = np.repeat(GRID.middles(), counts)
    firsts, lasts = GRID.ends()

    def error(low, high):
        below = (np.maximum(rows, low) - rows).sum()
        above = (rows - np.minimum(rows, high)).sum()
        return np.hypot(noise * (high - low), below + above)

    pairs = product(firsts[firsts <= 0], lasts[lasts >= 0])
    best = min(error(low, high) for low, high in pairs if low < high)
    chosen = choose_limits(GRID, np.array(counts, float), 1e-9, noise, None)
    assert error(*chosen) == pytest.approx(best)


@settings(max_examples=100)
@given(COUNTS.filter(any), st.sampled_from([0.5, 0.9, 0.99]))
def test_the_narrowest_limits_that_hold_a_share(counts, share):
    rows = np.repeat(GRID.middles(), counts)
    low, high = choose_limits(GRID, np.array(counts, float), 1e-9, 1.0, share)
    assert ((rows >= low) & (rows <= high)).mean() >= share
    firsts, lasts = GRID.ends()
    for a, b in product(firsts[firsts <= 0], lasts[lasts >= 0]):
        if 0 < b - a < high - low:
            assert ((rows >= a) & (rows <= b)).mean() < share


def test_noise_alone_hardly_widens_limits():
    """At most 2.5 % of the draws on each side by the thresholds; of 400, over 37 once in 10^4."""
    grid, rng = grid_of(sc.Attribute("pay", "quasi", UnlimitedNumber())), np.random.default_rng(5)
    middles = grid.middles()
    counts = np.where((middles >= 0) & (middles <= 1000), 10_000.0, 0.0)
    wide = 0
    for _ in range(400):
        noisy = counts + rng.laplace(0, 20, grid.size)
        low, high = choose_limits(grid, noisy, 20.0, 1.0, None)
        wide += low < 0 or high > 1000
    assert wide <= 37


def test_the_share_that_is_clamped_lies_in_its_interval():
    """60 tables at 95 %, for all limits at once: more than 9 misses once in 10^3."""
    rng, misses = np.random.default_rng(1), 0
    for seed in range(60):
        amounts = np.round(np.exp(rng.normal(6, 1.5, 2000)))
        found = limits(amounts, epsilon=0.5, options=seeded(seed), sum_epsilon=0.05)
        true = ((amounts < found.low) | (amounts > found.high)).mean()
        misses += not found.clamped[1] <= true <= found.clamped[2]
    assert misses <= 9


def test_the_bias_is_bounded_by_limits_that_are_certain():
    rng = np.random.default_rng(2)
    amounts = np.round(np.exp(rng.normal(6, 1.5, 4000))).clip(0, 50_000)
    known = schema("limits = [0, 50000]")
    found = limits(amounts, known, epsilon=1, sum_epsilon=0.01, options=seeded(3))
    assert 0 <= found.low < found.high < 50_000
    low, high = found.bias
    change = amounts.mean() - np.clip(amounts, found.low, found.high).mean()
    assert low <= change <= high < 1000
    assert "lies at most 0 below and" in str(found)
    unlimited = limits(amounts, epsilon=1, options=seeded(3))
    assert unlimited.bias is None
    assert "Sums and averages are about clamped amounts." in str(unlimited)


def test_the_schema_gets_the_limits_and_the_ledger_the_charge(tmp_path):
    amounts = [100.0, 300.0, -5.0, 2000.0] * 500
    ledger = sc.Ledger.create(tmp_path / "l", epsilon=1, neighbours="replace")
    found = limits(amounts, epsilon=0.5, ledger=ledger)
    domain = found.schema["pay"].domain
    assert domain == Number(found.low, found.high)
    assert found.low in (0, -1, -2, -5)
    assert found.high == 2000
    assert found.guarantee.parameters["epsilon"] == 0.5
    assert len(ledger.charges) == 1
    assert ledger.totals[None].epsilon == 0.5


def test_a_person_with_several_rows_gets_more_noise():
    unit = 'unit = "person"\nperson = "who"\nmost_rows = 4'
    one = limits([50.0] * 1000, epsilon=1, options=seeded(1))
    several = limits([50.0] * 1000, schema(unit=unit), epsilon=1, options=seeded(1))
    width = [each.clamped[2] - each.clamped[1] for each in (one, several)]
    assert width[1] > 3 * width[0]
    assert several.schema.unit.most_rows == 4


def test_words_for_missing_values_are_no_amounts():
    known = schema('limits_needed = true\nmissing = ["-9"]')
    found = limits([100.0, -9.0, 200.0, -9.0] * 500, known, epsilon=1, options=seeded(4))
    assert (found.low, found.high) == (0, 200)
    assert found.schema["pay"].null_words == ("-9",)


def test_other_columns_are_refused():
    with pytest.raises(SchemaError, match="must be of the type number"):
        limits([1.0], sc.Schema((sc.Attribute("pay", "quasi", sc.IntegerRange(0, 5)),)), epsilon=1)
    with pytest.raises(ParameterError, match="epsilon"):
        limits([1.0], epsilon=0)
    with pytest.raises(ParameterError, match="share"):
        limits([1.0], epsilon=1, share=1)


def test_the_command(tmp_path):
    lines = "\n".join(["pay,who", *(f"{k % 90},{k}" for k in range(2000))])
    (tmp_path / "t.csv").write_text(lines)
    schema().save(tmp_path / "t.toml")
    words = ["schema", "limits", tmp_path / "t.csv", "pay", "-s", tmp_path / "t.toml", "-e", "1"]
    done = run(*words, "-o", tmp_path / "new.toml")
    assert done.code == 0, done.err
    assert "pay: limits = [0, 100]" in done.out
    assert "of the rows are clamped (95 %:" in done.out
    assert sc.Schema.load(tmp_path / "new.toml")["pay"].domain == Number(0, 100)
    assert run(*words, "-o", tmp_path / "new.toml").code != 0
    assert run(*words, "--json").json["limits"] == [0, 100]

"""Quantiles: scores by brute force, every way to cut a tiny table with its exact probability, the
coverage of intervals, and what a release says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.quantiles import publish as quantiles
from scumble.families.quantiles.check import log_p_number
from scumble.families.quantiles.publish import GroupedAmounts, SpreadRows
from scumble.private.sampling.runs import Runs, pick_number
from scumble.private.sampling.source import Keystream
from tests.support.covered import LEVELS, least
from tests.support.goodness import rejects, rejects_law

PAY = sc.Attribute("pay", "sensitive", sc.Number(0, 10_000))
SEX = sc.Attribute("sex", "quasi", sc.Category(("f", "m")))


def expanded(runs: Runs) -> dict[int, tuple[int, int]]:
    """The score and the weight of every candidate."""
    found: dict[int, tuple[int, int]] = {}
    columns = (runs.first, runs.step, runs.length, runs.score, runs.slope, runs.block, runs.weight)
    for line in zip(*(column.tolist() for column in columns), strict=True):
        first, step, length, score, slope, block, weight = line
        for i, within in product(range(length), range(block)):
            known = found.get(first + i * step + within, (score + i * slope, 0))
            assert known[0] == score + i * slope
            found[first + i * step + within] = (known[0], known[1] + weight)
    return found


def below(counts: Sequence[int], place: Fraction) -> Fraction:
    """The rows below a place between steps, those of one step spread evenly over it."""
    shares = (min(max(place - step, Fraction(0)), Fraction(1)) for step in range(len(counts)))
    return sum((h * share for h, share in zip(counts, shares, strict=True)), Fraction(0))


# --- what is drawn --------------------------------------------------------------------------------


def test_numbers_of_runs_have_their_probabilities() -> None:
    """Chi-square rejects a true law once in 10^6."""
    columns = [[0, 9, 10, 1], [1, -1, 1, 5], [4, 6, 3, 2], [5, 2, 0, 5], [0, 1, 2, 0]]
    columns += [[1, 1, 1, 2], [1, 2, 1, 3]]
    columns[3][3], columns[0][3], columns[1][3], columns[2][3] = 5, 0, 2, 2
    runs, rate = Runs(*(np.array(column) for column in columns)), Fraction(1, 3)
    weights = {n: weight * math.exp(-score / 3) for n, (score, weight) in expanded(runs).items()}
    shares = [weights[number] / sum(weights.values()) for number in range(13)]
    source = Keystream(5)
    drawn = [pick_number(source, runs, rate) for _ in range(5000)]
    assert not rejects(np.bincount(drawn, minlength=13), shares)
    told = [math.exp(log_p_number(runs, number, rate)) for number in range(13)]
    assert told == pytest.approx(shares)


def test_runs_of_many_candidates() -> None:
    """Of 2^50 equal ones and one that is better by e^35 the weights are 0.71 to 1."""
    columns = [[0, 1 << 50], [1, 1], [1 << 50, 1], [35, 0], [0, 0], [1, 1], [1, 1]]
    runs, source = Runs(*(np.array(column) for column in columns)), Keystream(5)
    best = sum(pick_number(source, runs, Fraction(1)) == 1 << 50 for _ in range(400))
    share = 1 / (1 + 2.0**50 * math.exp(-35))
    assert not rejects([best, 400 - best], [share, 1 - share])


ROUNDS = ((2, 1), (3, 0))  # steps 1, 3, 5, ... and 0, 3, 6, ...


def test_scores_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "_PARTS", 4)
    monkeypatch.setattr(quantiles, "_SHARES", 8)
    rng = np.random.default_rng(3)
    for _ in range(200):
        counts = rng.integers(0, 4, 9) * rng.integers(0, 2, 9)
        low, high = sorted(rng.choice(37, 2, replace=False).tolist())
        share = int(rng.integers(1, 8))
        steps = np.flatnonzero(counts)
        runs = SpreadRows(steps, counts[steps], ROUNDS).runs(low, high, share)
        inside = {x: below(counts, Fraction(x, 4)) for x in range(low, high + 1)}
        rows = inside[high] - inside[low]
        expected = {x: abs(32 * (inside[x] - inside[low]) - 4 * share * rows) for x in inside}
        weights = {x: 1 + 2 * (x // 4 % 2 == 1) + 3 * (x // 4 % 3 == 0) for x in inside}
        assert expanded(runs) == {x: (expected[x], weights[x]) for x in range(low, high)}


def test_round_amounts() -> None:
    assert quantiles.find_rounds(sc.Number(-30, 5000)) == ((10, 0), (100, 30), (1000, 30))
    assert quantiles.find_rounds(sc.Number(0, 9, 0.01)) == ((10, 0), (100, 0))
    assert quantiles.find_rounds(sc.Number(5, 5005, 10)) == ()
    assert quantiles.find_rounds(sc.Number(0, 9)) == ((10, 0),)


# --- what the cuts of a tiny table tell, by enumeration -------------------------------------------


class BranchError(Exception):
    """A choice that is not decided yet, with its candidates."""


class Scripted:
    """Steps whose choices are given, and the logarithm of the probability of all of them."""

    def __init__(self, path: Sequence[int]) -> None:
        self._path, self.log_p, self.taken = path, 0.0, 0

    def number(self, runs: Runs, rate: Fraction) -> int:
        scores = expanded(runs)
        if self.taken == len(self._path):
            raise BranchError(sorted(scores))
        chosen = self._path[self.taken]
        self.taken += 1
        weights = {n: w * math.exp(-float(rate * score)) for n, (score, w) in scores.items()}
        self.log_p += math.log(weights[chosen] / sum(weights.values()))
        return chosen


TARGETS = [1, 4, 6]  # eighths


def ways(counts: Sequence[int], rate: Fraction) -> Iterator[tuple[tuple[int, ...], float]]:
    """All choices that cuts at `TARGETS` may take, with their probabilities."""
    steps = np.flatnonzero(counts)
    rows = (steps, np.array(counts)[steps])
    amounts = GroupedAmounts(len(counts), (rows,), rounds=((2, 1),))
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        path = waiting.pop()
        noise = Scripted(path)
        try:
            amounts.cut(0, TARGETS, SimpleNamespace(_noise=noise), rate)
        except BranchError as branch:
            waiting += [(*path, number) for number in branch.args[0]]
        else:
            yield path, math.exp(noise.log_p)


def worst(rate: Fraction, relation: str) -> float:
    """The largest change of the logarithm of a probability between tables of up to three rows and
    their neighbours.
    """
    tables = [counts for counts in product(range(4), repeat=3) if sum(counts) <= 3]
    laws = {counts: dict(ways(counts, rate)) for counts in tables}
    assert all(math.isclose(sum(law.values()), 1) for law in laws.values())
    rows = 1 if relation == "add_remove" else 0
    changed = 1 if relation == "add_remove" else 2
    return max(
        abs(math.log(laws[one][path] / laws[other][path]))
        for one, other in product(tables, repeat=2)
        if abs(sum(one) - sum(other)) == rows
        and sum(abs(a - b) for a, b in zip(one, other, strict=True)) == changed
        for path in laws[one]
    )


@pytest.mark.parametrize(("relation", "changed"), [("add_remove", 1), ("replace", 2)])
def test_cuts_keep_their_part_of_the_promise(
    relation: str, changed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, for all tables of up to three rows and all cuts; with the noise of one level, and
    that of one row, for all they do not.
    """
    monkeypatch.setattr(quantiles, "_PARTS", 2)
    monkeypatch.setattr(quantiles, "_SHARES", 8)
    epsilon, levels = 2, len(TARGETS).bit_length()
    rate = Fraction(epsilon, 2)
    assert 0.4 * epsilon < worst(rate / changed / levels, relation) <= epsilon * (1 + 1e-9)
    assert worst(rate, relation) > epsilon


# --- releases -------------------------------------------------------------------------------------


def table(kind: str, rows: int) -> pa.Table:
    rng = np.random.default_rng(5)
    pay = np.exp(rng.normal(6.5, 1, rows)).clip(0, 10_000).round()
    if kind == "heaps":
        pay = np.where(rng.random(rows) < 0.4, 0, pay.round(-2))
    columns = {"pay": pay.tolist(), "sex": rng.choice(["f", "m"], rows, p=[0.3, 0.7])}
    if kind == "missing":
        columns["pay"] = [None if place % 5 == 0 else each for place, each in enumerate(pay)]
    return pa.table(columns)


def schema(kind: str = "smooth") -> sc.Schema:
    missing = kind == "missing"
    return sc.Schema([sc.Attribute("pay", "sensitive", sc.Number(0, 10_000), missing), SEX])


def publish(kind: str = "smooth", rows: int = 400, seed: int = 1, **given) -> sc.Release:
    given = {"probabilities": [0.5, 0.9], "epsilon": 2, "neighbours": "replace"} | given
    made = sc.Quantiles("pay", **given)
    options = sc.PublishOptions(seed=seed)
    return sc.publish(table(kind, rows), schema(kind), made, options=options)


def truth(kind: str, rows: int, share: float, sex: str | None = None) -> float:
    data = table(kind, rows).to_pylist()
    pay = sorted(row["pay"] for row in data if row["pay"] is not None and sex in (None, row["sex"]))
    return pay[max(math.ceil(share * len(pay) - 1e-9), 1) - 1]


SEEDS = 60


def test_counts_have_their_noise_whatever_the_cuts() -> None:
    """The errors of all counts between cuts follow the stated law; a true one fails once in
    10^6.
    """
    pay, errors = np.sort(np.array(table("smooth", 400)["pay"].to_numpy())), []
    for seed in range(60):
        release = publish(seed=seed)
        edges = np.array(release.schema["pay"].domain.edges)
        true = np.diff([0, *np.searchsorted(pay, edges[1:-1]), 400])
        counts = pq.read_table(release.folder / "regions.parquet")["count"].to_numpy()
        errors += (counts - true).tolist()
    law = release.evidence.design.laws[0]
    assert not rejects_law(np.array(errors), law.cdf, range(-6, 7))


@pytest.mark.parametrize(
    ("kind", "neighbours"),
    [
        pytest.param("smooth", "replace", marks=pytest.mark.soak),
        pytest.param("heaps", "add_remove", marks=pytest.mark.slow),
        pytest.param("missing", "replace", marks=pytest.mark.soak),
    ],
)
def test_intervals_hold(kind: str, neighbours: str) -> None:
    """Quantiles that were named, and one that was not, of all and of a group. A true law fails once
    in 10^6 for each quantile and level.
    """
    asked = [(0.5, ""), (0.9, ""), (0.7, ""), (0.5, "WHERE sex = 'f'")]
    held = np.zeros((len(asked), len(LEVELS)), int)
    for seed in range(SEEDS):
        release = publish(kind, seed=seed, groups=["sex"], neighbours=neighbours)
        for place, (share, where) in enumerate(asked):
            answer = release.answer(f"SELECT QUANTILE_DISC(pay, {share}) FROM t {where}")
            true = truth(kind, 400, share, "f" if where else None)
            limits = [answer.interval(level) for level in LEVELS]
            held[place] += [low <= true <= high for low, high in limits]
    for place, level in enumerate(LEVELS):
        assert held[:, place].min() >= least(level, SEEDS), level


def test_a_heap_has_bins_of_its_own() -> None:
    """The median of rows of which 80 % have one amount is this amount."""
    rows = pa.table({"pay": [2500] * 800 + list(range(0, 10_000, 50)), "sex": ["f"] * 1000})
    made = sc.Quantiles("pay", epsilon=1, neighbours="replace")
    release = sc.publish(rows, schema(), made, options=sc.PublishOptions(seed=1))
    answer = release.answer("SELECT MEDIAN(pay) FROM t")
    assert (answer.value, *answer.interval(0.95)) == (2500, 2500, 2500)


def test_incomes_of_real_people(shared_data: Path) -> None:
    """Incomes in twelve classes: the median is one of them, and so are the ends of its interval."""
    column = "AnnualHouseholdIncome"
    rows = pacsv.read_csv(shared_data / "nhanes_2017_2018_8366.csv").select([column])
    known = sc.Attribute(column, "sensitive", sc.Number(0, 150_000), missing=True)
    made = sc.Quantiles(column, epsilon=1, neighbours="replace")
    options = sc.PublishOptions(seed=1)
    release = sc.publish(rows, sc.Schema([known]), made, options=options)
    answer = release.answer(f"SELECT QUANTILE_DISC({column}, 0.5) FROM t")
    assert (answer.value, *answer.interval(0.95)) == (50_000, 50_000, 50_000)


def test_saved_and_opened(tmp_path: Path) -> None:
    release = publish(groups=["sex"])
    saved = sc.open(release.save(tmp_path / "release", insecure=True))
    for sql in ("SELECT sex, MEDIAN(pay) FROM t GROUP BY sex", "SELECT COUNT(*) FROM t"):
        assert repr(saved.answer(sql)) == repr(release.answer(sql))
    assert saved.schema["pay"].domain == release.schema["pay"].domain
    assert saved.answer("SELECT COUNT(*) FROM t").interval(0.95) == (400, 400)


def test_columns_stand_as_in_the_schema() -> None:
    release = publish(groups=["sex"])
    assert release.schema.names == ("pay", "sex")
    assert release.schema["pay"].number == sc.Number(0, 10_000)


def test_steps_and_not_the_bins_of_the_owner_are_cut() -> None:
    binned = schema().replace(
        sc.Attribute("pay", "sensitive", quantiles.BinnedNumber.equal(sc.Number(0, 10_000), 4))
    )
    made = sc.Quantiles("pay", epsilon=2, neighbours="replace")
    of_bins, of_steps = (
        sc.publish(table("smooth", 400), each, made, options=sc.PublishOptions(seed=1))
        for each in (binned, schema())
    )
    assert of_bins.schema["pay"].domain == of_steps.schema["pay"].domain


def test_conditions_that_nobody_satisfies_are_left_out_of_the_release() -> None:
    impossible = sc.Schema([PAY, SEX], impossible=("pay > 9999 AND sex = 'f'",))
    rows = pa.table({"pay": [1, 2, 3] * 20, "sex": ["f", "m", "f"] * 20})
    made = sc.Quantiles("pay", epsilon=1, neighbours="replace", groups="sex")
    release = sc.publish(rows, impossible, made, options=sc.PublishOptions(seed=1))
    assert not release.schema.impossible
    assert release.answer("SELECT MEDIAN(pay) FROM t").value >= 0


def test_a_domain_of_a_trillion_steps() -> None:
    wide = sc.Schema([sc.Attribute("pay", "sensitive", sc.Number(0, 10**10, 0.01)), SEX])
    made = sc.Quantiles("pay", epsilon=2, neighbours="replace")
    release = sc.publish(table("smooth", 400), wide, made, options=sc.PublishOptions(seed=1))
    low, high = release.answer("SELECT QUANTILE_DISC(pay, 0.5) FROM t").interval(0.95)
    assert low <= truth("smooth", 400, 0.5) <= high


@pytest.mark.parametrize(
    ("attribute", "sentence"),
    [
        (SEX, "must be of the type number or integer"),
        (sc.Attribute("pay", "quasi", sc.IntegerRange(0, 1)), "at least three values"),
        (sc.Attribute("pay", "quasi", sc.Number(0, 1 << 41)), "takes at most 2.40"),
    ],
)
def test_columns_that_have_no_quantiles(attribute: sc.Attribute, sentence: str) -> None:
    made = sc.Quantiles(attribute.name, epsilon=1, neighbours="replace")
    with pytest.raises((sc.SchemaError, sc.ParameterError), match=sentence):
        sc.publish("no such file.csv", sc.Schema([attribute]), made)


def test_people_with_several_rows() -> None:
    """Noise and cuts are for three rows of a person, and so is the distance of the cuts."""
    one, three = (
        sc.Quantiles("pay", epsilon=1, neighbours="replace", contribution=rows) for rows in (1, 3)
    )
    assert three.law(sized=False).scale == 3 * one.law(sized=False).scale
    [near], [far] = (each.outlook(schema()) for each in (one, three))
    assert near != far

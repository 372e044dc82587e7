"""Moments: sums of products of amounts, their noise, and the variances that they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.summary_plans import worst_pair
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit
from scumble.model.schema.amounts import Amounts, Products
from scumble.model.schema.domains import BinnedNumber
from scumble.private.mechanism import Summary
from scumble.private.meter.noise import NoisySteps
from scumble.private.tables.counter import RowCounter, SumsBy
from scumble.private.tables.rows import Rows
from tests.support.covered import LEVELS, least

SQUARE, BOTH = ("pay*pay",), ("pay*pay", "fee*fee", "pay*fee")
BY: dict[str, Callable[..., Summary]] = {
    "histogram": lambda **given: sc.Histogram(["a", "b"], **given),
    "hierarchy": lambda **given: sc.Hierarchy(["a", "b"], **given),
    "wavelet": lambda **given: sc.Wavelet(["a", "b"], transform="all", **given),
    "marginals": lambda **given: sc.Marginals(["a", "b"], ways=2, **given),
    "datacube": lambda **given: sc.Datacube(["a", "b"], **given),
    "quadtree": lambda **given: sc.Quadtree(["a", "b"], **given),
    "by columns": lambda **given: sc.Histogram(["a", "b"], sum_ways=1, **given),
}


def _schema(*, missing: bool = False, pays: int = 4, fees: int = 3) -> sc.Schema:
    cells = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 1)) for name in "ab"]
    pay = sc.Attribute("pay", "sensitive", sc.IntegerRange(-1, pays - 2), missing=missing)
    fee = sc.Attribute("fee", "sensitive", sc.Number(5, 5 + 0.5 * (fees - 1), 0.5))
    return sc.Schema([*cells, pay, fee])


def _people(rows: int, *, missing: bool = False, pays: int = 4, fees: int = 3) -> pa.Table:
    rng = np.random.default_rng(3)
    gone = rng.random(rows) < (0.3 if missing else 0.0)
    pay = rng.integers(0, pays, rows)
    fee = np.minimum(pay * fees // pays, rng.integers(0, fees, rows))
    return pa.table(
        {
            "a": rng.integers(0, 2, rows),
            "b": rng.integers(0, 2, rows),
            "pay": pa.array(pay - 1, mask=gone),
            "fee": 5 + 0.5 * fee,
        }
    )


def _published(
    table: pa.Table, schema: sc.Schema, name: str, seed: int = 1, **given: object
) -> sc.Release:
    known = {"sums": ["pay", "fee"], "moments": BOTH, "epsilon": 1, "neighbours": "replace"}
    mechanism = BY[name](**{**known, **given})
    return sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed))


# Products of amounts.


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (4, 3), (5, 2), (6, 9)])
def test_the_limits_of_products_are_attained(sizes: tuple[int, int]) -> None:
    """Of all pairs of values: what a row adds is at most `largest`, with either sign, and what one
    of two rows adds differs by at most twice that, and by no less than one below it.
    """
    pay, fee = (
        Amounts(name, Fraction(-3), Fraction(1), size, missing=False)
        for name, size in zip(("pay", "fee"), sizes, strict=True)
    )
    for products in (Products.made(pay, fee), Products.made(pay, pay), Products.made(fee, fee)):
        columns = np.indices([{"pay": sizes[0], "fee": sizes[1]}[n] for n in products.columns])
        added = products.steps(*(each.ravel() for each in columns))
        assert np.abs(added).max() <= products.largest
        assert 2 * products.largest - 1 <= max(int(np.ptp(added)), 1) <= 2 * products.largest
        assert np.ptp(added) == products.size - 1


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["histogram", "hierarchy", "marginals", "by columns"])
def test_the_exact_loss_is_what_is_promised(
    name: str, missing: bool, neighbours: Neighbours
) -> None:
    """Between all neighbours of tiny tables: never more than ε."""
    schema = _schema(missing=missing, pays=3)
    mechanism = BY[name](sums=["pay"], moments=SQUARE, epsilon=1, neighbours=neighbours)
    found = worst_pair(mechanism, schema, neighbours, 1)
    assert found is not None
    assert Fraction(1, 3) <= found.loss.epsilon <= 1


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_the_limits_of_one_factor_are_refuted(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin whose noise is that of one factor loses more than ε, by brute force."""
    given = {"sums": ["pay", "fee"], "moments": ["pay*fee"], "sum_share": 0.9}
    mechanism = sc.Histogram(["a"], epsilon=1, neighbours=neighbours, **given)
    schema = _schema(pays=5, fees=5)
    honest = worst_pair(mechanism, schema, neighbours, 1)
    assert honest is not None
    assert 0.8 <= honest.loss.epsilon <= 1
    largest = property(lambda products: products.factors[0].largest)
    monkeypatch.setattr(Products, "largest", largest)
    twin = worst_pair(mechanism, schema, neighbours, 1)
    assert twin is not None
    assert twin.loss.epsilon > 1.2


def test_sums_by_cells() -> None:
    schema, table = _schema(missing=True), _people(300, missing=True)
    square = Products.of(schema, "pay", "pay")
    plain = Amounts.of(schema, "pay")
    sets = [SumsBy(("a", "b"), square), SumsBy(("b",), square, True), SumsBy((), square)]
    sums, present, whole = RowCounter(Rows(table, schema)).counts(sets, PrivacyUnit("replace"))
    rows = [row for row in table.to_pylist() if row["pay"] is not None]
    for place, (a, b) in enumerate(np.ndindex(2, 2)):
        own = [r["pay"] for r in rows if (r["a"], r["b"]) == (a, b)]
        assert sums[place] == sum((pay - plain.middle) ** 2 - square.low for pay in own)
    assert present.tolist() == [sum(r["b"] == b for r in rows) for b in range(2)]
    assert whole[0] == sums.sum()


# What they answer.


def _truths(table: pa.Table, *, missing: bool) -> dict[str, float]:
    pay, fee, a, b = (np.array(table[name].to_pylist(), float) for name in ("pay", "fee", "a", "b"))
    known = ~np.isnan(pay)
    pay, one = pay[known], a[known] == 1
    truths = {
        "SUM(pay * pay)": (pay**2).sum(),
        "AVG(pay * pay)": (pay**2).mean(),
        "AVG((pay - 1) * (2 * pay + 1))": ((pay - 1) * (2 * pay + 1)).mean(),
        "SUM(pay * pay) FILTER (WHERE a = 1)": (pay[one] ** 2).sum(),
        "VAR_POP(pay)": pay.var(),
        "VAR_SAMP(pay)": pay.var(ddof=1),
        "STDDEV(pay)": pay.std(ddof=1),
        "STDDEV_SAMP(pay / 2)": pay.std(ddof=1) / 2,
        "STDDEV_POP(pay) FILTER (WHERE a = 1)": pay[one].std(),
        "STDDEV_POP(fee)": fee.std(),
    }
    if not missing:
        truths |= {
            "SUM(pay * fee)": (pay * fee).sum(),
            "AVG(pay + fee)": (pay + fee).mean(),
            "COVAR_POP(pay, fee)": np.cov(pay, fee, bias=True)[0, 1],
            "COVAR_SAMP(fee, pay) FILTER (WHERE a = 1)": np.cov(pay[one], fee[one])[0, 1],
            "COVAR_POP(pay, b)": np.cov(pay, b, bias=True)[0, 1],
            "CORR(pay, fee)": np.corrcoef(pay, fee)[0, 1],
            "CORR(fee, pay) FILTER (WHERE a = 1)": np.corrcoef(pay[one], fee[one])[0, 1],
            "CORR(pay, b)": np.corrcoef(pay, b)[0, 1],
            "REGR_R2(pay, fee)": np.corrcoef(pay, fee)[0, 1] ** 2,
            "REGR_SLOPE(pay, fee)": np.polyfit(fee, pay, 1)[0],
            "REGR_INTERCEPT(pay, fee)": np.polyfit(fee, pay, 1)[1],
            "REGR_INTERCEPT(2 * fee, pay - 1)": np.polyfit(pay - 1, 2 * fee, 1)[1],
        }
    return truths


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "histogram" else pytest.mark.soak) for name in BY],
)
def test_answers_without_noise_are_the_truth(
    name: str, missing: bool, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """All sums are linear in noise of mean 0, so that this shows that they have no bias."""
    monkeypatch.setattr(NoisySteps, "add", lambda *_: None)
    table, schema = _people(400, missing=missing), _schema(missing=missing)
    moments = ["pay*pay", "fee * fee"] if missing else BOTH
    release = _published(table, schema, name, moments=moments, epsilon=20)
    truths = _truths(table, missing=missing)
    questions = [f"SELECT {each} FROM t" for each in truths]
    together = release.ask_many(questions)
    for question, truth, same in zip(questions, truths.values(), together, strict=True):
        with subtests.test(question=question):
            found = release.ask(question)
            assert float(found) == pytest.approx(truth)
            low, high = found.interval(0.99)
            assert low <= truth <= high
            assert repr(found) == repr(same)
    groups = dict(release.ask("SELECT a, AVG(pay * pay) FROM t GROUP BY a").rows)
    for value in (0, 1):
        one = release.ask(f"SELECT AVG(pay * pay) FROM t WHERE a = {value}")
        assert float(groups[value,]) == pytest.approx(float(one))
        assert groups[value,].interval() == pytest.approx(one.interval())


def test_conditions_on_the_column_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number with edges is among the attributes, and its squares are measured as well."""
    monkeypatch.setattr(NoisySteps, "add", lambda *_: None)
    rng = np.random.default_rng(5)
    pay, b = rng.integers(0, 101, 500), rng.integers(0, 2, 500)
    domain = BinnedNumber((0, 25, 50, 100), sc.Number(0, 100))
    schema = sc.Schema([sc.Attribute("pay", "sensitive", domain), _schema()["b"]])
    mechanism = sc.Histogram(
        ["pay", "b"], sums=["pay"], moments=SQUARE, epsilon=1, neighbours="replace"
    )
    table = pa.table({"pay": pay, "b": b})
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    some = pay >= 25
    truths = {
        "STDDEV_POP(pay) FROM t": pay.std(),
        "STDDEV_POP(pay) FROM t WHERE pay >= 25": pay[some].std(),
        "COVAR_POP(pay, b) FROM t WHERE pay >= 25": np.cov(pay[some], b[some], bias=True)[0, 1],
    }
    for question, truth in truths.items():
        found = release.ask(f"SELECT {question}")
        assert float(found) == pytest.approx(truth)
        assert found.bounds is None


LAWS = ("STDDEV_POP(pay) FILTER (WHERE a = 1)", "COVAR_POP(pay, fee)", "CORR(pay, fee)")


def _check_coverage(
    name: str, asked: Sequence[str], seeds: int, rows: int, **given: object
) -> npt.NDArray[np.int64]:
    """Releases are independent, the questions of one are not: each question is counted by itself.
    It fails by chance once in a million (see `covered.FALSE_ALARM`). Where there is no number, the
    interval has all that there can be.
    """
    sizes = {"pays": 40, "fees": 11}
    table, schema = _people(rows, **sizes), _schema(**sizes)
    everything = _truths(table, missing=False)
    truths = {f"SELECT {each} FROM t": everything[each] for each in asked}
    held = np.zeros((len(truths), len(LEVELS)), np.int64)
    for seed in range(seeds):
        release = _published(table, schema, name, seed, **given)
        answers = release.ask_many(list(truths))
        for at, (found, truth) in enumerate(zip(answers, truths.values(), strict=True)):
            for place, level in enumerate(LEVELS):
                low, high = found.interval(level)
                held[at, place] += low <= truth <= high
    for place, level in enumerate(LEVELS):
        assert held[:, place].min() >= least(level, seeds), (level, held)
    return held


def test_intervals_hold() -> None:
    """Of correlations and regressions, see tests/public/estimation/test_regressions.py."""
    _check_coverage("marginals", LAWS[:2], 25, 200, epsilon=4, delta=1e-6)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_intervals_of_formulas_hold() -> None:
    _check_coverage("marginals", LAWS, 25, 200, epsilon=4, delta=1e-6)


# What is refused, and what the release says.


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"moments": ["pay"]}, "products of two of its sums"),
        ({"moments": [2]}, "products of two of its sums"),
        ({"moments": ["pay*fee"]}, "products of two of its sums"),
        ({"sums": [], "moments": ["pay*pay"]}, "products of two of its sums"),
        ({"moments": ["pay*pay", "pay * pay"]}, "a list of different products"),
        ({"sums": ["pay", "far"], "moments": ["far*far"]}, "choose nearer limits or a larger step"),
        ({"sums": ["pay", "gone"], "moments": ["gone*pay"]}, "one may be missing"),
    ],
)
def test_bad_parameters(given: dict, sentence: str) -> None:
    far = sc.Attribute("far", "sensitive", sc.Number(0, 10_000_000))
    gone = sc.Attribute("gone", "sensitive", sc.Number(0, 10), missing=True)
    schema = sc.Schema([*_schema(), far, gone])
    table = _people(20).append_column("far", pa.array([1.0] * 20))
    table = table.append_column("gone", pa.array([1.0] * 20))
    given = {"sums": ["pay"], "epsilon": 1, "neighbours": "replace", **given}
    with pytest.raises(sc.ScumbleError, match=sentence):
        sc.publish(table, schema, sc.Histogram(["a"], **given))


def test_a_moment_that_was_not_measured_is_named() -> None:
    release = _published(_people(50), _schema(), "histogram", moments=SQUARE)
    release.ask("SELECT STDDEV(pay) FROM t")
    for question, moment in (("STDDEV(fee)", "fee.fee"), ("COVAR_POP(pay, fee)", "pay.fee")):
        with pytest.raises(sc.QueryError, match=f"only sums were measured, and none of '{moment}'"):
            release.ask(f"SELECT {question} FROM t")


def test_no_number_where_a_variance_may_be_zero() -> None:
    release = _published(_people(60), _schema(), "histogram")
    for name, ends in (
        ("CORR", (-1, 1)),
        ("REGR_SLOPE", (-math.inf, math.inf)),
        ("REGR_R2", (0, 1)),
    ):
        found = release.ask(f"SELECT {name}(pay, fee) FROM t WHERE a = 1 AND b = 0")
        assert found.reason == "too few people"
        assert found.interval() == ends
        assert any("may be 0" in note for note in found.notes)


@pytest.mark.timeout(60)  # their limits would take an hour
def test_many_columns_are_refused_where_bins_are_cut() -> None:
    names = [f"n{place}" for place in range(24)]
    ages = sc.BinnedNumber.of(sc.Number(0, 100), (50,))
    numbers = [sc.Attribute(name, "sensitive", sc.IntegerRange(0, 4)) for name in names]
    schema = sc.Schema([sc.Attribute("age", "quasi", ages), *numbers])
    table = pa.table({"age": [10.0, 60.0], **{name: [1, 2] for name in names}})
    given = {"sums": names, "epsilon": 1, "neighbours": "replace"}
    release = sc.publish(table, schema, sc.Histogram(["age"], **given))
    with pytest.raises(sc.QueryError, match="at most 8 columns"):
        release.ask(f"SELECT SUM({' + '.join(names)}) FROM t WHERE age < 30")


def test_boxes_that_are_cut_are_refused() -> None:
    schema = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 9999)), *_schema()])
    table = _people(400).append_column("age", pa.array(np.arange(400) * 25))
    given = {"sums": ["pay"], "moments": SQUARE, "epsilon": 1, "neighbours": "replace"}
    options = sc.PublishOptions(seed=1)
    release = sc.publish(table, schema, sc.Grid(["age", "a"], **given), options=options)
    release.ask("SELECT AVG(pay * pay) FROM t")
    with pytest.raises(sc.QueryError, match="cuts boxes"):
        release.ask("SELECT AVG(pay * pay) FROM t WHERE age < 4321")


def test_saved_and_opened(tmp_path: Path) -> None:
    """The release says what was measured, and its loss is that of its parameters."""
    table, schema = _people(200, missing=True), _schema(missing=True)
    release = _published(table, schema, "histogram", moments=SQUARE)
    release.save(tmp_path / "out", insecure=True)
    opened = sc.open(tmp_path / "out")
    evidence = opened.evidence
    assert isinstance(evidence, Measurements)
    assert (evidence.sum_columns, evidence.moments) == (("pay", "fee"), ("pay*pay",))
    question = "SELECT STDDEV(pay) FROM t WHERE a = 1"
    assert repr(opened.ask(question)) == repr(release.ask(question))
    assert "pay*pay" in repr(opened)
    evidence = Measurements.from_dict(evidence.to_dict())
    assert evidence == opened.evidence

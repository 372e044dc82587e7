"""The error to expect of a count of a tenth of the rows, against the standard error that a release
of a random table states.

The table has a seed, and so has the noise: nothing here can fail by chance. The stated standard
error is estimated from the release, which is within a few percent of the formula.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private import expectation
from scumble.private.mechanism import mechanisms
from tests.support.mechanisms.conformance_cases import CASES

AGES, JOBS, ROWS = 100, 40, 10_000
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, AGES - 1)),
        sc.Attribute("shop", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("job", "sensitive", sc.IntegerRange(0, JOBS - 1)),
    )
)
WHO = {"epsilon": 1, "neighbours": "add_remove"}
OVER = ["age", "shop"]
BY_JOB = "SELECT COUNT(*) FROM t WHERE job < 4"
BY_AGE = "SELECT COUNT(*) FROM t WHERE age BETWEEN 45 AND 54"


def random_table(rows: int = ROWS, *, different: bool = False) -> pa.Table:
    """Rows drawn uniformly from the domain, with replacement or all different."""
    noise = np.random.default_rng(1)
    keys = noise.choice(AGES * 10 * JOBS, rows, replace=not different)
    return pa.table({"age": keys // 400, "shop": keys // 40 % 10, "job": keys % 40})


def test_formulas_foretell_the_stated_error(subtests):
    for mechanism, asked in [
        (sc.Uniform(epsilon=2), BY_JOB),
        (sc.Uniform(keep=0.2), BY_JOB),
        (sc.Subset(epsilon=1), BY_JOB),
        (sc.Subset(epsilon=2, size=3), BY_JOB),
        (sc.Frapp(epsilon=8), BY_AGE),
        (sc.Frapp(keep=0.5), BY_JOB),
        (sc.Aroma(k=20), BY_JOB),
        (sc.Partition(rho1=0.03, rho2=0.2), BY_JOB),
        (sc.Histogram(OVER, **WHO), BY_AGE),
        (sc.Hierarchy(OVER, **WHO), BY_AGE),
        (sc.Hierarchy(OVER, delta=1e-6, **WHO), BY_AGE),
        (sc.Wavelet(OVER, transform="all", **WHO), BY_AGE),
        (sc.Workload(OVER, queries=[BY_AGE], **WHO), BY_AGE),
    ]:
        with subtests.test(mechanism=mechanism, asked=asked):
            foretold = mechanism.expected_error(SCHEMA, ROWS)
            stated = (
                sc.publish(random_table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
                .answer(asked)
                .stderr
            )
            assert foretold == pytest.approx(stated, rel=0.1)


def test_tuples_among_false_ones(subtests):
    for mechanism in [
        sc.AlphaBeta(epsilon=1),
        sc.AlphaBeta(epsilon=4),
        sc.AlphaBeta(alpha=0.3, beta=0.01),
        sc.AlphaBeta(k=2, gamma=0.5),
        sc.AlphaBeta(d=0.001, gamma=0.2, views=2),
    ]:
        with subtests.test(mechanism=repr(mechanism)):
            rows = 3_000
            foretold = mechanism.expected_error(SCHEMA, rows)
            release = sc.publish(
                random_table(rows, different=True),
                SCHEMA,
                mechanism,
                options=sc.PublishOptions(seed=1),
            )
            for asked in (BY_AGE, BY_JOB):
                assert foretold == pytest.approx(release.answer(asked).stderr, rel=0.1)


def test_what_is_tried_is_what_comes_out(subtests):
    """What the release depends on of the data is drawn anew: half as much again is allowed."""
    for mechanism in [
        sc.Marginals(OVER, ways=1, **WHO),
        sc.Datacube(OVER, **WHO),
        sc.Quadtree(OVER, **WHO),
        sc.KdTree(["age"], **WHO),
        sc.PrivTree(["age"], **WHO),
        sc.Mosaic(["age"], **WHO),
        sc.Grid(OVER, **WHO),
        sc.Sparse(OVER, rule="threshold", **WHO),
    ]:
        with subtests.test(mechanism=repr(mechanism)):
            found = expectation.expected(mechanism, SCHEMA, ROWS)
            assert found.tried
            release = sc.publish(
                random_table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=2)
            )
            low, high = release.answer(BY_AGE).interval(0.95)
            assert 2 / 3 <= found.reach / ((high - low) / 2) <= 3 / 2


def test_every_mechanism_foretells_an_error(subtests):
    for name in CASES:
        with subtests.test(name=name):
            mechanism, schema = CASES[name].make(), CASES[name].schema
            sentences = expectation.expectation(mechanism, schema, 1_000)
            words = (
                ("no noise is added",) if name.startswith("generalise") else ("±", "tandard error")
            )
            assert any(word in sentence for sentence in sentences for word in words)
            assert all(sentence.endswith(".") for sentence in sentences)


def test_all_mechanisms_are_among_the_cases():
    of_columns = {name for name, kind in mechanisms().items() if not kind.of_lists}
    assert {CASES[name].make().name for name in CASES} == of_columns


def test_an_answer_that_says_nothing_is_warned_of():
    """AlphaBeta at ε = 1 inserts so many false rows that a count of 300 is off by hundreds."""
    thin = sc.publish(
        random_table(300, different=True),
        SCHEMA,
        sc.AlphaBeta(epsilon=1),
        options=sc.PublishOptions(seed=1),
    )
    [warning] = [each for each in thin.remarks if each.startswith(expectation.LOUD)]
    assert "of 300 rows, a count of 30 by ±" in warning
    reach = float(warning.partition("±")[2].partition(". ")[0].replace(",", ""))
    assert reach > thin.answer(BY_AGE).stderr > 30
    fine = sc.publish(
        random_table(), SCHEMA, sc.Uniform(keep=0.5), options=sc.PublishOptions(seed=1)
    )
    assert not any(each.startswith(expectation.LOUD) for each in fine.remarks)


def test_a_histogram_of_ten_million_cells_is_warned_of():
    wide = sc.Schema((sc.Attribute("id", "quasi", sc.IntegerRange(0, 10**7 - 1)),))
    assert expectation.hopeless(sc.Histogram(["id"], **WHO), wide, 1_304)
    assert expectation.hopeless(sc.Histogram(["id"], **WHO), wide, 10_000)
    assert not expectation.hopeless(sc.Histogram(["id"], **WHO), wide, 100_000)


def test_only_a_public_number_of_rows_is_used():
    """Under add_remove the number of rows is private, and the sentence speaks of 10,000."""
    assert expectation.public_rows(sc.Histogram(OVER, **WHO), 123) == expectation.TYPICAL
    replaced = sc.Histogram(OVER, epsilon=1, neighbours="replace")
    assert expectation.public_rows(replaced, 123) == 123
    several = sc.Histogram(OVER, epsilon=1, neighbours="replace", contribution=2)
    assert expectation.public_rows(several, 123) == expectation.TYPICAL
    assert expectation.public_rows(sc.Uniform(epsilon=1), 123) == 123
    assert expectation.public_rows(sc.Uniform(epsilon=1), None) == expectation.TYPICAL

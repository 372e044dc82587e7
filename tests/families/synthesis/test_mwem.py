"""Mwem: its loss by enumeration, the laws of measured counts, and what only the model answers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.synthesis.design import fit_model
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimate import Exact, Unknown
from tests.support.people import people, schema

QUERIES = [
    "SELECT COUNT(*) FROM t WHERE age < 5",
    "SELECT job, COUNT(*) FROM t GROUP BY job",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
]
OVER = ["age", "sex", "job"]


def mwem(**changed) -> sc.Mwem:
    given = {"queries": QUERIES, "epsilon": 1, "neighbours": "add_remove", "rounds": 3} | changed
    return sc.Mwem(OVER, **given)


def _answers(counts: tuple[int, ...]) -> np.ndarray:
    """Two counts over three cells: the first cell, and the first two."""
    return np.array([counts[0], counts[0] + counts[1]])


def test_the_loss_of_two_rounds_by_enumeration():
    """All outputs of two rounds over three cells, each number within ±6 of the truth: for every
    output the log ratio of the densities of neighbours is at most ε. The loss of a number does not
    grow beyond, since its noise has tails of one slope.
    """
    epsilon, rounds = Fraction(1), 2
    each = float(epsilon * Fraction(19, 20) / (2 * rounds))
    sets = [np.array([0]), np.array([0, 1])]
    sizes = np.ones(3)

    def log_output(counts, total, picks, numbers) -> float:
        answers = _answers(counts)
        found = -abs(total - sum(counts)) * float(epsilon) / 20
        for done, (place, number) in enumerate(zip(picks, numbers, strict=True)):
            known = [sets[p] for p in picks[:done]]
            model = fit_model(sizes, float(total), known, list(map(float, numbers[:done])))
            scores = np.abs(answers - np.rint([model[s].sum() for s in sets]))
            weighted = each * scores / 2
            found += weighted[place] - np.logaddexp.reduce(weighted)
            found -= abs(number - answers[place]) * each
        return found

    worst = 0.0
    for counts, other in [((0, 0, 0), (1, 0, 0)), ((2, 1, 0), (2, 0, 0)), ((5, 0, 1), (5, 0, 0))]:
        for total, picks in product((-3, 4), product((0, 1), repeat=2)):
            for numbers in product(range(-6, 7, 4), repeat=2):
                one, two = (log_output(c, total, picks, numbers) for c in (counts, other))
                worst = max(worst, abs(one - two))
    assert 0.5 < worst <= float(epsilon) * (1 + 1e-9)


def test_measured_counts_have_the_law_of_their_noise(tmp_path):
    """120 runs of four rounds; of every count that was measured, the first measurement. A mean of
    five standard errors has probability 6e-7; so has a coverage of 8 % less than 90 %, for about
    400 numbers whose noise is independent.
    """
    known, table = schema(), people(300, schema())
    codes = [known[name].encode(table[name])[0] for name in OVER]
    keys = known.cell_keys(OVER).pack(codes).astype(np.int64)
    counts = np.bincount(keys, minlength=known.size(OVER))
    mechanism = mwem(rounds=4)
    noise, errors = Keystream(5), []
    merged = mechanism.questions(known).merged
    whole = TensorCounter(known, OVER, counts).counts([merged.names], mechanism.unit)[0]
    cells = merged.merge(whole)
    for _ in range(120):
        counter = TensorCounter(known, OVER, counts)
        private = PrivateTable(counter, BudgetAccount(mechanism.promise), noise)
        evidence = mechanism.measure(private, tmp_path)
        seen = set()
        rows = pq.read_table(tmp_path / evidence.file).to_pylist()
        for row in rows[1:]:
            if tuple(row["cells"]) not in seen:
                seen.add(tuple(row["cells"]))
                errors.append(row["noisy"] - int(cells[row["cells"]].sum()))
    law = evidence.design.noise
    assert len(errors) > 300
    assert abs(np.mean(errors)) < 5 * law.stderr / math.sqrt(len(errors))
    assert np.mean(np.abs(errors) <= law.half_width(0.9)) > 0.82
    assert 0.6 < np.var(errors) / law.variance < 1.5


def test_the_number_of_rows_is_measured_or_known():
    added = sc.publish(people(300, schema()), schema(), mwem(), options=sc.PublishOptions(seed=1))
    assert added.evidence.rows is None
    assert added.answer("SELECT COUNT(*) FROM t").stderr == pytest.approx(28.28, rel=0.01)
    replaced = sc.publish(
        people(300, schema()),
        schema(),
        mwem(neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert replaced.answer("SELECT COUNT(*) FROM t").law == Exact()
    # With the number of rows, a measured count also tells the others.
    assert replaced.evidence.rows == 300
    counted = [
        (replaced.answer(f"SELECT COUNT(*) FROM t WHERE {one}"), other)
        for one, other in (("age < 5", "age >= 5"), ("job = 'cook'", "job <> 'cook'"))
    ]
    known = [(one, other) for one, other in counted if not isinstance(one.law, Unknown)]
    assert known
    for one, other in known:
        rest = replaced.answer(f"SELECT COUNT(*) FROM t WHERE {other}")
        assert one.value + rest.value == 300
        assert one.stderr == rest.stderr


def test_the_model_has_no_interval(tmp_path):
    release = sc.publish(people(300, schema()), schema(), mwem(), options=sc.PublishOptions(seed=1))
    found = release.answer("SELECT COUNT(*) FROM t WHERE age = 3 AND sex = 'f'")
    assert isinstance(found.law, Unknown)
    assert found.method.startswith("model")
    assert "not known" in found.notes[0]
    assert found.interval(0.5) == (-math.inf, math.inf)
    assert release.answer("SELECT COUNT(*) FROM t WHERE age > 50").value == 0
    assert isinstance(release.answer("SELECT AVG(age) FROM t").law, Unknown)
    assert math.isnan(release.answer("SELECT AVG(age) FROM t WHERE age > 50").value)
    saved = sc.open(release.save(tmp_path / "view", insecure=True))
    assert repr(saved.answer("SELECT AVG(age) FROM t")) == repr(
        release.answer("SELECT AVG(age) FROM t")
    )


def test_a_count_is_read_from_its_first_measurement():
    """One question, measured in every round: later numbers only move the model."""
    query = ["SELECT COUNT(*) FROM t WHERE age < 5"]
    release = sc.publish(
        people(300, schema()),
        schema(),
        mwem(queries=query, rounds=4),
        options=sc.PublishOptions(seed=1),
    )
    total, first, *others = pq.read_table(release.folder / "sums.parquet")["noisy"].to_pylist()
    assert len(others) == 3
    assert len({first, *others}) > 1
    assert release.answer(query[0]).value == first
    assert release.answer("SELECT COUNT(*) FROM t").value == total


def test_the_model_fits_what_was_measured():
    sets = [np.array([0, 1]), np.array([1, 2])]
    model = fit_model(np.array([1.0, 1.0, 2.0, 4.0]), 100.0, sets, [30.0, 50.0])
    assert model.sum() == pytest.approx(100)
    assert [model[each].sum() for each in sets] == pytest.approx([30, 50], abs=1)
    assert fit_model(np.ones(2), -5.0, [], []).tolist() == [0.5, 0.5]


def test_more_rounds_than_counts_and_few_people():
    release = sc.publish(
        pa.table({"age": [1], "sex": ["f"], "job": ["cook"]}),
        schema(),
        mwem(rounds=20),
        options=sc.PublishOptions(seed=1),
    )
    assert release.answer("SELECT COUNT(*) FROM t WHERE age < 5").stderr > 0

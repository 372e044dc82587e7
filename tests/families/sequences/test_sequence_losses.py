"""The loss of Sequences, exactly: people with several sequences, added, removed and replaced.

The outcome of every random step is fixed beforehand, whatever the data are. Its loss is the change
of the logarithm of its probability: of splits by the law of their noise, of noisy counts at most
the change of the counts in units of the scale.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.lists import ListDomain
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows

MODELS = [
    {"model": "suffix"},
    {"model": "suffix", "weigh": "symbol"},
    {"model": "prefix", "depth": 2},
    {"model": "grams", "depth": 2, "weigh": "symbol"},
    {"model": "grams", "depth": 3},
]
SEQUENCES = [list(each) for n in range(5) for each in itertools.product((0, 1), repeat=n)]
SCHEMA = sc.Schema(
    [
        sc.Attribute("who", "identifier"),
        sc.Attribute("x", "sensitive", ListDomain("sequence", sc.IntegerRange(0, 1))),
    ]
)
_GROWN = 4  # random steps of which the outcome grows a tree

Row = tuple[str, list[int]]


class FixedOutcome(NoisySteps):
    """Steps with outcomes that depend on `number` alone, and what is needed for their loss."""

    def __init__(self, number: int) -> None:
        super().__init__(Keystream(1))
        self.number = number
        self.counts: list[np.ndarray] = []  # in units of the scale of their noise
        self.decisions = 0.0  # the logarithm of the probability of all of them
        self.steps = 0

    def _drawn(self, size: int, share: float) -> np.ndarray:
        self.steps += 1
        random = np.random.default_rng([self.number, self.steps])
        return random.random(size) < (share if self.steps <= _GROWN else 0.0)

    def add(self, numbers, law) -> None:
        self.counts.append(numbers.reshape(-1) / float(law.scale))

    def above_zero(self, numbers, law, allowed):
        passed = self._drawn(len(numbers), 0.9) & allowed
        self.decisions += _log_probability(numbers, law, passed)[allowed].sum()
        return passed

    def split_children(self, keys, numbers, law, rest, size):
        passed, every = self._drawn(size, 0.7), np.full(size, rest)
        every[keys] = numbers
        self.decisions += _log_probability(every, law, passed).sum()
        return np.flatnonzero(passed)


def _log_probability(numbers: np.ndarray, law: DiscreteLaplace, passed: np.ndarray) -> np.ndarray:
    """Of number + noise > 0 where it is `passed`, and of the contrary elsewhere."""
    ratio = np.exp(-1 / float(law.scale))
    tail = ratio ** np.abs(np.where(numbers <= 0, 1 - numbers, numbers)) / (1 + ratio)
    return np.log(np.where((numbers <= 0) == passed, tail, 1 - tail))


def _steps(rows: list[Row], mechanism: sc.Sequences, number: int, folder: Path) -> FixedOutcome:
    people, lists = [who for who, _ in rows], [each for _, each in rows]
    table = pa.table(
        {"who": pa.array(people, pa.string()), "x": pa.array(lists, pa.list_(pa.int64()))}
    )
    counter = RowCounter(Rows(table, SCHEMA))
    private = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(1))
    private._noise = FixedOutcome(number)
    mechanism.measure(private, folder)
    return private._noise


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_no_outcome_loses_more_than_epsilon(model, neighbours, tmp_path) -> None:
    """12 random tables of up to three people with up to three sequences, two of which count."""
    random = np.random.default_rng(3)
    mechanism = sc.Sequences(
        "x", epsilon=1, length=3, contribution=2, person="who", neighbours=neighbours, **model
    )
    largest = 0.0
    for number in range(12):

        def sequences(who: str) -> list[Row]:
            drawn = random.integers(len(SEQUENCES), size=random.integers(0, 4))
            return [(who, SEQUENCES[each]) for each in drawn]

        others = [row for who in "abc" for row in sequences(who)]
        tables = []
        for person in (sequences("z"), sequences("z") if neighbours == "replace" else []):
            rows = list(others)
            for row in person:
                rows.insert(random.integers(len(rows) + 1), row)
            tables.append(_steps(rows, mechanism, number, tmp_path))
        one, other = tables
        moved = sum(np.abs(a - b).sum() for a, b in zip(one.counts, other.counts, strict=True))
        loss = abs(one.decisions - other.decisions) + moved
        largest = max(largest, loss)
        assert loss <= 1 + 1e-9
    assert largest > 0.2  # the test could have seen a loss that is too large

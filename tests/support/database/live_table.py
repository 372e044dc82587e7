"""A small table for live databases, and states without a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.families.axes.publish import Dyadic
from scumble.model.designs.kronecker import ByLaw
from scumble.model.laws.distributions import RoundedNormal
from scumble.model.privacy.accounting import BudgetAccount, Neighbours
from scumble.private.database.live.state import LiveState, Purchase
from scumble.private.database.live.terms import UNITS, LiveTerms, base_of
from scumble.private.database.space import Space
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 19)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("dept", "quasi", sc.Category(tuple("abcde"))),
        sc.Attribute("pay", "quasi", sc.IntegerRange(0, 99)),
    ),
    unit=sc.Unit(),
)
ROWS = 4_000
OPTIONS: dict[str, Any] = {
    "epsilon": 1,
    "delta": 1e-9,
    "neighbours": "replace",
    "attributes": ["age", "sex", "dept"],
    "sums": ["pay"],
}


def table(seed: int = 0, rows: int = ROWS) -> pa.Table:
    """Return people at random."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(0, 20, rows),
            "sex": rng.choice(["f", "m"], rows, p=[0.4, 0.6]),
            "dept": rng.choice(list("abcde"), rows),
            "pay": rng.integers(0, 100, rows),
        }
    )


def domain(sizes: Sequence[int]) -> sc.Schema:
    """Return attributes of these sizes; every second one has no order."""
    return sc.Schema(
        tuple(
            sc.Attribute(
                f"a{place}",
                "quasi",
                sc.Category(tuple(map(str, range(size))))
                if place % 2
                else sc.IntegerRange(0, size - 1),
            )
            for place, size in enumerate(sizes)
        )
    )


def state_of(
    sizes: Sequence[int],
    counts: np.ndarray | None = None,
    seed: int = 0,
    *,
    neighbours: Neighbours = "replace",
    contribution: int = 1,
    largest_purchase: float = 0.125,
    terms: type[LiveTerms] = LiveTerms,
) -> tuple[LiveState, Dyadic]:
    """Return the state of a new database, of a table with these counts, and what measured it."""
    schema = domain(sizes)
    whole = Dyadic(
        schema.names, epsilon=1, delta=1e-6, neighbours=neighbours, contribution=contribution
    )
    base = base_of(whole, 0.5, ())
    design = base.design(schema)
    given = terms.read(whole, base, largest_purchase=largest_purchase, quotas=None, seeded=True)
    numbers, rows = np.zeros(design.size), None
    if base.unit.keeps_rows:
        rows = 0 if counts is None else int(counts.sum())
    if counts is not None:
        table = PrivateTable(
            TensorCounter(schema, schema.names, counts.reshape(-1)),
            BudgetAccount(base.promise),
            Keystream(seed),
        )
        sums = ByLaw(design)
        numbers = sums.ordered(table.counts(schema.names, base.unit).noisy(sums.laws, sums))
    return LiveState(given, Space(schema, schema.names), design, schema, numbers, rows), base


def measured(state: LiveState, purchase: Purchase, counts: np.ndarray, noise: Keystream) -> int:
    """Return the noisy count of a set of a table with these counts."""
    total = np.zeros(1, np.int64)
    for box in purchase.charged(state.space):
        total += int(counts[tuple(slice(low, high + 1) for low, high in box)].sum())
    NoisySteps(noise).add(total, RoundedNormal(state.terms.variance(purchase.units)))
    found = int(total[0])
    return (state.rows or 0) - found if purchase.complement else found


def assert_promise(database: sc.LiveDatabase) -> None:
    """The units at every point, added up from the journal alone, are those of the state, and within
    the promise.
    """
    sizes = database.space.sizes
    units = np.zeros(sizes, np.int64)
    for entry in database._journal.entries(after=1):
        for new in entry.payload["new"]:
            mask = np.zeros(sizes, bool)
            for term in new["set"]:
                codes = [
                    [code for low, high in runs for code in range(low, high + 1)] for runs in term
                ]
                mask[np.ix_(*codes)] = True
            units[~mask if new["complement"] else mask] += new["units"]
    assert units.max() == round(database.status().used * UNITS) <= UNITS
    state = database._state
    assert state is not None
    for point in np.ndindex(*sizes):
        box = np.array([[[code, code] for code in point]])
        assert state.tracker.room(box) == UNITS - units[point]


def assert_same(one: LiveState, other: LiveState) -> None:
    """Two states know the same, bit by bit."""
    assert (one.asked, one.purchases) == (other.asked, other.purchases)
    assert (one.tracker._counts == other.tracker._counts).all()
    assert one.readers.keys() == other.readers.keys()
    for name, mine in one.readers.items():
        count, others = mine.appended, other.readers[name]
        assert count == others.appended
        assert (mine._inverse[:count, :count] == others._inverse[:count, :count]).all()
        assert (mine._surprises[:count] == others._surprises[:count]).all()

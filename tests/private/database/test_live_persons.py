"""Live databases of tables where a person has several rows: c of each count, and are protected."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit
from scumble.private.database.live import database as live
from scumble.private.database.live.inspect import BASE
from scumble.private.database.live.state import Purchase
from scumble.private.database.live.terms import UNITS
from scumble.private.tables.open import open_source

DOMAINS = (
    sc.Attribute("who", "identifier"),
    sc.Attribute("age", "quasi", sc.IntegerRange(0, 3)),
    sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
)
OPTIONS: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "neighbours": "replace"}
LEFT_OUT = "counts at most 2 rows of each person; the others were left out"
QUESTIONS = [
    ("SELECT COUNT(*) FROM t WHERE age < 2", 12),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sex", 9),
    ("SELECT COUNT(*) FROM t WHERE age = 3 OR sex = 'f'", 15),
    ("SELECT age, sex, COUNT(*) FROM t GROUP BY ROLLUP(age, sex)", 8),
    ("SELECT COUNT(*) FROM t", 3),
]


def schema(most: int) -> sc.Schema:
    return sc.Schema(DOMAINS, unit=sc.Unit("who", most))


def visits(seed: int = 0, people: int = 60) -> pa.Table:
    """Return people with one to five rows each, in any order."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, 6, people))
    rng.shuffle(who)
    return pa.table(
        {
            "who": who,
            "age": rng.integers(0, 4, len(who)),
            "sex": rng.choice(["f", "m"], len(who)),
        }
    )


def other(table: pa.Table, person: int, rows: int, seed: int) -> pa.Table:
    """Return a table where one person has other rows, anywhere among the rows of the others; with
    0, none.
    """
    rng = np.random.default_rng(seed)
    rest = table.filter(pa.array(table.column("who").to_numpy() != person))
    new = pa.table(
        {
            "who": np.full(rows, person),
            "age": rng.integers(0, 4, rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )
    order = np.argsort([*np.arange(len(rest)), *rng.uniform(-1, len(rest), rows)], kind="stable")
    return pa.concat_tables([rest, new]).take(pa.array(order))


def kept(table: pa.Table, most: int) -> pa.Table:
    """The first rows of each person, one after the other."""
    seen: dict[int, int] = {}
    places = []
    for place, person in enumerate(table.column("who").to_pylist()):
        seen[person] = seen.get(person, 0) + 1
        if seen[person] <= most:
            places.append(place)
    return table.take(pa.array(places))


def bought(database: sc.LiveDatabase) -> list[Purchase]:
    entries = database._journal.entries(after=1)
    return [Purchase.from_dict(new) for entry in entries for new in entry.payload["new"]]


def test_the_same_rows_count_everywhere(tmp_path: Path) -> None:
    """In the base, in what is measured, and in a program that opens the folder. There is so little
    noise that the 80 rows too many of the table would be seen.
    """
    table, given = visits(), {**OPTIONS, "epsilon": 100, "base": 0.5, "largest_purchase": 0.9}
    truth = kept(table, 2)
    young = int((truth.column("age").to_numpy() < 2).sum())
    with sc.LiveDatabase.create(tmp_path / "db", table, schema(2), **given, seed=1) as database:
        assert database._counter.rows == len(truth) < len(table) - 60
        total = sc.open(tmp_path / "db" / BASE).ask("SELECT COUNT(*) FROM t")
        assert total.value == pytest.approx(len(truth), abs=5)
        answer = database.ask(QUESTIONS[0][0], within=1)
        assert answer.fresh[()].value == pytest.approx(young, abs=5)
        assert LEFT_OUT in answer.estimate.notes
        assert LEFT_OUT in answer.fresh[()].notes
        assert database.rows is None
        assert database.terms.unit == PrivacyUnit("replace", 2, "who")
        assert "At most 2 rows of each person are counted" in " ".join(database.remarks)
    with sc.LiveDatabase.open(tmp_path / "db", table, seed=1) as again:
        assert again.terms.unit == PrivacyUnit("replace", 2, "who")
        assert again.ask(QUESTIONS[0][0]).estimate.value == answer.estimate.value
    with pytest.raises(sc.LedgerError):
        sc.LiveDatabase.open(tmp_path / "db", other(table, 3, 2, 1), seed=1)


def test_the_schema_says_how_many_rows_count(tmp_path: Path) -> None:
    with pytest.raises(sc.ParameterError, match="most_rows = 2"):
        sc.LiveDatabase.create(tmp_path / "a", visits(), schema(2), **OPTIONS, contribution=3)
    nobody = visits().set_column(0, "who", pa.array([None] * len(visits()), pa.int64()))
    with pytest.raises(sc.DomainError, match="no identifier"):
        sc.LiveDatabase.create(tmp_path / "b", nobody, schema(2), **OPTIONS)
    with sc.LiveDatabase.create(tmp_path / "c", visits(), schema(2), **OPTIONS) as database:
        with pytest.raises(sc.QueryError, match="'who' is an identifier and is never published"):
            database.ask("SELECT COUNT(DISTINCT who) FROM t", within=5)
        assert not database.history()
    assert [each.name for each in tmp_path.iterdir()] == ["c"]


def test_an_owner_pays_once_for_all_rows_of_a_person(tmp_path: Path) -> None:
    ledger = sc.Ledger.create(
        tmp_path / "ledger", epsilon=1, delta=1e-5, neighbours="replace", contribution=5
    )
    made = sc.LiveDatabase.create(
        tmp_path / "db", visits(), schema(2), **OPTIONS, quotas={"ann": 0.5}, ledger=ledger
    )
    with made:
        assert [each.state for each in ledger.charges] == ["made"]


def shifts(
    neighbours: Neighbours, most: int, seed: int, place: Path, limited: PrivacyUnit | None
) -> Fraction:
    """The largest sum of squared shifts, in units of σ, of all that an analyst buys, over people
    whose rows are others; as a share of what purchases may have. `limited` says who has how many
    rows that count, if it is not the unit of the database.
    """
    table = visits(seed)
    made = sc.LiveDatabase.create(
        place / f"{neighbours}-{most}-{seed}",
        table,
        schema(most),
        **{**OPTIONS, "neighbours": neighbours},
        base=0.25,
        largest_purchase=0.999,
    )
    with made as database:
        for sql, within in QUESTIONS:
            database.ask(sql, within=within)
        terms, purchases = database.terms, bought(database)
        unit = limited or terms.unit
        names = database.space.names

        def counts(rows: pa.Table) -> list[int]:
            counter = live._counter(open_source(rows), database._base, names, "error", unit)
            return [sum(counter.counts(each.charged(database.space))) for each in purchases]

        now, found = counts(table), Fraction(0)
        for person in range(12):
            for rows in (1, 4, 5) if neighbours == "replace" else (0,):
                changed = counts(other(table, person, rows, person))
                total = sum(
                    (one - two) ** 2 * each.units
                    for one, two, each in zip(now, changed, purchases, strict=True)
                )
                found = max(found, total * terms.precision / UNITS)
        return found / (terms.mu2 - terms.base_mu2)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_shifts_by_all_rows_of_a_person_stay_within_the_promise(
    neighbours: Neighbours, most: int, tmp_path: Path
) -> None:
    share = shifts(neighbours, most, most, tmp_path, None)
    assert Fraction(1, 10) < share <= 1


def test_a_database_that_counts_all_rows_is_refuted(tmp_path: Path) -> None:
    assert shifts("add_remove", 1, 1, tmp_path, PrivacyUnit("add_remove", 5, "who")) > 1

"""Live databases: what they know, what they buy, and what their journal keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scumble as sc
from scumble.model.errors import (
    LedgerError,
    OutputExistsError,
    ParameterError,
    QueryError,
    ReleaseError,
)
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.database.live.inspect import BASE, LiveInspection
from scumble.private.journal.journal import Journal
from tests.support.database.live_table import (
    OPTIONS,
    ROWS,
    SCHEMA,
    assert_promise,
    assert_same,
    table,
)

RANGE = "SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 9 AND sex = 'f'"


def create(folder: Path, **options: Any) -> sc.LiveDatabase:
    return sc.LiveDatabase.create(folder, table(), SCHEMA, **{**OPTIONS, **options})


@pytest.fixture
def database(tmp_path: Path):
    with create(tmp_path / "db", seed=1) as found:
        yield found


def test_what_is_known_is_free(database: sc.LiveDatabase) -> None:
    """Everything that a release answers is answered, as the base by itself answers it."""
    base = sc.open(database._journal.place / BASE)
    for sql in (
        RANGE,
        "SELECT sex, dept, COUNT(*) FROM t WHERE age < 7 GROUP BY sex, dept",
        "SELECT AVG(age), SUM(age) FROM t WHERE dept = 'a'",
        "SELECT dept, AVG(pay) FROM t GROUP BY dept",
        "SELECT MEDIAN(age) FROM t",
        "SELECT 100.0 * COUNT(*) FILTER (WHERE sex = 'f') / COUNT(*) FROM t",
        "SELECT dept, COUNT(*) FROM t GROUP BY ROLLUP(dept) HAVING COUNT(*) > 9 ORDER BY 2 LIMIT 3",
    ):
        answer = database.ask(sql)
        assert (answer.status, answer.charged, answer.fresh) == ("known", 0, {})
        mine, others = _numbers(answer.estimate), _numbers(base.ask(sql))
        assert mine == pytest.approx(others, rel=1e-6, abs=1e-6)
    assert not database.history()


def _numbers(found: Any) -> list[float]:
    if isinstance(found, sc.Estimate):
        return [found.value, found.stderr]
    if isinstance(found, sc.Estimates):
        return [each for _, one in found.rows for each in (one.value, one.stderr)]
    return [each for _, row in found.rows for one in row for each in (one.value, one.stderr)]


def test_what_is_missing_is_bought_once(database: sc.LiveDatabase) -> None:
    before = database.ask(RANGE).half_width
    answer = database.ask(RANGE, within=before - 15)
    assert answer.status == "answered"
    assert before - 15.1 < answer.half_width <= before - 15 + 1e-6
    assert 0 < answer.charged < 0.125
    assert answer.fresh[()].value == round(answer.fresh[()].value)
    again = database.ask(RANGE, within=before - 15)
    assert (again.status, again.charged) == ("known", 0)
    assert again.estimate.value == answer.estimate.value
    assert [event.status for event in database.history()] == ["answered"]
    found = database.status()
    assert (found.answered, found.purchases, found.used) == (1, 1, answer.charged)


def test_what_is_not_allowed_is_limited(database: sc.LiveDatabase) -> None:
    first = database.ask(RANGE, within=1)
    assert first.status == "limited"
    assert first.charged == pytest.approx(0.125)
    assert first.needed > first.charged
    widths, charges = [first.half_width], [first.charged]
    for _ in range(30):
        answer = database.ask(RANGE, within=1)
        widths.append(answer.half_width)
        charges.append(answer.charged)
    assert widths == sorted(widths, reverse=True)
    assert charges[-1] == 0  # a tenth less variance is more than may be bought
    assert database.status().used < 1


def test_very_many_purchases_are_the_last(
    database: sc.LiveDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scumble.private.database.live.state.MOST_PURCHASES", 2)
    charges = [database.ask(RANGE, within=1).charged for _ in range(3)]
    assert [charge > 0 for charge in charges] == [True, True, False]


def test_groups_buy_what_they_lack(database: sc.LiveDatabase) -> None:
    database.ask("SELECT COUNT(*) FROM t WHERE dept = 'b'", within=20)
    now = dict(database.ask("SELECT dept, COUNT(*) FROM t GROUP BY dept").estimate.rows)
    widths = {key[0]: (each.interval(0.95)[1] - each.value) for key, each in now.items()}
    goal = (widths["b"] + min(widths[each] for each in "acde")) / 2
    answer = database.ask("SELECT dept, COUNT(*) FROM t GROUP BY dept", within=goal)
    assert ("b",) not in answer.fresh
    assert answer.fresh
    assert answer.half_width <= goal + 1e-6
    rolled = database.ask("SELECT dept, COUNT(*) FROM t GROUP BY ROLLUP(dept)", within=goal)
    assert rolled.status == "known"


def test_any_set_is_one_number(database: sc.LiveDatabase) -> None:
    answer = database.ask("SELECT COUNT(*) FROM t WHERE age < 5 OR dept IN ('a', 'c')", within=40)
    assert len(answer.fresh) == 1
    [entry] = database._journal.entries(after=1)
    [new] = entry.payload["new"]
    assert new["complement"] is False
    rest = database.ask("SELECT COUNT(*) FROM t WHERE dept <> 'b'", within=20)
    [_, entry] = database._journal.entries(after=1)
    assert entry.payload["new"][0]["complement"] is True
    assert rest.fresh[()].value == pytest.approx(0.8 * ROWS, abs=400)


def test_the_state_is_that_of_the_journal(tmp_path: Path) -> None:
    with create(tmp_path / "db") as first:
        first.ask("SELECT sex, dept, COUNT(*) FROM t GROUP BY sex, dept", within=45)
        first.ask("SELECT COUNT(*) FROM t WHERE age > 4 AND dept <> 'a'", within=30, key="k")
        first.ask("SELECT COUNT(*) FROM t WHERE age < 5 OR dept = 'c'", within=40, analyst="ann")
        kept, answer = first._state, first.ask(RANGE)
        status = first.status()
    with sc.LiveDatabase.open(tmp_path / "db", table()) as second:
        assert second.ask(RANGE).estimate.value == answer.estimate.value
        assert second.status() == status
        with LiveInspection(tmp_path / "db") as reading:
            assert reading.status() == status
            assert reading.history() == second.history()
            assert not reading.verify(second.seal)
        assert_same(second._state, kept)


def test_two_programs_share_one_promise(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with create(folder) as one, sc.LiveDatabase.open(folder, table()) as other:
        first = one.ask(RANGE, within=70)
        assert other.ask(RANGE, within=70).estimate.value == first.estimate.value
        other.ask("SELECT COUNT(*) FROM t WHERE sex = 'm'", within=30)
        assert one.status() == other.status()
        assert one.status().purchases == 2


def test_a_key_gives_the_stored_answer(database: sc.LiveDatabase) -> None:
    first = database.ask(RANGE, within=55, key="one")
    free = database.ask("SELECT sex, COUNT(*) FROM t GROUP BY sex", key="two")
    database.ask(RANGE, within=40)
    again = database.ask(RANGE, within=55, key="one")
    assert again.estimate.value == first.estimate.value
    assert (again.half_width, again.charged) == (first.half_width, first.charged)
    assert again.fresh[()].value == first.fresh[()].value
    same = database.ask("SELECT sex, COUNT(*) FROM t GROUP BY sex", key="two")
    assert _numbers(same.estimate) == _numbers(free.estimate)
    assert len(database.history()) == 3
    for sql, within in ((RANGE, 54), ("SELECT COUNT(*) FROM t", 55)):
        with pytest.raises(ParameterError, match="'key'"):
            database.ask(sql, within=within, key="one")


@pytest.mark.parametrize("step", ["begun", "full", "committed"])
def test_a_failure_leaves_what_was_written(database: sc.LiveDatabase, step: str) -> None:
    """What was measured, and not written, is forgotten; what was written is charged."""

    def fail(at: str) -> None:
        if at == step:
            raise KeyboardInterrupt

    database.ask("SELECT COUNT(*) FROM t WHERE sex = 'm'", within=35)
    before = database.status()
    database._journal._step = fail
    with pytest.raises(KeyboardInterrupt):
        database.ask(RANGE, within=70, key="k")
    database._journal._step = lambda _: None
    written = step == "committed"
    assert database.status().purchases == before.purchases + written
    assert (database._journal.find("k") is not None) is written
    answer = database.ask(RANGE, within=70, key="k")
    assert answer.status == "answered"
    assert database.status().purchases == before.purchases + 1
    assert not database.verify()


def test_a_refused_question_changes_nothing(
    database: sc.LiveDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is refused before anything is bought, and one that fails after its first group."""
    database.ask(RANGE, within=70)
    before, state = database.status(), database._state
    monkeypatch.setattr("scumble.private.database.live.sets.MOST_BOXES", 1)
    with pytest.raises(QueryError, match="scattered"):
        database.ask("SELECT COUNT(*) FROM t WHERE age % 2 = 0", within=5)
    assert database._state is state
    monkeypatch.setattr(sc.LiveDatabase, "_measure", _failing(1))
    with pytest.raises(KeyboardInterrupt):
        database.ask("SELECT sex, dept, COUNT(*) FROM t GROUP BY sex, dept", within=5)
    assert database.status() == before
    assert database._state is not state


def _failing(after: int) -> Any:
    """Return what measures some counts, and then fails."""
    calls: list[int] = []

    def measure(database: sc.LiveDatabase, purchase: Any) -> int:
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return 100

    return measure


def test_quotas_ration_purchases(tmp_path: Path) -> None:
    with create(tmp_path / "db", quotas={"ann": 0.05}) as database:
        assert database.ask(RANGE, analyst="bob").status == "known"
        with pytest.raises(ParameterError, match="ann, who have quotas"):
            database.ask(RANGE, within=20, analyst="bob")
        answer = database.ask(RANGE, within=1, analyst="ann")
        assert answer.status == "limited"
        assert answer.charged <= 0.05
        assert database.ask(RANGE, within=1, analyst="ann").charged == 0
        assert database.status().quotas == {"ann": pytest.approx(1, abs=1e-6)}


def test_questions_of_several_are_decided_in_one_turn(
    database: sc.LiveDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is refused, also after its first group was measured, costs the others nothing."""
    groups = "SELECT sex, COUNT(*) FROM t WHERE dept = 'a' GROUP BY sex"
    asked = [(RANGE, "ann"), (groups, "bob"), ("SELECT COUNT(*) FROM t WHERE sex = 'm'", "ann")]
    requests = [database.prepare(sql, within=48, analyst=name) for sql, name in asked]
    known = database.prepare("SELECT COUNT(*) FROM t", within=48)
    turns: list[str] = []
    database._journal._step = turns.append
    first, second, third = database.ask_all([requests[0], known, requests[2]])
    assert [each.status for each in (first, second, third)] == ["limited", "known", "answered"]
    assert turns.count("full") == 1
    measure, calls = sc.LiveDatabase._measure, []

    def refused(own: sc.LiveDatabase, purchase: Any) -> int:
        calls.append(purchase.points)
        if len(calls) in (3, 6):  # the second group of the second question, in both turns
            raise QueryError("Refused.")
        return measure(own, purchase)

    monkeypatch.setattr(sc.LiveDatabase, "_measure", refused)
    before = database.status()
    requests = [database.prepare(sql, within=40, analyst=name) for sql, name in asked]
    first, second, third = database.ask_all(requests)
    assert isinstance(second, QueryError)
    assert first.charged > 0 < third.charged
    assert database.status().purchases == before.purchases + 2
    assert_promise(database)
    with sc.LiveDatabase.open(database._journal.place, table(), seed=1) as other:
        assert other.status() == database.status()
        assert_same(other._state, database._state)


def test_analysts_see_their_own_questions(tmp_path: Path) -> None:
    with create(tmp_path / "db", quotas={"ann": 0.05, "bob": 0.01}) as database:
        database.ask(RANGE, within=1, analyst="ann")
        database.ask(RANGE, key="k", analyst="eve")
        whole, own = database.status(), database.status("bob")
        assert (whole.limited, whole.known, whole.purchases) == (1, 1, 1)
        assert (own.limited, own.known, own.purchases, own.used) == (0, 0, 0, whole.used)
        assert own.quotas == {"bob": 0}
        ann, bob, eve = database.usage()
        assert (ann.analyst, ann.limited, ann.purchases, ann.quota) == ("ann", 1, 1, 0.05)
        assert 0.9 < ann.used <= 1
        assert (bob.analyst, bob.purchases, bob.used) == ("bob", 0, 0)
        assert (eve.analyst, eve.known, eve.quota, eve.used) == ("eve", 1, None, None)
        ages = {each.name: used for each, used in database.usage_by_value()}["age"]
        assert min(ages[3:10]) > 0 == max(ages[10:])
        assert [each.kind for each in database.chain()] == ["promise", "answer", "answer"]


def test_a_journal_that_is_full_for_an_analyst(tmp_path: Path) -> None:
    create(tmp_path / "db").close()
    with sc.LiveDatabase.open(tmp_path / "db", table(), journal_bytes=500) as database:
        database.ask(RANGE, within=70, analyst="ann")
        before = database.status()
        for more in ({"within": 20}, {"key": "k"}):
            with pytest.raises(sc.PromiseError, match="Nothing was charged"):
                database.ask(RANGE, analyst="ann", **more)
        assert database.ask(RANGE, within=70, analyst="ann").status == "known"
        assert database.status() == before
        assert database.ask(RANGE, within=20, analyst="bob").charged > 0


def test_persons_with_several_rows_and_add_remove(tmp_path: Path) -> None:
    for number, options in enumerate(
        ({"neighbours": "add_remove"}, {"contribution": 3}, {"outside": "drop", "sums": ()})
    ):
        with create(tmp_path / str(number), **options) as database:
            assert database.rows is None
            whole = database.ask("SELECT COUNT(*) FROM t WHERE dept <> 'a'", within="4%")
            assert whole.status in ("known", "answered", "limited")
            for entry in database._journal.entries(after=1):
                assert not any(new["complement"] for new in entry.payload["new"])


def test_rows_that_are_left_out_are_in_no_answer(tmp_path: Path) -> None:
    """The base and what is bought are about the same rows: 5 standard errors apart at most."""
    given = table()
    ages = given.column("age").to_numpy().copy()
    ages[:800] = 77
    given = given.set_column(0, "age", [ages])
    options = {**OPTIONS, "sums": (), "outside": "drop", "epsilon": 50, "seed": 3}
    with sc.LiveDatabase.create(tmp_path / "db", given, SCHEMA, **options) as database:
        for within in (None, 1):
            found = database.ask("SELECT COUNT(*) FROM t", within=within).estimate
            assert found.value == pytest.approx(ROWS - 800, abs=5 * found.stderr)
    with pytest.raises(ParameterError, match="sums"):
        create(tmp_path / "other", outside="drop")


def test_the_whole_promise_is_in_the_ledger(tmp_path: Path) -> None:
    ledger = sc.Ledger.create(tmp_path / "ledger", epsilon=1, delta=1e-9, neighbours="replace")
    create(tmp_path / "db", ledger=ledger).close()
    with pytest.raises(sc.PromiseError):
        create(tmp_path / "other", ledger=ledger, epsilon=0.1)


def test_others_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    create(folder).close()
    with pytest.raises(OutputExistsError):
        create(folder)
    with pytest.raises(LedgerError, match=r"LiveDatabase\.open"):
        sc.Database.open(folder, table())
    with pytest.raises(LedgerError, match=r"LiveDatabase\.open"):
        DatabaseInspection(folder)
    with pytest.raises(LedgerError, match="content of the table"):
        sc.LiveDatabase.open(folder, table(seed=5))
    manifest = folder / BASE / "manifest.json"
    manifest.write_text(manifest.read_text().replace("replace", "add_remove"))
    with pytest.raises(LedgerError, match="Restore it"):
        sc.LiveDatabase.open(folder, table())


def test_a_damaged_base_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "db").close()
    numbers = tmp_path / "db" / BASE / "sums.parquet"
    numbers.write_bytes(numbers.read_bytes()[:-1] + b"x")
    with pytest.raises(ReleaseError):
        sc.LiveDatabase.open(tmp_path / "db", table())


def test_whole_bins_are_bought(tmp_path: Path) -> None:
    pay = sc.Attribute("pay", "quasi", sc.Bins((0, 20, 40, 60, 100)))
    schema = sc.Schema((SCHEMA["age"], pay), unit=sc.Unit())
    options = {"epsilon": 1, "delta": 1e-9, "neighbours": "replace"}
    with sc.LiveDatabase.create(tmp_path / "db", table(), schema, **options) as database:
        assert database.ask("SELECT COUNT(*) FROM t WHERE pay < 40", within=30).charged > 0
        with pytest.raises(QueryError, match="cuts some"):
            database.ask("SELECT COUNT(*) FROM t WHERE pay < 33", within=30)
        assert database.ask("SELECT COUNT(*) FROM t WHERE pay < 33").status == "known"


def test_parameters_are_checked(tmp_path: Path, database: sc.LiveDatabase) -> None:
    for within in (0, -1, float("nan"), "much", "-1%", True):
        with pytest.raises(ParameterError, match="'within'"):
            database.ask(RANGE, within=within)
    for sql in (
        "SELECT MEDIAN(age) FROM t",
        "SELECT COUNT(*), SUM(pay) FROM t",
        "SELECT AVG(pay * age) FROM t",
    ):
        with pytest.raises(QueryError, match="leave within out"):
            database.ask(sql, within=5)
    with pytest.raises(ParameterError, match="accuracy of counts"):
        database.ask("SELECT AVG(age) FROM t", within="1%")
    with pytest.raises(ParameterError, match="side tables"):
        database.ask(RANGE, key="k", tables={"side": table()})
    folder = tmp_path / "new"
    for options in (
        {"base": 1},
        {"base": 0},
        {"largest_purchase": 2},
        {"quotas": {"a": 3}},
        {"sums": "age"},
    ):
        with pytest.raises(ParameterError, match=next(iter(options))):
            create(folder, **options)
    wide = sc.Schema(
        tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, 10**8)) for name in ("a", "b")),
        unit=sc.Unit(),
    )
    with pytest.raises(ParameterError, match="too many for a database"):
        sc.LiveDatabase.create(folder, table(), wide, epsilon=1, delta=1e-9, neighbours="replace")
    with pytest.raises(LedgerError, match="There is no folder"):
        Journal.open(folder)
    assert np.isfinite(database.ask(RANGE, within="2%").half_width)

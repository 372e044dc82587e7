"""Many who ask at once: the promise cannot be overrun, and nothing is charged twice."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import scumble as sc
from scumble.private.database.results import Cost
from scumble.private.database.state import DatabaseState
from scumble.private.journal.journal import Turn
from tests.support.database.database_child import OPTIONS, SCHEMA, TABLE
from tests.support.database.small_database import count, database, given, most_popular, some_people

CHILD = "tests.support.database.database_child"
LIMIT = 15


def asked(db: sc.Database, sql: str) -> bool:
    try:
        return db.answer(sql, options=sc.AskOptions(relax="refuse")).status == "answered"
    except sc.PromiseError:
        return False


def test_two_hundred_at_once_with_room_for_fifteen(tmp_path):
    """All their boxes have a point in common."""
    start = Barrier(200, timeout=60)

    def work(number: int) -> bool:
        start.wait()
        return asked(db, f"SELECT COUNT(*) FROM t WHERE n <= {number}")

    with sc.Database.create(tmp_path / "db", TABLE, SCHEMA, **OPTIONS) as db:
        with ThreadPoolExecutor(200) as threads:
            answered = list(threads.map(work, range(200)))
        assert sum(answered) == LIMIT
        assert db.status().used == LIMIT
        assert db.verify() == []
    assert len(given(tmp_path / "db")) == LIMIT


def test_questions_that_are_asked_together_get_what_each_would_get(tmp_path):
    """One turn for all: refusals and errors are of their own question, and repeats are free."""
    texts = [f"SELECT COUNT(*) FROM t WHERE n <= {number}" for number in range(20)]
    with sc.Database.create(tmp_path / "db", TABLE, SCHEMA, **OPTIONS) as db:
        prepared = [
            db.prepare(text, options=sc.AskOptions(relax="refuse")) for text in [texts[0], *texts]
        ]
        wrong = [db.prepare(texts[0], key="k"), db.prepare(texts[1], key="k")]
        costs = db.preview_all(prepared[:1])
        found = db.ask_all([*prepared, *wrong])
        assert costs == [
            Cost("answered", 1, costs[0].stderr, answered="n = 0", used=0, limit=LIMIT)
        ]
        replies, last = found[: LIMIT + 1], found[LIMIT + 1 : 21]
        assert [each.charged for each in replies] == [1, 0, *[1] * (LIMIT - 1)]
        assert all(isinstance(each, sc.PromiseError) for each in last)
        assert found[21].estimate.value == replies[0].estimate.value
        assert isinstance(found[22], sc.ParameterError)
        for text, each in zip(texts, replies[1:], strict=False):
            assert db.answer(text).value == each.estimate.value
        assert db.status().used == LIMIT
        assert db.prepare("SELECT n, COUNT(*) FROM t GROUP BY n") is None
        assert db.prepare("SELECT COUNT(*) FROM t WHERE wrong = 1") is None
        assert db.verify() == []


def test_processes_share_one_promise(tmp_path):
    folder = tmp_path / "db"
    with sc.Database.create(folder, TABLE, SCHEMA, **OPTIONS) as db:
        command = [sys.executable, "-m", CHILD, "crowd", str(folder), "15"]
        children = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        here = sum(asked(db, f"SELECT COUNT(*) FROM t WHERE n <= {900 + n}") for n in range(10))
        told = [child.communicate()[0].split() for child in children]
        assert here + sum(int(answered) for answered, _ in told) == len(given(folder)) == LIMIT
        assert db.status().used == LIMIT
        assert db.verify() == []


def retry(folder: Path, keys: int, tries: int) -> None:
    """Every key is tried several times, by several threads, before and after opening again."""
    told: dict[str, set[str]] = {}

    def work(number: int) -> None:
        low = number % 997
        sql = f"SELECT COUNT(*) FROM t WHERE n BETWEEN {low} AND {low + number % 3}"
        answer = db.answer(sql, key=f"key {number}")
        told.setdefault(f"key {number}", set()).add(str(answer.to_dict()))

    options = {"epsilon": 4, "noise": 1000}
    with (
        sc.Database.create(folder, TABLE, SCHEMA, **options) as db,
        ThreadPoolExecutor(8) as threads,
    ):
        list(threads.map(work, [n for n in range(keys) for _ in range(tries - 1)]))
    charged = len(given(folder))
    with sc.Database.open(folder, TABLE) as db:
        for number in range(keys):
            work(number)
        assert len(db.history()) == keys
        assert db.verify() == []
    assert len(given(folder)) == charged == keys
    assert {len(answers) for answers in told.values()} == {1}


def test_a_thousand_retries(tmp_path):
    retry(tmp_path / "db", keys=200, tries=5)


@pytest.mark.soak
def test_ten_thousand_retries(tmp_path):
    retry(tmp_path / "db", keys=1000, tries=10)


def test_a_key_is_for_one_question_of_one_analyst(tmp_path):
    with database(tmp_path / "db", quotas={"ada": 2, "bob": 2}) as db:
        first = db.answer(count(0, 2), key="k", options=sc.AskOptions(analyst="ada"))
        assert (
            db.answer(count(0, 2), key="k", options=sc.AskOptions(analyst="ada")).value
            == first.value
        )
        with pytest.raises(sc.ParameterError, match="another question, analyst"):
            db.answer(count(0, 3), key="k", options=sc.AskOptions(analyst="ada"))
        with pytest.raises(sc.ParameterError, match="another question, analyst"):
            db.answer(count(0, 2), key="k", options=sc.AskOptions(analyst="bob"))
        assert len(db.history()) == 1
        again = db.answer(
            count(0, 2), key="other", options=sc.AskOptions(analyst="bob")
        )  # what ada got is no secret
        assert (again.status, again.value) == ("repeated", first.value)
        assert db.status().analysts == {"ada": 1, "bob": 0}


def test_quotas_below_the_promise(tmp_path):
    """Two of four answers each; artificial patches are on the account of the one who asks."""
    quotas = {"ada": 1, "bob": 1, "eve": 2}
    with database(tmp_path / "db", quotas=quotas) as db:
        for ends in ((0, 3), (1, 3)):
            assert (
                db.answer(count(*ends), options=sc.AskOptions(analyst="ada")).status == "answered"
            )
        with pytest.raises(sc.PromiseError):
            db.answer(count(2, 3), options=sc.AskOptions(analyst="ada", relax="refuse"))
        relaxed = db.answer(count(1, 4), options=sc.AskOptions(analyst="ada"))
        assert (relaxed.status, relaxed.distance, relaxed.numbers) == ("relaxed", 0, 2)
        assert [number.box.tolist() for number in given(tmp_path / "db")][-1] == [[4, 4], [0, 1]]
        assert db.status().analysts == {"ada": 2, "bob": 0, "eve": 0}
        assert db.answer(count(1, 4), options=sc.AskOptions(analyst="bob")).status == "answered"
        for analyst in (None, "zoe"):
            with pytest.raises(sc.ParameterError, match="ada, bob, eve"):
                db.answer(count(5, 5), options=sc.AskOptions(analyst=analyst))
        assert db.answer(count(2, 2), options=sc.AskOptions(analyst="eve")).status == "answered"
        assert (
            db.answer(count(2, 3), options=sc.AskOptions(analyst="eve", relax="compound")).status
            == "relaxed"
        )
    assert most_popular(tmp_path / "db") == 4
    with sc.Database.open(tmp_path / "db", some_people(), seed=1) as db:
        assert db.status().analysts["ada"] == 2


def test_many_requests_of_one_commit(tmp_path):
    """A request that is refused, or fails, does not harm the others of its turn."""
    start = Barrier(12, timeout=60)

    def work(number: int) -> str:
        start.wait()
        try:
            if number % 3 == 2:
                db.answer("SELECT SUM(age + 9) FROM t WHERE age > 1", key="the same")
            return db.answer(count(0, number % 3), key=f"{number % 3}").status
        except sc.ScumbleError as error:
            return type(error).__name__

    with database(tmp_path / "db") as db, ThreadPoolExecutor(12) as threads:
        told = list(threads.map(work, range(12)))
        assert set(told) == {"answered"}
        assert len(db.history()) == 4
        assert db.verify() == []


def test_a_failure_after_the_decision_leaves_the_state_right(tmp_path, monkeypatch):
    """The turn is undone, and the state is built anew from the journal."""
    append, learn = Turn.append, DatabaseState.learn
    with database(tmp_path / "db") as db:
        db.answer(count(0, 3))

        def torn(state, entry, payload=None, new=None):
            state.past_answers.append(None)  # half of the work
            raise OSError("no memory")

        monkeypatch.setattr(DatabaseState, "learn", torn)
        with pytest.raises(OSError, match="no memory"):
            db.answer(count(1, 3))
        monkeypatch.setattr(DatabaseState, "learn", learn)
        assert len(given(tmp_path / "db")) == 1
        assert db.answer(count(1, 3)).status == "answered"

        def full(*arguments):
            append(*arguments)
            raise sc.LedgerError("the disk is full")

        monkeypatch.setattr(Turn, "append", full)
        with pytest.raises(sc.LedgerError, match="full"):
            db.answer(count(2, 3))
        monkeypatch.setattr(Turn, "append", append)
        assert db.status().used == most_popular(tmp_path / "db") == 2
        assert db.answer(count(2, 3)).status == "answered"
        assert db.verify() == []

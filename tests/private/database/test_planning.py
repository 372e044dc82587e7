"""Planning: outside of the writer's lock, in one pass, and looked at again before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.database import plan, session
from scumble.private.database.trackers import Accepted
from tests.support.database.small_database import database, given, some_people

MANY = 400
SCHEMA = sc.Schema(
    [
        sc.Attribute("n", "quasi", sc.IntegerRange(0, MANY - 1)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
    ]
)
TABLE = pa.table({"n": np.arange(500) * 7 % MANY, "sex": ["f", "m"] * 250})
BY_N = "SELECT n, AVG(n + 1) AS a, COUNT(*) AS c FROM t GROUP BY n"


def test_nobody_waits_for_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a plan is made, the turn of the writer is free: another question is answered within it,
    by the same program and by another one.
    """
    inside = []
    groups = plan.AnswerPlan.groups

    def asked_meanwhile(self, questions):  # type: ignore[no-untyped-def]
        if len(questions[0].groups) == MANY:
            inside.append(db._journal._writing.locked())
            low = len(inside)
            for each in (db, other):
                each.answer(f"SELECT COUNT(*) FROM t WHERE sex = 'f' AND n < {low}")
                low += 100
        return groups(self, questions)

    options = {"schema": SCHEMA, "noise": 40}
    with (
        database(tmp_path / "db", TABLE, **options) as db,
        sc.Database.open(tmp_path / "db", TABLE, seed=2) as other,
    ):
        monkeypatch.setattr(plan.AnswerPlan, "groups", asked_meanwhile)
        assert db.preview(BY_N).charged == 2 * MANY - 1  # the sum where n is 0 is known
        db.describe_result(BY_N)
    assert inside == [False] * 2


@contextmanager
def asked_after_planning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, **options: Any
) -> Iterator[sc.Database]:
    """A database about which another program asks something once a long question is planned."""
    ahead, asked = session.Session._planned_ahead, []
    with (
        database(tmp_path / "db", TABLE, schema=SCHEMA, **options) as db,
        sc.Database.open(tmp_path / "db", TABLE, seed=2) as other,
    ):

        def planned(self, request):  # type: ignore[no-untyped-def]
            found = ahead(self, request)
            if request.size == MANY and not asked:
                assert found.plan is not None
                asked.append(other.answer(sql))
            return found

        monkeypatch.setattr(session.Session, "_planned_ahead", planned)
        yield db


COUNTS = "SELECT n, COUNT(*) FROM t GROUP BY n"


def test_a_plan_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program takes the last room after the plan was made: the question is refused."""
    taken = "SELECT COUNT(*) FROM t WHERE n < 7"
    options = {"epsilon": 0.5, "tracker": "histogram"}  # one answer for a point
    with asked_after_planning(tmp_path, monkeypatch, taken, **options) as db:
        with pytest.raises(sc.PromiseError):
            db.answer(COUNTS, options=sc.AskOptions(relax="refuse"))
        assert db.status().used == 1
    assert len(given(tmp_path / "db")) == 1


def test_what_others_got_after_planning_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program is given one of the numbers after the plan was made: it is not drawn again,
    and the other numbers are those of their boxes.
    """
    taken = "SELECT COUNT(*) FROM t WHERE n = 7"
    with asked_after_planning(tmp_path, monkeypatch, taken) as db:
        reply = db.ask(COUNTS)
        assert (reply.charged, db.status().used) == (MANY - 1, 1)
    numbers = given(tmp_path / "db")
    values = {number.box[0, 0]: number.value for number in numbers}
    assert len(values) == len(numbers) == MANY
    assert [estimate.value for _, estimate in reply.estimate.rows] == [
        values[n] for n in range(MANY)
    ]


@pytest.mark.parametrize(("others", "tries"), [(0, 1), (1, 2), (9, 4)])
def test_many_numbers_are_drawn_before_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int, tries: int
) -> None:
    """Others who are answered meanwhile do not wait for it, unless there is no end of them. What
    was drawn for a plan that no longer fits is given to nobody.
    """
    ahead, new_answers = session.Session._planned_ahead, session.Session._new_answers
    locked, drawn = [], []
    with (
        database(tmp_path / "db", TABLE, schema=SCHEMA) as db,
        sc.Database.open(tmp_path / "db", TABLE, seed=2) as other,
    ):

        def planned(self, request):  # type: ignore[no-untyped-def]
            found = ahead(self, request)
            if request.size == MANY and len(drawn) <= others and others:
                other.answer(f"SELECT COUNT(*) FROM t WHERE n = {len(drawn)} AND sex = 'f'")
            return found

        def watched(self, plan, request):  # type: ignore[no-untyped-def]
            found = new_answers(self, plan, request)
            if request.size == MANY:
                locked.append(db._journal._writing.locked())
                drawn.append([each.value for each in found])
            return found

        monkeypatch.setattr(session.Session, "_planned_ahead", planned)
        monkeypatch.setattr(session.Session, "_new_answers", watched)
        reply = db.ask(COUNTS)
        assert (reply.charged, db.status().used) == (MANY, 1 + (others > 0))
    assert locked == [False] * (tries - (others == 9)) + [True] * (others == 9)
    assert [estimate.value for _, estimate in reply.estimate.rows] == drawn[-1]
    numbers = [each for each in given(tmp_path / "db") if each.box[1].tolist() == [0, 1]]
    assert [each.value for each in numbers] == drawn[-1]


def test_a_refusal_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is refused is not planned again while others wait."""
    locked = []
    groups = plan.AnswerPlan.groups

    def watched(self, questions):  # type: ignore[no-untyped-def]
        locked.append(db._journal._writing.locked())
        return groups(self, questions)

    with database(tmp_path / "db", TABLE, schema=SCHEMA, epsilon=0.5) as db:
        db.answer("SELECT COUNT(*) FROM t WHERE n < 7")
        monkeypatch.setattr(plan.AnswerPlan, "groups", watched)
        with pytest.raises(sc.PromiseError):
            db.answer(COUNTS, options=sc.AskOptions(relax="refuse"))
    assert locked == [False]


@pytest.mark.parametrize("relax", ["refuse", "regression"])
def test_what_others_get_while_it_is_planned_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relax: str
) -> None:
    """Another thread asks the same at the same time, and takes the last room for it: both get the
    numbers. The plan is made anew outside of the writer's turn.
    """
    groups, locked = plan.AnswerPlan.groups, []

    def asked_meanwhile(self, questions):  # type: ignore[no-untyped-def]
        locked.append(db._journal._writing.locked())
        if len(locked) == 1:
            db.answer(COUNTS)
        return groups(self, questions)

    with database(tmp_path / "db", TABLE, schema=SCHEMA, epsilon=0.5) as db:
        monkeypatch.setattr(plan.AnswerPlan, "groups", asked_meanwhile)
        reply = db.ask(COUNTS, options=sc.AskOptions(relax=relax))
        assert reply.charged == 0
        assert len(reply.estimate.rows) == len(given(tmp_path / "db")) == MANY
    assert locked == [False] * 3


def test_the_forecast_when_others_take_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that there is no room for any more adds nothing, like one that is refused."""
    groups = plan.AnswerPlan.groups

    def taken_afterwards(self, questions):  # type: ignore[no-untyped-def]
        found = groups(self, questions)
        if len(found) == MANY:
            db.answer("SELECT COUNT(*) FROM t WHERE n < 7")
        return found

    with database(tmp_path / "db", TABLE, schema=SCHEMA, epsilon=0.5) as db:
        monkeypatch.setattr(plan.AnswerPlan, "groups", taken_afterwards)
        assert db.preview(COUNTS).used_after == 1


def test_a_plan_made_ahead_is_the_plan_of_its_turn(tmp_path: Path) -> None:
    """Few numbers are planned in their turn, many before it: the same numbers are bought."""
    bought = []
    for few in (1, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "_FEW", few)
            folder = tmp_path / str(few)
            with database(folder, TABLE, schema=SCHEMA, noise=40) as db:
                db.answer("SELECT COUNT(*) FROM t WHERE n < 9")
                db.answer(BY_N)
                db.answer("SELECT sex, SUM(n) FROM t GROUP BY ROLLUP (sex)")
            numbers = given(folder)
            bought.append([(n.kind, n.box.tolist(), n.value) for n in numbers])
    assert bought[0] == bought[1]


def test_disjoint_groups_are_planned_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No planned box is compared with the others."""
    searches = []
    meeting = Accepted.meeting

    def counted(self, *args):  # type: ignore[no-untyped-def]
        searches.append(args)
        return meeting(self, *args)

    monkeypatch.setattr(Accepted, "meeting", counted)
    with database(tmp_path / "db", TABLE, schema=SCHEMA) as db:  # four answers for a point
        db.answer(BY_N)
        db.answer("SELECT n, sex, COUNT(*) FROM t WHERE n < 100 GROUP BY n, sex")
    assert searches == []


def test_what_others_add_meanwhile_is_not_part_of_a_plan(tmp_path: Path) -> None:
    """Numbers that are given out after a snapshot are not taken for those that are planned."""
    with database(tmp_path / "db", some_people()) as db:
        db.answer("SELECT COUNT(*) FROM t WHERE age < 2")
        with db._session.state() as state:
            now = state.snapshot()
        db.answer("SELECT COUNT(*) FROM t WHERE age < 3")
        for age, status in ((2, "repeated"), (3, "answered")):
            with db._reading(
                f"SELECT COUNT(*) FROM t WHERE age < {age}", None, sc.AskOptions()
            ) as prepared:
                planned = plan.AnswerPlan(now, prepared.request.options)
                [group] = planned.groups(prepared.request.questions)
            assert [piece["status"] for piece in group["pieces"]] == [status]
        assert not now.is_current(state)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, sex, COUNT(*) FROM t WHERE n < 9 OR n > 380 AND sex = 'f' GROUP BY n, sex",
        "SELECT AVG(n), SUM(n % 5) FROM t WHERE n % 3 < 2 GROUP BY CUBE (n % 4, sex)",
        "SELECT COUNT(*) FROM t WHERE (n < 40 OR sex = 'm') AND (n BETWEEN 20 AND 90 OR n = 7)",
        "SELECT sex, COUNT(*) FROM t WHERE n IN (1, 2, 2, 9) OR n IN (2, 9, 10) GROUP BY sex",
        "SELECT n // 100, COUNT(*) FILTER (WHERE sex = 'f' OR n < 150) FROM t GROUP BY n // 100",
        "SELECT sex, median(n // 40) FROM t WHERE n <> 99 GROUP BY ROLLUP (sex)",
        "SELECT sex, SUM(n) FROM t WHERE n + 1 > 7 AND n * n < 900 GROUP BY sex",
    ],
)
def test_boxes_of_one_number_are_disjoint(tmp_path: Path, sql: str) -> None:
    """A plan relies on it: each point lies in one box of a number, over all groups."""
    with (
        database(tmp_path / "db", TABLE, schema=SCHEMA) as db,
        db._reading(sql, None, sc.AskOptions()) as prepared,
    ):
        questions = prepared.request.questions
    for question in questions:
        for place in range(len(question.summands)):
            covered = np.zeros((MANY, 2), int)
            for group in question.groups:
                for (low, high), (first, last) in group.parts[place].tolist():
                    covered[low : high + 1, first : last + 1] += 1
            assert covered.max() == 1


def test_the_search_for_room_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes that overlap in many ways have many parts. The search for room among them is cut short
    once for a question, not for each of its boxes.
    """
    looked = []
    fit = plan.BatchPlan._parts_fit

    def counted(self, *args):  # type: ignore[no-untyped-def]
        looked.append(args)
        return fit(self, *args)

    monkeypatch.setattr(plan.BatchPlan, "_parts_fit", counted)
    draw = np.random.default_rng(0)
    lows, lengths = draw.integers(0, 300, 90), draw.integers(10, 100, 90)
    popularity = np.zeros(MANY, int)
    boxes = []
    for low, high in zip(lows, lows + lengths, strict=True):
        popularity[low : high + 1] += 1
        boxes.append(f"COUNT(*) FILTER (WHERE n BETWEEN {low} AND {high}) AS c{len(boxes)}")
    sql = f"SELECT sex, {', '.join(boxes)} FROM t GROUP BY sex"
    limit = int(popularity.max())
    with database(tmp_path / "db", TABLE, schema=SCHEMA, noise=limit) as db:
        assert db.preview(sql, options=sc.AskOptions(relax="refuse")).charged == 180
        monkeypatch.setattr(plan, "_MOST_PARTS", 50)
        looked.clear()
        assert db.preview(sql, options=sc.AskOptions(relax="refuse")).status == "refused"
    assert len(looked) <= 180 + 50 + 1  # the last one is for the sentence of the refusal


def test_the_forecast_with_buckets(tmp_path: Path) -> None:
    """A forecast adds the planned answers to a copy of the buckets, and leaves these alone."""
    with database(tmp_path / "db", TABLE, schema=SCHEMA, tracker="histogram") as db:
        db.answer("SELECT COUNT(*) FROM t WHERE n < 9")
        assert db.preview("SELECT COUNT(*) FROM t WHERE n < 5").used_after == 2
        assert db.status().used == 1

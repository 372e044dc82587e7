"""One question takes no more than its time and memory, whatever it asks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import duckdb
import pytest

import scumble as sc
from scumble.model.errors import ParameterError, QueryError
from scumble.public import limits
from scumble.public.sandbox import Sandbox
from tests.support import people


@pytest.fixture(scope="module")
def release():
    schema = people.schema()
    return sc.publish(people.people(300, schema), schema, sc.Uniform(epsilon=1))


GREEDY = [
    "length(repeat('x', 1000000000)) > age",
    "length(repeat('x', age * 1000000000)) > 1",
    "length(lpad('x', 1000000000, 'y')) > age",
    "length(rpad('x', age + 1000000000, 'y')) > age",
    "length(replace(repeat('x', 60000), 'x', repeat('y', 60000))) > age",
    "length(regexp_replace(repeat('x', 60000), 'x', repeat('y', 60000), 'g')) > age",
    "length(to_base(age, 2, 1000000000)) > 5",
    "levenshtein(repeat('x', 60000), repeat('y', 60000)) > age",
    "damerau_levenshtein(repeat('x', 60000), repeat('y', 60000)) > age",
    "len(range(1000000000)) > age",
    "len(generate_series(1, 1000000000)) > age",
    "len(list_resize([1], 1000000000)) > age",
    "length(printf('%1000000000d', age)) > 3",
    "length(format('{:1000000000d}', age)) > 3",
    "length(format(sex || '{:1000000000d}', age)) > 3",
    "length(bar(age, 0, 9, 1000000000)) > 3",
    "length(" + "replace(" * 20 + "'x'" + ", 'x', 'xxxxxxxxxx')" * 20 + ") > age",
]


def test_no_function_makes_a_large_value(release, subtests: pytest.Subtests) -> None:
    for condition in GREEDY:
        with subtests.test(condition=condition):
            before = limits.memory_in_use()
            with pytest.raises(QueryError) as refused:
                release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
            assert "longer than its limit" not in str(refused.value)
            assert limits.memory_in_use() - before < 500_000_000


PEAK = """
import resource, sys
import scumble as sc
from tests.support import people

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB

schema = people.schema()
release = sc.publish(people.people(300, schema), schema, sc.Uniform(epsilon=1))
release.answer("SELECT COUNT(*) FROM t WHERE length(repeat('x', 10)) > age")
before = peak()
try:
    release.answer("SELECT COUNT(*) FROM t WHERE length(repeat('x', 1000000000)) > age")
    sys.exit("answered")
except sc.QueryError:
    asked = peak()
bytearray(200 << 20).replace(b"x", b"y")  # what the measure must see
print(asked - before, peak() - asked)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kB on Linux only")
def test_the_peak_of_memory_of_a_greedy_question() -> None:
    """In a process of its own. A shell in between: the peak of a process includes that of the one
    that it was forked from.
    """
    command = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, PEAK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    question, control = map(float, done.stdout.split())
    assert question < 50  # MB, where the text alone would take 1,000
    assert control > 150


SAME = [
    "repeat(sex, 3)", "repeat('', 5)", "repeat('x', -1)", "lpad(sex, 4, 'ab')", "rpad(sex, 1, 'x')",
    "replace(sex, 'f', 'female')", "regexp_replace(sex, 'f|m', 'z')",
    "regexp_replace(sex || sex, 'f', 'z', 'g')", "to_base(age, 2)", "to_base(age, 2, 8)",
    "levenshtein(sex, 'fm')", "jaccard(sex, 'f')", "damerau_levenshtein(sex, 'mf')",
    "printf('%05d', age)", "format('{:03d}', age)", "repeat(NULL, 2)", "lpad(sex, NULL, 'x')",
]  # fmt: skip


def test_bounded_functions_mean_what_they_mean_in_duckdb(
    release, subtests: pytest.Subtests
) -> None:
    for expression in SAME:
        with subtests.test(expression=expression):
            with duckdb.connect() as connection:
                text = f"({expression})::VARCHAR"
                where = f"coalesce({text}, '') <> '' AND length({text}) < 4"
                wanted = connection.sql(
                    f"SELECT age, sex, {where} FROM range(10) a(age), (VALUES ('f'), ('m')) b(sex)"
                ).fetchall()
            for age, sex, true in wanted[::7]:
                question = f"age = {age} AND sex = '{sex}'"
                both = release.answer(f"SELECT COUNT(*) FROM t WHERE {question} AND ({where})")
                alone = release.answer(f"SELECT COUNT(*) FROM t WHERE {question}")
                assert both.value == (alone.value if true else 0)


def slow_rows(sandbox: Sandbox) -> object:
    return sandbox.rows("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")


def test_a_statement_is_interrupted_after_its_time(monkeypatch) -> None:
    monkeypatch.setenv(limits.SECONDS, "0.3")
    with pytest.raises(QueryError, match=r"longer than its limit of 0\.3 seconds"):
        slow_rows(Sandbox(people.schema()))


def test_statements_of_one_question_share_its_time(monkeypatch) -> None:
    monkeypatch.setenv(limits.SECONDS, "0.3")
    sandbox = Sandbox(people.schema())
    with limits.one_question():
        time.sleep(0.3)
        with pytest.raises(QueryError, match="longer than its limit"):
            slow_rows(sandbox)


def test_a_statement_is_stopped_at_its_memory(monkeypatch) -> None:
    monkeypatch.setenv(limits.MEMORY, "200")
    before = limits.memory_in_use()
    with pytest.raises(QueryError, match=r"more than its limit of 200 MB of memory"):
        Sandbox(people.schema()).rows(
            "SELECT list(a.range) FROM range(100000000) a GROUP BY a.range % 7"
        )
    assert limits.memory_in_use() - before < 600_000_000


def test_wide_domains_are_not_evaluated_beyond_the_memory(monkeypatch) -> None:
    monkeypatch.setenv(limits.MEMORY, "50")
    schema = sc.Schema(
        tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, 9999)) for name in ("a", "b"))
    )
    sandbox = Sandbox(schema)
    from scumble.model.query import Expression

    with pytest.raises(QueryError, match="more than its limit of 50 MB"):
        sandbox.evaluate([Expression("a + b > 3", ("a", "b"))], ["a", "b"])


def together(*works) -> list:
    """Do works in threads at once; return what each returned or raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        done = [pool.submit(work) for work in works]
    return [each.exception() or each.result() for each in done]


def test_questions_share_one_memory(monkeypatch) -> None:
    """Of six questions that need 60 of 100 MB each, one has them at a time; a small one passes."""
    monkeypatch.setenv(limits.MEMORY, "100")
    having, most, small = set(), [], threading.Event()

    def ask(number: int) -> None:
        with limits.one_question():
            limits.claim_memory(60_000_000)
            having.add(number)
            most.append(len(having))
            assert small.wait(30)
            having.discard(number)

    def ask_little() -> None:
        with limits.one_question():
            limits.claim_memory(40_000_000)
            small.set()

    assert together(*(partial(ask, number) for number in range(6)), ask_little) == [None] * 7
    assert most == [1] * 6
    assert limits._claims == 0


def test_a_question_waits_for_memory_no_longer_than_its_time(monkeypatch) -> None:
    monkeypatch.setenv(limits.MEMORY, "100")
    there, refused = threading.Event(), threading.Event()

    def ask_first() -> None:
        with limits.one_question():
            limits.claim_memory(60_000_000)
            there.set()
            assert refused.wait(30)
            limits.claim_memory(100_000_000)  # the other one is gone: nothing is waited for

    def ask_second() -> None:
        assert there.wait(30)
        try:
            monkeypatch.setenv(limits.SECONDS, "0.05")
            with limits.one_question():
                limits.claim_memory(60_000_000)
        finally:
            refused.set()

    first, second = together(ask_first, ask_second)
    assert first is None
    assert str(second).startswith("The questions that are being answered need more than 100 MB")


def test_who_has_memory_does_not_wait_for_more(monkeypatch) -> None:
    """Two who wait for each other would wait for ever."""
    monkeypatch.setenv(limits.MEMORY, "100")
    both = threading.Barrier(2)

    def ask() -> None:
        with limits.one_question():
            limits.claim_memory(40_000_000)
            both.wait(30)
            limits.claim_memory(70_000_000)

    found = together(ask, ask)
    assert any(isinstance(each, QueryError) for each in found)


def test_of_statements_that_need_too_much_together_the_last_is_stopped(monkeypatch) -> None:
    monkeypatch.setenv(limits.MEMORY, "100")
    in_use, stopped = [0], []
    monkeypatch.setattr(limits, "memory_in_use", lambda: in_use[0])
    ended = threading.Event()

    def stop(name: str) -> None:
        stopped.append(name)
        ended.set()

    with limits.watched(partial(stop, "first")) as first:
        in_use[0] = 60_000_000
        with limits.watched(partial(stop, "second")) as second:
            in_use[0] = 120_000_000
            assert ended.wait(30)
            in_use[0] = 60_000_000
        assert not first.exceeded
    assert set(stopped) == {"second"}
    assert second.exceeded.startswith("The questions that are being answered need more than 100 MB")


@pytest.mark.parametrize("given", ["0", "-1", "much", "nan", "inf"])
def test_limits_are_positive_numbers(monkeypatch, given) -> None:
    monkeypatch.setenv(limits.SECONDS, given)
    with pytest.raises(ParameterError, match="SCUMBLE_QUESTION_SECONDS must be a number above 0"):
        limits.QuestionLimits.current()

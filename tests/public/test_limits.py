"""One question takes no more than its time and memory, whatever it asks."""

from __future__ import annotations

import subprocess
import sys
import time

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


@pytest.mark.parametrize("condition", GREEDY)
def test_no_function_makes_a_large_value(release, condition) -> None:
    start, before = time.perf_counter(), limits.memory_in_use()
    with pytest.raises(QueryError):
        release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
    assert time.perf_counter() - start < 10
    assert limits.memory_in_use() - before < 500_000_000


PEAK = """
import resource, sys
import scumble as sc
from tests.support import people

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB

schema = people.schema()
release = sc.publish(people.people(300, schema), schema, sc.Uniform(epsilon=1), seed=1)
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


@pytest.mark.parametrize("expression", SAME)
def test_bounded_functions_mean_what_they_mean_in_duckdb(release, expression) -> None:
    with duckdb.connect() as connection:
        where = (
            f"coalesce(({expression})::VARCHAR, '') <> '' AND length(({expression})::VARCHAR) < 4"
        )
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
    start = time.perf_counter()
    with pytest.raises(QueryError, match=r"longer than its limit of 0\.3 seconds"):
        slow_rows(Sandbox(people.schema()))
    assert time.perf_counter() - start < 5


def test_statements_of_one_question_share_its_time(monkeypatch) -> None:
    monkeypatch.setenv(limits.SECONDS, "0.3")
    sandbox = Sandbox(people.schema())
    with limits.one_question():
        time.sleep(0.3)
        start = time.perf_counter()
        with pytest.raises(QueryError, match="longer than its limit"):
            slow_rows(sandbox)
        assert time.perf_counter() - start < 5


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


@pytest.mark.parametrize("given", ["0", "-1", "much", "nan", "inf"])
def test_limits_are_positive_numbers(monkeypatch, given) -> None:
    monkeypatch.setenv(limits.SECONDS, given)
    with pytest.raises(ParameterError, match="SCUMBLE_QUESTION_SECONDS must be a number above 0"):
        limits.QuestionLimits.current()

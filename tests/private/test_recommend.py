"""What is recommended: which method for which table, its expected errors, and every reason."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner

import scumble as sc
from scumble.cli.app import app
from scumble.families import mechanism_names
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private import recommend as module
from scumble.private.recommend import CARE_LEVELS, USES, Advice, ExpectedError, _Case

LINE = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 4095))])
AGES = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 99))])
GRID = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 127)) for name in "xy"])
TENS = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 9)) for name in "xy"])
MANY = sc.Schema([sc.Attribute(f"a{i}", "quasi", sc.IntegerRange(0, 9)) for i in range(12)])
BITS = sc.Schema([sc.Attribute(f"a{i}", "quasi", sc.IntegerRange(0, 1)) for i in range(30)])
LONG = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 2**20))])
HUGE = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 2**40))])
SINGLE = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(5, 5))])
JOBS = sc.Schema([sc.Attribute("job", "quasi", sc.Category(["cook", "nurse", "smith"]))])
PEOPLE = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 49)),
        sc.Attribute("region", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("ill", "sensitive", sc.IntegerRange(0, 11)),
    )
)
PERSONS = sc.Schema(
    (*PEOPLE.attributes, sc.Attribute("who", "identifier")), sc.Unit("who", most_rows=5)
)


def _advise(schema: sc.Schema, **changed: object) -> Advice:
    given = {"rows": 10**6, "epsilon": 0.1, "neighbours": "add_remove"} | changed
    return sc.recommend(schema, **given)


FITS = [
    (LINE, {"rows": 10**7}, "hierarchy"),
    (LINE, {"rows": 1000, "delta": 1e-6}, "dyadic"),
    (LINE, {"rows": 1000}, "mosaic"),
    (LINE, {"rows": 10**4}, "mosaic"),
    (LINE, {"rows": 10**6}, "hierarchy"),
    (LINE, {"rows": 10**6, "occupied": 0.03}, "mosaic"),
    (LINE, {"rows": 10**4, "occupied": 0.03}, "privtree"),
    (LINE, {"rows": 10**5, "occupied": 1}, "hierarchy"),
    (AGES, {"rows": 500}, "mosaic"),  # the noise of other methods is a large part of the rows
    (AGES, {"rows": 10**4}, "hierarchy"),
    (AGES, {"rows": 10**4, "neighbours": "replace"}, "histogram"),
    (AGES, {"rows": 10**4, "occupied": 0.03}, "privtree"),
    (TENS, {"rows": 10**4, "neighbours": "replace"}, "histogram"),
    (TENS, {"rows": 100, "neighbours": "replace"}, "mosaic"),
    (GRID, {"rows": 1000}, "mosaic"),
    (GRID, {"rows": 10**7}, "mosaic"),
    (GRID, {"rows": 10**5, "occupied": 0.5}, "hierarchy"),
    (GRID, {"rows": 10**7, "occupied": 0.5}, "hierarchy"),
    (GRID, {"rows": 10**7, "occupied": 0.02}, "mosaic"),
    (GRID, {"rows": 10**9}, "hierarchy"),
    (JOBS, {}, "histogram"),
    (JOBS, {"use": "tables"}, "histogram"),
    (PEOPLE, {}, "histogram"),
    (PEOPLE, {"attributes": ["age", "ill"]}, "mosaic"),
    (PEOPLE, {"attributes": ["age", "ill"], "delta": 1e-6}, "dyadic"),
    (MANY, {}, "marginals"),
    (MANY, {"use": "tables"}, "marginals"),
    (MANY, {"use": "tables", "delta": 1e-6}, "marginals"),
    (MANY, {"use": "rows"}, "marginals"),
    (MANY, {"use": "rows", "delta": 1e-6}, "synthesis"),
    (JOBS, {"use": "rows"}, "histogram"),
    (BITS, {}, "marginals"),
    (LONG, {"use": "tables", "delta": 1e-6}, "hierarchy"),
    (SINGLE, {"use": "tables", "delta": 1e-6}, "hierarchy"),
    (HUGE, {}, "sparse"),
    (PEOPLE, {"use": "live"}, "histogram"),
    (PEOPLE, {"use": "live", "neighbours": "replace"}, "database"),
    (LINE, {"queries": ["SELECT COUNT(*) FROM t WHERE x < 9"], "rows": 10**7}, "workload"),
    (MANY, {"queries": ["SELECT COUNT(*) FROM t WHERE a0 < 9 AND a7 = 3"]}, "workload"),
]

QUESTIONS = {JOBS: 2, SINGLE: 1}  # a quarter and half of few values are one question, or one value


def test_which_method_fits(subtests: pytest.Subtests) -> None:
    for schema, changed, method in FITS:
        with subtests.test(method=method, changed=changed):
            advice = _advise(schema, **changed)
            assert advice.best.method == method
            for each in (advice.best, *advice.alternatives):
                assert each.reason.endswith(".")
                assert len(each.errors) == QUESTIONS.get(schema, 3)
                if each.method != "database":
                    each.mechanism().check(schema)


def test_every_method_is_covered_for_every_use(subtests: pytest.Subtests) -> None:
    for schema, use, delta in itertools.product((PEOPLE, PERSONS, LINE), USES, (None, 1e-6)):
        with subtests.test(use=use, delta=delta, names=schema.names):
            advice = sc.recommend(schema, rows=10**5, use=use, epsilon=1, delta=delta)
            named = {advice.best.method, *(each.method for each in advice.alternatives)}
            assert named.isdisjoint(advice.not_recommended)
            assert named | set(advice.not_recommended) == {*mechanism_names(), "database"}
            assert len(advice.alternatives) <= 4
            assert all(reason.endswith(".") for reason in advice.not_recommended.values())
            said = [(each.method, str(each.parameters)) for each in advice.alternatives]
            assert len(set(said)) == len(said)


def test_methods_that_make_weak_promises_are_never_recommended() -> None:
    """The methods of grouping, and those of the paper that theorem 3.3 is from."""
    weak = {"anatomy", "generalise", "partition", "aroma", "alphabeta", "frapp", "uniform"}
    for schema, use in itertools.product((PEOPLE, PERSONS, LINE, JOBS), USES):
        advice = sc.recommend(schema, rows=10**4, use=use, epsilon=2)
        assert weak <= set(advice.not_recommended)
    [dense] = {sc.recommend(PEOPLE, rows=10**4, epsilon=1).not_recommended["frapp"]}
    assert "here n/m = 1.7." in dense
    assert "n/√m = 129 is above 1, so that it sets no limit" in dense
    sparse = sc.recommend(MANY, rows=10**4, epsilon=1).not_recommended["alphabeta"]
    assert "here n/m = 1e-08. Rule of thumb, theorem 3.3" in sparse
    assert "a prior of n/√m = 0.01 or more" in sparse


def test_a_person_with_several_rows_is_protected() -> None:
    one = sc.recommend(PEOPLE, rows=10**4, epsilon=1)
    several = sc.recommend(PERSONS, rows=10**4, epsilon=1)
    for first, second in zip(one.best.errors, several.best.errors, strict=True):
        assert second.half_width > 4.5 * first.half_width
    rows = ("uniform", "subset", "generalise", "anatomy", "aroma", "partition", "frapp")
    for name in (*rows, "alphabeta", "dirichlet"):
        why = several.not_recommended[name]
        assert why == "it protects one row, and a person may have 5 rows here."
    assert "subset" in {each.method for each in one.alternatives}
    live = sc.recommend(PERSONS, rows=10**4, epsilon=1, use="live")
    assert live.best.method == one.best.method
    assert live.best.reason.startswith("A database without δ protects one row")
    people = sc.recommend(PERSONS, rows=10**4, epsilon=1, use="live", delta=1e-9)
    assert people.best.method == "database"
    assert "database" not in {each.method for each in people.alternatives}
    unstated = sc.Schema(PERSONS.attributes)
    with pytest.raises(sc.SchemaError, match="what one row stands for"):
        sc.recommend(unstated, rows=10**4, epsilon=1)


def test_questions_about_one_column_differ() -> None:
    errors = sc.recommend(schema_of(2), rows=2000, epsilon=1).best.errors
    assert [error.question for error in errors] == ["rows with one value of c0"]
    errors = sc.recommend(schema_of(8), rows=2000, epsilon=1).best.errors
    assert len({error.question for error in errors}) == len(errors) == 3


def schema_of(size: int) -> sc.Schema:
    return sc.Schema([sc.Attribute("c0", "quasi", sc.IntegerRange(0, size - 1))], sc.Unit())


def test_columns_that_do_not_fit_are_named() -> None:
    items = sc.Schema.loads('format = 1\n[attributes.x]\nrole = "quasi"\ntype = "boolean"\n')
    wide = sc.Schema((*LONG.attributes, *PEOPLE.attributes))
    best = sc.recommend(wide, rows=10**5, epsilon=1).best
    assert best.parameters["attributes"] == ["age", "region", "ill"]
    assert "x is left out: the tables with 1,048,577 values are too large" in best.reason
    assert "are too large; write bins in the schema" in best.reason
    cost = sc.Attribute("cost", "quasi", sc.Number(0, 20_000, 0.01))
    paid = sc.recommend(sc.Schema((*PEOPLE.attributes, cost)), rows=10**5, epsilon=1).best
    assert paid.parameters["sums"] == ["cost"]
    assert "cost" not in paid.parameters["attributes"]
    assert sc.recommend(items, rows=9, epsilon=1).best.parameters["attributes"] == ["x"]
    lists = sc.Schema.loads(
        'format = 1\n[attributes.items]\nrole = "sensitive"\ntype = "set"\nvalues = ["a", "b"]\n'
    )
    with pytest.raises(sc.SchemaError, match="items: lists are published apart, by baskets"):
        sc.recommend(lists, rows=9, epsilon=1)


def _mixed(sizes: tuple[int, ...], secret: int = 0) -> sc.Schema:
    roles = ["sensitive" if place == secret else "quasi" for place in range(len(sizes))]
    return sc.Schema(
        [
            sc.Attribute(f"c{place}", role, sc.IntegerRange(0, size - 1))
            for place, (role, size) in enumerate(zip(roles, sizes, strict=True))
        ]
    )


WIDE = _mixed((4, 2, 10, 100, 7, 4, 16, 9, 50, 3, 2, 5), secret=11)
BY_SIZE = ["c1", "c10", "c9", "c0", "c5", "c4", "c7", "c2", "c6", "c8", "c3"]


def _first(number: int) -> list[str]:
    """The sensitive column and those with the fewest values, in the order of the schema."""
    return [name for name in WIDE.names if name in ("c11", *BY_SIZE[: number - 1])]


def test_a_wide_table_is_published_with_the_columns_that_keep_answers_useful() -> None:
    """Useful: 19 times in 20, typical answers are off by at most a tenth of what they count, or by
    1 % of the rows. The columns are the sensitive one and those with the fewest values, and no
    more fit.
    """
    rows = 20_000
    best, every = (advice := sc.recommend(WIDE, rows=rows, epsilon=1)).best, advice.alternatives[0]
    kept = best.parameters["attributes"]
    assert kept == _first(len(kept))
    assert 3 < len(kept) < 12
    assert _is_useful(best.errors, rows)
    for more in range(len(kept) + 1, 13):
        names = _first(more)
        whole = sc.recommend(WIDE, rows=rows, epsilon=1, attributes=names)
        assert whole.best.parameters["attributes"] == names  # what is named wins
        assert "left out" not in whole.best.reason
        assert not _is_useful(whole.best.errors, rows)
    assert every.parameters["attributes"] == list(WIDE.names)
    assert every.reason.startswith("It publishes all 12 columns; a count of rows with one value of")
    left = ", ".join(name for name in WIDE.names if name not in kept)
    assert f"{left} are left out: with all 12 columns a count of rows with" in best.reason
    assert (
        "To keep one, drop others, or name the columns to publish (attributes): the" in best.reason
    )


def _is_useful(errors: tuple[ExpectedError, ...], rows: int) -> bool:
    return all(each.half_width <= max(each.count / 10, rows / 100) for each in errors)


def test_a_wide_table_that_has_many_rows_and_a_narrow_one_keep_their_columns() -> None:
    many = sc.recommend(WIDE, rows=10**6, epsilon=1).best
    assert many.parameters["attributes"] == list(WIDE.names)
    for schema, rows in ((PEOPLE, 50), (PERSONS, 10**4), (GRID, 100)):
        narrow = sc.recommend(schema, rows=rows, epsilon=1).best
        published = [each.name for each in schema.published]
        assert narrow.parameters["attributes"] == published
        assert "left out" not in narrow.reason


@pytest.mark.parametrize("use", ["questions", "tables", "rows"])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_three_columns_and_the_sensitive_ones_are_kept_at_least(
    use: str, delta: float | None
) -> None:
    few = sc.recommend(WIDE, rows=500, epsilon=0.1, use=use, delta=delta).best
    assert few.parameters["attributes"] == ["c1", "c10", "c11"]
    secrets = WIDE.with_roles(sensitive=["c4", "c5", "c6", "c7"])
    kept = sc.recommend(secrets, rows=500, epsilon=0.1, use=use, delta=delta).best
    assert kept.parameters["attributes"] == ["c4", "c5", "c6", "c7", "c11"]


def test_a_release_of_a_wide_table_is_useful_and_says_what_it_leaves_out() -> None:
    """The intervals of the release are those that were expected, and hold the truth in at least 64
    of 75 answers: of independent ones that hold in 95 %, fewer have probability 0.0003.
    """
    rows = 20_000
    table = _table(WIDE, rows)
    held = []
    for seed in range(5):
        release = sc.publish(table, WIDE, epsilon=1, options=sc.PublishOptions(seed=seed))
        for name in ("c2", "c11"):
            values = table[name].to_numpy()
            size = WIDE[name].size
            for low in range(min(size, 10)):
                answer = release.ask(f"SELECT COUNT(*) FROM t WHERE {name} = {low}")
                ends = answer.interval(0.95)
                assert (ends[1] - ends[0]) / 2 <= max(rows / size / 10, rows / 100)
                held.append(ends[0] <= np.sum(values == low) <= ends[1])
    assert len(held) == 75
    assert sum(held) >= 64
    said = release.manifest.report["chosen by recommend"]
    assert "left out: with all 12 columns" in said
    assert said in release.remarks[0]
    with pytest.raises(sc.QueryError, match="c3"):
        release.ask("SELECT COUNT(*) FROM t WHERE c3 = 1")


def test_questions_that_no_workload_can_serve() -> None:
    queries = ["SELECT COUNT(*) FROM t WHERE x = y", "SELECT x, y, COUNT(*) FROM t GROUP BY x, y"]
    found = _advise(GRID, rows=10**9, queries=queries).best
    assert found.method == "hierarchy"
    assert "do not fit the method workload" in found.reason


def test_replacing_takes_more_noise_than_adding() -> None:
    said = [
        _advise(GRID, rows=1000, neighbours=each).best.reason for each in ("add_remove", "replace")
    ]
    assert said[0] != said[1]


def test_few_rows_are_said() -> None:
    assert "The error is large" in sc.recommend(PEOPLE, rows=50, epsilon=0.1).best.reason
    assert "The error is large" not in sc.recommend(PEOPLE, rows=10**5, epsilon=0.1).best.reason


REFUSALS = [
    ({"rows": 0}, "'rows' parameter of recommend"),
    ({"epsilon": 0}, "'epsilon' parameter of recommend"),
    ({"delta": 1}, "'delta' parameter of recommend"),
    ({"occupied": 0}, "'occupied' parameter of recommend"),
    ({"neighbours": "all"}, "'replace' or 'add_remove'"),
    ({"use": "everything"}, "one of questions, rows, tables, live"),
    ({"queries": "some.sql"}, "a list of SQL counts, or a pathlib.Path"),
    ({"attributes": []}, "'attributes' parameter of recommend"),
    ({"attributes": ["x", "x"]}, "'attributes' parameter of recommend"),
]


def test_refusals(subtests: pytest.Subtests) -> None:
    for changed, sentence in REFUSALS:
        with subtests.test(changed=changed), pytest.raises(sc.ParameterError, match=sentence):
            _advise(LINE, **changed)
    with pytest.raises(sc.SchemaError, match="no attribute 'z'"):
        _advise(LINE, attributes=["z"])
    with pytest.raises(sc.SchemaError, match="never published"):
        _advise(PERSONS, attributes=["who"])
    nothing = sc.Schema([sc.Attribute("who", "identifier")]).with_unit()
    with pytest.raises(sc.SchemaError, match=r"no column that counts or rows can be made of\.$"):
        _advise(nothing)
    with pytest.raises(TypeError, match="epsilon"):
        sc.recommend(LINE, rows=9)  # no default


@pytest.mark.parametrize("use", ["questions", "tables"])
def test_too_many_cells_for_a_delta(use: str) -> None:
    with pytest.raises(sc.ParameterError, match="too many for any method with a delta"):
        _advise(HUGE, use=use, delta=1e-6)


def test_levels_of_care_are_what_their_epsilon_means() -> None:
    assert [level.name for level in CARE_LEVELS] == ["careful", "balanced", "open"]
    for level in CARE_LEVELS:
        odds = np.exp(level.epsilon) / 9
        ends = float(re.findall(r"([\d.]+) %\.", level.sentence)[0])
        assert 0 <= ends - 100 * odds / (1 + odds) < 0.1
    assert CARE_LEVELS[0].sentence == (
        "Someone who already believed a guess with 10 % can reach at most 15 %."
    )


# --- expected errors ------------------------------------------------------------------------------


def _table(schema: sc.Schema, rows: int) -> pa.Table:
    numbers = np.random.default_rng(1)
    return pa.table({each.name: numbers.integers(0, each.size, rows) for each in schema})


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_expected_errors_are_those_that_releases_state(
    delta: float | None, neighbours: str, subtests: pytest.Subtests
) -> None:
    rows = 20_000
    table, compared = _table(PEOPLE, rows), set()
    for use in ("questions", "rows"):
        given = {"epsilon": 1, "delta": delta, "neighbours": neighbours}
        advice = sc.recommend(PEOPLE, rows=rows, use=use, **given)
        asked = _Case(PEOPLE, rows, 1, delta, PEOPLE.names, (), neighbours, None).questions
        for each in (advice.best, *advice.alternatives):
            release = sc.publish(table, PEOPLE, each.mechanism(), options=sc.PublishOptions(seed=1))
            for question, error in zip(asked, each.errors, strict=True):
                if error.half_width is None:
                    continue
                where = " AND ".join(
                    f"{name} BETWEEN {low} AND {low + codes - 1}"
                    for name, codes in question.codes.items()
                    for low in [(PEOPLE[name].size - codes) // 2]
                )
                low, high = release.answer(f"SELECT COUNT(*) FROM t WHERE {where}").interval(0.95)
                with subtests.test(method=each.method, question=error.question):
                    assert (high - low) / 2 == pytest.approx(error.half_width, rel=0.1, abs=1)
                compared.add(each.method)
    assert {"marginals", "hierarchy", "synthesis"} <= compared
    assert ("histogram" in compared) == (delta is None)
    assert ("subset" in compared) == (neighbours == "replace")


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("sizes", [(16,), (4, 8)])
@pytest.mark.parametrize("method", ["Histogram", "Hierarchy"])
def test_expected_errors_of_ranges_are_those_of_releases(
    method: str, sizes: tuple[int, ...], neighbours: str
) -> None:
    """The mean variance over all ranges, from the answers: under "replace" the number of rows is
    published, and readers use it.
    """
    names = [f"x{place}" for place in range(len(sizes))]
    schema = sc.Schema(
        [
            sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
            for name, size in zip(names, sizes, strict=True)
        ]
    )
    people = {name: list(range(4)) * 5 for name in names}
    kind = getattr(sc, method)(names, epsilon=1, neighbours=neighbours)
    release = sc.publish(pa.table(people), schema, kind, options=sc.PublishOptions(seed=1))
    ranges = [
        [f"{name} BETWEEN {low} AND {high}" for low in range(size) for high in range(low, size)]
        for name, size in zip(names, sizes, strict=True)
    ]
    wheres = [" AND ".join(each) for each in itertools.product(*ranges)]
    found = release.answer_many([f"SELECT COUNT(*) FROM t WHERE {where}" for where in wheres])
    case = _Case(schema, 20, 1, None, names, (), neighbours, None)
    expected = case.plain_error() if method == "Histogram" else case.tree_error()
    variances = [each.stderr**2 for each in found]
    noise = float(DiscreteLaplace(Fraction(2 if neighbours == "replace" else 1)).variance)
    continuous = case.noise**2  # discrete noise varies slightly less
    assert sum(variances) / len(found) * continuous / noise == pytest.approx(expected**2, rel=0.02)


def test_the_reason_for_mosaic_says_interval_and_error_of_both() -> None:
    schema = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 99)) for name in "xy"])
    best = sc.recommend(schema, rows=20_000, epsilon=1.0).best
    assert best.method == "mosaic"
    said = [
        (float(half), float(error))
        for half, error in re.findall(r"± ([\d.]+) rows \(error ([\d.]+)\)", best.reason)
    ]
    assert len(said) == 2
    assert said[1][0] < said[0][0]
    assert said[0][0] == pytest.approx(1.96 * said[0][1], rel=0.01)
    assert "--epsilon 1 " in best.command()
    assert {error.half_width for error in best.errors} == {None}
    assert "depends on the table; scumble compare" in str(best.errors[0])


def test_the_noise_of_a_database_allows_the_answers_that_are_said(tmp_path: Path) -> None:
    best = sc.recommend(PEOPLE, rows=20_000, epsilon=1, use="live").best
    assert best.parameters["noise"] == 2 * int(re.findall(r"up to (\d+) answers", best.reason)[0])
    with pytest.raises(sc.ParameterError, match=r"Database\.create"):
        best.mechanism()
    with sc.Database.create(
        tmp_path / "db", _table(PEOPLE, 20_000), PEOPLE, **best.parameters, seed=1
    ) as database:
        answer = database.answer("SELECT COUNT(*) FROM t WHERE ill = 3")
        low, high = answer.interval(0.95)
        assert (high - low) / 2 == pytest.approx(best.errors[0].half_width, rel=0.1)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_live_database_has_the_errors_that_are_said(tmp_path: Path, neighbours: str) -> None:
    """They depend on no row, so what is expected is what is printed."""
    given = {"neighbours": neighbours, "delta": 1e-9, "use": "live"}
    best = sc.recommend(PEOPLE, rows=20_000, epsilon=1, **given).best
    assert best.setting == "ε = 1, δ = 1e-09"
    assert f"--delta 1e-09 --neighbours {neighbours}" in best.command()
    asked = ("ill = 5", "age BETWEEN 12 AND 36", "ill = 5 AND age = 24")  # as in the middle
    table = _table(PEOPLE, 20_000)
    with sc.LiveDatabase.create(tmp_path / "db", table, PEOPLE, **best.parameters, seed=1) as live:
        for where, error in zip(asked, best.errors, strict=True):
            half = live.ask(f"SELECT COUNT(*) FROM t WHERE {where}").half_width
            assert half == pytest.approx(error.half_width, rel=0.01)


def test_a_live_database_of_a_large_domain_has_the_errors_that_are_said(tmp_path: Path) -> None:
    attributes = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 29)) for name in "abcde"]
    small = sc.Schema(attributes)
    given = {"epsilon": 1, "use": "live", "delta": 1e-9}
    best = sc.recommend(small, rows=2_000, attributes=list("abcde"), **given).best
    assert best.method == "database"
    asked = ("a = 14", "b BETWEEN 7 AND 21", "a = 14 AND b = 14")
    table = _table(small, 2_000)
    with sc.LiveDatabase.create(tmp_path / "db", table, small, **best.parameters, seed=1) as live:
        for where, error in zip(asked, best.errors, strict=True):
            found = live.ask(f"SELECT COUNT(*) FROM t WHERE {where}").half_width
            assert found == pytest.approx(error.half_width, rel=0.01)


def test_few_questions_are_better_asked_without_delta(tmp_path: Path) -> None:
    """With as many answers about everybody as are said the database without δ is the more precise
    one, after a purchase too; with one more it is not.
    """
    known = {"rows": 20_000, "epsilon": 1, "use": "live"}
    advice = sc.recommend(PEOPLE, **known, delta=1e-9)
    [few] = [each for each in advice.alternatives if each.method == "database"]
    [answers] = map(int, re.findall(r"up to (\d+) answers", few.reason))
    assert few.parameters["noise"] == 2 * answers
    table, given = _table(PEOPLE, 20_000), advice.best.parameters
    with sc.LiveDatabase.create(tmp_path / "db", table, PEOPLE, **given, seed=1) as live:
        sql = "SELECT COUNT(*) FROM t WHERE ill = 5 AND age = 24"
        bought = live.ask(sql, within=1).half_width
    assert few.errors[0].half_width <= bought < few.errors[0].half_width * (answers + 1) / answers
    assert "With a delta, such as 1e-9," in sc.recommend(PEOPLE, **known).best.reason


# --- the command, and what is printed -------------------------------------------------------------


def test_the_command_runs(tmp_path: Path) -> None:
    """What is printed is a command that publishes."""
    schema, table = tmp_path / "schema.toml", tmp_path / "table.csv"
    GRID.save(schema)
    table.write_text("x,y\n" + "".join(f"{i % 128},{i % 7}\n" for i in range(500)))
    result = CliRunner().invoke(
        app, ["recommend", "-s", str(schema), "--rows", "500", "-e", "1", "--use", "questions"]
    )
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Recommended: mosaic (ε = 1)\n")
    [command] = re.findall(r"^  (scumble publish .*)$", result.output, re.MULTILINE)
    words = command.replace("TABLE", str(table)).replace("FOLDER", str(tmp_path / "out")).split()
    published = CliRunner().invoke(app, words[1:])
    assert published.exit_code == 0, published.output
    assert sc.open(tmp_path / "out").manifest.mechanism == "mosaic"


def test_all_commands_name_their_options() -> None:
    live = sc.recommend(PEOPLE, rows=20_000, epsilon=1, use="live").best
    assert live.command("a b.csv", "s.toml", "db") == (
        "scumble db create db 'a b.csv' --schema s.toml --epsilon 1 --noise 66"
    )
    queries = ["SELECT COUNT(*) FROM t WHERE x < 9"]
    found = _advise(LINE, rows=10**7, queries=queries).best
    assert "--queries QUERIES" in found.command()


def test_questions_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text("SELECT COUNT(*) FROM t WHERE x < 9\n")
    found = _advise(LINE, rows=10**7, queries=file).best
    assert found.method == "workload"
    assert f"--queries {file}" in found.command()
    assert "mwem" in {
        each.method for each in _advise(PEOPLE, use="rows", queries=_ILL).alternatives
    }


_ILL = ["SELECT COUNT(*) FROM t WHERE ill = 3 AND age < 20"]


def test_printed_advice_says_the_best_first_and_then_the_alternatives() -> None:
    advice = sc.recommend(PEOPLE, rows=20_000, epsilon=1)
    lines = str(advice).splitlines()
    assert lines[0] == f"Recommended: {advice.best.method} (ε = 1)"
    assert lines[1] == f"  {advice.best.reason}"
    assert len(lines) == 2 + 1 + 3 + 1 + 1 + len(advice.alternatives)
    assert "Not recommended here:" not in lines
    told = advice.text("people.csv", "people.toml", "view", reasons=True)
    assert "scumble publish histogram people.csv --schema people.toml" in told
    for name, reason in advice.not_recommended.items():
        assert name in told
        assert reason in told


def test_no_row_is_read() -> None:
    """The module knows nothing that reads a table."""
    tree = ast.parse(inspect.getsource(module))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    banned = ("scumble.private.tables", "scumble.private.publish", "scumble.private.engines")
    assert not [name for name in imported if name and name.startswith(banned)]


# --- publish(epsilon=) ----------------------------------------------------------------------------


def test_publish_takes_the_recommended_method(tmp_path: Path) -> None:
    rows = 20_000
    table = _table(PEOPLE, rows)
    release = sc.publish(table, PEOPLE, epsilon=1, options=sc.PublishOptions(seed=1))
    best = sc.recommend(PEOPLE, rows=rows, epsilon=1).best
    assert release.manifest.mechanism == best.method
    assert release.manifest.report["chosen by recommend"] == best.reason
    assert f"The method {best.method} was chosen by scumble.recommend" in release.remarks[0]
    answer = release.answer("SELECT COUNT(*) FROM t WHERE ill = 5")
    low, high = answer.interval(0.95)
    truth = int(np.sum(table["ill"].to_numpy() == 5))
    assert low <= truth <= high
    assert (high - low) / 2 == pytest.approx(best.errors[0].half_width, rel=0.1)
    file = tmp_path / "people.csv"
    pc.write_csv(table, file)
    again = sc.publish(file, PEOPLE, epsilon=1, options=sc.PublishOptions(seed=1))
    assert again.manifest.report == release.manifest.report
    release.save(tmp_path / "out", insecure=True)
    opened = sc.open(tmp_path / "out")
    assert opened.manifest.report["chosen by recommend"] == best.reason


def test_publish_with_a_delta() -> None:
    release = sc.publish(
        _table(PEOPLE, 900), PEOPLE, epsilon=1, delta=1e-6, options=sc.PublishOptions(seed=1)
    )
    assert release.manifest.guarantees[0].statement == "(ε, δ)-DP"


def test_a_private_number_of_rows_does_not_choose() -> None:
    """Of people with several rows, and of rows that may be left out, the number is private."""
    who = pa.array([str(number // 2) for number in range(900)])
    chosen = []
    for rows in (30, 900):
        table = _table(LINE, rows).append_column("who", who[:rows])
        schema = sc.Schema((*LINE.attributes, PERSONS["who"]), sc.Unit("who", most_rows=5))
        release = sc.publish(table, schema, epsilon=1, options=sc.PublishOptions(seed=1))
        assert "The number of rows is not used" in release.remarks[0]
        dropped = sc.publish(
            table.drop(["who"]), LINE, epsilon=1, options=sc.PublishOptions(outside="drop", seed=1)
        )
        chosen.append([each.manifest.report["chosen by recommend"] for each in (release, dropped)])
        told = sc.publish(table.drop(["who"]), LINE, epsilon=1, options=sc.PublishOptions(seed=1))
        assert "not used" not in told.remarks[0]
    assert chosen[0] == chosen[1]


def test_publish_refuses_both_and_neither() -> None:
    table = _table(JOB_CODES, 9)
    with pytest.raises(sc.ParameterError, match="Give a mechanism, or epsilon=1: the method is"):
        sc.publish(table, JOB_CODES)
    with pytest.raises(sc.ParameterError, match="Give a mechanism, or epsilon=1: the method is"):
        sc.publish(table, JOB_CODES, delta=1e-6)
    with pytest.raises(sc.ParameterError, match="either a mechanism or"):
        sc.publish(
            table, JOB_CODES, sc.Histogram(["x"], epsilon=1, neighbours="replace"), epsilon=1
        )
    with pytest.raises(sc.ParameterError, match="such as Uniform"):
        sc.publish(table, JOB_CODES, "uniform")
    with pytest.raises(sc.ParameterError, match="'epsilon' parameter of publish"):
        sc.publish(table, JOB_CODES, epsilon=-1)
    with pytest.raises(sc.ParameterError, match="publish_linked takes several"):
        sc.publish({"a": table}, JOB_CODES, epsilon=1)


JOB_CODES = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 4))])


# --- sums of money ------------------------------------------------------------------------------

MONEY = sc.Schema(
    [
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 99)),
        sc.Attribute("region", "quasi", sc.IntegerRange(0, 19)),
        sc.Attribute("pay", "sensitive", sc.Number(0, 100_000)),
    ],
    sc.Unit(),
)


def _paid(rows: int) -> pa.Table:
    numbers = np.random.default_rng(5)
    return _table(MONEY.select(["age", "region"]), rows).append_column(
        "pay", pa.array(np.minimum(numbers.lognormal(9.7, 0.8, rows), 100_000).round())
    ).append_column("sex", pa.array(numbers.choice(["f", "m"], rows)))  # fmt: skip


def test_an_average_of_money_is_exact_by_default() -> None:
    """The mean of a group is within the error that was said in at least 33 of 40 answers: of 95 %
    fewer have probability 0.0001. It is a few hundredths of the mean.
    """
    rows = 20_000
    table = _paid(rows)
    pay, women = table["pay"].to_numpy(), np.asarray(table["sex"]) == "f"
    near = 0
    for seed in range(20):
        release = sc.publish(table, MONEY, epsilon=1, options=sc.PublishOptions(seed=seed))
        best = sc.recommend(MONEY, rows=rows, epsilon=1).best
        [error] = [each for each in best.errors if each.average]
        assert error.question == "the average of pay in rows with 1 value of sex"
        assert error.half_width < 0.05 * pay.mean()
        for sex, among in (("f", women), ("m", ~women)):
            found = release.ask(f"SELECT AVG(pay) FROM t WHERE sex = '{sex}'")
            near += abs(float(found) - pay[among].mean()) <= error.half_width
    assert near >= 33
    said = release.manifest.report["chosen by recommend"]
    assert "Half of ε is for sums and averages of pay" in said


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("rows", [2_000, 10**6])
def test_the_error_of_an_average_is_the_one_of_the_release(rows: int, delta: float | None) -> None:
    """Of an average that lies a quarter of the limits from their middle, the half-widths differ
    from what was said by a tenth: the law of a ratio is not that of its two parts.
    """
    best = sc.recommend(MONEY, rows=rows, epsilon=1, delta=delta).best
    assert ("sum_ways" in best.parameters) == (rows == 2_000 and delta is None)
    table = pa.table(
        {"sex": ["f", "m"] * 500, "age": [1] * 1000, "region": [1] * 1000, "pay": [75_000] * 1000}
    )
    release = sc.publish(table, MONEY, best.mechanism(), options=sc.PublishOptions(seed=2))
    found = release.ask("SELECT SUM(pay - 75000) FROM t WHERE sex = 'f'")
    low, high = found.interval(0.95)
    [error] = [each for each in best.errors if each.average]
    said = error.half_width * rows / 2
    assert (high - low) / 2 == pytest.approx(min(said, 100_000 * rows / 2), rel=0.12)


def test_which_columns_are_added_up() -> None:
    bins = MONEY.replace(
        sc.Attribute("pay", "quasi", sc.BinnedNumber.of(sc.Number(0, 100_000), (20_000, 50_000)))
    )
    both = sc.recommend(bins, rows=20_000, epsilon=1).best.parameters
    assert (both["attributes"], both["sums"]) == (["sex", "age", "region", "pay"], ["pay"])
    few = MONEY.replace(sc.Attribute("pay", "quasi", sc.Number(0, 80)))
    counted = sc.recommend(few, rows=20_000, epsilon=1).best.parameters
    assert counted["attributes"] == ["sex", "age", "region", "pay"]
    assert "sums" not in counted
    alone = sc.recommend(MONEY, rows=20_000, epsilon=1, attributes=["pay"]).best.parameters
    assert alone["attributes"] == ["pay"]
    rows = sc.recommend(MONEY, rows=20_000, epsilon=1, use="rows").best
    assert rows.parameters["attributes"] == ["sex", "age", "region"]
    assert "pay is left out: it has too many amounts to count" in rows.reason
    live = sc.recommend(MONEY, rows=20_000, epsilon=1, use="live").best
    assert "attributes" not in live.parameters  # it has the amounts themselves
    assert live.errors[-1].average == "pay"
    more = sc.Schema(
        [*MONEY, *(sc.Attribute(f"p{i}", "quasi", sc.Number(0, 10**6)) for i in range(3))],
        sc.Unit(),
    )
    best = sc.recommend(more, rows=20_000, epsilon=1).best
    assert best.parameters["sums"] == ["pay", "p0", "p1"]
    assert "p2 is left out: the sums of 3 other columns are measured" in best.reason

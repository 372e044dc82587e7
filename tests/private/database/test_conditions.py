"""Conditions to boxes: exactly the points for which DuckDB finds the condition true."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.errors import QueryError
from scumble.private.database.questions import reader
from scumble.private.database.questions.conditions import boxes_of
from scumble.private.database.space import Space
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse
from tests.support.database.drawn_boxes import cells

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 11), missing=True),
        sc.Attribute("job", "sensitive", sc.Category(("cook", "driver", "nurse", "smith"))),
        sc.Attribute("pay", "quasi", sc.Bins((0, 10, 20.5, 40, 100))),
        sc.Attribute("born", "quasi", sc.Dates(date(2001, 10, 5), date(2002, 3, 1), "month")),
        sc.Attribute("rich", "quasi", sc.Boolean(), missing=True),
    ]
)
SPACE = Space(SCHEMA, SCHEMA.names)
ENGINE = Sandbox(SCHEMA)
ENGINE.known = None  # every condition is evaluated by DuckDB

ATOMS = """
age = 3 | age <> 3 | age < 5 | age BETWEEN 2 AND 7 | age NOT BETWEEN 4 AND 20 | age IN (1, 2, 8)
age NOT IN (1, 2, 8) | age NOT IN (1, NULL) | age IS NULL | age IS NOT NULL | NOT age > 6
age % 3 = 1 | CASE WHEN age < 4 THEN age = 2 ELSE age > 9 END | coalesce(age, 5) = 5
job = 'cook' | job <> 'nurse' | job LIKE '%r%' | job IN ('smith', 'cook', 'pilot')
length(job) = 5 | upper(job) >= 'D' | NOT job IN ('cook') | job = 'pilot'
pay >= 10 AND pay < 40 | pay > 15 | pay BETWEEN 20.5 AND 100 | NOT (pay < 10 OR pay > 50)
born BETWEEN DATE '2001-11-01' AND DATE '2002-01-31' | year(born) = 2002 | born <> DATE '2002-01-01'
rich | NOT rich | rich = FALSE | rich IS DISTINCT FROM TRUE | TRUE | 1 = 2 | NULL IS NULL
""".replace("\n", "|")
ATOMS = [atom.strip() for atom in ATOMS.split("|") if atom.strip()]

formulas = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda three: f"({three[0]}) {three[1]} ({three[2]})"
        ),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)


def boxes(condition, space=SPACE, engine=ENGINE, **options):
    query = parse(f"SELECT COUNT(*) FROM t WHERE {condition}", space_schema(space))
    return boxes_of(query.clauses, space, engine, **options)


def space_schema(space):
    return sc.Schema(space.attributes)


def truth(condition):
    """Every point, asked of DuckDB as a whole."""
    query = parse(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA)
    found = np.ones(SPACE.points, bool)
    for value in ENGINE.holds(query.clauses, SPACE.names):
        found &= value
    return found.reshape(SPACE.sizes)


def covered(found):
    counts = np.zeros(SPACE.sizes, int)
    for box in found:
        counts[cells(box)] += 1
    return counts


def test_one_attribute_with_the_fewest_boxes(subtests):
    for atom in ATOMS:
        with subtests.test(atom=atom):
            found = boxes(atom)
            assert (covered(found) == truth(atom)).all()
            for axis in range(len(SPACE)):
                line = found[np.argsort(found[:, axis, 0]), axis]
                if len(np.unique(line, axis=0)) > 1:
                    assert (line[1:, 0] > line[:-1, 1] + 1).all()  # gaps: none could be joined


@given(formulas)
@settings(max_examples=100)
def test_any_formula_is_exactly_the_points_for_which_it_is_true(condition):
    assert (covered(boxes(condition)) == truth(condition)).all()


@given(formulas)
@settings(max_examples=40)
def test_a_box_written_as_sql_is_read_as_that_box(condition):
    for box in boxes(condition)[:5]:
        assert boxes(SPACE.sql(box)).tolist() == [box.tolist()]


def test_no_condition_is_the_whole_space_and_a_false_one_no_box():
    assert boxes_of([], SPACE, ENGINE).tolist() == [SPACE.whole.tolist()]
    assert boxes("TRUE").tolist() == [SPACE.whole.tolist()]
    for never in ("FALSE", "NULL", "age > 50", "age = 1 AND age = 2", "age = NULL"):
        assert boxes(never).shape == (0, 5, 2)


def test_a_box_is_one_box_however_it_is_written():
    for condition in (
        "age BETWEEN 2 AND 5 AND job IN ('driver', 'nurse')",
        "age >= 2 AND NOT age > 5 AND NOT (job = 'cook' OR job = 'smith')",
        "NOT (age < 2 OR age > 5 OR age IS NULL OR job IN ('cook', 'smith'))",
        "(age = 2 OR age IN (3, 4, 5)) AND (job = 'driver' OR job LIKE 'nu%')",
        "age IN (2, 3) AND job IN ('driver', 'nurse') OR age IN (4, 5) AND job SIMILAR TO '[dn].*'",
    ):
        assert boxes(condition).tolist() == [[[2, 5], [1, 2], [0, 3], [0, 5], [0, 2]]]


COMPARING = [
    ("age < pay", '"age" < "pay"', "age with pay"),
    ("job = 'cook' AND (rich OR age = pay + 1)", '"age" = "pay" + 1', "age with pay"),
    ("NOT (age = 1 OR pay > age)", 'NOT ("pay" > "age")', "age with pay"),
    ("CASE WHEN rich THEN age = 1 ELSE pay > 3 END", "CASE WHEN", "age with pay with rich"),
]


def test_a_part_that_compares_attributes_is_named(subtests):
    for condition, part, names in COMPARING:
        with subtests.test(condition=condition):
            with pytest.raises(QueryError) as caught:
                boxes(condition)
            assert part in caught.value.message
            assert f"compares {names}: it is not made of boxes" in caught.value.message


def test_too_many_boxes_are_refused_in_a_sentence():
    with pytest.raises(QueryError, match="takes 3 separate boxes, and at most 2 are possible"):
        boxes("age IN (1, 3, 5)", most=2)
    assert len(boxes("age IN (1, 3, 5)", most=3)) == 3


def test_too_many_cells_are_refused_in_a_sentence():
    wide = Space(
        sc.Schema([sc.Attribute(n, "quasi", sc.IntegerRange(0, 9999)) for n in "ab"]), ["a", "b"]
    )
    with pytest.raises(QueryError, match="cuts a, b into 100000000 cells, and at most"):
        boxes("a % 2 = 0 OR b % 2 = 0", wide, Sandbox(space_schema(wide)))


def test_an_attribute_outside_the_space_is_named():
    query = parse("SELECT COUNT(*) FROM t WHERE age = 1 AND rich", SCHEMA)
    with pytest.raises(QueryError, match="'rich' is not an attribute of this database"):
        boxes_of(query.clauses, Space(SCHEMA, ["age", "job"]), ENGINE)


@pytest.mark.parametrize("negation", ["", "NOT "])
def test_long_lists_mean_what_short_ones_do(negation):
    """Long lists are not put to the engine; the same list in two halves is."""
    jobs = tuple(f"it's {place}" for place in range(500))
    schema = sc.Schema(
        [
            sc.Attribute("n", "quasi", sc.IntegerRange(-700, 700), missing=True),
            sc.Attribute("job", "quasi", sc.Category(jobs), missing=True),
            sc.Attribute("code", "quasi", sc.Category(tuple(range(50, 900, 3)))),
        ]
    )
    space, engine = Space(schema, schema.names), Sandbox(schema)
    numbers = [str(n) for n in range(-900, 900, 7)] * 4
    texts = ["'" + job.replace("'", "''") + "'" for job in (*jobs[::3], "it", " it's 1")]
    join = " AND " if negation else " OR "
    for name, items in (("n", numbers), ("code", numbers), ("job", texts)):
        half = len(items) // 2
        lists = [
            f"{name} {negation}IN ({', '.join(some)})" for some in (items[:half], items[half:])
        ]
        expected = boxes(join.join(f"({part}) = TRUE" for part in lists), space, engine)
        whole = boxes(f"{name} {negation}IN ({', '.join(items)})", space, engine)
        assert whole.tolist() == expected.tolist()
        assert len(whole) > 1


def test_questions_that_were_read_take_a_bounded_memory(monkeypatch):
    """One that compares two columns has an amount for each pair of values: here 720 kB."""
    monkeypatch.setattr(reader, "_MOST_KEPT", 1_000_000)
    schema = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 299)) for name in "ab"])
    reading = reader.QuestionReader(schema, Space(schema, ["a", "b"]))
    for number in range(3):
        sql = f"SELECT COUNT(*) FROM t WHERE (a + b) % 7 = {number}"
        with reading.reading(sql, None) as asked, reading.reading(sql, None) as again:
            assert again is asked
        amounts = [each.amounts for each in asked.questions[0].summands]
        values = [each.values.nbytes for each in amounts if each is not None]
        assert sum(values) == 720_000 <= reading._read_before.size <= 1_000_000
        assert len(reading._read_before._values) == 1
    reading.close()

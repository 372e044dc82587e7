"""The verbs of all who answer questions, and of the views of releases."""

from __future__ import annotations

import pytest

import scumble as sc
from scumble.demo.census import census
from scumble.families import families
from scumble.model.errors import MissingViewError
from scumble.public.release import Release

PEOPLE, SCHEMA = census(1_000, seed=1)
NUMBER = "SELECT COUNT(*) FROM t WHERE condition = 'Asthma'"
GROUPS = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
TABLE = "SELECT COUNT(*) AS n, AVG(age) AS years FROM t WHERE condition = 'Asthma'"


@pytest.fixture(scope="module")
def release() -> Release:
    return sc.publish(PEOPLE, SCHEMA, sc.Subset(epsilon=2), options=sc.PublishOptions(seed=1))


def test_a_verb_says_the_type_of_its_answer(release: Release) -> None:
    assert release.number(NUMBER).value == release.number(NUMBER, clamp=True).value
    assert len(release.groups(GROUPS)) == 2
    assert release.table(TABLE)["n"] == release.ask(TABLE)["n"]  # type: ignore[index]


def test_another_shape_is_refused_with_its_verb(release: Release) -> None:
    for verb, sql, sentence in [
        (release.number, GROUPS, r"one number by group: ask by groups\(sql\)"),
        (release.number, TABLE, r"a table: ask by table\(sql\)"),
        (release.groups, NUMBER, r"one number: ask by number\(sql\)"),
        (release.table, GROUPS, r"one number by group: ask by groups\(sql\)"),
    ]:
        with pytest.raises(sc.QueryError, match=sentence):
            verb(sql)


def test_answer_is_ask(release: Release) -> None:
    assert release.answer(NUMBER) == release.ask(NUMBER)
    assert release.answer_many([NUMBER]) == release.ask_many([NUMBER])


def test_a_release_has_only_the_views_of_its_mechanism(release: Release) -> None:
    views = sorted({view for family in families().values() for view in family.views})
    assert views == ["baskets", "generalised", "histogram", "keys", "marginals", "sequences"]
    for view in (*views, "synthetic"):
        assert not hasattr(release, view)
        with pytest.raises(MissingViewError, match=r"release by|publishes rows itself") as error:
            getattr(release, view)
        assert isinstance(error.value, (sc.ParameterError, AttributeError))
    counts = sc.publish(
        PEOPLE,
        SCHEMA,
        sc.Histogram(["sex"], epsilon=1, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert [view for view in views if hasattr(counts, view)] == ["histogram"]
    assert {*views, "synthetic"}.isdisjoint(dir(release))
    assert [view for view in views if view in dir(counts)] == ["histogram"]
    assert {"synthetic", "ask", "number", "schema", "save"} <= {*dir(counts)}
    assert counts.synthetic.rows(10, seed=1).num_rows == 10

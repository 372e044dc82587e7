"""What every mechanism of sets or sequences must do, as `test_conformance.py` for columns."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.subjects import of_release
from scumble.cli.printing import _example
from scumble.cli.tools import cards
from scumble.private.mechanism import create
from scumble.public.views import list_view
from tests.support.layouts import assert_layout

SEQUENCES = sc.Schema.loads(
    """
    unit = "row"
    [attributes.name]
    role = "identifier"
    [attributes.pages]
    role = "sensitive"
    type = "sequence"
    values = ["a", "b", "c"]
    """
)
SETS = sc.Schema.loads(
    """
    unit = "row"
    [attributes.name]
    role = "identifier"
    [attributes.pages]
    role = "sensitive"
    type = "set"
    values = ["a", "b", "c"]
    """
)
TABLE = pa.table(
    {
        "name": [str(row % 40) for row in range(120)],
        "pages": [["a b", "a b c", "", "b b b c a", "c"][row % 5] for row in range(120)],
    }
)
POINTS = sc.Schema.loads(
    """
    unit = "row"
    [attributes.name]
    role = "identifier"
    [attributes.pages]
    role = "sensitive"
    type = "sequence"
    range = [0, 1]
    bins = 2
    [attributes.lines]
    role = "sensitive"
    type = "sequence"
    edges = [0, 2, 3.5]
    """
)
POINT_TABLE = pa.table(
    {
        "name": [str(row % 40) for row in range(120)],
        "pages": [["0.1 0.7", "0.5 0.5 1", "", "0 0 1 1 0", "1"][row % 5] for row in range(120)],
        "lines": [["0 1", "3 3 3.5", "", "2 2 1 1 0", "1"][row % 5] for row in range(120)],
    }
)
OCCURRENCES = "SELECT SUM(occurrences(pages, ['a', 'b'])) FROM t"
BASKETS = "SELECT COUNT(*) FROM t"
PREFIX = "SELECT COUNT(*) FROM t WHERE pages[1:1] = ['a']"


def _sequences(**more) -> dict:
    return {"attribute": "pages", "length": 4, "epsilon": 1, "neighbours": "add_remove"} | more


def _trips(**more) -> dict:
    given = {"x": "pages", "y": "lines", "length": 4, "epsilon": 1, "neighbours": "add_remove"}
    return given | more


def _baskets(**more) -> dict:
    return {"attribute": "pages", "top": 3, "epsilon": 1, "neighbours": "add_remove"} | more


def _whole(**more) -> dict:
    return {"attribute": "pages", "epsilon": 1, "neighbours": "add_remove"} | more


# By case: schema, parameters, a question.
CASES = {
    "sequences": (SEQUENCES, _sequences(), OCCURRENCES),
    "sequences, symbols": (SEQUENCES, _sequences(weigh="symbol", depth=2), OCCURRENCES),
    "sequences, prefix": (SEQUENCES, _sequences(model="prefix"), PREFIX),
    "sequences, grams": (SEQUENCES, _sequences(model="grams", epsilon=20), OCCURRENCES),
    "sequences, people": (
        SEQUENCES,
        _sequences(person="name", contribution=2, neighbours="replace"),
        OCCURRENCES,
    ),
    "trajectories": (POINTS, _trips(), "SELECT COUNT(*) FROM t WHERE first(trip) = 'x0y0'"),
    "trajectories, way": (
        POINTS,
        _trips(),
        "SELECT SUM(occurrences(trip, ['x0y0', 'x1y0'])) FROM t",
    ),
    "trajectories, people": (
        POINTS,
        _trips(person="name", contribution=2, neighbours="replace"),
        "SELECT AVG(length(trip)) FROM t",
    ),
    "baskets": (SETS, _baskets(), BASKETS),
    "baskets, delta": (SETS, _baskets(delta=1e-6), BASKETS),
    "baskets, people": (
        SETS,
        _baskets(person="name", contribution=2, neighbours="replace"),
        BASKETS,
    ),
    "diffpart": (SETS, _whole(), BASKETS),
    "diffpart, people": (
        SETS,
        _whole(person="name", contribution=2, neighbours="replace", epsilon=5, fanout=2),
        "SELECT COUNT(*) FROM t WHERE contains(pages, 'a')",
    ),
}
REFUSED = {
    "trajectories": (
        ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
        ({"epsilon": 1e-30}, "larger than any count"),
        ({"x": ""}, "'x' parameter of Trajectories"),
        ({"y": "pages"}, "another sequence than 'x'"),
        (
            {"length": 1},
            "'length' parameter of Trajectories must be a whole number from 2 to 10000",
        ),
        ({"neighbours": "all"}, "'replace' or 'add_remove'"),
        ({"contribution": 0}, "a whole number of at least 1"),
    ),
    "baskets": (
        ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
        ({"epsilon": 1e-30}, "larger than any count"),
        ({"attribute": ""}, "'attribute' parameter of Baskets"),
        ({"top": 0}, "'top' parameter of Baskets must be a whole number from 1 to 10000"),
        ({"delta": 1}, "between 0 and 1"),
        ({"longest": 0}, "'longest' parameter of Baskets"),
        ({"items": 2}, "'items' parameter of Baskets must be a whole number from 3 to 64"),
        ({"neighbours": "all"}, "'replace' or 'add_remove'"),
        ({"contribution": 0}, "a whole number of at least 1"),
    ),
    "diffpart": (
        ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
        ({"epsilon": 1e-30}, "larger than any count"),
        ({"attribute": ""}, "'attribute' parameter of DiffPart"),
        ({"fanout": 1}, "'fanout' parameter of DiffPart must be a whole number from 2 to 16"),
        ({"false_parts": 0}, "'false_parts' parameter of DiffPart"),
        ({"neighbours": "all"}, "'replace' or 'add_remove'"),
        ({"contribution": 0}, "a whole number of at least 1"),
    ),
    "sequences": (
        ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
        ({"epsilon": 1e-18}, "larger than any count"),
        ({"neighbours": "all"}, "'replace' or 'add_remove'"),
        ({"contribution": 0}, "a whole number of at least 1"),
        ({"attribute": ""}, "'attribute' parameter of Sequences"),
        ({"length": 0}, "'length' parameter of Sequences must be a whole number from 1 to 65536"),
        ({"length": 70_000}, "Got 70000 instead"),
        ({"model": "suffixes"}, "one of suffix, prefix, grams"),
        ({"weigh": "page"}, "'sequence' or 'symbol'"),
        ({"depth": 0}, "'depth' parameter of Sequences must be a whole number from 1 to 64"),
    ),
}


def made(name: str, **changed) -> sc.Mechanism:
    return create(name.partition(",")[0], **(CASES[name][1] | changed))


def table_of(name: str) -> pa.Table:
    return POINT_TABLE if CASES[name][0] is POINTS else TABLE


def published(name: str, seed: int | None = 1) -> sc.Release:
    return sc.publish(
        table_of(name), CASES[name][0], made(name), options=sc.PublishOptions(seed=seed)
    )


@cache
def shared(name: str) -> sc.Release:
    """The release with seed 1, published once for all tests that only read it."""
    return published(name)


def test_every_mechanism_of_lists_is_here() -> None:
    of_lists = {each for each, kind in sc.mechanisms().items() if kind.of_lists}
    assert {each.partition(",")[0] for each in CASES} == of_lists
    assert set(REFUSED) == of_lists


def test_a_saved_release_answers_as_before(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            release, question = shared(name), CASES[name][2]
            saved = sc.open(release.save(tmp_path / "release", insecure=True))
            assert repr(saved.answer(question)) == repr(release.answer(question))
            assert (
                list(map(repr, saved.answer_many([question] * 2)))
                == [repr(release.answer(question))] * 2
            )
            assert repr(list_view(saved).top(3)) == repr(list_view(release).top(3))
            assert [str(g) for g in saved.guarantees] == [str(g) for g in release.guarantees]
            assert saved.manifest.parameters == release.manifest.parameters


def test_parameters_make_it_again(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            mechanism = made(name)
            again = create(mechanism.name, **mechanism.parameters)
            assert again.parameters == mechanism.parameters
            assert repr(again) == repr(mechanism)
            assert again.guarantee(CASES[name][0]) == mechanism.guarantee(CASES[name][0])


def test_bad_parameters_are_refused(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            for parameters, sentence in REFUSED[name.partition(",")[0]]:
                with pytest.raises(sc.ParameterError) as error:
                    made(name, **parameters)
                assert sentence in str(error.value), parameters
                assert "\n" not in str(error.value)


def test_a_fixed_seed_is_said_and_repeats_the_release(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            release, question = shared(name), CASES[name][2]
            assert all(
                str(g).startswith("NOT PRIVATE: seeded for a test.") for g in release.guarantees
            )
            with pytest.raises(sc.ReleaseError, match="fixed seed"):
                release.save(tmp_path / "release")
            assert repr(published(name).answer(question)) == repr(release.answer(question))
            first = published(name, seed=None).answer(question).value
            # Two noisy numbers may be equal, hardly four of them.
            assert any(published(name, seed=None).answer(question).value != first for _ in range(3))


def test_small_tables_are_served(subtests: pytest.Subtests) -> None:
    for name, rows in product(CASES, [0, 1]):
        with subtests.test(name=name, rows=rows):
            release = sc.publish(
                table_of(name).slice(0, rows),
                CASES[name][0],
                made(name),
                options=sc.PublishOptions(seed=1),
            )
            release.answer(CASES[name][2])
            list_view(release).top(2)


def test_other_columns_are_refused_before_anything_is_read(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            text = (
                '[attributes.pages]\nrole = "sensitive"\ntype = "category"\nvalues = ["a", "b"]\n'
            )
            with pytest.raises(sc.SchemaError, match="of the type set"):
                sc.publish("no such file.csv", sc.Schema.loads(text), made(name, person=None))


def test_domains_read_from_data_are_said(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            text = re.sub(
                r'(type = "(?:set|sequence)")', r"\1\nfrom_data = true", CASES[name][0].dumps()
            )
            release = sc.publish(
                table_of(name), sc.Schema.loads(text), made(name), options=sc.PublishOptions(seed=1)
            )
            limits = [limit for each in release.guarantees for limit in each.limits]
            assert any("read from the private data" in limit for limit in limits)


def test_the_error_to_expect_is_told(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            [sentence] = made(name).outlook(CASES[name][0])
            assert "±" in sentence
            assert sentence.endswith(".")


def test_card(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            card = cards.card(sc.mechanisms()[name.partition(",")[0]])
            assert set(card.sections) == set(cards.SECTIONS)
            assert all(len(text) > 40 for text in card.sections.values())


def test_show_names_a_question_and_audit_refutes_nothing(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            release = published(name, seed=None)
            release.answer(_example(release))
            report = of_release(release.save(tmp_path / "release"))
            assert not [each.sentence for each in report.findings if each.refuted]


def test_the_columns_of_its_files_are_known_before_rows_are_read(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            assert_layout(shared(name), made(name).layout(CASES[name][0]))

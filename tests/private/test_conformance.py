"""What every mechanism of the registry must do, on every kind of table.

Other ways to use a mechanism, as "frapp, published", are entries of `conformance_cases`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import scumble as sc
from scumble.cli.tools import cards
from scumble.private.mechanism import create
from tests.support.layouts import assert_layout
from tests.support.mechanisms.conformance_case import TABLES
from tests.support.mechanisms.conformance_cases import cases, full_parameters
from tests.support.people import people, schema

CASES = cases()


def _method(name: str) -> str:
    """The name of the mechanism of a case."""
    return name.partition(",")[0]


def _save(release: sc.Release, folder: Path, **given: bool) -> Path | str:
    """Save a release; its private record, if it has one, goes beside the folder once."""
    unsaved = release.update_record is not None and release.update_record.parent == release.folder
    return release.save(
        folder, update_record=folder.with_name("book") if unsaved else None, **given
    )


def test_every_registered_mechanism_is_here() -> None:
    of_lists = {each for each, kind in sc.mechanisms().items() if kind.of_lists}
    assert set(map(_method, CASES)) | of_lists == set(sc.mechanisms())
    for name, case in CASES.items():
        assert sc.mechanisms()[_method(name)].name == _method(name)
        assert case.make().name == _method(name)


@pytest.mark.parametrize("kind", TABLES)
def test_publishes_and_answers(
    kind: str, tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            if kind in CASES[name].unserved:
                with pytest.raises(sc.PromiseError):
                    CASES[name].publish(kind)
                continue
            release = CASES[name].release(kind)
            saved = sc.open(_save(release, tmp_path / "release", insecure=True))
            questions = CASES[name].asked(
                "SELECT COUNT(*) FROM t WHERE job = 'cook' AND age < 5",
                "SELECT COUNT(*) FROM t WHERE age < 5",
                "SELECT AVG(age) FROM t WHERE job <> 'cook'",
                "SELECT job, COUNT(*) FROM t GROUP BY job",
                "SELECT COUNT(*) FROM t WHERE age = 9 AND (job = 'cook' OR age = 3)",
                "SELECT AVG(age) FROM t WHERE age = 9 AND (job = 'cook' OR age = 3)",
                "SELECT AVG(age) FROM t WHERE age = 9 AND age = 3",
                "SELECT SUM(7) FROM t WHERE 1 = 1",
            )
            answers = list(map(repr, saved.answer_many(questions)))
            if kind in ("empty", "ordinary"):  # of the others the files are the same
                assert answers == [repr(release.answer(question)) for question in questions]
            for file in release.evidence.files:
                assert (saved.folder / file).read_bytes() == (release.folder / file).read_bytes()
            low, high = saved.answer(questions[0]).interval(0.999999)
            rows = CASES[name].table(kind).to_pylist()
            cooks = "job" in questions[0]
            truth = sum(row["age"] < 5 and (row["job"] == "cook" or not cooks) for row in rows)
            assert low <= truth <= high
            assert [str(g) for g in saved.guarantees] == [str(g) for g in release.guarantees]
            assert saved.manifest.parameters == release.manifest.parameters


def test_wide_table(subtests: pytest.Subtests) -> None:
    """Twenty columns: a domain far beyond 2^64."""
    for name in CASES:
        with subtests.test(name=name):
            extra = [sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 99)) for i in range(17)]
            wide = sc.Schema([*CASES[name].schema, *extra])
            assert wide.size() > 2**64
            if "wide" in CASES[name].unserved:
                with pytest.raises(sc.ParameterError):
                    sc.publish(
                        people(300, wide),
                        wide,
                        CASES[name].make(),
                        options=sc.PublishOptions(seed=1),
                    )
                continue
            release = sc.publish(
                people(300, wide), wide, CASES[name].make(), options=sc.PublishOptions(seed=1)
            )
            questions = ("WHERE job = 'cook' AND age < 5", "WHERE age < 5")
            question, *_ = CASES[name].asked(
                *(f"SELECT COUNT(*) FROM t {each}" for each in questions)
            )
            assert release.answer(question).stderr > 0


def test_many_answers_are_the_single_ones(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            release = CASES[name].release()
            questions = CASES[name].asked(
                "SELECT COUNT(*) FROM t WHERE job = 'cook'",
                "SELECT COUNT(*) FROM t WHERE age = 3 AND job IN ('cook', 'nurse')",
                "SELECT COUNT(*) FROM t WHERE age BETWEEN 2 AND 5",
                "SELECT COUNT(*) FROM t WHERE age > 2 AND age < 7",
                "SELECT COUNT(*) FROM t WHERE age > 2 AND age <> 5 AND job = 'cook' "
                "AND job <> 'nurse'",
                "SELECT COUNT(*) FROM t WHERE age > 2 AND age + length(sex) > 4 AND age < 9",
                "SELECT COUNT(*) FROM t WHERE age < 0 AND job = 'cook'",
                "SELECT COUNT(*) FROM t WHERE age < 0 AND (job = 'cook' OR age = 3)",
                "SELECT COUNT(*) FROM t WHERE length(job) > age",
                "SELECT COUNT(*) FROM t",
                "SELECT SUM(age) FROM t WHERE job = 'smith'",
                "SELECT job, COUNT(*) FROM t WHERE age > 1 GROUP BY job",
            )
            for question, many in zip(questions, release.answer_many(questions), strict=True):
                assert repr(many) == repr(release.answer(question))
            assert release.answer_many([]) == []


def test_parameters_make_it_again(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            mechanism = CASES[name].make()
            again = create(_method(name), **mechanism.parameters)
            assert again.parameters == mechanism.parameters
            assert again.guarantee(schema()) == mechanism.guarantee(schema())
            assert repr(again) == repr(mechanism)


def test_bad_parameters_are_refused(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            for parameters, sentence in CASES[name].refused:
                full = full_parameters(_method(name)) | parameters
                with pytest.raises(sc.ParameterError) as error:
                    create(_method(name), **full)
                assert sentence in str(error.value), parameters
                assert "\n" not in str(error.value)


def test_refused_before_anything_is_read(subtests: pytest.Subtests) -> None:
    """A schema that does not fit stops the mechanism although the source would fail as well."""
    for name in CASES:
        with subtests.test(name=name):
            taken = sc.Attribute("occurrence", "quasi", sc.IntegerRange(0, 9))
            unfit = {
                "uniform": schema().with_roles(quasi=["job"]),
                "subset": schema().with_roles(quasi=["job"]),
                "frapp": sc.Schema([sc.Attribute("name", "identifier")]),
                "alphabeta": sc.Schema([*schema(), taken]),
                "partition": schema().with_roles(quasi=["job"]),
                "anatomy": schema().with_roles(quasi=["job"]),
                "generalise": schema().with_roles(quasi=["job"]),
                "aroma": schema().with_roles(quasi=["job"]),
            }.get(_method(name), schema().select(["sex", "job"]))
            with pytest.raises(sc.SchemaError):
                sc.publish("no such file.csv", unfit, CASES[name].make())


def test_a_fixed_seed_is_said_and_not_saved(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            release = CASES[name].release()
            assert all(
                str(g).startswith("NOT PRIVATE: seeded for a test.") for g in release.guarantees
            )
            with pytest.raises(sc.ReleaseError, match="fixed seed"):
                _save(release, tmp_path / "release")
            assert not list(tmp_path.iterdir())


def test_a_release_is_replaced_by_force(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            folder = tmp_path / "release"
            for seed in (1, 2):
                _save(CASES[name].publish(seed=seed), folder, force=seed == 2, insecure=True)
            assert sc.open(folder).manifest.mechanism == _method(name)


def test_two_releases_differ_and_two_of_one_seed_do_not(subtests: pytest.Subtests) -> None:
    for name, case in CASES.items():
        with subtests.test(name=name):
            one, other = case.release(), case.publish(seed=1)
            assert one.evidence.files == other.evidence.files
            for file in one.evidence.files:
                assert (one.folder / file).read_bytes() == (other.folder / file).read_bytes()
            groups = ("age, job", "age")
            question, *_ = case.asked(
                *(f"SELECT {each}, COUNT(*) FROM t GROUP BY {each}" for each in groups)
            )
            one, other = (repr(case.publish(seed=None).answer(question)) for _ in range(2))
            assert (one == other) != case.random


def test_domains_read_from_data_are_said(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            table = CASES[name].table("ordinary")
            inferred = sc.Schema.infer(table, sensitive=["job"])
            release = sc.publish(
                table, inferred, CASES[name].make(), options=sc.PublishOptions(seed=1)
            )
            assert all(
                any("read from the private data" in limit for limit in g.limits)
                for g in release.guarantees
            )
            declared = inferred.declare_public(*inferred.names)
            release = sc.publish(
                table, declared, CASES[name].make(), options=sc.PublishOptions(seed=1)
            )
            assert not any(
                "read from the private data" in limit
                for g in release.guarantees
                for limit in g.limits
            )


def test_card(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            card = cards.card(sc.mechanisms()[_method(name)])
            assert set(card.sections) == set(cards.SECTIONS)
            assert all(len(text) > 40 for text in card.sections.values())


def test_the_columns_of_its_files_are_known_before_rows_are_read(subtests: pytest.Subtests) -> None:
    for name in CASES:
        with subtests.test(name=name):
            release, layout = CASES[name].release(), CASES[name].make().layout(CASES[name].schema)
            assert_layout(release, layout)

"""Releases, databases and ledgers that version 1 of the file formats wrote open unchanged.

The folder `tests/fixtures/format1` was written once by `tests/fixtures/make_format1.py`, and
`expected.json` beside it has what the version that wrote it answered. The files are never written
again: a version that reads another format gets a folder of its own. Only public names of the
package are used here, so that its modules can be moved. What may write is done on a copy.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.private.database.results import Cost
from tests.support.saved_changes import (
    CORRECTED,
    ROUNDED,
    as_today,
    cut_a_bin,
    cut_to_rows,
    is_withheld,
    value_without_lost,
    without_added,
    without_interval,
)

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "format1"
NOISE_ALONE = "not in the interval"
CUT_BIN = "weight > 80"  # a person of exactly 80 is in the bin above: databases refuse cut bins
LEFT_OUT = "cells with few rows were left out"
OF_GROUPS = ("assumes that sensitive values are spread evenly", "rows with too frequent values")
UNPLANNED = "the question tells rows apart that the published sums do not"
MECHANISMS = (
    "uniform subset frapp alphabeta partition anatomy aroma histogram hierarchy wavelet marginals "
    "fourier datacube sparse workload quadtree kdtree privtree grid mosaic dawa"
).split()
# Mechanisms that are newer than these files: test_saved_lists.py and test_saved_synthetic.py.
LATER = {
    "baskets",
    "diffpart",
    "dirichlet",
    "dyadic",
    "generalise",
    "keys",
    "mwem",
    "quantiles",
    "sequences",
    "synthesis",
    "trajectories",
}


# --- what is pinned, as plain JSON. The generator calls the same functions. ----------------------


def plain(value: Any) -> Any:
    """A value as JSON has it: dates as text, numbers that are not finite by their names."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def estimate_facts(estimate: Any) -> dict[str, Any]:
    """One estimate: value, standard error, 95 % interval and notes, and what a database adds."""
    low, high = estimate.interval(0.95)
    facts = {
        "value": float(estimate.value),
        "stderr": float(estimate.stderr),
        "interval": [float(low), float(high)],
        "notes": list(estimate.notes),
    }
    for name in ("status", "answered", "distance", "numbers"):  # of a database
        if hasattr(estimate, name):
            facts[name] = getattr(estimate, name)
    return plain(facts)


def answer_facts(answer: Any) -> Any:
    """An estimate, or a list of the groups with their estimates, in their order."""
    if isinstance(answer, sc.Estimates):
        return [{"group": plain(list(key)), **estimate_facts(each)} for key, each in answer]
    return estimate_facts(answer)


def asked(source: Any, sql: str, **options: Any) -> Any:
    """The answer to a question; for one that is refused, the class of the error."""
    try:
        return answer_facts(source.answer(sql, **options))
    except sc.ScumbleError as error:
        return {"refused": type(error).__name__}


def release_facts(release: sc.Release) -> dict[str, Any]:
    """What a release says about itself, without the words of its guarantees."""
    manifest = release.manifest
    return plain(
        {
            "mechanism": manifest.mechanism,
            "parameters": manifest.parameters,
            "report": manifest.report,
            "outside": manifest.outside,
            "seeded": manifest.seeded,
            "format": manifest.format,
            "guarantees": [dict(promise.parameters) for promise in release.guarantees],
            "rows": release.evidence.rows,
            "columns": release.evidence.columns,
            "schema": [
                [each.name, each.role, None if each.domain is None else each.size]
                for each in release.schema
            ],
        }
    )


def marginal_facts(release: sc.Release, names: list[str]) -> dict[str, Any]:
    """The estimated counts of a table of a release of marginals."""
    return plain(release.marginals.marginal(names).to_pydict())


_RECORDED = {  # what fields were called when the fixtures were made
    "charged": "new numbers",
    "limit": "most answers for one point",
    "numbers": "numbers given out",
    "share_used": "share used",
    "used_in_batches": "used in each batch",
}


def _recorded(found: dict[str, Any]) -> dict[str, Any]:
    return {_RECORDED.get(name, name): value for name, value in found.items()}


def _cost(found: Cost) -> dict[str, Any]:
    """The cost of a question as it was recorded: not what is used, and no words."""
    names = ["status", "charged"]
    if found.status != "refused":
        names += ["stderr", "distance", "answered", *(["parts"] if found.parts else [])]
    return _recorded({name: value for name, value in asdict(found).items() if name in names})


def _event(found: dict[str, Any]) -> dict[str, Any]:
    """An entry of the journal as it was recorded: only batches have a number."""
    return _recorded({k: v for k, v in found.items() if k != "batch" or v is not None})


def question_of(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A question with its options, which were recorded together."""
    plain_ones = {name: recorded[name] for name in ("sql", "key") if name in recorded}
    how = {name: value for name, value in recorded.items() if name not in plain_ones}
    return {**plain_ones, "options": sc.AskOptions(**how)} if how else plain_ones


def database_facts(database: sc.Database, costs: list[dict[str, Any]]) -> dict[str, Any]:
    """Status, history, promise and the cost of some questions of a database; nothing is charged."""
    told = [_cost(database.preview(**question_of(each))) for each in costs]
    return plain(
        {
            "status": _recorded(asdict(database.status())),
            "history": [_event(asdict(each)) for each in database.history()],
            "guarantee": dict(database.guarantee.parameters),
            "limit": database.terms.limit,
            "schema": database.schema.names,
            "costs": told,
        }
    )


def ledger_facts(ledger: sc.Ledger) -> dict[str, Any]:
    """Limit, charges and totals of an owner's ledger."""
    limit, losses = ledger.terms.limit, ledger.totals
    return plain(
        {
            "limit": limit and [str(limit.epsilon), str(limit.delta)],
            "name": ledger.terms.name,
            "statement": ledger.statement().to_dict(),
            "totals": {
                str(part): [str(total.epsilon), str(total.rho)] for part, total in losses.items()
            },
            "history": [each.to_dict() for each in ledger.charges],
            "seal": ledger.seal,
        }
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fixture_files(folder: Path) -> Iterator[Path]:
    """All files of the fixtures but `expected.json`."""
    return (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "expected.json"
    )


# --- reading the fixtures ------------------------------------------------------------------------


@cache
def expected() -> dict[str, Any]:
    return json.loads((FIXTURES / "expected.json").read_text("utf-8"))


def names(kind: str) -> list[str]:
    """The fixtures of a kind; none while the generator has not written them yet."""
    return sorted(expected()[kind]) if (FIXTURES / "expected.json").exists() else []


def same(found: Any, wanted: Any, relative: float = 1e-12) -> bool:
    """Whether two JSON values agree; floats up to a relative difference."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(
            same(found[key], wanted[key], relative) for key in wanted
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(
            same(one, other, relative) for one, other in zip(found, wanted, strict=True)
        )
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=relative, abs_tol=1e-12)
    return type(found) is type(wanted) and found == wanted


def check_answer(answer: Any, wanted: Any, relative: float = 1e-12) -> None:
    """Compare an answer with the one that was recorded.

    Answers that cut a leaf or a bin were recorded with the interval of the noise alone and a note
    that the rest "is not in the interval". Now the interval holds the rest too, and the note is
    gone: of these, the value and `noise_interval` are compared. A pruned tree has bounds for every
    answer, since pruning looked at the noise.

    Where a bin is cut, the recorded value was that of a decision for the whole bin: today's has
    bounds, and the intervals overlap.

    Where a filter left out cells, the recorded interval allowed for all lost rows in every answer.
    Now it allows for as many as the cells of the question can hold: it is not wider (5 %: the
    probability of a miss is divided into more parts). The value has a part of the lost rows now:
    the recorded one, without them, is an end of the bounds.

    Anatomy was recorded with the estimate under even spread within groups, its interval and a note
    that says so. Now the value comes from a regression over groups, and the interval holds without
    that assumption: the recorded value is within the bounds.
    An answer of a release that left out rows, whose number it does not tell, has no upper limit.

    Score intervals were recorded as they are; now they end at what the number of rows allows.
    An average whose number of rows may be zero was recorded with a value, which it has no more.
    """
    if isinstance(answer, sc.Estimates):
        assert [plain(list(key)) for key, _ in answer] == [each["group"] for each in wanted]
        for (_, found), recorded in zip(answer, wanted, strict=True):
            facts = {name: value for name, value in recorded.items() if name != "group"}
            check_answer(found, facts, relative)
        return
    found = without_added(estimate_facts(answer))
    if is_withheld(answer, wanted) or cut_a_bin(answer, wanted):
        return
    if answer.bounds and any(note.startswith(OF_GROUPS) for note in wanted["notes"]):
        start, end = answer.interval(0.95)
        assert answer.bounds[0] <= start <= answer.value <= end <= answer.bounds[1]
        if any(note.endswith((NOISE_ALONE, f"{NOISE_ALONE}.")) for note in wanted["notes"]):
            assert start <= wanted["value"] <= end  # bins as well: the noise is the regression's
        assert answer.bounds[0] - 1e-9 <= wanted["value"] <= answer.bounds[1] + 1e-9
        return
    if any(note.startswith(LEFT_OUT) for note in wanted["notes"]):
        low, high = wanted["interval"]
        assert found["interval"][1] - found["interval"][0] <= 1.05 * (high - low)
        check(value_without_lost(answer), wanted["value"], relative)
        return
    if any(note.endswith(NOISE_ALONE) and "of the tree" in note for note in wanted["notes"]):
        assert answer.bounds is not None
    if answer.bounds is not None:
        low, high = answer.noise_interval(0.95)
        start, end = found["interval"]
        assert start <= max(answer.bounds[0], 0.0)
        assert answer.bounds[1] <= end
        found = {"value": found["value"], "interval": [float(low), float(high)]}
        wanted = {name: wanted[name] for name in found}
    elif answer.method.endswith(CORRECTED):
        found, wanted = without_interval(found, wanted)
    check(found, cut_to_rows(answer, wanted), relative)


def unplanned(wanted: Any) -> bool:
    """Whether the answer was recorded with the note that nothing published tells it: a workload
    release refuses such questions now.
    """
    answers = wanted if isinstance(wanted, list) else [wanted]
    return any(note.startswith(UNPLANNED) for each in answers for note in each["notes"])


def check(found: Any, wanted: Any, relative: float = 1e-12) -> None:
    """Fail with both values if they do not agree."""
    if not same(found, wanted, relative):
        assert found == wanted  # shows the difference
        pytest.fail(f"types differ: {found!r}, {wanted!r}")


def unpacked(kind: str, name: str, target: Path, fixtures: Path = FIXTURES) -> Path:
    """A copy of a database or a ledger; SQLite files are kept packed."""
    with tarfile.open(fixtures / kind / f"{name}.tar.gz") as packed:
        packed.extractall(target, filter="data")
    return target / name


def sources(name: str) -> dict[str, Any]:
    """The table of a database, and the rows that were appended to it."""
    given = expected()["databases"][name]
    return {
        "source": FIXTURES / "data" / given["source"],
        "batches": [FIXTURES / "data" / each for each in given["batches"]],
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for every fixture of the kind that it takes the name of."""
    for kind in ("release", "database", "ledger"):
        if f"{kind}_name" in metafunc.fixturenames:
            metafunc.parametrize(f"{kind}_name", names(f"{kind}s"))


# --- the files -----------------------------------------------------------------------------------


def test_no_fixture_was_changed_added_or_lost() -> None:
    found = {
        path.relative_to(FIXTURES).as_posix(): digest(path) for path in fixture_files(FIXTURES)
    }
    assert found == expected()["files"]


def test_there_is_a_release_by_every_mechanism() -> None:
    made = {facts["facts"]["mechanism"] for facts in expected()["releases"].values()}
    assert made == set(MECHANISMS) == set(sc.mechanisms()) - LATER


# --- releases ------------------------------------------------------------------------------------


def test_release_files_fit_their_checksums(subtests: pytest.Subtests) -> None:
    for release_name in names("releases"):
        with subtests.test(release_name):
            folder = FIXTURES / "releases" / release_name
            manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
            checksum = manifest.pop("checksum")
            text = json.dumps(manifest, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            assert hashlib.sha256(text.encode()).hexdigest() == checksum
            assert manifest["files"] == {name: digest(folder / name) for name in manifest["files"]}
            assert {path.name for path in folder.iterdir()} == {"manifest.json", *manifest["files"]}


def test_release_says_the_same_about_itself(subtests: pytest.Subtests) -> None:
    for release_name in names("releases"):
        with subtests.test(release_name):
            release = sc.open(FIXTURES / "releases" / release_name)
            check(release_facts(release), expected()["releases"][release_name]["facts"])


def test_release_gives_the_same_answers(release_name: str) -> None:
    release = sc.open(FIXTURES / "releases" / release_name)
    for question in expected()["releases"][release_name]["answers"]:
        if "refused" in question["answer"]:
            check(asked(release, question["sql"]), question["answer"])
        elif unplanned(question["answer"]):
            check(asked(release, question["sql"]), {"refused": "QueryError"})
        else:
            wanted, relative = as_today(question["answer"]), ROUNDED.get(release_name, 1e-12)
            check_answer(release.answer(question["sql"]), wanted, relative)


def variants() -> list[Any]:
    """All releases; of a mechanism with several, those with a further name are slow tests."""
    return [
        pytest.param(name, marks=[] if name in MECHANISMS else [pytest.mark.slow])
        for name in names("releases")
    ]


@pytest.mark.parametrize("name", variants())
def test_release_gives_the_same_answers_to_many_questions_at_once(name: str) -> None:
    """Up to rounding: what is asked together may be added up in another order."""
    release = sc.open(FIXTURES / "releases" / name)
    told = expected()["releases"][name]["answers"]
    served = [
        each for each in told if "refused" not in each["answer"] and not unplanned(each["answer"])
    ]
    found = release.answer_many([each["sql"] for each in served])
    for answer, each in zip(found, served, strict=True):
        check_answer(answer, as_today(each["answer"]), relative=1e-9)


@pytest.mark.parametrize(
    "name", [each for each in names("releases") if "marginal" in expected()["releases"][each]]
)
def test_release_gives_the_same_marginal_table(name: str) -> None:
    release = sc.open(FIXTURES / "releases" / name)
    wanted = expected()["releases"][name]["marginal"]
    check(marginal_facts(release, wanted["names"]), wanted["table"])


def test_release_is_saved_again_with_the_same_content(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for release_name in names("releases"):
        with subtests.test(release_name):
            folder, again = FIXTURES / "releases" / release_name, tmp_path / release_name
            sc.open(folder).save(again, insecure=True)
            for path in folder.iterdir():
                assert (again / path.name).read_bytes() == path.read_bytes()


def test_damaged_release_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for release_name in names("releases"):
        with subtests.test(release_name):
            folder = tmp_path / release_name
            shutil.copytree(FIXTURES / "releases" / release_name, folder)
            path = sorted(folder.glob("*.parquet"))[0]
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
            with pytest.raises(sc.ReleaseError, match="checksum"):
                sc.open(folder)


def test_updated_release_goes_on_with_its_private_record(tmp_path: Path) -> None:
    """A record that leaves and comes back shows the bag that it showed before."""
    folder, book = tmp_path / "view", tmp_path / "book.parquet"
    shutil.copytree(FIXTURES / "releases" / "aroma-updated", folder)
    shutil.copy(FIXTURES / "books" / "aroma-updated.parquet", book)
    release = sc.open(folder, update_record=book)
    people = pq.read_table(FIXTURES / "data" / "newcomers.parquet")
    leaving = people["person"].to_pylist()[:5]
    fewer = release.delete(leaving)
    assert fewer.evidence.rows == release.evidence.rows - 5
    back = fewer.insert(people.slice(0, 5))
    back.save(tmp_path / "back", update_record=tmp_path / "back.parquet")

    def shown(place: Path) -> list[str]:
        return sorted(map(str, pq.read_table(place / "records.parquet").to_pylist()))

    assert shown(tmp_path / "back") == shown(folder)


def test_release_of_several_views_without_a_private_record_gets_no_further_one() -> None:
    """Two of three views were made before there was a record of the table: nothing tells whether
    the table is the same.
    """
    release = sc.open(FIXTURES / "releases" / "alphabeta-views")
    assert (release.evidence.presence.views, release.evidence.presence.most) == (2, 3)
    with pytest.raises(sc.ReleaseError, match="made without one gets no further view"):
        release.republish(FIXTURES / "data" / "people.csv")


# --- databases -----------------------------------------------------------------------------------


def test_database_tells_the_same_about_itself(database_name: str, tmp_path: Path) -> None:
    wanted = expected()["databases"][database_name]
    folder = unpacked("databases", database_name, tmp_path)
    with sc.Database.open(folder, **sources(database_name)) as database:
        assert database.verify() == []
        assert database.verify(wanted["seal"]) == []
        costs = wanted["asked costs"]
        whole = [place for place, each in enumerate(costs) if CUT_BIN not in each["sql"]]
        facts = {**wanted["facts"], "costs": [wanted["facts"]["costs"][place] for place in whole]}
        found = database_facts(database, [costs[place] for place in whole])
        del found["status"]["quotas"]  # told since quotas can be changed
        check(found, facts)


def test_database_repeats_its_answers_free_of_charge(database_name: str, tmp_path: Path) -> None:
    wanted = expected()["databases"][database_name]
    folder = unpacked("databases", database_name, tmp_path)
    with sc.Database.open(folder, **sources(database_name)) as database:
        before = database.status()
        for each in wanted["repeats"]:
            cut = CUT_BIN in each["question"]["sql"]
            answer = {"refused": "QueryError"} if cut else each["answer"]
            check(without_added(asked(database, **question_of(each["question"]))), answer)
        after = database.status()
        for name in ("used", "used_in_batches", "numbers", "analysts"):
            assert getattr(after, name) == getattr(before, name)
        assert database.verify(wanted["seal"]) == []


def test_database_answers_a_new_question(database_name: str, tmp_path: Path) -> None:
    wanted = expected()["databases"][database_name]
    folder = unpacked("databases", database_name, tmp_path)
    with sc.Database.open(folder, **sources(database_name)) as database:
        before = database.status().numbers
        answer = database.answer(**question_of(wanted["new question"]))
        assert answer.status == "answered"
        assert math.isfinite(answer.value)
        check(float(answer.stderr), wanted["new stderr"])
        given = database.status().numbers
        assert given > before
        assert database.verify(wanted["seal"]) == []
    with sc.Database.open(folder, **sources(database_name)) as database:
        again = database.answer(**question_of(wanted["new question"]))
        assert (again.status, again.value) == ("repeated", answer.value)
        assert database.status().numbers == given


def test_database_refuses_another_table(database_name: str, tmp_path: Path) -> None:
    folder = unpacked("databases", database_name, tmp_path)
    given = {**sources(database_name), "source": FIXTURES / "data" / "newcomers.parquet"}
    with pytest.raises(sc.LedgerError, match="made for something else"):
        sc.Database.open(folder, **given)


# --- owner's ledgers -----------------------------------------------------------------------------


def test_ledger_has_the_same_charges(ledger_name: str, tmp_path: Path) -> None:
    wanted = expected()["ledgers"][ledger_name]
    ledger = sc.Ledger.open(unpacked("ledgers", ledger_name, tmp_path))
    assert ledger.verify() == []
    assert ledger.verify(wanted["seal"]) == []
    check(ledger_facts(ledger), wanted)


def test_ledger_charges_a_further_release(tmp_path: Path) -> None:
    """What is left is charged, and what is beyond the limit is refused."""
    ledger = sc.Ledger.open(unpacked("ledgers", "limited", tmp_path))
    schema = sc.Schema.load(FIXTURES / "data" / "people.toml").with_unit()
    people = FIXTURES / "data" / "people.csv"
    before, seal = len(ledger.charges), ledger.seal
    little = sc.Histogram(["ward"], epsilon=0.01, neighbours="replace")
    sc.publish(people, schema, little, ledger=ledger)
    much = sc.Histogram(["ward"], epsilon=50, neighbours="replace")
    with pytest.raises(sc.PromiseError, match="left of the limit"):
        sc.publish(people, schema, much, ledger=ledger)
    assert len(ledger.charges) == before + 1
    assert ledger.verify(seal) == []

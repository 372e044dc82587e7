"""Every mechanism on every engine: the same bits for the same key, whatever happens to a unit."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import nullcontext
from itertools import product
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.alphabeta.publish import views as tuple_views
from scumble.families.partition import publish as partition_groups
from scumble.private.engines import fingerprints, tasks, workers
from scumble.private.engines.engine import Output
from scumble.private.engines.persons import PeopleFingerprint
from scumble.private.engines.pool import PoolEngine
from scumble.private.engines.workers import Workers
from scumble.private.mechanism import Publisher
from scumble.private.sampling.source import Keystream
from scumble.private.tables import source, writer
from scumble.private.tables.rows import Rows
from tests.support import faults
from tests.support.mechanisms.conformance_cases import cases
from tests.support.people import people, schema
from tests.support.publishing import publish

CASES = cases()
PUBLISHERS = [name for name, case in CASES.items() if isinstance(case.make(), Publisher)]


@pytest.fixture(scope="module")
def shared():
    """Two workers for all tests: starting them takes longer than all they do."""
    with workers.Workers(2) as found:
        found.takes_part = False  # else this process would be done before they have started
        yield found


@pytest.fixture(autouse=True)
def small_units(shared, monkeypatch):
    monkeypatch.setattr(source, "UNIT_ROWS", 100)
    monkeypatch.setattr(writer, "CHUNK", 30)  # 14 row groups, from several runs
    monkeypatch.setattr(tuple_views, "RANGE_TUPLES", 300)
    monkeypatch.setattr(workers, "Workers", lambda jobs: nullcontext(shared))


def digest(release: sc.Release) -> dict[str, str]:
    """Every file of a release; nothing else may be in its folder, but for its private record."""
    own = {path for path in release.folder.iterdir() if path != release.update_record}
    assert {path.name for path in own} == set(release.evidence.files)
    return {
        name: hashlib.sha256((release.folder / name).read_bytes()).hexdigest()
        for name in release.evidence.files
    }


def published(name: str, table, *, jobs: int, seed: int = 1) -> sc.Release:
    case = CASES[name]
    return sc.publish(
        table, case.schema, case.make(), options=sc.PublishOptions(seed=seed, jobs=jobs)
    )


def parquet(name: str, folder) -> str:
    path = folder / "people.parquet"
    pq.write_table(CASES[name].table("ordinary"), path, row_group_size=50)
    return str(path)


def test_engines_publish_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for name in CASES:
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            path, table = parquet(name, tmp_path), CASES[name].table("ordinary")
            local = published(name, path, jobs=1)
            pool = published(name, path, jobs=2)
            assert digest(local) == digest(pool)
            assert local.remarks == pool.remarks
            assert local.manifest.report == pool.manifest.report
            # A frame has blocks of 100 rows; the file has units of two row groups: the same ones.
            assert digest(published(name, table, jobs=2)) == digest(local)
            other = digest(published(name, path, jobs=2, seed=2))
            assert (other != digest(local)) == CASES[name].random


@pytest.mark.parametrize("name", PUBLISHERS)
@pytest.mark.parametrize("fault", ["fails", "order"])
def test_faults_change_nothing(name: str, fault: str, shared, tmp_path, monkeypatch) -> None:
    path = parquet(name, tmp_path)
    local = digest(published(name, path, jobs=1))
    if fault == "fails":
        monkeypatch.setattr(tasks, "MapJob", faults.Fails)
        monkeypatch.setattr(tasks, "DrawJob", faults.FailsDraw)
    else:
        monkeypatch.setattr(shared, "order", lambda tasks: tasks[::-1])
    assert digest(published(name, path, jobs=2)) == local
    other = digest(published(name, path, jobs=2, seed=2))
    assert (other != local) == CASES[name].random


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("uniform", "anatomy")]


@pytest.mark.parametrize("name", ["partition", *SLOW])
def test_killed_workers_change_nothing(name: str, shared, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(source, "UNIT_ROWS", 200)
    path = parquet(name, tmp_path)
    local = digest(published(name, path, jobs=1))
    assert digest(published(name, path, jobs=2)) == local  # the workers have started
    before = set(shared.processes())
    monkeypatch.setattr(tasks, "MapJob", faults.Dies)
    assert digest(published(name, path, jobs=2)) == local
    assert before - set(shared.processes()), "a worker was killed"


@pytest.fixture
def helped(shared, monkeypatch):
    """The driver works too, and its worker is running."""
    monkeypatch.setattr(shared, "takes_part", True)
    monkeypatch.setattr(workers, "WORTH", 0)
    return shared


@pytest.mark.parametrize("fault", ["Fails", "Dies"])
@pytest.mark.parametrize("name", ["uniform", "partition"])
def test_a_driver_that_takes_part(name: str, fault: str, helped, tmp_path, monkeypatch) -> None:
    """Units that fail in the driver and in the worker are done again, in either."""
    path = parquet(name, tmp_path)
    local = digest(published(name, path, jobs=1))
    done: list[int] = []
    monkeypatch.setattr(workers._Run, "_do", _counted(workers._Run._do, done))
    monkeypatch.setattr(tasks, "MapJob", getattr(faults, fault))
    assert digest(published(name, path, jobs=2)) == local
    assert done, "the driver took part"


def _counted(function, called: list[int]):
    def counting(self, task):
        called.append(task.number)
        return function(self, task)

    return counting


def test_small_work_starts_no_process(monkeypatch) -> None:
    with Workers(4) as alone:
        monkeypatch.setattr(workers, "Workers", lambda jobs: nullcontext(alone))
        sc.publish(
            people(400, schema()),
            schema(),
            sc.Uniform(epsilon=1),
            options=sc.PublishOptions(jobs=4),
        )
        assert not alone.processes()


def test_an_error_of_an_earlier_task_wins(helped) -> None:
    """The worker is slow with task 1, and the driver finds an error in a later one."""
    tasks_ = [workers.Task(number, lambda number=number: number) for number in range(8)]
    with pytest.raises(sc.SchemaError, match="task 1"):
        list(helped.run(faults.Wrong(driver=os.getpid()), tasks_))


def test_a_file_that_changes_before_a_unit_is_read_again(tmp_path, monkeypatch) -> None:
    """Whichever is noticed first: other rows, or other places of the row groups in the file."""
    path = parquet("uniform", tmp_path)
    monkeypatch.setattr(tasks, "MapJob", faults.Changes)
    with pytest.raises(sc.SourceError, match=r"changed while it was read|cannot be read"):
        published("uniform", path, jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_changes_between_the_passes(jobs: int, tmp_path, monkeypatch) -> None:
    """The values change places within a unit, so that all counts stay what they were."""
    path, shares = tmp_path / "people.parquet", partition_groups.Assignment.shares
    table = CASES["partition"].table("ordinary")

    def write(rows):
        plain = {"use_dictionary": False, "compression": "none", "write_statistics": False}
        pq.write_table(table.take(rows), path, row_group_size=50, **plain)

    def swapped(*given):
        write([*range(50)[::-1], *range(50, 400)])
        return shares(*given)

    write([*range(400)])

    monkeypatch.setattr(partition_groups.Assignment, "shares", swapped)
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="replace")
    with pytest.raises(sc.SourceError, match="changed while it was read"):
        sc.publish(
            path,
            schema(),
            CASES["partition"].make(),
            ledger=ledger,
            options=sc.PublishOptions(jobs=jobs),
        )
    assert [each.state for each in ledger.charges] == ["begun"], "noise may have been drawn"


def test_an_attempt_with_other_noise_is_not_accepted(shared, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "MapJob", faults.Fails)
    rows = Rows(people(400, schema()), schema())
    engine = PoolEngine(rows, Keystream(1), shared)
    output = Output(tmp_path / "view.parquet", schema().published)
    with pytest.raises(sc.ScumbleError, match="drew different noise"):
        engine.map(["age", "sex", "job"], faults.Fresh(), [output])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_name_the_first_row_that_is_wrong(jobs: int) -> None:
    table = people(400, schema())
    jobs_ = table["job"].to_pylist()
    jobs_[230] = jobs_[333] = "astronaut"
    wrong = table.set_column(2, "job", pa.array(jobs_))
    with pytest.raises(sc.DomainError, match="row 231:") as error:
        sc.publish(wrong, schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(jobs=jobs))
    assert (error.value.column, error.value.row) == ("job", 231)
    with pytest.raises(sc.DomainError, match="astronaut"):
        sc.publish(
            wrong,
            schema(),
            sc.Uniform(epsilon=1),
            options=sc.PublishOptions(jobs=jobs, reveal=True),
        )
    told = sc.publish(
        wrong, schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(outside="drop", jobs=jobs)
    )
    dropped, warning = told.remarks
    assert dropped == "Rows with a value of 'job' outside its domain were left out."
    assert "off by more than itself" in warning


@pytest.mark.parametrize("levels", [[3, 7]])
def test_levels_and_records(levels: list[int]) -> None:
    """Nested views have two outputs of one pass; a private record is written in the driver."""
    table, aroma = people(400, schema()), sc.Aroma(k=7)
    named = [sc.Attribute("id", "identifier"), *schema()]
    numbered = table.append_column("id", pa.array(range(400)))
    recorded = sc.Aroma(k=7, identifier="id")
    found = []
    for jobs in (1, 2):
        views = aroma.publish_levels(
            table, schema(), levels=levels, options=sc.PublishOptions(seed=1, jobs=jobs)
        )
        kept = sc.publish(
            numbered, sc.Schema(named), recorded, options=sc.PublishOptions(seed=1, jobs=jobs)
        )
        files = [each.folder / "records.parquet" for each in (*views, kept)]
        found.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert found[0] == found[1]


def test_other_sources(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    """Blocks of rows that the driver reads, and rows of persons that it limits."""
    for kind in ["csv", "gzip", "duckdb", "part"]:
        with subtests.test(kind=kind):
            tmp_path = tmp_path_factory.mktemp("case")
            import duckdb
            from pyarrow import csv

            table = people(400, schema()).append_column(
                "id", pa.array([n // 3 for n in range(400)])
            )
            named = sc.Schema([sc.Attribute("id", "identifier"), *schema()], sc.Unit())
            path, more = tmp_path / f"people.{kind}", {}
            if kind == "duckdb":
                with duckdb.connect(str(path)) as connection:
                    connection.register("people", table)
                    connection.execute("CREATE TABLE t AS FROM people")
            else:
                stream = pa.CompressedOutputStream if kind == "gzip" else None
                path = tmp_path / ("people.csv.gz" if stream else "people.csv")
                with stream(str(path), "gzip") if stream else path.open("wb") as sink:
                    csv.write_csv(table, sink)
            if kind == "part":
                sc.Ledger.create(tmp_path / "ledger", neighbours="add_remove", parts="sex")
                more = {"ledger": tmp_path / "ledger", "part": "f"}
            limited = sc.Histogram(
                ["age"], epsilon=1, neighbours="add_remove", person="id", contribution=2
            )
            for mechanism in (
                sc.Histogram(["age", "job"], epsilon=1, neighbours="add_remove"),
                limited,
            ):
                found = [
                    digest(publish(path, named, mechanism, seed=1, jobs=jobs, **more))
                    for jobs in (1, 2)
                ]
                assert found[0] == found[1]
            if kind != "part":
                uniform = sc.Uniform(epsilon=1)
                found = [
                    digest(
                        sc.publish(
                            path, named, uniform, options=sc.PublishOptions(seed=1, jobs=jobs)
                        )
                    )
                    for jobs in (1, 2)
                ]
                assert found[0] == found[1]


def test_units_without_rows(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    """A file of a folder that has no rows, or none inside the domains."""
    for name, kind in product(["uniform", "partition"], ["empty", "dropped"]):
        with subtests.test(name=name, kind=kind):
            tmp_path = tmp_path_factory.mktemp("case")
            whole = CASES[name].table("ordinary")
            column = CASES[name].schema.sensitive[0].name
            outside = whole.slice(0, 0 if kind == "empty" else 120)
            place = whole.column_names.index(column)
            outside = outside.set_column(
                place, column, pa.array(["none of these"] * len(outside), whole[column].type)
            )
            for number, part in enumerate((whole.slice(0, 200), outside, whole.slice(200))):
                pq.write_table(part, tmp_path / f"part{number}.parquet")
            found = [
                sc.publish(
                    tmp_path,
                    CASES[name].schema,
                    CASES[name].make(),
                    options=sc.PublishOptions(outside="drop", seed=1, jobs=jobs),
                )
                for jobs in (1, 2)
            ]
            assert digest(found[0]) == digest(found[1])
            assert found[0].evidence.rows == len(whole)


def test_a_fingerprint_does_not_show_its_gmac() -> None:
    """GMACs of one key and nonce would tell how two readings differ: tasks write fingerprints."""
    codes, key = np.arange(40, dtype=np.uint8), bytes(32)
    print_ = fingerprints.Fingerprinter(key, ["people"])
    list(print_.watch(iter([[codes]])))
    found = print_.result()
    mac = fingerprints._gmac(key, "people")
    mac.authenticate_additional_data(codes.data)
    mac.finalize()
    assert found is not None
    assert mac.tag not in found["people"]
    # ... and the key of no column is a fingerprint of people under the same key.
    people = PeopleFingerprint(key)
    people.watch(pa.array([None, None], pa.large_string()))
    assert fingerprints._mac(key, b"key", "people") not in people.result()


def test_a_fingerprint_is_of_the_codes_their_column_and_their_key() -> None:
    codes = np.arange(100, dtype=np.uint16) % 7
    other = codes.copy()
    other[57] = 6

    def found(key: bytes, name: str, *pieces: np.ndarray) -> bytes:
        print_ = fingerprints.Fingerprinter(key, ["first", name])
        columns = ([codes[: len(piece)], piece] for piece in pieces)
        assert sum(len(columns[1]) for columns in print_.watch(columns)) == 100
        result = print_.result()
        assert result is not None
        return result[name]

    whole = found(b"key", "age", codes)
    assert whole == found(b"key", "age", codes[:31], codes[31:])
    assert found(b"key", "age", codes) == whole
    others = [found(b"key", "age", other), found(b"key", "sex", codes), found(b"yek", "age", codes)]
    assert len({whole, *others}) == 4


def test_a_unit_that_lost_its_rows() -> None:
    """No fingerprint is compared, and the missing unit is noticed all the same."""
    prints = fingerprints.Fingerprints()
    prints.check(0, {"age": b"a"})
    prints.check(1, {"age": b"b"})
    prints.check(1, None)
    with pytest.raises(sc.SourceError, match="changed while it was read"):
        prints.check_units({0})


def test_errors_of_the_system_keep_their_reason(shared) -> None:
    """The shell says what the system refused, and for which file."""
    with pytest.raises(FileNotFoundError) as error:
        list(shared.run(faults.Missing(), [workers.Task(0, lambda: "no-such-file")]))
    assert (error.value.errno, error.value.filename) == (errno.ENOENT, "no-such-file")


def test_republished_views() -> None:
    mechanism = sc.AlphaBeta(epsilon=2, views=2, duplicates="collapse")
    found = []
    for jobs in (1, 2):
        first = sc.publish(
            people(400, schema()), schema(), mechanism, options=sc.PublishOptions(seed=1)
        )
        found.append(first.republish(people(400, schema()), seed=2, jobs=jobs))
    assert digest(found[0]) == digest(found[1])
    with pytest.raises(sc.ParameterError, match="jobs"):
        first.republish(people(400, schema()), jobs=0)


def test_progress_counts_all_rows() -> None:
    seen: list[int] = []
    sc.publish(
        people(400, schema()),
        schema(),
        sc.Uniform(epsilon=1),
        options=sc.PublishOptions(jobs=2, progress=seen.append),
    )
    assert seen == [100, 200, 300, 400]


def test_bad_numbers_of_jobs(subtests: pytest.Subtests) -> None:
    for jobs in [0, -1, 1.5, True, 10**6]:
        with subtests.test(jobs=jobs), pytest.raises(sc.ParameterError, match="jobs"):
            sc.publish(
                people(4, schema()),
                schema(),
                sc.Uniform(epsilon=1),
                options=sc.PublishOptions(jobs=jobs),
            )


@pytest.mark.parametrize(("seconds", "pays"), [(0.0, False), (0.09, False), (0.11, True)])
def test_a_large_table_does_not_wait_for_its_first_unit(seconds: float, pays: bool) -> None:
    job = SimpleNamespace(staging=None, seconds=seconds)
    with Workers(2) as alone:
        run = workers._Run(alone, job, [workers.Task(number, int) for number in range(20)])
        assert run._pays() is pays
        run._seconds, run._own = 0.01, 1  # what was measured counts from then on
        assert not run._pays()

"""Every mechanism and every source on a real Spark cluster: the bits of one process, whatever
happens to a task.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from itertools import cycle, product
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.alphabeta.publish import views as tuple_views
from scumble.families.partition import publish as partition_groups
from scumble.private.engines import pool, spark, spark_task, tasks
from scumble.private.engines.engine import Output
from scumble.private.engines.local import LocalEngine
from scumble.private.engines.pool import PoolEngine
from scumble.private.engines.spark import SparkExecutor
from scumble.private.mechanism import Mechanism, Publisher, create
from scumble.private.sampling.source import FINGERPRINT, Keystream, ReleaseKey
from scumble.private.tables import source, writer
from scumble.private.tables.rows import Rows
from tests.support import faults
from tests.support import spark as clusters
from tests.support.mechanisms.conformance_cases import cases
from tests.support.people import people, schema
from tests.support.publishing import publish

# pyspark leaves sockets open, and has advice about pandas.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark:FutureWarning"),
]

CASES = cases()
PUBLISHERS = [name for name, case in CASES.items() if isinstance(case.make(), Publisher)]
SOURCES = "file folder frame csv gzip duckdb arrow pandas sqlite postgres".split()
# Every mechanism and every source once; the full product in `make test-soak`.
PAIRS = list(zip(CASES, cycle(SOURCES), strict=False))
PRODUCT = [
    pytest.param(name, kind, marks=pytest.mark.slow if (name, kind) in PAIRS else pytest.mark.soak)
    for name in CASES
    for kind in SOURCES
]

LISTS = {
    "sequences": {"attribute": "pages", "length": 4},
    "baskets": {"attribute": "pages", "top": 3},
    "keys": {"attributes": ["pages"], "delta": 1e-2, "keys": 1},
}
# The jobs of which a worker is killed, by the way in which evidence is made: counts, non-empty
# cells, groups, drawn tuples, lists. Every mechanism in `make test-soak`.
KILLED = {
    ("histogram", "worker"): ["CountJob"],
    ("sparse", "executor"): ["OccupiedJob"],
    ("anatomy", "worker"): ["MapJob", "UnitCellsJob"],
    ("alphabeta", "executor"): ["DrawJob", "SortedRowsJob"],
    ("sequences", "executor"): ["ListsJob"],
    ("keys", "worker"): ["KeysJob"],
}
KILLED_PRODUCT = [
    pytest.param(*pair, marks=pytest.mark.slow if pair in KILLED else pytest.mark.soak)
    for pair in product(CASES | LISTS, ["worker", "executor"])
]


@pytest.fixture(scope="module")
def cluster(testrun_uid):
    yield from clusters.started(testrun_uid)


@pytest.fixture(scope="module")
def session(cluster):
    found = cluster.session()
    yield found
    clusters.stop(found)


@pytest.fixture(autouse=True)
def small_units(monkeypatch, tmp_path):
    monkeypatch.setattr(source, "UNIT_ROWS", 100)
    monkeypatch.setattr(writer, "CHUNK", 30)  # 14 row groups, from several runs
    monkeypatch.setattr(tuple_views, "RANGE_TUPLES", 300)
    (tmp_path / "staging").mkdir()
    yield
    assert not list((tmp_path / "staging").iterdir()), "staging is removed"


@pytest.fixture
def engine(session, tmp_path) -> sc.Spark:
    return sc.Spark(session, staging=tmp_path / "staging")


def digest(release: sc.Release) -> dict[str, str]:
    """Every file of a release; nothing else may be in its folder, but for its private record."""
    own = {path for path in release.folder.iterdir() if path != release.update_record}
    assert {path.name for path in own} == set(release.evidence.files)
    return {
        name: hashlib.sha256((release.folder / name).read_bytes()).hexdigest()
        for name in release.evidence.files
    }


def stored(kind: str, table: pa.Table, folder: Path, session) -> object:
    """The table as a source of some kind."""
    if kind == "arrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    if kind == "sqlite":
        return _sqlite(table, folder)
    path = folder / {"csv": "people.csv", "gzip": "people.csv.gz"}.get(kind, f"people.{kind}")
    if kind in ("file", "frame"):
        pq.write_table(table, path, row_group_size=50)
        return session.read.parquet(str(path)).coalesce(1) if kind == "frame" else path
    if kind == "folder":
        path.mkdir()
        for begin in range(0, table.num_rows, 100):
            pq.write_table(table.slice(begin, 100), path / f"{begin:05}.parquet")
    elif kind == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("people", table)
            connection.execute("CREATE TABLE t AS FROM people")
    else:
        opened = pa.CompressedOutputStream(str(path), "gzip") if kind == "gzip" else path.open("wb")
        with opened as sink:
            pyarrow.csv.write_csv(table, sink)
    return path


def _sqlite(table: pa.Table, folder: Path) -> str:
    import sqlite3

    pytest.importorskip("adbc_driver_sqlite", reason="needs scumble[postgres]")
    path = folder / "people.db"
    with sqlite3.connect(path) as connection:
        marks = ", ".join("?" * table.num_columns)
        connection.execute(f"CREATE TABLE t ({', '.join(table.column_names)})")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    connection.close()
    return f"sqlite:///{path}"


def published(name: str, table, seed: int = 1, **options) -> sc.Release:
    case = CASES[name]
    return publish(table, case.schema, case.make(), seed=seed, **options)


def parquet(name: str, folder) -> Path:
    path = folder / "people.parquet"
    pq.write_table(CASES[name].table("ordinary"), path, row_group_size=50)
    return path


@pytest.mark.parametrize(("name", "kind"), PRODUCT)
def test_the_same_bits(name: str, kind: str, engine, tmp_path, request) -> None:
    if kind == "postgres":
        server = request.getfixturevalue("postgresql")
        given = server.database()
        server.ingest(given, "people", CASES[name].table("ordinary"))
    else:
        given = stored(kind, CASES[name].table("ordinary"), tmp_path, engine.session)
    table = CASES[name].table("ordinary") if kind == "frame" else given
    local, found = published(name, table), published(name, given, engine=engine)
    assert digest(found) == digest(local)
    assert found.remarks == local.remarks
    assert found.manifest.report == local.manifest.report


def listed(name: str) -> tuple[pa.Table, sc.Schema, Mechanism]:
    """A table of lists or keys, its schema, and a mechanism that counts them."""
    kind = {"keys": 'type = "category"\nopen = true'}.get(
        name, f'type = "{"set" if name == "baskets" else "sequence"}"\nvalues = ["a", "b", "c"]'
    )
    described = sc.Schema.loads(f'[attributes.pages]\nrole = "sensitive"\n{kind}')
    table = pa.table({"pages": [["a b", "a b c", "b b b c a", "c"][row % 4] for row in range(120)]})
    mechanism = create(name, epsilon=1, neighbours="add_remove", **LISTS[name])
    return table, described, mechanism


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_lists_and_keys(name: str, engine) -> None:
    """They are counted in the process that publishes."""
    given = listed(name)
    local, found = (
        sc.publish(*given, options=sc.PublishOptions(seed=1, engine=each))
        for each in (None, engine)
    )
    assert digest(found) == digest(local)


@pytest.mark.slow
def test_persons_levels_and_records(engine, tmp_path) -> None:
    domain = schema(health=2)
    table = people(400, domain).append_column("id", pa.array([n // 2 for n in range(400)]))
    named = sc.Schema([sc.Attribute("id", "identifier"), *domain])
    limited = sc.Histogram(["age"], epsilon=1, neighbours="add_remove", person="id", contribution=1)
    given = stored("frame", table, tmp_path, engine.session)
    assert digest(
        sc.publish(given, named, limited, options=sc.PublishOptions(seed=1, engine=engine))
    ) == digest(sc.publish(table, named, limited, options=sc.PublishOptions(seed=1)))
    views = [
        sc.Aroma(k=7, joint=joint).publish_levels(
            each, domain, levels=[3, 7], options=sc.PublishOptions(seed=1, engine=cluster)
        )
        for joint in (True, False)
        for each, cluster in ((table, None), (given, engine))
    ]
    compound, clustered, own, clustered_own = (list(map(digest, each)) for each in views)
    assert (compound, own) == (clustered, clustered_own)


@pytest.mark.slow
def test_the_privacy_unit_is_asked_for_and_kept(engine, tmp_path) -> None:
    """A cluster counts as many rows of a person as one process, and refuses what it refuses."""
    domain = schema()
    table = people(400, domain).append_column("id", pa.array([n // 10 for n in range(400)]))
    unstated = sc.Schema([sc.Attribute("id", "identifier"), *domain])
    given = stored("frame", table, tmp_path, engine.session)
    counts, rows = sc.Histogram(["age"], epsilon=50, neighbours="replace"), sc.Uniform(epsilon=1)
    for mechanism in (counts, rows):
        with pytest.raises(sc.SchemaError, match="what one row stands for"):
            sc.publish(given, unstated, mechanism, options=sc.PublishOptions(engine=engine))
    five = unstated.with_unit("id", 5)
    found = sc.publish(given, five, counts, options=sc.PublishOptions(seed=1, engine=engine))
    assert digest(found) == digest(
        sc.publish(table, five, counts, options=sc.PublishOptions(seed=1))
    )
    assert found.answer("SELECT COUNT(*) FROM t").value == pytest.approx(200, abs=30)
    with pytest.raises(sc.SourceError, match="more than 5 rows"):
        sc.publish(given, five, rows, options=sc.PublishOptions(engine=engine))
    ten = sc.publish(
        given, unstated.with_unit("id", 10), rows, options=sc.PublishOptions(seed=1, engine=engine)
    )
    assert "A person may have 10 rows here" in str(ten.guarantees[0])


@pytest.mark.slow
def test_the_session_of_the_caller_stays_as_it_was(engine, session) -> None:
    from pyspark.sql import SparkSession

    name = "spark.sql.leafNodeDefaultParallelism"
    before = session.conf.get(name, None)
    sc.publish(
        people(400, schema()),
        schema(),
        sc.Uniform(epsilon=1),
        options=sc.PublishOptions(engine=engine),
    )
    assert session.conf.get(name, None) == before
    assert SparkSession.getActiveSession() is session


@pytest.mark.slow
def test_answers_without_spark(engine, tmp_path) -> None:
    given = stored("frame", people(400, schema()), tmp_path, engine.session)
    release = sc.publish(
        given, schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(engine=engine)
    )
    release.save(tmp_path / "release")
    script = (
        "import sys, scumble as sc; "
        "print(sc.open(sys.argv[1]).answer('SELECT COUNT(*) FROM t WHERE age < 5')); "
        "assert 'pyspark' not in sys.modules"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "release")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout


@pytest.mark.slow
def test_a_release_in_postgresql(engine, postgresql, tmp_path, cluster) -> None:
    """From Python and from the shell: the tasks of Spark write nothing there."""
    path, places = tmp_path / "people.parquet", [postgresql.table("view") for _ in range(2)]
    pq.write_table(people(400, schema()), path, row_group_size=50)
    sc.publish(
        path,
        schema(),
        sc.Uniform(epsilon=1),
        options=sc.PublishOptions(engine=engine),
        to=places[0],
    )
    (tmp_path / "schema.toml").write_text(schema().dumps())
    words = ["publish", "uniform", "people.parquet", "-s", "schema.toml", "-e", "1"]
    words += ["--to", places[1], "--engine", "spark", "--master", cluster.master]
    subprocess.run(
        [str(Path(sys.executable).with_name("scumble")), *words, "--staging", "staging"],
        cwd=tmp_path,
        env={**os.environ, **cluster.environment()},
        capture_output=True,
        check=True,
    )
    assert [sc.open(place).evidence.rows for place in places] == [400, 400]


def reverse(monkeypatch) -> None:
    """Hand out the tasks of every job from the last to the first."""
    init = SparkExecutor.__init__

    def reversed_(self, *given):
        init(self, *given)
        self.order = lambda tasks: tasks[::-1]

    monkeypatch.setattr(SparkExecutor, "__init__", reversed_)


@pytest.mark.slow
class TestFaults:
    @pytest.mark.parametrize("name", PUBLISHERS)
    def test_every_unit_fails_once_after_its_draw(
        self, name: str, engine, tmp_path, monkeypatch
    ) -> None:
        """... and the last unit comes first."""
        path = parquet(name, tmp_path)
        local = digest(published(name, path))
        monkeypatch.setattr(tasks, "MapJob", faults.Fails)
        monkeypatch.setattr(tasks, "DrawJob", faults.FailsDraw)
        reverse(monkeypatch)
        assert digest(published(name, path, engine=engine)) == local

    @pytest.mark.parametrize("name", ["uniform", "partition"])
    def test_another_order(self, name: str, engine, tmp_path, monkeypatch) -> None:
        path = parquet(name, tmp_path)
        local = digest(published(name, path))
        reverse(monkeypatch)
        assert digest(published(name, path, engine=engine)) == local
        other = digest(published(name, path, engine=engine, seed=2))
        assert (other != local) == CASES[name].random

    def test_persons_over_units(self, engine, tmp_path, monkeypatch) -> None:
        """Tasks find the first rows of each person; every one of them fails once."""
        table = people(400, schema()).append_column("id", pa.array([n % 60 for n in range(400)]))
        named = sc.Schema([sc.Attribute("id", "identifier"), *schema()])
        given = {"neighbours": "add_remove", "person": "id", "contribution": 2}
        mechanism = sc.Histogram(["age", "job"], epsilon=1, **given)
        path = tmp_path / "people.parquet"
        pq.write_table(table, path, row_group_size=50)
        local = digest(sc.publish(path, named, mechanism, options=sc.PublishOptions(seed=1)))
        monkeypatch.setattr(pool, "IdentifiersJob", faults.FailsIdentifiers)
        monkeypatch.setattr(pool, "SurplusJob", faults.FailsSurplus)
        monkeypatch.setattr(LocalEngine, "count", None)  # the driver does not count
        assert (
            digest(
                sc.publish(path, named, mechanism, options=sc.PublishOptions(seed=1, engine=engine))
            )
            == local
        )

    def test_waves_of_one_task(self, engine, tmp_path, monkeypatch) -> None:
        path = parquet("partition", tmp_path)
        local = digest(published("partition", path))
        monkeypatch.setattr(spark, "_ANSWER_BYTES", 1)
        monkeypatch.setattr(spark, "_SENT_BYTES", 1)
        assert digest(published("partition", path, engine=engine)) == local

    @pytest.mark.parametrize("fault", ["Dies", "KillsExecutor"])
    @pytest.mark.parametrize("name", ["uniform", "partition"])
    def test_killed_workers(self, name: str, fault: str, engine, tmp_path, monkeypatch) -> None:
        """Spark itself starts these tasks again."""
        monkeypatch.setattr(source, "UNIT_ROWS", 200)
        path = parquet(name, tmp_path)
        local = digest(published(name, path))
        monkeypatch.setattr(tasks, "MapJob", getattr(faults, fault))
        assert digest(published(name, path, engine=engine)) == local

    def test_a_file_that_changes_before_a_unit_is_read_again(
        self, engine, tmp_path, monkeypatch
    ) -> None:
        path = parquet("uniform", tmp_path)
        monkeypatch.setattr(tasks, "MapJob", faults.Changes)
        with pytest.raises(sc.SourceError, match=r"changed while it was read|cannot be read"):
            published("uniform", path, engine=engine)

    def test_a_file_that_changes_between_the_passes(self, engine, tmp_path, monkeypatch) -> None:
        """The values change places within a unit, so that all counts stay what they were."""
        path, shares = tmp_path / "people.parquet", partition_groups.Assignment.shares
        table = CASES["partition"].table("ordinary")
        ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="replace")

        def write(rows):
            plain = {"use_dictionary": False, "compression": "none", "write_statistics": False}
            pq.write_table(table.take(rows), path, row_group_size=50, **plain)

        def swapped(*given):
            write([*range(50)[::-1], *range(50, 400)])
            return shares(*given)

        write([*range(400)])
        monkeypatch.setattr(partition_groups.Assignment, "shares", swapped)
        with pytest.raises(sc.SourceError, match="changed while it was read"):
            sc.publish(
                path,
                schema(),
                CASES["partition"].make(),
                ledger=ledger,
                options=sc.PublishOptions(engine=engine),
            )
        assert [each.state for each in ledger.charges] == ["begun"]

    def test_an_attempt_with_other_noise_is_not_accepted(
        self, engine, tmp_path, monkeypatch
    ) -> None:
        monkeypatch.setattr(tasks, "MapJob", faults.Fails)
        rows = Rows(people(400, schema()), schema())
        output = Output(tmp_path / "view.parquet", schema().published)
        with engine.opened() as executor:
            made = PoolEngine(rows, Keystream(1), executor)
            with pytest.raises(sc.ScumbleError, match="drew different noise"):
                made.map(["age", "sex", "job"], faults.Fresh(), [output])
        assert not output.path.exists()


@pytest.mark.parametrize(("name", "victim"), KILLED_PRODUCT)
def test_one_worker_of_every_job_is_killed(
    name: str, victim: str, engine, tmp_path, monkeypatch
) -> None:
    if name in LISTS:
        table, described, mechanism = listed(name)
    else:
        case = CASES[name]
        table, described, mechanism = case.table("ordinary"), case.schema, case.make()
    path, marks = tmp_path / "people.parquet", tmp_path / "marks"
    pq.write_table(table, path, row_group_size=50)
    marks.mkdir()
    local = digest(sc.publish(path, described, mechanism, options=sc.PublishOptions(seed=1)))
    faults.kill_once(monkeypatch, marks, victim)
    found = digest(
        sc.publish(path, described, mechanism, options=sc.PublishOptions(seed=1, engine=engine))
    )
    killed = sorted(mark.name for mark in marks.iterdir())
    assert killed == KILLED.get((name, victim), killed) != []
    assert found == local


@pytest.mark.slow
class TestMessages:
    def test_errors_name_the_first_row_that_is_wrong(self, engine, cluster, tmp_path) -> None:
        table = people(400, schema())
        jobs = table["job"].to_pylist()
        jobs[230] = jobs[333] = "zzastronautzz"
        wrong = tmp_path / "wrong.parquet"
        pq.write_table(table.set_column(2, "job", pa.array(jobs)), wrong, row_group_size=50)
        with pytest.raises(sc.DomainError, match="row 231:") as error:
            sc.publish(
                wrong, schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(engine=engine)
            )
        assert (error.value.column, error.value.row) == ("job", 231)
        with pytest.raises(sc.DomainError, match="zzastronautzz"):
            sc.publish(
                wrong,
                schema(),
                sc.Uniform(epsilon=1),
                options=sc.PublishOptions(engine=engine, reveal=True),
            )
        assert not _found(cluster.folder, [b"zzastronautzz"])

    def test_keys_are_in_no_file_of_the_cluster(self, engine, cluster) -> None:
        sc.publish(
            people(400, schema()),
            schema(),
            sc.Uniform(epsilon=1),
            options=sc.PublishOptions(seed=5, engine=engine),
        )
        keys = [
            ReleaseKey(5).of_unit(str(unit), purpose)
            for unit in range(4)
            for purpose in ("rows", FINGERPRINT)
        ]
        assert not _found(cluster.folder, [*keys, *(key.hex().encode() for key in keys)])

    def test_a_plan_that_fails_quotes_nothing(self, engine) -> None:
        frame = engine.session.sql(
            "SELECT cast(concat('zz', id) AS int) AS age, 'f' AS sex, 'cook' AS job FROM range(9)"
        )
        with pytest.raises(sc.SourceError, match="cannot be computed") as error:
            sc.publish(
                frame, schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(engine=engine)
            )
        assert error.value.__context__ is None

    def test_other_versions_are_refused_before_the_charge(
        self, engine, tmp_path, monkeypatch
    ) -> None:
        monkeypatch.setattr(spark, "__version__", "0.0.1")
        ledger = sc.Ledger.create(tmp_path / "ledger", epsilon=5, neighbours="replace")
        with pytest.raises(sc.ScumbleError, match=r"scumble 0\.0\.1 and a worker of the cluster"):
            sc.publish(
                people(9, schema()),
                schema(),
                sc.Uniform(epsilon=1),
                ledger=ledger,
                options=sc.PublishOptions(engine=engine),
            )
        assert not ledger.charges

    def test_a_folder_that_workers_do_not_see(self, engine, monkeypatch) -> None:
        def elsewhere(version, staging, *rest):
            return version, f"{staging}-of-another-machine", *rest

        monkeypatch.setattr(spark_task, "Order", elsewhere)  # in the driver only
        with pytest.raises(sc.ScumbleError, match="cannot write to the folder"):
            sc.publish(
                people(9, schema()),
                schema(),
                sc.Uniform(epsilon=1),
                options=sc.PublishOptions(engine=engine),
            )

    def test_a_mechanism_that_workers_cannot_import(self, engine, monkeypatch) -> None:
        """One module is known here and not there, another is not even known here."""
        for module in ("only_in_the_driver", "nowhere"):
            kind = type("Here", (tasks.MapJob,), {"__module__": module})
            if module == "only_in_the_driver":
                monkeypatch.setitem(sys.modules, module, SimpleNamespace(Here=kind))
            monkeypatch.setattr(tasks, "MapJob", kind)
            with pytest.raises(sc.ParameterError, match="cannot be sent to a cluster"):
                sc.publish(
                    people(9, schema()),
                    schema(),
                    sc.Uniform(epsilon=1),
                    options=sc.PublishOptions(engine=engine),
                )


def _found(folder: Path, words: list[bytes]) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "stderr" for path in files), "executors have logs"
    return [path for path in files if any(word in path.read_bytes() for word in words)]


@pytest.mark.slow
class TestCommand:
    def test_publishes_what_one_process_does(self, cluster, tmp_path) -> None:
        pq.write_table(people(400, schema()), tmp_path / "people.parquet")
        (tmp_path / "schema.toml").write_text(schema().dumps())
        words = ["uniform", "people.parquet", "-s", "schema.toml", "-e", "1"]
        words += ["--insecure-seed", "1", "-o"]
        on_spark = ["--engine", "spark", "--master", cluster.master, "--staging", "staging"]
        for more in (["here"], ["there", *on_spark]):
            command = [str(Path(sys.executable).with_name("scumble")), "publish", *words, *more]
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env={**os.environ, **cluster.environment()},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert not re.search(r"WARN |java|Stage|Spark", done.stderr), done.stderr
        here, there = (sc.open(tmp_path / name) for name in ("here", "there"))
        name = "records.parquet"
        assert (here.folder / name).read_bytes() == (there.folder / name).read_bytes()

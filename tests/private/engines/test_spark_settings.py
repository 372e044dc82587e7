"""What is refused before a cluster is asked, and the staging folder: no Spark is needed here."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.cli.publish_options import opened_engine
from scumble.private.engines import spark, spark_task
from scumble.private.engines.spark_session import spark_session
from scumble.private.engines.staging import StagingFolder
from scumble.private.tables.open import open_source
from tests.support.people import people, schema

CHANNEL = {"spark.network.crypto.enabled": "true", "spark.authenticate": "true"}
ENCRYPTED = {**CHANNEL, "spark.io.encryption.enabled": "true"}


def session(settings: dict[str, str], master: str = "spark://host:7077") -> object:
    """Something that looks like a session with these settings."""
    context = SimpleNamespace(master=master, getConf=lambda: settings, _jsc=object())
    kind = type("SparkSession", (), {"__module__": "pyspark.sql.session"})
    found = kind()
    found.sparkContext = context
    return found


def test_clusters_without_encryption_are_refused(subtests: pytest.Subtests) -> None:
    for settings, master, named in [
        ({}, "spark://host:7077", ["network.crypto.enabled=true", "io.encryption.enabled=true"]),
        (CHANNEL, "yarn", ["io.encryption.enabled=true"]),
        ({**ENCRYPTED, "spark.authenticate": "false"}, "yarn", ["network.crypto.enabled=true"]),
        ({"spark.ssl.rpc.enabled": "TRUE"}, "yarn", ["io.encryption.enabled=true"]),
        ({"spark.io.encryption.enabled": "true"}, "local-cluster[2,1,1024]", ["crypto.enabled"]),
        ({}, "local[2]", ["spark.io.encryption.enabled=true"]),
        ({**ENCRYPTED, "spark.eventLog.enabled": "true"}, "yarn", ["eventLog.enabled=false"]),
    ]:
        with subtests.test(settings=settings, master=master, named=named):
            engine = sc.Spark(session(settings, master))
            with pytest.raises(sc.ParameterError, match="unencrypted") as error:
                sc.publish(
                    "no such file",
                    schema(),
                    sc.Uniform(epsilon=1),
                    options=sc.PublishOptions(engine=engine),
                )
            assert all(each in str(error.value) for each in named)
            assert ("network.crypto" in str(error.value)) == any("crypto" in each for each in named)
            assert "insecure_cluster=True" in str(error.value)
            assert sc.Spark(session(settings, master), insecure_cluster=True).opened()
            assert sc.Spark(session(ENCRYPTED, master)).opened()


def test_what_is_no_session() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for wrong in ("spark://host:7077", None, connect):
        with pytest.raises(sc.ParameterError, match="'session' parameter of Spark"):
            sc.Spark(wrong)
    with pytest.raises(sc.ParameterError, match="'staging' parameter of Spark"):
        sc.Spark(session(ENCRYPTED), staging="/no such folder")


def test_options_that_do_not_go_together() -> None:
    table, mechanism = people(9, schema()), sc.Uniform(epsilon=1)
    with pytest.raises(sc.ParameterError, match="'engine' parameter of publish"):
        sc.publish(table, schema(), mechanism, options=sc.PublishOptions(engine="spark"))
    with pytest.raises(sc.ParameterError, match="leave it out with engine"):
        sc.publish(
            table,
            schema(),
            mechanism,
            options=sc.PublishOptions(engine=sc.Spark(session(ENCRYPTED)), jobs=2),
        )
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(sc.SourceError, match=r"give engine, Spark\(session\)"):
        sc.publish(frame, schema(), mechanism)


def test_the_staging_folder_is_private_and_removed(tmp_path) -> None:
    with StagingFolder(tmp_path) as staging:
        assert not list(tmp_path.iterdir()), "it is made when it is used"
        folder = staging.path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "rows").write_text("private")
    assert not list(tmp_path.iterdir())
    with pytest.raises(sc.ScumbleError, match="No folder can be made"):
        _ = StagingFolder(tmp_path / "absent").path


def test_the_staging_folder_of_a_process_that_is_killed(tmp_path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; "
        "from scumble.private.engines.staging import StagingFolder; "
        "(StagingFolder(Path(sys.argv[1])).path / 'rows').write_text('private'); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    end = time.monotonic() + 30
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())


def test_a_late_task_does_not_make_the_folder_again(tmp_path) -> None:
    with StagingFolder(tmp_path) as staging:
        notes = staging.path / "notes1"
        notes.mkdir()
        spark_task._keep(notes / "0", b"print")
        assert spark_task.noted(notes / "0") == [b"print"]
    with pytest.raises(FileNotFoundError):
        spark_task._keep(notes / "0", b"print")
    assert not list(tmp_path.iterdir())


def test_a_process_that_serves_several_releases_sees_a_new_file(tmp_path, monkeypatch) -> None:
    """The workers of Spark outlive a release; metadata of a file must not outlive the file."""
    monkeypatch.chdir(tmp_path)
    for rows in (200, 400):
        pq.write_table(people(rows, schema()), "people.parquet", row_group_size=100)
        [unit] = open_source("people.parquet").units()
        sent = pickle.loads(pickle.dumps(unit))
        monkeypatch.chdir("/")  # where a worker of a cluster may be
        assert sum(batch.num_rows for batch in sent.batches(["age"])) == rows
        monkeypatch.chdir(tmp_path)
    missing = pickle.loads(pickle.dumps(unit))
    (tmp_path / "people.parquet").unlink()
    with pytest.raises(sc.SourceError, match="not on a machine that is to read it"):
        list(missing.batches(["age"]))


class Context:
    """What looks like the context of a session, on which one job runs until it is cancelled."""

    def __init__(self) -> None:
        self.tag, self.asked = "", 0
        self.job = threading.Event()
        self.cancelled = threading.Event()

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tag = tag

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        assert tag == self.tag
        self.asked += 1
        if self.job.is_set():
            self.cancelled.set()


def test_errors_of_spark_are_not_kept() -> None:
    """They may quote values and keys, and notebooks print the context of an exception."""
    pytest.importorskip("pyspark", reason="needs scumble[spark]")

    def fails() -> None:
        raise OSError("age 91")

    with pytest.raises(sc.ScumbleError, match="see the logs of Spark") as error:
        spark.call_spark(Context(), fails)
    assert error.value.__context__ is None
    assert error.value.__cause__ is None


@pytest.mark.parametrize("begun", [True, False])
def test_a_job_that_begins_after_ctrl_c_is_cancelled(begun: bool, monkeypatch) -> None:
    """Ctrl-C comes between two calls of Java, when there is no job to cancel yet."""
    pyspark = pytest.importorskip("pyspark", reason="needs scumble[spark]")
    context = Context()

    def call() -> None:
        while not context.asked:  # the first cancellation is too early
            time.sleep(0.01)
        context.job.set()
        assert context.cancelled.wait(60)

    def interrupted(*_: object) -> None:
        while begun and not context.tag:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(spark, "_await_answer", interrupted)
    if not begun:
        monkeypatch.setattr(pyspark.InheritableThread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spark.call_spark(context, call)
    assert context.cancelled.is_set() == begun
    assert bool(context.asked) == begun, "nobody waits for a call that never began"


class Java:
    """What looks like a context whose Java process answers some questions about one stage, and no
    more. With `moves`, a task has ended whenever it is asked. The first `fails` questions end in
    an error.
    """

    def __init__(self, answers: int, *, moves: bool, fails: int = 0) -> None:
        self.answers, self.asked, self._moves = threading.Semaphore(answers), 0, moves
        self._fails = fails

    def statusTracker(self) -> object:  # noqa: N802
        self.answers.acquire()
        self.asked += 1
        if self.asked <= self._fails:
            raise OSError("the answer was lost")
        stage = {"numCompletedTasks": self.asked if self._moves else 3}
        return SimpleNamespace(getActiveStageIds=lambda: [4], getStageInfo=lambda _: stage)


@pytest.mark.parametrize("moves", [True, False])
def test_a_call_is_given_up_when_tasks_stand_still(moves: bool, monkeypatch) -> None:
    """Java says four times that a task has ended, or always the same; then it does not answer."""
    monkeypatch.setattr(spark, "PATIENCE", 1.5)
    java, begun = Java(4, moves=moves), time.monotonic()
    _, error = spark._await_answer(queue.SimpleQueue(), java)
    assert isinstance(error, spark._SilenceError)
    assert time.monotonic() - begun > (4 if moves else 1) * 0.5 + 1.5 - 0.1
    assert java.asked == 4 or not moves


def test_a_question_that_fails_gives_nothing_up(monkeypatch) -> None:
    monkeypatch.setattr(spark, "PATIENCE", 1.5)
    java = Java(4, moves=True, fails=2)
    _, error = spark._await_answer(queue.SimpleQueue(), java)
    assert isinstance(error, spark._SilenceError)
    assert java.asked == 4


def test_an_answer_ends_the_waiting() -> None:
    box: queue.SimpleQueue = queue.SimpleQueue()
    box.put((7, None))
    assert spark._await_answer(box, Java(0, moves=False)) == (7, None)


class TestCommand:
    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (("flink", None, None, False), "'local' or 'spark'"),
            (("spark", None, None, False), "needs --master"),
            (("local", "spark://host:7077", None, False), "are for --engine spark"),
            (("local", None, Path("/"), False), "are for --engine spark"),
            (("local", None, None, True), "are for --engine spark"),
        ],
    )
    def test_options(self, options, sentence: str) -> None:
        with pytest.raises(sc.ParameterError, match=sentence), opened_engine(*options):
            pass

    def test_one_process_is_the_default(self) -> None:
        with opened_engine("local", None, None, False) as engine:
            assert engine is None

    def test_masters(self) -> None:
        pytest.importorskip("pyspark", reason="needs scumble[spark]")
        for wrong in ("host:7077", "flink://host:7077", "locals"):
            with (
                pytest.raises(sc.ParameterError, match="'master' parameter"),
                spark_session(wrong),
            ):
                pass
        for nobody in ("spark://127.0.0.1:1", "spark://127.0.0.1", "spark://127.0.0.1:1,[::1]:1"):
            with pytest.raises(sc.ScumbleError, match="Nobody answers"), spark_session(nobody):
                pass

    def test_without_pyspark(self, monkeypatch) -> None:
        for name in ("pyspark", "pyspark.sql"):
            monkeypatch.setitem(sys.modules, name, None)
        with (
            pytest.raises(sc.ParameterError, match=r"install scumble\[spark\], and Java 17\."),
            opened_engine("spark", "spark://host:7077", None, False),
        ):
            pass

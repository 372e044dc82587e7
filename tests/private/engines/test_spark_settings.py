"""What is refused before a cluster is asked, and the staging folder: no Spark is needed here."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.cli.publish_options import opened_engine
from scumble.private.engines import spark_session as spark_session_module
from scumble.private.engines import spark_task, spark_wait
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


@pytest.mark.parametrize(
    ("settings", "master", "named"),
    [
        ({}, "spark://host:7077", ["network.crypto.enabled=true", "io.encryption.enabled=true"]),
        (CHANNEL, "yarn", ["io.encryption.enabled=true"]),
        ({**ENCRYPTED, "spark.authenticate": "false"}, "yarn", ["network.crypto.enabled=true"]),
        ({"spark.ssl.rpc.enabled": "TRUE"}, "yarn", ["io.encryption.enabled=true"]),
        ({"spark.io.encryption.enabled": "true"}, "local-cluster[2,1,1024]", ["crypto.enabled"]),
        ({}, "local[2]", ["spark.io.encryption.enabled=true"]),
        ({**ENCRYPTED, "spark.eventLog.enabled": "true"}, "yarn", ["eventLog.enabled=false"]),
    ],
)
def test_clusters_without_encryption_are_refused(settings, master: str, named) -> None:
    engine = sc.Spark(session(settings, master))
    with pytest.raises(sc.ParameterError, match="unencrypted") as error:
        sc.publish("no such file", schema(), sc.Uniform(epsilon=1), engine=engine)
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
        sc.publish(table, schema(), mechanism, engine="spark")
    with pytest.raises(sc.ParameterError, match="leave it out with engine"):
        sc.publish(table, schema(), mechanism, engine=sc.Spark(session(ENCRYPTED)), jobs=2)
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


def test_an_answer_is_waited_for_while_there_are_signs_of_life(tmp_path, monkeypatch) -> None:
    spark_wait.begin_beats(tmp_path)
    sign, box = tmp_path / "beat", queue.SimpleQueue()
    os.utime(sign, (0, 0))
    spark_wait.beat(tmp_path)
    assert sign.stat().st_mtime_ns > 0
    monkeypatch.setattr(spark_wait, "PATIENCE", -1)
    for folder in (tmp_path, tmp_path / "none"):
        found = spark_wait._awaited(box, spark_wait.TaskSigns(folder))[1]
        assert isinstance(found, spark_wait._SilenceError)
    box.put((7, None))
    assert spark_wait._awaited(box, spark_wait.TaskSigns(tmp_path)) == (7, None)
    spark_wait.beat(tmp_path / "removed")
    assert not (tmp_path / "removed").exists(), "a late task makes nothing"


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


def test_errors_of_spark_are_not_kept(tmp_path) -> None:
    """They may quote values and keys, and notebooks print the context of an exception."""
    pytest.importorskip("pyspark", reason="needs scumble[spark]")

    def fails() -> None:
        raise OSError("age 91")

    spark_wait.begin_beats(tmp_path)
    with pytest.raises(sc.ScumbleError, match="see the logs of Spark") as error:
        spark_wait.answer_of(Context(), spark_wait.TaskSigns(tmp_path), fails)
    assert error.value.__context__ is None
    assert error.value.__cause__ is None


@pytest.mark.parametrize("begun", [True, False])
def test_a_job_that_begins_after_ctrl_c_is_cancelled(begun: bool, tmp_path, monkeypatch) -> None:
    """Ctrl-C comes between two calls of Java, when there is no job to cancel yet."""
    pytest.importorskip("pyspark", reason="needs scumble[spark]")
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

    monkeypatch.setattr(spark_wait, "_awaited", interrupted)
    if not begun:
        monkeypatch.setattr(spark_wait._Call, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spark_wait.answer_of(context, spark_wait.TaskSigns(tmp_path), call)
    assert context.cancelled.is_set() == begun
    assert bool(context.asked) == begun, "nobody waits for a call that never began"


class Java:
    """What looks like a context whose Java process answers some questions about one job, and no
    more. `tasks` are those of the job that run; `executors` have the tasks of each executor.
    """

    def __init__(self, answers: int, tasks: int, executors: list[int], tags: bool = True) -> None:
        self.master, self.answers, self.asked = "spark://host:7077", threading.Semaphore(answers), 0
        self._jsc = SimpleNamespace(sc=lambda: self)
        self._tasks, self._tags = tasks, tags
        self._executors = [0, *executors]  # the first is the driver

    def isStopped(self) -> bool:  # noqa: N802
        self.answers.acquire()
        self.asked += 1
        return False

    def statusTracker(self) -> object:  # noqa: N802
        def some(**methods: object) -> object:
            value = SimpleNamespace(**{name: lambda it=it: it for name, it in methods.items()})
            return SimpleNamespace(isDefined=lambda: True, get=lambda: value)

        def tagged(tag: str) -> list[int]:
            if self._tags:
                return [7] if tag == "tag" else []
            from py4j.protocol import Py4JError

            raise Py4JError("there is no such method")

        stage = some(numCompletedTasks=3, numFailedTasks=0, numActiveTasks=self._tasks)
        running = SimpleNamespace(toString=lambda: "RUNNING")
        return SimpleNamespace(
            getJobIdsForTag=tagged,
            getActiveJobIds=lambda: [7],
            getJobInfo=lambda _: some(status=running, stageIds=[4]),
            getStageInfo=lambda _: stage,
            getExecutorInfos=lambda: [
                SimpleNamespace(numRunningTasks=lambda tasks=tasks: tasks)
                for tasks in self._executors
            ],
        )


QUEUES = {
    "no executor": (0, [], "the session has had no executor"),
    "other tasks": (0, [1, 0], "the executors of the session have done only other tasks"),
    "its own tasks": (1, [1, 0], ""),
    "idle executors": (0, [0, 0], ""),  # although tasks wait: a message was lost
}


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("queue_", QUEUES)
def test_a_queue_is_waited_for(queue_: str, tags: bool, tmp_path, monkeypatch, caplog) -> None:
    """As long as Java says that it is one: three answers, each for a third of the patience."""
    pytest.importorskip("pyspark", reason="needs scumble[spark]")
    tasks, executors, told = QUEUES[queue_]
    java = Java(3, tasks, executors, tags)
    monkeypatch.setattr(spark_wait, "PATIENCE", 0.9)
    monkeypatch.setattr(spark_wait, "NOTICE_SECONDS", 0.5)
    spark_wait.begin_beats(tmp_path)
    begun, signs = time.monotonic(), spark_wait.TaskSigns(tmp_path)
    with signs.asked(java, "tag"):
        _, error = spark_wait._awaited(queue.SimpleQueue(), signs)
    assert isinstance(error, spark_wait._SilenceError)
    assert (time.monotonic() - begun > 1.75) == bool(told), "0.9 s after the last sign"
    words = told or "no task has begun, read on or ended"
    assert f"Still waiting for Spark: {words} for " in caplog.messages[0]


def test_a_plan_that_goes_on_forever_is_told_and_waited_for(monkeypatch, caplog) -> None:
    """No task of it ends, but Java answers; then it does not answer any more."""
    pytest.importorskip("pyspark", reason="needs scumble[spark]")
    java = Java(6, 2, [1, 1])
    monkeypatch.setattr(spark_wait, "PATIENCE", 0.9)
    monkeypatch.setattr(spark_wait, "NOTICE_SECONDS", 0.5)
    begun, signs = time.monotonic(), spark_wait.JavaSigns()
    with signs.asked(java, "tag"):
        _, error = spark_wait._awaited(queue.SimpleQueue(), signs)
    assert isinstance(error, spark_wait._SilenceError)
    assert java.asked == 6, "it was waited for as long as there were answers"
    assert time.monotonic() - begun > 6 * 0.3 + 0.9 - 0.1
    told = "Still waiting for Spark: no task of the DataFrame has ended (2 running) for "
    assert all(message.startswith(told) for message in caplog.messages)
    assert len(caplog.messages) in (2, 3), "after 0.5, 1 and 2 seconds without a task that ended"


@pytest.mark.parametrize("quiet", [True, False])
def test_messages_of_the_shell(quiet: bool, monkeypatch, capsys) -> None:
    """On stderr, unless a program reads it."""
    monkeypatch.setattr(spark_session_module, "spark_session", lambda _: nullcontext(session({})))
    given = "spark", "spark://host:7077", None, True
    with opened_engine(*given, quiet=quiet):
        logging.getLogger("scumble.spark").warning("Still waiting for Spark: %s.", "it")
    assert capsys.readouterr().err == ("" if quiet else "Still waiting for Spark: it.\n")
    assert not logging.getLogger("scumble.spark").handlers


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

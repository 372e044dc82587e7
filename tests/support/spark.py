"""A real standalone Spark cluster for tests and benchmarks: a master and two workers on loopback.

spark.py FOLDER PORT     keeps the cluster of FOLDER running as long as a process of FOLDER/users is
"""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

_SECONDS = 120  # in which a master must answer, also on a busy machine
# Loops of a few seconds are not worth the second compiler of Java.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k"
_SECURE = """spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.io.encryption.enabled true
"""
_SMALL = f"""spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.memory 512m
spark.driver.extraJavaOptions {_JAVA}
spark.executor.memory 512m
spark.executor.cores 1
spark.executor.extraJavaOptions {_JAVA}
spark.cores.max 2
spark.log.level ERROR
"""


class Cluster:
    """A running cluster. Its files, logs among them, are in `folder`."""

    def __init__(self, folder: Path, master: str) -> None:
        self.folder, self.master = folder, master

    def environment(self) -> dict[str, str]:
        """The variables that a driver needs."""
        return _environment(self.folder)

    def session(self, **settings: str) -> Any:
        """Start a session; `settings` have _ in place of the dots of their names."""
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(self.master).appName("tests")
        for name, value in settings.items():
            builder = builder.config(name.replace("_", "."), value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return builder.getOrCreate()


def stop(session: Any) -> None:
    """Stop a session and its JVM, with the sockets that pyspark leaves open."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
        process = getattr(gateway, "proc", None)
        gateway.shutdown()
        if process is not None:
            process.stdin.close()
            process.wait(30)
        SparkContext._gateway = SparkContext._jvm = None
        del session, gateway
        gc.collect()


def started(run: str) -> Iterator[Cluster]:
    """Yield the cluster of a test run, which ends with the last process that uses it; skip the
    tests where none can be started.
    """
    pytest.importorskip("pyspark", reason="needs scumble[spark]")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java 17")
    folder = Path(tempfile.gettempdir()) / f"scumble-spark-{run}"
    (folder / "users").mkdir(parents=True, exist_ok=True)
    (folder / "users" / str(os.getpid())).touch()
    with FileLock(folder / "lock"):
        address = folder / "address"
        if not address.exists():
            address.write_text(_start(folder))
        master = address.read_text()
    if not master:
        pytest.skip("a Spark cluster cannot be started here")
    with _variables(_environment(folder)):
        yield Cluster(folder, master)
    (folder / "users" / str(os.getpid())).unlink(missing_ok=True)


def _environment(folder: Path) -> dict[str, str]:
    import pyspark

    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _JAVA,
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def _start(folder: Path) -> str:
    """Start the cluster, and return the address of its master; "" if it does not answer."""
    (folder / "conf").mkdir()
    (folder / "conf").chmod(0o700)
    secret = _SECURE.format(secret=secrets.token_hex(16))
    (folder / "conf" / "spark-defaults.conf").write_text(secret + _SMALL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder / "keeper.log").open("wb")
    with log:
        keeper = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(port)],
            env={**os.environ, **_environment(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and keeper.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            keeper.returncode = 0  # it goes on without us, and is not waited for
            return f"spark://127.0.0.1:{port}"
        time.sleep(0.1)
    (folder / "failed").touch()  # the keeper ends the cluster
    keeper.returncode = 0
    return ""


def _keep(folder: Path, port: str) -> None:
    """Run the cluster until no process uses it."""
    program = str(Path(os.environ["SPARK_HOME"]) / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    # Several test processes may have a session each, of two executors with one core.
    worker = ["--cores", "4", "--memory", "4g", "-d", str(folder / "work")]
    commands = [
        [program, f"{deploy}.master.Master", "--port", port, *place],
        *[[program, f"{deploy}.worker.Worker", *place, *worker, f"spark://127.0.0.1:{port}"]] * 2,
    ]
    daemons = [subprocess.Popen(command, start_new_session=True) for command in commands]
    try:
        while _used(folder) and all(daemon.poll() is None for daemon in daemons):
            time.sleep(1)
    finally:
        for daemon in daemons:
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGTERM)
            daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _used(folder: Path) -> bool:
    if (folder / "failed").exists():
        return False
    for path in (folder / "users").iterdir():
        with suppress(ProcessLookupError):
            os.kill(int(path.name), 0)
            return True
    return False


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), sys.argv[2])

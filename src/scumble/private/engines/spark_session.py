"""A session of Spark for the command line: started for one command, and quiet."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from scumble.model.errors import ParameterError, ScumbleError

_SECONDS = 10  # in which a master must answer
_STOP_SECONDS = 60  # in which a session must end
# Java without memory may lose a thread that something waits for; so the process ends.
_JAVA = "-XX:+ExitOnOutOfMemoryError"
# What an application may decide for itself. The secret by which the machines of a cluster know each
# other, and with which they encrypt what they send, is in their configuration.
_SETTINGS = {
    "spark.io.encryption.enabled": "true",
    "spark.eventLog.enabled": "false",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    """Yield a session on the cluster of this master, and stop it at the end.

    Other settings are those of `spark-defaults.conf` in the folder SPARK_CONF_DIR.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            from pyspark.sql import SparkSession
    except ImportError:
        raise ParameterError(
            "pyspark is not installed: install scumble[spark], and Java 17."
        ) from None
    _check(master)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ParameterError("Spark needs Java 17: install it, or set JAVA_HOME to its folder.")
    builder = SparkSession.builder.master(master).appName("scumble")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = None
    logging.getLogger().addHandler(logging.NullHandler())  # py4j would tell what Ctrl-C interrupts
    with _own_interrupts(), _started_java(), warnings.catch_warnings(action="ignore"):
        try:
            session = builder.getOrCreate()
        except Exception:  # of many kinds, with many lines
            session = None
    if session is None:
        raise ScumbleError(
            f"No session could be started on the Spark master '{master}': it has another "
            "version of Spark or another secret (spark.authenticate), or is no Spark master."
        )
    try:
        yield session
    finally:
        _stop(session)


def _stop(session: Any) -> None:
    """Stop a session; if Java does not answer, end its process."""

    def stop() -> None:
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            session.stop()

    process = getattr(session.sparkContext._gateway, "proc", None)
    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(_STOP_SECONDS)
    if thread.is_alive() and process is not None:
        process.kill()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which pyspark replaces: tasks are cancelled without it."""
    first = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if first and before is not None:
            signal.signal(signal.SIGINT, before)


def _check(master: str) -> None:
    """Refuse what is no address of a master, and one that nobody listens at: Spark would try for
    more than a minute.
    """
    if not re.match(r"(spark|k8s)://.|local$|local\[|yarn$", master):
        allowed = "spark://host:7077, yarn, k8s://https://host:443 or local[2]"
        raise ParameterError.of("publish", "master", allowed, master)
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with suppress(OSError, ValueError, OverflowError):
            socket.create_connection((host, int(port)), _SECONDS).close()
            return
    raise ScumbleError(f"Nobody answers at the Spark master '{master}'.")


@contextmanager
def _started_java() -> Iterator[None]:
    """Let the Java process that is started here end when it has no memory left, and write to
    nowhere: its log may quote values.
    """
    name = "JDK_JAVA_OPTIONS"
    before = os.environ.get(name)
    os.environ[name] = _JAVA if before is None else f"{before} {_JAVA}"
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kept = [(number, os.dup(number)) for number in (1, 2)]
    for number, _ in kept:
        os.dup2(nowhere, number)
    try:
        yield
    finally:
        for number, own in kept:
            os.dup2(own, number)
            os.close(own)
        os.close(nowhere)
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before

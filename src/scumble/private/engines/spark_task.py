"""What a task of Spark does: one task of a job, with the same code as a worker process.

Nothing is raised: Spark would write the error, which may quote private values, into its logs. What
libraries print is not kept for the same reason.
"""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from scumble._version import __version__
from scumble.model.errors import ParameterError, ScumbleError
from scumble.private.engines.worker import TaskFailure, keep_freed_memory, prepare_arrow

UNSENT = (
    "This mechanism cannot be sent to a cluster. Define it in a module that its workers can import."
)


class Order(NamedTuple):
    """What is sent to a task: the pickled job and content, compressed and of the length `size`
    before, and the folder for what it notes.

    The rest is looked at before these are unpickled.
    """

    version: str
    staging: str
    notes: str
    size: int
    work: bytes


def packed(work: bytes) -> tuple[int, bytes]:
    """Return the last parts of an order: a block of rows takes a fraction of its memory in Java."""
    return len(work), pa.compress(work, "zstd", asbytes=True)


def work(orders: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Do the tasks of some orders, and yield their answers, by the numbers of the tasks."""
    prepare_arrow()
    keep_freed_memory()
    for number, order in orders:
        with _silence():
            found = _done(Order(*pickle.loads(order)))  # noqa: S301 (from the driver)
        yield number, pickle.dumps(found, protocol=5)


def _done(order: Order) -> tuple[str, Any]:
    """Return ("done", answer) or ("failure", Failure)."""
    try:
        _check(order)
        try:
            work = pa.decompress(order.work, order.size, "zstd", asbytes=True)
            job, content = pickle.loads(work)  # noqa: S301
        except Exception:  # what cannot be unpickled can raise anything
            raise ParameterError(UNSENT) from None

        def note(told: Any) -> None:
            if told is not None:
                _keep(Path(order.notes), told)

        return "done", job.run(content, note)
    except Exception as error:
        return "failure", TaskFailure.of(error)


def _check(order: Order) -> None:
    if order.version != __version__:
        raise ScumbleError(
            f"This process has scumble {order.version} and a worker of the cluster has "
            f"{__version__}: install the same version on all machines."
        )
    if not os.access(order.staging, os.W_OK):
        raise ScumbleError(
            f"A worker of the cluster cannot write to the folder '{order.staging}'. Give a staging "
            "folder that all machines of the cluster see under the same path, and run the workers "
            "as the user who publishes."
        )


def _keep(folder: Path, told: object) -> None:
    """Write a note for the driver, which reads it also if this attempt does not come to its end.

    A task that nobody waits for any more must not make the staging folder again.
    """
    folder.mkdir(exist_ok=True)
    part = folder / f"{secrets.token_hex(8)}.part"
    part.write_bytes(pickle.dumps(told, protocol=5))
    part.rename(part.with_suffix(".note"))


def noted(folder: Path) -> list[Any]:
    """Return what all attempts have noted."""
    return [pickle.loads(path.read_bytes()) for path in folder.glob("*.note")]  # noqa: S301


@contextmanager
def _silence() -> Iterator[None]:
    """Send what is written to standard output and error to nowhere."""
    kept = [(number, os.dup(number)) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number, _ in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, before in kept:
            os.dup2(before, number)
            os.close(before)
        os.close(nowhere)


class Probe:
    """Asks a worker whether it could do a task: whether it has scumble, and sees the folder."""

    answer_bytes = 0

    def run(self, content: object, note: object) -> None:
        """Do nothing: the checks are made before."""

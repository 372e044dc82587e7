"""A worker process: it gets jobs and tasks on its standard input, and answers on its output.

Messages are pickled, each after its length. Keys of units arrive here and nowhere else: not on a
command line, in the environment or in a file. If the driver ends, whatever the reason, the input
ends, and the worker stops at once.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import sys
import threading
from typing import IO, Any, NamedTuple

from scumble.model.errors import ParameterError, setting
from scumble.model.no_pandas import no_pandas

_LENGTH = 8
_LARGE_BLOCK = 31 << 20

# Runs before anything of the package is imported; the first message is the path of modules. What is
# imported stays: looking for garbage among it would take a tenth of the start.
BOOT = (
    "import gc, sys, pickle; gc.disable(); size = int.from_bytes(sys.stdin.buffer.read(8), 'big'); "
    "sys.path[:] = pickle.loads(sys.stdin.buffer.read(size)); "
    "from scumble.private.engines.worker import main; main()"
)


def may_try_again(error: BaseException) -> bool:
    """Return whether a task may be tried again after this error."""
    return isinstance(error, OSError | MemoryError)


class TaskFailure(NamedTuple):
    """An error of a task: its class, its sentence, and its attributes. `again` says that the task
    may be tried again. `system` has the number, the sentence and the file of an error of the
    operating system.
    """

    kind: type[BaseException]
    text: str
    attributes: dict[str, Any]
    again: bool
    system: tuple[Any, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> TaskFailure:
        system: tuple[Any, ...] = ()
        if isinstance(error, OSError) and error.errno is not None:
            system = (error.errno, error.strerror, error.filename)
        return cls(type(error), str(error), dict(error.__dict__), may_try_again(error), system)

    def error(self) -> BaseException:
        """Return the error as it was raised in the worker."""
        if self.system:
            return OSError(*self.system)  # of the subclass that belongs to the number
        found = self.kind.__new__(self.kind)
        found.args = (self.text,)
        found.__dict__.update(self.attributes)
        return found


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    pipe.write(len(data).to_bytes(_LENGTH, "big"))
    pipe.write(data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Return the next message, or None at the end of the input."""
    head = pipe.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "big")
    data = pipe.read(size)
    # Both ends of the pipe are processes of one release.
    return pickle.loads(data) if len(data) == size else None  # noqa: S301


def prepare_arrow() -> None:
    """Let Arrow use one core, and no pandas."""
    import pyarrow as pa

    pa.set_cpu_count(1)  # the other processes use the other cores
    with no_pandas():  # Arrow looks for it once
        pa.array([0]).to_numpy(zero_copy_only=False)


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for the next ones.

    glibc gives blocks back to the system, which has to clear them when they are asked for again, if
    they are larger than the largest block that was ever freed, up to 32 MB. A block that is not
    written to costs nothing.
    """
    import numpy as np

    np.empty(_LARGE_BLOCK, np.uint8)


def main() -> None:
    """Answer tasks until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    prepare_arrow()
    keep_freed_memory()
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()

    def note(told: object) -> None:
        if told is not None:
            send(answers, ("note", told))

    job: Any = None
    while True:
        kind, content = inbox.get()
        if kind == "unreadable":
            job = _Unreadable()
            continue
        if kind == "job":
            job = content
            continue
        try:
            found = job.run(content, note)
        except BaseException as error:
            send(answers, ("failure", TaskFailure.of(error)))
        else:
            send(answers, ("done", found))
        if not gc.isenabled():  # all is imported now
            gc.freeze()
            gc.enable()


class _Unreadable:
    """Stands for a job that could not be unpickled here."""

    def run(self, _: object, __: object) -> None:
        raise ParameterError(
            "This mechanism cannot be sent to another process. Define it in a module that can be "
            f"imported, or publish with {setting('jobs', 1)}."
        )


def _listen(inbox: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            message = receive(sys.stdin.buffer)
        except Exception:  # what cannot be unpickled can raise anything
            message = ("unreadable", None)
        if message is None:
            break
        inbox.put(message)
    os._exit(0)

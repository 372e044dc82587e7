"""Worker processes: tasks are handed out, repeated if a worker dies, and answered in any order.

Workers are started with a fresh interpreter, not forked, and only when there is a second task. A
script that publishes needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from scumble.model.errors import ScumbleError
from scumble.private.engines.worker import BOOT, receive, send

ATTEMPTS = 3
_WAKE_SECONDS = 0.2  # how long a signal may wait


class Job(Protocol):
    """What is done with every task. It is pickled once for each worker."""

    @property
    def staging(self) -> Path | None:
        """A folder that is removed if the driver dies."""
        ...

    def run(self, content: Any, note: Callable[[Any], None]) -> Any:
        """Return the answer to a task; `note` tells the driver something before that."""
        ...


@dataclass
class Task:
    """A piece of work. `content(attempt)` is what the job gets, at the first attempt 0."""

    number: int
    content: Callable[[int], Any]
    attempt: int = 0
    notes: list[Any] = field(default_factory=list)


class _Worker:
    """One process, and a thread that puts its answers into the common inbox."""

    def __init__(self, inbox: queue.SimpleQueue[Any]) -> None:
        self.process = subprocess.Popen(  # noqa: S603 (this interpreter, and a fixed text)
            [sys.executable, "-c", BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a library may quote private values there
            start_new_session=True,  # Ctrl-C is the driver's
        )
        self._input: Any = self.process.stdin
        self._output: Any = self.process.stdout
        self.task: Task | None = None
        self.job: object = None
        self._inbox = inbox
        self._send([os.getcwd() if path == "" else path for path in sys.path])
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, task: Task, job: Job) -> None:
        if self.job is not job:
            self._send(("job", job))
            self.job = job
        self.task = task
        self._send(("task", task.content(task.attempt)))

    def _send(self, message: object) -> None:
        with suppress(OSError):  # if it has died, its thread says so
            send(self._input, message)

    def _listen(self) -> None:
        with suppress(OSError, ValueError, EOFError):
            while (message := receive(self._output)) is not None:
                self._inbox.put((self, message))
        self._inbox.put((self, ("dead", None)))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        with suppress(OSError):
            self._input.close()
        with suppress(OSError):
            self._output.close()


class Workers:
    """At most `jobs` worker processes, until the end of the `with` block.

    `order` rearranges the tasks of a job before they are handed out; tests use it.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.order: Callable[[list[Task]], list[Task]] | None = None
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop(self._workers)

    def processes(self) -> list[int]:
        """Return the numbers of the processes that are running."""
        return [worker.process.pid for worker in self._workers]

    def run(self, job: Job, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Yield every task with its answer, as they come.

        A task whose worker died, or that could not read or write, is tried again. Any other error
        ends the job: of several, that of the first task is raised, as in one process.
        """
        waiting = iter(tasks if self.order is None else self.order(list(tasks)))
        ahead = deque(_taken(waiting, 2))
        if len(ahead) == 1:
            [only] = ahead
            yield only, job.run(only.content(0), only.notes.append)
            return
        failures: dict[int, BaseException] = {}
        try:
            while True:
                if not failures:
                    self._hand_out(job, ahead, waiting)
                if not any(worker.task for worker in self._workers):
                    break
                yield from self._answers(ahead, failures)
        finally:
            self._stop([worker for worker in self._workers if worker.task is not None])
        if failures:
            raise failures[min(failures)]

    def _hand_out(self, job: Job, ahead: deque[Task], waiting: Iterator[Task]) -> None:
        """Give tasks to all workers that have none, and keep one ready for the next."""
        while len(self._workers) < self.jobs and len(ahead) > self._idle():
            self._workers.append(_Worker(self._inbox))
            ahead.extend(_taken(waiting, 1))
        for worker in self._workers:
            if worker.task is None and ahead:
                worker.start(ahead.popleft(), job)
                ahead.extend(_taken(waiting, 1))

    def _stop(self, workers: list[_Worker]) -> None:
        """End these processes, such as those whose answers nobody waits for any more."""
        for worker in list(workers):
            self._workers.remove(worker)
            worker.stop()

    def _idle(self) -> int:
        return sum(worker.task is None for worker in self._workers)

    def _answers(
        self, ahead: deque[Task], failures: dict[int, BaseException]
    ) -> Iterator[tuple[Task, Any]]:
        """Wait for one message of a worker; yield its task if that is done."""
        try:
            worker, (kind, content) = self._inbox.get(timeout=_WAKE_SECONDS)
        except queue.Empty:
            return
        if worker not in self._workers or (worker.task is None and kind != "dead"):
            return
        task = worker.task
        if kind == "note" and task is not None:
            task.notes.append(content)
            return
        worker.task = None
        if kind == "dead":
            self._stop([worker])
        if task is None:
            return
        if kind == "done":
            yield task, content
            return
        task.attempt += 1
        again = kind == "dead" or content.again
        if again and task.attempt < ATTEMPTS:
            ahead.appendleft(task)
        else:
            failures[task.number] = _LOST if kind == "dead" else content.error()


def _taken(tasks: Iterator[Task], number: int) -> list[Task]:
    return [task for _, task in zip(range(number), tasks, strict=False)]


_LOST = ScumbleError(
    "A worker process ended three times at the same part of the table, perhaps for lack of memory. "
    "Use fewer jobs."
)

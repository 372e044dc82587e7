"""A second thread of the driver that does tasks, as a worker process does.

It starts at once and has everything in memory that the driver has. It is for jobs that spend their
time in numpy, Arrow and compiled loops, which release the lock of the interpreter; a job says so by
`releases_lock`.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from scumble.private.engines.worker import Failure

if TYPE_CHECKING:
    from scumble.private.engines.workers import Job, Task


class ThreadWorker:
    """A thread that puts its answers into the common inbox.

    `tasks` are those that it was given, the one that it works on first.
    """

    def __init__(self, inbox: queue.SimpleQueue[Any]) -> None:
        self.tasks: deque[Task] = deque()
        self._inbox = inbox
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def give(self, task: Task, job: Job) -> None:
        self.tasks.append(task)
        self._given.put((job, task.content()))

    def stop(self) -> None:
        """End the thread: between two pieces of a unit, if it is working."""
        self._stopped = True
        self._given.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._given.get()) is not None:
            job, content = given
            try:
                found = job.run(content, self._note)
            except _StoppedError:
                return
            except BaseException as error:
                self._inbox.put((self, ("failure", Failure.of(error))))
            else:
                self._inbox.put((self, ("done", found)))

    def _note(self, told: object) -> None:
        if self._stopped:
            raise _StoppedError
        if told is not None:
            self._inbox.put((self, ("note", told)))


class _StoppedError(BaseException):
    """Ends a task whose answer nobody waits for. No task handles it."""

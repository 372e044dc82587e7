"""Processes that make the runs of a comparison.

Each is a fresh interpreter: a copy of this one would find the threads of its libraries gone. The
private table goes to each once, through a pipe and not through a file. They end with this process,
whatever ends it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import cast

from scumble.compare.comparison_run import Material, Run, Runner, Task
from scumble.model.dialect import Dialect, speaking
from scumble.model.errors import ScumbleError

Made = Run | str  # a run, or the reason why there can be none


@dataclass(frozen=True)
class Failure:
    """An error that nobody foresaw, and where it happened."""

    kind: str
    where: str


def usable_cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def attempted(runner: Runner, task: Task) -> Made:
    """A run, or the reason why there can be none: in the words of Python in every process, since a
    comparison has no options for the settings of methods.
    """
    try:
        with speaking(Dialect()):
            return runner.run(task.choice, task.repeat)
    except ScumbleError as error:
        return str(error)
    except MemoryError:
        return "There is not enough memory for it."


class Workers:
    """Some processes, from entering this context to leaving it."""

    def __init__(self, jobs: int, material: Material) -> None:
        self._jobs = jobs
        self._material = material
        self._processes: dict[Connection, BaseProcess] = {}
        # Releases that are cut short lie here, and go with it.
        self._folder = tempfile.TemporaryDirectory(prefix="scumble-")

    def __enter__(self) -> Workers:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def made(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Made]]:
        """Runs in the order in which they are done; a task is taken when somebody is free."""
        busy: dict[Connection, Task] = {}
        for pipe in self._processes:
            self._hand(pipe, tasks, busy)
        while busy:
            ready = connection.wait(list(busy))
            for pipe in [each for each in busy if each in ready]:
                task = busy.pop(pipe)
                found = self._received(pipe)
                self._hand(pipe, tasks, busy)
                yield task, found

    def _start(self) -> None:
        context = get_context("spawn")
        resource_tracker.ensure_running()  # beforehand: its start ends the deafness of this thread
        with _deaf():
            for _ in range(self._jobs):
                here, there = context.Pipe()
                process = context.Process(
                    target=_work, args=(there, self._folder.name), daemon=True
                )
                process.start()
                there.close()
                self._processes[here] = process
        for pipe in self._processes:
            with _expected():
                pipe.send(self._material)

    def _hand(self, pipe: Connection, tasks: Iterator[Task], busy: dict[Connection, Task]) -> None:
        task = next(tasks, None)
        if task is not None:
            with _expected():
                pipe.send(task)
            busy[pipe] = task

    def _received(self, pipe: Connection) -> Made:
        with _expected():
            found = pipe.recv()
        if isinstance(found, Failure):
            error = RuntimeError(found.kind)
            error.add_note(found.where)  # for --debug
            raise error
        return cast(Made, found)

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
        for pipe, process in self._processes.items():
            process.join()
            pipe.close()
        self._folder.cleanup()


@contextmanager
def _expected() -> Iterator[None]:
    """Speaking with a process that ought to be there."""
    try:
        yield
    except (EOFError, OSError):
        raise ScumbleError(
            "A process that makes releases was ended from outside, perhaps for want of memory; try "
            "fewer --jobs."
        ) from None


@contextmanager
def _deaf() -> Iterator[None]:
    """Who is started here never hears Ctrl-C: a terminal sends it to all, and one decides. That one
    hears it when all are started, so that none is half there.
    """
    heard: list[int] = []
    first = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda *_: heard.append(1)) if first else None
    masks = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
    if heard:
        raise KeyboardInterrupt


def _work(pipe: Connection, folder: str) -> None:
    """The life of a process: material, then tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = folder
    try:
        runner = Runner(pipe.recv())
        while True:
            task = pipe.recv()
            found: Made | Failure
            try:
                found = attempted(runner, task)
            except Exception as error:
                found = Failure(type(error).__name__, traceback.format_exc())
            pipe.send(found)
    except (EOFError, OSError):
        return  # who gave the tasks is gone

"""Processes that work until they are killed, forked by one that has everything loaded: many times
faster than a new Python for each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MERCY = 2  # lines that are told before a step kills

Step = Callable[[str], None]
Work = Callable[[str, int, Step], Iterator[str]]


class Nursery:
    """Runs and kills children, one after the other; the module `script` calls `nurse` if it is
    told its `mode`.
    """

    def __init__(self, script: str, mode: str = "nursery") -> None:
        command = [sys.executable, "-m", script, mode]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:  # a child works on after a test that failed
            self.process.kill()
            raise

    def lives(
        self, folder: Path, first: int, step: str = "", acks: int = 0, delay: float = 0
    ) -> dict[str, str]:
        """What a child told, by key, before it was killed: at a step, or some time after it had
        told so much.
        """
        self.process.stdin.write(f"{first} {step or '-'} {folder}\n")
        self.process.stdin.flush()
        _, pid = self.process.stdout.readline().split()
        told: dict[str, str] = {}
        while True:
            if not step and len(told) >= acks:
                time.sleep(delay)
                os.kill(int(pid), signal.SIGKILL)
                acks = sys.maxsize
            key, value = self.process.stdout.readline().split()
            if key == "dead":
                assert value == "-9"
                return told
            told[key] = value


def nurse(work: Work) -> None:
    """For each line "FIRST STEP FOLDER" a child that works from number FIRST on, until it is
    killed, or kills itself at that step ("-": at none).
    """
    for line in sys.stdin:
        first, fatal, folder = line.rstrip("\n").split(" ", 2)
        child = os.fork()
        if not child:
            try:
                _live(work, folder, int(first), fatal)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        _tell(f"dead {os.waitstatus_to_exitcode(status)}")


def watched(
    function: Callable[..., Any], step: Step, *, before: str = "", after: str = ""
) -> Callable[..., Any]:
    """A function that says when it is called, or has done its work."""

    def found(*arguments: Any) -> Any:
        step(before)
        result = function(*arguments)
        step(after)
        return result

    return found


def deadly(fatal: str, ready: Callable[[], bool] = lambda: True) -> Step:
    """A step at which the process is killed, once it is ready for it."""

    def step(name: str) -> None:
        if name == fatal and ready():
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def _live(work: Work, folder: str, first: int, fatal: str) -> None:
    told: list[str] = []
    _tell(f"born {os.getpid()}")
    for line in work(folder, first, deadly(fatal, lambda: len(told) >= MERCY)):
        _tell(line)
        told.append(line)


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode("ascii"))

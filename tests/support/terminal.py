"""Calling the command line, in this process or in another one."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer import testing

from scumble.cli.app import app

PEOPLE = 3000
# The runner makes all commands of a program from their signatures, for each call anew. That takes
# longer than most of them run; once is enough.
testing._get_command = cache(testing._get_command)


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """What was said beside the errors to expect, which are told before anything is read."""
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(("To expect: ", "WARNING: ")))

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*words: object, stdin: str | None = None, program: typer.Typer = app) -> Done:
    """What a command says, and how it ends."""
    done = testing.CliRunner().invoke(program, [str(word) for word in words], input=stdin)
    return Done(done.exit_code, done.stdout, done.stderr)


def child_command(code: str = "from scumble.cli.app import main; main()") -> list[str]:
    """The words that run Python code (`scumble` if none is given) in a process of its own.

    A process inherits the signals that its parent ignores, as under nohup or in the background of a
    script. The child takes the default dispositions, so that signals sent to it arrive, and then
    shows on a terminal a code without effect: `on_terminal` counts its seconds from there.
    """
    default = (
        "import signal as s; s.signal(s.SIGINT, s.default_int_handler); "
        "[s.signal(getattr(s, n), s.SIG_DFL) for n in ('SIGTERM', 'SIGHUP') if hasattr(s, n)]\n"
        "import sys\n"
        "if sys.stderr.isatty(): print('\\x1b[0m', end='', file=sys.stderr, flush=True)\n"
    )
    return [sys.executable, "-c", default + code]


class Ended(NamedTuple):
    """A process on a terminal: its exit code and what it showed."""

    code: int
    output: str

    @property
    def text(self) -> str:
        """What it showed, without the codes that move the cursor or change colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.output)


def on_terminal(
    words: list[str],
    columns: int = 100,
    *,
    interrupt: float | None = None,
    folder: Path | None = None,
    typed: str = "",
) -> Ended:
    """Run a program on a terminal; press Ctrl-C `interrupt` seconds after it shows something first.
    What is `typed` waits there from the start.

    Before that, the interpreter starts: on a busy machine nobody knows how long that takes.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    child = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**kept, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    start, pressed, shown = None, False, b""
    try:
        while True:
            left = None
            if interrupt is not None and not pressed and start is not None:
                left = max(start + interrupt - time.monotonic(), 0)
            if select.select([ours], [], [], left)[0]:
                try:
                    part = os.read(ours, 1 << 16)
                except OSError:  # all ends of the terminal are closed
                    break
                if not part:
                    break
                shown += part
                start = start or time.monotonic()
            elif not pressed:
                pressed = True
                os.killpg(child.pid, signal.SIGINT)  # as a terminal does, to all its processes
        code = child.wait()
    finally:
        os.close(ours)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return Ended(code, shown.decode("utf-8", "replace"))


def research(*words: object) -> Done:
    """What an experiment says, and how it ends."""
    from research.commands import app as experiments

    return run(*words, program=experiments)

"""Calling the command line, in this process or in another one."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from scumble.cli.app import app

PEOPLE = 3000


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
    done = CliRunner().invoke(program, [str(word) for word in words], input=stdin)
    return Done(done.exit_code, done.stdout, done.stderr)


def child_command(code: str = "from scumble.cli.app import main; main()") -> list[str]:
    """The words that run Python code (`scumble` if none is given) in a process of its own.

    A process inherits the signals that its parent ignores, as under nohup or in the background of a
    script. The child takes the default dispositions, so that signals sent to it arrive.
    """
    default = (
        "import signal as s; s.signal(s.SIGINT, s.default_int_handler); "
        "[s.signal(getattr(s, n), s.SIG_DFL) for n in ('SIGTERM', 'SIGHUP') if hasattr(s, n)]\n"
    )
    return [sys.executable, "-c", default + code]


def research(*words: object) -> Done:
    """What an experiment says, and how it ends."""
    from research.commands import app as experiments

    return run(*words, program=experiments)

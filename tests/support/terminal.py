"""Calling the command line in this process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

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
        return "".join(line for line in lines if not line.startswith("To expect: "))

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*words: object, stdin: str | None = None) -> Done:
    """What a command says, and how it ends."""
    done = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    return Done(done.exit_code, done.stdout, done.stderr)

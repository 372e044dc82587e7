"""The examples of docs/cli.md, run in their order in one folder, with the exit codes they state."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scumble.cli import console, database, release, schema
from scumble.cli.app import app
from scumble.cli.groups import ledger, server
from scumble.model.errors import ScumbleError
from tests.support.terminal import run

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
STARTS = ("scumble ", "echo ", "printf ")


def examples():
    lines = [line[4:] for line in TEXT.splitlines() if line.startswith("    ")]
    assert all(line.startswith(STARTS) for line in lines)
    return lines


@pytest.fixture
def shell(tmp_path):
    """Runs a line with a `scumble` that is the one under test."""
    command = tmp_path / "bin" / "scumble"
    command.parent.mkdir()
    code = "from scumble.cli.app import main; main()"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    command.chmod(0o755)
    paths = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}

    def run_line(line):
        return subprocess.run(line, shell=True, env=paths, capture_output=True, text=True)

    return run_line


@pytest.mark.slow
def test_examples_end_as_stated(shell, tmp_path, monkeypatch):
    """A line that needs a shell gets one; the others are run here, which is quicker."""
    monkeypatch.chdir(tmp_path)
    assert len(examples()) > 10
    for line in examples():
        stated = re.search(r"# exit code (\d+)$", line)
        if line.startswith("scumble"):
            done = run(*shlex.split(line, comments=True)[1:])
            code, err = done.code, done.err
        else:
            process = shell(line)
            code, err = process.returncode, process.stderr
        assert code == int(stated[1] if stated else 0), (line, err)


def test_every_command_has_a_section():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    groups = (
        ("db", database.app),
        ("ledger", ledger.app),
        ("release", release.app),
        ("schema", schema.app),
        ("token", server.token_app),
    )
    for group, found in groups:
        commands = [each.name or each.callback.__name__ for each in found.registered_commands]
        names |= {f"{group} {name}" for name in commands}
    for name in names - {"demo"}:
        assert re.search(rf"^## .*\b{name}\b", TEXT, re.MULTILINE), name


def test_every_exit_code_is_documented():
    def tree(kind):
        return {kind}.union(*(tree(child) for child in kind.__subclasses__()))

    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    ends = {0, console.SYSTEM, console.BUG, 128 + signal.SIGINT, 128 + signal.SIGTERM}
    assert documented == ends | {kind.exit_code for kind in tree(ScumbleError)}

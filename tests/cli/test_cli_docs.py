"""The examples of docs/cli.md, run in their order in one folder, with the exit codes they state."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scumble.cli import app
from scumble.errors import ScumbleError

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
STARTS = ("scumble ", "echo ", "printf ")


def examples():
    lines = [line[4:] for line in TEXT.splitlines() if line.startswith("    ")]
    assert all(line.startswith(STARTS) for line in lines)
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder, and a `scumble` that is the one under test."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bin").mkdir()
    command = folder / "bin" / "scumble"
    code = "from scumble.cli import main; main()"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    command.chmod(0o755)
    return folder


def test_examples_end_as_stated(folder):
    import os

    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    assert len(examples()) > 10
    for line in examples():
        stated = re.search(r"# exit code (\d+)$", line)
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == int(stated[1] if stated else 0), (line, done.stderr)


def test_every_command_has_a_section():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    for name in names - {"version", "demo"}:
        assert re.search(rf"^## .*\b{name}\b", TEXT, re.MULTILINE)


def test_every_exit_code_is_documented():
    def tree(kind):
        return {kind}.union(*(tree(child) for child in kind.__subclasses__()))

    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert {kind.exit_code for kind in tree(ScumbleError)} <= documented
    assert {0, 1, 70, 130} <= documented

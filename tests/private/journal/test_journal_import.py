"""The journal, the ledger and the database import on a system without fcntl."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "scumble.private.journal.journal",
        "scumble.private.journal.group_commit",
        "scumble.private.ledger.ledger",
        "scumble.private.database.database",
        "scumble.private.database.inspect",
    ],
)
def test_imports_without_fcntl(module):
    code = f"import sys; sys.modules['fcntl'] = None; import {module}; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "imported\n", done.stderr

"""The journal, the ledger and the database import on a system without fcntl."""

import subprocess
import sys

MODULES = (
    "scumble.private.journal.journal",
    "scumble.private.journal.group_commit",
    "scumble.private.ledger.ledger",
    "scumble.private.database.database",
    "scumble.private.database.inspect",
)


def test_imports_without_fcntl():
    imports = "; ".join(f"import {module}" for module in MODULES)
    code = f"import sys; sys.modules['fcntl'] = None; {imports}; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "imported\n", done.stderr

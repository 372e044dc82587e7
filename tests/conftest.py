"""What all tests share: fixed examples, the folder of real tables, paths of child processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Child processes import tests.support too.
_ROOT = Path(__file__).resolve().parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))

# Examples are the same on every run, and a slow machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real tables; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SCUMBLE_DATA", default))
    if not folder.is_dir():
        pytest.skip("no folder of real data: set SCUMBLE_DATA to one")
    return folder

"""What several test rooms share: small people, small schemas, releases made by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

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

"""Places of journals: a folder, and a table in PostgreSQL."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["folder", "postgresql"])
def place(request, tmp_path):
    """A new place of each kind, where no journal is yet."""
    if request.param == "folder":
        return tmp_path / "db"
    return request.getfixturevalue("postgresql").table("journal")

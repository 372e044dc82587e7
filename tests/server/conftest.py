"""A server over small data sets, shared by the tests of a file."""

from __future__ import annotations

import pytest

from scumble.server.catalogue import LiveDataset, ReleaseDataset
from tests.support.servers import Front, make_settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return make_settings(tmp_path_factory.mktemp("server"))


@pytest.fixture
def without_audits(monkeypatch):
    """Certificates without the audit, which takes seconds."""
    for kind in (LiveDataset, ReleaseDataset):
        monkeypatch.setattr(kind, "certificate", lambda _: "<p>A certificate.</p>")


@pytest.fixture(scope="module")
def front(settings):
    found = Front(settings)
    yield found
    found.close()

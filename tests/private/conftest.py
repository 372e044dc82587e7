"""What tests of the private side share: a real PostgreSQL server."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from tests.support import postgres


@pytest.fixture(scope="session")
def server(testrun_uid: str) -> Iterator[postgres.Server]:
    """A PostgreSQL server of this test run; the tests are skipped where none can be started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from postgres.started(testrun_uid[:8])

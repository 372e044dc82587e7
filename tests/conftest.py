"""What all tests share: fixed examples, time limits, the environment of child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import postgres

# Child processes import tests.support too.
_ROOT = Path(__file__).resolve().parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
# As many test processes as cores run already; threads of linear algebra would only wait for a turn.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A child process inherits a signal that is ignored here (as SIGHUP is under nohup), but not a
# handler: with one that does nothing, every child starts with the default disposition.
for _name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGTERM"):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# A test that fails, or has used up its time, does not wait for a child that it was to end.
_close = subprocess.Popen.__exit__


def _kill_and_close(child: subprocess.Popen, kind: type | None, *error: object) -> None:
    if kind is not None:
        child.kill()
    _close(child, kind, *error)


subprocess.Popen.__exit__ = _kill_and_close

# Examples are the same on every run, and a slow machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

# Seconds for each test of a marker; all others have those of pyproject.toml.
_LIMITS = {"slow": 1200, "soak": 6 * 3600}


# Whole files and folders that are slow together: experiments and the harness of the benchmarks.
_SLOW = ("tests/research/", "tests/test_benchmarks.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow folders, and give marked tests the time limit of their marker."""
    for item in items:
        if item.nodeid.startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
        for name, seconds in _LIMITS.items():
            if item.get_closest_marker(name) and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(seconds))


@pytest.fixture(scope="session")
def postgresql(testrun_uid: str) -> Iterator[postgres.Server]:
    """A real PostgreSQL server of this test run; skips the tests where none can be started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from postgres.started(testrun_uid[:8])


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real tables; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SCUMBLE_DATA", default))
    if not folder.is_dir():
        pytest.skip("no folder of real data: set SCUMBLE_DATA to one")
    return folder

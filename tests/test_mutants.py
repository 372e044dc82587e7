"""Every planted privacy bug of `tests/support/mutants.py` is noticed by the tests that it names."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "scumble"
MOST_SECONDS = 600  # of a child process: a bug must fail a test, and not make it wait forever
every = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@every
def test_a_mutant_still_applies(mutant: Mutant) -> None:
    source = (PACKAGE / mutant.file).read_text("utf-8")
    assert source.count(mutant.old) == 1, "the text to be replaced occurs once"
    ast.parse(source.replace(mutant.old, mutant.new))
    assert mutant.old != mutant.new
    for test in mutant.tests:
        file, *names = test.partition("[")[0].split("::")
        assert names, "a file is too much to run"
        assert names[-1] in _functions(ROOT / "tests" / file), test


def test_there_are_enough_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 36


@pytest.mark.slow
def test_what_is_not_mutated_passes(copy: Path, tmp_path: Path) -> None:
    """Without this a test that always fails would notice everything."""
    ended = _run(copy, sorted({test for mutant in MUTANTS for test in mutant.tests}), tmp_path)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@every
def test_a_mutant_is_noticed(mutant: Mutant, copy: Path, tmp_path: Path) -> None:
    with _planted(mutant, copy):
        ended = _run(copy, mutant.tests, tmp_path)
    # 1 says that tests failed; 2 and more, that they could not be run.
    assert (ended.returncode, "\nFAILED " in ended.stdout) == (1, True), ended.stdout


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package."""
    folder = tmp_path_factory.mktemp("mutants")
    shutil.copytree(PACKAGE, folder / "scumble")
    return folder


@contextmanager
def _planted(mutant: Mutant, copy: Path) -> Iterator[None]:
    """A context in which the copy has the bug. Afterwards it is as it was, its time included."""
    file = copy / "scumble" / mutant.file
    source, times = file.read_text("utf-8"), file.stat()
    file.write_text(source.replace(mutant.old, mutant.new), "utf-8")
    try:
        yield
    finally:
        file.write_text(source, "utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _run(copy: Path, tests: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run tests on the copy. Compiled code is neither written beside it nor taken elsewhere."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(copy), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SCUMBLE_CACHE": str(folder / "cache"),
    }
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)],
        cwd=ROOT, env=environment, timeout=MOST_SECONDS,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}

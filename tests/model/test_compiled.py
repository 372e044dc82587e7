"""Loops are compiled at their first call, and once for each content of their source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scumble.model.compiled import cache_folder, is_trusted, kernel

CALLED = """
from scumble.model.compiled import kernel

FACTOR = {factor}

@kernel
def scale(number):
    return FACTOR * number
"""
CALLING = """
from called_kernels import scale
from scumble.model.compiled import kernel

@kernel
def total(numbers):
    found = 0
    for number in numbers:
        found += scale(number)
    return found
"""
PROGRAM = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import calling_kernels as loops
assert "numba" not in sys.modules
result = loops.total(np.arange(4))
print(result, sum(loops.total.compiled.stats.cache_hits.values()))
"""


def _run(folder: Path, cache: Path, factor: int = 2, umask: int = 0o022) -> str:
    """Return the sum of 0 to 3 times `factor`, and how many loops were found in the cache."""
    folder.mkdir(exist_ok=True)
    (folder / "called_kernels.py").write_text(CALLED.format(factor=factor), "utf-8")
    (folder / "calling_kernels.py").write_text(CALLING, "utf-8")
    environment = {**os.environ, "SCUMBLE_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, umask=umask)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@kernel
def _twice(number: int) -> int:
    """Return twice a number."""
    return 2 * number


@kernel
def _quadruple(number: int) -> int:
    return _twice(_twice(number))


def test_a_kernel_is_described_as_its_loop_and_calls_others() -> None:
    assert _twice.__name__ == "_twice"
    assert _twice.__module__ == __name__
    assert _twice.__doc__ == "Return twice a number."
    assert _quadruple(3) == 12
    assert _quadruple.compiled.nopython_signatures
    assert _quadruple(np.int64(3)) == _quadruple.function(3)


IMPORTED = """
import importlib.util, pkgutil, sys
import scumble
names = [each.name for each in pkgutil.walk_packages(scumble.__path__, "scumble.")]
files = {name: importlib.util.find_spec(name).origin for name in names}
names = [name for name in names if "\\n@kernel" in open(files[name], encoding="utf-8").read()]
for name in names:
    importlib.import_module(name)
print(len(names), "numba" in sys.modules)
"""


def test_importing_kernels_does_not_import_numba() -> None:
    command = [sys.executable, "-c", IMPORTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, imported = done.stdout.split()
    assert int(count) >= 8
    assert imported == "False"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({"SCUMBLE_CACHE": "/given"}, "/given"), ({"XDG_CACHE_HOME": "/caches"}, "/caches/scumble")],
)
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="other folders there")
def test_the_folder_of_the_cache(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCUMBLE_CACHE", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_compiled_code_is_found_by_the_content_of_its_sources(tmp_path: Path) -> None:
    """A change in the file of a called kernel is seen, and no folder is needed."""
    folder, cache = tmp_path / "installed", tmp_path / "cache"
    assert _run(folder, cache) == "12 0"
    assert _run(folder, cache) == "12 1"
    assert _run(folder, cache, factor=3) == "18 0"
    assert _run(folder, cache, factor=2) == "12 1"
    damaged = [*cache.rglob("*.nbc"), *cache.rglob("*.nbi")]
    assert len(damaged) == 8  # two loops in two folders
    for path in damaged:
        path.write_bytes(b"damaged")
    assert _run(folder, cache) == "12 0"
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder", "utf-8")
    assert _run(folder, blocked) == "12 0"


def test_no_other_folder_is_used_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    """numba would go on to the folder of the source, or to its own in the home of the user."""
    folder, cache = tmp_path / "installed", tmp_path / "cache"
    assert _run(folder, cache) == "12 0"
    for inner in cache.glob("*/*"):
        shutil.rmtree(inner)
        inner.write_text("a file, not a folder", "utf-8")
    assert [_run(folder, cache) for _ in range(2)] == ["12 0", "12 0"]
    assert not list(folder.rglob("*.nb?"))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owners and modes there")
def test_code_that_a_group_or_others_may_have_written_is_not_run(tmp_path: Path) -> None:
    """Whoever can write into the cache could let this user run anything."""
    folder, cache = tmp_path / "installed", tmp_path / "cache"
    assert _run(folder, cache, umask=0) == "12 0"
    inner = next(path for path in cache.iterdir() if any(path.rglob("*total*")))
    for each, others in ((cache, (0o720, 0o770, 0o702, 0o777)), (inner, (0o770, 0o755, 0o707))):
        assert each.stat().st_mode & 0o777 == 0o700
        assert _run(folder, cache) == "12 1"
        for mode in others:
            each.chmod(mode)
            before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
            assert _run(folder, cache) == "12 0"  # compiled again
            assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
        each.chmod(0o700)
    cache.chmod(0o755)  # a folder that the user made
    assert _run(folder, cache) == "12 1"


def test_only_folders_that_this_user_alone_writes_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(os, "getuid"):
        pytest.skip("folders have no owners there")
    for mode in (0o700, 0o755, 0o720, 0o702):
        tmp_path.chmod(mode)
        assert is_trusted(tmp_path) == (mode in (0o700, 0o755))
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_trusted(tmp_path)

"""Loops are compiled when that pays, and once for each content of their source."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scumble.model import compiled
from scumble.model.compiled import Kernel, cache_folder, kernel

MODULE = """
from scumble.model.compiled import kernel

@kernel
def twice(number):
    return {factor} * number

@kernel
def total(numbers):
    found = 0
    for number in numbers:
        found += twice(number)
    return found
"""
PROGRAM = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import looped_kernels as loops
result = loops.total(np.arange(4))
print(result, sum(loops.total.compiled.stats.cache_hits.values()))
"""


def _length(numbers: Any) -> int:
    return len(numbers)


def test_small_work_runs_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(compiled, "_compile", lambda _: lambda numbers: calls.append("compiled"))
    monkeypatch.setattr(compiled, "STARTING", 1e-6)
    monkeypatch.setattr(compiled, "LOADING", 1e-6)

    @kernel(numpy_form=lambda numbers: calls.append("numpy"), steps=_length, nanoseconds=10)
    def loop(numbers: Any) -> None:
        """Never run as Python."""

    loop(np.arange(99))  # 990 ns in all
    assert calls == ["numpy"]
    loop(np.arange(1))  # as much as compiling
    loop(np.arange(1))
    assert calls == ["numpy", "compiled", "compiled"]
    compiled._ALL.remove(loop)


def test_large_work_is_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_compile", lambda _: lambda numbers: "compiled")

    @kernel(numpy_form=lambda numbers: "numpy", steps=lambda numbers: 1 << 60)
    def loop(numbers: Any) -> str:
        return "python"

    assert loop(np.arange(3)) == "compiled"
    compiled._ALL.remove(loop)


def test_without_steps_the_calls_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.02, 1.0, 1.09])  # 0.02 s, then 0.09: together more than LOADING
    monkeypatch.setattr(compiled, "_compile", lambda _: lambda: "compiled")
    monkeypatch.setattr(compiled, "STARTING", compiled.LOADING)
    monkeypatch.setattr(compiled.time, "perf_counter", lambda: next(clock))

    @kernel(numpy_form=lambda: "numpy")
    def loop() -> str:
        return "python"

    assert [loop(), loop(), loop()] == ["numpy", "numpy", "compiled"]
    compiled._ALL.remove(loop)


@kernel(numpy_form=lambda number: number + 1)
def _raised(number: int) -> int:
    raise AssertionError("has a numpy form")


@kernel
def _twice(number: int) -> int:
    return 2 * _raised(number)


@kernel(uncompiled=True)
def _total(numbers: Any) -> int:
    return sum(_twice(number) for number in numbers)


def test_an_uncompiled_loop_calls_numpy_forms_and_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(loop: Kernel[..., Any]) -> None:
        raise AssertionError(f"{loop.__name__} is compiled")

    monkeypatch.setattr(compiled, "_compile", refuse)
    assert _total([1, 2]) == 10
    assert _twice.numpy_form is None


FACTOR = 3


@kernel
def _scaled(number: int) -> int:
    return FACTOR * number


def test_compiled_code_depends_on_the_constants_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant may come from a file without a kernel, which is not hashed."""
    before = compiled._digest(_scaled)
    monkeypatch.setitem(globals(), "FACTOR", 4)
    assert compiled._digest(_scaled) != before


def test_a_kernel_is_described_as_its_loop() -> None:
    from scumble.private.sampling.kernels import lookup

    assert isinstance(lookup, Kernel)
    assert lookup.__name__ == "lookup"
    assert lookup.__module__ == "scumble.private.sampling.kernels"
    assert lookup.__doc__ is not None


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


def test_compiled_code_is_found_by_the_content_of_its_source(tmp_path: Path) -> None:
    """Another file time keeps it, another source does not, and no folder is needed."""

    def run(factor: int, cache: Path) -> str:
        home = tmp_path / "installed"
        home.mkdir(exist_ok=True)
        source = home / "looped_kernels.py"
        source.write_text(MODULE.format(factor=factor), "utf-8")
        os.utime(source, (factor * 1000 + len(os.listdir(tmp_path)),) * 2)
        environment = {**os.environ, "SCUMBLE_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-W", "error", "-c", PROGRAM, str(home)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    cache = tmp_path / "cache"
    assert run(2, cache) == "12 0"
    (tmp_path / "another").mkdir()  # another time of the source
    assert run(2, cache) == "12 1"
    assert run(3, cache) == "18 0"
    for path in cache.rglob("*.nbc"):
        path.write_bytes(b"damaged")
    assert run(2, cache) == "12 0"
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder", "utf-8")
    assert run(2, blocked) == "12 0"
    cache.chmod(0o777)  # others could have written the code
    assert run(2, cache) == "12 0"


BLAS = """
import sys
import numba
import numpy as np
from scumble.private.tables.persons import kernels

kernels.rehash_texts(np.zeros(2, np.int64), np.zeros(4, np.int64))
print("numba.np.arraymath" in sys.modules, "scipy.linalg" in sys.modules)
eye = np.eye(3)
print(numba.njit(lambda a, b: np.dot(a, b))(eye, eye).sum(), "scipy.linalg" in sys.modules)
from numba.np import arraymath, linalg
print(arraymath._HAVE_BLAS, arraymath.ensure_blas is linalg.ensure_blas)
"""


def test_numba_starts_without_linear_algebra_and_has_it_when_needed() -> None:
    done = subprocess.run([sys.executable, "-c", BLAS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "3.0", "True", "True", "True"]

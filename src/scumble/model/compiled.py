"""Loops that numba compiles, and when: the one place through which compiled code is reached.

A loop is a function in a file of kernels, decorated by `kernel`. Importing such a file is cheap:
numba is imported when a loop is first compiled. A loop on a path that people wait for has a *numpy
form*, a function of the same parameters that leaves the same results from the same bits. It runs
until it has cost, in this process, as much as numba costs to start; then the loop is compiled, or
read from the cache, and runs from there on. So the total time is at most about twice the best
possible, and small work never waits for a compiler. A loop that mostly calls other kernels needs no
second text: *uncompiled*, it runs as it is written, on the numpy forms of what it calls.

    @kernel(numpy_form=_lookup, steps=lambda prefixes, *_: len(prefixes), nanoseconds=5)
    def lookup(prefixes, table, ambiguous, out, pending): ...

    @kernel(uncompiled=True)
    def split(index, boxes, ...): ...

Compiled code is kept in the user's cache folder (`cache_folder`), by the content of the source and
by the versions of numba, llvmlite, numpy and Python, so that installing anew loses nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

P = ParamSpec("P")
R = TypeVar("R")

# Processor seconds to import numba and read one loop from the cache (0.34 measured; 0.65 where it
# is compiled), and for a further loop (0.01 to read it, 0.19 to compile a short one), measured on
# the machine on which the `nanoseconds` of the kernels were measured.
STARTING = 0.35
LOADING = 0.1

_lock = threading.RLock()


class Kernel(Generic[P, R]):
    """A loop that is compiled when that pays.

    `function` is the loop as Python source, `numpy_form` the same without a compiler (or None: the
    loop is compiled at its first call, unless `uncompiled` lets its source run as it is). `steps`
    returns how many elements a call works on, and `nanoseconds` is what the numpy form takes for
    one of them beyond the compiled loop. Without `steps` the calls are timed.
    """

    def __init__(
        self,
        function: Callable[P, R],
        numpy_form: Callable[P, R] | None,
        steps: Callable[..., int] | None,
        nanoseconds: float,
        fastmath: set[str] | None,
        uncompiled: bool,
    ) -> None:
        self.function = function
        self._numpy_form = numpy_form
        self._uncompiled = uncompiled
        self._steps = steps
        self._seconds = nanoseconds * 1e-9
        self._fastmath = fastmath
        self._spent = 0.0
        self._dispatcher: Any = None
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__qualname__ = function.__qualname__
        _ALL.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._dispatcher is not None:
            return cast(R, self._dispatcher(*args, **kwargs))
        form = self.numpy_form
        if form is None or not self._is_small(*args, **kwargs):
            return cast(R, self.compiled(*args, **kwargs))
        if self._steps is not None:
            return form(*args, **kwargs)
        begin = time.perf_counter()
        found = form(*args, **kwargs)
        self._spent += time.perf_counter() - begin
        return found

    def _is_small(self, *args: Any, **kwargs: Any) -> bool:
        """Whether the work of all calls, with this one, costs less than compiling."""
        if self._steps is not None:
            self._spent += self._steps(*args, **kwargs) * self._seconds
        return self._spent < (LOADING if "numba" in sys.modules else STARTING)

    @property
    def numpy_form(self) -> Callable[P, R] | None:
        """The loop without a compiler, if it may run so."""
        if self._numpy_form is None and self._uncompiled:
            self._numpy_form = self.plain
        return self._numpy_form

    @property
    def plain(self) -> Callable[P, R]:
        """The loop as Python code, on the numpy forms, or the Python code, of what it calls."""
        forms = {name: each.numpy_form or each.plain for name, each in _called(self)}
        return cast(Callable[P, R], _bound(self, forms))

    @property
    def compiled(self) -> Any:
        """The loop as compiled by numba."""
        if self._dispatcher is None:
            with _lock:
                if self._dispatcher is None:
                    self._dispatcher = _compile(self)
        return self._dispatcher


_ALL: list[Kernel[..., Any]] = []


def kernels() -> list[Kernel[..., Any]]:
    """Return all kernels of the modules that have been imported."""
    return list(_ALL)


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...
@overload
def kernel(
    *,
    numpy_form: Callable[..., Any] | None = None,
    steps: Callable[..., int] | None = None,
    nanoseconds: float = 5,
    fastmath: set[str] | None = None,
    uncompiled: bool = False,
) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
def kernel(
    function: Callable[P, R] | None = None,
    /,
    *,
    numpy_form: Callable[..., Any] | None = None,
    steps: Callable[..., int] | None = None,
    nanoseconds: float = 5,
    fastmath: set[str] | None = None,
    uncompiled: bool = False,
) -> Any:
    """Make a loop a `Kernel`; see there for the parameters.

    `fastmath` lists the liberties that numba may take with floating-point sums.
    """

    def decorate(loop: Callable[P, R]) -> Kernel[P, R]:
        return Kernel(loop, numpy_form, steps, nanoseconds, fastmath, uncompiled)

    return decorate if function is None else decorate(function)


# --- compiling -----------------------------------------------------------------------------------


def _compile(loop: Kernel[..., Any]) -> Any:
    """Return numba's dispatcher of a loop, in whose globals other kernels are dispatchers too."""
    import numba

    _start_without_blas()
    copy = _bound(loop, {name: each.compiled for name, each in _called(loop)})
    made = numba.njit(nogil=True, fastmath=loop._fastmath or False)(copy)
    _keep(made, copy, _digest(loop))
    return made


def _start_without_blas() -> None:
    """Let numba start without importing `scipy.linalg`, which takes a third of the time.

    It imports it only to see whether scipy has BLAS, which every scipy that scumble allows has. A
    loop that needs BLAS, of scumble or of others, still imports it when it is compiled.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    with suppress(ImportError, AttributeError):  # another numba may have other modules
        from numba.np import linalg

        ensure = linalg.ensure_blas
        linalg.ensure_blas = lambda: None
        try:
            from numba.np import arraymath

            vars(arraymath)["ensure_blas"] = ensure
        finally:
            linalg.ensure_blas = ensure


def _bound(loop: Kernel[..., Any], names: Mapping[str, Any]) -> Any:
    """Return a copy of the function of a loop with other values for some of its globals."""
    function = cast(FunctionType, loop.function)
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _called(loop: Kernel[..., Any]) -> Iterator[tuple[str, Kernel[..., Any]]]:
    """Return the kernels that a loop names, each with the name."""
    function = cast(FunctionType, loop.function)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, Kernel):
            yield name, value


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _digest(loop: Kernel[..., Any]) -> str:
    """Return a hash of the source files of a loop and of all that it calls, and of versions.

    Compiled code holds the values of constants, which may come from files without a kernel.
    """
    import llvmlite
    import numba
    import numpy as np

    modules: dict[str, ModuleType] = {}
    constants: set[str] = set()

    def visit(each: Kernel[..., Any]) -> None:
        modules[each.__module__] = sys.modules[each.__module__]
        constants.update(_constants(each))
        for _, other in _called(each):
            if other is not each:
                visit(other)

    visit(loop)
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    found = hashlib.sha256("\0".join([*versions, *sorted(constants)]).encode())
    for _, module in sorted(modules.items()):
        found.update(Path(str(module.__file__)).read_bytes())
    return found.hexdigest()[:16]


def _constants(loop: Kernel[..., Any]) -> Iterator[str]:
    """Return the numbers and texts among the globals that a loop names, with their names."""
    function = cast(FunctionType, loop.function)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, (int, float, str)):
            yield f"{name}={value!r}"


# --- the cache of compiled code ------------------------------------------------------------------


def cache_folder() -> Path:
    """Return the user's folder for compiled code; SCUMBLE_CACHE replaces it."""
    given = os.environ.get("SCUMBLE_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        home = str(Path.home() / "Library" / "Caches")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "scumble"


def is_trusted(folder: Path) -> bool:
    """Return whether only this user writes into a folder: compiled code is trusted when it is
    read, and somebody else's would run as this user.
    """
    found = folder.stat()
    return not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and not found.st_mode & stat.S_IWOTH
    )


def _keep(dispatcher: Any, function: FunctionType, digest: str) -> None:
    """Let a dispatcher keep its code in the cache folder.

    Without a folder that is trusted and can be written, each process compiles for itself.
    """
    import numba.core.caching

    caching: Any = numba.core.caching

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def get_cache_path(self) -> str:
            return str(cache_folder() / f"{function.__module__}-{digest}")

        def get_source_stamp(self) -> str:
            return digest

        def get_disambiguator(self) -> str:
            return str(function.__code__.co_firstlineno)

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            return cls()

    class Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (Locator,)

    class CodeCache(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Implementation

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # whatever a damaged file leads to: it is replaced
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):  # such as a full disk
                super().save_overload(sig, data)

    try:
        path = cache_folder()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_trusted(path):
            return
        Locator().ensure_cache_path()
        dispatcher._cache = CodeCache(function)
    except OSError:
        return

"""Long work: how far it is, and Ctrl-C while numpy or DuckDB works.

A loop calls `tell` whether somebody listens or not, so that functions need no parameter for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from threading import Event, Thread
from typing import TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")
Listener = Callable[[float], None]
_left = Event()  # work that nobody waits for any more
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_NOTHING = nullcontext()
_MOMENT = 0.2  # seconds


def tell(done: float, total: float) -> None:
    """Say that `done` of `total` steps of the work are done."""
    listener = _listener.get()
    if listener is not None:
        listener(done / total if total else 1.0)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` with the share of the work that is done, 0 to 1, inside the block.

    It only grows: work that begins anew, such as a second pass, is not told before it is further.
    """
    reached = -1.0

    def tell_more(share: float) -> None:
        nonlocal reached
        if share >= reached:
            reached = share
            listener(share)

    before = _listener.set(tell_more)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def portion(begin: float, end: float) -> Iterator[None]:
    """Make the work inside the block the part from `begin` to `end` of the work around it."""
    outer = _listener.get()
    if outer is None:
        yield
        return
    with listening(lambda share: outer(begin + (end - begin) * share)):
        yield
    outer(end)


def part(number: int, total: int) -> AbstractContextManager[None]:
    """Make the work inside the block one of `total` equal parts of the work around it."""
    if _listener.get() is None:
        return _NOTHING  # quicker, for loops over many small parts
    return portion(number / total, (number + 1) / total)


def told(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items, and tell how many of them are done."""
    for done, item in enumerate(items, 1):
        yield item
        tell(done, len(items))


def aside(work: Callable[[], Result]) -> Result:
    """Return what `work` returns, which another thread does: Ctrl-C ends the wait at once, and the
    thread ends with the program.

    Python hears Ctrl-C between the calls of the main thread, and one call of numpy for millions of
    rows can take seconds. Not for work that writes files.
    """
    from concurrent.futures import Future, wait

    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=copy_context().run, args=(run,), daemon=True).start()
    try:
        # Python does not hear Ctrl-C that comes just before it waits; so it wakes up now and then.
        while not wait([future], _MOMENT).done:
            pass
        return future.result()
    finally:
        if not future.done():
            _left.set()


def work_is_left() -> bool:
    """Whether a thread may still do work that was interrupted."""
    return _left.is_set()


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for a statement of DuckDB inside that Ctrl-C has stopped.

    DuckDB replaces the exception of the signal by a `RuntimeError` or its `InterruptException`.
    Nothing but Ctrl-C may interrupt the statement: other reasons are told from it further inside.
    """
    try:
        yield
    except Exception as error:
        if not _stopped(error):
            raise
        raise KeyboardInterrupt from None


def _stopped(error: Exception) -> bool:
    if type(error) is RuntimeError:
        return "interrupted" in str(error).lower()
    return type(error).__name__ == "InterruptException"

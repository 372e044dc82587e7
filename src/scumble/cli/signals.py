"""Signals: how a command ends when the system or the user asks it to stop.

Temporary folders may hold private rows. Context managers remove them, so a signal must unwind the
stack instead of killing the process. SIGTERM and SIGHUP therefore raise `SystemExit`, as SIGINT
(Ctrl-C) raises `KeyboardInterrupt`. Some libraries swallow every exception while they are imported;
the exception is then raised again, until `interrupt_handled` says that it was meant to be caught.
Others, such as DuckDB, end the process: while a compiled module is loaded, nothing is raised.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType

STOPPED = "Stopped. Nothing was left half-written."
_SIGNALS = ("SIGTERM", "SIGHUP")
_pending = threading.Event()  # Ctrl-C was pressed, and nothing has caught it on purpose
_ended_by: list[int] = []  # the signals of others that have arrived
_RETRY_SECONDS = 0.5  # if the program has not ended after this time, the exception was swallowed
_LOADING_SECONDS = 0.02  # until it is looked again whether a compiled module is loaded


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise `SystemExit(128 + number)` inside the block when SIGTERM or SIGHUP arrives.

    SIGINT raises `KeyboardInterrupt`. A signal that the parent process told this one to ignore, as
    nohup does, stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    for name in _SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)
    before = sys.unraisablehook

    def report(found: sys.UnraisableHookArgs) -> None:
        """Report an exception that a callback swallowed, unless a signal raises it again."""
        if not isinstance(found.exc_value, KeyboardInterrupt | SystemExit):
            before(found)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = before
        interrupt_handled()
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_handled() -> None:
    """Say that the exception of a signal was caught on purpose: it is not raised again."""
    _pending.clear()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def interrupted() -> bool:
    """Whether the command is ending because of a signal.

    A library that is stopped while it is imported can fail by any exception.
    """
    return _pending.is_set() or bool(_ended_by)


def exit_code() -> int:
    """Return the exit code of a command that was stopped: 130 for Ctrl-C, 143 for SIGTERM.

    What stops a statement of DuckDB becomes `KeyboardInterrupt`, whichever signal it was.
    """
    return 128 + (_ended_by or [signal.SIGINT])[0]


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C inside the block, such as while the results so far are written.

    Outside the main thread, where Python sets no signal handlers, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _exit(number: int, frame: FrameType | None) -> None:
    """Handle a signal: raise `SystemExit`, and raise it again until the stack is being unwound."""
    _ended_by.append(number)
    _raise_until_unwound(SystemExit(128 + number), frame)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C: raise `KeyboardInterrupt` in the same way."""
    _pending.set()
    _raise_until_unwound(KeyboardInterrupt(), frame)


def _raise_until_unwound(error: BaseException, frame: FrameType | None) -> None:
    if not hasattr(signal, "setitimer"):
        raise error

    def retry(_: int, frame: FrameType | None) -> None:
        """Raise the error again unless cleanup code is running because of it."""
        if _waits(frame) or _has_cause(sys.exc_info()[1], type(error)):
            return
        raise error

    signal.signal(signal.SIGALRM, retry)
    if not _waits(frame):
        raise error


def _waits(frame: FrameType | None) -> bool:
    """Set the timer of the next attempt; return whether a compiled module is loaded just now."""
    loading = _is_loading(frame)
    signal.setitimer(signal.ITIMER_REAL, _LOADING_SECONDS if loading else _RETRY_SECONDS)
    return loading


def _is_loading(frame: FrameType | None) -> bool:
    """Return whether the code that was interrupted is called by a compiled module being loaded."""
    while frame is not None:
        if frame.f_code.co_name in ("create_module", "exec_module") and isinstance(
            frame.f_locals.get("self"), ExtensionFileLoader
        ):
            return True
        frame = frame.f_back
    return False


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether `error` is of a kind, or was raised while such a one was being handled.

    Readers raise an exception of the same kind for that of a library.
    """
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None

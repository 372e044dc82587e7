"""Signals: how a command ends when the system or the user asks it to stop.

Temporary folders may hold private rows. Context managers remove them, so a signal must unwind the
stack instead of killing the process. SIGTERM and SIGHUP therefore raise `SystemExit`, as SIGINT
(Ctrl-C) raises `KeyboardInterrupt`. Some libraries swallow every exception while they are imported;
the exception is then raised again.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = ("SIGTERM", "SIGHUP")
_RETRY_SECONDS = 0.5  # if the program has not ended after this time, the exception was swallowed


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise `SystemExit(128 + number)` inside the block when SIGTERM or SIGHUP arrives.

    A signal that the parent process told this one to ignore, as nohup does, stays ignored.
    """
    for name in _SIGNALS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


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


def _exit(number: int, _: FrameType | None) -> None:
    """Handle a signal: raise `SystemExit`, and raise it again until the stack is being unwound."""
    exit_error = SystemExit(128 + number)
    if not hasattr(signal, "setitimer"):
        raise exit_error

    def retry(_: int, __: FrameType | None) -> None:
        """Raise the error again unless cleanup code is running because of it."""
        signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS)
        if not _has_cause(sys.exc_info()[1], exit_error):
            raise exit_error

    signal.signal(signal.SIGALRM, retry)
    signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS)
    raise exit_error


def _has_cause(error: BaseException | None, first: BaseException) -> bool:
    """Return whether `error` is `first`, or was raised while `first` was being handled."""
    while error is not None and error is not first:
        error = error.__context__
    return error is first

"""An orderly end when a signal asks for it, so that temporary folders, which may hold private rows,
go too.

The end is an exception that is raised wherever the program is. Some libraries swallow any exception
while they are imported; then it is raised again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = ("SIGTERM", "SIGHUP")
_PAUSE = 0.5  # seconds, after which an exception that nothing has come of was swallowed


@contextmanager
def orderly() -> Iterator[None]:
    """In here the program ends in an orderly way if another program, or the end of its terminal,
    asks for it. A signal that is kept away, as nohup does, stays away.
    """
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


def _end(number: int, _: FrameType | None) -> None:
    ended = SystemExit(128 + number)
    if not hasattr(signal, "setitimer"):
        raise ended

    def insist(_: int, __: FrameType | None) -> None:
        """Raise it again, unless what is between its place and the beginning is being tidied up."""
        signal.setitimer(signal.ITIMER_REAL, _PAUSE)
        if not _leads_to(sys.exc_info()[1], ended):
            raise ended

    signal.signal(signal.SIGALRM, insist)
    signal.setitimer(signal.ITIMER_REAL, _PAUSE)
    raise ended


def _leads_to(error: BaseException | None, first: BaseException) -> bool:
    """Whether an exception is another one, or came up while that was on its way."""
    while error is not None and error is not first:
        error = error.__context__
    return error is first

"""Starting processes so that only this one hears Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes with SIGINT blocked.

    A terminal sends Ctrl-C to all processes, and only the parent handles it. The parent does so
    when all processes are started, so that none is left half started.
    """
    resource_tracker.ensure_running()  # before: starting it would unblock the signal
    heard: list[int] = []
    first = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda *_: heard.append(1)) if first else None
    masks = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
    if heard:
        raise KeyboardInterrupt

"""Interrupts: Ctrl-C while DuckDB works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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

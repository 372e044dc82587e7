"""Imports of pandas by libraries that only want to see that a value is no data frame of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class WithoutPandas:
    """An import hook for a process that handles no data frame: pandas is not found.

    Arrow and DuckDB import pandas, where it is installed, only to see that a value is no data frame
    of it, which takes longer than most commands.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other hooks."""
        if name == "pandas":
            raise ModuleNotFoundError("No command needs pandas.", name=name)


@contextmanager
def no_pandas() -> Iterator[None]:
    """Let pandas not be found inside the block. What looks for it only once goes without it."""
    hook = WithoutPandas()
    sys.meta_path.insert(0, hook)
    try:
        yield
    finally:
        sys.meta_path.remove(hook)

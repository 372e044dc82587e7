"""Frames: answers as tables of Arrow, pandas and polars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from scumble.model.errors import ScumbleError

if TYPE_CHECKING:
    import pandas
    import polars

LEVEL = 0.95


class Frames(ABC):
    """What `to_arrow` returns, as data frames of other packages."""

    @abstractmethod
    def to_arrow(self, level: float = LEVEL) -> pa.Table:
        """Return the answer as an Arrow table, with intervals at `level`."""

    def to_pandas(self, level: float = LEVEL) -> pandas.DataFrame:
        """Return the answer as a data frame of pandas, with intervals at `level`."""
        try:
            frame: pandas.DataFrame = self.to_arrow(level).to_pandas()
        except ModuleNotFoundError:
            raise _not_installed("pandas") from None
        return frame

    def to_polars(self, level: float = LEVEL) -> polars.DataFrame:
        """Return the answer as a data frame of polars, with intervals at `level`."""
        try:
            import polars
        except ModuleNotFoundError:
            raise _not_installed("polars") from None
        frame: polars.DataFrame = polars.DataFrame(polars.from_arrow(self.to_arrow(level)))
        return frame


def _not_installed(package: str) -> ScumbleError:
    """Return the error for a data frame of a package that is not there."""
    sentence = f"to_{package}() needs {package}, which is not installed: use to_arrow()."
    return ScumbleError(sentence)

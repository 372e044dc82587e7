"""A Spark DataFrame as a source: it is computed once, into private files that are the units.

The plan of a DataFrame can give its rows in another order whenever it is run, and noise is drawn
for rows in an order. So Spark writes the rows to Parquet files in the staging folder first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from scumble.model.errors import SourceError
from scumble.private.engines import spark_wait
from scumble.private.engines.staging import StagingFolder
from scumble.private.tables import source
from scumble.private.tables.files import ParquetFiles
from scumble.private.tables.source import Source, Unit, check_distinct


class SparkFrame(Source):
    """The rows of a DataFrame. Of its columns, those of `wanted` are written."""

    description = "The Spark DataFrame"

    def __init__(self, frame: Any, wanted: Iterable[str], staging: StagingFolder) -> None:
        self.columns = check_distinct(self.description, frame.columns)
        self._frame, self._wanted, self._staging = frame, set(wanted), staging

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of the files."""
        self.require(columns)
        return self._files.batches(columns)

    def unit_batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches of the files."""
        self.require(columns)
        return self._files.unit_batches(columns)

    def units(self) -> list[Unit] | None:
        """Return the units of the files: each has at most the rows of one unit."""
        return self._files.units()

    @cached_property
    def _files(self) -> ParquetFiles:
        """Run the plan, and write its rows."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        folder = self._staging.path / "rows"
        names = [name for name in self.columns if name in self._wanted]
        chosen = self._frame.select(*("`" + name.replace("`", "``") + "`" for name in names))
        written = chosen.write.option("maxRecordsPerFile", source.UNIT_ROWS)
        context = self._frame.sparkSession.sparkContext

        def write() -> bool:
            try:
                written.parquet(folder.as_uri())
            except (PySparkException, Py4JJavaError):  # may quote values, and is not kept
                if spark_wait.java_ended(context):
                    raise
                return False
            return True

        if not spark_wait.answer_of(context, spark_wait.JavaSigns(), write):
            raise SourceError(
                f"{self.description} cannot be computed. The message of Spark may quote values: "
                "frame.count() shows it."
            )
        return ParquetFiles(self.description, sorted(folder.glob("*.parquet")))

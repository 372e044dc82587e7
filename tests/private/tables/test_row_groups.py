"""Parquet files put together from row groups: byte for byte what one writer writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scumble.private.tables.sorting.row_groups import RowGroupFile

ROWS = 4000


def table() -> pa.Table:
    """Columns of every type that a release has, with nulls and with more than 15 columns."""
    random = np.random.default_rng(5)
    numbers = random.integers(-(2**40), 2**40, ROWS)
    words = pa.DictionaryArray.from_arrays(random.integers(0, 3, ROWS).astype("i1"), ["a", "é", ""])
    columns = {
        "number": pa.array(numbers, mask=random.random(ROWS) < 0.1),
        "word": words,
        "truth": pa.array(random.random(ROWS) < 0.5),
        "share": pa.array(random.random(ROWS)),
        "day": pa.array(random.integers(0, 20_000, ROWS).astype("i4")).cast(pa.date32()),
        "nothing": pa.nulls(ROWS, pa.int64()),
    }
    return pa.table({**columns, **{f"more {n}": pa.array(numbers // 7**n) for n in range(12)}})


def written(path: Path, pieces: list[pa.Table], **options) -> Path:
    with pq.ParquetWriter(path, pieces[0].schema, store_schema=False, **options) as writer:
        for piece in pieces:
            writer.write_table(piece)
    return path


@pytest.mark.parametrize("compression", ["snappy", "zstd", "none"])
@pytest.mark.parametrize("sizes", [[ROWS], [1, 3999], [100] * 40, [1500, 1500, 1000]])
def test_the_file_is_that_of_one_writer(sizes, compression, tmp_path) -> None:
    whole, starts = table(), np.cumsum([0, *sizes])
    pieces = [whole.slice(start, size) for start, size in zip(starts, sizes, strict=False)]
    one = written(tmp_path / "one", pieces, compression=compression)
    with RowGroupFile(tmp_path / "joined") as file:
        for number in range(0, len(pieces), 2):  # two row groups at a time
            part = pieces[number : number + 2]
            file.add(written(tmp_path / "part", part, compression=compression))
    assert (tmp_path / "joined").read_bytes() == one.read_bytes()
    assert pq.read_table(tmp_path / "joined").equals(pq.read_table(one))


def test_an_error_leaves_no_file(tmp_path) -> None:
    def fail() -> None:
        with RowGroupFile(tmp_path / "joined") as file:
            file.add(written(tmp_path / "part", [table()]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not (tmp_path / "joined").exists()

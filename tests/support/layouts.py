"""Whether the files of a release have the columns that its mechanism states."""

from __future__ import annotations

import pyarrow.parquet as pq

import scumble as sc
from scumble.private.mechanism import Layout
from scumble.public.manifest import FILES

# Of mechanisms that state nothing, whatever the schema is.
_FIXED = {"cells", "count", "entries", "items", "law", "noisy", "number"}


def assert_layout(release: sc.Release, layout: Layout) -> None:
    columns = {file: pq.read_schema(release.folder / file).names for file in release.evidence.files}
    assert set(columns) <= set(FILES), "force replaces a folder of such files"
    if not layout:
        [names] = columns.values()
        assert set(names) <= _FIXED
        return
    stated = {
        file: [each if isinstance(each, str) else each.name for each in found]
        for file, found in layout.items()
    }
    assert stated == columns

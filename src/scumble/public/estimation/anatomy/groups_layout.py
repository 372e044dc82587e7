"""Layout: rows and values of a release side by side, group by group; held in memory while the
release is asked about.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from scumble.model.errors import ReleaseError
from scumble.model.evidence.evidence import Groups
from scumble.model.schema.schema import Schema
from scumble.public.estimation.anatomy.groups_side import Side
from scumble.public.sandbox import Engine

_known: WeakKeyDictionary[Engine, Layout] = WeakKeyDictionary()


def layout(evidence: Groups, schema: Schema, engine: Engine) -> Layout:
    """The layout of the release of this engine; read when it is first needed."""
    if engine not in _known:
        _known[engine] = Layout(evidence, schema, engine)
    return _known[engine]


class Layout:
    """Groups numbered from 0 on: their rows, their values, how often each value, and their size."""

    def __init__(self, evidence: Groups, schema: Schema, engine: Engine) -> None:
        if engine.view is None:
            raise ReleaseError("The release has no published rows.")
        values = engine.view.with_name(evidence.values)
        self.rows = Side(engine.view, "view", schema, evidence.group)
        self.values = Side(values, '"values"', schema, evidence.group)
        self.counts = self.values.numbers(evidence.count)
        self.sizes, lines = np.diff(self.rows.starts), np.diff(self.values.starts)
        if len(self.sizes) != len(lines):
            raise ReleaseError("The published tables do not have the same groups.")
        # The different sizes, and which of them a group has.
        self.sorts, self.sort = np.unique(self.sizes, return_inverse=True)
        self.most_rows, self.most_lines = (int(each.max(initial=0)) for each in (self.sizes, lines))
        of_groups = np.add.reduceat(self.counts, self.values.starts[:-1])  # or more, if it has none
        self.most_values = int(of_groups.max(initial=0))

    @property
    def groups(self) -> int:
        return len(self.sizes)

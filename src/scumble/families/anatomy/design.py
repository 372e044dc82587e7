"""Groups: rows without their sensitive values, which are published by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scumble.model import stored
from scumble.model.evidence.evidence import Evidence


@dataclass(frozen=True)
class Groups(Evidence):
    """True rows with the number of their group in the column `group`; and, in the second file
    `values`, the sensitive values of each group: the columns `group`, the attributes `sensitive`,
    and how often each value occurs in `count`.
    """

    kind: ClassVar[str] = "groups"

    file: str
    values: str
    columns: tuple[str, ...]  # of the rows, and the sensitive ones
    sensitive: tuple[str, ...]
    group: str
    count: str
    rows: int
    complete: bool = True  # False: rows with too frequent values were left out
    left_out: int | None = None  # their number; None if it was not published

    @property
    def main_promises(self) -> frozenset[str]:
        return frozenset({"l-diversity"})

    @property
    def left_to_audit(self) -> frozenset[str]:
        return self.main_promises

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The columns that are published as they are."""
        return tuple(name for name in self.columns if name not in self.sensitive)

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, self.values)

    @property
    def missing(self) -> float:
        """The number of rows that were left out; infinite if it was not published."""
        if self.complete:
            return 0.0
        return float("inf") if self.left_out is None else float(self.left_out)

    def to_dict(self) -> dict[str, Any]:
        known = {} if self.left_out is None else {"left_out": self.left_out}
        return {
            "kind": self.kind,
            "file": self.file,
            "values": self.values,
            "columns": list(self.columns),
            "sensitive": list(self.sensitive),
            "group": self.group,
            "count": self.count,
            "rows": self.rows,
            "complete": self.complete,
            **known,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Groups:
        return cls(
            stored.data_file(data["file"]),
            stored.data_file(data["values"]),
            stored.items(stored.text, data["columns"]),
            stored.items(stored.text, data["sensitive"]),
            stored.text(data["group"]),
            stored.text(data["count"]),
            stored.whole(data["rows"]),
            stored.flag(data["complete"]),
            None if data.get("left_out") is None else stored.whole(data["left_out"]),
        )

"""Evidence: the only data that pass from mechanisms to estimators.

| kind         | content                                                                  |
|--------------|--------------------------------------------------------------------------|
| Records      | true rows, except for columns that went through a known channel          |
| Tuples       | whole tuples, true and false, with their inclusion probabilities         |
| Groups       | true rows without their sensitive values, which are published by group   |
| Generalised  | true rows, in which groups of values stand for some values               |
| Measurements | noisy linear counts of cells, with their design and the law of the noise |
| Synthetic    | rows drawn at random by a known law, and the strata they were drawn in   |

Each kind names its Parquet files inside the release folder and holds the public facts that an
estimator needs to read them. `added` are columns that the mechanism made; questions may use them
like any other column. `unchanged` are the columns that are published as they are, or None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from scumble.model import stored
from scumble.model.designs.registry import Design, design_from_dict
from scumble.model.evidence.generalised import Generalised
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange

if TYPE_CHECKING:  # a release has one of these kinds; the others need not be imported
    from scumble.model.designs.sparse import Sparse
    from scumble.model.evidence.channels import Channel
    from scumble.model.evidence.parts import Parts
    from scumble.model.evidence.presence import Presence


@dataclass(frozen=True)
class Records:
    """Published rows: true in every column except those that went through a channel."""

    kind: ClassVar[str] = "records"

    file: str
    columns: tuple[str, ...]
    channels: tuple[Channel, ...]
    rows: int

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,)

    @cached_property
    def perturbed(self) -> tuple[str, ...]:
        """The attributes that went through a channel, in order."""
        return tuple(name for each in self.channels for name in each.attributes)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The columns that are published as they are."""
        hidden = {*self.perturbed, *(attribute.name for attribute in self.added)}
        return tuple(name for name in self.columns if name not in hidden)

    @property
    def added(self) -> tuple[Attribute, ...]:
        from scumble.model.evidence.channels import PartitionChannel

        split = [each for each in self.channels if isinstance(each, PartitionChannel)]
        return tuple(_numbered(each.column, len(each.domains)) for each in split)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "channels": [each.to_dict() for each in self.channels],
            "rows": self.rows,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Records:
        from scumble.model.evidence.channels import channel_from_dict

        channels = tuple(map(channel_from_dict, data["channels"]))
        return cls(_file(data["file"]), _names(data), channels, stored.whole(data["rows"]))


@dataclass(frozen=True)
class Tuples:
    """True and false tuples of the product of `columns`; `presence` has their inclusion
    probabilities.
    """

    kind: ClassVar[str] = "tuples"
    unchanged: ClassVar[None] = None  # true rows are among false ones
    added: ClassVar[tuple[Attribute, ...]] = ()

    file: str
    columns: tuple[str, ...]
    presence: Presence

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,)

    @property
    def rows(self) -> int:
        """The number of true rows, which is public since the probabilities depend on it."""
        return self.presence.rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "presence": self.presence.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tuples:
        from scumble.model.evidence.presence import presence_from_dict

        return cls(_file(data["file"]), _names(data), presence_from_dict(data["presence"]))


@dataclass(frozen=True)
class Groups:
    """True rows with the number of their group in the column `group`; and, in the second file
    `values`, the sensitive values of each group: the columns `group`, the attributes `sensitive`,
    and how often each value occurs in `count`.
    """

    kind: ClassVar[str] = "groups"
    added: ClassVar[tuple[Attribute, ...]] = ()

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
            _file(data["file"]),
            _file(data["values"]),
            _names(data),
            stored.items(stored.text, data["sensitive"]),
            stored.text(data["group"]),
            stored.text(data["count"]),
            stored.whole(data["rows"]),
            stored.flag(data["complete"]),
            None if data.get("left_out") is None else stored.whole(data["left_out"]),
        )


@dataclass(frozen=True)
class Measurements:
    """Noisy integers about the cells of the product of `columns`; `design` describes the sum of
    counts that each number measures, and its noise.

    `rows` is the exact number of rows, where neighbouring tables have equally many; else None.
    """

    kind: ClassVar[str] = "measurements"
    unchanged: ClassVar[None] = None  # it publishes no rows

    file: str
    columns: tuple[str, ...]
    design: Design
    rows: int | None = None

    @property
    def files(self) -> tuple[str, ...]:
        parts = _parts(self.design)
        return (self.file,) if parts is None else parts.files

    @property
    def added(self) -> tuple[Attribute, ...]:
        parts = _parts(self.design)
        return () if parts is None else parts.added

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "design": self.design.to_dict(),
            **({} if self.rows is None else {"rows": self.rows}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measurements:
        rows = None if data.get("rows") is None else stored.whole(data["rows"])
        if rows is not None and rows > _EXACT:
            raise ValueError("more rows than answers can state exactly")
        design = design_from_dict(data["design"])
        parts = _parts(design)
        if parts is not None and data["file"] != parts.files[0]:
            raise ValueError("the first file is not that of the first part")
        if design.kind == "sparse" and rows not in (None, cast("Sparse", design).known_rows):
            raise ValueError("the number of rows is not the total of the sparse cells")
        return cls(_file(data["file"]), _names(data), design, rows)


def _parts(design: Design) -> Parts | None:
    """Return the design if it is one of several parts."""
    return cast("Parts", design) if design.kind == "parts" else None


@dataclass(frozen=True)
class Synthetic:
    """Rows of the columns `given` and `target`, drawn at random within strata.

    A stratum is a combination of values of `given` that somebody has. The second file `strata` has
    a row for each: the values, how many people have them (column `people`), how many rows were
    drawn (`size`), and the prior balls of each value of `target` in parts of 1/`grid` (`prior`).
    The law "polya urn" is that of `model/laws/polya_urn.py`.
    """

    kind: ClassVar[str] = "synthetic"
    unchanged: ClassVar[None] = None  # no row is that of a person
    added: ClassVar[tuple[Attribute, ...]] = ()

    file: str
    strata: str
    given: tuple[str, ...]
    target: tuple[str, ...]
    people: str
    size: str
    prior: str
    grid: int
    rows: int  # people in the table
    law: str = "polya urn"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.given, *self.target)

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, self.strata)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "law": self.law,
            "file": self.file,
            "strata": self.strata,
            "given": list(self.given),
            "target": list(self.target),
            "people": self.people,
            "size": self.size,
            "prior": self.prior,
            "grid": self.grid,
            "rows": self.rows,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Synthetic:
        return cls(
            _file(data["file"]),
            _file(data["strata"]),
            stored.items(stored.text, data["given"]),
            stored.items(stored.text, data["target"]),
            stored.text(data["people"]),
            stored.text(data["size"]),
            stored.text(data["prior"]),
            stored.whole(data["grid"]),
            stored.whole(data["rows"]),
            stored.one_of(data["law"], ("polya urn",)),
        )


_EXACT = 1 << 53  # up to here every whole number is a float

Evidence = Records | Tuples | Groups | Generalised | Measurements | Synthetic
_KINDS: Mapping[str, Any] = {
    kind.kind: kind for kind in (Records, Tuples, Groups, Generalised, Measurements, Synthetic)
}


def evidence_from_dict(data: Mapping[str, Any]) -> Evidence:
    """Return the evidence that a manifest holds as `data`."""
    found: Evidence = _KINDS[data["kind"]].from_dict(data)
    return found


def _file(name: Any) -> str:
    """Return the name of a data file, which must be one inside the release folder."""
    if not re.fullmatch(r"[a-z]+\.parquet", stored.text(name)):
        raise ValueError("not the name of a data file")
    return stored.text(name)


def _names(data: Mapping[str, Any]) -> tuple[str, ...]:
    return stored.items(stored.text, data["columns"])


def _numbered(name: str, size: int) -> Attribute:
    """Return the attribute of a column with the numbers 0 to `size - 1` that a mechanism made."""
    return Attribute(name, "insensitive", IntegerRange(0, size - 1))

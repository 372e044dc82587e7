"""Evidence: the only data that pass from mechanisms to estimators.

| kind         | content                                                                  |
|--------------|--------------------------------------------------------------------------|
| Records      | true rows, except for columns that went through a known channel          |
| Measurements | noisy linear counts of cells, with their design and the law of the noise |

These two are written by several families; other kinds are in `design` of the family that writes
them. Each kind names its Parquet files inside the release folder and holds the public facts that an
estimator needs to read them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, ClassVar, cast

from scumble.families import channel_design, design_class, evidence_class
from scumble.model import stored
from scumble.model.designs.design import Design
from scumble.model.designs.kronecker import Product
from scumble.model.designs.matrix import Matrix
from scumble.model.designs.residuals import Residuals
from scumble.model.designs.sides import Sides
from scumble.model.evidence.channels import Channel, channel_from_dict
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.computed import (
    Computed,
    compute_by_ratios,
    compute_exposure,
    exposure_by_ratio,
    total_ratio,
)
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.privacy.stated_loss import StatedLoss, add_losses, joint_loss
from scumble.model.schema.amounts import Amounts, Products, read_amounts
from scumble.model.schema.attribute import Attribute

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema


class Evidence(ABC):
    """What every kind of evidence says. Its fields and properties are those of a manifest, its
    methods what shared code asks of it.
    """

    kind: ClassVar[str]
    has_values: ClassVar[bool] = True  # whether columns of its files have the schema's values

    if TYPE_CHECKING:  # fields of most kinds

        @property
        def columns(self) -> tuple[str, ...]: ...
        @property
        def rows(self) -> int | None:
            """The number of rows that answers are about, if it is public."""

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    @property
    @abstractmethod
    def main_promises(self) -> frozenset[str]:
        """The statements of promises of which a release must make one, about all that it shows."""

    @property
    def left_to_audit(self) -> frozenset[str]:
        """The statements of promises of which no number is computed when a release is opened."""
        return frozenset()

    @property
    def added(self) -> tuple[Attribute, ...]:
        """Columns that the mechanism made; questions may use them like any other column."""
        return ()

    @property
    def unchanged(self) -> tuple[str, ...] | None:
        """The columns that are published as they are; None if it publishes no true rows."""
        return None

    @property
    def sum_columns(self) -> tuple[str, ...]:
        """The columns of which it has sums of amounts."""
        return ()

    @property
    def moments(self) -> tuple[str, ...]:
        """The products of columns of which it has sums, as income*age."""
        return ()

    @property
    def counts_told_by(self) -> str | None:
        """The column whose sums tell the counts; None if these were measured themselves."""
        return None

    @property
    def sums_alone(self) -> tuple[str, ...]:
        """The columns of which it has sums of amounts, and no cells."""
        return tuple(name for name in self.sum_columns if name not in self.columns)

    @property
    def missing(self) -> float:
        """The rows of the table that are not among `rows`; infinite if that is not public."""
        return 0

    @property
    def exact_zeros(self) -> bool:
        """Whether every impossible cell has a number of its own, which is 0 and has no noise."""
        return False

    @property
    def rows_refused(self) -> str | None:
        """Why no synthetic rows are drawn from it; None if they are."""
        return (
            "This release publishes rows itself, perturbed ones. Synthetic rows are drawn from "
            "releases of noisy counts, such as Synthesis, Marginals or Histogram."
        )

    def check_schema(self, schema: Schema) -> None:
        """Raise ValueError if it was made for other numbers of values than the schema has."""
        return

    def find_sequence(self, sql: str) -> str | None:
        """Return the column of sequences that a question is about, if it is to be read as a
        question about strings; else None.
        """
        return None

    def amplifications(self, schema: Schema) -> list[Fraction | None]:
        """Return the amplification of each channel that perturbs rows; None in it: unbounded."""
        return []

    def compute_promise(self, promise: Guarantee, schema: Schema, folder: Path) -> Computed | None:
        """Return the number of a promise that follows from the release in `folder`; None where
        none is known.
        """
        return compute_by_ratios(promise, self.amplifications(schema))


@dataclass(frozen=True)
class Records(Evidence):
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
        return tuple(attribute for channel in self.channels for attribute in channel.added)

    @property
    def main_promises(self) -> frozenset[str]:
        """That of all channels; none if there are several kinds, which no mechanism writes."""
        stated = {channel.main_promise for channel in self.channels}
        return frozenset(stated) if len(stated) == 1 else frozenset()

    @property
    def left_to_audit(self) -> frozenset[str]:
        return frozenset().union(*(channel.left_to_audit for channel in self.channels))

    def amplifications(self, schema: Schema) -> list[Fraction | None]:
        return [channel.amplification(schema) for channel in self.channels]

    def promised_channels(self, promise: Guarantee) -> tuple[Channel, ...]:
        """Return the channels that a promise is about: all, or that of the attribute it numbers."""
        number = promise.parameters.get("attribute")
        if number is None:
            return self.channels
        if number not in range(1, len(self.channels) + 1):
            raise ValueError("a promise is about an attribute of the release")
        return (self.channels[int(number) - 1],)

    def compute_promise(self, promise: Guarantee, schema: Schema, folder: Path) -> Computed | None:
        """Return the number of a promise by the channels that it is about.

        What a family alone knows of its channels is in its `design`.
        """
        channels = self.promised_channels(promise)
        if not channels or any(each.name not in self.perturbed for each in schema.sensitive):
            return None
        kinds = {getattr(channel, "law", channel).kind for channel in self.channels}
        own = channel_design(kinds.pop()) if len(kinds) == 1 else None
        number: Computed | None = own.compute_promise(promise, channels) if own else None
        if number is not None or promise.statement != "p-exposure":
            return number or super().compute_promise(promise, schema, folder)
        return self._compute_exposure(promise, channels, schema)

    def _compute_exposure(
        self, promise: Guarantee, channels: Sequence[Channel], schema: Schema
    ) -> Computed:
        """Return the success of the best guess of the value of one attribute: that of its channel,
        or the largest one that the amplification of several allows.
        """
        [first, *others] = channels
        success = None if others else first.success(schema)
        names = [name for channel in channels for name in channel.attributes]
        if success is None or len(names) > 1:
            values = min(schema[name].size for name in names)
            ratio = total_ratio([channel.amplification(schema) for channel in channels])
            return compute_exposure(promise, exposure_by_ratio(ratio, values), values)
        return compute_exposure(promise, success, schema.size(names))

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
        channels = tuple(map(channel_from_dict, data["channels"]))
        return cls(
            stored.data_file(data["file"]),
            stored.items(stored.text, data["columns"]),
            channels,
            stored.whole(data["rows"]),
        )


@dataclass(frozen=True)
class Measurements(Evidence):
    """Noisy integers about the cells of the product of `columns`; `design` describes the sum of
    counts that each number measures, and its noise.

    `rows` is the exact number of rows, where neighbouring tables have equally many; else None.
    `sums` are sums of amounts by the same cells. With the design `Sides` the one sum tells the
    counts too.
    """

    kind: ClassVar[str] = "measurements"

    file: str
    columns: tuple[str, ...]
    design: Design
    rows: int | None = None
    sums: tuple[MeasuredSum, ...] = ()

    @property
    def main_promises(self) -> frozenset[str]:
        return frozenset({"ε-DP", "(ε, δ)-DP"})

    @property
    def counts_told_by(self) -> str | None:
        return self.sum_columns[0] if isinstance(self.design, Sides) else None

    @property
    def of_cells(self) -> Design:
        """The design of what tells the counts."""
        return self.sums[0].total.design if isinstance(self.design, Sides) else self.design

    @property
    def files(self) -> tuple[str, ...]:
        own = self.design.files or (self.file,)
        own = () if isinstance(self.design, Sides) else own
        return (*own, *(name for each in self.sums for name in each.files))

    @property
    def sum_columns(self) -> tuple[str, ...]:
        return tuple(
            each.amounts.column for each in self.sums if not isinstance(each.amounts, Products)
        )

    @property
    def moments(self) -> tuple[str, ...]:
        """The products of columns of which it has sums, as income*age."""
        return tuple(
            each.amounts.column for each in self.sums if isinstance(each.amounts, Products)
        )

    @property
    def added(self) -> tuple[Attribute, ...]:
        return self.design.added

    @property
    def exact_zeros(self) -> bool:
        return self.of_cells.exact_zeros

    @property
    def rows_refused(self) -> str | None:
        return self.of_cells.rows_refused

    def check_schema(self, schema: Schema) -> None:
        self.design.check_schema(schema, self.columns)
        for each in self.sums:
            each.check_schema(schema)

    def find_sequence(self, sql: str) -> str | None:
        return self.design.find_sequence(sql, self.columns)

    def stated_loss(self, unit: PrivacyUnit, folder: Path) -> StatedLoss:
        """Return the loss of one person by the noise that the release in `folder` states."""
        own = self.design.stated_loss(unit, folder / self.file)
        return add_losses([own, *(each.stated_loss(unit, folder) for each in self.sums)])

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "design": self.design.to_dict(),
            **({} if self.rows is None else {"rows": self.rows}),
            **({"sums": [each.to_dict() for each in self.sums]} if self.sums else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measurements:
        rows = None if data.get("rows") is None else stored.whole(data["rows"])
        if rows is not None and rows > _EXACT:
            raise ValueError("more rows than answers can state exactly")
        design = design_from_dict(data["design"])
        if design.files and data["file"] != design.files[0]:
            raise ValueError("the first file is not that of the first part")
        design.check_rows(rows)
        columns = stored.items(stored.text, data["columns"])
        read = partial(MeasuredSum.from_dict, columns)
        sums = stored.items(read, data.get("sums", []))
        found = cls(stored.data_file(data["file"]), columns, design, rows, sums)
        known = {*found.sum_columns, *found.moments}
        if len({*found.files}) < len(found.files) or len(known) < len(sums):
            raise ValueError("every file and every sum is there once")
        factors = {name for each in sums for name in each.amounts.columns}
        if not factors <= {*found.sum_columns}:
            raise ValueError("the sums of the factors of a moment are there")
        if isinstance(design, Sides) and not (
            len(sums) == 1 and sums[0].sides and found.file == found.files[0]
        ):
            raise ValueError("the counts are told by the sides of sums")
        return found


@dataclass(frozen=True)
class MeasuredSum:
    """The sums of the amounts of one column by the cells of measurements, with noise.

    With `below`, every row divides the steps between the limits of its amount among sides of its
    cell, which are measured alike: `total` has those from the lower limit to the amount, `below`
    those from the amount to the upper limit, and `absent` all of them where there is no amount.

    Else `total` has the steps from the middle of the limits, and `present` are the counts of the
    rows that have an amount; without it all rows have one, and the sums have the cells of the
    counts. Products have no counts of their own: they go with those of their columns.
    """

    amounts: Amounts
    total: Measurements
    present: Measurements | None = None
    below: Measurements | None = None
    absent: Measurements | None = None

    @property
    def sides(self) -> tuple[Measurements, ...]:
        """What is measured of every side; nothing of sums from the middle of the limits."""
        return self.parts if self.below else ()

    @property
    def parts(self) -> tuple[Measurements, ...]:
        """All that is measured."""
        parts = (self.total, self.present, self.below, self.absent)
        return tuple(each for each in parts if each is not None)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(name for each in self.parts for name in each.files)

    def check_schema(self, schema: Schema) -> None:
        """Raise ValueError if it was made for other amounts, or other cells."""
        if self.amounts.again(schema) != self.amounts:
            raise ValueError("the amounts are not those of the schema")
        for each in self.parts:
            each.check_schema(schema)

    def stated_loss(self, unit: PrivacyUnit, folder: Path) -> StatedLoss:
        """Return the loss of one person by the noise of the sums, and of the counts for them."""
        if self.sides:
            sided = replace(unit, amount=self.amounts.reach, sided=True)
            return joint_loss([each.stated_loss(sided, folder) for each in self.sides])
        loss = self.total.stated_loss(replace(unit, amount=self.amounts.largest), folder)
        return loss + self.present.stated_loss(unit, folder) if self.present else loss

    def to_dict(self) -> dict[str, Any]:
        named = {"present": self.present, "below": self.below, "absent": self.absent}
        return {
            "amounts": self.amounts.to_dict(),
            "file": self.total.file,
            "design": self.total.design.to_dict(),
            **{
                name: {"file": part.file, "design": part.design.to_dict()}
                for name, part in named.items()
                if part
            },
        }

    @classmethod
    def from_dict(cls, columns: tuple[str, ...], data: Mapping[str, Any]) -> MeasuredSum:
        def read(part: Mapping[str, Any] | None) -> Measurements | None:
            if part is None:
                return None
            design = design_from_dict(part["design"])
            if design.files or isinstance(design, Sides):
                raise ValueError("sums are in one file")
            return Measurements(stored.data_file(part["file"]), columns, design)

        amounts = read_amounts(data["amounts"])
        total = cast(Measurements, read(data))
        present, below, absent = (read(data.get(name)) for name in ("present", "below", "absent"))
        found = cls(amounts, total, present, below, absent)
        if below is None:
            own = amounts.missing and not isinstance(amounts, Products)
            if absent or (own and present is None):
                raise ValueError("rows with an amount are counted where it may be missing")
        elif len(found.sides) != amounts.sides or present is not None:
            raise ValueError("amounts have other sides")
        return found


def sum_files(place: int, parts: Sequence[str]) -> list[str]:
    """Return the files of the parts of the sum at a place."""
    return [f"{part}{ascii_lowercase[place]}.parquet" for part in parts]


SUM_FILES = ("amounts", "present", "below", "absent")  # with a letter for each sum
_EXACT = 1 << 53  # up to here every whole number is a float
_SHARED: Mapping[str, Any] = {kind.kind: kind for kind in (Records, Measurements)}


# The designs that several families write; others are in `design` of the family that writes them.
_SHARED_DESIGNS: Mapping[str, Any] = {
    design.kind: design for design in (Matrix, Product, Residuals, Sides)
}


def design_from_dict(data: Mapping[str, Any]) -> Design:
    """Return the design that a manifest holds as `data`."""
    kind = data["kind"]
    design: Design = (_SHARED_DESIGNS.get(kind) or design_class(kind)).from_dict(data)
    return design


def evidence_from_dict(data: Mapping[str, Any]) -> Evidence:
    """Return the evidence that a manifest holds as `data`."""
    kind = data["kind"]
    found: Evidence = (_SHARED.get(kind) or evidence_class(kind)).from_dict(data)
    return found

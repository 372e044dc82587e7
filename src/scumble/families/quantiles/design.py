"""The design of quantiles: counts of intervals of a number that was cut near its quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from scumble.families.boxes.design.box_tree import BoxTree
from scumble.model.schema.attribute import Attribute

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema


@dataclass(frozen=True)
class QuantileBoxes(BoxTree):
    """Boxes of one combination of groups and an interval of a number. `column` is the number with
    the edges at which some interval begins; in the schema of the release it is in place of the
    owner's.
    """

    kind: ClassVar[str] = "quantiles"

    column: Attribute = field(kw_only=True)

    @property
    def added(self) -> tuple[Attribute, ...]:
        return (self.column,)

    def check_schema(self, schema: Schema, columns: Sequence[str]) -> None:
        if columns[-1:] != (self.column.name,) or schema[self.column.name] != self.column:
            raise ValueError("the number is not that of the schema")

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "kind": self.kind, "column": self.column.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QuantileBoxes:
        tree = BoxTree.from_dict(data)
        return cls(tree.laws, tree.prune, column=Attribute.from_dict(data["column"]))

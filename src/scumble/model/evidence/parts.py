"""Parts: measurements of several designs in one release, each with its own file and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from scumble.model import stored
from scumble.model.schema.attribute import Attribute

if TYPE_CHECKING:
    from scumble.model.evidence.evidence import Measurements


@dataclass(frozen=True)
class Parts:
    """The parts of a release. A question is answered by the first part that has its columns.

    `added` are the columns that the mechanism made; a saved release has them in its schema.
    """

    kind: ClassVar[str] = "parts"

    parts: tuple[Measurements, ...]
    added: tuple[Attribute, ...] = field(default=(), compare=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all parts."""
        return tuple(part.file for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Parts:
        from scumble.model.evidence.evidence import Measurements

        parts = stored.items(Measurements.from_dict, data["parts"])
        files = {part.file for part in parts}
        nested = any(isinstance(part.design, cls) for part in parts)
        if not parts or nested or len(files) < len(parts):
            raise ValueError("every part has a file of its own, and no parts inside")
        return cls(parts)

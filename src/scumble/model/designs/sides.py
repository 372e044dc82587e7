"""Sides: a release without counts of its own, whose sums of amounts tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from scumble.model.designs.design import Design
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss


@dataclass(frozen=True)
class Sides(Design):
    """The count of a cell is the sum of all sides of its amounts, over the steps that a row divides
    among them. The file is that of the first side; the loss is stated with the sums.
    """

    kind: ClassVar[str] = "sides"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sides:
        return cls()

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        return StatedLoss()

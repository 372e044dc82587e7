"""Designs: how the numbers of a release were measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss
from scumble.model.schema.attribute import Attribute

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema

Extents = tuple[tuple[tuple[str, ...], int], ...]


class Design(ABC):
    """The public facts that a reader needs about the noisy numbers of a file."""

    kind: ClassVar[str]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the design as a manifest holds it; `from_dict` of the class reads that."""

    @abstractmethod
    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        """Return the loss of one person of `unit` by the noise that the design and `file` state."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of a design that has several; else none."""
        return ()

    @property
    def added(self) -> tuple[Attribute, ...]:
        """The columns that the mechanism made."""
        return ()

    @property
    def extents(self) -> Extents:
        """Sets of attributes, and how many combinations of values each has by the design."""
        return ()

    @property
    def exact_zeros(self) -> bool:
        """Whether every impossible cell has a number of its own, which is 0 and has no noise."""
        return False

    @property
    def rows_refused(self) -> str | None:
        """Why no synthetic rows are drawn from the numbers; None if they are."""
        return None

    def check_schema(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise ValueError if the design of `columns` was made for another schema."""
        for names, size in self.extents:
            if not {*names} <= {*columns} or schema.size(names) != size:
                raise ValueError("the design is not one of this schema")

    def find_sequence(self, sql: str, columns: Sequence[str]) -> str | None:
        """Return which of `columns` a question about strings is about; None for other questions."""
        return None

    def check_rows(self, rows: int | None) -> None:
        """Raise ValueError if the exact number of rows in a manifest contradicts the design."""
        return

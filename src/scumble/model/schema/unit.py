"""The privacy unit: what one row of a table stands for, as its owner states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scumble.model.errors import SchemaError

KEYS = ("unit", "person", "most_rows")


@dataclass(frozen=True)
class Unit:
    """Who is protected: whoever has one row, or a person who may have several.

    Without `person` every row is another person. With it, this identifier column names people, and
    at most `most_rows` rows of each of them count. `note` is for the owner who checks a proposal.
    """

    person: str | None = None
    most_rows: int = 1
    note: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.person is not None and not isinstance(self.person, str):
            raise SchemaError(f"'person' must name a column. Got {self.person!r} instead.")
        if type(self.most_rows) is not int or self.most_rows < 1:
            raise SchemaError(
                f"'most_rows' must be a whole number above 0. Got {self.most_rows!r} instead."
            )
        if self.person is None and self.most_rows != 1:
            raise SchemaError("'most_rows' goes with unit = \"person\" and a 'person' column.")

    @property
    def several(self) -> bool:
        """Whether a person may have several rows that count."""
        return self.most_rows > 1

    def describe(self) -> str:
        """Return in a sentence who is protected."""
        if self.person is None:
            return "Every row is another person."
        rows = (
            "One row of each person counts"
            if self.most_rows == 1
            else f"Up to {self.most_rows} rows of a person count"
        )
        return f"{rows}; {self.person} names the person."

    def to_table(self) -> dict[str, Any]:
        """Return the keys of the unit in a schema, as JSON values."""
        if self.person is None:
            return {"unit": "row"}
        return {"unit": "person", "person": self.person, "most_rows": self.most_rows}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Unit | None:
        """Read the unit from the top of a schema; None if it states none."""
        given = {key: table[key] for key in KEYS if key in table}
        if not given:
            return None
        if given.get("unit") not in ("row", "person"):
            got = f" Got {given['unit']!r} instead." if "unit" in given else ""
            raise SchemaError(
                'Say what one row stands for: unit = "row" or unit = "person", which goes with '
                f"'person' and 'most_rows'.{got}"
            )
        if given["unit"] == "row":
            if len(given) > 1:
                raise SchemaError(
                    "With unit = \"row\" every row is another person: leave 'person' and "
                    "'most_rows' out."
                )
            return cls()
        missing = [key for key in KEYS if key not in given]
        if missing:
            raise SchemaError(
                f'unit = "person" needs {" and ".join(missing)}: write, for example, '
                'person = "PatientID" and most_rows = 5.'
            )
        return cls(given["person"], given["most_rows"])

"""Terms: whom an owner's ledger protects, and how much one person may lose; its first entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from scumble.model.dialect import named, setting
from scumble.model.errors import LedgerError, ParameterError
from scumble.model.parameters import whole
from scumble.model.privacy.guarantee import delta_share, loss, positive
from scumble.private.journal.entries import check_word
from scumble.private.ledger.limit import Limit

KIND = "owner's ledger"
Relation = Literal["values", "replace", "add_remove"]


@dataclass(frozen=True)
class Terms:
    """What neighbouring tables differ in: one person, who has at most `contribution` rows.

    With "values" only the columns in `sensitive` change; with "replace" what the rows say; with
    "add_remove" the person is in the table or is not. Without an ε nothing is refused, and the
    ledger only adds up; δ is then the one for which it states its total. `pure` is the part of ε
    that is kept for releases without δ, if there will be both kinds. `parts` is a column whose
    values divide the people: what is published of one part costs only them.
    """

    name: str
    neighbours: Relation
    contribution: int = 1
    sensitive: tuple[str, ...] = ()
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    pure: Fraction = Fraction(0)
    parts: str | None = None

    @classmethod
    def read(
        cls,
        *,
        name: str,
        neighbours: str,
        contribution: int,
        sensitive: Sequence[str] | None,
        epsilon: object,
        delta: object,
        pure: object,
        parts: str | None,
    ) -> Terms:
        """Terms out of what a person wrote; refused with one sentence where they make no sense."""
        check_word("name", name)
        if neighbours not in get_args(Relation):
            allowed = "'values', 'replace' or 'add_remove'"
            raise ParameterError.of("Ledger", "neighbours", allowed, neighbours)
        names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive or ())
        if (neighbours == "values") != bool(names):
            raise ParameterError(
                "A ledger has a list of sensitive columns with "
                f"{setting('neighbours', 'values')}, and only then: with 'replace' and "
                "'add_remove' all columns are protected."
            )
        for each in names:
            check_word("sensitive", each)
        if parts is not None:
            _check_parts(parts, neighbours, contribution, names)
        most = None if epsilon is None else loss("Ledger", epsilon)
        return cls(
            name,
            neighbours,  # type: ignore[arg-type]  # it is one of them
            whole("Ledger", "contribution", contribution, least=1),
            tuple(sorted(set(names))),
            most,
            None if delta is None else delta_share("Ledger", delta),
            Fraction(0) if pure is None else _part(pure, most, delta),
            parts,
        )

    @property
    def limit(self) -> Limit | None:
        return None if self.epsilon is None else Limit(self.epsilon, self.delta, self.pure)

    def hidden(self) -> str:
        """What is protected, as a clause."""
        rows = f" with up to {self.contribution} rows" if self.contribution > 1 else ""
        if self.neighbours == "values":
            return f"the {', '.join(self.sensitive)} of one person{rows}"
        if self.neighbours == "replace":
            return f"what the rows of one person{rows} say"
        return f"whether one person{rows} is in the table"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "name": self.name,
            "neighbours": self.neighbours,
            "contribution": self.contribution,
            "sensitive": list(self.sensitive),
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "delta": None if self.delta is None else str(self.delta),
            "pure": str(self.pure),
            "parts": self.parts,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], place: object) -> Terms:
        """The terms of the ledger at a place, if it is one of releases."""
        if data.get("kind") != KIND:
            raise LedgerError(
                f"{place} is the ledger of a statistical database, not an owner's ledger. Create "
                "one by `scumble ledger create`."
            )
        return cls(
            data["name"],
            data["neighbours"],
            data["contribution"],
            tuple(data["sensitive"]),
            None if data["epsilon"] is None else Fraction(data["epsilon"]),
            None if data["delta"] is None else Fraction(data["delta"]),
            Fraction(data["pure"]),
            data["parts"],
        )


def _check_parts(
    parts: str, neighbours: str, contribution: int, sensitive: tuple[str, ...]
) -> None:
    """Refuse parts between which a person could move, or be in several."""
    check_word("parts", parts)
    if neighbours == "replace" or contribution != 1 or parts in sensitive:
        raise ParameterError(
            "A ledger has parts only where each person is in one of them, in neighbouring tables "
            f"too: with {setting('neighbours', 'add_remove')}, or 'values' and a column that is "
            "not sensitive, and one row for a person."
        )


def _part(pure: object, epsilon: Fraction | None, delta: object) -> Fraction:
    """The part of ε for releases without δ, in a ledger that has both."""
    if epsilon is None or delta is None:
        raise ParameterError(
            f"A ledger takes {named('pure')} as a part of {named('epsilon')}, together with a "
            f"{named('delta')}."
        )
    found = positive("Ledger", "pure", pure)
    if found >= epsilon:
        raise ParameterError.of("Ledger", "pure", f"below epsilon ({float(epsilon):g})", pure)
    return found

"""How wrong a count of one sensitive value will be: closed forms that need no data."""

from __future__ import annotations

import math
from collections.abc import Sequence

NINETEEN = 1.96  # standard errors that hold nineteen times in twenty
_ASKED, _HAVING = 10_000, 1_000  # the example that an owner is told


def shown_error(having: float, asked: float, own: float, other: float) -> float:
    """The standard error of how many of the rows asked about have a value, if a row shows it with
    probability `own` if it has it, with `other` if not.
    """
    spread = having * own * (1 - own) + (asked - having) * other * (1 - other)
    return math.sqrt(spread) / (own - other)


def drawn_error(asked: float, draws: int, chance: float) -> float:
    """The same, if each row shows its own value and some draws that hit the value by chance."""
    return math.sqrt(draws * asked * chance * (1 - chance))


def outlook_shown(names: Sequence[str], own: float, other: float) -> str:
    """What an owner can expect of counts, in a sentence."""
    return _sentence(names, shown_error(_HAVING, _ASKED, own, other))


def outlook_drawn(names: Sequence[str], draws: int, chance: float) -> str:
    """The same for values that are shown among others."""
    return _sentence(names, drawn_error(_ASKED, draws, chance))


def _sentence(names: Sequence[str], error: float) -> str:
    far = NINETEEN * error
    reach = f"±{far:,.0f}" if far >= 10 else f"±{far:.2g}"
    what = "one value" if len(names) == 1 else "one combination of values"
    return (
        f"To expect: among {_ASKED:,} rows, a count of {_HAVING:,} that have {what} of "
        f"{', '.join(names)} will be within {reach} nineteen times in twenty."
    )

"""The people of each stratum of a private table, of whom only charged draws are returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scumble.model.errors import PromiseError, large
from scumble.model.laws.polya_urn import GRID
from scumble.model.privacy.accounting import PrivacyLoss, PrivacyUnit

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateTable

Integers = npt.NDArray[np.int64]
Sizes = Callable[[Integers], tuple[Integers, Integers]]  # of people: rows, prior in parts of 1/GRID

MOST_ROWS = 3 * 10**7
MOST_NUMBERS = 1 << 27  # strata times values of the target
_BOUND = 1 << 62


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """The strata with people, in the order of their `keys`, and the rows drawn in each.

    `stratum` and `value` are those of every row, as places in `keys` and keys of the target.
    """

    keys: npt.NDArray[np.uint64]
    people: Integers
    sizes: Integers
    priors: Integers
    stratum: Integers
    value: Integers


class PrivateStrata:
    """The counts of the columns `target` in the strata of the columns `given`.

    How many people a stratum has is public: neighbouring tables differ in a value of `target`.
    """

    def __init__(self, table: PrivateTable, given: Sequence[str], target: Sequence[str]) -> None:
        self._table = table
        self._names = (*given, *target)
        self._values = table.schema.size(target)

    def drawn(self, sizes: Sizes, loss: PrivacyLoss) -> DrawnRows:
        """Charge `loss` and draw rows from a Pólya urn for each stratum.

        `sizes` gives the rows and the prior of strata from the numbers of their people.
        """
        from scumble.private.sampling.polya_urn import polya_rows

        self._table._account.charge(f"rows of {', '.join(self._names)}", loss)
        found = self._table._counter.occupied(self._names, PrivacyUnit("replace"))
        keys = np.unique(found.keys // np.uint64(self._values))
        if len(keys) * self._values > MOST_NUMBERS:
            raise PromiseError(
                f"There are more than {large(MOST_NUMBERS)} combinations of strata and values; "
                "condition on fewer or coarser attributes."
            )
        counts = np.zeros((len(keys), self._values), np.int64)
        places = np.searchsorted(keys, found.keys // np.uint64(self._values))
        counts[places, (found.keys % np.uint64(self._values)).astype(np.int64)] = found.counts
        people = counts.sum(axis=1)
        rows, priors = sizes(people)
        if rows.sum() > MOST_ROWS:
            raise PromiseError(f"More than {large(MOST_ROWS)} rows would be drawn; draw fewer.")
        balls = self._values * priors.astype(float) + (people + rows).astype(float) * GRID
        if balls.max(initial=0.0) >= _BOUND:
            raise PromiseError("The prior has too many balls to be drawn from; draw fewer rows.")
        stratum, value = polya_rows(self._table._noise.source, counts, priors, rows)
        return DrawnRows(keys, people, rows, priors, stratum, value)

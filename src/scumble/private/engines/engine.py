"""The protocol of engines: a table as units of work, counts of cells, and perturbed rows.

A unit of work is a stable piece of the table: adjacent row groups of a Parquet file, or a block of
a fixed number of rows. What is drawn for the rows of a unit is a function of the key of the unit
and of its codes in the order of the file, so that it does not matter where, when or how often the
unit is worked on. `local.py` does it in this process, `pool.py` in several, which `workers.py`
starts on this machine and `spark.py` on a cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from scumble.model.parameters import whole

if TYPE_CHECKING:
    from scumble.model.privacy.accounting import PrivacyUnit
    from scumble.model.schema.attribute import Attribute
    from scumble.model.schema.lists import EncodedLists
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.counter import CellSet, Counts, Occupied
    from scumble.private.tables.key_pairs import KeyCounter
    from scumble.private.tables.rows import Rows
    from scumble.private.tables.sorted_keys import Keys

Codes = npt.NDArray[Any]
# One list of columns for each output.
Made = Sequence[Sequence[Codes]]
# From the stream of a unit, the pieces of its codes, and what the driver gives to this unit.
Kernel = Callable[["Keystream", Iterator[list[Codes]], Any], Iterator[Made]]
Given = Callable[[int], Any]
# From the stream of a range of keys, and what is in it, to published rows.
RangeKernel = Callable[["Keystream", Any], Sequence[Codes]]

MOST_JOBS = 256
ROWS = "rows"  # the purpose of the keystream that perturbs the rows of a unit
TUPLES = "tuples"  # ... that draws the tuples of a range of keys
CHANGED = "The table changed while it was read; publish a copy that stays as it is."


@dataclass(frozen=True)
class Output:
    """A file of published rows: its path, its columns, and how it is compressed."""

    path: Path
    attributes: tuple[Attribute, ...]
    compression: str = "snappy"


def range_name(number: int) -> str:
    """Return the name under which a range of keys has its keystream."""
    return f"range {number}"


class RowKernel(ABC):
    """A kernel that perturbs every row by itself. It must be possible to pickle it."""

    @abstractmethod
    def perturb(self, stream: Keystream, columns: list[Codes]) -> Made:
        """Return the rows of one piece of a unit as they are published, for each output."""

    def __call__(
        self, stream: Keystream, pieces: Iterator[list[Codes]], given: Any = None
    ) -> Iterator[Made]:
        return (self.perturb(stream, columns) for columns in pieces)


class Engine(Protocol):
    """What a mechanism asks of the place where the rows are read."""

    @property
    def rows(self) -> Rows: ...

    def count(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        """Return the counts of all cells of each set of attributes, the last attribute fastest."""
        ...

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        """Return the non-empty cells of a product of attributes."""
        ...

    def units(self, names: Sequence[str], others: Sequence[str] = ()) -> dict[int, Occupied]:
        """Return the non-empty cells of a product of attributes in each unit of work, by the number
        of the unit. Units without rows are left out.

        `others` are attributes that are read as well, because rows may be dropped for them. A later
        `map` raises SourceError if the codes of a unit are no longer the same.
        """
        ...

    def batches(self, names: Sequence[str]) -> Iterator[list[Codes]]:
        """Yield the codes of these attributes, in the order of the rows."""
        ...

    def sorted_rows(self, names: Sequence[str]) -> Keys:
        """Return the packed keys of all rows, sorted."""
        ...

    def lists(self, names: Sequence[str], unit: PrivacyUnit) -> Iterator[Sequence[EncodedLists]]:
        """Yield the sets or sequences of these attributes, in the order of the rows; several of a
        row belong together value by value.
        """
        ...

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        """Return the combinations of values of these columns, listed or not, by person."""
        ...

    def map(
        self,
        names: Sequence[str],
        kernel: Kernel,
        outputs: Sequence[Output],
        given: Given | None = None,
    ) -> None:
        """Send the codes of these attributes through `kernel`, unit by unit.

        `given` returns what the kernel of a unit gets from the driver, by the number of the unit.
        """
        ...

    def draw(self, ranges: int, content: Given, kernel: RangeKernel, output: Output) -> None:
        """Send the content of each range of keys through `kernel`. Ranges were cut by the driver,
        and `content` returns what is in a range, in the order of the keys, by its number.
        """
        ...

    def sort(self, output: Output) -> int:
        """Write all rows of an output in the order of their published values; return their
        number.
        """
        ...


def check_jobs(owner: str, jobs: int) -> None:
    """Raise ParameterError unless `jobs` is a number of processes that may be asked for."""
    whole(owner, "jobs", jobs, least=1, most=MOST_JOBS)

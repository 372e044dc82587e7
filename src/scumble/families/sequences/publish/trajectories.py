"""Trajectories: trips on a public grid, by where they begin and end, their way and their length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast

import numpy as np

from scumble.families import class_of
from scumble.families.sequences.design import Parts
from scumble.families.sequences.publish.sequences import Sequences
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.parameters import free_name, whole
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import smallest_unsigned
from scumble.model.schema.domains import Category
from scumble.model.schema.lists import DerivedName, EncodedLists, ListDomain
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import TRIPS, Claim, ComparisonPreset, protection
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import AttributeSummary, ProtectedSummary
from scumble.private.tables.counter import CellCounter, CountedLists
from scumble.private.tables.list_spool import KeptLists

MOST_CELLS = 5_000
LONGEST = 10_000
_COMPARED = 20  # cells of a trip in a comparison, if the schema states no largest length
# Of ε: for the first and the last cell of trips, for what follows what, and for lengths.
_FILES = ("cells", "strings", "sums")  # of the three parts
_ENDS, _STEPS, _LENGTHS = Fraction(1, 2), Fraction(2, 5), Fraction(1, 10)


@dataclass(kw_only=True, eq=False, repr=False)
class Trajectories(ProtectedSummary):
    """Publishes trips, sequences of points, on a public grid: how many trips go from each cell to
    each other one, which cells follow which on the way, and how many cells a trip has.

    `x` and `y` are two sequences of numbers that belong together, point by point. Their bins in the
    schema are the grid, whose bounds must be public: never the smallest and largest values of the
    data. A trip is the sequence of cells of its points; staying in a cell counts once. In questions
    the trip is the sequence `trip`, and its cells have names: x3y5 is in bin 3 of `x` and bin 5 of
    `y`, counted from 0. `neighbours`, `contribution` and `person` are as for Histogram; a row is a
    trip.

    Parameters:
        x: the sequence of first coordinates, as longitude.
        y: the sequence of second coordinates, as latitude.
        length: most cells of a trip that are read, its end included; longer trips count as this
            long.

    Promises: ε-DP of the whole release. Proof: every trip is a function of its own row, so that
        three measurements of trips are as private as those of any sequence, and their ε add up:
        first and last cells by Sparse (half of ε), what follows what by Sequences with a suffix
        tree (two fifths), the number of cells by Histogram (a tenth).
    Estimate: of first and last cells as for Sparse, of cells that follow each other as for
        Sequences, of lengths as for Histogram; each with the exact law of its noise.
    Reference: Gursoy, Liu, Truex, Yu, Wei, AdaTrace, CCS 2018, for the three parts; their
        mechanisms as on the cards of Sparse, Sequences and Histogram.
    Differs: the grid is public and not adapted to the data; a suffix tree instead of a chain of
        first order; a histogram of lengths instead of a law that is fitted by cells. The published
        code of AdaTrace takes the bounds of the grid and the largest length from the data, adds no
        noise to second-level cells and spends an ε twice: it is not differentially private.
    """

    name = "trajectories"
    data_dependent = True
    of_lists = True
    proof: ClassVar[str] = (
        "composition of a function of noisy counts (Cormode, Procopiuc, Srivastava, Tran, ICDT "
        "2012), splits (Zhang, Xiao, Xie, SIGMOD 2016, theorem 3.1) and noise on counts (Dwork, "
        "McSherry, Nissim, Smith, TCC 2006)"
    )

    x: str = field(kw_only=False)
    y: str = field(kw_only=False)
    length: int

    def __post_init__(self) -> None:
        for parameter, name in (("x", self.x), ("y", self.y)):
            if not isinstance(name, str) or not name:
                raise ParameterError.of("Trajectories", parameter, "the name of a sequence", name)
        if self.x == self.y:
            raise ParameterError.of("Trajectories", "y", "another sequence than 'x'", self.y)
        self.names = (self.x, self.y)
        whole("Trajectories", "length", self.length, least=2, most=LONGEST)
        super().__post_init__()
        self._parts("trip")  # raises ParameterError if a share of ε is too small

    def check(self, schema: Schema) -> None:
        for name in self.names:
            lists = schema[name].lists  # raises SchemaError for any other column
            if lists.kind != "sequence" or isinstance(lists.members, Category):
                raise SchemaError(
                    f"Trajectories needs sequences of numbers in bins; '{name}' is "
                    f'{schema[name].describe()}. Write type = "sequence", range = [LOW, HIGH] and '
                    "bins = NUMBER in the schema."
                )
        columns, lines = (schema[name].lists.members.size for name in self.names)
        if not 2 <= columns * lines <= MOST_CELLS:
            raise SchemaError(
                f"The grid has {columns} x {lines} cells; 2 to {MOST_CELLS} are possible. Choose "
                "another number of bins."
            )
        super().check(schema)

    def _parts(self, trip: str) -> tuple[AttributeSummary, Sequences, AttributeSummary]:
        """Return the mechanisms of the three parts; `trip` names the sequence of cells."""
        first, last, length = (
            str(DerivedName(function, trip)) for function in ("first", "last", "length")
        )
        given: dict[str, Any] = {
            "neighbours": self.neighbours,
            "contribution": self.contribution,
            "person": self.person,
        }
        ends, steps, lengths = (share * self._epsilon for share in (_ENDS, _STEPS, _LENGTHS))
        return (
            class_of("sparse")([first, last], epsilon=cast(float, ends), **given),
            Sequences(trip, length=self.length, epsilon=cast(float, steps), **given),
            class_of("histogram")([length], epsilon=cast(float, lengths), **given),
        )

    def layout(self, schema: Schema) -> Layout:
        trips = trip_schema(schema, self.x, self.y, self.length)
        parts = self._parts(trips.names[0])
        trips = trips.with_derived([name for part in parts for name in part.names])
        return {
            f"{file}.parquet": columns
            for part, file in zip(parts, _FILES, strict=True)
            for columns in part.layout(trips).values()
        }

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        schema = trip_schema(table.schema, self.x, self.y, self.length)
        [trip] = schema.names
        parts = self._parts(trip)
        derived = [name for part in parts for name in part.names]
        schema = schema.with_derived(derived)
        trips = table.over(lambda counter: TripCounter(counter, self.x, self.y, schema))
        measurements = []
        for part, file in zip(parts, _FILES, strict=True):
            with TemporaryDirectory(dir=folder) as own:
                measured = cast(Measurements, part.measure(trips, Path(own)))
                (Path(own) / measured.file).rename(folder / f"{file}.parquet")
            measurements.append(replace(measured, file=f"{file}.parquet"))
        columns = (*self.names, *schema.names)
        design = Parts(tuple(measurements), schema.attributes)
        return Measurements(measurements[0].file, columns, design, measurements[0].rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return the size of the grid, and what the parts report."""
        columns, lines = (schema[name].lists.members.size for name in self.names)
        facts: dict[str, Any] = {"cells of the grid": columns * lines}
        design = getattr(evidence, "design", None)
        if isinstance(design, Parts):
            trips = trip_schema(schema, self.x, self.y, self.length)
            ends, steps, _ = self._parts(trips.names[0])
            facts |= ends.report(trips.with_derived(ends.names), design.parts[0])
            facts |= steps.report(trips, design.parts[1])
        return facts

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Return how far counts of each part may be off."""
        trips = trip_schema(schema, self.x, self.y, self.length)
        parts = self._parts(trips.names[0])
        titles = ("First and last cells", "Cells on the way", "Lengths")
        sentences = (
            f"{title}: {sentence[0].lower()}{sentence[1:]}"
            for title, part in zip(titles, parts, strict=True)
            for sentence in part.outlook(trips.with_derived(part.names))
        )
        said = (" ".join(sentences),)
        if trips.names[0] == "trip":
            return said
        renamed = f"Questions call a trip {trips.names[0]}: the schema has a column 'trip'."
        return (*said, renamed)

    def _more_limits(self) -> tuple[str, ...]:
        return (
            f"Of a trip the first {self.length} cells are read on its way, its end included.",
            "The promise is for whole trips of a person, as many as 'contribution' says.",
        )

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        numbers = [
            attribute
            for attribute in study.schema.lists
            if attribute.lists.kind == "sequence"
            and not isinstance(attribute.lists.members, Category)
        ]
        if len(numbers) < 2:
            raise SchemaError("Trajectories needs two sequences of numbers in bins.")
        x, y = numbers[:2]
        given = {"x": x.name, "y": y.name, "length": x.lists.longest or _COMPARED}
        return {**given, "neighbours": study.neighbours}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls("x", "y", **protection(neighbours, length=3)), 1, schema=TRIPS)


# --- trips ----------------------------------------------------------------------------------------
#
# Trips on a public grid: sequences of points as sequences of the cells that they go through.


def trip_schema(schema: Schema, x: str, y: str, longest: int) -> Schema:
    """Return the schema of trips: one sequence of cells of the grid of two sequences of numbers.

    The cell x3y5 is in the bin 3 of the attribute `x` and the bin 5 of `y`, both counted from 0.
    """
    columns, lines = (schema[name].lists.members.size for name in (x, y))
    cells = tuple(f"x{column}y{line}" for column, line in product(range(columns), range(lines)))
    name = free_name("trip", schema.names)
    domain = ListDomain("sequence", Category(cells), longest=longest)
    return Schema((Attribute(name, schema[x].role, domain),))


class TripCounter(CountedLists):
    """The trips of a table. A cell that a trip stays in is counted once until the trip leaves it.

    Every trip is a function of the points of its own row.
    """

    def __init__(self, counter: CellCounter, x: str, y: str, schema: Schema) -> None:
        self.schema = schema
        self.counted = 0
        self._counter, self._points = counter, (x, y)
        columns, lines = (counter.schema[name].lists.members.size for name in (x, y))
        self._type = smallest_unsigned(columns * lines + 1)
        self._trips: dict[PrivacyUnit, KeptLists] = {}

    @property
    def selects(self) -> bool:
        return self._counter.selects

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        if unit not in self._trips:
            read = partial(_read_trips, self._counter, self._points, unit, self._type)
            self._trips[unit] = KeptLists(read)
        return iter(self._trips[unit])


def _read_trips(
    counter: CellCounter, points: tuple[str, str], unit: PrivacyUnit, cell_type: np.dtype[Any]
) -> Iterator[EncodedLists]:
    """Yield the cells that the sequences of points go through."""
    lines = counter.schema[points[1]].lists.members.size
    for x, y in counter.paired_lists(points, unit):
        cells = x.codes.astype(cell_type) * cell_type.type(lines)
        cells += y.codes.astype(cell_type, copy=False)
        new = np.ones(len(cells) + 1, bool)
        np.not_equal(cells[1:], cells[:-1], out=new[1:-1])
        new[x.offsets] = True  # the first cell of every trip
        before = np.cumsum(new) - 1
        yield EncodedLists(before[x.offsets], cells[new[:-1]], x.outside)

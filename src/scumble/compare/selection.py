"""Which summary fits: chosen from the workload, the domains, ε and the number of rows. No row is
read and no budget is spent.

Methods are ranked by half of the 95 % interval that an answer will have: the interval that holds
for every table, with what cut boxes leave open. For methods whose noise does not depend on the data
it is computed. For partitions that follow the data it is predicted by a fit to DPBench;
`python -m research honest` says how often the choice is right.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scumble.families import class_of, load
from scumble.model.designs.tree import tree_plan
from scumble.model.errors import ParameterError, large
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit, rho_for
from scumble.model.privacy.guarantee import NEIGHBOURS, read_delta, read_epsilon, read_share
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, create

WorkloadKind = Literal["ranges", "marginals", "cells"]

WORKLOAD_KINDS: tuple[WorkloadKind, ...] = ("ranges", "marginals", "cells")
_MOST_CELLS = 10**8  # of a table that is counted cell by cell
_MOST_GROWN = 4  # attributes of a partition that follows the data
_SPARSE = 100  # cells per row from which a table counts as sparse
_HALF = 1.96  # of the standard error, is half of an interval of 95 %


@dataclass(frozen=True)
class _Fit:
    """How long the intervals of a method that follows the data are, relative to the best one that
    does not.

    The ratio of the half-widths has the logarithm (base 10) `constant + by_share · log(half / rows)
    + by_cells · log(cells) + by_occupied · log(share of the cells with rows)`, with `half` that of
    the other method. `error` is the root mean squared error of an answer as a share of the
    half-width.
    """

    constant: float
    by_share: float
    error: float
    by_cells: float = 0.0
    by_occupied: float = 0.0

    def ratio(self, share: float, cells: float, occupied: float) -> float:
        logarithm = self.constant + self.by_share * math.log10(share)
        logarithm += self.by_cells * math.log10(cells) + self.by_occupied * math.log10(occupied)
        return float(10**logarithm)


# Least squares on a third of the datasets of DPBench at 10³ to 10⁶ rows, as they are and coarsened
# (4,096, 1,024 and 256 cells of a line; 128², 64², 32² and 64 × 16 of a grid), for both kinds of
# neighbours; by number of attributes and by whether the share of the cells with rows is known.
# Squares and products of these terms fitted that third better and the other datasets worse;
# privtree on grids was hardly ever the best. More than two attributes were not measured: they count
# as two.
_FITS = {
    (1, True): {
        "mosaic": _Fit(-0.135, -0.097, 0.41, -0.020, 0.251),
        "privtree": _Fit(-0.414, -0.189, 0.40, 0.088, 0.429),
    },
    (1, False): {"mosaic": _Fit(-0.352, -0.135, 0.41), "privtree": _Fit(-0.405, -0.249, 0.40)},
    (2, True): {"mosaic": _Fit(0.081, 0.0, 0.47, 0.042, 0.583)},
    (2, False): {"mosaic": _Fit(-0.721, -0.128, 0.47)},
}


@dataclass(frozen=True)
class Selection:
    """The chosen method, its parameters, and the reasons."""

    method: str
    parameters: Mapping[str, Any]
    reasons: tuple[str, ...]

    def mechanism(self) -> Mechanism:
        """Return the mechanism for `publish`."""
        return create(self.method, **self.parameters)

    def command(
        self,
        source: str = "FILE",
        schema: str = "SCHEMA",
        output: str = "FOLDER",
        queries: str = "QUERIES",
    ) -> str:
        """Return the shell command that publishes."""
        words = ["scumble", "publish", self.method, source, "--schema", schema]
        for name, value in self.parameters.items():
            if name == "queries" and not isinstance(value, str):
                words += ["--queries", queries]
            elif isinstance(value, list):
                words += [f"--{name}", ",".join(map(str, value))]
            else:
                words += [f"--{name}", format_parameter(value)]
        return shlex.join([*words, "--output", output])

    def __str__(self) -> str:
        reasons = "\n".join(f"  {reason}" for reason in self.reasons)
        return f"{self.method}\n{reasons}\n  {self.command()}"


def select(
    schema: Schema | str | Path,
    attributes: Sequence[str],
    *,
    rows: int,
    epsilon: float,
    delta: float | None = None,
    neighbours: Neighbours,
    workload: WorkloadKind | str | Path | Sequence[str] = "ranges",
    occupied: float | None = None,
) -> Selection:
    """Return the summary that fits a workload.

    `rows` is the approximate number of rows. `workload` says what will be asked: "ranges" of
    ordered attributes, "marginals" of few attributes at a time, single "cells", or the SQL counts
    in a file or list. `occupied` is the approximate share of the cells that have rows, where it is
    publicly known, as for a map that is mostly sea. Do not compute it from the data: a choice that
    depends on them is not covered by the guarantee.
    """
    known = schema if isinstance(schema, Schema) else Schema.load(schema)
    case = _Case(known, attributes, rows, epsilon, delta, neighbours)
    if occupied is not None:
        case.occupied = float(read_share("select", "occupied", occupied)) if occupied != 1 else 1.0
    return case.choose(workload)


class _Case:
    """The public facts about a table, and the parameters of the guarantee."""

    def __init__(
        self,
        schema: Schema,
        attributes: Sequence[str],
        rows: int,
        epsilon: float,
        delta: float | None,
        neighbours: Neighbours,
    ) -> None:
        if neighbours not in NEIGHBOURS:
            raise ParameterError.of("select", "neighbours", "'replace' or 'add_remove'", neighbours)
        self.schema = schema
        self.names = [attributes] if isinstance(attributes, str) else list(attributes)
        if not self.names or len(set(self.names)) < len(self.names):
            allowed = "a list of one or more different attribute names"
            raise ParameterError.of("select", "attributes", allowed, self.names)
        self.sizes = {name: schema[name].size for name in self.names}
        self.cells = math.prod(self.sizes.values())
        self.rows = whole("select", "rows", rows, least=1)
        self.occupied: float | None = None
        self.gaussian = delta is not None
        strength = float(read_epsilon("select", epsilon))
        self.given: dict[str, Any] = {"attributes": self.names, "epsilon": epsilon}
        self.given["neighbours"] = neighbours
        person = PrivacyUnit(neighbours)
        self.told = person.keeps_rows  # the number of rows is published
        self.noise = math.sqrt(2) * person.sensitivity / strength  # of one count, all of ε on it
        if delta is not None:
            rho = rho_for(read_epsilon("select", epsilon), read_delta("select", delta))
            self.given["delta"] = delta
            self.noise = math.sqrt(
                person.squared_sensitivity(nonnegative_gram=True) / (2 * float(rho))
            )

    def choose(self, workload: WorkloadKind | str | Path | Sequence[str]) -> Selection:
        if workload == "ranges":
            return self.ranges()
        if workload == "marginals":
            return self.marginals()
        if workload == "cells":
            return self.single_cells()
        if isinstance(workload, str) and not Path(workload).is_file():
            allowed = f"{', '.join(WORKLOAD_KINDS)}, or a file or list of SQL counts"
            raise ParameterError.of("select", "workload", allowed, workload)
        return self.questions(Path(workload) if isinstance(workload, str) else workload)

    def ranges(self) -> Selection:
        """Choose for ranges of ordered attributes."""
        if self.cells > _MOST_CELLS:
            return self.marginals("There are too many cells for one table.")
        plain, tree = self._plain_error(), self._tree_error()
        best = min(plain, tree)
        grown = self._grown(best)
        if grown is not None:
            return grown
        if self.gaussian:
            why = f"For a range expect {self._expected(tree)}; a histogram takes no delta."
        else:
            why = (
                f"For a range expect {self._expected(plain)} by counts of single cells, and "
                f"{self._expected(tree)} by a hierarchy."
            )
        if plain <= tree:
            return self._selection("histogram", why)
        return self._selection("hierarchy", why)

    def questions(self, workload: Path | Sequence[str]) -> Selection:
        """Choose for the SQL counts of a file or list."""
        grown = self._grown(min(self._plain_error(), self._tree_error()))
        if grown is not None:
            return grown
        given = {**self.given, "queries": workload}
        mechanism = class_of("workload")(given.pop("attributes"), **given)
        try:
            questions = mechanism.questions(self.schema)
        except ParameterError as error:
            other = self.ranges() if len(self.names) <= _MOST_GROWN else self.marginals()
            reasons = (f"These questions do not fit the method workload: {error}", *other.reasons)
            return Selection(other.method, other.parameters, reasons)
        why = (
            f"The {len(questions.asked)} questions tell {questions.merged.cells} kinds of rows "
            "apart: sums can be chosen that answer just these best. How well is said before the "
            "table is read, by `scumble publish` and by `forecast` in Python."
        )
        return self._selection("workload", why, queries=mechanism.parameters["queries"])

    def marginals(self, first: str | None = None) -> Selection:
        """Choose for tables of few attributes."""
        reasons = [first] if first else []
        ways = min(2, len(self.names))
        pairs = [a * b for a, b in _pairs(list(self.sizes.values()))]
        if self.cells <= sum(pairs) or len(self.names) < 3:
            return self.single_cells()
        reasons.append(
            f"{len(pairs)} tables of two attributes have {sum(pairs):,} cells in all, and the "
            f"product of all attributes {large(self.cells)}: small tables have more rows a cell."
        )
        return self._selection("marginals", *reasons, ways=ways)

    def single_cells(self) -> Selection:
        """Choose for single cells, and small sets of them."""
        if not self.gaussian and (self.cells > _MOST_CELLS or self.cells > _SPARSE * self.rows):
            why = (
                f"There are {large(self.cells)} cells for {self.rows:,} rows: nearly all are "
                "empty, and only those that stand out of the noise are worth publishing."
            )
            return self._selection("sparse", why)
        if self.cells > _MOST_CELLS and len(self.names) < 3:
            raise ParameterError(
                f"There are {large(self.cells)} cells, too many for any method with a delta. Leave "
                "delta out, which allows the method sparse, or choose coarser bins."
            )
        if self.cells > _MOST_CELLS:
            return self._selection("marginals", "There are too many cells for one table.", ways=2)
        why = f"One noise on each of {self.cells:,} cells is the least that single cells can have."
        if self.gaussian:
            largest = load("axes", "publish").LARGEST_FANOUT
            flat = min(max(2, *self.sizes.values()), largest)
            return self._selection("hierarchy", why, fanout=flat)
        return self._selection("histogram", why)

    def _grown(self, noise: float) -> Selection | None:
        """Return a partition that follows the data if its intervals are expected to be shorter than
        those of a method with the error `noise`; else None.
        """
        small = len(self.names) <= _MOST_GROWN and self.cells <= _MOST_CELLS
        if self.gaussian or not small or not all(self.schema[name].ordered for name in self.names):
            return None
        half = _HALF * noise
        occupied = max(self.occupied or 1.0, 1 / self.cells)
        fits = _FITS[min(len(self.names), 2), self.occupied is not None]
        found = {
            name: half * fit.ratio(half / self.rows, self.cells, occupied)
            for name, fit in fits.items()
        }
        name = min(found, key=lambda each: found[each])
        if found[name] >= half:
            return None
        why = (
            f"For a range expect {self._expected(noise)} by methods that do not look at the data, "
            f"and {self._expected(fits[name].error * found[name], found[name])} by {name}, which "
            "follows them; the latter from a benchmark, as it depends on the data."
        )
        return self._selection(name, why)

    def _plain_error(self) -> float:
        """Return the error of a range of mean size from a histogram: the noise of all its cells."""
        if self.gaussian:
            return math.inf  # a histogram has Laplace noise
        return self._error([_cell_errors(size) for size in self.sizes.values()])

    def _tree_error(self) -> float:
        """Return the error of a range of mean size from a hierarchy."""
        errors = []
        for name, size in self.sizes.items():
            if not self.schema[name].ordered:
                errors.append(_cell_errors(size))
                continue
            plan = tree_plan(
                size, fanout=None, root=False, gaussian=self.gaussian, budget="uniform"
            )
            errors.append((plan.error, plan.total_error))
        return self._error(errors)

    def _error(self, errors: Sequence[tuple[float, float]]) -> float:
        """Return the error of a product of ranges. `errors` has for each attribute the variance of
        a range, and the part of it along the number of all rows, which is no error if that number
        is published.
        """
        whole, total = (math.prod(each) for each in zip(*errors, strict=True))
        return self.noise * math.sqrt(max(whole - (total if self.told else 0.0), 0.0))

    def _selection(self, method: str, *reasons: str, **more: Any) -> Selection:
        return Selection(method, {**self.given, **more}, reasons)

    @classmethod
    def _expected(cls, error: float, half: float | None = None) -> str:
        """Say half of an interval and the error; by the normal law unless half is given."""
        shown = cls._said(_HALF * error if half is None else half)
        return f"an interval (95 %) of ± {shown} rows (error {cls._said(error)})"

    @staticmethod
    def _said(error: float) -> str:
        return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"


def _cell_errors(size: int) -> tuple[float, float]:
    """Return the mean number of cells of a range, and the mean square of it over all cells."""
    return (size + 2) / 3, (size + 1) * (size + 2) / (6 * size)


def _pairs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return [(a, b) for i, a in enumerate(sizes) for b in sizes[i + 1 :]]


def format_parameter(value: Any) -> str:
    """Return a parameter as a person would type it: 1 for 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

"""The error of a live database after so many questions, on three public tables.

`python -m research live --data FOLDER` prints the root mean square and the median half-width of the
answers to the first questions of one stream, from a release with all of the promise and from a live
database. Every question wants more accuracy than it can get, and the database does not know how
many there will be. What is printed follows from variances: nothing of it is random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.csv

import scumble as sc
from research.study import Row, Step
from scumble.families.axes.publish import Dyadic
from scumble.model.laws.base import normal_quantile
from scumble.private.database.live.lines import Asked
from scumble.private.database.live.state import Goal, LiveState
from scumble.private.database.live.terms import LiveTerms, base_of
from scumble.private.database.space import Space
from scumble.public.estimation.measurements.kronecker import ProductReader
from scumble.public.estimation.measurements.readings import Weights, WeightTensor

if TYPE_CHECKING:
    from rich.table import Table

Floats = npt.NDArray[np.float64]

# Files, and their columns: whether each is ordered.
TABLES: Mapping[str, tuple[str, Mapping[str, bool]]] = {
    "kdd": (
        "census_income_kdd_299285.csv.gz",
        {"age": True, "sex": False, "race": False, "weeks_worked_in_year": True},
    ),
    "census": (
        "census_like_kdd_employed.csv.gz",
        {"age": True, "sex": False, "education": False, "marital_stat": False},
    ),
    "adult": (
        "adult_train_complete_30162.csv",
        {"age": True, "sex": False, "education-num": True, "hours-per-week": True},
    ),
}
QUESTIONS, QUICK = (10, 100, 500, 2_000), (10, 100)
WIDTHS = (0.05, 0.1, 0.2, 0.4)  # of a domain
_ALL_THAT_IS_LEFT = Goal(1e-9, 0.95)


@dataclass(frozen=True)
class LiveFigure:
    """The errors of the first `questions` of the stream: the root of the mean variance, and the
    median half-width at 95 %, of a release and of a live database; how many it answered for free.
    """

    table: str
    questions: int
    release: tuple[float, float]
    live: tuple[float, float]
    free: int


def read_schema(folder: Path, name: str) -> tuple[sc.Schema, int]:
    """Return the columns of a table with the values that are there, and the number of rows."""
    file, columns = TABLES[name]
    convert = pyarrow.csv.ConvertOptions(include_columns=list(columns))
    table = pyarrow.csv.read_csv(folder / file, convert_options=convert)
    attributes = []
    for column, ordered in columns.items():
        values = sorted(set(table.column(column).to_pylist()))
        domain = sc.IntegerRange(values[0], values[-1]) if ordered else sc.Category(tuple(values))
        attributes.append(sc.Attribute(column, "quasi", domain))
    return sc.Schema(tuple(attributes)), len(table)


def stream(schema: sc.Schema, questions: int) -> Iterator[Weights]:
    """Yield questions about one to three attributes: ranges, values and sets of three values."""
    generator = np.random.default_rng(7)
    for _ in range(questions):
        asked = generator.choice([1, 2, 3], p=[0.3, 0.45, 0.25])
        parts = []
        for place in generator.choice(len(schema.names), size=asked, replace=False):
            attribute = schema[schema.names[place]]
            size, mask = attribute.size, np.zeros(attribute.size)
            if attribute.ordered:
                width = max(1, round(generator.choice(WIDTHS) * size))
                start = generator.integers(0, size - width + 1)
                mask[start : start + width] = 1
            elif size > 3 and generator.random() < 0.15:
                mask[generator.choice(size, 3, replace=False)] = 1
            else:
                mask[generator.integers(size)] = 1
            parts.append(WeightTensor((attribute.name,), mask))
        yield Weights(tuple(parts))


def measure(
    folder: Path, name: str, lengths: tuple[int, ...], share: float = 0.75, largest: float = 0.125
) -> Iterator[LiveFigure]:
    """Yield the errors after so many questions, for each of the `lengths`."""
    schema, rows = read_schema(folder, name)
    whole = Dyadic(schema.names, epsilon=1, delta=1e-9, neighbours="replace")
    design = whole.design(schema)
    release = ProductReader.of_numbers(design, schema, np.zeros(design.size), rows)
    base = base_of(whole, share, ())
    terms = LiveTerms.read(whole, base, largest_purchase=largest, quotas=None, seeded=False)
    planned = base.design(schema)
    zeros, space = np.zeros(planned.size), Space(schema, schema.names)
    state = LiveState(terms, space, planned, schema, zeros, rows)
    variances: list[tuple[float, float]] = []
    free = 0
    for weights in stream(schema, max(lengths)):
        plan = state.plan(Asked(0, (), weights), _ALL_THAT_IS_LEFT, None)
        if not plan.purchases:
            free += 1
        for purchase in plan.purchases:
            state.add(purchase, 0, None)
        variances.append((release.read(weights).variance, state.reader.read(weights).variance))
        if len(variances) in lengths:
            both = [_errors(np.array(each)) for each in zip(*variances, strict=True)]
            yield LiveFigure(name, len(variances), both[0], both[1], free)


def study(folder: Path, lengths: tuple[int, ...], step: Step) -> Iterator[Row]:
    """Yield the figures of all tables as rows."""
    for name in TABLES:
        step(name)
        for figure in measure(folder, name, lengths):
            yield asdict(figure)


def as_table(rows: Iterable[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    title = "Errors at ε = 1, δ = 1e-9, rows replaced: rms / median half-width at 95 %"
    table = Table(title=title, title_justify="left")
    for name in ("table", "questions", "release", "live", "free"):
        table.add_column(name, justify="left" if name == "table" else "right")
    for row in rows:
        pairs = [f"{row[name][0]:.1f} / {row[name][1]:.1f}" for name in ("release", "live")]
        table.add_row(row["table"], f"{row['questions']:,}", *pairs, f"{row['free']:,}")
    return table


def _errors(variances: Floats) -> tuple[float, float]:
    reach = normal_quantile(0.975)
    return float(np.sqrt(variances.mean())), reach * float(np.sqrt(np.median(variances)))

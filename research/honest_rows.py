"""The study of honest intervals for Anatomy and Sparse: coverage and half-width of counts on Adult
and on people of a census, with and without what groups and left-out cells leave open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from research.honest import ADULT, LEVEL, Answers, Cell, Scale
from research.study import Step
from scumble.model.errors import SourceError
from scumble.model.privacy.accounting import Neighbours
from scumble.private.mechanism import Mechanism
from scumble.public.estimate import Exact

CENSUS = "census_like_kdd_employed.csv.gz"
# The columns of each table; the last one is the sensitive one.
COLUMNS = {
    ADULT: ("age", "sex", "education-num", "marital-status", "occupation"),
    CENSUS: ("age", "sex", "education", "marital_stat", "detailed_occupation_recode"),
}
COUNTED = ("a", "c", "e")  # of these five, the columns of Sparse
EPSILONS = (0.1, 1.0)  # of Sparse
DIVERSITIES = (2, 3)  # of Anatomy
RELEASES = 10  # for each of a table of DPBench, of which there are many more
ROUNDING = 1e-6  # of limits, in rows


@dataclass(frozen=True, eq=False)
class People:
    """A table whose columns are codes from 0."""

    name: str
    codes: dict[str, npt.NDArray[np.int64]]

    @classmethod
    def read(cls, file: Path) -> People:
        """Read the columns of a file of the study; values are numbered in their order."""
        from pyarrow import csv

        if not file.is_file():
            raise SourceError(f"There is no file {file.name} in {file.parent}: say --data FOLDER.")
        table = csv.read_csv(file)
        name = "adult" if file.name == ADULT else "census"
        values = [table[column].to_numpy(zero_copy_only=False) for column in COLUMNS[file.name]]
        codes = [np.unique(each, return_inverse=True)[1].astype(np.int64) for each in values]
        return cls(name, dict(zip("abcde", codes, strict=True)))

    @property
    def sizes(self) -> dict[str, int]:
        return {name: int(each.max()) + 1 for name, each in self.codes.items()}

    def shape(self, names: Sequence[str]) -> tuple[tuple[int, ...], float]:
        """Return the sizes of some columns, and the share of their cells that have rows."""
        sizes = tuple(self.sizes[name] for name in names)
        used = np.unique(np.ravel_multi_index([self.codes[name] for name in names], sizes))
        return sizes, len(used) / prod(sizes)

    @property
    def schema(self) -> sc.Schema:
        *others, secret = self.sizes
        roles = {**dict.fromkeys(others, "quasi"), secret: "sensitive"}
        return sc.Schema(
            tuple(
                sc.Attribute(name, roles[name], sc.IntegerRange(0, size - 1))  # type: ignore[arg-type]
                for name, size in self.sizes.items()
            )
        )

    def questions(self, names: Sequence[str], number: int, seed: int) -> Iterator[tuple[str, int]]:
        """Yield random counts over some columns with their true answers: a range of the first, a
        third of the values of one between, and a third of the values of the last.
        """
        draw, sizes = np.random.default_rng([seed, 4]), self.sizes
        first, *others, secret = names
        for _ in range(number):
            low, high = np.sort(draw.integers(0, sizes[first], 2)).tolist()
            inside = (self.codes[first] >= low) & (self.codes[first] <= high)
            parts = [f"{first} BETWEEN {low} AND {high}"]
            for name in (str(draw.choice(others)), secret):
                some = draw.permutation(sizes[name])[: max(sizes[name] // 3, 1)]
                parts.append(f"{name} IN ({', '.join(map(str, some))})")
                inside &= np.isin(self.codes[name], some)
            yield f"SELECT COUNT(*) FROM t WHERE {' AND '.join(parts)}", int(inside.sum())


def methods(neighbours: Neighbours) -> Iterator[tuple[str, float, Mechanism]]:
    """Yield the releases of the study: their name, ε (0 for Anatomy) and mechanism."""
    for least in DIVERSITIES:
        yield f"anatomy, l = {least}", 0.0, sc.Anatomy(l=least, suppress=True)
    for epsilon in EPSILONS:
        mechanism = sc.Sparse(list(COUNTED), epsilon=epsilon, neighbours=neighbours)
        yield f"sparse, ε = {epsilon:g}", epsilon, mechanism


def study(folder: Path, scale: Scale, step: Step, seed: int = 1) -> Iterator[Cell]:
    """Yield a cell for each table and method: the answers that are not exact."""
    neighbours, releases = scale.neighbours, range(RELEASES * scale.runs)
    for file in COLUMNS:
        people = People.read(folder / file)
        schema, table = people.schema, pa.table(people.codes)
        for name, epsilon, mechanism in methods(neighbours):
            step(f"{people.name}, {name}")
            names = COUNTED if isinstance(mechanism, sc.Sparse) else schema.names
            asked = list(people.questions(names, scale.questions, seed))
            made = (
                sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed + run))
                for run in releases
            )
            found = Answers.joined([_answers(release, asked) for release in made])
            shape, occupied = people.shape(names)
            where, rows = f"{people.name}: {', '.join(names)}", table.num_rows
            yield Cell(where, shape, rows, occupied, epsilon, neighbours, name, found)


def _answers(release: sc.Release, asked: Sequence[tuple[str, int]]) -> Answers:
    """Return the answers that are not exact."""
    estimates = cast(list[sc.Estimate], release.answer_many([sql for sql, _ in asked]))
    found = []
    for estimate, (_, truth) in zip(estimates, asked, strict=True):
        if isinstance(estimate.law, Exact):
            continue
        both = [estimate.noise_interval(LEVEL), estimate.interval(LEVEL)]
        halves = [(high - low) / 2 for low, high in both]
        holds = [low - ROUNDING <= truth <= high + ROUNDING for low, high in both]
        found.append((estimate.value - truth, *halves, *holds, True))
    return Answers(*(np.array(column) for column in zip(*found, strict=True)))

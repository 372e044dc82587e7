"""How near rows are to the noisy tables that they were drawn from; the data have no part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi, sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa

from scumble.model.errors import writing
from scumble.model.long_work import tell
from scumble.model.notebook import html_notes, html_table
from scumble.public.html_page import render_page
from scumble.public.synthesis.noisy_tables import NoisyTable
from scumble.public.synthesis.row_fitting import counts_of
from scumble.public.synthesis.tree_model import Codes

MOST_WAYS = 3
AS_MEASURED, NEAR, FAR = "as measured", "near", "far"
_LISTED = 10  # tables that are far, the furthest first
_HEAD = ("columns", "cells", "distance", "noise alone", "verdict")
MEANING = {
    AS_MEASURED: "The rows are as near to what was measured as the noise allows.",
    NEAR: "The rows are a little further than the noise explains: by half, or by 0.05.",
    FAR: "The rows do not show what was measured: ask the release instead.",
}


@dataclass(frozen=True, eq=False)
class Quality:
    """How near rows are to the noisy tables: `table` has a line for each, with a verdict."""

    table: pa.Table

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.table[name]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of the table."""
        names: list[str] = self.table.column_names
        return names

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the lines of the table."""
        lines: list[dict[str, Any]] = self.table.to_pylist()
        return lines

    def far(self) -> list[str]:
        """Return the columns, pairs and triples for which the rows do not show what was measured,
        the furthest first.
        """
        found = [each for each in self.to_pylist() if each["verdict"] == FAR]
        found.sort(key=lambda each: each["noise"] - each["distance"])
        return [" and ".join(each["attributes"]) for each in found]

    def save(self, path: str | Path, title: str = "Synthetic rows") -> None:
        """Write the report as an HTML page."""
        page = render_page(
            __package__,
            title=title,
            summary=self._summary(),
            groups=self._groups(),
            head=_HEAD,
            meaning=MEANING,
        )
        with writing(path):
            Path(path).write_text(page, "utf-8")

    def _summary(self) -> str:
        """Return how many tables have each verdict, and which are far."""
        given = [each["verdict"] for each in self.to_pylist()]
        counts = ", ".join(f"{given.count(each)} {each}" for each in MEANING if each in given)
        far = self.far()
        listed = ", ".join(far[:_LISTED]) + (
            f" and {len(far) - _LISTED} more" * (len(far) > _LISTED)
        )
        return f"Of {len(given)} tables: {counts}.{f' Far: {listed}.' if far else ''}"

    def _groups(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """Return titles and lines by the number of attributes of a table."""
        titles = {1: "Columns", 2: "Pairs of columns", 3: "Three columns"}
        lines = self.to_pylist()
        ways = sorted({each["ways"] for each in lines})
        return [(titles[w], [_line(e) for e in lines if e["ways"] == w]) for w in ways]

    def __repr__(self) -> str:
        return f"Quality of {len(self)} tables; far: {', '.join(self.far()) or 'none'}"

    def _repr_html_(self) -> str:
        body = [_line(each) for each in self.to_pylist()]
        return html_table(_HEAD, body, 1) + html_notes(f"{k}: {v}" for k, v in MEANING.items())


def _line(each: dict[str, Any]) -> tuple[str, ...]:
    numbers = (f"{each['cells']:,}", f"{each['distance']:.3f}", f"{each['noise']:.3f}")
    return (" × ".join(each["attributes"]), *numbers, each["verdict"])


def verdict(distance: float, noise: float, cells: int, number: int) -> str:
    """Return how near `number` rows are to a table of `cells` noisy counts.

    The noise makes a distance of `noise` in the mean, and in all but about 5 % at most two standard
    deviations more; rounding to whole rows adds at most half a row for each cell.
    """
    spread = 2 * noise * sqrt((pi / 2 - 1) / cells)
    allowed = noise + spread + cells / (2 * max(number, 1))
    if distance <= allowed:
        return AS_MEASURED
    return NEAR if distance <= max(1.5 * allowed, allowed + 0.05) else FAR


def quality(
    names: Sequence[str],
    columns: Sequence[Codes],
    sizes: Sequence[int],
    tables: Sequence[NoisyTable],
    total: float,
) -> Quality:
    """Return, for every noisy table of up to three attributes (of larger ones, for the sums by
    their single attributes and pairs), its L1 distance from the table of
    the rows, both as shares, and the distance that the noise alone would make.

    A distance near that of the noise is all that can be asked for: the noisy table is that far from
    the truth. A larger one tells that the rows do not show what was measured.
    """
    found = sorted(_small(tables), key=lambda each: (len(each.places), each.places))
    number = max(len(columns[0]), 1)
    distances, noises = [], []
    for done, each in enumerate(found, 1):
        shape = [sizes[place] for place in each.places]
        shares = counts_of(columns, each.places, shape) / number
        distances.append(float(abs(each.counts / total - shares).sum()))
        noises.append(sqrt(2 / pi * each.variance) * each.cells / total)
        tell(done, len(found))
    lines = [
        ([names[place] for place in each.places], each.cells, distance, noise)
        for each, distance, noise in zip(found, distances, noises, strict=True)
    ]
    return report(lines, number)


def report(lines: Sequence[tuple[Sequence[str], int, float, float]], number: int) -> Quality:
    """Return the report on `number` rows: the attributes of each noisy table, its cells, and the
    distances of the rows and of the noise.
    """
    table = pa.table(
        {
            "attributes": pa.array([list(line[0]) for line in lines], pa.list_(pa.string())),
            "ways": pa.array([len(line[0]) for line in lines], pa.int64()),
            "cells": pa.array([line[1] for line in lines], pa.int64()),
            "distance": pa.array([line[2] for line in lines], pa.float64()),
            "noise": pa.array([line[3] for line in lines], pa.float64()),
            "verdict": pa.array([verdict(d, n, c, number) for _, c, d, n in lines], pa.string()),
        }
    )
    return Quality(table)


def _small(tables: Sequence[NoisyTable]) -> list[NoisyTable]:
    found = {each.places: each for each in tables if len(each.places) <= MOST_WAYS}
    for each in tables:
        if len(each.places) > MOST_WAYS:
            for ways in (1, 2):
                for places in combinations(each.places, ways):
                    found.setdefault(places, each.along(places))
    return list(found.values())

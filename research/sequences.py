"""Sequences on public files: errors of the number of sequences that contain a string, and how many
of the most frequent strings are found, from rows that are drawn from a release.

    python -m research sequences --data FOLDER

The strings are those of the papers on prefix trees and suffix trees: 1 to 5 symbols, half of them
taken from the data and half uniform. The error is |estimate - truth| / max(truth, 0.1 % of all
sequences).
"""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from scumble.families.sequences.read.models import RunModel
from scumble.families.sequences.read.rows import draw_sequences
from scumble.model.schema.lists import ListDomain

if TYPE_CHECKING:
    from rich.table import Table

Integers = npt.NDArray[np.int64]
LONGEST = 5
STRINGS = 2000
TOP = 100
BOUND = 0.001  # of all sequences: smaller truths count as this


@dataclass(frozen=True, eq=False)
class Rows:
    """Sequences of codes: sequence i has codes[offsets[i] : offsets[i + 1]]."""

    codes: Integers
    offsets: Integers
    symbols: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def containing(self) -> dict[int, dict[int, int]]:
        """The number of sequences that contain each string, by length and key."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        left = np.repeat(self.offsets[1:], np.diff(self.offsets)) - np.arange(len(self.codes))
        keys: Integers = np.zeros(len(self.codes), np.int64)
        found = {}
        for length in range(1, LONGEST + 1):
            at = np.flatnonzero(left >= length)
            keys[at] = keys[at] * self.symbols + self.codes[at + length - 1]
            names, number = np.unique(keys[at], return_inverse=True)
            pairs = np.unique(owner[at] * np.int64(len(names) + 1) + number)
            times = np.bincount(pairs % (len(names) + 1), minlength=len(names))
            found[length] = dict(zip(names.tolist(), times.tolist(), strict=True))
        return found

    def strings(self, random: np.random.Generator, number: int) -> Iterator[tuple[int, int]]:
        """Yield the lengths and keys of strings that occur, each by a random place and length."""
        ends = np.repeat(self.offsets[1:], np.diff(self.offsets))
        while number:
            at, length = int(random.integers(len(self.codes))), int(random.integers(1, LONGEST + 1))
            if at + length <= ends[at]:
                number -= 1
                yield length, self.key(self.codes[at : at + length])

    def key(self, codes: Integers) -> int:
        key = 0
        for code in codes.tolist():
            key = key * self.symbols + code
        return key

    def top(self) -> set[tuple[int, int]]:
        """The most frequent strings of all lengths; ties by length and key."""
        every = (
            (-n, size, key) for size, keys in self.containing.items() for key, n in keys.items()
        )
        return {(size, key) for _, size, key in sorted(every)[:TOP]}


@dataclass(frozen=True)
class Measured:
    """The errors on strings of the data and on uniform ones, the precision, and CPU seconds."""

    data: float
    uniform: float
    precision: float
    seconds: float


def measured(truth: Rows, drawn: Rows, random: np.random.Generator) -> tuple[float, float, float]:
    """Return the two mean relative errors and the precision of the most frequent strings."""
    uniform = [
        (size, truth.key(random.integers(truth.symbols, size=size)))
        for size in random.integers(1, LONGEST + 1, STRINGS // 2).tolist()
    ]
    errors = []
    for strings in (list(truth.strings(random, STRINGS // 2)), uniform):
        pairs = [
            (truth.containing[size].get(key, 0), drawn.containing[size].get(key, 0))
            for size, key in strings
        ]
        true, found = np.array(pairs, float).T
        errors.append(float((abs(found - true) / np.maximum(true, BOUND * len(truth))).mean()))
    return errors[0], errors[1], len(truth.top() & drawn.top()) / TOP


# --- rows from a release -------------------------------------------------------------------------


def draw_rows(release: sc.Release, number: int, random: np.random.Generator) -> Rows:
    """Return sequences drawn from the model of a suffix release, all steps of one place at once."""
    reader: Any = release._reader_with("next")
    model = reader.model
    if isinstance(model, RunModel):
        raise TypeError("rows are drawn from suffix trees")
    codes, offsets = draw_sequences(model, number, random)
    return Rows(codes, offsets, model.design.alphabet)


# --- the files -----------------------------------------------------------------------------------


def read_texts(path: Path, column: str) -> list[list[str]]:
    """Return the lists of a column of texts."""
    with _open(path) as file:
        return [row[column].split() for row in csv.DictReader(file)]


def read_stops(path: Path) -> list[list[str]]:
    """Return the neighbourhoods of police stops by precinct and two hours, in the order of time."""
    with _open(path) as file:
        rows = [row for row in csv.DictReader(file) if row["neighborhood"] not in ("", "NA")]

    def shift(row: dict[str, str]) -> tuple[str, str, int]:
        return row["policePrecinct"], row["date"][:10], int(row["date"][11:13]) // 2

    rows.sort(key=lambda row: (shift(row), row["date"]))
    return [[row["neighborhood"] for row in rows] for _, rows in groupby(rows, shift)]


def _open(path: Path) -> Any:
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


@dataclass(frozen=True, eq=False)
class File:
    """A table of sequences with its schema; `length` is given to the mechanism."""

    name: str
    sequences: list[list[str]]
    length: int

    @cached_property
    def values(self) -> list[str]:
        return sorted({value for each in self.sequences for value in each})

    @cached_property
    def schema(self) -> sc.Schema:
        domain = ListDomain("sequence", sc.Category(tuple(self.values)))
        return sc.Schema((sc.Attribute("x", "sensitive", domain),))

    @cached_property
    def table(self) -> pa.Table:
        return pa.table({"x": pa.array(self.sequences, pa.list_(pa.string()))})

    @cached_property
    def rows(self) -> Rows:
        codes = {value: code for code, value in enumerate(self.values)}
        flat = np.array([codes[value] for each in self.sequences for value in each])
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in self.sequences])])
        return Rows(flat, offsets, len(codes))


def files(folder: Path) -> list[File]:
    """The three public files."""
    return [
        File("msnbc_spmf", read_texts(folder / "msnbc_spmf_31790.csv.gz", "pages"), 50),
        File("mpls_stops", read_stops(folder / "mpls_stops_51920.csv.gz"), 50),
        File("bms_webview1", read_texts(folder / "bms_webview1.csv", "items"), 50),
    ]


def measure(file: File, seed: int, epsilon: float = 1, **more: Any) -> Measured:
    """Return the figures of one release of a file."""
    began = time.process_time()
    given: dict[str, Any] = {
        "length": file.length,
        "epsilon": epsilon,
        "neighbours": "add_remove",
    } | more
    release = sc.publish(
        file.table, file.schema, sc.Sequences("x", **given), options=sc.PublishOptions(seed=seed)
    )
    seconds = time.process_time() - began
    random = np.random.default_rng(seed)
    drawn = draw_rows(release, len(file.rows), random)
    return Measured(*measured(file.rows, drawn, random), seconds)


# Figures of prototypes in the specification of this experiment, at ε = 1: error on strings of the
# data, error on uniform strings, precision.
REFERENCE = {
    "msnbc_spmf": (0.16, 0.23, 0.93),
    "mpls_stops": (0.28, 0.08, 0.86),
    "bms_webview1": (0.29, 0.10, 0.87),
}


def study(folder: Path, step: Callable[[str], None], seeds: int = 20) -> Iterator[dict[str, Any]]:
    """Yield the means over releases of every file, with their standard errors."""
    for file in files(folder):
        for epsilon in (0.5, 1.0):
            step(f"{file.name}, ε = {epsilon:g}")
            found = [measure(file, seed, epsilon) for seed in range(seeds)]
            numbers = np.array([list(vars(each).values()) for each in found])
            errors = numbers.std(axis=0, ddof=1) / np.sqrt(seeds)
            names = ("error, data", "error, uniform", "precision", "seconds")
            yield {
                "file": file.name,
                "epsilon": epsilon,
                **dict(zip(names, numbers.mean(axis=0).tolist(), strict=True)),
                "standard errors": errors[:3].tolist(),
            }


def as_table(rows: Iterable[dict[str, Any]]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    table = Table(title="Rows drawn from suffix trees", title_justify="left")
    for name in ("file", "ε", "error, data", "error, uniform", "precision at 100", "CPU seconds"):
        table.add_column(name, justify="left" if name == "file" else "right")
    for row in rows:
        figures = zip(
            (row["error, data"], row["error, uniform"], row["precision"]),
            row["standard errors"],
            strict=True,
        )
        cells = [f"{value:.3f} ± {error:.3f}" for value, error in figures]
        table.add_row(row["file"], f"{row['epsilon']:g}", *cells, f"{row['seconds']:.2f}")
    return table

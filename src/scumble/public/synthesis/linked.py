"""LinkedRelease: a table of people and tables with several rows for each of them, with synthetic
rows whose foreign keys join.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlglot
from sqlglot import exp

from scumble.model.errors import (
    OutputExistsError,
    ParameterError,
    QueryError,
    ReleaseError,
    writing,
)
from scumble.model.long_work import portion
from scumble.model.parameters import whole
from scumble.model.privacy.guarantee import Guarantees
from scumble.model.relational import is_address
from scumble.model.schema.schema import Schema
from scumble.public.archive.archive import LINKS, check_new_place, is_free
from scumble.public.archive.relations import address_of_table, save_linked_relation
from scumble.public.asking import Asking
from scumble.public.estimate import ALL, Estimate, Estimates, GroupingColumn, Unknown
from scumble.public.estimate_table import EstimateTable
from scumble.public.limits import one_question
from scumble.public.release import Release
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.quality import Quality
from scumble.public.views import MOST_ROWS

Integers = npt.NDArray[np.int64]

JOINED = "model: counted in joined synthetic rows"
_UNKNOWN = "computed from synthetic rows: a model, whose error is not known"
_SEED = 0


@dataclass(frozen=True, eq=False)
class LinkedRelease(Asking):
    """Releases of several tables about the same people, under one promise.

    `tables` are the releases by name, that of the people first. `keys` are the key columns: the
    people's own, and the foreign key of each other table. The table of people has the column
    `number of NAME` for each other table; those have the columns `given` of their person.
    """

    tables: Mapping[str, Release]
    keys: Mapping[str, str]
    given: Mapping[str, tuple[str, ...]]
    guarantees: Guarantees

    def __getitem__(self, name: str) -> Release:
        """Return the release of one table, which answers questions about it with exact errors."""
        if name not in self.tables:
            raise ParameterError.of("tables", "name", f"one of {', '.join(self.tables)}", name)
        return self.tables[name]

    @property
    def people(self) -> str:
        """The name of the table of people."""
        return next(iter(self.tables))

    def rows(self, n: int | None = None, *, seed: int | None = None) -> dict[str, pa.Table]:
        """Return synthetic tables: `n` people with keys from 0 on, and the rows of each of them in
        the other tables, with foreign keys that join.
        """
        if n is not None:
            whole("rows", "n", n, least=0, most=MOST_ROWS)
        with portion(0, 1 / len(self.tables)):
            people = self.tables[self.people].synthetic.rows(n, seed=seed)
        keys = pa.array(np.arange(people.num_rows))
        found = {self.people: people.add_column(0, self.keys[self.people], keys)}
        generator = np.random.default_rng(seed)
        for done, name in enumerate(list(self.tables)[1:], 1):
            with portion(done / len(self.tables), (done + 1) / len(self.tables)):
                found[name] = self._children(name, people, generator)
            place = found[self.people].column_names.index(number_of(name))
            found[self.people] = found[self.people].remove_column(place)
        return found

    def _children(self, name: str, people: pa.Table, generator: np.random.Generator) -> pa.Table:
        """Return the rows of another table: as many for each person as the person's number says,
        each drawn among rows of the model that have the person's given columns.
        """
        numbers = people[number_of(name)].to_numpy()
        owners = np.repeat(np.arange(people.num_rows), numbers)
        release, given = self.tables[name], self.given[name]
        drawn = release.synthetic.rows(len(owners), seed=int(generator.integers(1 << 62)))
        wanted = _cells(release.schema, given, people)[owners]
        chosen = match_cells(wanted, _cells(release.schema, given, drawn), generator)
        kept = drawn.drop_columns(list(given)).take(pa.array(chosen))
        return kept.add_column(0, self.keys[name], pa.array(owners))

    def quality(self, rows: Mapping[str, pa.Table]) -> dict[str, Quality]:
        """Return for every table how far its synthetic rows are from the noisy tables, never from
        the data. `rows` are all tables, as `LinkedRelease.rows` draws them.
        """
        people, found = rows[self.people], {}
        for name in list(self.tables)[1:]:
            owners = rows[name][self.keys[name]].to_numpy()
            table = rows[name]
            for each in self.given[name]:
                table = table.append_column(each, rows[self.people][each].take(pa.array(owners)))
            found[name] = self.tables[name].synthetic.quality(table)
            numbers = np.bincount(owners, minlength=people.num_rows)
            people = people.append_column(number_of(name), pa.array(numbers))
        return {self.people: self.tables[self.people].synthetic.quality(people), **found}

    def ask(
        self, sql: str, *, tables: Mapping[str, Any] | None = None, clamp: bool = False
    ) -> Estimate | Estimates | EstimateTable:
        """Answer a question about one table by its release; one with a JOIN from synthetic rows,
        marked as a model, with no interval. `tables` and `clamp` are as in `Release.ask`, for
        questions about one table.
        """
        side = tables or {}
        question = _parsed(sql)
        asked = _tables_in(question)
        names = [name for name in asked if name not in side]
        unknown = [name for name in names if name not in self.tables]
        if unknown or not names:
            listed = ", ".join(self.tables)
            got = f" Got {', '.join(unknown)}." if unknown else ""
            raise QueryError(f"FROM names a table of this release: {listed}.{got}")
        if len(names) == 1:
            return self.tables[names[0]].ask(sql, tables=tables, clamp=clamp)
        if len(names) < len(asked):
            raise QueryError("A question that joins tables of this release takes no other tables.")
        totals = _total_columns(question)
        with one_question():
            found = self._sandbox.rows(_with_groupings(question, totals) if totals else sql)
        number = found.num_columns - len(totals)
        labels, marks = found.select(range(number)), found.select(range(number, found.num_columns))
        columns = {each.name for each in question.find_all(exp.Column)}
        notes = dict.fromkeys(
            f"{name}: {note}"
            for name in names
            for note in self.tables[name].manifest.left_out(columns)
        )
        at = dict(zip(totals, (column.to_numpy() for column in marks.columns), strict=True))
        order = None if question.args.get("order") else self._order(labels, at)
        if order is not None:
            labels = labels.take(pa.array(order))
            at = {place: each[order] for place, each in at.items()}
        return _estimates(labels, at, (_UNKNOWN, *notes), question.expressions[-1].alias)

    answer = ask

    def _order(self, found: pa.Table, totals: Mapping[int, Integers]) -> Integers | None:
        """Return the order of rows by all columns but the last: by the code of an attribute's
        value, or else by value; totals are last. None if there are no such columns.
        """
        keys = []
        for place, name in enumerate(found.column_names[:-1]):
            if place in totals:
                keys.append(totals[place])
            column = found[place].combine_chunks()
            known = [each.schema[name] for each in self.tables.values() if name in each.schema]
            fits = bool(known) and (known[0].missing or not column.null_count)
            if fits and known[0].domain is not None and column.type == known[0].arrow_type:
                keys.append(known[0].encode(column)[0].astype(np.int64))
                continue
            values = column.to_pylist()
            ranks = {value: rank for rank, value in enumerate(sorted({*values} - {None}))}
            keys.append(np.array([ranks.get(value, len(ranks)) for value in values], np.int64))
        return np.lexsort(keys[::-1]) if keys else None

    @cached_property
    def _sandbox(self) -> Sandbox:
        found = Sandbox(self.tables[self.people].schema)
        for name, table in self.rows(seed=_SEED).items():
            found.add_table(name, table)
        return found

    def save(self, folder: str | Path, *, insecure: bool = False) -> Path | str:
        """Write all tables to a new folder, or to tables in a database whose names begin with that
        of the address (`postgresql://user@host/database/schema.name` or `sqlite:///file.db/name`),
        completely or not at all; return the place.
        """
        links = {
            "tables": list(self.tables),
            "keys": dict(self.keys),
            "given": {name: list(each) for name, each in self.given.items()},
            "guarantees": [each.to_dict() for each in self.guarantees],
        }
        if isinstance(folder, str) and is_address(folder):
            return save_linked_relation(self.tables, links, folder, insecure=insecure)
        path = Path(folder)
        check_linked_folder(path)
        try:
            with writing(path, ReleaseError):
                path.mkdir(parents=True, exist_ok=True)
                for name, release in self.tables.items():
                    release.save(path / name, insecure=insecure)
                (path / LINKS).write_text(json.dumps(links, ensure_ascii=False, indent=2), "utf-8")
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return path

    def __repr__(self) -> str:
        promises = "\n".join(f"  {guarantee}" for guarantee in self.guarantees)
        return f"Linked releases of {', '.join(self.tables)}\n{promises}"


def check_linked_folder(folder: Path) -> None:
    """Raise `ReleaseError` unless releases of several tables may go to the folder."""
    check_new_place(folder)
    if not is_free(folder):
        raise OutputExistsError.of(folder, "Choose another folder.")


def place_of_table(place: str | Path, name: str) -> str | Path:
    """Return the folder or the address of the release of one of several tables."""
    if isinstance(place, str) and is_address(place):
        return address_of_table(place, name)
    return Path(place) / name


def number_of(name: str) -> str:
    """Return the name of the column with the number of rows of a person in another table."""
    return f"number of {name}"


def _cells(schema: Schema, names: tuple[str, ...], rows: pa.Table) -> Integers:
    """Return the number of the cell of some columns that each row is in."""
    if not names:
        return np.zeros(rows.num_rows, np.int64)
    codes = [schema[name].encode(rows[name])[0] for name in names]
    return schema.cell_keys(names).pack(codes).astype(np.int64)


def match_cells(wanted: Integers, held: Integers, generator: np.random.Generator) -> Integers:
    """Return for each wanted cell the place of a row that is in it, each row about as often as the
    others of its cell; of a cell without rows, that of any row.
    """
    order = generator.permutation(len(held))
    order = order[np.argsort(held[order], kind="stable")]
    cells, starts, sizes = np.unique(held[order], return_index=True, return_counts=True)
    if not len(cells):
        return np.zeros(0, np.int64)
    place = np.searchsorted(cells, wanted).clip(max=len(cells) - 1)
    there = cells[place] == wanted
    turn = _turns(wanted)
    found = order[starts[place] + turn % sizes[place]]
    anyone = generator.integers(len(held), size=len(wanted))
    return np.where(there, found, anyone)


def _turns(values: Integers) -> Integers:
    """Return how often each value occurred before."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(starts, len(values)))
    found = np.empty(len(values), np.int64)
    found[order] = np.arange(len(values)) - np.repeat(starts, sizes)
    return found


def _parsed(sql: str) -> exp.Select:
    """Return one SELECT from tables; QueryError for anything else."""
    try:
        statements = sqlglot.parse(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        raise QueryError("The question is not SQL that can be read.") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QueryError("Ask one SELECT.")
    if any(each.name == "" or each.args.get("db") for each in statements[0].find_all(exp.Table)):
        raise QueryError("FROM names tables of this release only, and calls no function.")
    return statements[0]


def _tables_in(question: exp.Select) -> list[str]:
    """Return the tables that a SELECT names, each once."""
    return list(dict.fromkeys(each.name for each in question.find_all(exp.Table)))


def _total_columns(question: exp.Select) -> list[int]:
    """Return the places of the selected columns that may be totals of ROLLUP and the like."""
    group = question.args.get("group")
    if group is None or not group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        return []
    labels = enumerate(question.expressions[:-1])
    return [place for place, each in labels if isinstance(each.unalias(), exp.Column)]


def _with_groupings(question: exp.Select, places: Sequence[int]) -> str:
    """Return a question that also selects GROUPING of some of its columns, after the others."""
    columns = [question.expressions[place].unalias().copy() for place in places]
    calls = (exp.Anonymous(this="GROUPING", expressions=[column]) for column in columns)
    return question.select(*calls).sql("duckdb")


def _estimates(
    found: pa.Table, totals: Mapping[int, Integers], notes: tuple[str, ...], alias: str
) -> Estimate | Estimates:
    """Return numbers that were computed from rows: the last column by those before it, under the
    name that the question gives it. `totals` says of columns by place which rows are totals.
    """
    kind = found.schema.types[-1]
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise QueryError("The last column of a question with a JOIN must be a number.")
    *labels, numbers = [column.to_pylist() for column in found.columns]
    for place, marks in totals.items():
        pairs = zip(labels[place], marks.tolist(), strict=True)
        labels[place] = [ALL if mark else value for value, mark in pairs]
    rows = [
        (tuple(key), Estimate(_number(number), Unknown(), JOINED, notes))
        for *key, number in zip(*labels, numbers, strict=True)
    ]
    if not labels and len(rows) == 1:
        return replace(rows[0][1], alias=alias)
    types = [(each.name, each.type) for each in list(found.schema)[:-1]]
    groupings = [GroupingColumn(f"GROUPING({types[place][0]})", (place,)) for place in totals]
    aliases = [*("" for _ in types), alias]
    return Estimates(types, rows, aliases=aliases, groupings=groupings)


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)

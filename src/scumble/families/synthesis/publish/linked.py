"""`publish_linked`: a table of people and tables with several rows for each of them, by Synthesis.

The privacy unit is a person: one row of the table of people, with the person's rows in the other
tables, at most as many in each as its schema says (`most_rows`). The promise of the given Synthesis
is for all tables together: each gets an equal share of its ρ. A table is published with its own
bound as `contribution`, so that its share of ρ covers all that a person changes in it.

What is outside of its domain is left out before tables are joined, if it is left out.

1. The table of people gets a column with the number of the person's rows in each other table.
2. Rows of another table are joined to their person; those without one are left out. Adding or
   removing a person then adds or removes at most `contribution` joined rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.synthesis.publish.synthesis import Synthesis
from scumble.model import errors
from scumble.model.errors import DomainError, ParameterError, SchemaError, SourceError
from scumble.model.long_work import portion, tell
from scumble.model.privacy.accounting import epsilon_for, rho_for
from scumble.model.privacy.guarantee import Guarantees
from scumble.model.schema import arrow_values
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.private.ledger.cost import bill_of_linked
from scumble.private.ledger.ledger import Ledger, open_ledger
from scumble.private.manifest import EXISTS, limits_of_impossible, limits_of_reading
from scumble.private.mechanism import Mechanism
from scumble.private.tables.open import open_source
from scumble.private.tables.persons.limit import identifiers
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import Source
from scumble.public.manifest import ROWS_OF_PERSON, SEEDED
from scumble.public.release import Release
from scumble.public.synthesis.linked import LinkedRelease, number_of

if TYPE_CHECKING:
    from scumble.private.publish_options import PublishOptions, Table

Integers = npt.NDArray[np.int64]

TOGETHER = (
    "The promise is for all tables together: the row of a person, and at most {} of that "
    "person in {}."
)
_CLOSER = 1 - 1e-9  # a step by which an ε is lowered until its ρ is paid for


def publish_linked(
    sources: Mapping[str, Table],
    schemas: Any,
    mechanism: Mechanism,
    options: PublishOptions,
    to_charge: Ledger | str | Path | None,
    publish: Callable[..., Any],
    *,
    keys: Mapping[str, str],
    children: Mapping[str, Sequence[str]] | None = None,
) -> LinkedRelease:
    """Publish a table of people and other tables about them, under one promise.

    `sources` and `schemas` have the tables by name, that of the people first. `mechanism` says what
    is promised, and which columns of the people are published; its `contribution` is the most rows
    of one person in each other table, unless their schemas state it. `children` names the columns
    of each other table; those that only the table of people has are the person's, so that rows
    depend on them. Without it, all columns are named. `keys` names the identifier of people in each
    table. Rows of a key that no person has are left out. `publish` publishes one table.
    """
    if not isinstance(mechanism, Synthesis):
        raise ParameterError.of(
            "publish_linked", "mechanism", "a Synthesis for several tables", mechanism
        )
    if mechanism.sums:
        raise ParameterError(
            f"Several tables are published without {errors.named('sums')}: leave it out, or "
            "publish the table that has the amounts alone, for a part of the budget."
        )
    known = {
        name: given_schema if isinstance(given_schema, Schema) else Schema.load(given_schema)
        for name, given_schema in _require_entries("schemas", schemas, sources).items()
    }
    keys = _require_entries("keys", keys, sources)
    children = _list_columns(sources, known, mechanism) if children is None else children
    _check(sources, known, mechanism, children, keys)
    bounds = _bounds_by_table(mechanism, {name: known[name] for name in children}, keys)
    mechanism = replace(mechanism, contribution=max(bounds.values()))
    opened = {
        name: open_source(each.source, table=each.table, query=each.query)
        for name, each in sources.items()
    }
    parts = _make_plans(mechanism, next(iter(sources)), known, children, keys, bounds)
    for plan, schema in parts.values():
        plan.check(schema)
        plan.check_reading(options.outside)
    given = {
        name: tuple(column for column in columns if column not in known[name])
        for name, columns in children.items()
    }
    ledger = None if to_charge is None else open_ledger(to_charge)
    shown = {name: schema for name, (_, schema) in parts.items()}
    tables = dict[str, pa.Table]()
    with _charge_ledger(ledger, mechanism, shown, options.seed, unread=lambda: not tables):
        reading = _PrivateTables(opened, known, keys, options)
        with portion(0, 0.5):
            tables |= reading.link(mechanism, children, bounds)
        releases = dict[str, Release]()
        for done, name in enumerate(parts):
            with portion(0.5 + done / len(parts) / 2, 0.5 + (done + 1) / len(parts) / 2):
                releases[name] = _publish_table(
                    publish, tables[name], parts[name], options, reading.remarks[name]
                )
    _say_limited(releases[next(iter(parts))], bounds)
    promise = _state_promise(mechanism, parts, bounds, options)
    return LinkedRelease(releases, dict(keys), given, promise)


def _say_limited(people: Release, bounds: Mapping[str, int]) -> None:
    """Say in the manifest of the people up to which number their rows in others are counted."""
    limited = {number_of(name): most for name, most in bounds.items()}
    manifest = people.manifest
    people.manifest = replace(manifest, report={**manifest.report, ROWS_OF_PERSON: limited})


def _publish_table(
    publish: Callable[..., Any],
    table: pa.Table,
    part: tuple[Synthesis, Schema],
    options: PublishOptions,
    remarks: Sequence[str],
) -> Release:
    """Publish one of the tables, whose `remarks` are those of reading it."""
    plan, schema = part
    release: Release = publish(
        table,
        schema,
        plan,
        options=replace(
            options, progress=options.progress or (lambda rows: tell(rows, table.num_rows))
        ),
    )
    release.remarks = tuple(dict.fromkeys((*remarks, *release.remarks)))
    return release


def _require_entries(what: str, given: Any, sources: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a parameter that has an entry for each table, or refuse it."""
    if not isinstance(given, Mapping) or set(given) != set(sources):
        allowed = f"a dict with an entry for each table: {', '.join(sources)}"
        raise ParameterError.of("publish_linked", what, allowed, given)
    return given


def _charge_ledger(
    ledger: Ledger | None,
    mechanism: Synthesis,
    schemas: Mapping[str, Schema],
    seed: int | None,
    unread: Callable[[], bool],
) -> AbstractContextManager[None]:
    """Charge a ledger, if there is one, for all tables together.

    The charge is returned if reading them fails. Once they are `unread` no more, noise may have
    been drawn, and the charge stays.
    """
    if ledger is None:
        return nullcontext()
    bill = bill_of_linked(mechanism, schemas, ledger.terms, seeded=seed is not None)
    # Keys that occur twice are found when the table is read, and do not depend on any noise.
    return ledger.paid(bill, harmless=(SourceError, ParameterError), nothing_made=unread)


def _list_columns(
    sources: Mapping[str, Any], schemas: Mapping[str, Schema], mechanism: Synthesis
) -> dict[str, list[str]]:
    """Return for every table but the first its published columns and those of the people."""
    columns = {}
    for name in list(sources)[1:]:
        own = [attribute.name for attribute in schemas[name].published]
        columns[name] = own + [column for column in mechanism.names if column not in schemas[name]]
    return columns


def _check(
    sources: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    mechanism: Synthesis,
    children: Mapping[str, Sequence[str]],
    keys: Mapping[str, str],
) -> None:
    """Refuse what does not fit together, before anything is read."""
    owner, names = "publish_linked", list(sources)
    if len(names) < 2:
        raise ParameterError.of(owner, "sources", "two tables or more, the people first", names)
    if list(children) != names[1:]:
        allowed = "the columns of every table but the first, in the order of the sources"
        raise ParameterError.of(owner, "children", allowed, list(children))
    for name in names:
        if schemas[name][keys[name]].role != "identifier":
            allowed = f"an attribute of '{name}' with the role identifier"
            raise ParameterError.of(owner, "keys", allowed, keys[name])
        unit = schemas[name].unit
        if unit is not None and unit.person not in (None, keys[name]):
            raise ParameterError(
                f"The schema of '{name}' names people by '{unit.person}', and "
                f"{errors.named('keys')} by '{keys[name]}'. Name the same column in both."
            )
    for name in children:
        _check_columns(name, children[name], schemas[name], mechanism)
        if number_of(name) in schemas[names[0]]:
            raise SchemaError(f"A column of people is called '{number_of(name)}': rename it.")


def _bounds_by_table(
    mechanism: Synthesis, others: Mapping[str, Schema], keys: Mapping[str, str]
) -> dict[str, int]:
    """Return how many rows of a person count in each other table: what its schema says, or the
    `contribution` of the mechanism. Refuse a table of which neither says it, or both differ.
    """
    bounds = dict[str, int]()
    for name, schema in others.items():
        bounds[name] = mechanism.contribution if schema.unit is None else schema.unit.most_rows
        if schema.unit is None and mechanism.contribution == 1:
            raise SchemaError(
                f"The schema of '{name}' does not say how many rows of a person count. Write unit "
                f'= "person", person = "{keys[name]}", and most_rows = 5 at its top if at most 5 '
                "shall count."
            )
        if mechanism.contribution not in (1, bounds[name]):
            raise ParameterError(
                f"{errors.setting('contribution', mechanism.contribution)}, and the schema of "
                f"'{name}' says most_rows = {bounds[name]}. Leave {errors.named('contribution')} "
                "out, and write most_rows into the schema of each table but the first."
            )
    return bounds


def _together(bounds: Mapping[str, int]) -> str:
    """Return the limit that says how many rows of a person the promise is about."""
    rows = {name: "one row" if most == 1 else f"{most} rows" for name, most in bounds.items()}
    if len(set(rows.values())) == 1:
        return TOGETHER.format(next(iter(rows.values())), "each other table")
    first, *others = rows
    more = " and ".join(f"{rows[name]} in '{name}'" for name in others)
    return TOGETHER.format(rows[first], f"'{first}' and {more}")


def _check_columns(name: str, columns: Sequence[str], schema: Schema, mechanism: Synthesis) -> None:
    """Refuse columns that neither the table `name` nor the published table of people has."""
    if not any(column in schema for column in columns) or len(set(columns)) < len(columns):
        allowed = f"different columns, at least one of them of '{name}'"
        raise ParameterError.of("publish_linked", "children", allowed, list(columns))
    for column in columns:
        if column not in schema and column not in mechanism.names:
            raise SchemaError(
                f"'{column}' is neither a column of '{name}' nor a published one of people."
            )


class _PrivateTables:
    """The private tables in memory, each row of another table with columns of its person."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        schemas: Mapping[str, Schema],
        keys: Mapping[str, str],
        options: PublishOptions,
    ) -> None:
        self._sources, self._schemas, self._keys = sources, schemas, keys
        self._options = options
        self._people_name = next(iter(sources))
        self.remarks: dict[str, tuple[str, ...]] = {}

    def link(
        self,
        mechanism: Synthesis,
        children: Mapping[str, Sequence[str]],
        bounds: Mapping[str, int],
    ) -> dict[str, pa.Table]:
        """Return the table of people with the numbers of their rows in others, and the others."""
        step = 1 / (1 + len(children))
        with portion(0, step):
            people, row_of = self._read_people(mechanism.names)
        others, table = {}, people
        for done, (name, columns) in enumerate(children.items(), 1):
            with portion(done * step, (done + 1) * step):
                others[name], owners = self._join_people(name, columns, people, row_of)
            numbers = np.bincount(owners, minlength=people.num_rows)
            limited = pa.array(np.minimum(numbers, bounds[name]))
            table = table.append_column(number_of(name), limited)
        return {self._people_name: table, **others}

    def _read_people(self, names: Sequence[str]) -> tuple[pa.Table, dict[bytes, int]]:
        """Return the table of people, and the row of each key; keys must differ."""
        key = self._keys[self._people_name]
        table = self._read(self._people_name, names)
        if self._options.outside == "drop":
            known = [person is not None for person in _read_keys(table[key])]
            table = table.filter(pa.array(known, pa.bool_()))
        row_of = {
            person: row for row, person in enumerate(_read_keys(table[key])) if person is not None
        }
        if len(row_of) < table.num_rows:
            raise ParameterError(
                f"The key '{key}' of people must be different in every row and never missing; "
                "white space around it makes no difference."
            )
        return table, row_of

    def _join_people(
        self, name: str, columns: Sequence[str], people: pa.Table, row_of: Mapping[bytes, int]
    ) -> tuple[pa.Table, Integers]:
        """Return the rows of another table with the given columns of their person, and the place
        of that person for each; rows without a person are left out.
        """
        schema = self._schemas[name]
        table = self._read(name, [column for column in columns if column in schema])
        keys = _read_keys(table[self._keys[name]])
        owner = np.array([row_of.get(key or b"", -1) for key in keys], np.int64)
        table, owner = table.filter(pa.array(owner >= 0)), owner[owner >= 0]
        for column in columns:
            if column not in schema:
                table = table.append_column(column, people[column].take(pa.array(owner)))
        return table, owner

    def _read(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Return these columns of a table and its key, without the rows that `outside` drops."""
        known, source = self._schemas[name], self._sources[name]
        columns = _with_compared(known, columns)
        wanted = [*columns, self._keys[name]]
        source.require(wanted, reveal=self._options.reveal)
        nothing = pa.schema([(column, pa.string()) for column in wanted])
        batches = list(source.batches(wanted)) or [pa.RecordBatch.from_pylist([], nothing)]
        table = pa.Table.from_batches(batches).select(wanted)
        schema = Schema(tuple(_select_attributes(known, wanted)), None, known.impossible)
        rows = Rows(
            table,
            schema,
            outside=self._options.outside,
            reveal=self._options.reveal,
            progress=lambda row: tell(row, table.num_rows),
        )
        try:
            for _ in rows.batches(list(columns)):
                pass  # raises an error for a value that is not allowed
        except DomainError as error:
            message = f"Table '{name}': {error}"
            raise DomainError(message, column=error.column, row=error.row) from None
        self.remarks[name] = rows.remarks()
        if self._options.outside != "drop" or not rows.outside_columns:
            return table
        encoded = {column: schema[column].encode(table[column]) for column in columns}
        codes = {column: own for column, (own, _) in encoded.items()}
        impossible = (each.holds(codes) for each in schema.impossible_conditions)
        outside = [strays for _, strays in encoded.values()]
        return table.filter(pa.array(~np.logical_or.reduce([*outside, *impossible])))


def _read_keys(column: pa.ChunkedArray) -> list[bytes | None]:
    """Return keys as the limit on the rows of a person reads them: two keys that are one person
    there must be one here, else one person would push out the rows of another.
    """
    values = arrow_values.unwrap(column.combine_chunks())
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    keys: list[bytes | None] = identifiers(values).to_pylist()
    return keys


def _make_plans(
    mechanism: Synthesis,
    people: str,
    schemas: Mapping[str, Schema],
    children: Mapping[str, Sequence[str]],
    keys: Mapping[str, str],
    bounds: Mapping[str, int],
) -> dict[str, tuple[Synthesis, Schema]]:
    """Return the mechanism and the schema of every table; each has an equal share of ρ."""
    number = 1 + len(children)
    share = mechanism.promise.rho / number
    epsilon = epsilon_for(share, mechanism.delta)
    while rho_for(epsilon, mechanism.delta) > share:
        epsilon *= _CLOSER
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": mechanism.delta,
        "neighbours": mechanism.neighbours,
        "extra": mechanism.extra,
    }
    first = schemas[people]
    counted = [
        Attribute(number_of(name), "quasi", IntegerRange(0, bounds[name])) for name in children
    ]
    names = [*mechanism.names, *(attribute.name for attribute in counted)]
    workload: dict[str, Any] = {"workload": mechanism.workload, "weights": mechanism.weights}
    read = _select_attributes(first, [*_with_compared(first, mechanism.names), keys[people]])
    schema = Schema((*read, *counted), Unit(), first.impossible)
    plans = {people: (Synthesis(names, **given, **workload), schema)}
    for name, columns in children.items():
        others = [first[column] for column in columns if column not in schemas[name]]
        plan = Synthesis(list(columns), **given, contribution=bounds[name], person=keys[name])
        own, theirs = schemas[name], {each.name for each in others}
        read = _select_attributes(own, [*_with_compared(own, columns), keys[name]])
        of_people = (e.text for e in first.impossible_conditions if theirs.issuperset(e.names))
        impossible = (*own.impossible, *of_people)
        unit = Unit(keys[name], bounds[name])
        plans[name] = plan, Schema((*read, *others), unit, tuple(dict.fromkeys(impossible)))
    return plans


def _with_compared(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the names, and those of the columns that impossible combinations compare."""
    compared = (name for each in schema.impossible_conditions for name in each.names)
    return list(dict.fromkeys((*names, *compared)))


def _select_attributes(schema: Schema, names: Sequence[str]) -> list[Attribute]:
    """Return the attributes of a schema with these names, which are all that is read."""
    return [attribute for attribute in schema if attribute.name in names]


def _state_promise(
    mechanism: Synthesis,
    parts: Mapping[str, tuple[Synthesis, Schema]],
    bounds: Mapping[str, int],
    options: PublishOptions,
) -> Guarantees:
    """Return the promise of all tables together."""
    last, schema = list(parts.values())[-1]
    whole = Synthesis(
        last.names,
        epsilon=mechanism.epsilon,
        delta=mechanism.delta,
        neighbours=mechanism.neighbours,
        contribution=mechanism.unit.rows,
        person=last.person,
    )
    [guarantee] = whole.guarantee(schema)
    sentence = guarantee.sentence if options.seed is None else f"{SEEDED} {guarantee.sentence}"
    limits = (
        *(each for part in parts.values() for each in limits_of_reading(*part, options.outside)),
        _together(bounds),
        *guarantee.limits,
        *([EXISTS[options.outside]] if options.outside in EXISTS else ()),
        *(
            each
            for plan, own in parts.values()
            for each in limits_of_impossible(plan, own, options.outside)
        ),
    )
    limits = tuple(dict.fromkeys(limits))
    return Guarantees([replace(guarantee, sentence=sentence, limits=limits)])

"""Schema: the ordered attributes of a table; read and written as TOML and JSON."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scumble.model import stored
from scumble.model.errors import OutputExistsError, SchemaError, writing
from scumble.model.notebook import html_table
from scumble.model.schema.attribute import LIMITS_NEEDED, Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.cells import cell_values
from scumble.model.schema.domains import Category
from scumble.model.schema.hierarchy_files import with_files
from scumble.model.schema.lists import Derivation, DerivedName, ListDomain
from scumble.model.schema.names import look_alikes
from scumble.model.schema.toml import FORMAT, ROLES, Role, nearest, read_role, to_toml
from scumble.model.schema.unit import KEYS, Unit

if TYPE_CHECKING:
    from scumble.model.schema.impossible import ImpossibleCondition


@dataclass(frozen=True)
class Schema:
    """The public description of a table: its columns, their roles, and the possible values.

    `unit` says what one row stands for, and so who is protected; None if the owner did not say.
    `impossible` are conditions in SQL that no row satisfies: a row that does is outside its domain.
    """

    attributes: tuple[Attribute, ...]
    unit: Unit | None = None
    impossible: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "impossible", tuple(self.impossible))
        if not self.attributes:
            raise SchemaError("A schema needs at least one attribute.")
        self._check_names()
        for attribute in self.attributes:
            self._check_derived(attribute)
        person = None if self.unit is None else self.unit.person
        if person is not None and self[person].role != "identifier":
            raise SchemaError(
                f"'{person}' names people, so it must have the role identifier, which is never "
                "published."
            )
        _ = self.impossible_conditions  # raises SchemaError for one that is none

    @property
    def person(self) -> str | None:
        """The column that names people, who may have several rows; None if it has none."""
        return None if self.unit is None else self.unit.person

    def _check_names(self) -> None:
        """Refuse names that are one name to SQL, or two spellings of one derived column."""
        seen: dict[str, str] = {}
        derived: dict[tuple[str, str, str], str] = {}
        for name in self.names:
            other = seen.get(name.lower())
            if other is not None:
                same = "the same" if other == name else "the same but for case, as to SQL"
                raise SchemaError(f"Names must differ. Got {other!r} and {name!r}: {same}.")
            seen[name.lower()] = name
            read = DerivedName.read(name)
            if read is not None and (other := derived.setdefault(read.key, name)) != name:
                same = "two spellings of one column"
                raise SchemaError(f"Names must differ. Got {other!r} and {name!r}: {same}.")

    def _check_derived(self, attribute: Attribute) -> None:
        found = self.derivation(attribute.name)
        if found is not None and attribute.domain != found.domain:
            raise SchemaError(
                f"{attribute} is computed from a list: give its role only, no type or values."
            )

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        if isinstance(name, str) and (derived := self._derived(name)) is not None:
            return derived
        known = ", ".join(repr(known) for known in self.names)
        hint = nearest(str(name), self.names)
        raise SchemaError(f"The schema has no attribute {name!r}. It has {known}.{hint}")

    def __repr__(self) -> str:
        lines = [
            f"  {a.name!r}: {a.describe() if a.domain is None else f'{a.role}, {a.describe()}'}"
            for a in self.attributes
        ]
        if self.unit is not None:
            lines.append(f"  unit: {', '.join(map(str, self.unit.to_table().values()))}")
        lines += [f"  impossible: {text}" for text in self.impossible]
        return "\n".join(["Schema(", *lines, ")"])

    def _repr_html_(self) -> str:
        rows = [[a.name, a.role, a.describe()] for a in self.attributes]
        return html_table(["column", "role", "domain"], rows, 3)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    def role(self, *roles: Role) -> tuple[Attribute, ...]:
        """Return the attributes that have one of these roles, in order.

        Lists and open categories are not among them: see `lists` and `open`.
        """
        return tuple(
            attribute
            for attribute in self.attributes
            if attribute.role in roles and (attribute.tabular or attribute.domain is None)
        )

    @cached_property
    def derived_names(self) -> Mapping[tuple[str, str, str], str]:
        """The columns whose names are like `first(pages)`, by `DerivedName.key`."""
        return {read.key: name for name in self.names if (read := DerivedName.read(name))}

    @cached_property
    def lists(self) -> tuple[Attribute, ...]:
        """The sets and sequences: only columns that are derived from them are published."""
        return tuple(a for a in self.attributes if isinstance(a.domain, ListDomain))

    @cached_property
    def open(self) -> tuple[Attribute, ...]:
        """The categories whose values are not public: only Keys publishes them."""
        return tuple(attribute for attribute in self.attributes if attribute.open)

    @property
    def identifiers(self) -> tuple[Attribute, ...]:
        """The attributes that are never published."""
        return self.role("identifier")

    @property
    def quasi(self) -> tuple[Attribute, ...]:
        """The attributes that are published unchanged and that others may know."""
        return self.role("quasi")

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """The attributes that are protected."""
        return self.role("sensitive")

    @property
    def insensitive(self) -> tuple[Attribute, ...]:
        """The attributes that are published unchanged."""
        return self.role("insensitive")

    @property
    def published(self) -> tuple[Attribute, ...]:
        """All attributes except identifiers."""
        return self.role("quasi", "sensitive", "insensitive")

    def size(self, names: Iterable[str] | None = None) -> int:
        """Return the number of cells over these attributes; by default, all published ones."""
        chosen = self.published if names is None else [self[name] for name in names]
        return prod(attribute.size for attribute in chosen)

    def cell_keys(self, names: Sequence[str]) -> CellKeys:
        """Return the keys of tuples over these attributes."""
        return CellKeys([self[name].size for name in names])

    def cell_values(self, names: Sequence[str], cells: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the values of cells of the product of the domains of `names`, of which the last
        is the fastest.
        """
        return cell_values([self[name] for name in names], cells)

    @cached_property
    def impossible_conditions(self) -> tuple[ImpossibleCondition, ...]:
        """The conditions that no row satisfies."""
        if not self.impossible:
            return ()
        # The reader of SQL is a large library, which few schemas need.
        from scumble.model.schema.impossible import read_impossible

        return tuple(read_impossible(text, self.attributes) for text in self.impossible)

    def impossible_limits(self) -> tuple[str, ...]:
        """Return the sentence of promises about the impossible combinations; none without them."""
        sentence = (
            "That nobody has these combinations of values is public and was used: "
            f"{'; '.join(self.impossible)}. Answers about them are exactly 0."
        )
        return (sentence,) if self.impossible else ()

    def impossible_cells(self, names: Sequence[str]) -> np.ndarray | None:
        """Return which cells over these attributes no row can be in, one axis for each attribute;
        None if no condition is about them alone.
        """
        known = [each for each in self.impossible_conditions if set(each.names) <= set(names)]
        if not known:
            return None
        axes = np.ix_(*(np.arange(self[name].size) for name in names))
        codes = dict(zip(names, axes, strict=True))
        found = np.zeros([self[name].size for name in names], bool)
        for condition in known:
            found |= condition.holds(codes)
        return found

    def derivation(self, name: str) -> Derivation | None:
        """Return how a column like `first(pages)` is computed; None for a column of the table.

        SchemaError if the list has no such column.
        """
        read = DerivedName.read(name)
        base = None if read is None else self._list(read.base)
        return None if base is None or read is None else Derivation.of(read, base.lists)

    def with_derived(self, names: Iterable[str]) -> Schema:
        """Return the schema with those of these columns that are derived from lists, such as
        `first(pages)`, as attributes of their own.
        """
        found = [self._derived(name) for name in names if name not in self.names]
        added = {each.name: each for each in found if each is not None}
        return replace(self, attributes=(*self.attributes, *added.values())) if added else self

    def derived_from(self, name: str) -> Attribute | None:
        """Return the list that a column like `first(pages)` is computed from; None for others."""
        read = DerivedName.read(name)
        return None if read is None else self._list(read.base)

    def _list(self, name: str) -> Attribute | None:
        for attribute in self.attributes:
            if attribute.name.lower() == name.lower() and isinstance(attribute.domain, ListDomain):
                return attribute
        return None

    def _derived(self, name: str, role: Role | None = None) -> Attribute | None:
        """Return the attribute of a column that is derived from a list of this schema."""
        found, base = self.derivation(name), self.derived_from(name)
        if found is None or base is None:
            return None
        return Attribute(
            name,
            role or base.role,
            found.domain,
            missing=found.missing,
            from_data=base.from_data,
        )

    def select(self, names: Iterable[str]) -> Schema:
        """Return a schema with only these attributes, in this order. A unit whose column of people
        is not among them is left out, and so are impossible combinations with other columns.
        """
        attributes = tuple(self[name] for name in names)
        kept = {each.name for each in attributes}
        impossible = tuple(e.text for e in self.impossible_conditions if kept.issuperset(e.names))
        known = self.person is None or self.person in kept
        return Schema(attributes, self.unit if known else None, impossible)

    def with_unit(self, person: str | None = None, most_rows: int = 1) -> Schema:
        """Return a schema that says what one row stands for: one person, or one of at most
        `most_rows` rows of the person whom the identifier column `person` names.
        """
        return replace(self, unit=Unit(person, most_rows))

    def check_unit(self) -> None:
        """Raise an error if there is an identifier and nobody said what one row stands for."""
        if self.unit is None and self.identifiers:
            name = self.identifiers[0].name
            raise SchemaError(
                f"The table has the identifier '{name}', and the schema does not say what one row "
                'stands for. Write unit = "row" at its top if no person has two rows; else unit = '
                f'"person", person = "{name}", and most_rows = 5 if at most 5 rows of a person '
                "shall count."
            )

    def check_limits(self, names: Iterable[str] | None = None) -> None:
        """Raise an error if one of these columns, by default of all, still needs its limits."""
        for attribute in self.attributes:
            if attribute.limits_needed and (names is None or attribute.name in names):
                raise SchemaError(attribute.how_to_limit())

    def with_amounts(self, roles: Iterable[Role]) -> Schema:
        """Return the schema of rows in which columns of these roles are published as they are:
        numbers have amounts there, although counts of them have bins.
        """
        chosen = tuple(roles)
        attributes = (
            each.without_bins() if each.role in chosen else each for each in self.attributes
        )
        return replace(self, attributes=tuple(attributes))

    def clamped(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return how the amounts of these columns, by default of all, are clamped and rounded."""
        chosen = self.published if names is None else [self[name] for name in names]
        return tuple(each.number.clamping(each.name) for each in chosen if each.number is not None)

    def replace(self, attribute: Attribute) -> Schema:
        """Return a schema with `attribute` in place of the one of the same name."""
        old = self[attribute.name]
        attributes = tuple(attribute if each is old else each for each in self.attributes)
        return replace(self, attributes=attributes)

    def with_roles(self, **roles: str | Iterable[str]) -> Schema:
        """Return a schema with other roles: `schema.with_roles(sensitive=["illness"])`.

        An attribute that becomes an identifier loses its domain.
        """
        schema = self
        for role, names in roles.items():
            if role not in ROLES:
                raise SchemaError(
                    f"A role must be one of {', '.join(ROLES)}. Got {role!r} instead."
                )
            for name in [names] if isinstance(names, str) else names:
                schema = schema.replace(_in_role(schema[name], role))
        return schema

    def declare_public(self, *names: str) -> Schema:
        """Declare that these domains (by default, all) list what is possible, not what occurs.

        Returns a schema without their `from_data` marks, so that a release no longer warns.
        """
        for name in names:
            self[name]  # raises SchemaError for an unknown name
        chosen = names or self.names
        attributes = tuple(
            replace(each, from_data=False, note="") if each.name in chosen else each
            for each in self.attributes
        )
        return replace(self, attributes=attributes)

    @property
    def from_data(self) -> tuple[str, ...]:
        """Names of the attributes whose domain was read from private data, lists among them.

        For columns such as `contains(items, 'a')`, each of which names an item, it is the list.
        """
        shown = (*self.published, *self.lists)
        names = (each.name for each in self if each.from_data and each in shown)
        read = ((name, DerivedName.read(name)) for name in names)
        return tuple(
            dict.fromkeys(d.base if d and d.function == "contains" else name for name, d in read)
        )

    @property
    def to_fill_in(self) -> tuple[str, ...]:
        """Names of proposed columns whose domain the owner must write before it can be published.

        The file that `save` writes is marked at each of them, and is not read until it is done.
        """
        return tuple(attribute.name for attribute in self.attributes if attribute.to_fill_in)

    def checks(self) -> list[str]:
        """Return what the owner should check before publishing, one sentence each."""
        found = [
            f"'{attribute.name}' ({attribute.describe()}): {note}"
            for attribute in self.attributes
            if (note := attribute.note or _remark(attribute))
        ]
        unit = [f"unit: {self.unit.note}"] if self.unit is not None and self.unit.note else []
        return [*unit, *found, *self.look_alikes()]

    def look_alikes(self) -> list[str]:
        """Return a sentence for each pair of names, or values of one attribute, that look alike."""
        pairs = [(one, other, "are names") for one, other in look_alikes(self.names)]
        for attribute in self.attributes:
            if isinstance(attribute.domain, Category):
                texts = [value for value in attribute.domain.values if isinstance(value, str)]
                words = f"are values of '{attribute.name}'"
                pairs += [(one, other, words) for one, other in look_alikes(texts)]
        return [
            f"{one!a} and {other!a} {words} that look alike and are different."
            for one, other, words in pairs
        ]

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        try:
            text = Path(path).read_text(
                encoding="utf-8-sig"
            )  # files of Windows may begin with a byte order mark
        except FileNotFoundError:
            raise SchemaError(f"There is no schema file '{path}'.") from None
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not UTF-8 text" if isinstance(error, ValueError) else error.strerror
            raise SchemaError(f"The schema file '{path}' cannot be read: {reason}.") from None
        try:
            return cls.loads(text, folder=Path(path).parent)
        except SchemaError as error:
            if not str(error).startswith(_NO_TOML):
                raise
            found = str(error).removeprefix(_NO_TOML)
        raise SchemaError(f"The schema file '{path}' is not valid TOML{found}")

    @classmethod
    def loads(cls, text: str, *, folder: str | Path | None = None) -> Schema:
        """Read a schema from TOML text. Hierarchy files that it names are read from `folder`."""
        try:
            document = tomllib.loads(text)
            stored.check_nesting(document)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"{_NO_TOML}: {_located(str(error))}.") from None
        except (ValueError, RecursionError):  # also a number of more digits than Python reads
            raise SchemaError(
                "The schema is not valid: a list is nested too deep, or a number is too long."
            ) from None
        tables = document.get("attributes")
        for key in document:
            if key not in ("format", "attributes", "impossible", *KEYS):
                near = isinstance(document[key], dict) and key.lower().startswith("attribute")
                instead = "[attributes.NAME]" if near else f"[attributes.{key}]"
                raise SchemaError(f"Unknown key '{key}' at the top of the schema; write {instead}.")
        _check_format(document.get("format", FORMAT))
        if not isinstance(tables, dict) or not tables:
            raise SchemaError(
                "A schema needs at least one attribute: write a table [attributes.NAME]."
            )
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise SchemaError(
                    f"Attribute '{name}': write its role and type in a table [attributes.{name}]."
                )
        place = None if folder is None else Path(folder)
        named: list[Mapping[str, Any]] = [{**table, "name": name} for name, table in tables.items()]
        if any("hierarchy" in table for table in named):
            named = [with_files(table, place) for table in named]
        return cls._read(named, document)

    @classmethod
    def _read(cls, tables: Sequence[Mapping[str, Any]], document: Mapping[str, Any]) -> Schema:
        """Read the tables of attributes; those without a type may be derived from a list."""
        names = [table.get("name") for table in tables]
        plain = [t for t in tables if "type" in t or not _may_be_derived(t.get("name"), names)]
        schema = cls(tuple(Attribute.from_dict(table) for table in plain))
        found = {attribute.name: attribute for attribute in schema}
        for table in tables:
            name = str(table.get("name"))
            if name not in found:
                derived = schema._derived(name, read_role(name, table))
                found[name] = derived or Attribute.from_dict(table)
        attributes = tuple(found[str(table.get("name"))] for table in tables)
        return cls(attributes, Unit.from_table(document), _read_impossible(document))

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the schema to a TOML file; an existing file is replaced only with `force`."""
        mode = "w" if force else "x"
        with writing(path, SchemaError):
            try:
                with Path(path).open(mode, encoding="utf-8", newline="\n") as file:
                    file.write(self.dumps())
            except FileExistsError:
                raise OutputExistsError.of(path) from None

    def dumps(self, most: int | None = None) -> str:
        """Return the schema as TOML, with the notes for the owner as comments.

        With `most`, lists of more than `most` items are abbreviated for display.
        """
        tables = [(attribute.to_table(), attribute.note) for attribute in self.attributes]
        return to_toml(tables, most, self.unit, self.impossible)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON values, for `from_dict`."""
        unit = {} if self.unit is None else self.unit.to_table()
        impossible = {"impossible": list(self.impossible)} if self.impossible else {}
        attributes = [attribute.to_dict() for attribute in self.attributes]
        return {"format": FORMAT, **unit, **impossible, "attributes": attributes}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Schema:
        """Read a schema from JSON values as `to_dict` writes them."""
        _check_format(document.get("format", FORMAT))
        tables = document.get("attributes")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise SchemaError("A schema needs a list of attributes.")
        return cls._read(tables, document)

    @classmethod
    def infer(
        cls,
        source: object,
        *,
        sensitive: str | Iterable[str] = (),
        identifier: str | Iterable[str] = (),
        insensitive: str | Iterable[str] = (),
        types: Mapping[str, str] | None = None,
        limit: int = 1000,
        hierarchies: bool = False,
        table: str | None = None,
        basket: str | None = None,
        order: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Schema:
        """Propose a schema by READING PRIVATE DATA; `checks()` returns what the owner should check.

        `sensitive`, `identifier` and `insensitive` name the columns of these roles; the others
        become quasi-identifiers. `types` gives columns a type, as {"zip": "category"}; without it
        numbers are taken for amounts. A column with a role or a type for which no domain can be
        proposed is in `to_fill_in`. Every domain except a boolean one is marked `from_data`, and a
        release made with it says so until the owner declares it public. A text column with more
        than `limit` distinct values is proposed as an identifier. With `hierarchies`, numbers,
        dates and codes of quasi-identifiers get a hierarchy by a rule. `table` names the table of a
        DuckDB file. With one item per row, `basket` names the column that groups rows into lists:
        columns that differ inside of a basket become sets, or with a column `order` sequences.
        `progress` is called with the number of rows read.
        """
        from scumble.private.tables.infer import infer_attributes  # the one of a higher layer

        attributes, unit = infer_attributes(
            source,
            sensitive=sensitive,
            identifier=identifier,
            insensitive=insensitive,
            types=types,
            limit=limit,
            hierarchies=hierarchies,
            table=table,
            basket=basket,
            order=order,
            progress=progress,
        )
        return cls(attributes, unit)


_NO_TOML = "The schema is not valid TOML"
_UNCHECKED = "read from the data; list what is possible, then delete the from_data line."


def _read_impossible(document: Mapping[str, Any]) -> tuple[str, ...]:
    given = document.get("impossible", [])
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise SchemaError(
            "'impossible' must be a list of conditions in SQL, such as [\"age < 16 AND married\"]. "
            f"Got {given!r} instead."
        )
    return tuple(given)


def _remark(attribute: Attribute) -> str:
    if attribute.limits_needed:
        return f"{LIMITS_NEEDED} {attribute.where_to_get_limits()}"
    return _UNCHECKED if attribute.from_data else ""


def _may_be_derived(name: object, names: Sequence[object]) -> bool:
    read = DerivedName.read(name) if isinstance(name, str) else None
    lower = [each.lower() for each in names if isinstance(each, str)]
    return read is not None and read.base.lower() in lower


def _in_role(attribute: Attribute, role: Role) -> Attribute:
    if role == "identifier":
        return Attribute(
            attribute.name, role, note=attribute.note if attribute.domain is None else ""
        )
    return replace(attribute, role=role)


def _check_format(given: object) -> None:
    if given != FORMAT:
        raise SchemaError(
            f"The schema has format {given!r}, and this version of scumble reads format {FORMAT}."
        )


def _located(message: str) -> str:
    """Return the message of the TOML parser with its position first."""
    match = re.fullmatch(
        r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", message, re.DOTALL
    )
    if match is None:
        return message
    words, line, column, _ = match.groups()
    place = f"line {line}, column {column}" if line else "at its end"
    return f"{place}: {words[0].lower()}{words[1:]}"

"""Questions about the server and its catalog, which tools ask before they ask about people.

There is one table, of the name of the data set. What psql 15, ADBC and SQLAlchemy ask is answered
as PostgreSQL would; so are plain questions about information_schema. Any other question about the
catalog has no rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from scumble._version import __version__
from scumble.server.catalogue import Dataset
from scumble.server.postgres.messages import (
    BOOL,
    CHAR,
    DATE,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    OID,
    TEXT,
    VARCHAR,
    Column,
    Rows,
)

VERSION = f"PostgreSQL 15.0 (scumble {__version__})"
_TABLE = 16_384  # the OID of the one table
_NAMES = {
    BOOL: "boolean",
    INT2: "smallint",
    INT4: "integer",
    INT8: "bigint",
    TEXT: "text",
    FLOAT8: "double precision",
    DATE: "date",
    VARCHAR: "character varying",
}
_RECEIVE = {
    "bool": BOOL,
    "int2": INT2,
    "int4": INT4,
    "int8": INT8,
    "text": TEXT,
    "float8": FLOAT8,
    "date": DATE,
    "varchar": VARCHAR,
    "oid": OID,
    "char": CHAR,
}
SETTINGS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "transaction_read_only": "on",
    "is_superuser": "off",
    "intervalstyle": "postgres",
    "search_path": "public",
    "max_identifier_length": "63",
}
_CATALOG = re.compile(r"\bpg_|\binformation_schema\b|\bpg_catalog\b", re.IGNORECASE)
_CONSTANT = re.compile(
    r"SELECT\s+(?:pg_catalog\.)?(?P<what>version\(\)|current_schema(?:\(\))?|current_database\(\)|"
    r"current_catalog|current_user|session_user|user|pg_backend_pid\(\)|pg_is_in_recovery\(\)|"
    r"-?[0-9]{1,9}|'[^']*')(?:\s+(?:AS\s+)?(?P<name>\w+))?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class System:
    """The catalog of one connection: a data set, and the name of the user."""

    data: Dataset
    user: str

    def answer(self, sql: str) -> Rows | None:
        """Return the result of a question about the system; None if it is about people."""
        if shown := re.fullmatch(r"\s*SHOW\s+([\w.]+|TRANSACTION ISOLATION LEVEL)\s*", sql, re.I):
            name = shown[1].lower().replace("transaction isolation level", "transaction_isolation")
            return Rows([Column(name)], [(SETTINGS.get(name, ""),)], "SHOW")
        if constant := _CONSTANT.fullmatch(sql):
            return self._constant(constant["what"], constant["name"])
        if not _CATALOG.search(_unquoted(sql)):
            return None
        for needle, found in self._known().items():
            if needle in " ".join(sql.split()):
                return found(sql)
        return self._evaluated(sql)

    def _constant(self, what: str, name: str | None) -> Rows:
        word = what.lower().removesuffix("()")
        values: dict[str, tuple[int, Any]] = {
            "version": (TEXT, VERSION),
            "current_schema": (TEXT, "public"),
            "current_database": (TEXT, self.data.name),
            "current_catalog": (TEXT, self.data.name),
            "pg_backend_pid": (INT4, 1),
            "pg_is_in_recovery": (BOOL, False),
            **dict.fromkeys(("current_user", "session_user", "user"), (TEXT, self.user)),
        }
        if word in values:
            kind, value = values[word]
            return Rows([Column(name or word, kind)], [(value,)])
        value = what[1:-1] if what.startswith("'") else int(what)
        kind = TEXT if isinstance(value, str) else INT4
        return Rows([Column(name or "?column?", kind)], [(value,)])

    def _columns(self) -> list[Column]:
        schema = self.data.schema
        return [Column.of(name, schema[name].arrow_type) for name in self.data.columns]

    def _known(self) -> Mapping[str, Callable[[str], Rows]]:
        """What psql and ADBC ask, by a part of the text."""
        return {
            'n.nspname as "Schema", c.relname as "Name"': self._listed,
            "c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c": self._found,
            "c.relchecks, c.relkind, c.relhasindex": self._facts,
            "a.attname, pg_catalog.format_type(a.atttypid": self._described,
            "typname, typreceive, typbasetype": self._types,
            "attrelid, attname, atttypid FROM pg_catalog.pg_attribute": self._no_attributes,
        }

    def _listed(self, sql: str) -> Rows:
        columns = [Column(name) for name in ("Schema", "Name", "Type", "Owner")]
        wanted = "'r'" in sql.partition("relkind IN")[2] or "relkind" not in sql
        return Rows(columns, [("public", self.data.name, "table", "scumble")] if wanted else [])

    def _found(self, sql: str) -> Rows:
        pattern = re.search(r"relname OPERATOR\(pg_catalog\.~\) '(\^\([^']*\)\$)'", sql)
        matches = pattern is None or _matches(pattern[1], self.data.name)
        columns = [Column("oid", OID), Column("nspname"), Column("relname")]
        return Rows(columns, [(_TABLE, "public", self.data.name)] if matches else [])

    def _facts(self, sql: str) -> Rows:
        names = (
            "relchecks relkind relhasindex relhasrules relhastriggers relrowsecurity "
            "relforcerowsecurity relhasoids relispartition column reltablespace type "
            "relpersistence relreplident amname"
        ).split()
        row = (0, "r", *["f"] * 7, "", 0, "", "p", "d", "heap")
        return Rows([Column(name) for name in names], [row])

    def _described(self, sql: str) -> Rows:
        names = "attname format_type default attnotnull attcollation attidentity attgenerated"
        rows = [(each.name, _NAMES[each.type], None, "f", None, "", "") for each in self._columns()]
        return Rows([Column(name) for name in names.split()], rows)

    def _types(self, sql: str) -> Rows:
        names = ("oid", "typname", "typreceive", "typbasetype", "typrelid", "typarray")
        kinds = (OID, TEXT, TEXT, OID, OID, OID)
        rows = [(oid, name, f"{name}recv", 0, 0, 0) for name, oid in _RECEIVE.items()]
        columns = [Column(name, kind) for name, kind in zip(names, kinds, strict=True)]
        return Rows(columns, rows)

    def _no_attributes(self, sql: str) -> Rows:
        return Rows([Column("attrelid", OID), Column("attname"), Column("atttypid", OID)])

    def _evaluated(self, sql: str) -> Rows:
        """Return the rows of a plain question about information_schema; others have no rows.

        Only the parser of sqlglot is used: nothing of the text is ever executed.
        """
        try:
            parsed = sqlglot.parse_one(sql, read="postgres")
            if not isinstance(parsed, sqlglot.exp.Query):
                return Rows([Column("?column?")])
            names = [each.alias_or_name or "?column?" for each in parsed.selects]
            columns = [Column(name) for name in names or ["?column?"]]
            found = self._selected(parsed)
        except (SqlglotError, RecursionError):
            return Rows([Column("?column?")])
        return Rows(columns) if found is None else found

    def _selected(self, parsed: Any) -> Rows | None:
        """Return the rows of SELECT columns FROM information_schema.view WHERE column = 'text'."""
        source = parsed.args.get("from_") or parsed.args.get("from")
        table = None if source is None else source.this
        if not isinstance(table, exp.Table) or table.db.lower() != "information_schema":
            return None
        rows = self._views().get(table.name.lower())
        if rows is None or any(parsed.args.get(part) for part in ("joins", "group", "having")):
            return None
        known = {*rows[0]} if rows else set()
        chosen = [
            (each.alias_or_name, inner.name.lower())
            for each in parsed.selects
            for inner in [each.unalias()]
            if isinstance(inner, exp.Column) and inner.name.lower() in known
        ]
        if isinstance(parsed.selects[0], exp.Star):
            chosen = [(name, name) for name in rows[0]]
        elif len(chosen) < len(parsed.selects):
            return None
        where = parsed.args.get("where")
        both = [] if where is None else [where.this]
        for each in list(both[0].flatten()) if both and isinstance(both[0], exp.And) else both:
            wanted = _compared(each)
            if wanted is None:
                return None
            rows = [row for row in rows if str(row.get(wanted[0])) in wanted[1]]
        columns = [Column(name) for name, _ in chosen]
        return Rows(columns, [[_plain(row[name]) for _, name in chosen] for row in rows])

    def _views(self) -> dict[str, list[dict[str, Any]]]:
        table = {"table_catalog": self.data.name, "table_schema": "public"}
        table["table_name"] = self.data.name
        columns = [
            {
                **table,
                "column_name": each.name,
                "ordinal_position": place,
                "column_default": None,
                "is_nullable": "YES",
                "data_type": _NAMES[each.type],
                "udt_name": _NAMES[each.type],
            }
            for place, each in enumerate(self._columns(), start=1)
        ]
        schemata = [{"catalog_name": self.data.name, "schema_name": "public"}]
        return {
            "tables": [{**table, "table_type": "BASE TABLE"}],
            "columns": columns,
            "schemata": schemata,
        }


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern of psql, as ^(name)$, is for a name."""
    wanted = pattern[2:-2]
    parts = map(re.escape, wanted.split(".*"))
    return re.fullmatch(".*".join(parts), name) is not None or wanted == re.escape(name)


def _compared(condition: Any) -> tuple[str, set[str]] | None:
    """Return the column and the allowed texts of column = 'text' or column IN ('text', ...)."""
    column = condition.this
    if not isinstance(column, exp.Column):
        return None
    if isinstance(condition, exp.EQ):
        values = [condition.expression]
    elif isinstance(condition, exp.In) and not condition.args.get("query"):
        values = condition.expressions
    else:
        return None
    if not all(isinstance(each, exp.Literal) for each in values):
        return None
    return column.name.lower(), {each.name for each in values}


def _unquoted(sql: str) -> str:
    """Return a statement without its quoted text, which may hold any word."""
    return re.sub(r"'(?:[^']|'')*'", "''", sql)


def _plain(value: Any) -> Any:
    return None if value is None else str(value)

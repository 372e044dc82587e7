"""The functions of DuckDB, sorted by whether a question may call them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

# DuckDB lists these as consistent, but they read the clock, the system, or its own insides.
_UNSTEADY = frozenset(
    "current_localtime current_localtimestamp getenv version parse_duckdb_log_message "
    "json_serialize_plan json_serialize_sql json_deserialize_sql to_aggregate_state finalize "
    "combine unnest".split()
)
# Of the built-in macros only these are scalar and deterministic.
_MACROS = frozenset("date_add days_in_month fdiv fmod if nullif split_part".split())


@dataclass(frozen=True)
class Catalogue:
    """Names of functions in lower case."""

    deterministic: frozenset[str]  # scalar, the same result for the same arguments for ever
    aggregates: frozenset[str]  # window functions included
    others: frozenset[str]  # volatile, table functions, and the like


@cache
def catalogue() -> Catalogue:
    """What this version of DuckDB offers."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT lower(function_name), function_type,"
            " bool_and(coalesce(stability, '') = 'CONSISTENT')"
            " FROM duckdb_functions() GROUP BY ALL"
        ).fetchall()
    every = {name for name, _, _ in rows}
    aggregates = {name for name, kind, _ in rows if kind in ("aggregate", "window")}
    steady = {name for name, kind, consistent in rows if kind == "scalar" and consistent}
    unsteady = {name for name, kind, consistent in rows if kind == "scalar" and not consistent}
    macros = _MACROS.intersection(name for name, kind, _ in rows if kind == "macro")
    named = {name for name in steady if name.isidentifier() and not name.startswith("__")}
    deterministic = frozenset(named - unsteady - aggregates - _UNSTEADY | macros)
    return Catalogue(
        deterministic,
        frozenset(aggregates - deterministic),
        frozenset(every | _UNSTEADY) - deterministic - aggregates,
    )

"""Words of SQL that are not names of columns, and names and literals as SQL."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from scumble.model.query import quoted

_PLAIN = re.compile("[A-Za-z][A-Za-z0-9_]*")
# Every word of an expression is a column, an allowed function, or one of these.
EXPRESSION_WORDS = frozenset(
    (
        "AND OR NOT IN BETWEEN LIKE ILIKE GLOB ESCAPE IS ISNULL NOTNULL NULL TRUE FALSE UNKNOWN "
        "EXISTS CASE WHEN THEN ELSE END AS FROM FOR BOTH LEADING TRAILING DISTINCT INTERVAL "
        "SELECT WHERE BOOLEAN BOOL TINYINT SMALLINT INTEGER INT BIGINT HUGEINT INT1 INT2 INT4 INT8 "
        "UTINYINT USMALLINT UINTEGER UBIGINT FLOAT REAL DOUBLE PRECISION FLOAT4 FLOAT8 "
        "DECIMAL NUMERIC DEC VARCHAR CHAR BPCHAR TEXT STRING DATE TIME TIMESTAMP DATETIME "
        "MILLENNIUM CENTURY DECADE YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND "
        "MICROSECOND EPOCH DOW ISODOW DOY ISOYEAR YEARS QUARTERS MONTHS WEEKS DAYS HOURS MINUTES "
        "SECONDS YEARWEEK JULIAN ERA DAYOFWEEK DAYOFYEAR DAYOFMONTH WEEKDAY"
    ).split()
) | {"SIMILAR TO"}
# Functions that SQL calls without parentheses.
CLOCK_AND_USER = frozenset(
    "current_date current_time current_timestamp current_datetime localtime localtimestamp "
    "current_user session_user user current_role current_catalog current_schema".split()
)


@lru_cache(maxsize=1024)  # called for every answer
def sql_name(name: str) -> str:
    """Return the name of an attribute as SQL, quoted only if that is necessary."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in EXPRESSION_WORDS
    if not plain or name.lower() in CLOCK_AND_USER:
        return quoted(name)
    from sqlglot import TokenType
    from sqlglot.dialects.duckdb import DuckDB

    [token] = DuckDB().tokenize(name)
    return name if token.token_type is TokenType.VAR else quoted(name)


def sql_literal(value: str | int | float | bool | date) -> str:
    """Return a value as a SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value) if whole else value)

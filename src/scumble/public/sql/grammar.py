"""The grammar of expressions: sqlglot's parser for DuckDB, the nodes and keywords that may pass.

The tree decides what is allowed and which words are columns. It is never turned back into SQL:
DuckDB gets the words that were written, in their order, so that it alone decides what they mean.
"""

from __future__ import annotations

from collections.abc import Container

from sqlglot import Token, exp
from sqlglot import TokenType as T
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError

from scumble.model.errors import QueryError
from scumble.public.sql.names import CLOCK_AND_USER
from scumble.public.sql.tokens import Tokens, Words

_FORMS = {"CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM", "POSITION"}

NODES = frozenset(
    {
        *(exp.And, exp.Or, exp.Not, exp.Paren),
        *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.SimilarTo, exp.Glob, exp.Escape),
        *(exp.RegexpLike, exp.StartsWith),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.DPipe),
        *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot),
        *(exp.BitwiseLeftShift, exp.BitwiseRightShift),
        *(exp.Literal, exp.Boolean, exp.Null, exp.Column, exp.Identifier, exp.Var),
        *(exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval),
        *(exp.Anonymous, exp.Extract, exp.Substring, exp.Trim, exp.StrPosition),
        *(exp.Subquery, exp.Select, exp.From, exp.Where, exp.Table, exp.TableAlias),
    }
)

# Every word of an expression is a column, a function that may be called, or one of these.
KEYWORDS = frozenset(
    (
        "AND OR NOT IN BETWEEN LIKE ILIKE GLOB ESCAPE IS ISNULL NOTNULL NULL TRUE FALSE UNKNOWN "
        "CASE WHEN THEN ELSE END AS FROM FOR BOTH LEADING TRAILING DISTINCT INTERVAL SELECT WHERE "
        "BOOLEAN BOOL TINYINT SMALLINT INTEGER INT BIGINT HUGEINT INT1 INT2 INT4 INT8 "
        "UTINYINT USMALLINT UINTEGER UBIGINT FLOAT REAL DOUBLE PRECISION FLOAT4 FLOAT8 "
        "DECIMAL NUMERIC DEC VARCHAR CHAR BPCHAR TEXT STRING DATE TIME TIMESTAMP DATETIME "
        "MILLENNIUM CENTURY DECADE YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND "
        "MICROSECOND EPOCH DOW ISODOW DOY ISOYEAR YEARS QUARTERS MONTHS WEEKS DAYS HOURS MINUTES "
        "SECONDS YEARWEEK JULIAN ERA DAYOFWEEK DAYOFYEAR DAYOFMONTH WEEKDAY"
    ).split()
) | {"SIMILAR TO"}


_DUCKDB = DuckDB()
_TEXTS = {T.STRING, T.IDENTIFIER}


def tree(words: Words, tokens: Tokens, calls: Container[int]) -> exp.Expr:
    """The syntax tree of one expression, in which functions are called at the places `calls`."""
    given = [_plain(token, calls) for token in tokens]
    try:
        [found] = _DUCKDB.parser().parse_into(exp.Condition, given, words.text)
    except ParseError as error:
        raise _syntax_error(words, tokens, error) from None
    except RecursionError:
        raise words.error("The expression is nested too deeply.", tokens[0]) from None
    except ValueError:  # more than one tree, or none: sqlglot cut the tokens at something odd
        found = None
    if found is None:
        raise words.error("This is not understood as an expression.", tokens[0])
    return found


def _plain(token: Token, calls: Container[int]) -> Token:
    """The parser knows many functions, and rewrites some: it is shown a function that it does not
    know. For the same reason `current_date` is shown to it as a name, which no column then has.
    """
    called = token.start in calls and token.text.upper() not in _FORMS
    if not called and (token.token_type in _TEXTS or token.text.lower() not in CLOCK_AND_USER):
        return token
    text = "unknown_function" if called else token.text
    return Token(T.VAR, text, token.line, token.col, token.start, token.end)


def _syntax_error(words: Words, tokens: Tokens, error: ParseError) -> QueryError:
    found = error.errors[0] if error.errors else {}
    place = (found.get("line"), found.get("col"))
    blamed = next((each for each in tokens if (each.line, each.col) == place), tokens[0])
    if "missing" in str(found.get("description")):
        return words.error(f"Something is missing at or after '{blamed.text}'.", blamed)
    return words.error(f"Syntax error at or near '{blamed.text}'.", blamed)

"""Allowed grammar and functions.

One expression of a question: checked word by word, with its columns under their exact names.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise

from sqlglot import Token, exp
from sqlglot import TokenType as T
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError

from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.public.sql.tokens import AGGREGATES, CLOCK_AND_USER, Names, Tokens, Words, is_word

_SENTENCES: dict[type[exp.Expr], str] = {
    exp.Tuple: "Tuples are not supported: compare the columns one by one.",
    exp.Star: "A star is not supported here: name a column.",
    exp.Dot: "Write a column as name or table.name, and a function as f(x).",
    exp.Concat: "Write text as one literal, or join it with ||.",
}
_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d+)?")
DROPPED = ""  # instead of the table in `table.column`, and of the point after it
_SUBSELECT = "A sub-select may only be IN (SELECT column FROM public_table WHERE ...)."


def read_expression(words: Words, names: Names, tokens: Tokens) -> Expression:
    """Check an expression, and rewrite nothing but the names of its columns."""
    calls = check_functions(words, tokens)
    columns = Columns(words, names, tokens)
    columns.visit(tree(words, tokens, calls))
    sql = spell(words, tokens, columns.spelled, calls)
    return Expression(sql, tuple(sorted(columns.attributes)), tokens[0].start)


@dataclass
class SideTable:
    """The public table that a sub-select reads."""

    name: str
    called: str
    columns: Mapping[str, str]


class Columns:
    """A walk through a syntax tree: refuses nodes that may not pass, and finds the columns."""

    def __init__(self, words: Words, names: Names, tokens: Tokens) -> None:
        self.words, self.names, self.first = words, names, tokens[0]
        self.tokens = {token.start: token for token in tokens}
        self.attributes: set[str] = set()
        self.spelled: dict[int, str] = {}  # by offset: what to write instead of a token

    def visit(self, root: exp.Expr) -> None:
        """Every node, with the side table whose columns it sees (None: it sees the view)."""
        stack: list[tuple[exp.Expr, SideTable | None]] = [(root, None)]
        while stack:
            node, side = stack.pop()
            if type(node) not in NODES:
                sentence = _SENTENCES.get(type(node), "This is not supported.")
                raise self.words.error(sentence, self._token(node))
            if isinstance(node, exp.Column):
                self._column(node, side)
                continue
            if isinstance(node, exp.Table):
                continue
            if isinstance(node, exp.Select):
                side = self._side_table(node)
            if isinstance(node, exp.Anonymous):
                self._check_clock(node)
            stack.extend((child, side) for child in node.iter_expressions())

    def _column(self, node: exp.Column, side: SideTable | None) -> None:
        word, qualifier = self._token(node.this), node.args.get("table")
        if isinstance(node.this, exp.Star) or node.args.get("db") or node.args.get("join_mark"):
            raise self.words.error("A column is written as name or table.name.", word)
        if qualifier is not None:
            self._drop_qualifier(self._token(qualifier), side)
        if side is None:
            name = self.names.attribute(word).name
            self.attributes.add(name)
        else:
            name = self.names.side_column(word, side.name, side.columns)
        self.spelled[word.start] = quoted(name)

    def _drop_qualifier(self, token: Token, side: SideTable | None) -> None:
        if side is None:
            self.names.check_qualifier(token)
        elif token.text.lower() != side.called.lower():
            raise self.words.error(
                f"A sub-select cannot refer to the row outside it; its table is '{side.called}'.",
                token,
            )
        self.spelled[token.start] = DROPPED

    def _side_table(self, node: exp.Select) -> SideTable:
        """The table of `SELECT column FROM table [AS name] [WHERE ...]`."""
        given = {name for name, value in node.args.items() if value}
        source = node.args.get("from_") or node.args.get("from")
        table = source.this if source else None
        if (
            given - {"expressions", "from_", "from", "where", "kind", "operation_modifiers"}
            or len(node.expressions) != 1
            or not isinstance(table, exp.Table)
            or not isinstance(table.this, exp.Identifier)
            or {name for name, value in table.args.items() if value} - {"this", "alias"}
        ):
            raise self.words.error(_SUBSELECT, self._token(node))
        word = self._token(table.this)
        name, columns = self.names.side_table(word)
        self.spelled[word.start] = quoted(name)
        alias = table.args.get("alias")
        if alias is None:
            return SideTable(name, name, columns)
        called = self._token(alias.this)
        self.spelled[called.start] = quoted(called.text)
        return SideTable(name, called.text, columns)

    def _check_clock(self, node: exp.Anonymous) -> None:
        token = self.tokens.get(node.meta.get("start", -1), self.first)
        if token.text.lower() == "age" and len(node.expressions) < 2:
            raise self.words.error(
                "age(...) of one date is not supported: it reads the clock. Give the second date.",
                token,
            )

    def _token(self, node: exp.Expr) -> Token:
        """The first token of a node, as far as the parser remembers."""
        starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
        return self.tokens.get(min(starts, default=-1), self.first)


def spell(words: Words, tokens: Tokens, spelled: Mapping[int, str], calls: set[int]) -> str:
    """The tokens as SQL: literals quoted anew, columns as `spelled`, other words known ones."""
    sql, tight, dropped = "", True, False
    for token in tokens:
        text = spelled.get(token.start)
        if text is None:
            text = DROPPED if dropped else _text(words, token, calls)  # the point goes along
        dropped = not dropped and text is DROPPED
        if text is not DROPPED:
            sql += text if tight or text in _CLOSES else " " + text
            tight = text in _OPENS or token.start in calls
    return sql


_CLOSES = {")", ",", "::"}
_OPENS = {"(", "::", "."}  # a point that is left begins a number


def _text(words: Words, token: Token, calls: set[int]) -> str:
    kind, text = token.token_type, token.text
    if kind is T.STRING:
        return "'" + text.replace("'", "''") + "'"
    if kind is T.NUMBER:
        if not _NUMBER.fullmatch(text):
            raise words.error(f"'{text}' is not understood as a number.", token)
        return text
    if not is_word(token) or token.start in calls:
        return text
    if kind is not T.IDENTIFIER and text.upper() in KEYWORDS:
        return text.upper()
    raise words.error(f"'{text}' is not understood here.", token)


# The grammar of expressions: sqlglot's parser for DuckDB, the nodes and keywords that may pass.
#
# The tree decides what is allowed and which words are columns. It is never turned back into SQL:
# DuckDB gets the words that were written, in their order, so that it alone decides what they
# mean.

_GRAMMAR_FORMS = {"CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM", "POSITION"}

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
    called = token.start in calls and token.text.upper() not in _GRAMMAR_FORMS
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


# Which functions may be called: every deterministic scalar function of DuckDB, and no other.

# Words before a parenthesis that call nothing.
_SYNTAX = frozenset(
    "AND OR NOT IN BETWEEN LIKE ILIKE GLOB ESCAPE IS FROM FOR WHEN THEN ELSE CASE AS WHERE "
    "INTERVAL SELECT DECIMAL NUMERIC DEC VARCHAR CHAR BPCHAR TEXT DISTINCT BOTH LEADING "
    "TRAILING".split()
) | {"SIMILAR TO"}
# Forms of the grammar, which DuckDB does not list among its functions.
_FUNCTION_FORMS = frozenset(
    "CAST TRY_CAST COALESCE IFNULL EXTRACT SUBSTRING TRIM POSITION TRY".split()
)


def check_functions(words: Words, tokens: Tokens) -> set[int]:
    """Where functions are called in an expression; complains about one that may not be."""
    calls: set[int] = set()
    for token, after in pairwise(tokens):
        if after.token_type is T.L_PAREN and is_word(token):
            name = token.text.upper()
            if token.token_type is T.IDENTIFIER:
                raise words.error("Write the name of a function without quotes.", token)
            if name not in _SYNTAX:
                calls.add(token.start)
                if name not in _FUNCTION_FORMS:
                    _check_function(words, token)
    for token in tokens:  # sqlglot would take it for a command, and log a warning
        if token.text.upper() == "IF" and token.start not in calls and is_word(token):
            raise words.error("Write CASE WHEN ... THEN ... END, or if(condition, a, b).", token)
    return calls


def _check_function(words: Words, token: Token) -> None:

    name, known = token.text.lower(), catalogue()
    if name in known.deterministic:
        return
    if name in known.aggregates:
        raise words.error(
            f"{token.text} cannot be used here: {AGGREGATES}, alone and directly after SELECT.",
            token,
        )
    if name in known.others:
        raise words.error(
            f"{token.text} is not supported: it is not a deterministic function of one row "
            "(it depends on chance, the clock or the system, or it returns many rows).",
            token,
        )
    near = get_close_matches(name, known.deterministic, n=1)
    advice = f" Did you mean {near[0]}?" if near else ""
    raise words.error(f"There is no function '{token.text}'.{advice}", token)


# The functions of DuckDB, sorted by whether a question may call them.

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

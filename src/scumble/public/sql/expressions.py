"""Checking of one expression: its grammar, its functions and its columns.

sqlglot's syntax tree decides what is allowed and which tokens are columns. The tree is never turned
back into SQL: DuckDB gets the tokens as they were written, in their order, with only the names of
columns replaced by their exact names. DuckDB alone decides what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from pyarrow import types
from sqlglot import Token, exp
from sqlglot import TokenType as T
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError

from scumble.model.errors import QueryError, nearest_name
from scumble.model.long_work import interruptible
from scumble.model.query import Expression, quoted
from scumble.model.schema.schema import Schema
from scumble.model.sql_comparisons import Tokens
from scumble.public.limits import (
    BOUNDED_FUNCTIONS,
    MOST_BOUNDED,
    PATTERN_FUNCTIONS,
    UNBOUNDED_FUNCTIONS,
)
from scumble.public.sql.names import CLOCK_AND_USER, EXPRESSION_WORDS
from scumble.public.sql.ordered_text import ordered_comparisons
from scumble.public.sql.tokens import (
    NameResolver,
    TokenizedSql,
    is_word,
)

_SENTENCES: dict[type[exp.Expr], str] = {
    exp.Tuple: "Tuples are not supported: compare the columns one by one.",
    exp.Star: "A star is not supported here: name a column.",
    exp.Dot: "Write a column as name or table.name, and a function as f(x).",
    exp.Concat: "Write text as one literal, or join it with ||.",
}
_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d+)?")
DROPPED = ""  # replaces the table in `table.column`, and the point after it
_SIDE = "scumble side "  # before the columns of a table in a correlated sub-select
_SUBSELECT = "A sub-select may only be (SELECT column FROM public_table WHERE ...)."


def read_expression(question: TokenizedSql, names: NameResolver, tokens: Tokens) -> Expression:
    """Check an expression and return it with the exact names of its columns."""
    calls = check_functions(question, tokens)
    columns = ColumnResolver(question, names, tokens)
    columns.visit(syntax_tree(question, tokens, calls))
    replacements = columns.replacements | ordered_comparisons(names, tokens)
    sql = render(question, tokens, replacements, calls)
    if columns.expanded:
        _check_expanded(question, tokens[0], sql)
    return Expression(sql, tuple(sorted(columns.attributes)), tokens[0].start)


def _check_expanded(question: TokenizedSql, first: Token, sql: str) -> None:
    """Raise `QueryError` if the names in an expression stand for too much in all."""
    try:
        written = TokenizedSql(sql)
        _ = written.closing
        check_functions(written, written.tokens)
    except QueryError as error:
        raise question.error(error.message, first) from None


@dataclass
class SideTable:
    """The public side table that a sub-select reads; `called` is its name there.

    A sub-select that refers to the row outside it is `correlated`: its columns are renamed, so that
    names of the view cannot be taken for columns of the table.
    """

    name: str
    called: str
    columns: Mapping[str, str]
    correlated: bool = False


class ColumnResolver:
    """Walks through a syntax tree, rejects nodes that are not allowed, and resolves columns.

    `replacements` are the texts of tokens that must be rewritten, by offset.
    """

    def __init__(self, question: TokenizedSql, names: NameResolver, tokens: Tokens) -> None:
        self.question, self.names, self.first = question, names, tokens[0]
        self.tokens = {token.start: token for token in tokens}
        self.attributes: set[str] = set()
        self.replacements: dict[int, str] = {}
        self.expanded = False  # whether a name stands for an expression

    def visit(self, root: exp.Expr) -> None:
        """Visit every node, with the side table whose columns it refers to (None: the view)."""
        stack: list[tuple[exp.Expr, SideTable | None]] = [(root, None)]
        while stack:
            node, side = stack.pop()
            if type(node) not in NODES and not (isinstance(node, exp.Star) and side is not None):
                sentence = _SENTENCES.get(type(node), "This is not supported.")
                raise self.question.error(sentence, self._token(node))
            if isinstance(node, exp.Column):
                self._column(node, side)
                continue
            if isinstance(node, exp.Table):
                continue
            if isinstance(node, exp.Select):
                side = self._side_table(node)
            if isinstance(node, exp.Star) and side is not None:
                continue
            if isinstance(node, exp.Anonymous):
                self._check_clock(node)
            stack.extend((child, side) for child in node.iter_expressions())

    def _column(self, node: exp.Column, side: SideTable | None) -> None:
        word, qualifier = self._token(node.this), node.args.get("table")
        if isinstance(node.this, exp.Star) or node.args.get("db") or node.args.get("join_mark"):
            raise self.question.error("A column is written as name or table.name.", word)
        token = None if qualifier is None else self._token(qualifier)
        if side is not None and self._inside(word, token, side):
            if token is not None:
                self.replacements[token.start] = DROPPED
            name = self.names.side_column(word, side.name, side.columns)
            self.replacements[word.start] = quoted(_SIDE + name if side.correlated else name)
            return
        if token is not None and token.text.lower() in self.names.joins:
            self.replacements[token.start] = DROPPED
        elif token is not None:
            self.names.check_qualifier(token)
            self.replacements[token.start] = DROPPED
        if self._joined(word, token):
            sql, attributes = self.names.joined_column(word, token)
            self.replacements[word.start] = sql
            self.attributes.update(attributes)
            return
        if token is None:
            self.names.check_ambiguous(word)
        named = self.names.expression(word)
        lateral = named is not None and named.start >= 0  # an alias, which no table qualifies
        known = word.text.lower() in self.names.attributes or (lateral and token is not None)
        if named is not None and not known:
            self.attributes.update(named.attributes)
            self.replacements[word.start] = f"({named.sql})"
            self.expanded = True
            return
        name = self.names.attribute(word).name
        self.attributes.add(name)
        self.replacements[word.start] = quoted(name)

    def _joined(self, word: Token, qualifier: Token | None) -> bool:
        """Return whether a name is a column of a joined table."""
        if qualifier is not None:
            return qualifier.text.lower() in self.names.joins
        return self.names.is_joined(word)

    def _inside(self, word: Token, qualifier: Token | None, side: SideTable) -> bool:
        """Return whether a name inside a sub-select is a column of its table."""
        if qualifier is not None:
            known = {self.names.view, *self.names.joins}
            called = qualifier.text.lower()
            if called != side.called.lower() and called not in known:
                self.names.check_qualifier(qualifier)
            return called == side.called.lower()
        outside = word.text.lower() in self.names.attributes or self.names.is_joined(word)
        return word.text.lower() in side.columns or not outside

    def _side_table(self, node: exp.Select) -> SideTable:
        """Return the table of `SELECT column FROM table [AS name] [WHERE ...]`."""
        given = {name for name, value in node.args.items() if value}
        source = node.args.get("from_") or node.args.get("from")
        table = source.this if source else None
        if (
            given - {"expressions", "from_", "from", "where", "kind", "operation_modifiers"}
            or (len(node.expressions) != 1 and not isinstance(node.parent, exp.Exists))
            or (node.expressions[0].is_star and not isinstance(node.parent, exp.Exists))
            or not isinstance(table, exp.Table)
            or not isinstance(table.this, exp.Identifier)
            or {name for name, value in table.args.items() if value} - {"this", "alias"}
        ):
            raise self.question.error(_SUBSELECT, self._token(node))
        word = self._token(table.this)
        name, columns = self.names.side_table(word)
        alias = table.args.get("alias")
        called = name if alias is None else self._token(alias.this).text
        side = SideTable(name, called, columns)
        side.correlated = any(
            not self._inside(self._token(each.this), self._qualifier(each), side)
            for each in node.find_all(exp.Column)
            if each.find_ancestor(exp.Select) is node and not isinstance(each.this, exp.Star)
        )
        self.replacements[word.start] = self._renamed(side) if side.correlated else quoted(name)
        if alias is not None:
            self.replacements[self._token(alias.this).start] = quoted(called)
        return side

    def _qualifier(self, node: exp.Column) -> Token | None:
        table = node.args.get("table")
        return None if table is None else self._token(table)

    def _renamed(self, side: SideTable) -> str:
        columns = (f"{quoted(n)} AS {quoted(_SIDE + n)}" for n in side.columns.values())
        return f"(SELECT {', '.join(columns)} FROM {quoted(side.name)})"

    def _check_clock(self, node: exp.Anonymous) -> None:
        token = self.tokens.get(node.meta.get("start", -1), self.first)
        if token.text.lower() == "age" and len(node.expressions) < 2:
            raise self.question.error(
                "age(...) of one date is not supported: it reads the clock. Give the second date.",
                token,
            )

    def _token(self, node: exp.Expr) -> Token:
        """Return the first token of a node, or of the expression if the parser kept no position."""
        starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
        return self.tokens.get(min(starts, default=-1), self.first)


def render(
    question: TokenizedSql, tokens: Tokens, replacements: Mapping[int, str], calls: set[int]
) -> str:
    """Return the tokens as SQL, with `replacements` by offset and functions at the offsets `calls`.

    Literals are quoted again; every other word must be a keyword.
    """
    sql, tight, dropped = "", True, False
    before: Token | None = None
    for token in tokens:
        if before is not None and _is_shift(before, token):
            tight = True
        text = replacements.get(token.start)
        if text is None:
            text = DROPPED if dropped else _text(question, token, calls)  # the point goes with it
        dropped = not dropped and text is DROPPED
        if text is not DROPPED:
            sql += text if tight or text in _CLOSES else " " + text
            tight = text in _OPENS or token.start in calls
        before = token
    return sql


def _is_shift(before: Token, token: Token) -> bool:
    """Return whether two tokens are the operator << or >>, which the tokenizer cuts in two."""
    same = before.token_type is token.token_type and before.end + 1 == token.start
    return same and token.token_type in (T.LT, T.GT)


_CLOSES = {")", ",", "::"}
_OPENS = {"(", "::", "."}  # a remaining point begins a number


def _text(question: TokenizedSql, token: Token, calls: set[int]) -> str:
    kind, text = token.token_type, token.text
    if kind is T.STRING:
        return "'" + text.replace("'", "''") + "'"
    if kind is T.NUMBER:
        if not _NUMBER.fullmatch(text):
            raise question.error(f"'{text}' is not understood as a number.", token)
        return text
    if not is_word(token) or token.start in calls:
        return text
    if kind is not T.IDENTIFIER and text.upper() in EXPRESSION_WORDS:
        return text.upper()
    raise question.error(f"'{text}' is not understood here.", token)


# Grammar: the nodes of sqlglot's parser for DuckDB and the keywords that are allowed.

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
        *(exp.Subquery, exp.Exists, exp.Select, exp.From, exp.Where, exp.Table, exp.TableAlias),
    }
)

# What is true, false or NULL.
_CONDITIONS = (
    *(exp.And, exp.Or, exp.Not, exp.Boolean, exp.Is, exp.In, exp.Between, exp.Exists),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Like, exp.ILike, exp.SimilarTo, exp.Glob, exp.Escape, exp.RegexpLike, exp.StartsWith),
)

_DUCKDB = DuckDB()
_TEXTS = {T.STRING, T.IDENTIFIER}
# Words of commands, which name columns in a question: Alter is an age in German.
_COLUMN_NAMES = {T.ALTER, T.DROP, T.FORCE, T.GRANT, T.INSERT, T.INSTALL, T.REVOKE, T.ROLLBACK}


def syntax_tree(question: TokenizedSql, tokens: Tokens, calls: Container[int]) -> exp.Expr:
    """Return the syntax tree of one expression; functions are called at the offsets `calls`."""
    given = [_plain(token, calls) for token in tokens]
    try:
        [found] = _DUCKDB.parser().parse_into(exp.Condition, given, question.text)
    except ParseError as error:
        raise _syntax_error(question, tokens, error) from None
    except RecursionError:
        raise question.error("The expression is nested too deeply.", tokens[0]) from None
    except ValueError:  # more than one tree, or none
        found = None
    if found is None:
        raise question.error("This is not understood as an expression.", tokens[0])
    return found


def is_condition(expression: Expression, schema: Schema) -> bool:
    """Return whether an expression that was read is true, false or NULL, not a number or text."""
    question = TokenizedSql(expression.sql)
    calls = check_functions(question, question.tokens)
    functions = {token.start: token.text.lower() for token in question.tokens}
    pending, values = [syntax_tree(question, question.tokens, calls)], list[exp.Expr]()
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.Case):
            results = [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]
            pending += [each for each in results if each is not None]
        elif not isinstance(node, exp.Null):
            values.append(node)
    return bool(values) and all(_is_truth(node, functions, schema) for node in values)


def _is_truth(node: exp.Expr, functions: Mapping[int, str], schema: Schema) -> bool:
    """Return whether a value is true or false; `functions` are the names of functions by offset."""
    if isinstance(node, exp.Column):
        return node.name in schema and bool(types.is_boolean(schema[node.name].arrow_type))
    if isinstance(node, exp.Cast):
        return bool(node.to.this is exp.DataType.Type.BOOLEAN)
    if isinstance(node, exp.Anonymous):
        return functions.get(node.meta.get("start", -1)) in catalogue().conditions
    return isinstance(node, _CONDITIONS)


def condition_of(question: TokenizedSql, span: tuple[int, int]) -> tuple[int, int] | None:
    """Return the span of the condition in CASE WHEN condition THEN 1 ELSE 0 END, else None."""
    start, end = span
    tokens = question.tokens
    if [token.text.upper() for token in tokens[end - 5 : end]] != ["THEN", "1", "ELSE", "0", "END"]:
        return None
    inner = start + 2, end - 5
    kinds = [token.token_type for token in tokens[start : start + 2]]
    words = [token.token_type for token in tokens[slice(*inner)]]
    if kinds != [T.CASE, T.WHEN] or inner[0] >= inner[1] or {T.WHEN, T.CASE} & set(words):
        return None
    return inner


def _plain(token: Token, calls: Container[int]) -> Token:
    """Return the token that the parser gets.

    The parser rewrites some functions that it knows, so it gets the name of an unknown function.
    For the same reason it gets `current_date` as a name, which no column has.
    """
    if token.token_type in _COLUMN_NAMES:
        return Token(T.VAR, token.text, token.line, token.col, token.start, token.end)
    called = token.start in calls and token.text.upper() not in _GRAMMAR_FORMS
    if not called and (token.token_type in _TEXTS or token.text.lower() not in CLOCK_AND_USER):
        return token
    text = "unknown_function" if called else token.text
    return Token(T.VAR, text, token.line, token.col, token.start, token.end)


def _syntax_error(question: TokenizedSql, tokens: Tokens, error: ParseError) -> QueryError:
    found = error.errors[0] if error.errors else {}
    place = (found.get("line"), found.get("col"))
    blamed = next((each for each in tokens if (each.line, each.col) == place), tokens[0])
    if "missing" in str(found.get("description")):
        return question.error(f"Something is missing at or after '{blamed.text}'.", blamed)
    return question.error(f"Syntax error at or near '{blamed.text}'.", blamed)


# Functions: every deterministic scalar function of DuckDB is allowed, and no other.

# Words before a parenthesis that are not functions.
_SYNTAX = frozenset(
    "AND OR NOT IN BETWEEN LIKE ILIKE GLOB ESCAPE IS FROM FOR WHEN THEN ELSE CASE AS WHERE "
    "INTERVAL SELECT EXISTS ENUM DECIMAL NUMERIC DEC VARCHAR CHAR BPCHAR TEXT DISTINCT BOTH "
    "LEADING TRAILING".split()
) | {"SIMILAR TO"}
# Special forms of the grammar, which DuckDB does not list among its functions.
_FUNCTION_FORMS = frozenset(
    "CAST TRY_CAST COALESCE IFNULL EXTRACT SUBSTRING TRIM POSITION TRY".split()
)


def check_functions(question: TokenizedSql, tokens: Tokens) -> set[int]:
    """Return the offsets of function calls; raise `QueryError` if a function is not allowed."""
    calls: set[int] = set()
    bounded = 0
    public = _inside_subselects(tokens)  # where aggregates are over public tables
    for token, after in pairwise(tokens):
        if after.token_type is T.L_PAREN and is_word(token):
            name = token.text.upper()
            if token.token_type is T.IDENTIFIER:
                raise question.error("Write the name of a function without quotes.", token)
            if name not in _SYNTAX:
                calls.add(token.start)
                if name not in _FUNCTION_FORMS:
                    _check_function(question, token, token.start in public)
                bounded += name.lower() in BOUNDED_FUNCTIONS
                if bounded > MOST_BOUNDED:
                    raise question.error(
                        f"An expression has at most {MOST_BOUNDED} calls of functions that make "
                        f"long texts or compare them, such as {token.text}.",
                        token,
                    )
    for token in tokens:  # sqlglot would parse it as a command and log a warning
        if token.text.upper() == "IF" and token.start not in calls and is_word(token):
            raise question.error("Write CASE WHEN ... THEN ... END, or if(condition, a, b).", token)
    return calls


def _inside_subselects(tokens: Tokens) -> set[int]:
    """Return the offsets of the tokens that are inside of `(SELECT ...)`."""
    found: set[int] = set()
    depth, selects = 0, list[int]()
    for place, token in enumerate(tokens):
        if token.token_type is T.L_PAREN:
            depth += 1
            if place + 1 < len(tokens) and tokens[place + 1].token_type is T.SELECT:
                selects.append(depth)
        elif token.token_type is T.R_PAREN:
            if selects and selects[-1] == depth:
                selects.pop()
            depth -= 1
        elif selects:
            found.add(token.start)
    return found


# Aggregates of public side tables that do not depend on the order of their rows.
_PUBLIC_AGGREGATES = frozenset(
    "count sum avg mean min max median quantile quantile_cont quantile_disc var_pop var_samp "
    "stddev stddev_pop stddev_samp bool_and bool_or count_if".split()
)


# What people mean by names that no function has.
_MEANT = {
    **dict.fromkeys(
        ("share", "percent", "proportion", "ratio", "fraction"),
        "AVG(condition), as AVG(age > 40): the share of the rows where it holds",
    ),
    **dict.fromkeys(
        ("percentile", "approx_percentile", "percentile_approx"), "quantile_cont(x, 0.9)"
    ),
    **dict.fromkeys(("sd", "std", "stdev"), "STDDEV(x)"),
    "average": "AVG(x)",
    "number": "COUNT(*)",
    "total": "SUM(x)",
}


def _check_function(question: TokenizedSql, token: Token, public: bool) -> None:
    name, known = token.text.lower(), catalogue()
    if name in UNBOUNDED_FUNCTIONS:
        raise question.error(
            f"{token.text} is not supported: nothing limits the size of its result.", token
        )
    if public and name in _PUBLIC_AGGREGATES:
        return
    if name in known.deterministic:
        if name in PATTERN_FUNCTIONS:
            _check_pattern(question, token)
        return
    if name in known.aggregates:
        raise question.error(
            f"{token.text} cannot be used here: aggregates stand after SELECT, in HAVING and in "
            "ORDER BY.",
            token,
        )
    if name in known.others:
        raise question.error(
            f"{token.text} is not supported: it is not a deterministic function of one row "
            "(it depends on chance, the clock or the system, or it returns many rows).",
            token,
        )
    if (meant := _MEANT.get(name)) is not None:
        raise question.error(f"There is no function '{token.text}'. Write {meant}.", token)
    near = nearest_name(name, sorted(known.deterministic | _PUBLIC_AGGREGATES | known.others))
    advice = f" Did you mean {near}?" if near and near not in known.others else ""
    raise question.error(f"There is no function '{token.text}'.{advice}", token)


def _check_pattern(question: TokenizedSql, token: Token) -> None:
    """Check that the pattern of `format` and `printf` is a text without a large width."""
    tokens = question.tokens
    place = next(i for i, each in enumerate(tokens) if each.start == token.start) + 2
    pattern, after = (*tokens[place : place + 2], None, None)[:2]
    ended = after is not None and after.token_type in (T.COMMA, T.R_PAREN)
    if pattern is None or pattern.token_type is not T.STRING or not ended:
        raise question.error(f"The first argument of {token.text} must be a text in quotes.", token)
    if re.search(r"[0-9]{4}|\*|\{[^}]*\{", pattern.text):
        raise question.error(
            f"{token.text} takes widths of at most 999, written in the pattern.", pattern
        )


# DuckDB lists these as consistent, but they read the clock, the system, or internal state.
_UNSTEADY = frozenset(
    "current_localtime current_localtimestamp getenv version parse_duckdb_log_message "
    "json_serialize_plan json_serialize_sql json_deserialize_sql to_aggregate_state finalize "
    "combine unnest".split()
)
# Of the built-in macros only these are scalar and deterministic.
_MACROS = frozenset("date_add days_in_month fdiv fmod if nullif split_part".split())


@dataclass(frozen=True)
class Catalogue:
    """The functions of DuckDB by whether a question may call them; names in lower case."""

    deterministic: frozenset[str]  # scalar, and a function of the arguments only
    aggregates: frozenset[str]  # window functions included
    others: frozenset[str]  # volatile functions, table functions and others
    conditions: frozenset[str]  # scalar, and true, false or NULL whatever the arguments are


@cache
def catalogue() -> Catalogue:
    """Return the functions of the installed version of DuckDB."""
    import duckdb

    with interruptible(), duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT lower(function_name), function_type,"
            " bool_and(coalesce(stability, '') = 'CONSISTENT'),"
            " bool_and(coalesce(return_type, '') = 'BOOLEAN')"
            " FROM duckdb_functions() GROUP BY ALL"
        ).fetchall()
    every = {name for name, *_ in rows}
    aggregates = {name for name, kind, *_ in rows if kind in ("aggregate", "window")}
    steady = {name for name, kind, consistent, _ in rows if kind == "scalar" and consistent}
    unsteady = {name for name, kind, consistent, _ in rows if kind == "scalar" and not consistent}
    macros = _MACROS.intersection(name for name, kind, *_ in rows if kind == "macro")
    named = {name for name in steady if name.isidentifier() and not name.startswith("__")}
    deterministic = frozenset(named - unsteady - aggregates - _UNSTEADY | macros)
    return Catalogue(
        deterministic,
        frozenset(aggregates - deterministic),
        frozenset(every | _UNSTEADY) - deterministic - aggregates,
        frozenset(name for name, _, _, condition in rows if condition) & deterministic,
    )

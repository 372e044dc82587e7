"""Tokens of a question, resolution of column names, and SQL that is never supported.

Errors point at a token with a caret.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from sqlglot import Token
from sqlglot import TokenType as T
from sqlglot.errors import TokenError

from scumble.model.errors import QueryError, nearest_name
from scumble.model.query import Expression, place, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.lists import DerivedName, Function
from scumble.model.schema.schema import Schema
from scumble.model.sql_comparisons import Tokens, tokenize
from scumble.public.sql.names import CLOCK_AND_USER

LONGEST = 200_000
DEEPEST = 25  # parentheses and CASE; the recursive parser must never exhaust the stack
_WORD = re.compile(r"[^\W\d]\w*(?: \w+)*")
_CLOSED = re.compile(
    r"""'(?:[^']|'')*+' | "(?:[^"]|"")*+" | /\*.*?\*/ | --[^\n]* | /(?!\*) | [^'"/$] | \$(?!\w*\$)
    | (\$\w*\$).*?\1""",
    re.DOTALL | re.VERBOSE,
)
_LISTS = (
    "in a condition, only a column that was derived from it and published can be compared, such "
    "as length(x) or contains(x, 'a')."
)
_PREFIXES = {T.NOT, T.DASH, T.PLUS, T.TILDE, T.INTERVAL}
_NESTING = _PREFIXES | {T.L_PAREN, T.R_PAREN, T.CASE, T.END}


class TokenizedSql:
    """The tokens of a question. A question that is too long is rejected.

    `closing` rejects parentheses that are not balanced, or nested too deeply.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise QueryError(f"A question must be SQL text. Got {type(text).__name__} instead.")
        self.text = text
        self.written: dict[str, str] = {}  # by a text that replaced it
        self.views: dict[str, View] = {}  # what WITH calls rows of the view, by name in lower case
        self.table = ""  # the name of the view in FROM, in lower case; see `FromReader`
        if len(text) > LONGEST:
            raise QueryError(
                f"The question is too long: {len(text)} characters, of at most {LONGEST}."
            )
        if "\0" in text:
            raise self.error("A zero character cannot be part of a question.", text.index("\0"))
        self.tokens = self._tokenize()
        while self.tokens and self.tokens[-1].token_type is T.SEMICOLON:
            self.tokens.pop()
        if not self.tokens:
            raise QueryError("The question is empty. Write SELECT COUNT(*) FROM t, for example.")

    def part(self, start: int, end: int | None = None) -> TokenizedSql:
        """Return a part of the tokens as a question of its own; errors point into the whole."""
        found = object.__new__(TokenizedSql)
        found.text, found.tokens = self.text, self.tokens[start:end]
        found.written, found.views, found.table = self.written, self.views, self.table
        return found

    @cached_property
    def closing(self) -> dict[int, int]:
        """The index of the parenthesis that closes each opening one."""
        return self._match_parentheses()

    def error(self, message: str, at: Token | int | None = None) -> QueryError:
        """Return the error with a caret at a token, an offset, or (None) the end of the text."""
        if at is None:
            at = len(self.text.rstrip())
        start = at if isinstance(at, int) else at.start
        line, column = place(self.text, start)
        return QueryError(message, text=self.text, line=line, column=column)

    def _tokenize(self) -> list[Token]:
        try:
            return tokenize(self.text)
        except TokenError:  # the closing mark of a string or comment is missing
            start = 0
            while closed := _CLOSED.match(self.text, start):
                start = closed.end()
        mark = {"/": "*/", "": "mark"}.get(
            self.text[start : start + 1], self.text[start : start + 1]
        )
        raise self.error(f"A closing {mark} is missing.", start)

    def _match_parentheses(self) -> dict[int, int]:
        """Return the index of the closing parenthesis by that of the opening one."""
        closing: dict[int, int] = {}
        open_now: list[int] = []
        cases = prefixes = 0
        for index, token in enumerate(self.tokens):
            kind = token.token_type
            if kind not in _NESTING:  # most tokens
                prefixes = 0
                continue
            prefixes = prefixes + 1 if kind in _PREFIXES else 0
            if kind is T.L_PAREN:
                open_now.append(index)
            elif kind is T.R_PAREN:
                if not open_now:
                    raise self.error("This parenthesis closes nothing.", token)
                closing[open_now.pop()] = index
            elif kind is T.CASE:
                cases += 1
            elif kind is T.END and cases:
                cases -= 1
            if len(open_now) + cases > DEEPEST or prefixes > DEEPEST:
                raise self.error("The question is nested too deeply.", token)
        if open_now:
            raise self.error("This parenthesis is never closed.", self.tokens[open_now[-1]])
        return closing


def is_word(token: Token) -> bool:
    """Return whether a token is a name or a keyword, not a literal or a symbol."""
    kind = token.token_type
    if kind is T.VAR or kind is T.IDENTIFIER:
        return True
    return kind is not T.STRING and _WORD.fullmatch(token.text) is not None


# Names.


@dataclass(frozen=True)
class JoinedTable:
    """A joined public side table: its `key` equals the expression `sql` over attributes."""

    name: str
    columns: Mapping[str, str]  # exact names by lower-case name
    key: str
    sql: str
    attributes: tuple[str, ...]

    def value(self, column: str) -> str:
        """Return the SQL of a column for a row of the view; NULL without a partner.

        The inner names are such that names of the view cannot be taken for columns of the table.
        """
        table, key, value = quoted(self.name), quoted("scumble key"), quoted("scumble value")
        inner = f"SELECT {quoted(self.key)} AS {key}, {quoted(column)} AS {value} FROM {table}"
        return f"(SELECT {value} FROM ({inner}) WHERE {key} = ({self.sql}))"


@dataclass(frozen=True)
class View:
    """Rows of the view that WITH or a sub-select in FROM chooses, and their columns.

    `attributes` are columns by lower-case name, and `named` those that are expressions. `table` is
    the name of the view that it reads.
    """

    table: str
    attributes: dict[str, Attribute]
    named: dict[str, Expression]
    clauses: tuple[Expression, ...]
    notes: tuple[str, ...]


class NameResolver:
    """Resolves the names of columns of the view and of public side tables; case is ignored."""

    def __init__(
        self, question: TokenizedSql, schema: Schema, tables: Mapping[str, Sequence[str]]
    ) -> None:
        self.question, self.schema, self.given = question, schema, tables
        # Names of expressions, by lower-case name: columns of a sub-select in FROM, and aliases of
        # SELECT, which later tokens may use (`start` is the offset of the alias).
        self.named: dict[str, Expression] = {}
        self.attributes = {attribute.name.lower(): attribute for attribute in schema}
        self.tables = {
            table.lower(): (table, {column.lower(): column for column in columns})
            for table, columns in tables.items()
        }
        self.view: str = ""  # the name of the view in FROM, in lower case
        self.joins: dict[str, JoinedTable] = {}  # by the name that FROM calls them, in lower case
        self.using: set[str] = set()  # columns of USING, in lower case

    def nested(self, question: TokenizedSql) -> NameResolver:
        """Return the names of a sub-select, before its FROM is read."""
        return NameResolver(question, self.schema, self.given)

    def expression(self, token: Token) -> Expression | None:
        """Return the expression that a name stands for, or None."""
        found = self.named.get(token.text.lower())
        return found if found is not None and found.start < token.start else None

    def column(self, found: Expression) -> Attribute | None:
        """Return the attribute that an expression is, or None if it is anything else."""
        if len(found.attributes) != 1 or found.sql != quoted(found.attributes[0]):
            return None
        return self.schema[found.attributes[0]]

    def attribute(self, token: Token, aliases: Iterable[str] = ()) -> Attribute:
        """Return the published attribute that a token names; `aliases` could stand there too."""
        found = self.attributes.get(token.text.lower())
        if found is None:
            published = [
                a.name if a.name.lower() == name else name
                for name, a in self.attributes.items()
                if a.domain is not None
            ]
            raise self.unknown(token, [*published, *self.named, *aliases])
        if found.domain is None:
            raise self.question.error(
                f"'{found.name}' is an identifier and is never published.", token
            )
        if not found.tabular:
            raise self.question.error(f"'{found.name}' is a {found.kind}: {_LISTS}", token)
        return found

    def is_joined(self, token: Token) -> bool:
        """Return whether a plain name is a column of a joined table and not of the view."""
        return token.text.lower() not in self.attributes and any(
            token.text.lower() in table.columns for table in self.joins.values()
        )

    def joined_column(self, token: Token, qualifier: Token | None) -> tuple[str, tuple[str, ...]]:
        """Return the SQL of a column of a joined table, and the attributes that it depends on."""
        word = token.text.lower()
        if qualifier is not None:
            found = [self.joins[qualifier.text.lower()]]
        else:
            found = [table for table in self.joins.values() if word in table.columns]
        if len(found) > 1:
            raise self.question.error(
                f"'{token.text}' is a column of several tables: write table.{token.text}.", token
            )
        [table] = found
        column = self.side_column(token, table.name, table.columns)
        return table.value(column), table.attributes

    def check_ambiguous(self, token: Token) -> None:
        """Raise `QueryError` if a plain name is a column of the view and of a joined table."""
        word = token.text.lower()
        if word not in self.using and any(word in t.columns for t in self.joins.values()):
            raise self.question.error(
                f"'{token.text}' is a column of several tables: write {self.view}.{token.text}.",
                token,
            )

    def check_qualifier(self, token: Token) -> None:
        """Raise `QueryError` unless `token`, as in `token.age`, is the name of the view in FROM."""
        if token.text.lower() != self.view:
            raise self.question.error(
                f"There is no table '{token.text}' here: FROM calls it '{self.view}'.", token
            )

    def side_table(self, token: Token, what: str = "A sub-select") -> tuple[str, dict[str, str]]:
        """Return the exact name of a public side table, and its columns by lower-case name."""
        if token.text.lower() in self.tables:
            return self.tables[token.text.lower()]
        known = ", ".join(table for table, _ in self.tables.values())
        have = f"The public tables are {known}." if known else "No public table was given."
        raise self.question.error(
            f"{what} can only read a public side table; '{token.text}' is not one. {have}",
            token,
        )

    def side_column(self, token: Token, table: str, columns: Mapping[str, str]) -> str:
        """Return the exact name of a column inside a sub-select."""
        name = token.text.lower()
        if name in columns:
            return columns[name]
        if name in self.attributes:
            raise self.question.error(
                f"'{table}' has no column '{token.text}', and a sub-select cannot refer to the "
                "row outside it.",
                token,
            )
        raise self.unknown(token, columns.values())

    def unknown(self, token: Token, known: Iterable[str]) -> QueryError:
        """Return the error about an unknown name, with advice."""
        name, known = token.text, list(known)
        if name.lower() in CLOCK_AND_USER and token.token_type is not T.IDENTIFIER:
            return self.question.error(
                f"{name} is not supported: its value depends on when or by whom it is asked.", token
            )
        message = f"There is no column '{name}'. {self._advice(token, known)}"
        return self.question.error(message, token)

    def _advice(self, token: Token, known: list[str]) -> str:
        for column in known:
            if not re.fullmatch(r"\w+", column) and self._covers(column, token):
                return f"Write {quoted(column)}, with its double quotes."
        if near := nearest_name(token.text, known):
            return f"Did you mean {near}?"
        if token.token_type is T.IDENTIFIER:
            return f"If it is text, write it in single quotes. The columns are {', '.join(known)}."
        return f"The columns are {', '.join(known)}."

    def _covers(self, column: str, token: Token) -> bool:
        """Return whether the token is part of this column, as of `education-num` without quotes."""
        found = re.finditer(re.escape(column), self.question.text, re.IGNORECASE)
        return any(match.start() <= token.start < match.end() for match in found)


# Columns that are derived from lists.

_DERIVING = {"first", "last", "length", "contains"}


_LISTING = {"list_has_all": "AND", "list_has_any": "OR"}
_MOST_NAMED = 8  # columns in a message


def fold_derived(question: TokenizedSql, schema: Schema) -> None:
    """Replace each call like `first(pages)` that names a column derived from a list by one name,
    and `list_has_all(items, ['a', 'b'])` by the condition that each of these values is there.
    """
    derived = schema.derived_names
    lists = {attribute.name.lower() for attribute in schema.lists} | {k[1] for k in derived}
    if not lists:
        return
    _spell_out(question, lists)
    tokens, folded, at = question.tokens, list[Token](), 0
    while at < len(tokens):
        call = _derived_call(tokens, at)
        # `first` and `last` are aggregates elsewhere, which no question has.
        if call is None or not (
            call[0].key in derived
            or call[0].base.lower() in lists
            or call[0].function in ("first", "last")
        ):
            folded.append(tokens[at])
            at += 1
            continue
        read, end = call
        first, last = tokens[at], tokens[end - 1]
        if read.key not in derived:
            known = list(derived.values()) or ["no column that is derived from a list"]
            more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
            have = ", ".join(known[:_MOST_NAMED]) + more
            raise question.error(f"{read} was not published. There is {have}.", first)
        name = derived[read.key]
        folded.append(Token(T.IDENTIFIER, name, first.line, first.col, first.start, last.end))
        at = end
    question.tokens[:] = folded


def _spell_out(question: TokenizedSql, lists: Container[str]) -> None:
    """Write `list_has_all(items, ['a', 'b'])` as `(contains(items, 'a') AND contains(items, 'b'))`,
    and `list_has_any` with OR, in the text and the tokens of the question.
    """
    tokens, text = question.tokens, question.text
    parts, done, at = list[str](), tokens[0].start, 0
    while at < len(tokens):
        call = _listing_call(tokens, at)
        if call is None or tokens[at + 2].text.lower() not in lists:
            at += 1
            continue
        base, (values, end) = text[tokens[at + 2].start : tokens[at + 2].end + 1], call
        spelled = (f"contains({base}, {text[start : stop + 1]})" for start, stop in values)
        joint = f" {_LISTING[tokens[at].text.lower()]} "
        parts += [text[done : tokens[at].start], f"({joint.join(spelled)})"]
        done, at = tokens[end - 1].end + 1, end
    if parts:
        question.text = "".join([*parts, text[done : tokens[-1].end + 1]])
        question.tokens = question._tokenize()


def _listing_call(tokens: Tokens, at: int) -> tuple[list[tuple[int, int]], int] | None:
    """Return where the values of a call like `list_has_all(items, ['a', 'b'])` stand in the text,
    and the index after the call.
    """
    kinds = [token.token_type for token in tokens[at + 1 : at + 5]]
    if tokens[at].text.lower() not in _LISTING or len(kinds) < 4 or not is_word(tokens[at + 2]):
        return None
    if kinds[:1] + kinds[2:] != [T.L_PAREN, T.COMMA, T.L_BRACKET]:
        return None
    found, at = list[tuple[int, int]](), at + 5
    while at + 2 < len(tokens):
        end = at + 1 + (tokens[at].token_type is T.DASH)
        if _literal(tokens[at:end]) is None:
            return None
        found.append((tokens[at].start, tokens[end - 1].end))
        if [each.token_type for each in tokens[end : end + 2]] == [T.R_BRACKET, T.R_PAREN]:
            return found, end + 2
        if tokens[end].token_type is not T.COMMA:
            return None
        at = end + 1
    return None


def _literal(tokens: Tokens) -> str | int | None:
    """Return the text or whole number that one token, or two with a sign, stand for."""
    value = tokens[-1]
    if value.token_type is T.NUMBER and value.text.isdigit() and len(value.text) <= 40:
        return -int(value.text) if len(tokens) == 2 else int(value.text)
    return value.text if value.token_type is T.STRING and len(tokens) == 1 else None


def _derived_call(tokens: Tokens, at: int) -> tuple[DerivedName, int] | None:
    """Return the call of a deriving function that begins at a token, and the index after it."""
    word = tokens[at].text.lower()
    rest = tokens[at + 1 : at + 7]
    if word not in _DERIVING or len(rest) < 3 or rest[0].token_type is not T.L_PAREN:
        return None
    if tokens[at].token_type is T.IDENTIFIER or not is_word(rest[1]):
        return None
    kinds = [token.token_type for token in rest]
    function, base = cast(Function, word), rest[1].text
    if word != "contains":
        return (DerivedName(function, base), at + 4) if kinds[2] is T.R_PAREN else None
    sign = kinds[3:4] == [T.DASH]
    if kinds[2] is not T.COMMA or len(rest) < 5 + sign or kinds[4 + sign] is not T.R_PAREN:
        return None
    value = _literal(rest[3 : 4 + sign])
    return None if value is None else (DerivedName(function, base, value), at + 6 + sign)


# SQL that is never supported, with the message for each token type.

_SETS = "is not supported: ask each question by itself."
_SAMPLES = "Samples are not supported: the error of the answer would not be known."
_NESTED = "Lists, structs and lambda functions are not supported: use scalar expressions."
_PARAMETERS = "Parameters are not supported: write the value itself."
_LITERALS = "This kind of literal is not supported: write text in single quotes."
_QUANTIFIED = "ANY, ALL and SOME are not supported: use IN (SELECT column FROM public_table ...)."
_SYMBOL = "This symbol is not part of the supported SQL."

REFUSED = {
    T.LATERAL: "LATERAL is not supported: only public side tables can be joined, by a key.",
    T.STRAIGHT_JOIN: "STRAIGHT_JOIN is not supported: write JOIN.",
    T.OVER: "Window functions (OVER) are not supported, except totals: SUM(COUNT(*)) OVER ().",
    T.WINDOW: "Window functions (WINDOW) are not supported.",
    T.QUALIFY: "QUALIFY is not supported: there are no window functions.",
    T.FETCH: "FETCH is not supported: write LIMIT.",
    T.UNION: f"UNION {_SETS}",
    T.EXCEPT: f"EXCEPT {_SETS}",
    T.INTERSECT: f"INTERSECT {_SETS}",
    T.SEMICOLON: "Only one statement can be asked at a time.",
    T.TABLE_SAMPLE: _SAMPLES,
    T.PIVOT: "PIVOT is not supported: use GROUP BY.",
    T.UNPIVOT: "UNPIVOT is not supported.",
    T.ANY: _QUANTIFIED,
    T.SOME: _QUANTIFIED,
    T.COLLATE: "COLLATE is not supported: use lower(...) or strip_accents(...).",
    T.PLACEHOLDER: _PARAMETERS,
    T.PARAMETER: _PARAMETERS,
    T.ARROW: _NESTED,
    T.DARROW: _NESTED,
    T.COLON: _NESTED,
    T.COLON_EQ: _NESTED,
    T.L_BRACKET: _NESTED,
    T.L_BRACE: _NESTED,
    T.BYTE_STRING: _LITERALS,
    T.BIT_STRING: _LITERALS,
    T.HEX_STRING: _LITERALS,
    T.HEREDOC_STRING: _LITERALS,
    T.NATIONAL_STRING: _LITERALS,
    T.RAW_STRING: _LITERALS,
    T.UNICODE_STRING: _LITERALS,
}

# The symbols of an expression; outside of strings, no others are allowed.
SYMBOLS = frozenset(
    "( ) , . + - * / // % ** ^ || = == <> != < <= > >= & | ~ << >> :: ~~ ~~* ~~~ ^@ <=>".split()
)

_TEXTUAL = {T.STRING, T.NUMBER, T.IDENTIFIER}

AGGREGATES = (
    "COUNT, COUNT_IF, SUM, AVG, MEDIAN, QUANTILE, PERCENTILE_CONT, PERCENTILE_DISC, VAR_POP, "
    "VAR_SAMP, STDDEV, COVAR_POP, COVAR_SAMP, CORR, REGR_SLOPE, REGR_INTERCEPT and REGR_R2 are "
    "supported"
)
QUANTILES = frozenset(
    "quantile quantile_cont quantile_disc percentile_cont percentile_disc".split()
)


def refuse_unsupported(question: TokenizedSql, names: Container[str]) -> None:
    """Raise `QueryError` at the first token that is never supported; column names are allowed."""
    _expect_select(question)
    before: Token | None = None
    listed = 0  # tokens before this index are a list of shares
    for at, token in enumerate(question.tokens):
        sentence = REFUSED.get(token.token_type)
        if token.token_type is T.L_BRACKET:
            listed = _end_of_shares(question, at)
        if at < listed or (token.token_type is T.OVER and _is_total(question, at)):
            before = token
            continue
        if sentence and token.text.lower() not in names:
            raise question.error(sentence, token)
        if not (token.token_type in _TEXTUAL or is_word(token) or token.text in SYMBOLS):
            raise question.error(_SYMBOL, token)
        if before is not None and token.text in ("-", "+") and _one_operator(before, token):
            raise question.error(
                f"'{before.text}{token.text}' would be one operator: write a blank before "
                f"'{token.text}'.",
                before,
            )
        before = token


def opening(question: TokenizedSql, close: int) -> int:
    """Return the index of the parenthesis that the one at `close` closes, or -1."""
    return next((at for at, end in question.closing.items() if end == close), -1)


def _end_of_shares(question: TokenizedSql, at: int) -> int:
    """Return the index after a list of numbers that ends the call of a quantile; 0 for others."""
    tokens = question.tokens
    end = at + 1
    while end + 1 < len(tokens) and tokens[end].token_type is T.NUMBER:
        end += 1
        if tokens[end].token_type is T.R_BRACKET:
            start = opening(question, end + 1)
            called = start > 0 and tokens[start - 1].text.lower() in QUANTILES
            after = tokens[at - 1].token_type is T.COMMA or start == at - 1
            return end + 1 if called and after else 0
        if tokens[end].token_type is not T.COMMA:
            return 0
        end += 1
    return 0


def _is_total(question: TokenizedSql, at: int) -> bool:
    """Return whether OVER follows SUM(COUNT(...)) or SUM(SUM(...))."""
    start, words = opening(question, at - 1), [token.text.lower() for token in question.tokens]
    parts = (words[start - 1], *words[start + 1 : start + 3])
    return start > 0 and parts in {("sum", each, "(") for each in ("count", "count_if", "sum")}


def _one_operator(before: Token, token: Token) -> bool:
    """Return whether DuckDB takes an operator and the sign directly after it as one operator.

    It does if the operator has one of these characters, as in `x !=-1`.
    """
    adjacent = before.end + 1 == token.start and before.token_type not in _TEXTUAL
    return adjacent and not set("~!%^&|").isdisjoint(before.text) and before.text in SYMBOLS


def _expect_select(question: TokenizedSql) -> None:
    first = question.tokens[0]
    if first.token_type is not T.SELECT:
        raise question.error(
            "A question must begin with SELECT, like SELECT COUNT(*) FROM t.", first
        )

"""One expression of a question: checked word by word, with its columns under their exact names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import Token, exp
from sqlglot import TokenType as T

from scumble.model.query import Expression, quoted
from scumble.public.sql.functions import check_functions
from scumble.public.sql.grammar import KEYWORDS, NODES, tree
from scumble.public.sql.names import Names
from scumble.public.sql.tokens import Tokens, Words, is_word

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

"""The SELECT list, HAVING and ORDER BY: expressions over aggregates and the columns of GROUP BY."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import Token, exp
from sqlglot import TokenType as T

from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.public.sql.aggregates import (
    Call,
    Term,
    find_calls,
    find_groupings,
    read_term,
    split_commas,
)
from scumble.public.sql.arithmetic import Apply, Node, UnsupportedError, linear, ratio, read_node
from scumble.public.sql.conditions import Span
from scumble.public.sql.expressions import (
    DROPPED,
    ColumnResolver,
    check_functions,
    read_expression,
    render,
    syntax_tree,
)
from scumble.public.sql.items import RawItem
from scumble.public.sql.select_plan import Arrangement, Key, placeholder
from scumble.public.sql.tokens import NameResolver, TokenizedSql, is_word
from scumble.public.sql.totals import read_total

_TOTALS = (
    "A sub-select beside an aggregate is a total of the table that FROM names, such as (SELECT "
    "COUNT(*) FROM t WHERE ...)."
)
_MOST_PARTS = 200  # of a formula in which names stand for others


@dataclass
class SelectReader:
    """Reads expressions over aggregates.

    `numbers` are the selected numbers by alias, which later entries may use. `key` returns the
    column of GROUP BY that tokens are.
    """

    question: TokenizedSql
    names: NameResolver
    numbers: dict[str, RawItem] = field(default_factory=dict)
    key: Callable[[Span], Expression | None] = lambda _: None

    def has_aggregate(self, span: Span) -> bool:
        if next(iter(find_calls(self.question, span)), None) is not None:
            return True
        return any(self._number(at) is not None for at in range(*span))

    def add_name(self, item: RawItem) -> None:
        """Let the alias of an entry stand for it in what follows."""
        name = item.name.lower()
        if item.alias is None or name in self.names.attributes or name in self.names.named:
            return
        if self.has_aggregate(item.span):
            self.numbers.setdefault(name, item)
            return
        found = self.expression(item.span)
        column = self.names.column(found)
        if column is not None:
            self.names.attributes[name] = column
        else:
            self.names.named[name] = replace(found, start=item.alias.start)

    def _number(self, at: int) -> RawItem | None:
        """Return the selected number that a token names, or None."""
        tokens = self.question.tokens
        token = tokens[at]
        found = self.numbers.get(token.text.lower()) if is_word(token) else None
        if found is None or found.alias is None or found.alias.start >= token.start:
            return None
        called = at + 1 < len(tokens) and tokens[at + 1].token_type in (T.DOT, T.L_PAREN)
        return None if called or tokens[at - 1].token_type in (T.DOT, T.ALIAS) else found

    def node(self, span: Span, share: Token | None = None) -> Node:
        """Return the arithmetic of a selected number; `QueryError` if it has no error law.

        `share` is the one of a list of shares that is asked for.
        """
        tokens, terms = self._collapsed(span, share)
        if len(tokens) == len(terms) == 1:
            return terms[0][1]
        by_name: dict[str, Node] = {_name(index): term for index, (_, term) in enumerate(terms)}
        tokens, named = self._with_numbers(tokens, by_name)
        calls = check_functions(self.question, tokens)
        functions = {token.start: token.text for token in tokens if token.start in calls}
        tree = syntax_tree(self.question, tokens, calls)
        try:
            node = read_node(tree, by_name, functions)
        except UnsupportedError as unsupported:
            raise self._unsupported(unsupported, tokens) from None
        if named and _size(node) > _MOST_PARTS:
            raise self.question.error("The names in this formula stand for too much.", tokens[0])
        return simplified(node)

    def _with_numbers(
        self, tokens: Sequence[Token], by_name: dict[str, Node]
    ) -> tuple[list[Token], bool]:
        """Return the tokens with placeholders in place of selected numbers, whose nodes are added
        to `by_name`, and whether there are any.
        """
        places = {token.start: at for at, token in enumerate(self.question.tokens)}
        found, before = list[Token](), len(by_name)
        for token in tokens:
            item = None if token.text in by_name else self._number(places[token.start])
            if item is not None:
                name = _name(len(by_name))
                by_name[name] = self.node(item.span, item.share)
                token = Token(T.VAR, name, token.line, token.col, token.start, token.end)
            found.append(token)
        return found, len(by_name) > before

    def expression(self, span: Span) -> Expression:
        """Return an expression without aggregates."""
        return read_expression(self.question, self.names, self.question.tokens[slice(*span)])

    def _collapsed(
        self, span: Span, share: Token | None = None
    ) -> tuple[list[Token], list[tuple[Token, Term]]]:
        """Return the tokens with one token in place of each aggregate, and the aggregates."""
        tokens: list[Token] = []
        terms: list[tuple[Token, Term]] = []
        at = span[0]
        for call in find_calls(self.question, span):
            tokens += self.question.tokens[at : call.span[0]]
            first = self.question.tokens[call.span[0]]
            last = self.question.tokens[call.span[1] - 1]
            name = _name(len(terms))
            token = Token(T.VAR, name, first.line, first.col, first.start, last.end)
            terms.append((token, self._term(call, share)))
            tokens.append(token)
            at = call.span[1]
        return [*tokens, *self.question.tokens[at : span[1]]], terms

    def _term(self, call: Call, share: Token | None) -> Term:
        if call.subselect or call.over is not None:
            return read_total(self.question, self.names, call, self.key)
        return read_term(self.question, self.names, call, share)

    def _unsupported(self, found: UnsupportedError, tokens: Sequence[Token]) -> QueryError:
        by_start = {token.start: token for token in tokens}
        starts = [each.meta["start"] for each in found.node.walk() if "start" in each.meta]
        token = by_start.get(min(starts, default=-1), tokens[0])
        if isinstance(found.node, exp.Subquery):
            return self.question.error(_TOTALS, token)
        if isinstance(found.node, exp.Column) and token.token_type is not T.NUMBER:
            self.names.attribute(token)  # an unknown column has its own sentence
            return self.question.error(
                f"'{token.text}' stands beside an aggregate: put it into the aggregate, or select "
                "it by itself and name it in GROUP BY.",
                token,
            )
        return self.question.error(found.message, token)

    def formula(
        self,
        span: Span,
        keys: Sequence[Key],
        aliases: Mapping[str, str],
        terms: list[Term],
        grouping: Callable[[Call], str],
    ) -> tuple[str, bool]:
        """Return the SQL of an expression of HAVING or ORDER BY over the table of estimates.

        `aliases` are placeholders by alias, and `grouping` returns that of a call of GROUPING. New
        aggregates are appended to `terms`. The second result says whether it depends on estimates.
        """
        tokens, found = self._collapsed(span)
        if not found:
            key = self._whole_key(span, keys, aliases)
            if key is not None:
                return quoted(key), "key" not in key
        places = dict[int, str]()
        for token, term in found:
            if term not in terms:
                terms.append(term)
            places[token.start] = placeholder("term", terms.index(term))
        for number, call in enumerate(find_groupings(self.question, span)):
            first, last = (self.question.tokens[at] for at in (call.span[0], call.span[1] - 1))
            token = Token(T.VAR, f"scumble_grouping_{number}", first.line, first.col, first.start)
            before = [each for each in tokens if each.start < first.start]
            tokens = [*before, token, *(each for each in tokens if each.start > last.start)]
            places[token.start] = grouping(call)
        calls = check_functions(self.question, tokens)
        resolver = EstimateColumns(self.question, self.names, tokens)
        resolver.places, resolver.aliases = places, aliases
        resolver.keys = {
            key.attribute: placeholder("key", index)
            for index, key in enumerate(keys)
            if key.attribute is not None
        }
        resolver.visit(syntax_tree(self.question, tokens, calls))
        sql = render(self.question, tokens, resolver.replacements, calls)
        return sql, resolver.estimated

    def _whole_key(self, span: Span, keys: Sequence[Key], aliases: Mapping[str, str]) -> str | None:
        """Return the placeholder of the key that an expression is, or None."""
        start, end = span
        word = self.question.tokens[start].text.lower()
        if end - start == 1 and word in aliases:
            return aliases[word]
        try:
            found = self.expression(span)
        except QueryError:
            return None
        for index, key in enumerate(keys):
            if key.expression == found:
                return placeholder("key", index)
        return None


class EstimateColumns(ColumnResolver):
    """Resolves columns in HAVING and ORDER BY: aggregates, aliases and grouping columns."""

    places: Mapping[int, str]
    aliases: Mapping[str, str]
    keys: Mapping[str, str]
    estimated: bool = False

    def _column(self, node: exp.Column, side: object) -> None:
        word = self._token(node.this)
        found = self.places.get(word.start) or self.aliases.get(word.text.lower())
        if found is None:
            if node.args.get("table") is not None:
                qualifier = self._token(node.args["table"])
                self.names.check_qualifier(qualifier)
                self.replacements[qualifier.start] = DROPPED
            name = self.names.attribute(word, self.aliases).name
            found = self.keys.get(name)
            if found is None:
                raise self.question.error(
                    f"'{word.text}' is not in GROUP BY: HAVING and ORDER BY name aggregates, "
                    "aliases and grouping columns.",
                    word,
                )
        self.estimated = self.estimated or "key" not in found
        self.replacements[word.start] = quoted(found)


def simplified(node: Node) -> Node:
    """Return the node; a linear or ratio form stays whole, so that it gets one error law."""
    if isinstance(node, Apply) and linear(node) is None and ratio(node) is None:
        return Apply(node.name, tuple(simplified(part) for part in node.parts))
    return node


def _size(node: Node) -> int:
    """Return the number of parts of a formula, counted up to a little more than `_MOST_PARTS`."""
    count, pending = 0, [node]
    while pending and count <= _MOST_PARTS:
        node = pending.pop()
        count += 1
        pending += node.parts if isinstance(node, Apply) else ()
    return count


def _name(index: int) -> str:
    return f"scumble_term_{index}"


def read_order(question: TokenizedSql, span: Span) -> list[tuple[Span, str]]:
    """Return the parts of ORDER BY: each expression, and how it is sorted, as SQL."""
    found = []
    for start, end in split_commas(question, span):
        suffix: list[str] = []
        words = [token.text.upper() for token in question.tokens[start:end]]
        if words[-2:-1] == ["NULLS"] and words[-1] in ("FIRST", "LAST"):
            suffix, end = words[-2:], end - 2
        if end > start and question.tokens[end - 1].token_type in (T.ASC, T.DESC):
            suffix, end = [question.tokens[end - 1].text.upper(), *suffix], end - 1
        if start >= end:
            at = question.tokens[start] if start < len(question.tokens) else None
            raise question.error("A column is missing after ORDER BY.", at)
        found.append(((start, end), " ".join(suffix)))
    return found


@dataclass
class ArrangementReader:
    """Reads HAVING, ORDER BY, LIMIT and OFFSET. `items` are placeholders by position.

    `groupings` are the keys of each GROUPING that is selected; those that are read are added.
    `grouping_keys` returns the keys of a call.
    """

    reader: SelectReader
    keys: Sequence[Key]
    items: Sequence[str]
    aliases: Mapping[str, str]
    groupings: list[tuple[int, ...]]
    grouping_keys: Callable[[Call], tuple[int, ...]]

    def read(
        self, having: Span | None, order: Span | None, limit: int | None, offset: int
    ) -> Arrangement:
        terms: list[Term] = []
        condition, by_having = None, False
        if having is not None:
            condition, by_having = self._formula(having, terms)
        parts, by_order = list[str](), False
        ranked, falling = "", False
        for span, suffix in read_order(self.reader.question, order) if order else ():
            for sql, estimated in self._ordered(span, order, terms):
                if estimated and not parts:
                    ranked, falling = sql, suffix.startswith("DESC")
                parts.append(f"{sql} {suffix}".strip())
                by_order = by_order or estimated
        cut = limit is not None or offset > 0
        return Arrangement(
            condition,
            ", ".join(parts) or None,
            limit,
            offset,
            tuple(terms),
            by_having or (by_order and cut),
            groupings=tuple(self.groupings),
            ranked=ranked,
            falling=falling,
        )

    def _formula(self, span: Span, terms: list[Term]) -> tuple[str, bool]:
        return self.reader.formula(span, self.keys, self.aliases, terms, self._grouping)

    def _grouping(self, call: Call) -> str:
        """Return the placeholder of a call of GROUPING."""
        keys = self.grouping_keys(call)
        if keys not in self.groupings:
            self.groupings.append(keys)
        return placeholder("key grouping", self.groupings.index(keys))

    def _ordered(self, span: Span, order: Span | None, terms: list[Term]) -> list[tuple[str, bool]]:
        """Return what one part of ORDER BY sorts by, and whether that depends on estimates."""
        start, end = span
        question = self.reader.question
        token = question.tokens[start]
        if end - start == 1 and token.token_type is T.ALL:
            if order is None or len(read_order(question, order)) > 1:
                raise question.error("ORDER BY ALL stands by itself: it has all columns.", token)
            return [(quoted(place), "key" not in place) for place in self.items]
        if end - start == 1 and token.token_type is T.NUMBER:
            number = int(token.text) if token.text.isdigit() else 0
            if not 0 < number <= len(self.items):
                raise question.error(
                    f"{token.text} is not the position of a selected column.", token
                )
            found = self.items[number - 1]
            return [(quoted(found), "key" not in found)]
        return [self._formula(span, terms)]

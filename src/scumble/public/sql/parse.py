"""parse: a SELECT statement to a `Query`, or `read_select` to a `Query` or a `SelectPlan`.

The text is not trusted: every token must be known, and the first unknown one is pointed at. A
`Query` is one COUNT, SUM or AVG by attributes; everything else that is supported is a `SelectPlan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

from sqlglot import TokenType as T

from scumble.model.query import Aggregate, Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public.level_function import spell_levels
from scumble.public.sandbox import Sandbox
from scumble.public.sql.aggregates import Term
from scumble.public.sql.conditions import Span, read_clauses
from scumble.public.sql.from_clause import FromReader, read_with
from scumble.public.sql.group_by import GroupingSet, GroupReader
from scumble.public.sql.select_list import ArrangementReader, RawItem, SelectReader, read_items
from scumble.public.sql.select_plan import (
    UNARRANGED,
    Arrangement,
    Item,
    Key,
    SelectPlan,
    placeholder,
)
from scumble.public.sql.tokens import (
    AGGREGATES,
    NameResolver,
    TokenizedSql,
    fold_derived,
    refuse_unsupported,
)

__all__ = ["parse", "parse_tokens", "read_select", "read_select_tokens", "refuse_plan"]

_NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})
_ONE = (
    "One COUNT, SUM or AVG by columns is needed here: MIN, MAX, arithmetic, several aggregates, "
    "HAVING and the like are answered by releases and databases."
)


def parse(text: str, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES) -> Query:
    """Parse a question of one COUNT, SUM or AVG about a table of this schema.

    `tables` are the columns of public side tables by name. Raises `QueryError`, with a caret under
    the token, if the text cannot be parsed or is not supported.
    """
    return parse_tokens(TokenizedSql(text), schema, tables)


def parse_tokens(
    question: TokenizedSql, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES
) -> Query:
    """Parse a question that is tokenized already; see `parse`."""
    found = read_select_tokens(question, schema, tables)
    return found if isinstance(found, Query) else refuse_plan(question)


def refuse_plan(question: TokenizedSql) -> NoReturn:
    """Raise the error of a question that is more than one COUNT, SUM or AVG by attributes."""
    raise question.error(_ONE, question.tokens[0])


def read_select(
    text: str, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES
) -> Query | SelectPlan:
    """Parse any question that is supported; see `parse`."""
    return read_select_tokens(TokenizedSql(text), schema, tables)


def read_select_with(text: str, schema: Schema, sandbox: Sandbox) -> Query | SelectPlan:
    """Parse any question that is supported, about the side tables of a sandbox; see `parse`.

    WITH adds tables to the sandbox, which must be one of this question alone.
    """
    question = TokenizedSql(text)
    if sandbox.columns:
        question = read_with(question, sandbox)
    return read_select_tokens(question, schema, sandbox.columns)


def read_select_tokens(
    question: TokenizedSql, schema: Schema, tables: Mapping[str, Sequence[str]] = _NO_TABLES
) -> Query | SelectPlan:
    """Parse a question that is tokenized already; see `read_select`."""
    fold_derived(question, schema)
    spell_levels(question, schema)
    names = NameResolver(question, schema, tables)
    _ = question.closing  # unbalanced parentheses are rejected first
    refuse_unsupported(question, names.attributes)
    return Statement(question, names).read()


_AFTER_FROM = {
    T.WHERE: "A condition is missing after WHERE.",
    T.GROUP_BY: "A column is missing after GROUP BY.",
    T.HAVING: "A condition is missing after HAVING.",
    T.ORDER_BY: "A column is missing after ORDER BY.",
    T.LIMIT: "A number is missing after LIMIT.",
    T.OFFSET: "A number is missing after OFFSET.",
}
_ORDER = tuple(_AFTER_FROM)
_ARRANGING = {T.HAVING, T.ORDER_BY, T.LIMIT, T.OFFSET}
_KINDS: dict[str, Aggregate] = {"count": "count", "sum": "sum", "mean": "mean"}


class Statement:
    """Reads SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET."""

    def __init__(self, question: TokenizedSql, names: NameResolver) -> None:
        self.question, self.names = question, names
        self.reader = SelectReader(question, names)

    def read(self) -> Query | SelectPlan:
        """Return the query or the plan; every token must have been read."""
        start = self._find_from()
        items = read_items(self.question, (1, start))
        source = FromReader(self.question, self.names, start + 1)
        at, joined = source.read()
        spans = self._read_spans(at)
        clauses, notes = self._clauses(spans.get(T.WHERE))
        clauses = [*joined, *clauses]
        groups = GroupReader(self.reader, items, self._plain(items))
        sets = groups.read(spans[T.GROUP_BY]) if T.GROUP_BY in spans else [()]
        selected = self._selected(items, groups)
        keys, sets = _by_selection(groups.keys, sets, selected)
        plan = SelectPlan(
            _named(keys, items, selected),
            tuple(self._items(items, selected)),
            tuple(clauses),
            tuple(sets),
            self._arrangement(spans, items, selected, keys),
            source.joins,
            self.question.text,
            tuple(dict.fromkeys(notes)),
        )
        return _query(plan, keys) or plan

    def _arrangement(
        self,
        spans: Mapping[T, Span],
        items: Sequence[RawItem],
        selected: Sequence[int | None],
        keys: Sequence[Key],
    ) -> Arrangement:
        """Read HAVING, ORDER BY, LIMIT and OFFSET."""
        if _ARRANGING.isdisjoint(spans):
            return UNARRANGED
        limits = [self._whole(spans.get(kind)) for kind in (T.LIMIT, T.OFFSET)]
        places = _places(selected, keys)
        aliases = {i.name.lower(): p for i, p in zip(items, places, strict=True) if i.alias}
        return ArrangementReader(self.reader, keys, places, aliases).read(
            spans.get(T.HAVING), spans.get(T.ORDER_BY), limits[0], limits[1] or 0
        )

    # The spans of the statement.

    def _find_from(self) -> int:
        """Return the index of FROM."""
        at = 1
        tokens = self.question.tokens
        while at < len(tokens):
            kind = tokens[at].token_type
            if kind is T.FROM and tokens[at - 1].token_type is not T.DISTINCT:
                return at
            if kind is T.FROM and at == 2:
                return at
            at = self.question.closing.get(at, at) + 1
        if len(tokens) == 1:
            raise self.question.error("A column or an aggregate is missing here.")
        raise self.question.error("FROM is missing.")

    def _read_spans(self, at: int) -> dict[T, Span]:
        """Return the spans of the clauses after FROM, by their first word."""
        tokens = self.question.tokens
        spans: dict[T, Span] = {}
        place = -1
        while at < len(tokens):
            kind = tokens[at].token_type
            if kind not in _AFTER_FROM:
                raise self.question.error(f"'{tokens[at].text}' is not supported here.", tokens[at])
            late = _ORDER.index(kind)
            swapped = kind is T.LIMIT and place == _ORDER.index(T.OFFSET)
            if kind in spans or (late < place and not swapped):
                raise self.question.error(
                    f"Syntax error at or near '{tokens[at].text}'.", tokens[at]
                )
            place = max(place, late)
            start = at = at + 1
            while at < len(tokens) and tokens[at].token_type not in _AFTER_FROM:
                at = self.question.closing.get(at, at) + 1
            if start == at:
                blamed = tokens[at] if at < len(tokens) else None
                raise self.question.error(_AFTER_FROM[kind], blamed)
            spans[kind] = (start, at)
        return spans

    def _whole(self, span: Span | None) -> int | None:
        """Return the number of LIMIT or OFFSET."""
        if span is None:
            return None
        token = self.question.tokens[span[0]]
        if span[1] - span[0] > 1 or not (token.text.isascii() and token.text.isdigit()):
            raise self.question.error("LIMIT and OFFSET take a whole number.", token)
        return min(int(token.text), 2**53)

    def _clauses(self, span: Span | None) -> tuple[list[Expression], list[str]]:
        clauses: list[Expression] = []
        notes: list[str] = []
        for clause, about in read_clauses(self.question, self.names, span) if span else ():
            clauses.append(clause)
            notes += about
        return clauses, notes

    # The SELECT list.

    def _plain(self, items: Sequence[RawItem]) -> list[bool]:
        """Return of each item whether it has no aggregate; at least one must have one."""
        plain = [not self.reader.has_aggregate(item.span) for item in items]
        if all(plain):
            for item in items:
                self._check_column(item.span)
            raise self.question.error(
                f"The question must ask for an aggregate: {AGGREGATES}.", self.question.tokens[1]
            )
        return plain

    def _check_column(self, span: Span) -> None:
        if span[1] - span[0] > 1:
            self.reader.expression(span)

    def _selected(self, items: Sequence[RawItem], groups: GroupReader) -> list[int | None]:
        """Return for each item the index of its key, or None for a number."""
        selected: list[int | None] = []
        for item, plain in zip(items, groups.plain, strict=True):
            if not plain:
                selected.append(None)
                continue
            key = groups.read_key(item.span)
            places = [i for i, each in enumerate(groups.keys) if each.expression == key.expression]
            if not places:
                raise self.question.error(
                    f"'{key.name}' is selected but not in GROUP BY.",
                    self.question.tokens[item.span[0]],
                )
            selected.append(places[0])
        return selected

    def _items(self, items: Sequence[RawItem], selected: Sequence[int | None]) -> list[Item]:
        found: list[Item] = []
        for item, key in zip(items, selected, strict=True):
            if key is None:
                start, end = (self.question.tokens[i] for i in (item.span[0], item.span[1] - 1))
                name = item.name or self.question.text[start.start : end.end + 1]
                name = _distinct(name, [each.name for each in found])
                found.append(Item(name, self.reader.node(item.span), item.name))
        return found


def _places(selected: Sequence[int | None], keys: Sequence[Key]) -> list[str]:
    """Return the placeholder of every item, given its key, or None for a number."""
    places: list[str] = []
    numbers = 0
    order = _key_order(selected, len(keys))
    for key in selected:
        if key is None:
            places.append(placeholder("item", numbers))
            numbers += 1
        else:
            places.append(placeholder("key", order.index(key)))
    return places


def _key_order(selected: Sequence[int | None], count: int) -> list[int]:
    """Return the keys in the order of the SELECT list, then those that only GROUP BY names."""
    return list(dict.fromkeys([*(key for key in selected if key is not None), *range(count)]))


def _by_selection(
    keys: Sequence[Key], sets: Sequence[GroupingSet], selected: Sequence[int | None]
) -> tuple[list[Key], list[GroupingSet]]:
    order = _key_order(selected, len(keys))
    return [keys[index] for index in order], [
        tuple(sorted(order.index(index) for index in each)) for each in sets
    ]


def _named(
    keys: Sequence[Key], items: Sequence[RawItem], selected: Sequence[int | None]
) -> tuple[Key, ...]:
    """Return the keys with the aliases under which they are selected."""
    order = _key_order(selected, len(keys))
    aliases = {
        order.index(key): item.name
        for item, key in zip(items, selected, strict=True)
        if key is not None and item.name
    }
    found: list[Key] = []
    for index, key in enumerate(keys):
        name = _distinct(aliases.get(index, key.name), [each.name for each in found])
        found.append(replace(key, name=name))
    return tuple(found)


def _distinct(name: str, taken: Sequence[str]) -> str:
    """Return the name, with a number after it if it is taken."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found


def _query(plan: SelectPlan, keys: Sequence[Key]) -> Query | None:
    """Return the query of a plan that has one aggregate by attributes; None for other plans."""
    attributes = [key.attribute for key in keys if key.attribute is not None]
    term = plan.items[0].node
    if len(plan.items) > 1 or not isinstance(term, Term) or term.kind not in _KINDS:
        return None
    if len(attributes) < len(keys) or len(plan.sets) > 1 or plan.arrangement != UNARRANGED:
        return None
    if plan.joins or (term.filtered and keys):
        return None
    return Query(
        _KINDS[term.kind],
        term.argument,
        (*plan.clauses, *term.clauses),
        tuple(attributes),
        plan.text,
        tuple(dict.fromkeys((*plan.notes, *term.notes))),
        _aliases(plan),
    )


def _aliases(plan: SelectPlan) -> tuple[str, ...]:
    """Return the names that AS gives to the keys and to the number; () if it gives none."""
    names = ["" if key.name == key.attribute else key.name for key in plan.keys]
    found = (*names, plan.items[0].alias)
    return found if any(found) else ()

"""parse: a SELECT statement to a `Query`, or `read_select` to a `Query` or a `SelectPlan`.

The text is not trusted: every token must be known, and the first unknown one is pointed at. A
`Query` is one COUNT, SUM or AVG by attributes; everything else that is supported is a
`SelectPlan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from types import MappingProxyType
from typing import NoReturn

from sqlglot import TokenType as T

from scumble.model.query import Aggregate, Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import GroupingColumn
from scumble.public.level_function import spell_levels
from scumble.public.sandbox import Sandbox
from scumble.public.sql.aggregates import Call, Term, find_groupings, find_mode, split_commas
from scumble.public.sql.conditions import Span, known, read_clauses, strip
from scumble.public.sql.from_clause import FromReader, read_with
from scumble.public.sql.items import RawItem, read_items, with_shares
from scumble.public.sql.select_list import ArrangementReader, SelectReader
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
    is_word,
    refuse_unsupported,
)

__all__ = ["parse", "parse_tokens", "read_select", "read_select_tokens", "refuse_plan"]

# --- GROUP BY -------------------------------------------------------------------------------------
#
# GROUP BY: columns, expressions, aliases, positions, GROUPING SETS, ROLLUP and CUBE.

_SETS = {T.GROUPING_SETS, T.ROLLUP, T.CUBE}
_MOST_SETS = 256
GroupingSet = tuple[int, ...]


@dataclass
class GroupReader:
    """Reads GROUP BY into `keys` and grouping sets of their indices.

    `items` are the entries of the SELECT list; `plain` says of each whether it has no aggregate.
    """

    reader: SelectReader
    items: Sequence[RawItem]
    plain: Sequence[bool]
    keys: list[Key] = field(default_factory=list)

    def read(self, span: Span) -> list[GroupingSet]:
        """Return the grouping sets."""
        question = self.reader.question
        start, end = span
        if start >= end:
            raise question.error("A column is missing after GROUP BY.")
        if question.tokens[start].token_type is T.ALL and end == start + 1:
            chosen = [item for item, plain in zip(self.items, self.plain, strict=True) if plain]
            return [tuple(dict.fromkeys(self._key(item.span) for item in chosen))]
        parts = [self._sets(part) for part in split_commas(question, span)]
        found = [tuple(dict.fromkeys(sum(choice, ()))) for choice in product(*parts)]
        if len(found) > _MOST_SETS:
            raise question.error(
                f"GROUP BY makes {len(found)} grouping sets, of at most {_MOST_SETS}.",
                question.tokens[start],
            )
        return found

    def _sets(self, span: Span) -> list[GroupingSet]:
        """Return the grouping sets of one element of GROUP BY."""
        question = self.reader.question
        start, end = span
        if start >= end:
            raise question.error(
                "A column is missing in GROUP BY.",
                question.tokens[start] if start < len(question.tokens) else None,
            )
        kind = question.tokens[start].token_type
        if kind not in _SETS or question.closing.get(start + 1) != end - 1:
            return [(self._element(span),)]
        parts = [each for each in split_commas(question, (start + 2, end - 1)) if each[0] < each[1]]
        if kind is T.GROUPING_SETS:
            return [found for part in parts for found in self._listed(part)]
        sets = [self._joined(part) for part in parts]
        if kind is T.ROLLUP:
            return [sum(sets[:size], ()) for size in range(len(sets), -1, -1)]
        sizes = range(len(sets), -1, -1)
        return [sum(some, ()) for size in sizes for some in combinations(sets, size)]

    def _listed(self, span: Span) -> list[GroupingSet]:
        """Return the sets of one element of GROUPING SETS."""
        if self.reader.question.tokens[span[0]].token_type in _SETS:
            return self._sets(span)
        return [self._joined(span)]

    def _joined(self, span: Span) -> GroupingSet:
        """Return the set of `a` or `(a, b)`; () is the empty set."""
        start, end = span
        if self.reader.question.closing.get(start) == end - 1:
            inner = split_commas(self.reader.question, (start + 1, end - 1))
            return tuple(self._element(part) for part in inner if part[0] < part[1])
        return (self._element(span),)

    def _element(self, span: Span) -> int:
        """Return the key of a column, an expression, an alias, or a position."""
        return self._key(self._meant(span))

    def implied(self, span: Span) -> Iterator[int]:
        """Yield the new key of a selected expression over columns of GROUP BY alone, as
        `decade * 10` is beside GROUP BY decade.
        """
        tokens, names = self.reader.question.tokens, self.reader.names
        if self.place(span) is not None:
            return
        some = False
        for at in range(*span):
            token = tokens[at]
            known = token.text.lower() in names.attributes or names.is_joined(token)
            if token.token_type is T.SELECT:
                return
            if is_word(token) and (known or names.expression(token) is not None):
                qualified = at - 2 >= span[0] and tokens[at - 1].token_type is T.DOT
                some = True
                if self.place((at - 2 if qualified else at, at + 1)) is None:
                    return
        if some:
            yield self._key(span)

    def expression(self, span: Span) -> Expression | None:
        """Return a column or expression of GROUP BY that tokens are; None if it has none."""
        place = self.place(span)
        return None if place is None else self.keys[place].expression

    def place(self, span: Span) -> int | None:
        """Return the key of a column, an expression or an alias; None if GROUP BY has none."""
        found = self.read_key(self._meant(span)).expression
        return next((i for i, key in enumerate(self.keys) if key.expression == found), None)

    def _meant(self, span: Span) -> Span:
        """Return the expression that a column, an expression, an alias or a position stands for."""
        question = self.reader.question
        start, end = strip(question, span)
        token = question.tokens[start]
        if end - start == 1 and token.token_type is T.NUMBER:
            number = int(token.text) if token.text.isdigit() else 0
            if not 0 < number <= len(self.items) or not self.plain[number - 1]:
                raise question.error(
                    f"{token.text} is not the position of a selected column.", token
                )
            return self.items[number - 1].span
        alias = self._aliases.get(token.text.lower())
        known = token.text.lower() in self.reader.names.attributes
        if end - start == 1 and is_word(token) and alias is not None and not known:
            return alias
        return start, end

    @property
    def _aliases(self) -> Mapping[str, Span]:
        pairs = zip(self.items, self.plain, strict=True)
        return {item.name.lower(): item.span for item, plain in pairs if plain and item.alias}

    def _key(self, span: Span) -> int:
        found = self.read_key(span)
        for index, key in enumerate(self.keys):
            if key.expression == found.expression:
                return index
        self.keys.append(found)
        return len(self.keys) - 1

    def read_key(self, span: Span) -> Key:
        """Return the key of an expression; a column of the view has the name of its attribute."""
        question, names = self.reader.question, self.reader.names
        start, end = strip(question, span)
        tokens = question.tokens[start:end]
        if self.reader.has_aggregate((start, end)):
            raise question.error("An aggregate cannot stand in GROUP BY.", tokens[0])
        column = tokens[-1]
        plain = len(tokens) in (1, 3) and is_word(column) and is_word(tokens[0])
        if len(tokens) == 3 and plain:
            plain = tokens[1].token_type is T.DOT and tokens[0].text.lower() not in names.joins
            if plain:
                names.check_qualifier(tokens[0])
        if plain and names.expression(column) is not None:
            plain = False
        if plain and (len(tokens) == 3 or not names.is_joined(column)):
            attribute = names.attribute(column)
            expression = Expression(quoted(attribute.name), (attribute.name,), tokens[0].start)
            return Key(attribute.name, expression, attribute.name)
        expression = self.reader.expression((start, end))
        text = question.text[tokens[0].start : tokens[-1].end + 1]
        text = question.written.get(f"({text})", text)
        named = len(tokens) == 1 or [each.token_type for each in tokens[1:-1]] == [T.DOT]
        name = column.text if named and is_word(column) else text
        if not expression.attributes:
            raise question.error("GROUP BY needs a column here, not a constant.", tokens[0])
        return Key(name, expression)


# --- statements -----------------------------------------------------------------------------------


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
    return read_select_tokens(TokenizedSql(text), schema, sandbox.columns, sandbox)


def read_select_tokens(
    question: TokenizedSql,
    schema: Schema,
    tables: Mapping[str, Sequence[str]] = _NO_TABLES,
    sandbox: Sandbox | None = None,
) -> Query | SelectPlan:
    """Parse a question that is tokenized already; see `read_select` and `read_select_with`."""
    fold_derived(question, schema)
    spell_levels(question, schema)
    question = read_with(question, schema, tables, sandbox)
    names = NameResolver(question, schema, tables if sandbox is None else sandbox.columns)
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
        raw = read_items(self.question, (1, start))
        source = FromReader(self.question, self.names, start + 1)
        at, joined = source.read()
        every = [each for item in raw for each in with_shares(self.question, item)]
        spans = self._read_spans(at)
        mode = self._mode(every, spans)
        calls = self._grouping_calls(every)
        plain = self._plain(every, calls) if mode is None else [False]
        clauses, notes = self._clauses(spans.get(T.WHERE))
        clauses, notes = [*joined, *clauses], [*source.notes, *notes]
        if mode is not None:
            return self._most_frequent(every[0], mode, source, clauses, notes)
        groups = GroupReader(self.reader, every, plain)
        sets = groups.read(spans[T.GROUP_BY]) if T.GROUP_BY in spans else [()]
        self.reader.key = groups.expression
        if len(sets) == 1:  # what follows from the keys makes no more groups
            implied = (item.span for item, one in zip(every, plain, strict=True) if one)
            sets = [(*sets[0], *(key for span in implied for key in groups.implied(span)))]
        items = [item for place, item in enumerate(every) if place not in calls]
        selected = self._selected(items, groups)
        keys, sets = _by_selection(groups.keys, sets, selected)
        order = _key_order(selected, len(keys))

        def grouping_keys(call: Call) -> tuple[int, ...]:
            return tuple(order.index(place) for place in self._grouping_places(call, groups))

        places = _places(selected, keys)
        for number, place in enumerate(calls):
            places.insert(place, placeholder("key grouping", number))
        marks = [(every[place], grouping_keys(call)) for place, call in calls.items()]
        arrangement = UNARRANGED
        if not _ARRANGING.isdisjoint(spans):
            aliases = {i.name.lower(): p for i, p in zip(every, places, strict=True) if i.alias}
            arrangement = self._arrangement(
                spans,
                ArrangementReader(
                    self.reader, keys, places, aliases, [each for _, each in marks], grouping_keys
                ),
            )
        plan = SelectPlan(
            _named(keys, items, selected),
            tuple(self._items(items, selected)),
            tuple(clauses),
            tuple(sets),
            arrangement,
            source.joins,
            self.question.text,
            tuple(dict.fromkeys(notes)),
        )
        plan = replace(plan, groupings=tuple(self._groupings(plan, marks)))
        self._check_totals(plan)
        return _query(plan, keys) or plan

    def _check_totals(self, plan: SelectPlan) -> None:
        """Raise `QueryError` if SUM(COUNT(*)) OVER () is not the total of all groups."""
        chosen = plan.arrangement.having is not None
        if not chosen and len(plan.sets) == 1:
            return
        for term in plan.terms:
            if term.scope is not None and term.scope.clauses is None:
                about = "the groups that HAVING leaves" if chosen else "groups and totals"
                raise self.question.error(
                    f"OVER () would add up {about}: write (SELECT COUNT(*) FROM "
                    f"{self.question.table or 't'} WHERE ...) for the total.",
                    term.start,
                )

    def _mode(self, items: Sequence[RawItem], spans: Mapping[T, Span]) -> Span | None:
        """Return the argument of SELECT MODE(x) FROM t WHERE ..., or None for other questions."""
        alone = len(items) == 1 and not set(spans) - {T.WHERE}
        return find_mode(self.question, items[0].span) if alone else None

    def _most_frequent(
        self,
        item: RawItem,
        argument: Span,
        source: FromReader,
        clauses: Sequence[Expression],
        notes: Sequence[str],
    ) -> SelectPlan:
        """Return the plan of MODE(x): the counts of all values, and the largest of them."""
        key = GroupReader(self.reader, [], []).read_key(argument)
        name = key.attribute
        optional = name is None or self.names.schema[name].missing
        present = (known(key.expression),) if optional else ()
        coarse = [name for name in key.expression.attributes if self.names.schema[name].coarse]
        if coarse:
            raise self.question.error(
                f"'{coarse[0]}' is published in bins, and the fullest bin need not have the most "
                "frequent value. Ask for COUNT(*) by GROUP BY.",
                self.question.tokens[argument[0]],
            )
        return SelectPlan(
            (replace(key, name=item.name or item.text(self.question)),),
            (Item("count", Term("count"), "count"),),
            (*clauses, *present),
            ((0,),),
            Arrangement(
                order=f"{quoted(placeholder('item', 0))} DESC",
                limit=1,
                by_estimates=True,
                most_frequent=True,
            ),
            source.joins,
            self.question.text,
            tuple(dict.fromkeys(notes)),
        )

    def _arrangement(self, spans: Mapping[T, Span], reader: ArrangementReader) -> Arrangement:
        """Read HAVING, ORDER BY, LIMIT and OFFSET."""
        limits = [self._whole(spans.get(kind)) for kind in (T.LIMIT, T.OFFSET)]
        return reader.read(spans.get(T.HAVING), spans.get(T.ORDER_BY), limits[0], limits[1] or 0)

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

    def _plain(self, items: Sequence[RawItem], calls: Mapping[int, Call]) -> list[bool]:
        """Return of each item whether it is a column or an expression without an aggregate; at
        least one must have an aggregate. `calls` are the places of GROUPING.
        """
        plain = []
        for place, item in enumerate(items):
            plain.append(place not in calls and not self.reader.has_aggregate(item.span))
            if place not in calls:
                self.reader.add_name(item)
        if sum(plain) + len(calls) == len(items):
            for item, each in zip(items, plain, strict=True):
                if each:
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
        for item in items:
            if self.reader.has_aggregate(item.span):
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

    def _grouping_calls(self, items: Sequence[RawItem]) -> dict[int, Call]:
        """Return the items that are a call of GROUPING, by their place."""
        found: dict[int, Call] = {}
        for place, item in enumerate(items):
            for call in find_groupings(self.question, item.span):
                if call.span != item.span:
                    raise self.question.error(
                        "GROUPING stands by itself in SELECT: GROUPING(x) is 1 in a total over x, "
                        "else 0.",
                        self.question.tokens[call.span[0]],
                    )
                found[place] = call
        return found

    def _grouping_places(self, call: Call, groups: GroupReader) -> list[int]:
        """Return the keys that a call of GROUPING names."""
        if call.arguments[0] >= call.arguments[1]:
            token = self.question.tokens[call.span[0]]
            raise self.question.error("GROUPING needs a column of GROUP BY.", token)
        found: list[int] = []
        for span in split_commas(self.question, call.arguments):
            place = groups.place(span)
            if place is None:
                token = self.question.tokens[span[0]]
                raise self.question.error(
                    f"'{token.text}' is not in GROUP BY: GROUPING names its columns.", token
                )
            found.append(place)
        return found

    def _groupings(
        self, plan: SelectPlan, marks: Sequence[tuple[RawItem, tuple[int, ...]]]
    ) -> Iterator[GroupingColumn]:
        """Yield the columns of GROUPING: those that are selected, and one for each other key that
        has totals.
        """
        taken = [*(key.name for key in plan.keys), *(item.name for item in plan.items)]
        totals = [i for i in range(len(plan.keys)) if any(i not in each for each in plan.sets)]
        found = [(self._name(item), keys, True) for item, keys in marks]
        found += [
            (f"GROUPING({plan.keys[index].name})", (index,), False)
            for index in totals
            if not any(keys == (index,) for _, keys in marks)
        ]
        for name, keys, shown in found:
            taken.append(_distinct(name, taken))
            yield GroupingColumn(taken[-1], keys, shown)

    def _name(self, item: RawItem) -> str:
        """Return the alias of an item, else its text."""
        return item.name or item.text(self.question)

    def _items(self, items: Sequence[RawItem], selected: Sequence[int | None]) -> list[Item]:
        found: list[Item] = []
        for item, key in zip(items, selected, strict=True):
            if key is None:
                name = _distinct(self._name(item), [each.name for each in found])
                found.append(Item(name, self.reader.node(item.span, item.share), item.name))
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
    if plan.joins or plan.groupings or term.scope is not None or (term.filtered and keys):
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

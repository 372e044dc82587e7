"""GROUP BY: columns, expressions, aliases, positions, GROUPING SETS, ROLLUP and CUBE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from sqlglot import TokenType as T

from scumble.model.query import Expression, quoted
from scumble.public.sql.aggregates import split_commas
from scumble.public.sql.conditions import Span, strip
from scumble.public.sql.select_list import RawItem, SelectReader
from scumble.public.sql.select_plan import Key
from scumble.public.sql.tokens import is_word

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
        question = self.reader.question
        start, end = strip(question, span)
        token = question.tokens[start]
        if end - start == 1 and token.token_type is T.NUMBER:
            number = int(token.text) if token.text.isdigit() else 0
            if not 0 < number <= len(self.items) or not self.plain[number - 1]:
                raise question.error(
                    f"{token.text} is not the position of a selected column.", token
                )
            return self._key(self.items[number - 1].span)
        alias = self._aliases.get(token.text.lower())
        known = token.text.lower() in self.reader.names.attributes
        if end - start == 1 and is_word(token) and alias is not None and not known:
            return self._key(alias)
        return self._key((start, end))

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
        if plain and (len(tokens) == 3 or not names.is_joined(column)):
            attribute = names.attribute(column)
            expression = Expression(quoted(attribute.name), (attribute.name,), tokens[0].start)
            return Key(attribute.name, expression, attribute.name)
        expression = self.reader.expression((start, end))
        text = question.text[tokens[0].start : tokens[-1].end + 1]
        text = question.written.get(f"({text})", text)
        name = column.text if len(tokens) in (1, 3) and is_word(column) else text
        if not expression.attributes:
            raise question.error("GROUP BY needs a column here, not a constant.", tokens[0])
        return Key(name, expression)

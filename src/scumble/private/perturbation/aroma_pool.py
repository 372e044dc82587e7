"""The pool that Aroma draws from: public weights of all values, as its owner wrote them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from scumble.model.errors import ParameterError
from scumble.model.privacy.guarantee import positive
from scumble.model.schema.attribute import Attribute

UNIFORM = "uniform"
_LIGHTEST = Fraction(1, 10**6)  # of the mean weight
_ALLOWED = "'uniform', a list of weights, or a table of weights by value"


class WrittenPool:
    """Weights in the order of the domain, or by value (as text; "" is a missing value)."""

    def __init__(self, pool: object) -> None:
        self.given: Any = pool
        self._list: list[Fraction] | None = None
        self._table: dict[str, Fraction] | None = None
        if isinstance(pool, Mapping):
            self.given = {_text(value): _plain(weight) for value, weight in pool.items()}
            self._table = {_text(value): _weight(weight) for value, weight in pool.items()}
        elif isinstance(pool, Sequence) and not isinstance(pool, (str, bytes)):
            self.given = [_plain(weight) for weight in pool]
            self._list = [_weight(weight) for weight in pool]
        elif pool != UNIFORM:
            raise ParameterError.of("Aroma", "pool", _ALLOWED, pool)

    def weights(self, attributes: Sequence[Attribute]) -> list[Fraction]:
        """The weight of every value; of every combination for several attributes, the last one
        changing fastest.
        """
        size = math.prod(attribute.size for attribute in attributes)
        if self._table is not None:
            weights = self._by_value(attributes)
        else:
            weights = [Fraction(1)] * size if self._list is None else self._list
        names = ", ".join(f"'{attribute.name}'" for attribute in attributes)
        if len(weights) != size:
            allowed = f"{size} weights, one for each value of {names}"
            raise ParameterError.of("Aroma", "pool", allowed, f"{len(weights)} weights")
        if min(weights) * size < sum(weights) * _LIGHTEST:
            raise ParameterError(
                f"The pool of Aroma must give every value of {names} at least a millionth of the "
                "mean weight: a value that is hardly ever drawn would betray who has it."
            )
        return weights

    def _by_value(self, attributes: Sequence[Attribute]) -> list[Fraction]:
        table = self._table or {}
        labels = [map(_text, attribute.labels().to_pylist()) for attribute in attributes]
        values = [", ".join(cell) for cell in product(*labels)]
        names = ", ".join(f"'{attribute.name}'" for attribute in attributes)
        missing = [value for value in values if value not in table]
        if missing:
            raise ParameterError(
                f"The pool of Aroma must have a weight for every value of {names}; it has none "
                f"for {missing[0]!r}."
            )
        unknown = [value for value in table if value not in set(values)]
        if unknown:
            raise ParameterError(
                f"The pool of Aroma has a weight for {unknown[0]!r}, which is no value of {names}."
            )
        return [table[value] for value in values]


def whole_weights(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """The same shares in whole numbers, as small as possible."""
    scale = math.lcm(*(weight.denominator for weight in weights))
    numbers = [int(weight * scale) for weight in weights]
    common = math.gcd(*numbers)
    return tuple(number // common for number in numbers)


def _weight(given: object) -> Fraction:
    return positive("Aroma", "pool", given)


def _plain(weight: Any) -> Any:
    return weight if isinstance(weight, (int, float)) else str(weight)


def _text(value: object) -> str:
    return "" if value is None else str(value)

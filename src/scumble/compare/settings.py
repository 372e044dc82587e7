"""Settings to compare: for each ε the setting of every method that exposes people about as much.

Methods that take ε get it. The others get what stands for the same worst case among the d values:
the setting whose exposure, or whose limit of it, is what ε allows. Where they really are on the
axis is computed from the release (`comparison_exposure`); the mapping only picks the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil, exp
from typing import Any

from scumble.compare.truth import TrueTable
from scumble.compare.workloads import QuestionSet
from scumble.model.errors import ParameterError
from scumble.model.privacy.guarantee import exposure_at_most
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, Publisher, create, mechanisms

PRIOR = Fraction(1, 10)  # what the attacker of all sentences gave to a value
_ROW_PRIOR = 10  # times what a random row has: the k of alphabeta and frapp
_SIGNS = {"epsilon": "ε", "rho1": "ρ1", "rho2": "ρ2", "gamma": "γ"}


@dataclass(frozen=True)
class Choice:
    """One setting of one method, with the words that tell it from the method's others."""

    method: str
    words: str
    parameters: Mapping[str, Any] = field(hash=False)

    @property
    def mechanism(self) -> Mechanism:
        return create(self.method, **self.parameters)

    @property
    def name(self) -> str:
        return f"{self.method}, {self.words}"


class Settings:
    """Makes choices for one table and workload."""

    def __init__(self, table: TrueTable, workload: QuestionSet, neighbours: str) -> None:
        self._schema = table.schema
        self._table = table
        self._workload = workload
        self._neighbours = neighbours
        self._sensitive = [attribute.name for attribute in table.schema.sensitive]
        self._values = table.schema.size(self._sensitive)

    def choices(
        self,
        methods: Sequence[str],
        epsilons: Sequence[float],
        given: Mapping[str, Mapping[str, Sequence[Any]]],
    ) -> list[Choice]:
        """For each method one choice for each ε; or for each of the settings that are given."""
        known = mechanisms()
        found: list[Choice] = []
        for method in methods:
            if method not in known:
                allowed = f"names among {', '.join(known)}"
                raise ParameterError.of("compare", "methods", allowed, method)
            if method in given:
                found += self._given(method, given[method])
            elif issubclass(known[method], Publisher):
                found += [self._publisher(method, epsilon) for epsilon in epsilons]
            else:
                found += [self._summary(method, epsilon) for epsilon in epsilons]
        unused = sorted(set(given) - set(methods))
        if unused:
            raise ParameterError.of("compare", "setting", "of a method to compare", unused[0])
        return list(dict.fromkeys(found))  # two ε may come to the same k or l

    def _given(self, method: str, lists: Mapping[str, Sequence[Any]]) -> list[Choice]:
        """Every combination of what was listed, on top of what the method needs besides."""
        fixed = self._fixed(method)
        return [
            _choice(method, dict(zip(lists, values, strict=True)), fixed)
            for values in product(*lists.values())
        ]

    def _publisher(self, method: str, epsilon: float) -> Choice:
        fixed = self._fixed(method)
        allowed = exposure_at_most(epsilon, self._values)
        if method == "aroma":
            return _choice(method, {"k": self._aroma(allowed)}, fixed)
        if method == "anatomy":
            return _choice(method, {"l": min(max(2, ceil(1 / allowed)), self._values)}, fixed)
        if method == "partition":
            rho1 = self._most_frequent()
            return _choice(method, {"rho2": _ends(rho1, epsilon)}, {"rho1": rho1, **fixed})
        if method in ("alphabeta", "frapp"):
            return _choice(method, {"gamma": _ends(float(PRIOR), epsilon)}, fixed)
        return _choice(method, {"epsilon": epsilon}, fixed)

    def _summary(self, method: str, epsilon: float) -> Choice:
        return _choice(method, {"epsilon": epsilon}, self._fixed(method))

    def _fixed(self, method: str) -> dict[str, Any]:
        """What a method needs besides its setting."""
        if method == "anatomy":
            return {"suppress": True}
        if method == "alphabeta":
            return {"k": _ROW_PRIOR, "duplicates": "collapse"}
        if method == "frapp":
            return {"k": _ROW_PRIOR, "reading": "published"}
        if issubclass(mechanisms()[method], Publisher):
            return {}
        asked = {name for query in self._workload.queries for name in query.attributes}
        names = [name for name in self._schema.names if name in asked]
        fixed: dict[str, Any] = {"attributes": names, "neighbours": self._neighbours}
        widest = max((len(query.attributes) for query in self._workload.queries), default=1)
        if method in ("marginals", "fourier", "datacube"):
            fixed["ways"] = max(widest, 1)
        if method == "workload":
            fixed["queries"] = [query.text for query in self._workload.queries]
        return fixed

    def _aroma(self, allowed: float) -> int:
        """The least k with no more exposure than that."""
        from scumble.private.perturbation.aroma import LARGEST_K, Aroma
        from scumble.private.perturbation.aroma_guarantee import pool_exposure

        low, high = 2, LARGEST_K
        while low < high:
            middle = (low + high) // 2
            if pool_exposure(Aroma(k=middle).law(self._schema)) <= allowed:
                high = middle
            else:
                low = middle + 1
        return low

    def _most_frequent(self) -> float:
        """The share of the most frequent value, rounded up to a percent: all are covered."""
        counts = self._table.cube(self._sensitive)
        share = int(counts.max(initial=0)) / max(self._table.rows, 1)
        return min(max(ceil(100 * share), 10), 99) / 100


def read_settings(given: Sequence[str]) -> dict[str, dict[str, list[Any]]]:
    """`METHOD:PARAMETER=VALUE,VALUE`, as aroma:k=5,20,49."""
    found: dict[str, dict[str, list[Any]]] = {}
    for text in given:
        method, _, rest = text.partition(":")
        name, _, values = rest.partition("=")
        if not method or not name or not values:
            allowed = "METHOD:PARAMETER=VALUE,VALUE as aroma:k=5,20"
            raise ParameterError.of("compare", "setting", allowed, text)
        found.setdefault(method, {})[name.strip()] = [_read(each) for each in values.split(",")]
    return found


def _read(text: str) -> Any:
    """A whole number, a number, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.strip().lower(), text.strip())


def _choice(method: str, varied: Mapping[str, Any], fixed: Mapping[str, Any]) -> Choice:
    words = ", ".join(
        f"{_SIGNS.get(name, name)} = {_short(value)}" for name, value in varied.items()
    )
    return Choice(method, words, {**fixed, **varied})


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ends(prior: float, epsilon: float) -> float:
    """Where ε lets a prior end, in two digits."""
    odds = exp(epsilon) * prior / (1 - prior)
    return round(odds / (1 + odds), 2 if odds < 9 else 3)


def schema_to_compare(schema: Schema) -> Schema:
    """What is published of a schema; without a sensitive attribute there is nothing to learn."""
    if not schema.sensitive:
        raise ParameterError(
            "Comparing needs a sensitive attribute: it says what an attacker wants to learn. Write "
            'role = "sensitive" in the schema.'
        )
    return schema.select([attribute.name for attribute in schema.published])

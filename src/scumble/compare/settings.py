"""Settings to compare: for each ε the setting of every method that exposes people about as much.

Methods that take ε get it. The others get the setting whose exposure, or whose bound on it, is what
ε allows for d values. This mapping only picks the candidates: their exposure in the comparison is
computed from the release (`compare/exposure.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil
from typing import Any

from scumble.compare import databases
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import QuestionSet
from scumble.model.errors import ParameterError
from scumble.model.schema.schema import Schema
from scumble.model.schema.toml import nearest
from scumble.private.mechanism import Mechanism, Summary, create, mechanisms
from scumble.private.mechanism_metadata import ComparisonPreset

ROWS = "-rows"  # after the name of a summary: its questions are counted in synthetic rows
_SIGNS = {"epsilon": "ε", "delta": "δ", "rho1": "ρ1", "rho2": "ρ2", "gamma": "γ"}


@dataclass(frozen=True)
class Choice:
    """One setting of one method. `words` distinguishes it from other settings of the method.

    The method `NAME-rows` is the release of NAME, with all questions counted in synthetic rows
    that are drawn from it. The methods of `databases` are asked, and publish nothing.
    """

    method: str
    words: str
    parameters: Mapping[str, Any] = field(hash=False)

    @property
    def published(self) -> str:
        """The name of the mechanism that publishes."""
        return published_by(self.method)

    @property
    def of_rows(self) -> bool:
        """Whether questions are counted in synthetic rows."""
        return self.method != self.published

    @property
    def mechanism(self) -> Mechanism:
        return create(self.published, **self.parameters)

    @property
    def name(self) -> str:
        return f"{self.method}, {self.words}"


class Settings:
    """Makes the choices to compare, for one table and workload."""

    def __init__(self, table: TrueTable, workload: QuestionSet, neighbours: str) -> None:
        asked = {name for query in workload.queries for name in query.attributes}
        self._study = ComparisonPreset(
            schema=table.schema,
            attributes=tuple(name for name in table.schema.names if name in asked),
            neighbours=neighbours,
            ways=max((len(query.attributes) for query in workload.queries), default=1) or 1,
            queries=tuple(query.text for query in workload.queries),
            most_frequent=lambda: most_frequent(table),
        )

    def choices(
        self,
        methods: Sequence[str],
        epsilons: Sequence[float],
        given: Mapping[str, Mapping[str, Sequence[Any]]],
    ) -> list[Choice]:
        """Return for each method one choice for each ε, or one for each setting in `given`."""
        known = {name: kind for name, kind in mechanisms().items() if not kind.of_lists}
        found: list[Choice] = []
        for method in methods:
            if method == databases.METHOD:
                found += self._databases(epsilons, given.get(method))
                continue
            name = published_by(method)
            if name not in known:
                allowed = f"names among {', '.join([*known, databases.METHOD])}"
                refused = ParameterError.of("compare", "methods", allowed, method)
                raise ParameterError(f"{refused}{nearest(method, known)}")
            if method != name and not issubclass(known[name], Summary):
                raise ParameterError(
                    f"{method} is not compared: synthetic rows are drawn from noisy counts, and "
                    f"{name} publishes rows."
                )
            tried = choices_of(known[name], self._study, epsilons, given.get(method))
            found += [replace(choice, method=method) for choice in tried]
        unused = sorted(set(given) - set(methods))
        if unused:
            raise ParameterError.of("compare", "setting", "of a method to compare", unused[0])
        return list(dict.fromkeys(found))  # two ε may give the same k or l

    def _databases(
        self, epsilons: Sequence[float], given: Mapping[str, Sequence[Any]] | None
    ) -> Iterator[Choice]:
        count = len(self._study.queries)
        asked = "1 question" if count == 1 else f"{count:,} questions"
        for method, varied, parameters in databases.settings(self._study, epsilons, given):
            yield Choice(method, f"{_words(varied)}, {asked}", parameters)


def published_by(method: str) -> str:
    """Return the name of the mechanism of a method to compare."""
    return method.removesuffix(ROWS)


def choices_of(
    kind: type[Mechanism],
    study: ComparisonPreset,
    epsilons: Sequence[float],
    given: Mapping[str, Sequence[Any]] | None,
) -> Iterator[Choice]:
    """Yield the choice for each ε, or for every combination of the values in `given`."""
    fixed = kind.needs(study)
    if given is None:
        varied = [kind.settings(epsilon, study) for epsilon in epsilons]
    else:
        varied = [dict(zip(given, each, strict=True)) for each in product(*given.values())]
    for each in varied:
        yield _choice(kind.name, each, fixed)


def most_frequent(table: TrueTable) -> float:
    """Return the share of the most frequent sensitive value, rounded up to a percent and cut to 10
    to 99 %.
    """
    counts = table.cube([attribute.name for attribute in table.schema.sensitive])
    share = int(counts.max(initial=0)) / max(table.rows, 1)
    return min(max(ceil(100 * share), 10), 99) / 100


def read_settings(given: Sequence[str]) -> dict[str, dict[str, list[Any]]]:
    """Return the settings in texts such as aroma:k=5,20,49 (`METHOD:PARAMETER=VALUE,VALUE`), by
    method and parameter.
    """
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
    """Return an int, a float, a bool, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.strip().lower(), text.strip())


def _choice(method: str, varied: Mapping[str, Any], fixed: Mapping[str, Any]) -> Choice:
    return Choice(method, _words(varied), {**fixed, **varied})


def _words(varied: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{_SIGNS.get(name, name)} = {_short(value)}" for name, value in varied.items()
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def schema_to_compare(schema: Schema) -> Schema:
    """Return the published attributes of a schema. Raise ParameterError if none is sensitive, and
    SchemaError if nobody said what one row stands for.
    """
    schema.check_unit()
    schema.check_limits()
    if not schema.sensitive:
        raise ParameterError(
            "Comparing needs a sensitive attribute: it says what an attacker wants to learn. Write "
            'role = "sensitive" in the schema; for a list, at a column derived from it, such as '
            "contains(x, 'a')."
        )
    return schema.select([attribute.name for attribute in schema.published])


def warn_of_rows(schema: Schema) -> str:
    """Return a warning if people may have several rows: comparisons are about one of them."""
    if schema.unit is None or not schema.unit.several:
        return ""
    return (
        f"This compares what is learned about one row. A person may have {schema.unit.most_rows} "
        "rows (most_rows): about all of them together an attacker learns more, and methods that "
        "protect them together err more."
    )

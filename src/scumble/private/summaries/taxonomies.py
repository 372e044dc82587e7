"""Taxonomies as an owner writes them: the values of an attribute in nested lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scumble.model.designs.taxonomy import Taxonomy
from scumble.model.errors import ParameterError
from scumble.model.schema.schema import Schema

_ALLOWED = "nested lists of the attribute's values for each of some attributes"
_DEEPEST = 64


def written(owner: str, given: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Taxonomies by attribute, as JSON can hold them."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError.of(owner, "taxonomy", _ALLOWED, given)
    for name, nested in given.items():
        if name not in names:
            allowed = f"about the counted attributes ({', '.join(names)})"
            raise ParameterError.of(owner, "taxonomy", allowed, name)
        if not isinstance(nested, (list, tuple)) or not _sound(nested, _DEEPEST):
            raise ParameterError.of(owner, "taxonomy", _ALLOWED, nested)
    return {name: _lists(nested) for name, nested in given.items()}


def taxonomy(owner: str, schema: Schema, name: str, nested: Sequence[Any]) -> Taxonomy:
    """The taxonomy over the codes of an attribute; None stands for a missing value."""
    codes = {label: code for code, label in enumerate(schema[name].labels().to_pylist())}
    given = list(_leaves(nested))
    strange = [value for value in given if value not in codes]
    absent = [label for label in codes if label not in set(given)]
    if strange or absent or len(given) > len(codes):
        wrong = "has others too" if strange else "lacks some" if absent else "has some twice"
        shown = f": {', '.join(map(repr, [*strange, *absent][:3]))}" if strange or absent else ""
        raise ParameterError(
            f"The taxonomy of '{name}' for {owner} must hold each value of its domain once. It "
            f"{wrong}{shown}."
        )
    return Taxonomy.of(_coded(nested, codes))


def _sound(nested: Sequence[Any], deepest: int) -> bool:
    """Not empty anywhere, nor too deep."""
    inner = [each for each in nested if isinstance(each, (list, tuple))]
    return bool(nested) and deepest > 0 and all(_sound(each, deepest - 1) for each in inner)


def _lists(nested: Any) -> Any:
    if not isinstance(nested, (list, tuple)):
        return nested
    return [_lists(each) for each in nested]


def _leaves(nested: Any) -> Iterator[Any]:
    if not isinstance(nested, (list, tuple)):
        yield nested
        return
    for each in nested:
        yield from _leaves(each)


def _coded(nested: Any, codes: Mapping[Any, int]) -> Any:
    if not isinstance(nested, (list, tuple)):
        return codes[nested]
    return [_coded(each, codes) for each in nested]

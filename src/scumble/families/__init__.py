"""Families of mechanisms: all code of a mechanism is in the folder of its family.

A family is a folder with a record of its names (`FAMILY`, in its `__init__.py`) and modules that
are named by their role:

- `design`: what is published; imports `model` only.
- `read`: answers from it; never imports `private`.
- `publish`: the mechanisms.
- `check`: what the audit and the comparison know of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Literal

from scumble.model.family import Family

Role = Literal["design", "read", "publish", "check"]
Record = Literal["mechanisms", "evidence", "designs", "channels"]


@cache
def families() -> Mapping[str, Family]:
    """Return the records of all families by name, in the order of lists."""
    names = [module.name for module in iter_modules(__path__) if module.ispkg]
    records = {name: import_module(f"{__name__}.{name}").FAMILY for name in names}
    return dict(sorted(records.items(), key=lambda item: item[1].order))


def load(name: str, role: Role) -> ModuleType:
    """Import and return the module of a family that has this role."""
    return import_module(f"{__name__}.{name}.{role}")


def find(name: str, role: Role) -> ModuleType | None:
    """Import and return the module of a family that has this role; None if the family has none."""
    try:
        return load(name, role)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}.{role}":
            raise
        return None


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms on the command line, in the order of lists."""
    return [name for family in families().values() for name in family.mechanisms]


def class_names() -> dict[str, str]:
    """Return the public class names of all mechanisms, each with its module."""
    return {
        kind: f"{__name__}.{name}.publish"
        for name, family in families().items()
        for kind in family.mechanisms.values()
    }


def class_of(mechanism: str) -> Any:
    """Return the class of a mechanism by its name on the command line; KeyError if none has it."""
    name = family_of(mechanism)
    return getattr(load(name, "publish"), families()[name].mechanisms[mechanism])


def family_of(mechanism: str) -> str:
    """Return the family of a mechanism by its name on the command line."""
    return _find_family(mechanism, "mechanisms")


def evidence_class(kind: str) -> Any:
    """Return the class of a kind of evidence that one family writes; KeyError if none does."""
    name = _find_family(kind, "evidence")
    return getattr(load(name, "design"), families()[name].evidence[kind])


def design_class(kind: str) -> Any:
    """Return the class of a kind of design that one family writes; KeyError if none does."""
    name = _find_family(kind, "designs")
    return getattr(load(name, "design"), families()[name].designs[kind][0])


def reader_class(kind: str) -> Any:
    """Return the class that reads a kind of design that one family writes."""
    return getattr(design_reader(kind), families()[_find_family(kind, "designs")].designs[kind][1])


def design_reader(kind: str) -> ModuleType:
    """Return the module that answers from a kind of design that one family writes."""
    return load(_find_family(kind, "designs"), "read")


def channel_design(kind: str) -> ModuleType | None:
    """Return what is known of a kind of channel, or of a law of multisets, in the `design` of the
    family that writes it; None if it has none.
    """
    return find(_find_family(kind, "channels"), "design")


def verb_classes(verb: str) -> list[Any]:
    """Return the classes of all families that have a method of a release besides `answer`."""
    return [
        getattr(load(name, "read"), family.verbs[verb])
        for name, family in families().items()
        if verb in family.verbs
    ]


def view_mechanisms(view: str) -> list[str]:
    """Return the names of the mechanisms whose releases have a view."""
    return [name for family in families().values() for name in family.views.get(view, ())]


def evidence_reader(kind: str) -> ModuleType:
    """Return the module that answers from a kind of evidence that one family writes."""
    return load(_find_family(kind, "evidence"), "read")


def _find_family(name: str, record: Record) -> str:
    """Return the family whose record has this name."""
    known = {
        entry: owner for owner, family in families().items() for entry in getattr(family, record)
    }
    return known[name]

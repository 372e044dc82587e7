"""Proposing a schema by READING PRIVATE DATA: what was taken from it is marked, to be checked."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, nextafter

import pyarrow as pa

from scumble.model import dialect
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, Domain, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import open_source
from scumble.private.tables.profile import FEW, Profile
from scumble.private.tables.source import attempt, distinct

_BINS = 20
_ROUND = (1, 2, Fraction(5, 2), 5, 10)
_WIDE = 1000  # a longer range of whole numbers is better cut into bins

_NOTES = {
    "category": "Read from the data: list every value that is possible, not only those that occur.",
    "integer": "Read from the data: write the range that is possible, not the one that occurs.",
    "binned": "Read from the data: choose edges that cover what is possible.",
    "date": "Read from the data: write the range that is possible, not the one that occurs.",
    "boolean": "Read from the data: may a value be missing?",
}
_PLURALS = {
    "truth": "truth values",
    "integer": "whole numbers",
    "number": "numbers",
    "date": "dates like 2024-12-31",
}
_SINGULAR = (
    "Nearly every value occurs once: taken for an identifier, which is never published. "
    "If it is none, give it a role and a type."
)
_ENDLESS = (
    "Too many different values to list: taken for an identifier, which is never published. "
    "To publish it, give it a role and a type with fewer values."
)
_CODES = (
    " Nearly all are whole numbers, some with zeros in front: a type integer with a range reads "
    "them as numbers."
)
_SPELLINGS = (
    " Some values look like one value spelled in several ways (upper and lower case, spaces, one "
    "letter for a word): clean the file, or they count as different values."
)
_EMPTY = "No value to learn from: never published until you give it a role and a type."
_STRANGE = "Values of a kind that cannot be published; never published until they are converted."


def infer(
    source: object,
    *,
    identifiers: Iterable[str] = (),
    named: Iterable[str] = (),
    limit: int = 1000,
    table: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Schema:
    """A proposal for the schema of a source, in one pass over its private rows.

    Columns in `identifiers` are not looked at; those in `named` must be there. Text with more than
    `limit` distinct values is taken for an identifier.
    """
    opened = open_source(source, table=table)
    known = tuple(identifiers)
    opened.require((*known, *named))
    same = " Names that differ in case only are the same to SQL."
    distinct(opened.description, [name.lower() for name in opened.columns], same)
    profiles = {name: Profile() for name in opened.columns if name not in known}
    rows = 0
    for batch in opened.batches(list(profiles)) if profiles else ():
        attempt(opened.description, partial(_learn, profiles, batch))
        rows += batch.num_rows
        if progress is not None:
            progress(rows)
    return Schema(
        tuple(
            _attribute(name, profiles[name], limit)
            if name in profiles
            else Attribute(name, "identifier")
            for name in opened.columns
        )
    )


def _learn(profiles: Mapping[str, Profile], batch: pa.RecordBatch) -> None:
    for name, profile in profiles.items():
        profile.update(batch.column(name))


def _attribute(name: str, profile: Profile, limit: int) -> Attribute:
    domain, note = _domain(profile, limit)
    if domain is None:
        return Attribute(name, "identifier", note=note)
    # A category of words may have a value "unknown"; a number, code or date that is so is missing.
    blanks = {word for word in profile.blanks if not _has(domain, word)}
    missing = profile.missing or bool(blanks)
    # That a truth value is true or false is no secret; that it may be missing was learnt.
    learnt = missing or not isinstance(domain, Boolean)
    return Attribute(
        name=name,
        role="quasi",
        domain=domain,
        missing=missing,
        null_words=tuple(sorted(profile.words | blanks)),
        from_data=learnt,
        note=note,
    )


def _domain(profile: Profile, limit: int) -> tuple[Domain | None, str]:
    """The domain proposed and what to check, or None and why there is none."""
    if not profile.seen:
        return None, _EMPTY
    for kind in ("truth", "integer", "number", "date"):
        if profile.whole(kind):
            return _of_kind(kind, profile)
    if kind := profile.nearly():
        domain, note = _of_kind(kind, profile)
        return domain, note if domain is None else f"{note} {_strays(kind, profile)}".strip()
    values = {str(value) for value in profile.seen if not isinstance(value, pa.DataType)}
    if not (profile.text and values):
        return None, _STRANGE
    if profile.unique:
        return None, _SINGULAR
    if profile.many or len(profile.seen) > limit:
        return None, _ENDLESS + (_CODES if profile.coded else "")
    if profile.coded:
        return Category(tuple(sorted(values - profile.blanks))), _NOTES["category"] + _CODES
    hint = _SPELLINGS if spelled_twice(values) else ""
    return Category(tuple(sorted(values))), _NOTES["category"] + hint


def _has(domain: Domain, word: str) -> bool:
    return isinstance(domain, Category) and word in domain.values


def _of_kind(kind: str, profile: Profile) -> tuple[Domain | None, str]:
    if kind == "truth":
        return Boolean(), _NOTES["boolean"] if profile.missing or profile.blanks else ""
    if kind == "integer" and _counts_people(profile):
        return None, _SINGULAR
    if kind == "integer":
        domain = _whole(profile)
    elif kind == "number":
        domain = Bins(round_edges(profile.low["number"], profile.high["number"]))
    else:
        domain = _dates(*profile.days())
    return domain, _NOTES[domain.kind]


def _strays(kind: str, profile: Profile) -> str:
    """What to do about some values of another kind; how many there are is said coarsely."""
    share = "less than 1 %" if profile.stray(kind) < 0.01 else "1 to 5 %"
    outside = dialect.named("outside")
    return (
        f"The values of {share} of the rows are no {_PLURALS[kind]} and lie outside: clean the "
        f"file, name a word for a missing value in 'missing', or {outside} decides what becomes "
        "of them when the table is published."
    )


def spelled_twice(values: Iterable[str]) -> bool:
    """Whether some values may be the same but for case, spaces, or a letter that stands for a word.

    >>> spelled_twice(["Asthma", "ASTHMA"]), spelled_twice(["F", "female"]), spelled_twice("ab")
    (True, True, False)
    """
    given = list(values)
    folded = {" ".join(value.casefold().split()) for value in given}
    letters = {value for value in folded if len(value) == 1}
    return len(folded) < len(given) or any(
        value[0] in letters and len(value) > 2 and value.isalpha() for value in folded
    )


def _counts_people(profile: Profile) -> bool:
    """Whole numbers, nearly all different and of a wide range: a number given to each row."""
    return profile.unique and profile.high["integer"] - profile.low["integer"] >= _WIDE


def _whole(profile: Profile) -> Domain:
    low, high = int(profile.low["integer"]), int(profile.high["integer"])
    if high >= 1 << 63:  # unsigned numbers that no range of 64-bit integers holds
        return Bins(round_edges(low, high))
    values = (
        {int(Decimal(str(value))) for value in profile.seen - profile.blanks}
        if len(profile.seen) <= FEW
        else set()
    )
    if values and high - low >= 10 * len(values):
        return Category(tuple(sorted(values)), ordered=True)
    if high - low < _WIDE:
        return IntegerRange(low, high)
    return Bins(round_edges(low, high))


def round_edges(low: float, high: float) -> tuple[float, ...]:
    """Ten to twenty bins or so between round numbers that cover low to high.

    >>> round_edges(13, 97)[:4]
    (10.0, 15.0, 20.0, 25.0)
    """
    if float(low) == float(high):
        return float(floor(low)), max(float(floor(high) + 1), nextafter(high, inf))
    raw = (Decimal(high) - Decimal(low)) / _BINS
    unit = Fraction(10) ** raw.adjusted()
    step = next(unit * size for size in _ROUND if unit * size >= raw)
    places = range(floor(Fraction(low) / step), ceil(Fraction(high) / step) + 1)
    # Where floats are sparser than the steps, several edges fall together.
    return tuple(sorted({float(step * place) for place in places}))


def _dates(first: date, last: date) -> Dates:
    """Days within two months, months within 30 years, or years; whole ones, which tell less."""
    length = (last - first).days
    if length <= 62:
        return Dates(first, last, "day")
    if length <= 30 * 366:
        end = calendar.monthrange(last.year, last.month)[1]
        return Dates(first.replace(day=1), last.replace(day=end), "month")
    return Dates(date(first.year, 1, 1), date(last.year, 12, 31), "year")

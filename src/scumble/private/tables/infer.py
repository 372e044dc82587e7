"""Proposing a schema by READING PRIVATE DATA.

`infer_attributes` profiles every column in one pass and proposes a domain. Domains that were read
from the data are marked `from_data`, for the owner to check. A column for which none can be
proposed is never published; if the owner gave it a role or a type, its place in the file is marked
to fill in.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, nextafter
from typing import cast

import numpy as np
import pyarrow as pa

from scumble.model import errors
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, Domain, IntegerRange
from scumble.model.schema.hierarchy_files import proposed_hierarchy
from scumble.model.schema.lists import ListDomain, ListKind
from scumble.model.schema.toml import KINDS, AnyDomain, Role
from scumble.model.schema.unit import Unit
from scumble.private.tables.basket_grouping import LongRows
from scumble.private.tables.files import SEPARATORS, CsvFile
from scumble.private.tables.open import open_source
from scumble.private.tables.profiles import FEW, STEPS, Profile, Repeats
from scumble.private.tables.source import check_distinct, read_safely

_YES_AND_NO = (("no", "yes"), ("No", "Yes"), ("NO", "YES"))
_BINS = 20
_ROUND = (1, 2, Fraction(5, 2), 5, 10)
_WIDE = 1000  # a longer range of integers is proposed as bins
_MOST_STEPS = 24  # edges on one side of 0 of bins by steps
LISTS = ("set", "sequence")
_REPEATED = 3  # rows for each distinct integer, so that they may be codes

_NOTES = {
    "category": "Read from the data: list every value that is possible, not only those that occur.",
    "integer": "Read from the data: write the range that is possible, not the one that occurs.",
    "binned": "Read from the data: choose edges that cover what is possible.",
    "date": "Read from the data: write the range that is possible, not the one that occurs.",
    "boolean": "Read from the data: may a value be missing?",
}
_PLURALS = {
    "truth": "truth values",
    "boolean": "truth values",
    "binned": "numbers",
    "integer": "whole numbers",
    "number": "numbers",
    "date": "dates like 2024-12-31",
}
_DECIMAL_COMMAS = (
    "The values look like numbers with a decimal comma: write them with a point in the file (12.5 "
    "for 12,5), else they are text, and never published. If they are lists, say so by a type."
)
_THOUSANDS = (
    "The values look like numbers with a comma before three digits, which may be thousands or a "
    "decimal comma: write 12345 or 12.345 for 12,345 in the file, else they are text, and never "
    "published. If they are lists, say so by a type."
)
_SINGULAR = (
    "Nearly every value occurs once: taken for an identifier, which is never published. "
    "If it is none, give it a role and a type."
)
_ENDLESS = (
    "Too many different values to list: taken for an identifier, which is never published. "
    'To publish it, give it a role and a type with fewer values; or type = "category" with '
    "open = true, and Keys names the values that many people have."
)
_CODES = (
    " Nearly all are whole numbers, some with zeros in front: a type integer with a range reads "
    "them as numbers."
)
_SPELLINGS = (
    " Some values look like one value spelled in several ways (upper and lower case, spaces, one "
    "letter for a word): clean the file, or they count as different values."
)
_LIST_NOTE = (
    "Read from the data: list every member that is possible, and the largest length to tell. A "
    "sequence keeps order and repetition, a set does not. If it is ordinary text, make it an "
    "identifier."
)
_MANY_MEMBERS = (
    "Lists of too many different members to list: never published until you give it a role and a "
    "type with fewer."
)
_EMPTY = "No value to learn from: never published until you give it a role and a type."
_STRANGE = "Values of a kind that cannot be published; never published until they are converted."
_FILL_IN = (
    'FILL IN what is possible: type = "category" with values (or open = true, for Keys), type = '
    '"binned" with edges, or another type; or make it role = "identifier" without a type, and it '
    "is not published."
)
_PEOPLE = re.compile(  # names of columns that name people
    r"(?i)^(?:person|patient|customer|client|member|user|subject|student|pupil|employee|citizen)s?"
    r"(?:[ _-]*(?:id|nr|no|num|number|key|code))?$|(?:^|[^a-z])(?:id|pid|uid|ssn|nr|num)$|"
    r"(?-i:[a-z]I[Dd]$)"
)
_FEWEST_PEOPLE = 20  # distinct values of such a column, ...
_MOST_ROWS_EACH = 50  # ... and rows for each of them on average, so that they may be people
_NAMES_PEOPLE = (
    "By its name and its values it tells people apart: taken for an identifier, which is never "
    "published. If it does not, give it a role and a type."
)
_ONE_ROW = "Every row is taken for another person. Check that nobody has two rows."
_REPEATS = (
    "Every row is taken for another person, although '{}' has the same value in several rows. If "
    'it tells people apart, write unit = "person", person and most_rows.'
)
_SEVERAL_ROWS = (
    "'{}' occurs in several rows, so one person may have several. Write into most_rows how many of "
    "them shall count: the others are left out, and with more of them answers are less exact."
)
_ONE_COLUMN = f"The file has this column only. {SEPARATORS}: write one of these if it has more."
_SEVERAL_NAMES = re.compile(r"\w\W+\w")  # names that another mark may separate
_CODE_NAMES = r"(?i)code|zip|post|plz|type|class|categ|group|region|district|county|state|status"
_STEPS = " Most rows have small numbers: the edges grow in steps of 1, 2 and 5."


def infer_attributes(
    source: object,
    *,
    sensitive: str | Iterable[str] = (),
    identifier: str | Iterable[str] = (),
    insensitive: str | Iterable[str] = (),
    types: Mapping[str, str] | None = None,
    limit: int = 1000,
    hierarchies: bool = False,
    table: str | None = None,
    basket: str | None = None,
    order: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[tuple[Attribute, ...], Unit]:
    """Return the attributes and the unit of a proposed schema, in one pass over the private rows of
    a source.

    See `Schema.infer` for the parameters. Of the columns of `identifier` only repeats are looked
    for.
    """
    roles: dict[str, Role] = dict.fromkeys(_names(sensitive), "sensitive")
    roles |= dict.fromkeys(_names(insensitive), "insensitive")
    identifiers, kinds = _names(identifier), dict(types or {})
    _check_types(kinds, identifiers)
    asked = (*identifiers, *roles, *kinds)
    opened = open_source(source, table=table, basket=basket, order=order, require=asked)
    if isinstance(opened, LongRows):
        identifiers = (*identifiers, opened.basket)
        kinds = _list_kinds(opened, kinds, identifiers)
    same = " Names that differ in case only are the same to SQL."
    check_distinct(opened.description, [name.lower() for name in opened.columns], same)
    profiles = {name: Profile() for name in opened.columns if name not in identifiers}
    named = [] if isinstance(opened, LongRows) else [n for n in opened.columns if n in identifiers]
    repeats = {name: Repeats() for name in named}
    rows = 0
    for batch in opened.batches([*profiles, *repeats]) if profiles or repeats else ():
        read_safely(opened.description, partial(_learn, {**profiles, **repeats}, batch))
        rows += batch.num_rows
        if progress is not None:
            progress(rows)
    found = []
    for name in opened.columns:
        attribute = Attribute(name, "identifier")
        if name in profiles:
            kind = kinds.get(name) or _kind_in_role(profiles[name], name in roles)
            attribute = _attribute(name, profiles[name], limit, kind)
            if kind is None and name not in roles and _names_people(name, profiles[name]):
                note = attribute.note if attribute.role == "identifier" else _NAMES_PEOPLE
                attribute = Attribute(name, "identifier", note=note)
        role = roles.get(name, "quasi" if name in kinds else None)
        attribute = attribute if role is None else _in_role(attribute, role)
        if hierarchies and attribute.role == "quasi":
            attribute = replace(attribute, hierarchy=proposed_hierarchy(attribute))
        found.append(attribute)
    if isinstance(opened, CsvFile) and len(found) == 1 and _SEVERAL_NAMES.search(found[0].name):
        found = [replace(each, note=f"{_ONE_COLUMN} {each.note}".strip()) for each in found]
    return tuple(found), _unit(found, profiles, repeats)


def _unit(
    attributes: Sequence[Attribute],
    profiles: Mapping[str, Profile],
    repeats: Mapping[str, Repeats],
) -> Unit:
    """Propose what one row stands for: a column that names people and has repeats says that a
    person may have several rows.
    """
    names = [attribute.name for attribute in attributes if attribute.role == "identifier"]
    read: dict[str, Profile | Repeats] = {**profiles, **repeats}
    repeated = [name for name in names if name in read and read[name].repeated]
    people = [name for name in repeated if name in repeats or _PEOPLE.search(name)]
    if people:
        return Unit(people[0], 1, _SEVERAL_ROWS.format(people[0]))
    return Unit(note=_REPEATS.format(repeated[0]) if repeated else _ONE_ROW)


def _names_people(name: str, profile: Profile) -> bool:
    """Return whether a column tells people apart, by its name and the number of its values."""
    distinct = len(profile.seen)
    enough = distinct >= _FEWEST_PEOPLE and distinct * _MOST_ROWS_EACH >= profile.filled
    return _PEOPLE.search(name) is not None and enough


def _list_kinds(
    source: LongRows, types: Mapping[str, str], identifiers: Sequence[str]
) -> dict[str, str]:
    """Return the types of columns, with those that differ inside of a basket as lists."""
    given = [name for name, kind in types.items() if kind in LISTS]
    source.lists = tuple(dict.fromkeys([*source.lists, *given]))
    kind = "set" if source.order is None else "sequence"
    found = {name: kind for name in source.lists if name not in identifiers}
    return {**found, **types}


def _check_types(types: Mapping[str, str], identifiers: tuple[str, ...]) -> None:
    for name, kind in types.items():
        if kind not in KINDS:
            allowed = f"one of {', '.join(KINDS)} for the column '{name}'"
            raise ParameterError.of("Schema.infer", "types", allowed, kind)
        if name in identifiers:
            raise ParameterError(
                f"'{name}' is named as an identifier, which has no type: leave out one of "
                f"{errors.setting('identifier', name)} and {errors.setting('types', {name: kind})}."
            )


def _in_role(attribute: Attribute, role: Role) -> Attribute:
    """Return the attribute in a role that the owner gave; to fill in if its domain does not do."""
    if attribute.domain is None:
        reason = re.split("[:;.]", attribute.note)[0]
        return replace(attribute, to_fill_in=role, note=f"{reason}. {_FILL_IN}")
    try:
        return replace(attribute, role=role)
    except SchemaError as error:
        note = f"{str(error).rpartition(': ')[2].capitalize()} {_FILL_IN}"
        return Attribute(attribute.name, "identifier", note=note, to_fill_in=role)


def _kind_in_role(profile: Profile, named: bool) -> str | None:
    """Return the type of a column that would pass for an identifier if the owner gave no role."""
    if not named or not profile.unique:
        return None
    if profile.whole("integer") and _numbers_rows(profile):
        return "binned"
    text = profile.text and not profile.nearly() and not any(map(profile.whole, profile.possible))
    return "category" if text and len(profile.seen) <= FEW else None


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _learn(profiles: Mapping[str, Profile | Repeats], batch: pa.RecordBatch) -> None:
    for name, profile in profiles.items():
        profile.update(batch.column(name))


def _attribute(name: str, profile: Profile, limit: int, kind: str | None) -> Attribute:
    """Return a column as proposed: of the type `kind` if the owner gave one."""
    found = _domain(profile, limit) if kind is None else _of_given_type(kind, profile, limit)
    domain, note = found
    if domain is None:
        return Attribute(name, "identifier", note=note)
    if kind is None:
        note += _hint(name, domain, profile, limit)
    if isinstance(domain, ListDomain):
        return Attribute(name, "quasi", domain, from_data=True, note=note)
    # "unknown" may be a value of a category; among numbers, codes or dates it means missing.
    blanks = {word for word in profile.blanks if not _has(domain, word)}
    missing = profile.missing or bool(blanks)
    # Yes and no are a public domain; that a value may be missing was read from the data.
    words = kind is None and isinstance(domain, Category) and domain.values in _YES_AND_NO
    from_data = missing or not (words or isinstance(domain, Boolean))
    try:
        return Attribute(
            name=name,
            role="quasi",
            domain=domain,
            missing=missing,
            null_words=tuple(sorted(profile.words | blanks)),
            from_data=from_data,
            note=note,
        )
    except SchemaError as error:  # such as a value with control characters
        return Attribute(name, "identifier", note=f"Never published as it is. {error}")


def _of_commas(profile: Profile) -> str:
    """Return what to do with numbers that have a comma."""
    return _THOUSANDS if profile.decimals == 3 else _DECIMAL_COMMAS


def _domain(profile: Profile, limit: int) -> tuple[AnyDomain | None, str]:
    """Return the proposed domain and a note on what to check, or None and the reason."""
    if not profile.seen or profile.decimals:
        return None, _of_commas(profile) if profile.seen else _EMPTY
    if profile.has_lists(limit):
        lists = profile.lists.domain(limit, round_edges)
        return lists, _MANY_MEMBERS if lists is None else _LIST_NOTE
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
    if profile.endless(limit):
        return None, _ENDLESS + (_CODES if profile.coded else "")
    if profile.coded:
        return Category(tuple(sorted(values - profile.blanks))), _NOTES["category"] + _CODES
    hint = _SPELLINGS if near_duplicates(values) else ""
    return Category(tuple(sorted(values))), _NOTES["category"] + hint


def _has(domain: AnyDomain, word: str) -> bool:
    return isinstance(domain, Category) and word in domain.values


def _truths(profile: Profile) -> Domain:
    """Return the words yes and no if nothing else was seen, all in one spelling, so that answers
    and published rows show what the table shows; else truth values. Both words are listed also if
    only one was seen: the domain must not tell whether anybody has the other.
    """
    words = {str(word) for word in profile.seen - profile.blanks}
    fitting = (pair for pair in _YES_AND_NO if words and words <= set(pair))
    return next(map(Category, fitting), Boolean())


def _of_kind(kind: str, profile: Profile) -> tuple[Domain | None, str]:
    if kind == "truth":
        return _truths(profile), _NOTES["boolean"] if profile.missing or profile.blanks else ""
    if kind == "integer" and _numbers_rows(profile):
        return None, _SINGULAR
    if kind == "integer":
        domain = _whole(profile)
    elif kind == "number":
        domain = _bins(profile, "number")
    else:
        domain = _dates(*profile.days())
    return domain, _NOTES[domain.kind]


def _of_given_type(kind: str, profile: Profile, limit: int) -> tuple[AnyDomain | None, str]:
    """Return the domain of a type that the owner gave, or None and why there is none."""
    if kind in LISTS:
        lists = profile.lists.domain(limit, round_edges, cast(ListKind, kind))
        return lists, _LIST_NOTE if lists is not None else _no_lists(profile)
    if kind == "category":
        if profile.many or len(profile.seen) > limit:
            return None, f"There are more than {limit:,} different values, too many to list."
        if profile.seen and profile.whole("integer"):
            return Category(tuple(sorted(profile.whole_numbers()))), _NOTES["category"]
        values = {str(value) for value in profile.seen if not isinstance(value, pa.DataType)}
        if not values:
            return None, _EMPTY
        return Category(tuple(sorted(values))), _NOTES["category"]
    read = {"boolean": "truth", "binned": "number"}.get(kind, kind)
    if read == "number" and profile.decimals:
        return None, _of_commas(profile)
    if read not in profile.possible or not profile.fits[read]:
        return None, f"Nearly no values are {_PLURALS[read]}."
    if kind == "integer":
        domain: Domain = IntegerRange(int(profile.low[read]), int(profile.high[read]))
    elif kind == "binned":
        domain = _bins(profile, read)
    else:
        domain = Boolean() if kind == "boolean" else _dates(*profile.days())
    strays = _strays(read, profile) if profile.strays[read] else ""
    return domain, f"{_NOTES[kind]} {strays}".strip()


def _no_lists(profile: Profile) -> str:
    return _MANY_MEMBERS if profile.lists.total else "No lists were found in it."


def _hint(name: str, domain: AnyDomain, profile: Profile, limit: int) -> str:
    """Return what else the owner may mean by numbers, and how to say it; or nothing."""
    steps = _STEPS if isinstance(domain, Bins) and _skewed(profile) else ""
    if not profile.whole("integer"):
        return steps
    repeated = not profile.many and profile.filled >= _REPEATED * len(profile.seen)
    if isinstance(domain, Category):
        amounts = errors.setting("types", {name: "binned"})
        return f" Taken for codes in an order; if they are amounts, say {amounts}."
    some = len(profile.seen) <= (limit if re.search(_CODE_NAMES, name) else FEW)
    few = isinstance(domain, IntegerRange) and len(profile.seen) >= 2 and some
    wide = isinstance(domain, Bins) and len(profile.seen) <= limit
    if not repeated or not (few or wide):
        return steps
    codes = errors.setting("types", {name: "category"})
    return f"{steps} If the numbers are codes and not amounts, say {codes}."


def _strays(kind: str, profile: Profile) -> str:
    """Return advice on values of another type; their share is stated in coarse steps."""
    stray = profile.stray(kind)
    share = "less than 1 %" if stray < 0.01 else "1 to 5 %" if stray <= 0.05 else "more than 5 %"
    outside = errors.named("outside")
    return (
        f"The values of {share} of the rows are no {_PLURALS[kind]} and lie outside: clean the "
        f"file, name a word for a missing value in 'missing', or {outside} decides what becomes "
        "of them when the table is published."
    )


def near_duplicates(values: Iterable[str]) -> bool:
    """Return whether values differ only by case or spaces, or one is the first letter of another.

    >>> near_duplicates(["Asthma", "ASTHMA"]), near_duplicates(["F", "female"])
    (True, True)
    >>> near_duplicates("ab")
    False
    """
    given = list(values)
    folded = {" ".join(value.casefold().split()) for value in given}
    letters = {value for value in folded if len(value) == 1}
    return len(folded) < len(given) or any(
        value[0] in letters and len(value) > 2 and value.isalpha() for value in folded
    )


def _numbers_rows(profile: Profile) -> bool:
    """Return whether integers look like row numbers: nearly all distinct, over a wide range."""
    return profile.unique and profile.high["integer"] - profile.low["integer"] >= _WIDE


def _whole(profile: Profile) -> Domain:
    low, high = int(profile.low["integer"]), int(profile.high["integer"])
    if high >= 1 << 63:  # unsigned integers beyond the range of signed 64-bit ones
        return Bins(round_edges(low, high))
    values = profile.whole_numbers() if len(profile.seen) <= FEW else set()
    if values and high - low >= 10 * len(values):
        return Category(tuple(sorted(values)), ordered=True)
    if high - low < _WIDE:
        return IntegerRange(low, high)
    return _bins(profile, "integer")


def _bins(profile: Profile, kind: str) -> Bins:
    low, high = profile.low[kind], profile.high[kind]
    return Bins(_step_edges(profile) if _skewed(profile) else round_edges(low, high))


def _skewed(profile: Profile) -> bool:
    """Return whether most rows would be in one of the equal bins, the one that begins at 0."""
    if "number" not in profile.low:
        return False
    low, high = profile.low["number"], profile.high["number"]
    if max(-low, high) > STEPS[-1]:
        return False
    step = int(np.searchsorted(STEPS, (high - low) / _BINS, side="right"))
    zero = len(STEPS) + 1
    small = profile.by_step[zero - step : zero + step + 1].sum()
    return step > 0 and 2 * small > profile.by_step.sum()


def _step_edges(profile: Profile) -> tuple[float, ...]:
    """Return edges 0, 1, 2, 5, 10, ... times a power of ten, and the same below 0 if need be.

    They begin where a twentieth of the numbers on their side are nearer to 0.
    """
    zero, edges = len(STEPS) + 1, [0.0]
    for sign, far in ((1.0, profile.high["number"]), (-1.0, -profile.low["number"])):
        if far <= 0:
            continue
        rows = profile.by_step[zero + 1 :] if sign > 0 else profile.by_step[zero - 1 :: -1]
        end = int(np.searchsorted(STEPS, far))
        begin = int(np.searchsorted(np.cumsum(rows), rows.sum() / 20, side="right"))
        begin = min(max(begin - 1, end - _MOST_STEPS, 0), end)
        edges += [sign * float(step) for step in STEPS[begin : end + 1]]
    return tuple(sorted(edges))


def round_edges(low: float, high: float) -> tuple[float, ...]:
    """Return the edges of about ten to twenty bins at round numbers that cover low to high.

    >>> round_edges(13, 97)[:4]
    (10.0, 15.0, 20.0, 25.0)
    """
    if float(low) == float(high):
        return float(floor(low)), max(float(floor(high) + 1), nextafter(high, inf))
    raw = (Decimal(high) - Decimal(low)) / _BINS
    unit = Fraction(10) ** raw.adjusted()
    step = next(unit * size for size in _ROUND if unit * size >= raw)
    places = range(floor(Fraction(low) / step), ceil(Fraction(high) / step) + 1)
    # If floats are sparser than the steps, several edges are equal.
    return tuple(sorted({float(step * place) for place in places}))


def _dates(first: date, last: date) -> Dates:
    """Return a domain by day (up to 62 days), by month (up to 30 years) or by year.

    Its ends are rounded to whole months or years, which reveals less.
    """
    length = (last - first).days
    if length <= 62:
        return Dates(first, last, "day")
    if length <= 30 * 366:
        end = calendar.monthrange(last.year, last.month)[1]
        return Dates(first.replace(day=1), last.replace(day=end), "month")
    return Dates(date(first.year, 1, 1), date(last.year, 12, 31), "year")

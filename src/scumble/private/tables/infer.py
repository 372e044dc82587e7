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
from dataclasses import dataclass, replace
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
from scumble.model.schema.attribute import LIMITS_NEEDED, Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, Domain, IntegerRange
from scumble.model.schema.hierarchy_files import proposed_hierarchy
from scumble.model.schema.lists import ListDomain, ListKind
from scumble.model.schema.numbers import UnlimitedNumber
from scumble.model.schema.spelling import Spelling
from scumble.model.schema.toml import KINDS, AnyDomain, Role
from scumble.model.schema.unit import Unit
from scumble.private.tables.basket_grouping import LongRows
from scumble.private.tables.files import SEPARATORS, CsvFile
from scumble.private.tables.open import open_source
from scumble.private.tables.profiles import (
    DATE_FORMATS,
    DECIMALS,
    FEW,
    SPELLED,
    STEPS,
    Profile,
    Repeats,
    base_of,
)
from scumble.private.tables.source import check_distinct, read_safely

# Words for no and yes: English, German, French, Italian, Spanish, Portuguese, Dutch, Danish and
# Norwegian, Polish.
_NO_AND_YES = (
    *(("no", "yes"), ("nein", "ja"), ("non", "oui"), ("no", "sì"), ("no", "sí"), ("no", "si")),
    *(("não", "sim"), ("nao", "sim"), ("nee", "ja"), ("nej", "ja"), ("nei", "ja"), ("nie", "tak")),
)
_FALSE_AND_TRUE = (("falsch", "wahr"), ("faux", "vrai"), ("n", "j"))  # truth values, if both occur
_BINS = 20
_ROUND = (1, 2, Fraction(5, 2), 5, 10)
_WIDE = 1000  # a longer range of integers is proposed as bins
_MOST_STEPS = 24  # edges on one side of 0 of bins by steps
LISTS = ("set", "sequence")
_REPEATED = 3  # rows for each distinct integer, so that they may be codes

_NOTES = {
    "category": "Read from the data: list every value that is possible, not only those that occur.",
    "integer": "Read from the data: write the range that is possible, not the one that occurs.",
    "binned": "Read from the data: choose edges that cover what is possible. Sums and averages are "
    "only as accurate as the bins are narrow.",
    "date": "Read from the data: write the range that is possible, not the one that occurs.",
    "boolean": "Read from the data: may a value be missing?",
    "number": LIMITS_NEEDED,
}
_PLURALS = {
    "truth": "truth values",
    "boolean": "truth values",
    "binned": "numbers",
    "integer": "whole numbers",
    "number": "numbers",
    "date": "dates like 2024-12-31",
}
_EITHER_DATE = (
    "Left out, as no value tells whether the day or the month comes first (no day is above 12): "
    "say {} or {}."
)
_EITHER_MARK = (
    "Left out, as the comma before three digits may be thousands or a decimal comma: say {1} or "
    "{0}; or, if the values are lists, say so by a type."
)
_MAYBE_THOUSANDS = " If 1.234 stands for a thousand and more in it, say {}."
_SPELLED_SO = {
    "date": " All values are dates in the format {}.",
    ",": " All values are numbers with a decimal comma.",
    ".": " All values are numbers with commas for thousands.",
}
_NEARLY_DATES = " Nearly all values are dates in the format {0}: to read them as dates, say {1}."
_NUMBERS_INSTEAD = " If they are numbers, say {}."
_SHORT_YEARS = (
    " The values look like dates whose year has two digits, which leaves the century open: write "
    "four digits in the file."
)
_SHORT_YEAR = re.compile(r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{2}")
_ONE_VALUE = " Only one value occurs."
_NAMED = "You named it as an identifier, which is never published."
_GROUPS_ROWS = "It groups rows into lists, and is never published itself."
DECIMAL_COMMA, DECIMAL_POINT = "decimal_comma", "decimal_point"
_MARKS = {DECIMAL_COMMA: ",", DECIMAL_POINT: "."}
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
    r"(?i)^(?:person|patient|customer|client|member|user|subject|student|pupil|employee|citizen|"
    r"respondent|participant|proband|resident|inhabitant|worker|household)s?"
    r"(?:[ _-]*(?:id|nr|no|num|number|key|code))?$|(?:^|[^a-z])(?:id|pid|uid|ssn|nr|num)$|"
    r"(?-i:[a-z]I[Dd]$)"
)
_FEWEST_PEOPLE = 20  # distinct values of such a column, ...
_MOST_ROWS_EACH = 50  # ... and rows for each of them on average, so that they may be people, ...
_MANY_PEOPLE = 1000  # ... or distinct values for which the number of rows does not matter
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
_FEW_CODES = 10  # distinct whole numbers that are taken for codes, whatever the column is called
_AMOUNTS = frozenset(  # words in the names of columns of numbers that count or measure something
    "age years year months month weeks week days day hours hour minutes min seconds "
    "count counts quantity amount total sum price cost costs income salary weight height "
    "size length width depth distance duration score points rating temperature temp dose rate "
    "percent share children kids persons people members rooms visits stays times kg g mg cm mm m "
    "km l ml h eur chf usd gbp alter jahr jahre monate wochen tage stunden minuten sekunden anzahl "
    "menge betrag summe preis kosten einkommen lohn gewicht größe groesse höhe hoehe länge laenge "
    "breite dauer punkte dosis prozent anteil kinder personen zimmer besuche nombre prix montant "
    "âge ans jours mois poids taille durée".split()
)
_MONEY = frozenset(  # words in the names of columns of amounts of money
    "amount balance benefit bill bonus budget capital charge charges cost costs debt deduction "
    "dividend dividends donation earning earnings expense expenses fare fee fees gain gains income "
    "interest loan loss losses mortgage payment payments pension premium price profit rent revenue "
    "salary salaries sales savings spending tax taxes turnover wage wages wealth worth chf eur gbp "
    "usd betrag beitrag einkommen einkünfte entgelt gehalt gewinn kosten lohn miete preis rente "
    "schulden steuer umsatz verlust vermögen vermoegen zinsen coût cout dépense depense loyer "
    "montant prix revenu revenus salaire".split()
)
_WORD = re.compile(r"[^\W\d_]?[^\W\d_A-ZÄÖÜ]+|[A-ZÄÖÜ]+")
_SHORTEST_ENDING = 5  # letters of such a word that stands at the end of another: Liegedauer
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
        if name in profiles:
            kind = kinds.get(name) or _kind_in_role(name, profiles[name], name in roles)
            attribute = _attribute(name, profiles[name], limit, kind)
            if kind is None and name not in roles and _names_people(name, profiles[name]):
                note = attribute.note if attribute.role == "identifier" else _NAMES_PEOPLE
                attribute = Attribute(name, "identifier", note=note)
        else:
            grouping = isinstance(opened, LongRows) and name == opened.basket
            attribute = Attribute(name, "identifier", note=_GROUPS_ROWS if grouping else _NAMED)
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
    names = [each.name for each in attributes if each.role == "identifier" and not each.either]
    read: dict[str, Profile | Repeats] = {**profiles, **repeats}
    repeated = [name for name in names if name in read and read[name].repeated]
    people = [name for name in repeated if name in repeats or _PEOPLE.search(name)]
    if people:
        return Unit(people[0], 1, _SEVERAL_ROWS.format(people[0]))
    return Unit(note=_REPEATS.format(repeated[0]) if repeated else _ONE_ROW)


def _names_people(name: str, profile: Profile) -> bool:
    """Return whether a column tells people apart, by its name and the number of its values."""
    distinct = len(profile.seen)
    few_rows = distinct >= _FEWEST_PEOPLE and distinct * _MOST_ROWS_EACH >= profile.filled
    enough = few_rows or distinct >= _MANY_PEOPLE
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
        if kind not in (*KINDS, *_MARKS, *DATE_FORMATS):
            known = ", ".join((*KINDS, *_MARKS))
            formats = ", ".join(DATE_FORMATS)
            allowed = f"one of {known}, or for dates {formats}, for the column '{name}'"
            raise ParameterError.of("Schema.infer", "types", allowed, kind)
        if name in identifiers:
            raise ParameterError(
                f"'{name}' is named as an identifier, which has no type: leave out one of "
                f"{errors.setting('identifier', name)} and {errors.setting('types', {name: kind})}."
            )


def _in_role(attribute: Attribute, role: Role) -> Attribute:
    """Return the attribute in a role that the owner gave; to fill in if its domain does not do."""
    if attribute.domain is None:
        reason = re.split("[:;.]", attribute.note)[0] + "."
        reason = attribute.note if attribute.either else reason
        return replace(attribute, to_fill_in=role, note=f"{reason} {_FILL_IN}")
    try:
        return replace(attribute, role=role)
    except SchemaError as error:
        note = f"{str(error).rpartition(': ')[2].capitalize()} {_FILL_IN}"
        return Attribute(attribute.name, "identifier", note=note, to_fill_in=role)


def _kind_in_role(name: str, profile: Profile, named: bool) -> str | None:
    """Return the type of a column that would pass for an identifier if the owner gave no role."""
    if not named or not profile.unique:
        return None
    if profile.whole("integer") and _numbers_rows(profile):
        return "number" if _has_word(name, _MONEY) else "binned"
    text = profile.text and not profile.nearly() and not any(map(profile.whole, profile.possible))
    return "category" if text and len(profile.seen) <= FEW else None


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _learn(profiles: Mapping[str, Profile | Repeats], batch: pa.RecordBatch) -> None:
    for name, profile in profiles.items():
        profile.update(batch.column(name))


@dataclass(frozen=True)
class _Proposal:
    """A domain, or None and the reason in `note`. `either` are types between which only the owner
    can choose; a `public` domain was not read from the data.
    """

    domain: AnyDomain | None
    note: str = ""
    spelling: Spelling | None = None
    either: tuple[str, ...] = ()
    public: bool = False


def _attribute(name: str, profile: Profile, limit: int, kind: str | None) -> Attribute:
    """Return a column as proposed: of the type `kind` if the owner gave one."""
    if kind is None:
        found = _as_codes(name, profile, limit, _proposal(name, profile, limit))
        found = _as_money(name, profile, found)
    else:
        found = _of_given_type(name, kind, profile, limit)
    domain, note = found.domain, found.note
    if domain is None:
        return Attribute(name, "identifier", note=note, either=found.either)
    if kind is None:
        note += _hint(name, found, profile, limit)
    if isinstance(domain, ListDomain):
        return Attribute(name, "quasi", domain, from_data=True, note=note)
    # "unknown" may be a value of a category; among numbers, codes or dates it means missing.
    blanks = {word for word in profile.blanks if not _has(domain, word)}
    missing = profile.missing or bool(blanks)
    # Yes and no are a public domain; that a value may be missing was read from the data.
    from_data = (missing or not found.public) and not isinstance(domain, UnlimitedNumber)
    if from_data and isinstance(domain, Category | IntegerRange) and domain.size == 1:
        note += _ONE_VALUE
    try:
        return Attribute(
            name=name,
            role="quasi",
            domain=domain,
            missing=missing,
            null_words=tuple(sorted(profile.words | blanks)),
            from_data=from_data,
            spelling=found.spelling,
            note=note.strip(),
            either=found.either,
        )
    except SchemaError as error:  # such as a value with control characters
        return Attribute(name, "identifier", note=f"Never published as it is. {error}")


def _proposal(name: str, profile: Profile, limit: int) -> _Proposal:
    """Return the proposed domain and a note on what to check, or None and the reason."""
    if not profile.seen:
        return _Proposal(None, _EMPTY)
    found = _plain(name, profile) or _spelled_truths(profile) or _spelled(name, profile)
    if found is not None:
        return found
    if profile.has_lists(limit):
        lists = profile.lists.domain(limit, round_edges)
        return _Proposal(lists, _MANY_MEMBERS if lists is None else _LIST_NOTE)
    for mark in DECIMALS:  # 1,234,567 may also be a list, and a few values like 1,5 and 2,25 codes
        if profile.whole(f"number{mark}") and (mark == "." or len(profile.seen) > FEW):
            return _of_number(profile, mark)
    if kind := profile.nearly():
        found = _of_kind(kind, profile)
        if found.domain is None:
            return found
        return replace(found, note=f"{found.note} {_strays(kind, profile)}".strip())
    return _of_words(name, profile, limit)


def _plain(name: str, profile: Profile) -> _Proposal | None:
    """Return the proposal for values that are all of one type in the usual spelling."""
    kinds = ("truth", "integer", "number", "date")
    kind = next((kind for kind in kinds if profile.whole(kind)), None)
    if kind is None:
        return None
    found = _of_kind(kind, profile)
    if kind == "number" and profile.thousands:
        said = errors.setting("types", {name: DECIMAL_COMMA})
        found = replace(found, note=found.note + _MAYBE_THOUSANDS.format(said))
    return found


def _spelled(name: str, profile: Profile) -> _Proposal | None:
    """Return the proposal for dates and numbers of another spelling, which all values have."""
    formats = [each for each in DATE_FORMATS if profile.whole(each)]
    if len(formats) > 1:
        return _either(_EITHER_DATE, name, formats)
    if formats:
        return _of_date(profile, formats[0])
    if not (profile.whole("number,") and profile.regular):
        return None
    if profile.whole("number."):
        return _either(_EITHER_MARK, name, [*_MARKS])
    return _of_number(profile, ",")


def _of_words(name: str, profile: Profile, limit: int) -> _Proposal:
    """Return a category of texts, or the reason why there is none."""
    values = {str(value) for value in profile.seen if not isinstance(value, pa.DataType)}
    if not (profile.text and values):
        return _Proposal(None, _STRANGE)
    if profile.unique:
        return _Proposal(None, _SINGULAR + _date_hint(name, profile, values))
    if profile.endless(limit):
        more = _CODES if profile.coded else _date_hint(name, profile, values)
        return _Proposal(None, _ENDLESS + more)
    if profile.coded:
        codes = tuple(sorted(values - profile.blanks))
        return _Proposal(Category(codes), _NOTES["category"] + _CODES)
    hint = _SPELLINGS if near_duplicates(values) else ""
    if profile.whole("number,"):
        hint += _NUMBERS_INSTEAD.format(errors.setting("types", {name: DECIMAL_COMMA}))
    note = _NOTES["category"] + hint + _date_hint(name, profile, values)
    return _Proposal(Category(tuple(sorted(values))), note)


def _date_hint(name: str, profile: Profile, values: Iterable[str]) -> str:
    """Return how to read values that are nearly all dates in a format, or could be dates."""
    nearly = [each for each in DATE_FORMATS if profile.nearly_is(each)]
    if nearly:
        return _NEARLY_DATES.format(nearly[0], errors.setting("types", {name: nearly[0]}))
    return _SHORT_YEARS if all(map(_SHORT_YEAR.fullmatch, values)) else ""


def _has(domain: AnyDomain, word: str) -> bool:
    return isinstance(domain, Category) and word in domain.values


def _words(profile: Profile) -> set[str]:
    return {str(word) for word in profile.seen - profile.blanks}


def _spelled_truths(profile: Profile) -> _Proposal | None:
    """Return the words for yes and no of a language if nothing else was seen, all in one spelling,
    so that answers and published rows show what the table shows; else truth values. Both words are
    listed also if only one was seen: the domain must not tell whether anybody has the other.
    """
    words = _words(profile)
    spelling = _truth_words(words)
    if spelling is None or not profile.text:
        return None
    note = _NOTES["boolean"] if profile.missing or profile.blanks else ""
    for style in (str.lower, str.capitalize, str.upper):
        pair = style(str(spelling.false)), style(str(spelling.true))
        if words <= set(pair) and (spelling.false, spelling.true) in _NO_AND_YES:
            return _Proposal(Category(pair), note, public=True)
    return _Proposal(Boolean(), note, spelling, public=True)


def _truth_words(words: set[str]) -> Spelling | None:
    """Return the pair of words for false and true that values are, in any case."""
    lower = {word.lower() for word in words}
    for false, true in (*_NO_AND_YES, *_FALSE_AND_TRUE):
        if lower and lower <= {false, true} and (len(true) > 1 or len(lower) == 2):
            return Spelling(true=true, false=false)
    return None


def _of_kind(kind: str, profile: Profile) -> _Proposal:
    """Return a domain for values of a type in the usual spelling."""
    if kind == "truth":
        usual = _Proposal(
            Boolean(), _NOTES["boolean"] if profile.missing or profile.blanks else "", public=True
        )
        found = _spelled_truths(profile)
        return found if found is not None and isinstance(found.domain, Category) else usual
    if kind == "date":
        return _of_date(profile)
    return _of_number(profile) if kind == "number" else _of_integer(profile)


def _of_date(profile: Profile, form: str | None = None) -> _Proposal:
    domain = _dates(*profile.days(form or "date"))
    if form is None:
        return _Proposal(domain, _NOTES["date"])
    note = _NOTES["date"] + _SPELLED_SO["date"].format(form)
    return _Proposal(domain, note, SPELLED[form][1])


def _of_number(profile: Profile, mark: str = "") -> _Proposal:
    """Return a domain of numbers; with a decimal mark that is declared also of whole numbers."""
    spelling = SPELLED[f"number{mark}"][1] if mark else None
    if mark and profile.whole(f"integer{mark}"):
        found = _of_integer(profile, mark)
    else:
        found = _Proposal(_bins(profile, f"number{mark}"), _NOTES["binned"], spelling)
    more = _SPELLED_SO[mark] if mark and found.domain is not None else ""
    return replace(found, note=found.note + more)


def _of_integer(profile: Profile, mark: str = "") -> _Proposal:
    if _numbers_rows(profile, mark):
        return _Proposal(None, _SINGULAR)
    spelling = SPELLED[f"integer{mark}"][1] if mark else None
    domain = _whole(profile, mark)
    return _Proposal(domain, _NOTES[domain.kind], spelling)


def _as_codes(name: str, profile: Profile, limit: int, found: _Proposal) -> _Proposal:
    """Return a category in place of whole numbers that may be codes: those of a column that is
    called like one, or few distinct ones of a column that is not called like an amount.
    """
    distinct = len(profile.seen - profile.blanks)
    rows = profile.filled - profile.blank_rows
    repeated = not profile.many and rows >= _REPEATED * distinct
    codes = re.search(_CODE_NAMES, name) is not None
    few = 1 < distinct <= (limit if codes else _FEW_CODES)
    amount = not codes and _names_amount(name)
    if not (repeated and few and profile.whole("integer")) or amount:
        return found
    kind = found.domain.kind if isinstance(found.domain, IntegerRange | Bins) else None
    if kind is None or (kind == "binned" and not codes):
        return found
    domain = Category(tuple(sorted(profile.whole_numbers())))
    return _Proposal(domain, _NOTES["category"], either=("category", kind))


def _names_amount(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return words[:1] in (["n"], ["no"], ["nr"], ["num"], ["number"]) or _has_word(name, _AMOUNTS)


def _has_word(name: str, known: frozenset[str]) -> bool:
    """Return whether a word of a name is known, or ends in a long one that is."""
    return any(
        word in known or any(word.endswith(each) for each in known if len(each) >= _SHORTEST_ENDING)
        for word in (word.lower() for word in _WORD.findall(name))
    )


def _as_money(name: str, profile: Profile, found: _Proposal) -> _Proposal:
    """Return a number without limits in place of bins for a column that is called like money."""
    if not isinstance(found.domain, Bins) or not _has_word(name, _MONEY):
        return found
    return _Proposal(_amounts(profile), _NOTES["number"], found.spelling, public=True)


def _amounts(profile: Profile) -> UnlimitedNumber:
    """Return amounts in whole numbers, or in hundredths if some value has decimals."""
    whole = any(profile.whole(f"integer{mark}") for mark in ("", *DECIMALS))
    return UnlimitedNumber(1 if whole else 0.01)


def _of_given_type(name: str, kind: str, profile: Profile, limit: int) -> _Proposal:
    """Return the domain of a type that the owner gave, or None and why there is none."""
    if kind in LISTS:
        lists = profile.lists.domain(limit, round_edges, cast(ListKind, kind))
        return _Proposal(lists, _LIST_NOTE if lists is not None else _no_lists(profile))
    if kind == "category":
        return _given_category(profile, limit)
    words = _truth_words(_words(profile)) if kind == "boolean" else None
    if words is not None and not profile.whole("truth"):
        return _Proposal(Boolean(), _NOTES["boolean"], words, public=True)
    if kind in _MARKS and profile.whole(f"number{_MARKS[kind]}"):
        return _of_number(profile, _MARKS[kind])
    found = _reading(name, kind, profile)
    return found if isinstance(found, _Proposal) else _of_reading(found, kind, profile)


def _of_reading(read: str, kind: str, profile: Profile) -> _Proposal:
    """Return the domain of the values that can be read as a type, and say how many cannot."""
    base = base_of(read)
    if not profile.fits[read]:
        return _Proposal(None, f"Nearly no values are {_PLURALS[base]}.")
    if kind == "number":
        domain: AnyDomain = _amounts(profile)
    elif base == "integer":
        domain = IntegerRange(int(profile.low[read]), int(profile.high[read]))
    elif base == "number":
        domain = _bins(profile, read)
    else:
        domain = Boolean() if base == "truth" else _dates(*profile.days(read))
    strays = _strays(read, profile) if profile.strays[read] else ""
    spelling = SPELLED[read][1] if read in SPELLED else None
    note = f"{_NOTES[domain.kind]} {strays}".strip()
    return _Proposal(domain, note, spelling, public=base == "truth" or kind == "number")


def _given_category(profile: Profile, limit: int) -> _Proposal:
    if profile.many or len(profile.seen) > limit:
        return _Proposal(None, f"There are more than {limit:,} different values, too many to list.")
    if profile.seen and profile.whole("integer"):
        return _Proposal(Category(tuple(sorted(profile.whole_numbers()))), _NOTES["category"])
    values = {str(value) for value in profile.seen if not isinstance(value, pa.DataType)}
    if not values:
        return _Proposal(None, _EMPTY)
    return _Proposal(Category(tuple(sorted(values))), _NOTES["category"])


def _reading(name: str, kind: str, profile: Profile) -> str | _Proposal:
    """Return how to read the values as a type that the owner gave: as most values can be read; a
    proposal that asks if two ways read as many.
    """
    if kind in SPELLED:
        return kind
    if kind in _MARKS:
        return f"number{_MARKS[kind]}"
    base = {"boolean": "truth", "binned": "number"}.get(kind, kind)
    readings = [base, *(each for each in SPELLED if base_of(each) == base)]
    best = max(profile.fits[each] for each in readings)
    alike = [each for each in readings if profile.fits[each] == best]
    if len(alike) == 1 or base in alike:
        return alike[0]
    if base == "date":
        return _either(_EITHER_DATE, name, alike)
    return _either(_EITHER_MARK, name, [*_MARKS])


def _either(sentence: str, name: str, choices: Sequence[str]) -> _Proposal:
    """Return a proposal that asks which of two types it is."""
    said = (errors.setting("types", {name: choice}) for choice in choices)
    return _Proposal(None, sentence.format(*said), either=tuple(choices))


def _no_lists(profile: Profile) -> str:
    return _MANY_MEMBERS if profile.lists.total else "No lists were found in it."


def _hint(name: str, found: _Proposal, profile: Profile, limit: int) -> str:
    """Return what else the owner may mean by numbers, and how to say it; or nothing."""
    domain = found.domain
    mark = found.spelling.decimal if found.spelling is not None else None
    steps = _STEPS if isinstance(domain, Bins) and _skewed(profile, mark or "") else ""
    if not profile.whole("integer"):
        return steps
    if isinstance(domain, Category):
        kind = found.either[-1] if found.either else "binned"
        order = "" if found.either else " in an order"
        amounts = errors.setting("types", {name: kind})
        return f" Taken for codes{order}; if they are amounts, say {amounts}."
    repeated = not profile.many and profile.filled >= _REPEATED * len(profile.seen)
    some = len(profile.seen) <= (limit if re.search(_CODE_NAMES, name) else FEW)
    few = isinstance(domain, IntegerRange) and len(profile.seen) >= 2 and some
    wide = isinstance(domain, Bins) and len(profile.seen) <= limit
    if not repeated or not (few or wide) or _names_amount(name):
        return steps
    said = errors.setting("types", {name: "category"})
    return f"{steps} If the numbers are codes and not amounts, say {said}."


def _strays(kind: str, profile: Profile) -> str:
    """Return advice on values of another type; their share is stated in coarse steps."""
    stray = profile.stray(kind)
    share = "less than 1 %" if stray < 0.01 else "1 to 5 %" if stray <= 0.05 else "more than 5 %"
    outside = errors.named("outside")
    return (
        f"The values of {share} of the rows are no {_PLURALS[base_of(kind)]} and lie outside: "
        f"clean the file, name a word for a missing value in 'missing', or {outside} decides what "
        "becomes of them when the table is published."
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


def _numbers_rows(profile: Profile, mark: str = "") -> bool:
    """Return whether integers look like row numbers: nearly all distinct, over a wide range."""
    kind = f"integer{mark}"
    return profile.unique and profile.high[kind] - profile.low[kind] >= _WIDE


def _whole(profile: Profile, mark: str = "") -> Domain:
    kind = f"integer{mark}"
    low, high = int(profile.low[kind]), int(profile.high[kind])
    if high >= 1 << 63:  # unsigned integers beyond the range of signed 64-bit ones
        return Bins(round_edges(low, high))
    values = profile.whole_numbers() if len(profile.seen) <= FEW and not mark else set()
    if values and high - low >= 10 * len(values):
        return Category(tuple(sorted(values)), ordered=True)
    if high - low < _WIDE:
        return IntegerRange(low, high)
    return _bins(profile, kind)


def _bins(profile: Profile, kind: str) -> Bins:
    low, high = profile.low[kind], profile.high[kind]
    mark = SPELLED[kind][1].decimal or "" if kind in SPELLED else ""
    skewed = _skewed(profile, mark)
    return Bins(_step_edges(profile, mark) if skewed else round_edges(low, high))


def _skewed(profile: Profile, mark: str) -> bool:
    """Return whether most rows would be in one of the equal bins, the one that begins at 0."""
    kind = f"number{mark}"
    if kind not in profile.low:
        return False
    low, high = profile.low[kind], profile.high[kind]
    if max(-low, high) > STEPS[-1]:
        return False
    step = int(np.searchsorted(STEPS, (high - low) / _BINS, side="right"))
    zero = len(STEPS) + 1
    small = profile.by_step[kind][zero - step : zero + step + 1].sum()
    return step > 0 and 2 * small > profile.by_step[kind].sum()


def _step_edges(profile: Profile, mark: str) -> tuple[float, ...]:
    """Return edges 0, 1, 2, 5, 10, ... times a power of ten, and the same below 0 if need be.

    They begin where a twentieth of the numbers on their side are nearer to 0.
    """
    zero, edges = len(STEPS) + 1, [0.0]
    kind = f"number{mark}"
    by_step = profile.by_step[kind]
    for sign, far in ((1.0, profile.high[kind]), (-1.0, -profile.low[kind])):
        if far <= 0:
            continue
        rows = by_step[zero + 1 :] if sign > 0 else by_step[zero - 1 :: -1]
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

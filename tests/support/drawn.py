"""Hypothesis strategies: any domain, any attribute, any schema."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
from hypothesis import strategies as st

from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import (
    BinnedNumber,
    Bins,
    Boolean,
    Category,
    Dates,
    Domain,
    IntegerRange,
)
from scumble.model.schema.numbers import Number
from scumble.model.schema.schema import Schema

LOW, HIGH = -(2**63), 2**63 - 1
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Cf"]), min_size=1, max_size=8
)
VALUES = WORDS.filter(lambda word: word.strip() != "")
INTEGERS = st.integers(LOW, HIGH)


@st.composite
def categories(draw: st.DrawFn) -> Category:
    kind = draw(st.sampled_from([VALUES, INTEGERS]))
    values = draw(st.lists(kind, min_size=1, max_size=30, unique=True))
    return Category(tuple(values), draw(st.booleans()))


RANGES = st.tuples(INTEGERS, INTEGERS).map(lambda pair: IntegerRange(min(pair), max(pair)))
SHORT_RANGES = st.tuples(INTEGERS, st.integers(0, 300)).map(
    lambda pair: IntegerRange(pair[0], min(pair[0] + pair[1], HIGH))
)
BINS = st.lists(
    st.floats(-1e300, 1e300, allow_subnormal=False), min_size=2, max_size=30, unique=True
).map(lambda edges: Bins(tuple(sorted(edges))))
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
DATES = st.tuples(DAYS, DAYS, st.sampled_from(["day", "month", "year"])).map(
    lambda three: Dates(min(three[:2]), max(three[:2]), three[2])
)


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    """Limits and steps with few decimals, which floats hold nearly or exactly."""
    scale = draw(st.sampled_from([1, 2, 4, 10, 100, 1000]))
    step = draw(st.one_of(st.integers(1, 20), st.sampled_from([250, 10**6])))
    steps = draw(st.one_of(st.integers(1, 40), st.integers(1, 10**8)))
    first = draw(st.integers(-(10**9), 10**9))
    ends = (first, first + step * steps, step)
    return Number(*(each if scale == 1 else each / scale for each in ends))


@st.composite
def binned_numbers(draw: st.DrawFn) -> BinnedNumber:
    number = draw(numbers())
    inner = draw(st.sets(st.integers(1, number.size - 1), max_size=20)) - {number.size - 1}
    return BinnedNumber.of(number, [number.value(code) for code in sorted(inner)])


DOMAINS: st.SearchStrategy[Domain] = st.one_of(
    categories(),
    RANGES,
    SHORT_RANGES,
    BINS,
    DATES,
    st.just(Boolean()),
    numbers(),
    binned_numbers(),
)


def is_outside(domain: Domain, word: str) -> bool:
    return bool(domain.encode(pa.array([word.strip()]))[1][0])


@st.composite
def attributes(draw: st.DrawFn, names: st.SearchStrategy[str] = WORDS) -> Attribute:
    role = draw(st.sampled_from(["identifier", "quasi", "sensitive", "insensitive"]))
    if role == "identifier":
        return Attribute(draw(names), role)
    domain = draw(DOMAINS)
    missing = draw(st.booleans()) and domain.size < 2**64
    if role == "sensitive" and domain.size + missing < 2:
        role = "quasi"
    words = draw(st.lists(VALUES.filter(lambda word: is_outside(domain, word)), max_size=2))
    return Attribute(
        draw(names), role, domain, missing, tuple(words) if missing else (), draw(st.booleans())
    )


SCHEMAS = st.lists(
    attributes(), min_size=1, max_size=6, unique_by=lambda attribute: attribute.name.lower()
).map(lambda drawn: Schema(tuple(drawn)))

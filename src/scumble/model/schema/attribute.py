"""Attribute: a column of a table, with its role and its public domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from scumble.model.errors import SchemaError
from scumble.model.schema import arrow_values
from scumble.model.schema.cell_keys import smallest_unsigned
from scumble.model.schema.domains import (
    BinnedNumber,
    Bins,
    Category,
    Coded,
    Dates,
    Domain,
    lookup,
    put,
)
from scumble.model.schema.hierarchies import default_levels, read_rule, resolve
from scumble.model.schema.lists import ListDomain
from scumble.model.schema.names import control_character
from scumble.model.schema.numbers import Number, UnlimitedNumber
from scumble.model.schema.open_category import OpenCategory
from scumble.model.schema.spelling import KEYS, Spelling
from scumble.model.schema.toml import (
    FILL_IN,
    ROLES,
    AnyDomain,
    Role,
    domain_to_table,
    read_domain,
    read_flag,
    read_missing,
    read_role,
)

if TYPE_CHECKING:
    from scumble.model.schema.hierarchies import Levels, Rule

_LABEL_LIMIT = 1 << 28
LIMITS_NEEDED = (
    "Write limits = [LOW, HIGH] in place of limits_needed, with the amounts that matter; those "
    "beyond count as the nearer limit."
)
_WITHOUT_CODES = (ListDomain, OpenCategory, UnlimitedNumber)


@dataclass(frozen=True)
class Attribute:
    """One column of a table.

    With `missing`, a missing value has a code of its own, the last one. `null_words` are texts
    that mean a missing value. An identifier has no domain, because it is never published. A list
    (a set or a sequence) and an open category have no codes: see `tabular`.
    `from_data` marks a domain that was read from private data; `note` is a remark for the owner.
    `to_fill_in` is the role of a column whose domain the owner must write; it is an identifier
    until then; `either` are types for `Schema.infer` between which only the owner can choose.
    `hierarchy` is a rule that joins values into larger groups: see `levels`. `spelling` declares
    how the table writes the values as text; what is published has the usual spelling.

    >>> from scumble.model.schema.domains import IntegerRange
    >>> age = Attribute("age", "quasi", IntegerRange(17, 90), missing=True, null_words=("?",))
    >>> age.size, age.encode(pa.array(["17", " 18", "?", "200"]))
    (75, (array([ 0,  1, 74,  0], dtype=uint8), array([False, False, False,  True])))
    """

    name: str
    role: Role
    domain: AnyDomain | None = None
    missing: bool = False
    null_words: tuple[str, ...] = ()
    from_data: bool = False
    hierarchy: Rule | None = None
    spelling: Spelling | None = None
    note: str = field(default="", compare=False)
    to_fill_in: Role | None = field(default=None, compare=False)
    either: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        words = (word.strip() for word in self.null_words)
        object.__setattr__(self, "null_words", tuple(word for word in words if word))
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"The name of an attribute must be text. Got {self.name!r} instead.")
        if mark := control_character(self.name):
            raise SchemaError(
                "The name of an attribute must have no control characters or bidirectional marks. "
                f"Got {self.name!r} with {mark}; rename the column."
            )
        if self.role not in ROLES:
            known = ", ".join(ROLES)
            raise SchemaError(
                f"{self}: the role must be one of {known}. Got {self.role!r} instead."
            )
        if self.domain is None:
            if self.hierarchy is not None:
                raise SchemaError(f"{self}: an identifier is never published; no hierarchy.")
            if self.role != "identifier":
                raise SchemaError(f"{self}: a {self.role} attribute needs a domain; give its type.")
            return
        self._check_spelling(self.domain)
        self._check_domain(self.domain)
        if self.hierarchy is not None:
            self._check_hierarchy()

    def _check_spelling(self, domain: AnyDomain) -> None:
        given = [] if self.spelling is None else list(self.spelling.to_table())
        for key in given:
            if key not in KEYS.get(domain.kind, ()):
                raise SchemaError(f"{self}: '{key}' is not for type {domain.kind}.")
        if self.spelling is None or not isinstance(domain, Dates):
            return
        periods = ("day", "month", "year")
        if periods.index(self.spelling.by) > periods.index(domain.by):
            raise SchemaError(
                f"{self}: 'format' must name the {domain.by}, as the domain is by {domain.by}. "
                f"Got {self.spelling.format!r} instead."
            )

    def _check_hierarchy(self) -> None:
        if not self.tabular:
            raise SchemaError(f"{self}: a column of lists or of open values has no hierarchy.")
        try:
            labels = {label for level in self.levels.labels for label in level}
        except SchemaError as error:
            sentence = str(error)
            raise SchemaError(f"{self}: {sentence[0].lower()}{sentence[1:]}") from None
        for label in labels:
            if mark := control_character(label):
                raise SchemaError(f"{self}: a label of the hierarchy has {mark}; remove it.")

    def _check_domain(self, domain: AnyDomain) -> None:
        members = domain.members if isinstance(domain, ListDomain) else domain
        texts = members.values if isinstance(members, Category) else ()
        for text in (*texts, *self.null_words):
            if isinstance(text, str) and (mark := control_character(text)):
                raise SchemaError(
                    f"{self}: a value has a control character or a bidirectional mark ({mark}); "
                    "remove it from the table and the schema."
                )
        if self.role == "identifier":
            raise SchemaError(f"{self}: an identifier is never published and has no domain.")
        if isinstance(domain, OpenCategory):
            if self.from_data:
                raise SchemaError(f"{self}: an open category lists no values; delete 'from_data'.")
        elif isinstance(domain, UnlimitedNumber):
            if self.from_data or self.hierarchy is not None:
                raise SchemaError(f"{self}: write its limits before 'from_data' or 'hierarchy'.")
        elif not isinstance(domain, ListDomain):
            self._check_codes(domain)
        elif self.missing:
            raise SchemaError(
                f"{self}: only a column with one listed value per row has missing values; an "
                "empty list needs none. Delete 'missing'."
            )

    def _check_codes(self, domain: Domain) -> None:
        if self.null_words and not self.missing:
            raise SchemaError(f"{self}: words for a missing value need missing=True.")
        if self.null_words:
            words = self._respell(pa.array(self.null_words, pa.string()))
            number = self.number  # a word beyond its limits is never published
            outside = domain.encode(words)[1] if number is None else number.beyond(words)
            if not outside.all():
                word = self.null_words[int(np.argmin(outside))]
                raise SchemaError(
                    f"{self}: {word!r} is both a value and a word for a missing value."
                )
        if self.size > 1 << 64:
            raise SchemaError(
                f"{self}: a domain holds at most 2^64 values, a missing one included."
            )
        if self.role == "sensitive" and self.size < 2:
            raise SchemaError(
                f"{self}: a sensitive attribute needs at least two values to hide among."
            )

    def __str__(self) -> str:
        return f"Attribute '{self.name}'"

    @property
    def kind(self) -> str:
        """The type of the domain: category, integer, number, binned, boolean or date; or
        "identifier".
        """
        return "identifier" if self.domain is None else self.domain.kind

    @property
    def tabular(self) -> bool:
        """Whether the column has one value of a listed domain per row, and so codes."""
        return not (self.domain is None or isinstance(self.domain, _WITHOUT_CODES))

    @property
    def open(self) -> bool:
        """Whether the column is a category whose values are not public."""
        return isinstance(self.domain, OpenCategory)

    @property
    def number(self) -> Number | None:
        """The amounts of a number, whether it is cut into bins or not; None for other types."""
        if isinstance(self.domain, BinnedNumber):
            return self.domain.number
        return self.domain if isinstance(self.domain, Number) else None

    def without_bins(self) -> Attribute:
        """Return a number with its amounts in place of bins, and any other column as it is. It has
        no hierarchy then: one of bins says nothing of single amounts.
        """
        if not isinstance(self.domain, BinnedNumber):
            return self
        return replace(self, domain=self.domain.number, hierarchy=None)

    @property
    def lists(self) -> ListDomain:
        """The domain of a set or sequence; SchemaError for any other column."""
        if not isinstance(self.domain, ListDomain):
            raise SchemaError(
                f"{self} must be of the type set or sequence. It is {self.describe()}."
            )
        return self.domain

    @cached_property
    def size(self) -> int:
        """The number of codes, including the one for a missing value."""
        return self._required_domain.size + self.missing

    @property
    def ordered(self) -> bool:
        """Whether the values have an order, so that ranges are meaningful."""
        if isinstance(self.domain, _WITHOUT_CODES):
            return False
        return not isinstance(self.domain, Category) or self.domain.ordered

    @cached_property
    def coarse(self) -> bool:
        """Whether a published value stands for several values: a bin, a month or a year."""
        domain = self.domain
        return isinstance(domain, Bins) or (isinstance(domain, Dates) and domain.by != "day")

    @cached_property
    def levels(self) -> Levels:
        """The levels of its hierarchy; of one without, those of `default_levels`."""
        domain = self._required_domain
        if self.hierarchy is None:
            return default_levels(domain, ordered=self.ordered, missing=self.missing)
        return resolve(self.hierarchy, domain, missing=self.missing)

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of published values."""
        if isinstance(self.domain, OpenCategory):
            return self.domain.arrow_type
        return self._required_domain.arrow_type

    @cached_property
    def code_type(self) -> np.dtype:
        """The smallest unsigned type that holds the codes 0 to size - 1."""
        return smallest_unsigned(self.size)

    def describe(self) -> str:
        """Describe the domain in a few words, for messages."""
        if self.domain is None:
            return f"{self.to_fill_in}, to fill in" if self.to_fill_in else "identifier"
        return self.domain.describe() + (", or missing" if self.missing else "")

    def labels(self) -> pa.Array:
        """Return the value of every code; null is the last if a value may be missing."""
        if self.size > _LABEL_LIMIT:
            raise SchemaError(f"{self}: {self.size} values are too many to list; use coarser bins.")
        labels = self._required_domain.labels()
        return pa.concat_arrays([labels, pa.nulls(1, labels.type)]) if self.missing else labels

    def encode(
        self,
        values: pa.Array | pa.ChunkedArray,
        encode_words: Callable[[pa.Array], Coded] | None = None,
    ) -> Coded:
        """Return the codes (maybe read-only) and a mask of the values outside the domain.

        The code of a value outside the domain is 0. Values may have their own type, be text, or be
        a dictionary of either. Empty text, `null_words` and NaN are missing. White space around
        text is ignored, unless the domain contains exactly that text. The code of a value does not
        depend on other values. `encode_words` takes the place of the method of this name.
        """
        if isinstance(values, pa.ChunkedArray):
            if values.num_chunks == 1:
                return self.encode(values.chunk(0), encode_words)
            parts = [self.encode(chunk, encode_words) for chunk in values.chunks]
            parts = parts or [(np.empty(0, self.code_type), np.empty(0, bool))]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        values = arrow_values.unwrap(values)
        kind = values.type
        if arrow_values.is_text(kind) or arrow_values.is_bytes(kind) or types.is_decimal(kind):
            values = pc.dictionary_encode(values)
        if isinstance(values, pa.DictionaryArray):
            return self._encode_dictionary(values, encode_words)
        return self._encode_values(values)

    def encode_words(self, words: pa.Array) -> Coded:
        """Return the codes of the different values of a dictionary, one more for null, and a mask
        of those outside the domain.
        """
        words, garbled = arrow_values.decode_text(words)
        codes, outside = self._encode_values(pa.concat_arrays([words, pa.nulls(1, words.type)]))
        if garbled is not None:
            garbled = np.append(garbled, False)
            codes, outside = put(codes, garbled, 0), outside | garbled
        return codes, outside

    def _encode_dictionary(
        self, values: pa.DictionaryArray, encode_words: Callable[[pa.Array], Coded] | None
    ) -> Coded:
        """Encode each distinct value once."""
        codes, outside = (encode_words or self.encode_words)(values.dictionary)
        indices = values.indices
        null, limits = len(values.dictionary), pc.min_max(indices)
        least, most = limits["min"].as_py(), limits["max"].as_py()
        if least is not None and not 0 <= least <= most < null:
            # Arrow does not check the indices that it reads from a file.
            indices = pc.cast(indices, pa.int64(), safe=False)
            beyond = pc.or_(pc.less(indices, 0), pc.greater_equal(indices, null))
            indices = pc.if_else(beyond, null + 1, indices)
            codes, outside = np.append(codes, codes.dtype.type(0)), np.append(outside, True)
        if indices.null_count:
            indices = pc.fill_null(pc.cast(indices, pa.int64()), null)
        places = indices.to_numpy()
        found = outside[places] if outside.any() else np.zeros(len(places), bool)
        return lookup(codes, places), found

    def _encode_values(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        if self.null_words or arrow_values.is_text(values.type) or types.is_floating(values.type):
            values = pc.if_else(self._is_missing(values), None, values)
        codes, outside = self._required_domain.encode(self._respell(values))
        codes = codes.astype(self.code_type, copy=False)
        if values.null_count:
            nulls = pc.is_null(values).to_numpy(zero_copy_only=False)
            outside = outside & ~nulls if self.missing else outside | nulls
            codes = put(codes, nulls, self.size - 1)
        return put(codes, outside, 0) if outside.any() else codes, outside

    def _respell(self, values: pa.Array) -> pa.Array:
        return values if self.spelling is None else self.spelling.respell(values)

    def _is_missing(self, values: pa.Array) -> pa.Array:
        """Return a mask of the non-null values that mean a missing value."""
        kind = values.type
        if arrow_values.is_text(kind):
            trimmed = pc.utf8_trim_whitespace(values)
            return pc.is_in(trimmed, pa.array(("", *self.null_words), trimmed.type))
        words = self._respell(pa.array(self.null_words, pa.string()))
        if types.is_integer(kind):
            numbers, unread = arrow_values.integers(words)
            numbers = numbers if unread is None else numbers[~unread]
            held = np.iinfo(kind.to_pandas_dtype())
            numbers = numbers[(numbers >= held.min) & (numbers <= held.max)]
            return pc.is_in(values, pa.array(numbers, kind))
        if types.is_floating(kind) or types.is_decimal(kind):
            numbers, unread = arrow_values.numbers(words)
            numbers = numbers if unread is None else numbers[~unread]
            found = pc.cast(values, pa.float64(), safe=False)
            return pc.or_(pc.is_nan(found), pc.is_in(found, pa.array(numbers)))
        return pa.scalar(False)

    def decode(self, codes: np.ndarray) -> pa.Array:
        """Return the values of codes; categories of text as a dictionary array."""
        nulls = codes == self.size - 1 if self.missing else None
        return self._required_domain.decode(codes, nulls)

    def to_dict(self) -> dict[str, Any]:
        """Return the attribute as JSON values, for `from_dict`; without the private note."""
        table: dict[str, Any] = {"name": self.name, "role": self.role}
        if self.domain is not None:
            table |= domain_to_table(self.domain)
        if self.spelling is not None:
            table |= self.spelling.to_table()
        if self.missing:
            table["missing"] = list(self.null_words) or True
        if self.hierarchy is not None:
            table["hierarchy"] = self.hierarchy.spec()
        return table | {"from_data": True} if self.from_data else table

    def to_table(self) -> dict[str, Any]:
        """Return the attribute for a file that the owner edits, with the place to fill in."""
        if self.to_fill_in is None:
            return self.to_dict()
        return {"name": self.name, "role": self.to_fill_in, "type": FILL_IN}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Attribute:
        """Read an attribute from JSON values as `to_dict` writes them; everything is checked."""
        name = table.get("name")
        missing = read_missing(name, table.get("missing", False))
        identifier = table.get("role") == "identifier"
        return cls(
            name=cast(str, name),
            role=read_role(name, table),
            domain=None if identifier else read_domain(name, table),
            missing=missing is not False and not identifier,
            null_words=() if isinstance(missing, bool) or identifier else missing,
            from_data=read_flag(name, "from_data", table) and not identifier,
            hierarchy=_read_hierarchy(name, table),
            spelling=None if identifier else _read_spelling(name, table),
        )

    @property
    def _required_domain(self) -> Domain:
        if self.domain is None:
            raise SchemaError(f"{self} is an identifier: it has no domain and is never published.")
        if isinstance(self.domain, OpenCategory):
            raise SchemaError(
                f"{self} is an open category, whose values are not public: only Keys names them. "
                "The schema that a release of Keys closes serves every mechanism."
            )
        if isinstance(self.domain, UnlimitedNumber):
            raise SchemaError(self.how_to_limit())
        if isinstance(self.domain, ListDomain):
            raise SchemaError(self._advice(self.domain))
        return self.domain

    @property
    def limits_needed(self) -> bool:
        """Whether this is a number whose limits the owner has still to write or to buy."""
        return isinstance(self.domain, UnlimitedNumber)

    def how_to_limit(self) -> str:
        """Say what to write where limits are needed."""
        return f"{self} needs its limits. {LIMITS_NEEDED} {self.where_to_get_limits()}"

    def where_to_get_limits(self) -> str:
        """Say how to get limits that tell nothing of a person."""
        return (
            "Do not take the smallest and the largest amount of the table, which tell of single "
            "people. To choose them for a part of the budget: scumble schema limits TABLE "
            f"{self.name} --schema FILE --epsilon 0.1."
        )

    def _advice(self, domain: ListDomain) -> str:
        """Say how a list can be published."""
        several = f"{self} is a {domain.kind}, with several values per row"
        order = "" if domain.kind == "set" else f"first({self.name}), last({self.name}), "
        return (
            f"{several}: use a column that is derived from it: {order}"
            f"length({self.name}) or contains({self.name}, VALUE)."
        )


def _read_spelling(name: object, table: Mapping[str, Any]) -> Spelling | None:
    try:
        return Spelling.from_table(table.get("type"), table)
    except SchemaError as error:
        raise SchemaError(f"Attribute '{name}': {error}") from None


def _read_hierarchy(name: object, table: Mapping[str, Any]) -> Rule | None:
    if "hierarchy" not in table:
        return None
    try:
        return read_rule(table["hierarchy"])
    except SchemaError as error:
        sentence = str(error)
        raise SchemaError(f"Attribute '{name}': {sentence[0].lower()}{sentence[1:]}") from None


class WordCodes:
    """The codes of the dictionaries of a column that is read in batches (see `encode_words`).

    A dictionary that is equal to the last one is not encoded again.
    """

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._last: tuple[pa.Array, Coded] | None = None

    def __call__(self, words: pa.Array) -> Coded:
        if self._last is None or not words.equals(self._last[0]):
            self._last = words, self._attribute.encode_words(words)
        return self._last[1]

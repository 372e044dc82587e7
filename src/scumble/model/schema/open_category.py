"""OpenCategory: texts that nobody can list in advance, such as search queries or web addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.schema import arrow_values
from scumble.model.schema.names import control_character


@dataclass(frozen=True)
class OpenCategory:
    """A category whose values are not public: `open = true` in a schema. It has no codes.

    >>> OpenCategory().read(pa.array([" red shoes", None, "", "-"]), ("-",))[0].to_pylist()
    ['red shoes', None, None, None]
    """

    kind: ClassVar[str] = "category"

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of published values."""
        return pa.string()

    def describe(self) -> str:
        """Describe the domain in a few words."""
        return "open category"

    def read(
        self, values: pa.Array, null_words: tuple[str, ...] = ()
    ) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """Return the values as texts without white space around them, and a mask of values that
        cannot be published: no texts or numbers, not UTF-8, or with control characters.

        These, empty texts and `null_words` become null. How a value is read does not depend on
        other values.
        """
        values = arrow_values.unwrap(values)
        if not isinstance(values, pa.DictionaryArray):
            values = pc.dictionary_encode(values)
        words, wrong = _words(values.dictionary)
        found: pa.Array = words.take(values.indices)
        places = values.indices.fill_null(len(words)).to_numpy()
        missing = pa.array(["", *null_words], found.type)
        return pc.if_else(pc.is_in(found, missing), None, found), np.append(wrong, False)[places]


def _words(values: pa.Array) -> tuple[pa.Array, Any]:
    """Return distinct values as texts, and a mask of those that cannot be published."""
    filled = values.is_valid().to_numpy(zero_copy_only=False)
    decoded, _ = arrow_values.decode_text(values)
    text, unread = arrow_values.texts(decoded)
    text = pc.cast(pc.utf8_trim_whitespace(text), pa.string())
    marked = [word is not None and bool(control_character(word)) for word in text.to_pylist()]
    wrong = np.array(marked, bool) | (filled & ~text.is_valid().to_numpy(zero_copy_only=False))
    if unread is not None:
        wrong |= unread & filled
    return (pc.if_else(pa.array(wrong), None, text) if wrong.any() else text), wrong

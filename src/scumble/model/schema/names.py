"""Characters of names and values: control characters are refused, look-alikes are pointed out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from scumble.model.stored import CONTROL

# Letters of other alphabets that look like Latin ones.
_LATIN = str.maketrans(
    "авекмнорстухіјѕԁԛԝүһаαβεηικνορτυχϲӏ",
    "abekmhopctyxijsdqwyhaabenikvoptuxcl",
)


def control_character(text: str) -> str:
    """Return the first control character or bidirectional mark of a text as U+001B, or nothing."""
    found = CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


def skeleton(text: str) -> str:
    """Return a text in which characters that look alike are the same."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_LATIN)
    return "".join(each for each in plain if unicodedata.category(each) != "Cf")  # zero width


def look_alikes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different names that look alike."""
    seen: dict[str, str] = {}
    pairs = []
    for name in names:
        first = seen.setdefault(skeleton(name), name)
        if first != name and first.casefold() != name.casefold():
            pairs.append((first, name))
    return pairs

"""Sets of tuples as sorted keys: without repeats, and which of them another set has."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scumble.model.dialect import named, setting
from scumble.model.errors import PromiseError
from scumble.model.schema.cell_keys import Radix
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import Keys, in_order

Mask = npt.NDArray[np.bool_]
Duplicates = Literal["error", "collapse"]


def distinct(keys: Keys) -> Keys:
    """The keys in order, each once."""
    ordered = in_order(keys)
    return ordered[_firsts(ordered)]


def among(keys: Keys, others: Keys) -> Mask:
    """Which of the keys are among the others; both in order, each once."""
    found = np.zeros(len(keys), bool)
    if keys.ndim == 1:
        places = np.searchsorted(keys, others)
        inside = places < len(keys)
        places = places[inside]
        found[places[keys[places] == others[inside]]] = True
        return found
    # Hardly any key shares its first word with the others: only those are compared as a whole.
    rows = np.flatnonzero(np.isin(keys[:, 0], others[:, 0]))
    joined = np.concatenate([keys[rows], others])
    order = np.lexsort(joined.T[::-1])
    same = ~_firsts(joined[order])[1:]
    pairs = np.minimum(order[:-1][same], order[1:][same])
    found[rows[pairs]] = True
    return found


def true_tuples(rows: Rows, duplicates: Duplicates, multiplicity: int) -> Keys:
    """The table as a set of tuples over its published columns and, beyond a multiplicity of 1, the
    number of a tuple among its equals.
    """
    attributes = rows.schema.published
    names = [attribute.name for attribute in attributes]
    plain = rows.schema.radix(names)
    none = plain.pack([np.empty(0, attribute.code_type) for attribute in attributes])
    keys = in_order(np.concatenate([none, *map(plain.pack, rows.batches(names))]))
    firsts = _firsts(keys)
    if multiplicity > 1:
        numbered = Radix([*plain.sizes, multiplicity])
        return numbered.pack([*plain.unpack(keys), _occurrences(firsts, multiplicity)])
    if firsts.all():
        return keys
    if duplicates == "error":
        raise PromiseError(
            "Some rows of the table are equal, and AlphaBeta publishes a set. Choose "
            f"{setting('duplicates', 'collapse')} to count equal rows once, or give a "
            f"{named('multiplicity')} to tell so many equal rows apart."
        )
    times = f" ({int(np.count_nonzero(~firsts))} rows)" if rows.reveal else ""
    rows.remark(f"Equal rows were made one{times}: the release counts different rows.")
    return keys[firsts]


def _occurrences(firsts: Mask, multiplicity: int) -> npt.NDArray[Any]:
    """The number of each key among its equals, from 0 on; given where new keys begin."""
    places = np.arange(len(firsts))
    numbers = places - np.maximum.accumulate(np.where(firsts, places, 0))
    if numbers.max(initial=0) >= multiplicity:
        raise PromiseError(
            f"Some row of the table occurs more than {multiplicity} times, which "
            f"{setting('multiplicity', multiplicity)} does not allow. Give a larger one."
        )
    return numbers.astype(np.uint64)


def _firsts(ordered: Keys) -> Mask:
    """Where a key differs from the one before it."""
    first = np.ones(len(ordered), bool)
    differs = ordered[1:] != ordered[:-1]
    first[1:] = differs if ordered.ndim == 1 else differs.any(axis=1)
    return first

"""Pieces of units of work: codes regrouped so that noise does not depend on how they were read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

PIECE = 1 << 18  # rows of a piece of a unit; a change would change what a fixed seed publishes


def unit_pieces(
    batches: Iterator[tuple[int, pa.Array, list[np.ndarray]]],
) -> Iterator[tuple[int, pa.Array, list[np.ndarray]]]:
    """Regroup the rows of every unit of work into pieces of exactly `PIECE` rows; the last piece of
    a unit may be shorter.

    Then the pieces follow from the codes alone, however the rows were read, and so does the noise
    that is drawn piece by piece from the stream of the unit.
    """
    waiting: list[tuple[pa.Array, list[np.ndarray]]] = []
    number, missing = -1, PIECE
    for unit, people, codes in batches:
        if unit != number:
            if waiting:
                yield number, *_joined(waiting)
            waiting, number, missing = [], unit, PIECE
        begin, size = 0, len(codes[0])
        while begin < size:
            end = min(size, begin + missing)
            part = slice(begin, end)
            waiting.append((people[part], [column[part] for column in codes]))
            missing -= end - begin
            begin = end
            if not missing:
                yield number, *_joined(waiting)
                waiting, missing = [], PIECE
    if waiting:
        yield number, *_joined(waiting)


def _joined(
    parts: list[tuple[pa.Array, list[np.ndarray]]],
) -> tuple[pa.Array, list[np.ndarray]]:
    if len(parts) == 1:
        return parts[0]
    people = pa.concat_arrays([people for people, _ in parts])
    return people, [np.concatenate(each) for each in zip(*(c for _, c in parts), strict=True)]

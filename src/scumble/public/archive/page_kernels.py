"""Numba loops that read the pages of a Parquet file, compiled on first use.

A file may be damaged or forged: every place is checked before it is read or written, and what is
not as expected ends a loop with a number below 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any

# Numbers of a page: its first byte, its kind, its bytes after decompression and in the file, the
# values in it, and their encoding.
PLACE, KIND, SIZE, STORED, VALUES, ENCODING = range(6)
FIELDS = 6
# Kinds of values in the compact protocol of Thrift that page headers have.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _RECORD = 1, 2, 3, 7, 8, 12
_LEAST_INTEGER, _MOST_INTEGER = 4, 6
_PAGE_RECORDS = (5, 7)  # the fields of a page header that say what is in a page of version 1
_DEEPEST = 4
_LARGEST_HEADER = 1 << 32  # of a run
MOST_BITS = 16  # of an index into a dictionary


@kernel
def read_varint(data: Array, at: int) -> tuple[int, int]:
    """Return a number of seven bits in each byte, and the place after it; -1 if there is none."""
    number = shift = 0
    while at < len(data) and shift <= 56:
        byte = int(data[at])
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    return -1, at


@kernel
def list_pages(data: Array, found: Array) -> int:
    """Write the numbers of the pages of a column into `found`, one row for each; return how many
    there are, or -1 if that is not what `data` is.
    """
    at = pages = 0
    while at < len(data):
        if pages == len(found):
            return -1
        page = found[pages]
        at = _read_header(data, at, page)
        if at < 0 or not 0 <= page[STORED] <= len(data) - at:
            return -1
        page[PLACE] = at
        at += page[STORED]
        pages += 1
    return pages


@kernel
def _read_header(data: Array, at: int, found: Array) -> int:
    """Write the numbers of the page whose header begins at a place; return where the page does."""
    last = np.zeros(_DEEPEST, np.int64)  # the number of the last field, by depth
    depth = 0
    found[:] = -1
    while 0 <= at < len(data):
        head = int(data[at])
        at += 1
        if not head:
            if not depth:
                return at
            depth -= 1
            continue
        kind, step = head & 15, head >> 4
        if not step:
            step, at = read_varint(data, at)
            step = (step >> 1) - last[depth]  # the number itself, which is not below 0
        last[depth] += step
        if kind == _RECORD:
            depth += 1
            if depth == _DEEPEST:
                return -1
            last[depth] = 0
        else:
            at = _read_field(data, at, kind, last[: depth + 1], found)
    return -1


@kernel
def _read_field(data: Array, at: int, kind: int, fields: Array, found: Array) -> int:
    """Read the value of a field, given by the numbers of the records around it and its own; return
    the place after it, or -1.
    """
    if _LEAST_INTEGER <= kind <= _MOST_INTEGER:
        number, at = read_varint(data, at)
        number = (number >> 1) ^ -(number & 1)
        if len(fields) == 1 and 1 <= fields[0] <= 3:
            found[KIND + fields[0] - 1] = number  # or SIZE, or STORED
        elif len(fields) == 2 and fields[0] in _PAGE_RECORDS and 1 <= fields[1] <= 2:
            found[VALUES + fields[1] - 1] = number  # or ENCODING
        return at
    if kind == _BINARY:
        length, at = read_varint(data, at)
        return at + length if 0 <= length <= len(data) - at else -1
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    return at if kind in (_TRUE, _FALSE) else -1


@kernel
def decode_page(data: Array, optional: bool, codes: Array, size: int, out: Array) -> bool:
    """Fill `out` with the codes of the dictionary indices of a page; return whether that is what
    the page has. If values are `optional`, it must say that none is missing.

    `codes` has a code for every index of `MOST_BITS` bits, of which the first `size` are valid.
    """
    at = _skip_levels(data, len(out)) if optional else 0
    if not 0 <= at < len(data) or data[at] > MOST_BITS:
        return False
    width = int(data[at])
    return _decode_indices(data, at + 1, width, codes, size, out)


@kernel
def _skip_levels(data: Array, rows: int) -> int:
    """Return the place after the levels of a page, if they say in one run that each of its rows has
    a value; else -1.
    """
    if len(data) < 4:
        return -1
    end = 4
    for byte in range(4):
        end += int(data[byte]) << (8 * byte)
    header, at = read_varint(data, 4)
    return end if header == 2 * rows and at + 1 == end and at < len(data) and data[at] == 1 else -1


@kernel
def _decode_indices(data: Array, at: int, width: int, codes: Array, size: int, out: Array) -> bool:
    """Fill `out` with the codes of indices of `width` bits; return whether there were as many.

    They are stored from `at` on, as runs of equal ones and as groups of eight.
    """
    done = 0
    while done < len(out):
        header, at = read_varint(data, at)
        if not 2 <= header <= _LARGEST_HEADER:
            return False
        if header & 1:
            count = min(8 * (header >> 1), len(out) - done)
            stored = (header >> 1) * width
            if stored > len(data) - at:
                return False
            if _unpack(data[at : at + stored], width, codes, out[done : done + count]) >= size:
                return False
            at += stored
        else:
            count, index = header >> 1, 0
            if count > len(out) - done or (width + 7) // 8 > len(data) - at:
                return False
            for byte in range((width + 7) // 8):
                index |= int(data[at + byte]) << (8 * byte)
            if index >= size:
                return False
            out[done : done + count] = codes[index]
            at += (width + 7) // 8
        done += count
    return True


@kernel
def _unpack(data: Array, width: int, codes: Array, out: Array) -> int:
    """Write the codes of indices of `width` bits each; return the largest index."""
    mask = np.uint64((1 << width) - 1)
    bits, largest = np.uint64(width), np.uint64(0)
    whole = len(out) // 8 if width <= 8 else 0
    for group in range(whole):  # eight indices fit in one word
        word = np.uint64(0)
        for byte in range(width):
            word |= np.uint64(data[group * width + byte]) << np.uint64(8 * byte)
        for place in range(8):
            index = word & mask
            largest = max(largest, index)
            out[8 * group + place] = codes[index]
            word >>= bits
    at, held, word = whole * width, np.uint64(0), np.uint64(0)
    for place in range(8 * whole, len(out)):
        while held < bits:
            word |= np.uint64(data[at]) << held
            held += np.uint64(8)
            at += 1
        index = word & mask
        largest = max(largest, index)
        out[place] = codes[index]
        word >>= bits
        held -= bits
    return int(largest)

"""Inner loops of the samplers, compiled by numba at the first call.

Each function reads words of the keystream and writes results. Where 16 or 64 bits do not decide a
row, it lists the row as pending. No function uses floating point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any


@kernel
def high_word(left: Any, right: Any) -> Any:
    """Return the upper 64 bits of the product of two words, by products of their halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    left_high, left_low = left >> half, left & mask
    right_high, right_low = right >> half, right & mask
    middle = left_high * right_low + ((left_low * right_low) >> half)
    carry = left_low * right_high + (middle & mask)
    return left_high * right_high + (middle >> half) + (carry >> half)


@kernel
def ones_of(word: Any) -> Any:
    """Return the number of set bits of a word, by adding neighbours in parallel."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    twos = np.uint64(0x3333333333333333)
    word = (word & twos) + ((word >> np.uint64(2)) & twos)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel
def count_ones(words: Array, counts: Array, ones: Array, row: int, left: int) -> tuple[int, int]:
    """Add to `ones[row]` the set bits among the next `counts[row]` bits, each row beginning at a
    new word. `row` still needs `left` bits. Returns both for the next call.
    """
    for word in words:
        while left == 0:
            row += 1
            left = counts[row]
        take = min(left, 64)
        ones[row] += ones_of(word >> np.uint64(64 - take))
        left -= take
    return row, left


@kernel
def least_places(numbers: Array, words: Array, starts: Array, places: Array) -> None:
    """Write to `places` the place of the least number of each list; list k begins at `starts[k]`.
    Ties go to the largest word without its last bit, and of equal words to the first.
    """
    one = np.uint64(1)
    for row in range(len(starts)):
        end = starts[row + 1] if row + 1 < len(starts) else len(numbers)
        best = starts[row]
        for place in range(best + 1, end):
            if numbers[place] > numbers[best]:
                continue
            if numbers[place] < numbers[best] or words[place] >> one > words[best] >> one:
                best = place
        places[row] = best


# --- draws from a pool ---------------------------------------------------------------------------
# Each loop reads `blocks` prefixes of 16 bits for a row, four from a word and a new word for every
# row. A prefix gives the outcome of several draws together, or makes the row pending.


@kernel
def count_members_packed(
    words: Array, blocks: int, table: Array, packed: Array, open_: int, out: Array, rows: Array
) -> int:
    """Add outcomes as 16 counters of one byte in two words; return the number of pending prefixes.

    A word is four prefixes, whose lookups do not wait for each other.
    """
    mask, width = np.uint64(0xFFFF), np.uint64(16)
    quads, rest = blocks // 4, blocks % 4
    count = place = 0
    for row in range(len(out)):
        low, high = out[row, 0], out[row, 1]
        for _ in range(quads):
            word = words[place]
            place += 1
            one, two = table[word & mask], table[(word >> width) & mask]
            three = table[(word >> (width + width)) & mask]
            four = table[word >> (width + width + width)]
            low += packed[one, 0] + packed[two, 0] + packed[three, 0] + packed[four, 0]
            high += packed[one, 1] + packed[two, 1] + packed[three, 1] + packed[four, 1]
            if (one == open_) | (two == open_) | (three == open_) | (four == open_):
                for outcome in (one, two, three, four):
                    if outcome == open_:
                        rows[count] = row
                        count += 1
        if rest:
            word = words[place]
            place += 1
            for _ in range(rest):
                outcome = table[word & mask]
                word >>= width
                low += packed[outcome, 0]
                high += packed[outcome, 1]
                if outcome == open_:
                    rows[count] = row
                    count += 1
        out[row, 0], out[row, 1] = low, high
    return count


@kernel
def count_members(
    words: Array, blocks: int, table: Array, members: Array, open_: int, out: Array, rows: Array
) -> int:
    """Count the members of outcomes, one counter for each value; return the number of pending
    prefixes.
    """
    mask, width = np.uint64(0xFFFF), np.uint64(16)
    count = place = 0
    for row in range(len(out)):
        word = np.uint64(0)
        for block in range(blocks):
            if block % 4 == 0:
                word = words[place]
                place += 1
            outcome = table[word & mask]
            word >>= width
            if outcome == open_:
                rows[count] = row
                count += 1
            else:
                for member in range(members.shape[1]):
                    out[row, members[outcome, member]] += 1
    return count


@kernel
def count_members_in_rows(outcomes: Array, members: Array, rows: Array, out: Array) -> None:
    """Count the members of each outcome in its row of `out`."""
    for place in range(len(rows)):
        for member in range(members.shape[1]):
            out[rows[place], members[outcomes[place], member]] += 1


# --- permutations --------------------------------------------------------------------------------


@kernel
def uniform_below(words: Array, place: int, bound: Any) -> Any:
    """Return a uniform integer below `bound` (uint64) from the words from `place` on, and the place
    after them, or -1 if there are too few words.

    Lemire's method, as in `integers`; the rejection limit is computed only if it may be needed.
    """
    while place < len(words):
        word = words[place]
        place += 1
        low = word * bound
        if low >= bound or low >= (np.uint64(0) - bound) % bound:
            return high_word(word, bound), place
    return np.uint64(0), -1


@kernel
def fisher_yates(words: Array, items: Array, starts: Array, part: int, row: int) -> tuple[int, int]:
    """Shuffle each part by Fisher and Yates, forwards, beginning at `row` of `part`, until the
    words are used up. Returns the part and row at which to continue.
    """
    place = 0
    while part < len(starts) - 1:
        start = starts[part]
        while row < starts[part + 1]:
            offset, place = uniform_below(words, place, np.uint64(row - start + 1))
            if place < 0:
                return part, row
            other = start + np.int64(offset)
            items[row], items[other] = items[other], items[row]
            row += 1
        part += 1
    return part, row


# --- uniform subsets -----------------------------------------------------------------------------


@kernel
def choose_subsets(
    words: Array,
    codes: Array,
    held: Array,
    refuse: Array,
    last_seen: Array,
    stamp: int,
    out: Array,
    rows: Array,
) -> int:
    """Draw one set for each of `rows`; move the rows with a rejected draw to the front of `rows`
    and return their number.

    Values other than a row's own are numbered without a gap. `last_seen` tells by its stamp whether
    a number is in the set already. Step j of Floyd's algorithm takes a number up to j, or j itself
    if that number is in the set.
    """
    size = out.shape[1]
    others = len(refuse) - 1
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    count = 0
    for index in range(len(rows)):
        row = rows[index]
        own = np.int64(codes[row])
        number = size - 1 if held[row] else size
        good = True
        for place in range(number):
            top = others - number + place
            product = np.uint64(words[index * size + place]) * np.uint64(top + 1)
            good = good and (product & mask) >= refuse[top]
            drawn = np.int64(product >> half)
            if last_seen[drawn] == stamp + index:
                drawn = top
            last_seen[drawn] = stamp + index
            out[row, place] = drawn + (drawn >= own)
        if held[row]:
            out[row, number] = own
        if not good:
            rows[count] = row
            count += 1
    return count


# --- urns ----------------------------------------------------------------------------------------


@kernel
def draw_balls(
    urns: Array, words: Array, starts: Array, balls: Array, left: Array, out: Array
) -> int:
    """Draw one ball for each row; return the number of rows for which the words sufficed, or -1 at
    an empty urn.

    The high word of word * bound is the number of the ball. A low word below 2**64 mod bound is
    rejected, which gives every ball exactly the same probability (Lemire, 2019).
    """
    used = 0
    for row in range(len(urns)):
        urn = urns[row]
        bound = np.uint64(left[urn])
        if left[urn] == 0:
            return -1
        compartment = starts[urn]
        if compartment + 1 < starts[urn + 1]:
            refuse = (~bound + np.uint64(1)) % bound
            while used < len(words) and words[used] * bound < refuse:
                used += 1
            if used == len(words):
                return row
            ball = np.int64(high_word(words[used], bound))
            used += 1
            while ball >= balls[compartment]:
                ball -= balls[compartment]
                compartment += 1
        balls[compartment] -= 1
        left[urn] -= 1
        out[row] = compartment
    return len(urns)

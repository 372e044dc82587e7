"""The samplers once more in plain Python integers, for comparison bit by bit."""

from __future__ import annotations

from typing import Any

MASK = (1 << 64) - 1


def lookup(prefixes: list[int], table: list[int], ambiguous: int) -> tuple[list[int], list[int]]:
    out = [table[prefix] for prefix in prefixes]
    return out, [row for row, outcome in enumerate(out) if outcome == ambiguous]


def replace(
    codes: list[int], prefixes: list[int], table: list[int], keep: int
) -> tuple[list[int], list[int]]:
    entries = [table[prefix] for prefix in prefixes]
    out = [entry if entry < keep else code for code, entry in zip(codes, entries, strict=True)]
    return out, [row for row, entry in enumerate(entries) if entry == keep + 1]


def scale(words: list[int], bound: int) -> tuple[dict[int, int], list[int]]:
    products = [word * bound for word in words]
    refused = {row for row, product in enumerate(products) if product & MASK < (1 << 64) % bound}
    kept = {row: product >> 64 for row, product in enumerate(products) if row not in refused}
    return kept, sorted(refused)


def count_ones(words: list[int], counts: list[int]) -> list[int]:
    stream = iter(words)
    result = []
    for count in counts:
        total = 0
        while count > 0:
            take = min(count, 64)
            total += (next(stream) >> (64 - take)).bit_count()
            count -= take
        result.append(total)
    return result


def accept(
    words: list[int], proposed: list[int], slope: int, shift: int, offset: int, table: Any
) -> tuple[list[bool], list[int]]:
    answers, pending = [], []
    for row, (word, value) in enumerate(zip(words, proposed, strict=True)):
        root = abs(((abs(value) * slope) >> shift) - offset)
        chance = 0
        if root < 8 << 56 and (abs(value) * slope) >> shift <= MASK:
            gamma = root * root >> 64
            chance = 1 << 63
            for place in range(7):
                chance = (chance * int(table[place][gamma >> 8 * place & 255]) >> 64) << 1
        answers.append((word >> 1) + (1 << 18) < chance)
        if chance - (1 << 18) <= word >> 1 < chance + (1 << 18):
            pending.append(row)
    return answers, pending

"""Powers of e enclosed between whole numbers, to any precision: every irrational threshold comes
from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

Enclosure = tuple[int, int]


def exponential(exponent: Fraction, precision: int) -> Enclosure:
    """Whole numbers `(low, high)` with low <= exp(-exponent) * 2**precision <= high."""
    if exponent == 0:
        return 1 << precision, 1 << precision
    if exponent > precision:  # exp(-precision) < 2**-precision
        return 0, 1
    halvings = max(0, (exponent.numerator // exponent.denominator).bit_length() + 1)
    bits = precision + halvings + 16
    low, high = _series((exponent.numerator << bits) // (exponent.denominator << halvings), bits)
    for _ in range(halvings):
        low, high = (low * low) >> bits, _shift_up(high * high, bits)
    return low >> (bits - precision), _shift_up(high, bits - precision)


def _series(argument: int, bits: int) -> Enclosure:
    """Enclose exp(-t) * 2**bits for t in [argument, argument + 1) / 2**bits, t <= 1/2.

    A term is rounded down twice, by less than 2 units in all; what it inherits from the term before
    is at most half of that one's error; so each is off by less than 4 units. The tail of an
    alternating series is less than its first term, and moving t by one unit moves exp(-t) by less
    than one.
    """
    total = term = 1 << bits
    count = 0
    while term:
        count += 1
        term = ((term * argument) >> bits) // count
        total += -term if count % 2 else term
    slack = 4 * count + 8
    return total - slack, total + slack


def powers(base: Enclosure, count: int, precision: int) -> list[Enclosure]:
    """Enclosures of the powers 0 to `count` of a number in [0, 1]."""
    result = [(1 << precision, 1 << precision)]
    for _ in range(count):
        low, high = result[-1]
        result.append(((low * base[0]) >> precision, _shift_up(high * base[1], precision)))
    return result


def quotient(above: Enclosure, below: Enclosure, precision: int) -> Enclosure:
    """Enclose the quotient of two numbers above 0 whose quotient is at most 1."""
    high = -((-above[1] << precision) // below[0]) if below[0] > 0 else 1 << precision
    return (max(above[0], 0) << precision) // below[1], high


def floors(enclose: Callable[[int], Sequence[Enclosure]], bits: int) -> list[int]:
    """The exact floors of x * 2**bits for irrational numbers x strictly between 0 and 1.

    `enclose(precision)` encloses each x * 2**precision. Precision doubles until both ends agree,
    which happens for every irrational number; the ends are clamped by what is known of x from the
    start, so that a number within 2**-bits of 1 needs no extra precision.
    """
    precision, top = 2 * bits + 64, (1 << bits) - 1
    while True:
        shift = precision - bits
        ends = [(max(low, 0) >> shift, min(high >> shift, top)) for low, high in enclose(precision)]
        if all(low == high for low, high in ends):
            return [low for low, _ in ends]
        precision *= 2


def _shift_up(value: int, bits: int) -> int:
    return -(-value >> bits)

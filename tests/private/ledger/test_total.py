"""Adding up: exactly, and against the exact δ of releases whose loss has a known law."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import pytest
from scipy import integrate
from scipy.special import ndtr

from scumble.model.privacy.accounting import PrivacyLoss, rho_for
from scumble.private.ledger.terms import Limit, Total, group_loss

TENTH = Fraction(1, 10)
LIMITS = [
    (Fraction(1), Fraction(1, 10**9)),
    (Fraction(1), Fraction(1, 1000)),
    (Fraction(1, 10), Fraction(1, 10**6)),
    (Fraction(3), Fraction(1, 100)),
]


def pure(*losses: Fraction | float) -> Total:
    return Total(tuple(PrivacyLoss(Fraction(str(loss))) for loss in losses))


def beyond(loss: PrivacyLoss, epsilon: float) -> float:
    """The exact δ at ε of the worst release with this loss: an answer that is true with odds e^ε,
    or Gaussian noise. ε may be negative.
    """
    if loss.pure:
        size = float(loss.epsilon)
        likely = 1 / (1 + math.exp(-size))
        outcomes = ((likely, size), (1 - likely, -size))
        return sum(p * max(0.0, -math.expm1(epsilon - each)) for p, each in outcomes)
    rho = float(loss.rho)
    spread = math.sqrt(2 * rho)
    above = ndtr((rho - epsilon) / spread)
    return float(above - math.exp(epsilon) * ndtr(-(epsilon + rho) / spread))


def after(first: PrivacyLoss, then, epsilon: float) -> float:
    """The exact δ of a first release and one that `then` chooses by the loss that the first had."""
    if first.pure:
        size = float(first.epsilon)
        likely = 1 / (1 + math.exp(-size))
        outcomes = ((likely, size), (1 - likely, -size))
        return sum(p * beyond(then(each), epsilon - each) for p, each in outcomes)
    mean, spread = float(first.rho), math.sqrt(2 * float(first.rho))
    places = [mean + spread * k / 2 for k in range(-20, 21)]

    def part(loss: float) -> float:
        density = math.exp(-(((loss - mean) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        return density * beyond(then(loss), epsilon - loss)

    return sum(integrate.quad(part, a, b)[0] for a, b in pairwise(places))


def test_pure_losses_add_exactly() -> None:
    total = pure(*["0.1"] * 10)
    assert total.epsilon == 1
    assert Limit(Fraction(1)).allows(total)
    assert not Limit(Fraction(1)).allows(total.plus(PrivacyLoss(Fraction(1, 10**30))))
    assert Limit(Fraction(1)).left_epsilon(pure("0.3")) == Fraction(7, 10)


def test_concentrated_losses_add_exactly() -> None:
    total = Total((PrivacyLoss(rho=TENTH), PrivacyLoss(rho=TENTH / 3), PrivacyLoss(TENTH)))
    assert total.rho == TENTH + TENTH / 3
    assert total.as_rho == total.rho + TENTH**2 / 2
    assert not total.pure


def test_steps_to_a_neighbour_further_off() -> None:
    assert group_loss(PrivacyLoss(TENTH), 3) == PrivacyLoss(3 * TENTH)
    assert group_loss(PrivacyLoss(rho=TENTH), 3) == PrivacyLoss(rho=9 * TENTH)


def test_many_small_losses_are_less_than_their_sum() -> None:
    many = pure(*["0.01"] * 1000)
    assert many.at(Fraction(1, 10**6)) < 2 < many.epsilon == 10
    few = pure("0.5", "0.5")
    assert few.at(Fraction(1, 10**6)) == few.epsilon == 1


def test_mixed_totals_take_the_better_way() -> None:
    delta = Fraction(1, 10**9)
    gaussian = PrivacyLoss(rho=rho_for(Fraction(1, 2), delta))
    mixed = pure("0.5").plus(gaussian)
    assert mixed.at(delta) == 1
    assert Total((gaussian, gaussian)).at(delta) < Fraction(3, 4)


def test_without_delta_nothing_but_pure_losses_is_allowed() -> None:
    limit = Limit(Fraction(10))
    assert not limit.allows(Total((PrivacyLoss(rho=Fraction(1, 10**9)),)))
    assert limit.left_rho(Total()) == limit.left_gaussian(Total()) == 0


def test_a_limit_has_room_for_what_it_is_named_after(subtests: pytest.Subtests) -> None:
    for epsilon, delta in LIMITS:
        with subtests.test(epsilon=epsilon):
            limit = Limit(epsilon, delta)
            one = Total((PrivacyLoss(rho=rho_for(epsilon, delta)),))
            assert limit.allows(one)
            assert limit.used(one) == epsilon
            assert limit.left_gaussian(Total()) == epsilon
            assert limit.allows(Total((PrivacyLoss(epsilon),)))
            assert not limit.allows(one.plus(PrivacyLoss(rho=rho_for(epsilon / 10, delta))))


def test_what_is_left_fits_and_no_more(subtests: pytest.Subtests) -> None:
    for epsilon, delta in LIMITS:
        with subtests.test(epsilon=epsilon):
            limit = Limit(epsilon, delta)
            for total in (
                Total(),
                pure(epsilon / 5),
                Total((PrivacyLoss(rho=limit.left_rho(Total()) / 3),)),
            ):
                largest, rho = limit.left_epsilon(total), limit.left_rho(total)
                assert limit.allows(total.plus(PrivacyLoss(largest)))
                assert not limit.allows(total.plus(PrivacyLoss(largest * Fraction(1001, 1000))))
                assert limit.allows(total.plus(PrivacyLoss(rho=rho)))
                assert not limit.allows(total.plus(PrivacyLoss(rho=rho * Fraction(1001, 1000))))
                named = rho_for(limit.left_gaussian(total), delta)
                assert Fraction(999, 1000) * rho < named <= rho


def test_a_part_kept_for_pure_releases() -> None:
    delta = Fraction(1, 10**9)
    half = Limit(Fraction(1), delta, Fraction(1, 2))
    gaussian = PrivacyLoss(rho=rho_for(Fraction(1, 2), delta))
    assert half.allows(pure("0.5").plus(gaussian))
    assert not Limit(Fraction(1), delta).allows(pure("0.5").plus(gaussian))
    assert not half.allows(Total((PrivacyLoss(rho=rho_for(Fraction(1), delta)),)))


def test_no_choice_after_looking_breaks_a_limit(subtests: pytest.Subtests) -> None:
    """The exact δ of two releases, the second of the kind and size that a spiteful owner chooses
    when the loss of the first is known, is at most that of the limit.
    """
    for limit, share in product(LIMITS, (0.1, 0.5, 0.9)):
        with subtests.test(limit=limit, share=share):
            found = Limit(*limit)
            epsilon = float(found.epsilon)
            firsts = [
                PrivacyLoss(found.left_epsilon(Total()) * Fraction(share)),
                PrivacyLoss(rho=found.left_rho(Total()) * Fraction(share)),
            ]
            for first in firsts:
                total = Total((first,))
                rest = [
                    PrivacyLoss(left) if kind else PrivacyLoss(rho=left)
                    for kind, left in ((1, found.left_epsilon(total)), (0, found.left_rho(total)))
                    if left
                ]

                def worst(loss: float, rest=rest, epsilon=epsilon) -> PrivacyLoss:
                    return max(rest, key=lambda each: beyond(each, epsilon - loss))

                spent = after(first, worst, epsilon)
                assert spent <= float(found.delta)


DELTAS = [*(1 - Fraction(1, 10**k) for k in (3, 6, 9, 12)), Fraction(1, 10**9)]


def test_the_room_is_right_at_orders_close_to_one_and_large(subtests: pytest.Subtests) -> None:
    """A careless formula cancels there; by decimals."""
    for epsilon in [Fraction(1), Fraction(1, 10**9)]:
        for delta in DELTAS:
            with subtests.test(epsilon=epsilon, delta=delta):
                limit = Limit(epsilon, delta)
                assert limit.capacity <= epsilon + beyond_by_decimals(limit.order - 1, delta)


def beyond_by_decimals(more: Fraction, delta: Fraction) -> Fraction:
    """(ln δ - ln c)/(α - 1) for the order α = 1 + `more`."""
    with localcontext() as context:
        context.prec = 80
        m, share = (Decimal(each.numerator) / each.denominator for each in (more, delta))
        return Fraction((share.ln() - m * m.ln() + (1 + m) * (1 + m).ln()) / m)

"""Normal noise in an owner's ledger: its own exact curve, and nothing else beside it."""

from __future__ import annotations

from fractions import Fraction

import pytest

import scumble as sc
from scumble.model.privacy.accounting import PrivacyLoss, normal_rho_for, rho_for
from scumble.private.ledger.cost import Bill
from scumble.private.ledger.terms import Limit, Total, group_loss
from tests.support.people import people, schema

DELTA = Fraction(1, 10**9)
HALF = PrivacyLoss(rho=normal_rho_for(1, DELTA) / 2, normal=True)


def test_two_halves_are_a_whole() -> None:
    limit, total = Limit(Fraction(1), DELTA), Total((HALF, HALF))
    assert limit.allows(total)
    assert not limit.allows(total.plus(PrivacyLoss(rho=Fraction(1, 10**9), normal=True)))
    assert limit.left_rho(Total((HALF,))) == HALF.rho
    assert float(limit.used(total)) == pytest.approx(1, abs=1e-9)
    assert limit.used(total) <= 1
    assert Total((HALF, HALF)).at(DELTA) == pytest.approx(1, abs=1e-9)


def test_what_is_left_fits_exactly() -> None:
    limit, total = Limit(Fraction(1), DELTA), Total((HALF,))
    rest = normal_rho_for(limit.left_gaussian(total), DELTA)
    assert limit.allows(total.plus(PrivacyLoss(rho=rest, normal=True)))
    assert float(rest) == pytest.approx(float(HALF.rho), rel=1e-6)


def test_an_account_that_begins_with_normal_noise_takes_nothing_else() -> None:
    limit, small = Limit(Fraction(1), DELTA), Fraction(1, 10**6)
    for other in (PrivacyLoss(small), PrivacyLoss(rho=small), PrivacyLoss(small, delta=small)):
        assert not limit.allows(Total((HALF, other)))
    assert limit.left_epsilon(Total((HALF,))) == 0


def test_other_accounts_count_normal_noise_as_rho() -> None:
    """Also those that keep a part for pure releases, however they begin."""
    whole = PrivacyLoss(rho=normal_rho_for(1, DELTA), normal=True)
    pure = PrivacyLoss(Fraction(1, 100))
    assert Limit(Fraction(1), DELTA).allows(Total((whole,)))
    assert not Limit(Fraction(1), DELTA).allows(Total((pure, whole)))
    kept = Limit(Fraction(1), DELTA, Fraction(1, 10))
    assert not kept.allows(Total((whole,)))
    part = PrivacyLoss(rho=rho_for(Fraction(1, 2), DELTA), normal=True)
    assert kept.allows(Total((part, pure)))


def test_steps_and_entries_keep_the_mark() -> None:
    assert group_loss(HALF, 3) == PrivacyLoss(rho=9 * HALF.rho, normal=True)
    bill = Bill("dyadic", {}, "", HALF)
    assert Bill.from_dict(bill.to_dict()).loss == HALF
    assert "normal" not in Bill("x", {}, "", PrivacyLoss(Fraction(1))).to_dict()["loss"]


def test_two_releases_share_a_ledger_and_a_third_is_refused(tmp_path) -> None:
    ledger = tmp_path / "ledger"
    sc.Ledger.create(ledger, name="us", neighbours="replace", epsilon=1, delta=1e-9)
    rows, given = people(200, schema()), {"neighbours": "replace", "delta": 1e-9}
    for epsilon in (0.69, 0.69):
        sc.publish(
            rows, schema(), sc.Dyadic(["age", "sex"], epsilon=epsilon, **given), ledger=ledger
        )
    with pytest.raises(sc.PromiseError, match="left of the limit"):
        sc.publish(rows, schema(), sc.Dyadic(["age"], epsilon=0.5, **given), ledger=ledger)
    one = sc.Histogram(["age"], epsilon=0.001, neighbours="replace")
    with pytest.raises(sc.PromiseError, match="normal noise only"):
        sc.publish(rows, schema(), one, ledger=ledger)

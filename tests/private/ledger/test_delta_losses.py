"""Losses of (ε, δ) in the account of a release and in an owner's ledger."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import scumble as sc
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss
from scumble.private.ledger.cost import Bill
from scumble.private.ledger.terms import Limit, Total, group_loss

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
KEYS = PrivacyLoss(EPSILON, delta=DELTA)
PURE = PrivacyLoss(EPSILON)
GAUSSIAN = PrivacyLoss(rho=Fraction(1, 100))


def test_a_loss_has_a_delta_only_beside_an_epsilon():
    assert str(KEYS) == "ε = 1, δ = 1e-06"
    assert not KEYS.pure
    for wrong in ({"rho": Fraction(1), "delta": DELTA}, {"epsilon": EPSILON, "delta": Fraction(2)}):
        with pytest.raises(sc.ParameterError):
            PrivacyLoss(**wrong)


def test_an_account_adds_up_both():
    account = BudgetAccount(PrivacyLoss(2 * EPSILON, delta=DELTA))
    account.charge("a", KEYS)
    with pytest.raises(sc.PromiseError):
        account.charge("b", KEYS)  # δ is used up
    account.charge("c", PURE)
    with pytest.raises(sc.PromiseError):
        account.charge("d", PrivacyLoss(Fraction(1, 10**9)))
    with pytest.raises(sc.PromiseError):
        BudgetAccount(PrivacyLoss(rho=Fraction(9))).charge("e", KEYS)


def test_group_privacy_of_two_steps():
    """M(D) <= e^ε (e^ε M(D'') + δ) + δ."""
    found = group_loss(KEYS, 2)
    assert found.epsilon == 2
    assert float(found.delta) == pytest.approx((1 + math.e) * 1e-6, rel=1e-12)
    assert found.delta >= Fraction(math.e) * DELTA * (1 - Fraction(1, 10**15)) + DELTA
    assert group_loss(KEYS, 60).delta < 1


def test_a_bill_is_read_back():
    for loss in (KEYS, PURE, GAUSSIAN, None):
        bill = Bill("keys", {}, "", loss)
        assert Bill.from_dict(bill.to_dict()) == bill


def test_half_of_delta_is_for_such_losses():
    limit = Limit(3 * EPSILON, 4 * DELTA)
    assert limit.allows(Total((KEYS, KEYS, PURE)))
    assert not limit.allows(Total((KEYS, KEYS, KEYS)))  # 3δ of the 2δ that are kept
    assert not limit.allows(Total((PURE, KEYS)))  # settled before anything was seen
    assert not limit.allows(Total((KEYS, KEYS, PURE, PURE)))
    assert not Limit(3 * EPSILON).allows(Total((KEYS,)))


def test_gaussian_noise_has_the_other_half():
    limit, half = Limit(3 * EPSILON, 4 * DELTA), Limit(3 * EPSILON, 2 * DELTA)
    left = limit.left_rho(Total((KEYS,)))
    rest = Limit(limit.epsilon, limit.delta).left_rho(Total((PURE,)))
    assert 0 < left < rest
    total = Total((KEYS, PrivacyLoss(rho=left)))
    assert limit.allows(total)
    # All together keep (ε, δ): what is Gaussian with half of δ, at the order of the limit.
    order = limit.order
    spent = order * left + min(EPSILON, order * EPSILON**2 / 2)
    assert spent <= half.epsilon + Fraction(
        (math.log(float(half.delta)) - _log_constant(float(order - 1))) / float(order - 1)
    ) + Fraction(1, 10**9)


def _log_constant(more: float) -> float:
    return -(math.log1p(more) + more * math.log1p(1 / more))


def test_the_ledger_says_why(tmp_path):
    ledger = sc.Ledger.create(tmp_path / "l", neighbours="add_remove", epsilon=2, delta=1e-6)

    def charge(loss):
        with ledger.paid(Bill("keys", {}, "", loss)):
            pass

    with pytest.raises(sc.PromiseError, match="half is for such releases, only δ = 5e-7 is left"):
        charge(KEYS)
    small = PrivacyLoss(EPSILON, delta=Fraction(1, 10**7))
    charge(small)
    assert "ε = 1, δ = 0.000001" in str(ledger.statement())
    charge(small)
    with pytest.raises(sc.PromiseError, match="but nothing is left of the limit"):
        charge(small)
    later = sc.Ledger.create(tmp_path / "m", neighbours="add_remove", epsilon=2, delta=1e-6)
    with later.paid(Bill("histogram", {}, "", PURE)):
        pass
    with (
        pytest.raises(sc.PromiseError, match="Publish keys first"),
        later.paid(Bill("keys", {}, "", small)),
    ):
        pass


def test_a_ledger_without_limit_states_what_it_can(tmp_path):
    ledger = sc.Ledger.create(tmp_path / "l", neighbours="add_remove")
    with ledger.paid(Bill("keys", {}, "", KEYS)):
        pass
    assert "beside δ = 0.000001 (zCDP; name a δ above 0.000001" in str(ledger.statement())
    assert "beside" in str(ledger.statement(1e-6))
    assert "1 release costs ε = 1, δ = 0.00001" in str(ledger.statement(1e-5))

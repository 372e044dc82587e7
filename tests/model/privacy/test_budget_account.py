"""Accounts: pure losses add up, concentrated ones too, and nothing is taken for what is refused."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import scumble as sc
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit

TENTH = Fraction(1, 10)


def test_pure_losses_add_up_to_the_last_digit():
    account = BudgetAccount(PrivacyLoss(Fraction(1)))
    for _ in range(10):
        account.charge("look", PrivacyLoss(TENTH))
    assert account.left == 0
    with pytest.raises(sc.PromiseError, match=r"would cost ε = 1e-09, but only ε = 0 is left"):
        account.charge("look", PrivacyLoss(Fraction(1, 10**9)))
    assert account.used == 1


def test_concentrated_losses_add_up_with_pure_ones_at_half_their_square():
    account = BudgetAccount(PrivacyLoss(rho=Fraction(1, 8)))
    account.charge("look", PrivacyLoss(rho=TENTH))
    account.charge("choice", PrivacyLoss(Fraction(1, 5)))  # ε²/2 = 1/50
    assert account.left == Fraction(1, 8) - TENTH - Fraction(1, 50)
    with pytest.raises(sc.PromiseError):
        account.charge("choice", PrivacyLoss(Fraction(1, 5)))


def test_a_pure_promise_pays_for_no_concentrated_loss():
    account = BudgetAccount(PrivacyLoss(Fraction(100)))
    with pytest.raises(sc.PromiseError, match="no promise of a pure ε pays for"):
        account.charge("look", PrivacyLoss(rho=Fraction(1, 10**9)))
    assert account.used == 0


@pytest.mark.parametrize("wrong", [{}, {"epsilon": 1, "rho": 1}, {"epsilon": -1}])
def test_a_loss_is_one_number_above_zero(wrong):
    with pytest.raises(sc.ParameterError, match="either an epsilon or a rho"):
        PrivacyLoss(**{name: Fraction(number) for name, number in wrong.items()})


def test_squared_sensitivity_by_brute_force(subtests: pytest.Subtests) -> None:
    """Over all persons whose rows have columns e1 or e2, or also -e1 and -e2: their inner product
    is then negative.
    """
    for signed, neighbours, rows in product([False, True], ["replace", "add_remove"], [1, 2, 3]):
        with subtests.test(signed=signed, neighbours=neighbours, rows=rows):
            columns = np.array([[1, 0], [0, 1], *([[-1, 0], [0, -1]] if signed else [])])
            chosen = combinations_with_replacement(range(len(columns)), rows)
            persons = [columns[list(places)].sum(axis=0) for places in chosen]
            others = persons if neighbours == "replace" else [np.zeros(2, int)]
            largest = max(((one - other) ** 2).sum() for one, other in product(persons, others))
            unit = PrivacyUnit(neighbours, rows)
            assert unit.squared_sensitivity(nonnegative_gram=not signed) == largest

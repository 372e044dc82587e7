"""What a partition promises, exactly, and what it does not: Bayes' rule in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

import scumble as sc
from scumble.families.partition.publish import gamma_of, split
from tests.support.people import schema

WORKED = [12, 8, 6, 5, 4, 3, 1, 1, 1, 1]


def _ends(prior: dict[int, Fraction], counts: dict[int, int], rho1, rho2) -> list[Fraction]:
    """Every belief in a rare value, after the part and the shown value of a row, of an attacker
    with this prior.
    """
    parts = split(counts, rho1, rho2)
    rows = sum(counts.values())
    rare = [value for value, count in counts.items() if Fraction(count, rows) <= rho1]
    ends = []
    for part in parts:
        size = len(part.domain)
        for shown in part.domain:
            chances = {
                value: prior[value]
                * Fraction(count, counts[value])
                * ((1 - part.keep) / size + (part.keep if value == shown else 0))
                for value, count in part.counts.items()
            }
            total = sum(chances.values())
            ends += [chances[value] / total for value in rare if value in chances]
    return ends


@pytest.mark.parametrize(
    ("counts", "rho1", "rho2"),
    [
        (WORKED, "1/3", "2/3"),
        ([30, 9, 8, 7, 3, 2, 2, 1], "1/5", "2/5"),
        ([5, 5, 5, 1], "1/10", "9/10"),
    ],
)
def test_the_promise_is_exact_for_the_frequencies_as_prior(counts, rho1, rho2) -> None:
    """Bayes' rule over parts and shown values, in fractions: at most ρ2, and ρ2 is reached."""
    known = dict(enumerate(counts))
    prior = {value: Fraction(count, sum(counts)) for value, count in known.items()}
    assert max(_ends(prior, known, Fraction(rho1), Fraction(rho2))) == Fraction(rho2)


def test_the_promise_does_not_hold_for_every_prior() -> None:
    """A prior of ρ1 about x7, which only the second part has, ends far above ρ2: the promise is for
    the frequencies as prior, as its sentence says.
    """
    prior = dict.fromkeys(range(10), Fraction(2, 27)) | {6: Fraction(1, 3)}
    ends = _ends(prior, dict(enumerate(WORKED)), Fraction(1, 3), Fraction(2, 3))
    assert max(ends) > Fraction(9, 10)


def test_the_promise_is_for_a_row_by_itself() -> None:
    """Three people with three values, γ = 4: who sees the rows a, b, b together and knows the
    frequencies believes with 16/21 that the first is a, above ρ2 = 2/3.
    """
    [part] = split({0: 1, 1: 1, 2: 1}, Fraction(1, 3), Fraction(2, 3))
    gamma = gamma_of(part.keep, 3)
    assert gamma == 4
    shown = (0, 1, 1)
    chances = {
        people: gamma ** sum(x == y for x, y in zip(people, shown, strict=True))
        for people in permutations(range(3))
    }
    ours = sum(chance for people, chance in chances.items() if people[0] == 0)
    assert Fraction(ours, sum(chances.values())) == Fraction(16, 21)


def _facts(counts: dict[int, int]) -> tuple:
    """What everybody sees of the split."""
    known = {value: count for value, count in counts.items() if count}
    parts = split(known, Fraction(1, 3), Fraction(2, 3))
    return tuple((part.domain, part.keep, part.rows) for part in parts)


def test_who_knows_all_others_can_work_out_a_value() -> None:
    """In the worked example the public split tells the value of any person but those with x3 to
    whoever knows all other values, for certain: the limits say so.
    """
    truth, certain = dict(enumerate(WORKED)), []
    for value in truth:
        others = truth | {value: truth[value] - 1}
        fitting = [x for x in truth if _facts(others | {x: others[x] + 1}) == _facts(truth)]
        assert value in fitting
        certain += [value] * (len(fitting) == 1)
    assert certain == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    for promise in sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3)).guarantee(schema()):
        assert "work out a person's own" in promise.limits[0]
        assert "not differential privacy" in promise.limits[0]

"""The auditor is itself audited: what is broken on purpose is refuted, and its honest twin is not.

An honest twin is refuted by chance with a probability of at most 1e-4 for each of its tests, of
which there are at most three for each of fewer than 50 twins: 1.5 % for all of them. The seeds
are fixed.
"""

import numpy as np
import pytest

import scumble as sc
from scumble.audit.distinguish import floating_point_finding, last_bits
from scumble.audit.linkage import row_order_finding
from scumble.audit.release_claims import CONFIDENCE
from tests.support.twins.everything import TWINS, line

SEED = 7


# Twins of half a second and more, beside quick ones that the same check of the auditor refutes.
SLOW = {
    "number of rows for free",
    "a tenth of ε spent twice",
    "noise for shorter sequences",
    "only strings that occur",
    "ε of sequences spent twice",
    "the number of items is free",
    "noise of one set of items",
    "noise of one table over hubs",
    "steps and counts of one ε",
    "only items that occur",
    "bounds of the grid from the data",
}


def twins():
    for twin in TWINS:
        yield pytest.param(twin, marks=[pytest.mark.slow] * (twin.name in SLOW), id=twin.name)


def test_there_are_enough_twins():
    assert len(TWINS) >= 12
    assert len({twin.name for twin in TWINS}) == len(TWINS)
    assert {twin.name for twin in TWINS} > SLOW


@pytest.mark.parametrize("twin", list(twins()))
def test_what_is_broken_is_refuted(twin):
    """At a confidence of 0.9999, or exactly. The first finding that refutes it is enough."""
    found = []
    for finding in twin.broken(twin.runs, SEED):
        found.append(finding)
        if finding.refuted:
            break
    assert found[-1].refuted, [finding.sentence for finding in found]
    assert found[-1].confidence is None or found[-1].confidence >= CONFIDENCE
    assert line(twin.name, found).startswith("refuted")


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_the_honest_twin_stands(twin):
    """In short the tests of the catalogue show the same of every method."""
    found = list(twin.honest(twin.runs, SEED))
    assert found
    assert not [finding.sentence for finding in found if finding.refuted]


PUBLISHERS = [
    sc.Uniform(epsilon=1),
    sc.Subset(epsilon=1),
    sc.Frapp(epsilon=2),
    sc.AlphaBeta(alpha=0.5, beta=0.1),
    sc.Aroma(k=20),
    sc.Anatomy(l=2, suppress=True),
    sc.Partition(rho1=0.3, rho2=0.6),
]


@pytest.mark.parametrize("mechanism", PUBLISHERS, ids=lambda each: each.name)
def test_rows_stand_in_an_order_that_anybody_could_make(mechanism):
    assert row_order_finding(mechanism, 1, 500, seed=SEED).verdict == "exact"


def test_the_last_bit_of_a_number():
    numbers = np.array([[0.0, 1.0, 0.5, 6.0, 0.1, -3.0, 2.0**-1074]])
    assert last_bits(numbers).tolist() == [[64, 0, -1, 1, -55, 0, -1074]]


def test_floating_noise_of_equal_counts_tells_nothing():
    """A false alarm has probability 1e-4."""
    one, other = (np.random.default_rng(seed).laplace(size=(20_000, 1)) for seed in (1, 2))
    found = floating_point_finding("noise", one, other, 0.1)
    assert (found.check, found.verdict) == ("last bits", "stands")

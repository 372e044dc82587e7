"""Broken releases of baskets: a choice that is not paid for, noise for one set or one table over
hubs, an ε that is spent twice, and items that give people away.
"""

from __future__ import annotations

from copy import copy

import numpy as np

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.mechanism_claims import judged
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding
from scumble.audit.runs import publish_runs
from scumble.families.baskets.publish.baskets import _NUMBER, _Hubs, _Sets
from scumble.private.mechanism_metadata import ITEMS, Claim
from scumble.private.meter.noise import NoisySteps
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.top import Candidates
from tests.support.twins.noise_twins import unmetered
from tests.support.twins.twins import Check, Twin, claimed

GIVEN = {"top": 2, "epsilon": 1, "neighbours": "add_remove"}


class NumberForFree(sc.Baskets):
    """The number of items is chosen with all of ε, and the rest is spent as well, as in the
    reference code of PrivBasis.
    """

    def _part(self, share):
        return self.promise if share == _NUMBER else super()._part(share)

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class NoiseOfOneSet(_Sets):
    """Noise as if a basket were in one set only."""

    def _part(self, share):
        few = share != _NUMBER and share > 0.5  # the share of the counts
        return super()._part(4 * share if few else share)

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class Hubs(_Hubs):
    """Baskets that are always counted by tables over hubs."""

    def _by_sets(self, table, baskets, items, folder):
        return self._by_hubs(table, baskets, items, 1, folder)


class NoiseOfOneTable(Hubs):
    """Noise as if a basket were in one table over the hubs, that of all baskets or of an item."""

    def _by_hubs(self, *given):
        other = copy(self)
        other._part = lambda share: self._part(4 * share if share > 0.5 else share)
        return super(NoiseOfOneTable, other)._by_hubs(*given)

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class SpentTwice(sc.DiffPart):
    """All of ε is spent on the steps, and again on the counts."""

    def _shares(self, known):
        return super()._shares(known)[0], self.promise.epsilon

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class OnlyBought(NoisySteps):
    """Items that nobody has are not chosen while there are others."""

    def top(self, candidates, k, **given):
        if len(candidates.keys) < k:
            return super().top(candidates, k, **given)
        return candidates.keys[super().top(Candidates.listed(candidates.scores), k, **given)]


class UniqueItem(sc.Baskets):
    """Only items that somebody has are named, so that an item tells that there is a person."""

    def measure(self, table, folder):
        other = copy(table)
        other._noise = OnlyBought(table._noise.source)
        return super().measure(other, folder)


def _alone(mechanism: sc.Baskets) -> Check:
    """One person has an item that nobody else has, or is not there."""

    def check(runs: int, seed: int) -> list[Finding]:
        without = np.array([0, 0, 3, 0, 0, 0, 0])  # of no item, a, b, c, and pairs
        with_one = without + np.array([0, 1, 0, 0, 0, 0, 0])
        noise = Keystream(seed)
        one, other = (
            publish_runs(mechanism, ITEMS, counts, runs, noise)[:, :3]
            for counts in (without, with_one)
        )
        found = distinguish(one, other, confidence=CONFIDENCE)
        return [judged(repr(mechanism), mechanism.epsilon, found, "an item of one person")]

    return check


def _claims(broken, honest, given=GIVEN) -> tuple[Check, Check]:
    made = (kind("x", **given) for kind in (broken, honest))
    one, other = (claimed(Claim(each, 1, schema=ITEMS)) for each in made)
    return one, other


_WHOLE = {"fanout": 3, "false_parts": 1, "epsilon": 1, "neighbours": "add_remove"}
_THREE = {"items": 3, **GIVEN}  # no basket is clipped: runs on two tables would clip otherwise
_CHECKS = (_alone(kind("x", **GIVEN)) for kind in (UniqueItem, sc.Baskets))
TWINS = [
    Twin("the number of items is free", *_claims(NumberForFree, sc.Baskets), 1_000),
    Twin("noise of one set of items", *_claims(NoiseOfOneSet, _Sets), 1_000),
    Twin("noise of one table over hubs", *_claims(NoiseOfOneTable, Hubs, _THREE), 200),
    Twin("steps and counts of one ε", *_claims(SpentTwice, sc.DiffPart, _WHOLE), 4_000),
    Twin("only items that occur", *_CHECKS, 800),
]

"""Broken releases of sequences: the longest list, the unique symbol, and ε that is spent twice."""

from __future__ import annotations

from copy import copy

import numpy as np

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.mechanism_metadata import VISITS, Claim
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.splits import split_rule
from scumble.private.sampling.noise import discrete_laplace
from tests.support.twins.noise_twins import unmetered
from tests.support.twins.twins import Twin, claimed


class LongestList(sc.Sequences):
    """Noise for one symbol of a sequence, of which more are read."""

    def _laws(self, fanout):
        return sc.Sequences(**{**self.parameters, "length": 1})._laws(fanout)

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class OnlySeen(NoisySteps):
    """Strings without records are never kept."""

    def split_children(self, keys, numbers, law, floor, size):
        noisy = numbers + discrete_laplace(self.source, law.scale, len(numbers))
        return np.array(keys[noisy > 0])


class UniqueSymbol(sc.Sequences):
    """Only strings that somebody has can be published, so that a kept one tells that there is a
    person with it.
    """

    def measure(self, table, folder):
        other = copy(table)
        other._noise = OnlySeen(table._noise.source)
        return super().measure(other, folder)


class SpentTwice(sc.Sequences):
    """The cells have the whole ε, and the splits another half of it."""

    def _laws(self, fanout):
        return [DiscreteLaplace(self._weighed.sensitivity / self.promise.epsilon)]

    def _rule(self, fanout):
        return split_rule(self.promise.epsilon / 2, fanout, self._weighed)

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


def twin(name, broken, runs, **more):
    """The broken and the honest one with the same parameters."""
    given = {"length": 3, "epsilon": 1, "neighbours": "add_remove", **more}
    made = (method("x", **given) for method in (broken, sc.Sequences))
    claims = [Claim(each, given["epsilon"], schema=VISITS) for each in made]
    return Twin(name, *map(claimed, claims), runs)


TWINS = [
    twin("noise for shorter sequences", LongestList, 20_000, weigh="symbol"),
    twin("only strings that occur", UniqueSymbol, 100_000, model="prefix", depth=1, epsilon=0.4),
    twin("ε of sequences spent twice", SpentTwice, 20_000),
]

"""Broken keys: a key of one person is named, or the threshold fits other noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.mechanism_claims import judged
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding
from scumble.families.keys.publish import LaplaceRule
from scumble.private.meter.noise import NoisySteps
from scumble.private.sampling.source import Keystream
from scumble.private.tables.key_pairs import CellKeysCounter
from tests.support.twins.twins import Check, Twin

DELTA = 0.01
GIVEN = {"epsilon": 1, "delta": DELTA, "keys": 1, "neighbours": "replace", "rule": "zealous"}


@dataclass(frozen=True)
class Unchecked(LaplaceRule):
    """A rule that claims to cost what it should, whatever its threshold is."""

    def loss(self, unit):
        return LaplaceRule(self.noise, 10**6, self.delta).loss(unit)


class UniqueKeys(sc.Keys):
    """Every key that somebody has is named, with a noisy count."""

    def _rule(self):
        fitting = super()._rule()
        return Unchecked(fitting.noise, -(10**6), fitting.delta)


class WrongThreshold(sc.Keys):
    """The threshold of ZEALOUS for noise of half the scale: κ(1 - ln(2δ/κ)/ε)."""

    def _rule(self):
        fitting = super()._rule()
        wrong = self.keys * (1 - math.log(2 * self.delta / self.keys) / self.epsilon)
        return Unchecked(fitting.noise, math.ceil(wrong), fitting.delta)


def _alone(mechanism: sc.Keys) -> Check:
    """One person has a key, or nobody has it. Keys are independent: each is one run."""

    def check(runs: int, seed: int) -> list[Finding]:
        counter = CellKeysCounter([pa.array(np.arange(runs))], np.ones(runs, np.int64))
        shown, counts = mechanism._rule().find(counter, 1, NoisySteps(Keystream(seed)), None)
        one, other = np.zeros((runs, 2)), np.zeros((runs, 2))
        one[shown] = np.column_stack([np.ones(len(shown)), counts])
        found = distinguish(one, other, delta=DELTA, confidence=CONFIDENCE)
        return [judged(repr(mechanism), mechanism.epsilon, found, "a key of one person")]

    return check


def _twin(name: str, broken: type[sc.Keys]) -> Twin:
    return Twin(name, *(_alone(kind(["a"], **GIVEN)) for kind in (broken, sc.Keys)), runs=40_000)


TWINS = [
    _twin("keys of one person are named", UniqueKeys),
    _twin("threshold of ZEALOUS for half of its noise", WrongThreshold),
]

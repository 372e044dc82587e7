"""The noise that a released summary states, beside that which its method takes with the same
parameters.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scumble.model.evidence.evidence import Measurements
from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian
from scumble.model.privacy.ledger import Account
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Source
from scumble.private.tables.counter import TensorCounter
from scumble.public.release import Release

NoiseLaw = DiscreteLaplace | DiscreteGaussian
_KINDS = ("discrete laplace", "discrete gaussian")


@dataclass(frozen=True)
class StatedNoise:
    """Pairs of laws: what the method takes for some sums, and what the release states for them."""

    pairs: tuple[tuple[NoiseLaw, NoiseLaw], ...]

    @classmethod
    def of(cls, release: Release, mechanism: Summary) -> StatedNoise | None:
        """None if the release states other sums. Only for methods whose plan is fixed: it is made
        again for a table of nobody.
        """
        evidence = release.evidence
        if not isinstance(evidence, Measurements):
            return None
        nobody = np.zeros(release.schema.size(evidence.columns), np.int64)
        counter = TensorCounter(release.schema, evidence.columns, nobody)
        with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
            table = PrivateTable(counter, Account(mechanism.promise), Source(0))
            again = mechanism.measure(table, Path(folder))
        if not isinstance(again, Measurements):
            return None
        taken: list[NoiseLaw] = []
        stated: list[NoiseLaw] = []
        if _bare(again.to_dict(), taken) != _bare(evidence.to_dict(), stated):
            return None
        return cls(tuple(zip(taken, stated, strict=True)))

    @property
    def narrower(self) -> str | None:
        """Where the release states less noise, in words; None if nowhere."""
        for taken, stated in self.pairs:
            if type(taken) is not type(stated) or _width(stated) < _width(taken):
                return f"{_words(stated)} in place of {_words(taken)}"
        return None


def _width(law: NoiseLaw) -> Any:
    return law.scale if isinstance(law, DiscreteLaplace) else law.parameter


def _words(law: NoiseLaw) -> str:
    if isinstance(law, DiscreteLaplace):
        return f"Laplace noise of scale {float(law.scale):.4g}"
    return f"Gaussian noise of variance {float(law.parameter):.4g}"


def _bare(data: Any, laws: list[NoiseLaw]) -> Any:
    """A description without its laws of noise, which are noted in their order."""
    if isinstance(data, dict):
        if data.get("kind") in _KINDS:
            law = from_dict(data)
            if isinstance(law, NoiseLaw):
                laws.append(law)
            return "law"
        return {key: _bare(each, laws) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [_bare(each, laws) for each in data]
    return data

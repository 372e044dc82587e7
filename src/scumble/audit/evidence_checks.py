"""What the evidence of a release says about its privacy: its multisets, and the noise that a
summary states.

All is computed from the evidence alone, by other formulas than the mechanisms use.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.evidence.channels import MultisetChannel
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw, RoundedNormal
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.mechanism import Summary
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.release import Release


def multiset_counts(
    channel: MultisetChannel, table: pa.Table, values: int
) -> npt.NDArray[np.float64]:
    """Return how often every value is in the multiset of each row."""
    columns = [table[name].to_numpy() for name in channel.columns]
    if channel.layout == "counts":
        return np.stack(columns, axis=1).astype(np.float64)
    counts = np.zeros((table.num_rows, values))
    for members in columns:
        np.add.at(counts, (np.arange(table.num_rows), members.astype(np.int64)), 1.0)
    return counts


# The noise that a released summary states, compared with that of its method.

_KINDS = ("discrete laplace", "discrete gaussian", "rounded normal")


@dataclass(frozen=True)
class StatedNoise:
    """Pairs of noise laws: that of the method with the same parameters, and the stated one."""

    pairs: tuple[tuple[NoiseLaw, NoiseLaw], ...]

    @classmethod
    def of(cls, release: Release, mechanism: Summary) -> StatedNoise | None:
        """Return the pairs; None if the release states other sums than the method measures.

        The method measures an empty table for this, so its plan must not depend on the data.
        """
        evidence = release.evidence
        if not isinstance(evidence, Measurements):
            return None
        nobody = np.zeros(release.schema.size(evidence.columns), np.int64)
        counter = TensorCounter(release.schema, evidence.columns, nobody)
        with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
            table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(0))
            again = mechanism.measure(table, Path(folder))
        if not isinstance(again, Measurements):
            return None
        again = replace(again, rows=evidence.rows)  # that of the release, not of an empty table
        taken: list[NoiseLaw] = []
        stated: list[NoiseLaw] = []
        if _bare(again.to_dict(), taken) != _bare(evidence.to_dict(), stated):
            return None
        return cls(tuple(zip(taken, stated, strict=True)))

    @property
    def narrower(self) -> str | None:
        """The first law with less noise than the method needs, in words; None if there is none."""
        for taken, stated in self.pairs:
            if type(taken) is not type(stated) or _width(stated) < _width(taken):
                return f"{_words(stated)} in place of {_words(taken)}"
        return None


def _width(law: NoiseLaw) -> Any:
    return law.scale if isinstance(law, DiscreteLaplace) else law.parameter


def _words(law: NoiseLaw) -> str:
    if isinstance(law, DiscreteLaplace):
        return f"Laplace noise of scale {float(law.scale):.4g}"
    kind = "normal" if isinstance(law, RoundedNormal) else "Gaussian"
    return f"{kind} noise of variance {float(law.parameter):.4g}"


def _bare(data: Any, laws: list[NoiseLaw]) -> Any:
    """Return a description without its noise laws, which are appended to `laws` in their order."""
    if isinstance(data, dict):
        if data.get("kind") in _KINDS:
            law = law_from_dict(data)
            if isinstance(law, NoiseLaw):
                laws.append(law)
            return "law"
        return {key: _bare(each, laws) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [_bare(each, laws) for each in data]
    return data

"""Laws of bags: how the values that a row shows come about, given its true value.

A law knows, for every true value x, the mean and the covariance of how often each value v is in the
bag. This is all that an estimator needs; the exact probabilities of whole bags are the publisher's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class BagLaw(Protocol):
    """What is known of the numbers c_v in the bag of a row whose true value is x."""

    @property
    def values(self) -> int:
        """How many values there are."""

    @property
    def size(self) -> int:
        """How many members a bag has: always the same number."""

    def means(self) -> Floats:
        """E[c_v | x] in row x and column v."""

    def covariances(self, one: Floats, other: Floats) -> Floats:
        """Cov[one · c, other · c | x] for every x; along the last axis of two arrays of weights."""

    def to_dict(self) -> dict[str, Any]: ...

    def __hash__(self) -> int: ...


def bag_law(data: Mapping[str, Any]) -> BagLaw:
    """A law out of a manifest."""
    from scumble.model.evidence.pool_law import PoolLaw
    from scumble.model.evidence.subset_law import SubsetLaw

    kinds: Mapping[str, Any] = {kind.kind: kind for kind in (PoolLaw, SubsetLaw)}
    law: BagLaw = kinds[data["kind"]].from_dict(data)
    return law

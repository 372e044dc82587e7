"""Groups of Anatomy by record, for tests that deal with the algorithm alone."""

from __future__ import annotations

import numpy as np

from scumble.families.anatomy.publish import group_records
from scumble.private.sampling.source import Keystream


def groups_of_records(
    source: Keystream, codes: np.ndarray, kept: np.ndarray, least: int
) -> np.ndarray:
    """Return the group of each record: those of a value get its groups in their order."""
    counts = np.bincount(codes, minlength=len(kept)).astype(np.int64)
    lists, _ = group_records(source, counts, kept, least)
    groups = np.empty(len(codes), np.int32)
    groups[np.argsort(codes, kind="stable")] = lists
    return groups

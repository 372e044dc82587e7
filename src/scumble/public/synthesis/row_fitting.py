"""Row fitting: rows are changed, a share at a time, until their tables are near the given ones.

Tables that close loops of attributes have no simple joint distribution. In each step, for one
table, some rows of cells with too many rows move into cells with too few: some of them become a
copy of a row that is there, with all its attributes, the others take over the codes of the cell
alone and keep their other attributes. (Zhang, Wang, Li, He, Jiang, Zhang, PrivSyn, USENIX Security
2021, has such a step.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scumble.model.long_work import tell
from scumble.public.synthesis.noisy_tables import Places, Tensor
from scumble.public.synthesis.tree_model import Codes

Integers = npt.NDArray[np.int64]

SWEEPS = 20
_FIRST_SHARE, _DECAY = 0.8, 0.93
_COPIED = 0.4


@dataclass(frozen=True, eq=False)
class TargetCounts:
    """The counts that the rows should have by the attributes at `places`; they sum to the number
    of rows.
    """

    places: Places
    counts: Tensor


def keys_of(columns: Sequence[Codes], places: Places, shape: Sequence[int]) -> Integers:
    """Return the number of the cell of every row, the last attribute fastest."""
    keys = columns[places[0]].astype(np.int64)
    for place, size in zip(places[1:], shape[1:], strict=True):
        keys *= size
        keys += columns[place]
    return keys


def counts_of(columns: Sequence[Codes], places: Places, shape: Sequence[int]) -> Tensor:
    """Return the table of the rows by the attributes at `places`."""
    keys = keys_of(columns, places, shape)
    found = np.bincount(keys, minlength=int(np.prod(shape))).astype(np.float64)
    return found.reshape(shape)


def fit_rows(
    columns: list[Codes],
    targets: Sequence[TargetCounts],
    generator: np.random.Generator,
    sweeps: int = SWEEPS,
) -> None:
    """Change the rows in place so that their tables come near those of `targets`."""
    share = _FIRST_SHARE
    for sweep in range(sweeps):
        for done, place in enumerate(generator.permutation(len(targets)).tolist(), 1):
            _step(columns, targets[place], share, generator)
            tell(sweep * len(targets) + done, sweeps * len(targets))
        share *= _DECAY


def _step(
    columns: list[Codes], target: TargetCounts, share: float, generator: np.random.Generator
) -> None:
    shape = target.counts.shape
    keys = keys_of(columns, target.places, shape)
    counts = np.bincount(keys, minlength=target.counts.size)
    gaps = target.counts.reshape(-1) - counts
    leave = np.divide(-gaps, counts, out=np.zeros(len(gaps)), where=(gaps < 0) & (counts > 0))
    leaving = np.flatnonzero(generator.random(len(keys)) < share * leave[keys])
    if not len(leaving):
        return
    wanted = np.cumsum(np.maximum(gaps, 0.0))
    if wanted[-1] <= 0:
        return
    # One point in each of as many equal parts of the missing rows, in random order.
    points = (np.arange(len(leaving)) + generator.random()) * (wanted[-1] / len(leaving))
    cells = np.searchsorted(wanted, points, side="right").clip(max=len(wanted) - 1)
    cells = cells[generator.permutation(len(cells))]
    copied = (generator.random(len(leaving)) < _COPIED) & (counts[cells] > 0)
    _copy(columns, keys, counts, leaving[copied], cells[copied], generator)
    codes = np.unravel_index(cells[~copied], shape)
    for place, found in zip(target.places, codes, strict=True):
        columns[place][leaving[~copied]] = found


def _copy(
    columns: list[Codes],
    keys: Integers,
    counts: Integers,
    rows: npt.NDArray[np.intp],
    cells: npt.NDArray[np.intp],
    generator: np.random.Generator,
) -> None:
    """Make each of `rows` a copy of a random row of its cell."""
    order = np.argsort(keys.astype(np.uint16) if len(counts) <= 1 << 16 else keys, kind="stable")
    starts = np.cumsum(counts) - counts
    chosen = starts[cells] + (generator.random(len(cells)) * counts[cells]).astype(np.int64)
    sources = order[chosen]
    for column in columns:
        column[rows] = column[sources]

"""Random arguments of the loops of trackers and relaxation, for `tests/test_kernels.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np

import scumble as sc
from scumble.model.compiled import Kernel
from scumble.private.database import relaxation_kernels as relaxation
from scumble.private.database import split_kernels as splitting
from scumble.private.database import tracker_kernels as trackers
from scumble.private.database.relaxation import FaceColumns
from scumble.private.database.space import Space
from scumble.private.database.trackers import ExactTracker, HistogramTracker

Random = np.random.Generator
WIDE = False  # whether codes and counters need more bytes: loops that are compiled separately


def _space(random: Random, most: int) -> Space:
    """Return a space of one to four axes with at most `most` codes each."""
    sizes = random.integers(1, most + 1, int(random.integers(1, 5)))
    attributes = "".join(
        f'[attributes.a{axis}]\nrole = "quasi"\ntype = "integer"\nrange = [0, {size - 1}]\n'
        for axis, size in enumerate(sizes)
    )
    schema = sc.Schema.loads("format = 1\n" + attributes)
    return Space(schema, schema.names)


def _box(random: Random, space: Space) -> Any:
    """Return a box that restricts some of the axes, and now and then none."""
    sizes = np.array(space.sizes)
    ends = np.sort(random.integers(0, sizes[:, np.newaxis], (len(sizes), 2)), axis=1)
    free = random.random(len(sizes)) < random.choice([0.2, 0.5, 0.9])
    ends[free] = space.whole[free]
    return ends


# --- trackers -------------------------------------------------------------------------------------


def _exact(random: Random) -> tuple[list[Any], Any, Any]:
    """Return the arrays of an exact tracker with a few boxes, one box more, and its units."""
    space = _space(random, 6)
    tracker = ExactTracker(space, int(random.choice([1 << 20, 1 << 40])) if WIDE else 50)
    for _ in range(int(random.integers(0, 8))):
        tracker.add(_box(random, space)[np.newaxis], int(random.integers(1, 5)))
    arrays = [tracker._top, tracker._own, tracker._starts, tracker._sizes, tracker._order]
    return arrays, _box(random, space), tracker._top.dtype.type(random.integers(1, 5))


def exact_fits(random: Random) -> list[Any]:
    arrays, box, _ = _exact(random)
    return [*arrays, box, int(random.integers(-1, 25))]


def exact_cover(random: Random) -> list[Any]:
    arrays, box, units = _exact(random)
    return [*arrays, box, units]


def _histogram(random: Random) -> HistogramTracker:
    """Return a tracker with some boxes."""
    space = _space(random, 40_000 if WIDE else int(random.choice([9, 60])))
    limit = (1 << 17) if WIDE else int(random.choice([3, 12]))
    tracker = HistogramTracker(space, limit, int(random.choice([4, 200])))
    for _ in range(int(random.integers(0, 30))):
        box, units = _box(random, space)[np.newaxis], int(random.integers(1, 3))
        if tracker.has_room(box, units):
            tracker.add(box, units)
    return tracker


def buckets_fit(random: Random) -> list[Any]:
    tracker = _histogram(random)
    return [tracker._index, _box(random, tracker.space), int(random.integers(-1, 15))]


def cover_buckets(random: Random) -> list[Any]:
    tracker = _histogram(random)
    due = np.zeros_like(tracker._due)
    units = int(random.integers(0, 5))
    return [tracker._index, _box(random, tracker.space), units, int(random.integers(0, 15)), due]


def split(random: Random) -> list[Any]:
    """The buckets above a limit below that of the tracker are due."""
    tracker = _histogram(random)
    box, units, most = _box(random, tracker.space), int(random.integers(1, 4)), 1
    tracker._accepted.append(box, units)
    due = np.zeros_like(tracker._due)
    late = trackers.cover_buckets(tracker._index, box, units, most, due)
    known, helpful = tracker._accepted, bool(random.random() < 0.5)
    if not late:
        due[0], late = 0, 1
    return [tracker._index, known.faces, known.units, len(known), due, late, most, helpful]


def _full_block(random: Random) -> tuple[HistogramTracker, int]:
    """Return a tracker with one block, which is full of boxes."""
    tracker = HistogramTracker(_space(random, 40_000 if WIDE else 9), (1 << 17) if WIDE else 9, 200)
    index = tracker._index
    for slot in range(trackers.WIDTH):
        index.faces[0, :, :, slot] = _box(random, tracker.space)
        index.names[0, slot], index.where[slot] = slot, slot
    index.counts[0] = random.integers(0, 9, trackers.WIDTH)
    index.sizes[1] = trackers.WIDTH
    return tracker, 0


def divide(random: Random) -> list[Any]:
    tracker, block = _full_block(random)
    return [tracker._index, block]


def lower_half(random: Random) -> list[Any]:
    tracker, block = _full_block(random)
    return [tracker._index.faces[block], int(random.integers(0, len(tracker.space)))]


def extent(random: Random) -> list[Any]:
    tracker, block = _full_block(random)
    half = random.permutation(trackers.WIDTH) < trackers.WIDTH // 2
    side = bool(random.random() < 0.5)
    return [tracker._index.faces[block], half, side, tracker.space.whole]


def finish(random: Random) -> list[Any]:
    tracker, block = _full_block(random)
    return [tracker._index, block, int(random.integers(1, trackers.WIDTH + 1))]


def settle(random: Random) -> list[Any]:
    index = _histogram(random)._index
    block = int(random.integers(0, index.sizes[0]))
    index.counts[block] -= int(random.integers(0, 20))
    return [index, block]


def _bucket(random: Random) -> tuple[Any, Any, Any]:
    """Return a bucket, boxes as columns that may meet it, and their units."""
    space = _space(random, int(random.choice([9, 60, 40_000])))
    boxes = [_box(random, space) for _ in range(int(random.integers(1, 40)))]
    units = random.integers(1, 6, len(boxes))
    return _box(random, space), np.moveaxis(np.array(boxes), 0, 2).copy(), units


def meeting(random: Random) -> list[Any]:
    bucket, boxes, units = _bucket(random)
    return [bucket, boxes, units, int(random.integers(0, len(units) + 1))]


def _near(random: Random) -> list[Any]:
    bucket, boxes, units = _bucket(random)
    return [bucket, *splitting._meeting.compiled(bucket, boxes, units, len(units))]


def core(random: Random) -> list[Any]:
    return _near(random)[:2]


def beside(random: Random) -> list[Any]:
    bucket, near, weights = _near(random)
    return [near[0], weights, int(random.integers(bucket[0, 0], bucket[0, 1] + 2))]


# --- relaxation -----------------------------------------------------------------------------------


def _answers(random: Random) -> tuple[Space, Any, Any]:
    """Return a space, boxes in it (some of which differ on one axis), and their faces."""
    space = _space(random, 9)
    boxes = np.array([_box(random, space) for _ in range(int(random.integers(1, 90)))])
    faces = FaceColumns(len(space)).of(boxes)
    faces[:, :, len(boxes) :] = 0
    return space, boxes, faces


def _scales(random: Random, space: Space) -> Any:
    return random.random(len(space)) / 7


def distances(random: Random) -> list[Any]:
    space, boxes, _ = _answers(random)
    return [boxes, _box(random, space), _scales(random, space)]


def nearest(random: Random) -> list[Any]:
    space, boxes, faces = _answers(random)
    return [boxes, faces, _box(random, space), _scales(random, space)]


def neighbours(random: Random) -> list[Any]:
    space, boxes, faces = _answers(random)
    return [boxes, faces, _box(random, space)]


def best_patches(random: Random) -> list[Any]:
    space, boxes, faces = _answers(random)
    used = random.integers(0, len(boxes), int(random.integers(1, 4)))
    region, target = boxes[used[0]].copy(), _box(random, space)
    most = float(random.random())
    return [boxes, faces, region, target, _scales(random, space), used, most]


def intersections(random: Random) -> list[Any]:
    space, boxes, _ = _answers(random)
    sides = boxes.astype(np.float64) / np.array(space.sizes)[:, np.newaxis]
    sides[:, :, 1] += 0.1
    return [sides]


def _system(random: Random) -> tuple[Any, Any]:
    """Return a symmetric matrix, which need not be positive definite, and a right-hand side."""
    [sides] = intersections(random)
    matrix = relaxation.intersections.compiled(sides)
    if random.random() < 0.2:
        matrix = matrix - random.random()
    return matrix, random.random(len(matrix))


def refined(random: Random) -> list[Any]:
    return [*_system(random), 1e-9, 3]


def factor(random: Random) -> list[Any]:
    return [_system(random)[0], 1e-9]


def residual(random: Random) -> list[Any]:
    matrix, wanted = _system(random)
    return [matrix, wanted, random.normal(size=len(wanted))]


def solved(random: Random) -> list[Any]:
    matrix, wanted = _system(random)
    return [np.tril(matrix) + np.eye(len(matrix)), wanted]


CASES: dict[Kernel[..., Any], Callable[[Random], list[Any]]] = {
    trackers.exact_fits: exact_fits,
    trackers.exact_cover: exact_cover,
    trackers.buckets_fit: buckets_fit,
    trackers.cover_buckets: cover_buckets,
    trackers.divide: divide,
    trackers._lower_half: lower_half,
    trackers._extent: extent,
    trackers._finish: finish,
    trackers.settle: settle,
    splitting.split: split,
    splitting._meeting: meeting,
    splitting._core: core,
    splitting._beside: beside,
    splitting._best: _near,
    relaxation.distances: distances,
    relaxation.nearest: nearest,
    relaxation._neighbours: neighbours,
    relaxation.best_patches: best_patches,
    relaxation.intersections: intersections,
    relaxation.refined: refined,
    relaxation._factor: factor,
    relaxation._residual: residual,
    relaxation._solved: solved,
}

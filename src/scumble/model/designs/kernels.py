"""Numba loops of this folder.

Compiled loops over boxes. Import this module only where one runs: compiling is slow.

Tensors come in as one row of numbers and the distance between neighbours along each direction.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def corner_sums(
    low: Array, high: Array, summed: Array, strides: Array, begin: Array, total: Array
) -> None:
    """The sum of each box out of a summed-area table, which begins at begin[i] for box i (or at
    begin[0] for all): 2^d corners with alternating signs.
    """
    axes, boxes = low.shape
    if axes == 2 and len(begin) == 1:
        rows, columns = strides
        for box in range(boxes):
            upper, lower = begin[0] + low[0, box] * rows, begin[0] + (high[0, box] + 1) * rows
            left, right = low[1, box] * columns, (high[1, box] + 1) * columns
            total[box] = summed[lower + right] - summed[lower + left]
            total[box] += summed[upper + left] - summed[upper + right]
        return
    for box in range(boxes):
        start = begin[box] if len(begin) > 1 else begin[0]
        found = total[box]
        for corner in range(1 << axes):
            place, lower = start, 0
            for axis in range(axes):
                if corner >> axis & 1:
                    place += (high[axis, box] + 1) * strides[axis]
                else:
                    place += low[axis, box] * strides[axis]
                    lower += 1
            if lower % 2:
                found -= summed[place]
            else:
                found += summed[place]
        total[box] = found


@_compiled
def halves(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Every box halved in each attribute of which it has more than one code, pieces of the first
    attribute slowest; and the box of each piece.
    """
    axes, boxes = low.shape
    count = 0
    for box in range(boxes):
        pieces = 1
        for axis in range(axes):
            if high[axis, box] > low[axis, box]:
                pieces *= 2
        count += pieces
    new_low, new_high = np.empty((axes, count), low.dtype), np.empty((axes, count), low.dtype)
    origin = np.empty(count, np.int64)
    begin = 0
    for box in range(boxes):
        origin[begin] = box
        for axis in range(axes):
            new_low[axis, begin], new_high[axis, begin] = low[axis, box], high[axis, box]
        # The last attribute first: what it makes is copied whole for the halves of those before.
        pieces = 1
        for axis in range(axes - 1, -1, -1):
            first, last = low[axis, box], high[axis, box]
            if last == first:
                continue
            middle = (first + last) // 2
            for piece in range(begin, begin + pieces):
                origin[piece + pieces] = box
                for other in range(axes):
                    new_low[other, piece + pieces] = new_low[other, piece]
                    new_high[other, piece + pieces] = new_high[other, piece]
                new_high[axis, piece] = middle
                new_low[axis, piece + pieces] = middle + 1
            pieces *= 2
        begin += pieces
    return new_low, new_high, origin


@_compiled
def slice_sums(
    low: Array, high: Array, counts: Array, strides: Array, axis: int, starts: Array, sums: Array
) -> None:
    """The sums of all cells of a box with one code of an attribute: those of box i from starts[i]
    on, a number for each code from its lowest. `sums` comes in as zeros.
    """
    axes, boxes = low.shape
    last = axes - 1
    code = np.empty(axes, np.int64)
    for box in range(boxes):
        for each in range(axes):
            code[each] = low[each, box]
        while True:
            place = 0
            for each in range(last):
                place += code[each] * strides[each]
            at = starts[box] + code[axis] - low[axis, box]
            for inner in range(low[last, box], high[last, box] + 1):
                if axis == last:
                    sums[at + inner - low[last, box]] += counts[place + inner * strides[last]]
                else:
                    sums[at] += counts[place + inner * strides[last]]
            each = last - 1
            while each >= 0 and code[each] == high[each, box]:
                code[each] = low[each, box]
                each -= 1
            if each < 0:
                break
            code[each] += 1


# Compiled passes over a forest. Import this module only where one runs: compiling is slow.
#
# A parent stands before its children, so that a loop from the front meets parents first and a
# loop from the back meets children first.


@_compiled
def gather(parents: Array, precisions: Array, own: Array, below: Array) -> None:
    """The variance of each node's sum of children in `below` (0 for leaves), and that of the best
    estimate from its subtree in `own`; both come in as zeros.
    """
    for node in range(len(parents) - 1, -1, -1):
        precision = precisions[node]
        if below[node] > 0.0:
            own[node] = below[node] / (1.0 + precision * below[node])
        else:
            own[node] = 1.0 / precision
        if parents[node] >= 0:
            below[parents[node]] += own[node]


@_compiled
def estimate(
    parents: Array, precisions: Array, own: Array, below: Array, noisy: Array, sums: Array
) -> Array:
    """Least squares: up with what the subtree says, down with what all others say. `sums` comes in
    as zeros.
    """
    count = len(parents)
    found = noisy.copy()
    for node in range(count - 1, -1, -1):
        if below[node] > 0.0:
            share = own[node] * precisions[node]
            found[node] = sums[node] + (share * (noisy[node] - sums[node]) if share > 0 else 0.0)
        if parents[node] >= 0:
            sums[parents[node]] += found[node]
    for node in range(count):
        parent = parents[node]
        if parent >= 0:
            found[node] += own[node] / below[parent] * (found[parent] - sums[parent])
    return found


@_compiled
def adjoint(
    parents: Array, precisions: Array, own: Array, below: Array, weights: Array, shared: Array
) -> Array:
    """The same two passes turned round: what each noisy number adds to a weighted sum of
    estimates. `shared` comes in as zeros.
    """
    count = len(parents)
    found = weights.copy()
    for node in range(count - 1, -1, -1):
        found[node] += shared[node]
        if parents[node] >= 0:
            shared[parents[node]] += own[node] / below[parents[node]] * found[node]
    for node in range(count):
        parent = parents[node]
        if parent >= 0:
            # Here found[parent] is not yet multiplied by its own share: see the last loop.
            found[node] += found[parent] * own[parent] / below[parent] - shared[parent]
    for node in range(count):
        found[node] *= own[node] * precisions[node]
    return found


@_compiled
def under(parents: Array, marked: Array) -> Array:
    """Which nodes have a marked one above them."""
    found = np.zeros(len(parents), np.bool_)
    for node in range(len(parents)):
        parent = parents[node]
        if parent >= 0:
            found[node] = found[parent] or marked[parent]
    return found


@_compiled
def below_even(
    parents: Array, own: Array, below: Array, shares: Array, variances: Array, fourths: Array
) -> Array:
    """What the noises of a subtree add if nothing in it has a weight and `adjoint` reaches its root
    with 1: the sums of variances · coefficients² and of fourth cumulants · coefficients⁴, and the
    largest coefficient, in three rows.
    """
    found = np.zeros((3, len(parents)))
    for node in range(len(parents) - 1, -1, -1):
        share = shares[node]
        found[0, node] += variances[node] * share**2
        found[1, node] += fourths[node] * share**4
        found[2, node] = max(found[2, node], share)
        parent = parents[node]
        if parent >= 0:
            passed = own[parent] / below[parent]
            found[0, parent] += passed**2 * found[0, node]
            found[1, parent] += passed**4 * found[1, node]
            found[2, parent] = max(found[2, parent], passed * found[2, node])
    return found


@_compiled
def _reached(parents: Array, nodes: Array, mark: int, marks: Array, found: Array) -> int:
    """The given nodes and all above them, in rising order, in the front of `found`; how many."""
    count = 0
    for node in nodes:
        while node >= 0 and marks[node] != mark:
            marks[node] = mark
            found[count] = node
            count += 1
            node = parents[node]
    found[:count].sort()
    return count


@_compiled
def _pulled(
    parents: Array, own: Array, below: Array, reached: Array, found: Array, shared: Array
) -> None:
    """The passes of `adjoint` along the nodes that weights reach; `found` has the weights, and
    `shared` zeros. In the end `shared` is what each node gives to any child beside its weight.
    """
    for place in range(len(reached) - 1, -1, -1):
        node = reached[place]
        found[node] += shared[node]
        parent = parents[node]
        if parent >= 0:
            shared[parent] += own[node] / below[parent] * found[node]
    for node in reached:
        if parents[node] >= 0:
            found[node] += shared[parents[node]]
        if below[node] > 0.0:
            shared[node] = found[node] * own[node] / below[node] - shared[node]


@_compiled
def group_moments(
    parents: Array,
    first_child: Array,
    children: Array,
    own: Array,
    below: Array,
    shares: Array,
    variances: Array,
    fourths: Array,
    even: Array,
    starts: Array,
    nodes: Array,
    weights: Array,
) -> Array:
    """For every group of two weighted sums of nodes: the sums of variances · the products of both
    coefficients and of fourth cumulants · the fourth powers of the first one, and the largest of
    the first, in three rows. Group g has the nodes from starts[g] to starts[g + 1], and for each
    two weights. Only nodes above them are visited, and their children.
    """
    size, groups = len(parents), len(starts) - 1
    moments = np.zeros((3, groups))
    marks = np.full(size, -1)
    visited = np.zeros(size, np.int64)
    found, shared = np.zeros((2, size)), np.zeros((2, size))
    for group in range(groups):
        begin, end = starts[group], starts[group + 1]
        count = _reached(parents, nodes[begin:end], group, marks, visited)
        reached = visited[:count]
        for row in range(2):
            for node in reached:
                found[row, node] = shared[row, node] = 0.0
            for place in range(begin, end):
                found[row, nodes[place]] += weights[row, place]
            _pulled(parents, own, below, reached, found[row], shared[row])
        second = fourth = largest = 0.0
        for node in reached:
            one, other = found[0, node] * shares[node], found[1, node] * shares[node]
            second += variances[node] * one * other
            fourth += fourths[node] * one**4
            largest = max(largest, abs(one))
            one, other = shared[0, node], shared[1, node]
            for place in range(first_child[node], first_child[node + 1]):
                child = children[place]
                if marks[child] != group:
                    second += even[0, child] * one * other
                    fourth += even[1, child] * one**4
                    largest = max(largest, even[2, child] * abs(one))
        moments[0, group], moments[1, group], moments[2, group] = second, fourth, largest
    return moments


# Compiled loops over intervals of counts. Import this module only where one runs: compiling is
# slow.


@_compiled
def _add(counts: Array, sums: Array, rank: int, many: int, amount: int) -> None:
    """Into two trees of partial sums by rank (Fenwick)."""
    place = rank + 1
    while place < len(counts):
        counts[place] += many
        sums[place] += amount
        place += place & -place


@_compiled
def deviations(ranks: Array, values: Array, length: int, out: Array) -> None:
    """For every interval of one length the sum of distances of its numbers from their median;
    number i is values[ranks[i]], `values` rising.
    """
    size = len(values)
    counts, sums = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    highest = 1
    while 2 * highest <= size:
        highest *= 2
    wanted = (length + 1) // 2
    total = 0
    for end in range(len(ranks)):
        value = values[ranks[end]]
        total += value
        _add(counts, sums, ranks[end], 1, value)
        begin = end - length + 1
        if begin > 0:
            gone = values[ranks[begin - 1]]
            total -= gone
            _add(counts, sums, ranks[begin - 1], -1, -gone)
        if begin >= 0:
            # Down the tree to the median: `below` numbers, of the sum `amount`, are less than it.
            place, below, amount, step = 0, 0, 0, highest
            while step:
                if place + step <= size and below + counts[place + step] < wanted:
                    place += step
                    below += counts[place]
                    amount += sums[place]
                step //= 2
            median = values[place]
            out[begin] = median * below - amount + (total - amount) - median * (length - below)


@_compiled
def cheapest(costs: Array, starts: Array, lengths: Array, last: Array) -> None:
    """The length of the last interval in the cheapest partition of each prefix, the shortest of
    equally good ones; costs[starts[k] + i] is that of the interval from i of length lengths[k].
    """
    size = len(last) - 1
    best = np.zeros(size + 1, np.int64)
    for end in range(1, size + 1):
        for kind in range(len(lengths)):
            begin = end - lengths[kind]
            if begin < 0:
                break
            cost = best[begin] + costs[starts[kind] + begin]
            if kind == 0 or cost < best[end]:
                best[end] = cost
                last[end] = lengths[kind]

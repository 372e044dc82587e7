"""Loops over boxes, trees and intervals, compiled by numba. Import this module only where a loop
runs: compiling is slow.

Tensors are passed as one-dimensional arrays with their strides in elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any
_MANY = 64  # children of a node that are summed once for all groups


@kernel
def corner_sums(
    low: Array, high: Array, summed: Array, strides: Array, begin: Array, total: Array
) -> None:
    """Write to `total` the sum of each box from a summed-area table, which begins at begin[i] for
    box i (or at begin[0] for all): 2^d corners with alternating signs.
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


@kernel
def halves(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Halve every box in each attribute of which it has more than one code. Returns the bounds of
    the pieces, those of the first attribute slowest, and the box of each piece.
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
        # The last attribute first: all its pieces are copied for the halves of those before it.
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


@kernel
def slice_sums(
    low: Array, high: Array, counts: Array, strides: Array, axis: int, starts: Array, sums: Array
) -> None:
    """Write to `sums` (zeros at first) the sum of the cells of each box with each of its codes of
    attribute `axis`: those of box i from starts[i] on, beginning with its lowest code.
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


# --- least squares on trees ----------------------------------------------------------------------
# Parents come before their children, so that a forward loop meets parents first and a backward loop
# meets children first.


@kernel
def gather(parents: Array, precisions: Array, own: Array, below: Array) -> None:
    """Write to `below` the variance of the sum of each node's children's estimates (0 for leaves),
    and to `own` that of its best estimate from its subtree. Both are zeros at first.
    """
    for node in range(len(parents) - 1, -1, -1):
        precision = precisions[node]
        if below[node] > 0.0:
            own[node] = below[node] / (1.0 + precision * below[node])
        else:
            own[node] = 1.0 / precision
        if parents[node] >= 0:
            below[parents[node]] += own[node]


@kernel
def estimate(
    parents: Array, precisions: Array, own: Array, below: Array, noisy: Array, sums: Array
) -> Array:
    """Return the least squares estimates of all nodes: an upward pass with the estimates from
    subtrees, and a downward pass with corrections. `sums` is zeros at first.
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


@kernel
def adjoint(
    parents: Array, precisions: Array, own: Array, below: Array, weights: Array, shared: Array
) -> Array:
    """Return the coefficient of each noisy number in a weighted sum of estimates: the transpose of
    `estimate`. `shared` is zeros at first.
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
            # found[parent] is multiplied by its own share only in the last loop.
            found[node] += found[parent] * own[parent] / below[parent] - shared[parent]
    for node in range(count):
        found[node] *= own[node] * precisions[node]
    return found


@kernel
def under(parents: Array, marked: Array) -> Array:
    """Return which nodes have a marked node above them."""
    found = np.zeros(len(parents), np.bool_)
    for node in range(len(parents)):
        parent = parents[node]
        if parent >= 0:
            found[node] = found[parent] or marked[parent]
    return found


@kernel
def below_even(
    parents: Array, own: Array, below: Array, shares: Array, variances: Array, fourths: Array
) -> Array:
    """Return, for the subtree of each node, the moments of its noise if no node in it has a weight
    and `adjoint` reaches its root with coefficient 1. The three rows are the sum of
    variances · coefficients², the sum of fourth cumulants · coefficients⁴, and the largest
    coefficient.
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


@kernel
def _reached(parents: Array, nodes: Array, mark: int, marks: Array, found: Array) -> int:
    """Write the given nodes and all their ancestors, in rising order, to the front of `found`, and
    return their number.
    """
    count = 0
    for node in nodes:
        while node >= 0 and marks[node] != mark:
            marks[node] = mark
            found[count] = node
            count += 1
            node = parents[node]
    found[:count].sort()
    return count


@kernel
def _pulled(
    parents: Array, own: Array, below: Array, reached: Array, found: Array, shared: Array
) -> None:
    """Run the passes of `adjoint` over the nodes `reached` only. `found` has the weights and
    `shared` zeros at first. In the end `shared` has the coefficient that each node passes to every
    child in addition to the child's weight.
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


@kernel
def _children_even(parents: Array, first_child: Array, even: Array) -> tuple[Array, Array]:
    """Return, for each node with very many children, the sums of their first two moments `even`,
    and the child with the largest coefficient; 0 and −1 for all other nodes.
    """
    size = len(parents)
    sums, top = np.zeros((2, size)), np.full(size, -1)
    for node in range(size):
        parent = parents[node]
        if parent >= 0 and first_child[parent + 1] - first_child[parent] > _MANY:
            sums[0, parent] += even[0, node]
            sums[1, parent] += even[1, node]
            if top[parent] < 0 or even[2, node] > even[2, top[parent]]:
                top[parent] = node
    return sums, top


@kernel
def _beside(
    first_child: Array,
    children: Array,
    marks: Array,
    mark: int,
    node: int,
    even: Array,
    sums: Array,
    top: Array,
) -> tuple[float, float, float]:
    """Return the moments `even` of the children of a node that are not marked: two sums, and the
    largest. With `sums` over all children, the two are over all of them.
    """
    many = top[node] >= 0
    if many and marks[top[node]] != mark:
        return sums[0, node], sums[1, node], even[2, top[node]]
    second = fourth = largest = 0.0
    for place in range(first_child[node], first_child[node + 1]):
        child = children[place]
        if marks[child] != mark:
            second += even[0, child]
            fourth += even[1, child]
            largest = max(largest, even[2, child])
    if many:
        return sums[0, node], sums[1, node], largest
    return second, fourth, largest


@kernel
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
    """Return moments of the errors of two weighted sums of nodes, for every group. Group g has the
    nodes `nodes[starts[g]:starts[g + 1]]`, each with two weights. The three rows are the sum of
    variances · the product of both coefficients, the sum of fourth cumulants · the fourth power of
    the first coefficient, and the largest absolute first coefficient of a noisy node. Only the
    ancestors of these nodes and their children are visited; of the children of a node that has very
    many, only those that are such ancestors.
    """
    size, groups = len(parents), len(starts) - 1
    sums, top = _children_even(parents, first_child, even)
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
            if variances[node] > 0.0:
                largest = max(largest, abs(one))
            parent = parents[node]
            if parent >= 0 and top[parent] >= 0:  # the sums over all children count this one
                second -= even[0, node] * shared[0, parent] * shared[1, parent]
                fourth -= even[1, node] * shared[0, parent] ** 4
            one, other = shared[0, node], shared[1, node]
            both = _beside(first_child, children, marks, group, node, even, sums, top)
            second += both[0] * one * other
            fourth += both[1] * one**4
            largest = max(largest, both[2] * abs(one))
        moments[0, group], moments[1, group], moments[2, group] = second, fourth, largest
    return moments


# --- intervals of counts -------------------------------------------------------------------------


@kernel
def _add(counts: Array, sums: Array, rank: int, many: int, amount: int) -> None:
    """Add to two Fenwick trees, of counts and of sums, at one rank."""
    place = rank + 1
    while place < len(counts):
        counts[place] += many
        sums[place] += amount
        place += place & -place


@kernel
def deviations(ranks: Array, values: Array, length: int, out: Array) -> None:
    """Write to `out`, for every interval of the given length, the sum of absolute deviations from
    its median. Number i is values[ranks[i]]; `values` is ascending.
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
            # Descend to the median: `below` numbers, with the sum `amount`, are less than it.
            place, below, amount, step = 0, 0, 0, highest
            while step:
                if place + step <= size and below + counts[place + step] < wanted:
                    place += step
                    below += counts[place]
                    amount += sums[place]
                step //= 2
            median = values[place]
            out[begin] = median * below - amount + (total - amount) - median * (length - below)


@kernel
def cheapest(costs: Array, starts: Array, lengths: Array, last: Array) -> None:
    """Write to `last` the length of the last interval of the cheapest partition of each prefix, the
    shortest of equally cheap ones. costs[starts[k] + i] is the cost of the interval that begins at
    i and has length lengths[k].
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

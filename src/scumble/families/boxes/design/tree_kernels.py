"""Loops over trees of boxes, compiled by numba: least squares, and the moments of the errors of
weighted sums. Import this module only where a loop runs: compiling is slow.

Parents come before their children, so that a forward loop meets parents first and a backward loop
meets children first. Arrays that belong together are passed as tuples:

- `tree`: the parent of each node, where its children begin among all `children`, these, the
  variance `own` of its estimate from its subtree, and that of the sum of its children, `below`;
- `noise`: by node the share of its own number in its estimate, the variance and the fourth cumulant
  of its noise, the moments `below_even`, and both results of `children_even`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scumble.model.compiled import kernel

Array = Any
Arrays = tuple[Any, ...]
_MANY = 64  # children of a node that are summed once for all groups


@kernel
def check_tree(parents: Array, variances: Array, leaves: Array) -> tuple[bool, bool]:
    """Return whether every parent is a node before its child, or −1; and whether all variances are
    above 0, and those of leaves finite.
    """
    ordered = known = True
    for node in range(len(parents)):
        ordered &= -1 <= parents[node] < node
        known &= variances[node] > 0.0 and (variances[node] < np.inf or not leaves[node])
    return ordered, known


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

    They are written over the noisy numbers.
    """
    count = len(parents)
    estimates = noisy
    for node in range(count - 1, -1, -1):
        if below[node] > 0.0:
            share = own[node] * precisions[node]
            estimates[node] = sums[node] + (
                share * (noisy[node] - sums[node]) if share > 0 else 0.0
            )
        if parents[node] >= 0:
            sums[parents[node]] += estimates[node]
    for node in range(count):
        parent = parents[node]
        if parent >= 0:
            estimates[node] += own[node] / below[parent] * (estimates[parent] - sums[parent])
    return estimates


@kernel
def adjoint(
    parents: Array, precisions: Array, own: Array, below: Array, weights: Array, shared: Array
) -> Array:
    """Return the coefficient of each noisy number in a weighted sum of estimates: the transpose of
    `estimate`. `shared` is zeros at first.
    """
    count = len(parents)
    coefficients = weights.copy()
    for node in range(count - 1, -1, -1):
        coefficients[node] += shared[node]
        if parents[node] >= 0:
            shared[parents[node]] += own[node] / below[parents[node]] * coefficients[node]
    for node in range(count):
        parent = parents[node]
        if parent >= 0:
            # coefficients[parent] is multiplied by its own share only in the last loop.
            coefficients[node] += (
                coefficients[parent] * own[parent] / below[parent] - shared[parent]
            )
    for node in range(count):
        coefficients[node] *= own[node] * precisions[node]
    return coefficients


@kernel
def under(parents: Array, marked: Array) -> Array:
    """Return which nodes have a marked node above them."""
    below = np.zeros(len(parents), np.bool_)
    for node in range(len(parents)):
        parent = parents[node]
        if parent >= 0:
            below[node] = below[parent] or marked[parent]
    return below


@kernel
def below_even(
    parents: Array, own: Array, below: Array, shares: Array, variances: Array, fourths: Array
) -> Array:
    """Return, for the subtree of each node, the moments of its noise if no node in it has a weight
    and `adjoint` reaches its root with coefficient 1. The three rows are the sum of
    variances · coefficients², the sum of fourth cumulants · coefficients⁴, and the largest
    coefficient.
    """
    moments = np.zeros((3, len(parents)))
    for node in range(len(parents) - 1, -1, -1):
        share = shares[node]
        moments[0, node] += variances[node] * share**2
        moments[1, node] += fourths[node] * share**4
        moments[2, node] = max(moments[2, node], share)
        parent = parents[node]
        if parent >= 0:
            passed = own[parent] / below[parent]
            moments[0, parent] += passed**2 * moments[0, node]
            moments[1, parent] += passed**4 * moments[1, node]
            moments[2, parent] = max(moments[2, parent], passed * moments[2, node])
    return moments


@kernel
def _collect_ancestors(
    parents: Array, nodes: Array, mark: int, marks: Array, reached: Array
) -> int:
    """Write the given nodes and all their ancestors, in rising order, to the front of
    `reached`, and return their number.
    """
    count = 0
    for node in nodes:
        while node >= 0 and marks[node] != mark:
            marks[node] = mark
            reached[count] = node
            count += 1
            node = parents[node]
    reached[:count].sort()
    return count


@kernel
def _pull_back(
    parents: Array, own: Array, below: Array, reached: Array, coefficients: Array, shared: Array
) -> None:
    """Run the passes of `adjoint` over the nodes `reached` only. At first `coefficients` has
    the weights and `shared` zeros. In the end `shared` has the coefficient that each node passes
    to every child in addition to the child's weight.
    """
    for index in range(len(reached) - 1, -1, -1):
        node = reached[index]
        coefficients[node] += shared[node]
        parent = parents[node]
        if parent >= 0:
            shared[parent] += own[node] / below[parent] * coefficients[node]
    for node in reached:
        if parents[node] >= 0:
            coefficients[node] += shared[parents[node]]
        if below[node] > 0.0:
            shared[node] = coefficients[node] * own[node] / below[node] - shared[node]


@kernel
def children_even(parents: Array, first_child: Array, even: Array) -> tuple[Array, Array]:
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
def _moments(
    tree: Arrays,
    noise: Arrays,
    marks: Array,
    mark: int,
    reached: Array,
    first: tuple[Array, Array],
    last: tuple[Array, Array],
) -> tuple[float, float, float]:
    """Return the moments of the errors of two weighted sums, whose weights `_pull_back` took to the
    nodes `reached`: the sum of variances · the product of both coefficients, the sum of fourth
    cumulants · the fourth power of the first one, and the largest absolute first coefficient of a
    noisy node. `first` and `last` have what `_pull_back` left: coefficients and shared.

    Only these nodes, which are marked, and their children are visited; of the children of a node
    that has very many, only those that are marked. Of all other children the moments `even` are
    summed here and not in a function: a call with so many arrays takes longer than the sum.
    """
    parents, first_child, children, _, _ = tree
    shares, variances, fourths, even, sums, top = noise
    (coefficients, shared), (last_coefficients, last_shared) = first, last
    second = fourth = largest = 0.0
    for node in reached:
        one, other = coefficients[node] * shares[node], last_coefficients[node] * shares[node]
        second += variances[node] * one * other
        fourth += fourths[node] * one**4
        if variances[node] > 0.0:
            largest = max(largest, abs(one))
        parent = parents[node]
        if parent >= 0 and top[parent] >= 0:  # the sums over all children count this one
            second -= even[0, node] * shared[parent] * last_shared[parent]
            fourth -= even[1, node] * shared[parent] ** 4
        one, other = shared[node], last_shared[node]
        squares = fourths_beside = most = 0.0
        if top[node] >= 0 and marks[top[node]] != mark:
            most = even[2, top[node]]
        else:
            for index in range(first_child[node], first_child[node + 1]):
                child = children[index]
                if marks[child] != mark:
                    squares += even[0, child]
                    fourths_beside += even[1, child]
                    most = max(most, even[2, child])
        if top[node] >= 0:
            squares, fourths_beside = sums[0, node], sums[1, node]
        second += squares * one * other
        fourth += fourths_beside * one**4
        largest = max(largest, most * abs(one))
    return second, fourth, largest


@kernel
def group_moments(
    tree: Arrays, noise: Arrays, order: Array, starts: Array, nodes: Array, weights: Array
) -> Array:
    """Return the three moments of two weighted sums of nodes, a column for every group. Group g has
    the nodes `nodes[starts[g]:starts[g + 1]]`, each with two weights; `weights` has one row if both
    are the same. Groups are read in the given order, best one after the other in the tree: their
    nodes are in the processor's cache then.
    """
    parents, _, _, own, below = tree
    size, groups, rows = len(parents), len(starts) - 1, len(weights)
    moments = np.zeros((3, groups))
    marks = np.full(size, -1)
    visited = np.zeros(size, np.int64)
    coefficients, shared = np.zeros((rows, size)), np.zeros((rows, size))
    for group in order:
        begin, end = starts[group], starts[group + 1]
        count = _collect_ancestors(parents, nodes[begin:end], group, marks, visited)
        reached = visited[:count]
        for row in range(rows):
            for node in reached:
                coefficients[row, node] = shared[row, node] = 0.0
            for index in range(begin, end):
                coefficients[row, nodes[index]] += weights[row, index]
            _pull_back(parents, own, below, reached, coefficients[row], shared[row])
        one, other = (coefficients[0], shared[0]), (coefficients[rows - 1], shared[rows - 1])
        second, fourth, largest = _moments(tree, noise, marks, group, reached, one, other)
        moments[0, group], moments[1, group], moments[2, group] = second, fourth, largest
    return moments


# --- questions whose weights are products of one factor for each attribute ------------------------
#
# A question is read from the top. Where its weights are the same in all of a node's box, the node
# stands for its leaves: least squares takes equal weights of all leaves below a node to the node
# itself. So only nodes along the border of the question are visited.


@kernel
def hulls(parents: Array, ends: Array, low: Array, high: Array, counts: Array) -> None:
    """Write, for each node above the nodes `ends`, the hull of their boxes and the sum of their
    counts. Nodes above have an empty box (low > high) and the count 0 at first.
    """
    below = np.zeros(len(parents), np.bool_)  # nodes with an end in their subtree
    for node in range(len(parents) - 1, -1, -1):
        parent = parents[node]
        if parent < 0 or not (ends[node] or below[node]) or ends[parent]:
            continue
        below[parent] = True
        counts[parent] += counts[node]
        for axis in range(len(low)):
            low[axis, parent] = min(low[axis, parent], low[axis, node])
            high[axis, parent] = max(high[axis, parent], high[axis, node])


@kernel
def _prepare(values: Array, parts: Array, sizes: Array, totals: Array, run_ends: Array) -> None:
    """Write prefix sums of the weights along each attribute, and the code after each run of equal
    weights. `parts` has the row of `values` of each attribute, −1 where all weights are 1.
    """
    for axis in range(len(parts)):
        part, size = parts[axis], sizes[axis]
        if part < 0:
            continue
        totals[axis, 0] = 0.0
        for code in range(size):
            totals[axis, code + 1] = totals[axis, code] + values[part, code]
        run_ends[axis, size - 1] = size
        for code in range(size - 2, -1, -1):
            same = values[part, code] == values[part, code + 1]
            run_ends[axis, code] = run_ends[axis, code + 1] if same else code + 1


@kernel
def _weigh(
    node: int,
    low: Array,
    high: Array,
    values: Array,
    parts: Array,
    totals: Array,
    run_ends: Array,
    factor: float,
) -> tuple[float, float, float]:
    """Return the mean, the least and the largest weight of the cells in the box of a node."""
    mean = least = most = factor
    for axis in range(len(parts)):
        part = parts[axis]
        if part < 0:
            continue
        first, last = low[node, axis], high[node, axis]
        own = lowest = highest = values[part, first]
        if run_ends[axis, first] <= last:
            own = (totals[axis, last + 1] - totals[axis, first]) / (last - first + 1)
            code = run_ends[axis, first]
            while code <= last:
                lowest, highest = min(lowest, values[part, code]), max(highest, values[part, code])
                code = run_ends[axis, code]
        mean *= own
        some, others = (least * lowest, least * highest), (most * lowest, most * highest)
        least, most = min(min(some), min(others)), max(max(some), max(others))
    return mean, least, most


@kernel
def _widen(spans: Array, weights: tuple[float, float, float]) -> None:
    """Let the three ranges `spans` reach to three weights."""
    for row in range(3):
        spans[row, 0] = min(spans[row, 0], weights[row])
        spans[row, 1] = max(spans[row, 1], weights[row])


@kernel
def _descend(
    boxes: Arrays,
    asked: Arrays,
    parts: Array,
    factor: float,
    stack: Array,
    visited: Array,
    node_weights: Array,
    beside: Array,
    numbers: Array,
    spans: Array,
) -> tuple[int, bool]:
    """Visit the nodes that a question tells apart. Those that it uses are written to `visited`,
    each with the index of its parent there (−1 for none), with their mean, least and largest weight
    in `node_weights`, and with the moments of their children that are not used in `beside`, whose
    last row is for those without a parent. The sums of weights · counts are added to `numbers`,
    and the range of the weights is written to `spans`. Return the number of these nodes, and
    whether the weights differ within one of the last boxes.
    """
    roots, first_child, children, low, high, ends, counts, even, children_sums = boxes
    values, totals, run_ends = asked
    count, left, cut = 0, len(roots), False
    stack[:left, 0], stack[:left, 1] = roots[::-1], -1
    spans[:, 0], spans[:, 1] = np.inf, -np.inf
    while left:
        left -= 1
        node, parent = stack[left, 0], stack[left, 1]
        # Whether the weights in the box are different, or all 0; no function, as above.
        uneven, zero, weight = False, False, factor
        for axis in range(len(parts)):
            part, first = parts[axis], low[node, axis]
            if part < 0:
                continue
            if run_ends[axis, first] <= high[node, axis]:
                uneven = True
            else:
                weight *= values[part, first]
                zero = zero or values[part, first] == 0.0
        if zero:
            _widen(spans, (0.0, 0.0, 0.0))
            beside[parent, 0] += even[node, 0]
            beside[parent, 1] += even[node, 1]
            beside[parent, 2] = max(beside[parent, 2], even[node, 2])
            continue
        visited[count, 0], visited[count, 1] = node, parent
        if uneven and not ends[node]:
            node_weights[count], beside[count] = 0.0, 0.0
            for index in range(first_child[node + 1] - 1, first_child[node] - 1, -1):
                stack[left, 0], stack[left, 1] = children[index], count
                left += 1
        else:
            weights = (weight, weight, weight)
            if uneven:
                weights = _weigh(node, low, high, values, parts, totals, run_ends, factor)
                cut = True
            _widen(spans, weights)
            for row in range(3):
                node_weights[count, row] = weights[row]
                beside[count, row] = children_sums[node, row]
                numbers[row, 0] += weights[row] * counts[node]
        count += 1
    return count, cut


@kernel
def _question_moments(
    facts: Array, visited: Array, coefficients: Array, beside: Array, shared: Array
) -> tuple[float, float, float]:
    """Return the moments of the error of the weighted sum of the nodes `visited`, as `_moments`
    does: `coefficients` has their weights, and `shared` is written over. The passes are those of
    `_pull_back`. The columns of `facts` are the share of a node in the sum of its siblings, both
    variances of the tree, and the first three arrays of the noise.
    """
    count = len(visited)
    shared[:count] = 0.0
    for index in range(count - 1, -1, -1):
        coefficients[index] += shared[index]
        parent = visited[index, 1]
        if parent >= 0:
            shared[parent] += facts[visited[index, 0], 0] * coefficients[index]
    second = fourth = largest = 0.0
    for index in range(count):
        node, parent = visited[index, 0], visited[index, 1]
        own, below, share = facts[node, 1], facts[node, 2], facts[node, 3]
        if parent >= 0:
            coefficients[index] += shared[parent]
        if below > 0.0:
            shared[index] = coefficients[index] * own / below - shared[index]
        one, passed = coefficients[index] * share, shared[index]
        second += facts[node, 4] * one * one
        fourth += facts[node, 5] * one**4
        if facts[node, 4] > 0.0:
            largest = max(largest, abs(one))
        second += beside[index, 0] * passed * passed
        fourth += beside[index, 1] * passed**4
        largest = max(largest, beside[index, 2] * abs(passed))
    return second, fourth, largest


@kernel
def read_questions(
    facts: Array,
    boxes: Arrays,
    values: Array,
    sizes: Array,
    parts: Array,
    factors: Array,
    wanted: tuple[int, int],
    numbers: Array,
    spans: Array,
    cut: Array,
) -> None:
    """Read questions whose weights are products. Question q has the factor `factors[q]`, and for
    each attribute the weights `values[parts[q, axis]]`, or 1 where that is −1.

    `facts` are told in `_question_moments`. `boxes` are the roots of the tree, where the children
    of each node begin among all, these, the bounds of the nodes, which nodes are the last ones,
    their counts (see `hulls`), the moments `below_even`, and their sums over the children of a node
    (of the last, the maximum). Written by question are to `numbers` (zeros at first)
    the four numbers of three readings, with the mean, the least and the largest weight of every
    last node; to `cut` whether the weights differ within one, and to `spans` the range of the
    weights of the last nodes, for each of the three. Moments are written for the readings `wanted`
    (the first of them, and the one after the last) of questions that are cut, else for the first
    of the three alone.
    """
    size, axes, longest = len(facts), len(sizes), values.shape[1]
    stack, visited = np.empty((size, 2), np.int64), np.empty((size, 2), np.int64)
    node_weights, beside = np.empty((size, 3)), np.zeros((size + 1, 3))
    weights, shared = np.empty(size), np.empty(size)
    totals, run_ends = np.empty((axes, longest + 1)), np.empty((axes, longest), np.int64)
    asked = (values, totals, run_ends)
    for question in range(len(parts)):
        _prepare(values, parts[question], sizes, totals, run_ends)
        count, cut[question] = _descend(
            boxes, asked, parts[question], factors[question], stack, visited, node_weights, beside,
            numbers[question], spans[question],
        )  # fmt: skip
        first, after = wanted if cut[question] else (0, 1)
        for row in range(first, after):
            weights[:count] = node_weights[:count, row]
            moments = _question_moments(facts, visited[:count], weights, beside, shared)
            numbers[question, row, 1], numbers[question, row, 2], numbers[question, row, 3] = (
                moments
            )

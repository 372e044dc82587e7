"""Answers from published rows whose sensitive columns went through a known channel.

One aggregate of the engine counts the published rows by all that the answer depends on. The rest is
arithmetic on tensors over the sensitive domains:

1. `RowsPlan` splits the question into what names perturbed attributes and what does not.
2. `grouped_counts` counts the published rows (`multiset_counts` or `product_counts`, if rows show
   several values).
3. `Sums` weights the counts by the inverse channel, and gives estimates with their error laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from scumble.model.evidence.channels import MultisetChannel, Tensor
from scumble.model.evidence.evidence import Records
from scumble.model.long_work import tell, told
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate
from scumble.public.estimation.rows.count_laws import count_estimate
from scumble.public.estimation.rows.grouped_counts import (
    GroupedCounts,
    GroupIndex,
    Indices,
    grouped_counts,
    multiset_counts,
    product_counts,
)
from scumble.public.estimation.rows.inverse_channels import (
    Flags,
    MultisetProduct,
    UniformInverse,
    flat,
)
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.staged_reading import staged, staged_counts
from scumble.public.estimation.rows.sums import Sums
from scumble.public.sandbox import Sandbox

if TYPE_CHECKING:
    from scumble.public.estimation.rows.staged_reading import StagedReading

Key = tuple[Any, ...]
# The estimate of a group is None if rows are read by stages, and the group has too few for that.
Answers = Iterator[tuple[Key, Estimate | None]]
_MOST_LINES = 1 << 20  # that are weighted at a time


def answer(
    evidence: Records, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Return every group of the answer to `query` with its estimate."""
    plan = RowsPlan(evidence, schema, query)
    reading = None
    if isinstance(plan.joint_channel, MultisetChannel):
        reading = staged(evidence, schema, engine)
    if reading is None:
        return cast(Iterator[tuple[Key, Estimate]], _answer(plan, engine))
    found = dict(_answer(RowsPlan(reading.evidence, reading.schema, query), engine, reading))
    return ample_or_plain(found, lambda: _answer(plan, engine))


def ample_or_plain(
    found: Mapping[Key, Estimate | None], plain: Callable[[], Answers]
) -> Iterator[tuple[Key, Estimate]]:
    """Yield the groups `found` by stages, those with too few rows by the plain reader."""
    others = dict(plain()) if any(each is None for each in found.values()) else {}
    for key, estimate in found.items():
        chosen = others[key] if estimate is None else estimate
        yield key, cast(Estimate, chosen)


def _answer(plan: RowsPlan, engine: Sandbox, reading: StagedReading | None = None) -> Answers:
    counted, holds, amount = _gather(plan, engine, reading)
    return estimates(plan, counted, holds, amount)


def _gather(
    plan: RowsPlan, engine: Sandbox, reading: StagedReading | None = None
) -> tuple[GroupedCounts, Tensor, Tensor | None]:
    """Count the rows, and evaluate on the domain which values count and what they add.

    The domain is first where all values that count can share a line, and so can all others.
    """
    if not plan.shared:
        counted = _count(plan, engine, reading)
        return counted, *_tensors(plan, engine, counted)
    inverse = plan.inverse()
    holds, amount = _tensors(plan, engine)
    holds = inverse.by_state(holds)
    if isinstance(plan.joint_channel, MultisetProduct):
        return _count_product(plan, plan.joint_channel, engine, holds, amount), holds, amount
    if amount is not None:
        return _count(plan, engine, reading), holds, inverse.by_state(amount)
    if not plan.axes or plan.grouped_axes or not inverse.has_two_weights(holds):
        return _count(plan, engine, reading), holds, None
    halved = _count(plan, engine, reading, flat(holds)[0] > 0)
    # Replace the two lines by one value that counts, and by one that does not.
    state = plan.states(halved)
    yes = inverse.masked(holds, -1.0).argmax(axis=1)[state]
    no = inverse.masked(holds, 2.0).argmin(axis=1)[state]
    return replace(halved, cell=np.where(halved.cell, yes, no)), holds, None


def _count(
    plan: RowsPlan, engine: Sandbox, reading: StagedReading | None, hits: Flags | None = None
) -> GroupedCounts:
    """Count rows by unperturbed attributes and shown values, or by whether these are `hits`."""
    summed = plan.summed.sql if plan.summed else None
    if reading is not None:
        return staged_counts(engine, reading, plan.unperturbed, summed, plan.filters)
    if isinstance(plan.joint_channel, MultisetChannel):
        return multiset_counts(
            engine, plan.schema, plan.joint_channel, plan.unperturbed, summed, plan.filters, hits
        )
    if isinstance(plan.joint_channel, MultisetProduct):
        return _count_product(plan, plan.joint_channel, engine)
    clauses = [f"({clause.sql})" for clause in plan.perturbed_clauses]
    condition = None if hits is None else " AND ".join(clauses) or "true"
    return grouped_counts(
        engine, plan.schema, plan.unperturbed, plan.axes, summed, plan.filters, condition
    )


def _count_product(
    plan: RowsPlan, channel: MultisetProduct, engine: Sandbox, *tensors: Tensor | None
) -> GroupedCounts:
    """Count rows by unperturbed attributes and the values of several multisets. Values for which
    `tensors` are the same are counted together, unless the answer has a group for each.
    """
    known = [tensor for tensor in tensors if tensor is not None]
    alike: list[Indices] = []
    for axis, name in enumerate(plan.axes, start=1):
        first = which = np.arange(plan.schema[name].size)
        if known and name not in plan.grouped_axes:
            every = np.stack(np.broadcast_arrays(*known))
            by_value = np.moveaxis(every, axis + 1, 0).reshape(len(which), -1)
            _, first, which = np.unique(by_value, axis=0, return_index=True, return_inverse=True)
        alike.append(first[which.reshape(-1)])
    summed = plan.summed.sql if plan.summed else None
    return product_counts(
        engine, plan.schema, channel.channels, alike, plan.unperturbed, summed, plan.filters
    )


def _tensors(
    plan: RowsPlan, engine: Sandbox, counted: GroupedCounts | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return whether a row counts, and what it adds, for every value of the perturbed domains.

    With `counted`, there is one row of each tensor for every combination of unperturbed values.
    """
    frame = counted.combinations if counted else None
    outer = plan.unperturbed if counted else ()
    shape = (
        counted.combinations.num_rows if counted else 1,
        *(plan.schema[name].size for name in plan.axes),
    )
    values = (
        engine.evaluate(plan.perturbed_parts, (*outer, *plan.axes), frame)
        if plan.perturbed_parts
        else []
    )
    holds = np.ones(shape)
    for value in values[: len(plan.perturbed_clauses)]:
        holds = holds * value.reshape(shape)
    if plan.query.argument is None or plan.summed:
        return holds, None
    return holds, values[-1].reshape(shape) * holds


def estimates(
    plan: RowsPlan, counted: GroupedCounts, holds: Tensor, amount: Tensor | None
) -> Answers:
    """Yield an estimate for each group of unperturbed and each value of perturbed attributes.

    `holds` says whether a row counts by its true values; `amount` is what it adds, if perturbed
    values decide that.
    """
    groups = counted.groups([name for name in plan.unperturbed if name in plan.query.groups])
    alone = len(plan.axes) == len(plan.grouped_axes) == len(plan.uniform) == 1
    if alone and plan.shared and plan.query.aggregate == "count":
        yield from _counts_by_value(plan, counted, groups, holds[0])
        return
    if plan.grouped_axes and plan.shared and amount is None:
        together = _all_values(plan, counted, groups, holds)
        if together is not None:
            yield from together
            return
    steps = plan.schema.size(plan.grouped_axes) * len(groups.keys)
    for number, (values, chosen) in enumerate(_axis_values(plan)):
        part = None if amount is None else amount * chosen
        sums = Sums(plan, counted, groups, holds * chosen, part)
        for index, key in enumerate(groups.keys):
            tell(number * len(groups.keys) + index, steps)
            if plan.query.groups and not sums.possible[index]:
                continue  # the condition excludes every row of this group, as it does in SQL
            named = {**key, **values}
            yield tuple(named[name] for name in plan.query.groups), sums.ample_estimate(index)


def _all_values(
    plan: RowsPlan, counted: GroupedCounts, groups: GroupIndex, holds: Tensor
) -> Answers | None:
    """Return an estimate for each group and each value of the grouped perturbed attributes.

    All come from one table of sums, in which a state stands for a state and a value; None if it
    would be too large.
    """
    chosen = list(_axis_values(plan))
    values, lines = len(chosen), len(counted.count)
    if not values or values * max(lines, holds.size) > _MOST_LINES:
        return None
    value = np.repeat(np.arange(values), lines)
    index = GroupIndex(
        value * len(groups.keys) + np.tile(groups.members, values), groups.keys * values
    )
    wanted = np.concatenate([holds * indicator for _, indicator in chosen])
    inverse = plan.inverse().repeated(values)
    state = value * len(holds) + np.tile(plan.states(counted), values)
    sums = Sums(plan, counted.repeated(values), index, wanted, None, (inverse, state))
    return _named(plan, groups, [named for named, _ in chosen], sums)


def _named(
    plan: RowsPlan, groups: GroupIndex, values: Sequence[dict[str, Any]], sums: Sums
) -> Answers:
    """Yield the estimates of `sums`, whose groups are values and then `groups`, with their keys."""
    possible = sums.possible
    for place, (named, key) in enumerate(told(list(product(values, groups.keys)))):
        if possible[place]:  # as in SQL, an impossible group is left out
            every = {**key, **named}
            yield tuple(every[name] for name in plan.query.groups), sums.ample_estimate(place)


def _counts_by_value(
    plan: RowsPlan, counted: GroupedCounts, groups: GroupIndex, holds: Tensor
) -> Answers:
    """Yield a count for each value of one perturbed attribute.

    This needs no tensor for each value, since a row counts for the value that it shows. An
    attribute with thousands of values would need too many.
    """
    [name] = plan.axes
    size = plan.schema[name].size
    pairs = groups.members * size + counted.cell
    shown = np.bincount(pairs, counted.count, len(groups.keys) * size).astype(np.int64)
    rows = groups.sums(counted.count)
    model = UniformInverse(plan.uniform, plan.axes).response_model(1 / size)
    for code, label in enumerate(told(plan.schema[name].labels().to_pylist())):
        for index, key in enumerate(groups.keys):
            if rows[index] and holds[code]:  # as in SQL, an impossible group is left out
                named = {**key, name: label}
                number = int(shown[index * size + code])
                found = count_estimate(model, int(rows[index]), number, plan.query.notes)
                yield tuple(named[name] for name in plan.query.groups), found


def _axis_values(plan: RowsPlan) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Yield the values of the grouped perturbed attributes, with the indicator of each."""
    names = plan.grouped_axes
    shape = [plan.schema[name].size for name in plan.axes]
    labels = [plan.schema[name].labels().to_pylist() for name in names]
    for codes in np.ndindex(*map(len, labels)):
        chosen = np.zeros(shape)
        place = dict(zip(names, codes, strict=True))
        chosen[tuple(place.get(name, slice(None)) for name in plan.axes)] = 1
        yield {n: label[c] for n, label, c in zip(names, labels, codes, strict=True)}, chosen

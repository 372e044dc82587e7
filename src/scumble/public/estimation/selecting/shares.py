"""Totals and shares of counts in a database, from the counts of the groups.

SUM(COUNT(*)) OVER () is the sum of the counts that COUNT(*) by GROUP BY asks for, so that totals
and shares are computed from numbers that are paid for once. In a share, the noise of the group is
also in the total: its law is that of both together. Where the number of rows is public, it is the
total of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from scumble.public.estimate import Estimate, scaled
from scumble.public.estimation.selecting.groups import (
    CountsBy,
    Groups,
    KeyValues,
    Needed,
    WeightedCount,
    none_counted,
)
from scumble.public.sql.aggregates import Term
from scumble.public.sql.arithmetic import Linear, Ratio
from scumble.public.sql.select_plan import SelectPlan, clauses_of, linear_query, ratio_query

if TYPE_CHECKING:
    from scumble.public.estimation.selecting.selection import Selection


def counted(plan: SelectPlan, form: Linear) -> bool:
    """Return whether a linear form is made of counts of the rows that satisfy WHERE."""
    return all(term.kind == "count" and _of_where(plan, term) for term, _ in form.weights)


def is_share_of_counts(plan: SelectPlan, form: Ratio) -> bool:
    """Return whether a ratio is a share of a total count, made of counts."""
    only = all(term.kind == "count" for term, _ in form.total.weights)
    return only and ratio_query(plan, form) is not None


def needed_counts(selection: Selection, form: Linear) -> list[tuple[Needed, Groups]]:
    """Return the questions whose counts a linear form is made of, with their groups."""
    return [_question(selection, term) for term, _ in form.weights]


def totals_of_counts(selection: Selection, form: Linear) -> dict[KeyValues, Estimate]:
    """Return the total of every group."""
    combine = selection.answerer.combine
    assert combine is not None  # noqa: S101  (what is asked is fixed)
    empty = none_counted(selection.base)
    found = {
        key: scaled(combine(parts) or empty, 1.0, form.constant)
        for key, parts in _by_total(selection, form).items()
    }
    return {key: found[_total_of(selection, form, key)] for key in selection.keys}


def shares_of_counts(selection: Selection, form: Ratio) -> dict[KeyValues, Estimate]:
    """Return the share that every group has of its total."""
    shares = selection.answerer.shares
    assert shares is not None  # noqa: S101  (what is asked is fixed)
    limits = _limits(form)
    found = dict[KeyValues, Estimate]()
    for total, below in _by_total(selection, form.count).items():
        keys = [k for k in selection.keys if _total_of(selection, form.count, k) == total]
        above = [list(_parts(selection, form.total, key)) for key in keys]
        found |= zip(keys, shares(above, below, limits), strict=True)
    return {key: found[key] for key in selection.keys}


def _limits(form: Ratio) -> tuple[float, float]:
    """Return the least and the largest amount of a row of the total, of which a share is the mean.

    A term that counts the same rows as the total counts each of them.
    """
    [(count, weight)] = form.count.weights
    sure, low, high = 0.0, 0.0, 0.0
    for term, times in form.total.weights:
        amount = times / weight
        if term == count:
            sure += amount
        else:
            low, high = low + min(amount, 0.0), high + max(amount, 0.0)
    return sure + low, sure + high


def _by_total(selection: Selection, form: Linear) -> dict[KeyValues, list[WeightedCount]]:
    """Return the counts of each different total, by the values of the keys within which it is."""
    found = dict[KeyValues, list[WeightedCount]]()
    for key in selection.keys:
        total = _total_of(selection, form, key)
        if total not in found:
            found[total] = list(_parts(selection, form, key))
    return found


def _total_of(selection: Selection, form: Linear, key: KeyValues) -> KeyValues:
    [scope] = form.scopes
    return selection.groups.within(key, selection.total_groups(scope))


def _parts(selection: Selection, form: Linear, key: KeyValues) -> Iterator[WeightedCount]:
    """Yield the counts that a linear form is made of for a group."""
    for term, weight in form.weights:
        counts, groups = _question(selection, term)
        keys = [key]
        if groups is not selection.groups:
            keys = [selection.groups.within(key, groups)]
        elif term.scope is not None:
            total = selection.total_groups(term.scope)
            own = selection.groups.within(key, total)
            keys = [k for k in selection.keys if selection.groups.within(k, total) == own]
        for each in keys:
            yield (weight, *groups.counts_of(counts, each))


def _question(selection: Selection, term: Term) -> tuple[CountsBy, Groups]:
    """Return the question that has a count, and the groups that it is asked for."""
    plan, groups = selection.plan, selection.total_groups(term.scope)
    known = selection.answerer.sized and not (plan.clauses or term.clauses or groups.chosen)
    if _of_where(plan, term) and (term.scope is None or not known):
        term, groups = replace(term, scope=None), selection.groups
    query, _ = linear_query(plan, Linear(((term, 1.0),)))
    return CountsBy(query), groups


def _of_where(plan: SelectPlan, term: Term) -> bool:
    """Return whether a count is of the rows that satisfy WHERE, in a group or in several.

    With ROLLUP and the like, a sub-select is a number of its own, the same one for all of them.
    """
    if term.scope is not None and term.scope.clauses is not None and len(plan.sets) > 1:
        return False
    return set(clauses_of(plan, term.scope)) == set(plan.clauses)

"""The note on the first groups of a sorted list names the others that may belong to them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.public.estimate_table import OTHERS
from scumble.public.estimation.selecting.selected_values import SELECTED
from tests.public.sql.test_select_coverage import SCHEMA, people, truth


@cache
def _release(epsilon: float = 0.3) -> sc.Release:
    cells = sc.Histogram(["dept", "pay"], epsilon=epsilon, neighbours="replace")
    return sc.publish(people(), SCHEMA, cells, options=sc.PublishOptions(seed=2))


@pytest.mark.parametrize("number", ["COUNT(*)", "SUM(pay)", "AVG(pay > 2)"])
@pytest.mark.parametrize(("order", "sign"), [("DESC", 1), ("ASC", -1)])
@pytest.mark.parametrize("most", [1, 3])
def test_the_groups_that_may_belong_to_the_first_are_named(
    number: str, order: str, sign: int, most: int
) -> None:
    """A group is named if its interval at 1 - α/G reaches the k-th largest lower limit."""
    select = f"SELECT dept, {number} AS n FROM t GROUP BY dept"
    ends = {}
    for (dept,), each in _release().answer(f"{select} ORDER BY n").rows:
        low, high = sorted(sign * limit for limit in each.interval(1 - 0.05 / 8))
        ends[dept] = (low, high, sign * each.value)
    least = sorted((low for low, _, _ in ends.values()), reverse=True)[most - 1]
    answer = _release().answer(f"{select} ORDER BY n {order} LIMIT {most}")
    shown = {dept for (dept,), _ in answer.rows}
    rivals = [dept for dept, (_, high, _) in ends.items() if high >= least and dept not in shown]
    rivals.sort(key=lambda dept: -ends[dept][2])
    end = "largest" if sign > 0 else "smallest"
    which = f"the {end}" if most == 1 else f"among the {most} {end}"
    more = f" and {len(rivals) - 5} more" if len(rivals) > 5 else ""
    assert rivals
    named = f"these groups may be {which} too (95 %): {', '.join(rivals[:5])}{more}"
    assert answer.about == (named, SELECTED)
    assert named in repr(answer)


def test_no_other_group_is_named_where_none_can_belong() -> None:
    answer = _release(50.0).answer("SELECT pay, COUNT(*) FROM t GROUP BY 1 ORDER BY 2 DESC LIMIT 2")
    assert answer.about == ("no other group can be among the 2 largest (95 %)", SELECTED)
    all_groups = _release().answer("SELECT pay, COUNT(*) FROM t GROUP BY 1 ORDER BY 2 LIMIT 9")
    assert all_groups.about == ()


@pytest.mark.parametrize(
    "end", ["HAVING COUNT(*) > 40", "ORDER BY COUNT(*) LIMIT 2 OFFSET 1", "ORDER BY -n LIMIT 2"]
)
def test_groups_that_are_chosen_in_another_way_are_not_named(end: str) -> None:
    answer = _release().answer(f"SELECT dept, COUNT(*) AS n FROM t GROUP BY dept {end}")
    assert answer.about == (OTHERS, SELECTED)


def test_of_many_averages_the_others_are_counted_at_most() -> None:
    """The intervals of averages are slow. Those of few are computed; the others may belong too."""
    schema = sc.Schema([sc.Attribute(n, "quasi", sc.IntegerRange(0, 399)) for n in "xy"])
    rows = pa.table({"x": np.arange(4000) % 400, "y": np.arange(4000) % 7})
    pairs = sc.Marginals(["x", "y"], epsilon=1, neighbours="replace", ways=2)
    release = sc.publish(rows, schema, pairs, options=sc.PublishOptions(seed=1))
    sql = "SELECT x, AVG(y) AS mean FROM t GROUP BY x ORDER BY mean DESC LIMIT 2"
    note, shrunk = release.answer(sql).about
    assert shrunk == SELECTED
    assert note.endswith(" and up to 393 more")


def test_the_true_first_groups_are_shown_or_named() -> None:
    """In at least 95 % of releases. Chance gives 84 or fewer of 100 with probability 6e-5."""
    best = truth("SELECT pay FROM t GROUP BY pay ORDER BY COUNT(*) DESC LIMIT 2")
    held = 0
    for seed in range(100):
        cells = sc.Histogram(["pay"], epsilon=0.1, neighbours="add_remove")
        answer = sc.publish(people(), SCHEMA, cells, options=sc.PublishOptions(seed=seed)).answer(
            "SELECT pay, COUNT(*) AS n FROM t GROUP BY pay ORDER BY n DESC LIMIT 2"
        )
        shown = {str(key[0]) for key, _ in answer.rows}
        named = answer.about[0].partition("): ")[2].split(", ")
        held += {str(pay) for (pay,) in best} <= shown | {*named}
    assert held > 84


@pytest.mark.parametrize("maker", [sc.Uniform, sc.Histogram])
def test_the_average_of_a_condition_is_a_share(maker: type) -> None:
    """AVG(c) is COUNT(*) FILTER (WHERE c) / COUNT(*), and SUM(c) is the count, with their laws."""
    given = {} if maker is sc.Uniform else {"attributes": ["dept", "pay"], "neighbours": "replace"}
    options = sc.PublishOptions(seed=3)
    release = sc.publish(people(), SCHEMA, maker(epsilon=1, **given), options=options)
    conditions = ("pay > 2", "dept = 'A' OR pay = 1", "contains(dept, 'A')", "pay IN (1, 2)")
    for condition in conditions:
        count, share = (
            release.answer(f"SELECT COUNT(*) FILTER (WHERE {condition}) {rest} FROM t")
            for rest in ("", "/ COUNT(*)")
        )
        for text in (f"AVG({condition})", f"AVG(CASE WHEN {condition} THEN 1 ELSE 0 END)"):
            _alike(release.answer(f"SELECT {text} FROM t"), share)
        for text in (f"SUM({condition})", f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)"):
            _alike(release.answer(f"SELECT {text} FROM t"), count)
    by_dept = release.answer("SELECT dept, AVG(pay > 2) AS share FROM t GROUP BY dept")
    for (dept,), each in by_dept.rows:
        filtered = f"SELECT COUNT_IF(pay > 2) / COUNT(*) FROM t WHERE dept = '{dept}'"
        _alike(each, release.answer(filtered))


def _alike(found: sc.Estimate, expected: sc.Estimate) -> None:
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.interval(0.95) == pytest.approx(expected.interval(0.95), rel=1e-6)

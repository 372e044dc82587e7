"""Questions with a part that is about rows and values at once.

Under even spread a row meets each of the s values of its group with probability 1/s. With h what a
row and a value add to the answer, the sum over a group has the mean Σh / s and the variance
(Σh² - Σ(row sums)² / s - Σ(value sums)² / s + (Σh)² / s²) / (s - 1) (Hoeffding, 1951). Each of the
four terms is gathered by itself; rows of a group that agree in all that the question names are one.
"""

from __future__ import annotations

from collections.abc import Sequence

from scumble.estimators.groups_plan import GROUP, NUMBER, SIZE, Plan, key, number, where
from scumble.query import quoted

_VALUES, _ADDED = '"scumble values"', '"scumble added"'
_HOLDS, _TOTAL = '"scumble holds"', '"scumble total"'
_PAIRS = '"scumble pairs"'
_COLUMNS = ("count", "total", "count_variance", "total_variance", "covariance", "least", "most")


def moments(plan: Plan) -> str:
    """Mean, variances and covariance of the sum and of the count, for each key."""
    names = plan.query.attributes
    hidden = [quoted(name) for name in names if name in plan.evidence.sensitive]
    shown = [quoted(name) for name in names if name not in plan.evidence.sensitive]
    groups = plan.query.groups
    hidden_keys = [quoted(name) for name in groups if name in plan.evidence.sensitive]
    shown_keys = [quoted(name) for name in groups if name not in plan.evidence.sensitive]
    terms = (
        _whole(plan),
        _squared(plan, [*shown, *hidden_keys], NUMBER, _VALUES),
        _squared(plan, [*hidden, *shown_keys], _VALUES, NUMBER),
    )
    sums = ", ".join(
        f"{function}({name}) AS {name}"
        for name, function in zip(_COLUMNS, ["sum"] * 5 + ["min", "max"], strict=True)
    )
    by = " GROUP BY ALL" if groups else ""
    return (
        f"WITH {_PAIRS} AS MATERIALIZED ({_pairs(plan, shown, hidden)}) "
        f"SELECT {', '.join([*plan.keys, sums])} FROM ({' UNION ALL '.join(terms)}){by}"
    )


def _pairs(plan: Plan, shown: Sequence[str], hidden: Sequence[str]) -> str:
    """Each kind of row with each kind of value of its group, if they satisfy the question."""
    rows = (
        f"SELECT {', '.join([plan.group, *shown])}, CAST(count(*) AS DOUBLE) AS {NUMBER} "
        f"FROM view{where([*plan.about_rows, *plan.wanted])} GROUP BY ALL"
    )
    values = (
        f"SELECT {', '.join([plan.group, *hidden])}, CAST(sum({plan.weight}) AS DOUBLE) "
        f'AS {_VALUES} FROM "values"{where(plan.about_values)} GROUP BY ALL'
    )
    argument = plan.query.argument
    return (
        f"SELECT *, {number(argument) if argument else '1.0'} AS {_ADDED} FROM ({rows}) "
        f"JOIN ({values}) USING ({GROUP}) JOIN ({plan.sizes}) USING ({GROUP}){where(plan.mixed)}"
    )


def _whole(plan: Plan) -> str:
    """Σh / s, Σh² and (Σh)² / s²."""
    pairs = f"{NUMBER} * {_VALUES}"
    keys = [f"{quoted(name)} AS {key(name)}" for name in plan.query.groups]
    by_group = (
        f"SELECT {', '.join([GROUP, SIZE, *keys])}, sum({pairs}) AS {_HOLDS}, "
        f"sum({pairs} * {_ADDED}) AS {_TOTAL}, sum({pairs} * {_ADDED} * {_ADDED}) AS {NUMBER}, "
        f"min({_ADDED}) AS least, max({_ADDED}) AS most FROM {_PAIRS} GROUP BY ALL"
    )

    def part(squares: str, one: str, other: str) -> str:
        return f"({squares} + {one} * {other} / {SIZE} / {SIZE}) / greatest({SIZE} - 1, 1)"

    columns = [
        f"{_HOLDS} / {SIZE} AS count",
        f"{_TOTAL} / {SIZE} AS total",
        f"{part(_HOLDS, _HOLDS, _HOLDS)} AS count_variance",
        f"{part(NUMBER, _TOTAL, _TOTAL)} AS total_variance",
        f"{part(_TOTAL, _HOLDS, _TOTAL)} AS covariance",
        "least",
        "most",
    ]
    return f"SELECT {', '.join([*plan.keys, *columns])} FROM ({by_group})"


def _squared(plan: Plan, names: Sequence[str], times: str, weight: str) -> str:
    """The squares of the sums over the rows, or over the values, of a group, divided by s."""
    listed = ", ".join(dict.fromkeys([GROUP, SIZE, *names]))
    sums = (
        f"SELECT {listed}, any_value({times}) AS {NUMBER}, sum({weight}) AS {_HOLDS}, "
        f"sum({weight} * {_ADDED}) AS {_TOTAL} FROM {_PAIRS} GROUP BY ALL"
    )
    keys = [f"{quoted(name)} AS {key(name)}" for name in plan.query.groups]

    def part(one: str, other: str) -> str:
        return f"-{NUMBER} * {one} * {other} / {SIZE} / greatest({SIZE} - 1, 1)"

    columns = ["0", "0", part(_HOLDS, _HOLDS), part(_TOTAL, _TOTAL), part(_HOLDS, _TOTAL)]
    return f"SELECT {', '.join([*keys, *columns, 'NULL', 'NULL'])} FROM ({sums})"

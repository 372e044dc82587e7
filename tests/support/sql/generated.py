"""Random questions over the supported grammar, about the table of `test_questions`."""

from __future__ import annotations

from random import Random

CONDITIONS = [
    "age > 4", "age BETWEEN 2 AND 7", "sex = 'F'", "sex IS NOT NULL", "dept IN ('A', 'C')",
    "pay >= 2", "pay + age < 9", "NOT (dept = 'B' OR pay = 0)", "(age % 2) = 0",
    "dept IN (SELECT dept FROM depts WHERE floor_no > 1)",
    "EXISTS (SELECT 1 FROM depts AS r WHERE r.dept = t.dept AND r.floor_no <= t.pay)",
    "pay > (SELECT min(floor_no) FROM depts)",
]  # fmt: skip
NUMBERS = [
    "age",
    "pay",
    "age + pay",
    "2 * pay - 1",
    "CASE WHEN sex = 'M' THEN age END",
    "age * pay",
]
KEYS = [
    "sex",
    "dept",
    "age",
    "age // 3",
    "CASE WHEN pay > 2 THEN 'rich' ELSE 'poor' END",
    "pay > 1",
]


def aggregate(random: Random, depth: int = 0) -> str:
    """Return one number: an aggregate or arithmetic of aggregates."""
    x, y = random.choice(NUMBERS), random.choice(NUMBERS[:3])
    simple = [
        "COUNT(*)", f"COUNT({x})", f"SUM({x})", f"AVG({x})",
        f"COUNT_IF({random.choice(CONDITIONS)})",
        f"SUM({x}) FILTER (WHERE {random.choice(CONDITIONS)})",
        f"COUNT(*) FILTER (WHERE {random.choice(CONDITIONS)})",
    ]  # fmt: skip
    more = [
        f"MEDIAN({y})", f"QUANTILE_DISC({y}, 0.{random.randint(1, 9)})", f"VAR_POP({y})",
        f"STDDEV({y})", f"COVAR_POP(age, {y})", f"QUANTILE_CONT({y}, 0.{random.randint(1, 9)})",
    ]  # fmt: skip
    if depth or random.random() < 0.55:
        return random.choice(simple)
    if random.random() < 0.3:
        return random.choice(more)
    first, second = aggregate(random, 1), aggregate(random, 1)
    return random.choice(
        [
            f"{first} + {second}", f"{first} - 2 * {second}", f"100.0 * {first} / COUNT(*)",
            f"round({first}, 3)", f"{first} / nullif({second}, 0)", f"abs({first} - {second})",
        ]
    )  # fmt: skip


def question(random: Random) -> str:
    """Return one question; its last number is the size of the group."""
    items = [f"{aggregate(random)} AS n{place}" for place in range(random.choice([1, 1, 2, 3]))]
    keys = random.sample(KEYS, random.choice([0, 1, 1, 2]))
    names = [f"k{place}" for place in range(len(keys))]
    listed = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
    sql = f"SELECT {', '.join([*listed, *items, 'COUNT(*) AS size'])} FROM t"
    if random.random() < 0.6:
        sql += " WHERE " + " AND ".join(random.sample(CONDITIONS, random.choice([1, 1, 2])))
    if keys:
        form = random.choice(["{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"])
        sql += f" GROUP BY {form.format(', '.join(names))}"
        if random.random() < 0.3:
            sql += f" HAVING COUNT(*) > {random.randint(2, 12)}.5"
        if random.random() < 0.4:
            sql += f" ORDER BY {', '.join(names)}"
    return sql

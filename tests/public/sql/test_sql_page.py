"""The page about SQL is correct: its questions run, and its error messages are as shown."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from scumble.model.errors import QueryError
from scumble.model.schema.schema import Schema
from scumble.public.estimation.selecting.selection import check_plan
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import read_select, read_select_with
from scumble.public.sql.select_plan import SelectPlan

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
AGES = pa.table({"age": [20, 30], "young": [True, False]})


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)


SCHEMA = Schema.loads(blocks("toml")[0])


def test_a_question_on_the_page_runs(subtests: pytest.Subtests) -> None:
    for sql in blocks("sql"):
        with subtests.test(sql=sql):
            engine = Sandbox(SCHEMA, {"ages": AGES})
            query = read_select_with(sql, SCHEMA, engine)
            if isinstance(query, SelectPlan):
                check_plan(query, engine)
                assert query.items
            else:
                engine.check(query)
                engine.evaluate(query.expressions, query.attributes)


@pytest.mark.parametrize("shown", blocks("text"))
def test_a_refusal_on_the_page_reads_as_shown(shown: str) -> None:
    sql = shown.splitlines()[1].removeprefix("  ")
    with pytest.raises(QueryError) as caught:
        read_select(sql, SCHEMA)
    assert str(caught.value) == shown

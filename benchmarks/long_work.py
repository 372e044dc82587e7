"""Work that takes a while: a comparison of methods, many questions given as SQL texts, the plan of
a workload, and a limit on the rows of each person.

Figures are processor seconds of this process, or of a child, over the seconds that are allowed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_most
from benchmarks.people import SCHEMA
from scumble.compare.workloads import selections
from scumble.demo.census import census
from scumble.model.schema.schema import Schema
from scumble.public.sql.parse import read_select
from scumble.public.sql.templates import TemplateParser

TEXTS, TEXT_SECONDS = 100_000, 8
PEOPLE, COMPARE_SECONDS = 1_300, 10
ADULT = "adult_train_complete_30162.csv"
ADULT_SECONDS = 60
PREFIXES, PLAN_SECONDS = 4_096, 20
ROWS, PERSON_SECONDS = 10_000_000, 4
MANY = "uniform,subset,frapp,alphabeta,partition,anatomy,aroma,histogram,marginals"
FIVE = "uniform,subset,aroma,partition,anatomy"
_COMMAND = [sys.executable, "-c", "from scumble.cli.app import main; main()"]


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        persons = [_persons(Path(folder), kind) for kind in ("number", "text")]
        return [_texts(), _prefixes(), _small(Path(folder)), *_adult(Path(folder)), *persons]


def _texts() -> dict[str, Any]:
    schema = Schema.loads(SCHEMA)
    texts = [query.text for query in selections(schema, ways=3, most=TEXTS, seed=1).queries]
    some = texts[:: len(texts) // 2000]
    alone = _cpu(lambda: [read_select(text, schema) for text in some]) / len(some)
    parser = TemplateParser(schema)
    spent = _cpu(lambda: [parser.read(text) for text in texts]) / len(texts)
    detail = f"{spent * TEXTS:.1f} s CPU; {alone * TEXTS:.1f} s where each is parsed alone"
    words = f"parsing {TEXTS:,} counts given as texts / {TEXT_SECONDS} s"
    return at_most(words, 1, spent * TEXTS / TEXT_SECONDS, detail)


def _prefixes() -> dict[str, Any]:
    """The sums from which all prefixes of one attribute are best answered, with Laplace noise."""
    schema = Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, PREFIXES - 1))])
    queries = [f"SELECT COUNT(*) FROM t WHERE a <= {last}" for last in range(PREFIXES)]
    method = sc.Workload(["a"], queries=queries, epsilon=1, neighbours="add_remove")
    spent = _cpu(lambda: method.forecast(schema))
    words = f"plan of a workload of {PREFIXES:,} prefixes, without δ / {PLAN_SECONDS} s"
    return at_most(words, 1, spent / PLAN_SECONDS, f"{spent:.1f} s CPU")


def _small(folder: Path) -> dict[str, Any]:
    people, schema = census(PEOPLE)
    csv.write_csv(people, folder / "people.csv")
    (folder / "people.toml").write_text(schema.dumps(), "utf-8")
    spent = _compared(folder, folder / "people.csv", MANY, "0.5,1,2", 3)
    words = f"compare, {PEOPLE:,} rows, 9 methods x 3 settings x 3 / {COMPARE_SECONDS} s"
    return at_most(words, 1, spent / COMPARE_SECONDS, f"{spent:.1f} s CPU, start included")


def _adult(folder: Path) -> list[dict[str, Any]]:
    """Adult, if SCUMBLE_DATA names the folder of real tables."""
    source = Path(os.environ.get("SCUMBLE_DATA", "../shared/data")) / ADULT
    if not source.is_file():
        return []
    infer = ["schema", "infer", str(source), "--sensitive", "occupation"]
    subprocess.run([*_COMMAND, *infer, "-o", str(folder / "people.toml"), "--force"], check=True)
    spent = _compared(folder, source, FIVE, "0.5,1,2,3", 10)
    words = f"compare, Adult, 5 methods x 4 settings x 10 / {ADULT_SECONDS} s"
    return [at_most(words, 1, spent / ADULT_SECONDS, f"{spent:.1f} s CPU, start included")]


def _persons(folder: Path, kind: str) -> dict[str, Any]:
    """A histogram of at most three rows of each of three million persons, known by a number, or by
    a text of ten letters.
    """
    random = np.random.default_rng(0)
    ids = pa.array(random.integers(0, ROWS // 3, ROWS))
    if kind == "text":
        ids = pc.utf8_lpad(ids.cast(pa.string()), 10, "P")
    columns = {"id": ids, "age": random.integers(0, 100, ROWS)}
    pq.write_table(pa.table(columns), folder / "visits.parquet", row_group_size=122_880)
    age = sc.Attribute("age", "quasi", sc.IntegerRange(0, 99))
    schema = sc.Schema([sc.Attribute("id", "identifier", None), age])
    limited = sc.Histogram(["age"], epsilon=1, neighbours="add_remove", person="id", contribution=3)
    spent = _cpu(lambda: sc.publish(folder / "visits.parquet", schema, limited))
    words = f"histogram of {ROWS // 10**6}M rows, 3 of each person by {kind} / {PERSON_SECONDS} s"
    return at_most(words, 1, spent / PERSON_SECONDS, f"{spent:.1f} s CPU")


def _compared(folder: Path, source: Path, methods: str, losses: str, repeats: int) -> float:
    """Return the processor seconds of the command and of its workers."""
    options = ["--schema", str(folder / "people.toml"), "-m", methods, "-e", losses]
    options += ["--repeats", str(repeats), "-o", str(folder / "page.html"), "--force"]
    before = os.times()
    subprocess.run([*_COMMAND, "compare", str(source), *options], check=True, capture_output=True)
    after = os.times()
    user, system = (after[place] - before[place] for place in (2, 3))
    return user + system


def _cpu(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started

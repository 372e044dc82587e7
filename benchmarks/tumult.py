"""A private GROUP BY of 10M rows beside Tumult Analytics, both on Spark with two cores.

Tumult lives in an environment of its own, which SCUMBLE_TUMULT names by its Python
(`pip install tmlt-analytics==0.21 pyspark==3.5.9`, and Java 17); without it nothing is measured.
Every run is a new process. Seconds are those of the processors, of all processes, Java among them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
from contextlib import suppress
from typing import Any

from benchmarks.measure import at_least
from benchmarks.people import REGIONS, SCHEMA, SEXES, folder, table

ROWS = 10_000_000
REPEATS = 3
# scumble should take at most the time of its peer.
TARGET = 1.0
_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux

TUMULT = f"""
import sys
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = spark.config("spark.log.level", "ERROR").getOrCreate()
if sys.argv[2] == "empty":
    spark.range(2).count()
    sys.exit()
session = Session.from_dataframe(
    PureDPBudget(1), "people", spark.read.parquet(sys.argv[1]), protected_change=AddOneRow()
)
keys = KeySet.from_dict({{"age": list(range(100)), "sex": {SEXES}, "region": {REGIONS}}})
query = QueryBuilder("people").groupby(keys).count()
found = session.evaluate(query, PureDPBudget(1)).collect()
assert len(found) == 4000, len(found)
"""
SCUMBLE = f"""
import sys
import scumble as sc
schema = sc.Schema.loads({SCHEMA!r})
counts = sc.Histogram(["age", "sex", "region"], epsilon=1, neighbours="add_remove")
if sys.argv[2] == "local":
    sc.publish(sys.argv[1], schema, counts)
    sys.exit()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = spark.config("spark.io.encryption.enabled", "true").config("spark.log.level", "ERROR")
spark = spark.getOrCreate()
if sys.argv[2] == "empty":
    spark.range(2).count()
    sys.exit()
sc.publish(sys.argv[1], schema, counts, options=sc.PublishOptions(engine=sc.Spark(spark)))
"""


def run() -> list[dict[str, Any]]:
    python = os.environ.get("SCUMBLE_TUMULT")
    if python is None or shutil.which("java") is None:
        return []
    path = str(table(ROWS))
    rivals = {
        "Tumult": (python, TUMULT, "work"),
        "Tumult, empty": (python, TUMULT, "empty"),
        "scumble on Spark": (sys.executable, SCUMBLE, "work"),
        "scumble on Spark, empty": (sys.executable, SCUMBLE, "empty"),
        "scumble, one process": (sys.executable, SCUMBLE, "local"),
    }
    spent: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(REPEATS):
        for name, (program, text, what) in rivals.items():
            spent[name].append(_seconds([program, "-c", text, path, what]))
    found = {name: statistics.median(times) for name, times in spent.items()}
    detail = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.items())
    words = f"GROUP BY of {ROWS // 10**6}M rows, 4,000 groups: CPU of Tumult / of"
    return [
        at_least(f"{words} {name}", TARGET, found["Tumult"] / found[name], detail)
        for name in ("scumble on Spark", "scumble, one process")
    ]


def _seconds(command: list[str]) -> float:
    """Processor seconds of a program and of all processes that it has started."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1)  # Java outlives its parent, and becomes our child
    before = _children()
    own = {**os.environ, "PYSPARK_PYTHON": command[0]}
    subprocess.run(command, check=True, capture_output=True, env=own, cwd=folder())
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

"""The risk of a table of a million rows: all measures of the audit against three of pycanon's.

pycanon lives in the environment of peers (SCUMBLE_PEERS names its Python). It takes the better part
of a minute, so it runs once. All figures are processor time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_least
from scumble.audit.table_risk import anonymity, classes, diversity
from scumble.private.tables.rows import Rows

ROWS = 1_000_000
DOMAINS = {"age": 73, "sex": 2, "education": 16, "origin": 5, "occupation": 14}
QUASI = ["age", "sex", "education", "origin"]
NAME = "risk of a table, all measures / pycanon's k, l and t"

PEER = f"""
import json, time
import numpy as np
try:
    import pandas as pd
    from pycanon import anonymity
except ImportError as error:
    print(json.dumps({{"missing": str(error)}}))
    raise SystemExit
rng = np.random.default_rng(0)
table = pd.DataFrame({{name: rng.integers(0, size, {ROWS}) for name, size in {DOMAINS}.items()}})
begin = time.process_time()
k = anonymity.k_anonymity(table, {QUASI})
l = anonymity.l_diversity(table, {QUASI}, ["occupation"])
t = anonymity.t_closeness(table, {QUASI}, ["occupation"])
print(json.dumps({{"seconds": time.process_time() - begin, "k": int(k), "l": int(l)}}))
"""


def run() -> list[dict[str, Any]]:
    python = os.environ.get("SCUMBLE_PEERS", ".peers/bin/python")
    try:
        done = subprocess.run([python, "-c", PEER], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return [at_least(NAME, 50, float("nan"), "not measured: no peer in the environment")]
    theirs = json.loads(done.stdout)
    if "missing" in theirs:
        return [at_least(NAME, 50, float("nan"), f"not measured: {theirs['missing']}")]
    seconds, k, l = ours()  # noqa: E741  # the letter that everybody uses for it
    if (k, l) != (theirs["k"], theirs["l"]):
        return [at_least(NAME, 50, float("nan"), "the two disagree about k and l")]
    detail = f"{seconds:.2f} s against {theirs['seconds']:.1f} s; both find k = {k}, l = {l}"
    return [at_least(NAME, 50, theirs["seconds"] / seconds, detail)]


def ours() -> tuple[float, int, int]:
    """Median processor seconds, and what was found."""
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, size, ROWS) for name, size in DOMAINS.items()})
    schema = sc.Schema(
        tuple(
            sc.Attribute(
                name, "quasi" if name in QUASI else "sensitive", sc.IntegerRange(0, size - 1)
            )
            for name, size in DOMAINS.items()
        )
    )
    times = []
    for _ in range(5):
        begin = time.process_time()
        found = classes(Rows(table, schema), QUASI, "occupation")
        people, values = anonymity(found), diversity(found, ordered=False)
        times.append(time.process_time() - begin)
    return statistics.median(times), people.k, values.l

"""Keys that are named and items that are found, against peers at equal promises.

The peers live in an environment of their own (SCUMBLE_PEERS names its Python). opendp has Laplace
thresholds and a noisy top k, pipeline-dp the truncated geometric selection of partitions. All get
the same table: 20,000 made-up people with keys of a Zipf law, of which each keeps κ at random.
dp-mobility-report has an environment and a benchmark of its own (`mobility`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from benchmarks.measure import at_least, at_most
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.top import Candidates, select_top

PEOPLE, EPSILON, DELTA, RUNS = 20_000, 1.0, 1e-6, 10
KEYS = (1, 10)
TOP, TOP_EPSILON = 50, 0.2
PEER = """
import json, sys
given = json.load(sys.stdin)
kind, counts, epsilon, delta = (given[name] for name in ("kind", "counts", "epsilon", "delta"))
most, runs = given["most"], given["runs"]
try:
    if kind == "pipeline-dp":
        import pipeline_dp
        from pipeline_dp import partition_selection
        chosen = pipeline_dp.PartitionSelectionStrategy.TRUNCATED_GEOMETRIC
        made = partition_selection.create_partition_selection_strategy(chosen, epsilon, delta, most)
        found = [sum(made.should_keep(count) for count in row) for row in counts]
    else:
        import opendp.prelude as dp
        dp.enable_features("contrib")
        whole = dp.atom_domain(T="i32")
        if kind == "opendp threshold":
            space = dp.map_domain(whole, whole), dp.l01inf_distance(dp.absolute_distance(T="i32"))
            threshold = 1
            while True:
                made = dp.m.make_laplace_threshold(*space, most / epsilon, threshold)
                loss, rare = made.map((most, most, 1))
                if loss <= epsilon * (1 + 1e-9) and rare <= delta:
                    break
                threshold += max(1, threshold // 100)
            found = [len(made(dict(enumerate(row)))) for row in counts]
        else:
            space = dp.vector_domain(whole), dp.linf_distance(T="i32", monotonic=True)
            made = dp.m.make_noisy_top_k(*space, dp.max_divergence(), most, most / epsilon)
            assert made.map(1) <= epsilon * (1 + 1e-9)
            found = [made(row) for row in counts]
    print(json.dumps({"found": found}))
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
"""


def run() -> list[dict[str, Any]]:
    people, keys = _people()
    results = []
    for most in KEYS:
        ours = np.mean([_named(people, keys, most, seed) for seed in range(RUNS)])
        counts = [_kept(people, keys, most, seed) for seed in range(RUNS)]
        for kind in ("pipeline-dp", "opendp threshold"):
            name = f"keys named, {most} of a person / {kind}"
            results.append(_against(name, kind, counts, most, lambda f, o=ours: o / np.mean(f)))
    results.append(_top(keys))
    return results


def _top(keys: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The share of the most frequent keys that is missed, by the same one-shot noise."""
    counts = np.bincount(keys)
    best = set(np.argsort(-counts, kind="stable")[:TOP].tolist())
    source, epsilon = Keystream(0), Fraction(TOP_EPSILON)
    missed = []
    for _ in range(20 * RUNS):
        found = select_top(source, Candidates.listed(counts), TOP, sensitivity=1, epsilon=epsilon)
        missed.append(len(best - set(found.tolist())))
    rows = [counts.tolist()] * (20 * RUNS)

    def ratio(theirs: list[list[int]]) -> float:
        return float(np.mean(missed) / np.mean([len(best - set(each)) for each in theirs]))

    name = f"missed of the {TOP} most frequent keys / opendp top k"
    return _against(name, "opendp top", rows, TOP, ratio, epsilon=TOP_EPSILON, least=False)


def _against(
    name: str,
    kind: str,
    counts: list[list[int]],
    most: int,
    ratio: Callable[[Any], Any],
    *,
    epsilon: float = EPSILON,
    least: bool = True,
) -> dict[str, Any]:
    """Ask the peer; one that is not there is a missed target that says so."""
    target = at_least if least else at_most
    goal = 1 if least else 1.1
    python = os.environ.get("SCUMBLE_PEERS", ".peers/bin/python")
    given = {"kind": kind, "counts": counts, "epsilon": epsilon, "delta": DELTA, "most": most}
    text = json.dumps({**given, "runs": RUNS})
    try:
        done = subprocess.run([python, "-c", PEER], input=text, capture_output=True, text=True)
    except FileNotFoundError:
        return target(name, goal, float("nan"), "not measured: there is no environment of peers")
    said = json.loads(done.stdout or '{"missing": "the peer failed"}')
    if "missing" in said:
        return target(name, goal, float("nan"), f"not measured: {said['missing']}")
    promise = f"ε = {epsilon:g}" + (f", δ = {DELTA:g}" if least else "")
    return target(name, goal, float(ratio(said["found"])), promise)


def _people() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """People and their keys, at most 20 each, all pairs different."""
    draw = np.random.default_rng(0)
    people = np.repeat(np.arange(PEOPLE), draw.integers(1, 21, PEOPLE))
    keys = draw.zipf(1.3, len(people)) % 5_000
    pairs = np.unique(np.column_stack([people, keys]), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _kept(people: Any, keys: Any, most: int, seed: int) -> list[int]:
    """The numbers of people by key, where each keeps at most `most` keys at random."""
    words = np.random.default_rng(seed).random(len(people))
    order = np.lexsort((words, people))
    starts = np.flatnonzero(np.r_[True, people[1:] != people[:-1]])
    rank = np.arange(len(people)) - np.repeat(starts, np.diff(np.r_[starts, len(people)]))
    found = np.bincount(keys[order][rank < most])
    return [int(count) for count in found[found > 0]]


def _named(people: Any, keys: Any, most: int, seed: int) -> int:
    schema = sc.Schema.loads(
        'unit = "row"\n[attributes.who]\nrole = "identifier"\n'
        '[attributes.key]\nrole = "sensitive"\ntype = "category"\nopen = true\n'
    )
    mechanism = sc.Keys(
        "key",
        keys=most,
        person="who",
        epsilon=EPSILON,
        delta=DELTA,
        counts=False,
        neighbours="add_remove",
    )
    table = pa.table({"who": people, "key": [str(key) for key in keys]})
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed))
    return int(pq.read_metadata(release.folder / "keys.parquet").num_rows)

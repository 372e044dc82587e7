"""Origins and destinations of made-up trips against dp-mobility-report, at the same ε.

dp-mobility-report 0.2.11 does not import with the pandas of today, so its Python is one of its own
(SCUMBLE_MOBILITY names it): pandas 1.5.3, numpy 1.23.5, geopandas below 0.13 and what it requires,
with Python 3.10 or 3.11. Both spend all of ε on the number of trips between the cells of a public
grid, one trip of a person. The ratio is that of the total absolute errors over all pairs of cells.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from benchmarks.measure import at_most

TRIPS, GRID, EPSILON, RUNS = 5_000, 8, 1.0, 5
NAME = f"{TRIPS:,} trips, origin and destination: error / dp-mobility-report"
PEER = """
import json, sys, warnings
warnings.filterwarnings("ignore")
given = json.load(sys.stdin)
out, sys.stdout = sys.stdout, sys.stderr
try:
    import geopandas, pandas
    from dp_mobility_report import DpMobilityReport
    from shapely.geometry import box
except ImportError as error:
    json.dump({"missing": str(error)}, out)
    sys.exit()
size = given["grid"]
rows = [(u, u, x, y, k) for u, trip in enumerate(given["trips"]) for k, (x, y) in enumerate(trip)]
table = pandas.DataFrame(rows, columns=["uid", "tid", "lng", "lat", "k"])
table["datetime"] = pandas.Timestamp("2020-01-06") + pandas.to_timedelta(table.k, unit="m")
names = [f"x{i}y{j}" for i in range(size) for j in range(size)]
boxes = [box(i, j, i + 1, j + 1) for i in range(size) for j in range(size)]
tiles = geopandas.GeoDataFrame(
    {"tile_id": names, "tile_name": names}, geometry=boxes, crs="EPSG:4326"
)
found = []
for _ in range(given["runs"]):
    report = DpMobilityReport(
        table.drop(columns="k"), tiles, privacy_budget=given["epsilon"], user_privacy=True,
        max_trips_per_user=1, analysis_selection=["od_flows"], disable_progress_bar=True,
    )
    flows = report.report["od_flows"].data
    found.append([[o, d, float(f)] for o, d, f in zip(flows.origin, flows.destination, flows.flow)])
json.dump({"found": found}, out)
"""


def run() -> list[dict[str, Any]]:
    trips = _trips()
    python = os.environ.get("SCUMBLE_MOBILITY", ".peers-mobility/bin/python")
    given = {"trips": trips, "grid": GRID, "epsilon": EPSILON, "runs": RUNS}
    command = [python, "-c", PEER]
    try:
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
    except FileNotFoundError:
        return [at_most(NAME, 1, float("nan"), f"not measured: there is no {python}")]
    said = json.loads(done.stdout or '{"missing": "the peer failed"}')
    if "missing" in said:
        return [at_most(NAME, 1, float("nan"), f"not measured: {said['missing']}")]
    cells = [[f"x{int(x)}y{int(y)}" for x, y in trip] for trip in trips]
    truth = Counter((trip[0], trip[-1]) for trip in cells)
    theirs = _error(truth, [{(o, d): n for o, d, n in each} for each in said["found"]])
    ours = _error(truth, [_published(cells, seed) for seed in range(RUNS)])
    told = f"ε = {EPSILON:g}, {ours:,.0f} against {theirs:,.0f}, {RUNS} releases"
    return [at_most(NAME, 1, ours / theirs, told)]


def _trips() -> list[list[tuple[float, float]]]:
    """Straight trips of 2 to 5 points between few cells of many homes and few places of work."""
    draw = np.random.default_rng(5)
    homes, works = (draw.dirichlet(np.full(GRID**2, share)) for share in (0.1, 0.05))
    found = []
    for _ in range(TRIPS):
        ends = [np.divmod(draw.choice(GRID**2, p=each), GRID) for each in (homes, works)]
        first, last = (np.array(each) + draw.random(2) for each in ends)
        steps = np.linspace(0, 1, int(draw.integers(2, 6)))
        found.append([tuple(((1 - step) * first + step * last).tolist()) for step in steps])
    return found


def _published(cells: list[list[str]], seed: int) -> dict[tuple[str, str], float]:
    names = [f"x{i}y{j}" for i in range(GRID) for j in range(GRID)]
    schema = sc.Schema.loads(
        f'[attributes.trip]\nrole = "sensitive"\ntype = "sequence"\nvalues = {names}\n'
    )
    ends = '"first(trip)", "last(trip)"'
    mechanism = sc.Sparse(["first(trip)", "last(trip)"], epsilon=EPSILON, neighbours="add_remove")
    release = sc.publish(
        pa.table({"trip": cells}), schema, mechanism, options=sc.PublishOptions(seed=seed)
    )
    answer = release.answer(f"SELECT {ends}, COUNT(*) FROM t GROUP BY {ends}")
    return {(first, last): each.value for (first, last), each in answer}


def _error(truth: Counter[tuple[str, str]], runs: list[dict[tuple[str, str], float]]) -> float:
    """Return the mean over the runs of the sum of absolute errors."""
    totals = [
        sum(abs(run.get(pair, 0.0) - truth[pair]) for pair in set(run) | set(truth)) for run in runs
    ]
    return float(np.mean(totals))

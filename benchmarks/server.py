"""The server under load: 32 connections with new questions, repeats and costs.

Beside it, 32 threads ask the same database in one process. A server writes every answer to the
disk before it gives it, so the disk's time to keep a write limits both.
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.measure import at_least, at_most
from scumble.demo.census import census
from scumble.private.database.database import Database
from scumble.server.tokens import TokenStore

PEOPLE = 100_000
CLIENTS = 32
SECONDS = 4.0
ATTRIBUTES = ["age", "income", "condition"]
RUN = "from scumble.cli.app import main; main()"


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="scumble-bench-") as work:
        folder = Path(work)
        table, schema = census(PEOPLE)
        pq.write_table(table, folder / "people.parquet")
        for name in ("served", "local"):
            Database.create(
                folder / name,
                folder / "people.parquet",
                schema,
                epsilon=100,
                noise=100_000,
                attributes=ATTRIBUTES,
            ).close()
        local = _local(folder)
        with _Server(folder) as server:
            new, late = _load(server.clients(lambda rng: ("answer", question(rng))))
            repeats, _ = _load(server.clients(lambda _: ("answer", question(random.Random(1)))))
            costs, _ = _load(server.clients(lambda rng: ("cost", question(rng))))
    detail = f"{new:,.0f} answers/s, in one process {local:,.0f}/s; p99 {late:.0f} ms"
    return [
        at_least(f"{CLIENTS} connections, new answers/s / 400", 1, new / 400, detail),
        at_least("answers/s over HTTP / in one process", 0.6, new / local, detail),
        at_most("p99 of an answer, in ms / 150", 1, late / 150, detail),
        at_least("repeats/s / 1,500", 1, repeats / 1500, f"{repeats:,.0f} repeats/s"),
        at_least("costs/s / 1,500", 1, costs / 1500, f"{costs:,.0f} costs/s"),
    ]


def question(rng: random.Random) -> str:
    """Return a count over ranges that hardly anybody asked before."""
    low, rich = rng.randrange(18, 85), rng.randrange(0, 100_000, 10_000)
    return (
        f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {rng.randrange(low, 91)} "
        f"AND income >= {rich} AND condition <> '{rng.choice(['Asthma', 'Cancer', 'Allergy'])}'"
    )


def _local(folder: Path) -> float:
    """Return the answers per second of 32 threads in this process."""
    with Database.open(folder / "local", folder / "people.parquet") as database:

        def client(seed: int) -> Callable[[], None]:
            rng = random.Random(seed)
            return lambda: database.answer(question(rng)) and None

        return _load([client(seed) for seed in range(CLIENTS)])[0]


def _load(clients: list[Callable[[], None]]) -> tuple[float, float]:
    """Call all clients again and again; return calls per second, and the 99th percentile in ms."""
    times: list[list[float]] = [[] for _ in clients]
    start = threading.Barrier(len(clients) + 1)

    def work(place: int) -> None:
        start.wait()
        end = time.monotonic() + SECONDS
        while (begun := time.monotonic()) < end:
            clients[place]()
            times[place].append(time.monotonic() - begun)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(clients))]
    for thread in threads:
        thread.start()
    start.wait()
    for thread in threads:
        thread.join()
    every = [each for found in times for each in found]
    return len(every) / SECONDS, 1000 * float(np.quantile(every, 0.99))


class _Server:
    """A server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        (folder / "server.toml").write_text(
            '[server]\nfolder = "state"\naddress = "127.0.0.1:8479"\n'
            "[limits]\nrequests = 1000000\n"
            '[datasets.people]\ndatabase = "served"\nsource = "people.parquet"\n'
        )
        self._token, _ = TokenStore(folder / "state").create("analyst", "load")
        command = [sys.executable, "-c", RUN, "serve", str(folder / "server.toml"), "--quiet"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def clients(self, make: Callable[[random.Random], tuple[str, str]]) -> list[Callable[[], None]]:
        return [self._client(seed, make) for seed in range(CLIENTS)]

    def _client(
        self, seed: int, make: Callable[[random.Random], tuple[str, str]]
    ) -> Callable[[], None]:
        connection = http.client.HTTPConnection("127.0.0.1", 8479, timeout=60)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        rng = random.Random(1000 + seed)

        def call() -> None:
            verb, sql = make(rng)
            body = json.dumps({"sql": sql})
            connection.request("POST", f"/api/v1/datasets/people/{verb}", body, headers)
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status

        return call

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

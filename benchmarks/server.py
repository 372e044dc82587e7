"""The server under load: 32 connections with new questions, repeats and costs.

Beside it, 32 threads ask the same database in one process. A server writes every answer to the
disk before it gives it, so the disk's time to keep a write limits both.
"""

from __future__ import annotations

import json
import os
import random
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
SLOW = 500
PORT = 8479
SECONDS = 4.0
ATTRIBUTES = ["age", "income", "condition"]
Make = Callable[[random.Random], tuple[str, dict[str, Any]]]  # a verb, and the body of a request
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
        with Server(folder) as server:
            new, late, of_new = server.load(lambda rng: ("answer", {"sql": question(rng)}))
            repeats, before, of_repeat = server.load(_repeated)
            costs, _, of_cost = server.load(lambda rng: ("cost", {"sql": question(rng)}))
            with server.slow_connections(SLOW):
                _, beside, _ = server.load(_repeated)
    spent = f"CPU of the server: {of_new:.2f} ms an answer, {of_repeat:.2f} a repeat, "
    spent += f"{of_cost:.2f} a cost"
    detail = f"{new:,.0f} answers/s, in one process {local:,.0f}/s; p99 {late:.0f} ms; {spent}"
    abuse = f"p99 of a repeat {beside:.0f} ms beside {SLOW} slow connections, {before:.0f} without"
    return [
        at_least(f"{CLIENTS} connections, new answers/s / 400", 1, new / 400, detail),
        at_least("answers/s over HTTP / in one process", 0.6, new / local, detail),
        at_most("p99 of an answer, in ms / 150", 1, late / 150, detail),
        at_least("repeats/s / 1,500", 1, repeats / 1500, f"{repeats:,.0f} repeats/s"),
        at_least("costs/s / 1,500", 1, costs / 1500, f"{costs:,.0f} costs/s"),
        at_most(f"p99 beside {SLOW} slow connections / without", 2, beside / before, abuse),
    ]


def question(rng: random.Random) -> str:
    """Return a count over ranges that hardly anybody asked before."""
    low, rich = rng.randrange(18, 85), rng.randrange(0, 100_000, 10_000)
    return (
        f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {rng.randrange(low, 91)} "
        f"AND income >= {rich} AND condition <> '{rng.choice(['Asthma', 'Cancer', 'Allergy'])}'"
    )


def _repeated(_: random.Random) -> tuple[str, dict[str, Any]]:
    return "answer", {"sql": question(random.Random(1))}


def _local(folder: Path) -> float:
    """Return the answers per second of 32 threads in this process."""
    with Database.open(folder / "local", folder / "people.parquet") as database:

        def client(seed: int) -> Callable[[], None]:
            rng = random.Random(seed)
            return lambda: database.answer(question(rng)) and None

        return load_threads([client(seed) for seed in range(CLIENTS)])[0]


def load_threads(clients: list[Callable[[], None]]) -> tuple[float, float]:
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


def _exchange(requests: list[Iterator[bytes]]) -> tuple[float, float]:
    """Send the requests of each connection one after the other, all connections at once.

    Return responses per second, and the 99th percentile of their times in ms. It is one thread that
    waits for all connections, so that the client takes little of the cores that the server needs.
    """
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        end = time.monotonic() + SECONDS
        for each in requests:
            opened = socket.create_connection(("127.0.0.1", PORT), 60)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(opened, selectors.EVENT_READ, _Exchange(opened, each))
        while selector.get_map():
            for key, _ in selector.select(60):
                if not key.data.received(times, end):
                    selector.unregister(key.fileobj)
                    key.data.connection.close()
    return len(times) / SECONDS, 1000 * float(np.quantile(times, 0.99))


class _Exchange:
    """A connection with one request under way."""

    def __init__(self, connection: socket.socket, requests: Iterator[bytes]) -> None:
        self.connection, self._requests = connection, requests
        self._send()

    def _send(self) -> None:
        self._content = b""
        self._begun = time.monotonic()
        self.connection.sendall(next(self._requests))

    def received(self, times: list[float], end: float) -> bool:
        """Read what has come; note the time of a whole response, and whether another follows."""
        self._content += self.connection.recv(1 << 16)
        head, _, body = self._content.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is None or len(body) < int(length[1]):
            assert self._content, "the server closed a connection"
            return True
        assert head.startswith(b"HTTP/1.1 200 "), self._content
        now = time.monotonic()
        times.append(now - self._begun)
        if now < end:
            self._send()
        return now < end


class Server:
    """A server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        (folder / "server.toml").write_text(
            f'[server]\nfolder = "state"\naddress = "127.0.0.1:{PORT}"\n'
            "[limits]\nrequests = 1000000\n"
            '[datasets.people]\ndatabase = "served"\nsource = "people.parquet"\n'
        )
        self._token, _ = TokenStore(folder / "state").create("analyst", "load")
        command = [sys.executable, "-c", RUN, "serve", str(folder / "server.toml"), "--quiet"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def load(self, make: Make) -> tuple[float, float, float]:
        """Return requests per second, their 99th percentile and the server's CPU of one, in ms."""
        begun = self._cpu()
        rate, late = _exchange([self._requests(seed, make) for seed in range(CLIENTS)])
        return rate, late, 1000 * (self._cpu() - begun) / (rate * SECONDS)

    def _cpu(self) -> float:
        """Return the seconds that the process of the server has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def slow_connections(self, number: int) -> Iterator[None]:
        """Connections that send the head of a request byte by byte, and never end it."""
        opened = [socket.create_connection(("127.0.0.1", PORT), 60) for _ in range(number)]
        for each in opened:
            each.sendall(b"POST /api/v1/datasets/people/answer HTTP/1.1\r\nX-Slow: ")
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(1.0):
                for each in opened:
                    with suppress(OSError):  # the server ends those that take too long
                        each.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            for each in opened:
                each.close()

    def _requests(self, seed: int, make: Make) -> Iterator[bytes]:
        """Yield the requests of one connection."""
        rng = random.Random(1000 + seed)
        while True:
            verb, content = make(rng)
            body = json.dumps(content)
            yield (
                f"POST /api/v1/datasets/people/{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

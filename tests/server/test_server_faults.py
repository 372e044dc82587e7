"""A server that is killed, that runs out of disk, and that many clients ask at once."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

import httpx
import pytest

from scumble.model.errors import ParameterError
from scumble.private.database.database import Database
from scumble.private.database.plan import AskOptions
from scumble.private.journal.sqlite_store import HeadFile
from scumble.server.config import Limits
from scumble.server.serve import listen
from scumble.server.service import Service
from scumble.server.tokens import TokenStore
from tests.support.servers import COUNT, Front, free_port, make_settings, server_process


@pytest.fixture
def served(tmp_path):
    """A configuration file with one database, and the token of an analyst."""
    settings = make_settings(tmp_path, epsilon=100, noise=1000)
    (tmp_path / "server.toml").write_text(
        f'[server]\nfolder = "{settings.folder}"\n[limits]\nrequests = 100000\n'
        f'[datasets.people]\ndatabase = "{tmp_path / "people"}"\n'
        f'source = "{tmp_path / "people.parquet"}"\n'
    )
    text, _ = TokenStore(settings.folder).create("analyst", "Ada")
    return tmp_path, text


def _questions(rng):
    low = rng.randrange(18, 85)
    return f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {rng.randrange(low, 91)}"


def _client(base, token) -> httpx.Client:
    """A client without TLS, whose certificates take long to load."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=base, headers=headers, timeout=90, verify=False)


def _ask(port, token, sql, key):
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, verify=False
    ) as http:
        body = {"sql": sql, "key": key}
        response = http.post("/api/v1/datasets/people/answer", json=body)
    return response.json()["value"] if response.status_code == 200 else None


def _kill_often(served, kills: int, seed: int) -> None:
    """Kill a server under load: every answer that was given is in the journal, once."""
    folder, token = served
    rng = random.Random(seed)
    given: dict[str, tuple[str, float]] = {}
    for _ in range(kills):
        port = free_port()
        with server_process(folder, port) as process:
            for key, (sql, value) in rng.sample(sorted(given.items()), min(3, len(given))):
                assert _ask(port, token, sql, key) == value
            stop = threading.Event()

            def client(name: int, port: int = port, stop: threading.Event = stop) -> None:
                own = random.Random(name)
                while not stop.is_set():
                    sql, key = _questions(own), f"{own.random()}"
                    with suppress(httpx.HTTPError):
                        value = _ask(port, token, sql, key)
                        if value is not None:
                            given[key] = (sql, value)

            threads = [
                threading.Thread(target=client, args=(rng.randrange(1 << 30),)) for _ in range(4)
            ]
            before = len(given)
            for thread in threads:
                thread.start()
            # A busy machine may need seconds for the first answer of this life.
            while len(given) == before:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
            stop.set()
            for thread in threads:
                thread.join(60)
    with Database.open(folder / "people", folder / "people.parquet") as database:
        assert database.verify() == []
        stored = {each.key: each.sql for each in database.history()}
        for key, (sql, value) in given.items():
            assert f"3:Ada:{key}" in stored
            assert (
                database.answer(sql, key=f"3:Ada:{key}", options=AskOptions(analyst="Ada")).value
                == value
            )
    assert given


def test_a_killed_server_has_charged_what_it_answered(served):
    _kill_often(served, 3, seed=1)


@pytest.mark.slow
def test_a_server_that_is_killed_25_times(served):
    _kill_often(served, 25, seed=2)


@pytest.mark.soak
def test_a_server_that_is_killed_a_thousand_times(served):
    _kill_often(served, 1000, seed=3)


def test_a_server_ends_on_a_signal_with_exit_code_0(served):
    folder, token = served
    port = free_port()
    for number in (signal.SIGINT, signal.SIGTERM):
        with server_process(folder, port) as process:
            assert _ask(port, token, COUNT, f"{number}") is not None
            process.send_signal(number)
            assert process.wait(30) == 0


def test_an_address_in_use_is_one_sentence(tmp_path, capfd):
    service = Service(make_settings(tmp_path))
    where = service.settings.address
    with (
        socket.create_server((where.host, where.port)),
        pytest.raises(ParameterError, match="is in use"),
    ):
        listen(service, lambda: None)
    assert capfd.readouterr() == ("", "")


def test_a_long_question_leaves_the_interpreter_to_others(tmp_path):
    """A server that listens hands the interpreter on after 1 ms, and its garbage collector does not
    search what is open. When it ends, all is as before.
    """
    before = sys.getswitchinterval()
    front = Front(make_settings(tmp_path))
    try:
        assert sys.getswitchinterval() == pytest.approx(0.001)
        assert gc.get_freeze_count() > 10_000
    finally:
        front.close()
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == (before, 0)


def test_many_clients_share_the_last_room(tmp_path):
    """200 clients ask different questions about the same people, of which 5 can be answered."""
    limits = Limits(requests=1000, concurrent=300)
    front = Front(make_settings(tmp_path, epsilon=1, noise=10, relax=0, limits=limits))
    statuses: list[int] = []
    try:

        def client(place: int) -> None:
            low, high = place % 20 + 18, place // 20 + 40  # everybody asks about the age of 38
            sql = f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {high}"
            headers = {"Authorization": f"Bearer {front.users.analyst}"}
            with httpx.Client(
                base_url=front.http.base_url, headers=headers, timeout=60, verify=False
            ) as http:
                body = {"sql": sql, "relax": "refuse"}
                response = http.post("/api/v1/datasets/people/answer", json=body)
                statuses.append(response.status_code)

        threads = [threading.Thread(target=client, args=(place,)) for place in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(statuses) == [200] * 5 + [409] * 195
        assert len(front.service.catalogue.get("people").database.history()) == 5
    finally:
        front.close()


def test_a_full_disk_is_a_503_and_nothing_is_charged_twice(tmp_path, monkeypatch):
    front = Front(make_settings(tmp_path))
    try:
        database = front.service.catalogue.get("people").database
        before = database.status()

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(HeadFile, "write", full)
        response = front.ask(COUNT)
        assert response.status_code == 503
        assert "retry-after" in response.headers
        monkeypatch.undo()
        after = database.status()
        assert after.used in (before.used, before.used + 1)
        again = front.ask(COUNT)
        assert again.status_code == 200
        assert database.status().used == before.used + 1
        assert database.verify() == []
    finally:
        front.close()


def test_slow_connections_do_not_stop_others(tmp_path):
    front = Front(make_settings(tmp_path))
    where = front.service.settings.address
    sockets = []
    try:
        for _ in range(200):
            found = socket.create_connection((where.host, where.port), timeout=20)
            found.sendall(b"POST /api/v1/datasets/people/answer HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            sockets.append(found)
        for _ in range(20):
            assert front.ask(COUNT).status_code == 200
    finally:
        for each in sockets:
            each.close()
        front.close()


def _memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def _flat(served, warm: int, requests: int) -> None:
    """Ask, repeat, and be refused: the memory of the server grows by less than 8 MB."""
    folder, token = served
    port = free_port()
    bodies = [
        ("answer", {"sql": COUNT}),
        ("cost", {"sql": "SELECT sex, COUNT(*) FROM t GROUP BY sex"}),
        ("answer", {"sql": "SELECT COUNT(*) FROM t WHERE agee > 3"}),
        ("answer", {"sql": COUNT, "level": 7}),
    ]
    with (
        server_process(folder, port) as process,
        _client(f"http://127.0.0.1:{port}", token) as http,
    ):

        def ask(times: int) -> None:
            for place in range(times):
                verb, body = bodies[place % len(bodies)]
                response = http.post(f"/api/v1/datasets/people/{verb}", json=body)
                assert response.status_code in (200, 422)

        ask(warm)
        before = _memory(process.pid)
        ask(requests)
        assert _memory(process.pid) - before < 8


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_memory_stays_flat(served):
    # Each thread that answers gets memory of its own when it is first used: all have it after some
    # 4,000 requests. Then 8 MB in 10,000 requests would be 0.8 kB each.
    _flat(served, warm=5_000, requests=10_000)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.soak
def test_memory_stays_flat_over_a_hundred_thousand_requests(served):
    _flat(served, warm=5_000, requests=100_000)


def test_a_full_queue_is_a_503_and_charges_nothing(tmp_path, monkeypatch):
    front = Front(make_settings(tmp_path, limits=Limits(threads=1, queue=1)))
    data = front.service.catalogue.get("people")
    release, real = threading.Event(), data.answer_all

    def slow(questions):
        assert release.wait(60)
        return real(questions)

    monkeypatch.setattr(data, "answer_all", slow)
    statuses: list[int] = []

    def client(place: int) -> None:
        headers = {"Authorization": f"Bearer {front.users.analyst}"}
        with httpx.Client(
            base_url=front.http.base_url, headers=headers, timeout=90, verify=False
        ) as http:
            body = {"sql": f"SELECT COUNT(*) FROM t WHERE age < {30 + place}"}
            response = http.post("/api/v1/datasets/people/answer", json=body)
            statuses.append(response.status_code)
            if response.status_code == 503:
                release.set()

    try:
        threads = [threading.Thread(target=client, args=(place,)) for place in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert statuses.count(503) >= 1
        assert len(data.database.history()) == statuses.count(200)
    finally:
        front.close()

"""Two servers over neighbouring tables look alike: status, headers, texts, sizes, and time."""

from __future__ import annotations

import random
import re
import time

import numpy as np
import pytest

import scumble as sc
from scumble.server.catalogue import DatabaseDataset
from scumble.server.config import Limits, ServerSettings
from tests.support.database.small_database import AGES, SCHEMA, some_people
from tests.support.servers import Front

NUMBER = re.compile(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b|\bnull\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[^\"]+")
IMPOSSIBLE = re.compile(r"(; )?the estimate lies outside of what is possible,.*?interval")
OF_REQUEST = ("date", "x-request-id", "content-length")


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaks")
    limits = Limits(requests=1e9)
    found = Front(ServerSettings(folder=folder / "server", limits=limits))
    found.folder = folder
    yield found
    found.close()


def neighbours():
    """Two tables of 40 rows that differ in all values of one person."""
    one = some_people().to_pylist()
    other = [*one]
    other[7] = {"age": (one[7]["age"] + 3) % AGES, "sex": "m" if one[7]["sex"] == "f" else "f"}
    import pyarrow as pa

    return pa.Table.from_pylist(one), pa.Table.from_pylist(other)


def serve(front, name: str, table, **terms) -> None:
    """Serve a new database over a table. The same seed: answers differ by the person alone."""
    wanted = {"epsilon": 2, "noise": 4, "seed": 3, **terms}
    database = sc.Database.create(front.folder / name, table, SCHEMA, **wanted)
    front.service.catalogue.add(DatabaseDataset(name, "people", front.folder / name, database))


def _question(rng: random.Random) -> str:
    low = rng.randrange(AGES)
    high = rng.randrange(low, AGES)
    sex = rng.choice(["", "", " AND sex = 'f'", " OR sex = 'm'"])
    where = f"WHERE age BETWEEN {low} AND {high}{sex}"
    return rng.choice(
        [
            f"SELECT COUNT(*) FROM t {where}",
            f"SELECT COUNT(*) FROM t {where}",
            f"SELECT SUM(age) FROM t {where}",
            f"SELECT sex, COUNT(*) FROM t WHERE age <= {high} GROUP BY sex",
            f"SELECT COUNT(*) AS n, SUM(age) AS s FROM t {where}",
            f"SELECT COUNT(*) FROM t WHERE agee > {low}",
            "SELECT * FROM t",
        ]
    )


def _requests(rng: random.Random):
    """Yield requests of one analyst: questions, costs, repeats, history and status."""
    asked: list[str] = []
    for _ in range(8):
        sql = rng.choice(asked) if asked and rng.random() < 0.2 else _question(rng)
        asked.append(sql)
        body = {"sql": sql, "relax": rng.choice(["regression", "compound", "refuse"])}
        accept = rng.choice(["application/json", "application/json", "text/csv"])
        yield "POST", rng.choice(["answer", "answer", "answer", "cost"]), body, accept
    yield "GET", "history", None, "application/json"
    yield "GET", "status", None, "application/json"


def _seen(front, name: str, request) -> tuple:
    """Return all that a client sees of a response but for the numbers in it."""
    method, verb, body, accept = request
    more = {} if body is None else {"json": body}
    headers = {"Accept": accept}
    found = front.call("analyst", method, f"datasets/{name}/{verb}", headers=headers, **more)
    kept = {k: v for k, v in found.headers.items() if k not in OF_REQUEST}
    text = TIME.sub("T", found.text).replace(name, "N")
    # The note that an estimate is impossible follows from the number beside it.
    text = IMPOSSIBLE.sub("", text).replace('"', "").replace(",]", "]")
    text = text if found.status_code >= 400 else NUMBER.sub("#", text)
    return found.status_code, kept, text


def _compare(front, sequences: int, seed: int) -> None:
    one, other = neighbours()
    statuses = set()
    for number in range(sequences):
        names = f"a{seed}x{number}", f"b{seed}x{number}"
        for name, table in zip(names, (one, other), strict=True):
            serve(front, name, table)
        for request in _requests(random.Random(1000 * seed + number)):
            first, second = (_seen(front, name, request) for name in names)
            assert first == second, request
            assert len(first[2]) == len(second[2])
            statuses.add(first[0])
        for name in names:
            front.service.catalogue.remove(name)
    assert statuses == {200, 409, 422}


def test_neighbouring_tables_look_alike(front):
    _compare(front, 20, seed=1)


@pytest.mark.soak
def test_neighbouring_tables_look_alike_a_thousand_times(front):
    _compare(front, 1000, seed=2)


# --- time -----------------------------------------------------------------------------------------


def auc(one, other) -> float:
    """Return how well times tell two servers apart: 0.5 not at all, 1 always."""
    both = np.concatenate([one, other])
    ranks = np.empty(len(both))
    ranks[np.argsort(both, kind="stable")] = np.arange(1, len(both) + 1)
    share = (ranks[: len(one)].sum() - len(one) * (len(one) + 1) / 2) / (len(one) * len(other))
    return max(share, 1 - share)


def _times(front, names, questions: int, seed: int) -> dict[str, list[float]]:
    """Ask every data set the same new questions, in a random order; return the times."""
    rng = random.Random(seed)
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(questions):
        body = {"sql": _question(rng), "relax": "refuse"}
        for name in rng.sample(names, len(names)):
            begun = time.perf_counter()
            front.call("analyst", "POST", f"datasets/{name}/answer", json=body)
            found[name].append(time.perf_counter() - begun)
    return found


@pytest.mark.slow
def test_the_time_of_answers_does_not_tell_neighbouring_tables_apart(front, monkeypatch):
    """AUC at most 0.55, of 1,000 answers each. By chance it is above with probability 1e-4 (its
    standard error is 0.013); so is the control of two equal tables. A server that is slower for one
    of the tables is found.
    """
    one, other = neighbours()
    names = ["timed-a", "timed-b", "timed-control", "timed-slow"]
    for name, table in zip(names, (one, other, one, other), strict=True):
        serve(front, name, table, epsilon=100, noise=8000)
    slow = front.service.catalogue.get("timed-slow")
    real = slow.answer

    def late(question):
        time.sleep(0.02)
        return real(question)

    monkeypatch.setattr(slow, "answer", late)
    times = _times(front, names, 1000, seed=4)
    assert auc(times["timed-a"], times["timed-b"]) <= 0.55
    assert auc(times["timed-a"], times["timed-control"]) <= 0.55
    assert auc(times["timed-a"], times["timed-slow"]) > 0.55

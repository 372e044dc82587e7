"""`connect`: the same verbs and the same results as on a database in this process."""

from __future__ import annotations

import json

import pytest

import scumble as sc
from scumble.server.answer_json import LEVELS, decode_answer, encode_answer
from scumble.server.client import ServerError
from tests.support.servers import COUNT, listening, make_settings

QUESTIONS = (
    COUNT,
    "SELECT AVG(age) FROM t WHERE condition = 'Asthma'",
    "SELECT SUM(age) FROM t WHERE sex = 'male'",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM t GROUP BY sex",
    "SELECT condition, COUNT(*) FROM t GROUP BY condition ORDER BY 2 DESC LIMIT 3",
    "SELECT condition, COUNT(*) AS n FROM t GROUP BY condition ORDER BY 2 DESC LIMIT 3",
    "SELECT sex AS who, COUNT(*) AS n FROM t GROUP BY sex",
    "SELECT COUNT(*) AS n FROM t WHERE age < 60",
    "SELECT COUNT(*) FROM t WHERE age > 200",
    "SELECT AVG(age) FROM t WHERE age > 200",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = make_settings(tmp_path_factory.mktemp("server"), epsilon=4)
    with listening(settings) as found:
        yield found


def _estimates(answer):
    if isinstance(answer, sc.Estimate):
        return [answer]
    rows = [row for _, row in answer.rows]
    return [one for row in rows for one in (row if isinstance(row, tuple) else (row,))]


def test_answers_are_those_of_the_server(server, subtests):
    for dataset in ["people", "rows"]:
        for sql in QUESTIONS:
            with subtests.test(dataset=dataset, sql=sql):
                address, users, service = server
                with sc.connect(f"{address}/{dataset}", token=users.analyst) as remote:
                    found = remote.answer(sql)
                data = service.catalogue.get(dataset)
                local = (
                    data.database.answer(sql) if dataset == "people" else data.release.answer(sql)
                )
                assert type(found) is type(local)
                assert getattr(found, "alias", "") == getattr(local, "alias", "")
                assert getattr(found, "titles", ()) == getattr(local, "titles", ())
                for one, other in zip(_estimates(found), _estimates(local), strict=True):
                    assert one.value == pytest.approx(other.value, nan_ok=True)
                    assert one.stderr == pytest.approx(other.stderr)
                    for level in (*LEVELS, 0.925):
                        low, high = one.interval(level)
                        exact = other.interval(level)
                        if level in LEVELS:
                            assert (low, high) == pytest.approx(exact)
                        else:  # never narrower than the server's own
                            assert low <= exact[0] or low == pytest.approx(exact[0])
                            assert high >= exact[1] or high == pytest.approx(exact[1])
                    assert (one.bounds is None) == (other.bounds is None)


def test_bounds_survive_the_way_through_json():
    class Cut:
        stderr, bounds = 3.0, (90.0, 120.0)

        def interval(self, value, level):
            return 80.0 - level, 130.0 + level

        def noise_interval(self, value, level):
            return value - level, value + level

        def typical_interval(self, value, level):
            return value - 1, value + 1

    estimate = sc.Estimate(100.0, Cut(), "method")
    found = decode_answer(json.loads(json.dumps(encode_answer(estimate))))
    assert found.bounds == (90.0, 120.0)
    assert found.interval(0.9) == estimate.interval(0.9)
    assert found.interval(0.91) == estimate.interval(0.95)
    assert found.noise_interval(0.99) == estimate.noise_interval(0.99)
    assert found.interval(0.99999) == (float("-inf"), float("inf"))


def test_the_verbs_of_a_database(server):
    address, users, _ = server
    with sc.connect(f"{address}/people", token=users.analyst) as remote:
        assert remote.preview(COUNT).status in ("answered", "repeated")
        remote.answer(COUNT, key="mine")
        assert remote.history()[-1].analyst == "the analyst"
        assert remote.status().epsilon == 4
        assert list(remote.schema.names) == ["age", "sex", "condition"]
        with pytest.raises(sc.QueryError, match="line 1, column 35") as caught:
            remote.answer("SELECT COUNT(*) FROM people WHERE agee < 3")
        assert (caught.value.line, caught.value.column) == (1, 35)
        with pytest.raises(sc.ParameterError):
            remote.answer("SELECT COUNT(*) FROM people WHERE age < 3", key="mine")


def test_errors_name_what_is_wrong(server, monkeypatch):
    address, users, _ = server
    monkeypatch.delenv("SCUMBLE_TOKEN", raising=False)
    with pytest.raises(sc.ParameterError, match="token"):
        sc.connect(f"{address}/people")
    with pytest.raises(sc.ParameterError, match="address of a data set"):
        sc.connect("people", token="x")
    monkeypatch.setattr("scumble.server.client._TRIES", 1)
    for where, token, message in (
        (f"{address}/nothing", users.analyst, "no such data set"),
        (f"{address}/people", "scb_x_y", "unknown, expired or revoked"),
        ("http://127.0.0.1:9/people", "x", "cannot be reached"),
    ):
        with (
            sc.connect(where, token=token) as remote,
            pytest.raises(ServerError, match=message),
        ):
            remote.answer(COUNT)


def test_a_retried_question_is_charged_once(server, monkeypatch):
    """The response is lost on the way; the client asks again with the same key."""
    import httpx

    address, users, service = server
    sent, real = [], httpx.Client.request

    def lossy(self, method, path, **more):
        response = real(self, method, path, **more)
        if method == "POST":  # what kind it is was asked before
            sent.append(response)
        if len(sent) == 1:
            raise httpx.ReadError("lost")
        return response

    monkeypatch.setattr(httpx.Client, "request", lossy)
    before = len(service.catalogue.get("people").database.history())
    with sc.connect(f"{address}/people", token=users.analyst) as remote:
        found = remote.answer("SELECT COUNT(*) FROM t WHERE age BETWEEN 30 AND 61")
    assert len(sent) == 2
    assert sent[0].json()["value"] == sent[1].json()["value"] == found.value
    assert len(service.catalogue.get("people").database.history()) == before + 1

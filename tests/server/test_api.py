"""The HTTP interface: who may do what, what is answered, and what is refused."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pyarrow as pa
import pytest
from pyarrow import csv

from scumble.server.config import Limits
from scumble.server.http import api
from scumble.server.tokens import ROLES
from tests.support.servers import COUNT, Front, make_settings

ANSWER = "datasets/people/answer"


# --- roles ----------------------------------------------------------------------------------------


def _paths():
    for route in api.ROUTES:
        yield route, re.sub("{prefix}", "0000000000", route.path.replace("{dataset}", "people"))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("without_audits")
def test_every_route_serves_its_roles_only(front, role):
    for route, path in _paths():
        if route.name == "stop dataset":
            continue  # it has a test of its own
        body = {"sql": COUNT} if route.name in ("answer", "cost") else {}
        if route.name == "create token":
            body = {"role": "analyst", "name": "somebody"}
        more = {"json": body} if route.body else {}
        response = front.call(role, route.method, path, **more)
        if not route.roles or role in route.roles:
            assert response.status_code not in (401, 403), (route.name, response.text)
        else:
            assert response.status_code == 403, route.name
            assert response.headers["content-type"] == "application/problem+json"


def test_no_route_with_roles_serves_without_a_token(front):
    front.service.login_delay = 0.0
    for route, path in _paths():
        if route.roles:
            assert front.call("", route.method, path).status_code == 401, route.name
            bad = {"Authorization": "Bearer scb_0000000000_nobody"}
            response = front.http.request(route.method, path, headers=bad)
            assert response.status_code == 401, route.name
            assert response.headers["www-authenticate"] == "Bearer"


def test_revoked_and_expired_tokens_are_refused(front):
    text, token = front.service.tokens.create("analyst", "leaving")
    headers = {"Authorization": f"Bearer {text}"}
    assert front.http.get("/api/v1/datasets", headers=headers).status_code == 200
    assert front.call("owner", "DELETE", f"tokens/{token.prefix}").status_code == 200
    assert front.http.get("/api/v1/datasets", headers=headers).status_code == 401
    text, _ = front.service.tokens.create("analyst", "short", days=1e-9)
    headers = {"Authorization": f"Bearer {text}"}
    assert front.http.get("/api/v1/datasets", headers=headers).status_code == 401


def test_a_token_for_one_data_set_sees_no_other(front):
    text, _ = front.service.tokens.create("analyst", "narrow", datasets=["rows"])
    headers = {"Authorization": f"Bearer {text}"}
    listed = front.http.get("/api/v1/datasets", headers=headers).json()["datasets"]
    assert [each["name"] for each in listed] == ["rows"]
    hidden = front.http.get("/api/v1/datasets/people", headers=headers)
    absent = front.http.get("/api/v1/datasets/nothing", headers=headers)
    assert hidden.status_code == absent.status_code == 404
    assert hidden.json() == absent.json()


def test_analysts_see_their_own_questions_only(front):
    front.ask("SELECT COUNT(*) FROM people WHERE age < 33")
    front.ask("SELECT COUNT(*) FROM people WHERE age < 34", role="owner")
    own = front.call("analyst", "GET", "datasets/people/history").json()["history"]
    assert {each["analyst"] for each in own} == {"the analyst"}
    every = front.call("owner", "GET", "datasets/people/history").json()["history"]
    assert {"the analyst", "the owner"} <= {each["analyst"] for each in every}


def test_the_status_of_an_analyst_has_nothing_of_others(front):
    text, _ = front.service.tokens.create("analyst", "newcomer")
    headers = {"Authorization": f"Bearer {text}"}
    before = front.http.get("/api/v1/datasets/people/status", headers=headers).json()
    front.ask("SELECT COUNT(*) FROM people WHERE age < 21", role="owner", key="counted")
    front.call("owner", "POST", "datasets/people/quotas", json={"analyst": "b", "epsilon": 0.5})
    after = front.http.get("/api/v1/datasets/people/status", headers=headers).json()
    shared = ("used", "share_used")  # what remains is for all
    assert {**after, **{name: before[name] for name in shared}} == before
    assert (after["answered"], after["numbers"], after["quotas"]) == (0, 0, {})
    every = front.call("owner", "GET", "datasets/people/status").json()
    assert every["answered"] > 0
    assert "b" in every["quotas"]


def test_owners_give_change_and_end_quotas(front):
    text, _ = front.service.tokens.create("analyst", "limited")
    headers = {"Authorization": f"Bearer {text}"}

    def set_quota(epsilon):
        body = {"analyst": "limited", "epsilon": epsilon}
        return front.call("owner", "POST", "datasets/people/quotas", json=body)

    def ask(age):
        body = {"sql": f"SELECT COUNT(*) FROM people WHERE age = {age}", "relax": "refuse"}
        return front.http.post(f"/api/v1/{ANSWER}", headers=headers, json=body).status_code

    found = set_quota(0.2).json()["analysts"]
    assert {"epsilon": 0.2, "used": 0, "limit": 1}.items() <= found[
        [each["analyst"] for each in found].index("limited")
    ].items()
    assert ask(77) == 200
    again = "SELECT COUNT(*) FROM people WHERE age BETWEEN 76 AND 77"
    body = {"sql": again, "relax": "refuse"}
    refused = front.http.post(f"/api/v1/{ANSWER}", headers=headers, json=body)
    assert refused.status_code == 409
    assert "quota is used up" in refused.json()["detail"]
    for wrong in (0.1, 5, 0, -1):
        assert set_quota(wrong).status_code == 422
    assert set_quota(0.4).status_code == 200
    assert front.http.post(f"/api/v1/{ANSWER}", headers=headers, json=body).status_code == 200
    assert set_quota(0.2).status_code == 422
    assert set_quota(None).status_code == 200
    assert set_quota(None).status_code == 422
    release = front.call("owner", "POST", "datasets/rows/quotas", json={"analyst": "limited"})
    assert release.status_code == 409
    chain = front.call("auditor", "GET", "datasets/people/ledger").json()["entries"]
    assert [each["kind"] for each in chain].count("quota") >= 3


def test_auditors_see_the_chain_without_questions_and_answers(front):
    front.ask(COUNT)
    found = front.call("auditor", "GET", "datasets/people/ledger").json()
    assert set(found["entries"][-1]) == {"number", "time", "kind", "analyst", "previous", "hash"}
    verified = front.call("auditor", "POST", "datasets/people/verify", json={"seal": found["seal"]})
    assert verified.json() == {"intact": True, "findings": []}
    forged = found["seal"][:-1] + ("0" if found["seal"][-1] != "0" else "1")
    again = front.call("auditor", "POST", "datasets/people/verify", json={"seal": forged})
    assert not again.json()["intact"]
    page = front.call("auditor", "GET", "datasets/people/certificate")
    assert page.headers["content-type"].startswith("text/html")
    assert "All answers together" in page.text


# --- answers --------------------------------------------------------------------------------------


def test_an_answer_has_value_error_cost_and_what_remains(front):
    cost = front.call("analyst", "POST", "datasets/people/cost", json={"sql": COUNT}).json()
    first = front.ask(COUNT, key="one").json()
    assert first["low"] <= first["value"] <= first["high"]
    assert first["stderr"] == pytest.approx(cost["stderr"])
    assert first["cost"]["limit"] == 5
    again = front.ask(COUNT, key="one").json()
    assert again["value"] == first["value"]
    repeated = front.ask(COUNT).json()
    assert (repeated["status"], repeated["cost"]["charged"]) == ("repeated", 0)
    assert repeated["value"] == first["value"]


def test_keys_of_two_analysts_are_apart(front):
    text, _ = front.service.tokens.create("analyst", "another")
    headers = {"Authorization": f"Bearer {text}"}
    body = {"sql": "SELECT COUNT(*) FROM people WHERE age < 51", "key": "same"}
    other = {"sql": "SELECT COUNT(*) FROM people WHERE age < 52", "key": "same"}
    one = front.call("analyst", "POST", ANSWER, json=body)
    two = front.http.post(f"/api/v1/{ANSWER}", json=other, headers=headers)
    assert (one.status_code, two.status_code) == (200, 200)
    clash = front.call("analyst", "POST", ANSWER, json=other)
    assert clash.status_code == 422


def test_a_question_is_relaxed_or_refused_when_the_promise_is_used_up(tmp_path):
    front = Front(make_settings(tmp_path, epsilon=0.2))
    try:
        assert front.ask(COUNT).json()["status"] == "answered"
        near = "SELECT COUNT(*) FROM people WHERE age < 41"
        assert front.ask(near).json()["status"] == "relaxed"
        refused = front.ask(near, relax="refuse")
        assert refused.status_code == 409
        assert refused.json()["error"] == "PromiseError"
    finally:
        front.close()


def test_tables_come_as_arrow_and_csv(front):
    sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    path = "datasets/rows/answer"
    arrow = "application/vnd.apache.arrow.stream"
    response = front.call("analyst", "POST", path, json={"sql": sql}, headers={"Accept": arrow})
    table = pa.ipc.open_stream(io.BytesIO(response.content)).read_all()
    assert response.headers["content-type"] == arrow
    plain = front.call("analyst", "POST", path, json={"sql": sql}, headers={"Accept": "text/csv"})
    assert (
        csv.read_csv(io.BytesIO(plain.content))["value"].to_pylist() == table["value"].to_pylist()
    )
    rows = front.call("analyst", "POST", path, json={"sql": sql}).json()["rows"]
    assert [row["value"] for row in rows] == table["value"].to_pylist()


# --- refusals -------------------------------------------------------------------------------------


BAD_BODIES = [
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b"[" * 50_000, 400),
    (b'{"sql": 1e999}', 400),
    (b"[]", 422),
    (b'{"sql": "SELECT COUNT(*) AS \\"\\ud800\\" FROM t"}', 422),
    (b'{"sql": "SELECT COUNT(*) FROM t", "max_relaxation_error": 1' + b"0" * 400 + b"}", 422),
    (b"{}", 422),
    (b'{"sql": null}', 422),
    (b'{"sql": 7}', 422),
    (b'{"sql": "SELECT 1", "more": 1}', 422),
    (b'{"sql": "SELECT COUNT(*) FROM t", "level": 1}', 422),
    (b'{"sql": "SELECT COUNT(*) FROM t", "relax": "perhaps"}', 422),
    (b'{"sql": "SELECT nonsense"}', 422),
    (b'{"sql": "' + b"x" * 70_000 + b'"}', 413),
]


def test_bad_bodies_are_refused_in_one_sentence(front, subtests):
    for body, status in BAD_BODIES:
        with subtests.test(body=body[:40]):
            before = front.call("owner", "GET", "datasets/people/status").json()
            headers = {"Content-Type": "application/json"}
            response = front.call("analyst", "POST", ANSWER, content=body, headers=headers)
            assert response.status_code == status
            problem = response.json()
            assert problem["status"] == status
            assert problem["detail"].endswith(".")
            assert front.call("owner", "GET", "datasets/people/status").json() == before


def test_the_place_of_an_error_in_the_sql_is_told(front):
    problem = front.ask("SELECT COUNT(*) FROM people WHERE agee < 3").json()
    assert (problem["line"], problem["column"]) == (1, 35)


def test_a_long_head_ends_the_connection(front):
    import socket

    where = front.service.settings.address
    with socket.create_connection((where.host, where.port), timeout=20) as found:
        found.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ")
        with suppress(ConnectionError):  # the server may close before all of it was sent
            for _ in range(40):
                found.sendall(b"a" * 10_000)
        with suppress(ConnectionError):  # a server that waits for more is a TimeoutError
            assert b" 431 " in found.recv(1000)
    assert front.call("", "GET", "/healthz").status_code == 200


def test_the_cost_of_no_rows_is_told(front):
    sql = "SELECT AVG(age) FROM people WHERE age < 0"
    response = front.call("analyst", "POST", "datasets/people/cost", json={"sql": sql})
    assert response.status_code == 200


def test_an_owner_is_one_of_all_data_sets(front):
    body = {"role": "owner", "name": "half", "datasets": ["rows"]}
    assert front.call("owner", "POST", "tokens", json=body).status_code == 422


def test_other_content_types_are_refused(front):
    response = front.call("analyst", "POST", ANSWER, content=b"sql=x")
    assert response.status_code == 415


def test_a_token_that_asks_too_fast_waits(tmp_path):
    front = Front(make_settings(tmp_path, limits=Limits(requests=1)))
    try:
        statuses = [front.call("analyst", "GET", "datasets").status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        assert front.call("auditor", "GET", "datasets").status_code == 200
        response = front.call("analyst", "GET", "datasets")
        assert response.headers["retry-after"] == "1"
    finally:
        front.close()


def test_a_token_writes_so_much_into_the_journal(tmp_path):
    front = Front(make_settings(tmp_path, limits=Limits(journal=1)))
    sql = "SELECT COUNT(*) FROM t WHERE age < 30"
    try:
        first = front.call("analyst", "POST", ANSWER, json={"sql": sql, "key": "one"})
        refused = front.call("analyst", "POST", ANSWER, json={"sql": sql, "key": "two"})
        assert (first.status_code, refused.status_code) == (200, 409)
        assert "1 bytes of this analyst" in refused.json()["detail"]
        for body in ({"sql": sql}, {"sql": sql, "key": "one"}):
            again = front.call("analyst", "POST", ANSWER, json=body)
            assert again.json()["value"] == first.json()["value"]
    finally:
        front.close()


def test_unknown_addresses_and_methods_are_problems_too(front):
    missing = front.call("owner", "GET", "nothing")
    assert (missing.status_code, missing.json()["status"]) == (404, 404)
    assert front.call("owner", "PUT", "datasets").status_code == 405


# Classes and functions of Python, files, and what the framework says by itself.
INTERNALS = re.compile(
    r"parameter of|object of type|[A-Z]\w*\.\w|\w+\.py\b|\w\(\)|\w__|Error|scumble|/\w+/\w"
)
REFUSED = (
    ("POST", ANSWER, {"sql": COUNT, "relax": "x"}, "'relax' must be one of regression"),
    ("POST", ANSWER, {"sql": COUNT, "key": "k" * 121}, "must be text of at most 120 characters"),
    ("POST", ANSWER, {"sql": 5}, "'sql' must be text"),
    ("POST", ANSWER, {}, "'sql' is missing"),
    ("POST", "datasets/people/verify", {"seal": "x"}, "'seal' must be a number, a blank and"),
    ("POST", "datasets/people/quotas", {"analyst": "", "epsilon": 1}, "'analyst' must be"),
    ("POST", "datasets/people/quotas", {"analyst": "a", "epsilon": 9}, "'epsilon' must be from"),
    ("POST", "tokens", {"role": "analyst", "name": "\n"}, "'name' must be printable text"),
    (
        "POST",
        "tokens",
        {"role": "analyst", "name": "a", "datasets": 1},
        "must be a list of at most",
    ),
    ("DELETE", "tokens/0", None, "'prefix' must be the start of a token"),
    ("POST", "schemas", {"source": "x"}, "'source' must be"),
    (
        "POST",
        "datasets",
        {"name": "A", "source": "x", "schema": "", "method": "uniform"},
        "The name of a data set must be a small letter",
    ),
)


@pytest.mark.parametrize(("method", "path", "body", "sentence"), REFUSED)
def test_what_is_not_allowed_is_said_without_internals(front, method, path, body, sentence):
    response = front.call("owner", method, path, **({} if body is None else {"json": body}))
    detail = response.json()["detail"]
    assert response.status_code == 422
    assert sentence in detail
    assert not INTERNALS.search(detail)


def test_other_roles_and_unknown_things_are_refused_without_internals(front):
    found = {}
    for role in ROLES:
        for route in api.ROUTES:
            if route.roles:
                path = re.sub("{[a-z]+}", "nothing", route.path)
                more = {"json": {"sql": COUNT}} if route.body else {}
                response = front.call(role, route.method, path, **more)
                if response.status_code in (403, 404):
                    found[response.json()["detail"]] = response.status_code
    found[front.call("", "GET", "/x/y").json()["detail"]] = 404
    assert set(found.values()) == {403, 404}
    assert not [detail for detail in found if INTERNALS.search(detail)]
    assert all(detail.endswith(".") and "\n" not in detail for detail in found)


def test_keys_of_analysts_whose_names_end_alike_are_apart(front):
    for name, key in (("a:b", "c"), ("a", "b:c")):
        text, _ = front.service.tokens.create("analyst", name)
        body = {"sql": f"SELECT COUNT(*) FROM people WHERE age < {60 + len(name)}", "key": key}
        headers = {"Authorization": f"Bearer {text}"}
        assert front.http.post(f"/api/v1/{ANSWER}", json=body, headers=headers).status_code == 200


def test_a_name_in_the_path_makes_no_line_in_the_log(front, caplog):
    caplog.set_level("INFO", logger="scumble.server")
    front.call("analyst", "GET", "/api/v1/datasets/x%0Aforged/status")
    assert all("\n" not in each.getMessage() for each in caplog.records)


def test_a_broken_file_of_tokens_is_a_503_without_its_path(tmp_path):
    front = Front(make_settings(tmp_path))
    try:
        (front.service.settings.folder / "tokens.json").write_text("{")
        response = front.call("analyst", "GET", "datasets")
        assert response.status_code == 503
        assert str(tmp_path) not in response.text
    finally:
        front.close()


def test_questions_that_are_answered_together_are_answered_each_by_itself(tmp_path):
    """Quick and slow questions, bad ones and repeated keys of several analysts, all at once."""
    front = Front(make_settings(tmp_path, epsilon=100, limits=Limits(requests=1000)))
    names = [f"analyst {place}" for place in range(8)]
    tokens = [front.service.tokens.create("analyst", name)[0] for name in names]
    asked = [
        {"sql": "SELECT COUNT(*) FROM t WHERE age < 30", "key": "one"},
        {"sql": "SELECT COUNT(*) FROM t WHERE age < 40"},
        {"sql": "SELECT sex, COUNT(*) FROM t GROUP BY sex"},
        {"sql": "SELECT COUNT(*) FROM t WHERE agee < 40"},
        {"sql": "SELECT COUNT(*) FROM t WHERE age < 40", "key": "k" * 121},
    ]
    try:

        def client(place: int) -> list[tuple[int, str]]:
            headers = {"Authorization": f"Bearer {tokens[place]}"}
            with httpx.Client(
                base_url=front.http.base_url, headers=headers, timeout=60, verify=False
            ) as http:
                found = [http.post(f"/api/v1/{ANSWER}", json=each) for each in asked * 4]
            return [(each.status_code, each.json().get("value")) for each in found]

        with ThreadPoolExecutor(8) as threads:
            every = list(threads.map(client, range(8)))
        database = front.service.catalogue.get("people").database
        values = [database.answer(each["sql"]).value for each in asked[:2]]
        wanted = [(200, values[0]), (200, values[1]), (200, None), (422, None), (422, None)]
        assert every == [wanted * 4] * 8
        kept = {(each.analyst, each.key) for each in database.history() if each.key}
        assert kept == {(name, f"{len(name)}:{name}:one") for name in names}
        assert database.verify() == []
    finally:
        front.close()


def test_a_failure_tells_nothing_but_its_number(front, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("the secret value 4711")

    for name in ("cost", "cost_all"):
        monkeypatch.setattr(front.service.catalogue.get("people"), name, fail)
    response = front.call("analyst", "POST", "datasets/people/cost", json={"sql": COUNT})
    assert response.status_code == 500
    assert "4711" not in response.text
    assert response.headers["x-request-id"] in caplog.text


def test_an_unusable_journal_is_a_503_without_paths(front, monkeypatch):
    from scumble.model.errors import LedgerError

    def fail(*_):
        raise LedgerError("/private/folder cannot be written.")

    for name in ("answer", "answer_all"):
        monkeypatch.setattr(front.service.catalogue.get("people"), name, fail)
    response = front.ask(COUNT)
    assert response.status_code == 503
    assert "/private" not in response.text
    assert response.headers["retry-after"]
    assert "/private" in front.ask(COUNT, role="owner").text


# --- the rest -------------------------------------------------------------------------------------


def test_health_and_metrics_need_no_token_and_tell_no_data(front):
    assert front.call("", "GET", "/healthz").json()["status"] == "ok"
    assert front.call("", "GET", "/readyz").json()["status"] == "ready"
    front.ask(COUNT)
    text = front.call("", "GET", "/metrics").text
    assert 'scumble_requests_total{route="answer",status="200"}' in text
    assert "analyst" not in text


def test_openapi_lists_every_route_and_every_status_that_was_seen(front):
    found = front.call("", "GET", "openapi.json").json()
    assert found["openapi"] == "3.1.0"
    for route in api.ROUTES:
        operation = found["paths"][route.path][route.method.lower()]
        assert set(operation["responses"]) == {str(each) for each in route.all_statuses()}
    for (name, status), _ in front.service.metrics.requests().items():
        route = next(each for each in api.ROUTES if each.name == name)
        assert status in route.all_statuses(), (name, status)


def test_security_headers_are_on_every_response(front):
    for response in (front.call("", "GET", "/healthz"), front.call("owner", "GET", "nothing")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert response.headers["cache-control"] == "no-store"


def test_an_owner_stops_a_data_set(tmp_path):
    front = Front(make_settings(tmp_path))
    try:
        assert front.call("owner", "DELETE", "datasets/people").status_code == 200
        assert front.ask(COUNT).status_code == 404
        assert front.ask("SELECT COUNT(*) FROM t", dataset="rows").status_code == 200
    finally:
        front.close()

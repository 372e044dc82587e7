"""The pages without JavaScript: logging in, asking, auditing, tokens, and what is refused."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files

import httpx
import pytest

from scumble.server.pages.site import ROUTES
from tests.support.servers import COUNT, Browser

HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"


@pytest.fixture
def browsers(front):
    found = {role: Browser(front, role) for role in ("owner", "analyst", "auditor")}
    yield found
    for each in found.values():
        each.http.close()


def _path(route) -> str:
    return route.path.replace("{dataset}", "people").replace("{draft}", "000000000000")


def test_a_page_needs_a_login(front):
    for route in ROUTES:
        path = _path(route)
        response = front.http.request(route.method, path)
        assert (response.status_code, response.headers["location"]) == (303, "/login"), route.name


def test_a_browser_at_the_address_of_connect_finds_the_page(front, browsers):
    """`serve --demo` prints it; any name leads on, so that nobody learns which there are."""
    seen = {"accept": "text/html,application/xhtml+xml"}
    for name in ("people", "nothing"):
        response = front.http.get(f"/{name}", headers=seen)
        assert (response.status_code, response.headers["location"]) == (303, f"/data/{name}")
        assert front.http.get(f"/data/{name}", headers=seen).headers["location"] == "/login"
    assert browsers["analyst"].get("/data/people").status_code == 200
    for path in ("/people/x", "/People", "/%2f%2fevil.example", "/..%2fx"):
        response = front.http.get(path, headers=seen)
        assert response.status_code == 404
        assert '<p class="problem" role="alert">There is nothing here.</p>' in response.text
        assert response.headers["x-frame-options"] == "DENY"
        assert front.http.get(path).json()["detail"] == "There is nothing here."
    response = front.http.get("/api/v1/people", headers=seen)
    assert (response.status_code, response.json()["status"]) == (404, 404)
    assert front.http.get("/people", headers={"accept": "*/*"}).status_code == 404
    assert front.http.post("/people", headers=seen).status_code == 404


def test_a_wrong_token_does_not_log_in(front):
    front.service.login_delay = 0.0
    response = front.http.post("/login", data={"token": "scb_0_0"})
    assert response.status_code == 401
    assert "unknown, expired or revoked" in response.text
    assert "set-cookie" not in response.headers


def test_the_cookie_is_for_the_server_alone(front):
    response = front.http.post("/login", data={"token": front.users.analyst})
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_a_link_logs_in_once(front):
    token = front.service.tokens.find(front.users.owner)
    link = f"/login?link={front.service.sessions.link(token)}"
    with httpx.Client(base_url=front.http.base_url) as one:
        assert one.get(link).headers["location"] == "/"
    with httpx.Client(base_url=front.http.base_url) as other:
        assert other.get(link).status_code == 401


@pytest.mark.usefixtures("without_audits")
def test_every_page_serves_its_roles_only(browsers):
    for role, browser in browsers.items():
        for route in ROUTES:
            path = _path(route)
            fields = {"sql": COUNT, "format": "csv", "role": "analyst", "name": "x"}
            if route.name == "page: revoke":
                fields["prefix"] = "0000000000"
            response = browser.get(path) if route.method == "GET" else browser.post(path, **fields)
            if role in route.roles:
                found = (404,) if "{draft}" in route.path else (200, 422)
                assert response.status_code in found, (role, route.name, response.text)
            else:
                assert response.status_code == 403, (role, route.name)


def test_forms_without_their_token_are_refused(browsers):
    for route in ROUTES:
        if route.method == "POST":
            path = _path(route) + ("?name=people.csv" if route.upload else "")
            response = browsers["owner"].http.post(path, data={"sql": COUNT, "csrf": "other"})
            assert response.status_code == 403, route.name
            assert "out of date" in response.text


def test_an_analyst_asks_and_sees_cost_answer_and_history(browsers):
    browser = browsers["analyst"]
    page = browser.get("/data/people")
    assert "What is promised" in page.text
    sql = "SELECT COUNT(*) FROM t WHERE age < 47"
    cost = browser.post("/data/people/cost", sql=sql)
    assert "costs one new number" in cost.text
    answer = browser.post("/data/people/ask", sql=sql, key="page-1")
    assert "Charged: one new number." in answer.text
    assert "<svg" in answer.text
    assert "the true value in this table" in answer.text
    assert "was answered before" in browser.post("/data/people/cost", sql=sql).text.lower()
    again = browser.post("/data/people/ask", sql=sql, key="page-1")
    number = re.compile(r'class="number">([\d,]+)')
    assert number.search(again.text)[1] == number.search(answer.text)[1]
    assert "age &lt; 47" in browser.get("/data/people/history").text
    table = browser.post("/data/people/download", sql=sql, key="page-1", format="csv")
    assert table.headers["content-disposition"] == 'attachment; filename="people.csv"'
    named = "SELECT sex AS who, COUNT(*) AS n FROM t GROUP BY sex"
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", browser.post("/data/people/ask", sql=named).text)
    assert [each.strip() for each in heads[:2]] == ["who", "n"]
    exact = browser.post("/data/rows/ask", sql="SELECT sex, COUNT(*) FROM t GROUP BY sex").text
    assert re.findall(r'class="limits">([^<]*)<', exact) == ["exactly", "exactly"]


def test_a_refusal_is_told_before_ask(front, browsers):
    """By the cost line, of a release and of a database; the answer then says the same."""
    browser = browsers["analyst"]
    for name, sql, words in (
        (
            "people",
            "SELECT SUM(age) FROM t WHERE condition = 'Asthma'",
            "be refused, and not charged",
        ),
        ("rows", "SELECT COUNT(DISTINCT person) FROM t", "person"),
    ):
        for _ in range(9):  # more than the promise has answers for
            cost = browser.post(f"/data/{name}/cost", sql=sql).text
            if words in cost:
                break
            other = sql.replace("WHERE", f"WHERE age >= {20 + _} AND")
            browser.post(f"/data/{name}/ask", sql=other)
        assert words in cost
        answer = browser.post(f"/data/{name}/ask", sql=sql).text
        assert 'class="problem"' in answer
        assert '<svg class="drawing"' not in answer


def test_a_used_up_group_does_not_keep_the_others_from_an_answer(browsers):
    browser = browsers["analyst"]
    part = "condition = 'Back pain' AND age"
    for age in range(70, 80):
        ask = f"SELECT COUNT(*) FROM t WHERE sex = 'male' AND {part} >= {age}"
        browser.post("/data/people/ask", sql=ask)
    sql = f"SELECT sex, COUNT(*) FROM t WHERE {part} >= 82 GROUP BY sex"
    cost = browser.post("/data/people/cost", sql=sql).text
    assert "The promise is used up for 1 of 2 numbers. Those will be made of earlier" in cost
    answer = browser.post("/data/people/ask", sql=sql).text
    female, male = re.findall(r"<tr><th scope=\"row\">.*?</tr>", answer, re.DOTALL)
    assert ("relaxed" in female, "relaxed" in male) == (False, True)
    assert ("counted instead" in female, "counted instead" in male) == (False, True)
    sql = f"SELECT sex, AVG(age) FROM t WHERE {part} >= 70 GROUP BY sex"
    cost = browser.post("/data/people/cost", sql=sql).text
    assert "used up for 1 of 2 numbers. Those will not be answered, the others" in cost
    answer = browser.post("/data/people/ask", sql=sql).text
    female, male = re.findall(r"<tr><th scope=\"row\">.*?</tr>", answer, re.DOTALL)
    assert ("not answered" in female, "not answered" in male) == (False, True)


def test_free_budget_is_shown_by_value(front, browsers):
    """It is the mean of the points with a value, not the one with most answers."""
    page = browsers["analyst"].get("/data/people").text
    assert "Remaining budget" in page
    database = front.service.catalogue.get("people").database
    shares = re.findall(r'class="note">([\d.]+) % free</span>', page)
    for (_, used), free in zip(database.usage_by_value(), shares, strict=True):
        assert abs(100 * (1 - sum(used) / len(used)) - float(free)) < 0.1
    assert float(shares[0]) > 0 < database.status().used


def test_a_data_set_says_what_it_is_and_of_when(front, browsers):
    data = front.service.catalogue.get("rows")
    home = browsers["analyst"].get("/").text
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", data.made)
    assert f"{data.made} · 2,000 rows" in home
    described = front.call("analyst", "GET", "datasets/rows").json()
    assert (described["rows"], described["made"]) == (2000, data.made)


def test_words_are_explained_and_every_page_leads_there(browsers):
    for browser in browsers.values():
        page = browser.get("/").text
        assert 'href="/help">Documentation</a>' in page
        assert 'href="/help#words">Glossary</a>' in page
        assert "<dt>Remaining budget</dt>" in browser.get("/help").text


def test_a_download_in_no_format_is_not_charged(front, browsers):
    history = front.service.catalogue.get("people").database.history
    before = len(history())
    sql = "SELECT COUNT(*) FROM t WHERE age < 71"
    response = browsers["analyst"].post("/data/people/download", sql=sql, format="bogus")
    assert response.status_code == 422
    assert len(history()) == before


def test_a_question_that_cannot_be_read_shows_where(browsers):
    page = browsers["analyst"].post("/data/people/ask", sql="SELECT COUNT(*) FROM t WHERE agee < 3")
    assert page.status_code == 200
    assert "                             ^" in page.text


def test_what_people_write_is_escaped(browsers):
    bad = "<script>alert(1)</script>"
    page = browsers["analyst"].post("/data/people/ask", sql=f"SELECT '{bad}'")
    assert bad not in page.text
    made = browsers["owner"].post("/tokens", role="analyst", name=bad)
    assert bad not in made.text
    assert "&lt;script&gt;" in made.text


@pytest.mark.usefixtures("without_audits")
def test_an_auditor_verifies_and_gets_the_certificate(browsers):
    browser = browsers["auditor"]
    page = browser.get("/data/people")  # auditors cannot ask: they get the page of the audit
    seal = re.search(r'class="seal">([^<]+)<', page.text)[1]
    assert "intact, and continues this seal" in browser.post("/data/people/verify", seal=seal).text
    assert 'role="alert"' in browser.post("/data/people/verify", seal="1:" + "0" * 64).text
    assert "attachment" in browser.get("/data/people/certificate").headers["content-disposition"]


def test_an_owner_makes_and_revokes_tokens(front, browsers):
    page = browsers["owner"].post("/tokens", role="auditor", name="Kim", days="3", dataset="rows")
    text = re.search(r"scb_[\w-]+", page.text)[0]
    token = front.service.tokens.find(text)
    assert (token.role, token.name, token.datasets) == ("auditor", "Kim", ("rows",))
    assert text not in browsers["owner"].get("/tokens").text
    browsers["owner"].post("/tokens/revoke", prefix=token.prefix)
    assert front.service.tokens.find(text) is None
    soon = browsers["owner"].post("/tokens", name="x", days="soon")
    assert (soon.status_code, "must be a number" in soon.text) == (422, True)
    assert "the analyst" in browsers["owner"].get("/usage").text


def test_an_owner_gives_and_ends_a_quota(front, browsers):
    browser = browsers["owner"]
    page = browser.post("/data/people/quota", analyst="Kim", epsilon="0.4").text
    assert "0 of 2 answers in the most-asked part" in page
    assert "must be from" in browser.post("/data/people/quota", analyst="Kim", epsilon="7").text
    assert "must be a number" in browser.post("/data/people/quota", analyst="Kim", epsilon="x").text
    assert "Kim ε = 0.4" in browsers["auditor"].get("/data/people/audit").text
    browser.post("/data/people/quota", analyst="Kim", end="1")
    assert "Kim" not in front.service.catalogue.get("people").status(None).quotas


def test_stopping_a_data_set_has_to_be_confirmed(browsers):
    response = browsers["owner"].post("/data/rows/stop")
    assert (response.status_code, "Confirm" in response.text) == (422, True)
    assert browsers["owner"].get("/data/rows").status_code == 200


def test_a_revoked_token_ends_its_sessions(front):
    text, token = front.service.tokens.create("analyst", "leaving")
    front.users.leaving = text
    browser = Browser(front, "leaving")
    assert browser.get("/data/people").status_code == 200
    front.service.tokens.revoke(token.prefix)
    assert str(browser.get("/data/people").url).endswith("/login")
    browser.http.close()


def test_a_token_has_few_sessions(front):
    tokens, sessions = front.service.tokens, front.service.sessions
    owner, _ = sessions.start(tokens.find(front.users.owner))
    own = [sessions.start(tokens.find(front.users.analyst))[0] for _ in range(30)]
    assert sessions.find(owner)
    assert [bool(sessions.find(each)) for each in own] == [False] * 10 + [True] * 20


def test_a_login_from_another_site_is_refused(front):
    headers = {"Sec-Fetch-Site": "cross-site"}
    fields = {"token": front.users.analyst}
    response = front.http.post("/login", data=fields, headers=headers)
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)


def test_logging_out_ends_the_session(browsers):
    browser = browsers["analyst"]
    browser.post("/logout")
    assert str(browser.get("/data/people").url).endswith("/login")


def test_pages_have_no_inline_script_or_style(browsers):
    pages = [
        browsers["owner"].get(path).text
        for path in ("/", "/data/people", "/tokens", "/usage", "/publish")
    ]
    pages.append(browsers["owner"].post("/data/people/ask", sql=COUNT).text)
    for text in pages:
        assert not re.search(r"<script(?![^>]*\bsrc=)", text)
        assert not re.search(r"<style|\sstyle=|\son\w+=", text)
        assert not re.search(r"(src|href)=\"(https?:)?//", text)


def test_the_vendored_file_is_the_one_that_was_looked_at():
    """htmx 2.0.11, Zero-Clause BSD; the hash is that of the file in its package."""
    folder = files("scumble.server.pages").joinpath("static")
    assert hashlib.sha256(folder.joinpath("htmx.min.js").read_bytes()).hexdigest() == HTMX
    assert "Zero-Clause BSD" in folder.joinpath("htmx-LICENSE.txt").read_text("utf-8")

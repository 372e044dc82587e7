"""A live database on a server: by HTTP, from Python, on the pages, and by the PostgreSQL wire."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import astuple, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.private.database.live.results import LiveAnswer, LiveCost, LiveStatus
from scumble.server.catalogue import AskedQuestion, LiveDataset, open_dataset
from scumble.server.config import DatasetSettings
from scumble.server.postgres import statements
from scumble.server.tokens import TokenStore
from tests.support.database.live_table import OPTIONS, ROWS, SCHEMA, assert_promise, table
from tests.support.servers import (
    Browser,
    Front,
    free_port,
    make_live_settings,
    server_process,
    wait_until,
)
from tests.support.terminal import run

psycopg = pytest.importorskip("psycopg")
PSQL = shutil.which("psql")
RANGE = "SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 9 AND sex = 'f'"
OTHER = "SELECT COUNT(*) FROM t WHERE age BETWEEN 12 AND 18 AND sex = 'm'"
GROUPS = "SELECT sex, dept, COUNT(*) AS n FROM t GROUP BY sex, dept"


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return make_live_settings(tmp_path_factory.mktemp("live"))


@pytest.fixture
def front(settings, tmp_path):
    """A database for each test: what one buys, others know."""
    [live, counts] = settings.datasets
    shutil.copytree(live.database, tmp_path / "live")
    datasets = (replace(live, database=tmp_path / "live"), counts)
    with closing(Front(replace(settings, folder=tmp_path / "server", datasets=datasets))) as found:
        yield found


@pytest.fixture
def browse(front):
    """A function that logs a browser in."""
    with ExitStack() as opened:

        def browser(role: str) -> Browser:
            found = Browser(front, role)
            opened.callback(found.http.close)
            return found

        yield browser


def database(front: Front) -> sc.LiveDatabase:
    return front.service.catalogue.get("live").database


def ask(front: Front, sql: str, role: str = "analyst", **body):
    return front.ask(sql, role, "live", **body)


def cost(front: Front, sql: str, **body):
    return front.call("analyst", "POST", "datasets/live/cost", json={"sql": sql, **body}).json()


# --- HTTP -----------------------------------------------------------------------------------------


def test_a_question_over_http(front):
    free = ask(front, RANGE).json()
    assert (free["cost"], free["fresh"]) == ({"status": "known", "charged": 0.0, "needed": 0}, [])
    assert free["high"] - free["low"] == pytest.approx(2 * free["half_width"])
    foreseen = cost(front, RANGE, within=55)
    assert foreseen["status"] == "answered"
    assert foreseen["half_width"] == pytest.approx(free["half_width"])
    assert foreseen["affordable"] == pytest.approx(55, abs=1e-3)
    assert foreseen["charged"] == foreseen["needed"] < foreseen["room"] == 0.125
    paid = ask(front, RANGE, within=55, key="one").json()
    assert paid["cost"]["status"] == "answered"
    assert paid["cost"]["charged"] == foreseen["charged"]
    assert paid["half_width"] == pytest.approx(55, abs=1e-3)
    assert len(paid["fresh"]) == 1
    assert paid["fresh"][0]["stderr"] > paid["stderr"]
    assert ask(front, RANGE, within=55, key="one").json() == paid
    share = ask(front, RANGE, within=f"{100 * 57 / ROWS}%").json()
    assert (share["cost"]["status"], share["value"]) == ("known", paid["value"])
    best = ask(front, RANGE, within=1).json()
    assert best["cost"]["status"] == "limited"
    assert best["cost"]["needed"] > best["cost"]["charged"]
    wider = ask(front, OTHER, level=0.99).json()
    assert wider["high"] - wider["low"] == pytest.approx(2 * wider["half_width"])
    assert wider["half_width"] > ask(front, OTHER).json()["half_width"]
    assert len(database(front).history()) == 2
    seen = front.call("analyst", "GET", "datasets/live/history").json()["history"]
    assert [(each["status"], each["charged"]) for each in seen] == [("answered", 1), ("limited", 1)]
    assert 'status="answered"} 2' in front.call("", "GET", "/metrics").text


def test_tables_over_http(front):
    found = ask(front, GROUPS, within=20).json()
    assert found["cost"]["charged"] > 0
    assert {tuple(each["key"]) for each in found["fresh"]} <= {
        tuple(row["key"]) for row in found["rows"]
    }
    text = front.call(
        "analyst",
        "POST",
        "datasets/live/answer",
        json={"sql": GROUPS},
        headers={"Accept": "text/csv"},
    )
    assert text.text.startswith('"sex","dept","n"')
    described = front.call("auditor", "GET", "datasets/live").json()
    assert described["kind"] == "live"
    assert described["columns"] == ["age", "sex", "dept"]
    assert any("bought" in each for each in described["limits"])


def test_what_is_not_for_it_is_refused_in_one_sentence(front):
    before = database(front).status()
    for body, words in (
        ({"within": 0}, "'within' must be a number above 0"),
        ({"within": "much"}, "'within' must be a number above 0"),
        ({"within": True}, "'within' must be a number or text"),
        ({"within": [5]}, "'within' must be a number or text"),
        ({"within": "5" * 41}, "at most 40 characters"),
        ({"relax": "refuse"}, "'relax' is for databases with one noise for all: leave it out."),
        ({"within": 5, "level": 1}, "'level' must be"),
        ({"key": "k" * 121, "within": 5}, "'key' must be text of at most 120 characters"),
    ):
        found = ask(front, RANGE, **body)
        assert found.status_code == 422, body
        assert words in found.json()["detail"]
    for sql in ("SELECT MEDIAN(age) FROM t", "SELECT STDDEV(age) FROM t"):
        found = ask(front, sql, within=5)
        assert found.status_code == 422
        assert "leave within out" in found.json()["detail"]
    other = front.ask("SELECT COUNT(*) FROM t", dataset="counts", within=5)
    assert (other.status_code, other.json()["detail"]) == (
        422,
        "'within' is for live databases: leave it out.",
    )
    quota = {"analyst": "the analyst", "epsilon": 0.1}
    found = front.call("owner", "POST", "datasets/live/quotas", json=quota)
    assert found.status_code == 409
    assert "ration" in found.json()["detail"]
    assert database(front).status() == before


def test_quotas_ration_each_analyst(tmp_path):
    with closing(Front(make_live_settings(tmp_path, quotas={"the analyst": 0.05}))) as front:
        found = ask(front, RANGE, within=1).json()
        assert found["cost"]["status"] == "limited"
        assert 0 < found["cost"]["charged"] <= 0.05
        refused = ask(front, RANGE, "owner", within=1)
        assert refused.status_code == 422
        assert "who have quotas" in refused.json()["detail"]
        assert ask(front, RANGE, "owner").json()["cost"]["status"] == "known"
        own = front.call("analyst", "GET", "datasets/live/status").json()
        assert own["quotas"] == {"the analyst": pytest.approx(1, abs=1e-5)}
        [used] = front.call("owner", "GET", "datasets/live/usage").json()["analysts"]
        assert (used["purchases"], used["quota"]) == (1, 0.05)


def test_analysts_see_nothing_of_others(front):
    ask(front, RANGE, "owner", within=50, key="secret")
    for path in ("history", "status"):
        text = front.call("analyst", "GET", f"datasets/live/{path}").text
        assert "secret" not in text
        assert "BETWEEN" not in text
    own = front.call("analyst", "GET", "datasets/live/status").json()
    whole = front.call("owner", "GET", "datasets/live/status").json()
    assert (own["purchases"], whole["purchases"]) == (0, 1)
    assert own["used"] == whole["used"] > 0


def test_many_ask_at_once(front):
    """32 connections; half of the requests have keys that all share. Each is charged once."""
    start = threading.Barrier(32, timeout=60)

    def work(number: int):
        start.wait()
        found = []
        for turn in range(6):
            low = (number + turn) % 12
            sql = f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {low + 5}"
            body = {"within": 30, "key": f"k{low}"} if number % 2 else {"within": 30}
            found.append((body.get("key"), ask(front, sql, **body)))
        return found

    with ThreadPoolExecutor(32) as threads:
        replies = [each for found in threads.map(work, range(32)) for each in found]
    assert {reply.status_code for _, reply in replies} == {200}
    keyed: dict[str, set[str]] = {}
    for key, reply in replies:
        if key is not None:
            keyed.setdefault(key, set()).add(reply.text)
    assert all(len(texts) == 1 for texts in keyed.values())
    asked = database(front)
    asked.status()
    assert_promise(asked)
    assert asked.verify() == []
    entries = asked._journal.entries(after=1)
    bought = sum(len(entry.payload["new"]) for entry in entries)
    assert asked.status().purchases == bought > 0
    told = sum(len(each.json()["fresh"]) for key, each in replies if key is None)
    assert told == sum(len(entry.payload["new"]) for entry in entries if entry.key is None)


def test_auditors_see_the_chain(front, without_audits):
    ask(front, RANGE, within=50)
    seal = front.call("auditor", "GET", "datasets/live/ledger").json()
    assert [each["kind"] for each in seal["entries"]] == ["promise", "answer"]
    verified = front.call("auditor", "POST", "datasets/live/verify", json={"seal": seal["seal"]})
    assert verified.json()["intact"]
    assert (
        front.call("auditor", "POST", "datasets/live/answer", json={"sql": RANGE}).status_code
        == 403
    )


@pytest.mark.slow
def test_a_certificate_attacks_a_twin(front):
    page = front.call("auditor", "GET", "datasets/live/certificate").text
    assert "live database keeps" in page
    assert '<tr class="refuted">' not in page
    assert '<tr class="stands">' in page


def test_batches_are_refused(settings):
    [live, _] = settings.datasets
    given = DatasetSettings("live", database=live.database, source=live.source, batches=("x.csv",))
    with pytest.raises(sc.ScumbleError, match="no rows can be added"):
        open_dataset(given)


def same(again: LiveAnswer, told: LiveAnswer) -> bool:
    return (again.estimate.value, again.charged) == (told.estimate.value, told.charged)


def killed(folder: Path, lives: int, seed: int) -> None:
    """Kill a server while four clients buy: every answer that was given is in the journal, once."""
    settings = make_live_settings(folder, largest_purchase=0.01)
    [live, _] = settings.datasets
    (folder / "server.toml").write_text(
        f'[server]\nfolder = "{settings.folder}"\n[limits]\nrequests = 100000\n'
        f'[datasets.live]\ndatabase = "{live.database}"\nsource = "{live.source}"\n'
    )
    token, _ = TokenStore(settings.folder).create("analyst", "Ada")
    chance = random.Random(seed)
    given: dict[str, tuple[str, LiveAnswer]] = {}

    def client(number: int, address: str, stop: threading.Event) -> None:
        own = random.Random(number)
        with suppress(sc.ScumbleError), sc.connect(address, token=token) as remote:
            while not stop.is_set():
                low, key = own.randrange(15), f"{own.random()}"
                high = low + own.randrange(5)
                sql = f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {high}"
                given[key] = sql, remote.ask(sql, within=20, key=key)

    for _ in range(lives):
        port = free_port()
        address = f"http://127.0.0.1:{port}/live"
        with server_process(folder, port) as process:
            with sc.connect(address, token=token) as remote:
                for key in chance.sample(sorted(given), min(3, len(given))):
                    sql, told = given[key]
                    assert same(remote.ask(sql, within=20, key=key), told)
            stop, before = threading.Event(), len(given)
            threads = [
                threading.Thread(target=client, args=(chance.randrange(1 << 30), address, stop))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            wait_until(lambda before=before: len(given) > before, 60)
            time.sleep(chance.uniform(0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
            stop.set()
            for thread in threads:
                thread.join(90)
    with sc.LiveDatabase.open(live.database, live.source) as found:
        assert found.verify() == []
        found.status()
        assert_promise(found)
        for key, (sql, told) in given.items():
            again = found.ask(sql, within=20, key=f"3:Ada:{key}", analyst="Ada")
            assert same(again, told)
        keys = [entry.key for entry in found._journal.entries(after=1)]
        assert len(keys) == len(set(keys)) >= len(given)


def test_a_killed_server_has_charged_what_it_answered(tmp_path, monkeypatch):
    monkeypatch.setattr("scumble.server.client._TRIES", 1)
    killed(tmp_path, lives=2, seed=1)


@pytest.mark.slow
def test_a_server_that_is_killed_15_times(tmp_path, monkeypatch):
    monkeypatch.setattr("scumble.server.client._TRIES", 1)
    killed(tmp_path, lives=15, seed=2)


def test_neighbouring_tables_look_alike(tmp_path):
    """All that a client sees but for values: what is bought and what it costs depends on questions
    alone.
    """
    one = table()
    other = pa.concat_tables([one.slice(7, 1), one.slice(1)])  # another person comes first
    replies, terms = [], {**OPTIONS, "seed": 3, "sums": ()}
    for name, given in (("one", one), ("other", other)):
        with sc.LiveDatabase.create(tmp_path / name, given, SCHEMA, **terms) as found:
            data = LiveDataset("live", "live", tmp_path / name, found)
            chance, told = random.Random(4), []
            for number in range(40):
                low, within = chance.randrange(12), chance.choice([None, 20, 40, "1%"])
                where = f"WHERE age BETWEEN {low} AND {low + chance.randrange(9)}"
                sql = chance.choice(
                    [
                        f"SELECT COUNT(*) FROM t {where}",
                        f"SELECT sex, COUNT(*) FROM t {where} GROUP BY sex",
                        f"SELECT COUNT(*) FROM t {where} OR dept = 'b'",
                    ]
                )
                key = f"k{number}" if chance.random() < 0.3 else None
                question = AskedQuestion(sql, "Ada", key, within)
                told.append(astuple(data.cost(question)))
                answer = data.answer(question)
                stderrs = [each.stderr for each in answer.fresh.values()]
                of_it = (answer.half_width, answer.charged, answer.needed)
                told.append((answer.status, *of_it, *stderrs))
            replies.append((told, found.status(), len(found.history())))
    (first, *rest), (second, *others) = replies
    assert rest == others
    for mine, theirs in zip(first, second, strict=True):
        assert mine[0] == theirs[0]
        assert mine[1:] == pytest.approx(theirs[1:], rel=1e-9)


def test_the_shell_asks_with_an_accuracy(front, monkeypatch):
    monkeypatch.setenv("SCUMBLE_TOKEN", front.users.analyst)
    target = f"{front.http.base_url}".rstrip("/") + "/live"
    assert "Known: within ±" in run("ask", target, RANGE).out
    foreseen = run("ask", target, RANGE, "--within", "55", "--preview")
    assert "It would be answered: within ±55 at 95 %, for 7." in foreseen.out
    paid = run("ask", target, RANGE, "--within", "55")
    assert "Answered: within ±55 at 95 %; charged 7." in paid.out
    again = run("ask", target, RANGE, "--within", "56", "--json").json
    assert (again["status"], again["charged"]) == ("known", 0)
    wrong = run("ask", target, RANGE, "--relax", "refuse")
    assert wrong.code != 0
    assert "is for databases with one noise for all" in wrong.err
    assert run("show", target).code == 0


# --- Python ---------------------------------------------------------------------------------------


def test_connect_has_the_calls_of_a_live_database(front):
    address = f"{front.http.base_url}".rstrip("/")
    with sc.connect(f"{address}/live", token=front.users.analyst) as remote:
        local = database(front)
        free, here = remote.ask(RANGE), local.ask(RANGE)
        assert isinstance(free, LiveAnswer)
        assert repr(free) == repr(here)
        assert free.estimate.interval(0.99) == pytest.approx(here.estimate.interval(0.99))
        assert not local.history()
        foreseen = remote.preview(RANGE, within=55, level=0.9)
        assert isinstance(foreseen, LiveCost)
        assert foreseen == local.preview(RANGE, within=55, level=0.9)
        paid = remote.ask(RANGE, within=50, key="mine")
        again = remote.ask(RANGE, within=50, key="mine")
        assert (again.estimate.value, again.charged) == (paid.estimate.value, paid.charged)
        assert paid.fresh[()].interval(0.95) == again.fresh[()].interval(0.95)
        assert paid.half_width == local.ask(RANGE).half_width
        status = remote.status()
        assert isinstance(status, LiveStatus)
        assert status == local.status("the analyst")
        groups = remote.ask(GROUPS, within=20)
        assert set(groups.fresh) <= {key for key, _ in groups.estimate.rows}
        assert remote.groups(GROUPS).rows[0][1].value == groups.estimate.rows[0][1].value
        assert remote.ask("SELECT AVG(age), SUM(age) FROM t").status == "known"
        with pytest.raises(sc.ParameterError, match="'within' parameter of ask must be"):
            remote.ask(RANGE, within=-5)
        with pytest.raises(sc.QueryError, match="leave within out"):
            remote.ask("SELECT MEDIAN(age) FROM t", within=5)
    with (
        sc.connect(f"{address}/counts", token=front.users.analyst) as release,
        pytest.raises(sc.ScumbleError, match="is for live databases"),
    ):
        release.ask("SELECT COUNT(*) FROM t", within=5)


def test_the_table_of_a_live_database_is_checked(settings, tmp_path):
    pq.write_table(table(seed=9), tmp_path / "other.parquet")
    given = DatasetSettings(
        "live", database=settings.datasets[0].database, source=str(tmp_path / "other.parquet")
    )
    with pytest.raises(sc.LedgerError, match="content of the table"):
        open_dataset(given)


# --- pages ----------------------------------------------------------------------------------------


def test_the_page_says_what_is_known_and_what_more_costs(front, browse):
    browser = browse("analyst")
    page = browser.get("/data/live").text
    assert 'name="within"' in page
    assert 'class="cost-problem' not in page
    assert "live database" in browser.get("/").text
    known = browser.post("/data/live/cost", sql=RANGE, within="", level="0.95").text
    assert "Known now: within ±" in known
    assert "The best that can be bought now is ±" in known
    reached = browser.post("/data/live/cost", sql=RANGE, within="55", level="0.95").text
    assert "Ask reaches ±55" in reached
    assert "% of what is for purchases; at most 12.5 % may be spent at once" in reached
    beyond = browser.post("/data/live/cost", sql=RANGE, within="2", level="0.95").text
    assert "±2 costs more than the whole promise" in beyond
    average = browser.post("/data/live/cost", sql="SELECT MEDIAN(age) FROM t", within="").text
    assert "Known now: within ±" in average
    assert "best that can be bought" not in average
    groups = browser.post("/data/live/cost", sql=GROUPS, within="").text
    assert "Known now: within ±" in groups
    assert "best that can be bought" not in groups
    assert "Ask reaches ±" in browser.post("/data/live/cost", sql=GROUPS, within="35").text
    refused = browser.post("/data/live/cost", sql="SELECT MEDIAN(age) FROM t", within="5").text
    assert "leave within out" in refused
    assert "must be a number above 0" in browser.post("/data/live/cost", sql=RANGE, within="x").text
    assert "must be one of" in browser.post("/data/live/cost", sql=RANGE, level="2").text


def test_each_of_several_numbers_has_its_name(front, browse):
    """A narrow page has no header line."""
    sql = "SELECT sex, AVG(age) AS a, COUNT(*) AS n FROM t GROUP BY sex"
    shown = browse("analyst").post("/data/live/ask", sql=sql).text
    assert shown.count('data-name="a"') == shown.count('data-name="n"') == 2


def test_asking_on_the_page(front, browse):
    browser = browse("analyst")
    free = browser.post("/data/live/ask", sql=RANGE, within="", level="0.9", key="k").text
    assert "known already, so nothing was measured" in free
    assert "90 %: " in free
    assert "Free: nothing new was charged." in free
    assert not database(front).history()
    paid = browser.post("/data/live/ask", sql=RANGE, within="55", level="0.95", key="k").text
    assert "as you asked: what was missing was measured" in paid
    assert "The new measurement alone:" in paid
    assert "Charged: 7." in paid
    assert 'name="within" value="55"' in paid
    asked = {"sql": RANGE, "within": "55", "level": "0.95", "key": "k", "format": "csv"}
    assert browser.post("/data/live/download", **asked).text.startswith('"value"')
    limited = browser.post("/data/live/ask", sql=RANGE, within="1", level="0.95", key="l").text
    assert "the best that is allowed" in limited
    assert len(database(front).history()) == 2
    assert "limited" in browser.get("/data/live/history").text
    table = browser.post("/data/live/ask", sql=GROUPS, within="", level="0.99").text
    assert "99 %" in table


def test_owners_and_auditors_see_what_was_bought(front, browse):
    ask(front, RANGE, within=50)
    owner = browse("owner")
    usage = owner.get("/usage").text
    assert "1 count bought" in usage
    assert "A quota rations what one analyst may buy. It is no promise" in usage
    assert 'action="/data/live/quota"' not in usage
    audit = browse("auditor").get("/data/live").text
    assert "1 count bought, of a base" in audit
    assert "Verify the journal" in audit
    assert owner.get("/data/live").status_code == owner.get("/data/live/audit").status_code == 200


# --- PostgreSQL -----------------------------------------------------------------------------------


def wire_address(front: Front, dataset: str = "live") -> str:
    token, where = front.users.analyst, front.service.settings.postgres
    return f"postgresql://{token.split('_')[1]}:{token}@{where}/{dataset}"


def test_the_wire_buys_only_what_it_is_told_to(front):
    with psycopg.connect(wire_address(front), autocommit=True) as connection:
        told: list[str] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))

        def asked(sql: str, *parameters) -> dict:
            told.clear()
            cursor = connection.execute(sql, parameters or None)
            names = [each.name for each in cursor.description]
            return dict(zip(names, cursor.fetchone(), strict=True))

        free = asked(RANGE.replace("COUNT(*)", "COUNT(*) AS n"))
        assert list(free) == ["n", "stderr", "low", "high", "status", "answered"]
        assert (free["status"], told) == ("known", [])
        assert not database(front).history()
        paid = asked(f"{RANGE} WITH ACCURACY 55")
        assert paid["status"] == "answered"
        assert paid["high"] - paid["low"] == pytest.approx(110, abs=0.01)
        assert told[0].startswith("answered: within 55 at 95 %; charged 7.")
        assert told[1].startswith("this measurement alone: ")
        several = "SELECT COUNT(*) AS n, COUNT(*) AS m FROM t WHERE sex = %s WITH ACCURACY %s"
        both = asked(several, "f", "2%")
        assert both["n_high"] - both["n_low"] <= 160.01
        connection.execute("SET within = '1'")
        connection.execute("SET level = '0.99'")
        limited = asked(OTHER)
        assert limited["status"] == "limited"
        assert "at 99 %; charged 12.5 % of what is for purchases; the accuracy asked" in told[0]
        bought = len(database(front).history())
        connection.execute("RESET ALL")
        assert asked(OTHER)["status"] == "known"
        connection.execute("SET within = '0.1%'")
        connection.execute("SET within = ''")
        assert asked(GROUPS)["status"] == "known"
        assert len(database(front).history()) == bought


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SET within = '-5'", "within must be a number above 0"),
        ("SET level = '2'", "level must be a number between 0 and 1"),
        (f"{RANGE} WITH ACCURACY none", "must be a number above 0"),
        (f"{RANGE} WITH ACCURACY -3", "must be a number above 0"),
        ("SELECT MEDIAN(age) FROM t WITH ACCURACY 5", "leave within out"),
    ],
)
def test_a_wrong_accuracy_is_refused_on_the_wire(front, sql, words):
    with psycopg.connect(wire_address(front), autocommit=True) as connection:
        with pytest.raises(psycopg.Error, match=words):
            connection.execute(sql)
        assert connection.execute(RANGE).fetchone()
    assert not database(front).history()


def test_other_data_sets_take_no_accuracy_on_the_wire(front):
    with psycopg.connect(wire_address(front, "counts"), autocommit=True) as connection:
        for sql in ("SET within = '5'", "SELECT COUNT(*) FROM t WITH ACCURACY 5"):
            with pytest.raises(psycopg.Error, match="is for live databases: leave it out"):
                connection.execute(sql)
        [value, *_] = connection.execute("SELECT COUNT(*) FROM t").fetchone()
        assert value == ROWS


def test_an_accuracy_in_a_text_is_text():
    for sql in (
        "SELECT COUNT(*) FROM t WHERE dept = 'a WITH ACCURACY 50'",
        "SELECT COUNT(*) FROM t WHERE dept = 'a WITH ACCURACY ''50'''",
        'SELECT COUNT(*) FROM t WHERE "x WITH ACCURACY 50" = 1',
    ):
        assert statements.accuracy(sql) == (sql, None)
    assert statements.accuracy("SELECT 1  with accuracy '0.1%' ") == ("SELECT 1", "0.1%")
    assert statements.accuracy("SELECT 1 WITH ACCURACY  50 ") == ("SELECT 1", "50")


@pytest.mark.skipif(PSQL is None, reason="needs psql")
def test_psql_shows_the_cost(front):
    sql = f"SET within = '55'; {RANGE}"
    command = [PSQL, "-X", "-A", "-t", wire_address(front), "-c", sql]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "|answered|" in found.stdout
    assert "NOTICE:  answered: within 55 at 95 %; charged 7." in found.stderr

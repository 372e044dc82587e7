"""What owners make over HTTP: tables sent, schemas proposed, releases, databases, added rows."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from scumble.demo.census import census
from scumble.model.errors import ScumbleError
from scumble.model.schema.numbers import Number
from scumble.private.database import tables
from scumble.private.ledger.ledger import Ledger
from scumble.server.catalogue import Catalogue
from scumble.server.config import DatasetSettings, Limits, SourceSettings
from scumble.server.publishing import drafts as drafted
from scumble.server.publishing import jobs, tasks
from scumble.server.publishing import service as publishing
from scumble.server.service import Service
from tests.support.servers import Browser, Front, make_settings

COUNT = "SELECT COUNT(*) FROM t WHERE age < 40"


@pytest.fixture
def worked_here(monkeypatch):
    """Proposals and comparisons are made in this process, where another one is not the point.

    What publishes holds a lock until its process ends.
    """

    def work(job, task, arguments):
        if task not in ("propose", "compare", "shares"):
            return jobs.in_process(job, task, arguments)
        given = json.loads(json.dumps(arguments))
        return json.loads(json.dumps(tasks.TASKS[task](job.report, **given)))

    monkeypatch.setattr(publishing, "in_process", work)


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """A server with two configured sources, a ledger, and a small limit of uploads."""
    folder = tmp_path_factory.mktemp("owned")
    settings = make_settings(folder)
    table, schema = census(300, seed=5)
    pq.write_table(table, folder / "more.parquet")
    schema.save(folder / "schema.toml")
    Ledger.create(folder / "ledger", epsilon=3, neighbours="replace")
    found = Front(
        replace(
            settings,
            limits=Limits(upload=200_000, columns=50),
            ledger=folder / "ledger",
            sources=(
                SourceSettings("more", str(folder / "more.parquet"), schema=folder / "schema.toml"),
                SourceSettings("gone", str(folder / "gone.parquet")),
            ),
        )
    )
    found.schema = (folder / "schema.toml").read_text()
    found.csv = folder / "people.csv"
    csv.write_csv(table, found.csv)
    yield found
    found.close()


def finished(front, response, state="done"):
    """Wait for the job of a response; return what it says at its end."""
    job = ended(front, response)
    assert job["state"] == state, job["problem"]
    return job


def ended(front, response):
    """Wait for the job of a response, however it ends."""
    assert response.status_code == 202, response.text
    end = time.monotonic() + 300
    while time.monotonic() < end:
        job = front.call("owner", "GET", response.headers["location"]).json()
        if job["state"] not in ("waiting", "running"):
            return job
        time.sleep(0.05)
    raise AssertionError(job)


def upload(front, content=None, name="people.csv"):
    body = front.csv.read_bytes() if content is None else content
    return front.call("owner", "POST", f"uploads?name={name}", content=body)


def marginals(**parameters):
    given = {"attributes": ["age", "sex"], "neighbours": "replace", "ways": 1, **parameters}
    return {"method": "marginals", "parameters": given}


def make(front, **body):
    return front.call("owner", "POST", "datasets", json={"schema": front.schema, **body})


def test_a_table_is_sent_proposed_published_and_asked(owned):
    sent = upload(owned)
    assert sent.status_code == 201
    source = sent.json()["source"]
    assert source in [e["source"] for e in owned.call("owner", "GET", "sources").json()["sources"]]
    job = finished(owned, owned.call("owner", "POST", "schemas", json={"source": source}))
    assert "from_data" in job["result"]["schema"]
    chosen = marginals(epsilon=1)
    done = finished(owned, make(owned, name="made", source=source, **chosen))
    assert done["result"]["dataset"] == "made"
    assert "charged" in " ".join(done["result"]["remarks"])
    answer = owned.ask(COUNT, dataset="made").json()
    assert answer["low"] <= answer["value"] <= answer["high"]
    ledger = owned.call("auditor", "GET", "ledger").json()
    assert [each["method"] for each in ledger["charges"]] == ["marginals"]
    assert set(ledger) == {"seal", "total", "charges"}
    for name, methods in (("made", ["marginals"]), ("people", [])):
        secret, _ = owned.service.tokens.create("auditor", "of one", datasets=[name])
        one = owned.call("", "GET", "ledger", headers={"Authorization": f"Bearer {secret}"}).json()
        assert set(one) == {"charges"}  # no total and no seal of charges for other data sets
        assert [each["method"] for each in one["charges"]] == methods
    again = make(owned, name="made", source=source, **chosen)
    assert (again.status_code, again.json()["status"]) == (409, 409)


@pytest.mark.parametrize("method", ["workload", "mwem"])
def test_a_parameter_opens_no_file_of_the_server(owned, tmp_path, method):
    """A text is not the name of a file: a secret is not read, a pipe does not stop all jobs."""
    os.mkfifo(tmp_path / "pipe")
    given = {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"}
    given["queries"] = str(tmp_path / "pipe")
    body = {"name": f"by-{method}", "source": "more", "method": method, "parameters": given}
    job = finished(owned, make(owned, **body), state="failed")
    assert "must be a list of SQL counts" in job["problem"]


def test_a_database_is_made_and_grows_and_both_are_there_after_a_restart(owned):
    source = upload(owned).json()["source"]
    asked = {"epsilon": 1, "noise": 20, "attributes": ["age", "sex", "condition"]}
    finished(owned, make(owned, name="live", source=source, **asked))
    first = owned.ask(COUNT, dataset="live").json()
    owned.call("owner", "DELETE", f"uploads/{source.partition(':')[2]}")  # its table is kept
    for _ in range(2):  # the second time the key is known
        body = {"source": "more", "key": "once"}
        added = owned.call("owner", "POST", "datasets/live/append", json=body)
        assert finished(owned, added)["result"]["batch"] == 2
    assert owned.ask(COUNT, dataset="live", key="after").json()["value"] != first["value"]
    again = Service(owned.service.settings)
    try:
        again.open()
        assert again.catalogue.get("live").status(None).batches == 2
        assert again.catalogue.get("people") is not None
    finally:
        again.close()
    release = owned.call("owner", "POST", "datasets/rows/append", json={"source": "more"})
    assert release.status_code == 409


def sent(service, table):
    """Send a table as Parquet; return its source."""
    part, complete = service.publishing.new_upload("table.parquet")
    pq.write_table(table, part, compression="zstd")
    return publishing.UPLOAD + complete().number


def test_no_table_is_read_in_the_process_of_the_server(tmp_path, monkeypatch):
    """Rows are read by a process with limits, and mapped as codes, now and after a restart."""
    settings = replace(make_settings(tmp_path), datasets=())
    shop = publishing.PublishingService(settings, Catalogue())
    table, schema = census(300, seed=5)
    service = Service(settings)
    service.open()

    def refuse(*_, **__):
        raise AssertionError("a table was read")

    monkeypatch.setattr(tables, "open_source", refuse)
    # P(noise of a count is not 0) = 2 / (e^20 + 1) < 1e-8
    recipe = {"kind": "database", "epsilon": 100, "noise": 0.05, "attributes": ["age", "sex"]}
    try:
        job = service.publishing.make("apart", sent(service, table), schema.dumps(), recipe)
        wait_for(job)
        assert job.state == "done", job.problem
        made = service.catalogue.get("apart")
        more = census(200, seed=6)[0]
        job = service.publishing.append(made, sent(service, more), None)
        wait_for(job)
        assert job.state == "done", job.problem
        assert made.database.answer("SELECT COUNT(*) FROM t").value == 500
    finally:
        service.close()
    for file in (settings.folder / "tables").iterdir():
        assert (file.suffix, stat.S_IMODE(file.stat().st_mode)) == (".codes", 0o600)
    shop.open_all()
    young = pc.sum(pc.less(pa.concat_tables([table, more])["age"], 40)).as_py()
    assert shop.catalogue.get("apart").database.answer(COUNT).value == young
    shop.catalogue.close()
    shop.close()


def test_a_small_file_of_many_rows_ends_at_the_memory_of_a_job(tmp_path):
    settings = make_settings(tmp_path, limits=Limits(job_memory=300))
    service = Service(settings)
    service.open()
    try:
        people = service.catalogue.get("people")
        one = census(1)[0]
        many = one.take(pa.array(np.zeros(20_000_000, np.int8)))
        for table, state in ((one, "done"), (many, "failed")):
            job = service.publishing.append(people, sent(service, table), None)
            wait_for(job)
            assert job.state == state, job.problem
        assert "needs more than 300 MB of memory (limits.job_memory)" in job.problem
        assert people.status(None).batches == 2
        assert len(list((settings.folder / "tables").iterdir())) == 1
    finally:
        service.close()


def test_rows_take_no_more_of_the_disk_than_is_left(tmp_path):
    settings = make_settings(tmp_path, limits=Limits(uploads=20_000))
    service = Service(settings)
    service.open()
    try:
        people = service.catalogue.get("people")
        many = census(1)[0].take(pa.array(np.zeros(20_000, np.int8)))
        job = service.publishing.append(people, sent(service, many), None)
        wait_for(job)
        assert (job.state, "more of the disk than is left" in job.problem) == ("failed", True)
        assert not list((settings.folder / "tables").iterdir())
    finally:
        service.close()


def test_work_ends_at_its_time(monkeypatch):
    """As the work that waits for a pipe: it would keep others waiting for ever."""
    monkeypatch.setattr(jobs, "_RUN", "import sys, time; sys.stdin.readline(); time.sleep(600)")
    running = jobs.Jobs(1, seconds=0.2)
    job = running.start("schema", "x", lambda job: jobs.in_process(job, "propose", {}))
    wait_for(job)
    running.close()
    assert job.state == "failed"
    assert job.problem.startswith("The work took longer than 0 seconds (limits.job_seconds)")


def test_what_is_sent_is_private_and_limited(owned):
    source = upload(owned).json()["source"]
    folder = owned.service.settings.folder / "drafts" / source.partition(":")[2]
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = sorted(folder.parent.iterdir())
    assert upload(owned, b"x" * 200_001).status_code == 413
    chunks = (b"x" * 50_000 for _ in range(5))  # without a length
    assert upload(owned, chunks).status_code == 413
    assert upload(owned, b"").status_code == 422
    assert upload(owned, name="people.exe").status_code == 415
    assert "packed" in upload(owned, gzip.compress(b"a\n1\n")).json()["detail"]
    assert upload(owned, b"a\n1\n", name="people.parquet").status_code == 415
    assert upload(owned, b"12345678DUCK").status_code == 415  # it would be opened as a database
    assert owned.call("owner", "POST", "uploads", content=b"x").status_code == 422
    assert sorted(folder.parent.iterdir()) == before


def test_all_tables_together_and_the_free_disk_are_limited(owned, monkeypatch):
    shop = owned.service.publishing
    known, settings = shop.free_bytes(), shop.settings
    size = len(owned.csv.read_bytes())
    upload(owned)
    assert known - 3 * size < shop.free_bytes() < known - size
    for changed in ({"uploads": settings.limits.uploads - shop.free_bytes()}, {"reserve": 1 << 60}):
        less = replace(settings, limits=replace(settings.limits, **changed))
        monkeypatch.setattr(shop, "settings", less)
        response = upload(owned)
        assert response.status_code == 413
        assert "Delete a draft" in response.json()["detail"]


@pytest.mark.usefixtures("worked_here")
def test_a_wide_table_is_refused_in_a_sentence(owned):
    wide = ",".join(f"c{place}" for place in range(51)) + "\n"
    sent = {"source": upload(owned, wide.encode()).json()["source"]}
    begun = owned.call("owner", "POST", "schemas", json=sent)
    assert "51 columns, of at most 50" in finished(owned, begun, "failed")["problem"]


def test_a_value_outside_its_domain_is_said_without_the_value(owned, caplog):
    """The owner reads which column is wrong, and nobody which value it has."""
    text = owned.csv.read_text().splitlines()
    place = text[0].replace('"', "").split(",").index("age")
    row = text[2].split(",")
    row[place] = "4711"
    source = upload(owned, "\n".join([*text[:2], ",".join(row), *text[3:]]).encode())
    source = source.json()["source"]
    job = finished(owned, make(owned, name="odd", source=source, **marginals(epsilon=1)), "failed")
    assert job["problem"].startswith("Column 'age', row 2: the value is outside the domain")
    assert "outside='drop' in Python" in job["problem"]
    assert "4711" not in job["problem"] + caplog.text
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.parametrize("schema", [False, True])
def test_what_is_wrong_in_a_job_is_said_without_internals(owned, schema):
    """Neither the class of the mechanism nor the folder of the table is named."""
    source = upload(owned, b"age\n1\n").json()["source"]
    chosen = marginals(epsilon=1 if schema else -1)
    job = finished(owned, make(owned, name="wrong", source=source, **chosen), "failed")
    wanted = "The CSV file 'table.csv' has no column 'sex'" if schema else "'epsilon' must be"
    assert job["problem"].startswith(wanted)
    assert str(owned.service.settings.folder) not in job["problem"]


def test_a_table_that_is_in_use_is_not_deleted(owned, monkeypatch):
    monkeypatch.setattr(jobs, "_RUN", "import sys, time; sys.stdin.readline(); time.sleep(600)")
    source = upload(owned).json()["source"]
    begun = make(owned, name="used", source=source, schema=owned.schema, **marginals(epsilon=0.1))
    path = f"uploads/{source.partition(':')[2]}"
    assert owned.call("owner", "DELETE", path).status_code == 409
    owned.call("owner", "DELETE", f"jobs/{begun.json()['job']}")
    finished(owned, begun, "cancelled")
    assert owned.call("owner", "DELETE", path).status_code == 200


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_work_that_needs_too_much_memory_fails_in_a_sentence(owned, monkeypatch):
    monkeypatch.setattr(jobs, "_RUN", _WITH.format("bytearray(1 << 30)"))
    monkeypatch.setattr(owned.service.publishing.jobs, "_memory", 500.0)
    begun = owned.call("owner", "POST", "schemas", json={"source": "more"})
    assert "more than 500 MB" in finished(owned, begun, "failed")["problem"]


def test_work_ends_when_the_server_is_killed():
    code = _WITH.format("print('begun', file=sys.stderr), time.sleep(600)")
    command = [sys.executable, "-c", code]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
        process.stdin.write('{"task": "propose", "arguments": {}, "memory": null}\n')
        process.stdin.flush()
        assert process.stderr.readline() == "begun\n"
        process.stdin.close()  # as the system does
        assert process.wait(30) == 143


_WITH = (
    "import sys, time; from scumble.server.publishing import tasks; "
    "tasks.TASKS['propose'] = lambda report, **_: ({}); tasks.main()"
)


def test_what_was_being_made_when_the_server_was_killed(tmp_path, caplog):
    """What is whole is served, since it is charged; of the rest nothing stays."""
    settings = make_settings(tmp_path)
    folder = settings.folder / "datasets"
    folder.mkdir(parents=True)
    settings.folder.chmod(0o700)
    shutil.copytree(tmp_path / "rows", folder / "whole")
    for name in (".half-0123abcd", ".half-0123abcd.new", ".half-more-0123abcd"):
        (folder / name).mkdir()
    left = tmp_path / ".people-0123abcd.new"
    left.mkdir()
    kept = settings.folder / "tables" / "half.csv"
    kept.parent.mkdir()
    kept.write_text("age")
    half = DatasetSettings("half", database=folder / "half", source=str(kept))
    records = [DatasetSettings("whole", "Whole", release=folder / "whole"), half]
    made = {"format": 1, "datasets": [], "batches": {}}
    made["making"] = [publishing._written(each) for each in records]
    (settings.folder / publishing._MADE).write_text(json.dumps(made))
    for _ in range(2):
        service = Service(settings)
        try:
            service.open()
            assert service.catalogue.get("whole").title == "Whole"
            assert service.catalogue.get("half") is None
        finally:
            service.close()
    assert not kept.exists()
    assert [path.name for path in folder.glob(".half-*")] == [".half-more-0123abcd"]
    assert not left.exists()
    assert len(caplog.records) == 2


CANNOT_BE_MADE = [
    ({"name": "Bad Name", "source": "more", "method": "uniform"}, 422),
    ({"name": "x", "source": "/etc/passwd", "method": "uniform"}, 422),
    ({"name": "x", "source": "upload:../..", "method": "uniform"}, 404),
    ({"name": "x", "source": "upload:000000000000", "method": "uniform"}, 404),
    ({"name": "x", "source": "more"}, 422),
    ({"name": "x", "source": "more", "method": "uniform", "epsilon": 1, "noise": 9}, 422),
    ({"name": "x", "source": "more", "method": "uniform", "schema": "no = ["}, 422),
    ({"name": "people", "source": "more", "method": "uniform"}, 409),
]


def test_what_cannot_be_made_is_refused_at_once(owned, subtests):
    for body, status in CANNOT_BE_MADE:
        with subtests.test(body=body):
            response = make(owned, **body)
            assert response.status_code == status, response.text
            assert response.headers["content-type"] == "application/problem+json"


def test_work_that_fails_says_why_and_leaves_nothing(owned):
    before = owned.call("owner", "GET", "ledger").json()["total"]
    for body, words in (
        ({"method": "nonsense"}, "one of uniform"),
        (marginals(epsilon=-1), "epsilon"),
        (marginals(epsilon=50), "limit"),
        ({"method": "uniform", "parameters": {"epsilon": 1}}, "cannot add up"),
        ({"epsilon": 1, "noise": 1}, "noise"),
        ({"method": "alphabeta", "parameters": {"epsilon": 1, "views": 2}}, "private record"),
    ):
        job = finished(owned, make(owned, name="bad", source="more", **body), "failed")
        assert words in job["problem"]
    missing = make(owned, name="bad", source="gone", **marginals(epsilon=0.1))
    assert "gone" in finished(owned, missing, "failed")["problem"]
    assert not (owned.service.settings.folder / "datasets" / "bad").exists()
    assert owned.call("owner", "GET", "ledger").json()["total"] == before


ANSWERS = {
    "unit": "row",
    "use": "questions",
    "care": "balanced",
    "rows": "300",
    "name": "paged",
    "title": "Census of 300",
    "description": "Fictitious people",
}


@pytest.mark.usefixtures("worked_here")
def test_the_pages_lead_from_a_table_to_a_data_set(owned):
    """Without JavaScript: a configured source, five answers, a comparison, a plan, a database."""
    browser = Browser(owned, "owner")
    page = browser.post("/publish", source="more")
    draft = str(page.url.path)
    assert 'class="role-select role-sensitive" name="role-7"' in page.text
    assert 'class="role-select role-identifier" name="role-0"' in page.text
    assert "read from the table" not in page.text  # its schema is declared
    early = browser.post(f"{draft}/check", choice="recommended:0")
    assert (early.status_code, "Answer the five questions first" in early.text) == (409, True)
    page = browser.post(f"{draft}/answers", **ANSWERS, **{"role-2": "insensitive"})
    assert 'role-insensitive" name="role-2"' in page.text
    assert "The method that suits your answers" in page.text
    assert "<code>marginals</code>: many tables of few columns" in page.text
    assert "<code>mosaic</code>: boxes cut and merged" in page.text  # folded, with the reason
    assert "are left out: with all 7 columns a count of rows with" in page.text
    assert "It publishes all 7 columns; a count of rows with" in page.text  # an alternative
    plan = browser.post(f"{draft}/check", choice="recommended:0")
    assert "The ledger will be charged ε = 1" in plan.text
    for name in ("condition", "person"):  # published, and not
        assert f"<code>{name}</code>" in plan.text[plan.text.index('id="plan"') :][:1500]
    reached = plan.text[plan.text.index('id="plan"') :]
    assert reached.index("<code>occupation</code>") > reached.index("<code>condition</code>")
    assert "Every row is another person." in plan.text
    assert browser.post(f"{draft}/schema", toml="no = [").status_code == 422
    for choice in ("preview:0", "preview:²", "recommended:99", "x"):
        refused = browser.post(f"{draft}/check", choice=choice)
        assert (refused.status_code, "Choose a method first" in refused.text) == (422, True)
    assert browser.post(f"{draft}/compare", epsilons="1").status_code == 422
    fields = {"kind": "database", "epsilon": "1", "noise": "1,2"}
    assert browser.post(f"{draft}/check", **fields).status_code == 422
    assert browser.get("/publish/" + "a" * 5000).status_code == 404
    page = browser.post(f"{draft}/compare", **{"method-uniform": "1", "epsilons": "1"})
    assert '<meta http-equiv="refresh"' in page.text
    page = done(browser, draft)
    assert '<svg class="chart"' in page.text
    assert "no private row was read" in page.text
    refused = browser.post(f"{draft}/check", kind="release", choice="preview:0")
    assert "cannot add up" in refused.text  # the ledger is about whole rows
    fields = {"kind": "database", "epsilon": "0.2", "noise": "50"}
    plan = browser.post(f"{draft}/check", attributes="age, sex", **fields)
    assert "The ledger will be charged ε = 0.2" in plan.text
    assert "At most 5 answers can cover one point" in plan.text
    assert owned.service.catalogue.get("paged") is None
    browser.post(f"{draft}/make", attributes="age, sex", **fields)
    page = done(browser, draft)
    assert "/data/paged/certificate" in page.text
    assert browser.get("/data/paged").status_code == 200
    assert browser.post(f"{draft}/delete").status_code == 200
    assert browser.get(draft).status_code == 404
    browser.http.close()


def test_an_answer_that_is_missing_is_asked_for(owned, subtests):
    browser = Browser(owned, "owner")
    draft = str(browser.post("/publish", source="more").url.path)
    for change, words in (
        ({"unit": ""}, "what one row stands for"),
        ({"unit": "person", "person": "", "most_rows": "2"}, "which column names the person"),
        ({"unit": "person", "person": "person", "most_rows": "0"}, "how many rows of one person"),
        ({"use": "fun"}, "what others will do"),
        ({"care": ""}, "how careful"),
        ({"care": "own", "own_epsilon": "-1"}, "a number above 0"),
        ({"rows": "many"}, "number of rows must be"),
        ({"name": "No name"}, "name of a data set"),
        ({"title": "x" * 101}, "The title must be"),
    ):
        with subtests.test(change=change):
            refused = browser.post(f"{draft}/answers", **{**ANSWERS, **change})
            assert (refused.status_code, words in refused.text) == (422, True)
    page = browser.post(f"{draft}/answers", **{**ANSWERS, "care": "own", "own_epsilon": "0.8"})
    assert 'name="own_epsilon" inputmode="decimal" size="6" value="0.8"' in page.text
    browser.post(f"{draft}/delete")
    browser.http.close()


def test_the_page_asks_what_one_row_stands_for(owned):
    """It is the first question, stands in the plan, and a database of people is refused."""
    browser = Browser(owned, "owner")
    page = browser.post("/publish", source="more")
    draft = str(page.url.path)
    assert 'value="row" required checked' in page.text  # its schema says so
    people = {**ANSWERS, "unit": "person", "person": "person", "most_rows": "3"}
    people |= {"care": "own", "own_epsilon": "0.1"}  # the ledger has not much left
    page = browser.post(f"{draft}/answers", **people)
    assert "<option selected>person</option>" in page.text
    assert 'name="most_rows" type="number" min="1" value="3"' in page.text
    plan = browser.post(f"{draft}/check", choice="recommended:0")
    assert "Up to 3 rows of a person count; person names the person." in plan.text
    fields = {"kind": "database", "epsilon": "0.2", "noise": "50"}
    assert "A live database protects one row" in browser.post(f"{draft}/check", **fields).text
    browser.post(f"{draft}/answers", **ANSWERS)
    assert "Every row is another person." in browser.post(f"{draft}/check", **fields).text
    text = owned.service.publishing.draft(draft.rpartition("/")[2]).schema.dumps()
    page = browser.post(f"{draft}/schema", toml=text.replace('unit = "row"\n', ""))
    assert "checked> One" not in page.text
    refused = browser.post(f"{draft}/check", **fields)
    assert (refused.status_code, "what one row stands for" in refused.text) == (422, True)
    browser.post(f"{draft}/delete")
    browser.http.close()


@pytest.mark.usefixtures("worked_here")
def test_the_share_of_rows_that_a_bound_keeps_is_shown_when_asked_for(owned):
    browser = Browser(owned, "owner")
    lines = ["who,cost", *(f"p{k // 4},{1300 * (k // 9)}" for k in range(400))]
    name, content = "/publish/upload?name=visits.csv", "\n".join(lines).encode()
    sent = browser.http.post(name, content=content, headers={"X-CSRF-Token": browser.csrf})
    draft = sent.headers["x-location"]
    assert "25 %" not in done(browser, draft).text  # nothing is told unasked
    assert browser.post(f"{draft}/shares", person="nobody").status_code == 422
    filled = {"person": "who", "most_rows": "7", "role-1": "sensitive"}
    filled |= {"use": "rows", "name": "visits", "low-1": "2", "high-1": "5"}
    browser.post(f"{draft}/shares", **filled)
    page = done(browser, draft).text
    for told in ("1 row counts: 25 %", "2 rows count: 50 %", "5 rows count: 100 %"):
        assert told in page
    for kept in (  # what was filled in, and not saved
        'name="unit" value="person" checked',
        "<option selected>who</option>",
        'name="most_rows" type="number" min="1" value="7"',
        '<option value="sensitive" selected>',
        'name="low-1" value="2"',
        'name="high-1" value="5"',
        'value="rows" required checked',
        'placeholder="census" value="visits"',
    ):
        assert kept in page, kept
    refused = browser.post(f"{draft}/answers", **{**filled, "unit": "person", "high-1": "many"})
    assert refused.status_code == 422
    assert '<option value="sensitive" selected>' in refused.text  # nor lost by a mistake
    assert 'name="high-1" value="many"' in refused.text
    right = {**filled, "unit": "person", "care": "balanced", "most_rows": "3"}
    browser.post(f"{draft}/answers", **right)
    assert 'min="1" value="3"' in browser.get(draft).text
    browser.post(f"{draft}/delete")
    browser.http.close()


@pytest.mark.usefixtures("worked_here")
def test_a_column_that_is_left_out_can_be_taken_back(owned):
    """Until then nothing is said of it, and it is taken for nothing that tells people apart."""
    browser = Browser(owned, "owner")
    rows = [f"{20 + k % 50},{'mf'[k % 2]},{2000 * (k // 9)}" for k in range(400)]
    name, content = "/publish/upload?name=staff.csv", "\n".join(["age,sex,cost", *rows]).encode()
    sent = browser.http.post(name, content=content, headers={"X-CSRF-Token": browser.csrf})
    draft = sent.headers["x-location"]
    done(browser, draft)
    answers = {"unit": "row", "use": "questions", "care": "own", "name": "left-out"}
    answers |= {"declared-1": "1", "own_epsilon": "0.02"}
    dropped = {"role-0": "identifier", "role-2": "identifier"}
    page = browser.post(f"{draft}/answers", **answers, **dropped).text
    assert "<dt>May be published</dt><dd><code>sex</code> </dd>" in page
    browser.post(f"{draft}/make", choice="recommended:0")
    page = done(browser, draft).text
    assert "Made of this table" in page
    assert "the same value in several rows" not in page
    page = browser.post(f"{draft}/answers", **answers, **{"role-0": "sensitive"}).text
    assert "<dt>May be published</dt><dd><code>age</code> <code>sex</code> </dd>" in page
    assert "integer 20 to 69" in page
    refused = browser.post(f"{draft}/answers", **answers, **{"role-2": "quasi"})
    assert "Say the lowest and the highest amount of &#39;cost&#39;" in refused.text
    limits = {"role-2": "quasi", "low-2": "0", "high-2": "90000"}
    page = browser.post(f"{draft}/answers", **answers, **limits).text
    assert "<code>age</code> <code>sex</code> <code>cost</code> </dd>" in page
    browser.post(f"{draft}/delete")
    browser.http.close()


def test_a_release_of_people_says_whom_it_protects(owned):
    """A unit is asked for before any work begins, and stands in what is told of the data set."""
    unstated = owned.schema.replace('unit = "row"\n', "")
    people = owned.schema.replace(
        '\nunit = "row"', '\nunit = "person"\nperson = "person"\nmost_rows = 3'
    )
    bodies = (marginals(epsilon=0.1), {"epsilon": 0.1, "noise": 50})
    for body in bodies:
        refused = make(owned, name="who", source="more", **{**body, "schema": unstated})
        assert (refused.status_code, "what one row stands for" in refused.text) == (422, True)
    job = make(owned, name="who", source="more", **{**bodies[1], "schema": people})
    assert "A live database protects one row" in finished(owned, job, "failed")["problem"]
    job = make(owned, name="who", source="more", **{**bodies[0], "schema": people})
    assert "At most 3 rows of each person" in str(finished(owned, job)["result"]["remarks"])
    told = owned.call("analyst", "GET", "datasets/who").json()
    sentence = "Up to 3 rows of a person count; person names the person."
    assert told["protected"] == sentence
    assert "counts at most 3 rows of each person" in str(owned.ask(COUNT, dataset="who").json())
    browser = Browser(owned, "owner")
    for page in ("data/who", "data/who/audit", "data/who/certificate"):
        assert sentence in browser.get(f"/{page}").text
    browser.http.close()


def done(browser, draft):
    """Return the page of a draft when its work is done."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        page = browser.get(draft)
        if 'id="job"' not in page.text:
            return page
        time.sleep(0.1)
    raise AssertionError(page.text)


@pytest.mark.usefixtures("worked_here")
def test_the_page_names_each_column_that_is_left_out(owned):
    browser = Browser(owned, "owner")
    lines = ["day;empty;cost", *(f"0{k % 9 + 1}/0{k % 7 + 1}/2024;;{k},5" for k in range(60))]
    name, content = "/publish/upload?name=stays.csv", "\n".join(lines).encode()
    sent = browser.http.post(name, content=content, headers={"X-CSRF-Token": browser.csrf})
    draft = sent.headers["x-location"]
    page = done(browser, draft)
    assert "&#39;day&#39; (identifier): Left out, as no value tells whether the day" in page.text
    assert "&#39;empty&#39; (identifier): No value to learn from" in page.text
    schema = owned.service.publishing.draft(draft.rpartition("/")[2]).schema
    assert schema["cost"].spelling.decimal == ","
    assert "checked> One" not in page.text  # nothing is assumed of a table
    assert 'name="low-2" value=""' in page.text  # amounts of money need limits
    answers = {**ANSWERS, "role-2": "sensitive"}
    page = browser.post(f"{draft}/answers", **answers)
    assert page.status_code == 422
    assert "Say the lowest and the highest amount of &#39;cost&#39; that matter" in page.text
    page = browser.post(f"{draft}/answers", **answers, **{"low-2": "0", "high-2": "1,000"})
    assert 'name="high-2" value="1000"' in page.text
    schema = owned.service.publishing.draft(draft.rpartition("/")[2]).schema
    assert schema["cost"].spelling is not None
    assert schema["cost"].domain == Number(0, 1000, 0.01)
    assert "why columns are left out" in page.text
    browser.post(f"{draft}/delete")
    browser.http.close()


@pytest.mark.usefixtures("worked_here")
def test_a_proposed_schema_is_marked_until_it_is_declared(owned):
    browser = Browser(owned, "owner")
    content, name = b"age,sex\n30,f\n41,m\n52,f\n", "/publish/upload?name=few.csv"
    wrong = browser.http.post(name, content=content, headers={"X-CSRF-Token": "other"})
    assert wrong.status_code == 403
    sent = browser.http.post(name, content=content, headers={"X-CSRF-Token": browser.csrf})
    draft = sent.headers["x-location"]
    page = done(browser, draft)
    assert page.text.count("These are all possible values") == 2
    assert page.text.index(">f, m") < page.text.index('name="declared-1"')  # values come first
    page = browser.post(f"{draft}/answers", **{**ANSWERS, "name": "few", "declared-0": "1"})
    assert page.text.count("These are all possible values") == 1
    fields = {"kind": "database", "epsilon": "1", "noise": "9"}
    refused = browser.post(f"{draft}/check", **fields)  # the ledger has a limit
    assert refused.status_code == 409
    assert "read from the private data" in refused.text
    browser.http.close()


def test_a_job_can_be_cancelled(owned, monkeypatch):
    wait = "import sys, time; sys.stdin.readline(); time.sleep(600)"
    monkeypatch.setattr(jobs, "_RUN", wait)
    body = {"name": "never", "source": "more", "method": "uniform", "parameters": {"epsilon": 1}}
    begun = make(owned, **body)
    number = begun.json()["job"]
    while owned.service.publishing.jobs.get(number).process is None:
        time.sleep(0.01)
    waiting = owned.call("owner", "POST", "schemas", json={"source": "more"})  # one at a time
    for each in (waiting.json()["job"], number):
        assert owned.call("owner", "DELETE", f"jobs/{each}").status_code == 200
    finished(owned, waiting, "cancelled")
    assert "the charge stays" in finished(owned, begun, "cancelled")["problem"]
    assert owned.service.catalogue.get("never") is None
    assert owned.call("owner", "DELETE", "jobs/nothing").status_code == 404


def test_a_process_that_dies_before_it_reads_is_a_failed_job(monkeypatch):
    class Dead(jobs.Job):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "process" and value is not None:
                value.wait(30)

    monkeypatch.setattr(jobs, "_RUN", "raise SystemExit")
    with pytest.raises(ScumbleError, match="its process was killed"):
        jobs.in_process(Dead("1", "schema", "x"), "propose", {})


def test_a_process_that_dies_is_a_failed_job(owned, monkeypatch):
    monkeypatch.setattr(jobs, "_RUN", "import os; os.kill(os.getpid(), 9)")
    begun = owned.call("owner", "POST", "schemas", json={"source": "more"})
    assert "its process was killed" in finished(owned, begun, "failed")["problem"]


def test_a_batch_that_was_noted_and_not_appended_is_left_out(tmp_path):
    """As after a crash between the two."""
    settings = make_settings(tmp_path)
    made = {"format": 1, "datasets": [], "batches": {"people": [["nothing.parquet"]]}}
    settings.folder.mkdir(mode=0o700)
    (settings.folder / publishing._MADE).write_text(json.dumps(made))
    service = Service(settings)
    try:
        service.open()
        people = service.catalogue.get("people")
        assert people.status(None).batches == 1
        table, _ = census(50, seed=8)
        part, complete = service.publishing.new_upload("more.csv")
        csv.write_csv(table, part)
        source = publishing.UPLOAD + complete().number
        for _ in range(2):  # the second time the key is known
            job = service.publishing.append(people, source, "once")
            wait_for(job)
            assert (job.state, job.result["batch"]) == ("done", 2)
        assert len(list((settings.folder / "tables").iterdir())) == 1
    finally:
        service.close()
    half = settings.folder / "drafts" / "half" / "part"  # a table, when the server was killed
    half.parent.mkdir()
    half.write_text("age")
    again = Service(settings)
    try:
        again.open()
        assert again.catalogue.get("people").status(None).batches == 2
        assert not half.parent.exists()
    finally:
        again.close()


def wait_for(job):
    """Wait until a job has ended."""
    end = time.monotonic() + 300
    while job.running:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_name_is_given_once(tmp_path, monkeypatch):
    """Not to two owners at once, and not to another table after its data set was stopped."""
    settings = make_settings(tmp_path)
    service = Service(replace(settings, sources=(SourceSettings("more", "more.parquet"),)))
    monkeypatch.setattr(jobs, "_RUN", "import sys, time; sys.stdin.readline(); time.sleep(600)")
    shop, schema = service.publishing, census(1)[1].dumps()
    recipe = {"kind": "database", "epsilon": 1, "noise": 9, "attributes": None}
    try:
        one, other = (shop.new_draft("more") for _ in range(2))
        shop.make("new", "more", schema, recipe, draft=one)
        for name in ("new", "rows"):  # `rows` is in the configuration, and not served here
            with pytest.raises(publishing.Problem) as found:
                shop.make(name, "more", schema, recipe, draft=other)
            assert found.value.status == 409
    finally:
        service.close()


def test_a_table_that_cannot_be_kept_leaves_nothing(owned, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    drafts = owned.service.settings.folder / "drafts"
    before = set(drafts.glob("*"))  # the first draft makes the folder
    monkeypatch.setattr(drafted, "write_private", full)
    assert upload(owned).status_code == 503
    assert set(drafts.glob("*")) == before


@pytest.mark.parametrize(("end", "counts"), [("}\\n", True), ("", False)])
def test_a_result_that_is_there_before_it_is_cancelled_counts(end, counts, monkeypatch):
    """A release that is charged and written is served; half a line is no result."""

    class Late(jobs.Job):
        def report(self, done, total=None):
            self.cancelled = True

    lines = f'{{"done": 1}}\\n{{"result": 5{end}'
    monkeypatch.setattr(jobs, "_RUN", f"import sys; sys.stdin.readline(); print('{lines}', end='')")
    job = Late("1", "release", "x")
    if counts:
        assert jobs.in_process(job, "publish", {}) == 5
    else:
        with pytest.raises(jobs.CancelledError):
            jobs.in_process(job, "publish", {})


def test_the_log_of_a_defect_has_no_message(owned, caplog, monkeypatch):
    """It may quote a value."""
    secret = "CANARY-5512"

    def fail(*_, **__):
        raise ValueError(secret)

    monkeypatch.setattr(publishing.PublishingService, "drafts", fail)
    monkeypatch.setattr(publishing, "in_process", fail)
    with caplog.at_level("INFO", logger="scumble.server"):
        assert owned.call("owner", "GET", "sources").status_code == 500
        begun = owned.call("owner", "POST", "schemas", json={"source": "more"})
        finished(owned, begun, "failed")
    assert secret not in caplog.text
    assert caplog.text.count("failed: ValueError\n") == 2
    assert caplog.text.count("in fail") == 2


def test_no_value_of_a_table_is_in_a_message_or_the_log(owned, caplog):
    """A row outside its domain, and a broken file."""
    secret = "CANARY-7391"
    row = {"person": "1", "age": "41", "sex": "female", "region": secret}
    rest = {"education": "Bachelor", "occupation": "x", "income": "1", "condition": secret}
    header, line = ",".join([*row, *rest]), ",".join([*row.values(), *rest.values()])
    with caplog.at_level("INFO", logger="scumble.server"):
        for content in (
            f"{header}\n{line}\n",
            f'{header}\n"{secret}\n',
            f"{secret},{secret}\n1,2\n",
        ):
            source = upload(owned, content.encode()).json()["source"]
            begun = owned.call("owner", "POST", "schemas", json={"source": source})
            assert secret not in ended(owned, begun)["problem"]
            release = marginals(epsilon=0.1, attributes=["region", "sex"])
            for body in (release, {"epsilon": 0.1, "noise": 50}):
                made = make(owned, name="canary", source=source, **body)
                assert secret not in finished(owned, made, "failed")["problem"]
    assert secret not in caplog.text
    assert secret not in owned.call("", "GET", "/metrics").text
    assert owned.service.catalogue.get("canary") is None

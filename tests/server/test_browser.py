"""The pages in a real browser: every page for every role, and what people do on them."""

from __future__ import annotations

import logging
import re
import shutil
from dataclasses import replace
from itertools import product

import pytest
from pyarrow import csv

from scumble.demo.census import census
from scumble.server.config import Limits, SourceSettings
from scumble.server.pages.site import ROUTES
from scumble.server.tokens import ROLES
from tests.support.servers import listening, make_live_settings, make_settings

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


BOXES = ".problem:visible, .error:visible, .cost-problem:visible, [role=alert]:visible"
FORMS = list(product((1200, 400), ("light", "dark")))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    settings = make_settings(folder, epsilon=0.6, limits=Limits(requests=1000))
    census(1)[1].save(folder / "schema.toml")
    source = SourceSettings("census", str(folder / "people.parquet"), schema=folder / "schema.toml")
    live = make_live_settings(folder / "live").datasets[0]
    datasets = (*settings.datasets, live)
    with listening(replace(settings, sources=(source,), datasets=datasets)) as found:
        found[2].login_delay = 0.0
        yield found


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def open_page(server, browser, caplog):
    """Logs in with a token, and gives the page.

    Any message in the console fails the test, but for a status that is expected (`refused`), and so
    does any error in the log of the server.
    """
    address, users, _ = server
    contexts, messages = [], []

    def opened(role: str, token: str = "", refused: int = 0, **more):
        context = browser.new_context(base_url=address, **more)
        context.set_default_timeout(150_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: messages.append(str(error)))
        expected = f"the server responded with a status of {refused} "
        page.on("console", lambda said: expected in said.text or messages.append(said.text))
        page.goto("/login")
        if role or token:
            page.fill("#token", token or getattr(users, role))
            page.click("button")
            page.wait_for_url(f"{address}/")
        return page

    yield opened
    for each in contexts:
        each.close()
    assert messages == []
    assert [each for each in caplog.get_records("call") if each.levelno >= logging.ERROR] == []


def _check_form(page) -> None:
    """Check that nothing is wider than the screen, on a large and a small one, light and dark."""
    for width, scheme in FORMS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        _check_width(page, width, scheme)


def _check_width(page, *form) -> None:
    over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert over <= 0, (page.url, *form)


def _visit(page, path: str) -> int:
    """Open a page, and wait for what it asks the server by itself; return the status."""
    try:
        status = page.goto(path).status
    except sync_api.Error as error:
        if "Download is starting" not in str(error):
            raise
        return 200
    page.wait_for_selector(".htmx-request", state="detached")
    return status


@pytest.mark.usefixtures("without_audits")
@pytest.mark.parametrize(("width", "scheme"), FORMS)
@pytest.mark.parametrize("role", ["", *ROLES])
def test_every_page_opens_without_a_problem(open_page, server, subtests, role, width, scheme):
    """Those of the table of pages, loaded afresh in each form; where a role may not, the page says
    so in one sentence under a heading, with a way back.
    """
    draft = server[2].publishing.new_draft("census").number
    viewport = {"width": width, "height": 900}
    page = open_page(role, refused=403, viewport=viewport, color_scheme=scheme)
    asked = "/data/people?sql=SELECT%20COUNT(*)%20FROM%20t"  # its cost is asked on load
    paths = {
        route.path.replace("{dataset}", name).replace("{draft}", draft): route
        for route, name in product(ROUTES, ("people", "rows", "live"))
        if route.method == "GET" and (name == "people" or "{dataset}" in route.path)
    }
    paths[asked] = paths[asked.replace("people", "live")] = paths["/data/people"]
    for path, route in paths.items():
        with subtests.test(role=role, path=path):
            status = _visit(page, path)
            shown = page.locator(BOXES).all_inner_texts()
            if role in route.roles:
                assert (status, shown) == (200, [])
            elif role:
                assert status == 403
                assert re.fullmatch(
                    r"Only an [a-z ]+ may do this\. Your token is for an [a-z]+\.", *shown
                )
                assert page.inner_text("h1") == "Not allowed"
                assert page.get_attribute("a.button", "href") == "/"
            else:
                assert (page.url.rpartition("/")[2], shown) == ("login", [])
            _check_width(page, width, scheme)


def _ask(page, sql: str) -> None:
    page.fill("#sql", sql)
    page.click("#question button")
    page.wait_for_selector(f"#answer .asked code:text-is({sql!r})")


def test_an_analyst_sees_the_cost_then_the_answer_then_a_relaxed_one(open_page):
    page = open_page("analyst")
    page.click("a.button:text-is('Ask') >> nth=0")
    page.fill("#sql", "SELECT COUNT(*) FROM t WHERE age >= 60")
    page.wait_for_selector("#cost .status-answered")
    assert "costs one new number" in page.inner_text("#cost")
    _ask(page, "SELECT COUNT(*) FROM t WHERE age >= 60")
    assert page.query_selector("#answer svg.drawing rect.interval")
    assert "Charged: one new number." in page.inner_text("#answer")
    page.fill("#sql", "SELECT COUNT(*) FROM t WHERE age >= 60 ")
    page.wait_for_selector("#cost .status-repeated")
    for age in range(61, 66):
        _ask(page, f"SELECT COUNT(*) FROM t WHERE age >= {age}")
    assert page.query_selector("#answer .status-relaxed")
    page.click("text=My questions")
    assert page.locator("tbody tr").count() >= 4
    _check_form(page)
    page.click("td.long a >> nth=0")
    page.wait_for_selector("#cost .status")
    _check_form(page)


def test_an_analyst_says_how_accurate(open_page):
    """What is known, what more costs and the best that can be bought come before Ask."""
    page = open_page("analyst")
    page.goto("/data/live")
    sql = "SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 9 AND sex = 'f'"
    page.fill("#sql", sql)
    page.wait_for_selector("#cost .status-known")
    assert "The best that can be bought now is ±5" in page.inner_text("#cost")
    page.fill("#within", "55")
    page.wait_for_selector("#cost .status-answered")
    assert "Ask reaches ±55, for 7." in page.inner_text("#cost")
    page.select_option("#level", "0.99")
    page.wait_for_selector("#cost .status-limited")
    page.select_option("#level", "0.95")
    page.wait_for_selector("#cost .status-answered")
    _check_form(page)
    _ask(page, sql)
    shown = page.inner_text("#answer")
    assert "Within ±55 at 95 %, as you asked" in shown
    assert "The new measurement alone:" in shown
    assert "Charged: 7." in shown
    _check_form(page)
    page.fill("#within", "much")
    page.wait_for_selector("#cost .cost-problem")
    page.fill("#within", "1")
    page.wait_for_selector("#cost .status-limited")
    page.fill("#within", "")
    page.wait_for_selector("#cost .status-known")
    page.click("text=My questions")
    assert page.locator("tbody tr").count() == 1
    page.goto("/data/live")
    page.fill("#within", "40")
    _ask(page, "SELECT sex, dept, COUNT(*) FROM t GROUP BY sex, dept")
    assert page.locator("#answer tbody tr").count() == 10
    _check_form(page)


def test_a_question_that_cannot_be_read_is_marked_while_writing(open_page):
    page = open_page("analyst")
    page.goto("/data/people")
    page.fill("#sql", "SELECT COUNT(*) FROM t WHERE agee > 3")
    page.wait_for_selector("#cost .cost-problem")
    assert "Did you mean age" in page.inner_text("#cost")
    page.click("#question button")
    page.wait_for_selector("#answer .problem")
    assert page.locator(BOXES).count() == 1  # once beside the answer, not twice
    _ask(page, "SELECT COUNT(*) FROM t")
    assert page.inner_text("#cost") == ""


def test_columns_are_completed_with_the_keyboard(open_page):
    page = open_page("analyst")
    page.goto("/data/rows")
    page.focus("#sql")
    page.keyboard.type("SELECT COUNT(*) FROM t WHERE condi")
    page.wait_for_selector("#complete li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type(" = 'Asth")
    page.wait_for_selector("#complete li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.input_value("#sql") == "SELECT COUNT(*) FROM t WHERE condition = 'Asthma'"
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer .number")


def test_asking_works_without_javascript(open_page):
    page = open_page("analyst", java_script_enabled=False)
    page.goto("/data/rows")
    page.fill("#sql", "SELECT sex, COUNT(*) FROM t GROUP BY sex")
    page.click("#question button")
    assert page.locator("#answer tbody tr").count() == 2


def test_a_table_is_downloaded(open_page):
    page = open_page("analyst")
    page.goto("/data/rows")
    _ask(page, "SELECT sex, COUNT(*) FROM t GROUP BY sex")
    _check_form(page)
    with page.expect_download() as download:
        page.click("text=CSV")
    assert download.value.suggested_filename == "rows.csv"


@pytest.mark.usefixtures("without_audits")
def test_an_auditor_verifies_a_seal_and_gets_the_certificate(open_page):
    page = open_page("auditor")
    page.click("a.button:text-is('Audit') >> nth=0")
    seal = page.inner_text("code.seal")
    page.fill("#seal", seal)
    page.click("button:text-is('Verify')")
    assert "continues this seal" in page.inner_text(".fine")
    with page.expect_download() as download:
        page.click("text=Certificate")
    assert download.value.suggested_filename == "people-certificate.html"
    assert page.query_selector("#question") is None


def test_an_owner_makes_a_token_and_ends_it(open_page):
    page = open_page("owner")
    page.click("text=Tokens")
    page.fill("#name", "Grace")
    page.click("text=Make a token")
    token = page.inner_text("code.seal")
    other = open_page("", token=token)
    other.goto("/data/people")
    assert other.query_selector("#question")
    page.click("button[aria-label='Revoke the token of Grace']")
    other.goto("/data/people")
    assert other.url.endswith("/login")


@pytest.mark.usefixtures("without_audits")
def test_an_owner_publishes_from_a_csv_and_gets_the_certificate(open_page, tmp_path):
    """Send, declare, preview, publish; then an analyst asks it. The audit has its own tests."""
    table, _ = census(400, seed=2)
    csv.write_csv(table.select(["age", "sex", "condition"]), tmp_path / "people.csv")
    page = open_page("owner")
    page.click("nav >> text=Publish")
    page.set_input_files("#file", tmp_path / "people.csv")
    page.click("#upload button")
    page.wait_for_selector("table.schema")
    assert page.locator(".declare").count() == 3
    page.check("input[name=unit][value=row]")
    page.select_option("select[aria-label='What condition is']", "sensitive")
    for each in page.locator("input[name^=declared-]").all():
        each.check()
    page.check("input[name=use][value=questions]")
    page.check("input[name=care][value=balanced]")
    page.fill("#name", "sent")
    page.click("button:text-is('Save, and see the method')")
    page.wait_for_selector("#method")
    assert page.locator(".declare").count() == 0
    _check_form(page)
    page.click("#comparison > summary")
    for name in ("subset", "marginals", "histogram", "sparse"):
        page.uncheck(f"input[name=method-{name}]")
    page.fill("#epsilons", "1")
    page.click("text=On a stand-in")
    page.wait_for_selector("svg.chart .mark")
    _check_form(page)
    page.click("#method button")
    plan = page.inner_text("#plan")
    assert "No ledger is configured" in plan
    assert "Every row is another person." in plan
    _check_form(page)
    page.click("#plan button")
    page.wait_for_selector(".card.fine >> text=Certificate")
    with page.expect_download() as download:
        page.click(".card.fine >> text=Certificate")
    assert download.value.suggested_filename == "sent-certificate.html"
    analyst = open_page("analyst", refused=403)
    analyst.goto("/data/sent")
    _ask(analyst, "SELECT COUNT(*) FROM t WHERE condition = 'Asthma'")
    assert analyst.query_selector("#answer svg.drawing")
    assert analyst.goto("/publish").status == 403


def test_a_table_that_is_no_table_is_refused_on_the_page(open_page, tmp_path):
    (tmp_path / "notes.txt").write_text("Dear diary")
    page = open_page("owner", refused=415)
    page.goto("/publish")
    page.set_input_files("#file", tmp_path / "notes.txt")
    page.click("#upload button")
    page.wait_for_selector("#upload-problem:visible")
    assert "must be a file that ends with .csv" in page.inner_text("#upload-problem")

"""The pages in a real browser: the three roles, the cost before asking, no JavaScript."""

from __future__ import annotations

import shutil

import pytest
from pyarrow import csv

from scumble.demo.census import census
from scumble.server.catalogue import ReleaseDataset
from tests.support.servers import listening, make_settings

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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with listening(make_settings(tmp_path_factory.mktemp("browser"), epsilon=0.6)) as found:
        found[2].login_delay = 0.0
        yield found


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def open_page(server, browser):
    """Logs in with a token, and gives the page; an error in the console fails the test."""
    address, users, _ = server
    contexts, errors = [], []

    def opened(role: str, token: str = "", **more):
        context = browser.new_context(base_url=address, **more)
        context.set_default_timeout(150_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(error))
        page.goto("/login")
        page.fill("#token", token or getattr(users, role))
        page.click("button")
        page.wait_for_url(f"{address}/")
        return page

    yield opened
    for each in contexts:
        each.close()
    assert errors == []


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


def test_a_question_that_cannot_be_read_is_marked_while_writing(open_page):
    page = open_page("analyst")
    page.goto("/data/people")
    page.fill("#sql", "SELECT COUNT(*) FROM t WHERE agee > 3")
    page.wait_for_selector("#cost .cost-problem")
    assert "Did you mean age" in page.inner_text("#cost")


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
    with page.expect_download() as download:
        page.click("text=CSV")
    assert download.value.suggested_filename == "rows.csv"


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


def test_an_owner_publishes_from_a_csv_and_gets_the_certificate(open_page, tmp_path, monkeypatch):
    """Send, declare, preview, publish; then an analyst asks it. The audit has its own tests."""
    monkeypatch.setattr(ReleaseDataset, "certificate", lambda _: "<p>A certificate.</p>")
    table, _ = census(400, seed=2)
    csv.write_csv(table.select(["age", "sex", "condition"]), tmp_path / "people.csv")
    page = open_page("owner")
    page.click("nav >> text=Publish")
    page.set_input_files("#file", tmp_path / "people.csv")
    page.click("#upload button")
    page.wait_for_selector("table.schema")
    assert page.locator(".tag.from-data").count() == 3
    page.select_option("select[aria-label='Role of condition']", "sensitive")
    for each in page.locator("input[name^=declared-]").all():
        each.check()
    page.click("button:text-is('Save')")
    assert page.locator(".tag.from-data").count() == 0
    for name in ("subset", "marginals", "histogram", "sparse"):
        page.uncheck(f"input[name=method-{name}]")
    page.fill("#epsilons", "1")
    page.click("text=On a stand-in")
    page.wait_for_selector("svg.chart .mark")
    page.check("#choice-0")
    page.fill("#release-name", "sent")
    page.click("button:text-is('See promise and charge') >> nth=0")
    assert "No ledger is configured" in page.inner_text("#plan")
    page.click("#plan button")
    page.wait_for_selector(".card.fine >> text=Certificate")
    with page.expect_download() as download:
        page.click(".card.fine >> text=Certificate")
    assert download.value.suggested_filename == "sent-certificate.html"
    analyst = open_page("analyst")
    analyst.goto("/data/sent")
    _ask(analyst, "SELECT COUNT(*) FROM t WHERE condition = 'Asthma'")
    assert analyst.query_selector("#answer svg.drawing")
    assert analyst.goto("/publish").status == 403


def test_a_table_that_is_no_table_is_refused_on_the_page(open_page, tmp_path):
    (tmp_path / "notes.txt").write_text("Dear diary")
    page = open_page("owner")
    page.goto("/publish")
    page.set_input_files("#file", tmp_path / "notes.txt")
    page.click("#upload button")
    page.wait_for_selector("#upload-problem:visible")
    assert "must be a file that ends with .csv" in page.inner_text("#upload-problem")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1280])
def test_no_page_is_wider_than_the_screen(open_page, scheme, width):
    page = open_page("owner", color_scheme=scheme, viewport={"width": width, "height": 900})
    paths = ("/", "/data/people", "/data/rows", "/data/people/audit", "/tokens", "/usage")
    for path in (*paths, "/publish"):
        page.goto(path)
        over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert over <= 0, (path, width)

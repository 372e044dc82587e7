"""The demo: its results, its files, and its report."""

import math
import re
from html.parser import HTMLParser

import pytest

import scumble as sc
from scumble.demo import report
from scumble.demo.census import census
from scumble.demo.run import run_demo
from scumble.demo.story import EPSILONS, EVERY_CONDITION, QUESTIONS, true_answers
from scumble.model.errors import ReleaseError
from scumble.public import plot

PEOPLE = 4000


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    steps = []
    return run_demo(PEOPLE, folder, steps.append), folder, steps


def test_five_questions_to_two_releases(told):
    story, _, _ = told
    assert len(QUESTIONS) == 5
    asked = [line.question for line in story.lines if line.group != ("male",)]
    assert asked == list(QUESTIONS)
    assert all(set(line.answers) == {"uniform", "histogram"} for line in story.lines)
    assert all(answer.stderr > 0 for line in story.lines for answer in line.answers.values())


def test_truth_is_the_truth():
    table, schema = census(PEOPLE)
    people = table.to_pandas()
    ill = people[people.condition == "Migraine"]
    assert true_answers(table, schema, QUESTIONS[1]) == {
        ("female",): (ill.sex == "female").sum(),
        ("male",): (ill.sex == "male").sum(),
    }
    [age] = true_answers(table, schema, QUESTIONS[2]).values()
    assert age == pytest.approx(people.age[people.condition == "High blood pressure"].mean())
    nobody = true_answers(table.slice(0, 0), schema, QUESTIONS[2])
    assert math.isnan(nobody[()])


def test_stated_errors_fall_with_epsilon(told):
    """Compares stated errors, which are not random: no false alarms."""
    story, _, _ = told
    for spread in story.spreads.values():
        assert len(spread.stated) == len(spread.found) == len(EPSILONS)
        assert spread.stated == sorted(spread.stated, reverse=True)


def test_most_intervals_hold_the_truth(told):
    """False alarm: 20 of 40 intervals at 95 % miss at once, below 1e-15 if they were independent;
    those of one release share its noise, which is why no more than half is asked for."""
    held, asked = told[0].covered
    assert asked == 40
    assert held > asked / 2


def test_what_is_left_behind(told):
    story, folder, steps = told
    names = {"census.parquet", "census.toml", "uniform", "histogram", "report.html"}
    assert {path.name for path in folder.iterdir()} == names
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    assert sc.open(folder / "uniform").guarantees == story.releases["uniform"].guarantees
    answer = sc.open(folder / "histogram").answer(EVERY_CONDITION.sql)
    assert [estimate.value for _, estimate in answer] == [
        line.answers["histogram"].value for line in story.conditions
    ]
    assert len(steps) >= 5


class Page(HTMLParser):
    """Collects the resources that a browser would fetch, and the text."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.tags, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = {"src", "href", "xlink:href", "data", "action"}
        self.fetched += [v for k, v in attrs if k in names and not v.startswith("#")]

    def handle_data(self, data):
        self.text += data


def test_page_stands_alone(told):
    text = (told[1] / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.fetched == []
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert re.findall(r"@import|url\((?!#)", text) == []
    assert page.tags.count("svg") == 2
    assert "$" not in page.text


def test_page_shows_everything(told):
    story, folder, _ = told
    text = " ".join(Page((folder / "report.html").read_text(encoding="utf-8")).text.split())
    for question in QUESTIONS:
        assert question.words in text
    for release in story.releases.values():
        for guarantee in release.guarantees:
            assert str(guarantee) in text
            assert all(limit in text for limit in guarantee.limits)
    assert "can reach at most 23.2 %" in text


def test_without_the_plotting_library(told, monkeypatch, tmp_path):
    monkeypatch.setattr(plot, "available", lambda: False)
    page = Page(report.page(told[0], tmp_path))
    assert "svg" not in page.tags
    assert QUESTIONS[0].words in page.text


def test_an_earlier_demo_is_replaced_and_nothing_else(tmp_path):
    folder = tmp_path / "out"
    run_demo(50, folder, lambda _: None, report=False)
    assert not (folder / "report.html").exists()
    with pytest.raises(sc.OutputExistsError, match="already exists"):
        run_demo(60, folder, lambda _: None, report=False)
    run_demo(60, folder, lambda _: None, report=False, force=True)
    assert sc.open(folder / "uniform").evidence.rows == 60
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    with pytest.raises(ReleaseError, match="not made by the demo"):
        run_demo(50, mine, lambda _: None)
    assert (mine / "thesis.txt").read_text() == "precious"


def test_all_or_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("scumble.demo.run.page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_demo(50, tmp_path / "out", lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_hardly_anybody(tmp_path):
    for people, paged in ((1, True), (2, False)):
        story = run_demo(people, tmp_path / f"{people}", lambda _: None, report=paged)
        assert story.people == people

"""A comparison on a small table from end to end: places on the axes, sentences, resuming, page."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.audit.runs import RecordedTable
from scumble.compare import exposure
from scumble.compare.comparison import Comparison, Results
from scumble.compare.exposure import release_exposure
from scumble.compare.measures import spread
from scumble.compare.page import page, read, write
from scumble.compare.points import Point, _with_rival, as_csv, points, sentence
from scumble.compare.questions import questions
from scumble.compare.settings import Settings, read_settings, schema_to_compare
from scumble.compare.truth import TrueTable, stand_in
from scumble.compare.workloads import from_sql
from scumble.model.errors import ParameterError, QueryError
from scumble.private.mechanism import Summary, create

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(20, 29)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "sensitive", sc.Category(tuple("abcdefgh"))),
    )
)
PRIOR = Fraction(1, 10)


@pytest.fixture(scope="module")
def table() -> TrueTable:
    return stand_in(SCHEMA, 2000, seed=4)


@pytest.fixture(scope="module")
def compared(table: TrueTable) -> tuple[Comparison, Results]:
    """Two repeats of four publishers, a summary, and one that cannot be."""
    workload = questions("breakdowns", table, 4, 0)
    names = ["uniform", "aroma", "partition", "anatomy", "histogram"]
    choices = Settings(table, workload, "replace").choices(
        [*names, "quadtree"], [1.0, 3.0], {"quadtree": {"epsilon": [1], "height": [-1]}}
    )
    comparison = Comparison(table, workload, choices, 2)
    results = comparison.blank(subject="people", preview=False, sensitive=["job"])
    assert list(comparison.runs(results)) == list(range(2 * len(choices)))  # one is refused once
    return comparison, results


def test_questions_about_nobody_are_refused() -> None:
    empty = stand_in(SCHEMA, 0, seed=4)
    workload = from_sql(["SELECT job, COUNT(*) FROM t GROUP BY job"], SCHEMA)
    choices = Settings(empty, workload, "replace").choices(["uniform"], [1.0], {})
    with pytest.raises(ParameterError, match="answer to compare"):
        Comparison(empty, workload, choices, 2)


def test_every_method_has_its_words(compared: tuple[Comparison, Results]) -> None:
    comparison, _ = compared
    words = {(choice.method, choice.words.split(" ")[0]) for choice in comparison.choices}
    assert {("uniform", "ε"), ("aroma", "k"), ("partition", "ρ2"), ("anatomy", "l")} <= words


def test_settings_expose_as_much_as_epsilon_allows(compared: tuple[Comparison, Results]) -> None:
    """aroma takes the least k that keeps the limit; l is its inverse."""
    comparison, results = compared
    found = {(p.method, p.words): p for p in points(results, "relative")}
    limit = 1 / (1 + 7 * np.exp(-1.0))
    [k, _] = [c.parameters["k"] for c in comparison.choices if c.method == "aroma"]
    from scumble.families.aroma.design import pool_exposure

    assert (
        pool_exposure(*sc.Aroma(k=k).laws(SCHEMA))
        <= limit
        < pool_exposure(*sc.Aroma(k=k - 1).laws(SCHEMA))
    )
    assert found["aroma", f"k = {k}"].success == pytest.approx(
        pool_exposure(*sc.Aroma(k=k).laws(SCHEMA))
    )
    assert found["uniform", "ε = 1"].success == pytest.approx(limit)
    ells = [c.parameters["l"] for c in comparison.choices if c.method == "anatomy"]
    assert ells == [int(np.ceil(1 / limit)), 2]


def test_a_summary_stands_where_its_noise_puts_it(compared: tuple[Comparison, Results]) -> None:
    """By hand: noise of a histogram leaves a cell above 0 with p if the person is in it and with q
    if not, and that is all that helps; so the attacker names one of those above. The largest
    posterior lies between 0 and 1, so 20,000 draws miss their mean by 0.02 less than once in 1e6
    (Hoeffding).
    """
    _, results = compared
    [point] = [p for p in points(results, "root") if p.name == "histogram, ε = 1"]
    ratio = np.exp(-0.5)
    p, q = 1 / (1 + ratio), ratio / (1 + ratio)
    wanted = p * (1 - (1 - q) ** 8) / (8 * q) + (1 - p) * (1 - q) ** 7 / 8
    assert point.basis == "drawn"
    assert point.success == pytest.approx(wanted, abs=0.02)
    assert point.whole
    assert point.posterior == pytest.approx(np.e * 0.1 / (1 + 0.1 * (np.e - 1)))


PLANNED = [
    ("privtree", {}),
    ("grid", {}),
    ("grid", {"adaptive": False}),
    ("kdtree", {"split": "noisy_mean"}),
    ("mosaic", {}),
]


def test_a_summary_whose_plan_depends_on_the_table_stands_at_its_limit(
    table: TrueTable, subtests: pytest.Subtests
) -> None:
    """A table of one person, on which noise could be drawn, has another plan than one of many."""
    for method, given in PLANNED:
        with subtests.test(method=method):
            rows = pa.table({a.name: a.decode(table.codes(a.name)) for a in SCHEMA})
            given = {"attributes": ["age", "job"], "epsilon": 1, "neighbours": "replace", **given}
            release = sc.publish(
                rows, SCHEMA, create(method, **given), options=sc.PublishOptions(seed=1)
            )
            found = release_exposure(release, table, PRIOR)
            assert found.basis == "limit"
            assert found.success == pytest.approx(1 / (1 + 7 * np.exp(-1.0)))


def test_sums_of_an_invented_person_are_those_that_noise_hides(
    table: TrueTable, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """They are recorded without drawing noise, and with it."""
    for name in ["histogram", "marginals", "hierarchy", "wavelet"]:
        with subtests.test(name=name):
            names = [each.name for each in table.schema.published][:2]
            ways = {"ways": 2} if name == "marginals" else {}
            method = create(name, attributes=names, epsilon=1, neighbours="replace", **ways)
            assert isinstance(method, Summary)
            found = []
            for kind in (exposure._InventedTable, RecordedTable):
                with monkeypatch.context() as patch:
                    patch.setattr(exposure, "_InventedTable", kind)
                    found.append(exposure._measured(method, table.schema, {}))
            plain, noisy = found
            assert plain is not None
            assert noisy is not None
            assert [law for law, _ in plain] == [law for law, _ in noisy]
            for (_, one), (_, other) in zip(plain, noisy, strict=True):
                assert (one == other).all()


def test_a_summary_of_other_columns_tells_nothing(table: TrueTable) -> None:
    rows = pa.table({a.name: a.decode(table.codes(a.name)) for a in SCHEMA})
    ages = sc.Histogram(["age"], epsilon=1, neighbours="replace")
    found = release_exposure(
        sc.publish(rows, SCHEMA, ages, options=sc.PublishOptions(seed=1)), table, PRIOR
    )
    assert (found.success, found.basis) == (1 / 8, "exact")
    assert found.posterior == pytest.approx(0.1)


def test_what_cannot_be_is_left_out_with_its_reason(
    compared: tuple[Comparison, Results],
) -> None:
    _, results = compared
    assert list(results.left_out) == ["quadtree, ε = 1, height = -1"]
    assert "height" in results.left_out["quadtree, ε = 1, height = -1"]


def test_answers_are_those_of_the_release(table: TrueTable) -> None:
    """Flattened answers against asking one by one; a seedless mechanism without noise is exact."""
    workload = from_sql(
        [
            "SELECT COUNT(*) FROM t WHERE age < 25",
            "SELECT job, COUNT(*) FROM t WHERE sex = 'f' GROUP BY job",
            "SELECT AVG(age) FROM t WHERE sex = 'm'",
        ],
        SCHEMA,
    )
    comparison = Comparison(table, workload, [], 1)
    asked = comparison.runner.asked
    rows = pa.table({a.name: a.decode(table.codes(a.name)) for a in SCHEMA})
    release = sc.publish(rows, SCHEMA, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1))
    found = asked.values(asked.answers(release.answer_many(workload.queries)))
    groups = release.answer(workload.queries[1].text)
    wanted = [each.value for _, each in groups]  # type: ignore[union-attr]
    assert found[1:9].tolist() == wanted
    truth = comparison.blank(subject="", preview=False).truth
    assert found[[0, 9]] == pytest.approx([truth[0], truth[-1]])  # nothing sensitive is asked


def test_groups_expose_their_rarest_values() -> None:
    """By hand: a stands in both groups, b and c in one each. The best guess is b or c, which is
    right for both of them and wrong for a.
    """
    schema = sc.Schema(
        (
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 3)),
            sc.Attribute("job", "sensitive", sc.Category(("a", "b", "c", "nobody"))),
        )
    )
    rows = pa.table({"age": [0, 1, 2, 3], "job": ["a", "a", "b", "c"]})
    release = sc.publish(rows, schema, sc.Anatomy(l=2), options=sc.PublishOptions(seed=1))
    found = release_exposure(release, TrueTable.read(rows, schema), PRIOR)
    assert found.success == pytest.approx(2 / 3, rel=1e-15)
    assert (found.basis, found.private) == ("exact", False)


def test_adding_or_removing_counts_twice() -> None:
    schema = SCHEMA.select(["job"])
    known = stand_in(schema, 500)
    rows = pa.table({"job": schema["job"].decode(known.codes("job"))})
    by_one = sc.Histogram(["job"], epsilon=0.5, neighbours="add_remove")
    replaced = sc.Histogram(["job"], epsilon=1, neighbours="replace")
    one, other = (
        release_exposure(
            sc.publish(rows, schema, each, options=sc.PublishOptions(seed=1)), known, PRIOR
        )
        for each in (by_one, replaced)
    )
    assert one == other


def test_an_epsilon_that_promises_nothing_is_none(table: TrueTable) -> None:
    rows = pa.table({a.name: a.decode(table.codes(a.name)) for a in SCHEMA})
    for epsilon, private in ((10, True), (11, False)):
        release = sc.publish(
            rows, SCHEMA, sc.Uniform(epsilon=epsilon), options=sc.PublishOptions(seed=1)
        )
        assert release_exposure(release, table, PRIOR).private is private


def _point(name: str, success: float, error: float, *, private: bool = True) -> Point:
    posterior = 0.3 if private else None
    runs = spread(np.array([error, error]))
    numbers = {"median": spread(np.array([0.5, 0.5]))}
    return Point(
        name, "x = 1", success, "exact", posterior, False, 0.0, runs, numbers, 10, None, None, ()
    )  # fmt: skip


def test_only_like_beats_like() -> None:
    full, hollow = _point("full", 0.2, 0.5), _point("hollow", 0.1, 0.1, private=False)
    worse, same = _point("worse", 0.3, 0.6), _point("same", 0.2, 0.5)
    every = [full, hollow, worse, same]
    beaten = {point.method: _with_rival(point, every).beaten_by for point in every}
    assert beaten == {"full": "", "hollow": "", "worse": "full, x = 1", "same": ""}
    assert _with_rival(replace(full, posterior=None), every).beaten_by == "hollow, x = 1"
    whole = replace(worse, whole=True)
    assert _with_rival(whole, every).beaten_by == ""
    assert _with_rival(worse, [replace(full, whole=True)]).beaten_by == "full, x = 1"
    lax = replace(full, posterior=0.4)
    assert _with_rival(worse, [lax]).beaten_by == ""  # its promise is worse
    # What stands at a limit may expose less: a promise as strict beats it, a small number does not.
    limit = replace(worse, basis="limit", posterior=0.25)
    assert _with_rival(limit, [full]).beaten_by == ""
    assert _with_rival(limit, [replace(full, posterior=0.25)]).beaten_by == "full, x = 1"


def test_sentences() -> None:
    """All are about one attacker; a promise says what holds for everybody, and none that nothing
    does.
    """
    point = replace(_point("uniform", 0.2, 0.5), posterior=0.33, worst=0.25, typical=(604.0, 39.2))
    assert sentence(point) == (
        "the best guess is right in 20 % of the cases, and in at most 25 % about anybody; all "
        "other columns are published unchanged; a count of 600 will be within ±40 nineteen times "
        "in twenty."
    )
    other = replace(point, posterior=None, beaten_by="subset, ε = 1")
    assert sentence(other).startswith(
        "not DP: the best guess is right in 20 % of the cases, and in 25 % about the unluckiest "
        "person; no limit holds for whoever knows more; a count of 600"
    )
    assert "unluckiest" not in sentence(replace(other, worst=None))
    assert sentence(other).endswith(
        "It is beaten by subset, ε = 1, which exposes no more and errs no more."
    )
    missed = replace(point, numbers={"coverage": spread(np.array([0.416, 0.416]))})
    assert sentence(missed).endswith(
        "Its intervals of 95 % held the truth in 42 % of the cases only."
    )
    loose = replace(point, delta=1e-6, typical=None)
    assert "(except with probability 0.000001)" in sentence(loose)
    whole = replace(loose, whole=True)
    assert "25 % about anybody (except with probability 0.000001); the answers are off by 50 %" in (
        sentence(whole)
    )


def test_nobody_is_beaten_by_a_worse_worst_case() -> None:
    better = replace(_point("anatomy", 0.2, 0.3), posterior=None, worst=1.0)
    point = replace(_point("aroma", 0.3, 0.5), posterior=None, worst=0.5)
    assert _with_rival(point, [better]).beaten_by == ""
    assert _with_rival(point, [replace(better, worst=0.5)]).beaten_by


def test_the_unluckiest_person_by_brute_force() -> None:
    """Anatomy: Bayes' rule over every group, with all values equally likely beforehand."""
    rng = np.random.default_rng(5)
    table = pa.table({"a": np.arange(60), "s": rng.choice(list("uvwxyz"), 60)})
    schema = sc.Schema(
        (
            sc.Attribute("a", "quasi", sc.IntegerRange(0, 59)),
            sc.Attribute("s", "sensitive", sc.Category(tuple("uvwxyz"))),
        )
    )
    release = sc.publish(
        table, schema, sc.Anatomy(l=3, suppress=True), options=sc.PublishOptions(seed=1)
    )
    true_table = TrueTable.read(table, schema)
    found = release_exposure(release, true_table, Fraction(1, 10))
    groups = pq.read_table(release.folder / release.evidence.values).to_pylist()
    whole = Counter(table["s"].to_pylist())
    chances = {}
    for row in groups:
        chances.setdefault(row["group"], []).append(row["count"] / whole[row["s"]])
    left = {v: n - sum(r["count"] for r in groups if r["s"] == v) for v, n in whole.items()}
    missing = [left[value] / whole[value] for value in whole]
    best = [max(each) / sum(each) for each in chances.values()]
    best += [max(missing) / sum(missing)] if any(missing) else []
    assert found.worst == pytest.approx(max(best))
    assert found.success <= found.worst


def test_the_unluckiest_row_of_multisets() -> None:
    """Aroma with an even pool: a value that is c of the k shown has the chance c / k."""
    table = pa.table({"s": ["x", "y", "z", "x"] * 30})
    schema = sc.Schema((sc.Attribute("s", "sensitive", sc.Category(("x", "y", "z"))),))
    release = sc.publish(
        table, schema, sc.Aroma(k=3, pool="uniform"), options=sc.PublishOptions(seed=1)
    )
    found = release_exposure(release, TrueTable.read(table, schema), Fraction(1, 10))
    shown = pq.read_table(release.folder / release.evidence.files[0])
    rows = zip(*(column.to_pylist() for column in shown.columns), strict=True)
    assert found.worst == pytest.approx(max(max(row) for row in rows) / 3)


def test_going_on_makes_only_what_is_missing(compared: tuple[Comparison, Results]) -> None:
    whole, results = compared
    comparison = Comparison(whole.table, whole.workload, whole.choices[:2], 3)
    again = Results.from_dict(results.to_dict())
    again.runs = [run for run in results.runs if run.method == "uniform"][:3]
    for done in comparison.runs(again):
        if done == 4:  # as if stopped here
            break
    assert len(again.runs) == 4
    assert again.runs == [run for run in results.runs if run.method == "uniform"]
    list(comparison.runs(again))
    made = [(run.repeat, run.words) for run in again.runs]
    assert made == [(repeat, f"ε = {epsilon}") for repeat in range(3) for epsilon in (1, 3)]


def test_the_page_is_complete_in_itself(
    compared: tuple[Comparison, Results], tmp_path: Path
) -> None:
    _, results = compared
    files = write(results, "relative", tmp_path / "c.html")
    assert [file.suffix for file in files] == [".html", ".csv", ".json"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    text = files[0].read_text("utf-8")
    assert "For the owner only" in text
    assert "What could not be compared" in text
    assert "$" not in re.sub(r"<svg.*</svg>", "", text, flags=re.DOTALL)
    for address in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", text):
        assert address.startswith("#"), address
    for address in re.findall(r"https?://[^\s\"'<]+", text):
        assert address.startswith("http://www.w3.org/"), address  # names of SVG, not addresses
    assert read(files[2]) == results
    assert "For the owner only" in files[2].read_text("utf-8")
    lines = as_csv(points(results, "relative")).splitlines()
    assert len(lines) == 1 + len(points(results, "relative"))


def test_the_page_opens_in_a_browser(compared: tuple[Comparison, Results], tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser to open the page with")
    (tmp_path / "c.html").write_text(page(compared[1], "relative"), encoding="utf-8")
    words = "--headless --no-sandbox --disable-gpu --window-size=900,1400 --screenshot=c.png"
    command = [browser, *words.split(), "c.html"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    picture = (tmp_path / "c.png").read_bytes()
    assert picture[:4] == b"\x89PNG"
    assert len(picture) > 20_000  # a blank page has a tenth of it


def test_a_preview_reads_nothing_and_says_so(compared: tuple[Comparison, Results]) -> None:
    _, results = compared
    preview = replace(results, about={**results.about, "preview": True})
    assert "no private row was read" in page(preview, "median")
    assert "For the owner only" not in page(preview, "median")


def test_generators_by_name(table: TrueTable, tmp_path: Path) -> None:
    sizes = {
        "breakdowns": 5,
        "breakdowns:ways=1,floor=0.1": 5,
        "conjunctions": 5,
        "conjunctions:ways=1,floor=0.01": 5,
        "selections": 5,
        "selections:ways=1": 5,
        "marginals": 3,
        "marginals:ways=1": 3,
        "ranges": 5,
        "ranges:volume=0.25,centres=data": 5,
        "prefixes:age": 10,
        "intervals:age": 5,
    }
    for name, size in sizes.items():
        found = questions(name, table, 5, 0)
        assert len(found) == size, name
        for query in found.queries:  # the texts say the same
            assert replace(from_sql([query.text], SCHEMA).queries[0], text="") == replace(
                query, text=""
            )
    assert len(questions("selections:ways=1", table, 0, 0)) == 10 + 2 + 8
    assert (
        len(questions("selections", table, None, 0)) == 11 * 3 * 9 - 1
    )  # all: they are fewer than 400
    mine = tmp_path / "mine.sql"
    mine.write_text("SELECT COUNT(*) FROM t\n")
    assert len(questions(str(mine), table, 5, 0)) == 1


GENERATORS = [
    ("nothing", "a file of SQL, or one of breakdowns"),
    ("marginals:floor=1", "ways=2"),
    ("marginals:ways=two", "ways=2"),
    ("marginals:ways=9", "attributes that there are"),
    ("prefixes", "of which column"),
    ("ranges:centres=here", "centres"),
]


def test_refused_generators(table: TrueTable, subtests: pytest.Subtests) -> None:
    for given, complaint in GENERATORS:
        with subtests.test(given=given):
            with pytest.raises(ParameterError, match=complaint):
                questions(given, table, 5, 0)
            with pytest.raises(ParameterError, match="give their number"):
                questions("ranges", table, 0, 0)


def test_settings_are_read() -> None:
    found = read_settings(["aroma:k=5,20", "sparse:rule=filter", "partition:plain=true"])
    assert found == {
        "aroma": {"k": [5, 20]},
        "sparse": {"rule": ["filter"]},
        "partition": {"plain": [True]},
    }
    with pytest.raises(ParameterError, match="METHOD:PARAMETER"):
        read_settings(["aroma=5"])


def test_refusals(table: TrueTable) -> None:
    workload = questions("prefixes:age", table, 1, 0)
    settings = Settings(table, workload, "replace")
    with pytest.raises(ParameterError, match="names among uniform"):
        settings.choices(["unifrom"], [1.0], {})
    with pytest.raises(ParameterError, match="of a method to compare"):
        settings.choices(["uniform"], [1.0], {"aroma": {"k": [5]}})
    with pytest.raises(ParameterError, match="sensitive"):
        schema_to_compare(SCHEMA.select(["age", "sex"]))
    groups = from_sql(["SELECT age, sex, job, COUNT(*) FROM t GROUP BY age, sex, job"], SCHEMA)
    assert len(table.answers(groups.queries)[0]) == 160
    wide = sc.Schema((sc.Attribute("x", "sensitive", sc.IntegerRange(0, 10**6)),))
    every = from_sql(["SELECT x, COUNT(*) FROM t GROUP BY x"], wide)
    with pytest.raises(QueryError, match="groups"):
        stand_in(wide, 10).answers(every.queries)


def test_equal_settings_are_compared_once(table: TrueTable) -> None:
    workload = questions("prefixes:age", table, 1, 0)
    found = Settings(table, workload, "replace").choices(["anatomy"], [3.0, 3.5], {})
    assert [choice.words for choice in found] == ["l = 2"]


def test_mean_errors_shrink_with_epsilon(compared: tuple[Comparison, Results]) -> None:
    """At ε = 3 the error of uniform is a tenth of that at ε = 1; twice two runs tell that apart
    beyond any doubt.
    """
    found: Iterator[Point] = (p for p in points(compared[1], "root") if p.method == "uniform")
    strict, loose = sorted(found, key=lambda point: point.success)
    assert loose.error.mean < strict.error.mean / 2

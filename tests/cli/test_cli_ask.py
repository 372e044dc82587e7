"""ask: the shapes of its answers, where a question may come from, and what can be asked."""

import csv

import pyarrow.csv
import pyarrow.parquet
import pytest

import scumble as sc
from tests.support.terminal import PEOPLE, run

ASTHMA = "WHERE condition = 'Asthma'"

BOUNDS = ["bound_low", "bound_high", "noise_low", "noise_high", "typical_low", "typical_high"]
REST = ["selected_value", "level", "reason", "method", "notes"]
KEYS = ["value", "stderr", "low", "high", *BOUNDS, *REST]


def test_json_of_one_number(place):
    sql = "SELECT COUNT(*) FROM t WHERE condition = 'Asthma'"
    [row] = run("ask", place / "view", sql, "--json").json
    assert list(row) == KEYS
    assert row["low"] < row["value"] < row["high"]
    assert row["level"] == 0.95
    assert row["bound_low"] is row["bound_high"] is None
    assert (row["noise_low"], row["noise_high"]) == (row["low"], row["high"])
    assert (row["typical_low"], row["typical_high"]) == (row["low"], row["high"])
    assert row["selected_value"] is None


def test_json_of_groups(place):
    sql = "SELECT sex, COUNT(*) FROM t WHERE condition = 'Asthma' GROUP BY sex"
    for release in ("view", "counts"):
        rows = run("ask", place / release, sql, "--json").json
        assert [list(row) for row in rows] == [["sex", *KEYS]] * 2
        assert [row["sex"] for row in rows] == ["female", "male"]


def test_the_noise_alone_is_shown_where_a_box_is_cut(capsys):
    import pyarrow as pa

    import scumble as sc
    from scumble.cli.printing import show_answer
    from scumble.public.estimate import TYPICAL

    schema = sc.Schema((sc.Attribute("x", "quasi", sc.IntegerRange(0, 63)),))
    mechanism = sc.PrivTree(["x"], epsilon=1, neighbours="replace")
    release = sc.publish(
        pa.table({"x": [7] * 300 + [40] * 20}), schema, mechanism, options=sc.PublishOptions(seed=2)
    )
    answer = release.answer("SELECT COUNT(*) FROM t WHERE x > 41")
    assert answer.bounds is not None
    show_answer(answer, 0.95)
    shown = capsys.readouterr().out
    assert "noise alone" in shown
    assert answer.noise_label(0.95) in shown
    assert "typical 95 %" in shown
    assert answer.typical_label(0.95) in shown
    assert TYPICAL in answer.notes
    show_answer(release.answer("SELECT COUNT(*) FROM t"), 0.95)
    assert "noise alone" not in capsys.readouterr().out


def test_what_was_not_perturbed_is_exact(place):
    [row] = run("ask", place / "view", "SELECT COUNT(*) FROM t", "--json").json
    assert (row["value"], row["stderr"], row["low"], row["high"]) == (PEOPLE, 0, PEOPLE, PEOPLE)


def test_table_for_people(place):
    sql = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
    done = run("ask", place / "counts", sql, "--level", "0.9")
    assert done.code == 0, done.err
    for part in ("sex", "female", "male", "value", "stderr", "low 90 %", "high 90 %"):
        assert part in done.out


HEADS = [
    (f"SELECT COUNT(*) FROM t {ASTHMA}", ["value"]),
    (f"SELECT COUNT(*) AS Ill FROM t {ASTHMA}", ["Ill"]),
    (f"SELECT AVG(age) mean FROM t {ASTHMA}", ["mean"]),
    (f"SELECT 2 * COUNT(*) AS twice FROM t {ASTHMA}", ["twice"]),
    (f"SELECT 2 * COUNT(*) FROM t {ASTHMA}", ["value"]),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", ["sex", "n"]),
    ("SELECT COUNT(*) AS n, sex AS who FROM t GROUP BY sex", ["who", "n"]),
    ("SELECT sex AS who, COUNT(*) FROM t GROUP BY sex", ["who", "value"]),
    ("SELECT sex AS who, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY n", ["who", "n"]),
    ("SELECT sex, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY n LIMIT 1", ["sex", "n"]),
]


def test_a_number_is_headed_by_its_alias(place, subtests):
    for sql, head in HEADS:
        with subtests.test(sql=sql):
            done = run("ask", place / "view", sql)
            assert done.out.split("stderr")[0].split() == head
            rows = run("ask", place / "view", sql, "--json").json
            alias = "" if head[-1] == "value" else head[-1]
            assert [row.get("alias", "") for row in rows] == [alias] * len(rows)
            assert all(row.keys() >= {*KEYS, *head[:-1]} for row in rows)


def test_a_higher_level_is_wider(place):
    sql = "SELECT COUNT(*) FROM t WHERE condition = 'No condition'"
    words = ("ask", place / "view", sql, "--json")
    [narrow], [wide] = (run(*words, "--level", level).json for level in ("0.9", "0.99"))
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]


def test_clamp_keeps_counts_possible(place):
    sql = "SELECT condition, COUNT(*) FROM t GROUP BY condition"
    rows = run("ask", place / "view", sql, "--clamp", "--json").json
    assert all(0 <= row["low"] <= row["value"] <= row["high"] <= PEOPLE for row in rows)


def test_question_from_stdin_or_file(place, tmp_path):
    sql = "SELECT COUNT(*)\nFROM t\nWHERE sex = 'male'\n"
    (tmp_path / "q.sql").write_text(sql)
    answers = [
        run("ask", place / "view", sql, "--json").json,
        run("ask", place / "view", "-", "--json", stdin=sql).json,
        run("ask", place / "view", "--file", tmp_path / "q.sql", "--json").json,
    ]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_side_table(place, tmp_path, kind):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"name": ["Alder Coast", "Kelp Shore", "Oak Downs"], "people": [9, 3, 6]})
    file = tmp_path / f"regions.{kind}"
    write = {"csv": pyarrow.csv.write_csv, "parquet": pyarrow.parquet.write_table}[kind]
    write(table, file)
    inside = "SELECT COUNT(*) FROM t WHERE region IN (SELECT name FROM regions WHERE people < 7)"
    listed = "SELECT COUNT(*) FROM t WHERE region IN ('Kelp Shore', 'Oak Downs')"
    [by_table] = run("ask", place / "view", inside, "--with", f"regions={file}", "--json").json
    [by_list] = run("ask", place / "view", listed, "--json").json
    assert by_table["value"] == by_list["value"] > 0


@pytest.mark.parametrize(
    ("method", "sql"),
    [
        (
            ("anatomy", "--l", "2", "--suppress"),
            "SELECT MAX(age) FROM t WHERE condition = 'Asthma'",
        ),
        (("generalise", "--k", "3"), "SELECT MAX(age) FROM t"),
        (("generalise", "--k", "3"), "SELECT COUNT(DISTINCT age) FROM t"),
    ],
)
def test_no_noise_is_blamed_where_there_is_none(place, tmp_path, method, sql):
    source = (place / "people.parquet", "-s", place / "people.toml")
    made = run("publish", *method, *source, "-o", tmp_path / "v")
    assert made.code == 0, made.err
    done = run("ask", tmp_path / "v", sql)
    assert done.code == 5
    assert "is not supported here" in done.err
    assert "noise" not in done.err


GROUPS = "SELECT sex AS who, COUNT(*) AS n FROM t GROUP BY sex"
TABLES = [
    ("SELECT COUNT(*) FROM t WHERE age < 40", ["value", "stderr", "low", "high", "level"]),
    (GROUPS, ["who", "n", "stderr", "low", "high", "level"]),
    (
        "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY sex",
        ["sex", "n", "n_stderr", "n_low", "n_high", "a", "a_stderr", "a_low", "a_high", "level"],
    ),
]


def test_a_table_has_groups_values_errors_and_the_level(place, subtests):
    for sql, columns in TABLES:
        with subtests.test(sql=sql):
            done = run("ask", place / "counts", sql.replace("age < 40", "sex = 'male'"), "--csv")
            if "AVG" in sql:
                done = run("ask", place / "view", sql, "--csv")
            head, *rows = csv.reader(done.out.splitlines())
            assert head == columns
            assert all(len(row) == len(head) for row in rows)
            assert {row[-1] for row in rows} == {"0.95"}


def test_an_answer_as_a_file_is_that_of_json(place, tmp_path):
    expected = run("ask", place / "counts", GROUPS, "--json", "--level", "0.9").json
    for name in ("n.csv", "n.parquet"):
        done = run("ask", place / "counts", GROUPS, "--level", "0.9", "-o", tmp_path / name)
        assert (done.code, done.out) == (0, "")
        assert f"Wrote {tmp_path / name}." in done.err
    read = pyarrow.csv.read_csv(tmp_path / "n.csv")
    assert read.to_pylist() == pyarrow.parquet.read_table(tmp_path / "n.parquet").to_pylist()
    for row, fields in zip(read.to_pylist(), expected, strict=True):
        assert row == pytest.approx(
            {"who": fields["who"], "n": fields["value"]}
            | {name: fields[name] for name in ("stderr", "low", "high", "level")}
        )
    again = run("ask", place / "counts", GROUPS, "-o", tmp_path / "n.csv")
    assert (again.code, "n.csv already exists. Use --force" in again.err) == (6, True)
    assert run("ask", place / "counts", GROUPS, "-o", tmp_path / "n.csv", "--force").code == 0


def test_chosen_groups_are_written_with_the_level_of_their_intervals(place):
    sql = "SELECT condition, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY n DESC LIMIT 2"
    rows = run("ask", place / "counts", sql, "--json").json
    [_, first, _] = csv.reader(run("ask", place / "counts", sql, "--csv").out.splitlines())
    assert float(first[-1]) == pytest.approx(rows[0]["level"])
    assert float(first[-1]) > 0.95


OTHERS = [
    (("--preview",), "--preview is for a database or a data set of a server"),
    (("--analyst", "ada"), "--analyst is for a database; "),
    (("--source", "people.csv"), "--source is for a database; "),
    (("--key", "1"), "--key is for a database or a data set of a server"),
    (("--csv", "--json"), "Give one of --csv, --json and --output."),
    (("--preview", "--csv"), "--preview has no table of answers"),
]


def test_options_of_another_kind_of_target_are_refused(place, monkeypatch, subtests):
    monkeypatch.setenv("SCUMBLE_SOURCE", "people.csv")  # which holds for whole days, is none
    for words, said in OTHERS:
        with subtests.test(words=words):
            done = run("ask", place / "view", "SELECT COUNT(*) FROM t", *words)
            assert (done.code, said in done.err) == (2, True)
    assert run("ask", place / "view", "SELECT COUNT(*) FROM t").code == 0


def test_a_server_is_asked_with_a_token(monkeypatch):
    monkeypatch.delenv("SCUMBLE_TOKEN", raising=False)
    done = run("ask", "https://statistics.example.org/people", "SELECT COUNT(*) FROM t")
    assert (done.code, "SCUMBLE_TOKEN" in done.err) == (2, True)


def test_several_releases_are_asked_together(place, tmp_path):
    """What combine is asked for and refuses is tested in tests/public/test_combined.py."""
    made = run(
        *("publish", "histogram", place / "people.parquet", "-s", place / "people.toml"),
        *("-a", "sex", "--neighbours", "add_remove", "--epsilon", "1", "--insecure-seed", "2"),
        *("-o", tmp_path / "sexes"),
    )
    assert made.code == 0, made.err
    sql = "SELECT COUNT(*) FROM t WHERE sex = 'male'"
    words = ("ask", place / "counts", sql, "--with", tmp_path / "sexes", "--json")
    [row] = run(*words).json
    releases = [sc.open(place / "counts"), sc.open(tmp_path / "sexes")]
    assert row["value"] == pytest.approx(sc.combine(releases).answer(sql).value)
    assert row["stderr"] < min(each.answer(sql).stderr for each in releases)
    (tmp_path / "s.csv").write_text("name\nmale\n")
    side = "SELECT COUNT(*) FROM t WHERE sex IN (SELECT name FROM s)"
    again = run("ask", place / "counts", side, *words[3:], "--with", f"s={tmp_path / 's.csv'}")
    assert again.json[0]["value"] == pytest.approx(row["value"])
    refused = run(*words, "--with", place / "view")
    assert refused.code == sc.ReleaseError.exit_code
    assert "Release 3 cannot be combined" in refused.err

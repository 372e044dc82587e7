"""`scumble db`: every command, what it says, and how it ends when something is wrong."""

import shutil
import sqlite3

import pytest

from scumble.private.database.database import Database
from tests.support.terminal import run

COLUMNS = "age,sex,condition"
YOUNG = "SELECT COUNT(*) FROM people WHERE age BETWEEN 18 AND 40"
OLD = "SELECT COUNT(*) FROM people WHERE age > 60"


def create(place, folder, *more):
    """A database with room for three answers at every point."""
    words = ("-s", place / "people.toml", "--epsilon", "0.3", "--noise", "20", "-a", COLUMNS)
    return run("db", "create", folder, place / "people.parquet", *words, *more)


@pytest.fixture
def fresh(place, tmp_path):
    done = create(place, tmp_path / "db")
    assert done.code == 0, done.err
    return tmp_path / "db"


@pytest.fixture(scope="module")
def used(place, tmp_path_factory):
    """A database that is asked until it relaxes."""
    folder = tmp_path_factory.mktemp("used") / "db"
    assert create(place, folder).code == 0
    for high in (40, 50, 60, 70):
        asked = f"SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND {high}"
        assert ask(place, folder, asked).code == 0
    return folder


@pytest.fixture
def copy(used, tmp_path):
    return shutil.copytree(used, tmp_path / "copy")


def ask(place, folder, *words):
    return run("ask", folder, "--source", place / "people.parquet", *words)


def test_create_says_what_is_promised(place, tmp_path):
    done = create(place, tmp_path / "db")
    assert done.code == 0, done.err
    assert "at most 3 answers for a point of age, sex, condition" in done.out
    assert "All answers together" in done.out
    assert "scumble ask" in done.out


def test_create_as_json(place, tmp_path):
    done = create(place, tmp_path / "db", "--quota", "anna=0.2", "--json")
    assert done.json["limit"] == 3
    assert done.json["analysts"] == {"anna": 0}


def test_the_place_of_the_table_is_not_written_down(place, fresh):
    assert ask(place, fresh, YOUNG).code == 0
    kept = b"".join(path.read_bytes() for path in fresh.iterdir())
    assert b"condition" in kept  # the schema is public
    assert str(place).encode() not in kept
    assert b"people.parquet" not in kept


CANNOT_BE_CREATED = [
    (("--quota", "anna"), 2, "ANALYST=EPSILON"),
    (("--quota", "anna=much"), 2, "ANALYST=EPSILON"),
    (("--noise", "1"), 2, "at least 2/epsilon"),
    (("--tracker", "some"), 2, "--tracker must be"),
    (("--buckets", "0"), 2, "--buckets must be"),
    (("-a", "height"), 3, "no attribute 'height'"),
]


def test_what_cannot_be_created(place, tmp_path, subtests):
    for words, code, sentence in CANNOT_BE_CREATED:
        with subtests.test(words=words):
            done = create(place, tmp_path / "db", *words)
            assert (done.code, done.out) == (code, "")
            assert sentence in done.err
            assert not (tmp_path / "db").exists()


def test_a_domain_from_the_data_is_told(place, tmp_path):
    schema = tmp_path / "inferred.toml"
    run("schema", "infer", place / "people.parquet", "--identifier", "person", "-o", schema)
    done = create(place, tmp_path / "db", "-s", schema)
    assert done.code == 0, done.err
    assert "Note: the domain of age, sex" in done.err
    assert done.err.count("was read from the private data: a leak.") == 1


def test_create_needs_its_promise(place, tmp_path):
    words = (tmp_path / "db", place / "people.parquet", "-s", place / "people.toml")
    assert "--noise" in run("db", "create", *words, "--epsilon", "1").err
    assert "--epsilon" in run("db", "create", *words, "--noise", "100").err


def test_a_folder_is_never_replaced(place, fresh):
    done = create(place, fresh)
    assert done.code == 6
    assert "already exists" in done.err


def test_ask_and_ask_again(place, fresh):
    first, again = (ask(place, fresh, YOUNG) for _ in range(2))
    assert first.code == again.code == 0
    assert "Answered as asked." in first.out
    assert "The same answer as before, free of charge." in again.out
    assert first.out.splitlines()[2] == again.out.splitlines()[2]


def test_ask_as_json(place, fresh):
    [fields] = ask(place, fresh, YOUNG, "--json", "--level", "0.9").json
    assert fields["status"] == "answered"
    assert fields["level"] == 0.9
    assert fields["low"] < fields["value"] < fields["high"]


def test_groups(place, fresh):
    done = ask(place, fresh, "SELECT sex, COUNT(*) FROM t WHERE age > 30 GROUP BY sex")
    assert "female" in done.out
    assert "Answered as asked." in done.out
    done = ask(place, fresh, "SELECT sex, COUNT(*) FROM t WHERE age > 30 GROUP BY sex", "--json")
    assert [(row["sex"], row["status"]) for row in done.json] == [
        ("female", "repeated"),
        ("male", "repeated"),
    ]


def test_several_numbers_and_side_tables(place, fresh, tmp_path):
    (tmp_path / "r.csv").write_text("sex,label\nfemale,F\nmale,M\n")
    sql = "SELECT r.label, COUNT(*) AS n, AVG(age) AS old FROM t JOIN r USING (sex) GROUP BY 1"
    given = ("--with", f"r={tmp_path / 'r.csv'}")
    source = ("--source", place / "people.parquet")
    found = run("ask", "--preview", fresh, *source, sql, *given, "--json").json
    assert (found["status"], found["charged"], set(found["parts"])) == (
        "answered", 4, {"n", "old"},
    )  # fmt: skip
    done = ask(place, fresh, sql, *given)
    assert done.code == 0, done.err
    assert done.out.split("\n")[0].split()[:2] == ["label", "n"]
    assert "Answered as asked." in done.out
    [first, _] = ask(place, fresh, sql, *given, "--json").json
    assert (first["label"], first["n"]["status"], first["old"]["status"]) == (
        "F", "repeated", "repeated",
    )  # fmt: skip
    assert ask(place, fresh, sql).code == 5  # no side table was given


def test_a_column_may_be_called_status(tmp_path):
    """The groups of a table have to stand beside what is told about each answer."""
    (tmp_path / "t.csv").write_text("status,age\n" + "single,30\nmarried,40\n" * 50)
    category = 'type = "category"\nvalues = ["single", "married"]'
    (tmp_path / "t.toml").write_text(
        f'[attributes.status]\nrole = "quasi"\n{category}\n'
        '[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [0, 99]\n'
    )
    folder, source = tmp_path / "db", tmp_path / "t.csv"
    done = run("db", "create", folder, source, "-s", tmp_path / "t.toml", "-e", "1", "-l", "10")
    assert done.code == 0, done.err
    asked = "SELECT status, COUNT(*) FROM t WHERE age < 50 GROUP BY status"
    rows = run("ask", folder, "--source", source, asked, "--json").json
    assert [(row["group status"], row["status"]) for row in rows] == [
        ("single", "answered"),
        ("married", "answered"),
    ]
    with Database.open(folder, source) as database:
        frame = database.answer(asked).to_arrow()
    assert frame["group status"].to_pylist() == ["single", "married"]
    assert frame["status"].to_pylist() == ["repeated", "repeated"]
    assert frame["distance"].to_pylist() == [0, 0]


def test_the_environment_may_name_the_table(place, fresh, monkeypatch):
    assert "--source" in run("ask", fresh, YOUNG).err
    monkeypatch.setenv("SCUMBLE_SOURCE", str(place / "people.parquet"))
    assert run("ask", fresh, YOUNG).code == 0
    assert run("ask", fresh, "-", stdin=YOUNG).code == 0


def test_a_key_is_answered_once(place, fresh):
    first, again = (ask(place, fresh, YOUNG, "--key", "one", "--json") for _ in range(2))
    assert first.json == again.json
    other = ask(place, fresh, OLD, "--key", "one")
    assert other.code == 2
    assert "--key must be" in other.err


def test_relaxed_answers_say_what_they_count(place, used):
    done = ask(place, used, "SELECT COUNT(*) FROM t WHERE age BETWEEN 22 AND 38")
    assert done.code == 0, done.err
    said, head, *_ = done.out.splitlines()  # above the number
    assert "Relaxed: this counts WHERE age BETWEEN" in said
    assert "not what was asked" in said
    assert "relaxation error" in said
    assert "value" in head


def test_relaxed_groups_are_told_one_by_one(place, used):
    asked = "SELECT sex, COUNT(*) FROM t WHERE age BETWEEN 20 AND 38 GROUP BY sex"
    done = ask(place, used, asked)
    assert "female: Relaxed: this counts WHERE age BETWEEN" in done.out
    assert "\nmale: Relaxed: this counts WHERE age BETWEEN" in done.out
    assert "counted instead" in done.out


def test_nothing_to_relax_from(place, tmp_path):
    """A sum uses up what there is, and tells nothing about a count."""
    folder = tmp_path / "db"
    assert create(place, folder, "--noise", "7").code == 0
    assert ask(place, folder, "SELECT SUM(age) FROM t WHERE age > 30").code == 0
    done = ask(place, folder, "SELECT COUNT(*) FROM t WHERE age > 40")
    assert done.code == 0
    assert "Not answered: the promise is used up here" in done.out


def test_a_used_up_group_has_no_sum_and_the_others_have(place, tmp_path):
    folder = tmp_path / "db"
    assert create(place, folder, "--noise", "7").code == 0
    assert ask(place, folder, "SELECT SUM(age) FROM t WHERE sex = 'male'").code == 0
    asked = "SELECT sex, SUM(age + 1) FROM t GROUP BY sex"
    done = ask(place, folder, asked, "--preview")
    assert "The promise is used up for 1 number, which will have no answer." in done.out
    done = ask(place, folder, asked)
    assert done.code == 0
    assert "Answered as asked for 1 of 2 groups." in done.out
    assert "male: Not answered: the promise is used up here" in done.out


def test_refusals_end_with_seven(place, used):
    asked = "SELECT COUNT(*) FROM t WHERE age BETWEEN 23 AND 37"
    done = ask(place, used, asked, "--max-relaxation-error", "0")
    assert done.code == 7
    assert "A question near it that can be answered" in done.err
    assert ask(place, used, asked, "--relax", "refuse").code == 7


BAD_REQUESTS = [
    (("SELECT COUNT(*) FROM t WHERE hight > 3",), 5),
    (("SELECT COUNT(*) FROM t WHERE age < sex",), 5),
    ((), 2),
    ((YOUNG, "--level", "2"), 2),
    ((YOUNG, "--relax", "perhaps"), 2),
    ((YOUNG, "--prefer", "perhaps"), 2),
    ((YOUNG, "--max-relaxation-error", "nan"), 2),
    ((YOUNG, "--weight", "age"), 2),
    ((YOUNG, "--weight", "height=1"), 2),
]


def test_bad_requests_cost_nothing(place, used, subtests):
    for words, code in BAD_REQUESTS:
        with subtests.test(words=words):
            before = run("db", "status", used, "--json").json
            done = ask(place, used, *words)
            assert (done.code, done.out) == (code, "")
            assert done.err.startswith("Error: ")
            assert run("db", "status", used, "--json").json == before


def test_another_table_or_schema_is_refused(place, fresh, tmp_path):
    other = tmp_path / "other.csv"
    lines = (place / "people.csv").read_text().splitlines(keepends=True)
    other.write_text("".join(lines[:-1]))
    done = run("ask", fresh, YOUNG, "--source", other)
    assert done.code == 8
    assert "differs in the content of the table" in done.err
    changed = tmp_path / "other.toml"
    changed.write_text((place / "people.toml").read_text().replace("18", "17", 1))
    done = ask(place, fresh, YOUNG, "-s", changed)
    assert done.code == 8
    assert "schema" in done.err
    assert ask(place, fresh, YOUNG, "-s", place / "people.toml").code == 0


def test_cost_is_free(place, used):
    source = ("--source", place / "people.parquet")
    before = run("db", "status", used, "--json").json
    done = run(
        "ask", "--preview", used, "SELECT COUNT(*) FROM t WHERE age BETWEEN 24 AND 36", *source
    )
    limit = before["limit"]
    told = f"Used before it: {limit} of {limit} answers where most was asked. After it: {limit}."
    assert told in done.out
    assert done.out.startswith("It would be relaxed: standard error ")
    assert "What is counted instead: age BETWEEN" in done.out
    sum_of_parts = "SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND 70"
    done = run("ask", "--preview", used, sum_of_parts, *source)
    assert "It would be relaxed" in done.out
    assert "Its limits stay as asked" in done.out
    assert "instead" not in done.out
    done = run("ask", "--preview", used, OLD, *source, "--json")
    assert (done.json["status"], done.json["charged"]) == ("answered", 1)
    assert done.json["used"] == done.json["used_after"] == before["used"]
    asked = "SELECT COUNT(*) FROM t WHERE age BETWEEN 25 AND 35"
    done = run("ask", "--preview", used, asked, *source, "--relax", "refuse")
    assert done.code == 0
    assert done.out.startswith("It would be refused. The promise is used up")
    assert run("db", "status", used, "--json").json == before


def test_quotas(place, tmp_path):
    folder = tmp_path / "db"
    assert create(place, folder, "--quota", "anna=0.1", "--quota", "ben=0.3").code == 0
    assert ask(place, folder, YOUNG).code == 2
    assert ask(place, folder, YOUNG, "--analyst", "carl").code == 2
    assert ask(place, folder, YOUNG, "--analyst", "anna").code == 0
    more = "SELECT COUNT(*) FROM t WHERE age BETWEEN 18 AND 41"
    [anna] = ask(place, folder, more, "--analyst", "anna", "--json").json
    [ben] = ask(place, folder, more, "--analyst", "ben", "--json").json
    assert (anna["status"], ben["status"]) == ("relaxed", "answered")
    status = run("db", "status", folder).out
    assert "anna               1 of 1\n" in status
    assert [entry["analyst"] for entry in run("db", "history", folder, "--json").json] == [
        "anna",
        "anna",
        "ben",
    ]
    assert "analyst" in run("db", "history", folder).out


def test_quotas_of_a_database_in_postgresql(place, postgresql):
    address = postgresql.table("db")
    assert create(place, address).code == 0
    done = run("db", "quota", address, "anna", "--epsilon", "0.1")
    assert done.out == "anna: questions 0, numbers 0, quota 0.1, 0 of 1 answers used\n", done.err


def test_quotas_change_without_the_table(place, tmp_path):
    folder = tmp_path / "db"
    assert create(place, folder).code == 0
    assert ask(place, folder, YOUNG, "--analyst", "anna").code == 0
    assert "anna: questions 1, numbers 1, no quota" in run("db", "quota", folder).out
    done = run("db", "quota", folder, "anna", "--epsilon", "0.1")
    assert done.out == "anna: questions 1, numbers 1, quota 0.1, 1 of 1 answers used\n"
    more = "SELECT COUNT(*) FROM t WHERE age BETWEEN 18 AND 41"
    refused = ask(place, folder, more, "--analyst", "anna", "--relax", "refuse")
    assert "The analyst's quota is used up" in refused.err
    for wrong in (("anna",), ("--end",), ("anna", "--end", "-e", "1"), ("anna", "-e", "9")):
        assert run("db", "quota", folder, *wrong).code == 2
    assert run("db", "quota", folder, "anna", "--end", "--json").json[0]["epsilon"] is None
    assert ask(place, folder, more, "--analyst", "anna", "--relax", "refuse").code == 0


def test_status_needs_no_table(used):
    done = run("db", "status", used)
    assert done.code == 0
    assert "3 of 3 at the most asked-about point (100 %)" in done.out
    assert run("db", "status", used, "--json").json["share_used"] == 1


def test_history(fresh, used):
    found = run("db", "history", used, "--json").json
    assert [entry["status"] for entry in found[:4]] == ["answered"] * 3 + ["relaxed"]
    shown = run("db", "history", used, "--last", "1").out
    assert len(shown.splitlines()) == 3
    assert run("db", "history", fresh).out == "Nothing was answered yet.\n"


def test_verify_a_whole_ledger(copy):
    done = run("db", "verify", copy)
    assert done.code == 0
    seal = done.out.splitlines()[-1]
    assert run("db", "verify", copy, "--seal", seal).code == 0
    assert run("db", "verify", copy, "--json").json == {"whole": True, "findings": [], "seal": seal}
    assert run("db", "verify", copy, "--seal", "nonsense").code == 2


def test_verify_finds_tampering(copy):
    seal = run("db", "verify", copy).out.splitlines()[-1]
    with sqlite3.connect(copy / "ledger.sqlite") as file:
        file.execute("UPDATE entries SET time = '2020' WHERE number = 3")
    file.close()
    done = run("db", "verify", copy)
    assert done.code == 8
    assert done.out.startswith("Entry 3 was changed")
    assert not run("db", "verify", copy, "--seal", seal, "--json").json["whole"]
    assert run("db", "status", copy).code == 8


@pytest.mark.parametrize("command", ["status", "history", "verify"])
def test_no_database(tmp_path, command):
    done = run("db", command, tmp_path)
    assert (done.code, done.out) == (8, "")
    assert "is no database and no ledger" in done.err


def test_plot(used, tmp_path):
    pytest.importorskip("matplotlib")
    curve, heat = tmp_path / "curve.svg", tmp_path / "heat.png"
    assert run("db", "status", used, "-o", curve).code == 0
    assert curve.read_text().startswith("<svg")
    assert run("db", "status", used, "-o", heat, "-a", "age,sex").code == 0
    assert heat.read_bytes().startswith(b"\x89PNG")
    again = run("db", "status", used, "-o", heat)
    assert (again.code, "already exists. Use --force" in again.err) == (6, True)
    assert run("db", "status", used, "-o", heat, "--force").code == 0


CANNOT_BE_DRAWN = [
    ("-o", "x.gif"),
    ("-o", "x.png", "-a", "age"),
    ("-o", "x.png", "-a", "age,height"),
    ("-o", "x.png", "-a", "age,age"),
]


def test_what_cannot_be_drawn(used, tmp_path, monkeypatch, subtests):
    for words in CANNOT_BE_DRAWN:
        with subtests.test(words=words):
            monkeypatch.chdir(tmp_path)
            assert run("db", "status", used, *words).code == 2
            assert list(tmp_path.iterdir()) == []

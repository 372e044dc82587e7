"""schema infer, publish and show."""

import json

import pytest

from scumble import Schema
from tests.support.terminal import run


def options(place, output):
    return (place / "people.parquet", "--schema", place / "people.toml", "-o", output)


def test_infer_writes_a_schema_that_publishes(place, tmp_path):
    file = tmp_path / "proposed.toml"
    done = run(
        "schema", "infer", place / "people.csv", "--sensitive", "condition",
        "--identifier", "person", "-o", file,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out == ""
    assert "Wrote" in done.err
    assert "Check 'age'" in done.err
    made = run(
        "publish",
        "uniform",
        place / "people.csv",
        "-s",
        file,
        "-e",
        "1",
        "-o",
        tmp_path / "v",
    )
    assert made.code == 0, made.err
    assert "read from the private data" in run("show", tmp_path / "v").out


def test_infer_prints_toml_or_json(place):
    words = ("schema", "infer", place / "people.parquet", "--sensitive", "condition")
    assert "[attributes.condition]" in run(*words).out
    found = run(*words, "--json").json
    assert [a["name"] for a in found["attributes"] if a["role"] == "sensitive"] == ["condition"]
    assert found["checks"]


def test_infer_takes_several_columns_at_once(tmp_path):
    (tmp_path / "t.csv").write_text('a,b,"c, d",e\n' + "x,y,z,w\n" * 3 + "y,x,x,v\n")
    words = ("--sensitive", "a, b", "--sensitive", '"c, d"', "--json")
    schema = run("schema", "infer", tmp_path / "t.csv", *words).json
    roles = [attribute["role"] for attribute in schema["attributes"]]
    assert roles == ["sensitive", "sensitive", "sensitive", "quasi"]
    done = run("schema", "infer", tmp_path / "t.csv", "--sensitive", "A")
    assert "has no column 'A'" in done.err
    assert "Upper and lower case count: it has 'a'." in done.err


def test_infer_says_that_nothing_is_protected(place):
    words = ("schema", "infer", place / "people.parquet")
    sentence = "No column is sensitive. Methods that publish counts need none"
    assert sentence in run(*words).err
    assert sentence in run(*words, "--json").json["checks"][-1]
    assert sentence not in run(*words, "--sensitive", "condition").err


def test_a_sensitive_list_is_protected(tmp_path):
    lines = [f"{row},a b c d" if row % 2 else f"{row},b a" for row in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(["age,items", *lines]) + "\n")
    words = ("schema", "infer", tmp_path / "t.csv", "--type", "items=set")
    assert "No column is sensitive" in run(*words).err
    assert "No column is sensitive" not in run(*words, "--sensitive", "items").err


def test_infer_writes_a_file_with_places_to_fill_in(tmp_path):
    lines = [f"a long text {row},{100 + 37 * (row % 50)},x" for row in range(3000)]
    (tmp_path / "t.csv").write_text("\n".join(["note,items,one", *lines]) + "\n")
    words = ("schema", "infer", tmp_path / "t.csv", "--sensitive", "note,one")
    done = run(*words, "-o", tmp_path / "t.toml")
    assert done.code == 0, done.err
    assert "No domain could be proposed for note, one: write it in" in done.err
    assert "--type items=category" in done.err
    assert (tmp_path / "t.toml").read_text().count('type = "FILL IN"') == 2
    publish = ("publish", "uniform", tmp_path / "t.csv", "-s", tmp_path / "t.toml", "-e", "1")
    refused = run(*publish, "-o", tmp_path / "v")
    assert refused.code == 3
    assert "still to be filled in" in refused.err
    typed = run(*words, "--type", "items=category", "--json").json
    assert typed["attributes"][1]["type"] == "category"
    for given, sentence in {"items": "a column and a type", "items=text": "must be one of"}.items():
        refused = run(*words, "--type", given)
        assert refused.code == 2
        assert f"--type must be {sentence.removeprefix('must be ')}" in refused.err


def test_infer_names_the_option_for_stray_values(tmp_path):
    days = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 21)]
    lines = ["day,sex", *(f"{day},f" for day in days), *("24/12/2024,F",) * 3]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    done = run("schema", "infer", tmp_path / "t.csv")
    assert 'type = "date"' in done.out
    assert "1 to 5 % of the rows are no dates like 2024-12-31" in done.err
    assert "--outside decides what becomes of them" in done.err
    assert "Check 'sex' (category of 2 values): " in done.err
    assert "spelled in several ways" in done.err
    assert "24/12/2024" not in done.out + done.err


def test_long_lists_do_not_flood_a_terminal(tmp_path, monkeypatch):
    words = [f"word{k:03}" for k in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["a", *words, *words]) + "\n")
    command = ("schema", "infer", tmp_path / "t.csv")
    whole = run(*command).out
    assert all(word in whole for word in words)
    monkeypatch.setattr("scumble.cli.console.on_terminal", lambda: True)
    shown = run(*command).out
    assert '"word009", ...]  # 300 in all; -o FILE writes them' in shown
    assert "word010" not in shown
    run(*command, "-o", tmp_path / "t.toml")
    assert '"word299"' in (tmp_path / "t.toml").read_text()


def test_infer_does_not_overwrite(place, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("precious")
    words = ("schema", "infer", place / "people.csv", "-o", file)
    assert run(*words).code == 6
    assert file.read_text() == "precious"
    assert run(*words, "--force").code == 0


def test_publish_says_what_it_promises(place, tmp_path):
    done = run("publish", "uniform", *options(place, tmp_path / "v"), "--epsilon", "1")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "believed a value of condition with 10 %, can reach at most 23.2 %" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v"]


def test_publish_as_json(place, tmp_path):
    words = ("publish", "uniform", *options(place, tmp_path / "v"), "--keep", "0.5", "--json")
    found = run(*words).json
    assert found["release"] == str(tmp_path / "v")
    assert found["mechanism"] == "uniform"
    assert found["parameters"]["keep"] == 0.5
    assert found["guarantees"]


@pytest.mark.parametrize("choice", ["--joint", "--each"])
def test_several_sensitive_columns(place, tmp_path, choice):
    schema = tmp_path / "two.toml"
    Schema.load(place / "people.toml").with_roles(sensitive=["sex"]).save(schema)
    words = ("uniform", place / "people.parquet", "-s", schema, "-e", "2", choice, "--json")
    done = run("publish", *words, "-o", tmp_path / "v")
    assert done.code == 0, done.err
    assert done.json["parameters"]["joint"] is (choice == "--joint")
    assert len(done.json["evidence"]["channels"]) == (1 if choice == "--joint" else 2)


def test_rho_and_gamma_are_passed_on(place, tmp_path):
    words = ("publish", "uniform", *options(place, tmp_path / "v"), "--json")
    found = run(*words, "--rho1", "0.1", "--rho2", "0.3").json
    assert (found["parameters"]["rho1"], found["parameters"]["rho2"]) == (0.1, 0.3)
    assert run(*words, "--gamma", "5", "--force").json["parameters"]["gamma"] == 5


def test_histogram_limits_the_rows_of_a_person(place, tmp_path):
    done = run(
        "publish", "histogram", *options(place, tmp_path / "v"), "-a", "sex", "-e", "1",
        "--neighbours", "replace", "--contribution", "2", "--person", "person", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["parameters"]["person"] == "person"


def test_a_fixed_seed_is_said_and_repeats(place, tmp_path):
    for name in ("a", "b"):
        words = ("publish", "uniform", *options(place, tmp_path / name), "-e", "1")
        assert run(*words, "--insecure-seed", "7").code == 0
    shown = run("show", tmp_path / "a").out
    assert "NOT PRIVATE" in shown
    first, second = ((tmp_path / name / "records.parquet").read_bytes() for name in ("a", "b"))
    assert first == second


def test_fresh_noise_every_time(place, tmp_path):
    for name in ("a", "b"):
        run("publish", "uniform", *options(place, tmp_path / name), "-e", "1")
    first, second = ((tmp_path / name / "records.parquet").read_bytes() for name in ("a", "b"))
    assert first != second


def test_show_tells_promises_limits_and_how_to_ask(place):
    text = " ".join(run("show", place / "view").out.split())
    for part in ("uniform", "epsilon = 2", "Promised", "Not promised", "proof:", "condition"):
        assert part in text
    command = text.partition("scumble ask ")[2]
    assert command
    found = run("show", place / "view", "--json").json
    assert found == json.loads((place / "view" / "manifest.json").read_text())


def test_what_show_suggests_works(place, monkeypatch):
    import shlex

    monkeypatch.chdir(place)
    for release in ("view", "counts"):
        command = run("show", release).out.rstrip().splitlines()[-1].strip()
        done = run(*shlex.split(command)[1:])
        assert done.code == 0, done.err


def test_attributes_may_be_repeated_and_listed(place, tmp_path):
    method = ("-e", "1", "--neighbours", "replace")
    columns = ("-a", "age, sex", "-a", "condition")
    done = run("publish", "histogram", *options(place, tmp_path / "h"), *method, *columns, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["parameters"]["attributes"] == ["age", "sex", "condition"]


def test_publish_says_what_is_published_unchanged(place, tmp_path):
    done = run("publish", "uniform", *options(place, tmp_path / "v"), "--epsilon", "1")
    text = " ".join(done.out.split())
    assert "Published unchanged, for everybody to see: age, sex, region" in text


UNSAVED = [
    (["--identifier", "person"], 2, "say with --update-record FILE where to keep it"),
    (["--update-record", "{}/people.book"], 2, "--identifier COLUMN, or by alphabeta with --views"),
    (["--identifier", "person", "--update-record", "{}/taken"], 6, "already exists"),
    (
        ["--identifier", "person", "--update-record", "{}/v/people.book"],
        6,
        "outside of release folders",
    ),
]


def test_what_cannot_be_saved_is_refused_before_the_work(place, tmp_path, subtests):
    """No table is there: it is not even opened."""
    for words, code, sentence in UNSAVED:
        with subtests.test(words=words):
            (tmp_path / "taken").touch()
            given = [word.format(tmp_path) for word in words]
            where = ("no such table.csv", "-s", place / "people.toml", "-o", tmp_path / "v")
            done = run("publish", "aroma", *where, "--k", "9", *given)
            assert done.code == code, done.err
            assert sentence in done.err
            assert not (tmp_path / "v").exists()


def test_a_further_view_takes_the_private_record_and_the_same_table(place, tmp_path):
    table = place / "people.csv"
    words = ("-s", place / "people.toml", "--prior-multiple", "10", "--gamma", "0.2")
    words = ("alphabeta", table, *words, "--multiplicity", "10", "--views", "2")
    refused = run("publish", *words, "-o", tmp_path / "v")
    assert (refused.code, "--update-record FILE" in refused.err) == (2, True)
    book = ("--update-record", tmp_path / "views.book")
    assert run("publish", *words, "-o", tmp_path / "v", *book).code == 0
    assert "needs the private record" in run("release", "republish", tmp_path / "v", table).err
    header, first, second, *others = (place / "people.csv").read_text().splitlines()
    assert first.partition(",")[2] != second.partition(",")[2]
    (tmp_path / "changed.csv").write_text("\n".join([header, first, first, *others]))
    refused = run("release", "republish", tmp_path / "v", tmp_path / "changed.csv", *book)
    assert "not the table that was published before" in refused.err
    done = run("release", "republish", tmp_path / "v", table, *book)
    assert (done.code, "Added a view to" in done.out) == (0, True), done.err
    again = run("release", "republish", tmp_path / "v", table, *book)
    assert "All views that the promise covers (2) are published" in again.err


def test_errors_to_expect_are_told_before_anything_is_read(place, tmp_path):
    """Here of a table with a value outside its domain; not to programs, which want one object."""
    words = ("-s", place / "people.toml", "-o", tmp_path / "v", "-e", "1")
    table = (place / "people.csv").read_text().splitlines()
    (tmp_path / "odd.csv").write_text(f"{table[0]}\n{'?,' * table[0].count(',')}?\n")
    done = run("publish", "uniform", tmp_path / "odd.csv", *words)
    assert done.code == 4
    assert done.err.startswith("To expect: among 10,000 rows, a count of 1,000 that have one value")
    done = run("publish", "uniform", tmp_path / "odd.csv", *words, "--json")
    assert json.loads(done.err)["exit_code"] == 4


def test_nothing_is_expected_of_what_cannot_begin(place, tmp_path):
    words = ("-s", place / "people.toml", "-o", tmp_path / "v", "-e", "0.01")
    small = ("ledger", "create", tmp_path / "small", "-e", "0.001", "--neighbours", "replace")
    assert run(*small).code == 0
    for source, more, code in (
        (place / "people.csv", ("--ledger", tmp_path / "small"), 7),
        (tmp_path / "none.csv", (), 4),
        (place / "people.csv", ("--outside", "foo"), 2),
        (place / "people.csv", ("--ledger", tmp_path / "none"), 8),
    ):
        done = run("publish", "uniform", source, *words, *more)
        assert done.code == code, done.err
        assert done.err.startswith("Error: ")
        assert done.err.count("\n") == 1


def test_cautions_are_told_once(place, tmp_path):
    words = (place / "people.parquet", "-s", place / "people.toml", "--neighbours", "replace")
    done = run("publish", "grid", *words, "-a", "age,region", "-e", "11", "-o", tmp_path / "v")
    assert done.code == 0, done.err
    assert done.err.count("hides next to nothing") == 1
    assert done.err.count("region has no order") == 1
    assert "age" not in done.err.partition("no order")[0]


def test_an_owner_is_told_that_a_filter_hides_nearly_everything(place, tmp_path):
    names = "age,region,occupation,condition"
    words = (place / "people.parquet", "-s", place / "people.toml", "--neighbours", "replace")
    done = run("publish", "sparse", *words, "-a", names, "-e", "1", "-o", tmp_path / "v")
    assert done.code == 0, done.err
    assert done.err.startswith("To expect: a combination of values is published if its noisy count")
    assert "Note: The published cells hold about" in done.err
    assert "--rule threshold answers without that bias" in done.err
    assert "hold about" not in (tmp_path / "v" / "manifest.json").read_text()


def test_answers_that_say_nothing_are_warned_of(place, tmp_path):
    """Once, before anything is read; programs are told after the work."""
    words = (place / "people.parquet", "-s", place / "people.toml", "--neighbours", "replace")
    words += ("-a", "age,region", "-e", "0.001")
    for folder, more in {"v": (), "w": ("--json",)}.items():
        done = run("publish", "histogram", *words, "-o", tmp_path / folder, *more)
        assert done.code == 0, done.err
        assert done.err.count("may be off by more than itself") == 1
        assert "WARNING: An answer about a tenth of the rows may be off" in done.err
    done = run("publish", "histogram", *words, "-e", "10", "-o", tmp_path / "x")
    assert "WARNING" not in done.err


def test_a_table_of_unknown_size_is_warned_of_once(place, tmp_path):
    """The rows of a CSV file are not known beforehand: the first warning speaks of 10,000."""
    words = ("uniform", place / "people.csv", "-s", place / "people.toml", "-o")
    done = run("publish", *words, tmp_path / "v", "-e", "0.01")
    assert done.code == 0, done.err
    assert done.err.count("WARNING: An answer about a tenth of the rows") == 1
    assert "of 10,000 rows" in done.err
    # Enough for 10,000 rows and not for these, which are told by the release.
    done = run("publish", *words, tmp_path / "w", "-e", "0.8")
    assert done.err.count("WARNING: An answer about a tenth of the rows") == 1
    assert "of 3,000 rows" in done.err.partition("WARNING")[2]


def test_a_database_by_its_address(place, tmp_path):
    """With a query and with a table; a password in the address is not repeated."""
    import sqlite3

    import pyarrow.parquet as pq

    pytest.importorskip("adbc_driver_sqlite", reason="needs scumble[postgres]")
    people = pq.read_table(place / "people.parquet").to_pydict()
    with sqlite3.connect(tmp_path / "people.db") as connection:
        connection.execute(f"CREATE TABLE people ({', '.join(people)})")
        marks = ", ".join("?" * len(people))
        rows = zip(*(map(str, column) for column in people.values()), strict=True)
        connection.executemany(f"INSERT INTO people VALUES ({marks})", rows)
    connection.close()
    given = ("-s", place / "people.toml", "-e", "1", "--insecure-seed", "1")
    address = f"sqlite:///{tmp_path / 'people.db'}"
    asked = ("--query", "SELECT * FROM people;")
    for number, chosen in enumerate((("--table", "people"), asked)):
        done = run("publish", "uniform", address, *given, *chosen, "-o", tmp_path / f"view{number}")
        assert done.code == 0, done.err
    file = run("publish", "uniform", place / "people.parquet", *given, "-o", tmp_path / "view2")
    assert file.code == 0, file.err
    views = [pq.read_table(tmp_path / f"view{n}" / "records.parquet") for n in range(3)]
    assert views[0].equals(views[1])
    assert views[0].equals(views[2])
    wrong = run("publish", "uniform", "postgresql://ada:hush@host/x", *given, "-o", tmp_path / "v")
    assert wrong.code != 0
    assert "password" in wrong.err
    assert "hush" not in wrong.err + wrong.out


def test_a_table_without_rows_is_warned_of_where_the_number_of_rows_is_public(place, tmp_path):
    """Whether a table is empty is private where people may be added or removed."""
    header = (place / "people.csv").read_text().splitlines()[0]
    (tmp_path / "empty.csv").write_text(f"{header}\n")
    words = (tmp_path / "empty.csv", "-s", place / "people.toml")
    counts = ("histogram", "-a", "sex", "-e", "1", "--neighbours")
    for method in (("uniform", "-e", "1"), (*counts, "replace")):
        done = run("publish", method[0], *words, *method[1:], "-o", tmp_path / method[0])
        assert done.code == 0, done.err
        assert "WARNING: The release has no rows." in done.err
    told = {}
    for name in ("empty", "people"):
        source = (place if name == "people" else tmp_path) / f"{name}.csv"
        done = run(
            "publish",
            counts[0],
            source,
            *words[1:],
            *counts[1:],
            "add_remove",
            "-o",
            tmp_path / name,
        )
        assert done.code == 0, done.err
        told[name] = done.err.replace(name, "")
    assert told["empty"] == told["people"]

"""Whatever goes wrong ends in one sentence, the documented exit code, and no traceback."""

import gzip
import json

from tests.support.terminal import run

UNIFORM = ("uniform", "--epsilon", "1")
CANARY = "Zanzibarite"


def publish(place, method, *words, source=None, schema=None, output="never"):
    source = source or place / "people.parquet"
    schema = schema or place / "people.toml"
    return run("publish", method, source, "-s", schema, "-o", place / output, *words)


def check(done, code, *parts):
    assert done.code == code, done.err
    assert done.out == ""
    assert done.complaint.startswith("Error: ")
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err


BAD_PARAMETERS = [
    (("uniform",), "epsilon"),
    (("uniform", "--epsilon", "-1"), "above 0"),
    (("uniform", "--epsilon", "nan"), "above 0"),
    (("uniform", "--epsilon", "inf"), "above 0"),
    (("uniform", "--epsilon", "1", "--gamma", "2"), "exactly one"),
    (("uniform", "--keep", "1.5"), "between 0 and 1"),
    (("uniform", "--rho1", "0.5", "--rho2", "0.2"), "rho2"),
    (("unifrom", "--epsilon", "1"), "Did you mean 'uniform'?"),
    (("histogram", "--epsilon", "1"), "needs --attributes and --neighbours"),
    (("histogram", "--epsilon", "1", "-a", "sex"), "needs --neighbours"),
    ((*UNIFORM, "--outside", "ignore"), "'drop'"),
]


def test_bad_parameters(place, subtests):
    for words, part in BAD_PARAMETERS:
        with subtests.test(words=words):
            check(publish(place, *words), 2, part)
            assert not (place / "never").exists()


EXTREME = [("uniform",), ("histogram", "-a", "sex", "--neighbours", "replace")]


def test_an_extreme_epsilon_is_no_accident(place, tmp_path, subtests):
    """Either it is refused in a sentence or it is published; nothing between."""
    for epsilon in ["1e-300", "1000", "1e300"]:
        for method in EXTREME:
            with subtests.test(epsilon=epsilon, method=method):
                done = publish(
                    place,
                    *method,
                    "--epsilon",
                    epsilon,
                    output=tmp_path / f"{method[0]}{epsilon}",
                )
                assert done.code in (0, 2), done.err


def test_unknown_option_is_told_by_usage(place):
    done = publish(place, *UNIFORM, "--epsilom", "1")
    assert done.code == 2
    assert "--epsilom" in done.err


BAD_SCHEMAS = [
    ("", "at least one attribute"),
    ("[attributes.age\n", "line 1"),
    ('[attributes.age]\nrole = "quasy"\n', "quasi"),
    ('[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [1, 99]\n', "sensitive"),
]


def test_bad_schemas(place, tmp_path, subtests):
    for text, part in BAD_SCHEMAS:
        with subtests.test(text=text):
            file = tmp_path / "bad.toml"
            file.write_text(text)
            check(publish(place, *UNIFORM, schema=file), 3, part)


def test_missing_schema(place):
    check(publish(place, *UNIFORM, schema=place / "nowhere.toml"), 3, "nowhere.toml")


def test_bad_sources(place, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(b"age,sex\n1,2\n" * 99)[:-9])
    (tmp_path / "other.csv").write_text("colour\nred\n")
    (tmp_path / "folder").mkdir()
    for name in ("nowhere.csv", "empty.csv", "broken.parquet", "broken.csv.gz", "folder"):
        check(publish(place, *UNIFORM, source=tmp_path / name), 4, name)
    check(publish(place, *UNIFORM, source=tmp_path / "other.csv"), 4, "'age'", "header line")


def test_value_outside_its_domain(place, tmp_path):
    lines = (place / "people.csv").read_text().splitlines()
    header, row = lines[0].replace('"', "").split(","), lines[5].split(",")
    row[header.index("region")] = CANARY
    source = tmp_path / "stray.csv"
    source.write_text("\n".join([*lines[:5], ",".join(row), *lines[6:]]) + "\n")
    done = publish(place, *UNIFORM, source=source)
    check(done, 4, "region", "row 5")
    assert CANARY not in done.err
    check(publish(place, *UNIFORM, "--reveal", source=source), 4, CANARY)
    dropped = publish(place, *UNIFORM, "--outside", "drop", source=source, output=tmp_path / "v")
    assert dropped.code == 0
    assert CANARY not in dropped.out + dropped.err
    check(publish(place, *UNIFORM, "--outside", "missing", source=source), 4, "missing = true")


BAD_QUESTIONS = [
    ("SELECT COUNT(*) FROM t WHERE hight > 3", "hight"),
    ("SELEC COUNT(*) FROM t", "^"),
    ("SELECT COUNT(*) FROM t JOIN u USING (age)", "^"),
    ("SELECT COUNT(*) OVER () FROM t", "^"),
    ("SELECT COUNT(*) FROM t WHERE person = 'P0000001'", "person"),
    ("", "Error"),
]


def test_bad_questions(place, subtests):
    for sql, part in BAD_QUESTIONS:
        with subtests.test(sql=sql):
            check(run("ask", place / "view", sql), 5, part)


def test_bad_question_as_json(place):
    done = run("ask", place / "view", "SELECT COUNT(*) FROM t WHERE hight > 3", "--json")
    found = json.loads(done.err)
    assert done.code == found["exit_code"] == 5
    assert found["kind"] == "QueryError"
    assert (found["line"], found["column"]) == (1, 30)
    assert "hight" in found["error"]


def test_question_must_be_given_once(place, tmp_path):
    check(run("ask", place / "view"), 2, "--file")
    check(run("ask", place / "view", "SELECT 1", "--file", tmp_path / "q.sql"), 2, "--file")
    check(run("ask", place / "view", "--file", tmp_path / "q.sql"), 2, "q.sql")


def test_level_is_a_probability(place, subtests):
    for level in ["0", "1", "95", "nan"]:
        with subtests.test(level=level):
            done = run("ask", place / "view", "SELECT COUNT(*) FROM t", "--level", level)
            check(done, 2, "0.95")


def test_side_table_needs_name_and_file(place, subtests):
    for given in ["regions", "=file.csv", "regions="]:
        with subtests.test(given=given):
            done = run("ask", place / "view", "SELECT COUNT(*) FROM t", "--with", given)
            check(done, 2, "NAME=FILE")


def test_side_table_must_exist(place):
    words = ("ask", place / "view", "SELECT COUNT(*) FROM t", "--with", "r=nowhere.csv")
    check(run(*words), 4, "nowhere.csv")


def test_not_a_release(place, tmp_path):
    check(run("show", tmp_path / "nothing"), 6, "nothing")
    check(run("show", tmp_path), 6, "not a release")
    check(run("ask", place / "people.csv", "SELECT COUNT(*) FROM t"), 6, "people.csv")


def test_existing_output_is_kept(place, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    check(publish(place, *UNIFORM, output=tmp_path / "mine"), 6, "--force")
    check(publish(place, *UNIFORM, "--force", output=tmp_path / "mine"), 6, "not a release")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_damaged_release(place, tmp_path):
    import shutil

    shutil.copytree(place / "view", tmp_path / "view")
    data = tmp_path / "view" / "records.parquet"
    data.write_bytes(data.read_bytes()[:-1] + b"X")
    check(run("ask", tmp_path / "view", "SELECT COUNT(*) FROM t"), 6, "checksum")


NO_NUMBERS = [
    (("ask", "view", "SELECT 1", "--level", "abc"), "--level", "a number"),
    (("demo", "--people", "many"), "--people", "a whole number"),
    (("demo", "--people", "1.5"), "--people", "a whole number"),
    (("demo", "--people", "0"), "--people", "at least 1"),
    (("db", "history", "db", "--last", "x"), "--last", "a whole number"),
]


def test_numbers_that_are_none(subtests):
    for words, option, allowed in NO_NUMBERS:
        with subtests.test(words=words):
            check(run(*words), 2, option, allowed, repr(words[-1]))


def test_a_number_that_is_none_for_publish(place):
    check(publish(place, "uniform", "-e", "abc"), 2, "--epsilon", "a number", "'abc'")


def test_misspelt_names_and_swapped_files_are_named(place, tmp_path):
    """What a newcomer gets wrong: the sentence names the file, or what was meant."""
    table, schema = place / "people.parquet", place / "people.toml"
    (tmp_path / "people.csv").write_text("age,sex\n1,f\n")
    cases = {
        ("publish", "unifrom", table, "-s", schema, "-e", "1", "-o", tmp_path / "v"): (
            "Did you mean 'uniform'?"
        ),
        ("compare", table, "-s", schema, "-m", "subst", "-e", "1", "-o", tmp_path / "c.html"): (
            "Did you mean 'subset'?"
        ),
        ("publish", "uniform", table, "-s", tmp_path / "people.csv", "-e", "1", "-o", "v"): (
            "people.csv' is not valid TOML: line 1"
        ),
        ("show", tmp_path / "nothing"): "There is no folder",
        ("show", tmp_path / "people.csv"): "people.csv is not a folder",
    }
    for words, sentence in cases.items():
        done = run(*words)
        assert done.code != 0
        assert sentence in done.err
    assert not (tmp_path / "v").exists()


def test_every_error_is_json_for_a_program(place, subtests):
    view = place / "view"
    count = "SELECT COUNT(*) FROM t"
    cases = {
        ("ask", view, count, "--level", "abc", "--json"): "--level must be a number",
        ("ask", view, count, "--levle", "0.9", "--json"): "No such option: --levle",
        ("ask", "--json"): "Missing argument 'TARGET'",
        ("publish", "histogram", place / "people.csv", "--json"): "Missing option '--schema'",
        ("publish", place / "people.csv", "--json"): "No such option: --json",
    }
    for words, sentence in cases.items():
        with subtests.test(words=words):
            done = run(*words)
            found = json.loads(done.err)
            assert found["error"].startswith(sentence)
            assert (found["kind"], found["exit_code"], done.code) == ("ParameterError", 2, 2)


def test_an_unknown_option_names_the_nearest_one_only(place):
    done = publish(place, "uniform", "--epsilonn", "1")
    assert done.code == 2
    assert "--epsilon)" in done.err
    assert "--json" not in done.err

"""publish with hierarchy and wavelet."""

import json

from tests.support.terminal import run


def _words(place, output, method):
    return (
        "publish", method, place / "people.parquet", "--schema", place / "people.toml",
        "-o", output, "-e", "1", "--neighbours", "replace",
    )  # fmt: skip


def test_hierarchy_with_all_its_options(place, tmp_path):
    taxonomy = tmp_path / "sexes.json"
    taxonomy.write_text(json.dumps({"sex": [["female"], ["male"]]}))
    done = run(
        *_words(place, tmp_path / "h", "hierarchy"), "-a", "age,sex", "--fanout", "4", "--root",
        "--budget", "optimal", "--delta", "1e-6", "--taxonomy", taxonomy, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = done.json["parameters"]
    assert (found["fanout"], found["root"], found["budget"]) == (4, True, "optimal")
    assert found["taxonomy"] == {"sex": [["female"], ["male"]]}
    asked = run("ask", tmp_path / "h", "SELECT COUNT(*) FROM t WHERE age < 50", "--json")
    assert asked.code == 0, asked.err


def test_wavelet_with_its_option(place, tmp_path):
    words = (*_words(place, tmp_path / "w", "wavelet"), "-a", "age")
    assert run(*words, "--transform", "some").code == 2
    done = run(*words, "--transform", "all", "--json")
    assert done.code == 0, done.err
    assert done.json["parameters"]["transform"] == "all"


def test_a_taxonomy_that_is_no_json_is_refused(place, tmp_path):
    words = (*_words(place, tmp_path / "w", "wavelet"), "-a", "age", "--taxonomy", "nowhere.json")
    done = run(*words)
    assert done.code == 2
    assert "a readable file of JSON" in done.err

"""`scumble db` and `scumble ask` with a live database, which was made with --delta."""

from __future__ import annotations

import pytest

from tests.support.terminal import run

YOUNG = "SELECT COUNT(*) FROM people WHERE age BETWEEN 18 AND 40"


def create(place, folder, *more):
    words = ("-s", place / "people.toml", "--epsilon", "1", "-a", "age,sex,condition")
    return run("db", "create", folder, place / "people.parquet", *words, *more)


@pytest.fixture(scope="module")
def made(place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "db"
    done = create(place, folder, "--delta", "1e-9", "--neighbours", "replace")
    assert done.code == 0, done.err
    assert "All answers together" in done.out
    return folder


def ask(place, folder, *words):
    return run("ask", folder, "--source", place / "people.parquet", *words)


def test_accuracy_is_asked_for_and_paid(place, made):
    free = ask(place, made, YOUNG)
    assert free.code == 0, free.err
    assert "Known: within ±" in free.out
    assert "nothing was charged" in free.out
    known = ask(place, made, YOUNG, "--json").json
    within = str(0.8 * known["half_width"])
    seen = ask(place, made, YOUNG, "--within", within, "--preview")
    assert "It would be answered" in seen.out
    assert ask(place, made, YOUNG, "--within", within, "--preview", "--json").json["charged"] > 0
    paid = ask(place, made, YOUNG, "--within", within, "--json").json
    assert paid["status"] == "answered"
    assert 0 < paid["charged"] < 1
    assert paid["half_width"] <= float(within) + 1e-6
    assert len(paid["fresh"]) == 1
    limited = ask(place, made, YOUNG, "--within", "0.6")
    assert "Limited" in limited.out
    assert "costs more than the whole promise" in limited.out
    assert "0.95" in ask(place, made, YOUNG, "--csv").out


def test_the_journal_is_shown(place, made):
    ask(place, made, "SELECT sex, COUNT(*) FROM t GROUP BY sex", "--key", "k")
    assert "of what is for purchases" in run("db", "status", made).out
    assert run("show", made, "--json").json["delta"] == 1e-9
    assert run("db", "history", made, "--json").json[-1]["key"] == "k"
    assert run("db", "verify", made).code == 0


def test_what_does_not_fit_is_refused(place, made, tmp_path):
    for words, said in (
        ((), "Give --delta"),
        (("--delta", "1e-9", "--noise", "20"), "Give --delta"),
        (("--delta", "1e-9"), "neighbours"),
        (("--delta", "1e-9", "--tracker", "exact"), "--tracker is for a database with --noise"),
        (("--noise", "20", "--base", "0.5"), "--base is for a database with --delta"),
    ):
        done = create(place, tmp_path / "none", *words)
        assert done.code == 2, done.err
        assert said in done.err
        assert not (tmp_path / "none").exists()
    done = ask(place, made, YOUNG, "--relax", "refuse")
    assert done.code == 2
    assert "is for" in done.err
    assert ask(place, made, YOUNG, "--within", "much").code == 2
    assert ask(place, made, "SELECT MEDIAN(age) FROM t", "--within", "5").code == 5
    rows = place / "people.parquet"
    for command in (("db", "append", made, rows), ("db", "quota", made)):
        done = run(*command)
        assert done.code != 0
        assert "delta" in done.err
    plain = create(place, tmp_path / "plain", "--noise", "20")
    assert plain.code == 0, plain.err
    done = ask(place, tmp_path / "plain", YOUNG, "--within", "5")
    assert done.code == 2
    assert "--within is for a database with a delta" in done.err

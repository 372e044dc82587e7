"""Advice: its errors are those that releases then state, and its promises are theirs."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.exposure import exposure
from scumble.compare.advice import advise
from scumble.model.privacy.guarantee import posterior_at_most

ROWS, PART = 20_000, 0.1
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("job", "sensitive", sc.IntegerRange(0, 11)),
    )
)
MAKERS = {
    "uniform": lambda words: sc.Uniform(epsilon=words),
    "subset": lambda words: sc.Subset(epsilon=words),
    "aroma": lambda words: sc.Aroma(k=int(words)),
}


def table() -> pa.Table:
    """A tenth of the rows has each age, and every job is as frequent as any other."""
    return pa.table({"age": np.arange(ROWS) % 10, "job": (np.arange(ROWS) // 10) % 12})


def listed(publish: str, **more):
    given = {"rows": ROWS, "publish": publish, "attacker_prior": 0.1, "part": PART} | more
    return advise(SCHEMA, **given)


def test_errors_of_publishers_are_those_that_releases_state():
    question, found = listed("rows", epsilon=[1, 2])
    asked = "SELECT COUNT(*) FROM t WHERE age = 3 AND job = 5"
    compared = 0
    for each in found:
        if each.method in MAKERS:
            words = each.setting.split(" = ")[1]
            release = sc.publish(table(), SCHEMA, MAKERS[each.method](words), seed=1)
            assert release.answer(asked).stderr == pytest.approx(each.error, rel=0.05)
            compared += 1
    assert compared == 6
    assert question.count == pytest.approx(ROWS * PART / 12)


def test_posteriors_and_successes_are_what_the_methods_promise():
    _, found = listed("rows", epsilon=[1])
    by_name = {each.method: each for each in found}
    gamma = Fraction(np.exp(1))
    assert by_name["uniform"].posterior == pytest.approx(
        float(posterior_at_most(Fraction(1, 10), gamma))
    )
    aroma = by_name["aroma"]
    release = sc.publish(table(), SCHEMA, MAKERS["aroma"](aroma.setting.split(" = ")[1]), seed=1)
    blind = exposure(release.manifest).success
    assert aroma.success == pytest.approx(blind)
    assert blind <= float(gamma / (gamma + 11))
    assert aroma.posterior is None
    assert not aroma.private
    assert by_name["partition"].restricted
    said = by_name["partition"].sentence(*_asked())
    assert said.startswith("for a value that at most 10 % of the rows have, an attacker who knows ")
    assert "how frequent each value is, and nothing else, can end at most at 23.2 %" in said
    assert "does not protect values that more than 10 % of" in by_name["partition"].reason
    assert "nothing but uniform where sub-tables do not lower" in by_name["partition"].reason


def _asked():
    question, _ = listed("rows")
    return question, 0.1


def test_the_count_is_explained_and_settings_are_spelled_alike():
    question, found = listed("rows", epsilon=[1])
    assert question.words == (
        "The count of 167 below stands for any question like this: a condition that 10 % of 20,000 "
        "rows meet, for one of 12 sensitive values that are equally frequent."
    )
    assert all("--epsilon 1 " in each.command for each in found if each.setting == "ε = 1")
    question, found = listed("summaries", epsilon=[0.5, 1], attributes=["age"])
    assert question.words.endswith("like this: a condition that 10 % of 20,000 rows meet.")
    assert "--epsilon 1 " in found[-1].command


def test_summaries_and_databases_have_their_own_errors():
    _, found = listed("summaries", epsilon=[1], attributes=["age", "job"])
    [histogram] = [each for each in found if each.method == "histogram"]
    mechanism = sc.Histogram(["age", "job"], epsilon=1, neighbours="replace")
    release = sc.publish(table(), SCHEMA, mechanism, seed=1)
    answer = release.answer("SELECT COUNT(*) FROM t WHERE age = 3 AND job = 5")
    assert histogram.error == pytest.approx(answer.stderr)
    _, found = listed("answers", epsilon=[1])
    assert [each.method for each in found] == ["database", "database"]
    assert found[0].error == pytest.approx(np.sqrt(2) * 20)


def test_the_smaller_error_comes_first():
    _, found = listed("rows", epsilon=[0.5])
    local = [each.error for each in found if each.private]
    assert local == sorted(local)


BAD = [
    ({"publish": "all"}, "'rows', 'summaries' or 'answers'"),
    ({"attacker_prior": 0}, "between 0 and 1"),
    ({"rows": 0}, "at least 1"),
    ({"epsilon": [-1]}, "above 0"),
    ({"part": 2}, "between 0 and 1"),
]


def test_bad_parameters_are_one_sentence(subtests):
    for more, words in BAD:
        with subtests.test(more=more), pytest.raises(sc.ParameterError, match=words):
            listed(**({"publish": "rows"} | more))


def test_a_schema_without_a_secret_is_refused():
    open_table = sc.Schema((sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),))
    with pytest.raises(sc.SchemaError, match="one sensitive attribute"):
        advise(open_table, rows=10, publish="rows", attacker_prior=0.1)


def test_a_setting_is_listed_once():
    """Where the same k of Aroma stands for several ε, it is said of the smallest."""
    _, found = advise(
        SCHEMA, rows=1000, publish="rows", attacker_prior=0.1, epsilon=[20, 12, 15, 12]
    )
    commands = [each.command for each in found]
    assert len(commands) == len(set(commands))
    [aroma] = [each for each in found if each.method == "aroma"]
    assert aroma.setting == "k = 2"
    assert "as ε = 12," in aroma.reason
    assert [each.setting for each in found if each.method == "uniform"] == [
        "ε = 12",
        "ε = 15",
        "ε = 20",
    ]

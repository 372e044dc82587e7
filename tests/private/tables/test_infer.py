"""Proposed schemas: suitable domains, marks on everything read from the data, real tables."""

from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.model.errors import ParameterError, SchemaError, SourceError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
from scumble.model.schema.lists import ListDomain
from scumble.model.schema.schema import Schema
from scumble.model.schema.spelling import Spelling
from scumble.private.tables.infer import round_edges
from scumble.private.tables.rows import Rows

RNG = np.random.default_rng(3)
MANY = 3000


def inferred(values: object, **options: object) -> Attribute:
    return Schema.infer(pa.table({"x": values}), **options)["x"]


def text(values: list[object]) -> list[str]:
    return [str(value) for value in values]


DAYS = [date.fromordinal(date(2021, 3, 5).toordinal() + k) for k in range(400)]
KINDS = {
    "words": (["b", "a", "b"], Category(("a", "b"))),
    "words with space": ([" b", "a", "b "], Category(("a", "b"))),
    "integers": ([3, 9, 5, 5], IntegerRange(3, 9)),
    "integers in text": (["3", "9", "05"[1:], "5"], IntegerRange(3, 9)),
    "whole floats": ([3.0, 9.0, None], IntegerRange(3, 9)),
    "whole floats in text": (["3.0", "9.0", ""], IntegerRange(3, 9)),
    "negative": (["-3", "4", "4"], IntegerRange(-3, 4)),
    "codes with leading zeros": (["007", "012", "007"], Category(("007", "012"))),
    "few far numbers": ([10, 500, 100000, 10], Category((10, 500, 100000), ordered=True)),
    "wide integers": ([*range(0, 2000, 5)] * 2, Bins(tuple(range(0, 2100, 100)))),
    "floats": ([0.25, 9.75, 3.5], Bins(tuple(k / 2 for k in range(21)))),
    "floats in text": (["0.25", "9.75", "3.5"], Bins(tuple(k / 2 for k in range(21)))),
    "one float": ([2.5, 2.5], Bins((2, 3))),
    "truths": ([True, False, True], Boolean()),
    "yes and no": (["Yes", "No", "No"], Category(("No", "Yes"))),
    "yes and no in several spellings": (["YES", "no", "NO"], Boolean()),
    "zeros and ones": (["1", "0", "1"], Boolean()),
    "float truths": (["1.0", "0.0", ""], Boolean()),
    "only yes": (["yes", "yes"], Category(("no", "yes"))),
    "f and m": (["F", "M", "F"], Category(("F", "M"))),
    "only f": (["F", "F"], Category(("F",))),
    "days": (DAYS[:30], Dates(DAYS[0], DAYS[29], "day")),
    "months": (DAYS, Dates(date(2021, 3, 1), date(2022, 4, 30), "month")),
    "days in text": (text(DAYS), Dates(date(2021, 3, 1), date(2022, 4, 30), "month")),
    "times": (
        [datetime(2000, 5, 5, 10), datetime(2000, 5, 7, 11)],
        Dates(date(2000, 5, 5), date(2000, 5, 7), "day"),
    ),
    "years": (
        ["1930-05-05", "2001-01-01"],
        Dates(date(1930, 1, 1), date(2001, 12, 31), "year"),
    ),
    "names": ([f"person {k}" for k in range(50)], None),
    "running numbers": (list(range(5000, 5000 + MANY)), None),
    "too many words": ([f"w{k % 1500}" for k in range(MANY)], None),
    "nothing": ([None, None], None),
    "blank": (["", "?"], None),
    "lists": ([[1], [2]], ListDomain("set", IntegerRange(1, 2), longest=5)),
    "structs": ([{"a": 1}, {"a": 2}], None),
    "large numbers": (
        [9007199254740993, 1, 9007199254740993],
        Category((1, 9007199254740993), ordered=True),
    ),
    "large numbers in text": (
        ["9007199254740993", "1", "9007199254740993"],
        Category((1, 9007199254740993), ordered=True),
    ),
    "garbled bytes": ([b"\xff", b"\xfe"], None),
    "some garbled bytes": ([b"a", b"b", b"a", b"\xff"], Category(("a", "b"))),
    "moments beyond all calendars": (pa.array([2**62, 0]).cast(pa.timestamp("s")), None),
}


def test_kinds(subtests):
    for name in KINDS:
        with subtests.test(name=name):
            values, domain = KINDS[name]
            attribute = inferred(values)
            assert attribute.domain == domain
            assert attribute.role == ("identifier" if domain is None else "quasi")
            public = isinstance(domain, Boolean) or "yes and no" in name or name == "only yes"
            certain = domain is None or (public and not attribute.missing)
            assert attribute.from_data == (not certain)
            assert bool(attribute.note) == (domain is None or not certain)


def test_what_was_read_lies_in_its_domain(subtests):
    for name in [name for name, (_, domain) in KINDS.items() if domain and "garbled" not in name]:
        with subtests.test(name=name):
            table = pa.table({"x": KINDS[name][0]})
            rows = Rows(table, Schema.infer(table))
            batches = (
                rows.lists("x") if name == "lists" else (each[0] for each in rows.batches(["x"]))
            )
            assert sum(map(len, batches)) == len(table)


def test_words_for_missing():
    attribute = inferred(["?", "a", "NA", "b", None])
    assert attribute.domain == Category(("a", "b"))
    assert attribute.missing
    assert attribute.null_words == ("?", "NA")
    assert inferred(["3", "N/A", "4"]).domain == IntegerRange(3, 4)
    assert inferred(["a", "b", ""]).null_words == ()
    assert inferred(["a", "b", ""]).missing
    assert not inferred(["a", "b"]).missing
    assert inferred([1.5, float("nan")]).missing


DAY = date(2023, 1, 1).toordinal()
ISO = [str(date.fromordinal(DAY + k)) for k in range(731)]
MIXED = {
    "dates of two kinds": (
        [*ISO, *["05/11/2023"] * 12],
        Dates(date(2023, 1, 1), date(2024, 12, 31), "month"),
        "The values of 1 to 5 % of the rows are no dates like 2024-12-31",
    ),
    "the other kind first": (
        [*[f"{day:02}/11/2023" for day in range(1, 13)], *ISO],
        Dates(date(2023, 1, 1), date(2024, 12, 31), "month"),
        "no dates like 2024-12-31",
    ),
    "whole numbers and a word": (
        [*text(range(100, 150)) * 20, "12 ?"],
        IntegerRange(100, 149),
        "less than 1 % of the rows are no whole numbers",
    ),
    "numbers and a word": (
        [*text([k / 4 for k in range(81)]) * 2, "heavy"],
        Bins(tuple(range(21))),
        "less than 1 % of the rows are no numbers",
    ),
    "truths and a word": (
        [*["Yes", "no", "N"] * 20, "maybe"],
        Boolean(),
        "1 to 5 % of the rows are no truth values",
    ),
}


def test_nearly_all_of_one_kind(subtests):
    for name in MIXED:
        with subtests.test(name=name):
            values, domain, sentence = MIXED[name]
            attribute = inferred(values)
            assert attribute.domain == domain
            assert sentence in attribute.note
            assert "or outside decides what becomes of them" in attribute.note
            assert "maybe" not in attribute.note
            assert sum(attribute.encode(pa.array(values))[1]) == (12 if "kind" in name else 1)


def test_a_few_numbers_beside_a_word_are_categories():
    assert inferred(["0", "1", "2"] * 30 + ["3+"]).domain == Category(("0", "1", "2", "3+"))
    assert inferred(["1", "0"] * 30 + ["u"]).domain == Category(("0", "1", "u"))


def test_too_many_of_another_kind():
    values = [*text(range(1000, 1900)), *(f"A{k}" for k in range(60))] * 2
    assert isinstance(inferred(values).domain, Category)


def test_truth_values_in_many_spellings(subtests):
    for values in [
        ["YES", "n", "no", "yes"],
        ["True", "0", "FALSE"],
        ["y", "N", "Y", "n", "Yes"],
        ["1", "0", "t"],
    ]:
        with subtests.test(values=values):
            assert inferred(values * 2) == Attribute("x", "quasi", Boolean())


def test_letters_that_may_mean_something_else(subtests):
    for values in [["y", "f"], ["F", "N"], ["1", "t"], ["T"]]:
        with subtests.test(values=values):
            assert isinstance(inferred(values * 2).domain, Category)


def test_unknown_is_missing_beside_numbers_but_a_category_beside_words():
    for values in (["3", "9", "5"], ["2024-01-01", "2024-01-05"], ["no", "yes"], ["007", "012"]):
        attribute = inferred([*values * 3, "unknown", "Unknown"])
        assert attribute.null_words == ("Unknown", "unknown")
        assert attribute.domain == inferred(values * 3).domain
    assert "unknown" in inferred(["a", "unknown", "a"]).domain.values
    assert "unknown" in inferred(["unknown", "3", "unknown"]).domain.values


def test_codes_with_leading_zeros_can_be_numbers():
    hint = "a type integer with a range reads them as numbers"
    many = [f"{code:05}" for code in range(1200)] * 2
    assert inferred(many).domain is None
    assert hint in inferred(many).note
    assert hint in inferred(["007", "012", "007"]).note
    assert hint not in inferred(["007", "a", "b", "007"]).note


def test_spellings_of_one_value(subtests):
    for values, warned in [
        (["Asthma", "ASTHMA", "Flu"], True),
        (["New  York", "New York", "Rome"], True),
        (["F", "female", "male"], True),
        (["A", "B", "A1", "B2"], False),
        (["Asthma", " Asthma", "Flu"], False),  # spaces around are ignored anyway
    ]:
        with subtests.test(values=values, warned=warned):
            attribute = inferred(values * 2)
            assert ("spelled in several ways" in attribute.note) == warned
            assert isinstance(attribute.domain, Category)


COMMAS = {
    "heights": [f"{n},{n % 10}" for n in range(150, 190)],
    "amounts": [f"{n},{n % 100:02}" for n in range(9_000, 9_100)] + ["1.234,50", "-3,20", "7"],
}


@pytest.mark.parametrize("name", COMMAS)
def test_numbers_with_a_decimal_comma(name):
    """They are neither lists nor unknown words, and the note says how they are read."""
    table = pa.table({"a": COMMAS[name] * 3})
    assert "decimal comma" in Schema.infer(table)["a"].note
    for found in (
        Schema.infer(table)["a"],
        Schema.infer(table, types={"a": "binned"})["a"],
        Schema.infer(table, sensitive="a")["a"],
    ):
        assert found.spelling == Spelling(decimal=",")
        assert found.kind == "binned"
        assert not found.to_fill_in
        assert not found.encode(table["a"])[1].any()


def test_commas_of_thousands():
    """45,000 is not to be written as 45.000."""
    table = pa.table({"a": ["45,000", "38,500", "52,250", "1,250", "900"] * 30})
    assert "may be thousands or a decimal comma" in Schema.infer(table)["a"].note


def test_other_commas(subtests):
    for values in [
        ["1,2", "3", "1,3,5", "2,4"] * 30,
        ["1,234", "5,10", "7,1", "8,22", "9,3000"] * 30,
        ["12.5", "13.5", "14.0", "15.25"] * 30,
        ["12", "13", "14", "15"] * 30,
        ["a,1", "b,2", "c,3", "d,4"] * 30,
    ]:
        with subtests.test(values=values):
            assert "decimal comma" not in Schema.infer(pa.table({"a": values}))["a"].note


def test_roles_are_set_and_identifiers_not_looked_at():
    table = pa.table({"id": ["a", "b"], "job": ["cook", "smith"], "age": [3, 4], "odd": [[1], [2]]})
    schema = Schema.infer(table, sensitive="job", identifier=["id", "odd"], insensitive=("age",))
    assert [attribute.role for attribute in schema] == [
        *("identifier", "sensitive", "insensitive", "identifier")
    ]
    assert schema["id"].note == "You named it as an identifier, which is never published."
    with pytest.raises(SourceError, match=r"has no column 'jobb'\. It has 4 columns\."):
        Schema.infer(table, sensitive=["jobb"])
    with pytest.raises(SourceError, match="has no column 'idd'"):
        Schema.infer(table, identifier=["idd"])


@pytest.mark.parametrize("values", [[2**64 - 1], [2**64 - 4711, 2**64 - 4710], [0, 2**64 - 1, 5]])
def test_unsigned_numbers_beyond_the_signed_range(values):
    table = pa.table({"x": pa.array(values, pa.uint64())})
    attribute = Schema.infer(table)["x"]
    assert attribute.kind == "binned"
    assert not attribute.encode(table["x"])[1].any()


def test_names_that_differ_in_case_only():
    with pytest.raises(SourceError, match="of the same name, the columns 1 and 3"):
        Schema.infer(pa.table({"Age": [1], "job": ["a"], "age": [2]}))


def test_limit_on_categories():
    words = [f"w{k % 30}" for k in range(MANY)]
    assert inferred(words).size == 30
    assert inferred(words, limit=29).domain is None


def test_checks_say_what_to_look_at():
    schema = Schema.infer(pa.table({"age": [3, 9, 5], "smokes": [True, False, True]}))
    unit, check = schema.checks()
    assert unit == "unit: Every row is taken for another person. Check that nobody has two rows."
    assert check.startswith("'age' (integer 3 to 9): Read from the data: write the range that is")
    assert schema.from_data == ("age",)
    assert "# Read from the data: write the range" in schema.dumps()


def test_batches_of_changing_looks():
    """A property of the first batch need not hold in the next."""
    batches = [pa.record_batch({"x": pa.array([word] * 3)}) for word in ("1", "0", "x", "?")]
    attribute = Schema.infer(pa.Table.from_batches(batches))["x"]
    assert attribute.domain == Category(("0", "1", "x"))
    assert attribute.null_words == ("?",)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_edges_cover_and_increase(one, other):
    low, high = sorted((one, other))
    edges = round_edges(low, high)
    assert edges[0] <= low
    assert edges[-1] >= high
    assert Bins(edges).size <= 22


def check_real(path, schema):
    """Every value of a real table lies in the domain proposed, and the text reads back."""
    assert Schema.loads(schema.dumps()) == schema
    count = sum(
        len(batch[0]) for batch in Rows(path, schema).batches([a.name for a in schema.published])
    )
    assert count > 0
    certain = {a.name for a in schema.published if a.kind == "boolean" and not a.missing}
    assert set(schema.from_data) == {a.name for a in schema.published} - certain
    assert len(schema.checks()) >= len(schema.from_data)
    return count


def test_adult(shared_data):
    path = shared_data / "adult_train_complete_30162.csv"
    schema = Schema.infer(path, sensitive=["occupation"])
    assert check_real(path, schema) == 30162
    assert schema["age"].domain == IntegerRange(17, 90)
    assert schema["hours-per-week"].domain == IntegerRange(1, 99)
    assert schema["occupation"].size == 14
    assert schema["occupation"].role == "sensitive"
    assert schema["fnlwgt"].kind == "binned"
    assert schema["capital-gain"].limits_needed  # money has limits, which no data propose
    assert not schema.identifiers
    nine = ["age", "workclass", "education", "marital-status", "occupation"]
    nine += ["race", "sex", "native-country", "income"]
    # The literature counts 648,023,040 tuples of values that occur; two ages between do not.
    assert schema.size(nine) == 648_023_040 // 72 * 74


def test_adult_with_question_marks(shared_data):
    path = shared_data / "adult_full_48842.csv.gz"
    schema = Schema.infer(path)
    assert check_real(path, schema) == 48842
    marked = {attribute.name for attribute in schema if attribute.null_words == ("?",)}
    assert marked == {"workclass", "occupation", "native-country"}


def test_nhanes(shared_data):
    path = shared_data / "nhanes_2017_2018_8366.csv"
    schema = Schema.infer(path)
    assert check_real(path, schema) == 8366
    assert schema["AgeInYearsAtScreening"].domain == IntegerRange(1, 80)
    assert schema["EverBeenToldYouHaveAsthma"].kind == "boolean"
    assert schema["AnnualHouseholdIncome"].domain.ordered
    assert schema["MaritalStatus"].missing


def test_minneapolis(shared_data):
    path = shared_data / "mpls_stops_51920.csv.gz"
    schema = Schema.infer(path)
    assert check_real(path, schema) == 51920
    assert [attribute.name for attribute in schema.identifiers] == ["idNum"]
    assert schema["date"].domain == Dates(date(2017, 1, 1), date(2018, 1, 31), "month")
    assert schema["lat"].kind == schema["long"].kind == "binned"
    assert schema["personSearch"].domain == Category(("NO", "YES"))
    assert schema["neighborhood"].size == 87


def test_progress_is_told():
    told = []
    Schema.infer(pa.table({"age": [1, 2, 3]}), progress=told.append)
    assert told == [3]


# Types that the owner gives, hints, skewed amounts, and places to fill in.

CODES = [100 + 37 * (k % 50) for k in range(MANY)]


def test_types_can_be_given():
    assert inferred(CODES).kind == "binned"
    assert inferred(CODES, types={"x": "category"}).domain == Category(tuple(sorted(set(CODES))))
    assert inferred(text(CODES), types={"x": "category"}).domain.values[0] == 100
    assert inferred(["007", "012"] * 9, types={"x": "integer"}).domain == IntegerRange(7, 12)
    assert inferred([3, 9, 5, 5], types={"x": "binned"}).kind == "binned"
    assert inferred(["1", "2", "x"], types={"x": "category"}).domain == Category(("1", "2", "x"))
    assert inferred(["0", "1", "0"], types={"x": "integer"}).domain == IntegerRange(0, 1)
    assert inferred(list(range(5000, 8000)), types={"x": "binned"}).role == "quasi"
    spoilt = inferred(["3", "4", "five", "4"] * 20, types={"x": "integer"})
    assert spoilt.domain == IntegerRange(3, 4)
    assert "more than 5 % of the rows are no whole numbers" in spoilt.note


def test_wrong_types_are_refused():
    with pytest.raises(ParameterError, match=r"must be one of category, integer, .* Got 'text'"):
        inferred(["a"], types={"x": "text"})
    with pytest.raises(ParameterError, match="is named as an identifier, which has no type"):
        inferred(["a"], types={"x": "category"}, identifier="x")
    with pytest.raises(SourceError, match="has no column 'y'"):
        inferred(["a"], types={"y": "category"})


def test_integers_that_may_be_codes_get_a_hint(subtests):
    said = "If the numbers are codes and not amounts, say types={'x': 'category'}."
    taken = "Taken for codes; if they are amounts, say types={'x': 'integer'}."
    for values, hint in [
        ([1, 2, 3, 4] * 5, taken),  # a question with four answers, or a number of children
        ([k % 15 for k in range(MANY)], said),
        (CODES, said),
        ([k % 60 for k in range(MANY)], None),
        ([34, 57, 41], None),
        ([0.5, 1.5] * 9, None),
    ]:
        with subtests.test(values=values, hint=hint):
            note = inferred(values).note
            assert [each for each in (said, taken) if each in note] == ([hint] if hint else [])


def test_names_of_codes_get_a_hint():
    values = [10_000 + k % 60 for k in range(MANY)]
    named = Schema.infer(pa.table({"zip": values, "weight": values}))
    assert "codes" in named["zip"].note
    assert named["zip"].domain == Category(tuple(range(10_000, 10_060)))
    assert named["weight"].kind == "integer"
    assert "codes" not in named["weight"].note


def test_skewed_amounts_get_bins_that_grow():
    """With equal bins, most people were in the first of them."""
    incomes = np.exp(RNG.normal(10, 1.5, MANY)).round(2)
    edges = inferred(incomes).domain.edges
    assert edges[0] == 0
    assert {round(after / before, 9) for before, after in pairwise(edges[1:])} == {2.0, 2.5}
    assert np.histogram(incomes, edges)[0].sum() == MANY
    share = np.histogram(incomes, edges)[0] / MANY
    assert share.max() < 0.4
    equal = np.histogram(incomes, round_edges(incomes.min(), incomes.max()))[0] / MANY
    assert equal.max() > 0.6
    assert "steps" not in inferred(RNG.normal(170, 10, MANY)).note


def test_debts_are_binned_as_wealth_is():
    edges = inferred(np.exp(RNG.normal(8, 2, MANY)) * RNG.choice([-1, 1], MANY)).domain.edges
    assert 0 in edges
    assert {-10_000, 10_000} <= set(edges)


@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=30), st.integers(0, 60))
def test_bins_hold_all_numbers(numbers, zeros):
    attribute = inferred([0.25, *numbers, *[0.125] * zeros], types={"x": "binned"})
    assert not attribute.encode(pa.array([0.25, *numbers]))[1].any()
    assert attribute.size <= 2 * 25 + 2


def test_a_column_without_a_domain_does_not_stop_the_others(tmp_path):
    notes = [f"long text {k}" for k in range(50)]
    table = pa.table({"note": notes, "one": ["x"] * 50, "day": notes, "age": [3, 4] * 25})
    schema = Schema.infer(table, sensitive=["note", "one"], types={"day": "date"})
    assert schema.to_fill_in == ("note", "one", "day")
    assert [attribute.name for attribute in schema.published] == ["age"]
    schema.save(tmp_path / "s.toml")
    written = (tmp_path / "s.toml").read_text()
    assert written.count('role = "sensitive"\ntype = "FILL IN"') == 2
    assert "long text" not in written
    with pytest.raises(SchemaError, match="'note': its type is still to be filled in"):
        Schema.load(tmp_path / "s.toml")
    filled = written.replace('"FILL IN"', '"category"\nvalues = ["a", "b"]')
    assert [attribute.name for attribute in Schema.loads(filled).sensitive] == ["note", "one"]


def test_named_columns_are_no_identifiers():
    wide = [5000 + 7 * k for k in range(MANY)]
    assert inferred(wide).domain is None
    assert inferred(wide, sensitive="x").kind == "binned"
    assert inferred(["a", "b", "c", "d"], sensitive="x").domain == Category(("a", "b", "c", "d"))


def test_values_with_control_characters_do_not_stop_the_others():
    schema = Schema.infer(pa.table({"x": ["a\x1b", "b"] * 3, "age": [3, 4] * 3}))
    assert schema["x"].role == "identifier"
    assert "control character" in schema["x"].note
    assert schema["age"].role == "quasi"


@pytest.mark.parametrize(("header", "told"), [("age~job", True), ("age job", True), ("age", False)])
def test_a_file_with_another_mark_between_columns_is_pointed_out(tmp_path, header, told):
    (tmp_path / "a.csv").write_text(f"{header}\n" + "7\n8\n9\n" * 30)
    checks = " ".join(Schema.infer(tmp_path / "a.csv").checks())
    assert ("Commas, semicolons, tabs or bars separate the columns" in checks) == told

"""Proposals for tables as European and American programs write them."""

from datetime import date, timedelta

import pyarrow as pa
import pytest

from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
from scumble.model.schema.lists import ListDomain
from scumble.model.schema.schema import Schema
from scumble.model.schema.spelling import Spelling
from scumble.private.tables.rows import Rows

DAYS = [date(2023, 1, 1) + timedelta(days=k) for k in range(0, 365, 3)]
YEAR = Dates(date(2023, 1, 1), date(2023, 12, 31), "month")
EARLY = [day for day in DAYS if day.day <= 12]
CODES = {"code": ["110", "20"], "x": ["1", "2", "3"], "Station Nr": [10, 20, 30]}


def inferred(values: object, name: str = "x", **options: object) -> Attribute:
    attribute = Schema.infer(pa.table({name: values}), **options)[name]
    if attribute.tabular:
        assert not attribute.encode(pa.array(values))[1].any() or "lie outside" in attribute.note
    return attribute


def spelled(form: str, days: list[date] = DAYS) -> list[str]:
    return [day.strftime(form) for day in days]


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"]
)
def test_dates(form):
    found = inferred(spelled(form))
    assert found.domain == YEAR
    assert found.spelling == Spelling(format=form)
    assert found.from_data
    assert f"All values are dates in the format {form}." in found.note
    blanks = inferred([*spelled(form), "unknown", None])
    assert (blanks.domain, blanks.null_words) == (YEAR, ("unknown",))
    timed = inferred([f"{day} 10:1{k % 10}:00" for k, day in enumerate(spelled(form))])
    assert timed.spelling == Spelling(format=form)


def test_usual_dates_need_no_declaration():
    assert inferred(spelled("%Y-%m-%d")).spelling is None


@pytest.mark.parametrize("mark", ["/", "-"])
def test_dates_without_a_day_above_12_are_asked(mark):
    both = (f"%d{mark}%m{mark}%Y", f"%m{mark}%d{mark}%Y")
    values = spelled(both[0], EARLY)
    found = inferred(values)
    assert (found.domain, found.either) == (None, both)
    assert "no value tells whether the day or the month comes first" in found.note
    assert f"say types={{'x': '{both[0]}'}} or types={{'x': '{both[1]}'}}" in found.note
    for form in both:
        chosen = inferred(values, types={"x": form})
        assert chosen.spelling == Spelling(format=form)
        assert chosen.kind == "date"
    named = inferred(values, sensitive="x")
    assert named.to_fill_in == "sensitive"
    assert "no value tells whether" in named.note
    assert inferred(values, types={"x": "date"}).either == both
    assert inferred(spelled("%d.%m.%Y", EARLY)).spelling == Spelling(format="%d.%m.%Y")


def test_nearly_all_dates_are_pointed_out():
    values = [*spelled("%d.%m.%Y"), "spring"]
    found = inferred(values * 2)
    assert found.spelling is None
    assert "to read them as dates, say types={'x': '%d.%m.%Y'}." in found.note
    assert "spring" not in found.note
    assert "1 % of the rows are no dates" in inferred(values * 2, types={"x": "%d.%m.%Y"}).note


def test_years_of_two_digits_are_refused_in_words():
    assert "write four digits in the file" in inferred(spelled("%d.%m.%y")).note


NUMBERS = {
    "comma": ([f"{n},{n % 10}" for n in range(150, 190)], ",", Bins((150, 152.5))),
    "comma and thousands": (["1.234,5", "12,5", "800", "10.000,25", "3,5"], ",", None),
    "comma and spaces": (["1\u202f234,5", "12,5", "800,1", "10\u202f000,2"], ",", None),
    "comma, few digits alike": ([f"{n},{'123456'[: n % 5 + 1]}" for n in range(40)], ",", None),
    "comma, below one": (["0,125", "0,250", "0,375", "0,500"], ",", None),
    "points and thousands": (["1,234.50", "12.50", "800", "10,000"], ".", None),
    "millions": (["1,234,567", "2,345,678", "999", "12,345"], ".", None),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_decimal_marks(name):
    values, mark, _ = NUMBERS[name]
    found = inferred(values * 3)
    assert found.spelling == Spelling(decimal=mark)
    assert found.kind == "binned"
    assert "Sums and averages are only as accurate as the bins are narrow." in found.note


def test_whole_numbers_with_points_for_thousands():
    values = [f"{n:,}".replace(",", ".") for n in range(1_000_000, 1_000_900, 17)]
    found = inferred(values * 3)
    assert found.domain == IntegerRange(1_000_000, 1_000_884)
    assert found.spelling == Spelling(decimal=",")


def test_commas_before_three_digits_are_asked():
    values = ["45,000", "38,500", "52,250", "1,250", "900"] * 30
    found = inferred(values)
    assert (found.domain, found.either) == (None, ("decimal_comma", "decimal_point"))
    thousands = inferred(values, types={"x": "decimal_point"})
    assert thousands.spelling == Spelling(decimal=".")
    assert thousands.domain.edges[-1] >= 52_250
    decimals = inferred(values, types={"x": "decimal_comma"})
    assert decimals.domain.edges[-1] >= 900 > 52.25
    assert inferred(values, types={"x": "binned"}).either == found.either


def test_points_before_three_digits_are_pointed_out():
    values = [f"{n / 1000:.3f}" for n in range(1500, 9500, 501)] + ["900", "750"]
    assert "If 1.234 stands for a thousand and more" in inferred(values * 3).note
    german = inferred(values * 3, types={"x": "decimal_comma"})
    assert german.domain.high == 9015 if german.kind == "integer" else german.domain.edges[-1] > 9e3


def test_lists_stay_lists():
    baskets = ["1,2", "3", "1,3,5", "2,4", "1,2,3,4"] * 30
    assert isinstance(inferred(baskets, types={"x": "set"}).domain, ListDomain)
    assert inferred(baskets).spelling is None


def test_yes_and_no_in_other_languages():
    assert inferred(["ja", "nein", "nein"]) == Attribute("x", "quasi", Category(("nein", "ja")))
    assert inferred(["Oui", "Non"]).domain == Category(("Non", "Oui"))
    assert inferred(["JA", "JA"]).domain == Category(("NEIN", "JA"))
    mixed = inferred(["Ja", "ja", "nein", "NEIN"] * 2)
    assert (mixed.domain, mixed.spelling) == (Boolean(), Spelling(true="ja", false="nein"))
    assert not mixed.from_data
    letters = inferred(["J", "N", "J"])
    assert letters.spelling == Spelling(true="j", false="n")
    assert inferred(["J", "J"]).kind == "category"
    chosen = inferred(["ja", "nein"], types={"x": "boolean"})
    assert chosen.spelling == Spelling(true="ja", false="nein")
    assert inferred(["ja", "unknown", "nein"]).null_words == ("unknown",)


def test_few_whole_numbers_without_a_unit_are_codes(subtests):
    for name, values, codes in [
        ("sex", [1, 2], True),
        ("station", [10, 20, 30], True),
        ("Station Nr", ["10", "20", "30"], True),
        ("ward_code", list(range(100, 160)), True),
        ("zip", list(range(10_000, 90_000, 1_000)), True),
        ("age", [1, 2, 3, 4], False),
        ("Alter", [1, 2, 3, 4], False),
        ("Liegedauer", [1, 2, 3, 4], False),
        ("weight_kg", [1, 2, 3, 4], False),
        ("n_children", [0, 2, 3, 4], False),
        ("NumberOfRooms", [1, 2, 3, 4], False),
        ("AgeInYears", [1, 2, 3, 4], False),
        ("language", [1, 2, 3], True),
        ("x", list(range(15)), False),
    ]:
        with subtests.test(name=name):
            found = inferred(values * 4, name)
            assert (found.kind == "category") == codes
            assert (found.either[:1] == ("category",)) == codes
            assert ("Taken for codes; if they are amounts" in found.note) == codes
    assert inferred([1, 2, 3], "sex").kind == "integer"  # too few rows to say


def test_every_column_that_is_left_out_is_named():
    rows = 60
    table = pa.table(
        {
            "id": [f"a{k}" for k in range(rows)],
            "empty": [""] * rows,
            "note": [f"text {k}" for k in range(rows)],
            "struct": [{"a": 1}] * rows,
            "day": (spelled("%d/%m/%Y", EARLY) * 3)[:rows],
            "amount": (["45,000", "38,500", "52,250", "1,250", "900"] * rows)[:rows],
            "age": list(range(rows)),
        }
    )
    schema = Schema.infer(table, identifier="id")
    left = [attribute.name for attribute in schema.identifiers]
    assert left == ["id", "empty", "note", "struct", "day", "amount"]
    checks = schema.checks()
    for name in left:
        [check] = [each for each in checks if each.startswith(f"'{name}' (identifier): ")]
        assert check.endswith(".")
    assert "You named it as an identifier" in " ".join(checks)
    assert not any("text 1" in each or "45" in each for each in checks)


def test_one_value_is_said():
    assert "Only one value occurs." in inferred(["x"] * 9).note
    assert "Only one value occurs." in inferred([4] * 9).note


def test_unknown_formats_are_refused():
    with pytest.raises(ParameterError, match=r"decimal_comma, decimal_point, or for dates %d\.%m"):
        inferred(["a"], types={"x": "%d %b %Y"})


def test_proposals_are_read_by_the_rows():
    values = {"a": spelled("%d.%m.%Y"), "b": [f"{k},5" for k in range(len(DAYS))]}
    table = pa.table(values)
    schema = Schema.loads(Schema.infer(table).dumps())
    assert sum(len(codes) for codes, _ in Rows(table, schema).batches(["a", "b"])) == len(DAYS)

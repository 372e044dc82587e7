"""The fictitious people: reproducible, inside their domains, and plausibly dependent."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scumble.demo.census import OCCUPATIONS, OLDEST, YOUNGEST, census


@pytest.fixture(scope="module")
def people():
    return census(20_000)[0].to_pandas()


def test_the_same_people_every_time():
    assert census(1000)[0].equals(census(1000)[0])
    assert not census(1000, seed=2)[0].equals(census(1000)[0])


@pytest.mark.parametrize("count", [0, 1, 49_999, 50_001])
def test_any_number_of_people(count):
    table, schema = census(count)
    assert table.num_rows == count
    assert tuple(table.column_names) == schema.names
    assert len(pc.unique(table["person"])) == count


def test_everybody_is_inside_the_public_domains():
    table, schema = census(5000)
    for attribute in schema.published:
        _, outside = attribute.encode(table[attribute.name])
        assert not outside.any()


def test_domains_are_public_by_construction():
    _, schema = census(0)
    assert schema.from_data == ()
    assert schema.checks() == []
    sizes = {attribute.name: attribute.size for attribute in schema.published}
    assert sizes == {
        "age": OLDEST - YOUNGEST + 1,
        "sex": 2,
        "region": 15,
        "education": 10,
        "occupation": len(OCCUPATIONS),
        "income": 13,
        "condition": 15,
    }
    assert len(OCCUPATIONS) == 50
    assert [attribute.name for attribute in schema.sensitive] == ["condition"]


def test_every_value_occurs():
    table, schema = census(100_000)
    for name in ("sex", "region", "education", "occupation", "income", "condition"):
        found = pc.unique(table[name])
        if pa.types.is_dictionary(found.type):
            found = found.dictionary_decode()
        assert set(found.to_pylist()) == set(schema[name].labels().to_pylist())


def test_the_dependence_is_plausible(people):
    """Differences of many standard errors: the data are fixed by the seed in any case."""
    mean_age = people.groupby("condition", observed=True).age.mean()
    assert mean_age["Heart disease"] > mean_age["No condition"] + 15
    mean_income = people.groupby("occupation", observed=True).income.mean()
    assert mean_income["Physician"] > 3 * mean_income["Cleaner"]
    graduates = people.education.isin(["Master", "Professional degree", "Doctorate"])
    assert graduates[people.region == "Iris Capital"].mean() > (
        1.5 * graduates[people.region == "Granite North"].mean()
    )
    women = people.sex == "female"
    assert (people.condition == "Migraine")[women].mean() > (
        1.5 * (people.condition == "Migraine")[~women].mean()
    )
    assert people.age[people.occupation == "Retired"].mean() > 65

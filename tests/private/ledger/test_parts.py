"""Parts of a table that were fixed in advance: what one part is asked costs nobody else."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category
from scumble.private.ledger.cost import Bill
from scumble.private.ledger.ledger import Charge, totals_of
from scumble.private.tables.open import open_source
from scumble.private.tables.source import PartOfSource
from tests.support import people

SCHEMA = people.schema()
TABLE = people.people(400, SCHEMA)


def bill(loss: str, part: str | None = None) -> Bill:
    return Bill("histogram", {}, "", PrivacyLoss(Fraction(loss)), part=part)


def publish(ledger: sc.Ledger, epsilon: float, part: object = None) -> sc.Release:
    mechanism = sc.Histogram(["job"], epsilon=epsilon, neighbours="add_remove")
    return sc.publish(sc.Table(TABLE, part=part), SCHEMA, mechanism, ledger=ledger)


@pytest.fixture
def ledger(tmp_path: Path) -> sc.Ledger:
    return sc.Ledger.create(tmp_path / "ledger", epsilon=1, neighbours="add_remove", parts="sex")


def test_a_person_loses_by_the_whole_and_by_one_part() -> None:
    bills = [bill("0.1"), bill("0.5", "f"), bill("0.2", "m"), bill("0.1", "f")]
    found = totals_of(Charge(number, "", each) for number, each in enumerate(bills))
    assert {part: total.epsilon for part, total in found.items()} == {
        None: Fraction(1, 10),
        "f": Fraction(7, 10),
        "m": Fraction(3, 10),
    }


def test_parts_share_no_budget(ledger: sc.Ledger) -> None:
    publish(ledger, 0.2)
    publish(ledger, 0.8, "f")
    publish(ledger, 0.5, "m")
    assert str(ledger.statement()) == "3 releases cost together ε = 1 for people with sex = f."
    assert ledger.statement().by_part() == "f: ε = 1; m: ε = 0.7; all others: ε = 0.2"
    with pytest.raises(sc.PromiseError, match="nothing is left"):
        publish(ledger, 0.1, "f")
    publish(ledger, 0.2, "m")
    with pytest.raises(sc.PromiseError, match="nothing is left"):
        publish(ledger, 0.05)
    assert ledger.totals["m"].epsilon == Fraction(9, 10)


def test_only_the_rows_of_a_part_are_read() -> None:
    part = PartOfSource(open_source(TABLE), SCHEMA["sex"], "m")
    read = pa.Table.from_batches(part.batches(["age", "job"]))
    wanted = TABLE.filter(pa.compute.equal(TABLE["sex"].cast(pa.string()), "m"))
    assert read.column_names == ["age", "job"]
    assert read["age"].to_pylist() == wanted["age"].to_pylist()


def test_strays_belong_to_no_part() -> None:
    table = pa.table({"age": [1, 2, 3, 4], "sex": ["f", None, "x", " f"], "job": ["cook"] * 4})
    part = PartOfSource(open_source(table), SCHEMA["sex"], "f")
    assert pa.Table.from_batches(part.batches(["age"]))["age"].to_pylist() == [1, 4]


def test_a_release_says_which_part_it_is_of(ledger: sc.Ledger) -> None:
    release = publish(ledger, 0.5, "f")
    assert release.manifest.report == {"only rows with": "sex = f"}
    of_f = sum(value == "f" for value in TABLE["sex"].to_pylist())
    counted = release.answer("SELECT COUNT(*) FROM t")
    # Five cells with noise of scale 2 each: the sum is off by 90 with odds below 1e-12.
    assert abs(counted.value - of_f) < 90 < TABLE.num_rows - of_f


def test_parts_are_numbers_too(tmp_path: Path) -> None:
    ledger = sc.Ledger.create(tmp_path / "l", epsilon=1, neighbours="add_remove", parts="age")
    publish(ledger, 0.5, 3)
    publish(ledger, 0.5, " 3 ")
    assert ledger.totals["3"].epsilon == 1


def test_what_is_no_part_is_refused(ledger: sc.Ledger, subtests: pytest.Subtests) -> None:
    for part in ["x", "", 3.5, ["f"], "f, m"]:
        with subtests.test(part=part):
            with pytest.raises(sc.ParameterError, match="'part' parameter of publish"):
                publish(ledger, 0.1, part)
            assert ledger.charges == []


def test_parts_need_a_ledger_that_has_some(tmp_path: Path) -> None:
    plain = sc.Ledger.create(tmp_path / "plain", epsilon=1, neighbours="add_remove")
    for given in (plain, None):
        with pytest.raises(sc.ParameterError, match="created with parts='COLUMN'"):
            publish(given, 0.1, "f")


MOVED = [
    {"neighbours": "replace"},
    {"neighbours": "add_remove", "contribution": 2},
    {"neighbours": "values", "sensitive": ["sex", "job"]},
]


def test_no_parts_between_which_a_person_could_move(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for terms in MOVED:
        refused = pytest.raises(sc.ParameterError, match="each person is in one of them")
        with subtests.test(terms=terms), refused:
            sc.Ledger.create(tmp_path / "none", parts="sex", **terms)


def test_parts_that_are_told_apart_in_another_way_may_share_people(tmp_path: Path) -> None:
    """Bins of 0 to 20 and of 0 to 10 have different middles, and a person of 3 is in both."""
    ledger = sc.Ledger.create(tmp_path / "l", epsilon=1, neighbours="add_remove", parts="age")
    table = pa.table({"age": [3.0, 12.0], "job": ["cook", "cook"]})

    def published(edges: tuple[float, ...], age: float) -> None:
        job = Attribute("job", "sensitive", Category(("cook", "clerk")))
        schema = sc.Schema((Attribute("age", "quasi", Bins(edges)), job))
        mechanism = sc.Histogram(["job"], epsilon=1, neighbours="add_remove")
        sc.publish(sc.Table(table, part=age), schema, mechanism, ledger=ledger)

    published((0, 10, 20), 3)
    with pytest.raises(sc.PromiseError, match="a person could be in both"):
        published((0, 20), 3)
    published((0, 10, 20), 12)
    assert {part: total.epsilon for part, total in ledger.totals.items()} == {
        None: 0,
        "5.0": 1,
        "15.0": 1,
    }

"""What each mechanism costs in each kind of ledger, and what no ledger can count."""

from __future__ import annotations

from fractions import Fraction

import pytest

import scumble as sc
from scumble.model.errors import LedgerError
from scumble.model.privacy.accounting import PrivacyLoss, rho_for
from scumble.private.database.terms import DatabaseTerms
from scumble.private.ledger.cost import Bill, bill_of, bill_of_database
from scumble.private.ledger.terms import LedgerTerms
from scumble.private.mechanism import Summary
from scumble.private.summaries.base import ProtectedSummary, WithDelta
from tests.support import people

HALF = Fraction(1, 2)
SCHEMA = people.schema()


class Noisy(WithDelta):
    """A summary with Gaussian noise that is never drawn here."""

    name = "noisy"

    def measure(self, table, folder):
        raise AssertionError("nothing is measured")


def terms(
    neighbours: str, contribution: int = 1, sensitive: tuple[str, ...] = ("job",)
) -> LedgerTerms:
    names = sensitive if neighbours == "values" else ()
    return LedgerTerms("people", neighbours, contribution, names)


def bill(mechanism, ledger: LedgerTerms, schema=SCHEMA, **how) -> Bill:
    return bill_of(mechanism, schema, ledger, **{"outside": "error", "seeded": False, **how})


def histogram(neighbours: str, **more) -> sc.Histogram:
    return sc.Histogram(["age"], epsilon=0.5, neighbours=neighbours, **more)


RELATIONS = [
    ("add_remove", "add_remove", 1),
    ("replace", "replace", 1),
    ("replace", "add_remove", 2),
    ("values", "replace", 1),
    ("values", "add_remove", 2),
]


def test_summaries_by_the_relation(subtests: pytest.Subtests) -> None:
    for ledger, promised, times in RELATIONS:
        with subtests.test(ledger=ledger):
            assert bill(histogram(promised), terms(ledger)).loss == PrivacyLoss(times * HALF)


def test_a_replaced_person_says_nothing_about_one_who_was_not_there() -> None:
    found = bill(histogram("replace"), terms("add_remove"))
    assert found.loss is None
    assert "nothing follows about adding or removing" in found.remark


def test_a_domain_read_from_data_is_noticed_in_every_column_of_a_key() -> None:
    text = """
[attributes.who]
role = "identifier"
[attributes.query]
role = "quasi"
type = "category"
values = ["a", "b"]
from_data = true
[attributes.url]
role = "quasi"
type = "category"
open = true
"""
    given = {"epsilon": 1, "delta": 1e-6, "keys": 1, "neighbours": "add_remove", "person": "who"}
    schema, ledger = sc.Schema.loads(text), terms("add_remove")
    for mechanism in (sc.Keys("url", within="query", **given), sc.Keys(["query", "url"], **given)):
        found = bill(mechanism, ledger, schema)
        assert found.loss is None
        assert "The domain of query was read from the private data" in found.remark
    assert bill(sc.Keys("url", **given), ledger, schema).loss is not None


def test_limits_of_amounts_that_were_read_from_data_are_noticed() -> None:
    amounts = sc.Attribute("pay", "sensitive", sc.IntegerRange(0, 9), from_data=True)
    schema = sc.Schema((*SCHEMA, amounts))
    found = bill(histogram("replace", sums=["pay"]), terms("replace"), schema)
    assert found.loss is None
    assert "The domain of pay was read from the private data" in found.remark
    assert bill(histogram("replace"), terms("replace"), schema).loss == PrivacyLoss(HALF)


def test_rows_of_a_person() -> None:
    assert bill(histogram("replace"), terms("replace", 3)).loss == PrivacyLoss(3 * HALF)
    assert bill(histogram("replace", contribution=2), terms("replace", 3)).loss == PrivacyLoss(
        2 * HALF
    )
    assert bill(histogram("replace", contribution=5), terms("replace", 3)).loss == PrivacyLoss(HALF)


def test_rows_that_are_limited_need_no_factor() -> None:
    schema = sc.Schema((*SCHEMA, sc.Attribute("id", "identifier")))
    limited = histogram("replace", contribution=2, person="id")
    assert bill(limited, terms("replace", 7), schema).loss == PrivacyLoss(HALF)


def test_gaussian_noise_grows_with_the_square_of_the_steps() -> None:
    rho = rho_for(HALF, Fraction(1, 10**6))
    found = Noisy(["age"], epsilon=0.5, delta=1e-6, neighbours="add_remove")
    assert bill(found, terms("add_remove")).loss == PrivacyLoss(rho=rho)
    assert bill(found, terms("replace")).loss == PrivacyLoss(rho=4 * rho)
    assert bill(found, terms("replace", 3)).loss == PrivacyLoss(rho=36 * rho)


@pytest.mark.parametrize("publisher", [sc.Uniform(epsilon=0.1), sc.Subset(epsilon=0.1)])
def test_publishers_of_rows_protect_sensitive_values_only(publisher) -> None:
    assert bill(publisher, terms("values")).loss == PrivacyLoss(Fraction(1, 10))
    assert bill(publisher, terms("values", 2)).loss == PrivacyLoss(Fraction(1, 5))
    assert bill(publisher, terms("replace")).loss is None
    assert bill(publisher, terms("add_remove")).loss is None


def test_a_derived_epsilon_is_rounded_up() -> None:
    found = bill(sc.Uniform(gamma=2), terms("values")).loss
    assert found is not None
    assert 0.6931471805599453 <= found.epsilon < 0.6931471805599456


def test_columns_that_the_ledger_protects_must_be_hidden() -> None:
    uniform = sc.Uniform(epsilon=1)
    found = bill(uniform, terms("values", sensitive=("age", "job")))
    assert found.loss is None
    assert "does not hide age" in found.remark
    named = sc.Schema((*SCHEMA, sc.Attribute("name", "identifier")))
    found = bill(uniform, terms("values", sensitive=("name", "job")), named)
    assert found.loss == PrivacyLoss(Fraction(1))  # an identifier is not published
    for names in (("jbo",), ("health", "job"), ("job", "Age")):
        with pytest.raises(LedgerError, match="must be an attribute of the schema"):
            bill(uniform, terms("values", sensitive=names))
    # A summary hides all columns alike.
    assert bill(histogram("replace"), terms("values", sensitive=("age",))).loss == PrivacyLoss(HALF)


def test_frapp_perturbs_whole_rows() -> None:
    assert bill(sc.Frapp(epsilon=0.5), terms("replace")).loss == PrivacyLoss(HALF)
    assert bill(sc.Frapp(epsilon=0.5), terms("values")).loss == PrivacyLoss(HALF)
    assert bill(sc.Frapp(epsilon=0.5), terms("add_remove")).loss is None


def test_alphabeta_tells_how_many_rows_there_are() -> None:
    found = bill(sc.AlphaBeta(epsilon=0.5), terms("replace")).loss
    assert found is not None
    assert HALF < found.epsilon <= 1
    assert bill(sc.AlphaBeta(epsilon=0.5), terms("add_remove")).loss is None
    collapsed = bill(sc.AlphaBeta(epsilon=0.5, duplicates="collapse"), terms("replace"))
    assert collapsed.loss is None
    assert "is published" in collapsed.remark
    assert "number of rows" in bill(sc.AlphaBeta(k=2, gamma=0.5), terms("replace")).remark


NOT_PRIVATE = [sc.Partition(rho1=0.3, rho2=0.6), sc.Anatomy(l=2), sc.Aroma(k=3)]


def test_what_is_not_differential_privacy_is_not_counted(subtests: pytest.Subtests) -> None:
    for mechanism in NOT_PRIVATE:
        for relation in ["values", "replace", "add_remove"]:
            with subtests.test(mechanism=mechanism, relation=relation):
                found = bill(mechanism, terms(relation))
                assert found.loss is None
                assert found.remark.endswith("which is no loss that adds up to others.")


def test_what_no_number_covers_is_not_counted() -> None:
    ledger = terms("values")
    assert "fixed seed" in bill(histogram("replace"), ledger, seeded=True).remark
    assert "left out" in bill(sc.Uniform(epsilon=1), ledger, outside="drop").remark
    assert bill(histogram("replace"), ledger, outside="drop").loss == PrivacyLoss(HALF)
    inferred = sc.Schema.infer(people.people(50, SCHEMA), sensitive=["job"])
    assert "read from the private data" in bill(sc.Uniform(epsilon=1), ledger, inferred).remark


def test_a_database_costs_all_that_it_may_answer() -> None:
    claim = DatabaseTerms.read(epsilon=0.5, noise=40).claim()
    twice = bill_of_database(claim, SCHEMA, terms("replace", 2), seeded=False)
    assert twice.loss == PrivacyLoss(2 * HALF)
    assert bill_of_database(claim, SCHEMA, terms("add_remove"), seeded=False).loss is None


@pytest.mark.parametrize("mechanism", [histogram("replace"), sc.Partition(rho1=0.3, rho2=0.6)])
def test_a_bill_is_written_and_read(mechanism) -> None:
    found = bill(mechanism, terms("replace", 3))
    assert Bill.from_dict(found.to_dict()) == found


def test_every_summary_can_be_counted() -> None:
    """A summary that is of another family would be listed as not counted, in silence."""
    summaries = [kind for kind in sc.mechanisms().values() if issubclass(kind, Summary)]
    others = [kind.name for kind in summaries if not issubclass(kind, ProtectedSummary)]
    assert others == ["dirichlet"]  # its guarantee is about values, as those of publishers are
    found = bill(sc.Dirichlet(SCHEMA.sensitive[0].name, epsilon=1), terms("values", 1))
    assert found.loss == PrivacyLoss(Fraction(1))

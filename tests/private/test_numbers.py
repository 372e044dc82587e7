"""Amounts in releases: rows have them, counts have their bins, and limits have to be there."""

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.errors import SchemaError
from scumble.private.database.database import Database

PAY = [-50.0, 120.0, 99.5, 100.0, 2500.25, 999.99, 1e9, 400.0]
TABLE = pa.table({"pay": PAY * 4, "ill": ["yes", "no"] * 16})
CLAMPED = np.clip(np.floor(np.array(PAY * 4) + 0.5), 0, 1000)
ILL = '[attributes.ill]\nrole = "{}"\ntype = "category"\nvalues = ["yes", "no"]\n'
SENTENCE = "Amounts of 'pay' above 1,000 count as 1,000, and those below 0 as 0."


def schema(limits: str, role: str = "quasi") -> sc.Schema:
    other = "sensitive" if role == "quasi" else "quasi"
    pay = f'[attributes.pay]\nrole = "{role}"\ntype = "number"\n{limits}\n'
    return sc.Schema.loads(f'unit = "row"\n{pay}{ILL.format(other)}')


LIMITED = schema("limits = [0, 1000]\nedges = [100, 500]")


@pytest.mark.parametrize("mechanism", [sc.Uniform(epsilon=1), sc.classic.Anatomy(l=2)])
def test_rows_have_amounts_and_questions_use_them(mechanism, tmp_path):
    release = sc.publish(TABLE, LIMITED, mechanism)
    assert release.schema["pay"].domain == sc.Number(0, 1000)
    assert release.remarks.count(SENTENCE) == 1
    release.save(tmp_path / "r.scumble")
    found = sc.open(tmp_path / "r.scumble")
    assert found.ask("SELECT COUNT(*) FROM t WHERE pay > 400").value == (CLAMPED > 400).sum()
    assert found.ask("SELECT SUM(pay) FROM t").value == CLAMPED.sum()
    assert found.ask("SELECT AVG(pay) FROM t").value == pytest.approx(CLAMPED.mean())


def test_a_sensitive_number_is_perturbed_by_its_bins():
    release = sc.publish(TABLE, schema("limits = [0, 1000]\nedges = [100, 500]", "sensitive"),
                         sc.Uniform(epsilon=1))  # fmt: skip
    assert release.schema["pay"].size == 3


def test_generalised_rows_keep_bins():
    release = sc.publish(TABLE, LIMITED, sc.classic.Generalise(k=2))
    assert release.schema["pay"].size == 3
    assert release.ask("SELECT COUNT(*) FROM t WHERE pay <= 499").value == (CLAMPED < 500).sum()


def test_counts_are_cut_at_edges_and_bounded_between():
    release = sc.publish(TABLE, LIMITED, sc.Histogram(["pay"], epsilon=100, neighbours="replace"))
    assert SENTENCE in release.remarks
    for condition in ("pay < 500", "pay <= 499", "pay <= 499.5", "NOT pay >= 500"):
        found = release.ask(f"SELECT COUNT(*) FROM t WHERE {condition}")
        assert found.value == (CLAMPED < 500).sum()
        assert found.interval() == pytest.approx((found.value, found.value), abs=0.01)
    low, high = release.ask("SELECT COUNT(*) FROM t WHERE pay < 120").interval(0.95)
    expected = (CLAMPED < 100).sum(), (CLAMPED < 500).sum()
    assert (low, high) == pytest.approx(expected, abs=0.01)
    low, high = release.ask("SELECT SUM(pay) FROM t").interval(0.95)
    assert low <= CLAMPED.sum() <= high


def test_limits_have_to_be_there(tmp_path):
    needed = schema("limits_needed = true")
    sentence = r"'pay' needs its limits\. Write limits = \[LOW, HIGH\] in place of limits_needed"
    counts = sc.Histogram(["pay"], epsilon=1, neighbours="replace")
    for publish in (
        lambda: sc.publish(TABLE, needed, sc.Uniform(epsilon=1)),
        lambda: sc.publish(TABLE, needed, counts),
        lambda: sc.publish(TABLE, needed, epsilon=1),
        lambda: sc.recommend(needed, rows=32, epsilon=1),
        lambda: Database.create(tmp_path / "d", TABLE, needed, epsilon=1, noise=5),
    ):
        with pytest.raises(SchemaError, match=sentence):
            publish()
    other = sc.Histogram(["ill"], epsilon=1, neighbours="replace")
    assert sc.publish(TABLE, needed, other).schema.names == ("ill",)


def test_limits_are_never_proposed_from_the_data():
    values = {
        "income": [float(at**2) + 0.25 for at in range(100)],
        "Kaufpreis": [17 * at**2 for at in range(50)] * 2,
        "latitude": [50 + at / 7 for at in range(100)],
    }
    found = sc.Schema.infer(pa.table(values), types={"latitude": "binned"})
    assert found["income"].to_dict() == {
        "name": "income", "role": "quasi", "type": "number", "step": 0.01, "limits_needed": True,
    }  # fmt: skip
    assert found["Kaufpreis"].domain.step == 1
    assert found["latitude"].kind == "binned"
    assert "9801" not in found.dumps()
    assert "40817" not in found.dumps()
    assert sc.Schema.loads(found.dumps()) == found
    checks = " ".join(sc.Schema.loads(found.dumps()).checks())
    assert "'income' (number, limits needed): Write limits = [LOW, HIGH]" in checks
    assert "scumble schema limits TABLE income --schema FILE --epsilon 0.1" in checks
    named = sc.Schema.infer(pa.table(values), types={"latitude": "number"})
    assert named["latitude"].limits_needed

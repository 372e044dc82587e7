"""Saved releases of every kind with less noise than their promise needs, or with a promise that the
noise does not keep: refused on opening, and refuted by the audit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from scumble.audit.subjects import of_release
from scumble.model.errors import ReleaseError
from scumble.model.privacy.sampling import Sample
from scumble.public.archive.archive import MANIFEST, _digest_of_json
from tests.support import people
from tests.support.publishing import publish

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SAVED = {
    str(path.parent.relative_to(FIXTURES)): path.parent
    for path in sorted(FIXTURES.glob("*/**/" + MANIFEST))
}
LAWS = {
    "discrete laplace": "scale",
    "discrete gaussian": "parameter",
    "rounded normal": "parameter",
    "key noise": "scale",
}
# Releases without noise: true rows in groups, and keys without counts or a law of how they pass.
NO_NOISE = ("anatomy", "generalise", "keys-gaussian")
UNSEEN = (
    ("smaller_epsilon", "keys-gaussian"),
    ("smaller_number", "alphabeta-views"),  # one of three views was made, and tells less
)
Change = Callable[[dict[str, Any]], bool]


def tables(value: Any) -> Iterator[dict[str, Any]]:
    """Every table in JSON values."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from tables(each)


def fiftieth(number: str) -> str:
    return str(Fraction(number) / 50)


def less_noise(data: dict[str, Any]) -> bool:
    """Write a fiftieth of the noise; return whether there was any."""
    changed = False
    for each in tables(data["evidence"]):
        name = LAWS.get(each.get("kind", ""))
        if name is not None:
            each[name] = fiftieth(each[name])
        elif each.get("kind") in ("uniform", "replaced"):
            each["keep"] = str(1 - (1 - Fraction(each["keep"])) / 50)
        elif each.get("kind") == "split":
            each["keeps"] = [str(1 - (1 - Fraction(keep)) / 50) for keep in each["keeps"]]
        elif each.get("kind") == "included":
            each["noise"] = fiftieth(each["noise"])
        elif each.get("kind") == "subset":
            each["inclusion"] = str(1 - (1 - Fraction(each["inclusion"])) / 50)
        elif each.get("kind") == "pool":
            each["size"] = 2
        elif each.get("kind") == "synthetic":
            each["grid"] *= 50
        else:
            continue
        changed = True
    return changed


def central(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The promises of differentially private measurements."""
    measured = data["evidence"]["kind"] == "measurements"
    return [each for each in data["guarantees"] if measured]


def smaller_epsilon(data: dict[str, Any]) -> bool:
    """Promise a fiftieth of ε, in the promise and in the parameters."""
    found = [each for each in data["guarantees"] if "epsilon" in each["parameters"]]
    for each in found:
        each["parameters"]["epsilon"] /= 50
        each["parameters"].pop("rho", None)
    if data["parameters"].get("epsilon") is not None:
        data["parameters"]["epsilon"] = fiftieth(str(data["parameters"]["epsilon"]))
    return bool(found)


def smaller_rho(data: dict[str, Any]) -> bool:
    found = [each for each in central(data) if "rho" in each["parameters"]]
    for each in found:
        each["parameters"]["rho"] /= 50
    return bool(found)


def larger_rho(data: dict[str, Any]) -> bool:
    found = [each for each in central(data) if "rho" in each["parameters"]]
    for each in found:
        each["parameters"]["rho"] *= 50
    return bool(found)


def other_epsilon(data: dict[str, Any]) -> bool:
    """Promise less than the parameters say, without a change of the noise."""
    for each in central(data):
        each["parameters"]["epsilon"] *= 0.99
    return bool(central(data))


def more_rows(data: dict[str, Any]) -> bool:
    """Protect fifty times as many rows of a person."""
    found = central(data)
    for each in found:
        each["parameters"]["contribution"] *= 50
    for name in {"contribution"} & {*data["parameters"]} if found else ():
        data["parameters"][name] *= 50
    return bool(found)


def other_contribution(data: dict[str, Any]) -> bool:
    found = central(data) if "contribution" in data["parameters"] else []
    if found:
        data["parameters"]["contribution"] += 1
    return bool(found)


def other_neighbours(data: dict[str, Any]) -> bool:
    """Protect against other neighbours than the parameters say."""
    other = {
        "replace one person": "add or remove one person",
        "add or remove one person": "replace one person",
    }
    for each in central(data):
        each["neighbourhood"] = other[each["neighbourhood"]]
    return bool(central(data))


def exact_rows(data: dict[str, Any]) -> bool:
    """State the exact number of rows where a person may be added."""
    added = [each for each in central(data) if each["neighbourhood"].startswith("add")]
    if added:
        data["evidence"]["rows"] = 100
    return bool(added)


def other_statement(data: dict[str, Any]) -> bool:
    """Put a blank behind every statement: it reads the same, and no check has its name."""
    for each in data["guarantees"]:
        each["statement"] += " "
    return True


def one_more(data: dict[str, Any]) -> bool:
    """Add a promise that no release makes."""
    data["guarantees"].append({**data["guarantees"][0], "statement": "ε-LDP for all that you do"})
    return True


MAIN = {"ε-LDP", "ε-DP", "(ε, δ)-LDP profile", "γ-amplification within a sub-table", "k-anonymity"}


def no_main_promise(data: dict[str, Any]) -> bool:
    """Drop the main promise where the release has others."""
    left = [each for each in data["guarantees"] if each["statement"] not in MAIN]
    changed = 0 < len(left) < len(data["guarantees"])
    data["guarantees"] = left
    return changed


def smaller_number(data: dict[str, Any]) -> bool:
    """Promise a little less of one number: an exposure, a δ, a posterior or a factor."""
    names = ("p", "delta at epsilon 0.5", "gamma", "once", "twice")
    found = [(each["parameters"], name) for each in data["guarantees"] for name in names]
    found = [(numbers, name) for numbers, name in found if name in numbers]
    for numbers, name in found[-1:]:
        numbers[name] *= 0.999
    return bool(found)


def more_values(data: dict[str, Any]) -> bool:
    """Say that a guess is among more values than there are, with the exposure of so many."""
    found = [each["parameters"] for each in data["guarantees"] if "p" in each["parameters"]]
    for numbers in found:
        numbers["values"] *= 100
        numbers["p"] /= 50
    return bool(found)


def no_channel(data: dict[str, Any]) -> bool:
    """Read a sensitive column as if it were published as it is."""
    return bool(data["evidence"].get("channels") and data["evidence"]["channels"].pop())


FORGERIES: tuple[Change, ...] = (
    other_statement,
    one_more,
    no_main_promise,
    smaller_number,
    more_values,
    no_channel,
    less_noise,
    smaller_epsilon,
    smaller_rho,
    larger_rho,
    other_epsilon,
    more_rows,
    other_contribution,
    other_neighbours,
    exact_rows,
)


def forge(source: Path, target: Path, change: Change) -> bool:
    """Copy a release with a changed manifest and its right checksum; False if nothing changed."""
    data = json.loads((source / MANIFEST).read_text("utf-8"))
    data.pop("checksum")
    if not change(data):
        return False
    shutil.copytree(source, target)
    data["checksum"] = _digest_of_json(data)
    (target / MANIFEST).write_text(json.dumps(data), "utf-8")
    return True


@pytest.mark.parametrize("change", FORGERIES, ids=lambda change: change.__name__)
def test_a_forged_promise_or_noise_is_refused(change, tmp_path, subtests) -> None:
    tried = set()
    for place, (name, source) in enumerate(SAVED.items()):
        target = tmp_path / str(place)
        if (change.__name__, source.name) in UNSEEN:
            continue
        if not forge(source, target, change):
            continue
        tried.add(name)
        with subtests.test(name), pytest.raises(ReleaseError, match=r"damaged|does not keep"):
            sc.open(target)
    if change is less_noise:
        left = [Path(name).name for name in SAVED.keys() - tried]
        assert all(each.startswith(NO_NOISE) for each in left)
    assert tried


def release(folder: Path, **given: Any) -> Path:
    schema = people.schema()
    mechanism = sc.Histogram(["sex", "job"], epsilon=1, neighbours="replace")
    found: Path = publish(people.people(300, schema), schema, mechanism, **given).save(folder)
    return found


def test_the_audit_refutes_what_cannot_be_opened(tmp_path) -> None:
    source = release(tmp_path / "honest")
    assert forge(source, tmp_path / "forged", less_noise)
    report = of_release(tmp_path / "forged")
    [found] = [each for each in report.findings if each.check == "stated noise"]
    assert found.refuted
    assert "does not keep what it promises" in found.sentence
    assert not of_release(source).refuted


def test_a_little_less_noise_is_refused_and_more_is_not(tmp_path) -> None:
    """Where all of the noise is stated, one part in a million is seen."""

    def scaled(factor: str) -> Change:
        def change(data: dict[str, Any]) -> bool:
            noise = data["evidence"]["design"]["noise"]
            noise["scale"] = str(Fraction(noise["scale"]) * Fraction(factor))
            return True

        return change

    source = release(tmp_path / "honest")
    assert forge(source, tmp_path / "less", scaled("0.999999"))
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(tmp_path / "less")
    assert forge(source, tmp_path / "more", scaled("1.5"))
    sc.open(tmp_path / "more")


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_the_promise_of_a_sample_is_that_of_the_method_strengthened(
    neighbours, delta, tmp_path
) -> None:
    schema = people.schema()
    names = ["sex", "job"]
    mechanism = sc.Marginals(names, epsilon=2, neighbours=neighbours, delta=delta, ways=1)
    table = people.people(300, schema)
    source = sc.publish(table, schema, mechanism, options=sc.PublishOptions(sample=0.25)).save(
        tmp_path / "honest"
    )
    sc.open(source)

    def change(data: dict[str, Any]) -> bool:
        data["guarantees"][0]["parameters"]["epsilon"] *= 0.999
        return True

    assert forge(source, tmp_path / "forged", change)
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(tmp_path / "forged")


def every_statement() -> Iterator[Change]:
    """Forge each number of each promise of Aroma by itself."""
    for place in range(6):
        for name in ("p", "delta at epsilon 0.5", "delta at epsilon 1", "delta at epsilon 2"):

            def change(data: dict[str, Any], place: int = place, name: str = name) -> bool:
                numbers = data["guarantees"][place]["parameters"]
                numbers[name] = 0.999 * numbers.get(name, 0)
                return bool(numbers[name])

            yield change


def test_each_number_of_multisets_is_computed(tmp_path) -> None:
    """Aroma states a profile and an exposure of all attributes together and of each."""
    schema = people.schema(jobs=people.JOBS[:3], health=2)
    table = people.people(100, schema)
    source = sc.publish(table, schema, sc.Aroma(k=8, joint=False)).save(tmp_path / "honest")
    sc.open(source)
    tried = 0
    for place, change in enumerate(every_statement()):
        if forge(source, tmp_path / str(place), change):
            tried += 1
            with pytest.raises(ReleaseError, match="does not keep what it promises"):
                sc.open(tmp_path / str(place))
    assert tried == 3 * (3 + 1)


@pytest.mark.parametrize(
    "change",
    [{"n": 3.1}, {"pool": 4.1}, {"delta at epsilon 1": 0.1215}, {"f": 0.1}, {"epsilon": 0.4}],
    ids=str,
)
def test_conditions_of_multisets_are_computed(change, tmp_path) -> None:
    """The caps of `closeness`, and the k of the paper's condition for one count."""
    schema = people.schema()
    given = {"epsilon": 0.5, "f": 0.2} if change.keys() & {"epsilon", "f"} else {"k": 9}
    mechanism = sc.Aroma(**given, **({"closeness": 2.5} if "k" in given else {}))
    table = people.people(100, schema)
    source = sc.publish(table, schema, mechanism).save(tmp_path / "honest")
    sc.open(source)

    def forged(data: dict[str, Any]) -> bool:
        [name] = change
        [numbers] = [
            each["parameters"] for each in data["guarantees"] if name in each["parameters"]
        ]
        numbers |= change
        return True

    assert forge(source, tmp_path / "forged", forged)
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(tmp_path / "forged")


def test_a_partition_that_shows_rows_as_they_are_must_say_so(tmp_path) -> None:
    source = SAVED["format1/releases/partition"]

    def plain(data: dict[str, Any]) -> bool:
        [channel] = data["evidence"]["channels"]
        channel["keeps"] = ["1"] * len(channel["keeps"])
        data["guarantees"] = data["guarantees"][:1]
        return True

    assert forge(source, tmp_path / "forged", plain)
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(tmp_path / "forged")


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [0, 1, 1, 1, 1]},
        {"weights": [1, 10**400, 1, 1, 1]},
        {"size": 10**6},
        {"caps": [3, 3, 3, 3, 9]},
        {"caps": [0, 0, 0, 0, 0]},
    ],
    ids=str,
)
def test_a_law_of_multisets_that_nobody_draws_is_refused(change, tmp_path) -> None:
    def forged(data: dict[str, Any]) -> bool:
        data["evidence"]["channels"][0]["law"] |= change
        for each in data["guarantees"]:
            each["parameters"] |= {"k": change["size"]} if "size" in change else {}
        return True

    assert forge(SAVED["format1/releases/aroma-closeness"], tmp_path / "forged", forged)
    with pytest.raises(ReleaseError, match=r"damaged|does not keep"):
        sc.open(tmp_path / "forged")


def method_of_more(data: dict[str, Any]) -> bool:
    """A method with four times ε and a quarter of the noise, of a sample at a far smaller rate."""
    rate = Fraction(1, 100_000)
    data["report"]["sample"]["rate"] = str(rate)
    data["parameters"]["epsilon"] = 8
    for each in tables(data["evidence"]):
        if each.get("kind", "").startswith("discrete"):
            name = LAWS[each["kind"]]
            each[name] = str(Fraction(each[name]) / 4)
    delta = Fraction(str(data["parameters"]["delta"] or 0))
    epsilon, strengthened = Sample(rate).loss(Fraction(8), delta)
    numbers = data["guarantees"][0]["parameters"]
    numbers["epsilon"] = float(epsilon)
    numbers |= {"delta": float(strengthened)} if delta else {}
    return True


def other_method(data: dict[str, Any]) -> bool:
    data["parameters"]["epsilon"] = 0.01
    return True


def more_people(data: dict[str, Any]) -> bool:
    """The size and the rate of a sample of a far larger table."""
    data["report"]["sample"] |= {"people": 7_500_000, "rate": "1/100000"}
    return True


def each_by_chance(data: dict[str, Any]) -> bool:
    """Say that each person was drawn by chance, for which replacing people has no proof."""
    for name in ("people", "drawn"):
        data["report"]["sample"].pop(name)
    return True


def of_a_size(data: dict[str, Any]) -> bool:
    data["report"]["sample"] |= {"people": 300, "drawn": 75}
    return True


def other_rows(data: dict[str, Any]) -> bool:
    data["report"]["sample"]["rows"] = 2
    return True


def with_rho(data: dict[str, Any]) -> bool:
    data["guarantees"][0]["parameters"]["rho"] = 1e-9
    return True


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize(
    ("neighbours", "change"),
    [
        ("replace", method_of_more),
        ("replace", other_method),
        ("replace", more_people),
        ("replace", each_by_chance),
        ("add_remove", other_method),
        ("add_remove", of_a_size),
        ("add_remove", other_rows),
        ("add_remove", with_rho),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_forged_sample_is_refused(neighbours, change, delta, tmp_path) -> None:
    schema = people.schema()
    names = ["sex", "job"]
    mechanism = sc.Marginals(names, epsilon=2, neighbours=neighbours, delta=delta, ways=1)
    table = people.people(300, schema)
    source = sc.publish(table, schema, mechanism, options=sc.PublishOptions(sample=0.25)).save(
        tmp_path / "honest"
    )
    sc.open(source)
    assert forge(source, tmp_path / "forged", change)
    with pytest.raises(ReleaseError, match=r"damaged|does not keep what it promises"):
        sc.open(tmp_path / "forged")


def test_rows_that_were_perturbed_are_no_sample(tmp_path) -> None:
    def sampled(data: dict[str, Any]) -> bool:
        data["report"]["sample"] = {"rate": "1/2", "rows": 1}
        return True

    assert forge(SAVED["format1/releases/uniform"], tmp_path / "forged", sampled)
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(tmp_path / "forged")


@pytest.mark.parametrize("place", ["folder", "sqlite"])
def test_a_forged_release_in_a_database_is_refused_too(place, tmp_path) -> None:
    source = release(tmp_path / "honest")
    assert forge(source, tmp_path / "forged", less_noise)
    if place == "folder":
        target: Any = tmp_path / "forged"
    else:
        from scumble.public.archive.load import load

        target = f"sqlite:///{tmp_path}/file.db/forged"
        load(tmp_path / "forged", as_stated=True).save(target)
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(target)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1.0},
        {"rho": 0.1},
        {"rho": 1.0},
        {"epsilon": 1.0, "rho": 0.03},
        {"contribution": 9},
    ],
    ids=str,
)
def test_the_promise_of_linked_tables_is_that_of_all_of_them(change, tmp_path) -> None:
    shutil.copytree(FIXTURES / "synthetic" / "linked", tmp_path / "linked")
    sc.open(tmp_path / "linked")
    path = tmp_path / "linked" / "linked.json"
    data = json.loads(path.read_text("utf-8"))
    data["guarantees"][0]["parameters"].update(change)
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ReleaseError, match="does not keep what it promises"):
        sc.open(tmp_path / "linked")

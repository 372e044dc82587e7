"""The cost of a release in the terms of an owner's ledger, or the reason why it is not counted.

A guarantee for one neighbouring relation is converted to another only where a theorem allows it. A
release whose guarantee is weaker than its numbers (a seed, a domain read from the data) is not
counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scumble.model import stored
from scumble.model.errors import LedgerError, named, setting
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.privacy.sampling import Sample
from scumble.private.ledger.terms import LedgerTerms, Relation, group_loss
from scumble.private.mechanism import Mechanism, Publisher
from scumble.private.summaries.base import ProtectedSummary

if TYPE_CHECKING:
    from scumble.model.schema.attribute import Attribute
    from scumble.model.schema.schema import Schema

# How many steps of the promised relation lead from a table to its neighbour in the ledger's, by
# (ledger's relation, promised relation). Replacing a person is removing one and adding one;
# changing some values is a replacement. There is no way from the others: under "replace" the number
# of rows may be published exactly, and under "values" all other columns.
_STEPS: Mapping[tuple[Relation, Relation], int] = {
    ("add_remove", "add_remove"): 1,
    ("replace", "replace"): 1,
    ("replace", "add_remove"): 2,
    ("values", "values"): 1,
    ("values", "replace"): 1,
    ("values", "add_remove"): 2,
}
_RELATIONS: Mapping[str, Relation] = {
    "one person's sensitive values": "values",
    "replace one person": "replace",
    "add or remove one person": "add_remove",
}
_WORDS: Mapping[Relation, str] = {
    "values": "one person's sensitive values",
    "replace": "replacing one person",
    "add_remove": "adding or removing one person",
}
_UNCONDITIONAL = ("ε-DP", "ε-LDP", "(ε, δ)-DP")
_NO_READING = ("role", "from_data")


@dataclass(frozen=True)
class ReleaseClaim:
    """A promised loss, between neighbouring tables that differ in `rows` rows of one person.

    `bounded` says that no more rows of each person are used, however many there are.
    """

    loss: PrivacyLoss
    neighbours: Relation
    rows: int = 1
    bounded: bool = False

    def __str__(self) -> str:
        rows = f", {self.rows} rows" if self.rows > 1 else ""
        return f"{self.loss} ({self.neighbours}{rows})"


@dataclass(frozen=True)
class Bill:
    """The charge for a release. Without a loss, `remark` says why the release is not counted.

    `column` is the domain of the column whose value `part` is.
    """

    method: str
    parameters: Mapping[str, Any]
    promise: str
    loss: PrivacyLoss | None
    remark: str = ""
    part: str | None = None
    column: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        """The charge in a sentence for the owner."""
        if self.loss is None:
            return f"The ledger does not count this release. {self.remark}"
        also = f", {self.remark}" if self.remark else "."
        return f"The ledger was charged {self.loss}{also}"

    def to_dict(self) -> dict[str, Any]:
        numbers = ("epsilon", "rho", "delta")
        number: dict[str, Any] | None = None
        if (loss := self.loss) is not None:
            number = {name: str(given) for name in numbers if (given := getattr(loss, name))}
            if loss.normal:
                number["normal"] = True
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "promise": self.promise,
            "loss": number,
            "remark": self.remark,
            "part": self.part,
            "column": None if self.column is None else dict(self.column),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bill:
        loss = None
        if data["loss"] is not None:
            numbers = dict(data["loss"])
            normal = stored.flag(numbers.pop("normal", False))
            exact = {name: stored.fraction(text) for name, text in numbers.items()}
            loss = PrivacyLoss(**exact, normal=normal)
        words = (data["method"], data["parameters"], data["promise"])
        return cls(*words, loss, data["remark"], data["part"], data["column"])


def bill_of(
    mechanism: Mechanism,
    schema: Schema,
    terms: LedgerTerms,
    *,
    outside: str,
    seeded: bool,
    part: str | None = None,
    column: Attribute | None = None,
    sample: Sample | None = None,
) -> Bill:
    """Return the bill of a release by a mechanism, before any row is read.

    With `sample`, only people who were drawn are published, which costs less. With `part`, only
    people with this value of `column` are published. `outside` and `seeded` are the parameters of
    `publish`.
    """
    _check_protected(schema.names, terms)
    _check_rows(mechanism, schema, terms, part)
    claims, reason = _claims(mechanism, schema)
    if sample is not None:
        claims = [_sampled(each, mechanism, schema, sample) for each in claims]
    weak = _weakness(mechanism, schema, outside, seeded)
    shown = _shown(schema, terms)
    found = _bill(mechanism.name, mechanism.parameters, claims, terms, weak or reason, shown)
    return replace(found, part=part, column=None if column is None else _reading(column))


def _check_rows(mechanism: Mechanism, schema: Schema, terms: LedgerTerms, part: str | None) -> None:
    """Refuse to publish rows of people who may have more of them than the ledger says, and a part
    of a table in which a person may have rows in several parts.
    """
    if part is not None and schema.person is not None:
        raise LedgerError(
            f"A part is charged to its people only, and a person in '{schema.person}' may "
            "have rows in several parts: publish the whole table, by this column too."
        )
    most = 1 if schema.unit is None else schema.unit.most_rows
    if not mechanism.limits_rows and most > terms.contribution:
        raise LedgerError(
            f"The ledger counts on at most {terms.contribution} rows of a person, and the schema "
            f"allows {most} (most_rows). Create a ledger with {setting('contribution', most)}."
        )


def _reading(column: Attribute) -> dict[str, Any]:
    """The fields of a column that decide which value a row has."""
    return {name: word for name, word in column.to_dict().items() if name not in _NO_READING}


def bill_of_database(
    claim: ReleaseClaim, schema: Schema, terms: LedgerTerms, *, seeded: bool
) -> Bill:
    """Return the bill of a statistical database, for everything that it may ever answer.

    `claim` is the loss that the database promises for all answers together.
    """
    weakness = _seeded(seeded) or _read_from_data(schema.from_data)
    parameters = {"attributes": list(schema.names), "epsilon": str(claim.loss.epsilon)}
    return _bill("database", parameters, [claim], terms, weakness, "")


def bill_of_linked(
    mechanism: ProtectedSummary, schemas: Mapping[str, Schema], terms: LedgerTerms, *, seeded: bool
) -> Bill:
    """Return the bill of several tables about the same people, given what is published of each.

    The promise of `mechanism` is for all of them together, whatever the number of a person's rows.
    """
    _check_protected([name for schema in schemas.values() for name in schema.names], terms)
    unit = mechanism.unit
    claim = ReleaseClaim(mechanism.promise, unit.neighbours, unit.rows, bounded=True)
    read = dict.fromkeys(name for schema in schemas.values() for name in schema.from_data)
    parameters = {
        **mechanism.parameters,
        "attributes": {
            name: [each.name for each in schema.published] for name, schema in schemas.items()
        },
    }
    weakness = _seeded(seeded) or _read_from_data(list(read))
    return _bill(mechanism.name, parameters, [claim], terms, weakness, "")


def _bill(
    method: str,
    parameters: Mapping[str, Any],
    claims: Sequence[ReleaseClaim],
    terms: LedgerTerms,
    reason: str,
    shown: str,
) -> Bill:
    """Return the bill of the cheapest claim in the ledger's terms, or of none, with the reason."""
    promise = "; ".join(map(str, claims)) or "none that adds up"
    fitting = [each for each in claims if (terms.neighbours, each.neighbours) in _STEPS]
    if not reason and claims and not fitting:
        reason = (
            f"The promise is about {_WORDS[claims[0].neighbours]}, from which nothing follows about"
            f" {_WORDS[terms.neighbours]}."
        )
    if not reason and shown and all(each.neighbours == "values" for each in fitting):
        reason = shown
    if reason:
        return Bill(method, parameters, promise, None, reason)
    costs = [
        (group_loss(each.loss, _number_of_steps(each, terms)), _conversion(each, terms))
        for each in fitting
    ]
    cost, how = min(costs, key=lambda pair: pair[0].as_rho)
    return Bill(method, parameters, promise, cost, how)


def _number_of_steps(claim: ReleaseClaim, terms: LedgerTerms) -> int:
    """Steps between neighbours of the ledger: those of the relation times those of the rows."""
    return _STEPS[terms.neighbours, claim.neighbours] * _steps_of_rows(claim, terms)


def _steps_of_rows(claim: ReleaseClaim, terms: LedgerTerms) -> int:
    return 1 if claim.bounded else -(-terms.contribution // claim.rows)


def _conversion(claim: ReleaseClaim, terms: LedgerTerms) -> str:
    """How the promise was converted, in a sentence; empty if it was not."""
    found = []
    if _STEPS[terms.neighbours, claim.neighbours] > 1:
        found.append("a person who changes is one who leaves and one who comes")
    if _steps_of_rows(claim, terms) > 1:
        found.append(
            f"the promise is for {claim.rows} of up to {terms.contribution} rows of a person"
        )
    if not found:
        return ""
    times = _number_of_steps(claim, terms)
    factor = times**2 if claim.loss.rho else times
    also = " (δ grows by more)" if claim.loss.delta else ""
    return f"{factor} times the promised loss{also}: {'; '.join(found)}."


# --- what a mechanism promises -------------------------------------------------------------------


def _claims(mechanism: Mechanism, schema: Schema) -> tuple[list[ReleaseClaim], str]:
    """Return the promises whose losses add up; if there are none, the reason."""
    if isinstance(mechanism, ProtectedSummary):
        unit = mechanism.unit
        bounded = unit.column is not None
        return [ReleaseClaim(mechanism.promise, unit.neighbours, unit.rows, bounded)], ""
    stated = mechanism.guarantee(schema)
    found = [
        ReleaseClaim(loss, _RELATIONS[each.neighbourhood])
        for each in _losses(stated)
        if (loss := mechanism.charged_loss(each)) is not None
    ]
    if found or mechanism.not_charged:
        return found, "" if found else mechanism.not_charged
    words = " and ".join(dict.fromkeys(each.statement for each in stated)) or "nothing in numbers"
    return [], f"It promises {words}, which is no loss that adds up to others."


def _sampled(
    claim: ReleaseClaim, mechanism: Mechanism, schema: Schema, sample: Sample
) -> ReleaseClaim:
    """The claim for a sample. A ρ is charged as the (ε, δ) that it keeps: no ρ follows from it."""
    loss = claim.loss
    if loss.rho:
        [stated, *_] = mechanism.guarantee(schema)
        loss = mechanism.charged_loss(stated) or loss
    epsilon, delta = sample.loss(loss.epsilon, loss.delta)
    return replace(claim, loss=PrivacyLoss(epsilon, delta=delta))


def _losses(stated: Sequence[Guarantee]) -> list[Guarantee]:
    return [
        each
        for each in stated
        if each.statement in _UNCONDITIONAL and each.scope == "the whole release"
    ]


# --- weaknesses that no loss covers ---------------------------------------------------------------


def _weakness(mechanism: Mechanism, schema: Schema, outside: str, seeded: bool) -> str:
    names = mechanism.named_columns or schema.names  # `within` of Keys is one of them
    found = _seeded(seeded) or _read_from_data([n for n in schema.from_data if n in names])
    if not found and outside == "drop" and isinstance(mechanism, Publisher):
        return (
            "Rows with a value outside its domain are left out, and that somebody is missing tells "
            "about that person: extend the domain, or have such values read as missing."
        )
    return found


def _seeded(seeded: bool) -> str:
    return "It is made with a fixed seed, and is not private." if seeded else ""


def _read_from_data(names: Sequence[str]) -> str:
    if not names:
        return ""
    return (
        f"The domain of {', '.join(names)} was read from the private data, which no loss covers: "
        "check it, and delete the mark `from_data` in the schema."
    )


def _check_protected(names: Sequence[str], terms: LedgerTerms) -> None:
    """Raise `LedgerError` if the schema, with these names, lacks a column that the ledger protects.

    A misspelled name would protect nothing, and the column that was meant would be published.
    """
    absent = [name for name in terms.sensitive if name not in names]
    if not absent:
        return
    lower = {name.lower() for name in absent}
    near = [repr(name) for name in names if name.lower() in lower]
    hint = f" Upper and lower case count: it has {', '.join(near)}." if near else ""
    raise LedgerError(
        f"The ledger protects {', '.join(map(repr, absent))}, and the schema has no such "
        f"attribute.{hint} Every name in {named('sensitive')} must be an attribute of the schema: "
        "a sensitive one, or an identifier, which is never published."
    )


def _shown(schema: Schema, terms: LedgerTerms) -> str:
    """The reason why a publisher of rows does not protect what the ledger protects, if any.

    Publishers of rows protect sensitive columns only.
    """
    hidden = ("sensitive", "identifier")
    shown = [name for name in terms.sensitive if schema[name].role not in hidden]
    if not shown:
        return ""
    return (
        f"It does not hide {', '.join(shown)}, which the ledger protects: the role in the schema "
        "is not sensitive."
    )

"""Mechanism: the base class of all mechanisms; and functions that find, make and describe them.

A mechanism is its parameters. From them it says what it promises, before any row is read; then it
turns private rows into evidence. Publishers perturb rows one by one and see them; summaries see the
private table only through a meter that charges every measurement.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from fractions import Fraction
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from scumble.families import class_of, mechanism_names
from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Evidence
from scumble.model.notebook import html_list, html_table
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.privacy.guarantee import Guarantee, large_epsilon_warning
from scumble.model.schema.schema import Schema
from scumble.model.schema.toml import Role, nearest
from scumble.model.schema.unit import Unit
from scumble.model.stored import mark_exact
from scumble.private.mechanism_metadata import Claim, ComparisonPreset

if TYPE_CHECKING:
    from scumble.model.privacy.accounting import Neighbours
    from scumble.model.schema.attribute import Attribute
    from scumble.private.meter.table import PrivateTable
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows

# The files of a release with their columns: attributes, and the names of columns of numbers.
Layout = dict[str, "tuple[Attribute | str, ...]"]

# How remarks begin that the shell shows as warnings.
MANY_LEFT_OUT = "A large part of the table is not in this release."
RISES = "Some rare value is"


class Mechanism(ABC):
    """The base class of publishers and summaries.

    A new mechanism derives from Publisher, or from a class in summaries/ that has the protection
    parameters, and is named in the record of its family.
    """

    name: ClassVar[str]
    # Why the auditor has nothing to try, for a mechanism without claims.
    not_audited: ClassVar[str] = ""
    # Why `publish` takes no sample for it; empty if a proof covers it.
    not_sampled: ClassVar[str] = "what it publishes shows who was drawn."
    # Whether it publishes sets or sequences, and not columns with one value per row.
    of_lists: ClassVar[bool] = False
    # Whether it counts every cell of its attributes, and so needs a small domain.
    counts_every_cell: ClassVar[bool] = True
    # The columns that it counts by, and those that it adds up.
    names: Sequence[str] = ()
    sums: Sequence[str] = ()

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The constructor arguments that make an equal mechanism, as JSON values."""

    @property
    def private_record(self) -> bool:
        """Whether a release can be continued, for which its owner keeps a private record."""
        return False

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Raise an error if this mechanism cannot serve the schema. Called before rows are read."""

    # Whether it counts a limited number of rows of each person. Others protect each row by itself.
    limits_rows: ClassVar[bool] = False

    @property
    def names_people(self) -> bool:
        """Whether a parameter names the column of people, and so says what one row stands for."""
        return False

    def stated_unit(self, schema: Schema) -> Unit | None:
        """Return whom a release protects, by the schema or by a parameter."""
        return schema.unit

    def for_unit(self, unit: Unit) -> Mechanism:
        """Return the mechanism that protects this unit. One that protects single rows returns
        itself: its promises say what becomes of them for several rows.
        """
        return self

    def check_reading(self, outside: str) -> None:  # noqa: B027  # most promises hold for all
        """Raise an error if the promise does not hold for rows that are read in this way; `outside`
        is the parameter of `publish`.
        """

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that it counts by and adds up; none if it takes all of a table."""
        return tuple(dict.fromkeys((*self.names, *self.sums)))

    def read_schema(self, schema: Schema) -> Schema:
        """Return the schema by which rows are read: with the derived columns that it names. Some
        mechanisms need amounts in place of bins.
        """
        return schema.with_derived(self.names)

    @abstractmethod
    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        """The promises, from parameters, schema and (where a proof needs it) the public number of
        rows; never from the data.
        """

    def charged_loss(self, stated: Guarantee) -> PrivacyLoss | None:
        """The loss that a ledger charges for a promise of differential privacy: ε and δ of the
        parameters, which are exact, or those of the promise, which are rounded up. None if the
        promise does not cover all that is published.
        """
        exact = dict.fromkeys(("epsilon", "delta"), Fraction(0))
        for name in exact.keys() & stated.parameters.keys():
            asked = self.parameters.get(name)
            claimed = Fraction(stated.parameters[name])
            exact[name] = claimed if asked is None else min(claimed, Fraction(str(asked)))
        return PrivacyLoss(exact["epsilon"], delta=exact["delta"])

    @property
    def not_charged(self) -> str:
        """Why a ledger charges none of the promised losses, if it is not for lack of any."""
        return ""

    def layout(self, schema: Schema) -> Layout:
        """The columns of each file of a release, from parameters and schema. Empty if there is one
        file, whose columns have the same names for every schema.
        """
        return {}

    def achieved(self, schema: Schema, evidence: Evidence) -> tuple[Guarantee, ...]:
        """The promises of this evidence; overridden where a proof depends on what was published."""
        return self.guarantee(schema, evidence.rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Facts about the evidence for its readers, computed from what is published."""
        return {}

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Sentences about the errors to expect, where parameters and schema determine them."""
        return ()

    def sum_outlook(self, schema: Schema, rows: int) -> tuple[str, ...]:
        """Sentences about the errors of averages to expect in a table of `rows` rows."""
        return ()

    def expected_error(self, schema: Schema, rows: int) -> float | None:
        """The standard error of a count of a tenth of `rows` rows, by a formula of parameters and
        schema. The condition holds for a tenth of the values of an attribute. None where no
        formula gives it: `expectation.py` then tries the mechanism on made-up rows.
        """
        return None

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Warnings for the owner before rows are read, from parameters and schema."""
        first = self.guarantee(schema)[0]  # what was asked for; others only follow from it
        found = (
            large_epsilon_warning(first.parameters.get("epsilon", 0))
            if "DP" in first.statement
            else ""
        )
        return (found,) if found else ()

    def noticed(self, schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
        """Remarks for the owner about the evidence, computed from what is published."""
        return ()

    # What the comparison, the conformance suite and the auditor ask of the class.

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        """The parameters that a comparison gives besides that for ε."""
        return {}

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        """The parameters that expose people about as much as ε-DP does."""
        return {"epsilon": epsilon}

    @classmethod
    def made_for(cls, epsilon: float, study: ComparisonPreset) -> Mechanism:
        """The mechanism that a comparison uses for ε."""
        return create(cls.name, **cls.needs(study), **cls.settings(epsilon, study))

    @classmethod
    @abstractmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        """The promises of differential privacy that the auditor tries to break. A publisher has
        the same ones for all `neighbours`.
        """

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.parameters.items())
        return f"{type(self).__name__}({given})"

    def _repr_html_(self) -> str:
        does = " ".join((getdoc(type(self)) or "").partition("\n\n")[0].split())
        rows = [
            [name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)]
            for name, value in self.parameters.items()
            if value is not None and value != []
        ]
        return html_list(type(self).__name__, [does]) + html_table(["parameter", "value"], rows, 1)


class Publisher(Mechanism):
    """Perturbs rows. The evidence has the columns of the table."""

    # The roles of columns that are published as they are: numbers have amounts there, not bins.
    unchanged: ClassVar[tuple[Role, ...]] = ("quasi", "insensitive")

    def read_schema(self, schema: Schema) -> Schema:
        return super().read_schema(schema).with_amounts(self.unchanged)

    @abstractmethod
    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Evidence:
        """Write the perturbed rows into `folder`, and return the evidence."""

    def layout(self, schema: Schema) -> Layout:
        return {"records.parquet": schema.published}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(create(cls.name, epsilon=1), 1)


class Summary(Mechanism):
    """Measures the private table under one promise for the whole release."""

    # Whether what is measured depends on the data, and not on parameters and schema alone.
    data_dependent: ClassVar[bool] = False
    # Whether it is made for ranges of ordered attributes, and so takes part in DPBench.
    for_ranges: ClassVar[bool] = False

    @property
    @abstractmethod
    def promise(self) -> PrivacyLoss:
        """The privacy loss of all measurements together, at most."""

    @abstractmethod
    def measure(self, table: PrivateTable, folder: Path) -> Evidence:
        """Measure the table, write the numbers into `folder`, and return the evidence."""


def mechanisms() -> dict[str, type[Mechanism]]:
    """All mechanism classes by their names on the command line."""
    return {name: class_of(name) for name in mechanism_names()}


def mechanism_class(name: str) -> type[Mechanism] | None:
    """The mechanism class of this name; the modules of others are not imported."""
    return class_of(name) if name in mechanism_names() else None


def cautions_of(mechanism: Mechanism, schema: Schema) -> tuple[str, ...]:
    """Warnings for the owner before rows are read: those of the mechanism, and what is clamped."""
    return (*mechanism.cautions(schema), *schema.clamped(mechanism.named_columns or None))


def protect_unit(mechanism: Mechanism, schema: Schema) -> Mechanism:
    """Return the mechanism that protects whom the schema says; refuse a schema that has an
    identifier and does not say it, unless the mechanism does, and numbers without limits.
    """
    schema.check_limits(mechanism.named_columns or None)
    if schema.unit is not None:
        return mechanism.for_unit(schema.unit)
    if not mechanism.names_people:
        schema.check_unit()
    return mechanism


def named_mechanism(name: str) -> type[Mechanism]:
    """The mechanism class of this name; raise ParameterError if there is none."""
    known = mechanism_names()
    if name not in known:
        refused = ParameterError.of("publish", "method", f"one of {', '.join(known)}", name)
        raise ParameterError(f"{refused}{nearest(name, known)}")
    found: type[Mechanism] = class_of(name)
    return found


def create(name: str, **parameters: Any) -> Mechanism:
    """Make the mechanism of this name; raise ParameterError for unknown or missing parameters.

    Its numbers may be exact text, as the manifest of a release and the command line have them.
    """
    mechanism = named_mechanism(name)
    if parameters.get("several") in ("each", "compound"):  # what `joint` was before
        parameters["joint"] = parameters.pop("several") == "compound"
    known = [p for p in signature(mechanism.__init__).parameters.values() if p.name != "self"]
    names = [p.name for p in known]
    unknown = [given for given in parameters if given not in names]
    missing = [p.name for p in known if p.default is p.empty and p.name not in parameters]
    if unknown or missing:
        wrong = f"does not take {', '.join(unknown)}" if unknown else f"needs {', '.join(missing)}"
        raise ParameterError(f"The method '{name}' {wrong}. It takes {', '.join(names)}.")
    exact = {p.name for p in known if "float" in str(p.annotation)}
    given = {name: mark_exact(v) if name in exact else v for name, v in parameters.items()}
    return mechanism(**given)


@dataclass(frozen=True)
class ParameterInfo:
    """One parameter of the constructor of a mechanism.

    `text` is its line in the section `Parameters:` of the docstring of the class, or of the base
    class that declares it. Names of other parameters stand in backticks. `default` is
    `inspect.Parameter.empty` if the parameter is required.
    """

    name: str
    annotation: Any
    default: Any
    text: str

    @property
    def required(self) -> bool:
        return self.default is Parameter.empty


def constructor_parameters(kind: type[Mechanism]) -> tuple[ParameterInfo, ...]:
    """The parameters of a mechanism, with resolved annotations and their descriptions.

    The command line, the documentation pages and the type stubs are made from them.
    """
    texts: dict[str, str] = {}
    for base in kind.__mro__:
        texts = {**_described(base), **texts}
    hints = get_type_hints(kind if is_dataclass(kind) else kind.__init__)
    return tuple(
        ParameterInfo(name, hints[name], each.default, texts[name])
        for name, each in signature(kind).parameters.items()
    )


# A parameter whose name means something else in another method has an option of its own.
_OPTIONS = {
    ("frapp", "k"): "prior-multiple",
    ("alphabeta", "k"): "prior-multiple",
    ("generalise", "suppress"): "suppress-share",
    ("generalise", "weights"): "column-weights",
    ("keys", "within"): "within-column",
}


def option_name(method: str, parameter: str) -> str:
    """The option of `scumble publish METHOD` that gives a parameter, without its dashes."""
    return _OPTIONS.get((method, parameter), parameter.replace("_", "-"))


def _described(base: type) -> dict[str, str]:
    """The section `Parameters:` of a docstring: one line `name: text` each, which may go on in
    lines that are indented further.
    """
    text = getdoc(base) if "__doc__" in vars(base) else None
    section = re.search(r"^Parameters:\n((?:    .*(?:\n|$))+)", text or "", re.MULTILINE)
    if section is None:
        return {}
    joined = re.sub(r"\n {5,}", " ", section[1])
    lines = (line.strip().partition(": ") for line in joined.splitlines())
    return {name: said for name, _, said in lines}

"""Advice on methods and settings, with their expected errors, from the schema alone.

Errors are closed forms for one kind of question: how many rows of a given share of the table have
one sensitive value, if all values are equally frequent.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from scumble.compare.selection import format_parameter, select
from scumble.families import class_of, load
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.evidence.channels import SubsetLaw
from scumble.model.parameters import whole
from scumble.model.privacy.guarantee import (
    gamma_for_epsilon,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
    read_epsilon,
    read_share,
)
from scumble.model.schema.schema import Schema
from scumble.private.perturbation.guarantees import NINETEEN, drawn_error, shown_error

Publish = Literal["rows", "summaries", "answers"]
EPSILONS = (0.5, 1.0, 2.0, 3.0)
_ANSWERED = (10, 100)  # numbers of questions about the same people that a database should answer
_MOST_K = 1024


@dataclass(frozen=True)
class ExampleCount:
    """A count over a share of the rows, of one sensitive value."""

    rows: int
    part: float
    values: int

    @property
    def asked(self) -> float:
        """The number of rows that satisfy the condition on the other columns."""
        return self.rows * self.part

    @property
    def count(self) -> float:
        """The expected count."""
        return self.asked / self.values

    @property
    def words(self) -> str:
        """A sentence that explains the count."""
        part = f"a condition that {_percent(self.part)} of {self.rows:,} rows meet"
        if self.values > 1:
            part += f", for one of {self.values} sensitive values that are equally frequent"
        return f"The count of {self.count:,.0f} below stands for any question like this: {part}."


@dataclass(frozen=True)
class Advice:
    """A method with a setting.

    `posterior` is the highest posterior of the attacker's prior. It is None if there is no limit;
    then `success` is the probability of the best guess if all values are equally likely.
    """

    method: str
    setting: str
    error: float | None
    posterior: float | None
    success: float | None
    private: bool  # differentially private
    reason: str
    command: str
    restricted: bool = False  # the posterior is for priors that are the table's own shares
    unknown: str = "the error depends on the table: see `scumble compare`"

    def sentence(self, question: ExampleCount, prior: float) -> str:
        """Say in a sentence what the setting means for the attacker and for the error."""
        if self.posterior is not None:
            ends = f"can end at most at {percent_at_most(self.posterior)}"
            learns = f"an attacker who gave {percent_at_least(prior)} to a value {ends}"
            if self.restricted:
                learns = (
                    f"for a value that at most {percent_at_least(prior)} of the rows have, an "
                    f"attacker who knows how frequent each value is, and nothing else, {ends}"
                )
        else:
            guess = (
                f"one who knows nothing names the value with {percent_at_most(self.success or 0)}"
            )
            learns = (
                f"there is no limit for an attacker who gave {percent_at_least(prior)}; {guess}"
            )
        if self.error is None:
            return f"{learns}; {self.unknown}"
        return (
            f"{learns}; a count of {question.count:,.0f} will be within "
            f"±{NINETEEN * self.error:,.0f} nineteen times in twenty"
        )


def advise(
    schema: Schema,
    *,
    rows: int,
    publish: Publish,
    attacker_prior: float,
    epsilon: Sequence[float] | None = None,
    part: float = 0.1,
    attributes: Sequence[str] | None = None,
    table: str = "TABLE",
) -> tuple[ExampleCount, list[Advice]]:
    """Return an example count and a list of settings, in the order of ε.

    Among settings with the same promise those with smaller errors come first.

    `publish` says what is to be published, `attacker_prior` is the prior whose highest posterior is
    computed, and `part` is the share of the rows that the example count is about.
    """
    if publish not in get_args(Publish):
        allowed = "'rows', 'summaries' or 'answers'"
        raise ParameterError.of("advise", "publish", allowed, publish)
    names = list(attributes) if attributes else _usual(schema)
    one = len(schema.sensitive) == 1
    if publish == "rows" and not one:
        raise SchemaError(
            f"Advice is about tables with one sensitive attribute; the schema has "
            f"{len(schema.sensitive)}. Give one of them the role sensitive."
        )
    prior = read_share("advise", "attacker_prior", attacker_prior)
    named = one and (publish != "summaries" or schema.sensitive[0].name in names)
    values = schema.sensitive[0].size if named else 1
    count = whole("advise", "rows", rows, least=1)
    question = ExampleCount(count, float(read_share("advise", "part", part)), values)
    losses = sorted(read_epsilon("advise", each) for each in (epsilon or EPSILONS))
    makers = {"rows": _rows, "summaries": _summaries, "answers": _answers}
    found = [
        each
        for step in losses
        for each in makers[publish](schema, question, step, prior, names, table)
    ]
    return question, _once(found)


def _once(found: Sequence[Advice]) -> list[Advice]:
    """Drop repeated settings: one that is listed for several ε is kept for the smallest."""
    firsts: dict[str, Advice] = {}
    for each in found:
        firsts.setdefault(each.command, each)
    return list(firsts.values())


def _usual(schema: Schema) -> list[str]:
    """Return the first attribute and the first sensitive one."""
    secret = [attribute.name for attribute in schema.sensitive][:1]
    others = [attribute.name for attribute in schema.published if attribute.name not in secret]
    return [*others[:1], *secret]


def _rows(
    schema: Schema,
    question: ExampleCount,
    epsilon: Fraction,
    prior: Fraction,
    _: Sequence[str],
    table: str,
) -> Iterator[Advice]:
    gamma, values = gamma_for_epsilon(epsilon), question.values
    ends = float(posterior_at_most(prior, gamma))
    law: SubsetLaw = class_of("subset")(epsilon=epsilon).law(schema)
    local = [
        ("uniform", uniform_error(question, gamma), "keeps or replaces each value: simplest"),
        (
            "subset",
            subset_error(question, law),
            f"shows {law.size} of {values} values for each row",
        ),
    ]
    for name, error, reason in sorted(local, key=lambda each: each[1]):
        setting = f"ε = {float(epsilon):g}"
        command = publish_command(table, name, epsilon=format_parameter(float(epsilon)))
        yield Advice(name, setting, error, ends, None, True, reason, command)
    success = float(gamma / (gamma + values - 1))
    if (k := aroma_k_for(success, values)) is not None:
        error = aroma_error(question, k)
        like = f"at least as hard to guess blindly as ε = {float(epsilon):g}"
        reason = f"{like}, but values that a row does not show are excluded"
        command = publish_command(table, "aroma", k=k)
        yield Advice("aroma", f"k = {k}", error, None, _guessed(k, values), False, reason, command)
    if prior < Fraction(ends):
        reason = (
            "splits the table by value: does not protect values that more than "
            f"{percent_at_least(prior)} of the rows have; is nothing but uniform where sub-tables "
            "do not lower the bound of the error, which publish says"
        )
        rho2 = math.ceil(1000 * ends) / 1000
        command = publish_command(table, "partition", rho1=float(prior), rho2=rho2)
        setting = f"ρ2 = {rho2:g}"
        yield Advice("partition", setting, None, rho2, None, False, reason, command, True)
    if schema.quasi:
        k = max(2, math.ceil(1 / success))
        reason = (
            f"makes groups of {k} or more who look alike: where all of a group have the same value "
            "it is told, and what the best guess is on average depends on the table"
        )
        command = publish_command(table, "generalise", k=k)
        yield Advice("generalise", f"k = {k}", None, None, 1.0, False, reason, command)


def _summaries(
    schema: Schema,
    question: ExampleCount,
    epsilon: Fraction,
    prior: Fraction,
    names: Sequence[str],
    table: str,
) -> Iterator[Advice]:
    ends = float(posterior_at_most(prior, gamma_for_epsilon(epsilon)))
    cells = schema.size(names)
    asked = cells * question.part / question.values
    share = min(max(asked, 1) / cells, 1.0)  # of the noise of the total, which is known
    error = math.sqrt(max(asked, 1) * (1 - share) * histogram_variance(epsilon))
    listed = ",".join(names)
    more = {
        "attributes": listed,
        "neighbours": "replace",
        "epsilon": format_parameter(float(epsilon)),
    }
    reason = (
        f"a noisy count for each of {cells:,} cells; the error is for {max(asked, 1):,.0f} of them"
    )
    setting = f"ε = {float(epsilon):g}"
    command = publish_command(table, "histogram", **more)
    yield Advice("histogram", setting, error, ends, None, True, reason, command)
    chosen = select(schema, names, rows=question.rows, epsilon=float(epsilon), neighbours="replace")
    if chosen.method != "histogram":
        reason = chosen.reasons[0].rstrip(".") if chosen.reasons else "the choice for ranges"
        command = publish_command(table, chosen.method, **more)
        words = "see `scumble select` for its error"
        yield Advice(chosen.method, setting, None, ends, None, True, reason, command, unknown=words)


def _answers(
    _: Schema,
    __: ExampleCount,
    epsilon: Fraction,
    prior: Fraction,
    ___: Sequence[str],
    table: str,
) -> Iterator[Advice]:
    """Yield settings of the database: more questions about the same people need more noise."""
    ends = float(posterior_at_most(prior, gamma_for_epsilon(epsilon)))
    for answered in _ANSWERED:
        scale = math.ceil(200 * answered / float(epsilon)) / 100
        others = "many more about different ones; then relaxed answers"
        reason = f"{answered} questions about the same people, {others}"
        options = f"--epsilon {format_parameter(float(epsilon))} --noise {scale:g}"
        command = f"scumble db create db {shlex.quote(table)} --schema SCHEMA {options}"
        setting = f"ε = {float(epsilon):g}, λ = {scale:g}"
        error = math.sqrt(2) * scale
        yield Advice("database", setting, error, ends, None, True, reason, command)


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


# --- closed forms --------------------------------------------------------------------------------


def uniform_error(question: ExampleCount, gamma: Fraction) -> float:
    """Return the standard error of a count by uniform perturbation with amplification `gamma`."""
    other = float(1 / (gamma + question.values - 1))
    return _error(question, float(gamma) * other, other)


def subset_error(question: ExampleCount, law: SubsetLaw) -> float:
    """Return the standard error of a count by subsets with this law."""
    return _error(question, float(law.inclusion), float(law.chance))


def _error(question: ExampleCount, own: float, other: float) -> float:
    """Return the error if rows with the value show it with probability `own`, else `other`."""
    return shown_error(question.count, question.asked, own, other)


def aroma_error(question: ExampleCount, k: int) -> float:
    """Return the standard error of a count by Aroma: k - 1 draws beside the true value of a row."""
    return drawn_error(question.asked, k - 1, 1 / question.values)


def histogram_variance(epsilon: Fraction) -> float:
    """Return the variance of one cell of a histogram whose neighbours replace one person."""
    decay = math.exp(-float(epsilon) / 2)
    return 2 * decay / (1 - decay) ** 2


def aroma_k_for(success: float, values: int) -> int | None:
    """Return the least k of Aroma whose exposure is at most `success`; None if it is very large."""
    k: int | None = load("aroma", "check").least_even_k(success, values, _MOST_K)
    return k


def _guessed(k: int, values: int) -> float:
    return float(load("aroma", "check").even_exposure(k, values))


def publish_command(table: str, method: str, *, schema: str = "SCHEMA", **options: Any) -> str:
    """Return the command that publishes a table with these options; an option True is a flag."""
    listed = " ".join(
        f"--{name}" if value is True else f"--{name} {value}" for name, value in options.items()
    )
    source = f"{shlex.quote(table)} --schema {shlex.quote(schema)}"
    return f"scumble publish {method} {source} {listed} -o view"

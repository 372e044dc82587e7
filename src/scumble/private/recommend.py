"""`recommend`: the method to publish with, from the schema, the use and the promise. No row is read
and no budget is spent.

Methods whose noise does not depend on the data are ranked by the closed forms of their errors, for
three typical questions; where there are amounts of money, their sums are measured beside the
counts. Partitions that follow the data are ranked by a fit to DPBench, by half of
the 95 % interval with what cut boxes leave open; `python -m research honest` says how often that is
right.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from scumble.families import class_of, load, mechanism_names
from scumble.model.designs.kronecker import Product
from scumble.model.designs.residuals import Residuals, ResidualSolver, sum_error
from scumble.model.designs.tree import tree_plan
from scumble.model.errors import ParameterError, SchemaError, ScumbleError, large, named
from scumble.model.laws.base import normal_quantile
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit, rho_for
from scumble.model.privacy.guarantee import (
    NEIGHBOURS,
    at_most,
    gamma_above_epsilon,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
    read_delta,
    read_epsilon,
    read_share,
)
from scumble.model.schema.amounts import Amounts
from scumble.model.schema.numbers import Number
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.private.database.live.terms import (
    BASE_SHARE,
    LARGEST_PURCHASE,
    UNITS,
    LiveTerms,
    base_of,
    bases_of,
)
from scumble.private.mechanism import Mechanism, create, option_name
from scumble.private.mechanism_metadata import PRIOR
from scumble.private.perturbation.guarantees import NINETEEN, shown_error
from scumble.private.summaries.base import product_moments
from scumble.private.summaries.sums import SumSummary, share_of_counts
from scumble.public.estimation.interval_laws import noise_half_width
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from scumble.public.estimation.measurements.scales import ScaleReader, Scales

Use = Literal["questions", "rows", "tables", "live"]

USES: Mapping[Use, str] = {
    "questions": "Others ask questions about what you publish: counts, averages, ranges.",
    "rows": "Others need rows, for their own tools.",
    "tables": "You print tables in a publication.",
    "live": "Others ask questions one after the other, while the table stays with you.",
}
DATABASE = "database"  # what `scumble db create` makes; it is not a mechanism of `publish`
TYPICAL_ROWS = 10_000  # of a table whose number of rows is private

_MOST_CELLS = 10**7  # of one table of all attributes; and of all pairs, to choose the attributes
_MOST_FOLLOWED = 2  # attributes of a partition that follows the data: more were not measured
_SMALL, _LITTLE_NOISE = 128, 0.1  # cells that are not partitioned; share of the rows
_SPARSE = 100  # cells per row from which a table counts as sparse
_MOST_ALTERNATIVES = 4
_WIDER = 2.0  # times the error that is worth it, if more questions are answered
_LEVEL = 0.95
_SUGGESTED_DELTA = 100  # a delta of 1/(100 rows) is suggested
_ANSWERS = (10, 100)  # of a database about one person, at least and at most
_FEW = 50  # answers about everybody, at most, that count as few
_TELLING = 0.01  # share of the rows that a useful answer may be off by
_MOST_AMOUNTS = 1000  # that are counted one by one; of more there are sums alone
_MOST_SUMS = 3  # columns that share what is spent on sums
_WITH_SUMS = ("questions", "tables")  # uses that ask for averages of a release
_NARROW = 3  # columns that are always published together, however large the error
_TELLING_AMOUNT = 0.005  # share of the limits that a useful average may be off by
_TENTH = 0.1  # share of what it counts that a useful answer may be off by, if that is more
_WIDE = 20  # times the scale of the noise beside which a tail counts as nothing

Floats = npt.NDArray[np.float64]


# --- what is asked, and what is advised -----------------------------------------------------------


@dataclass(frozen=True)
class CareLevel:
    """How careful to be with each person: a word, the ε that it stands for, and what ε means."""

    name: str
    epsilon: float
    sentence: str

    @classmethod
    def of(cls, name: str, epsilon: float) -> CareLevel:
        """Return the level with the sentence that follows from `epsilon`."""
        end = posterior_at_most(PRIOR, gamma_above_epsilon(Fraction(str(epsilon))))
        return cls(
            name,
            epsilon,
            f"Someone who already believed a guess with {percent_at_least(PRIOR)} can reach at "
            f"most {percent_at_most(end)}.",
        )


CARE_LEVELS = (
    CareLevel.of("careful", 0.46),
    CareLevel.of("balanced", 1.0),
    CareLevel.of("open", 2.0),
)


@dataclass(frozen=True)
class ExpectedError:
    """A typical question, about how many rows it is about, and how far the answer may be off,
    nineteen times in twenty. `half_width` is None if that depends on the table. It asks for the
    number of these rows, or for their average of the column `average`.
    """

    question: str
    count: float
    half_width: float | None
    average: str = ""

    def __str__(self) -> str:
        count = f"{self.question} (about {self.count:,.0f} rows)"
        if self.half_width is None:
            return f"{count}: depends on the table; scumble compare measures it"
        return f"{count}: ±{_round(self.half_width)}" if self.half_width else f"{count}: exact"


@dataclass(frozen=True)
class Recommendation:
    """A method with its parameters. `reason` says why it is the first choice, or why it is not.

    `errors` has three typical counts, the same ones for all methods, and an average of each column
    whose sums are measured.
    """

    method: str
    parameters: Mapping[str, Any]
    reason: str
    errors: tuple[ExpectedError, ...] = field(default=())

    @property
    def setting(self) -> str:
        """The promise, as "ε = 1, δ = 1e-06"."""
        promise = f"ε = {at_most(read_epsilon('recommend', self.parameters['epsilon']))}"
        delta = self.parameters.get("delta")
        return promise if delta is None else f"{promise}, δ = {delta:g}"

    def mechanism(self) -> Mechanism:
        """Return the mechanism for `publish`."""
        if self.method == DATABASE:
            raise ParameterError(
                "A database is not published: make it by sc.Database.create, or scumble db create."
            )
        return create(self.method, **self.parameters)

    def command(self, source: str = "TABLE", schema: str = "SCHEMA", output: str = "FOLDER") -> str:
        """Return the shell command that publishes, or that makes the database."""
        if self.method != DATABASE:
            return publish_command(source, self.method, self.parameters, schema, output)
        words = ["scumble", "db", "create", output, source, "--schema", schema]
        return shlex.join([*words, *_options(self.method, self.parameters)])


@dataclass(frozen=True)
class Advice:
    """What to publish with: the best method, at most four alternatives with the reasons why they
    are not the first, and all other methods with the reasons why they are not recommended.
    """

    best: Recommendation
    alternatives: tuple[Recommendation, ...]
    not_recommended: Mapping[str, str]

    def __str__(self) -> str:
        return self.text()

    def text(
        self,
        source: str = "TABLE",
        schema: str = "SCHEMA",
        output: str = "FOLDER",
        *,
        reasons: bool = False,
    ) -> str:
        """Return the advice for people to read, with the names that the command shall have; with
        `reasons` also why all other methods are not recommended.
        """
        lines = [f"Recommended: {self.best.method} ({self.best.setting})", f"  {self.best.reason}"]
        lines += ["  Expected error, 19 times in 20:"]
        lines += [f"    {error}" for error in self.best.errors]
        lines += [f"  {self.best.command(source, schema, output)}"]
        if self.alternatives:
            lines += ["Alternatives:"]
        for choice in self.alternatives:
            lines.append(f"  {choice.method} ({choice.setting}): {choice.reason}")
        if not reasons:
            return "\n".join(lines)
        lines += ["Not recommended here:"]
        grouped = _grouped(self.not_recommended)
        lines += [f"  {', '.join(names)}: {reason}" for reason, names in grouped.items()]
        return "\n".join(lines)


def recommend(
    schema: Schema | str | Path,
    *,
    rows: int,
    use: Use = "questions",
    epsilon: float,
    delta: float | None = None,
    attributes: Sequence[str] | None = None,
    queries: Path | Sequence[str] | None = None,
    neighbours: Neighbours = "replace",
    occupied: float | None = None,
) -> Advice:
    """Return the method that fits a table, its use and a promise.

    `rows` is the approximate number of rows, and `use` one of `USES`. `attributes` are the columns
    to publish. By default they are all that fit; of more than three, the sensitive ones and then
    those with the fewest values, as many as leave the typical answers useful: off by at most a
    tenth of what they count, or by 1 % of the rows. `queries` are the SQL counts that will
    be asked, as the path of a file or a list. `neighbours` is what is hidden: what the rows of a
    person say ("replace"), or also that they are there ("add_remove"). `occupied` is the
    approximate share of the cells that have rows, where it is publicly known, as for a map that is
    mostly sea. Do not compute it from the data: a choice that depends on them is not covered by the
    promise. Of columns of the type number, at most three, sums are measured beside the counts if
    questions are asked or tables are printed, for averages of money. Who is protected, a row or a
    person with several rows, is read from the schema.
    """
    if use not in get_args(Use):
        raise ParameterError.of("recommend", "use", f"one of {', '.join(USES)}", use)
    if isinstance(queries, str):  # which may have come over a network: not the name of a file
        allowed = "a list of SQL counts, or a pathlib.Path"
        raise ParameterError.of("recommend", "queries", allowed, queries)
    known = schema if isinstance(schema, Schema) else Schema.load(schema)
    names, sums, left_out = _attributes(known, attributes, use, summed=queries is None)
    case = _Case(known, rows, epsilon, delta, names, sums, neighbours, occupied)
    case.left_out = left_out
    choose: Mapping[Use, Callable[[_Case, Any], _Choices]] = {
        "questions": _for_questions,
        "rows": _for_rows,
        "tables": _for_tables,
        "live": _for_live,
    }
    first, *others = choose[use](case, queries)
    published = case
    wide = attributes is None and len(case.names) > _NARROW
    if wide and first.method != DATABASE and not case.suits(first):
        published, [first, *others] = _fewer_columns(
            case, first, lambda some: choose[use](some, queries)
        )
    best = replace(first, reason=" ".join([first.reason, *published.remarks(first)]))
    alternatives = tuple(_distinct(best, others)[:_MOST_ALTERNATIVES])
    named = {best.method, *(choice.method for choice in alternatives)}
    reasons = _reasons(case)
    left = {name: reasons[name] for name in (*mechanism_names(), DATABASE) if name not in named}
    return Advice(best, alternatives, left)


_Choices = list[Recommendation]


def _fewer_columns(
    case: _Case, first: Recommendation, choose: Callable[[_Case], _Choices]
) -> tuple[_Case, _Choices]:
    """Return the case with fewer columns, and what is chosen for it: first the sensitive columns,
    then as many of the others, from the one with the fewest values on, as leave the typical answers
    useful.

    `first` is the choice for all columns, which stays as the first alternative.
    """
    secret = {name for name in case.names if case.schema[name].role == "sensitive"}
    names = sorted(case.names, key=lambda name: (name not in secret, case.sizes[name]))
    fewest, most = max(_NARROW, len(secret)), len(names)
    while fewest + 1 < most:  # more columns have more error
        number = (fewest + most) // 2
        some = case.select(names[:number])
        fewest, most = (number, most) if some.suits(choose(some)[0]) else (fewest, number)
    kept = case.select([name for name in case.names if name in names[:fewest]])
    worst = max(_counts(first), key=lambda error: (error.half_width or 0) / case.allowed(error))
    off = (
        f"{worst.question} (about {worst.count:,.0f} of {case.rows:,}) may be off by "
        f"{_round(worst.half_width or 0)}"
    )
    why = (
        f"with all {len(names)} columns a count of {off}. To keep one, drop others, or name the "
        f"columns to publish ({named('attributes')}): the sensitive columns are taken, and then "
        "those with the fewest values"
    )
    left = [name for name in case.names if name not in kept.names]
    kept.left_out = {**case.left_out, **dict.fromkeys(left, why)}
    best, *others = choose(kept)
    every = replace(first, reason=f"It publishes all {len(names)} columns; a count of {off}.")
    return kept, [best, every, *others]


def _distinct(best: Recommendation, others: _Choices) -> _Choices:
    """Return the others without repetitions."""
    distinct: _Choices = []
    for choice in others:
        taken = [(other.method, other.parameters) for other in [best, *distinct]]
        if (choice.method, choice.parameters) not in taken:
            distinct.append(choice)
    return distinct


# --- commands -------------------------------------------------------------------------------------


def publish_command(
    source: str, method: str, parameters: Mapping[str, Any], schema: str, output: str
) -> str:
    """Return the shell command that publishes a table by a method with these parameters."""
    words = ["scumble", "publish", method, source, "--schema", schema]
    return shlex.join([*words, *_options(method, parameters), "-o", output])


def _options(method: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return parameters as words of a command; a list of SQL counts stands as QUERIES."""
    words = []
    for name, value in parameters.items():
        if value is None or value is False:
            continue
        words.append(f"--{option_name(method, name)}")
        if name == "queries" and isinstance(value, list | tuple):
            words.append("QUERIES")
        elif isinstance(value, list | tuple):
            words.append(",".join(map(str, value)))
        elif value is not True:
            words.append(f"{value:.12g}" if isinstance(value, float) else str(value))
    return words


# --- the table and its typical questions ----------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """A count of the rows that have one of some values, by the number of values of each attribute
    that it asks about.
    """

    words: str
    codes: Mapping[str, int]


class _Case:
    """The public facts about a table, and the parameters of the promise."""

    def __init__(
        self,
        schema: Schema,
        rows: int,
        epsilon: float,
        delta: float | None,
        names: Sequence[str],
        sums: Sequence[str],
        neighbours: Neighbours,
        occupied: float | None,
    ) -> None:
        if neighbours not in NEIGHBOURS:
            allowed = "'replace' or 'add_remove'"
            raise ParameterError.of("recommend", "neighbours", allowed, neighbours)
        self.rows = whole("recommend", "rows", rows, least=1)
        self.strength = read_epsilon("recommend", epsilon)
        self.epsilon, self.delta, self.neighbours = epsilon, delta, neighbours
        self.gaussian = delta is not None
        self.occupied = None
        if occupied is not None:
            share = 1.0 if occupied == 1 else read_share("recommend", "occupied", occupied)
            self.occupied = float(share)
        self.unit = schema.unit or Unit()
        self.names, self.sums = list(names), list(sums)
        self.left_out: Mapping[str, str] = {}
        self.schema = schema.with_derived(self.names)
        self.sizes = {name: self.schema[name].size for name in self.names}
        self.cells = math.prod(self.sizes.values())
        person = PrivacyUnit(neighbours, self.unit.most_rows, self.unit.person)
        self.known_rows = person.keeps_rows  # the release tells their number
        share = Fraction(1)  # that would make counts as accurate as sums make them
        if self.sums:
            share = share_of_counts(2, gaussian=delta is not None)
        self.noise = math.sqrt(2) * person.sensitivity / float(self.strength * share)  # of a count
        if delta is not None:
            rho = rho_for(self.strength, read_delta("recommend", delta))
            square = person.squared_sensitivity(nonnegative_gram=True)
            self.noise = math.sqrt(square / (2 * float(rho * share)))

    @property
    def several(self) -> bool:
        """Whether a person may have several rows."""
        return self.unit.several

    @property
    def ordered(self) -> bool:
        """Whether all attributes are ordered."""
        return all(self.schema[name].ordered for name in self.names)

    @property
    def pair_cells(self) -> int:
        """The number of cells of all tables of two attributes."""
        return _pair_cells(list(self.sizes.values()))

    @property
    def secret(self) -> str | None:
        """The sensitive attribute, if there is one and it is to be published."""
        secret = [attribute.name for attribute in self.schema.sensitive]
        return secret[0] if len(secret) == 1 and secret[0] in self.names else None

    @cached_property
    def questions(self) -> tuple[_Question, ...]:
        """Typical questions: a value, a range, and both together; of one attribute, a value and
        ranges.
        """
        secret = [name for name in self.names if self.schema[name].role == "sensitive"]
        first = [*secret, *self.names][0]
        size = self.sizes[first]
        one = _Question(f"one value of {first}", {first: 1})
        if len(self.names) == 1:
            parts = {math.ceil(size / 4), math.ceil(size / 2)} - {1}
            return one, *(self._about(first, codes) for codes in sorted(parts))
        others = [name for name in self.names if name != first]
        second = max(others, key=lambda name: (self.schema[name].ordered, self.sizes[name]))
        pair = _Question(f"one value of {first} and one of {second}", {first: 1, second: 1})
        return one, self._about(second, math.ceil(self.sizes[second] / 2)), pair

    def _about(self, name: str, codes: int) -> _Question:
        values = "1 value" if codes == 1 else f"{codes:,} values"
        ranged = self.schema[name].ordered and codes > 1
        words = f"a range of {values} of {name}" if ranged else f"{values} of {name}"
        return _Question(words, {name: codes})

    def share(self, question: _Question) -> float:
        """Return the share of the rows that a question counts, if they are spread evenly."""
        return math.prod(codes / self.sizes[name] for name, codes in question.codes.items())

    def select(self, names: Sequence[str]) -> _Case:
        """Return the case of counts by some of the attributes."""
        given = self.rows, self.epsilon, self.delta, names, self.sums
        return _Case(self.schema, *given, self.neighbours, self.occupied)

    # What answers are worth, and what can be published.

    def allowed(self, error: ExpectedError) -> float:
        """Return how far a useful answer may be off."""
        return max(_TENTH * error.count, _TELLING * self.rows)

    def suits(self, choice: Recommendation) -> bool:
        """Return whether the typical counts of a method are useful, as far as that is known."""
        return all(
            error.half_width is None or error.half_width <= self.allowed(error)
            for error in _counts(choice)
        )

    def make(self, method: str, reason: str = "", /, **more: Any) -> Recommendation:
        """Return a method for the attributes with its errors; ScumbleError if it refuses them."""
        given: dict[str, Any] = {"attributes": list(self.names), "epsilon": self.epsilon}
        given["neighbours"] = self.neighbours
        if self.gaussian and method not in _PURE:
            given["delta"] = self.delta
        if self.sums and issubclass(class_of(method), SumSummary):
            return self._with_sums(method, {**given, **more, "sums": self.sums}, reason)
        return self._checked(method, {**given, **more}, reason)

    def _with_sums(self, method: str, given: dict[str, Any], reason: str) -> Recommendation:
        """Return a method with sums by as many attributes together as leave averages useful."""
        found = self._checked(method, given, reason)
        for ways in () if method == "dyadic" else (2, 1):
            if not self._averages_suit(found) and ways < (given.get("ways") or len(self.names)):
                found = self._checked(method, {**given, "sum_ways": ways}, reason)
        return found

    def _averages_suit(self, choice: Recommendation) -> bool:
        """Return whether the typical averages of a method are known to be useful."""
        errors = [error for error in choice.errors if error.average]
        widths = [Amounts.of(self.schema, error.average).width for error in errors]
        return all(
            error.half_width is not None and error.half_width <= _TELLING_AMOUNT * width
            for error, width in zip(errors, widths, strict=True)
        )

    def publisher(self, method: str, reason: str) -> Recommendation:
        """Return a method that perturbs rows, with its errors."""
        return self._checked(method, {"epsilon": self.epsilon}, reason)

    def _checked(self, method: str, parameters: Mapping[str, Any], reason: str) -> Recommendation:
        mechanism = create(method, **parameters)
        if self.unit.person is not None:
            mechanism = mechanism.for_unit(self.unit)
        mechanism.check(self.schema)
        return Recommendation(method, parameters, reason, self._errors(mechanism))

    def candidates(self, *methods: tuple[str, Mapping[str, Any]]) -> _Choices:
        """Return those of some methods that take the attributes."""
        choices = []
        for method, more in methods:
            try:
                choices.append(self.make(method, **more))
            except ScumbleError:
                continue
        return choices

    def remarks(self, best: Recommendation) -> list[str]:
        """Return what the owner should know besides: what is left out, and too much noise."""
        sentences = []
        for reason, names in _grouped(self.left_out).items():
            are = "is" if len(names) == 1 else "are"
            sentences.append(f"{', '.join(names)} {are} left out: {reason}.")
        if sums := best.parameters.get("sums"):
            ways = best.parameters.get("sum_ways")
            sentences.append(
                f"Half of ε is for sums and averages of {', '.join(sums)} by "
                f"{['one column', 'two columns'][ways - 1]} at a time."
                if ways
                else f"The sums and averages of {', '.join(sums)} tell the counts as well."
            )
        second = best.errors[1].half_width if len(best.errors) > 1 else None
        if second is not None and second > max(self.rows / 5, 1):
            sentences.append(
                "The error is large for so few rows: publish fewer columns or coarser values, or "
                "ask for less privacy."
            )
        return sentences

    def _errors(self, mechanism: Mechanism) -> tuple[ExpectedError, ...]:
        counting = mechanism
        if isinstance(mechanism, SumSummary):
            counting = mechanism.forecast_of(self.schema)
        counts = (
            ExpectedError(
                f"rows with {question.words}",
                self.rows * self.share(question),
                self._half_width(counting, question),
            )
            for question in self.questions
        )
        if not isinstance(mechanism, SumSummary):
            return tuple(counts)
        return (*counts, *(self._average_error(mechanism, name) for name in mechanism.sums))

    @cached_property
    def group(self) -> _Question:
        """The group whose average is a typical question: a value of the column with the fewest."""
        name = min(self.names, key=lambda name: (self.sizes[name] < 2, self.sizes[name]))
        return self._about(name, 1)

    def _average_error(self, mechanism: SumSummary, name: str) -> ExpectedError:
        """Return the error of an average that lies a quarter of the limits from their middle."""
        amounts = Amounts.of(self.schema, name)
        found = mechanism.error_of_average(amounts, lambda each: self._half_width(each, self.group))
        count = self.rows * self.share(self.group)
        half = None if found is None else min(found / count, amounts.width)
        return self._of_average(name, half)

    def without_delta(self, answers: int, reason: str) -> Recommendation:
        """Return a database with room for so many answers about everybody, with its errors."""
        noise = math.ceil(200 * answers / float(self.strength)) / 100
        law = DiscreteLaplace(Fraction(str(noise)))
        half = noise_half_width(law.variance, law.fourth, 1.0, _LEVEL)
        errors = tuple(
            ExpectedError(f"rows with {question.words}", self.rows * self.share(question), half)
            for question in self.questions
        )
        errors += tuple(self.live_average(name, noise) for name in self.sums)
        parameters: dict[str, Any] = {"epsilon": self.epsilon, "noise": noise}
        asked = {*self.names, *self.sums}
        if len(asked) < len(self.schema.published):
            parameters["attributes"] = [name for name in self.schema.names if name in asked]
        return Recommendation(DATABASE, parameters, reason, errors)

    def live(self, reason: str) -> Recommendation:
        """Return the live database, with the errors of answers from its base."""
        parameters: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        parameters |= {"neighbours": self.neighbours, "attributes": list(self.names)}
        if self.sums:
            parameters["sums"] = list(self.sums)
        base, *more = bases_of(self._whole, BASE_SHARE, self.sums, self.schema)
        base.check(self.schema)
        errors = self._of_scales([base, *more]) if more else self._errors(base)
        return Recommendation(DATABASE, parameters, reason, errors)

    def _of_scales(self, tables: Sequence[Any]) -> tuple[ExpectedError, ...]:
        """Return the errors of typical counts by a base of several tables."""
        designs = [each.design(self.schema) for each in tables]
        scales = Scales.of(self.names, [(each, np.zeros(each.size)) for each in designs])
        rows = self.rows if tables[0].unit.keeps_rows else None
        reader = ScaleReader(scales, self.schema, rows)
        found = []
        for question in self.questions:
            codes = question.codes.items()
            asked = [WeightTensor((n,), _middle(self.sizes[n], each)) for n, each in codes]
            reading = reader.estimate(Weights(tuple(asked)))
            half = noise_half_width(reading.variance, reading.fourth, reading.largest, _LEVEL)
            count = self.rows * self.share(question)
            words = f"rows with {question.words}"
            found.append(ExpectedError(words, count, min(half, float(self.rows))))
        return tuple(found)

    @property
    def _whole(self) -> Any:
        """What would spend the promise of the live database at once."""
        given = {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours}
        return class_of("dyadic")(self.names, **given).for_unit(self.unit)

    def few_answers(self, live: Recommendation) -> int:
        """Return with how many answers about everybody a database without δ has less error than
        this one, for its most precise typical count after one purchase; 0 if with none.
        """
        base = base_of(self._whole, BASE_SHARE, ())
        terms = LiveTerms.read(
            self._whole, base, largest_purchase=LARGEST_PURCHASE, quotas=None, seeded=False
        )
        bought = float(terms.variance(math.floor(UNITS * LARGEST_PURCHASE)))
        bought = normal_quantile((1 + _LEVEL) / 2) * math.sqrt(bought)
        known = min(error.half_width or 0.0 for error in _counts(live))
        half = 1 / math.hypot(1 / known, 1 / bought) if known else 0.0
        few = range(1, _FEW + 1)
        errors = {each: self.without_delta(each, "").errors[0].half_width for each in few}
        return max((each for each in few if (errors[each] or math.inf) <= half), default=0)

    def live_average(self, name: str, noise: float) -> ExpectedError:
        """Return that of a database whose counts have this noise."""
        amounts = Amounts.of(self.schema, name)
        count = self.rows * self.share(self.group)
        sums = DiscreteLaplace(Fraction(str(noise)))
        half = noise_half_width(sums.variance, sums.fourth, 1.0, _LEVEL)
        most = max(abs(float(amounts.low)), abs(float(amounts.high)))
        return self._of_average(name, min(half * most / count, amounts.width))

    def _of_average(self, name: str, half: float | None) -> ExpectedError:
        words = f"the average of {name} in rows with {self.group.words}"
        return ExpectedError(words, self.rows * self.share(self.group), half, name)

    def _half_width(self, mechanism: Any, question: _Question) -> float | None:
        """Return half of the 95 % interval of an answer by the closed form of the method; None if
        there is none.
        """
        if mechanism.name == "histogram":
            return self._of_cells(mechanism, question)
        if mechanism.name in ("hierarchy", "wavelet", "dyadic"):
            return self._of_product(mechanism, question)
        if mechanism.name == "marginals":
            return self._of_tables(mechanism, question)
        if mechanism.name == "synthesis" and len(question.codes) == 1:
            return self._of_singles(mechanism, question)
        if mechanism.name == "subset":
            return self._of_sets(mechanism, question)
        return None

    def _of_cells(self, mechanism: Any, question: _Question) -> float:
        epsilon = mechanism.cell_promise.epsilon
        law = DiscreteLaplace(Fraction(mechanism.unit.sensitivity) / epsilon)
        share = self.share(question)
        cells = share * self.cells
        known = share if mechanism.unit.keeps_rows else 0.0  # of the noise of all cells
        squares = cells * (1 - known) ** 2 + (self.cells - cells) * known**2
        fourths = cells * (1 - known) ** 4 + (self.cells - cells) * known**4
        return noise_half_width(squares * law.variance, fourths * law.fourth, 1.0, _LEVEL)

    def _of_product(self, mechanism: Any, question: _Question) -> float:
        design: Product = mechanism.design(self.schema)
        asked = [_middle(self.sizes[name], question.codes.get(name)) for name in design.columns]
        variance, fourth, largest = product_moments(design, asked)
        if mechanism.unit.keeps_rows:
            every = [np.ones(size) for size in design.shape]
            whole, _, _ = product_moments(design, every)
            variance -= _covariance(design, asked, every) ** 2 / whole
        return noise_half_width(max(variance, 0.0), fourth, largest, _LEVEL)

    def _of_tables(self, mechanism: Any, question: _Question) -> float | None:
        design = Residuals(
            mechanism.names, tuple(self.sizes.values()), tuple(mechanism.tables(self.schema))
        )
        rows = self.rows if mechanism.unit.keeps_rows else None
        solver = ResidualSolver(design, np.zeros(0, np.int64), rows)
        names = sorted(question.codes, key=self.names.index)
        places = tuple(self.names.index(name) for name in names)
        if not solver.determines(places):
            return None
        weights = np.ones(())
        for name in names:
            weights = np.multiply.outer(weights, _middle(self.sizes[name], question.codes[name]))
        error = sum_error(solver, places, weights)
        return noise_half_width(error.variance, error.fourth, error.largest, _LEVEL)

    def _of_singles(self, mechanism: Any, question: _Question) -> float:
        """Return that of noisy counts of every attribute, fitted to one number of rows."""
        [(name, codes)] = question.codes.items()
        law, size = mechanism.count_law, self.sizes[name]
        told = sum(1 / size for other, size in self.sizes.items() if other != name)
        total = 0.0 if self.known_rows else 1 / told if told else math.inf
        variance = law.variance * (codes - codes**2 / (size + total))
        return noise_half_width(variance, codes * law.fourth, 1.0, _LEVEL)

    def _of_sets(self, mechanism: Any, question: _Question) -> float | None:
        asked = [name for name in question.codes if self.schema[name].role == "sensitive"]
        if not asked:
            return 0.0
        if asked != [self.secret] or question.codes[asked[0]] != 1:
            return None
        law = mechanism.law(self.schema)
        counted = self.rows * self.share(question)
        among = counted * self.sizes[asked[0]]
        return NINETEEN * shown_error(counted, among, float(law.inclusion), float(law.chance))

    # Ranges: the mean over all of them, for methods that do not look at the data.

    def plain_error(self) -> float:
        """Return the error of a range of mean size from a histogram: the noise of all its cells."""
        if self.gaussian:
            return math.inf  # a histogram has Laplace noise
        return self._range_error([_cell_errors(size) for size in self.sizes.values()])

    def tree_error(self) -> float:
        """Return the error of a range of mean size from a hierarchy."""
        errors = []
        for name, size in self.sizes.items():
            if not self.schema[name].ordered:
                errors.append(_cell_errors(size))
                continue
            plan = tree_plan(
                size, fanout=None, root=False, gaussian=self.gaussian, budget="uniform"
            )
            errors.append((plan.error, plan.total_error))
        return self._range_error(errors)

    def _range_error(self, errors: Sequence[tuple[float, float]]) -> float:
        """Return the error of a product of ranges. `errors` has for each attribute the variance of
        a range, and the part of it along the number of all rows, which is no error if that number
        is published.
        """
        whole, total = (math.prod(parts) for parts in zip(*errors, strict=True))
        return self.noise * math.sqrt(max(whole - (total if self.known_rows else 0.0), 0.0))


_PURE = frozenset({"histogram", "sparse", "mosaic", "privtree", "fourier", "mwem"})


def _attributes(
    schema: Schema, given: Sequence[str] | None, use: Use, *, summed: bool
) -> tuple[list[str], list[str], Mapping[str, str]]:
    """Return the attributes to count by, the columns to add up, and those that are left out with
    the reasons.
    """
    schema.check_unit()
    schema.check_limits(given)
    names, left_out = _named(schema, given)
    amounts = [name for name in names if _has_amounts(schema, name)]
    alone = [name for name in amounts if schema[name].size > _MOST_AMOUNTS]
    if len(alone) == len(names):  # there is nothing else to count by
        return names, [], left_out
    counted = [name for name in names if name not in alone]
    secret = [name for name in amounts if schema[name].role == "sensitive"]
    sums = list(dict.fromkeys([*secret, *alone, *amounts]))
    if use == "live":  # a database has the rows
        return counted, sums, left_out
    sums = sums[:_MOST_SUMS] if summed and use in _WITH_SUMS else []
    why = _NOT_ADDED_UP if sums else _NOT_COUNTED
    without = [name for name in alone if name not in sums]
    return counted, sums, {**left_out, **dict.fromkeys(without, why)}


_NOT_ADDED_UP = f"the sums of {_MOST_SUMS} other columns are measured; name it in place of one"
_NOT_COUNTED = "it has too many amounts to count; write edges in the schema"


def _has_amounts(schema: Schema, name: str) -> bool:
    """Whether counts by a column do not tell its amounts: it is cut into bins, or has too many."""
    attribute = schema.with_derived([name])[name]
    domain = attribute.domain
    many = isinstance(domain, Number) and attribute.size > _MOST_AMOUNTS
    return attribute.number is not None and (attribute.coarse or many)


def _named(schema: Schema, given: Sequence[str] | None) -> tuple[list[str], Mapping[str, str]]:
    """Return the attributes to publish, and those that are left out with the reasons."""
    if given is not None:
        names = [given] if isinstance(given, str) else list(given)
        if not names or len(set(names)) < len(names):
            allowed = "a list of one or more different attribute names"
            raise ParameterError.of("recommend", "attributes", allowed, names)
        for name in names:
            if schema[name].role == "identifier":
                raise SchemaError(f"'{name}' is an identifier: it is never published.")
            _ = schema[name].size  # raises SchemaError, with advice, for lists
        return names, {}
    sets = [attribute.name for attribute in schema.lists]
    left_out = dict.fromkeys(
        sets, "lists are published apart, by baskets, diffpart, sequences or trajectories"
    )
    left_out |= dict.fromkeys(
        (attribute.name for attribute in schema.open),
        "open categories are published apart, by keys",
    )
    published = [attribute.name for attribute in schema.published]
    amounts = [name for name in published if _has_amounts(schema, name)]
    sizes = {name: schema[name].size for name in published if schema[name].size <= _MOST_AMOUNTS}
    sizes |= {name: schema[name].size for name in published if name not in amounts}
    while len(sizes) > 1 and _pair_cells(list(sizes.values())) > _MOST_CELLS:
        largest = max(sizes, key=lambda name: sizes[name])
        left_out[largest] = (
            f"the tables with {sizes.pop(largest):,} values are too large; write bins in the schema"
        )
    if not published:
        why = "".join(f" {name}: {reason}." for name, reason in left_out.items())
        raise SchemaError(f"The schema has no column that counts or rows can be made of.{why}")
    return [name for name in published if name not in left_out], left_out


def _pair_cells(sizes: Sequence[int]) -> int:
    return sum(one * other for one, other in combinations(sizes, 2))


def _grouped(reasons: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Return the names by reason."""
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    return grouped


def _middle(size: int, codes: int | None) -> Floats:
    """Return weights over a domain: 1 for `codes` codes in its middle, 0 for others; 1 for all
    without `codes`.
    """
    weights = np.zeros(size)
    number = size if codes is None else codes
    weights[(size - number) // 2 :][:number] = 1
    return weights


def _covariance(design: Product, first: Sequence[Floats], second: Sequence[Floats]) -> float:
    """Return the covariance of the errors of two sums of cells; weights as for
    `product_moments`.
    """
    covariance: Any = design.variances
    for axis, (one, other) in enumerate(zip(first, second, strict=True)):
        pairs = zip(
            design.coefficients([axis], one), design.coefficients([axis], other), strict=True
        )
        covariance = np.tensordot([float((a * b).sum()) for a, b in pairs], covariance, 1)
    return float(covariance)


def _cell_errors(size: int) -> tuple[float, float]:
    """Return the mean number of cells of a range, and the mean square of it over all cells."""
    return (size + 2) / 3, (size + 1) * (size + 2) / (6 * size)


# --- partitions that follow the data --------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """How long the intervals of a method that follows the data are, relative to the best one that
    does not.

    The ratio of the half-widths has the logarithm (base 10) `constant + by_share · log(half / rows)
    + by_cells · log(cells) + by_occupied · log(share of the cells with rows)`, with `half` that of
    the other method. `error` is the root mean squared error of an answer as a share of the
    half-width.
    """

    constant: float
    by_share: float
    error: float
    by_cells: float = 0.0
    by_occupied: float = 0.0

    def ratio(self, share: float, cells: float, occupied: float) -> float:
        logarithm = self.constant + self.by_share * math.log10(share)
        logarithm += self.by_cells * math.log10(cells) + self.by_occupied * math.log10(occupied)
        return float(10**logarithm)


# Least squares on a third of the datasets of DPBench at 10³ to 10⁶ rows, as they are and coarsened
# (4,096, 1,024 and 256 cells of a line; 128², 64², 32² and 64 × 16 of a grid), for both kinds of
# neighbours; by number of attributes and by whether the share of the cells with rows is known.
# Squares and products of these terms fitted that third better and the other datasets worse;
# privtree on grids was hardly ever the best. More than two attributes were not measured.
_FITS = {
    (1, True): {
        "mosaic": _Fit(-0.135, -0.097, 0.41, -0.020, 0.251),
        "privtree": _Fit(-0.414, -0.189, 0.40, 0.088, 0.429),
    },
    (1, False): {"mosaic": _Fit(-0.352, -0.135, 0.41), "privtree": _Fit(-0.405, -0.249, 0.40)},
    (2, True): {"mosaic": _Fit(0.081, 0.0, 0.47, 0.042, 0.583)},
    (2, False): {"mosaic": _Fit(-0.721, -0.128, 0.47)},
}


def _following(case: _Case, noise: float) -> Recommendation | None:
    """Return a partition that follows the data if its intervals are expected to be shorter than
    those of a method with the error `noise`; else None.

    Of few cells nothing is gained by it, unless the noise is a large part of the rows: on columns
    and pairs of Adult and the datasets of DPBench that were not fitted (16 to 100 cells, ε = 0.1
    and 1), it seldom had the shorter intervals (`research/reproductions.md`).
    """
    small = len(case.names) <= _MOST_FOLLOWED and case.cells <= _MOST_CELLS
    if case.gaussian or not small or not case.ordered:
        return None
    half = NINETEEN * noise
    little = half <= _LITTLE_NOISE * case.rows and case.occupied is None
    if case.cells <= _SMALL and little:
        return None
    occupied = max(case.occupied or 1.0, 1 / case.cells)
    fits = _FITS[len(case.names), case.occupied is not None]
    halves = {
        name: half * fit.ratio(half / case.rows, case.cells, occupied) for name, fit in fits.items()
    }
    name = min(halves, key=lambda method: halves[method])
    if halves[name] >= half:
        return None
    return case.make(
        name,
        f"For a range expect {_expected(noise)} by methods that do not look at the data, and "
        f"{_expected(fits[name].error * halves[name], halves[name])} by {name}, which follows "
        "them; the latter from a benchmark, as it depends on the data.",
    )


def _expected(error: float, half: float | None = None) -> str:
    """Say half of an interval and the error; by the normal law unless half is given."""
    shown = _round(NINETEEN * error if half is None else half)
    return f"an interval (95 %) of ± {shown} rows (error {_round(error)})"


def _round(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


# --- the choice, by use ---------------------------------------------------------------------------


def _for_questions(case: _Case, queries: Any) -> _Choices:
    """Choose what answers questions."""
    ranges = _is_ranges(case) and not case.gaussian
    grown, plain = _for_ranges(case) if ranges else (None, _for_values(case))
    if queries is None:
        choices = plain if grown is None else [grown, *plain]
        return [*choices, *_with_rows(case)]
    if grown is not None:
        return [grown, *plain, *_with_rows(case)]
    return [*_for_list(case, queries, plain), *_with_rows(case)]


def _is_ranges(case: _Case) -> bool:
    """Whether the table has one or two attributes, all ordered, so that ranges are asked."""
    return case.ordered and len(case.names) <= _MOST_FOLLOWED and case.cells <= _MOST_CELLS


def _for_ranges(case: _Case) -> tuple[Recommendation | None, _Choices]:
    """Return a partition if it is better, and the methods that do not look at the data."""
    errors = {"histogram": case.plain_error(), "hierarchy": case.tree_error()}
    grown = _following(case, min(errors.values()))
    first, second = sorted(errors, key=lambda name: errors[name])
    if errors[second] == math.inf:
        why = f"For a range expect {_expected(errors[first])}."
    else:
        why = (
            f"For a range expect {_expected(errors['histogram'])} by counts of single values, and "
            f"{_expected(errors['hierarchy'])} by a hierarchy."
        )
    choices = [*case.candidates((first, {})), *case.candidates((second, {}))]
    if not choices:
        raise _too_many(case)
    if grown is None:
        return None, [
            replace(choices[0], reason=why),
            *(replace(choice, reason=_compared(choice, choices[0])) for choice in choices[1:]),
        ]
    return grown, [
        replace(choice, reason=f"It does not look at the data: for a range, {words}.")
        for choice in choices
        for words in [_expected(errors[choice.method])]
    ]


def _for_values(case: _Case) -> _Choices:
    """Choose among one table of all attributes, and tables of three or two of them."""
    joint = _joint(case)
    ways = [number for number in (3, 2) if number < len(case.names)]
    tables = {number: case.candidates(("marginals", {"ways": number})) for number in ways}
    # From what answers most questions to what answers fewest; of each kind the best.
    kinds = [sorted(kind, key=_score) for kind in (joint, *tables.values()) if kind]
    if not kinds:
        return [_for_cells(case)]
    least = min(_score(kind[0]) for kind in kinds)
    worth = [kind[0] for kind in kinds if _score(kind[0]) <= _WIDER * least]
    useful = [choice for choice in worth if len(case.names) > _NARROW and case.suits(choice)]
    best = [*useful, *worth][0]
    others = [choice for kind in kinds for choice in kind if choice is not best]
    return [
        replace(best, reason=_why_first(case, best, kinds)),
        *(replace(choice, reason=_compared(choice, best)) for choice in others),
    ]


def _joint(case: _Case) -> _Choices:
    """Return the methods for one table of all attributes."""
    if case.cells > _MOST_CELLS:
        return []
    return case.candidates(("dyadic" if case.gaussian else "histogram", {}), ("hierarchy", {}))


def _score(choice: Recommendation) -> float:
    """Return the geometric mean of the errors of the typical questions."""
    halves = [max(each.half_width, 0.5) for each in _counts(choice) if each.half_width is not None]
    if not halves:
        return math.inf
    return math.exp(sum(map(math.log, halves)) / len(halves))


def _counts(choice: Recommendation) -> list[ExpectedError]:
    """Return the errors of the typical counts."""
    return [error for error in choice.errors if not error.average]


def _reach(choice: Recommendation) -> int | None:
    """Return how many columns a question may be about; None for all."""
    ways: int | None = choice.parameters.get("ways")
    return ways


def _why_first(case: _Case, best: Recommendation, kinds: Sequence[_Choices]) -> str:
    number, all_columns = _reach(best), f"{len(case.names)} columns"
    if number is None:
        one = len(case.names) == 1
        counted = (
            f"It counts each of the {case.cells:,} values"
            if one
            else (
                f"One table of all {all_columns} ({large(case.cells)} counts) answers questions "
                "about any of them together"
            )
        )
        others = [kind for kind in kinds if kind[0] is not best]
        more = ", with at most twice the error of smaller tables" if others else ""
        return f"{counted}{more}."
    words = {2: "two", 3: "three"}[number]
    answers = (
        f"Tables of counts, each of {words} columns, answer questions about up to {words} columns "
        "at a time"
    )
    wider = [kind[0] for kind in kinds if _reach(kind[0]) is None]
    if wider:
        times = _score(wider[0]) / _score(best)
        return f"{answers}; one table of all {all_columns} would have {times:.2g} times the error."
    return f"{answers}; one table of all {all_columns} would have {large(case.cells)} counts."


def _compared(choice: Recommendation, best: Recommendation) -> str:
    """Return why a release of counts is not the first choice."""
    times = _score(choice) / _score(best)
    if times == math.inf:
        error = "its error depends on the table"
    elif 0.95 < times < 1.05:
        error = "about the same error for these questions"
    elif times > 1:
        error = f"{times:.2g} times the error for these questions"
    else:
        error = f"{times:.2g} of the error for these questions"
    number, most = _reach(choice), _reach(best)
    if number == most:
        return f"It has {error}."
    if number is None:
        return f"It answers questions about all columns together, with {error}."
    words = {2: "two", 3: "three"}[number]
    return f"It answers questions about up to {words} columns, with {error}."


def _for_list(case: _Case, queries: Any, others: _Choices) -> _Choices:
    """Choose for the SQL counts of a file or list."""
    parameters: dict[str, Any] = {"epsilon": case.epsilon, "neighbours": case.neighbours}
    if case.gaussian:
        parameters["delta"] = case.delta
    mechanism = class_of("workload")(list(case.names), queries=queries, **parameters)
    try:
        questions = mechanism.questions(case.schema)
        workload = case.make("workload", queries=queries)
    except ParameterError as error:
        why = f"These questions do not fit the method workload: {error} {others[0].reason}"
        return [replace(others[0], reason=why), *others[1:]]
    why = (
        f"The {len(questions.asked)} questions tell {questions.merged.cells} kinds of rows apart: "
        "it measures the sums that answer just these best. How well is said before the table is "
        "read, by `scumble publish` and by `forecast` in Python."
    )
    others = [
        replace(choice, reason="It answers other questions too, these with more error.")
        for choice in others
    ]
    return [replace(workload, reason=why), *others]


def _for_cells(case: _Case, *, marginals: bool = True) -> Recommendation:
    """Choose for single cells of one table that may be very large."""
    if not case.gaussian and (case.cells > _MOST_CELLS or case.cells > _SPARSE * case.rows):
        return case.make(
            "sparse",
            f"There are {large(case.cells)} possible rows, and {case.rows:,} real ones: nearly all "
            "counts are 0, and only the large ones are worth publishing.",
        )
    if case.cells > _MOST_CELLS:
        if marginals and len(case.names) > 2:
            return case.make(
                "marginals", "One table of all columns would have too many counts.", ways=2
            )
        raise _too_many(case)
    why = f"Each of {case.cells:,} counts is changed by as little as single counts can be."
    if not case.gaussian:
        return case.make("histogram", why)
    largest = load("axes", "publish").LARGEST_FANOUT
    flat = min(max(2, *case.sizes.values()), largest)
    return case.make("hierarchy", why, fanout=flat)


def _too_many(case: _Case) -> ParameterError:
    other = " Leave delta out, which allows the method sparse, or" if case.gaussian else ""
    return ParameterError(
        f"There are {large(case.cells)} cells, too many for any method"
        f"{' with a delta' if case.gaussian else ''}.{other or ' Please'} choose coarser bins."
    )


def _for_tables(case: _Case, _: Any) -> _Choices:
    """Choose what is printed as tables."""
    many = len(case.names) > 2 and case.cells > case.pair_cells
    plain = _joint(case)
    if not many:
        best = _for_cells(case)
    else:
        number = math.comb(len(case.names), 2)
        best = case.make(
            "marginals",
            f"{number} tables of two columns have {case.pair_cells:,} counts in all, and one of "
            f"all columns {large(case.cells)}: small tables have larger counts. They agree with "
            "each other.",
            ways=2,
        )
    others = [replace(choice, reason=_compared(choice, best)) for choice in plain]
    return [best, *others, *_with_rows(case)]


def _for_rows(case: _Case, queries: Any) -> _Choices:
    """Choose what rows are drawn from."""
    rows = "draw rows from it by release.synthetic.rows() or `scumble rows`"
    choices = []
    if len(case.names) > 1:
        choices += _synthesis(case, rows) if case.gaussian else []
        pairs = case.candidates(("marginals", {"ways": 2}))
        why = (
            f"Tables of counts of all pairs of columns; {rows}."
            if not case.gaussian
            else "It measures all pairs of columns, not those that depend on each other."
        )
        choices += [replace(choice, reason=why) for choice in pairs]
    if not choices:
        plain = _for_cells(case)
        choices = [replace(plain, reason=f"{plain.reason} {rows.capitalize()}.")]
    if not case.gaussian:
        choices += _with_rows(case)[:1] if len(case.names) > 1 else []
    choices += _perturbed(case)
    if queries is not None and not case.gaussian:
        why = "Its rows fit the given questions, and other columns less."
        choices += [
            replace(choice, reason=why)
            for choice in case.candidates(("mwem", {"queries": queries}))
        ]
    return choices


def _with_rows(case: _Case) -> _Choices:
    """Return the methods that have rows, as alternatives to counts."""
    choices = []
    if len(case.names) > 1:
        if case.gaussian:
            choices += _synthesis(
                case, "it answers with an interval only what its chosen tables hold"
            )
        else:
            delta = float(f"{1 / (_SUGGESTED_DELTA * case.rows):.0e}")
            choices += _synthesis(
                case,
                f"it needs a δ (here 1/({_SUGGESTED_DELTA} rows)), a probability that the promise "
                "does not hold, and answers with an interval only what its tables hold",
                delta=delta,
            )
    return [*choices, *_perturbed(case)]


def _synthesis(case: _Case, words: str, **more: Any) -> _Choices:
    why = f"Synthetic rows that keep which columns depend on each other; {words}."
    return [replace(choice, reason=why) for choice in case.candidates(("synthesis", more))]


def _perturbed(case: _Case) -> _Choices:
    """Return the method that keeps the rows and perturbs what is sensitive, where it protects."""
    if case.several or case.neighbours == "add_remove" or case.secret is None:
        return []
    why = (
        f"It keeps every row and hides {case.secret} alone: everybody can see who is in the table "
        "and all other columns of each row."
    )
    try:
        return [case.publisher("subset", why)]
    except ScumbleError:
        return []


def _for_live(case: _Case, queries: Any) -> _Choices:
    """Choose for questions that are asked one after the other."""
    others = _for_questions(case, queries)
    if case.gaussian:
        return _with_delta(case, others)
    refused = _no_database(case)
    if refused:
        why = f"{refused} Ask this release instead: any number of questions costs nothing more."
        return [replace(others[0], reason=f"{why} {others[0].reason}"), *others[1:]]
    fewest, most = _ANSWERS
    # 3λ is about the half-width of an answer, and each costs ε = 2/λ of those whom it counts.
    wanted = int(_TELLING * case.rows * float(case.strength) / 6)
    answers = min(max(wanted, fewest), most)
    why = (
        f"Everybody is counted in up to {answers} answers with the same error, and there can be "
        "many more answers about different people; a release has to divide the promise beforehand. "
        f"With a {named('delta')}, such as 1e-9, a database answers any number of questions."
    )
    return [case.without_delta(answers, why), *_releases(others)]


def _with_delta(case: _Case, others: _Choices) -> _Choices:
    """Choose where δ is given: the live database, before one for few questions and releases."""
    why = (
        "Every question has an answer, for ever: the errors are those of answers that cost "
        "nothing, and a count that has to be more precise is measured and charged."
    )
    releases = _releases(others)
    try:
        live = case.live(why)
    except ScumbleError as refused:
        why = f"A live database is not possible: {refused} Ask this release instead."
        return [replace(others[0], reason=f"{why} {others[0].reason}"), *others[1:]]
    answers = 0 if _no_database(case) else case.few_answers(live)
    if not answers:
        return [live, *releases]
    than = (
        "For a few questions that are known in advance it is more precise: without δ, everybody is "
        f"counted in up to {answers} answers, and there can be more about different people. Then "
        "it is used up."
    )
    return [live, case.without_delta(answers, than), *releases]


def _releases(others: _Choices) -> _Choices:
    why = "It is published once, and any number of questions costs nothing more."
    return [replace(others[0], reason=f"{why} {others[0].reason}"), *others[1:]]


def _no_database(case: _Case) -> str:
    """Return why no database without δ protects this table; empty if one does."""
    if case.unit.person is not None:
        return (
            'A database without δ protects one row, and the schema says unit = "person". With a '
            f"{named('delta')}, such as 1e-9, one protects people."
        )
    if case.neighbours == "add_remove":
        return (
            "A database without δ hides what a person's row says, not that the row is there. With "
            f"a {named('delta')}, such as 1e-9, one hides that, too."
        )
    return ""


# --- what is not recommended ----------------------------------------------------------------------


def _reasons(case: _Case) -> Mapping[str, str]:
    """Return for every method why it is not recommended, if it is not."""
    reasons = {
        "uniform": "subset is at least as private and at least as accurate.",
        "subset": _no_subset(case),
        "aroma": "it shows for each row which values are impossible, so that there is no ε.",
        "partition": (
            "no promise against an attacker who knows other people's values: the split of the "
            "table follows them."
        ),
        "generalise": (
            "k-anonymity makes no promise against an attacker who knows more than the grouped "
            "columns: where all of a group have one value, that value is told."
        ),
        "anatomy": (
            "no promise against an attacker who knows the values of others in a group: it is for "
            "one to whom every value is as likely as it is frequent."
        ),
        **dict.fromkeys(("alphabeta", "frapp"), _no_tuples(case)),
        "histogram": (
            "it takes no δ."
            if case.gaussian
            else f"it would have {large(case.cells)} cells, and adds the noise of all that a "
            "question is about."
        ),
        "sparse": (
            f"for finding large cells among far more cells than rows; here {large(case.cells)} "
            f"cells for {case.rows:,} rows. Its answers about many small cells are too low."
        ),
        "hierarchy": "for ranges of few ordered columns; here other questions have less error.",
        "wavelet": f"{'dyadic' if case.gaussian else 'hierarchy'} has less error.",
        "dyadic": (
            "another method has less error for these questions."
            if case.gaussian
            else f"it needs {named('delta')}; with one it has the least error for many columns."
        ),
        "quadtree": "hierarchy has less error for ranges.",
        "marginals": "for three columns and more.",
        "fourier": "for columns of two values; marginals has no more error, and takes any.",
        "datacube": "it lowers the error of the worst table; marginals lowers that of all.",
        "workload": _no_list(f"say it by {named('queries')}"),
        "mwem": _no_list("workload has less error for one that is small"),
        "synthesis": "it is for rows of two columns and more, whose tables must not be too large.",
        "dirichlet": (
            "most of its rows come from a prior: noisy counts have far less error at the same ε."
        ),
        "database": (not case.gaussian and _no_database(case))
        or "for questions that are asked one after the other, under one promise (use live).",
        **_no_partition(),
        **_no_lists(case),
    }
    if case.several:
        one_row = ("uniform", "subset", "aroma", "partition", "generalise", "anatomy")
        reasons |= dict.fromkeys(
            (*one_row, "alphabeta", "frapp", "dirichlet"),
            f"it protects one row, and a person may have {case.unit.most_rows} rows here.",
        )
    return reasons


def _no_subset(case: _Case) -> str:
    if case.secret is None:
        return "it hides one sensitive column; this table has none or several."
    if case.neighbours == "add_remove":
        return "everybody can see who is in the table, which add_remove is to hide."
    return "it keeps every row and hides the sensitive column alone; here counts are enough."


def _no_tuples(case: _Case) -> str:
    """Return when releases of whole rows fit, by the sizes of this table."""
    domain = case.schema.size(case.names)
    density, most = case.rows / domain, case.rows / math.sqrt(domain)
    rule = (
        f"an attacker who gives a row a prior of n/√m = {most:.2g} or more cannot be kept from it "
        "by anything that is useful"
        if most < 1
        else f"n/√m = {large(round(most))} is above 1, so that it sets no limit"
    )
    return (
        "for a sparse table (n rows of m possible ones) and an attacker with a small prior; here "
        f"n/m = {density:.2g}. Rule of thumb, theorem 3.3 of Rastogi, Suciu and Hong with its "
        f"unknown constant at 1: {rule}."
    )


def _no_list(more: str) -> str:
    return f"it needs a list of questions that is known beforehand; {more}."


def _no_partition() -> dict[str, str]:
    """Return why partitions that follow the data are not recommended."""
    fits = (
        "for ranges of one or two ordered columns where noise is a large part of the counts; here "
        "methods that do not look at the data have shorter intervals, or more columns are asked "
        "about."
    )
    beaten = "mosaic has shorter intervals on most tables of DPBench."
    return {
        **dict.fromkeys(("mosaic", "privtree"), fits),
        **dict.fromkeys(("kdtree", "grid", "dawa"), beaten),
        "quantiles": "for medians and other quantiles of one number alone.",
    }


def _no_lists(case: _Case) -> dict[str, str]:
    """Return why methods for lists and open categories are not recommended."""

    def apart(attributes: Iterable[Any], kind: str) -> str:
        names = ", ".join(attribute.name for attribute in attributes)
        return f"publish {names} by it, apart." if names else f"the schema has no {kind}."

    lists = apart(case.schema.lists, "column of lists")
    return {
        **dict.fromkeys(("baskets", "diffpart", "sequences", "trajectories"), lists),
        "keys": apart(case.schema.open, "open category"),
    }

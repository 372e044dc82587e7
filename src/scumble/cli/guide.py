"""`scumble publish SOURCE` without a method: five questions that end in a release.

The answers make a schema and choose a method. What is written in the end is the release, a
certificate, the schema if it is new, and the command that publishes again without questions.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar, cast

import typer

from scumble.cli import bars, console, options, printing
from scumble.cli.signals import ignore_interrupts
from scumble.model.errors import (
    OutputExistsError,
    ParameterError,
    ScumbleError,
    SourceError,
    nearest_name,
)

if TYPE_CHECKING:
    from scumble.audit.report import Finding
    from scumble.model.schema.attribute import Attribute
    from scumble.model.schema.schema import Schema
    from scumble.model.schema.unit import Unit
    from scumble.private.recommend import Advice, Use
    from scumble.private.tables.source import Source

T = TypeVar("T")
STOP = "stop"
Ask = Callable[[str, str], str]  # a prompt and its default, and what was answered

_NUMBERS = {3: "Three", 4: "Four", 5: "Five"}
_BOUNDS = (1, 2, 5, 10)  # on the rows of a person, of which the shares that they keep are shown
_USUAL_BOUND = 5
_QUOTED_OR_SEMICOLON = re.compile(r'("[^"]*")|;')
_SHOWN_VALUES = 6  # of a column
_ROLES = {
    "sensitive": "secret",
    "quasi": "known",
    "insensitive": "known",
    "identifier": "not published",
}
_ROLE_WORDS = ("secret", "known", "drop")
_TYPE_WORDS = {  # what is typed for the types that a column may have
    "category": "codes",
    "integer": "numbers",
    "binned": "numbers",
    "decimal_comma": "decimal-comma",
    "decimal_point": "thousands-comma",
    "%d/%m/%Y": "day-first",
    "%d-%m-%Y": "day-first",
    "%m/%d/%Y": "month-first",
    "%m-%d-%Y": "month-first",
}
_MEANT = {
    "codes": "codes, each with a meaning",
    "numbers": "numbers that count or measure something",
    "decimal-comma": "numbers with a decimal comma: 1,234 is less than 2",
    "thousands-comma": "numbers with commas for thousands: 1,234 is more than a thousand",
    "day-first": "dates with the day first",
    "month-first": "dates with the month first",
}
_NO_TERMINAL = (
    "scumble publish SOURCE asks questions, and there is no terminal to answer them. Write instead:"
)

SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema", "-s", metavar="FILE", help="What it states of the table is not asked again."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the release.")
]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Take the proposal wherever no promise depends on the answer."),
]


def guide(
    source: options.Source,
    schema: SchemaFile = None,
    output: Output = None,
    table: options.Table = None,
    outside: options.Outside = "error",
    yes: Yes = False,
) -> None:
    """Publish a table: five questions, then a release, a certificate and the command for next time.

    With METHOD as the first word nothing is asked: scumble publish --list.
    """
    if not sys.stdin.isatty():
        raise ParameterError(f"{_NO_TERMINAL} {_command_to_write(source, schema)}")
    given = Guided(source, table, outside, schema, output)
    publish_guided(given, Questions(_ask, yes=yes))


def _command_to_write(source: str, schema: Path | None) -> str:
    name = shlex.quote(source)
    known = shlex.quote(str(schema or f"{_stem(source)}.toml"))
    first = "" if schema else f"scumble schema infer {name} -o {known}, check that file, and then: "
    place = shlex.quote(f"{_stem(source)}-release")
    return f"{first}scumble publish auto {name} --schema {known} --epsilon 1 -o {place}"


def _ask(prompt: str, default: str) -> str:
    return str(typer.prompt(prompt, default=default, err=True)).strip()


def _stem(source: str) -> str:
    """Return the name of a table for the files that are made of it."""
    name = source.rstrip("/").rpartition("/")[2].partition(".")[0]
    return re.sub(r"[^\w-]+", "-", name) or "table"


@dataclass(frozen=True)
class Guided:
    """What stands in the command: the table, and what is not asked."""

    source: str
    table: str | None = None
    outside: str = "error"
    schema: Path | None = None
    output: Path | None = None


@dataclass
class Questions:
    """Asks, until an answer is allowed. With `yes` it takes what no promise depends on."""

    ask: Ask
    yes: bool = False
    titles: list[str] = field(default_factory=list)

    def head(self, title: str) -> None:
        """Print the head of a question, with its number."""
        if title not in self.titles:
            self.titles.append(title)
        _tell(f"\n{self.titles.index(title) + 1}. {title}")

    def read(
        self, prompt: str, default: str, check: Callable[[str], T], *, promise: bool = True
    ) -> T:
        """Return what `check` makes of an answer. `promise` tells that a promise depends on it."""
        while True:
            try:
                return check(self.ask(prompt, default) if promise else self.take(prompt, default))
            except ScumbleError as error:
                _tell(str(error))

    def take(self, prompt: str, proposal: str) -> str:
        """Return an answer on which no promise depends: with `yes`, the proposal."""
        if not self.yes:
            return self.ask(prompt, proposal)
        _tell(f"{prompt}: {proposal}")
        return proposal

    def choose(self, choices: Mapping[str, str], default: str, *, promise: bool = True) -> str:
        """Return one of the choices, which are listed with numbers."""
        names = list(choices)
        _tell_table([(str(k), sentence) for k, sentence in enumerate(choices.values(), 1)])

        def check(answer: str) -> str:
            if answer in names:
                return answer
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            raise ParameterError(f"Type a number from 1 to {len(names)}.")

        return self.read("Which", str(names.index(default) + 1), check, promise=promise)

    def agree(self, question: str, default: str = "n") -> bool:
        """Return whether a question was answered by yes."""

        def check(answer: str) -> bool:
            if answer.lower() not in ("y", "yes", "n", "no"):
                raise ParameterError("Type y or n.")
            return answer.lower().startswith("y")

        return self.read(f"{question} (y/n)", default, check)


def _tell(text: str) -> None:
    """Print sentences that are not the result, wrapped to a terminal."""
    console.say(_wrapped(text, sys.stderr))


def _tell_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the last of which is wrapped to a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *labels, text in rows:
        start = "".join(f"  {each:<{w}}" for each, w in zip(labels, widths, strict=True)) + "  "
        console.say(_wrapped(text, sys.stderr, start))


def _wrapped(text: str, stream: TextIO, start: str = "") -> str:
    """Return lines wrapped at words to the width of a terminal; what follows stands below the text
    after `start`.
    """
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except OSError:
        width = 0
    if not width:
        return f"{start}{text}"
    indent = " " * len(start) if len(start) < width // 2 else "    "
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(
            f"{indent if lines else start}{line}",
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def publish_guided(given: Guided, questions: Questions) -> None:
    """Ask, and publish by the method that suits the answers."""
    from scumble.private.recommend import DATABASE

    if given.output is not None:
        _check_place(given.output)
    with bars.working("Looking at the table"):
        source = _open(given)
    start = _infer(given) if given.schema is None else _load(given.schema)
    _check_publishable(start, given)
    planned = _ask_all(Case(given, source, start), questions)
    if planned is None:
        _tell("Nothing was published.")
        return
    asked, advice, output = planned.asked, planned.advice, planned.output
    schema = asked.schema
    file = _schema_file(given, schema, output)
    refuted: Sequence[Finding] = ()
    if advice.best.method == DATABASE:
        _make_database(given, schema, advice, output, file)
    else:
        refuted = _make_release(given, asked, advice, output, file)
    if asked.use == "rows":
        console.echo(f"Draw rows from it: scumble rows {shlex.quote(str(output))} -o rows.csv")
    command = advice.best.command(given.source, str(file), str(output))
    console.echo("\nThe same again, without questions:")
    console.echo(f"  {command}{_reading(given)}")
    _tell_refuted(refuted, schema, file)


def _open(given: Guided) -> Source:
    """Open the table; refuse what is no table, and a table without rows."""
    from scumble.private.tables.open import open_source
    from scumble.public.archive.archive import MANIFEST

    if (Path(given.source) / MANIFEST).is_file():
        raise SourceError(f"'{given.source}' is a release, which is public: give a table.")
    source = open_source(given.source, table=given.table)
    if not any(batch.num_rows for batch in source.batches(source.columns[:1])):
        raise SourceError(f"'{given.source}' has no rows: give a table with rows.")
    return source


def _load(file: Path) -> Schema:
    from scumble.model.schema.schema import Schema

    return Schema.load(file)


def _check_publishable(schema: Schema, given: Guided) -> None:
    """Refuse a table of which nothing can be published, before anything is asked."""
    if schema.published or any(each.either for each in schema):
        return
    why = "; ".join(f"{each.name}: {_described(each)}" for each in schema).rstrip(".")
    raise SourceError(f"No column of '{given.source}' can be published ({why}).")


def _reading(given: Guided) -> str:
    """Return the options for how the table is read, as they were given."""
    words = [] if given.table is None else ["--table", given.table]
    words += [] if given.outside == "error" else ["--outside", given.outside]
    return f" {shlex.join(words)}" if words else ""


# --- what is in the table -------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """What is asked about: the table, and its schema as it was proposed or given."""

    given: Guided
    source: Source
    start: Schema


@dataclass(frozen=True)
class GuideAnswers:
    """What was answered so far.

    `columns` is the schema that follows, with columns for which no values could be proposed.
    `roles` and `types` are what the owner changed in the proposal, `declared` the columns whose
    values the owner declared to be public, and `limits` those of amounts.
    """

    columns: Schema
    unit: Unit | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    use: Use = "questions"
    care: str = "careful"

    @property
    def proposed(self) -> Schema:
        """The schema of the columns that can be published, and of the one that names people.

        Dropped columns are left out: as identifiers they would be looked at for repeats.
        """
        person = None if self.unit is None else self.unit.person
        limited = [each.name for each in self.columns if each.limits_needed]
        dropped = [name for name, word in self.roles.items() if word == "drop" and name != person]
        left_out = (*self.columns.to_fill_in, *limited, *dropped)
        kept = [name for name in self.columns.names if name not in left_out]
        return self.columns.select(kept) if left_out else self.columns

    @property
    def schema(self) -> Schema:
        """The schema to publish with."""
        schema = self.proposed
        return schema.declare_public(*self.declared) if self.declared else schema


@dataclass(frozen=True)
class AcceptedPlan:
    """The answers, what is published by them, and where to."""

    asked: GuideAnswers
    advice: Advice
    output: Path


def _ask_all(case: Case, questions: Questions) -> AcceptedPlan | None:
    """Ask until a plan is accepted; return None if the owner stops."""
    from scumble.private.recommend import CARE_LEVELS, TYPICAL_ROWS, recommend

    given, start = case.given, case.start
    steps: dict[str, Callable[[GuideAnswers, Questions], GuideAnswers]] = {}
    if given.schema is None or start.unit is None:
        steps["unit"] = partial(_ask_unit, case)
    if given.schema is None:
        steps["columns"] = partial(_ask_columns, case)
    steps |= {"use": _ask_use, "care": _ask_care}
    _tell(
        f"{_NUMBERS[len(steps) + 1]} questions, and then a release, a folder to hand on.\n"
        "Press Enter for the answer in brackets; Ctrl-C ends, and leaves nothing behind."
    )
    asked, counted, todo = GuideAnswers(start), None, list(steps)
    while True:
        for step in todo:
            asked = steps[step](asked, questions)
        if asked.use not in _uses(asked.schema):
            asked = _ask_use(asked, questions)
        schema = asked.schema
        if schema != counted:
            counted, rows = schema, _public_rows(given, case.source, schema)
        level = next(each for each in CARE_LEVELS if each.name == asked.care)
        advice = recommend(schema, rows=rows or TYPICAL_ROWS, use=asked.use, epsilon=level.epsilon)
        _tell_plan(advice, schema, case.source.columns, rows)
        answer = _ask_place(given, list(steps), questions)
        if answer == STOP:
            return None
        if isinstance(answer, Path):
            return AcceptedPlan(asked, advice, answer)
        # The column that names people is not published: a new unit may change the others.
        todo = [each for each in steps if each == answer or (answer, each) == ("unit", "columns")]


def _infer(given: Guided, **known: Any) -> Schema:
    """Propose a schema by reading the table."""
    from scumble.model.schema.schema import Schema

    with bars.progress("Reading", options.rows_of(given.source, given.table)) as progress:
        return Schema.infer(given.source, table=given.table, progress=progress, **known)


def _with_columns(case: Case, asked: GuideAnswers) -> GuideAnswers:
    """Return the answers with the schema that follows from them."""

    def names(word: str) -> list[str]:
        return [name for name, each in asked.roles.items() if each == word]

    schema = case.start
    if asked.roles or asked.types:
        schema = _infer(
            case.given,
            types=asked.types,
            sensitive=names("secret"),
            identifier=names("drop"),
            insensitive=names("known"),
        )
    for name, (low, high) in asked.limits.items():
        schema = schema.replace(_limited(schema[name], low, high))
    if asked.unit is not None:
        people = [] if asked.unit.person is None else [asked.unit.person]
        schema = replace(schema.with_roles(identifier=people), unit=asked.unit)
    declared = tuple(name for name in asked.declared if name in schema.from_data)
    return replace(asked, columns=schema, declared=declared)


def _limited(attribute: Attribute, low: float, high: float) -> Attribute:
    """Return amounts with limits; any other column as it is."""
    from scumble.model.schema.numbers import Number, UnlimitedNumber

    domain = attribute.domain
    if not isinstance(domain, UnlimitedNumber):
        return attribute
    return replace(attribute, domain=Number(low, high, domain.step), note="")


def _ask_unit(case: Case, asked: GuideAnswers, questions: Questions) -> GuideAnswers:
    """Ask what one row stands for. Who is protected is never assumed."""
    from scumble.model.schema.unit import Unit

    start = case.start
    proposed = start.person
    unit = asked.unit or (Unit(proposed, _USUAL_BOUND) if proposed else Unit())
    event = (
        "one event of a person, such as a visit: somebody may have several rows. COLUMN names the "
        "person. At most N rows of each person count, and the others are left out: a larger N "
        "keeps more rows, but makes answers less exact"
    )
    shares = (
        f"shows which share of the rows N = {_in_words(_BOUNDS)} would keep. It is read from the "
        "table: an N that is chosen by it may reveal a little"
    )
    questions.head("What does one row stand for?")
    _tell_table(
        [
            ("person", "one person: nobody has two rows"),
            ("event COLUMN N", event),
            ("shares COLUMN", shares),
        ]
    )
    if proposed:
        _tell(f"'{proposed}' has the same value in several rows.")
    default = f"event {unit.person} {unit.most_rows}" if unit.person else "person"
    while True:
        answer = questions.read("One row is", default, partial(_read_unit, case, proposed))
        if isinstance(answer, str):
            _tell_shares(case.source, answer)
        elif answer.person or proposed is None or _agrees_to_one_row(proposed, questions):
            return _with_columns(case, replace(asked, unit=answer))


def _read_unit(case: Case, proposed: str | None, text: str) -> Unit | str:
    """Return the unit that an answer states, or the column whose shares of rows it asks for."""
    from scumble.model.schema.unit import Unit

    start, names = case.start, case.source.columns
    kind, _, rest = text.partition(" ")
    kind = kind.lower()
    if kind == "person" and not rest:
        return Unit()
    if kind == "shares":
        return _one_of(_unquoted(rest) or proposed or "", names)
    column, _, most = rest.strip().rpartition(" ")
    if kind != "event" or not column or not most.lstrip("-").isdecimal():
        example = proposed or next((each.name for each in start.identifiers), names[0])
        raise ParameterError(
            "Type person, or event with the column that names the person and the most rows of a "
            f"person that count, such as: event {example} {_USUAL_BOUND}."
        )
    person = _one_of(_unquoted(column), names)
    if person not in start:
        raise ParameterError(f"The schema has no column '{person}': write it there as identifier.")
    if int(most) < 1:
        raise ParameterError("Type a whole number above 0.")
    return Unit(person, int(most))


def _tell_shares(source: Source, column: str) -> None:
    """Print which share of the rows is kept by bounds on the rows of a person."""
    from scumble.private.tables.persons.limit import shares_kept

    with bars.working("Counting rows"):
        shares = shares_kept(source, column, _BOUNDS)
    for most, share in shares.items():
        _tell(f"  {most:>2} of each person: {100 * share:.0f} % of the rows")


def _agrees_to_one_row(column: str, questions: Questions) -> bool:
    """Warn that a column that names people repeats; return whether the owner is sure."""
    _tell(
        f"'{column}' has the same value in several rows: a person seems to have several. If so, "
        "the promise would be about one row, not about a person."
    )
    return questions.agree("Is every row another person nevertheless")


def _ask_columns(case: Case, asked: GuideAnswers, questions: Questions) -> GuideAnswers:
    """Ask for the roles and types of the columns, and whether their values may be shown."""
    questions.head("Which columns are secret, and which are not to be published?")
    _tell_columns(case, asked)
    _tell_choices(asked)
    while True:
        found = asked.proposed.from_data
        sure = set(found) <= set(asked.declared)
        read = partial(_read_columns, case, asked, found)
        answer = questions.read("Your answer", "yes" if sure else "unsure", read)
        if not isinstance(answer, GuideAnswers):
            answered = replace(asked, declared=found if answer == "yes" else ())
        else:
            answered = _with_columns(case, answer)
        if not answered.proposed.published:
            _tell("No column is left to publish: choose again.")
        elif isinstance(answer, GuideAnswers):
            asked = answered
            _tell_columns(case, asked)
        else:
            return answered


def _tell_columns(case: Case, asked: GuideAnswers) -> None:
    """Print what is proposed for each column."""
    columns = asked.columns
    rows = [("column", "role", "values")]
    for each in columns:
        left_out = each.to_fill_in or each.limits_needed
        role = "not published" if left_out else _ROLES[each.role]
        dropped = asked.roles.get(each.name) == "drop"
        rows.append((each.name, role, "as you said" if dropped else _described(each)))
    _tell_table(rows)
    if columns.to_fill_in:
        _tell(
            f"No values can be proposed for {', '.join(columns.to_fill_in)}. To publish them, "
            f"write their values: scumble schema infer {shlex.quote(case.given.source)} -o FILE."
        )


def _tell_choices(asked: GuideAnswers) -> None:
    """Print what can be answered about the columns."""
    _tell(
        "A secret column says what others must not learn about a person. A known one says what "
        "others may know of a person already."
    )
    words = [("yes", "this is right")]
    if asked.proposed.from_data:
        words = [
            ("yes", "this is right: no other values can occur, and everybody may see these"),
            ("unsure", "a value may be missing, or may be a secret: the certificate warns of it"),
        ]
    changes = (
        f"such as {_quoted(asked.columns.names[-1])}=secret. After the = stands secret, known, "
        "drop (it is not published), codes or numbers. Commas separate several changes"
    )
    _tell_table([*words, ("changes", changes)])


def _read_columns(
    case: Case, asked: GuideAnswers, found: Sequence[str], text: str
) -> str | GuideAnswers:
    """Return "yes", "unsure", or the answers with the changes that `text` makes."""
    word = text.lower()
    if word in ("y", "yes"):
        return "yes"
    if word == "unsure" and found:
        return word
    roles, types, declared = dict(asked.roles), dict(asked.types), list(asked.declared)
    limits = dict(asked.limits)
    for change in _listed(text):
        left, equals, word = (each.strip() for each in change.rpartition("="))
        if not equals:
            raise ParameterError(
                f"Type yes{', unsure' if found else ''}, or changes such as "
                f"{_quoted(case.start.names[-1])}=drop."
            )
        name = _one_of(_unquoted(left), case.start.names)
        if ".." in word and case.start[name].limits_needed:
            limits[name] = _read_limits(case.start[name], word)
            continue
        _change(case.start[name], word.lower(), roles, types)
        if asked.unit is not None and name == asked.unit.person and word.lower() != "drop":
            raise ParameterError(f"'{name}' names the person: it is never published.")
        if word.lower() not in _ROLE_WORDS and name in declared:
            declared.remove(name)
    return replace(asked, roles=roles, types=types, declared=tuple(declared), limits=limits)


def _read_limits(start: Attribute, word: str) -> tuple[float, float]:
    """Return the limits of amounts that are written as 0..50000."""
    ends = [each.strip() for each in word.split("..")]
    try:
        low, high = (int(each) if each.lstrip("-").isdigit() else float(each) for each in ends)
    except ValueError:
        raise ParameterError(
            f"Type the lowest and the highest amount of '{start.name}' that matter, as "
            f"{_quoted(start.name)}=0..50000. Got '{word}' instead."
        ) from None
    _limited(start, low, high)  # raises SchemaError if they are no limits
    return low, high


def _change(start: Attribute, word: str, roles: dict[str, str], types: dict[str, str]) -> None:
    """Give a column, as it was proposed, the role or the type for which `word` stands."""
    name, kinds = start.name, _types(start)
    if word == "drop":
        roles[name] = word
        types.pop(name, None)
    elif word == "secret" or (word == "known" and start.role == "identifier"):
        roles[name] = word
    elif word == "known":
        roles.pop(name, None)
    elif word in kinds:
        types[name] = kinds[word]
        if roles.get(name) == "drop":
            del roles[name]
    else:
        raise ParameterError(
            f"'{name}' can be {_in_words([*_ROLE_WORDS, *kinds], 'or')}. Got '{word}' instead."
        )


def _types(start: Attribute) -> dict[str, str]:
    """Return the types that a column may have by the words that stand for them."""
    numbers = start.kind in ("integer", "binned")
    kinds = start.either or ((start.kind, "category") if numbers else ())
    return {_TYPE_WORDS[each]: each for each in kinds}


def _described(attribute: Attribute) -> str:
    """Return the values of a column, or why it has none, and the types to choose from."""
    from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange

    words = list(_types(attribute)) if attribute.either else []
    name, domain = _quoted(attribute.name), attribute.domain
    if domain is None:
        reason = re.split(r"[.:;](?: |$)", attribute.note)[0]
        each = [f"{name}={word} ({_MEANT[word]})" for word in words]
        return f"{reason}. Type {_in_words(each, 'or')}" if words else reason
    missing = ", or empty" if attribute.missing else ""
    if attribute.limits_needed:
        return (
            f"amounts{missing}. To publish them, type the limits that matter, as {name}=0..50000; "
            "amounts beyond count as the limit"
        )
    match domain:
        case Category():
            shown = ", ".join(map(str, domain.values[:_SHOWN_VALUES]))
            more = f", ... ({domain.size} in all)" if domain.size > _SHOWN_VALUES else ""
            other = "".join(f". If they are {_MEANT[w]}, type {name}={w}" for w in words[1:])
            return f"{'codes ' if words else ''}{shown}{more}{missing}{other}"
        case IntegerRange():
            return f"whole numbers from {domain.low} to {domain.high}{missing}"
        case Bins():
            low, high = domain.edges[0], domain.edges[-1]
            return f"numbers from {low:g} to {high:g}, in {domain.size} groups{missing}"
        case Dates():
            return f"dates from {domain.low} to {domain.high}, by {domain.by}{missing}"
        case Boolean():
            return f"yes or no{missing}"
    return attribute.describe()


def _in_words(items: Sequence[object], last: str = "and") -> str:
    """Return items as "1, 2 and 3"."""
    *most, end = map(str, items)
    return f"{', '.join(most)} {last} {end}" if most else end


def _quoted(name: str) -> str:
    """Return the name of a column as `_listed` reads it."""
    return f'"{name}"' if re.search("[,;]", name) else name


def _unquoted(name: str) -> str:
    return name.strip().removeprefix('"').removesuffix('"')


def _listed(answer: str) -> list[str]:
    """Return what a list with commas or semicolons holds; a name that holds one is quoted.

    >>> _listed('age; sex, "Weight; kg"')
    ['age', 'sex', 'Weight; kg']
    """
    return options.columns([_QUOTED_OR_SEMICOLON.sub(lambda found: found[1] or ",", answer)])


def _one_of(name: str, known: Sequence[str]) -> str:
    if name in known:
        return name
    near = nearest_name(name, known)
    hint = f" Did you mean '{near}'?" if near else ""
    raise ParameterError(f"There is no column '{name}'.{hint}")


# --- what for, how careful, where to --------------------------------------------------------------


def _uses(schema: Schema) -> dict[str, str]:
    """Return what a table can be used for; a live database protects one row."""
    from scumble.private.recommend import USES

    return {name: text for name, text in USES.items() if name != "live" or not schema.person}


def _ask_use(asked: GuideAnswers, questions: Questions) -> GuideAnswers:
    uses = _uses(asked.schema)
    before = asked.use if asked.use in uses else "questions"
    questions.head("What will others do with it?")
    return replace(asked, use=cast("Use", questions.choose(uses, before, promise=False)))


def _ask_care(asked: GuideAnswers, questions: Questions) -> GuideAnswers:
    from scumble.private.recommend import CARE_LEVELS

    questions.head("How careful should it be with each person?")
    levels = {
        each.name: f"{each.name} (ε = {each.epsilon:g}): {each.sentence}" for each in CARE_LEVELS
    }
    return replace(asked, care=questions.choose(levels, asked.care))


def _public_rows(given: Guided, source: Source, schema: Schema) -> int | None:
    """Return the number of rows if the release may tell it."""
    from scumble.private.publish import count_rows

    if schema.person or given.outside == "drop":
        return None
    with bars.working("Counting rows"):
        return count_rows(source, schema)


def _tell_plan(advice: Advice, schema: Schema, columns: Sequence[str], rows: int | None) -> None:
    """Print what will be published, how, and what will not."""
    from scumble.model.schema.unit import Unit
    from scumble.private.recommend import TYPICAL_ROWS

    best = advice.best
    published = list(best.parameters.get("attributes", [each.name for each in schema.published]))
    sums = best.parameters.get("sums", ())
    alone = [name for name in sums if name not in published]
    others = [name for name in columns if name not in (*published, *alone)]
    secret = [each.name for each in schema.sensitive if each.name in (*published, *alone)]
    _tell("\nThe plan")
    _tell_table(
        [
            ("Published:", ", ".join([*published, *(f"sums of {name}" for name in alone)])),
            ("Secret:", ", ".join(secret) or "nothing"),
            ("Not published:", ", ".join(others) or "nothing"),
            ("Protected:", (schema.unit or Unit()).describe()),
            ("Method:", f"{best.method} ({best.setting}). {best.reason}"),
        ]
    )
    if rows is None:
        _tell(f"The number of rows is private, so {TYPICAL_ROWS:,} are assumed.")
    _tell(
        "Answers are noisy: changed at random, so that they do not tell what one person adds. 19 "
        "times in 20 they are off by at most:"
    )
    for error in best.errors:
        _tell(f"  {error}")


def _ask_place(given: Guided, steps: Sequence[str], questions: Questions) -> Path | str:
    """Return the folder to publish to, or the name of a question to ask again, or STOP."""
    default = str(given.output or _free_place(given))

    def check(answer: str) -> Path | str:
        if answer == STOP:
            return STOP
        if answer.isdecimal():
            if not 1 <= int(answer) <= len(steps):
                raise ParameterError(f"Type a number from 1 to {len(steps)}, a folder or {STOP}.")
            return steps[int(answer) - 1]
        place = Path(default if answer in ("y", "yes", "publish") else answer)
        _check_place(place)
        return place

    questions.head("Where to?")
    _tell_table(
        [
            ("FOLDER", "publish by this plan to a new folder of this name"),
            (f"1 to {len(steps)}", "change the answer to that question"),
            (STOP, "stop, and publish nothing"),
        ]
    )
    return questions.read("Publish to", default, check, promise=False)


def _free_place(given: Guided) -> str:
    """Return the name of a folder that does not exist yet."""
    name = f"{_stem(given.source)}-release"
    for number in count(2):
        place = Path(name)
        if not any(each.exists() for each in (place, _certificate_file(place), _own_file(place))):
            break
        name = f"{_stem(given.source)}-release-{number}"
    return name


def _check_place(output: Path) -> None:
    """Refuse a place where there is something, of the release or beside it."""
    from scumble.public.archive.archive import check_new_place, is_free

    check_new_place(output)
    for place in (output, _certificate_file(output)):
        if not is_free(place):
            raise OutputExistsError.of(place, "Choose another name.")


def _certificate_file(output: Path) -> Path:
    return output.with_name(f"{output.name}-certificate.html")


def _own_file(output: Path) -> Path:
    """Return the file of a schema that differs from the one beside the release."""
    return output.with_name(f"{output.name}.toml")


def _schema_file(given: Guided, schema: Schema, output: Path) -> Path:
    """Return the file of the schema: the one that was given, or a new one beside the release."""
    if given.schema is not None and type(schema).load(given.schema) == schema:
        return given.schema
    file = output.with_name(f"{_stem(given.source)}.toml")
    return _own_file(output) if file.exists() else file


# --- what is made ---------------------------------------------------------------------------------


@contextmanager
def _nothing_half_made(*places: Path) -> Iterator[None]:
    """Remove those of the places that were not there before, if what makes them does not end."""
    from scumble.public.archive.archive import is_free

    new = [place for place in places if is_free(place)]
    try:
        yield
    except BaseException:
        with ignore_interrupts():
            for place in new:
                if place.is_dir():
                    shutil.rmtree(place)
                else:
                    place.unlink(missing_ok=True)
        raise


def _make_release(
    given: Guided, asked: GuideAnswers, advice: Advice, output: Path, file: Path
) -> Sequence[Finding]:
    """Publish, and save the release, its schema and its certificate. Return what is refuted."""
    from scumble.audit.report import Certified, page, write_owner_only
    from scumble.audit.subjects import of_release
    from scumble.cli.publish import tell_remarks
    from scumble.model.schema.unit import Unit
    from scumble.private.publish import publish
    from scumble.private.publish_options import PublishOptions, Table

    schema, certificate = asked.schema, _certificate_file(output)
    with _nothing_half_made(output, certificate, file):
        expected = options.rows_of(given.source, given.table)
        with bars.progress("Publishing", expected) as progress:
            release = publish(
                Table(given.source, table=given.table),
                schema,
                advice.best.mechanism(),
                options=PublishOptions(outside=cast(Any, given.outside), progress=progress),
            )
        release.save(output)
        if not file.exists():
            schema.save(file)
        with bars.working("Checking the release"):
            report = of_release(output)
        who = (schema.unit or Unit()).describe()
        promise = str(release.guarantees[0])
        about = Certified(_stem(given.source), who, promise, declared=asked.declared)
        write_owner_only(certificate, page(report, about=about))
    tell_remarks(release)
    console.echo(f"Published {output}.")
    printing.bullets(map(str, release.guarantees))
    console.echo("Ask it:")
    console.echo(f"  {printing.example_command(release, output)}")
    _echo(f"The certificate is in {certificate}. The description of the columns is in {file}.")
    return report.refuted


def _echo(text: str) -> None:
    """Print sentences of the result, wrapped to a terminal."""
    console.echo(_wrapped(text, sys.stdout))


def _tell_refuted(refuted: Sequence[Finding], schema: Schema, file: Path) -> None:
    """Say what the certificate refutes, and what to do."""
    for each in refuted:
        _tell(f"\nWARNING: The certificate says: {each.sentence}")
    if refuted and schema.from_data:
        _tell(
            "Before you hand anything on, say that everybody may see these values: look at the "
            f"values of {', '.join(schema.from_data)} in {file}, add those that are missing, "
            "delete the lines from_data = true, and publish again by the command above with "
            "--force."
        )


def _make_database(given: Guided, schema: Schema, advice: Advice, output: Path, file: Path) -> None:
    """Create a database that answers one question after the other."""
    from scumble.private.database.database import Database

    with _nothing_half_made(output, file):
        with bars.working("Creating the database"):
            reading: Any = {"table": given.table, "outside": given.outside}
            made = Database.create(
                output, given.source, schema, **advice.best.parameters, **reading
            )
            made.close()
        if not file.exists():
            schema.save(file)
    _echo(f"Created the database {output}. The description of the columns is in {file}.")
    words = ["scumble", "db", "shell", str(output), "--source", given.source]
    console.echo(f"Ask it: {shlex.join(words)}")

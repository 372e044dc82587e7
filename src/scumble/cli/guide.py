"""`scumble publish SOURCE` without a method: five questions that end in a release.

The answers make a schema and choose a method. What is written in the end is the release, a
certificate, the schema if it is new, and the command that publishes again without questions.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from scumble.cli import bars, console, options
from scumble.cli.signals import ignore_interrupts
from scumble.model.errors import OutputExistsError, ParameterError, ScumbleError, nearest_name

if TYPE_CHECKING:
    from scumble.model.schema.attribute import Attribute
    from scumble.model.schema.schema import Schema
    from scumble.model.schema.unit import Unit
    from scumble.private.recommend import Advice, Use

T = TypeVar("T")
Ask = Callable[[str, str], str]  # a prompt and its default, and what was answered

_BOUNDS = (1, 2, 5, 10)  # on the rows of a person, of which the shares that they keep are shown
_USUAL_BOUND = "5"
_QUOTED_OR_SEMICOLON = re.compile(r'("[^"]*")|;')
_SHOWN_VALUES = 6  # of a column
_ROLES = {
    "sensitive": "secret",
    "quasi": "known to others",
    "insensitive": "known to others",
    "identifier": "not published",
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
    number: int = 0

    def head(self, title: str) -> None:
        """Print the head of the next question."""
        self.number += 1
        console.say(f"\n{self.number}. {title}")

    def read(
        self, prompt: str, default: str, check: Callable[[str], T], *, promise: bool = True
    ) -> T:
        """Return what `check` makes of an answer. `promise` tells that a promise depends on it."""
        while True:
            try:
                return check(self.ask(prompt, default) if promise else self.take(prompt, default))
            except ScumbleError as error:
                console.say(str(error))

    def take(self, prompt: str, proposal: str) -> str:
        """Return an answer on which no promise depends: with `yes`, the proposal."""
        if not self.yes:
            return self.ask(prompt, proposal)
        console.say(f"{prompt}: {proposal}")
        return proposal

    def choose(self, choices: Mapping[str, str], default: str, *, promise: bool = True) -> str:
        """Return one of the choices, which are listed with numbers."""
        names = list(choices)
        for number, sentence in enumerate(choices.values(), 1):
            console.say(f"  {number}  {sentence}")

        def check(answer: str) -> str:
            if answer in names:
                return answer
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            raise ParameterError(f"Type a number from 1 to {len(names)}.")

        return self.read("Which", str(names.index(default) + 1), check, promise=promise)

    def agree(self, question: str) -> bool:
        """Return whether a question was answered by yes; no, if nothing is said."""

        def check(answer: str) -> bool:
            if answer.lower() not in ("y", "yes", "n", "no"):
                raise ParameterError("Type y or n.")
            return answer.lower().startswith("y")

        return self.read(f"{question} (y/n)", "n", check)


def publish_guided(given: Guided, questions: Questions) -> None:
    """Ask, and publish by the method that suits the answers."""
    from scumble.private.recommend import DATABASE, TYPICAL_ROWS, recommend
    from scumble.private.tables.open import open_source

    with bars.working("Looking at the table"):
        source = open_source(given.source, table=given.table)
    console.say(
        "At most five questions, and then a release. Enter takes what stands in brackets; Ctrl-C "
        "ends, and leaves nothing behind."
    )
    schema = ask_schema(given, source, questions)
    use = _ask_use(questions)
    level = _ask_level(questions)
    rows = _public_rows(given, source, schema)
    advice = recommend(schema, rows=rows or TYPICAL_ROWS, use=use, epsilon=level.epsilon)
    _tell_plan(advice, schema, source.columns, rows)
    output = given.output or _ask_place(given, questions)
    _check_place(output)
    file = _schema_file(given, schema, output)
    if advice.best.method == DATABASE:
        _make_database(given, schema, advice, output, file)
    else:
        _make_release(given, schema, advice, output, file)
    if use == "rows":
        console.echo(f"Draw rows from it: scumble rows {shlex.quote(str(output))} -o rows.csv")
    command = advice.best.command(given.source, str(file), str(output))
    console.echo("\nThe same again, without questions:")
    console.echo(f"  {command}{_reading(given)}")


def _reading(given: Guided) -> str:
    """Return the options for how the table is read, as they were given."""
    words = [] if given.table is None else ["--table", given.table]
    words += [] if given.outside == "error" else ["--outside", given.outside]
    return f" {shlex.join(words)}" if words else ""


# --- what is in the table -------------------------------------------------------------------------


def ask_schema(given: Guided, source: Any, questions: Questions) -> Schema:
    """Return the schema of the table, with the unit that is protected."""
    from scumble.model.schema.schema import Schema

    if given.schema is not None:
        schema = Schema.load(given.schema)
        if schema.unit is None:
            return _ask_unit(schema, source, questions)
        return schema
    schema = _infer(given)
    schema = _ask_unit(schema, source, questions)
    return _ask_roles(given, schema, questions)


def _infer(given: Guided, unit: Unit | None = None, **known: Any) -> Schema:
    """Propose a schema by reading the table. A unit that is stated needs its column of people."""
    from scumble.model.schema.schema import Schema

    with bars.progress("Reading", options.rows_of(given.source, given.table)) as progress:
        schema = Schema.infer(given.source, table=given.table, progress=progress, **known)
    if unit is None:
        return schema
    people = [] if unit.person is None else [unit.person]
    return replace(schema.with_roles(identifier=people), unit=unit)


def _ask_unit(schema: Schema, source: Any, questions: Questions) -> Schema:
    """Return the schema with what one row stands for. Who is protected is never assumed."""
    proposed = None if schema.unit is None else schema.unit.person
    questions.head("What does one row stand for?")
    kinds = {
        "row": "one person: nobody has two rows",
        "person": "one event of a person, such as a visit: somebody may have several rows",
    }
    while questions.choose(kinds, "row" if proposed is None else "person") == "row":
        if proposed is None or _agrees_to_one_row(proposed, questions):
            return schema.with_unit()
    names = [each.name for each in schema.identifiers]
    column = questions.read(
        "Which column names the person",
        proposed or (names or list(schema.names))[0],
        lambda answer: _one_of(answer, source.columns),
    )
    console.say(
        "Of each person some rows count, at most as many as you say: more rows tell more, and need "
        "more noise. Which share of your rows is kept can be shown; it is read from the table, and "
        "a choice that follows it may reveal a little."
    )
    if questions.agree("Show it for 1, 2, 5 and 10 rows"):
        from scumble.private.tables.persons.limit import shares_kept

        with bars.working("Counting rows"):
            shares = shares_kept(source, column, _BOUNDS)
        for most, share in shares.items():
            console.say(f"  {most:>2} of each person: {100 * share:.0f} % of the rows")
    most = questions.read("How many rows of one person count at most", _USUAL_BOUND, _whole)
    if column not in schema:
        raise ParameterError(f"The schema has no column '{column}': write it there as identifier.")
    return schema.with_roles(identifier=[column]).with_unit(column, most)


def _agrees_to_one_row(column: str, questions: Questions) -> bool:
    """Warn that a column that names people repeats; return whether the owner is sure."""
    console.say(
        f"'{column}' has the same value in several rows: a person seems to have several. If so, "
        "the promise would be about one row, not about a person."
    )
    return questions.agree("Is every row another person nevertheless")


def _ask_roles(given: Guided, schema: Schema, questions: Questions) -> Schema:
    """Return the schema with the roles of the columns, and with values that the owner has read."""
    from scumble.cli.schema import ask_for_types

    questions.head("Which columns must stay secret, and which are not to be published?")
    types = ask_for_types(schema, lambda proposal: questions.take("Number", proposal))
    if types:
        schema = _infer(given, schema.unit, types=types)
    for attribute in schema:
        console.say(f"  {attribute.name}: {_described(attribute)}")

    def names(answer: str) -> list[str]:
        chosen = [] if answer.lower() == "none" else _listed(answer)
        return [_one_of(name, schema.names) for name in chosen]

    unpublished = [each.name for each in schema if each.role == "identifier"]
    secret = questions.read("Secret, even from those who know the rest", "none", names)
    left = [name for name in unpublished if name not in secret]
    hidden = questions.read("Not to be published", ",".join(left) or "none", names)
    person = None if schema.unit is None else schema.unit.person
    if person is not None and person not in hidden:
        hidden = [*hidden, person]
    types = {name: kind for name, kind in types.items() if name not in hidden}
    both = [name for name in secret if name in hidden]
    secret = [name for name in secret if name not in both]
    if secret or hidden != unpublished:
        schema = _infer(given, schema.unit, types=types, sensitive=secret, identifier=hidden)
    others = [a.name for a in schema if a.role == "quasi" and not a.to_fill_in]
    console.say(f"Known to others: {', '.join(others) or 'nothing'}.")
    if schema.to_fill_in:
        names_left = ", ".join(schema.to_fill_in)
        console.say(
            f"Left out: {names_left}, for which no values can be proposed. To publish them, write "
            f"their values: scumble schema infer {shlex.quote(given.source)} -o FILE."
        )
        schema = schema.select(name for name in schema.names if name not in schema.to_fill_in)
    return _ask_values(schema, questions)


def _ask_values(schema: Schema, questions: Questions) -> Schema:
    """Return the schema without the marks of values that were read from the data, if the owner
    says that they are public.
    """
    if not schema.from_data:
        return schema
    console.say(f"These values were read from the table: {', '.join(schema.from_data)}.")
    if questions.agree("Are they all that can occur, and no secret themselves"):
        return schema.declare_public()
    console.say("The release will say that no promise covers them. Write what can occur later.")
    return schema


def _described(attribute: Attribute) -> str:
    """Return the proposed role of a column, and its values."""
    from scumble.model.schema.domains import Category

    role = _ROLES[attribute.role]
    if attribute.domain is None:
        reason = attribute.note.partition(". ")[0].rstrip(".")
        return f"{role}. {reason}." if reason else role
    if not isinstance(attribute.domain, Category):
        return f"{role}, {attribute.describe()}"
    values = [str(value) for value in attribute.domain.values[:_SHOWN_VALUES]]
    more = ", ..." if attribute.size > _SHOWN_VALUES else ""
    return f"{role}, {', '.join(values)}{more}"


def _listed(answer: str) -> list[str]:
    """Return the names of columns in a list with commas or semicolons, quoted where they hold one.

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


def _whole(answer: str) -> int:
    if not answer.isdecimal() or int(answer) < 1:
        raise ParameterError("Type a whole number above 0.")
    return int(answer)


# --- what for, how careful, where to --------------------------------------------------------------


def _ask_use(questions: Questions) -> Use:
    from scumble.private.recommend import USES

    questions.head("What will others do with it?")
    sentences = {str(name): sentence for name, sentence in USES.items()}
    return cast("Use", questions.choose(sentences, "questions", promise=False))


def _ask_level(questions: Questions) -> Any:
    from scumble.private.recommend import CARE_LEVELS

    questions.head("How careful shall it be with each person?")
    levels = {each.name: each for each in CARE_LEVELS}
    sentences = {n: f"{n} (ε = {each.epsilon:g}): {each.sentence}" for n, each in levels.items()}
    return levels[questions.choose(sentences, CARE_LEVELS[0].name)]


def _public_rows(given: Guided, source: Any, schema: Schema) -> int | None:
    """Return the number of rows if the release may tell it."""
    from scumble.private.publish import count_rows

    several = schema.unit is not None and schema.unit.person is not None
    if several or given.outside == "drop":
        return None
    with bars.working("Counting rows"):
        return count_rows(source, schema)


def _tell_plan(advice: Advice, schema: Schema, columns: Sequence[str], rows: int | None) -> None:
    """Print what will be published, how, and what will not."""
    from scumble.model.schema.unit import Unit
    from scumble.private.recommend import TYPICAL_ROWS

    best = advice.best
    published = list(best.parameters.get("attributes", [each.name for each in schema.published]))
    others = [name for name in columns if name not in published]
    console.say("\nThe plan")
    console.say(f"  Published:      {', '.join(published)}")
    console.say(f"  Not published:  {', '.join(others) or 'nothing'}")
    console.say(f"  Protected:      {(schema.unit or Unit()).describe()}")
    console.say(f"  Method:         {best.method}, {best.setting}. {best.reason}")
    if rows is None:
        console.say(f"  The number of rows is private, so {TYPICAL_ROWS:,} are assumed.")
    console.say("  To expect, nineteen times in twenty:")
    for error in best.errors:
        console.say(f"    {error}")


def _ask_place(given: Guided, questions: Questions) -> Path:
    def check(answer: str) -> Path:
        _check_place(Path(answer))
        return Path(answer)

    questions.head("Where to?")
    proposal = f"{_stem(given.source)}-release"
    return questions.read("A new folder", proposal, check, promise=False)


def _check_place(output: Path) -> None:
    """Refuse a place where there is something, of the release or beside it."""
    from scumble.public.archive.archive import check_new_place, is_free

    check_new_place(output)
    for place in (output, _certificate_file(output)):
        if not is_free(place):
            raise OutputExistsError.of(place, "Choose another name.")


def _certificate_file(output: Path) -> Path:
    return output.with_name(f"{output.name}-certificate.html")


def _schema_file(given: Guided, schema: Schema, output: Path) -> Path:
    """Return the file of the schema: the one that was given, or a new one beside the release."""
    if given.schema is not None and type(schema).load(given.schema) == schema:
        return given.schema
    file = output.with_name(f"{_stem(given.source)}.toml")
    return output.with_name(f"{output.name}.toml") if file.exists() else file


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


def _make_release(given: Guided, schema: Schema, advice: Advice, output: Path, file: Path) -> None:
    """Publish, and save the release, its schema and its certificate."""
    from scumble.audit.report import Certified, page, write_owner_only
    from scumble.audit.subjects import of_release
    from scumble.cli.publish import show_made
    from scumble.model.schema.unit import Unit
    from scumble.private.publish import publish
    from scumble.private.publish_options import PublishOptions, Table

    certificate = _certificate_file(output)
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
        about = Certified(_stem(given.source), who, str(release.guarantees[0]))
        write_owner_only(certificate, page(report, about=about))
    show_made(release, output, as_json=False)
    console.echo(f"The certificate is in {certificate}. Its schema is in {file}.")


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
    console.echo(f"Created the database {output}. Its schema is in {file}.")
    words = ["scumble", "db", "shell", str(output), "--source", given.source]
    console.echo(f"Ask it: {shlex.join(words)}")

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

from scumble.cli import bars, console, options
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
    from scumble.private.recommend import Advice, CareLevel, Use
    from scumble.private.tables.source import Source

T = TypeVar("T")
Ask = Callable[[str, str], str]  # a prompt and its default, and what was answered

_BOUNDS = (1, 2, 5, 10)  # on the rows of a person, of which the shares that they keep are shown
_USUAL_BOUND = "5"
_QUOTED_OR_SEMICOLON = re.compile(r'("[^"]*")|;')
_LABEL = re.compile(r" *(?:[^:.]+: {2,}|\d+ {2})?")  # of a line: what stands before its sentence
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
    titles: list[str] = field(default_factory=list)
    types: Mapping[str, str] = field(default_factory=dict)  # of columns, as they were chosen

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

    def choose(
        self,
        choices: Mapping[str, str],
        default: str,
        *,
        prompt: str = "Which",
        promise: bool = True,
    ) -> str:
        """Return one of the choices, which are listed with numbers."""
        names = list(choices)
        for number, sentence in enumerate(choices.values(), 1):
            _tell(f"  {number}  {sentence}")

        def check(answer: str) -> str:
            if answer in names:
                return answer
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            raise ParameterError(f"Type a number from 1 to {len(names)}.")

        return self.read(prompt, str(names.index(default) + 1), check, promise=promise)

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


def _wrapped(text: str, stream: TextIO) -> str:
    """Wrap lines at words to the width of a terminal; what follows a label stands below itself."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except OSError:
        width = 0
    if not width:
        return text
    lines = []
    for line in text.split("\n"):
        label = _LABEL.match(line)
        indent = " " * (len(label[0]) if label else 0)
        lines += textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def publish_guided(given: Guided, questions: Questions) -> None:
    """Ask, and publish by the method that suits the answers."""
    from scumble.private.recommend import DATABASE, TYPICAL_ROWS, recommend

    if given.output is not None:
        _check_place(given.output)
    with bars.working("Looking at the table"):
        source = _open(given)
    start = _infer(given) if given.schema is None else _load(given.schema)
    _check_publishable(start, given)
    _tell(
        "Five questions, some in parts, and then a release. Press Enter for the answer in "
        "brackets; Ctrl-C ends, and leaves nothing behind."
    )
    asked = ask_schema(given, start, source, questions)
    use = _ask_use(questions, asked.schema)
    level = _ask_level(questions)
    rows = _public_rows(given, source, asked.schema)
    while True:
        schema = asked.schema
        advice = recommend(schema, rows=rows or TYPICAL_ROWS, use=use, epsilon=level.epsilon)
        _tell_plan(advice, schema, source.columns, rows)
        step = _ask_step(questions, columns=given.schema is None or start.unit is None)
        if step == "publish":
            break
        if step == "stop":
            _tell("Nothing was published.")
            return
        if step == "careful":
            level = _ask_level(questions, level.name)
            continue
        asked = ask_schema(given, start, source, questions, before=schema)
        rows = _public_rows(given, source, asked.schema)
        if use not in _uses(asked.schema):
            use = _ask_use(questions, asked.schema)
    output = given.output or _ask_place(given, questions)
    file = _schema_file(given, schema, output)
    refuted: Sequence[Finding] = ()
    if advice.best.method == DATABASE:
        _make_database(given, schema, advice, output, file)
    else:
        refuted = _make_release(given, asked, advice, output, file)
    if use == "rows":
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
class Asked:
    """The schema as it was answered, and the columns whose values the owner declared."""

    schema: Schema
    declared: tuple[str, ...] = ()


def ask_schema(
    given: Guided,
    start: Schema,
    source: Source,
    questions: Questions,
    before: Schema | None = None,
) -> Asked:
    """Return the schema of the table, with the unit that is protected.

    `start` was read from the table or is the one that was given; the answers `before` are proposed.
    """
    if given.schema is not None:
        return Asked(start if start.unit else _ask_unit(start, source, questions, before))
    schema = _ask_unit(start, source, questions, before)
    return _ask_roles(given, schema, questions, before)


def _infer(given: Guided, unit: Unit | None = None, **known: Any) -> Schema:
    """Propose a schema by reading the table. A unit that is stated needs its column of people."""
    from scumble.model.schema.schema import Schema

    with bars.progress("Reading", options.rows_of(given.source, given.table)) as progress:
        schema = Schema.infer(given.source, table=given.table, progress=progress, **known)
    if unit is None:
        return schema
    people = [] if unit.person is None else [unit.person]
    return replace(schema.with_roles(identifier=people), unit=unit)


def _ask_unit(
    schema: Schema, source: Source, questions: Questions, before: Schema | None
) -> Schema:
    """Return the schema with what one row stands for. Who is protected is never assumed."""
    from scumble.model.schema.unit import Unit

    proposed = None if schema.unit is None else schema.unit.person
    unit = Unit(proposed) if before is None else before.unit or Unit()
    questions.head("What does one row stand for?")
    kinds = {
        "row": "one person: nobody has two rows",
        "person": "one event of a person, such as a visit: somebody may have several rows",
    }
    while questions.choose(kinds, "row" if unit.person is None else "person") == "row":
        if proposed is None or _agrees_to_one_row(proposed, questions):
            return schema.with_unit()
    names = [each.name for each in schema.identifiers]
    column = questions.read(
        "Which column names the person",
        unit.person or proposed or (names or list(schema.names))[0],
        lambda answer: _one_of(answer, source.columns),
    )
    _tell(
        "scumble counts at most this many rows of each person and leaves the others out. More rows "
        "keep more of the table but need more noise. Which share of your rows is kept can be "
        "shown; it is read from the table, and a choice that follows it may reveal a little."
    )
    if questions.agree("Show it for 1, 2, 5 and 10 rows"):
        from scumble.private.tables.persons.limit import shares_kept

        with bars.working("Counting rows"):
            shares = shares_kept(source, column, _BOUNDS)
        for most, share in shares.items():
            _tell(f"  {most:>2} of each person: {100 * share:.0f} % of the rows")
    usual = _USUAL_BOUND if before is None or not unit.person else str(unit.most_rows)
    most = questions.read("How many rows of one person count at most", usual, _whole)
    if column not in schema:
        raise ParameterError(f"The schema has no column '{column}': write it there as identifier.")
    return schema.with_roles(identifier=[column]).with_unit(column, most)


def _agrees_to_one_row(column: str, questions: Questions) -> bool:
    """Warn that a column that names people repeats; return whether the owner is sure."""
    _tell(
        f"'{column}' has the same value in several rows: a person seems to have several. If so, "
        "the promise would be about one row, not about a person."
    )
    return questions.agree("Is every row another person nevertheless")


def _ask_roles(given: Guided, schema: Schema, questions: Questions, before: Schema | None) -> Asked:
    """Return the schema with the roles of the columns, and with values that the owner has read."""
    from scumble.cli.schema import ask_for_types

    questions.head("Which columns must stay secret, and which are not to be published?")
    number = partial(questions.take, "Number")
    types = questions.types = ask_for_types(schema, number, questions.types)
    if types:
        schema = _infer(given, schema.unit, types=types)
    for attribute in schema:
        _tell(f"  {attribute.name}: {_described(attribute)}")

    def names(answer: str) -> list[str]:
        chosen = [] if answer.lower() == "none" else _listed(answer)
        return [_one_of(name, schema.names) for name in chosen]

    answered = before or schema
    unpublished = [each.name for each in schema if each.role == "identifier"]
    secret = questions.read(
        "Which of them must stay secret (comma-separated)",
        _in_list([each.name for each in answered if each.role == "sensitive"]),
        names,
    )
    left = [each.name for each in answered if each.role == "identifier" and each.name not in secret]
    _tell("The columns that you type next replace the list in brackets.")
    hidden = questions.read("Not to be published", _in_list(left), names)
    person = None if schema.unit is None else schema.unit.person
    if person is not None and person not in hidden:
        hidden = [*hidden, person]
    types = {name: kind for name, kind in types.items() if name not in hidden}
    secret = [name for name in secret if name not in hidden]
    if secret or hidden != unpublished:
        schema = _infer(given, schema.unit, types=types, sensitive=secret, identifier=hidden)
    others = [a.name for a in schema if a.role == "quasi" and not a.to_fill_in]
    _tell(f"Known to others: {', '.join(others) or 'nothing'}.")
    if schema.to_fill_in:
        names_left = ", ".join(schema.to_fill_in)
        _tell(
            f"Left out: {names_left}, for which no values can be proposed. To publish them, write "
            f"their values: scumble schema infer {shlex.quote(given.source)} -o FILE."
        )
    kept = [name for name in schema.names if name not in schema.to_fill_in]
    if not any(each.role != "identifier" for each in schema if each.name in kept):
        _tell("No column is left to publish: choose again.")
        return _ask_roles(given, schema, questions, before)
    return _ask_values(schema.select(kept), questions, before)


def _ask_values(schema: Schema, questions: Questions, before: Schema | None) -> Asked:
    """Return the schema without the marks of values that were read from the data, if the owner
    says that they are public.
    """
    found = schema.from_data
    if not found:
        return Asked(schema)
    _tell(f"These values were read from the table: {', '.join(found)}.")
    known = before is not None and not before.from_data
    same = known and set(found) <= {each.name for each in cast("Schema", before).published}
    question = "Are they all that can occur, and no secret themselves"
    if questions.agree(question, "y" if same else "n"):
        return Asked(schema.declare_public(), found)
    _tell(
        "Then the release says that no promise covers these domains, and the certificate marks "
        "this as refuted. To declare them later, edit the schema beside the release: check each "
        "domain, delete its line from_data = true, and publish again."
    )
    return Asked(schema)


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


def _in_list(names: Sequence[str]) -> str:
    """Return names as `_listed` reads them."""
    quoted = [f'"{name}"' if re.search("[,;]", name) else name for name in names]
    return ",".join(quoted) or "none"


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


def _uses(schema: Schema) -> dict[str, str]:
    """Return what a table can be used for; a live database protects one row."""
    from scumble.private.recommend import USES

    several = schema.unit is not None and schema.unit.person is not None
    return {name: text for name, text in USES.items() if name != "live" or not several}


def _ask_use(questions: Questions, schema: Schema) -> Use:
    questions.head("What will others do with it?")
    return cast("Use", questions.choose(_uses(schema), "questions", promise=False))


def _ask_level(questions: Questions, before: str | None = None) -> CareLevel:
    from scumble.private.recommend import CARE_LEVELS

    questions.head("How careful should it be with each person?")
    levels = {each.name: each for each in CARE_LEVELS}
    sentences = {n: f"{n} (ε = {each.epsilon:g}): {each.sentence}" for n, each in levels.items()}
    return levels[questions.choose(sentences, before or CARE_LEVELS[0].name)]


def _ask_step(questions: Questions, *, columns: bool) -> str:
    """Return what to do after the plan. `columns` tells that some of them were asked about."""
    steps = {
        "publish": "publish",
        "columns": "change the columns, or what one row stands for",
        "careful": "change how careful",
        "stop": "stop, and publish nothing",
    }
    if not columns:
        del steps["columns"]
    return questions.choose(steps, "publish", prompt="What now", promise=False)


def _public_rows(given: Guided, source: Source, schema: Schema) -> int | None:
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
    _tell("\nThe plan")
    _tell(f"  Published:      {', '.join(published)}")
    secret = [each.name for each in schema.sensitive if each.name in published]
    _tell(f"  Secret:         {', '.join(secret) or 'nothing'}")
    _tell(f"  Not published:  {', '.join(others) or 'nothing'}")
    _tell(f"  Protected:      {(schema.unit or Unit()).describe()}")
    _tell(f"  Method:         {best.method}, {best.setting}. {best.reason}")
    if rows is None:
        _tell(f"  The number of rows is private, so {TYPICAL_ROWS:,} are assumed.")
    _tell("  Expected error (19 times in 20):")
    for error in best.errors:
        _tell(f"    {error}")


def _ask_place(given: Guided, questions: Questions) -> Path:
    def check(answer: str) -> Path:
        _check_place(Path(answer))
        return Path(answer)

    questions.head("Where to?")
    return questions.read("A new folder", _free_place(given), check, promise=False)


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
    given: Guided, asked: Asked, advice: Advice, output: Path, file: Path
) -> Sequence[Finding]:
    """Publish, and save the release, its schema and its certificate. Return what is refuted."""
    from scumble.audit.report import Certified, page, write_owner_only
    from scumble.audit.subjects import of_release
    from scumble.cli.publish import show_made
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
    show_made(release, output, as_json=False)
    _echo(f"The certificate is in {certificate}. Its schema is in {file}.")
    return report.refuted


def _echo(text: str) -> None:
    """Print sentences of the result, wrapped to a terminal."""
    console.echo(_wrapped(text, sys.stdout))


def _tell_refuted(refuted: Sequence[Finding], schema: Schema, file: Path) -> None:
    """Say what the certificate refutes, and what to do."""
    for each in refuted:
        _tell(f"\nWARNING: The certificate refutes a claim ({each.check}): {each.sentence}")
    if refuted and schema.from_data:
        _tell(
            f"To declare these domains, edit {file}: check each of {', '.join(schema.from_data)}, "
            "delete its line from_data = true, and publish again by the command above with "
            "--force, before you hand anything on."
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
    _echo(f"Created the database {output}. Its schema is in {file}.")
    words = ["scumble", "db", "shell", str(output), "--source", given.source]
    console.echo(f"Ask it: {shlex.join(words)}")

r"""The interactive shell of a database, and what the `db` commands print.

A line is a question in SQL, or a command that begins with \.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from scumble.cli import console, printing
from scumble.cli.signals import interrupt_handled
from scumble.model.errors import ParameterError, ScumbleError
from scumble.public.sql.names import sql_name

if TYPE_CHECKING:
    from scumble.private.database.answers import DatabaseEstimate
    from scumble.private.database.database import Database
    from scumble.private.database.inspect import DatabaseInspection
    from scumble.private.database.results import Cost, Event, Status, Usage
    from scumble.public.estimate import Estimate, Estimates
    from scumble.public.estimate_table import EstimateTable

PROMPT = "scumble> "
WORDS = (
    "SELECT COUNT(*) SUM( AVG( MEDIAN( STDDEV( FILTER FROM t WHERE AND OR NOT IN BETWEEN IS NULL "
    "LIKE GROUP BY ROLLUP CUBE HAVING ORDER LIMIT JOIN CASE WHEN THEN ELSE END TRUE FALSE"
).split()
HELP = r"""A line is a question: SELECT COUNT(*) FROM t WHERE ...
\cost SQL       what would become of a question; nothing is charged
\status         the promise, and how much of it is used
\history [N]    the questions so far, or the last N
\columns        what can be asked about
\help           this
\quit           leave; so does Ctrl-D"""
# The word before the cursor, read backwards as prompt_toolkit does, with the \ of a command.
_WORD_BACKWARDS = re.compile(r"^\w+\\?")
_RECALLED = 1000  # earlier questions that the arrow keys bring back


class Shell:
    """Answers lines until there are no more. An error in a line is printed, and the next is read.

    `options` are the arguments of `Database.ask` after the question, `level` that of intervals.
    Arrow keys bring back the questions of the journal; they are stored nowhere else.
    """

    def __init__(self, database: Database, options: Mapping[str, Any], level: float) -> None:
        self._database = database
        self._options = options
        self._level = level
        self._exit_code = 0
        self._commands: dict[str, Callable[[str], None]] = {
            "cost": self._cost,
            "status": lambda _: show_status(database),
            "history": self._history,
            "columns": lambda _: show_columns(database),
            "help": lambda _: console.echo(HELP),
        }

    def run(self) -> int:
        """Answer all lines; return the exit code: that of the last error, or 0 on a terminal."""
        if sys.stdin.isatty():
            console.say(
                f"{self._database!r}\nA line is a question; \\help says what else there is."
            )
            lines, on_terminal = typed_lines(self.words, self._recalled()), True
        else:
            lines, on_terminal = iter(sys.stdin), False
        for line in lines:
            if not self._run_line(line.strip().rstrip(";").strip()):
                break
        return 0 if on_terminal else self._exit_code

    @property
    def words(self) -> list[str]:
        """The words that can be completed: columns, SQL, commands."""
        columns = [sql_name(name) for name in self._database.space.names]
        return [*columns, *WORDS, *(f"\\{name}" for name in (*self._commands, "quit"))]

    def _run_line(self, line: str) -> bool:
        """Answer a line or run its command; return False if it ends the shell."""
        if line in ("\\quit", "\\q", "quit", "exit"):
            return False
        try:
            if line.startswith("\\"):
                self._run_command(line)
            elif line:
                answer = self._database.answer(line, **self._options)
                show_answer(answer, self._level)
        except ScumbleError as error:
            console.say(f"Error: {error}")
            self._exit_code = error.exit_code
        return True

    def _run_command(self, line: str) -> None:
        name, _, rest = line[1:].partition(" ")
        if name not in self._commands:
            known = ", ".join(f"\\{each}" for each in (*self._commands, "quit"))
            raise ParameterError(f"There is no command \\{name}. There are {known}.")
        self._commands[name](rest.strip())

    def _cost(self, sql: str) -> None:
        if not sql:
            raise ParameterError("Write the question after \\cost.")
        show_cost(self._database.preview(sql, **self._options))

    def _history(self, last: str) -> None:
        if last and not (last.isdecimal() and int(last)):
            raise ParameterError.of("\\history", "last", "a number of questions", last)
        found = self._database.history()
        show_history(found[-int(last) :] if last else found)

    def _recalled(self) -> list[str]:
        """Return the latest questions, each once; entries for added rows have none."""
        asked = (" ".join(entry.sql.split()) for entry in self._database.history()[-_RECALLED:])
        return list(dict.fromkeys(filter(None, asked)))


def typed_lines(words: Sequence[str], past: Sequence[str]) -> Iterator[str]:
    """Yield the lines that are typed on the terminal.

    `words` can be completed, `past` is the history of the arrow keys. Without prompt_toolkit,
    readline is used.
    """
    ask = _toolkit(words, past) if find_spec("prompt_toolkit") else _readline(words, past)
    while True:
        try:
            yield ask()
        except KeyboardInterrupt:  # the line is dropped, as in other shells
            interrupt_handled()
            console.echo()
        except EOFError:
            return


def _toolkit(words: Sequence[str], past: Sequence[str]) -> Callable[[], str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import InMemoryHistory

    session: PromptSession[str] = PromptSession(
        PROMPT,
        completer=WordCompleter(list(words), ignore_case=True, pattern=_WORD_BACKWARDS),
        history=InMemoryHistory(list(past)),
        auto_suggest=AutoSuggestFromHistory(),
    )
    return session.prompt


def _readline(words: Sequence[str], past: Sequence[str]) -> Callable[[], str]:
    """Read lines with readline; where it is missing, lines cannot be edited."""
    if find_spec("readline"):
        import readline

        readline.set_completer(completer(words))
        readline.set_completer_delims(" \t\n,()=<>")
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        for line in past:
            readline.add_history(line)
    return lambda: input(PROMPT)


def completer(words: Sequence[str]) -> Callable[[str, int], str | None]:
    """Return a completion function for readline: the word number `index` with a given prefix."""

    def complete(prefix: str, index: int) -> str | None:
        found = [word for word in words if word.lower().startswith(prefix.lower())]
        return found[index] if index < len(found) else None

    return complete


# --- printing ------------------------------------------------------------------------------------

_SHOWN_GROUPS = 20
_SHOWN_BATCHES = 20


def show_created(database: Database, folder: str) -> None:
    """Print a new database: its promise, its quotas, and how to ask it."""
    terms = database.terms
    place = shlex.quote(folder)
    console.echo(f"Created {folder}: {_promise(database)}")
    printing.bullets([str(database.guarantee)])
    for name, part in terms.quotas.items():
        printing.bullets([f"{name}: at most {terms.limit_of(part)} of the answers for a point."])
    console.echo(f'Ask: scumble ask {place} --source SOURCE "SELECT COUNT(*) FROM t"')


def show_appended(folder: str, number: int) -> None:
    """Print which batch the added rows are, and how to ask the database now."""
    ask = f"scumble ask {shlex.quote(folder)} --source SOURCE --batch ROWS"
    console.echo(f"Added as batch {number} of {folder}, with the whole promise.")
    if number > 2:
        console.echo(f"Give --batch {number - 1} times, in the order in which rows were added.")
    console.echo(f'Ask: {ask} "SELECT COUNT(*) FROM t"')


def show_answer(answer: Estimate | Estimates | EstimateTable, level: float) -> None:
    """Print an answer as a table, and whether it was repeated or relaxed: if another question was
    answered, that stands above its numbers.
    """
    rows, what = parts(answer)
    other = [each for each in rows if each[1].counted_instead]
    _show_relaxed(other, what)
    printing.show_answer(answer, level)
    relaxed = [each for each in rows if each[1].status == "relaxed" and each not in other]
    for status, words in _STATUSES.items():
        count = sum(each.status == status for _, each in rows)
        if count:
            groups = "" if count == len(rows) else f" for {count} of {len(rows)} {what}"
            console.echo(words + groups + ".")
    _show_relaxed(relaxed, what)


def _show_relaxed(relaxed: Sequence[tuple[tuple[Any, ...], Any]], what: str) -> None:
    """Print what relaxed numbers are about, each with its group."""
    for key, each in relaxed[:_SHOWN_GROUPS]:
        group = f"{', '.join(map(str, key))}: " if key else ""
        console.echo(group + _relaxed(each))
    if len(relaxed) > _SHOWN_GROUPS:
        console.echo(f"... and {len(relaxed) - _SHOWN_GROUPS} more {what} were relaxed.")


def parts(
    answer: Estimate | Estimates | EstimateTable,
) -> tuple[list[tuple[tuple[Any, ...], Any]], str]:
    """Return the estimates with what they are called: the group, and the name of the number."""
    from scumble.public.estimate import Estimates
    from scumble.public.estimate_table import EstimateTable

    if isinstance(answer, EstimateTable):
        rows = [((*key, name), each) for key, row in answer for name, each in row.items()]
        return rows, "numbers"
    return (list(answer) if isinstance(answer, Estimates) else [((), answer)]), "groups"


_STATUSES = {
    "answered": "Answered as asked",
    "repeated": "The same answer as before, free of charge",
}


def _relaxed(answer: DatabaseEstimate) -> str:
    """Return which condition was answered in place of the one asked."""
    if not answer.numbers:
        return "Not answered: the promise is used up here, and no earlier answer helps."
    made = f"made of {answer.numbers} answers" if answer.numbers > 1 else "an answer from before"
    if not answer.distance:
        return f"Exactly what was asked, {made}."
    where = f"WHERE {answer.answered}" if answer.answered else "many boxes"
    moved = f"relaxation error {answer.distance:.3g}: by that share of the ranges limits moved"
    return (
        f"Relaxed: this counts {where}, not what was asked ({moved}; {made}). The value and the "
        "limits below are for it."
    )


def show_cost(found: Cost) -> None:
    """Print the forecast of a question in a few sentences."""
    _show_forecast(found)
    if found.used_after is not None:
        console.echo(
            f"Used before it: {found.used} of {found.limit} answers where most was asked. After "
            f"it: {found.used_after}."
        )


def _show_forecast(found: Cost) -> None:
    """Print what would become of a question, in one or two sentences."""
    from scumble.public.estimate import format_number

    if found.status == "refused":
        console.echo(f"It would be refused. {found.reason}")
        return
    error = format_number(found.stderr, found.stderr)
    price = {0: "nothing to pay", 1: "1 new number"}.get(
        found.charged, f"{found.charged} new numbers"
    )
    console.echo(f"It would be {found.status}: standard error {error}, {price}.")
    if found.unanswered:
        numbers = "1 number" if found.unanswered == 1 else f"{found.unanswered} numbers"
        console.echo(f"The promise is used up for {numbers}, which will have no answer.")
    elif found.status == "relaxed" and not found.distance:
        console.echo("Its limits stay as asked; it is made of what was answered before.")
    elif found.status == "relaxed":
        what = f"What is counted instead: {found.answered}. " if found.answered else ""
        moved = f"Its limits moved by {found.distance:.3g} of the ranges (the relaxation error)."
        console.echo(f"{what}{moved}")
    for name, part in found.parts.items():
        error = format_number(part.stderr, part.stderr)
        console.echo(f"  {name}: {part.status}, standard error {error}")


def show_status(reading: Database | DatabaseInspection) -> None:
    """Print the promise of a database, and how much of it is used."""
    facts = reading.status()
    console.echo(_promise(reading))
    printing.bullets([str(reading.guarantee)])
    percent = f"{100 * facts.share_used:.0f} %"
    lines = {
        "used": f"{facts.used} of {facts.limit} at the most asked-about point ({percent})",
        "answered": f"{facts.answered:,}",
        "relaxed": f"{facts.relaxed:,}",
        "numbers given out": f"{facts.numbers:,}",
        **_batches(facts),
        "tracker": f"{facts.tracker}, over {_points(facts.points)} points",
    }
    for name, used in facts.analysts.items():
        lines[name] = f"{used} of {facts.quotas[name].limit}"
    width = max(map(len, lines))
    for name, value in lines.items():
        console.echo(f"{name:<{width}}  {value}")


def show_usage(found: Sequence[Usage]) -> None:
    """Print what each analyst asked and was charged, and the quotas."""
    for each in found:
        asked = each.answered + each.repeated + each.relaxed
        quota = "no quota"
        if each.epsilon is not None:
            quota = f"quota {each.epsilon:g}, {each.used} of {each.limit} answers used"
        name = each.analyst or "(no name)"
        console.echo(f"{name}: questions {asked}, numbers {each.numbers}, {quota}")
    if not found:
        console.say("Nobody asked yet, and there is no quota.")


def _batches(facts: Status) -> dict[str, str]:
    """Return a line on how much of the promise is used in each batch, if there are several."""
    used = facts.used_in_batches
    few = [str(number) for number in used[:_SHOWN_BATCHES]]
    more = ["..."] if len(used) > _SHOWN_BATCHES else []
    line = f"{len(used)}, each with the promise; used in them: {', '.join(few + more)}"
    return {"batches": line} if len(used) > 1 else {}


def show_history(entries: Sequence[Event]) -> None:
    """Print a line for every entry of the journal."""
    analysts = any(entry.analyst for entry in entries)
    head = ["entry", "time (UTC)", *(["analyst"] if analysts else []), "status", "question"]
    body = [
        [
            str(entry.number),
            entry.time[:19].replace("T", " "),
            *([entry.analyst or ""] if analysts else []),
            entry.status,
            " ".join(entry.sql.split()) or f"(rows of batch {entry.batch})",
        ]
        for entry in entries
    ]
    if body:
        printing.table(head, body, text_columns=len(head))
    else:
        console.echo("Nothing was answered yet.")


def show_columns(database: Database) -> None:
    """Print the columns that can be asked about, with their domains."""
    rows = [[each.name, each.describe()] for each in database.space.attributes]
    printing.table(["column", "domain"], rows, text_columns=2)


def _promise(known: Database | DatabaseInspection) -> str:
    from scumble.model.laws.distributions import DiscreteLaplace
    from scumble.public.estimate import format_number

    terms = known.terms
    error = DiscreteLaplace(terms.noise).stderr
    answers = "1 answer" if terms.limit == 1 else f"{terms.limit} answers"
    return (
        f"ε = {float(terms.epsilon):g} for all answers together, noise {float(terms.noise):g} in a "
        f"count (a standard error of {format_number(error, error)}); at most {answers} for a point "
        f"of {', '.join(known.space.names)}."
    )


def _points(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"{number:.3g}"

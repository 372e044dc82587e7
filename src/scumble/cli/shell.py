r"""The interactive shell of a database: questions line by line, and commands that begin with \."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

from scumble.cli import console, listing_database
from scumble.model.errors import ParameterError, ScumbleError

if TYPE_CHECKING:
    from scumble.private.database.database import Database

PROMPT = "scumble> "
WORDS = (
    "SELECT COUNT(*) SUM( AVG( FROM t WHERE AND OR NOT IN BETWEEN IS NULL LIKE GROUP BY CASE WHEN "
    "THEN ELSE END TRUE FALSE"
).split()
HELP = r"""A line is a question: SELECT COUNT(*) FROM t WHERE ...
\cost SQL       what would become of a question; nothing is charged
\status         the promise, and how much of it is used
\history [N]    the questions so far, or the last N
\columns        what can be asked about
\help           this
\quit           leave; so does Ctrl-D"""
_BEGUN = re.compile(r"^\w+\\?")  # read backwards, as prompt_toolkit does: a word, or a command
_PAST = 1000  # earlier questions that the arrow keys bring back


class Shell:
    """Takes lines until there are no more; what is wrong with one is said, and the next is taken.

    Arrow keys bring back the questions of the ledger: there is no other file of them.
    """

    def __init__(self, database: Database, manner: Mapping[str, Any], level: float) -> None:
        self._database = database
        self._manner = manner
        self._level = level
        self._code = 0
        self._commands: dict[str, Callable[[str], None]] = {
            "cost": self._cost,
            "status": lambda _: listing_database.show_status(database),
            "history": self._history,
            "columns": lambda _: listing_database.show_columns(database),
            "help": lambda _: typer.echo(HELP),
        }

    def run(self) -> int:
        """Answer all lines; the exit code is that of the last error, if no person saw it."""
        if sys.stdin.isatty():
            console.say(
                f"{self._database!r}\nA line is a question; \\help says what else there is."
            )
            lines, watched = typed(self.words, self._past()), True
        else:
            lines, watched = iter(sys.stdin), False
        for line in lines:
            if not self._take(line.strip().rstrip(";").strip()):
                break
        return 0 if watched else self._code

    @property
    def words(self) -> list[str]:
        """What can be completed: columns, SQL, commands."""
        from scumble.public.sql.normal_form import spelled

        columns = [spelled(name) for name in self._database.space.names]
        return [*columns, *WORDS, *(f"\\{name}" for name in (*self._commands, "quit"))]

    def _take(self, line: str) -> bool:
        """Do what a line says; False if there is nothing more to do."""
        if line in ("\\quit", "\\q", "quit", "exit"):
            return False
        try:
            if line.startswith("\\"):
                self._command(line)
            elif line:
                answer = self._database.answer(line, **self._manner)
                listing_database.show_answer(answer, self._level)
        except ScumbleError as error:
            console.say(f"Error: {error}")
            self._code = error.exit_code
        return True

    def _command(self, line: str) -> None:
        name, _, rest = line[1:].partition(" ")
        if name not in self._commands:
            known = ", ".join(f"\\{each}" for each in (*self._commands, "quit"))
            raise ParameterError(f"There is no command \\{name}. There are {known}.")
        self._commands[name](rest.strip())

    def _cost(self, sql: str) -> None:
        if not sql:
            raise ParameterError("Write the question after \\cost.")
        listing_database.show_cost(self._database.cost(sql, **self._manner))

    def _history(self, last: str) -> None:
        if last and not (last.isdecimal() and int(last)):
            raise ParameterError.of("\\history", "last", "a number of questions", last)
        found = self._database.history()
        listing_database.show_history(found[-int(last) :] if last else found)

    def _past(self) -> list[str]:
        asked = (" ".join(entry["sql"].split()) for entry in self._database.history()[-_PAST:])
        return list(dict.fromkeys(filter(None, asked)))  # rows that were added have no question


def typed(words: Sequence[str], past: Sequence[str]) -> Iterator[str]:
    """Lines of a person, with completion and history, as well as what is installed can do it."""
    ask = _toolkit(words, past) if find_spec("prompt_toolkit") else _readline(words, past)
    while True:
        try:
            yield ask()
        except KeyboardInterrupt:  # the line is dropped, as in other shells
            typer.echo()
        except EOFError:
            return


def _toolkit(words: Sequence[str], past: Sequence[str]) -> Callable[[], str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import InMemoryHistory

    session: PromptSession[str] = PromptSession(
        PROMPT,
        completer=WordCompleter(list(words), ignore_case=True, pattern=_BEGUN),
        history=InMemoryHistory(list(past)),
        auto_suggest=AutoSuggestFromHistory(),
    )
    return session.prompt


def _readline(words: Sequence[str], past: Sequence[str]) -> Callable[[], str]:
    """The plain way; where even readline is missing, lines cannot be edited."""
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
    """Completion as readline wants it: the n-th word that begins so."""

    def complete(begun: str, place: int) -> str | None:
        found = [word for word in words if word.lower().startswith(begun.lower())]
        return found[place] if place < len(found) else None

    return complete

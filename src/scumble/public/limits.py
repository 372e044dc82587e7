"""Limits of questions: seconds and memory, and functions whose result cannot be large.

`SCUMBLE_QUESTION_SECONDS` is for one question, `SCUMBLE_QUESTION_MEMORY` (in MB) for all questions
that a process answers at once. One whose need is known before waits until others leave it enough; a
statement that exceeds a limit is interrupted, the last that began first. DuckDB notices this only
between blocks of 2,048 rows, so single values are bounded, too: functions that could make them
large check the size of their result.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from scumble.model.errors import ParameterError, QueryError

SECONDS, MEMORY = "SCUMBLE_QUESTION_SECONDS", "SCUMBLE_QUESTION_MEMORY"
_DEFAULTS = {SECONDS: 300.0, MEMORY: 4096.0}
_SMALL_CLAIM = 1 << 20  # bytes that nobody counts
_POLL = 0.02  # seconds between two looks at the clock and the memory

LONGEST_TEXT = 1 << 16  # characters of a text that a function makes
_LONGEST_COMPARED = 1000  # characters of texts whose edit distance is computed


@dataclass(frozen=True)
class QuestionLimits:
    """The seconds of one question, and the bytes that all questions that run may use together."""

    seconds: float
    memory: int

    @classmethod
    def current(cls) -> QuestionLimits:
        """Return the limits that the environment sets, or the defaults."""
        return cls(_setting(SECONDS), int(_setting(MEMORY) * 1_000_000))

    @property
    def time_message(self) -> str:
        return (
            f"The question takes longer than its limit of {self.seconds:g} seconds. Ask a simpler "
            f"one, or set {SECONDS}."
        )

    @property
    def memory_message(self) -> str:
        return (
            f"The question needs more than its limit of {self.memory / 1e6:,.0f} MB of memory. Ask "
            f"a simpler one, or set {MEMORY}."
        )

    @property
    def shared_message(self) -> str:
        return (
            f"The questions that are being answered need more than {self.memory / 1e6:,.0f} MB of "
            f"memory together. Ask again later, ask a simpler one, or set {MEMORY}."
        )


def _setting(name: str) -> float:
    given = os.environ.get(name)
    if given is None:
        return _DEFAULTS[name]
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise ParameterError(f"{name} must be a number above 0. Got {given!r} instead.")
    return number


@dataclass(eq=False)
class _RunningQuestion:
    """A question that is being answered: until when, and the bytes that it may use."""

    deadline: float
    memory: int = 0


_question: ContextVar[_RunningQuestion | None] = ContextVar("question", default=None)
_memory = threading.Condition()
_claims = 0  # bytes of all questions of this process


@contextmanager
def one_question() -> Iterator[None]:
    """All statements inside share the seconds of one question; what it claims ends with it."""
    if _question.get() is not None:
        yield
        return
    question = _RunningQuestion(time.monotonic() + QuestionLimits.current().seconds)
    token = _question.set(question)
    try:
        yield
    finally:
        _question.reset(token)
        _change_claim(question, 0)


def claim_memory(size: int) -> None:
    """Let the question that runs use so many bytes; wait until other questions leave them.

    Raises `QueryError` if they are too many for any question, or are not free in time. A question
    that has claimed some already does not wait for more: two such could wait for each other.
    """
    limits, question = QuestionLimits.current(), _question.get()
    if size > limits.memory:
        raise QueryError(limits.memory_message)
    if question is None or size <= max(question.memory, _SMALL_CLAIM):
        return
    seconds = 0.0 if question.memory else question.deadline - time.monotonic()
    with _memory:
        more = size - question.memory
        if not _memory.wait_for(lambda: _claims + more <= limits.memory, seconds):
            raise QueryError(limits.shared_message)
        _change_claim(question, size)


def _change_claim(question: _RunningQuestion, size: int) -> None:
    global _claims
    if size != question.memory:
        with _memory:
            _claims += size - question.memory
            question.memory = size
            _memory.notify_all()


@dataclass(eq=False)
class Watch:
    """A statement that runs; `exceeded` is the sentence about the limit that it exceeded."""

    interrupt: Callable[[], None]
    limits: QuestionLimits
    deadline: float
    exceeded: str = field(default="")


@contextmanager
def watched(interrupt: Callable[[], None]) -> Iterator[Watch]:
    """Watch the statement that runs inside; `interrupt` stops it."""
    limits = QuestionLimits.current()
    question = _question.get()
    deadline = time.monotonic() + limits.seconds if question is None else question.deadline
    watch = Watch(interrupt, limits, deadline)
    _WATCHDOG.add(watch)
    try:
        yield watch
    finally:
        _WATCHDOG.remove(watch)


class _Watchdog:
    """One thread for all statements of a process. It sleeps while none runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Watch, None] = {}  # in the order in which they began
        self._before = 0  # bytes in use when the first of them began
        self._busy = threading.Event()
        self._owner = 0  # the process that has the thread: a fork has none

    def add(self, watch: Watch) -> None:
        if self._owner != os.getpid():
            self._start()
        with self._lock:
            if not self._running:
                self._before = memory_in_use()
            self._running[watch] = None
        self._busy.set()

    def remove(self, watch: Watch) -> None:
        with self._lock:
            self._running.pop(watch, None)

    def _start(self) -> None:
        self._lock, self._running, self._busy = threading.Lock(), {}, threading.Event()
        self._owner = os.getpid()
        threading.Thread(target=self._watch, name="scumble watchdog", daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(_POLL)
            self._look()

    def _look(self) -> None:
        """Check all statements once. Outside of this method the thread refers to none of them."""
        with self._lock:
            if not self._running:
                self._busy.clear()
            self._stop_late(time.monotonic())
            self._stop_large(memory_in_use() - self._before)
            for watch in self._running:
                if watch.exceeded:
                    watch.interrupt()  # again until it ends

    def _stop_late(self, now: float) -> None:
        for watch in self._running:
            if now > watch.deadline and not watch.exceeded:
                watch.exceeded = watch.limits.time_message

    def _stop_large(self, memory: int) -> None:
        """Stop the statement that began last if all of them use too much memory together.

        While one is being stopped, its memory is waited for.
        """
        running = list(self._running)
        if running and not any(each.exceeded for each in running):
            last = running[-1]
            if memory > last.limits.memory:
                alone = len(running) == 1
                last.exceeded = last.limits.memory_message if alone else last.limits.shared_message


_WATCHDOG = _Watchdog()


def memory_in_use() -> int:
    """Return the resident memory of this process in bytes; 0 where the system does not tell it.

    Pages of mapped files do not count: the system takes them back when it needs them.
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, of_files = map(int, file.read().split()[:3])
            return (resident - of_files) * mmap.PAGESIZE
    except OSError:
        return 0  # DuckDB's own limit holds


# --- functions that bound their result -----------------------------------------------------------
#
# A macro of the same name hides DuckDB's function. The check is in an argument, not around the
# call: DuckDB evaluates calls with constant arguments while it plans, whatever CASE is around them.


def _within(condition: str, value: str) -> str:
    sentence = f"A text would have more than {LONGEST_TEXT:,} characters."
    return f"CASE WHEN {condition} THEN error('{sentence}') ELSE {value} END"


def _short(name: str) -> str:
    sentence = f"Texts of more than {_LONGEST_COMPARED:,} characters are not compared."
    too_long = f"length({name}) > {_LONGEST_COMPARED}"
    return f"CASE WHEN {too_long} THEN error('{sentence}') ELSE {name} END"


_COPIES = f"n::DOUBLE * greatest(len(s), 1) > {LONGEST_TEXT}"
_PRODUCT = f"(length(s) + 1)::DOUBLE * (length(r) + 1) > {LONGEST_TEXT}"
_COMPARED = (
    "levenshtein editdist3 damerau_levenshtein jaccard jaro_similarity jaro_winkler_similarity"
).split()
_BOUNDED = {
    "repeat": [f"(s, n) AS system.main.repeat(s, {_within(_COPIES, 'n')})"],
    "lpad": [f"(s, n, p) AS system.main.lpad(s, {_within(f'n > {LONGEST_TEXT}', 'n')}, p)"],
    "rpad": [f"(s, n, p) AS system.main.rpad(s, {_within(f'n > {LONGEST_TEXT}', 'n')}, p)"],
    "replace": [f"(s, a, r) AS system.main.replace(s, a, {_within(_PRODUCT, 'r')})"],
    "regexp_replace": [
        f"(s, a, r) AS system.main.regexp_replace(s, a, {_within(_PRODUCT, 'r')})",
        f"(s, a, r, o) AS system.main.regexp_replace(s, a, {_within(_PRODUCT, 'r')}, o)",
    ],
    "to_base": [
        "(x, b) AS system.main.to_base(x, b)",
        f"(x, b, n) AS system.main.to_base(x, b, {_within(f'n > {LONGEST_TEXT}', 'n')})",
    ],
    **{name: [f"(a, b) AS system.main.{name}({_short('a')}, {_short('b')})"] for name in _COMPARED},
}
BOUNDED_FUNCTIONS = frozenset(_BOUNDED)
MOST_BOUNDED = 8  # calls in an expression: their arguments are evaluated twice
# The size of their result is a parameter, or grows with each step.
UNBOUNDED_FUNCTIONS = frozenset(
    "range generate_series list_resize array_resize bitstring bar equi_width_bins list_reduce "
    "array_reduce reduce".split()
)
# Their first argument is a pattern in which a number is a width.
PATTERN_FUNCTIONS = frozenset(["format", "printf"])


def bounded_macros() -> list[str]:
    """Return the statements that replace functions by those that bound their result."""
    return [f"CREATE OR REPLACE MACRO {name}{', '.join(forms)}" for name, forms in _BOUNDED.items()]

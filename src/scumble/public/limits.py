"""Limits of one question: seconds and memory, and functions whose result cannot be large.

`SCUMBLE_QUESTION_SECONDS` and `SCUMBLE_QUESTION_MEMORY` (in MB) change the limits. A statement that
exceeds one is interrupted. DuckDB notices an interrupt only between blocks of 2,048 rows, so single
values are bounded, too: functions that could make them large check the size of their result.
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

from scumble.model.errors import ParameterError

SECONDS, MEMORY = "SCUMBLE_QUESTION_SECONDS", "SCUMBLE_QUESTION_MEMORY"
_DEFAULTS = {SECONDS: 300.0, MEMORY: 4096.0}
_POLL = 0.02  # seconds between two looks at the clock and the memory

LONGEST_TEXT = 1 << 16  # characters of a text that a function makes
_LONGEST_COMPARED = 1000  # characters of texts whose edit distance is computed


@dataclass(frozen=True)
class QuestionLimits:
    """What one question may use: seconds of time, and bytes of memory beyond those in use."""

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


_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def one_question() -> Iterator[None]:
    """All statements inside share the seconds of one question."""
    if _deadline.get() is not None:
        yield
        return
    token = _deadline.set(time.monotonic() + QuestionLimits.current().seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


@dataclass(eq=False)
class Watch:
    """A statement that runs; `exceeded` is the sentence about the limit that it exceeded."""

    interrupt: Callable[[], None]
    limits: QuestionLimits
    deadline: float
    memory: int
    exceeded: str = field(default="")

    def check(self, now: float, memory: int) -> None:
        """Interrupt the statement if it is over a limit; again until it ends."""
        if now > self.deadline:
            self.exceeded = self.exceeded or self.limits.time_message
        elif memory - self.memory > self.limits.memory:
            self.exceeded = self.exceeded or self.limits.memory_message
        if self.exceeded:
            self.interrupt()


@contextmanager
def watched(interrupt: Callable[[], None]) -> Iterator[Watch]:
    """Watch the statement that runs inside; `interrupt` stops it."""
    limits = QuestionLimits.current()
    deadline = _deadline.get() or time.monotonic() + limits.seconds
    watch = Watch(interrupt, limits, deadline, memory_in_use())
    _WATCHDOG.add(watch)
    try:
        yield watch
    finally:
        _WATCHDOG.remove(watch)


class _Watchdog:
    """One thread for all statements of a process. It sleeps while none runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Watch] = set()
        self._busy = threading.Event()
        self._owner = 0  # the process that has the thread: a fork has none

    def add(self, watch: Watch) -> None:
        if self._owner != os.getpid():
            self._start()
        with self._lock:
            self._running.add(watch)
        self._busy.set()

    def remove(self, watch: Watch) -> None:
        with self._lock:
            self._running.discard(watch)

    def _start(self) -> None:
        self._lock, self._running, self._busy = threading.Lock(), set(), threading.Event()
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
            now, memory = time.monotonic(), memory_in_use()
            for watch in self._running:
                watch.check(now, memory)


_WATCHDOG = _Watchdog()


def memory_in_use() -> int:
    """Return the resident memory of this process in bytes; 0 where the system does not tell it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
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

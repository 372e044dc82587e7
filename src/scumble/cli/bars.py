"""What a command shows while it works: a bar on stderr with the time since the start and, where the
work can be counted, the time left.

Work says how far it is by `long_work.tell`, or by the function that a bar gives. Where stderr is no
terminal there is a line every ten seconds, unless the command prints JSON: a program wants one
object on stderr at most. rich is imported when something is drawn.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from scumble.cli.console import prints_json, say, stderr
from scumble.model.long_work import listening

if TYPE_CHECKING:
    from rich.progress import Progress, Task

Total = int | Callable[[], int | None] | None
_SOON = 1.0  # seconds after which a command that is still working says so
LINE_SECONDS = 10.0  # between two lines where stderr is no terminal
_MOMENT = 0.1  # seconds between two looks at how far the work is


@contextmanager
def progress(title: str, total: Total = None) -> Iterator[Callable[[int], None]]:
    """Show a bar at once; give a function that takes the number of rows done so far.

    `total` is the number of rows if it is known, or a function that is called when something is
    shown and returns it. What is shown is a share and times, never a number of rows, which may be
    private.
    """
    if not sys.stderr.isatty():
        with _logged(title, total) as state:
            yield state.count
        return
    whole = total() if callable(total) else total
    with _bar() as bar:
        task = bar.add_task(title, total=whole)

        def report(rows: int) -> None:
            if whole is not None and rows >= whole:  # what is left to do is not counted in rows
                bar.update(task, description=f"{title}: last steps")
                bar.tasks[0].total = None  # `update` takes None for no change
            else:
                bar.update(task, completed=rows)

        yield report


@contextmanager
def working(title: str, total: Total = None) -> Iterator[Callable[[int], None]]:
    """Show a bar after a second, with the share that the work inside the block tells by
    `long_work.tell`; or give a function for the number of steps done, of `total` steps.

    The bar has no end and no time left as long as nothing is told. Work that takes less than a
    second shows nothing, and does not wait for rich to be imported.
    """
    shown = _shown if sys.stderr.isatty() else _logged
    with shown(title, total) as state:
        yield state.count


@contextmanager
def _shown(title: str, total: Total) -> Iterator[_Reached]:
    """Show a bar for the work inside the block, from a second after its start."""
    with _watched(_draw, title, total) as state:
        yield state


@contextmanager
def _logged(title: str, total: Total) -> Iterator[_Reached]:
    """Say every ten seconds how far the work inside the block is."""
    with _watched(_say_lines, title, total) as state:
        yield state


@contextmanager
def _watched(
    watch: Callable[[str, _Reached, threading.Event], None], title: str, total: Total
) -> Iterator[_Reached]:
    """Run `watch` in a thread of its own as long as the work inside the block takes."""
    state, done = _Reached(total), threading.Event()
    watching = threading.Thread(target=watch, args=(title, state, done), daemon=True)
    watching.start()
    try:
        with listening(state.tell):
            yield state
    finally:
        done.set()
        watching.join()


class _Reached:
    """How far some work is, as its thread tells it and as the thread that draws reads it."""

    def __init__(self, total: Total) -> None:
        self._total = total
        self._share: float | None = None
        self._steps = 0

    def tell(self, share: float) -> None:
        self._share = share

    def count(self, steps: int) -> None:
        self._steps = steps

    def share(self) -> float | None:
        """Return the share that is done, 0 to 1; None if it is not known."""
        if callable(self._total):
            self._total = self._total()
        found = self._steps / self._total if self._total else self._share
        return None if found is None else min(max(found, 0.0), 1.0)


def _draw(title: str, state: _Reached, done: threading.Event) -> None:
    """Draw a bar from a second after the start until the work is done."""
    if done.wait(_SOON):
        return
    with _bar() as bar:
        task = bar.add_task(title, total=None)
        bar.tasks[0].start_time = bar.get_time() - _SOON
        while not done.wait(_MOMENT):
            share = state.share()
            if share is not None:
                bar.update(task, total=1.0, completed=share)


def _say_lines(title: str, state: _Reached, done: threading.Event) -> None:
    """Say every ten seconds how far the work is, until it is done."""
    start = monotonic()
    while not done.wait(LINE_SECONDS):
        if prints_json():
            continue
        share, elapsed = state.share(), monotonic() - start
        if share is None:
            say(f"{title}: {clock(elapsed)} so far")
        elif share == 1:
            say(f"{title}: last steps, {clock(elapsed)} so far")
        else:
            say(f"{title}: {100 * share:.0f} %, {time_left(elapsed, share, 1.0)}")


@contextmanager
def steps(total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Give a function that says on stderr what is being done; `total` is the number of its calls.

    On a terminal the sentence stands in front of a bar with the times; elsewhere each is a line.
    """
    if not sys.stderr.isatty():
        yield say
        return
    with _bar() as bar:
        task = bar.add_task("", total=total)
        done = count()
        yield lambda sentence: bar.update(
            task, description=f"{sentence[:60].rstrip()} …", completed=next(done)
        )


def time_left(elapsed: float | None, done: float, total: float | None) -> str:
    """Return the time that the rest will take if it goes on as until now.

    Nothing is said of work that is not counted, and dashes as long as nothing is done.
    """
    if total is None:
        return ""
    if not elapsed or not done:
        return "-:--:-- left"
    return f"{clock(elapsed * max(total - done, 0) / done)} left"


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds.

    >>> clock(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _bar() -> Progress:
    """Return a bar with the time since the start and the time left."""
    from rich import progress as rich
    from rich.text import Text

    class TimeLeft(rich.ProgressColumn):
        def render(self, task: Task) -> Text:
            found = time_left(task.elapsed, task.completed, task.total)
            return Text(found, style="progress.remaining")

    return rich.Progress(
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TimeElapsedColumn(),
        TimeLeft(),
        console=stderr(),
        transient=True,
    )

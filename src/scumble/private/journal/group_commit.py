"""Group commit: the requests of many threads are decided in one turn and made durable by one
commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from scumble.private.journal.journal import Journal, Turn

Request = TypeVar("Request")
Result = TypeVar("Result")


class GroupCommit(Generic[Request, Result]):
    """Brings threads together: who finds nobody at work leads, and serves all who wait.

    `decide(turn, requests)` gives one result for each request, or an exception in its place, which
    is raised for that request alone. If `decide` itself raises, the turn is undone and each request
    is decided in a turn of its own, so that the exception strikes only the one that caused it.
    Results leave when the turn is on the disk, not before.
    """

    def __init__(
        self,
        journal: Journal,
        decide: Callable[[Turn, Sequence[Request]], Sequence[Result | Exception]],
    ) -> None:
        self._journal = journal
        self._decide = decide
        self._lock = threading.Lock()
        self._waiting: list[_Ticket[Request, Result]] = []
        self._led = False

    def submit(self, request: Request) -> Result:
        """The result of one request, once it is durable."""
        ticket: _Ticket[Request, Result] = _Ticket(request)
        batch: list[_Ticket[Request, Result]] = []
        try:
            with self._lock:
                self._waiting.append(ticket)
                ticket.leads, self._led = not self._led, True
            if not ticket.leads:
                ticket.called.acquire()  # until there is a result, or it has to lead
            if ticket.leads:
                with self._lock:
                    batch, self._waiting = self._waiting, []
                self._serve(batch)
        finally:  # also if it was interrupted, and will not come back for its result
            self._leave(ticket, batch)
        return ticket.result()

    def _leave(
        self, ticket: _Ticket[Request, Result], batch: Sequence[_Ticket[Request, Result]]
    ) -> None:
        """Give up the lead, and call those who were served."""
        others = [each for each in batch if each is not ticket]
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            self._waiting[:0] = [each for each in others if not each.outcome]
            if ticket.leads:
                self._pass_on()
        for each in others:
            if each.outcome:
                each.called.release()

    def _pass_on(self) -> None:
        """The first who waits leads. Only one thread is woken for it: if all looked whether it is
        their turn, they would take longer than the commit.
        """
        self._led = bool(self._waiting)
        if self._led:
            self._waiting[0].leads = True
            self._waiting[0].called.release()

    def _serve(self, batch: list[_Ticket[Request, Result]]) -> None:
        blamed = False  # whether it was `decide` that failed, and not the ledger
        try:
            with self._journal.turn() as turn:
                blamed = True
                results = self._decide(turn, [ticket.request for ticket in batch])
                outcomes = list(zip(batch, results, strict=True))
                blamed = False
        except Exception as error:
            if blamed and len(batch) > 1:
                for ticket in batch:
                    self._serve([ticket])
            else:
                for ticket in batch:
                    ticket.outcome = [error]
        else:
            for ticket, result in outcomes:
                ticket.outcome = [result]


class _Ticket(Generic[Request, Result]):
    """A request, and its outcome as a list of one as soon as there is one."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.outcome: list[Result | Exception] = []
        self.leads = False
        self.called = threading.Lock()  # let go when its thread has something to do
        self.called.acquire()

    def result(self) -> Result:
        [outcome] = self.outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

"""Group commit: requests of many threads are decided in one turn and made durable by one commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

from scumble.private.journal.journal import Journal, Turn

Request = TypeVar("Request")
Result = TypeVar("Result")


class GroupCommit(Generic[Request, Result]):
    """Serves requests of concurrent threads in batches.

    A thread that finds no leader becomes the leader and serves all waiting requests.
    `decide(turn, requests)` returns one result for each request, or an exception in its place,
    which is raised for that request alone. If `decide` itself raises, the turn is rolled back and
    each request is decided in a turn of its own, so that only the request that caused the exception
    gets it. Results are returned when the turn is on the disk.
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
        self._has_leader = False

    def submit(self, request: Request) -> Result:
        """Return the result of one request, once it is durable."""
        [outcome] = self.submit_all([request])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def submit_all(self, requests: Sequence[Request]) -> Sequence[Result | Exception]:
        """Return the results of requests, or exceptions in their places, once they are durable."""
        ticket: _Ticket[Request, Result] = _Ticket(requests)
        batch: list[_Ticket[Request, Result]] = []
        try:
            with self._lock:
                self._waiting.append(ticket)
                ticket.is_leader, self._has_leader = not self._has_leader, True
            if not ticket.is_leader:
                ticket.wake.acquire()  # until there is a result, or it becomes the leader
            if ticket.is_leader:
                with self._lock:
                    batch, self._waiting = self._waiting, []
                self._serve(batch)
        finally:  # also if the thread is interrupted and never takes its result
            self._leave(ticket, batch)
        return ticket.outcomes

    def _leave(
        self, ticket: _Ticket[Request, Result], batch: Sequence[_Ticket[Request, Result]]
    ) -> None:
        """Leave the queue, choose the next leader, and wake the threads that were served."""
        others = [each for each in batch if each is not ticket]
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            self._waiting[:0] = [each for each in others if not each.outcomes]
            if ticket.is_leader:
                self._choose_leader()
        for each in others:
            if each.outcomes:
                each.wake.release()

    def _choose_leader(self) -> None:
        """Make the first waiting request the leader.

        Only its thread is woken: waking all of them would take longer than the commit.
        """
        self._has_leader = bool(self._waiting)
        if self._has_leader:
            self._waiting[0].is_leader = True
            self._waiting[0].wake.release()

    def _serve(self, batch: list[_Ticket[Request, Result]]) -> None:
        requests = [one for ticket in batch for one in ticket.requests]
        deciding = False  # whether a failure is of `decide`, and not of the journal
        try:
            with self._journal.turn() as turn:
                deciding = True
                results = self._decide(turn, requests)
                found = iter([result for _, result in zip(requests, results, strict=True)])
                deciding = False
        except Exception as error:
            if deciding and len(requests) > 1:
                for ticket in batch:
                    ticket.outcomes = [self._alone(one) for one in ticket.requests]
            else:
                for ticket in batch:
                    ticket.outcomes = [error] * len(ticket.requests)
        else:
            for ticket in batch:
                ticket.outcomes = list(islice(found, len(ticket.requests)))

    def _alone(self, request: Request) -> Result | Exception:
        """Return the outcome of a request that is decided in a turn of its own."""
        ticket: _Ticket[Request, Result] = _Ticket([request])
        self._serve([ticket])
        return ticket.outcomes[0]


class _Ticket(Generic[Request, Result]):
    """Requests of one thread, at least one; `outcomes` has theirs as soon as they are decided."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.outcomes: list[Result | Exception] = []
        self.is_leader = False
        self.wake = threading.Lock()  # released when its thread has something to do
        self.wake.acquire()

"""The service: what all fronts (HTTP, pages, PostgreSQL wire) of one server process share."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scumble.model.errors import set_dialect
from scumble.public.limits import MEMORY, SECONDS
from scumble.server.catalogue import Catalogue, Dataset
from scumble.server.config import ServerSettings
from scumble.server.guards import Sessions, UseLimits
from scumble.server.metrics import Metrics
from scumble.server.problems import Problem, ServerDialect
from scumble.server.publishing.service import PublishingService
from scumble.server.tokens import Token, TokenStore

if TYPE_CHECKING:
    from scumble.server.http.routes import Call

Value = TypeVar("Value")
log = logging.getLogger("scumble.server")
_GRACE = 5.0  # seconds beyond the limit of a question, before a request is given up
_MOST_TOGETHER = 64  # requests
_SLOW = 0.5  # seconds that a failed login takes
LATE = (
    "The question takes longer than its limit. If it was asked with a key, ask again with the same "
    "key: what was answered meanwhile is stored under it, and is not charged twice."
)
FULL = "The server is busy: too many requests wait already. Nothing was charged. Try again."


Together = Callable[["Service", "Sequence[Call]"], Sequence["Value | Exception | None"]]


@dataclass
class Ticket(Generic[Value]):
    """A request that waits for a thread: its work, or the call that is made with others."""

    loop: asyncio.AbstractEventLoop
    work: Callable[[], Value]
    ended: Callable[[], None]
    call: Any = None
    future: asyncio.Future[Value] = field(init=False)

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()

    def give_up(self) -> None:
        """Let the request fail; its thread is not stopped."""
        if not self.future.done():
            self.future.set_exception(Problem(408, LATE))


class Service:
    """Data sets, tokens, sessions, limits and metrics, and the threads that answer questions."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.catalogue = Catalogue()
        self.publishing = PublishingService(settings, self.catalogue)
        self.tokens = TokenStore(settings.folder)
        self.sessions = Sessions(self.tokens)
        self.uses = UseLimits(self.limits)
        self.metrics = Metrics()
        self.ready = False
        self.login_delay = _SLOW
        self._waiting = 0
        self._queues: dict[Any, deque[Ticket[Any]]] = {}  # by data set and what is done with all
        self._busy: set[Any] = set()  # queues that a thread is at
        self._threads = ThreadPoolExecutor(
            self.limits.threads, "question", set_dialect, (ServerDialect(),)
        )
        os.environ[SECONDS] = str(self.limits.seconds)
        os.environ[MEMORY] = str(self.limits.memory)

    def open(self) -> None:
        """Open all data sets: of the configuration, and made by owners."""
        self.publishing.open_all()
        self.ready = True

    def close(self) -> None:
        """End the threads, and close all data sets: what was charged is on the disk."""
        self.ready = False
        self.publishing.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.catalogue.close()

    async def run(self, prefix: str, work: Callable[..., Value], *arguments: Any) -> Value:
        """Return the result of blocking work for a token, done in a thread.

        Raises `Problem` 429 if the token asks too much, 503 if too many requests wait already, and
        408 if it takes too long. It counts as running until its thread is done with it.
        """
        ticket: Ticket[Value] = self._begin(prefix, partial(work, *arguments))
        self._threads.submit(self._alone, ticket)
        return await self._result(ticket)

    async def run_together(
        self, prefix: str, work: Callable[..., Value], all_work: Together[Value], call: Call
    ) -> Value:
        """Return the result of a call as `run` does, which is made together with others.

        The calls about one data set that wait meanwhile are made at once, by `all_work`, in one
        thread: handing each of them to a thread of its own takes longer than answering them. Where
        it returns None, the call is made by `work` in a thread of its own.
        """
        ticket: Ticket[Value] = self._begin(prefix, partial(work, self, call), call)
        key = (call.data.name, all_work)
        queue = self._queues.setdefault(key, deque())
        queue.append(ticket)
        if key not in self._busy:  # those that have come as well by the next turn of the loop wait
            self._busy.add(key)
            ticket.loop.call_soon(self._threads.submit, self._together, key, queue)
        return await self._result(ticket)

    def _begin(self, prefix: str, work: Callable[[], Value], call: Any = None) -> Ticket[Value]:
        if self._waiting >= self.limits.threads + self.limits.queue:
            raise Problem(503, FULL, headers={"Retry-After": "1"})
        ended = self.uses.begin(prefix)
        self._waiting += 1
        return Ticket(asyncio.get_running_loop(), work, ended, call)

    async def _result(self, ticket: Ticket[Value]) -> Value:
        late = ticket.loop.call_later(self.limits.seconds + _GRACE, ticket.give_up)
        try:
            return await ticket.future
        finally:
            late.cancel()

    def _finish(self, done: Sequence[tuple[Ticket[Any], Any, BaseException | None]]) -> None:
        """Hand results to the requests that wait for them; in the event loop."""
        for ticket, result, error in done:
            self._waiting -= 1
            ticket.ended()
            if ticket.future.done():
                continue  # it was given up
            if error is None:
                ticket.future.set_result(result)
            else:
                ticket.future.set_exception(error)

    def _alone(self, ticket: Ticket[Any]) -> None:
        """Do the work of one request; in a thread."""
        try:
            found, error = ticket.work(), None
        except BaseException as raised:
            found, error = None, raised
        ticket.loop.call_soon_threadsafe(self._finish, [(ticket, found, error)])

    def _together(self, key: Any, queue: deque[Ticket[Any]]) -> None:
        """Do the work of all requests that wait in a queue, until it is empty; in a thread."""
        _, all_work = key
        tickets = [queue.popleft() for _ in range(min(len(queue), _MOST_TOGETHER))]
        try:
            found = all_work(self, [each.call for each in tickets])
        except Exception:  # then it is raised by the one that it is of, alone
            found = [None] * len(tickets)
        done = []
        for ticket, each in zip(tickets, found, strict=True):
            if each is None:
                self._threads.submit(self._alone, ticket)
            else:
                failed = isinstance(each, BaseException)
                done.append((ticket, *((None, each) if failed else (each, None))))
        tickets[0].loop.call_soon_threadsafe(self._next, key, queue, done)

    def _next(self, key: Any, queue: deque[Ticket[Any]], done: list[Any]) -> None:
        """Hand out results, and take those who wait next; in the event loop."""
        self._finish(done)
        if queue:
            self._threads.submit(self._together, key, queue)
        else:
            self._busy.discard(key)
            del self._queues[key]

    async def login(self, text: str) -> Token:
        """Return the token with a text. A failure is slow, and counted."""
        token = self.tokens.find(text)
        if token is None:
            self.metrics.failed_login()
            await asyncio.sleep(self.login_delay)
            raise Problem(
                401,
                "The token is unknown, expired or revoked. Ask the owner for a new one.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return token

    def dataset(self, token: Token, name: str) -> Dataset:
        """Return a data set; 404 also for one that the token is not for."""
        found = self.catalogue.get(name) if token.allows(name) else None
        if found is None:
            raise Problem(404, "There is no such data set for this token.")
        return found

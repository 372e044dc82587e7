"""The service: what all fronts (HTTP, pages, PostgreSQL wire) of one server process share."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from scumble.public.limits import MEMORY, SECONDS
from scumble.server.catalogue import Catalogue, Dataset
from scumble.server.config import ServerSettings
from scumble.server.guards import Sessions, UseLimits
from scumble.server.metrics import Metrics
from scumble.server.problems import Problem
from scumble.server.publishing.workshop import Workshop
from scumble.server.tokens import Token, TokenStore

Value = TypeVar("Value")
log = logging.getLogger("scumble.server")
_GRACE = 5.0  # seconds beyond the limit of a question, before a request is given up
_SLOW = 0.5  # seconds that a failed login takes
LATE = (
    "The question takes longer than its limit. If it was asked with a key, ask again with the same "
    "key: what was answered meanwhile is stored under it, and is not charged twice."
)
FULL = "The server is busy: too many requests wait already. Nothing was charged. Try again."


class Service:
    """Data sets, tokens, sessions, limits and metrics, and the threads that answer questions."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.catalogue = Catalogue()
        self.workshop = Workshop(settings, self.catalogue)
        self.tokens = TokenStore(settings.folder)
        self.sessions = Sessions(self.tokens)
        self.uses = UseLimits(self.limits)
        self.metrics = Metrics()
        self.ready = False
        self.login_delay = _SLOW
        self._waiting = 0
        self._threads = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="question")
        os.environ[SECONDS] = str(self.limits.seconds)
        os.environ[MEMORY] = str(self.limits.memory)

    def open(self, progress: Callable[..., Any] | None = None) -> None:
        """Open all data sets: of the configuration, and made by owners."""
        self.workshop.open_all(progress)
        self.ready = True

    def close(self) -> None:
        """End the threads, and close all data sets: what was charged is on the disk."""
        self.ready = False
        self.workshop.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.catalogue.close()

    async def run(self, prefix: str, work: Callable[..., Value], *arguments: Any) -> Value:
        """Return the result of blocking work for a token, done in a thread.

        Raises `Problem` 429 if the token asks too much, 503 if too many requests wait already, and
        408 if it takes too long. It counts as running until its thread is done with it.
        """
        if self._waiting >= self.limits.threads + self.limits.queue:
            raise Problem(503, FULL, headers={"Retry-After": "1"})
        ended = self.uses.begin(prefix)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            self._waiting -= 1
            ended()
            if future.done():
                return  # it was given up
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def call() -> None:
            try:
                found, error = work(*arguments), None
            except BaseException as raised:
                found, error = None, raised
            loop.call_soon_threadsafe(finish, found, error)

        self._threads.submit(call)
        try:
            async with asyncio.timeout(self.limits.seconds + _GRACE):
                return await future
        except TimeoutError:
            raise Problem(408, LATE) from None

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

"""The listener of the PostgreSQL wire, beside the HTTP server in its event loop."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from scumble.server.postgres.messages import WireError, error_message
from scumble.server.postgres.session import Connection
from scumble.server.service import Service

_FULL = WireError("53300", "Too many connections are open already.", fatal=True)


class Listener:
    """Accepts connections; all of them end when it is closed."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._running: dict[tuple[int, int], Connection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; raises `ParameterError` if the address cannot be used."""
        where = self.service.settings.postgres
        if where is None:
            return
        try:
            self._server = await asyncio.start_server(self._accept, where.host, where.port)
        except OSError:
            raise where.taken("postgres") from None

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # it runs in one
        if len(self._tasks) >= self.service.limits.wire_connections:
            writer.write(error_message(_FULL))
            writer.close()
            return
        self._tasks.add(task)
        try:
            await Connection(self.service, reader, writer, self._running, self._tls()).serve()
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            self._tasks.discard(task)
            writer.close()

    def _tls(self) -> ssl.SSLContext | None:
        settings = self.service.settings
        if settings.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.certificate, settings.key)
        return context

"""The protocol of HTTP connections: uvicorn's, with limits on the head of a request."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_LONGEST_HEAD = 65_536  # bytes of the head of a request
_HEAD_SECONDS = 20.0
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"


class JoinedWrites:
    """A transport that sends what is written in one turn of the event loop by one call.

    Head and body of a response are written one after the other; each call of the system costs.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep data until the turn of the event loop ends."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that ends if the head of a request is too long, in bytes or in seconds."""

    def connection_made(self, transport: Any) -> None:
        self._expect_head()
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _LONGEST_HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._timer.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if timer := getattr(self, "_timer", None):
            timer.cancel()
        self._in_head, self._head = True, 0
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._late)

    def _late(self) -> None:
        if self._in_head and not self.transport.is_closing():
            self.transport.close()

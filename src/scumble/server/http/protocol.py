"""The protocol of HTTP connections: uvicorn's, with limits on the head of a request."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_LONGEST_HEAD = 65_536  # bytes of the head of a request
_HEAD_SECONDS = 20.0
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"


class LimitedProtocol(HttpToolsProtocol):
    """A connection that ends if the head of a request is too long, in bytes or in seconds."""

    def connection_made(self, transport: Any) -> None:
        self._expect_head()
        super().connection_made(transport)

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

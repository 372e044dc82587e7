"""Run a server: open its data sets, listen, and end cleanly."""

from __future__ import annotations

import gc
import logging
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.model.errors import ParameterError, ScumbleError
from scumble.server.config import Address, ServerSettings
from scumble.server.service import Service

if TYPE_CHECKING:
    from scumble.server.postgres.session import Listener

_BACKLOG = 2048
_KEEP_ALIVE = 30  # seconds that an idle connection stays open
_LAST_ANSWERS = 10  # seconds that running requests get when the server ends
MISSING = (
    "The server needs starlette and uvicorn, which are not installed: install scumble[server]."
)


def check_installed() -> None:
    """Raise `ScumbleError` if the libraries of the server are missing."""
    if not all(map(find_spec, ("starlette", "uvicorn"))):
        raise ScumbleError(MISSING)


def open_service(settings: ServerSettings) -> Service:
    """Check the configuration, open all data sets, and return the service to `listen` with."""
    check_folder(settings.folder)
    _check_tls(settings)
    service = Service(settings)
    try:
        service.open()
    except BaseException:
        service.close()
        raise
    return service


def listen(
    service: Service,
    started: Callable[[], None] = lambda: None,
    keep: Callable[[Any], None] = lambda _: None,
) -> None:
    """Serve until SIGINT or SIGTERM, then close the service.

    `started` is called when the server listens. `keep` is called with the server before that: it
    ends when its attribute `should_exit` is set.
    """
    try:
        import uvicorn

        from scumble.server.http.app import build
        from scumble.server.http.protocol import LimitedProtocol
        from scumble.server.pages.site import missing, pages
        from scumble.server.postgres.session import Listener
    except ModuleNotFoundError:
        service.close()
        raise ScumbleError(MISSING) from None
    settings = service.settings
    config = uvicorn.Config(
        build(service, *pages(service), missing=missing(service)),
        host=settings.address.host,
        port=settings.address.port,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        http=LimitedProtocol,
        limit_concurrency=service.limits.connections,
        ws="none",
        lifespan="off",
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_LAST_ANSWERS,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing depends on them
        log_config=None,
        log_level="critical",  # its lines are not those that docs/server.md explains
    )
    server = _server(config, Listener(service), started)
    keep(server)
    try:
        with short_waits():
            server.run()
    finally:
        service.close()


@contextmanager
def short_waits() -> Iterator[None]:
    """Keep a long question of one thread from stopping the others.

    A thread asks for the interpreter after 1 ms instead of 5, and does so several times for an
    answer. The garbage collector, which stops all threads, does not search what is open already.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def _server(config: Any, wire: Listener, listening: Callable[[], None]) -> Any:
    """Return a server that calls a function when it listens, and fails in one sentence."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: Any = None) -> None:
            await wire.close()
            await super().shutdown(sockets)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """End on SIGINT and SIGTERM; the signals do not arrive a second time afterwards."""
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            wanted = (signal.SIGINT, signal.SIGTERM)
            before = {each: signal.signal(each, self.handle_exit) for each in wanted}
            try:
                yield
            finally:
                for each, handler in before.items():
                    signal.signal(each, handler)

        async def startup(self, sockets: Any = None) -> None:
            try:
                await super().startup(sockets)
            except SystemExit:  # the address is in use, or not of this machine
                raise Address(config.host, config.port).taken() from None
            if self.started:
                await wire.start()
                listening()

    return Server(config)


def _check_tls(settings: ServerSettings) -> None:
    """Refuse files of TLS that cannot be used."""
    if settings.certificate is not None:
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(settings.certificate, settings.key)
        except (OSError, ssl.SSLError):
            raise ParameterError(
                f"{settings.certificate} and {settings.key} cannot be used as certificate and key "
                "of TLS. Both must be PEM files that belong together."
            ) from None


@contextmanager
def logging_to(stream: Any = None, level: int = logging.INFO) -> Iterator[None]:
    """Write the log of the server, one line for each request, to stderr or another stream."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("scumble.server")
    before = logger.level, logger.propagate
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def check_folder(folder: Path) -> None:
    """Refuse a folder that others may read: it has tokens."""
    if folder.exists() and folder.stat().st_mode & 0o077:
        raise ParameterError(
            f"{folder} can be read by other users of this computer. Run: chmod 700 {folder}"
        )

"""A server over small data sets, in this process or in one of its own, and its tokens."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pyarrow.parquet as pq

from scumble.demo.census import census
from scumble.families.histogram.publish import Histogram
from scumble.families.randomised_response.publish.uniform import Uniform
from scumble.private.database.database import Database
from scumble.private.database.live.database import LiveDatabase
from scumble.private.publish import publish
from scumble.server.config import Address, DatasetSettings, Limits, ServerSettings
from scumble.server.serve import listen
from scumble.server.service import Service
from tests.support.database.live_table import OPTIONS, SCHEMA, table

COUNT = "SELECT COUNT(*) FROM people WHERE age < 40"
RUN = "from scumble.cli.app import main; main()"
ASKED = ["age", "sex", "condition"]


def make_settings(folder: Path, *, people: int = 2000, limits: Limits | None = None, **terms):
    """Make a database `people` and a release `rows` in a folder; return the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    table, schema = census(people)
    source = folder / "people.parquet"
    pq.write_table(table, source)
    chosen = {"epsilon": 1, "noise": 10, "attributes": ASKED, **terms}
    Database.create(folder / "people", source, schema, **chosen).close()
    publish(source, schema, Uniform(epsilon=2)).save(folder / "rows")
    return ServerSettings(
        folder=folder / "server",
        address=Address("127.0.0.1", free_port()),
        limits=limits or Limits(),
        datasets=(
            DatasetSettings("people", database=folder / "people", source=str(source)),
            DatasetSettings("rows", "Perturbed rows", release=folder / "rows"),
        ),
    )


def make_live_settings(folder: Path, *, limits: Limits | None = None, **terms) -> ServerSettings:
    """Make a live database `live` and a release `counts` in a folder; return the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    given = table()
    source = folder / "people.parquet"
    pq.write_table(given, source)
    LiveDatabase.create(folder / "live", source, SCHEMA, **{**OPTIONS, "sums": (), **terms}).close()
    counts = Histogram("sex", epsilon=1, neighbours="replace")
    publish(source, SCHEMA, counts).save(folder / "counts")
    live = DatasetSettings("live", "People, live", database=folder / "live", source=str(source))
    return ServerSettings(
        folder=folder / "server",
        address=Address("127.0.0.1", free_port()),
        limits=limits or Limits(),
        datasets=(live, DatasetSettings("counts", release=folder / "counts")),
    )


@contextmanager
def server_process(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server with the configuration in a folder, in a process of its own, which is killed at the
    end.
    """
    command = [sys.executable, "-c", RUN, "serve", str(folder / "server.toml"), "--quiet"]
    command += ["--address", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"Serving")
            yield process
        finally:
            process.kill()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Users:
    """The tokens of one user of each role, as texts."""

    owner: str
    analyst: str
    auditor: str

    @classmethod
    def of(cls, service: Service) -> Users:
        roles = ("owner", "analyst", "auditor")
        return cls(*(service.tokens.create(role, f"the {role}")[0] for role in roles))


class Front:
    """The HTTP interface of a server in a thread of this process, by role."""

    def __init__(self, settings: ServerSettings) -> None:
        self._stack = ExitStack()
        address, self.users, self.service = self._stack.enter_context(listening(settings))
        self.http = self._stack.enter_context(httpx.Client(base_url=address, timeout=60))

    def call(self, role: str, method: str, path: str, **more):
        """Make a request with the token of a role ("" for none); return the response."""
        headers = dict(more.pop("headers", {}))
        if role:
            headers["Authorization"] = f"Bearer {getattr(self.users, role)}"
        where = path if path.startswith("/") else f"/api/v1/{path}"
        return self.http.request(method, where, headers=headers, **more)

    def ask(self, sql: str, role: str = "analyst", dataset: str = "people", **body):
        return self.call(role, "POST", f"datasets/{dataset}/answer", json={"sql": sql, **body})

    def close(self) -> None:
        self._stack.close()


class Browser:
    """A browser without JavaScript, logged in with the token of a role."""

    def __init__(self, front, role: str) -> None:
        self.http = httpx.Client(base_url=front.http.base_url, timeout=60, follow_redirects=True)
        self.page = self.http.post("/login", data={"token": getattr(front.users, role)})
        self.csrf = re.search(r'name="csrf" value="([^"]+)"', self.page.text)[1]

    def post(self, path: str, **fields):
        return self.http.post(path, data={"csrf": self.csrf, **fields})

    def get(self, path: str):
        return self.http.get(path)


@contextmanager
def listening(settings: ServerSettings) -> Iterator[tuple[str, Users, Service]]:
    """A server in a thread of this process; give its address, tokens and service.

    It listens for PostgreSQL clients, too.
    """
    http, wire = (Address("127.0.0.1", free_port()) for _ in range(2))
    service = Service(replace(settings, address=http, postgres=wire))
    service.open()
    users = Users.of(service)
    started = threading.Event()
    running: list = []
    thread = threading.Thread(
        target=listen, args=(service, started.set), kwargs={"keep": running.append}, daemon=True
    )
    thread.start()
    try:
        assert started.wait(30)
        scheme = "https" if settings.secure else "http"
        yield f"{scheme}://{service.settings.address}", users, service
    finally:
        running[0].should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def make_certificate(folder: Path, *, ed25519: bool = False) -> tuple[Path, Path]:
    """Write a certificate of 127.0.0.1 and its key, for tests; return both files."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric import ed25519 as edwards

    if ed25519:
        key, digest = edwards.Ed25519PrivateKey.generate(), None
    else:
        key, digest = ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, digest)
    )
    certificate, secret = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, secret


def wait_until(condition, seconds: float = 30.0) -> None:
    """Wait until a condition holds; fail if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)

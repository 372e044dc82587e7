"""The configuration of a server: server.toml, read and checked."""

from __future__ import annotations

import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from scumble.model.errors import ParameterError, named
from scumble.model.relational import is_address

DATASET_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PUBLIC = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+/?")
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Address:
    """Where a listener is: host and port."""

    host: str
    port: int

    @classmethod
    def read(cls, text: object, parameter: str = "address") -> Address:
        """Return the address in a text such as 127.0.0.1:8470 or [::1]:8470."""
        match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
        if match is None or not 0 <= int(match["port"]) < 65536:
            raise ParameterError.of("serve", parameter, "HOST:PORT, as 127.0.0.1:8470", text)
        return cls(match["host"].strip("[]"), int(match["port"]))

    @property
    def local(self) -> bool:
        """Whether only programs on this computer reach it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def check_free(self, parameter: str = "address") -> None:
        """Raise `ParameterError` if nothing can listen there; `parameter` says where to listen."""
        kind = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            socket.create_server((self.host, self.port), family=kind).close()
        except OSError:
            raise self.taken(parameter) from None

    def taken(self, parameter: str = "address") -> ParameterError:
        """Return the error for an address that nothing can listen on."""
        return ParameterError(
            f"The server cannot listen on {self}: the address is in use, or not of this machine. "
            f"Choose another one with {named(parameter)} HOST:PORT."
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class Limits:
    """What one token and one question may use.

    `requests` per second and `concurrent` requests are for one token. `queue` is the number of
    requests that may wait for one of `threads`. `body` is bytes, `seconds` are for one question,
    `memory` (MB) for all questions that are answered at once. `connections` is of HTTP,
    `wire_connections` of the PostgreSQL wire, `wire_of_token` those of one token; one that is idle
    for `wire_idle` seconds ends. `wire_quota` is the share of ε that analysts get when they first
    use the wire, unless the owner gave them another quota; 1 gives none. `upload` is bytes of a
    table that an owner sends, `uploads` of all tables that are kept, `reserve` those of the disk
    that stay free, and `columns` the most columns of a table for which a schema is proposed.
    `journal` is bytes that one analyst may write into the journal of a database. `jobs` is the
    number of long works of owners that run at once, `job_memory` (MB) and `job_seconds` what one of
    them may use.
    """

    requests: float = 200.0
    concurrent: int = 64
    threads: int = 32
    queue: int = 256
    body: int = 65_536
    seconds: float = 60.0
    memory: float = 2048.0
    connections: int = 2000
    wire_connections: int = 500
    wire_of_token: int = 20
    wire_idle: float = 900.0
    wire_quota: float = 0.25
    upload: int = 2_000_000_000
    uploads: int = 20_000_000_000
    reserve: int = 1_000_000_000
    columns: int = 2_000
    journal: int = 250_000_000
    jobs: int = 1
    job_memory: float = 8192.0
    job_seconds: float = 21_600.0


@dataclass(frozen=True)
class DatasetSettings:
    """One data set: the folder of a release, or of a database and the table that it is about.

    Each of them can also be an address in PostgreSQL.
    """

    name: str
    title: str = ""
    description: str = ""
    release: Path | str | None = None
    database: Path | str | None = None
    source: str | None = None
    table: str | None = None
    batches: tuple[str | tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SourceSettings:
    """A table of which owners may make releases and databases through the server."""

    name: str
    path: str
    title: str = ""
    table: str | None = None
    schema: Path | None = None


@dataclass(frozen=True)
class ServerSettings:
    """Everything that server.toml says.

    `public` is the address that browsers use, where it is that of a proxy. With `require_tls` the
    PostgreSQL wire refuses connections without TLS; it is so by default where there are TLS files.
    `ledger` is the owner's ledger, which is charged for what is made through the server.
    """

    folder: Path
    address: Address = Address("127.0.0.1", 8470)
    title: str = "scumble"
    certificate: Path | None = None
    key: Path | None = None
    postgres: Address | None = None
    public: str | None = None
    require_tls: bool = False
    ledger: Path | str | None = None
    limits: Limits = field(default_factory=Limits)
    datasets: tuple[DatasetSettings, ...] = ()
    sources: tuple[SourceSettings, ...] = ()

    @property
    def secure(self) -> bool:
        """Whether browsers reach the server by HTTPS."""
        return self.base.startswith("https:")

    @property
    def base(self) -> str:
        """The address of the server for browsers and programs, without a slash at its end."""
        scheme = "http" if self.certificate is None else "https"
        return self.public or f"{scheme}://{self.address}"


def load_settings(path: str | Path) -> ServerSettings:
    """Read server.toml. Relative paths in it are relative to its folder.

    Raises `ParameterError` with one sentence about what is wrong.
    """
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ParameterError(f"There is no file '{file}'.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ParameterError(f"{file} cannot be read as TOML: {error}.") from None
    if "attributes" in content:
        raise ParameterError(f"'{file}' is a schema, not the configuration of a server.")
    return read_settings(content, file.resolve().parent, file.name)


def read_settings(
    content: Mapping[str, Any], base: Path, name: str = "server.toml"
) -> ServerSettings:
    """Return the settings in the tables of a TOML file; `base` is where relative paths begin."""
    _known(name, content, ("server", "limits", "datasets", "sources"))
    server = _table(content, "server")
    others = ("limits", "datasets", "sources")
    _known("[server]", server, [f.name for f in fields(ServerSettings) if f.name not in others])
    if "folder" not in server:
        raise ParameterError("[server] needs a folder: where tokens are kept.")
    certificate, key = (_path(server, name, base) for name in ("certificate", "key"))
    if (certificate is None) != (key is None):
        raise ParameterError("[server] needs certificate and key together, or none of them.")
    postgres, require = server.get("postgres"), server.get("require_tls", certificate is not None)
    if not isinstance(require, bool) or (require and certificate is None):
        allowed = "true or false, and true only with certificate and key"
        raise ParameterError.of("serve", "require_tls", allowed, require)
    datasets, sources = _table(content, "datasets"), _table(content, "sources")
    return ServerSettings(
        folder=_must(_path(server, "folder", base)),
        address=Address.read(server.get("address", "127.0.0.1:8470")),
        title=_text("[server]", "title", server.get("title", "scumble")),
        certificate=certificate,
        key=key,
        postgres=None if postgres is None else Address.read(postgres, "postgres"),
        public=_public(server.get("public")),
        require_tls=require,
        ledger=_place(server, "ledger", base),
        limits=_limits(_table(content, "limits")),
        datasets=tuple(_dataset(name, _table(datasets, name), base) for name in datasets),
        sources=tuple(_named_source(name, _table(sources, name), base) for name in sources),
    )


def _dataset(name: str, table: Mapping[str, Any], base: Path) -> DatasetSettings:
    where = f"[datasets.{name}]"
    check_name(name)
    _known(where, table, [each.name for each in fields(DatasetSettings)][1:])
    release, database = (_place(table, key, base) for key in ("release", "database"))
    if (release is None) == (database is None):
        raise ParameterError(f"{where} needs either a release or a database: its folder.")
    if database is not None and "source" not in table:
        raise ParameterError(f"{where} needs a source: the table that the database is about.")
    if release is not None and {"source", "table", "batches"} & set(table):
        raise ParameterError(f"{where} is a release, which has no source, table or batches.")
    source = table.get("source")
    return DatasetSettings(
        name,
        title=_text(where, "title", table.get("title", "")),
        description=_text(where, "description", table.get("description", "")),
        release=release,
        database=database,
        source=None if source is None else _source(_text(where, "source", source), base),
        table=None if "table" not in table else _text(where, "table", table["table"]),
        batches=tuple(_source(each, base) for each in _texts(where, "batches", table)),
    )


def _named_source(name: str, table: Mapping[str, Any], base: Path) -> SourceSettings:
    where = f"[sources.{name}]"
    check_name(name, "source")
    _known(where, table, [each.name for each in fields(SourceSettings)][1:])
    if "path" not in table:
        raise ParameterError(f"{where} needs a path: the file or the address of the table.")
    return SourceSettings(
        name,
        _source(_text(where, "path", table["path"]), base),
        title=_text(where, "title", table.get("title", "")),
        table=None if "table" not in table else _text(where, "table", table["table"]),
        schema=_path(table, "schema", base),
    )


def check_name(name: str, what: str = "data set") -> None:
    """Refuse a name of a data set or a source that would be awkward in addresses and folders."""
    if not DATASET_NAME.fullmatch(name):
        raise ParameterError(
            f"The name of a {what} must be a small letter, then at most 39 small letters, digits, "
            f"- and _. Got {name[:60]!r} instead."
        )


def _public(given: object) -> str | None:
    """Return the public address; raises `ParameterError` for what is none."""
    if given is None:
        return None
    if not isinstance(given, str) or not _PUBLIC.fullmatch(given):
        raise ParameterError.of("serve", "public", "as https://statistics.example.org", given)
    return given.rstrip("/")


def _limits(table: Mapping[str, Any]) -> Limits:
    kinds = get_type_hints(Limits)
    _known("[limits]", table, list(kinds))
    for name, value in table.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value < 1e12 or (kinds[name] is int and value != int(value)):
            allowed = "a whole number above 0" if kinds[name] is int else "a number above 0"
            raise ParameterError.of("serve", f"limits.{name}", allowed, value)
    if table.get("wire_quota", 1) > 1:
        allowed = "a number above 0 and at most 1"
        raise ParameterError.of("serve", "limits.wire_quota", allowed, table["wire_quota"])
    return Limits(**{name: kinds[name](value) for name, value in table.items()})


def _source(text: str, base: Path) -> str:
    """Return a source with a path relative to `base`; an address such as postgresql:// as it is."""
    return text if is_address(text) else str(base / text)


def _path(table: Mapping[str, Any], name: str, base: Path) -> Path | None:
    return None if name not in table else base / _text("server.toml", name, table[name])


def _place(table: Mapping[str, Any], name: str, base: Path) -> Path | str | None:
    """Return a folder relative to `base`, or an address as it is."""
    given = table.get(name)
    return given if isinstance(given, str) and is_address(given) else _path(table, name, base)


def _must(path: Path | None) -> Path:
    assert path is not None  # noqa: S101  # checked before
    return path


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, Mapping):
        raise ParameterError(f"server.toml: {name} must be a table, as [{name}].")
    return found


def _text(where: str, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ParameterError(f"{where}: {name} must be printable text. Got {value!r} instead.")
    return value


def _texts(where: str, name: str, table: Mapping[str, Any]) -> list[str]:
    found = table.get(name, [])
    if not isinstance(found, list):
        raise ParameterError(f"{where}: {name} must be a list of texts. Got {found!r} instead.")
    return [_text(where, name, each) for each in found]


def _known(where: str, table: Mapping[str, Any], names: Any) -> None:
    for name in table:
        if name not in names:
            raise ParameterError(f"{where}: unknown key {name!r}. Allowed are {', '.join(names)}.")

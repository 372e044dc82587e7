"""Tokens: who may use the server, in which role, for which data sets, until when.

A token is shown once. The file tokens.json has its SHA-256, and what the PostgreSQL wire needs to
check it by SCRAM-SHA-256. Commands and the running server change the file under a lock.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Literal, get_args

from filelock import FileLock

from scumble.model import stored
from scumble.model.errors import LedgerError, ParameterError

Role = Literal["owner", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)
_ITERATIONS = 4096  # of SCRAM: a token has 256 random bits, so that stretching it adds nothing
_LONGEST_NAME = 60
_FILE = "tokens.json"
_MARK = "scb"


@dataclass(frozen=True)
class Scram:
    """What a server stores to check a password by SCRAM-SHA-256 (RFC 5802), in base64."""

    salt: str
    stored_key: str
    server_key: str
    iterations: int = _ITERATIONS

    @classmethod
    def of(cls, password: str) -> Scram:
        """Return the stored form of a password under a new salt."""
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
        client = hmac.digest(salted, b"Client Key", "sha256")
        server = hmac.digest(salted, b"Server Key", "sha256")
        return cls(_base64(salt), _base64(hashlib.sha256(client).digest()), _base64(server))


@dataclass(frozen=True)
class Token:
    """A stored token. `name` is the analyst in the journal; `datasets` is None for all of them."""

    prefix: str
    digest: str
    role: Role
    name: str
    created: str
    expires: str | None
    datasets: tuple[str, ...] | None
    scram: Scram
    revoked: str | None = None

    def usable(self, now: datetime | None = None) -> bool:
        """Whether the token is neither revoked nor expired."""
        if self.revoked is not None:
            return False
        return self.expires is None or _time(self.expires) > (now or datetime.now(UTC))

    def allows(self, dataset: str) -> bool:
        return self.datasets is None or dataset in self.datasets

    @property
    def state(self) -> str:
        """In a word: active, revoked or expired."""
        if self.revoked is not None:
            return "revoked"
        return "active" if self.usable() else "expired"

    def public(self) -> dict[str, Any]:
        """Return what an owner may see of it; nothing by which it could be used."""
        names = ("prefix", "role", "name", "created", "expires", "revoked")
        found = {name: getattr(self, name) for name in names}
        return {**found, "datasets": self.datasets and list(self.datasets), "state": self.state}


class TokenStore:
    """The tokens in a folder. Changes by other processes are noticed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._file = self.folder / _FILE
        self._lock = Lock()
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def create(
        self,
        role: str,
        name: str,
        *,
        days: float | None = None,
        datasets: Sequence[str] | None = None,
    ) -> tuple[str, Token]:
        """Make a token; return its text, which is stored nowhere, and what is stored of it."""
        if role not in ROLES:
            raise ParameterError.of("token", "role", "owner, analyst or auditor", role)
        _check_name(name)
        if role == "owner" and datasets is not None:
            raise ParameterError("An owner's token is for all data sets: leave the data sets out.")
        if days is not None and not 0 < days <= 36_500:
            raise ParameterError.of("token", "days", "a number above 0, at most 36,500", days)
        now = datetime.now(UTC)
        prefix = secrets.token_hex(5)
        text = f"{_MARK}_{prefix}_{secrets.token_urlsafe(32)}"
        token = Token(
            prefix,
            _digest(text),
            role,
            name,
            _written(now),
            None if days is None else _written(now + timedelta(days=days)),
            None if datasets is None else tuple(datasets),
            Scram.of(text),
        )
        with self._changing() as tokens:
            tokens[prefix] = token
        return text, token

    def revoke(self, prefix: str) -> Token:
        """Revoke a token, at once and for good; raises `ParameterError` for an unknown prefix."""
        with self._changing() as tokens:
            if prefix not in tokens:
                raise ParameterError.of(
                    "token",
                    "prefix",
                    "the start of a token, as the list of tokens shows it",
                    prefix,
                )
            token = tokens[prefix]
            if token.revoked is None:
                token = tokens[prefix] = replace(token, revoked=_written(datetime.now(UTC)))
        return token

    def all(self) -> list[Token]:
        """Return all tokens, the oldest first."""
        return sorted(self._current().values(), key=lambda token: token.created)

    def find(self, text: str) -> Token | None:
        """Return the usable token with this text, if there is one."""
        mark, _, rest = text.partition("_")
        token = self.by_prefix(rest.partition("_")[0]) if mark == _MARK else None
        known = token.digest if token else "0" * 64
        same = hmac.compare_digest(_digest(text), known)
        return token if same and token is not None else None

    def by_prefix(self, prefix: str) -> Token | None:
        """Return the usable token with this prefix, if there is one."""
        token = self._current().get(prefix)
        return token if token is not None and token.usable() else None

    def _current(self) -> dict[str, Token]:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return {}
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        with self._lock:
            if seen != self._seen:
                self._tokens, self._seen = _read(self._file), seen
            return self._tokens

    def _changing(self) -> _Change:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return _Change(self._file)


class _Change:
    """A context in which the stored tokens are changed, under the lock of the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = FileLock(file.with_suffix(".lock"), timeout=30)
        self._tokens: dict[str, Token] = {}

    def __enter__(self) -> dict[str, Token]:
        self._lock.acquire()
        self._tokens = _read(self._file) if self._file.exists() else {}
        return self._tokens

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                _write(self._file, self._tokens)
        finally:
            self._lock.release()


def _read(file: Path) -> dict[str, Token]:
    try:
        content = stored.parse_json(stored.read_regular(file))
        return {each["prefix"]: _token(each) for each in content["tokens"]}
    except (OSError, *stored.MALFORMED):
        raise LedgerError(f"{file} cannot be read. Restore it, or make new tokens.") from None


def _token(data: dict[str, Any]) -> Token:
    datasets = data.pop("datasets")
    scram = Scram(**data.pop("scram"))
    return Token(**data, datasets=None if datasets is None else tuple(datasets), scram=scram)


def _write(file: Path, tokens: dict[str, Token]) -> None:
    """Write the file anew: whole or not at all, readable by its owner only."""
    part = file.with_suffix(".part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump({"format": 1, "tokens": [asdict(each) for each in tokens.values()]}, out)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        allowed = f"printable text of 1 to {_LONGEST_NAME} characters"
        raise ParameterError.of("token", "name", allowed, name)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _written(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)

"""Guards: how much one token may ask at once, and sessions of browsers."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from scumble.server.config import Limits
from scumble.server.problems import Problem
from scumble.server.tokens import Token, TokenStore

SESSION_SECONDS = 12 * 3600.0
LINK_SECONDS = 1800.0
_MOST_SESSIONS = 10_000
_OF_TOKEN = 20  # sessions of one token at once; the oldest end first
_MOST_USERS = 100_000


@dataclass
class _Use:
    """How much a token has used: requests that run, and a bucket of requests that refills."""

    running: int = 0
    bucket: float = 0.0
    filled: float = field(default_factory=time.monotonic)


class UseLimits:
    """Refuses a token that asks too fast, or too much at once. Used in the event loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._uses: OrderedDict[str, _Use] = OrderedDict()

    def begin(self, prefix: str) -> Callable[[], None]:
        """Count one request of a token; return what to call at its end.

        Raises `Problem` 429 where it is one too many.
        """
        use = self._uses.get(prefix)
        if use is None:
            use = self._uses[prefix] = _Use(bucket=self._burst)
            while len(self._uses) > _MOST_USERS:
                self._uses.popitem(last=False)
        now = time.monotonic()
        use.bucket = min(self._burst, use.bucket + (now - use.filled) * self._limits.requests)
        use.filled = now
        if use.bucket < 1:
            raise Problem(
                429, f"At most {self._limits.requests:g} requests per second are served. Wait."
            )
        if use.running >= self._limits.concurrent:
            raise Problem(429, f"At most {self._limits.concurrent} requests run at once. Wait.")
        use.bucket -= 1
        use.running += 1

        def ended() -> None:
            use.running -= 1

        return ended

    @property
    def _burst(self) -> float:
        return max(1.0, 2 * self._limits.requests)


@dataclass(frozen=True)
class Session:
    """A browser that is logged in. `csrf` has to come with every request that changes something."""

    prefix: str
    csrf: str
    until: float

    def check(self, csrf: str) -> None:
        """Raise `Problem` 403 for another token against cross-site requests."""
        if not hmac.compare_digest(csrf.encode(), self.csrf.encode()):
            raise Problem(403, "This form is out of date. Load the page again.")


class Sessions:
    """Sessions of browsers and links that log in once; in memory, so that a restart ends them."""

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._links: dict[str, tuple[str, float]] = {}

    def start(self, token: Token) -> tuple[str, Session]:
        """Return the secret of a new session, for the cookie, and the session."""
        now = time.monotonic()
        for secret in [key for key, each in self._sessions.items() if each.until < now]:
            del self._sessions[secret]
        own = [key for key, each in self._sessions.items() if each.prefix == token.prefix]
        for secret in own[: max(0, len(own) - _OF_TOKEN + 1)]:
            del self._sessions[secret]
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        secret = secrets.token_urlsafe(32)
        session = Session(token.prefix, secrets.token_urlsafe(24), now + SESSION_SECONDS)
        self._sessions[secret] = session
        return secret, session

    def find(self, secret: str) -> tuple[Session, Token] | None:
        """Return a session and its token, if both are still good."""
        session = self._sessions.get(secret)
        if session is None or session.until < time.monotonic():
            return None
        token = self._tokens.by_prefix(session.prefix)
        return None if token is None else (session, token)

    def end(self, secret: str) -> None:
        self._sessions.pop(secret, None)

    def link(self, token: Token) -> str:
        """Return the secret of a link that logs in with a token, once, within half an hour."""
        secret = secrets.token_urlsafe(24)
        self._links[secret] = (token.prefix, time.monotonic() + LINK_SECONDS)
        return secret

    def use_link(self, secret: str) -> Token | None:
        """Return the token of a link, which is then used up."""
        prefix, until = self._links.pop(secret, ("", 0.0))
        return self._tokens.by_prefix(prefix) if until > time.monotonic() else None

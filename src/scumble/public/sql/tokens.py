"""The words of a question: SQL text cut into tokens, and complaints that point at one of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

from sqlglot import Token
from sqlglot import TokenType as T
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from scumble.model.errors import QueryError
from scumble.model.query import place

LONGEST = 200_000
DEEPEST = 25  # parentheses and CASE; the recursive parser must never exhaust the stack
_WORD = re.compile(r"[^\W\d]\w*(?: \w+)*")
_CLOSED = re.compile(
    r"""'(?:[^']|'')*+' | "(?:[^"]|"")*+" | /\*.*?\*/ | --[^\n]* | /(?!\*) | [^'"/$] | \$(?!\w*\$)
    | (\$\w*\$).*?\1""",
    re.DOTALL | re.VERBOSE,
)
_PREFIXES = {T.NOT, T.DASH, T.PLUS, T.TILDE, T.INTERVAL}
_NESTING = _PREFIXES | {T.L_PAREN, T.R_PAREN, T.CASE, T.END}

Tokens = Sequence[Token]


class _Local(threading.local):
    """Each thread has a tokenizer, because it takes as long to make one as to use it."""

    def __init__(self) -> None:
        self.tokenizer = DuckDB().tokenizer()


_LOCAL = _Local()


class Words:
    """A question cut into tokens: balanced, not too long and not too deep."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise QueryError(f"A question must be SQL text. Got {type(text).__name__} instead.")
        self.text = text
        if len(text) > LONGEST:
            raise QueryError(
                f"The question is too long: {len(text)} characters, of at most {LONGEST}."
            )
        if "\0" in text:
            raise self.error("A zero character cannot be part of a question.", text.index("\0"))
        self.tokens = self._tokenize()
        while self.tokens and self.tokens[-1].token_type is T.SEMICOLON:
            self.tokens.pop()
        if not self.tokens:
            raise QueryError("The question is empty. Write SELECT COUNT(*) FROM t, for example.")
        self.closing = self._match_parentheses()

    def error(self, message: str, at: Token | int | None = None) -> QueryError:
        """The complaint, with a caret under a token, an offset, or (None) the end of the text."""
        if at is None:
            at = len(self.text.rstrip())
        start = at if isinstance(at, int) else at.start
        line, column = place(self.text, start)
        return QueryError(message, text=self.text, line=line, column=column)

    def _tokenize(self) -> list[Token]:
        try:
            return _LOCAL.tokenizer.tokenize(self.text)
        except TokenError:  # it ran off the end, looking for a closing mark
            start = 0
            while closed := _CLOSED.match(self.text, start):
                start = closed.end()
        mark = {"/": "*/", "": "mark"}.get(
            self.text[start : start + 1], self.text[start : start + 1]
        )
        raise self.error(f"A closing {mark} is missing.", start)

    def _match_parentheses(self) -> dict[int, int]:
        """From each opening parenthesis to the one that closes it, by index."""
        closing: dict[int, int] = {}
        open_now: list[int] = []
        cases = prefixes = 0
        for index, token in enumerate(self.tokens):
            kind = token.token_type
            if kind not in _NESTING:  # which most are
                prefixes = 0
                continue
            prefixes = prefixes + 1 if kind in _PREFIXES else 0
            if kind is T.L_PAREN:
                open_now.append(index)
            elif kind is T.R_PAREN:
                if not open_now:
                    raise self.error("This parenthesis closes nothing.", token)
                closing[open_now.pop()] = index
            elif kind is T.CASE:
                cases += 1
            elif kind is T.END and cases:
                cases -= 1
            if len(open_now) + cases > DEEPEST or prefixes > DEEPEST:
                raise self.error("The question is nested too deeply.", token)
        if open_now:
            raise self.error("This parenthesis is never closed.", self.tokens[open_now[-1]])
        return closing


def is_word(token: Token) -> bool:
    """Whether a token is a name or a keyword, rather than a literal or a symbol."""
    kind = token.token_type
    if kind is T.VAR or kind is T.IDENTIFIER:
        return True
    return kind is not T.STRING and _WORD.fullmatch(token.text) is not None

"""Which functions may be called: every deterministic scalar function of DuckDB, and no other."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import pairwise

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.public.sql.refusals import AGGREGATES
from scumble.public.sql.tokens import Tokens, Words, is_word

# Words before a parenthesis that call nothing.
_SYNTAX = frozenset(
    "AND OR NOT IN BETWEEN LIKE ILIKE GLOB ESCAPE IS FROM FOR WHEN THEN ELSE CASE AS WHERE "
    "INTERVAL SELECT DECIMAL NUMERIC DEC VARCHAR CHAR BPCHAR TEXT DISTINCT BOTH LEADING "
    "TRAILING".split()
) | {"SIMILAR TO"}
# Forms of the grammar, which DuckDB does not list among its functions.
_FORMS = frozenset("CAST TRY_CAST COALESCE IFNULL EXTRACT SUBSTRING TRIM POSITION TRY".split())


def check_functions(words: Words, tokens: Tokens) -> set[int]:
    """Where functions are called in an expression; complains about one that may not be."""
    calls: set[int] = set()
    for token, after in pairwise(tokens):
        if after.token_type is T.L_PAREN and is_word(token):
            name = token.text.upper()
            if token.token_type is T.IDENTIFIER:
                raise words.error("Write the name of a function without quotes.", token)
            if name not in _SYNTAX:
                calls.add(token.start)
                if name not in _FORMS:
                    _check_function(words, token)
    for token in tokens:  # sqlglot would take it for a command, and log a warning
        if token.text.upper() == "IF" and token.start not in calls and is_word(token):
            raise words.error("Write CASE WHEN ... THEN ... END, or if(condition, a, b).", token)
    return calls


def _check_function(words: Words, token: Token) -> None:
    from scumble.public.sql.functions_part import (
        catalogue,  # loads DuckDB, which most questions do not need
    )

    name, known = token.text.lower(), catalogue()
    if name in known.deterministic:
        return
    if name in known.aggregates:
        raise words.error(
            f"{token.text} cannot be used here: {AGGREGATES}, alone and directly after SELECT.",
            token,
        )
    if name in known.others:
        raise words.error(
            f"{token.text} is not supported: it is not a deterministic function of one row "
            "(it depends on chance, the clock or the system, or it returns many rows).",
            token,
        )
    near = get_close_matches(name, known.deterministic, n=1)
    advice = f" Did you mean {near[0]}?" if near else ""
    raise words.error(f"There is no function '{token.text}'.{advice}", token)

"""What cannot be asked: words of SQL that a view has no answer to, and the sentence for each."""

from __future__ import annotations

from collections.abc import Container

from sqlglot import Token
from sqlglot import TokenType as T

from scumble.public.sql.tokens import Words, is_word

_ONE_TABLE = "Joins are not supported: a question is about one table."
_ORDER = "is not supported: the answer comes as a whole, sort or cut it afterwards."
_SETS = "is not supported: ask each question by itself."
_SAMPLES = "Samples are not supported: the error of the answer would not be known."
_NESTED = "Lists, structs and lambda functions are not supported: use scalar expressions."
_PARAMETERS = "Parameters are not supported: write the value itself."
_LITERALS = "This kind of literal is not supported: write text in single quotes."
_SUBSELECTS = "Sub-selects are supported only as IN (SELECT column FROM public_table WHERE ...)."
_SYMBOL = "This symbol is not part of the supported SQL."

REFUSED = {
    T.JOIN: _ONE_TABLE,
    T.CROSS: _ONE_TABLE,
    T.NATURAL: _ONE_TABLE,
    T.LATERAL: _ONE_TABLE,
    T.STRAIGHT_JOIN: _ONE_TABLE,
    T.OVER: "Window functions (OVER) are not supported.",
    T.WINDOW: "Window functions (WINDOW) are not supported.",
    T.QUALIFY: "QUALIFY is not supported: there are no window functions.",
    T.HAVING: "HAVING is not supported: choose among the groups of the answer afterwards.",
    T.ORDER_BY: f"ORDER BY {_ORDER}",
    T.LIMIT: f"LIMIT {_ORDER}",
    T.OFFSET: f"OFFSET {_ORDER}",
    T.FETCH: f"FETCH {_ORDER}",
    T.UNION: f"UNION {_SETS}",
    T.EXCEPT: f"EXCEPT {_SETS}",
    T.INTERSECT: f"INTERSECT {_SETS}",
    T.SEMICOLON: "Only one statement can be asked at a time.",
    T.DISTINCT: "DISTINCT is not supported: a noisy view cannot tell which rows are equal.",
    T.TABLE_SAMPLE: _SAMPLES,
    T.USING: _SAMPLES,
    T.PIVOT: "PIVOT is not supported: use GROUP BY.",
    T.UNPIVOT: "UNPIVOT is not supported.",
    T.EXISTS: _SUBSELECTS,
    T.ANY: _SUBSELECTS,
    T.SOME: _SUBSELECTS,
    T.COLLATE: "COLLATE is not supported: use lower(...) or strip_accents(...).",
    T.PLACEHOLDER: _PARAMETERS,
    T.PARAMETER: _PARAMETERS,
    T.ARROW: _NESTED,
    T.DARROW: _NESTED,
    T.COLON: _NESTED,
    T.COLON_EQ: _NESTED,
    T.L_BRACKET: _NESTED,
    T.L_BRACE: _NESTED,
    T.BYTE_STRING: _LITERALS,
    T.BIT_STRING: _LITERALS,
    T.HEX_STRING: _LITERALS,
    T.HEREDOC_STRING: _LITERALS,
    T.NATIONAL_STRING: _LITERALS,
    T.RAW_STRING: _LITERALS,
    T.UNICODE_STRING: _LITERALS,
}

# Symbols that may stand in an expression; text outside strings holds no others.
SYMBOLS = frozenset(
    "( ) , . + - * / // % ** ^ || = == <> != < <= > >= & | ~ << >> :: ~~ ~~* ~~~ ^@ <=>".split()
)

_TEXTUAL = {T.STRING, T.NUMBER, T.IDENTIFIER}

AGGREGATES = "COUNT(*), COUNT(e), SUM(e) and AVG(e) are supported"


def refuse_unsupported(words: Words, names: Container[str]) -> None:
    """Complain about the first word that is never supported, unless it is the name of a column."""
    _expect_select(words)
    before: Token | None = None
    for index, token in enumerate(words.tokens):
        sentence = REFUSED.get(token.token_type)
        if sentence and token.text.lower() not in names and not _compares(words.tokens, index):
            raise words.error(sentence, token)
        if token.token_type is T.SELECT and index:
            _refuse_subselect(words, index)
        if token.token_type is T.FILTER and before and before.token_type is T.R_PAREN:
            raise words.error("FILTER is not supported: write the condition in WHERE.", token)
        if not (token.token_type in _TEXTUAL or is_word(token) or token.text in SYMBOLS):
            raise words.error(_SYMBOL, token)
        before = token


def _expect_select(words: Words) -> None:
    first = words.tokens[0]
    if first.token_type is T.WITH:
        raise words.error("WITH is not supported: ask one plain question.", first)
    if first.token_type is not T.SELECT:
        raise words.error("A question must begin with SELECT, like SELECT COUNT(*) FROM t.", first)


def _compares(tokens: list[Token], index: int) -> bool:
    """Whether this is the word DISTINCT of IS [NOT] DISTINCT FROM."""
    if tokens[index].token_type is not T.DISTINCT or index < 2:
        return False
    place = index - 2 if tokens[index - 1].token_type is T.NOT else index - 1
    return tokens[place].token_type is T.IS


def _refuse_subselect(words: Words, index: int) -> None:
    """A SELECT inside the question must follow `IN (`."""
    tokens = words.tokens
    if [token.token_type for token in tokens[index - 2 : index]] != [T.IN, T.L_PAREN]:
        raise words.error(_SUBSELECTS, tokens[index])

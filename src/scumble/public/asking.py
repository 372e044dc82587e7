"""The verbs that all share who answer questions: releases, databases and servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from scumble.model.errors import QueryError
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable

_KINDS = {
    Estimate: "one number: ask by number(sql)",
    Estimates: "one number by group: ask by groups(sql)",
    EstimateTable: "a table: ask by table(sql)",
}


class Asking(ABC):
    """Answers whose type is known from the verb, for editors and type checkers.

    The keyword arguments are those of `answer`.
    """

    @abstractmethod
    def answer(self, sql: str, *args: Any, **keywords: Any) -> Estimate | Estimates | EstimateTable:
        """Answer one question."""

    def number(self, sql: str, **keywords: Any) -> Estimate:
        """Answer a question that has one number; raise QueryError for another one."""
        found = self.answer(sql, **keywords)
        if not isinstance(found, Estimate):
            raise _refusal(found)
        return found

    def groups(self, sql: str, **keywords: Any) -> Estimates:
        """Answer a question that has one number by group; raise QueryError for another one."""
        found = self.answer(sql, **keywords)
        if not isinstance(found, Estimates):
            raise _refusal(found)
        return found

    def table(self, sql: str, **keywords: Any) -> EstimateTable:
        """Answer a question that has several numbers; raise QueryError for another one."""
        found = self.answer(sql, **keywords)
        if not isinstance(found, EstimateTable):
            raise _refusal(found)
        return found


def _refusal(found: object) -> QueryError:
    kind = next(words for each, words in _KINDS.items() if isinstance(found, each))
    return QueryError(f"The answer to this question is {kind}.")

"""`publish` with the fields of `Table` and `PublishOptions` as keywords, for tables of cases."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import scumble as sc


def publish(source: Any, schema: Any, mechanism: Any = None, **words: Any) -> Any:
    """Publish a table with these keywords."""
    read = _take(words, sc.Table)
    how = _take(words, sc.PublishOptions)
    table = sc.Table(source, **read) if read else source
    return sc.publish(table, schema, mechanism, options=sc.PublishOptions(**how), **words)


def _take(words: dict[str, Any], kind: type) -> dict[str, Any]:
    """Return the keywords that are fields of a class, and remove them."""
    return {each.name: words.pop(each.name) for each in fields(kind) if each.name in words}

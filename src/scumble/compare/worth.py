"""Plans that no owner would choose, which a comparison leaves out without trying them."""

from __future__ import annotations

from scumble.compare.settings import Choice
from scumble.model.errors import ScumbleError
from scumble.model.schema.schema import Schema
from scumble.private.expectation import hopeless
from scumble.private.mechanism import Summary

_MANY = 10**5  # cells; below, trying costs next to nothing


def worthless(choice: Choice, schema: Schema, rows: int) -> str:
    """Return why a setting is not worth trying on `rows` rows, or an empty text.

    It is not if it measures many cells, and a formula tells that a count of a tenth of the rows may
    be off by more than itself. A setting that is impossible is for the run itself to refuse.
    """
    try:
        mechanism = choice.mechanism
        if not isinstance(mechanism, Summary):
            return ""
        cells = schema.size(choice.parameters.get("attributes", ()))
        if cells <= _MANY:
            return ""
        mechanism.check(schema)
        if mechanism.expected_error(schema, rows) is None:
            return ""
        warning = hopeless(mechanism, schema, rows)
    except ScumbleError:
        return ""
    if not warning:
        return ""
    return (
        f"It would measure {cells:,} cells for {rows:,} rows: a count of a tenth of the rows would "
        "be off by more than itself. Ask about fewer columns, or declare coarser domains."
    )

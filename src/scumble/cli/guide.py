"""`scumble publish SOURCE` without a method: five questions that end in a release."""

from __future__ import annotations

from scumble.cli import options
from scumble.model.errors import ParameterError


def guide(source: options.Source) -> None:
    """Ask five questions about a table, and publish it."""
    raise ParameterError(f"Name a method: scumble publish METHOD {source}.")

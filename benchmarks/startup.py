"""How long `scumble --help` keeps a person waiting."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.measure import at_most

LIMIT = 0.3


def run() -> list[dict[str, Any]]:
    command = [sys.executable, "-c", "from scumble.cli.app import main; main()", "--help"]
    seconds = statistics.median(_cpu(command) for _ in range(11))
    return [
        at_most("scumble --help / 0.3 s", 1, seconds / LIMIT, f"{seconds:.3f} s CPU, median of 11")
    ]


def _cpu(command: list[str]) -> float:
    """Processor seconds of a program: a busy machine hardly lengthens them."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )

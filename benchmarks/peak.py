"""Publishes one table in a process of its own and prints the most memory it held, in bytes.

python -m benchmarks.peak people.parquet view [jobs]
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import scumble as sc
from benchmarks.people import SCHEMA


def peak() -> int:
    """The high-water mark of this program; on Linux the figure that no parent process taints."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    source, view, *jobs = sys.argv[1:]
    schema, uniform = sc.Schema.loads(SCHEMA), sc.Uniform(epsilon=1)
    sc.publish(source, schema, uniform, options=sc.PublishOptions(jobs=int(*jobs or [1]))).save(
        view
    )
    print(peak())

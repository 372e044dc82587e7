"""Running the notebooks of docs/notebooks, for the tests and to keep their outputs up to date.

python -m tests.support.notebooks docs/notebooks/*.ipynb

runs each and writes its new outputs into it (`make notebooks`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NAMES = ("owner", "analyst", "statistician")
_SECONDS = 300  # for one cell


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a new run; raise if one of its cells does."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as place:
        client = NotebookClient(
            notebook,
            timeout=_SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
        )
        # Settings of the user that runs it must not change what comes out.
        with mock.patch.dict(os.environ, IPYTHONDIR=place, MPLCONFIGDIR=place):
            client.execute(cwd=place)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def kinds(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """Return what each code cell shows: names of streams, and the types of data, pictures first."""
    return [
        [
            output["name"] if output["output_type"] == "stream" else min(output["data"])
            for output in cell["outputs"]
        ]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(executed(Path(name)), name)

"""The type stub of the package: the public names as imports, for type checkers and editors.

python -m tests.support.stubs src/scumble/__init__.pyi
"""

from __future__ import annotations

import sys
from pathlib import Path

import scumble

_SAID = "The public names of scumble. Generated from __init__.py by `make options`; do not edit."


def stub_text() -> str:
    """Return the text of src/scumble/__init__.pyi."""
    imports = sorted(_import(name) for name in scumble.__all__)
    listed = "".join(f'    "{name}",\n' for name in scumble.__all__)
    return f'"""{_SAID}"""\n\n' + "".join(imports) + f"\n__all__ = [\n{listed}]\n"


def _import(name: str) -> str:
    module, _, attribute = scumble._HOME[name].partition(":")
    if attribute == "*":
        module, _, attribute = module.rpartition(".")
    return f"from {module} import {attribute or name} as {name}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(stub_text(), "utf-8")

"""Every leaf of the manifests of saved releases, of every kind: dropped, of another type, not a
number, negative, huge, nested. All that comes is an answer or a `ScumbleError`.

Many releases share parts of their manifests, so that each part is changed in one release that has
it. A failure names the release, the leaf and what was written there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from scumble.model.errors import ScumbleError
from scumble.public import limits
from scumble.public.archive.archive import MANIFEST, _digest_of_json

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SAVED = [path.parent for path in sorted(FIXTURES.glob("*/**/" + MANIFEST))]
DROPPED = object()
WRITTEN: tuple[Any, ...] = (
    *(DROPPED, [[]], 10**30, -1, None, "x", 1.5),
    *(True, 0, 1e308, float("nan"), "", "nan", "-1/2", [], {}, {"kind": "x"}),
)
QUICK = 1  # of these for each leaf, in turn
Place = tuple[str | int, ...]


def leaves(value: Any, path: Place = ()) -> Iterator[Place]:
    """The place of everything in JSON values; of a list, of its first item."""
    keys: list[str | int] = list(value) if isinstance(value, dict) else [0]
    if isinstance(value, dict | list) and value:
        for key in keys:
            yield (*path, key)
            yield from leaves(value[key], (*path, key))


def shape(value: Any, path: Place) -> tuple[Any, ...]:
    """What a leaf is: its place without the schema's own names, and the kinds of what it is in."""
    kinds = []
    for key in path:
        kinds.append(value.get("kind") if isinstance(value, dict) else None)
        value = value[key]
    return (path, *kinds, type(value).__name__)


def cases() -> Iterator[tuple[Path, dict[str, Any], list[Place]]]:
    """Each release with the leaves that no release before it has."""
    seen = set()
    for folder in SAVED:
        data = json.loads((folder / MANIFEST).read_text("utf-8"))
        data.pop("checksum")
        new = []
        for path in leaves(data):
            # Numbers, names and sentences about the table are not read by a program.
            if path[0] in ("report", "parameters", "schema") and len(path) > 1:
                known: tuple[Any, ...] = (path[0], *path[-1:])
            else:
                known = shape(data, path)
            if known not in seen:
                seen.add(known)
                new.append(path)
        yield folder, data, new


def changed_manifests(
    data: dict[str, Any], places: list[Place], quick: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield manifests in which one leaf is changed, and words for the change."""
    for number, path in enumerate(places):
        chosen = range(QUICK * number, QUICK * (number + 1)) if quick else range(len(WRITTEN))
        for each in chosen:
            value = WRITTEN[each % len(WRITTEN)]
            changed = deepcopy(data)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            if value is DROPPED:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            changed["checksum"] = _digest_of_json(changed)
            yield f"{path} {'dropped' if value is DROPPED else repr(value)}", changed


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_every_leaf_of_a_manifest(quick, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(limits.SECONDS, "10")
    failures, tried, opened = [], 0, 0
    for number, (folder, data, places) in enumerate(cases()):
        place = tmp_path / str(number)
        shutil.copytree(folder, place)
        for words, changed in changed_manifests(data, places, quick):
            tried += 1
            (place / MANIFEST).write_text(json.dumps(changed), "utf-8")
            try:
                release = sc.open(place)
                opened += 1
                assert repr(release)
                assert str(release.answer("SELECT COUNT(*) FROM t"))
            except ScumbleError:
                pass
            except Exception as error:
                failures.append(f"{folder.name} {words}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
    assert tried > 500
    assert 10 < opened < tried / 2  # sentences may be changed, and most of the rest may not

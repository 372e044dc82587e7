"""Opening what was saved: a release, or the releases of several tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.model import stored
from scumble.model.errors import ReleaseError
from scumble.model.privacy.guarantee import Guarantee, Guarantees
from scumble.model.relational import is_address
from scumble.public.archive.archive import LINKS, read
from scumble.public.archive.promises import check_linked_promises
from scumble.public.archive.relations import read_links
from scumble.public.release import Release

if TYPE_CHECKING:
    from scumble.public.synthesis.linked import LinkedRelease


def load(place: str | Path, *, as_stated: bool = False) -> Release:
    """Open a release; raise `ReleaseError` if it is damaged or was changed.

    With `as_stated`, for the audit, its noise is not held against its promises.
    """
    manifest, folder, temporary = read(place, as_stated=as_stated)
    return Release(manifest, folder, temporary=temporary)


def is_linked(place: str | Path) -> bool:
    """Return whether a folder or an address holds the releases of several tables."""
    if isinstance(place, str) and is_address(place):
        return read_links(place) is not None
    return (Path(place) / LINKS).exists()


def load_any(place: str | Path) -> Release | LinkedRelease:
    """Open a release, or the releases of several tables."""
    if not is_linked(place):
        return load(place)
    return load_linked(place)


def load_linked(place: str | Path) -> LinkedRelease:
    """Open the folder or the address that `LinkedRelease.save` wrote to."""
    # It draws rows, which needs sqlglot; `scumble show` of one table does not.
    from scumble.public.synthesis.linked import LinkedRelease, place_of_table

    try:
        data: Any = _links(place)
        names = stored.items(stored.text, data["tables"])
        keys = {name: stored.text(data["keys"][name]) for name in names}
        given = {name: stored.items(stored.text, data["given"][name]) for name in names[1:]}
        promises = Guarantees(stored.items(Guarantee.from_dict, data["guarantees"]))
        if any("/" in name or name.startswith(".") for name in names):
            raise ValueError("not the name of a table")
    except (OSError, *stored.MALFORMED):
        where = "It" if isinstance(place, str) and is_address(place) else place
        raise ReleaseError(f"{where} is not a release of linked tables, or is damaged.") from None
    tables = {name: load(place_of_table(place, name)) for name in names}
    where = "The release" if isinstance(place, str) and is_address(place) else str(place)
    check_linked_promises(where, promises, [each.manifest for each in tables.values()])
    return LinkedRelease(tables, keys, given, promises)


def _links(place: str | Path) -> Any:
    """Return the JSON values that say how tables are linked."""
    if isinstance(place, str) and is_address(place):
        return read_links(place)
    return stored.parse_json(stored.read_regular(Path(place) / LINKS).decode("utf-8"))

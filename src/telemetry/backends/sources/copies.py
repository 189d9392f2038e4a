"""The place of a copied artifact, also in a run directory that was moved."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from telemetry.backends.items import Artifact, Item
from telemetry.wire.artifact_copies import digest_of, original_name, path_of, uri_of


def located(item: Item, directory: Path | None) -> Item:
    """Return an item whose reference is the copy in this run directory, if it has one; else the item itself."""
    if not isinstance(item, Artifact) or directory is None:
        return item
    digest = digest_of(item.uri)
    if not digest or not directory.joinpath(path_of(digest)).is_file():
        return item
    return replace(item, uri=uri_of(str(directory.absolute()), digest, original_name(item.uri)))

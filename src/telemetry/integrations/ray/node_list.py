"""The durable list of all nodes that a run has had. Without it, a root could call a run complete without a node."""

from __future__ import annotations

from pathlib import Path

import msgspec

from telemetry.errors import RunDirectoryError
from telemetry.store.atomic import OWNER_ONLY, write_atomic


class NodeList:
    """Nodes by their id in Ray, with their names, in a file."""

    def __init__(self, path: Path) -> None:
        """Read the list, if there is one. Raises RunDirectoryError."""
        self._path = path
        self._names: dict[str, str] = {}
        try:
            self._names = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            raise RunDirectoryError(f"can't read the list of nodes {path}: {error}") from error

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._names

    @property
    def ids(self) -> list[str]:
        return list(self._names)

    @property
    def names(self) -> list[str]:
        return sorted(self._names.values())

    def add(self, nodes: dict[str, str]) -> None:
        """Add nodes. Blocks until they are on the disk. Raises RunDirectoryError, and then adds none."""
        names = self._names | nodes
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._path, msgspec.json.encode(names), mode=OWNER_ONLY)
        except OSError as error:
            raise RunDirectoryError(f"can't write the list of nodes {self._path}: {error.strerror}") from error
        self._names = names

"""Which axis a name belongs to, for trackers that have one place for a name: the first that used it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from telemetry.store.atomic import write_atomic
from telemetry.wire.codec import BAD_INPUT


class AxisOwners(dict[str, str]):
    """Name → axis. `keep` before a checkpoint, and the next process knows them too."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, but not for a file that is not there; one that is damaged is as none."""
        super().__init__()
        self._path = path
        with suppress(FileNotFoundError, *BAD_INPUT):
            self.update(msgspec.json.decode(path.read_bytes(), type=dict[str, str]))
        self._kept = len(self)

    def has(self, name: str, axis: str) -> bool:
        """Whether this name is this axis's; it is from now on if it was nobody's."""
        return self.setdefault(name, axis) == axis

    def keep(self) -> None:
        """Raises OSError."""
        if len(self) > self._kept:
            write_atomic(self._path, msgspec.json.encode(dict(self)), durable=False)
            self._kept = len(self)

"""Ownership of names by axes, for trackers that keep one axis per name: the first axis to use a name owns it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from telemetry.store.atomic import write_atomic
from telemetry.wire.codec import BAD_INPUT


class AxisOwners(dict[str, str]):
    """A map of name → axis. Call `keep` before a checkpoint to hand it to the next process."""

    def __init__(self, path: Path) -> None:
        """Read the file. A missing or damaged file counts as empty. Raises OSError for other errors."""
        super().__init__()
        self._path = path
        with suppress(FileNotFoundError, *BAD_INPUT):
            self.update(msgspec.json.decode(path.read_bytes(), type=dict[str, str]))
        self._kept = len(self)

    def has(self, name: str, axis: str) -> bool:
        """Check whether this axis owns the name. A name without an owner goes to this axis."""
        return self.setdefault(name, axis) == axis

    def keep(self) -> None:
        """Write new names to the file. Raises OSError."""
        if len(self) > self._kept:
            write_atomic(self._path, msgspec.json.encode(dict(self)), durable=False)
            self._kept = len(self)

"""Origin of a run that was made from the result file of another tool."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.wire.version import SCHEMA

_SAME: Final = 1e-9


class StatedFigure(Struct, frozen=True, kw_only=True, gc=False):
    """A figure that the tool computed itself."""

    name: str
    """Name by the tool."""
    value: float
    unit: str = ""
    recomputed: float | None = None
    """The same figure, computed by the definition of the tool from the imported requests; null: it can't be."""
    reason: str = ""
    """Why the two differ, or why it can't be recomputed, if that is known."""

    @property
    def is_same(self) -> bool:
        """True if it was recomputed and is the same. Sums in another order may differ by the last digits."""
        ours, stated = self.recomputed, self.value
        return ours is not None and abs(ours - stated) <= _SAME * max(abs(ours), abs(stated))


class ImportedFile(Struct, frozen=True, kw_only=True):
    """The file that a run was imported from."""

    schema_version: int = SCHEMA
    tool: str
    version: str = ""
    """Version of the tool; empty if the file does not have it."""
    file: str = ""
    """Path of the file, as it was at the time of the import."""
    size: int = 0
    """Size in bytes, with that of all files that were read with it."""
    sha256: str = ""
    """SHA-256 of the file. For several, that of the lines `NAME SHA-256`, sorted by name."""
    measured_s: float | None = None
    """Duration by which the tool divides for its rates; null: the file does not have it."""
    unknown: list[str] = []
    """What the file does not have."""
    stated: list[StatedFigure] = []
    """Figures that the tool computed itself."""

"""The compiled code, if a compiler was available at installation. Its callers also work without it."""

from __future__ import annotations

from typing import Final

from telemetry.wire import rows as wire_rows

SOURCE_CRC: Final = 0x2286BC86
"""CRC-32 of the C files of this folder, by name. A module built from other sources is not used."""

try:
    from telemetry.aggregator import _compiled
except ImportError:
    _IS_USABLE = False
else:
    _IS_USABLE = _compiled.SOURCE_CRC == SOURCE_CRC

Columns: Final = _compiled.Columns if _IS_USABLE else None
"""Class that adds rows without special cases to columns, or None; see `_compiled.pyi`."""
find_rows: Final = _compiled.find_rows if _IS_USABLE else wire_rows.find
"""Function that finds the rows of a batch, for `decode_batch`."""

"""Files with the content of the screen."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from telemetry.errors import RunDirectoryError
from telemetry.store.atomic import write_atomic

_FONT_ADDRESS: Final = re.compile(r",?\s*url\([^)]*\) format\([^)]*\)")
_NAME_CHARS: Final = 60
"""Characters of a run's name in a file name: file names have at most 255 bytes."""


def offline(svg: str) -> str:
    """Remove the addresses of fonts from a picture, so that opening it causes no network requests."""
    return _FONT_ADDRESS.sub("", svg)


def write(folder: Path, name: str, wall_ns: int, svg: str, document: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write `<name>-<UTC time>.svg` and `.json`. A second export within a second replaces the first.

    Blocks until both are on the disk. Raises RunDirectoryError.
    """
    when = datetime.fromtimestamp(wall_ns / 1e9, UTC)
    safe = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:_NAME_CHARS] or "run"
    picture, numbers = (folder / f"{safe}-{when:%Y%m%dT%H%M%SZ}.{kind}" for kind in ("svg", "json"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(picture, offline(svg).encode())
        write_atomic(numbers, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")
    except OSError as error:
        raise RunDirectoryError(f"can't write {error.filename or folder}: {error.strerror}") from error
    return picture, numbers

"""The content of the screen as JSON, and its files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from telemetry.errors import RunDirectoryError
from telemetry.history.intervals.timeline import Timeline
from telemetry.store.atomic import write_atomic
from telemetry.tui.model import export as parts
from telemetry.tui.model.scene import Opened, Scene, SeriesId, ValuesOverTime, View
from telemetry.tui.tabs import TABS

_FONT_ADDRESS: Final = re.compile(r",?\s*url\([^)]*\) format\([^)]*\)")
_NAME_CHARS: Final = 60
"""Characters of a run's name in a file name: file names have at most 255 bytes."""


def export_json(
    scene: Scene,
    view: View,
    screen: str,
    *,
    series: SeriesId | None = None,
    timeline: Timeline | None = None,
    opened: Opened | None = None,
    values: ValuesOverTime | None = None,
) -> dict[str, Any]:
    """Return the content of a screen as strict JSON: the same rows in the same order, without filtered ones.

    Values are in the units of their series. `screen` is one of `telemetry.tui.keys.PLACES`; `series` needs the
    argument `series`, and `curve` needs `opened`.
    """
    document = {"screen": screen, "run": parts.run(scene.snapshot), "view": parts.view_state(scene, view)}
    if screen in TABS:
        document |= TABS[screen].content(scene, view)
    elif screen == "series" and series is not None:
        document["series"] = parts.detail(scene, view, series, timeline)
    elif screen == "curve" and opened is not None:
        document["curve"] = parts.curve(scene, opened, values)
    plain: dict[str, Any] = parts.strict(document)
    return plain


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

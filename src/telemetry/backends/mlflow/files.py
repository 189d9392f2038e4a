"""Paths of files among a run's artifacts, such as `texts/<name>/<axis>-<step>.<key>.txt`."""

from __future__ import annotations

import string
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

import msgspec

from telemetry.backends.items import Artifact, Table, Text
from telemetry.backends.naming import escape

_MARK: Final = "="
_ALLOWED: Final = string.ascii_letters + string.digits + "_-. "
_LONGEST: Final = 120  # bytes of a name in a path; file systems allow 255, including the key and the suffix
_ENCODER: Final = msgspec.json.Encoder()
_FOLDERS: Final[Mapping[type, str]] = {Text: "texts", Table: "tables", Artifact: "files"}


def folder(item: Text | Table | Artifact) -> str:
    """Return the directory for all items of this name, relative to the run's artifacts."""
    return f"{_FOLDERS[type(item)]}/{_part(item.name)}"


def leaf(item: Text | Table | Artifact, ending: str) -> str:
    """Return a unique file name for the item. A repeated item gets the same name."""
    when = f"{_part(item.axis)}-{item.step}" if item.axis else "run"
    return f"{when}.{_part(item.key)}{ending}"


def table(item: Table) -> bytes:
    """Encode a table for `mlflow.load_table`."""
    return _ENCODER.encode({"columns": item.columns, "data": item.rows})


def reference(item: Artifact) -> bytes:
    return _ENCODER.encode({"uri": item.uri, "kind": item.kind, "axis": item.axis, "step": item.step})


def ending(uri: str) -> str:
    """Return the file suffix, such as `.png`, by which viewers detect the type."""
    return f".{escape(suffix[1:16], _ALLOWED, _MARK)}" if (suffix := PurePosixPath(uri).suffix) else ".bin"


def _part(name: str) -> str:
    text = escape(name, _ALLOWED, _MARK)
    if text.startswith("."):
        text = f"{_MARK}2E{text[1:]}"
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 18]}{_MARK}_{sha256(text.encode()).hexdigest()[:16]}"

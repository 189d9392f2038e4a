"""The inputs worth keeping: one file for each target, `corpus/<target>.bin`, each input behind its length (u32)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"
TARGET_BYTES: Final = 128 * 1024
"""Of one target's file; all together stay below two MiB."""
INPUT_BYTES: Final = 32 * 1024
_LENGTH: Final = struct.Struct("<I")


def load(name: str) -> list[bytes]:
    """Empty for a target without a file."""
    path = FOLDER / f"{name}.bin"
    data = path.read_bytes() if path.exists() else b""
    inputs = []
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        inputs.append(data[at : at + length])
        at += length
    return inputs


def save(name: str, inputs: Iterable[bytes]) -> int:
    """Small ones first, each once, as far as there is room; returns how many were kept."""
    FOLDER.mkdir(exist_ok=True)
    kept: list[bytes] = []
    room = TARGET_BYTES
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        room -= _LENGTH.size + len(data)
        if room < 0:
            break
        kept.append(data)
    (FOLDER / f"{name}.bin").write_bytes(b"".join(_LENGTH.pack(len(data)) + data for data in kept))
    return len(kept)

"""The definitions beside the ring of a producer, and how it introduces itself there, as docs/RING.md describes it.

The process may live. Nothing in the file is trusted.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from telemetry import limits
from telemetry.wire.events import Define
from telemetry.wire.rings import DEFINITIONS_SUFFIX, RING_SUFFIX, Introduction

LENGTH: Final = struct.Struct("<I")
_SKIPPED: Final = 1 << 31
_DEFINITIONS_BYTES: Final = 64 * limits.MIB  # of one producer: a thousand bytes for each id
_INTRODUCTION_BYTES: Final = 16 * limits.KIB
_RULES_READ: Final = 1_000  # settings that changed so often are none
_DEFINE: Final = msgspec.msgpack.Decoder(Define)
_INTRODUCTION: Final = msgspec.msgpack.Decoder(Introduction)


class RedactionRules(msgspec.Struct, frozen=True):
    """Rules by which records and definitions are masked."""

    secrets: bool = True
    personal: bool = False
    patterns: list[str] = []


_RULES: Final = msgspec.msgpack.Decoder(RedactionRules)


@dataclass(frozen=True)
class Definitions:
    """The definitions of a producer before masking. Without rules they can't be masked, and there are none."""

    rules: RedactionRules | None
    records: list[bytes]


def read_definitions(path: str) -> Definitions:
    """Read the definitions beside a ring. Return none of them if they are missing or can't be read."""
    try:
        data = _read(path, _DEFINITIONS_BYTES)
    except OSError:
        return Definitions(None, [])
    rules, records = None, []
    for entry in split_entries(data, _RULES_READ + limits.PRODUCER_IDS):
        if _is_map(entry):
            try:
                rules = _RULES.decode(entry)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return Definitions(None, [])
        elif _is_definition(entry):
            records.append(entry)
    return Definitions(rules, records if rules is not None else [])


def read_introduction(path: str) -> Introduction | None:
    """Return what a producer has written beside its ring to introduce itself, or None if there is nothing.

    The ring itself is not opened. Raise OSError if the file can't be read now. A file that is missing or of another
    user says nothing.
    """
    try:
        first = next(split_entries(_read(path, _INTRODUCTION_BYTES), 1), b"")
        return _INTRODUCTION.decode(first)
    except (FileNotFoundError, PermissionError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _read(path: str, most: int) -> bytes:
    """Read the file of definitions beside a ring, up to so many bytes. Raise OSError."""
    with open(open_private(path.removesuffix(RING_SUFFIX) + DEFINITIONS_SUFFIX), "rb") as file:
        return file.read(min(os.fstat(file.fileno()).st_size, most))


def open_private(path: str) -> int:
    """Open a regular file that belongs to this user alone. Raise OSError for any other."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    facts = os.fstat(fd)
    if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077:
        return fd
    os.close(fd)
    raise OSError(errno.EPERM, "it is not a file of this user alone", path)


def split_entries(data: bytes, most: int) -> Iterator[bytes]:
    """Yield at most so many entries: a length and the bytes. Ends at an entry that is cut off."""
    at = 0
    for _ in range(most):
        if at + LENGTH.size > len(data):
            return
        (size,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        if size & _SKIPPED:  # no bytes of it were kept
            continue
        if size > len(data) - at:
            return
        yield data[at : at + size]
        at += size


def _is_map(entry: bytes) -> bool:
    return bool(entry) and (entry[0] & 0xF0 == 0x80 or entry[0] in (0xDE, 0xDF))


def _is_definition(entry: bytes) -> bool:
    try:
        _DEFINE.decode(entry)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True

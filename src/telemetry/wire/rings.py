"""Names of the files of a ring, and the introduction in them, for an aggregator that missed the hello."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.wire.control import Hello

RING_SUFFIX: Final = ".ring"
DEFINITIONS_SUFFIX: Final = ".defs"
"""Suffixes of the names of the two files of a producer."""


class Introduction(Struct, array_like=True, frozen=True, tag="introduction"):
    """The hello of a producer, and the address to which it goes."""

    hello: Hello
    endpoint: str
    namespaces: str
    """Namespaces of the system in which the address has its meaning; empty if unknown."""

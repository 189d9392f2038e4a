"""Checksums of the C sources, by which a module that was compiled from other sources is not used."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import ModuleType

import pytest

from telemetry.aggregator import compiled
from telemetry.client import native_module


@pytest.mark.parametrize(("holder", "folder"), [(compiled, "."), (native_module, "native")])
def test_the_checksum_is_that_of_the_sources(holder: ModuleType, folder: str) -> None:
    """The stored checksum is that of the C sources.

    An editor of the C code writes the new checksum beside it, and installs again.
    """
    home = Path(str(holder.__file__)).parent / folder
    sources = sorted(home.glob("*.[ch]"))
    crc = zlib.crc32(b"".join(path.read_bytes() for path in sources))
    assert crc == holder.SOURCE_CRC, f"{home} has changed: SOURCE_CRC is now 0x{crc:08X}; install again"

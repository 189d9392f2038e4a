"""Signs that processes of a command leave about their captures, in a file of the run directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from telemetry.integrations.capture.boot_module import BOOT

SIGNS: Final = "capture.log"


@dataclass
class Signs:
    """The signs of a run so far."""

    booted: int = 0
    """Number of Python processes that started with the captures."""
    hooked: set[str] = field(default_factory=set)
    """Captures that a process installed, since it imported the library."""
    absent: dict[str, str] = field(default_factory=dict)
    """Captures that failed because telemetry is not installed: name → path of that Python."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Captures that failed because the program has a module named telemetry: name → path of that module."""
    failed: list[str] = field(default_factory=list)
    """Reasons of other failures."""


def read_signs(directory: str) -> Signs:
    """Read the file of signs. Return no signs if there is no file."""
    signs = Signs()
    try:
        text = (Path(directory) / SIGNS).read_bytes()[: BOOT.SIGNS_BYTES].decode(errors="replace")
    except OSError:
        return signs
    for line in text.splitlines():
        _pid, _, rest = line.partition(" ")
        word, _, detail = rest.partition(" ")
        if word == "booted":
            signs.booted += 1
        elif word == "hooked":
            signs.hooked.add(detail)
        elif word == "absent":
            name, _, python = detail.partition(" ")
            signs.absent.setdefault(name, python)
        elif word == "hidden":
            name, _, path = detail.partition(" ")
            signs.hidden.setdefault(name, path)
        elif word == "failed" and detail not in signs.failed:
            signs.failed.append(detail)
    return signs

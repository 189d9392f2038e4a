"""Signs that processes of a command leave about their captures, in a file of the run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from telemetry.common.files import read_file
from telemetry.common.formatting import listed
from telemetry.integrations.capture.boot_module import BOOT

SIGNS: Final = "capture.log"


@dataclass
class Signs:
    """The signs of a run so far."""

    wanted: list[str] = field(default_factory=list)
    """Captures of the command line."""
    booted: int = 0
    """Number of Python processes that started with the captures."""
    hooked: dict[str, list[str]] = field(default_factory=dict)
    """Captures that were installed since a process imported the library: name → such processes."""
    absent: dict[str, str] = field(default_factory=dict)
    """Captures that failed because telemetry is not installed: name → path of that Python."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Captures that failed because the program has a module named telemetry: name → path of that module."""
    failed: list[str] = field(default_factory=list)
    """Reasons of other failures."""


def not_imported(names: Sequence[str]) -> str:
    """Say that no process imported the libraries of these captures, and what to do."""
    return (
        f"no Python process that the capture reached imported {listed(names, len(names))}; check that the program "
        "can import the library and uses it, or choose another one: telemetry capture list"
    )


def read_signs(directory: str) -> Signs:
    """Read the file of signs. Return no signs if there is no file."""
    signs = Signs()
    try:
        text = read_file(Path(directory) / SIGNS, 2 * BOOT.SIGNS_BYTES).decode(errors="replace")
    except OSError:
        return signs
    for line in text.splitlines():
        pid, _, rest = line.partition(" ")
        word, _, detail = rest.partition(" ")
        if word == "wanted":
            signs.wanted = detail.split(",")
        elif word == "booted":
            signs.booted += 1
        elif word == "hooked":
            name, _, program = detail.partition(" ")
            signs.hooked.setdefault(name, []).append(f"{program or 'a program'} (process {pid})")
        elif word == "absent":
            name, _, python = detail.partition(" ")
            signs.absent.setdefault(name, python)
        elif word == "hidden":
            name, _, path = detail.partition(" ")
            signs.hidden.setdefault(name, path)
        elif word == "failed" and detail not in signs.failed:
            signs.failed.append(detail)
    return signs

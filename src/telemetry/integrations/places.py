"""Where a sender listens whose address is not known beforehand: a file that a pattern describes."""

from __future__ import annotations

import glob
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from telemetry import limits
from telemetry.transport.endpoints import IPC, refuses

_PATIENCE_S: Final = 30.0


def is_pattern(address: str) -> bool:
    return address.startswith(IPC) and glob.has_magic(address)


def listening(patterns: Sequence[str]) -> list[str]:
    """The ipc addresses that match and that somebody listens at, the newest first. Asks each of the newest few."""
    found: dict[str, float] = {}
    for pattern in patterns:
        for path in glob.iglob(pattern.removeprefix(IPC)):
            try:
                found[f"{IPC}{path}"] = os.stat(path).st_mtime
            except OSError:  # it has just gone
                continue
    newest = sorted(found, key=lambda address: (found[address], address), reverse=True)
    return [address for address in newest[: limits.FEED_PLACES] if not refuses(address)]


def await_listening(
    patterns: Sequence[str], over: Callable[[], bool], say: Callable[[str], object], look_s: float = 0.1
) -> str:
    """The newest address that somebody listens at. Blocks until there is one; empty if it is `over` before."""
    patient_until_s = time.monotonic() + _PATIENCE_S
    while not (found := listening(patterns)):
        if over():
            return ""
        if time.monotonic() >= patient_until_s:
            patient_until_s = math.inf
            say(f"nobody listens at {' or '.join(patterns)} yet; still waiting")
        time.sleep(look_s)
    if len(found) > 1:
        say(f"{len(found):,} senders are there; this is the newest of them")
    return found[0]

"""Facts of the machine that do not change during a run."""

from __future__ import annotations

import os
import platform
import re
import socket
from pathlib import Path
from typing import Final

from telemetry.common.formatting import printable, size

_MODEL: Final = re.compile(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", re.MULTILINE)
_MEMORY: Final = re.compile(r"^MemTotal:\s*(\d+) kB$", re.MULTILINE)
_NAME: Final = re.compile(r'^PRETTY_NAME="?([^"\n]*)"?$', re.MULTILINE)
_DRIVER: Final = re.compile(r"Kernel Module\D*([\d.]+)")
_KIB: Final = 1024


def facts() -> dict[str, str]:
    """Return name → value for what is known."""
    memory = _found(_MEMORY, _text("/proc/meminfo"))
    values = {
        "host": socket.gethostname(),
        "os": _found(_NAME, _text("/etc/os-release")) or platform.system(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _found(_MODEL, _text("/proc/cpuinfo")) or platform.processor(),
        "cpus": str(_cpus()),
        "memory": size(int(memory) * _KIB) if memory else "",
        "nvidia_driver": _found(_DRIVER, _text("/proc/driver/nvidia/version")),
    }
    return {name: printable(value) for name, value in values.items() if value}


def _cpus() -> int:
    """Return the number of CPUs that processes of this user may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1].strip() if match else ""

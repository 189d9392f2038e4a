"""Measures the gateway: `python -m benchmarks.gateway [--tiny]`.

First requests of `wrk`: a bare application that answers a constant, then the gateway, in turn, round after round.
Then steps of 50 metrics from Python clients over kept-alive connections, without a backend and with TensorBoard.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final

from benchmarks.forms import tiny_asked
from benchmarks.gateway import requests, steps

_TOOL: Final = "wrk"


def main() -> int:
    tiny = tiny_asked("Measure the gateway, beside a bare application on the same server.")
    if shutil.which(_TOOL) is None:
        print(f"{_TOOL} is not installed: apt-get install -y {_TOOL}", file=sys.stderr)
        return 2
    print(f"{os.cpu_count()} CPUs, load {load()} before\n")
    requests.show(rounds=1 if tiny else 3, seconds=1 if tiny else 6)
    print()
    steps.show(count=5 if tiny else 200, tiny=tiny)
    print(f"\nload {load()} after")
    return 0


def load() -> str:
    """Return the load average of the last minute."""
    return f"{os.getloadavg()[0]:.2f}"


if __name__ == "__main__":
    sys.exit(main())

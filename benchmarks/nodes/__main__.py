"""What a run on many nodes costs, in one table: `python -m benchmarks.nodes`. About four minutes on two cores.

Each line states its setting. `benchmarks.stragglers` has the figures of slow ranks.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from benchmarks.nodes import fan_in, leaf_share
from telemetry.store.records import record_line
from telemetry.testing.slow_ranks import SimulatedRanks
from telemetry.wire.events import StreamRecord
from telemetry.wire.version import PROTOCOL

_SECONDS: Final = 30
_LEAVES: Final = 1_250
_RELAYS: Final = 36
_BEHIND: Final = 278
_RANKS: Final = 8
_RANKED: Final = 1_024
_ROOT: Final = {
    "root, % of a core": "% of a core",
    "root, MiB": "MiB at most",
    "snapshots a second at the viewer": "snapshots a second at the viewer",
    "end to result, s": "s from the end to the result",
}


def record_bytes() -> float:
    """Return the bytes in the record log of the work and the wait of one rank in one step."""
    (step,) = SimulatedRanks(ranks=_RANKED).steps(1)
    return len(record_line(StreamRecord(PROTOCOL, "r" * 32, 0, "", 1, step.closed()))) / _RANKED


def main() -> int:
    print(f"load {os.getloadavg()[0]:.2f} before\n")
    print("| setting | figure | value |\n|---|---|---|")
    one_level = f"root, {_LEAVES:,} leaves, 26 gauges and a step a second of {_RANKS} ranks each, 10 Hz, one viewer"
    relayed = f"root, {_RELAYS} relays that each send what {_BEHIND} such nodes would"
    for setting, leaves, behind in ((one_level, _LEAVES, 1), (relayed, _RELAYS, _BEHIND)):
        figures = fan_in.measure(fan_in.usual(1, _RANKS, behind), leaves, _SECONDS)
        for name, unit in _ROOT.items():
            print(f"| {setting} | {unit} | {figures[name]:.1f} |", flush=True)
    a_step = f"work and wait of a rank in a step of {_RANKED:,} ranks"
    print(f"| {a_step} | bytes in the record log | {record_bytes():.1f} |")
    for name, share in leaf_share.measure(2 * _SECONDS).items():
        print(f"| two ranks, 26 gauges, a step a second | {name} | {share:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

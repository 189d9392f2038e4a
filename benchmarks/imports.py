"""What `import telemetry` costs and brings along."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from benchmarks.harness import Figure, Outcome, Round, Size, best, median, paired_ratio, rotated, summary

OURS: Final = "import telemetry"
EMIT: Final = "import telemetry; telemetry.start"
HEAVY: Final = ("numpy", "asyncio", "textual", "rich", "hdrh")
_PEERS: Final = {
    "import prometheus_client": "import prometheus_client",
    "import opentelemetry.sdk.metrics": "import opentelemetry.sdk.metrics",
    "import datadog": "import datadog",
}
_STATEMENTS: Final = {OURS: OURS, EMIT: "import telemetry; telemetry.start", **_PEERS}
_ROUNDS: Final[dict[Size, int]] = {"full": 15, "quick": 5, "tiny": 1}
_PROBE: Final = """
import sys, time
wall, cpu = time.perf_counter_ns(), time.process_time_ns()
{statement}
wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
print(wall / 1e6, cpu / 1e6, *[name for name in {heavy!r} if name in sys.modules])
"""


def probe(statement: str) -> Round:
    """Milliseconds of a statement in a fresh interpreter, and the heavy modules it loaded."""
    code = _PROBE.format(statement=statement, heavy=HEAVY)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall, cpu, *heavy = answer.stdout.split()
    return {"wall_ms": float(wall), "cpu_ms": float(cpu), "heavy": heavy}


def run(size: Size) -> Outcome:
    rounds: dict[str, list[Round]] = {name: [] for name in _STATEMENTS}
    for statement in _STATEMENTS.values():
        probe(statement)  # writes the bytecode
    for turn in range(_ROUNDS[size]):
        for name in rotated(list(_STATEMENTS), turn):
            rounds[name].append(probe(_STATEMENTS[name]))
    peer = best({name: rounds[name] for name in _PEERS}, "cpu_ms")
    figures = [
        Figure(
            f"`{name}`",
            median(rounds[name], "cpu_ms"),
            "ms CPU",
            peer=peer,
            peer_value=median(rounds[peer], "cpu_ms"),
            ratio=paired_ratio(rounds[name], rounds[peer], "cpu_ms"),
        )
        for name in (OURS, EMIT)
    ]
    figures += [
        Figure(f"`{name}`: of {', '.join(HEAVY)} loaded", len(rounds[name][0]["heavy"]), "modules", 0.0)
        for name in (OURS, EMIT)
    ]
    keys = ("wall_ms", "cpu_ms")
    measurements = {name: summary(taken, keys) | {"heavy": taken[0]["heavy"]} for name, taken in rounds.items()}
    return Outcome(figures, measurements)

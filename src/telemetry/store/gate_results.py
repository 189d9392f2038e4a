"""`gates.json` in a run directory: the results of the gates given to `telemetry run`.

`ending_gate.json` is there earlier: it has the gate that ends the command, as soon as it does. `gates_so_far.json`
has the results of a run that goes on, for viewers. It is removed when `gates.json` comes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from telemetry.store.sealed_json import read_json, write_json
from telemetry.wire.gates import GateResult
from telemetry.wire.version import SCHEMA

GATES: Final = "gates.json"
ENDING_GATE: Final = "ending_gate.json"
GATES_SO_FAR: Final = "gates_so_far.json"


class _GatesFile(Struct, kw_only=True, frozen=True):
    schema_version: int = SCHEMA
    gates: list[GateResult] = []


def write_gates(directory: Path, results: list[GateResult]) -> Path:
    """Write the results and return the path of the file. Raises as `write_json`."""
    path = directory / GATES
    write_json(path, _GatesFile(gates=results))
    with suppress(OSError):  # readers prefer the results
        (directory / GATES_SO_FAR).unlink(missing_ok=True)
    return path


def write_gates_so_far(directory: Path, results: list[GateResult]) -> None:
    """Write the results of a run that goes on. Raises as `write_json`."""
    write_json(directory / GATES_SO_FAR, _GatesFile(gates=results), durable=False)


def read_gates_so_far(directory: Path) -> list[GateResult]:
    """Return the gate results of a run that goes on; empty if there are none. Raises as `read_json`."""
    content = read_json(directory / GATES_SO_FAR, _GatesFile)
    return content.gates if content is not None else []


def read_gates(directory: Path) -> list[GateResult]:
    """Return the gate results of a run; empty if it had no gates. Raises as `read_json`."""
    content = read_json(directory / GATES, _GatesFile)
    return content.gates if content is not None else []


def write_ending_gate(directory: Path, result: GateResult) -> None:
    """Write the gate that ends the command. Raises as `write_json`."""
    write_json(directory / ENDING_GATE, _GatesFile(gates=[result]))


def read_ending_gate(directory: Path) -> GateResult | None:
    """Return the gate that ends the command; None if there is none. Raises as `read_json`."""
    content = read_json(directory / ENDING_GATE, _GatesFile)
    return content.gates[0] if content is not None and content.gates else None

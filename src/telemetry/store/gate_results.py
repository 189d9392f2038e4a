"""`gates.json` in a run directory: the results of the gates given to `telemetry run`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from telemetry.store.sealed_json import read_json, write_json
from telemetry.wire.gates import GateResult
from telemetry.wire.version import SCHEMA

GATES: Final = "gates.json"


class _File(Struct, kw_only=True, frozen=True):
    schema_version: int = SCHEMA
    gates: list[GateResult] = []


def write_gates(directory: Path, results: list[GateResult]) -> Path:
    """Write the results and return the path of the file. Raises as `write_json`."""
    path = directory / GATES
    write_json(path, _File(gates=results))
    return path


def read_gates(directory: Path) -> list[GateResult]:
    """Return the gate results of a run; empty if it had no gates. Raises as `read_json`."""
    content = read_json(directory / GATES, _File)
    return content.gates if content is not None else []

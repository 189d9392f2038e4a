"""`gates.json` in a run directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.gate_results import GATES, read_gates, write_gates
from telemetry.wire.gates import GateResult

RESULTS = [
    GateResult(expression="lost == 0", outcome="pass", reason="0 == 0", value=0.0, limit=0.0),
    GateResult(expression="p99(x) < 1ms", outcome="fail", reason="no", windows=3, windows_failed=1, start_s=0.0),
]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    """Gate results read back as they were written, from strict JSON with a schema version."""
    assert write_gates(tmp_path, RESULTS) == tmp_path / GATES
    assert read_gates(tmp_path) == RESULTS
    assert json.loads((tmp_path / GATES).read_text())["schema_version"] == 1


def test_a_run_without_gates_has_none(tmp_path: Path) -> None:
    """A run without gates has no results, which is no error."""
    assert read_gates(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is damaged"), ('{"gates": 5}', "is damaged"), ('{"schema_version": 99}', "has schema version 99")],
)
def test_a_file_that_can_t_be_read_says_why(tmp_path: Path, text: str, said: str) -> None:
    """Damaged, or of a newer version."""
    (tmp_path / GATES).write_text(text)
    with pytest.raises(RunDirectoryError, match=said):
        read_gates(tmp_path)


def test_files_that_are_not_to_be_had(tmp_path: Path) -> None:
    """A file that can't be read or written is an error."""
    (tmp_path / GATES).mkdir()
    with pytest.raises(RunDirectoryError, match="can't read"):
        read_gates(tmp_path)
    with pytest.raises(RunDirectoryError, match="can't write"):
        write_gates(tmp_path / "nowhere", RESULTS)

"""Tests of the place where the MLflow backend writes, before MLflow is asked.

Tests of what it writes are in tests/backends/test_mlflow.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.backends.backend import NotConfigured
from telemetry.backends.choice import make, parse


def test_where_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, then the environment, then a database in the writer's folder; never a folder of files."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert make(parse("mlflow"), tmp_path).state()["uri"] == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@host:5000/base")
    made = make(parse("mlflow"), tmp_path)
    assert made.state()["uri"] == "https://host:5000/base"
    assert made.where() == ""
    for uri in ("./mlruns", "file:///mlruns"):
        with pytest.raises(NotConfigured, match="is a file store"):
            make(parse(f"mlflow:uri={uri}"), tmp_path)
    state = {"uri": "https://other"}
    with pytest.raises(NotConfigured, match="started with https://other"):
        made.open(None, state)  # type: ignore[arg-type]

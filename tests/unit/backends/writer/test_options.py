"""Tests of the way from a command line to a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.backends.doubles import ListBackend

from telemetry.backends.sources.source import Position
from telemetry.backends.writer.options import order
from telemetry.errors import ConfigError, UsageError
from telemetry.store.run_directory import Manifest, RunDirectory


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = RunDirectory.create(tmp_path / "runs", "job", "r1", 10**18)
    made.write_manifest(Manifest(run_id="r1", name="job", started_ns=10**18))
    return made.path


def test_a_run_that_nobody_has_is_read_from_its_directory(run: Path) -> None:
    """A run without an aggregator is read from its directory, also if its address is given."""
    for endpoint in ("", f"ipc://{run}/gone"):
        made = order("jsonl:as=x", run, endpoint, 2.0)
        assert (made.to, made.run, made.every_s) == ("jsonl:as=x", run, 2.0)
        assert (made.connect is None) == (not endpoint)
        source = made.source(ListBackend(), Position())
        assert (source.run.run_id, source.run.directory) == ("r1", run)
        source.close()


def test_what_is_wrong_is_said_before_anything_is_read(run: Path) -> None:
    """A backend that nobody has, settings that can't be."""
    with pytest.raises(UsageError, match="did you mean jsonl"):
        order("jsnl", run, "", None)
    Path("telemetry.toml").write_text("[backends]\nevery = 1\n")
    with pytest.raises(ConfigError, match=r"backends\.every"):
        order("jsonl", run, "", None)


def test_a_directory_that_is_none_is_said(tmp_path: Path) -> None:
    """A directory of no run is an error if there is no address, as there is nothing to read."""
    with pytest.raises(UsageError, match="an address or a directory"):
        order("jsonl", tmp_path, "", None).source(ListBackend(), Position())

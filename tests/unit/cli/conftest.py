"""A working directory for the reading commands, and runs that have ended in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.store.final_snapshot import write_final
from telemetry.store.journal import JournalWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.wire.snapshot import Accounting, CommandFacts, CounterStat, MetricsSnapshot, SeriesStat

STARTED_NS = 1_772_366_400_000_000_000


@pytest.fixture
def root(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory has a runtime directory of its own; run directories go to `runs` in it."""
    monkeypatch.chdir(short_dir)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_dir))
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    return short_dir / "runs"


@pytest.fixture
def make_run(root: Path) -> Callable[..., RunDirectory]:
    """`make_run(name, run_id, ended=True, completeness="complete", journal=False, series=(), counters=(),
    command=None)` leaves a run directory."""

    def make(
        name: str,
        run_id: str,
        *,
        ended: bool = True,
        completeness: str = "complete",
        journal: bool = False,
        series: Sequence[SeriesStat] = (),
        counters: Sequence[CounterStat] = (),
        command: CommandFacts | None = None,
    ) -> RunDirectory:
        directory = RunDirectory.create(root, name, run_id, STARTED_NS)
        directory.write_manifest(manifest_for(directory, name, run_id, ["x"], "ipc:///nowhere"))
        if ended:
            final = _final(name, run_id, completeness, directory)
            write_final(
                replace(
                    final,
                    series=list(series),
                    counters=[*final.counters, *counters],
                    command=command or final.command,
                ),
                [directory.final],
            )
        if journal:
            JournalWriter(directory.journal, b"state", 1).close()
        return directory

    return make


def _final(name: str, run_id: str, completeness: str, directory: RunDirectory) -> MetricsSnapshot:
    return MetricsSnapshot(
        run_id=run_id,
        name=name,
        state="COMPLETE",
        completeness=completeness,  # type: ignore[arg-type]
        started_ns=STARTED_NS,
        accounting=Accounting(emitted=7, received=7, applied=7),
        counters=[CounterStat(name="requests", value=7, events=7)],
        directory=str(directory.path),
    )

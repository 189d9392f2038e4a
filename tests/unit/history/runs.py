"""Run directories as an aggregator leaves them, of values that a test knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.history.run import RecordedRun, open_run
from telemetry.store.final_snapshot import write_final
from telemetry.store.history import RETENTION_S, HistoryWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import End, Hello
from telemetry.wire.events import Define, EventRecord
from telemetry.wire.snapshot import MetricsSnapshot

SECOND = 1_000_000_000
PERCENTILES = ("50", "90", "99", "99.9")
Row = tuple[int, float]
"""(id of a definition, value)"""


@dataclass
class Making:
    """`rows`: what is recorded in each second, or None for a second that the history knows nothing of."""

    root: Path
    definitions: Sequence[EventRecord] = (Define(0, "latency", "series", "ms"),)
    percentiles: tuple[str, ...] = PERCENTILES
    retention_s: Mapping[int, float | None] = field(default_factory=lambda: RETENTION_S)
    seconds_ns: Sequence[int] = ()
    """How long each second takes; default a second."""
    is_timed: bool = False
    """True if the events of a second are spread evenly over it; else all have the time of the run's start."""
    close: bool = True
    """Whether the history gets its last roll-ups."""

    def run(self, rows: Sequence[Sequence[Row] | None], **facts: object) -> RecordedRun:
        """The run as it is read from its files."""
        self.write(rows, **facts)
        return open_run("job", self.root)

    def write(self, rows: Sequence[Sequence[Row] | None], **facts: object) -> MetricsSnapshot:
        directory = RunDirectory.create(self.root, "job", "aaaa1111", WALL_NS)
        directory.write_manifest(manifest_for(directory, "job", "aaaa1111", [], ""))
        aggregator = Aggregator(AggregatorConfig(percentiles=self.percentiles, window_s=3))
        aggregator.hello(Hello(producer="p", name="p"), MONO_NS, WALL_NS)
        history = HistoryWriter(directory.history, self.retention_s)
        wall_ns, first = WALL_NS, 0
        for number, of_second in enumerate(rows):
            lasted_ns = self.seconds_ns[number] if self.seconds_ns else SECOND
            sent = batch(
                seq=number,
                first=first,
                records=self.definitions if number == 0 else (),
                rows=[
                    (row, mono_ns, value)
                    for (row, value), mono_ns in zip(
                        of_second or (), self._times(wall_ns, lasted_ns, len(of_second or ())), strict=True
                    )
                ],
            )
            first += len(of_second or ())
            since_ns = wall_ns + lasted_ns - WALL_NS if self.is_timed else 0
            aggregator.admit(sent, MONO_NS + since_ns)
            aggregator.apply([sent], MONO_NS + since_ns, WALL_NS + since_ns if self.is_timed else wall_ns)
            interval = aggregator.roll(wall_ns, wall_ns + lasted_ns, lasted_ns)
            wall_ns += lasted_ns
            if of_second is not None:
                history.append(interval, aggregator.keys(), number)
        if self.close:
            history.close()
        aggregator.end(End(producer="p", batches=len(rows), emitted=first), MONO_NS)
        elapsed_ns = wall_ns - WALL_NS
        said: dict[str, object] = {"run_id": "aaaa1111", "name": "job", "state": "COMPLETE"}
        said |= {"started_ns": WALL_NS, "started_mono_ns": MONO_NS, "directory": str(directory.path)} | facts
        snapshot = aggregator.snapshot(SnapshotFacts(**said), MONO_NS + elapsed_ns, wall_ns)  # type: ignore[arg-type]
        write_final(snapshot, [directory.final])
        return snapshot

    def _times(self, wall_ns: int, lasted_ns: int, events: int) -> list[int]:
        if not self.is_timed:
            return [MONO_NS] * events
        start_ns = MONO_NS + wall_ns - WALL_NS
        return [start_ns + lasted_ns * (2 * event + 1) // (2 * events) for event in range(events)]

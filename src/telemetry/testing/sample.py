"""A finished sample run with all kinds of records, in a directory like an aggregator's, created at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.store.final_snapshot import write_final
from telemetry.store.history import HistoryWriter
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.testing.builders import MONO_NS, WALL_NS, batch
from telemetry.wire.control import Hello
from telemetry.wire.events import (
    Artifact,
    Bins,
    ClosedStep,
    Define,
    Mark,
    Note,
    Params,
    Scalar,
    Span,
    Spread,
    Streamed,
    StreamRecord,
    Table,
)
from telemetry.wire.version import PROTOCOL

RUN_ID: Final = "5a3p1e00"
NAME: Final = "sample"
EVERY_S: Final = 2
"""Seconds between readings, for the counts in `SampleRun.items`."""
PARAMS: Final[dict[str, Scalar]] = {"lr": 0.25, "layers": 4, "opt": "adam", "warm": True, "größe": "π"}
NAMES: Final = ("eval/loss", "p99%", "a=b@c{d}", "ü/π 火", "a b")
"""Names on the axis `prüf`."""
NOT_FINITE: Final = ("prüf", 7, "not/finite")
"""Axis, step and name of a value that was NaN or infinite."""

_SECONDS: Final = 20
_SECOND: Final = 1_000_000_000
_EVERY_NTH: Final = 20  # steps of `train` for each step of `prüf`
_PERCENTILES: Final = ("50", "99")
_DEFINITIONS: Final = (
    Define(0, "latency", "series", "ms", {"route": "/a"}),
    Define(1, "requests", "counter"),
    Define(2, "load", "gauge"),
)
_PNG: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)


@dataclass
class SampleRun:
    """The expected content of the run, in terms of a backend's items."""

    path: Path
    """Path of the run directory."""
    steps: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """(axis, step) → name → newest value, only finite ones. All are exact in 32 bits."""
    corrected: int = 0
    """Number of values that replace others."""
    items: dict[str, int] = field(default_factory=dict)
    """Kind of item → count. The result counts as a reading."""

    @property
    def values(self) -> int:
        return sum(map(len, self.steps.values()))


def value(step: int, number: int) -> float:
    """Return the value of `train/v{number}` in a step."""
    return step + number / 8


def record_run(root: Path, *, steps: int = 200, names: int = 0) -> SampleRun:
    """Create the run in a directory below `root`. Blocks for a tenth of a second.

    `names`: number of values in a step of the axis `wide`, called `wide/0`, ….
    """
    directory = RunDirectory.create(root, NAME, RUN_ID, WALL_NS)
    config = {"run": {"percentiles": list(_PERCENTILES)}}
    directory.write_manifest(manifest_for(directory, NAME, RUN_ID, [], "", config=config))
    sample = SampleRun(directory.path)
    log = RecordLog(directory.records)
    records = list(_records(root, steps, names))
    for at, record in enumerate(records):
        wall_ns = WALL_NS + at * _SECONDS * _SECOND // len(records)
        log.append([StreamRecord(PROTOCOL, RUN_ID, at, "p", wall_ns, record)])
        _expect(sample, record)
    log.close()
    _instruments(directory)
    sample.items["reading"] = _SECONDS // EVERY_S + 1
    return sample


# --- helpers -----------------------------------------------------------------------------------------


def _records(root: Path, steps: int, names: int) -> Iterator[Streamed]:
    yield Params(PARAMS)
    for step in range(steps):
        yield ClosedStep("train", step, {f"train/v{number}": value(step, number) for number in range(4)})
        if step % _EVERY_NTH == 0:
            eighths = {name: step + number / 8 for number, name in enumerate(NAMES)}
            yield ClosedStep("prüf", step, dict(eighths), {"eval/loss": Spread(2, 0.0, 9.0, 4.5, "p", "q")})
        if step == steps // 2:
            yield from _others(root, step)
    axis, at, name = NOT_FINITE
    yield ClosedStep(axis, at, {name: None, "eval/loss": 0.5})
    yield ClosedStep("train", steps - 1, {"train/v0": -1.0}, closed="late", revision=1)
    if names:
        yield ClosedStep("wide", 1, {f"wide/{number}": float(number) for number in range(names)})


def _others(root: Path, step: int) -> Iterator[Streamed]:
    picture = root / "picture.png"
    picture.write_bytes(_PNG)
    at: dict[str, Any] = {"axis": "train", "step": step}
    yield Mark("halfway", labels={"rank": "0"})
    yield Note("said", "# Hello\n\n*there* ü", **at)
    yield Table("best", ["name", "a|b"], [["x|y", 1], [None, 2.5]], **at)
    yield Bins("weights", [-1.0, 0.0, 1.0, 4.0], [1, 0, 5], **at)
    yield Artifact("plot", str(picture), "image", **at)
    yield Artifact("model", "s3://bucket/model 1.bin", "model", **at)
    yield Span("forward", MONO_NS, MONO_NS + _SECOND, "gpu 0", {"layer": "3"})
    yield Span("save", MONO_NS, MONO_NS + 2 * _SECOND)


_KINDS: Final[dict[type, str]] = {
    ClosedStep: "step",
    Params: "params",
    Mark: "mark",
    Note: "text",
    Table: "table",
    Bins: "histogram",
    Artifact: "artifact",
    Span: "span",
}


def _expect(sample: SampleRun, record: Streamed) -> None:
    kind = _KINDS[type(record)]
    sample.items[kind] = sample.items.get(kind, 0) + 1
    if isinstance(record, ClosedStep):
        step_values = sample.steps.setdefault((record.axis, record.step), {})
        sample.corrected += len(step_values.keys() & record.values.keys())
        step_values |= {name: number for name, number in record.values.items() if number is not None}


def _instruments(directory: RunDirectory) -> None:
    """Write history and result."""
    numbers = Aggregator(AggregatorConfig(percentiles=_PERCENTILES, window_s=3))
    numbers.hello(Hello(producer="p", name="p"), MONO_NS, WALL_NS)
    history = HistoryWriter(directory.history)
    wall_ns = WALL_NS
    for second in range(_SECONDS):
        rows = [(0, MONO_NS, 1.0 + second), (0, MONO_NS, 20.0), (1, MONO_NS, 2.0), (2, MONO_NS, second / 4)]
        sent = batch(seq=second, first=second * len(rows), records=() if second else _DEFINITIONS, rows=rows)
        numbers.admit(sent, MONO_NS)
        numbers.apply([sent], MONO_NS, wall_ns)
        history.append(numbers.roll(wall_ns, wall_ns + _SECOND, _SECOND), numbers.keys(), second)
        wall_ns += _SECOND
    history.close()
    facts = SnapshotFacts(
        run_id=RUN_ID,
        name=NAME,
        epoch="e1",
        state="COMPLETE",
        seq=_SECONDS,
        started_ns=WALL_NS,
        started_mono_ns=MONO_NS,
        directory=str(directory.path),
    )
    write_final(numbers.snapshot(facts, MONO_NS + wall_ns - WALL_NS, wall_ns), [directory.final])

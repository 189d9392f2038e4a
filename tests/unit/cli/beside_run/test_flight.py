"""The flight recorder beside a run: what makes it write, and how often."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace
from tests.trace_checker import problems

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.cli.beside_run.flight import FOLDER, FlightRecorder, flight_seconds
from telemetry.cli.beside_run.participants import BegunRun
from telemetry.config.schema import Config, JournalConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import UsageError
from telemetry.store.journal import JournalWriter, segment_files
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import FakeClock, frame
from telemetry.wire.events import Define
from telemetry.wire.gates import GateResult
from telemetry.wire.journal import RunState
from telemetry.wire.report import Report
from telemetry.wire.snapshot import (
    Accounting,
    CommandFacts,
    MarkStat,
    MetricsSnapshot,
    NodeStat,
    ProducerStat,
    ProducerStatus,
)

if TYPE_CHECKING:
    from telemetry.cli.beside_run.gates import RunGates
    from telemetry.cli.wrapped.command import Job


class Flight:
    """A recorder of two seconds beside a run with one value, on a clock that moves on request."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        now_ns, wall_ns = self.clock.monotonic_ns(), self.clock.wall_ns()
        self.directory = RunDirectory.create(root, "job", "r1", wall_ns)
        run = RunState(
            run_id="r1", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        numbers = Numbers(Aggregator(AggregatorConfig()), run)
        journal = JournalWriter(self.directory.journal, numbers.checkpoint(), now_ns)
        book = WriteAheadLog(numbers, journal, self.clock, now_ns)
        define = Define(0, "x", "series")
        book.turn([bytes(frame("p", rows=[(0, now_ns, 5.0)], records=[define], anchor=(now_ns, wall_ns)))])
        journal.close()
        self.lines: list[str] = []
        self.received = 0
        self.gates = SimpleNamespace(failing=[], ended_by=None)
        self.recorder = self.begun(2.0)

    def begun(self, seconds: float | None) -> FlightRecorder:
        """Return a recorder of this run."""
        gates = cast("RunGates", self.gates)
        recorder = FlightRecorder(seconds, self.lines.append, gates, now_ns=self.clock.monotonic_ns)
        recorder.begin(BegunRun("job", "ipc:///run", str(self.directory.path)))
        return recorder

    def look(self, received: int | None = None, status: ProducerStatus = "live", **more: Any) -> None:
        """Show the recorder the snapshot of the next second, which has one more event unless told otherwise."""
        self.gates.failing = more.pop("failing", ())
        self.received = self.received + 1 if received is None else received
        self.recorder.look(snapshot(self.received, status, **more))
        self.clock.advance(1.0)

    def conclude(
        self, command: CommandFacts | None = None, gates: list[GateResult] | None = None, *, by_gate: bool = False
    ) -> None:
        whole = snapshot(1, "ended", command=command or CommandFacts(argv=["x"], exit_code=0))
        report = Report(snapshot=whole, source="status", gates=gates or [])
        self.gates.ended_by = gates[0] if by_gate and gates else None
        self.recorder.accompany(cast("Job", SimpleNamespace(ended_ns=self.clock.monotonic_ns())))
        self.recorder.conclude(report)

    @property
    def reasons(self) -> list[str]:
        """Reasons of the recordings, in order. Each is in one line and in one file that the checker accepts."""
        found = [line.partition("(")[2].partition(", last 2 s")[0] for line in self.lines if "(" in line]
        files = sorted((self.directory.path / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        assert [problems(path.read_bytes()) for path in files] == [[] for _ in found]
        assert [json.loads(path.read_bytes())["otherData"]["reason"] for path in files] == found
        return found


def test_figures_of_the_machine_do_not_hide_a_stall(tmp_path: Path) -> None:
    """Collectors record on while the job hangs."""
    flight = Flight(tmp_path)
    for second in range(5):
        whole = snapshot(7, "live")
        collectors = ProducerStat(producer="telemetry.collectors.1", received=second)
        flight.recorder.look(replace(whole, producers=[*whole.producers, collectors]))
        flight.clock.advance(1.0)
    flight.conclude()
    assert flight.reasons == ["no new event for 2 s"]


def snapshot(received: int, status: ProducerStatus, **more: Any) -> MetricsSnapshot:
    producers = [ProducerStat(producer="p", status=status)]
    accounting = Accounting(received=received)
    return MetricsSnapshot(run_id="r1", name="job", producers=producers, accounting=accounting, **more)


def failed(expression: str) -> GateResult:
    return GateResult(expression=expression, outcome="fail", reason="")


@pytest.fixture
def beside(tmp_path: Path) -> Flight:
    return Flight(tmp_path)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (CommandFacts(argv=["x"], signal="SIGKILL"), "killed by SIGKILL"),
        (CommandFacts(argv=["x"], exit_code=3), "exit code 3"),
    ],
)
def test_a_command_that_fails_leaves_a_recording(beside: Flight, command: CommandFacts, reason: str) -> None:
    """One, also if gates fail as well."""
    beside.conclude(command, [failed("value(x) < 5")])
    assert beside.reasons == [reason]


def test_a_command_that_succeeds_leaves_none(beside: Flight) -> None:
    """An inconclusive gate is no failure."""
    beside.look()
    beside.conclude(gates=[GateResult(expression="value(x) < 5", outcome="inconclusive", reason="")])
    assert (beside.reasons, beside.lines) == ([], [])
    assert not (beside.directory.path / FOLDER).exists()


def test_a_gate_is_recorded_when_it_fails_first(beside: Flight) -> None:
    """A gate is recorded when it first fails, not again at the end or for the command that it ended."""
    beside.look()
    beside.look(failing=[failed("value(x) < 5")])
    beside.look(failing=[failed("value(x) < 5")])
    killed = CommandFacts(argv=["x"], signal="SIGTERM")
    beside.conclude(killed, [failed("value(x) < 5"), failed("lost == 0")], by_gate=True)
    assert beside.reasons == ["gate failed: value(x) < 5", "gate failed: lost == 0"]


def test_a_mark_with_the_label_asks_for_a_recording(beside: Flight) -> None:
    """Each mark once, as long as snapshots repeat it; others ask for none."""
    marks = [MarkStat(text="begin", time_ns=1), MarkStat(text="loss is NaN", time_ns=2, labels={"flight": "dump"})]
    beside.look()
    beside.look(marks=marks)
    beside.look(marks=marks)
    marks = [*marks, MarkStat(text="loss is NaN", time_ns=3, labels={"flight": "dump"})]
    beside.look(marks=marks)
    beside.conclude()
    assert beside.reasons == ['mark "loss is NaN"', 'mark "loss is NaN"']


def test_a_stall_is_recorded_once(beside: Flight) -> None:
    """A stall is recorded once, with the seconds before it.

    New events end it, and none is before the first event.
    """
    for received in (0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2):
        beside.look(received)
    beside.conclude()
    assert beside.reasons == ["no new event for 2 s"] * 2
    first = min((beside.directory.path / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert json.loads(first.read_bytes())["otherData"]["until_unix_ns"] == (1_700_000_000 + 4) * 10**9


def test_producers_that_have_ended_do_not_stall(beside: Flight) -> None:
    """A command may go on after its last event, to save a model."""
    for _ in range(6):
        beside.look(1, "ended")
    beside.conclude()
    assert beside.reasons == []


@pytest.mark.parametrize(("status", "reasons"), [("live", ["no new event for 2 s"]), ("ended", [])])
def test_a_node_that_goes_on_can_stall(beside: Flight, status: ProducerStatus, reasons: list[str]) -> None:
    """A node that goes on can stall.

    The producers of a node are those of the run, even if none sends to the run directly.
    """
    for _ in range(6):
        beside.look(1, "ended", nodes=[NodeStat(node="n1", status=status)])
    beside.conclude()
    assert beside.reasons == reasons


def test_a_run_has_at_most_ten_recordings(beside: Flight) -> None:
    """The last one is for the end of the command. The first one too many is said, once."""
    for number in range(limits.FLIGHT_RECORDINGS + 3):
        beside.look(marks=[MarkStat(text=f"m{number}", time_ns=number, labels={"flight": "dump"})])
    beside.conclude(CommandFacts(argv=["x"], signal="SIGKILL"))
    marks = [f'mark "m{number}"' for number in range(limits.FLIGHT_RECORDINGS - 1)]
    assert beside.reasons == [*marks, "killed by SIGKILL"]
    assert len([line for line in beside.lines if line.startswith("no more flight recordings")]) == 1


def test_a_fault_is_one_message(beside: Flight) -> None:
    """The run goes on, and later recordings are tried."""
    [segment] = segment_files(beside.directory.journal)
    content = segment.read_bytes()
    segment.unlink()
    beside.look(marks=[MarkStat(text="one", time_ns=1, labels={"flight": "dump"})])
    deadline = time.monotonic() + 30.0
    while not beside.lines:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    segment.write_bytes(content)
    (beside.directory.path / FOLDER).touch()
    beside.conclude(CommandFacts(argv=["x"], exit_code=3))
    assert beside.lines == [
        f'can\'t write a flight recording (mark "one"): there is no journal in {beside.directory.journal}',
        f"can't write a flight recording (exit code 3): File exists: {beside.directory.path / FOLDER}",
    ]


def test_without_the_flag_there_is_no_recorder(beside: Flight) -> None:
    """A run without the flag has no recorder, whatever happens to the command."""
    recorder = beside.begun(None)
    beside.gates.failing = [failed("value(x) < 5")]
    recorder.accompany(cast("Job", SimpleNamespace(ended_ns=1)))
    recorder.look(snapshot(1, "live"))
    killed = snapshot(1, "ended", command=CommandFacts(argv=["x"], signal="SIGKILL"))
    recorder.conclude(Report(snapshot=killed, source="status"))
    assert (beside.reasons, beside.lines) == ([], [])


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("30", 30.0), ("1", 1.0), ("10m", 600.0)])
def test_the_length_is_a_time(text: str, seconds: float) -> None:
    """A length is a time with or without a unit, up to both bounds."""
    assert flight_seconds(text, Config()) == seconds


@pytest.mark.parametrize(
    ("text", "config", "message"),
    [
        ("0.5s", Config(), "--flight-recorder 0.5s is not between 1 s and 10 min"),
        ("-30s", Config(), "--flight-recorder -30s is not between 1 s and 10 min"),
        ("11m", Config(), "--flight-recorder 11m is not between 1 s and 10 min"),
        ("soon", Config(), "--flight-recorder: 'soon' is not a time"),
        (
            "30s",
            Config(journal=JournalConfig(enabled=False)),
            "--flight-recorder reads the journal, and the journal",
        ),
    ],
)
def test_an_unusable_length_is_refused(text: str, config: Config, message: str) -> None:
    """The error names the bounds, or the setting, and says what to write."""
    with pytest.raises(UsageError) as caught:
        flight_seconds(text, config)
    assert caught.value.message.startswith(message)
    assert caught.value.hint

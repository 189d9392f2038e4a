"""Gates beside a run: read before it, looked at while it goes on, answered after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace
from tests.unit.history.runs import Making

from telemetry.cli.beside_run.gates import GateConditions, RunGates, demands, exit_code
from telemetry.cli.beside_run.participants import BegunRun
from telemetry.common.programs import command_key
from telemetry.config.schema import Config, GatesConfig
from telemetry.errors import RunNotFoundError, UsageError
from telemetry.history import RecordedRun
from telemetry.store.calibrations import Calibration, MetricNoise, write_calibration
from telemetry.store.gate_results import read_gates, read_gates_so_far
from telemetry.wire.events import Define
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.cli.wrapped.command import Job

DEFINITIONS = (Define(0, "ttft", "series", "ms"), Define(1, "errors", "counter"))
ROWS = [[*((0, float(value)) for value in range(1, 101)), (1, 1.0)]] * 4


def live(errors: int) -> MetricsSnapshot:
    counter = CounterStat(name="errors", value=errors, events=errors)
    return MetricsSnapshot(run_id="r", name="n", state="LIVE", elapsed_s=1.0, counters=[counter])


class Ear:
    """Hears what is said, and whether the command was told to end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ended = 0

    def end(self) -> None:
        self.ended += 1


def run_gates(*texts: str, abort: bool = False, quiet: bool = False, root: Path = Path()) -> tuple[RunGates, Ear]:
    return begun(demands(texts, Config(), root), abort=abort, quiet=quiet)


def begun(
    asked: GateConditions, directory: str = "", *, abort: bool = False, quiet: bool = False
) -> tuple[RunGates, Ear]:
    """Return the gates of a run whose command has started, and who hears them."""
    ear = Ear()
    gates = RunGates(asked, ear.lines.append, abort=abort, quiet=quiet)
    gates.begin(BegunRun("job", "ipc:///run", directory))
    gates.accompany(cast("Job", ear))
    return gates, ear


def test_a_gate_that_fails_is_said_and_the_command_goes_on() -> None:
    """A gate that fails is reported once and the command goes on. A quiet run reports nothing."""
    made, ear = run_gates("value(errors) < 5")
    for errors in (4, 5, 6):
        made.look(live(errors))
    assert (ear.lines, ear.ended, made.ended_by) == (["gate is failing: value(errors) < 5: 5 is not < 5"], 0, None)
    assert made.ending("it ended") == "it ended"
    made, ear = run_gates("value(errors) < 5", quiet=True)
    made.look(live(9))
    assert ear.lines == []


def test_a_gate_that_is_lost_ends_the_command() -> None:
    """A lost gate ends the command if that is wanted.

    The report comes also in a quiet run, and no gate is looked at any more.
    """
    made, ear = run_gates("value(errors) < 5", "value(errors) < 6", abort=True, quiet=True)
    made.look(live(9))
    made.look(live(9))
    assert (ear.lines, ear.ended) == (["gate failed, stopping the command: value(errors) < 5: 9 is not < 5"], 1)
    assert made.ended_by is not None
    assert made.ending("it ended") == "stopped because the gate value(errors) < 5 failed; it ended"


def test_a_gate_that_makes_no_sense_is_said_and_leaves_the_others(tmp_path: Path) -> None:
    """A gate that makes no sense is reported and is inconclusive at the end.

    The report is worth more than the error.
    """
    run = Making(tmp_path, DEFINITIONS).run(ROWS)
    made, ear = run_gates("p99(errors) < 5", "value(errors) < 9")
    made.look(live(1))
    assert "`errors` is a counter" in ear.lines[0]
    assert ear.lines[0].endswith("^")
    report = made.conclude(run.result)
    assert [result.outcome for result in report.gates] == ["inconclusive", "pass"]
    assert "\n" not in report.gates[0].reason


def test_results_so_far_are_there_while_the_command_runs(tmp_path: Path) -> None:
    """Results so far are on disk for viewers while the command runs. The results at the end take their place."""
    run = Making(tmp_path, DEFINITIONS).run([*ROWS, None])
    assert run.directory is not None
    asked = demands(["value(errors) < 5", "elapsed < 1h"], Config(), tmp_path)
    made, _ = begun(asked, str(run.directory.path), abort=True, quiet=True)
    for errors, outcome in ((4, "pass"), (7, "fail")):
        made.look(live(errors))
        found = read_gates_so_far(run.directory.path)
        assert [(result.expression, result.outcome) for result in found] == [
            ("value(errors) < 5", outcome),
            ("elapsed < 1h", "pass"),
        ]
        assert read_gates(run.directory.path) == []
    made.conclude(run.result)
    assert read_gates_so_far(run.directory.path) == []
    assert [result.outcome for result in read_gates(run.directory.path)] == ["fail", "pass"]


def test_the_end_is_checked_on_the_result_and_written(tmp_path: Path) -> None:
    """The end is checked on the result with the history and written beside the final file."""
    run = Making(tmp_path, DEFINITIONS).run(ROWS)
    made, _ = run_gates("p50(ttft) < 60ms", "p50(ttft) < 60ms in every 1s", "value(errors) == 0")
    report = made.conclude(run.result)
    assert [result.outcome for result in report.gates] == ["pass", "pass", "fail"]
    assert report.gates[1].windows == 4
    assert run.directory is not None
    assert read_gates(run.directory.path) == report.gates
    assert exit_code(report.gates) == 99


def test_the_gate_that_ended_the_command_stays_failed(tmp_path: Path) -> None:
    """The gate that ended the command stays failed, whatever the result says."""
    run = Making(tmp_path, DEFINITIONS).run(ROWS)
    made, _ = run_gates("value(errors) < 5", "lost == 0", abort=True)
    made.look(live(7))
    report = made.conclude(run.result)
    assert [(result.outcome, result.value) for result in report.gates] == [("fail", 7.0), ("pass", 0.0)]
    assert report.gates[0].reason == "7 is not < 5; the command was stopped"
    made, _ = run_gates("value(errors) < 5", abort=True)
    made.look(live(7))
    gone = made.conclude(replace(run.result, snapshot=replace(run.result.snapshot, counters=[])))
    assert [result.outcome for result in gone.gates] == ["fail"]


def test_what_the_result_answers_waits_for_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates that the result answers wait for no history.

    A history would be read as a whole to see whether it is all there.
    """
    run = Making(tmp_path, DEFINITIONS).run([*ROWS, None])
    waited: list[float] = []
    monkeypatch.setattr("telemetry.cli.beside_run.gates._SETTLES_S", 0.0)
    monkeypatch.setattr("telemetry.cli.beside_run.gates.sleep", waited.append)
    monkeypatch.setattr(RecordedRun, "windows", lambda *_, **__: pytest.fail("the history was read"))
    made, _ = run_gates("lost == 0", "value(errors) < 9", "mean(ttft) < 1s", "max(ttft) < 1s")
    assert [result.outcome for result in made.conclude(run.result).gates] == ["pass"] * 4
    assert waited == []


def test_a_directory_that_can_t_be_written_is_said(tmp_path: Path) -> None:
    """The report has them all the same."""
    snapshot = replace(live(1), directory=str(tmp_path / "gone"))
    made, ear = run_gates("value(errors) < 5")
    run = Making(tmp_path, DEFINITIONS).run(ROWS)
    report = made.conclude(replace(run.result, snapshot=snapshot))
    assert [result.outcome for result in report.gates] == ["inconclusive"]
    assert "gates.json: No such file" in ear.lines[-1]


def test_a_baseline_is_read_before_the_run(tmp_path: Path) -> None:
    """`latest` is then the run before this one; without a gate that needs it nothing is read."""
    Making(tmp_path, DEFINITIONS).run(ROWS)
    config = Config(gates=GatesConfig(baseline="latest", confident=True))
    asked = demands(["p50(ttft) <= baseline"], config, tmp_path)
    assert asked.rules.baseline is not None
    assert asked.rules.confident
    assert demands(["lost == 0"], config, tmp_path).rules.baseline is None
    missing = demands(["p50(ttft) <= baseline"], config, tmp_path, baseline="nobody")
    assert "can't read the baseline: no run 'nobody'" in missing.rules.no_baseline


def test_a_baseline_that_is_not_there_is_said_before_the_command_runs(tmp_path: Path) -> None:
    """A missing baseline is reported before the command runs.

    A mistyped name should not cost an hour of waiting.
    """
    asked = demands(["p50(ttft) <= baseline", "lost == 0"], Config(), tmp_path, baseline="nobody")
    for quiet, said in ((False, ["can't read the baseline: no run 'nobody'"]), (True, [])):
        _, ear = begun(asked, quiet=quiet)
        assert [line.partition(" in ")[0] for line in ear.lines] == said
    _, ear = begun(demands(["lost == 0"], Config(), tmp_path))
    assert ear.lines == []


def test_a_calibration_of_the_command_is_used(tmp_path: Path) -> None:
    """Or one that is named, which has to be there."""
    Making(tmp_path, DEFINITIONS).run(ROWS)
    noise = MetricNoise(of="series", statistic="p50", name="ttft", values=[1.0, 1.1] * 5)
    write_calibration(tmp_path, Calibration(name="job", argv=["./job"], cwd="/w", metrics=[noise]))
    own, other = (command_key([word], "/w") for word in ("./job", "./other"))
    words = ["p50(ttft) <= baseline"]
    assert ("p50", "ttft", ()) in demands(words, Config(), tmp_path, command=own, baseline="latest").rules.noise
    assert demands(words, Config(), tmp_path, command=other, baseline="latest").rules.noise == {}
    with pytest.raises(RunNotFoundError):
        demands(words, Config(), tmp_path, baseline="latest", calibration="nobody")
    with pytest.raises(RunNotFoundError):
        demands(["lost == 0"], Config(), tmp_path, calibration="nobody")


def test_a_gate_that_can_t_be_read_stops_everything_before_it_begins() -> None:
    """A gate that can't be read is an error with its caret before anything begins."""
    with pytest.raises(UsageError, match="is not a comparison"):
        demands(["lost = 0"], Config(), Path())


def test_exit_codes() -> None:
    """A failure outweighs what nobody can tell."""
    results = {
        outcome: GateResult(expression="", outcome=outcome, reason="")  # type: ignore[arg-type]
        for outcome in ("pass", "inconclusive", "fail")
    }
    assert exit_code([]) == 0
    assert exit_code([results["pass"]]) == 0
    assert exit_code([results["pass"], results["inconclusive"]]) == 3
    assert exit_code([results["fail"], results["inconclusive"]]) == 99

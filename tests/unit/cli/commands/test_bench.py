"""The bench's loops, sums and lines; that it measures anything real is seen in tests/integration."""

from __future__ import annotations

import os
import time

import pytest

from telemetry.cli.commands import bench
from telemetry.cli.commands.bench import Bench, cost_of, cpu_percent, machine, paced, render
from telemetry.cli.main import main
from telemetry.client.process import ENDPOINT_VARIABLE
from telemetry.wire.snapshot import MetricsSnapshot, SelfCost


def figures(**changes: float) -> Bench:
    known: dict[str, float] = {
        "seconds": 3.0,
        "record_ns": 149.4,
        "record_cpu_ns": 205.2,
        "rate": 100_000,
        "rate_reached": 100_010.0,
        "longest_call_ns": 1_200_000,
        "longest_empty_call_ns": 900_000,
        "recorded": 1_500_000,
        "lost": 0,
        "aggregator_cpu_percent": 3.14,
        "aggregator_rss_bytes": 64 << 20,
        "flood_events_per_s": 3_120_000.0,
        "flood_recorded": 9_360_000,
        "flood_lost": 7,
    }
    return Bench(machine="a machine", **{**known, **changes})  # type: ignore[arg-type]


def snapshot(elapsed_s: float, cpu_s: float) -> MetricsSnapshot:
    return MetricsSnapshot(run_id="r", name="n", elapsed_s=elapsed_s, cost=SelfCost(cpu_s=cpu_s))


def test_every_figure_is_said() -> None:
    """Cost, stall, loss, the aggregator's share and the flood, each with its unit."""
    text = render(figures())
    for words in (
        "a machine",
        "149 ns in the caller; 205 ns of CPU",
        "1.20 ms; 900 µs for an empty function",
        "at 100,000 events/s",
        "lost 0 of 1,500,000; aggregator 3.1 % of a core, 64.0 MiB",
        "3.12 M events/s ingested, lost 7 of 9,360,000",
    ):
        assert words in text


def test_a_rate_that_was_not_reached_is_said() -> None:
    """A slow program is no slow aggregator."""
    assert "reached" not in render(figures())
    assert "produced only 50.0 k events/s" in render(figures(rate_reached=50_000.0))


def test_cpu_is_a_share_of_a_core() -> None:
    """Two snapshots a second apart with 30 ms of CPU between them; none at all between a snapshot and itself."""
    assert cpu_percent(snapshot(0, 1.0), snapshot(1.0, 1.03)) == pytest.approx(3.0)
    assert cpu_percent(snapshot(5, 1.0), snapshot(5, 1.0)) == 0.0


def test_the_paced_loop_counts_its_calls() -> None:
    """A paced loop counts all its calls, at least one burst, and its longest call is one of them."""
    values: list[float] = []
    pace = paced(values.append, rate=20_000, seconds=0.02)
    assert pace.calls == len(values)
    assert pace.calls >= 20
    assert 0 < pace.longest_call_ns <= pace.seconds * 1e9


def test_the_cost_is_for_one_event() -> None:
    """Both figures are positive; there is a round at least, and further ones until the time is over."""
    values: list[float] = []
    wall_ns, cpu_ns = cost_of(values.append, seconds=0.0)
    assert len(values) == 20_000
    assert wall_ns > 0
    assert cpu_ns > 0
    began_s = time.perf_counter()
    cost_of(values.append, seconds=0.1)
    assert time.perf_counter() - began_s >= 0.1


def test_the_machine_is_named() -> None:
    """System, processors and Python are what figures depend on."""
    assert "processor" in machine()
    assert "Python 3." in machine()


@pytest.mark.parametrize(
    "wrong", [["--seconds", "0"], ["--seconds", "1e9"], ["--rate", "0"], ["--rate", "100000000"]]
)
def test_sizes_out_of_range_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the option, exit code 2, and no aggregator is started."""
    assert main(["bench", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_an_endpoint_in_the_environment_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench never joins the run around it, and puts the variable back even if it fails."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, "ipc:///nowhere")
    seen: list[str | None] = []

    def refuse(*_: object, **__: object) -> None:
        seen.append(os.environ.get(ENDPOINT_VARIABLE))
        raise RuntimeError("no")

    monkeypatch.setattr("telemetry.client.start", refuse)
    with pytest.raises(RuntimeError), bench.own_run("drop"):
        pytest.fail("there is no run")
    assert seen == [None]
    assert os.environ[ENDPOINT_VARIABLE] == "ipc:///nowhere"

"""A line a second until the run ends, however its aggregator behaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from telemetry.cli import find_run, plain_viewer
from telemetry.errors import EndpointError, RunDirectoryError
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, State

ENDPOINT = "ipc:///nowhere"
MakeRun = Callable[..., RunDirectory]


def snapshot(applied: int, state: State = "LIVE", **more: float) -> MetricsSnapshot:
    account = Accounting(emitted=applied, received=applied, applied=applied)
    return MetricsSnapshot(
        run_id="aaaa1111",
        name="job",
        state=state,
        completeness="complete",
        accounting=account,
        **more,  # type: ignore[arg-type]
    )


class Aggregators:
    """Aggregators that send the given snapshots to each subscription, then nothing more.

    An error stands for an aggregator that doesn't answer.
    """

    def __init__(self, *lives: Iterable[MetricsSnapshot] | EndpointError) -> None:
        self._lives = list(lives)

    def subscribe(self, endpoint: str, *, timeout_s: float) -> Aggregators.Subscription:
        assert endpoint == ENDPOINT
        life = self._lives.pop(0) if len(self._lives) > 1 else self._lives[0]
        if isinstance(life, EndpointError):
            raise life
        return Aggregators.Subscription(life)

    class Subscription:
        def __init__(self, snapshots: Iterable[MetricsSnapshot]) -> None:
            self._snapshots = iter(snapshots)

        def recv(self, timeout_s: float) -> MetricsSnapshot | None:
            time.sleep(timeout_s)
            return next(self._snapshots, None)

        def close(self) -> None:
            pass


@pytest.fixture
def follow(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[str], str]]:
    """`follow(*lives)`: (lines on stdout, stderr) of the run `job` whose aggregators live so; time is quick."""
    monkeypatch.setattr(plain_viewer, "_LINE_S", 0.01)
    monkeypatch.setattr(plain_viewer, "_SILENT_S", 0.05)
    monkeypatch.setattr("telemetry.limits.LOST_AFTER_S", 0.3)

    def go(*lives: Iterable[MetricsSnapshot] | EndpointError) -> tuple[list[str], str]:
        monkeypatch.setattr("telemetry.transport.subscribe", Aggregators(*lives).subscribe)
        assert plain_viewer.follow(find_run.RunTarget("job", root, ENDPOINT)) == 0
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err

    return go


Follow = Callable[..., tuple[list[str], str]]


def test_lines_until_the_end_and_what_it_came_to(follow: Follow) -> None:
    """One for each snapshot that was the newest of its second, the terminal one among them."""
    out, err = follow([snapshot(1), snapshot(2), snapshot(3, "COMPLETE")])
    assert out[:-1] == ["0:00  1 event", "0:00  2 events", "0:00  3 events"]
    assert out[-1] == "complete: job, 3 of 3 events applied, 0 lost"
    assert err == ""


def test_silence_is_said_and_its_end(follow: Follow) -> None:
    """The aggregator is asked again until it answers; nobody has to start over."""
    nobody = EndpointError("no answer")
    out, err = follow([snapshot(1)], nobody, [snapshot(2), snapshot(3, "COMPLETE")])
    assert len(out) == 4
    assert err.startswith("telemetry: last snapshot 0 s ago\n")
    assert err.endswith("telemetry: snapshots arrive again\n")


def test_a_slow_rhythm_is_no_silence(follow: Follow) -> None:
    """A run that publishes every ten seconds is quiet for that long."""
    still = [snapshot(1, refresh_hz=0.1), *[None] * 20, snapshot(2, "COMPLETE")]
    out, err = follow(still)
    assert (len(out), err) == (3, "")


def test_a_result_on_disk_ends_the_wait(follow: Follow, make_run: MakeRun) -> None:
    """A viewer that missed the end of the run finds the result on disk."""
    make_run("job", "aaaa1111")
    for lives in ([[snapshot(1)], EndpointError("gone")], [EndpointError("gone")]):
        out, _ = follow(*lives)
        assert out[-1] == "complete: job, 7 of 7 events applied, 0 lost"


def test_a_run_that_died_is_given_up(follow: Follow, make_run: MakeRun) -> None:
    """The viewer waits before it gives up, since the aggregator may be started again.

    Then the error names the way to a result.
    """
    make_run("job", "aaaa1111", ended=False, journal=True)
    begun_s = time.monotonic()
    with pytest.raises(RunDirectoryError, match="its aggregator died"):
        follow([snapshot(1)], EndpointError("gone"))
    assert time.monotonic() - begun_s > 0.3


def test_nobody_at_the_address(follow: Follow) -> None:
    """A missing aggregator is an error at the beginning, since there is nothing to wait for."""
    with pytest.raises(EndpointError, match="no answer"):
        follow(EndpointError("no answer"))

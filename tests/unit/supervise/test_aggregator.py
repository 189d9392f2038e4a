"""Keeping an aggregator: when another is started, what it is told, and when there is none any more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry import limits
from telemetry.errors import EndpointError, RunDirectoryError, TelemetryError
from telemetry.supervise import aggregator as keeper_module
from telemetry.supervise import run_files
from telemetry.supervise.aggregator import AggregatorKeeper, death_of
from telemetry.supervise.run_files import FINAL_FILE, RunFiles
from telemetry.supervise.spawn import SpawnedAggregator, StartConditions
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport.keeper_lock import keeper_of
from telemetry.wire.codec import snapshot_to_json
from telemetry.wire.control import Stop, Watch
from telemetry.wire.snapshot import MetricsSnapshot

WaitUntil = Callable[..., Any]
DIES = ["sh", "-c", "kill -SEGV $$"]


class Bench:
    """Aggregators that are `sleep`s, one after the other, and what the keeper says of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.started: list[SpawnedAggregator] = []
        self.errors: list[TelemetryError] = []
        """What the next starts fail with."""
        self.program = ["sleep", "60"]
        self.ending = False
        self.endpoint = f"ipc://{folder}/c"
        self.keeper: AggregatorKeeper | None = None
        (folder / "journal").mkdir()
        (folder / "journal" / "0").write_text("")

    def start(self) -> SpawnedAggregator:
        made = SpawnedAggregator(
            endpoint=self.endpoint,
            snapshots="",
            run_id="r",
            name="job",
            directory=str(self.folder),
            process=subprocess.Popen(self.program),
            conditions=StartConditions({}, None, os.getpid()),
            ending=self.ending,
        )
        self.started.append(made)
        return made

    def restart(self, dead: SpawnedAggregator, timeout_s: float) -> SpawnedAggregator:
        assert dead.gone
        if self.errors:
            raise self.errors.pop(0)
        return self.start()

    def keep(self) -> AggregatorKeeper:
        self.keeper = AggregatorKeeper(self.start(), RunFiles(str(self.folder), "r", "job"), self.said.append)
        return self.keeper

    def kill(self) -> None:
        self.started[-1].process.kill()

    def finalize(self, state: Any = "COMPLETE") -> None:
        snapshot = MetricsSnapshot(run_id="r", name="job", state=state)
        (self.folder / FINAL_FILE).write_bytes(snapshot_to_json(snapshot))

    def close(self) -> None:
        if self.keeper is not None:
            self.keeper.release()
        for made in self.started:
            made.process.kill()
            made.process.wait()


@pytest.fixture
def bench(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(short_dir)
    monkeypatch.setattr(keeper_module, "respawn", made.restart)
    monkeypatch.setattr(run_files.tempfile, "gettempdir", lambda: str(short_dir / "tmp"))
    monkeypatch.setattr(limits, "RESTART_PAUSE_S", 0.001)
    yield made
    made.close()


def test_an_aggregator_that_dies_is_started_again(bench: Bench, wait_until: WaitUntil) -> None:
    """One line says which one died and how; the keeper then holds the other."""
    keeper = bench.keep()
    first = keeper.aggregator
    assert (keeper.gone, keeper.restarts) == (False, 0)
    bench.kill()
    wait_until(lambda: keeper.restarts == 1, what="the restart")
    assert keeper.aggregator is bench.started[1] is not first
    assert bench.said == [f"the aggregator (pid {first.pid}) was killed by SIGKILL; restarted, the run continues"]
    assert (keeper.gone, keeper.lost) == (False, "")


@pytest.mark.parametrize("state", ["COMPLETE", "INTERRUPTED"])
def test_an_aggregator_that_left_a_result_is_not_started_again(
    bench: Bench, wait_until: WaitUntil, state: str
) -> None:
    """A run with a result is over, so its dead aggregator is not replaced.

    The message says that the run has its result.
    """
    keeper = bench.keep()
    bench.finalize(state)
    bench.kill()
    wait_until(lambda: keeper.gone, what="the end")
    died = f"the aggregator (pid {bench.started[0].pid}) was killed by SIGKILL"
    assert bench.said == [f"{died}; the run already has its result, so later events are not in it"]
    assert (len(bench.started), keeper.lost) == (1, "")


def test_an_aggregator_that_came_to_its_end_is_not_spoken_of(bench: Bench, wait_until: WaitUntil) -> None:
    """An aggregator that ended by itself and left the expected result causes no message."""
    bench.program = ["sh", "-c", "exit 0"]
    bench.finalize()
    keeper = bench.keep()
    wait_until(lambda: keeper.gone, what="the end")
    assert (len(bench.started), bench.said, keeper.lost) == (1, [], "")


def test_everybody_can_see_that_a_run_is_kept(
    bench: Bench, short_dir: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is marked as kept while its aggregator is dead, until it is given up or released."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    keeper = bench.keep()
    assert keeper_of("r") == os.getpid()
    bench.errors = [EndpointError("not yet")]
    bench.kill()
    wait_until(lambda: keeper.restarts == 1, what="the restart")
    assert keeper_of("r") == os.getpid()
    bench.errors = [RunDirectoryError("no")]
    bench.kill()
    wait_until(lambda: keeper.gone, what="the end")
    assert keeper_of("r") == 0
    bench.program = ["sleep", "60"]
    another = bench.keep()
    assert keeper_of("r") == os.getpid()
    another.release()
    assert keeper_of("r") == 0


def test_an_aggregator_that_somebody_else_started_is_asked(
    bench: Bench, short_dir: Path, wait_until: WaitUntil
) -> None:
    """An aggregator that a user started by hand has the run after this keeper gave up.

    Requests go to it, and it ends the run with the program.
    """
    (bench.folder / "journal" / "0").unlink()
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.gone, what="giving up")
    assert keeper.deserted
    with FakeAggregator(short_dir) as another:
        assert not keeper.deserted
        keeper.ask(Stop(reason="enough"), 10.0)
        assert [type(request) for request in another.requests] == [Stop]


def test_nothing_is_started_for_nobody(bench: Bench, wait_until: WaitUntil) -> None:
    """The keeper restarts no aggregator after its release, which comes once the report is there."""
    keeper = bench.keep()
    keeper.release()
    bench.kill()
    wait_until(lambda: keeper.gone, what="the end")
    assert (len(bench.started), bench.said) == (1, [])


def test_without_a_journal_there_is_nothing_to_go_on_from(bench: Bench, wait_until: WaitUntil) -> None:
    """A run without a journal can't be restarted, and the keeper says so once."""
    (bench.folder / "journal" / "0").unlink()
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.gone, what="the end")
    died = f"the aggregator (pid {bench.started[0].pid}) was killed by SIGKILL"
    assert keeper.lost == f"{died} and can't be restarted: the run has no journal"
    assert bench.said == [f"{keeper.lost}. Events recorded from now on are lost"]


def test_a_crash_loop_ends(bench: Bench, wait_until: WaitUntil) -> None:
    """Five that die young are enough; each was told, and that there will be no other."""
    keeper = bench.keep()
    bench.program = DIES
    bench.kill()
    wait_until(lambda: keeper.gone, timeout_s=30.0, what="giving up")
    assert len(bench.started) == 1 + limits.RESTARTS
    assert len(bench.said) == limits.RESTARTS + 1
    assert f"(pid {bench.started[1].pid}) was killed by SIGSEGV; restarted" in bench.said[1]
    assert "5 restarts in a row failed" in bench.said[-1]
    assert "5 restarts in a row" in keeper.lost


def test_an_aggregator_that_lasted_has_all_its_restarts_again(
    bench: Bench, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is for a defect that comes back at once, not for a run of a week."""
    monkeypatch.setattr(limits, "RESTART_LASTS_S", 0.0)
    keeper = bench.keep()
    for number in range(limits.RESTARTS + 2):
        bench.kill()
        wait_until(lambda number=number: keeper.restarts == number + 1, what="the restart")
    assert not keeper.gone


@pytest.mark.parametrize("known", ["asked", "found"])
def test_a_run_that_ends_has_no_more_than_its_restarts(
    bench: Bench, short_dir: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    """An aggregator that dies of the end itself lives as long as the drain each time, and whoever waits for the
    result would wait for ever. Somebody asked for the end here, or it was found in the journal."""
    monkeypatch.setattr(limits, "RESTART_LASTS_S", 0.0)
    with FakeAggregator(short_dir):
        keeper = bench.keep()
        if known == "asked":
            keeper.ask(Stop(reason="enough"), 10.0)
        bench.program, bench.ending = DIES, known == "found"
        bench.kill()
        wait_until(lambda: keeper.gone or len(bench.started) > 12, timeout_s=30.0, what="giving up")
    assert len(bench.started) == 1 + limits.RESTARTS
    assert "5 restarts in a row failed" in keeper.lost


@pytest.mark.parametrize("code", [0, 1])
def test_an_aggregator_that_ended_by_itself_is_not_started_again(
    bench: Bench, wait_until: WaitUntil, code: int
) -> None:
    """An aggregator that finished without a result could not write it.

    The next one would fail in the same way, so it is not started.
    """
    bench.program = ["sh", "-c", f"exit {code}"]
    keeper = bench.keep()
    wait_until(lambda: keeper.gone, what="the end")
    assert len(bench.started) == 1
    assert f"exited with code {code} and can't be restarted: it had finished, but left no result" in keeper.lost


def test_a_follower_that_cannot_be_told_anything_is_kept_all_the_same(
    bench: Bench, short_dir: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted aggregator is kept although no descriptor is left for a socket to it. Its process runs."""

    def fail(endpoint: str) -> Any:
        raise EndpointError("Too many open files")

    with FakeAggregator(short_dir):
        keeper = bench.keep()
        keeper.ask(Watch(pid=7), 10.0)
    monkeypatch.setattr(keeper_module, "ControlClient", fail)
    bench.kill()
    wait_until(lambda: keeper.restarts == 1 or keeper.gone, what="the restart")
    assert (keeper.gone, keeper.lost, keeper.aggregator) == (False, "", bench.started[1])


def test_a_start_that_fails_is_tried_again(bench: Bench, wait_until: WaitUntil) -> None:
    """The machine may have no room for a moment."""
    bench.errors = [EndpointError("in use"), EndpointError("was not ready within")]
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.restarts == 1, what="the restart")
    assert len(bench.started) == 2


def test_starts_that_always_fail_end_with_the_last_reason(bench: Bench, wait_until: WaitUntil) -> None:
    """The bound counts them too."""
    bench.errors = [EndpointError(f"number {number}") for number in range(1, 20)]
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.gone, what="giving up")
    assert keeper.lost.endswith("can't be restarted: number 5")
    assert len(bench.said) == 1


def test_what_can_never_succeed_is_tried_once(bench: Bench, wait_until: WaitUntil) -> None:
    """A journal that can't be read will not become readable."""
    bench.errors = [RunDirectoryError("the journal has no intact checkpoint")]
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.gone, what="giving up")
    assert keeper.lost.endswith("can't be restarted: the journal has no intact checkpoint")


def test_a_defect_of_the_keeper_still_lets_everybody_go(
    bench: Bench, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of the keeper ends it, so that a waiting program sees that there is no aggregator."""

    def fail(dead: SpawnedAggregator, timeout_s: float) -> SpawnedAggregator:
        raise MemoryError("none left")

    monkeypatch.setattr(keeper_module, "respawn", fail)
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.gone, what="giving up")
    assert "none left" in keeper.lost


def test_giving_up_takes_the_address_down(bench: Bench, wait_until: WaitUntil) -> None:
    """Producers that end wait for somebody who comes back only as long as the dead one's socket lies there."""
    (bench.folder / "journal" / "0").unlink()
    socket = bench.folder / "c"
    subprocess.run(
        [sys.executable, "-c", f"import socket; socket.socket(socket.AF_UNIX).bind({str(socket)!r})"], check=True
    )
    assert socket.is_socket()
    keeper = bench.keep()
    bench.kill()
    wait_until(lambda: keeper.gone, what="giving up")
    assert not socket.exists()


def test_what_was_asked_is_asked_again_of_the_one_that_follows(
    bench: Bench, short_dir: Path, wait_until: WaitUntil
) -> None:
    """Earlier requests are sent to the next aggregator, too.

    The journal may not have been writable, or no aggregator may have heard them.
    """
    with FakeAggregator(short_dir, epoch="e1") as first:
        keeper = bench.keep()
        keeper.ask(Watch(pid=7), 10.0)
        keeper.ask(Stop(reason="enough"), 10.0)
        assert [type(request) for request in first.requests] == [Watch, Stop]
    with FakeAggregator(short_dir, epoch="e2") as second:
        bench.kill()
        wait_until(lambda: keeper.restarts == 1, what="the restart")
        assert [type(request) for request in second.requests] == [Watch, Stop]
        assert second.requests[1].reason == "enough"  # type: ignore[union-attr]


def test_asking_goes_on_over_a_restart(bench: Bench, short_dir: Path, wait_until: WaitUntil) -> None:
    """The request that a dead aggregator took with it is heard by the next."""
    keeper = bench.keep()
    asking = threading.Thread(target=keeper.ask, args=(Stop(reason="enough"), 30.0))
    asking.start()
    wait_until(lambda: keeper._standing)
    with FakeAggregator(short_dir) as second:
        bench.kill()
        asking.join(30.0)
        assert not asking.is_alive()
        assert any(isinstance(request, Stop) for request in second.requests)


@pytest.mark.slow
def test_asking_ends_when_nobody_is_left(bench: Bench, wait_until: WaitUntil) -> None:
    """A request to an aggregator that is gone is no error, because the report tells its end.

    Silence alone is an error.
    """
    keeper = bench.keep()
    with pytest.raises(EndpointError, match="no aggregator answered at"):
        keeper.ask(Watch(pid=7), 0.1)
    bench.finalize()
    bench.kill()
    keeper.ask(Stop(), 60.0)
    assert keeper.gone


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("os.kill(os.getpid(), 40)", "was killed by signal 40"),
        ("raise SystemExit(1)", "exited with code 1"),
    ],
)
def test_a_death_in_words(bench: Bench, code: str, words: str) -> None:
    """The message on a death names the signal or the exit code."""
    bench.program = [sys.executable, "-c", f"import os; {code}"]
    made = bench.start()
    made.process.wait()
    assert death_of(made) == f"the aggregator (pid {made.pid}) {words}"


def test_a_process_without_threads_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that can't start threads gets an error of the start, not of the interpreter."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(EndpointError, match="can't watch the aggregator:"):
        bench.keep()

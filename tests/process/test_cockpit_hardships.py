"""Tests of the cockpit with killed runs and aggregators, terminals of any size and strange names.

Whatever happens to a viewer, the run is complete in the end and the command's exit code is its own.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from tests.process.conftest import Ground
from tests.process.test_run_tui import assert_tidy, environ, filter_by, open_series, processes, the_viewer
from tests.process.tmux import Tmux

from telemetry import limits
from telemetry.transport import Subscription, subscribe
from telemetry.wire.snapshot import MetricsSnapshot

WAIT_S = 60.0
SEED = 20_261
STOPPED_TICKS = 40
"""Ten of them are a second."""

JOB = """
import os, time, telemetry
parent = os.getppid()
run = telemetry.start("ignored", policy="block")
latency, made = run.series("latency", unit="ms", route="/cart"), 0
late = None
while not os.path.exists("go") and os.getppid() == parent:
    for _ in range(100):
        latency.record(made % 1000 + 0.25)
        made += 1
    if late is None and os.path.exists("later"):
        late = run.counter("late")
        late.add(3)
    time.sleep(0.005)
run.finish()
open("made", "w").write(str(made))
raise SystemExit(7)
"""
"""Records until it is told to end, with code 7; from `later` on, something new as well."""

FAST = JOB.replace("range(100)", "range(1_000)").replace("sleep(0.005)", "sleep(0.01)")

HUSH = """
import os, time, telemetry
parent = os.getppid()
run = telemetry.start("ignored")
while not os.path.exists("begin") and os.getppid() == parent:
    time.sleep(0.01)
if os.path.exists("record"):
    run.series("latency", unit="ms").record(1.5)
run.finish()
raise SystemExit(7)
"""
"""Records nothing until it is told to end; then one value, or none at all."""

MANY = """
import os, time, telemetry
parent = os.getppid()
run = telemetry.start("ignored", policy="block")
strange = ["[bold red]a[/]b[", "{x}[@click=app.quit]", "响应时间" * 10, "two\\nlines\\tand\\x1b[31mmore"]
strange += ["l" * 200, "%s\\u202e$(x)"]
names = [*strange, *(f"s{number:04}" for number in range(2_000 - len(strange)))]
series = [run.series(name, unit="ms", labels={"label": name}) for name in names]
while not os.path.exists("go") and os.getppid() == parent:
    for number, one in enumerate(series):
        one.record(number + 0.5)
    time.sleep(0.2)
run.finish()
raise SystemExit(7)
"""
"""As many series as a run may have, some with names that mean something to terminals and to Textual."""


ENDED = "exit code 7 · complete · 0 lost"
"""What a viewer says of the end: how the command ended, and that its result is whole."""


class Watcher:
    """Snapshots of a live run."""

    def __init__(self, endpoint: str) -> None:
        self._snapshots: Subscription = subscribe(endpoint)

    def next(self) -> MetricsSnapshot:
        snapshot = self._snapshots.recv(WAIT_S)
        assert snapshot is not None
        return snapshot

    def close(self) -> None:
        self._snapshots.close()


@pytest.fixture
def terminals(ground: Ground, require_tool: Callable[[str], str]) -> Iterator[Callable[[], Tmux]]:
    """Opens terminals; `$T` is the command in them, `$PY` the interpreter."""
    require_tool("tmux")
    patient = {"TELEMETRY_EMIT__START_TIMEOUT_S": str(WAIT_S)}
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Tmux(ground.folder, environ(ground) | patient))


def start(ground: Ground, terminal: Tmux, program: str, *flags: str) -> None:
    path = ground.program("job.py", program)
    terminal.type(f"$T run --tui --name job {' '.join(flags)} -- $PY {path}; echo shell saw $?\n")


def attach(terminal: Tmux) -> None:
    terminal.type("$T top; echo viewer left with $?\n")


def leave(terminal: Tmux, key: str, words: str) -> None:
    """Press a key and wait until these words are gone.

    A key typed too soon after Escape would be one key with it.
    """
    terminal.press(key)
    terminal.wait_until(lambda: words not in terminal.screen(), f"the end of {words!r}")


def touch(ground: Ground, name: str) -> None:
    (ground.folder / name).touch()


def assert_whole(ground: Ground, made: int) -> None:
    """All that was recorded is in the result, and the command's exit code is what it was."""
    final = ground.final()
    accounting = final["accounting"]
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["reason"]
    assert accounting["emitted"] == accounting["applied"]
    assert sum(series["count"] for series in final["series"]) == made
    assert final["command"]["exit_code"] == 7


def made(ground: Ground) -> int:
    return int((ground.folder / "made").read_text())


def end(ground: Ground, terminal: Tmux) -> None:
    """The command ends, its viewer shows that, and is left."""
    touch(ground, "go")
    terminal.wait_for("FAILED", ENDED)
    terminal.press("q")
    terminal.wait_for("complete: job, ", "shell saw 7")


def test_a_killed_run_takes_its_viewer_along(
    ground: Ground, terminals: Callable[[], Tmux], wait_until: Callable[..., object]
) -> None:
    """A viewer whose run was killed ends by itself and puts the terminal back.

    Nobody else is there to do so, and the shell has its terminal again.
    """
    terminal = terminals()
    modes = terminal.modes()
    start(ground, terminal, JOB)
    terminal.wait_for("LIVE", "latency")
    (wrapper,) = processes(ground, "--tui")
    os.kill(wrapper, signal.SIGKILL)
    wait_until(lambda: not processes(ground, "top"), WAIT_S, "the viewer's end")
    assert_tidy(terminal, modes)
    terminal.type("echo still $((40 + 2))\n")
    terminal.wait_for("still 42")
    wait_until((ground.folder / "runs" / "latest" / "final_snapshot.json").exists, WAIT_S, "the result")


def test_a_killed_aggregator_with_two_viewers(
    ground: Ground, terminals: Callable[[], Tmux], wait_until: Callable[..., object]
) -> None:
    """Two viewers show what comes after the aggregator was killed and started again, as LIVE.

    In the end both show that nothing was lost.
    """
    inside, beside = terminals(), terminals()
    start(ground, inside, JOB)
    inside.wait_for("LIVE", "latency")
    attach(beside)
    beside.wait_for("LIVE", "latency")
    (live,) = ground.live()
    os.kill(live["pid"], signal.SIGKILL)
    wait_until(lambda: [run for run in ground.live() if run["pid"] != live["pid"]], WAIT_S, "the next aggregator")
    touch(ground, "later")
    for terminal in (inside, beside):
        terminal.wait_for("LIVE", "late ")
        wait_until(
            lambda terminal=terminal: "trying again" not in terminal.screen(), WAIT_S, "the end of a message"
        )
    touch(ground, "go")
    beside.wait_for("FAILED", ENDED)
    beside.press("q")
    beside.wait_for("viewer left with 0")
    end(ground, inside)
    assert_whole(ground, made(ground))
    assert [counter["value"] for counter in ground.final()["counters"]] == [3]


def test_an_aggregator_that_is_gone_for_good(ground: Ground, terminals: Callable[[], Tmux]) -> None:
    """A viewer reports an aggregator that is gone for good, and stays.

    Without a journal no aggregator follows, and the command ends as it would have.
    """
    terminal = terminals()
    modes = terminal.modes()
    start(ground, terminal, JOB, "--no-journal")
    terminal.wait_for("LIVE", "latency")
    (live,) = ground.live()
    os.kill(live["pid"], signal.SIGKILL)
    terminal.wait_for("no aggregator listens at", "latency")
    touch(ground, "go")
    terminal.wait_until(lambda: not processes(ground, "job.py"), "the command's end")
    terminal.press("?")
    terminal.wait_for("show all keys")
    leave(terminal, "q", "show all keys")
    terminal.press("q")
    terminal.wait_for("can't be restarted: the run has no journal", "shell saw 7")
    assert_tidy(terminal, modes)


def test_a_storm_of_sizes(ground: Ground, terminals: Callable[[], Tmux]) -> None:
    """The viewer draws all sizes from one cell to a large screen, on every screen, and is as it was."""
    terminal = terminals()
    modes = terminal.modes()
    start(ground, terminal, JOB)
    terminal.wait_for("LIVE", "latency")
    viewer = the_viewer(ground)
    chance = random.Random(SEED)
    sizes = [(1, 1), (250, 70), (250, 1), (1, 70), (2, 2), (80, 3)]
    sizes += [(chance.randint(1, 250), chance.randint(1, 70)) for _ in range(20 - len(sizes))]
    for key, words in (("", "latency"), ("Enter", "stddev"), ("2", "pid"), ("3", "Log"), ("?", "show all keys")):
        if key == "2":
            leave(terminal, "Escape", "stddev")
        if key:
            terminal.press(key)
        for size in chance.sample(sizes, len(sizes)):
            terminal.resize(*size)
        terminal.resize(100, 30)
        screen = terminal.wait_for(words, "quit")
        assert "failed to draw" not in screen
    leave(terminal, "q", "show all keys")
    terminal.press("1")
    terminal.wait_for("LIVE", "latency")
    assert the_viewer(ground) == viewer
    end(ground, terminal)
    assert_whole(ground, made(ground))
    assert_tidy(terminal, modes)


def test_a_viewer_that_was_stopped_reads_keys_as_before(
    ground: Ground, terminals: Callable[[], Tmux], wait_until: Callable[..., object]
) -> None:
    """However often: all of it is drawn anew, each key counts once, and it is left with one."""
    terminal = terminals()
    start(ground, terminal, FAST)
    terminal.wait_for("LIVE", "latency")
    viewer = the_viewer(ground)
    for _ in range(5):
        os.kill(viewer, signal.SIGSTOP)
        wait_until(lambda: state_of(viewer) == "T", timeout_s=20)
        terminal.wipe()
        os.kill(viewer, signal.SIGCONT)
        terminal.wait_for("LIVE", "Overview", "p99 trend", "quit")
    end(ground, terminal)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_viewer_that_stands_still(ground: Ground, terminals: Callable[[], Tmux]) -> None:
    """The aggregator ticks as ever while a viewer stands still for seconds of a fast run.

    Nothing is lost, and the viewer catches up.
    """
    terminal = terminals()
    start(ground, terminal, FAST)
    terminal.wait_for("LIVE", "latency")
    (live,) = ground.live()
    viewer = the_viewer(ground)
    watcher = Watcher(live["endpoint"])
    os.kill(viewer, signal.SIGSTOP)
    seen = [watcher.next()]
    while seen[-1].cost.ticks < seen[0].cost.ticks + STOPPED_TICKS:
        seen.append(watcher.next())
    os.kill(viewer, signal.SIGCONT)
    watcher.close()
    # Of many the middle one: what else the machine does makes some of them long.
    tick_s = median((b.time_ns - a.time_ns) / 1e9 / (b.cost.ticks - a.cost.ticks) for a, b in pairwise(seen))
    assert tick_s == pytest.approx(1 / seen[0].refresh_hz, rel=0.1)
    assert seen[-1].accounting.applied > seen[0].accounting.applied
    touch(ground, "later")
    terminal.wait_for("LIVE", "late ")
    end(ground, terminal)
    assert_whole(ground, made(ground))


@pytest.mark.parametrize("values", [1, 0])
def test_a_viewer_before_the_first_event(ground: Ground, terminals: Callable[[], Tmux], values: int) -> None:
    """A viewer shows the run before the first event.

    Then it shows the first event when it comes, or a result with nothing in it.
    """
    terminal = terminals()
    start(ground, terminal, HUSH)
    terminal.wait_for("job", "Overview")
    if values:
        touch(ground, "record")
    touch(ground, "begin")
    terminal.wait_for("FAILED", ENDED, *["latency"] * values)
    terminal.press("q")
    terminal.wait_for("complete: job, ", "shell saw 7")
    assert_whole(ground, values)


def test_as_many_series_as_there_may_be(ground: Ground, terminals: Callable[[], Tmux]) -> None:
    """The cockpit finds, opens and scrolls through as many series as there may be.

    Their names may be anything and have no effect.
    """
    terminal = terminals()
    start(ground, terminal, MANY)
    terminal.wait_for("LIVE", "s0001")
    for words, shown in (("[bold", "[bold red]a[/]b["), ("lines", "two")):
        filter_by(terminal, words)
        terminal.wait_until(lambda: "s0001" not in terminal.screen(), "the filter")
        open_series(terminal, shown)
        assert "failed to draw" not in terminal.screen()
        leave(terminal, "Escape", "stddev")
        terminal.press("Escape")  # undoes the filter
        terminal.wait_for("s0001")
    end(ground, terminal)
    assert len(ground.final()["series"]) == limits.SERIES

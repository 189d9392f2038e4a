"""Whose death ends a run."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from telemetry import limits
from telemetry.daemon.process_watch import ProcessWatch, alive

WaitUntil = Callable[..., object]
WAITS = [sys.executable, "-c", "input()"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture(params=["pidfd", "polled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with pidfd, and as on a system that has none."""
    if request.param == "polled":
        monkeypatch.delattr(os, "pidfd_open")
    return str(request.param)


def test_a_run_lives_while_any_of_its_processes_does(way: str, wait_until: WaitUntil) -> None:
    """Each death is told once; only after the last one is the run an orphan."""
    watch = ProcessWatch()
    assert (watch.watching, watch.orphaned, watch.departed()) == (False, False, [])
    with (
        subprocess.Popen(WAITS, stdin=subprocess.PIPE) as first,
        subprocess.Popen(WAITS, stdin=subprocess.PIPE) as second,
    ):
        watch.watch(first.pid)
        watch.watch(second.pid)
        assert (watch.watching, watch.departed()) == (True, [])
        first.kill()
        first.wait()
        assert wait_until(watch.departed) == [first.pid]
        assert (watch.departed(), watch.orphaned) == ([], False)
        second.kill()
        second.wait()
        assert wait_until(watch.departed) == [second.pid]
        assert (watch.orphaned, watch.watching) == (True, True)


def test_a_death_is_seen_before_the_parent_has_collected_it(
    child: subprocess.Popen[bytes], wait_until: WaitUntil
) -> None:
    """A zombie is dead: the parent may be busy for hours."""
    watch = ProcessWatch()
    watch.watch(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    wait_until(watch.departed)
    assert not alive(child.pid)


def test_a_process_that_is_gone_already_is_departed(way: str) -> None:
    """The owner may die before the aggregator has begun."""
    with subprocess.Popen([sys.executable, "-c", ""]) as done:
        done.wait()
    watch = ProcessWatch()
    watch.watch(done.pid)
    assert watch.departed() == [done.pid]
    assert watch.orphaned


def test_alive(way: str, child: subprocess.Popen[bytes]) -> None:
    """Ourselves, a child, the first process (not ours), and numbers that are nobody's."""
    assert alive(os.getpid())
    assert alive(child.pid)
    assert alive(1)
    assert not alive(0)
    assert not alive(-1)


def test_watching_leaks_no_descriptor(child: subprocess.Popen[bytes]) -> None:
    """Asking again and again costs nothing."""
    before = os.listdir("/proc/self/fd")
    watch = ProcessWatch()
    for _ in range(50):
        watch.watch(child.pid)
        assert alive(child.pid)
    del watch
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_process_with_thousands_of_descriptors_can_still_look(child: subprocess.Popen[bytes]) -> None:
    """An aggregator of a thousand producers has descriptors beyond 1,023, which `select` can't take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip("this machine allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    taken: list[int] = []
    try:
        while not taken or taken[-1] < 1_100:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        watch = ProcessWatch()
        watch.watch(child.pid)
        assert watch.departed() == []
        assert alive(child.pid)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_number_of_watched_processes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a descriptor; who is watched already may be named again."""
    monkeypatch.setattr(limits, "PROCESSES_WATCHED", 2)
    watch = ProcessWatch()
    assert watch.watch(os.getpid())
    assert watch.watch(1)
    assert not watch.watch(os.getppid())
    assert watch.watch(1)

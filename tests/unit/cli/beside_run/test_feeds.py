"""Feeds beside an aggregator: real children."""

from __future__ import annotations

import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from telemetry import limits
from telemetry.cli.beside_run.feeds import Feeds, check_feeds, feed_command
from telemetry.cli.beside_run.participants import BegunRun
from telemetry.errors import UsageError

WaitUntil = Callable[..., object]
FEED = "endpoints:ipc:///x"
RUN = BegunRun("job", "ipc:///run", "runs/job")
SAYS = "import sys; print('telemetry: a\\x1bb', file=sys.stderr); print(file=sys.stderr)"
WAITS = """
import signal, sys, time
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", file=sys.stderr, flush=True)
time.sleep(60)
"""
MASKED = """
import signal, sys
print(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, []), file=sys.stderr)
"""
HANGS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("hangs", file=sys.stderr, flush=True)
time.sleep(60)
"""
DIES = "import os, sys; print('there', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"


class Nearby:
    """A feeding whose feeds are another program, and what they say."""

    def __init__(self) -> None:
        self.said: queue.Queue[str] = queue.Queue()
        self.feeding: Feeds | None = None

    def begin(self, program: str) -> Feeds:
        def command(feed: str, endpoint: str, *, texts: bool, beside: int) -> list[str]:
            return [sys.executable, "-c", program]

        self.feeding = Feeds([FEED], self.said.put, command=command)
        self.feeding.begin(RUN)
        return self.feeding

    def hear(self) -> str:
        return self.said.get(timeout=30.0)


@pytest.fixture
def nearby() -> Iterator[Nearby]:
    made = Nearby()
    yield made
    if made.feeding is not None:
        made.feeding.end()


def test_the_command_line() -> None:
    """The feed and the run; texts only where somebody counts them."""
    assert feed_command(FEED, "ipc:///r", texts=True) == [
        *(sys.executable, "-P", "-m", "telemetry", "feed"),
        *(FEED, "ipc:///r"),
    ]
    assert feed_command(FEED, "ipc:///r", texts=False)[-1] == "--no-texts"
    assert feed_command(FEED, "ipc:///r", texts=True, beside=7)[-2:] == ["--beside", "7"]


def test_wrong_feeds_are_refused_before_anything_begins() -> None:
    """One that nobody knows, and one that would count twice."""
    check_feeds([FEED, "endpoints"])
    for wrong in (
        ["nobody:ipc:///x"],
        [FEED, FEED],
        ["endpoints:tcp://127.0.0.1"],
        [FEED, "endpoints:tcp://h:99999"],
    ):
        with pytest.raises(UsageError):
            Feeds(wrong)


def test_without_feeds_nothing_happens() -> None:
    """A run without feeds, as most are, starts nothing and has no failure."""
    with Feeds([]) as feeding:
        feeding.begin(RUN)
    assert not feeding.failed


def test_what_a_feed_says_is_passed_on(nearby: Nearby) -> None:
    """Printable, and without who says it."""
    nearby.begin(SAYS)
    assert nearby.hear() == "a\\x1bb"


def test_it_is_asked_to_end(nearby: Nearby) -> None:
    """A feed that is asked to end writes no word about a good end. A second request changes nothing."""
    feeding = nearby.begin(WAITS)
    assert nearby.hear() == "ready"
    feeding.end()
    feeding.end()
    assert nearby.said.empty()
    assert not feeding.failed


def test_it_ends_on_its_own_terms_even_if_it_has_hardly_begun(nearby: Nearby) -> None:
    """A signal to end waits until it can be heeded."""
    nearby.begin(MASKED)
    assert nearby.hear() == "True"
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_those_that_hang_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is killed at once when the first has used up the time of all."""
    patience: list[float] = []
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "telemetry-feed" and timeout is not None:
            patience.append(timeout)
        join(thread, timeout)

    monkeypatch.setattr("telemetry.cli.beside_run.feeds._LAST_WORDS_S", 0.05)
    monkeypatch.setattr(threading.Thread, "join", joined)
    said: queue.Queue[str] = queue.Queue()
    feeding = Feeds([FEED, f"{FEED}2"], said.put, command=lambda *_, **__: [sys.executable, "-c", HANGS])
    feeding.begin(RUN)
    assert [said.get(timeout=30.0) for _ in range(2)] == ["hangs", "hangs"]
    feeding.end()
    assert [timeout < 0.05 for timeout in patience] == [True, False, True, False]
    assert patience[2] == 0.0
    assert feeding.failed


def test_one_that_fails_is_said(nearby: Nearby) -> None:
    """A feed that fails is reported with its code and is not started again, as it would fail as well."""
    feeding = nearby.begin("import sys; sys.exit(3)")
    assert nearby.hear() == f"{FEED}: the feed exited with code 3"
    feeding.end()
    assert feeding.failed


def test_one_of_several_that_fails_is_enough() -> None:
    """However well the others end."""
    programs = {FEED: "import sys; sys.exit(6)", f"{FEED}2": ""}
    said: queue.Queue[str] = queue.Queue()
    feeding = Feeds(list(programs), said.put, command=lambda feed, *_, **__: [sys.executable, "-c", programs[feed]])
    with feeding:
        feeding.begin(RUN)
    assert feeding.failed


def test_one_that_is_killed_is_started_again_a_few_times(nearby: Nearby) -> None:
    """A feed that is killed is started again a few times, and then stays ended."""
    feeding = nearby.begin(DIES)
    for number in range(limits.RESTARTS + 1):
        assert nearby.hear() == "there"
        again = "; it is started again" if number < limits.RESTARTS else ""
        assert nearby.hear() == f"{FEED}: the feed was killed by signal 9{again}"
    feeding.end()
    assert feeding.failed

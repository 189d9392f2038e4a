"""The thread of one collector: beat, errors, absence, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct
from tests.unit.collectors.conftest import Recorded

from telemetry.collectors.collector import NotAvailable, NotConfigured
from telemetry.collectors.process import Sampler


class Counting:
    """A collector that counts its calls, and raises in some of them."""

    class Options(Struct):
        """Options of a collector that has none."""

    interval_s = 0.1

    def __init__(self, fails: Callable[[int], bool] = lambda _number: False) -> None:
        self.calls: list[float] = []
        self.closed = False
        self._fails = fails

    def sample(self, run: Any) -> None:
        self.calls.append(time.monotonic())
        if self._fails(len(self.calls)):
            raise ValueError(f"call {len(self.calls)}\nfailed")

    def close(self) -> None:
        self.closed = True


class Watched:
    """A sampler, and what it said."""

    def __init__(
        self, recorded: Recorded, make: Callable[[], Any], *, asked_for: bool = True, hangs_s: float = 60.0
    ) -> None:
        self.said: list[str] = []
        self.sampler = Sampler(
            "counting",
            make,
            recorded.run,
            self.said.append,
            interval_s=1.0,
            asked_for=asked_for,
            pause_s=0.01,
            hangs_s=hangs_s,
        )

    def end(self) -> None:
        self.sampler.ask_to_end()
        self.sampler.join(30)
        assert not self.sampler.is_alive()


def test_samples_come_at_once_at_their_interval_and_at_the_end(
    recorded: Recorded, wait_until: Callable[..., object]
) -> None:
    """The first one does not wait, and the last one has the end of the run in it."""
    made = Counting()
    watched = Watched(recorded, lambda: made)
    watched.sampler.start()
    wait_until(lambda: len(made.calls) >= 3)
    taken = len(made.calls)
    watched.end()
    assert len(made.calls) > taken
    assert made.calls[2] - made.calls[0] >= 0.19
    assert (made.closed, watched.sampler.samples, watched.said) == (True, len(made.calls), [])
    assert (watched.sampler.failed, watched.sampler.conclusion()) == (False, "")


def test_a_sampler_that_is_asked_to_end_first_takes_one_sample(recorded: Recorded) -> None:
    """A short run has the figures of its end."""
    made = Counting()
    watched = Watched(recorded, lambda: made)
    watched.sampler.ask_to_end()
    watched.sampler.start()
    watched.end()
    assert len(made.calls) == 1


def test_errors_are_said_once_and_counted(recorded: Recorded, wait_until: Callable[..., object]) -> None:
    """Samples go on, and the end has the number. A collector that works again has not failed."""
    made = Counting(fails=lambda number: number in (2, 3, 5))
    watched = Watched(recorded, lambda: made)
    watched.sampler.start()
    wait_until(lambda: len(made.calls) >= 6)
    watched.end()
    assert watched.said == ["a sample failed: ValueError: call 2 failed; it is tried again"]
    taken = len(made.calls)
    assert watched.sampler.conclusion() == (
        f"3 of {taken} samples failed; the last error: ValueError: call 5 failed"
    )
    assert watched.sampler.failed is False


def test_a_collector_that_fails_to_the_end_has_failed_if_asked_for(
    recorded: Recorded, wait_until: Callable[..., object]
) -> None:
    """One that is on by default has not: nobody relies on it. The pauses between its attempts grow."""
    for asked_for in (True, False):
        made = Counting(fails=lambda _number: True)
        watched = Watched(recorded, lambda made=made: made, asked_for=asked_for)  # type: ignore[misc]
        watched.sampler.start()
        wait_until(lambda made=made: len(made.calls) >= 4)  # type: ignore[misc]
        watched.end()
        assert watched.sampler.failed is asked_for
        assert made.closed
        first, second, third = (later - one for one, later in zip(made.calls, made.calls[1:4], strict=False))
        assert (first >= 0.009, second >= 0.019, third >= 0.039) == (True, True, True)


@pytest.mark.parametrize(
    ("error", "asked_for", "said"),
    [
        (NotAvailable("no driver", "install it"), True, ["no driver (install it)"]),
        (NotAvailable("no driver"), False, []),
        (NotConfigured("url is missing", hint="write url=URL"), False, ["url is missing (write url=URL)"]),
        (KeyError("x"), False, ["can't start: KeyError: 'x'"]),
        (KeyboardInterrupt(), False, ["can't start: KeyboardInterrupt"]),
    ],
)
def test_a_collector_that_can_not_start_is_absent(
    error: BaseException, asked_for: bool, said: list[str], recorded: Recorded
) -> None:
    """The absence has no message if the machine lacks what a default collector observes."""

    def make() -> Any:
        raise error

    watched = Watched(recorded, make, asked_for=asked_for)
    watched.sampler.start()
    watched.end()
    assert (watched.said, watched.sampler.is_absent, watched.sampler.failed) == (said, True, asked_for)


@pytest.mark.slow
def test_a_collector_that_hangs_has_failed(recorded: Recorded, wait_until: Callable[..., object]) -> None:
    """A hanging call is a failure, also after samples that worked, and the end reports it.

    A call that takes only a moment is none.
    """
    release, hangs = threading.Event(), threading.Event()

    class Hanging(Counting):
        def sample(self, run: Any) -> None:
            super().sample(run)
            if len(self.calls) == 3:
                hangs.set()
                release.wait()

    watched = Watched(recorded, Hanging, hangs_s=2.0)
    watched.sampler.start()
    wait_until(hangs.is_set)
    watched.sampler.ask_to_end()
    assert (watched.sampler.failed, watched.sampler.conclusion()) == (False, "")
    wait_until(lambda: watched.sampler.failed, 30.0)
    assert watched.sampler.conclusion().startswith("it hangs: a call has not returned for 2")
    release.set()
    watched.end()
    assert (watched.sampler.failed, watched.sampler.samples, watched.sampler.conclusion()) == (False, 4, "")


@pytest.mark.parametrize("interval_s", [None, "often"])
def test_an_interval_that_is_no_number_is_an_error(
    interval_s: Any, recorded: Recorded, wait_until: Callable[..., object]
) -> None:
    """The message says so, and samples go on."""
    made = Counting()
    made.interval_s = interval_s
    watched = Watched(recorded, lambda: made)
    watched.sampler.start()
    wait_until(lambda: len(made.calls) >= 2)
    watched.end()
    assert len(watched.said) == 1
    assert watched.said[0].endswith("; it is tried again")
    assert watched.sampler.failed


def test_a_collector_that_exits_ends_only_itself(recorded: Recorded, wait_until: Callable[..., object]) -> None:
    """`sys.exit` in a sample is an error like any other: a thread would end without a word."""

    class Exiting(Counting):
        def sample(self, run: Any) -> None:
            super().sample(run)
            raise SystemExit(5)

    watched = Watched(recorded, Exiting)
    watched.sampler.start()
    wait_until(lambda: watched.sampler.failures >= 2)
    watched.end()
    assert watched.said == ["a sample failed: SystemExit: 5; it is tried again"]
    assert watched.sampler.failed

"""Observers of other libraries: their faults, calls within calls, and threads."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.integrations.capture.patched_library import Library, Seen

import telemetry
from telemetry.integrations.capture.patching import Observers, Patch


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_an_observer_that_fails_is_reported_once(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """An observer that fails is reported once for each function. The calls still return their results."""
    observers = Observers("library")

    def observe(*_: Any) -> None:
        raise ValueError("odd")

    for name in ("put", "inherited"):
        Patch(library.Writer, name, observers.after(observe, f"Writer.{name}")).install()
    for _ in range(3):
        assert library.Writer().put("a") == "a=0.0"
    assert library.Writer().inherited(1) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"telemetry: library: a call of Writer.{name} was not recorded: ValueError: odd. The program goes on; this "
        "warning appears once"
        for name in ("put", "inherited")
    ]


def test_every_call_that_was_not_recorded_is_counted(library: Library, tmp_path: Path) -> None:
    """The run is not complete then."""

    def observe(*_: Any) -> None:
        raise ValueError("odd")

    Patch(library.Writer, "put", Observers("library").after(observe, "Writer.put")).install()
    with telemetry.start("job", dir=tmp_path) as run:
        for _ in range(3):
            library.Writer().put("a")
    (producer,) = run.report.snapshot.producers
    assert producer.dropped_by_producer == {"unencodable": 3}
    assert run.report.completeness == "lossy"


def test_calls_without_a_run_are_not_counted_in_a_later_one(library: Library, tmp_path: Path) -> None:
    """Calls that an observer fails on before a run leave the later run complete.

    No run would have recorded them.
    """

    def observe(*_: Any) -> None:
        raise ValueError("odd")

    Patch(library.Writer, "put", Observers("library").after(observe, "Writer.put")).install()
    library.Writer().put("a")
    with telemetry.start("job", dir=tmp_path) as run:
        telemetry.mark("something")
    assert run.report.completeness == "complete"


def test_an_observer_whose_report_fails_reaches_nobody(library: Library) -> None:
    """The program's own filter, and an error without a text."""

    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Refusing(logging.Filter):
        def filter(self, _: logging.LogRecord) -> bool:
            raise RuntimeError

    def observe(*_: Any) -> None:
        raise errors.pop()

    errors: list[Exception] = [ValueError("x"), Wordless()]
    ours, refusing = logging.getLogger("telemetry.client"), Refusing()
    ours.addFilter(refusing)
    try:
        for what in ("first", "second"):
            patch = Patch(library.Writer, "put", Observers("library").after(observe, what))
            patch.install()
            assert library.Writer().put("a") == "a=0.0"
            patch.remove()
    finally:
        ours.removeFilter(refusing)
    assert not errors


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interruption_of_an_observer_ends_the_program(library: Library, error: type[BaseException]) -> None:
    """Ctrl-C is never swallowed."""

    def observe(*_: Any) -> None:
        raise error

    Patch(library.Writer, "put", Observers("library").after(observe, "put")).install()
    with pytest.raises(error):
        library.Writer().put("a")


def test_calls_from_within_a_call_are_not_observed(library: Library, seen: Seen) -> None:
    """A call from within an observed call is not observed: `add_hparams` calls `add_scalar`."""

    class Nested(library.Writer):  # type: ignore[name-defined,misc]
        def both(self) -> str:
            return str(self.put("inner"))

    for name in ("both", "put"):
        seen.patch(Nested, name).install()
    Nested().both()
    Nested().put("outer")
    assert [call[0] for call in seen.calls] == ["inner=0.0", "outer=0.0"]
    assert len(seen.calls) == 2


def test_calls_of_an_observer_are_not_observed(library: Library) -> None:
    """Calls of an observer are not observed.

    Otherwise an observer that logs through the library would call itself.
    """
    calls: list[str] = []

    def observe(result: str, writer: Any, *_: Any) -> None:
        calls.append(result)
        writer.put("from the observer")

    Patch(library.Writer, "put", Observers("library").after(observe, "put")).install()
    library.Writer().put("a")
    assert calls == ["a=0.0"]


def test_a_call_in_one_thread_hides_none_in_another(library: Library, seen: Seen) -> None:
    """The guard is one of each thread."""
    inside, may_end = threading.Event(), threading.Event()

    class Slow(library.Writer):  # type: ignore[name-defined,misc]
        def slow(self) -> None:
            inside.set()
            assert may_end.wait(30)

    for name in ("slow", "put"):
        seen.patch(Slow, name).install()
    thread = threading.Thread(target=Slow().slow)
    thread.start()
    assert inside.wait(30)
    Slow().put("meanwhile")
    may_end.set()
    thread.join()
    assert [call[0] for call in seen.calls] == ["meanwhile=0.0", None]


def test_two_threads_see_all_calls_while_a_third_installs_and_removes(library: Library, seen: Seen) -> None:
    """No call is lost between two states while another thread installs and removes a patch."""
    always, sometimes = seen.patch(library.Writer, "put"), Seen().patch(library.Writer, "put")
    always.install()

    def put() -> None:
        for number in range(3_000):
            library.Writer().put(str(number))

    threads = [threading.Thread(target=put) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        sometimes.install()
        sometimes.remove()
    for thread in threads:
        thread.join()
    assert len(seen.calls) == 6_000
